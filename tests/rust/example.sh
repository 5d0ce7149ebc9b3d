#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# example.sh PROGRAM: runs an example that run.sh has built, and is skipped where that was.
[ -x "$1" ] || { echo "skipped: $1 was not built" && exit 77; }
exec "$1"
