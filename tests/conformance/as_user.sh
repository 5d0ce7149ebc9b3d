#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# as_user.sh VRAM: the suite and the ladder's script as an ordinary user runs them, who may lock little memory: nothing
# fails, and what needs more is skipped with a sentence. Whoever is root becomes nobody first; 77 where that cannot be.
set -u
user=""
if [ "$(id -u)" -eq 0 ]; then
    user="setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all"
    if ! $user true; then
        echo "skipped: cannot become an ordinary user (setpriv)"
        exit 77
    fi
fi
# A copy: that user may not be able to enter the build folder.
work=$(mktemp -d "${TMPDIR:-/tmp}/vram-user.XXXXXX")
trap 'rm -rf "$work"' EXIT
cp "$1" "$work/vram"
chmod 755 "$work" "$work/vram"

failed=0
# check KIB [CASE DIGITS]...: with a limit of KIB, or the lower one that is set already, these cases are skipped for it.
check() {
    kib=$1
    shift
    if ! (ulimit -l "$kib" 2>/dev/null; cd / && exec $user "$work/vram" check --backend host,sim) >"$work/said"; then
        echo "with $kib KiB the device is called unfit:"
        grep -v '^skipped' "$work/said"
        failed=1
    fi
    while [ $# -gt 0 ]; do
        if ! grep -qE "^skipped +$1: needs $2 KiB of locked memory \(ulimit -l\)\$" "$work/said"; then
            echo "with $kib KiB $1 is not skipped because it needs $2 KiB:"
            grep -F "$1:" "$work/said" || echo "    (it passed)"
            failed=1
        fi
        shift 2
    done
}
check 8192 compose.tight_sleep '[0-9]{5}'
check 64 compose.tight_sleep '[0-9]{5}' pinned.through '[0-9]{3}' sleep.contents '[0-9]{4}'
for backend in host sim; do
    if ! (ulimit -l 64 && cd / && exec $user "$work/vram" stress pressure --backend $backend) >"$work/said"; then
        grep -v '^ok' "$work/said"
        failed=1
    fi
done
exit $failed
