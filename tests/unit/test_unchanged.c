/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_unchanged.c: a call that fails has changed nothing. Every call of pools, buffers, scopes,
 * batches and named buffers, with every call below it failing in turn; trial_world.h says what
 * holds after each.
 */
#include "unit/trial_world.h"
#include "vram/named.h"

/* ------------------------------------------------------------------------ pools */

static void look_block(struct scene *scene, struct object_state *state) {
    state_block(state, scene->addr);
    if (scene->addr) {
        state_memory(state, "block.contents", scene->rig.queue, scene->addr, 4 * KIB);
    }
}
static void make_block(struct scene *scene) {
    vram_alloc_options options = {.size = sizeof options, .tag = "a/b", .name = "block"};
    assert_ok(vram_alloc_with(scene->pool, 64 * KIB, scene->rig.queue, &options, &scene->addr));
    assert_ok(vram_queue_fill(scene->rig.queue, scene->addr, 0x44, 1, 64 * KIB));
}
static void end_block(struct scene *scene) {
    assert_ok(vram_free(scene->addr, scene->rig.queue));
}

static vram_status call_alloc(struct scene *scene) {
    return vram_alloc(scene->pool, 200 * KIB, scene->side, &scene->addr);
}
static vram_status call_alloc_with(struct scene *scene) {
    vram_alloc_options options = {
        .size = sizeof options, .tag = "a/b/c", .name = "thing", .elements = 5, .alignment = 4096};
    return vram_alloc_with(scene->pool, 2 * MIB, NULL, &options, &scene->addr);
}
static void look_new_block(struct scene *scene, struct object_state *state) {
    state_number(state, "made", scene->addr != 0);
}
static vram_status call_free(struct scene *scene) {
    vram_status status = vram_free(scene->addr, scene->side);
    scene->addr = status == VRAM_OK ? 0 : scene->addr;
    return status;
}
static vram_status call_resize(struct scene *scene) {
    return vram_resize(scene->addr, 1 * MIB, scene->rig.queue);
}
static vram_status call_shrink(struct scene *scene) {
    return vram_resize(scene->addr, 4 * KIB, scene->rig.queue);
}
static vram_status call_warm(struct scene *scene) {
    return vram_pool_warm(scene->pool, 256 * KIB, 8, scene->rig.queue);
}
static vram_status call_trim(struct scene *scene) {
    return vram_pool_trim(scene->pool, NULL, NULL);
}
static void make_cached(struct scene *scene) {
    make_block(scene);
    for (int i = 0; i < 6; i++) {
        vram_addr addr;
        assert_ok(vram_alloc(scene->pool, (uint64_t)(i + 1) * 100 * KIB, scene->rig.queue, &addr));
        assert_ok(vram_free(addr, scene->rig.queue));
    }
    assert_ok(vram_queue_wait(scene->rig.queue, VRAM_TIMEOUT_DEFAULT));
}
static vram_status call_use(struct scene *scene) {
    return vram_use(scene->addr, scene->side);
}
static vram_status call_pin(struct scene *scene) {
    vram_status status = vram_pin(scene->addr);
    return status == VRAM_OK ? vram_unpin(scene->addr) : status;
}
static vram_status call_pool_create(struct scene *scene) {
    vram_pool_options options = {.size = sizeof options, .name = "another"};
    vram_pool *pool = NULL;
    vram_status status = test_pool_create(scene->rig.device, &options, &pool);
    scene->object = pool;
    return status;
}
static void end_pool(struct scene *scene) {
    assert_ok(vram_pool_destroy(scene->object));
}
static void pools(void **state) {
    static const struct trial trials[] = {
        MARKED("vram_pool_create", NULL, call_pool_create, look_made, end_pool, TRIAL_LOGS),
        TRIAL("vram_alloc", NULL, call_alloc, look_new_block, end_block),
        TRIAL("vram_alloc_with", NULL, call_alloc_with, look_new_block, end_block),
        MARKED("vram_free", make_block, call_free, look_block, NULL, TRIAL_NEVER_FAILS),
        TRIAL("vram_pool_warm", NULL, call_warm, NULL, NULL),
        TRIAL("vram_pool_trim", make_cached, call_trim, look_block, end_block),
        TRIAL("vram_use", make_block, call_use, look_block, end_block),
        TRIAL("vram_pin", make_block, call_pin, look_block, end_block),
    };
    static const struct trial in_place[] = {
        MARKED("vram_resize, larger", make_block, call_resize, look_block, end_block, TRIAL_LOSES),
        TRIAL("vram_resize, smaller", make_block, call_shrink, look_block, end_block),
    };
    (void)state;
    TRIALS(trials);
    if (!pool_has(TEST_POOL_GUARDS) &&
        !pooling_is_off()) { /* there no block changes its size: pool.h */
        TRIALS(in_place);
    }
}

/* ---------------------------------------------------------------------- buffers */

static vram_status create(struct scene *scene, vram_buffer_kind kind) {
    vram_buffer_options options = {
        .size = sizeof options, .kind = kind, .name = "made", .tag = "a/b"};
    return vram_buffer_create(scene->pool, 48 * KIB, scene->rig.queue, &options, &scene->buffer);
}
static void fill_buffer(struct scene *scene) {
    unsigned char data[48 * 1024];
    vram_span span;
    memset(data, 0x5A, sizeof data);
    assert_ok(vram_buffer_span(scene->buffer, 0, sizeof data, &span));
    assert_ok(vram_span_upload(scene->rig.queue, span, data));
    assert_ok(vram_queue_wait(scene->rig.queue, VRAM_TIMEOUT_DEFAULT));
}
static void make_device(struct scene *scene) {
    assert_ok(create(scene, VRAM_BUFFER_DEVICE));
    fill_buffer(scene);
}
static void make_pinned(struct scene *scene) {
    assert_ok(create(scene, VRAM_BUFFER_PINNED));
    fill_buffer(scene);
}
static void make_managed(struct scene *scene) {
    assert_ok(create(scene, VRAM_BUFFER_MANAGED));
    fill_buffer(scene);
}
static void make_fallback(struct scene *scene) {
    assert_ok(create(scene, VRAM_BUFFER_FALLBACK));
    fill_buffer(scene);
}
static void make_demoted(struct scene *scene) {
    make_fallback(scene);
    assert_ok(vram_buffer_demote(scene->buffer, scene->rig.queue));
    assert_ok(vram_queue_wait(scene->rig.queue, VRAM_TIMEOUT_DEFAULT));
}
/* Larger than a granule, with addresses behind it; and more capacity than is in use. */
static void make_growing(struct scene *scene) {
    vram_growth growth = {
        .size = sizeof growth, .policy = VRAM_GROWTH_FACTOR, .factor_ppm = 1500000};
    vram_buffer_options options = {.size = sizeof options, .growth = &growth};
    assert_ok(
        vram_buffer_create(scene->pool, 256 * KIB, scene->rig.queue, &options, &scene->buffer));
    fill_buffer(scene);
    assert_ok(vram_buffer_resize(scene->buffer, 48 * KIB, scene->rig.queue));
}
static void look_buffer(struct scene *scene, struct object_state *state) {
    state_number(state, "made", scene->buffer != NULL);
    if (scene->buffer) {
        state_buffer(state, scene->buffer, scene->rig.queue, 48 * KIB);
    }
}
/* Of a fresh buffer contents are undefined. */
static void look_created(struct scene *scene, struct object_state *state) {
    state_number(state, "made", scene->buffer != NULL);
}
static void end_buffer(struct scene *scene) {
    assert_ok(vram_buffer_destroy(scene->buffer));
}

static vram_status call_create_device(struct scene *scene) {
    return create(scene, VRAM_BUFFER_DEVICE);
}
static vram_status call_create_pinned(struct scene *scene) {
    return create(scene, VRAM_BUFFER_PINNED);
}
static vram_status call_create_managed(struct scene *scene) {
    return create(scene, VRAM_BUFFER_MANAGED);
}
static vram_status call_create_fallback(struct scene *scene) {
    return create(scene, VRAM_BUFFER_FALLBACK);
}
static vram_status call_grow(struct scene *scene) {
    return vram_buffer_resize(scene->buffer, 3 * MIB, scene->rig.queue);
}
static vram_status call_resize_buffer(struct scene *scene) {
    return vram_buffer_resize(scene->buffer, 4 * KIB, scene->rig.queue);
}
static vram_status call_reserve(struct scene *scene) {
    return vram_buffer_reserve(scene->buffer, 3 * MIB, scene->rig.queue);
}
static vram_status call_reserve_on_side(struct scene *scene) {
    return vram_buffer_reserve(scene->buffer, 3 * MIB, scene->side);
}
static vram_status call_fit(struct scene *scene) {
    return vram_buffer_fit(scene->buffer, scene->rig.queue);
}
static vram_status call_promote(struct scene *scene) {
    return vram_buffer_promote(scene->buffer, scene->rig.queue);
}
static vram_status call_demote(struct scene *scene) {
    return vram_buffer_demote(scene->buffer, scene->side);
}
static vram_status call_buffer_use(struct scene *scene) {
    return vram_buffer_use(scene->buffer, scene->side);
}
static vram_status call_destroy(struct scene *scene) {
    vram_status status = vram_buffer_destroy(scene->buffer);
    scene->buffer = status == VRAM_OK ? NULL : scene->buffer;
    return status;
}
static vram_status call_map(struct scene *scene) {
    void *pointer;
    return vram_buffer_map(scene->buffer, 0, 48 * KIB, VRAM_MAP_READ | VRAM_MAP_WRITE,
                           scene->rig.queue, &pointer);
}
static void end_mapped(struct scene *scene) {
    assert_ok(vram_buffer_unmap(scene->buffer));
    assert_ok(vram_buffer_destroy(scene->buffer));
}
static void make_mapped(struct scene *scene) {
    void *pointer;
    make_device(scene);
    assert_ok(vram_buffer_map(scene->buffer, 0, 48 * KIB, VRAM_MAP_READ | VRAM_MAP_WRITE,
                              scene->side, &pointer));
    memset(pointer, 0x66, 48 * KIB);
}
static vram_status call_unmap(struct scene *scene) {
    return vram_buffer_unmap(scene->buffer);
}
static vram_span span_of(struct scene *scene) {
    vram_span span;
    assert_ok(vram_buffer_span(scene->buffer, 0, scene->bytes, &span));
    return span;
}
static vram_status call_span_upload(struct scene *scene) {
    return vram_span_upload(NULL, span_of(scene), scene->host);
}
static vram_status call_span_upload_on_side(struct scene *scene) {
    return vram_span_upload(scene->side, span_of(scene), scene->host);
}
static vram_status call_span_download(struct scene *scene) {
    return vram_span_download(NULL, scene->host, span_of(scene));
}
static vram_status call_span_download_on_side(struct scene *scene) {
    return vram_span_download(scene->side, scene->host, span_of(scene));
}
static void look_buffer_and_host(struct scene *scene, struct object_state *state) {
    state_buffer(state, scene->buffer, scene->rig.queue, 48 * KIB);
}

static void buffers(void **state) {
    static const struct trial trials[] = {
        TRIAL("create device", NULL, call_create_device, look_created, end_buffer),
        TRIAL("create pinned", NULL, call_create_pinned, look_created, end_buffer),
        TRIAL("create managed", NULL, call_create_managed, look_created, end_buffer),
        TRIAL("create fallback", NULL, call_create_fallback, look_created, end_buffer),
        TRIAL("reserve device", make_device, call_reserve, look_buffer, end_buffer),
        TRIAL("reserve growing", make_growing, call_reserve, look_buffer, end_buffer),
        TRIAL("reserve pinned", make_pinned, call_reserve, look_buffer, end_buffer),
        TRIAL("reserve managed", make_managed, call_reserve, look_buffer, end_buffer),
        TRIAL("reserve fallback", make_fallback, call_reserve, look_buffer, end_buffer),
        TRIAL("reserve demoted", make_demoted, call_reserve, look_buffer, end_buffer),
        TRIAL("reserve on another queue", make_device, call_reserve_on_side, look_buffer,
              end_buffer),
        TRIAL("resize device", make_device, call_grow, look_buffer, end_buffer),
        TRIAL("resize growing", make_growing, call_grow, look_buffer, end_buffer),
        TRIAL("resize pinned", make_pinned, call_grow, look_buffer, end_buffer),
        TRIAL("resize fallback", make_fallback, call_grow, look_buffer, end_buffer),
        TRIAL("resize to less", make_device, call_resize_buffer, look_buffer, end_buffer),
        TRIAL("fit", make_growing, call_fit, look_buffer, end_buffer),
        TRIAL("promote", make_demoted, call_promote, look_buffer, end_buffer),
        TRIAL("demote", make_fallback, call_demote, look_buffer, end_buffer),
        TRIAL("use", make_device, call_buffer_use, look_buffer, end_buffer),
        MARKED("destroy device", make_device, call_destroy, look_created, NULL, TRIAL_NEVER_FAILS),
        MARKED("destroy demoted", make_demoted, call_destroy, look_created, NULL,
               TRIAL_NEVER_FAILS),
        TRIAL("map", make_device, call_map, look_buffer, end_mapped),
        MARKED("unmap", make_mapped, call_unmap, look_buffer, end_buffer, TRIAL_PARTIAL),
        TRIAL("span upload", make_device, call_span_upload, look_buffer_and_host, end_buffer),
        MARKED("span upload on another queue", make_device, call_span_upload_on_side,
               look_buffer_and_host, end_buffer, TRIAL_UNDERWAY),
        TRIAL("span upload pinned", make_pinned, call_span_upload, look_buffer_and_host,
              end_buffer),
        TRIAL("span download", make_device, call_span_download, look_buffer_and_host, end_buffer),
        MARKED("span download on another queue", make_device, call_span_download_on_side,
               look_buffer_and_host, end_buffer, TRIAL_UNDERWAY | TRIAL_WRITES_HOST),
    };
    (void)state;
    TRIALS(trials);
}

/* ------------------------------------------------------------- scopes and batches */

static void make_scope(struct scene *scene) {
    vram_scope *scope;
    vram_addr addr;
    assert_ok(vram_scope_begin(scene->pool, NULL, &scope));
    scene->object = scope;
    for (int i = 0; i < 3; i++) {
        assert_ok(vram_scope_alloc(scope, 8 * KIB, scene->rig.queue, &addr));
    }
    make_block(scene);
    make_device(scene);
}
static void look_scope(struct scene *scene, struct object_state *state) {
    if (scene->object) {
        state_scope(state, scene->object);
    }
}
static void end_scope(struct scene *scene) {
    assert_ok(vram_scope_end(scene->object));
    (void)vram_free(scene->addr, scene->rig.queue); /* if the scope has not */
    (void)vram_buffer_destroy(scene->buffer);
}
static vram_status call_scope_alloc(struct scene *scene) {
    vram_addr addr;
    return vram_scope_alloc(scene->object, 300 * KIB, scene->side, &addr);
}
static vram_status call_scope_give(struct scene *scene) {
    return vram_scope_give(scene->object, scene->addr, scene->side);
}
static vram_status call_scope_buffer_give(struct scene *scene) {
    return vram_scope_buffer_give(scene->object, scene->buffer);
}
static vram_status call_scope_buffer_create(struct scene *scene) {
    vram_buffer *buffer;
    return vram_scope_buffer_create(scene->object, 300 * KIB, scene->side, NULL, &buffer);
}
static vram_status call_scope_alloc_with(struct scene *scene) {
    vram_alloc_options options = {.size = sizeof options, .tag = "a/b/c", .name = "thing"};
    vram_addr addr;
    return vram_scope_alloc_with(scene->object, 300 * KIB, NULL, &options, &addr);
}
/* A block and a buffer of the scope's own. */
static void make_owning_scope(struct scene *scene) {
    make_scope(scene);
    assert_ok(vram_scope_give(scene->object, scene->addr, scene->rig.queue));
    assert_ok(vram_scope_buffer_give(scene->object, scene->buffer));
}
static void look_owning_scope(struct scene *scene, struct object_state *state) {
    look_scope(scene, state);
    look_block(scene, state);
    look_buffer(scene, state);
}
static vram_status call_scope_free(struct scene *scene) {
    vram_status status = vram_scope_free(scene->object, scene->addr, scene->side);
    scene->addr = status == VRAM_OK ? 0 : scene->addr;
    return status;
}
static vram_status call_scope_take(struct scene *scene) {
    return vram_scope_take(scene->object, scene->addr);
}
static vram_status call_scope_buffer_take(struct scene *scene) {
    return vram_scope_buffer_take(scene->object, scene->buffer);
}
static vram_status call_scope_begin(struct scene *scene) {
    vram_scope *inner;
    return vram_scope_begin(scene->pool, scene->object, &inner);
}
static vram_status call_scope_end(struct scene *scene) {
    vram_status status = vram_scope_end(scene->object);
    scene->object = NULL;
    return status;
}
static void end_after_scope(struct scene *scene) {
    end_block(scene);
    end_buffer(scene);
}

static void make_batch(struct scene *scene) {
    vram_batch *batch;
    vram_batch_item item = {.size = sizeof item,
                            .elements = 5000,
                            .precision = VRAM_PRECISION_FP32,
                            .host = scene->host,
                            .host_bytes = 20000};
    uint32_t first;
    assert_ok(vram_batch_create(scene->pool, scene->rig.queue, NULL, &batch));
    scene->object = batch;
    assert_ok(vram_batch_add(batch, &item, 1, &first));
    assert_ok(vram_queue_wait(scene->rig.queue, VRAM_TIMEOUT_DEFAULT));
    make_device(scene);
}
static void look_batch(struct scene *scene, struct object_state *state) {
    if (scene->object) {
        state_batch(state, scene->object, scene->rig.queue);
    }
}
static void end_batch(struct scene *scene) {
    assert_ok(vram_batch_destroy(scene->object));
    (void)vram_buffer_destroy(scene->buffer);
}
static vram_status call_batch_add(struct scene *scene) {
    vram_batch_item items[3];
    uint32_t first;
    for (int i = 0; i < 3; i++) {
        items[i] = (vram_batch_item){.size = sizeof items[i],
                                     .elements = 5000,
                                     .kind = i == 2 ? VRAM_BUFFER_PINNED : VRAM_BUFFER_DEVICE,
                                     .host = scene->host + i * 64,
                                     .host_bytes = 5000};
    }
    return vram_batch_add(scene->object, items, 3, &first);
}
static vram_status call_batch_give(struct scene *scene) {
    uint32_t index;
    return vram_batch_give(scene->object, scene->buffer, &index);
}
static vram_status call_batch_create(struct scene *scene) {
    vram_batch *batch = NULL;
    vram_status status = vram_batch_create(scene->pool, scene->rig.queue, NULL, &batch);
    scene->object = batch;
    return status;
}
static vram_status call_batch_destroy(struct scene *scene) {
    vram_status status = vram_batch_destroy(scene->object);
    scene->object = NULL;
    return status;
}

static void make_named(struct scene *scene) {
    vram_named *named;
    vram_buffer *buffer;
    assert_ok(vram_named_create(scene->pool, scene->rig.queue, NULL, &named));
    scene->object = named;
    assert_ok(vram_named_add(named, "one", 30000, NULL, &buffer));
    scene->buffer = buffer;
    vram_span span;
    assert_ok(vram_buffer_span(buffer, 0, 24 * KIB, &span));
    assert_ok(vram_buffer_resize(buffer, 24 * KIB, scene->rig.queue));
    assert_ok(vram_span_upload(NULL, span, scene->host));
    assert_ok(vram_queue_wait(scene->rig.queue, VRAM_TIMEOUT_DEFAULT));
}
static void look_named(struct scene *scene, struct object_state *state) {
    vram_named_stats stats = {.size = sizeof stats};
    if (!scene->object) {
        return;
    }
    assert_ok(vram_named_stats_get(scene->object, &stats));
    state_number(state, "named.buffers", stats.buffers);
    state_number(state, "named.used", stats.used_bytes);
    state_number(state, "@named.total", stats.total_bytes);
    state_number(state, "named.created", stats.created);
    state_number(state, "named.removed", stats.removed);
    state_number(state, "named.resizes", stats.resizes);
    if (scene->buffer) {
        state_buffer(state, scene->buffer, scene->rig.queue, 48 * KIB);
    }
}
static void end_named(struct scene *scene) {
    assert_ok(vram_named_destroy(scene->object));
}
static vram_status call_named_add(struct scene *scene) {
    vram_buffer *buffer;
    vram_named_config config = {.size = sizeof config, .precision = VRAM_PRECISION_FP32};
    return vram_named_add(scene->object, "two", 90000, &config, &buffer);
}
static vram_status call_named_get_or_create(struct scene *scene) {
    vram_buffer *buffer;
    return vram_named_get_or_create(scene->object, "three", 90000, NULL, &buffer);
}
static vram_status call_named_config_set(struct scene *scene) {
    vram_named_config config = {.size = sizeof config};
    return vram_named_config_set(scene->object, "four", &config);
}
static vram_status call_named_create(struct scene *scene) {
    vram_named *named = NULL;
    vram_status status = vram_named_create(scene->pool, scene->rig.queue, NULL, &named);
    scene->object = named;
    return status;
}
/* In place and, far past the capacity, by a copy. */
static vram_status call_named_ensure(struct scene *scene) {
    vram_buffer *buffer;
    return vram_named_ensure(scene->object, "one", 28 * KIB, &buffer);
}
static vram_status call_named_ensure_more(struct scene *scene) {
    return vram_named_ensure(scene->object, "one", 3 * MIB, NULL);
}
static void make_unused(struct scene *scene) {
    make_named(scene);
    assert_ok(vram_buffer_resize(scene->buffer, 0, scene->rig.queue));
}
static vram_status call_named_cleanup(struct scene *scene) {
    uint64_t bytes;
    vram_status status = vram_named_cleanup(scene->object, 0, &bytes);
    scene->buffer = status == VRAM_OK ? NULL : scene->buffer;
    return status;
}
static vram_status call_named_destroy(struct scene *scene) {
    vram_status status = vram_named_destroy(scene->object);
    scene->object = NULL;
    return status;
}
static vram_status call_named_remove(struct scene *scene) {
    vram_status status = vram_named_remove(scene->object, "one");
    scene->buffer = status == VRAM_OK ? NULL : scene->buffer;
    return status;
}

static void scopes_and_lists(void **state) {
    static const struct trial trials[] = {
        TRIAL("vram_scope_alloc", make_scope, call_scope_alloc, look_scope, end_scope),
        TRIAL("vram_scope_give", make_scope, call_scope_give, look_scope, end_scope),
        TRIAL("vram_scope_buffer_give", make_scope, call_scope_buffer_give, look_scope, end_scope),
        TRIAL("vram_scope_buffer_create", make_scope, call_scope_buffer_create, look_scope,
              end_scope),
        TRIAL("vram_scope_alloc_with", make_scope, call_scope_alloc_with, look_scope, end_scope),
        MARKED("vram_scope_free", make_owning_scope, call_scope_free, look_owning_scope, end_scope,
               TRIAL_NEVER_FAILS),
        TRIAL("vram_scope_take", make_owning_scope, call_scope_take, look_owning_scope, end_scope),
        TRIAL("vram_scope_buffer_take", make_owning_scope, call_scope_buffer_take,
              look_owning_scope, end_scope),
        TRIAL("vram_scope_begin", make_scope, call_scope_begin, look_scope, end_scope),
        MARKED("vram_scope_end", make_scope, call_scope_end, look_scope, end_after_scope,
               TRIAL_NEVER_FAILS),
        TRIAL("vram_batch_create", NULL, call_batch_create, look_batch, end_batch),
        TRIAL("vram_batch_add", make_batch, call_batch_add, look_batch, end_batch),
        TRIAL("vram_batch_give", make_batch, call_batch_give, look_batch, end_batch),
        MARKED("vram_batch_destroy", make_batch, call_batch_destroy, look_batch, end_buffer,
               TRIAL_NEVER_FAILS),
        TRIAL("vram_named_create", NULL, call_named_create, look_named, end_named),
        TRIAL("vram_named_add", make_named, call_named_add, look_named, end_named),
        TRIAL("vram_named_get_or_create", make_named, call_named_get_or_create, look_named,
              end_named),
        TRIAL("vram_named_config_set", make_named, call_named_config_set, look_named, end_named),
        TRIAL("vram_named_ensure", make_named, call_named_ensure, look_named, end_named),
        TRIAL("vram_named_ensure more", make_named, call_named_ensure_more, look_named, end_named),
        MARKED("vram_named_cleanup", make_unused, call_named_cleanup, look_named, end_named,
               TRIAL_NEVER_FAILS),
        MARKED("vram_named_destroy", make_named, call_named_destroy, look_named, NULL,
               TRIAL_NEVER_FAILS),
        MARKED("vram_named_remove", make_named, call_named_remove, look_named, end_named,
               TRIAL_NEVER_FAILS),
    };
    (void)state;
    TRIALS(trials);
}

#define HERE(test) cmocka_unit_test_setup_teardown(test, start, nothing_left)

int main(void) {
    const struct CMUnitTest tests[] = {HERE(pools), HERE(buffers), HERE(scopes_and_lists)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
