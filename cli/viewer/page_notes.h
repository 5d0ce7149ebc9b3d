/* SPDX-License-Identifier: Apache-2.0 */
/* page_notes.h: the notes of a scene, with what is known of each refusal. */
#ifndef VIEWER_PAGE_NOTES_H
#define VIEWER_PAGE_NOTES_H

#include "json_out.h"
#include "scene_notes.h"

/* The member "notes" of an open object. */
void page_notes_write(struct json_out *json, const struct scene *scene, struct report_input *input);

/* "frames" of a stack of the recording, the innermost first; none of stack 0. */
void page_frames_write(struct json_out *json, struct report_input *input, uint32_t stack);

#endif
