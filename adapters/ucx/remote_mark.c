/* SPDX-License-Identifier: Apache-2.0 */
/* remote_mark.c: the marks of regions, which order transfers and the work of their owner. */
#include "adapters/ucx/remote_object.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"

uint64_t vr_region_mark(struct vr_region *region) {
    vr_mutex_lock(&region->remote->lock);
    uint64_t mark = region->mark;
    vr_mutex_unlock(&region->remote->lock);
    return mark;
}

void vr_region_mark_raise(struct vr_region *region, uint64_t value) {
    vr_mutex_lock(&region->remote->lock);
    if (value > region->mark) {
        region->mark = value;
        vr_cond_broadcast(&region->remote->changed);
    }
    vr_mutex_unlock(&region->remote->lock);
}

/* A mark that waits for a queue. */
struct vr_mark {
    struct vr_command command;
    struct vr_link link;      /* in remote->marks */
    struct vr_region *region; /* a reference */
    vram_point point;
    uint64_t value;
};

static void mark_end(struct vr_mark *mark) {
    vr_link_remove(&mark->link);
    vr_handle_unpin(mark->region->object.handle);
    vr_mem_free(mark);
}

static void mark_run(struct vr_remote *remote, struct vr_command *command) {
    vr_list_append(&remote->marks, &VR_CONTAINER(command, struct vr_mark, command)->link);
}

/* If the queue failed, the mark is never raised: who waits for it meets a deadline. */
void vr_marks_step(struct vr_remote *remote) {
    struct vr_link *link = vr_list_first(&remote->marks);
    while (link) {
        struct vr_mark *mark = VR_CONTAINER(link, struct vr_mark, link);
        link = vr_list_next(&remote->marks, link);
        vram_status status = vram_point_poll(mark->point);
        if (status == VRAM_ERR_NOT_READY) {
            vr_remote_wake_in(remote, VR_REMOTE_POLL_NS);
            continue;
        }
        if (status == VRAM_OK) {
            vr_region_mark_raise(mark->region, mark->value);
        }
        remote->busy = true;
        mark_end(mark);
    }
}

void vr_marks_end(struct vr_remote *remote) {
    struct vr_link *link;
    while ((link = vr_list_first(&remote->marks)) != NULL) {
        mark_end(VR_CONTAINER(link, struct vr_mark, link));
    }
}

static vram_status region_mark(struct vr_region *region, vram_queue *queue, uint64_t value) {
    vram_point point = {0};
    vram_status status = queue ? vram_queue_mark(queue, &point) : VRAM_OK;
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_mark *mark = vr_mem_alloc(1, sizeof *mark, vr_operation());
    if (!mark) {
        return VRAM_ERR_HOST_MEMORY;
    }
    *mark = (struct vr_mark){
        .command = {.run = mark_run}, .region = region, .point = point, .value = value};
    vr_handle_ref(region->object.handle);
    status = vr_remote_post(region->remote, &mark->command);
    if (status != VRAM_OK) {
        vr_handle_unpin(region->object.handle);
        vr_mem_free(mark);
    }
    return status;
}

vram_status vram_remote_mark(vram_remote_region *handle, vram_queue *queue, uint64_t value) {
    VR_CALL;
    void *region;
    vram_status status = vr_enter(VR_KIND_REMOTE_REGION, handle, &region);
    if (status == VRAM_OK) {
        status = region_mark(region, queue, value);
        vr_leave(region);
    }
    return status;
}

vram_status vram_remote_mark_wait(vram_remote_region *handle, uint64_t value, uint64_t timeout) {
    VR_CALL;
    VR_UNCANCELLED;
    void *entered;
    vram_status status = vr_enter(VR_KIND_REMOTE_REGION, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_region *region = entered;
    struct vr_remote *remote = region->remote;
    uint64_t deadline =
        vr_deadline_in(timeout == VRAM_TIMEOUT_DEFAULT ? remote->timeout_ns : timeout);
    vr_mutex_lock(&remote->lock);
    while (region->mark < value && !remote->stopping && !vr_deadline_passed(deadline)) {
        (void)vr_cond_wait(&remote->changed, &remote->lock, vr_deadline_left(deadline));
    }
    bool reached = region->mark >= value, stopping = remote->stopping;
    uint64_t mark = region->mark;
    vr_mutex_unlock(&remote->lock);
    if (!reached) {
        status = stopping ? vr_fail(VRAM_ERR_SHUTDOWN, "the remote is being closed")
                          : vr_fail(VRAM_ERR_TIMEOUT, "the mark is %llu, not yet %llu",
                                    (unsigned long long)mark, (unsigned long long)value);
    }
    vr_leave(region);
    return status;
}
