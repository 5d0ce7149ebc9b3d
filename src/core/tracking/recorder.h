/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recorder.h: traces (vram/trace.h): from what pools tell (track/event.h) to a file
 * (track/trace_writer.h).
 */
#ifndef VR_RECORDER_H
#define VR_RECORDER_H

/* Begins the trace that the option `trace` asks for, if it was not begun in this process: before
   the first pool. Never fails: what cannot be written is logged. No lock held. */
void vr_recorder_start(void);

#endif
