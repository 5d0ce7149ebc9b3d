#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""prose.py ROOT | --self-test: documents and the comments of public headers are plain English, and comments are short.

A short list of phrases that readers stumble over, each with what to write instead. Documents are checked outside of
code, headers in their comments only. A phrase may run over the end of a line. Documents keep 120 columns, except in
tables and in code; comments in C and C++ keep 100, of which clang-format moves none.

"""
import re
import sys

sys.dont_write_bytecode = True
import tree  # noqa: E402

COLUMNS = 120
COMMENT_COLUMNS = 100
PHRASES = [
    (r"in the time of (?:a |the |its |that |this |each |their )?queues?", "in stream order"),
    (r"(?:has|have|had|is|are) come (?:that|so) far", "has completed that work"),
    (r"for want of", "because ... ran out, or without"),
    (r"(?:that|which) (?:is|are) none(?! of)", "that is not a ..."),
    (r"(?:value|number|text|JSON|name|size) is none(?! of)", "is not a ..., or expected a ..."),
    (r"used over and over", "that has run its workload several times"),
    (r"is entered in the (?:context|device|pool)", "registers itself in the ..."),
    (r"in a pointer's clothes", "numbers, not pointers"),
    (r"in the place of", "instead of"),
    (r"(?<!there\s)(?:is|are) no (?:GPUs?|handles?|numbers?|status|errors?|failures?|traces?|blocks?|models?)",
     "is not a ..."),
    (r"to be had", "available"),
    (r"(?:would|could|will) mend it", "what to do"),
    (r"lets? go of", "release"),
    (r"(?:by )?the driver's word", "as the driver reports it"),
    (r"tells? the truth", "is correct"),
    (r"as (?:it|they|all) must be", "correct, or passed"),
]
# Names that the code has and readers do not know: docs/glossary.md has the word for each. In documents only; in
# `code` they are names.
NAMES = [
    (r"witness(?:es)?", "tracking"), (r"lanes?", "queue state"), (r"depots?", "central cache"),
    (r"shelf|shelves", "size bins"), (r"ghosts?", "stale mapping"), (r"purses?", "time budget"),
    (r"naps?", "sleep state"), (r"stillness", "quiesce"), (r"parcels?", "bounce buffer"),
    (r"twins?", "equivalence test"),
]
DOCUMENT = re.compile(r"(?:docs/(?:(?:design|develop)/)?)?[\w-]+\.md")
HEADER = re.compile(r"include/vram/(?:hpp/)?\w+\.(?:h|hpp)")
SOURCE = re.compile(r"(?:include|src|cli|tests|examples|bench)/.*\.(?:c|h|hpp|cpp)")
MADE = {"docs/api.md", "docs/files.md"}  # from headers and sources, by tools



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


def check_comments(path, text):
    """Lines of comments, or with a comment behind their code, that are too long."""
    lines, found = text.split("\n"), set()
    for match in tree.TOKEN.finditer(text):
        if match.group(0).startswith(("//", "/*")):
            first = tree.line_of(text, match.start())
            found |= set(range(first, first + match.group(0).count("\n") + 1))
    return [f"{path}:{number}: a comment of {len(lines[number - 1])} columns, more than {COMMENT_COLUMNS}"
            for number in sorted(found) if len(lines[number - 1]) > COMMENT_COLUMNS]


def check_file(root, path):
    text = tree.read(root, path)
    if HEADER.fullmatch(path):
        return list(check_phrases(path, prose_of_header(text), PHRASES))
    found = list(check_phrases(path, prose_of_document(text), PHRASES + NAMES))
    return found + list(check_columns(path, text))


def check(root):
    found = []
    for path in tree.files(root):
        if HEADER.fullmatch(path) or (DOCUMENT.fullmatch(path) and path not in MADE):
            found += check_file(root, path)
        if SOURCE.fullmatch(path):
            found += check_comments(path, tree.read(root, path))
    return found


CLEAN = {
    "README.md": "# Title\n\nMemory is freed in stream order. The file is `src/core/cache/queue_state.h`.\n\n"
                 "```c\nlane = for_want_of; /* for want of */\n```\n\n| " + "a " * 80 + "|\n",
    "docs/design/05.md": "Stale mappings (`ghost`) are unmapped later; none of them which are none of ours;\n"
                         "there is no error, and no handle is left.\n",
    "docs/api.md": "Freed in the time of a queue.\n",
    "traces/README.md": "for want of\n",
    "include/vram/pool.h": "/* Freed in stream order. */\nint lane; /* a lane */\n"
                           'static const char *text = "for want of";\n',
    "src/core/pool.c": "/* for want of memory */\n" + 'const char *text = "' + "long " * 30 + '";\n',
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
    ("instead of", {"docs/guide.md": "A picture in the\nplace of the table.\n"}),
    ("is not a", {"docs/guide.md": "A missing driver is no error.\n"}),
    ("is not a", {"include/vram/compute.h": "/* Devices that are no GPUs. */\nint x;\n"}),
    ("available", {"docs/guide.md": "No slot is to be had.\n"}),
    ("what to do", {"README.md": "It says what would mend it.\n"}),
    ("release", {"docs/guide.md": "The callback lets go of a block.\n"}),
    ("reports", {"docs/guide.md": "Free by the driver's word.\n"}),
    ("correct", {"docs/guide.md": "Each point tells the truth.\n"}),
    ("passed", {"docs/guide.md": "All is as it must be.\n"}),
    ("queue state", {"docs/design/05.md": "A lane keeps its queue.\n"}),
    ("time budget", {"CHANGELOG.md": "- The purse earns more.\n"}),
    ("stream order", {"include/vram/queue.h": "/*\n * Freed in the time\n * of its queue.\n */\nint x;\n"}),
    ("include/vram/queue.h:2: ", {"include/vram/queue.h": "int x;\nint y; // for want of memory\n"}),
    ("stream order", {"include/vram/hpp/objects.hpp": "/** Freed in the time of its queue. */\nint x;\n"}),
    ("src/core/pool.c:2: a comment of 102", {"src/core/pool.c": "int x;\n/* " + "word " * 19 + "w */\n"}),
    ("cli/main.c:1: a comment of 105", {"cli/main.c": "int x; // " + "word " * 19 + "\n"}),
    ("121 columns", {"docs/guide.md": "word " * 24 + "x\n"}),
]


if __name__ == "__main__":
    if sys.argv[1] == "--self-test":
        tree.finish(tree.self_test(check, CLEAN, VIOLATIONS))
    tree.finish(tree.report(check(sys.argv[1])))
