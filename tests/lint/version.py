#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""version.py ROOT | --self-test: the places that cannot read the version from include/vram/base.h say the same.

Each has the form that its readers want: 0.1.0rc1 where people and Python's index read, 0.1.0-rc.1 where Cargo does.
"""
import re
import sys

sys.dont_write_bytecode = True
import tree  # noqa: E402

BASE = "include/vram/base.h"


def versions(root):
    """The version as text and as Cargo writes it; None where base.h has another form."""
    text = tree.read(root, BASE)
    numbers = [re.search(rf"^#define VRAM_VERSION_{part} (\d+)$", text, re.M) for part in ("MAJOR", "MINOR", "PATCH")]
    pre = re.search(r'^#define VRAM_VERSION_PRE "((?:rc(\d+))?)"$', text, re.M)
    if not all(numbers) or not pre:
        return None
    number = ".".join(match.group(1) for match in numbers)
    return number + pre.group(1), number + (f"-rc.{pre.group(2)}" if pre.group(2) else "")


def check(root):
    found = versions(root)
    if found is None:
        return [f'{BASE}: VRAM_VERSION_MAJOR, _MINOR and _PATCH are numbers, VRAM_VERSION_PRE is "" or "rc1"']
    text, crate = found
    places = (("CHANGELOG.md", r"^## (\S+)", text),  # its newest section
              ("bindings/python/vram.egg-info/PKG-INFO", r"^Version: (.+)$", text),
              ("bindings/rust/Cargo.toml", r'^version = "(.+)"$', crate),
              ("bindings/rust/Cargo.lock", r'^name = "vram"\nversion = "(.+)"$', crate))
    has = [(path, re.search(pattern, tree.read(root, path), re.M), want) for path, pattern, want in places]
    return [f"{path}: {match.group(1) if match else 'no version'}, not {want}: {BASE} has the version, change {path}"
            for path, match, want in has if not match or match.group(1) != want]


def header(numbers=(0, 1, 0), pre="rc2"):
    rows = [f"#define VRAM_VERSION_{part} {number}\n" for part, number in zip(("MAJOR", "MINOR", "PATCH"), numbers)]
    return {BASE: "".join(rows) + f'#define VRAM_VERSION_PRE "{pre}"\n'}


CLEAN = {**header(), "CHANGELOG.md": "# Changes\n\n## 0.1.0rc2\n\n## 0.1.0rc1\n",
         "bindings/python/vram.egg-info/PKG-INFO": "Name: vram\nVersion: 0.1.0rc2\n",
         "bindings/rust/Cargo.toml": '[package]\nversion = "0.1.0-rc.2"\n',
         "bindings/rust/Cargo.lock": 'version = 3\nname = "vram"\nversion = "0.1.0-rc.2"\n'}
VIOLATIONS = [("CHANGELOG.md: 0.1.0rc2, not 0.1.0:", header(pre="")),
              ("Cargo.toml: 0.1.0-rc.2, not 0.2.0-rc.2", header((0, 2, 0))),
              ('is "" or "rc1"', header(pre="-rc.1")),
              ("CHANGELOG.md: 0.1.0rc1, not", {"CHANGELOG.md": "## 0.1.0rc1\n"}),
              ("PKG-INFO: no version", {"bindings/python/vram.egg-info/PKG-INFO": "Name: vram\n"}),
              ("Cargo.lock: 0.1.0, not 0.1.0-rc.2", {"bindings/rust/Cargo.lock": 'name = "vram"\nversion = "0.1.0"\n'})]

if __name__ == "__main__":
    if sys.argv[1] == "--self-test":
        tree.finish(tree.self_test(check, CLEAN, VIOLATIONS))
    tree.finish(tree.report(check(sys.argv[1])))
