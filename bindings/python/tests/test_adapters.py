# SPDX-License-Identifier: Apache-2.0
"""The adapters with stand-ins for the libraries that they serve, on a simulated device. What they do with the real ones
tests/device_test.py shows, on a machine with a GPU."""
import ctypes
import gc
import sys
import threading
import types
import unittest
import weakref

import vram
from vram._streams import STREAMS_MAX, DevicePools


def setUpModule():
    vram.set_option("sim", "memory=512M")


def tearDownModule():
    vram.set_option("sim", None)


class Stream:
    def __init__(self, ptr):
        self.ptr, self.device_id, self.capturing = ptr, 0, False

    def is_capturing(self):
        return self.capturing


class ExternalStream(Stream):
    """One that CuPy did not make: whoever did may destroy it at any time."""


def fake_cupy():
    """As much of CuPy as the adapter uses."""
    cupy, cuda, memory = types.ModuleType("cupy"), types.ModuleType("cupy.cuda"), types.ModuleType("cupy.cuda.memory")

    class OutOfMemoryError(MemoryError):
        def __init__(self, size, total, limit=0):
            super().__init__(f"Out of memory allocating {size:,} bytes")
            self.size, self.total = size, total

    class Memory:
        def __init__(self, size, malloc, free):
            self.device, self._free = cuda.device, free
            self.ptr = (malloc(size, cuda.device) or 0) if size else 0

        def __del__(self):
            if getattr(self, "ptr", 0):
                self._free(self.ptr, self.device)

    class PythonFunctionAllocator:
        def __init__(self, malloc, free):
            self.functions = malloc, free

        def malloc(self, size):
            cuda.through_python += 1
            return Memory(size, *self.functions)

    class CFunctionAllocator:
        def __init__(self, param, malloc, free, owner):
            c_malloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)(malloc)
            c_free = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)(free)
            self.functions = (lambda size, device: c_malloc(param, size, device),
                              lambda block, device: c_free(param, block, device))
            self.owner = owner

        def malloc(self, size):
            return Memory(size, *self.functions)

    class PinnedMemoryPointer:
        def __init__(self, mem, offset):
            self.mem, self.ptr = mem, mem.ptr + offset

    cupy.cuda, cuda.memory = cuda, memory
    memory.OutOfMemoryError = OutOfMemoryError
    cuda.PythonFunctionAllocator, cuda.PinnedMemoryPointer = PythonFunctionAllocator, PinnedMemoryPointer
    cuda.CFunctionAllocator = CFunctionAllocator
    cuda.Stream, Stream.null = Stream, Stream(0)
    cuda.stream, cuda.device, cuda.through_python = Stream.null, 0, 0
    cuda.settled = []  # devices that were waited for
    cuda.Device = lambda index: types.SimpleNamespace(synchronize=lambda: cuda.settled.append(index))
    cuda.get_current_stream = lambda device=-1: cuda.stream
    cuda.set_allocator = lambda call: setattr(cuda, "alloc", call)
    cuda.set_pinned_memory_allocator = lambda call: setattr(cuda, "alloc_pinned_memory", call)
    own = types.SimpleNamespace(malloc="CuPy's own")
    cupy.get_default_memory_pool = cupy.get_default_pinned_memory_pool = lambda: own
    return cupy


class CuPy(unittest.TestCase):
    """Through the functions in C, where they were built."""

    def setUp(self):
        self.cupy = fake_cupy()
        self.prepare()
        sys.modules["cupy"] = self.cupy
        import vram.cupy
        self.adapter = vram.cupy
        self.adapter.enable(_backend="sim")
        self.in_c = self.adapter._enabled._streams is not None

    def prepare(self):
        pass

    def tearDown(self):
        self.adapter.disable()
        for external in self.adapter._made._external.values():
            external.forget()
        del sys.modules["cupy"]

    def test_memory_comes_from_the_shared_pool(self):
        cuda = self.cupy.cuda
        memory = cuda.alloc(1 << 20)
        self.assertEqual(self.adapter.stats()["cupy"]["requested_bytes"], 1 << 20)
        cuda.stream = Stream(0x1000)
        other = cuda.alloc(1 << 20)
        self.assertNotEqual(memory.ptr, other.ptr)
        where = other.ptr
        del other
        self.assertEqual(cuda.alloc(1 << 20).ptr, where)  # freed in stream order, and reused at once
        del memory
        gc.collect()
        self.assertEqual(self.adapter.stats()["cupy"]["live_blocks"], 0)

    def test_what_the_pool_holds_is_handed_out_in_c(self):
        if not self.in_c:
            self.skipTest("there is no libvram_cupy.so beside libvram")
        cuda = self.cupy.cuda
        cuda.stream = Stream(0x2000)
        kept = cuda.alloc(3 << 20)
        self.assertEqual(cuda.through_python, 1)
        del kept
        for _ in range(50):
            cuda.alloc(3 << 20)
        self.assertEqual(cuda.through_python, 1)
        self.assertEqual(cuda.alloc(0).ptr, 0)
        live = cuda.alloc(3 << 20)
        pool = self.adapter._enabled._pools[0]
        vram._library.lib.plain("vram_queue_end")(pool._queues.pop(0x2000)[0])  # as when 64 other streams came
        del live  # its queue has ended
        self.assertEqual(self.adapter.stats()["cupy"]["live_blocks"], 0)
        before = cuda.through_python
        for _ in range(5):
            cuda.alloc(3 << 20)  # the first one adopts the stream again
        self.assertEqual(cuda.through_python, before + 1)

    def test_another_device_on_the_same_stream(self):
        if not self.in_c:
            self.skipTest("there is no libvram_cupy.so beside libvram")
        cuda = self.cupy.cuda
        first = cuda.alloc(1 << 20)
        before = cuda.through_python
        cuda.device = 7  # there is none
        with self.assertRaises(vram.NoDeviceError):
            cuda.alloc(1 << 20)
        self.assertEqual(cuda.through_python, before + 1)
        cuda.device = 0
        del first
        self.assertTrue(cuda.alloc(1 << 20).ptr)
        self.assertEqual(cuda.through_python, before + 1)

    def test_exhaustion_is_cupys_own_exception(self):
        held = self.cupy.cuda.alloc(300 << 20)
        with self.assertRaises(self.cupy.cuda.memory.OutOfMemoryError) as caught:
            self.cupy.cuda.alloc(300 << 20)
        self.assertGreaterEqual(caught.exception.total, 300 << 20)
        self.assertEqual(caught.exception.__cause__.report["schema"], "vram.oom/1")
        del held
        self.cupy.cuda.alloc(300 << 20)

    def test_pinned_memory(self):
        pointer = self.cupy.cuda.alloc_pinned_memory(1000)
        ctypes.memset(pointer.ptr, 7, 1000)
        self.assertEqual(int(pointer.mem), pointer.ptr)
        self.assertEqual(self.cupy.cuda.alloc_pinned_memory(0).ptr, 0)

    def test_twice_and_back(self):
        self.adapter.enable(_backend="sim")
        kept = self.cupy.cuda.alloc(100)
        self.adapter.disable()
        self.adapter.disable()
        self.assertEqual(self.cupy.cuda.alloc, "CuPy's own")
        with self.assertRaises(vram.Error):
            self.adapter.stats()
        del kept  # freed into the pool that it came from

    def test_functions_in_c_do_not_mix_default_streams_of_threads(self):
        self.cupy.cuda.stream = Stream(2)
        for through_python in (1, 2):  # one record would serve all threads
            kept = self.cupy.cuda.alloc(100)
            self.assertEqual(self.cupy.cuda.through_python, through_python)
        del kept
        self.assertEqual(self.adapter.stats()["cupy"]["live_blocks"], 0)

    def test_streams_that_cupy_did_not_make_are_never_adopted(self):
        cuda = self.cupy.cuda
        pool = self.adapter._enabled._pools[0]
        foreign = Stream(0x7100)
        foreign._foreign_stream_ref = object()  # Stream.from_external
        for stream in (ExternalStream(0x7000), foreign):
            cuda.stream = stream
            block = cuda.alloc(100 << 20)
            where = block.ptr
            self.assertNotIn(stream.ptr, pool._queues)
            cuda.stream = Stream(0)
            del block  # its stream may be gone
            self.assertNotEqual(cuda.alloc(100 << 20).ptr, where)  # work of the stream may still use it
            cuda.stream = stream
            for size in (100 << 20, (100 << 20) - 1):
                self.assertEqual(cuda.alloc(size).ptr, where)
        self.assertEqual(cuda.settled, [])
        cuda.stream = Stream(0)
        cuda.alloc(400 << 20)  # does not fit beside them
        self.assertEqual(cuda.settled, [0])
        self.assertEqual(self.adapter.stats()["cupy"]["live_blocks"], 0)

    def test_a_handle_used_again_is_another_external_stream(self):
        cuda, numbers = self.cupy.cuda, iter((7, 7, 8))  # the driver's, of each call
        self.adapter._enabled._number = lambda stream: next(numbers)
        cuda.stream = ExternalStream(0x7000)
        first = cuda.alloc(1 << 20)
        where = first.ptr
        del first
        again = cuda.alloc(1 << 20)
        self.assertEqual(again.ptr, where)
        del again  # and the stream is destroyed: its work may still use the block
        self.assertNotEqual(cuda.alloc(1 << 20).ptr, where)

    def test_what_external_streams_freed_is_given_back(self):
        cuda = self.cupy.cuda
        cuda.stream = ExternalStream(0x7200)
        kept, block = cuda.alloc(1000), cuda.alloc(1 << 20)
        del block
        self.assertEqual(self.adapter.stats()["cupy"]["live_blocks"], 2)

        def broken(index):
            raise RuntimeError("a stream is being captured")

        working, cuda.Device = cuda.Device, broken
        with self.assertRaises(RuntimeError):
            self.adapter.empty_cache()
        cuda.Device = working
        self.assertEqual((self.adapter.empty_cache(), self.adapter.empty_cache()), (1 << 20, 0))
        block = cuda.alloc(1 << 20)
        del block
        device = vram.shared_device("sim")
        self.adapter.disable()  # gives back what is free
        tag = [row for row in device.tags() if row["name"] == "cupy"][0]
        self.assertEqual(tag["live_blocks"], 1)
        del kept
        self.assertEqual(self.adapter.empty_cache(), 1024)
        tag = [row for row in device.tags() if row["name"] == "cupy"][0]
        self.assertEqual((tag["live_blocks"], cuda.settled), (0, [0, 0, 0]))

    def test_a_quota_counts_what_external_streams_freed_last(self):
        cuda, device = self.cupy.cuda, vram.shared_device("sim")
        cuda.stream = ExternalStream(0x7300)
        block = cuda.alloc(6 << 20)
        del block
        device.set_quota("cupy", hard="8MiB")
        try:
            for stream in (ExternalStream(0x7340), Stream(0x7380)):
                cuda.stream = stream
                block = cuda.alloc(6 << 20)
                with self.assertRaises(self.cupy.cuda.memory.OutOfMemoryError):
                    cuda.alloc(6 << 20)
                del block
        finally:
            device.set_quota("cupy", hard=0)

    def test_streams_with_live_blocks_are_kept(self):
        cuda = self.cupy.cuda
        pool = self.adapter._enabled._pools[0]
        cuda.stream = Stream(0x80000)
        cuda.alloc(1 << 20)
        live = [cuda.alloc(1 << 20), cuda.alloc(1 << 20)]  # one by each way, if there are two
        before = pool._queues[0x80000][0]
        for number in range(2 * STREAMS_MAX):
            cuda.stream = Stream(0x90000 + 64 * number)
            cuda.alloc(1 << 20)
        self.assertEqual(len(pool._queues), STREAMS_MAX)
        self.assertEqual(pool._queues[0x80000][0], before)  # work of the stream may use the blocks until they are freed
        del live[0]
        for number in range(STREAMS_MAX):
            cuda.stream = Stream(0xa0000 + 64 * number)
            cuda.alloc(1 << 20)
        self.assertEqual(pool._queues[0x80000][0], before)
        live.clear()
        cuda.stream = Stream(0xb0000)
        cuda.alloc(1 << 20)
        self.assertNotIn(0x80000, pool._queues)

    def test_streams_are_kept_after_disable(self):
        cuda = self.cupy.cuda
        stream = cuda.stream = Stream(0x7500)
        cuda.alloc(1 << 20)
        kept = weakref.ref(stream)
        cuda.stream = Stream(0)
        self.adapter.disable()
        del stream
        gc.collect()
        self.assertIsNotNone(kept())  # the pool may ask it what it has finished
        self.adapter.enable(_backend="sim")
        self.assertIn(0x7500, self.adapter._enabled._pools[0]._queues)

    def test_external_names_of_streams_that_last(self):
        cuda = self.cupy.cuda
        pool = self.adapter._enabled._pools[0]
        for number in (0, 0x7300):
            cuda.stream = Stream(number)
            block = cuda.alloc(1 << 20)
            where = block.ptr
            del block
            cuda.stream = ExternalStream(number)
            self.assertEqual(cuda.alloc(1 << 20).ptr, where)
            self.assertIn(number, pool._queues)
        self.assertEqual(self.adapter.empty_cache(), 0)

    def test_a_queue_that_another_user_of_the_stream_ended(self):
        cuda = self.cupy.cuda
        cuda.stream = Stream(0x7400)
        block = cuda.alloc(1 << 20)
        queue = self.adapter._enabled._pools[0].queue(0x7400)
        self.assertEqual(vram._library.lib.plain("vram_queue_end")(queue), 0)
        self.assertTrue(cuda.alloc(1 << 20).ptr)
        del block
        self.assertEqual(self.adapter.stats()["cupy"]["live_blocks"], 0)

    def test_threads(self):
        errors = []

        def work():
            try:
                for size in range(1, 200):
                    self.cupy.cuda.alloc(size * 512)
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(errors, [])


class CuPyInPython(CuPy):
    """A CuPy, or a libvram, without the functions in C."""

    def prepare(self):
        del self.cupy.cuda.CFunctionAllocator


class Streams(unittest.TestCase):
    def test_old_streams_are_let_go(self):
        pool = DevicePools("test", "sim")[0]
        streams = [Stream(0x10000 + 64 * i) for i in range(STREAMS_MAX + 10)]
        seen = [weakref.ref(each) for each in streams]
        first = pool.queue(streams[0].ptr, streams[0])
        block = pool.alloc(1000, first)
        for each in streams:
            pool.queue(each.ptr, each)
        del streams, each
        gc.collect()
        self.assertEqual(sum(ref() is not None for ref in seen), STREAMS_MAX)
        self.assertTrue(pool.free(block, first))  # its queue has ended
        self.assertFalse(pool.free(block, first))

    def test_a_device_that_is_not_there(self):
        with self.assertRaises(vram.NoDeviceError):
            DevicePools("test", "sim")[99]
        with self.assertRaises(vram.NoDeviceError):
            vram.shared_device("sim", -1)
        with self.assertRaises(vram.InvalidError):
            vram.shared_device("nvidia")


def fake_numba():
    """As much of numba.cuda as the plug-in uses."""
    numba, cuda = types.ModuleType("numba"), types.ModuleType("numba.cuda")
    cudadrv, driver = types.ModuleType("numba.cuda.cudadrv"), types.ModuleType("numba.cuda.cudadrv.driver")

    class CudaAPIError(Exception):
        def __init__(self, code, message):
            super().__init__(code, message)
            self.code = code

    class HostOnlyCUDAMemoryManager:
        def __init__(self, *arguments, context):
            self.context, self.allocations = context, {}
            self.deallocations = types.SimpleNamespace(clear=lambda: None, memory_capacity=0)

        def memhostalloc(self, size, mapped, portable, wc):
            return "Numba's own"

    class GetIpcHandleMixin:
        def get_ipc_handle(self, memory):
            return "handle"

    class MemoryPointer:
        def __init__(self, context, pointer, size, owner=None, finalizer=None):
            self.pointer, self.size = pointer, size
            weakref.finalize(self, finalizer)

        def own(self):
            return self

    driver.CudaAPIError = CudaAPIError
    cuda.HostOnlyCUDAMemoryManager, cuda.GetIpcHandleMixin = HostOnlyCUDAMemoryManager, GetIpcHandleMixin
    cuda.MemoryPointer = cuda.PinnedMemory = cuda.MappedMemory = MemoryPointer
    cuda.MemoryInfo = lambda free, total: types.SimpleNamespace(free=free, total=total)
    numba.cuda = cuda
    return {"numba": numba, "numba.cuda": cuda, "numba.cuda.cudadrv": cudadrv, "numba.cuda.cudadrv.driver": driver}


class Numba(unittest.TestCase):
    def setUp(self):
        self.modules = fake_numba()
        sys.modules.update(self.modules)
        sys.modules.pop("vram.numba", None)
        import vram.numba
        self.adapter = vram.numba
        self.adapter._pools = DevicePools("numba", "sim")
        self.adapter._devices.clear()
        self.context = types.SimpleNamespace(device=types.SimpleNamespace(id=0))
        self.context_class = type("Context", (), {"device": self.context.device})()
        self.manager = self.adapter._numba_memory_manager(context=self.context_class)

    def tearDown(self):
        for name in list(self.modules) + ["vram.numba"]:
            sys.modules.pop(name, None)

    def test_device_memory(self):
        self.manager.initialize()
        self.assertEqual(self.manager.interface_version, 1)
        memory = self.manager.memalloc(1 << 20)
        pool = self.adapter._pools[0].pool
        tag = next(row for row in pool.device.tags() if row["name"] == "numba")
        self.assertEqual((tag["requested_bytes"], memory.size), ((1 << 20) + 256, 1 << 20))
        del memory
        gc.collect()
        tag = next(row for row in pool.device.tags() if row["name"] == "numba")
        self.assertEqual(tag["live_blocks"], 1)  # what fills write
        device = self.adapter._device(0)
        self.assertTrue(device._freed)
        reserved = pool.stats()["reserved_bytes"]
        for _ in range(20):
            self.manager.memalloc(1 << 20)  # one after the other, on the same memory
        self.assertEqual(pool.stats()["reserved_bytes"], reserved)
        kept = self.manager.memalloc(1 << 20)
        self.assertEqual((kept.size, device._freed), (1 << 20, False))
        self.assertEqual(self.manager.get_memory_info().total, 512 << 20)

    def test_host_memory(self):
        for mapped in (False, True):
            memory = self.manager.memhostalloc(4096, mapped=mapped)
            ctypes.memset(memory.pointer, 1, 4096)
            self.assertEqual(len(self.manager.allocations), int(mapped))
            if mapped:
                self.manager.allocations.clear()
            del memory
            gc.collect()
        self.assertEqual(self.manager.memhostalloc(4096, wc=True), "Numba's own")

    def test_exhaustion_is_numbas_own_exception(self):
        with self.assertRaises(self.modules["numba.cuda.cudadrv.driver"].CudaAPIError) as caught:
            self.manager.memalloc(1 << 40)
        self.assertEqual(caught.exception.code, 2)
        self.assertIsInstance(caught.exception.__cause__, vram.OutOfMemoryError)

    def test_ipc_handles_need_segments(self):
        with self.assertRaises(NotImplementedError):
            self.manager.get_ipc_handle(self.manager.memalloc(100))
        self.manager._segments = True
        self.assertEqual(self.manager.get_ipc_handle(self.manager.memalloc(100)), "handle")


class OnnxRuntime(unittest.TestCase):
    def test_the_functions_allocate_and_free(self):
        import vram.onnxruntime as adapter
        options = adapter.provider_options(_backend="host")
        self.assertEqual(options, adapter.provider_options(_backend="host"))
        alloc = adapter._ALLOC(int(options["gpu_external_alloc"]))
        free = adapter._FREE(int(options["gpu_external_free"]))
        block = alloc(1 << 16)
        ctypes.memset(block, 3, 1 << 16)
        free(block)
        free(block)
        free(None)
        adapter._EMPTY(int(options["gpu_external_empty_cache"]))()
        self.assertIsNone(alloc(1 << 62))
        self.assertIsInstance(adapter.last_error(), vram.Error)
        with self.assertRaises(vram.Error):
            adapter.provider_options(5, _backend="host")


if __name__ == "__main__":
    unittest.main()
