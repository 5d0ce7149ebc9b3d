#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""least_test.py SOURCE PLUGIN FAKE_CUDA: how bench/torch_run.py --least searches.

First the bisection against programs whose least memory is known, and processes that fail; then all
of it with a PyTorch of a few lines (stub/torch.py), the real plug-in and a CUDA driver without a GPU."""
import importlib.machinery
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE, PLUGIN, FAKE_CUDA = (sys.argv[1:4] + [""] * 3)[:3]
sys.path.insert(0, os.path.join(SOURCE, "bench"))
sys.dont_write_bytecode = True

import torch_least  # noqa: E402, by the path above
import torch_process  # noqa: E402

MIB = 1 << 20
PEAK = 10_000 * MIB
LATER = time.monotonic() + 3600


def find(least, first=int(PEAK * 1.006), most=2 * PEAK, step=10 * MIB):
    tried = []

    def runs(limit):
        tried.append(limit)
        return limit >= least

    return torch_least.Search(runs, PEAK, first, most, step).find(), tried


class Bisection(unittest.TestCase):
    def test_finds_to_a_step(self):
        for least in (PEAK + 1, int(PEAK * 1.0035), int(PEAK * 1.006), int(PEAK * 1.08),
                      int(PEAK * 1.7), 2 * PEAK):
            found, tried = find(least)
            self.assertTrue(least <= found <= least + 10 * MIB, (least, found))
            self.assertLessEqual(len(tried), 20)

    def test_below_the_peak(self):
        for least in (PEAK - 5 * MIB, int(PEAK * 0.98), int(PEAK * 0.81)):
            found, tried = find(least)
            self.assertTrue(least <= found <= least + 10 * MIB, (least, found))
            self.assertLessEqual(len(tried), 20)

    def test_nothing_below_the_peak_unless_it_may(self):
        _, tried = find(int(PEAK * 1.004))
        self.assertGreaterEqual(min(tried), PEAK)

    def test_never_runs(self):
        found, tried = find(3 * PEAK)
        self.assertIsNone(found)
        self.assertEqual(max(tried), 2 * PEAK)

    def test_out_of_time(self):
        tried = []

        def runs(limit):
            if len(tried) == 4:
                raise torch_process.OutOfTime
            tried.append(limit)
            return limit >= int(PEAK * 1.03)

        found = torch_least.Search(runs, PEAK, int(PEAK * 1.006), 2 * PEAK, 10 * MIB).find()
        self.assertEqual(found, min(limit for limit in tried if limit >= int(PEAK * 1.03)))

    def test_turns(self):
        self.assertEqual(torch_least.time_turns("gpt2_train_varlen", 2), [False, True] * 2)
        self.assertEqual(torch_least.time_turns("resnet50_multires", 2), [False] * 2 + [True] * 2)


class FakeChild:
    """Runs under LEAST bytes and more. When refused, default ends and expandable is of no more use."""

    LEAST, made = int(PEAK * 1.02), 0

    def __init__(self, name, mode, plugin):
        self.mode, self.failed, self.queue = mode, None, [{"total_bytes": 64 << 30}]
        self.process = self
        FakeChild.made += 1

    def hear(self, deadline):
        return self.queue.pop(0)

    def ask(self, order, deadline):
        limit = json.loads(order.split(" ", 1)[1])["limit"]
        ran = limit == 0 or limit >= self.LEAST
        if self.failed:
            return None
        if self.mode == "default" and not ran:
            self.failed = "the process ended with code -11"
            return None
        reserved = int(PEAK * 1.1)
        return {"ran": ran, "usable": self.mode != "expandable" or ran, "seconds": 1.5 if limit else 1.0,
                "reason": None if ran else "OutOfMemoryError", "live_before_bytes": 0,
                "peak_requested_bytes": PEAK,
                "peak_reserved_bytes": min(limit, reserved) if limit else reserved}

    def kill(self):
        pass

    end = kill


class Shaky(FakeChild):
    """Near its least it runs twice, then never again."""

    def ask(self, order, deadline):
        answer = super().ask(order, deadline)
        limit = json.loads(order.split(" ", 1)[1])["limit"]
        if answer["ran"] and limit and limit < self.LEAST + 25 * MIB:
            self.seen = getattr(self, "seen", 0) + 1
            answer.update(ran=self.seen < 3, reason="OutOfMemoryError")
        return answer


class Processes(unittest.TestCase):
    def one(self, mode, spawn=FakeChild, name="gpt2_train_varlen"):
        FakeChild.made = 0
        program = next(torch_least.run([name], [mode], "", 3, LATER, spawn=spawn))
        return program, program["modes"][mode]

    def test_least_and_time(self):
        program, result = self.one("vram")
        self.assertEqual(FakeChild.made, 1)
        self.assertTrue(0 <= result["least_bytes"] - FakeChild.LEAST <= 10 * MIB)
        self.assertEqual(result["time_ratio"], 1.5)
        self.assertEqual(len(program["missed"]), 2, program["missed"])

    def test_a_process_that_ends_is_replaced(self):
        for mode in ("default", "expandable"):
            _, result = self.one(mode)
            failed = sum(not each["ran"] for each in result["attempts"])
            self.assertEqual(FakeChild.made, 1 + failed)
            self.assertTrue(0 <= result["least_bytes"] - FakeChild.LEAST <= 10 * MIB)

    def test_what_runs_once_is_not_enough(self):
        _, result = self.one("vram", Shaky)
        self.assertGreater(result["raises"], 0)
        self.assertGreaterEqual(result["least_bytes"], FakeChild.LEAST + 25 * MIB)
        self.assertEqual(len(result["seconds_at_least"]), 3)

    def test_convolutions_are_timed_apart(self):
        self.one("vram", name="resnet50_multires")
        self.assertEqual(FakeChild.made, 1)
        program, _ = self.one("expandable", name="resnet50_multires")
        self.assertGreater(FakeChild.made, 2)
        self.assertEqual(program["missed"], [])

    def test_gate(self):
        gate = torch_process.Gate(100)
        with gate.holding(60), gate.holding(40):
            self.assertEqual(gate.used, 100)
        with gate.holding(1000):  # more than there is: alone
            self.assertEqual(gate.used, 100)
        self.assertEqual(gate.used, 0)


class Picture(unittest.TestCase):
    """tools/ratio-picture draws what was measured."""

    def test_bars(self):
        path = os.path.join(SOURCE, "tools", "ratio-picture")
        loader = importlib.machinery.SourceFileLoader("ratio_picture", path)
        picture = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
        loader.exec_module(picture)
        programs = list(torch_least.run(["gpt2_train_varlen", "bert_dynpad"], ["vram.torch", "expandable"],
                                        "", 1, LATER, spawn=FakeChild))
        programs += [{"name": "sage_subgraphs", "left_out": ["torch_geometric"], "missed": []},
                     {"name": "serve_kv_cache", "modes": {"vram.torch": {"failed": "no time left"}}}]
        before = {"programs": [{"name": "bert_dynpad", "modes": {
            mode: {"commit": "older000", "least_ratio": 1.5} for mode in ("default", "expandable")}}]}
        measured = picture.merge({"schema": "s", "commit": "0123abcd", "programs": programs}, before)
        self.assertEqual([one["name"] for one in measured["programs"]],
                         ["bert_dynpad", "gpt2_train_varlen"])
        drawn = "".join(picture.draw_least(0, measured))
        self.assertEqual(drawn.count(" least "), 5)
        self.assertIn("bert_dynpad least vram.torch 1.0203", drawn)
        self.assertIn("+50 % time", drawn)
        self.assertIn("0123abcd and older000", drawn)


@unittest.skipUnless(PLUGIN, "no plug-in")
class Whole(unittest.TestCase):
    def run_all(self, *flags, **environment):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "least.json")
            environment = {**os.environ, "PYTHONPATH": os.path.join(SOURCE, "tests", "torch", "stub"),
                           "VRAM_CUDA_LIBRARY": FAKE_CUDA, "FAKE_CUDA_MEMORY": str(64 << 30),
                           "FAKE_CUDA_DEVICES": "1", "PYTHONDONTWRITEBYTECODE": "1", **environment}
            said = subprocess.run([sys.executable, os.path.join(SOURCE, "bench", "torch_run.py"),
                                   "--programs", "serve_kv_cache", "--plugin", PLUGIN, "--json", path,
                                   "--budget-seconds", "200", *flags], capture_output=True,
                                  text=True, env=environment, check=False)
            self.assertIn("serve_kv_cache", said.stdout, said.stderr)
            table = subprocess.run([sys.executable, os.path.join(SOURCE, "bench", "torch_table.py"), path],
                                   capture_output=True, text=True, check=True).stdout
            self.assertIn("| serve_kv_cache", table)
            with open(path, encoding="utf-8") as stream:
                return json.load(stream)["programs"][0], said

    def test_least(self):
        program, _ = self.run_all("--least", "--steps", "300", "--repeats", "1",
                                  "--modes", "default,expandable,vram")
        ratios = {mode: result["least_ratio"] for mode, result in program["modes"].items()}
        self.assertTrue(1.25 <= ratios["default"] <= 1.253, ratios)
        self.assertTrue(1.1 <= ratios["expandable"] <= 1.103, ratios)
        self.assertTrue(1.0 <= ratios["vram"] < 1.1, ratios)
        refused = [each for each in program["modes"]["vram"]["attempts"] if not each["ran"]]
        self.assertTrue(refused and all("bad_alloc" in each["reason"] for each in refused), refused)

    def test_a_device_that_is_lost(self):
        program, _ = self.run_all("--least", "--steps", "100", "--repeats", "1", "--modes",
                                  "expandable", STUB_FAULT="poison")
        result = program["modes"]["expandable"]
        self.assertGreater(result["processes"], 1)
        self.assertTrue(1.1 <= result["least_ratio"] <= 1.13, result["least_ratio"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
