/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_trace_file.c: what a trace survives: the end of its program at any moment, a full disk, a system
 * that refuses anything, two programs that mean the same file, a fork; and rings that go round.
 */
#include "unit/child.h"
#include "unit/trace_world.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>

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

static void an_empty_trace_is_one(void **state) {
    (void)state;
    vr_trace_writer_close(open_writer(0));
    struct found found = read_path(trace_path);
    assert_true(found.good);
    assert_int_equal(found.events, 0);
    assert_int_equal(found.end, RECORDING_ENDED);
    vr_trace_writer_close(NULL);
}

static void all_events_are_there(void **state) {
    (void)state;
    struct vr_trace_writer *writer = open_writer(0);
    write_many(writer, MANY);
    struct vr_trace_sums sums = sums_of(writer);
    assert_int_equal(sums.events, MANY);
    assert_true(sums.chunks > 2);
    vr_trace_writer_close(writer);
    struct found found = read_path(trace_path);
    assert_string_equal(found.problem, "");
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

static void a_kill_loses_nothing(void **state) {
    uint64_t none = 0;
    (void)state;
    assert_int_equal(in_child(write_and_die, &none), 1000 + SIGKILL);
    struct found found = read_path(trace_path);
    assert_string_equal(found.problem, "");
    assert_int_equal(found.allocs, MANY);
    assert_int_equal(found.end, RECORDING_CUT);
}

static void a_killed_ring_has_its_last_events(void **state) {
    uint64_t ring = 5 * VR_TRACE_CHUNK_BYTES;
    (void)state;
    assert_int_equal(in_child(write_and_die, &ring), 1000 + SIGKILL);
    struct found found = read_path(trace_path);
    assert_string_equal(found.problem, "");
    assert_int_equal(found.last_id, MANY);
    assert_int_equal(found.end, RECORDING_CUT);
}

/* At every moment of its life a file can be read: it is read while it is written, between two events. */
static void the_file_can_be_read_at_any_time(void **state) {
    (void)state;
    struct vr_trace_writer *writer = open_writer(4 * VR_TRACE_CHUNK_BYTES);
    for (uint64_t i = 1; i <= 30000; i++) {
        write_one(writer, VR_EVENT_ALLOC, i, i);
        if (i % 997 == 0) {
            struct found found = read_path(trace_path);
            assert_string_equal(found.problem, "");
            assert_int_equal(found.last_id, i);
            assert_int_equal(found.end, RECORDING_CUT);
        }
    }
    vr_trace_writer_close(writer);
}

/* -------------------------------------------------------------------- rings */

static void a_ring_keeps_the_last(void **state) {
    (void)state;
    struct vr_trace_writer *writer = open_writer(1); /* the smallest there is */
    write_many(writer, 60000);
    struct vr_trace_sums sums = sums_of(writer);
    assert_int_equal(sums.bytes, vr_os_page_bytes() + 4 * VR_TRACE_CHUNK_BYTES);
    vr_trace_writer_close(writer);
    struct stat about;
    assert_int_equal(stat(trace_path, &about), 0);
    assert_int_equal(about.st_size, sums.bytes);
    struct found found = read_path(trace_path);
    assert_string_equal(found.problem, "");
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
static void the_end_of_a_pool_ends_its_blocks(void **state) {
    uint64_t bytes = 0;
    (void)state;
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
    for (uint64_t i = 0; i < 60000; i++) {
        vr_trace_write_mark(writer, "round", vr_clock_now() + i * 1000000);
    }
    vr_trace_writer_close(writer);
    struct found found = read_path(trace_path);
    assert_string_equal(found.problem, "");
    assert_true(found.first_sequence > 0);
    assert_int_equal(found.first_bytes, 77);
}

/* ---------------------------------------------------------------- full disks */

/* The system's own refusal: the limit on the size of files. */
static int write_to_a_limit(void *argument) {
    struct rlimit limit = {.rlim_cur = 3 * VR_TRACE_CHUNK_BYTES, .rlim_max = RLIM_INFINITY};
    struct vr_trace_writer *writer = NULL;
    (void)argument;
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0 ||
        vr_trace_writer_open(trace_path, 0, NULL, &writer) != VRAM_OK) {
        return 1;
    }
    write_many(writer, MANY);
    struct vr_trace_sums sums;
    vr_trace_writer_sums(writer, &sums);
    vr_trace_writer_close(writer);
    return sums.stopped == VRAM_ERR_IO && sums.lost > 0 && sums.events + sums.lost == MANY ? 0 : 2;
}

static void a_full_disk_stops_it(void **state) {
    (void)state;
    assert_int_equal(in_child(write_to_a_limit, NULL), 0);
    struct found found = read_path(trace_path);
    assert_string_equal(found.problem, "");
    assert_int_equal(found.end, RECORDING_STOPPED);
    assert_true(found.allocs > 2000);
    assert_int_equal(found.allocs + found.lost, MANY);
}

/* Every system call of a trace's life fails once, and for ever. */
static void any_refusal_stops_it(void **state) {
    (void)state;
    for (int for_ever = 0; for_ever < 2; for_ever++) {
        bool struck = true;
        for (uint64_t nth = 1; struck; nth++) {
            struct vr_trace_writer *writer = NULL;
            vr_os_fail_at(nth, for_ever, ENOSPC);
            vram_status status = vr_trace_writer_open(trace_path, 0, NULL, &writer);
            if (status != VRAM_OK) {
                vr_os_fail_at(0, false, 0);
                assert_int_equal(status, nth == 3 ? VRAM_ERR_HOST_MEMORY : VRAM_ERR_IO);
                continue;
            }
            write_many(writer, 5000);
            struct vr_trace_sums sums = sums_of(writer);
            vr_trace_writer_close(writer);
            struck = vr_os_failed() > 0;
            vr_os_fail_at(0, false, 0);
            struct found found = read_path(trace_path);
            assert_string_equal(found.problem, "");
            assert_int_equal(found.allocs, sums.events);
            assert_int_equal(sums.events + sums.lost, 5000);
        }
    }
}

/* Every allocation of host memory fails once: texts and stacks may go, events do not. */
static void want_of_host_memory_loses_words_only(void **state) {
    (void)state;
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
        struct found found = read_path(trace_path);
        assert_string_equal(found.problem, "");
        assert_int_equal(found.allocs, 300);
    }
}

static void a_ring_finds_out_at_once(void **state) {
    (void)state;
    struct vr_trace_writer *writer = NULL;
    vr_os_fail_at(2, false, ENOSPC);
    assert_int_equal(vr_trace_writer_open(trace_path, 1 << 20, NULL, &writer), VRAM_ERR_IO);
    assert_null(writer);
    vr_os_fail_at(0, false, 0);
    assert_int_equal(vram_error_get()->native_code, ENOSPC);
}

/* ------------------------------------------------------------------- places */

static void places_that_are_none(void **state) {
    (void)state;
    struct vr_trace_writer *writer = NULL;
    assert_int_equal(vr_trace_writer_open("/nonexistent/t.vrt", 0, NULL, &writer), VRAM_ERR_IO);
    assert_int_equal(vr_trace_writer_open("/tmp", 0, NULL, &writer), VRAM_ERR_IO);
    assert_int_equal(vr_trace_writer_open("/dev/null", 0, NULL, &writer), VRAM_ERR_INVALID);
    (void)unlink(trace_path);
    assert_int_equal(mkfifo(trace_path, 0600), 0);
    assert_int_equal(vr_trace_writer_open(trace_path, 0, NULL, &writer), VRAM_ERR_INVALID);
    assert_int_equal(unlink(trace_path), 0);
    assert_null(writer);
}

/* Who comes second must not empty a file that is mapped: that would end whoever came first. */
static void two_traces_do_not_share_a_file(void **state) {
    (void)state;
    struct vr_trace_writer *first = open_writer(0), *second = NULL;
    write_many(first, 10);
    assert_int_equal(vr_trace_writer_open(trace_path, 0, NULL, &second), VRAM_ERR_BUSY);
    assert_null(second);
    write_many(first, 10);
    vr_trace_writer_close(first);
    assert_int_equal(read_path(trace_path).events, 20);
    second = open_writer(0);
    vr_trace_writer_close(second);
    assert_int_equal(read_path(trace_path).events, 0);
}

static int write_as_a_child(void *argument) {
    struct vr_trace_writer *writer = argument;
    write_many(writer, 100);
    vr_trace_writer_close(writer);
    return 0;
}

static void a_forked_child_writes_nothing(void **state) {
    (void)state;
    struct vr_trace_writer *writer = open_writer(0);
    write_many(writer, 10);
    assert_int_equal(in_child(write_as_a_child, writer), 0);
    write_many(writer, 10);
    vr_trace_writer_close(writer);
    struct found found = read_path(trace_path);
    assert_int_equal(found.events, 20);
    assert_int_equal(found.end, RECORDING_ENDED);
}

/* ------------------------------------------------------------------ threads */

static void *write_from_thread(void *argument) {
    for (uint64_t i = 1; i <= 3000; i++) {
        write_one(argument, VR_EVENT_ALLOC, i, i);
    }
    return NULL;
}

static void threads_write_into_one_order(void **state) {
    (void)state;
    struct vr_trace_writer *writer = open_writer(0);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, write_from_thread, writer), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    vr_trace_writer_close(writer);
    struct found found = read_path(trace_path);
    assert_string_equal(found.problem, "");
    assert_int_equal(found.allocs, 4 * 3000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_trace_is_one),
        cmocka_unit_test(all_events_are_there),
        cmocka_unit_test(a_kill_loses_nothing),
        cmocka_unit_test(a_killed_ring_has_its_last_events),
        cmocka_unit_test(the_file_can_be_read_at_any_time),
        cmocka_unit_test(a_ring_keeps_the_last),
        cmocka_unit_test(the_end_of_a_pool_ends_its_blocks),
        cmocka_unit_test(a_full_disk_stops_it),
        cmocka_unit_test(any_refusal_stops_it),
        cmocka_unit_test(want_of_host_memory_loses_words_only),
        cmocka_unit_test(a_ring_finds_out_at_once),
        cmocka_unit_test(places_that_are_none),
        cmocka_unit_test(two_traces_do_not_share_a_file),
        cmocka_unit_test(a_forked_child_writes_nothing),
        cmocka_unit_test(threads_write_into_one_order),
    };
    return cmocka_run_group_tests(tests, trace_world_begin, trace_world_end);
}
