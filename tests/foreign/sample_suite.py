# SPDX-License-Identifier: Apache-2.0
"""A suite for foreign_test.py, whose tests fail, crash and hang; some of them on libvram alone."""
import ctypes
import os
import sys
import threading
import time
import unittest

import pytest

VRAM = os.environ["FOREIGN_MODE"] == "vram"


@pytest.mark.parametrize("n", range(6))
def test_passes(n):
    pass


def test_fails():
    assert VRAM is None, "first words\nmiddle\nlast words"


def test_fails_on_vram():
    assert not VRAM, "first words\nmiddle\nlast words"


def test_crashes():
    os.abort()


def test_crashes_on_vram():
    if VRAM:
        print("words before the end", file=sys.__stderr__, flush=True)
        os.abort()


def test_hangs_on_vram():
    """With the lock of the interpreter held, as in a call of a library that never returns."""
    if VRAM:
        ctypes.PyDLL(None).pause()


def test_skipped_on_vram():
    if VRAM:
        pytest.skip("not on libvram")


@pytest.mark.xfail(strict=True)
def test_expected_to_fail():
    assert False


@pytest.fixture
def broken():
    yield
    assert not VRAM


def test_teardown_on_vram(broken):
    pass


class TestUnit(unittest.TestCase):
    def test_leaves_a_thread(self):
        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
