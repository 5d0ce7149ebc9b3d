#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run_device.py VRAM [ITEM...]: `vram run` on a real device, one line an item.

  leak    a program of nvcc, with the static cudart, that leaks 3 blocks: found, with stacks
  gpt2 cupy jax onnx numba triton   counted bytes beside what cudaMemGetInfo says the process took (within 1 % and the
          context), and the program's own time with and without
  limit   gpt2 under --limit: fails with torch.OutOfMemoryError
  serve   stream-ordered allocations at every step, with and without --serve: CuPy's MemoryAsyncPool, JAX with
          cuda_async: memory and time
  pair    what a driver allocation costs more: cuMemAlloc and cuMemFree of 2 MiB
  python  what stacks of Python code cost of gpt2's training steps: its driver allocations times what one takes more
          with stacks, 32 frames deep (goal: 1 %); and the time with and without stacks

Exit code 1 when an item failed; one whose program runs longer than CHILD_SECONDS (60) has. An item whose package is
missing is skipped with the reason. REPEATS is how often each program runs with and without.
run_device.py --child NAME is a program that is measured; it prints one line of JSON at its end.
"""
import ctypes
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
MIB = 1 << 20
REPEATS = int(os.environ.get("REPEATS", "3"))
CHILD_SECONDS = float(os.environ.get("CHILD_SECONDS", "60"))  # the most that one program may take


# ------------------------------------------------------------------------- programs

def used_bytes():
    """In use on the device by all processes, asked of the driver in the current context."""
    driver, free, total = ctypes.CDLL("libcuda.so.1"), ctypes.c_size_t(), ctypes.c_size_t()
    assert driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
    return total.value - free.value


def child_gpt2():
    import torch
    sys.path.insert(0, os.path.join(HERE, "programs"))
    import torch_programs
    steps = int(os.environ.get("STEPS", "20"))
    torch_programs.gpt2_train_varlen(torch, random.Random(1), steps=2)
    torch.cuda.synchronize()
    began = time.time()
    torch_programs.gpt2_train_varlen(torch, random.Random(1), steps=steps)
    torch.cuda.synchronize()
    return time.time() - began


def cupy_work(steps):
    import cupy
    for step in range(steps):
        blocks = [cupy.ones((1 + (step * 7 + i * 13) % 64) << 18, dtype=cupy.float32) for i in range(8)]
        for block in blocks:
            block += 1
    cupy.cuda.runtime.deviceSynchronize()


def child_cupy():
    cupy_work(3)
    began = time.time()
    cupy_work(200)
    return time.time() - began


def child_cupy_async():
    import cupy
    cupy.cuda.set_allocator(cupy.cuda.MemoryAsyncPool().malloc)
    return child_cupy()


def child_jax():
    import jax
    import jax.numpy as jnp

    @jax.jit
    def step(x):
        return jnp.tanh(x @ x.T) @ x

    def work(steps):
        for i in range(steps):
            x = jnp.ones((512 * (1 + i % 4), 1024), dtype=jnp.float32)
            step(x).block_until_ready()
    work(8)
    began = time.time()
    work(2000)
    return time.time() - began


def child_onnx():
    import numpy
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper
    weights = numpy.ones((4096, 4096), dtype=numpy.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4096])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4096])],
        [helper.make_tensor("w", TensorProto.FLOAT, weights.shape, weights.tobytes(), raw=True)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CUDAExecutionProvider"])
    if session.get_providers()[0] != "CUDAExecutionProvider":
        raise ModuleNotFoundError("this ONNX Runtime has no CUDAExecutionProvider")
    session.run(None, {"x": numpy.ones((8, 4096), dtype=numpy.float32)})
    began = time.time()
    for i in range(50):
        session.run(None, {"x": numpy.ones((64 * (1 + i % 8), 4096), dtype=numpy.float32)})
    return time.time() - began


def child_numba():
    import numpy
    from numba import cuda
    began = time.time()
    for i in range(50):
        block = cuda.to_device(numpy.ones((1 + i % 16) << 20, dtype=numpy.float32))
        del block
    cuda.synchronize()
    return time.time() - began


def child_triton():
    import torch
    import triton
    import triton.language as tl

    @triton.jit
    def double(x, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(x + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)
    x = torch.ones(1 << 26, device="cuda")
    double[(triton.cdiv(x.numel(), 1024),)](x, x.numel(), BLOCK=1024)
    torch.cuda.synchronize()
    began = time.time()
    for _ in range(100):
        double[(triton.cdiv(x.numel(), 1024),)](x, x.numel(), BLOCK=1024)
    torch.cuda.synchronize()
    return time.time() - began


def child_pair():
    driver, context, addr = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
    assert driver.cuInit(0) == 0 and driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert driver.cuCtxSetCurrent(context) == 0
    alloc, free, size = driver.cuMemAlloc_v2, driver.cuMemFree_v2, ctypes.c_size_t(2 * MIB)
    times = []
    for _ in range(3000):
        began = time.perf_counter_ns()
        assert alloc(ctypes.byref(addr), size) == 0
        assert free(addr) == 0
        times.append(time.perf_counter_ns() - began)
    before, asked = used_bytes(), []
    assert alloc(ctypes.byref(addr), size) == 0
    NOTES["rise_bytes"] = used_bytes() - before
    assert free(addr) == 0
    ask, left, total = driver.cuMemGetInfo_v2, ctypes.c_size_t(), ctypes.c_size_t()
    for _ in range(200):
        began = time.perf_counter_ns()
        assert ask(ctypes.byref(left), ctypes.byref(total)) == 0
        asked.append(time.perf_counter_ns() - began)
    NOTES["ask_seconds"] = statistics.median(asked) / 1e9
    return statistics.median(times) / 1e9


def child_pair_deep(depth=40):
    return child_pair_deep(depth - 1) if depth else child_pair()


NOTES = {}  # what a program says beside its time


def child(name):
    seconds = globals()[f"child_{name}"]()
    print(json.dumps({"used_bytes": used_bytes(), "seconds": seconds, **NOTES}))


# ------------------------------------------------------------------------- measuring

class Skipped(Exception):
    pass


def start(words, more=None):
    """Runs a program; the assertion of one that takes too long says how far it came."""
    began = time.time()
    with subprocess.Popen(words, env=dict(os.environ, **(more or {})), text=True, start_new_session=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            out, err = process.communicate(timeout=CHILD_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # with the program that `vram run` started
            out, err = process.communicate()
            raise AssertionError(f"not ended after {CHILD_SECONDS:.0f} s: {' '.join(words)}: {(out + err)[-1000:]}")
    result = subprocess.CompletedProcess(words, process.returncode, out, err)
    result.seconds = time.time() - began
    return result


def last_json(text):
    for line in reversed(text.splitlines()):
        if line.startswith('{"used_bytes"'):
            return json.loads(line)
    return None


def program(name):
    return [sys.executable, os.path.abspath(__file__), "--child", name]


def plain(words, more=None):
    result = start(words, more)
    if "ModuleNotFoundError" in result.stderr:
        raise Skipped(result.stderr.strip().splitlines()[-1])
    assert result.returncode == 0, result.stderr[-2000:]
    return dict(last_json(result.stdout), whole_seconds=result.seconds)


def watched(vram, words, *options, more=None):
    with tempfile.TemporaryDirectory() as folder:
        result = start([vram, "run", "--json", "-o", f"{folder}/t.vrt", *options, "--", *words], more)
        assert result.returncode == 0, result.stderr[-2000:]
        document = json.loads(result.stdout)
        return document, dict(last_json(result.stderr), whole_seconds=result.seconds)


def root(document):
    processes = [one for one in document["processes"] if "device_memory" in one]
    assert processes, document
    return processes[0]


def compare(vram, name, more=None):
    """Counted against the driver's figure; the program's time without and with, taken in turn."""
    words = program(name)
    plain(words, more)
    without, within = [], []
    for _ in range(REPEATS):
        without.append(plain(words, more))
        document, said = watched(vram, words, more=more)
        within.append(said)

    def middle(runs, what):
        return statistics.median(run[what] for run in runs)
    device = root(document)["devices"][0]
    driver = device["driver"]
    assert driver, "the driver was never asked"
    share = driver["unexplained_bytes"] / max(driver["used_bytes"] - driver["first_bytes"], 1)
    text = (f"counted {device['counted_peak_bytes'] / MIB:.0f} MiB, the driver {driver['used_bytes'] / MIB:.0f} MiB, "
            f"of them at first {driver['first_bytes'] / MIB:.0f} (context {(driver['context_bytes'] or 0) / MIB:.0f}), "
            f"unexplained {driver['unexplained_bytes'] / MIB:.1f} MiB ({share:.2%}); "
            f"time {middle(without, 'seconds'):.3f} s, with {middle(within, 'seconds'):.3f} s "
            f"({middle(within, 'seconds') / middle(without, 'seconds') - 1:+.2%}); from start to end "
            f"{middle(without, 'whole_seconds'):.1f} s, with {middle(within, 'whole_seconds'):.1f} s")
    # What the driver loads with the first kernels is no allocation of anybody's.
    assert abs(driver["unexplained_bytes"]) < 0.01 * driver["used_bytes"] + 512 * MIB, text
    return text


def item_leak(vram):
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    if not os.path.exists(nvcc):
        raise Skipped("no nvcc")
    with tempfile.TemporaryDirectory() as folder:
        made = start([nvcc, "-g", "-Xcompiler", "-rdynamic", "-cudart", "static", "-o", f"{folder}/leak",
                      os.path.join(HERE, "run_leak.cu")])
        assert made.returncode == 0, made.stderr
        document, said = watched(vram, [f"{folder}/leak"], "--leaks")
        groups = [one for one in root(document)["device_memory"]["groups"] if one["never_freed_blocks"]]
        blocks = sum(one["never_freed_blocks"] for one in groups)
        assert blocks == 3 and document["never_freed_bytes"] == 6 * MIB, groups
        assert all(any("leak_three" in frame for frame in one["frames"]) for one in groups), groups
        device = root(document)["devices"][0]
        return (f"3 blocks of 6 MiB never freed, all from leak_three; counted {device['counted_peak_bytes'] / MIB:.0f} "
                f"MiB, cudaMemGetInfo {said['used_bytes'] / MIB:.0f} MiB in use, {device['driver']}")


def item_limit(vram):
    with tempfile.TemporaryDirectory() as folder:
        result = start([vram, "run", "-o", f"{folder}/t.vrt", "--limit", os.environ.get("LIMIT", "3G"), "--",
                        *program("gpt2")])
    if "ModuleNotFoundError" in result.stderr:
        raise Skipped("no PyTorch or transformers")
    assert result.returncode != 0 and "OutOfMemoryError" in result.stderr, result.stderr[-2000:]
    words = [line.strip() for line in result.stderr.splitlines() if "OutOfMemoryError" in line or " refused " in line]
    return "; ".join(words)[:400]


def serve(vram, name, more=None):
    words, rows = program(name), []
    plain(words, more)
    for option in ((), ("--serve",)):
        runs = [watched(vram, words, *option, more=more) for _ in range(REPEATS)]
        device = root(runs[-1][0])["devices"][0]
        used = device["driver"]["used_bytes"] - device["driver"]["first_bytes"] if device["driver"] else 0
        rows.append((used, statistics.median(said["seconds"] for _, said in runs),
                     device["peak_bytes_by_kind"]["served"]))
    assert rows[1][2] > 0, "nothing was served"
    return (f"{name}: taken from the driver {rows[0][0] / MIB:.0f} MiB, served {rows[1][0] / MIB:.0f} MiB; "
            f"{rows[0][1]:.3f} s, served {rows[1][1]:.3f} s; live at most {rows[1][2] / MIB:.0f} MiB")


def item_serve(vram):
    return " | ".join([serve(vram, "cupy_async"),
                       serve(vram, "jax", {"XLA_PYTHON_CLIENT_ALLOCATOR": "cuda_async",
                                           "XLA_PYTHON_CLIENT_PREALLOCATE": "false"})])


def item_pair(vram):
    def least(*options):
        return min(watched(vram, program("pair"), *options)[1]["seconds"] for _ in range(REPEATS))
    alone = [plain(program("pair")) for _ in range(REPEATS)]
    without, first = min(one["seconds"] for one in alone), alone[0]
    unstacked, within = least("--stacks", "off"), least()
    text = (f"{without * 1e6:.2f} us, with {within * 1e6:.2f} us: {(within - without) * 1e9:.0f} ns more "
            f"({(unstacked - without) * 1e9:.0f} with --stacks off); "
            f"cuMemGetInfo takes {first['ask_seconds'] * 1e6:.2f} us and sees {first['rise_bytes']} bytes of 2 MiB")
    assert within - without < 2e-6, text  # half of it for the frames of Python
    return text


def item_python(vram):
    def least(*options):
        return min(watched(vram, program("pair_deep"), *options)[1]["seconds"] for _ in range(REPEATS))
    stack = max(least() - least("--stacks", "off"), 0.0)
    runs = [[watched(vram, program("gpt2"), *options) for options in ((), ("--stacks", "off"))] for _ in range(REPEATS)]
    (document, _), _ = runs[-1]
    within, without = (statistics.median(pair[i][1]["seconds"] for pair in runs) for i in range(2))
    allocations = root(document)["allocs"]  # two steps more than are timed
    share = allocations * stack / without
    text = (f"a stack takes {stack * 1e9:.0f} ns, {allocations} driver allocations, {share:.3%} of the steps' time; "
            f"{without:.3f} s, with stacks {within:.3f} s ({within / without - 1:+.2%})")
    assert share < 0.01, text
    return text


ITEMS = {"leak": item_leak, "limit": item_limit, "serve": item_serve, "pair": item_pair,
         "python": item_python}
for each in ("gpt2", "cupy", "onnx", "numba", "triton"):
    ITEMS[each] = lambda vram, name=each: compare(vram, name)
ITEMS["jax"] = lambda vram: compare(vram, "jax", {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"})


def main():
    vram, failed = sys.argv[1], 0
    for name in sys.argv[2:] or ["leak", "pair", "gpt2", "cupy", "jax", "onnx", "numba", "triton", "limit", "serve",
                                 "python"]:
        began = time.time()
        try:
            said = ITEMS[name](vram)
        except Skipped as why:
            said = f"skipped: {why}"
        except (AssertionError, KeyError, ValueError, IndexError) as why:
            failed += 1
            said = f"FAILED: {type(why).__name__}: {str(why)[-1500:]}"
        print(f"{name}: {said} [{time.time() - began:.1f} s]", flush=True)
    print(f"{failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2])
    else:
        sys.exit(main())
