/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ticks.h: the processor's time counter, for code that cannot afford the system's clock. The clock
 * modules above decide whether to use it (base/clock.h).
 */
#ifndef VR_TICKS_H
#define VR_TICKS_H

#include <stdbool.h>
#include <stdint.h>

/* Whether all processors share one counter that runs at a constant rate; asked for once. */
bool vr_os_counter_start(void);

/* Its ticks per second, after vr_os_counter_start was true. Where the processor does not say, it is
   measured against the system's clock from the start on, for a millisecond at least; the later the
   call, the more exact it is. */
uint64_t vr_os_counter_rate(void);

/* Whether a read of the counter is over before other threads see any later store of its thread. */
#if defined(__x86_64__)
#define VR_OS_COUNTER_BEFORE_STORES true
#else
#define VR_OS_COUNTER_BEFORE_STORES false
#endif

/* The counter, perhaps read before earlier loads have completed. */
static inline uint64_t vr_os_counter(void) {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t counter;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(counter));
    return counter;
#else
    return 0;
#endif
}

/* The counter, read after all earlier loads. */
static inline uint64_t vr_os_counter_ordered(void) {
#if defined(__x86_64__)
    uint32_t low, high, processor;
    __asm__ volatile("rdtscp" : "=a"(low), "=d"(high), "=c"(processor)::"memory");
    return (uint64_t)high << 32 | low;
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
    return vr_os_counter();
#else
    return 0;
#endif
}

#endif
