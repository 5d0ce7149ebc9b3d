# SPDX-License-Identifier: Apache-2.0
"""Time under a pool against that under PyTorch's allocators, in pairs of runs (torch_run.py --pairs N).

Each pair is one run under each allocator, one right after the other, and who is first changes from
pair to pair. What is compared is the ratio of medians over all pairs, for whole runs and for the 99th
percentile of step times, with a confidence interval of 95 %: pairs are drawn again with replacement,
10,000 times, 400 times for steps. serve_kv_cache is compared with the default allocator too.
"""
import math
import random
import statistics
import time

from torch_process import START_SECONDS, Child, run_deadline, share_deadline

DRAWS = 10_000
RESERVE_SECONDS = 10  # for the last run and the draws
# Against whom: (goal for the median, goal for the 99th percentile of steps, None: no goal).
GOALS = {"expandable": (1.00, 1.02), "default": (1.02, None)}
ALSO_DEFAULT = {"serve_kv_cache"}


def peers_of(name):
    return ["expandable", "default"] if name in ALSO_DEFAULT else ["expandable"]


def rank_from_top(count):
    """Which value from above the 99th percentile of so many is: that which 99 % are not above."""
    return count - math.ceil(count * 0.99) + 1


def interval(pairs, statistic, draws=DRAWS, seed=1):
    """The statistic of (ours, theirs) over all pairs, and between which values it lies in 95 % of the
    draws."""
    rng = random.Random(seed)
    drawn = sorted(statistic(rng.choices(pairs, k=len(pairs))) for _ in range(draws))
    return {"ratio": statistic(pairs), "low": drawn[int(draws * 0.025)],
            "high": drawn[int(draws * 0.975) - 1]}


def ratio_of_medians(pairs):
    return statistics.median(ours for ours, _ in pairs) / \
        statistics.median(theirs for _, theirs in pairs)


def tails(runs):
    """Of each run's steps those that can decide on the 99th percentile of all steps together, and
    which of these it is, from above."""
    rank = rank_from_top(sum(len(run) for run in runs))
    return [sorted(run)[-rank:] for run in runs], rank


def ratio_of_p99(pairs):
    """Of the steps of all runs together; a pair is ((tail, rank), (tail, rank))."""
    ours, theirs = (sorted(ms for tail, _ in runs for ms in tail)[-runs[0][1]]
                    for runs in zip(*pairs))
    return ours / theirs


def measure(children, count, soft, end):
    """{mode: [(seconds, milliseconds of steps)]}, all of the same length; the first is a warm-up."""
    runs = {each.mode: [] for each in children}
    slowest = 0.0
    for turn in range(count + 1):
        began = time.monotonic()
        if turn > 2 and began + slowest > soft:
            break
        answers = {}
        for each in (children if turn % 2 else reversed(children)):
            answers[each.mode] = each.ask('run {"steps": true}', run_deadline(end))
        if not all(answers.values()):
            break
        if turn > 0:
            for mode, answer in answers.items():
                runs[mode].append((answer["seconds"], answer["step_ms"]))
        slowest = time.monotonic() - began
    return runs


def compare(ours, theirs):
    """Of two lists of (seconds, milliseconds of steps)."""
    seconds = [(a[0], b[0]) for a, b in zip(ours, theirs)]
    found = {"pairs": len(seconds), "seconds": seconds, "median": interval(seconds, ratio_of_medians)}
    if all(run[1] for run in ours + theirs):
        sides = []
        for side in (ours, theirs):
            lists, rank = tails([run[1] for run in side])
            sides.append([(tail, rank) for tail in lists])
        # Slow to draw where a run has thousands of steps.
        found["p99"] = interval(list(zip(*sides)), ratio_of_p99, DRAWS // 25)
    return found


def goals_missed(children, found):
    for each in children:
        if each.failed:
            yield f"{each.mode}: {each.failed}"
    for mode, result in found.items():
        for kind, goal in zip(("median", "p99"), GOALS[mode]):
            if goal and kind in result and result[kind]["ratio"] > goal + 0.0005:
                sure = "" if result[kind]["low"] > goal else ", not surely"
                yield f"{kind} {result[kind]['ratio']:.3f} of {mode} > {goal:.2f}{sure}"


def show(program):
    print(f"\n{program['name']}")
    for mode, result in program["against"].items():
        text = ", ".join(f"{kind} {result[kind]['ratio']:.3f} ({result[kind]['low']:.3f} to "
                         f"{result[kind]['high']:.3f})" for kind in ("median", "p99") if kind in result)
        medians = [statistics.median(column) for column in zip(*result["seconds"])]
        print(f"  {program['pool']} over {mode:11} {text}; {medians[0]:.3f} and {medians[1]:.3f} s, "
              f"{result['pairs']} pairs")
    missed = program["missed"]
    print("  " + ("MISSED: " + "; ".join(missed) if missed else "goals met"), flush=True)


def one_program(name, children, count, soft, end):
    runs = measure(children, count, soft, end)
    ours = children[0].mode
    found = {mode: compare(runs[ours], runs[mode]) for mode in runs
             if mode != ours and runs[ours] and runs[mode]}
    missed = list(goals_missed(children, found))
    if not found:
        missed.append("no pair was measured")
    program = {"name": name, "pool": ours, "against": found, "missed": missed}
    show(program)
    return program


def run(names, plugin, count, end, pool="vram.torch", spawn=Child):
    """Yields one result for each program."""
    crews = {name: [spawn(name, mode, plugin) for mode in [pool] + peers_of(name)]
             for name in names}
    everyone = [each for children in crews.values() for each in children]
    start = min(end, time.monotonic() + START_SECONDS)
    try:
        for each in everyone:
            each.hear(start)  # the greeting: everything is imported
        for number, (name, children) in enumerate(crews.items()):
            soft = share_deadline(name, names[number:], end - RESERVE_SECONDS)
            yield one_program(name, children, count, soft, end)
            for each in children:
                each.end()
    finally:
        for each in everyone:
            each.process.kill()
