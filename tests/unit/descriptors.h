/* SPDX-License-Identifier: Apache-2.0 */
/* descriptors.h: how many descriptors this process has open, for tests of what is left. */
#ifndef TEST_DESCRIPTORS_H
#define TEST_DESCRIPTORS_H

#include "assert_ok.h"

#include <dirent.h>

static inline uint32_t descriptors_open(void) {
    DIR *folder = opendir("/proc/self/fd");
    uint32_t count = 0;
    assert_non_null(folder);
    while (readdir(folder)) {
        count++;
    }
    closedir(folder);
    return count;
}

#endif
