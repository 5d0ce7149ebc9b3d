#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""headers.py ROOT CC CXX | --self-test CC CXX: each public header compiles alone, twice over.

A header is included first and again, as C99, C11 and C++17, with every warning an error.
"""
import subprocess
import sys

sys.dont_write_bytecode = True
import tree  # noqa: E402

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]


def check(root, compilers):
    found = []
    for path in tree.files(root):
        if not (path.startswith("include/vram/") and path.endswith(".h")):
            continue
        name = path[len("include/"):]
        for compiler, language, standard in compilers:
            source = f"#include <{name}>\n#include <{name}>\nint main(void) {{ return 0; }}\n"
            result = subprocess.run(
                [compiler, "-x", language, f"-std={standard}", *WARNINGS, "-fsyntax-only",
                 "-I", root + "/include", "-"],
                input=source.replace("(void)", "()") if language == "c++" else source,
                capture_output=True, text=True, check=False)
            if result.returncode != 0:
                first = next((line for line in result.stderr.split("\n") if "error" in line), "")
                found.append(f"{path} as {standard}: {first}")
    return found


GUARDED = "#ifndef VRAM_A_H\n#define VRAM_A_H\n%s\n#endif\n"
CLEAN = {"include/vram/a.h": GUARDED % "#include <stdint.h>\nstruct vram_a { uint64_t x; };"}
VIOLATIONS = [
    ("as c11", {"include/vram/b.h": GUARDED.replace("_A_", "_B_") % "extern uint64_t vram_b;"}),
    ("as c++17", {"include/vram/b.h": GUARDED.replace("_A_", "_B_") % "extern int class;"}),
    ("as c11", {"include/vram/b.h": "struct vram_b { int x; };\n"}),
    ("as c99", {"include/vram/b.h": GUARDED.replace("_A_", "_B_") % "_Static_assert(1, \"\");"}),
]

if __name__ == "__main__":
    cc, cxx = sys.argv[2:4]
    standards = [(cc, "c", "c99"), (cc, "c", "c11"), (cxx, "c++", "c++17")]
    if sys.argv[1] == "--self-test":
        tree.finish(tree.self_test(lambda root: check(root, standards), CLEAN, VIOLATIONS))
    tree.finish(tree.report(check(sys.argv[1], standards)))
