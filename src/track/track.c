/* SPDX-License-Identifier: Apache-2.0 */
/*
 * track.c: records of live blocks: room for them, their lives, and their sums. See track.h.
 */
#include "track/track.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "base/text.h"
#include "track/site.h"

#include <assert.h>
#include <string.h>

enum {
    ID_BATCH = 1024,
    STEP_BITS = 20, /* of a time: what is left out */
    THREAD_BITS = 21,
    KIND_BITS = 3 /* of a vram_memory_kind */
};

/* A record that is free has no id; `addr` then is the number of the next free one. One that is prepared
   has no address. */
struct record {
    uint64_t id;        /* 0: free */
    uint64_t addr;      /* 0: prepared */
    uint64_t requested; /* bytes */
    uint64_t moment;    /* time in steps of 2^20 ns, the kind of memory, the thread */
    uint32_t units;     /* held, in VR_TRACK_UNIT */
    uint32_t site;
};

_Static_assert(sizeof(struct record) == 40,
               "a record is at most 48 bytes with all that belongs to it");

/* The text of one block. A block that goes leaves its label in a list, to be freed outside. */
struct label {
    struct label *next; /* in that list */
    uint64_t elements;
    char name[];
};

struct chunk {
    struct label **labels; /* one for each record; NULL: none has one */
    struct record records[VR_TRACK_CHUNK];
};

struct vr_track {
    vr_atomic_u64 turn; /* number of the thread inside; 0: none; see (1) */
    uint64_t pool, device;
    char name[VR_TRACK_NAME];
    struct chunk **chunks;
    uint32_t chunk_count, chunk_room;
    uint32_t free;       /* number of the first free record; 0: none */
    uint64_t id, id_end; /* next, and behind the last of the batch */
    struct label *dead;
    struct vr_sites sites;
    struct vr_track_totals totals;
    uint64_t epoch;
    vr_atomic_u64 lost;
    struct vr_mutex room; /* making room; see (2) */
};

static vr_atomic_u64 ids = 1; /* given out, process-wide */

/* --------------------------------------------------------------------- turn */

/* False: a signal handler has interrupted the holder. */
static bool enter(struct vr_track *track) {
    uint64_t self = vr_os_thread_number(), found = 0;
    for (unsigned round = 0; !vr_cas_weak(&track->turn, &found, self, VR_ACQUIRE); round++) {
        if (found == self) {
            return false;
        }
        found = 0;
        if (round < 64) {
            vr_os_pause();
        } else if (round < 128) {
            vr_os_yield();
        } else {
            vr_os_sleep(50000);
        }
    }
    return true;
}

static void leave(struct vr_track *track) {
    vr_store(&track->turn, 0, VR_RELEASE);
}

/* ------------------------------------------------------------------ records */

/* Numbers start with 1. */
static struct record *record_of(const struct vr_track *track, uint32_t number) {
    uint32_t index = number - 1;
    return &track->chunks[index / VR_TRACK_CHUNK]->records[index % VR_TRACK_CHUNK];
}

static struct label **label_of(const struct vr_track *track, uint32_t number) {
    struct chunk *chunk = track->chunks[(number - 1) / VR_TRACK_CHUNK];
    return chunk->labels ? &chunk->labels[(number - 1) % VR_TRACK_CHUNK] : NULL;
}

/* The record of a number, if it is one that is in use. Inside. */
static struct record *used_record(const struct vr_track *track, uint32_t number) {
    if (!number || number > track->chunk_count * VR_TRACK_CHUNK) {
        return NULL;
    }
    struct record *record = record_of(track, number);
    return record->id ? record : NULL;
}

static uint64_t moment_now(uint32_t memory) {
    return (vr_clock_coarse() >> STEP_BITS) << (KIND_BITS + THREAD_BITS) |
           (uint64_t)memory << THREAD_BITS | (vr_os_thread_number() & ((1u << THREAD_BITS) - 1));
}

static uint64_t time_of(uint64_t moment) {
    return moment >> (KIND_BITS + THREAD_BITS) << STEP_BITS;
}

/* A free record with an id. Inside; there is one. */
static uint32_t take(struct vr_track *track, uint32_t site) {
    uint32_t number = track->free;
    struct record *record = record_of(track, number);
    track->free = (uint32_t)record->addr;
    if (track->id == track->id_end) {
        track->id = vr_fetch_add(&ids, ID_BATCH, VR_RELAXED);
        track->id_end = track->id + ID_BATCH;
    }
    record->id = track->id++;
    record->addr = 0;
    record->site = site;
    return number;
}

/* Inside. */
static void give(struct vr_track *track, uint32_t number) {
    struct record *record = record_of(track, number);
    struct label **label = label_of(track, number);
    if (label && *label) {
        (*label)->next = track->dead;
        track->dead = *label;
        *label = NULL;
    }
    record->id = 0;
    record->addr = track->free;
    track->free = number;
}

/* --------------------------------------------------------------------- sums */

/* Before a site's sums change: keeps (4). Inside. */
static void keep_peak(struct vr_track *track, struct vr_site *site) {
    if (site->epoch != track->epoch) {
        site->peak_count = site->count;
        site->peak_bytes = site->bytes;
        site->epoch = track->epoch;
    }
}

static void raise_peak(struct vr_track *track, uint64_t moment) {
    if (track->totals.bytes > track->totals.peak_bytes) {
        track->totals.peak_bytes = track->totals.bytes;
        track->totals.peak_count = track->totals.count;
        track->totals.peak_ns = time_of(moment);
        track->epoch++;
    }
}

static void add(struct vr_track *track, struct record *record, uint64_t addr, uint64_t requested,
                uint64_t held, uint64_t moment) {
    struct vr_site *site = &track->sites.all[record->site];
    assert(held % VR_TRACK_UNIT == 0 && held / VR_TRACK_UNIT <= UINT32_MAX);
    record->addr = addr;
    record->requested = requested;
    record->units = (uint32_t)(held / VR_TRACK_UNIT);
    record->moment = moment;
    keep_peak(track, site);
    site->count++;
    site->bytes += requested;
    track->totals.allocs++;
    track->totals.count++;
    track->totals.bytes += requested;
    track->totals.held += held;
    raise_peak(track, moment);
}

static uint64_t held_of(const struct record *record) {
    return (uint64_t)record->units * VR_TRACK_UNIT;
}

static void subtract(struct vr_track *track, const struct record *record) {
    struct vr_site *site = &track->sites.all[record->site];
    keep_peak(track, site);
    site->count--;
    site->bytes -= record->requested;
    track->totals.frees++;
    track->totals.count--;
    track->totals.bytes -= record->requested;
    track->totals.held -= held_of(record);
}

/* --------------------------------------------------------------------- room */

/* Labels that blocks have left behind. */
static void bury(struct vr_track *track) {
    struct label *dead = NULL;
    if (enter(track)) {
        dead = track->dead;
        track->dead = NULL;
        leave(track);
    }
    while (dead) {
        struct label *next = dead->next;
        vr_mem_free(dead);
        dead = next;
    }
}

/* A longer table of chunks, if need be. Under `room`. */
static bool lengthen(struct vr_track *track) {
    if (track->chunk_count < track->chunk_room) {
        return true;
    }
    uint32_t room = track->chunk_room ? 2 * track->chunk_room : 8;
    struct chunk **old = track->chunks;
    struct chunk **table = vr_mem_alloc(room, sizeof *table, "vram_alloc");
    if (!table || !enter(track)) {
        vr_mem_free(table);
        return false;
    }
    if (old) {
        memcpy(table, old, track->chunk_count * sizeof *table);
    }
    track->chunks = table;
    track->chunk_room = room;
    leave(track);
    vr_mem_free(old);
    return true;
}

/* Another chunk of free records. Under `room`. */
static bool grow(struct vr_track *track) {
    struct chunk *chunk = lengthen(track) ? vr_mem_alloc(1, sizeof *chunk, "vram_alloc") : NULL;
    if (!chunk || !enter(track)) {
        vr_mem_free(chunk);
        return false;
    }
    uint32_t first = track->chunk_count * VR_TRACK_CHUNK + 1;
    for (uint32_t i = 0; i + 1 < VR_TRACK_CHUNK; i++) {
        chunk->records[i].addr = first + i + 1;
    }
    chunk->records[VR_TRACK_CHUNK - 1].addr = track->free;
    track->chunks[track->chunk_count++] = chunk;
    track->free = first;
    leave(track);
    return true;
}

/* A table of sites with `wanted` places. Under `room`. */
static bool replace_sites(struct vr_track *track, uint32_t wanted) {
    struct vr_sites made, old;
    if (!vr_sites_make(&made, wanted)) {
        return false;
    }
    if (!enter(track)) {
        vr_sites_free(&made);
        return false;
    }
    old = track->sites;
    vr_sites_move(&made, &old, track->epoch);
    track->sites = made;
    leave(track);
    vr_sites_free(&old);
    return true;
}

/* A record of the site, which is made if need be. False: there is no memory. Under `room`. */
static bool take_slowly(struct vr_track *track, const struct vr_site_key *key, uint32_t *number) {
    for (;;) {
        if (!enter(track)) {
            return false;
        }
        uint32_t site = vr_site_find(&track->sites, key);
        if (!site) {
            site = vr_site_add(&track->sites, key, track->epoch);
        }
        bool room = track->free != 0;
        uint32_t wanted = site ? 0 : vr_sites_wanted(&track->sites, track->epoch);
        if (site && room) {
            *number = take(track, site);
            track->sites.all[site].prepared++;
            leave(track);
            return true;
        }
        leave(track);
        if (!room && !grow(track)) {
            return false;
        }
        if (!site && !replace_sites(track, wanted)) {
            return false;
        }
    }
}

/* A name that gets no memory is left out. Under `room`; the record is prepared. */
static void attach(struct vr_track *track, uint32_t number, const struct vr_track_label *from) {
    size_t bytes = from->name ? strnlen(from->name, VR_TRACK_NAME - 1) : 0;
    struct label *label = vr_mem_alloc(1, sizeof *label + VR_TRACK_NAME, "vram_alloc");
    if (label && bytes + 1 < VR_TRACK_NAME) { /* names are short as a rule */
        struct label *tight = vr_mem_resize(label, 1, sizeof *label + bytes + 1, "vram_alloc");
        label = tight ? tight : label;
    }
    struct chunk *chunk = track->chunks[(number - 1) / VR_TRACK_CHUNK];
    struct label **labels =
        label && !chunk->labels ? vr_mem_alloc(VR_TRACK_CHUNK, sizeof *labels, "vram_alloc") : NULL;
    if (!label || (!chunk->labels && !labels) || !enter(track)) {
        vr_mem_free(label);
        vr_mem_free(labels);
        return;
    }
    label->elements = from->elements;
    label->name[0] = '\0';
    if (from->name) {
        vr_text_copy(label->name, bytes + 1, from->name);
    }
    if (labels) {
        chunk->labels = labels;
        track->totals.metadata_bytes += VR_TRACK_CHUNK * sizeof *labels;
    }
    *label_of(track, number) = label;
    leave(track);
}

uint32_t vr_track_prepare(struct vr_track *track, const struct vr_site_key *key,
                          const struct vr_track_label *label) {
    struct vram_error error;
    uint32_t number = 0;
    vr_error_save(&error);
    bury(track);
    vr_mutex_lock(&track->room);
    if (!take_slowly(track, key, &number)) {
        vr_fetch_add(&track->lost, 1, VR_RELAXED);
    } else if (label && (label->name || label->elements)) {
        attach(track, number, label);
    }
    vr_mutex_unlock(&track->room);
    vr_error_restore(&error);
    return number;
}

void vr_track_drop(struct vr_track *track, uint32_t number) {
    if (number && enter(track)) {
        track->sites.all[record_of(track, number)->site].prepared--;
        give(track, number);
        leave(track);
    }
}

/* -------------------------------------------------------------------- lives */

uint64_t vr_track_commit(struct vr_track *track, uint32_t number, uint64_t addr, uint64_t requested,
                         uint64_t held, uint32_t memory) {
    uint64_t moment = moment_now(memory), id = 0;
    if (number && enter(track)) {
        struct record *record = record_of(track, number);
        track->sites.all[record->site].prepared--;
        add(track, record, addr, requested, held, moment);
        id = record->id;
        leave(track);
    }
    return id;
}

uint32_t vr_track_quick(struct vr_track *track, const struct vr_site_key *key, uint32_t *site,
                        uint64_t addr, uint64_t requested, uint64_t held) {
    uint64_t moment = moment_now(0);
    uint32_t number = 0;
    if (!enter(track)) {
        return 0;
    }
    if (!vr_site_is(&track->sites, *site, key)) {
        *site = vr_site_find(&track->sites, key);
    }
    if (*site && track->free) {
        number = take(track, *site);
        add(track, record_of(track, number), addr, requested, held, moment);
    }
    leave(track);
    return number;
}

static void describe(const struct vr_track *track, uint32_t number, struct vr_track_view *view) {
    const struct record *record = record_of(track, number);
    struct label **label = label_of(track, number);
    *view = (struct vr_track_view){
        .id = record->id,
        .addr = record->addr,
        .requested = record->requested,
        .held = held_of(record),
        .time_ns = time_of(record->moment),
        .memory = (uint32_t)(record->moment >> THREAD_BITS) & ((1u << KIND_BITS) - 1),
        .thread = record->moment & ((1u << THREAD_BITS) - 1),
        .site = track->sites.all[record->site].key,
    };
    if (label && *label) {
        view->elements = (*label)->elements;
        (void)vr_text_copy(view->name, sizeof view->name, (*label)->name);
    }
}

bool vr_track_remove(struct vr_track *track, uint32_t number, struct vr_track_view *view) {
    if (!number || !enter(track)) {
        return false;
    }
    struct record *record = used_record(track, number);
    if (record && view) {
        describe(track, number, view);
    }
    if (record) {
        subtract(track, record);
        give(track, number);
    }
    leave(track);
    return record != NULL;
}

/* The block is one allocation before and after: its sums change, its id and age do not. */
bool vr_track_resize(struct vr_track *track, uint32_t number, uint64_t requested, uint64_t held,
                     struct vr_track_view *view) {
    uint64_t moment = moment_now(0);
    if (!number || !enter(track)) {
        return false;
    }
    struct record *record = used_record(track, number);
    if (record) {
        if (view) {
            describe(track, number, view);
        }
        uint64_t addr = record->addr, born = record->moment;
        subtract(track, record);
        add(track, record, addr, requested, held, moment);
        record->moment = born;
        track->totals.allocs--;
        track->totals.frees--;
        track->totals.resizes++;
    }
    leave(track);
    return record != NULL;
}

/* ------------------------------------------------------------------ looking */

bool vr_track_look(struct vr_track *track, uint32_t number, struct vr_track_view *view) {
    if (!enter(track)) {
        return false;
    }
    struct record *record = used_record(track, number);
    bool live = record && record->addr;
    if (live) {
        describe(track, number, view);
    }
    leave(track);
    return live;
}

uint32_t vr_track_list(struct vr_track *track, uint32_t *at, struct vr_track_view *views,
                       uint32_t room) {
    uint32_t count = 0, number = *at ? *at : 1;
    if (!enter(track)) {
        *at = 0;
        return 0;
    }
    uint32_t end = track->chunk_count * VR_TRACK_CHUNK;
    for (; number <= end && count < room; number++) {
        struct record *record = record_of(track, number);
        if (record->id && record->addr) {
            describe(track, number, &views[count++]);
        }
    }
    leave(track);
    *at = number <= end ? number : 0;
    return count;
}

uint32_t vr_track_sites(struct vr_track *track, uint32_t *at, struct vr_site *sites,
                        uint32_t room) {
    uint32_t count = 0, index = *at ? *at : 1;
    if (!enter(track)) {
        *at = 0;
        return 0;
    }
    for (; index <= track->sites.room && count < room; index++) {
        struct vr_site site = track->sites.all[index];
        if (site.used) {
            keep_peak(track, &site); /* of the copy */
            if (site.count || site.peak_count) {
                sites[count++] = site;
            }
        }
    }
    bool more = index <= track->sites.room;
    leave(track);
    *at = more ? index : 0;
    return count;
}

void vr_track_totals_get(struct vr_track *track, struct vr_track_totals *totals) {
    *totals = (struct vr_track_totals){0};
    if (enter(track)) {
        *totals = track->totals;
        totals->record_bytes = (uint64_t)track->chunk_count * sizeof(struct chunk) +
                               track->chunk_room * sizeof *track->chunks;
        totals->metadata_bytes +=
            sizeof *track + totals->record_bytes + vr_sites_bytes(&track->sites);
        leave(track);
    }
    totals->lost = vr_load(&track->lost, VR_RELAXED);
}

void vr_track_peak_reset(struct vr_track *track) {
    if (enter(track)) {
        track->totals.peak_bytes = track->totals.bytes;
        track->totals.peak_count = track->totals.count;
        track->epoch++;
        leave(track);
    }
}

uint64_t vr_track_pool(const struct vr_track *track) {
    return track->pool;
}

uint64_t vr_track_device(const struct vr_track *track) {
    return track->device;
}

const char *vr_track_name(const struct vr_track *track) {
    return track->name;
}

/* -------------------------------------------------------------- making, end */

struct vr_track *vr_track_make(uint64_t pool, uint64_t device, const char *name,
                               const char *operation) {
    struct vr_track *track = vr_mem_alloc(1, sizeof *track, operation);
    if (track) {
        track->pool = pool;
        track->device = device;
        track->epoch = 1;
        vr_text_copy(track->name, sizeof track->name, name);
        vr_mutex_init(&track->room, VR_RANK_TRACK);
    }
    return track;
}

void vr_track_free(struct vr_track *track) {
    if (!track) {
        return;
    }
    bury(track);
    for (uint32_t i = 0; i < track->chunk_count; i++) {
        struct chunk *chunk = track->chunks[i];
        for (uint32_t at = 0; chunk->labels && at < VR_TRACK_CHUNK; at++) {
            vr_mem_free(chunk->labels[at]);
        }
        vr_mem_free(chunk->labels);
        vr_mem_free(chunk);
    }
    vr_mem_free(track->chunks);
    vr_sites_free(&track->sites);
    vr_mutex_destroy(&track->room);
    vr_mem_free(track);
}
