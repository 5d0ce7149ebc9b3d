/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.c: all allocation of host memory.
 *
 *     +--------------------------+-------------------------------+
 *     | bytes          | check   | what the caller sees          |
 *     +--------------------------+-------------------------------+
 *     ^ from the allocator       ^ aligned for any object
 *
 *  (1) Every block begins with a header that holds the size of the whole block, so `live_bytes` is
 *      exact without a query to the allocator.
 *  (2) `blocks` counts blocks and calls in progress. It is raised before the allocator is read and
 *      lowered after the block is freed.
 *  (3) The allocator is replaced only by the caller that changed `blocks` from 0 to REPLACING; a
 *      thread that raises it meanwhile waits until REPLACING is cleared. So every block is freed by
 *      the allocator it came from, and allocation takes no lock.
 */
#include "base/memory.h"

#include "base/atomic.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/os/os.h"
#include "base/size.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define REPLACING (UINT64_C(1) << 63)
#define FOR_EVER  (UINT64_C(1) << 63)

struct header {
    _Alignas(max_align_t) size_t bytes; /* of the whole block, this header included */
    uintptr_t check;                    /* CHECK ^ own address while the block lives */
};

static const uintptr_t CHECK = (uintptr_t)UINT64_C(0x6d656d2d76726d21);

_Static_assert(sizeof(struct header) % _Alignof(max_align_t) == 0,
               "what follows the header is aligned for any object");

static void *malloc_alloc(void *user, size_t bytes) {
    (void)user;
    return malloc(bytes);
}

static void *malloc_resize(void *user, void *memory, size_t bytes) {
    (void)user;
    return realloc(memory, bytes);
}

static void malloc_free(void *user, void *memory) {
    (void)user;
    free(memory);
}

static const vram_host_allocator system_allocator = {NULL, malloc_alloc, malloc_resize,
                                                     malloc_free};

/* One replacement at a time, and none in progress in a forked child: see lock.h. */
static struct vr_mutex replacing = VR_MUTEX_INIT(VR_RANK_STABLE);

static vram_host_allocator allocator = {NULL, malloc_alloc, malloc_resize, malloc_free};
static vr_atomic_u64 blocks;     /* blocks + calls in progress; | REPLACING */
static vr_atomic_u64 live_bytes; /* sum of header.bytes of all blocks */

static vr_atomic_u64 calls;  /* allocations requested since the plan was set */
static vr_atomic_u64 failed; /* of those, failed by the plan */
static vr_atomic_u64 plan;   /* which call fails; | FOR_EVER: all from it on; 0: none */

/* ------------------------------------------------------- who may allocate when */

/* Keeps (2) and (3). Acquire: sees the allocator that the last replacement wrote. */
static void allocator_enter(void) {
    uint64_t seen = vr_fetch_add(&blocks, 1, VR_ACQUIRE);
    while (seen & REPLACING) {
        vr_os_yield();
        seen = vr_load(&blocks, VR_ACQUIRE);
    }
}

/* Release: a replacement that finds 0 happens after our use of the allocator. */
static void allocator_leave(void) {
    vr_fetch_sub(&blocks, 1, VR_RELEASE);
}

vram_status vram_host_allocator_set(const vram_host_allocator *replacement) {
    VR_CALL;
    if (replacement && (!replacement->alloc || !replacement->resize || !replacement->free)) {
        return vr_fail(VRAM_ERR_INVALID,
                       "the allocator lacks a function: set alloc, resize and free");
    }
    uint64_t none = 0;
    vr_mutex_lock(&replacing);
    bool idle = vr_cas(&blocks, &none, REPLACING, VR_ACQUIRE);
    if (idle) {
        allocator = replacement ? *replacement : system_allocator;
        vr_fetch_sub(&blocks, REPLACING, VR_RELEASE);
    }
    vr_mutex_unlock(&replacing);
    if (!idle) {
        return vr_fail(VRAM_ERR_BUSY,
                       "the library holds memory; set the allocator before the first context or "
                       "after the last");
    }
    return VRAM_OK;
}

/* ----------------------------------------------------------------- fail plans */

/* Counts one call; true if the plan makes it fail. */
static bool planned_failure(void) {
    uint64_t call = vr_fetch_add(&calls, 1, VR_RELAXED) + 1;
    uint64_t wanted = vr_load(&plan, VR_RELAXED);
    uint64_t nth = wanted & ~FOR_EVER;
    if (nth == 0 || call < nth || (call > nth && !(wanted & FOR_EVER))) {
        return false;
    }
    vr_fetch_add(&failed, 1, VR_RELAXED);
    return true;
}

void vr_mem_fail_at(uint64_t nth, bool for_ever) {
    vr_store(&plan, 0, VR_RELAXED);
    vr_store(&calls, 0, VR_RELAXED);
    vr_store(&failed, 0, VR_RELAXED);
    vr_store(&plan, nth && for_ever ? nth | FOR_EVER : nth, VR_RELAXED);
}

uint64_t vr_mem_calls(void) {
    return vr_load(&calls, VR_RELAXED);
}

uint64_t vr_mem_failed(void) {
    return vr_load(&failed, VR_RELAXED);
}

/* --------------------------------------------------------------------- blocks */

static struct header *header_of(void *memory) {
    struct header *header = (struct header *)memory - 1;
    assert(header->check == (CHECK ^ (uintptr_t)header) && "not a live block of vr_mem");
    return header;
}

/* Fills a new block's header and returns the memory behind it. */
static void *block_begin(struct header *header, size_t bytes) {
    header->bytes = bytes;
    header->check = CHECK ^ (uintptr_t)header;
    return header + 1;
}

/* Bytes of a block for `count` objects. More than PTRDIFF_MAX is refused here: no object is that
   large, and allocators of users need not check it. */
static bool block_bytes(size_t count, size_t bytes, size_t *block) {
    uint64_t payload, whole;
    if (!vr_mul(count, bytes, &payload) || !vr_add(payload, sizeof(struct header), &whole) ||
        whole > PTRDIFF_MAX) {
        return false;
    }
    *block = (size_t)whole;
    return true;
}

/* Whether a call may proceed to the allocator; if not, the reason is recorded. */
static bool alloc_admitted(size_t count, size_t bytes, const char *operation, size_t *block) {
    bool fails = planned_failure();
    if (!block_bytes(count, bytes, block)) {
        vr_fail_in(VRAM_ERR_HOST_MEMORY, operation,
                   "%zu times %zu bytes exceed the largest possible allocation", count, bytes);
        return false;
    }
    if (fails) {
        vr_fail_in(VRAM_ERR_HOST_MEMORY, operation, "a planned failure of %zu bytes of host memory",
                   *block);
        return false;
    }
    return true;
}

static void *alloc_refused(size_t block, const char *operation) {
    vr_fail_in(VRAM_ERR_HOST_MEMORY, operation, "cannot get %zu bytes of host memory", block);
    return NULL;
}

/* Uses calloc for malloc's memory: fresh pages from the system are zero already, so large blocks
   (the host copies of a sleeping pool) are not written twice. */
static void *zeroed_block(size_t bytes) {
    if (allocator.alloc == malloc_alloc) {
        return calloc(1, bytes);
    }
    void *block = allocator.alloc(allocator.user, bytes);
    return block ? memset(block, 0, bytes) : NULL;
}

void *vr_mem_alloc(size_t count, size_t bytes, const char *operation) {
    VR_UNCANCELLED; /* the allocator may be the program's */
    size_t block;
    if (!alloc_admitted(count, bytes, operation, &block)) {
        return NULL;
    }
    allocator_enter();
    struct header *header = zeroed_block(block);
    if (!header) {
        allocator_leave();
        return alloc_refused(block, operation);
    }
    vr_fetch_add(&live_bytes, block, VR_RELAXED);
    return block_begin(header, block);
}

void *vr_mem_resize(void *memory, size_t count, size_t bytes, const char *operation) {
    VR_UNCANCELLED;
    size_t block;
    if (!memory) {
        return vr_mem_alloc(count, bytes, operation);
    }
    if (!alloc_admitted(count, bytes, operation, &block)) {
        return NULL;
    }
    /* The block is counted already, so by (3) the allocator cannot be replaced. */
    struct header *header = header_of(memory);
    size_t before = header->bytes;
    struct header *moved = allocator.resize(allocator.user, header, block);
    if (!moved) {
        return alloc_refused(block, operation);
    }
    vr_fetch_add(&live_bytes, (uint64_t)block - before, VR_RELAXED);
    return block_begin(moved, block);
}

char *vr_mem_text(const char *text, const char *operation) {
    size_t bytes = strlen(text) + 1;
    char *copy = vr_mem_alloc(bytes, 1, operation);
    return copy ? memcpy(copy, text, bytes) : NULL;
}

void vr_mem_free(void *memory) {
    if (!memory) {
        return;
    }
    VR_UNCANCELLED;
    struct header *header = header_of(memory);
    vr_fetch_sub(&live_bytes, header->bytes, VR_RELAXED);
    header->check = 0; /* a second free fails the assertion */
    allocator.free(allocator.user, header);
    allocator_leave();
}

uint64_t vr_mem_live_bytes(void) {
    return vr_load(&live_bytes, VR_RELAXED);
}

uint64_t vr_mem_live_blocks(void) {
    return vr_load(&blocks, VR_RELAXED) & ~REPLACING;
}

uint64_t vram_host_bytes(void) {
    return vr_mem_live_bytes();
}

void *vram_host_alloc(size_t count, size_t bytes) {
    return vr_mem_alloc(count, bytes, "vram_host_alloc");
}

void vram_host_free(void *memory) {
    vr_mem_free(memory);
}
