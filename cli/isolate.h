/* SPDX-License-Identifier: Apache-2.0 */
/*
 * isolate.h: each case of `vram check` in a process of its own, for drivers that may end it.
 *
 * A process that has loaded a driver must not fork: the driver's threads and locks would be lost in
 * the child. So a helper process is forked before any driver is loaded, and it forks again for
 * each case:
 *
 *     vram check --isolate            lists the devices, asks for a case, prints its result
 *       `-- helper                    loads no driver; waits for the case to end
 *             `-- the case            starts the driver anew, runs, ends
 */
#ifndef ISOLATE_H
#define ISOLATE_H

#include "check/suite.h"

#include <sys/types.h>

struct isolate {
    pid_t helper;
    int channel; /* to the helper: a request for each case, one result in return */
};

/* Starts the helper. Before any context is made. False after one line on stderr. */
bool isolate_start(struct isolate *isolate);

/*
 * Runs case number `index` on device number `device` of `backend`. A case whose process dies is a
 * failed one, with the signal as its reason. False after one line on stderr when the helper is
 * gone.
 */
bool isolate_run(struct isolate *isolate, size_t index, const char *backend, uint32_t device,
                 struct check_result *result);

void isolate_end(struct isolate *isolate);

#endif
