#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# bare.sh SOURCE CC: a machine with a C compiler, CMake and make, and nothing else. A PATH that holds
# just these stands for it. Library, command and examples must build, cmake must say what it left out, and
# the conformance suite must pass. How it is optimised is the other builds' matter: here it is not, to take
# less time. The tests that need nothing are built in the long run.
set -euo pipefail
source=$1 cc=$2
tests=OFF
[ -z "${VRAM_TEST_LONG:-}" ] || tests=ON
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir "$work/bin"
for tool in "$cc" cmake make sh as ld ar ranlib nm objcopy objdump strip readelf; do
    path=$(command -v "$tool") || continue
    ln -s "$path" "$work/bin/$(basename "$tool")"
done

env -i PATH="$work/bin" HOME="$work" CC="$(basename "$cc")" \
    cmake -S "$source" -B "$work/b" -DVRAM_DEPS=OFF -DVRAM_BUILD_TESTS=$tests \
    -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG= >"$work/log" 2>&1 || {
    cat "$work/log"
    exit 1
}
grep 'left out by VRAM_DEPS=OFF' "$work/log" || {
    echo "FAIL: cmake does not say what it left out"
    exit 1
}
env -i PATH="$work/bin" HOME="$work" cmake --build "$work/b" -j 2 >"$work/log" 2>&1 || {
    cat "$work/log"
    exit 1
}
if grep 'warning:' "$work/log"; then
    echo "FAIL: the compiler warns"
    exit 1
fi
env -i "$work/b/vram" check --backend host | tail -1
