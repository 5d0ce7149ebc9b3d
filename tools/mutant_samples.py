# SPDX-License-Identifier: Apache-2.0
"""mutant_samples.py: which mutants are tried: drawn by a seed, or frozen as they were judged on an earlier tree."""
import difflib
import hashlib
import os
import sys

import mutants as changes
from mutant_build import MOST, git, read, stop

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
FROZEN = os.path.join("tests", "frozen", "mutants.tsv")
JUDGED_AT = "# judged at: "
MOST_LOST = 2  # of a folder and a sample


def rank(seed, key):
    """The order in which mutants are drawn. It depends on the mutant alone: other changes keep the sample."""
    return hashlib.sha256(f"{seed} {key}".encode()).digest()


def sources_of(root, path):
    full = os.path.join(root, path)
    if os.path.isfile(full):
        return [path]
    return sorted(os.path.relpath(os.path.join(folder, name), root) for folder, _, names in os.walk(full)
                  for name in names if name.endswith(".c"))


def draw(root, paths, sample, seed):
    """Numbered mutants, at most `sample` of each path (0: all); and how many there were."""
    drawn, seen, total = [], set(), 0
    for path in paths:
        every = [mutant for file in sources_of(root, path)
                 for mutant in changes.identify(changes.Source(file, read(os.path.join(root, file))).mutants())]
        every = [mutant for mutant in every if mutant["key"] not in seen]
        seen.update(mutant["key"] for mutant in every)
        total += len(every)
        every.sort(key=lambda mutant: rank(seed, mutant["key"]))
        for mutant in every[:sample or None]:
            mutant["path"] = path
            drawn.append(mutant)
    number_all(drawn)
    return drawn, total


def number_all(drawn):
    for number, mutant in enumerate(drawn, 1):
        mutant["number"] = number
    if len(drawn) >= MOST:
        stop(f"{len(drawn)} mutants are too many for one run, which can have {MOST - 1}: name fewer paths")


def judged(path):
    """{key: reason}. A line that begins a word is a key, the indented ones below it are the reason."""
    reasons, key = {}, None
    for line in read(path).split("\n") if os.path.exists(path) else []:
        if line.startswith("#") or not line.strip():
            continue
        if line[0] != " ":
            key = changes.code_of(line)
            reasons[key] = ""
        elif key:
            reasons[key] = (reasons[key] + " " + line.strip()).strip()
    return reasons


# ----------------------------------------------------------------------------------------------------- frozen samples

def frozen_read(path):
    """(samples: {name: (seed, mutants of each path, paths)}, {name: the commit they were judged at}, rows)"""
    samples, commits, rows = {}, {}, []
    for line in read(path).split("\n"):
        if line.startswith("# sample "):
            name, seed, sample, *paths = line.split()[2:]
            samples[name] = (int(seed), int(sample), paths)
        elif line.startswith(JUDGED_AT):
            words = line[len(JUDGED_AT):].split()
            commits[words[0]] = "".join(words[1:])  # none where git was not
        elif line and not line.startswith("#"):
            sample, result, key, why = (line + "\t").split("\t")[:4]
            rows.append({"sample": sample, "was": result, "key": key, "why": why})
    return samples, commits, rows


def chosen_samples(samples, options):
    for name in options.names:
        if name not in samples:
            stop(f"{FROZEN} has no sample '{name}'; it has {', '.join(samples)}")
    return {name: what for name, what in samples.items() if not options.names or name in options.names}


def path_of(file, paths):
    return next(path for path in paths if file == path or file.startswith(path + "/"))


def renamed_since(commit):
    """{name of a file then: its name now}"""
    said = git(ROOT, "diff", "-M40%", "--diff-filter=R", "--name-status", commit) if commit else ""
    return dict(line.split("\t")[1:] for line in said.split("\n") if line)


class Follower:
    """Finds the mutants of another commit in this tree."""

    def __init__(self, root, commit, roots):
        self.root, self.renamed, self.roots, self.files = root, renamed_since(commit), roots, {}

    def mutants_of(self, file):
        if file not in self.files:
            full = os.path.join(self.root, file)
            self.files[file] = changes.identify(changes.Source(file, read(full)).mutants()) if os.path.exists(full) \
                else []
        return self.files[file]

    def find(self, key):
        """(the same mutant or None, the nearest one or None): in its file, then the same line in another one."""
        file, rest = key.split(" | ", 1)
        now = self.renamed.get(file, file)
        mutants = self.mutants_of(now)
        for mutant in mutants:
            if mutant["key"] == f"{now} | {rest}":
                return mutant, None
        text, change = changes.parts(rest)
        best, nearest = 0.6, None
        for mutant in mutants:
            like = difflib.SequenceMatcher(None, text, mutant["text"]).ratio() if mutant["change"] == change else 0
            if like > best:
                best, nearest = like, mutant
        if best < 1 and len(text) > 20:
            for other in (file for path in self.roots for file in sources_of(self.root, path) if file != now):
                if text in read(os.path.join(self.root, other)):
                    nearest = next((m for m in self.mutants_of(other) if m["text"] == text and m["change"] == change),
                                   nearest)
        return None, nearest


UNNOTICED = ("survived", "not reached", "equivalent")


def fate(row):
    """What became of a frozen mutant."""
    if not row["same"] or row["same"]["result"] == "refused":
        return "gone"
    was, now = row["was"] not in UNNOTICED, row["same"]["result"] == "killed"
    if was and now:
        return "same" if row["was"].split()[0] in ("killed", row["same"]["by"].split()[0]) else "another test"
    lost = was and row["same"]["result"] != "equivalent"  # judged so since then, with a reason
    return "lost" if lost else "new" if now else "unnoticed"


def tell(rows, chosen):
    """Prints how the frozen mutants fare, and returns how many folders have lost too many."""
    fates = ("same", "another test", "lost", "gone", "new", "unnoticed")
    print("\n| sample | folder | " + " | ".join(fates) + " |\n" + "|---" * (2 + len(fates)) + "|")
    too_many = 0
    for name, (_, _, paths) in chosen.items():
        for path in paths:
            those = [fate(row) for row in rows
                     if row["sample"] == name and path_of(row["key"].split(" | ")[0], paths) == path]
            print(f"| {name} | {path} | " + " | ".join(str(those.count(what)) for what in fates) + " |")
            too_many += those.count("lost") > MOST_LOST
    for what in ("lost", "gone", "another test", "new"):
        those = [row for row in rows if fate(row) == what]
        if those:
            print(f"\n{what}:")
        for row in those:
            now = row["same"] or row["near"]
            said = f"{now['file']}:{now['line']} {now['result']} {now['by'] or ''}" if now else "nothing like it"
            nearest = f"nearest: {now['text']}: " if now and not row["same"] else ""
            print(f"{row['sample']}: {row['key']}: {row['was']}; {nearest}{said}")
    if too_many:
        print(f"\nmutate: more than {MOST_LOST} mutants lost in {too_many} folders", file=sys.stderr)
    return too_many
