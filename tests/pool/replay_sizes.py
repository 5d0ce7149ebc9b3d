#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""replay_sizes.py VRAM TRACE LEAST [--long]: a trace fits into every memory that is large enough for it.

The trace is replayed on simulated devices of LEAST (1.01, say) to 4 times its highest need: with a pool that may have
all of the memory, and with one that leaves free what pools leave free by default, on a device that is larger by
that. Not one of these replays may be refused. Steps are 5 % up to twice the need and 50 % beyond, with --long 1 %
throughout; with default limits they are wider.
"""
import json
import os
import subprocess
import sys

GIB = 1 << 30


def replay(vram, trace, memory, sim, limits):
    env = {**os.environ, "VRAM_SIM": sim, **limits}
    command = [vram, "replay", trace, "--backend", "sim", "--memory", str(memory), "--policy", "vram", "--json"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600, check=False)
    assert done.stdout, f"{memory} bytes: {done.stderr}"
    return json.loads(done.stdout)["passes"][0]


def default_limits(memory):
    """What a pool leaves free by itself: vram/limits.h."""
    free = min(512 << 20, memory // 16)
    return {"VRAM_MEMORY_FRACTION": "0.9", "VRAM_MIN_FREE": str(free)}, min(int(memory * 0.9), memory - free)


def memory_for(need):
    """The smallest memory of which a pool may have `need` bytes by default."""
    memory = max(int(need / 0.9), need + min(512 << 20, need // 15))
    while default_limits(memory)[1] < need:
        memory += 1 << 20
    return memory


def steps(least, fine, coarse):
    """Factors from `least` to 4: steps of `fine` up to 2, of `coarse` beyond, in hundredths."""
    at = round(least * 100)
    while at < 400:
        yield at / 100
        at += fine if at < 200 else coarse
    yield 4.0


def main(vram, trace, least, *flags):
    long = "--long" in flags
    need = replay(vram, trace, 80 * GIB, "profile=h200", {})["peak_requested_bytes"]
    runs = [(int(need * factor), "profile=h200", {}) for factor in steps(float(least), *((1, 1) if long else (5, 50)))]
    for factor in steps(float(least), *((1, 1) if long else (50, 200))):
        memory = memory_for(int(need * factor))
        runs.append((memory, "seed=1", default_limits(memory)[0]))
    refused = []
    for memory, sim, limits in runs:
        done = replay(vram, trace, memory, sim, limits)
        if done["result"] != "done":
            refused.append(f"memory {memory / need:.3f} times the need, VRAM_SIM={sim} {limits}: {done['reason']}")
    print(f"{len(runs)} sizes of memory, {len(refused)} refused")
    print("\n".join(refused))
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
