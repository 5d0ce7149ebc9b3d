#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""readme.py SOURCE BUILD: README.md, and the pages that it sends its readers to first, show real code, real output and
real commands, and no figure of README.md is without a page that has it."""
import os
import re
import subprocess
import sys


NUMBER = r"\d+\.\d+|\d+(?= ns)"


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as stream:
        return stream.read()


def block(text, after, language):
    """The first fenced block of that language behind a mark."""
    rest = text[text.index(after):]
    match = re.search(rf"^```{language}\n(.*?)^```", rest, re.S | re.M)
    return match.group(1) if match else None


def try_commands(page, source, build):
    """Every line of the page that calls build/vram, run as it stands there."""
    lines = [line for shell in re.findall(r"^```sh\n(.*?)^```", read(source, page), re.S | re.M)
             for line in shell.split("\n") if "build/vram" in line]
    found = [] if lines else [f"{page} calls build/vram nowhere"]
    for line in lines:
        said = subprocess.run(line.replace("build/vram", os.path.join(build, "vram")), shell=True,
                              cwd=source, capture_output=True, text=True, check=False)
        if said.returncode != 0 or not said.stdout:
            found.append(f"{page}: {line}: exit code {said.returncode}: {said.stderr}")
        elif "replay" in line:
            found += compare_with_picture(said.stdout, read(source, "docs", "ratio.svg"))
    return found


def compare_with_picture(said, picture):
    """The replay's ratios are those of the first pair of bars, as the text says."""
    bars = re.findall(r"<title>\w+ (\w+) ([\d.]+)</title>", picture)[:2]
    rows = dict(re.findall(r"^ +(\w+) +\S+ +[\d.]+ \w+ +([\d.]+) ", said, re.M))
    return [f"README.md: the replay says {rows.get(policy)} for {policy}, the picture {ratio}"
            for policy, ratio in bars if abs(float(rows.get(policy, 0)) - float(ratio)) > 0.02]


def compare_caption(page, picture):
    """What the picture is said to show to those who cannot see it is what it shows."""
    found = []
    for policy, words in (("vram", "libvram"), ("caching", "a caching allocator")):
        bars = [float(ratio) for ratio in re.findall(rf"<title>\w+ {policy} ([\d.]+)<", picture)]
        wanted = f"{words} {min(bars):.2f} to {max(bars):.2f}"
        if wanted not in page:
            found.append(f"docs/why.md: the picture of ratios shows {wanted}")
    for mode, words in (("vram", "libvram"), ("expandable", "expandable_segments"),
                        ("default", "PyTorch's default")):
        bars = [float(ratio) for ratio in re.findall(rf"<title>\w+ least {mode} ([\d.]+)<", picture)]
        wanted = f"{words} {min(bars):.3f} to {max(bars):.3f}" if bars else ""
        if wanted not in page:
            found.append(f"docs/why.md: the picture of least memory shows {wanted}")
    return found


def rows(text, heading):
    """The cells of the rows of the tables below a heading, the first row of each table left out."""
    part = text.partition(f"{heading}\n")[2].partition("\n#")[0]
    lines = re.findall(r"^\|(?! *-)(.*)\|$", part, re.M)
    return [[cell.strip() for cell in line.split("|")] for line in lines[1:]]


def compare_figures(readme, pages, benchmarks):
    """All figures of a row are in one row or paragraph of the pages behind it, and the scoreboard is theirs."""
    figures = rows(readme, "## What it gives, and what it does not")
    scores = rows(readme, "## Other people's tests")
    theirs = rows(benchmarks, "### Other people's tests")
    found = [] if figures and scores and theirs else ["README.md: its tables of figures are not found"]
    parts = [set(re.findall(NUMBER, part)) for part in re.split(r"\n\n|\n(?=\|)", pages)]
    for cells in figures:
        if not any(part.issuperset(re.findall(NUMBER, " ".join(cells))) for part in parts):
            found.append(f"README.md: no page has these figures together: {cells}")
    for cells in scores:
        if [*cells[1:3], cells[3][0]] not in [row[1:4] for row in theirs]:
            found.append(f"README.md: docs/benchmarks.md has no such counts: {cells}")
    return found


def check(source, build):
    found = []
    readme, why = read(source, "README.md"), read(source, "docs", "why.md")
    for page, most in (("README.md", 120), ("CONTRIBUTING.md", 90)):
        lines = read(source, page).count("\n")
        if lines > most:
            found.append(f"{page}: {lines} lines, more than {most}: it is read first, and whole")
    benchmarks = read(source, "docs", "benchmarks.md")
    pages = "\n\n".join([why, benchmarks, read(source, "docs", "python.md")])
    found += compare_figures(readme, pages, benchmarks)

    examples = read(source, "docs", "examples.md")
    examples = examples[examples.index("\n## "):]  # the table in front links to all of them
    example = read(source, "examples", "01_hello.c")
    if block(examples, "examples/01_hello.c", "c") != example[example.index("int main"):]:
        found.append("the example in docs/examples.md is not main() of examples/01_hello.c")

    said = subprocess.run([os.path.join(build, "examples", "01_hello")], capture_output=True,
                          text=True, check=False, env={**os.environ, "VRAM_BACKENDS": "host"})
    if said.returncode != 0 or block(examples, "It prints", "text") != said.stdout:
        found.append(f"docs/examples.md shows another output than that of examples/01_hello.c: {said.stdout!r}")

    for name in ("05_growth", "09_tracker"):
        shown = block(examples, f"examples/{name}.c", "c")
        indented = "".join(f"    {line}\n" if line else "\n" for line in shown.split("\n")[:-1])
        if not shown or indented not in read(source, "examples", f"{name}.c"):
            found.append(f"what docs/examples.md shows of examples/{name}.c is not in it")
        if block(examples, f"examples/{name}.c", "text") != \
                read(source, "examples", "expected", f"{name}.txt"):
            found.append(f"docs/examples.md shows another output than that of examples/{name}.c")

    targets = set(re.findall(r"^([a-z-]+):", read(source, "Makefile"), re.M))
    for page in ("README.md", "CONTRIBUTING.md", "docs/testing.md", "docs/benchmarks.md"):
        for target in re.findall(r"`make ([a-z-]+)", read(source, page)):
            if target not in targets:
                found.append(f"{page} speaks of `make {target}`, which is not in the Makefile")
    folder = os.path.join(source, ".github", "workflows")  # not in an archive of the sources
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        for target in re.findall(r"\b(?:target: |run: make )([a-z-]+)", read(folder, name)):
            if target not in targets:
                found.append(f"{name} runs `make {target}`, which is not in the Makefile")

    helped = subprocess.run([os.path.join(build, "vram"), "--help"], capture_output=True, text=True,
                            check=False).stdout
    for words in re.findall(r"`([^`\n]+)`", readme):
        verb = re.match(r"vram ([a-z]+)", words)
        if verb and not re.search(rf"^\s+{verb.group(1)}\b", helped, re.M):
            found.append(f"README.md speaks of `{words}`, which is not a verb")
    listed = re.search(r"^Verbs\n(.*?)^$", helped, re.S | re.M).group(1)
    for verb in re.findall(r"^  ([a-z]+) ", listed, re.M):
        if verb != "help" and f"| `vram {verb}` |" not in read(source, "docs", "command.md"):
            found.append(f"docs/command.md has no row for the verb {verb}")

    found += try_commands("README.md", source, build) + try_commands("docs/command.md", source, build)
    found += compare_caption(why, read(source, "docs", "ratio.svg"))
    return found


findings = check(*sys.argv[1:3])
print("\n".join(findings + [f"{len(findings)} findings"]))
sys.exit(1 if findings else 0)
