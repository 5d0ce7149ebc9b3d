# SPDX-License-Identifier: Apache-2.0
"""device_test.py [ITEM...]: the package and its adapters on a machine with an NVIDIA GPU, one line for each item.

Each item runs in a process of its own. Where a library is compared with and without libvram, its program runs twice and
must give the same results, bit by bit. What is not installed is said, and is not a failure. LIBVRAM_PATH names the
library. Exit code 0 when nothing failed.
"""
import json
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:1] = [os.path.dirname(HERE)]
from tests.device_programs import Skip, cupy_program, load, numba_program, onnx_program  # noqa: E402

SECONDS = 60  # for one process
ITEMS = {}


def item(function):
    ITEMS[function.__name__.replace("_", "-")] = function
    return function


# ------------------------------------------------------------------- the package

@item
def package():
    import asyncio
    import vram

    async def round_trip(queue, buffer, data):
        await queue.upload(buffer, data)
        return bytes(await queue.download(buffer))

    with vram.Context(backends="cuda") as context, context.device("cuda") as device:
        with device.queue() as queue, device.pool(tracked=True) as pool, device.pool("pinned") as host:
            data = os.urandom(32 << 20)
            buffer = pool.buffer(len(data), queue=queue, tag="test")
            assert asyncio.run(round_trip(queue, buffer, data)) == data
            pinned = host.buffer(len(data), kind="pinned")
            pinned.view()[:] = data
            begin = time.perf_counter()
            for _ in range(20):
                queue.upload(buffer, pinned.view())
            queue.wait()
            rate = 20 * len(data) / (time.perf_counter() - begin) / 1e9
            assert pool.live_blocks()[0]["tag"] == "test"
            where = buffer.address
            pool.sleep("host")
            pool.wake()
            assert buffer.address == where and buffer.read() == data
            return f"{device.info()['name']}, pinned uploads {rate:.1f} GB/s"


@item
def out_of_memory():
    import vram
    with vram.Context(backends="cuda") as context, context.device("cuda") as device, device.pool(limit="1GiB") as pool:
        held = pool.alloc("800MiB", tag="weights")
        try:
            pool.alloc("400MiB", tag="cache")
            raise AssertionError("it was not refused")
        except vram.OutOfMemoryError as error:
            report = error.report
        assert report["schema"] == "vram.oom/1" and "weights" in json.dumps(report)
        pool.free(held)
        pool.free(pool.alloc("400MiB"))
        return report["advice"][:60]


@item
def numpy_on_pinned():
    import vram
    numpy = load("numpy")
    with vram.Context(backends="cuda") as context, context.device("cuda") as device:
        with device.queue() as queue, device.pool() as pool:
            host = pool.buffer(shape=(1000, 1000), dtype="float64", kind="pinned")
            array = numpy.asarray(host)
            array[:] = numpy.arange(1000000).reshape(1000, 1000)
            there = pool.buffer(array.nbytes, queue=queue)
            queue.upload(there, array)
            back = numpy.frombuffer(queue.download(there).wait(), dtype="float64")
            assert back.sum() == array.sum() == 499999500000.0
    assert array.sum() == 499999500000.0  # all is closed, and the array has its memory
    return "upload, download, and after close"


@item
def misuse():
    import vram
    with vram.Context(backends="cuda") as context, context.device("cuda") as device, device.pool() as pool:
        queue = device.queue()
        block = pool.alloc("1MiB", queue)
        pool.free(block, queue)
        refused = 0
        for call in (lambda: pool.free(block), lambda: pool.free(123), lambda: pool.alloc(2**63),
                     lambda: pool.alloc(2**64 - 1), lambda: context.device("cuda:99"), lambda: pool.buffer(10).view(),
                     lambda: queue.upload(123, b"x"), lambda: vram.shared_device("cuda", 99)):
            try:
                call()
            except vram.Error:
                refused += 1
        queue.close()
        try:
            pool.alloc(10, queue)
        except vram.StaleError:
            refused += 1
        assert refused == 9, refused
        return f"{refused} mistakes, {refused} exceptions"


@item
def exit_with_everything_open():
    import vram
    pool = vram.shared_pool("cuda")
    queue = pool.device.queue()
    buffer = pool.buffer("64MiB", queue=queue)
    vram.kept = [pool, queue, buffer, queue.fill(buffer, 1), buffer.__dlpack__()]
    return "left open"


@item
def fork_after_use():
    import vram
    pool = vram.shared_pool("cuda")
    pool.alloc("1MiB")
    child = os.fork()
    if child == 0:
        try:
            pool.alloc("1MiB")
        except vram.ForkedError:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    pool.alloc("1MiB")
    return "the child has an exception, the parent goes on"


# ----------------------------------------------------------- arrays of other libraries

@item
def cuda_array_interface():
    import vram
    cupy = load("cupy")
    with vram.Context(backends="cuda") as context, context.device("cuda") as device:
        with device.queue() as queue, device.pool() as pool:
            buffer = pool.buffer(shape=(1 << 20,), dtype="float32", queue=queue)
            queue.fill(buffer, 0x3f800000, 4)
            array = cupy.asarray(buffer)
            total = float(array.sum())
            assert total == float(1 << 20), total
            array *= 2
            cupy.cuda.runtime.deviceSynchronize()
            assert buffer.read()[:4] == b"\0\0\0\x40"
            del array
    return "cupy.asarray, both directions"


@item
def dlpack_cupy():
    import vram
    cupy = load("cupy")
    pool = vram.shared_pool("cuda")
    with pool.device.queue() as queue:
        buffer = pool.buffer(shape=(512, 512), dtype="float32", queue=queue)
        queue.fill(buffer, 0x40000000, 4)
        array = cupy.from_dlpack(buffer)
        buffer.close()
        assert array.shape == (512, 512) and float(array.sum()) == 2.0 * 512 * 512
        mine = cupy.arange(1000, dtype=cupy.int64)
        cupy.cuda.runtime.deviceSynchronize()
        taken = vram.from_dlpack(mine, pool)
        del mine
        back = queue.download(taken).wait()
        assert sum(memoryview(back).cast("q")) == 499500
        taken.close()
        del array
    return "out and in, closed before use"


@item
def dlpack_torch():
    import vram
    torch = load("torch")
    if not torch.cuda.is_available():
        raise Skip("this PyTorch has no CUDA")
    pool = vram.shared_pool("cuda")
    with pool.device.queue() as queue:
        buffer = pool.buffer(shape=(512, 512), dtype="float32", queue=queue)
        queue.fill(buffer, 0x40000000, 4)
        tensor = torch.from_dlpack(buffer)
        buffer.close()
        assert tensor.is_cuda and float(tensor.sum()) == 2.0 * 512 * 512
        taken = vram.from_dlpack(torch.arange(1000, device="cuda"), pool)
        assert sum(memoryview(queue.download(taken).wait()).cast("q")) == 499500
    return "out and in, closed before use"


@item
def dlpack_jax():
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import vram
    jax = load("jax")
    on_gpu = any(device.platform == "gpu" for device in jax.devices())
    pool = vram.shared_pool("cuda" if on_gpu else "host")
    with pool.device.queue() as queue:
        buffer = pool.buffer(shape=(256, 256), dtype="float32", queue=queue)
        queue.fill(buffer, 0x40000000, 4).wait()
        array = jax.dlpack.from_dlpack(buffer)
        total = float(jax.numpy.sum(array * 2))
        assert total == 4.0 * 256 * 256, total
        mine = jax.numpy.arange(1000, dtype="int32").block_until_ready()
        taken = vram.from_dlpack(mine, pool)
        assert sum(memoryview(queue.download(taken).wait()).cast("i")) == 499500
        taken.close()
        del array
    return "on the GPU" if on_gpu else "this JAX has no GPU: on the CPU"


# ------------------------------------------------------------------------------- CuPy

@item
def cupy_own():
    return cupy_program()


@item
def cupy_vram():
    load("cupy")
    import vram.cupy
    vram.cupy.enable()
    result = cupy_program()
    stats = vram.cupy.stats()
    assert stats["cupy"]["allocs"] > 100, stats["cupy"]
    vram.cupy.disable()
    return result


@item
def cupy_out_of_memory():
    os.environ["VRAM_DEVICE_LIMIT"] = "2G"
    cupy = load("cupy")
    import vram.cupy
    vram.cupy.enable()
    kept = cupy.zeros(300 << 20, dtype="uint8")
    try:
        cupy.zeros(8 << 30, dtype="uint8")
        raise AssertionError("it was not refused")
    except cupy.cuda.memory.OutOfMemoryError as error:
        assert isinstance(error.__cause__, vram.OutOfMemoryError) and error.__cause__.report
    sizes = []
    for size in (4 << 30, 2 << 30, 1 << 30):  # as programs do: again with half of it
        try:
            cupy.zeros(size, dtype="uint8")
            sizes.append(size)
        except MemoryError:
            pass
    assert sizes == [1 << 30] and int(kept.sum()) == 0
    return "refused, and half of it served"


@item
def cupy_streams_that_end():
    cupy = load("cupy")
    import vram.cupy
    vram.cupy.enable()
    total = 0.0
    for step in range(300):
        stream = cupy.cuda.Stream(non_blocking=True)
        with stream:
            array = cupy.full(1 << 16, step, dtype="float32")
            kept = array + 1
        stream.synchronize()
        total += float(kept[0].get())
        del stream, array
    assert total == sum(range(1, 301)), total
    return "300 streams made and destroyed"


@item
def cupy_default_streams():
    """Each thread's default stream is one of its own: what one thread still reads, no other gets and overwrites."""
    import threading
    os.environ["CUPY_CUDA_PER_THREAD_DEFAULT_STREAM"] = "1"
    cupy = load("cupy")
    import vram.cupy
    vram.cupy.enable()
    hold = cupy.RawKernel("""extern "C" __global__ void hold(long long cycles)
        { for (long long start = clock64(); clock64() - start < cycles;) { } }""", "hold")
    early, lock = [], threading.Lock()

    def work(number):
        for turn in range(20):
            value = number * 100 + turn
            array = cupy.full(1 << 18, value, dtype="int32")
            kept = cupy.empty(1 << 18, dtype="int32")
            hold((1,), (1,), (10_000_000,))  # some milliseconds, on this thread's stream
            kept[...] = array
            del array
            if not bool((kept == value).all()):
                with lock:
                    early.append(value)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not early, early
    return "160 blocks of 8 threads, none overwritten"


@item
def cupy_graph():
    cupy = load("cupy")
    import vram.cupy
    vram.cupy.enable()
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        source = cupy.arange(1 << 16, dtype="float32")
        target = cupy.empty_like(source)
        cupy.multiply(source, 2, out=target)
        stream.synchronize()
        stream.begin_capture()
        cupy.multiply(source, 2, out=target)
        cupy.add(target, 1, out=target)
        graph = stream.end_capture()
        for _ in range(10):
            graph.launch(stream=stream)
        stream.synchronize()
        assert float(target[5].get()) == 11.0
    return "captured and launched"


@item
def cupy_speed():
    cupy = load("cupy")

    def pairs():
        cupy.cuda.runtime.deviceSynchronize()
        best = 1e9
        for _ in range(7):
            begin = time.perf_counter()
            for _ in range(5000):
                cupy.empty(1 << 18, dtype="float32")
            best = min(best, (time.perf_counter() - begin) / 5000)
        return best * 1e6

    own = pairs()
    import vram.cupy
    find = vram.cupy._c_functions
    found = {}
    for name, functions in (("through Python", lambda: None), ("in C", find)):
        vram.cupy._c_functions = functions
        vram.cupy.enable()
        found[name] = pairs()
        vram.cupy.disable()
    assert find() is not None, "there is no libvram_cupy.so beside libvram"
    return ("empty + del " + ", ".join(f"{name} {value:.2f} us" for name, value in found.items())
            + f", CuPy's own pool {own:.2f} us")


# ------------------------------------------------------------------------------ Numba

@item
def numba_own():
    return numba_program()


@item
def numba_vram():
    os.environ["NUMBA_CUDA_MEMORY_MANAGER"] = "vram.numba"
    result = numba_program()
    import vram.numba
    cuda = load("numba.cuda")
    tags = {row["name"]: row for row in vram.numba._pools[0].pool.device.tags()}
    assert tags["numba"]["allocs"] > 20, tags
    free, total = cuda.current_context().get_memory_info()
    assert 0 < free <= total
    with cuda.defer_cleanup():
        cuda.device_array(1000)
    cuda.current_context().reset()
    return result


@item
def numba_out_of_memory():
    os.environ.update(NUMBA_CUDA_MEMORY_MANAGER="vram.numba", VRAM_DEVICE_LIMIT="1G")
    cuda, numpy = load("numba.cuda"), load("numpy")
    from numba.cuda.cudadrv.driver import CudaAPIError
    try:
        cuda.device_array(2 << 30, dtype=numpy.uint8)
        raise AssertionError("it was not refused")
    except CudaAPIError as error:
        assert int(error.code) == 2, error
    cuda.device_array(100 << 20, dtype=numpy.uint8)
    return "CUDA_ERROR_OUT_OF_MEMORY, and 100 MiB served"


@item
def numba_closed():
    """close() resets the device under live arrays: to free them is harmless, and to allocate is refused in words."""
    os.environ["NUMBA_CUDA_MEMORY_MANAGER"] = "vram.numba"
    import gc
    import vram
    cuda, numpy = load("numba.cuda"), load("numpy")
    pool = vram.shared_pool("cuda")
    queue = vram.shared_queue(pool.device, 0)
    block = pool.alloc(1 << 20, queue)
    arrays = [cuda.to_device(numpy.arange(1000, dtype="int64")) for _ in range(5)]
    pinned = cuda.pinned_array(1000)
    pinned[:] = 1
    del arrays[:2]
    cuda.close()
    del arrays, pinned
    gc.collect()
    pool.free(block, queue)
    try:
        pool.alloc(1 << 30, queue)
    except vram.DeviceLostError as error:
        return str(error)[:60]
    raise AssertionError("memory of a device that was reset was served")


@item
def numba_ipc():
    os.environ.update(NUMBA_CUDA_MEMORY_MANAGER="vram.numba", LIBVRAM_NUMBA_SEGMENTS="1")
    cuda, numpy = load("numba.cuda"), load("numpy")
    import multiprocessing
    there = cuda.to_device(numpy.arange(1000, dtype="int64"))
    handle = there.get_ipc_handle()
    spawn = multiprocessing.get_context("spawn")
    answers = spawn.Queue()
    child = spawn.Process(target=_ipc_child, args=(handle, answers))
    child.start()
    answer = answers.get(timeout=45)
    child.join()
    assert answer == 499500, answer
    return "another process summed the array"


def _ipc_child(handle, answers):
    try:
        with handle as array:
            answers.put(int(array.copy_to_host().sum()))
    except Exception as error:
        answers.put(repr(error))


# -------------------------------------------------------------------------- ONNX Runtime

@item
def onnxruntime_own():
    return onnx_program({"device_id": "0"})[0]


@item
def onnxruntime_vram():
    load("onnxruntime")
    import vram.onnxruntime
    options = vram.onnxruntime.provider_options()
    result, session = onnx_program(options)
    tags = {row["name"]: row for row in vram.shared_pool("cuda").device.tags()}
    assert tags["onnxruntime"]["allocs"] > 10, tags
    vram.kept = session  # and it ends with the interpreter
    return result


# ------------------------------------------------------------------------- one pool

@item
def one_pool():
    """CuPy and Numba in turns: what one frees serves the other."""
    os.environ["NUMBA_CUDA_MEMORY_MANAGER"] = "vram.numba"
    cupy, cuda, numpy = load("cupy"), load("numba.cuda"), load("numpy")
    import vram.cupy
    vram.cupy.enable()
    pool = vram.shared_pool("cuda")
    live = 0
    for step in range(20):
        size = (512 + 32 * (step % 5)) << 20
        if step % 2:
            block = cuda.device_array(size, dtype=numpy.uint8)
        else:
            block = cupy.empty(size, dtype="uint8")
        live = max(live, size)
        cupy.cuda.runtime.deviceSynchronize()
        del block
    held = pool.stats()["peak_reserved_bytes"]
    assert held <= 1.02 * live + (4 << 20), (held, live)
    tags = {row["name"] for row in pool.device.tags()}
    assert {"cupy", "numba"} <= tags, tags
    return f"held {held / live:.3f} of the most that lived"


# --------------------------------------------------------------------- the parent

PAIRS = (("cupy-own", "cupy-vram"), ("numba-own", "numba-vram"), ("onnxruntime-own", "onnxruntime-vram"))


def child(name):
    try:
        print("ok: " + str(ITEMS[name]()), flush=True)
        return 0
    except Skip as why:
        print(f"not run: {why}", flush=True)
        return 0


def start(name):
    environment = dict(os.environ, PYTHONDONTWRITEBYTECODE="1", PYTHONFAULTHANDLER="1", PYTHONUNBUFFERED="1",
                       PYTHONPATH=os.pathsep.join(filter(None, (os.path.dirname(HERE), os.environ.get("PYTHONPATH")))))
    return subprocess.Popen([sys.executable, os.path.abspath(__file__), "--child", name], env=environment,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            start_new_session=True)


def result_of(process):
    """(whether it passed, what it said): its last line, and on failure the end of its errors."""
    try:
        out, error = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        out, error = process.communicate()
        return False, f"FAILED: ran past {SECONDS} s\n{error[-1500:]}"
    lines = [line for line in out.splitlines() if line.startswith(("ok: ", "not run: "))]
    if process.returncode != 0 or not lines:
        return False, f"FAILED: exit code {process.returncode}\n{(out + error)[-1500:]}"
    return True, lines[-1]


def main():
    names = sys.argv[1:] or list(ITEMS)
    unknown = [name for name in names if name not in ITEMS]
    if unknown:
        print(f"device_test.py: there is no item {', '.join(unknown)}; there are {', '.join(ITEMS)}", file=sys.stderr)
        return 2
    said, failed, begin = {}, 0, time.monotonic()
    alone = [name for name in names if name.endswith("-speed")]
    waiting, running = [name for name in names if name not in alone], []
    while waiting or running:
        while waiting and len(running) < 4:
            running.append((waiting[0], start(waiting.pop(0))))
        name, process = running.pop(0)
        said[name] = result_of(process)
        print(f"{name:26} {said[name][1]}", flush=True)
        failed += not said[name][0]
    for name in alone:
        said[name] = result_of(start(name))
        print(f"{name:26} {said[name][1]}", flush=True)
        failed += not said[name][0]
    for own, ours in PAIRS:
        if own in said and ours in said and said[own][1].startswith("ok") and said[ours][1].startswith("ok"):
            same = said[own][1] == said[ours][1]
            failed += not same
            print(f"{own} = {ours}: {'the same bits' if same else 'FAILED: other results'}")
    run = sum(text.startswith("ok") for _, text in said.values())
    print(f"{run} of {len(said)} items passed, {sum(t.startswith('not') for _, t in said.values())} not run, "
          f"{failed} failed, {time.monotonic() - begin:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        sys.exit(child(sys.argv[2]))
    sys.exit(main())
