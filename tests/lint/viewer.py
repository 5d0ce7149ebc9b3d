#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""viewer.py ROOT | --self-test: cli/viewer/generated/viewer_page.h was made from the sources of viewer/ as they are."""
import hashlib
import os
import re
import sys
import tempfile

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


def is_current(root):
    with open(os.path.join(root, "cli/viewer/generated/viewer_page.h"), encoding="utf-8") as file:
        return re.search(r"sources ([0-9a-f]{64})", file.read()).group(1) == digest_of(root)


def write(root, name, text):
    path = os.path.join(root, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def self_test():
    with tempfile.TemporaryDirectory() as root:
        write(root, "viewer/src/main.ts", "one")
        write(root, "viewer/node_modules/other.ts", "not ours")
        write(root, "cli/viewer/generated/viewer_page.h", f"sources {digest_of(root)}")
        assert is_current(root)
        write(root, "viewer/src/main.ts", "two")
        assert not is_current(root)
    return 0


def main():
    if sys.argv[1] == "--self-test":
        return self_test()
    if not is_current(sys.argv[1]):
        print("cli/viewer/generated/viewer_page.h is older than viewer/: run tools/viewer")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
