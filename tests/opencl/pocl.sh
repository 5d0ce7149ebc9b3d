#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# pocl.sh VRAM CACHE COMMAND...: runs a command where VRAM sees PoCL and no other OpenCL device; 77 where
# there is none, with the reason.
set -eu
vram=$1
cache=$2
mkdir -p "$cache"
shift 2
icd=$(ls /etc/OpenCL/vendors/pocl*.icd 2>/dev/null | head -n 1)
if [ -z "$icd" ]; then
    echo "skipped: PoCL is not installed (pocl-opencl-icd)"
    exit 77
fi
# Threads enough for work that waits beside work that runs, on any machine.
export OCL_ICD_VENDORS="$icd" POCL_CACHE_DIR="$cache" POCL_MAX_PTHREAD_COUNT=4
if ! "$vram" info --backend opencl >/dev/null; then
    "$vram" info --backend opencl
    echo "skipped: the OpenCL loader does not show PoCL's device"
    exit 77
fi
exec "$@"
