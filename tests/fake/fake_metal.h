/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_metal.h: Metal and an Objective-C runtime over host memory, as one shared library, written
 * from Apple's documentation. Objects have kinds and are counted; a message to the wrong kind of
 * object, to one that is gone, or against the rules that Apple states (whole words for the copying
 * engine, one encoder at a time, nothing behind a commit) is a violation. Command buffers run on a
 * thread for each queue, and a thread of its own tells of their end, in order or not.
 *
 *   FAKE_METAL_DEVICES=N  how many (1)        FAKE_METAL_MEMORY=BYTES  recommended working set (4
 *                         GiB)
 *   FAKE_METAL_DELAY=US   of each buffer (0)  FAKE_METAL_UNORDERED=1   ends are told newest first
 *   FAKE_METAL_OLD=1      buffers tell no address
 *   FAKE_METAL_FAIL=NAME:N:CODE[:forever]     the n-th message or function NAME (as metal_api.h
 *                                             names it; any)
 *                         gives nothing; a commit ends with that code
 *
 *   fake_metal.c         the runtime: classes, selectors, the way of a message, autorelease pools,
 *                        the plan
 *   fake_metal_object.c  devices, heaps, buffers, strings, errors
 *   fake_metal_work.c    queues, command buffers and events
 *   fake_metal_encode.c  encoders
 *   fake_metal_kernel.c  kernels
 */
#ifndef FAKE_METAL_H
#define FAKE_METAL_H

#include "backend/metal/metal_api.h"

#include <pthread.h>

enum fake_kind {
    FAKE_GONE,
    FAKE_CLASS,
    FAKE_DEVICE,
    FAKE_ARRAY,
    FAKE_STRING,
    FAKE_ERROR,
    FAKE_DESCRIPTOR,
    FAKE_HEAP,
    FAKE_BUFFER,
    FAKE_QUEUE,
    FAKE_EVENT,
    FAKE_COMMANDS,
    FAKE_ENCODER,
    FAKE_LIBRARY,
    FAKE_FUNCTION,
    FAKE_PIPELINE
};

struct fake_object {
    enum fake_kind kind;
    long refs;
    void (*end)(struct fake_object *object); /* of what it holds; NULL: nothing */
};

/* What tests may ask and set; dlsym("fake_metal_control") gives it. */
struct fake_metal_control {
    void (*plan)(const char *name, uint64_t nth, int code, bool for_ever); /* NULL: no plan */
    uint64_t (*struck)(void);
    const char *(*last_call)(void);      /* that was struck */
    uint64_t (*calls)(const char *name); /* since the plan was set */
    long (*live)(void);                  /* objects, but devices and classes */
    uint64_t (*violations)(const char **text);
    void (*hold)(bool held); /* while held, no command buffer runs */
};

extern pthread_mutex_t fake_metal_lock; /* guards everything */
extern pthread_cond_t fake_metal_changed;

/* fake_metal.c */
uint64_t fake_metal_setting(const char *name, uint64_t otherwise);
void fake_metal_violation(const char *text);
struct fake_object *fake_metal_object(enum fake_kind kind, size_t bytes,
                                      void (*end)(struct fake_object *));
vr_mtl_id fake_metal_later(vr_mtl_id object); /* autoreleases it */
void fake_metal_keep(void *object);
void fake_metal_drop(void *object);
/* Whether the object is of that kind; a violation when not. */
bool fake_metal_is(const void *object, enum fake_kind kind);
/* The code that the commit under way is to end with; 0: as it ends. */
int fake_metal_commit_code(void);

/* fake_metal_object.c */
struct fake_device {
    struct fake_object object;
    char name[32];
    uint64_t memory, used;
};

struct fake_buffer {
    struct fake_object object;
    struct fake_device *device;
    struct fake_object *heap; /* kept; NULL: its own memory */
    char *contents;
    unsigned long bytes;
    bool shared;
};

vr_mtl_id fake_metal_string(const char *text); /* autoreleased */
const char *fake_metal_text(vr_mtl_id string);
vr_mtl_id fake_metal_error(long code, const char *text); /* autoreleased */
vr_mtl_id fake_metal_devices(void);
bool fake_metal_tells_addresses(void);

/* The functions behind the messages: fake_metal_commit and so on. */
#define FAKE_METAL_DECLARE(name, selector, returns, parameters)                                    \
    vr_metal_##name##_fn fake_metal_##name;
VR_METAL_MESSAGES(FAKE_METAL_DECLARE)
#undef FAKE_METAL_DECLARE

#endif
