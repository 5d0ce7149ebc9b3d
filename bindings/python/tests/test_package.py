# SPDX-License-Identifier: Apache-2.0
"""The sources themselves: Python 3.9's syntax, type hints, docstrings, and the examples in them."""
import ast
import doctest
import importlib
import importlib.util
import os
import pkgutil
import subprocess
import sys
import unittest

import vram

from . import PACKAGE, TREE

ADAPTERS = ("cupy", "numba", "onnxruntime", "torch", "__main__")


def sources():
    for folder, _, names in os.walk(os.path.dirname(PACKAGE)):
        for name in sorted(names):
            if name.endswith(".py"):
                path = os.path.join(folder, name)
                with open(path, encoding="utf-8") as file:
                    yield os.path.relpath(path, TREE), file.read()


class Sources(unittest.TestCase):
    def test_the_syntax_of_python_3_9(self):
        for path, text in sources():
            with self.subTest(path=path):
                ast.parse(text, feature_version=(3, 9))
        with self.assertRaises(SyntaxError):
            ast.parse("match x:\n    case 1: pass\n", feature_version=(3, 9))

    def test_public_functions_have_hints_and_docstrings(self):
        for path, text in sources():
            if "/vram/" not in path or "/generated/" in path or "/torch/" in path:
                continue
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.ClassDef):
                    self.check_class(path, node)
            for node in ast.parse(text).body:
                if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                    self.check(path, node, 0)

    def check_class(self, path, node):
        for each in node.body:
            if isinstance(each, ast.FunctionDef) and not each.name.startswith("_"):
                inherited = any(isinstance(base, ast.Attribute) for base in node.bases)
                self.check(path, each, 1, not (inherited or node.name.startswith("_")))

    def check(self, path, node, skipped, docstring=True):
        where = f"{path}:{node.lineno}: {node.name}"
        self.assertIsNotNone(node.returns, f"{where} does not say what it returns")
        for argument in (node.args.args + node.args.kwonlyargs)[skipped:]:
            if argument.arg not in ("self", "cls"):
                self.assertIsNotNone(argument.annotation, f"{where}: {argument.arg} has no type")
        if docstring and path.count("/_") == 0 and node.name != "main":
            self.assertIsNotNone(ast.get_docstring(node), f"{where} has no docstring")

    def test_with_gives_a_type(self):
        """What `as` names is known to type checkers: no Any, also of context managers that are functions."""
        seen = 0
        for path, text in sources():
            for node in ast.walk(ast.parse(text)):
                if not isinstance(node, ast.FunctionDef) or "/tests/" in path or "stand_in" in path:
                    continue
                names = [each.id for each in node.decorator_list if isinstance(each, ast.Name)]
                if node.name == "__enter__" or "contextmanager" in names:
                    seen += 1
                    given = ast.unparse(node.returns) if node.returns else "Any"
                    self.assertNotIn("Any", given, f"{path}:{node.lineno}")
        self.assertGreater(seen, 5)

    @unittest.skipUnless(importlib.util.find_spec("mypy"), "mypy is not installed")
    def test_a_type_checker_knows_what_with_gives(self):
        names = ("context", "device", "queue", "pool", "scope", "buffer", "view", "trace")
        text = ("import vram\n"
                "with vram.Context() as context, context.device() as device, context.trace('t') as trace:\n"
                "    with device.queue() as queue, device.pool() as pool, pool.scope() as scope:\n"
                "        with pool.buffer(4) as buffer, buffer.map() as view:\n" +
                "".join(f"            reveal_type({name})\n" for name in names))
        run = subprocess.run([sys.executable, "-m", "mypy", "--cache-dir", os.devnull, "-c", text], capture_output=True,
                             text=True, cwd=os.path.dirname(PACKAGE), check=False)
        for name in names:
            kind = "memoryview" if name == "view" else name.capitalize()
            self.assertRegex(run.stdout, rf'Revealed type is "[\w.]*\b{kind}\b', name)

    def test_it_is_marked_as_typed(self):
        self.assertTrue(os.path.exists(os.path.join(PACKAGE, "py.typed")))  # wheel_check.py: and in the wheel

    def test_the_names_of_the_package(self):
        for name in vram.__all__:
            self.assertTrue(hasattr(vram, name), name)


def _in_tree(test):
    """The page names files of the tree."""
    test.before = os.getcwd()
    os.chdir(TREE)


def _back(test):
    os.chdir(test.before)


def load_tests(loader, tests, pattern):
    """The examples in the docstrings."""
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    tests.addTests(doctest.DocTestSuite(vram, optionflags=flags))
    tests.addTests(doctest.DocFileSuite(os.path.join(TREE, "docs", "python.md"), module_relative=False,
                                        optionflags=flags, setUp=_in_tree, tearDown=_back))
    for module in pkgutil.iter_modules([PACKAGE], "vram."):
        if module.name.split(".")[1] not in ADAPTERS:
            tests.addTests(doctest.DocTestSuite(importlib.import_module(module.name), optionflags=flags))
    return tests


if __name__ == "__main__":
    unittest.main()
