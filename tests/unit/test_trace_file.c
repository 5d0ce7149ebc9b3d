/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_trace_file.c: what a trace survives: the end of its program at any moment, a full disk, a
 * slow one, a system that refuses anything, two programs that mean the same file, a fork; and rings
 * that go round.
 */
#include "base/delay.h"
#include "track/trace_file.h"
#include "unit/child.h"
#include "unit/fault_step.h"
#include "unit/trace_world.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

enum { MANY = 20000 }; /* events, some chunks full */

static struct vr_trace_writer *open_writer(uint64_t ring_bytes) {
    struct vr_trace_writer *writer = NULL;
    assert_ok(vr_trace_writer_open(trace_path, ring_bytes, NULL, &writer));
    return writer;
}

static void write_many(struct vr_trace_writer *writer, uint64_t count) {
    for (uint64_t i = 1; i <= count; i++) {
        write_one(writer, VR_EVENT_ALLOC, i, 1000 + i % 100000);
    }
}

static struct vr_trace_sums sums_of(struct vr_trace_writer *writer) {
    struct vr_trace_sums sums;
    vr_trace_writer_sums(writer, &sums);
    return sums;
}

TEST(an_empty_trace_is_one) {
    vr_trace_writer_close(open_writer(0));
    struct found found = read_trace();
    assert_int_equal(found.events, 0);
    assert_int_equal(found.end, RECORDING_ENDED);
    vr_trace_writer_close(NULL);
}

TEST(all_events_are_there) {
    struct vr_trace_writer *writer = open_writer(0);
    write_many(writer, MANY);
    struct vr_trace_sums sums = sums_of(writer);
    assert_int_equal(sums.events, MANY);
    assert_true(sums.chunks > 2);
    vr_trace_writer_close(writer);
    struct found found = read_trace();
    assert_int_equal(found.allocs, MANY);
    assert_int_equal(found.last_id, MANY);
    assert_int_equal(found.end, RECORDING_ENDED);
    struct stat about;
    assert_int_equal(stat(trace_path, &about), 0);
    print_message("%.1f bytes an allocation\n", (double)about.st_size / MANY);
    assert_true(about.st_size < 32 * MANY);
}

/* ------------------------------------------------------------------- killed */

static int write_and_die(void *argument) {
    struct vr_trace_writer *writer = NULL;
    if (vr_trace_writer_open(trace_path, *(uint64_t *)argument, NULL, &writer) != VRAM_OK) {
        return 1;
    }
    write_many(writer, MANY);
    kill(getpid(), SIGKILL);
    return 2;
}

/* A ring has its last events. */
TEST(a_kill_loses_nothing) {
    for (uint64_t ring = 0; ring <= 5 * VR_TRACE_CHUNK_BYTES; ring += 5 * VR_TRACE_CHUNK_BYTES) {
        assert_int_equal(in_child(write_and_die, &ring), 1000 + SIGKILL);
        struct found found = read_trace();
        assert_true(ring || found.allocs == MANY);
        assert_int_equal(found.last_id, MANY);
        assert_int_equal(found.end, RECORDING_CUT);
    }
}

/* At every moment of its life a file can be read: it is read while it is written, between two
   events. */
TEST(the_file_can_be_read_at_any_time) {
    struct vr_trace_writer *writer = open_writer(4 * VR_TRACE_CHUNK_BYTES);
    for (uint64_t i = 1; i <= 30000; i++) {
        write_one(writer, VR_EVENT_ALLOC, i, i);
        if (i % 997 == 0) {
            struct found found = read_trace();
            assert_int_equal(found.last_id, i);
            assert_int_equal(found.end, RECORDING_CUT);
        }
    }
    vr_trace_writer_close(writer);
}

/* -------------------------------------------------------------------- rings */

TEST(a_ring_keeps_the_last) {
    struct vr_trace_writer *writer = open_writer(1); /* the smallest there is */
    write_many(writer, 60000);
    struct vr_trace_sums sums = sums_of(writer);
    assert_int_equal(sums.bytes, vr_os_page_bytes() + 4 * VR_TRACE_CHUNK_BYTES);
    vr_trace_writer_close(writer);
    struct stat about;
    assert_int_equal(stat(trace_path, &about), 0);
    assert_int_equal(about.st_size, sums.bytes);
    struct found found = read_trace();
    assert_int_equal(found.end, RECORDING_ENDED);
    assert_int_equal(found.last_id, 60000);
    assert_int_equal(found.first_sequence, sums.chunks - 4);
    assert_true(found.events > 5000 && found.events < 20000);
    uint64_t before = 0; /* what was live when the first chunk began */
    for (uint64_t i = 1; i <= 60000 - found.events; i++) {
        before += 1000 + i % 100000;
    }
    assert_int_equal(found.first_bytes, before);
}

/* What a pool had when it ended is not among what was live before a later chunk. */
TEST(the_end_of_a_pool_ends_its_blocks) {
    uint64_t bytes = 0;
    struct vr_trace_writer *writer = open_writer(1);
    for (uint64_t i = 1; i <= 100; i++) {
        write_one(writer, VR_EVENT_ALLOC, i, 1000 + i);
        bytes += 1000 + i;
    }
    struct vr_event other = event_of(VR_EVENT_ALLOC, 101, 77);
    other.pool++;
    vr_trace_write_event(writer, &other);
    struct vr_event end = event_of(VR_EVENT_POOL_END, 0, bytes);
    end.elements = 100;
    vr_trace_write_event(writer, &end);
    for (uint64_t i = 0; i < 120000; i++) {
        vr_trace_write_mark(writer, "round");
    }
    vr_trace_writer_close(writer);
    struct found found = read_trace();
    assert_true(found.first_sequence > 0);
    assert_int_equal(found.first_bytes, 77);
}

/* ---------------------------------------------------------------- full disks */

/* Some 450 bytes each, so that a chunk has about 140. */
static void write_long(struct vr_trace_writer *writer, uint64_t count) {
    char tag[220];
    for (uint64_t i = 1; i <= count; i++) {
        struct vr_event event = event_of(VR_EVENT_ALLOC, i, i);
        snprintf(tag, sizeof tag, "%0200u", (unsigned)i);
        event.tag = event.name = tag;
        vr_trace_write_event(writer, &event);
    }
}

static void leave_an_old_one(void) {
    FILE *file = fopen(trace_path, "w");
    assert_non_null(file);
    assert_true(fputs("what an earlier run wrote", file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* A trace that could not be begun leaves nothing of an earlier one that could be taken for it, from
   the moment the file is its own. What cannot even be opened stays as it is. */
static void old_is_gone(bool opened) {
    size_t bytes;
    uint8_t *data = file_bytes(trace_path, &bytes);
    assert_int_equal(memcmp(data, "what an", bytes < 7 ? bytes : 7) == 0 && bytes > 0, !opened);
    free(data);
}

/* Every system call of a trace's life fails once, and for ever. */
TEST(any_refusal_stops_it) {
    static const int codes[] = {ENOSPC, EIO, EROFS};
    for (int for_ever = 0; for_ever < 6; for_ever++) {
        bool struck = true;
        uint64_t nth = 1;
        for (; struck; nth += nth < 10 ? 1 : FAULT_STEP) {
            struct vr_trace_writer *writer = NULL;
            leave_an_old_one();
            vr_os_fail_at(nth, for_ever % 2, codes[for_ever / 2]);
            vram_status status = vr_trace_writer_open(trace_path, 0, NULL, &writer);
            if (status != VRAM_OK) {
                vr_os_fail_at(0, false, 0);
                /* The fourth call takes memory, which has no such errors of a disk. */
                assert_true(status == (nth <= 3 ? VRAM_ERR_IO : VRAM_ERR_HOST_MEMORY) ||
                            (nth == 4 && status == VRAM_ERR_IO));
                assert_true(nth <= 4);
                old_is_gone(nth > 1);
                continue;
            }
            write_long(writer, 300);
            struct vr_trace_sums sums = sums_of(writer);
            vr_trace_writer_close(writer);
            struck = vr_os_failed() > 0;
            vr_os_fail_at(0, false, 0);
            struct found found = read_trace();
            assert_int_equal(found.allocs, sums.events);
            assert_int_equal(sums.events + sums.lost, 300);
        }
        assert_true(nth > 10); /* a chunk takes two */
    }
}

/* Every allocation of host memory fails once: texts and stacks may go, events do not. */
TEST(want_of_host_memory_loses_words_only) {
    bool struck = true;
    for (uint64_t nth = 1; struck; nth++) {
        struct vr_trace_writer *writer = NULL;
        vr_mem_fail_at(nth, false);
        vram_status status = vr_trace_writer_open(trace_path, 0, NULL, &writer);
        if (status != VRAM_OK) {
            assert_int_equal(status, VRAM_ERR_HOST_MEMORY);
            vr_mem_fail_at(0, false);
            continue;
        }
        vram_error_clear();
        for (uint64_t i = 1; i <= 300; i++) {
            char tag[32];
            struct vr_event event = event_of(VR_EVENT_ALLOC, i, i);
            snprintf(tag, sizeof tag, "tag/%u", (unsigned)i);
            event.tag = tag;
            vr_trace_write_event(writer, &event);
        }
        struck = vr_mem_failed() > 0;
        vr_mem_fail_at(0, false);
        assert_int_equal(vram_error_get()->status, VRAM_OK);
        vr_trace_writer_close(writer);
        struct found found = read_trace();
        assert_int_equal(found.allocs, 300);
    }
}

/* Truncated by another program at any time, between two events and during one: the writer survives,
   and notices at the next chunk. */
static int write_while_it_is_cut(void *argument) {
    uint64_t ring = *(uint64_t *)argument;
    struct vr_trace_writer *writer = NULL;
    if (vr_trace_writer_open(trace_path, ring, NULL, &writer) != VRAM_OK) {
        return 1;
    }
    write_many(writer, 100);
    pid_t other = fork();
    if (other == 0) {
        while (getppid() != 1 && truncate(trace_path, 0) == 0) {
        }
        child_leave(0);
    }
    uint64_t written = 100;
    for (int i = 0; i < 1000 && (i == 0 || !sums_of(writer).stopped); i++) {
        write_many(writer, MANY); /* until the other one has run */
        written += MANY;
    }
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
    struct vr_trace_sums sums = sums_of(writer);
    vr_trace_writer_close(writer);
    return sums.stopped == VRAM_ERR_IO && sums.events + sums.lost == written ? 0 : 2;
}

TEST(cut_off_while_it_is_written) {
    for (uint64_t ring = 0; ring < 2; ring++) {
        assert_int_equal(in_child(write_while_it_is_cut, &ring), 0);
        vr_trace_writer_close(open_writer(ring)); /* and the next trace works */
        assert_int_equal(read_trace().end, RECORDING_ENDED);
    }
}

/* The limit on the size of files is lowered during a trace, as in a program that sandboxes
   itself. */
static int write_under_a_falling_limit(void *argument) {
    struct rlimit before, limit = {.rlim_cur = 100, .rlim_max = RLIM_INFINITY};
    struct vr_trace_writer *writer = NULL;
    (void)argument;
    if (getrlimit(RLIMIT_FSIZE, &before) != 0 ||
        vr_trace_writer_open(trace_path, 0, NULL, &writer) != VRAM_OK) {
        return 1;
    }
    write_many(writer, 100);
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) {
        return 2;
    }
    write_many(writer, MANY);
    struct vr_trace_sums sums = sums_of(writer);
    vr_trace_writer_close(writer);
    setrlimit(RLIMIT_FSIZE, &before); /* a build that measures coverage writes files at exit */
    return sums.stopped == VRAM_ERR_IO && sums.events + sums.lost == MANY + 100 ? 0 : 3;
}

TEST(a_falling_limit_stops_it) {
    assert_int_equal(in_child(write_under_a_falling_limit, NULL), 0);
    struct found found = read_trace();
    assert_true(found.allocs > 1000);
}

/* ------------------------------------------------------------------- places */

TEST(places_that_are_none) {
    static const struct {
        const char *path;
        uint64_t ring;
        unsigned fails; /* this system call, as on a disk that is full */
        vram_status status;
    } rows[] = {
        {"/nonexistent/t.vrt", 0, 0, VRAM_ERR_IO},
        {"/tmp", 0, 0, VRAM_ERR_IO},
        {"/dev/null", 0, 0, VRAM_ERR_INVALID},
        {trace_path, 0, 0, VRAM_ERR_INVALID}, /* a pipe */
        {NULL, 1 << 20, 2, VRAM_ERR_IO},      /* all of a ring is there from the beginning */
    };
    char file[80];
    struct vr_trace_writer *writer = NULL;
    snprintf(file, sizeof file, "%s.ring", trace_path);
    (void)unlink(trace_path);
    assert_int_equal(mkfifo(trace_path, 0600), 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        vr_os_fail_at(rows[i].fails, false, ENOSPC);
        assert_int_equal(
            vr_trace_writer_open(rows[i].path ? rows[i].path : file, rows[i].ring, NULL, &writer),
            rows[i].status);
        assert_int_equal(rows[i].fails != 0, vram_error_get()->native_code == ENOSPC);
        vr_os_fail_at(0, false, 0);
        assert_null(writer);
    }
    assert_int_equal(unlink(trace_path) + unlink(file), 0);
}

/* A second writer does not truncate a file that another one is writing. */
TEST(two_traces_do_not_share_a_file) {
    struct vr_trace_writer *first = open_writer(0), *second = NULL;
    write_many(first, 10);
    assert_int_equal(vr_trace_writer_open(trace_path, 0, NULL, &second), VRAM_ERR_BUSY);
    assert_null(second);
    write_many(first, 10);
    vr_trace_writer_close(first);
    assert_int_equal(read_trace().allocs, 20);
    second = open_writer(0);
    vr_trace_writer_close(second);
    assert_int_equal(read_trace().events, 0);
}

/* Nor does it close its own file of the same number. */
static int write_as_a_child(void *argument) {
    struct vr_trace_writer *writer = argument;
    write_many(writer, 100);
    vr_trace_write_sample(writer, &(struct vr_trace_sample){.pool = 1});
    vr_trace_write_mark(writer, "nobody hears it");
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    vr_trace_writer_close(writer);
    return fcntl(fd, F_GETFD) >= 0 ? 0 : 1;
}

TEST(a_forked_child_writes_nothing) {
    struct vr_trace_writer *writer = open_writer(0);
    write_many(writer, 10);
    assert_int_equal(in_child(write_as_a_child, writer), 0);
    write_many(writer, 10);
    vr_trace_writer_close(writer);
    struct found found = read_trace();
    assert_int_equal(found.allocs, 20);
    assert_int_equal(found.end, RECORDING_ENDED);
}

/* ------------------------------------------------------------------ the lock */

/* How a child that outlives the writer was made, and how the writer ends. */
enum helping { FORKED, KILLED, UNSEEN /* by no handler of forks: it shares the lock */ };

struct helper {
    enum helping how;
    int lives[2]; /* until the test closes its end */
};

static pid_t helper_fork(enum helping how) {
#ifdef __linux__
    if (how == UNSEEN) {
        return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    }
#endif
    (void)how;
    return fork();
}

static int leave_a_helper(void *argument) {
    struct vr_trace_writer *writer = NULL;
    struct helper *helper = argument;
    int ready[2];
    char byte = 0;
    if (pipe(ready) != 0 || vr_trace_writer_open(trace_path, 0, NULL, &writer) != VRAM_OK) {
        return 1;
    }
    write_many(writer, 10);
    if (helper_fork(helper->how) == 0) {
        (void)close(helper->lives[1]);
        bool told = write(ready[1], &byte, 1) == 1;
        _exit(told && read(helper->lives[0], &byte, 1) == 0 ? 0 : 1);
    }
    if (read(ready[0], &byte, 1) != 1) { /* its fork is over */
        return 2;
    }
    if (helper->how == KILLED) {
        kill(getpid(), SIGKILL);
    }
    vr_trace_writer_close(writer);
    return 0;
}

TEST(a_child_that_stays_does_not_keep_it) {
    for (enum helping how = FORKED; how <= UNSEEN; how++) {
        struct helper helper = {how, {-1, -1}};
        assert_int_equal(pipe(helper.lives), 0);
        assert_int_equal(in_child(leave_a_helper, &helper), how == KILLED ? 1000 + SIGKILL : 0);
        struct vr_trace_writer *writer = open_writer(0);
        write_many(writer, 5);
        vr_trace_writer_close(writer);
        assert_int_equal(read_trace().events, 5);
        assert_int_equal(close(helper.lives[0]) + close(helper.lives[1]), 0);
    }
}

/* ------------------------------------------------- what takes long, and who waits */

/* A thread that has begun something slow; another one has written meanwhile. */
static struct {
    struct vr_trace_writer *writer;
    vr_atomic_bool begun, go_on;
} slow;

static void wait_for(const vr_atomic_bool *flag) {
    while (!vr_load(flag, VR_ACQUIRE)) {
        vr_os_yield();
    }
}

static void *write_slowly(void *argument) {
    struct vr_event event = event_of(VR_EVENT_ALLOC, 1, 1);
    event.stack = 7;
    vr_trace_write_event(slow.writer, &event);
    return argument;
}

/* Writes two events while another thread takes its time with the first. */
static struct vr_trace_sums write_beside(const struct vr_trace_stacks *stacks) {
    pthread_t thread;
    vr_store(&slow.begun, false, VR_RELEASE);
    vr_store(&slow.go_on, false, VR_RELEASE);
    assert_ok(vr_trace_writer_open(trace_path, 0, stacks, &slow.writer));
    assert_int_equal(pthread_create(&thread, NULL, write_slowly, NULL), 0);
    wait_for(&slow.begun);
    write_many(slow.writer, 2);
    struct vr_trace_sums sums = sums_of(slow.writer);
    vr_store(&slow.go_on, true, VR_RELEASE);
    assert_int_equal(pthread_join(thread, NULL), 0);
    return sums;
}

static uint32_t one_frame(uint32_t stack, uint64_t *frames, uint32_t room) {
    assert_true(room > 0);
    frames[0] = stack;
    return 1;
}

static void describe_slowly(uint64_t frame, char *text, size_t bytes) {
    snprintf(text, bytes, "%u", (unsigned)frame);
    vr_store(&slow.begun, true, VR_RELEASE);
    wait_for(&slow.go_on);
}

/* To find the name of a function may take as long as reading a file does: whoever writes meanwhile
   does not wait. */
TEST(names_are_found_without_the_lock) {
    struct vr_trace_sums sums = write_beside(&(struct vr_trace_stacks){one_frame, describe_slowly});
    assert_int_equal(sums.events, 2);
    vr_trace_writer_close(slow.writer);
    assert_int_equal(read_trace().allocs, 3);
}

#ifdef VR_DEBUG
static void delay_growth(const char *place) {
    if (strcmp(place, "trace growing") == 0 && !vr_exchange(&slow.begun, true, VR_ACQ_REL)) {
        wait_for(&slow.go_on);
    }
}

/* While one thread waits for the disk, another one does not: its events are lost, and counted,
   until the disk has answered. */
TEST(a_slow_disk_is_not_waited_for) {
    vr_trace_patience_set(0);
    vr_delay_hook_set(delay_growth);
    struct vr_trace_sums sums = write_beside(NULL);
    vr_delay_hook_set(NULL);
    assert_int_equal(sums.lost, 2);
    assert_int_equal(sums.stopped, VRAM_OK);
    write_many(slow.writer, 1);
    vr_trace_writer_close(slow.writer);
    struct found found = read_trace();
    assert_int_equal(found.allocs, 2);
    assert_int_equal(found.lost, 2);
    assert_int_equal(found.end, RECORDING_ENDED);
}
#endif

WHOLE_FILE(trace_world_begin, trace_world_end)
