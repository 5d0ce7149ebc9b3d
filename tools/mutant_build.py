# SPDX-License-Identifier: Apache-2.0
"""mutant_build.py: a copy of the tree with mutants behind switches, built; and the tests that ctest lists there."""
import filecmp
import json
import os
import re
import shutil
import subprocess
import sys

import mutants as changes

MOST = 1 << 16  # mutants of a run
PREFIX = """extern unsigned vr_mutant;
extern unsigned char *vr_mutants_met;
#define MUTANT(n) (vr_mutants_met[n] = 1, vr_mutant == (n))
#line 1
"""
# In each program and library with mutants. Its system calls are its own: tests replace those of the C library. A
# program that was started with an environment of its own finds the variables in that of its session's first process.
SWITCH = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#define HIDDEN __attribute__((visibility("hidden")))
HIDDEN unsigned vr_mutant;
static unsigned char unread[MOST];
HIDDEN unsigned char *vr_mutants_met = unread;
static char session[1 << 17];
static const char *variable(const char *name, size_t length) {
    for (char **at = environ; at && *at; at++) {
        if (!strncmp(*at, name, length)) {
            return *at + length;
        }
    }
    for (char *at = session; *at; at += strlen(at) + 1) {
        if (!strncmp(at, name, length)) {
            return at + length;
        }
    }
    return NULL;
}
static void session_read(void) {
    char path[40] = "/proc/", digits[16];
    int at = 0, into = 6;
    for (long id = syscall(SYS_getsid, 0); id > 0; id /= 10) {
        digits[at++] = (char)('0' + id % 10);
    }
    while (at > 0) {
        path[into++] = digits[--at];
    }
    memcpy(path + into, "/environ", 9);
    int file = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    size_t had = 0;
    for (long got = 1; file >= 0 && got > 0 && had < sizeof(session) - 2; had += got > 0 ? (size_t)got : 0) {
        got = syscall(SYS_read, file, session + had, sizeof(session) - 2 - had);
    }
    if (file >= 0) {
        syscall(SYS_close, file);
    }
}
__attribute__((constructor(101))) static void switch_read(void) {
    if (!variable("MUTANT=", 7) && !variable("MUTANTS_MET=", 12)) {
        session_read();
    }
    const char *number = variable("MUTANT=", 7), *path = variable("MUTANTS_MET=", 12);
    for (; number && *number; number++) {
        vr_mutant = 10 * vr_mutant + (unsigned)(*number - '0');
    }
    int file = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC) : -1;
    if (file >= 0) {
        long met = syscall(SYS_mmap, NULL, (size_t)MOST, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0L);
        vr_mutants_met = met < 0 && met > -4096 ? unread : (unsigned char *)met;
        syscall(SYS_close, file);
    }
}
""".replace("MOST]", f"{MOST}]").replace(")MOST", f"){MOST}")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def stop(why):
    """Whoever asks for what cannot be gets a sentence."""
    print(f"mutate: {why}", file=sys.stderr)
    sys.exit(2)


def write_changed(path, text):
    """Writes a file unless it has this text already: what is the same is not compiled again."""
    if os.path.exists(path) and read(path) == text:
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def git(root, *words):
    """What git says of a tree; nothing where there is no git."""
    try:
        done = subprocess.run(["git", "-C", root, *words], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


# ---------------------------------------------------------------------------------------------------------- the sources

def place(root, tree, by_file):
    """Writes the sources with their mutants."""
    for file, those in by_file.items():
        kept = [mutant for mutant in those if "result" not in mutant]
        write_changed(os.path.join(tree, file), PREFIX + changes.render(read(os.path.join(root, file)), kept))


def copy_tree(root, tree, by_file):
    """The files that git knows or would add, as they are; those with mutants are written by place."""
    listed = git(root, "ls-files", "-co", "--exclude-standard", "-z").split("\0")
    if listed == [""]:  # a release as it was unpacked
        listed = [os.path.relpath(os.path.join(folder, name), root) for folder, _, names in os.walk(root)
                  if not os.path.relpath(folder, root).startswith("build") for name in names]
    for name in filter(None, listed):
        source, target = os.path.join(root, name), os.path.join(tree, name)
        if name in by_file or not os.path.isfile(source):
            continue
        if not os.path.exists(target) or not filecmp.cmp(source, target, shallow=False):
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copyfile(source, target, follow_symlinks=False)  # with its own time: objects may be younger
            shutil.copymode(source, target, follow_symlinks=False)


def errors(output, tree, by_file):
    """{(file, line)} of the errors in files with mutants; where a macro's text is wrong, the place of its use"""
    found, is_error = set(), False
    for path, line, said in re.findall(r"^([^\s:]+):(\d+):\d+: (error|warning|note: in expansion)", output, re.M):
        is_error = said == "error" or is_error and said != "warning"
        name = os.path.relpath(os.path.join(tree, "build", path), tree)
        if is_error and name in by_file:
            found.add((name, int(line)))
    return found


def refuse(by_file, found):
    """Takes out the mutants at the lines of errors, or else the nearest one. Whether there were any."""
    refused = []
    for file, line in found:
        those = [m for m in by_file[file] if "result" not in m]
        spans = [m for m in those if m["line"] <= line <= m["last_line"]]
        refused += spans or sorted(those, key=lambda m: abs(m["line"] - line))[:1]
    for mutant in refused:
        mutant["result"] = "refused"
    return refused


# ----------------------------------------------------------------------------------------------------------- the build

def run_build(tree, build, targets, jobs):
    ninja = os.path.exists(os.path.join(build, "build.ninja"))
    command = ["cmake", "--build", build, "-j", str(jobs), "--target", *targets, "--", "-k"] + (["0"] if ninja else [])
    done = subprocess.run(command, cwd=tree, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", check=False)
    return done.returncode, done.stdout


def not_built(output):
    """What ninja or make could not make."""
    return re.findall(r"FAILED: (?:\[\S*\] )?(\S+)", output) + re.findall(r"\*\*\* \[\S+ (\S+)\] Error", output)


def compile_all(root, tree, drawn, options):
    """Builds the tests with the mutants, without those that the compiler refuses. The tests as ctest lists them."""
    build = os.path.join(tree, "build-" + (options.sanitize.replace(",", "-") or "dev"))
    by_file = {}
    for mutant in drawn:
        by_file.setdefault(mutant["file"], []).append(mutant)
    place(root, tree, by_file)
    copy_tree(root, tree, by_file)
    for file in json.loads(read(os.path.join(tree, "placed.json"))) if os.path.exists(
            os.path.join(tree, "placed.json")) else []:
        if file not in by_file and os.path.exists(os.path.join(root, file)):
            write_changed(os.path.join(tree, file), read(os.path.join(root, file)))  # had mutants in another run
    write_changed(os.path.join(tree, "placed.json"), json.dumps(sorted(by_file)))
    switch = make_switch(build)
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    subprocess.run(["cmake", "-S", tree, "-B", build, *generator, "--log-level=NOTICE", "-DCMAKE_BUILD_TYPE=Debug",
                    "-DCMAKE_C_FLAGS_DEBUG=-O1", "-DVRAM_WERROR=OFF", f"-DVRAM_SANITIZE={options.sanitize}",
                    f"-DCMAKE_C_STANDARD_LIBRARIES={switch}",
                    "-DCMAKE_C_FLAGS=-Werror=vla -Werror=int-conversion -Werror=incompatible-pointer-types"],
                   stdout=subprocess.DEVNULL, check=True)
    targets = test_targets(build, options)
    while True:
        code, output = run_build(tree, build, targets, options.jobs)
        refused = refuse(by_file, errors(output, tree, by_file)) if code else []
        if not refused:
            break
        print(f"{len(refused)} mutants do not compile", flush=True)
        place(root, tree, by_file)
    tests = list_tests(build, options)
    failed = not_built(output) if code else []
    if failed:
        print(f"{output[-2000:]}\nnot built: {', '.join(failed)}", flush=True)
    if code and not failed or not tests:
        sys.exit(f"{output[-4000:]}\nmutate: the build of {' '.join(targets)} ended with exit code {code}; "
                 f"{len(tests)} tests were built")
    return tests


def make_switch(build, compiler=os.environ.get("CC", "cc")):
    """The switch as an archive, which is the last word of every link."""
    os.makedirs(build, exist_ok=True)
    base = os.path.join(build, "mutant_switch")
    if not os.path.exists(base + ".a") or read(base + ".c") != SWITCH:
        write_changed(base + ".c", SWITCH)
        subprocess.run([compiler, "-std=gnu11", "-O1", "-fPIC", "-c", "-o", base + ".o", base + ".c"],
                       check=True)
        subprocess.run(["ar", "rcs", base + ".a", base + ".o"], check=True)
    return base + ".a"


# ----------------------------------------------------------------------------------------------------------- the tests

def chosen_tests(build, options):
    """(what ctest says of a test, its properties). A test's first label is what it is listed under."""
    for test in json.loads(output_of("ctest", "--test-dir", build, "--show-only=json-v1"))["tests"]:
        properties = {p["name"]: p["value"] for p in test["properties"]}
        if re.search(options.label, properties.get("LABELS", [""])[0]) and re.search(options.tests, test["name"]):
            yield test, properties


def added_tests(text):
    """(name, command) of the tests in a file of ctest, which each version of CMake quotes differently"""
    return [(name.strip('"[]='), command) for name, command in
            re.findall(r"^ *add_test\((\S+) (.*)\)$", text, re.M)]


def test_targets(build, options):
    """Programs that the chosen tests name, which depend on what they load; where scripts are among them, everything."""
    chosen = {test["name"] for test, _ in chosen_tests(build, options)}
    if not chosen:
        stop(f"no test has a label like '{options.label}' and a name like '{options.tests}'")
    known = set(re.findall(r"^(?:\.\.\. )?(\w+)\b", output_of("cmake", "--build", build, "--target", "help"), re.M))
    targets = set()
    for file in output_of("find", build, "-name", "CTestTestfile.cmake").split():
        for name, command in added_tests(read(file)):
            words = re.findall(r'"([^"]*)"', command)
            names = {os.path.basename(word) for word in words if word.startswith(build + os.sep)}
            programs = {"vram_command" if program == "vram" else program for program in names} & known
            if name not in chosen:
                continue
            if not programs or any(word.endswith(".py") for word in words):
                return ["all"]
            targets |= programs
    return sorted(targets) or ["all"]


def list_tests(build, options):
    """Tests with their name, command, environment, folder, and what they must print."""
    tests = []
    for test, properties in chosen_tests(build, options):
        if "command" in test and properties.get("DISABLED") is not True:
            tests.append({"name": test["name"], "command": test["command"],
                          "folder": properties.get("WORKING_DIRECTORY", build),
                          "cost": properties.get("COST", 0),
                          "wants": properties.get("PASS_REGULAR_EXPRESSION", []),
                          "environment": dict(e.split("=", 1) for e in properties.get("ENVIRONMENT", []))})
    return sorted(tests, key=lambda test: -test["cost"])  # the longest begin first
