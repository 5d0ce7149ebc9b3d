# SPDX-License-Identifier: Apache-2.0
"""torch_memory_saver.utils: what programs use of it."""
import os
from contextlib import contextmanager
from pathlib import Path


def get_binary_path_from_package(stem):
    """A library that may be in LD_PRELOAD, where programs put it; it need not be: nothing is preloaded."""
    from vram.torch import extension
    return Path(extension.library_path())


def is_xpu():
    return False


@contextmanager
def change_env(key, value):
    before = os.environ.get(key)
    os.environ[key] = value
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(key, None)
        else:
            os.environ[key] = before
