#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""transcripts.py BINARY [VERB]... [--accept] [NAME=VALUE]... | --self-test: runs VERB.t, transcripts of the command.

A transcript is a session of a shell in an empty folder:
  # what comes next       a comment
  $ vram info             a command; `vram` is BINARY, $ROOT the repository
  > more                  its next line
    Backends              what it printed
  ! vram: a message       what it said on standard error
  [2]                     its exit code, if that is not 0
<*> stands for anything within a line, a line <...> for any number of lines, <version> for the library's version, <esc>
and <cr> for those characters, <> at the end of a line for nothing.

What differs is shown; --accept writes it into the transcript, and keeps lines with <*> and <...> that still match.
NAME=VALUE is added to the environment of all commands. A transcript that begins with "# With NAME:" needs that one.
"""
import difflib
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PASSED_ON = ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS", "GCOV_PREFIX", "GCOV_PREFIX_STRIP",
             "LLVM_PROFILE_FILE")


class Invalid(Exception):
    """A transcript or an argument that cannot be read."""


class Case:
    """A command, what stands above it, and what came of it."""

    def __init__(self, head, line):
        self.head, self.line, self.command, self.out, self.err, self.code = head, line, [], [], [], 0

    def text(self):
        lines = self.head + [("> " if i else "$ ") + line for i, line in enumerate(self.command)]
        lines += ["  " + line if line else "" for line in self.out] + ["! " + line for line in self.err]
        return "".join(line + "\n" for line in lines + ([f"[{self.code}]"] if self.code else []))


def version():
    with open(os.path.join(ROOT, "include", "vram", "base.h"), encoding="utf-8") as stream:
        header = stream.read()
    parts = [re.search(rf"#define VRAM_VERSION_{part} (\d+)", header).group(1) for part in ("MAJOR", "MINOR", "PATCH")]
    return ".".join(parts) + re.search(r'VRAM_VERSION_PRE "(.*)"', header).group(1)


VERSION = version()


def parsed(name, text):
    """The cases of a transcript, and what stands behind the last."""
    cases, head = [], []
    for number, line in enumerate(text.splitlines(), 1):
        mark, rest = line[:2], line[2:]
        if not line or line.startswith("#"):
            head.append(line)
        elif mark == "$ ":
            cases.append(Case(head, number))
            cases[-1].command.append(rest)
            head = []
        elif not cases or any(head) or mark == "> " and (head or cases[-1].out or cases[-1].err):
            raise Invalid(f"{name}:{number}: there is no command above \"{line}\"")
        elif mark == "> ":
            cases[-1].command.append(rest)
        elif mark == "  ":
            cases[-1].out += head + [rest]
            head = []
        elif mark == "! ":
            cases[-1].err.append(rest)
        elif re.fullmatch(r"\[\d+\]", line):
            cases[-1].code = int(line[1:-1])
        else:
            raise Invalid(f"{name}:{number}: neither a command nor what came of it: \"{line}\"")
    return cases, head


def written(output):
    """What was printed, as the lines of a transcript."""
    text = output.decode("utf-8", "replace").replace("\033", "<esc>").replace("\r", "<cr>")
    text = text.replace(VERSION, "<version>")
    lines = [line + "<>" if line.endswith(" ") else line for line in text.split("\n")]
    if lines.pop():
        lines.append(text.split("\n")[-1] + "<no newline>")
    if lines and not lines[-1]:
        lines[-1] = "<>"
    return lines


def matches(line, said):
    pattern = "[^\n]*".join(re.escape(part) for part in line.split("<*>"))
    return line == said or "<*>" in line and re.fullmatch(pattern, said) is not None


def aligned(lines, said):
    """What was said, with those lines of the transcript that match it; equal to them if all do."""
    if lines == said:
        return lines
    # costs[i][j]: the fewest changes that make lines[i:] of said[j:]
    costs = [[0] * (len(said) + 1) for _ in range(len(lines) + 1)]
    ways = [[""] * (len(said) + 1) for _ in range(len(lines) + 1)]
    for i in range(len(lines), -1, -1):
        for j in range(len(said), -1, -1):
            any_lines = i < len(lines) and lines[i] == "<...>"
            choices = [(0, "end")] if i == len(lines) and j == len(said) else []
            if any_lines:
                choices += [(costs[i + 1][j], "pass")] + ([(costs[i][j + 1], "skip")] if j < len(said) else [])
            elif i < len(lines):
                if j < len(said) and matches(lines[i], said[j]):
                    choices.append((costs[i + 1][j + 1], "keep"))
                choices.append((1 + costs[i + 1][j], "drop"))
            if j < len(said):
                choices.append((1 + costs[i][j + 1], "add"))
            costs[i][j], ways[i][j] = min(choices, key=lambda choice: choice[0])
    result, i, j = [], 0, 0
    while ways[i][j] != "end":
        way = ways[i][j]
        result += [lines[i]] if way in ("keep", "pass") else [said[j]] if way == "add" else []
        i, j = i + (way in ("keep", "pass", "drop")), j + (way in ("keep", "skip", "add"))
    return result


def environment(binary, runtime):
    """Nothing of the caller's settings may reach the command but what sanitizers need."""
    env = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    path = [os.path.join(runtime, "bin"), HERE, os.defpath]
    if not os.path.exists(path[0]):
        os.mkdir(path[0])
        os.symlink(os.path.abspath(binary), os.path.join(path[0], "vram"))
    env.update(PATH=os.pathsep.join(path), ROOT=ROOT, LC_ALL="C", TERM="xterm", HOME="/dev/null",
               OCL_ICD_VENDORS="/nonexistent", XDG_RUNTIME_DIR=runtime)
    return env


def run(case, folder, env):
    return subprocess.run(["/bin/sh", "-c", "\n".join(case.command)], cwd=folder, env=env, stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=120, check=False)


def replayed(name, text, binary, **settings):
    """The number of commands of a transcript, and the transcript as it is now."""
    cases, tail = parsed(name, text)
    if not cases:
        raise Invalid(f"{name}: there is no command in it")
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as runtime:
        for case in cases:
            result = run(case, folder, dict(environment(binary, runtime), **settings))
            case.out, case.err = aligned(case.out, written(result.stdout)), aligned(case.err, written(result.stderr))
            case.code = result.returncode
    return len(cases), "".join(case.text() for case in cases) + "".join(line + "\n" for line in tail)


def needs(name, settings):
    """The variable that a transcript needs and does not get, or None."""
    with open(os.path.join(HERE, name + ".t"), encoding="utf-8") as stream:
        found = re.match(r"# With (\w+):", stream.read())
    return found[1] if found and found[1] not in settings else None


def check(name, binary, accept, settings):
    """Whether the commands of a transcript do what it says."""
    path = os.path.join(HERE, name + ".t")
    with open(path, encoding="utf-8", newline="") as stream:
        text = stream.read()
    count, now = replayed(name + ".t", text, binary, **settings)
    print(f"{name}: {count} commands, {'as written' if now == text else 'accepted' if accept else 'DIFFERENT'}")
    if now != text and accept:
        with open(path, "w", encoding="utf-8", newline="") as stream:
            stream.write(now)
    elif now != text:
        print("".join(difflib.unified_diff(text.splitlines(True), now.splitlines(True), f"{name}.t", "now", n=6)))
    return accept or now == text


def self_test():
    """Each of these must be found to differ, or not, or the driver itself is worth nothing."""
    trials = (
        (True, "$ echo a\n  a\n"), (False, "$ echo a\n  b\n"), (False, "$ echo a\n"), (False, "$ echo a >&2\n"),
        (True, "$ echo a >&2\n! a\n"), (False, "$ echo a >&2\n  a\n"), (False, "$ echo a\n! a\n"),
        (True, "$ echo took 3 ms; echo; echo end\n  took <*> ms\n  <...>\n  end\n"),
        (False, "$ echo took; echo end\n  took <*> ms\n  <...>\n  end\n"), (False, "$ echo end\n  end\n  more\n"),
        (False, "$ printf end\n  end\n"), (True, "$ printf end\n  end<no newline>\n"), (True, "$ exit 3\n[3]\n"),
        (False, "$ exit 3\n"), (False, "$ true\n[3]\n"), (True, "$ echo; echo\n\n  <>\n\n# more\n$ true\n"),
        (True, "$ cat <<'END'\n> $A\n> END\n  $A\n"), (True, f"$ echo v{VERSION}\n  v<version>\n"),
        (True, "$ echo a >b\n$ cat b\n  a\n"), (True, "$ printf 'a \\033\\n'; echo 'b '\n  a <esc>\n  b <>\n"),
        (None, "  a\n"), (None, "# nothing\n"), (None, "$ true\na\n"), (None, "$ true\n! a\n> b\n"),
    )
    bad = 0
    for expected, text in trials:
        try:
            found = replayed("trial", text, "/bin/true")[1] == text
        except Invalid:
            found = None
        if found != expected:
            print(f"found {found}, expected {expected}: {text!r}")
            bad += 1
    kept = aligned(["a <*>", "<...>", "b", "c <*>"], ["a 1", "x", "y", "b", "d", "c 2"])
    if kept != ["a <*>", "<...>", "b", "d", "c <*>"]:
        print(f"accepted {kept}")
        bad += 1
    print(f"{len(trials) + 1 - bad} passed, {bad} failed")
    return 1 if bad else 0


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    settings = dict(word.split("=", 1) for word in arguments[1:] if "=" in word)
    words = [word for word in arguments if word != "--accept" and "=" not in word]
    known = sorted(name[:-2] for name in os.listdir(HERE) if name.endswith(".t"))
    try:
        if not words or words[0].startswith("-") or not os.access(words[0], os.X_OK):
            raise Invalid("say which command to run: transcripts.py BINARY [VERB]... [--accept] [NAME=VALUE]...")
        for name in words[1:]:
            if name not in known:
                raise Invalid(f"there is no transcript of \"{name}\"; there is one of {', '.join(known)}")
            if needs(name, settings):
                raise Invalid(f"{name} needs {needs(name, settings)}=; see CMakeLists.txt")
        names = words[1:] or [name for name in known if not needs(name, settings)]
        results = [check(name, words[0], "--accept" in arguments, settings) for name in names]
    except Invalid as error:
        print(f"transcripts: {error}", file=sys.stderr)
        return 2
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
