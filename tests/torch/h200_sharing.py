# SPDX-License-Identifier: Apache-2.0
"""The items of h200.py on torch.multiprocessing with CUDA tensors, and the processes that receive them.

Run as a program, h200_sharing.py COUNT is the sender of sending_in_namespaces.
"""
import json
import os
import random
import stat
import subprocess
import sys
import tempfile

from h200_kit import COMPUTES, MIB, expect, item, skip, start

UNSHARE = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child",
           "--mount-proc"]


def pattern(torch, size, number):
    """The bytes of a tensor, on the host."""
    return torch.arange(size, dtype=torch.int64).mul_(number + 3).to(torch.uint8)


def sizes_of(count):
    """From a byte to 8 MiB, most of them small."""
    rng = random.Random(5)
    return [int(2 ** rng.uniform(0, 23)) for _ in range(count)]


def shared_bytes(vt):
    return json.loads(vt.report(json=True))["shared_bytes"]


# ------------------------------------------------------------------------------- the receiver

def receive(orders, answers):
    """Answers each order. Nothing here enables vram.torch: the environment does."""
    import torch
    kept = []
    while True:
        order = orders.get()
        word, values = order[0], order[1:]
        if word == "end":
            break
        if word == "check":
            first, tensors = values
            wrong = [first + i for i, each in enumerate(tensors)
                     if not torch.equal(each.cpu(), pattern(torch, each.numel(), first + i))]
            answers.put(wrong)
        elif word == "keep":
            kept += values[0]
            answers.put(len(kept))
        elif word == "kept":
            answers.put([i for i, each in enumerate(kept)
                         if not torch.equal(each.cpu(), pattern(torch, each.numel(), i))])
        elif word == "write":
            for i, each in enumerate(values[0]):
                each.copy_(pattern(torch, each.numel(), 100 + i))
            torch.cuda.synchronize()
            answers.put(len(values[0]))
        elif word == "sum":
            answers.put(float(values[0].sum()))
        elif word == "drop":
            kept = []
            answers.put("dropped")
        elif word == "who":
            import vram.torch
            answers.put((vram.torch.enabled(), torch.cuda.get_allocator_backend()))
        del order, values
        tensors = each = None  # noqa: F841  (the last references)
        torch.cuda.ipc_collect()


class Receiver:
    """A process that receive() runs in."""

    def __init__(self, torch, executable=None):
        context = torch.multiprocessing.get_context("spawn")
        if executable:
            context.set_executable(executable)
        self.orders, self.answers = context.Queue(), context.Queue()
        self.process = context.Process(target=receive, args=(self.orders, self.answers), daemon=True)
        self.process.start()

    def ask(self, *order):
        self.orders.put(order)
        return self.answers.get(timeout=60)

    def end(self):
        self.orders.put(("end",))
        self.process.join(60)
        expect(self.process.exitcode == 0, f"the receiver's exit code is {self.process.exitcode}")


# One program of all kinds of processes. A spawned one imports it, and uses CUDA before it gets a tensor.
FAMILY = """
import os, subprocess, sys
import torch
import torch.multiprocessing as processes
ASK = "import os, torch; print(torch.cuda.get_allocator_backend(), torch.cuda.is_initialized())"

class Answers(torch.utils.data.Dataset):
    def __len__(self):
        return 2
    def __getitem__(self, index):
        return f"{torch.cuda.get_allocator_backend()} {torch.cuda.is_initialized()}"

def work(tensors, answers):
    tensor, parameter = tensors.get(), tensors.get()
    answers.put((torch.cuda.get_allocator_backend(), type(parameter).__name__, tensor.tolist(), parameter.tolist()))
    answers.get()

if __name__ == "__main__":
    import vram.torch
    vram.torch.enable()
    print("here", torch.cuda.get_allocator_backend(), torch.cuda.is_initialized())
    for workers in (2, 0):
        print("data", *torch.utils.data.DataLoader(Answers(), batch_size=None, num_workers=workers))
    for words in ((), ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=1", "--no-python", sys.executable)):
        said = subprocess.run([sys.executable, *words, "-c", ASK], stdout=subprocess.PIPE, check=True).stdout.decode()
        print("started", said.strip())
    context = processes.get_context("spawn")
    tensors, answers = context.Queue(), context.Queue()
    child = context.Process(target=work, args=(tensors, answers), daemon=True)
    child.start()
    kept = [torch.arange(5.0).cuda(), torch.nn.Parameter(torch.arange(3.0).cuda())]
    for each in kept:
        tensors.put(each)
    print("spawned", *answers.get(timeout=100))
    answers.put("end")
    child.join(60)
elif torch.cuda.is_available():
    torch.cuda.init()
"""
FAMILY_SAYS = """here vram False
data vram False vram False
data vram False vram False
started vram False
started vram False
spawned vram Parameter [0.0, 1.0, 2.0, 3.0, 4.0] [0.0, 1.0, 2.0]"""


# --------------------------------------------------------------------------------------- items

def exchange(torch, vt, count, executable=None):
    """Sends tensors, has them read and written there, and takes all memory back."""
    sizes = sizes_of(count)
    tensors = [pattern(torch, size, i).cuda() for i, size in enumerate(sizes)]
    receiver = Receiver(torch, executable)
    for first in range(0, count, 100):
        wrong = receiver.ask("check", first, tensors[first:first + 100])
        expect(not wrong, f"wrong contents of tensors {wrong[:10]}")
    expect(receiver.ask("write", tensors[:20]) == 20, "writing")
    wrong = [i for i in range(min(20, count)) if not torch.equal(tensors[i].cpu(), pattern(torch, sizes[i], 100 + i))]
    expect(not wrong, f"what the other process wrote is not here: {wrong}")
    expect(receiver.ask("who") == (True, "vram"), "the receiver uses another allocator")
    shared = shared_bytes(vt)
    receiver.end()
    del tensors
    torch.cuda.ipc_collect()
    expect(torch.cuda.memory_allocated() == 0, f"{torch.cuda.memory_allocated()} bytes are left")
    expect(shared_bytes(vt) == 0, f"{shared_bytes(vt)} bytes are still exported")
    return f"{count} tensors, {sum(sizes) // MIB} MiB, in {shared // MIB} MiB of exported memory"


@item(limit=150)
def children():
    """enable() holds in processes that are forked, started and spawned, and in torchrun's ranks."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "family.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(FAMILY)
        done = subprocess.run([sys.executable, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=140,
                              check=False)
    said, errors = done.stdout.decode(errors="replace").strip(), done.stderr.decode(errors="replace")
    expect((done.returncode, said) == (0, FAMILY_SAYS), f"{said}\n{errors[-3000:]}")
    return "libvram everywhere"


@item(limit=150)
def sending():
    """torch.multiprocessing: 1,000 tensors of mixed sizes, read and written by another process."""
    torch, vt = start()
    torch.cuda.init()
    return exchange(torch, vt, 1000 if COMPUTES else 200)


@item(limit=120)
def sending_lifetime():
    """What the sender deletes stays as it was as long as the receiver has it; then it is free."""
    torch, vt = start()
    tensors = [pattern(torch, size, i).cuda() for i, size in enumerate((1, 5000, 3 * MIB, 700, 9 * MIB))]
    view = tensors[2][MIB:2 * MIB]
    receiver = Receiver(torch)
    expect(receiver.ask("keep", tensors) == 5, "keeping")
    expect(receiver.ask("check", 2, [tensors[2]]) == [], "the same tensor, sent twice")
    held = torch.cuda.memory_allocated()
    del tensors
    torch.cuda.ipc_collect()
    expect(torch.cuda.memory_allocated() == held, "memory of a tensor that another process has was freed")
    others = [pattern(torch, size, 77).cuda() for size in (1, 5000, 3 * MIB, 700, 9 * MIB)]
    expect(receiver.ask("kept") == [], "the contents changed under the receiver")
    expect(bytes(view[:16].cpu().numpy()) == bytes(pattern(torch, 3 * MIB, 2)[MIB:MIB + 16].numpy()), "a view")
    receiver.ask("drop")
    receiver.ask("who")  # it has collected what it dropped
    del view, others
    torch.cuda.ipc_collect()
    left = torch.cuda.memory_allocated()
    expect(left == 0, f"{left} bytes are left after both sides dropped them")
    receiver.end()
    expect(shared_bytes(vt) == 0, "still exported")
    return "kept, then free"


@item()
def sending_off():
    """sharing="off", and memory of the driver with moving="off"."""
    torch, vt = start(sharing="off")
    x = torch.zeros(1000, device="cuda")
    try:
        x.untyped_storage()._share_cuda_()
    except RuntimeError as error:
        expect("VRAM_EXPORTABLE" in str(error), str(error))
        return str(error).splitlines()[0][:90]
    raise AssertionError("no error")


@item(limit=90)
def sending_in_order():
    """The receiver's work waits for what the sender has enqueued: events between processes."""
    if not COMPUTES:
        return skip("needs a device that computes")
    torch, vt = start()
    receiver = Receiver(torch)
    x = torch.zeros(4 * MIB, device="cuda")
    expect(receiver.ask("sum", x) == 0, "the first sum")
    for number in range(1, 6):
        torch.cuda._sleep(400_000_000)
        x.fill_(number)
        said = receiver.ask("sum", x)
        expect(said == number * x.numel(), f"the other process saw {said}, not {number * x.numel()}")
    receiver.end()
    return "five times, right behind a kernel that sleeps"


@item(limit=90)
def sending_from_segments():
    """moving="off": CUDA's own handles, and tensors of a MemPool."""
    if not COMPUTES:
        return skip("needs CUDA's own calls")
    torch, vt = start(moving="off")
    receiver = Receiver(torch)
    tensors = [pattern(torch, size, i).cuda() for i, size in enumerate((1, 5000, 3 * MIB))]
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        tensors.append(pattern(torch, 100000, 3).cuda())
    expect(receiver.ask("check", 0, tensors) == [], "contents")
    receiver.end()
    return "4 tensors"


@item(limit=120)
def sending_in_namespaces():
    """Sender and receiver in user, mount and pid namespaces of their own, as in two containers."""
    if subprocess.run(UNSHARE + ["true"], capture_output=True, check=False).returncode != 0:
        return skip("this machine does not allow namespaces")
    with tempfile.TemporaryDirectory() as folder:
        values = dict(os.environ, VRAM_SHARE_DIR=folder)
        done = subprocess.run(UNSHARE + [sys.executable, os.path.abspath(__file__), "1000" if COMPUTES else "50"],
                              env=values, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=110, check=False)
    text = done.stdout.decode(errors="replace").strip()
    expect(done.returncode == 0, text[-1500:])
    return text.splitlines()[-1]


def main():
    torch, vt = start()
    torch.cuda.init()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "python")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\nexec {' '.join(UNSHARE)} {sys.executable} \"$@\"\n")
        os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
        print(exchange(torch, vt, int(sys.argv[1]), path))
    return 0


if __name__ == "__main__":
    sys.exit(main())
