#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# silent.sh VRAM: what the driver's compiler says of code that is meant to be wrong stays out of `vram check`.
set -eu
said=$("$1" check --backend opencl --filter device_code 2>&1 >/dev/null)
if [ -n "$said" ]; then
    echo "FAIL: on standard error: $said"
    exit 1
fi
echo "nothing on standard error"
