#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compile_fail.py CRATE RLIB RUSTC: every ```compile_fail block of the crate's documentation fails with its own code.

rustdoc only sees that such a block does not compile, and a misspelt name would do for that. Each block names the error
it shows (```compile_fail,E0505), and the compiler must report that error and no other.
"""
import concurrent.futures
import glob
import os
import re
import subprocess
import sys
import tempfile

BLOCK = re.compile(r"^( *//[/!] ?)```compile_fail(?:,(E\d{4}))?\n(.*?)^\1```$", re.M | re.S)


def blocks(crate):
    for path in sorted(glob.glob(os.path.join(crate, "src", "**", "*.rs"), recursive=True)):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for match in BLOCK.finditer(text):
            lines = [re.sub(r"^ *//[/!] ?", "", line) for line in match.group(3).split("\n")]
            code = "\n".join(re.sub(r"^# ?", "", line) for line in lines)
            where = f"{os.path.basename(path)}:{text.count(chr(10), 0, match.start()) + 1}"
            yield where, match.group(2), code


def compiled(block, rlib, rustc, folder):
    """What is wrong with a block, or None."""
    where, wanted, code = block
    source = os.path.join(folder, re.sub(r"\W", "_", where) + ".rs")
    with open(source, "w", encoding="utf-8") as file:
        file.write("#![allow(unused)]\n" + code + "\nfn main() {}\n")
    run = subprocess.run([rustc, "--edition", "2021", "--emit=metadata", "--extern", f"vram={rlib}", "-L",
                          os.path.join(os.path.dirname(rlib), "deps"), "-o", source + ".meta", source],
                         capture_output=True, text=True, check=False)
    found = sorted(set(re.findall(r"^error\[(E\d{4})\]", run.stderr, re.M)))
    if run.returncode == 0 or found != [wanted]:
        return f"{where}: expected {wanted}, got {found or 'no error'}\n{run.stderr}"
    return None


def main():
    crate, rlib, rustc = sys.argv[1:4]
    all_blocks = list(blocks(crate))
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        wrong = list(filter(None, pool.map(lambda block: compiled(block, rlib, rustc, folder), all_blocks)))
        # A block that compiles is found, and so is one that fails with another code.
        for code, wanted in (("fn good() {}", "E0505"), ("fn bad() { no_such_name() }", "E0505")):
            if compiled(("self.rs:1", wanted, code), rlib, rustc, folder) is None:
                wrong.append("self-test: a wrong block was not found")
    print("\n".join(wrong) or f"{len(all_blocks)} blocks fail as they should")
    return 1 if wrong or len(all_blocks) < 10 else 0


if __name__ == "__main__":
    sys.exit(main())
