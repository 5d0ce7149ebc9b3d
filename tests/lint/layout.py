#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""layout.py ROOT | --fix ROOT | --self-test: the sources are laid out as .clang-format says.

The version is fixed at 14 because versions disagree. Exit code 77 (skipped) where it is missing.
"""
import os
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
import tree  # noqa: E402

PROGRAM = shutil.which("clang-format-14")


def sources(root):
    return [path for path in tree.files(root) if path.endswith((".c", ".h", ".hpp", ".cpp"))]


def check(root):
    result = subprocess.run([PROGRAM, "--dry-run", "--style=file", *sources(root)], cwd=root,
                            capture_output=True, text=True, check=False)
    found = [line for line in result.stderr.split("\n") if "warning:" in line or "error:" in line]
    return [f"{line} (make format mends it)" for line in found]


def self_test():
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    clean = {".clang-format": tree.read(here, ".clang-format"),
             "a.c": "int a(void) {\n    return 1;\n}\n"}
    return tree.self_test(check, clean, [("make format", {"b.c": "int b( void ) { return 1; }\n"})])


if __name__ == "__main__":
    if PROGRAM is None:
        print("skipped: clang-format-14 is not installed")
        sys.exit(77)
    if sys.argv[1] == "--self-test":
        tree.finish(self_test())
    if sys.argv[1] == "--fix":
        root_ = sys.argv[2]
        sys.exit(subprocess.run([PROGRAM, "-i", "--style=file", *sources(root_)], cwd=root_,
                                check=False).returncode)
    tree.finish(tree.report(check(sys.argv[1])))
