#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# run.sh SOURCE BUILD CARGO PYTHON: builds and tests the crate bindings/rust against the libraries in BUILD, without a
# network; its target folder is BUILD/rust. The examples are left in BUILD/rust/debug/examples for tests of their own.
set -eu
source=$1 build=$2 cargo=$3 python=$4

version=$("$cargo" --version | sed 's/^cargo 1\.\([0-9]*\)\..*/\1/')
case $version in
*[!0-9]* | "") echo "skipped: $("$cargo" --version 2>&1 | head -1) is not a version 1" && exit 77 ;;
esac
if [ "$version" -lt 63 ]; then
    echo "skipped: cargo 1.$version, and the crate needs 1.63" && exit 77
fi
export CARGO_TARGET_DIR="$build/rust" VRAM_LIB_DIR="$build" CARGO_NET_OFFLINE=true RUST_BACKTRACE=0
unset VRAM_STATIC VRAM_BACKENDS VRAM_SIM
PATH=$(dirname "$cargo"):$PATH # rustc lies beside it
cd "$source/bindings/rust"
# The documents' code needs neither `unsafe` nor the C API.
for example in scheduler manager bridge consolidation vectors; do
    grep -q '^#!\[forbid(unsafe_code)\]' "examples/$example.rs"
    if grep -n 'ffi' "examples/$example.rs"; then exit 1; fi
done
"$cargo" test --quiet --offline --locked --all-features --lib --tests
"$cargo" build --quiet --offline --locked --all-features --lib --examples
if [ -n "$python" ]; then
    "$python" "$source/tests/rust/compile_fail.py" . "$build/rust/debug/libvram.rlib" "${RUSTC:-rustc}"
fi
"$cargo" test --quiet --offline --locked --all-features --doc
# Form, where the tools are there.
if "$cargo" fmt --version >/dev/null 2>&1; then
    "$cargo" fmt --check
fi
