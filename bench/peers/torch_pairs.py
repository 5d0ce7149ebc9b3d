#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch_pairs.py [--size BYTES] [--seconds S]: pairs of PyTorch's caching allocator, called from Python.

What run.sh falls back to when torch_peer.cpp cannot be built. The interpreter's part, a loop over two
functions that do nothing, is measured beside it and subtracted; the answer says so. One thread only.
"""
import json
import statistics
import sys
import time

PAIRS = 200  # of a sample


def sample(take, give, size, stream):
    start = time.perf_counter_ns()
    for _ in range(PAIRS):
        give(take(size, stream))
    return (time.perf_counter_ns() - start) / PAIRS


def samples(take, give, size, stream, seconds):
    found, end = [], time.monotonic() + seconds
    while len(found) < 5 or time.monotonic() < end:
        found.append(sample(take, give, size, stream))
    return sorted(found)


def main():
    flags = dict(zip(sys.argv[1::2], sys.argv[2::2]))
    size, seconds = int(flags.get("--size", 1024)), float(flags.get("--seconds", 2))
    answer = {"name": "torch", "pattern": "pair", "size_bytes": size, "threads": 1}
    if int(flags.get("--threads", 1)) != 1 or flags.get("--pattern", "pair") != "pair":
        print(json.dumps({**answer, "found": False, "reason": "from Python only pairs of one thread"}))
        return 0
    import torch
    stream = torch.cuda.Stream().cuda_stream
    take, give = (torch._C._cuda_cudaCachingAllocator_raw_alloc,
                  torch._C._cuda_cudaCachingAllocator_raw_delete)
    samples(take, give, size, stream, 0.2)
    # Built-in functions of as many arguments, so that the calls themselves cost the same.
    idle = statistics.median(samples(max, abs, size, stream, 0.2))
    found = samples(take, give, size, stream, seconds)
    print(json.dumps({**answer, "found": True,
                      "reason": f"called from Python, whose {idle:.0f} ns are subtracted",
                      "ns_median": statistics.median(found) - idle,
                      "ns_p10": found[len(found) // 10] - idle,
                      "ns_p90": found[len(found) - 1 - len(found) // 10] - idle,
                      "pairs_per_s": 1e9 / (statistics.median(found) - idle),
                      "samples": len(found), "pairs_per_sample": PAIRS}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
