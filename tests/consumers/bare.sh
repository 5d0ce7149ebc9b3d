#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# bare.sh SOURCE BUILD CC: a machine with a C compiler, CMake and make, and nothing else. A PATH that holds
# just these stands for it. cmake must say what it left out; library and command must build as part of
# another project, whose programs find a device; and the conformance suite must pass. How it is optimised is the
# other builds' matter: here it is not, to take less time. In the long run libvram is also built by itself, with
# the examples and the tests that need nothing.
set -euo pipefail
source=$1 build=$2 cc=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
version=$(sed -n 's/^Version: //p' "$build/libvram.pc")

mkdir "$work/bin"
for tool in "$cc" cmake make sh as ld ar ranlib nm objcopy objdump strip readelf; do
    path=$(command -v "$tool") || continue
    ln -s "$path" "$work/bin/$(basename "$tool")"
done

# bare COMMAND...: quiet unless it fails or the compiler warns.
bare() {
    env -i PATH="$work/bin" HOME="$work" CC="$(basename "$cc")" "$@" >"$work/log" 2>&1 || {
        cat "$work/log"
        exit 1
    }
    if grep 'warning:' "$work/log"; then
        echo "FAIL: the compiler warns"
        exit 1
    fi
}
plain=(-DVRAM_DEPS=OFF -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG=)

bare cmake -S "$source" -B "$work/b" "${plain[@]}"
grep 'left out by VRAM_DEPS=OFF' "$work/log" || {
    echo "FAIL: cmake does not say what it left out"
    exit 1
}
[ -z "${VRAM_TEST_LONG:-}" ] || bare cmake --build "$work/b" -j 2

bare cmake -S "$source/tests/consumers/subdirectory" -B "$work/sub" "${plain[@]}" -DVRAM_SOURCE="$source" \
    -DVRAM_BUILD_COMMAND=ON
bare cmake --build "$work/sub" -j 2
for program in shared static compute compute_static model model_static; do
    said=$("$work/sub/$program")
    [ "$said" = "libvram $version, devices: 1" ] || {
        echo "FAIL: add_subdirectory, $program said: $said"
        exit 1
    }
done
env -i "$work/sub/libvram/vram" check --backend host | tail -1
