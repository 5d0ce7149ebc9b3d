#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""spoilt_test.py SPOILT: the command notices wrong contents and memory left behind.

SPOILT is the command linked with spoilt.c, which makes the library lie as SPOIL asks.
"""
import json
import os
import subprocess
import sys


def run(program, spoil, *arguments):
    env = {name: value for name, value in os.environ.items() if not name.startswith("VRAM_")}
    env.update(SPOIL=spoil, VRAM_BACKENDS="sim", NO_COLOR="1")
    return subprocess.run([program, "tour", *arguments], env=env, capture_output=True, text=True,
                          timeout=60, check=False)


def contents(program):
    result = run(program, "contents")
    assert result.returncode == 1, result.returncode
    assert "contents differ" in result.stdout and "nothing left" not in result.stdout
    assert result.stderr.startswith('vram: the step "download" found wrong contents: number 4194303 is ')
    assert result.stderr.count("\n") == 1, result.stderr
    document = json.loads(run(program, "contents", "--json").stdout)
    assert document["passed"] is False and document["steps"][-1]["result"] == "differed"
    assert document["held_bytes"] is None


def leak(program):
    result = run(program, "leak")
    assert result.returncode == 1, result.returncode
    assert result.stdout.endswith("left behind: 4096 bytes held\n"), result.stdout
    document = json.loads(run(program, "leak", "--json").stdout)
    assert document["passed"] is False and document["held_bytes"] == 4096


def nothing(program):
    result = run(program, "")
    assert result.returncode == 0 and result.stdout.endswith("nothing left: 0 bytes held\n")


def main(program):
    failed = 0
    for test in (contents, leak, nothing):
        try:
            test(program)
        except AssertionError as error:
            failed += 1
            print(f"FAILED {test.__name__}: {error}")
    print(f"{3 - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
