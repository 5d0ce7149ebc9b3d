#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# track_off.sh [REVISION]: what tracking costs a pool that is not tracked. Builds the library as it is and
# without the tracker (VR_TRACKER=0; with REVISION that revision, one from before there was tracking, in its
# place), compares the machine code of vram_alloc and vram_free, and times both builds in turns with `vram bench
# alloc`. Exit code 1: the code differs and the least median is more than 1 ns worse.
set -eu
root=$(git rev-parse --show-toplevel)
work=$(mktemp -d)
trap 'git -C "$root" worktree remove --force "$work/before" >/dev/null 2>&1 || true; rm -rf "$work"' EXIT

# build TREE FOLDER FLAGS
build() {
    cmake -S "$1" -B "$2" -DCMAKE_BUILD_TYPE=Release -DVRAM_BUILD_TESTS=OFF -DVRAM_BUILD_EXAMPLES=OFF \
        -DCMAKE_C_FLAGS="$3" >/dev/null
    cmake --build "$2" -j "$(nproc)" >/dev/null
}
if [ $# -gt 0 ]; then
    git -C "$root" worktree add --detach "$work/before" "$1" >/dev/null 2>&1
    build "$work/before" "$work/without" ""
else
    build "$root" "$work/without" -DVR_TRACKER=0
fi
build "$root" "$work/with" ""

# The instructions of a function, without addresses.
code() {
    objdump -d --no-show-raw-insn --no-addresses "$1/libvram.so" |
        awk -v name="<$2" 'index($0, name) == 1 { on = 1 } /^$/ { on = 0 } on' |
        sed -E 's/[0-9a-f]+ <([^>+]*)[^>]*>/<\1>/; s/# .*//; s/0x[0-9a-f]+\(%rip\)/(%rip)/'
}

same=yes
for function in vram_alloc vram_free; do
    for build in without with; do
        code "$work/$build" "$function>" >"$work/$build.s"
        [ -s "$work/$build.s" ] || code "$work/$build" "$function@@" >"$work/$build.s"
    done
    if cmp -s "$work/without.s" "$work/with.s" && [ -s "$work/with.s" ]; then
        echo "$function: the same $(($(wc -l <"$work/with.s") - 1)) instructions"
    else
        echo "$function: the code differs"
        same=no
    fi
done

# The least of several medians, taken in turns.
time_of() {
    VRAM_TRACKING=off "$work/$1/vram" bench alloc -b host --seconds 1 --json |
        python3 -c 'import json, sys; print(json.load(sys.stdin)["ns_median"])'
}
for turn in 1 2 3 4 5 6 7; do
    time_of without >>"$work/without.txt"
    time_of with >>"$work/with.txt"
done
without=$(sort -g "$work/without.txt" | head -1)
with=$(sort -g "$work/with.txt" | head -1)
echo "a pair: $without ns without the tracker, $with ns with it and off; least of seven medians"
[ "$same" = yes ] || awk "BEGIN { exit !($with - $without <= 1) }"
