/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_mem_steps.c: a call on a batch, a scope, a manager of names or a buffer, while a second
 * thread ends something or makes the same call, before each step of the call in its turn: one of
 * the documented statuses, and nothing is left.
 */
#include "unit/mem_world.h"
#include "unit/step_world.h"
#include "vram/batch.h"
#include "vram/buffer.h"
#include "vram/named.h"
#include "vram/scope.h"

enum { BYTES = 4096, STEPS_MOST = 2000 };

/* All that the calls use. Blocks and buffers outside of the owners belong to the pool. */
struct world {
    struct rig rig;
    vram_pool *pool;
    vram_queue *second;
    vram_batch *batch;
    vram_scope *scope;
    vram_named *named, *narrow; /* `narrow` has room for one buffer more */
    vram_buffer *buffer;        /* of the kind fallback, with the rig's queue */
    vram_buffer *managed;
    vram_buffer *loose; /* without a queue */
    vram_addr block;
    vram_status status, meanwhile;
    void *mapped;
};

static const char *world_sim = "memory=64M,real=on";

static void world_make(struct world *world) {
    vram_named_options narrow = {.size = sizeof narrow, .limit_bytes = BYTES + BYTES / 2};
    vram_buffer_options fallback = {.size = sizeof fallback, .kind = VRAM_BUFFER_FALLBACK};
    vram_buffer_options managed = {.size = sizeof managed, .kind = VRAM_BUFFER_MANAGED};
    vram_scope *inner;
    vram_buffer *there;
    *world = (struct world){.rig = rig_make("sim", world_sim)};
    vram_queue *queue = world->rig.queue;
    world->pool = pool_of(&world->rig, 0);
    assert_ok(vram_queue_create(world->rig.device, NULL, &world->second));
    assert_ok(vram_batch_create(world->pool, queue, NULL, &world->batch));
    assert_ok(vram_scope_begin(world->pool, NULL, &world->scope));
    assert_ok(vram_scope_begin(world->pool, world->scope, &inner));
    assert_ok(vram_named_create(world->pool, queue, NULL, &world->named));
    assert_ok(vram_named_create(world->pool, queue, &narrow, &world->narrow));
    assert_ok(vram_buffer_create(world->pool, BYTES, queue, &fallback, &world->buffer));
    assert_ok(vram_buffer_create(world->pool, BYTES, queue, &managed, &world->managed));
    assert_ok(vram_buffer_create(world->pool, BYTES, NULL, NULL, &world->loose));
    assert_ok(vram_alloc(world->pool, BYTES, queue, &world->block));
    assert_ok(vram_named_add(world->named, "there", BYTES, NULL, &there));
}

static void world_end(struct world *world) {
    (void)vram_context_destroy(world->rig.context);
}

/* ------------------------------------------------------------------------ calls */

static void batch_add(void *argument) {
    static const char host[BYTES];
    struct world *world = argument;
    vram_batch_item items[2] = {
        {.size = sizeof items[0], .elements = BYTES},
        {.size = sizeof items[0], .elements = BYTES, .host = host, .host_bytes = BYTES}};
    uint32_t first;
    world->status = vram_batch_add(world->batch, items, 2, &first);
}

static void batch_give(void *argument) {
    struct world *world = argument;
    uint32_t index;
    world->status = vram_batch_give(world->batch, world->loose, &index);
}

static void batch_destroy(void *argument) {
    struct world *world = argument;
    world->status = vram_batch_destroy(world->batch);
}

static void scope_begin(void *argument) {
    struct world *world = argument;
    vram_scope *inner;
    world->status = vram_scope_begin(world->pool, world->scope, &inner);
}

static void scope_alloc(void *argument) {
    struct world *world = argument;
    vram_addr addr;
    world->status = vram_scope_alloc(world->scope, BYTES, world->rig.queue, &addr);
}

static void scope_give(void *argument) {
    struct world *world = argument;
    world->status = vram_scope_give(world->scope, world->block, world->rig.queue);
}

static void scope_buffer_give(void *argument) {
    struct world *world = argument;
    world->status = vram_scope_buffer_give(world->scope, world->loose);
}

static void scope_end(void *argument) {
    struct world *world = argument;
    world->status = vram_scope_end(world->scope);
}

static void named_config_set(void *argument) {
    struct world *world = argument;
    vram_named_config config = {.size = sizeof config};
    world->status = vram_named_config_set(world->named, "there", &config);
}

static void named_add(void *argument) {
    struct world *world = argument;
    vram_buffer *buffer;
    world->status = vram_named_get_or_create(world->named, "new", BYTES, NULL, &buffer);
}

static void narrow_add(void *argument) {
    struct world *world = argument;
    vram_buffer *buffer;
    world->status = vram_named_get_or_create(world->narrow, "new", BYTES, NULL, &buffer);
}

static void named_ensure(void *argument) {
    struct world *world = argument;
    world->status = vram_named_ensure(world->named, "there", 1 << 20, NULL);
}

static void named_remove(void *argument) {
    struct world *world = argument;
    world->status = vram_named_remove(world->named, "there");
}

static void named_info(void *argument) {
    struct world *world = argument;
    vram_named_info info = {.size = sizeof info};
    world->status = vram_named_info_get(world->named, "there", &info);
}

static void named_info_at(void *argument) {
    struct world *world = argument;
    vram_named_info info = {.size = sizeof info};
    world->status = vram_named_info_at(world->named, 0, &info);
}

static void named_cleanup(void *argument) {
    struct world *world = argument;
    vram_buffer *buffer;
    world->status = vram_named_get(world->named, "there", NULL, &buffer);
    if (world->status == VRAM_OK) {
        world->status = vram_buffer_resize(buffer, 0, NULL);
    }
    if (world->status == VRAM_OK) {
        world->status = vram_named_cleanup(world->named, 0, NULL);
    }
}

static bool write_nothing(void *user, const char *text, size_t bytes) {
    (void)user, (void)text, (void)bytes;
    return true;
}

static void named_write(void *argument) {
    struct world *world = argument;
    world->status = vram_named_write(world->named, VRAM_REPORT_TEXT, write_nothing, NULL);
}

static void buffer_map(void *argument) {
    struct world *world = argument;
    world->status = vram_buffer_map(world->buffer, 0, BYTES, VRAM_MAP_READ | VRAM_MAP_WRITE, NULL,
                                    &world->mapped);
    if (world->status == VRAM_OK) {
        world->status = vram_buffer_unmap(world->buffer);
    }
}

static void buffer_unmap(void *argument) {
    struct world *world = argument;
    world->status = vram_buffer_unmap(world->buffer);
}

static void loose_destroy(void *argument) {
    struct world *world = argument;
    world->status = vram_buffer_destroy(world->loose);
}

static void buffer_upload(void *argument) {
    static const char host[BYTES];
    struct world *world = argument;
    vram_span span = {.buffer = world->buffer, .bytes = BYTES};
    world->status = vram_span_upload(world->second, span, host);
}

static void buffer_demote(void *argument) {
    struct world *world = argument;
    world->status = vram_buffer_demote(world->buffer, world->second);
    if (world->status == VRAM_OK) {
        world->status = vram_buffer_promote(world->buffer, world->second);
    }
}

static void buffer_resize(void *argument) {
    struct world *world = argument;
    world->status = vram_buffer_resize(world->buffer, 1 << 20, world->second);
}

static void buffer_prefetch(void *argument) {
    struct world *world = argument;
    world->status = vram_buffer_prefetch(world->managed, 0, BYTES, 0, NULL);
}

static void buffer_destroy(void *argument) {
    struct world *world = argument;
    world->status = vram_buffer_destroy(world->buffer);
}

static void pool_demote(void *argument) {
    struct world *world = argument;
    world->status = vram_pool_demote(world->pool, UINT64_MAX, world->second, NULL);
}

static void pool_trim(void *argument) {
    struct world *world = argument;
    vram_trim_options options = {.size = sizeof options, .flags = VRAM_TRIM_BUFFERS};
    uint64_t bytes;
    world->status = vram_pool_trim(world->pool, &options, &bytes);
}

/* ------------------------------------------------------------------- meanwhile */

/* The same call, by the second thread, with a copy of the world from before the call. */
static step_fn *again_call;
static struct world again_world;

static void again(void *argument) {
    struct world *world = argument;
    again_call(&again_world);
    world->meanwhile = again_world.status;
}

static void end_owners(void *argument) {
    struct world *world = argument;
    (void)vram_batch_destroy(world->batch);
    (void)vram_scope_end(world->scope);
    (void)vram_named_destroy(world->named);
    (void)vram_named_destroy(world->narrow);
}

static void end_mapping(void *argument) {
    struct world *world = argument;
    (void)vram_buffer_unmap(world->buffer);
}

static void end_buffers(void *argument) {
    struct world *world = argument;
    vram_buffer *there;
    if (vram_named_get(world->named, "there", NULL, &there) == VRAM_OK) {
        (void)vram_buffer_destroy(there);
    }
    (void)vram_buffer_destroy(world->buffer);
    (void)vram_buffer_destroy(world->managed);
    (void)vram_buffer_destroy(world->loose);
}

static void end_queue(void *argument) {
    struct world *world = argument;
    (void)vram_queue_destroy(world->rig.queue);
}

static void end_second(void *argument) {
    struct world *world = argument;
    (void)vram_queue_destroy(world->second);
}

static void end_pool(void *argument) {
    struct world *world = argument;
    (void)vram_pool_destroy(world->pool);
}

static void end_device(void *argument) {
    struct world *world = argument;
    (void)vram_device_close(world->rig.device);
}

/* ----------------------------------------------------------------------- tests */

static bool is_allowed(vram_status status) {
    return status == VRAM_OK || status == VRAM_ERR_STALE || status == VRAM_ERR_BUSY ||
           status == VRAM_ERR_INVALID;
}

/* `call` was unmap: the buffer is mapped before. */
static void world_prepare(struct world *world, step_fn *call) {
    world_make(world);
    if (call == buffer_unmap) {
        assert_ok(vram_buffer_map(world->buffer, 0, BYTES, VRAM_MAP_WRITE, NULL, &world->mapped));
    }
}

static void at_every_step(step_fn *call, step_fn *meanwhile) {
    again_call = call;
    for (uint64_t at = 1; at < STEPS_MOST; at += FAULT_STEP) {
        struct world world;
        world_prepare(&world, call);
        again_world = world;
        bool was = step_call(call, meanwhile, &world, at);
        /* Either of two that add the same finds no room while the other has reserved it. */
        bool reserved =
            call == narrow_add && (world.status == VRAM_OK) != (world.meanwhile == VRAM_OK);
        if (!(is_allowed(world.status) || (reserved && world.status == VRAM_ERR_LIMIT)) ||
            !(is_allowed(world.meanwhile) || (reserved && world.meanwhile == VRAM_ERR_LIMIT))) {
            fail_msg("step %llu: %s, meanwhile %s: %s", (unsigned long long)at,
                     vram_status_name(world.status), vram_status_name(world.meanwhile),
                     vram_error_get()->text);
        }
        world_end(&world);
        if (!was) {
            assert_ok(world.status);
            return;
        }
    }
    fail_msg("the call has no end");
}

/* Each call with each of the ends, and with itself; NULL is behind the last of both lists. */
static void try_all(step_fn *const *calls, step_fn *const *ends) {
    for (; *calls; calls++) {
        at_every_step(*calls, again);
        for (step_fn *const *end = ends; *end; end++) {
            at_every_step(*calls, *end);
        }
    }
}

static step_fn *const owner_ends[] = {end_owners, end_buffers, end_queue,
                                      end_pool,   end_device,  NULL};
static step_fn *const buffer_ends[] = {end_buffers, end_queue,  end_second, end_mapping,
                                       end_pool,    end_device, NULL};

static void batches(void **state) {
    static step_fn *const calls[] = {batch_add, batch_give, batch_destroy, NULL};
    (void)state;
    try_all(calls, owner_ends);
}

static void scopes(void **state) {
    static step_fn *const calls[] = {scope_begin,       scope_alloc, scope_give,
                                     scope_buffer_give, scope_end,   NULL};
    (void)state;
    try_all(calls, owner_ends);
}

static void names(void **state) {
    static step_fn *const calls[] = {named_config_set, named_add,     named_ensure,  named_remove,
                                     named_info,       named_info_at, named_cleanup, named_write,
                                     narrow_add,       NULL};
    (void)state;
    try_all(calls, owner_ends);
}

/* A thread that finds a buffer being grown does not wait for it for ever. */
static void growers_wait_no_longer_than_told(void **state) {
    (void)state;
    assert_ok(vram_option_set("wait_timeout", "20ms"));
    world_sim = "memory=64M";
    at_every_step(named_ensure, again);
    world_sim = "memory=64M,real=on";
}

static void buffers(void **state) {
    static step_fn *const calls[] = {buffer_upload,   buffer_demote,  buffer_resize,
                                     buffer_prefetch, buffer_destroy, loose_destroy,
                                     pool_demote,     pool_trim,      NULL};
    (void)state;
    try_all(calls, buffer_ends);
}

/* The host reaches the memory itself, or a copy. */
static void mappings(void **state) {
    static const char *const sims[] = {"memory=64M,real=on", "memory=64M"};
    static step_fn *const calls[] = {buffer_map, buffer_unmap, NULL};
    (void)state;
    for (int i = 0; i < 2; i++) {
        world_sim = sims[i];
        try_all(calls, buffer_ends);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(batches, start, nothing_left),
        cmocka_unit_test_setup_teardown(scopes, start, nothing_left),
        cmocka_unit_test_setup_teardown(names, start, nothing_left),
        cmocka_unit_test_setup_teardown(growers_wait_no_longer_than_told, start, nothing_left),
        cmocka_unit_test_setup_teardown(buffers, start, nothing_left),
        cmocka_unit_test_setup_teardown(mappings, start, nothing_left),
    };
    return cmocka_run_group_tests_name("mem_steps", tests, NULL, NULL);
}
