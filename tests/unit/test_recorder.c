/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_recorder.c: traces of real pools: what is in the file is what the program did, in its order,
 * with many threads and killed at any moment, whoever asked for the trace; and nothing that goes
 * wrong with it is felt by an allocation.
 */
#include "report/history.h"
#include "track/event.h"
#include "track/stack.h"
#include "track/trace_file.h"
#include "unit/child.h"
#include "unit/pressure_world.h"
#include "unit/trace_world.h"

#include "vram/trace.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum { THREADS = 16, PAIRS = 1500, LIVE_MAX = 4096 };

/* Pools are looked at behind every event if sample_ns is 1. */
static vram_trace *begin_trace(struct rig *rig, uint64_t ring_bytes, uint64_t sample_ns) {
    vram_trace_options options = {.size = sizeof options,
                                  .path = trace_path,
                                  .ring_bytes = ring_bytes,
                                  .sample_ns = sample_ns};
    vram_trace *trace = NULL;
    assert_ok(vram_trace_begin(rig->context, &options, &trace));
    return trace;
}

static vram_trace_info info_of(vram_trace *trace) {
    vram_trace_info info = {.size = sizeof info};
    assert_ok(vram_trace_info_get(trace, &info));
    return info;
}

/* ------------------------------------------------------------------ what is read */

/* Every address is allocated when it is free, and freed when it is live. */
static struct {
    uint64_t live_bytes, allocs, frees, refused, begun, ended, samples, marks;
    uint64_t last_hits, last_misses;
    char tag[64], pool[64], mark[64];
    uint32_t stacks; /* that were told */
    uint64_t live[LIVE_MAX];
    uint32_t live_count;
    uint64_t threads[LIVE_MAX], by_thread[LIVE_MAX]; /* numbers, and allocations of each */
    uint32_t thread_count;
} seen;

/* Its place in the array, or behind it. */
static uint32_t place_of(const uint64_t *array, uint32_t count, uint64_t value) {
    uint32_t i = 0;
    while (i < count && array[i] != value) {
        i++;
    }
    assert_true(i < LIVE_MAX);
    return i;
}

static void note_alloc(const struct recording *recording, const struct recorded *event) {
    const char *frame;
    uint32_t depth = 0, thread = place_of(seen.threads, seen.thread_count, event->thread);
    assert_true(event->id > 0 && event->addr > 0 && event->held >= event->bytes && event->thread);
    assert_int_equal(place_of(seen.live, seen.live_count, event->addr), seen.live_count);
    seen.live[seen.live_count++] = event->addr;
    seen.live_bytes += event->bytes;
    seen.allocs++;
    seen.thread_count += thread == seen.thread_count;
    seen.threads[thread] = event->thread;
    seen.by_thread[thread]++;
    if (event->tag[0]) {
        snprintf(seen.tag, sizeof seen.tag, "%s", event->tag);
    }
    while ((frame = recording_frame(recording, event->stack, depth)) != NULL) {
        assert_true(frame[0] != 0);
        depth++;
    }
    seen.stacks += depth > 0;
}

static void note_event(const struct recording *recording, const struct recorded *event) {
    uint32_t place;
    switch (event->kind) {
    case RECORDED_ALLOC:
        note_alloc(recording, event);
        break;
    case RECORDED_FREE:
        place = place_of(seen.live, seen.live_count, event->addr);
        assert_true(place < seen.live_count);
        seen.live[place] = seen.live[--seen.live_count];
        seen.live_bytes -= event->bytes;
        seen.frees++;
        break;
    case RECORDED_REFUSE:
        seen.refused++;
        break;
    case RECORDED_POOL_BEGIN:
        seen.begun++;
        snprintf(seen.pool, sizeof seen.pool, "%s", event->pool_name);
        break;
    case RECORDED_POOL_END:
        seen.ended++;
        break;
    case RECORDED_SAMPLE:
        seen.samples++;
        seen.last_hits = event->sample.hits;
        seen.last_misses = event->sample.misses;
        assert_true(event->sample.reserved > 0 && event->sample.reserved <= 1024 * MIB);
        assert_true(event->sample.free <= event->sample.reserved);
        assert_true(event->sample.limit <= 1024 * MIB);
        break;
    case RECORDED_MARK:
        seen.marks++;
        snprintf(seen.mark, sizeof seen.mark, "%s", event->name);
        break;
    default:
        fail();
    }
}

static struct found read_all(const char *path) {
    memset(&seen, 0, sizeof seen);
    return read_each(path, note_event);
}

/* --------------------------------------------------------------------- events */

/* However rarely pools are looked at, the end of a trace or of a pool has how they ended. */
TEST(the_end_takes_a_last_look, "sim:memory=1G") {
    for (uint64_t pool_ends = 0; pool_ends < 2; pool_ends++) {
        vram_addr addr;
        vram_trace *trace = begin_trace(rig, pool_ends, 3600 * SECOND);
        vram_pool *pool = pool_of(rig, NULL);
        for (int i = 0; i < 10; i++) {
            assert_ok(vram_alloc(pool, 1000, rig->queue, &addr));
            assert_ok(vram_free(addr, rig->queue));
        }
        assert_ok(pool_ends ? vram_pool_destroy(pool) : VRAM_OK);
        assert_ok(vram_trace_end(trace));
        read_all(trace_path);
        assert_in_range(seen.samples, 1, 2 + pool_ends);
        assert_int_equal(seen.last_hits + seen.last_misses, 10);
        assert_int_equal(seen.ended, pool_ends);
    }
}

TEST(a_trace_has_what_happened) {
    vram_addr blocks[10], refused;
    assert_ok(vram_option_set("track_stacks", "1"));
    struct rig rig = rig_make("sim", "memory=1G");
    vram_trace *trace = begin_trace(&rig, 0, 1);
    vram_pool *pool =
        pool_of(&rig, &(vram_pool_options){.size = sizeof(vram_pool_options), .name = "weights"});
    for (int i = 0; i < 10; i++) {
        vram_alloc_options options = {.size = sizeof options, .tag = "model/layer"};
        assert_ok(vram_alloc_with(pool, 1000 + (uint64_t)i, rig.queue, &options, &blocks[i]));
    }
    assert_ok(vram_trace_mark(trace, "loaded"));
    assert_int_equal(vram_alloc(pool, UINT64_C(4) << 30, rig.queue, &refused),
                     VRAM_ERR_DEVICE_MEMORY);
    for (int i = 0; i < 7; i++) {
        assert_ok(vram_free(blocks[i], rig.queue));
    }
    vram_trace_info info = info_of(trace);
    assert_string_equal(info.path, trace_path);
    assert_true(info.events >= 20);
    assert_int_equal(info.lost_events, 0);
    assert_int_equal(info.stopped, VRAM_OK);
    vram_pool_stats stats = stats_of(pool);
    assert_ok(vram_trace_end(trace));
    assert_int_equal(vram_trace_end(trace), VRAM_ERR_STALE);
    assert_int_equal(read_all(trace_path).end, RECORDING_ENDED);
    assert_int_equal(seen.allocs, 10);
    assert_int_equal(seen.frees, 7);
    assert_int_equal(seen.live_bytes, 1007 + 1008 + 1009);
    assert_int_equal(seen.refused, 1);
    assert_int_equal(seen.begun, 1);
    assert_int_equal(seen.marks, 1);
    assert_string_equal(seen.mark, "loaded");
    assert_string_equal(seen.tag, "model/layer");
    assert_string_equal(seen.pool, "weights");
    assert_true(seen.samples > 0);
    assert_int_equal(seen.last_hits, stats.hits);
    assert_int_equal(seen.last_misses, stats.misses);
    assert_int_equal(seen.stacks, 10);
    for (int i = 7; i < 10; i++) {
        assert_ok(vram_free(blocks[i], rig.queue));
    }
    assert_ok(vram_option_set("track_stacks", NULL));
    rig_end_clean(&rig);
    vr_stacks_reset();
}

/* Blocks that nobody freed end with their pool, whichever way it ends: they are leaks, and live no
   more. */
TEST(blocks_end_with_their_pool, "sim:memory=1G") {
    enum { POOLS = 300, EACH = 3 }; /* more pools than a report tells apart */
    static struct report_input input;
    struct history history;
    vram_addr addr;
    vram_trace *writing = begin_trace(rig, 0, 1);
    for (int i = 0; i < POOLS; i++) {
        vram_pool *pool = pool_of(rig, NULL);
        for (int k = 0; k < EACH; k++) {
            assert_ok(vram_alloc(pool, MIB, rig->queue, &addr));
        }
        assert_ok(vram_free(addr, rig->queue));
        if (i < POOLS - 1) {
            assert_ok(vram_pool_destroy(pool));
        }
    }
    vram_device_close(rig->device);
    assert_ok(vram_trace_end(writing));
    assert_true(history_begin(&history, "t"));
    assert_true(report_input_open(&input, trace_path));
    assert_true(history_read(&history, &input, NULL));
    report_input_close(&input);
    assert_int_equal(history.peak_bytes, EACH * MIB);
    assert_int_equal(history.live_bytes, 0);
    assert_int_equal(history.live_blocks, 0);
    assert_int_equal(history.lost_blocks, POOLS * (EACH - 1));
    assert_int_equal(history.lost_bytes, POOLS * (EACH - 1) * MIB);
    history_free(&history);
}

/* A receiver that lets the pool end while an allocation from it is told. */
static struct {
    vram_pool *pool;
    pthread_t ender;
    _Atomic bool pool_ended;
    uint64_t allocated, freed;
} beside;

static void *end_the_pool(void *user) {
    (void)user;
    assert_ok(vram_pool_destroy(beside.pool));
    return NULL;
}

static void end_beside(void *user, const struct vr_event *event) {
    (void)user;
    if (event->kind == VR_EVENT_ALLOC) {
        beside.allocated = event->addr;
        assert_int_equal(pthread_create(&beside.ender, NULL, end_the_pool, NULL), 0);
        while (!beside.pool_ended) {
            sched_yield();
        }
    }
    beside.freed = event->kind == VR_EVENT_FREE ? event->addr : beside.freed;
    beside.pool_ended = beside.pool_ended || event->kind == VR_EVENT_POOL_END;
}

/* The end of the pool may be told before the allocation. */
TEST(an_allocation_beside_the_end_of_its_pool_ends, "sim:memory=1G") {
    vram_addr block;
    assert_ok(vr_events_to(end_beside, NULL));
    beside.pool = pool_of(rig, NULL);
    (void)vram_alloc(beside.pool, 1000, rig->queue, &block);
    assert_int_equal(pthread_join(beside.ender, NULL), 0);
    assert_ok(vr_events_to(NULL, NULL));
    assert_true(beside.allocated != 0);
    assert_int_equal(beside.freed, beside.allocated);
}

/* Of two contexts one is traced, once; its end ends the trace, and the next one can begin. */
TEST(a_context_ends_its_trace) {
    vram_addr addr;
    struct rig one = rig_make("sim", "memory=1G"), other = rig_make("sim", "memory=1G");
    vram_trace *trace = begin_trace(&one, 0, 1), *second = NULL;
    char never[80];
    vram_trace_options options = {.size = sizeof options, .path = never};
    vram_pool *mine = pool_of(&one, NULL), *others = pool_of(&other, NULL);
    snprintf(never, sizeof never, "%s.never", trace_path);
    assert_int_equal(vram_trace_begin(one.context, &options, &second), VRAM_ERR_BUSY);
    assert_int_equal(access(options.path, F_OK), -1);
    assert_ok(vram_alloc(others, 4096, other.queue, &addr));
    assert_ok(vram_free(addr, other.queue));
    assert_ok(vram_alloc(mine, 8192, one.queue, &addr));
    assert_ok(vram_free(addr, one.queue));
    rig_end_clean(&one);
    assert_int_equal(vram_trace_mark(trace, "late"), VRAM_ERR_STALE);
    assert_int_equal(read_all(trace_path).end, RECORDING_ENDED);
    assert_int_equal(seen.begun, 1);
    assert_int_equal(seen.allocs, 1);
    trace = begin_trace(&other, 0, 1);
    assert_ok(vram_trace_end(trace));
    rig_end_clean(&other);
}

/* ------------------------------------------------------------------- threads */

struct work {
    vram_pool *pool;
    vram_queue *queue;
};

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

/* All at once; and threads that end and leave their chunks to those that come. */
TEST(every_thread_is_heard) {
    static const uint32_t rows[][2] = {{THREADS, 1}, {5, 30}}; /* at once, and how often */
    for (int i = 0; i < 2; i++) {
        struct rig rig = rig_make("sim", "memory=1G");
        vram_trace *trace = begin_trace(&rig, 0, 0);
        struct work work = {pool_of(&rig, NULL), rig.queue};
        uint32_t threads = rows[i][0] * rows[i][1];
        for (uint32_t k = 0; k < rows[i][1]; k++) {
            run_threads(rows[i][0], allocate_and_free, &work, 0);
        }
        vram_trace_info info = info_of(trace);
        assert_ok(vram_trace_end(trace));
        assert_int_equal(read_all(trace_path).end, RECORDING_ENDED);
        assert_int_equal(seen.allocs, threads * PAIRS);
        assert_int_equal(seen.frees, threads * PAIRS);
        assert_int_equal(seen.thread_count, threads);
        for (uint32_t k = 0; k < threads; k++) {
            assert_int_equal(seen.by_thread[k], PAIRS);
        }
        struct stat about; /* chunks are full, but for one of each shard */
        assert_int_equal(stat(trace_path, &about), 0);
        assert_true((uint64_t)about.st_size < info.events * 14 + 65 * VR_TRACE_CHUNK_BYTES);
        rig_end_clean(&rig);
    }
}

/* A ring has all events from some moment on, of all threads. */
TEST(a_ring_of_many_threads_has_an_end_without_gaps, "sim:memory=1G") {
    vram_trace *trace = begin_trace(rig, 16 * VR_TRACE_CHUNK_BYTES, 0);
    struct work work = {pool_of(rig, NULL), rig->queue};
    for (int i = 0; i < 2; i++) {
        run_threads(THREADS, allocate_and_free, &work, 0);
    }
    run_threads(1, allocate_and_free, &work, 0); /* the last events are of one thread */
    assert_ok(vram_trace_end(trace));
    struct found found = read_trace();
    assert_true(found.first_sequence > 0);
    assert_true(found.allocs >= PAIRS);
    assert_true(found.frees >= found.allocs && found.frees - found.allocs <= THREADS);
    assert_int_equal(found.first_bytes == 0, found.frees == found.allocs);
}

/* A block on its way to the next thread; 0: none. */
struct mailbox {
    _Alignas(64) vr_atomic_u64 addr;
    struct mailbox *next;
    const struct work *work;
};

/* Allocates for the next thread and frees what the one before has allocated. */
static void *hand_over(void *argument) {
    struct mailbox *own = argument;
    const struct work *work = own->work;
    vram_addr held = 0;
    for (uint32_t given = 0, taken = 0; given < PAIRS || taken < PAIRS;) {
        if (!held && given < PAIRS && vram_alloc(work->pool, MIB, work->queue, &held) != VRAM_OK) {
            return argument;
        }
        uint64_t none = 0;
        if (held && vr_cas(&own->next->addr, &none, held, VR_ACQ_REL)) {
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
    vram_trace *trace = begin_trace(&rig, 0, 0);
    struct work work = {pool_of(&rig, NULL), rig.queue};
    static struct mailbox boxes[RING];
    for (int i = 0; i < RING; i++) {
        boxes[i].next = &boxes[(i + 1) % RING];
        boxes[i].work = &work;
    }
    run_threads(RING, hand_over, boxes, sizeof boxes[0]);
    assert_ok(vram_trace_end(trace));
    read_all(trace_path);
    assert_int_equal(seen.allocs, RING * PAIRS);
    assert_int_equal(seen.frees, RING * PAIRS); /* none of the reader's making */
    rig_end_clean(&rig);
}

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

static void run_until_killed(void) {
    struct rig rig = rig_make("sim", "memory=1G");
    begin_trace(&rig, 0, 0);
    of_child = (struct work){pool_of(&rig, NULL), rig.queue};
    run_threads(4, work_until_killed, progress, sizeof *progress);
}

static uint64_t done_by_all(void) {
    return vr_load(&progress[0].frees, VR_ACQUIRE) + vr_load(&progress[1].frees, VR_ACQUIRE) +
           vr_load(&progress[2].frees, VR_ACQUIRE) + vr_load(&progress[3].frees, VR_ACQUIRE);
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
        run_until_killed();
        child_leave(1);
    }
    while (done_by_all() < 40000 && waitpid(child, NULL, WNOHANG) == 0) {
        vr_os_sleep(1000000);
    }
    kill(child, SIGKILL);
    assert_int_equal(child_end(child), 1000 + SIGKILL);
    assert_int_equal(read_all(trace_path).end, RECORDING_CUT);
    uint64_t frees = done_by_all();
    for (uint32_t i = 0; i < 4; i++) {
        uint64_t done = vr_load(&progress[i].allocs, VR_RELAXED);
        uint32_t at =
            place_of(seen.threads, seen.thread_count, vr_load(&progress[i].thread, VR_RELAXED));
        assert_in_range(seen.by_thread[at], done, done + 1);
    }
    assert_true(frees >= 40000 && seen.frees >= frees && seen.frees <= frees + 4);
    assert_int_equal(munmap(progress, 4 * sizeof *progress), 0);
}

/* ------------------------------------------------------------------ full disk */

static int fill_the_disk(void *argument) {
    struct rlimit limit = {.rlim_cur = 4 * VR_TRACE_CHUNK_BYTES, .rlim_max = RLIM_INFINITY};
    struct rig rig = rig_make("sim", "memory=1G");
    vram_trace *trace = begin_trace(&rig, 0, 0);
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

/* No allocation fails. What could not be written is counted, and nearly all of it if the program
   is killed. */
TEST(the_file_says_how_many_events_are_lost) {
    int killed = 1;
    assert_int_equal(in_child(fill_the_disk, NULL), 0);
    struct found found = read_trace();
    assert_int_equal(found.end, RECORDING_STOPPED);
    assert_true(found.allocs > 3000);
    assert_true(found.allocs + found.frees + found.lost >= 20 * 2 * PAIRS);
    assert_int_equal(in_child(fill_the_disk, &killed), 1000 + SIGKILL);
    struct found cut = read_trace();
    assert_int_equal(cut.end, RECORDING_CUT);
    assert_true(cut.lost > 0 && cut.allocs + cut.frees + cut.lost + 64 > 20 * 2 * PAIRS);
}

/* ------------------------------------------------------------ paths and the option */

/* A program with VRAM_TRACE, whose last block is left behind. */
static int run_with_option(void *path) {
    setenv("VRAM_TRACE", path, 1);
    vr_option_reset();
    vram_error_clear();
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_of(&rig, NULL), *more = pool_of(&rig, NULL);
    vram_addr addr;
    bool good = vram_alloc(pool, 4096, rig.queue, &addr) == VRAM_OK &&
                vram_alloc(more, 4096, rig.queue, &addr) == VRAM_OK &&
                vram_error_get()->status == VRAM_OK;
    if (getenv("KILLED")) {
        kill(getpid(), SIGKILL);
    }
    vram_context_destroy(rig.context);
    exit(good ? 0 : 2);
}

TEST(the_environment_begins_a_trace) {
    for (int killed = 0; killed < 2; killed++) {
        unlink(trace_path);
        if (killed) {
            setenv("KILLED", "1", 1);
        }
        assert_int_equal(in_child(run_with_option, trace_path), killed ? 1000 + SIGKILL : 0);
        unsetenv("KILLED");
        assert_int_equal(read_all(trace_path).end, killed ? RECORDING_CUT : RECORDING_ENDED);
        assert_int_equal(seen.allocs, 2);
        assert_int_equal(seen.live_bytes, 8192);
    }
    static char nowhere[] = "/nonexistent/t.vrt"; /* which hurts nobody */
    assert_int_equal(in_child(run_with_option, nowhere), 0);
}

/* A child that means the file its parent writes gets one of its own. */
TEST(a_file_in_use_gets_another_name, "sim:memory=1G") {
    vram_trace *trace = begin_trace(rig, 0, 1);
    char pattern[96];
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        alarm(CHILD_SECONDS);
        child_leave(run_with_option(trace_path));
    }
    assert_int_equal(child_end(child), 0);
    snprintf(pattern, sizeof pattern, "%s.%ld", trace_path, (long)child);
    read_all(pattern);
    assert_int_equal(seen.allocs, 2);
    unlink(pattern);
    assert_ok(vram_trace_end(trace));
    read_all(trace_path);
    assert_int_equal(seen.allocs, 0);
}

TEST(the_process_is_part_of_the_name, "sim:memory=1G") {
    char expected[64];
    vram_trace_options options = {.size = sizeof options, .path = "/tmp/vram-%p-trace.vrt"};
    vram_trace *trace = NULL;
    assert_ok(vram_trace_begin(rig->context, &options, &trace));
    snprintf(expected, sizeof expected, "/tmp/vram-%ld-trace.vrt", (long)getpid());
    assert_string_equal(info_of(trace).path, expected);
    assert_ok(vram_trace_end(trace));
    assert_int_equal(unlink(expected), 0);
}

static int begin_file(void) {
    vr_trace_patience_set(60000); /* another thread's call to the disk may take long here */
    return trace_world_begin();
}

WHOLE_FILE(begin_file, trace_world_end)
