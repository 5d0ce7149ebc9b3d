/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quota_charge.c: charges a tagged request to the quotas of its tag, or refuses it with a report.
 */
#include "core/ladder/handler.h"
#include "core/ladder/report.h"
#include "core/limit/tag.h"
#include "core/object/request.h"

#include "base/error.h"

/* Whether the error handler asks for a retry after a refusal. */
static bool is_retried(struct vr_pool *pool, const struct vr_request *request, vram_status *status,
                       uint32_t retries) {
    VR_OPERATION("vram_alloc");
    if (vr_handler_ask(pool, request, *status, retries) != VRAM_ERROR_RETRY) {
        return false;
    }
    if (vr_handle_was(VR_KIND_POOL, (const void *)(uintptr_t)pool->object.handle)) {
        *status = vr_fail(VRAM_ERR_STALE, "the pool was destroyed by the error handler");
        return false;
    }
    return true;
}

vram_status vr_quota_charge(struct vr_pool *pool, const struct vr_request *request,
                            uint32_t *crossed) {
    struct vr_tag *full;
    vram_status status;
    uint32_t retries = 0;
    struct vram_error error;
    vr_error_save(&error);
    do {
        status = vr_tag_charge(request->tag, request->bytes, request->size, crossed, &full);
        if (status == VRAM_OK) {
            vr_error_restore(&error);
            return status;
        }
        if (!(request->flags & VRAM_ALLOC_CACHED_ONLY)) {
            vr_report_write_quota(pool, request, status, full);
        }
    } while (is_retried(pool, request, &status, retries++));
    vr_counter_add(&pool->counters.quota_refusals, 1);
    vr_counter_add(&pool->counters.limit_refusals, 1);
    vr_counter_add(&pool->counters.refusals, 1);
    return status;
}
