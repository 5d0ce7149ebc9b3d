/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_snapshot.c: the reader of PyTorch's memory snapshots; see events_expect.h. */
#include "events_expect.h"

const char *const fuzz_words[] = {"\x80\x04",
                                  "\x80\x02",
                                  "}",
                                  "]",
                                  "(",
                                  "u",
                                  "e",
                                  "a",
                                  "s",
                                  "\x94",
                                  "h\x03",
                                  "q\x07",
                                  "\x8a\x06\x04\xff\x7f\x34\x12\x7f",
                                  "\x8c\x06"
                                  "action",
                                  "\x8c\x05"
                                  "alloc",
                                  "\x8c\x0e"
                                  "free_requested",
                                  "\x8c\x0d"
                                  "device_traces",
                                  "\x86",
                                  "cos\nsystem\n",
                                  ".",
                                  NULL};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    read_events(data, bytes, FORMAT_SNAPSHOT);
    return 0;
}
