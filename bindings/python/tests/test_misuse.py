# SPDX-License-Identifier: Apache-2.0
"""Numbers that their types in C cannot hold, wrong types, copies, and objects that were never made."""
import copy
import pathlib
import pickle
import tempfile
import unittest

import vram

from .world import world


class Numbers(unittest.TestCase):
    def test_none_loses_its_high_bits(self):
        with world(tracked=True) as (device, queue, pool):
            for wrong in (2**64, 2**64 + 1, -2**64, 2**70, 1.5, "1", None, [], True):
                with self.subTest(value=wrong):
                    for call in (lambda: device.queue(priority=wrong), lambda: device.adopt(wrong),
                                 lambda: pool.warm("1MiB", count=wrong), lambda: pool.live_blocks(most=wrong),
                                 lambda: pool.free(wrong), lambda: queue.fill(1 << 20, wrong, nbytes=1),
                                 lambda: vram.shared_device("host", wrong)):
                        if wrong is not True:
                            self.assertRaises(vram.Error, call)
            for call in (lambda: device.queue(priority=2**32 + 1), lambda: pool.warm("1MiB", count=2**32 + 1),
                         lambda: pool.warm("1MiB", count=-1), lambda: pool.live_blocks(most=2**32),
                         lambda: device.adopt(-1)):
                self.assertRaises(vram.InvalidError, call)

    def test_an_age_beyond_all_blocks(self):
        with world(tracked=True) as (device, queue, pool):
            block = pool.alloc(4096, queue)
            self.assertEqual(len(pool.live_blocks()), 1)
            for older in (1e10, 18446744073.8, 1e30, float("inf")):  # the second is 90 ms modulo 2^64 ns
                self.assertEqual(pool.live_blocks(older=older), [], older)
            for older in (-1, float("nan")):
                self.assertRaises(vram.InvalidError, pool.live_blocks, older=older)
            pool.free(block, queue)


class Types(unittest.TestCase):
    def test_a_wrong_one_is_told(self):
        with world() as (device, queue, pool):
            for wrong in (1, 1.5, [], b"x", object()):
                for call in (lambda: vram.Context(backends=wrong), lambda: pool.alloc(16, tag=wrong),
                             lambda: device.pool(name=wrong), lambda: device.set_quota(wrong),
                             lambda: pool.scope(parent=wrong), lambda: vram.from_dlpack(wrong, pool),
                             lambda: vram.from_dlpack(pool.buffer(4, kind="pinned"), wrong),
                             lambda: vram.shared_device(wrong), lambda: device.on_out_of_memory(wrong)):
                    with self.subTest(value=wrong):
                        self.assertRaises(vram.InvalidError, call)

    def test_a_trace_has_a_path(self):
        with world() as (device, queue, pool), tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "trace.vrt"
            with device._parent.trace(path):
                pass
            self.assertGreater(path.stat().st_size, 0)
            self.assertRaises(vram.InvalidError, device._parent.trace, f"{path}\0x")
            self.assertRaises(TypeError, device._parent.trace, 5)


class Objects(unittest.TestCase):
    def test_none_is_copied(self):
        with world() as (device, queue, pool):
            for each in (device._parent, device, queue, pool, pool.buffer(16), pool.scope()):
                for call in (copy.copy, copy.deepcopy, pickle.dumps):
                    with self.subTest(object=each, call=call):
                        self.assertRaisesRegex(TypeError, "neither copied nor pickled", call, each)

    def test_none_is_made_by_its_class(self):
        for each in (vram.Device, vram.Queue, vram.Pool, vram.Buffer, vram.Scope):
            self.assertRaisesRegex(TypeError, "is made by", each)
        self.assertRaisesRegex(TypeError, "is made by", vram.Transfer, 1, None, None, None)

    def test_one_that_was_never_made_is_closed(self):
        class Forgot(vram.Context):
            def __init__(self):
                pass

        for each in (Forgot(), vram.Pool.__new__(vram.Pool)):
            self.assertTrue(each.closed)
            self.assertIn("closed", repr(each))
            self.assertRaises(vram.StaleError, each.stats)
            each.close()

    def test_none_is_made_twice(self):
        with world() as (device, queue, pool):
            self.assertRaisesRegex(TypeError, "made already", device._parent.__init__, backends="host")
            pool.free(pool.alloc(16, queue), queue)
