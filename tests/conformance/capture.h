/* SPDX-License-Identifier: Apache-2.0 */
/*
 * capture.h: a capture into a graph that goes on beside the suite, on a stream of its own and begun
 * by a thread of its own.
 */
#ifndef CONFORM_CAPTURE_H
#define CONFORM_CAPTURE_H

#include <stdbool.h>

/* What a capture is named by: "global", "thread_local" or "relaxed", and ",blocking" behind it for
   a stream that the legacy default stream waits for. */
bool capture_name_ok(const char *name);
/* Begins one on the CUDA device with that ordinal. The stream is adopted by a device of libvram's
   first, and memory is allocated for it. False, with a word on stderr: it could not. */
bool capture_begin(const char *name, unsigned device);
/* Whether it still goes on. */
bool capture_alive(void);
/* Ends it; whether the driver made a graph of it. */
bool capture_end(void);

#endif
