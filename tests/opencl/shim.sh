#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# shim.sh VRAM: the conformance suite on a real OpenCL driver behind the shim, with one call after the
# other made to fail. Cases may fail then; the command says so (exit code 1), or that the backend is
# absent (2), and never dies or hangs. Without a plan everything passes.
set -eu
vram=$1
runs=0
run() { # EXPECTED-CODES PLAN CASES
    code=0
    SHIM_FAIL=$2 timeout 100 "$vram" check --backend opencl --filter "$3" >/dev/null 2>&1 || code=$?
    case " $1 " in
    *" $code "*) ;;
    *)
        echo "SHIM_FAIL=$2: exit code $code"
        exit 1
        ;;
    esac
    runs=$((runs + 1))
}
run "0" "" transfer
for call in clGetPlatformIDs clGetDeviceIDs clGetDeviceInfo clCreateContext clCreateCommandQueue \
    clCreateBuffer clEnqueueWriteBuffer clEnqueueReadBuffer clEnqueueCopyBuffer \
    clEnqueueMarkerWithWaitList clSetEventCallback clFlush clFinish clReleaseMemObject \
    clReleaseCommandQueue clReleaseContext clReleaseEvent clGetEventInfo; do
    for plan in 1:-5 2:-6:forever; do
        run "0 1 2" "$call:$plan" transfer
    done
done
# Rows that the driver refuses for their pitch go one by one; any other refusal is told.
for call in clEnqueueWriteBufferRect clEnqueueReadBufferRect clEnqueueCopyBufferRect; do
    run "1" "$call:1:-5" strategy.rectangles
    run "0" "$call:1:-30:forever" strategy.rectangles
done
echo "$runs plans over the real driver"
