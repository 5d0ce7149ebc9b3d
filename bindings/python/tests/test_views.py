# SPDX-License-Identifier: Apache-2.0
"""Views of host memory, mappings and DLPack: memory lives as long as whatever shows it."""
import ctypes
import gc
import sys
import unittest

import vram
from vram import dlpack

from .world import world

try:
    import numpy
except ImportError:
    numpy = None


def host_world():
    return world("host", None)


class Views(unittest.TestCase):
    def test_host_and_pinned_memory(self):
        with host_world() as (device, queue, pool):
            for kind in ("device", "pinned", "managed", "mapped"):
                with self.subTest(kind=kind), pool.buffer(shape=(4, 2), dtype="uint16", kind=kind) as buffer:
                    view = buffer.view()
                    view[:] = bytes(range(16))
                    self.assertEqual(bytes(buffer.view()), bytes(range(16)))
                    self.assertEqual(view.nbytes, 16)

    def test_pinned_pools(self):
        with vram.Context(backends="host") as context, context.device() as device:
            with device.pool("pinned") as pool, pool.buffer(8, kind="pinned") as buffer:
                buffer.view()[:3] = b"abc"
                self.assertEqual(buffer.location, "pinned")
                self.assertEqual(bytes(buffer.view()[:3]), b"abc")

    @unittest.skipIf(sys.version_info < (3, 12), "memoryview(object) of Python's own classes is new in 3.12")
    def test_memoryview_has_shape_and_type(self):
        with host_world() as (device, queue, pool):
            view = memoryview(pool.buffer(shape=(2, 3), dtype="float32"))
            self.assertEqual((view.shape, view.format), ((2, 3), "f"))
            view[1, 2] = 0.5
            self.assertEqual(memoryview(pool.buffer(0)).nbytes, 0)
            self.assertEqual(memoryview(pool.buffer(shape=(3,), dtype="float16")).nbytes, 6)

    @unittest.skipUnless(numpy, "numpy is not installed")
    def test_numpy_works_on_them(self):
        with host_world() as (device, queue, pool):
            buffer = pool.buffer(shape=(100, 10), dtype="float64", kind="pinned")
            array = numpy.asarray(buffer)
            self.assertEqual((array.shape, array.dtype), ((100, 10), numpy.float64))
            array[:] = 2.5
            self.assertEqual(numpy.asarray(buffer).sum(), 2500.0)
        self.assertEqual(array.sum(), 2500.0)  # all is closed, and the memory is there

    def test_memory_outlives_everything_that_was_closed(self):
        for close in ("buffer", "pool", "device", "context", "scope"):
            context = vram.Context(backends="host")
            device = context.device()
            pool = device.pool()
            scope = pool.scope()
            buffer = scope.buffer("1MiB") if close == "scope" else pool.buffer("1MiB")
            view = buffer.view()[10:]
            view[:3] = b"xyz"
            {"buffer": buffer, "pool": pool, "device": device, "context": context, "scope": scope}[close].close()
            with self.assertRaises(vram.StaleError):
                buffer.view()
            del buffer
            gc.collect()
            self.assertEqual(bytes(view[:3]), b"xyz")
            live = None if context.closed else context.stats()["live_blocks"]
            del view
            gc.collect()
            if live is not None and not device.closed and not pool.closed:
                self.assertEqual((live, context.stats()["live_blocks"]), (1, 0))
            context.close()

    def test_memory_of_a_view_does_not_sleep_move_or_grow(self):
        with host_world() as (device, queue, pool):
            buffer = pool.buffer("1MiB")
            view = buffer.view()
            with self.assertRaises(vram.BusyError):
                pool.sleep("host")
            with self.assertRaises(vram.BusyError):
                buffer.resize("2MiB")
            del view
            pool.sleep("drop")
            with self.assertRaises(vram.Error):
                buffer.view()
            pool.wake()
            buffer.resize("2MiB")
            self.assertEqual(len(buffer.view()), 2 << 20)

    def test_shape_type_and_kind_are_not_assigned(self):
        with host_world() as (device, queue, pool):
            buffer = pool.buffer(shape=(16,), dtype="float32", kind="pinned")
            for name, value in (("shape", (1 << 28,)), ("dtype", buffer.dtype), ("kind", "device")):
                self.assertRaises(AttributeError, setattr, buffer, name, value)
            forged = buffer.dtype._replace(itemsize=1)  # 16 bytes would be 16 floats
            self.assertEqual(pool.buffer(16, dtype=forged).shape, (4,))
            self.assertEqual(buffer.view().nbytes, 64)

    def test_memory_that_the_host_does_not_reach(self):
        with world() as (device, queue, pool):
            buffer = pool.buffer(10)
            with self.assertRaises(vram.UnsupportedError):
                buffer.view()
            with self.assertRaises(BufferError):
                buffer.__dlpack__()
            self.assertFalse(hasattr(buffer, "__array_interface__"))
            self.assertFalse(hasattr(buffer, "__cuda_array_interface__"))
            with self.assertRaises(vram.UnsupportedError):
                pool.buffer(10, kind="fallback").view()


class Mappings(unittest.TestCase):
    def test_what_is_written_is_there(self):
        for backend in ("sim", "host"):
            with self.subTest(backend=backend), world(backend) as (device, queue, pool):
                buffer = pool.buffer(16, queue=queue)
                with buffer.map("w") as view:
                    view[:] = b"0123456789abcdef"
                self.assertEqual(buffer.read(), b"0123456789abcdef")
                with buffer.map("r") as view:
                    self.assertEqual(bytes(view[4:6]), b"45")
                with self.assertRaises(ValueError):
                    view[0]
                with self.assertRaises(vram.InvalidError):
                    buffer.map("x")

    @unittest.skipUnless(numpy, "numpy is not installed")
    def test_numpy_has_the_shape_and_type_of_a_mapping(self):
        for backend in ("sim", "host"):
            with self.subTest(backend=backend), world(backend) as (device, queue, pool):
                buffer = pool.buffer(shape=(2, 3), dtype="float32", queue=queue)
                mapping = buffer.map()
                array = numpy.asarray(mapping)
                self.assertEqual((array.shape, array.dtype), ((2, 3), numpy.float32))
                array[1, 2] = 0.5
                with self.assertRaises(BufferError):
                    mapping.unmap()
                del array
                mapping.unmap()
                self.assertEqual(buffer.read(), bytes(20) + numpy.float32(0.5).tobytes())
                with self.assertRaises(vram.InvalidError):
                    numpy.asarray(mapping)

    def test_a_view_of_a_view_keeps_it_mapped(self):
        with world() as (device, queue, pool):
            buffer = pool.buffer(16, queue=queue)
            mapping = buffer.map("rw")
            with self.assertRaises(vram.BusyError):
                buffer.map("r")
            part = mapping.view[3:5]
            with self.assertRaises(BufferError):
                mapping.unmap()
            part[:] = b"ab"
            del part
            mapping.unmap()
            mapping.unmap()
            self.assertEqual(buffer.read()[3:5], b"ab")
            with self.assertRaises(vram.InvalidError):
                mapping.view

    def test_mapped_memory_does_not_sleep(self):
        for backend in ("sim", "host"):
            for kind in ("device", "fallback") + (("mapped",) if backend == "host" else ()):
                with self.subTest(backend=backend, kind=kind), world(backend) as (device, queue, pool):
                    buffer = pool.buffer(4096, kind=kind, queue=queue)
                    with buffer.map() as view:
                        if buffer.location == "device":
                            self.assertRaises(vram.BusyError, pool.sleep, "drop")
                        view[:2] = b"ok"
                    del view
                    pool.sleep("drop")
                    pool.wake()
                    with buffer.map("r"):
                        pass

    def test_a_buffer_that_is_closed_while_it_is_mapped(self):
        with world() as (device, queue, pool):
            buffer = pool.buffer(16, queue=queue)
            mapping = buffer.map("rw")
            buffer.close()
            mapping.view[:2] = b"ok"
            self.assertEqual(bytes(mapping.view[:2]), b"ok")
            mapping.unmap()
            self.assertEqual(pool.stats()["live_blocks"], 0)


class Exchange(unittest.TestCase):
    def test_a_tensor_and_back(self):
        with host_world() as (device, queue, pool):
            mine = pool.buffer(shape=(3, 4), dtype="int32", kind="pinned")
            mine.view()[:] = bytes(range(48))
            again = vram.from_dlpack(mine, pool)
            self.assertEqual((again.shape, again.dtype.name), ((3, 4), "int32"))
            self.assertEqual(bytes(again.view()), bytes(range(48)))
            mine.close()
            self.assertEqual(bytes(again.view()), bytes(range(48)))  # its tensor keeps the memory
            self.assertEqual(pool.stats()["other_bytes"] > 0, True)
            again.close()
            gc.collect()
            self.assertEqual(pool.stats()["other_bytes"], 0)

    def test_copies_of_host_memory_of_another_library(self):
        with host_world() as (device, queue, pool):
            mine = pool.buffer(8, kind="pinned")
            mine.view()[:] = b"abcdefgh"
            other = vram.from_dlpack(mine, pool)
            self.assertEqual(bytes(queue.download(other).wait()), b"abcdefgh")
            self.assertEqual(bytes(queue.download(other, nbytes=3, offset=2).wait()), b"cde")
            queue.upload(other, b"XY", 1).wait()
            self.assertEqual(bytes(mine.view()), b"aXYdefgh")
            third = pool.buffer(8, queue=queue)
            queue.copy(third, other).wait()
            self.assertEqual(third.read(), b"aXYdefgh")
            third.write(b"12345678")
            queue.copy(other, third).wait()
            self.assertEqual(bytes(mine.view()), b"12345678")
            with self.assertRaises(vram.InvalidError):
                queue.fill(other, 1)

    def test_a_tensor_that_is_deleted_after_the_interpreter(self):
        with host_world() as (device, queue, pool):
            taken = dlpack._Taken(pool.buffer(8))
            dlpack._forget_deleters()  # what the interpreter does at its exit
            self.assertEqual(taken.managed.deleter, vram._library.lib.address("vram_error_clear"))
            out = dlpack._out[taken.pointer]
            del taken
            gc.collect()
            dlpack._delete(ctypes.addressof(out[0]))

    def test_a_capsule_that_nobody_takes(self):
        with host_world() as (device, queue, pool):
            buffer = pool.buffer(8)
            out = len(dlpack._out)
            capsule = buffer.__dlpack__()
            buffer.close()
            self.assertEqual((len(dlpack._out), pool.stats()["live_blocks"]), (out + 1, 1))
            del capsule
            gc.collect()
            self.assertEqual((len(dlpack._out), pool.stats()["live_blocks"]), (out, 0))

    def test_a_consumer_that_deletes_twice(self):
        with host_world() as (device, queue, pool):
            taken = dlpack._Taken(pool.buffer(8))
            deleter, pointer = dlpack._DELETER(taken.managed.deleter), taken.pointer
            deleter(pointer)
            deleter(pointer)
            taken.managed = None

    def test_what_is_not_a_tensor(self):
        class Strided:
            def __init__(self, buffer, change):
                self.buffer, self.change = buffer, change

            def __dlpack_device__(self):
                return self.buffer.__dlpack_device__()

            def __dlpack__(self, **named):
                capsule = self.buffer.__dlpack__()
                pointer = dlpack._capsule_pointer(id(capsule), dlpack._NAME)
                self.change(dlpack._Managed.from_address(pointer).tensor)
                return capsule

        with host_world() as (device, queue, pool):
            buffer = pool.buffer(shape=(4, 4), dtype="float32")

            def turn(tensor):
                tensor.strides[0], tensor.strides[1] = 1, 4

            changes = [turn, lambda tensor: setattr(tensor, "lanes", 4), lambda tensor: setattr(tensor, "code", 9),
                       lambda tensor: setattr(tensor, "device_type", dlpack.CUDA)]

            def negative(tensor):
                tensor.shape[0] = -4

            def huge(tensor):
                tensor.shape[0], tensor.shape[1], tensor.strides = 2**62, 2**62, None

            for change in changes + [negative, huge]:
                with self.assertRaises(vram.InvalidError):
                    vram.from_dlpack(Strided(buffer, change), pool)
            for bad in (7, None, "x"):
                with self.assertRaises(vram.InvalidError):
                    vram.from_dlpack(bad, pool)
            buffer.close()
            gc.collect()
            self.assertEqual(pool.stats()["live_blocks"], 0)

    def test_what_an_export_cannot_be(self):
        with host_world() as (device, queue, pool):
            buffer = pool.buffer(8)
            self.assertEqual(buffer.__dlpack_device__(), (dlpack.CPU, 0))
            with self.assertRaises(BufferError):
                buffer.__dlpack__(copy=True)
            with self.assertRaises(BufferError):
                buffer.__dlpack__(dl_device=(dlpack.CUDA, 0))
            out = len(dlpack._out)
            buffer.__dlpack__(dl_device=(dlpack.CPU, 0), max_version=(1, 0))
            self.assertEqual(len(dlpack._out), out)

    @unittest.skipUnless(numpy, "numpy is not installed")
    def test_numpy_takes_and_gives(self):
        with host_world() as (device, queue, pool):
            buffer = pool.buffer(shape=(5,), dtype="int64")
            array = numpy.from_dlpack(buffer)
            array[:] = range(5)
            buffer.close()
            self.assertEqual(array.sum(), 10)
            other = vram.from_dlpack(numpy.arange(6, dtype="float32").reshape(2, 3), pool)
            self.assertEqual(other.shape, (2, 3))
            self.assertEqual(numpy.asarray(other).sum(), 15)

    def test_addresses_of_structs(self):
        self.assertEqual((ctypes.sizeof(dlpack._Managed), ctypes.sizeof(dlpack._Versioned)), (64, 80))


if __name__ == "__main__":
    unittest.main()
