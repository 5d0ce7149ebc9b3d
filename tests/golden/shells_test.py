#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""shells_test.py BINARY: the completion scripts work in the shells that are installed.

Each shell reads its script and is asked what it would offer. A shell that is not installed is
named; exit code 77 (skipped) when there is none.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

# words typed so far (the last one is being completed), what must be offered, what must not be;
# FOLDER holds the two files that are offered there
TRIALS = [
    (["vram", ""], ["info", "check", "tour", "completion", "help"], ["bash"]),
    (["vram", "in"], ["info"], ["check"]),
    (["vram", "info", "--"], ["--backend", "--json", "--color", "--help", "--options"], ["--device"]),
    (["vram", "tour", "--d"], ["--device"], ["--backend"]),
    (["vram", "info", "--backend", ""], ["cuda", "host", "sim", "vulkan"], ["--json"]),
    (["vram", "check", "-b", "h"], ["hip", "host"], ["cuda"]),
    (["vram", "info", "--color", "a"], ["auto", "always"], ["never"]),
    (["vram", "completion", ""], ["bash", "zsh", "fish"], ["info"]),
    (["vram", "bench", "--pattern", ""], ["pair", "burst", "mixed", "handover"], ["--json"]),
    (["vram", "bench", "a"], ["alloc"], ["pair"]),
    (["vram", "bench", "g"], ["grow"], ["alloc"]),
    (["vram", "replay", "--policy", ""], ["vram", "expandable", "async", "caching", "naive"],
     ["--json"]),
    (["vram", "replay", "--generate", "s"], ["steady"], ["queues"]),
    (["vram", "replay", "FOLDER/trace_"], ["trace_one.csv", "trace_two.csv"], ["--json"]),
    (["vram", "help", "t"], ["tour"], ["info"]),
]


def output(command, **kwargs):
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False,
                            **kwargs)
    return result.stdout + result.stderr


def offered_by_bash(script, words):
    quoted = " ".join(f"'{word}'" for word in words)
    text = (f"source {script}; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _vram; "
            "printf '%s\\n' \"${COMPREPLY[@]}\"")
    return output(["bash", "--norc", "-c", text]).split()


def offered_by_fish(script, words):
    line = " ".join(words)
    text = f"source {script}; complete -C '{line}'"
    with tempfile.TemporaryDirectory() as home:
        lines = output(["fish", "--no-config", "-c", text], env={**os.environ, "HOME": home})
    return [line.split("\t")[0] for line in lines.splitlines()]


# zsh completes on a terminal only: zpty gives it one. The widget lists the choices and then says
# so; nothing has to be waited for by the clock.
ZSH_SESSION = r"""
zmodload zsh/zpty
zpty shell 'TERM=dumb zsh -f -i'
zpty -w shell 'PS1=; stty columns 200; autoload -Uz compinit; compinit -u -D; source $SCRIPT'
zpty -w shell 'probe() { zle list-choices; zle -R; print -r -- "DO""NE" }'
zpty -w shell 'zle -N probe; bindkey "^T" probe; print REA""DY'
zpty -r shell shown '*READY*'
zpty -w -n shell "$TYPED"$'\x14'
zpty -r shell shown '*DONE*'
print -r -- $shown
zpty -d shell
"""


def offered_by_zsh(script, words):
    with tempfile.TemporaryDirectory() as home:
        env = {**os.environ, "HOME": home, "ZDOTDIR": home, "SCRIPT": script,
               "TYPED": " ".join(words)}
        shown = output(["zsh", "-f", "-c", ZSH_SESSION], env=env)
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\x07", "", shown).replace("\r", "\n")
    lines = [line.split(" -- ")[0] for line in shown.split("\n")]  # behind it stands the help
    # What was typed is drawn as well, and must not count as offered.
    return " ".join(line for line in lines if not line.startswith(" ".join(words).rstrip())).split()


def try_shell(shell, offered, binary, folder):
    script = os.path.join(folder, {"bash": "vram.bash", "zsh": "_vram", "fish": "vram.fish"}[shell])
    with open(script, "w", encoding="utf-8") as stream:
        subprocess.run([binary, "completion", shell], stdout=stream, check=True)
    complaint = output([shell, "-n", script])
    if complaint:
        yield f"{shell} does not read its script: {complaint}"
    for typed, wanted, unwanted in TRIALS:
        words = [word.replace("FOLDER", folder) for word in typed]
        # Shells show files with or without their folder, and some mark what can be run.
        got = [os.path.basename(word.rstrip("*")) or word for word in offered(script, words)]
        missing = [word for word in wanted if word not in got]
        extra = [word for word in unwanted if word in got]
        if missing or extra:
            yield f"{shell}: {' '.join(words)!r}: missing {missing}, not asked for {extra}: {got}"


def main(binary):
    shells = {"bash": offered_by_bash, "zsh": offered_by_zsh, "fish": offered_by_fish}
    found = {shell: offered for shell, offered in shells.items() if shutil.which(shell)}
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        for name in ("trace_one.csv", "trace_two.csv"):
            open(os.path.join(folder, name), "w", encoding="utf-8").close()
        for shell, offered in found.items():
            wrong += try_shell(shell, offered, binary, folder)
    for shell in sorted(set(shells) - set(found)):
        print(f"{shell} is not installed: its script was not tried")
    print("\n".join(wrong) if wrong else f"tried in {', '.join(found)}")
    return 1 if wrong else 0 if found else 77


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
