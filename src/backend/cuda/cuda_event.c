/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_event.c: markers as events, where a stream neither writes a word nor calls a function.
 *
 * Each signal is an event behind the work so far. Nobody writes the word by himself then: whoever
 * polls the queue asks for the oldest event first and writes the value of each that was reached.
 * Events of a stream are reached in order, so the list is one too. The word so tells the truth, and
 * late; waits poll, so they end.
 */
#include "backend/cuda/cuda_backend.h"

#include "base/error.h"
#include "base/memory.h"

struct vr_cuda_mark {
    struct vr_cuda_mark *next;
    struct vr_cu_event *event;
    uint64_t value;
};

void vr_cuda_marks_init(struct vr_cuda_marks *marks) {
    vr_mutex_init(&marks->lock, VR_RANK_BACKEND);
    marks->first = marks->last = NULL;
}

static void append(struct vr_cuda_marks *marks, struct vr_cuda_mark *mark) {
    vr_mutex_lock(&marks->lock);
    if (marks->last) {
        marks->last->next = mark;
    } else {
        marks->first = mark;
    }
    marks->last = mark;
    vr_mutex_unlock(&marks->lock);
}

/* Takes the oldest; NULL when there is none. */
static struct vr_cuda_mark *take(struct vr_cuda_marks *marks) {
    vr_mutex_lock(&marks->lock);
    struct vr_cuda_mark *mark = marks->first;
    if (mark) {
        marks->first = mark->next;
        marks->last = marks->first ? marks->last : NULL;
        mark->next = NULL;
    }
    vr_mutex_unlock(&marks->lock);
    return mark;
}

/* Puts back one that was not reached yet. Several may be out at a time and come back in any order:
   which is asked first does not matter, since the word only rises. */
static void put_back(struct vr_cuda_marks *marks, struct vr_cuda_mark *mark) {
    vr_mutex_lock(&marks->lock);
    mark->next = marks->first;
    marks->first = mark;
    marks->last = marks->last ? marks->last : mark;
    vr_mutex_unlock(&marks->lock);
}

static void mark_end(const struct vr_cuda_device *device, struct vr_cuda_mark *mark, bool lost) {
    if (!lost) {
        vr_cuda_shrug(device->api, VR_CU_CALL_cuEventDestroy,
                      device->api->cuEventDestroy(mark->event));
    }
    vr_mem_free(mark);
}

vram_status vr_cuda_mark_add(const struct vr_cuda_device *device, struct vr_cuda_queue *queue,
                             uint64_t value) {
    struct vr_cuda_mark *mark = vr_mem_alloc(1, sizeof *mark, "signal");
    if (!mark) {
        return VRAM_ERR_HOST_MEMORY;
    }
    mark->value = value;
    vram_status status = VR_CUDA(device, cuEventCreate, &mark->event, VR_CU_EVENT_DISABLE_TIMING);
    if (status != VRAM_OK) {
        vr_mem_free(mark);
        return status;
    }
    status = VR_CUDA(device, cuEventRecord, mark->event, queue->stream);
    if (status != VRAM_OK) {
        mark_end(device, mark, false);
        return status;
    }
    append(&queue->marks, mark);
    return VRAM_OK;
}

vram_status vr_cuda_marks_look(const struct vr_cuda_device *device, struct vr_cuda_queue *queue,
                               vr_atomic_u64 *word) {
    vram_status status = VRAM_OK;
    struct vr_cuda_mark *mark;
    while (status == VRAM_OK && (mark = take(&queue->marks))) {
        vr_cu_result code = device->api->cuEventQuery(mark->event);
        if (code == VR_CU_SUCCESS) {
            vr_atomic_max(word, mark->value);
            mark_end(device, mark, false);
            continue;
        }
        put_back(&queue->marks, mark);
        if (code == VR_CU_NOT_READY) {
            break;
        }
        status = vr_cuda_check(device->api, VR_CU_CALL_cuEventQuery, code, VRAM_ERR_DEVICE_MEMORY);
    }
    return status;
}

void vr_cuda_marks_end(const struct vr_cuda_device *device, struct vr_cuda_queue *queue,
                       vr_atomic_u64 *word, bool finished, bool lost) {
    struct vr_cuda_mark *mark;
    while ((mark = take(&queue->marks))) {
        if (finished) {
            vr_atomic_max(word, mark->value);
        }
        mark_end(device, mark, lost);
    }
    vr_mutex_destroy(&queue->marks.lock);
}
