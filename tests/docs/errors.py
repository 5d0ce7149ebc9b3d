#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""errors.py SOURCE BUILD: docs/errors.md has one row for each status of the library, in its words."""
import os
import re
import sys


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as stream:
        return stream.read()


source = sys.argv[1]
header = read(source, "include", "vram", "base.h")
statuses = re.findall(r'^    X\((\w+), (-?\d+), "([^"]+)"\)', header, re.M)
rows = re.findall(r"^\| `VRAM_(\w+)` \| (-?\d+) \| ([^|]+) \|", read(source, "docs", "errors.md"),
                  re.M)
missing = [row for row in statuses if row not in [(n, v, t.strip()) for n, v, t in rows]]
foreign = [row for row in rows if (row[0], row[1], row[2].strip()) not in statuses]
print(f"{len(statuses)} statuses; missing or different: {missing}; not in base.h: {foreign}")
sys.exit(0 if statuses and not missing and not foreign else 1)
