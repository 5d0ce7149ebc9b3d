#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""h200_table.py STAGE FOLDER: the table at the end of a stage of h200.sh, from the JSON it left.

Exit code 0 when every goal is met, 1 when one is missed.
"""
import glob
import json
import os
import statistics
import sys

PAIR_GOALS_NS = {"pair-1K": 25, "pair-1M": 25, "pair-64M": 40}
TOGETHER_GOAL = 300e6  # pairs per second of 16 threads
# times faster than the driver's own, in the same run
DRIVER_GOALS = {"opencl": ("clCreateBuffer", 100), "vulkan": ("vkAllocateMemory", 100)}
GROW_TIMES = 50  # growth of a buffer over held memory, times as fast as the driver's copy
RESIZE_GOAL_NS = 1e6  # of 64 MiB
RATIO_GOALS = {"serve_kv_cache": 1.02}
SHARE_GOALS = {"sage_subgraphs": 0.03, "serve_kv_cache": 0.05}


def read(path):
    try:
        with open(path, encoding="utf-8") as stream:
            return json.load(stream)
    except (OSError, ValueError):
        return None


def documents(folder, pattern):
    """(what the star stands for, document) of each readable file, in the order of their names."""
    before, after = pattern.split("*")
    for path in sorted(glob.glob(os.path.join(folder, pattern))):
        document = read(path)
        if document is not None:
            yield os.path.basename(path)[len(before):-len(after)], document


def verdict(good):
    return "" if good else "  MISSED"


def copy_table(folder):
    """Copies against the driver's own, with the goals that the run itself knows."""
    document = read(os.path.join(folder, "copy.json"))
    if document is None:
        return False
    good = True
    print()
    for one in document["goals"]:
        met = bool(one["met"])
        good = good and met
        reached = "not measured" if one["reached"] is None else f"{one['reached']:.2f}"
        print(f"copy: {one['name']}: {reached}, goal {one['goal']:g}{verdict(met)}")
    for size in document["sizes"]:
        for direction in ("to_device", "to_host"):
            times = size[direction]["ratio_driver"]
            print(f"copy: {size['bytes']} bytes {direction}: {times or 0:.2f} times the driver's "
                  "copy of ordinary memory")
    return good


def grow_table(folder):
    """Growth over held memory against the driver's allocate, copy and free; 64 MiB within a millisecond."""
    good = True
    for name, one in documents(folder, "grow-*.json"):
        ways = {way["name"]: way["ns_median"] for way in one["ways"]}
        text = ", ".join(f"{key} {value / 1e3:.1f}" if value is not None else f"{key} -"
                         for key, value in ways.items())
        met = one["ratio_driver"] is not None and one["ratio_driver"] >= GROW_TIMES
        if one["from_bytes"] <= 64 << 20:
            met = met and max(ways["held"], ways["fresh"] or 1e9) < RESIZE_GOAL_NS
        good = good and met
        print(f"\ngrow {name}: us: {text}; held memory {one['ratio_driver'] or 0:.0f} times as fast as "
              f"the driver, large free handles {one.get('ratio_cached') or 0:.0f} times, "
              f"goal {GROW_TIMES}{verdict(met)}")
    for name, one in documents(folder, "launch-*.json"):
        text = ", ".join(f"{way['name']} {(way['ns_median'] or 0) / 1e3:.2f}" for way in one["ways"])
        print(f"launch {name}: us: {text}")
    return good


def bench_table(folder):
    good = grow_table(folder)
    print(f"\n{'':22} {'vram':>9}   p10..p90        goal     peers in the same run, ns")
    for name, one in documents(folder, "bench-*.json"):
        others = {peer["name"]: peer.get("ns_median") for peer in one["peers"]}
        for peer in (read(os.path.join(folder, "peers-" + name.removeprefix("pair-") + ".json"))
                     or {"peers": []})["peers"]:
            others[peer["name"]] = peer.get("ns_median")
        text = ", ".join(f"{key} {value:.0f}" if value is not None else f"{key} -"
                         for key, value in others.items())
        if one["ns_median"] is None:
            print(f"{name:22} failed: {one['reason']}")
            good = False
        elif one["threads"] > 1:
            met = one["pairs_per_s"] >= TOGETHER_GOAL
            good = good and met
            print(f"{name:22} {one['pairs_per_s'] / 1e6:7.0f} M/s of {one['threads']} threads, goal "
                  f"{TOGETHER_GOAL / 1e6:.0f}   {text}{verdict(met)}")
        else:
            peer, times = DRIVER_GOALS.get(name.split("-")[0], (None, 0))
            goal = PAIR_GOALS_NS.get(name)
            if others.get(peer) is not None:
                goal = int(others[peer] / times)
            met = goal is None or one["ns_median"] <= goal
            good = good and met
            spread = f"{one['ns_p10']:.1f}..{one['ns_p90']:.1f}"
            print(f"{name:22} {one['ns_median']:6.1f} ns   {spread:15} {goal or '-':>4}     "
                  f"{text}{verdict(met)}")
    return good


def pass_row(name, runs):
    """One trace in one way of playing it; the medians, and every wrong byte."""
    ratio = statistics.median(run["ratio"] or float("inf") for run in runs)
    share = statistics.median(run["move_share"] for run in runs)
    wrong = [run["mismatched_bytes"] for run in runs if "mismatched_bytes" in run]
    places = {run["checked_on"] for run in runs if "checked_on" in run}
    good = all(run["result"] == "done" for run in runs) and sum(wrong) == 0
    goals = (RATIO_GOALS.get(name, 1.01), SHARE_GOALS.get(name, 0.01))
    checked = f"{sum(wrong)} on the {'/'.join(sorted(places))}" if wrong else "not checked"
    ratios = " ".join(f"{run['ratio']:.4f}" for run in runs if run["ratio"])
    print(f"  {name:20} {ratio:7.4f} {share * 100:6.2f} % {runs[0]['moved_handles']:7} "
          f"{runs[0]['trace_ns'] / 1e9:6.2f} s  {statistics.median(r['ns_per_op'] for r in runs):8.0f}"
          f"  {checked:20} {ratios}", end="")
    return good, ratio <= goals[0], share <= goals[1]


def replay_table(folder):
    ways = {}
    for name, document in documents(folder, "replay-*.json"):
        for run in document["passes"]:
            trace = os.path.basename(run["trace"]).split(".")[0]
            way = name[:-len(trace) - 1]
            ways.setdefault(way.rsplit("-", 1)[0] if way[-1].isdigit() else way,
                            {}).setdefault(trace, []).append(run)
    good = True
    for way, traces in sorted(ways.items()):
        print(f"\n{way + ':':22} {'ratio':>7} {'moving':>8} {'moved':>7} {'trace':>8} {'ns per op':>10}"
              f"  {'wrong bytes':20} ratio of each run")
        for trace, runs in sorted(traces.items()):
            right, tight, cheap = pass_row(trace, runs)
            # At full speed moving earns no time, so only the contents count.
            met = right and (way == "full-speed" or (tight and cheap))
            good = good and met
            print(verdict(met))
    return good


def handout_table(folder):
    good = True
    print(f"\n{'':10} {'from stream to stream':>21} {'hand-outs':>10} {'freed running':>13} "
          f"{'early reuse':>11} {'seconds':>8}")
    for name in ("broken", "slow", "handout"):
        one = read(os.path.join(folder, name + ".json"))
        if one is None:
            print(f"{name:10} no result")
            good = False
            continue
        good = good and one["passed"]
        if one.get("device_lost"):
            print(f"{name:10} a kernel wrote memory that was taken from under it: found")
            continue
        print(f"{name:10} {one['to_another_stream']:21} {one['handouts']:10} "
              f"{one['freed_while_running']:13} {one['early_reuse']:11} {one['seconds']:8.1f}"
              f"{verdict(one['passed'])}")
    return good


def printed(name):
    """A table of what bench/torch_run.py printed; its exit code has told whether goals were met."""
    def table(folder):
        try:
            with open(os.path.join(folder, name), encoding="utf-8") as stream:
                print(stream.read())
        except OSError:
            return False
        return True
    return table


def least_table(folder):
    """The least memory of each program under each allocator, and the time there over that without a
    limit."""
    document = read(os.path.join(folder, "least.json"))
    if document is None:
        return False
    modes = next((list(program["modes"]) for program in document["programs"] if program.get("modes")), [])
    print(f"\n{'least memory, time:':22}" + "".join(f"{mode:>18}" for mode in modes))
    for program in document["programs"]:
        cells = []
        for mode in modes:
            result = program.get("modes", {}).get(mode, {})
            cells.append(f"{result['least_ratio']:.4f} {result.get('time_ratio', float('nan')):7.3f}"
                         if result.get("least_ratio") else "-")
        print(f"{program['name']:22}" + "".join(f"{cell:>18}" for cell in cells)
              + verdict(not program["missed"]))
        for text in program["missed"]:
            print(f"{'':22}  {text}")
    return True  # the exit code of the run has told


def ring_table(folder):
    """Messages to a kernel and back; every strategy must have run on a GPU."""
    document = read(os.path.join(folder, "ring.json"))
    if document is None:
        return False
    good = True
    print()
    for one in document["strategies"]:
        met = one["reason"] is None and one["kernel_stays"]
        good = good and met
        if one["reason"]:
            print(f"ring: {one['strategy']}: {one['reason']}{verdict(met)}")
        else:
            print(f"ring: {one['strategy']}: {document['messages']} messages each way, "
                  f"{one['to_device_per_second']:.0f}/s to the kernel, {one['to_host_per_second']:.0f}/s "
                  f"from it, {one['round_trip_median_ns'] / 1000:.2f} us there and back{verdict(met)}")
    return good


def transfer_table(folder):
    return all([copy_table(folder), ring_table(folder)])


def sleep_table(folder):
    """Sleep and wake against their goals in seconds, and small copies against the driver's."""
    goals = {"host": (0.75, 0.5), "sealed": (0.2, 0.45)}
    good = True
    for path in sorted(glob.glob(os.path.join(folder, "pool-sleep-*.txt"))):
        print()
        with open(path, encoding="utf-8") as stream:
            for line in stream:
                words = line.split()
                met = True
                if words and words[0] in goals and "GiB" in words:
                    slept, woke = (float(words[words.index("ms", at) - 1]) / 1e3 for at in (0, 6))
                    met = (slept <= goals[words[0]][0] and woke <= goals[words[0]][1] and
                           "contents equal" in line)
                good = good and met
                print(line.rstrip() + verdict(met))
    for name, document in documents(folder, "small-*.json"):
        print()
        for size in document["sizes"]:
            for direction in ("to_device", "to_host"):
                ways = {way["name"]: way["ns_median"] for way in size[direction]["ways"]}
                times = size[direction]["ratio_driver"] or 0
                met = times >= 0.95 or not name.startswith("default")
                good = good and met
                print(f"copy {name}: {size['bytes']} bytes {direction}: {(ways['vram'] or 0) / 1e3:.1f} us, "
                      f"driver {(ways['driver'] or 0) / 1e3:.1f} us, {times:.2f}{verdict(met)}")
    return good


def main():
    if len(sys.argv) != 3:
        print("usage: h200_table.py STAGE FOLDER", file=sys.stderr)
        return 2
    tables = {"bench": bench_table, "transfer": transfer_table, "replay": replay_table,
              "handout": handout_table, "torch": printed("torch.txt"),
              "least": least_table, "largest": printed("largest.txt"), "pairs": printed("pairs.txt"),
              "sleep": sleep_table}
    return 0 if tables.get(sys.argv[1], lambda folder: True)(sys.argv[2]) else 1


if __name__ == "__main__":
    sys.exit(main())
