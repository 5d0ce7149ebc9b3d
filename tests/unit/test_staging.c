/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_staging.c: copies of pageable memory through slots of page-locked memory: contents, order,
 * bounds, what is given back, and every bad moment there is.
 *
 * The simulated driver reads and writes a slot when its clock says that the copy is done, long
 * after the call: a slot that is used again too early shows in the contents.
 */
#include "base/clock.h"
#include "unit/child.h"
#include "unit/gate_world.h"
#include "unit/mem_world.h"
#include "vram/vram.h"
#include "xfer/async_record.h"
#include "xfer/staging.h"

#include <errno.h>
#include <pthread.h>
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

/* What the device's staging has counted. */
static struct vr_staging *staging_of(vram_device *handle) {
    struct vr_device_object *device = vr_handle_pin(VR_KIND_DEVICE, handle);
    struct vr_staging *staging;
    assert_ok(vr_staging_enter(device, &staging));
    vr_staging_leave(staging); /* the device keeps it */
    vr_leave(device);
    return staging;
}

static uint32_t slots_made(const struct vr_staging *staging) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < staging->slot_most; i++) {
        count += staging->slots[i].state != VR_SLOT_NONE;
        assert_int_not_equal(staging->slots[i].state, VR_SLOT_HELD);
    }
    return count;
}

/* There and back through other memory; `apart`: back when all of it is there. */
static void there_and_back(struct rig *rig, uint64_t bytes, unsigned number, bool apart) {
    vram_addr device;
    uint8_t *from = malloc(bytes), *to = calloc(1, bytes);
    assert_ok(vram_device_alloc(rig->device, bytes, VRAM_MEMORY_DEVICE, &device));
    seed(from, bytes, number);
    assert_ok(vr_staging_upload(rig->queue, device, from, bytes));
    memset(from, 0, bytes); /* it has been read */
    if (apart) {
        assert_ok(vram_queue_wait(rig->queue, 60 * SECOND));
    }
    assert_ok(vr_staging_download(rig->queue, to, device, bytes));
    assert_true(is_seeded(to, bytes, number)); /* it has been written */
    assert_ok(vram_device_free(rig->device, device));
    free(from);
    free(to);
}

static void round_trip(struct rig *rig, uint64_t bytes, unsigned number) {
    there_and_back(rig, bytes, number, false);
}

/* --------------------------------------------------------------------- contents */

/* No slot is the upload's any more when the download looks for one. On a busy machine it would wait
   for its 5 ms in vain and go the driver's way, as it should. */
static void every_size_arrives(void **state) {
    static const uint64_t sizes[] = {1,      63,     4096,   65535, 65536,   65537,
                                     524288, 524289, 700001, MIB,   3000017, 4 * MIB + 1};
    static const char *const threads[] = {"1", "4"}, *const slots[] = {"1", "3", "8"};
    (void)state;
    for (int t = 0; t < 2; t++) {
        for (int s = 0; s < 3; s++) {
            options(s == 0 ? "64K" : s == 1 ? "1M" : "4M", slots[s], threads[t]);
            struct rig rig = rig_make("sim", "memory=256M,lag=3,seed=5");
            for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
                if (s > 0 || sizes[i] < MIB) {
                    there_and_back(&rig, sizes[i], (unsigned)i + 1, true);
                }
            }
            struct vr_staging *staging = staging_of(rig.device);
            assert_int_equal(vr_load(&staging->counts.plain, VR_RELAXED), 0);
            assert_true(slots_made(staging) <= staging->slot_most);
            assert_true(vr_copy_count(&staging->workers) <= (t ? 3 : 0));
            rig_end_clean(&rig);
        }
    }
}

/* Work before and behind an upload sees what it must. */
static void in_the_order_of_the_queue(void **state) {
    enum { BYTES = 3 * 1024 * 1024 };
    (void)state;
    options("256K", "4", "3");
    struct rig rig = rig_make("sim", "memory=64M,lag=9,seed=3");
    vram_addr device, copy;
    uint8_t *host = malloc(BYTES), *back = malloc(BYTES);
    assert_ok(vram_device_alloc(rig.device, BYTES, VRAM_MEMORY_DEVICE, &device));
    assert_ok(vram_device_alloc(rig.device, BYTES, VRAM_MEMORY_DEVICE, &copy));
    seed(host, BYTES, 1);
    assert_ok(vram_queue_fill(rig.queue, device, 0xEE, 1, BYTES));
    assert_ok(vr_staging_upload(rig.queue, device, host, BYTES));
    assert_ok(vram_queue_copy(rig.queue, copy, device, BYTES));
    assert_ok(vram_queue_fill(rig.queue, device, 0xDD, 1, BYTES));
    assert_ok(vr_staging_download(rig.queue, back, copy, BYTES));
    assert_ok(vram_queue_fill(rig.queue, copy, 0xCC, 1, BYTES));
    assert_true(is_seeded(back, BYTES, 1));
    assert_ok(vr_staging_download(rig.queue, back, device, BYTES));
    assert_int_equal(back[0], 0xDD);
    assert_int_equal(back[BYTES - 1], 0xDD);
    free(host);
    free(back);
    rig_end_clean(&rig);
}

/* ----------------------------------------------------------------- what it keeps */

static void slots_are_bounded_and_given_back(void **state) {
    (void)state;
    options("256K", "4", "2");
    struct rig rig = rig_make("sim", "memory=64M");
    vram_memory_info memory = {.size = sizeof memory};
    uint64_t released;
    round_trip(&rig, 5 * MIB, 1);
    struct vr_staging *staging = staging_of(rig.device);
    assert_int_equal(slots_made(staging), 4);
    assert_ok(vram_memory_info_get(rig.device, &memory));
    assert_int_equal(memory.held_bytes, 4 * 256 * 1024);
    assert_int_equal(vr_staging_trim(staging), 4 * 256 * 1024);
    assert_int_equal(vr_staging_trim(staging), 0);
    assert_int_equal(slots_made(staging), 0);
    round_trip(&rig, MIB, 2);
    assert_true(slots_made(staging) > 0);
    assert_ok(vram_device_trim(rig.device, NULL, &released));
    assert_true(released >= 256 * 1024);
    assert_int_equal(slots_made(staging), 0);
    assert_ok(vram_memory_info_get(rig.device, &memory));
    assert_int_equal(memory.held_bytes, 0);
    round_trip(&rig, MIB, 3);
    assert_ok(vram_context_trim(rig.context, NULL, &released));
    assert_int_equal(slots_made(staging), 0);
    rig_end_clean(&rig);
}

/* A small copy takes one slot and wakes nobody. */
static void small_copies_take_the_short_way(void **state) {
    (void)state;
    options("4M", "8", "8");
    assert_ok(vram_option_set("staging_idle", "0ns")); /* nor has anybody to give slots back */
    struct rig rig = rig_make("sim", "memory=64M");
    for (int i = 0; i < 20; i++) {
        round_trip(&rig, 100000, 1);
    }
    assert_ok(vram_option_set("staging_idle", NULL));
    struct vr_staging *staging = staging_of(rig.device);
    assert_int_equal(vr_copy_count(&staging->workers), 0);
    assert_true(slots_made(staging) <= 2);
    assert_int_equal(vr_load(&staging->counts.chunks, VR_RELAXED), 40);
    rig_end_clean(&rig);
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

/* Slots that no copy has used for a while go back by themselves; the next copy makes them anew. */
static void idle_slots_go_back(void **state) {
    (void)state;
    options("256K", "4", "3");
    assert_ok(vram_option_set("staging_idle", "20ms"));
    struct rig rig = rig_make("sim", "memory=64M");
    for (int round = 0; round < 2; round++) {
        round_trip(&rig, 2 * MIB, (unsigned)round + 1);
        struct vr_staging *staging = staging_of(rig.device);
        assert_true(vr_copy_count(&staging->workers) > 0);
        await_no_slots(rig.device);
        round_trip(&rig, 100000,
                   9); /* too small for workers, and its slot goes back all the same */
        await_no_slots(rig.device);
    }
    rig_end_clean(&rig);
    assert_ok(vram_option_set("staging_idle", NULL));
}

/* Where no copy had work for a worker, and where none may copy, they go back all the same. */
static void idle_slots_go_back_without_workers(void **state) {
    static const char *const threads[] = {"1", "3"};
    (void)state;
    assert_ok(vram_option_set("staging_idle", "20ms"));
    for (int i = 0; i < 2; i++) {
        options("256K", "4", threads[i]);
        struct rig rig = rig_make("sim", "memory=64M");
        for (int round = 0; round < 2; round++) {
            round_trip(&rig, i ? 100000 : 2 * MIB, (unsigned)round + 1);
            struct vr_staging *staging = staging_of(rig.device);
            assert_true(vr_copy_count(&staging->workers) <= (uint32_t)i);
            await_no_slots(rig.device);
        }
        rig_end_clean(&rig);
    }
    assert_ok(vram_option_set("staging_idle", NULL));
}

/* A driver waits for all work when page-locked memory is given back, and a kernel may be one that
   does not end by itself: as long as a queue has work they stay. */
static void idle_slots_wait_for_the_device(void **state) {
    static struct gate gate;
    vram_pinned_info info = {.size = sizeof info};
    vram_queue *listening;
    (void)state;
    options("256K", "4", "3");
    assert_ok(vram_option_set("staging_idle", "20ms"));
    struct rig rig = rig_make("host", NULL);
    assert_ok(vram_queue_create(rig.device, NULL, &listening));
    gate_shut(rig.device, listening, &gate);
    there_and_back(&rig, 2 * MIB, 1, true);
    vr_os_sleep(100000000);
    assert_ok(vram_pinned_info_get(rig.device, &info));
    assert_true(info.slots > 0);
    gate_open(&gate);
    await_no_slots(rig.device);
    vram_context_destroy(rig.context);
    assert_ok(vram_option_set("staging_idle", NULL));
}

/* Without the option they stay. */
static void slots_stay_without_a_time(void **state) {
    (void)state;
    options("256K", "4", "3");
    assert_ok(vram_option_set("staging_idle", "0ns"));
    struct rig rig = rig_make("sim", "memory=64M");
    round_trip(&rig, 2 * MIB, 1);
    uint32_t made = slots_made(staging_of(rig.device));
    vr_os_sleep(30000000);
    assert_true(made > 0);
    assert_int_equal(slots_made(staging_of(rig.device)), made);
    rig_end_clean(&rig);
    assert_ok(vram_option_set("staging_idle", NULL));
}

/* A worker that has slept for the time leaves slots that copies without it have used since. */
static void slots_used_lately_stay(void **state) {
    (void)state;
    options("256K", "4", "3");
    assert_ok(vram_option_set("staging_idle", "60s"));
    struct rig rig = rig_make("sim", "memory=64M");
    there_and_back(&rig, 100000, 1, true);
    struct vr_staging *staging = staging_of(rig.device);
    uint32_t made = slots_made(staging);
    assert_true(made > 0);
    assert_false(staging->workers.idle(&staging->workers));
    assert_int_equal(slots_made(staging), made);
    rig_end_clean(&rig);
    assert_ok(vram_option_set("staging_idle", NULL));
}

/* A slot that was freed is no transfer's: none of them waits for it as for its own. */
static void a_free_slot_is_nobodys(void **state) {
    enum { FIRST = 1, ANOTHER = 2 };
    bool refused = false;
    (void)state;
    options("128K", "2", "1");
    struct rig rig = rig_make("sim", "memory=64M");
    struct vr_staging *staging = staging_of(rig.device);
    struct vr_staging_slot *slot = vr_slot_take(staging, ANOTHER, true, &refused);
    assert_non_null(slot);
    assert_true(vr_slot_any(staging, ANOTHER));
    assert_false(vr_slot_any(staging, FIRST));
    vr_slot_free(staging, slot);
    assert_false(vr_slot_any(staging, ANOTHER));
    assert_false(vr_slot_any(staging, FIRST));
    assert_true(vr_slot_any(staging, 0));
    rig_end_clean(&rig);
}

/* ------------------------------------------------------------------ nothing to lock */

static vr_atomic_u64 time_passed; /* ns that the clock of the library is ahead */

static uint64_t time_ahead(void *unused) {
    (void)unused;
    return vr_os_now() + vr_load(&time_passed, VR_RELAXED);
}

static void let_time_pass(void *unused) {
    (void)unused;
    vr_fetch_add(&time_passed, 3600 * SECOND, VR_RELAXED);
}

/* A driver that takes long for the whole copy has made it all the same. */
static void late_is_no_failure(void **state) {
    static const struct vr_clock_source source = {time_ahead, NULL, NULL};
    vram_addr device;
    (void)state;
    options("256K", "4", "2");
    struct rig rig = rig_make("sim", "memory=64M");
    uint8_t *host = malloc(MIB);
    seed(host, MIB, 3);
    assert_ok(vram_device_alloc(rig.device, MIB, VRAM_MEMORY_DEVICE, &device));
    fault(&rig, VRAM_SIM_PINNED_ALLOC, 1, true, VRAM_SIM_OUT_OF_MEMORY);
    hook_set(rig.device);
    hook.meanwhile = let_time_pass;
    vr_store(&time_passed, 0, VR_RELAXED);
    vr_clock_set(&source);
    vram_status status = vr_staging_upload(rig.queue, device, host, MIB);
    vr_clock_set(NULL);
    assert_ok(status);
    assert_true(vr_load(&time_passed, VR_RELAXED) > 0);
    memset(host, 0, MIB);
    assert_ok(vram_queue_download(rig.queue, host, device, MIB));
    assert_ok(vram_queue_wait(rig.queue, 60 * SECOND));
    assert_true(is_seeded(host, MIB, 3));
    free(host);
    rig_end_clean(&rig);
}

static void refused_memory_goes_the_drivers_way(void **state) {
    (void)state;
    options("256K", "4", "2");
    struct rig rig = rig_make("sim", "memory=64M");
    fault(&rig, VRAM_SIM_PINNED_ALLOC, 1, true, VRAM_SIM_OUT_OF_MEMORY);
    vram_error_clear();
    round_trip(&rig, 2 * MIB, 1);
    expect_no_record();
    struct vr_staging *staging = staging_of(rig.device);
    assert_int_equal(vr_load(&staging->counts.plain, VR_RELAXED), 2);
    assert_int_equal(vr_load(&staging->counts.plain_bytes, VR_RELAXED), 4 * MIB);
    assert_int_equal(vr_load(&staging->counts.refusals, VR_RELAXED), 2);
    fault(&rig, VRAM_SIM_PINNED_ALLOC, 2, true, VRAM_SIM_OUT_OF_MEMORY);
    round_trip(&rig, 2 * MIB, 2); /* with one slot */
    assert_int_equal(slots_made(staging), 1);
    assert_int_equal(vr_load(&staging->counts.plain, VR_RELAXED), 2);
    rig_end_clean(&rig);
}

static void no_slots_at_all(void **state) {
    (void)state;
    options("256K", "0", "2");
    struct rig rig = rig_make("sim", "memory=64M");
    struct vr_device_object *device = vr_handle_pin(VR_KIND_DEVICE, rig.device);
    assert_false(vr_staging_is_useful(device));
    assert_ok(vram_option_set("staging_slots", "3"));
    assert_true(vr_staging_is_useful(device));
    assert_ok(vram_option_set("staging_slots", "0"));
    vr_leave(device);
    round_trip(&rig, 2 * MIB, 1);
    assert_int_equal(slots_made(staging_of(rig.device)), 0);
    rig_end_clean(&rig);
}

/* ---------------------------------------------------------------------- bad moments */

static vram_status transfer_part(struct rig *rig, vram_pool *unused) {
    enum { BYTES = 300001 };
    uint8_t *host = malloc(BYTES), *back = calloc(1, BYTES);
    vram_addr device = 0;
    (void)unused;
    seed(host, BYTES, 9);
    vram_status status = vram_device_alloc(rig->device, BYTES, VRAM_MEMORY_DEVICE, &device);
    if (status == VRAM_OK) {
        status = vr_staging_upload(rig->queue, device, host, BYTES);
    }
    if (status == VRAM_OK) {
        status = vr_staging_download(rig->queue, back, device, BYTES);
        assert_true(status != VRAM_OK || is_seeded(back, BYTES, 9));
    }
    struct vram_error error;
    vr_error_save(&error);
    free(host); /* nobody copies from it or to it any more */
    free(back);
    (void)vram_queue_wait(rig->queue, SECOND);
    (void)vram_device_free(rig->device, device);
    vr_error_restore(&error);
    return status;
}

static void every_call_may_fail(void **state) {
    (void)state;
    options("64K", "3", "2");
    fail_every_call(transfer_part, "memory=64M");
}

/* Threads that the system refuses are not missed. */
static void every_system_call_may_fail(void **state) {
    (void)state;
    options("1M", "3", "4");
    for (uint64_t nth = 1, failed = 1; failed; nth++) {
        struct rig rig = rig_make("sim", "memory=64M");
        vr_os_fail_at(nth, true, EAGAIN);
        vram_error_clear();
        vram_status status = transfer_part(&rig, NULL);
        failed = vr_os_failed();
        vr_os_fail_at(0, false, 0);
        assert_true(status == VRAM_OK || failed);
        rig_end_clean(&rig);
        assert_true(nth < 200);
    }
}

/* The device is lost at its call 1, 2, 3 ...: the error comes once, and every slot is back. */
static void lost_in_mid_transfer(void **state) {
    (void)state;
    options("64K", "3", "2");
    for (uint64_t nth = 1, struck = 1; struck; nth++) {
        struct rig rig = rig_make("sim", "memory=64M");
        fault(&rig, VRAM_SIM_ANY, nth, false, VRAM_SIM_DEVICE_LOST);
        vram_error_clear();
        vram_status status = transfer_part(&rig, NULL);
        struck = sim_state(&rig).faults;
        if (status != VRAM_OK) {
            assert_int_equal(status, VRAM_ERR_DEVICE_LOST);
            assert_int_equal(vram_error_get()->status, VRAM_ERR_DEVICE_LOST);
        }
        struct vr_device_object *device = vr_handle_pin(VR_KIND_DEVICE, rig.device);
        struct vr_staging *staging = staging_of(rig.device);
        (void)slots_made(staging);      /* none is held */
        (void)vr_staging_trim(staging); /* the loss may be first seen here */
        (void)vr_staging_trim(staging);
        assert_int_equal(slots_made(staging), 0);
        vr_leave(device);
        vram_device_close(rig.device);
        vram_context_destroy(rig.context);
        assert_true(nth < 500);
    }
}

/* --------------------------------------------------------------------- bad company */

struct party {
    struct rig rig;
    vram_queue *queue;
    unsigned number;
    uint64_t bytes;
    int rounds;
    vram_status status;
};

static void *travel(void *argument) {
    struct party *party = argument;
    struct rig rig = party->rig;
    rig.queue = party->queue;
    for (int i = 0; i < party->rounds; i++) {
        round_trip(&rig, party->bytes + (unsigned)i, party->number + (unsigned)i);
    }
    return NULL;
}

/* Several threads share slots and workers; each has its own contents in the end. */
static void several_at_once(const char *backend, const char *sim) {
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    struct party parties[THREADS];
    options("256K", "3", "3");
    struct rig rig = rig_make(backend, sim);
    for (unsigned i = 0; i < THREADS; i++) {
        parties[i] =
            (struct party){.rig = rig, .number = 10 * i, .bytes = 900000 + 70000 * i, .rounds = 6};
        assert_ok(vram_queue_create(rig.device, NULL, &parties[i].queue));
        assert_int_equal(pthread_create(&threads[i], NULL, travel, &parties[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    (void)slots_made(staging_of(rig.device));
    vram_context_destroy(rig.context);
}

static void several_threads(void **state) {
    (void)state;
    several_at_once("sim", "memory=64M,lag=4,seed=2");
    several_at_once("host", NULL);
}

/* Transfers until something ends them. */
static void *travel_until_the_end(void *argument) {
    enum { BYTES = 900000 };
    struct party *party = argument;
    uint8_t *host = malloc(BYTES);
    vram_addr device = 0;
    party->status = vram_device_alloc(party->rig.device, BYTES, VRAM_MEMORY_DEVICE, &device);
    seed(host, BYTES, 1);
    while (party->status == VRAM_OK) {
        party->status = party->number % 2 ? vr_staging_download(party->queue, host, device, BYTES)
                                          : vr_staging_upload(party->queue, device, host, BYTES);
        party->rounds++;
    }
    free(host);
    return NULL;
}

/* A queue, or a device, that ends under transfers ends them with an answer. */
static void ended_by_another_thread(const char *backend, bool whole) {
    enum { THREADS = 3 };
    pthread_t threads[THREADS];
    struct party parties[THREADS];
    options("128K", "3", "3");
    struct rig rig = rig_make(backend, NULL);
    for (unsigned i = 0; i < THREADS; i++) {
        parties[i] = (struct party){.rig = rig, .number = i};
        assert_ok(vram_queue_create(rig.device, NULL, &parties[i].queue));
        assert_int_equal(pthread_create(&threads[i], NULL, travel_until_the_end, &parties[i]), 0);
    }
    vr_os_sleep(2000000);
    for (unsigned i = 0; i < THREADS && !whole; i++) {
        vram_queue_destroy(parties[i].queue);
    }
    if (whole) {
        vram_device_close(rig.device);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_true(parties[i].status == VRAM_ERR_STALE || parties[i].status == VRAM_ERR_SHUTDOWN ||
                    (whole && parties[i].status == VRAM_ERR_INVALID));
    }
    vram_context_destroy(rig.context);
}

static void ended_under_way(void **state) {
    (void)state;
    ended_by_another_thread("sim", false);
    ended_by_another_thread("host", false);
    ended_by_another_thread("sim", true);
    ended_by_another_thread("host", true);
}

/* Work that does not end keeps the slots it uses, and the transfer that needs them gives up in
   time. */
static void late_work_is_not_waited_for_for_ever(void **state) {
    (void)state;
    options("128K", "2", "1"); /* the hook is no thread's but this one's */
    assert_ok(vram_option_set("wait_timeout", "50ms"));
    struct rig rig = rig_make("sim", "memory=64M,lag=100");
    uint8_t *host = calloc(1, MIB);
    vram_addr device;
    assert_ok(vram_device_alloc(rig.device, MIB, VRAM_MEMORY_DEVICE, &device));
    hook_set(rig.device);
    hook.poll_answer = VRAM_ERR_NOT_READY;
    uint64_t begun = vr_os_now();
    assert_int_equal(vr_staging_upload(rig.queue, device, host, MIB), VRAM_ERR_TIMEOUT);
    assert_int_equal(vr_staging_download(rig.queue, host, device, MIB), VRAM_ERR_TIMEOUT);
    assert_true(vr_os_now() - begun < 20 * SECOND);
    struct vr_staging *staging = staging_of(rig.device);
    assert_int_equal(slots_made(staging), 2); /* busy */
    assert_int_equal(vr_staging_trim(staging), 0);
    hook.poll_answer = VRAM_OK;
    assert_ok(vram_queue_wait(rig.queue, 30 * SECOND));
    assert_int_equal(vr_staging_trim(staging), 2 * 128 * 1024);
    free(host);
    rig_end_clean(&rig);
}

/* Where the driver refuses to mark points, uploads wait until the queue is idle, a download fails,
   and the slots are used again when their queue is done. */
static void refused_marks(void **state) {
    (void)state;
    options("128K", "2", "1");
    struct rig rig = rig_make("sim", "memory=64M");
    uint8_t *host = malloc(MIB);
    vram_addr device;
    assert_ok(vram_device_alloc(rig.device, MIB, VRAM_MEMORY_DEVICE, &device));
    hook_set(rig.device);
    for (unsigned direction = 0; direction < 2; direction++) {
        hook.signal_answer = VRAM_ERR_HOST_MEMORY;
        vram_status status = direction ? vr_staging_download(rig.queue, host, device, MIB)
                                       : vr_staging_upload(rig.queue, device, host, MIB);
        assert_int_equal(status, direction ? VRAM_ERR_HOST_MEMORY : VRAM_OK);
        hook.signal_answer = VRAM_OK;
        seed(host, MIB, direction);
        assert_ok(vr_staging_upload(rig.queue, device, host, MIB));
        memset(host, 0, MIB);
        assert_ok(vr_staging_download(rig.queue, host, device, MIB));
        assert_true(is_seeded(host, MIB, direction));
    }
    free(host);
    rig_end_clean(&rig);
}

/* A driver that runs out of memory for one mark has some when earlier work is done. */
static void one_refused_mark(void **state) {
    (void)state;
    options("128K", "2", "1");
    struct rig rig = rig_make("sim", "memory=64M");
    uint8_t *host = malloc(MIB);
    vram_addr device;
    assert_ok(vram_device_alloc(rig.device, MIB, VRAM_MEMORY_DEVICE, &device));
    seed(host, MIB, 4);
    assert_ok(vr_staging_upload(rig.queue, device, host, MIB));
    assert_ok(vram_queue_wait(rig.queue, 60 * SECOND));
    memset(host, 0, MIB);
    hook_set(rig.device);
    hook.signals_left = 1;
    hook.refusals = 1;
    vram_error_clear();
    assert_ok(vr_staging_download(rig.queue, host, device, MIB));
    expect_no_record();
    assert_int_equal(hook.refusals, 0);
    assert_true(is_seeded(host, MIB, 4));
    free(host);
    rig_end_clean(&rig);
}

/* A transfer that waits for a slot of another one is not told how that one fares; one that waits
   for its own is. */
static void failures_of_others_are_theirs(void **state) {
    enum { FIRST = 1, SECOND_ONE = 2 };
    struct vr_staging_slot *slot;
    bool refused = false;
    (void)state;
    options("128K", "2", "1");
    struct rig rig = rig_make("sim", "memory=64M,lag=100");
    struct vr_staging *staging = staging_of(rig.device);
    hook_set(rig.device);
    slot = vr_slot_take(staging, FIRST, true, &refused);
    assert_non_null(slot);
    hook.poll_answer = VRAM_ERR_NOT_READY;
    assert_ok(vram_device_alloc(rig.device, MIB, VRAM_MEMORY_DEVICE, &(vram_addr){0}));
    assert_ok(vr_slot_busy(staging, slot, rig.queue));
    hook.poll_answer = VRAM_ERR_BACKEND;
    vram_error_clear();
    assert_ok(vr_slot_await(staging, 0, SECOND_ONE, SECOND / 1000, &slot));
    assert_null(slot);
    expect_no_record();
    assert_int_equal(vr_slot_await(staging, FIRST, FIRST, SECOND / 1000, &slot), VRAM_ERR_BACKEND);
    assert_null(slot);
    hook.poll_answer = VRAM_OK;
    assert_ok(vram_queue_wait(rig.queue, 30 * SECOND));
    rig_end_clean(&rig);
}

/* ------------------------------------------------------------- without its caller */

/* Begins a download; whether the workers have it. What they have not got is waited for. */
static bool begin_download(struct rig *rig, vram_queue *queue, void *to, vram_addr from,
                           uint64_t bytes, vram_async *async, vram_status *status) {
    struct vr_device_object *device = vr_handle_pin(VR_KIND_DEVICE, rig->device);
    struct vr_async *record;
    bool begun = false;
    *status = vr_async_begin(device, bytes, async, &record);
    if (*status == VRAM_OK) {
        *status = vr_staging_download_begin(queue, to, from, bytes, record, &begun);
        if (!begun) {
            if (*status == VRAM_OK) {
                *status = vr_staging_download(queue, to, from, bytes);
            }
            vr_async_finish(record, *status);
        }
    }
    vr_leave(device);
    return begun;
}

/* The call returns while the device is busy, and the host has its time; what comes behind sees the
   order. */
static void downloads_do_without_their_caller(void **state) {
    enum { BYTES = 900001 };
    struct gate gate;
    struct told told = {0};
    vram_status status;
    vram_async async;
    vram_addr device;
    (void)state;
    options("256K", "8", "3");
    struct rig rig = rig_make("host", NULL);
    uint8_t *host = malloc(BYTES), *back = calloc(1, BYTES);
    seed(host, BYTES, 5);
    assert_ok(vram_device_alloc(rig.device, BYTES, VRAM_MEMORY_DEVICE, &device));
    assert_ok(vr_staging_upload(rig.queue, device, host, BYTES));
    gate_shut(rig.device, rig.queue, &gate);
    assert_true(begin_download(&rig, rig.queue, back, device, BYTES, &async, &status));
    assert_ok(status);
    assert_ok(vram_queue_fill(rig.queue, device, 0, 1, BYTES)); /* behind the read */
    assert_int_equal(vram_async_poll(&async), VRAM_ERR_NOT_READY);
    assert_ok(vram_async_then(&async, tell, &told));
    assert_int_equal(vram_async_wait(&async, 2000000), VRAM_ERR_TIMEOUT);
    gate_open(&gate);
    assert_ok(vram_async_wait(&async, 20 * SECOND));
    assert_true(is_seeded(back, BYTES, 5));
    while (!times(&told)) {
        vr_os_yield();
    }
    assert_int_equal(told.status, VRAM_OK);
    vram_async_end(&async);
    /* More than there are slots for, and no workers: the caller waits. */
    uint8_t *large = malloc(3 * MIB);
    vram_addr more;
    assert_ok(vram_device_alloc(rig.device, 3 * MIB, VRAM_MEMORY_DEVICE, &more));
    assert_false(begin_download(&rig, rig.queue, large, more, 3 * MIB, &async, &status));
    assert_ok(status);
    assert_ok(vram_async_poll(&async));
    free(large);
    free(host);
    free(back);
    vram_context_destroy(rig.context);
}

/* A download that is handed over has as many chunks as its bytes need, also for one byte more than
   whole chunks; and all its slots or none. */
static void handed_over_as_a_whole(void **state) {
    enum { STEP = 64 << 10, STEPS = 16, ANOTHER = 77 };
    vram_addr device;
    bool refused = false;
    (void)state;
    options("256K", "8", "3");
    struct rig rig = rig_make("sim", "memory=64M,lag=2");
    uint8_t *host = malloc(STEPS * STEP + 1), *back = malloc(STEPS * STEP + 1);
    seed(host, STEPS * STEP + 1, 5);
    assert_ok(vram_device_alloc(rig.device, STEPS * STEP + 1, VRAM_MEMORY_DEVICE, &device));
    assert_ok(vram_queue_upload(rig.queue, device, host, STEPS * STEP + 1));
    struct vr_staging *staging = staging_of(rig.device);
    for (unsigned held = 0; held <= 7; held += 7) {
        struct vr_staging_slot *slots[7];
        for (unsigned i = 0; i < held; i++) {
            slots[i] = vr_slot_take(staging, ANOTHER, true, &refused);
            assert_non_null(slots[i]);
        }
        for (uint64_t bytes = STEP + 1; bytes <= STEPS * STEP + 1; bytes += STEP) {
            vram_async async = {{0}};
            vram_status status;
            memset(back, 0, bytes);
            (void)begin_download(&rig, rig.queue, back, device, bytes, &async, &status);
            assert_ok(status);
            assert_ok(vram_async_wait(&async, 20 * SECOND));
            assert_true(is_seeded(back, bytes, 5));
            vram_async_end(&async);
        }
        for (unsigned i = 0; i < held; i++) {
            vr_slot_free(staging, slots[i]);
        }
    }
    free(host);
    free(back);
    rig_end_clean(&rig);
}

/* Through the public call, whichever way it measures to be the better one. */
static void transfers_hand_downloads_over(void **state) {
    enum { BYTES = 700001, ROUNDS = 24 };
    (void)state;
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

/* A download that has a handle does not make its caller wait for the work in front of it. */
static void a_handle_needs_no_wait(void **state) {
    enum { BYTES = 700001 };
    vram_pinned_info info = {.size = sizeof info};
    vram_async async = {{0}};
    vram_addr device;
    (void)state;
    options("256K", "8", "3");
    assert_ok(vram_option_set("wait_timeout", "300ms"));
    struct rig rig = rig_make("sim", "memory=64M,lag=1000");
    uint8_t *back = calloc(1, BYTES);
    assert_ok(vram_device_alloc(rig.device, BYTES, VRAM_MEMORY_DEVICE, &device));
    hook_set(rig.device);
    hook.poll_answer = VRAM_ERR_NOT_READY;
    assert_ok(vram_queue_fill(rig.queue, device, 7, 1, BYTES));
    assert_ok(vram_transfer_download(rig.queue, back, device, BYTES, NULL, &async));
    assert_int_equal(vram_async_poll(&async), VRAM_ERR_NOT_READY);
    hook.poll_answer = VRAM_OK;
    assert_ok(vram_async_wait(&async, 20 * SECOND));
    assert_int_equal(back[0], 7);
    assert_int_equal(back[BYTES - 1], 7);
    assert_ok(vram_pinned_info_get(rig.device, &info));
    assert_int_equal(info.downloads, 1);
    vram_async_end(&async);
    free(back);
    rig_end_clean(&rig);
}

/* Plans that every poll of a queue fails, or ends that; returns how many did so far. */
static uint64_t refuse_polls(const struct rig *rig, bool refused) {
    vram_sim_state sim = {.size = sizeof sim};
    vram_sim_fault fault = {
        .size = sizeof fault, .call = VRAM_SIM_POLL, .nth = 1, .for_ever = true, .code = 9999};
    assert_ok(vram_sim_state_get(rig->context, &sim));
    assert_ok(vram_sim_fault_set(rig->context, refused ? &fault : NULL));
    return sim.faults;
}

/* A queue whose work was marked and has ended is idle without a query, unless the program can
   submit work that the library does not see. */
static void an_idle_queue_is_known(void **state) {
    vram_addr device;
    vram_point point;
    void *native;
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M,lag=2");
    struct vr_queue_object *queue = vr_handle_pin(VR_KIND_QUEUE, rig.queue);
    assert_ok(vram_device_alloc(rig.device, MIB, VRAM_MEMORY_DEVICE, &device));
    refuse_polls(&rig, true);
    assert_true(vr_queue_is_idle(queue));
    assert_ok(vram_queue_fill(rig.queue, device, 1, 1, MIB));
    assert_false(vr_queue_is_idle(queue));
    assert_int_equal(refuse_polls(&rig, false), 1);
    assert_ok(vram_queue_mark(rig.queue, &point));
    assert_ok(vram_point_wait(point, 20 * SECOND));
    refuse_polls(&rig, true);
    assert_true(vr_queue_is_idle(queue));
    assert_int_equal(refuse_polls(&rig, true), 1); /* no further one */
    assert_ok(vram_queue_native(rig.queue, &native));
    assert_false(vr_queue_is_idle(queue));
    assert_int_equal(refuse_polls(&rig, false), 2);
    assert_true(vr_queue_is_idle(queue));
    vr_leave(queue);
    rig_end_clean(&rig);
}

static void downloads_without_workers_wait(void **state) {
    vram_status status;
    vram_async async;
    vram_addr device;
    char back[100];
    (void)state;
    options("256K", "8", "1");
    struct rig rig = rig_make("sim", "memory=64M");
    assert_ok(vram_device_alloc(rig.device, 100, VRAM_MEMORY_DEVICE, &device));
    assert_false(begin_download(&rig, rig.queue, back, device, 100, &async, &status));
    assert_ok(status);
    assert_ok(vram_async_poll(&async));
    rig_end_clean(&rig);
}

/* Where the system refuses threads the caller makes the download, and its handle is settled. */
static void downloads_without_threads(void **state) {
    enum { BYTES = 500000 };
    vram_status status;
    vram_async async;
    vram_addr device;
    (void)state;
    options("256K", "8", "3");
    struct rig rig = rig_make("sim", "memory=64M,lag=2");
    uint8_t *host = malloc(BYTES), *back = calloc(1, BYTES);
    seed(host, BYTES, 6);
    assert_ok(vram_device_alloc(rig.device, BYTES, VRAM_MEMORY_DEVICE, &device));
    assert_ok(vram_queue_upload(rig.queue, device, host, BYTES));
    assert_ok(vram_queue_wait(rig.queue, 60 * SECOND));
    struct vr_staging *staging = staging_of(rig.device);
    staging->workers.refused = true; /* as if one had been asked for */
    assert_true(begin_download(&rig, rig.queue, back, device, BYTES, &async, &status));
    assert_ok(status);
    assert_int_equal(vr_copy_count(&staging->workers), 0);
    assert_ok(vram_async_poll(&async));
    assert_true(is_seeded(back, BYTES, 6));
    vram_async_end(&async);
    free(host);
    free(back);
    rig_end_clean(&rig);
}

/* A device that closes ends what is under way first: the queue's work, then the copies of it. */
static void closing_ends_downloads(void **state) {
    enum { BYTES = 500000, COUNT = 3 };
    (void)state;
    options("64K", "30", "3");
    struct rig rig = rig_make("host", NULL);
    uint8_t *host = malloc(BYTES), *back = calloc(COUNT, BYTES);
    struct told told[COUNT] = {{0}};
    vram_status status;
    vram_async async;
    vram_addr device;
    seed(host, BYTES, 7);
    assert_ok(vram_device_alloc(rig.device, BYTES, VRAM_MEMORY_DEVICE, &device));
    assert_ok(vr_staging_upload(rig.queue, device, host, BYTES));
    for (int i = 0; i < COUNT; i++) {
        (void)begin_download(&rig, rig.queue, back + i * BYTES, device, BYTES, &async, &status);
        assert_ok(status);
        assert_ok(vram_async_then(&async, tell, &told[i]));
        vram_async_end(&async);
    }
    vram_device_close(rig.device);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(times(&told[i]), 1);
        assert_true(told[i].status != VRAM_OK || is_seeded(back + i * BYTES, BYTES, 7));
    }
    free(host);
    free(back);
    vram_context_destroy(rig.context);
}

static vram_status download_part(struct rig *rig, vram_pool *unused) {
    enum { BYTES = 300001 };
    uint8_t *back = calloc(1, BYTES);
    vram_async async = {{0}};
    vram_addr device = 0;
    (void)unused;
    vram_status status = vram_device_alloc(rig->device, BYTES, VRAM_MEMORY_DEVICE, &device);
    if (status == VRAM_OK &&
        begin_download(rig, rig->queue, back, device, BYTES, &async, &status)) {
        vram_status ended;
        while ((ended = vram_async_wait(&async, 20 * SECOND)) != VRAM_OK) {
            vram_async_state now;
            if (vram_async_state_get(&async, &now) == VRAM_OK && now == VRAM_ASYNC_ERROR) {
                break; /* a poll of the handle may have failed before */
            }
        }
        status = status == VRAM_OK ? ended : status;
    }
    struct vram_error error;
    vr_error_save(&error);
    free(back); /* nobody writes into it any more */
    vram_async_end(&async);
    (void)vram_queue_wait(rig->queue, SECOND);
    (void)vram_device_free(rig->device, device);
    vr_error_restore(&error);
    return status;
}

/* The device is lost at its call 1, 2, 3 ...: the handle is over each time, with that or
   without. */
static void downloads_of_lost_devices_end(void **state) {
    (void)state;
    options("64K", "8", "2");
    for (uint64_t nth = 1, struck = 1; struck; nth++) {
        struct rig rig = rig_make("sim", "memory=64M");
        fault(&rig, VRAM_SIM_ANY, nth, false, VRAM_SIM_DEVICE_LOST);
        vram_error_clear();
        vram_status status = download_part(&rig, NULL);
        struck = sim_state(&rig).faults;
        assert_true(status == VRAM_OK || status == VRAM_ERR_DEVICE_LOST);
        vram_device_close(rig.device);
        vram_context_destroy(rig.context);
        assert_true(nth < 300);
    }
}

static void downloads_survive_one_failure(void **state) {
    (void)state;
    options("64K", "8", "2");
    for (int driver = 0; driver < 2; driver++) {
        uint64_t nth = 1;
        while (fail_one_call(download_part, "memory=64M", driver ? 9999 : 0, 0, false, nth)) {
            nth += FAULT_STEP;
            assert_true(nth < 300);
        }
        assert_true(nth > 1);
    }
}

static struct vr_staging *staging_looked_at;
static uint32_t slots_free; /* while the first chunk was submitted */

static void count_free_slots(void *unused) {
    (void)unused;
    for (uint32_t i = 0; i < staging_looked_at->slot_most; i++) {
        slots_free += staging_looked_at->slots[i].state == VR_SLOT_FREE;
    }
}

/* All slots are the download's before its first chunk is submitted, and until the last one is. */
static void no_slot_is_free_between_chunks(void **state) {
    enum { BYTES = 4 << 16 };
    vram_status status;
    vram_async async;
    vram_addr device;
    (void)state;
    options("64K", "4", "2");
    struct rig rig = rig_make("sim", "memory=64M,lag=2");
    uint8_t *back = malloc(BYTES);
    assert_ok(vram_device_alloc(rig.device, BYTES, VRAM_MEMORY_DEVICE, &device));
    assert_ok(vram_queue_fill(rig.queue, device, 7, 1, BYTES));
    staging_looked_at = staging_of(rig.device);
    slots_free = 0;
    hook_set(rig.device);
    hook.signal_meanwhile = count_free_slots;
    assert_true(begin_download(&rig, rig.queue, back, device, BYTES, &async, &status));
    assert_ok(status);
    assert_null(hook.signal_meanwhile); /* it was called */
    assert_int_equal(slots_free, 0);
    assert_ok(vram_async_wait(&async, 20 * SECOND));
    assert_int_equal(back[BYTES - 1], 7);
    vram_async_end(&async);
    free(back);
    rig_end_clean(&rig);
}

static void misuse_is_refused(void **state) {
    char host[100] = {0};
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    vram_addr device;
    assert_ok(vram_device_alloc(rig.device, 4096, VRAM_MEMORY_DEVICE, &device));
    assert_int_equal(vr_staging_upload(NULL, device, host, 5), VRAM_ERR_INVALID);
    assert_int_equal(vr_staging_upload(rig.queue, device, NULL, 5), VRAM_ERR_INVALID);
    assert_int_equal(vr_staging_upload(rig.queue, 12345, host, 5), VRAM_ERR_INVALID);
    assert_int_equal(vr_staging_upload(rig.queue, device + 4096 - 3, host, UINT64_MAX),
                     VRAM_ERR_INVALID);
    assert_int_equal(vr_staging_download(rig.queue, NULL, device, 5), VRAM_ERR_INVALID);
    assert_int_equal(vr_staging_download(rig.queue, host, 0, 5), VRAM_ERR_INVALID);
    assert_ok(vr_staging_upload(rig.queue, device, NULL, 0));
    assert_ok(vr_staging_download(rig.queue, NULL, device, 0));
    assert_ok(vram_device_free(rig.device, device));
    assert_int_equal(vr_staging_upload(rig.queue, device, host, 5), VRAM_ERR_INVALID);
    rig_end_clean(&rig);
}

static int use_in_child(void *argument) {
    struct rig *rig = argument;
    char host[10] = {0};
    return vr_staging_upload(rig->queue, 1, host, 10) == VRAM_ERR_FORKED ? 0 : 1;
}

static void a_forked_child_has_none(void **state) {
    (void)state;
    options("256K", "4", "4");
    struct rig rig = rig_make("sim", "memory=64M");
    round_trip(&rig, 4 * MIB, 1);
    assert_int_equal(in_child(use_in_child, &rig), 0);
    round_trip(&rig, 4 * MIB, 2);
    rig_end_clean(&rig);
}

int main(void) {
    noise_make();
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, nothing_left)
    const struct CMUnitTest tests[] = {
        TEST(every_size_arrives),
        TEST(in_the_order_of_the_queue),
        TEST(slots_are_bounded_and_given_back),
        TEST(small_copies_take_the_short_way),
        TEST(idle_slots_go_back),
        TEST(idle_slots_go_back_without_workers),
        TEST(idle_slots_wait_for_the_device),
        TEST(slots_stay_without_a_time),
        TEST(slots_used_lately_stay),
        TEST(a_free_slot_is_nobodys),
        TEST(late_is_no_failure),
        TEST(refused_memory_goes_the_drivers_way),
        TEST(no_slots_at_all),
        TEST(every_call_may_fail),
        TEST(every_system_call_may_fail),
        TEST(lost_in_mid_transfer),
        TEST(several_threads),
        TEST(ended_under_way),
        TEST(late_work_is_not_waited_for_for_ever),
        TEST(refused_marks),
        TEST(one_refused_mark),
        TEST(failures_of_others_are_theirs),
        TEST(downloads_do_without_their_caller),
        TEST(handed_over_as_a_whole),
        TEST(transfers_hand_downloads_over),
        TEST(a_handle_needs_no_wait),
        TEST(an_idle_queue_is_known),
        TEST(downloads_without_workers_wait),
        TEST(downloads_without_threads),
        TEST(closing_ends_downloads),
        TEST(downloads_of_lost_devices_end),
        TEST(downloads_survive_one_failure),
        TEST(no_slot_is_free_between_chunks),
        TEST(misuse_is_refused),
        TEST(a_forked_child_has_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
