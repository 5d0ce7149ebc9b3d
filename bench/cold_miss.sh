#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench/cold_miss.sh [ROWS]: how many calls inside the library the first block of a pool takes, 64 MiB on the
# host backend, and which functions are called most. Needs clang, which can count after inlining.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v clang >/dev/null || {
    echo "cold_miss.sh: clang is missing (apt-get install clang)" >&2
    exit 77
}
build=build-calls
cmake -S . -B "$build" -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_C_FLAGS=-finstrument-functions-after-inlining -DVRAM_BUILD_TESTS=OFF \
    -DVRAM_BUILD_EXAMPLES=OFF -DVRAM_BUILD_COMMAND=OFF --log-level=NOTICE
cmake --build "$build" -j "$(nproc)" --target vram_static >/dev/null
clang -O1 -Iinclude bench/cold_miss.c "$build/libvram.a" -o "$build/cold_miss" -no-pie -lpthread -ldl -lm
VRAM_BACKENDS=host "$build/cold_miss" >"$build/cold_miss.txt"
head -1 "$build/cold_miss.txt"
tail -n +2 "$build/cold_miss.txt" | head -"${1:-20}" | while read -r count address; do
    printf '%6d  %s\n' "$count" "$(addr2line -f -e "$build/cold_miss" "$address" | head -1)"
done
