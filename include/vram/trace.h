/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/trace.h: a file of every allocation, free and refusal of pools, written as the program runs.
 *
 *   vram_trace *trace;
 *   vram_trace_options options = {.size = sizeof options, .path = "run.vrt"};
 *   vram_trace_begin(context, &options, &trace);
 *   ...                                            make pools, use them
 *   vram_trace_end(trace);
 *
 * or, without a change of the program, VRAM_TRACE=run.vrt in its environment. Then `vram report
 * run.vrt` shows what was live at the peak, what leaked and what to do about it, and `vram replay
 * run.vrt` replays it on any device. docs/trace-format.md describes the file. It has call stacks if
 * the option `track_stacks` is on (vram/stats.h).
 *
 * A trace costs nothing until it begins. Then each allocation and each free of a traced pool takes
 * some tens of nanoseconds more, and about 10 bytes of the file; every thread writes to a part of
 * the file of its own. The file is complete at any moment: a program that is killed loses no event
 * of a call that has returned. A trace never makes an allocation fail: when the disk is full, or
 * another process truncates the file, the trace stops, and when the disk is slow, it leaves events
 * out; either way it counts the events it could not write. While a trace is written, the library
 * handles SIGBUS for the file and passes other bus errors on; a program that installs a handler of
 * its own meanwhile should pass on what it does not know. If the trace that
 * VRAM_TRACE asks for cannot be started, the log has a warning (VRAM_LOG=warn); if another program
 * is writing to that file, the process id is added to its name.
 */
#ifndef VRAM_TRACE_H
#define VRAM_TRACE_H

#include <vram/device.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vram_trace vram_trace;

typedef struct vram_trace_options {
    size_t size; /* sizeof(vram_trace_options) */
    /* the file to write, emptied first; "%p" in it is the process id; NULL: option trace */
    const char *path;
    /* keep the last events only, in a file of about that size, 256 KiB to 256 MiB; 0: option
       trace_ring, which keeps all */
    uint64_t ring_bytes;
    /* how often the state of pools is recorded (what they hold, how much of it is free and
       scattered, hits and misses), at most; 0: option trace_sample, 100 ms */
    uint64_t sample_ns;
} vram_trace_options;

/**
 * Begins a trace of all pools of the context that are created from now on, and of existing ones
 * that are tracked (option tracking). A trace alone does not have a pool tracked. It ends with the
 * context at the latest. A process has one trace at a time: VRAM_ERR_BUSY if there is one already,
 * that of VRAM_TRACE included, or if another program writes to that file. VRAM_ERR_INVALID without
 * a path, or if it is not a plain file. VRAM_ERR_IO if it cannot be written, or if there is no room
 * for all of a ring.
 */
VRAM_API vram_status vram_trace_begin(vram_context *context, const vram_trace_options *options,
                                      vram_trace **trace);

/**
 * Ends the trace: the state of pools is recorded once more, and the file is closed. No event is
 * written after it returns. Events that could not be written are not a failure of this call: see
 * vram_trace_info. NULL is allowed.
 */
VRAM_API vram_status vram_trace_end(vram_trace *trace);

/** Writes a text of the program, at most 255 bytes: "step 12", "model loaded". Reports show it. */
VRAM_API vram_status vram_trace_mark(vram_trace *trace, const char *text);

typedef struct vram_trace_info {
    size_t size;          /* in: sizeof(vram_trace_info) of the caller */
    uint64_t events;      /* that were written */
    uint64_t lost_events; /* that were not: the disk was full or slow, or the file was cut off */
    uint64_t file_bytes;  /* that the file takes */
    vram_status stopped;  /* why no more is written; VRAM_OK: it still is */
    char path[256];       /* of the file */
} vram_trace_info;

VRAM_API vram_status vram_trace_info_get(vram_trace *trace, vram_trace_info *info);

#ifdef __cplusplus
}
#endif

#endif
