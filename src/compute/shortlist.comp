/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shortlist.comp: products turned into distances, and the k best of each query kept, for Vulkan: vram_shortlist of
 * shortlist.cu. A group takes a query. A place in a list is two words: the number of the vector, then how
 * good it is, lower being better.
 */
#version 460
#extension GL_EXT_buffer_reference : require

layout(local_size_x = 256, local_size_y = 1, local_size_z = 1) in;

layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer Floats {
    float at[];
};
layout(buffer_reference, std430, buffer_reference_align = 8) buffer Places {
    uvec2 at[];
};

/* The arguments of vram_queue_launch, in their order. flags: 1 the list is empty, 2 vectors are of 8 bits. */
layout(push_constant, std430) uniform Arguments {
    Floats products;
    Floats queries;
    Floats corpus;
    Places best;
    uint columns, stride, k, place, metric, flags;
};

const uint GROUP = 256, CHUNK = 512, ROOM = 1024, NONE = 0xFFFFFFFFu;
const uint L2 = 1, INNER = 2, COSINE = 3; /* of vram/distance.h */
shared uvec2 room[ROOM];
shared uint count;

uint rank_of(float product, float query, float vector, float scale) {
    float value = product * scale;
    if (metric == COSINE) {
        value = 1.0 - product * query * vector;
    } else if (metric != INNER) {
        value = max((query + vector - 2.0 * product) * scale, 0.0);
        value = metric == L2 ? sqrt(value) : value;
    }
    uint bits = value == 0 ? 0u : floatBitsToUint(value);
    bits = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
    return metric == INNER ? ~bits : bits;
}

bool above(uvec2 a, uvec2 b) {
    return a.y != b.y ? a.y > b.y : a.x > b.x;
}

void sort(uint filled) {
    uint thread = gl_LocalInvocationID.x, size = 2;
    while (size < filled) {
        size *= 2;
    }
    for (uint i = filled + thread; i < size; i += GROUP) {
        room[i] = uvec2(NONE, NONE);
    }
    barrier();
    for (uint width = 2; width <= size; width *= 2) {
        for (uint step = width / 2; step > 0; step /= 2) {
            for (uint i = thread; i < size / 2; i += GROUP) {
                uint low = 2 * i - (i & (step - 1)), high = low + step;
                uvec2 a = room[low], b = room[high];
                if (above(a, b) == ((low & width) == 0)) {
                    room[low] = b;
                    room[high] = a;
                }
            }
            barrier();
        }
    }
}

void main() {
    uint thread = gl_LocalInvocationID.x, filled = k;
    uint row = gl_WorkGroupID.x * stride, list = gl_WorkGroupID.x * k;
    float query = queries.at[gl_WorkGroupID.x];
    float scale = (flags & 2) != 0 ? 1.0 / 16129.0 : 1.0;
    for (uint i = thread; i < k; i += GROUP) {
        room[i] = (flags & 1) != 0 ? uvec2(NONE, NONE) : best.at[list + i];
    }
    if (thread == 0) {
        count = k;
    }
    barrier();
    uint worst = room[k - 1].y;
    for (uint begin = 0; begin < columns; begin += CHUNK) {
        for (uint at = begin + thread; at < begin + CHUNK && at < columns; at += GROUP) {
            uint rank = rank_of(products.at[row + at], query, corpus.at[at], scale);
            if (rank < worst) {
                room[atomicAdd(count, 1)] = uvec2(place + at, rank);
            }
        }
        barrier();
        filled = count;
        barrier();
        if (filled + CHUNK > ROOM) {
            sort(filled);
            worst = room[k - 1].y;
            filled = k;
            if (thread == 0) {
                count = k;
            }
            barrier();
        }
    }
    if (filled > k) {
        sort(filled);
    }
    for (uint i = thread; i < k; i += GROUP) {
        best.at[list + i] = room[i];
    }
}
