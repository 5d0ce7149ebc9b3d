#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run.py FOLDER: other people's tests, natively and on libvram, and what is worse there.

FOLDER has the suites; suites.py lists them and says where each lies in it. A test that crashes or hangs costs itself
alone. A table comes last, then every test that passes natively and not on libvram, with its reason. Exit code 0 when
there is none and both ways reached the same tests, 1 otherwise, 2 for misuse.

  --suites A,B       only these (--list prints them)
  --modes M,M        native, vram, or native,vram (the default)
  --tests EXPR       only tests that pytest's -k EXPR chooses
  --delay MS         work on side streams starts late (foreign_plugin.py), in both modes
  --poison           and memory that is handed out again is overwritten first: VRAM_POISON=stream, on libvram
  --seconds N        for everything; what is then not reached is counted
  --json FILE        results, written after every suite; those that it has and this run does not make are kept
  --table FILE       another list of suites in the place of suites.py
"""
import argparse
import glob
import importlib.metadata
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
MODES = ("native", "vram")
BAD = ("failed", "crashed", "hung")
PACKAGES = ("torch", "cupy-cuda13x", "cupy-cuda12x", "cupy", "numba-cuda", "pytest", "pytest-xdist")
START_SECONDS = 5       # less is not enough for a pytest to begin
SLOWER_SECONDS = 0.2    # a test is called slower when it takes this much longer, and
SLOWER_TIMES = 1.5      # this many times as long


# ------------------------------------------------------------------------- running

def joined(*folders):
    return os.pathsep.join(folder for folder in folders if folder)


def package_folder(options, suite, mode, work):
    """The folder of the package that is tested, or of what stands in for it; empty: an installed one."""
    if mode == "native":
        return os.path.join(options.folder, suite.native_package) if suite.native_package else ""
    if not suite.stand_in:
        return ""
    source = os.path.join(ROOT, suite.stand_in[0])
    package = os.path.join(work, "stand_in", os.path.basename(source))
    shutil.copytree(source, package)
    for file in suite.stand_in[1:]:
        shutil.copy(os.path.join(options.folder, file), package)
    return os.path.dirname(package)


def environment(options, suite, mode, log):
    env = dict(os.environ, **suite.env)
    env.update(FOREIGN_MODE=mode, FOREIGN_KIND=suite.kind, FOREIGN_LOG=log, PYTEST_PLUGINS="foreign_plugin",
               FOREIGN_TEST_SECONDS=str(suite.test_seconds), FOREIGN_DELAY=str(options.delay),
               PYTEST_DISABLE_PLUGIN_AUTOLOAD="1", PYTHONHASHSEED="0", PYTORCH_PRINT_REPRO_ON_FAILURE="0")
    env["PYTHONPATH"] = joined(package_folder(options, suite, mode, os.path.dirname(log)), HERE,
                               os.path.join(ROOT, "bindings", "python"),
                               os.path.join(options.folder, "site"), os.environ.get("PYTHONPATH", ""))
    if mode == "vram":
        env.update(suite.vram_env)
        if options.poison:
            env["VRAM_POISON"] = "stream"
    return env


def command(options, suite, folder, files):
    found = []
    for pattern in files:
        found += sorted(os.path.relpath(path, folder) for path in glob.glob(os.path.join(folder, pattern))) or [pattern]
    select = " and ".join(f"({expr})" for expr in (suite.select, options.tests) if expr)
    return [sys.executable, "-m", "pytest", "-p", "xdist.plugin", "-p", "no:cacheprovider", "-p", "no:faulthandler",
            "-n", str(suite.processes), "--max-worker-restart", "1000", "--capture=sys", "-q", "--no-header",
            "-o", "addopts=", "--continue-on-collection-errors", f"--rootdir={folder}", *suite.flags,
            *(["-k", select] if select else []), *(f"--deselect={test}" for test in suite.deselect), *found]


def run_files(options, suite, mode, files, limit):
    """Runs some files of a suite for `limit` seconds at most. Returns its tests, and the tests that there are."""
    folder = os.path.join(options.folder, suite.folder)
    with tempfile.TemporaryDirectory(prefix="foreign-") as work:
        log = os.path.join(work, "log")
        with open(os.path.join(work, "said"), "w+", encoding="utf-8", errors="replace") as said:
            process = subprocess.Popen(command(options, suite, folder, files), cwd=folder, stdin=subprocess.DEVNULL,
                                       stdout=said, stderr=subprocess.STDOUT, start_new_session=True,
                                       env=environment(options, suite, mode, log))
            try:
                process.wait(limit)
            except subprocess.TimeoutExpired:
                pass
            finally:
                try:
                    os.killpg(process.pid, signal.SIGKILL)  # its workers, and whatever tests have left behind
                except ProcessLookupError:
                    pass
                process.wait()
            tests, collected = read_log(log)
            if not tests and process.returncode not in (0, 5, -signal.SIGKILL):  # 5: nothing was chosen
                said.seek(0)
                tests[files[0]] = dict(id=files[0], outcome="crashed", seconds=0.0, why=said.read()[-3000:])
    return tests, collected


def read_log(path):
    tests, collected = {}, []
    if os.path.exists(path):
        with open(path, encoding="utf-8") as stream:
            for line in stream:
                one = json.loads(line) if line.endswith("\n") else {}
                if "collected" in one:
                    collected += one["collected"]
                elif one:
                    tests[one["id"]] = one
    return tests, collected


def run_suite(options, suite, mode):
    began, tests, collected, late = time.time(), {}, set(), False
    end = min(began + suite.seconds, options.end)
    for files in suite.runs:
        left = end - time.time()
        late = late or left < START_SECONDS
        if not late:
            some, ids = run_files(options, suite, mode, files, left)
            tests.update(some)
            collected.update(ids)
    late = late or time.time() >= end
    return dict(seconds=round(time.time() - began, 1), late=late, tests=tests,
                missing=sorted(collected.difference(tests)))


# ------------------------------------------------------------------------- comparing

def count(result, *outcomes):
    return sum(test["outcome"] in outcomes for test in result["tests"].values())


def worse(native, vram):
    """Tests that fail on libvram and not natively, or are skipped there alone."""
    for name, test in sorted(vram["tests"].items()):
        before = native["tests"].get(name, {}).get("outcome", "not reached")
        if before not in BAD and (test["outcome"] in BAD or (test["outcome"], before) == ("skipped", "passed")):
            yield name, before, test


def lost(native, vram):
    """Tests that pass natively and were not reached on libvram."""
    return sorted(name for name, test in native["tests"].items()
                  if test["outcome"] == "passed" and name not in vram["tests"])


def common_passes(native, vram):
    for name, test in native["tests"].items():
        if test["outcome"] == "passed" == vram["tests"].get(name, {}).get("outcome"):
            yield name, test["seconds"], vram["tests"][name]["seconds"]


def last_words(test):
    """The reason in one line: its first and its last; of a crash, what was said before the stacks, and where."""
    lines = [line.strip() for line in test["why"].splitlines() if line.strip()] or ["no reason given"]
    if test["outcome"] in ("crashed", "hung"):
        stacks = [at for at, line in enumerate(lines) if line.startswith(("Current thread", "Thread "))]
        place = next((at for at in stacks if lines[at].startswith("Current")), stacks[-1] if stacks else len(lines))
        words = lines[:stacks[0] if stacks else len(lines)][-3:] + lines[place + 1:place + 2]
        return " | ".join(line[:160] for line in words)
    return " ... ".join(dict.fromkeys(line[:200] for line in (lines[0], lines[-1])))


def cell(result):
    if result is None:
        return "not run"
    numbers = ", ".join(str(count(result, outcome)) for outcome in ("passed", *BAD))
    missing = len(result["missing"])
    return numbers + (f" ({missing} not reached)" if missing or result["late"] else "")


def report(document):
    """Prints the table and the lists. Returns whether libvram is as good."""
    lists, bad = [], 0
    print("| suite | natively: passed, failed, crashed, hung | on libvram | worse | seconds of common passes |")
    print("|---|---|---|---|---|")
    for name, suite in document["suites"].items():
        native, vram = (suite.get(mode) for mode in MODES)
        both = native is not None and vram is not None
        found, gone = (list(worse(native, vram)), lost(native, vram)) if both else ([], [])
        times = list(common_passes(native, vram)) if both else []
        bad += len(found) + len(gone)
        print(f"| {name} | {cell(native)} | {cell(vram)} | {len(found) if both else ''} | "
              + (f"{sum(t[1] for t in times):.1f}, {sum(t[2] for t in times):.1f} |" if both else "|"))
        lists += [f"worse: {name}: {test}: {before}, {now['outcome']}: {last_words(now)}"
                  for test, before, now in found]
        lists += [f"not reached: {name}: {test}" for test in gone[:10]]
        lists += [f"not reached: {name}: and {len(gone) - 10} more"] if len(gone) > 10 else []
        lists += [f"slower: {name}: {test}: {a:.2f} s, {b:.2f} s"
                  for test, a, b in sorted(times, key=lambda t: t[1] - t[2])
                  if b - a > SLOWER_SECONDS and b > SLOWER_TIMES * a][:10]
    print("\n".join(lists + [f"worse on libvram, or not reached there: {bad}"]), flush=True)
    return bad == 0


# ------------------------------------------------------------------------- the program

def versions():
    known = dict(python=sys.version.split()[0])
    for name in PACKAGES:
        try:
            known[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pass
    try:
        known["libvram"] = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], text=True, check=True,
                                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        pass
    return known


def load_suites(path):
    spec = importlib.util.spec_from_file_location("suites", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["suites"] = module  # dataclasses look for it there
    spec.loader.exec_module(module)
    return module.SUITES


def read_options():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("folder", type=os.path.abspath)
    parser.add_argument("--suites", default="")
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--tests", default="")
    parser.add_argument("--delay", type=float, default=0)
    parser.add_argument("--poison", action="store_true")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--json", default="")
    parser.add_argument("--table", default=os.path.join(HERE, "suites.py"))
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    options.end = time.time() + options.seconds
    options.modes = options.modes.split(",")
    table = {suite.name: suite for suite in load_suites(options.table)}
    wanted = options.suites.split(",") if options.suites else list(table)
    unknown = [name for name in wanted if name not in table] + [mode for mode in options.modes if mode not in MODES]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; the suites are {', '.join(table)}, the modes {', '.join(MODES)}")
    options.chosen = [table[name] for name in wanted]
    return options


def write(path, document):
    if path:
        with open(path + ".new", "w", encoding="utf-8") as stream:
            json.dump(document, stream, indent=1)
        os.replace(path + ".new", path)


def main():
    options = read_options()
    if options.list:
        for suite in options.chosen:
            print(f"{suite.name}: {suite.folder}: {' '.join(file for files in suite.runs for file in files)}"
                  + (f" -k '{suite.select}'" if suite.select else ""))
        return 0
    document = dict(suites={})
    if options.json and os.path.exists(options.json):
        with open(options.json, encoding="utf-8") as stream:
            document = json.load(stream)
    document.update(versions=versions(), delay_ms=options.delay, poison=options.poison)
    for suite in options.chosen:
        for mode in options.modes:
            if options.end - time.time() < START_SECONDS:
                print(f"{suite.name}, {mode}: not run, no time left", file=sys.stderr, flush=True)
                continue
            result = run_suite(options, suite, mode)
            document["suites"].setdefault(suite.name, {})[mode] = result
            print(f"{suite.name}, {mode}: {cell(result)}, {result['seconds']} s", file=sys.stderr, flush=True)
            write(options.json, document)
    print("versions:", ", ".join(f"{name} {version}" for name, version in document["versions"].items()))
    return 0 if report(document) else 1


if __name__ == "__main__":
    sys.exit(main())
