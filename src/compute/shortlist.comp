/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shortlist.comp: the k best of each query, by products and by the vectors themselves, for Vulkan: vram_shortlist of
 * shortlist.cu. A group takes a query. A place in a list is two words: twice the number of the vector, or one more if
 * its key is only a bound; then the rank of the key, lower being better.
 */
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_GOOGLE_include_directive : require

#include "half.glsl"

layout(local_size_x = 256, local_size_y = 1, local_size_z = 1) in;

layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer Floats {
    float at[];
};
layout(buffer_reference, std430, buffer_reference_align = 8) buffer Places {
    uvec2 at[];
};

/* The arguments of vram_queue_launch, in their order. */
layout(push_constant, std430) uniform Arguments {
    Floats products;
    Floats queries;
    Floats corpus;
    Places best;
    Floats query;
    Floats vectors;
    Floats centre;
    uint columns, stride, k, place, dim, metric, precision_of, flags;
    float scale;
};

const uint GROUP = 256, CHUNK = 512, ROOM = 1024, NONE = 0xFFFFFFFFu;
const uint INNER = 2, COSINE = 3; /* of vram/distance.h */
const uint CENTRED = 1, EMPTY = 2, INTEGERS = 4; /* flags */
shared uvec2 room[ROOM];
shared vec4 sums[GROUP];
shared uint count;

#include "numbers.glsl"

uint rank_of(float key) {
    uint bits = key == 0 ? 0u : floatBitsToUint(key);
    return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

uint bound_of(float product, float term, float with, float error) {
    float value = (flags & INTEGERS) != 0 ? float(floatBitsToInt(product)) : product;
    float key = metric == COSINE ? 1.0 - error - value * term * with
                : metric == INNER ? term + with - value
                                  : max(term + with - 2.0 * value, 0.0);
    return rank_of(key);
}

vec4 sums_of_team(vec4 sum) {
    uint thread = gl_LocalInvocationID.x, lane = thread % 32;
    barrier();
    sums[thread] = sum;
    for (uint step = 16; step > 0; step /= 2) {
        barrier();
        if (lane < step) {
            sums[thread] += sums[thread + step];
        }
    }
    barrier();
    return sums[thread - lane];
}

/* The key of a vector, by 32 invocations; `wanted` is the same for them. */
float key_of(uint column, bool wanted) {
    uint lane = gl_LocalInvocationID.x % 32, beyond = 0, end = wanted ? dim : 0;
    uint first = gl_WorkGroupID.x * dim, second = column * dim;
    vec4 sum = vec4(0), all = vec4(0);
    float part = 0;
    bool odd = false;
    for (uint pass = metric == COSINE ? 0 : 1; pass < 2; pass++) {
        for (uint at = lane; at < end; at += 32) {
            float q = taken(query.at[first + at], odd, beyond), c = taken(vectors.at[second + at], odd, beyond);
            if (pass == 0) {
                sum += vec4(0, (c - q) * (c + q), q * q, c * c);
            } else if (metric == INNER) {
                sum.x -= q * ((flags & CENTRED) != 0 ? c - centre.at[at] : c);
            } else {
                precise float x = q - c + part * c;
                sum.x += x * x;
            }
        }
        all = sums_of_team(sum);
        part = pass == 0 ? all.y / (sqrt(all.w) * (sqrt(all.w) + sqrt(all.z))) : 0;
    }
    return metric != COSINE ? all.x : all.z > 0 && all.w > 0 ? 0.5 * all.x / all.z : 1.0;
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

/* Makes the first k of [0, filled) the best, in order, with keys and no bounds. */
void settle(uint filled) {
    uint thread = gl_LocalInvocationID.x, end = 32, here = filled;
    uvec2 next = uvec2(NONE, NONE);
    while (end < k + 8) {
        end *= 2;
    }
    for (bool many = filled > end;; many = false) {
        for (uint i = thread / 32; i < (many ? 0 : (here + 7) / 8 * 8); i += GROUP / 32) {
            uvec2 word = i < here ? room[i] : uvec2(0);
            bool bound = (word.x & 1) != 0 && word.y != NONE;
            float key = key_of(bound ? (word.x >> 1) - place : 0, bound);
            if (bound && thread % 32 == 0) {
                room[i] = uvec2(word.x & ~1u, rank_of(key));
            }
        }
        barrier();
        sort(here);
        if (!many && !above(room[k - 1], next)) {
            return;
        }
        end *= many ? 1 : 2;
        here = min(end, filled);
        next = end < filled ? room[end] : uvec2(NONE, NONE);
        barrier();
    }
}

void main() {
    uint thread = gl_LocalInvocationID.x, filled = k;
    uint row = gl_WorkGroupID.x * stride, list = gl_WorkGroupID.x * k;
    float term = queries.at[gl_WorkGroupID.x], error = float(dim + 8) * 2.384185791015625e-07;
    for (uint i = thread; i < k; i += GROUP) {
        room[i] = (flags & EMPTY) != 0 ? uvec2(NONE, NONE) : best.at[list + i];
    }
    if (thread == 0) {
        count = k;
    }
    barrier();
    uint worst = room[k - 1].y;
    for (uint begin = 0; begin < columns; begin += CHUNK) {
        for (uint at = begin + thread; at < begin + CHUNK && at < columns; at += GROUP) {
            uint rank = bound_of(products.at[row + at], term, corpus.at[at], error);
            if (rank < worst) {
                room[atomicAdd(count, 1)] = uvec2((place + at) << 1 | 1, rank);
            }
        }
        barrier();
        filled = count;
        barrier();
        if (filled > k && (filled + CHUNK > ROOM || begin + CHUNK >= columns)) {
            settle(filled);
            worst = room[k - 1].y;
            barrier();
            if (thread == 0) {
                count = k;
            }
            barrier();
        }
    }
    for (uint i = thread; i < k; i += GROUP) {
        best.at[list + i] = room[i];
    }
}
