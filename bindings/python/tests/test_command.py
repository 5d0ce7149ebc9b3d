# SPDX-License-Identifier: Apache-2.0
"""Estimates, replays, traces and reports, as plain data."""
import os
import tempfile
import unittest

import vram

from . import TREE
from .world import program

MODEL = os.path.join(TREE, "tests", "model_configs", "llama3_8b.json")


class Estimates(unittest.TestCase):
    def test_whether_a_model_fits(self):
        answer = vram.estimate(MODEL, context=4096, memory="80GiB")
        self.assertEqual(answer["schema"], "vram.estimate/1")
        self.assertTrue(answer["fits"])
        small = vram.estimate(MODEL, context=4096, memory=[1 << 30, "1GiB"])
        self.assertFalse(small["fits"])
        self.assertTrue(vram.estimate(MODEL, memory="80G", fit=True, sequences=2, layers=10, cache_type="q8_0"))

    def test_what_is_not_a_model(self):
        for path in ("/nonexistent", "--help", os.path.join(TREE, "LICENSE")):
            with self.subTest(path=path), self.assertRaises(vram.CommandError):
                vram.estimate(path, memory="1G")


class Traces(unittest.TestCase):
    def test_a_trace_is_written_read_replayed_and_reported(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "run.vrt")
            with vram.Context(backends="sim", sim="memory=1G") as context, context.device() as device:
                with context.trace(path) as trace:
                    pool = device.pool()
                    trace.mark("begin")
                    blocks = [pool.alloc(f"{i}MiB") for i in range(1, 5)]
                    for block in blocks[:3]:
                        pool.free(block)
            events = vram.read_trace(path)
            self.assertEqual([row["bytes"] for row in events if row["op"] == "a"], [i << 20 for i in range(1, 5)])
            self.assertEqual(sum(row["op"] == "f" for row in events), 3)
            self.assertEqual(vram.replay(path, ("vram", "caching"), "1GiB")["schema"], "vram.replay/1")
            self.assertEqual(vram.report(path)["schema"], "vram.report/1")
            with self.assertRaises(vram.CommandError):
                vram.read_trace(os.path.join(folder, "missing"))

    def test_generated_traces(self):
        answer = vram.replay(generate="steady,steps=1", policies=["vram"], memory="8G", least=True)
        self.assertEqual(answer["schema"], "vram.replay/1")

    def test_python_dash_m(self):
        out = program("""
    import runpy, sys
    sys.argv = ["vram", "--version"]
    runpy.run_module("vram", run_name="__main__")
    """)
        self.assertIn(vram.version(), out)


if __name__ == "__main__":
    unittest.main()
