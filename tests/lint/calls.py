#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""calls.py ROOT | ROOT --update | --self-test: every public call that names an object has a row in tests/calls, every
call that ends one is among its enders, and the list of structs that begin with their size, which --update makes from
the headers, is current. The engine misuse tries what a row hands to TRY: NULL, handles that are none, numbers at
bounds. A call with a pointer that has no row is tried with NULL in a unit test.

A call names an object when one of its parameters is a handle, an address, a point, a span, an async handle, or a struct
that begins a question about one. A handle that the call only gives out (`vram_queue **queue`) names nothing.
"""
import os
import re
import sys

sys.dont_write_bytecode = True
import tree  # noqa: E402

HEADERS = "include/vram/"
ROWS = "tests/calls/"
ENDERS = "tests/calls/call_enders.c"
STRUCTS = "tests/calls/call_structs.h"
# The headers of libraries that not every build has, and the tests in which their calls race.
ELSEWHERE = {"include/vram/remote.h": "tests/unit/test_remote_storm.c"}
# NULL is one of their good inputs.
NULL_IS_GOOD = {"vram_host_allocator_set", "vram_option_problem", "vram_log_set"}

PROTOTYPE = re.compile(r"\bVRAM_API\b\s+(?!__)([^;#]*?)\b(vram_\w+)\s*\(([^;]*?)\)\s*;", re.S)
OPAQUE = re.compile(r"\btypedef\s+struct\s+(vram_\w+)\s+\1\s*;")
# Plain data that stands for an object; vram_async comes as a pointer that may be an output, see below.
BY_VALUE = ("vram_addr", "vram_point", "vram_span")
QUESTIONS = ("vram_live_query", "vram_auto_block")
ROW = re.compile(r"^CALL(?:_WITH|_AFTER)?(?:_AS)?\((vram_\w+),", re.M)
ENDER = re.compile(r"\bX\(\w+, \w+, [^,]+, (vram_\w+),")
ENDS = re.compile(r"^(vram_\w+)_(destroy|close|end)$")


def prototypes(root):
    """(path, line, name, parameters) of every exported function, and the names of all opaque structs."""
    found, opaque = [], set()
    for path in tree.files(root):
        if not path.startswith(HEADERS) or not path.endswith(".h"):
            continue
        text = tree.code(tree.read(root, path))
        opaque |= set(OPAQUE.findall(text))
        for match in PROTOTYPE.finditer(text):
            found.append((path, tree.line_of(text, match.start()), match.group(2), match.group(3)))
    return found, opaque


def names_object(name, parameters, opaque):
    for parameter in parameters.split(","):
        words = re.findall(r"\w+|\*", parameter)
        if len(words) < 2:
            continue
        stars = words.count("*")
        types = set(words[:-1])
        if types & set(QUESTIONS):
            return True
        if types & opaque and (stars == 1 or "const" in types):
            return True
        if types & set(BY_VALUE) and stars == 0:
            return True
        if "vram_async" in types and ("const" in types or name.startswith("vram_async_")):
            return True
    return False


STRUCT = re.compile(r"\btypedef\s+struct\s+(vram_\w+)\s*\{\s*size_t\s+size;(.*?)\}\s*\1\s*;", re.S)


def field_names(body):
    for declaration in body.split(";"):
        for name in declaration.split(","):
            words = re.findall(r"\w+", re.sub(r"\[.*", "", name))
            if words:
                yield words[-1]


def headers_of(root):
    return [(path, tree.read(root, path)) for path in sorted(tree.files(root))
            if path.startswith(HEADERS) and path.endswith(".h")]


def structs_text(sources):
    """The text of STRUCTS: every public struct that begins with its size, with its fields."""
    found, inputs, headers = {}, set(), []
    for path, text in sources:
        text = tree.code(text)
        for match in STRUCT.finditer(text):
            found[match.group(1)] = list(field_names(match.group(2)))
            headers.append(path[len("include/"):])
        for match in PROTOTYPE.finditer(text):
            inputs |= set(re.findall(r"\bconst\s+(vram_\w+)\s*\*\s*\w", match.group(3)))
    lines = ["/* SPDX-License-Identifier: Apache-2.0 */",
             "/* call_structs.h: structs that begin with their size; tests/lint/calls.py . --update writes it. */",
             "#ifndef TEST_CALL_STRUCTS_H", "#define TEST_CALL_STRUCTS_H", "", "/* clang-format off */",
             *[f"#include <{header}>" for header in dict.fromkeys(headers)], "",
             "/* X(type, whether calls read it) */", "#define CALL_STRUCTS(X) \\"]
    names = sorted(found)
    lines += [f"    X({name}, {'true' if name in inputs else 'false'}) \\" for name in names[:-1]]
    lines += [f"    X({name}, {'true' if name in inputs else 'false'})" for name in names[-1:]]
    for name in names:
        lines.append(f"#define CALL_FIELDS_{name}(F) " + " ".join(f"F({name}, {field})" for field in found[name]))
    return "\n".join([*lines, "", "#endif"]) + "\n"


def check(root):
    calls, opaque = prototypes(root)
    rows, enders, units = {}, set(), ""
    for path in tree.files(root):
        if path.startswith(ROWS) and path.endswith(".c"):
            text = tree.read(root, path)
            for match in ROW.finditer(text):
                rows.setdefault(match.group(1), (path, tree.line_of(text, match.start())))
            if path == ENDERS:
                enders = set(ENDER.findall(text))
        elif path.startswith("tests/unit/test_"):
            units += tree.read(root, path)
    found = []
    known = {name for _, _, name, _ in calls}
    for path, line, name, parameters in calls:
        if not names_object(name, parameters, opaque):
            if "*" in parameters and name not in {*rows, *NULL_IS_GOOD} and \
                    not re.search(rf"\b{name}\([^;]*\bNULL\b", units):
                found.append(f"{path}:{line}: {name}() has no row in {ROWS}, and no unit test tries it with NULL")
            continue
        if path in ELSEWHERE:
            if f"{name}(" not in tree.read(root, ELSEWHERE[path]):
                found.append(f"{path}:{line}: {name}() names an object and does not race in {ELSEWHERE[path]}")
            continue
        if name not in rows:
            found.append(f"{path}:{line}: {name}() names an object and has no row in {ROWS}")
        ends = ENDS.match(name)
        if ends and ends.group(1) in opaque and name not in enders:
            found.append(f"{path}:{line}: {name}() ends an object and is no ender in {ENDERS}")
    if tree.read(root, STRUCTS) != structs_text(headers_of(root)):
        found.append(f"{STRUCTS}:1: is not what --update makes of the headers")
    found += [f"{path}:{line}: no public call is named {name}"
              for name, (path, line) in rows.items() if name not in known]
    return found


def self_test():
    header = ("typedef struct vram_thing vram_thing;\n"
              "VRAM_API int vram_thing_create(int n, vram_thing **thing);\n"
              "VRAM_API int vram_thing_look(const vram_thing *thing);\n"
              "VRAM_API void vram_thing_destroy(vram_thing *thing);\n")
    rows = "CALL(vram_thing_look, THING, 0) {\nCALL(vram_thing_destroy, THING, 0) {\n"
    clean = {HEADERS + "thing.h": header, "tests/unit/test_a.c": "vram_thing_create(1,\n    NULL);\n",
             ROWS + "rows.c": rows,
             STRUCTS: structs_text([(HEADERS + "thing.h", header)]), ENDERS: "X(THING, THING, 0, vram_thing_destroy, x)\n"}

    def more(line):
        return {HEADERS + "more.h": f"VRAM_API int {line};\n"}
    return tree.self_test(check, clean, [
        ("vram_more() names an object", more("vram_more(vram_thing *thing, int x)")),
        ("vram_more() names an object", more("vram_more(vram_thing *const *things)")),
        ("vram_more() names an object", more("vram_more(int x,\n    vram_addr addr)")),
        ("vram_more() names an object", more("vram_more(const vram_async *async)")),
        ("vram_more() names an object", more("vram_more(vram_auto_block *block)")),
        ("no unit test tries it with NULL", more("vram_more(const char *text)")),
        ("no unit test tries it with NULL", {**more("vram_more(const char *text)"),
                                                "tests/unit/test_more.c": "vram_more(x);"}),
        ("no public call is named vram_old", {ROWS + "rows_old.c": "CALL_AS(vram_old, x, THING, 0) {\n"}),
        ("is no ender", {ENDERS: ""}),
        ("is not what --update makes", {HEADERS + "s.h": "typedef struct vram_s { size_t size; } vram_s;\n"}),
    ])


if __name__ == "__main__":
    if sys.argv[1] == "--self-test":
        tree.finish(self_test())
    if sys.argv[2:] == ["--update"]:
        with open(os.path.join(sys.argv[1], STRUCTS), "w", encoding="utf-8") as file:
            file.write(structs_text(headers_of(sys.argv[1])))
    tree.finish(tree.report(check(sys.argv[1])))
