# SPDX-License-Identifier: Apache-2.0
"""Contexts, devices, pools, scopes: what they do, and what becomes of mistakes."""
import gc
import os
import sys
import tempfile
import threading
import unittest
from unittest import mock

import vram
from vram._library import lib

from .world import world


class Basics(unittest.TestCase):
    def test_a_pool_on_both_devices(self):
        for backend in ("sim", "host"):
            with self.subTest(backend=backend), world(backend) as (device, queue, pool):
                self.assertEqual(device.info()["backend"], backend)
                block = pool.alloc("3MiB", queue, tag="weights/layer")
                self.assertEqual(pool.stats()["requested_bytes"], 3 << 20)
                self.assertEqual([row["name"] for row in device.tags()], ["weights", "weights/layer"])
                pool.free(block, queue)
                self.assertEqual(pool.stats()["live_blocks"], 0)
                self.assertGreater(pool.trim(), 0)
                self.assertEqual(device.stats()["live_blocks"], 0)

    def test_reprs_say_what_it_is(self):
        with world("sim", "memory=1G", name="weights") as (device, queue, pool):
            scope = pool.scope()
            scope.alloc(100)
            buffer = pool.buffer(shape=(2, 3), dtype="float32", queue=queue, name="kv", tag="kv/layer0")
            self.assertEqual(repr(pool), "<vram.Pool 'weights' of device memory on sim:0, 124 B live, 2.00 MiB held>")
            mapping = buffer.map()
            wanted = [
                (device._parent, "<vram.Context sim>"),
                (device, "<vram.Device sim:0 Simulated GPU>"),
                (queue, "<vram.Queue of sim:0>"),
                (scope, "<vram.Scope on sim:0, 100 B in blocks>"),
                (buffer, "<vram.Buffer 'kv' (2, 3) float32, 24 bytes of device memory on sim:0, tag 'kv/layer0'>"),
                (pool.buffer(5), "<vram.Buffer (5,) uint8, 5 bytes of device memory on sim:0>"),
                (mapping, "<vram.Mapping of (2, 3) float32>"),
            ]
            for each, text in wanted:
                self.assertEqual(repr(each), text)
            mapping.unmap()
            self.assertEqual(repr(mapping), "<vram.Mapping ended>")
            transfer = queue.fill(buffer, 0)
            transfer.wait()
            self.assertEqual(repr(transfer), "<vram.Transfer that has ended>")
            with mock.patch.object(vram.Buffer, "info", side_effect=vram.DeviceLostError("lost")):
                self.assertEqual(repr(buffer), "<vram.Buffer of which nothing can be told>")
            with tempfile.NamedTemporaryFile() as file, device._parent.trace(file.name) as trace:
                self.assertEqual(repr(trace), f"<vram.Trace written to {file.name!r}>")
        self.assertEqual(repr(buffer), "<vram.Buffer closed>")

    def test_devices_by_name_and_number(self):
        with vram.Context(backends="sim,host", sim="devices=2") as context:
            self.assertEqual([row["backend"] for row in context.devices()], ["sim", "sim", "host"])
            self.assertEqual(context.device("sim:1").info()["backend_index"], 1)
            self.assertEqual(context.device(2).info()["backend"], "host")
            self.assertEqual(context.device().info()["backend"], "sim")
            for which in ("sim:2", "cuda", "cuda:0", 3, 2**40):
                with self.subTest(which=which), self.assertRaises(vram.NoDeviceError):
                    context.device(which)
            with self.assertRaises(vram.InvalidError):
                context.device("sim:x")
            self.assertEqual(context.trim(), 0)
            self.assertIn("allocs", context.stats())

    def test_out_of_memory_has_the_report(self):
        with world(sim="memory=64M") as (device, queue, pool):
            held = pool.alloc("40MiB", queue, tag="model")
            with self.assertRaises(vram.OutOfMemoryError) as caught:
                pool.alloc("48MiB", queue, tag="cache")
            report = caught.exception.report
            self.assertEqual(report["schema"], "vram.oom/1")
            self.assertIn("48.00 MiB", str(report))
            self.assertIsInstance(caught.exception, MemoryError)
            pool.free(held, queue)
            pool.free(pool.alloc("48MiB", queue), queue)

    def test_limits_and_quotas(self):
        with world(limit="8MiB") as (device, queue, pool):
            with self.assertRaises(vram.LimitError):
                pool.alloc("16MiB")
            device.set_quota("cache", hard="1MiB")
            with self.assertRaises(vram.LimitError) as caught:
                pool.alloc("2MiB", tag="cache")
            self.assertIn("cache", str(caught.exception))
            device.set_limits(hard="128MiB")
            pool.set_limits(hard="16MiB")

    def test_sleep_and_wake_keep_contents(self):
        with world() as (device, queue, pool):
            with pool.buffer(shape=(1024,), dtype="int32", queue=queue) as buffer:
                buffer.write(bytes(range(256)) * 16)
                where = buffer.address
                pool.sleep("host")
                self.assertGreater(pool.stats()["asleep_bytes"], 0)
                with self.assertRaises(vram.BusyError):
                    pool.alloc(100)
                pool.wake()
                self.assertEqual(buffer.address, where)
                self.assertEqual(buffer.read(), bytes(range(256)) * 16)
                with self.assertRaises(vram.InvalidError):
                    pool.sleep("cloud")

    def test_warm_and_use(self):
        with world() as (device, queue, pool), device.queue(priority=1) as other:
            pool.warm("1MiB", 4, queue)
            block = pool.alloc("1MiB", queue)
            pool.use(block, other)
            pool.free(block, queue)

    def test_work_after_use_counts_until_the_free(self):
        for kind in ("block", "buffer"):
            with self.subTest(kind), vram.Context(backends="sim", sim="memory=64M,real=on,lag=1000") as context, \
                    context.device() as device, device.queue() as queue, device.queue() as other, device.pool() as pool:
                mine = pool.buffer("1MiB", queue=queue) if kind == "buffer" else None
                block = mine.address if mine is not None else pool.alloc("1MiB", queue)
                mine.use(other) if mine is not None else pool.use(block, other)
                queue.wait()
                other.wait()
                lib.vram_queue_fill(other.handle, block, 0xDD, 1, 1 << 20)  # late
                mine.close() if mine is not None else pool.free(block, queue)
                with pool.buffer("1MiB", queue=queue) as next_one:
                    lib.vram_queue_fill(queue.handle, next_one.address, 0x11, 1, 1 << 20)
                    queue.wait()
                    other.wait()
                    self.assertEqual(set(next_one.read()), {0x11})

    def test_the_live_table_and_leaks(self):
        with world(tracked=True) as (device, queue, pool):
            pool.alloc("1MiB", tag="a")
            pool.alloc("2MiB", tag="b/c")
            for of in (pool, device):
                rows = of.live_blocks()
                self.assertEqual([(row["tag"], row["requested_bytes"], row["kind"]) for row in rows],
                                 [("b/c", 2 << 20, "device"), ("a", 1 << 20, "device")])
            self.assertEqual(len(pool.live_blocks(tag="b")), 1)
            self.assertEqual(len(pool.live_blocks(most=1)), 1)
            self.assertEqual(pool.live_blocks(older=3600), [])
            self.assertEqual(pool.leaks()["schema"], "vram.leaks/1")
            with self.assertRaises(vram.InvalidError):
                pool.live_blocks(order="smallest")

    def test_stacks_have_the_lines_of_python(self):
        vram.set_option("track_stacks", "1")
        self.addCleanup(vram.set_option, "track_stacks", None)
        with world(tracked=True) as (device, queue, pool):
            block, line = pool.alloc("1MiB"), sys._getframe().f_lineno
            stack = pool.leaks()["groups"][0]["stack"]
            own = stack.index(f"test_stacks_have_the_lines_of_python ({__file__}:{line})")
            self.assertRegex(stack[own - 1], r"^alloc \(.*pool\.py:[0-9]+\)$")
            self.assertFalse([frame for frame in stack if "_PyEval" in frame])
            for pattern, blocks in (("^test_stacks_have_the_", 0), ("*test_objects.py:*", 0), ("_PyEval", 1)):
                with tempfile.TemporaryDirectory() as folder:
                    path = os.path.join(folder, "leaks")
                    with open(path, "w", encoding="utf-8") as stream:
                        stream.write(f"leak:{pattern}\n")
                    vram.set_option("leak_suppressions", path)
                    self.assertEqual(pool.leaks()["blocks"], blocks, pattern)
                    vram.set_option("leak_suppressions", None)
            pool.free(block)

    def test_buffers_know_what_they_are(self):
        with world() as (device, queue, pool):
            buffer = pool.buffer(shape=12, dtype="int16", name="table")
            info = buffer.info()
            self.assertEqual((info["name"], info["kind"], info["location"], info["used_bytes"]),
                             ("table", "device", "device", 24))
            self.assertEqual((buffer.shape, buffer.dtype.name), ((12,), "int16"))
            buffer.resize(48)
            self.assertEqual(buffer.shape, (24,))
            for call in (lambda: buffer.resize(5), lambda: buffer.write(bytes(49)), lambda: buffer.write(b"x", 48)):
                with self.assertRaises(vram.InvalidError):
                    call()

    def test_a_callback_frees_what_is_not_needed(self):
        with world(sim="memory=64M") as (device, queue, pool):
            spare = [pool.alloc("40MiB", queue)]
            events = []

            def give(event):
                events.append(event)
                if not spare:
                    return None
                pool.free(spare.pop(), queue)
                return 40 << 20

            remove = device.on_out_of_memory(give)
            pool.free(pool.alloc("48MiB", queue), queue)
            self.assertEqual(len(events), 1)
            self.assertGreaterEqual(events[0]["bytes"], 48 << 20)
            remove()
            remove()
            with self.assertRaises(vram.OutOfMemoryError):
                pool.alloc("80MiB")
            self.assertEqual(len(events), 1)


class Scopes(unittest.TestCase):
    def test_a_scope_frees_what_it_owns(self):
        with world() as (device, queue, pool):
            with self.assertRaises(KeyError), pool.scope() as scope:
                scope.alloc("1MiB", queue)
                early = scope.alloc("1MiB", queue)
                scope.free(early, queue)
                kept = scope.take(scope.alloc("1MiB", queue))
                buffer = scope.buffer(100, queue=queue)
                with pool.scope(scope) as inner:
                    inner.alloc(512)
                    self.assertEqual(scope.info()["scopes"], 1)
                raise KeyError
            self.assertEqual(pool.stats()["live_blocks"], 1)
            with self.assertRaises(vram.StaleError):
                buffer.address
            with self.assertRaises(vram.StaleError):
                scope.alloc(1)
            pool.free(kept)


class Misuse(unittest.TestCase):
    def test_use_after_close(self):
        context = vram.Context(backends="sim")
        device = context.device()
        queue, pool = device.queue(), device.pool()
        buffer, scope = pool.buffer(100, queue=queue), pool.scope()
        calls = [context.devices, context.stats, device.memory, device.info, device.queue, device.pool, pool.stats,
                 pool.live_blocks, pool.trim, lambda: pool.alloc(1), lambda: pool.free(1), lambda: pool.buffer(1),
                 queue.wait, queue.idle, lambda: queue.upload(buffer, b"x"), lambda: buffer.address, buffer.info,
                 buffer.view, buffer.map, buffer.read, lambda: scope.alloc(1), scope.info, lambda: queue.native,
                 lambda: buffer.__dlpack__(), lambda: scope.buffer(3)]
        context.close()
        for call in calls:
            with self.assertRaises((vram.StaleError, AttributeError)):
                call()
        for each in (buffer, scope, pool, queue, device, context):
            self.assertTrue(each.closed)
            each.close()
            each.close()
            self.assertIn("closed", repr(each))
            with self.assertRaises(vram.StaleError):
                with each:
                    pass

    def test_closing_in_any_order(self):
        import itertools
        for order in itertools.permutations(range(5)):
            context = vram.Context(backends="host")
            device = context.device()
            pool, queue = device.pool(), device.queue()
            buffer = pool.buffer(64, queue=queue)
            buffer.write(b"x" * 64)
            objects = [context, device, pool, queue, buffer]
            for index in order:
                objects[index].close()

    def test_the_collector_closes(self):
        with world() as (device, queue, pool):
            for _ in range(10):
                pool.buffer("1MiB")
            gc.collect()
            self.assertEqual(pool.stats()["live_blocks"], 0)

    def test_double_free_and_foreign_addresses(self):
        with world() as (device, queue, pool):
            block = pool.alloc(4096, queue)
            pool.free(block, queue)
            for bad in (block, block + 1, 1, 2**63, 2**64 - 1):
                with self.subTest(bad=bad), self.assertRaises(vram.InvalidError):
                    pool.free(bad, queue)
            for bad in (-1, 2**64, None, "0x10", 1.0):
                with self.subTest(bad=bad), self.assertRaises(vram.InvalidError):
                    pool.free(bad)
            buffer = pool.buffer(4096)
            with self.assertRaises(vram.InvalidError):
                pool.free(buffer.address)

    def test_sizes_that_cannot_be(self):
        with world() as (device, queue, pool):
            for size in (2**63, 2**64 - 1):
                with self.subTest(size=size), self.assertRaises(vram.Error):
                    pool.alloc(size)
            with self.assertRaises(vram.SizeOverflowError):
                pool.buffer(shape=(2**40, 2**40), dtype="float32")
            pool.free(pool.alloc(0))
            self.assertEqual(pool.buffer(0).nbytes, 0)

    def test_arguments_of_the_wrong_kind(self):
        with world() as (device, queue, pool), vram.Context(backends="sim") as other:
            foreign = other.device().queue()
            for call in (lambda: pool.alloc(10, pool), lambda: pool.alloc(10, 7), lambda: pool.alloc(10, foreign),
                         lambda: pool.buffer(), lambda: pool.buffer(1, shape=(1,)),
                         lambda: pool.buffer(3, dtype="int32"), lambda: pool.buffer(4, dtype="int33"),
                         lambda: pool.buffer(4, kind="shared"),
                         lambda: device.pool("fast"), lambda: queue.fill(pool.buffer(4), 300),
                         lambda: queue.fill(pool.buffer(4), 1, 3), lambda: queue.wait(-1),
                         lambda: queue.upload(pool.buffer(4), "text"), lambda: queue.download(12345),
                         lambda: queue.upload(pool.buffer(4), b"12345"), lambda: queue.upload(12345, b"12345"),
                         lambda: queue.download(pool.buffer(4), b"1234"),
                         lambda: queue.download(pool.buffer(4), bytearray(2), 4),
                         lambda: queue.download(pool.buffer(4), offset=5), lambda: pool.alloc(10, alignment=3),
                         lambda: pool.alloc(10, tag="a" * 300)):
                with self.assertRaises(vram.InvalidError):
                    call()

    def test_threads_close_under_each_other(self):
        for _ in range(20):
            with vram.Context(backends="sim", sim="memory=256M") as context:
                pool = context.device().pool()
                stop, unexpected = threading.Event(), []

                def work():
                    while not stop.is_set():
                        try:
                            pool.free(pool.alloc(1 << 16))
                            pool.buffer(100).close()
                        except (vram.StaleError, vram.ShutdownError, vram.InvalidError):
                            return
                        except Exception as error:
                            unexpected.append(error)
                            return

                threads = [threading.Thread(target=work) for _ in range(3)]
                for thread in threads:
                    thread.start()
                context.close()
                stop.set()
                for thread in threads:
                    thread.join()
                self.assertEqual(unexpected, [])


if __name__ == "__main__":
    unittest.main()
