/* SPDX-License-Identifier: Apache-2.0 */
/* ending.c: see ending.h. */
#include "ending.h"

#include <errno.h>
#include <stddef.h>
#include <time.h>

void ending_begin(sigset_t *ending) {
    sigemptyset(ending);
    sigaddset(ending, SIGINT);
    sigaddset(ending, SIGTERM);
    pthread_sigmask(SIG_BLOCK, ending, NULL);
}

bool ending_wait(const sigset_t *ending, uint64_t ns) {
    struct timespec wait = {.tv_sec = (time_t)(ns / 1000000000),
                            .tv_nsec = (long)(ns % 1000000000)};
    int got;
    do {
        got = sigtimedwait(ending, NULL, &wait);
    } while (got < 0 && errno == EINTR);
    return got > 0;
}
