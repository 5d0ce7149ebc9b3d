#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""live_cost.py PROGRAM [SECONDS]: what the thread of the live page takes, in a program that prints "ready" and then
waits for the end of its standard input, such as build/tests/holding.

Prints the share of one processor that the thread used, its updates per second, and processor time per update.
"""
import glob
import os
import struct
import subprocess
import sys
import tempfile
import time

UPDATES = 640  # offset in a page: docs/live-page.md


def thread_ns(pid):
    """Processor time of the thread vram-live so far."""
    for task in glob.glob(f"/proc/{pid}/task/*"):
        with open(f"{task}/comm", encoding="ascii") as stream:
            if stream.read() == "vram-live\n":
                with open(f"{task}/schedstat", encoding="ascii") as figures:
                    return int(figures.read().split()[0])
    sys.exit("the program has no thread vram-live")


def updates(path):
    with open(path, "rb") as stream:
        return struct.unpack_from("=Q", stream.read(), UPDATES)[0]


def measure(command, seconds, folder):
    env = dict(os.environ, XDG_RUNTIME_DIR=folder, VRAM_LIVE="on")
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "ready\n"
        time.sleep(1)
        page = glob.glob(f"{folder}/vram/{child.pid}-*.page")[0]
        began, used, count = time.monotonic(), thread_ns(child.pid), updates(page)
        time.sleep(seconds)
        took, used, count = time.monotonic() - began, thread_ns(child.pid) - used, updates(page) - count
        child.stdin.close()
    print(f"{' '.join(command)}: {used / took / 1e7:.4f} % of a processor, {count / took:.1f} updates a second, "
          f"{used / max(count, 1) / 1e3:.1f} us each")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        last = sys.argv[-1]
        measure(sys.argv[1:-1] if last.isdigit() else sys.argv[1:], int(last) if last.isdigit() else 10, place)
