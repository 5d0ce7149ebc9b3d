/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bus_error.c: mapped files that another process may truncate at any time.
 *
 * An access past the new end of such a file raises SIGBUS. While there are guarded mappings, a
 * handler replaces the rest of the one that was hit by memory of the process, and the access is
 * repeated: what is written there is lost, and the program goes on. All other bus errors go to the
 * handler that was there before, or to the system.
 *
 *  (1) A row is claimed by its `begin`, and valid while `end` is not 0. The handler takes no lock.
 *  (2) The handler is installed with the first guarded mapping and removed with the last, unless
 *      the program has set another one meanwhile. A handler that the program sets later has to pass
 *      on what it does not know, as any handler should.
 */
#include "base/lock.h"
#include "base/os/platform.h"

#include <signal.h>
#include <sys/mman.h>

enum { ROWS = 256 };

static struct { vr_atomic_u64 begin, end; /* addresses; see (1) */ } rows[ROWS];

static struct vr_mutex guard_lock = VR_MUTEX_INIT(VR_RANK_DISK); /* guards the rest */
static unsigned guarded;                                         /* rows in use */
static struct sigaction before; /* written before our handler is installed */

/* Whether the address is in a guarded mapping, whose rest has been replaced. */
static bool bus_error_mend(uint64_t at) {
    uint64_t page = at & ~(vr_os_page_bytes() - 1);
    for (unsigned i = 0; i < ROWS; i++) {
        uint64_t end = vr_load(&rows[i].end, VR_ACQUIRE);
        if (at < end && at >= vr_load(&rows[i].begin, VR_RELAXED)) {
            return mmap((void *)(uintptr_t)page, (size_t)(end - page), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANON | MAP_FIXED, -1, 0) != MAP_FAILED;
        }
    }
    return false;
}

/* Without a handler of the program, the access that is repeated ends the process as if there had
   been none of ours. */
static void bus_error_pass(int number, siginfo_t *info, void *context) {
    if (before.sa_flags & SA_SIGINFO) {
        before.sa_sigaction(number, info, context);
    } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
        before.sa_handler(number);
    } else {
        (void)sigaction(number, &before, NULL);
        /* Sent, not caused by an access. */
        if (info->si_code <= 0) {
            (void)pthread_kill(pthread_self(), number);
        }
    }
}

static void bus_error_handle(int number, siginfo_t *info, void *context) {
    if (info->si_code <= 0 || !bus_error_mend((uint64_t)(uintptr_t)info->si_addr)) {
        bus_error_pass(number, info, context);
    }
}

static bool handler_install(void) {
    struct sigaction ours = {.sa_sigaction = bus_error_handle,
                             .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    (void)sigemptyset(&ours.sa_mask);
    return sigaction(SIGBUS, NULL, &before) == 0 && sigaction(SIGBUS, &ours, NULL) == 0;
}

/* Keeps (2). */
static void handler_remove(void) {
    struct sigaction now;
    if (sigaction(SIGBUS, NULL, &now) == 0 && now.sa_flags & SA_SIGINFO &&
        now.sa_sigaction == bus_error_handle) {
        (void)sigaction(SIGBUS, &before, NULL);
    }
}

static bool row_take(uint64_t begin, uint64_t end) {
    for (unsigned i = 0; i < ROWS; i++) {
        if (!vr_load(&rows[i].end, VR_RELAXED)) {
            vr_store(&rows[i].begin, begin, VR_RELAXED);
            vr_store(&rows[i].end, end, VR_RELEASE);
            return true;
        }
    }
    return false;
}

bool vr_os_bus_guard(const void *pages, uint64_t bytes) {
    uint64_t begin = (uintptr_t)pages;
    vr_mutex_lock(&guard_lock);
    bool done = (guarded || handler_install()) && row_take(begin, begin + bytes);
    guarded += done;
    if (!done && !guarded) {
        handler_remove();
    }
    vr_mutex_unlock(&guard_lock);
    return done;
}

void vr_os_bus_release(const void *pages) {
    vr_mutex_lock(&guard_lock);
    for (unsigned i = 0; i < ROWS; i++) {
        if (vr_load(&rows[i].end, VR_RELAXED) &&
            vr_load(&rows[i].begin, VR_RELAXED) == (uintptr_t)pages) {
            vr_store(&rows[i].end, 0, VR_RELEASE);
            if (--guarded == 0) {
                handler_remove();
            }
            break;
        }
    }
    vr_mutex_unlock(&guard_lock);
}
