/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_bounds.c: the memory that a target has while it takes an input. Sanitizers tell of every
 * block that is allocated and freed, by whichever library; without one nothing is counted. Memory
 * that was there before and is freed meanwhile counts in the target's favour.
 */
#include "fuzz.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>

const struct fuzz_target *fuzz_target;
struct fuzz_target *fuzz_targets;

/* Only a build with a sanitizer has these functions. */
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *, size_t),
                                              void (*on_free)(const volatile void *))
    __attribute__((weak));
size_t __sanitizer_get_allocated_size(const volatile void *block) __attribute__((weak));

static atomic_bool counts;
static atomic_llong live, peak; /* bytes, since the input was begun */

static void on_malloc(const volatile void *block, size_t bytes) {
    if (block != NULL && atomic_load_explicit(&counts, memory_order_relaxed)) {
        long long now = atomic_fetch_add(&live, (long long)bytes) + (long long)bytes;
        long long before = atomic_load(&peak);
        while (before < now && !atomic_compare_exchange_weak(&peak, &before, now)) {
        }
    }
}

static void on_free(const volatile void *block) {
    if (block != NULL && atomic_load_explicit(&counts, memory_order_relaxed)) {
        atomic_fetch_sub(&live, (long long)__sanitizer_get_allocated_size(block));
    }
}

enum { SIGNALS = 32 }; /* numbers of the usual ones are below */

static struct sigaction handlers[SIGNALS];
static bool handler_known[SIGNALS];

void fuzz_foreign_begin(void) {
    atomic_store(&counts, false);
    for (int i = 1; i < SIGNALS; i++) {
        handler_known[i] = sigaction(i, NULL, &handlers[i]) == 0;
    }
}

void fuzz_foreign_end(void) {
    for (int i = 1; i < SIGNALS; i++) {
        if (handler_known[i]) {
            (void)sigaction(i, &handlers[i], NULL); /* refused of SIGKILL and SIGSTOP */
        }
    }
    atomic_store(&counts, true);
}

static bool is_packed(const uint8_t *data, size_t bytes) {
    return (bytes >= 2 && memcmp(data, "\x1f\x8b", 2) == 0) ||
           (bytes >= 4 && memcmp(data, "\x28\xb5\x2f\xfd", 4) == 0);
}

size_t fuzz_run(const uint8_t *data, size_t bytes) {
    static bool installed;
    if (fuzz_target->plain && is_packed(data, bytes)) {
        return 0;
    }
    if (!installed && __sanitizer_install_malloc_and_free_hooks) {
        (void)__sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
    }
    installed = true;
    atomic_store(&live, 0);
    atomic_store(&peak, 0);
    atomic_store(&counts, true);
    fuzz_target->take(data, bytes);
    atomic_store(&counts, false);
    size_t times = fuzz_target->memory_times ? fuzz_target->memory_times : 2;
    size_t more = fuzz_target->memory_more ? fuzz_target->memory_more : 1 << 20;
    size_t most = (size_t)atomic_load(&peak);
    if (most > times * bytes + more) {
        fprintf(stderr, "an input of %zu bytes took %zu of memory, more than %zu times and %zu\n",
                bytes, most, times, more);
        abort();
    }
    return most > more ? (most - more) / bytes + 1 : 0;
}
