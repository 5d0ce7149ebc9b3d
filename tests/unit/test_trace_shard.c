/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_trace_shard.c: traces of many threads: nothing is lost by a kill, blocks that threads hand
 * to each other are freed before they are allocated again, threads that end leave their place to
 * others, and what a full disk keeps out is counted.
 */
#include "unit/child.h"
#include "unit/pressure_world.h"
#include "unit/trace_world.h"

#include "base/delay.h"
#include "track/trace_file.h"
#include "track/xxh64.h"
#include "vram/trace.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum { THREADS = 16, PAIRS = 1500, LIVE_MAX = 4096 };

static vram_trace *begin_trace(struct rig *rig, uint64_t ring_bytes) {
    vram_trace_options options = {
        .size = sizeof options, .path = trace_path, .ring_bytes = ring_bytes};
    vram_trace *trace = NULL;
    assert_ok(vram_trace_begin(rig->context, &options, &trace));
    return trace;
}

/* What the file says, event by event: every address is allocated when it is free, and freed when it
   is live. */
static struct {
    uint64_t live[LIVE_MAX];
    uint32_t live_count;
    uint64_t allocs, frees;
    uint64_t threads[LIVE_MAX], by_thread[LIVE_MAX]; /* numbers, and allocations of each */
    uint32_t thread_count;
} seen;

static uint32_t live_at(uint64_t addr) {
    uint32_t i = 0;
    while (i < seen.live_count && seen.live[i] != addr) {
        i++;
    }
    return i;
}

static void count_thread(uint64_t thread) {
    uint32_t i = 0;
    while (i < seen.thread_count && seen.threads[i] != thread) {
        i++;
    }
    assert_true(i < LIVE_MAX && thread != 0);
    seen.thread_count += i == seen.thread_count;
    seen.threads[i] = thread;
    seen.by_thread[i]++;
}

static void check_order(const struct recording *recording, const struct recorded *event) {
    (void)recording;
    if (event->kind == RECORDED_ALLOC) {
        assert_true(live_at(event->addr) == seen.live_count && seen.live_count < LIVE_MAX);
        seen.live[seen.live_count++] = event->addr;
        seen.allocs++;
        count_thread(event->thread);
    } else if (event->kind == RECORDED_FREE) {
        uint32_t at = live_at(event->addr);
        assert_true(at < seen.live_count);
        seen.live[at] = seen.live[--seen.live_count];
        seen.frees++;
    }
}

static struct found read_in_order(void) {
    size_t bytes;
    uint8_t *data = file_bytes(trace_path, &bytes);
    memset(&seen, 0, sizeof seen);
    struct found found = read_memory(data, bytes, check_order);
    free(data);
    assert_string_equal(found.problem, "");
    return found;
}

static void run_threads(uint32_t count, void *(*work)(void *), void *arguments, size_t bytes) {
    pthread_t threads[THREADS];
    assert_true(count <= THREADS);
    for (uint32_t i = 0; i < count; i++) {
        char *argument = (char *)arguments + i * bytes;
        assert_int_equal(pthread_create(&threads[i], NULL, work, argument), 0);
    }
    for (uint32_t i = 0; i < count; i++) {
        void *wrong = NULL;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
}

/* ------------------------------------------------------------------- threads */

struct work {
    vram_pool *pool;
    vram_queue *queue;
};

static void *allocate_and_free(void *argument) {
    const struct work *work = argument;
    for (uint64_t i = 0; i < PAIRS; i++) {
        vram_addr addr;
        if (vram_alloc(work->pool, 512 + i % 8 * 512, work->queue, &addr) != VRAM_OK ||
            vram_free(addr, work->queue) != VRAM_OK) {
            return argument;
        }
    }
    return NULL;
}

TEST(sixteen_threads_write_at_once, "sim:memory=1G") {
    vram_trace *trace = begin_trace(rig, 0);
    struct work work = {pool_of(rig, NULL), rig->queue};
    run_threads(THREADS, allocate_and_free, &work, 0);
    assert_ok(vram_trace_end(trace));
    assert_int_equal(read_in_order().end, RECORDING_ENDED);
    assert_int_equal(seen.allocs, THREADS * PAIRS);
    assert_int_equal(seen.frees, THREADS * PAIRS);
    assert_int_equal(seen.thread_count, THREADS);
    for (uint32_t i = 0; i < THREADS; i++) {
        assert_int_equal(seen.by_thread[i], PAIRS);
    }
}

/* A ring has all events from some moment on, of all threads. */
TEST(a_ring_of_many_threads_has_an_end_without_gaps, "sim:memory=1G") {
    vram_trace *trace = begin_trace(rig, 16 * VR_TRACE_CHUNK_BYTES);
    struct work work = {pool_of(rig, NULL), rig->queue};
    for (int i = 0; i < 2; i++) {
        run_threads(THREADS, allocate_and_free, &work, 0);
    }
    run_threads(1, allocate_and_free, &work, 0); /* the last events are of one thread */
    assert_ok(vram_trace_end(trace));
    size_t bytes;
    uint8_t *data = file_bytes(trace_path, &bytes);
    struct found found = read_memory(data, bytes, NULL);
    free(data);
    assert_string_equal(found.problem, "");
    assert_true(found.first_sequence > 0);
    assert_true(found.allocs >= PAIRS);
    assert_true(found.frees >= found.allocs && found.frees - found.allocs <= THREADS);
    assert_int_equal(found.first_bytes == 0, found.frees == found.allocs);
}

/* Threads that end leave their chunks to those that come. */
TEST(threads_that_end_leave_their_place, "sim:memory=1G") {
    enum { MANY_THREADS = 150 };
    vram_trace *trace = begin_trace(rig, 0);
    struct work work = {pool_of(rig, NULL), rig->queue};
    vram_trace_info info = {.size = sizeof info};
    for (int i = 0; i < MANY_THREADS / 5; i++) {
        run_threads(5, allocate_and_free, &work, 0);
    }
    assert_ok(vram_trace_info_get(trace, &info));
    assert_ok(vram_trace_end(trace));
    read_in_order();
    assert_int_equal(seen.allocs, MANY_THREADS * PAIRS);
    assert_int_equal(seen.thread_count, MANY_THREADS);
    /* Chunks are full, but for one of each shard. */
    struct stat about;
    assert_int_equal(stat(trace_path, &about), 0);
    assert_true((uint64_t)about.st_size < info.events * 14 + 65 * VR_TRACE_CHUNK_BYTES);
}

/* ------------------------------------------------------------------ handover */

/* A block on its way to the next thread; 0: none. */
struct mailbox {
    _Alignas(64) vr_atomic_u64 addr;
    struct mailbox *next;
    const struct work *work;
};

static bool put_block(struct mailbox *to, vram_addr addr) {
    uint64_t none = 0;
    return vr_cas(&to->addr, &none, addr, VR_ACQ_REL);
}

/* Allocates for the next thread and frees what the one before has allocated. */
static void *hand_over(void *argument) {
    struct mailbox *own = argument;
    const struct work *work = own->work;
    vram_addr held = 0;
    for (uint32_t given = 0, taken = 0; given < PAIRS || taken < PAIRS;) {
        if (!held && given < PAIRS && vram_alloc(work->pool, MIB, work->queue, &held) != VRAM_OK) {
            return argument;
        }
        if (held && put_block(own->next, held)) {
            held = 0;
            given++;
        }
        uint64_t got = vr_exchange(&own->addr, 0, VR_ACQ_REL);
        taken += got != 0;
        if (got && vram_free(got, work->queue) != VRAM_OK) {
            return argument;
        }
        if (!got) {
            vr_os_yield();
        }
    }
    return NULL;
}

TEST(blocks_are_freed_before_they_are_allocated_again) {
    enum { RING = 6 };
    struct rig rig = rig_make("sim", "memory=40M"); /* so that threads need each other's blocks */
    vram_trace *trace = begin_trace(&rig, 0);
    struct work work = {pool_of(&rig, NULL), rig.queue};
    static struct mailbox boxes[RING];
    for (int i = 0; i < RING; i++) {
        boxes[i].next = &boxes[(i + 1) % RING];
        boxes[i].work = &work;
    }
    run_threads(RING, hand_over, boxes, sizeof boxes[0]);
    assert_ok(vram_trace_end(trace));
    read_in_order();
    assert_int_equal(seen.allocs, RING * PAIRS);
    assert_int_equal(seen.frees, RING * PAIRS); /* none of the reader's making */
    rig_end_clean(&rig);
}

/* A file of two shards, each with one chunk, made by hand. */
static void put(uint8_t *to, uint64_t value, unsigned bytes) {
    for (unsigned i = 0; i < bytes; i++) {
        to[i] = (uint8_t)(value >> 8 * i);
    }
}

struct shard_text {
    const void *records;
    size_t bytes;
    uint32_t shard;
    uint64_t begin;
};

static struct found read_shards(const struct shard_text *shards, uint32_t count,
                                void (*each)(const struct recording *recording,
                                             const struct recorded *event)) {
    static uint8_t file[512 + 4 * 4096];
    memset(file, 0, sizeof file);
    memcpy(file, VR_TRACE_MAGIC, 8);
    put(file + 8, 2, 4);
    put(file + 12, 512, 4);
    put(file + 16, 4096, 4);
    put(file + 52, chunk_crc(file, 52), 4);
    put(file + 128, 1000000000, 8);
    for (uint32_t i = 0; i < count; i++) {
        uint8_t *chunk = file + 512 + i * 4096;
        memcpy(chunk, "VRTC", 4);
        put(chunk + 4, shards[i].shard, 4);
        put(chunk + 16, i, 8);
        put(chunk + 24, shards[i].begin, 8);
        memcpy(chunk + 64, shards[i].records, shards[i].bytes);
        uint64_t sum = vr_xxh64(chunk + 16, 48 + shards[i].bytes, shards[i].shard);
        put(chunk + 8, sum << 32 | VR_TRACE_CHUNK_MARK | shards[i].bytes, 8);
    }
    return read_memory(file, 512 + (size_t)count * 4096, each);
}

#define TEXT(text) (text), sizeof(text) - 1

static char order[16];

static void note_order(const struct recording *recording, const struct recorded *event) {
    (void)recording;
    size_t at = strlen(order);
    assert_true(at + 1 < sizeof order);
    order[at] = event->kind == RECORDED_ALLOC ? 'a' : event->kind == RECORDED_FREE ? 'f' : '.';
}

/* At equal times an allocation waits for the free of its address, and a free for the allocation,
   whichever shard comes first in the file. */
TEST(equal_times_are_ordered_by_address) {
    /* Shard 0 allocates address 64 at 1 and, at 5, again; shard 1 has freed it at 5. */
    const struct shard_text again[] = {{TEXT("\x10\x01\x00\x00\x80\x01\x01\x00\x00\x00\x00"
                                             "\x10\x04\x00\x00\x00\x01\x00\x00\x00\x00"),
                                        0, 0},
                                       {TEXT("\x11\x04\x00\x00\x80\x01\x01"), 1, 1}};
    memset(order, 0, sizeof order);
    assert_string_equal(read_shards(again, 2, note_order).problem, "");
    assert_string_equal(order, "afa");
    /* Shard 0 frees at 5 what shard 1 has allocated at 5. */
    const struct shard_text first[] = {
        {TEXT("\x11\x05\x00\x00\x80\x01\x01"), 0, 0},
        {TEXT("\x10\x04\x00\x00\x80\x01\x01\x00\x00\x00\x00"), 1, 1}};
    memset(order, 0, sizeof order);
    assert_string_equal(read_shards(first, 2, note_order).problem, "");
    assert_string_equal(order, "af");
    /* A free that is lost: the reader makes one. */
    const struct shard_text lost[] = {{TEXT("\x10\x01\x00\x00\x80\x01\x01\x00\x00\x00\x00"
                                            "\x10\x04\x00\x00\x00\x01\x00\x00\x00\x00"),
                                       0, 0}};
    memset(order, 0, sizeof order);
    assert_string_equal(read_shards(lost, 1, note_order).problem, "");
    assert_string_equal(order, "afa");
}

TEST(shards_that_cannot_be) {
    const struct shard_text mark = {TEXT("\x17\x09\x00"), 0, 0};
    struct shard_text both[] = {mark, mark};
    assert_string_equal(read_shards(both, 2, NULL).problem,
                        "the chunk begins before the one in front of it");
    both[1].begin = 5;
    assert_string_equal(read_shards(both, 2, NULL).problem,
                        "the chunk begins before the end of the one before it in its shard");
    both[1].begin = 9;
    struct found found = read_shards(both, 2, NULL);
    assert_string_equal(found.problem, "");
    assert_int_equal(found.events, 2);
    assert_int_equal(found.end, RECORDING_CUT); /* the header has no end */
    both[1].shard = 256;
    assert_string_equal(read_shards(both, 2, NULL).problem, "the chunk's shard is out of range");
    const struct shard_text unknown[] = {{TEXT("\x09\x00"), 0, 0}};
    assert_string_equal(read_shards(unknown, 1, NULL).problem, "this kind of record is unknown");
    const struct shard_text skipped[] = {{TEXT("\x42\x02\x00\x00\x17\x01\x00"), 0, 0}};
    assert_int_equal(read_shards(skipped, 1, NULL).events, 1);
}

/* ---------------------------------------------------------------------- kills */

/* What a thread of the killed program has done, in memory that outlives it. */
struct progress {
    _Alignas(64) vr_atomic_u64 thread; /* its number */
    vr_atomic_u64 allocs, frees;       /* that have returned */
};

static struct progress *progress;
static struct work of_child;

static void *work_until_killed(void *argument) {
    struct progress *own = argument;
    vr_store(&own->thread, vr_os_thread_number(), VR_RELAXED);
    for (uint64_t i = 0;; i++) {
        vram_addr addr;
        if (vram_alloc(of_child.pool, 512 + i % 8 * 512, of_child.queue, &addr) != VRAM_OK) {
            return argument;
        }
        vr_store(&own->allocs, i + 1, VR_RELEASE);
        if (vram_free(addr, of_child.queue) != VRAM_OK) {
            return argument;
        }
        vr_store(&own->frees, i + 1, VR_RELEASE);
    }
}

static int run_until_killed(void *argument) {
    (void)argument;
    struct rig rig = rig_make("sim", "memory=1G");
    begin_trace(&rig, 0);
    of_child = (struct work){pool_of(&rig, NULL), rig.queue};
    run_threads(4, work_until_killed, progress, sizeof *progress);
    return 1;
}

static uint64_t done_by_all(void) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < 4; i++) {
        sum += vr_load(&progress[i].frees, VR_ACQUIRE);
    }
    return sum;
}

/* Every call that has returned is in the file, and at most one more of each thread. */
TEST(a_kill_loses_no_event_of_any_thread) {
    progress =
        mmap(NULL, 4 * sizeof *progress, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANON, -1, 0);
    assert_true(progress != MAP_FAILED);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        alarm(CHILD_SECONDS);
        child_leave(run_until_killed(NULL));
    }
    while (done_by_all() < 40000 && waitpid(child, NULL, WNOHANG) == 0) {
        vr_os_sleep(1000000);
    }
    kill(child, SIGKILL);
    assert_int_equal(child_end(child), 1000 + SIGKILL);
    assert_int_equal(read_in_order().end, RECORDING_CUT);
    uint64_t allocs = 0, frees = 0;
    for (uint32_t i = 0; i < 4; i++) {
        uint64_t done = vr_load(&progress[i].allocs, VR_RELAXED), found = 0;
        for (uint32_t k = 0; k < seen.thread_count; k++) {
            found = seen.threads[k] == vr_load(&progress[i].thread, VR_RELAXED) ? seen.by_thread[k]
                                                                                : found;
        }
        if (found != done && found != done + 1) {
            fail_msg("thread %u of %u made %llu allocations, and the file has %llu", i,
                     seen.thread_count, (unsigned long long)done, (unsigned long long)found);
        }
        allocs += done;
        frees += vr_load(&progress[i].frees, VR_RELAXED);
    }
    assert_true(allocs >= 40000 && seen.frees >= frees && seen.frees <= frees + 4);
    assert_int_equal(munmap(progress, 4 * sizeof *progress), 0);
}

/* ----------------------------------------------------------------- full disks */

static int fill_the_disk(void *argument) {
    struct rlimit limit = {.rlim_cur = 4 * VR_TRACE_CHUNK_BYTES, .rlim_max = RLIM_INFINITY};
    struct rig rig = rig_make("sim", "memory=1G");
    vram_trace *trace = begin_trace(&rig, 0);
    struct work work = {pool_of(&rig, NULL), rig.queue};
    vram_trace_info info = {.size = sizeof info};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) {
        return 1;
    }
    for (int i = 0; i < 20; i++) {
        if (allocate_and_free(&work)) {
            return 2;
        }
    }
    if (argument) {
        kill(getpid(), SIGKILL);
    }
    vram_trace_info_get(trace, &info);
    vram_trace_end(trace);
    return info.stopped == VRAM_ERR_IO && info.lost_events > 0 ? 0 : 3;
}

/* What could not be written is counted, and nearly all of it if the program is killed. */
TEST(the_file_says_how_many_events_are_lost) {
    int killed = 1;
    assert_int_equal(in_child(fill_the_disk, NULL), 0);
    struct found found = read_path(trace_path);
    assert_string_equal(found.problem, "");
    assert_int_equal(found.end, RECORDING_STOPPED);
    assert_true(found.allocs > 3000);
    assert_true(found.allocs + found.frees + found.lost >= 20 * 2 * PAIRS);
    assert_int_equal(in_child(fill_the_disk, &killed), 1000 + SIGKILL);
    struct found cut = read_path(trace_path);
    assert_string_equal(cut.problem, "");
    assert_int_equal(cut.end, RECORDING_CUT);
    assert_true(cut.lost > 0 && cut.allocs + cut.frees + cut.lost + 64 > 20 * 2 * PAIRS);
}

/* ------------------------------------------------------------------ slow disks */

#ifdef VR_DEBUG
static struct {
    struct vr_trace_writer *writer;
    vr_atomic_bool growing, go_on; /* a thread waits for the disk; it may go on */
} slow;

static void delay_growth(const char *place) {
    if (strcmp(place, "trace growing") == 0 && !atomic_exchange(&slow.growing, true)) {
        while (!atomic_load(&slow.go_on)) {
            usleep(1000);
        }
    }
}

static void *write_to_slow_disk(void *argument) {
    write_one(slow.writer, VR_EVENT_ALLOC, 1, 1);
    return argument == &slow ? NULL : argument;
}

/* While one thread waits for the disk, another one does not: its events are lost, and counted,
   until the disk has answered. */
TEST(a_slow_disk_is_not_waited_for) {
    struct vr_trace_sums sums;
    pthread_t thread;
    memset(&slow, 0, sizeof slow);
    vr_trace_patience_set(0);
    assert_ok(vr_trace_writer_open(trace_path, 0, NULL, &slow.writer));
    vr_delay_hook_set(delay_growth);
    assert_int_equal(pthread_create(&thread, NULL, write_to_slow_disk, &slow), 0);
    while (!vr_load(&slow.growing, VR_ACQUIRE)) {
        vr_os_yield();
    }
    write_one(slow.writer, VR_EVENT_ALLOC, 2, 2);
    write_one(slow.writer, VR_EVENT_ALLOC, 3, 3);
    vr_trace_writer_sums(slow.writer, &sums);
    assert_int_equal(sums.lost, 2);
    assert_int_equal(sums.stopped, VRAM_OK);
    vr_store(&slow.go_on, true, VR_RELEASE);
    assert_int_equal(pthread_join(thread, NULL), 0);
    vr_delay_hook_set(NULL);
    write_one(slow.writer, VR_EVENT_ALLOC, 4, 4);
    vr_trace_writer_close(slow.writer);
    struct found found = read_path(trace_path);
    assert_string_equal(found.problem, "");
    assert_int_equal(found.allocs, 2);
    assert_int_equal(found.lost, 2);
    assert_int_equal(found.end, RECORDING_ENDED);
}
#endif

static int begin_file(void) {
    vr_trace_patience_set(60000); /* another thread's call to the disk may take long here */
    return trace_world_begin();
}
WHOLE_FILE(begin_file, trace_world_end)
