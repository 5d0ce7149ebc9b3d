#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# wrappers.sh SOURCE BUILD CC CXX SANITIZERS: programs on top of the C API: the deprecated names
# (vram/compat.h) warn and work; vram/vram.hpp compiles alone, without a warning, and its
# objects leave nothing behind. CXX may be empty.
set -euo pipefail
source=$1 build=$2 cc=$3 cxx=$4 sanitizers=${5:-}
here=$source/tests/consumers
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
include=(-I "$source/include")
strict=(-Wall -Wextra -Wpedantic -Werror)
link=(-x none "-L$build" -lvram-compute -lvram-model -lvram "-Wl,-rpath,$build")
[ -z "$sanitizers" ] || link+=("-fsanitize=$sanitizers")

fail() {
    echo "FAIL: $*"
    [ ! -s "$work/log" ] || cat "$work/log"
    exit 1
}

# compat NAME COMPILER FLAGS...
compat() {
    local name=$1 word said
    shift
    "$@" "${include[@]}" -Wall -Wextra "$here/compat.c" -o "$work/compat" "${link[@]}" \
        2>"$work/log" || fail "$name does not compile"
    for word in get_buffer:vram_buffer_create_elements get_or_create:vram_buffer_create_elements \
        return_buffer:vram_buffer_destroy acquire:vram_alloc release:vram_free; do
        grep -q "vram_${word%%:*}.* is deprecated.*use ${word##*:}" "$work/log" ||
            fail "$name: no warning for vram_${word%%:*}"
    done
    if grep "warning:" "$work/log" | grep -qv "is deprecated"; then
        fail "$name: other warnings than those of deprecation"
    fi
    if "$@" "${include[@]}" -Werror=deprecated-declarations -fsyntax-only "$here/compat.c" \
        2>/dev/null; then
        fail "$name: the warning cannot be made an error"
    fi
    : >"$work/log"
    # The header itself warns of nothing.
    echo '#include <vram/compat.h>' | "$@" "${include[@]}" "${strict[@]}" -fsyntax-only - \
        2>"$work/log" || fail "$name: the header warns by itself"
    said=$("$work/compat") || fail "$name: exit code $?: $said"
    [ "$said" = "compat: good" ] || fail "$name said: $said"
    echo "ok: compat.h, $name"
}

compat C "$cc" -x c -std=c11
if [ -n "$cxx" ]; then
    echo '#include <vram/vram.hpp>
#include <vram/vram.hpp>' | "$cxx" -x c++ -std=c++17 "${include[@]}" "${strict[@]}" -fsyntax-only - \
        2>"$work/log" || fail "vram.hpp does not compile alone"
    for part in "$source"/include/vram/*.hpp "$source"/include/vram/hpp/*.hpp; do
        echo "#include <vram/${part#"$source"/include/vram/}>" | "$cxx" -x c++ -std=c++17 "${include[@]}" \
            "${strict[@]}" -fsyntax-only - 2>"$work/log" || fail "$part does not compile alone"
    done
    echo '{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64,
        "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 4, "vocab_size": 256, "max_position_embeddings": 2048,
        "torch_dtype": "float16"}' >"$work/config.json"
    "$cxx" -std=c++17 "${include[@]}" "${strict[@]}" "$here/raii.cpp" -o "$work/raii" "${link[@]}" \
        2>"$work/log" || fail "raii.cpp does not compile"
    said=$("$work/raii" "$work/config.json") || fail "raii: exit code $?: $said"
    [ "$said" = "raii: good" ] || fail "raii said: $said"
    echo "ok: vram.hpp"
    "$cxx" -std=c++17 "${include[@]}" "${strict[@]}" "$here/resources.cpp" -o "$work/resources" "${link[@]}" \
        2>"$work/log" || fail "resources.cpp does not compile"
    said=$("$work/resources") || fail "resources: exit code $?: $said"
    [ "$said" = "resources: good" ] || fail "resources said: $said"
    echo "ok: std::pmr and streams"
    # The programs of docs/cpp.md, as they are there.
    awk -v work="$work" '/^```cpp/ { file = work "/page" ++n ".cpp"; next } /^```/ { file = "" } file { print > file }' \
        "$source/docs/cpp.md"
    programs=0
    for page in $(grep -l "int main" "$work"/page*.cpp); do
        "$cxx" -std=c++17 "${include[@]}" "${strict[@]}" "$page" -o "$work/page" "${link[@]}" 2>"$work/log" ||
            fail "docs/cpp.md: $(basename "$page") does not compile"
        VRAM_BACKENDS=host "$work/page" >"$work/log" || fail "docs/cpp.md: $(basename "$page")"
        programs=$((programs + 1))
    done
    [ "$programs" -eq 2 ] || fail "docs/cpp.md has $programs programs"
    echo "ok: docs/cpp.md"
fi
