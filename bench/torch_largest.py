# SPDX-License-Identifier: Apache-2.0
"""The largest batch and the longest context that PyTorch programs run with under a limit
(torch_run.py --largest).

Two runs without a limit tell how the live peak grows with the batch. From what that predicts for a
limit, with as much on top as the limit before took, the search goes up or down, to one part in a
hundred or to one. Once two limits are known, these predict the next instead: the peak of a small
batch may come from another part of the program than that of a large one. Searches of several
programs and allocators run at once where their memory fits the device. Afterwards the runs that count are made
again, alone on the device, and their steps timed: all but the first, which ends the making of the
model. A run that fails then is repeated with less, each time twice as much less.
"""
import concurrent.futures
import time

from torch_least import capacity_of
from torch_process import Child, Failed, Gate, OutOfTime, Runner, pools_of

LIMITS = tuple(limit * 10**9 for limit in (8, 16, 24, 80))
# name: (argument, its unit, steps of a run, two sizes to start from, what throughput counts)
PROGRAMS = {
    "serve_kv_cache": ("context", 64, 2000, (64, 128), "tokens"),
    "resnet50_multires": ("batch", 1, 8, (8, 16), "images"),
    "llama1b_train_ckpt": ("batch", 1, 7, (4, 8), "tokens"),
    "gpt2_train_varlen": ("batch", 1, 8, (2, 4), "tokens"),
}
# What an allocator is expected to need over the live peak; where the search begins.
EXPECTED = {"default": 1.1, "expandable": 1.03, "vram": 1.006, "vram.torch": 1.006}
START_BYTES = 20 << 30  # what the runs to start with take at most
RETRIES = 5
SEARCH_PART = 0.62      # of the time


class Search:
    """The largest size that runs, to `step`. `good`: the largest that ran; 0: none did."""

    def __init__(self, runs, guess, step):
        self.runs, self.size, self.step = runs, max(1, guess), step
        self.good, self.bad, self.tries = 0, None, 0

    def try_one(self, size):
        self.tries += 1
        if self.runs(size):
            self.good = max(self.good, size)
            return True
        self.bad = size if self.bad is None else min(self.bad, size)
        return False

    def find(self):
        """Out of time, what was found."""
        stride = self.step
        try:
            if self.try_one(self.size):
                while self.bad is None:
                    self.try_one(self.good + stride)
                    stride *= 2
            else:
                while self.good == 0 and self.bad > 1:
                    self.try_one(max(1, self.bad - stride))
                    stride *= 2
            while self.good and self.bad - self.good > self.step:
                self.try_one((self.good + self.bad) // 2)
        except OutOfTime:
            pass
        return self.good


def order(name, size):
    argument, unit, steps = PROGRAMS[name][:3]
    return {"arguments": {argument: size * unit, "steps": steps}}


def predict(name, runner, gate, soft, end):
    """Bytes of the live peak that are always there, and bytes for each unit of the size."""
    peaks = []
    sizes = PROGRAMS[name][3]
    for size in sizes:
        with gate.holding(START_BYTES):
            answer = runner.attempt(0, soft, end, **order(name, size))
        if not answer["ran"]:
            raise Failed(f"without a limit: {answer['reason']}")
        peaks.append(answer["peak_requested_bytes"])
    each = max(1, (peaks[1] - peaks[0]) / (sizes[1] - sizes[0]))
    return peaks[0] - each * sizes[0], each


def guess_size(model, expected, known, limit):
    """`known`: the limits before that something ran under, with its size."""
    if len(known) > 1:
        (before, less), (last, size) = known[-2:]
        return int(size + (size - less) * (limit - last) / (last - before))
    base, each = model
    return int((limit / expected - base) / each)


def search_limit(name, runner, gate, guess, limit, soft, end):
    step = max(1, guess // 100)
    result = {"limit_bytes": limit, "guess": guess, "step": step, "reasons": []}

    def runs(size):
        with gate.holding(limit):
            answer = runner.attempt(limit, soft, end, **order(name, size))
        if answer["reason"] and answer["reason"] not in result["reasons"]:
            result["reasons"].append(answer["reason"])
        return answer["ran"]

    found = Search(runs, guess, step)
    result.update(size=found.find(), tries=found.tries)
    return result


def search_mode(name, runner, gate, limits, soft, end):
    """All limits of one program and allocator; a dictionary with a list of results."""
    results = []
    try:
        runner.greet(end)
        model = predict(name, runner, gate, soft, end)
        expected = EXPECTED[runner.mode]
        known = []
        for limit in limits:
            guess = guess_size(model, expected, known, limit)
            found = search_limit(name, runner, gate, guess, limit, soft, end)
            results.append(found)
            if found["size"]:
                known.append((limit, found["size"]))
                expected = max(1.0, limit / (model[0] + model[1] * (found["size"] + 0.5)))
    except OutOfTime:
        return {"limits": results, "failed": "no time left"}
    except Failed as failure:
        return {"limits": results, "failed": str(failure)}
    except Exception as error:  # the other programs go on
        return {"limits": results, "failed": f"{type(error).__name__}: {error}"}
    return {"limits": results, "failed": None}


def add_throughput(name, runner, result, end):
    """One run alone, its steps timed."""
    unit = PROGRAMS[name][1]
    for retry in range(RETRIES):
        if not result["size"]:
            break
        answer = runner.attempt(result["limit_bytes"], end, end, steps=True,
                                **order(name, result["size"]))
        if answer["ran"] and sum(answer["step_ms"]) > 0:
            result["per_second"] = 1000 * sum(answer["units"]) / sum(answer["step_ms"])
            result["live_peak_bytes"] = answer["peak_requested_bytes"]
            result["reserved_bytes"] = answer["peak_reserved_bytes"]
            break
        result["reasons"].append(f"alone, {result['size']}: {answer['reason']}")
        result["size"] = max(0, result["size"] - (result["step"] << retry))
    result["largest"] = result["size"] * unit


def goals_missed(name, modes):
    """Failures, and limits under which a pool runs less than one of PyTorch's allocators."""
    argument = PROGRAMS[name][0]
    for mode, found in modes.items():
        if found["failed"]:
            yield f"{mode}: {found['failed']}"
        for result in found["limits"]:
            if "per_second" not in result:
                yield f"{mode} under {result['limit_bytes'] / 1e9:.0f} GB: no run was timed"
    pool = next(iter(pools_of(modes)), None)
    for place, ours in enumerate(modes[pool]["limits"] if pool else []):
        for mode, found in modes.items():
            other = found["limits"][place] if place < len(found["limits"]) else ours
            if other.get("largest", 0) > ours.get("largest", 0) + ours["step"] * PROGRAMS[name][1]:
                yield (f"{argument} under {ours['limit_bytes'] / 1e9:.0f} GB: {ours.get('largest', 0)}, "
                       f"{mode} has {other['largest']}")


def show(program):
    print(f"\n{program['name']}: largest {program['argument']}, {program['counts']} per second")
    for mode, found in program["modes"].items():
        cells = [f"{result['limit_bytes'] / 1e9:.0f} GB: {result.get('largest', 0)}, "
                 f"{result.get('per_second', float('nan')):.0f}/s" for result in found["limits"]]
        print(f"  {mode:12} " + ("; ".join(cells) or f"FAILED: {found['failed']}"))
    missed = program["missed"]
    print("  " + ("MISSED: " + "; ".join(missed) if missed else "goals met"), flush=True)


def run(names, modes, plugin, end, limits=LIMITS, spawn=Child):
    """Yields one result for each program that has a size to search for."""
    start = time.monotonic()
    soft = start + (end - start) * SEARCH_PART
    names = [name for name in names if name in PROGRAMS]
    runners = {(name, mode): Runner(name, mode, plugin, spawn=spawn)
               for name in reversed(names) for mode in modes}  # long ones first
    if not runners:
        return
    try:
        gate = Gate(capacity_of(list(runners.values()), end))
        with concurrent.futures.ThreadPoolExecutor(len(runners)) as threads:
            futures = {key: threads.submit(search_mode, key[0], runner, gate, limits, soft, end)
                       for key, runner in runners.items()}
            found = {key: future.result() for key, future in futures.items()}
        for name in names:
            yield time_program(name, modes, runners, found, end)
    finally:
        for runner in runners.values():
            runner.kill()


def time_program(name, modes, runners, found, end):
    """Limits in turn, and under each one allocator after the other."""
    places = range(max(len(found[name, mode]["limits"]) for mode in modes))
    for place in places:
        for mode in modes:
            if place < len(found[name, mode]["limits"]):
                try:
                    add_throughput(name, runners[name, mode], found[name, mode]["limits"][place], end)
                except (OutOfTime, Failed) as failure:
                    found[name, mode]["failed"] = str(failure) or "no time left"
    argument, _, steps, _, counts = PROGRAMS[name]
    results = {mode: found[name, mode] for mode in modes}
    hello = next((runners[name, mode].hello for mode in modes if runners[name, mode].hello), {})
    program = {"name": name, "argument": argument, "counts": counts, "steps": steps,
               "device": hello.get("device"), "torch": hello.get("torch"), "modes": results,
               "missed": list(goals_missed(name, results))}
    show(program)
    return program
