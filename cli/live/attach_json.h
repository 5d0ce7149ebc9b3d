/* SPDX-License-Identifier: Apache-2.0 */
/* attach_json.h: the blocks of a running process as JSON. */
#ifndef ATTACH_JSON_H
#define ATTACH_JSON_H

#include "json_out.h"
#include "live/attach.h"

/* Arrays "groups" and "largest" with at most so many rows each; with `leaks` only blocks that are a
   minute old or older. */
void attach_json_groups(struct json_out *json, const struct attach_answer *answer, bool leaks,
                        size_t most);
void attach_json_largest(struct json_out *json, const struct attach_answer *answer, bool leaks,
                         size_t most);

#endif
