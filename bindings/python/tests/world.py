# SPDX-License-Identifier: Apache-2.0
"""What the tests share: a context with a device, a queue and a pool; and programs in a process of their own."""
import contextlib
import os
import subprocess
import sys
import textwrap

import vram

from . import TREE


@contextlib.contextmanager
def world(backend="sim", sim="memory=256M", **pool):
    """Yields device, queue and pool."""
    with vram.Context(backends=backend, sim=sim) as context, context.device(backend) as device:
        with device.queue() as queue, device.pool(**pool) as made:
            yield device, queue, made


def program(text, *arguments, code=0, environment=None):
    """Runs a program with the package in its path; returns what it wrote, and fails if it does not end with `code`."""
    variables = dict(os.environ, PYTHONPATH=os.path.join(TREE, "bindings", "python"), PYTHONDONTWRITEBYTECODE="1",
                     PYTHONFAULTHANDLER="1", PYTHONWARNINGS="ignore::DeprecationWarning", **(environment or {}))
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(text), *arguments], capture_output=True, text=True,
                         env=variables, timeout=60)
    if run.returncode != code:
        raise AssertionError(f"exit code {run.returncode}, not {code}:\n{run.stdout}{run.stderr}")
    return run.stdout + run.stderr
