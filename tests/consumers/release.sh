#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# release.sh SOURCE: what tools/release refuses, in a clone that has no more than it looks at first.
set -euo pipefail
command -v git >/dev/null || { echo "skipped: no git"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/tools" "$work/include/vram"
cp "$1/tools/release" "$work/tools/"
cp "$1/include/vram/base.h" "$work/include/vram/"
version=$(sed -nE 's/^## (.*)$/\1/p' "$1/CHANGELOG.md" | head -1)

# refused NAME WORDS: it says so, and makes nothing.
refused() {
    ! said=$("$work/tools/release" "$work/out" 2>&1) || { echo "FAIL: $1: not refused"; exit 1; }
    [[ $said == "release: "*"$2"* && $said != *$'\n'* ]] || { echo "FAIL: $1: $said"; exit 1; }
    [ ! -e "$work/out" ] || { echo "FAIL: $1: it made something"; exit 1; }
    echo "ok: $1"
}
commit() {
    git -C "$work" -c user.name=a -c user.email=a@b commit -q --no-gpg-sign -am "$1"
}

refused "no clone" "a release is made in a clone"
printf '# Changes\n\n## %s\n\n## 0.0.1\n\n- One line.\n' "$version" >"$work/CHANGELOG.md"
git -C "$work" init -q
git -C "$work" add .
refused "files that are not committed" "changes that are not committed"
commit "all: one"
refused "a version without notes" "CHANGELOG.md has nothing below \"## $version\""
printf '# Changes\n\n## %s.1\n\n- One line.\n' "$version" >"$work/CHANGELOG.md"
commit "changes: another version"
refused "notes of another version" "CHANGELOG.md has nothing below \"## $version\""
