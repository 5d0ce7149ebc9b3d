/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_stack.c: see run_stack.h.
 *
 * Unwinding by tables takes microseconds, which is more than the rest of the recorder. But a program
 * mostly allocates from the same places: so each thread remembers some stacks, each as the list of
 * the return addresses and of the places on the stack where they lie. If all of these places still
 * have the same contents, the stack is the same one.
 *
 *  (1) Only x86_64: there a return address lies right below the frame that its call belongs to. On
 *      aarch64 code has frame pointers, and stacks are cheap.
 *  (2) A place is only looked at if it is between the current frame and the end of the thread's own
 *      stack: stacks of fibers come and go, and are unwound each time.
 */
#include "run_stack.h"

#include "track/stack.h"

#if defined(__x86_64__)

#include "base/lock.h"
#include "base/memory.h"
#include "base/os/platform.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

enum { DEPTH = VR_STACK_DEPTH + 8, REMEMBERED = 16, ENOUGH = 3 };

typedef int unwind_step_fn(void *context, void *user);
typedef int unwind_fn(unwind_step_fn *step, void *user);
typedef uintptr_t unwind_word_fn(void *context);

struct known_stack {
    uintptr_t frame; /* of run_stack_take; 0: unused */
    uint32_t number, depth;
    const uintptr_t *places[DEPTH];
    uintptr_t returns[DEPTH];
};

static struct vr_once once = VR_ONCE_INIT;
static unwind_fn *unwind; /* of the compiler's runtime; NULL: not available */
static unwind_word_fn *unwind_ip, *unwind_cfa;

/* Memory of its own: a library that is loaded later than the program, as loaders of OpenCL and
   Vulkan do, has less than 2 KiB for all variables of a thread. */
static pthread_key_t known_key;
static bool known_keeps;                        /* there is such a key */
static _Thread_local struct known_stack *known; /* REMEMBERED of them; NULL: none yet */
static _Thread_local uintptr_t stack_low, stack_high;

static void known_end(void *stacks) {
    known = NULL;
    vr_mem_free(stacks);
}

/* The thread's stacks; NULL: no memory. */
static struct known_stack *known_get(void) {
    if (!known && known_keeps) {
        known = vr_mem_alloc(REMEMBERED, sizeof *known, "vram run");
        if (known && pthread_setspecific(known_key, known) != 0) {
            known_end(known);
        }
    }
    return known;
}

static void unwinder_load(void) {
    char why[128];
    known_keeps = pthread_key_create(&known_key, known_end) == 0;
    void *library = vr_os_library_open("libgcc_s.so.1", why, sizeof why);
    void *walk = library ? vr_os_library_symbol(library, "_Unwind_Backtrace") : NULL;
    void *ip = library ? vr_os_library_symbol(library, "_Unwind_GetIP") : NULL;
    void *cfa = library ? vr_os_library_symbol(library, "_Unwind_GetCFA") : NULL;
    if (walk && ip && cfa) {
        memcpy(&unwind_ip, &ip, sizeof unwind_ip);
        memcpy(&unwind_cfa, &cfa, sizeof unwind_cfa);
        memcpy(&unwind, &walk, sizeof unwind);
    }
}

#if defined(__SANITIZE_ADDRESS__)
#define READS_STACK __attribute__((no_sanitize("address")))
#else
#define READS_STACK
#endif

/* Whether a word of the thread's own stack, above the frame; keeps (2). */
static bool is_place(const struct known_stack *stack, uintptr_t place) {
    return place > stack->frame && place < stack_high && place % sizeof place == 0;
}

/* Where the frame's return address lies; the walk ends where it is not as (1) says. */
READS_STACK static int frame_note(void *context, void *user) {
    struct known_stack *stack = user;
    uintptr_t at = unwind_ip(context), place = unwind_cfa(context) - sizeof(uintptr_t);
    if (stack->depth == DEPTH) {
        return 4; /* not _URC_NO_REASON: the walk ends */
    }
    if (!at || place < stack->frame) {
        return 0; /* the frame of the walk itself */
    }
    if (!is_place(stack, place) || *(const uintptr_t *)place != at) {
        stack->frame = 0;
        return 4;
    }
    stack->places[stack->depth] = (const uintptr_t *)place;
    stack->returns[stack->depth++] = at;
    return 0;
}

READS_STACK static bool is_same(const struct known_stack *stack, uintptr_t frame) {
    if (stack->frame != frame) {
        return false;
    }
    for (uint32_t i = 0; i < stack->depth; i++) {
        if (*stack->places[i] != stack->returns[i]) {
            return false;
        }
    }
    return true;
}

__attribute__((noinline)) uint32_t run_stack_take(void) {
    uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
    const uintptr_t *own = __builtin_return_address(0);
    if (!stack_high) {
        vr_os_stack_bounds(&stack_low, &stack_high);
    }
    if (frame < stack_low || frame >= stack_high) {
        return vr_stack_take();
    }
    vr_once(&once, unwinder_load);
    struct known_stack *stack = known_get();
    if (!stack) {
        return vr_stack_take();
    }
    stack += (frame >> 4 ^ (uintptr_t)own >> 2) % REMEMBERED;
    if (is_same(stack, frame)) {
        return stack->number;
    }
    uint32_t number = vr_stack_take();
    *stack = (struct known_stack){.frame = number && unwind ? frame : 0, .number = number};
    if (stack->frame) {
        (void)unwind(frame_note, stack);
    }
    if (stack->depth < ENOUGH) {
        stack->frame = 0;
    }
    return number;
}

#else

uint32_t run_stack_take(void) {
    return vr_stack_take();
}

#endif
