# SPDX-License-Identifier: Apache-2.0
"""A plug-in of pytest for foreign suites; bench/foreign/run.py names it in PYTEST_PLUGINS.

FOREIGN_MODE=vram enables libvram for FOREIGN_KIND (torch or cupy; Numba has a variable of its own) before anything of
the suite is imported. FOREIGN_LOG gets a line of JSON for each test. A test that takes longer than FOREIGN_TEST_SECONDS
ends its process, with the stacks of its threads.

FOREIGN_DELAY=MS submits a kernel of MS milliseconds to a stream of PyTorch or CuPy when it becomes current (not to the
default stream) and when it has been told to wait, so that the stream's next work runs late. Memory that is handed out
before that work has run is then overwritten before it is read. Nothing is submitted while a graph is captured.

The tests run in workers of pytest-xdist, which replaces one that crashes. What a worker writes to stderr during a test
is in FOREIGN_LOG.WORKER; when it crashes, that is the reason.
"""
import faulthandler
import functools
import json
import os
import sys

import pytest

MODE = os.environ.get("FOREIGN_MODE", "native")
KIND = os.environ.get("FOREIGN_KIND", "plain")
LOG = os.environ.get("FOREIGN_LOG", os.devnull)
TEST_SECONDS = float(os.environ.get("FOREIGN_TEST_SECONDS", "0"))
DELAY_MS = float(os.environ.get("FOREIGN_DELAY", "0"))
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")
CYCLES_PER_MS = 2_000_000  # of an H200; on other devices the delay is longer or shorter
WHY_CHARACTERS = 3000


# ------------------------------------------------------------------------- enabling

def enable():
    if MODE == "vram" and KIND == "torch":
        import vram.torch
        vram.torch.enable()
        if vram.torch.mode() == "plugin":
            raise pytest.UsageError("the C plug-in stands in for vram.torch: its adapter was not compiled")
    elif MODE == "vram" and KIND == "cupy":
        import vram.cupy
        vram.cupy.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests():
    """Comes before any import of the suite. A process that only starts workers runs no test."""
    if WORKER:
        errors = os.open(f"{LOG}.{WORKER}", os.O_CREAT | os.O_APPEND | os.O_RDWR, 0o666)
        os.dup2(errors, 2)
        os.close(errors)
        faulthandler.enable(2)
    elif "xdist.plugin" in sys.modules:
        return
    enable()
    if DELAY_MS and KIND in DELAYS:
        DELAYS[KIND](int(DELAY_MS * CYCLES_PER_MS))


# ------------------------------------------------------------------------- delays

class Captures:
    """Whether a graph is being captured, on any stream of the process."""

    def __init__(self, owner, begin, end):
        self.open = 0
        wrap(owner, begin, self.begin)
        wrap(owner, end, self.end)

    def begin(self, original, *args, **kwargs):
        self.open += 1
        try:
            return original(*args, **kwargs)
        except BaseException:
            self.open -= 1
            raise

    def end(self, original, *args, **kwargs):
        try:
            return original(*args, **kwargs)
        finally:
            self.open = max(self.open - 1, 0)


def wrap(owner, name, around):
    """Puts around(original, ...) in the place of owner.name."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def replacement(*args, **kwargs):
        return around(original, *args, **kwargs)

    setattr(owner, name, replacement)


def delay_torch(cycles):
    import torch
    captures = Captures(torch.cuda.CUDAGraph, "capture_begin", "capture_end")
    plain_set = torch.cuda.set_stream

    def hold():
        if not captures.open and not torch.cuda.is_current_stream_capturing():
            torch.cuda._sleep(cycles)

    def set_stream(original, stream):  # `with torch.cuda.stream(...)` calls it too
        original(stream)
        if stream is not None and torch.cuda.current_stream().cuda_stream != 0:
            hold()

    def wait_event(original, stream, event):  # wait_stream calls it too
        original(stream, event)
        before = torch.cuda.current_stream()
        plain_set(stream)
        try:
            hold()
        finally:
            plain_set(before)

    wrap(torch.cuda, "set_stream", set_stream)
    wrap(torch.cuda.Stream, "wait_event", wait_event)


def delay_cupy(cycles):
    import cupy
    base = cupy.cuda.Stream.__mro__[1]  # of Stream and ExternalStream
    captures = Captures(base, "begin_capture", "end_capture")
    plain_enter, plain_exit = base.__enter__, base.__exit__
    spin = cupy.RawKernel("""extern "C" __global__ void spin(long long cycles)
        { for (long long start = clock64(); clock64() - start < cycles;) { } }""", "spin")

    def hold(stream):
        if not captures.open and not stream.is_capturing():
            spin((1,), (1,), (cycles,))

    def make_current(original, stream):
        result = original(stream)
        if stream.ptr not in (0, 1):  # the legacy default stream
            hold(stream)
        return result

    def wait_event(original, stream, event):
        original(stream, event)
        plain_enter(stream)
        try:
            hold(stream)
        finally:
            plain_exit(stream)

    wrap(base, "__enter__", make_current)
    wrap(base, "use", make_current)
    wrap(base, "wait_event", wait_event)


DELAYS = {"torch": delay_torch, "cupy": delay_cupy}


# ------------------------------------------------------------------------- what Numba's own conftest.py has

@pytest.fixture(scope="class")
def initialize_from_pytest_config(request):
    """The wheel of numba-cuda has its tests without the file that defines this."""
    request.cls._dump_failed_filechecks = False


# ------------------------------------------------------------------------- a test that hangs

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    """The end comes from a thread that needs no lock of Python's: a test may hang while it holds that."""
    if WORKER:
        os.ftruncate(2, 0)
    if TEST_SECONDS:
        faulthandler.dump_traceback_later(TEST_SECONDS, exit=True, file=2)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


# ------------------------------------------------------------------------- results

class Results:
    """Writes the log, in the process that starts the workers (or in the only one)."""

    def __init__(self):
        self.stream = open(LOG, "a", encoding="utf-8", buffering=1)
        self.running = {}
        self.collected = False

    def put(self, **what):
        self.stream.write(json.dumps(what) + "\n")

    def pytest_collection_finish(self, session):
        if session.items:
            self.put(collected=[item.nodeid for item in session.items])

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node, ids):
        if not self.collected:
            self.collected = True
            self.put(collected=list(ids))

    def pytest_collectreport(self, report):
        if report.failed:
            self.put(id=report.nodeid, outcome="failed", seconds=0.0, why=reason(report))

    def pytest_runtest_logreport(self, report):
        test = self.running.setdefault(report.nodeid, dict(id=report.nodeid, outcome="passed", seconds=0.0, why=""))
        test["seconds"] = round(test["seconds"] + report.duration, 3)
        if report.failed or (report.skipped and test["outcome"] == "passed"):
            test.update(outcome=report.outcome, why=reason(report))
        if report.when == "???":  # of pytest-xdist, for what a worker was running when it ended
            test.update(crash(report.node.gateway.id))
            self.pytest_runtest_logfinish(report.nodeid)

    def pytest_runtest_logfinish(self, nodeid):
        if nodeid in self.running:
            self.put(**self.running.pop(nodeid))


def reason(report):
    if isinstance(report.longrepr, tuple):  # of a test that is skipped: file, line and text
        return str(report.longrepr[2])[:WHY_CHARACTERS]
    place = getattr(report.longrepr, "reprcrash", None)
    return (place.message if place else str(report.longrepr or ""))[-WHY_CHARACTERS:]


def crash(worker):
    try:
        with open(f"{LOG}.{worker}", encoding="utf-8", errors="replace") as stream:
            text = stream.read()
    except OSError:
        text = ""
    outcome = "hung" if "Timeout (" in text else "crashed"
    lines = [line for line in text.splitlines() if line.strip()]
    return dict(outcome=outcome, why="\n".join(lines)[:WHY_CHARACTERS] or "no word on stderr")


def pytest_configure(config):
    if not WORKER:
        config.pluginmanager.register(Results(), "foreign_results")
