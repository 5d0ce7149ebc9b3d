/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layer_handles.h: how many references there are to OpenCL's handles, and what they belong to.
 *
 * One lock guards the table; it is held for some tens of instructions. A forked child keeps the
 * handles, as it keeps the addresses they name.
 */
#ifndef LAYER_HANDLES_H
#define LAYER_HANDLES_H

#include <stdbool.h>
#include <stdint.h>

struct layer_handle {
    uint64_t value;      /* a cl_mem or cl_context; never 0 */
    uint64_t parent;     /* of a cl_mem: the one that it keeps alive; of a context: its struct
                            layer_cl_usm; 0: none */
    uint32_t references; /* of the program and of children */
    uint32_t device;     /* of a context: the recorder's number */
};

/* Enters a handle, in the place of one with the same value. False: no memory, or value 0. */
bool layer_handle_put(const struct layer_handle *handle);

bool layer_handle_get(uint64_t value, struct layer_handle *handle);

void layer_handle_retain(uint64_t value);

/* Drops a reference. True: it was the last, and the handle is removed. */
bool layer_handle_release(uint64_t value, struct layer_handle *handle);

#endif
