#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""hardened.py BUILD CC [--fortified]: what an attacker of a program with these libraries meets.

Installs a build into a temporary prefix and reads every ELF file there: position independent, read-only after
relocation with all symbols bound at start, no executable stack, no segment that is writable and executable, no other
search path than the file's own folder, stack protector, branch protection where the compiler has it, and, with --fortified, checked string
functions. Before that, a program that is built without all of this must be found.
"""
import os
import platform
import subprocess
import sys
import tempfile

BRANCHES = {"x86_64": ("IBT", "SHSTK"), "aarch64": ("BTI", "PAC")}.get(platform.machine(), ())


def readelf(flags, path):
    return subprocess.run(["readelf", *flags, path], capture_output=True, text=True, check=True).stdout


def findings(path, fortified, branches):
    """What is missing in one file."""
    text = readelf(["-hldnW"], path)
    symbols = readelf(["--dyn-syms", "-W"], path)
    found = []

    def want(holds, what):
        if not holds:
            found.append(what)

    segments = [line.split() for line in text.splitlines() if line.strip().startswith(("LOAD ", "GNU_STACK "))]
    want("Type:                              DYN" in text, "is not position independent")
    want(" INTERP " not in text or "PIE" in text, "is a program without PIE")
    want("GNU_RELRO" in text, "has no GNU_RELRO")
    want("NOW" in text, "binds symbols when they are first called")
    want(not any("RWE" in segment for segment in segments if segment[0] == "GNU_STACK"), "has an executable stack")
    want(not any("RWE" in segment for segment in segments if segment[0] == "LOAD"),
         "has a segment that is writable and executable")
    want("TEXTREL" not in text, "relocates its code")
    paths = [line for line in text.splitlines() if "RPATH" in line or "RUNPATH" in line]
    want(all("[$ORIGIN]" in line for line in paths), "looks for libraries in other places than its own folder")
    want("__stack_chk_fail" in symbols, "has no stack protector")
    if fortified:
        want("_chk@" in symbols.replace("__stack_chk", ""), "calls no checked functions")
    for feature in branches:
        want(feature in text, f"has no {feature}")
    return found


def is_elf(path):
    if os.path.islink(path) or not os.path.isfile(path):
        return False
    with open(path, "rb") as stream:
        return stream.read(4) == b"\x7fELF"


def unprotected_members(path):
    """The objects of an archive whose branches are not protected."""
    members = readelf(["-nW"], path).split("\nFile: ")[1:]
    return [member.split("\n", 1)[0] for member in members if not all(feature in member for feature in BRANCHES)]


def branches_of(compiler, folder):
    """What a program of this compiler has, whose start files must have it too; None: it knows no such protection."""
    source, program = os.path.join(folder, "plain.c"), os.path.join(folder, "plain")
    with open(source, "w", encoding="ascii") as stream:
        stream.write("int main(void) { return 0; }\n")
    flag = "-fcf-protection" if platform.machine() == "x86_64" else "-mbranch-protection=standard"
    if subprocess.run([compiler, flag, source, "-o", program], capture_output=True, check=False).returncode:
        return None
    text = readelf(["-n"], program)
    return tuple(feature for feature in BRANCHES if feature in text)


def must_be_found(compiler, folder):
    """A program with nothing of it has every finding that does not depend on the machine."""
    source, program = os.path.join(folder, "soft.c"), os.path.join(folder, "soft")
    with open(source, "w", encoding="ascii") as stream:
        stream.write("int main(void) { return 0; }\n")
    subprocess.run([compiler, "-O0", "-fno-stack-protector", "-no-pie", "-z", "norelro", "-z", "lazy", "-z", "execstack",
                    "-Wl,-rpath,/tmp", source, "-o", program], check=True, capture_output=True)
    found = findings(program, True, ())
    expected = ["position", "without PIE", "GNU_RELRO", "binds", "executable stack", "other places", "protector",
                "checked"]
    return [what for what in expected if not any(what in line for line in found)]


def main(build, compiler, *flags):
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        wrong += [f"this test does not find: {what}" for what in must_be_found(compiler, folder)]
        branches = branches_of(compiler, folder)
        archives, known = [], branches is not None
        branches = branches or ()
        prefix = os.path.join(folder, "prefix")
        subprocess.run(["cmake", "--install", build, "--prefix", prefix], check=True, capture_output=True)
        files = [os.path.join(place, name) for place, _, names in os.walk(prefix) for name in names]
        if known:
            archives = sorted(path for path in files if path.endswith(".a"))
        files = sorted(path for path in files if is_elf(path))
        for path in archives:
            wrong += [f"{member} has unprotected branches" for member in unprotected_members(path)]
        for path in files:
            wrong += [f"{os.path.relpath(path, prefix)} {what}"
                      for what in findings(path, "--fortified" in flags, branches)]
        if len(files) < 4:
            wrong.append(f"only {len(files)} programs and libraries were installed")
    print("\n".join(wrong) or f"{len(files)} files: position independent, bound at start, protected"
          + f"; {len(archives)} archives with {' and '.join(BRANCHES)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
