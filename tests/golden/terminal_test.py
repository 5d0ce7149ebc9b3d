#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""terminal_test.py BINARY: how the command behaves on a real terminal, through a pty."""
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

ESCAPE = b"\033["


def drain(main_end, child):
    """Reads what the child writes to the terminal until it has ended and nothing is left."""
    text, deadline = b"", time.monotonic() + 120
    while time.monotonic() < deadline:
        ready, _, _ = select.select([main_end], [], [], 0.1)
        if ready:
            try:
                piece = os.read(main_end, 65536)
            except OSError:
                break  # Linux's way to say that the other end is closed
            if not piece:
                break
            text += piece
        elif child.poll() is not None:
            break
    return text


def run(binary, arguments, columns=100, stdout_too=True, **settings):
    """Runs with stderr, and stdout unless told otherwise, on a terminal. Returns both and the code."""
    main_end, child_end = pty.openpty()
    fcntl.ioctl(child_end, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    env = {name: value for name, value in os.environ.items()
           if not name.startswith(("VRAM_", "CLICOLOR")) and name not in ("NO_COLOR", "COLUMNS")}
    env.update({"TERM": "xterm", "LC_ALL": "C", "VRAM_BACKENDS": "sim", **settings})
    child = subprocess.Popen([binary, *arguments], env=env, stdin=subprocess.DEVNULL,
                             stdout=child_end if stdout_too else subprocess.PIPE, stderr=child_end)
    os.close(child_end)
    shown = drain(main_end, child)
    os.close(main_end)
    printed = b"" if stdout_too else child.stdout.read()
    return shown, printed, child.wait(timeout=60)


def colors_by_default(binary):
    shown, _, code = run(binary, ["info"])
    assert code == 0 and ESCAPE in shown, "no colors on a terminal"
    assert b"\r\n" in shown


def no_colors_when_unwanted(binary):
    assert ESCAPE not in run(binary, ["info"], NO_COLOR="1")[0], "NO_COLOR is ignored"
    assert ESCAPE not in run(binary, ["info"], TERM="dumb")[0], "TERM=dumb is ignored"
    assert ESCAPE not in run(binary, ["info", "--color=never"])[0], "--color=never is ignored"
    assert ESCAPE in run(binary, ["info"], NO_COLOR="")[0], "an empty NO_COLOR counts"
    assert ESCAPE in run(binary, ["info", "--color=always"], NO_COLOR="1")[0], "the flag must win"


def json_is_never_colored(binary):
    shown, _, code = run(binary, ["info", "--json"])
    assert code == 0 and ESCAPE not in shown and shown.lstrip().startswith(b"{")


def lines_fit(binary):
    for columns in (60, 140):
        shown, _, _ = run(binary, ["info", "--options"], columns=columns, NO_COLOR="1")
        wide = [line for line in shown.decode().split("\r\n") if len(line) > columns]
        # A UUID cannot be broken, and neither can the heading: they may stick out of narrow ones.
        wide = [line for line in wide if "uuid" not in line and "VRAM_CONF" not in line]
        assert not wide, f"wider than {columns}: {wide}"


def progress_on_a_terminal(binary):
    for arguments, last in ((["check", "--filter", "copy"], b"passed"),
                            (["replay", "--generate", "steady,steps=10", "--policy", "naive"], b"naive")):
        shown, printed, code = run(binary, arguments, stdout_too=False)
        assert code == 0, code
        assert b"\r" in shown and b"[" in shown and b"/" in shown, f"no progress on stderr: {shown!r}"
        assert shown.endswith(b"\r\033[K"), "the progress line is left behind"
        assert b"\r" not in printed and last in printed, "progress reached stdout"


def no_progress_elsewhere(binary):
    shown, _, code = run(binary, ["check", "--filter", "copy"], stdout_too=False, TERM="dumb")
    assert code == 0 and shown == b"", f"a dumb terminal got {shown!r}"
    result = subprocess.run([binary, "check", "--backend", "sim", "--filter", "copy"],
                            capture_output=True, timeout=120, check=False)
    assert result.returncode == 0 and result.stderr == b"", f"a pipe got {result.stderr!r}"


def progress_fits_the_line(binary):
    shown, _, _ = run(binary, ["check", "--filter", "copy"], columns=40, stdout_too=False)
    lines = [line for line in shown.replace(b"\033[K", b"").split(b"\r") if line]
    assert lines and max(map(len, lines)) < 40, "a progress line wraps"


def a_soak_that_is_stopped_says_what_it_found(binary):
    main_end, child_end = pty.openpty()
    env = {"TERM": "xterm", "LC_ALL": "C", "VRAM_BACKENDS": "sim"}
    child = subprocess.Popen([binary, "stress", "soak", "--seconds", "600", "--limit", "64M"], env=env,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=child_end)
    os.close(child_end)
    shown = b""
    while b"second" not in shown:  # it runs; a child that has ended closes the terminal
        shown += os.read(main_end, 65536)
    child.send_signal(signal.SIGINT)
    drain(main_end, child)
    os.close(main_end)
    printed, code = child.stdout.read(), child.wait(timeout=120)
    assert code == 0 and printed.startswith(b"stopped after"), f"{code}: {printed!r}"
    assert printed.endswith(b"passed\n"), f"no summary: {printed!r}"


def bytes_are_not_for_a_terminal(binary):
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as trace:
        trace.write("Thread,Time,Action,Pointer,Size,Stream\n1,00:00:00.000001,allocate,0x1000,256,0x0\n")
        trace.flush()
        for name in ("perfetto", "memory_viz"):
            shown, _, code = run(binary, ["report", trace.name, "--format", name])
            assert code == 2 and f"--format={name} is not for a terminal".encode() in shown, shown


def main(binary):
    tests = [colors_by_default, no_colors_when_unwanted, json_is_never_colored, lines_fit,
             progress_on_a_terminal, no_progress_elsewhere, progress_fits_the_line,
             a_soak_that_is_stopped_says_what_it_found, bytes_are_not_for_a_terminal]
    failed = 0
    for test in tests:
        try:
            test(binary)
        except AssertionError as error:
            failed += 1
            print(f"FAILED {test.__name__}: {error}")
    print(f"{len(tests) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
