/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_word.c: the words that streams write to, and how they write.
 *
 *      page of pinned host memory, visible to every device at the same address
 *     +--------+--------+--------+-     -+--------+
 *     | word 0 | word 1 | word 2 |  ...  | word 63|     64 bytes each, one cache line: a wait
 *     +--------+--------+--------+-     -+--------+     that spins on one disturbs no other
 *
 * Invariants
 *  (1) A page is allocated with its device and, when all words are taken, one more; none is freed
 *      before the device is closed. So a word stays readable, by the host and by streams that were
 *      told to wait for it, for as long as backend.h promises.
 *  (2) A word is never set back: its next queue goes on counting where the last one stopped. A
 *      stream that still waits for a value of the old queue is therefore never held up.
 *  (3) A word is given only when no write to it is outstanding.
 *
 * A stream writes by a memory operation of its own where the device has 64-bit ones. Elsewhere (a
 * device attribute, a missing symbol, or a driver that answers "not supported" after all) the
 * driver calls a function of ours behind the stream's work. Where it does not do that either an
 * event stands for each signal (cuda_event.c): the last choice, since the word then rises only when
 * polled. The function is never called once the device is lost; what it was to write is then
 * abandoned in type-stable memory, where a call that is already under way finds it whole.
 */
#include "backend/cuda/cuda_backend.h"

#include "base/arena.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/size.h"

#include <string.h>

enum { PAGE_BYTES = 4096, WORD_STRIDE = 64, PAGE_WORDS = PAGE_BYTES / WORD_STRIDE };
_Static_assert(PAGE_WORDS == 64, "one bit of vr_cuda_page.taken per word");

struct vr_cuda_page {
    struct vr_cuda_page *next;
    unsigned char *memory; /* PAGE_BYTES, pinned */
    uint64_t taken;        /* bit i: word i belongs to a queue */
};

/* ------------------------------------------------------------ taking, giving */

/* Zeroed pinned memory for a page: a driver may hand out what another process left. */
static vram_status page_memory(const struct vr_cuda_device *device, unsigned char **memory) {
    void *found = NULL;
    vram_status status = vr_cuda_check(
        device->api, VR_CU_CALL_cuMemHostAlloc,
        device->api->cuMemHostAlloc(&found, PAGE_BYTES, device->api->dialect->word_flags),
        VRAM_ERR_HOST_MEMORY);
    if (status != VRAM_OK) {
        return status;
    }
    if (!found || (uintptr_t)found % WORD_STRIDE) {
        if (found) {
            vr_cuda_shrug(device->api, VR_CU_CALL_cuMemFreeHost, device->api->cuMemFreeHost(found));
        }
        return vr_cuda_lied(device->api, VR_CU_CALL_cuMemHostAlloc, (uintptr_t)found);
    }
    *memory = memset(found, 0, PAGE_BYTES);
    return VRAM_OK;
}

/* Allocates one more page and lists it. No lock is held across the driver call, so two threads may
   both add one: both will be used in time. */
static vram_status page_add(struct vr_cuda_device *device) {
    struct vr_cuda_page *page = vr_mem_alloc(1, sizeof *page, "cuMemHostAlloc");
    if (!page) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vram_status status = page_memory(device, &page->memory);
    if (status != VRAM_OK) {
        vr_mem_free(page);
        return status;
    }
    vr_mutex_lock(&device->words.lock);
    page->next = device->words.pages;
    device->words.pages = page;
    vr_mutex_unlock(&device->words.lock);
    return VRAM_OK;
}

/* A word of the pages there are, or NULL when all are taken. */
static vr_atomic_u64 *word_find(struct vr_cuda_device *device) {
    vr_atomic_u64 *word = NULL;
    vr_mutex_lock(&device->words.lock);
    for (struct vr_cuda_page *page = device->words.pages; page && !word; page = page->next) {
        if (~page->taken) {
            unsigned index = vr_low_bit(~page->taken);
            page->taken |= UINT64_C(1) << index;
            word = (vr_atomic_u64 *)(void *)(page->memory + (size_t)index * WORD_STRIDE);
        }
    }
    vr_mutex_unlock(&device->words.lock);
    return word;
}

vram_status vr_cuda_word_take(struct vr_cuda_device *device, vr_atomic_u64 **word) {
    vr_atomic_u64 *found;
    while (!(found = word_find(device))) {
        vram_status status = page_add(device);
        if (status != VRAM_OK) {
            return status;
        }
    }
    *word = found;
    return VRAM_OK;
}

void vr_cuda_word_give(struct vr_cuda_device *device, vr_atomic_u64 *word) {
    uintptr_t at = (uintptr_t)word;
    vr_mutex_lock(&device->words.lock);
    for (struct vr_cuda_page *page = device->words.pages; page; page = page->next) {
        if (vr_inside(at, sizeof *word, (uintptr_t)page->memory, PAGE_BYTES)) {
            page->taken &= ~(UINT64_C(1) << (at - (uintptr_t)page->memory) / WORD_STRIDE);
        }
    }
    vr_mutex_unlock(&device->words.lock);
}

vram_status vr_cuda_words_init(struct vr_cuda_device *device) {
    vr_mutex_init(&device->words.lock, VR_RANK_BACKEND);
    vram_status status = page_add(device);
    if (status != VRAM_OK) {
        vr_mutex_destroy(&device->words.lock);
    }
    return status;
}

void vr_cuda_words_end(struct vr_cuda_device *device, bool lost) {
    while (device->words.pages) {
        struct vr_cuda_page *page = device->words.pages;
        device->words.pages = page->next;
        if (!lost) {
            vr_cuda_shrug(device->api, VR_CU_CALL_cuMemFreeHost,
                          device->api->cuMemFreeHost(page->memory));
        }
        vr_mem_free(page);
    }
    vr_mutex_destroy(&device->words.lock);
}

/* ------------------------------------------------------------------ writing */

/* A write that the driver calls us for. */
struct mark {
    void *link; /* vr_stable's own */
    vr_atomic_u64 *word;
    uint64_t value;
};

static struct vr_stable marks = VR_STABLE_INIT(struct mark);

/* Runs on a thread of the driver, which forbids calls into the driver from here. The mark goes back
   first: once the word is written the device may be closed. */
static void mark_write(void *argument) {
    struct mark mark = *(struct mark *)argument;
    vr_stable_give(&marks, argument);
    vr_store(mark.word, mark.value, VR_RELEASE);
}

static vram_status write_by_function(struct vr_cuda_device *device, struct vr_cu_stream *stream,
                                     vr_atomic_u64 *word, uint64_t value) {
    struct mark *mark = vr_stable_take(&marks, "cuLaunchHostFunc");
    if (!mark) {
        return VRAM_ERR_HOST_MEMORY;
    }
    mark->word = word;
    mark->value = value;
    vr_cu_result code = device->api->cuLaunchHostFunc(stream, mark_write, mark);
    if (code == VR_CU_SUCCESS) {
        return VRAM_OK;
    }
    vr_stable_give(&marks, mark);
    if (code == VR_CU_NOT_SUPPORTED) {
        vr_store(&device->no_functions, true, VR_RELAXED);
        return VRAM_ERR_UNSUPPORTED;
    }
    return vr_cuda_check(device->api, VR_CU_CALL_cuLaunchHostFunc, code, VRAM_ERR_DEVICE_MEMORY);
}

vram_status vr_cuda_word_write(struct vr_cuda_device *device, struct vr_cu_stream *stream,
                               vr_atomic_u64 *word, uint64_t value) {
    if (vr_load(&device->memory_ops, VR_RELAXED)) {
        vr_cu_result code =
            device->api->cuStreamWriteValue64(stream, (uintptr_t)word, value, VR_CU_WRITE_DEFAULT);
        if (code != VR_CU_NOT_SUPPORTED) {
            return vr_cuda_check(device->api, VR_CU_CALL_cuStreamWriteValue64, code,
                                 VRAM_ERR_DEVICE_MEMORY);
        }
        vr_store(&device->memory_ops, false, VR_RELAXED);
    }
    return vr_load(&device->no_functions, VR_RELAXED)
               ? VRAM_ERR_UNSUPPORTED
               : write_by_function(device, stream, word, value);
}
