#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch_table.py FILE...: tables for docs/benchmarks.md from what bench/torch_run.py wrote with --json.

One table for each file, by its schema: ratio and time, least memory, largest sizes, or pairs. What
misses its goal is bold.
"""
import json
import statistics
import sys

import torch_largest
import torch_least
from torch_process import pools_of
from torch_run import PROGRAMS


def mark(text, good):
    return text if good else f"**{text}**"


def row(*cells):
    print("| " + " | ".join(str(cell) for cell in cells) + " |")


def head(*cells):
    row(*cells)
    print("|" + "---|" * len(cells))


def modes_of(programs):
    """PyTorch's own allocators, then libvram's first one, as the programs were run."""
    modes = max((one["modes"] for one in programs), key=len)
    return [mode for mode in modes if mode not in pools_of(modes)] + pools_of(modes)[:1]


def show_torch(programs):
    modes = modes_of(programs)
    pool = modes[-1]
    head("program", *modes[:-1], f"{pool}, all runs", f"{pool}, one run",
         f"time of {' / '.join(modes)}, s", f"{pool} over {modes[0]}", "losses")
    for one in programs:
        found = [one["modes"].get(mode, {}) for mode in modes]
        goals, ours = PROGRAMS[one["name"]], found[-1]
        medians = [result.get("seconds_median", float("nan")) for result in found]
        share = medians[-1] / medians[0]
        losses = "none compared" if not one.get("losses") else \
            "equal" if set(one["losses"]["modes"].values()) == {-1} else "NOT EQUAL"
        ratios = [result.get("ratio", float("nan")) for result in found]
        first = ours.get("ratio_of_one_run", float("nan"))
        row(one["name"], *(f"{ratio:.3f}" for ratio in ratios[:-1]),
            mark(f"{ratios[-1]:.4f}", ratios[-1] <= goals[0]), mark(f"{first:.4f}", first <= goals[0]),
            " / ".join(f"{seconds:.3f}" for seconds in medians),
            mark(f"{share:.3f}", share <= goals[1]), losses)


def show_least(programs):
    modes = modes_of(programs)
    head("program", "live peak, GB", *(f"{mode}, {what}" for mode in modes
                                       for what in ("least", "time there")))
    for one in programs:
        cells = []
        for mode in modes:
            result = one["modes"].get(mode, {})
            least, ours = result.get("least_ratio"), bool(pools_of([mode]))
            slower = result.get("time_ratio")
            cells += [mark(f"{least:.4f}", not ours or least <= torch_least.goal_of(one["name"]) + 0.0005)
                      if least else result.get("failed") or "-",
                      mark(f"{slower:.3f}", not ours or slower <= torch_least.TIME_GOAL)
                      if slower else "-"]
        live = next((result["live_peak_bytes"] for result in one["modes"].values()
                     if "live_peak_bytes" in result), 0)
        row(one["name"], f"{live / 1e9:.3f}", *cells)


def show_largest(programs):
    limits = [each["limit_bytes"] for each in max(
        (found["limits"] for one in programs for found in one["modes"].values()), key=len)]
    head("program", "allocator", *(f"{limit / 1e9:.0f} GB" for limit in limits))
    for one in programs:
        counts = torch_largest.PROGRAMS[one["name"]][4]
        for mode, found in one["modes"].items():
            cells = [f"{each.get('largest', 0)}, {each.get('per_second', float('nan')):,.0f} {counts}/s"
                     for each in found["limits"]]
            row(f"{one['name']}, {one['argument']}", mode, *cells,
                *["-"] * (len(limits) - len(cells)))


def show_pairs(programs):
    head("program", "against", "pairs", "median of the pool / of the other, s", "ratio of medians (95 %)",
         "ratio of p99 of steps (95 %)")
    for one in programs:
        for mode, result in one["against"].items():
            medians = [statistics.median(column) for column in zip(*result["seconds"])]
            cells = [f"{result[kind]['ratio']:.3f} ({result[kind]['low']:.3f} to "
                     f"{result[kind]['high']:.3f})" if kind in result else "-"
                     for kind in ("median", "p99")]
            row(one["name"], mode, result["pairs"], " / ".join(f"{each:.3f}" for each in medians),
                *cells)


SHOW = {"vram.torch/3": show_torch, "vram.torch_least/1": show_least,
        "vram.torch_largest/1": show_largest, "vram.torch_pairs/1": show_pairs}


def main():
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as stream:
            document = json.load(stream)
        done = [one for one in document["programs"] if one.get("modes") or one.get("against")]
        print(f"\n{path}: commit {document['commit'] or 'unknown'}\n")
        if document["schema"] not in SHOW:
            print(f"torch_table: {path}: no table for {document['schema']}", file=sys.stderr)
            return 2
        if done:
            SHOW[document["schema"]](done)
    return 0


if __name__ == "__main__":
    sys.exit(main())
