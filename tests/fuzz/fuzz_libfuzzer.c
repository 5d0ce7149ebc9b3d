/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_libfuzzer.c: the one target of the program, as libFuzzer wants it. Its own mutations are
 * every second one; the others know parts and words, and lengths and checksums are made right after
 * most of both.
 */
#include "fuzz.h"

int LLVMFuzzerInitialize(int *count, char ***words);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t capacity, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t bytes, size_t capacity); /* libFuzzer's */

int LLVMFuzzerInitialize(int *count, char ***words) {
    (void)count, (void)words;
    fuzz_target = fuzz_targets;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    (void)fuzz_run(data, bytes);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t capacity, unsigned seed) {
    fuzz_seed(seed);
    bytes = fuzz_draw(2) ? LLVMFuzzerMutate(data, bytes, capacity)
                         : fuzz_mutate_parts(data, bytes, capacity);
    return fuzz_draw(8) ? fuzz_mend(data, bytes, capacity) : bytes;
}
