#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""links.py SOURCE BUILD | --installed FOLDER: what documents point at is there: files, headings, paths and calls.

A path in `backticks` that starts with a folder of the tree must exist; a vram_ name in backticks
must be declared by a public header; a commit must be one of this history (not looked at outside of a whole
clone). In the tables of old names in docs/migration.md the first column names what is gone. Of
installed documents only the links are looked at.
"""
import glob
import os
import re
import subprocess
import sys

GONE = re.compile(r"^\| (?!---)[^|]*\|", re.M)  # the first column of a table
FOLDERS = ("src/", "include/", "cli/", "docs/", "examples/", "tests/", "tools/", "bench/", "cmake/",
           "man/", "completions/")


def read(path):
    with open(path, encoding="utf-8") as stream:
        return stream.read()


def anchors(text):
    """Headings as links name them."""
    names = re.findall(r"^#+ (.+)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", name.lower()).replace(" ", "-") for name in names}


def check_links(source, page, text):
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        full = os.path.join(source, os.path.dirname(page), path) if path else os.path.join(source, page)
        if not os.path.exists(full):
            yield f"{page}: link to {target}: no such file"
        elif anchor and anchor not in anchors(read(full)):
            yield f"{page}: link to {target}: no such heading"


def check_words(source, page, text, declared):
    for word in re.findall(r"`([^`\n]+)`", text):
        if word.startswith(FOLDERS) and re.fullmatch(r"[\w./*-]+", word):
            # A program is named without the .c of its source.
            if not any(glob.glob(os.path.join(source, name)) for name in (word, word + ".c")):
                yield f"{page}: {word}: no such file"
        match = re.fullmatch(r"(vram_\w+)(\(.*\))?", word)
        # Benchmarks name rows of their output, which are no calls.
        if match and match.group(1) not in declared and page != "docs/benchmarks.md":
            yield f"{page}: {match.group(1)}: no public header declares it"


def commits(source):
    """What commits may be called; empty where the history is not here."""
    done = subprocess.run(["git", "-C", source, "rev-list", "HEAD"], capture_output=True, text=True, check=False)
    shallow = os.path.exists(os.path.join(source, ".git", "shallow"))
    names = [] if done.returncode != 0 or shallow else done.stdout.split()
    return {name[:length] for name in names for length in range(7, 11)}


def check_commits(page, text, known):
    for name in re.findall(r"\b(?=\w*[a-f])(?=\w*[0-9])[0-9a-f]{7,10}\b", text):
        if known and name not in known:
            yield f"{page}: {name}: no such commit; name a date"


def installed(folder):
    pages = [os.path.relpath(page, folder) for page in glob.glob(os.path.join(folder, "**", "*.md"), recursive=True)]
    found = [line for page in sorted(pages) for line in check_links(
        folder, page, re.sub(r"^```.*?^```", "", read(os.path.join(folder, page)), flags=re.S | re.M))]
    print("\n".join(found + [f"{len(pages)} installed pages, {len(found)} findings"]))
    return 1 if found or len(pages) < 20 else 0


def main(source):
    headers = glob.glob(os.path.join(source, "include", "vram", "*.h"))
    declared = set(re.findall(r"\bvram_\w+", " ".join(read(header) for header in headers)))
    declared |= {"vram_static", "vram_unit"}  # of the build
    for name in ("src/core/metrics/metrics_family.c", "cli/exporter/page_metrics.c"):  # and metrics
        metrics = re.findall(r'"(?:# TYPE )?(vram_[a-z_]+)', read(os.path.join(source, name)))
        declared |= {metric + suffix for metric in metrics for suffix in ("", "_total", "_info")}
    pages = [os.path.relpath(page, source) for pattern in ("*.md", "docs/**/*.md")
             for page in glob.glob(os.path.join(source, pattern), recursive=True)]
    found, known = [], commits(source)
    for page in sorted(pages):
        text = read(os.path.join(source, page))
        prose = re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)
        found += list(check_links(source, page, prose)) + list(check_commits(page, prose, known))
        before, heading, after = prose.partition("## 0.1 before > after")
        if page == "docs/migration.md":
            prose = before + heading + GONE.sub("| |", after)
        found += list(check_words(source, page, prose, declared))
    print("\n".join(found + [f"{len(pages)} pages, {len(found)} findings"]))
    return 1 if found or not pages else 0


sys.exit(installed(sys.argv[2]) if sys.argv[1] == "--installed" else main(sys.argv[1]))
