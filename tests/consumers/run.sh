#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh SOURCE BUILD CC: installs a build into a temporary prefix, moves that prefix, and uses the
# library from there as strangers do: by find_package and by pkg-config; shared and static.
set -euo pipefail
source=$1 build=$2 cc=$3
here=$source/tests/consumers
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
version=$(sed -n 's/^Version: //p' "$build/libvram.pc")
expected="libvram $version, devices: 1"

fail() {
    echo "FAIL: $*"
    exit 1
}

# try NAME PROGRAM...: the program must say exactly what is expected.
try() {
    local name=$1 said
    shift
    said=$("$@") || fail "$name: exit code $?: $said"
    [ "$said" = "$expected" ] || fail "$name said: $said"
    echo "ok: $name"
}

# Quiet unless it fails.
quietly() {
    "$@" >"$work/log" 2>&1 || {
        cat "$work/log"
        fail "$*"
    }
}

quietly cmake --install "$build" --prefix "$work/first"
mv "$work/first" "$work/moved"
prefix=$work/moved
libdir=$(dirname "$(find "$prefix" -name libvram.so)")

for file in bin/vram include/vram/vram.h include/vram/vram.hpp include/vram/hpp/owner.hpp \
    include/vram/compute.h include/vram/compute.hpp include/vram/model.h include/vram/model.hpp \
    share/man/man1/vram.1 share/doc/*/README.md \
    share/bash-completion/completions/vram share/fish/vendor_completions.d/vram.fish \
    share/zsh/site-functions/_vram; do
    # shellcheck disable=SC2086 # a pattern
    compgen -G "$prefix/$file" >/dev/null || fail "$file was not installed"
done
[ "$("$prefix/bin/vram" --version)" = "vram $version" ] || fail "the installed command's version"

# The pages lead nowhere else, and each example is built as a reader would build it.
pages=$(dirname "$(find "$prefix/share/doc" -name README.md -not -path '*/examples/*')")
quietly python3 "$source/tests/docs/links.py" --installed "$pages"
for example in "$pages"/examples/*.c "$pages"/examples/kv_transfer/*.c; do
    quietly "$cc" -std=c11 -Wall -Wextra -Werror -fsyntax-only -I "$prefix/include" "$example"
done
quietly "$cc" -std=c11 -I "$prefix/include" "$pages"/examples/forces/*.c -o "$work/forces" -L "$libdir" -lvram -lm
echo "ok: installed pages and examples"

CC=$cc quietly cmake -S "$here/find_package" -B "$work/package" -DCMAKE_PREFIX_PATH="$prefix"
quietly cmake --build "$work/package"
extras=()
[ ! -e "$libdir/libvram-ucx.so" ] || extras=(ucx ucx_static)
for program in shared static cplusplus compute compute_static model model_static "${extras[@]}"; do
    try "find_package, $program" "$work/package/$program"
done

export PKG_CONFIG_PATH=$libdir/pkgconfig
# by_pkg_config SOURCE PACKAGE
by_pkg_config() {
    local source=$1 package=$2
    # shellcheck disable=SC2046 # lists of flags
    quietly "$cc" "$here/$source" -o "$work/pc-shared" $(pkg-config --cflags --libs "$package")
    try "pkg-config, $package, shared" env LD_LIBRARY_PATH="$libdir" "$work/pc-shared"
    # shellcheck disable=SC2046 # lists of flags
    quietly "$cc" "$here/$source" -o "$work/pc-static" \
        $(pkg-config --cflags --static --libs "$package" | sed -E 's/-l(vram[a-z-]*)/-l:lib\1.a/g')
    try "pkg-config, $package, static" "$work/pc-static"
}
by_pkg_config consumer.c libvram
by_pkg_config consumer.c vram # by its other name
by_pkg_config compute.c libvram-compute
by_pkg_config model.c libvram-model
[ ${#extras[@]} -eq 0 ] || by_pkg_config ucx.c libvram-ucx

# As a subdirectory: it says itself what it must not have. bare.sh builds it.
CC=$cc quietly cmake -S "$here/subdirectory" -B "$work/sub" -DVRAM_SOURCE="$source"
echo "ok: add_subdirectory"
