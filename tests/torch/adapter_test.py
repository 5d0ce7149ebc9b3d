#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""adapter_test.py SOURCE LIBVRAM FAKE_CUDA FAKE_RUNTIME: vram.torch in a real PyTorch, without a GPU.

PyTorch runs over tests/torch/fake_runtime.c, libvram over tests/fake: memory is there, kernels do nothing. Needs a
PyTorch for CUDA 12 or 13 and a C++ compiler; exit code 77 without. Each case is a process of its own, and those of
h200.py that compute nothing are run as they are.
"""
import os
import subprocess
import sys
import tempfile
import threading

SAVER = ("saver", "saver_backups", "saver_frees", "saver_files", "saver_graph", "saver_settings", "saver_stand_in",
         "saver_devices")  # saver_cases.py
CASES = ("statistics", "snapshot", "history", "emptying", "fraction", "oom_observer", "mem_pool", "graph_memory",
         "hardened", "late_and_twice", "autoload", "children", "nobody_replaces_it", "wrong_extension", "inputs",
         "external_streams", "captures_elsewhere", "expandable", "fork", "tags_here", "sleep_here", *SAVER, "sending",
         "sending_lifetime", "sending_off", "sending_in_namespaces", "nested_pools",
         "pools_of_threads", "pools_share_the_limit", "settings", "history_stacks", "fuzz", "vllm_backend",
         "raw_allocations", "accumulated", "blocks_of_threads", "graph_pool_of_a_thread",
         "deleters_after_a_checkpoint", "allocator_that_dies_first", "pool_without_splits", "limit_and_settings",
         "summary_and_report", "graph_statistics", "two_devices", "no_gpu", "old_drivers", "two_libraries",
         "documented", "accelerator", "main_module", "stacks_stay", "reuse_in_a_capture", "segments",
         "nccl_segments", "nccl_hook")


# ------------------------------------------------------------------------------------- cases

def items():
    import h200_items
    return h200_items


def graph_memory():
    """What a capture allocates is the graph's until the graph dies, and checkpoints bring it back."""
    h = items()
    torch, vt = h.start()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.empty(10, device="cuda")
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured, stream=stream):
        parts = [torch.empty(512, device="cuda", dtype=torch.uint8) for _ in range(11)]
        large = torch.empty(3 << 20, device="cuda", dtype=torch.uint8)
        keep, address = parts[5], large.data_ptr()
        del parts, large
    pool = captured.pool()
    before = h.segments(torch, pool)
    h.expect(len(before) == 2, f"{len(before)} segments")
    h.expect(torch._C._cuda_checkPoolLiveAllocations(0, pool, {keep.data_ptr()}), "live")
    h.expect(not torch._C._cuda_checkPoolLiveAllocations(0, pool, set()), "live, and not expected")
    other = torch.empty(3 << 20, device="cuda", dtype=torch.uint8)
    h.expect(other.data_ptr() != address, "memory of a graph was handed out")
    state = torch._C._cuda_getCheckpointState(0, pool)
    torch._C._cuda_setCheckpointPoolState(0, state, [], [])
    after = h.segments(torch, pool)
    h.expect(after == before, "the pool is not as it was")
    h.consistent(torch)
    captured.replay()
    del keep, captured, other
    torch.cuda.empty_cache()
    h.expect(not h.segments(torch, pool), "left")
    h.expect(torch.cuda.memory_reserved() == 0, f"{torch.cuda.memory_reserved()} bytes are left")
    return "held, brought back, given back"


def stacks_stay():
    """A snapshot has the stacks of what was allocated while the history was recorded, also after it."""
    h = items()
    torch, vt = h.start()
    captured = torch.cuda.CUDAGraph()
    kept = torch.empty(1000, device="cuda")  # without a stack
    with torch.cuda.graph(captured):
        torch.cuda.memory._record_memory_history()
        inner = torch.empty(1000, device="cuda")
        torch.cuda.memory._record_memory_history(None)

    def frames(x):
        for segment in torch.cuda.memory_snapshot():
            for block in segment["blocks"]:
                if block["address"] == x.data_ptr():
                    return block.get("frames", [])
        return None

    h.expect(any(frame["name"] == "stacks_stay" for frame in frames(inner)), str(frames(inner)))
    h.expect(any("empty" in frame["name"] and "::" in frame["name"] for frame in frames(inner)), "C++")
    h.expect(not frames(kept), str(frames(kept)))
    address = inner.data_ptr()
    del inner
    with torch.cuda.graph(torch.cuda.CUDAGraph(), pool=captured.pool()):
        inner = torch.empty(1000, device="cuda")
    h.expect(inner.data_ptr() == address and not frames(inner), str(frames(inner)))
    return "as long as the block"


def reuse_in_a_capture():
    """graph_capture_record_stream_reuse, as PyTorch's test_graph_capture_reclaim_2_streams and _4_streams."""
    h = items()
    torch, vt = h.start()
    if h.older_than(torch, 11):
        return h.skip("this PyTorch has no such setting")
    small = lambda: torch.empty(8, device="cuda")
    streams = [torch.cuda.Stream() for _ in range(4)]
    first = streams[0]

    def captured(setting):
        """How many others have to be joined until memory that all of them used is handed out again."""
        torch._C._accelerator_setAllocatorSettings(f"graph_capture_record_stream_reuse:{setting}")
        found, others = None, []
        with torch.cuda.stream(first):
            graph = torch.cuda.CUDAGraph()
            graph.capture_begin()
            kept, data = [small() for _ in range(4)], small()
            address = data.data_ptr()
            for number, stream in enumerate(streams[1:], 1):
                stream.wait_stream(first)
                with torch.cuda.stream(stream):
                    kept[number].copy_(data)
                    data.record_stream(stream)
            del data
            for joined in range(4):
                if joined != 0:
                    first.wait_stream(streams[joined])
                    kept[0].copy_(kept[joined])
                others.append(small())
                if others[-1].data_ptr() == address and found is None:
                    found = joined
            graph.capture_end()
        return found

    h.expect(captured(True) == 3, "when all streams have joined")
    h.expect(captured(True) == 3, "in another capture")
    h.expect(captured(False) is None, "not while the setting is off")
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    h.expect(torch.cuda.memory_reserved() == 0, str(torch.cuda.memory_reserved()))
    return "when the graph orders it"


def segments():
    """The segments of private pools, in the statistics, in snapshots, and as events."""
    h = items()
    torch, vt = h.start()
    torch.cuda.memory._record_memory_history()
    outer = torch.empty(100, device="cuda")

    def counted():
        stats = torch.cuda.memory_stats()
        return [stats[f"segment.{kind}.current"] for kind in ("all", "small_pool", "large_pool")]

    h.expect(counted() == [0, 0, 0], str(counted()))
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        kept = [torch.empty(size, dtype=torch.uint8, device="cuda") for size in (100, 200, 2 << 20, 30 << 20)]
    h.expect(counted() == [3, 1, 2], str(counted()))
    whole = [(s["address"], s["total_size"]) for s in pool.snapshot()]
    h.expect([s["is_expandable"] for s in torch.cuda.memory_snapshot()].count(False) == 3, "expandable")
    del kept, pool
    torch.cuda.empty_cache()
    h.expect(counted() == [0, 0, 0], str(counted()))
    events = [e for e in torch.cuda.memory._snapshot()["device_traces"][0]]
    for action in ("segment_alloc", "segment_free"):
        found = sorted((e["addr"], e["size"]) for e in events if e["action"] == action)
        h.expect(found == sorted(whole), f"{action}: {found} instead of {whole}")
    first = [e["action"] for e in events if e["addr"] == whole[0][0]]
    h.expect(first[:2] == ["segment_alloc", "alloc"] and first[-1] == "segment_free", str(first))
    del outer
    return f"{len(whole)} segments"


def nccl_segments():
    """What ProcessGroupNCCL registers (tracker.cpp): segments of MemPools, before they are used and until they go."""
    import ctypes
    h = items()
    torch, vt = h.start()
    if h.older_than(torch, 11):
        return h.skip("segments of this PyTorch have no order of registration")
    from vram.torch import extension
    here = os.path.dirname(os.path.abspath(__file__))
    home = os.path.dirname(torch.__file__)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "tracker.so")
        flags = extension.flags_for(extension.source_folders(), os.path.join(home, "include"), torch._C._GLIBCXX_USE_CXX11_ABI)
        extension.run([extension.find_compiler()] + flags + ["-shared", "-o", path, os.path.join(here, "tracker.cpp")] +
                      extension.link_flags(os.path.join(home, "lib"), os.environ["LIBVRAM_PATH"]))
        tracker = ctypes.CDLL(path)
    tracker.tracker_attach.argtypes = [ctypes.c_ulonglong] * 2
    pool = torch.cuda.MemPool()

    def inside(size):
        with torch.cuda.use_mem_pool(pool):
            return torch.empty(size, dtype=torch.uint8, device="cuda")

    with vt.tag("weights"):
        outer = torch.empty(8 << 20, dtype=torch.uint8, device="cuda")
    kept = [inside(size) for size in (100, 200, 2 << 20, 30 << 20)]
    tracker.tracker_attach(*pool.id)
    h.expect(tracker.tracker_count() == 3, f"{tracker.tracker_count()} segments")
    kept.append(inside(40 << 20))
    h.expect(tracker.tracker_count() == 4, f"{tracker.tracker_count()} segments")
    h.raises(vt.VramTorchError, vt.sleep, "pinned")
    vt.sleep("weights")
    vt.wake("weights")
    held = torch.cuda.memory_allocated()
    tracker.tracker_refuse(True)
    h.raises(RuntimeError, lambda: inside(50 << 20), "NCCL refuses")
    h.expect(torch.cuda.memory_allocated() == held, "a block of a segment that was refused is lost")
    tracker.tracker_refuse(False)
    kept.append(inside(50 << 20))
    h.expect(tracker.tracker_count() == 5, f"{tracker.tracker_count()} segments")
    del kept, pool
    torch.cuda.empty_cache()
    h.expect(tracker.tracker_count() == 0, f"{tracker.tracker_count()} segments are left")
    del outer
    torch.cuda.empty_cache()
    h.expect(torch.cuda.memory_reserved() == 0, str(torch.cuda.memory_reserved()))
    vt.sleep()
    vt.wake()
    return "five, one refused at first"


def nccl_hook():
    """The setting that registers all tensors is turned off, as with PyTorch's expandable segments."""
    h = items()
    hook = "TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK"
    code = f"import os, vram.torch\nvram.torch.enable()\nprint(os.environ.get('{hook}'))"
    said = told(code, **{hook: "1"})
    h.expect(said[0] == 0 and said[1][-1] == "0" and any("register_mem_pool" in line for line in said[1]), str(said))
    said = told(code)
    h.expect(said == (0, ["None"]), str(said))
    return "off"


def hardened():
    """The adapter that enable() compiled has what the installed libraries have."""
    h = items()
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    sys.path.insert(0, os.path.join(root, "tests", "consumers"))
    from hardened import branches_of, findings
    from vram.torch import extension
    import torch
    with tempfile.TemporaryDirectory() as folder:
        branches = branches_of(extension.find_compiler(), folder) or ()
    found = findings(extension.compile_once(torch), True, branches)
    h.expect(not found, f"the adapter {', '.join(found)}")
    return "position independent, bound at start, protected"


def late_and_twice():
    h = items()
    torch, vt = h.start()
    for _ in range(2):  # until the first tensor
        vt.enable(moving="off")
        vt.enable(moving="on")
    x = torch.empty(1000, device="cuda")
    vt.enable()
    vt.enable(moving="on")
    h.raises(vt.VramTorchError, lambda: vt.enable(moving="off"), "memory was allocated with other options already")
    del x
    code = ("import torch, vram.torch\ntorch.cuda.init()\ntry:\n  vram.torch.enable()\n"
            "except vram.torch.VramTorchError as e:\n  print(e)")
    said = told(code, drop=("VRAM_TORCH",))  # enable() has set it
    h.expect("too late" in said[1][-1], str(said))
    return said[1][-1][:60]


def autoload():
    """VRAM_TORCH: no context, no thread, and a process that is forked then uses CUDA. A word that is unknown, and a
    PyTorch that says it has no loading of entry points, leave PyTorch as it is."""
    h = items()
    code = ("import os, sys, torch\nprint(torch.cuda.get_allocator_backend(), torch.cuda.is_initialized(),"
            " len(os.listdir('/proc/self/task')), 'vram' in sys.modules)\n"
            "child = os.fork()\nif child == 0:\n  x = torch.empty(1000, device='cuda')\n"
            "  os._exit(7 + (torch.cuda.memory_allocated() == 4096))\n"
            "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), os.environ.get('VRAM_TORCH'))")
    plain = told(code, drop=("VRAM_TORCH",))
    h.expect(plain[0] == 0 and plain[1][0].startswith("native False") and plain[1][0].endswith("False"), str(plain))
    said = told(code, VRAM_TORCH="1")
    h.expect(said == (0, [plain[1][0].replace("native", "vram")[:-5] + "True", "8 1"]), str((plain, said)))
    h.expect(told(code, VRAM_TORCH="1", TORCH_DEVICE_BACKEND_AUTOLOAD="0")[1][0] == plain[1][0], "turned off")
    said = told(code, VRAM_TORCH="tru")
    h.expect(said[0] == 0 and said[1][0].startswith("vram.torch: VRAM_TORCH=tru: ") and said[1][1].startswith("native"),
             str(said))
    said = told(code, VRAM_TORCH="require,tru")
    h.expect(said[0] == 1 and "RuntimeError: VRAM_TORCH=require,tru: 'tru' is unknown; set it to 1, or to a list of "
             "require, moving=off and sharing=off, or to 0" in said[1], str(said))
    code = ("import torch, vram.torch\nreal = torch.cuda.get_allocator_backend\n"
            "torch.cuda.get_allocator_backend = lambda: 'another'\ntry:\n  vram.torch.enable()\n"
            "except vram.torch.UnsupportedError as error:\n  print('does not fit' in str(error))\n"
            "x = torch.empty(1000, device='cuda')\nprint(real(), torch.cuda.memory_allocated(), vram.torch.mode())")
    said = told(code, drop=("VRAM_TORCH",))
    h.expect(said == (0, ["True", "native 4096 None"]), f"after a self-test that failed: {said}")
    return "enabled, or one line"


def nobody_replaces_it():
    """change_current_allocator is refused from enable() on, before there is a tensor."""
    h = items()
    torch, vt = h.start()
    path = vt.adapter._library._name
    plug = torch.cuda.memory.CUDAPluggableAllocator(path, "vram_torch_abi", "vram_torch_tag_pop")
    for _ in range(2):
        h.raises(RuntimeError, lambda: torch.cuda.memory.change_current_allocator(plug), "already initialized")
        h.expect(torch.cuda.get_allocator_backend() == "vram" and vt.enabled(), torch.cuda.get_allocator_backend())
        if hasattr(torch.accelerator, "memory_stats"):  # 2.9
            torch.accelerator.memory_stats()
            torch.accelerator.empty_cache()
        torch.empty(1000, device="cuda")
    return "refused"


def external_streams():
    """A stream that is gone is asked nothing, and one that has its handle does not get its memory."""
    import ctypes
    h = items()
    torch, vt = h.start()
    torch.cuda.init()
    gone = torch.cuda.ExternalStream(0x70000000)
    x = torch.empty(4 << 20, dtype=torch.uint8, device="cuda")
    address = x.data_ptr()
    x.record_stream(gone)
    del x
    h.expect(torch.cuda.memory_allocated() == 0, str(torch.cuda.memory_allocated()))
    y = torch.empty(4 << 20, dtype=torch.uint8, device="cuda")
    h.expect(y.data_ptr() != address, "memory that a stream may use is not used again")
    del y
    with torch.cuda.stream(gone):
        place = [torch.empty(4 << 20, dtype=torch.uint8, device="cuda").data_ptr() for _ in range(2)]
        ctypes.CDLL(None).fake_streams_renew()
        place.append(torch.empty(4 << 20, dtype=torch.uint8, device="cuda").data_ptr())
    h.expect(place[0] == place[1] != place[2], str(place))
    calls, place = torch._C, []

    def on_own_default_stream():
        place.append(calls._cuda_cudaCachingAllocator_raw_alloc(4 << 20, 2))
        calls._cuda_cudaCachingAllocator_raw_delete(place[-1])

    for call in (on_own_default_stream, on_own_default_stream):
        call()
    thread = threading.Thread(target=on_own_default_stream)
    thread.start()
    thread.join()
    h.expect(place[0] == place[1] != place[2], str(place))
    torch.cuda.empty_cache()
    h.expect(torch.cuda.memory_reserved() == 0, str(torch.cuda.memory_reserved()))
    return "asked nothing"


def captures_elsewhere():
    """A graph on a stream that PyTorch did not make, and the capture of another library: neither is ended."""
    import ctypes
    h = items()
    torch, vt = h.start()
    torch.cuda.init()
    gone = torch.cuda.ExternalStream(0x70000000)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured, stream=gone):  # raises if the capture was ended
        torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
    driver, handle, status, graph = ctypes.CDLL(os.environ["VRAM_CUDA_LIBRARY"]), ctypes.c_void_p(), ctypes.c_int(), \
        ctypes.c_void_p()
    torch.empty(1 << 20, dtype=torch.uint8, device="cuda")  # on the default stream
    x = torch.empty(4 << 20, dtype=torch.uint8, device="cuda")
    x.record_stream(gone)
    del x
    context = ctypes.c_void_p()
    for call in (lambda: driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0),
                 lambda: driver.cuCtxPushCurrent_v2(context),
                 lambda: driver.cuStreamCreate(ctypes.byref(handle), 0),
                 lambda: driver.cuStreamBeginCapture_v2(handle, 0)):
        h.expect(call() == 0, "a stream that is captured")
    torch.cuda.empty_cache()
    h.expect(torch.cuda.memory_reserved() >= 4 << 20, str(torch.cuda.memory_reserved()))
    h.raises(vt.VramTorchError, lambda: vt.sleep(), "captured")
    h.expect(driver.cuStreamIsCapturing(handle, ctypes.byref(status)) == 0 and status.value == 1, str(status))
    h.expect(driver.cuStreamEndCapture(handle, ctypes.byref(graph)) == 0, "its end")
    del captured
    torch.cuda.empty_cache()
    h.expect(torch.cuda.memory_reserved() == 0, str(torch.cuda.memory_reserved()))
    return "not ended"


def wrong_extension():
    h = items()
    code = "import vram.torch\nvram.torch.enable()"
    for path, text in (("/no/such/file.so", "cannot open"), (__file__, "ELF"), (os.environ["LIBVRAM_PATH"], "another library")):
        said = told(code, LIBVRAM_TORCH_EXTENSION=path)
        h.expect(said[0] == 1 and said[1][-1].startswith(f"vram.torch.adapter.VramTorchError: LIBVRAM_TORCH_EXTENSION names "
                                                         f"{path}") and text in said[1][-1], str(said))
    return said[1][-1][:60]


def inputs():
    h = items()
    torch, vt = h.start()
    torch.cuda.init()
    h.raises(RuntimeError, lambda: torch.cuda.caching_allocator_delete(12345), "invalid device pointer")
    text = h.raises(torch.OutOfMemoryError, lambda: torch.empty(1 << 40, dtype=torch.int8, device="cuda"),
                    "CUDA out of memory. Tried to allocate 1024.00 GiB. GPU 0 has a total capacity of")
    h.expect(len(text.splitlines()) > 3, text)
    h.raises(torch.OutOfMemoryError, lambda: torch.empty(1 << 60, dtype=torch.int8, device="cuda"), "more than 1EB")
    h.raises((RuntimeError, ValueError, TypeError, OverflowError), lambda: torch.cuda.caching_allocator_alloc(1 << 63))
    h.raises((RuntimeError, AssertionError), lambda: torch.empty(1, device="cuda:63"))
    h.expect(torch.empty(0, device="cuda").data_ptr() == 0, "0 bytes")
    pointer = torch.cuda.caching_allocator_alloc(1000)
    torch.cuda.caching_allocator_delete(pointer)
    h.raises(RuntimeError, lambda: torch.cuda.caching_allocator_delete(pointer))
    h.raises(ValueError, lambda: vt.sleep(device=99))
    for device in ("cpu", "meta", torch.device("cpu")):
        h.raises(ValueError, lambda: vt.sleep(device=device), "no CUDA device")
        h.raises(ValueError, lambda: vt.stats(device), "no CUDA device")
    h.raises(TypeError, lambda: vt.tag(5).__enter__(), "a tag is a str, not int")
    h.raises(ValueError, lambda: vt.sleep(keep="nowhere"))
    h.raises(ValueError, lambda: vt.enable(moving="maybe"))
    h.raises(vt.VramTorchError, lambda: vt.wake("never-seen"))
    with vt.tag("hog", quota=64 << 20):
        h.raises(torch.OutOfMemoryError, lambda: torch.empty(100 << 20, dtype=torch.int8, device="cuda"), "hog")
    torch.cuda.caching_allocator_enable(False)
    x = torch.empty(1000, device="cuda")
    torch.cuda.caching_allocator_enable(True)
    del x
    return "errors, no crash"


def tags_here():
    h = items()
    torch, vt = h.start()
    with vt.tag("weights"):
        w = torch.empty(4 << 20, device="cuda", dtype=torch.uint8)
        with vt.tag("weights/inner"):
            v = torch.empty(1 << 20, device="cuda", dtype=torch.uint8)
    u = torch.empty(1 << 20, device="cuda", dtype=torch.uint8)
    h.expect(vt.tag_bytes("weights")["used"] == 5 << 20, str(vt.tag_bytes("weights")))
    h.expect(vt.tag_bytes("weights/inner")["used"] == 1 << 20, "inner")
    h.expect(vt.tag_bytes("nobody")["used"] == 0, "unknown")
    h.expect("reserved_bytes" in vt.report() and '"schema": "vram.stats/1"' in vt.report(json=True), vt.report(json=True)[:90])
    h.expect(vt.stats()["reserved_bytes"] >= 6 << 20, str(vt.stats()))
    del w, v, u
    return "tags, nested"


def sleep_here():
    h = items()
    torch, vt = h.start()
    with vt.tag("weights"):
        w = torch.empty(64 << 20, device="cuda", dtype=torch.uint8)
    other = torch.empty(8 << 20, device="cuda", dtype=torch.uint8)
    address, before = w.data_ptr(), torch.cuda.memory_reserved()
    vt.sleep("weights", keep="host")
    h.expect(torch.cuda.memory_reserved() <= before - (60 << 20), f"{torch.cuda.memory_reserved()} of {before}")
    vt.wake("weights")
    h.expect(w.data_ptr() == address and torch.cuda.memory_reserved() >= before, "awake")
    vt.sleep(keep="drop")
    h.raises(Exception, lambda: torch.empty(1 << 20, device="cuda"))
    vt.wake()
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        h.raises(vt.VramTorchError, lambda: vt.sleep("weights"), "a graph is being captured")
    with torch.cuda.use_mem_pool(torch.cuda.MemPool()):
        vt.sleep("weights")
    vt.wake("weights")
    torch.empty(1 << 20, device="cuda")
    del w, other
    return "asleep and awake"


PLAIN = """
import torch, vram.torch
vram.torch.enable()
kept = [torch.empty(n * 100000 + 1, dtype=torch.uint8, device="cuda") for n in range(40)]
assert torch.cuda.memory_allocated() > 40 * 50000 and torch.cuda.memory_reserved() >= torch.cuda.memory_allocated()
try:
    kept[9].untyped_storage()._share_cuda_()
    print("shared")
except RuntimeError as error:
    print(str(error).splitlines()[0])
try:
    vram.torch.sleep()
    vram.torch.wake()
    print("slept")
except vram.torch.VramTorchError as error:
    print(error)
kept.clear()
torch.cuda.empty_cache()
"""


def told(code, drop=(), **values):
    """(exit code, the lines that a program in a process of its own wrote)"""
    environment = {name: value for name, value in dict(os.environ, **values).items() if name not in drop}
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env=environment, check=False)
    return done.returncode, done.stdout.decode(errors="replace").strip().splitlines()


def no_gpu():
    """A PyTorch for CUDA where there is no driver."""
    h = items()
    code, lines = told(PLAIN, drop=("LD_PRELOAD", "VRAM_CUDA_LIBRARY"))
    h.expect(code == 1 and "NVIDIA" in lines[-1], str((code, lines[-3:])))
    h.expect(sum("finds no GPU here: there is no NVIDIA driver" in line for line in lines) == 1, str(lines))
    return lines[-1][:80]


def old_drivers():
    """Without virtual memory management: segments, and no sleep. Without exportable memory: nothing is sent."""
    h = items()
    code, lines = told(PLAIN, FAKE_CUDA_VMM="0")
    h.expect(code == 0 and "cannot be sent" in lines[-2] and "cannot sleep" in lines[-1], str((code, lines[-3:])))
    code, lines = told(PLAIN, FAKE_CUDA_DESCRIPTORS="0")
    h.expect(code == 0 and "cannot be sent" in lines[-2] and lines[-1] == "slept", str((code, lines[-3:])))
    return "no sleep, no sending, no crash"


def two_libraries():
    """A second copy of libvram in the process shares nothing, and harms nothing."""
    import ctypes
    import shutil
    h = items()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "libvram_other.so")
        shutil.copy(os.environ["LIBVRAM_PATH"], path)
        other = ctypes.CDLL(path)
        torch, vt = h.start()
        x = torch.empty(3 << 20, device="cuda")
        device, pool = ctypes.c_void_p(), ctypes.c_void_p()
        h.expect(other.vram_device_shared(b"cuda", 0, ctypes.byref(device)) == 0, "the other's device")
        h.expect(other.vram_pool_shared(device, ctypes.byref(pool)) == 0, "the other's pool")
        where = ctypes.c_uint64()
        other.vram_alloc.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_void_p]
        h.expect(other.vram_alloc(pool, 1 << 20, None, ctypes.byref(where)) == 0, "the other's block")
        h.expect(vt.stats()["requested_bytes"] == 12 << 20, str(vt.stats()))
        h.raises(RuntimeError, lambda: torch.cuda.caching_allocator_delete(where.value), "invalid device pointer")
        del x
    return "each has its own pool"


def vllm_backend():
    """examples/python/vllm_sleep.py, as vLLM calls it."""
    h = items()
    torch, vt = h.start()
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    sys.path.insert(0, os.path.join(root, "examples", "python"))
    import vllm_sleep
    allocator = vllm_sleep.SleepAllocator.get_instance()
    with allocator.use_memory_pool(tag="weights"):
        w = torch.arange(8 << 20, dtype=torch.int32).cuda()
    with allocator.use_memory_pool("kv_cache"):
        c = torch.empty(64 << 20, device="cuda", dtype=torch.uint8)
    addresses, before = (w.data_ptr(), c.data_ptr()), torch.cuda.memory_reserved()
    h.expect(allocator.get_current_usage() == 96 << 20, str(allocator.get_current_usage()))
    allocator.sleep(offload_tags=("weights",))
    h.expect(torch.cuda.memory_reserved() <= before - (90 << 20), f"{torch.cuda.memory_reserved()} of {before}")
    allocator.wake_up(["weights"])
    h.expect(torch.equal(w.cpu(), torch.arange(8 << 20, dtype=torch.int32)), "the weights")
    allocator.wake_up()
    h.expect((w.data_ptr(), c.data_ptr()) == addresses and torch.cuda.memory_reserved() >= before, "awake")
    return "slept and woke"


def documented():
    """docs/pytorch.md names every function of torch.cuda.memory."""
    h = items()
    import torch
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    with open(os.path.join(root, "docs", "pytorch.md"), encoding="utf-8") as file:
        words = set(file.read().replace("`", " ").replace(",", " ").split())
    missing = [name for name in torch.cuda.memory.__all__ if name not in words]
    h.expect(not missing, f"docs/pytorch.md does not name {missing}")
    return f"{len(torch.cuda.memory.__all__)} names"


def accelerator():
    """torch.accelerator's memory is that of vram.torch, not of PyTorch's own allocator."""
    h = items()
    torch, vt = h.start()
    if not hasattr(torch.accelerator, "memory_stats"):
        return h.skip("torch.accelerator counts no memory before 2.9")
    x = torch.empty(3 << 20, dtype=torch.uint8, device="cuda")
    own, cuda = torch.accelerator.memory_stats(), torch.cuda.memory_stats()
    h.expect(own and own["allocated_bytes.all.current"] == 3 << 20, str(own)[:90])
    h.expect(all(cuda[name] == own[name] for name in set(own) & set(cuda)), "as torch.cuda has it")
    for name in ("memory_allocated", "memory_reserved", "max_memory_allocated", "max_memory_reserved"):
        h.expect(getattr(torch.accelerator, name)() == getattr(torch.cuda, name)() > 0, name)
    del x
    torch.accelerator.reset_peak_memory_stats()
    torch.accelerator.empty_cache()
    h.expect(torch.accelerator.max_memory_allocated() == 0 == torch.cuda.memory_reserved(), "reset, and emptied")
    if hasattr(torch.accelerator, "get_memory_info"):
        h.expect(torch.accelerator.get_memory_info() == torch.cuda.mem_get_info(), "free and total")
    return f"{len(own)} keys"


def main_module():
    """python -m vram.torch"""
    h = items()
    def run(*words):
        done = subprocess.run([sys.executable, "-m", "vram.torch", *words], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, check=False)
        return done.returncode, done.stdout.decode().strip(), done.stderr.decode().strip()

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "program.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write("import sys, torch\nx = torch.empty(1000, device='cuda')\n"
                       "print(torch.cuda.get_allocator_backend(), *sys.argv[1:])\nsys.exit(7)\n")
        said = run("--report", "--moving=off", path, "a", "--b")
        h.expect(said[:2] == (7, "vram a --b") and "reserved_bytes" in said[2], str(said))
        said = run("-c", "import sys, torch; print(torch.cuda.get_allocator_backend(), sys.argv)", "a")
        h.expect(said == (0, "vram ['-c', 'a']", ""), str(said))
    for words, text in (((), "no program"), (("--what",), "unknown option"), (("--moving", "x", "y"), "on or off"),
                        (("-m",), "needs a module"), (("/nonexistent.py",), "cannot open")):
        said = run(*words)
        h.expect(said[0] == 2 and text in said[2], str(said))
    h.expect(run("--help")[0] == 0, "help")
    said = run("--check")
    h.expect(said[0] == 0 and said[1].splitlines()[-1] == "allocation, record_stream, statistics, snapshot, free: good",
             str(said))
    return "exit codes and arguments"


# -------------------------------------------------------------------------------------- parent

def find_torch():
    code = "import torch; print(torch.version.cuda)"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    return done.stdout.decode().strip() if done.returncode == 0 else None


def main():
    source, libvram, fake_cuda, fake_runtime = (os.path.abspath(path) for path in sys.argv[1:5])
    cuda = find_torch()
    if cuda is None or not cuda.startswith(("12", "13")):
        print(f"PyTorch for CUDA 12 or 13 is not installed (found: {cuda}): not tested")
        return 77
    failed = 0
    with tempfile.TemporaryDirectory() as cache:
        values = dict(os.environ, LD_PRELOAD=fake_runtime, VRAM_CUDA_LIBRARY=fake_cuda, LIBVRAM_PATH=libvram,
                      FAKE_CUDA_MEMORY=str(8 << 30), PYTHONDONTWRITEBYTECODE="1",
                      PYTHONPATH=os.path.join(source, "bindings", "python"))
        values.setdefault("LIBVRAM_TORCH_CACHE", cache)
        values.setdefault("LIBVRAM_COMMAND", os.path.join(os.path.dirname(libvram), "vram"))
        for name in sys.argv[5:] or CASES:
            values["FAKE_CUDA_DEVICES"] = "2" if name.endswith("devices") else "1"
            done = subprocess.run([sys.executable, os.path.abspath(__file__), "--case", name], env=values, check=False,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            lines = done.stdout.decode(errors="replace").strip().splitlines() or [""]
            said = [line for line in lines if line.startswith(("ok: ", "skipped: "))]  # 2.9 warns after it, at the end
            good = done.returncode == 0 and said != []
            print(f"{name}: {said[-1]}" if good else f"{name}: FAILED, exit code {done.returncode}\n" + "\n".join(lines),
                  flush=True)
            failed += not good
    return 1 if failed else 0


def case(name):
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    if name in SAVER:
        import saver_cases
        call = getattr(saver_cases, name)
    else:
        call = globals().get(name) or items().ITEMS[name].call
    said = call()
    if said is not None:
        print(f"ok: {said}")
    return 0


if __name__ == "__main__":
    sys.exit(case(sys.argv[2]) if sys.argv[1:2] == ["--case"] else main())
