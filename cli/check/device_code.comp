/* SPDX-License-Identifier: Apache-2.0 */
/* device_code.comp: the kernel of the conformance suite for devices that run SPIR-V shaders. tools/shaders
   compiles it into generated/device_code_spirv.h, which is what the command is built with. */
#version 460
#extension GL_EXT_buffer_reference : require

layout(local_size_x_id = 0, local_size_y_id = 1, local_size_z_id = 2) in;

layout(buffer_reference, std430, buffer_reference_align = 4) buffer Words {
    uint at[];
};

/* Numbers of 64 bits, of which the lower half is enough. */
layout(push_constant, std430) uniform Arguments {
    Words to;
    Words from;
    uvec2 factor;
    uvec2 count;
};

/* to[i] = from[i] * factor + i, for whole groups. */
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < count.x) {
        to.at[i] = from.at[i] * factor.x + i;
    }
}
