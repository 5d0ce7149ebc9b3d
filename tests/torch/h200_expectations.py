# SPDX-License-Identifier: Apache-2.0
"""The items of h200.py on what PyTorch's own tests expect of an allocator beyond the documentation: how MemPools nest and
share a limit, what settings change, which stacks a history has."""
import gc
import json
import random
import tempfile
import threading

from h200_kit import (COMPUTES, MIB, expect, item, make_allocator, older_than, ones, python, raises, skip, start,
                      together)


def segments_of(torch, pool):
    return len(torch.cuda.memory_snapshot(pool.id))


# ---------------------------------------------------------------------------------- MemPools

@item()
def nested_pools():
    """Of MemPools that are used inside each other the innermost gives the memory."""
    torch, vt = start()
    outer, middle, inner = (torch.cuda.MemPool() for _ in range(3))
    kept = []

    def take():
        kept.append(torch.empty(20 * MIB, dtype=torch.uint8, device="cuda"))

    with torch.cuda.use_mem_pool(outer):
        take()
        with torch.cuda.use_mem_pool(middle):
            take()
            with torch.cuda.use_mem_pool(inner):
                take()
            take()
        take()
    found = [segments_of(torch, pool) for pool in (outer, middle, inner)]
    expect(found == [2, 2, 1], f"segments of the three pools: {found}")
    return "2, 2 and 1 segments"


@item()
def pools_of_threads():
    """A MemPool is its thread's, use counts follow its users, and empty_cache inside one does nothing."""
    torch, vt = start()
    pool, inside, done = torch.cuda.MemPool(), threading.Event(), threading.Event()
    seen = []
    expect(pool.use_count() == 1, f"use_count is {pool.use_count()}")

    def with_pool():
        with torch.cuda.use_mem_pool(pool):
            expect(pool.use_count() == 2, f"use_count inside is {pool.use_count()}")
            x = torch.empty(MIB, dtype=torch.int8, device="cuda")
            del x
            torch.cuda.empty_cache()
            inside.set()
            done.wait(20)

    def without():
        inside.wait(20)
        x = torch.empty(MIB, dtype=torch.int8, device="cuda")
        seen.append(sum(s["active_size"] for s in torch.cuda.memory_snapshot(pool.id)))
        seen.append(torch.cuda.memory_allocated())
        done.set()
        del x

    together(with_pool, without)
    expect(seen == [0, MIB], f"bytes in the pool and in all while another thread allocates: {seen}")
    expect(segments_of(torch, pool) == 1 and pool.use_count() == 1, "empty_cache inside a pool gave its memory back")
    return "each thread has its own"


@item()
def pools_share_the_limit():
    """Memory of MemPools with an allocator of their own counts for the memory fraction; some serve when it is used up."""
    torch, vt = start()
    torch.cuda.init()
    with tempfile.TemporaryDirectory() as folder:
        allocator = make_allocator(torch, folder)
        if allocator is None:
            return skip("no C compiler")
        closed = torch.cuda.MemPool(allocator.allocator())
        offered = torch.cuda.MemPool(allocator.allocator(), use_on_oom=True)
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction((80 * MIB + torch.cuda.memory_reserved()) / total)

        def take(mib):
            return torch.empty(mib * MIB, dtype=torch.int8, device="cuda")

        with torch.cuda.use_mem_pool(closed):
            a = take(40)
        with torch.cuda.use_mem_pool(offered):
            b = take(40)
        where = b.data_ptr()
        raises(torch.OutOfMemoryError, lambda: take(40), "Tried to allocate 40.00 MiB")
        del a, b
        c = take(30)
        expect(c.data_ptr() == where, "the pool that is offered was not used")
        raises(torch.OutOfMemoryError, lambda: take(30), "Tried to allocate 30.00 MiB")
        del c
        with torch.cuda.use_mem_pool(offered):
            e = take(20)
        expect(e.data_ptr() == where, "the offered pool is not its own any more")
        del e, closed, offered
        gc.collect()
        torch.cuda.empty_cache()
        f = take(70)  # what the pools had is free again
        del f
        torch.cuda.set_per_process_memory_fraction(1.0)
    return "80 MiB for all together"


# ---------------------------------------------------------------------------------- settings

@item()
def settings():
    """roundup_power2_divisions is followed; bad settings raise; a fraction may come from the environment."""
    torch, vt = start()
    torch.cuda.init()
    if older_than(torch, 11):
        return skip("this PyTorch has no settings that the adapter follows")

    def taken(size):
        before = torch.cuda.memory_stats()
        x = torch.empty(size, dtype=torch.uint8, device="cuda")
        after = torch.cuda.memory_stats()
        del x
        return tuple(after[key] - before[key] for key in ("active_bytes.all.allocated", "requested_bytes.all.allocated"))

    size = 84 * MIB
    expect(taken(size) == (size, size), "without settings")
    torch.cuda.memory._set_allocator_settings("roundup_power2_divisions:4")
    expect(taken(size) == (96 * MIB, size), f"four divisions: {taken(size)}")
    expect(taken(64 * MIB) == (64 * MIB, 64 * MIB), "a power of two")
    torch.cuda.memory._set_allocator_settings("roundup_power2_divisions:[64:8,128:2,>:1]")
    expect(taken(size)[0] == 88 * MIB, f"a list of divisions: {taken(size)}")
    torch.cuda.memory._set_allocator_settings("max_split_size_mb:40")
    expect(taken(size)[0] == size, "the setting has ended")
    for text in ("foo:1,bar:2", "garbage_collection_threshold:1.2", "max_split_size_mb:2"):
        raises((ValueError, RuntimeError), lambda: torch._C._accelerator_setAllocatorSettings(text))
    code = ("import torch, vram.torch\nvram.torch.enable()\ntorch.cuda.init()\n"
            "print(torch.cuda.get_per_process_memory_fraction())")
    said = python(code, PYTORCH_CUDA_ALLOC_CONF="per_process_memory_fraction:0.25",
                  PYTORCH_ALLOC_CONF="per_process_memory_fraction:0.25")
    expect(said.strip() == "0.25", f"the fraction of the environment is {said.strip()}")
    return "rounding, errors, fraction"


# ----------------------------------------------------------------------------------- history

@item()
def history_stacks():
    """Which stacks a history has: of allocations unless only the state is recorded, of frees if all is."""
    torch, vt = start()
    torch.cuda.init()
    kept = {}

    def the_allocation():
        kept["x"] = torch.empty(12, device="cuda")

    def the_free():
        kept.clear()

    for context in ("alloc", "all", "state"):
        torch.cuda.empty_cache()
        torch.cuda.memory._record_memory_history(context=context, stacks="python")
        the_allocation()
        the_free()
        torch.cuda.empty_cache()
        text = json.dumps(torch.cuda.memory._snapshot())
        torch.cuda.memory._record_memory_history(None)
        found = ("the_allocation" in text, "the_free" in text, "empty_cache" in text)
        expect(found == (context != "state", context == "all", context == "all"), f"{context}: {found}")
    torch.cuda.memory._record_memory_history("state", stacks="python")
    the_allocation()
    blocks = [b for s in torch.cuda.memory._snapshot()["segments"] for b in s["blocks"] if b["requested_size"] == 48]
    expect(blocks and blocks[0]["frames"][0]["name"] == "the_allocation", "the frames of a live block")
    the_free()
    torch.cuda.empty_cache()
    last = torch.cuda.memory._snapshot()["device_traces"][0][-1]["action"]
    expect(last in ("segment_free", "segment_unmap"), f"the last action is {last}")
    torch.cuda.memory._record_memory_history(None)
    return "alloc, all and state"


@item(limit=90)
def fuzz():
    """Ten thousand random allocations, frees and empty_caches; every tensor keeps its contents."""
    torch, vt = start()
    rng, live, total = random.Random(123), [], 0
    for step in range(10000 if COMPUTES else 1500):
        while total > 100 * MIB:
            value, x = live.pop(rng.randrange(len(live)))
            expect(not COMPUTES or bool((x == value).all()), f"contents at step {step}")
            total -= x.numel()
        action = rng.choices(("alloc", "free", "empty"), weights=(1, 1 if live else 0, 0.1))[0]
        if action == "alloc":
            x = ones(torch, rng.randrange(MIB // 2, 5 * MIB)) if not COMPUTES else torch.full(
                (rng.randrange(MIB // 2, 5 * MIB),), step, dtype=torch.int32, device="cuda")
            live.append((step, x))
            total += x.numel()
        elif action == "free":
            value, x = live.pop(rng.randrange(len(live)))
            expect(not COMPUTES or bool((x == value).all()), f"contents at step {step}")
            total -= x.numel()
        else:
            torch.cuda.empty_cache()
    del x
    live.clear()
    expect(torch.cuda.memory_allocated() == 0, "bytes are left")
    return f"{torch.cuda.memory_stats()['allocation.all.allocated']} allocations"
