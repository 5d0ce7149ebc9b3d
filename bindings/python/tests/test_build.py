# SPDX-License-Identifier: Apache-2.0
"""The build backend: what it reads of pyproject.toml, and what it says where nothing can be built."""
import email
import os
import sys
import unittest
from unittest import mock

import vram

from . import TREE

sys.path.insert(0, os.path.join(TREE, "bindings", "python"))
import vram_build  # noqa: E402

try:
    import tomllib
except ImportError:  # before Python 3.11
    tomllib = None


class Metadata(unittest.TestCase):
    @unittest.skipUnless(tomllib, "no reader of TOML to compare with")
    def test_pyproject_is_read_as_toml_is(self):
        with open(os.path.join(vram_build.HERE, "pyproject.toml"), "rb") as file:
            whole = tomllib.load(file)
        tables = vram_build.project()
        self.assertEqual(tables["build-system"], whole["build-system"])
        for name, table in tables.items():
            if name.startswith("project"):
                found = whole
                for part in name.split(".", 2):
                    found = found[part]
                self.assertEqual(table, {key: found[key] for key in table}, name)
        self.assertEqual(set(tables["project"]) | {"scripts", "entry-points"}, set(whole["project"]))

    def test_an_index_finds_what_it_shows(self):
        about = email.message_from_string(vram_build._metadata({"home": "https://example.org/vram/"}))
        self.assertEqual((about["Name"], about["Version"]), ("vram", vram.__version__))
        self.assertIn("Homepage, https://example.org/vram", about.get_all("Project-URL"))
        self.assertIn("Typing :: Typed", about.get_all("Classifier"))
        self.assertIn("import vram", about.get_payload())

    def test_the_debian_package_has_the_same_names(self):
        folder = os.path.join(vram_build.HERE, "vram.egg-info")
        with open(os.path.join(folder, "entry_points.txt"), encoding="utf-8") as file:
            self.assertEqual(file.read(), vram_build._entry_points())
        with open(os.path.join(folder, "PKG-INFO"), encoding="utf-8") as file:
            debian, ours = email.message_from_file(file), email.message_from_string(vram_build._metadata(None))
        for field in ("Name", "Version", "Summary", "Requires-Python"):
            self.assertEqual(debian[field], ours[field])


class Refusals(unittest.TestCase):
    def refused(self, name, value, text):
        with mock.patch.object(vram_build.sys, name, value), self.assertRaisesRegex(SystemExit, text), \
                mock.patch.dict(os.environ), mock.patch.object(vram_build, "compile_into", self.fail):
            os.environ.pop("LIBVRAM_BUILD_DIR", None)
            vram_build._build(None, os.devnull)

    def test_a_platform_that_nothing_can_be_built_for(self):
        self.refused("platform", "win32", "WSL 2")
        self.refused("maxsize", 2 ** 31 - 1, "64-bit Python")
