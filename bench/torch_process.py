# SPDX-License-Identifier: Apache-2.0
"""Processes that run PyTorch programs for torch_run.py, each with one program and one allocator.

A Child is such a process, given orders line by line (torch_child.py). A Runner has attempts made by
a Child and starts another when that one has ended or says that it is of no more use. A Gate lets
several attempts run at once while their memory fits the device.
"""
import contextlib
import json
import os
import select
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
CHILD = os.environ.get("TORCH_CHILD", os.path.join(HERE, "torch_child.py"))  # a test has its own
START_SECONDS = 150   # for importing everything, all processes at once
RUN_SECONDS = 90      # for one run of one program
# One run on an H200, roughly.
SECONDS = {"serve_kv_cache": 0.9, "resnet50_multires": 0.9, "llama1b_train_ckpt": 1.6,
           "sage_subgraphs": 2.0, "gpt2_train_varlen": 3.7, "bert_dynpad": 4.2}
STARTS_MAX = 12       # processes for one program and allocator
POOLS = ("vram.torch", "vram")  # allocators that are libvram's: the adapter, and the C plug-in
DIRTY_BYTES = 64 << 20  # more than this live after a failed attempt: the next needs a new process


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
        self.process = subprocess.Popen([sys.executable, CHILD, name, mode, plugin],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
                                        env=environment)

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


def pools_of(modes):
    """Those of the allocators that are libvram's."""
    return [mode for mode in modes if mode in POOLS]


def run_deadline(end):
    return min(end, time.monotonic() + RUN_SECONDS)


def share_deadline(name, names, end):
    """Until when the first of `names` may take, so that each has time as its runs are long."""
    now = time.monotonic()
    return now + (end - now) * SECONDS[name] / sum(SECONDS[each] for each in names)


class OutOfTime(Exception):
    pass


class Failed(Exception):
    """A program cannot be run at all, and why."""


class Gate:
    """Attempts of several processes at once, as long as their memory fits the device together."""

    def __init__(self, capacity):
        self.capacity, self.used = capacity, 0
        self.changed = threading.Condition()

    @contextlib.contextmanager
    def holding(self, size):
        size = min(size, self.capacity)
        with self.changed:
            self.changed.wait_for(lambda: self.used + size <= self.capacity)
            self.used += size
        try:
            yield
        finally:
            with self.changed:
                self.used -= size
                self.changed.notify_all()


class Runner:
    """Attempts of one program under one allocator; the processes behind them come and go."""

    def __init__(self, name, mode, plugin, arguments=None, spawn=Child):
        self.name, self.mode, self.plugin, self.spawn = name, mode, plugin, spawn
        self.arguments = arguments or {}  # of the program, unless an attempt has others
        self.starts, self.hello = 1, None  # what the process said when it was ready
        self.reasons = []  # why attempts failed, a line each
        self.child = spawn(name, mode, plugin)

    def greet(self, end):
        if self.hello is None:
            self.hello = self.child.hear(min(end, time.monotonic() + START_SECONDS))
        if self.hello is None:
            raise Failed(self.child.failed)

    def replace(self, end):
        """A new process, which has run the program once without a limit as the first one had."""
        if self.starts == STARTS_MAX:
            raise Failed(f"{self.starts} processes failed: {self.reasons[-1]}")
        self.starts += 1
        self.child.end()
        self.child, self.hello = self.spawn(self.name, self.mode, self.plugin), None
        self.greet(end)
        self.ask(0, end)

    def ask(self, limit, end, **order):
        order = {"limit": limit, "arguments": self.arguments, **order}
        return self.child.ask("attempt " + json.dumps(order), run_deadline(end))

    def attempt(self, limit, soft, end, **order):
        """One run from an allocator that holds nothing; the answer of torch_child.py. None is begun
        after `soft`, none is waited for after `end`."""
        if time.monotonic() >= soft:
            raise OutOfTime
        self.greet(end)
        answer = self.ask(limit, end, **order)
        if answer is None:
            if time.monotonic() >= end:
                raise OutOfTime
            self.reasons.append(self.child.failed)
            answer = {"ran": False, "usable": False, "reason": self.child.failed}
        elif answer["reason"]:
            self.reasons.append(answer["reason"])
        if not answer["usable"] or (not answer["ran"]
                                    and answer.get("live_after_bytes", 0) > DIRTY_BYTES):
            self.replace(end)
        return answer

    def end(self):
        self.child.end()

    def kill(self):
        self.child.process.kill()
