#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""plugin_test.py PLUGIN FAKE_CUDA [C++ COMPILER]: PyTorch's plug points in bench/torch_plugin.c, called as PyTorch calls
them: from several threads, on several streams, over a CUDA driver without a GPU; and with a compiler
that failed allocations throw (throws.cpp)."""
import ctypes
import os
import random
import subprocess
import sys
import tempfile
import threading

THREADS, OPERATIONS, STREAMS = 4, 1500, 5
LIMIT = 1 << 30
CONTROL_STREAM_MAKE = 12  # which pointer of struct fake_cuda_control it is


def load(plugin):
    library = ctypes.CDLL(plugin)
    word, size, device = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    library.vram_torch_alloc.restype = word
    library.vram_torch_alloc.argtypes = [size, device, word]
    library.vram_torch_free.restype = None
    library.vram_torch_free.argtypes = [word, size, device, word]
    library.vram_torch_record_stream.restype = None
    library.vram_torch_record_stream.argtypes = [word, word]
    library.vram_torch_empty_cache.restype = None
    library.vram_torch_limit.argtypes = [device, ctypes.c_uint64]
    library.vram_torch_stats.argtypes = [device, ctypes.POINTER(ctypes.c_uint64), device]
    return library


def stats(library):
    values = (ctypes.c_uint64 * 12)()
    assert library.vram_torch_stats(0, values, 12) == 12
    return dict(zip(("peak_requested", "peak_reserved", "requested", "reserved", "allocs"), values))


def make_streams(fake):
    """Streams as a program would make them, and the default stream."""
    control = ctypes.CDLL(fake).fake_cuda_control
    control.restype = ctypes.POINTER(ctypes.c_void_p)
    make = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int, ctypes.c_bool, ctypes.c_bool)(
        control()[CONTROL_STREAM_MAKE])
    streams = [None] + [make(0, False, False) for _ in range(STREAMS - 1)]
    assert len(set(streams)) == STREAMS
    return streams


class Blocks:
    """What is live, in order to find blocks that overlap; any thread may free what any other took."""

    def __init__(self, library, streams):
        self.library, self.streams = library, streams
        self.mutex = threading.Lock()
        self.live = {}  # address: (bytes, stream)
        self.count, self.problems = 0, []

    def take(self, rng):
        size, stream = rng.choice([1, 512, 4096, 100000, 3 << 20, rng.randrange(1, 1 << 20)]), \
            rng.choice(self.streams)
        addr = self.library.vram_torch_alloc(size, 0, stream)
        with self.mutex:
            self.count += 1
            if not addr or addr % 512:
                self.problems.append(f"{size} bytes at {addr}")
                return
            for other, (length, _) in self.live.items():
                if addr < other + length and other < addr + size:
                    self.problems.append(f"{size} bytes at {addr:#x} over {length} at {other:#x}")
            self.live[addr] = (size, stream)

    def give(self, rng):
        with self.mutex:
            if not self.live:
                return
            addr = rng.choice(list(self.live))
            size, stream = self.live.pop(addr)
        if rng.random() < 0.2:
            self.library.vram_torch_record_stream(addr, rng.choice(self.streams))
        self.library.vram_torch_free(addr, size, 0, stream)

    def work(self, seed):
        rng = random.Random(seed)
        for _ in range(OPERATIONS):
            if len(self.live) < 150 and rng.random() < 0.55:
                self.take(rng)
            else:
                self.give(rng)


def try_limits(library):
    """A limit is kept; a pool with live blocks stays, one without makes way for another."""
    assert library.vram_torch_limit(0, 64 << 20) == 1, "a new pool, since nothing is live"
    assert library.vram_torch_stats(0, (ctypes.c_uint64 * 12)(), 12) == 0, "no pool yet"
    addr = library.vram_torch_alloc(40 << 20, 0, None)
    assert addr and not library.vram_torch_alloc(40 << 20, 0, None), "80 MiB under 64"
    assert library.vram_torch_limit(0, 128 << 20) == 0, "the pool stays"
    other = library.vram_torch_alloc(40 << 20, 0, None)
    assert other and stats(library)["peak_requested"] == 80 << 20
    assert library.vram_torch_limit(0, 64 << 20) == -1, "less than is live"
    for each in (addr, other):
        library.vram_torch_free(each, 40 << 20, 0, None)
    assert library.vram_torch_limit(0, 0) == 1 and library.vram_torch_limit(99, 0) == -1
    addr = library.vram_torch_alloc(256 << 20, 0, None)
    assert addr and stats(library)["peak_requested"] == 256 << 20
    library.vram_torch_free(addr, 256 << 20, 0, None)


def try_throwing(compiler, plugin):
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "throws.cpp")
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "throws")
        subprocess.run([compiler, "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-o", program,
                        source, "-ldl"], check=True)
        subprocess.run([program, os.path.abspath(plugin)], check=True)


def main():
    plugin, fake = sys.argv[1:3]
    os.environ.update(VRAM_CUDA_LIBRARY=fake, FAKE_CUDA_MEMORY=str(LIMIT), FAKE_CUDA_DEVICES="1")
    library = load(plugin)
    values = (ctypes.c_uint64 * 12)()
    assert library.vram_torch_stats(0, values, 12) == 0, "no pool before the first allocation"
    nothing = library.vram_torch_alloc(0, 0, None)
    assert nothing, "0 bytes have an address"
    library.vram_torch_free(nothing, 0, 0, None)
    blocks = Blocks(library, make_streams(fake))
    threads = [threading.Thread(target=blocks.work, args=(seed,)) for seed in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not blocks.problems, blocks.problems[:3]
    numbers = stats(library)
    assert numbers["requested"] == sum(size for size, _ in blocks.live.values()), numbers
    assert numbers["allocs"] == blocks.count + 1, numbers
    assert numbers["peak_reserved"] >= numbers["peak_requested"] > 0, numbers
    rng = random.Random(0)
    while blocks.live:
        blocks.give(rng)
    assert stats(library)["requested"] == 0
    assert not library.vram_torch_alloc(2 * LIMIT, 0, None), "more than the device has"
    assert not library.vram_torch_alloc(1, 99, None), "no such device"
    library.vram_torch_free(None, 0, 0, None)
    library.vram_torch_empty_cache()
    assert stats(library)["reserved"] == 0, stats(library)
    try_limits(library)
    if sys.argv[3:]:
        try_throwing(sys.argv[3], plugin)
    print(f"{blocks.count} allocations by {THREADS} threads on {STREAMS} streams")
    return 0


if __name__ == "__main__":
    sys.exit(main())
