/* SPDX-License-Identifier: Apache-2.0 */
/*
 * opencl_entries.h: what the tests' OpenCL driver and the shim in front of a real one share: the
 * exported symbols, each of which may be made to fail, and the table by which a test does that.
 */
#ifndef TEST_OPENCL_ENTRIES_H
#define TEST_OPENCL_ENTRIES_H

#include "backend/opencl/opencl_api.h"

#include <stdbool.h>

#define OPENCL_API __attribute__((visibility("default")))

/* Symbols that are not exported but asked for: X(name). */
#define OPENCL_EXTENSIONS(X)                                                                       \
    X(clDeviceMemAllocINTEL)                                                                       \
    X(clSharedMemAllocINTEL)                                                                       \
    X(clMemFreeINTEL)                                                                              \
    X(clSetKernelArgMemPointerINTEL)                                                               \
    X(clEnqueueMemFillINTEL)                                                                       \
    X(clEnqueueMemcpyINTEL)

enum opencl_call {
#define OPENCL_ENUM(name, need, parameters, arguments)            OPENCL_CALL_##name,
#define OPENCL_ENUM_MAKE(name, need, type, parameters, arguments) OPENCL_CALL_##name,
#define OPENCL_ENUM_PLAIN(name)                                   OPENCL_CALL_##name,
    VR_OPENCL_FUNCTIONS(OPENCL_ENUM, OPENCL_ENUM_MAKE, OPENCL_ENUM, OPENCL_ENUM)
        OPENCL_EXTENSIONS(OPENCL_ENUM_PLAIN)
#undef OPENCL_ENUM
#undef OPENCL_ENUM_MAKE
#undef OPENCL_ENUM_PLAIN
            OPENCL_CALL_COUNT
};

/* Found by dlsym("opencl_control"). */
struct opencl_control {
    /* The n-th call of `name` ("any": of all) from now answers `code`, and with for_ever all behind
       it; a NULL name ends the plan. */
    void (*refuse)(const char *name, uint64_t nth, int code, bool for_ever);
    uint64_t (*struck)(void);
    const char *(*last_call)(void);
    uint64_t (*calls)(const char *name); /* since the plan was set */
};

OPENCL_API const struct opencl_control *opencl_control(void);

/* Whether the call is struck; then *code is what it answers. */
bool opencl_strike(enum opencl_call call, vr_cl_int *code);

/* The driver behind the symbols; given by the fake and by the shim. */
const struct vr_opencl_api *opencl_target(void);

#endif
