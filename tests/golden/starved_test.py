#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""starved_test.py STARVED HOLDING [--all] [--only TEXT]: the command in a system that has nothing left.

STARVED is the command linked with starved.c, which counts its calls for memory, files, threads and processes, and
fails the one that STARVE_CALL names. Every line of COMMANDS runs once undisturbed, and once for each call that has a
call stack of its own, while that call fails. Each of these runs ends by itself and says what is wrong:
  - with exit code 2 and a line on stderr;
  - or as the undisturbed run does, with its exit code, and with its output or a line on stderr about what is missing;
  - or, of the verbs that judge a device (MAY_JUDGE), with exit code 1 and the reason.
Under a sanitizer it also reports nothing. HOLDING is a program with a live page (holding.c).

The same holds for the lines of FAULTED while one call of the simulated driver fails, the first, the second and so on.

Without --all only every STRIDE-th of these calls fails, beginning at another one for each command, so that the whole
takes a few seconds.
"""
import argparse
import glob
import gzip
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
STRIDE = 40
LIMIT = 60  # seconds of a run

# Golden cases whose command lines make files that are read here.
FILES = ("report_story", "report_snapshot", "report_chrome", "report_rmm", "report_against", "estimate_gguf",
         "estimate_projector", "report_killed")
CONFIG = "estimate_experts"

SIM = {"VRAM_CONF": "backends=sim"}
TWO = {"VRAM_CONF": "backends=sim", "VRAM_SIM": "devices=2,profile=h200"}

# What runs: the words, the environment.
COMMANDS = (
    ("info", TWO),
    ("info --json", TWO),
    ("info --options", SIM),
    ("info --leases", SIM),
    ("info --shares --json", SIM),
    ("check --filter fill", SIM),
    ("check --filter fill --isolate --json", SIM),
    ("check --list", SIM),
    ("tour", SIM),
    ("tour --race", SIM),
    ("replay --generate steady,steps=1,blocks=9 -b sim -p vram -p caching -p expandable -p async -p naive", {}),
    ("replay --generate queues,steps=1,blocks=9,max=64K -b sim -p caching --verify --json", {}),
    ("replay old.csv -b sim -p caching -p naive --picture --svg picture.svg", {}),
    ("replay old.csv -b sim -p vram --html page.html", {}),
    ("replay old.csv -b sim --least -p vram -p caching", {}),
    ("replay old.csv --print", {}),
    ("replay s.pickle -b sim -p vram -p caching", {}),
    ("replay t.vrt -b sim -p caching", {}),
    ("report t.vrt", {}),
    ("report t.vrt --leaks --stacks", {}),
    ("report t.vrt --json", {}),
    ("report t.vrt --html page.html", {}),
    ("report s.pickle --format memory_viz -o out.pickle", {}),
    ("report s.pickle --format perfetto -o out.perfetto", {}),
    ("report s.pickle --format folded --count", {}),
    ("report s.pickle --format text", {}),
    ("report s.pickle --format csv", {}),
    ("report s.pickle", {}),
    ("report s.pickle.gz", {}),
    ("report c.json", {}),
    ("report r.csv", {}),
    ("report new.csv --against old.csv --fail-if peak>+90%", {}),
    ("report new.csv old.csv --html both.html", {}),
    ("report --pid PID", {}),
    ("report --pid PID --leaks --json", {}),
    ("report --serve t.vrt", {}),
    ("report --serve --pid PID", {}),
    ("run -o run.vrt -- HOLDING", {"ASAN_OPTIONS": "verify_asan_link_order=0"}),
    ("top --once --pages-only", {}),
    ("top --json --pages-only", {}),
    ("top --csv --once", {}),
    ("exporter --once", {}),
    ("exporter --once --textfile vram.prom", {}),
    ("exporter --listen 127.0.0.1:0", {}),
    ("bench alloc -b host --seconds 0.01 --threads 2 --live 10 --save record", {}),
    ("bench alloc -b host --seconds 0.01 --pattern mixed --json", {}),
    ("bench grow -b host --from 1M --seconds 0.01", {}),
    ("bench copy -b host --size 64K --seconds 0.01", {}),
    ("bench matmul -b host --size 64 --seconds 0.01", {}),
    ("bench distance -b host --size 100 --seconds 0.01", {}),
    ("bench launch -b host --seconds 0.01", {}),
    ("bench readback -b host --size 64K --seconds 0.01", {}),
    ("bench ring -b host --messages 50", {}),
    ("bench track -b host --seconds 0.01", {}),
    ("stress soak -b sim --seconds 1 --limit 8M", {}),
    ("stress pressure -b sim", {}),
    ("estimate config.json -m 16G -ncmoe 9 -np 2", {}),
    ("estimate config.json -m 8G -m 8G -ts 3,1 --fit --json", {}),
    ("estimate tiny.gguf --backend sim --guess", TWO),
    ("estimate config.json --mmproj mmproj.gguf -m 8G", {}),
    ("estimate --params hidden=64,intermediate=96,layers=5,vocab=1000,heads=4,kv_heads=2 -m 1G", {}),
    ("broker --dir . --idle 1", {}),
    ("completion bash --json", {}),
    ("help report", {}),
)
FAULTED = (
    "tour",
    "check --filter fill --json",
    "stress pressure -b sim",
    "replay --generate queues,steps=1,blocks=6,weights=2 -b sim -p vram -p caching -p expandable -p async -p naive",
    "replay --generate queues,steps=1,blocks=4,weights=1,max=64K -b sim -p vram -p caching --verify --json",
    "replay old.csv -b sim --least -p vram -p async -p naive",
)
MOST_SECONDS = 30  # of one command with --all: of one that takes long fewer calls fail
MOST_FAULTS = 400  # calls of the simulated driver that fail in one command
SLOW = ("bench matmul", "bench distance", "bench readback", "tour --race", "stress soak")  # only with --all
MAY_JUDGE = ("check", "stress", "tour", "bench", "replay")  # what fails there is the answer
MISSING = ("host memory", "if the driver does not report it")  # what is said within the output
TIMED = ("bench", "stress", "top", "exporter", "--pid", "--race", "broker", "check", "tour", "--serve", "run", "replay")


class Place:
    """A folder with the files that the commands read, and a process with a live page."""

    def __init__(self, folder, program, holding):
        self.folder, self.program, self.holding, self.child = folder, program, holding, None
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("VRAM_")}
        self.environment.update(LC_ALL="C", TERM="xterm", HOME="/dev/null", OCL_ICD_VENDORS="/nonexistent",
                                XDG_RUNTIME_DIR=folder, TMPDIR=folder, VRAM_SHARE_DIR=folder)

    def __enter__(self):
        os.mkdir(os.path.join(self.folder, "no_vram"))
        os.symlink(shutil.which("true"), os.path.join(self.folder, "no_vram", "vram"))
        for case in FILES + (CONFIG,):
            with open(os.path.join(HERE, "cases", case, "cmd"), encoding="utf-8") as stream:
                line = stream.read()
            subprocess.run(["/bin/sh", "-c", line], cwd=self.folder, check=False, stdout=subprocess.DEVNULL,
                           env={"PATH": os.path.join(self.folder, "no_vram") + os.pathsep + os.defpath})
        with open(os.path.join(self.folder, "s.pickle"), "rb") as plain:
            with gzip.open(os.path.join(self.folder, "s.pickle.gz"), "wb") as packed:
                packed.write(plain.read())
        self.child = subprocess.Popen(
            [self.holding], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=dict(self.environment, VRAM_LIVE="on", VRAM_TRACKING="on", VRAM_TRACK_STACKS="1"))
        assert self.child.stdout.readline() == "ready\n"
        deadline = time.monotonic() + 30
        while not glob.glob(os.path.join(self.folder, "vram", f"{self.child.pid}-*")):
            assert time.monotonic() < deadline, "no live page"
            time.sleep(0.01)
        return self

    def __exit__(self, *_):
        self.child.stdin.close()
        self.child.stdout.close()
        self.child.wait(60)

    def words(self, line):
        known = {"PID": str(self.child.pid), "HOLDING": self.holding}
        return [self.program] + [known.get(word, word) for word in line.split()]

    def run(self, line, settings, **more):
        """(exit code, output, messages). A server is ended once it says that it listens."""
        process = subprocess.Popen(self.words(line), cwd=self.folder, env=dict(self.environment, **settings, **more),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        first = b""
        if "--serve" in line or "--listen" in line:
            first = process.stdout.readline()
            if first:  # else it ends by itself
                process.send_signal(signal.SIGTERM)
        try:
            output, messages = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            output, messages = process.communicate()
            process.returncode = "no end"
        return process.returncode, (first + output).decode(errors="replace"), messages.decode(errors="replace")


def wrong(line, before, after):
    """What is wrong with a run in which a call failed, or None."""
    verb = line.split()[0]
    code, output, messages = after
    if "Sanitizer" in messages or "runtime error" in messages:
        return "the sanitizer reports"
    if verb == "run" and code == 126:  # the program was not started
        return None if messages else "exit code 126 without a reason"
    if code not in (0, 1, 2):
        return f"exit code {code}"
    said = re.search("^vram: .", messages, re.M)
    if code == 2:
        return None if said else "exit code 2 without a reason"
    if code == before[0]:
        same = output == before[1] or any(word in line.split() for word in TIMED)
        told = messages != before[2] or any(words in output for words in MISSING)
        return None if same or told else "it prints less and does not say so"
    if code == 1 and verb in MAY_JUDGE:
        return None if said or output else "exit code 1 without a reason"
    return f"exit code {code} instead of {before[0]}"


def try_command(place, line, settings, stride):
    """The number of calls failed, and the reasons of those that went wrong."""
    path = os.path.join(place.folder, "calls")
    with open(path, "w", encoding="utf-8"):
        pass
    begun = time.monotonic()
    before = place.run(line, settings, STARVE_LIST=path)
    each = time.monotonic() - begun
    if "no HTTP server" in before[2]:
        return 0, []
    assert before[0] in (0, 1), (line, before)
    with open(path, encoding="utf-8") as stream:
        calls = sorted({int(number) for number in stream})
    failures = []
    limit = begun + MOST_SECONDS if stride == 1 else math.inf
    stride = max(stride, int(len(calls) * each / MOST_SECONDS))
    chosen = calls[zlib.crc32(line.encode()) % max(1, min(stride, len(calls)))::stride]
    count = 0
    for call in chosen:
        if time.monotonic() > limit:
            break
        count += 1
        after = place.run(line, settings, STARVE_CALL=str(call))
        problem = wrong(line, before, after)
        if problem:
            environment = " ".join(f"{name}={value}" for name, value in settings.items())
            failures.append(f"{environment} STARVE_CALL={call} vram {line}: {problem}\n{after[1]}{after[2]}")
    return count, failures


def try_faults(place, line, stride):
    """The same for calls of the simulated driver, until the command makes no more."""
    begun = time.monotonic()
    before = place.run(line, SIM)
    limit = begun + MOST_SECONDS if stride == 1 else math.inf
    stride = max(stride, int(MOST_FAULTS * (time.monotonic() - begun) / MOST_SECONDS))
    assert before[0] == 0, (line, before)
    failures, count, undisturbed = [], 0, 0
    call = 1 + zlib.crc32(line.encode()) % stride
    while undisturbed < (20 if stride == 1 else 3) and count < MOST_FAULTS and time.monotonic() < limit:
        after = place.run(line, SIM, VRAM_SIM=f"fault=any:{call}:77")
        said = "77" in after[1] or after[2] != before[2] or after[0] != before[0]
        undisturbed = 0 if said else undisturbed + 1
        problem = wrong(line, before, after)
        if problem:
            failures.append(f"VRAM_SIM=fault=any:{call}:77 vram {line}: {problem}\n{after[1]}{after[2]}")
        count, call = count + 1, call + stride
    return count, failures


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("starved")
    parser.add_argument("holding")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    runs, failures = 0, []
    with tempfile.TemporaryDirectory() as folder, Place(folder, os.path.abspath(arguments.starved),
                                                       os.path.abspath(arguments.holding)) as place:
        stride = 1 if arguments.all else STRIDE
        tries = [(try_command, (line, settings, stride)) for line, settings in COMMANDS
                 if arguments.all or not line.startswith(SLOW)]
        tries += [(try_faults, (line, 1 if arguments.all else 3 * STRIDE)) for line in FAULTED]
        for attempt, words in tries:
            if arguments.only not in f"{attempt.__name__} {words[0]}":
                continue
            begun = time.monotonic()
            count, wrongs = attempt(place, *words)
            print(f"{count:5} {attempt.__name__}, {time.monotonic() - begun:5.1f} s: vram {words[0]}", flush=True)
            runs, failures = runs + count, failures + wrongs
            print(*wrongs, sep="\n", end="\n" if wrongs else "")
    print(f"{runs - len(failures)} passed, {len(failures)} failed")
    return 1 if failures or not runs else 0


if __name__ == "__main__":
    sys.exit(main())
