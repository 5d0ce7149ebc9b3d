/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_staging.c: copies of pageable memory through slots of page-locked memory, of every size, and
 * what becomes of slots that nobody uses.
 *
 * The simulated driver reads and writes a slot when its clock says that the copy is done, long
 * after the call: a slot that is used again too early shows in the contents.
 */
#include "unit/mem_world.h"
#include "unit/test_time.h"
#include "vram/vram.h"

#include <errno.h>
#include <stdlib.h>

/* Contents are pieces of a noise, each from another place of it, so that chunks in the wrong place
   are seen. They are copied and compared as a whole: byte by byte a sanitizer takes long. */
enum { PIECE = 4093, NOISE = 1 << 16 };

static uint8_t noise[NOISE + PIECE];

static void noise_make(void) {
    for (uint32_t i = 0; i < NOISE + PIECE; i++) {
        noise[i] = (uint8_t)((i * 2654435761u >> 13) + i / PIECE);
    }
}

static const uint8_t *piece_of(uint64_t at, unsigned number) {
    return noise + (at / PIECE * 977 + number * 131) % NOISE;
}

static void seed(uint8_t *memory, uint64_t bytes, unsigned number) {
    for (uint64_t at = 0; at < bytes; at += PIECE) {
        memcpy(memory + at, piece_of(at, number), bytes - at < PIECE ? bytes - at : PIECE);
    }
}

static bool is_seeded(const uint8_t *memory, uint64_t bytes, unsigned number) {
    for (uint64_t at = 0; at < bytes; at += PIECE) {
        if (memcmp(memory + at, piece_of(at, number), bytes - at < PIECE ? bytes - at : PIECE)) {
            print_error("from byte %llu of %llu\n", (unsigned long long)at,
                        (unsigned long long)bytes);
            return false;
        }
    }
    return true;
}

static void options(const char *slot, const char *slots, const char *threads) {
    assert_ok(vram_option_set("staging_slot", slot));
    assert_ok(vram_option_set("staging_slots", slots));
    assert_ok(vram_option_set("staging_threads", threads));
}

static const vram_transfer_options in_the_call = {.size = sizeof in_the_call,
                                                  .strategy = VRAM_TRANSFER_SYNC};

/* There and back through other memory. The first copies of a device are staged. */
static void there_and_back(struct rig *rig, uint64_t bytes, unsigned number) {
    vram_addr device;
    vram_async async = {{0}};
    uint8_t *from = malloc(bytes), *to = calloc(1, bytes);
    assert_ok(vram_device_alloc(rig->device, bytes, VRAM_MEMORY_DEVICE, &device));
    seed(from, bytes, number);
    assert_ok(vram_transfer_upload(rig->queue, device, from, bytes, NULL, &async));
    assert_ok(vram_async_wait(&async, 60 * SECOND));
    memset(from, 0, bytes); /* it has been read */
    assert_ok(vram_transfer_download(rig->queue, to, device, bytes, NULL, &async));
    assert_ok(vram_queue_fill(rig->queue, device, 0, 1, bytes)); /* behind the read */
    assert_ok(vram_async_wait(&async, 60 * SECOND));
    assert_true(is_seeded(to, bytes, number)); /* it has been written */
    assert_ok(vram_queue_wait(rig->queue, 60 * SECOND));
    assert_ok(vram_device_free(rig->device, device));
    free(from);
    free(to);
}

/* --------------------------------------------------------------------- contents */

/* Chunks of every number and length, with fewer slots than chunks and with more, with workers and
   without. */
TEST(every_size_arrives) {
    static const uint64_t sizes[] = {262144, 262145, 524289, 700001, MIB, 3000017, 4 * MIB + 1};
    static const char *const slot[] = {"64K", "256K", "1M"}, *const slots[] = {"1", "3", "8"};
    for (unsigned i = 0; i < 18; i++) {
        options(slot[i % 3], slots[i / 3 % 3], i / 9 ? "4" : "1");
        struct rig rig = rig_make("sim", "memory=256M,lag=3,seed=5");
        vram_pinned_info info = {.size = sizeof info};
        for (unsigned s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            there_and_back(&rig, sizes[s], s + 1);
        }
        assert_ok(vram_pinned_info_get(rig.device, &info));
        assert_in_range(info.slots, 1, info.slots_most);
        assert_true(info.workers <= (i / 9 ? 3 : 0));
        rig_end_clean(&rig);
    }
}

/* ------------------------------------------------------- drivers that refuse, or take long */

static void an_hour_passes(void *unused) {
    (void)unused;
    atomic_fetch_add(&test_time_ns, 3600 * SECOND);
}

/* Marks and polls that a driver refuses, page-locked memory that it has not, a copy that takes it
   an hour. */
TEST(drivers_that_refuse) {
    vram_addr device;
    uint8_t *host = malloc(MIB);
    options("256K", "2", "1");
    struct rig rig = rig_make("sim", "memory=64M,lag=100");
    assert_ok(vram_device_alloc(rig.device, MIB, VRAM_MEMORY_DEVICE, &device));
    seed(host, MIB, 3);
    hook_set(rig.device);
    hook.poll_answer = VRAM_ERR_BACKEND; /* the third chunk waits for the first one's slot */
    assert_int_equal(vram_transfer_upload(rig.queue, device, host, MIB, NULL, NULL),
                     VRAM_ERR_BACKEND);
    hook.poll_answer = VRAM_OK;
    assert_ok(vram_transfer_upload(rig.queue, device, host, MIB, &in_the_call, NULL));
    memset(host, 0, MIB);
    hook.signals_left = hook.refusals = 1; /* once: there is memory when earlier work is done */
    assert_ok(vram_transfer_download(rig.queue, host, device, MIB, &in_the_call, NULL));
    assert_int_equal(hook.refusals, 0);
    assert_true(is_seeded(host, MIB, 3));
    rig_end_clean(&rig);
    rig = rig_make("sim", "memory=64M");
    assert_ok(vram_device_alloc(rig.device, MIB, VRAM_MEMORY_DEVICE, &device));
    fault(&rig, VRAM_SIM_PINNED_ALLOC, 1, true, VRAM_SIM_OUT_OF_MEMORY);
    hook_set(rig.device);
    hook.meanwhile = an_hour_passes;
    test_time_begin(vr_os_now(), 0);
    vram_status status = vram_transfer_upload(rig.queue, device, host, MIB, NULL, NULL);
    test_time_end();
    assert_ok(status); /* late, and made all the same */
    assert_null(hook.meanwhile);
    rig_end_clean(&rig);
    free(host);
}

/* The system refuses call 1, 2, 3 ...: memory, and the workers' threads. The download arrives all
   the same, or its handle says that it does not. */
TEST(every_system_call_may_fail) {
    enum { BYTES = 700001 };
    static uint8_t back[BYTES];
    options("256K", "8", "3");
    for (uint64_t nth = 1, failed = 1; failed; nth++) {
        vram_addr device;
        vram_async async = {{0}};
        struct rig rig = rig_make("sim", "memory=64M,lag=100");
        assert_ok(vram_device_alloc(rig.device, BYTES, VRAM_MEMORY_DEVICE, &device));
        assert_ok(vram_queue_fill(rig.queue, device, (uint32_t)nth, 1, BYTES));
        vr_os_fail_at(nth, false, EAGAIN);
        vram_status status = vram_transfer_download(rig.queue, back, device, BYTES, NULL, &async);
        status = status == VRAM_OK ? vram_async_wait(&async, 60 * SECOND) : status;
        failed = vr_os_failed();
        vr_os_fail_at(0, false, 0);
        assert_true(status == VRAM_OK ? back[BYTES - 1] == (uint8_t)nth : failed);
        vram_async_end(&async);
        rig_end_clean(&rig);
    }
}

/* ----------------------------------------------------------------- what it keeps */

/* One copy after the other goes through the same slots. */
TEST(slots_are_used_again, "sim:memory=64M") {
    vram_pinned_info info = {.size = sizeof info};
    vram_addr device;
    options("256K", "8", "1");
    uint8_t *host = calloc(1, MIB / 4);
    assert_ok(vram_device_alloc(rig->device, MIB, VRAM_MEMORY_DEVICE, &device));
    for (int i = 0; i < 6; i++) {
        assert_ok(vram_transfer_upload(rig->queue, device, host, MIB / 4, NULL, NULL));
        assert_ok(vram_queue_wait(rig->queue, 60 * SECOND));
    }
    assert_ok(vram_pinned_info_get(rig->device, &info));
    assert_int_equal(info.slots, 1);
    free(host);
}

/* Waits until a worker has given all slots back, which takes a time of its own. */
static void await_no_slots(vram_device *device) {
    vram_pinned_info info = {.size = sizeof info};
    uint64_t before = vr_os_now();
    do {
        vr_os_sleep(1000000);
        assert_ok(vram_pinned_info_get(device, &info)); /* to look at them is not to use them */
    } while (info.slots && vr_os_now() - before < 10 * SECOND);
    assert_int_equal(info.slots, 0);
}

/* Where no copy had work for a worker, and where none may copy, they go back all the same. */
TEST(idle_slots_go_back_without_workers) {
    static const char *const threads[] = {"1", "3"};
    assert_ok(vram_option_set("staging_idle", "20ms"));
    for (int i = 0; i < 2; i++) {
        options("256K", "4", threads[i]);
        struct rig rig = rig_make("sim", "memory=64M");
        for (int round = 0; round < 2; round++) {
            there_and_back(&rig, i ? 300000 : 2 * MIB, (unsigned)round + 1);
            await_no_slots(rig.device);
        }
        rig_end_clean(&rig);
    }
    assert_ok(vram_option_set("staging_idle", NULL));
}

/* ------------------------------------------------------------- without its caller */

/* Through the public call, whichever way it measures to be the better one. */
TEST(transfers_hand_downloads_over) {
    enum { BYTES = 700001, ROUNDS = 24 };
    options("256K", "8", "3");
    struct rig rig = rig_make("sim", "memory=64M,lag=2");
    uint8_t *host = malloc(BYTES), *back = malloc(BYTES);
    vram_addr device;
    assert_ok(vram_device_alloc(rig.device, BYTES, VRAM_MEMORY_DEVICE, &device));
    for (unsigned i = 0; i < ROUNDS; i++) {
        vram_async async = {{0}};
        uint64_t moved = 0;
        seed(host, BYTES, i);
        memset(back, 0, BYTES);
        assert_ok(vram_transfer_upload(rig.queue, device, host, BYTES, NULL, NULL));
        assert_ok(vram_transfer_download(rig.queue, back, device, BYTES, NULL, &async));
        assert_ok(vram_queue_fill(rig.queue, device, 0, 1, BYTES));
        assert_ok(vram_async_wait(&async, 20 * SECOND));
        assert_ok(vram_async_result_get(&async, &moved));
        assert_int_equal(moved, BYTES);
        assert_true(is_seeded(back, BYTES, i));
        vram_async_end(&async);
    }
    vram_pinned_info info = {.size = sizeof info};
    assert_ok(vram_pinned_info_get(rig.device, &info));
    assert_true(info.downloads > 0 && info.workers > 0);
    free(host);
    free(back);
    rig_end_clean(&rig);
}

static int begin_file(void) {
    noise_make();
    return 0;
}
WHOLE_FILE(begin_file, NULL)
EACH_TEST(start, nothing_left)
