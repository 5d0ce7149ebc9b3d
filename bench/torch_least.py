# SPDX-License-Identifier: Apache-2.0
"""The least memory in which PyTorch programs still run (torch_run.py --least).

For each program and allocator a bisection finds the least limit under which one run, started from an
allocator that holds nothing, comes to its end; PyTorch's own allocators are limited by
set_per_process_memory_fraction, a pool by its limit. It is given over the live peak, the most bytes
that the program had requested at once in a run without a limit.

1. PyTorch's allocators are searched several programs at once: whether they run does not depend on
   time.
2. Pools are searched one after the other, alone on the device: how much memory they move depends on
   the time that a program gives them.
3. Runs without a limit and runs at the least memory take turns, and are timed; so each least
   memory is confirmed. Where such a run fails the limit is raised by a step and all are run again.

A convolution whose workspace is refused makes PyTorch choose another algorithm, and remember it for
as long as the process lives. So programs with convolutions are timed in processes of their own,
those without a limit first.
"""
import concurrent.futures
import statistics
import time

from torch_process import POOLS, Child, Failed, Gate, OutOfTime, Runner, pools_of, share_deadline

GOALS = {"serve_kv_cache": 1.015}  # least memory over the live peak
GOAL = 1.006
TIME_GOAL = 1.05                   # seconds at the least memory over those without a limit
STEP_SHARE, STEP_BYTES = 0.001, 8 << 20
FALLS_BACK = {"resnet50_multires"}  # chooses another algorithm when memory is refused
ROUGH_BYTES = 34 << 30              # what a run without a limit takes at most
CONTEXT_BYTES = 1 << 30             # of the driver, for each process
TOGETHER = 6                        # searches at once
RAISES_MAX = 12
PHASES = (0.42, 0.68)               # when the first two phases end, as parts of the time


def goal_of(name):
    return GOALS.get(name, GOAL)


class Search:
    """Bisection over limits in bytes. `good`: the least that ran, `bad`: the most that did not.

    `runs(limit)` tells whether the program ran. The first limit tried is `first`; above it the
    distance from `peak` doubles, up to `most`. Below `peak` nothing is tried unless a limit within a
    step of it ran.
    """

    def __init__(self, runs, peak, first, most, step):
        self.runs, self.peak, self.step = runs, peak, step
        self.first, self.most = min(first, most), most
        self.good, self.bad, self.tries = None, None, 0

    def try_one(self, limit):
        self.tries += 1
        if self.runs(limit):
            self.good = limit if self.good is None else min(self.good, limit)
            return True
        self.bad = limit if self.bad is None else max(self.bad, limit)
        return False

    def climb(self):
        limit = self.first
        while not self.try_one(limit):
            if limit >= self.most:
                return
            limit = min(self.most, max(self.peak + 2 * (limit - self.peak), limit + self.step))

    def halve(self, bad):
        while self.good - bad > self.step:
            middle = (self.good + bad) // 2
            if not self.try_one(middle):
                bad = middle

    def descend(self):
        """Below the live peak, where a program that needs less when memory is refused still runs."""
        distance = self.step
        while self.bad is None or self.bad >= self.good:
            distance *= 2
            limit = self.peak - distance
            if limit <= self.peak // 2 or not self.try_one(limit):
                break
        if self.bad is not None:
            self.halve(max(self.bad, 0))

    def find(self):
        """The least limit, or None when even the greatest did not do. Out of time, what was found."""
        try:
            self.climb()
            if self.good is not None:
                self.halve(self.bad if self.bad is not None else self.peak)
                if self.bad is None and self.good - self.peak <= self.step:
                    self.descend()
        except OutOfTime:
            pass
        return self.good


def step_of(peak):
    return max(int(peak * STEP_SHARE), STEP_BYTES)


def search(runner, soft, end, gate):
    """A run without a limit, then the bisection; the result as a dictionary."""
    runner.greet(end)
    with gate.holding(ROUGH_BYTES):
        free = runner.attempt(0, end, end)
    if not free["ran"]:
        raise Failed(f"without a limit: {free['reason']}")
    peak, reserved = free["peak_requested_bytes"], free["peak_reserved_bytes"]
    result = {"live_peak_bytes": peak, "unlimited_reserved_bytes": reserved,
              "unlimited_ratio": reserved / peak, "step_bytes": step_of(peak), "attempts": []}

    def runs(limit):
        with gate.holding(limit + CONTEXT_BYTES):
            answer = runner.attempt(limit, soft, end)
        note = {"limit_bytes": limit, "ran": answer["ran"], "reason": answer["reason"],
                "seconds": answer.get("seconds"), "reserved_bytes": answer.get("peak_reserved_bytes"),
                "live_peak_bytes": answer.get("peak_requested_bytes"),
                "live_before_bytes": answer.get("live_before_bytes")}
        result["attempts"].append(note)
        return answer["ran"]

    # Under a limit an allocator may need more than it reserved without one, since it frees and splits
    # other blocks.
    most = int(reserved * 1.3)
    found = Search(runs, peak, int(peak * goal_of(runner.name)), most, step_of(peak))
    least = found.find()
    result["least_bytes"] = least
    result["bracket_bytes"] = None if least is None else least - (found.bad or peak)
    return result


def searched(runner, soft, end, gate):
    try:
        return search(runner, soft, end, gate)
    except OutOfTime:
        return {"failed": "no time left"}
    except Failed as failure:
        return {"failed": str(failure)}
    except Exception as error:  # the other programs go on
        return {"failed": f"{type(error).__name__}: {error}"}


def search_together(runners, soft, end, capacity):
    gate = Gate(capacity)
    with concurrent.futures.ThreadPoolExecutor(TOGETHER) as threads:
        futures = {key: threads.submit(searched, runner, soft, end, gate)
                   for key, runner in runners.items()}
        return {key: future.result() for key, future in futures.items()}


# ---------------------------------------------------------------------------------- time

def time_turns(name, pairs):
    """Which runs follow which: False without a limit, True at the least memory."""
    if name in FALLS_BACK:
        return [False] * pairs + [True] * pairs
    return [False, True] * pairs


class Timing:
    """Seconds of one program and allocator without a limit (`free`) and at the least memory
    (`tight`). Where a run fails there the limit is raised, and all runs under it are made again."""

    def __init__(self, runner, name, result, pairs):
        self.runner, self.name, self.result = runner, name, result
        self.turns, self.free, self.tight, self.raises = time_turns(name, pairs), [], [], 0
        self.cold = name in FALLS_BACK  # a process of its own, not warm yet
        self.slowest = 0.0

    def skip(self, soft):
        """Leaves out turns that there is no time for; each kind has at least one."""
        while self.turns and time.monotonic() + 2 * self.slowest > soft and \
                (self.tight if self.turns[0] else self.free):
            self.turns.pop(0)

    def raise_limit(self, reason):
        self.raises += 1
        if self.raises > RAISES_MAX:
            raise Failed(f"does not run again under {self.result['least_bytes']} bytes: {reason}")
        self.result["least_bytes"] += self.result["step_bytes"] * max(1, self.raises - 3)
        self.result["raises"] = self.raises
        self.turns = [True] * (len(self.tight) + 1) + self.turns
        self.tight = []

    def turn(self, end):
        """One run."""
        limited, began = self.turns.pop(0), time.monotonic()
        answer = self.runner.attempt(self.result["least_bytes"] if limited else 0, end, end)
        self.slowest = max(self.slowest, time.monotonic() - began)
        if answer["ran"] and limited:
            self.tight.append(answer["seconds"])
            self.result["reserved_bytes"] = answer["peak_reserved_bytes"]
            self.result["live_peak_at_least_bytes"] = answer["peak_requested_bytes"]
        elif answer["ran"]:
            self.free.append(answer["seconds"])
        elif limited:
            self.raise_limit(answer["reason"])
        else:
            raise Failed(f"without a limit: {answer['reason']}")

    def round(self, soft, end):
        """Two runs at most; what cannot be done is noted. Ends when `turns` is empty."""
        try:
            if self.cold:
                self.runner.attempt(0, end, end)
                self.cold = False
            for _ in range(2):
                self.skip(soft)
                if self.turns:
                    self.turn(end)
        except (OutOfTime, Failed) as failure:
            self.result["untimed"] = str(failure) or "no time left"
            self.turns = []

    def finish(self):
        result = self.result
        result.update(seconds=self.free, seconds_at_least=self.tight,
                      least_ratio=result["least_bytes"] / result["live_peak_bytes"])
        if self.free and self.tight:
            result["time_ratio"] = statistics.median(self.tight) / statistics.median(self.free)


def time_program(timings, soft, end):
    """The allocators in turns, so that whatever changes on the machine meets all alike."""
    while any(timing.turns for timing in timings):
        for timing in timings:
            if timing.turns:
                timing.round(soft, end)
    for timing in timings:
        timing.finish()


# -------------------------------------------------------------------------------- result

def goals_missed(name, modes):
    for mode, result in modes.items():
        if result.get("failed") or result.get("untimed"):
            yield f"{mode}: {result.get('failed') or result['untimed']}"
        elif result.get("least_bytes") is None:
            yield f"{mode}: did not run in 1.3 times what it had reserved without a limit"
        elif result.get("reserved_bytes", 0) > result["least_bytes"]:
            yield f"{mode}: reserved {result['reserved_bytes']} bytes, more than its limit"
    for mode in pools_of(modes):
        ours = modes[mode]
        if ours.get("least_ratio", 0) > goal_of(name) + 0.0005:
            yield f"{mode}: least memory {ours['least_ratio']:.4f} > {goal_of(name)}"
        if ours.get("time_ratio", 0) > TIME_GOAL:
            yield f"{mode}: time at the least memory {ours['time_ratio']:.3f} > {TIME_GOAL}"


def show(program):
    print(f"\n{program['name']}")
    for mode, result in program["modes"].items():
        if result.get("least_ratio") is None:
            why = result.get("failed") or "did not run in 1.3 times what it had reserved without a limit"
            print(f"  {mode:12} FAILED: {why}")
            continue
        print(f"  {mode:12} least {result['least_ratio']:.4f}"
              f" (to {result['bracket_bytes'] / result['live_peak_bytes']:.4f})"
              f"  without a limit {result['unlimited_ratio']:.4f}"
              f"  time {result.get('time_ratio', float('nan')):.3f} of {show_seconds(result)}"
              f"  live {result['live_peak_bytes'] / 1e9:.3f} GB"
              f"  {len(result['attempts'])} tries, raised {result.get('raises', 0)} times")
    missed = program["missed"]
    print("  " + ("MISSED: " + "; ".join(missed) if missed else "goals met"), flush=True)


def show_seconds(result):
    return f"{statistics.median(result['seconds']):.3f} s" if result["seconds"] else "-"


def capacity_of(runners, end):
    """Bytes that attempts may take together: the device's, less what each process needs itself."""
    total = 0
    for runner in runners:
        try:
            runner.greet(end)
            total = total or runner.hello["total_bytes"]
        except Failed:
            pass
    return max(total - (len(runners) + 2) * CONTEXT_BYTES, total // 2)


def run(names, modes, plugin, pairs, end, arguments=None, spawn=Child):
    """Yields one result for each program when all its allocators are done. `arguments` are the
    programs'."""
    start = time.monotonic()
    until = [start + (end - start) * part for part in PHASES]
    runners = {(name, mode): Runner(name, mode, plugin, arguments, spawn)
               for name in names for mode in modes}
    timers = {(name, mode): Runner(name, mode, plugin, arguments, spawn)
              for name in names if name in FALLS_BACK for mode in modes if mode != "vram"}
    everyone = list(runners.values()) + list(timers.values())
    try:
        yield from run_phases(names, modes, pairs, end, until, runners, timers, everyone)
    finally:
        for runner in everyone:
            runner.kill()


def run_phases(names, modes, pairs, end, until, runners, timers, everyone):
    capacity = capacity_of(everyone, end)
    peers = {key: runner for key, runner in reversed(runners.items()) if key[1] not in POOLS}
    results = search_together(peers, until[0], end, capacity)
    alone = Gate(capacity)
    pools = [key for key in runners if key[1] in POOLS]
    for number, key in enumerate(pools):
        now = time.monotonic()
        share = now + max(until[1] - now, 20) / (len(pools) - number) * 1.3
        results[key] = searched(runners[key], min(share, end), end, alone)
    for number, name in enumerate(names):
        found = {mode: results[name, mode] for mode in modes}
        timings = [Timing(timers.get((name, mode), runners[name, mode]), name, found[mode], pairs)
                   for mode in modes if found[mode].get("least_bytes")]
        time_program(timings, share_deadline(name, names[number:], end), end)
        for mode in modes:
            found[mode]["reasons"] = sorted(set(runners[name, mode].reasons))[:5]
            found[mode]["processes"] = runners[name, mode].starts
        hello = next((runners[name, mode].hello for mode in modes if runners[name, mode].hello), {})
        program = {"name": name, "device": hello.get("device"), "torch": hello.get("torch"),
                   "modes": found, "missed": list(goals_missed(name, found))}
        show(program)
        yield program
