#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""symbols.py ROOT (NAME SHARED STATIC)... | --self-test CC: what the built libraries show to a linker.

A shared library exports exactly the functions that its public headers declare; the static one adds nothing but vr_
names, and no two static ones define the same name; the loader is told SONAME, NOW and NODELETE.
"""
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import tree  # noqa: E402

DECLARED = re.compile(r"\bVRAM_API\b[^;{]*?\b(vram_\w+)\s*\(")
OURS = re.compile(r"(vram|vr)_\w+$")


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def defined(*arguments):
    """Names of defined symbols, those of a version node (type A) left out."""
    rows = [line.split() for line in run("nm", "-P", "--defined-only", *arguments).split("\n")]
    return {row[0].split("@")[0] for row in rows if len(row) > 2 and row[1] != "A"}


# Headers of the libraries on top of libvram; all others are libvram's.
HEADERS = {"vram-compute": ("compute.h", "distance.h", "labels.h"), "vram-model": ("model.h",),
           "vram-ucx": ("remote.h",)}
OTHERS = tuple(header for headers in HEADERS.values() for header in headers)


def declared(root, name):
    names = set()
    for path in tree.files(root):
        header = path.removeprefix("include/vram/")
        if header != path and (header in HEADERS[name] if name in HEADERS else header not in OTHERS):
            names |= set(DECLARED.findall(tree.code(tree.read(root, path))))
    return names


def check_shared(name, shared, wanted):
    shown = defined("-D", shared)
    found = [f"{symbol}: exported, but no public header declares it" for symbol in shown - wanted]
    found += [f"{symbol}: declared in a public header, but not exported" for symbol in wanted - shown]
    dynamic = run("readelf", "-d", "-W", shared)
    if not re.search(rf"SONAME.*\[lib{name}\.so\.\d+\]", dynamic):
        found.append(f"no SONAME of the form lib{name}.so.N")
    for flag in ("NODELETE", "NOW"):
        if not re.search(rf"FLAGS_1.*\b{flag}\b", dynamic):
            found.append(f"the flag {flag} is not set")
    return found


def check(root, *libraries):
    found, seen = [], {}
    for name, shared, static in zip(libraries[::3], libraries[1::3], libraries[2::3]):
        missing = [path for path in (shared, static) if not os.path.exists(path)]
        if missing:
            found += [f"{path}: not built yet" for path in missing]
            continue
        found += check_shared(name, shared, declared(root, name))
        for symbol in defined("-g", static):
            if not OURS.match(symbol):
                found.append(f"{symbol}: global in the static library without our prefix")
            if symbol in seen:
                found.append(f"{symbol}: defined in lib{seen[symbol]}.a and in lib{name}.a")
            seen[symbol] = name
    return sorted(found)


TWICE = "vr_b: defined in libvram.a and in libvram.a"


def self_test(compiler):
    """Builds libraries with one fault each and expects it to be found."""
    header = "#define VRAM_API __attribute__((visibility(\"default\")))\nVRAM_API int vram_a(void);\n"
    good = "int vram_a(void) { return vr_b(); }\nint vr_b(void) { return 1; }\n"
    hidden = "#pragma GCC visibility push(hidden)\nint vr_b(void);\n#pragma GCC visibility pop\n"
    flags = ["-Wl,-soname,libvram.so.0", "-Wl,-z,nodelete", "-Wl,-z,now"]
    cases = [(None, good, flags),
             ("rogue: exported", good + "int rogue;\n", flags),
             ("rogue: global in the static", good + "int rogue;\n", flags),
             ("vram_a: declared", "int vr_b(void) { return 1; }\n", flags),
             ("no SONAME", good, flags[1:]),
             ("NODELETE", good, [flags[0], flags[2]]),
             ("NOW", good, flags[:2] + ["-Wl,-z,lazy"]),
             (TWICE, good, flags)]
    failures = 0
    for expected, source, links in cases:
        with tempfile.TemporaryDirectory() as root:
            tree.plant(root, {"include/vram/a.h": header,
                              "a.c": '#include "include/vram/a.h"\n' + hidden + source})
            at = {name: os.path.join(root, name) for name in ("a.c", "a.o", "a.so", "a.a")}
            run(compiler, "-fPIC", "-c", at["a.c"], "-o", at["a.o"])
            run(compiler, "-shared", *links, at["a.o"], "-o", at["a.so"])
            run("ar", "rcs", at["a.a"], at["a.o"])
            libraries = ["vram", at["a.so"], at["a.a"]]
            found = check(root, *libraries) if expected != TWICE else check(root, *libraries, *libraries)
        if (found != []) if expected is None else not any(expected in line for line in found):
            failures += 1
            print(f"self-test: expected {expected or 'no finding'}, got {found}")
    print(f"self-test: {len(cases) - 1} planted violations, {failures} missed")
    return failures


if __name__ == "__main__":
    if sys.argv[1] == "--self-test":
        tree.finish(self_test(sys.argv[2]))
    tree.finish(tree.report(check(*sys.argv[1:])))
