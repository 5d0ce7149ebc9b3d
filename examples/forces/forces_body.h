/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forces_body.h: what a node of the layout does in one step, in the common subset of C, CUDA C,
 * HIP, OpenCL C and Metal's language. (GLSL has no pointers: forces.comp repeats this code.)
 *
 * The including file defines
 *
 *   FORCES_CODE(...)     expands to the text itself, or to a string of it
 *
 * and, if it compiles the text,
 *
 *   FORCES_FN            in front of a function
 *   FORCES_GLOBAL        in front of a pointer into device memory
 *   FORCES_ADD(p, v)     adds to an unsigned number that other items add to as well
 *
 * All numbers are whole numbers of 32 bits, division rounds towards zero, and sums do not depend on
 * their order. So every device has the same bits after every step, and tests check that.
 *
 * The world is a square with sides of 2^21 units and 0 in its middle, divided into 2^bits cells per
 * side. A step has three stages, each a launch over all nodes, and a fourth that measures:
 *
 *   0 count    each node adds itself to its cell: the number of nodes, and the sums of their
 *              positions in it
 *   1 gather   springs pull a node to the mean of its neighbours, the centre of the world pulls it,
 *              and the mean positions of the nine cells around push it away: O(1) per node, because
 *              a cell stands for all nodes in it
 *   2 move     speed, with friction and a limit, and the new position
 *   3 measure  a checksum of all positions, and how far they are from the middle
 */
/* clang-format off */
FORCES_CODE(
enum {
    FORCES_WORLD_BITS = 21,
    FORCES_HALF = 1 << 20
};

FORCES_FN int forces_quotient(int value, unsigned divisor) {
    return value < 0 ? -(int)((unsigned)-value / divisor) : (int)((unsigned)value / divisor);
}

FORCES_FN int forces_clamp(int value, int low, int high) {
    return value < low ? low : value > high ? high : value;
}

FORCES_FN void forces_count(unsigned i, FORCES_GLOBAL const int *positions,
                            FORCES_GLOBAL unsigned *cells, unsigned bits) {
    unsigned shift = FORCES_WORLD_BITS - bits;
    unsigned x = (unsigned)(positions[2 * i] + FORCES_HALF);
    unsigned y = (unsigned)(positions[2 * i + 1] + FORCES_HALF);
    FORCES_GLOBAL unsigned *cell = cells + 3 * (((y >> shift) << bits) + (x >> shift));
    FORCES_ADD(cell, 1u);
    FORCES_ADD(cell + 1, (x >> (shift - 8)) & 255u);
    FORCES_ADD(cell + 2, (y >> (shift - 8)) & 255u);
}

FORCES_FN void forces_gather(unsigned i, FORCES_GLOBAL const int *positions,
                             FORCES_GLOBAL int *forces, FORCES_GLOBAL const unsigned *offsets,
                             FORCES_GLOBAL const unsigned *edges,
                             FORCES_GLOBAL const unsigned *cells, unsigned bits) {
    int x = positions[2 * i];
    int y = positions[2 * i + 1];
    int pull_x = 0;
    int pull_y = 0;
    unsigned degree = offsets[i + 1] - offsets[i];
    for (unsigned e = offsets[i]; e < offsets[i + 1]; e++) {
        pull_x += positions[2 * edges[e]] - x;
        pull_y += positions[2 * edges[e] + 1] - y;
    }
    unsigned shift = FORCES_WORLD_BITS - bits;
    int side = 1 << bits;
    int cell_x = (int)((unsigned)(x + FORCES_HALF) >> shift);
    int cell_y = (int)((unsigned)(y + FORCES_HALF) >> shift);
    int in_x = (int)(((unsigned)(x + FORCES_HALF) >> (shift - 8)) & 255u);
    int in_y = (int)(((unsigned)(y + FORCES_HALF) >> (shift - 8)) & 255u);
    int push_x = 0;
    int push_y = 0;
    for (int dy = -1; dy <= 1; dy++) {
        for (int dx = -1; dx <= 1; dx++) {
            if (cell_x + dx < 0 || cell_x + dx >= side || cell_y + dy < 0 || cell_y + dy >= side) {
                continue;
            }
            FORCES_GLOBAL const unsigned *cell =
                cells + 3 * ((unsigned)(cell_y + dy) * (unsigned)side + (unsigned)(cell_x + dx));
            unsigned self = dx == 0 && dy == 0 ? 1u : 0u;
            unsigned others = cell[0] - self;
            if (others == 0) {
                continue;
            }
            int away_x = in_x - 256 * dx - (int)((cell[1] - self * (unsigned)in_x) / others);
            int away_y = in_y - 256 * dy - (int)((cell[2] - self * (unsigned)in_y) / others);
            int weight = (int)(others < 1024u ? others : 1024u) * 1024;
            unsigned distance = (unsigned)(away_x * away_x + away_y * away_y) + 64u;
            push_x += forces_quotient(away_x * weight, distance);
            push_y += forces_quotient(away_y * weight, distance);
        }
    }
    int unit = 1 << (shift - 8);
    forces[2 * i] = forces_quotient(pull_x, 4u * degree + 1u) - forces_quotient(x, 64u) +
                    forces_quotient(push_x * unit, 16u);
    forces[2 * i + 1] = forces_quotient(pull_y, 4u * degree + 1u) - forces_quotient(y, 64u) +
                        forces_quotient(push_y * unit, 16u);
}

FORCES_FN void forces_move(unsigned i, FORCES_GLOBAL int *positions, FORCES_GLOBAL int *velocities,
                           FORCES_GLOBAL const int *forces, unsigned bits) {
    int limit = 1 << (FORCES_WORLD_BITS - 1 - bits);
    for (unsigned k = 2 * i; k < 2 * i + 2; k++) {
        int speed = forces_quotient((velocities[k] + forces[k]) * 3, 4u);
        velocities[k] = forces_clamp(speed, -limit, limit);
        positions[k] = forces_clamp(positions[k] + velocities[k], -FORCES_HALF, FORCES_HALF - 1);
    }
}

FORCES_FN void forces_measure(unsigned i, FORCES_GLOBAL const int *positions,
                              FORCES_GLOBAL unsigned *result) {
    int x = positions[2 * i];
    int y = positions[2 * i + 1];
    unsigned mix = (unsigned)x * 2654435761u ^ (unsigned)y * 2246822519u;
    mix = (mix ^ mix >> 15) * (2u * i + 3266489917u);
    FORCES_ADD(result, mix ^ mix >> 13);
    FORCES_ADD(result + 1, ((unsigned)(x < 0 ? -x : x) + (unsigned)(y < 0 ? -y : y)) >> 11);
}

FORCES_FN void forces_stage(unsigned i, FORCES_GLOBAL int *positions, FORCES_GLOBAL int *velocities,
                            FORCES_GLOBAL int *forces, FORCES_GLOBAL const unsigned *offsets,
                            FORCES_GLOBAL const unsigned *edges, FORCES_GLOBAL unsigned *cells,
                            FORCES_GLOBAL unsigned *result, unsigned bits, unsigned stage) {
    if (stage == 0) {
        forces_count(i, positions, cells, bits);
    } else if (stage == 1) {
        forces_gather(i, positions, forces, offsets, edges, cells, bits);
    } else if (stage == 2) {
        forces_move(i, positions, velocities, forces, bits);
    } else {
        forces_measure(i, positions, result);
    }
}
)
/* clang-format on */
