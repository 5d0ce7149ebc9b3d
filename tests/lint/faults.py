#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""faults.py ROOT [BUILD] | --self-test: docs/faults.md, docs/others-bugs.md and tests/frozen/defects.md are whole, and the
tests that they name exist.

They have one row for each of 76 faults, of 60 bugs of others, and of 34 defects that the library had. A row names tests, or
says "not shown here:" and why. Tests are named as ctest has them, with a function behind a colon where there is one:
`unit.pool:works`, `run.cuda:test_leak`, `others_bugs.01_name`, `long.share_kills`; `check GROUP.CASE` is a case of `vram
check`, and `bench/h200.sh STAGE` a stage on the H200. With BUILD ctest must list them.
"""
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import tree  # noqa: E402

PAGES = {"docs/faults.md": 76, "docs/others-bugs.md": 60, "tests/frozen/defects.md": 34}
TESTS = ("tests/", "bindings/python/tests/")
RIGS = {"sim", "fake", "shim", "system", "H200", "unit", "none"}
ROW = re.compile(r"^\| (\d+) \|(.*)\|$", re.M)
QUOTED = re.compile(r"`([^`]+)`")
NAMED = re.compile(r"BUG\((\d+), (\w+)\)|^def bug_(\d+)_(\w+)\(", re.M)
NONE = "not shown here: "


class Tests:
    """What may be named."""

    def __init__(self, root, build):
        self.root = root
        self.sources = {path: tree.read(root, path) for path in tree.files(root)
                        if path.startswith((*TESTS, "cli/check/", "bench/")) and path.endswith((".c", ".py", ".sh", ".h"))}
        self.bugs = {f"others_bugs.{a or c}_{b or d}" for path, text in self.sources.items()
                     if path.startswith("tests/others_bugs/") for a, b, c, d in NAMED.findall(text)}
        self.unit_list = tree.read(root, "tests/unit/CMakeLists.txt")
        self.listed = None
        if build:
            text = subprocess.run(["ctest", "-N", "-C", "Long", "--test-dir", build], check=True, text=True,
                                  capture_output=True).stdout
            self.listed = set(re.findall(r"Test +#\d+: (\S+)", text))

    def has_function(self, name, folders):
        """a function that is written, and run: by TEST(name), RUN(name) and the like in a unit test; elsewhere by its
        name, and in C by a list"""
        word = r"\b" + re.escape(name) + r"\b"
        run = r"^ *[A-Z_]+\([^(){};]*" + word
        return any(re.search(run, text, re.M) if path.startswith("tests/unit/") else
                   len(re.findall(word, text)) >= (1 if path.endswith(".py") else 2)
                   for path, text in self.sources.items() if path.startswith(folders))

    def wrong(self, name):
        """what is wrong with a name; None: nothing"""
        if name.startswith("check "):
            cases = (text for path, text in self.sources.items() if path.startswith("cli/check/"))
            return None if any(f'"{name[6:]}"' in text for text in cases) else "no such case of vram check"
        if name.startswith("bench/h200.sh "):
            stage = f"stage_{name.split()[1]}()"
            return None if stage in self.sources.get("bench/h200.sh", "") else "no such stage"
        test, _, function = name.partition(":")
        label, _, rest = test.partition(".")
        if self.listed is not None and test not in self.listed:
            return "not listed by ctest"
        if label == "others_bugs":
            return None if name in self.bugs else "no such bug in tests/others_bugs"
        if label == "unit":
            path = f"tests/unit/test_{rest}.c"
            if path not in self.sources and not function:  # another test's source under this name
                return None if re.search(r"\b" + rest + r"\b", self.unit_list) else "no such file of tests"
            if function and not self.has_function(function, (path,)):
                return "no such function, or it is not run"
            return None if path in self.sources else "no such file of tests"
        if function and not self.has_function(function, TESTS):
            return "no such function"
        return None if rest else "no such test"


def check(tests, path, page):
    """what is wrong with a page; and how many rows name a test"""
    found, seen, shown = [], [], 0
    for number, rest in ROW.findall(page):
        where = f"{path}: row {number}"
        cells = [cell.strip() for cell in rest.split("|")]
        seen.append(int(number))
        if len(cells) != 4:
            found.append(f"{where}: {len(cells) + 1} cells, 5 are wanted")
            continue
        rigs = set(cells[3].replace(",", " ").split())
        if not rigs or not rigs <= RIGS:
            found.append(f"{where}: {cells[3]}: of {', '.join(sorted(RIGS))}")
        names = QUOTED.findall(cells[2])
        if cells[2].startswith(NONE) and len(cells[2]) > len(NONE) + 20:
            continue
        if not names:
            found.append(f"{where}: neither a test nor \"{NONE}\" and a reason")
        found += [f"{where}: {name}: {why}" for name in names for why in [tests.wrong(name)] if why]
        if path == "docs/others-bugs.md" and not any(name.startswith(f"others_bugs.{int(number):02d}_") for name in names):
            found.append(f"{where}: no test with its number")
        shown += bool(names)
    wanted = list(range(1, PAGES[path] + 1))
    if seen != wanted:
        found.append(f"{path}: rows {sorted(set(wanted) ^ set(seen))} are missing, double or out of order")
    return found, shown


def run(root, build):
    tests, found = Tests(root, build), []
    for path, count in PAGES.items():
        more, shown = check(tests, path, tree.read(root, path))
        found += more
        print(f"{path}: {shown} of {count} rows have a test")
    named = {name for path in PAGES for name in QUOTED.findall(tree.read(root, path))}
    found += [f"docs/others-bugs.md: {name} is not named" for name in sorted(tests.bugs - named)]
    print("\n".join(found))
    return 1 if found else 0


def self_test():
    files = {"tests/unit/CMakeLists.txt": "vram_unit(pool)\n",
             "tests/unit/test_pool.c": "void works(void) {}\nRUN(works)\nvoid idles(void) {}\n",
             "tests/others_bugs/others_bugs_a.c": "BUG(01, first)\n", "cli/check/cases_a.c": '{"pool.blocks", f}',
             "bench/h200.sh": "stage_faults() {\n"}
    good = "| 1 | theirs | ours | `unit.pool:works` `check pool.blocks` `others_bugs.01_first` `bench/h200.sh faults` | sim |\n"
    bad = {"a function": good.replace("works", "walks"), "a function that runs": good.replace("works", "idles"),
           "a case": good.replace("blocks", "bricks"), "a bug": good.replace("01_first", "02_first"),
           "a stage": good.replace("sh faults", "sh fault"), "a rig": good.replace("sim", "moon"),
           "a test": "| 1 | theirs | ours | we looked | sim |\n", "a row": "",
           "a reason": "| 1 | theirs | ours | not shown here: | none |\n",
           "five cells": good.replace("| theirs ", ""), "one row each": good + good}
    with tempfile.TemporaryDirectory() as root:
        tree.plant(root, files)
        tests = Tests(root, None)
        PAGES["docs/faults.md"] = 1
        if check(tests, "docs/faults.md", good) != ([], 1):
            sys.exit(f"faults: a good page is refused: {check(tests, 'docs/faults.md', good)}")
        for what, page in bad.items():
            if not check(tests, "docs/faults.md", page)[0]:
                sys.exit(f"faults: a page without {what} passes")
    print(f"{len(bad)} bad pages refused")


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        self_test()
    else:
        sys.exit(run(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None))
