#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""lines_test.py VRAM HOLDING STRIP: stacks of a program with debug information show files and lines.

The leak report of the library, and every view of `vram report`; a stripped copy of the program has module and offset. A
trace keeps its lines when the program has been replaced.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile


def record(program, folder, **more):
    """Runs the program; returns the first line that leaks, the leak report and the trace."""
    trace = os.path.join(folder, os.path.basename(program) + ".vrt")
    env = {name: value for name, value in os.environ.items() if not name.startswith("VRAM_")}
    env.update(VRAM_TRACK_STACKS="1", VRAM_LEAKS="text", VRAM_TRACE=trace, **more)
    done = subprocess.run([program, "leak"], env=env, capture_output=True, text=True, timeout=60, check=True)
    return int(done.stdout), done.stderr, trace


def report(vram, trace, *options):
    return subprocess.run([vram, "report", trace, *options], capture_output=True, text=True, timeout=60,
                          check=False).stdout


def suppressed(program, folder):
    """A suppression may name a source file."""
    path = os.path.join(folder, "suppressions")
    with open(path, "w", encoding="utf-8") as stream:
        stream.write("leak:^leaking.c$\n")
    assert "leak_twice" not in record(program, folder, VRAM_LEAK_SUPPRESSIONS=path)[1]


def with_lines(vram, program, folder):
    first, leaks, trace = record(program, folder)
    with open(program, "wb"):
        pass  # another file by that name: the trace is what counts
    frames = [rf"leak_twice\+0x[0-9a-f]+ \(leaking\.c:{line}, program\+0x[0-9a-f]+\)" for line in (first, first + 1)]
    for where in (leaks, report(vram, trace), report(vram, trace, "--leaks")):
        for frame in frames:
            assert re.search(frame, where), f"no {frame} in\n{where}"
    document = json.loads(report(vram, trace, "--json"))
    innermost = [group["frames"][0] for group in document["groups"]]
    assert len(innermost) == 2 and all(map(re.fullmatch, reversed(frames), innermost)), innermost
    folded = report(vram, trace, "--stacks").splitlines()
    assert len(folded) == 2, folded
    for line, text in zip((first + 1, first), folded):
        assert re.search(rf";leaking \(program\);leak_twice \(leaking\.c:{line}, program\) \d+$", text), text


def without_lines(vram, program, folder):
    _, leaks, trace = record(program, folder)
    for where in (leaks, report(vram, trace), report(vram, trace, "--stacks")):
        assert re.search(r"\bstripped\+0x[0-9a-f]+", where) and "leaking.c" not in where, where


def main(vram, holding, strip):
    with tempfile.TemporaryDirectory() as folder:
        program, stripped = os.path.join(folder, "program"), os.path.join(folder, "stripped")
        shutil.copy(holding, program)
        shutil.copy(holding, stripped)
        subprocess.run([strip, stripped], check=True)
        suppressed(program, folder)
        with_lines(vram, program, folder)
        without_lines(vram, stripped, folder)
    print("lines are shown where they are known")


if __name__ == "__main__":
    main(*sys.argv[1:])
