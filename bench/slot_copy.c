/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slot_copy.c: what several threads copy together between ordinary memory and a ring of slots, with
 * memcpy and with streaming stores: the host's half of copies of pageable memory
 * (docs/design/09-staging.md).
 *
 *     slot_copy [MIB [RING_MIB [THREADS...]]]
 *
 * The ways are interleaved, round by round, so that whatever else the machine does meets both
 * alike. Printed are the best, the tenth-best in a hundred and the median, in GB/s.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#if defined(__SSE2__)
#include <emmintrin.h>
static void stream(char *to, const char *from, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 64) {
        __m128i a = _mm_loadu_si128((const __m128i *)(const void *)(from + i));
        __m128i b = _mm_loadu_si128((const __m128i *)(const void *)(from + i + 16));
        __m128i c = _mm_loadu_si128((const __m128i *)(const void *)(from + i + 32));
        __m128i d = _mm_loadu_si128((const __m128i *)(const void *)(from + i + 48));
        _mm_stream_si128((__m128i *)(void *)(to + i), a);
        _mm_stream_si128((__m128i *)(void *)(to + i + 16), b);
        _mm_stream_si128((__m128i *)(void *)(to + i + 32), c);
        _mm_stream_si128((__m128i *)(void *)(to + i + 48), d);
    }
    _mm_sfence();
}
#else
static void stream(char *to, const char *from, size_t bytes) {
    memcpy(to, from, bytes);
}
#endif

enum { PIECE = 512 << 10, ROUNDS = 40, THREADS_MAX = 64 };

/* One round. */
static struct {
    char *user, *ring;
    size_t bytes, ring_bytes;
    int down, streaming;
    atomic_size_t next;
} work;

static void *copy(void *argument) {
    for (size_t at; (at = atomic_fetch_add(&work.next, 1) * PIECE) < work.bytes;) {
        char *slot = work.ring + at % work.ring_bytes, *user = work.user + at;
        char *to = work.down ? user : slot, *from = work.down ? slot : user;
        if (work.streaming) {
            stream(to, from, PIECE);
        } else {
            memcpy(to, from, PIECE);
        }
    }
    return argument;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* GB/s; below 0: no thread could be started. */
static double round_of(int threads, int down, int streaming) {
    pthread_t others[THREADS_MAX];
    int started = 0;
    work.down = down;
    work.streaming = streaming;
    atomic_store(&work.next, 0);
    double begun = now();
    while (started < threads - 1 && pthread_create(&others[started], NULL, copy, NULL) == 0) {
        started++;
    }
    copy(NULL);
    for (int i = 0; i < started; i++) {
        pthread_join(others[i], NULL);
    }
    return started == threads - 1 ? (double)work.bytes / (now() - begun) * 1e-9 : -1;
}

static int falling(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

static void measure(int threads) {
    for (int down = 0; down < 2; down++) {
        double rates[2][ROUNDS];
        for (int i = 0; i < ROUNDS * 2; i++) {
            rates[i % 2][i / 2] = round_of(threads, down, i % 2);
        }
        for (int way = 0; way < 2; way++) {
            qsort(rates[way], ROUNDS, sizeof rates[way][0], falling);
            printf("%-14s %2d threads  %-9s best %6.2f  p10 %6.2f  median %6.2f GB/s\n",
                   down ? "out of slots" : "into slots", threads, way ? "streaming" : "memcpy",
                   rates[way][0], rates[way][ROUNDS / 10], rates[way][ROUNDS / 2]);
        }
    }
}

static char *pages(size_t bytes) {
    void *found = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (found == MAP_FAILED) {
        fprintf(stderr, "slot_copy: no memory; ask for less\n");
        exit(2);
    }
    memset(found, 1, bytes);
    return found;
}

int main(int argc, char **argv) {
    size_t mib = argc > 1 ? strtoul(argv[1], NULL, 10) : 256;
    size_t ring = argc > 2 ? strtoul(argv[2], NULL, 10) : 32;
    if (!mib || !ring || mib > 65536 || ring > mib) {
        fprintf(stderr, "usage: slot_copy [MIB [RING_MIB [THREADS...]]]\n");
        return 2;
    }
    work.bytes = mib << 20;
    work.ring_bytes = ring << 20;
    work.user = pages(work.bytes);
    work.ring = pages(work.ring_bytes);
    for (int i = 3; i < argc; i++) {
        int threads = atoi(argv[i]);
        if (threads >= 1 && threads <= THREADS_MAX) {
            measure(threads);
        }
    }
    if (argc <= 3) {
        measure(1);
        measure(2);
    }
    return 0;
}
