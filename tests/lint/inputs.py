#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""inputs.py ROOT | --self-test: no public call goes without a test of bad input.

A call that takes a handle stands in the conformance suite's batteries of handles that are none (NULL,
stale, made up, of another kind); one that takes a pointer for its result, or to read from, is tried with
NULL in a unit test.
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
BOUNDS = ("tests/unit/test_bounds.c", "tests/unit/test_error.c", "tests/unit/test_extension.c", "tests/unit/test_pool_bounds.c", "tests/unit/test_json.c",
          "tests/unit/test_memory.c", "tests/unit/test_size.c", "tests/unit/test_limits.c",
          "tests/unit/test_pressure.c", "tests/unit/test_release.c", "tests/unit/test_tags.c",
          "tests/unit/test_stats_sum.c", "tests/unit/test_stats_write.c", "tests/unit/test_metrics.c", "tests/unit/test_buffer.c", "tests/unit/test_growth.c",
          "tests/unit/test_scope.c", "tests/unit/test_foreign.c", "tests/unit/test_batch.c",
          "tests/unit/test_auto.c", "tests/unit/test_recorder.c", "tests/unit/test_named.c",
          "tests/unit/test_buffer_kinds.c", "tests/unit/test_buffer_fallback.c",
          "tests/unit/test_live.c", "tests/unit/test_leaks.c", "tests/unit/test_labels.c",
          "tests/unit/test_scheduler.c", "tests/unit/test_distance.c",
          "tests/unit/test_inference.c", "tests/unit/test_async.c",
          "tests/unit/test_transfer_stats.c", "tests/unit/test_transfer.c",
          "tests/unit/test_ring_bounds.c", "tests/unit/test_ring.c", "tests/unit/test_visibility.c",
          "tests/unit/test_model_config.c", "tests/unit/test_stream_set.c",
          "tests/unit/test_readback.c", "tests/unit/test_feed.c",
          "tests/unit/test_model_estimate.c", "tests/unit/test_share.c", "tests/unit/test_lease.c",
          "tests/unit/test_remote_bounds.c")
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
    found = []
    for path in sorted(p for p in files if p.startswith(HEADERS) and p.endswith(".h")):
        for name, parameters in prototypes(tree.read(root, path)):
            handles = [p for p in parameters if HANDLE.match(p)]
            others = [p for p in parameters if "*" in p and p not in handles]
            if handles and name not in batteries:
                found.append(f"{path}: {name} is not tried with handles that are none: "
                             f"{BATTERIES[0]}")
            if others and name not in NULL_IS_GOOD and \
                    not any("NULL" in call for call in bounds.get(name, [])):
                found.append(f"{path}: {name} is not tried with NULL: {BOUNDS[0]}")
    return found


CLEAN = {
    "include/vram/device.h": "VRAM_API vram_status vram_device_get(vram_device *device,\n"
                             "                                     uint64_t *bytes);\n",
    "cli/check/cases_handle.c": "REFUSES(vram_device_get(device, &bytes));\n",
    "tests/unit/test_bounds.c": "INVALID(vram_device_get(world.device, NULL));\n",
}
VIOLATIONS = [
    ("handles that are none", {"cli/check/cases_handle.c": "int x;\n"}),
    ("with NULL", {"tests/unit/test_bounds.c": "ok(vram_device_get(world.device, &bytes));\n"}),
    ("with NULL", {"include/vram/base.h": "VRAM_API void vram_text_parse(const char *text);\n"}),
    ("handles that are none", {"include/vram/queue.h":
                               "VRAM_API void vram_queue_end(vram_queue *queue);\n"}),
]

if __name__ == "__main__":
    if sys.argv[1] == "--self-test":
        tree.finish(tree.self_test(check, CLEAN, VIOLATIONS))
    tree.finish(tree.report(check(sys.argv[1])))
