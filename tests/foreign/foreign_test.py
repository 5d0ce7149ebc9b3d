#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""foreign_test.py ROOT: bench/foreign/run.py on suites that are made here, without a GPU.

Tests that fail, crash and hang cost themselves alone, each is named with its reason, and the rest is run; delays come
where they should. Without pytest and pytest-xdist nothing is run.
"""
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TABLE = """
import importlib.util
spec = importlib.util.spec_from_file_location("real_suites", {path!r})
real = importlib.util.module_from_spec(spec)
import sys
sys.modules["real_suites"] = real
spec.loader.exec_module(real)
SUITES = (
    real.Suite("one", "plain", "suite", (("test_one.py",), ("test_alone.py",)), test_seconds=4, processes=2,
               deselect=("test_one.py::test_passes[5]",)),
    real.Suite("late", "plain", "suite", (("test_late.py",),), seconds=6, test_seconds=60),
    real.Suite("torch", "torch", "suite", (("test_delays.py",),), native_package="torch_package"),
    real.Suite("stood_in", "plain", "suite", (("test_stood_in.py",),), native_package="saver",
               stand_in=({stand_in!r}, "saver/saver/more.py")),
)
"""
WORSE = {
    "test_fails_on_vram": ("failed", "first words ... assert not True"),
    "test_crashes_on_vram": ("crashed", "words before the end | Fatal Python error: Aborted"),
    "test_hangs_on_vram": ("hung", "Timeout"),
    "test_skipped_on_vram": ("skipped", "not on libvram"),
    "test_teardown_on_vram": ("failed", "assert not True"),
}
# Like the parts of PyTorch that foreign_plugin.py changes, with a list of what was submitted.
FAKE_TORCH = """
submitted = []

class cuda:
    class Stream:
        def __init__(self, number):
            self.cuda_stream = number
        def wait_event(self, event):
            submitted.append(("wait", self.cuda_stream))
    class CUDAGraph:
        def capture_begin(self, refused=False):
            if refused:
                raise RuntimeError("refused")
        def capture_end(self):
            pass
    def set_stream(stream):
        cuda.now = stream
    def current_stream():
        return cuda.now
    def is_current_stream_capturing():
        return cuda.now.cuda_stream == 9
    def _sleep(cycles):
        submitted.append(("sleep", cuda.now.cuda_stream, cycles))

cuda.now = cuda.Stream(0)
"""
TEST_DELAYS = """
import torch

def test_delays():
    side, taken = torch.cuda.Stream(7), torch.submitted
    torch.cuda.set_stream(side)
    assert taken == [("sleep", 7, 3_000_000)]
    torch.cuda.set_stream(torch.cuda.Stream(0))
    assert len(taken) == 1
    torch.cuda.Stream(8).wait_event(None)
    assert taken[1:] == [("wait", 8), ("sleep", 8, 3_000_000)] and torch.cuda.now.cuda_stream == 0
    torch.cuda.set_stream(torch.cuda.Stream(9))
    graph = torch.cuda.CUDAGraph()
    graph.capture_begin()
    torch.cuda.set_stream(side)
    assert len(taken) == 3
    graph.capture_end()
    try:
        graph.capture_begin(refused=True)
    except RuntimeError:
        pass
    torch.cuda.set_stream(side)
    assert len(taken) == 4
"""


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(text)


def make_suites(root, folder):
    write(os.path.join(folder, "table.py"), TABLE.format(
        path=os.path.join(root, "bench", "foreign", "suites.py"), stand_in=os.path.join(folder, "ours", "saver")))
    write(os.path.join(folder, "suite", "test_stood_in.py"), "import os\nimport saver\nimport saver.more\n\n"
          "def test_whose():\n    assert saver.WHOSE == os.environ['FOREIGN_MODE']\n")
    for place, whose in (("saver", "native"), ("ours", "vram")):
        write(os.path.join(folder, place, "saver", "__init__.py"), f"WHOSE = '{whose}'\n")
    write(os.path.join(folder, "saver", "saver", "more.py"), "")
    shutil.copy(os.path.join(HERE, "sample_suite.py"), os.path.join(folder, "suite", "test_one.py"))
    write(os.path.join(folder, "suite", "test_alone.py"), "def test_more():\n    pass\n")
    write(os.path.join(folder, "suite", "test_late.py"), "import time\n\ndef test_quick():\n    pass\n\n"
          "def test_slow():\n    time.sleep(100)\n")
    write(os.path.join(folder, "suite", "test_delays.py"), TEST_DELAYS)
    write(os.path.join(folder, "torch_package", "torch.py"), FAKE_TORCH)


def run(root, folder, *flags):
    done = subprocess.run([sys.executable, os.path.join(root, "bench", "foreign", "run.py"), folder, "--table",
                           os.path.join(folder, "table.py"), "--json", os.path.join(folder, "results.json"), *flags],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    print(done.stdout)
    with open(os.path.join(folder, "results.json"), encoding="utf-8") as stream:
        return done.returncode, done.stdout, json.load(stream)["suites"]


def outcomes(result):
    return {name.split("::")[-1]: test["outcome"] for name, test in result["tests"].items()}


def check_one(root, folder):
    run(root, folder, "--suites", "one", "--modes", "native")
    code, said, suites = run(root, folder, "--suites", "one", "--modes", "vram")  # keeps what was run natively
    native, vram = outcomes(suites["one"]["native"]), outcomes(suites["one"]["vram"])
    assert code == 1
    assert len(native) == len(vram) == 15 and not suites["one"]["vram"]["missing"], (native, vram)
    assert {name for name, outcome in native.items() if outcome != "passed"} == {
        "test_fails", "test_crashes", "test_expected_to_fail"}, native
    assert native["test_crashes"] == vram["test_crashes"] == "crashed"
    lines = [line for line in said.splitlines() if line.startswith("worse: ")]
    assert len(lines) == len(WORSE), lines
    for name, (outcome, reason) in WORSE.items():
        assert any(f"::{name}: passed, {outcome}: " in line and reason in line for line in lines), (name, lines)
    assert "| one | 12, 1, 1, 0 | 7, 3, 2, 1 | 5 |" in said


def check_rest(root, folder):
    _, said, suites = run(root, folder, "--suites", "late", "--modes", "native")
    assert outcomes(suites["late"]["native"]) == {"test_quick": "passed"}
    assert suites["late"]["native"]["missing"] == ["test_late.py::test_slow"] and "(1 not reached)" in said
    _, _, suites = run(root, folder, "--suites", "torch", "--modes", "native", "--delay", "1.5")
    assert outcomes(suites["torch"]["native"]) == {"test_delays": "passed"}
    _, _, suites = run(root, folder, "--suites", "stood_in")
    assert [outcomes(suites["stood_in"][mode]) for mode in ("native", "vram")] == 2 * [{"test_whose": "passed"}]
    refused = subprocess.run([sys.executable, os.path.join(root, "bench", "foreign", "run.py"), folder, "--suites",
                              "none"], stderr=subprocess.PIPE, text=True, check=False)
    assert refused.returncode == 2 and "unknown: none; the suites are torch, trees" in refused.stderr


def main():
    root = os.path.abspath(sys.argv[1])
    if not all(importlib.util.find_spec(name) for name in ("pytest", "xdist")):
        print("skipped: no pytest, or no pytest-xdist")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        make_suites(root, folder)
        check_one(root, folder)
        check_rest(root, folder)
    print("foreign suites: natively and on libvram, with crashes, hangs and delays")
    return 0


if __name__ == "__main__":
    sys.exit(main())
