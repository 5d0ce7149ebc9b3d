# SPDX-License-Identifier: Apache-2.0
"""python -m vram.torch [--moving on|off] [--report] SCRIPT ARGS | -m MODULE ARGS: runs a program with vram.torch enabled.

    python -m vram.torch train.py --epochs 3
    python -m vram.torch -m torch.distributed.run train.py     in its ranks, too
    python -m vram.torch --check                               whether it works here, and whether VRAM_TORCH does
"""
import os
import runpy
import sys

from . import adapter


def _usage(text):
    print(f"vram.torch: {text}\n{__doc__.splitlines()[0]}", file=sys.stderr)
    return 2


def _print_report():
    try:
        print(adapter.report(), file=sys.stderr)
    except Exception as error:  # at the end of a program that may have failed itself
        print(f"vram.torch: no report: {error}", file=sys.stderr)


def _check():
    from . import check
    failed = False
    for name, wrong in check.steps():
        print(f"{name}: {wrong or 'good'}")
        failed = failed or bool(wrong)
    return 1 if failed else 0


def main(arguments):
    moving, wants_report = None, False
    while arguments and arguments[0].startswith("--"):
        option = arguments.pop(0)
        if option == "--moving" and arguments:
            moving = arguments.pop(0)
        elif option.startswith("--moving="):
            moving = option.split("=", 1)[1]
        elif option == "--report":
            wants_report = True
        elif option == "--check":
            return _check()
        elif option == "--help":
            print(__doc__.strip())
            return 0
        else:
            return _usage(f"unknown option {option}")
    if moving not in (None, "on", "off"):
        return _usage(f"--moving is on or off, not {moving}")
    if not arguments:
        return _usage("no program given")
    as_module = arguments[0] == "-m"
    if as_module:
        arguments.pop(0)
        if not arguments:
            return _usage("-m needs a module")
    try:
        adapter.enable(moving=moving)
    except adapter.VramTorchError as error:
        print(f"vram.torch: {error}", file=sys.stderr)
        return 2
    target = arguments[0]
    sys.argv = arguments
    try:
        if as_module:
            sys.path.insert(0, os.getcwd())
            runpy.run_module(target, run_name="__main__", alter_sys=True)
        else:
            sys.path[0] = os.path.dirname(os.path.abspath(target))
            runpy.run_path(target, run_name="__main__")
    finally:
        if wants_report:
            _print_report()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
