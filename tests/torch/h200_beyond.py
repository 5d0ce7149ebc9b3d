# SPDX-License-Identifier: Apache-2.0
"""The items of h200.py on what vram.torch adds and how it is enabled."""
import os
import subprocess
import sys
import tempfile
import warnings

from h200_kit import MIB, consistent, expect, item, raises, start


# ------------------------------------------------------------------------------------ beyond

@item()
def tags():
    torch, vt = start()
    model = torch.nn.Linear(2048, 2048)
    with vt.tag("weights"):
        model.cuda()
    expect(vt.tag_bytes("weights")["used"] >= 2048 * 2048 * 4, str(vt.tag_bytes("weights")))
    with vt.tag("activations"):
        loss = model(torch.ones(512, 2048, device="cuda")).square().sum()
    before = vt.tag_bytes("gradients")["used"]
    with vt.tag("gradients"):
        loss.backward()  # on a thread of autograd's
    made = vt.tag_bytes("gradients")["used"] - before
    expect(made >= 2048 * 2048 * 4, f"autograd's thread put {made} bytes under the tag")
    x = torch.empty(MIB, device="cuda")
    expect(vt.tag_bytes("activations")["used"] > 0 and "requested" in vt.report(), "the report")
    del x
    return f"weights {vt.tag_bytes('weights')['used'] // MIB} MiB, gradients {made // MIB} MiB from autograd's thread"


@item()
def sleeping():
    torch, vt = start()
    with vt.tag("weights"):
        w = torch.arange(256 * MIB // 4, device="cuda")
    other = torch.ones(1000, device="cuda")
    torch.cuda.synchronize()
    free = torch.cuda.mem_get_info()[0]
    address = w.data_ptr()
    vt.sleep("weights", keep="host")
    given = torch.cuda.mem_get_info()[0] - free
    expect(given >= 200 * MIB, f"only {given // MIB} MiB came back")
    expect(float(other.sum()) == 1000, "the rest goes on")
    vt.wake("weights")
    expect(w.data_ptr() == address and torch.equal(w, torch.arange(256 * MIB // 4, device="cuda")), "contents")
    return f"{given // MIB} MiB given back and taken again"


@item()
def sleeping_under_work():
    """Work of streams that never allocated is done before its tensors sleep."""
    torch, vt = start()
    sides = [torch.cuda.Stream() for _ in range(3)]
    with vt.tag("weights"):
        kept = [torch.zeros(5 * MIB, dtype=torch.int32, device="cuda") for _ in sides]
    torch.cuda.synchronize()
    for turn in range(1, 9):
        for side, each in zip(sides, kept):
            with torch.cuda.stream(side):
                torch.cuda._sleep(30_000_000)
                each.fill_(turn)
        vt.sleep("weights")
        vt.wake("weights")
        for each in kept:
            expect(bool((each == turn).all()), f"turn {turn}: {int(each[0])}")
    return "8 turns on 3 streams"


@item()
def sleeping_graph():
    """A captured graph works after its weights and its own memory have slept."""
    torch, vt = start()
    with vt.tag("weights"):
        w = torch.randn(1024, 1024, device="cuda")
    x = torch.ones(1024, 1024, device="cuda")
    (x @ w).sum()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        out = x @ w
    captured.replay()
    expected = out.clone()
    torch.cuda.synchronize()
    vt.sleep(keep="host")
    vt.wake()
    captured.replay()
    expect(torch.equal(out, expected), "the graph's result")
    return "the same result"


@item()
def moving_off():
    torch, vt = start(moving="off")
    x = [torch.ones(n * 100000 + 1, device="cuda") for n in range(30)]
    expect(all(float(t.sum()) == len(t) for t in x), "contents")
    consistent(torch)
    raises(vt.VramTorchError, lambda: vt.sleep())
    del x
    torch.cuda.empty_cache()
    return f"{torch.cuda.memory_reserved()} bytes after empty_cache"


@item()
def too_late():
    import torch
    import vram.torch
    torch.ones(1, device="cuda")
    return raises(vram.torch.VramTorchError, vram.torch.enable, "too late")[:80]


@item(limit=90)
def as_module():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "program.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write("import sys, torch\nx = torch.ones(1000, device='cuda')\n"
                       "print(torch.cuda.get_allocator_backend(), int(x.sum()), *sys.argv[1:])\nsys.exit(7)\n")
        done = subprocess.run([sys.executable, "-m", "vram.torch", path, "a", "--b"], stdout=subprocess.PIPE,
                              timeout=80, check=False)
    expect(done.returncode == 7 and done.stdout.decode().strip() == "vram 1000 a --b", f"{done}")
    return done.stdout.decode().strip()


@item(limit=200)
def eight_at_once():
    """Eight processes that find no adapter compile it once."""
    with tempfile.TemporaryDirectory() as folder:
        values = dict(os.environ, LIBVRAM_TORCH_CACHE=folder, CXX=os.path.join(folder, "cxx"))
        with open(values["CXX"], "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\ncase \" $* \" in *' -shared '*) echo x >>{folder}/links;; esac\nexec c++ \"$@\"\n")
        os.chmod(values["CXX"], 0o755)
        code = "import torch, vram.torch; vram.torch.enable(); print(vram.torch.mode())"
        workers = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=values) for _ in range(8)]
        said = [worker.communicate(timeout=190)[0].decode().strip() for worker in workers]
        with open(os.path.join(folder, "links"), encoding="utf-8") as file:
            links = len(file.read().split())
    expect(said == ["extension"] * 8 and links == 1, f"{said}, {links} links")
    return "compiled once"


@item()
def plugin():
    """Without a compiler: the C plug-in, whose failed allocation raises."""
    import torch
    import vram.torch
    os.environ["LIBVRAM_TORCH_CACHE"] = tempfile.mkdtemp()
    os.environ["PATH"] = "/nonexistent"
    os.environ.pop("CXX", None)
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        vram.torch.enable()
    expect(vram.torch.mode() == "plugin", "the extension is in use")
    x = torch.ones(1000, device="cuda")
    expect(float(x.sum()) == 1000, "contents")
    try:
        torch.empty(1 << 42, dtype=torch.int8, device="cuda")
        raise AssertionError("no error")
    except (MemoryError, RuntimeError) as error:
        text = f"{type(error).__name__}: {error}"
    expect(float(x.sum()) == 1000, "a kernel after the error")
    raises(vram.torch.VramTorchError, vram.torch.report)
    return text[:80]
