/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cases_thread.c: many threads on one device. Any call may be made from any thread at any time,
 * also while another thread ends the object it works on: then it finishes or fails, and nothing
 * worse.
 *
 * Threads call the library directly; what they took together is compared when they are done.
 */
#include "case.h"

#include <stdatomic.h>
#include <string.h>

enum { CREW = 4, BLOCK = 20000 };

struct worker {
    struct check_device *device;
    vram_queue *queue; /* shared by all, or NULL: each makes its own */
    uint32_t number;
    uint32_t rounds;
    uint8_t *memory; /* 2 * BLOCK bytes of its own */
};

static bool crew(struct check *check, struct check_device *device, vram_queue *queue,
                 uint32_t rounds, struct worker workers[CREW]) {
    device->unledgered = true;
    for (uint32_t i = 0; i < CREW; i++) {
        workers[i] = (struct worker){device, queue, i, check_rounds(check, rounds), NULL};
        CHECK_TRY(check_host_seeded(check, 2 * BLOCK, i, &workers[i].memory));
    }
    return true;
}

static bool holds_nothing(struct check *check, struct check_device *device) {
    vram_memory_info info = {.size = sizeof info};
    CHECK_OK(check, vram_memory_info_get(device->device, &info));
    CHECK_EQUAL(check, info.held_bytes, 0);
    CHECK_EQUAL(check, info.held_count, 0);
    CHECK_THAT(check, info.held_peak_bytes > 0);
    return true;
}

/* ------------------------------------------------------------------- storms */

static bool alloc_and_free(struct check *check, void *argument) {
    struct worker *worker = argument;
    vram_device *device = worker->device->device;
    vram_addr addrs[8] = {0};

    for (uint32_t i = 0; i < worker->rounds; i++) {
        vram_native_info native = {.size = sizeof native};
        vram_addr *slot = &addrs[(i * 5 + worker->number) % 8];
        if (*slot != 0) {
            CHECK_OK(check, vram_native(*slot, &native));
            CHECK_EQUAL(check, native.base, *slot);
            CHECK_OK(check, vram_device_free(device, *slot));
            CHECK_STATUS(check, vram_device_free(device, 1), VRAM_ERR_INVALID);
        }
        *slot = 0;
        CHECK_OK(check, vram_device_alloc(device, 1 + i * 100, VRAM_MEMORY_DEVICE, slot));
    }
    for (uint32_t i = 0; i < 8; i++) {
        CHECK_OK(check, vram_device_free(device, addrs[i]));
    }
    return true;
}

/* Whatever the threads' order was, taken and given must add up to nothing. */
static bool alloc_storm(struct check *check) {
    struct check_device *device;
    struct worker workers[CREW];

    CHECK_OPEN(check, &device);
    CHECK_TRY(crew(check, device, NULL, 200, workers));
    CHECK_TRY(check_threads(check, CREW, alloc_and_free, workers, sizeof workers[0]));
    return holds_nothing(check, device);
}

static bool copy_about(struct check *check, void *argument) {
    struct worker *worker = argument;
    vram_device *device = worker->device->device;
    vram_queue *queue = worker->queue;
    uint8_t *from = worker->memory, *to = worker->memory + BLOCK;
    vram_addr a, b;

    if (queue == NULL) {
        CHECK_OK(check, vram_queue_create(device, NULL, &queue));
    }
    for (uint32_t i = 0; i < worker->rounds; i++) {
        vram_point point;
        check_seed(from, BLOCK, worker->number * 1000 + i);
        CHECK_OK(check, vram_device_alloc(device, BLOCK, VRAM_MEMORY_DEVICE, &a));
        CHECK_OK(check, vram_device_alloc(device, BLOCK, VRAM_MEMORY_DEVICE, &b));
        CHECK_OK(check, vram_queue_upload(queue, a, from, BLOCK));
        CHECK_OK(check, vram_queue_copy(queue, b, a, BLOCK));
        CHECK_OK(check, vram_queue_fill(queue, a, 0, 1, BLOCK));
        CHECK_OK(check, vram_queue_download(queue, to, b, BLOCK));
        CHECK_OK(check, vram_queue_mark(queue, &point));
        CHECK_OK(check, vram_point_wait(point, CHECK_DEADLINE_NS));
        CHECK_SAME(check, to, from, BLOCK);
        CHECK_OK(check, vram_device_free(device, a));
        CHECK_OK(check, vram_device_free(device, b));
    }
    if (worker->queue == NULL) {
        vram_queue_destroy(queue);
    }
    return true;
}

/* Allocation, transfer and release of all threads interleave on one device. */
static bool copy_storm(struct check *check) {
    struct check_device *device;
    struct worker workers[CREW];

    CHECK_OPEN(check, &device);
    CHECK_TRY(crew(check, device, NULL, 60, workers));
    CHECK_TRY(check_threads(check, CREW, copy_about, workers, sizeof workers[0]));
    return holds_nothing(check, device);
}

/* Four threads submit to one queue: each one's own order is kept, whoever comes between. */
static bool shared_queue(struct check *check) {
    struct check_device *device;
    struct worker workers[CREW];
    vram_queue *queue;

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_TRY(crew(check, device, queue, 60, workers));
    CHECK_TRY(check_threads(check, CREW, copy_about, workers, sizeof workers[0]));
    return holds_nothing(check, device);
}

/* -------------------------------------------------------------------- races */

struct race {
    struct check_device *device;
    vram_addr addr;
    vram_physical *physical;
    vram_status result;
};

/* Anything but winning and losing is a fault's doing, and told here, where its record is. */
static bool won_or_lost(struct check *check, vram_status result, vram_status otherwise) {
    return result == otherwise || check_ok(check, result, CHECK_AT("race"));
}

static bool free_it(struct check *check, void *argument) {
    struct race *race = argument;
    race->result = vram_device_free(race->device->device, race->addr);
    return won_or_lost(check, race->result, VRAM_ERR_INVALID);
}

/* Of several that do the same at once, one wins. */
static bool one_winner(struct check *check, const struct race *racers) {
    uint32_t winners = 0;
    for (uint32_t i = 0; i < CREW; i++) {
        winners += racers[i].result == VRAM_OK;
    }
    CHECK_EQUAL(check, winners, 1);
    return true;
}

/* Two winners would free someone else's memory a moment later. */
static bool free_race(struct check *check) {
    struct check_device *device;
    CHECK_OPEN(check, &device);
    device->unledgered = true;
    for (uint32_t round = 0; round < check_rounds(check, 50); round++) {
        struct race racers[CREW] = {{device, 0, NULL, VRAM_OK}};
        check_note(check, "round %u", round);
        vram_addr addr;
        CHECK_OK(check, vram_device_alloc(device->device, 1, VRAM_MEMORY_DEVICE, &addr));
        for (uint32_t i = 0; i < CREW; i++) {
            racers[i] = (struct race){device, addr, NULL, VRAM_OK};
        }
        CHECK_TRY(check_threads(check, CREW, free_it, racers, sizeof racers[0]));
        CHECK_TRY(one_winner(check, racers));
    }
    return holds_nothing(check, device);
}

static bool map_it(struct check *check, void *argument) {
    struct race *race = argument;
    race->result = vram_range_map(race->device->device, race->addr, &race->physical, 1);
    return won_or_lost(check, race->result, VRAM_ERR_BUSY);
}

/* One handle, four places: at one place at a time. */
static bool map_race(struct check *check) {
    struct check_device *device;
    vram_physical *physical;
    vram_addr base;

    CHECK_NEEDS(check, VRAM_CAP_VMM);
    CHECK_OPEN(check, &device);
    uint64_t granule = device->info.vmm_granule.value;
    CHECK_RANGE(check, device, CREW * granule, &base);
    CHECK_PHYSICAL(check, device, 1, &physical);
    for (uint32_t round = 0; round < check_rounds(check, 30); round++) {
        struct race racers[CREW];
        vram_addr mapped = 0;
        check_note(check, "round %u", round);
        for (uint32_t i = 0; i < CREW; i++) {
            racers[i] = (struct race){device, base + i * granule, physical, VRAM_OK};
        }
        CHECK_TRY(check_threads(check, CREW, map_it, racers, sizeof racers[0]));
        for (uint32_t i = 0; i < CREW; i++) {
            mapped = racers[i].result == VRAM_OK ? racers[i].addr : mapped;
        }
        CHECK_TRY(one_winner(check, racers));
        CHECK_OK(check, vram_range_unmap(device->device, mapped, granule));
    }
    return true;
}

/* ------------------------------------------------------------------ lookups */

struct reader {
    struct check_device *device;
    atomic_bool *stop;
    _Atomic vram_addr *shown; /* what the writer has at the moment; may be gone already */
    bool writes;
    uint32_t rounds;
};

/* What a lookup finds must hang together, however old it is. */
static bool look(struct check *check, struct reader *reader) {
    vram_native_info native = {.size = sizeof native};
    vram_addr addr = atomic_load(reader->shown) + 100;
    vram_status status = vram_native(addr, &native);
    if (status == VRAM_OK) {
        CHECK_THAT(check, native.base <= addr && addr - native.base == native.offset);
        CHECK_THAT(check, native.offset < native.bytes);
        CHECK_THAT(check, native.device == reader->device->device);
    } else {
        CHECK_STATUS(check, status, VRAM_ERR_INVALID);
    }
    return true;
}

static bool come_and_go(struct check *check, struct reader *reader) {
    for (uint32_t i = 0; i < reader->rounds; i++) {
        vram_addr addr;
        CHECK_OK(check,
                 vram_device_alloc(reader->device->device, 1 + i * 999, VRAM_MEMORY_DEVICE, &addr));
        atomic_store(reader->shown, addr);
        CHECK_OK(check, vram_device_free(reader->device->device, addr));
    }
    return true;
}

static bool look_or_write(struct check *check, void *argument) {
    struct reader *reader = argument;
    bool held = true;
    if (reader->writes) {
        held = come_and_go(check, reader);
        atomic_store(reader->stop, true);
    }
    while (held && !atomic_load(reader->stop)) {
        held = look(check, reader);
    }
    return held;
}

static bool lookups(struct check *check) {
    struct check_device *device;
    struct reader readers[CREW];
    atomic_bool stop = false;
    _Atomic vram_addr shown = 4096;

    CHECK_OPEN(check, &device);
    device->unledgered = true;
    for (uint32_t i = 0; i < CREW; i++) {
        readers[i] = (struct reader){device, &stop, &shown, i == 0, check_rounds(check, 500)};
    }
    CHECK_TRY(check_threads(check, CREW, look_or_write, readers, sizeof readers[0]));
    return holds_nothing(check, device);
}

const struct check_case check_cases_thread[] = {
    {"thread.alloc_storm", "threads take and give memory at once and the sums are right",
     alloc_storm},
    {"thread.copy_storm", "threads with queues of their own do not disturb each other", copy_storm},
    {"thread.shared_queue", "threads share one queue and each finds its own results", shared_queue},
    {"thread.free_race", "of several frees of one block exactly one succeeds", free_race},
    {"thread.map_race", "of several mappings of one handle exactly one succeeds", map_race},
    {"thread.lookups", "lookups are true at any moment while memory comes and goes", lookups},
    {NULL, NULL, NULL},
};
