#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# progress.sh SOURCE: tools/progress in front of builds that are not there: one line of make's and of ninja's hundreds,
# all of them when the build fails, none when there is nothing to do.
set -uo pipefail
progress=$1/tools/progress
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 2
touch there
failed=0

# expect NAME CODE PATTERN FILE SCRIPT: the exit code, and the whole of what is said, as one pattern.
expect() {
    local said code=0
    said=$("$progress" "$4" "two weeks" sh -c "$5" 2>&1) || code=$?
    if [ "$code" -ne "$2" ] || ! [[ $said =~ ^$3$ ]]; then
        echo "FAIL: $1: exit code $code, it said:"
        echo "$said"
        failed=1
    fi
}

make='for i in 1 2 3; do echo "[ $i%] Building C object a/b.c.o"; done; echo "[100%] Built target b"'
expect "make" 0 'building new, two weeks: done in [0-9]+ s' new "$make"
expect "ninja" 0 'building there: done in [0-9]+ s' there 'echo "[1/2] Building C object a.o"; echo "[2/2] Linking b"'
expect "nothing to do" 0 '' there 'echo "[100%] Built target b"; echo "ninja: no work to do."'
expect "a failure" 1 $'building new, two weeks: done in [0-9]+ s\n.*Building.*a.c:1: error.*' new \
    "$make; echo 'a.c:1: error' >&2; exit 2"

# On a terminal the line is written over and over: in the end it is one.
if command -v script >/dev/null; then
    script -qec "$progress new 'two weeks' sh -c '$make'" /dev/null </dev/null >said
    if ! grep -q $'\rbuilding new, two weeks: 3 %' said || [ "$(wc -l <said)" -ne 1 ]; then
        echo "FAIL: on a terminal it said:"
        cat -v said
        failed=1
    fi
fi
exit $failed
