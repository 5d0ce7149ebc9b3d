# SPDX-License-Identifier: Apache-2.0
"""What all lints share: the files of the tree, C without comments, and a runner with self-tests."""
import os
import re
import subprocess
import sys
import tempfile

SKIPPED_DIRS = {".git", ".cache", "__pycache__", "b"}


def files(root):
    """Paths of all files that belong to the tree, relative to root, with forward slashes."""
    listed = None
    if os.path.exists(os.path.join(root, ".git")):
        try:
            listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=root,
                                    capture_output=True, text=True, check=True).stdout.split("\n")
        except (OSError, subprocess.CalledProcessError):
            listed = None  # no git here, or a folder of another owner: walk instead
    if listed is None:
        listed = []
        for folder, folders, names in os.walk(root):
            folders[:] = [f for f in folders if f not in SKIPPED_DIRS and not f.startswith("build")]
            listed += [os.path.relpath(os.path.join(folder, name), root) for name in names]
    return sorted(f for f in listed if f and os.path.isfile(os.path.join(root, f)))


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as stream:
        return stream.read()


TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def code(text):
    """C with comments and literals blanked, line numbers kept."""
    return TOKEN.sub(lambda m: re.sub(r"[^\n]", " ", m.group(0)), text)


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def plant(root, planted):
    """Writes {path: text} below root."""
    for path, text in planted.items():
        target = os.path.join(root, path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "w", encoding="utf-8") as stream:
            stream.write(text)


def self_test(check, clean, violations):
    """Proves that a lint can fail: the clean tree passes, and with each planted violation, a row of
    (what the finding must say, {path: text}), it does not."""
    failures = 0
    for expected, planted in [(None, {})] + violations:
        with tempfile.TemporaryDirectory() as root:
            plant(root, clean)
            plant(root, planted)
            found = check(root)
        good = not found if expected is None else any(expected in line for line in found)
        if not good:
            failures += 1
            print(f"self-test: expected {expected or 'no finding'}, got {found or 'no finding'}")
    print(f"self-test: {len(violations)} planted violations, {failures} missed")
    return failures


def report(found):
    """Prints findings; the exit code of a lint."""
    for line in found:
        print(line)
    print(f"{len(found)} findings")
    return 1 if found else 0


def finish(code_):
    sys.exit(1 if code_ else 0)
