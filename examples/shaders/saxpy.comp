/* SPDX-License-Identifier: Apache-2.0 */
/* saxpy.comp: y = a * x + y. Memory comes by address, and the size of a group by the launch. */
#version 460
#extension GL_EXT_buffer_reference : require

layout(local_size_x_id = 0, local_size_y_id = 1, local_size_z_id = 2) in;

layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats {
    float at[];
};

/* The arguments of vram_queue_launch, in their order. */
layout(push_constant, std430) uniform Arguments {
    Floats y;
    Floats x;
    float a;
    uint count;
};

void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < count) {
        y.at[i] = a * x.at[i] + y.at[i];
    }
}
