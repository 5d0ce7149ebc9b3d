#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""python_test.py BUILD: stacks of Python programs under `vram run`, with every interpreter from 3.8 on that is here:
this one, python3.N in the path, those of pyenv, and those that VRAM_TEST_PYTHONS names, separated by colons.
"""
import glob
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "viewer"))
import page_data  # noqa: E402
from run_test import ENVIRONMENT, ROOT, VRAM, vram  # noqa: E402

FRAMES = os.path.join(ROOT, "tests", "run", "python_frames.py")
UTF8 = {"PYTHONUTF8": "1", "PYTHONIOENCODING": "utf-8:surrogateescape", "PYTHONDONTWRITEBYTECODE": "1"}
LIMITS = {1: 0x80, 2: 0x100, 3: 0x10000, 4: 0x110000}  # of characters that take so many bytes


def pythons():
    found = {}
    names = [sys.executable, *filter(None, os.environ.get("VRAM_TEST_PYTHONS", "").split(":")),
             *(shutil.which(f"python3.{minor}") for minor in range(8, 16)),
             *sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python3")))]
    for name in filter(None, names):
        show = "import ctypes, sys; print(sys.hexversion >> 16, sys.version)"
        run = subprocess.run([name, "-c", show], text=True, capture_output=True, check=False, timeout=30)
        if run.returncode == 0 and int(run.stdout.split()[0]) >= 0x308:
            found.setdefault(run.stdout.split()[0], name)  # one of each minor version
    return found.values()


def frame_text(function, file, line):
    """What a stack says of a frame: what fits, of a path the end."""
    def most(text, bytes_):
        return (bytes_ - 4) // min(width for width in (1, 2, 3, 4) if max(map(ord, text), default=0) < LIMITS[width])

    def clean(text):
        return re.sub("[\0-\x1f\x7f\ud800-\udfff]", "?", text)
    name = clean(function[:most(function, 96)])
    kept = most(file, 256 - 24 - len(name.encode()))
    return f"{name} ({'...' if len(file) > kept else ''}{clean(file[max(len(file) - kept, 0):])}:{line})"


def frames_in(trace):
    """The frames of Python code below the program's `take` to the bytes of blocks that have them."""
    run = subprocess.run([VRAM, "report", "--json", trace], env=ENVIRONMENT, text=True, capture_output=True,
                         check=False)
    found = {}
    for group in json.loads(run.stdout)["groups"]:
        if not group["live_bytes"]:  # the context's
            continue
        own = [re.fullmatch(r"\S+ \(.*:[0-9]+\)", frame) is not None for frame in group["frames"]]
        native = own.index(True) if True in own else len(own)
        assert all(own[native:]), group["frames"]
        if True in own:  # and nothing of the interpreter before them
            assert not any("_PyEval" in frame for frame in group["frames"][:native]), group["frames"]
            assert group["frames"][native].startswith("take ("), group["frames"]
        key = tuple(group["frames"][native + 1:])
        found[key] = found.get(key, 0) + group["live_bytes"]
    return found


LINES = """\
import ctypes
driver, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
assert driver.cuInit(0) == 0 and driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert driver.cuCtxSetCurrent(context) == 0
def leak():
    assert driver.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(2 << 20)) == 0
leak()
"""


def test_reports(folder):
    """Every view has the frames; the one for people those of Python first of all."""
    program, trace = f"{folder}/program.py", f"{folder}/lines.vrt"
    with open(program, "w", encoding="utf-8") as stream:
        stream.write(LINES)
    stack = [f"leak ({program}:6)", f"<module> ({program}:7)"]
    text = vram("-o", trace, "--", sys.executable, program).stderr
    assert "\n    ".join(["  stack", *stack]) in re.sub(r"^(  stack) .*\n.*$", r"\1", text, flags=re.M), text
    document = json.loads(vram("--json", "-o", trace, "--", sys.executable, program).stdout)
    groups = document["processes"][0]["device_memory"]["groups"]
    assert [group["frames"][-2:] for group in groups if group["never_freed_bytes"]] == [stack], document

    def report(*words):
        return subprocess.run([VRAM, "report", trace, *words], env=ENVIRONMENT, text=True, capture_output=True,
                              check=True).stdout
    assert f" at leak ({program}:6)" in " ".join(report().split()), report()
    assert report("--stacks").startswith(";".join(reversed(stack)) + ";"), report("--stacks")
    report("--html", f"{folder}/page.html")
    with open(f"{folder}/page.html", encoding="utf-8") as stream:
        assert stack[0] in json.dumps(page_data.read(stream.read())[0])
    report("--format", "memory_viz", "-o", f"{folder}/lines.pickle")
    with open(f"{folder}/lines.pickle", "rb") as stream:
        events = [event for trace_ in pickle.load(stream)["device_traces"] for event in trace_]
    frames = [event["frames"] for event in events if event["action"] == "alloc" and event["size"] == 2 << 20]
    assert [frame[-2:] for frame in frames] == [[{"name": "leak", "filename": program, "line": 6},
                                                 {"name": "<module>", "filename": program, "line": 7}]], frames


def test_frames(folder):
    """Stacks of Python code have its frames, as the interpreter says them, in place of the interpreter's own."""
    for python in pythons():
        out = vram("-q", "-o", f"{folder}/frames.vrt", "--", python, FRAMES, more=UTF8).stdout
        version, has_lock, expected = json.loads(out)
        known = has_lock and (3, 9) <= tuple(int(number) for number in version.split(".")[:2]) <= (3, 14)
        wanted = {}
        for size, frames in expected.items():
            key = tuple(frame_text(*frame) for frame in frames if known)
            wanted[key] = wanted.get(key, 0) + int(size)
        found = frames_in(f"{folder}/frames.vrt")
        for key in wanted.keys() | found.keys():
            assert wanted.get(key) == found.get(key), (version, key, wanted.get(key), found.get(key))
        for _ in range(3):  # while it ends, in threads too: no crash
            vram("-q", "-o", f"{folder}/end.vrt", "--", python, FRAMES, "end", more=UTF8)
        print(f"  Python {version}{'' if has_lock else ' without a lock'}: {len(expected)} stacks, {len(found)} of them "
              f"different, {sum(len(key) for key in found)} frames")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder_:
        test_reports(folder_)
        test_frames(folder_)
