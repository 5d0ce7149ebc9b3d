#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gate.py calls|instructions [OPTION]...: counts what the library does, and fails when it does more than golden.json says.

No clock is read, so neither the machine nor its load matters.

  calls          Driver calls of the six traces in four passes on the simulated clock, memory held over memory asked
                 for after one pass and after four, and after 25 passes of one trace on a device that lags, and the
                 calls of a cold start, of a vast block and of a program that empties its cache. They are the same on every machine; 3 % more calls fail, and so does a ratio
                 that is 0.002 larger.
  instructions   What callgrind counts for a hit, a free, a miss, a tagged and a tracked pair, and pairs in bursts, of
                 mixed sizes, freed by another thread, and spread over 512 queues, over what it counts for a fixed loop (cost_probe.c). One
                 golden per architecture and compiler; 5 % more fails. Skipped (exit code 77) without valgrind, and
                 where valgrind cannot run the library.

  --vram FILE --probe FILE --cuda FILE   the command, tests/tools, and the tests' CUDA driver if there is one
  --compiler TEXT                        its name, version and flags
  --update                               writes the figures of today into golden.json
  --planted                              counts with a regression planted, and fails when nothing is found

Who accepts new figures by --update on one architecture cannot count on the others. golden.json therefore numbers the
engine, and each golden of instructions has the number of the engine it was counted on. An update that changes one of
them by more than its room raises the number, and the goldens of other architectures and compilers are older then. With
an older golden, or none, the figures are printed and the test passes.
"""
import argparse
import glob
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
GOLDEN = os.path.join(HERE, "golden.json")
ROOM = {"calls": 1.03, "instructions": 1.05}
RATIO_ROOM = 0.002
PASSES = 4
MANY = {"burst": 64, "mixed": 64, "handover": 64, "spread": 64}  # cost_probe.c: as many times the operations of the others
LASTING, LASTING_PASSES = "resnet50_multires", 25  # the trace that creeps most
# A regression of each kind: blocks rounded to powers of two hold more memory, and tracking takes its time.
PLANTED = {"calls": {"VRAM_POWER_OF_TWO": "on"}, "instructions": {"VRAM_TRACKING": "on"}}


def start(command, extra):
    """Runs it with no other option of the library than `extra`. The thread of the live page would be counted, too."""
    env = {name: text for name, text in os.environ.items() if not name.startswith(("VRAM_", "FAKE_"))}
    return subprocess.run(command, env={**env, "VRAM_LIVE": "off", **extra}, capture_output=True, text=True, timeout=300, check=False)


def run(command, extra):
    """The same for a command that must succeed; its output."""
    done = start(command, extra)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


# ------------------------------------------------------------------ counting

def replay(options, traces, passes, simulated, extra):
    said = run([options.vram, "replay", "--json", "--backend", "sim", "--policy", "vram", "--repeat", str(passes),
                *traces], {"VRAM_SIM": simulated, **extra})
    return json.loads(said)["passes"]


def count_calls(options, extra):
    traces = sorted(glob.glob(os.path.join(ROOT, "traces", "*.csv.gz")))
    figures = {}
    for one in replay(options, traces, PASSES, "profile=h200", extra):
        name = one["trace"]
        calls = f"{name}: driver calls"
        figures[calls] = figures.get(calls, 0) + one["driver_calls"]["total"]
        if one["repeat"] in (1, PASSES):
            figures[f"{name}: ratio after pass {one['repeat']}"] = round(one["ratio"], 5)
    lasting = [os.path.join(ROOT, "traces", LASTING + ".csv.gz")]
    one = replay(options, lasting, LASTING_PASSES, "profile=h200,lag=300", extra)[-1]
    figures[f"{LASTING}: ratio after pass {LASTING_PASSES} with a lag"] = round(one["ratio"], 5)
    figures["cold start: operations of a simulated device"] = int(run([options.probe, "cost_probe", "--cold"], extra))
    vast, emptied = run([options.probe, "cost_probe", "--emptied"], extra).split()
    figures["a block of 4 GiB: operations of a simulated device"] = int(vast)
    figures["a cache that is emptied: operations of a simulated device"] = int(emptied)
    if options.cuda:
        figures["cold start: calls of CUDA"] = int(run([options.probe, "cost_probe", "--cold", options.cuda], extra))
    return figures


def read_dumps(folder):
    """The count of each probe, from the dumps that callgrind wrote before each function probe_*."""
    dumps = []
    for path in glob.glob(os.path.join(folder, "out.*")):
        with open(path, encoding="utf-8") as stream:
            text = stream.read()
        before = re.search(r"--dump-before=probe_(\w+)", text)
        dumps.append((int(re.search(r"^part: (\d+)", text, re.M)[1]), before[1] if before else "",
                      int(re.search(r"^totals: (\d+)", text, re.M)[1])))
    counts, probe = {}, ""
    for _, name, count in sorted(dumps):
        if name == "end":
            counts[probe] = count  # the last round's
        probe = name
    return counts


def valgrind_absence(options):
    """Why instructions cannot be counted here; None: they can."""
    if not shutil.which("valgrind"):
        return "valgrind is not installed"
    run([options.probe, "cost_probe"], {})  # that it works without is no matter of valgrind's
    done = start(["valgrind", "--quiet", "--tool=none", options.probe, "cost_probe"], {})
    return f"valgrind cannot run it: {done.stderr.strip()}" if done.returncode else None


def count_instructions(options, extra):
    with tempfile.TemporaryDirectory() as folder:
        run(["valgrind", "--quiet", "--tool=callgrind", f"--callgrind-out-file={folder}/out",
             "--dump-before=probe_*", options.probe, "cost_probe"], extra)
        counts = read_dumps(folder)
    loop = counts.pop("calibration")
    return {name: round(count / loop / MANY.get(name, 1), 4) for name, count in counts.items()}


# ----------------------------------------------------------------- comparing

def most(name, kept, room):
    """The largest figure that is not worse. A ratio has little room: its part above 1 is what counts."""
    return kept + RATIO_ROOM if ": ratio after" in name else kept * room


def compare(figures, golden, room):
    """The names of the figures that are too large, or that one side lacks."""
    return [name for name in sorted({*figures, *golden})
            if name not in figures or name not in golden or figures[name] > most(name, golden[name], room)]


def show(figures, golden, worse):
    for name in sorted({*figures, *golden}):
        found, kept = figures.get(name), golden.get(name)
        if found != kept:
            change = f"{found / kept - 1:+.2%}" if found and kept else "new" if found else "missing"
            print(f"{'WORSE' if name in worse else 'changed'}: {name}: {found}, golden {kept} ({change})")


def self_check(room):
    """The comparison itself can fail: a little more than the room does, a little less does not."""
    ratio = "t: ratio after pass 1"
    kept = {"a": 1000, "b": 2.0, ratio: 1.01}
    trials = [({**kept, "b": 2 * room - 0.001}, []), ({**kept, "b": 2 * room + 0.001}, ["b"]),
              ({**kept, ratio: 1.0119}, []), ({**kept, ratio: 1.0121}, [ratio]),
              ({**kept, "a": 10}, []), ({"a": 1000, ratio: 1.0}, ["b"]), ({**kept, "c": 1}, ["c"])]
    for figures, expected in trials:
        assert compare(figures, kept, room) == expected, f"{figures} against {kept}"


def read_golden():
    with open(GOLDEN, encoding="utf-8") as stream:
        return json.load(stream)


def kept_figures(golden, options):
    """The golden to compare with; None: there is none, or it is of an older engine."""
    if options.kind == "calls":
        cuda = "cold start: calls of CUDA"
        return {name: kept for name, kept in golden["calls"].items() if options.cuda or name != cuda}
    entry = golden["instructions"].get(options.compiler)
    if not entry or entry["engine"] != golden["engine"]:
        print(f"{options.compiler}: the golden is {'of an older engine' if entry else 'missing'}")
        return None
    return entry["figures"]


def update(golden, options, figures, kept):
    if options.kind == "calls":
        golden["calls"] = figures
    else:
        room = ROOM[options.kind]
        moved = kept and any(not kept.get(name, 0) / room <= found <= kept.get(name, 0) * room
                             for name, found in figures.items())
        golden["engine"] += 1 if moved else 0
        golden["instructions"][options.compiler] = {"engine": golden["engine"], "figures": figures}
    with open(GOLDEN, "w", encoding="utf-8") as stream:
        json.dump(golden, stream, indent=2, sort_keys=True)
        stream.write("\n")


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=sorted(ROOM))
    for name in ("vram", "probe", "cuda", "compiler"):
        parser.add_argument(f"--{name}", default="")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--planted", action="store_true")
    options = parser.parse_args()
    options.compiler = f"{platform.machine()} {options.compiler}".strip()
    return options


def main():
    options = parse()
    room = ROOM[options.kind]
    absence = valgrind_absence(options) if options.kind == "instructions" else None
    if absence:
        print(f"skipped: {absence}")
        return 77
    golden = read_golden()
    kept = kept_figures(golden, options)
    count = count_calls if options.kind == "calls" else count_instructions
    figures = count(options, PLANTED[options.kind] if options.planted else {})
    if options.planted:
        self_check(room)
        kept = kept or count(options, {})
    worse = compare(figures, kept, room) if kept else []
    if options.update:
        update(golden, options, figures, kept)
    elif kept is None:
        print(f"today's figures: {json.dumps(figures, indent=2, sort_keys=True)}")
    else:
        show(figures, kept, worse)
    print(f"{len(figures)} figures, {len(worse)} of them worse")
    if options.planted:
        return 0 if worse else 1
    if worse and not options.update:
        print("where that is meant: cmake --build BUILD --target perf_goldens")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
