# SPDX-License-Identifier: Apache-2.0
"""The items of h200.py on graphs and MemPools."""
import ctypes
import gc
import os
import tempfile

from h200_kit import MIB, consistent, expect, item, make_allocator, segments, skip, start, warmed


# --------------------------------------------------------------------------- graphs and pools

@item()
def graph():
    torch, vt = start()
    x = torch.zeros(1 << 20, device="cuda")
    w = torch.randn(1024, 1024, device="cuda")

    def compute():
        y = (x.view(1024, 1024) @ w).relu()
        return (y * 2 + 1).sum(dim=1)

    warmed(torch, compute)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        out = compute()
    address = out.data_ptr()
    wrong = 0.0
    for turn in range(30):
        junk = [torch.full((1 << 20,), float("nan"), device="cuda") for _ in range(8)]
        if turn % 5 == 0:
            del junk
            torch.cuda.empty_cache()
        x.fill_(turn / 30)
        captured.replay()
        wrong = max(wrong, float((out - compute()).abs().max()))
    expect(wrong < 1e-2 and out.data_ptr() == address, f"replays differ by {wrong}")
    consistent(torch)
    pool = captured.pool()
    count = len(segments(torch, pool))
    expect(count, "the graph has no segment in the snapshot")
    second = torch.cuda.CUDAGraph()
    with torch.cuda.graph(second, pool=pool):
        other = out * 3
    captured.replay()
    second.replay()
    expect(torch.allclose(other, out * 3), "two graphs in one pool")
    held = torch.cuda.memory_reserved()
    del captured, second, out, other
    torch._C._cuda_clearCublasWorkspaces()  # made during the capture, in the graph's pool
    gc.collect()
    torch.cuda.empty_cache()
    expect(not segments(torch, pool), "the memory of dead graphs is still there")
    return f"{count} segments; {held // MIB} MiB, then {torch.cuda.memory_reserved() // MIB}"


@item()
def graph_on_streams():
    """A capture over two streams, with tensors freed and recorded inside."""
    torch, vt = start()
    x = torch.ones(1 << 20, device="cuda")
    side = torch.cuda.Stream()

    def compute():
        main = torch.cuda.current_stream()
        side.wait_stream(main)
        with torch.cuda.stream(side):
            a = x * 2
            b = a + 1
            b.record_stream(main)
        main.wait_stream(side)
        return b * 3

    warmed(torch, lambda: [compute() for _ in range(3)])
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        out = compute()
    for turn in range(10):
        x.fill_(turn)
        captured.replay()
        expect(bool((out == (turn * 2 + 1) * 3).all()), f"turn {turn}")
    return "10 replays"


@item(limit=150)
def compiled():
    """torch.compile(mode="reduce-overhead"): graphs with checkpoints of their pools."""
    torch, vt = start()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.GELU(), torch.nn.Linear(256, 256)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    fast = torch.compile(model, mode="reduce-overhead")
    plain, ours = [], []
    for step in range(12):
        torch.compiler.cudagraph_mark_step_begin()
        x = torch.randn(64 if step % 3 else 32, 256, device="cuda")
        with torch.no_grad():
            plain.append(float(model(x).square().mean()))
        optimizer.zero_grad()
        loss = fast(x).square().mean()
        loss.backward()
        optimizer.step()
        ours.append(float(loss))
    worst = max(abs(a - b) for a, b in zip(plain, ours))
    expect(worst < 1e-4, f"losses differ by {worst}")
    from torch._dynamo.utils import counters
    return f"12 steps, losses within {worst:.1e}; skipped graphs: {counters['inductor'].get('cudagraph_skips', 0)}"


@item()
def checkpoints():
    """As PyTorch's own tests: a pool taken back to a checkpoint has the same segments, and live tensors are checked."""
    torch, vt = start()

    def capture(call, pool=None):
        torch.cuda.synchronize()
        stream = torch.cuda.Stream()
        warmed(torch, call, stream)
        stream.synchronize()
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured, stream=stream, pool=pool):
            out = call()
        return captured, out

    def call():
        parts = [torch.ones(512, device="cuda", dtype=torch.uint8) for _ in range(11)]
        large = torch.ones(3 * MIB, device="cuda", dtype=torch.uint8)
        return parts[5].add_(2), large.add_(1)

    captured, (small, large) = capture(call)
    pool = captured.pool()
    before = segments(torch, pool)
    live = {small.untyped_storage().data_ptr(), large.untyped_storage().data_ptr()}
    expect(torch._C._cuda_checkPoolLiveAllocations(0, pool, live), "live allocations")
    expect(not torch._C._cuda_checkPoolLiveAllocations(0, pool, set()), "live allocations that are none")
    state = torch._C._cuda_getCheckpointState(0, pool)
    torch._C._cuda_setCheckpointPoolState(0, state, [], [])
    expect(segments(torch, pool) == before, "the pool is not as it was")
    expect(torch._C._cuda_checkPoolLiveAllocations(0, pool, live), "live allocations after it")
    captured.replay()
    expect(bool((small == 3).all()) and bool((large == 2).all()), "contents")
    del small, large
    expect(torch._C._cuda_checkPoolLiveAllocations(0, pool, set()), "nothing is live")
    consistent(torch)
    return f"{len(before)} segments"


@item()
def mem_pool():
    torch, vt = start()
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        inside = torch.ones(1 << 20, device="cuda")
    outside = torch.ones(1 << 20, device="cuda")
    expect(len(pool.snapshot()) == 1, f"{len(pool.snapshot())} segments")
    addresses = {b["address"] for s in pool.snapshot() for b in s["blocks"]}
    expect(inside.data_ptr() in addresses and outside.data_ptr() not in addresses, "which pool")
    expect(pool.use_count() >= 1, "use_count")
    identity = pool.id
    del inside
    with torch.cuda.use_mem_pool(pool):
        again = torch.zeros(1 << 20, device="cuda")
    expect(len(pool.snapshot()) == 1, "memory of the pool was not used again")
    del again, pool
    gc.collect()
    torch.cuda.empty_cache()
    expect(not segments(torch, identity), "left")
    consistent(torch)
    return f"pool {identity}"


@item()
def mem_pool_allocator():
    """A MemPool whose segments another allocator makes, as for NCCL's memory."""
    torch, vt = start()
    torch.cuda.init()
    with tempfile.TemporaryDirectory() as folder:
        allocator = make_allocator(torch, folder)
        if allocator is None:
            return skip("no C compiler")
        library = ctypes.CDLL(os.path.join(folder, "libpool.so"))
        pool = torch.cuda.MemPool(allocator.allocator())
        with torch.cuda.use_mem_pool(pool):
            x = torch.ones(5 * MIB, device="cuda")
        expect(ctypes.c_int.in_dll(library, "allocs").value == 1, "its allocator was not called once")
        expect(float(x.sum()) == 5 * MIB, "contents")
        consistent(torch)
        del x, pool
        gc.collect()
        torch.cuda.empty_cache()
        frees = ctypes.c_int.in_dll(library, "frees").value
    expect(frees == 1, f"{frees} frees")
    return "one segment, given back"
