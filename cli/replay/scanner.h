/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scanner.h: compares blocks with their patterns on the device itself, where that can be done.
 *
 * Reading everything back takes minutes for traces that allocate terabytes; a GPU compares at the
 * speed of its memory, so that even a paced replay keeps to its times while every byte is checked.
 * The code is PTX, so only CUDA devices are served.
 */
#ifndef REPLAY_SCANNER_H
#define REPLAY_SCANNER_H

#include "policy.h"

struct scanner;

/* NULL where the device runs no code of ours, or counts wrong in a trial with known differences. */
struct scanner *scanner_open(struct place *place);
void scanner_close(struct scanner *scanner);

/* Has a queue count the bytes that are not as the pattern says; the first `body` of the `bytes`
   repeat its four bytes, the rest its first. */
vram_status scanner_look(struct scanner *scanner, uint32_t queue, vram_addr addr, uint64_t bytes,
                         uint64_t body, uint32_t pattern);

/* Waits for all looks and tells how many bytes differed since the scanner was opened. */
vram_status scanner_read(struct scanner *scanner, uint64_t *wrong_bytes);

#endif
