/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recorder.h: writes the events of pools (track/event.h) to a trace file (vram/trace.h,
 * track/trace_writer.h).
 */
#ifndef VR_RECORDER_H
#define VR_RECORDER_H

/* Begins the trace of the option `trace`, once per process, before the first pool. Never fails:
   errors are logged. No lock held. */
void vr_recorder_start(void);

#endif
