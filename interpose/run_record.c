/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_record.c: see run_record.h. Each pair of device and kind is a pool of the trace; the library
 * that took a block is its tag.
 */
#include "run_record.h"

#include "base/clock.h"
#include "base/os/os.h"
#include "base/size_text.h"
#include "base/text.h"
#include "run_live.h"
#include "run_owner.h"
#include "run_process.h"
#include "track/event.h"
#include "track/stack.h"
#include "track/trace_writer.h"
#include "vram/oom.h"

#include <errno.h>
#include <string.h>

enum { FIGURE_NS = 100000000 };

const struct run_kind_row run_kinds[RUN_KINDS] = {
    [RUN_DEVICE] = {"device", true},
    [RUN_STREAM] = {"stream-ordered", true},
    [RUN_PHYSICAL] = {"physical", true},
    [RUN_MANAGED] = {"managed", true},
    [RUN_ARRAY] = {"array", true},
    [RUN_CODE] = {"code", true},
    [RUN_CONTEXT] = {"context", true},
    [RUN_SERVED] = {"served", false},
    [RUN_IMPORTED] = {"imported", false},
    [RUN_PINNED] = {"pinned host", false},
    [RUN_REGISTERED] = {"registered", false},
    [RUN_HOST] = {"host", false},
};

static const char *api_name(uint32_t api) {
    static const char *const names[] = {"", "cuda", "hip", "opencl", "vulkan"};
    return api < sizeof names / sizeof names[0] ? names[api] : "";
}

/* --------------------------------------------------------------------- devices */

static struct run_device *device_of(struct run_slot *slot, uint32_t device) {
    return slot && device < RUN_DEVICES ? &slot->devices[device] : NULL;
}

/* The device, or the free place for it: a place is claimed by its `claim` and used once its api is
   set, so two threads never describe one place. */
uint32_t run_device_find(enum run_api api, uint32_t ordinal, const char *name, uint64_t total) {
    struct run_slot *slot = run_slot_get();
    for (uint32_t i = 0; slot && i < RUN_DEVICES; i++) {
        struct run_device *device = &slot->devices[i];
        uint64_t mine = (uint64_t)api << 32 | ordinal | UINT64_C(1) << 63, found = 0;
        if (atomic_compare_exchange_strong(&device->claim, &found, mine)) {
            device->ordinal = ordinal;
            atomic_store(&device->total, total);
            (void)vr_text_copy(device->name, sizeof device->name, name ? name : "");
            atomic_store(&device->api, (uint32_t)api);
            return i;
        }
        if (found == mine) {
            if (total && !atomic_load(&device->total)) {
                atomic_store(&device->total, total);
            }
            return i;
        }
    }
    return RUN_NO_DEVICE;
}

static void counter_raise(_Atomic(uint64_t) *peak, uint64_t value) {
    uint64_t seen = atomic_load(peak);
    while (seen < value && !atomic_compare_exchange_weak(peak, &seen, value)) {
    }
}

static void figure_set(struct run_figure *figure, uint64_t free, uint64_t counted) {
    atomic_store(&figure->free, free);
    atomic_store(&figure->counted, counted);
    atomic_store(&figure->time_ns, vr_os_now());
}

void run_device_figure(uint32_t device, uint64_t free) {
    struct run_device *at = device_of(run_slot_get(), device);
    if (!at) {
        return;
    }
    uint64_t counted = atomic_load(&at->counted);
    counter_raise(&at->asked, counted);
    if (!atomic_load(&at->first.time_ns)) {
        figure_set(&at->first, free, counted);
    }
    if (!atomic_load(&at->least.time_ns) || free < atomic_load(&at->least.free)) {
        figure_set(&at->least, free, counted);
    }
    figure_set(&at->last, free, counted);
}

uint64_t run_device_before(uint32_t device) {
    struct run_device *at = device_of(run_slot_get(), device);
    return at ? atomic_load(&at->before) : 0;
}

uint64_t run_device_counted(uint32_t device) {
    struct run_device *at = device_of(run_slot_get(), device);
    return at ? atomic_load(&at->counted) : 0;
}

uint64_t run_device_total(uint32_t device) {
    struct run_device *at = device_of(run_slot_get(), device);
    return at ? atomic_load(&at->total) : 0;
}

void run_device_uuid(uint32_t device, const unsigned char uuid[16]) {
    struct run_device *at = device_of(run_slot_get(), device);
    if (at) {
        const struct run_before *before = run_page_get()->settings.before;
        memcpy(at->uuid, uuid, sizeof at->uuid);
        for (unsigned i = 0; i < RUN_DEVICES; i++) {
            if (before[i].used && memcmp(before[i].uuid, uuid, sizeof before[i].uuid) == 0) {
                atomic_store(&at->before, before[i].used);
            }
        }
    }
}

uint32_t run_device_by_uuid(const unsigned char uuid[16]) {
    const struct run_slot *slot = run_slot_get();
    for (uint32_t i = 0; slot && i < RUN_DEVICES; i++) {
        if (atomic_load(&slot->devices[i].api) &&
            memcmp(slot->devices[i].uuid, uuid, sizeof slot->devices[i].uuid) == 0) {
            return i;
        }
    }
    return RUN_NO_DEVICE;
}

bool run_device_due(uint32_t device) {
    struct run_device *at = device_of(run_slot_get(), device);
    if (!at) {
        return false;
    }
    uint64_t last = atomic_load(&at->last.time_ns), counted = atomic_load(&at->counted);
    uint64_t then = atomic_load(&at->asked); /* free memory need not have fallen since */
    bool grown = counted > then && counted - then > counted / 16 + (1 << 20);
    return !last || grown || vr_os_now_coarse() > last + FIGURE_NS;
}

/* ---------------------------------------------------------------------- sums */

static void sums_add(struct run_slot *slot, const struct run_block *block) {
    struct run_device *device = device_of(slot, block->device);
    atomic_fetch_add(&slot->allocs, 1);
    if (device) {
        uint64_t live = atomic_fetch_add(&device->live[block->kind], block->bytes) + block->bytes;
        counter_raise(&device->peak[block->kind], live);
        if (run_kinds[block->kind].counts) {
            uint64_t all = atomic_fetch_add(&device->counted, block->bytes) + block->bytes;
            counter_raise(&device->counted_peak, all);
        }
    }
}

static void sums_remove(struct run_slot *slot, const struct run_block *block) {
    struct run_device *device = device_of(slot, block->device);
    atomic_fetch_add(&slot->frees, 1);
    if (device) {
        atomic_fetch_sub(&device->live[block->kind], block->bytes);
        if (run_kinds[block->kind].counts) {
            atomic_fetch_sub(&device->counted, block->bytes);
        }
    }
}

/* --------------------------------------------------------------------- events */

/* Handles of the trace; pools of unknown devices come last. */
static uint32_t pool_of(uint32_t device, enum run_kind kind) {
    return (device < RUN_DEVICES ? device : RUN_DEVICES) * RUN_KINDS + kind;
}

/* Values of other spaces than addresses are numbered: handles may be anything. */
static uint64_t trace_address(const struct run_block *block) {
    return block->space == RUN_SPACE_ADDRESS
               ? block->value
               : (uint64_t)(block->space + 1) << 56 | (block->serial & ((UINT64_C(1) << 56) - 1));
}

static struct vr_event event_of(uint32_t device, enum run_kind kind, enum vr_event_kind what) {
    return (struct vr_event){.kind = what,
                             .pool = run_pool_handle(pool_of(device, kind)),
                             .device = device < RUN_DEVICES ? device + UINT64_C(1) : 0,
                             .thread = vr_os_thread_number()};
}

struct pool_begin {
    struct vr_trace_writer *writer;
    uint32_t device;
    enum run_kind kind;
};

static void pool_begin_write(void *user) {
    const struct pool_begin *pool = user;
    char name[64];
    const struct run_device *at = device_of(run_slot_get(), pool->device);
    if (at) {
        (void)vr_text_format(name, sizeof name, "%s:%u %s", api_name(atomic_load(&at->api)),
                             at->ordinal, run_kinds[pool->kind].name);
    } else {
        (void)vr_text_format(name, sizeof name, "%s", run_kinds[pool->kind].name);
    }
    struct vr_event event = event_of(pool->device, pool->kind, VR_EVENT_POOL_BEGIN);
    event.name = event.pool_name = name;
    vr_trace_write_event(pool->writer, &event);
}

/* A pool of the trace begins with its first event, and the name of its device. */
static void pool_begin(struct vr_trace_writer *writer, uint32_t device, enum run_kind kind) {
    struct pool_begin pool = {writer, device, kind};
    run_pool_once(pool_of(device, kind), pool_begin_write, &pool);
}

static void event_write(const struct run_block *block, enum vr_event_kind what) {
    int before = errno;
    struct vr_trace_writer *writer = run_trace_enter();
    if (writer) {
        struct vr_event event = event_of(block->device, block->kind, what);
        event.addr = trace_address(block);
        event.bytes = block->bytes;
        event.held = block->held;
        event.queue = block->queue;
        if (what == VR_EVENT_ALLOC) {
            event.tag = block->owner;
            event.stack = block->stack;
        }
        pool_begin(writer, block->device, block->kind);
        vr_trace_write_event(writer, &event);
        run_trace_leave();
    }
    errno = before;
}

/* --------------------------------------------------------------------- blocks */

static vr_atomic_u64 serials;

/* A block whose free was not seen: its address has been allocated again. */
static void block_lapse(struct run_slot *slot, struct run_block *block) {
    sums_remove(slot, block);
    if (run_kinds[block->kind].counts) {
        run_limit_give(block->device, block->kind, block->limit);
    }
}

static void block_enter(struct run_slot *slot, const struct run_block *block) {
    struct run_block replaced;
    if (run_live_add(block, &replaced)) {
        if (replaced.serial) {
            block_lapse(slot, &replaced);
        }
        sums_add(slot, block);
    }
    event_write(block, VR_EVENT_ALLOC);
}

void run_alloc(struct run_block *block) {
    struct run_slot *slot = run_slot_get();
    if (!slot) {
        return;
    }
    int before = errno;
    block->serial = vr_fetch_add(&serials, 1, VR_RELAXED) + 1;
    block->held = block->held > block->bytes ? block->held : block->bytes;
    block->limit = block->limit ? block->limit : block->bytes;
    bool stacks = run_page_get()->settings.stacks == RUN_STACKS_NATIVE;
    block->stack = stacks ? vr_stack_take() : 0;
    block->owner = run_owner_set() ? run_owner_set()
                   : block->stack  ? run_owner_of_stack(block->stack)
                                   : run_owner_of_caller(block->caller);
    errno = before;
    block_enter(slot, block);
}

bool run_free_begin(enum run_space space, uint64_t value, struct run_block *block) {
    struct run_slot *slot = run_slot_get();
    if (!slot || !value) {
        return false;
    }
    if (!run_live_take(space, value, block)) {
        atomic_fetch_add(&slot->strangers, 1);
        return false;
    }
    sums_remove(slot, block);
    event_write(block, VR_EVENT_FREE);
    return true;
}

void run_free_end(struct run_block *block, bool freed) {
    struct run_slot *slot = block ? run_slot_get() : NULL;
    if (!slot) {
        return;
    }
    if (freed) {
        run_limit_give(block->device, block->kind, block->limit);
    } else {
        block_enter(slot, block);
    }
}

bool run_block_find(enum run_space space, uint64_t value, struct run_block *block) {
    return run_slot_get() && run_live_look(space, value, block);
}

struct free_all {
    uint32_t device;
    bool (*which)(const struct run_block *block, void *user);
    void *user;
};

static bool free_selects(const struct run_block *block, void *user) {
    const struct free_all *all = user;
    return block->device == all->device && (!all->which || all->which(block, all->user));
}

void run_free_all(uint32_t device, bool (*which)(const struct run_block *block, void *user),
                  void *user) {
    struct run_slot *slot = run_slot_get();
    struct free_all all = {device, which, user};
    struct run_block block;
    for (uint64_t at = 0; slot && run_live_take_any(&at, free_selects, &all, &block);) {
        sums_remove(slot, &block);
        event_write(&block, VR_EVENT_FREE);
        run_limit_give(block.device, block.kind, block.limit);
    }
}

/* All blocks of one kind and their bytes. */
struct kind_end {
    uint32_t device;
    enum run_kind kind;
};

static bool kind_selects(const struct run_block *block, void *user) {
    const struct kind_end *end = user;
    return block->device == end->device && block->kind == end->kind;
}

static void kind_ended(struct run_slot *slot, uint32_t device, enum run_kind kind) {
    struct kind_end end = {device, kind};
    struct vr_event event = event_of(device, kind, VR_EVENT_POOL_END);
    struct run_block block;
    for (uint64_t at = 0; run_live_take_any(&at, kind_selects, &end, &block);) {
        sums_remove(slot, &block);
        run_limit_give(block.device, block.kind, block.limit);
        event.bytes += block.bytes;
        event.held += block.held;
        event.elements++;
    }
    struct vr_trace_writer *writer = event.elements ? run_trace_enter() : NULL;
    if (writer) {
        vr_trace_write_event(writer, &event);
        run_pool_ended(pool_of(device, kind));
        run_trace_leave();
    }
}

void run_context_ended(uint32_t device) {
    struct run_slot *slot = run_slot_get();
    for (unsigned kind = 0; slot && kind < RUN_KINDS; kind++) {
        if (kind != RUN_PHYSICAL && kind != RUN_SERVED && kind != RUN_HOST) {
            kind_ended(slot, device, (enum run_kind)kind);
        }
    }
}

/* What was refused by what, in front of the refusal. The report is larger than some threads' stacks
   can take, so there is one: of refusals at the same time one has it. */
static void report_write(struct vr_trace_writer *writer, const struct vr_event *refused,
                         uint32_t device, bool by_limit) {
    static struct vram_oom_report report;
    static vr_atomic_u32 taken;
    char asked[VRAM_SIZE_TEXT_MAX], held[VRAM_SIZE_TEXT_MAX], limit[VRAM_SIZE_TEXT_MAX];
    uint32_t free = 0;
    if (!vr_cas(&taken, &free, 1, VR_ACQ_REL)) {
        return;
    }
    const struct run_device *at = device_of(run_slot_get(), device);
    memset(&report, 0, sizeof report);
    report.size = sizeof report;
    report.cause = by_limit ? VRAM_OOM_LIMIT : VRAM_OOM_FULL;
    report.asked_bytes = report.needed_bytes = refused->bytes;
    report.process_bytes = run_device_counted(device);
    report.total_bytes = (vram_value){run_device_total(device), at && run_device_total(device) > 0};
    report.limit_bytes = (vram_value){run_limit_bytes(), run_limit_bytes() > 0};
    vr_size_format(refused->bytes, asked);
    vr_size_format(report.process_bytes, held);
    vr_size_format(run_limit_bytes(), limit);
    if (by_limit) {
        (void)vr_text_format(report.summary, sizeof report.summary,
                             "out of memory (limit): %s were asked for: the limit of %s "
                             "(vram run --limit) is reached, with %s held by this process",
                             asked, limit, held);
        (void)vr_text_copy(report.advice, sizeof report.advice,
                           "a higher --limit, or less of what is listed as held");
    } else {
        (void)vr_text_format(report.summary, sizeof report.summary,
                             "out of memory: %s were asked for, and the driver refused, with %s "
                             "held by this process",
                             asked, held);
        (void)vr_text_copy(report.advice, sizeof report.advice,
                           "less of what is listed as held, here or by other processes");
    }
    struct vr_event event = *refused;
    event.kind = VR_EVENT_REPORT;
    event.report = &report;
    vr_trace_write_event(writer, &event);
    vr_store(&taken, 0, VR_RELEASE);
}

void run_refused(uint32_t device, enum run_kind kind, uint64_t bytes, bool by_limit) {
    struct run_slot *slot = run_slot_get();
    if (!slot) {
        return;
    }
    int before = errno;
    atomic_fetch_add(by_limit ? &slot->limit_refusals : &slot->refusals, 1);
    struct vr_trace_writer *writer = run_trace_enter();
    if (writer) {
        struct vr_event event = event_of(device, kind, VR_EVENT_REFUSED);
        event.bytes = bytes;
        event.status = by_limit ? VRAM_ERR_LIMIT : VRAM_ERR_DEVICE_MEMORY;
        event.stack = run_page_get()->settings.stacks == RUN_STACKS_NATIVE ? vr_stack_take() : 0;
        event.tag = event.stack ? run_owner_of_stack(event.stack) : run_owner_set();
        pool_begin(writer, device, kind);
        report_write(writer, &event, device, by_limit);
        vr_trace_write_event(writer, &event);
        run_trace_leave();
    }
    errno = before;
}

void run_mark(const char *text) {
    struct vr_trace_writer *writer = run_trace_enter();
    if (writer) {
        vr_trace_write_mark(writer, text);
        run_trace_leave();
    }
}

void run_unknown(const char *name) {
    struct run_slot *slot = run_slot_get();
    uint64_t number = slot ? atomic_fetch_add(&slot->unknown, 1) : RUN_UNKNOWN_NAMES;
    if (number < RUN_UNKNOWN_NAMES) {
        (void)vr_text_copy(slot->unknown_names[number], RUN_NAME, name);
    }
}

/* What the driver took for itself ends with the process, and is no leak of the program's. */
static bool is_of_driver(const struct run_block *block, void *user) {
    (void)user;
    return block->kind == RUN_CODE || block->kind == RUN_CONTEXT;
}

void run_record_end(void) {
    if (!run_slot_has()) {
        return;
    }
    for (uint32_t device = 0; device < RUN_DEVICES; device++) {
        run_free_all(device, is_of_driver, NULL);
    }
    run_trace_end();
}
