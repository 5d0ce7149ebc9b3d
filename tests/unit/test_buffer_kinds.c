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
static void acceptance_13_pinned(void **state) {
    (void)state;
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
static void pageable_memory_needs_leave(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    vram_pool *pool = pool_whole(rig.device);
    vram_buffer_options options = {.size = sizeof options, .kind = VRAM_BUFFER_PINNED};
    vram_buffer *buffer = NULL;
    fault(&rig, VRAM_SIM_PINNED_ALLOC, 1, true, VRAM_SIM_HOST_MEMORY);
    assert_int_equal(vram_buffer_create(pool, MIB, rig.queue, &options, &buffer),
                     VRAM_ERR_HOST_MEMORY);
    assert_null(buffer);
    options.flags = VRAM_BUFFER_PAGEABLE;
    assert_ok(vram_buffer_create(pool, MIB, rig.queue, &options, &buffer));
    assert_int_equal(info_of(buffer).location, VRAM_MEMORY_HOST);
    assert_false(info_of(buffer).pinned);
    write_all(buffer, 1, rig.queue);
    expect_all(buffer, 1, rig.queue);
    assert_ok(vram_buffer_destroy(buffer));
    assert_ok(vram_sim_fault_set(rig.context, NULL));
    assert_ok(vram_buffer_create(pool, MIB, rig.queue, &options, &buffer));
    assert_true(info_of(buffer).pinned);
    struct vr_device_object *device = vr_handle_pin(VR_KIND_DEVICE, rig.device);
    device->base.info.caps &= ~(uint32_t)VRAM_CAP_PINNED;
    options.flags = 0;
    assert_int_equal(vram_buffer_create(pool, MIB, rig.queue, &options, &buffer),
                     VRAM_ERR_UNSUPPORTED);
    device->base.info.caps |= VRAM_CAP_PINNED;
    vr_leave(device);
    rig_end_clean(&rig);
}

/* Acceptance item 13, of managed memory: prefetches count in bytes and are checked, advice is
   taken, and the device's limit counts. */
static void acceptance_13_managed(void **state) {
    (void)state;
    SKIP_UNDER(VRAM_POOL_RED_ZONES, false, "red zones count against a limit");
    for (int i = 0; i < 2; i++) {
        struct rig rig = rig_make(backends[i], "memory=64M,lag=10");
        vram_pool *pool = pool_whole(rig.device);
        vram_buffer_options options = {.size = sizeof options, .kind = VRAM_BUFFER_MANAGED};
        vram_buffer *buffer = NULL, *other = NULL, *device;
        if (!has(&rig, VRAM_CAP_MANAGED)) {
            assert_int_equal(vram_buffer_create(pool, 1, rig.queue, &options, &buffer),
                             VRAM_ERR_UNSUPPORTED);
            vram_context_destroy(rig.context);
            continue;
        }
        options.precision = VRAM_PRECISION_FP32;
        assert_ok(vram_buffer_create_elements(pool, 1000, VRAM_PRECISION_FP32, rig.queue, &options,
                                              &buffer));
        device = buffer_kind(pool, 64, VRAM_BUFFER_DEVICE, rig.queue);
        vram_buffer_info info = info_of(buffer);
        assert_int_equal(info.location, VRAM_MEMORY_MANAGED);
        assert_int_equal((uintptr_t)info.host, info.addr);
        assert_int_equal(info.used_bytes, 4000);
        write_all(buffer, 3, rig.queue);
        assert_ok(vram_buffer_prefetch(buffer, 0, 4000, VRAM_TARGET_OWN, NULL));
        assert_ok(vram_buffer_prefetch(buffer, 3996, 4, VRAM_TARGET_HOST, rig.queue));
        assert_ok(vram_buffer_prefetch(buffer, 4000, 0, VRAM_TARGET_HOST, rig.queue));
        assert_int_equal(vram_buffer_prefetch(buffer, 0, 4001, VRAM_TARGET_OWN, NULL),
                         VRAM_ERR_INVALID);
        assert_int_equal(vram_buffer_prefetch(buffer, 1, UINT64_MAX, VRAM_TARGET_OWN, NULL),
                         VRAM_ERR_INVALID);
        assert_int_equal(vram_buffer_prefetch(device, 0, 64, VRAM_TARGET_OWN, NULL),
                         VRAM_ERR_INVALID);
        assert_ok(vram_buffer_advise(buffer, VRAM_ADVICE_READ_MOSTLY, VRAM_TARGET_OWN));
        assert_ok(vram_buffer_advise(buffer, VRAM_ADVICE_NONE, VRAM_TARGET_OWN));
        assert_int_equal(vram_buffer_advise(buffer, (vram_advice)9, VRAM_TARGET_OWN),
                         VRAM_ERR_INVALID);
        assert_int_equal(vram_buffer_advise(device, VRAM_ADVICE_NONE, VRAM_TARGET_OWN),
                         VRAM_ERR_INVALID);
        expect_all(buffer, 3, rig.queue);
        uint8_t *expected = bytes_of(3, 4000);
        if (i == 1 || info.host == NULL) {
            assert_memory_equal(info.host, expected, 4000);
        }
        free(expected);
        vram_limits limits = {.size = sizeof limits, .hard_bytes = held_by(&rig) + MIB};
        assert_ok(vram_device_limits_set(rig.device, &limits));
        assert_int_equal(vram_buffer_create(pool, 2 * MIB, rig.queue, &options, &other),
                         VRAM_ERR_LIMIT);
        assert_ok(vram_buffer_destroy(buffer));
        assert_ok(vram_buffer_create(pool, MIB, rig.queue, &options, &other));
        assert_ok(vram_buffer_destroy(other));
        if (i == 0) {
            rig_end_clean(&rig);
        } else {
            vram_context_destroy(rig.context);
        }
    }
}

/* Mapped memory is one address for both sides. */
static void mapped_is_one_address(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct rig rig = rig_make(backends[i], "memory=64M,real=on");
        vram_pool *pool = pool_whole(rig.device);
        vram_buffer *buffer = buffer_kind(pool, 5000, VRAM_BUFFER_MAPPED, rig.queue);
        vram_buffer_info info = info_of(buffer);
        assert_non_null(info.host);
        assert_int_equal((uintptr_t)info.host, info.addr);
        assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT)); /* a safety mode may fill it */
        memset(info.host, 0x5a, 5000);
        write_all(buffer, 8, rig.queue);
        expect_all(buffer, 8, rig.queue);
        assert_ok(vram_buffer_destroy(buffer));
        vram_context_destroy(rig.context);
    }
    struct rig rig = rig_make("sim", "memory=64M");
    vram_pool *pool = pool_whole(rig.device);
    struct vr_device_object *device = vr_handle_pin(VR_KIND_DEVICE, rig.device);
    vram_buffer_options options = {.size = sizeof options, .kind = VRAM_BUFFER_MAPPED};
    vram_buffer *buffer = NULL;
    uint32_t caps = device->base.info.caps;
    device->base.info.caps =
        (caps & ~(uint32_t)VRAM_CAP_HOST_ACCESS) | VRAM_CAP_PINNED | VRAM_CAP_TRUE_ADDRESS;
    assert_ok(vram_buffer_create(pool, MIB, rig.queue, &options, &buffer));
    assert_int_equal(info_of(buffer).location, VRAM_MEMORY_PINNED);
    assert_ok(vram_buffer_destroy(buffer));
    device->base.info.caps = caps & ~(uint32_t)(VRAM_CAP_HOST_ACCESS | VRAM_CAP_TRUE_ADDRESS);
    assert_int_equal(vram_buffer_create(pool, MIB, rig.queue, &options, &buffer),
                     VRAM_ERR_UNSUPPORTED);
    device->base.info.caps = caps;
    vr_leave(device);
    rig_end_clean(&rig);
}

/* ----------------------------------------------------------------------- spans */

static void spans_are_checked_and_stay_right(void **state) {
    (void)state;
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
static void a_mapping_goes_the_ways_it_says(void **state) {
    static const vram_buffer_kind kinds[] = {VRAM_BUFFER_DEVICE, VRAM_BUFFER_PINNED,
                                             VRAM_BUFFER_MANAGED, VRAM_BUFFER_FALLBACK};
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M,lag=30");
    vram_pool *pool = pool_whole(rig.device);
    vram_queue *other;
    assert_ok(vram_queue_create(rig.device, NULL, &other));
    for (int i = 0; i < 4; i++) {
        vram_buffer *buffer = buffer_kind(pool, 4000, kinds[i], rig.queue);
        uint8_t *expected = bytes_of(5, 4000), *seen = NULL;
        void *none = NULL;
        bool copied = info_of(buffer).host == NULL;
        write_all(buffer, 5, rig.queue);
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
        expect_all(buffer, 5, rig.queue);
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
            assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
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
    assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
    assert_ok(vram_pool_trim(pool, NULL, NULL));
    assert_int_equal(held_by(&rig), 0);
    rig_end_clean(&rig);
}

/* A mapping waits for the work of every queue that uses the buffer. */
static void a_mapping_waits_for_all_work(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M,lag=200");
    vram_pool *pool = pool_whole(rig.device);
    vram_queue *other;
    uint8_t *seen;
    assert_ok(vram_queue_create(rig.device, NULL, &other));
    vram_buffer *buffer = buffer_kind(pool, 4096, VRAM_BUFFER_DEVICE, rig.queue);
    vram_addr addr = info_of(buffer).addr;
    assert_ok(
        vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT)); /* the buffer is ready for that one */
    assert_ok(vram_queue_fill(rig.queue, addr, 1, 1, 2048));
    assert_ok(vram_queue_fill(other, addr + 2048, 2, 1, 2048));
    assert_ok(vram_buffer_use(buffer, other));
    assert_ok(vram_buffer_map(buffer, 0, 4096, VRAM_MAP_READ, NULL, (void **)&seen));
    assert_int_equal(seen[0], 1);
    assert_int_equal(seen[2047], 1);
    assert_int_equal(seen[2048], 2);
    assert_int_equal(seen[4095], 2);
    assert_ok(vram_buffer_unmap(buffer));
    rig_end_clean(&rig);
}

static void bad_mappings_are_refused(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M,devices=2");
    vram_pool *pool = pool_whole(rig.device);
    vram_buffer *buffer = buffer_kind(pool, 4096, VRAM_BUFFER_DEVICE, rig.queue);
    vram_buffer *homeless = buffer_kind(pool, 4096, VRAM_BUFFER_DEVICE, NULL);
    void *pointer = &rig;
    assert_int_equal(vram_buffer_map(buffer, 0, 1, VRAM_MAP_READ, NULL, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_buffer_map(buffer, 0, 1, 0, NULL, &pointer), VRAM_ERR_INVALID);
    assert_int_equal(vram_buffer_map(buffer, 0, 1, 4, NULL, &pointer), VRAM_ERR_INVALID);
    assert_int_equal(vram_buffer_map(buffer, 0, 4097, 1, NULL, &pointer), VRAM_ERR_INVALID);
    assert_int_equal(vram_buffer_map(buffer, 4097, 0, 1, NULL, &pointer), VRAM_ERR_INVALID);
    assert_int_equal(vram_buffer_map(buffer, 1, UINT64_MAX, 1, NULL, &pointer), VRAM_ERR_INVALID);
    assert_int_equal(vram_buffer_map(homeless, 0, 1, 1, NULL, &pointer), VRAM_ERR_INVALID);
    assert_int_equal(vram_buffer_map(homeless, 0, 1, 1, (vram_queue *)(void *)pool, &pointer),
                     VRAM_ERR_INVALID);
    vram_buffer *pinned = buffer_kind(pool, 64, VRAM_BUFFER_PINNED, rig.queue);
    for (int i = 0; i < 2; i++) { /* whether or not it would be needed */
        vram_buffer *one = i ? pinned : buffer;
        vram_span span = {one, 0, 8};
        assert_int_equal(vram_buffer_map(one, 0, 1, 1, rig.other_queue, &pointer),
                         VRAM_ERR_INVALID);
        assert_int_equal(vram_span_upload(rig.other_queue, span, &rig), VRAM_ERR_INVALID);
        assert_int_equal(vram_span_download((vram_queue *)(void *)pool, &rig, span),
                         VRAM_ERR_INVALID);
    }
    assert_int_equal(vram_buffer_host(buffer, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_buffer_host(buffer, &pointer), VRAM_ERR_UNSUPPORTED);
    assert_int_equal(vram_buffer_unmap(buffer), VRAM_ERR_INVALID);
    fault(&rig, VRAM_SIM_ANY, 1, false, VRAM_SIM_DEVICE_LOST);
    assert_int_equal(vram_buffer_map(buffer, 0, 1, VRAM_MAP_READ, NULL, &pointer),
                     VRAM_ERR_DEVICE_LOST);
    assert_int_equal(vram_buffer_map(buffer, 0, 1, VRAM_MAP_READ, NULL, &pointer),
                     VRAM_ERR_DEVICE_LOST);
    assert_ptr_equal(pointer, &rig);
    assert_false(info_of(buffer).mapped);
    assert_ok(vram_buffer_destroy(buffer));
    vram_context_destroy(rig.context);
}

/* ---------------------------------------------------------------------- resizing */

/* Every kind grows and shrinks with its contents; memory of the program's own does neither. */
static void every_kind_is_resized(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M,real=on,lag=5");
    vram_pool *pool = pool_whole(rig.device);
    for (int kind = VRAM_BUFFER_DEVICE; kind <= VRAM_BUFFER_FALLBACK; kind++) {
        vram_buffer *buffer = buffer_kind(pool, 5000, (vram_buffer_kind)kind, rig.queue);
        vram_memory_kind location = info_of(buffer).location;
        uint8_t *expected = bytes_of(9, 5000), *found = malloc(3 * MIB);
        vram_span span;
        write_all(buffer, 9, rig.queue);
        assert_ok(vram_buffer_resize(buffer, 3 * MIB, NULL));
        assert_int_equal(info_of(buffer).used_bytes, 3 * MIB);
        assert_int_equal(info_of(buffer).location, location);
        assert_ok(vram_buffer_span(buffer, 0, 5000, &span));
        assert_ok(vram_span_download(NULL, found, span));
        assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
        assert_memory_equal(found, expected, 5000);
        assert_ok(vram_buffer_resize(buffer, 100, NULL));
        assert_ok(vram_buffer_fit(buffer, NULL));
        assert_ok(vram_span_download(NULL, found, all_of(buffer)));
        assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
        assert_memory_equal(found, expected, 100);
        assert_int_equal(info_of(buffer).pinned, location == VRAM_MEMORY_PINNED);
        assert_ok(vram_buffer_destroy(buffer));
        free(found);
        free(expected);
    }
    static uint8_t own[4096];
    vram_wrap wrap = {.size = sizeof wrap, .kind = VRAM_WRAP_HOST, .pointer = own, .bytes = 4096};
    vram_buffer *buffer;
    assert_ok(vram_buffer_wrap(pool, &wrap, rig.queue, NULL, &buffer));
    assert_int_equal(vram_buffer_resize(buffer, 8192, NULL), VRAM_ERR_INVALID);
    assert_int_equal(info_of(buffer).capacity_bytes, 4096);
    assert_ptr_equal(info_of(buffer).host, own);
    assert_ok(vram_buffer_destroy(buffer));
    assert_int_equal(stats_of(pool).live_blocks, 0);
    rig_end_clean(&rig);
}

/* --------------------------------------------------------------------- wrapping */

static void host_memory_is_wrapped(void **state) {
    static uint8_t own[8192];
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    vram_pool *pool = pool_whole(rig.device);
    vram_wrap wrap = {.size = sizeof wrap, .kind = VRAM_WRAP_HOST, .pointer = own, .bytes = 8192};
    vram_buffer_options options = {
        .size = sizeof options, .precision = VRAM_PRECISION_FP32, .name = "own"};
    vram_buffer *buffer;
    void *host;
    assert_ok(vram_buffer_wrap(pool, &wrap, rig.queue, &options, &buffer));
    vram_buffer_info info = info_of(buffer);
    assert_true(info.wrapped && !info.pinned);
    assert_int_equal(info.kind, VRAM_BUFFER_PINNED);
    assert_int_equal(info.location, VRAM_MEMORY_HOST);
    assert_int_equal(info.elements, 2048);
    assert_string_equal(info.name, "own");
    assert_ok(vram_buffer_host(buffer, &host));
    assert_ptr_equal(host, own);
    write_all(buffer, 4, rig.queue);
    expect_all(buffer, 4, rig.queue);
    assert_int_equal(own[100], (uint8_t)((100 * 131 + 4 * 977) >> 3));
    assert_int_equal(stats_of(pool).live_blocks, 0);
    assert_int_equal(vram_buffer_promote(buffer, NULL), VRAM_ERR_INVALID);
    assert_ok(vram_buffer_destroy(buffer));
    assert_ok(vram_buffer_wrap(pool, &wrap, rig.queue, NULL, &buffer));
    assert_ok(vram_pool_destroy(pool)); /* forgets it */
    own[0] = 1;
    rig_end_clean(&rig);
}

/* An address of the device's own is as good as any while it is wrapped, and stays the program's. */
static void addresses_are_wrapped(void **state) {
    (void)state;
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

static void bad_wraps_are_refused(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    vram_pool *pool = pool_whole(rig.device);
    vram_buffer *buffer = NULL;
    vram_buffer_options options = {.size = sizeof options};
    vram_wrap good = {.size = sizeof good, .kind = VRAM_WRAP_HOST, .pointer = &rig, .bytes = 8};
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
    struct vr_device_object *device = vr_handle_pin(VR_KIND_DEVICE, rig.device);
    uint32_t caps = device->base.info.caps;
    device->base.info.caps &= ~(uint32_t)VRAM_CAP_TRUE_ADDRESS;
    wrap = (vram_wrap){
        .size = sizeof wrap, .kind = VRAM_WRAP_ADDRESS, .address = 1 << 20, .bytes = 4096};
    options = (vram_buffer_options){.size = sizeof options};
    REFUSED(UNSUPPORTED);
    device->base.info.caps = caps;
    vr_leave(device);
    assert_null(buffer);
    rig_end_clean(&rig);
}

/* The host device maps sealed memory read-only: nobody gets a pointer to write there. */
static void sealed_memory_is_not_mapped_for_writing(void **state) {
    (void)state;
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

int main(void) {
    const struct CMUnitTest tests[] = {
        HERE(acceptance_13_pinned),
        HERE(pageable_memory_needs_leave),
        HERE(acceptance_13_managed),
        HERE(mapped_is_one_address),
        HERE(spans_are_checked_and_stay_right),
        HERE(a_mapping_goes_the_ways_it_says),
        HERE(a_mapping_waits_for_all_work),
        HERE(bad_mappings_are_refused),
        HERE(every_kind_is_resized),
        HERE(host_memory_is_wrapped),
        HERE(addresses_are_wrapped),
        HERE(bad_wraps_are_refused),
        HERE(sealed_memory_is_not_mapped_for_writing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
