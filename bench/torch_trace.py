#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch_trace.py default|expandable|async TRACE...: plays traces through PyTorch's own allocator.

Prints, over what each trace has live at its peak, the most that the allocator reserved without a
limit, and by bisection the least memory (set_per_process_memory_fraction) in which the trace runs;
the models of `vram replay` are held against these. No kernels run, so the device is never behind:
cudaMallocAsync's pool moves memory then that it could not move under a busy program, and its limit
counts what is in use, not what it holds, so that only its peak is printed.
"""
import gzip
import os
import sys
import time

SETTINGS = {"default": "", "expandable": "expandable_segments:True",
            "async": "backend:cudaMallocAsync"}
mode = sys.argv[1] if len(sys.argv) > 2 else None
if mode not in SETTINGS:
    sys.exit(__doc__)
os.environ["PYTORCH_CUDA_ALLOC_CONF"] = os.environ["PYTORCH_ALLOC_CONF"] = SETTINGS[mode]
import torch  # noqa: E402, reads the setting

STEP = 0.001


def read(path):
    """Operations as (id, bytes), -1 for a free, and the most that is live."""
    operations, sizes, live, peak = [], {}, 0, 0
    with gzip.open(path, "rt") as lines:
        for line in lines:
            kind, block, size = line.split(",")[:3]
            if kind == "a":
                sizes[block] = int(size)
                live += sizes[block]
                peak = max(peak, live)
                operations.append((block, sizes[block]))
            elif kind == "f":
                live -= sizes[block]
                operations.append((block, -1))
    return operations, peak


def play(operations, limit):
    """Whether it ran, the most that was reserved, and the seconds that it took."""
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.set_per_process_memory_fraction(min(1.0, limit / total))
    live, ran, start = {}, True, time.time()
    try:
        for block, size in operations:
            if size >= 0:
                live[block] = torch.cuda.memory.caching_allocator_alloc(size, 0, 0) if size else 0
            elif (address := live.pop(block)):
                torch.cuda.memory.caching_allocator_delete(address)
    except torch.OutOfMemoryError:
        ran = False
    seconds = time.time() - start
    reserved = torch.cuda.max_memory_reserved()
    for address in filter(None, live.values()):
        torch.cuda.memory.caching_allocator_delete(address)
    return ran, reserved, seconds


def main():
    torch.cuda.init()
    total = torch.cuda.get_device_properties(0).total_memory
    for path in sys.argv[2:]:
        operations, peak = read(path)
        _, reserved, seconds = play(operations, total)
        said = f"{os.path.basename(path)}: {mode}: reserved {reserved / peak:.4f}, {seconds:.3f} s"
        if mode != "async":
            fails, runs = 1.0, reserved / peak + 0.01
            while runs - fails > STEP:
                middle = (fails + runs) / 2
                ran, _, seconds = play(operations, middle * peak)
                fails, runs = (fails, middle) if ran else (middle, runs)
            said += f"; least {runs:.4f}"
        print(said, flush=True)


main()
