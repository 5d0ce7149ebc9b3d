/* SPDX-License-Identifier: Apache-2.0 */
/* naive_memory.c: the naive model behind memory.h. */
#include "naive_memory.h"

#include "base/text.h"

#include <stdarg.h>

static unsigned long long hex(uint64_t value) {
    return (unsigned long long)value;
}

void naive_blame(struct naive_memory *memory, const char *format, ...) {
    if (memory->violations++ == 0) {
        va_list arguments;
        va_start(arguments, format);
        vr_text_format_list(memory->first, sizeof memory->first, format, arguments);
        va_end(arguments);
    }
}

bool naive_passed(void *user, struct vr_stamp stamp) {
    const struct naive_memory *memory = user;
    return stamp.queue == 0 || stamp.value <= memory->passed[stamp.queue];
}

/* Index of the unit or granule at `addr`; 0, and a violation, outside. */
static uint64_t index_at(struct naive_memory *memory, uint64_t addr, uint64_t bytes,
                         uint64_t unit) {
    uint64_t most = (uint64_t)NAIVE_GRANULES * NAIVE_GRANULE;
    if (addr < NAIVE_BASE || addr - NAIVE_BASE > most || bytes > most - (addr - NAIVE_BASE) ||
        addr % unit || bytes % unit) {
        naive_blame(memory, "[%llx, + %llx) is outside or crooked", hex(addr), hex(bytes));
        return 0;
    }
    return (addr - NAIVE_BASE) / unit;
}

/* ------------------------------------------------------------------- blocks */

void naive_give(struct naive_memory *memory, uint32_t owner, uint64_t addr, uint64_t bytes,
                uint64_t queue, struct vr_stamp after) {
    uint64_t at = index_at(memory, addr, bytes, 512);
    for (uint64_t i = at; i < at + bytes / 512 && !memory->violations; i++) {
        struct naive_unit *unit = &memory->units[i];
        uint64_t granule = i / (NAIVE_GRANULE / 512);
        bool waits = after.queue == unit->freed.queue && after.value >= unit->freed.value;
        if (unit->owner) {
            naive_blame(memory, "block %u at %llx lies on block %u", owner, hex(addr), unit->owner);
        } else if (!memory->mapped[granule] || !memory->accessible[granule]) {
            naive_blame(memory, "block %u at %llx has no memory at %llx", owner, hex(addr),
                        hex(i * 512));
        } else if (unit->freed.queue != queue && !waits && !naive_passed(memory, unit->freed)) {
            naive_blame(memory, "block %u at %llx: queue %llu still uses it", owner, hex(addr),
                        hex(unit->freed.queue));
        }
        unit->owner = owner;
    }
}

void naive_take(struct naive_memory *memory, uint32_t owner, uint64_t addr, uint64_t bytes,
                struct vr_stamp stamp) {
    uint64_t at = index_at(memory, addr, bytes, 512);
    for (uint64_t i = at; i < at + bytes / 512; i++) {
        if (memory->units[i].owner != owner) {
            naive_blame(memory, "block %u at %llx lost memory", owner, hex(addr));
        }
        memory->units[i] = (struct naive_unit){.freed = stamp};
    }
}

/* -------------------------------------------------------------------- steps */

/* Whether nobody needs what is mapped at [addr, + bytes): no block, no unfinished work. */
static void expect_idle(struct naive_memory *memory, uint64_t addr, uint64_t bytes) {
    uint64_t at = index_at(memory, addr, bytes, NAIVE_GRANULE) * (NAIVE_GRANULE / 512);
    for (uint64_t i = at; i < at + bytes / 512; i++) {
        if (memory->units[i].owner || !naive_passed(memory, memory->units[i].freed)) {
            naive_blame(memory, "memory at %llx goes while it is in use", hex(addr));
            return;
        }
    }
}

static void set_mapped(struct naive_memory *memory, uint64_t addr, uint64_t bytes, uint64_t from,
                       uint64_t to) {
    uint64_t at = index_at(memory, addr, bytes, NAIVE_GRANULE);
    for (uint64_t i = at; i < at + bytes / NAIVE_GRANULE; i++) {
        if (memory->mapped[i] != from) {
            naive_blame(memory, "granule %llu has %llu and not %llu", hex(i),
                        hex(memory->mapped[i]), hex(from));
        }
        memory->mapped[i] = to;
        memory->accessible[i] = false;
        memory->twin[i] = 0;
    }
}

/* The row of a handle; of native 0: a free one. There are no more handles than granules. */
static struct naive_handle *handle_row(struct naive_memory *memory, uint64_t native) {
    for (uint64_t i = 0; i < NAIVE_GRANULES; i++) {
        if (memory->handles[i].native == native) {
            return &memory->handles[i];
        }
    }
    naive_blame(memory, "there is no handle %llu", hex(native));
    return &memory->handles[0];
}

static void map_handle(struct naive_memory *memory, const struct vr_step *step) {
    struct naive_handle *row = handle_row(memory, step->piece->native);
    set_mapped(memory, step->addr, step->bytes, 0, row->native);
    uint64_t at = index_at(memory, step->addr, step->bytes, NAIVE_GRANULE);
    for (uint64_t i = 0; row->place && i < step->bytes / NAIVE_GRANULE; i++) {
        memory->twin[at + i] = row->place + i;
    }
    row->place = at + 1;
}

static void unmap_handle(struct naive_memory *memory, const struct vr_step *step) {
    struct naive_handle *row = handle_row(memory, step->piece->native);
    uint64_t at = index_at(memory, step->addr, step->bytes, NAIVE_GRANULE);
    if (row->place == at + 1) {
        row->place = memory->twin[at];
    }
    for (uint64_t i = 0; i < NAIVE_GRANULES; i++) {
        uint64_t twin = memory->twin[i];
        if (twin > at && twin <= at + step->bytes / NAIVE_GRANULE) {
            memory->twin[i] = memory->twin[twin - 1];
        }
    }
    set_mapped(memory, step->addr, step->bytes, row->native, 0);
}

/* What work may still do to a twin it does to this one too. */
static void inherit(struct naive_memory *memory, uint64_t granule) {
    uint64_t units = NAIVE_GRANULE / 512, twin = memory->twin[granule] - 1;
    for (uint64_t i = 0; i < units; i++) {
        const struct naive_unit *unit = &memory->units[twin * units + i];
        if (unit->owner) {
            naive_blame(memory, "granule %llu has the memory of block %u", hex(granule),
                        unit->owner);
        }
        memory->units[granule * units + i].freed = unit->freed;
    }
}

/* A handle must be mapped at most once. */
static void expect_nowhere(struct naive_memory *memory, uint64_t native) {
    for (uint64_t i = 0; i < NAIVE_GRANULES; i++) {
        if (memory->mapped[i] == native) {
            naive_blame(memory, "handle %llu is still mapped at granule %llu", hex(native), hex(i));
            return;
        }
    }
}

static void allow(struct naive_memory *memory, uint64_t addr, uint64_t bytes) {
    uint64_t at = index_at(memory, addr, bytes, NAIVE_GRANULE);
    for (uint64_t i = at; i < at + bytes / NAIVE_GRANULE; i++) {
        if (!memory->mapped[i]) {
            naive_blame(memory, "access to granule %llu, which has nothing", hex(i));
        }
        if (memory->twin[i] && !memory->accessible[i]) {
            inherit(memory, i);
        }
        memory->accessible[i] = true;
    }
}

/* First fit; one granule stays free between segments, so that none seem to touch. */
static bool segment_place(const struct naive_memory *memory, uint64_t bytes, uint64_t *addr) {
    uint64_t run = 0, need = bytes / NAIVE_GRANULE + 1;
    for (uint64_t i = 0; i < NAIVE_GRANULES; i++) {
        run = memory->mapped[i] ? 0 : run + 1;
        if (run == need) {
            *addr = NAIVE_BASE + (i + 2 - need) * NAIVE_GRANULE;
            return true;
        }
    }
    return false;
}

static bool segment_create(struct naive_memory *memory, struct vr_step *step) {
    uint64_t addr;
    if (!segment_place(memory, step->bytes, &addr)) {
        return false;
    }
    step->piece->addr = addr;
    uint64_t at = index_at(memory, addr, step->bytes, NAIVE_GRANULE) * (NAIVE_GRANULE / 512);
    for (uint64_t i = at; i < at + step->bytes / 512; i++) {
        memory->units[i] = (struct naive_unit){0}; /* the provider's memory is new */
    }
    set_mapped(memory, addr, step->bytes, 0, memory->natives + 1);
    allow(memory, addr, step->bytes);
    return true;
}

bool naive_step(struct naive_memory *memory, struct vr_step *step, bool segments) {
    struct vr_piece *piece = step->piece;
    switch (step->kind) {
    case VR_STEP_CREATE:
        if (segments && !segment_create(memory, step)) {
            return false;
        }
        piece->native = ++memory->natives;
        *handle_row(memory, 0) = (struct naive_handle){.native = piece->native};
        memory->held_bytes += step->bytes;
        break;
    case VR_STEP_UNMAP:
        expect_idle(memory, step->addr, step->bytes);
        unmap_handle(memory, step);
        if (!memory->alias) {
            expect_nowhere(memory, piece->native);
        }
        break;
    case VR_STEP_MAP:
        if (!memory->alias) {
            expect_nowhere(memory, piece->native);
        }
        map_handle(memory, step);
        break;
    case VR_STEP_ACCESS:
        allow(memory, step->addr, step->bytes);
        break;
    case VR_STEP_RELEASE:
        if (segments) {
            expect_idle(memory, step->addr, step->bytes);
            set_mapped(memory, step->addr, step->bytes, piece->native, 0);
        }
        expect_nowhere(memory, piece->native);
        *handle_row(memory, piece->native) = (struct naive_handle){0};
        memory->held_bytes -= step->bytes;
        break;
    }
    return true;
}
