#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# uninstall.sh SOURCE BUILD: `make uninstall` removes what an installation put into a prefix, and nothing else.
set -euo pipefail
source=$1 build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset DESTDIR MAKEFLAGS MAKELEVEL

fail() {
    echo "FAIL: $*"
    [ ! -s "$work/log" ] || cat "$work/log"
    exit 1
}

# quietly COMMAND...: it must succeed.
quietly() {
    "$@" >"$work/log" 2>&1 || fail "$*"
}

# refuses PATTERN COMMAND...: it must fail and say so.
refuses() {
    local pattern=$1
    shift
    ! "$@" >"$work/log" 2>&1 || fail "$* succeeded"
    grep -q -- "$pattern" "$work/log" || fail "$* did not say: $pattern"
}

uninstall() {
    make -C "$source" uninstall "$@"
}

# nothing_in FOLDER
nothing_in() {
    [ -z "$(find "$1" -mindepth 1 2>/dev/null)" ] || fail "left: $(find "$1" -mindepth 1 | head)"
}

mkdir "$work/all"
quietly cmake --install "$build" --prefix "$work/all/new/prefix"
[ -x "$work/all/new/prefix/bin/vram" ] || fail "nothing was installed"
quietly uninstall PREFIX="$work/all/new/prefix"
grep -Eq "^uninstall: removed [0-9]+ files and [0-9]+ folders from $work/all/new/prefix$" "$work/log" ||
    fail "it did not say what it removed"
nothing_in "$work/all"
echo "ok: everything, and the folders that were made for it"

refuses "nothing is recorded as installed" uninstall PREFIX="$work/all/new/prefix"
grep -q "run make install" "$work/log" || fail "the error does not say what to do"
echo "ok: a second time, it says what is missing"

# Folders and files of others: an empty one that was there, one beside ours, one in a folder of ours.
others=$work/others
mkdir -p "$others/bin" "$others/lib/pkgconfig" "$others/share/man/man1"
touch "$others/lib/pkgconfig/other.pc" "$others/share/man/man1/other.1"
(cd "$others" && find . | sort) >"$work/before"
quietly cmake --install "$build" --prefix "$others"
quietly uninstall PREFIX="$others"
(cd "$others" && find . | sort) >"$work/after"
diff "$work/before" "$work/after" || fail "files of others"
quietly cmake --install "$build" --prefix "$others"
echo mine >"$others/include/vram/mine.h"
quietly uninstall PREFIX="$others"
rm "$others/include/vram/mine.h" || fail "a file of others in include/vram"
rmdir "$others/include/vram" "$others/include" || fail "more was left than a file of others"
(cd "$others" && find . | sort) >"$work/after"
diff "$work/before" "$work/after" || fail "files of others, with one in a folder of ours"
echo "ok: files and folders of others stay"

# The second installation finds the folders made by the first; a file of an earlier version is removed too.
quietly cmake --install "$build" --prefix "$work/all/twice"
record=share/doc/libvram/installed.txt
mkdir "$work/all/twice/include/vram/old"
touch "$work/all/twice/include/vram/old/old.h"
printf '%s\n' include/vram/old/old.h include/vram/old/ >>"$work/all/twice/$record"
quietly cmake --install "$build" --prefix "$work/all/twice"
mv "$work/all/twice" "$work/all/moved"
quietly uninstall PREFIX="$work/all/moved"
rmdir "$work/all/moved" || fail "left: $(find "$work/all/moved" | head)"
nothing_in "$work/all"
echo "ok: an installation over an earlier one, moved afterwards"

quietly env DESTDIR="$work/all/stage" cmake --install "$build" --prefix /opt/vram
[ -x "$work/all/stage/opt/vram/bin/vram" ] || fail "DESTDIR was not heeded at installation"
refuses "nothing is recorded as installed in $work/all/opt/vram" uninstall PREFIX=/opt/vram DESTDIR="$work/all"
quietly uninstall PREFIX=/opt/vram DESTDIR="$work/all/stage"
nothing_in "$work/all/stage"
echo "ok: DESTDIR"

quietly cmake --install "$build" --component command --prefix "$work/all/part"
quietly cmake --install "$build" --component vram --prefix "$work/all/part"
[ ! -e "$work/all/part/include" ] || fail "a component brings headers"
quietly uninstall PREFIX="$work/all/part"
[ ! -e "$work/all/part" ] || fail "left of two components: $(find "$work/all/part" | head)"
echo "ok: components, one after the other"

mkdir -p "$work/all/bad/share/doc/libvram"
touch "$work/all/victim"
echo "../victim" >"$work/all/bad/$record"
refuses "names a path with" uninstall PREFIX="$work/all/bad"
[ -e "$work/all/victim" ] || fail "a path above the prefix was removed"
refuses "usage:" "$source/tools/uninstall" relative/prefix
echo "ok: a damaged record and a relative prefix are refused"
