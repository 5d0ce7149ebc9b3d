/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_buffer_kinds.c: pinned, managed and mapped buffers, memory of the program's own, spans, and
 * the host's view of all of them.
 */
#include "unit/buffer_world.h"

static const char *const backends[] = {"sim", "host"};

static bool has(struct rig *rig, uint32_t cap) {
    vram_device_info info = {.size = sizeof info};
    assert_ok(vram_device_describe(rig->device, &info));
    return info.caps & cap;
}

/* ----------------------------------------------------------------------- kinds */

/* Acceptance item 13, of pinned memory: exact sizes, really page-locked and said so, no bytes, too
   many, and destroying twice. What was taken goes back when the queue has completed that work,
   and not before. */
TEST(acceptance_13_pinned) {
    for (int i = 0; i < 2; i++) {
        struct rig rig = rig_make(backends[i], "memory=64M,lag=40");
        if (!has(&rig, VRAM_CAP_PINNED)) {
            vram_context_destroy(rig.context);
            continue;
        }
        vram_pool *pool = pool_whole(rig.device);
        uint64_t before = held_by(&rig), page = vr_os_page_bytes();
        vram_buffer *buffer = buffer_kind(pool, 3 * MIB + 1, VRAM_BUFFER_PINNED, rig.queue);
        vram_buffer *empty = buffer_kind(pool, 0, VRAM_BUFFER_PINNED, rig.queue), *none = NULL;
        vram_buffer *device = buffer_kind(pool, 3 * MIB + 1, VRAM_BUFFER_DEVICE, rig.queue);
        vram_buffer_info info = info_of(buffer);
        uint8_t *host = NULL;
        assert_ok(vram_buffer_host(buffer, (void **)&host));
        assert_ptr_equal(host, info.host);
        assert_int_equal((uintptr_t)host, info.addr);
        assert_int_equal(info.location, VRAM_MEMORY_PINNED);
        assert_true(info.pinned && !info.wrapped);
        assert_int_equal(info.capacity_bytes, 3 * MIB + 1);
        assert_int_equal(info_of(empty).capacity_bytes, 0);
        assert_int_not_equal(info_of(empty).addr, 0);
        assert_int_equal(stats_of(pool).fallbacks, 0);
        assert_true(stats_of(pool).other_bytes >= 3 * MIB + 1);
        assert_true(stats_of(pool).other_bytes < 3 * MIB + 2 * page); /* no powers of two */
        vram_buffer_options options = {.size = sizeof options, .kind = VRAM_BUFFER_PINNED};
        assert_int_equal(vram_buffer_create(pool, UINT64_MAX, rig.queue, &options, &none),
                         VRAM_ERR_OVERFLOW);
        for (uint64_t at = 0; at < info.capacity_bytes; at++) {
            host[at] = (uint8_t)(at * 7);
        }
        assert_ok(vram_queue_upload(rig.queue, info_of(device).addr, host, 3 * MIB + 1));
        assert_ok(vram_buffer_destroy(buffer)); /* under the copy */
        assert_int_equal(vram_buffer_destroy(buffer), VRAM_ERR_STALE);
        assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
        assert_ok(vram_buffer_destroy(empty));
        uint8_t *found = malloc(3 * MIB + 1);
        assert_ok(vram_span_download(NULL, found, all_of(device)));
        assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
        for (uint64_t at = 0; at < 3 * MIB + 1; at++) {
            assert_int_equal(found[at], (uint8_t)(at * 7));
        }
        free(found);
        assert_ok(vram_buffer_destroy(device));
        assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT)); /* which a trim does not */
        assert_ok(vram_pool_trim(pool, NULL, NULL));
        assert_int_equal(stats_of(pool).other_bytes, 0);
        assert_int_equal(held_by(&rig), before);
        if (i == 0) {
            rig_end_clean(&rig);
        } else {
            vram_context_destroy(rig.context);
        }
    }
}

/* Without page-locked memory a pinned buffer is refused, and pageable only where that was
   allowed. */
TEST(pageable_memory_needs_leave, "sim:memory=64M") {
    vram_pool *pool = pool_whole(rig->device);
    vram_buffer_options options = {.size = sizeof options, .kind = VRAM_BUFFER_PINNED};
    vram_buffer *buffer = NULL;
    fault(rig, VRAM_SIM_PINNED_ALLOC, 1, true, VRAM_SIM_HOST_MEMORY);
    assert_int_equal(vram_buffer_create(pool, MIB, rig->queue, &options, &buffer),
                     VRAM_ERR_HOST_MEMORY);
    assert_null(buffer);
    options.flags = VRAM_BUFFER_PAGEABLE;
    assert_ok(vram_buffer_create(pool, MIB, rig->queue, &options, &buffer));
    assert_int_equal(info_of(buffer).location, VRAM_MEMORY_HOST);
    assert_false(info_of(buffer).pinned);
    write_all(buffer, 1, rig->queue);
    expect_all(buffer, 1, rig->queue);
    assert_ok(vram_buffer_destroy(buffer));
    assert_ok(vram_sim_fault_set(rig->context, NULL));
    assert_ok(vram_buffer_create(pool, MIB, rig->queue, &options, &buffer));
    assert_true(info_of(buffer).pinned);
    struct vr_device_object *device = vr_handle_pin(VR_KIND_DEVICE, rig->device);
    device->base.info.caps &= ~(uint32_t)VRAM_CAP_PINNED;
    options.flags = 0;
    assert_int_equal(vram_buffer_create(pool, MIB, rig->queue, &options, &buffer),
                     VRAM_ERR_UNSUPPORTED);
    device->base.info.caps |= VRAM_CAP_PINNED;
    vr_leave(device);
}

/* ----------------------------------------------------------------------- spans */

TEST(spans_are_checked_and_stay_right) {
    struct rig rig = rig_make("sim", "memory=64M,lag=5");
    vram_pool *pool = pool_whole(rig.device);
    vram_buffer *buffer = buffer_kind(pool, 1000, VRAM_BUFFER_DEVICE, rig.queue);
    vram_queue *other;
    vram_span span = {0}, bad;
    vram_addr addr;
    uint8_t out[100], back[100];
    assert_ok(vram_queue_create(rig.device, NULL, &other));
    assert_ok(vram_buffer_span(buffer, 900, 100, &span));
    assert_ptr_equal(span.buffer, buffer);
    assert_int_equal(span.offset, 900);
    assert_ok(vram_span_addr(span, &addr));
    assert_int_equal(addr, info_of(buffer).addr + 900);
    memset(out, 7, sizeof out);
    assert_ok(
        vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT)); /* the buffer is ready for that one */
    assert_ok(vram_span_upload(other, span, out));
    assert_ok(vram_queue_wait(other, VRAM_TIMEOUT_DEFAULT));
    assert_ok(vram_span_download(NULL, back, span));
    assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
    assert_memory_equal(out, back, sizeof out);
    assert_ok(vram_buffer_span(buffer, 1000, 0, &bad));
    assert_ok(vram_span_upload(NULL, bad, NULL)); /* nothing to copy */
    assert_int_equal(vram_buffer_span(buffer, 901, 100, &bad), VRAM_ERR_INVALID);
    assert_int_equal(vram_buffer_span(buffer, UINT64_MAX, 2, &bad), VRAM_ERR_INVALID);
    assert_int_equal(vram_buffer_span(buffer, 1001, 0, &bad), VRAM_ERR_INVALID);
    assert_int_equal(vram_buffer_span(buffer, 0, 1, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_span_addr(span, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_span_upload(NULL, span, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_span_download(NULL, NULL, span), VRAM_ERR_INVALID);
    bad = (vram_span){buffer, 999, 2}; /* made by hand */
    assert_int_equal(vram_span_addr(bad, &addr), VRAM_ERR_INVALID);
    assert_int_equal(vram_span_upload(NULL, bad, out), VRAM_ERR_INVALID);
    assert_int_equal(vram_span_download(NULL, back, bad), VRAM_ERR_INVALID);
    assert_int_equal(vram_span_addr((vram_span){0}, &addr), VRAM_ERR_INVALID);
    vram_buffer *homeless = buffer_kind(pool, 100, VRAM_BUFFER_DEVICE, NULL);
    assert_int_equal(vram_span_upload(NULL, all_of(homeless), out), VRAM_ERR_INVALID);
    assert_ok(vram_span_upload(other, all_of(homeless), out));
    assert_ok(vram_buffer_destroy(homeless)); /* the copy counts as a use */
    assert_ok(vram_buffer_destroy(buffer));
    assert_int_equal(vram_span_addr(span, &addr), VRAM_ERR_STALE);
    assert_int_equal(vram_span_upload(NULL, span, out), VRAM_ERR_STALE);
    assert_int_equal(vram_span_download(NULL, out, span), VRAM_ERR_STALE);
    rig_end_clean(&rig);
}

/* ---------------------------------------------------------------- map and unmap */

/* Reading fetches, writing brings back, and neither does the other. */
TEST(a_mapping_goes_the_ways_it_says, "sim:memory=64M,lag=30") {
    static const vram_buffer_kind kinds[] = {VRAM_BUFFER_DEVICE, VRAM_BUFFER_PINNED,
                                             VRAM_BUFFER_MANAGED, VRAM_BUFFER_FALLBACK};
    vram_pool *pool = pool_whole(rig->device);
    vram_queue *other;
    assert_ok(vram_queue_create(rig->device, NULL, &other));
    for (int i = 0; i < 4; i++) {
        vram_buffer *buffer = buffer_kind(pool, 4000, kinds[i], rig->queue);
        uint8_t *expected = bytes_of(5, 4000), *seen = NULL;
        void *none = NULL;
        bool copied = info_of(buffer).host == NULL;
        write_all(buffer, 5, rig->queue);
        assert_ok(vram_buffer_map(buffer, 1000, 2000, VRAM_MAP_READ, NULL, (void **)&seen));
        assert_memory_equal(seen, expected + 1000, 2000);
        assert_true(info_of(buffer).mapped);
        assert_int_equal(vram_buffer_map(buffer, 0, 1, VRAM_MAP_READ, NULL, &none), VRAM_ERR_BUSY);
        if (copied) {
            seen[0]++; /* is not brought back */
        }
        assert_ok(vram_buffer_unmap(buffer));
        assert_false(info_of(buffer).mapped);
        assert_int_equal(vram_buffer_unmap(buffer), VRAM_ERR_INVALID);
        assert_non_null(strstr(vram_error_get()->text, "not mapped"));
        expect_all(buffer, 5, rig->queue);
        for (int queue = 0; queue < 2; queue++) {
            assert_ok(vram_buffer_map(buffer, 1000, 2000, VRAM_MAP_READ | VRAM_MAP_WRITE,
                                      queue ? other : NULL, (void **)&seen));
            assert_memory_equal(seen, expected + 1000, 2000);
            seen[7] = expected[1007] = (uint8_t)(99 + queue);
            assert_ok(vram_buffer_unmap(buffer));
            assert_ok(vram_buffer_map(buffer, 0, 10, VRAM_MAP_WRITE, queue ? other : NULL,
                                      (void **)&seen));
            memset(seen, queue, 10);
            memset(expected, queue, 10);
            assert_ok(vram_buffer_unmap(buffer));
            uint8_t found[4000];
            assert_ok(vram_span_download(NULL, found, all_of(buffer)));
            assert_ok(vram_queue_wait(rig->queue, VRAM_TIMEOUT_DEFAULT));
            assert_memory_equal(found, expected, 4000);
        }
        assert_ok(vram_buffer_map(buffer, 4000, 0, VRAM_MAP_READ, NULL, &none));
        assert_ok(vram_buffer_unmap(buffer));
        assert_ok(vram_buffer_map(buffer, 0, 4000, VRAM_MAP_READ | VRAM_MAP_WRITE, NULL, &none));
        assert_ok(vram_buffer_destroy(buffer)); /* mapped as it is */
        assert_int_equal(vram_buffer_unmap(buffer), VRAM_ERR_STALE);
        free(expected);
    }
    assert_int_equal(stats_of(pool).live_blocks, 0);
    assert_ok(vram_queue_wait(rig->queue, VRAM_TIMEOUT_DEFAULT));
    assert_ok(vram_pool_trim(pool, NULL, NULL));
    assert_int_equal(held_by(rig), 0);
}

/* A mapping waits for the work of every queue that uses the buffer. */
TEST(a_mapping_waits_for_all_work, "sim:memory=64M,lag=200") {
    vram_pool *pool = pool_whole(rig->device);
    vram_queue *other;
    uint8_t *seen;
    assert_ok(vram_queue_create(rig->device, NULL, &other));
    vram_buffer *buffer = buffer_kind(pool, 4096, VRAM_BUFFER_DEVICE, rig->queue);
    vram_addr addr = info_of(buffer).addr;
    assert_ok(
        vram_queue_wait(rig->queue, VRAM_TIMEOUT_DEFAULT)); /* the buffer is ready for that one */
    assert_ok(vram_queue_fill(rig->queue, addr, 1, 1, 2048));
    assert_ok(vram_queue_fill(other, addr + 2048, 2, 1, 2048));
    assert_ok(vram_buffer_use(buffer, other));
    assert_ok(vram_buffer_map(buffer, 0, 4096, VRAM_MAP_READ, NULL, (void **)&seen));
    assert_int_equal(seen[0], 1);
    assert_int_equal(seen[2047], 1);
    assert_int_equal(seen[2048], 2);
    assert_int_equal(seen[4095], 2);
    assert_ok(vram_buffer_unmap(buffer));
}

/* --------------------------------------------------------------------- wrapping */

/* An address of the device's own is as good as any while it is wrapped, and stays the program's. */
TEST(addresses_are_wrapped) {
    struct rig rig = rig_make("host", NULL);
    vram_pool *pool = pool_whole(rig.device);
    vram_queue *other;
    uint8_t *own = malloc(4096 + 64);
    vram_wrap wrap = {
        .size = sizeof wrap, .kind = VRAM_WRAP_ADDRESS, .address = (uintptr_t)own, .bytes = 4096};
    vram_buffer *buffer, *again, *inner;
    assert_ok(vram_queue_create(rig.device, NULL, &other));
    assert_int_equal(vram_queue_fill(rig.queue, (uintptr_t)own, 9, 1, 16), VRAM_ERR_INVALID);
    assert_ok(vram_buffer_wrap(pool, &wrap, rig.queue, NULL, &buffer));
    assert_true(info_of(buffer).wrapped);
    assert_int_equal(info_of(buffer).location, VRAM_MEMORY_DEVICE);
    vram_point filled;
    assert_ok(vram_queue_fill(rig.queue, (uintptr_t)own, 9, 1, 4096));
    assert_ok(vram_queue_mark(rig.queue, &filled));
    assert_ok(vram_queue_after(other, filled));
    assert_ok(vram_queue_fill(other, (uintptr_t)own + 8, 8, 1, 8));
    assert_ok(vram_buffer_use(buffer, other));
    assert_ok(vram_queue_wait(other, VRAM_TIMEOUT_DEFAULT));
    assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
    assert_int_equal(own[4095], 9);
    assert_int_equal(vram_queue_fill(rig.queue, (uintptr_t)own, 9, 1, 4097), VRAM_ERR_INVALID);
    assert_int_equal(vram_free((uintptr_t)own, rig.queue), VRAM_ERR_INVALID);
    assert_int_equal(vram_device_free(rig.device, (uintptr_t)own), VRAM_ERR_INVALID);
    wrap.address += 8; /* inside it: needs no record of its own */
    wrap.bytes = 100;
    assert_ok(vram_buffer_wrap(pool, &wrap, rig.queue, NULL, &inner));
    assert_ok(vram_buffer_destroy(inner));
    wrap.bytes = 4096; /* half inside: whose would it be? */
    assert_int_equal(vram_buffer_wrap(pool, &wrap, rig.queue, NULL, &again), VRAM_ERR_INVALID);
    assert_ok(vram_buffer_destroy(buffer));
    assert_int_equal(vram_queue_fill(rig.queue, (uintptr_t)own, 9, 1, 16), VRAM_ERR_INVALID);
    assert_ok(vram_buffer_wrap(pool, &wrap, rig.queue, NULL, &again));
    assert_ok(vram_pool_destroy(pool)); /* takes the record with it */
    assert_int_equal(vram_queue_fill(rig.queue, (uintptr_t)own + 8, 9, 1, 16), VRAM_ERR_INVALID);
    vram_context_destroy(rig.context);
    free(own);
}

TEST(bad_wraps_are_refused, "sim:memory=64M") {
    vram_pool *pool = pool_whole(rig->device);
    vram_buffer *buffer = NULL;
    vram_buffer_options options = {.size = sizeof options};
    vram_wrap good = {.size = sizeof good, .kind = VRAM_WRAP_HOST, .pointer = rig, .bytes = 8};
    vram_wrap wrap = good;
#define REFUSED(status)                                                                            \
    assert_int_equal(vram_buffer_wrap(pool, &wrap, NULL, &options, &buffer), VRAM_ERR_##status)
    assert_int_equal(vram_buffer_wrap(pool, NULL, NULL, NULL, &buffer), VRAM_ERR_INVALID);
    assert_int_equal(vram_buffer_wrap(pool, &wrap, NULL, NULL, NULL), VRAM_ERR_INVALID);
    wrap.bytes = 0;
    REFUSED(INVALID);
    wrap = good, wrap.pointer = NULL;
    REFUSED(INVALID);
    wrap = good, wrap.bytes = UINT64_MAX;
    REFUSED(OVERFLOW);
    wrap = good, wrap.kind = (vram_wrap_kind)7;
    REFUSED(INVALID);
    wrap = good, wrap.size = 2;
    REFUSED(INVALID);
    wrap = good, wrap.offset = 1;
    REFUSED(INVALID);
    wrap = good, wrap.kind = VRAM_WRAP_HANDLE;
    REFUSED(UNSUPPORTED);
    assert_non_null(strstr(vram_error_get()->text, "cannot adopt"));
    wrap = good, wrap.bytes = 7, options.precision = VRAM_PRECISION_FP16;
    REFUSED(INVALID);
    wrap = good,
    options = (vram_buffer_options){.size = sizeof options, .kind = VRAM_BUFFER_PINNED};
    REFUSED(INVALID);
    options = (vram_buffer_options){.size = sizeof options, .flags = VRAM_BUFFER_PAGEABLE};
    REFUSED(INVALID);
    struct vr_device_object *device = vr_handle_pin(VR_KIND_DEVICE, rig->device);
    uint32_t caps = device->base.info.caps;
    device->base.info.caps &= ~(uint32_t)VRAM_CAP_TRUE_ADDRESS;
    wrap = (vram_wrap){
        .size = sizeof wrap, .kind = VRAM_WRAP_ADDRESS, .address = 1 << 20, .bytes = 4096};
    options = (vram_buffer_options){.size = sizeof options};
    REFUSED(UNSUPPORTED);
    device->base.info.caps = caps;
    vr_leave(device);
    assert_null(buffer);
}

/* The host device maps sealed memory read-only: nobody gets a pointer to write there. */
TEST(sealed_memory_is_not_mapped_for_writing) {
    struct rig rig = rig_make("host", NULL);
    vram_pool *pool = pool_whole(rig.device);
    vram_buffer *buffer = buffer_kind(pool, 4096, VRAM_BUFFER_DEVICE, rig.queue);
    uint8_t *seen = NULL;
    write_all(buffer, 5, rig.queue);
    assert_ok(vram_pool_seal(pool, NULL));
    assert_int_equal(vram_buffer_map(buffer, 0, 16, VRAM_MAP_WRITE, NULL, (void **)&seen),
                     VRAM_ERR_INVALID);
    assert_null(seen);
    assert_ok(vram_buffer_map(buffer, 0, 16, VRAM_MAP_READ, NULL, (void **)&seen));
    assert_ok(vram_buffer_unmap(buffer));
    assert_ok(vram_pool_unseal(pool, NULL));
    assert_ok(vram_buffer_map(buffer, 0, 16, VRAM_MAP_WRITE, NULL, (void **)&seen));
    memset(seen, 1, 16);
    assert_ok(vram_buffer_unmap(buffer));
    assert_ok(vram_buffer_destroy(buffer));
    assert_ok(vram_context_destroy(rig.context));
}
