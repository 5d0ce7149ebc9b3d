/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frame_walk.c: walks the calling thread's stack on Linux, by rules that are looked up once for
 * each return address.
 *
 *  (1) Rules are kept in one table for all threads. A row is written without a lock; its check word
 *      contains the rule, so a reader that sees the words of two rows finds nothing.
 *  (2) A rule may belong to a module that has been unloaded since. So it is only a hint: the walk
 *      reads nothing but the thread's own stack above the current frame, and each step goes up. The
 *      number of unloads is a part of a row's key; it is asked for when a rule is looked up, and
 *      when a walk fails. Most code that is loaded in the same place has other return addresses.
 *  (3) A row knows the row that its first walk went on with. That one is tried before the hash, so
 *      that its address does not have to be read from the stack first.
 *  (4) Stacks of fibers and of signals are not walked: their bounds are not known.
 */
#include "base/os/frame_rule.h"
#include "base/os/platform.h"
#include "base/size.h"

#include <link.h>
#include <string.h>

enum { ROW_BITS = 12 };

struct row {
    vr_atomic_u64 check; /* key_of ^ rule */
    vr_atomic_u64 rule;  /* struct vr_frame_rule */
    vr_atomic_u64 next;  /* index of the row that its first walk went on with; 0: none yet */
    uint64_t unused;     /* no row lies in two cache lines */
};

static struct row rows[1 << ROW_BITS];
static struct row start; /* before the first frame; only its `next` is used */

static vr_atomic_u64 unloads; /* modules unloaded so far, as last seen */

static uint64_t key_of(uint64_t address, uint64_t generation) {
    return address ^ generation << 48;
}

static struct row *row_of(uint64_t address) {
    return &rows[(address ^ address >> ROW_BITS) % (1 << ROW_BITS)];
}

/* ------------------------------------------------------------------- modules */

_Static_assert(sizeof(struct vr_frame_rule) == sizeof(uint64_t), "a rule is one word of a row");

struct search {
    uint64_t address;
    uint64_t unloads; /* when it was found */
    struct vr_frame_rule rule;
};

static bool memory_read(const void *file, uint64_t offset, void *to, uint64_t bytes) {
    (void)file; /* the cursor stays inside the segment */
    memcpy(to, (const void *)(uintptr_t)offset, bytes);
    return true;
}

/* The loaded segment that contains an address. */
static const Elf64_Phdr *segment_of(const struct dl_phdr_info *module, uint64_t address) {
    for (unsigned i = 0; i < module->dlpi_phnum; i++) {
        const Elf64_Phdr *segment = &module->dlpi_phdr[i];
        if (segment->p_type == PT_LOAD && segment->p_flags & PF_R &&
            vr_inside(address, 1, module->dlpi_addr + segment->p_vaddr, segment->p_filesz)) {
            return segment;
        }
    }
    return NULL;
}

static const Elf64_Phdr *index_of(const struct dl_phdr_info *module) {
    for (unsigned i = 0; i < module->dlpi_phnum; i++) {
        if (module->dlpi_phdr[i].p_type == PT_GNU_EH_FRAME) {
            return &module->dlpi_phdr[i];
        }
    }
    return NULL;
}

/* The loader keeps the module loaded while this runs. */
static int module_look(struct dl_phdr_info *module, size_t bytes, void *user) {
    struct search *search = user;
    search->unloads =
        bytes >= offsetof(struct dl_phdr_info, dlpi_tls_modid) ? module->dlpi_subs : 0;
    if (!search->address) {
        return 1; /* only the number is wanted */
    }
    if (!segment_of(module, search->address)) {
        return 0;
    }
    const Elf64_Phdr *index = index_of(module);
    uint64_t place = index ? module->dlpi_addr + index->p_vaddr : 0;
    const Elf64_Phdr *around = index ? segment_of(module, place) : NULL;
    if (around) {
        struct vr_frame_table table = {
            .source = {.read = memory_read},
            .segment = {module->dlpi_addr + around->p_vaddr, around->p_filesz},
            .index = place};
        search->rule = vr_frame_rule_find(&table, search->address);
    }
    return 1;
}

static uint64_t unloads_look(void) {
    struct search search = {.address = 0};
    (void)dl_iterate_phdr(module_look, &search);
    vr_store(&unloads, search.unloads, VR_RELAXED);
    return search.unloads;
}

static struct vr_frame_rule rule_look_up(uint64_t address) {
    struct search search = {.address = address};
    uint64_t bits;
    (void)dl_iterate_phdr(module_look, &search);
    memcpy(&bits, &search.rule, sizeof bits);
    vr_store(&unloads, search.unloads, VR_RELAXED);
    struct row *row = row_of(address);
    vr_store(&row->next, 0, VR_RELAXED);
    vr_store(&row->rule, bits, VR_RELAXED);
    vr_store(&row->check, key_of(address, search.unloads) ^ bits, VR_RELAXED);
    return search.rule;
}

static inline bool row_read(const struct row *row, uint64_t key, struct vr_frame_rule *rule) {
    uint64_t bits = vr_load(&row->rule, VR_RELAXED);
    memcpy(rule, &bits, sizeof bits);
    return (vr_load(&row->check, VR_RELAXED) ^ bits) == key;
}

/* Leaves the row in *last, which is the one of the frame before; keeps (3). */
static inline struct vr_frame_rule rule_of(struct row **last, uint64_t address,
                                           uint64_t generation) {
    struct row *row = &rows[vr_load(&(*last)->next, VR_RELAXED)];
    uint64_t key = key_of(address, generation);
    struct vr_frame_rule rule;
    if (!row_read(row, key, &rule)) {
        row = row_of(address);
        if (!row_read(row, key, &rule)) {
            rule = rule_look_up(address);
        }
        if (!vr_load(&(*last)->next, VR_RELAXED)) {
            vr_store(&(*last)->next, (uint64_t)(row - rows), VR_RELAXED);
        }
    }
    *last = row;
    return rule;
}

/* ----------------------------------------------------------------------- walk */

#if defined(__SANITIZE_ADDRESS__)
#define READS_STACK __attribute__((no_sanitize("address")))
#else
#define READS_STACK
#endif

struct walk {
    struct vr_stack_frame frame;
    uintptr_t high; /* end of the stack */
};

/* Whether it is a word of the stack, from the frame up; keeps (2). */
static inline bool is_word(const struct walk *walk, uintptr_t place) {
    return place >= walk->frame.sp && place < walk->high && place % sizeof place == 0;
}

/* Goes to the caller's frame. False: what the rule says cannot be. */
READS_STACK static inline bool frame_step(struct walk *walk, struct vr_frame_rule rule) {
    const int64_t word = sizeof(uintptr_t);
    struct vr_stack_frame *frame = &walk->frame;
    uintptr_t base = rule.from_fp ? frame->fp : frame->sp;
    uintptr_t cfa = base + (uintptr_t)(rule.cfa * word);
    if (rule.cfa_stored) {
        if (!is_word(walk, cfa)) {
            return false;
        }
        cfa = *(const uintptr_t *)cfa;
    }
    uintptr_t ret = (rule.return_based ? base : cfa) + (uintptr_t)(rule.ret * word);
    uintptr_t fp = (rule.fp_based ? base : cfa) + (uintptr_t)(rule.fp * word);
    if (cfa <= frame->sp || cfa > walk->high || !is_word(walk, ret) ||
        !(rule.fp_same || is_word(walk, fp))) {
        return false;
    }
    frame->pc = vr_os_plain_address(*(const uintptr_t *)ret);
    frame->fp = rule.fp_same ? frame->fp : *(const uintptr_t *)fp;
    frame->sp = cfa;
    return true;
}

static _Thread_local struct { uintptr_t low, high; /* of its stack; 0: unknown yet */ } thread;

/* Whether the walk came to the end of the stack, or of the list. */
static bool frames_walk(const struct vr_stack_frame *from, uint64_t generation, uint64_t *frames,
                        uint32_t capacity, uint32_t *count) {
    struct walk walk = {*from, thread.high};
    struct vr_frame_rule rule = {.kind = VR_FRAME_STEP};
    struct row *row = &start;
    uint32_t used = 0;
    while (rule.kind == VR_FRAME_STEP && walk.frame.pc && used < capacity) {
        frames[used++] = walk.frame.pc;
        /* The call lies before its return address; an interrupted instruction does not. */
        rule = rule_of(&row, walk.frame.pc - !rule.interrupted, generation);
        if (rule.kind == VR_FRAME_STEP && !frame_step(&walk, rule)) {
            rule.kind = VR_FRAME_UNKNOWN;
        }
    }
    *count = used;
    return rule.kind != VR_FRAME_UNKNOWN;
}

bool vr_os_frames_walk(const struct vr_stack_frame *from, uint64_t *frames, uint32_t capacity,
                       uint32_t *count) {
    *count = 0;
    if (!thread.high) {
        vr_os_stack_bounds(&thread.low, &thread.high);
        thread.high -= thread.high % sizeof thread.high;
    }
    if (from->sp < thread.low || from->sp >= thread.high) {
        return false; /* keeps (4) */
    }
    uint64_t seen = vr_load(&unloads, VR_RELAXED);
    if (frames_walk(from, seen, frames, capacity, count)) {
        return true;
    }
    uint64_t now = unloads_look();
    return now != seen && frames_walk(from, now, frames, capacity, count); /* by rules as of now */
}
