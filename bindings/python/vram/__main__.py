# SPDX-License-Identifier: Apache-2.0
"""python -m vram ARGUMENTS: the command `vram` that the wheel carries. `info` also says which libvram Python has."""
import os
import sys

from ._library import lookup
from .command import CommandError, find_command


def main() -> int:
    try:
        command = find_command()
    except CommandError as error:
        print(f"vram: {error}", file=sys.stderr)
        return 2
    as_module = os.path.basename(sys.argv[0]) == "__main__.py"
    if as_module and sys.argv[1:2] == ["info"] and not {"-j", "--json", "-h", "--help"} & set(sys.argv):
        print(lookup(), end="\n\n", flush=True)
    os.execv(command, ["vram", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
