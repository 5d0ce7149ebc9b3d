#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""browser_test.py VRAM TOOLS: the page of `vram report --html` in Chromium, by browser.mjs. Skipped without Node,
Chromium or playwright-core (tools/viewer installs it)."""
import os
import pickle
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
SKIPPED = 77


def skip(reason):
    print(f"skipped: {reason}")
    return SKIPPED


def hostile(path):
    """Names with HTML, in a trace of PyTorch's own format."""
    bad = "<img src=x onerror=document.title='run'></script><script>document.title='run'</script>"
    frames = [{"name": bad, "filename": bad + ".py", "line": 1}, {"name": "x" * 1000000, "filename": "y", "line": 2}]
    entries = [{"action": "alloc", "addr": 4096 * (i + 1), "size": 512, "stream": 0, "time_us": 10 + i, "frames": frames}
               for i in range(50)]
    entries.append({"action": "oom", "size": 1 << 40, "stream": 0, "time_us": 80, "frames": frames, "device_free": 5})
    snapshot = {"segments": [], "device_traces": [entries], "allocator_settings": {}}
    with open(path, "wb") as file:
        pickle.dump(snapshot, file, protocol=4)


def torch(path):
    """A training of PyTorch's whose peak lasts 12 us of 2 s, with 14 call sites, wrappers, and a refusal by its limit."""
    packages = "/opt/venv/lib/python3.11/site-packages"
    step = [{"name": "wrapper", "filename": "mine.py", "line": 3}, {"name": "<module>", "filename": "train.py", "line": 2}]
    called = [{"name": "_call_impl", "filename": f"{packages}/torch/nn/module.py", "line": 9},
              {"name": "wrapper", "filename": f"{packages}/transformers/generic.py", "line": 5}]
    forward = [{"name": "forward", "filename": f"{packages}/torch/nn/linear.py", "line": 7}, *called, *step]
    asks = [{"name": "asks", "filename": "train.py", "line": 8}]
    entries = [{"action": "segment_alloc", "addr": 1 << 40, "size": 256 << 20, "stream": 0, "time_us": 0, "frames": []}]

    def event(action, at, block, frames, mib=1):
        entries.append({"action": action, "addr": (1 << 40) + (block << 21), "size": mib << 20, "stream": 0, "time_us": at,
                        "frames": frames})

    def free(at, block):
        event("free_requested", at, block, asks)
        event("free_completed", at, block, asks)
    for i in range(14): # the last has no colour of its own
        event("alloc", i, i, [{"name": f"backward{i}", "filename": "train.py", "line": 40 + i}, *step], 2 if i < 11 else 1)
    for i in range(100):
        event("alloc", 500000 + i * 1000, 20 + i % 2, forward)
        free(500500 + i * 1000, 20 + i % 2)
    for i in range(60):
        event("alloc", 1000000 + i // 10, 30 + i, forward, 2)
    for i in range(60):
        free(1000006 + i // 10, 30 + i)
    entries.append({"action": "oom", "size": 1 << 30, "stream": 0, "time_us": 1500000, "frames": asks, "device_free": 70 << 30})
    free(2000000, 0)
    with open(path, "wb") as file:
        pickle.dump({"segments": [], "device_traces": [entries], "allocator_settings": {}}, file, protocol=4)


def main():
    vram, tools = sys.argv[1:3]
    node = shutil.which("node")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    modules = os.path.join(ROOT, "viewer", "node_modules")
    if not node or not chromium:
        return skip("node and chromium are needed")
    if not os.path.isdir(os.path.join(modules, "playwright-core")):
        return skip("run tools/viewer once")
    with tempfile.TemporaryDirectory() as folder:
        traces = {"training": os.path.join(folder, "training.vrt"), "hostile": os.path.join(folder, "hostile.pickle"),
                  "million": os.path.join(folder, "million.vrt"), "torch": os.path.join(folder, "torch.pickle"),
                  "ends": os.path.join(folder, "ends.csv")}
        settings = {"VRAM_TRACE": traces["training"], "VRAM_TRACK_STACKS": "1", "VRAM_TRACE_SAMPLE": "1ms"}
        subprocess.run([tools, "viewer_training", "60"], env={**os.environ, **settings}, check=True)
        hostile(traces["hostile"])
        torch(traces["torch"])
        with open(traces["ends"], "w", encoding="utf-8") as file: # at its peak
            file.write("op,id,bytes,stream,t_us\n" + "".join(f"a,{i},{1 << 20},1,{i}\n" for i in range(1000)))
        gpt2 = os.path.join(ROOT, "traces", "gpt2_train_varlen.csv.gz")
        subprocess.run([vram, "replay", gpt2, "-b", "sim", "-p", "vram", "-r", "15"], check=True,
                       env={**os.environ, "VRAM_TRACE": traces["million"]}, stdout=subprocess.DEVNULL)
        second = os.path.join(folder, "<img src=x onerror=document.title='run'>.vrt")
        subprocess.run([tools, "viewer_training", "40"], env={**os.environ, **settings, "VRAM_TRACE": second}, check=True)
        pages = {name: ["report", trace] for name, trace in traces.items()}
        pages["ranks"] = ["report", traces["training"], second, traces["hostile"]]
        pages["policies"] = ["replay", second, "-b", "sim", "-p", "vram", "-p", "expandable", "-p", "caching"]
        for name, words in pages.items():
            subprocess.run([vram, *words, "--html", os.path.join(folder, name + ".html")], check=True,
                           stdout=subprocess.DEVNULL)
        # Modules are looked for beside a script, so it runs from a place that has them.
        with tempfile.TemporaryDirectory(dir=modules, prefix=".vram-browser-") as place:
            for name in ("browser.mjs", "browser_reading.mjs", "browser_views.mjs"):
                shutil.copy(os.path.join(HERE, name), place)
            return subprocess.run([node, os.path.join(place, "browser.mjs"), chromium, folder], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
