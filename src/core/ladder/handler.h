/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handler.h: a context's error handler (vram_error_handler_set), asked before an allocation fails.
 */
#ifndef VR_HANDLER_H
#define VR_HANDLER_H

#include "core/ladder/ladder.h"

/* What the handler says to a failure of the request, whose error is in the record: VRAM_ERROR_FAIL
   where there is none, where the error is no exhaustion, and when it may not be asked for more. The
   record is left as it was. No lock held. */
vram_error_answer vr_handler_ask(struct vr_pool *pool, const struct vr_request *request,
                                 vram_status status, uint32_t retries);

#endif
