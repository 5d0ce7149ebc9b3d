#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""modes_test.py PROBE VRAM SHARE LEASE: everything that the library and the command make is for its owner alone.

With umask 0 nothing else restricts a mode. Programs write traces, reports of leaks, live pages, sockets, locks and
pictures, while the folder is looked at every two milliseconds, so that what exists for a moment counts too.
"""
import os
import stat
import subprocess
import sys
import tempfile
import threading
import time


def kind(mode):
    return {stat.S_IFDIR: "folder", stat.S_IFSOCK: "socket", stat.S_IFLNK: "link"}.get(stat.S_IFMT(mode), "file")


class Watch(threading.Thread):
    """The widest mode of every path below a folder."""

    def __init__(self, folder):
        super().__init__(daemon=True)
        self.folder, self.seen, self.ended = folder, {}, threading.Event()

    def look(self):
        for place, folders, files in os.walk(self.folder):
            for name in folders + files:
                path = os.path.join(place, name)
                try:
                    mode = os.lstat(path).st_mode
                except OSError:
                    continue
                if not stat.S_ISLNK(mode):
                    key = (kind(mode), os.path.relpath(path, self.folder))
                    self.seen[key] = self.seen.get(key, 0) | stat.S_IMODE(mode)

    def run(self):
        while not self.ended.is_set():
            self.look()
            time.sleep(0.002)


def main(probe, vram, share, lease):
    os.umask(0)
    with tempfile.TemporaryDirectory() as outer:
        folder = os.path.join(outer, "all")
        os.mkdir(folder, 0o700)
        os.mkdir(f"{folder}/share", 0o700)
        watch = Watch(folder)
        watch.start()
        environment = {**os.environ, "XDG_RUNTIME_DIR": folder, "HOME": folder, "VRAM_BACKENDS": "host,sim",
                       "VRAM_SHARE_DIR": f"{folder}/share", "VRAM_BROKER": vram, "VRAM_LIVE": "on"}
        traced = {**environment, "VRAM_TRACE": f"{folder}/trace.vrt", "VRAM_LEAKS": "text", "VRAM_LEAK_EXIT": "on",
                  "VRAM_LEAK_FILE": f"{folder}/leaks.txt", "VRAM_TRACKING": "on"}
        commands = [(traced, [probe]),
                    (environment, [share]),
                    (environment, [lease]),
                    (environment, [vram, "report", f"{folder}/trace.vrt", "--format", "html", "-o", f"{folder}/page.html"]),
                    (environment, [vram, "report", f"{folder}/trace.vrt", "--format", "csv", "-o", f"{folder}/trace.csv"]),
                    (environment, [vram, "replay", "--generate", "queues,steps=2", "--backend", "sim", "--policy", "vram",
                                   "--svg", f"{folder}/picture.svg", "--html", f"{folder}/replay.html"]),
                    (environment, [vram, "run", "-o", f"{folder}/run.vrt", "--", probe])]
        wrong = []
        for variables, command in commands:
            done = subprocess.run(command, env=variables, capture_output=True, text=True,
                                  timeout=60, check=False, cwd=folder)
            if done.returncode not in (0, 1):
                wrong.append(f"{' '.join(command)}: exit code {done.returncode}: {done.stderr[:300]}")
        watch.ended.set()
        watch.join()
        watch.look()
        wrong += [f"{what} {path}: mode {mode:o}" for (what, path), mode in sorted(watch.seen.items()) if mode & 0o077]
        kinds = [what for what, _ in watch.seen]
        for path in ("trace.vrt", "leaks.txt", "page.html", "trace.csv", "picture.svg", "replay.html"):
            if ("file", path) not in watch.seen:
                wrong.append(f"{path} was not made")
        if "socket" not in kinds:
            wrong.append("no socket was seen")
    print("\n".join(wrong) or f"{kinds.count('file')} files, {kinds.count('socket')} sockets, {kinds.count('folder')} "
          "folders: none for others")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
