# SPDX-License-Identifier: Apache-2.0
"""python -m vram.torch [--moving on|off] [--report] SCRIPT | -m MODULE | -c CODE [ARGS]: runs it with vram.torch enabled.

    python -m vram.torch train.py --epochs 3
    python -m vram.torch -m torch.distributed.run train.py     in its ranks, too
    python -m vram.torch -c 'import torch; print(torch.cuda.get_allocator_backend())'
    python -m vram.torch --check                               whether it works here, and whether VRAM_TORCH does
"""
import errno
import importlib.util
import os
import pkgutil
import runpy
import sys
import types

from . import adapter


def _fail(text):
    print(f"vram.torch: {text}", file=sys.stderr)
    return 2


def _usage(text):
    return _fail(f"{text}\n{__doc__.splitlines()[0]}")


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


def _missing_module(name):
    """Why there is no such module to run, or "". Imports the packages that it is in."""
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(name + ".__main__")
    except (ImportError, ValueError) as error:  # of the name itself, unless a package lacks something
        if getattr(error, "name", None) and not f"{name}.".startswith(f"{error.name}."):
            raise
        spec = None
    return "" if spec is not None else f"there is no module {name} that can be run"


def _missing_script(path):
    """The same of a script, or of a folder or an archive with a __main__."""
    if not os.access(path, os.R_OK):
        return f"cannot open {path}: {os.strerror(errno.EACCES if os.path.exists(path) else errno.ENOENT)}"
    finder = pkgutil.get_importer(path)
    return "" if finder is None or finder.find_spec("__main__") else f"there is no __main__ in {path}"


def _run(kind, target, arguments):
    sys.argv = [kind if kind == "-c" else target] + arguments
    if kind == "-m":
        runpy.run_module(target, run_name="__main__", alter_sys=True)
    elif kind == "":
        sys.path[0] = os.path.dirname(os.path.abspath(target))
        runpy.run_path(target, run_name="__main__")
    else:  # a __main__ of its own, which has no file
        sys.modules["__main__"] = module = types.ModuleType("__main__")
        exec(compile(target, "<string>", "exec"), vars(module))


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
    kind = arguments.pop(0) if arguments[0] in ("-m", "-c") else ""
    if not arguments:
        return _usage("-m needs a module" if kind == "-m" else "-c needs code")
    target = arguments.pop(0)
    if kind:
        sys.path.insert(0, os.getcwd() if kind == "-m" else "")
    # A wrong name is told before an adapter is compiled; packages are imported when libvram is there.
    wrong = _missing_script(target) if not kind else ""
    if kind == "-m" and importlib.util.find_spec(target.partition(".")[0] or "?") is None:
        wrong = _missing_module(target)
    try:
        if not wrong:
            adapter.enable(moving=moving)
            wrong = _missing_module(target) if kind == "-m" else ""
    except adapter.VramTorchError as error:
        wrong = error
    if wrong:
        return _fail(wrong)
    try:
        _run(kind, target, arguments)
    finally:
        if wants_report:
            _print_report()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
