#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cupy_cost.py: what a block costs in CuPy, allocated and freed, without a GPU.

CuPy's own memory classes over a pool of a simulated device, through vram.cupy's functions in Python and in C
(LIBVRAM_PATH=build/libvram.so.0 PYTHONPATH=bindings/python python3 bench/cupy_cost.py). It leaves out what CuPy asks its
runtime for, the current device and stream, and its arrays: bench/h200.sh python has the item cupy_speed for the whole.
"""
import time
import types

import cupy
import vram
import vram.cupy

memory = cupy.cuda.memory


class Allocator:
    """CuPy's allocators of functions, for device 0 instead of the one that the runtime names."""
    def __init__(self, kind, *words):
        self.kind, self.words = kind, (*words[:3], 0) if kind is memory.CFunctionAllocatorMemory else (*words, 0)

    def malloc(self, size):
        return memory.MemoryPointer(self.kind(size, *self.words), 0)


def best_ns(call, count=20000, rounds=9):
    """The least time of a call, in nanoseconds of the processor."""
    found = []
    for _ in range(rounds):
        begin = time.process_time_ns()
        for _ in range(count):
            call(1 << 20)
        found.append((time.process_time_ns() - begin) / count)
    return min(found)


def main():
    stream = types.SimpleNamespace(ptr=0)
    stand_in = types.SimpleNamespace(cuda=types.SimpleNamespace(
        get_current_stream=lambda device=-1: stream, memory=memory, PinnedMemoryPointer=None,
        PythonFunctionAllocator=lambda *words: Allocator(memory.PythonFunctionAllocatorMemory, *words),
        CFunctionAllocator=lambda *words: Allocator(memory.CFunctionAllocatorMemory, *words)))
    vram.set_option("sim", "memory=512M")
    find = vram.cupy._c_functions
    for name, functions in (("through Python", lambda: None), ("in C", find)):
        vram.cupy._c_functions = functions
        allocate = vram.cupy._Allocator(stand_in, "sim").allocate
        allocate(1 << 20)  # the pool grows
        print(f"CuPy {cupy.__version__}, a block and its end {name}: {best_ns(allocate):.0f} ns", flush=True)


if __name__ == "__main__":
    main()
