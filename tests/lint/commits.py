#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""commits.py ROOT | --self-test: subjects of commits are `area: what changed`, of at most 72 characters and one topic.

Only commits after SINCE: many older ones break the rule, and history is not rewritten. Merges are not looked at, and a
revert may be as long as what git makes of a subject. Exit code 77 outside of a whole clone.
"""
import datetime
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import tree  # noqa: E402

SINCE = "2026-11-20T00:00:00+00:00"
LENGTH = 72
AREA = r"[a-z][\w./+-]*(?:, [a-z][\w./+-]*)*: "
REVERT = re.compile(r'(?:Revert|Reapply) "')


def check_subject(subject):
    if REVERT.match(subject):
        return
    if len(subject) > LENGTH:
        yield f"{len(subject)} characters, more than {LENGTH}"
    if not re.match(AREA + r"\S", subject):
        yield "no `area: ` in front"
    if re.search("; " + AREA, subject):
        yield "two topics: make two commits"
    if subject.endswith("."):
        yield "a period at its end"


def git(root, *words):
    done = subprocess.run(["git", "-C", root, *words], capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None


def subjects(root):
    """(commit, subject) of what is newer than SINCE; None outside of a whole clone."""
    if not os.path.exists(os.path.join(root, ".git")) or git(root, "rev-parse", "--is-shallow-repository") != "false\n":
        return None
    since = datetime.datetime.fromisoformat(SINCE).timestamp()
    lines = (git(root, "log", "--no-merges", "--format=%h\t%ct\t%s") or "").splitlines()
    parts = [line.split("\t", 2) for line in lines]
    return [(name, subject) for name, when, subject in parts if int(when) >= since]


def check(root):
    return [f"{name}: {subject}: {what}" for name, subject in subjects(root) or [] for what in check_subject(subject)]


def commit(root, subject, when):
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when}
    subprocess.run(["git", "-C", root, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--no-gpg-sign",
                    "--allow-empty", "-m", subject], check=True, env=environment)


GOOD = ["pool: one pass instead of two", "man, cli: what a signal does", "src/core: an end that waits",
        'Revert "' + "tests: " + "a" * 66 + '"', "docs: " + "a" * 66, "run: threads wait; none is left"]
VIOLATIONS = [("73 characters", "docs: " + "a" * 67), ("no `area: `", "Mend the pool"), ("no `area: `", "pool:"),
              ("two topics", "tree: layout; docs: lines"), ("a period", "pool: one pass.")]


def self_test():
    """Each planted subject is found in a history of its own, and none of the good or old ones."""
    missed = 0
    for expected, planted in [(None, "docs: none")] + VIOLATIONS:
        with tempfile.TemporaryDirectory() as root:
            subprocess.run(["git", "init", "-q", root], check=True)
            commit(root, "An old one " + "a" * 72 + ".", "2026-11-19T23:59:59Z")
            for subject in GOOD + [planted]:
                commit(root, subject, "2026-11-20T00:00:00Z")
            found = check(root)
        if not (len(found) == 1 and expected in found[0] if expected else not found):
            missed += 1
            print(f"self-test: expected {expected or 'no finding'}, got {found or 'no finding'}")
    print(f"self-test: {len(VIOLATIONS)} planted violations, {missed} missed")
    return missed


if __name__ == "__main__":
    if shutil.which("git") is None:
        print("skipped: no git")
        sys.exit(77)
    if sys.argv[1] == "--self-test":
        tree.finish(self_test())
    if subjects(sys.argv[1]) is None:
        print("skipped: not a whole clone")
        sys.exit(77)
    tree.finish(tree.report(check(sys.argv[1])))
