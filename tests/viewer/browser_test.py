#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""browser_test.py VRAM TRAINING: the page of `vram report --html` in Chromium, by browser.mjs. Skipped without Node,
Chromium or playwright-core (tools/viewer installs it)."""
import os
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
    import pickle
    bad = "<img src=x onerror=document.title='run'></script><script>document.title='run'</script>"
    frames = [{"name": bad, "filename": bad + ".py", "line": 1}, {"name": "x" * 1000000, "filename": "y", "line": 2}]
    entries = [{"action": "alloc", "addr": 4096 * (i + 1), "size": 512, "stream": 0, "time_us": 10 + i, "frames": frames}
               for i in range(50)]
    entries.append({"action": "oom", "size": 1 << 40, "stream": 0, "time_us": 80, "frames": frames, "device_free": 5})
    snapshot = {"segments": [], "device_traces": [entries], "allocator_settings": {}}
    with open(path, "wb") as file:
        pickle.dump(snapshot, file, protocol=4)


def main():
    vram, training = sys.argv[1:3]
    node = shutil.which("node")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    modules = os.path.join(ROOT, "viewer", "node_modules")
    if not node or not chromium:
        return skip("node and chromium are needed")
    if not os.path.isdir(os.path.join(modules, "playwright-core")):
        return skip("run tools/viewer once")
    with tempfile.TemporaryDirectory() as folder:
        traces = {"training": os.path.join(folder, "training.vrt"), "hostile": os.path.join(folder, "hostile.pickle"),
                  "million": os.path.join(folder, "million.vrt")}
        settings = {"VRAM_TRACE": traces["training"], "VRAM_TRACK_STACKS": "1", "VRAM_TRACE_SAMPLE": "1ms"}
        subprocess.run([training, "60"], env={**os.environ, **settings}, check=True)
        hostile(traces["hostile"])
        gpt2 = os.path.join(ROOT, "traces", "gpt2_train_varlen.csv.gz")
        subprocess.run([vram, "replay", gpt2, "-b", "sim", "-p", "vram", "-r", "15"], check=True,
                       env={**os.environ, "VRAM_TRACE": traces["million"]}, stdout=subprocess.DEVNULL)
        second = os.path.join(folder, "<img src=x onerror=document.title='run'>.vrt")
        subprocess.run([training, "40"], env={**os.environ, **settings, "VRAM_TRACE": second}, check=True)
        pages = {name: ["report", trace] for name, trace in traces.items()}
        pages["ranks"] = ["report", traces["training"], second, traces["hostile"]]
        pages["policies"] = ["replay", second, "-b", "sim", "-p", "vram", "-p", "expandable", "-p", "caching"]
        for name, words in pages.items():
            subprocess.run([vram, *words, "--html", os.path.join(folder, name + ".html")], check=True,
                           stdout=subprocess.DEVNULL)
        # Modules are looked for beside a script, so it runs from a place that has them.
        with tempfile.TemporaryDirectory(dir=modules, prefix=".vram-browser-") as place:
            for name in ("browser.mjs", "browser_views.mjs"):
                shutil.copy(os.path.join(HERE, name), place)
            return subprocess.run([node, os.path.join(place, "browser.mjs"), chromium, folder], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
