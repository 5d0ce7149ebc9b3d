/* SPDX-License-Identifier: Apache-2.0 */
/*
 * async_any.c: waits for the first of several async handles, on the calling thread or by a file
 * descriptor.
 *
 *  (1) A descriptor has a thread of its own, which waits for the handles and ends when it has
 *      signalled. It holds no reference: handles are plain data, and at the latest the end of their
 *      device makes them ready.
 *  (2) The thread has a descriptor of its own for the same event, so that the program may close
 *      its one at any time.
 */
#include "xfer/async_record.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/option.h"
#include "base/os/os.h"

#include <string.h>

/* How long a thread rests between two looks at all handles. */
enum { YIELDS = 64, REST_LEAST_NS = 10000, REST_MOST_NS = 200000 };

/* Handles without a record are ready, or have a point that is; the first with one knows the
   context. */
static uint64_t any_deadline(const vram_async *asyncs, size_t count, uint64_t timeout) {
    struct vram_error error;
    struct vr_async *record = NULL;
    vr_error_save(&error);
    for (size_t i = 0; i < count && !record; i++) {
        (void)vr_async_enter(&asyncs[i], &record);
    }
    vr_error_restore(&error);
    if (!record) {
        bool chosen = timeout != VRAM_TIMEOUT_DEFAULT;
        return vr_deadline_in(chosen ? timeout : vr_option_number(VR_OPTION_WAIT_TIMEOUT));
    }
    uint64_t deadline = vr_async_deadline(record, timeout);
    vr_async_leave(record);
    return deadline;
}

/* Whether one is not pending: its index and status. */
static bool find_any(const vram_async *asyncs, size_t count, size_t *index, vram_status *status) {
    for (size_t i = 0; i < count; i++) {
        *status = vr_async_poll(&asyncs[i]);
        if (*status != VRAM_ERR_NOT_READY) {
            *index = i;
            return true;
        }
    }
    return false;
}

static vram_status wait_any(const vram_async *asyncs, size_t count, uint64_t deadline,
                            size_t *index) {
    vram_status status;
    for (uint64_t round = 0, rest = REST_LEAST_NS; !find_any(asyncs, count, index, &status);
         round++) {
        if (vr_exiting()) {
            return vr_fail(VRAM_ERR_SHUTDOWN, "the process is exiting");
        }
        if (vr_deadline_passed(deadline)) {
            return vr_fail(VRAM_ERR_TIMEOUT, "none of %llu had ended when the deadline passed",
                           (unsigned long long)count);
        }
        if (round < YIELDS) {
            vr_os_yield();
        } else {
            uint64_t left = vr_deadline_left(deadline);
            vr_clock_sleep(rest < left ? rest : left);
            rest = 2 * rest < REST_MOST_NS ? 2 * rest : REST_MOST_NS;
        }
    }
    return status;
}

static vram_status check_list(const vram_async *asyncs, size_t count, const void *out) {
    return asyncs && count && out
               ? VRAM_OK
               : vr_fail(VRAM_ERR_INVALID, "%s",
                         !asyncs  ? "the list of handles is NULL"
                         : !count ? "the list of handles is empty"
                                  : "the pointer that receives the result is NULL");
}

vram_status vram_async_wait_any(const vram_async *asyncs, size_t count, uint64_t timeout,
                                size_t *index) {
    VR_CALL;
    vram_status status = check_list(asyncs, count, index);
    size_t found = 0;
    if (status != VRAM_OK) {
        return status;
    }
    status = wait_any(asyncs, count, any_deadline(asyncs, count, timeout), &found);
    if (status != VRAM_ERR_TIMEOUT && status != VRAM_ERR_SHUTDOWN) {
        *index = found;
    }
    return status;
}

/* ------------------------------------------------------------- a descriptor */

struct watch {
    struct vr_thread thread;
    vr_atomic_bool detached; /* the thread that started this one needs `thread` no more */
    int fd;                  /* see (2) */
    size_t count;
    vram_async asyncs[];
};

static void watch_run(void *argument) {
    VR_OPERATION("vram_async_fd_open");
    struct watch *watch = argument;
    size_t index;
    (void)wait_any(watch->asyncs, watch->count, UINT64_MAX, &index);
    vr_error_clear();
    while (!vr_load(&watch->detached, VR_ACQUIRE)) {
        vr_os_yield();
    }
    int fd = watch->fd;
    vr_mem_free(watch); /* before the program learns of it */
    vr_os_event_send(fd);
    vr_os_event_close(fd);
}

vram_status vram_async_fd_open(const vram_async *asyncs, size_t count, int *fd) {
    VR_CALL;
    vram_status status = check_list(asyncs, count, fd);
    int fds[2];
    if (status != VRAM_OK) {
        return status;
    }
    struct watch *watch =
        count < SIZE_MAX / sizeof *asyncs - sizeof *watch
            ? vr_mem_alloc(1, sizeof *watch + count * sizeof *asyncs, vr_operation())
            : NULL;
    if (!watch) {
        return vr_fail(VRAM_ERR_HOST_MEMORY, "not enough host memory to watch %llu handles",
                       (unsigned long long)count);
    }
    status = vr_os_event_open(fds);
    if (status == VRAM_OK) {
        watch->fd = fds[1];
        watch->count = count;
        memcpy(watch->asyncs, asyncs, count * sizeof *asyncs);
        status = vr_os_thread_start(&watch->thread, "vram-async", watch_run, watch);
        if (status != VRAM_OK) {
            vr_os_event_close(fds[0]);
            vr_os_event_close(fds[1]);
        }
    }
    if (status != VRAM_OK) {
        vr_mem_free(watch);
        return status;
    }
    vr_os_thread_detach(&watch->thread);
    vr_store(&watch->detached, true, VR_RELEASE);
    *fd = fds[0];
    return VRAM_OK;
}
