#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run.py BINARY [--update] [--filter TEXT] | --self-test: golden-file tests of the command.

A case is a folder cases/NAME with
  cmd                        a shell line; `vram` in it is BINARY
  env                        optional: NAME=value lines, put on top of an almost empty environment
  exit                       optional: the exit code; 0 without it
  stdout.exact|glob|same     optional: what is printed; nothing without it
  stderr.exact|glob|same     the same for messages
`@VERSION@` in .exact and .glob files stands for the version of the public header. In .glob files `*`
stands for anything within a line and a line `...` for any number of lines. A .same file names a
file of the repository that the output must equal.

--update rewrites exit codes, .exact and .same files that differ; .glob files are for people.
"""
import difflib
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
KNOWN = {"cmd", "env", "exit"} | {f"{stream}.{kind}" for stream in ("stdout", "stderr")
                                  for kind in ("exact", "glob", "same")}
PASSED_ON = ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS", "GCOV_PREFIX",
             "GCOV_PREFIX_STRIP", "LLVM_PROFILE_FILE")
RUNTIME = tempfile.TemporaryDirectory()  # for live pages, so that the user's folder has none


def read(path):
    with open(path, encoding="utf-8", newline="") as stream:
        return stream.read()


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="") as stream:
        stream.write(text)


def version():
    header = read(os.path.join(ROOT, "include", "vram", "base.h"))
    parts = [re.search(rf"#define VRAM_VERSION_{part} (\d+)", header).group(1)
             for part in ("MAJOR", "MINOR", "PATCH")]
    return ".".join(parts) + re.search(r'VRAM_VERSION_PRE "(.*)"', header).group(1)


def environment(folder, binary):
    """Nothing of the caller's settings may reach the command but what sanitizers need."""
    env = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    env.update(PATH=os.path.dirname(os.path.abspath(binary)) + os.pathsep + os.defpath,
               LC_ALL="C", TERM="xterm", HOME="/dev/null", OCL_ICD_VENDORS="/nonexistent",
               XDG_RUNTIME_DIR=RUNTIME.name)
    path = os.path.join(folder, "env")
    for line in read(path).splitlines() if os.path.exists(path) else []:
        name, _, value = line.partition("=")
        env[name] = value
    return env


def line_pattern(line):
    return "[^\n]*".join(re.escape(part) for part in line.split("*"))


def glob_matches(pattern, text):
    parts = [".*?" if line == "..." else line_pattern(line) + "\n" for line in pattern.splitlines()]
    return re.fullmatch("".join(f"(?:{part})" for part in parts), text, re.S) is not None


def difference(expected, actual, name):
    lines = difflib.unified_diff(expected.splitlines(), actual.splitlines(), f"{name} expected",
                                 f"{name} actual", lineterm="")
    return "\n".join(lines) or f"{name} differs in its line breaks alone"


def check_stream(folder, stream, actual, update):
    """Returns what is wrong with one output, "" when it is as expected."""
    paths = {kind: os.path.join(folder, f"{stream}.{kind}") for kind in ("exact", "glob", "same")}
    present = [kind for kind in paths if os.path.exists(paths[kind])]
    if len(present) > 1:
        return f"{stream} has more than one expectation"
    kind = present[0] if present else "exact"
    if kind == "glob":
        pattern = read(paths["glob"]).replace("@VERSION@", version())
        return "" if glob_matches(pattern, actual) else difference(pattern, actual, stream)
    target = paths["exact"]
    if kind == "same":
        target = os.path.join(ROOT, read(paths["same"]).strip())
    expected = read(target) if os.path.exists(target) else ""
    if kind == "exact":
        expected = expected.replace("@VERSION@", version())
    if expected == actual:
        return ""
    if update:
        write(target, actual.replace(version(), "@VERSION@") if kind == "exact" else actual)
        return ""
    return difference(expected, actual, stream)


def check_exit(folder, actual, update):
    path = os.path.join(folder, "exit")
    expected = int(read(path)) if os.path.exists(path) else 0
    if expected == actual:
        return ""
    if update:
        write(path, f"{actual}\n")
        return ""
    return f"exit code {actual}, expected {expected}"


def check_case(folder, binary, update=False):
    """Runs one case and returns the list of what is wrong."""
    unknown = set(os.listdir(folder)) - KNOWN
    if unknown:
        return [f"files without a meaning: {', '.join(sorted(unknown))}"]
    with tempfile.TemporaryDirectory() as empty:
        result = subprocess.run(["/bin/sh", "-c", read(os.path.join(folder, "cmd"))], cwd=empty,
                                env=environment(folder, binary), stdin=subprocess.DEVNULL,
                                capture_output=True, timeout=120, check=False)
    wrong = [check_exit(folder, result.returncode, update),
             check_stream(folder, "stdout", result.stdout.decode("utf-8", "replace"), update),
             check_stream(folder, "stderr", result.stderr.decode("utf-8", "replace"), update)]
    return [text for text in wrong if text]


def run_all(cases, binary, update, only):
    names = [name for name in sorted(os.listdir(cases)) if only in name]
    failed = 0
    for name in names:
        wrong = check_case(os.path.join(cases, name), binary, update)
        failed += bool(wrong)
        if wrong:
            print(f"FAILED {name}", *wrong, sep="\n")
    print(f"{len(names) - failed} passed, {failed} failed")
    return 0 if names and not failed else 1


def self_test():
    """Each of these must be found wrong, or right, or the runner itself is worth nothing."""
    trials = [
        (0, {"cmd": "echo a", "stdout.exact": "a\n"}),
        (1, {"cmd": "echo a", "stdout.exact": "b\n"}),
        (1, {"cmd": "echo a"}),
        (1, {"cmd": "echo a >&2"}),
        (0, {"cmd": "echo took 3 ms; echo; echo end", "stdout.glob": "took * ms\n...\nend\n"}),
        (1, {"cmd": "echo took; echo end", "stdout.glob": "took * ms\n...\nend\n"}),
        (1, {"cmd": "printf end", "stdout.glob": "end\n"}),
        (0, {"cmd": "exit 3", "exit": "3\n"}),
        (1, {"cmd": "exit 3"}),
        (1, {"cmd": "true", "stdin.exact": ""}),
        (1, {"cmd": "true", "stdout.exact": "", "stdout.glob": ""}),
        (0, {"cmd": "echo $A", "env": "A=b=c\n", "stdout.exact": "b=c\n"}),
        (1, {"cmd": "echo other", "stdout.same": "LICENSE\n"}),
    ]
    bad = 0
    for number, (expected, files) in enumerate(trials):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                write(os.path.join(folder, name), text)
            found = len(check_case(folder, "/bin/true"))
            if bool(found) != bool(expected):
                print(f"trial {number}: found {found}, expected {expected}: {files}")
                bad += 1
    print(f"{len(trials) - bad} passed, {bad} failed")
    return 1 if bad else 0


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    update = "--update" in arguments
    only = ""
    if "--filter" in arguments:
        at = arguments.index("--filter")
        only = arguments.pop(at + 1)
    binaries = [word for word in arguments if not word.startswith("--")]
    if len(binaries) != 1 or not os.access(binaries[0], os.X_OK):
        print(__doc__, file=sys.stderr)
        return 2
    return run_all(os.path.join(HERE, "cases"), binaries[0], update, only)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
