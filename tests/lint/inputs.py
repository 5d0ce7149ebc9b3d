#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""inputs.py ROOT | --self-test: no public call goes without a test of bad input.

A call that takes a handle stands in the conformance suite's batteries of handles that are none (NULL,
stale, made up, of another kind); one that takes a pointer for its result, or to read from, is tried with
NULL: by the engine misuse of tests/calls, which does that with the arguments of every TRY in a row, or in a unit
test.
"""
import re
import sys

sys.dont_write_bytecode = True
import tree  # noqa: E402

HEADERS = "include/vram/"
BATTERIES = ("cli/check/cases_handle.c", "cli/check/cases_kernel.c",
             "cli/check/cases_compute.c", "cli/check/cases_ring.c",
             "cli/check/cases_stream.c",
             "cli/check/cases_readback.c", "cli/check/cases_share.c", "cli/check/cases_lease.c",
             "tests/unit/test_remote_bounds.c")  # of a library that not every build has
BOUNDS = tuple(f"tests/unit/test_{name}.c" for name in (
    "error", "extension", "memory", "limits", "metrics", "buffer", "growth", "auto", "live", "async",
    "transfer_stats", "visibility", "model_config", "model_estimate", "share", "lease", "remote_bounds",
    "shared"))
ROWS = re.compile(r"tests/calls/rows_\w+\.c$")
TRY = re.compile(r"\bTRY\(\s*(vram_\w+)")
HANDLE = re.compile(r"^vram_(context|device|queue|pool|physical|kernel|watch|monitor|buffer|"
                    r"scope|batch|trace|named|labels|scheduler|weights|ring|stream_set|readback|feed|attachment|async_work|share|lease) \*\w+$")
PROTOTYPE = re.compile(r"VRAM_API\s+[^;(]*?\b(vram_\w+)\(([^;]*?)\);", re.S)
COMMENT = re.compile(r"/\*.*?\*/", re.S)

# NULL is one of their good inputs, and tried as such.
NULL_IS_GOOD = {"vram_host_allocator_set", "vram_option_problem", "vram_log_set", "vram_status_name"}


def prototypes(text):
    for name, parameters in PROTOTYPE.findall(COMMENT.sub("", text)):
        yield name, [" ".join(p.split()) for p in parameters.split(",") if p.strip() != "void"]


def calls(root, paths, files):
    """{name: texts of its calls}, from its opening parenthesis to the end of the statement."""
    found = {}
    for path in paths:
        if path in files:
            for match in re.finditer(r"\b(vram_\w+)\(", tree.read(root, path)):
                rest = tree.read(root, path)[match.end():]
                found.setdefault(match.group(1), []).append(rest[:rest.find(";")])
    return found


def check(root):
    files = set(tree.files(root))
    batteries, bounds = calls(root, BATTERIES, files), calls(root, BOUNDS, files)
    rows = {name for path in files if ROWS.match(path) for name in TRY.findall(tree.read(root, path))}
    found = []
    for path in sorted(p for p in files if p.startswith(HEADERS) and p.endswith(".h")):
        for name, parameters in prototypes(tree.read(root, path)):
            handles = [p for p in parameters if HANDLE.match(p)]
            others = [p for p in parameters if "*" in p and p not in handles]
            if handles and name not in batteries:
                found.append(f"{path}: {name} is not tried with handles that are none: "
                             f"{BATTERIES[0]}")
            if others and name not in NULL_IS_GOOD and name not in rows and \
                    not any("NULL" in call for call in bounds.get(name, [])):
                found.append(f"{path}: {name} is not tried with NULL: a row in tests/calls")
    return found


CLEAN = {
    "include/vram/device.h": "VRAM_API vram_status vram_device_get(vram_device *device,\n"
                             "                                     uint64_t *bytes);\n",
    "cli/check/cases_handle.c": "REFUSES(vram_device_get(device, &bytes));\n",
    "tests/unit/test_error.c": "INVALID(vram_device_get(world.device, NULL));\n",
    "include/vram/pool.h": "VRAM_API vram_status vram_stats_get(vram_stats *stats);\n",
    "tests/calls/rows_pool.c": "return TRY(vram_stats_get, &w->stats);\n",
}
VIOLATIONS = [
    ("handles that are none", {"cli/check/cases_handle.c": "int x;\n"}),
    ("with NULL", {"tests/unit/test_error.c": "ok(vram_device_get(world.device, &bytes));\n"}),
    ("with NULL", {"tests/calls/rows_pool.c": "return vram_stats_get(&w->stats);\n"}),
    ("with NULL", {"include/vram/base.h": "VRAM_API void vram_text_parse(const char *text);\n"}),
    ("handles that are none", {"include/vram/queue.h":
                               "VRAM_API void vram_queue_end(vram_queue *queue);\n"}),
]

if __name__ == "__main__":
    if sys.argv[1] == "--self-test":
        tree.finish(tree.self_test(check, CLEAN, VIOLATIONS))
    tree.finish(tree.report(check(sys.argv[1])))
