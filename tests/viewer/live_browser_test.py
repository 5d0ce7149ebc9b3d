#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""live_browser_test.py VRAM LIVING [PICTURES]: the page of `vram report --serve` in Chromium, by live_browser.mjs, while
a program of libvram (living.c) goes on and ends. Skipped without Node, Chromium or playwright-core (tools/viewer
installs it), or an HTTP server in VRAM. PICTURES is a folder for screenshots."""
import os
import shutil
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
from browser_test import HERE, ROOT, skip  # noqa: E402


def browse(node, script, chromium, url, living, pictures):
    """Runs the script, ends the program when it asks for that, and returns its exit code."""
    with subprocess.Popen([node, script, chromium, url, *pictures], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as child:
        for line in child.stdout:
            print(line, end="")
            if line == "end it\n":
                living.stdin.close()
                living.wait(30)
                child.stdin.close()
        return child.wait()


def main():
    vram, tools, *pictures = sys.argv[1:]
    node = shutil.which("node")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    modules = os.path.join(ROOT, "viewer", "node_modules")
    if not node or not chromium:
        return skip("node and chromium are needed")
    if not os.path.isdir(os.path.join(modules, "playwright-core")):
        return skip("run tools/viewer once")
    with tempfile.TemporaryDirectory() as runtime:
        settings = {**os.environ, "XDG_RUNTIME_DIR": runtime, "VRAM_LIVE": "on", "VRAM_TRACKING": "on",
                    "VRAM_TRACK_STACKS": "1"}
        script = os.path.join(modules, ".vram-live-browser-test.mjs")
        shutil.copy(os.path.join(HERE, "live_browser.mjs"), script)
        living = subprocess.Popen([tools, "viewer_living"], env=settings, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            assert living.stdout.readline() == "ready\n"
            time.sleep(0.5)
            server = subprocess.Popen([vram, "report", "--serve", "--pid", str(living.pid)], env=settings,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            url = server.stdout.readline().strip()
            if not url:
                said = server.communicate()[1]
                return skip(said.strip()) if "no HTTP server" in said else print(said) or 1
            code = browse(node, script, chromium, url, living, pictures)
            assert server.wait(30) == 0
            return code
        finally:
            os.unlink(script)
            if living.poll() is None:
                living.kill()


if __name__ == "__main__":
    sys.exit(main())
