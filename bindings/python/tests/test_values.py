# SPDX-License-Identifier: Apache-2.0
"""Sizes, names, errors: what needs no device."""
import unittest

import vram
from vram.errors import BY_STATUS
from vram.generated import api


class Sizes(unittest.TestCase):
    def test_ints_and_texts(self):
        self.assertEqual(vram.size("2GiB"), 2 << 30)
        self.assertEqual(vram.size("1.5K"), 1536)
        self.assertEqual(vram.size(2**64 - 1), 2**64 - 1)
        self.assertEqual(vram.size_text(3 << 20), "3.00 MiB")

    def test_what_is_not_a_size(self):
        for value in ("", "2 QiB", "-1", -1, 1.5, True, None, [1], b"4"):
            with self.subTest(value=value), self.assertRaises(vram.InvalidError):
                vram.size(value)
        for value in (2**64, "17E"):
            with self.subTest(value=value), self.assertRaises(vram.SizeOverflowError):
                vram.size(value)


class Errors(unittest.TestCase):
    def test_every_status_has_a_class_of_its_own(self):
        statuses = {value for name, value in vars(api).items() if name.startswith("VRAM_ERR_")
                    and isinstance(value, int) and name != "VRAM_ERROR_TEXT_MAX"}
        self.assertEqual(statuses - set(BY_STATUS), set())
        self.assertEqual(len(set(BY_STATUS.values())), len(BY_STATUS))
        for kind in BY_STATUS.values():
            self.assertTrue(issubclass(kind, vram.Error))

    def test_they_are_what_python_expects(self):
        self.assertTrue(issubclass(vram.DeviceMemoryError, MemoryError))
        self.assertTrue(issubclass(vram.TimeoutError, TimeoutError))
        self.assertTrue(issubclass(vram.InvalidError, ValueError))
        self.assertTrue(issubclass(vram.SystemCallError, OSError))

    def test_a_status_without_a_class_is_an_error(self):
        from vram.errors import exception_for
        self.assertIs(type(exception_for(-77, "new", "", "", 0, None)), vram.Error)
        self.assertEqual(exception_for(-77, "new", "", "", 0, None).status_name, "VRAM_ERR_UNKNOWN")

    def test_the_operation_and_the_name(self):
        with self.assertRaises(vram.InvalidError) as caught:
            vram.Context(backends="nvidia")
        self.assertEqual(caught.exception.operation, "vram_context_create")
        self.assertEqual(caught.exception.status_name, "VRAM_ERR_INVALID")
        self.assertIn("nvidia", str(caught.exception))

    def test_a_text_with_a_zero_is_refused(self):
        with self.assertRaises(vram.InvalidError):
            vram.Context(backends="host\0cuda")


class Options(unittest.TestCase):
    def test_options_are_set_and_restored(self):
        before = vram.options()["wait_timeout"]
        vram.set_option("wait_timeout", "3s")
        self.assertNotEqual(vram.options()["wait_timeout"], before)
        vram.set_option("wait_timeout", None)
        self.assertEqual(vram.options()["wait_timeout"], before)
        with self.assertRaises(vram.InvalidError):
            vram.set_option("no_such_option", "1")

    def test_the_log_calls_a_function(self):
        lines = []
        vram.log(lambda level, text: lines.append((level, text)), "debug")
        try:
            with vram.Context(backends="metal"):
                pass
        finally:
            vram.log(None)
        self.assertTrue(any("metal" in text for _, text in lines), lines)
        with self.assertRaises(vram.InvalidError):
            vram.log(None, "loud")


if __name__ == "__main__":
    unittest.main()
