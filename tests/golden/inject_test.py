#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""inject_test.py VRAM INJECT HOLDING [--all] [--only TEXT]: the commands of the transcripts, while one call fails.

VRAM is the command with libvram as a shared library, INJECT what is preloaded (inject.c), HOLDING a program with a live
page (holding.c). A command runs once undisturbed, and then once for each of its calls of the C library and of libvram
that has a call stack of its own, while that call fails; once for some calls of the simulated driver; and with reads and
writes that are cut short. Each of these runs ends by itself, leaves no memory of libvram and no part of a file, and
  - ends with exit code 2 and a line on stderr;
  - or as the undisturbed run, with its output or a line about what is missing;
  - or, of the verbs that judge a device (JUDGES), with exit code 1 and the reason.
A call of libvram that fails is named, but for those in SILENT. Short reads and writes change nothing.

No call stack is tried more than TRIES times, whatever commands have it. Without --all a part of the commands runs.
"""
import argparse
import concurrent.futures
import contextlib
import glob
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import zlib

sys.dont_write_bytecode = True
import transcripts  # noqa: E402

TRIES = 2  # commands in which a call stack is tried
PART = 15  # one of so many commands runs without --all
LIMIT = 120  # seconds of a run, which on a busy machine takes its time
MOST = 15  # seconds of a command and a kind of calls
DRIVER_CALLS = 400

# Commands that need a process beside them, or a folder; PID and HOLDING are that process and its program.
MORE = (
    "vram report --pid PID", "vram report --pid PID --leaks --json", "vram report --serve t.vrt",
    "vram report --serve --pid PID", "vram run -o run.vrt -- HOLDING", "vram top --once --pages-only",
    "vram top --json --pages-only", "vram top --csv --once", "vram exporter --once",
    "vram exporter --once --textfile vram.prom", "vram exporter --listen 127.0.0.1:0", "vram broker --dir . --idle 1",
    "VRAM_CONF=backends=sim vram info --leases", "VRAM_CONF=backends=sim vram info --shares --json",
    "VRAM_CONF=backends=sim vram check --filter fill --isolate --json", "vram report s.pickle.gz",
    "vram report FUZZ/chrome_trace/torch_xla.json", "vram report FUZZ/recording/shards.vrt",
    "vram report FUZZ/recording/refused.vrt", "vram report FUZZ/packed/rmm.gz", "vram report FUZZ/packed/recording.zst",
    "vram report t.vrt --html page.html", "vram report s.pickle --format memory_viz -o out.pickle",
    "vram report s.pickle --format perfetto -o out.perfetto", "vram report t.vrt -f json -o out.json",
    "vram replay t.csv -b sim -p caching -p naive --picture --svg picture.svg",
    "vram replay t.csv -b sim -p vram --html page.html",
    "vram bench alloc -b sim --seconds 0.01 --live 10 --save record", "vram bench alloc -b sim --seconds 0.01 --json",
    "vram bench alloc -b sim --seconds 0.01 --pattern burst", "vram bench grow -b sim --from 1M --seconds 0.01 --json",
    "vram bench alloc -b sim --seconds 0.01 --pattern mixed --live 10",
    "vram bench alloc -b sim --seconds 0.01 --pattern handover --threads 2", "vram bench launch -b host --seconds 0.01",
    "vram bench copy -b sim --size 4K --threads 1 --seconds 0.01", "vram bench ring -b host --messages 10",
    "vram bench readback -b host --size 4K --seconds 0.01", "vram bench matmul -b host --size 8 --seconds 0.01 --json",
    "vram bench distance -b host --size 10 --seconds 0.01 --json", "vram bench track -b sim --seconds 0.01",
)
MAKE = """make_trace.py story >t.vrt; tar xzOf $ROOT/tests/fuzz/corpus.tar.gz corpus/snapshot/protocol4.pickle >s.pickle; gzip -k s.pickle
printf 'op,id,bytes,stream,t_us\\na,1,9000000,0,0\\na,2,3000000,0,1000\\nf,1,,,2000\\n' >t.csv"""

JUDGES = ("check", "stress", "tour", "bench", "replay")  # what fails there is the answer
MISSING = ("host memory", "if the driver does not report it", "unknown")  # what is said within the output
TIMED = ("bench", "stress", "top", "exporter", "--pid", "--race", "broker", "check", "tour", "--serve", "run", "replay")

# Calls that may fail without a word: what is freed at the end; figures that are unknown then; memory that is said to be
# missing; what is tried again, or missed in a counter. By verb, or verb and what it does.
SILENT = {
    "": ("vram_backend_info_get", "vram_sim_state_get"),
    "estimate": ("vram_device_open", "vram_memory_info_get"),  # what is free is a guess then, and called one
    "replay": ("vram_device_free", "vram_physical_destroy", "vram_range_unmap", "vram_range_destroy",
               "vram_sim_clock_advance", "vram_kernel_create", "vram_device_alloc"),
    "bench alloc": ("vram_free", "vram_device_free", "vram_pool_stats_get", "vram_memory_info_get"),
    "bench copy": ("vram_device_alloc", "vram_device_free", "vram_queue_wait"),
    "bench readback": ("vram_device_alloc", "vram_queue_fill", "vram_queue_launch", "vram_queue_wait"),
    "bench matmul": ("vram_device_free",),
    "bench distance": ("vram_scheduler_calibrate", "vram_kernel_create", "vram_queue_create", "vram_alloc",
                       "vram_transfer_upload", "vram_queue_wait"),
    "bench ring": ("vram_queue_launch",),  # on a thread of the ring: the strategy says that the driver reported an error
    "bench track": ("vram_alloc_with", "vram_live_stats_get", "vram_free"),
    "tour": ("vram_queue_fill", "vram_queue_wait", "vram_sim_clock_advance"),
    "stress pressure": ("vram_alloc", "vram_free", "vram_pool_stats_get"),
}
# What is null in the document when a call has failed without a word.
UNKNOWN = {
    ("bench alloc", "vram_pool_stats_get"): "driver_calls",
    ("bench distance", "vram_scheduler_calibrate"): "machine_product_flops",
    ("bench distance", "vram_queue_create"): "machine_upload_bytes_per_second",
    ("bench distance", "vram_alloc"): "machine_upload_bytes_per_second",
    ("bench distance", "vram_transfer_upload"): "machine_upload_bytes_per_second",
    ("bench distance", "vram_queue_wait"): "machine_upload_bytes_per_second",
}


def simple(command):
    """The call of the command at the beginning of a line of a transcript, without what its output goes through."""
    line = "\n".join(command)
    found = re.match(r"((?:[A-Z_]+=(?:'[^']*'|[^\s'])*\s+)*)vram (?:[^\s;&|'\"]|'[^']*'|\"[^\"$]*\"|\d?>&-|[ \t])*", line)
    rest = line[found.end():].lstrip() if found else "x"
    if not found or rest and rest[0] not in ";|&" or re.search(r">&|/dev/full", found[0]):
        return None
    return re.sub(r"\s\d?> ?\S+", "", found[0]).strip()


class Place:
    """What the commands read, and a process with a live page."""

    def __init__(self, program, inject, holding):
        self.runtime = tempfile.TemporaryDirectory()
        self.inject, self.holding, self.child, self.lock = inject, holding, None, threading.Lock()
        self.env = dict(transcripts.environment(program, self.runtime.name), VRAM_SHARE_DIR=self.runtime.name)
        # A sanitizer's library is there before this one, and its handler would exit in the place of a signal.
        self.env["ASAN_OPTIONS"] = self.env.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
        with tarfile.open(os.path.join(transcripts.ROOT, "tests", "fuzz", "corpus.tar.gz")) as seeds:
            seeds.extractall(self.runtime.name)
        ignored = os.path.join(self.runtime.name, "ignored")  # what the loader keeps, which no longer seems its own
        with open(ignored, "w", encoding="ascii") as stream:
            stream.write("leak:_dl_\n")
        self.env["LSAN_OPTIONS"] = f"suppressions={ignored}:print_suppressions=0"

    def __enter__(self):
        self.child = subprocess.Popen([self.holding], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(
            self.env, VRAM_LIVE="on", VRAM_TRACKING="on", VRAM_TRACK_STACKS="1"))
        assert self.child.stdout.readline() == "ready\n"
        deadline = time.monotonic() + 30
        while not glob.glob(os.path.join(self.runtime.name, "vram", f"{self.child.pid}-*")):
            assert time.monotonic() < deadline, "no live page"
            time.sleep(0.01)
        return self

    def __exit__(self, *_):
        self.child.stdin.close()
        self.child.stdout.close()
        self.child.wait(60)
        self.runtime.cleanup()

    def run(self, line, folder, **more):
        """(exit code, output, messages). A server is ended once it says that it listens."""
        line = re.sub(r"\bPID\b", str(self.child.pid), line).replace("HOLDING", self.holding)
        line = line.replace("FUZZ", os.path.join(self.runtime.name, "corpus"))
        env = dict(self.env, **({"LD_PRELOAD": self.inject} if more else {}), **more)
        # The shell becomes the command: a signal reaches it.
        line = re.sub(r"^((?:[A-Z_]+=(?:'[^']*'|[^\s'])*\s+)*)vram ", r"\1exec vram ", line)
        process = subprocess.Popen(["/bin/sh", "-c", line], cwd=folder, env=env, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        first = b""
        if "--serve" in line or "--listen" in line:
            ready, _, _ = select.select([process.stdout], [], [], 10)
            first = process.stdout.readline() if ready else b""
            if first or not ready:  # else it ends by itself
                process.send_signal(signal.SIGTERM)
        try:
            output, messages = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            output, messages = process.communicate()
            process.returncode = "no end"
        return process.returncode, (first + output).decode(errors="replace"), messages.decode(errors="replace")


def files_of(folder):
    """What the plain files of a folder have in them."""
    found = {}
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if os.path.isfile(path) and not os.path.islink(path):
            with open(path, "rb") as stream:
                found[name] = stream.read()
    return found


def words_of(line):
    return re.sub(r"^.*?\bvram ", "", line).split()


def verb_of(line):
    words = words_of(line)
    return " ".join(words[:2]) if words[0] in ("bench", "stress") and len(words) > 1 else words[0]


def is_timed(line):
    return any(word in words_of(line) for word in TIMED) or " host" in line


def wrong(line, before, after, files, call):
    """What is wrong with a run in which a call failed, or None. files: (before, after the undisturbed run, now)"""
    code, output, messages = after
    verb = words_of(line)[0]
    if "Sanitizer" in messages or "runtime error" in messages:
        return "the sanitizer reports"
    if code == 23 and before[0] != 23:
        return "memory of libvram is left"
    if verb == "run" and code == 126:  # the program was not started
        return None if messages else "exit code 126 without a reason"
    if code not in (0, 1, 2):
        return f"exit code {code}"
    for name, content in files[2].items():
        known = files[0].get(name), files[1].get(name)
        whole = known[1] and content.endswith(known[1][-8:])  # of a run that went on
        if code == 2 and content not in known and not whole and not name.endswith(".vrt"):
            return f"a part of {name} is left"
    said = re.search("^vram: .", messages, re.M)
    if call.startswith("vram_"):
        named = f"planted in {call}" in output + messages
        silent = call in SILENT[""] + SILENT.get(verb_of(line), ()) + SILENT.get(verb, ())
        unknown = UNKNOWN.get((verb_of(line), call))
        if code == 0 and not named and unknown and "--json" in line and json.loads(output)[unknown] is not None:
            return f"{unknown} is {json.loads(output)[unknown]}, but {call} failed"
        if named or silent or code == 2 and said and verb not in JUDGES or verb == "check" and code == 1:
            return None
        return None if (code, output) == before[:2] and verb not in JUDGES else f"{call} is not named"
    if code == 2:
        return None if said else "exit code 2 without a reason"
    if code == before[0]:
        told = messages != before[2] or any(words in output for words in MISSING)
        return None if output == before[1] or is_timed(line) or told else "it prints less and does not say so"
    if code == 1 and verb in JUDGES:
        return None if said or output else "exit code 1 without a reason"
    return f"exit code {code} instead of {before[0]}"


class Command:
    """A line, with what its folder has beforehand."""

    def __init__(self, place, line, folder):
        self.place, self.line, self.folder, self.failures, self.count = place, line, folder, [], 0
        self.files = files_of(folder)

    @contextlib.contextmanager
    def scratch(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(self.folder, folder, dirs_exist_ok=True, symlinks=True,
                            ignore=lambda path, names: [n for n in names if not os.path.isfile(os.path.join(path, n))
                                                        and not os.path.isdir(os.path.join(path, n))])
            yield folder

    def disturbed(self, undisturbed, call, **settings):
        """Whether the call was there to fail."""
        before, after_files = undisturbed
        with self.scratch() as folder, tempfile.NamedTemporaryFile() as log:
            after = self.place.run(self.line, folder, INJECT_LOG=log.name, **settings)
            struck = bool(log.read()) or "VRAM_SIM" in settings
            problem = wrong(self.line, before, after, (self.files, after_files, files_of(folder)), call)
        self.count += struck
        if struck and not problem and settings["INJECT"].startswith("short") and not is_timed(self.line):
            problem = "a short read or write changes it" if after != before else None
        if struck and problem:
            words = " ".join(f"{name}={value}" for name, value in settings.items())
            self.failures.append(f"{words} {self.line}: {call}: {problem}\n{after[1][-1500:]}{after[2][-1500:]}")
        return struck

    def try_all(self, seen):
        """Fails the calls that have a stack which was not tried often enough."""
        with self.scratch() as folder, tempfile.NamedTemporaryFile("r") as calls:
            before = self.place.run(self.line, folder, INJECT="none:0")
            undisturbed = before, files_of(folder)
            if before[0] not in (0, 1, 2) or "no HTTP server" in before[2]:
                return
            self.place.run(self.line, folder, INJECT_LIST=calls.name)
            rows = [row.split() for row in calls]
        chosen = []
        with self.place.lock:
            for stack, name in rows:
                seen[stack] = seen.get(stack, 0) + 1
                if seen[stack] <= TRIES:
                    chosen.append((stack, name))
        end = time.monotonic() + MOST
        for stack, name in chosen:
            if time.monotonic() > end:
                break
            self.disturbed(undisturbed, name, INJECT=f"at:{stack}")
        for number in (1, 2, 3, 5, 9):
            if not self.disturbed(undisturbed, "", INJECT=f"short:{number}"):
                break
        if "VRAM_SIM" not in self.line and words_of(self.line)[0] in JUDGES and " host" not in self.line:
            self.try_driver(undisturbed, time.monotonic() + MOST)

    def try_driver(self, undisturbed, end):
        """The same for calls of the simulated driver, until the command makes no more."""
        call, quiet = 1, 0
        while quiet < 5 and call < DRIVER_CALLS and time.monotonic() < end:
            count = len(self.failures)
            self.disturbed(undisturbed, "", INJECT="none:0", VRAM_SIM=f"fault=any:{call}:77")
            quiet = quiet + 1 if len(self.failures) == count and call > 60 else 0
            call += 1 + call // 8


def commands(place, folder, only, part):
    """Each command of the transcripts, once what stands before it has run."""
    for path in sorted(glob.glob(os.path.join(transcripts.HERE, "*.t"))):
        name = os.path.basename(path)
        if name == "lies.t":
            continue
        with open(path, encoding="utf-8") as stream:
            cases, _ = transcripts.parsed(name, stream.read())
        own = os.path.join(folder, name)
        os.mkdir(own)
        for case in cases:
            line = simple(case.command)
            if line and only in line and zlib.crc32(line.encode()) % part == 0 and "soak" not in line:
                yield Command(place, line, own)
            if not re.search(r"\bvram ", "\n".join(case.command)):
                transcripts.run(case, own, place.env)
    own = os.path.join(folder, "more")
    os.mkdir(own)
    subprocess.run(["/bin/sh", "-c", MAKE], cwd=own, env=place.env, check=True)
    for line in MORE:
        if only in line and zlib.crc32(line.encode()) % part == 0:
            yield Command(place, line, own)


def main():
    parser = argparse.ArgumentParser()
    for name in ("vram", "inject", "holding"):
        parser.add_argument(name, type=os.path.abspath)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    seen, runs, failures, tried = {}, 0, 0, 0
    part = 1 if arguments.all or arguments.only else PART
    with tempfile.TemporaryDirectory() as folder, Place(arguments.vram, arguments.inject, arguments.holding) as place, \
            concurrent.futures.ThreadPoolExecutor(2) as pool:
        jobs = []
        for command in commands(place, folder, arguments.only, part):
            copy = tempfile.mkdtemp(dir=folder)
            shutil.copytree(command.folder, copy, dirs_exist_ok=True, symlinks=True)
            command.folder = copy
            jobs.append((command, pool.submit(command.try_all, seen)))
        for command, job in jobs:
            job.result()
            tried, runs, failures = tried + 1, runs + command.count, failures + len(command.failures)
            print(f"{command.count:5} {command.line}", *command.failures, sep="\n" if command.failures else "", flush=True)
    print(f"{tried} commands, {len(seen)} call stacks, {runs} runs in which a call failed, {failures} wrong")
    return 2 if not tried else 1 if failures or not runs else 0


if __name__ == "__main__":
    sys.exit(main())
