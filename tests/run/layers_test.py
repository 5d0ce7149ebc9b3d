#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""layers_test.py BUILD opencl|vulkan: `vram run` with programs of OpenCL and Vulkan, on PoCL and lavapipe."""
import json
import os
import re
import subprocess
import sys
import tempfile

BUILD, API = os.path.abspath(sys.argv[1]), sys.argv[2]
VRAM = os.path.join(BUILD, "vram")
PROGRAM = (os.path.join(BUILD, "tests", "run_program"), "layers")
EXAMPLE = os.path.join(BUILD, "examples", {"opencl": "16_opencl_kernel", "vulkan": "17_vulkan_kernel"}[API])
VALIDATION = "/usr/share/vulkan/explicit_layer.d"
MIB = 1 << 20
ENVIRONMENT = dict(os.environ, NO_COLOR="1", LC_ALL="C")


def started(*words, **more):
    return subprocess.run(words, env=dict(ENVIRONMENT, **more), text=True, capture_output=True, timeout=120,
                          check=False)


def watched(folder, *words, code=0, **more):
    """The program's own output, and the report."""
    result = started(VRAM, "run", "--json", "-o", f"{folder}/run.vrt", *words, **more)
    assert result.returncode == code, (words, result)
    return result.stderr, json.loads(result.stdout)


def one(document):
    assert len(document["processes"]) == 1, document
    return document["processes"][0]


def test_example(folder):
    """A program does the same with the layer, and all its memory is seen."""
    alone = started(EXAMPLE)
    assert alone.returncode == 0, alone
    said, document = watched(folder, "--", EXAMPLE)
    assert said == alone.stdout + alone.stderr, (said, alone)
    process = one(document)
    assert process["devices"][0]["api"] == API and process["devices"][0]["name"], process
    assert process["allocs"] == process["frees"] > 0 and process["unknown_frees"] == 0, process
    assert document["never_freed_blocks"] == 0 and document[f"{API}_without_layer"] == 0, document
    text = started(VRAM, "report", f"{folder}/run.vrt")
    assert text.returncode == 0 and "live        0 B in 0 blocks at the end" in text.stdout, text


def test_leak(folder):
    said, document = watched(folder, "--leaks", "--", *PROGRAM, API)
    assert (document["never_freed_blocks"], document["never_freed_bytes"]) == (2, 6 * MIB), document
    groups = [group for group in one(document)["device_memory"]["groups"] if group["never_freed_blocks"]]
    assert {group["library"] for group in groups} == {"run_program"}, groups
    assert all("leave_" in group["frames"][0] for group in groups), groups
    assert one(document)["device_memory"]["peak_bytes"] == 7 * MIB, document
    assert re.match(r"total \d+\n$", said), said


def test_limit(folder):
    """The device looks smaller, and memory runs out as the driver would say it."""
    said, document = watched(folder, "--limit", "7M", "--", *PROGRAM, API)
    assert said == f"total {7 * MIB}\n" and one(document)["limit_refusals"] == 0, (said, document)
    said, document = watched(folder, "--limit", "5M", "--", *PROGRAM, API, code=3)
    call = {"opencl": "clCreateBuffer: -4", "vulkan": "vkAllocateMemory: -2"}[API]
    assert said == f"total {5 * MIB}\n{call}\n", said
    assert one(document)["limit_refusals"] == 1 and one(document)["device_memory"]["peak_bytes"] == 3 * MIB, document


def test_other_layers(folder):
    """Layers and paths that the user set stay."""
    if API == "opencl":
        own = {"OPENCL_LAYERS": os.path.join(BUILD, "libvram-run.so")}  # listed twice: counted once
        assert one(watched(folder, "--", *PROGRAM, API, **own)[1])["allocs"] == 3
        return
    for path in ({"VK_LAYER_PATH": VALIDATION}, {"VK_ADD_LAYER_PATH": "/nonexistent"}):
        said, document = watched(folder, "--", *PROGRAM, API, VK_INSTANCE_LAYERS="VK_LAYER_KHRONOS_validation", **path)
        assert one(document)["allocs"] == 3, document
        if os.path.isdir(VALIDATION) and "VK_LAYER_PATH" in path:  # it tells of the two blocks, and of nothing else
            messages = set(re.findall(r"VUID-[\w-]+", said))
            assert messages <= {"VUID-vkDestroyDevice-device-00378", "VUID-vkDestroyDevice-device-05137"}, said


def test_again(folder):
    """A loader that is unloaded and loaded again loads the layer again."""
    if API == "opencl":
        process = one(watched(folder, "--", *PROGRAM, "again")[1])
        assert (process["allocs"], process["frees"], process["unknown_frees"]) == (3, 3, 0), process
        assert len(process["devices"]) == 1, process


def test_no_layers(folder):
    """A libOpenCL without layers is named."""
    fake = os.path.join(BUILD, "tests", "fake", "libOpenCL.so.1")
    if API == "opencl" and os.path.exists(fake):
        words = [VRAM, "run", "-o", f"{folder}/none.vrt", "--", VRAM, "info", "--backend", "opencl"]
        result = started(*words, VRAM_OPENCL_LIBRARY=fake)
        assert result.returncode == 0 and "libOpenCL.so was loaded without the layer" in result.stderr, result
        assert not os.path.exists(f"{folder}/none.vrt"), "a trace of nothing"


def skip_without_layers(folder):
    document = watched(folder, "--", *PROGRAM, API)[1]
    if document[f"{API}_without_layer"]:
        print(f"skipped: the loader of {API} does not load layers")
        sys.exit(77)


def main():
    with tempfile.TemporaryDirectory() as folder:
        skip_without_layers(folder)
        for name, test in list(globals().items()):
            if name.startswith("test_"):
                test(folder)
                print(f"{name}: ok")


main()
