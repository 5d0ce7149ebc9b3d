/* SPDX-License-Identifier: Apache-2.0 */
/*
 * share_time.c: points that other processes wait for.
 *
 * A share has one timeline, a few words in a file in memory that every process maps: the exporter
 * for writing, readers for reading. A mark notes a point of a queue and the next value. The thread
 * of the server looks at the oldest mark, without waiting for work, and raises `reached` when its
 * point has passed: so values are reached in order, and no process waits for a device of another.
 */
#include "share/share_server.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "device/device_calls.h"

#define WAIT_LEAST_NS UINT64_C(2000)    /* first sleep of a wait, */
#define WAIT_MOST_NS  UINT64_C(200000)  /* which doubles up to this */
#define ALIVE_NS      UINT64_C(2000000) /* between two looks whether the exporter is there */

/* ----------------------------------------------------------------- the words */

static void timeline_unmap(struct vr_share_timeline *words) {
    if (words) {
        (void)vr_os_pages_free(words, vr_os_page_bytes());
    }
}

static vram_status timeline_map(int file, bool read_only, struct vr_share_timeline **words) {
    uint64_t bytes = vr_os_page_bytes();
    void *pages;
    vram_status status = vr_os_pages_reserve(bytes, bytes, &pages);
    if (status != VRAM_OK) {
        return status;
    }
    status = vr_os_file_map(file, 0, pages, bytes);
    if (status == VRAM_OK) {
        status = read_only ? vr_os_pages_read_only(pages, bytes) : vr_os_pages_access(pages, bytes);
    }
    if (status != VRAM_OK) {
        struct vram_error error;
        vr_error_save(&error);
        (void)vr_os_pages_free(pages, bytes);
        vr_error_restore(&error);
        return status;
    }
    *words = pages;
    return VRAM_OK;
}

/* Made when it is first needed: an export that nobody opens or marks takes no descriptor. */
vram_status vr_timeline_make(struct vr_share *share) {
    struct vr_share_timeline *words = vr_load(&share->timeline, VR_ACQUIRE);
    int file;
    if (words) {
        return VRAM_OK;
    }
    vram_status status = vr_os_shared_create("vram-timeline", vr_os_page_bytes(), &file);
    if (status != VRAM_OK) {
        return status;
    }
    status = timeline_map(file, false, &words);
    vr_mutex_lock(&vr_share_lock);
    bool first = status == VRAM_OK && !vr_load(&share->timeline, VR_RELAXED);
    if (first) {
        share->export_state.timeline_file = file;
        vr_store(&share->timeline, words, VR_RELEASE);
    }
    vr_mutex_unlock(&vr_share_lock);
    if (!first) { /* it failed, or another thread was faster */
        struct vram_error error;
        vr_error_save(&error);
        timeline_unmap(words);
        vr_os_file_close(file);
        vr_error_restore(&error);
    }
    return status;
}

vram_status vr_timeline_import(struct vr_share *share, int descriptor) {
    struct vr_share_timeline *words = NULL;
    vram_status status = vr_os_shared_check(descriptor, vr_os_page_bytes());
    if (status == VRAM_OK && (status = timeline_map(descriptor, true, &words)) == VRAM_OK) {
        vr_store(&share->timeline, words, VR_RELEASE);
    }
    return status;
}

void vr_timeline_end(struct vr_share *share) {
    struct vr_share_mark *mark;
    timeline_unmap(vr_load(&share->timeline, VR_ACQUIRE));
    if (share->exported && share->export_state.timeline_file >= 0) {
        vr_os_file_close(share->export_state.timeline_file);
    }
    while ((mark = share->export_state.marks)) {
        share->export_state.marks = mark->next;
        vr_mem_free(mark);
    }
}

/* --------------------------------------------------------------------- marks */

/* Removes the oldest mark and raises the timeline to it. */
static void mark_end(struct vr_share *share, vram_status status) {
    struct vr_share_timeline *words = vr_load(&share->timeline, VR_ACQUIRE);
    struct vr_share_export *state = &share->export_state;
    vr_mutex_lock(&vr_share_lock);
    struct vr_share_mark *mark = state->marks;
    state->marks = mark->next;
    state->marks_end = state->marks ? state->marks_end : &state->marks;
    state->server->marks--;
    vr_mutex_unlock(&vr_share_lock);
    if (status == VRAM_OK) {
        vr_store(&words->reached, mark->value, VR_RELEASE);
    } else {
        vr_store(&words->failed, (uint64_t)(-(int64_t)status), VR_RELEASE);
    }
    vr_mem_free(mark);
}

/* A queue that was destroyed has completed its work. */
bool vr_timeline_advance(struct vr_share *share) {
    for (;;) {
        vr_mutex_lock(&vr_share_lock);
        const struct vr_share_mark *mark = share->export_state.marks;
        vram_point point = mark ? mark->point : (vram_point){0};
        vr_mutex_unlock(&vr_share_lock);
        vram_status status = mark ? vr_point_poll(point) : VRAM_OK;
        if (!mark || status == VRAM_ERR_NOT_READY) {
            return mark != NULL;
        }
        mark_end(share, status == VRAM_ERR_STALE ? VRAM_OK : status);
    }
}

static vram_status mark_add(struct vr_share *share, vram_point point, uint64_t *value) {
    struct vr_share_timeline *words = vr_load(&share->timeline, VR_ACQUIRE);
    struct vr_share_export *state = &share->export_state;
    struct vr_share_mark *mark = vr_mem_alloc(1, sizeof *mark, vr_operation());
    if (!mark) {
        return VRAM_ERR_HOST_MEMORY;
    }
    mark->point = point;
    vr_mutex_lock(&vr_share_lock);
    *value = mark->value = ++state->last_mark;
    if (state->marks) {
        *state->marks_end = mark;
    } else {
        state->marks = mark;
    }
    state->marks_end = &mark->next;
    state->server->marks++;
    vr_store(&words->marked, mark->value, VR_RELEASE);
    vr_share_wake(state->server);
    vr_mutex_unlock(&vr_share_lock);
    return VRAM_OK;
}

vram_status vram_share_mark(vram_share *handle, vram_queue *queue, uint64_t *value) {
    VR_CALL;
    void *entered;
    vram_point point;
    if (!value) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the value is NULL");
    }
    vram_status status = vr_enter(VR_KIND_SHARE, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_share *share = entered;
    if (!share->exported) {
        status = vr_fail(VRAM_ERR_INVALID, "only the process that exported a share marks it");
    } else if ((status = vr_timeline_make(share)) == VRAM_OK &&
               (status = vr_submit_mark(queue, &point)) == VRAM_OK) {
        status = mark_add(share, point, value);
    }
    vr_leave(share);
    return status;
}

/* ------------------------------------------------------------------- waiting */

/* Whether the value was reached, or never will be. */
static vram_status timeline_poll(const struct vr_share *share, uint64_t value) {
    const struct vr_share_timeline *words = vr_load(&share->timeline, VR_ACQUIRE);
    uint64_t failed = vr_load(&words->failed, VR_ACQUIRE);
    if (vr_load(&words->reached, VR_ACQUIRE) >= value) {
        return VRAM_OK;
    }
    return failed ? vr_fail(VRAM_ERR_DEVICE_LOST, "work of the process that exported it failed")
                  : VRAM_ERR_NOT_READY;
}

static vram_status timeline_wait(const struct vr_share *share, uint64_t value, uint64_t deadline) {
    uint64_t sleep = WAIT_LEAST_NS, look = 0;
    for (;;) {
        uint64_t now = vr_clock_now();
        bool there = true;
        if (now >= look) {
            there = vr_share_is_served(share); /* before the poll: it may have reached it last */
            look = now + ALIVE_NS;
        }
        vram_status status = timeline_poll(share, value);
        if (status != VRAM_ERR_NOT_READY) {
            return status;
        }
        if (!there) {
            return vr_fail(VRAM_ERR_STALE, "the process that exported it has ended before %llu",
                           (unsigned long long)value);
        }
        if (now >= deadline) {
            return vr_fail(VRAM_ERR_TIMEOUT, "%llu was not reached in time",
                           (unsigned long long)value);
        }
        vr_clock_sleep(sleep);
        sleep = sleep * 2 < WAIT_MOST_NS ? sleep * 2 : WAIT_MOST_NS;
    }
}

vram_status vram_share_wait(vram_share *handle, uint64_t value, uint64_t timeout_ns) {
    VR_CALL;
    void *entered;
    vram_status status = vr_enter(VR_KIND_SHARE, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_share *share = entered;
    status = share->exported || vr_load(&share->timeline, VR_ACQUIRE)
                 ? vr_timeline_make(share)
                 : vr_fail(VRAM_ERR_UNSUPPORTED, "memory of a fabric has no timeline");
    if (status == VRAM_OK) {
        const struct vr_share_timeline *words = vr_load(&share->timeline, VR_ACQUIRE);
        value = value ? value : vr_load(&words->marked, VR_ACQUIRE);
        status = timeline_wait(share, value, vr_deadline_in(timeout_ns));
    }
    vr_leave(share);
    return status;
}
