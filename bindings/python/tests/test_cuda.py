# SPDX-License-Identifier: Apache-2.0
"""What only memory of a CUDA device has, on the tests' fake driver, which VRAM_CUDA_LIBRARY names."""
import ctypes
import gc
import os
import sys
import threading
import types
import unittest
from unittest import mock

import vram
from vram import dlpack
from vram._streams import PER_THREAD, DevicePools

from .test_adapters import Stream, fake_cupy, fake_numba

FAKE = os.environ.get("VRAM_CUDA_LIBRARY", "")


@unittest.skipUnless("fake" in FAKE, "no fake driver: VRAM_CUDA_LIBRARY")
class Cuda(unittest.TestCase):
    def setUp(self):
        self.context = vram.Context(backends="cuda")
        self.device = self.context.device("cuda")
        self.pool, self.queue = self.device.pool(), self.device.queue()

    def tearDown(self):
        self.context.close()

    def test_the_cuda_array_interface(self):
        buffer = self.pool.buffer(shape=(4, 5), dtype="float32", queue=self.queue)
        found = buffer.__cuda_array_interface__
        self.assertEqual((found["version"], found["shape"], found["typestr"]), (3, (4, 5), "<f4"))
        self.assertEqual(found["data"], (buffer.address, False))
        self.assertEqual(found["stream"], self.queue.native)
        self.assertIsNone(self.pool.buffer(4).__cuda_array_interface__["stream"])
        with self.assertRaises(AttributeError):
            self.pool.buffer(4, kind="pinned").__cuda_array_interface__

    def test_dlpack_of_each_kind(self):
        wanted = {"device": (dlpack.CUDA, 0), "pinned": (dlpack.CUDA_HOST, 0), "managed": (dlpack.CUDA_MANAGED, 0)}
        for kind, device in wanted.items():
            with self.subTest(kind=kind):
                self.assertEqual(self.pool.buffer(8, kind=kind).__dlpack_device__(), device)
        pinned = self.pool.buffer(8, kind="pinned")
        pinned.__dlpack__(dl_device=(dlpack.CPU, 0))

    def test_device_memory_out_and_in(self):
        for stream in (None, -1, 1, 2, self.queue.native):
            buffer = self.pool.buffer(shape=(3, 4), dtype="int32", queue=self.queue)
            where = buffer.address
            taken = dlpack._Taken(type("Tensor", (), {
                "__dlpack_device__": buffer.__dlpack_device__,
                "__dlpack__": lambda self, stream=None, of=buffer, at=stream: of.__dlpack__(stream=at)})())
            buffer.close()
            self.assertEqual(taken.managed.tensor.data, where)
            self.assertEqual(self.pool.stats()["live_blocks"], 1)
            del taken, buffer
            gc.collect()
            self.assertEqual(self.pool.stats()["live_blocks"], 0)

    def test_numba_goes_on_after_a_reset(self):
        with mock.patch.dict(sys.modules, fake_numba()):
            import vram.numba as adapter
            self.addCleanup(sys.modules.pop, "vram.numba", None)
            managers = []
            for device in (types.SimpleNamespace(id=0), 0):  # Numba's own context; one that others made
                context = type("Context", (), {"device": device})()
                managers.append(adapter._numba_memory_manager(context=context))
                managers[-1].initialize()
                managers[-1].memalloc(40)
                before = adapter._device(0)
                ctypes.CDLL(FAKE).cuDevicePrimaryCtxReset_v2(0)  # as numba.cuda.close() does
            managers[0].initialize()  # keeps what it has
            self.assertIs(adapter._device(0), before)
            again = adapter._numba_memory_manager(context=context)
            again.initialize()
            self.assertIsNot(adapter._device(0), before)
            block = again.memalloc(1 << 20)
            adapter._device(0).device.queue().wait()
            del block

    def test_a_released_tensor_leaves_nothing_on_its_stream(self):
        called, plain = [], vram._library.lib.plain

        def noted(name):
            return lambda *arguments: called.append((name, plain(name)(*arguments))) or called[-1][1]

        for stream, wanted in ((1, ["vram_queue_shared", "vram_buffer_use"]),
                               (self.queue.native, ["vram_queue_adopt", "vram_queue_end"])):
            with mock.patch.object(dlpack.lib, "plain", noted):
                capsule = self.pool.buffer(4096, queue=self.queue).__dlpack__(stream=stream)
                del capsule
            names = [name for name, status in called if status == 0 and name in wanted]
            self.assertEqual(names, wanted)  # a stream that may be destroyed next is not kept
            called.clear()

    def test_each_thread_has_a_queue_for_its_default_stream(self):
        pool = DevicePools("threads")[0]
        block, mine = pool.alloc_on(PER_THREAD, None, 1 << 20)
        seen = {mine}

        def use():
            freed, kept = (pool.alloc_on(PER_THREAD, None, 1 << 20) for _ in range(2))
            seen.add(freed[1])
            found.append(kept)
            assert freed[1] == kept[1] and pool.free(*freed)

        for count in range(2, 12):
            found = []
            thread = threading.Thread(target=use)
            thread.start()
            thread.join()
            self.assertEqual(len(seen), count)
            self.assertTrue(pool.free(*found[0]))  # its queue may have ended by now
        self.assertEqual(pool.queue(PER_THREAD), mine)
        self.assertTrue(pool.free(block, mine))
        self.assertEqual(vram.shared_device("cuda").tags()[0]["live_blocks"], 0)

    def test_memory_of_a_stream_that_cannot_be_asked_is_not_used_again(self):
        plain = vram._library.lib.plain
        for refused in ("vram_queue_adopt", "vram_buffer_use"):
            stream = self.queue.native if refused == "vram_queue_adopt" else 2
            buffer = self.pool.buffer("4MiB", queue=self.queue)
            where = buffer.address
            with mock.patch.object(dlpack.lib, "plain",
                                   lambda name: (lambda *_: -1) if name == refused else plain(name)):
                capsule = buffer.__dlpack__(stream=stream)
                buffer.close()
                del capsule
            self.assertNotIn(where, [self.pool.alloc("4MiB", self.queue) for _ in range(4)])

    def test_foreign_memory_outlives_the_work_on_it(self):
        mine = self.pool.buffer("64MiB", queue=self.queue)
        other = vram.from_dlpack(mine, self.device.pool())
        with self.device.queue() as side, self.device.queue() as reader:
            for value in range(1, 9):
                side.fill(other, value)
            other.close()  # from here on the other library may use the memory again
            found = bytes(reader.download(mine, nbytes=4, offset=(64 << 20) - 4).wait())
        self.assertEqual(found, b"\x08" * 4)

    def test_a_buffer_over_foreign_device_memory(self):
        mine = self.pool.buffer(shape=(16,), dtype="uint8", queue=self.queue)
        mine.write(bytes(range(16)))
        other = vram.from_dlpack(mine, self.device.pool())
        self.assertEqual(bytes(self.queue.download(other).wait()), bytes(range(16)))
        with vram.Context(backends="host") as context, context.device() as device, device.pool() as pool:
            with self.assertRaises(vram.InvalidError):
                vram.from_dlpack(mine, pool)

    def test_copies_of_buffers_without_a_queue(self):
        mine = self.pool.buffer(shape=(4,), dtype="int32", queue=self.queue)
        mine.write(bytes(range(16)))
        with vram.from_dlpack(mine, self.pool) as other:  # has no queue of its own
            self.assertEqual(other.read(), bytes(range(16)))
            other.write(b"ab", offset=1)
        self.assertEqual(mine.read()[:4], b"\0ab\3")
        self.assertIsNone(self.device._copy_queue().native)  # the default stream

    def test_adopted_and_shared_queues(self):
        with self.device.adopt(self.queue.native) as adopted:
            self.pool.free(self.pool.alloc(1000, adopted), adopted)
        device = vram.shared_device("cuda")
        first, second = vram.shared_queue(device, 0), vram.shared_queue(device, 0)
        self.assertEqual(first.handle, second.handle)
        pool = vram.shared_pool("cuda")
        pool.free(pool.alloc(1000, first), second)

    def test_the_functions_for_onnx_runtime(self):
        import vram.onnxruntime as adapter
        options = adapter.provider_options()
        block = adapter._ALLOC(int(options["gpu_external_alloc"]))(1 << 20)
        tags = {row["name"]: row for row in vram.shared_device("cuda").tags()}
        self.assertEqual(tags["onnxruntime"]["live_blocks"], 1)
        adapter._FREE(int(options["gpu_external_free"]))(block)
        self.assertGreater(ctypes.c_uint64(block).value, 0)


def driver(name, *arguments):
    """A call that succeeds, on the driver that libvram has loaded."""
    code = getattr(ctypes.CDLL(FAKE), name)(*arguments)
    if code != 0:
        raise RuntimeError(f"{name}: {code}")


class CapturedStream(Stream):
    """A stream of the driver's, as CuPy's are."""

    def __init__(self):
        made = ctypes.c_void_p()
        driver("cuStreamCreateWithPriority", ctypes.byref(made), 0, 0)
        super().__init__(made.value)

    def begin_capture(self):
        driver("cuStreamBeginCapture_v2", ctypes.c_void_p(self.ptr), 2)

    def is_capturing(self):
        status = ctypes.c_int()
        driver("cuStreamIsCapturing", ctypes.c_void_p(self.ptr), ctypes.byref(status))
        return status.value != 0

    def end_capture(self):
        graph, ready = ctypes.c_void_p(), ctypes.c_void_p()
        driver("cuStreamEndCapture", ctypes.c_void_p(self.ptr), ctypes.byref(graph))
        driver("cuGraphInstantiateWithFlags", ctypes.byref(ready), graph, ctypes.c_uint64(0))
        driver("cuGraphDestroy", graph)
        return ready

    def fill(self, memory, value):
        driver("cuMemsetD8Async", ctypes.c_uint64(memory.ptr), value, ctypes.c_size_t(SIZE), ctypes.c_void_p(self.ptr))


SIZE = 3 << 20


@unittest.skipUnless("fake" in FAKE, "no fake driver: VRAM_CUDA_LIBRARY")
class Graphs(unittest.TestCase):
    """What CuPy's graphs use is nobody else's while they live: contents decide."""

    def setUp(self):
        self.context = ctypes.c_void_p()
        driver("cuInit", 0)
        driver("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), 0)
        driver("cuCtxPushCurrent_v2", self.context)
        self.cupy, CapturedStream.null = fake_cupy(), Stream(0)
        self.cuda = self.cupy.cuda
        self.cuda.Stream = CapturedStream
        sys.modules["cupy"] = self.cupy
        import vram.cupy
        self.adapter = vram.cupy
        self.adapter.enable(_backend="cuda")
        self.captures = self.adapter._enabled.captures

    def tearDown(self):
        self.cuda.stream = CapturedStream.null
        self.captures.release()
        self.adapter.disable()
        del sys.modules["cupy"]
        driver("cuCtxPopCurrent_v2", ctypes.byref(self.context))

    def on(self, stream):
        self.cuda.stream = stream
        return stream

    def assert_launches_touch_nobody(self, graph, stream):
        """Twenty arrays of the default stream keep what they contain."""
        self.on(CapturedStream.null)
        arrays = [self.cuda.alloc(SIZE) for _ in range(20)]
        for array in arrays:
            driver("cuMemsetD8Async", ctypes.c_uint64(array.ptr), 1, ctypes.c_size_t(SIZE), None)
        driver("cuStreamSynchronize", None)
        driver("cuGraphLaunch", graph, ctypes.c_void_p(stream.ptr))
        driver("cuStreamSynchronize", ctypes.c_void_p(stream.ptr))
        for array in arrays:
            found = ctypes.create_string_buffer(SIZE)
            driver("cuMemcpyDtoH_v2", found, ctypes.c_uint64(array.ptr), ctypes.c_size_t(SIZE))
            self.assertEqual(found.raw, b"\1" * SIZE)

    def test_the_first_allocation_of_a_stream_is_in_its_capture(self):
        stream = self.on(CapturedStream())
        stream.begin_capture()
        array = self.cuda.alloc(SIZE)
        stream.fill(array, 9)
        del array  # in the capture
        array = self.cuda.alloc(SIZE)
        stream.fill(array, 9)
        graph = stream.end_capture()
        del array  # after it
        self.assert_launches_touch_nobody(graph, stream)
        self.assertEqual(self.captures.release(), 0)
        driver("cuGraphExecDestroy", graph)
        self.assertEqual((self.captures.release(), self.captures.release()), (1, 0))

    def test_what_was_there_before_and_a_stream_that_joined(self):
        stream, other = CapturedStream(), CapturedStream()
        self.on(stream)
        array = self.cuda.alloc(SIZE)
        for _ in range(3):  # from C, where there is C
            del array
            array = self.cuda.alloc(SIZE)
        stream.begin_capture()
        stream.fill(array, 9)
        del array
        self.on(other)
        other.is_capturing = lambda: stream.is_capturing()  # the fake driver's streams do not join
        array = self.cuda.alloc(SIZE)
        stream.fill(array, 9)
        del array
        graph = stream.end_capture()
        self.assert_launches_touch_nobody(graph, stream)
        self.assertIsNone(self.captures.region(other))
        driver("cuGraphExecDestroy", graph)

    def test_the_next_capture_has_the_memory_of_a_graph_that_is_gone(self):
        stream = self.on(CapturedStream())
        seen, kept = set(), []
        for _ in range(4):
            stream.begin_capture()
            array = self.cuda.alloc(SIZE)
            stream.fill(array, 9)
            seen.add(array.ptr)
            del array
            driver("cuGraphExecDestroy", stream.end_capture())
        self.assertEqual(len(seen), 1)
        stream.begin_capture()
        kept.append(self.cuda.alloc(SIZE))
        graph = stream.end_capture()
        driver("cuGraphExecDestroy", graph)
        self.assertEqual(self.captures.release(), 1)
        kept.clear()  # its region has ended: in the order of its stream
        self.assertEqual(self.adapter.stats()["cupy"]["live_blocks"], 0)

    def test_a_capture_that_fails_and_a_wait_for_the_device(self):
        stream = self.on(CapturedStream())
        outside = self.on(type("ExternalStream", (Stream,), {})(0x7000))
        block = self.cuda.alloc(SIZE)
        del block
        self.on(stream)
        stream.begin_capture()
        self.cuda.alloc(SIZE)
        with self.assertRaises(vram.CaptureError):
            self.adapter.empty_cache()
        self.assertEqual((self.cuda.settled, stream.is_capturing()), ([], True))
        with self.assertRaises(RuntimeError):
            driver("cuStreamQuery", ctypes.c_void_p(stream.ptr))  # spoils it
        with self.assertRaises(RuntimeError):
            stream.end_capture()
        self.assertEqual(self.captures.release(), 1)
        self.assertGreaterEqual(self.adapter.empty_cache(), SIZE)
        self.assertEqual(self.cuda.settled, [0])
        del outside

    def test_a_capture_that_ends_unseen(self):
        stream = self.on(CapturedStream())
        held = [cell.cell_contents for cell in CapturedStream.end_capture.__closure__]
        unseen = next(each for each in held if getattr(each, "__name__", "") == "end_capture")
        stream.begin_capture()
        stream.fill(self.cuda.alloc(SIZE), 9)
        graph = unseen(stream)  # as cupy.cuda.runtime.streamEndCapture
        self.cuda.alloc(SIZE)
        self.assertFalse(self.captures.open())
        self.assert_launches_touch_nobody(graph, stream)
        driver("cuGraphExecDestroy", graph)
        self.captures._regions[-1].life = None  # nobody says that its graph is gone

    def test_disable_leaves_streams_as_they_were(self):
        changed = CapturedStream.begin_capture
        self.adapter.disable()
        self.assertIsNot(CapturedStream.begin_capture, changed)
        self.adapter.enable(_backend="cuda")
        stream = self.on(CapturedStream())
        stream.begin_capture()
        stream.fill(self.cuda.alloc(SIZE), 9)
        self.adapter.disable()  # in the capture
        self.assertFalse(self.captures.open())
        graph = stream.end_capture()
        self.adapter.enable(_backend="cuda")
        self.assert_launches_touch_nobody(graph, stream)
        self.assertEqual(self.captures.release(), 0)
        driver("cuGraphExecDestroy", graph)
        self.assertEqual(self.captures.release(), 1)


if __name__ == "__main__":
    unittest.main()
