#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""preload_test.py BUILD: the library of `vram run` in front of programs that have nothing to do with GPUs.

They say and return what they do without it, with and without `vram run`, and start as fast.
"""
import os
import shutil
import subprocess
import sys
import tempfile
import time

BUILD = os.path.abspath(sys.argv[1])
LIBRARY, VRAM = os.path.join(BUILD, "libvram-run.so"), os.path.join(BUILD, "vram")
# What a system has; of those that it lacks nobody asks.
NAMES = """awk base64 basename bash bc bzip2 cat chmod cksum cmake cmp comm cp cut date dash dd df diff dirname du echo env
expand expr false file find fmt fold g++ gcc gdb git gpg grep gzip head id install join ld less ln ls make md5sum mkdir
mktemp mv nice nl nm nohup nproc objdump od openssl paste patch perl pr printf python3 readelf readlink realpath rm rmdir
sed seq sh sha256sum shuf sleep sort split ssh stat strace strip stty sum tac tail tar tee test touch tr true truncate tty
uname unexpand uniq valgrind vim wc which whoami xargs xz yes zstd""".split()
SLOWER = 0.010  # s, the most that a start may take longer


def run(words, **more):
    env = dict(os.environ, LC_ALL="C", **more)
    done = subprocess.run(words, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


def start_seconds(**more):
    best = 1.0
    for _ in range(20):
        began = time.perf_counter()
        run(["/bin/true"], **more)
        best = min(best, time.perf_counter() - began)
    return best


def main():
    tried = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in NAMES:
            path = shutil.which(name)
            if not path or os.stat(path).st_mode & 0o6000:
                continue
            words = [path, "--version"]
            if name in ("test", "true", "false", "yes", "echo", "printf"):
                words = [path, "-f", "/nonexistent"] if name == "test" else [path, "--help"]
            plain = run(words)
            assert run(words, LD_PRELOAD=LIBRARY) == plain, name
            tried += 1
        for words in (["/bin/sh", "-c", "echo hello; exit 3"], [sys.executable, "-c", "print(1)"], ["/bin/ls", folder]):
            plain = run(words)
            watched = run([VRAM, "run", "-q", "-o", f"{folder}/t.vrt", "--", *words])
            assert watched == plain, (words, plain, watched)
            assert os.listdir(folder) == [], words  # no device was used: no file
    slower = start_seconds(LD_PRELOAD=LIBRARY) - start_seconds()
    assert slower < SLOWER, slower
    assert tried > 30, tried
    print(f"{tried} programs are as they were; a start takes {slower * 1000:.2f} ms longer")


main()
