#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# track_off.sh REVISION: what tracking costs a pool that is not tracked. Builds the library of an earlier
# revision, from before there was tracking, beside the present one, compares the machine code of vram_alloc
# and vram_free, and times both builds in turns with `vram bench alloc`. Exit code 1: the code differs and
# the median is more than 1 ns worse.
set -eu
revision=${1:?"usage: bench/track_off.sh REVISION"}
root=$(git rev-parse --show-toplevel)
work=$(mktemp -d)
trap 'git -C "$root" worktree remove --force "$work/before" >/dev/null 2>&1; rm -rf "$work"' EXIT

git -C "$root" worktree add --detach "$work/before" "$revision" >/dev/null 2>&1
for tree in "$work/before" "$root"; do
    build="$work/build-$(basename "$tree")"
    cmake -S "$tree" -B "$build" -DCMAKE_BUILD_TYPE=Release >/dev/null
    cmake --build "$build" --target vram_cli --target vram >/dev/null 2>&1 ||
        cmake --build "$build" >/dev/null
done
now="$work/build-$(basename "$root")"

# The instructions of a function, without addresses.
code() {
    objdump -d --no-show-raw-insn --no-addresses "$1/libvram.so" |
        awk -v name="<$2" 'index($0, name) == 1 { on = 1 } /^$/ { on = 0 } on' |
        sed -E 's/[0-9a-f]+ <([^>+]*)[^>]*>/<\1>/; s/# .*//; s/0x[0-9a-f]+\(%rip\)/(%rip)/'
}

same=yes
for function in vram_alloc vram_free; do
    code "$work/build-before" "$function@" >"$work/a"
    code "$now" "$function@" >"$work/b"
    [ -s "$work/a" ] || code "$work/build-before" "$function>" >"$work/a"
    [ -s "$work/b" ] || code "$now" "$function>" >"$work/b"
    if cmp -s "$work/a" "$work/b" && [ -s "$work/a" ]; then
        echo "$function: the same $(wc -l <"$work/a") instructions"
    else
        echo "$function: the code differs"
        same=no
    fi
done

# The least of several medians, taken in turns.
time_of() {
    VRAM_TRACKING=off "$1/vram" bench alloc -b host --seconds 1 --json |
        python3 -c 'import json, sys; print(json.load(sys.stdin)["ns_median"])'
}
for turn in 1 2 3 4 5; do
    time_of "$work/build-before" >>"$work/before.txt"
    time_of "$now" >>"$work/now.txt"
done
before=$(sort -g "$work/before.txt" | head -1)
after=$(sort -g "$work/now.txt" | head -1)
echo "a pair: $before ns before, $after ns now, least of five medians"
[ "$same" = yes ] || awk "BEGIN { exit !($after - $before <= 1) }"
