# SPDX-License-Identifier: Apache-2.0
"""python -m vram ARGUMENTS: the command `vram` that the wheel carries."""
import os
import sys

from .command import CommandError, find_command


def main() -> int:
    try:
        command = find_command()
    except CommandError as error:
        print(f"vram: {error}", file=sys.stderr)
        return 2
    os.execv(command, ["vram", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
