# SPDX-License-Identifier: Apache-2.0
"""The items of h200.py that compare allocators in processes of their own: PyTorch and CuPy on one pool, and the time of
torch.empty under each of PyTorch's allocators."""
import json
import os
import statistics
import subprocess
import sys

from h200_kit import MIB, expect, item, python, skip

# ---------------------------------------------------------------------------------- one pool

TURNS = """
import json, random, sys
import torch
together = sys.argv[1] == "one"
if together:
    import vram.torch
    vram.torch.enable()
import cupy
if together:
    import vram.cupy
    vram.cupy.enable()

class Watch:
    live = peak = reserved = 0
    def change(self, bytes):
        self.live += (bytes + 511) // 512 * 512 if bytes > 0 else -((511 - bytes) // 512 * 512)
        self.peak = max(self.peak, self.live)
        now = torch.cuda.memory_reserved() + (0 if together else cupy.get_default_memory_pool().total_bytes())
        self.reserved = max(self.reserved, now)

watch, rng = Watch(), random.Random(11)
make = (lambda size: torch.full((size,), 3, dtype=torch.uint8, device="cuda"),
        lambda size: cupy.full(size, 3, dtype="uint8"))
for turn in range(20):
    blocks, left = [], int(rng.uniform(2.0, 3.0) * 2**30)
    while left > 0:
        size = min(left, int(2 ** rng.uniform(12, 28.5)))
        blocks.append(make[turn % 2](size))
        watch.change(size)
        left -= size
    for block in blocks[::97]:
        assert int(block[-1]) == 3 and int(block.sum()) == 3 * block.size if turn % 2 else int(block[-1]) == 3
    for block in blocks:
        watch.change(-int(block.size if turn % 2 else block.numel()))
    del block, blocks
torch.cuda.synchronize()
if together:
    watch.reserved = max(watch.reserved, torch.cuda.max_memory_reserved())
print(json.dumps({"live": watch.peak, "reserved": watch.reserved}))
"""


def run_turns(kind):
    said = json.loads(python(TURNS, kind).splitlines()[-1])
    return said["reserved"] / said["live"], said["live"]


@item(limit=170)
def one_pool():
    """PyTorch and CuPy in turns: what one frees serves the other."""
    import importlib.util
    if importlib.util.find_spec("cupy") is None:
        return skip("no CuPy")
    ours, live = run_turns("one")
    separate, _ = run_turns("separate")
    text = f"reserved over the live peak of both ({live // MIB} MiB): {ours:.4f} in one pool, {separate:.4f} in two"
    expect(ours <= 1.02, text)
    return text


# --------------------------------------------------------------------------------------- time

EMPTY = """
import sys, time
import torch
if sys.argv[1].startswith("vram"):
    import vram.torch
    vram.torch.enable(sharing="off" if sys.argv[1].endswith("private") else "on")
elif sys.argv[1] == "plugin":
    import os
    torch.cuda.memory.change_current_allocator(torch.cuda.memory.CUDAPluggableAllocator(
        os.environ["LIBVRAM_TORCH_PLUGIN"], "vram_torch_alloc", "vram_torch_free"))
sizes = [512, 65536, 3 << 20]
def once(size, count=20000):
    begin = time.perf_counter_ns()
    for _ in range(count):
        x = torch.empty(size, device="cuda", dtype=torch.uint8)
        del x
    return (time.perf_counter_ns() - begin) / count
for size in sizes * 2:
    once(size)
print("ready", flush=True)
for line in sys.stdin:
    print(*(once(size) for size in sizes), flush=True)
"""
KINDS = ("native", "expandable", "vram", "vram-private", *(["plugin"] if os.environ.get("LIBVRAM_TORCH_PLUGIN") else []))
ROUNDS = 5   # processes of each kind
TURNS_EACH = 5


def empty_round():
    """The medians of one process of each kind, which take turns: {kind: [ns for each size]}."""
    children = {}
    for kind in KINDS:
        config = "expandable_segments:True" if kind == "expandable" else ""
        values = dict(os.environ, PYTORCH_CUDA_ALLOC_CONF=config, PYTORCH_ALLOC_CONF=config)
        children[kind] = subprocess.Popen([sys.executable, "-c", EMPTY, kind], stdin=subprocess.PIPE,
                                          stdout=subprocess.PIPE, text=True, env=values)
    for kind, child in children.items():
        expect(child.stdout.readline().strip() == "ready", f"the process with {kind} did not start")
    rows = {kind: [] for kind in KINDS}
    for turn in range(TURNS_EACH):
        for kind in KINDS if turn % 2 else KINDS[::-1]:
            children[kind].stdin.write("go\n")
            children[kind].stdin.flush()
            rows[kind].append([float(word) for word in children[kind].stdout.readline().split()])
    for child in children.values():
        child.stdin.close()
        child.wait(timeout=30)
    return {kind: [statistics.median(column) for column in zip(*rows[kind])] for kind in KINDS}


@item(limit=280, alone=True)
def time_of_empty():
    """torch.empty and del under each allocator: five processes of each, in turns; medians and the spread of processes."""
    rounds = [empty_round() for _ in range(ROUNDS)]
    lines, worst = [], 0.0
    for column, size in enumerate(("512 B", "64 KiB", "3 MiB")):
        cells = []
        for kind in KINDS:
            values = sorted(each[kind][column] for each in rounds)
            cells.append(f"{kind} {statistics.median(values):.0f} ns ({values[0]:.0f} to {values[-1]:.0f})")
        shares = sorted(each["vram"][column] / each["native"][column] for each in rounds)
        share = statistics.median(shares)
        worst = max(worst, share)
        lines.append(f"{size}: {', '.join(cells)}; vram over native {share:.3f} ({shares[0]:.3f} to {shares[-1]:.3f})")
    print("\n".join(lines))
    expect(worst <= 1.03, "; ".join(lines))
    return "; ".join(lines)
