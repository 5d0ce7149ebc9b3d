#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# kept.sh FILE COMMAND...: runs a command and shows what it says. Where it succeeds that is in FILE afterwards, for
# a test that would run the same once more; where it does not, there is no FILE.
set -u
file=$1
shift
mkdir -p "$(dirname "$file")"
rm -f "$file"
"$@" >"$file.part"
code=$?
cat "$file.part"
if [ "$code" -eq 0 ]; then
    mv "$file.part" "$file"
else
    rm -f "$file.part"
fi
exit "$code"
