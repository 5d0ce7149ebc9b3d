/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cases_mapping.c: physical memory joined with addresses, moved and taken apart again.
 *
 * The rule that carries pools: contents belong to the physical handle and go where it goes, and a
 * call that cannot do all of its work does none of it.
 */
#include "case.h"

#include <string.h>

/* What most cases begin with. */
struct scene {
    struct check_device *device;
    vram_device *handle;
    vram_queue *queue;
    uint64_t granule;
    vram_addr base; /* of a range of `granules` granules */
};

static bool begin(struct check *check, uint32_t granules, struct scene *scene) {
    CHECK_NEEDS(check, VRAM_CAP_VMM);
    CHECK_OPEN(check, &scene->device);
    CHECK_QUEUE(check, scene->device, &scene->queue);
    scene->handle = scene->device->device;
    scene->granule = scene->device->info.vmm_granule.value;
    CHECK_RANGE(check, scene->device, granules * scene->granule, &scene->base);
    return true;
}

/*
 * Maps and, when that fails, sees to it that nothing is mapped: a handle that is free can be
 * destroyed. The case is over by then, so the handles are not missed, and the ledger ends here.
 */
static bool map_at(struct check *check, struct scene *scene, vram_addr addr,
                   vram_physical *const *physicals, uint32_t count, struct check_place place) {
    if (check_ok(check, vram_range_map(scene->handle, addr, physicals, count), place)) {
        return true;
    }
    check_unchanged_at(check, scene->device, place);
    scene->device->unledgered = true;
    for (uint32_t i = 0; i < count; i++) {
        if (vram_physical_destroy(physicals[i]) == VRAM_ERR_BUSY) {
            check_fail(check, place, "failed, yet handle %u of %u is mapped", i, count);
        }
    }
    return false;
}
#define MAP(check, scene, addr, physicals, count)                                                  \
    CHECK_TRY(map_at(check, scene, addr, physicals, count, CHECK_AT("vram_range_map(" #addr ")")))

/* Mapped memory as a buffer with a model; only its first bytes are used, to be quick. */
static bool buffer_at(struct check *check, struct scene *scene, vram_addr addr, uint64_t bytes,
                      struct check_buffer *buffer) {
    uint8_t *start;
    uint64_t seed = check_random(check, UINT64_MAX);
    *buffer = (struct check_buffer){scene->device, scene->queue, addr, bytes, NULL};
    CHECK_TRY(check_host_seeded(check, bytes, seed, &start));
    CHECK_TRY(check_host_seeded(check, bytes, seed, &buffer->model));
    CHECK_OK(check, vram_queue_upload(scene->queue, addr, start, bytes));
    return true;
}

/* First and last bytes of a mapping that begins inside its range. */
static bool write_read(struct check *check) {
    struct scene scene;
    vram_physical *physical;
    struct check_buffer first, last;
    vram_native_info native = {.size = sizeof native};

    CHECK_TRY(begin(check, 4, &scene));
    CHECK_PHYSICAL(check, scene.device, 2 * scene.granule, &physical);
    vram_addr addr = scene.base + scene.granule;
    MAP(check, &scene, addr, &physical, 1);
    CHECK_TRY(buffer_at(check, &scene, addr, 5000, &first));
    CHECK_TRY(buffer_at(check, &scene, addr + 2 * scene.granule - 5000, 5000, &last));
    CHECK_VERIFY(check, &first);
    CHECK_VERIFY(check, &last);
    CHECK_OK(check, vram_native(addr + 17, &native));
    CHECK_THAT(check, native.device == scene.handle && native.kind == VRAM_MEMORY_DEVICE);
    CHECK_EQUAL(check, native.base, scene.base);
    CHECK_EQUAL(check, native.offset, scene.granule + 17);
    CHECK_OK(check, vram_range_unmap(scene.handle, addr, 2 * scene.granule));
    CHECK_PHYSICAL_END(check, scene.device, physical);
    CHECK_OK(check, vram_range_destroy(scene.handle, scene.base));
    return true;
}

/* This is how pools defragment without copying. */
static bool move(struct check *check) {
    struct scene scene;
    vram_physical *physical;
    struct check_buffer buffer;

    CHECK_TRY(begin(check, 8, &scene));
    CHECK_PHYSICAL(check, scene.device, scene.granule, &physical);
    MAP(check, &scene, scene.base, &physical, 1);
    CHECK_TRY(buffer_at(check, &scene, scene.base, 60000, &buffer));
    for (uint32_t i = 1; i < 8; i++) {
        check_note(check, "to granule %u", i);
        CHECK_WAIT(check, scene.queue);
        CHECK_OK(check, vram_range_unmap(scene.handle, buffer.addr, scene.granule));
        buffer.addr = scene.base + i * scene.granule;
        MAP(check, &scene, buffer.addr, &physical, 1);
        CHECK_VERIFY(check, &buffer);
        CHECK_UPLOAD(check, &buffer, i * 100, 50, i);
    }
    CHECK_VERIFY(check, &buffer);
    return true;
}

/* Several handles are one piece of memory: transfers do not see the seams. */
static bool contiguous(struct check *check) {
    struct scene scene;
    vram_physical *physicals[3];
    struct check_buffer seam, other;

    CHECK_TRY(begin(check, 6, &scene));
    for (uint32_t i = 0; i < 3; i++) {
        CHECK_PHYSICAL(check, scene.device, (i + 1) * scene.granule, &physicals[i]);
    }
    MAP(check, &scene, scene.base, physicals, 3);
    CHECK_TRY(buffer_at(check, &scene, scene.base + scene.granule - 3000, 6000, &seam));
    CHECK_TRY(buffer_at(check, &scene, scene.base + 3 * scene.granule - 1, 2, &other));
    CHECK_VERIFY(check, &seam);
    CHECK_FILL(check, &seam, 1000, 0xABCD1234, 4, 4000);
    CHECK_VERIFY(check, &seam);
    CHECK_VERIFY(check, &other);
    CHECK_OK(check, vram_range_unmap(scene.handle, scene.base, 6 * scene.granule));
    return true;
}

/* The handle in the middle is the one that is busy: the first would be mapped by then. */
static bool all_or_nothing(struct check *check) {
    struct scene scene;
    vram_physical *physicals[3];
    struct check_buffer buffer;
    uint8_t byte = 0;

    CHECK_TRY(begin(check, 8, &scene));
    for (uint32_t i = 0; i < 3; i++) {
        CHECK_PHYSICAL(check, scene.device, 1, &physicals[i]);
    }
    vram_addr elsewhere = scene.base + 7 * scene.granule;
    MAP(check, &scene, elsewhere, &physicals[1], 1);
    CHECK_TRY(buffer_at(check, &scene, elsewhere, 1000, &buffer));
    CHECK_STATUS(check, vram_range_map(scene.handle, scene.base, physicals, 3), VRAM_ERR_BUSY);
    for (uint32_t i = 0; i < 3; i++) {
        vram_addr addr = scene.base + i * scene.granule;
        CHECK_STATUS(check, vram_queue_upload(scene.queue, addr, &byte, 1), VRAM_ERR_INVALID);
    }
    CHECK_VERIFY(check, &buffer);
    MAP(check, &scene, scene.base, &physicals[0], 1); /* the others are free to be used */
    CHECK_PHYSICAL_END(check, scene.device, physicals[2]);
    CHECK_STATUS(check, vram_range_map(scene.handle, scene.base + scene.granule, &physicals[2], 1),
                 VRAM_ERR_STALE);
    return true;
}

/* Each refusal on its own; afterwards everything is taken apart in order. */
static bool busy(struct check *check) {
    struct scene scene;
    vram_physical *one, *two, *twice[2];

    CHECK_TRY(begin(check, 4, &scene));
    CHECK_PHYSICAL(check, scene.device, 1, &one);
    CHECK_PHYSICAL(check, scene.device, 2 * scene.granule, &two);
    MAP(check, &scene, scene.base, &one, 1);
    CHECK_STATUS(check, vram_physical_destroy(one), VRAM_ERR_BUSY);
    CHECK_STATUS(check, vram_range_destroy(scene.handle, scene.base), VRAM_ERR_BUSY);
    CHECK_STATUS(check, vram_range_map(scene.handle, scene.base, &two, 1), VRAM_ERR_BUSY);
    vram_addr next = scene.base + scene.granule;
    CHECK_STATUS(check, vram_range_map(scene.handle, next, &one, 1), VRAM_ERR_BUSY);
    CHECK_OK(check, vram_range_unmap(scene.handle, scene.base, scene.granule));
    twice[0] = twice[1] = two; /* one handle, at one place at a time */
    CHECK_STATUS(check, vram_range_map(scene.handle, scene.base, twice, 2), VRAM_ERR_BUSY);
    CHECK_PHYSICAL_END(check, scene.device, one);
    CHECK_PHYSICAL_END(check, scene.device, two);
    CHECK_OK(check, vram_range_destroy(scene.handle, scene.base));
    CHECK_LEDGER(check, scene.device);
    return true;
}

/* Drivers leave this undefined or poison the context; so it must not reach them. */
static bool partial_unmap(struct check *check) {
    struct scene scene;
    vram_physical *physicals[2];
    struct check_buffer buffer;

    CHECK_TRY(begin(check, 8, &scene));
    uint64_t g = scene.granule;
    CHECK_PHYSICAL(check, scene.device, 2 * g, &physicals[0]);
    CHECK_PHYSICAL(check, scene.device, 2 * g, &physicals[1]);
    MAP(check, &scene, scene.base, &physicals[0], 1);
    MAP(check, &scene, scene.base + 3 * g, &physicals[1], 1); /* with a hole between */
    CHECK_TRY(buffer_at(check, &scene, scene.base + g, 2000, &buffer));
    CHECK_WAIT(check, scene.queue);
    const struct {
        uint64_t offset, bytes;
    } bad[] = {{0, g}, {g, g}, {0, 3 * g}, {0, 5 * g},      {2 * g, g},       {0, 0},
               {1, g}, {0, 1}, {g, 4 * g}, {0, UINT64_MAX}, {0, 2 * g + 4096}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        check_note(check, "case %zu", i);
        CHECK_STATUS(check,
                     vram_range_unmap(scene.handle, scene.base + bad[i].offset, bad[i].bytes),
                     VRAM_ERR_INVALID);
    }
    CHECK_STATUS(check, vram_range_unmap(scene.handle, 0, g), VRAM_ERR_INVALID);
    CHECK_VERIFY(check, &buffer); /* all is as it was */
    CHECK_OK(check, vram_range_unmap(scene.handle, scene.base, 2 * g));
    CHECK_STATUS(check, vram_range_unmap(scene.handle, scene.base, 2 * g), VRAM_ERR_INVALID);
    return true;
}

/* Alignment, both ends of the range, memory that is no range, and nothing at all. */
static bool misplaced(struct check *check) {
    struct scene scene;
    vram_physical *physical, *null = NULL;
    vram_addr block;

    CHECK_TRY(begin(check, 4, &scene));
    CHECK_PHYSICAL(check, scene.device, 2 * scene.granule, &physical);
    CHECK_ALLOC(check, scene.device, 1, &block);
    const vram_addr bad[] = {scene.base + 1,
                             scene.base + scene.granule / 2,
                             scene.base + 3 * scene.granule,
                             scene.base + 4 * scene.granule,
                             scene.base - scene.granule,
                             block,
                             0};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        check_note(check, "case %zu", i);
        CHECK_STATUS(check, vram_range_map(scene.handle, bad[i], &physical, 1), VRAM_ERR_INVALID);
    }
    CHECK_STATUS(check, vram_range_map(scene.handle, scene.base, NULL, 1), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_range_map(scene.handle, scene.base, &physical, 0), VRAM_ERR_INVALID);
    CHECK_REFUSED(check, vram_range_map(scene.handle, scene.base, &null, 1));
    MAP(check, &scene, scene.base + 2 * scene.granule, &physical, 1); /* fits exactly */
    return true;
}

/* Growth behind a buffer: the address stays, nothing is copied, contents stay. */
static bool growth(struct check *check) {
    struct scene scene;
    struct check_buffer buffer;
    uint32_t steps = check_rounds(check, 16);

    CHECK_TRY(begin(check, 16, &scene));
    uint64_t room = check->target->quick ? 4096 : 65536; /* bytes looked at in each granule */
    for (uint32_t i = 0; i < steps; i++) {
        vram_physical *more;
        check_note(check, "step %u", i);
        CHECK_PHYSICAL(check, scene.device, 1, &more);
        MAP(check, &scene, scene.base + i * scene.granule, &more, 1);
        if (i == 0) {
            CHECK_TRY(buffer_at(check, &scene, scene.base, room, &buffer));
        }
        CHECK_OK(check, vram_queue_fill(scene.queue, scene.base + i * scene.granule + room, 0xEE, 1,
                                        scene.granule - room));
        CHECK_VERIFY(check, &buffer);
    }
    CHECK_LEDGER(check, scene.device);
    return true;
}

/* Half in and half out is out. */
static bool holes(struct check *check) {
    struct scene scene;
    vram_physical *physical;
    struct check_buffer buffer;
    uint8_t *host;

    CHECK_TRY(begin(check, 3, &scene));
    CHECK_PHYSICAL(check, scene.device, 1, &physical);
    CHECK_TRY(check_host_seeded(check, 64, 9, &host));
    vram_addr middle = scene.base + scene.granule, end = middle + scene.granule;
    MAP(check, &scene, middle, &physical, 1);
    CHECK_TRY(buffer_at(check, &scene, middle, 64, &buffer));
    CHECK_STATUS(check, vram_queue_upload(scene.queue, scene.base, host, 8), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_queue_upload(scene.queue, middle - 8, host, 16), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_queue_upload(scene.queue, end - 8, host, 16), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_queue_fill(scene.queue, end, 0, 1, 8), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_queue_download(scene.queue, host, end - 1, 2), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_queue_copy(scene.queue, middle, end, 8), VRAM_ERR_INVALID);
    CHECK_VERIFY(check, &buffer);
    CHECK_OK(check, vram_range_unmap(scene.handle, middle, scene.granule));
    CHECK_STATUS(check, vram_queue_upload(scene.queue, middle, host, 8), VRAM_ERR_INVALID);
    return true;
}

/* The order matters to drivers: unmap, release, then give the addresses back. */
static bool close_mapped(struct check *check) {
    struct scene scene;
    vram_physical *physicals[2];
    struct check_buffer buffer;

    CHECK_TRY(begin(check, 4, &scene));
    CHECK_PHYSICAL(check, scene.device, 1, &physicals[0]);
    CHECK_PHYSICAL(check, scene.device, 1, &physicals[1]);
    MAP(check, &scene, scene.base, &physicals[0], 1);
    CHECK_TRY(buffer_at(check, &scene, scene.base, 1000, &buffer));
    check_close(scene.device);
    CHECK_EQUAL(check, vram_physical_bytes(physicals[0]), 0);
    CHECK_STATUS(check, vram_physical_destroy(physicals[0]), VRAM_ERR_STALE);
    CHECK_STATUS(check, vram_physical_destroy(physicals[1]), VRAM_ERR_STALE);
    CHECK_STATUS(check, vram_range_unmap(scene.handle, scene.base, scene.granule), VRAM_ERR_STALE);
    return true;
}

enum { HANDLES = 6, PLACES = 12 };

/* Handles wander through a range; each keeps its contents wherever it is. */
static bool wander(struct check *check) {
    struct scene scene;
    vram_physical *physicals[HANDLES];
    struct check_buffer buffers[HANDLES];
    bool taken[PLACES] = {false};

    CHECK_TRY(begin(check, PLACES, &scene));
    for (uint32_t i = 0; i < HANDLES; i++) {
        CHECK_PHYSICAL(check, scene.device, 1, &physicals[i]);
        MAP(check, &scene, scene.base + i * scene.granule, &physicals[i], 1);
        CHECK_TRY(buffer_at(check, &scene, scene.base + i * scene.granule, 3000, &buffers[i]));
        taken[i] = true;
    }
    for (uint32_t step = 0; step < check_rounds(check, 60); step++) {
        uint32_t which = (uint32_t)check_random(check, HANDLES);
        uint32_t to = (uint32_t)check_random(check, PLACES);
        check_note(check, "step %u", step);
        if (taken[to]) {
            vram_addr addr = scene.base + to * scene.granule;
            CHECK_STATUS(check, vram_range_map(scene.handle, addr, &physicals[which], 1),
                         VRAM_ERR_BUSY);
            continue;
        }
        CHECK_WAIT(check, scene.queue);
        CHECK_OK(check, vram_range_unmap(scene.handle, buffers[which].addr, scene.granule));
        taken[(buffers[which].addr - scene.base) / scene.granule] = false;
        buffers[which].addr = scene.base + to * scene.granule;
        MAP(check, &scene, buffers[which].addr, &physicals[which], 1);
        taken[to] = true;
        CHECK_UPLOAD(check, &buffers[which], step % 2900, 100, step);
    }
    for (uint32_t i = 0; i < HANDLES; i++) {
        CHECK_VERIFY(check, &buffers[i]);
    }
    return true;
}

const struct check_case check_cases_mapping[] = {
    {"mapping.write_read", "mapped memory is used and found like any other", write_read},
    {"mapping.move", "memory that is mapped elsewhere keeps its contents", move},
    {"mapping.contiguous", "handles mapped side by side are one piece of memory", contiguous},
    {"mapping.all_or_nothing", "if one handle of several cannot be mapped, none is",
     all_or_nothing},
    {"mapping.busy", "what is mapped is neither destroyed, nor mapped again, nor covered", busy},
    {"mapping.partial_unmap", "an unmap that would split a handle or meet a hole is refused",
     partial_unmap},
    {"mapping.misplaced", "addresses off the granule or outside a range are refused", misplaced},
    {"mapping.growth", "a buffer grows in place: same address, same contents", growth},
    {"mapping.holes", "transfers into unmapped addresses are refused", holes},
    {"mapping.close_mapped", "closing a device unmaps what is still mapped", close_mapped},
    {"mapping.wander", "handles moved about at random keep their contents", wander},
    {NULL, NULL, NULL},
};
