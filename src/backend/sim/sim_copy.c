/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_copy.c: copies, fills and prefetches. sim_contents.c moves the bytes when they complete.
 */
#include "backend/sim/sim_backend.h"

/* Submits work on memory of the queue's own device, described by `plan`; an address of 0 means
   none. */
static vram_status copy_submit(struct vr_queue *queue, vram_sim_call kind,
                               const struct vr_sim_work *plan) {
    struct vr_sim_call call;
    uint64_t addr = plan->to ? plan->to : plan->from;
    if (!vr_sim_begin(&call, queue->device, kind, addr, plan->bytes) ||
        (plan->to && !vr_sim_check_memory(&call, call.gpu, plan->to, plan->bytes, true)) ||
        (plan->from && !vr_sim_check_memory(&call, call.gpu, plan->from, plan->bytes, false))) {
        return vr_sim_end(&call);
    }
    struct vr_sim_work *work = vr_sim_work_make(&call, queue);
    if (work) {
        work->to = plan->to;
        work->from = plan->from;
        work->bytes = plan->bytes;
        work->to_host = plan->to_host;
        work->from_host = plan->from_host;
        work->pattern = plan->pattern;
        work->pattern_bytes = plan->pattern_bytes;
        work->value = plan->value;
        vr_sim_work_submit(call.sim, work);
    }
    return vr_sim_end(&call);
}

vram_status vr_sim_queue_upload(struct vr_queue *queue, vram_addr to, const void *from,
                                uint64_t bytes) {
    return copy_submit(queue, VRAM_SIM_UPLOAD,
                       &(struct vr_sim_work){.to = to, .from_host = from, .bytes = bytes});
}

vram_status vr_sim_queue_download(struct vr_queue *queue, void *to, vram_addr from,
                                  uint64_t bytes) {
    return copy_submit(queue, VRAM_SIM_DOWNLOAD,
                       &(struct vr_sim_work){.to_host = to, .from = from, .bytes = bytes});
}

vram_status vr_sim_queue_copy(struct vr_queue *queue, vram_addr to, vram_addr from,
                              uint64_t bytes) {
    return copy_submit(queue, VRAM_SIM_COPY,
                       &(struct vr_sim_work){.to = to, .from = from, .bytes = bytes});
}

vram_status vr_sim_queue_fill(struct vr_queue *queue, vram_addr to, uint32_t pattern,
                              uint32_t pattern_bytes, uint64_t bytes) {
    return copy_submit(
        queue, VRAM_SIM_FILL,
        &(struct vr_sim_work){
            .to = to, .bytes = bytes, .pattern = pattern, .pattern_bytes = pattern_bytes});
}

vram_status vr_sim_prefetch(struct vr_queue *queue, vram_addr addr, uint64_t bytes,
                            int32_t target) {
    (void)target; /* contents stay, and the time is the same everywhere */
    return copy_submit(queue, VRAM_SIM_PREFETCH, &(struct vr_sim_work){.to = addr, .bytes = bytes});
}
