/* SPDX-License-Identifier: Apache-2.0 */
/* world.c: the naive model behind world.h. */
#include "world.h"

#include "base/text.h"

#include <stdarg.h>

static unsigned long long hex(uint64_t value) {
    return (unsigned long long)value;
}

void world_blame(struct world *world, const char *format, ...) {
    if (world->violations++ == 0) {
        va_list arguments;
        va_start(arguments, format);
        vr_text_format_list(world->first, sizeof world->first, format, arguments);
        va_end(arguments);
    }
}

bool world_passed(void *user, struct vr_stamp stamp) {
    const struct world *world = user;
    return stamp.queue == 0 || stamp.value <= world->passed[stamp.queue];
}

/* Index of the unit or granule at `addr`; 0, and a violation, outside. */
static uint64_t index_at(struct world *world, uint64_t addr, uint64_t bytes, uint64_t unit) {
    uint64_t most = (uint64_t)WORLD_GRANULES * WORLD_GRANULE;
    if (addr < WORLD_BASE || addr - WORLD_BASE > most || bytes > most - (addr - WORLD_BASE) ||
        addr % unit || bytes % unit) {
        world_blame(world, "[%llx, + %llx) is outside or crooked", hex(addr), hex(bytes));
        return 0;
    }
    return (addr - WORLD_BASE) / unit;
}

/* ------------------------------------------------------------------- blocks */

void world_give(struct world *world, uint32_t owner, uint64_t addr, uint64_t bytes, uint64_t queue,
                struct vr_stamp after) {
    uint64_t at = index_at(world, addr, bytes, 512);
    for (uint64_t i = at; i < at + bytes / 512 && !world->violations; i++) {
        struct world_unit *unit = &world->units[i];
        uint64_t granule = i / (WORLD_GRANULE / 512);
        bool waits = after.queue == unit->freed.queue && after.value >= unit->freed.value;
        if (unit->owner) {
            world_blame(world, "block %u at %llx lies on block %u", owner, hex(addr), unit->owner);
        } else if (!world->mapped[granule] || !world->accessible[granule]) {
            world_blame(world, "block %u at %llx has no memory at %llx", owner, hex(addr),
                        hex(i * 512));
        } else if (unit->freed.queue != queue && !waits && !world_passed(world, unit->freed)) {
            world_blame(world, "block %u at %llx: queue %llu still uses it", owner, hex(addr),
                        hex(unit->freed.queue));
        }
        unit->owner = owner;
    }
}

void world_take(struct world *world, uint32_t owner, uint64_t addr, uint64_t bytes,
                struct vr_stamp stamp) {
    uint64_t at = index_at(world, addr, bytes, 512);
    for (uint64_t i = at; i < at + bytes / 512; i++) {
        if (world->units[i].owner != owner) {
            world_blame(world, "block %u at %llx lost memory", owner, hex(addr));
        }
        world->units[i] = (struct world_unit){.freed = stamp};
    }
}

/* -------------------------------------------------------------------- steps */

/* Whether nobody needs what is mapped at [addr, + bytes): no block, no unfinished work. */
static void expect_idle(struct world *world, uint64_t addr, uint64_t bytes) {
    uint64_t at = index_at(world, addr, bytes, WORLD_GRANULE) * (WORLD_GRANULE / 512);
    for (uint64_t i = at; i < at + bytes / 512; i++) {
        if (world->units[i].owner || !world_passed(world, world->units[i].freed)) {
            world_blame(world, "memory at %llx goes while it is in use", hex(addr));
            return;
        }
    }
}

static void set_mapped(struct world *world, uint64_t addr, uint64_t bytes, uint64_t from,
                       uint64_t to) {
    uint64_t at = index_at(world, addr, bytes, WORLD_GRANULE);
    for (uint64_t i = at; i < at + bytes / WORLD_GRANULE; i++) {
        if (world->mapped[i] != from) {
            world_blame(world, "granule %llu has %llu and not %llu", hex(i), hex(world->mapped[i]),
                        hex(from));
        }
        world->mapped[i] = to;
        world->accessible[i] = false;
        world->twin[i] = 0;
    }
}

/* The row of a handle; of native 0: a free one. There are no more handles than granules. */
static struct world_handle *handle_row(struct world *world, uint64_t native) {
    for (uint64_t i = 0; i < WORLD_GRANULES; i++) {
        if (world->handles[i].native == native) {
            return &world->handles[i];
        }
    }
    world_blame(world, "there is no handle %llu", hex(native));
    return &world->handles[0];
}

static void map_handle(struct world *world, const struct vr_step *step) {
    struct world_handle *row = handle_row(world, step->piece->native);
    set_mapped(world, step->addr, step->bytes, 0, row->native);
    uint64_t at = index_at(world, step->addr, step->bytes, WORLD_GRANULE);
    for (uint64_t i = 0; row->place && i < step->bytes / WORLD_GRANULE; i++) {
        world->twin[at + i] = row->place + i;
    }
    row->place = at + 1;
}

static void unmap_handle(struct world *world, const struct vr_step *step) {
    struct world_handle *row = handle_row(world, step->piece->native);
    uint64_t at = index_at(world, step->addr, step->bytes, WORLD_GRANULE);
    if (row->place == at + 1) {
        row->place = world->twin[at];
    }
    for (uint64_t i = 0; i < WORLD_GRANULES; i++) {
        uint64_t twin = world->twin[i];
        if (twin > at && twin <= at + step->bytes / WORLD_GRANULE) {
            world->twin[i] = world->twin[twin - 1];
        }
    }
    set_mapped(world, step->addr, step->bytes, row->native, 0);
}

/* What work may still do to a twin it does to this one too. */
static void inherit(struct world *world, uint64_t granule) {
    uint64_t units = WORLD_GRANULE / 512, twin = world->twin[granule] - 1;
    for (uint64_t i = 0; i < units; i++) {
        const struct world_unit *unit = &world->units[twin * units + i];
        if (unit->owner) {
            world_blame(world, "granule %llu has the memory of block %u", hex(granule),
                        unit->owner);
        }
        world->units[granule * units + i].freed = unit->freed;
    }
}

/* A handle must be mapped at most once. */
static void expect_nowhere(struct world *world, uint64_t native) {
    for (uint64_t i = 0; i < WORLD_GRANULES; i++) {
        if (world->mapped[i] == native) {
            world_blame(world, "handle %llu is still mapped at granule %llu", hex(native), hex(i));
            return;
        }
    }
}

static void allow(struct world *world, uint64_t addr, uint64_t bytes) {
    uint64_t at = index_at(world, addr, bytes, WORLD_GRANULE);
    for (uint64_t i = at; i < at + bytes / WORLD_GRANULE; i++) {
        if (!world->mapped[i]) {
            world_blame(world, "access to granule %llu, which has nothing", hex(i));
        }
        if (world->twin[i] && !world->accessible[i]) {
            inherit(world, i);
        }
        world->accessible[i] = true;
    }
}

/* First fit; one granule stays free between segments, so that none seem to touch. */
static bool segment_place(const struct world *world, uint64_t bytes, uint64_t *addr) {
    uint64_t run = 0, need = bytes / WORLD_GRANULE + 1;
    for (uint64_t i = 0; i < WORLD_GRANULES; i++) {
        run = world->mapped[i] ? 0 : run + 1;
        if (run == need) {
            *addr = WORLD_BASE + (i + 2 - need) * WORLD_GRANULE;
            return true;
        }
    }
    return false;
}

static bool segment_create(struct world *world, struct vr_step *step) {
    uint64_t addr;
    if (!segment_place(world, step->bytes, &addr)) {
        return false;
    }
    step->piece->addr = addr;
    uint64_t at = index_at(world, addr, step->bytes, WORLD_GRANULE) * (WORLD_GRANULE / 512);
    for (uint64_t i = at; i < at + step->bytes / 512; i++) {
        world->units[i] = (struct world_unit){0}; /* the provider's memory is new */
    }
    set_mapped(world, addr, step->bytes, 0, world->natives + 1);
    allow(world, addr, step->bytes);
    return true;
}

bool world_step(struct world *world, struct vr_step *step, bool segments) {
    struct vr_piece *piece = step->piece;
    switch (step->kind) {
    case VR_STEP_CREATE:
        if (segments && !segment_create(world, step)) {
            return false;
        }
        piece->native = ++world->natives;
        *handle_row(world, 0) = (struct world_handle){.native = piece->native};
        world->held_bytes += step->bytes;
        break;
    case VR_STEP_UNMAP:
        expect_idle(world, step->addr, step->bytes);
        unmap_handle(world, step);
        if (!world->alias) {
            expect_nowhere(world, piece->native);
        }
        break;
    case VR_STEP_MAP:
        if (!world->alias) {
            expect_nowhere(world, piece->native);
        }
        map_handle(world, step);
        break;
    case VR_STEP_ACCESS:
        allow(world, step->addr, step->bytes);
        break;
    case VR_STEP_RELEASE:
        if (segments) {
            expect_idle(world, step->addr, step->bytes);
            set_mapped(world, step->addr, step->bytes, piece->native, 0);
        }
        expect_nowhere(world, piece->native);
        *handle_row(world, piece->native) = (struct world_handle){0};
        world->held_bytes -= step->bytes;
        break;
    }
    return true;
}
