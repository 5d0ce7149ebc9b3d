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

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

uint64_t fake_machine_free(const struct fake_device *device, bool without_cache) {
    uint64_t taken = device->used > fake.ahead_bytes ? device->used : fake.ahead_bytes;
    uint64_t used = taken + fake.host_bytes;
    uint64_t available = used < fake.capacity ? fake.capacity - used : 0;
    uint64_t cache = fake.cache_bytes < available ? fake.cache_bytes : available;
    return without_cache ? available - cache : available;
}

/* Overwritten in place, with fields of fixed width: closing a truncated file would flush it. */
static void meminfo_write(const char *path, const struct fake_device *device) {
    int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || dprintf(file,
                            "MemTotal: %20" PRIu64 " kB\nMemFree: %20" PRIu64
                            " kB\nMemAvailable: %20" PRIu64 " kB\n",
                            fake.capacity / 1024, fake_machine_free(device, true) / 1024,
                            fake_machine_free(device, false) / 1024) < 0) {
        fake_violation("the machine's meminfo cannot be written");
    }
    close(file);
}

void fake_machine_note(const struct fake_device *device) {
    const char *path = fake_environment("MEMINFO");
    if (fake.host_bytes && device->used + fake.host_bytes > fake.capacity) {
        fake_violation("the machine swaps");
    }
    if (path) {
        meminfo_write(path, device);
    }
}
