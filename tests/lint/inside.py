#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""inside.py ROOT | --self-test: the library's own sources call no function of the public API.

A public function is an entry: it may check, set up and count what an outside caller needs. What the library
itself needs has an internal function (vr_...), which the public one calls. Naming a public function in src is
a finding, except in its definition.

And nothing hands the operation's name down: a public call names itself once (VR_CALL, base/error.h), and vr_fail
finds the name. A parameter `operation` is a finding above base, except where the name is a driver's function's."""
import re
import sys

sys.dont_write_bytecode = True
import tree  # noqa: E402

# What may call public functions, and which. Each row goes when what it says has been done.
FOLDERS_ON_PUBLIC_HEADERS = ("src/compute/", "src/extension/", "src/model/")

NAMES_HANDED_DOWN = ("src/base/", "src/backend/", "src/device/ops.", "src/device/handle_set.")
PUBLIC_PARAMETER = "async_of_point"  # whose caller names the work himself

PARAMETER = re.compile(r"\bconst char \*(?:const )?operation\s*[,)]")
DECLARED = re.compile(r"\bVRAM_API\b[^;{]*?\b(vram_\w+)\s*\(")
NAMED = re.compile(r"(?<![\w.>])vram_\w+")


def declared(root, paths):
    """Every exported function."""
    names = set()
    for path in paths:
        if path.startswith("include/vram/") and path.endswith(".h"):
            names.update(DECLARED.findall(tree.code(tree.read(root, path))))
    return names


def is_definition(code, match):
    """Whether the name begins the definition or declaration of the function: its line starts with its type."""
    line = code[code.rfind("\n", 0, match.start()) + 1:match.start()]
    return bool(re.match(r"[A-Za-z_][\w \*]*[ \*]$", line)) and not re.match(r"\s|.*\breturn\b", line)


def check_file(root, path, public):
    code = tree.code(tree.read(root, path))
    found = []
    for match in NAMED.finditer(code):
        name = match.group(0)
        called = re.match(r"\s*\(", code[match.end():])
        if name not in public or (called and is_definition(code, match)):
            continue
        found.append(f"{path}:{tree.line_of(code, match.start())}: {name} is public; "
                     "call the internal function behind it")
    return found


def check_parameters(root, path):
    code = tree.code(tree.read(root, path))
    found = []
    for match in PARAMETER.finditer(code):
        head = code[max(code.rfind(end, 0, match.start()) for end in (";", "}", "{", "#")) + 1:match.start()]
        if PUBLIC_PARAMETER not in head:
            found.append(f"{path}:{tree.line_of(code, match.start())}: the operation's name is handed down; "
                         "VR_CALL or VR_OPERATION sets it, vr_fail finds it")
    return found


def check(root):
    paths = tree.files(root)
    public = declared(root, paths)
    found = [] if public else ["include/vram: no exported function was found"]
    for path in paths:
        if (path.startswith("src/") and path.endswith((".c", ".h"))
                and not path.startswith(FOLDERS_ON_PUBLIC_HEADERS)):
            found += check_file(root, path, public)
            if not path.startswith(NAMES_HANDED_DOWN):
                found += check_parameters(root, path)
    return found


CLEAN = {
    "include/vram/queue.h": "VRAM_API vram_status vram_queue_wait(vram_queue *queue,\n"
                            "                                     uint64_t timeout);\n"
                            "VRAM_API const char *vram_queue_name(vram_queue *queue);\n"
                            "static inline int vram_ring_sum(int a) { return a; }\n",
    "src/device/queue.c": "/* vram_queue_wait(queue) waits. */\n"
                          "vram_status vr_queue_wait(vram_queue *queue, uint64_t timeout) {\n"
                          "    return vr_fail(VRAM_ERR_STALE, \"vram_queue_wait\", \"gone\");\n}\n"
                          "vram_status vram_queue_wait(vram_queue *queue, uint64_t timeout) {\n"
                          "    return vr_queue_wait(queue, timeout);\n}\n"
                          "const char *vram_queue_name(vram_queue *queue) {\n    return \"\";\n}\n",
    "src/ring/ring.c": "int f(void) {\n    return vram_ring_sum(1);\n}\n",
    "src/base/memory.h": "void *vr_mem_alloc(size_t bytes, const char *operation);\n",
    "src/xfer/async.h": "vram_status vr_async_of_point(vram_point point, const char *operation,\n"
                        "                              vram_async *async);\n",
    "src/compute/gemm.c": "void f(void) {\n    vram_queue_wait(q, 0);\n}\n",
    "cli/main.c": "int main(void) {\n    vram_queue_wait(q, 0);\n}\n",
}
VIOLATIONS = [
    ("src/mem/buffer.c:2", {"src/mem/buffer.c": "void f(void) {\n    vram_queue_wait(q, 0);\n}\n"}),
    ("vram_queue_wait is public",
     {"src/mem/buffer.c": "int f(void) {\n    return vram_queue_wait(q, 0);\n}\n"}),
    ("vram_queue_wait is public",
     {"src/mem/buffer.c": "int f(void) {\n    int s = g() ? h() : vram_queue_wait(q, 0);\n}\n"}),
    ("vram_queue_name is public",
     {"src/mem/buffer.c": "#define NAME(q) puts(vram_queue_name(q))\n"}),
    ("vram_queue_wait is public",
     {"src/mem/ops.h": "static const struct ops ops = {.wait = vram_queue_wait, .poll = 0};\n"}),
    ("vram_queue_wait is public", {"src/xfer/auto.c": "QUIET(queue, vram_queue_wait(*object, 0))\n"}),
    ("handed down", {"src/mem/buffer.h": "int vr_take(struct x *x,\n            const char *operation);\n"}),
    ("handed down", {"src/mem/buffer.c": "static int take(const char *operation, int x) {\n}\n"}),
    ("no exported function", {"include/vram/queue.h": "int x;\n"}),
]

if __name__ == "__main__":
    if sys.argv[1] == "--self-test":
        tree.finish(tree.self_test(check, CLEAN, VIOLATIONS))
    tree.finish(tree.report(check(sys.argv[1])))
