/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mapped_handles.c: see mapped_handles.h. Two tables under one lock: references by handle, and
 * mappings by address. A forked child has neither: its driver does not work there.
 */
#include "mapped_handles.h"

#include "base/lock.h"
#include "base/memory.h"
#include "base/os/os.h"

struct handle_row {
    uint64_t key;    /* handle, or address of a mapping; 0: free */
    uint64_t handle; /* of a mapping */
    uint64_t bytes;  /* of a mapping */
    uint32_t refs;   /* of a handle: created and retained, not released */
    uint32_t maps;   /* of a handle */
};

struct handle_table {
    struct handle_row *rows;
    uint64_t mask, count;
};

static struct vr_mutex lock = VR_MUTEX_INIT(VR_RANK_MONITOR); /* guards the tables */
static struct handle_table handles, mappings;
static uint64_t generation; /* of the process that they belong to */

/* Takes the lock; a forked child starts with empty tables. */
static void tables_lock(void) {
    vr_mutex_lock(&lock);
    if (generation != vr_os_process_generation()) {
        generation = vr_os_process_generation();
        vr_mem_free(handles.rows);
        vr_mem_free(mappings.rows);
        handles = mappings = (struct handle_table){0};
    }
}

static uint64_t row_first(const struct handle_table *table, uint64_t key) {
    uint64_t mixed = key * UINT64_C(0x9E3779B97F4A7C15);
    return (mixed ^ mixed >> 32) & table->mask;
}

static struct handle_row *row_find(const struct handle_table *table, uint64_t key) {
    if (!table->rows || !key) {
        return NULL;
    }
    uint64_t at = row_first(table, key);
    while (table->rows[at].key && table->rows[at].key != key) {
        at = (at + 1) & table->mask;
    }
    return table->rows[at].key ? &table->rows[at] : NULL;
}

static void row_put(struct handle_table *table, const struct handle_row *row) {
    uint64_t at = row_first(table, row->key);
    while (table->rows[at].key) {
        at = (at + 1) & table->mask;
    }
    table->rows[at] = *row;
    table->count++;
}

static void row_add(struct handle_table *table, const struct handle_row *row) {
    if (!row->key) {
        return;
    }
    if (!table->rows || 4 * (table->count + 1) > 3 * (table->mask + 1)) {
        uint64_t places = table->rows ? 2 * (table->mask + 1) : 64;
        struct handle_table larger = {vr_mem_alloc(places, sizeof *row, "vram run"), places - 1, 0};
        if (!larger.rows) {
            return; /* it is not counted: its end will not be seen either */
        }
        for (uint64_t i = 0; table->rows && i <= table->mask; i++) {
            if (table->rows[i].key) {
                row_put(&larger, &table->rows[i]);
            }
        }
        vr_mem_free(table->rows);
        *table = larger;
    }
    row_put(table, row);
}

/* Closes the gap that the row leaves. */
static void row_remove(struct handle_table *table, struct handle_row *row) {
    uint64_t gap = (uint64_t)(row - table->rows);
    table->rows[gap].key = 0;
    for (uint64_t at = (gap + 1) & table->mask; table->rows[at].key; at = (at + 1) & table->mask) {
        uint64_t first = row_first(table, table->rows[at].key);
        if (((at - first) & table->mask) >= ((at - gap) & table->mask)) {
            table->rows[gap] = table->rows[at];
            table->rows[at].key = 0;
            gap = at;
        }
    }
    table->count--;
}

/* ------------------------------------------------------------------- beginnings */

void run_handle_created(struct run_block *block) {
    run_alloc(block);
    tables_lock();
    struct handle_row *row = row_find(&handles, block->value);
    if (row) { /* imported once more */
        row->refs++;
    } else {
        row_add(&handles, &(struct handle_row){.key = block->value, .refs = 1});
    }
    vr_mutex_unlock(&lock);
}

void run_handle_retained(uint64_t handle) {
    tables_lock();
    struct handle_row *row = row_find(&handles, handle);
    if (row) {
        row->refs++;
    }
    vr_mutex_unlock(&lock);
}

void run_handle_mapped(uint64_t handle, uint64_t address, uint64_t bytes) {
    tables_lock();
    struct handle_row *row = row_find(&handles, handle);
    if (row) {
        row->maps++;
        row_add(&mappings, &(struct handle_row){address, handle, bytes, 0, 0});
    }
    vr_mutex_unlock(&lock);
}

/* ------------------------------------------------------------------------ ends */

/* The block of a handle that neither a reference nor a mapping keeps. Not under the lock: it is
   recorded before the driver can give the handle out again. */
static void handle_freed(struct run_handle_end *end, uint64_t handle) {
    struct run_handle_freed *freed = vr_mem_alloc(1, sizeof *freed, "vram run");
    if (freed && run_free_begin(RUN_SPACE_PHYSICAL, handle, &freed->block)) {
        freed->next = end->freed;
        end->freed = freed;
    } else {
        vr_mem_free(freed);
    }
}

void run_handle_release_begin(uint64_t handle, struct run_handle_end *end) {
    *end = (struct run_handle_end){.released = true, .value = handle};
    tables_lock();
    struct handle_row *row = row_find(&handles, handle);
    bool last = row && row->refs <= 1 && row->maps == 0;
    vr_mutex_unlock(&lock);
    if (last) {
        handle_freed(end, handle);
    }
}

void run_handle_unmap_begin(uint64_t address, uint64_t bytes, struct run_handle_end *end) {
    *end = (struct run_handle_end){.value = address, .bytes = bytes};
    for (uint64_t at = address; at - address < bytes;) {
        tables_lock();
        struct handle_row *mapping = row_find(&mappings, at);
        struct handle_row *row = mapping ? row_find(&handles, mapping->handle) : NULL;
        uint64_t step = mapping ? mapping->bytes : 0, handle = row ? row->key : 0;
        bool last = row && row->refs == 0 && row->maps <= 1;
        vr_mutex_unlock(&lock);
        if (!step) {
            break; /* not mapped here: the driver will say so */
        }
        if (last) {
            handle_freed(end, handle);
        }
        at += step;
    }
}

static void handle_drop(struct handle_row *row) {
    if (row && row->refs == 0 && row->maps == 0) {
        row_remove(&handles, row);
    }
}

static void unmap_commit(const struct run_handle_end *end) {
    for (uint64_t at = end->value; at - end->value < end->bytes;) {
        struct handle_row *mapping = row_find(&mappings, at);
        if (!mapping) {
            break;
        }
        uint64_t step = mapping->bytes;
        struct handle_row *row = row_find(&handles, mapping->handle);
        row_remove(&mappings, mapping);
        if (row && row->maps) {
            row->maps--;
        }
        handle_drop(row);
        at += step ? step : end->bytes;
    }
}

void run_handle_end(struct run_handle_end *end, bool done) {
    tables_lock();
    struct handle_row *row = done && end->released ? row_find(&handles, end->value) : NULL;
    if (row) {
        row->refs -= row->refs > 0;
        handle_drop(row);
    } else if (done && !end->released) {
        unmap_commit(end);
    }
    vr_mutex_unlock(&lock);
    while (end->freed) {
        struct run_handle_freed *freed = end->freed;
        end->freed = freed->next;
        run_free_end(&freed->block, done);
        vr_mem_free(freed);
    }
}
