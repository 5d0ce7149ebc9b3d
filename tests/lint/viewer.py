#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""viewer.py ROOT | --self-test: the pages in cli/viewer/generated were made from the sources of viewer/ as they are."""
import hashlib
import os
import re
import sys
import tempfile

PAGES = ("viewer_page.h", "serve_page.h")
LEFT_OUT = {"node_modules", "package-lock.json"}


def sources(folder):
    for top, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in LEFT_OUT)
        for name in names:
            if name not in LEFT_OUT:
                yield os.path.relpath(os.path.join(top, name), folder).replace(os.sep, "/")


def digest_of(root):
    digest = hashlib.sha256()
    for name in sorted(sources(os.path.join(root, "viewer"))):
        with open(os.path.join(root, "viewer", name), "rb") as file:
            digest.update(name.encode() + b"\0" + file.read() + b"\0")
    return digest.hexdigest()


def stale(root):
    """The pages that are older than their sources."""
    digest = digest_of(root)
    for name in PAGES:
        with open(os.path.join(root, "cli/viewer/generated", name), encoding="utf-8") as file:
            if re.search(r"sources ([0-9a-f]{64})", file.read()).group(1) != digest:
                yield name


def write(root, name, text):
    path = os.path.join(root, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def self_test():
    with tempfile.TemporaryDirectory() as root:
        write(root, "viewer/src/main.ts", "one")
        write(root, "viewer/node_modules/other.ts", "not ours")
        for name in PAGES:
            write(root, "cli/viewer/generated/" + name, f"sources {digest_of(root)}")
        assert not list(stale(root))
        write(root, "cli/viewer/generated/serve_page.h", "sources " + "0" * 64)
        assert list(stale(root)) == ["serve_page.h"]
        write(root, "viewer/src/main.ts", "two")
        assert len(list(stale(root))) == 2
    return 0


def main():
    if sys.argv[1] == "--self-test":
        return self_test()
    found = list(stale(sys.argv[1]))
    for name in found:
        print(f"cli/viewer/generated/{name} is older than viewer/: run tools/viewer")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
