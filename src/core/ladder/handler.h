/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handler.h: a context's error handler (vram_error_handler_set), asked before an allocation fails.
 */
#ifndef VR_HANDLER_H
#define VR_HANDLER_H

#include "core/ladder/ladder.h"

/* The handler's answer to a failed request, whose error is in the record. VRAM_ERROR_FAIL if there
   is no handler, if memory is not exhausted, or if it may not ask for more. Does not change the
   record. No lock held. */
vram_error_answer vr_handler_ask(struct vr_pool *pool, const struct vr_request *request,
                                 vram_status status, uint32_t retries);

#endif
