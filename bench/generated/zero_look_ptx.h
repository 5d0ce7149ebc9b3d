/* Made by tools/ptx from bench/zero_look.cu with nvcc 13.0. */
/* SPDX-License-Identifier: Apache-2.0 */
/* zero_look_ptx.h: every byte of a block looked at, as PTX. */
#ifndef GENERATED_ZERO_LOOK_PTX_H
#define GENERATED_ZERO_LOOK_PTX_H

/* clang-format off */

static const char zero_look_ptx[] =
    ".version 6.0\n"
    ".target sm_52\n"
    ".address_size 64\n"
    ".visible .entry zero_look(\n"
    " .param .u64 zero_look_param_0,\n"
    " .param .u64 zero_look_param_1,\n"
    " .param .u64 zero_look_param_2\n"
    ")\n"
    "{\n"
    " .reg .pred  %p<4>;\n"
    " .reg .b16  %rs<3>;\n"
    " .reg .b32  %r<5>;\n"
    " .reg .b64  %rd<34>;\n"
    " ld.param.u64  %rd13, [zero_look_param_0];\n"
    " ld.param.u64  %rd14, [zero_look_param_1];\n"
    " ld.param.u64  %rd15, [zero_look_param_2];\n"
    " mov.u32  %r1, %ntid.x;\n"
    " cvt.u64.u32  %rd1, %r1;\n"
    " mov.u32  %r2, %ctaid.x;\n"
    " mul.wide.u32  %rd18, %r2, %r1;\n"
    " mov.u32  %r3, %tid.x;\n"
    " cvt.u64.u32  %rd19, %r3;\n"
    " add.s64  %rd29, %rd18, %rd19;\n"
    " setp.ge.u64  %p1, %rd29, %rd14;\n"
    " mov.u64  %rd32, 0;\n"
    " mov.u64  %rd33, %rd32;\n"
    " @%p1 bra  $L__BB0_3;\n"
    " mov.u32  %r4, %nctaid.x;\n"
    " cvt.u64.u32  %rd22, %r4;\n"
    " mul.lo.s64  %rd3, %rd22, %rd1;\n"
    " cvta.to.global.u64  %rd4, %rd13;\n"
    " mov.u64  %rd33, 0;\n"
    " mov.u64  %rd32, %rd33;\n"
    "$L__BB0_2:\n"
    " add.s64  %rd32, %rd32, 1;\n"
    " add.s64  %rd23, %rd4, %rd29;\n"
    " ld.global.u8  %rs1, [%rd23];\n"
    " setp.ne.s16  %p2, %rs1, 0;\n"
    " selp.u64  %rd24, 1, 0, %p2;\n"
    " add.s64  %rd33, %rd33, %rd24;\n"
    " mov.u16  %rs2, 165;\n"
    " st.global.u8  [%rd23], %rs2;\n"
    " add.s64  %rd29, %rd29, %rd3;\n"
    " setp.lt.u64  %p3, %rd29, %rd14;\n"
    " @%p3 bra  $L__BB0_2;\n"
    "$L__BB0_3:\n"
    " cvta.to.global.u64  %rd25, %rd15;\n"
    " atom.global.add.u64  %rd26, [%rd25], %rd32;\n"
    " add.s64  %rd27, %rd25, 8;\n"
    " atom.global.add.u64  %rd28, [%rd27], %rd33;\n"
    " ret;\n"
    "}\n";

/* clang-format on */

#endif
