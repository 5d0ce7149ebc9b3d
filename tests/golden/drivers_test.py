#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""drivers_test.py BINARY FAKES LAVAPIPE: the command on devices of a driver.

`vram bench` beside the driver's own calls, and `vram replay --verify` where the device compares. FAKES is the
folder of the tests' drivers, LAVAPIPE the script that goes before a command that needs Vulkan. What is printed is
compared as in transcripts: * stands for anything within a line, a line "..." for any number of lines.
"""
import difflib
import json
import os
import subprocess
import sys

sys.dont_write_bytecode = True
import transcripts  # noqa: E402

HEADING = "allocator           median ns          p10          p90        pairs/s    ratio\n"
OURS = "vram * *.* *.* *.* *\n"
ROW = "%s * *.* *.* *.* * *.*\n"  # all figures, and the ratio of ours to it
HOST = "mimalloc *\nmalloc *\n"
BEST = "\nvram takes * times as long as %s, the best comparable peer.\n"


def alloc(*arguments):
    return ["bench", "alloc", "--seconds", "0.02", *arguments]


REPLAY = ["replay", "--generate", "queues,steps=1,blocks=20,max=64K", "--backend", "cuda", "--verify"]
REPLAYED = "Replay on cuda:0, Fake GPU 0\n...\nevery block was filled and checked%s: 0 bytes differ\n"

# name, environment, arguments, exit code, stdout, stderr
CASES = [
    ("cuda", {}, alloc("--backend", "cuda"), 0,
     "alloc, pairs of 1.00 KiB, 1 thread, on cuda:0, Fake GPU 0\n\n" + HEADING + OURS + HOST +
     ROW % "naive" + ROW % "cudaMallocAsync" + ROW % "cudaMalloc" + BEST % "*", ""),
    ("cuda_handover", {}, alloc("--backend", "cuda", "--pattern", "handover", "--threads", "2", "--live", "10"), 0,
     "alloc, handover of 1.00 KiB, 2 threads, 10 live, on cuda:0, Fake GPU 0\n\n" + HEADING + OURS +
     ROW % "vram_empty" + ROW % "vram_one_thread" + HOST + ROW % "naive" +
     ROW % "cudaMallocAsync" + ROW % "cudaMalloc" + BEST % "*", ""),
    # Without a peer that does the same work malloc is the measure.
    ("cuda_no_memory", {"FAKE_CUDA_FAIL": "cuMemAlloc:1:2:forever"}, alloc("--backend", "cuda"), 0,
     "...\n" + OURS + HOST +
     "naive            cuMemAlloc: cuda error out of memory (CUDA_ERROR_OUT_OF_MEMORY,\n                 2)\n"
     "cudaMallocAsync  cuMemAllocAsync failed with CUDA error 2\n"
     "cudaMalloc       cuMemAlloc failed with CUDA error 2\n" + BEST % "malloc", ""),
    ("cuda_no_free", {"FAKE_CUDA_FAIL": "cuMemFree:1:1:forever", "FAKE_CUDA_MEMORY": str(64 << 30)},
     alloc("--backend", "cuda", "--pattern", "burst"), 0,
     "...\n"
     "cudaMallocAsync  cuMemFreeAsync failed with CUDA error 1\n"
     "cudaMalloc       cuMemFree failed with CUDA error 1\n" + BEST % "malloc", ""),
    ("opencl", {}, alloc("--backend", "opencl"), 0,
     "alloc, pairs of 1.00 KiB, 1 thread, on opencl:0, Fake OpenCL device\n\n" + HEADING + OURS + HOST + ROW % "naive" + ROW % "clCreateBuffer" + ROW % "clCreateBuffer_lazy" + BEST % "*", ""),
    ("opencl_handover", {}, alloc("--backend", "opencl", "--pattern", "handover", "--live", "10"), 0,
     "...\n" + ROW % "clCreateBuffer" + ROW % "clCreateBuffer_lazy" + BEST % "*", ""),
    ("opencl_no_buffers", {"SHIM_FAIL": "clCreateBuffer:1:-61:forever"}, alloc("--backend", "opencl"), 0,
     "...\n" + ROW % "naive" + "clCreateBuffer   clCreateBuffer failed with OpenCL error -61\n"
     "clCreateBuffer_lazy\n                 clCreateBuffer failed with OpenCL error -61\n" + BEST % "naive", ""),
    ("opencl_no_reads", {"SHIM_FAIL": "clEnqueueReadBuffer:1:-4:forever"}, alloc("--backend", "opencl"), 0,
     "...\nclCreateBuffer   clEnqueueReadBuffer failed with OpenCL error -4\n" + ROW % "clCreateBuffer_lazy" +
     BEST % "naive", ""),
    ("vulkan", {}, alloc("--backend", "vulkan"), 0,
     "alloc, pairs of 1.00 KiB, 1 thread, on vulkan:0, *\n\n" + HEADING + OURS + HOST +
     ROW % "naive" + ROW % "vkAllocateMemory" + BEST % "*", ""),
    ("vulkan_handover", {}, alloc("--backend", "vulkan", "--pattern", "handover", "--live", "10"), 0,
     "...\n" + ROW % "vkAllocateMemory" + BEST % "*", ""),
    # A loader with no functions but those that the backend asks for.
    ("vulkan_poor", {"VRAM_VULKAN_LIBRARY": "@FAKES@/libvulkan_shim.so"}, alloc("--backend", "vulkan"), 0,
     "...\n" + ROW % "naive" + "vkAllocateMemory not found: the Vulkan loader has no\n"
     "                 vkGetPhysicalDeviceMemoryProperties\n" + BEST % "naive", ""),
    ("replay_cuda", {}, REPLAY, 0, REPLAYED % " on the device", ""),
    # A driver that does not take the code: blocks are read back and compared by the host.
    ("replay_cuda_host", {"FAKE_CUDA_FAIL": "cuModuleLoadData:1:218:forever"}, REPLAY, 0, REPLAYED % "", ""),
    ("launch_cuda", {}, ["bench", "launch", "--backend", "cuda", "--size", "64K", "--seconds", "0.02"], 0,
     "launch with two buffers of 64.00 KiB, on cuda:0, Fake GPU 0\n\nway *\npooled *\nkept *\ndriver *\n\n"
     "Buffers of a pool add * us to a launch, the driver's own add * us.\n", ""),
    ("launch_no_kernel", {"FAKE_CUDA_FAIL": "cuModuleLoadData:1:218:forever"},
     ["bench", "launch", "--backend", "cuda"], 2, "",
     "vram: cannot load a kernel on this device: cuModuleLoadData: *(CUDA_ERROR_INVALID_PTX, 218)*\n"),
]


def start(binary, fakes, lavapipe, environment, arguments):
    env = {name: value for name, value in os.environ.items() if name in transcripts.PASSED_ON or name == "PATH"}
    env.update({name: value.replace("@FAKES@", fakes) for name, value in environment.items()})
    env.update(LC_ALL="C", MESA_SHADER_CACHE_DISABLE="true", OCL_ICD_VENDORS="/nonexistent",
               VRAM_CUDA_LIBRARY=os.path.join(fakes, "libcuda.so.1"),
               VRAM_OPENCL_LIBRARY=os.path.join(fakes, "libOpenCL.so.1"))
    before = [lavapipe] if "vulkan" in arguments else []
    return subprocess.run([*before, binary, *arguments], env=env, capture_output=True, text=True, timeout=120,
                          check=False)


def check_case(places, case):
    """What is wrong with one case; None where it was skipped."""
    _, environment, arguments, code, stdout, stderr = case
    result = start(*places, environment, arguments)
    if result.returncode == 77:
        print(result.stdout, end="")
        return None
    wrong = [] if result.returncode == code else [f"exit code {result.returncode}, expected {code}"]
    for name, pattern, actual in (("stdout", stdout, result.stdout), ("stderr", stderr, result.stderr)):
        expected = ["<...>" if line == "..." else line.replace("*", "<*>") for line in pattern.splitlines()]
        said = transcripts.aligned(expected, transcripts.written(actual.encode()))
        if said != expected:
            wrong.append("\n".join(difflib.unified_diff(expected, said, f"{name} expected", f"{name} now", lineterm="")))
    return wrong


def goals(places):
    """`vram bench copy` has goals on the device that they were set for: the same in the table and in JSON."""
    arguments = ["bench", "copy", "--backend", "cuda", "--size", "64K", "--seconds", "0.05"]
    h200 = {"FAKE_CUDA_NAME": "NVIDIA H200"}
    document = json.loads(start(*places, h200, [*arguments, "--json"]).stdout)
    printed = start(*places, h200, arguments).stdout
    head, _, table = printed.partition("goals, of one NVIDIA H200 ")
    rows = table.splitlines()[1:]
    assert " 1.00  cuMemcpyDtoH\n" in head, printed
    assert [goal["name"] for goal in document["goals"]] == [
        "ordinary memory over the lower bound, 64.00 KiB to the device",
        "page-locked memory over the driver, 64.00 KiB to the device",
        "ordinary memory over the lower bound, 64.00 KiB to the host",
        "page-locked memory over the driver, 64.00 KiB to the host",
        "a list in one call over one by one, 4.00 KiB each",
        "a pool's page-locked pair over the driver's, 64.00 KiB"], document["goals"]
    for goal, row in zip(document["goals"], rows, strict=True):
        assert goal["met"] == (goal["reached"] >= goal["goal"]), goal
        assert row.startswith(goal["name"] + " ") and row.endswith(f" {goal['goal']:.2f}"), row
    assert "goals" not in start(*places, {}, arguments).stdout


INSTEAD = "the backend's copies are used instead of the driver's: "
# What the driver does not do from its n-th call on, and what is said of it.
REFUSALS = (
    ("copy", "cuInit:2", INSTEAD + "cuInit failed with CUDA error 1"),
    ("copy", "cuDeviceGet:3", INSTEAD + "cuDeviceGet failed with CUDA error 1"),
    ("copy", "cuDevicePrimaryCtxRetain:2", INSTEAD + "cuDevicePrimaryCtxRetain failed with CUDA error 1"),
    ("copy", "cuCtxPushCurrent:2", "cannot open the device: cuCtxPushCurrent: "),
    ("copy", "cuMemcpyHtoDAsync:3", " cuMemcpyHtoDAsync failed with CUDA error 1\n"),
    ("copy", "cuMemcpyDtoHAsync:2", " cuMemcpyDtoHAsync failed with CUDA error 1\n"),
    ("copy", "cuMemHostAlloc:2", "\ndriver   cuMemHostAlloc failed with CUDA error 1\n"),
    ("copy", "cuMemFreeHost:1", "\ndriver   cuMemFreeHost failed with CUDA error 1\n"),
    ("copy", "cuStreamSynchronize:1", " cuStreamSynchronize failed with CUDA error 1\n"),
    ("alloc", "cuInit:2", "\ncudaMalloc       cuInit failed with CUDA error 1\n"),
    ("alloc", "cuDeviceGet:3", "\ncudaMalloc       cuDeviceGet failed with CUDA error 1\n"),
    ("alloc", "cuDevicePrimaryCtxRetain:2", "\ncudaMalloc       cuDevicePrimaryCtxRetain failed with CUDA error 1\n"),
    ("alloc", "cuCtxPushCurrent:2", "\ncudaMalloc       cuCtxSetCurrent failed with CUDA error 1\n"),
    ("alloc", "cuStreamCreateWithPriority:3", "\ncudaMalloc       cuStreamCreate failed with CUDA error 1\n"),
)


def refusals(places):
    """`vram bench` says what the driver does not do, and measures the rest."""
    for verb, call, said in REFUSALS:
        size = ["--size", "4K"] if verb == "copy" else []
        arguments = ["bench", verb, "--backend", "cuda", "--seconds", "0.01", *size]
        result = start(*places, {"FAKE_CUDA_FAIL": f"{call}:1:forever"}, arguments)
        assert result.returncode in (0, 2) and said in result.stdout + result.stderr, (verb, call, result)


def main(binary, fakes, lavapipe):
    places, failed, skipped = (binary, fakes, lavapipe), 0, 0
    for case in CASES:
        wrong = check_case(places, case)
        failed += bool(wrong)
        skipped += wrong is None
        if wrong:
            print(f"FAILED {case[0]}", *wrong, sep="\n")
    for test in (goals, refusals):
        try:
            test(places)
        except AssertionError as error:
            failed += 1
            print(f"FAILED {test.__name__}: {error}")
    print(f"{len(CASES) + 2 - failed - skipped} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
