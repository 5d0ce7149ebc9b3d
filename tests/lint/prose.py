#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""prose.py ROOT | --self-test: documents and the comments of public headers are plain English.

A short list of phrases that readers stumble over, each with what to write instead. Documents are checked outside of
code, headers in their comments only. A phrase may run over the end of a line. Documents keep 120 columns, except in
tables and in code.

EXEMPT lists the files that have not been rewritten yet. It may only shrink: a file on it that has no findings, or that
does not exist, is a finding itself.
"""
import re
import sys
import tempfile

sys.dont_write_bytecode = True
import tree  # noqa: E402

COLUMNS = 120
PHRASES = [
    (r"in the time of (?:a |the |its |that |this |each |their )?queues?", "in stream order"),
    (r"(?:has|have|had|is|are) come (?:that|so) far", "has completed that work"),
    (r"for want of", "because ... ran out, or without"),
    (r"(?:that|which) (?:is|are) none(?! of)", "that is not a ..."),
    (r"(?:value|number|text|JSON|name|size) is none(?! of)", "is not a ..., or expected a ..."),
    (r"used over and over", "that has run its workload several times"),
    (r"is entered in the (?:context|device|pool)", "registers itself in the ..."),
    (r"in a pointer's clothes", "numbers, not pointers"),
]
# Names that the code has and readers do not know: docs/glossary.md has the word for each. In documents only; in
# `code` they are names.
NAMES = [
    (r"witness(?:es)?", "tracking"), (r"lanes?", "queue state"), (r"depots?", "central cache"),
    (r"shelf|shelves", "size bins"), (r"ghosts?", "stale mapping"), (r"purses?", "time budget"),
    (r"naps?", "sleep state"), (r"stillness", "quiesce"), (r"parcels?", "bounce buffer"),
    (r"twins?", "equivalence test"),
]
DOCUMENT = re.compile(r"(?:docs/(?:design/)?)?[\w-]+\.md")
HEADER = re.compile(r"include/vram/\w+\.h")
MADE = {"docs/api.md", "docs/files.md"}  # from headers and sources, by tools

EXEMPT = {
    "include/vram/compute.h", "include/vram/pool.h", "include/vram/ring.h", "include/vram/transfer.h",
}


def pattern(phrase):
    return re.compile(r"(?<!\w)(?:" + phrase.replace(" ", r"\s+") + r")(?!\w)", re.I)


PHRASES = [(pattern(phrase), instead) for phrase, instead in PHRASES]
NAMES = [(pattern(phrase), instead) for phrase, instead in NAMES]


def blank(match):
    return re.sub(r"[^\n]", " ", match.group(0))


def prose_of_document(text):
    """The text without blocks of code and inline code, line numbers kept."""
    text = re.sub(r"^```.*?^```", blank, text, flags=re.S | re.M)
    return re.sub(r"`[^`]*`", lambda match: re.sub(r"[^\n]", "x", match.group(0)), text)


def prose_of_header(text):
    """The comments alone, without the stars at the start of their lines."""
    kept, end = [], 0
    for match in tree.TOKEN.finditer(text):
        if match.group(0).startswith(("//", "/*")):
            kept += [re.sub(r"[^\n]", " ", text[end:match.start()]), match.group(0)]
            end = match.end()
    return re.sub(r"^( *)\*", r"\1 ", "".join(kept), flags=re.M)


def check_phrases(path, prose, phrases):
    for phrase, instead in phrases:
        for match in phrase.finditer(prose):
            said = " ".join(match.group(0).split())
            yield f'{path}:{tree.line_of(prose, match.start())}: "{said}": write {instead}'


def check_columns(path, text):
    plain = re.sub(r"^```.*?^```", blank, text, flags=re.S | re.M)
    for number, line in enumerate(plain.split("\n"), 1):
        if len(line) > COLUMNS and not line.startswith(("|", "![", "    ")) and " " in line:
            yield f"{path}:{number}: {len(line)} columns, more than {COLUMNS}"


def check_file(root, path):
    text = tree.read(root, path)
    if HEADER.fullmatch(path):
        return list(check_phrases(path, prose_of_header(text), PHRASES))
    found = list(check_phrases(path, prose_of_document(text), PHRASES + NAMES))
    return found + list(check_columns(path, text))


def check(root, exempt=frozenset()):
    paths = [path for path in tree.files(root)
             if HEADER.fullmatch(path) or (DOCUMENT.fullmatch(path) and path not in MADE)]
    found = [f"tests/lint/prose.py: EXEMPT has {path}, which does not exist"
             for path in sorted(set(exempt) - set(paths))]
    for path in paths:
        findings = check_file(root, path)
        if path not in exempt:
            found += findings
        elif not findings:
            found.append(f"tests/lint/prose.py: {path} has no findings any more: take it off the list EXEMPT")
    return found


CLEAN = {
    "README.md": "# Title\n\nMemory is freed in stream order. The file is `src/core/cache/lane.h`.\n\n"
                 "```c\nlane = for_want_of; /* for want of */\n```\n\n| " + "a " * 80 + "|\n",
    "docs/design/05.md": "Stale mappings (`ghost`) are unmapped later; none of them which are none of ours.\n",
    "docs/api.md": "Freed in the time of a queue.\n",
    "traces/README.md": "for want of\n",
    "include/vram/pool.h": "/* Freed in stream order. */\nint lane; /* a lane */\n"
                           'static const char *text = "for want of";\n',
    "src/core/pool.c": "/* for want of memory */\n",
}
VIOLATIONS = [
    ("stream order", {"docs/guide.md": "Blocks are freed in the time of a queue.\n"}),
    ("docs/guide.md:3: ", {"docs/guide.md": "One.\n\nFreed in the\ntime of queues.\n"}),
    ("completed", {"docs/guide.md": "Others get it when the queue has come that far.\n"}),
    ("ran out", {"README.md": "It fails for\nwant of memory.\n"}),
    ("not a", {"docs/guide.md": "'unknown' for a number that is none.\n"}),
    ("not a", {"docs/guide.md": "The JSON is none at byte 3.\n"}),
    ("several times", {"docs/guide.md": "A space that is used over and over.\n"}),
    ("registers", {"docs/guide.md": "A thread is entered in the context first.\n"}),
    ("pointers", {"docs/ownership.md": "Handles are numbers in a pointer's clothes.\n"}),
    ("queue state", {"docs/design/05.md": "A lane keeps its queue.\n"}),
    ("time budget", {"CHANGELOG.md": "- The purse earns more.\n"}),
    ("stream order", {"include/vram/queue.h": "/*\n * Freed in the time\n * of its queue.\n */\nint x;\n"}),
    ("include/vram/queue.h:2: ", {"include/vram/queue.h": "int x;\nint y; // for want of memory\n"}),
    ("121 columns", {"docs/guide.md": "word " * 24 + "x\n"}),
]
EXEMPTIONS = [  # what the finding must say; the list; the tree
    (None, {"docs/old.md"}, {"docs/old.md": "for want of memory\n"}),
    ("take it off", {"docs/old.md"}, {"docs/old.md": "because memory ran out\n"}),
    ("does not exist", {"docs/gone.md"}, {}),
]


def self_test_exempt():
    missed = 0
    for expected, exempt, planted in EXEMPTIONS:
        with tempfile.TemporaryDirectory() as root:
            tree.plant(root, {**CLEAN, **planted})
            found = check(root, exempt)
        if not (any(expected in line for line in found) if expected else not found):
            missed += 1
            print(f"self-test: expected {expected or 'no finding'} with {exempt} exempt, got {found}")
    return missed


if __name__ == "__main__":
    if sys.argv[1] == "--self-test":
        tree.finish(tree.self_test(check, CLEAN, VIOLATIONS) + self_test_exempt())
    tree.finish(tree.report(check(sys.argv[1], EXEMPT)))
