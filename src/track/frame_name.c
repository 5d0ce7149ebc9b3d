/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frame_name.c: see frame_name.h. A name is never changed once it is in its bin, and stays there,
 * so only adding one takes the lock. Each text is there under a hash of itself too, so that all its
 * keys have one frame.
 */
#include "track/frame_name.h"

#include "base/error.h"
#include "base/lock.h"
#include "track/kept_memory.h"
#include "track/xxh64.h"

#include <string.h>

/* No address has this bit; the others are where the text is. */
#define NAMED (UINT64_C(1) << 63)

enum { BINS = 1024 };

struct name {
    struct name *chain; /* next in its bin */
    uint64_t key;
    const char *text;
};

static struct vr_mutex lock = VR_MUTEX_INIT(VR_RANK_TRACK); /* guards changes of all below */
static struct vr_kept *memory;
static vr_atomic_ptr bins[BINS]; /* the latest name of each */
static uint32_t count;

static struct name *name_look(uint64_t key) {
    struct name *name = vr_load(&bins[key % BINS], VR_ACQUIRE);
    while (name && name->key != key) {
        name = name->chain;
    }
    return name;
}

static uint64_t frame_of(const struct name *name) {
    return name ? NAMED | (uintptr_t)name->text : 0;
}

uint64_t vr_frame_name_find(uint64_t key) {
    return frame_of(name_look(key));
}

/* A name of a text that stays, or of a copy (`bytes` not 0). NULL: too many, or memory ran
   out. Under the lock. */
static struct name *name_add(uint64_t key, const char *text, size_t bytes) {
    size_t whole = (sizeof(struct name) + bytes + 7) & ~(size_t)7;
    struct name *name = count < VR_FRAME_NAMES_MOST ? vr_kept_alloc(&memory, whole) : NULL;
    if (name) {
        count++;
        name->key = key;
        name->text = bytes ? memcpy(name + 1, text, bytes) : text;
        name->chain = vr_load(&bins[key % BINS], VR_RELAXED);
        vr_store(&bins[key % BINS], name, VR_RELEASE);
    }
    return name;
}

uint64_t vr_frame_name_add(uint64_t key, const char *text) {
    struct vram_error error;
    size_t bytes = strlen(text) + 1;
    uint64_t of_text = vr_xxh64(text, bytes, 0);
    vr_error_save(&error);
    vr_mutex_lock(&lock);
    struct name *name = name_look(key);
    if (!name) {
        name = name_look(of_text);
        name = name ? name : name_add(of_text, text, bytes);
        name = name ? name_add(key, name->text, 0) : NULL;
    }
    vr_mutex_unlock(&lock);
    vr_error_restore(&error);
    return frame_of(name);
}

const char *vr_frame_name(uint64_t frame) {
    return frame & NAMED ? (const char *)(uintptr_t)(frame & ~NAMED) : NULL;
}

void vr_frame_names_reset(void) {
    vr_mutex_lock(&lock);
    for (uint32_t i = 0; i < BINS; i++) {
        vr_store(&bins[i], NULL, VR_RELAXED);
    }
    count = 0;
    vr_kept_free(&memory);
    vr_mutex_unlock(&lock);
}
