/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_rmm_log.c: the reader of RMM's logs; see events_expect.h. */
#include "events_expect.h"

static const char fuzz_words[] =
    "|Thread,Time,Action,Pointer,Size,Stream\n"
    "|1,12:00:00.000001,allocate,0x7f0000000000,1024,0x0\n"
    "|1,23:59:59:999999,free,0x7f0000000000,1024,0x0\n|allocate failure|(nil)|\r\n|,";

static int fuzz_take(const uint8_t *data, size_t bytes) {
    read_events(data, bytes, FORMAT_RMM);
    return 0;
}

FUZZ_TARGET(rmm_log, .split = fuzz_split_lines, .plain = true)
