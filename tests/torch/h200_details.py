# SPDX-License-Identifier: Apache-2.0
"""The items of h200.py on details that PyTorch's own tests of its allocator look at: raw allocations, pools of graphs
that threads allocate from, deleters after a checkpoint, MemPools that do not split or outlive their allocator, several
devices, and what a snapshot tells `vram report`."""
import ctypes
import gc
import os
import subprocess
import tempfile
import threading

from h200_expectations import segments_of
from h200_kit import (MIB, consistent, expect, item, make_allocator, older_than, raises, segments, skip, start,
                      together)


def bytes_of(torch, mib):
    return torch.empty(mib * MIB, dtype=torch.int8, device="cuda")


@item()
def raw_allocations():
    """What raw_alloc takes is counted while the allocator caches, and not while it does not."""
    torch, vt = start()
    torch.cuda.init()
    stream = torch._C._cuda_getCurrentRawStream(0)

    def counted():
        before = torch.cuda.memory_stats()["requested_bytes.all.allocated"]
        pointer = torch._C._cuda_cudaCachingAllocator_raw_alloc(MIB, stream)
        after = torch.cuda.memory_stats()["requested_bytes.all.allocated"]
        torch._C._cuda_cudaCachingAllocator_raw_delete(pointer)
        return after - before

    torch.cuda.caching_allocator_enable(False)
    expect(counted() == 0, "counted, although nothing is cached")
    torch.cuda.caching_allocator_enable(True)
    expect(counted() == MIB, "not counted")
    consistent(torch)
    return "counted only while it caches"


@item()
def accumulated():
    """Counters that only rise, and their reset: a block of 1 KiB and its end."""
    torch, vt = start()
    torch.cuda.init()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.reset_accumulated_memory_stats()
    expect(torch.cuda.memory_allocated() == torch.cuda.max_memory_allocated(), "the peak was not reset")
    expect(torch.cuda.memory_reserved() == torch.cuda.max_memory_reserved(), "the reserved peak was not reset")
    active = torch.cuda.memory_stats()["active_bytes.all.current"]
    x = torch.empty(256, device="cuda")
    stats = torch.cuda.memory_stats()
    expect(stats["active_bytes.all.current"] == active + 1024 and stats["active_bytes.all.freed"] == 0, str(stats))
    del x
    torch.cuda.empty_cache()
    stats = torch.cuda.memory_stats()
    expect(stats["active_bytes.all.current"] == active and stats["active_bytes.all.freed"] == 1024, str(stats))
    return "1 KiB allocated, 1 KiB freed"


@item()
def blocks_of_threads():
    """A thread's MemPool and the device's own blocks of two threads are told apart in a snapshot."""
    torch, vt = start()
    torch.cuda.init()
    inside, done, found = threading.Event(), threading.Event(), []

    def with_pool():
        pool = torch.cuda.MemPool()
        kept = bytes_of(torch, 1)
        with torch.cuda.use_mem_pool(pool):
            x = bytes_of(torch, 1)
            del x
            inside.set()
            done.wait(30)
        del kept

    def beside():
        inside.wait(30)
        x = bytes_of(torch, 1)
        found.extend(torch.cuda.memory._snapshot()["segments"])
        done.set()
        del x

    together(with_pool, beside)
    active = {}
    for segment in found:
        pool = tuple(segment["segment_pool_id"])
        active[pool] = active.get(pool, 0) + segment["active_size"]
    expect(active.pop((0, 0)) == 2 * MIB and list(active.values()) == [0], f"{active} and {len(found)} segments")
    return "2 MiB outside, none in the MemPool"


@item()
def graph_pool_of_a_thread():
    """A thread may allocate from the pool of a graph that was captured before; others do not."""
    torch, vt = start()
    pool = torch.cuda.graph_pool_handle()
    stream, captured = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured, stream=stream, pool=pool):
        out = torch.empty(4, device="cuda")
    del out

    def count():
        return len(segments(torch, pool))

    expect(count() == 1, f"{count()} segments after the capture")

    def three():
        a, b, c = (bytes_of(torch, 20) for _ in range(3))
        del a, b, c

    def in_pool():
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            torch._C._cuda_beginAllocateCurrentThreadToPool(0, pool)
            try:
                for _ in range(10):
                    three()
            finally:
                torch._C._cuda_endAllocateToPool(0, pool)
                torch._C._cuda_releasePool(0, pool)
        three()

    together(in_pool, three)
    expect(count() == 4, f"{count()} segments: one of the capture and three of the thread were expected")
    del captured
    gc.collect()
    torch.cuda.empty_cache()
    expect(count() == 0, f"{count()} segments are left")
    return "4 segments, given back"


@item()
def deleters_after_a_checkpoint():
    """A checkpoint makes blocks live again; tensors get their deleters back, or the blocks are freed by address."""
    torch, vt = start()
    stream, captured = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured, stream=stream):
        outputs = [bytes_of(torch, 2), bytes_of(torch, 2), bytes_of(torch, 20)]
    pool = captured.pool()

    def live():
        return sum(b["state"] == "active_allocated" for s in segments(torch, pool) for b in s["blocks"])

    state = torch._C._cuda_getCheckpointState(0, pool)
    made = [(t.untyped_storage().data_ptr(), t.device, t.untyped_storage().nbytes()) for t in outputs]
    expect(live() == 3, f"{live()} blocks live")
    del outputs
    expect(live() == 0, f"{live()} blocks live after their tensors died")
    again = [torch._C._construct_storage_from_data_pointer(*each) for each in made]
    torch._C._cuda_setCheckpointPoolState(0, state, [], [each._cdata for each in again[:2]])
    found = [live()]
    for at in range(3):
        again[at] = None
        found.append(live())
    torch._C._cuda_cudaCachingAllocator_raw_delete(made[2][0])
    found.append(live())
    expect(found == [3, 2, 1, 1, 0], f"{found} blocks live")
    consistent(torch)
    return "3, 2, 1, 1, 0 blocks"


@item()
def allocator_that_dies_first():
    """A MemPool's allocator lives until the last tensor of it has died, whoever else forgot it."""
    torch, vt = start()
    if older_than(torch, 11):
        return skip("a MemPool of this PyTorch does not own its allocator")
    torch.cuda.init()
    with tempfile.TemporaryDirectory() as folder:
        allocator = make_allocator(torch, folder)
        if allocator is None:
            return skip("no C compiler")
        library = ctypes.CDLL(os.path.join(folder, "libpool.so"))
        pool = torch.cuda.MemPool(allocator.allocator())
        with torch.cuda.use_mem_pool(pool):
            x = torch.empty(4, device="cuda")
        frees = ctypes.c_int.in_dll(library, "frees")
        del pool, allocator
        gc.collect()
        expect(frees.value == 0, "freed under a tensor")
        del x
        torch.cuda.empty_cache()
        expect(frees.value == 1, f"{frees.value} frees")
    return "freed after the tensor"


@item()
def pool_without_splits():
    """MemPool(no_split=True), where PyTorch has it: one block in each segment."""
    torch, vt = start()
    try:
        whole = torch.cuda.MemPool(no_split=True)
    except TypeError:
        return skip("this PyTorch has no MemPool(no_split=True)")
    split, kept = torch.cuda.MemPool(), []
    for pool in (split, whole, split, whole):
        with torch.cuda.use_mem_pool(pool):
            kept.append(bytes_of(torch, 4))
    expect(segments_of(torch, whole) > segments_of(torch, split), "no more segments than with splitting")
    blocks = [len(segment["blocks"]) for segment in whole.snapshot()]
    expect(set(blocks) == {1}, f"blocks of the segments: {blocks}")
    return f"{len(blocks)} segments of one block"


@item()
def limit_and_settings():
    """The memory fraction is exact, whatever the settings of segments say."""
    torch, vt = start()
    torch.cuda.init()
    total = torch.cuda.mem_get_info()[1]
    torch.cuda.set_per_process_memory_fraction((120 * MIB + torch.cuda.memory_reserved()) / total)
    kept = []
    for words in ("expandable_segments:False,max_split_size_mb:40", "expandable_segments:True,max_split_size_mb:40",
                  "expandable_segments:False,garbage_collection_threshold:0.5"):
        torch.cuda.memory._set_allocator_settings(words)
        kept.append(bytes_of(torch, 40))
    raises(torch.OutOfMemoryError, lambda: bytes_of(torch, 40), "Tried to allocate 40.00 MiB")
    kept.clear()
    x = bytes_of(torch, 120)
    del x
    torch.cuda.set_per_process_memory_fraction(1.0)
    return "3 times 40 MiB, and 120 in one piece"


@item()
def summary_and_report():
    """memory_summary has the pool's figures; `vram report` reads what _dump_snapshot writes."""
    torch, vt = start()
    torch.cuda.memory._record_memory_history(max_entries=1000)
    kept = [bytes_of(torch, 3) for _ in range(4)]
    del kept[1]
    text = torch.cuda.memory_summary()
    expect("Allocated memory" in text and "9216 KiB" in text, text)
    expect(torch.cuda.memory_summary(abbreviated=True).count("\n") < text.count("\n"), "abbreviated")
    command = os.environ.get("LIBVRAM_COMMAND")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "snapshot.pickle")
        torch.cuda.memory._dump_snapshot(path)
        torch.cuda.memory._record_memory_history(None)
        if not command or not os.path.exists(command):
            return "summary; there is no command to read the snapshot"
        done = subprocess.run([command, "report", path, "--json"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              check=False)
    said = done.stdout.decode(errors="replace")
    expect(done.returncode == 0 and "vram.report/1" in said, f"{done.returncode}: {said[:300]}")
    return "summary and report"


@item()
def two_devices():
    """Each device has its pool, statistics, limit and MemPools; needs two."""
    torch, vt = start()
    if torch.cuda.device_count() < 2:
        return skip("one device")
    kept = [torch.empty((at + 1) * 4 * MIB, dtype=torch.int8, device=f"cuda:{at}") for at in range(2)]
    found = [torch.cuda.memory_allocated(at) for at in range(2)]
    expect(found == [4 * MIB, 8 * MIB], str(found))
    expect({s["device"] for s in torch.cuda.memory_snapshot()} == {0, 1}, "devices of the snapshot")
    total = torch.cuda.get_device_properties(1).total_memory
    torch.cuda.set_per_process_memory_fraction((16 * MIB) / total, 1)
    text = raises(torch.OutOfMemoryError, lambda: torch.empty(64 * MIB, dtype=torch.int8, device="cuda:1"),
                  "Tried to allocate 64.00 MiB. GPU 1")
    expect("GPU 0" not in text.splitlines()[0], text)
    other = torch.empty(64 * MIB, dtype=torch.int8, device="cuda:0")
    torch.cuda.set_per_process_memory_fraction(1.0, 1)
    with torch.cuda.device(1):
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool):
            x = bytes_of(torch, 4)
        expect(x.device.index == 1 and {s["device"] for s in pool.snapshot()} == {1}, "device of the MemPool")
    vt.sleep(device=1, keep="drop")
    vt.wake(device=1)
    del kept, other, x, pool
    gc.collect()
    torch.cuda.empty_cache()
    found = [torch.cuda.memory_allocated(at) for at in range(2)]
    expect(found == [0, 0], f"left: {found}")
    return "two pools"


@item()
def graph_statistics():
    """What a capture adds to the statistics of its kind of pool, and what is left when the graph has died."""
    torch, vt = start()
    torch.cuda.init()
    stream, found = torch.cuda.Stream(), []
    with torch.cuda.stream(stream):  # a capture's random numbers: two blocks, from 2.15 on only where there are any
        captured = torch.cuda.CUDAGraph()
        captured.capture_begin()
        kept = torch.empty(8, device="cuda")
        captured.capture_end()
        seeds_of_all = torch.cuda.memory_stats()["active.all.current"] - 1
    del captured, kept
    gc.collect()
    torch.cuda.empty_cache()
    # bytes of a block, segments for three of them at once, bytes of a segment
    for size, count, each in ((512, 1, 2 * MIB), (MIB, 2, 2 * MIB), (MIB + 512, 1, 20 * MIB),
                                 (10 * MIB - 512, 2, 20 * MIB), (10 * MIB + 512, 3, 12 * MIB)):
        kind = "small_pool" if size <= MIB else "large_pool"
        captured = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()

        def figures():
            stats = torch.cuda.memory_stats()
            return [stats["reserved_bytes.all.current"]] + [stats[f"{name}.{kind}.current"]
                                                            for name in ("active", "active_bytes")]

        def compare(when, wanted):
            """The pool may grow by a granule for the seed and the offset of the graph's random numbers; and it gives
            back whole pieces of physical memory."""
            delta = [now - then for now, then in zip(figures(), before)]
            if delta[1:] != wanted[1:] or not wanted[0] <= delta[0] <= wanted[0] + 4 * MIB:
                found.append(f"{size}, {when}: {delta} instead of {wanted}")

        with torch.cuda.stream(stream):
            given = torch.empty(size, dtype=torch.uint8, device="cuda")
            before = figures()
            captured.capture_begin()
            kept = torch.empty_like(given)
            for _ in range(5):
                part = torch.empty_like(given)
                kept = torch.empty_like(given)
                del part
            captured.capture_end()
        torch.cuda.synchronize()
        gc.collect()
        seeds = seeds_of_all if kind == "small_pool" else 0
        for when in ("captured", "emptied"):
            compare(when, [count * each, 1 + seeds, size + 512 * seeds])
            torch.cuda.empty_cache()
        del captured
        gc.collect()
        torch.cuda.empty_cache()
        compare("after the graph", [each, 1, size])
        consistent(torch)
        del given, kept
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
    expect(not found, "; ".join(found))
    return "five sizes"
