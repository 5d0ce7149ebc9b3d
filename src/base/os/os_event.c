/* SPDX-License-Identifier: Apache-2.0 */
/* os_event.c: descriptors that programs wait for in their event loops. See os.h. */
#include "base/os/platform.h"

#include <errno.h>
#include <unistd.h>

vram_status vr_os_event_open(int fds[2]) {
    int error = vr_os_fault();
    error = error ? error : vr_os_event_pair(fds);
    return error ? vr_os_error(error, "eventfd", 0) : VRAM_OK;
}

void vr_os_event_send(int fd) {
    VR_UNCANCELLED;
    const uint64_t one = 1;
    while (write(fd, &one, sizeof one) < 0 && errno == EINTR) {
    }
}

void vr_os_event_clear(int fd) {
    VR_UNCANCELLED;
    uint64_t sink[8];
    while (read(fd, sink, sizeof sink) == (ssize_t)sizeof sink) { /* a full pipe has more */
    }
}

void vr_os_event_close(int fd) {
    VR_UNCANCELLED;
    close(fd);
}
