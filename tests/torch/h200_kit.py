# SPDX-License-Identifier: Apache-2.0
"""What the items of h200.py share."""
import collections
import ctypes
import os
import shutil
import subprocess
import sys
import threading

Item = collections.namedtuple("Item", "call limit alone")
ITEMS = {}
MIB = 1 << 20


def item(limit=60, alone=False):
    def register(call):
        ITEMS[call.__name__] = Item(call, limit, alone)
        return call
    return register


def start(**options):
    """PyTorch with vram.torch."""
    import torch
    import vram.torch
    vram.torch.enable(**options)
    if vram.torch.mode() != "extension":
        raise AssertionError("the extension is not in use")
    return torch, vram.torch


def older_than(torch, minor):
    """Whether this PyTorch is older than 2.MINOR."""
    return tuple(map(int, torch.__version__.split(".")[:2])) < (2, minor)


def skip(why):
    """return skip(...): the item ends, and passes."""
    print(f"skipped: {why}")


def together(*calls):
    """Each in a thread of its own."""
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def python(code, *words, timeout=80, **values):
    """What a program in a process of its own writes."""
    done = subprocess.run([sys.executable, "-c", code, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=timeout, env=dict(os.environ, **values), check=False)
    expect(done.returncode == 0, f"{words}: exit code {done.returncode}: {done.stderr.decode(errors='replace')[-1500:]}")
    return done.stdout.decode()


def segments(torch, pool):
    """Those of a MemPool or of a graph's pool, by its id."""
    return [s for s in torch.cuda.memory_snapshot() if tuple(s["segment_pool_id"]) == tuple(pool)]


def warmed(torch, call, stream=None):
    """On a side stream, as before each capture."""
    side = stream or torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        call()
    torch.cuda.current_stream().wait_stream(side)


SOURCE = """
#include <stddef.h>
extern int cudaMalloc(void **, size_t); extern int cudaFree(void *);
int allocs, frees;
void *pool_alloc(size_t size, int device, void *stream) { void *p = 0; allocs++; cudaMalloc(&p, size); return p; }
void pool_free(void *p, size_t size, int device, void *stream) { frees++; cudaFree(p); }
"""


def make_allocator(torch, folder):
    """One of a MemPool's own, in libpool.so; None without a C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    source, path = os.path.join(folder, "pool.c"), os.path.join(folder, "libpool.so")
    with open(source, "w", encoding="utf-8") as file:
        file.write(SOURCE)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", path, source], check=True)
    for line in open("/proc/self/maps", encoding="utf-8"):
        if "libcudart.so" in line and COMPUTES:
            ctypes.CDLL(line.split()[-1], mode=ctypes.RTLD_GLOBAL)
            break
    return torch.cuda.memory.CUDAPluggableAllocator(path, "pool_alloc", "pool_free")


def expect(condition, text):
    if not condition:
        raise AssertionError(text)


COMPUTES = "FAKE_CUDA_MEMORY" not in os.environ  # adapter_test.py runs some items where kernels do nothing


def works(tensor, what):
    """A kernel still runs; `tensor` is of ones."""
    expect(not COMPUTES or float(tensor.sum()) == tensor.numel(), what)


def ones(torch, count):
    return torch.ones(count, device="cuda") if COMPUTES else torch.empty(count, device="cuda")


def raises(kind, call, text=""):
    try:
        call()
    except kind as error:
        expect(text in str(error), f"{text!r} is not in {str(error)[:300]!r}")
        return str(error)
    raise AssertionError(f"no {kind}")


def consistent(torch):
    """As PyTorch's own test of its allocator does: the sums of the snapshot are the statistics."""
    sums = collections.Counter()
    for segment in torch.cuda.memory_snapshot():
        pool = segment["segment_type"] + "_pool"
        for kind in ("all", pool):
            sums[f"allocated_bytes.{kind}.current"] += segment["allocated_size"]
            sums[f"reserved_bytes.{kind}.current"] += segment["total_size"]
            sums[f"active_bytes.{kind}.current"] += segment["active_size"]
            sums[f"requested_bytes.{kind}.current"] += segment["requested_size"]
        expect(sum(b["size"] for b in segment["blocks"]) == segment["total_size"], "blocks do not fill a segment")
        for block in segment["blocks"]:
            for kind in ("all", pool):
                sums[f"allocation.{kind}.current"] += block["state"] == "active_allocated"
                sums[f"active.{kind}.current"] += block["state"].startswith("active_")
    stats = torch.cuda.memory_stats()
    wrong = {key: (value, stats[key]) for key, value in sums.items() if stats[key] != value}
    expect(not wrong, f"snapshot and statistics differ: {wrong}")
