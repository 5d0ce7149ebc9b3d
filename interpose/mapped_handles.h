/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mapped_handles.h: physical memory without an address, as cuMemCreate and hipMemCreate make it.
 *
 * The driver frees it when its handle has been released as often as it was created or retained and
 * no address maps it any more. So both are counted here, and the call that makes the last of them
 * go is the one that frees the block.
 */
#ifndef MAPPED_HANDLES_H
#define MAPPED_HANDLES_H

#include "run_record.h"

/* After the driver made or imported it. `block` as run_alloc takes it, in RUN_SPACE_PHYSICAL. */
void run_handle_created(struct run_block *block);
/* After the driver gave the handle out once more. */
void run_handle_retained(uint64_t handle);
/* After it was mapped at [address, address + bytes). */
void run_handle_mapped(uint64_t handle, uint64_t address, uint64_t bytes);

/* What a call is about to free. */
struct run_handle_end {
    bool released;  /* else: unmapped */
    uint64_t value; /* the handle, or the address */
    uint64_t bytes; /* to unmap */
    struct run_handle_freed {
        struct run_handle_freed *next;
        struct run_block block;
    } * freed; /* blocks that end with this call */
};

/* Around the driver's release or unmap. */
void run_handle_release_begin(uint64_t handle, struct run_handle_end *end);
void run_handle_unmap_begin(uint64_t address, uint64_t bytes, struct run_handle_end *end);
void run_handle_end(struct run_handle_end *end, bool done);

#endif
