#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""users_test.py VRAM: root sees the live pages of all users, and none of them speaks for a process of another.

Needs root, and a user's folder in /dev/shm; exit code 77 (skipped) without.
"""
import contextlib
import json
import os
import shutil
import struct
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "monitor"))
import pages  # noqa: E402

USER, OTHER = 65529, 65530  # nobody has these
FOLDER = f"/dev/shm/vram-{USER}"


def put(pid):
    """A page of that process in the folder of USER; it says that it is of another one's."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as stream:
        start = int(stream.read().rsplit(")", 1)[1].split()[19])
    data = bytearray(pages.page(pid, "a program", user=7))
    space = os.stat("/proc/self/ns/pid").st_ino
    struct.pack_into("=2Q", data, 24, start, space)
    path = f"{FOLDER}/{pid}-{start}-{space}.page"
    with open(path, "wb") as stream:
        stream.write(data)


def said(vram, *words):
    env = {name: value for name, value in os.environ.items() if name != "XDG_RUNTIME_DIR" and not name.startswith("VRAM_")}
    return subprocess.run([vram, *words], env=env, capture_output=True, text=True, timeout=60, check=False)


def seen(vram, pid):
    """The users of the rows that root sees for a process."""
    rows = json.loads(said(vram, "top", "--once", "--json", "--pages-only").stdout)["processes"]
    return [row["user"] for row in rows if row["pid"] == pid]


def folders(vram, pid):
    """A folder that is not its user's own, or that others may write, is not looked at."""
    for change, undo in ((lambda: os.chown(FOLDER, OTHER, OTHER), lambda: os.chown(FOLDER, USER, USER)),
                         (lambda: os.chmod(FOLDER, 0o770), lambda: os.chmod(FOLDER, 0o700)),
                         (lambda: os.chmod(FOLDER, 0o702), lambda: os.chmod(FOLDER, 0o700))):
        change()
        assert not seen(vram, pid), oct(os.stat(FOLDER).st_mode)
        undo()
    for name in (f"{FOLDER}x", "/dev/shm/vram-", "/dev/shm/vram-4294967295"):
        if not os.path.exists(name):
            os.rename(FOLDER, name)
            found = seen(vram, pid)
            os.rename(name, FOLDER)
            assert not found, name
    os.rename(FOLDER, f"{FOLDER}.kept")
    os.symlink(f"{FOLDER}.kept", FOLDER)
    found = seen(vram, pid)
    os.unlink(FOLDER)
    os.rename(f"{FOLDER}.kept", FOLDER)
    assert not found, "a link"


def main(vram):
    if os.geteuid() != 0:
        print("skipped: only root sees the pages of all users")
        return 77
    try:
        os.mkdir(FOLDER, 0o700)
        os.chown(FOLDER, USER, USER)
    except OSError as error:
        print(f"skipped: {error}")
        return 77
    with contextlib.ExitStack() as ends:
        ends.callback(shutil.rmtree, FOLDER)
        child = ends.enter_context(subprocess.Popen(["sleep", "600"], user=USER, group=USER, extra_groups=[]))
        ends.callback(child.kill)
        put(child.pid)
        assert seen(vram, child.pid) == [str(USER)], seen(vram, child.pid)  # whatever the page says
        folders(vram, child.pid)
        put(os.getpid())
        assert not seen(vram, os.getpid()), "a user speaks for a process of root"
        text = said(vram, "report", "--pid", str(os.getpid())).stderr
        assert "the process is another user's" in text, text
        child.kill()
        child.wait()
        assert not seen(vram, child.pid) and len(os.listdir(FOLDER)) == 1, os.listdir(FOLDER)
    print("passed")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
