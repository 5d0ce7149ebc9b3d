# SPDX-License-Identifier: Apache-2.0
"""h200_items.py NAME: one item of h200.py, in this process. Prints "ok: ..." last."""
import collections
import functools
import gc
import json
import os
import pickle
import sys
import tempfile
import time
import warnings

from h200_kit import (COMPUTES, ITEMS, MIB, consistent, expect, item, older_than, ones, python, raises,  # noqa: F401
                      segments, skip, start, together, works)


# ------------------------------------------------------------------------------- the basics

@item(limit=150)
def build():
    begin = time.monotonic()
    torch, vt = start()
    seconds = time.monotonic() - begin
    x = torch.arange(1000, device="cuda")
    expect(int(x.sum()) == 499500, "a sum is wrong")
    return f"PyTorch {torch.__version__}, {torch.cuda.get_allocator_backend()}, ready after {seconds:.1f} s"


@item()
def results():
    """The same numbers as on the CPU, forwards and backwards, with cuDNN and cuBLAS."""
    torch, vt = start()
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), torch.nn.ReLU(), torch.nn.Flatten(),
                                torch.nn.Linear(16 * 30 * 30, 10)).double()
    x = torch.randn(8, 3, 32, 32, dtype=torch.double)
    model(x).square().sum().backward()
    expected = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    model.cuda()
    for _ in range(20):
        model.zero_grad()
        model(x.cuda()).square().sum().backward()
    worst = max(float((p.grad.cpu() - e).abs().max() / e.abs().max()) for p, e in zip(model.parameters(), expected))
    expect(worst < 1e-9, f"gradients differ by {worst}")
    return f"gradients within {worst:.1e} of the CPU's"


@item()
def statistics():
    torch, vt = start()
    base = torch.cuda.memory_allocated()
    x = torch.empty(1000, device="cuda", dtype=torch.uint8)
    expect(torch.cuda.memory_allocated() - base == 1024, "1000 bytes are not 1024 allocated bytes")
    y = torch.empty(3 * MIB, device="cuda", dtype=torch.uint8)
    stats = torch.cuda.memory_stats()
    expect(stats["requested_bytes.all.current"] == 1000 + 3 * MIB, "requested bytes")
    expect(stats["allocation.small_pool.current"] == 1 and stats["allocation.large_pool.current"] == 1, "pools")
    expect(torch.cuda.memory_reserved() >= 1024 + 3 * MIB, "reserved")
    del y
    expect(torch.cuda.memory_allocated() == 1024, "after a free")
    expect(torch.cuda.max_memory_allocated() == 1024 + 3 * MIB, "the peak")
    torch.cuda.reset_peak_memory_stats()
    expect(torch.cuda.max_memory_allocated() == 1024, "the peak after a reset")
    expect(torch.cuda.max_memory_reserved() == torch.cuda.memory_reserved(), "the reserved peak after a reset")
    torch.cuda.reset_accumulated_memory_stats()
    expect(torch.cuda.memory_stats()["allocation.all.allocated"] == 0, "accumulated after a reset")
    summary = torch.cuda.memory_summary()
    expect("Allocated memory" in summary and "GPU reserved memory" in summary, summary[:200])
    free, total = torch.cuda.mem_get_info()
    expect(0 < free <= total, "mem_get_info")
    del x
    return f"{len(stats)} keys"


@item()
def statistics_keys():
    """All keys of PyTorch's own allocator."""
    torch, vt = start()
    torch.empty(10, device="cuda")
    code = "import torch, json; torch.empty(10, device='cuda'); print(json.dumps(sorted(torch.cuda.memory_stats())))"
    expected, have = set(json.loads(python(code, timeout=50, VRAM_TORCH="0"))), set(torch.cuda.memory_stats())
    expect(expected == have, f"missing {sorted(expected - have)}, more {sorted(have - expected)}")
    return f"the same {len(have)} keys as PyTorch's own"


@item()
def snapshot():
    torch, vt = start()
    import random
    rng = random.Random(5)
    live = []
    for _ in range(400):
        if live and rng.random() < 0.45:
            live.pop(rng.randrange(len(live)))
        else:
            live.append(torch.empty(rng.choice([100, 5000, 700000, 3 * MIB, 9 * MIB]), device="cuda", dtype=torch.uint8))
        if rng.random() < 0.05:
            consistent(torch)
    addresses = {t.data_ptr() for t in live}
    blocks = {b["address"] for s in torch.cuda.memory_snapshot() for b in s["blocks"]
              if b["state"] == "active_allocated"}
    expect(blocks == addresses, "the snapshot has other blocks than the program")
    del live
    torch.cuda.empty_cache()
    consistent(torch)
    return f"{len(addresses)} blocks, sums equal to the statistics"


@item()
def history():
    torch, vt = start()
    begin = time.time()
    torch.cuda.memory._record_memory_history(max_entries=1000, stacks="python")
    x = torch.empty(311, 411, device="cuda")
    y = torch.empty(64 * MIB // 4, device="cuda")
    del y
    snap = torch.cuda.memory._snapshot()
    found = [b for s in snap["segments"] for b in s["blocks"] if b["requested_size"] == 311 * 411 * 4]
    expect(len(found) == 1 and found[0]["address"] == x.untyped_storage().data_ptr(), "the block is not in the snapshot")
    expect("h200_items" in found[0]["frames"][0]["filename"], f"frames {found[0]['frames'][:1]}")
    actions = collections.Counter(e["action"] for e in snap["device_traces"][0])
    for action in ("alloc", "free_requested", "free_completed", "segment_map"):
        expect(actions[action] > 0, f"no {action} in {actions}")
    expect(all("frames" in e for e in snap["device_traces"][0] if e["action"] == "alloc"), "an event without frames")
    times = [e["time_us"] / 1e6 for e in snap["device_traces"][0]]
    expect(times == sorted(times) and begin - 1 < times[0] and times[-1] < time.time() + 1, f"times {times} from {begin}")
    del x
    torch.cuda.empty_cache()
    last = torch.cuda.memory._snapshot()["device_traces"][0][-1]["action"]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "snapshot.pickle")
        torch.cuda.memory._dump_snapshot(path)
        with open(path, "rb") as file:
            dumped = pickle.load(file)
        expect({"segments", "device_traces", "allocator_settings"} <= set(dumped), sorted(dumped))
        from torch.cuda import _memory_viz
        pages = [_memory_viz.trace_plot(dumped), _memory_viz.segment_plot(dumped), _memory_viz.segsum(dumped),
                 _memory_viz.trace(dumped)]
        expect(all(pages), "an empty page of memory_viz")
    torch.cuda.memory._record_memory_history(None)
    expect(last in ("segment_unmap", "segment_free"), f"the last event after empty_cache is {last}")
    return f"{dict(actions)}"


@item()
def emptying():
    torch, vt = start()
    x = [torch.empty(50 * MIB, device="cuda", dtype=torch.uint8) for _ in range(20)]
    held = torch.cuda.memory_reserved()
    del x
    torch.cuda.empty_cache()
    left = torch.cuda.memory_reserved()
    expect(left < 4 * MIB, f"{left} bytes are left of {held}")
    return f"{held // MIB} MiB to {left // MIB} MiB"


@item()
def fraction():
    torch, vt = start()
    expect(torch.cuda.get_per_process_memory_fraction(0) == 1.0, "the default")
    total = torch.cuda.get_device_properties(0).total_memory
    keep = ones(torch, 1024)
    torch.cuda.set_per_process_memory_fraction(0.05, 0)
    expect(torch.cuda.get_per_process_memory_fraction(0) == 0.05, "what was set")
    x = torch.empty(int(total * 0.049) - torch.cuda.max_memory_reserved(), dtype=torch.int8, device="cuda")
    del x
    torch.cuda.empty_cache()
    raises(torch.OutOfMemoryError, lambda: torch.empty(int(total * 0.05), dtype=torch.int8, device="cuda"),
           "out of memory")
    works(keep, "a kernel after the error")
    torch.cuda.set_per_process_memory_fraction(1.0, 0)
    return "held at 5 %"


# ----------------------------------------------------------------------------- out of memory

@item()
def out_of_memory():
    torch, vt = start()
    keep = torch.ones(1000, device="cuda")
    text = raises(torch.OutOfMemoryError, lambda: torch.empty(1 << 42, dtype=torch.int8, device="cuda"),
                  "CUDA out of memory. Tried to allocate 4096.00 GiB. GPU 0 has a total capacity of")
    expect(len(text.splitlines()) > 3, f"no report: {text}")
    raises(torch.OutOfMemoryError, lambda: torch.empty(1 << 60, dtype=torch.int8, device="cuda"),
           "Tried to allocate more than 1EB memory")
    expect(torch.cuda.memory_stats()["num_ooms"] == 1, "num_ooms")
    with vt.tag("hog", quota=64 * MIB):
        text = raises(torch.OutOfMemoryError, lambda: torch.empty(100 * MIB, dtype=torch.int8, device="cuda"))
    expect("hog" in text, f"the tag is not named: {text}")
    expect(float(keep.sum()) == 1000, "a kernel after the error")
    return text.splitlines()[1][:90]


@item()
def oom_observer():
    torch, vt = start()
    seen = []
    torch._C._cuda_attach_out_of_memory_observer(lambda *values: seen.append(values))
    raises(torch.OutOfMemoryError, lambda: torch.empty(1 << 42, dtype=torch.int8, device="cuda"))
    expect(len(seen) == 1 and seen[0][0] == 0 and seen[0][1] == 1 << 42 and seen[0][2] >= seen[0][3] > 0, str(seen))
    return str(seen[0])


@item(limit=90)
def cudnn_fallback():
    """With little memory cuDNN has to take an algorithm with a smaller workspace."""
    torch, vt = start()
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = False
    torch.manual_seed(1)
    x = torch.randn(16, 64, 128, 128, device="cuda")
    w = torch.randn(64, 64, 3, 3, device="cuda")
    expected = torch.nn.functional.conv2d(x, w, padding=1)
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(0).total_memory
    room = torch.cuda.memory_reserved() + expected.nbytes + 8 * MIB
    torch.cuda.set_per_process_memory_fraction(room / total, 0)
    worst = 0.0
    for _ in range(3):
        torch.backends.cudnn.benchmark = not torch.backends.cudnn.benchmark
        result = torch.nn.functional.conv2d(x, w, padding=1)
        torch.cuda.set_per_process_memory_fraction(1.0, 0)
        worst = max(worst, float((result - expected).abs().max() / expected.abs().max()))
        del result
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction(room / total, 0)
    expect(worst < 1e-2, f"results differ by {worst}")
    return f"convolution in {room // MIB} MiB"


@item()
def bad_input():
    torch, vt = start()
    torch.cuda.init()
    raises(RuntimeError, lambda: torch.cuda.caching_allocator_delete(12345), "invalid device pointer")
    raises((RuntimeError, AssertionError), lambda: torch.empty(1, device="cuda:63"))
    raises(RuntimeError, lambda: torch.empty((1 << 62,), dtype=torch.int64, device="cuda"))
    expect(torch.empty(0, device="cuda").data_ptr() == 0, "0 bytes")
    pointer = torch.cuda.caching_allocator_alloc(1000)
    torch.cuda.caching_allocator_delete(pointer)
    raises(RuntimeError, lambda: torch.cuda.caching_allocator_delete(pointer))
    raises(ValueError, lambda: vt.sleep(device=99))
    raises(ValueError, lambda: vt.sleep(keep="nowhere"))
    raises(vt.VramTorchError, lambda: vt.wake("never-seen"))
    raises(vt.VramTorchError, lambda: vt.enable(), "enabled already")
    torch.cuda.caching_allocator_enable(False)
    x = torch.ones(1000, device="cuda")
    torch.cuda.caching_allocator_enable(True)
    expect(float(x.sum()) == 1000, "memory without caching")
    del x
    return "errors, no crash"


@item()
def destroyed_stream():
    """A stream of the program's that is destroyed while blocks of it are cached, and one is live."""
    import ctypes
    if not COMPUTES:
        return skip("needs CUDA's own streams")
    torch, vt = start()
    with open("/proc/self/maps", encoding="utf-8") as maps:
        runtime = ctypes.CDLL(next(line.split()[-1] for line in maps if "libcudart.so" in line))
    torch.cuda.init()
    for turn in range(20):
        native = ctypes.c_void_p()
        expect(runtime.cudaStreamCreateWithFlags(ctypes.byref(native), 1) == 0, "a stream")
        with torch.cuda.stream(torch.cuda.ExternalStream(native.value)):
            kept = [torch.ones(n * 1000 + 1, device="cuda") for n in range(50)]
            expect(all(float(each.sum()) == len(each) for each in kept), "contents")
            del kept[:-1]
        recorded = [torch.ones(1 << 20, device="cuda") for _ in range(2)]
        for each in recorded:
            each.record_stream(torch.cuda.ExternalStream(native.value))
        del recorded[0], each
        torch.cuda.synchronize()
        expect(runtime.cudaStreamDestroy(native) == 0, "destroying it")
        del kept, recorded
        x = torch.ones(1 << 20, device="cuda")
        expect(float(x.sum()) == 1 << 20, f"a kernel after stream {turn} was destroyed")
        del x
        if turn % 5 == 0:
            torch.cuda.empty_cache()
    return "20 streams"


# ------------------------------------------------------------------------- streams and threads

@item()
def record_stream():
    """Memory that a second stream still reads is not handed out."""
    torch, vt = start()
    side = torch.cuda.Stream()
    size, wrong = 8 * MIB, 0
    for turn in range(40):
        x = torch.full((size,), float(turn), device="cuda")
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.cuda._sleep(2000000)
            y = x.clone()
            x.record_stream(side)
        del x
        z = torch.full((size,), -1.0, device="cuda")  # would be written over what `side` has yet to read
        side.synchronize()
        wrong += int((y != turn).sum())
        del y, z
    expect(wrong == 0, f"{wrong} numbers were overwritten")
    return "40 turns"


@item()
def threads():
    torch, vt = start()
    problems = []

    def work(number):
        try:
            import random
            rng, stream = random.Random(number), torch.cuda.Stream()
            with torch.cuda.stream(stream):
                live = []
                for _ in range(400):
                    if live and rng.random() < 0.5:
                        tensor, value = live.pop(rng.randrange(len(live)))
                        if not bool((tensor == value).all()):
                            problems.append(f"thread {number}: a tensor was overwritten")
                    else:
                        value = rng.randrange(1000)
                        live.append((torch.full((rng.choice([100, 30000, 1 << 20]),), value, device="cuda"), value))
        except Exception as error:
            problems.append(repr(error))

    together(*(functools.partial(work, number) for number in range(8)))
    torch.cuda.synchronize()
    expect(not problems, str(problems[:3]))
    gc.collect()
    expect(torch.cuda.memory_allocated() == 0, "something is left")
    return "8 threads with a stream each"


# ----------------------------------------------------------------- the rest of what PyTorch does

@item()
def pinned():
    torch, vt = start()
    host = torch.arange(1 << 22).pin_memory()
    device = host.to("cuda", non_blocking=True)
    back = torch.empty_like(host, pin_memory=True)
    back.copy_(device, non_blocking=True)
    torch.cuda.synchronize()
    expect(torch.equal(back, host), "contents")
    return "there and back"


@item()
def profiler():
    torch, vt = start()
    with torch.profiler.profile(profile_memory=True) as profile:
        x = torch.ones(MIB, device="cuda")
        del x
    table = profile.key_averages().table(sort_by="self_device_memory_usage", row_limit=5)
    expect("MB" in table or "4.00" in table, table)
    return "memory in the profile"


@item()
def fork():
    torch, vt = start()
    x = ones(torch, 1000)
    child = os.fork()
    if child == 0:
        try:
            ones(torch, 1000)
        except RuntimeError as error:
            os._exit(0 if "forked subprocess" in str(error) else 3)
        os._exit(4)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    expect(code == 0, f"the child ended with {code}")
    works(x, "the parent goes on")
    return "PyTorch's own error in the child"


@item()
def expandable():
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        torch, vt = start()
    texts = [str(w.message) for w in seen if "vram.torch ignores" in str(w.message)]
    expect(len(texts) == 1, str([str(w.message) for w in seen]))
    works(ones(torch, 1000), "it works")
    return texts[0][:80]


@item()
def at_exit():
    """Tensors, graphs and pools that are alive when the process ends."""
    code = """
import torch, vram.torch, threading
vram.torch.enable()
keep = [torch.ones(1 << n, device="cuda") for n in range(20)]
pool = torch.cuda.MemPool()
with torch.cuda.use_mem_pool(pool):
    inside = torch.ones(1000, device="cuda")
g = torch.cuda.CUDAGraph()
with torch.cuda.graph(g):
    out = keep[3] * 2
class Late:
    def __del__(self): keep.clear()
late = Late()
"""
    python(code, timeout=50)
    return "exit code 0"


import h200_pools  # noqa: E402,F401  (they register their items)
import h200_beyond  # noqa: E402,F401
import h200_sharing  # noqa: E402,F401
import h200_together  # noqa: E402,F401
import h200_expectations  # noqa: E402,F401
import h200_details  # noqa: E402,F401
import h200_nccl  # noqa: E402,F401


def main():
    name = sys.argv[1] if len(sys.argv) == 2 else ""
    if name not in ITEMS:
        print(f"h200_items.py: no item {name!r}", file=sys.stderr)
        return 2
    said = ITEMS[name].call()
    if said is not None:
        print(f"ok: {said}")
    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
