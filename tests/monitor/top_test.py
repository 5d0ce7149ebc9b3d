#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""top_test.py BINARY [--update]: the screens of `vram top` in tmux, compared with screens.txt, and its text forms.

--update writes the screens anew (look at the difference). Exit code 77 (skipped) without tmux, or if this build of the
command has no screen.
"""
import csv
import difflib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
import pages  # noqa: E402

SCREENS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "screens.txt")
CLOCK = re.compile(r"\d\d:\d\d:\d\d")


def environment(**settings):
    env = {name: value for name, value in os.environ.items()
           if not name.startswith(("VRAM_", "CLICOLOR", "TMUX")) and name not in ("NO_COLOR", "COLUMNS", "LINES")}
    return {**env, "LC_ALL": "C.UTF-8", "TZ": "UTC",
            "VRAM_NVML_LIBRARY": "/nonexistent", **settings}


class Terminal:
    """A terminal of a tmux server of its own, in which the command runs."""

    def __init__(self, command, runtime, columns, rows, **settings):
        self.folder = tempfile.mkdtemp()
        self.socket = os.path.join(self.folder, "tmux")
        # A terminal that goes away continues its processes: the leak checker, which has just stopped one, would wait
        # for ever, with a processor of its own.
        self.env = environment(ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0", **settings)
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(rows), command)

    def tmux(self, *words):
        # -u: the server takes UTF-8 from programs whatever its own locale is.
        return subprocess.run(["tmux", "-u", "-S", self.socket, *words], env=self.env, check=True, capture_output=True,
                              text=True, encoding="utf-8").stdout

    def screen(self, *flags):
        return "".join(line.rstrip() + "\n" for line in self.tmux("capture-pane", "-p", *flags).split("\n")).rstrip() + "\n"

    def wait(self, words, seconds=30):
        deadline = time.monotonic() + seconds
        while words not in (shown := self.screen()):
            assert time.monotonic() < deadline, f"{words!r} does not appear in\n{shown}"
            time.sleep(0.02)
        return shown

    def keys(self, *names):
        self.tmux("send-keys", *names)

    def resize(self, columns, rows):
        self.tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def end(self):
        subprocess.run(["tmux", "-S", self.socket, "kill-server"], env=self.env, check=False, capture_output=True)
        shutil.rmtree(self.folder)


with open(SCREENS, encoding="utf-8") as stream:
    parts = re.split(r"^== (\w+)\n", stream.read(), flags=re.M)
known = dict(zip(parts[1::2], parts[2::2]))


def compare(name, shown, update, terminal=None):
    """The screen without the time of day, which is another one each time. A terminal is drawn piece by piece, so
    there is time for the last of them."""
    shown = CLOCK.sub("hh:mm:ss", shown, count=1)
    if update:
        known[name] = shown
        return
    expected = known[name]
    deadline = time.monotonic() + 10
    while terminal and shown != expected and time.monotonic() < deadline:
        time.sleep(0.05)
        shown = CLOCK.sub("hh:mm:ss", terminal.screen(), count=1)
    difference = "\n".join(difflib.unified_diff(expected.split("\n"), shown.split("\n"), name, "shown", lineterm=""))
    assert expected == shown, difference


def screens(binary, runtime, update):
    pages.example(runtime)
    # One look, then none for an hour: plots have one column, and keys are all that changes the screen.
    run = f"'{binary}' top --pages '{runtime}/vram' --pages-only -i 3600 --thresholds 30,60,90"
    small = Terminal(run, runtime, 80, 24)
    try:
        compare("overview_80x24", small.wait("ffmpeg"), update, small)
        small.keys("j")
        small.keys("Enter")
        compare("process_80x24", small.wait("LAST REFUSALS"), update, small)
        small.keys("Escape")
        small.wait("ffmpeg")
        small.keys("k", "Enter")
        small.wait("main")
        small.keys("G")
        compare("process_end_80x24", small.wait("the quota of a tag"), update, small)
        small.keys("q")
        small.wait("ffmpeg")
        small.keys("F1")
        compare("help_80x24", small.wait("Nothing here changes"), update, small)
        small.keys("q")
        small.wait("ffmpeg")
        small.keys("/", "s", "e", "r", "v")
        small.wait("Filter: serv_")
        small.keys("Enter")
        compare("filter_80x24", small.wait("filter: serv"), update, small)
        small.keys("Escape")
        small.wait("ffmpeg")
        small.keys("/", "x", "y", "BSpace", "C-h")  # both of them are Backspace
        small.wait("Filter: _")
        small.keys("s", "e", "r", "v", "C-j")  # and this is Enter
        small.wait("filter: serv")
        small.keys("Escape")
        small.wait("ffmpeg")
        for key, word in (("End", "ffmpeg"), ("Home", "train.py"), ("Down", "serve"), ("Up", "train.py"),
                          ("NPage", "ffmpeg"), ("PPage", "train.py")):
            small.keys(key, "Enter")
            shown = small.wait("EscBack")
            assert word in shown.split("\n")[1], (key, shown)
            small.keys("Escape")
            small.wait("Column")
        small.keys("Right", "Left", "F12", "IC")  # by another column and back; the last two do nothing
        small.keys("N")  # by id, then in falling order
        small.keys("I")
        deadline = time.monotonic() + 30
        while not (shown := small.screen()).index("4713 ") < shown.index("4711 "):
            assert time.monotonic() < deadline, shown
        small.resize(250, 30)
        compare("overview_250x30", small.wait("python3 train.py --batch 64"), update, small)
        small.resize(30, 5)
        small.wait("too small")
        small.resize(80, 24)
        small.wait("ffmpeg")
        small.keys("q")
    finally:
        small.end()


def other_terminals(binary, runtime, update):
    pages.example(runtime)
    for name, arguments, settings in (("latin", "", {"LC_ALL": "C"}), ("ascii", "--ascii", {})):
        terminal = Terminal(f"'{binary}' top --pages '{runtime}/vram' --pages-only -i 3600 {arguments}; echo ended $?; sleep 60", runtime, 80, 24, **settings)
        try:
            shown = terminal.wait("ffmpeg")
            assert shown.isascii(), shown
            compare("overview_ascii_80x24", shown, update and name == "latin", terminal)
            terminal.keys("F10")
            terminal.wait("ended 0")
        finally:
            terminal.end()
    # Colours, and none of them with NO_COLOR.
    for settings, expected in (({}, True), ({"NO_COLOR": "1"}, False)):
        terminal = Terminal(f"'{binary}' top --pages '{runtime}/vram' --pages-only -i 3600 --thresholds 10,20,30", runtime, 80, 24, **settings)
        try:
            terminal.wait("ffmpeg")
            shown = terminal.screen("-e")
            colored = re.search(r"\x1b\[[0-9;]*3[1-6]m", shown) is not None
            assert colored == expected, shown
            assert not expected or "\x1b[1m\x1b[31m" in shown or "\x1b[31m" in shown, "no red at 35 % of 30"
        finally:
            terminal.end()
    # Terminals without colours, with a size of their own, and such that nobody knows.
    run = f"'{binary}' top --pages '{runtime}/vram' --pages-only -i 3600"
    for command, words in (
            (f"TERM=vt100 COLUMNS=70 LINES=20 {run}", "ffmpeg"),
            (f"TERM=no-such {run}; echo ended $?; sleep 60", 'the terminal "no-such" is not known'),
            (f"env -u TERM {run}; echo ended $?; sleep 60", 'the terminal "" is not known'),
            (f"{run} < /dev/null; echo ended $?; sleep 60", "this is not a terminal")):
        terminal = Terminal(command, runtime, 80, 24)
        try:
            terminal.wait(words)
        finally:
            terminal.end()
    # A signal and ^C leave the terminal as it was.
    terminal = Terminal(f"'{binary}' top --pages '{runtime}/vram' --pages-only; echo ended $?; stty -a | grep -c '[-]echo '; sleep 60", runtime, 80, 24)
    try:
        terminal.wait("ffmpeg")
        terminal.keys("C-c")
        terminal.wait("ended 0\n0")
    finally:
        terminal.end()


def absurd_sizes(binary, runtime, _update):
    """ncurses would allocate every cell of 32767 rows and columns, 30 GB."""
    pages.example(runtime)
    for columns, rows in ((32767, 32767), (999999999, 999999999), (0, -1), ("x", "")):
        terminal = Terminal(f"LINES={rows} COLUMNS={columns} '{binary}' top --pages '{runtime}/vram' --pages-only; "
                            "echo ended $?; sleep 60", runtime, 80, 24)
        try:
            terminal.wait("ffmpeg")
            terminal.keys("q")
            terminal.wait("ended 0")
        finally:
            terminal.end()


def many_processes(binary, runtime, update):
    del update
    for pid in range(1, 1001):
        pages.write(runtime, pid, pages.page(pid, f"job {pid}", [pages.device(held=pid * pages.MIB, free=0)],
                                             [pages.pool("pool", held=pid * pages.MIB)], held=pid * pages.MIB))
    terminal = Terminal(f"'{binary}' top --pages '{runtime}/vram' --pages-only -i 3600", runtime, 100, 30)
    try:
        shown = terminal.wait("job 1000")
        assert "1000 processes, 1000 with libvram" in shown
        terminal.keys("G")
        terminal.wait("job 1\n")
        terminal.keys("g")
        terminal.wait("job 1000")
        terminal.keys("/", "j", "o", "b", "Space", "7", "7", "7")
        terminal.wait("job 777")
    finally:
        terminal.end()
    result = subprocess.run([binary, "top", "--pages", f"{runtime}/vram", "--pages-only", "--json"], env=environment(), check=True, capture_output=True)
    assert len(json.loads(result.stdout)["processes"]) == 1000


def print_top(binary, runtime, *arguments, code=0):
    result = subprocess.run([binary, "top", "--pages", f"{runtime}/vram", "--pages-only", *arguments], env=environment(), capture_output=True, text=True,
                            encoding="utf-8", timeout=60, check=False)
    assert result.returncode == code, result
    return result.stdout


def texts(binary, runtime, update):
    pages.example(runtime)
    compare("once", print_top(binary, runtime, "--once"), update)
    compare("once_process", print_top(binary, runtime, "--once", "--pid", "4711"), update)
    print_top(binary, runtime, "--once", "--pid", "1", code=1)
    document = json.loads(print_top(binary, runtime, "--once", "--json"))
    assert [process["pid"] for process in document["processes"]] == [4711, 4712, 4713]
    assert document["processes"][0]["refusals"][0]["cause"] == "quota"
    device = document["devices"][0]
    assert device["total_bytes"] - device["free_bytes"] == device["libvram_held_bytes"] + device["others_bytes"]
    rows = list(csv.DictReader(io.StringIO(print_top(binary, runtime, "--csv", "-s", "pid", "-r"))))
    assert [row["pid"] for row in rows] == ["4713", "4712", "4711"] and rows[2]["held_bytes"] == str(24 * pages.GIB)
    assert rows[0]["driver_bytes"] == "", "what is not known is empty"
    for arguments in (["-i", "0"], ["-i", "x"], ["--thresholds", "9,8,7"], ["--json", "--csv"], ["-p", "0"]):
        print_top(binary, runtime, *arguments, code=2)
    # A page of a process that was stopped; figures that are not known; a simulated device is its process's.
    unknown = pages.UNKNOWN
    pages.write(runtime, 5000, pages.page(
        5000, "=cmd|' /C calc'!A0", [pages.device("sim", "sim", kind=2, total=unknown, free=unknown, held=unknown)],
        [pages.pool("pool", held=unknown, live=unknown)], held=unknown, live=unknown, peak=unknown, cached=unknown,
        alloc_rate=unknown, updated=1))
    shown = print_top(binary, runtime, "--once")
    assert "(stopped)" in shown and re.search(r"5000\s+-\s+-\s+-\s+-\s+-", shown), shown
    assert re.search(r"sim:0 sim .*\[ unknown +\] +-/- +-\n", shown), "an empty bar says that all is free: " + shown
    assert "\"'=cmd|" in print_top(binary, runtime, "--csv"), "a formula reaches the spreadsheet"


def main(arguments):
    if not shutil.which("tmux"):
        print("skipped: tmux is not installed")
        return 77
    binary, update = os.path.abspath(arguments[0]), "--update" in arguments
    trials = [texts, screens, other_terminals, absurd_sizes, many_processes]
    probe = subprocess.run([binary, "top"], env=environment(TERM="xterm"), capture_output=True,
                           text=True, check=False)
    with tempfile.TemporaryDirectory() as runtime:
        terminal = Terminal(f"'{binary}' top --pages '{runtime}/vram' --pages-only; sleep 60", runtime, 80, 24)
        try:
            if "no screen" in terminal.wait("v", 30):
                print("screens not tried: this build of the command has none")
                trials = [texts]
        finally:
            terminal.end()
    assert probe.returncode == 0, probe
    for trial in trials:
        with tempfile.TemporaryDirectory() as runtime:
            trial(binary, runtime, update)
    if update:
        with open(SCREENS, "w", encoding="utf-8") as stream:
            stream.write("".join(f"== {name}\n{shown}" for name, shown in sorted(known.items())))
    print("all passed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
