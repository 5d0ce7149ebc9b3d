#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch_run.py: real PyTorch programs under PyTorch's own allocators and under a pool of libvram.

usage: torch_run.py [--plugin LIB.so] [--programs A,B] [--modes default,expandable,vram]
                    [--repeats 5] [--no-losses] [--no-time] [--seconds N] [--json FILE]

For each program one process per allocator is started; all stay alive, and their runs take turns,
so that whatever changes on the machine meets all of them. The first run of each is a warm-up. Then
come, in a process of their own, runs under deterministic algorithms whose losses are compared bit
by bit, step by step.

Prints a table, and with --json writes all numbers. Exit code 0 when every goal is met, 1 when one is
missed or a run failed, 2 for misuse. Programs whose modules are missing are named and left out.
"""
import argparse
import ctypes
import gc
import importlib.util
import json
import os
import random
import statistics
import struct
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
PROGRAMS = {  # name: modules it needs, goal for reserved/requested, goal for seconds/default
    "gpt2_train_varlen": (["transformers"], 1.01, 1.02),
    "llama1b_train_ckpt": (["transformers"], 1.01, 1.02),
    "resnet50_multires": (["torchvision"], 1.01, 1.02),
    "bert_dynpad": (["transformers"], 1.01, 1.02),
    "sage_subgraphs": (["torch_geometric"], 1.01, 1.05),
    "serve_kv_cache": ([], 1.02, 1.02),
}
WITHOUT_LOSS = {"serve_kv_cache"}
STATS = ["peak_requested_bytes", "peak_reserved_bytes", "requested_bytes", "reserved_bytes", "allocs",
         "hits", "moved_handles", "move_ns", "driver_creates", "driver_releases", "driver_maps",
         "driver_unmaps"]


# ------------------------------------------------------------------------------- child

def install(torch, mode, plugin):
    """Puts the allocator in place before the first CUDA tensor. Returns the plug-in's library."""
    if mode != "vram":
        return None
    allocator = torch.cuda.memory.CUDAPluggableAllocator(plugin, "vram_torch_alloc",
                                                         "vram_torch_free")
    library = ctypes.CDLL(plugin)  # the same copy: the loader knows the path already
    native = allocator.allocator()
    for setter, symbol in (("set_record_stream_fn", "vram_torch_record_stream"),
                           ("set_reset_fn", "vram_torch_empty_cache")):
        address = ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value
        getattr(native, setter)(address)
    torch.cuda.memory.change_current_allocator(allocator)
    library.keep = allocator
    return library


def stats(torch, library):
    if library is None:
        numbers = torch.cuda.memory_stats()
        return {"peak_requested_bytes": numbers["requested_bytes.all.peak"],
                "peak_reserved_bytes": numbers["reserved_bytes.all.peak"],
                "requested_bytes": numbers["requested_bytes.all.current"],
                "reserved_bytes": numbers["reserved_bytes.all.current"],
                "allocs": numbers["allocation.all.allocated"]}
    values = (ctypes.c_uint64 * len(STATS))()
    count = library.vram_torch_stats(torch.cuda.current_device(), values, len(STATS))
    return dict(zip(STATS, values)) if count == len(STATS) else {}


def run_once(torch, program):
    """As torch_programs.py runs them: the same seeds each time, timed from idle to idle."""
    torch.manual_seed(1)
    rng = random.Random(7)
    torch.cuda.synchronize()
    start = time.perf_counter()
    program(torch, rng)
    torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    gc.collect()
    return seconds


def run_losses(torch, program):
    """The losses of one run as bits. What a program calls backward on is its loss."""
    losses = []
    original = torch.Tensor.backward

    def backward(self, *arguments, **names):
        losses.append(self.detach().clone())
        return original(self, *arguments, **names)

    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.benchmark = False
    torch.Tensor.backward = backward
    try:
        run_once(torch, program)
    finally:
        torch.Tensor.backward = original
    return [struct.pack("<f", float(loss)).hex() for loss in losses]


def child(name, mode, plugin):
    sys.path.insert(0, os.path.join(HERE, "programs"))
    answers = os.fdopen(os.dup(1), "w")  # what libraries print must not get between the answers
    os.dup2(2, 1)
    import torch
    import torch_programs
    library = install(torch, mode, plugin)
    program = getattr(torch_programs, name)
    for line in sys.stdin:
        order = line.strip()
        if order == "run":
            answer = {"seconds": run_once(torch, program)}
        elif order == "losses":
            answer = {"losses": run_losses(torch, program)}
        elif order == "stats":
            answer = stats(torch, library)
        else:
            break
        print(json.dumps(answer), file=answers, flush=True)
    answers.flush()
    os._exit(0)  # the order in which libraries end is not what is tested here


# ------------------------------------------------------------------------------ parent

class Child:
    """One process with one allocator, given orders line by line."""

    def __init__(self, name, mode, plugin, deterministic):
        environment = dict(os.environ)
        config = "expandable_segments:True" if mode == "expandable" else ""
        environment.update(PYTORCH_CUDA_ALLOC_CONF=config, PYTORCH_ALLOC_CONF=config,
                           PYTHONHASHSEED="0")
        if deterministic:
            environment["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
        self.mode = mode
        self.process = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), "--child", name, mode, plugin],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def ask(self, order):
        """The answer as a dictionary; None when the process has failed."""
        try:
            self.process.stdin.write(order + "\n")
            self.process.stdin.flush()
        except OSError:
            return None
        line = self.process.stdout.readline()
        return json.loads(line) if line else None

    def end(self):
        try:
            self.process.stdin.close()
            self.process.wait(timeout=30)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()


def measure(name, options):
    """Times and peaks of one program under every mode: {mode: {...}}."""
    children = [Child(name, mode, options.plugin, False) for mode in options.modes]
    results = {mode: {"seconds": [], "failed": False} for mode in options.modes}
    deadline = time.monotonic() + options.seconds
    for turn in range(options.repeats + 1):
        if turn > 1 and time.monotonic() > deadline:
            break
        for each in children:
            result = results[each.mode]
            answer = None if result["failed"] else each.ask("run")
            result["failed"] = answer is None
            if answer and turn > 0:
                result["seconds"].append(answer["seconds"])
    for each in children:
        result = results[each.mode]
        result.update(each.ask("stats") or {} if not result["failed"] else {})
        each.end()
        if result["seconds"]:
            result["seconds_median"] = statistics.median(result["seconds"])
        if result.get("peak_requested_bytes"):
            result["ratio"] = result["peak_reserved_bytes"] / result["peak_requested_bytes"]
    return results


def compare_losses(name, options):
    """The step at which losses first differ from the first mode's, by mode; -1: equal throughout."""
    children = [Child(name, mode, options.plugin, True) for mode in options.modes]
    losses = {}
    for each in children:
        answer = each.ask("losses")
        losses[each.mode] = answer["losses"] if answer else None
        each.end()
    first = losses[options.modes[0]]
    found = {}
    for mode, values in losses.items():
        if not values or not first:
            found[mode] = None  # failed
        elif values == first:
            found[mode] = -1
        else:
            pairs = zip(values, first)
            found[mode] = next((i for i, (a, b) in enumerate(pairs) if a != b), len(first))
    return found, len(first or [])


def goals_missed(name, results, losses):
    _, ratio_goal, seconds_goal = PROGRAMS[name]
    ours, default = results.get("vram", {}), results.get("default", {})
    if results and ours.get("failed", "vram" in results):
        yield "the run failed"
    elif results and "vram" in results and "ratio" not in ours:
        yield "the plug-in was never asked for memory"
    if "ratio" in ours and ours["ratio"] > ratio_goal:
        yield f"ratio {ours['ratio']:.4f} > {ratio_goal}"
    if "seconds_median" in ours and "seconds_median" in default:
        share = ours["seconds_median"] / default["seconds_median"]
        if share > seconds_goal:
            yield f"seconds {share:.3f} of default > {seconds_goal}"
    for mode, step in (losses or {}).items():
        if step is None:
            yield f"losses of {mode}: the run failed"
        elif step >= 0:
            yield f"losses of {mode} differ from step {step} on"


def show(name, results, losses, steps, missed):
    default = results.get("default", {}).get("seconds_median")
    print(f"\n{name}")
    for mode, result in results.items():
        if result["failed"] or "seconds_median" not in result:
            print(f"  {mode:12} FAILED")
            continue
        share = result["seconds_median"] / default if default else float("nan")
        moves = f", {result['moved_handles']} handles moved in {result['move_ns'] / 1e9:.3f} s" \
            if "moved_handles" in result else ""
        print(f"  {mode:12} ratio {result.get('ratio', float('nan')):.4f}  "
              f"{result['seconds_median']:.3f} s ({share:.3f} of default), requested "
              f"{result.get('peak_requested_bytes', 0) / 1e9:.3f} GB{moves}")
    if losses is not None:
        equal = all(step == -1 for step in losses.values())
        print(f"  losses       {'equal' if equal else 'NOT EQUAL'} over {steps} steps: {losses}")
    print("  " + ("MISSED: " + "; ".join(missed) if missed else "goals met"), flush=True)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plugin", default=os.path.join(ROOT, "build", "bench", "libvram_torch.so"))
    parser.add_argument("--programs", default=",".join(PROGRAMS))
    parser.add_argument("--modes", default="default,expandable,vram")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=600, help="for the repeats of one program")
    parser.add_argument("--no-losses", action="store_true")
    parser.add_argument("--no-time", action="store_true")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    options.programs, options.modes = options.programs.split(","), options.modes.split(",")
    options.plugin = os.path.abspath(options.plugin)
    for name in options.programs:
        if name not in PROGRAMS:
            parser.error(f"no program {name}; there are {', '.join(PROGRAMS)}")
    for mode in options.modes:
        if mode not in ("default", "expandable", "vram"):
            parser.error(f"no mode {mode}; there are default, expandable and vram")
    if "vram" in options.modes and not os.path.exists(options.plugin):
        parser.error(f"{options.plugin} is missing; cmake --build build --target vram_torch makes it")
    return options


def main():
    options = parse()
    document, failed = {"schema": "vram.torch/1", "programs": []}, False
    for name in options.programs:
        absent = [module for module in ["torch"] + PROGRAMS[name][0]
                  if importlib.util.find_spec(module) is None]
        if absent:
            print(f"\n{name}\n  left out: no module {', '.join(absent)}")
            document["programs"].append({"name": name, "left_out": absent})
            continue
        results = {} if options.no_time else measure(name, options)
        losses, steps = None, 0
        if not options.no_losses and name not in WITHOUT_LOSS:
            losses, steps = compare_losses(name, options)
        missed = list(goals_missed(name, results, losses))
        failed = failed or bool(missed)
        show(name, results, losses, steps, missed)
        document["programs"].append({"name": name, "modes": results, "loss_steps": steps,
                                     "first_different_loss": losses, "missed": missed})
    if options.json:
        with open(options.json, "w", encoding="utf-8") as stream:
            json.dump(document, stream, indent=2)
            stream.write("\n")
    return 1 if failed else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:5])
    sys.exit(main())
