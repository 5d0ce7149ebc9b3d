/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_chrome_trace.c: the reader of Chrome's JSON; see events_expect.h. */
#include "events_expect.h"

static const char fuzz_words[] =
    " {\"traceEvents\":[ \"name\":\"[memory]\" \"name\":\"MemoryAllocation\" \"ts\":1e300"
    " \"args\":{\"Addr\":4096,\"Bytes\":-512} \"allocator_name\":\"a\" \\u00e9 { [ ]} , : null";

static int fuzz_take(const uint8_t *data, size_t bytes) {
    read_events(data, bytes, FORMAT_CHROME);
    return 0;
}

FUZZ_TARGET(chrome_trace, .split = fuzz_split_json, .plain = true)
