#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""circles.py OBJECTS... | --self-test CC: files and modules of the libraries that need each other to link.

OBJECTS are folders of a build's objects. A circle is a set of files each of which needs all others, directly or
through some; or a set of modules: the tiers of src, the folders of core and the backends. Inside one backend's folder
files may need each other: they share the driver. KNOWN are the circles that are still to be untied. It may only
shrink: a circle in it that is gone is a finding, too.
"""
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import tree  # noqa: E402

SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "src")

KNOWN = []


def is_current(file):
    """An old build folder keeps the objects of sources that are gone. The self-test's lie elsewhere."""
    return sys.argv[1] == "--self-test" or os.path.isfile(os.path.join(SOURCES, file))


def objects_in(folder):
    """{path: file of src} of a folder's objects."""
    paths = [os.path.join(at, name) for at, _, names in os.walk(folder) for name in names if name.endswith(".o")]
    files = {path: os.path.relpath(path, folder).removesuffix(".o") for path in paths}
    return {path: file for path, file in files.items() if is_current(file)}


def needs(*folders):
    """{file: files that it needs}, by the symbols that one has and the other lacks."""
    objects = {}
    for folder in folders:
        objects.update(objects_in(folder))
    lines = subprocess.run(["nm", "-A", "-P", "-g", *objects], capture_output=True, text=True,
                           check=True).stdout.splitlines()
    owner, wanted = {}, {}
    for line in lines:
        place, rest = line.split(": ", 1)
        symbol, kind = rest.split()[:2]
        file = objects[place]
        wanted.setdefault(file, set())
        if kind in "Uw":
            wanted[file].add(symbol)
        else:
            owner[symbol] = file
    return {file: {owner[symbol] for symbol in symbols if symbol in owner}
            for file, symbols in wanted.items()}


def reachable(graph, start):
    found, left = set(), [start]
    while left:
        for other in graph[left.pop()] - found:
            found.add(other)
            left.append(other)
    return found


def circles(graph):
    reach = {file: reachable(graph, file) for file in graph}
    found = {frozenset(other for other in reach[file] if file in reach[other])
             for file in graph if file in reach[file]}
    return sorted(sorted(circle) for circle in found if len(circle) > 1)


def is_one_backend(circle):
    folders = {os.path.dirname(file) for file in circle}
    return len(folders) == 1 and folders.pop().startswith("backend/")


def module_of(file):
    """core/cache/drain.c: core/cache; base/os/linux.c: base, whose calls of the system are only in a folder of their
    own."""
    parts = file.split("/")
    return "/".join(parts[:2]) if parts[0] in ("core", "backend") and len(parts) > 2 else parts[0]


def modules(graph):
    found = {}
    for file, others in graph.items():
        found.setdefault(module_of(file), set()).update(module_of(other) for other in others)
    return found


def check(folders, known):
    graph = needs(*folders)
    found = {" ".join(circle) for circle in circles(graph) if not is_one_backend(circle)}
    return ([f"files that need each other: {circle}" for circle in sorted(found - set(known))] +
            [f"modules that need each other: {' '.join(circle)}" for circle in circles(modules(graph))] +
            [f"no circle any more, take it off the list in tests/lint/circles.py: {circle}"
             for circle in known if circle not in found])


def self_test(compiler):
    """Compiles small trees, each with one fault, and expects it to be found."""
    one, two = "int b(void); int a(void) { return b(); }\n", "int a(void); int b(void) { return a(); }\n"
    leaf = "int b(void) { return 1; }\n"
    cases = [(None, {"base/a.c": one, "base/b.c": leaf}, []),
             (None, {"backend/sim/a.c": one, "backend/sim/b.c": two}, []),
             (None, {"base/a.c": one, "base/b.c": two}, ["base/a.c base/b.c"]),
             ("need each other: base/a.c base/b.c", {"base/a.c": one, "base/b.c": two}, []),
             ("need each other", {"backend/sim/a.c": one, "backend/host/b.c": two}, []),
             ("need each other: base/a.c base/b.c base/c.c",
              {"base/a.c": one, "base/b.c": "int c(void); int b(void) { return c(); }\n",
               "base/c.c": "int a(void); int c(void) { return a(); }\n"}, []),
             ("modules that need each other: core/cache core/space",
              {"core/cache/a.c": one, "core/space/b.c": "int c(void); int b(void) { return c(); }\n",
               "core/cache/c.c": "int c(void) { return 1; }\n"}, []),
             (None, {"base/a.c": one, "base/os/b.c": "int c(void); int b(void) { return c(); }\n",
                     "base/c.c": "int c(void) { return 1; }\n"}, []),
             ("no circle any more", {"base/a.c": one, "base/b.c": leaf}, ["base/a.c base/b.c"])]
    failures = 0
    for expected, sources, known in cases:
        with tempfile.TemporaryDirectory() as root:
            tree.plant(root, sources)
            for path in sources:
                at = os.path.join(root, path)
                subprocess.run([compiler, "-c", at, "-o", at + ".o"], check=True)
            found = check([root], known)
        if (found != []) if expected is None else not any(expected in line for line in found):
            failures += 1
            print(f"self-test: expected {expected or 'no finding'}, got {found}")
    print(f"self-test: {sum(case[0] is not None for case in cases)} planted violations, {failures} missed")
    return failures


if __name__ == "__main__":
    if sys.argv[1] == "--self-test":
        tree.finish(self_test(sys.argv[2]))
    tree.finish(tree.report(check(sys.argv[1:], KNOWN)))
