#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""layer_runs.py BUILD [TURNS]: programs of OpenCL and Vulkan alone and under vram run, in turns: the least processor
time and the least wall time of each. The devices are those that the loaders find first."""
import os
import resource
import subprocess
import sys
import tempfile
import time

BUILD, TURNS = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 7
VRAM = f"{BUILD}/vram"
PROGRAMS = [
    [f"{BUILD}/examples/16_opencl_kernel"],
    [f"{BUILD}/examples/17_vulkan_kernel"],
    [VRAM, "check", "--backend", "opencl"],
    [VRAM, "check", "--backend", "vulkan"],
]


def run(words):
    """Processor and wall time in seconds, and the exit code."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    code = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return used, time.monotonic() - start, code


def main():
    with tempfile.TemporaryDirectory() as folder:
        watched = [VRAM, "run", "--quiet", "--output", f"{folder}/run.vrt", "--"]
        for program in PROGRAMS:
            times = {"alone": [], "under vram run": []}
            for _ in range(TURNS):
                times["alone"].append(run(program))
                times["under vram run"].append(run(watched + program))
            name = " ".join([os.path.basename(program[0]), *program[1:]])
            codes = {code for rows in times.values() for _, _, code in rows}
            print(f"{name}: exit codes {sorted(codes)}")
            for way, rows in times.items():
                print(f"  {way:15} processor {min(row[0] for row in rows):.3f} s, wall {min(row[1] for row in rows):.3f} s")


main()
