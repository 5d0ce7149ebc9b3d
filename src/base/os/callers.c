/* SPDX-License-Identifier: Apache-2.0 */
/*
 * callers.c: the call stack as code addresses, and the names of these addresses.
 *
 * The platform's own walk is fast and knows most code. Where it ends early, the unwinder of the
 * compiler's runtime, if there is one, takes the whole stack: it knows code that was made at run
 * time and registered there.
 */
#include "base/lock.h"
#include "base/os/platform.h"

#include <dlfcn.h>
#include <string.h>

enum { DEPTH = 64 };

typedef int unwind_step_fn(void *context, void *user);
typedef int unwind_fn(unwind_step_fn *step, void *user);
typedef uintptr_t unwind_ip_fn(void *context);

static struct vr_once once = VR_ONCE_INIT;
static unwind_fn *unwind; /* NULL: not available */
static unwind_ip_fn *unwind_ip;

/* It stays loaded: stacks are taken until the process ends. */
static void unwinder_load(void) {
    char why[128];
    void *library = vr_os_library_open("libgcc_s.so.1", why, sizeof why);
    void *walk = library ? vr_os_library_symbol(library, "_Unwind_Backtrace") : NULL;
    void *ip = library ? vr_os_library_symbol(library, "_Unwind_GetIP") : NULL;
    if (walk && ip) {
        memcpy(&unwind_ip, &ip, sizeof unwind_ip);
        memcpy(&unwind, &walk, sizeof unwind);
    }
}

struct frame_list {
    uint64_t first; /* frames inside it are left out */
    uint32_t count, capacity;
    uint64_t frames[DEPTH];
};

static int frame_gather(void *context, void *user) {
    struct frame_list *to = user;
    uintptr_t at = unwind_ip(context);
    if (!at || to->count == to->capacity) {
        return 4; /* _URC_END_OF_STACK, or any other that is not _URC_NO_REASON */
    }
    if (to->count || at == to->first) {
        to->frames[to->count++] = at;
    }
    return 0;
}

/* Replaces a list that ended early if the unwinder finds more. */
static uint32_t by_unwinder(uint64_t *frames, uint32_t count, uint32_t capacity, uint64_t first) {
    struct frame_list to = {.first = first, .capacity = capacity < DEPTH ? capacity : DEPTH};
    vr_once(&once, unwinder_load);
    if (!unwind) {
        return count;
    }
    (void)unwind(frame_gather, &to);
    if (to.count <= count) {
        return count;
    }
    memcpy(frames, to.frames, to.count * sizeof *frames);
    return to.count;
}

__attribute__((noinline)) uint32_t vr_os_callers(uint64_t *frames, uint32_t capacity) {
    struct vr_stack_frame caller = {
        .pc = vr_os_plain_address((uintptr_t)__builtin_return_address(0)),
        .sp = (uintptr_t)__builtin_dwarf_cfa(),
        .fp = *(const uintptr_t *)__builtin_frame_address(0),
    };
    uint32_t count;
    if (vr_os_frames_walk(&caller, frames, capacity, &count)) {
        return count;
    }
    return by_unwinder(frames, count, capacity, caller.pc);
}

/* A hash of a module's load address and file name. */
static uint64_t module_of(const Dl_info *info) {
    uint64_t mixed = (uintptr_t)info->dli_fbase;
    for (const char *at = info->dli_fname; at && *at; at++) {
        mixed = (mixed ^ (unsigned char)*at) * UINT64_C(0x100000001B3);
    }
    return mixed;
}

void vr_os_code_at(uint64_t pc, struct vr_code *symbol) {
    static const char here;
    Dl_info info, own;
    *symbol = (struct vr_code){0};
    if (!dladdr((void *)(uintptr_t)(pc - 1), &info)) { /* the call precedes its return address */
        return;
    }
    const char *file = info.dli_fname ? strrchr(info.dli_fname, '/') : NULL;
    symbol->module = file ? file + 1 : info.dli_fname;
    symbol->module_offset = pc - (uintptr_t)info.dli_fbase;
    symbol->function = info.dli_sname;
    symbol->function_offset = info.dli_saddr ? pc - (uintptr_t)info.dli_saddr : 0;
    symbol->ours = dladdr(&here, &own) && own.dli_fbase == info.dli_fbase;
    vr_os_source_at(pc - 1, module_of(&info), &symbol->source);
    if (!symbol->function && symbol->source.function[0]) {
        symbol->function = symbol->source.function;
        symbol->function_offset = symbol->source.function_offset + 1;
    }
}
