#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compare_test.py SOURCE PLUGIN FAKE_CUDA: bench/torch_run.py --largest and --pairs.

First the search and the statistics against what is known, with processes that are none; then all of it
with a PyTorch of a few lines (stub/torch.py), the real plug-in and a CUDA driver without a GPU."""
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE, PLUGIN, FAKE_CUDA = (sys.argv[1:4] + [""] * 3)[:3]
sys.path.insert(0, os.path.join(SOURCE, "bench"))
sys.dont_write_bytecode = True

import torch_compare  # noqa: E402, by the path above
import torch_largest  # noqa: E402
import torch_process  # noqa: E402

LATER = time.monotonic() + 3600
BASE, EACH = 10**9, 10**8  # bytes of a model, and of each unit of its batch


class FakeChild:
    """Takes BASE + size x EACH bytes, times what its allocator adds. Steps take 10 ms, 8 under a pool."""

    SHARES = {"default": 1.3, "expandable": 1.05, "vram": 1.0}

    def __init__(self, name, mode, plugin):
        self.name, self.mode, self.failed, self.process = name, mode, None, self
        self.ms, self.runs = (8.0 if mode.startswith("vram") else 10.0), 0

    def hear(self, deadline):
        return {"total_bytes": 140 << 30}

    def ask(self, order, deadline):
        word, _, rest = order.partition(" ")
        order = json.loads(rest)
        self.runs += 1
        if word == "run":
            return {"seconds": self.ms + self.runs % 3, "step_ms": [self.ms] * 99 + [2 * self.ms]}
        argument, unit = torch_largest.PROGRAMS[self.name][:2]
        size = order["arguments"][argument] // unit
        live = BASE + size * EACH
        ran = not order["limit"] or live * self.SHARES[self.mode] <= order["limit"]
        return {"ran": ran, "usable": True, "reason": None if ran else "OutOfMemoryError",
                "peak_requested_bytes": live, "peak_reserved_bytes": live, "seconds": 1.0,
                "step_ms": [self.ms] * 4, "units": [size] * 4}

    def kill(self):
        pass

    end = kill


class Largest(unittest.TestCase):
    def test_search(self):
        for most in (1, 2, 7, 99, 100, 101, 350):
            for guess in (1, 5, 100, 2000):
                found = torch_largest.Search(lambda size: size <= most, guess, 1)
                self.assertEqual(found.find(), most)
                self.assertLessEqual(found.tries, 24)
        self.assertEqual(torch_largest.Search(lambda size: False, 10, 1).find(), 0)

    def test_two_limits_predict_the_next(self):
        model = (4e9, 0.5e9)
        self.assertEqual(torch_largest.guess_size(model, 1.0, [], 8e9), 8)
        self.assertEqual(torch_largest.guess_size(model, 1.0, [(8e9, 2)], 16e9), 24)
        self.assertEqual(torch_largest.guess_size(model, 1.0, [(8e9, 2), (16e9, 7), (24e9, 12)], 80e9), 47)

    def test_search_in_steps(self):
        found = torch_largest.Search(lambda size: size <= 1003, 1000, 10)
        self.assertTrue(993 < found.find() <= 1003)
        self.assertLessEqual(found.tries, 2)

    def test_search_out_of_time(self):
        def runs(size):
            if size > 12:
                raise torch_process.OutOfTime
            return True

        self.assertEqual(torch_largest.Search(runs, 10, 1).find(), 11)

    def test_programs(self):
        for name, (_, unit, *_) in torch_largest.PROGRAMS.items():
            program = next(torch_largest.run([name], ["default", "expandable", "vram"], "", LATER,
                                             spawn=FakeChild))
            self.assertEqual(program["missed"], [])
            for mode, share in FakeChild.SHARES.items():
                results = program["modes"][mode]["limits"]
                self.assertEqual([each["limit_bytes"] for each in results],
                                 list(torch_largest.LIMITS))
                for result in results:
                    exact = int((result["limit_bytes"] / share - BASE) / EACH + 1e-9)
                    self.assertTrue(exact - result["step"] < result["largest"] // unit <= exact)
                    speed = 1000 * result["largest"] // unit / (8 if mode == "vram" else 10)
                    self.assertAlmostEqual(result["per_second"], speed)

    def test_less_than_a_peer_is_missed(self):
        shares, FakeChild.SHARES = FakeChild.SHARES, {"expandable": 1.0, "vram": 1.2}
        try:
            program = next(torch_largest.run(["gpt2_train_varlen"], ["expandable", "vram"], "", LATER,
                                             spawn=FakeChild))
        finally:
            FakeChild.SHARES = shares
        self.assertEqual(len(program["missed"]), len(torch_largest.LIMITS), program["missed"])

    def test_no_time(self):
        program = next(torch_largest.run(["gpt2_train_varlen"], ["vram"], "", time.monotonic(),
                                         spawn=FakeChild))
        self.assertIn("no time left", program["missed"][0])


class Pairs(unittest.TestCase):
    def test_interval_covers_the_truth(self):
        rng, covered = random.Random(3), 0
        for seed in range(40):
            pairs = [(rng.gauss(1.1, 0.05), rng.gauss(1.0, 0.05)) for _ in range(15)]
            found = torch_compare.interval(pairs, torch_compare.ratio_of_medians, 500, seed)
            self.assertLessEqual(found["low"], found["ratio"])
            self.assertLessEqual(found["ratio"], found["high"])
            covered += found["low"] <= 1.1 <= found["high"]
        self.assertGreaterEqual(covered, 34)

    def test_percentile_of_all_steps(self):
        rng = random.Random(4)
        runs = [[rng.random() for _ in range(40)] for _ in range(15)]
        lists, rank = torch_compare.tails(runs)
        every = sorted(ms for run in runs for ms in run)
        wanted = every[math.ceil(len(every) * 0.99) - 1]
        self.assertEqual(sorted(ms for tail in lists for ms in tail)[-rank], wanted)

    def test_pairs(self):
        program = next(torch_compare.run(["serve_kv_cache"], "", 6, LATER, spawn=FakeChild))
        self.assertEqual(set(program["against"]), {"expandable", "default"})
        result = program["against"]["expandable"]
        self.assertEqual(result["pairs"], 6)
        self.assertAlmostEqual(result["median"]["ratio"], 9 / 11)
        self.assertAlmostEqual(result["p99"]["ratio"], 0.8)
        self.assertEqual(program["missed"], [])

    def test_slower_is_missed(self):
        runs = [(1.05, [10.5]), (1.06, [10.6]), (1.07, [10.7])], [(1.0, [10.0])] * 3
        found = {"expandable": torch_compare.compare(*runs)}
        missed = list(torch_compare.goals_missed([], found))
        self.assertEqual(len(missed), 2, missed)


@unittest.skipUnless(PLUGIN, "no plug-in")
class Whole(unittest.TestCase):
    def run_all(self, *flags):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "result.json")
            environment = {**os.environ, "PYTHONPATH": os.path.join(SOURCE, "tests", "torch", "stub"),
                           "VRAM_CUDA_LIBRARY": FAKE_CUDA, "FAKE_CUDA_MEMORY": str(64 << 30),
                           "FAKE_CUDA_DEVICES": "1", "PYTHONDONTWRITEBYTECODE": "1"}
            said = subprocess.run([sys.executable, os.path.join(SOURCE, "bench", "torch_run.py"),
                                   "--programs", "serve_kv_cache", "--plugin", PLUGIN, "--json", path,
                                   "--budget-seconds", "200", *flags], capture_output=True,
                                  text=True, env=environment, check=False)
            self.assertIn("serve_kv_cache", said.stdout, said.stderr)
            table = subprocess.run([sys.executable, os.path.join(SOURCE, "bench", "torch_table.py"), path],
                                   capture_output=True, text=True, check=True).stdout
            self.assertIn("| serve_kv_cache", table)
            with open(path, encoding="utf-8") as stream:
                return json.load(stream)["programs"][0]

    def test_largest(self):
        program = self.run_all("--largest", "--limits", "1,2", "--modes", "vram")
        results = program["modes"]["vram"]["limits"]
        self.assertTrue(0 < 1.8 * results[0]["largest"] < results[1]["largest"], results)
        self.assertTrue(all(each["per_second"] > 0 for each in results))

    def test_pairs(self):
        program = self.run_all("--pairs", "1", "--modes", "vram")
        self.assertEqual(program["against"]["default"]["pairs"], 1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
