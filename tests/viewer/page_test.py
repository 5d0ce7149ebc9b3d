#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""page_test.py VRAM TOOLS: the page of a trace says what `vram report --json` says, and is one safe file."""
import json
import math
import os
import pickle
import re
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import page_data  # noqa: E402

VRAM, TOOLS = sys.argv[1:3]
MIB = 1 << 20


def run(*command, **settings):
    done = subprocess.run(command, env={**os.environ, **settings}, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.trace = os.path.join(cls.folder.name, "training.vrt")
        code, _, errors = run(TOOLS, "viewer_training", "30", VRAM_TRACE=cls.trace, VRAM_TRACK_STACKS="1", VRAM_TRACE_SAMPLE="1ms")
        assert code == 0, errors
        cls.html = cls.page(cls.trace)
        cls.meta, cls.arrays = page_data.read(cls.html)
        cls.report = json.loads(run(VRAM, "report", cls.trace, "--json")[1])

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def page(cls, *traces, verb=("report",)):
        to = os.path.join(cls.folder.name, "page.html")
        code, _, errors = run(VRAM, *verb, *traces, "--html", to)
        assert code == 0, errors
        with open(to, encoding="utf-8") as file:
            return file.read()

    def test_peak_is_that_of_the_report(self):
        self.assertEqual(self.meta["peak_bytes"], self.report["peak"]["bytes"])
        self.assertEqual(self.meta["begin"] + self.meta["peak_time"], self.report["peak"]["time_ns"])
        self.assertEqual(max(self.arrays["total"]), float(self.meta["peak_bytes"]))

    def page_of_csv(self, lines):
        trace = os.path.join(self.folder.name, "made.csv")
        with open(trace, "w", encoding="utf-8") as file:
            file.write("op,id,bytes,stream,t_us\n" + "".join(line + "\n" for line in lines))
        return page_data.read(self.page(trace))

    def page_of_snapshot(self, entries):
        trace = os.path.join(self.folder.name, "made.pickle")
        with open(trace, "wb") as file:
            pickle.dump({"segments": [], "device_traces": [entries]}, file, protocol=4)
        return page_data.read(self.page(trace))

    def test_events_have_a_width_that_their_time_has_not(self):
        """A peak of three microseconds in a second, made of half of the events."""
        lines = [f"a,{i},1000,1,{i * 5000}" for i in range(100)]
        lines += [f"a,{i},100000,1,{500000 + i % 3}" for i in range(100, 150)] + [f"f,{i},,1,500003" for i in range(100, 150)]
        meta, arrays = self.page_of_csv([*lines, "f,1,,1,1000000"])
        bins, step = meta["bins"], 0
        events = [(step := step + part) / meta["past_parts"] for part in arrays["past"]]
        times = [2 * i / bins - part for i, part in enumerate(events)]
        self.assertEqual((meta["steps"], events[0], events[-1]), (201, 0, 1))
        for axis in (events, times):
            self.assertGreater(min(b - a for a, b in zip(axis, axis[1:])), -2 / meta["past_parts"])
            self.assertLess(max(b - a for a, b in zip(axis, axis[1:])), 2.1 / bins)
        high = [i for i in range(bins) if arrays["total"][i] > meta["peak_bytes"] / 10]
        self.assertAlmostEqual(sum(events[i + 1] - events[i] for i in high), 0.47, delta=0.02)
        self.assertLess(sum(times[i + 1] - times[i] for i in high), 0.001)
        at = (meta["peak_time"] / (meta["span"] + 1) + meta["peak_step"] / (meta["steps"] + 1)) / 2
        self.assertEqual(arrays["total"][int(at * bins)], meta["peak_bytes"])

    def test_end_is_what_was_never_freed(self):
        """More events in the last part of the trace than it can show one by one."""
        lines = [f"{op},{i},4096,1,{10 + i}" for i in range(20000) for op in "af"]
        meta, arrays = self.page_of_csv(["a,99999,1024,1,0", *lines])
        sizes = meta["groupings"][3]
        left = {sizes["columns"][i]: arrays[f"size.{i}"][meta["bins"]] for i in range(1, len(sizes["columns"]))}
        self.assertEqual(left, {"1 KiB and more": 1024, "4 KiB and more": 0})
        self.assertEqual(arrays["total"][meta["bins"]], 1024)

    def test_more_than_a_page_has_room_for(self):
        """What is left out becomes "all others", and nothing is lost from the sums."""
        entries = [{"action": action, "addr": 4096 * i, "size": 1000 + i, "stream": i % 400, "time_us": i + late,
                    "user_metadata": f"tag {i % 100}", "pool_id": (1 + i % 300, 0),
                    "frames": [{"name": f"f{i}", "filename": "own.py", "line": i}]}
                   for late, action, first in ((0, "alloc", 1), (4000, "free_completed", 2), (8000, "alloc", 2))
                   for i in range(first, 3500, first)]
        entries += [{"action": "snapshot", "addr": 0, "size": 0, "stream": 0, "time_us": 12000 + i, "frames": []} for i in range(5000)]
        meta, arrays = self.page_of_snapshot(entries)
        self.assertEqual(meta["peak_bytes"], sum(1000 + i for i in range(1, 3500)))
        self.assertLess(len(meta["notes"]), 5000)
        for grouping in meta["groupings"]:
            columns = [arrays[f"{grouping['name']}.{i}"] for i in range(len(grouping["columns"]))]
            self.assertLess(len(columns), 40)
            for i in range(0, meta["bins"], 37):
                self.assertAlmostEqual(sum(column[i] for column in columns), arrays["total"][i], delta=10)

    def test_streams_have_their_names(self):
        entries = [{"action": "alloc", "addr": 4096 * (i + 1), "size": 4096, "stream": i * 0x5500, "time_us": i, "frames": []}
                   for i in range(2)]
        for made, names in ((self.page_of_snapshot(entries), {"default stream", "stream 1"}),
                            (self.page_of_csv(["a,1,4,7,0", "a,2,4,9,0"]), {"stream 1", "stream 2"})):
            self.assertEqual({row["name"] for row in made[0]["groupings"][2]["rows"]}, names)

    def test_names_do_not_say_where_packages_lie(self):
        frames = [{"name": "forward", "filename": "/v/lib/python3.11/site-packages/torch/nn/linear.py", "line": 7},
                  {"name": "step", "filename": "train.py", "line": 9}]
        meta = self.page_of_snapshot([{"action": "alloc", "addr": 4096, "size": 512, "stream": 0, "time_us": 1,
                                       "frames": frames}])[0]
        self.assertEqual(meta["groupings"][1]["rows"][0]["name"], "forward (torch/nn/linear.py:7), from step (train.py:9)")

    def test_columns_add_up(self):
        for grouping in self.meta["groupings"]:
            columns = [self.arrays[f"{grouping['name']}.{i}"] for i in range(len(grouping["columns"]))]
            for i in range(0, self.meta["bins"], 37):
                self.assertAlmostEqual(sum(column[i] for column in columns), self.arrays["total"][i], delta=MIB / 100)

    def test_tags_and_leaks(self):
        tags = {row["name"]: row for row in self.meta["groupings"][0]["rows"]}
        self.assertEqual(tags["loss"]["left"], 30 * MIB)
        self.assertEqual(tags["loss"]["blocks"], 30)
        self.assertEqual(tags["model/activations"]["left"], 0)
        self.assertEqual(tags["model/weights"]["peak"], sum(8 + i for i in range(12)) * MIB)
        self.assertEqual(len(self.meta["groupings"][2]["rows"]), 2)

    def test_moments_add_up_to_the_peak(self):
        values, most, at = {}, 0, 0
        for changes in self.arrays["moment.changes"][:-1]:
            for i in range(at, at + changes):
                values[self.arrays["change.stack"][i]] = self.arrays["change.bytes"][i]
            at += changes
            most = max(most, sum(values.values()))
        self.assertEqual(most, self.meta["peak_bytes"])

    def test_stacks_name_functions_of_the_program(self):
        frames = " ".join(frame for stack in self.meta["stacks"] for frame in stack["frames"])
        for name in ("load_weights", "forward", "backward", "keep_loss"):
            self.assertIn(name, frames)

    def test_blocks_lie_in_the_ranges(self):
        self.assertEqual(self.meta["kept"], self.meta["blocks"])
        self.assertEqual(self.meta["merged"], 0)
        for place, size in zip(self.arrays["block.place"], self.arrays["block.bytes"]):
            self.assertLessEqual(place + size, self.meta["place_bytes"])
        for begin, end in zip(self.arrays["block.begin"], self.arrays["block.end"]):
            self.assertLessEqual(begin, end)

    def test_held_is_never_below_live(self):
        for held, live in zip(self.arrays["held"], self.arrays["total"]):
            self.assertTrue(math.isnan(held) or held >= live)

    def test_refusal_is_noted(self):
        refused = [note for note in self.meta["notes"] if note["status"]]
        self.assertEqual([note["bytes"] for note in refused], [600 * MIB, 900 * MIB])

    def test_refusal_says_who_held_what_and_what_steps_gave(self):
        ladder, large = (note["refusal"] for note in self.meta["notes"] if note["status"])
        weights = sum(8 + i for i in range(12)) * MIB
        for refusal, losses in ((ladder, 11), (large, 16)):
            self.assertEqual(refusal["live"], weights + losses * MIB)
            self.assertEqual(sum(refusal["tags"]), refusal["live"])
            self.assertEqual(sum(stack["bytes"] for stack in refusal["stacks"]), refusal["live"])
            self.assertEqual(refusal["pool"], "training")
            self.assertRegex(" < ".join(refusal["frames"]), "refuse.* < tools_viewer_training")
            report = refusal["report"]
            self.assertEqual(report["limit"], 700 * MIB)
            self.assertEqual({holder["tag"]: holder["bytes"] for holder in report["holders"]},
                             {"model/weights": weights, "loss": losses * MIB})
            self.assertIn("raise", report["advice"])
            self.assertIn("out of memory", report["summary"])
        steps = {step["name"]: step for step in ladder["report"]["steps"]}
        self.assertGreater(steps["cleanup"]["bytes"], 100 * MIB)
        self.assertEqual([step["name"] for step in large["report"]["steps"]], ["fallback"])

    def test_oom_of_a_snapshot(self):
        frames = [{"name": "step", "filename": "train.py", "line": 7}]
        entries = [{"action": "alloc", "addr": 4096 * (i + 1), "size": 4096, "stream": 0, "time_us": 10 + i,
                    "frames": frames} for i in range(5)]
        entries += [{"action": action, "addr": 1 << 30, "size": 8, "stream": 0, "time_us": 15,
                     "frames": [{"name": f"f{i}", "filename": "all.py", "line": i}]}
                    for i in range(1100) for action in ("alloc", "free_requested", "free_completed")]
        entries.append({"action": "oom", "size": 1 << 30, "stream": 0, "time_us": 20, "device_free": 12345,
                        "frames": [{"name": "asks", "filename": "train.py", "line": 8}]})
        meta = self.page_of_snapshot(entries)[0]
        refusal = meta["notes"][0]["refusal"]
        self.assertEqual((refusal["live"], refusal["device_free"]), (5 * 4096, 12345))
        self.assertEqual(refusal["frames"], ["asks (train.py:8)"])  # although 1,000 other stacks had more
        self.assertEqual(refusal["pool"], "GPU 0")
        self.assertNotIn("report", refusal)

    def test_several_traces_are_in_one_page(self):
        other = os.path.join(self.folder.name, "other.vrt")
        run(TOOLS, "viewer_training", "12", VRAM_TRACE=other, VRAM_TRACK_STACKS="1")
        both = page_data.read_all(self.page(self.trace, other))
        self.assertEqual([meta["report"]["file"] for meta, _ in both], [self.trace, other])
        alone = page_data.read(self.page(other))
        self.assertEqual(both[1][1]["total"], alone[1]["total"])
        self.assertGreater(both[1][0]["date_us"], both[0][0]["date_us"])
        against = page_data.read_all(self.page(self.trace, "--against", other))
        self.assertEqual([meta["report"]["file"] for meta, _ in against], [self.trace, other])

    def test_policies_of_a_replay(self):
        verb = ("replay", "--backend", "sim", "-p", "vram", "-p", "caching")
        table = json.loads(run(VRAM, *verb, self.trace, "--json")[1])["passes"]
        for source in ((self.trace,), ("--generate", "steady,steps=5")):
            html = self.page(*source, verb=verb)
            meta, arrays = page_data.read(html)
            self.assertEqual([policy["name"] for policy in meta["policies"]], ["vram", "caching"])
            for i, policy in enumerate(meta["policies"]):
                self.assertEqual(max(arrays[f"policy.{i}"]), float(policy["held_bytes"]))
            self.assertEqual(max(arrays["policy.asked"]), max(arrays["total"]))
        meta = page_data.read(self.page(self.trace, verb=verb))[0]
        self.assertEqual([policy["held_bytes"] for policy in meta["policies"]][1], table[1]["peak_reserved_bytes"])
        self.assertLess(abs(meta["policy_span"] - meta["policy_begin"] - meta["span"]), 2000)

    def test_one_file_without_network_and_scripts_of_others(self):
        self.assertIn("default-src 'none'", self.html)
        without = self.html.replace(page_data.payload_of(self.html), "")
        self.assertIsNone(re.search(r"https?:|src=|href=|@import|url\(", without))
        self.assertEqual(without.count("<script"), 2)

    def test_hostile_names_stay_data(self):
        trace = os.path.join(self.folder.name, "hostile.csv")
        with open(trace, "w", encoding="utf-8") as file:
            file.write("op,id,bytes,stream,t_us\na,1,18446744073709551000,1,5\na,2,1,1,5\nf,1,,1,5\n")
        page = os.path.join(self.folder.name, "</script><script>alert(1)</script>.csv".replace("/", "_"))
        os.rename(trace, page)
        html = self.page(page)
        self.assertNotIn("alert(1)", html)
        self.assertIn("alert(1)", page_data.read(html)[0]["report"]["file"])

    def test_empty_and_single_events(self):
        for text in ("", "a,1,4096,1,0\n", "a,1,4096,1,7\nf,1,,1,7\n"):
            trace = os.path.join(self.folder.name, "small.csv")
            with open(trace, "w", encoding="utf-8") as file:
                file.write("op,id,bytes,stream,t_us\n" + text)
            code, _, errors = run(VRAM, "report", trace, "--html", "/dev/null")
            self.assertEqual((code, errors), (0, ""), text)

    def test_misuse(self):
        for words, told in ((["-", "--html", "x"], "read again"), ([self.trace, "--html", self.trace], "at once"),
                            ([self.trace, "--html", "/nonexistent/x"], "No such file"),
                            ([self.trace, "--html", "x", "--json"], "neither")):
            code, _, errors = run(VRAM, "report", *words)
            self.assertEqual(code, 2, words)
            self.assertIn(told, errors)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
