# SPDX-License-Identifier: Apache-2.0
"""What only memory of a CUDA device has, on the tests' fake driver, which VRAM_CUDA_LIBRARY names."""
import ctypes
import gc
import os
import unittest
from unittest import mock

import vram
from vram import dlpack

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


if __name__ == "__main__":
    unittest.main()
