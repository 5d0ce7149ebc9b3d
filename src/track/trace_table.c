/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace_table.c: see trace_table.h.
 */
#include "track/trace_table.h"

#include "base/error.h"
#include "base/memory.h"

#include <string.h>

/* FNV-1a of the kind and the key; keys are short. */
static uint64_t hash_of(uint8_t kind, const uint8_t *key, size_t bytes) {
    uint64_t hash = (UINT64_C(0xcbf29ce484222325) ^ kind) * UINT64_C(0x100000001b3);
    for (size_t i = 0; i < bytes; i++) {
        hash = (hash ^ key[i]) * UINT64_C(0x100000001b3);
    }
    return hash ^ hash >> 32;
}

/* Where an entry's number is, or the free slot where it would be. There is always a free slot. */
static uint32_t *place_of(const struct vr_trace_table *table, uint64_t hash, uint8_t kind,
                          const void *key, size_t key_bytes) {
    uint32_t mask = table->slot_count - 1;
    for (uint32_t at = (uint32_t)hash & mask;; at = (at + 1) & mask) {
        uint32_t number = table->slots[at];
        if (!number) {
            return &table->slots[at];
        }
        const struct vr_trace_entry *entry = &table->entries[number - 1];
        if (entry->hash == hash && entry->kind == kind && entry->key_bytes == key_bytes &&
            memcmp(table->bytes + entry->key, key, key_bytes) == 0) {
            return &table->slots[at];
        }
    }
}

uint32_t vr_trace_table_find(const struct vr_trace_table *table, uint8_t kind, const void *key,
                             size_t key_bytes) {
    return table->count ? *place_of(table, hash_of(kind, key, key_bytes), kind, key, key_bytes) : 0;
}

/* At most half of the slots are used. */
static bool make_place(struct vr_trace_table *table) {
    VR_OPERATION("trace");
    if (table->count < table->capacity) {
        return true;
    }
    uint32_t capacity = table->capacity ? table->capacity * 2 : 64;
    if (capacity > VR_TRACE_ENTRIES_MAX) {
        return false;
    }
    uint32_t *slots = vr_mem_alloc((size_t)capacity * 2, sizeof *slots, vr_operation());
    struct vr_trace_entry *entries =
        slots ? vr_mem_resize(table->entries, capacity, sizeof *entries, vr_operation()) : NULL;
    if (!entries) {
        vr_mem_free(slots);
        return false;
    }
    uint32_t mask = capacity * 2 - 1;
    for (uint32_t i = 0; i < table->count; i++) {
        uint32_t at = (uint32_t)entries[i].hash & mask;
        while (slots[at]) {
            at = (at + 1) & mask;
        }
        slots[at] = i + 1;
    }
    vr_mem_free(table->slots);
    table->slots = slots;
    table->slot_count = capacity * 2;
    table->entries = entries;
    table->capacity = capacity;
    return true;
}

static bool make_bytes(struct vr_trace_table *table, size_t bytes) {
    VR_OPERATION("trace");
    if (bytes > VR_TRACE_BODIES_MAX - table->bytes_used) {
        return false;
    }
    uint32_t capacity = table->bytes_capacity ? table->bytes_capacity : 4096;
    while (capacity - table->bytes_used < bytes) {
        capacity *= 2;
    }
    if (capacity == table->bytes_capacity) {
        return true;
    }
    uint8_t *grown = vr_mem_resize(table->bytes, capacity, 1, vr_operation());
    if (!grown) {
        return false;
    }
    table->bytes = grown;
    table->bytes_capacity = capacity;
    return true;
}

static uint32_t bytes_append(struct vr_trace_table *table, const void *data, size_t bytes) {
    uint32_t at = table->bytes_used;
    if (bytes) {
        memcpy(table->bytes + at, data, bytes);
    }
    table->bytes_used += (uint32_t)bytes;
    return at;
}

uint32_t vr_trace_table_add(struct vr_trace_table *table, uint8_t kind, const void *key,
                            size_t key_bytes, const void *body, size_t body_bytes) {
    vram_error before;
    vr_error_save(&before);
    bool fits = make_place(table) && make_bytes(table, key_bytes + body_bytes);
    vr_error_restore(&before);
    if (!fits) {
        return 0;
    }
    uint64_t hash = hash_of(kind, key, key_bytes);
    uint32_t *place = place_of(table, hash, kind, key, key_bytes);
    struct vr_trace_entry *entry = &table->entries[table->count];
    *entry = (struct vr_trace_entry){.hash = hash, .kind = kind};
    entry->key = bytes_append(table, key, key_bytes);
    entry->key_bytes = (uint32_t)key_bytes;
    entry->body = bytes_append(table, body, body_bytes);
    entry->body_bytes = (uint32_t)body_bytes;
    *place = ++table->count;
    return *place;
}

void vr_trace_table_free(struct vr_trace_table *table) {
    vr_mem_free(table->entries);
    vr_mem_free(table->slots);
    vr_mem_free(table->bytes);
    *table = (struct vr_trace_table){.capacity = 0};
}
