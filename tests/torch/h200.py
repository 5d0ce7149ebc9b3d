#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""h200.py [--items A,B] [--seconds N] [--jobs N] [--json FILE]: vram.torch on a GPU, one line for each item.

Each item runs in a process of its own, because some end a CUDA context. Items that measure time run alone, after the
others. Exit code 0 when all passed, 1 when one failed, 2 for misuse. The items themselves are in h200_items.py.
"""
import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)
import h200_items  # noqa: E402  (imports nothing of PyTorch by itself)


def environment():
    values = dict(os.environ)
    values["PYTHONPATH"] = os.pathsep.join(
        [os.path.join(ROOT, "bindings", "python")] + [values[name] for name in ("PYTHONPATH",) if values.get(name)])
    values.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    return values


def run(name, limit):
    """(name, state, what it said, seconds)"""
    start = time.monotonic()
    try:
        done = subprocess.run([sys.executable, os.path.join(HERE, "h200_items.py"), name], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=limit, env=environment(),
                              check=False)
        text, errors, code = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"), done.returncode
    except subprocess.TimeoutExpired as error:
        text, errors, code = "", ((error.stdout or b"") + (error.stderr or b"")).decode(errors="replace"), "timeout"
    lines = [line for line in text.splitlines() if line.startswith(("ok: ", "skipped: "))]
    seconds = time.monotonic() - start
    if code == 0 and lines:
        state, said = lines[-1].split(": ", 1)
        return name, state, said, seconds, ""
    return name, "FAILED", f"exit code {code}", seconds, (text[-1500:] + errors[-3000:]).strip()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--items")
    parser.add_argument("--seconds", type=float, default=290)
    parser.add_argument("--jobs", type=int, default=6)
    parser.add_argument("--json")
    options = parser.parse_args()
    names = [name for name in h200_items.ITEMS if not options.items or name in options.items.split(",")]
    if not names:
        print(f"h200.py: no such item; there are {', '.join(h200_items.ITEMS)}", file=sys.stderr)
        return 2
    start, results, failures = time.monotonic(), [], []

    def show(result):
        name, state, said, seconds, details = result
        results.append({"item": name, "state": state, "said": said, "seconds": round(seconds, 1)})
        print(f"{name:24} {state:8} {said[:100]}  ({seconds:.1f} s)", flush=True)
        if details:
            failures.append(f"---- {name}\n{details}")

    def limit(name):
        return max(1.0, min(h200_items.ITEMS[name].limit, options.seconds - (time.monotonic() - start)))

    show(run("build", limit("build")))  # the others find what it compiled
    alone = [name for name in names if h200_items.ITEMS[name].alone and name != "build"]
    others = [name for name in names if name not in alone and name != "build"]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for done in concurrent.futures.as_completed([pool.submit(lambda n: run(n, limit(n)), name) for name in others]):
            show(done.result())
    for name in alone:
        show(run(name, limit(name)))
    print("\n".join(failures))
    failed = [result["item"] for result in results if result["state"] == "FAILED"]
    print(f"{len(results) - len(failed)} of {len(results)} items passed in {time.monotonic() - start:.0f} s"
          + (f"; FAILED: {', '.join(failed)}" if failed else ""))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"items": results}, file, indent=1)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
