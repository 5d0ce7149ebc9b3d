#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""spoilt_test.py SPOILT: the command notices wrong contents, memory left behind, and a process ended by a driver.

SPOILT is the command linked with spoilt.c, which makes the library lie as SPOIL asks.
"""
import concurrent.futures
import json
import os
import signal
import subprocess
import sys
import tempfile


def run_verb(program, spoil, *arguments, **surroundings):
    env = {name: value for name, value in os.environ.items() if not name.startswith("VRAM_")}
    env.update(SPOIL=spoil, VRAM_BACKENDS="sim", VRAM_SIM="real=on", NO_COLOR="1")
    env.update(surroundings)
    # A sanitizer's own handler would exit in the place of the signal.
    env["ASAN_OPTIONS"] = env.get("ASAN_OPTIONS", "") + ":handle_segv=0:handle_abort=0:handle_sigill=0"
    return subprocess.run([program, *arguments], env=env, capture_output=True, text=True, timeout=60,
                          check=False)


def run(program, spoil, *arguments):
    return run_verb(program, spoil, "tour", *arguments)


def contents(program):
    result = run(program, "contents")
    assert result.returncode == 1, result.returncode
    assert "contents differ" in result.stdout and "nothing left" not in result.stdout
    assert result.stderr.startswith('vram: the step "download" found wrong contents: number 4194303 is ')
    assert result.stderr.count("\n") == 1, result.stderr
    document = json.loads(run(program, "contents", "--json").stdout)
    assert document["passed"] is False and document["steps"][-1]["result"] == "differed"
    assert document["held_bytes"] is None


def leak(program):
    result = run(program, "leak")
    assert result.returncode == 1, result.returncode
    assert result.stdout.endswith("left behind: 4096 bytes held\n"), result.stdout
    document = json.loads(run(program, "leak", "--json").stdout)
    assert document["passed"] is False and document["held_bytes"] == 4096


# What SPOIL asks for, and what ends the process then.
SIGNALS = (("fault", signal.SIGSEGV), ("signal", signal.SIGILL), ("abort", signal.SIGABRT))
TWO_CASES = ("check", "--filter", "context.ba")  # the first of them dies


def named(program):
    """A process that ends in a case says in which, once, and is no success."""
    ends = [(spoil, -number, number.name) for spoil, number in SIGNALS]
    for spoil, code, name in ends + [("exit", 1, "exit was called")]:
        result = run_verb(program, spoil, *TWO_CASES)
        assert result.returncode == code, (spoil, result)
        line = f"vram: {name} in the case context.backends on sim device 0\n"
        assert result.stderr == line, (spoil, result.stderr)


def isolated(program):
    """A case whose process dies has failed, and the next one runs."""
    ends = [(spoil, f"{number.name} ended its process") for spoil, number in SIGNALS]
    ends += [("leave", "its process exited with code 0"),
             ("late", "SIGABRT ended its process when it exited after the case")]
    for spoil, reason in ends:
        result = run_verb(program, spoil, *TWO_CASES, "--isolate", "--verbose")
        assert result.returncode == 1 and result.stderr == "", (spoil, result)
        lines = result.stdout.splitlines()
        assert lines[1] == f"failed   context.backends: {reason}", (spoil, lines)
        assert lines[2].startswith("passed   context.bad_options: "), (spoil, lines)
        assert lines[3:] == ["1 passed, 1 failed, 0 skipped: this device does not do what the library relies on."], (
            spoil, lines)


def isolated_json(program):
    """The same document as without, whether a case dies or not."""
    document = json.loads(run_verb(program, "abort", *TWO_CASES, "--isolate", "--json").stdout)
    assert [case["result"] for case in document["cases"]] == ["failed", "passed"], document
    assert document["cases"][0]["reason"] == "SIGABRT ended its process", document
    assert (document["passed"], document["failed"]) == (1, 1), document
    for cases in ("memory.", "base."):
        plain = run_verb(program, "", "check", "--filter", cases, "--json")
        alone = run_verb(program, "", "check", "--filter", cases, "--json", "--isolate")
        assert plain.returncode == 0 and plain.stdout == alone.stdout, (plain, alone)


# What SPOIL asks for, a case that must notice, and what it says.
NOTICED = (
    ("contents", "fill.edges", "byte 4095 of 4096 is 0x20, expected 0x21 (33 bytes)"),
    ("contents", "pool.blocks", "a block of 4194304 bytes holds 0xb10c0009 and 0xb00c0009, not 0xb10c0009"),
    ("leak", "memory.sums", "held_bytes is 4096, but the calls made so far add up to 0"),
    ("accept", "handle.null", "vram_queue_wait(queue, 0): succeeded, expected VRAM_ERR_INVALID"),
    ("accept", "handle.made_up", "succeeded, expected VRAM_ERR_INVALID or VRAM_ERR_STALE (handle 0x1)"),
    ("accept", "lifetime.forked", "3 is not 0"),
)


def noticed(program):
    """The suite fails on a library or a driver that does not do what it must."""
    for spoil, case, reason in NOTICED:
        result = run_verb(program, spoil, "check", "--filter", case)
        assert result.returncode == 1 and result.stderr == "", (spoil, result)
        failed = result.stdout.splitlines()[1]
        assert failed.startswith(f"failed   {case}: ") and reason in failed, (spoil, failed)


# What the environment says, cases that it keeps from running, and the reason that each is skipped with.
SURROUNDINGS = (
    ({"VRAM_LOG": "error"}, "log.silent", "the environment may ask for messages (VRAM_LOG, VRAM_CONF)"),
    ({"VRAM_CONF": "log=error"}, "log.silent", "the environment may ask for messages (VRAM_LOG, VRAM_CONF)"),
    ({"TMPDIR": "/nonexistent"}, "compose.tight_trace", "no file can be made in /nonexistent"),
    ({"VRAM_TRACE": "@FOLDER@/trace"}, "compose.tight_trace", "this process writes a trace already"),
    ({"VRAM_SIM": "memory=1G,others=600M"}, "pressure.watches", "others use most of the device's memory"),
    ({"VRAM_DEVICE_LIMIT": "4K"}, "memory.limit", "the environment sets a lower device_limit"),
    ({"VRAM_SHARE_DIR": "/nonexistent"}, "share.time", "the directory /nonexistent cannot be used"),
    ({"VRAM_SHARE_DIR": "/nonexistent"}, "compose.share_limit", "the directory /nonexistent cannot be used"),
    # Nothing keeps these from running: what is usual, and what is not.
    ({"TMPDIR": ""}, "compose.tight_trace", None),
    ({"VRAM_LOG": ""}, "log.silent", None),
    ({"VRAM_SIM": "memory=1024T"}, "memory.bad_sizes", None),
    ({"VRAM_BACKENDS": "sim,host"}, "device.order", None),
    ({"VRAM_BACKENDS": "sim,host"}, "managed.targets", None),
)


def surroundings(program):
    """What the suite cannot check here it skips, and says why."""
    with tempfile.TemporaryDirectory() as folder:
        for settings, case, reason in SURROUNDINGS:
            settings = {name: value.replace("@FOLDER@", folder) for name, value in settings.items()}
            result = run_verb(program, "", "check", "--filter", case, "--verbose", **settings)
            line = result.stdout.splitlines()[1]
            wanted = f"passed   {case}: " if reason is None else f"skipped  {case}: {reason}"
            assert result.returncode == 0 and line.startswith(wanted), (settings, result)


# Verbs that move data, with what SPOIL asks for, and what they print for each piece that is not what it was.
COPY = ("copy", "--size", "4K", "--threads", "1", "--seconds", "0.01")
GROW = ("grow", "--from", "1M", "--to", "2M", "--seconds", "0.01")
READBACK = ("readback", "--size", "4K", "--seconds", "0.01")
RING = ("ring", "--messages", "10")
MOVED = (
    ("contents", COPY, "  vram         the copy differs from its source\n", 4),
    ("contents", COPY, "one_by_one\n         copy 9 of the list differs from its source\n", 1),
    ("contents", GROW, "the buffer has lost its contents\n", 6),
    ("contents", READBACK, " wrong.\n", 1),
    ("contents", RING, "data or a driver's answer makes no sense\n", 3),
    ("length", RING, "data or a driver's answer makes no sense\n", 3),
    ("kernel", RING, "data or a driver's answer makes no sense\n", 3),
)


def moved(program):
    """`vram bench` looks at what it has moved."""
    for spoil, arguments, line, times in MOVED:
        result = run_verb(program, spoil, "bench", *arguments)
        assert result.returncode == 1 and result.stderr == "", (spoil, result)
        assert result.stdout.count(line) == times, (spoil, result.stdout)
        document = run_verb(program, spoil, "bench", *arguments, "--json")
        assert document.returncode == 1 and json.loads(document.stdout), (spoil, document)


# Counters of the pool that are wrong, and lines of the script about them: some of those that say so, and how many.
COUNTED = (
    ("rises", "levels: rises into low", 4),
    ("falls", "levels: falls into critical", 4),
    ("response_steps", "levels: caches halved", 20),
    ("ladder_steps", "ladder: waiting is tried", 9),
    ("ladder_rescues", "ladder: callbacks help", 2),
    ("refusals", "ladder: retry in vain", 7),
    ("pressure", "levels: level at 59 %", 24),
    ("report", "ladder: report: the cause is the limit", 13),
    ("report_step", "ladder: retry in the report", 7),
    ("report_taken", "ladder: retry in the report", 7),
)


def counted(program):
    """`vram stress pressure` holds every counter against its plan."""
    for spoil, name, count in COUNTED:
        result = run_verb(program, spoil, "stress", "pressure")
        wrong = [line for line in result.stdout.splitlines() if line.startswith("WRONG")]
        assert result.returncode == 1 and result.stderr == "", (spoil, result)
        assert len(wrong) == count and any(line.startswith(f"WRONG   {name} ") for line in wrong), (spoil, wrong)
        assert f"{102 - count} of 102 as planned" in result.stdout, (spoil, result.stdout)
    document = json.loads(run_verb(program, "rises", "stress", "pressure", "--json").stdout)
    assert document["good"] is False and document["wrong"] == 4, document


def soaked(program):
    """`vram stress soak` does so with what it has allocated, with contents and with what is left."""
    spoils = ("contents", "allocs", "live_blocks", "requested_bytes", "reserved_bytes")
    with concurrent.futures.ThreadPoolExecutor(len(spoils)) as pool:  # each takes a second
        results = pool.map(lambda spoil: run_verb(program, spoil, "stress", "soak", "--seconds", "1", "--limit",
                                                  "16M"), spoils)
        for spoil, result in zip(spoils, results):
            assert result.returncode == 1 and result.stdout.endswith("\nFAILED\n"), (spoil, result)


def refused(program):
    """What cannot begin, or cannot be written, is said with exit code 2."""
    result = run_verb(program, "", "stress", "pressure", VRAM_SIM="memory=1G,others=600M")
    assert result.returncode == 2 and result.stderr.count("\n") == 1, result
    result = run_verb(program, "", "bench", "readback", "--size", "9G")
    assert result.returncode == 2 and "a frame must have 4096 bytes to 8 GiB" in result.stderr, result
    result = run_verb(program, "", "bench", "track", "--seconds", "0.01", TMPDIR="/nonexistent")
    assert result.returncode == 0 and "\ntraced   cannot create a file at /nonexistent/vram-bench-" in result.stdout, (
        result)


def nothing(program):
    result = run(program, "")
    assert result.returncode == 0 and result.stdout.endswith("nothing left: 0 bytes held\n")


def main(program):
    failed = 0
    tests = (contents, leak, named, isolated, isolated_json, noticed, surroundings, moved, counted, soaked, refused, nothing)
    for test in tests:
        try:
            test(program)
        except AssertionError as error:
            failed += 1
            print(f"FAILED {test.__name__}: {error}")
    print(f"{len(tests) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
