#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sources.py ROOT | --self-test: the rules of form that a reader would otherwise have to check."""
import os
import re
import sys

sys.dont_write_bytecode = True
import tree  # noqa: E402

OURS = ("include/", "src/", "cli/")
LINES_MAX = 600

# Written in two parts so that this file does not find itself.
WORDS = re.compile(r"\b(TO" r"DO|FIX" r"ME|X" r"XX|HA" r"CK)\b")

MEMORY = re.compile(r"(?<![\w.>])(malloc|calloc|realloc|free|strdup|strndup|aligned_alloc|"
                    r"posix_memalign|asprintf|vasprintf|getline|reallocarray)\s*\(")
ENDS = re.compile(r"(?<![\w.>])(abort|exit|_exit|_Exit|quick_exit|raise|printf|vprintf|fprintf|"
                  r"vfprintf|dprintf|puts|fputs|putchar|perror|fwrite)\s*\(")
# The default answer to a lock taken out of order, in debug builds alone.
MAY_END = {"src/base/lock.c": {"abort"}}

# A set-id program must not believe its environment: two files ask whether it is one.
ENVIRONMENT = re.compile(r"(?<![\w.>])((?:secure_)?getenv)\s*\(")
READS_ENVIRONMENT = ("src/base/os/", "cli/environment.h")

# A text is for people: what the code does next follows from statuses and flags.
BY_TEXT = re.compile(r"\b(strstr|strcmp|strncmp|strchr|strrchr|memcmp)\s*\([^;{]*?"
                     r"(?:vram_error_get\(\)|\b\w*error(?:\.|->))\s*(?:->)?\s*(?:text|operation)\b")

SUFFIX_T = re.compile(r"\b(?:struct|enum|union)\s+\w+_t\b|\btypedef\b[^;{}]*\b\w+_t\s*;")

# The first line of what a tool writes: the tool, and what it reads.
MADE = re.compile(r"/\* Made by (tools/[\w-]+) from (\S+?)(?: with [^\n]+)?\. \*/\n")

SCRIPT_SUFFIXES = (".c", ".h", ".hpp", ".cpp", ".py", ".sh", ".cmake", ".in", ".map", ".bash",
                   ".fish", ".zsh", ".1", "CMakeLists.txt", "Makefile", ".clang-format",
                   ".clang-tidy", ".editorconfig")


def is_source(root, path):
    if path.endswith(SCRIPT_SUFFIXES):
        return True
    return os.access(os.path.join(root, path), os.X_OK) and tree.read(root, path).startswith("#!")


def calls(root, path, pattern, allowed, why):
    text = tree.code(tree.read(root, path))
    return [f"{path}:{tree.line_of(text, m.start())}: {m.group(1)}(): {why}"
            for m in pattern.finditer(text) if m.group(1) not in allowed]


def check_spdx(root, path):
    head = "\n".join(tree.read(root, path).split("\n")[:3])
    if is_source(root, path) and "SPDX-License-Identifier: Apache-2.0" not in head:
        return [f"{path}:1: no SPDX line"]
    return []


def check_words(root, path):
    if path.endswith(".png"):
        return []  # any three letters may be among its bytes
    text = tree.read(root, path)
    return [f"{path}:{tree.line_of(text, m.start())}: {m.group(1)}: unfinished work"
            for m in WORDS.finditer(text)]


def is_generated(path):
    return "generated" in path.split("/")[:-1]


def check_generated(root, path):
    """Generated code names the tool that makes it, which names its source; and lies apart from what people write."""
    made = MADE.match(tree.read(root, path))
    if not is_generated(path):
        return [f"{path}:1: made by {made.group(1)}: belongs in a folder generated/"] if made else []
    if not made:
        return [f"{path}:1: generated, but the first line does not say: Made by tools/... from ..."]
    tool, source = made.groups()
    if not os.path.isfile(os.path.join(root, source)):
        return [f"{path}:1: made from {source}, which does not exist"]
    if not os.path.isfile(os.path.join(root, tool)) or source not in tree.read(root, tool):
        return [f"{path}:1: {tool} does not make anything from {source}"]
    return []


def check_own(root, path):
    """Rules for the library and the command alone."""
    found = []
    text = tree.read(root, path)
    lines = text.count("\n")
    if lines > LINES_MAX and not is_generated(path):  # nobody reads those
        found.append(f"{path}: {lines} lines: more than {LINES_MAX}, split it by noun")
    if path.startswith("src/"):
        if path != "src/base/memory.c":
            found += calls(root, path, MEMORY, (), "memory comes from base/memory.h")
        found += calls(root, path, ENDS, MAY_END.get(path, ()), "a library neither ends nor prints")
        found += calls(root, path, BY_TEXT, (), "no control flow by the text of an error")
    text = tree.code(tree.read(root, path))
    found += [f"{path}:{tree.line_of(text, m.start())}: {m.group(0).split()[-1]}: no _t types"
              for m in SUFFIX_T.finditer(text)]
    return found


def check_unique(paths):
    """One name, one file: a name in a message or a debugger means one place."""
    found, seen = [], {}
    for path in paths:
        if path.endswith((".c", ".h")) and not path.startswith("tests/consumers/"):
            name = os.path.basename(path)
            if name in seen:
                found.append(f"{path}: the same name as {seen[name]}")
            seen[name] = path
    return found


TAG = re.compile(r"^(?:typedef )?(?:struct|union|enum) (vr_\w+) \{", re.M)
STATIC = re.compile(r"^static (?:inline )?(?:[\w*]+ +)*\**(\w+)\([^;{]*\) \{", re.M)


def check_names(root, paths):
    """One tag, one type; and a static function is found by its name, in a backtrace and by grep."""
    found, seen = [], {}
    for path in paths:
        if not path.startswith("src/") or not path.endswith((".c", ".h")):
            continue
        text = tree.code(tree.read(root, path))
        for match in TAG.finditer(text):
            if match.group(1) in seen:
                found.append(f"{path}: the tag {match.group(1)} is defined in {seen[match.group(1)]} too")
            seen[match.group(1)] = path
        found += [f"{path}:{tree.line_of(text, match.start())}: {match.group(1)}: a static function's name has a "
                  "noun and a verb" for match in STATIC.finditer(text) if "_" not in match.group(1)]
    return found


def check_listed(root, paths):
    """A source that no CMakeLists.txt names is built by nobody."""
    lists = {path: set(re.split(r"[\s()]+", tree.read(root, path)))
             for path in paths if os.path.basename(path) == "CMakeLists.txt"}
    found = []
    for path in paths:
        if path.endswith(".c") and path.startswith(("src/", "cli/")):
            top = path.split("/", 1)
            if top[1] not in lists.get(f"{top[0]}/CMakeLists.txt", ()):
                found.append(f"{path}: not in {top[0]}/CMakeLists.txt")
        unit = re.fullmatch(r"tests/unit/(test_(\w+)\.c)", path)
        if unit and not set(unit.groups()) & lists.get("tests/unit/CMakeLists.txt", set()):
            found.append(f"{path}: not in tests/unit/CMakeLists.txt")
    return found


def check(root):
    paths = tree.files(root)
    found = check_unique(paths) + check_listed(root, paths) + check_names(root, paths)
    for path in paths:
        if path == "LICENSE":
            continue
        found += check_spdx(root, path) + check_words(root, path)
        if path.endswith((".c", ".h")):
            found += check_generated(root, path)
        if path.startswith(OURS) and path.endswith((".c", ".h")):
            found += check_own(root, path)
        if path.startswith(OURS + ("interpose/", "adapters/")) and path.endswith((".c", ".h", ".cpp")):
            if not path.startswith(READS_ENVIRONMENT):
                found += calls(root, path, ENVIRONMENT, () if path.startswith(OURS) else ("secure_getenv",),
                               "the environment is read by vr_os_environment and cli/environment.h")
    return found


SPDX = "/* SPDX-License-Identifier: Apache-2.0 */\n"
MADE_LINE = "/* Made by tools/%s from %s. */\n" + SPDX
LISTED = "# SPDX-License-Identifier: Apache-2.0\nset(x %s)\n"
CLEAN = {
    "src/base/memory.c": SPDX + "void *a(void) { return malloc(1); }\n",
    "src/base/lock.c": SPDX + "void b(void) { abort(); }\n",
    "src/device/device.c": SPDX + "/* free(x) and printf() in a comment */\n"
                                  "void c(struct d *d) { d->ops->free(d); vr_mem_free(d); }\n"
                                  "struct e { void (*free)(void); uint64_t x; };\n",
    "cli/main.c": SPDX + "int main(void) { printf(\"exit(1)\"); return 0; }\n",
    "tools/x.sh": "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\n",
    "docs/a.md": "words\n",
    "docs/a.png": "\x89PNG XX" "X\n",
    "src/base/code.cu": "",
    "tools/made": "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\nmake src/base/code.cu\n",
    "src/base/generated/code.h": MADE_LINE % ("made", "src/base/code.cu") + "int x;\n" * LINES_MAX,
    "src/CMakeLists.txt": LISTED % "base/memory.c base/lock.c base/log.c device/device.c\n"
                                   "device/queue.c device/memory.c",
    "cli/CMakeLists.txt": LISTED % "main.c info.c",
}
VIOLATIONS = [
    ("no SPDX", {"src/device/queue.c": "int x;\n"}),
    ("no SPDX", {"tools/y.sh": "#!/bin/sh\n"}),
    ("unfinished", {"docs/b.md": "TO" "DO: write\n"}),
    ("unfinished", {"cli/info.c": SPDX + "/* FIX" "ME */\n"}),
    ("more than", {"cli/info.c": SPDX + "int x;\n" * LINES_MAX}),
    ("base/memory.h", {"src/device/queue.c": SPDX + "void f(void *p) { free(p); }\n"}),
    ("base/memory.h", {"src/base/log.c": SPDX + "char *f(char *p) { return strdup (p); }\n"}),
    ("neither ends", {"src/base/log.c": SPDX + "void f(void) { fprintf(stderr, 1); }\n"}),
    ("neither ends", {"src/base/log.c": SPDX + "void f(void) { abort(); }\n"}),
    ("by the text", {"src/base/log.c": SPDX + "bool f(void) { return strstr(error.text, s); }\n"}),
    ("by the text", {"src/base/log.c": SPDX + "bool f(void) {\n  return x &&\n"
                                              "    !strcmp(vram_error_get()->operation, s);\n}\n"}),
    ("the environment", {"cli/info.c": SPDX + "char *f(void) { return getenv(1); }\n"}),
    ("the environment", {"adapters/a.cpp": SPDX + "char *f() { return std::getenv(1); }\n"}),
    ("no _t", {"src/base/log.c": SPDX + "typedef int log_t;\n"}),
    ("no _t", {"include/vram/log.h": SPDX + "struct vram_log_t { int x; };\n"}),
    ("not in src/CMakeLists.txt", {"src/base/lost.c": SPDX + "int x;\n"}),
    ("not in tests/unit/CMakeLists.txt", {"tests/unit/test_lost.c": SPDX + "int x;\n"}),
    ("does not say", {"src/base/generated/other.h": SPDX + "int x;\n"}),
    ("which does not exist", {"src/base/generated/other.h": MADE_LINE % ("made", "src/base/gone.cu")}),
    ("does not make", {"src/base/generated/other.h": MADE_LINE % ("made", "cli/main.c")}),
    ("does not make", {"src/base/generated/other.h": MADE_LINE % ("gone", "src/base/code.cu")}),
    ("belongs in", {"src/base/other.h": MADE_LINE % ("made", "src/base/code.cu")}),
    ("is defined in", {"src/base/log.h": SPDX + "struct vr_a {\n int x;\n};\n",
                       "src/device/device.h": SPDX + "struct vr_a {\n int y;\n};\n"}),
    ("noun and a verb", {"src/base/log.c": SPDX + "static inline struct vr_a *find(struct vr_a *a,\n"
                                                  "    int b) {\n}\n"}),
    ("same name", {"src/device/memory.c": SPDX + "int x;\n"}),
]

if __name__ == "__main__":
    if sys.argv[1] == "--self-test":
        tree.finish(tree.self_test(check, CLEAN, VIOLATIONS))
    tree.finish(tree.report(check(sys.argv[1])))
