#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch_run.py: real PyTorch programs under PyTorch's own allocators and under a pool of libvram.

usage: torch_run.py [--plugin LIB.so] [--programs A,B] [--modes default,expandable,vram]
                    [--repeats 5] [--quick] [--budget-seconds N] [--no-losses] [--no-time]
                    [--json FILE]
       torch_run.py --fresh N [--programs A,B] [--modes vram]

One process is started for each program and allocator, all at once, since most of their time is
spent importing. Programs are measured one after the other; the runs of one program's processes take
turns, so that whatever changes on the machine meets all allocators alike. The first run of each is
a warm-up. After the last, each process runs once more under deterministic algorithms, and the
losses are compared bit by bit, step by step; the first allocator does so twice, which shows whether
the program itself repeats its losses.

--fresh N tells how much memory one run of a program takes: N processes for each program and allocator
run it once each, and the ratio is the median of the processes.

--quick measures one run after the warm-up. --budget-seconds ends the repeats of a program when its
share of the time is used up, and names the programs that were not reached. No answer is waited for
longer than the budget allows.

Prints a table, and with --json writes all numbers. Exit code 0 when every goal is met, 1 when one is
missed, a run failed or time ran out, 2 for misuse. Programs whose modules are missing are named and
left out.
"""
import argparse
import ctypes
import gc
import importlib
import importlib.util
import json
import os
import random
import select
import statistics
import struct
import subprocess
import sys
import time
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
# Quick ones first: time that they leave is the others'.
# name: (what it imports, as module:attribute, goal for reserved/requested, goal for seconds/default)
PROGRAMS = {
    "serve_kv_cache": (None, 1.02, 1.02),
    "resnet50_multires": ("torchvision:models", 1.01, 1.02),
    "llama1b_train_ckpt": ("transformers:LlamaForCausalLM", 1.01, 1.02),
    "sage_subgraphs": ("torch_geometric.nn:SAGEConv", 1.01, 1.05),
    "gpt2_train_varlen": ("transformers:GPT2LMHeadModel", 1.01, 1.02),
    "bert_dynpad": ("transformers:BertForSequenceClassification", 1.01, 1.02),
}
WITHOUT_LOSS = {"serve_kv_cache"}
STATS = ["peak_requested_bytes", "peak_reserved_bytes", "requested_bytes", "reserved_bytes", "allocs",
         "hits", "moved_handles", "move_ns", "driver_creates", "driver_releases", "driver_maps",
         "driver_unmaps"]
START_SECONDS = 120  # for importing everything, all processes at once
RUN_SECONDS = 90     # for one run of one program


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
        if hasattr(native, setter):
            getattr(native, setter)(address)
        else:
            print(f"torch_run: this PyTorch has no {setter}", file=sys.stderr)
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


def run_deterministic(torch, program, strict):
    """The losses of one run as bits. What a program calls backward on is its loss."""
    losses = []
    original = torch.Tensor.backward

    def backward(self, *arguments, **names):
        losses.append(self.detach().clone())
        return original(self, *arguments, **names)

    torch.use_deterministic_algorithms(True, warn_only=not strict)
    torch.backends.cudnn.benchmark = False
    torch.Tensor.backward = backward
    try:
        run_once(torch, program)
    finally:
        torch.Tensor.backward = original
        torch.use_deterministic_algorithms(False)
    return [struct.pack("<f", float(loss)).hex() for loss in losses]


def run_losses(torch, program):
    """Strictly where PyTorch can: some operations only exist in forms that it does not vouch for."""
    warnings.simplefilter("ignore")
    try:
        return {"losses": run_deterministic(torch, program, True), "strict": True}
    except RuntimeError as error:
        if "deterministic" not in str(error):
            raise
    gc.collect()
    return {"losses": run_deterministic(torch, program, False), "strict": False}


def child(name, mode, plugin):
    sys.path.insert(0, os.path.join(HERE, "programs"))
    answers = os.fdopen(os.dup(1), "w")  # what libraries print must not get between the answers
    os.dup2(2, 1)
    import torch
    import torch_programs
    if PROGRAMS[name][0] is not None:
        module, attribute = PROGRAMS[name][0].split(":")
        getattr(importlib.import_module(module), attribute)
    library = install(torch, mode, plugin)
    torch.cuda.init()
    program = getattr(torch_programs, name)
    print(json.dumps({"torch": torch.__version__}), file=answers, flush=True)
    for line in sys.stdin:
        order = line.strip()
        if order == "run":
            answer = {"seconds": run_once(torch, program)}
        elif order == "losses":
            answer = run_losses(torch, program)
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

    def __init__(self, name, mode, plugin):
        environment = dict(os.environ)
        config = "expandable_segments:True" if mode == "expandable" else ""
        # What deterministic runs need of cuBLAS is its default on this hardware.
        environment.update(PYTORCH_CUDA_ALLOC_CONF=config, PYTORCH_ALLOC_CONF=config,
                           PYTHONHASHSEED="0", CUBLAS_WORKSPACE_CONFIG=":4096:8",
                           HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
        self.mode = mode
        self.failed = None  # why
        self.buffer = b""
        self.process = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), "--child", name, mode, plugin],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, env=environment)

    def tell(self, order):
        if self.failed is None:
            try:
                self.process.stdin.write(order.encode() + b"\n")
            except OSError:
                self.failed = "the process has ended"

    def hear(self, deadline):
        """The next answer as a dictionary; None when the process has failed or is too slow."""
        output = self.process.stdout
        while self.failed is None and b"\n" not in self.buffer:
            left = max(0.0, deadline - time.monotonic())
            if not select.select([output], [], [], left)[0]:
                self.failed = "no answer in time"
                self.process.kill()
                break
            piece = os.read(output.fileno(), 1 << 16)
            if not piece:
                self.failed = f"the process ended with code {self.process.wait()}"
            self.buffer += piece
        if self.failed is not None:
            return None
        line, self.buffer = self.buffer.split(b"\n", 1)
        return json.loads(line)

    def ask(self, order, deadline):
        self.tell(order)
        return self.hear(deadline)

    def end(self):
        try:
            self.process.stdin.close()
            self.process.wait(timeout=20)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()


def run_deadline(end):
    return min(end, time.monotonic() + RUN_SECONDS)


def measure(children, repeats, soft, end):
    """Times and peaks of one program under every mode: {mode: {...}}."""
    results = {each.mode: {"seconds": []} for each in children}
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
        slowest = time.monotonic() - began
    for each in children:
        result = results[each.mode]
        result.update(each.ask("stats", run_deadline(end)) or {})
        result["failed"] = each.failed
        if result["seconds"]:
            result["seconds_median"] = statistics.median(result["seconds"])
        if result.get("peak_requested_bytes"):
            result["ratio"] = result["peak_reserved_bytes"] / result["peak_requested_bytes"]
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
    _, ratio_goal, seconds_goal = PROGRAMS[name]
    ours, default = results.get("vram", {}), results.get("default", {})
    for mode, result in results.items():
        if result["failed"] is not None:
            yield f"{mode}: {result['failed']}"
    if ours and not ours["failed"] and "ratio" not in ours:
        yield "the plug-in was never asked for memory"
    if ours.get("ratio", 0) > ratio_goal:
        yield f"ratio {ours['ratio']:.4f} > {ratio_goal}"
    if "seconds_median" in ours and "seconds_median" in default:
        share = ours["seconds_median"] / default["seconds_median"]
        if share > seconds_goal:
            yield f"seconds {share:.3f} of default > {seconds_goal}"
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
        print(f"  {mode:12} ratio {result.get('ratio', float('nan')):.4f}  "
              f"{result['seconds_median']:.3f} s ({share:.3f} of default, "
              f"{len(result['seconds'])} runs), requested "
              f"{result.get('peak_requested_bytes', 0) / 1e9:.3f} GB{moves}")
    show_losses(losses)
    print("  " + ("MISSED: " + "; ".join(missed) if missed else "goals met"), flush=True)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plugin", default=os.path.join(ROOT, "build", "bench", "libvram_torch.so"))
    parser.add_argument("--programs", default=",".join(PROGRAMS))
    parser.add_argument("--modes", default="default,expandable,vram")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one run after the warm-up")
    parser.add_argument("--fresh", type=int, default=0, metavar="N",
                        help="one run in each of N processes, for its memory")
    parser.add_argument("--budget-seconds", type=float, default=3600)
    parser.add_argument("--no-losses", action="store_true")
    parser.add_argument("--no-time", action="store_true")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    options.programs, options.modes = options.programs.split(","), options.modes.split(",")
    options.plugin = os.path.abspath(options.plugin)
    options.repeats = 1 if options.quick else options.repeats
    for name in options.programs:
        if name not in PROGRAMS:
            parser.error(f"no program {name}; there are {', '.join(PROGRAMS)}")
    for mode in options.modes:
        if mode not in ("default", "expandable", "vram"):
            parser.error(f"no mode {mode}; there are default, expandable and vram")
    if "vram" in options.modes and not os.path.exists(options.plugin):
        parser.error(f"{options.plugin} is missing; cmake --build build --target vram_torch makes it")
    return options


def absent_modules(name):
    needed = ["torch"] + ([PROGRAMS[name][0].split(":")[0].split(".")[0]] if PROGRAMS[name][0] else [])
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


def main():
    options = parse()
    end = time.monotonic() + options.budget_seconds
    document, crews = {"schema": "vram.torch/2", "programs": []}, {}
    for name in options.programs:
        absent = absent_modules(name)
        if absent:
            print(f"\n{name}\n  left out: no module {', '.join(absent)}")
            document["programs"].append({"name": name, "left_out": absent, "missed": []})
        else:
            crews[name] = [Child(name, mode, options.plugin)
                           for _ in range(max(1, options.fresh)) for mode in options.modes]
    try:
        for result in run_all(options, crews, end):
            document["programs"].append(result)
            if options.json:  # as it stands, should the time limit strike
                with open(options.json, "w", encoding="utf-8") as stream:
                    json.dump(document, stream, indent=2)
                    stream.write("\n")
    finally:
        for each in (each for children in crews.values() for each in children):
            each.process.kill()
    return 1 if any(result["missed"] for result in document["programs"]) else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:5])
    sys.exit(main())
