/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checker.h: what --verify does: every block is filled with a pattern of its own on its queue, and
 * read back and compared before it is freed.
 *
 * Nothing waits for the device until the buffers are used up: blocks are read in pieces into a ring
 * of them, and a piece is compared when its buffer is needed again. So a host that runs ahead still
 * does so under the eyes of the checker.
 *
 * Where the device can compare by itself (scanner.h) nothing is read back but the count.
 */
#ifndef REPLAY_CHECKER_H
#define REPLAY_CHECKER_H

#include "scanner.h"

enum { CHECKER_BUFFERS = 64, CHECKER_BUFFER_MAX = 1 << 20, CHECKER_BUFFER_ALIGN = 4096 };

/* A piece of a block on its way. */
struct checker_piece {
    vram_point point; /* when it has arrived */
    uint64_t bytes;   /* 0: the buffer is free */
    uint64_t body;    /* bytes of it that the pattern fills; the rest repeats its first byte */
    uint32_t pattern;
};

struct checker {
    struct place *place;
    struct scanner *scanner; /* NULL: what follows is used instead */
    uint8_t *memory;         /* CHECKER_BUFFERS buffers one behind the other, */
    uint64_t buffer_bytes;   /* each of that size */
    vram_addr pinned;        /* the same when it is page-locked; 0: it is from malloc */
    struct checker_piece pieces[CHECKER_BUFFERS];
    uint32_t next; /* the buffer used longest ago */
    uint64_t mismatched_bytes;
};

/* No block that is checked has more than `largest` bytes. */
vram_status checker_begin(struct checker *checker, struct place *place, uint64_t largest);
void checker_end(struct checker *checker);

/* Has `queue` write the block's pattern to its first `bytes`. */
vram_status checker_fill(struct place *place, const struct replay_block *block, uint32_t queue,
                         uint64_t bytes);

/* Reads the block back, on its own queue. */
vram_status checker_check(struct checker *checker, const struct replay_block *block);

/* Compares all that is still on its way. */
vram_status checker_settle(struct checker *checker);

/* How many of `bytes` bytes are not as the pattern says; the first `body` repeat its four bytes. */
uint64_t checker_compare(const uint8_t *memory, uint64_t bytes, uint64_t body, uint32_t pattern);

#endif
