#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""hazards.py SOURCE BUILD: every test that docs/design/06-hazards.md names is there, and is run.

A unit test is `test_NAME: function`, and must be in that file's list; `check: NAME` is a case of the
conformance suite. Every row of a table names at least one test.
"""
import glob
import os
import re
import sys

PAGE = os.path.join("docs", "design", "06-hazards.md")


def read(path):
    with open(path, encoding="utf-8") as stream:
        return stream.read()


def main(source):
    text = read(os.path.join(source, PAGE))
    cases = "".join(read(path) for path in glob.glob(os.path.join(source, "cli/check/cases_*.c")))
    found = []
    rows = [row for row in re.findall(r"^\|.*\|$", text, re.M)
            if not row.startswith(("| hazard", "|---"))]
    for row in rows:
        if not re.search(r"`(test_\w+: \w+|check: [\w.]+|tests/\w+)`", row.split("|")[3]):
            found.append(f"no test is named for:{row.split('|')[1]}")
    for file, name in re.findall(r"`(test_\w+): (\w+)`", text):
        path = os.path.join(source, "tests", "unit", file + ".c")
        if not os.path.exists(path) or not re.search(rf"\w\((?:\w+, )*{name}[,)]", read(path)):
            found.append(f"{file} has no test {name}, or does not run it")
    for name in re.findall(r"`check: ([\w.]+)`", text):
        if f'{{"{name}"' not in cases:
            found.append(f"there is no case {name}")
    for finding in found:
        print(f"{PAGE}: {finding}")
    print(f"{len(rows)} hazards, {len(found)} findings")
    return 1 if found or len(rows) < 30 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
