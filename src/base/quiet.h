/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quiet.h: functions that end an object and keep the error record, for the cleanup attribute
 * (vram/auto.h). Each tier defines those of its own objects.
 */
#ifndef VR_QUIET_H
#define VR_QUIET_H

#include "base/error.h"

/* Defines type##_auto_end for handles, which keeps the caller's error record. `end` uses
   *object. */
#define VR_QUIET_HANDLE(type, end) VR_QUIET(type, type *, object &&*object, end)
/* The same for structs, which own something if `there` is true; both use object. */
#define VR_QUIET_STRUCT(type, there, end) VR_QUIET(type, type, object && (there), end)

/* NOLINTBEGIN(bugprone-macro-parentheses): a type, and statements */
#define VR_QUIET(type, held, there, end)                                                           \
    void type##_auto_end(held *object) {                                                           \
        if (there) {                                                                               \
            struct vram_error error;                                                               \
            vr_error_save(&error);                                                                 \
            end;                                                                                   \
            vr_error_restore(&error);                                                              \
        }                                                                                          \
    }
/* NOLINTEND(bugprone-macro-parentheses) */

#endif
