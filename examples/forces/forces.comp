/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forces.comp: a step of the layout for Vulkan, line for line what forces_body.h says in C. Memory comes by
 * address, and the size of a group by the launch. tools/shaders compiles it into generated/forces_spirv.h.
 */
#version 460
#extension GL_EXT_buffer_reference : require

layout(local_size_x_id = 0, local_size_y_id = 1, local_size_z_id = 2) in;

layout(buffer_reference, std430, buffer_reference_align = 4) buffer Ints {
    int at[];
};

layout(buffer_reference, std430, buffer_reference_align = 4) buffer Uints {
    uint at[];
};

/* The arguments of vram_queue_launch, in their order. */
layout(push_constant, std430) uniform Arguments {
    Ints positions;
    Ints velocities;
    Ints forces;
    Uints offsets;
    Uints edges;
    Uints cells;
    Uints result;
    uint count;
    uint bits;
    uint stage;
};

const uint WORLD_BITS = 21;
const int HALF = 1 << 20;

/*
 * value / divisor, for values below 2^31, by single precision: what it leaves is divided once more, and then at most
 * one is missing or too much. llvmpipe of Mesa 22.3 makes instructions of the operator / that not every aarch64
 * processor has (SVE).
 */
uint divide(uint value, uint divisor) {
    uint result = uint(float(value) / float(divisor));
    int left = int(value - result * divisor);
    result += uint(int(floor(float(left) / float(divisor))));
    left = int(value - result * divisor);
    return left < 0 ? result - 1 : uint(left) >= divisor ? result + 1 : result;
}

int quotient(int value, uint divisor) {
    return value < 0 ? -int(divide(uint(-value), divisor)) : int(divide(uint(value), divisor));
}

void count_node(uint i) {
    uint shift = WORLD_BITS - bits;
    uint x = uint(positions.at[2 * i] + HALF);
    uint y = uint(positions.at[2 * i + 1] + HALF);
    uint cell = 3 * (((y >> shift) << bits) + (x >> shift));
    atomicAdd(cells.at[cell], 1u);
    atomicAdd(cells.at[cell + 1], (x >> (shift - 8)) & 255u);
    atomicAdd(cells.at[cell + 2], (y >> (shift - 8)) & 255u);
}

void gather(uint i) {
    int x = positions.at[2 * i];
    int y = positions.at[2 * i + 1];
    ivec2 pull = ivec2(0);
    uint first = offsets.at[i];
    uint last = offsets.at[i + 1];
    for (uint e = first; e < last; e++) {
        uint j = edges.at[e];
        pull += ivec2(positions.at[2 * j] - x, positions.at[2 * j + 1] - y);
    }
    uint shift = WORLD_BITS - bits;
    int side = 1 << bits;
    int cell_x = int(uint(x + HALF) >> shift);
    int cell_y = int(uint(y + HALF) >> shift);
    int in_x = int((uint(x + HALF) >> (shift - 8)) & 255u);
    int in_y = int((uint(y + HALF) >> (shift - 8)) & 255u);
    ivec2 push = ivec2(0);
    for (int dy = -1; dy <= 1; dy++) {
        for (int dx = -1; dx <= 1; dx++) {
            if (cell_x + dx < 0 || cell_x + dx >= side || cell_y + dy < 0 || cell_y + dy >= side) {
                continue;
            }
            uint cell = 3 * (uint(cell_y + dy) * uint(side) + uint(cell_x + dx));
            uint self = dx == 0 && dy == 0 ? 1u : 0u;
            uint others = cells.at[cell] - self;
            if (others == 0) {
                continue;
            }
            int away_x = in_x - 256 * dx - int(divide(cells.at[cell + 1] - self * uint(in_x), others));
            int away_y = in_y - 256 * dy - int(divide(cells.at[cell + 2] - self * uint(in_y), others));
            int weight = int(min(others, 1024u)) * 1024;
            uint distance = uint(away_x * away_x + away_y * away_y) + 64u;
            push += ivec2(quotient(away_x * weight, distance), quotient(away_y * weight, distance));
        }
    }
    int unit = 1 << (shift - 8);
    uint springs = 4u * (last - first) + 1u;
    forces.at[2 * i] = quotient(pull.x, springs) - quotient(x, 64u) + quotient(push.x * unit, 16u);
    forces.at[2 * i + 1] =
        quotient(pull.y, springs) - quotient(y, 64u) + quotient(push.y * unit, 16u);
}

void move(uint i) {
    int limit = 1 << (WORLD_BITS - 1 - bits);
    for (uint k = 2 * i; k < 2 * i + 2; k++) {
        int speed = clamp(quotient((velocities.at[k] + forces.at[k]) * 3, 4u), -limit, limit);
        velocities.at[k] = speed;
        positions.at[k] = clamp(positions.at[k] + speed, -HALF, HALF - 1);
    }
}

void measure(uint i) {
    int x = positions.at[2 * i];
    int y = positions.at[2 * i + 1];
    uint mix_ = uint(x) * 2654435761u ^ uint(y) * 2246822519u;
    mix_ = (mix_ ^ mix_ >> 15) * (2u * i + 3266489917u);
    atomicAdd(result.at[0], mix_ ^ mix_ >> 13);
    atomicAdd(result.at[1], (uint(abs(x)) + uint(abs(y))) >> 11);
}

void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i >= count) {
        return;
    }
    if (stage == 0) {
        count_node(i);
    } else if (stage == 1) {
        gather(i);
    } else if (stage == 2) {
        move(i);
    } else {
        measure(i);
    }
}
