/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cases_memory.c: coarse memory: what is given, what is taken back, what is refused, and whether
 * the sums are right. The helpers compare the ledger at every failure and at the end of each case.
 */
#include "case.h"

#include <stdio.h>

#define KIB UINT64_C(1024)
#define MIB (KIB * KIB)

enum { MANY_MAX = 256 };

/* Every step on its own: errors that cancel out in the end would pass otherwise. */
static bool sums(struct check *check) {
    struct check_device *device;
    vram_memory_info info = {.size = sizeof info};
    vram_addr one, two, three;

    CHECK_OPEN(check, &device);
    CHECK_LEDGER(check, device); /* a fresh handle holds nothing */
    CHECK_ALLOC(check, device, 1, &one);
    CHECK_LEDGER(check, device);
    CHECK_ALLOC(check, device, 3 * check_granule(device), &two);
    CHECK_LEDGER(check, device);
    CHECK_FREE(check, device, one);
    CHECK_LEDGER(check, device);
    CHECK_ALLOC(check, device, 2 * check_granule(device), &three); /* a new peak */
    CHECK_LEDGER(check, device);
    CHECK_FREE(check, device, three);
    CHECK_FREE(check, device, two);
    CHECK_LEDGER(check, device);
    CHECK_OK(check, vram_memory_info_get(device->device, &info));
    CHECK_EQUAL(check, info.held_bytes, 0);
    CHECK_EQUAL(check, info.held_count, 0);
    CHECK_THAT(check, info.held_peak_bytes >= 5 * check_granule(device));
    CHECK_THAT(check, info.driver_calls > 0);
    CHECK_ALLOC(check, device, 1, &one); /* less than before: the peak stays */
    CHECK_LEDGER(check, device);
    return true;
}

/* A driver that does not tell must not look like a device without free memory. */
static bool driver_word(struct check *check) {
    struct check_device *device;
    vram_memory_info info = {.size = sizeof info};

    CHECK_OPEN(check, &device);
    CHECK_OK(check, vram_memory_info_get(device->device, &info));
    CHECK_EQUAL(check, info.size, sizeof info);
    CHECK_THAT(check, info.total_bytes.known || info.total_bytes.value == 0);
    CHECK_THAT(check, info.free_bytes.known || info.free_bytes.value == 0);
    CHECK_THAT(check, info.lost || info.free_bytes.known == check_has(check, VRAM_CAP_MEMORY_INFO));
    if (info.total_bytes.known) {
        CHECK_THAT(check, info.total_bytes.value > 0);
        CHECK_THAT(check, info.free_bytes.value <= info.total_bytes.value);
    }
    CHECK_STATUS(check, vram_memory_info_get(device->device, NULL), VRAM_ERR_INVALID);
    info.size = 3;
    CHECK_STATUS(check, vram_memory_info_get(device->device, &info), VRAM_ERR_INVALID);
    return true;
}

/* Around the granule, where rounding goes wrong, and odd, where alignment does. */
static bool sizes(struct check *check) {
    struct check_device *device;
    vram_queue *queue;

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    uint64_t granule = check_granule(device);
    const uint64_t list[] = {1, 3, granule - 1, granule, granule + 1, 3 * granule + 7, MIB + 1};
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        struct check_buffer buffer;
        check_note(check, "%llu bytes", (unsigned long long)list[i]);
        CHECK_BUFFER(check, device, queue, list[i], &buffer); /* size and alignment are checked */
        CHECK_UPLOAD(check, &buffer, list[i] - 1, 1, i);      /* the last byte is usable */
        CHECK_VERIFY(check, &buffer);
        CHECK_FREE(check, device, buffer.addr);
        CHECK_LEDGER(check, device);
    }
    return true;
}

/* Swaps at random, so that memory is given back in an order that nobody planned for. */
static void shuffle(struct check *check, vram_addr *addrs, uint32_t count) {
    for (uint32_t i = count; i > 1; i--) {
        uint32_t j = (uint32_t)check_random(check, i);
        vram_addr kept = addrs[i - 1];
        addrs[i - 1] = addrs[j];
        addrs[j] = kept;
    }
}

/* No address of one block lies in another. */
static bool apart(struct check *check, const vram_addr *addrs, uint32_t count) {
    vram_native_info native = {.size = sizeof native};
    for (uint32_t i = 0; i < count; i++) {
        CHECK_OK(check, vram_native(addrs[i], &native));
        for (uint32_t j = 0; j < count; j++) {
            CHECK_THAT(check, i == j || addrs[j] < addrs[i] || addrs[j] >= addrs[i] + native.bytes);
        }
    }
    return true;
}

/* Enough blocks to fill tables and lists, in as much memory as every device has. */
static bool many(struct check *check) {
    struct check_device *device;
    vram_addr addrs[MANY_MAX];

    CHECK_OPEN(check, &device);
    uint64_t room = 128 * MIB / (2 * check_granule(device));
    uint32_t count = check_rounds(check, room < MANY_MAX ? (uint32_t)room : MANY_MAX);
    for (uint32_t i = 0; i < count; i++) {
        CHECK_ALLOC(check, device, 1 + check_random(check, 2 * check_granule(device)), &addrs[i]);
    }
    CHECK_TRY(apart(check, addrs, count));
    CHECK_LEDGER(check, device);
    shuffle(check, addrs, count);
    for (uint32_t i = 0; i < count; i++) {
        CHECK_FREE(check, device, addrs[i]);
    }
    CHECK_LEDGER(check, device);
    return true;
}

/* The drift of a long run, in short. */
static bool churn(struct check *check) {
    struct check_device *device;
    CHECK_OPEN(check, &device);
    for (uint32_t i = 0; i < check_rounds(check, 300); i++) {
        vram_addr addr;
        CHECK_ALLOC(check, device, 1 + check_random(check, 4 * check_granule(device)), &addr);
        CHECK_FREE(check, device, addr);
    }
    CHECK_LEDGER(check, device);
    return true;
}

enum { NEIGHBOURS = 8 };

/* Each block is a granule long, so drivers put them side by side. */
static bool neighbours(struct check *check) {
    struct check_device *device;
    struct check_buffer buffers[NEIGHBOURS];
    vram_queue *queue;

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    for (uint32_t i = 0; i < NEIGHBOURS; i++) {
        CHECK_BUFFER(check, device, queue, check_granule(device), &buffers[i]);
    }
    for (uint32_t i = 0; i < NEIGHBOURS; i += 2) {
        CHECK_FILL(check, &buffers[i], 0, 0xEE, 1, buffers[i].bytes);
    }
    for (uint32_t i = 0; i < NEIGHBOURS; i++) {
        CHECK_VERIFY(check, &buffers[i]);
    }
    for (uint32_t i = 0; i < NEIGHBOURS; i += 2) {
        CHECK_FREE(check, device, buffers[i].addr);
    }
    for (uint32_t i = 1; i < NEIGHBOURS; i += 2) {
        CHECK_VERIFY(check, &buffers[i]);
    }
    return true;
}

/* The ledger shows that nothing was freed; the blocks are freed properly afterwards. */
static bool free_wrongly(struct check *check) {
    struct check_device *device;
    vram_addr addr, other;
    int local = 0;

    CHECK_OPEN(check, &device);
    vram_device *handle = device->device;
    CHECK_ALLOC(check, device, 2 * check_granule(device), &addr);
    CHECK_ALLOC(check, device, 1, &other);
    CHECK_OK(check, vram_device_free(handle, 0));
    CHECK_STATUS(check, vram_device_free(handle, addr + 1), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_device_free(handle, addr + check_granule(device)), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_device_free(handle, addr - 1), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_device_free(handle, 1), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_device_free(handle, UINT64_MAX), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_device_free(handle, (uintptr_t)&local), VRAM_ERR_INVALID);
    for (uint32_t i = 0; i < check_rounds(check, 1000); i++) {
        /* Odd, which no address is. */
        vram_addr made_up = check_random(check, UINT64_MAX) | 1;
        CHECK_STATUS(check, vram_device_free(handle, made_up), VRAM_ERR_INVALID);
    }
    CHECK_LEDGER(check, device);
    CHECK_FREE(check, device, addr);
    return true;
}

/* Also when the driver may have handed the address out again: the second free is of a dead
   block. */
static bool double_free(struct check *check) {
    struct check_device *device;
    vram_addr addr, later;

    CHECK_OPEN(check, &device);
    CHECK_ALLOC(check, device, 100, &addr);
    CHECK_FREE(check, device, addr);
    CHECK_STATUS(check, vram_device_free(device->device, addr), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_device_free(device->device, addr), VRAM_ERR_INVALID);
    CHECK_LEDGER(check, device);
    CHECK_ALLOC(check, device, 100, &later);
    CHECK_FREE(check, device, later);
    return true;
}

/* Sizes around powers of two are what overflowing arithmetic stumbles over. */
static bool bad_sizes(struct check *check) {
    struct check_device *device;
    vram_addr addr = CHECK_CANARY;

    CHECK_OPEN(check, &device);
    vram_device *handle = device->device;
    CHECK_STATUS(check, vram_device_alloc(handle, 0, VRAM_MEMORY_DEVICE, &addr), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_device_alloc(handle, UINT64_MAX, VRAM_MEMORY_DEVICE, &addr),
                 VRAM_ERR_OVERFLOW);
    CHECK_STATUS(check, vram_device_alloc(handle, 1, VRAM_MEMORY_DEVICE, NULL), VRAM_ERR_INVALID);
    for (unsigned bit = 50; bit < 64; bit++) {
        check_note(check, "2^%u", bit);
        uint64_t bytes = UINT64_C(1) << bit;
        if (bytes / 2 <= device->info.memory_bytes.value) {
            continue; /* a simulated device may be that large */
        }
        CHECK_EXHAUSTED(check, vram_device_alloc(handle, bytes, VRAM_MEMORY_DEVICE, &addr));
        CHECK_EXHAUSTED(check, vram_device_alloc(handle, bytes - 1, VRAM_MEMORY_DEVICE, &addr));
        CHECK_EXHAUSTED(check, vram_device_alloc(handle, bytes + 1, VRAM_MEMORY_DEVICE, &addr));
    }
    CHECK_EQUAL(check, addr, CHECK_CANARY);
    CHECK_LEDGER(check, device);
    return true;
}

/* One granule more than the device has: no device is filled to find out. */
static bool too_large(struct check *check) {
    struct check_device *device;
    vram_addr addr = CHECK_CANARY;
    struct check_buffer buffer;
    vram_queue *queue;

    CHECK_OPEN(check, &device);
    if (!device->info.memory_bytes.known) {
        return check_skip(check, "the device does not tell how much memory it has");
    }
    uint64_t bytes = device->info.memory_bytes.value + check_granule(device);
    CHECK_EXHAUSTED(check, vram_device_alloc(device->device, bytes, VRAM_MEMORY_DEVICE, &addr));
    CHECK_EQUAL(check, addr, CHECK_CANARY);
    CHECK_LEDGER(check, device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_BUFFER(check, device, queue, 70000, &buffer);
    CHECK_VERIFY(check, &buffer);
    return true;
}

/* An unknown kind is a mistake of the program, an absent one a property of the device. */
static bool bad_kinds(struct check *check) {
    struct check_device *device;
    vram_addr addr = CHECK_CANARY;

    CHECK_OPEN(check, &device);
    vram_device *handle = device->device;
    CHECK_STATUS(check, vram_device_alloc(handle, 1, (vram_memory_kind)3, &addr), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_device_alloc(handle, 1, (vram_memory_kind)-1, &addr),
                 VRAM_ERR_INVALID);
    if (!check_has(check, VRAM_CAP_PINNED)) {
        CHECK_STATUS(check, vram_device_alloc(handle, 1, VRAM_MEMORY_PINNED, &addr),
                     VRAM_ERR_UNSUPPORTED);
    }
    if (!check_has(check, VRAM_CAP_MANAGED)) {
        CHECK_STATUS(check, vram_device_alloc(handle, 1, VRAM_MEMORY_MANAGED, &addr),
                     VRAM_ERR_UNSUPPORTED);
    }
    CHECK_EQUAL(check, addr, CHECK_CANARY);
    return true;
}

/* The limit counts what all handles of a context hold on one device. */
static bool limited(struct check *check) {
    vram_context *context;
    struct check_device *one, *two;
    vram_addr first, second, refused = CHECK_CANARY;

    CHECK_CONTEXT(check, NULL, NULL, &context);
    CHECK_OPEN_OF(check, context, check->target->device, &one);
    CHECK_OPEN_OF(check, context, check->target->device, &two);
    uint64_t granule = check_granule(one);
    CHECK_ALLOC(check, one, 3 * granule, &first);
    CHECK_STATUS(check, vram_device_alloc(one->device, 2 * granule, VRAM_MEMORY_DEVICE, &refused),
                 VRAM_ERR_LIMIT);
    CHECK_STATUS(check, vram_device_alloc(two->device, 2 * granule, VRAM_MEMORY_DEVICE, &refused),
                 VRAM_ERR_LIMIT);
    CHECK_EQUAL(check, refused, CHECK_CANARY);
    CHECK_ALLOC(check, two, granule, &second);
    CHECK_FREE(check, one, first);
    CHECK_ALLOC(check, one, 3 * granule, &first);
    return true;
}

/* The option is the process's own and is taken back whatever happens in between. */
static bool limit(struct check *check) {
    struct check_device *device;
    char text[32];

    CHECK_OPEN(check, &device);
    snprintf(text, sizeof text, "%llu", 4 * (unsigned long long)check_granule(device));
    vram_status status = vram_option_set("device_limit", text);
    if (status == VRAM_ERR_LIMIT) {
        return check_skip(check, "the environment sets a lower device_limit");
    }
    CHECK_OK(check, status);
    bool held = limited(check);
    vram_option_set("device_limit", NULL);
    return held;
}

const struct check_case check_cases_memory[] = {
    {"memory.sums", "held bytes, count and peak are exact after every step", sums},
    {"memory.driver_word", "free and total memory are reported if known, and never guessed",
     driver_word},
    {"memory.sizes", "any size from one byte on is rounded to the granule, aligned and usable",
     sizes},
    {"memory.many", "hundreds of blocks do not overlap and are freed in any order", many},
    {"memory.churn", "allocating and freeing again and again leaves nothing behind", churn},
    {"memory.neighbours", "contents stay the same whatever happens to the blocks around them",
     neighbours},
    {"memory.free_wrongly", "interior, foreign and made-up addresses are refused harmlessly",
     free_wrongly},
    {"memory.double_free", "a second free is refused and changes nothing", double_free},
    {"memory.bad_sizes", "zero, overflowing and absurd sizes are refused and leave nothing behind",
     bad_sizes},
    {"memory.too_large", "asking for more than there is fails cleanly, and the device goes on",
     too_large},
    {"memory.bad_kinds", "unknown kinds are invalid and absent kinds unsupported", bad_kinds},
    {"memory.limit", "device_limit bounds what all handles of a context take together", limit},
    {NULL, NULL, NULL},
};
