/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_owner.c: see run_owner.h. Names are looked up once for each stack and caller.
 */
#include "run_owner.h"

#include "base/atomic.h"
#include "base/lock.h"
#include "base/memory.h"
#include "run_frames.h"
#include "track/stack.h"

#include <string.h>

enum { CALLERS = 1024 };

static const char unknown[] = "unknown";

/* What stands between a program and its device. */
static const char *const drivers[] = {
    "libcuda.so",   "libcudart",    "libnvidia-",   "libamdhip64.so", "libhsa-runtime64",
    "libOpenCL.so", "libvulkan.so", "libvulkan_",   "libpocl",        "libnvidia-opencl",
    "libvram-run",  "libamdocl64",  "libigdrcl.so", "libMesaOpenCL",
};

bool run_owner_is_driver(const char *module) {
    for (unsigned i = 0; i < sizeof drivers / sizeof drivers[0]; i++) {
        if (strncmp(module, drivers[i], strlen(drivers[i])) == 0) {
            return true;
        }
    }
    return false;
}

static _Thread_local const char *owner_named; /* NULL: none */

void run_owner_as(const char *name) {
    owner_named = name;
}

const char *run_owner_set(void) {
    return owner_named;
}

/* --------------------------------------------------------------------- names */

static struct vr_mutex lock = VR_MUTEX_INIT(VR_RANK_MONITOR);
static struct owner_name {
    struct owner_name *next;
    char *text;
} * names; /* guarded by the lock; never freed */

/* The one copy of a name. */
static const char *name_keep(const char *text) {
    vr_mutex_lock(&lock);
    struct owner_name *name = names;
    while (name && strcmp(name->text, text) != 0) {
        name = name->next;
    }
    if (!name && (name = vr_mem_alloc(1, sizeof *name, "vram run"))) {
        name->text = vr_mem_text(text, "vram run");
        if (name->text) {
            name->next = names;
            names = name;
        } else {
            vr_mem_free(name);
            name = NULL;
        }
    }
    vr_mutex_unlock(&lock);
    return name ? name->text : unknown;
}

/* ------------------------------------------------------------ stacks, callers */

static vr_atomic_ptr by_stack[VR_STACKS_MOST]; /* const char *; NULL: not looked up */

const char *run_owner_of_stack(uint32_t stack) {
    uint64_t frames[VR_STACK_DEPTH];
    if (stack == 0 || stack >= VR_STACKS_MOST) {
        return unknown;
    }
    const char *owner = vr_load(&by_stack[stack], VR_ACQUIRE);
    if (owner) {
        return owner;
    }
    uint32_t depth = run_frames(stack, frames, VR_STACK_DEPTH);
    const char *module = NULL;
    for (uint32_t i = 0; i < depth && (!module || run_owner_is_driver(module)); i++) {
        const char *next = run_frame_module(frames[i]);
        module = next ? next : module;
    }
    owner = module ? name_keep(module) : unknown;
    vr_store(&by_stack[stack], (void *)(uintptr_t)owner, VR_RELEASE);
    return owner;
}

/* A row is written once, by the first caller that hashes to it; others are looked up each time. */
static const char *caller_owners[CALLERS];
static vr_atomic_u64 caller_keys[CALLERS]; /* the caller, once its owner is written; 1 until then */

const char *run_owner_of_caller(const void *caller) {
    uint64_t key = (uintptr_t)caller;
    uint64_t place = (key >> 2) * UINT64_C(0x9E3779B97F4A7C15) >> 54;
    if (!key) {
        return unknown;
    }
    if (vr_load(&caller_keys[place], VR_ACQUIRE) == key) {
        return caller_owners[place];
    }
    const char *module = run_frame_module(key);
    const char *owner = module ? name_keep(module) : unknown;
    uint64_t empty = 0;
    if (vr_cas(&caller_keys[place], &empty, 1, VR_ACQUIRE)) {
        caller_owners[place] = owner;
        vr_store(&caller_keys[place], key, VR_RELEASE);
    }
    return owner;
}
