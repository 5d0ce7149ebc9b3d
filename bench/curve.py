#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How much memory a pool holds against how much time it may spend on moving it, as Markdown tables.

    bench/curve.py VRAM TRACE...             one row for each budget: ratio and share of the time spent
    bench/curve.py VRAM --scales TRACE...    the default budget, sizes of the trace times 0.7 to 1.3
    bench/curve.py VRAM --passes N TRACE...  the default budget, N times in one pool; of more than ten passes, some
    bench/curve.py VRAM --small TRACE...     three passes, sizes scaled so that 0.5 to 3 GB are live at the peak: ratio
                                             and what is held beyond that
    bench/curve.py VRAM --sweep TRACE...     each trace in 100 sizes of memory, 1.0005 to 1.05 of its live peak, by four
                                             policies: in how many it runs, and the sizes that fail above one that ran

Traces are played on the simulated H200 (VRAM_SIM=profile=h200, or what VRAM_SIM says).
"""

import argparse
import gzip
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

SHARES = ["never", "0", "5000", "10000", "20000", "40000", "80000", "160000", "1000000"]
LIVE = [5e8, 1e9, 2e9, 3e9]  # bytes
SHOWN = [1, 4, 10, 25, 50]  # of many passes
SIZES = [1 + i * 0.0005 for i in range(1, 101)]  # of the live peak
POLICIES = ["vram", "expandable", "async", "caching"]
SCALES = [0.7, 0.83, 0.91, 0.95, 0.98, 1.02, 1.06, 1.13, 1.3]


def played(vram, trace, options, settings):
    """The answer of `vram replay`, also when the memory did not suffice."""
    environment = {"VRAM_SIM": "profile=h200", **os.environ, **settings}
    command = [vram, "replay", "--backend", "sim", "--json", *options, str(trace)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1) or not done.stdout:
        sys.exit(f"{trace}: {done.stderr.strip()}")
    return json.loads(done.stdout)["passes"]


def replay(vram, trace, options=(), **settings):
    passes = played(vram, trace, ["--policy", "vram", *options], settings)
    for one in passes:
        if one["result"] != "done":
            sys.exit(f"{trace}: {one['reason']}")
    return [(one["ratio"], one["move_share"]) for one in passes]


def sweep(vram, trace):
    """A cell for each policy."""
    live, runs = peak(trace), {policy: [] for policy in POLICIES}
    options = [word for policy in POLICIES for word in ("--policy", policy)]
    for size in SIZES:
        for one in played(vram, trace, [*options, "--memory", str(int(live * size))], {}):
            runs[one["policy"]].append(one["result"] == "done")
    cells = []
    for ran in runs.values():
        first = ran.index(True) if any(ran) else len(ran)
        gaps = [f"{SIZES[i]:.4f}" for i in range(first, len(ran)) if not ran[i]]
        least = f", from {SIZES[first]:.4f}" if any(ran) else ""
        cells.append(f"{sum(ran)}{least}" + (f", fails at {' '.join(gaps)}" if gaps else ""))
    return cells


def peak(trace):
    """Bytes live at the peak of the trace."""
    live, now, most = {}, 0, 0
    opened = gzip.open if trace.suffix == ".gz" else open
    with opened(trace, "rt", encoding="utf-8") as file:
        for row in (line.split(",") for line in file):
            if row[0] == "a":
                live[row[1]] = int(row[2])
                now += live[row[1]]
                most = max(most, now)
            elif row[0] == "f":
                now -= live.pop(row[1], 0)
    return most


def small(vram, trace):
    """A cell for each size of LIVE."""
    cells = []
    with tempfile.TemporaryDirectory() as folder:
        for live in LIVE:
            ratio = replay(vram, scaled(trace, live / peak(trace), folder), ["--repeat", "3"])[-1][0]
            cells.append(f"{ratio:.4f}, {(ratio - 1) * live / 2**20:.0f} MiB")
    return cells


def budget(share):
    if share == "never":
        return {"VRAM_MOVE_SHARE": "0", "VRAM_MOVE_CREDIT": "0ns"}
    return {"VRAM_MOVE_SHARE": share}


def label(share):
    return "never moves" if share == "never" else f"{int(share) / 10000:g} %"


def cell(point):
    return f"{point[0]:.4f} / {point[1] * 100:.2f} %"


def scaled(trace, scale, folder):
    """The trace with all sizes times `scale`, as a file."""
    opened = gzip.open if trace.suffix == ".gz" else open
    with opened(trace, "rt", encoding="utf-8") as file:
        rows = [row.split(",") for row in file.read().splitlines()]
    for row in rows:
        if row[0] == "a":
            row[2] = str(max(1, int(int(row[2]) * scale)))
    to = pathlib.Path(folder) / f"{scale}.csv"
    to.write_text("\n".join(",".join(row) for row in rows) + "\n")
    return to


def name(trace):
    return trace.name.split(".")[0]


def table(head, rows):
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("vram")
    parser.add_argument("traces", nargs="+", type=pathlib.Path)
    parser.add_argument("--scales", action="store_true")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--sweep", action="store_true")
    parser.add_argument("--passes", type=int, default=0)
    arguments = parser.parse_args()
    vram, traces = arguments.vram, arguments.traces
    if arguments.passes:
        passes = {t: replay(vram, t, ["--repeat", str(arguments.passes)]) for t in traces}
        shown = range(1, arguments.passes + 1)
        if arguments.passes > 10:
            shown = sorted({*(i for i in SHOWN if i <= arguments.passes), arguments.passes})
        head = ["trace"] + [f"pass {i}" for i in shown]
        table(head, [[name(t)] + [cell(passes[t][i - 1]) for i in shown] for t in traces])
    elif arguments.small:
        table(["trace"] + [f"{live / 1e9:g} GB" for live in LIVE], [[name(t), *small(vram, t)] for t in traces])
    elif arguments.sweep:
        table(["trace", *POLICIES], [[name(trace), *sweep(vram, trace)] for trace in traces])
    elif arguments.scales:
        rows = []
        for trace in traces:
            with tempfile.TemporaryDirectory() as folder:
                points = [replay(vram, scaled(trace, scale, folder))[0] for scale in SCALES]
            mean = tuple(statistics.mean(column) for column in zip(*points))
            rows.append([name(trace), cell(mean), cell(tuple(max(c) for c in zip(*points)))])
        table(["trace", "mean", "worst ratio / worst share"], rows)
    else:
        rows = [[label(s)] + [cell(replay(vram, t, **budget(s))[0]) for t in traces] for s in SHARES]
        table(["may spend"] + [name(trace) for trace in traces], rows)


if __name__ == "__main__":
    main()
