/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scatter_ptx.h: many small copies as one launch, as PTX, made from scatter.cu.
 *
 * Written by tools/ptx with nvcc 13.0; change the source, not this file.
 */
#ifndef XFER_SCATTER_PTX_H
#define XFER_SCATTER_PTX_H

/* clang-format off */

static const char scatter_ptx[] =
    ".version 6.0\n"
    ".target sm_52\n"
    ".address_size 64\n"
    ".visible .entry vram_scatter(\n"
    " .param .u64 vram_scatter_param_0,\n"
    " .param .u64 vram_scatter_param_1\n"
    ")\n"
    "{\n"
    " .reg .pred  %p<8>;\n"
    " .reg .b16  %rs<2>;\n"
    " .reg .b32  %r<13>;\n"
    " .reg .b64  %rd<31>;\n"
    " ld.param.u64  %rd17, [vram_scatter_param_0];\n"
    " ld.param.u64  %rd18, [vram_scatter_param_1];\n"
    " mov.u32  %r1, %ctaid.x;\n"
    " cvt.u64.u32  %rd28, %r1;\n"
    " setp.ge.u64  %p1, %rd28, %rd18;\n"
    " @%p1 bra  $L__BB0_10;\n"
    " mov.u32  %r2, %tid.x;\n"
    " cvt.u64.u32  %rd2, %r2;\n"
    " mul.wide.u32  %rd3, %r2, 16;\n"
    " mov.u32  %r3, %nctaid.x;\n"
    " cvt.u64.u32  %rd4, %r3;\n"
    " mov.u32  %r4, %ntid.x;\n"
    " cvt.u64.u32  %rd5, %r4;\n"
    " mul.wide.u32  %rd6, %r4, 16;\n"
    " cvta.to.global.u64  %rd7, %rd17;\n"
    "$L__BB0_2:\n"
    " mul.lo.s64  %rd19, %rd28, 24;\n"
    " add.s64  %rd20, %rd7, %rd19;\n"
    " ld.global.u64  %rd9, [%rd20+8];\n"
    " ld.global.u64  %rd10, [%rd20];\n"
    " or.b64   %rd21, %rd9, %rd10;\n"
    " ld.global.u64  %rd11, [%rd20+16];\n"
    " or.b64   %rd22, %rd21, %rd11;\n"
    " and.b64   %rd23, %rd22, 15;\n"
    " setp.eq.s64  %p2, %rd23, 0;\n"
    " @%p2 bra  $L__BB0_6;\n"
    " setp.le.u64  %p3, %rd11, %rd2;\n"
    " @%p3 bra  $L__BB0_9;\n"
    " mov.u64  %rd29, %rd2;\n"
    "$L__BB0_5:\n"
    " add.s64  %rd24, %rd29, %rd9;\n"
    " ld.u8  %rs1, [%rd24];\n"
    " add.s64  %rd25, %rd29, %rd10;\n"
    " st.u8  [%rd25], %rs1;\n"
    " add.s64  %rd29, %rd29, %rd5;\n"
    " setp.lt.u64  %p4, %rd29, %rd11;\n"
    " @%p4 bra  $L__BB0_5;\n"
    " bra.uni  $L__BB0_9;\n"
    "$L__BB0_6:\n"
    " setp.ge.u64  %p5, %rd3, %rd11;\n"
    " @%p5 bra  $L__BB0_9;\n"
    " mov.u64  %rd30, %rd3;\n"
    "$L__BB0_8:\n"
    " add.s64  %rd26, %rd30, %rd9;\n"
    " add.s64  %rd27, %rd30, %rd10;\n"
    " ld.v4.u32  {%r5, %r6, %r7, %r8}, [%rd26];\n"
    " st.v4.u32  [%rd27], {%r5, %r6, %r7, %r8};\n"
    " add.s64  %rd30, %rd30, %rd6;\n"
    " setp.lt.u64  %p6, %rd30, %rd11;\n"
    " @%p6 bra  $L__BB0_8;\n"
    "$L__BB0_9:\n"
    " add.s64  %rd28, %rd28, %rd4;\n"
    " setp.lt.u64  %p7, %rd28, %rd18;\n"
    " @%p7 bra  $L__BB0_2;\n"
    "$L__BB0_10:\n"
    " ret;\n"
    "}\n";

/* clang-format on */

#endif
