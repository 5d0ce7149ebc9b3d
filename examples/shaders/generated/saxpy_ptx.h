/* Made by tools/ptx from examples/shaders/saxpy.cu with nvcc 13.0. */
/* SPDX-License-Identifier: Apache-2.0 */
/* saxpy_ptx.h: y = a * x + y, as PTX. */
#ifndef SHADERS_GENERATED_SAXPY_PTX_H
#define SHADERS_GENERATED_SAXPY_PTX_H

/* clang-format off */

static const char saxpy_ptx[] =
    ".version 6.0\n"
    ".target sm_52\n"
    ".address_size 64\n"
    ".visible .entry saxpy(\n"
    " .param .u64 saxpy_param_0,\n"
    " .param .u64 saxpy_param_1,\n"
    " .param .f32 saxpy_param_2,\n"
    " .param .u32 saxpy_param_3\n"
    ")\n"
    "{\n"
    " .reg .pred  %p<2>;\n"
    " .reg .f32  %f<5>;\n"
    " .reg .b32  %r<6>;\n"
    " .reg .b64  %rd<8>;\n"
    " ld.param.u64  %rd1, [saxpy_param_0];\n"
    " ld.param.u64  %rd2, [saxpy_param_1];\n"
    " ld.param.f32  %f1, [saxpy_param_2];\n"
    " ld.param.u32  %r2, [saxpy_param_3];\n"
    " mov.u32  %r3, %ctaid.x;\n"
    " mov.u32  %r4, %ntid.x;\n"
    " mov.u32  %r5, %tid.x;\n"
    " mad.lo.s32  %r1, %r3, %r4, %r5;\n"
    " setp.ge.u32  %p1, %r1, %r2;\n"
    " @%p1 bra  $L__BB0_2;\n"
    " cvta.to.global.u64  %rd3, %rd1;\n"
    " cvta.to.global.u64  %rd4, %rd2;\n"
    " mul.wide.u32  %rd5, %r1, 4;\n"
    " add.s64  %rd6, %rd4, %rd5;\n"
    " ld.global.f32  %f2, [%rd6];\n"
    " add.s64  %rd7, %rd3, %rd5;\n"
    " ld.global.f32  %f3, [%rd7];\n"
    " fma.rn.f32  %f4, %f2, %f1, %f3;\n"
    " st.global.f32  [%rd7], %f4;\n"
    "$L__BB0_2:\n"
    " ret;\n"
    "}\n";

/* clang-format on */

#endif
