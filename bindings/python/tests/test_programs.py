# SPDX-License-Identifier: Apache-2.0
"""Random programs: whatever a Python program does with the package is an exception, never a crash.

A step calls any public method, function or class of the package, sets or deletes an attribute, touches all memory that
is shown, drops an object, forks or collects. Arguments fit the name of their parameter, or are anything; callbacks take
steps of their own. Objects, views of their memory, arrays and capsules are kept, and dropped, in any order, and the
interpreter ends with all of them open. Each program is a process of its own, made by its seed alone.

    python3 -m tests.test_programs --count 10000 [--first 1] [--backend cuda]    in bindings/python, for as long as wanted
    python3 -m tests.test_programs --seed 77                                     one again: its steps, one a line
"""
import argparse
import asyncio
import ctypes
import faulthandler
import gc
import inspect
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
import unittest
import weakref

import vram

try:
    import numpy
except ImportError:
    numpy = None

from . import TREE

COUNT, STEPS, SECONDS = 8, 150, 30
ALLOWED = (vram.Error, TypeError, ValueError, AttributeError, BufferError, MemoryError, LookupError, ArithmeticError, OSError,
           ctypes.ArgumentError, asyncio.TimeoutError,
           SystemError)  # a consumer's exception is lost if it has a capsule destroyed meanwhile: no Python code keeps it
COMMANDS = ("estimate", "read_trace", "replay", "report")  # start other programs
CALLS = [getattr(vram, name) for name in vram.__all__ if name not in COMMANDS and not name.endswith("Error")]
HANDLES = (vram.Context, vram.Device, vram.Queue, vram.Pool, vram.Scope, vram.Buffer, vram.Trace)
SPECIAL = ("__buffer__", "__array_interface__", "__cuda_array_interface__", "__dlpack__", "__dlpack_device__",
           "__enter__", "__exit__", "__init__", "__repr__", "__reduce__")
SIZES = (0, 1, 8, 100, 4096, 1 << 16, 1 << 20, 3 << 20, "1KiB", 1 << 62, 2**64 - 1)
ANYTHING = (None, -1, 0, 1, 2**63, 2**64, 1.5, math.nan, math.inf, True, "", "x", "\0", "\ud800", b"", b"xy",
            [], (), {}, (2, 3), object(), len, ctypes.c_uint64(5))
WORDS = {
    "kind": ("device", "pinned", "managed", "mapped", "fallback"), "mode": ("r", "w", "rw"),
    "contents": ("host", "pinned", "drop"), "level": ("off", "warn", "debug"), "order": ("any", "largest", "oldest"),
    "dtype": ("uint8", "float32", "bool", "complex128", "float16", "int64"), "shape": ((4,), (2, 3), (0, 5), (), 7),
    "tag": (None, None, "a", "a/b"), "name": (None, "n"), "timeout": (0, 0.01), "older": (0, 1e9), "count": (1, 3),
    "most": (0, 2), "priority": (0, 1, -1), "width": (1, 2, 4), "index": (0,), "fraction": (0.0, 0.5), "native": (0, 7),
    "which": (None, 0), "path": ("t.vrt",), "text": ("mark", "1GiB"), "stream": (None, -1, 1), "copy": (None, False, True),
    "max_version": (None, (1, 0)), "dl_device": (None, (1, 0)), "limit": (0, 1 << 20, 16 << 20),
    "hard": (0, 16 << 20), "cached": (0, 1 << 20), "keep": (0, 1 << 20), "tracked": (False, True), "flags": (0,),
    "segments": (False, False, True), "deterministic": (False, False, True), "offset": (0, 0, 3), "alignment": (0, 64),
    "soft": (0, 1 << 20), "min_free": (0,), "sim": ("memory=64M", "memory=256M,lag=3", "memory=64M,real=on,lag=20"),
}
KINDS = {
    "queue": (vram.Queue, type(None)), "pool": (vram.Pool,), "parent": (vram.Scope, type(None)), "device": (vram.Device,),
    "buffer": (vram.Buffer,), "to": (vram.Buffer, int), "source": (vram.Buffer, int), "block": (int,),
    "tensor": (vram.Buffer,), "data": (bytes, bytearray, memoryview), "into": (bytearray, memoryview, type(None)),
}


class Program:
    """One program. `say` is told each step before it is taken."""

    def __init__(self, seed, backend, say):
        self.random, self.say = random.Random(seed), say
        self.backend = backend or self.random.choice(("host", "host", "sim"))
        self.things = [None, bytes(64), bytearray(4096)]
        self.shown = []  # views: a weak reference, where it begins and ends, and whose memory it is
        self.owners = weakref.WeakKeyDictionary()  # buffers over another one's memory: that one
        self.met = weakref.WeakSet()
        self.depth, self.unexpected = 0, []

    # ---------------------------------------------------------------- arguments

    def thing(self, kinds=object):
        found = [each for each in self.things if isinstance(each, kinds)]
        return self.random.choice(found[-6:] if found and self.random.random() < 0.8 else found or [None])

    def argument(self, name, kind):
        if self.random.random() < 0.06:
            return self.random.choice((self.thing(), self.random.choice(ANYTHING)))
        if name == "call":
            return self.callback
        if name == "backends":
            return self.backend
        if name == "backend":
            return self.backend
        if name in KINDS:
            return self.thing(KINDS[name])
        if name == "value":
            return self.random.randrange(256)
        if name == "nbytes" and kind is not inspect.Parameter.empty and self.random.random() < 0.4:
            return kind  # its default
        return self.random.choice(WORDS.get(name, SIZES))

    def arguments(self, call):
        try:
            parameters = inspect.signature(call).parameters.values()
        except (TypeError, ValueError):
            parameters = ()
        some, named = [], {}
        for each in parameters:
            if each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD):
                continue
            if each.default is not each.empty and self.random.random() < 0.5:
                if each.kind != each.KEYWORD_ONLY:
                    break
                continue
            value = self.argument(each.name, each.default)
            if each.kind == each.KEYWORD_ONLY:
                named[each.name] = value
            else:
                some.append(value)
        return some, named

    def callback(self, *arguments):
        if self.depth < 3:
            self.step()
        return self.random.choice((None, 0, 1 << 20, "x"))

    # -------------------------------------------------------------------- memory

    def keep(self, made, of=None):
        """Keeps what a step made. Memory that is shown belongs to one buffer alone."""
        if isinstance(made, memoryview) or numpy and isinstance(made, numpy.ndarray):
            self.show(made, of)
        if isinstance(made, vram.Buffer) and made not in self.met:  # an attribute may give one again
            self.met.add(made)
            if isinstance(of, vram.Buffer):
                self.owners[made] = of
            self.check(made)
        if made is not None and not isinstance(made, (bool, str, dict)):
            self.things.append(made)
        if len(self.things) > 40:
            del self.things[self.random.randrange(3, 20)]

    def root(self, buffer):
        while buffer in self.owners:
            buffer = self.owners[buffer]
        return id(buffer)

    def show(self, view, of):
        if isinstance(view, memoryview):
            if view.readonly or not view.nbytes or not view.c_contiguous:
                return
            begin = ctypes.addressof(ctypes.c_char.from_buffer(view))
        else:
            begin = view.ctypes.data
        self.shown.append((weakref.ref(view), begin, begin + view.nbytes, of))

    def check(self, buffer):
        """No other view that is in use shows the memory of a new buffer."""
        info = buffer.info()
        if self.backend != "host" or buffer in self.owners or buffer.kind == "wrapped":
            return
        begin, end = info["addr"], info["addr"] + info["capacity_bytes"]
        self.shown = [row for row in self.shown if row[0]() is not None]
        for view, first, last, of in self.shown:
            overlap = first < end and begin < last and (of is None or self.root(of) != self.root(buffer))
            if overlap and not released(view()):
                raise AssertionError(f"{buffer} lies in memory that {view()} shows")

    def touch(self):
        """Reads and writes what is shown, all of it up to 64 KiB."""
        for each in list(self.things):
            try:
                if isinstance(each, vram.Mapping):
                    each = each.view
                if isinstance(each, memoryview) and each.c_contiguous:
                    flat = each.cast("B")
                    if not each.readonly and flat.nbytes:
                        flat[0] = flat[flat.nbytes // 2]
                        flat[-1] = 7
                    bytes(flat[::flat.nbytes // (1 << 16) + 1])
                elif numpy and isinstance(each, numpy.ndarray):
                    flat = each.reshape(-1)[::each.size // (1 << 16) + 1]
                    flat.tobytes()
                    flat[...] = 0
            except ALLOWED:
                pass

    # --------------------------------------------------------------------- steps

    def call(self, what, target):
        some, named = self.arguments(target)
        shown = ", ".join([short(each) for each in some] + [f"{name}={short(each)}" for name, each in named.items()])
        if getattr(target, "__name__", "") in ("adopt", "shared_queue"):
            device = next((each for each in (getattr(target, "__self__", None), *some) if isinstance(each, vram.Device)), None)
            if device is not None and device.info()["backend"] not in ("host", "sim"):
                return None, None  # a made-up stream is the driver's to crash on
        self.say(f"{what}({shown})")
        made = target(*some, **named)
        if inspect.iscoroutine(made):
            made.close()
        return made, (some[0] if some else None)

    def method(self):
        of = self.thing(HANDLES + (vram.Mapping, vram.Transfer))
        names = [name for name in dir(type(of)) if not name.startswith("_") or name in SPECIAL]
        name = self.random.choice(names)
        if name in ("close", "__exit__") and self.random.random() < 0.8:
            return None
        self.say(f"{short(of)}.{name}")
        found = getattr(of, name)
        made = self.call(f"{short(of)}.{name}", found)[0] if callable(found) and not isinstance(found, type) else found
        return self.keep(made, of)

    def function(self):
        call = self.random.choice(CALLS)
        made, first = self.call(call.__name__, call)
        return self.keep(made, first)

    def make(self):
        """What programs mostly make: without it few steps have anything to work on."""
        if self.thing(vram.Context) is None or self.thing(vram.Context).closed:
            return self.world()
        kind, of = self.random.choice(((vram.Context, "device"), (vram.Device, "queue"), (vram.Device, "pool"),
                                       (vram.Pool, "buffer"), (vram.Pool, "buffer"), (vram.Pool, "alloc"),
                                       (vram.Pool, "scope"), (vram.Buffer, "view"), (vram.Buffer, "map")))
        owner = self.thing(kind)
        return self.keep(self.call(f"{short(owner)}.{of}", getattr(owner, of))[0], owner)

    def world(self):
        context = vram.Context(self.backend, sim=self.random.choice(WORDS["sim"]))
        device = context.device()
        for each in (context, device, device.queue(), device.pool(), device.pool().buffer(100)):
            self.say(f"{each}")
            self.keep(each)

    def attribute(self):
        of, other = self.thing(HANDLES + (vram.Mapping, vram.Transfer)), self.thing()
        names = [name for name in dir(of) if not name.startswith("_")] + ["shape", "dtype", "kind", "nbytes"]
        name = self.random.choice(names)
        value = self.random.choice((other, self.argument(name, None), getattr(other, name, None)))
        self.say(f"{short(of)}.{name} = {short(value)}")
        setattr(of, name, value)

    def view(self):
        of = self.thing((vram.Buffer, memoryview, vram.Mapping))
        self.say(f"a view of {short(of)}")
        if isinstance(of, vram.Buffer):
            ways = [lambda: of.view(), lambda: memoryview(of), lambda: vram.from_dlpack(of, self.thing(vram.Pool))]
            ways += [lambda: numpy.asarray(of), lambda: numpy.from_dlpack(of)] if numpy else []
            return self.keep(self.random.choice(ways)(), of)
        of = of.view if isinstance(of, vram.Mapping) else of
        return self.keep(of[self.random.randrange(3):] if of is not None else None)

    def drop(self):
        if len(self.things) > 3:
            at = self.random.randrange(3, len(self.things))
            self.say(f"del {short(self.things[at])}")
            del self.things[at]
        if self.random.random() < 0.2:
            gc.collect()

    def wait(self):
        transfer = self.thing(vram.Transfer)
        self.say(f"await {short(transfer)}")

        async def awaited():
            await asyncio.wait_for(transfer, 0.02)
        if transfer is not None and threading.current_thread() is threading.main_thread() and self.depth == 1:
            asyncio.run(awaited())

    def fork(self):
        if self.random.random() < 0.9 or self.depth > 1 or threading.active_count() > 1:
            return
        self.say("fork")
        child = os.fork()
        if child == 0:
            try:
                for _ in range(20):
                    self.step()
            finally:
                os._exit(0)
        status = os.waitpid(child, 0)[1]
        if status != 0:
            raise AssertionError(f"a child of the program ended with {status}")

    def option(self):
        name = self.random.choice([name for name in vram.options() if name != "wait_timeout"])
        value = self.random.choice(("0", "1", "on", "off", "64K", "x", None))
        self.say(f"set_option({name}, {value})")
        vram.set_option(name, value)

    STEPS = ((method, 40), (make, 30), (touch, 12), (view, 12), (drop, 8), (function, 8), (attribute, 4), (wait, 2),
             (fork, 1), (option, 1))

    def step(self):
        take = self.random.choices(*zip(*self.STEPS))[0]
        self.depth += 1
        try:
            take(self)
        except ALLOWED as error:
            self.say(f"    {type(error).__name__}: {error}")
        finally:
            self.depth -= 1

    def run(self):
        if self.random.random() < 0.25:
            vram.set_option("pool", "off")  # what is freed is gone at once
        threads = [threading.Thread(target=self.steps) for _ in range(self.random.choice((0, 0, 0, 1, 2)))]
        for thread in threads:
            thread.start()
        self.steps()
        for thread in threads:
            thread.join()
        self.touch()
        self.say("".join(self.unexpected))
        return not self.unexpected

    def steps(self):
        try:
            for _ in range(STEPS):
                self.step()
        except Exception:  # not in ALLOWED
            self.unexpected.append(traceback.format_exc())


def released(view):
    """Whether a view shows nothing any more: its buffer ended, or another thread released it."""
    try:
        return view is None or view.nbytes < 0
    except ValueError:
        return True


def short(value):
    text = repr(value) if isinstance(value, HANDLES + (int, str, bytes)) else f"<{type(value).__name__} {id(value):x}>"
    return text if len(text) < 60 else text[:57] + "..."


# ------------------------------------------------------------------ processes

def one(seed, backend, out):
    """Runs a program in this process, which ends after it as any program does. Its steps go to a file."""
    os.dup2(out, 2)
    faulthandler.enable(out)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    faulthandler.dump_traceback_later(SECONDS - 1, file=out)
    signal.alarm(SECONDS)
    sys.unraisablehook = lambda unraisable: None  # an exception in a callback
    vram.set_option("wait_timeout", "300ms")
    program = Program(seed, backend, lambda text: os.write(out, (text + "\n").encode(errors="replace")))
    sys.kept = program  # until the interpreter's end
    sys.exit(0 if program.run() else 1)


def many(first, count, backend, lines):
    """Runs programs, each in a fork of this process, which has no object of the library."""
    failed = 0
    for seed in range(first, first + count):
        folder = tempfile.mkdtemp()
        with tempfile.TemporaryFile() as out:
            child = os.fork()
            if child == 0:
                os.chdir(folder)
                one(seed, backend, os.dup(out.fileno()))  # and the interpreter ends
            status = os.waitpid(child, 0)[1]
            shutil.rmtree(folder, ignore_errors=True)
            end = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit code {os.WEXITSTATUS(status)}"
            out.seek(0)
            steps = out.read().decode(errors="replace").splitlines()
            if status != 0 or count == 1:
                failed += status != 0
                print(f"seed {seed}: {end}, after\n    " + "\n    ".join(steps[-lines:]), flush=True)
    print(f"{count} programs, {failed} failed", flush=True)
    sys.exit(failed != 0)


class Programs(unittest.TestCase):
    def test_none_of_them_crashes(self):
        run = subprocess.run([sys.executable, "-m", "tests.test_programs", "--count", str(COUNT)], text=True,
                             cwd=os.path.join(TREE, "bindings", "python"), capture_output=True, timeout=120)
        self.assertEqual((run.returncode, run.stdout[-6000:] + run.stderr[-2000:]), (0, f"{COUNT} programs, 0 failed\n"))

    def test_memory_of_a_view_that_was_released_is_free(self):
        program = Program(1, "host", lambda text: None)
        with vram.Context("host") as context:
            pool = context.device().pool()
            buffer = pool.buffer(4096)
            view, before = buffer.view(), buffer.info()["addr"]
            program.show(view, buffer)
            view.release()
            buffer.close()
            again = pool.buffer(4096)
            self.assertEqual(again.info()["addr"], before)
            program.check(again)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--backend")
    given = parser.parse_args()
    if given.seed is not None:
        many(given.seed, 1, given.backend, STEPS * 4)
    else:
        many(given.first, given.count, given.backend, 40)


if __name__ == "__main__":
    main()
