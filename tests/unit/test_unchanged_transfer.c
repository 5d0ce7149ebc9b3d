/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_unchanged_transfer.c: a transfer that fails has changed nothing, or a part of its target
 * where errors.md says so. Every call below it fails in turn; trial_world.h says what holds after
 * each.
 */
#include "unit/trial_world.h"

#include "vram/feed.h"
#include "vram/readback.h"
#include "vram/stream.h"
#include "vram/transfer.h"

/* Waits for the handle as a program does. A question that the driver does not answer is asked
   again; that the device is lost later on is no failure of the call that submitted. */
static vram_status finish(struct scene *scene, vram_status status, vram_async *async) {
    if (status != VRAM_OK) {
        return status;
    }
    status = vram_async_wait(async, VRAM_TIMEOUT_DEFAULT);
    if (status != VRAM_OK) {
        (void)trial_disarm(scene);
        if (status != VRAM_ERR_DEVICE_LOST) {
            assert_ok(vram_async_wait(async, VRAM_TIMEOUT_DEFAULT));
        }
        vram_error_clear();
    }
    vram_async_end(async);
    return VRAM_OK;
}

/* -------------------------------------------------------------------- transfers */

static vram_status call_upload(struct scene *scene) {
    vram_async async;
    return finish(scene,
                  vram_transfer_upload(scene->rig.queue, scene->target, scene->host, scene->bytes,
                                       NULL, &async),
                  &async);
}
static vram_status call_download(struct scene *scene) {
    vram_async async;
    return finish(scene,
                  vram_transfer_download(scene->rig.queue, scene->host, scene->area, scene->bytes,
                                         NULL, &async),
                  &async);
}
static vram_status call_copy(struct scene *scene) {
    vram_async async;
    return finish(scene,
                  vram_transfer_copy(scene->rig.queue, scene->target, scene->area, scene->bytes,
                                     NULL, &async),
                  &async);
}
static vram_status call_fill(struct scene *scene) {
    vram_async async;
    return finish(
        scene,
        vram_transfer_fill(scene->rig.queue, scene->target, 0x77, 1, scene->bytes, NULL, &async),
        &async);
}
static vram_status call_sync(struct scene *scene) {
    vram_transfer_options sync = {.size = sizeof sync, .strategy = VRAM_TRANSFER_SYNC};
    return vram_transfer_upload(scene->rig.queue, scene->target, scene->host, scene->bytes, &sync,
                                NULL);
}
static vram_status call_2d(struct scene *scene) {
    vram_copy_2d copy = {.first = {.to = scene->target, .from_host = scene->host},
                         .row_bytes = 256,
                         .rows = 16,
                         .to_pitch = 512,
                         .from_pitch = 1024};
    vram_async async;
    return finish(scene, vram_transfer_2d(scene->rig.queue, &copy, NULL, &async), &async);
}
static vram_status call_batch(struct scene *scene) {
    vram_copy copies[12];
    vram_async async;
    for (uint64_t i = 0; i < 12; i++) {
        copies[i] = i % 3 ? (vram_copy){.to = scene->target + i * 1024,
                                        .from_host = scene->host + (11 - i) * 700,
                                        .bytes = 512}
                          : (vram_copy){.to = scene->target + i * 1024,
                                        .from = scene->area + i * 600,
                                        .bytes = 512};
    }
    return finish(scene, vram_transfer_batch(scene->rig.queue, copies, 12, NULL, &async), &async);
}

/* Small ones, which are one call of the driver's each: it is taken or it is not. */
static void small_transfers(void **state) {
    static const struct trial trials[] = {
        MARKED("upload", NULL, call_upload, NULL, NULL, TRIAL_UNDERWAY),
        MARKED("upload, waited for", NULL, call_sync, NULL, NULL, TRIAL_UNDERWAY),
        MARKED("download", NULL, call_download, NULL, NULL, TRIAL_UNDERWAY | TRIAL_WRITES_HOST),
        MARKED("copy", NULL, call_copy, NULL, NULL, TRIAL_UNDERWAY),
        MARKED("fill", NULL, call_fill, NULL, NULL, TRIAL_UNDERWAY),
    };
    (void)state;
    TRIALS(trials);
}

/* In several pieces: once the driver fails in the middle, a part is there. Memory of the host's
   that runs out once is no such failure: the call succeeds, or nothing has changed. */
static void transfers_in_pieces(void **state) {
    static const struct trial trials[] = {
        {.name = "staged upload",
         .call = call_upload,
         .marks = TRIAL_PARTIAL,
         .bytes = SCENE_BYTES,
         .sim = "memory=64M,lag=20"},
        {.name = "staged download",
         .call = call_download,
         .marks = TRIAL_PARTIAL | TRIAL_WRITES_HOST,
         .bytes = SCENE_BYTES,
         .sim = "memory=64M,lag=20"},
        MARKED("2d", NULL, call_2d, NULL, NULL, TRIAL_PARTIAL),
        MARKED("batch", NULL, call_batch, NULL, NULL, TRIAL_PARTIAL),
    };
    (void)state;
    TRIALS(trials);
}

/* The memory of the host or of the driver runs out once, while a transfer is in several pieces: it
   succeeds, or nothing has changed. */
static void memory_that_runs_out_once_leaves_no_part(void **state) {
    static const struct trial trials[] = {{.name = "staged upload",
                                           .call = call_upload,
                                           .bytes = SCENE_BYTES,
                                           .sim = "memory=64M,lag=20"},
                                          {.name = "staged download",
                                           .call = call_download,
                                           .bytes = SCENE_BYTES,
                                           .sim = "memory=64M,lag=20"}};
    (void)state;
    trials_wrong = 0;
    for (int i = 0; i < 2; i++) {
        struct scene scene = scene_make(&trials[i]);
        assert_ok(trials[i].call(&scene));
        struct object_state whole = scene_look(&trials[i], &scene, true);
        scene_end(&trials[i], &scene, true);
        for (size_t fault = TRIAL_MEMORY_ONCE; fault <= TRIAL_DRIVER_MEMORY_ONCE; fault += 2) {
            uint64_t nth = 1;
            while (trial_run(&trials[i], &trial_faults[fault], nth, &whole)) {
                assert_true(++nth < 500);
            }
        }
    }
    assert_int_equal(trials_wrong, 0);
}

/* ------------------------------------------------------------ readbacks and feeds */

static void make_readback(struct scene *scene) {
    vram_readback *readback;
    assert_ok(vram_readback_create(scene->rig.device, NULL, &readback));
    scene->object = readback;
}
static void look_readback(struct scene *scene, struct object_state *state) {
    vram_readback_stats stats = {.size = sizeof stats};
    assert_ok(vram_readback_stats_get(scene->object, &stats));
    state_number(state, "readback.started", stats.started);
    state_number(state, "readback.arrived", stats.arrived);
    state_number(state, "readback.failed", stats.failed);
    state_number(state, "readback.bytes", stats.bytes);
}
static void end_readback(struct scene *scene) {
    vram_frame frame;
    assert_ok(vram_readback_next(scene->object, SECOND, &frame));
    for (uint64_t i = 0; i < scene->bytes; i++) {
        assert_int_equal(((const unsigned char *)frame.data)[i], 0x77);
    }
    assert_ok(vram_readback_give(scene->object, frame.number));
    vram_readback_destroy(scene->object);
}
static vram_status call_readback(struct scene *scene) {
    uint64_t number;
    vram_status status =
        vram_readback_start(scene->object, scene->rig.queue, scene->area, scene->bytes, &number);
    if (status == VRAM_OK) {
        (void)trial_disarm(scene);
        status = vram_readback_wait(scene->object, number, VRAM_TIMEOUT_DEFAULT);
    }
    return status;
}

static void make_feed(struct scene *scene) {
    vram_feed *feed;
    vram_feed_block block;
    assert_ok(vram_feed_create(scene->rig.device, NULL, &feed));
    scene->object = feed;
    assert_ok(vram_feed_begin(feed, scene->bytes, SECOND, &block));
    memcpy(block.data, scene->host, scene->bytes);
    scene->addr = block.number;
}
static void look_feed(struct scene *scene, struct object_state *state) {
    vram_feed_stats stats = {.size = sizeof stats};
    assert_ok(vram_feed_stats_get(scene->object, &stats));
    state_number(state, "feed.submitted", stats.submitted);
    state_number(state, "feed.bytes", stats.bytes);
}
static void end_feed(struct scene *scene) {
    vram_feed_destroy(scene->object);
}
static vram_status call_feed(struct scene *scene) {
    vram_async async;
    return finish(scene,
                  vram_feed_submit(scene->object, scene->addr, scene->rig.queue, scene->target,
                                   scene->bytes, &async),
                  &async);
}

static vram_status call_stream_set(struct scene *scene) {
    vram_stream_set *set;
    vram_status status = vram_stream_set_create(scene->rig.device, NULL, &set);
    scene->object = status == VRAM_OK ? set : NULL;
    return status;
}
static void end_stream_set(struct scene *scene) {
    vram_stream_set_destroy(scene->object);
}

static void objects(void **state) {
    static const struct trial trials[] = {
        MARKED("vram_readback_start", make_readback, call_readback, look_readback, end_readback,
               TRIAL_UNDERWAY),
        MARKED("vram_feed_submit", make_feed, call_feed, look_feed, end_feed, TRIAL_PARTIAL),
        TRIAL("vram_stream_set_create", NULL, call_stream_set, NULL, end_stream_set),
    };
    (void)state;
    TRIALS(trials);
}

#define HERE(test) cmocka_unit_test_setup_teardown(test, start, nothing_left)

int main(void) {
    const struct CMUnitTest tests[] = {HERE(small_transfers), HERE(transfers_in_pieces),
                                       HERE(memory_that_runs_out_once_leaves_no_part),
                                       HERE(objects)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
