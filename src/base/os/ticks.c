/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ticks.c: see ticks.h. An aarch64 processor has one such counter for all cores and says its rate.
 * An x86_64 processor has one per core; the kernel checks whether they agree, and uses them for its
 * own clock only as long as they do.
 */
#include "base/os/ticks.h"

#include "base/os/os.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define SECOND       UINT64_C(1000000000)
#define LEAST_SPAN   UINT64_C(1000000) /* ns that a measurement takes */
#define CLOCK_SOURCE "/sys/devices/system/clocksource/clocksource0/current_clocksource"

static struct { uint64_t counter, now; /* read at the same time */ } first;

#if defined(__x86_64__)
static bool kernel_trusts_it(void) {
    char text[8] = "";
    int fd = open(CLOCK_SOURCE, O_RDONLY | O_CLOEXEC);
    ssize_t bytes = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0) {
        (void)close(fd);
    }
    return bytes >= 3 && strcmp(text, "tsc\n") == 0;
}

/* The counter runs at a constant rate, and can be read in order (RDTSCP). */
static bool is_shared(void) {
    unsigned most, a, b, c, rate, order;
    __cpuid(0x80000000, most, b, c, a); /* __get_cpuid of clang 14 takes it for an int */
    if (most < 0x80000007) {
        return false;
    }
    __cpuid(0x80000007, a, b, c, rate);
    __cpuid(0x80000001, a, b, c, order);
    return (rate >> 8 & 1) && (order >> 27 & 1) && kernel_trusts_it();
}
#elif defined(__aarch64__)
static bool is_shared(void) {
    return true;
}
#else
static bool is_shared(void) {
    return false;
}
#endif

/* Between two reads of the clock, so that an interruption in the middle shows as a long time. */
static void read_both(uint64_t *counter, uint64_t *now) {
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < 5; i++) {
        uint64_t before = vr_os_now(), ticks = vr_os_counter_ordered(), after = vr_os_now();
        if (after - before < best) {
            best = after - before;
            *counter = ticks;
            *now = before + best / 2;
        }
    }
}

static bool shared;

static void counter_start(void) {
    VR_UNCANCELLED;
    shared = is_shared();
    if (shared) {
        read_both(&first.counter, &first.now);
    }
}

bool vr_os_counter_start(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, counter_start);
    return shared;
}

uint64_t vr_os_counter_rate(void) {
#if defined(__aarch64__)
    uint64_t frequency;
    __asm__ volatile("mrs %0, cntfrq_el0" : "=r"(frequency));
    return frequency;
#else
    uint64_t counter = 0, now = 0;
    do {
        read_both(&counter, &now);
    } while (now && now - first.now < LEAST_SPAN);
    return (uint64_t)((double)(counter - first.counter) * (double)SECOND /
                      (double)(now - first.now));
#endif
}
