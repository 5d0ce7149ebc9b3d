/* SPDX-License-Identifier: Apache-2.0 */
/*
 * callers.c: the call stack as code addresses, and the names of these addresses.
 *
 * Stacks are walked by frame pointers where they exist, otherwise by libunwind or the unwinder of
 * the compiler's runtime, whichever can be loaded. Code without frame pointers uses their register
 * for other things, so the first stack is taken both ways: frame pointers are trusted only if the
 * two agree. The walk never leaves the thread's own stack, whatever the stack contains.
 */
#include "base/lock.h"
#include "base/os/platform.h"

#include <dlfcn.h>
#include <string.h>

enum { DEPTH = 64, ENOUGH = 3 /* frames on which both ways must agree */ };

typedef int backtrace_fn(void **buffer, int capacity);
typedef int unwind_step_fn(void *context, void *user);
typedef int unwind_fn(unwind_step_fn *step, void *user);
typedef uintptr_t unwind_ip_fn(void *context);

static struct vr_once once = VR_ONCE_INIT;
static backtrace_fn *libunwind; /* NULL: not available */
static unwind_fn *unwind;       /* of the compiler's runtime */
static unwind_ip_fn *unwind_ip;
static vr_atomic_u32 frames_trusted; /* whether frame pointers work: 0 unknown yet, 1 yes, 2 no */

static _Thread_local uintptr_t stack_low, stack_high; /* of the calling thread; 0: unknown yet */

/* Both stay loaded: stacks are taken until the process ends. */
static void unwinders_load(void) {
    char why[128];
    void *library = vr_os_library_open("libunwind.so.8", why, sizeof why);
    void *found = library ? vr_os_library_symbol(library, "unw_backtrace") : NULL;
    memcpy(&libunwind, &found, sizeof libunwind);
    if (!libunwind && (library = vr_os_library_open("libgcc_s.so.1", why, sizeof why))) {
        found = vr_os_library_symbol(library, "_Unwind_Backtrace");
        void *ip = vr_os_library_symbol(library, "_Unwind_GetIP");
        if (found && ip) {
            memcpy(&unwind, &found, sizeof unwind);
            memcpy(&unwind_ip, &ip, sizeof unwind_ip);
        }
    }
}

struct frame_list {
    uint64_t *frames;
    uint32_t count, capacity;
};

static int frame_gather(void *context, void *user) {
    struct frame_list *to = user;
    uintptr_t at = unwind_ip(context);
    if (!at || to->count == to->capacity) {
        return 4; /* _URC_END_OF_STACK, or any other that is not _URC_NO_REASON */
    }
    to->frames[to->count++] = at;
    return 0;
}

__attribute__((noinline)) static uint32_t by_unwinder(uint64_t *frames, uint32_t capacity) {
    struct frame_list to = {.frames = frames, .capacity = capacity};
    if (libunwind) {
        void *found[DEPTH];
        int count = libunwind(found, (int)(capacity < DEPTH ? capacity : DEPTH));
        for (int i = 0; i < count; i++) {
            frames[to.count++] = (uintptr_t)found[i];
        }
    } else if (unwind) {
        (void)unwind(frame_gather, &to);
    }
    return to.count;
}

#if defined(__SANITIZE_ADDRESS__)
#define WALKS __attribute__((no_sanitize("address"), noinline))
#else
#define WALKS __attribute__((noinline))
#endif

/* A frame begins with its caller's frame pointer and the return address. */
WALKS static uint32_t by_frames(uint64_t *frames, uint32_t capacity) {
    uintptr_t at = (uintptr_t)__builtin_frame_address(0);
    uint32_t count = 0;
    if (!stack_high) {
        vr_os_stack_bounds(&stack_low, &stack_high);
    }
    while (count < capacity && at >= stack_low && at < stack_high &&
           stack_high - at >= 2 * sizeof(uintptr_t) && at % sizeof(uintptr_t) == 0) {
        const uintptr_t *frame = (const uintptr_t *)at;
        if (!frame[1]) {
            break;
        }
        frames[count++] = frame[1];
        if (frame[0] <= at) {
            break;
        }
        at = frame[0];
    }
    return count;
}

/* The index of `pc` in `frames`; count if it is absent. */
static uint32_t place_of(uint64_t pc, const uint64_t *frames, uint32_t count) {
    uint32_t i = 0;
    while (i < count && frames[i] != pc) {
        i++;
    }
    return i;
}

/* Whether both ways found the same callers, from the first caller that both have. */
static bool stacks_agree(const uint64_t *walked, uint32_t walked_count, const uint64_t *unwound,
                         uint32_t unwound_count) {
    uint32_t first = 1; /* the return addresses into vr_os_callers differ */
    uint32_t at =
        first < walked_count ? place_of(walked[first], unwound, unwound_count) : unwound_count;
    uint32_t same = 0;
    while (first + same < walked_count && at + same < unwound_count &&
           walked[first + same] == unwound[at + same]) {
        same++;
    }
    return same >= ENOUGH && at + same == unwound_count; /* to the end of the thread */
}

__attribute__((noinline)) uint32_t vr_os_callers(uint64_t *frames, uint32_t capacity) {
    uint64_t walked[DEPTH], unwound[DEPTH];
    uint32_t believed = vr_load(&frames_trusted, VR_RELAXED);
    if (believed == 1) {
        return by_frames(frames, capacity);
    }
    vr_once(&once, unwinders_load);
    if (believed == 0) {
        uint32_t unwound_count = by_unwinder(unwound, DEPTH);
        uint32_t walked_count = by_frames(walked, DEPTH);
        bool alone = unwound_count == 0; /* there is no unwinder to compare with */
        believed = alone || stacks_agree(walked, walked_count, unwound, unwound_count) ? 1 : 2;
        vr_store(&frames_trusted, believed, VR_RELAXED);
    }
    return believed == 1 ? by_frames(frames, capacity) : by_unwinder(frames, capacity);
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
