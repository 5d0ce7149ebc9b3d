/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_unchanged_sleep.c: a pool that could not fall asleep is awake with its contents, and one
 * that could not wake is asleep with them. Every call below fails in turn; trial_world.h says what
 * holds after each.
 */
#include "unit/trial_world.h"

enum { BLOCKS = 4 };

/* Of a pool beside the scene's own, whose memory is looked at all the while. */
static const uint64_t sizes[BLOCKS] = {96 * 1024, 20 * 1024, 130 * 1024, 64 * 1024};
static const char *const tags[BLOCKS] = {"model/a", "cache", "model/b", NULL};
static vram_addr blocks[BLOCKS];
static uint64_t woken; /* times, by the trial itself */

static void make_sleeper(struct scene *scene) {
    vram_pool *pool;
    woken = 0;
    assert_ok(vram_pool_create(scene->rig.device, NULL, &pool));
    scene->object = pool;
    for (int i = 0; i < BLOCKS; i++) {
        vram_alloc_options options = {.size = sizeof options, .tag = tags[i]};
        assert_ok(vram_alloc_with(pool, sizes[i], scene->rig.queue, &options, &blocks[i]));
        assert_ok(vram_queue_fill(scene->rig.queue, blocks[i], 0x40 + (uint32_t)i, 1, sizes[i]));
    }
    assert_ok(vram_queue_wait(scene->rig.queue, VRAM_TIMEOUT_DEFAULT));
}

static uint64_t asleep_bytes(struct scene *scene) {
    vram_pool_stats stats = {.size = sizeof stats};
    assert_ok(vram_pool_stats_get(scene->object, &stats));
    return stats.asleep_bytes;
}

/* What a lost device has unmapped it does not map again. */
static void look_sleeper(struct scene *scene, struct object_state *state) {
    vram_pool_stats stats = {.size = sizeof stats};
    unsigned char part[512];
    assert_ok(vram_pool_stats_get(scene->object, &stats));
    state_number(state, "sleeper.live", stats.live_blocks);
    state_number(state, "sleeper.requested", stats.requested_bytes);
    state_number(state, "sleeper.sleeps", stats.sleeps);
    if (!state->contents) {
        return;
    }
    state_number(state, "sleeper.wakes", stats.wakes - woken);
    state_number(state, "sleeper.asleep", stats.asleep_bytes);
    state_number(state, "sleeper.asleep_host", stats.asleep_host_bytes);
    for (int i = 0; i < BLOCKS; i++) { /* a block may sleep in part, granule by granule */
        for (uint64_t at = 0; at < sizes[i]; at += 32 * KIB) {
            vram_status status =
                vram_queue_download(scene->rig.queue, part, blocks[i] + at, sizeof part);
            assert_ok(vram_queue_wait(scene->rig.queue, VRAM_TIMEOUT_DEFAULT));
            state_number(state, "sleeper.awake", status == VRAM_OK);
            state_bytes(state, "sleeper.contents", part, status == VRAM_OK ? sizeof part : 0);
        }
    }
    vram_error_clear();
}

static void sleeper_holds(struct scene *scene, bool dropped) {
    static unsigned char found[130 * 1024];
    for (int i = 0; i < BLOCKS; i++) {
        if (dropped && tags[i] && strncmp(tags[i], "model", 5) == 0) {
            continue;
        }
        assert_ok(vram_queue_download(scene->rig.queue, found, blocks[i], sizes[i]));
        assert_ok(vram_queue_wait(scene->rig.queue, VRAM_TIMEOUT_DEFAULT));
        assert_int_equal(found[0], 0x40 + i);
        assert_memory_equal(found, found + 1, sizes[i] - 1);
    }
}
static void sleeper_ends(struct scene *scene, bool dropped) {
    if (asleep_bytes(scene)) {
        assert_ok(vram_pool_wake(scene->object, NULL));
    }
    sleeper_holds(scene, dropped);
    for (int i = 0; i < BLOCKS; i++) {
        assert_ok(vram_free(blocks[i], scene->rig.queue));
    }
    assert_ok(vram_pool_destroy(scene->object));
}
static void end_sleeper(struct scene *scene) {
    sleeper_ends(scene, false);
}
static void end_dropped(struct scene *scene) {
    sleeper_ends(scene, true);
}

/* What a driver has unmapped and refuses to map again stays asleep with its contents, until it is
   woken: pool.h. */
static vram_status fall_asleep(struct scene *scene, vram_sleep_contents contents, const char *tag) {
    vram_sleep_options options = {.size = sizeof options, .contents = contents, .tag = tag};
    vram_status status = vram_pool_sleep(scene->object, &options);
    if (status != VRAM_OK && driver_refuses(scene) && asleep_bytes(scene)) {
        (void)trial_disarm(scene);
        assert_ok(vram_pool_wake(scene->object, NULL));
        woken++;
        sleeper_holds(scene, false);
    }
    return status;
}
static vram_status call_sleep(struct scene *scene) {
    return fall_asleep(scene, VRAM_SLEEP_HOST, NULL);
}
static vram_status call_sleep_pinned(struct scene *scene) {
    return fall_asleep(scene, VRAM_SLEEP_PINNED, NULL);
}
static vram_status call_sleep_tag(struct scene *scene) {
    return fall_asleep(scene, VRAM_SLEEP_HOST, "model");
}
static vram_status call_sleep_drop(struct scene *scene) {
    return fall_asleep(scene, VRAM_SLEEP_DROP, "model");
}

static void make_asleep(struct scene *scene) {
    make_sleeper(scene);
    assert_ok(call_sleep(scene));
}
static void make_asleep_pinned(struct scene *scene) {
    make_sleeper(scene);
    assert_ok(call_sleep_pinned(scene));
}
static vram_status call_wake(struct scene *scene) {
    return vram_pool_wake(scene->object, NULL);
}
static vram_status call_wake_tag(struct scene *scene) {
    return vram_pool_wake(scene->object, "model");
}

static void sleep_and_wake(void **state) {
    static const struct trial trials[] = {
        MARKED("sleep", make_sleeper, call_sleep, look_sleeper, end_sleeper, TRIAL_LOGS),
        MARKED("sleep pinned", make_sleeper, call_sleep_pinned, look_sleeper, end_sleeper,
               TRIAL_LOGS),
        MARKED("sleep by tag", make_sleeper, call_sleep_tag, look_sleeper, end_sleeper, TRIAL_LOGS),
        MARKED("sleep without contents", make_sleeper, call_sleep_drop, look_sleeper, end_dropped,
               TRIAL_LOGS),
        TRIAL("wake", make_asleep, call_wake, look_sleeper, end_sleeper),
        TRIAL("wake pinned", make_asleep_pinned, call_wake, look_sleeper, end_sleeper),
        TRIAL("wake by tag", make_asleep, call_wake_tag, look_sleeper, end_sleeper),
    };
    (void)state;
    SKIP_UNDER(0, true, "such pools do not sleep");
    TRIALS(trials);
}

#define HERE(test) cmocka_unit_test_setup_teardown(test, start, nothing_left)

int main(void) {
    const struct CMUnitTest tests[] = {HERE(sleep_and_wake)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
