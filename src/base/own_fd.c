/* SPDX-License-Identifier: Apache-2.0 */
/*
 * own_fd.c: descriptors that end with the process, not with its forked children. A child that
 * kept one would keep its parent's lease or share after the parent has ended it, or a socket that
 * nobody serves.
 */
#include "base/own_fd.h"

#include "base/atomic.h"
#include "base/lock.h"
#include "base/os/os.h"
#include "base/os/unix_socket.h"

enum { FDS = 1 << 16, WORDS = FDS / 64 }; /* descriptors above are not noted */

static vr_atomic_u64 noted[WORDS];
static struct vr_once once = VR_ONCE_INIT;

static void child_close(void) {
    for (int word = 0; word < WORDS; word++) {
        uint64_t bits = vr_exchange(&noted[word], 0, VR_RELAXED);
        for (int bit = 0; bits; bit++, bits >>= 1) {
            if (bits & 1) {
                vr_os_file_close(word * 64 + bit);
            }
        }
    }
}

/* Without a handler, which is as good as never, a child keeps them. */
static void handler_start(void) {
    (void)vr_os_at_fork(NULL, NULL, child_close);
}

void vr_own_fd_note(int fd) {
    vr_once(&once, handler_start);
    if (fd >= 0 && fd < FDS) {
        vr_fetch_or(&noted[fd / 64], UINT64_C(1) << fd % 64, VR_RELAXED);
    }
}

/* A child that was forked in between has a copy that it does not close: the socket is shut for it,
   too. */
void vr_own_fd_close(int fd) {
    if (fd < 0) {
        return;
    }
    uint64_t bit = UINT64_C(1) << fd % 64;
    if (fd < FDS && !(vr_fetch_and(&noted[fd / 64], ~bit, VR_RELAXED) & bit)) {
        return; /* closed at the fork */
    }
    vr_os_socket_shut(fd);
    vr_os_file_close(fd);
}
