#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""errors.py SOURCE BUILD: docs/errors.md has one row for each status of the library, in its words, and
its commands fail as it says; the report it shows is one that an example prints, and its tables of steps and
causes are those of vram/oom.h."""
import os
import re
import subprocess
import sys


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as stream:
        return stream.read()


def try_commands(page, source, build):
    """Runs the lines of the page's shell block; one of them must say what the page shows."""
    lines = re.search(r"^```sh\n(VRAM_SIM.*?)^```", page, re.S | re.M).group(1).strip().split("\n")
    shown = re.findall(r"^```text\n(.*?)^```", page, re.S | re.M)[-1]
    said = [subprocess.run(line.replace("build/", build + "/"), shell=True, cwd=source,
                           capture_output=True, text=True, check=False) for line in lines]
    found = [f"{line}: did not fail" for line, one in zip(lines, said) if one.returncode == 0]
    return found + ([] if shown in [one.stderr for one in said] else ["nothing prints what is shown"])


def check_reports(page, source):
    """What the page says of the ladder and its report."""
    header = read(source, "include", "vram", "oom.h")
    shown = re.findall(r"^```text\n(.*?)^```", page, re.S | re.M)[0]
    if shown not in read(source, "examples", "expected", "08_out_of_memory.txt"):
        yield "no example prints the report that is shown"
    steps = re.findall(r"^ \*   (\w+) +\w", header, re.M)
    causes = re.findall(r'^    X\(\w+, \d+, "(\w+)"', header, re.M)
    rows = re.findall(r"^\| `([a-z_]+)` \|", page, re.M)
    if rows != steps + causes or len(steps) != 12:
        yield f"steps and causes are {steps} and {causes}, not {rows}"


source, build = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
header = read(source, "include", "vram", "base.h")
page = read(source, "docs", "errors.md")
statuses = re.findall(r'^    X\((\w+), (-?\d+), "([^"]+)"\)', header, re.M)
rows = re.findall(r"^\| `VRAM_(\w+)` \| (-?\d+) \| ([^|]+) \|", page, re.M)
missing = [row for row in statuses if row not in [(n, v, t.strip()) for n, v, t in rows]]
foreign = [row for row in rows if (row[0], row[1], row[2].strip()) not in statuses]
wrong = [*try_commands(page, source, build), *check_reports(page, source)]
print(f"{len(statuses)} statuses; missing or different: {missing}; not in base.h: {foreign}; "
      f"commands: {wrong}")
sys.exit(0 if statuses and not missing and not foreign and not wrong else 1)
