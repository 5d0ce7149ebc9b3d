/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_record.h: what a watched process takes from its drivers, recorded. All APIs share it: the
 * CUDA and HIP entry points, the OpenCL layer and the Vulkan layer.
 *
 * An API's function for an allocation:
 *
 *      if (!run_limit_take(device, kind, bytes)) {
 *          run_refused(device, kind, bytes, true);
 *          return OUT_OF_MEMORY;                       the driver's own code
 *      }
 *      code = driver_alloc(...);
 *      if (code is success) {
 *          run_alloc(&(struct run_block){...});        before the program has it
 *      } else {
 *          run_limit_give(device, kind, bytes);
 *          if (code means out of memory) run_refused(device, kind, bytes, false);
 *      }
 *
 * and for a free:
 *
 *      bool known = run_free_begin(space, value, &block);   before the driver can reuse the address
 *      code = driver_free(...);
 *      run_free_end(known ? &block : NULL, code is success);
 *
 *  (1) Nothing here fails for the caller. What cannot be recorded is counted.
 *  (2) Any thread may call at any time. No lock is held across a driver call.
 *  (3) A forked child starts anew: with a slot and, if children are followed, a trace of its own.
 *      Blocks of its parent are not its blocks.
 *  (4) A process that never uses a device takes no slot and writes no file.
 *  (5) Without `vram run` (no page) everything passes through: run_active() is false.
 */
#ifndef RUN_RECORD_H
#define RUN_RECORD_H

#include "run_page.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* By kind: its name, and whether it takes memory of the device, which counts towards the limit. */
struct run_kind_row {
    const char *name;
    bool counts;
};
extern const struct run_kind_row run_kinds[RUN_KINDS];

/* What a block is known by. Two blocks of different spaces may have the same value. */
enum run_space {
    RUN_SPACE_ADDRESS = 0,  /* of the device or the host: unique in the process */
    RUN_SPACE_PHYSICAL = 1, /* handle of cuMemCreate */
    RUN_SPACE_ARRAY = 2,
    RUN_SPACE_MODULE = 3,
    RUN_SPACE_CONTEXT = 4,
    RUN_SPACE_CL_MEM = 5,
    RUN_SPACE_VK_MEMORY = 6,
    RUN_SPACE_REGISTERED = 7, /* host addresses that were registered */
    RUN_SPACE_OTHER = 8
};

#define RUN_LIMIT_NONE UINT64_MAX
#define RUN_NO_DEVICE  UINT32_MAX /* no such device, or more than RUN_DEVICES: not counted */

struct run_block {
    uint32_t device; /* as run_device_find returned it */
    enum run_kind kind;
    enum run_space space;
    uint64_t value;     /* address or handle */
    uint64_t bytes;     /* as requested */
    uint64_t held;      /* as the driver rounds; 0: the same */
    uint64_t queue;     /* stream or queue; 0: none */
    uint64_t limit;     /* bytes that run_limit_take took for it; 0: `bytes`; RUN_LIMIT_NONE */
    const void *caller; /* return address into the program, for --stacks off; NULL: unknown */
    /* Set by run_alloc. */
    uint64_t serial;
    uint32_t stack;    /* 0: none */
    const char *owner; /* the library that took it; valid until the process ends */
};

/* The page of `vram run`; NULL: this process is not watched. Attaches at the first call. */
const struct run_page *run_page_get(void);
static inline bool run_active(void) {
    return run_page_get() != NULL;
}

/* ------------------------------------------------------------------- devices */

/* The number of a device, which is added at its first use. `total` and `name`: 0 and NULL if
   unknown yet; they may be given later. */
uint32_t run_device_find(enum run_api api, uint32_t ordinal, const char *name, uint64_t total);
/* What the driver said about free memory just now, not seen through the limit. */
void run_device_figure(uint32_t device, uint64_t free);
/* Its bytes; 0: not known yet. */
uint64_t run_device_total(uint32_t device);
/* Its identity, as NVML and nvidia-smi show it. */
void run_device_uuid(uint32_t device, const unsigned char uuid[16]);
/* The device of that identity; RUN_NO_DEVICE: none was used yet. */
uint32_t run_device_by_uuid(const unsigned char uuid[16]);
/* Memory of the device in use before the program started, plus 1; 0: unknown. */
uint64_t run_device_before(uint32_t device);
/* What this process has now of the kinds that count. */
uint64_t run_device_counted(uint32_t device);
/* Whether the driver should be asked for a figure again: ten times a second, and when a new peak is
   a sixteenth above the last one. */
bool run_device_due(uint32_t device);

/* --------------------------------------------------------------------- blocks */

void run_alloc(struct run_block *block);
/* The block of that value is about to be freed: writes the event and fills *block. False: it is not
   known, which is counted unless the value is 0. */
bool run_free_begin(enum run_space space, uint64_t value, struct run_block *block);
/* The driver has answered. Not freed: the block is entered again. NULL is allowed. */
void run_free_end(struct run_block *block, bool freed);
/* A copy of a live block; false: it is not known. */
bool run_block_find(enum run_space space, uint64_t value, struct run_block *block);
/* Frees all blocks of a device that `which` selects: their context has ended. NULL: all of them. */
void run_free_all(uint32_t device, bool (*which)(const struct run_block *block, void *user),
                  void *user);
/* The device's context has ended, and with it all blocks but physical and host memory. The trace
   has them as never freed. */
void run_context_ended(uint32_t device);
/* Out of memory: by the limit, or as the driver said. */
void run_refused(uint32_t device, enum run_kind kind, uint64_t bytes, bool by_limit);
/* A text in the trace. */
void run_mark(const char *text);
/* An entry point for memory that this library does not know was asked for; passed through. */
void run_unknown(const char *name);

/* Ends the trace: what comes later is only counted. Called when the process exits. */
void run_record_end(void);

/* ---------------------------------------------------------------------- limit */

/* The limit of a device in bytes; 0: none. */
uint64_t run_limit_bytes(void);
/* Takes bytes of the limit for a request. True if there is no limit, the kind does not count, or
   the bytes fit. */
bool run_limit_take(uint32_t device, enum run_kind kind, uint64_t bytes);
/* Gives them back: the driver refused. A freed block's bytes are given back by run_free_end. */
void run_limit_give(uint32_t device, enum run_kind kind, uint64_t bytes);
/* Makes the driver's figures look like those of a device of that size. Either may be NULL. Never
   more than the driver said, never below 0. */
void run_limit_view(uint32_t device, uint64_t *free, uint64_t *total);

#endif
