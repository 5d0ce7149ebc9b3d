/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wrapped_world.h: buffers of a program's own that libvram wraps: what holds for them whatever
 * their driver is. Who includes it says how the program makes, reads and ends one.
 */
#ifndef TEST_WRAPPED_WORLD_H
#define TEST_WRAPPED_WORLD_H

#include "unit/assert_ok.h"
#include "vram/vram.h"

#include <string.h>

enum { OBJECT = 100000, OFFSET = 9001, PART = 50000 };

/* All that wrapping takes. */
struct rig {
    vram_context *context;
    vram_device *device;
    vram_queue *queue;
    vram_pool *pool;
    void *object;        /* the program's, of OBJECT bytes, each 0x11 */
    uint64_t address;    /* for kernels; 0: it has none */
    void *memory;        /* that it is bound to */
    unsigned char *seen; /* its contents */
    int64_t live;        /* of the driver's objects, before */
};

static int64_t live_objects(void);
static vram_status create_adopted(vram_context **context);
static void object_new(struct rig *rig);
static void object_read(const struct rig *rig, unsigned char *bytes);
static void expect_references(const struct rig *rig, unsigned expected);
static void rig_end(struct rig *rig);

static struct rig rig_make(void) {
    struct rig rig = {.live = live_objects()};
    assert_ok(create_adopted(&rig.context));
    assert_ok(vram_device_open(rig.context, 0, &rig.device));
    assert_ok(vram_queue_create(rig.device, NULL, &rig.queue));
    assert_ok(vram_pool_create(rig.device, NULL, &rig.pool));
    object_new(&rig);
    return rig;
}

static vram_wrap wrap_of(const struct rig *rig, uint64_t offset, uint64_t bytes) {
    return (vram_wrap){.size = sizeof(vram_wrap),
                       .kind = VRAM_WRAP_HANDLE,
                       .pointer = rig->object,
                       .address = rig->address,
                       .offset = offset,
                       .bytes = bytes};
}

static vram_buffer *wrapped(const struct rig *rig, uint64_t offset, uint64_t bytes) {
    vram_wrap wrap = wrap_of(rig, offset, bytes);
    vram_buffer *buffer;
    assert_ok(vram_buffer_wrap(rig->pool, &wrap, rig->queue, NULL, &buffer));
    return buffer;
}

/* The program looks at its own buffer: `value` in the part, what was there before around it. */
static void expect_part(const struct rig *rig, unsigned char value) {
    static unsigned char found[OBJECT];
    assert_ok(vram_queue_wait(rig->queue, VRAM_TIMEOUT_DEFAULT));
    object_read(rig, found);
    for (int i = 0; i < OBJECT; i++) {
        assert_int_equal(found[i], i >= OFFSET && i < OFFSET + PART ? value : 0x11);
    }
}

/* What was downloaded into `found` is all of that value. */
static void expect_all(const struct rig *rig, const unsigned char *found, unsigned char value) {
    assert_ok(vram_queue_wait(rig->queue, VRAM_TIMEOUT_DEFAULT));
    for (int i = 0; i < PART; i++) {
        assert_int_equal(found[i], value);
    }
}

static void wrapped_part_is_used(void) {
    static unsigned char bytes[PART], found[PART];
    struct rig rig = rig_make();
    vram_buffer *buffer = wrapped(&rig, OFFSET, PART);
    vram_buffer_info info = {.size = sizeof info};
    vram_native_info native = {.size = sizeof native};
    vram_span span = {buffer, 0, PART};
    vram_addr block;
    void *pointer;
    expect_references(&rig, 2);
    assert_ok(vram_buffer_info_get(buffer, &info));
    assert_true(info.wrapped && !info.host && info.location == VRAM_MEMORY_DEVICE);
    assert_ok(vram_native(info.addr + 1, &native));
    assert_ptr_equal(native.handle, rig.object);
    assert_int_equal(native.offset, OFFSET + 1);
    assert_int_equal(native.device_address.known, rig.address != 0);
    assert_true(!rig.address || native.device_address.value == rig.address + OFFSET + 1);
    memset(bytes, 0x22, sizeof bytes);
    assert_ok(vram_span_upload(NULL, span, bytes));
    expect_part(&rig, 0x22);
    assert_ok(vram_queue_fill(rig.queue, info.addr, 0x33, 1, PART));
    expect_part(&rig, 0x33);
    assert_ok(vram_span_download(NULL, found, span));
    expect_all(&rig, found, 0x33);
    /* Memory of the pool's own, both ways. */
    assert_ok(vram_alloc(rig.pool, PART, rig.queue, &block));
    assert_ok(vram_queue_fill(rig.queue, block, 0x44, 1, PART));
    assert_ok(vram_queue_copy(rig.queue, info.addr, block, PART));
    expect_part(&rig, 0x44);
    assert_ok(vram_queue_fill(rig.queue, block, 0, 1, PART));
    assert_ok(vram_queue_copy(rig.queue, block, info.addr, PART));
    assert_ok(vram_queue_download(rig.queue, found, block, PART));
    expect_all(&rig, found, 0x44);
    assert_ok(vram_free(block, rig.queue));
    assert_ok(vram_buffer_map(buffer, 0, PART, VRAM_MAP_READ | VRAM_MAP_WRITE, NULL, &pointer));
    assert_int_equal(((unsigned char *)pointer)[PART - 1], 0x44);
    memset(pointer, 0x55, PART);
    assert_ok(vram_buffer_unmap(buffer));
    expect_part(&rig, 0x55);
    /* Nothing in front of it or behind it, and nobody but the buffer ends it. */
    assert_int_equal(vram_queue_fill(rig.queue, info.addr - 1, 9, 1, 2), VRAM_ERR_INVALID);
    assert_int_equal(vram_queue_fill(rig.queue, info.addr, 9, 1, PART + 1), VRAM_ERR_INVALID);
    assert_int_equal(vram_free(info.addr, rig.queue), VRAM_ERR_INVALID);
    assert_int_equal(vram_device_free(rig.device, info.addr), VRAM_ERR_INVALID);
    assert_ok(vram_buffer_destroy(buffer));
    assert_int_equal(vram_queue_fill(rig.queue, info.addr, 9, 1, 1), VRAM_ERR_INVALID);
    expect_references(&rig, 1);
    expect_part(&rig, 0x55);
    buffer = wrapped(&rig, OFFSET, PART); /* goes with its pool */
    assert_ok(vram_pool_destroy(rig.pool));
    assert_int_equal(vram_buffer_destroy(buffer), VRAM_ERR_STALE);
    expect_references(&rig, 1);
    rig_end(&rig);
}

static void refuse_wraps(const struct rig *rig, const vram_wrap *wraps, size_t count) {
    vram_buffer *none = NULL;
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(vram_buffer_wrap(rig->pool, &wraps[i], rig->queue, NULL, &none),
                         VRAM_ERR_INVALID);
    }
    assert_null(none);
}

#endif
