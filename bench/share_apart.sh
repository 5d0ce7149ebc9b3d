#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# bench/share_apart.sh EXAMPLE DIR: runs example 24_share as two processes in user, mount and pid namespaces of their
# own, as two containers are, which meet in DIR. Side by side where the machine allows no namespaces, and says so.
# Exit code 0 when each has read what the other wrote.
set -uo pipefail

example=$(realpath "$1")
meet=$2
apart=(unshare --user --map-root-user --mount --pid --fork)
if ! "${apart[@]}" true 2>/dev/null; then
    echo "no namespaces on this machine: side by side instead"
    apart=(env)
fi
export VRAM_SHARE_DIR=$meet

# The exporter reads its input until that is closed: descriptor 9 here.
mkfifo "$meet/input" || exit 2
"${apart[@]}" "$example" serve weights <"$meet/input" >"$meet/exporter.txt" &
exporter=$!
exec 9>"$meet/input"
for _ in $(seq 300); do
    [ -e "$meet/vram-n-weights" ] && break
    sleep 0.1
done
read_by_other=$("${apart[@]}" "$example" open weights 9>&-)
exec 9>&-
wait "$exporter"
read_by_owner=$(cat "$meet/exporter.txt")
rm -f "$meet/input" "$meet/exporter.txt"
echo "$read_by_other; $read_by_owner"
[ "$read_by_other" = "the other process reads 1234" ] && [ "$read_by_owner" = "the exporter reads 5678" ]
