/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handle.c: the table behind every handle. Invariants, in addition to those of handle.h:
 *
 *  (1) Slots lie in chunks that are published once and never freed: any number whose slot lies in a
 *      published chunk may be looked up.
 *  (2) One word is a slot's state: the last generation issued, whether that handle is live, and the
 *      number of references. Live implies at least one, the owner's. Every change of the word is a
 *      compare-and-swap that has checked the generation, so a call with a handle that is not the
 *      slot's last one never changes anything.
 *  (3) The thread that brings the references to 0 owns the slot alone until it is on the free list;
 *      the thread that takes it from there owns it alone until the word says live again.
 *  (4) `object` and `destroy` are written by such an owner before the word becomes live. They are
 *      read only by holders of a reference and by the thread that dropped the last one: the word
 *      orders the two.
 *  (5) A slot belongs to one kind from its first use on. So a number was issued if and only if its
 *      generation is between 1 and the word's, and with kind and slot it is unique for ever.
 *
 * Concurrency: everything except publish and the last unpin is lock-free. These two take the
 * table's lock, only for the free lists.
 */
#include "base/handle.h"

#include "base/atomic.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/os/os.h"
#include "base/size.h"

#include <assert.h>

#define SLOT_BITS   24
#define SLOT_MAX    (1u << SLOT_BITS)
#define CHUNK_SLOTS 1024u
#define NO_SLOT     UINT32_MAX

/*
 * The state of a slot, see (2):
 *
 *     63            32 31   30                0
 *    +----------------+----+------------------+
 *    |   generation   |live|    references    |
 *    +----------------+----+------------------+
 */
#define WORD_LIVE         (UINT64_C(1) << 31)
#define WORD_REFS(word)   ((word) & (WORD_LIVE - 1))
#define WORD_ISSUED(word) ((uint32_t)((word) >> 32))

/* Half a cache line; see slot_at. */
struct slot {
    vr_atomic_u64 word;
    void *object;
    void (*destroy)(void *object);
    vr_atomic_u32 kind; /* enum vr_kind; 0: not used yet; see (5) */
    uint32_t next_free; /* index, while on the free list of its kind */
};
_Static_assert(sizeof(struct slot) == VR_HANDLE_BYTES, "as handle.h says");

static const char *const kind_names[VR_KIND_COUNT] = {
#define KIND(name, text) [VR_KIND_##name] = text,
    VR_KINDS(KIND)
#undef KIND
};

static _Alignas(64) struct slot first_chunk[CHUNK_SLOTS];
static vr_atomic_ptr chunks[SLOT_MAX / CHUNK_SLOTS] = {first_chunk}; /* struct slot *; see (1) */
static vr_atomic_u64 live[VR_KIND_COUNT];

static struct vr_mutex table_lock = VR_MUTEX_INIT(VR_RANK_HANDLE);
static uint32_t free_slots[VR_KIND_COUNT] = {
#define KIND(name, text) [VR_KIND_##name] = NO_SLOT,
    VR_KINDS(KIND)
#undef KIND
};
static uint32_t slots_used; /* slots from here on were never used */
static uint32_t slot_limit = SLOT_MAX;
static uint32_t generation_limit = UINT32_MAX;

/* --------------------------------------------------------------------- numbers */

/* Distinguishes this copy of the library from another one in the process: a hash of the address of
   its table. It uses bits 8 to 52, so that handles of a young process stay below 2^53, which every
   JSON reader represents exactly. */
static uint64_t instance_mark(void) {
    uint64_t mixed = (uint64_t)(uintptr_t)first_chunk * UINT64_C(0x9E3779B97F4A7C15);
    return mixed >> 11 & ~UINT64_C(0xff);
}

static uint64_t number_make(uint32_t generation, uint32_t slot, enum vr_kind kind) {
    return ((uint64_t)generation << 32 | (uint64_t)slot << 8 | (uint64_t)kind) ^ instance_mark();
}

static unsigned number_kind(uint64_t number) {
    return number & 0xff;
}

static uint32_t number_slot(uint64_t number) {
    return (uint32_t)((number ^ instance_mark()) >> 8) & (SLOT_MAX - 1);
}

static uint32_t number_generation(uint64_t number) {
    return (uint32_t)((number ^ instance_mark()) >> 32);
}

/* Two slots share a cache line, and handles that are issued one after the other do not: the second
   half of a chunk fills the second halves of the lines. So threads that pin different objects of a
   program with up to 512 handles do not contend. */
static struct slot *slot_at(uint32_t index) {
    struct slot *chunk = vr_load(&chunks[index / CHUNK_SLOTS], VR_ACQUIRE);
    uint32_t half = CHUNK_SLOTS / 2, in_chunk = index % CHUNK_SLOTS;
    return chunk ? &chunk[in_chunk % half * 2 + in_chunk / half] : NULL;
}

/* ------------------------------------------------------------------ free slots */

/* Allocates the chunk of the first unused slot if it does not exist. */
static vram_status chunk_ensure(void) {
    uint64_t bytes = 0;
    void *pages = NULL;
    if (slots_used >= slot_limit) {
        return vr_fail_in(VRAM_ERR_LIMIT, "vr_handle_publish", "all %u handles are in use",
                          (unsigned)slot_limit);
    }
    if (slot_at(slots_used)) {
        return VRAM_OK;
    }
    (void)vr_round_up(CHUNK_SLOTS * sizeof(struct slot), vr_os_page_bytes(), &bytes);
    vram_status status = vr_os_pages_alloc(bytes, &pages);
    if (status == VRAM_OK) {
        vr_store(&chunks[slots_used / CHUNK_SLOTS], pages, VR_RELEASE);
    }
    return status;
}

static vram_status slot_take(enum vr_kind kind, uint32_t *index) {
    vr_mutex_lock(&table_lock);
    uint32_t got = free_slots[kind];
    vram_status status = VRAM_OK;
    if (got != NO_SLOT) {
        free_slots[kind] = slot_at(got)->next_free;
    } else if ((status = chunk_ensure()) == VRAM_OK) {
        got = slots_used++;
        vr_store(&slot_at(got)->kind, (uint32_t)kind, VR_RELAXED);
    }
    vr_mutex_unlock(&table_lock);
    if (status == VRAM_OK) {
        *index = got;
    }
    return status;
}

/* A slot that has issued its last generation is not reused: its numbers stay dead for ever. */
static void slot_give(struct slot *slot, uint32_t index) {
    vr_mutex_lock(&table_lock);
    if (WORD_ISSUED(vr_load(&slot->word, VR_RELAXED)) < generation_limit) {
        uint32_t kind = vr_load(&slot->kind, VR_RELAXED);
        slot->next_free = free_slots[kind];
        free_slots[kind] = index;
    }
    vr_mutex_unlock(&table_lock);
}

void vr_handle_limits_set(uint32_t generations, uint32_t slots) {
    vr_mutex_lock(&table_lock);
    generation_limit = generations ? generations : UINT32_MAX;
    slot_limit = slots && slots < SLOT_MAX ? slots : SLOT_MAX;
    vr_mutex_unlock(&table_lock);
}

/* ------------------------------------------------------------------ references */

/* Adds a reference if the handle is live or, with `dead_too`, if there is one already. */
static bool refs_add(struct slot *slot, uint64_t number, bool dead_too) {
    uint64_t seen = vr_load(&slot->word, VR_ACQUIRE);
    while (WORD_ISSUED(seen) == number_generation(number) &&
           ((seen & WORD_LIVE) || (dead_too && WORD_REFS(seen)))) {
        if (vr_cas_weak(&slot->word, &seen, seen + 1, VR_ACQUIRE)) {
            return true;
        }
    }
    return false;
}

/* Drops a reference; true if it was the last. Also false for a number without references. */
static bool refs_drop(struct slot *slot, uint64_t number) {
    uint64_t seen = vr_load(&slot->word, VR_RELAXED);
    while (WORD_ISSUED(seen) == number_generation(number) && WORD_REFS(seen)) {
        if (vr_cas_weak(&slot->word, &seen, seen - 1, VR_ACQ_REL)) {
            assert(WORD_REFS(seen) > 1 || !(seen & WORD_LIVE));
            return WORD_REFS(seen) == 1;
        }
    }
    assert(false); /* more references dropped than taken */
    return false;
}

/* -------------------------------------------------------------------- handle.h */

vram_status vr_handle_publish(enum vr_kind kind, void *object, void (*destroy)(void *object),
                              uint64_t *handle) {
    assert(kind > 0 && kind < VR_KIND_COUNT);
    uint32_t index = 0;
    vram_status status = slot_take(kind, &index);
    if (status != VRAM_OK) {
        return status;
    }
    struct slot *slot = slot_at(index);
    uint32_t generation = WORD_ISSUED(vr_load(&slot->word, VR_RELAXED)) + 1;
    slot->object = object;
    slot->destroy = destroy;
    vr_fetch_add(&live[kind], 1, VR_RELAXED);
    vr_store(&slot->word, (uint64_t)generation << 32 | WORD_LIVE | 1, VR_RELEASE);
    *handle = number_make(generation, index, kind);
    return VRAM_OK;
}

/* The slot of a number whose kind matches the slot's; NULL otherwise. */
static struct slot *slot_of(uint64_t number) {
    struct slot *slot = slot_at(number_slot(number));
    return slot && vr_load(&slot->kind, VR_RELAXED) == number_kind(number) ? slot : NULL;
}

void *vr_handle_pin(enum vr_kind kind, const void *handle) {
    uint64_t number = (uintptr_t)handle;
    struct slot *slot = number_kind(number) == (unsigned)kind ? slot_of(number) : NULL;
    return slot && refs_add(slot, number, false) ? slot->object : NULL;
}

void *vr_handle_hold(enum vr_kind kind, const void *handle) {
    uint64_t number = (uintptr_t)handle;
    struct slot *slot = number_kind(number) == (unsigned)kind ? slot_of(number) : NULL;
    return slot && refs_add(slot, number, true) ? slot->object : NULL;
}

bool vr_handle_try_ref(uint64_t handle) {
    struct slot *slot = slot_of(handle);
    return slot && refs_add(slot, handle, true);
}

void vr_handle_ref(uint64_t handle) {
    bool added = vr_handle_try_ref(handle);
    assert(added);
    (void)added;
}

void vr_handle_unpin(uint64_t handle) {
    struct slot *slot = slot_of(handle);
    assert(slot);
    if (slot && refs_drop(slot, handle)) {
        assert(vr_locks_held() == 0);
        void *object = slot->object;
        void (*destroy)(void *) = slot->destroy;
        vram_error before;
        slot_give(slot, number_slot(handle));
        /* The call that drops the last reference reports its own result, not a failure in here. */
        vr_error_save(&before);
        destroy(object);
        vr_error_restore(&before);
    }
}

bool vr_handle_retire(uint64_t handle) {
    struct slot *slot = slot_of(handle);
    uint64_t seen = slot ? vr_load(&slot->word, VR_RELAXED) : 0;
    while (WORD_ISSUED(seen) == number_generation(handle) && (seen & WORD_LIVE)) {
        if (vr_cas_weak(&slot->word, &seen, seen & ~WORD_LIVE, VR_RELEASE)) {
            vr_fetch_sub(&live[number_kind(handle)], 1, VR_RELAXED);
            return true;
        }
    }
    return false;
}

bool vr_handle_is_last(uint64_t handle) {
    struct slot *slot = slot_of(handle);
    assert(slot);
    return slot && WORD_REFS(vr_load(&slot->word, VR_ACQUIRE)) == 2;
}

/* The last state of the slot if the table ever issued this number, else 0: see (5). */
static uint64_t word_if_issued(uint64_t number) {
    struct slot *slot = slot_of(number);
    uint64_t word = slot ? vr_load(&slot->word, VR_ACQUIRE) : 0;
    uint32_t generation = number_generation(number);
    return generation != 0 && generation <= WORD_ISSUED(word) ? word : 0;
}

bool vr_handle_was(enum vr_kind kind, const void *handle) {
    uint64_t number = (uintptr_t)handle;
    uint64_t word = number_kind(number) == (unsigned)kind ? word_if_issued(number) : 0;
    return word != 0 && (WORD_ISSUED(word) != number_generation(number) || !(word & WORD_LIVE));
}

vram_status vr_handle_error(enum vr_kind kind, const void *handle) {
    assert(kind > 0 && kind < VR_KIND_COUNT);
    uint64_t number = (uintptr_t)handle;
    const char *name = kind_names[kind];
    if (number == 0) {
        return vr_fail(VRAM_ERR_INVALID, "%s: the %s is NULL", vr_operation(), name);
    }
    if (vr_handle_was(kind, handle)) {
        return vr_fail(VRAM_ERR_STALE, "%s: the %s was destroyed", vr_operation(), name);
    }
    unsigned other = number_kind(number);
    if (other != (unsigned)kind && word_if_issued(number)) {
        return vr_fail(VRAM_ERR_INVALID, "%s: the handle is a %s, not a %s", vr_operation(),
                       kind_names[other], name);
    }
    return vr_fail(VRAM_ERR_INVALID, "%s: the handle is not a valid %s", vr_operation(), name);
}

uint64_t vr_handle_live(unsigned kind) {
    uint64_t sum = 0;
    for (unsigned i = 1; i < VR_KIND_COUNT; i++) {
        sum += kind == 0 || kind == i ? vr_load(&live[i], VR_RELAXED) : 0;
    }
    return sum;
}
