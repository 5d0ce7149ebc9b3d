# SPDX-License-Identifier: Apache-2.0
"""Tests of the package, on the host device and on simulated ones: python3 -m unittest discover bindings/python

LIBVRAM_PATH and LIBVRAM_COMMAND name what is tested; without them it is what lies in the folder build of the tree.
"""
import os

TREE = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".."))
PACKAGE = os.path.join(TREE, "bindings", "python", "vram")

for _variable, _name in (("LIBVRAM_PATH", "libvram.so.0"), ("LIBVRAM_COMMAND", "vram")):
    if _variable not in os.environ and os.path.exists(os.path.join(TREE, "build", _name)):
        os.environ[_variable] = os.path.join(TREE, "build", _name)
