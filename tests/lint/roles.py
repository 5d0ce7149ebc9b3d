#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""roles.py ROOT | --self-test: the same role has the same file name in every backend (the table is in
docs/backend-guide.md), and a struct of a backend has a tag that no other struct of src has."""
import os
import re
import sys

sys.dont_write_bytecode = True
import tree  # noqa: E402

GUIDE = "docs/backend-guide.md"
HEADING = "## The files of a backend"
FOLDER = "src/backend/"

ROW = re.compile(r"^\|\s*`(\w+)`\s*\|[^|]*\|\s*([^|]*?)\s*\|\s*$")
TAG = re.compile(r"\b(?:struct|union|enum)\s+(\w+)\s*\{")


def roles(root):
    """{role: the backends that have it, or None for a role that any backend may have}"""
    table, inside = {}, False
    for line in tree.read(root, GUIDE).split("\n"):
        inside = line == HEADING if line.startswith("## ") else inside
        match = ROW.match(line)
        if inside and match:
            where = match.group(2)
            table[match.group(1)] = None if where.startswith("all") else set(re.findall(r"\w+", where))
    return table


def check_files(root, paths):
    if GUIDE not in paths:
        return [f"{GUIDE}: not there"]
    table, found, seen = roles(root), [], set()
    if not table:
        return [f"{GUIDE}: no table of roles under \"{HEADING}\""]
    for path in paths:
        parts = path[len(FOLDER):].split("/") if path.startswith(FOLDER) else []
        if len(parts) != 2 or not parts[1].endswith((".c", ".h")):
            continue
        backend, name = parts
        role = os.path.splitext(name)[0][len(backend) + 1:]
        if not name.startswith(f"{backend}_") or role not in table:
            found.append(f"{path}: no role of the table in {GUIDE}")
        elif table[role] is not None and backend not in table[role]:
            found.append(f"{path}: the table in {GUIDE} does not say that {backend} has this role")
        seen.add((role, backend))
    for role, backends in table.items():
        found += [f"{GUIDE}: {backend} has no file for the role {role}"
                  for backend in sorted(backends or ()) if (role, backend) not in seen]
    return found


def check_tags(root, paths):
    places, found = {}, []
    for path in paths:
        if path.startswith("src/") and path.endswith((".c", ".h")):
            text = tree.code(tree.read(root, path))
            for match in TAG.finditer(text):
                places.setdefault(match.group(1), []).append(f"{path}:{tree.line_of(text, match.start())}")
    for tag, where in sorted(places.items()):
        if len(where) > 1 and any(place.startswith(FOLDER) for place in where):
            found.append(f"{where[0]}: the tag {tag} exists twice: {', '.join(where[1:])}")
    return found


def check(root):
    paths = tree.files(root)
    return check_files(root, paths) + check_tags(root, paths)


TABLE = f"{HEADING}\n\n| role | contains | in |\n|---|---|---|\n| `queue` | x | all |\n| `vmm` | y | host |\n"
CLEAN = {
    GUIDE: TABLE,
    "src/backend/host/host_queue.c": "struct host_worker { int x; };\n/* struct span { */\n",
    "src/backend/host/host_vmm.c": "int f(struct span *span);\n",
    "src/backend/backend.h": "struct vr_queue { int x; };\n",
    "src/core/span.h": "struct span { int x; };\n",
    "src/core/copy.c": "struct copy { int x; };\n",
    "src/mem/copy_rows.c": "struct copy { int x; };\n",  # of other folders, not checked here
}
VIOLATIONS = [
    ("no role of the table", {"src/backend/sim/sim_line.c": "int x;\n"}),
    ("no role of the table", {"src/backend/sim/queue.c": "int x;\n"}),
    ("does not say that sim", {"src/backend/sim/sim_vmm.c": "int x;\n"}),
    ("host has no file for the role peer", {GUIDE: TABLE + "| `peer` | z | host |\n"}),
    ("no table of roles", {GUIDE: "## Other\n" + TABLE.replace(HEADING, "")}),
    ("tag span exists twice", {"src/backend/host/host_queue.c": "struct span\n{ int x; };\n"}),
    ("tag span exists twice", {"src/backend/sim/sim_queue.c": "static const enum span { A } x;\n"}),
]

if __name__ == "__main__":
    if sys.argv[1] == "--self-test":
        tree.finish(tree.self_test(check, CLEAN, VIOLATIONS))
    tree.finish(tree.report(check(sys.argv[1])))
