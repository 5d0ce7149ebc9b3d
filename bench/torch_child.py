#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch_child.py PROGRAM MODE PLUGIN: one PyTorch program under one allocator, for torch_run.py.

Reads orders from its standard input, a line each, and answers each with one line of JSON. The first
line, unasked, is the greeting: everything is imported and the allocator in place.

  run [JSON]     runs the program once: seconds; {"steps": true}: and milliseconds of each step
  stats          what the allocator has requested and reserved, and at its peak
  losses         runs it under deterministic algorithms: the losses as bits
  attempt JSON   runs it once from an allocator that holds nothing: {"limit": BYTES, 0 none,
                 "arguments": {of the program}, "steps": whether to time each step}. Tells whether it
                 ran, how long it took, and its peaks. If not, why, and whether the process can go on.

A process that an error of the device has made useless says so ("usable" false) and is to be
replaced.
"""
import ctypes
import gc
import importlib
import json
import os
import random
import struct
import sys
import time
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
# What a program imports beside PyTorch, as module:attribute.
IMPORTS = {
    "serve_kv_cache": None,
    "resnet50_multires": "torchvision:models",
    "llama1b_train_ckpt": "transformers:LlamaForCausalLM",
    "sage_subgraphs": "torch_geometric.nn:SAGEConv",
    "gpt2_train_varlen": "transformers:GPT2LMHeadModel",
    "bert_dynpad": "transformers:BertForSequenceClassification",
}
STATS = ["peak_requested_bytes", "peak_reserved_bytes", "requested_bytes", "reserved_bytes", "allocs",
         "hits", "moved_handles", "move_ns", "driver_creates", "driver_releases", "driver_maps",
         "driver_unmaps"]
# Steps of serve are a few calls each and run on the host; those of the others are the device's.
STEPS_ON_HOST = {"serve_kv_cache"}


def install(torch, mode, plugin):
    """Puts the allocator in place before the first CUDA tensor. Returns the plug-in's library; None where
    torch.cuda.memory knows all."""
    if mode == "vram.torch":
        sys.path.insert(0, os.path.join(os.path.dirname(HERE), "bindings", "python"))
        adapter = importlib.import_module("vram.torch")
        adapter.enable(fallback=False)
    if mode != "vram":
        return None
    allocator = torch.cuda.memory.CUDAPluggableAllocator(plugin, "vram_torch_alloc",
                                                         "vram_torch_free")
    library = ctypes.CDLL(plugin)  # the same copy: the loader knows the path already
    library.vram_torch_limit.argtypes = [ctypes.c_int, ctypes.c_uint64]
    native = allocator.allocator()
    for setter, symbol in (("set_record_stream_fn", "vram_torch_record_stream"),
                           ("set_reset_fn", "vram_torch_empty_cache")):
        address = ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value
        if hasattr(native, setter):
            getattr(native, setter)(address)
        else:
            print(f"torch_child: this PyTorch has no {setter}", file=sys.stderr)
    torch.cuda.memory.change_current_allocator(allocator)
    library.keep = allocator
    return library


class StepClock:
    """When each step of a program ended: by events of the device, which nobody waits for, or on the
    host."""

    def __init__(self, torch, on_host):
        self.torch, self.on_host = torch, on_host
        self.units, self.times = [], []

    def mark(self):
        if self.on_host:
            self.times.append(time.perf_counter())
        else:
            event = self.torch.cuda.Event(enable_timing=True)
            event.record()
            self.times.append(event)

    def __call__(self, units):
        self.units.append(units)
        self.mark()

    def milliseconds(self):
        """Of every step but the first, which ends the making of the model."""
        pairs = zip(self.times, self.times[1:])
        return [(b - a) * 1000 if self.on_host else a.elapsed_time(b) for a, b in pairs]


class Session:
    def __init__(self, torch, name, mode, plugin):
        sys.path.insert(0, os.path.join(HERE, "programs"))
        self.torch, self.name, self.mode = torch, name, mode
        self.program = getattr(importlib.import_module("torch_programs"), name)
        if IMPORTS[name] is not None:
            module, attribute = IMPORTS[name].split(":")
            getattr(importlib.import_module(module), attribute)
        self.library = install(torch, mode, plugin)
        torch.cuda.init()
        properties = torch.cuda.get_device_properties(0)
        self.total_bytes, self.device = properties.total_memory, properties.name

    def stats(self):
        if self.library is None:
            numbers = self.torch.cuda.memory_stats()
            pool = sys.modules["vram.torch"].stats() if self.mode == "vram.torch" else {}
            return {**pool, "peak_requested_bytes": numbers.get("requested_bytes.all.peak", 0),
                    "peak_reserved_bytes": numbers.get("reserved_bytes.all.peak", 0),
                    "requested_bytes": numbers.get("requested_bytes.all.current", 0),
                    "reserved_bytes": numbers.get("reserved_bytes.all.current", 0),
                    "allocs": numbers.get("allocation.all.allocated", 0)}
        values = (ctypes.c_uint64 * len(STATS))()
        count = self.library.vram_torch_stats(self.torch.cuda.current_device(), values, len(STATS))
        return dict(zip(STATS, values)) if count == len(STATS) else {}

    def run(self, arguments=None, clock=None):
        """As torch_programs.py runs them: the same seeds each time, timed from idle to idle."""
        arguments = dict(arguments or {})
        if clock is not None:
            arguments["tick"] = clock
        self.torch.set_default_dtype(self.torch.float32)  # a failed run may have left another
        self.torch.manual_seed(1)
        rng = random.Random(7)
        self.torch.cuda.synchronize()
        start = time.perf_counter()
        self.program(self.torch, rng, **arguments)
        self.torch.cuda.synchronize()
        seconds = time.perf_counter() - start
        gc.collect()
        return seconds

    def release(self, limit):
        """Frees all that can be freed and sets the limit; the next run starts as in a new process.
        Returns how many bytes are still live."""
        torch = self.torch
        gc.collect()
        gc.collect()  # what finalizers of the first pass let go
        torch.cuda.synchronize()
        clear = getattr(torch._C, "_cuda_clearCublasWorkspaces", None)
        if clear is not None:
            clear()
        torch.cuda.empty_cache()
        live = self.stats().get("requested_bytes", 0)
        if self.library is None:
            torch.cuda.reset_peak_memory_stats()
            torch.cuda.set_per_process_memory_fraction(
                min(1.0, limit / self.total_bytes) if limit else 1.0)
        elif self.library.vram_torch_limit(torch.cuda.current_device(), limit) < 0:
            raise RuntimeError("the plug-in cannot set its limit")
        return live

    def attempt(self, order):
        answer = {"ran": False, "usable": True, "reason": None, "limit_bytes": order["limit"]}
        clock = StepClock(self.torch, self.name in STEPS_ON_HOST) if order.get("steps") else None
        try:
            answer["live_before_bytes"] = self.release(order["limit"])
            answer["seconds"] = self.run(order.get("arguments"), clock)
            answer["ran"] = True
        except Exception as error:  # memory ran out, or whatever a library makes of it
            answer["reason"] = f"{type(error).__name__}: {str(error).strip()}".splitlines()[0][:300]
        try:
            answer.update(self.stats())
            if clock is not None and answer["ran"]:
                answer.update(step_ms=clock.milliseconds(), units=clock.units[1:])
            answer["live_after_bytes"] = self.release(0)
        except Exception as error:
            answer["usable"] = False
            answer["reason"] = answer["reason"] or str(error).splitlines()[0][:300]
        return answer

    def run_deterministic(self, strict):
        """The losses of one run as bits. What a program calls backward on is its loss."""
        torch, losses = self.torch, []
        original = torch.Tensor.backward

        def backward(tensor, *arguments, **names):
            losses.append(tensor.detach().clone())
            return original(tensor, *arguments, **names)

        torch.use_deterministic_algorithms(True, warn_only=not strict)
        torch.backends.cudnn.benchmark = False
        torch.Tensor.backward = backward
        try:
            self.run()
        finally:
            torch.Tensor.backward = original
            torch.use_deterministic_algorithms(False)
        return [struct.pack("<f", float(loss)).hex() for loss in losses]

    def losses(self):
        """Strictly where PyTorch can: some operations only exist in forms that it does not vouch
        for."""
        warnings.simplefilter("ignore")
        try:
            return {"losses": self.run_deterministic(True), "strict": True}
        except RuntimeError as error:
            if "deterministic" not in str(error):
                raise
        gc.collect()
        return {"losses": self.run_deterministic(False), "strict": False}

    def obey(self, order):
        word, _, rest = order.partition(" ")
        if word == "run" and rest:
            clock = StepClock(self.torch, self.name in STEPS_ON_HOST)
            return {"seconds": self.run(clock=clock), "step_ms": clock.milliseconds()}
        if word == "run":
            return {"seconds": self.run()}
        if word == "stats":
            return self.stats()
        if word == "losses":
            return self.losses()
        if word == "attempt":
            return self.attempt(json.loads(rest))
        return None


def main(name, mode, plugin):
    answers = os.fdopen(os.dup(1), "w")  # what libraries print must not get between the answers
    os.dup2(2, 1)
    import torch
    session = Session(torch, name, mode, plugin)
    print(json.dumps({"torch": torch.__version__, "device": session.device,
                      "total_bytes": session.total_bytes}), file=answers, flush=True)
    for line in sys.stdin:
        answer = session.obey(line.strip())
        if answer is None:
            break
        print(json.dumps(answer), file=answers, flush=True)
    answers.flush()
    os._exit(0)  # the order in which libraries end is not what is tested here


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in IMPORTS:
        sys.exit(__doc__)
    main(*sys.argv[1:])
