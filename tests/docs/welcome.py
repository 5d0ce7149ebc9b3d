#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""welcome.py SOURCE BUILD: what `make run` shows at the end of its build: in its order, with figures that are true, and
with commands that work."""
import gzip
import json
import os
import re
import subprocess
import sys


def said_by(source, command, **more):
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False, **more)
    if done.returncode != 0:
        sys.exit(f"{command}: exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr}")
    return done.stdout


def compare_order(said):
    marks = ("A tour of libvram", "\nBackends\n", "Simulated H200 (simulated", "Last, the picture", "held beyond that",
             "The times are", "What next?")
    places = [said.find(mark) for mark in marks]
    return [] if -1 not in places and places == sorted(places) else [
        f"parts are missing, or not in this order: {dict(zip(marks, places))}"]


def compare_figures(source, vram, said):
    """The sentence below the picture, with the picture and with later passes of the same replay."""
    with gzip.open(os.path.join(source, "traces", "gpt2_train_varlen.csv.gz"), "rt", encoding="utf-8") as stream:
        trace = stream.read()
    report = json.loads(said_by(source, [vram, "replay", "-", "-b", "sim", "-p", "vram", "-r", "4", "--json"],
                                input=trace, env={**os.environ, "VRAM_SIM": "profile=h200"}))
    shares = [100 * one["ns_per_op"] * one["operations"] / one["trace_ns"] for one in report["passes"]]
    seconds = report["passes"][0]["trace_ns"] / 1e9
    wanted = (f"in {seconds:.2f} s of training", f"of libvram's {shares[0]:.1f} %",
              f"takes {min(shares[1:]):.1f} to {max(shares[1:]):.1f} % of its time")
    plain = " ".join(said.split())
    return [f"it does not say \"{words}\"" for words in wanted + (f", {shares[0]:.1f} % took ",
                                                                  f"% of the program's own {seconds:.2f} s")
            if words not in plain]


def compare_commands(source, vram, said):
    """Three lines; each is tried, without the programs that are not there and without the time that a check takes."""
    lines = re.findall(r"(?m)^  build/vram (\w+)((?: \S+)*)   ", said[said.find("What next?"):])
    for verb, arguments in lines:
        words = {"check": ["--list"], "run": ["--help"]}.get(verb, arguments.split())
        said_by(source, [vram, verb, *words])
    return [] if [verb for verb, _ in lines] == ["check", "run", "estimate"] else [f"its commands are {lines}"]


def main(source, build):
    vram = os.path.join(build, "vram")
    said = said_by(source, [os.path.join(source, "tools", "welcome"), vram])
    found = compare_order(said) + compare_figures(source, vram, said) + compare_commands(source, vram, said)
    for one in found:
        print(f"tools/welcome: {one}")
    print(f"{len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
