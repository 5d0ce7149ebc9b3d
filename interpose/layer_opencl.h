/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layer_opencl.h: what the files of the OpenCL layer share.
 *
 * The loader calls the layer instead of itself, and the layer calls the loader (layer_cl), which
 * finds the driver by the object. Arguments go through unchanged, NULL or invalid as they may be:
 * the driver checks them. The layer reads what the driver reads, lists of properties and accepted
 * descriptions, and nothing else.
 *
 * A buffer or image is known to the recorder from its creation until the last reference is gone:
 * the program's own, and those of sub-buffers and of images that lie in it. The driver may keep it
 * longer, until commands that use it have completed.
 */
#ifndef LAYER_OPENCL_H
#define LAYER_OPENCL_H

#include "base/atomic.h"
#include "layer_opencl_abi.h"
#include "run_record.h"

/* The functions of the loader, or of the layer below; NULL: it has none. */
struct layer_cl {
#define LAYER_CL_FIELD(place, returns, name, parameters) returns(*name) parameters;
    LAYER_CL_FUNCTIONS(LAYER_CL_FIELD)
#undef LAYER_CL_FIELD
};
const struct layer_cl *layer_cl(void);

/* A platform's own functions for unified shared memory; NULL: it has none. */
struct layer_cl_usm {
#define LAYER_CL_FIELD(place, returns, name, parameters) returns(*name) parameters;
    LAYER_CL_USM_FUNCTIONS(LAYER_CL_FIELD)
#undef LAYER_CL_FIELD
};

/* What the layer puts into the table. */
#define LAYER_CL_DECLARE(place, returns, name, parameters) returns layer_##name parameters;
LAYER_CL_REPLACED(LAYER_CL_DECLARE)
LAYER_CL_USM_FUNCTIONS(LAYER_CL_DECLARE)
#undef LAYER_CL_DECLARE

/* ------------------------------------------------------------------- devices */

/* The recorder's number of a device. A sub-device counts as the device that it is a part of. */
uint32_t layer_cl_device(struct vr_cl_device *device);
/* The recorder's number of a context's first device. `usm` may be NULL. */
uint32_t layer_cl_context(struct vr_cl_context *context, const struct layer_cl_usm **usm);

/* --------------------------------------------------------------------- memory */

/* Begins an allocation of that many bytes: fills the block, takes the bytes from the limit. False:
   they are beyond it, and *code (may be NULL) is set. */
bool layer_cl_begin(struct run_block *block, vr_cl_int refusal, vr_cl_int *code);
/* Ends it: `value` is what the driver returned, 0 for a failure. */
void layer_cl_end(struct run_block *block, const void *value, const vr_cl_int *code);

#endif
