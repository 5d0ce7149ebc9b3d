/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory_left.c: linked into programs of the tests that make a process for each thing they try. A
 * program that exits while the library still has host memory fails, as it does under LeakSanitizer,
 * which some machines are too slow to start thousands of times.
 */
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>
#include <vram/vram.h>

enum { EXIT_LEAKED = 23 }; /* as LeakSanitizer's */

/* Set by a program whose process shares a context, which has no end. */
extern bool memory_left_shared;
bool memory_left_shared;

__attribute__((destructor)) static void count_host_memory(void) {
    uint64_t left = vram_host_bytes();
    if (left > 0 && !memory_left_shared) {
        fprintf(stderr, "memory_left: the library still has %llu bytes at the end\n",
                (unsigned long long)left);
        _exit(EXIT_LEAKED);
    }
}
