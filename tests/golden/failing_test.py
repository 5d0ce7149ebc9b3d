#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""failing_test.py SPOILT [--all]: whichever call of the library fails, `vram bench`, `stress` and `tour` say which.

SPOILT is the command linked with failing.c, which lets one call fail. Each place of `vram bench` that calls the
library has its turn, with its first call, which is often a warm-up, and with its third. Of `vram stress pressure` it
is each call, of `vram tour` each place. Without --all only some of them have.
"""
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile

# What is measured, how many runs there are to one without --all, and the calls that may fail without a word.
BENCH = (
    # What is freed at the end; figures that are unknown then.
    (["alloc", "--live", "10"], 10, ("vram_free", "vram_pool_stats_get", "vram_memory_info_get")),
    (["alloc", "--pattern", "burst"], 20, ("vram_free", "vram_pool_stats_get", "vram_memory_info_get")),
    (["alloc", "--pattern", "mixed", "--live", "10"], 20, (
        "vram_free", "vram_device_free", "vram_pool_stats_get", "vram_memory_info_get")),
    (["alloc", "--pattern", "handover", "--threads", "2"], 20, (
        "vram_free", "vram_device_free", "vram_pool_stats_get", "vram_memory_info_get")),
    (["grow", "--from", "1M", "--to", "2M"], 3, ()),
    (["launch"], 3, ()),
    # Page-locked memory that is not to be had is said to be missing; what is freed at the end.
    (["copy", "--size", "4K", "--threads", "1"], 3, ("vram_device_alloc", "vram_device_free", "vram_queue_wait")),
    # The same; and groups of a size that the device does not take are tried again with a larger one.
    (["readback", "--size", "4K"], 5, ("vram_device_alloc", "vram_queue_fill", "vram_queue_launch",
                                       "vram_queue_wait")),
    (["ring", "--messages", "10"], 3, ()),
    (["matmul", "--size", "8"], 3, ("vram_device_free",)),
    # The machine's figures are left out; a scheduler goes on without a kernel that does not load.
    (["distance", "--size", "10", "--backend", "host"], 3, (
        "vram_scheduler_calibrate", "vram_kernel_create", "vram_queue_create", "vram_alloc", "vram_transfer_upload",
        "vram_queue_wait")),
    # The same of what records weigh.
    (["track"], 10, ("vram_alloc_with", "vram_live_stats_get", "vram_free")),
)

# What is null in the document when a call has failed without a word.
UNKNOWN = {
    ("alloc", "vram_pool_stats_get"): "driver_calls",
    ("distance", "vram_scheduler_calibrate"): "machine_product_flops",
    ("distance", "vram_queue_create"): "machine_upload_bytes_per_second",
    ("distance", "vram_alloc"): "machine_upload_bytes_per_second",
    ("distance", "vram_transfer_upload"): "machine_upload_bytes_per_second",
    ("distance", "vram_queue_wait"): "machine_upload_bytes_per_second",
}


class Failure(Exception):
    """What was expected of the command, and what it did."""


def run(program, arguments, **wishes):
    """What the command said with one call failing: (result, places, calls, name of the call or None)"""
    env = {name: value for name, value in os.environ.items() if not name.startswith("VRAM_")}
    env.update(VRAM_BACKENDS="sim,host", VRAM_SIM="real=on", NO_COLOR="1", OCL_ICD_VENDORS="/nonexistent")
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report")
        env.update(FAIL_REPORT=report, **{f"FAIL_{name.upper()}": str(value) for name, value in wishes.items()})
        result = subprocess.run([program, *arguments], env=env, capture_output=True, text=True, timeout=60,
                                check=False)
        if not os.path.exists(report):
            raise Failure(f"{arguments} {wishes}: ended by {result.returncode}: {result.stderr}")
        with open(report, encoding="ascii") as stream:
            places, calls, name = stream.read().split()
    return result, int(places), int(calls), None if name == "-" else name


def judge(program, arguments, silent, **wishes):
    """Lets a call fail; whether there was one. Its name must be in what is printed."""
    result, _, _, name = run(program, arguments, **wishes)
    if name is None:
        return False
    said = f"planted in {name}" in result.stdout + result.stderr
    if result.returncode not in (0, 1, 2) or not (said or name in silent):
        raise Failure(f"{arguments} {wishes}: {name} failed, exit code {result.returncode}:\n{result.stdout}"
                      f"{result.stderr}")
    if result.returncode == 0 and "--json" in arguments:
        document = json.loads(result.stdout)
        unknown = UNKNOWN.get((arguments[1], name))
        if not said and unknown and document[unknown] is not None:
            raise Failure(f"{arguments} {wishes}: {unknown} is {document[unknown]}, but {name} failed")
    return True


def runs(program, every):
    """(name, arguments, calls that may be silent, [wishes]) of each verb; every=True: all of them"""
    for arguments, step, silent in BENCH:
        whole = ["bench", *arguments] + ([] if "ring" in arguments else ["--seconds", "0.01"])
        places = run(program, whole)[1]
        wishes = [{"place": place, "turn": turn} for turn in (1, 3) for place in range(1, places + 1)]
        yield f"bench {arguments[0]}", whole, silent, wishes[::1 if every else step]
    # Whether a simulated device has prices is tried; the racers do the same again, and say what fails.
    for backend, silent in (("host", ()), ("sim", ("vram_queue_fill", "vram_queue_wait"))):
        whole = ["tour", "--backend", backend]
        yield f"tour {backend}", whole, silent, [{"place": place + 1} for place in range(0, run(program, whole)[1],
                                                                                        1 if every else 8)]
    # What its other thread and its callback do is not said, but missed in the counters; waiting is not.
    whole, silent = ["stress", "pressure"], ("vram_alloc", "vram_free", "vram_pool_stats_get")
    yield "stress pressure", whole, silent, [{"call": call + 1} for call in range(0, run(program, whole)[2],
                                                                                 1 if every else 8)]


def soak(program):
    """A soak test goes on, counts what failed, and says the first."""
    arguments = ["stress", "soak", "--seconds", "1", "--limit", "16M"]
    result, _, _, name = run(program, arguments, every=97)
    text = result.stdout
    if result.returncode != 1 or name is None or "planted in vram_" not in text or "FAILED" not in text:
        raise Failure(f"{arguments}: exit code {result.returncode}, {name} failed:\n{text}{result.stderr}")
    for place in (1, 3, 4):  # the device, the pool and the queues; without them it does not begin
        judge(program, ["stress", "soak", "--seconds", "1"], (), place=place)


def main(program, every=""):
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        jobs = [("stress soak", [pool.submit(soak, program)])]
        for name, arguments, silent, wishes in runs(program, every == "--all"):
            jobs.append((name, [pool.submit(judge, program, arguments + (["--json"] if i % 2 else []), silent, **wish)
                                for i, wish in enumerate(wishes)]))
        for name, results in jobs:
            struck = 0
            for job in results:
                try:
                    struck += job.result() is not False
                except Failure as failure:
                    failed += 1
                    print(f"FAILED {name}: {failure}")
            if struck == 0:
                failed += 1
                print(f"FAILED {name}: no call failed")
            print(f"{name}: {struck} runs with a call that fails")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
