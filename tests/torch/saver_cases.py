# SPDX-License-Identifier: Apache-2.0
"""vram.torch.memory_saver, as cases of adapter_test.py: contents decide. No kernel is needed."""
import os
import stat
import subprocess
import sys
import tempfile

MIB = 1 << 20


def start():
    import h200_items
    torch, vt = h200_items.start()
    from vram.torch import memory_saver
    return h200_items, torch, vt, memory_saver.torch_memory_saver


def pattern(torch, size, seed):
    return torch.arange(size, dtype=torch.int64).mul(7).add(seed).remainder(251).to(torch.uint8)


def put(torch, size, seed):
    """A tensor on the device, and what is in it."""
    expected = pattern(torch, size, seed)
    made = torch.empty(size, dtype=torch.uint8, device="cuda")
    made.copy_(expected)
    return made, expected


def reserved(torch):
    return torch.cuda.memory_reserved()


def saver():
    """Regions, tags and what they release: every byte of a tag, and nothing of others."""
    h, torch, vt, saver = start()
    saver.hook_mode = "torch"
    near, _ = put(torch, 1000, 1)
    with saver.region("weights", enable_cpu_backup=True):
        w, w_expected = put(torch, 21 * MIB + 513, 2)
        tiny, tiny_expected = put(torch, 700, 3)
        with saver.disable():
            other, other_expected = put(torch, 8 * MIB, 4)
        with saver.region("a/b", enable_cpu_backup=True):
            inner, inner_expected = put(torch, 3 * MIB, 5)
    with saver.region("cache"):
        c, _ = put(torch, 20_000_000, 6)
    with saver.region("a"):
        a, a_expected = put(torch, 30 * MIB, 7)
    addresses, before = [x.data_ptr() for x in (w, tiny, c, inner)], reserved(torch)
    saver.pause("a")
    h.expect(before - reserved(torch) == 30 * MIB, f"{before - reserved(torch)} bytes of a")
    h.expect(torch.equal(inner.cpu(), inner_expected), "the tag a/b is none below a")
    saver.resume("a")
    saver.pause("weights")
    h.expect(before - reserved(torch) == 22 * MIB + 2 * MIB, f"{before - reserved(torch)} bytes of weights")
    saver.pause("nobody")
    saver.pause()  # what is not asleep yet
    h.expect(reserved(torch) <= before - 90 * MIB, f"{reserved(torch)} of {before}")
    h.expect(torch.equal(other.cpu(), other_expected), "disable")
    unrelated, _ = put(torch, 20_000_000, 99)
    saver.resume("cache")
    saver.resume()
    saver.resume()
    h.expect([x.data_ptr() for x in (w, tiny, c, inner)] == addresses and reserved(torch) >= before, "awake")
    for kept, expected in ((w, w_expected), (tiny, tiny_expected), (inner, inner_expected)):
        h.expect(torch.equal(kept.cpu(), expected), "kept")
    h.expect(not torch.equal(c[:1000].cpu(), pattern(torch, 1000, 6)), "dropped to the first byte")
    with saver.region("weights"):  # the same tag without a backup, as in the package
        d, _ = put(torch, 4 * MIB, 8)
    saver.pause("weights")
    with saver.region("weights"):  # memory of its own: what is free of the tag is asleep
        fresh, fresh_expected = put(torch, MIB, 9)
    h.expect(torch.equal(fresh.cpu(), fresh_expected), "made while the tag is paused")
    saver.resume("weights")
    h.expect(torch.equal(w.cpu(), w_expected) and torch.equal(fresh.cpu(), fresh_expected), "kept, and new")
    del unrelated, a_expected
    return f"{len(addresses)} regions"


def saver_backups():
    """get_cpu_backup, retained and not, page-locked and not."""
    h, torch, vt, saver = start()
    h.expect(saver.retain_cpu_backup is False, "retain_cpu_backup")
    for backend in ("mmap", "pinned", None):
        with saver.region(enable_cpu_backup=True, cpu_backup_backend=backend):
            x, expected = put(torch, 5 * MIB, 1)
            typed = torch.empty(10, 20, 30, device="cuda")
            typed.copy_(typed_expected := torch.rand(10, 20, 30))
        saver.pause()
        h.expect(torch.equal(saver.get_cpu_backup(typed), typed_expected), "typed")
        h.expect(torch.equal(saver.get_cpu_backup(x[4097:]), expected[4097:]), "a part")
        saver.resume()
        h.expect(saver.get_cpu_backup(x) is None and torch.equal(x.cpu(), expected), "released")
        del x, typed
    for backend in ("mmap", "pinned"):
        with saver.region("kept", enable_cpu_backup=True, cpu_backup_backend=backend):
            x, expected = put(torch, 3 * MIB, 2)
        saver.retain_cpu_backup = True
        places = []
        for turn in range(3):
            x.copy_(expected := pattern(torch, 3 * MIB, turn))
            saver.pause("kept")
            view = saver.get_cpu_backup(x, zero_copy=True)
            places.append(view.data_ptr())
            h.expect(torch.equal(view, expected), f"turn {turn}")
            saver.resume("kept")
            h.expect(torch.equal(x.cpu(), expected) and saver.get_cpu_backup(x) is not None, f"turn {turn}")
        pages = [place.pages for memory in saver._of("kept") if memory.kind == backend
                 for place in memory.places.values()]
        h.expect(len(set(places)) == 1 and all(p.locked == (backend == "pinned") for p in pages), f"{places} {backend}")
        saver.retain_cpu_backup = False
        h.expect(torch.equal(saver.get_cpu_backup(x), expected), "still there")
        saver.pause("kept")
        saver.resume("kept")
        h.expect(saver.get_cpu_backup(x) is None and torch.equal(view, expected), "released; a view stays")
        del x, pages
    from vram.torch import adapter, backup
    with saver.region("kept", enable_cpu_backup=True):
        x, expected = put(torch, 3 * MIB, 9)
    copy, backup.copy = backup.copy, lambda *_: adapter._check(backup.BUSY)  # nothing is asleep without a copy
    h.raises(vt.VramTorchError, lambda: saver.pause("kept"))
    backup.copy = copy
    h.expect(saver.get_cpu_backup(x) is None and torch.equal(x.cpu(), expected), "a pause that failed")
    saver.pause("kept")
    saver.resume("kept")
    h.expect(torch.equal(x.cpu(), expected), "and once more")
    with saver.region("plain"):
        y = torch.empty(MIB, device="cuda")
    saver.pause("plain")
    h.raises(vt.VramTorchError, lambda: saver.get_cpu_backup(y), "without a backup")
    saver.resume("plain")
    h.raises(vt.VramTorchError, lambda: saver.get_cpu_backup(torch.empty(9, device="cuda")), "no region")
    h.raises(AssertionError, lambda: saver.get_cpu_backup(torch.empty(9)))
    h.raises(AssertionError, lambda: saver.get_cpu_backup(torch.empty(9, 9, device="cuda").t()))
    return "kept, retained, released"


def saver_frees():
    """Memory that is freed while it is paused, and backups of memory that is gone."""
    h, torch, vt, saver = start()
    import gc
    saver.retain_cpu_backup = True
    for paused in (False, True):
        with saver.region("gone", enable_cpu_backup=True):
            x, _ = put(torch, 4 * MIB, 1)
        saver.pause("gone")
        if not paused:
            saver.resume("gone")
        h.expect(any(memory.places for memory in saver._of("gone")), "there is a backup")
        pool = saver._impl._mem_pools.pop(("gone", True, False, "pinned", 0))
        with saver._impl._with_region_config(tag="gone", enable_cpu_backup=True, cpu_backup_backend="pinned"):
            del x, pool
            gc.collect()
            torch.cuda.empty_cache()
        h.expect(not any(memory.places for memory in saver._of("gone")), "a backup of nothing")
    with saver.region("gone", enable_cpu_backup=True):
        y, expected = put(torch, 4 * MIB, 2)
    saver.pause("gone")  # although what was freed before was never resumed
    saver.resume("gone")
    h.expect(torch.equal(y.cpu(), expected), "kept")
    del y
    saver._mem_pools.clear()
    torch.cuda.empty_cache()
    h.expect(reserved(torch) == 0, f"{reserved(torch)} bytes are left")
    return "nothing is left"


def saver_files():
    """enable_disk_backup: private files, as many bytes every time, gone at the end; errors name the file."""
    h, torch, vt, saver = start()
    os.environ["TMS_DISK_BACKUP_CHUNK_MB"] = "1"
    with tempfile.TemporaryDirectory() as top:
        folder = os.path.join(top, "made")
        saver.set_disk_backup_dir(folder)
        with saver.region(enable_disk_backup=True):
            big, expected = put(torch, 13 * MIB + 12345, 1)
            small, small_expected = put(torch, 7, 2)
        sizes = set()
        for _ in range(3):
            saver.pause()
            paths = [os.path.join(folder, name) for name in os.listdir(folder)]
            sizes.add(sum(os.path.getsize(path) for path in paths))
            h.expect(len(paths) == 2 and all(stat.S_IMODE(os.stat(path).st_mode) == 0o600 for path in paths), str(paths))
            h.expect(saver.get_cpu_backup(big) is None, "not on the host")
            saver.resume()
            h.expect(torch.equal(big.cpu(), expected) and torch.equal(small.cpu(), small_expected), "contents")
        h.expect(len(sizes) == 1 and sizes.pop() >= 13 * MIB, "bytes")
        saver.pause()
        path = max(paths, key=os.path.getsize)
        os.rename(path, path + ".old")
        h.raises(vt.VramTorchError, saver.resume, path)
        os.symlink(path + ".old", path)
        h.raises(vt.VramTorchError, saver.resume, path)
        os.replace(path + ".old", path)
        saver.resume()  # once more
        h.expect(torch.equal(big.cpu(), expected) and torch.equal(small.cpu(), small_expected), "after failures")
        saver.set_disk_backup_dir(os.path.join(top, "away"))
        os.rmdir(os.path.join(top, "away"))
        with saver.region("new", enable_disk_backup=True):
            new, new_expected = put(torch, MIB, 3)
        h.raises(vt.VramTorchError, lambda: saver.pause("new"), "away")
        h.expect(torch.equal(new.cpu(), new_expected), "a pause that failed changes nothing")
        code = ("import torch, vram.torch\nvram.torch.enable()\nfrom vram.torch.memory_saver import torch_memory_saver as s\n"
                f"s.set_disk_backup_dir({top + '/child'!r})\nwith s.region(enable_disk_backup=True):\n"
                "  x = torch.zeros(5, device='cuda')\ns.pause()\nimport os\n"
                f"assert len(os.listdir({top + '/child'!r})) == 1\nif os.fork() == 0:\n  import sys\n  sys.exit()\nos.wait()\n"
                f"assert len(os.listdir({top + '/child'!r})) == 1")
        subprocess.run([sys.executable, "-c", code], check=True)
        h.expect(os.listdir(top + "/child") == [], "files of a process that ended")
    return "written, read, removed"


def saver_graph():
    """A graph's own memory is released and comes back, with a backup or without."""
    h, torch, vt, saver = start()
    stream, kept = torch.cuda.Stream(), {}
    for tag, backup in (("graph", False), ("kept", True)):
        graph = torch.cuda.CUDAGraph()
        with saver.cuda_graph(graph, stream=stream, tag=tag, enable_cpu_backup=backup):
            kept[tag] = (torch.empty(40 * MIB, dtype=torch.uint8, device="cuda"), graph)
    expected = pattern(torch, 40 * MIB, 5)
    kept["kept"][0].copy_(expected)
    before = reserved(torch)
    for tag, (_, graph) in kept.items():
        saver.pause(tag)
        h.expect(before - reserved(torch) == 40 * MIB, f"{before - reserved(torch)} bytes of {tag}")
        saver.resume(tag)
        graph.replay()
    h.expect(torch.equal(kept["kept"][0].cpu(), expected), "contents")
    with torch.cuda.graph(torch.cuda.CUDAGraph(), stream=stream):
        for tag in kept:
            h.raises(vt.VramTorchError, lambda: saver.pause(tag), "graph is being captured")
    saver.pause()
    saver.resume()
    h.expect(torch.equal(kept["kept"][0].cpu(), expected), "contents after pauses that were refused")
    return "released and back"


def saver_settings():
    """Settings and wrong arguments."""
    h, torch, vt, saver = start()
    saver.hook_mode = "torch"
    saver.hook_mode = "preload"
    h.raises(ValueError, lambda: setattr(saver, "hook_mode", "other"), "hook_mode")
    h.raises(ValueError, lambda: saver.region(cpu_backup_backend="mmap").__enter__(), "requires enable_cpu_backup")
    h.raises(ValueError, lambda: saver.region(enable_cpu_backup=True, cpu_backup_backend="x").__enter__(), "pinned, mmap")
    h.raises(AssertionError, lambda: saver.region(enable_cpu_backup=True, enable_disk_backup=True).__enter__(), "exclusive")
    h.raises(AssertionError, lambda: saver.disable().__enter__(), "tms is active")
    h.raises(NotImplementedError, lambda: saver.memory_margin_bytes)
    h.raises(ValueError, lambda: setattr(saver, "memory_margin_bytes", -1))
    with saver.region("x", enable_cpu_backup=True, cpu_backup_backend="mmap"):
        h.expect(saver.cdll.tms_get_current_tag() == b"x" and saver.cdll.tms_get_cpu_backup_backend() == b"mmap", "in it")
        first = torch.empty(4 * MIB, dtype=torch.uint8, device="cuda")
    h.expect(saver.cdll.tms_get_current_tag() == b"default" and not saver.cdll.tms_get_interesting_region(), "after it")
    h.expect(saver.cdll.tms_get_cpu_backup_backend() == b"pinned", "after it")
    h.raises(AssertionError, lambda: setattr(saver, "hook_mode", "torch"), "after initialization")
    saver.memory_margin_bytes = torch.cuda.mem_get_info()[1] - reserved(torch) - 64 * MIB  # nobody else has memory here
    with saver.region("x"):
        h.raises(torch.OutOfMemoryError, lambda: torch.empty(128 * MIB, dtype=torch.uint8, device="cuda"))
        second = torch.empty(16 * MIB, dtype=torch.uint8, device="cuda")
    saver.memory_margin_bytes = 0
    with saver.region("x"):
        third = torch.empty(128 * MIB, dtype=torch.uint8, device="cuda")
    del first, second, third
    return "checked"


STAND_IN = """
import multiprocessing, os, subprocess, sys

def child(queue):
    import torch, torch_memory_saver
    from torch_memory_saver import torch_memory_saver as saver
    import vram.torch
    x = torch.arange(3 << 20, dtype=torch.int32).cuda()
    saver.pause()
    queue.put((vram.torch.mode(), torch.cuda.get_allocator_backend(), torch.cuda.memory_reserved() >> 20,
               saver.get_cpu_backup(x).sum().item() == (3 << 20) * ((3 << 20) - 1) // 2))
    saver.resume()
    assert torch.equal(x.cpu(), torch.arange(3 << 20, dtype=torch.int32))

if __name__ == "__main__":
    if sys.argv[1] == "install":
        import vram.torch.memory_saver
        vram.torch.memory_saver.install()
    import torch_memory_saver, torch, vram.torch
    from torch_memory_saver.utils import get_binary_path_from_package
    assert vram.torch.enabled() and os.path.exists(get_binary_path_from_package("any"))
    os.environ.update(TMS_INIT_ENABLE="1", TMS_INIT_ENABLE_CPU_BACKUP="1", TMS_INIT_CPU_BACKUP_BACKEND="mmap")
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=child, args=(queue,))
    process.start()
    print(queue.get(timeout=100))
    process.join()
    assert process.exitcode == 0
    with torch_memory_saver.configure_subprocess():
        code = "import torch_memory_saver, os; print(os.path.basename(os.path.dirname(os.path.dirname(torch_memory_saver.__file__))))"
        print(subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True).stdout.decode().strip())
"""


def saver_stand_in():
    """import torch_memory_saver, after install() and by PYTHONPATH, and in children; TMS_INIT_*."""
    import h200_items as h
    from vram.torch import memory_saver
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "program.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(STAND_IN)
        for how in ("install", "path"):
            paths = os.environ["PYTHONPATH"] if how == "install" else memory_saver.PACKAGE  # it finds vram itself
            done = subprocess.run([sys.executable, path, how], env=dict(os.environ, PYTHONPATH=paths), check=False,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            said = done.stdout.decode().strip().splitlines()
            h.expect(done.returncode == 0 and said[-2:] == ["('extension', 'vram', 0, True)", "stand_in"],
                     f"{how}: {done.stdout.decode()}")
    return "found"


def saver_devices():
    """Two devices: a tag is paused wherever it has memory."""
    h, torch, vt, saver = start()
    made = []
    for device in range(2):
        with torch.cuda.device(device), saver.region("both", enable_cpu_backup=True):
            made.append(put(torch, 6 * MIB, device))
    before = [torch.cuda.memory_reserved(device) for device in range(2)]
    saver.pause("both")
    h.expect([before[d] - torch.cuda.memory_reserved(d) for d in range(2)] == [20 * MIB] * 2, "released on both")
    saver.resume()
    h.expect(all(torch.equal(x.cpu(), expected) for x, expected in made) and torch.cuda.current_device() == 0, "kept")
    return "both"
