#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch_run.py: real PyTorch programs under PyTorch's own allocators and under a pool of libvram.

usage: torch_run.py [--plugin LIB.so] [--programs A,B] [--modes default,expandable,vram.torch]
                    [--repeats 5] [--quick] [--budget-seconds N] [--no-losses] [--no-time]
                    [--json FILE]
       torch_run.py --fresh N [--programs A,B] [--modes vram.torch]
       torch_run.py --least [--programs A,B] [--modes ...] [--repeats 3]
       torch_run.py --largest [--programs A,B] [--modes ...]
       torch_run.py --pairs 15 [--programs A,B] [--modes vram.torch]

Allocators (--modes): PyTorch's own as it is (default) and with expandable_segments (expandable); the
adapter of bindings/python and adapters/pytorch (vram.torch), which reads LIBVRAM_PATH; and the C plug-in
(vram), which --plugin names.

One process is started for each program and allocator, all at once, since most of their time is
spent importing. Programs are measured one after the other; the runs of one program's processes take
turns, so that whatever changes on the machine meets all allocators alike. The first run of each is
a warm-up. After the last, each process runs once more under deterministic algorithms, and the
losses are compared bit by bit, step by step; the first allocator does so twice, which shows whether
the program itself repeats its losses. The ratio of memory is given after one run and after all.

--fresh N tells how much memory one run of a program takes: N processes for each program and allocator
run it once each, and the ratio is the median of the processes.

--least finds by bisection the least memory in which each program still runs, and how long it takes
there (torch_least.py). --largest finds the largest batch or the longest context under limits of 8,
16, 24 and 80 GB, and the throughput there (torch_largest.py). --pairs N compares the time under a
pool with that under expandable_segments in N pairs of runs, with confidence intervals
(torch_compare.py).

--quick measures one run after the warm-up. --budget-seconds ends the repeats of a program when its
share of the time is used up, and names the programs that were not reached. No answer is waited for
longer than the budget allows.

Prints a table, and with --json writes all numbers. Exit code 0 when every goal is met, 1 when one is
missed, a run failed or time ran out, 2 for misuse. Programs whose modules are missing are named and
left out.
"""
import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time

import torch_compare
import torch_largest
import torch_least
from torch_child import IMPORTS
from torch_process import Child, POOLS, START_SECONDS, pools_of, run_deadline

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
# Quick ones first: time that they leave is the others'.
# name: (goal for reserved/requested, goal for seconds/default)
PROGRAMS = {
    "serve_kv_cache": (1.02, 1.02),
    "resnet50_multires": (1.01, 1.02),
    "llama1b_train_ckpt": (1.01, 1.02),
    "sage_subgraphs": (1.01, 1.05),
    "gpt2_train_varlen": (1.01, 1.02),
    "bert_dynpad": (1.01, 1.02),
}
WITHOUT_LOSS = {"serve_kv_cache"}


def measure(children, repeats, soft, end):
    """Times and peaks of one program under every mode: {mode: {...}}."""
    results = {each.mode: {"seconds": [], "ratios": []} for each in children}
    slowest = 0.0
    for turn in range(repeats + 1):
        began = time.monotonic()
        if turn > 1 and began + slowest > soft:
            break
        for each in children:
            answer = each.ask("run", run_deadline(end))
            if answer and turn == 0:
                results[each.mode]["warm_up_seconds"] = answer["seconds"]
            elif answer:
                results[each.mode]["seconds"].append(answer["seconds"])
            numbers = each.ask("stats", run_deadline(end)) or {}
            if numbers.get("peak_requested_bytes"):
                results[each.mode]["ratios"].append(numbers["peak_reserved_bytes"]
                                                    / numbers["peak_requested_bytes"])
                results[each.mode].update(numbers)
        slowest = time.monotonic() - began
    for each in children:
        result = results[each.mode]
        result["failed"] = each.failed
        if result["seconds"]:
            result["seconds_median"] = statistics.median(result["seconds"])
        if result["ratios"]:
            result["ratio"], result["ratio_of_one_run"] = result["ratios"][-1], result["ratios"][0]
    return results


def measure_fresh(children, end):
    """Peaks of one run in a process of its own: {mode: {...}}."""
    results = {}
    for each in children:
        answer = each.ask("run", run_deadline(end))
        numbers = each.ask("stats", run_deadline(end)) or {}
        each.end()
        result = results.setdefault(each.mode, {"seconds": [], "ratios": [], "failed": None})
        result["failed"] = result["failed"] or each.failed
        if answer and numbers.get("peak_requested_bytes"):
            result.update(numbers)
            result["seconds"].append(answer["seconds"])
            result["ratios"].append(numbers["peak_reserved_bytes"] / numbers["peak_requested_bytes"])
            result["ratio"] = statistics.median(result["ratios"])
            result["seconds_median"] = statistics.median(result["seconds"])
    return results


def first_difference(values, others):
    """The step at which two lists of losses part; -1: equal throughout."""
    if values == others:
        return -1
    pairs = zip(values, others)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(values), len(others)))


def compare_losses(children, end):
    """Losses against the first mode's. Nothing is timed here, so all processes run at once."""
    first, found = children[0], {"steps": 0, "strict": True, "repeats_itself": None, "modes": {}}
    for each in children:
        each.tell("losses")
    answers = {each.mode: each.hear(run_deadline(end)) for each in children}
    expected = answers[first.mode]
    again = first.ask("losses", run_deadline(end)) if expected else None
    if expected:
        found.update(steps=len(expected["losses"]), strict=expected["strict"])
    if expected and again:
        found["repeats_itself"] = first_difference(again["losses"], expected["losses"]) == -1
    for mode, answer in answers.items():
        found["modes"][mode] = first_difference(answer["losses"], expected["losses"]) \
            if answer and expected else None
    return found


def goals_missed(name, results, losses):
    ratio_goal, seconds_goal = PROGRAMS[name]
    default = results.get("default", {})
    for mode, result in results.items():
        if result["failed"] is not None:
            yield f"{mode}: {result['failed']}"
    for mode in pools_of(results):
        ours = results[mode]
        if not ours["failed"] and "ratio" not in ours:
            yield f"{mode} was never asked for memory"
        if ours.get("ratio", 0) > ratio_goal:
            yield f"{mode}: ratio {ours['ratio']:.4f} > {ratio_goal}"
        if "seconds_median" in ours and "seconds_median" in default:
            share = ours["seconds_median"] / default["seconds_median"]
            if share > seconds_goal:
                yield f"{mode}: seconds {share:.3f} of default > {seconds_goal}"
    for mode, step in (losses["modes"] if losses else {}).items():
        if step is None:
            yield f"losses of {mode}: the run failed"
        elif step >= 0 and losses["repeats_itself"] is False:
            yield f"losses of {mode} differ from step {step} on, but so do the program's own"
        elif step >= 0:
            yield f"losses of {mode} differ from step {step} on"


def show_losses(losses):
    if losses is None:
        return
    steps = set(losses["modes"].values())
    word = "equal" if steps == {-1} else "NOT EQUAL"
    notes = "" if losses["strict"] else ", some operations without a deterministic form"
    if losses["repeats_itself"] is False:
        notes += ", the program does not repeat its own losses"
    print(f"  losses       {word} over {losses['steps']} steps{notes}: {losses['modes']}")


def show(name, results, losses, missed):
    default = results.get("default", {}).get("seconds_median")
    print(f"\n{name}")
    for mode, result in results.items():
        if "seconds_median" not in result:
            print(f"  {mode:12} FAILED: {result['failed']}")
            continue
        share = result["seconds_median"] / default if default else float("nan")
        moves = f", {result['moved_handles']} handles moved in {result['move_ns'] / 1e9:.3f} s" \
            if "moved_handles" in result else ""
        first = f" (after one run {result['ratio_of_one_run']:.4f})" \
            if "ratio_of_one_run" in result else ""
        print(f"  {mode:12} ratio {result.get('ratio', float('nan')):.4f}{first}  "
              f"{result['seconds_median']:.3f} s ({share:.3f} of default, "
              f"{len(result['seconds'])} runs), requested "
              f"{result.get('peak_requested_bytes', 0) / 1e9:.3f} GB{moves}")
    show_losses(losses)
    print("  " + ("MISSED: " + "; ".join(missed) if missed else "goals met"), flush=True)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plugin", default=os.path.join(ROOT, "build", "bench", "libvram_torch.so"))
    parser.add_argument("--programs", default=",".join(PROGRAMS))
    parser.add_argument("--modes", default="default,expandable,vram.torch")
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--quick", action="store_true", help="one run after the warm-up")
    parser.add_argument("--fresh", type=int, default=0, metavar="N",
                        help="one run in each of N processes, for its memory")
    parser.add_argument("--least", action="store_true",
                        help="the least memory in which the programs run")
    parser.add_argument("--largest", action="store_true",
                        help="the largest batch or longest context under 8, 16, 24 and 80 GB")
    parser.add_argument("--limits", default="8,16,24,80", help="of --largest, in GB")
    parser.add_argument("--pairs", type=int, default=0, metavar="N",
                        help="N pairs of runs, a pool against expandable_segments")
    parser.add_argument("--steps", type=int, help="fewer steps of each program, to try --least")
    parser.add_argument("--budget-seconds", type=float, default=3600)
    parser.add_argument("--no-losses", action="store_true")
    parser.add_argument("--no-time", action="store_true")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    options.programs, options.modes = options.programs.split(","), options.modes.split(",")
    options.plugin = os.path.abspath(options.plugin)
    options.limits = [int(float(limit) * 1e9) for limit in options.limits.split(",")]
    options.repeats = 1 if options.quick else options.repeats or (3 if options.least else 5)
    for name in options.programs:
        if name not in PROGRAMS:
            parser.error(f"no program {name}; there are {', '.join(PROGRAMS)}")
    for mode in options.modes:
        if mode not in ("default", "expandable") + POOLS:
            parser.error(f"no mode {mode}; there are default, expandable, vram.torch and vram")
    if options.pairs and not pools_of(options.modes):
        parser.error("--pairs compares vram.torch or vram with PyTorch's allocators; --modes has neither")
    if "vram" in options.modes and not os.path.exists(options.plugin):
        parser.error(f"{options.plugin} is missing; cmake --build build --target vram_torch makes it")
    return options


def absent_modules(name):
    needed = ["torch"] + ([IMPORTS[name].split(":")[0].split(".")[0]] if IMPORTS[name] else [])
    return [module for module in needed if importlib.util.find_spec(module) is None]


def one_program(name, children, options, soft, end):
    if options.fresh:
        results = measure_fresh(children, end)
        missed = [text for text in goals_missed(name, results, None) if "seconds" not in text]
        show(name, results, None, missed)
        for mode, result in results.items():
            print(f"  {mode:12} ratios {' '.join(f'{ratio:.4f}' for ratio in result['ratios'])}")
        return {"name": name, "modes": results, "losses": None, "missed": missed}
    results = measure(children, options.repeats, soft, end) if not options.no_time else {}
    losses = None
    if not options.no_losses and name not in WITHOUT_LOSS:
        losses = compare_losses(children, end)
    missed = list(goals_missed(name, results, losses))
    show(name, results, losses, missed)
    return {"name": name, "modes": results, "losses": losses, "missed": missed}


def run_all(options, crews, end):
    """Yields what each program gave; a program that time does not allow is named."""
    start = min(end, time.monotonic() + START_SECONDS)
    for children in crews.values():
        for each in children:
            each.hear(start)  # the greeting: everything is imported
    for number, (name, children) in enumerate(crews.items()):
        now = time.monotonic()
        if now + 15 > end:
            print(f"\n{name}\n  not run: no time left", flush=True)
            yield {"name": name, "missed": ["no time left"]}
        else:
            soft = now + (end - now) / (len(crews) - number) * 0.8  # the rest is for the losses
            yield one_program(name, children, options, soft, end)
        for each in children:
            each.end()


def interleaved(names, options, end):
    """Yields what each program gave: ratio, time and losses."""
    crews = {name: [Child(name, mode, options.plugin)
                    for _ in range(max(1, options.fresh)) for mode in options.modes]
             for name in names}
    try:
        yield from run_all(options, crews, end)
    finally:
        for each in (each for children in crews.values() for each in children):
            each.process.kill()


def commit():
    """Which commit this is; "" outside of a repository."""
    if os.environ.get("VRAM_COMMIT"):
        return os.environ["VRAM_COMMIT"]
    try:
        said = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short=8", "HEAD"], check=False,
                              capture_output=True, text=True)
        return said.stdout.strip()
    except OSError:
        return ""


def main():
    options = parse()
    end = time.monotonic() + options.budget_seconds
    document = {"schema": "vram.torch/3", "commit": commit(), "programs": []}
    names = []
    for name in options.programs:
        absent = absent_modules(name)
        if absent:
            print(f"\n{name}\n  left out: no module {', '.join(absent)}")
            document["programs"].append({"name": name, "left_out": absent, "missed": []})
        else:
            names.append(name)
    if options.least:
        document["schema"] = "vram.torch_least/1"
        results = torch_least.run(names, options.modes, options.plugin, options.repeats, end,
                                  {"steps": options.steps} if options.steps else {})
    elif options.largest:
        document["schema"] = "vram.torch_largest/1"
        results = torch_largest.run(names, options.modes, options.plugin, end, options.limits)
    elif options.pairs:
        document["schema"] = "vram.torch_pairs/1"
        results = torch_compare.run(names, options.plugin, options.pairs, end,
                                    pools_of(options.modes)[0])
    else:
        results = interleaved(names, options, end)
    for result in results:
        document["programs"].append(result)
        if options.json:  # as it stands, should the time limit strike
            with open(options.json, "w", encoding="utf-8") as stream:
                json.dump(document, stream, indent=2)
                stream.write("\n")
    return 1 if any(result["missed"] for result in document["programs"]) else 0


if __name__ == "__main__":
    sys.exit(main())
