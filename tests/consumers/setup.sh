#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# setup.sh SOURCE: tools/setup.sh on machines that are not this one. A PATH of a few tools and a
# stub of apt-get stand for them.
set -euo pipefail
setup=$1/tools/setup.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir "$work/bare" "$work/debian" "$work/complete" "$work/wishing"
for tool in sh env mktemp rm cat grep printf; do
    ln -s "$(command -v "$tool")" "$work/bare/$tool"
done
cp -P "$work"/bare/* "$work/debian/"
cp -P "$work"/bare/* "$work/complete/"

# stub FOLDER NAME BODY
stub() {
    printf '#!/bin/sh\n%s\n' "$3" >"$work/$1/$2"
    chmod +x "$work/$1/$2"
}
stub bare id 'echo 0'
stub debian id 'echo 0'
stub debian apt-get "echo \"\$*\" >>$work/calls; case \"\$*\" in *install*) exit \$(cat $work/code) ;; esac"
stub debian apt-cache 'exit 0'
for tool in cc cmake make dpkg-shlibdeps; do
    stub complete "$tool" 'exit 0'
done
echo 0 >"$work/code"

# expect NAME CODE PATTERN COMMAND...: exit code, and a line of what is said ("" for silence).
expect() {
    local name=$1 code=$2 pattern=$3 got=0
    shift 3
    "$@" >"$work/said" 2>&1 || got=$?
    if [ "$got" -ne "$code" ] || { [ -n "$pattern" ] && ! grep -q -- "$pattern" "$work/said"; } ||
        { [ -z "$pattern" ] && [ -s "$work/said" ]; }; then
        echo "FAIL: $name: exit code $got, wanted $code and \"$pattern\"; it said:"
        cat "$work/said"
        exit 1
    fi
    echo "ok: $name"
}

expect "a complete machine: nothing to do" 0 "" env -i PATH="$work/complete" "$setup" run
expect "nothing to do for packages" 0 "" env -i PATH="$work/complete" "$setup" deb
expect "another system: what packages need" 2 "make zlib1g-dev libzstd-dev libcivetweb-dev libncurses-dev dpkg-dev" \
    env -i PATH="$work/bare" "$setup" deb
expect "an unknown purpose" 2 "usage:" "$setup" nonsense
expect "no purpose" 2 "usage:" "$setup"
expect "another system: names what to install" 2 "gcc libc6-dev cmake make" \
    env -i PATH="$work/bare" "$setup" run
expect "Debian: says why" 0 "cmake is missing: configures" env -i PATH="$work/debian" "$setup" run
grep -q 'update' "$work/calls" || {
    echo "FAIL: the lists were not renewed"
    exit 1
}
grep -q 'install -y --no-install-recommends gcc libc6-dev cmake make$' "$work/calls" || {
    echo "FAIL: apt-get was asked for something else:"
    cat "$work/calls"
    exit 1
}
grep -q 'install -y --no-install-recommends zlib1g-dev libzstd-dev libcivetweb-dev libncurses-dev$' "$work/calls" || {
    echo "FAIL: what verbs of README's table need was not wished for:"
    cat "$work/calls"
    exit 1
}
# Wishes hold nobody up, whatever becomes of them: a compiler, but no header of a library.
cp -P "$work"/debian/* "$work/wishing/"
for tool in cmake make; do
    stub wishing "$tool" 'exit 0'
done
stub wishing cc 'case "$*" in *-E*) exit 1 ;; esac'
echo 100 >"$work/code"
expect "a wish that apt-get refuses" 0 "going on without; as root: apt-get install zlib1g-dev libzstd-dev" \
    env -i PATH="$work/wishing" "$setup" run
stub wishing id 'echo 1000'
expect "a wish without root and sudo" 0 "libcivetweb-dev would help: serves vram exporter" \
    env -i PATH="$work/wishing" "$setup" run
stub wishing sudo "[ \"\$1\" = -n ] || echo asked >$work/asked; exit 1"
expect "a wish asks for no password" 0 "going on without" env -i PATH="$work/wishing" "$setup" run
[ ! -e "$work/asked" ] || {
    echo "FAIL: sudo would ask for a password"
    exit 1
}
expect "apt-get fails" 1 "" env -i PATH="$work/debian" sh -c "'$setup' run >/dev/null 2>&1"
stub debian id 'echo 1000'
expect "neither root nor sudo" 1 "no sudo" env -i PATH="$work/debian" "$setup" run
