#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tiers.py ROOT | --self-test: who may include whom. The table is docs/architecture.md's."""
import os
import re
import sys

sys.dont_write_bytecode = True
import tree  # noqa: E402

PUBLIC = "include/vram/"
BASE = "src/base/"
CONTRACT = ("src/backend/backend.h", "src/backend/registry.h")

BELOW = (PUBLIC, BASE, "src/track/", "src/device/", "src/core/", "src/mem/", "src/xfer/")

# What the libraries on top of libvram may include of base: what keeps no state for the process and is compiled into
# each of them, and the two headers that src/extension implements by public functions.
HELPER = tuple(BASE + name for name in (
    "atomic.h", "clock.h", "decimal.h", "error.h", "handle.h", "list.h", "loader.h", "lock.h", "memory.h", "object.h", "os/machine.h",
    "os/os.h", "size.h", "struct_tail.h", "text.h"))

# The first prefix that fits a file is its tier; it may include what starts with one of the others.
# {own} is the folder of the file itself. Tiers that the design names and later versions fill are
# listed already, so that their first file finds its rule.
TIERS = [
    ("include/", (PUBLIC,)),
    ("src/base/", (PUBLIC, BASE)),
    ("src/backend/cuda/", (PUBLIC, BASE, CONTRACT[0], "{own}/", "src/backend/hip/generated/hip_entries.h")),
    ("src/backend/hip/", (PUBLIC, BASE, CONTRACT[0], "{own}/", "src/backend/cuda/")),
    ("src/backend/host/", (PUBLIC, BASE, CONTRACT[0], "{own}/")),
    ("src/backend/opencl/", (PUBLIC, BASE, CONTRACT[0], "{own}/")),
    ("src/backend/sim/", (PUBLIC, BASE, CONTRACT[0], "{own}/")),
    ("src/backend/vulkan/", (PUBLIC, BASE, CONTRACT[0], "{own}/")),
    ("src/backend/metal/", (PUBLIC, BASE, CONTRACT[0], "{own}/")),
    ("src/backend/registry.", (PUBLIC, BASE) + CONTRACT),
    ("src/backend/backend.h", (PUBLIC, BASE)),
    ("src/track/", (PUBLIC, BASE, "src/track/")),
    ("src/device/", (PUBLIC, BASE, "src/track/", "src/device/") + CONTRACT),
    ("src/core/space/", (PUBLIC, BASE, "src/core/space/")),
    ("src/core/", (PUBLIC, BASE, "src/track/", "src/device/", "src/core/")),
    ("src/mem/", (PUBLIC, BASE, "src/track/", "src/device/", "src/core/", "src/mem/")),
    ("src/xfer/", BELOW),
    ("src/ring/", BELOW + ("src/ring/",)),
    ("src/share/", BELOW + ("src/share/",)),
    ("src/lease/", BELOW + ("src/lease/",)),
    ("src/compute/", (PUBLIC, "src/compute/") + HELPER),
    ("src/extension/", (PUBLIC, BASE)),
    ("src/model/", (PUBLIC, "src/model/") + HELPER),
    ("cli/", (PUBLIC, "cli/", "interpose/run_page.h", BASE + "decimal.h")),
    ("interpose/", (PUBLIC, BASE, "src/track/", "interpose/",
                    "src/backend/opencl/opencl_api.h", "src/backend/vulkan/vulkan_types.h")),
    ("adapters/ucx/", (PUBLIC, "adapters/ucx/") + HELPER),
    ("adapters/", (PUBLIC, "adapters/")),
    ("examples/", (PUBLIC, "examples/")),
    ("bench/", (PUBLIC, "bench/")),
]
CHECKED = ("include/", "src/", "cli/", "interpose/", "adapters/", "examples/", "bench/")

# The C library that any tier may use. What speaks to the operating system is one folder's business.
STANDARD = {"assert.h", "ctype.h", "errno.h", "float.h", "inttypes.h", "limits.h", "math.h",
            "stdalign.h", "stdarg.h", "stdbool.h", "stddef.h", "stdint.h", "stdio.h", "stdlib.h",
            "string.h"}
PUBLIC_STANDARD = {"stdbool.h", "stddef.h", "stdint.h"}
EXTRA = {"include/vram/ring_device.h": {"time.h"}, # the clock of a kernel in C
         "src/base/atomic.h": {"stdatomic.h"},
         "src/base/lock.h": {"pthread.h"},
         "src/base/lock.c": {"pthread.h", "time.h"}}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)


def system_allowed(path, header):
    if path.startswith("include/"):
        return header in PUBLIC_STANDARD or header in EXTRA.get(path, ())
    if path.startswith("src/base/os/") or not path.startswith("src/"):
        return True
    return header in STANDARD or header in EXTRA.get(path, ())


def resolve(root, path, name):
    """The file of the tree that an include means, or None for a system header."""
    for folder in (os.path.dirname(path), "src", "include", "cli", "interpose", ""):
        candidate = os.path.normpath(os.path.join(folder, name)).replace(os.sep, "/")
        if os.path.isfile(os.path.join(root, candidate)):
            return candidate
    return None


def check_file(root, path):
    rule = next((allowed for prefix, allowed in TIERS if path.startswith(prefix)), None)
    if rule is None:
        return [f"{path}: belongs to no tier; add its folder to tests/lint/tiers.py"]
    allowed = tuple(a.format(own=os.path.dirname(path)) for a in rule)
    found = []
    text = tree.read(root, path)
    for match in INCLUDE.finditer(text):
        quote, name = match.groups()
        place = f"{path}:{tree.line_of(text, match.start())}"
        target = resolve(root, path, name)
        if ".." in name.split("/"):
            found.append(f"{place}: {name}: includes start at a tier, never with ..")
        elif target is None and quote == '"':
            found.append(f"{place}: {name}: no such file")
        elif target is None and not system_allowed(path, name):
            found.append(f"{place}: <{name}> is not for this tier")
        elif target is not None and not target.startswith(allowed):
            found.append(f"{place}: {target} is not below this tier")
    return found


def check(root):
    found = []
    for path in tree.files(root):
        if path.startswith(CHECKED) and path.endswith((".c", ".cpp", ".h")):
            found += check_file(root, path)
    return found


CLEAN = {
    "include/vram/base.h": "#include <stdint.h>\n",
    "src/base/lock.h": "#include <vram/base.h>\n#include <pthread.h>\n",
    "src/base/os/posix.c": "#include <sys/mman.h>\n",
    "src/backend/backend.h": '#include "base/lock.h"\n',
    "src/backend/host/host_backend.h": '#include "backend/backend.h"\n',
    "src/backend/host/host.c": '#include "backend/host/host_backend.h"\n#include <string.h>\n',
    "src/device/device.c": '#include "backend/backend.h"\n#include "base/lock.h"\n',
    "cli/main.c": "#include <vram/base.h>\n#include <unistd.h>\n",
}
VIOLATIONS = [
    ("not below", {"src/base/log.c": '#include "backend/backend.h"\n'}),
    ("not below", {"src/backend/sim/sim.c": '#include "backend/host/host_backend.h"\n'}),
    ("not below", {"src/backend/sim/sim.c": '#include "device/device.c"\n'}),
    ("not below", {"src/device/queue.c": '#include "backend/host/host_backend.h"\n'}),
    ("not below", {"cli/info.c": '#include "base/lock.h"\n'}),
    ("not below", {"examples/01_hello.c": '#include "base/lock.h"\n'}),
    ("not for this tier", {"src/device/queue.c": "#include <unistd.h>\n"}),
    ("not for this tier", {"src/backend/sim/sim.c": "# include <pthread.h>\n"}),
    ("not for this tier", {"src/base/log.c": "#include <stdatomic.h>\n"}),
    ("not for this tier", {"include/vram/queue.h": "#include <stdio.h>\n"}),
    ("never with ..", {"src/device/queue.c": '#include "../base/lock.h"\n'}),
    ("no such file", {"src/device/queue.c": '#include "base/gone.h"\n'}),
    ("not below", {"src/device/queue.c": '#include "core/pool.h"\n',
                   "src/core/pool.h": "int x;\n"}),
    ("not below", {"src/core/pool.c": '#include "backend/backend.h"\n'}),
    ("not below", {"src/core/pool.c": '#include "mem/buffer.h"\n',
                   "src/mem/buffer.h": "int x;\n"}),
    ("not below", {"src/model/fit.c": '#include "device/objects.h"\n', "src/device/objects.h": "int x;\n"}),
    ("not below", {"src/compute/product.c": '#include "core/pool.h"\n', "src/core/pool.h": "int x;\n"}),
    ("not below", {"src/model/fit.c": '#include "base/option.h"\n', "src/base/option.h": "int x;\n"}),
    ("no tier", {"src/elsewhere/pool.c": "int x;\n"}),
]

if __name__ == "__main__":
    if sys.argv[1] == "--self-test":
        tree.finish(tree.self_test(check, CLEAN, VIOLATIONS))
    tree.finish(tree.report(check(sys.argv[1])))
