/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stack.c: the table of stacks. See stack.h.
 *
 * Stacks are found by hash. A stack is never changed once it is in its bin, and stays there, so
 * only adding one takes the lock.
 */
#include "track/stack.h"

#include "base/error.h"
#include "base/lock.h"
#include "base/os/os.h"
#include "base/text.h"
#include "track/frame_name.h"
#include "track/kept_memory.h"
#include "track/python_stack.h"

#include <string.h>

enum {
    BINS = 4096,
    PAGE = 256 /* stacks in one page of the table of numbers */
};

struct stack {
    struct stack *chain; /* next in its bin */
    uint32_t number, depth;
    uint64_t frames[];
};

static struct vr_mutex lock = VR_MUTEX_INIT(VR_RANK_TRACK); /* guards changes of all below */
static struct vr_kept *memory;
static vr_atomic_ptr bins[BINS];                    /* the latest stack of each */
static vr_atomic_ptr *pages[VR_STACKS_MOST / PAGE]; /* by number */
static vr_atomic_u32 count;

static uint32_t bin_of(const uint64_t *frames, uint32_t depth) {
    uint64_t hash = depth, factor = UINT64_C(0x9E3779B97F4A7C15);
    for (uint32_t i = 0; i < depth; i++) { /* products that do not wait for each other */
        hash += (frames[i] ^ frames[i] >> 32) * factor;
        factor += UINT64_C(0xD1B54A32D192ED02); /* so that the order counts */
    }
    return (uint32_t)((hash ^ hash >> 32) * UINT64_C(0x9E3779B97F4A7C15) >> 32) % BINS;
}

static struct stack *stack_find(uint32_t bin, const uint64_t *frames, uint32_t depth) {
    struct stack *stack = vr_load(&bins[bin], VR_ACQUIRE);
    while (stack &&
           !(stack->depth == depth && memcmp(stack->frames, frames, depth * sizeof *frames) == 0)) {
        stack = stack->chain;
    }
    return stack;
}

/* NULL: there are too many, or memory ran out. Under the lock. */
static struct stack *stack_add(uint32_t bin, const uint64_t *frames, uint32_t depth) {
    uint32_t number = vr_load(&count, VR_RELAXED) + 1;
    if (number >= VR_STACKS_MOST) {
        return NULL;
    }
    vr_atomic_ptr **page = &pages[number / PAGE];
    if (!*page) {
        *page = vr_kept_alloc(&memory, PAGE * sizeof **page);
    }
    struct stack *stack =
        *page ? vr_kept_alloc(&memory, sizeof *stack + depth * sizeof *frames) : NULL;
    if (stack) {
        stack->number = number;
        stack->depth = depth;
        memcpy(stack->frames, frames, depth * sizeof *frames);
        stack->chain = vr_load(&bins[bin], VR_RELAXED);
        vr_store(&(*page)[number % PAGE], stack, VR_RELAXED);
        vr_store(&count, number, VR_RELEASE);
        vr_store(&bins[bin], stack, VR_RELEASE);
    }
    return stack;
}

/* Another thread may have added it meanwhile. */
static struct stack *stack_find_or_add(uint32_t bin, const uint64_t *frames, uint32_t depth) {
    struct vram_error error;
    vr_error_save(&error);
    vr_mutex_lock(&lock);
    struct stack *stack = stack_find(bin, frames, depth);
    if (!stack) {
        stack = stack_add(bin, frames, depth);
    }
    vr_mutex_unlock(&lock);
    vr_error_restore(&error);
    return stack;
}

/* Puts the frames of Python code into the place of the interpreter's and of those beyond; returns
   the new depth. */
static uint32_t python_put(const struct vr_python *python, uint64_t *frames, uint32_t depth) {
    uint64_t names[VR_STACK_PYTHON];
    uint32_t added = vr_python_frames(python, names, VR_STACK_PYTHON), kept = 0;
    if (!added) {
        return depth;
    }
    while (kept < depth && !(python->alone && frames[kept] >= python->module.low &&
                             frames[kept] < python->module.high)) {
        kept++;
    }
    memcpy(frames + kept, names, added * sizeof *names);
    return kept + added;
}

uint32_t vr_stack_take(void) {
    uint64_t frames[VR_STACK_DEPTH];
    uint32_t depth = vr_os_callers(frames, VR_STACK_NATIVE);
    const struct vr_python *python = vr_python_get();
    if (depth == 0) {
        return 0;
    }
    if (python) {
        depth = python_put(python, frames, depth);
    }
    uint32_t bin = bin_of(frames, depth);
    struct stack *stack = stack_find(bin, frames, depth);
    if (!stack && !python && (python = vr_python_look()) != NULL) {
        depth = python_put(python, frames, depth);
        bin = bin_of(frames, depth);
        stack = stack_find(bin, frames, depth);
    }
    if (!stack) {
        stack = stack_find_or_add(bin, frames, depth);
    }
    return stack ? stack->number : 0;
}

uint32_t vr_stack_sample(uint32_t every) {
    static _Thread_local uint32_t turn;
    return every && turn++ % every == 0 ? vr_stack_take() : 0;
}

/* Whether a frame belongs to the library: by its module or, if that is also the program, by its
   name. */
static bool is_ours(uint64_t frame) {
    struct vr_code symbol;
    vr_os_code_at(frame, &symbol);
    if (!symbol.ours) {
        return false;
    }
    bool named = symbol.function && (strncmp(symbol.function, "vram_", 5) == 0 ||
                                     strncmp(symbol.function, "vr_", 3) == 0 ||
                                     strcmp(symbol.function, "by_unwinder") == 0); /* callers.c */
    return named || (symbol.module && strstr(symbol.module, "libvram") != NULL);
}

/* NULL: there is none. */
static const struct stack *stack_at(uint32_t number) {
    if (number == 0 || number > vr_load(&count, VR_ACQUIRE)) {
        return NULL;
    }
    return vr_load(&pages[number / PAGE][number % PAGE], VR_RELAXED);
}

uint32_t vr_stack_all(uint32_t number, uint64_t *frames, uint32_t capacity) {
    const struct stack *stack = stack_at(number);
    uint32_t depth = stack && stack->depth < capacity ? stack->depth : stack ? capacity : 0;
    for (uint32_t i = 0; i < depth; i++) {
        frames[i] = stack->frames[i];
    }
    return depth;
}

uint32_t vr_stack_frames(uint32_t number, uint64_t frames[VR_STACK_DEPTH]) {
    const struct stack *stack = stack_at(number);
    uint32_t first = 0, depth = 0;
    if (!stack) {
        return 0;
    }
    while (first + 1 < stack->depth && is_ours(stack->frames[first])) {
        first++;
    }
    for (; first < stack->depth && depth < VR_STACK_DEPTH; first++) {
        frames[depth++] = stack->frames[first];
    }
    return depth;
}

void vr_frame_text(uint64_t frame, char text[VR_FRAME_TEXT]) {
    struct vr_code symbol;
    if (vr_frame_name(frame)) {
        (void)vr_text_copy(text, VR_FRAME_TEXT, vr_frame_name(frame));
        return;
    }
    vr_os_code_at(frame, &symbol);
    const char *module = symbol.module && *symbol.module ? symbol.module : "?";
    char line[VR_CODE_FILE + 16] = "";
    if (symbol.source.line) {
        (void)vr_text_format(line, sizeof line, "%s:%u", symbol.source.file, symbol.source.line);
    }
    if (symbol.function) {
        (void)vr_text_format(text, VR_FRAME_TEXT, "%.104s+0x%llx (%s%s%.48s+0x%llx)",
                             symbol.function, (unsigned long long)symbol.function_offset, line,
                             *line ? ", " : "", module, (unsigned long long)symbol.module_offset);
    } else if (symbol.module) {
        (void)vr_text_format(text, VR_FRAME_TEXT, "%.80s+0x%llx%s%s%s", module,
                             (unsigned long long)symbol.module_offset, *line ? " (" : "", line,
                             *line ? ")" : "");
    } else {
        (void)vr_text_format(text, VR_FRAME_TEXT, "0x%llx", (unsigned long long)frame);
    }
}

void vr_stacks_reset(void) {
    vr_mutex_lock(&lock);
    vr_store(&count, 0, VR_RELAXED);
    for (uint32_t i = 0; i < BINS; i++) {
        vr_store(&bins[i], NULL, VR_RELAXED);
    }
    memset(pages, 0, sizeof pages);
    vr_kept_free(&memory);
    vr_mutex_unlock(&lock);
    vr_frame_names_reset();
}
