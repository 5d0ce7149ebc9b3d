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
             "cli/check/cases_compute.c")
BOUNDS = ("tests/unit/test_bounds.c", "tests/unit/test_pool_bounds.c", "tests/unit/test_json.c",
          "tests/unit/test_memory.c", "tests/unit/test_size.c", "tests/unit/test_limits.c",
          "tests/unit/test_pressure.c", "tests/unit/test_release.c", "tests/unit/test_tags.c",
          "tests/unit/test_stats_sum.c", "tests/unit/test_buffer.c", "tests/unit/test_growth.c",
          "tests/unit/test_scope.c", "tests/unit/test_foreign.c", "tests/unit/test_batch.c",
          "tests/unit/test_auto.c", "tests/unit/test_recorder.c", "tests/unit/test_named.c",
          "tests/unit/test_buffer_kinds.c", "tests/unit/test_buffer_fallback.c",
          "tests/unit/test_live.c", "tests/unit/test_leaks.c", "tests/unit/test_labels.c",
          "tests/unit/test_inference.c", "tests/unit/test_async.c",
          "tests/unit/test_transfer_stats.c")
