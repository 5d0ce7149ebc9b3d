# SPDX-License-Identifier: Apache-2.0
"""Copies that are waited for, awaited, dropped and cancelled."""
import array
import asyncio
import gc
import threading
import time
import unittest

import vram
from vram import queue as queue_module

from .world import program, world

LATE = "memory=256M,lag=50"


class Transfers(unittest.TestCase):
    def test_round_trips(self):
        for backend in ("sim", "host"):
            with self.subTest(backend=backend), world(backend, LATE) as (device, queue, pool):
                buffer, other = pool.buffer(1000, queue=queue), pool.buffer(1000, queue=queue)
                queue.upload(buffer, bytes(1000)).wait()
                queue.upload(buffer, b"middle", 100)
                queue.copy(other, buffer)
                self.assertEqual(queue.download(other).wait()[100:106], b"middle")
                into = bytearray(6)
                self.assertIs(queue.download(other, into, offset=100).wait(), into)
                self.assertEqual(into, b"middle")
                queue.fill(other, 0x1234, 2).wait()
                self.assertEqual(other.read()[:4], b"\x34\x12\x34\x12")
                queue.wait()
                self.assertTrue(queue.idle())

    def test_buffers_without_a_queue(self):
        for backend in ("sim", "host"):
            with self.subTest(backend=backend), world(backend, LATE) as (device, queue, pool):
                buffer = pool.buffer(6)
                buffer.write(b"abcdef")
                buffer.write(b"x", offset=5)
                self.assertEqual(buffer.read(), b"abcdex")
                pinned = pool.buffer(6, kind="pinned")
                pinned.view()[:] = b"abcdef"
                self.assertEqual(vram.from_dlpack(pinned, pool).read(), b"abcdef")
                first = device._copy_queue()
                self.assertIs(device._copy_queue(), first)
                first.close()
                self.assertEqual(buffer.read(), b"abcdex")

    def test_every_kind_of_host_memory(self):
        with world() as (device, queue, pool):
            buffer = pool.buffer(16, queue=queue)
            for data in (b"0123456789abcdef", bytearray(b"0123456789abcdef"), memoryview(b"0123456789abcdef"),
                         array.array("i", [1, 2, 3, 4]), memoryview(bytearray(32))[8:24]):
                queue.upload(buffer, data).wait()
                self.assertEqual(buffer.read(), bytes(data))
            with self.assertRaises(vram.InvalidError):
                queue.upload(buffer, memoryview(bytearray(32))[::2])
            queue.upload(buffer, b"").wait()

    def test_addresses(self):
        with world() as (device, queue, pool):
            block = pool.alloc(64, queue)
            queue.upload(block, b"abcd", 4)
            self.assertEqual(queue.download(block, nbytes=4, offset=4).wait(), b"abcd")
            pool.free(block, queue)
            with self.assertRaises(vram.InvalidError):
                queue.upload(2**64 - 1, b"abcd", 4)

    def test_a_timeout(self):
        with world("host", None) as (device, queue, pool):
            buffer = pool.buffer("16MiB", queue=queue)
            transfers = [queue.fill(buffer, 1) for _ in range(20)]
            with self.assertRaises(vram.TimeoutError):
                transfers[-1].wait(0)
            transfers[-1].wait()
            self.assertTrue(all(transfer.done() for transfer in transfers))

    def test_a_result_that_is_not_ready(self):
        with world("host", None) as (device, queue, pool):
            buffer = pool.buffer("16MiB", queue=queue)
            for _ in range(20):
                queue.fill(buffer, 1)
            transfer = queue.fill(buffer, 2)
            with self.assertRaises(vram.NotReadyError):
                transfer.result()
            queue.wait()
            self.assertIsNone(transfer.result())

    def test_what_a_dropped_transfer_uses_stays(self):
        with world("host", None) as (device, queue, pool):
            buffer = pool.buffer("8MiB", queue=queue)
            pinned = pool.buffer("8MiB", kind="pinned")
            view = pinned.view()
            view[:4] = b"data"
            queue.fill(buffer, 0)
            queue.upload(buffer, view)
            del view
            pinned.close()
            del pinned
            gc.collect()
            self.assertEqual(bytes(queue.download(buffer).wait()[:4]), b"data")
            queue.wait()
            self.assertEqual(pool.stats()["other_bytes"], 0)
            self.assertEqual(len(queue_module._pending), 0)

    def test_closing_waits_for_transfers(self):
        context = vram.Context(backends="host")
        device = context.device()
        queue, pool = device.queue(), device.pool()
        buffer, pinned = pool.buffer("8MiB", queue=queue), pool.buffer("8MiB", kind="pinned")
        queue.upload(buffer, pinned.view())
        context.close()
        self.assertEqual(len(queue_module._pending), 0)
        self.assertEqual(context._node.exports, set())

    def test_what_work_that_never_ends_uses_is_kept(self):
        class Late(vram.TimeoutError):
            pass

        def destroy(value):
            raise Late

        queue_module._pending[1] = queue_module._Work(queue_module.api.vram_async(), [b"memory"])
        before = len(queue_module._immortal)
        with self.assertRaises(vram.TimeoutError):
            queue_module.end_or_keep(destroy)(5)
        self.assertEqual((len(queue_module._pending), len(queue_module._immortal)), (0, before + 1))

    def test_other_threads_run_while_one_waits(self):
        with world("host", None) as (device, queue, pool):
            buffer = pool.buffer("16MiB", queue=queue)
            counted, stop = [0], threading.Event()

            def count():
                while not stop.is_set():
                    counted[0] += 1
                    time.sleep(0)

            thread = threading.Thread(target=count)
            thread.start()
            for _ in range(10):
                queue.fill(buffer, 3)
            before = counted[0]
            queue.wait()
            after = counted[0]
            stop.set()
            thread.join()
            self.assertGreater(after, before)


class Awaiting(unittest.TestCase):
    def test_many_at_once(self):
        async def all_of_them():
            with world("host", None) as (device, queue, pool), device.queue() as second:
                buffers = [pool.buffer("1MiB", queue=queue) for _ in range(20)]
                await asyncio.gather(*(queue.upload(each, bytes([i]) * (1 << 20)) for i, each in enumerate(buffers)))
                found = await asyncio.gather(*(second.download(each) for each in buffers))
                return [part[-1] for part in found]
        self.assertEqual(asyncio.run(all_of_them()), list(range(20)))

    def test_the_loop_goes_on_meanwhile(self):
        async def both():
            ticks = 0

            async def tick():
                nonlocal ticks
                while True:
                    ticks += 1
                    await asyncio.sleep(0)

            with world("host", None) as (device, queue, pool):
                ticker = asyncio.ensure_future(tick())
                buffer = pool.buffer("16MiB", queue=queue)
                for _ in range(10):
                    await queue.fill(buffer, 3)
                ticker.cancel()
                return ticks
        self.assertGreater(asyncio.run(both()), 1)

    def test_a_failure_is_raised(self):
        async def fails():
            with world() as (device, queue, pool):
                buffer = pool.buffer(16, queue=queue)
                transfer = queue.upload(buffer, bytes(16))
                await transfer
                return await transfer
        self.assertIsNone(asyncio.run(fails()))

    def test_a_task_that_is_cancelled(self):
        async def cancelled():
            with world("host", None) as (device, queue, pool):
                buffer = pool.buffer("16MiB", queue=queue)
                for _ in range(10):
                    queue.fill(buffer, 1)
                task = asyncio.ensure_future(queue.download(buffer)._wait_for())
                await asyncio.sleep(0)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                queue.wait()
        asyncio.run(cancelled())


class Addresses(unittest.TestCase):
    def test_memory_stays_until_another_queue_has_done_with_it(self):
        for gone in ("pool.close()", "pool.free(block); pool.trim()"):
            for inside in (0, 4096):
                with self.subTest(gone=gone, inside=inside):
                    program("""
    import sys, vram
    context = vram.Context(backends="host")
    device = context.device()
    pool, elsewhere, queue = device.pool(), device.pool(), device.queue()
    block, busy = pool.alloc("8MiB"), elsewhere.buffer("64MiB", queue=queue)
    for _ in range(6):
        queue.fill(busy, 1)
    queue.fill(block + int(sys.argv[1]), 1, nbytes=4 << 20)
    exec(sys.argv[2])
    queue.wait()
    """, str(inside), gone)


if __name__ == "__main__":
    unittest.main()
