/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_machine.c: a machine whose host and GPU share one memory. The page cache fills what nobody
 * uses: the driver counts it as used, and the system drops it when somebody needs the memory:
 *
 *     capacity   | host's programs | the device's | page cache, at most cache_bytes | free |
 *                                                 |<--- MemAvailable ------------------->|
 *                                                            what the driver calls free  |<-->|
 *
 * If the device takes more than is available, the system swaps programs out: a violation.
 */
#include "fake/fake_state.h"

#include <inttypes.h>
#include <stdio.h>

uint64_t fake_machine_free(const struct fake_device *device, bool without_cache) {
    uint64_t used = device->used + fake.host_bytes;
    uint64_t available = used < fake.capacity ? fake.capacity - used : 0;
    uint64_t cache = fake.cache_bytes < available ? fake.cache_bytes : available;
    return without_cache ? available - cache : available;
}

void fake_machine_note(const struct fake_device *device) {
    const char *path = fake_environment("MEMINFO");
    if (fake.host_bytes && device->used + fake.host_bytes > fake.capacity) {
        fake_violation("the machine swaps");
    }
    FILE *file = path ? fopen(path, "w") : NULL;
    if (file) {
        fprintf(file,
                "MemTotal: %" PRIu64 " kB\nMemFree: %" PRIu64 " kB\nMemAvailable: %" PRIu64 " kB\n",
                fake.capacity / 1024, fake_machine_free(device, true) / 1024,
                fake_machine_free(device, false) / 1024);
        fclose(file);
    }
}
