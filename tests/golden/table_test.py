#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""table_test.py BINARY: the man page and the completions know every verb, flag, backend and option.

`vram help --json` and `vram info --json` are the truth; what is written by hand is held to it.
"""
import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def read(*parts):
    with open(os.path.join(ROOT, *parts), encoding="utf-8") as stream:
        return stream.read()


def ask(binary, *arguments):
    result = subprocess.run([binary, *arguments, "--json"], capture_output=True, text=True,
                            timeout=60, check=False)
    return json.loads(result.stdout)


def man_sections(page):
    """Text of the man page by subsection: "vram info", and by section: "ENVIRONMENT"."""
    parts = re.split(r"^\.S[hs] (.+)$", page, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))


def man_flags(text):
    """The long flags that a section describes: .It Fl j , -json   .It Fl -color Ns = Ns Ar WHEN"""
    items = re.findall(r"^\.It Fl (.*)$", text, flags=re.M)
    return {re.search(r"(?:^|\s)-([a-z-]+)", item).group(1): item for item in items}


def check_flags(where, flags, text):
    written = man_flags(text)
    for flag in flags:
        item = written.get(flag["name"])
        if item is None:
            yield f"man page, {where}: --{flag['name']} is missing"
            continue
        if (flag["letter"] is not None) != (re.match(r"\S ,", item) is not None) or (
                flag["letter"] and not item.startswith(flag["letter"] + " ")):
            yield f"man page, {where}: --{flag['name']} has another short form: {item}"
        value = re.search(r"Ar (\S+)", item)
        if (value.group(1) if value else None) != flag["value"]:
            yield f"man page, {where}: --{flag['name']} has another argument: {item}"
    for name in sorted(set(written) - {flag["name"] for flag in flags}):
        yield f"man page, {where}: --{name} is not a flag"


def check_man(helps, page):
    sections = man_sections(page)
    common = {"json", "color", "help"}
    yield from check_flags("before the verb", helps["flags"], sections["Flags before the verb"])
    for verb in helps["verbs"]:
        section = sections.get(f"vram {verb['name']}")
        if section is None:
            yield f"man page: vram {verb['name']} is missing"
            continue
        shared = [flag for flag in verb["flags"] if flag["name"] in common]
        yield from check_flags("every verb", shared, sections["Flags of every verb"])
        own = [flag for flag in verb["flags"] if flag["name"] not in common]
        yield from check_flags(verb["name"], own, section)


def check_synopsis(helps, page):
    """The synopsis has every verb and mode, and a verb's section says what each of its modes does."""
    sections = man_sections(page)
    lines = {}
    for part in re.split(r"^\.Nm$", sections["SYNOPSIS"], flags=re.M)[1:]:
        words = " ".join(re.findall(r"^\.Cm (.*)$", part, flags=re.M)).replace("|", " ").split()
        lines[words[0] if words else "--version"] = words[1:]
    for verb in helps["verbs"]:
        name, usage = verb["name"], verb["usage"].split()[0]
        modes = usage.split("|") if re.fullmatch(r"[a-z]+(\|[a-z]+)+", usage) else []
        if lines.get(name) != modes:
            yield f"man page, SYNOPSIS: vram {name} has {lines.get(name)} instead of {modes}"
        for mode in modes:
            if not re.search(rf"^\.Cm (vram {name} )?{mode}\b", sections.get(f"vram {name}", ""), re.M):
                yield f"man page, vram {name}: what {mode} does is missing"


def check_options(info, page):
    written = set(re.findall(r"^\.It Ev VRAM_(\w+)$", man_sections(page)["ENVIRONMENT"], re.M))
    real = {option["name"].upper() for option in info["options"]} | {"CONF"}
    for name in sorted(written ^ real):
        yield f"man page, ENVIRONMENT: VRAM_{name} is {'missing' if name in real else 'no option'}"


def check_backends(info, script):
    real = {backend["name"] for backend in info["backends"]}
    offered = set(re.search(r'info,--backend \| info,-b\) words="([^"]*)"', script).group(1).split())
    for name in sorted(real ^ offered):
        yield f"completion: backend {name} is {'missing' if name in real else 'unknown'}"


def sim_keys(binary):
    """The keys of VRAM_SIM, as the library lists them to somebody who wrote a wrong one."""
    said = subprocess.run([binary, "info"], capture_output=True, text=True, timeout=60, check=False,
                          env={**os.environ, "VRAM_SIM": "unheard_of=1"}).stderr
    return re.search(r"accepted are (.*) \(VRAM_ERR_INVALID\)", said).group(1)


def check_sim(keys, page, header):
    listed = re.search(r"^Keys are ([^;]+);", man_sections(page)["ENVIRONMENT"], re.M).group(1)
    if " ".join(listed.split()) != keys:
        yield f"man page, VRAM_SIM: keys are {keys}"
    for key in re.findall(r"\w+", keys.replace(" and ", " ")):
        if not re.search(rf"^ \*.*\b{key}=", header, re.M):
            yield f"vram/sim.h: the key {key} is missing"


def check_examples(helps):
    """Examples name only what exists."""
    for verb in helps["verbs"]:
        flags = {"--" + flag["name"] for flag in verb["flags"]}
        for line in verb["examples"].splitlines():
            command = line.split("#")[0]
            if f"vram {verb['name']}" not in command:
                yield f"help of {verb['name']}: an example of something else: {line}"
            for flag in re.findall(r"--[a-z-]+", command):
                if flag not in flags:
                    yield f"help of {verb['name']}: an example uses {flag}"
            if len(line) > 78:
                yield f"help of {verb['name']}: an example is too wide: {line}"


def main(binary):
    helps, info = ask(binary, "help"), ask(binary, "info")
    page = read("man", "vram.1")
    wrong = [*check_man(helps, page), *check_synopsis(helps, page), *check_options(info, page),
             *check_backends(info, read("completions", "vram.bash")), *check_examples(helps),
             *check_sim(sim_keys(binary), page, read("include", "vram", "sim.h"))]
    # The checks themselves must be able to fail.
    helps["verbs"].append({"name": "unheard", "usage": "of|what", "flags": [], "examples": ""})
    if len(list(check_synopsis(helps, page))) != 3:
        wrong.append("a mode may be missing")
    helps["verbs"].pop()
    helps["verbs"][0]["flags"].insert(0, {"name": "unheard-of", "letter": None, "value": None})
    info["options"].append({"name": "unheard_of"})
    info["backends"].append({"name": "unheard_of"})
    if not (list(check_man(helps, page)) and list(check_options(info, page))
            and list(check_backends(info, read("completions", "vram.bash")))
            and len(list(check_sim("unheard_of", page, ""))) == 2):
        wrong.append("a check accepts what is not documented")
    print("\n".join(dict.fromkeys(wrong)) if wrong else "man page and completions are complete")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
