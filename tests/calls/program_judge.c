/* SPDX-License-Identifier: Apache-2.0 */
/* program_judge.c: what a call returned against what it may, and what a program has to leave. */
#include "calls/program.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

void fail(struct run *r, const char *format, ...) {
    static _Atomic bool failing;
    char text[1500];
    va_list list;
    if (atomic_exchange(&failing, true)) {
        for (;;) {
            pause();
        }
    }
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    snprintf(told->failure, sizeof told->failure, "%s: %s; the call was %s",
             r->op ? kinds[r->op->kind].name : "end", text, r->call ? r->call : "none");
    fflush(NULL);
    _exit(1);
}

void expect_number(struct run *r, const char *what, uint64_t expected, uint64_t found) {
    EXPECT(expected == found, "%s: expected %llu, found %llu", what, (unsigned long long)expected,
           (unsigned long long)found);
}

void answer(struct run *r, uint64_t number) {
    if (r->portable) {
        r->digest = mix(r->digest ^ number);
    }
}

void call_begin(struct run *r, const char *text) {
    r->call = text;
    r->began_ns = calls_now_ns();
}

static const char *names_of(uint64_t allowed) {
    static char text[600];
    size_t at = 0;
    text[0] = 0;
#define NAME_OF(name, value, words)                                                                \
    if (allowed & BIT(value)) {                                                                    \
        at += (size_t)snprintf(text + at, sizeof text - at, " VRAM_%s", #name);                    \
    }
    VRAM_STATUS_MAP(NAME_OF)
    return text;
}

vram_status call_end(struct run *r, uint64_t allowed, vram_status status) {
    uint64_t seconds = (calls_now_ns() - r->began_ns) / UINT64_C(1000000000);
    r->calls++;
    allowed |= r->loose ? RACED : 0;
    allowed |= faults_on && !r->strict ? FAULTED : 0;
    if (told->speak) {
        printf("    thread %u: %s: %s\n", r->thread, r->call, vram_status_name(status));
    }
    EXPECT(allowed & BIT(status), "%s (\"%s\"), expected%s", vram_status_name(status),
           vram_error_get()->text, names_of(allowed));
    EXPECT(seconds < settings.seconds, "the call took %llu s", (unsigned long long)seconds);
    answer(r, (uint64_t)(int64_t)status);
    return status;
}

/* --------------------------------------------------------------------- at the end */

/* A trim waits for nothing. Queues of the library's own complete late, too. */
static void pool_check(struct run *r, unsigned slot) {
    vram_pool_stats stats = {.size = sizeof stats};
    vram_status status = VRAM_OK;
    uint64_t last = calls_now_ns() + settings.seconds * UINT64_C(1000000000);
    for (unsigned turn = 0; turn < 2 || (stats.reserved_bytes && calls_now_ns() < last); turn++) {
        if (turn < 2) {
            DO(OK, vram_pool_trim(pool[slot], NULL, NULL));
        } else {
            usleep(turn < 100 ? 0 : 1000);
            vram_pool_trim(pool[slot], NULL, NULL);
        }
        for (unsigned q = 1; q < SLOTS_queue; q++) {
            vram_queue_wait(queue[q], VRAM_TIMEOUT_DEFAULT);
        }
        status = vram_pool_stats_get(pool[slot], &stats);
    }
    EXPECT(status == VRAM_OK && !stats.live_blocks && !stats.requested_bytes &&
               !stats.reserved_bytes && !stats.other_bytes && !stats.cached_bytes,
           "pool %u, of which nothing is used, has %llu live blocks, %llu bytes requested, %llu "
           "reserved, %llu other, %llu cached",
           slot, (unsigned long long)stats.live_blocks, (unsigned long long)stats.requested_bytes,
           (unsigned long long)stats.reserved_bytes, (unsigned long long)stats.other_bytes,
           (unsigned long long)stats.cached_bytes);
    DO(OK, vram_pool_destroy(pool[slot]));
}

static void context_check(struct run *r) {
    steps_end(r);
    for (unsigned i = 0; i < SLOTS_pool; i++) {
        if (is_live(OBJECT(POOL, i))) {
            pool_check(r, i);
        }
    }
    for (unsigned i = 1; i < SLOTS_queue; i++) {
        vram_queue_destroy(queue[i]);
    }
    for (unsigned i = 0; i < SLOTS_device; i++) {
        if (is_live(OBJECT(DEVICE, i))) {
            DO(OK | RACED, vram_device_close(device[i]));
        }
    }
    const char *text = world_driver_left(settings.backend, context);
    EXPECT(!text, "%s", text);
    DO(OK, vram_context_destroy(context));
}

void program_check_end(struct run *r) {
    r->op = NULL;
    r->loose = r->portable = false;
    faults_clear(r); /* a context that has ended leaves them to the next program, too */
    if (is_live(OBJECT(CONTEXT, 0))) {
        context_check(r);
    }
    for (int i = 0; i < 40000 && vram_host_bytes(); i++) {
        usleep(50); /* a thread of sharing may still be ending */
    }
    EXPECT(vram_host_bytes() == 0, "the library keeps %llu bytes",
           (unsigned long long)vram_host_bytes());
}
