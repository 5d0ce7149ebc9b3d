# SPDX-License-Identifier: Apache-2.0
"""The item of h200.py for NCCL: a process group of one rank does the same natively and on vram.torch."""
import json

from h200_kit import expect, item, python

PROGRAM = """
import json, os, sys, tempfile
os.environ["TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK"] = "0"
import torch
import torch.distributed as dist
if sys.argv[1] == "vram":
    import vram.torch
    vram.torch.enable()
meet = tempfile.mkdtemp()
dist.init_process_group("nccl", init_method="file://" + meet + "/meet", rank=0, world_size=1,
                        device_id=torch.device("cuda", 0))
backend = dist.group.WORLD._get_backend(torch.device("cuda"))
said = {}

def step(function):
    try:
        said[function.__name__] = function()
    except Exception as error:
        said[function.__name__] = type(error).__name__ + ": " + str(error).splitlines()[0][:120]
    torch.cuda.synchronize()

def filled(count, value):
    return torch.full((count,), float(value), device="cuda")

@step
def plain():
    x = filled(1 << 20, 3)
    dist.all_reduce(x)
    return float(x.sum())

@step
def streams():
    total = 0.0
    for turn in range(50):
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            x = filled(1 << 18, turn)
            work = dist.all_reduce(x, async_op=True)
        work.wait()
        total += float(x.sum())
    return total

def registered(pool):
    with torch.cuda.use_mem_pool(pool):
        x = filled(5 << 20, 2)
    backend.register_mem_pool(pool)
    dist.all_reduce(x)
    with torch.cuda.use_mem_pool(pool):
        y = filled(30 << 20, 5)
    dist.all_reduce(y)
    total = float(x.sum()) + float(y.sum())
    torch.cuda.synchronize()
    backend.deregister_mem_pool(pool)
    del x, y
    return total

@step
def register_mem_pool():
    return registered(torch.cuda.MemPool())

@step
def pool_of_nccl_memory():
    return registered(torch.cuda.MemPool(backend.mem_allocator))

@step
def graphed():
    x = filled(1 << 20, 1)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        dist.all_reduce(x)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x * 2
        dist.all_reduce(y)
        z = y + 1
    for _ in range(3):
        x.add_(1)
        graph.replay()
    return float(z.sum())

dist.destroy_process_group()
print(json.dumps(said))
"""


def told(mode):
    return json.loads(python(PROGRAM, mode).splitlines()[-1])


@item(limit=170)
def nccl():
    """Collectives, registered MemPools, NCCL's own memory and a graph with a collective. What the process refuses
    natively it may refuse on libvram."""
    native, ours = told("native"), told("vram")
    expect(native == ours, f"natively {native}, on libvram {ours}")
    return json.dumps(ours)
