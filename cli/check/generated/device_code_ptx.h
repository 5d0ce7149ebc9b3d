/* Made by tools/ptx from cli/check/device_code.cu with nvcc 13.0. */
/* SPDX-License-Identifier: Apache-2.0 */
/* device_code_ptx.h: the conformance suite's kernels, as PTX. */
#ifndef CHECK_GENERATED_DEVICE_CODE_PTX_H
#define CHECK_GENERATED_DEVICE_CODE_PTX_H

/* clang-format off */

static const char device_code_ptx[] =
    ".version 6.0\n"
    ".target sm_52\n"
    ".address_size 64\n"
    ".visible .entry vram_check_scale(\n"
    " .param .u64 vram_check_scale_param_0,\n"
    " .param .u64 vram_check_scale_param_1,\n"
    " .param .u64 vram_check_scale_param_2,\n"
    " .param .u64 vram_check_scale_param_3\n"
    ")\n"
    "{\n"
    " .reg .pred  %p<2>;\n"
    " .reg .b32  %r<8>;\n"
    " .reg .b64  %rd<13>;\n"
    " ld.param.u64  %rd2, [vram_check_scale_param_0];\n"
    " ld.param.u64  %rd3, [vram_check_scale_param_1];\n"
    " ld.param.u64  %rd4, [vram_check_scale_param_2];\n"
    " ld.param.u64  %rd5, [vram_check_scale_param_3];\n"
    " mov.u32  %r1, %ctaid.x;\n"
    " mov.u32  %r2, %ntid.x;\n"
    " mul.wide.u32  %rd6, %r1, %r2;\n"
    " mov.u32  %r3, %tid.x;\n"
    " cvt.u64.u32  %rd7, %r3;\n"
    " add.s64  %rd1, %rd6, %rd7;\n"
    " setp.ge.u64  %p1, %rd1, %rd5;\n"
    " @%p1 bra  $L__BB0_2;\n"
    " cvta.to.global.u64  %rd8, %rd3;\n"
    " shl.b64  %rd9, %rd1, 2;\n"
    " add.s64  %rd10, %rd8, %rd9;\n"
    " cvt.u32.u64  %r4, %rd4;\n"
    " ld.global.u32  %r5, [%rd10];\n"
    " cvt.u32.u64  %r6, %rd1;\n"
    " mad.lo.s32  %r7, %r5, %r4, %r6;\n"
    " cvta.to.global.u64  %rd11, %rd2;\n"
    " add.s64  %rd12, %rd11, %rd9;\n"
    " st.global.u32  [%rd12], %r7;\n"
    "$L__BB0_2:\n"
    " ret;\n"
    "}\n"
    ".visible .entry vram_check_gate(\n"
    " .param .u64 vram_check_gate_param_0,\n"
    " .param .u64 vram_check_gate_param_1\n"
    ")\n"
    "{\n"
    " .reg .pred  %p<4>;\n"
    " .reg .b32  %r<2>;\n"
    " .reg .b64  %rd<8>;\n"
    " ld.param.u64  %rd5, [vram_check_gate_param_0];\n"
    " ld.param.u64  %rd3, [vram_check_gate_param_1];\n"
    " cvta.to.global.u64  %rd1, %rd5;\n"
    " mov.u64 %rd4, %globaltimer;\n"
    "$L__BB1_1:\n"
    " mov.u64 %rd6, %globaltimer;\n"
    " ld.volatile.global.u32  %r1, [%rd1];\n"
    " setp.eq.s32  %p1, %r1, 0;\n"
    " sub.s64  %rd7, %rd6, %rd4;\n"
    " setp.lt.u64  %p2, %rd7, %rd3;\n"
    " and.pred   %p3, %p1, %p2;\n"
    " @%p3 bra  $L__BB1_1;\n"
    " ret;\n"
    "}\n";

/* clang-format on */

#endif
