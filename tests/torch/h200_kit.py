# SPDX-License-Identifier: Apache-2.0
"""What the items of h200.py share."""
import collections
import os

Item = collections.namedtuple("Item", "call limit alone")
ITEMS = {}
MIB = 1 << 20


def item(limit=60, alone=False):
    def register(call):
        ITEMS[call.__name__] = Item(call, limit, alone)
        return call
    return register


def start(**options):
    """PyTorch with vram.torch."""
    import torch
    import vram.torch
    vram.torch.enable(**options)
    if vram.torch.mode() != "extension":
        raise AssertionError("the extension is not in use")
    return torch, vram.torch


def older_than(torch, minor):
    """Whether this PyTorch is older than 2.MINOR."""
    return tuple(map(int, torch.__version__.split(".")[:2])) < (2, minor)


def expect(condition, text):
    if not condition:
        raise AssertionError(text)


COMPUTES = "FAKE_CUDA_MEMORY" not in os.environ  # adapter_test.py runs some items where kernels do nothing


def works(tensor, what):
    """A kernel still runs; `tensor` is of ones."""
    expect(not COMPUTES or float(tensor.sum()) == tensor.numel(), what)


def ones(torch, count):
    return torch.ones(count, device="cuda") if COMPUTES else torch.empty(count, device="cuda")


def raises(kind, call, text=""):
    try:
        call()
    except kind as error:
        expect(text in str(error), f"{text!r} is not in {str(error)[:300]!r}")
        return str(error)
    raise AssertionError(f"no {kind}")


def consistent(torch):
    """As PyTorch's own test of its allocator does: the sums of the snapshot are the statistics."""
    sums = collections.Counter()
    for segment in torch.cuda.memory_snapshot():
        pool = segment["segment_type"] + "_pool"
        for kind in ("all", pool):
            sums[f"allocated_bytes.{kind}.current"] += segment["allocated_size"]
            sums[f"reserved_bytes.{kind}.current"] += segment["total_size"]
            sums[f"active_bytes.{kind}.current"] += segment["active_size"]
            sums[f"requested_bytes.{kind}.current"] += segment["requested_size"]
        expect(sum(b["size"] for b in segment["blocks"]) == segment["total_size"], "blocks do not fill a segment")
        for block in segment["blocks"]:
            for kind in ("all", pool):
                sums[f"allocation.{kind}.current"] += block["state"] == "active_allocated"
                sums[f"active.{kind}.current"] += block["state"].startswith("active_")
    stats = torch.cuda.memory_stats()
    wrong = {key: (value, stats[key]) for key, value in sums.items() if stats[key] != value}
    expect(not wrong, f"snapshot and statistics differ: {wrong}")
