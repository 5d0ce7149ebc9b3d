/* SPDX-License-Identifier: Apache-2.0 */
/*
 * live_answer.h: what a process answers to `vram report --pid`: its live blocks by tag and stack,
 * with their ages, and the largest of them. docs/live-page.md describes the lines.
 *
 * The blocks are collected under the lock that keeps contexts from ending, into memory of fixed
 * size; tags are copied. They are written afterwards, without a lock: looking up the names of a
 * stack takes its time.
 */
#ifndef VR_LIVE_ANSWER_H
#define VR_LIVE_ANSWER_H

#include "base/writer.h"
#include "device/objects.h"

struct vr_live_answer;

#define VR_LIVE_ANSWER_FIRST "vram-live 1"

/* NULL with the error set: memory ran out. */
struct vr_live_answer *vr_live_answer_make(void);
void vr_live_answer_free(struct vr_live_answer *answer);

/* Adds the blocks of a context, which the caller keeps from ending. */
void vr_live_answer_add(struct vr_live_answer *answer, struct vr_context *context);

/* Writes all lines but the first, VR_LIVE_ANSWER_FIRST, which is sent before the blocks are
   collected: it shows that the process runs. After `deadline` (vr_os_now) addresses of code get no
   names any more. False: the writer refused. */
bool vr_live_answer_write(struct vr_live_answer *answer, struct vr_writer *writer,
                          uint64_t deadline);

#endif
