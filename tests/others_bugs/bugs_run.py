#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bugs_run.py BUILD BUG: bugs of other interposers, shown absent in `vram run`.

Each function is one bug, with its number; CMake makes a test of each.
"""
import json
import os
import subprocess
import sys
import tempfile

BUILD = os.path.abspath(sys.argv[1])
TESTS = os.path.join(BUILD, "tests")
VRAM = os.path.join(BUILD, "vram")
PROGRAM = (os.path.join(TESTS, "run_program"), "bugs")
LINKED, SECOND = (os.path.join(TESTS, f"bugs_{name}") for name in ("linked", "second"))
FAKE, OWN = os.path.join(TESTS, "fake"), os.path.join(TESTS, "bugs_driver")
MIB = 1 << 20


def run(drivers, *words, **more):
    """the report on a program that uses the drivers of a folder"""
    env = dict(os.environ, LD_LIBRARY_PATH=drivers, NO_COLOR="1", LC_ALL="C", OCL_ICD_VENDORS="/nonexistent", **more)
    with tempfile.TemporaryDirectory() as folder:
        result = subprocess.run([VRAM, "run", "--json", "-o", f"{folder}/trace.vrt", "--", *words], env=env, text=True,
                                capture_output=True, timeout=60, check=False)
    assert result.returncode == 0, (words, result.returncode, result.stdout, result.stderr)
    return json.loads(result.stdout)


def counted(document):
    """allocations, frees and blocks that were never freed, of the one process that used a device"""
    process, = document["processes"]
    return process["allocs"], process["frees"], process["device_memory"]["never_freed_blocks"]


def bug_51_lookups_end_at_the_driver():
    assert run("/nonexistent", *PROGRAM, "nothing")["processes"] == []
    assert counted(run(OWN, *PROGRAM, "scopes")) == (4, 0, 4)


def bug_52_drivers_behind_drivers():
    # The driver of this folder hands all calls on to a second library, which it looks up by dlsym.
    assert counted(run(OWN, *PROGRAM, "scopes", "rubbish"))[2] == 4


def bug_53_lookups_behind_the_caller():
    # A library that the program is linked with asks for the next one; so does a second interposer.
    assert counted(run(OWN, LINKED, "next")) == (3, 2, 1)
    assert counted(run(OWN, SECOND, "second")) == (1, 0, 1)


def bug_54_pools_of_the_driver():
    # cuMemAllocFromPoolAsync and its free, which give the driver's own codes and leave nothing.
    document = run(FAKE, os.path.join(TESTS, "run_program"), "use", "serve")
    allocs, frees, left = counted(document)
    assert allocs == frees and left == 0 and allocs >= 4, document
    assert document["processes"][0]["unknown_frees"] == 0, document


def bug_55_newer_symbols():
    document = run(FAKE, os.path.join(TESTS, "run_program"), "use", "leak", FAKE_CUDA_NEWER="cuMemAllocPitch",
                   RUN_VERSION="14000")
    assert document["processes"][0]["unknown_entry_points"] == 1, document
    assert counted(document)[2] == 3, document


def bug_56_results_of_failed_calls():
    document = run(OWN, *PROGRAM, "rubbish")
    assert counted(document) == (1, 1, 0), document
    assert document["processes"][0]["refusals"] == 3, document


def bug_57_a_runtime_that_calls_itself():
    assert counted(run(OWN, *PROGRAM, "hip")) == (2, 1, 1)


if __name__ == "__main__":
    globals()[f"bug_{sys.argv[2]}"]()
