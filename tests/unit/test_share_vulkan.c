/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_share_vulkan.c: Vulkan memory in two processes, over lavapipe behind the shim of
 * tests/vulkan. Vulkan maps no memory: each block that is exported is an allocation of its own, and
 * what is opened has an address for each. Failing calls are in tests/drivers.
 */
#include "share_world.h"

#include "vulkan/shim_vulkan.h"

#include <dlfcn.h>

#define FIRST  UINT32_C(0x11223344)
#define SECOND UINT32_C(0x55667788)
#define CANARY UINT32_C(0xc0ffee11)

static struct shim_vulkan_control *shim;

/* --------------------------------------------------------- parts of the child */

static int play_answer(struct share_world *world, const vram_share_token *token,
                       const char *argument) {
    vram_share *share;
    vram_share_part part;
    (void)argument;
    if (vram_share_open(world->device, token, NULL, &share) != VRAM_OK ||
        vram_share_parts_get(share, 0, 1, &part) != VRAM_OK) {
        return 2;
    }
    uint64_t words = part.bytes / 4;
    if (share_count(world, part.addr, part.bytes, FIRST) != words) {
        return 3;
    }
    vram_queue_fill(world->queue, part.addr, SECOND, 4, words * 4);
    vram_queue_wait(world->queue, VRAM_TIMEOUT_DEFAULT);
    return vram_share_close(share) == VRAM_OK ? 0 : 4;
}

/* A neighbour's bytes are in nothing that was imported. */
static int play_scan(struct share_world *world, const vram_share_token *token,
                     const char *argument) {
    vram_share *share;
    vram_share_part part;
    vram_native_info native = {.size = sizeof native};
    vram_share_info info = {.size = sizeof info};
    (void)argument;
    if (vram_share_open(world->device, token, NULL, &share) != VRAM_OK ||
        vram_share_parts_get(share, 0, 1, &part) != VRAM_OK ||
        vram_share_info_get(share, &info) != VRAM_OK || info.handles != 1 ||
        vram_native(part.addr, &native) != VRAM_OK) {
        return 2;
    }
    if (native.bytes != info.bytes || native.offset != 0) {
        return 3;
    }
    return share_count(world, part.addr, info.bytes, CANARY) == 0 ? 0 : 4;
}

static int play_hold(struct share_world *world, const vram_share_token *token,
                     const char *argument) {
    vram_share *share;
    (void)argument;
    if (vram_share_open(world->device, token, NULL, &share) != VRAM_OK) {
        return 2;
    }
    share_tell("x", 1);
    share_rest();
    return 0;
}

static int play_owner(struct share_world *world, const vram_share_token *unused,
                      const char *argument) {
    vram_pool_options options = {.size = sizeof options, .flags = VRAM_POOL_SHAREABLE};
    vram_share *share;
    vram_share_token token;
    (void)unused;
    (void)argument;
    if (vram_pool_create(world->device, &options, &world->pool) != VRAM_OK) {
        return 2;
    }
    share_export_one(share_block(world, 3 * MIB, FIRST), 0, &share, &token);
    share_tell(&token, sizeof token);
    share_rest();
    return 0;
}

static const struct share_part parts[] = {
    {"answer", play_answer}, {"scan", play_scan}, {"hold", play_hold}, {"owner", play_owner}};

/* -------------------------------------------------------------------- contents */

TEST(contents_are_equal_both_ways) {
    struct share_world world;
    struct share_child child;
    vram_share *share;
    vram_share_token token;
    share_world_open(&world, VRAM_POOL_SHAREABLE);
    vram_addr addr = share_block(&world, 5 * MIB + 100, FIRST);
    share_export_one(addr, 0, &share, &token);
    share_spawn(&child, "answer", &token, NULL);
    assert_int_equal(share_end(&child), 0);
    assert_int_equal(share_count(&world, addr, 5 * MIB + 100, SECOND), (5 * MIB + 100) / 4);
    share_await_readers(share, 0);
    assert_ok(vram_share_close(share));
    share_world_close(&world);
}

TEST(a_block_has_no_neighbour) {
    struct share_world world;
    struct share_child child;
    vram_share *share;
    vram_share_token token;
    share_world_open(&world, VRAM_POOL_SHAREABLE);
    vram_addr gone = share_block(&world, 65536, CANARY);
    (void)share_block(&world, 40000, CANARY);
    assert_ok(vram_free(gone, world.queue));
    vram_addr addr = share_block(&world, 40000, FIRST);
    (void)share_block(&world, 40000, CANARY);
    share_export_one(addr, 0, &share, &token);
    share_spawn(&child, "scan", &token, NULL);
    assert_int_equal(share_end(&child), 0);
    share_world_close(&world);
}

/* Blocks of a group lie in several allocations, and each is found where it is. */
TEST(groups_lie_in_several_allocations) {
    enum { COUNT = 60 };
    struct share_world world, other;
    vram_share *share, *opened;
    vram_share_token token;
    vram_addr blocks[COUNT];
    vram_share_part found[COUNT];
    vram_share_info info = {.size = sizeof info};
    share_world_open(&world, VRAM_POOL_SHARE_GROUP);
    share_device_open(&other);
    for (uint32_t i = 0; i < COUNT; i++) {
        blocks[i] = share_block(&world, i % 3 ? 5000 + i : MIB + i, i + 1);
    }
    assert_ok(vram_share_export(blocks, COUNT, NULL, &share));
    assert_ok(vram_share_token_get(share, &token));
    assert_ok(vram_share_open(other.device, &token, NULL, &opened));
    assert_ok(vram_share_info_get(opened, &info));
    assert_true(info.handles > 1 && info.handles < COUNT);
    assert_ok(vram_share_parts_get(opened, 0, COUNT, found));
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_int_equal(found[i].bytes, i % 3 ? 5000 + i : MIB + i);
        assert_int_equal(share_count(&other, found[i].addr, 5000, i + 1), 1250);
    }
    assert_int_equal(vram_queue_fill(other.queue, found[0].addr, 0, 4, 1 << 30), VRAM_ERR_INVALID);
    assert_ok(vram_share_close(opened));
    assert_int_equal(vram_queue_fill(other.queue, found[0].addr, 0, 4, 4), VRAM_ERR_INVALID);
    share_world_close(&other);
    share_world_close(&world);
}

/* ------------------------------------------------------------------------- ends */

TEST(memory_outlives_a_killed_owner) {
    struct share_world world;
    struct share_child owner;
    vram_share *share;
    vram_share_part part;
    vram_share_token token;
    share_device_open(&world);
    share_spawn(&owner, "owner", NULL, NULL);
    share_hear(&owner, &token, sizeof token);
    assert_ok(vram_share_open(world.device, &token, NULL, &share));
    share_kill(&owner);
    assert_ok(vram_share_parts_get(share, 0, 1, &part));
    assert_int_equal(share_count(&world, part.addr, part.bytes, FIRST), part.bytes / 4);
    assert_ok(vram_share_close(share));
    assert_int_equal(vram_share_open(world.device, &token, NULL, &share), VRAM_ERR_STALE);
    share_world_close(&world);
}

TEST(killed_readers_leave_nothing) {
    struct share_world world;
    struct share_child child;
    vram_share *share;
    vram_share_token token;
    share_world_open(&world, VRAM_POOL_SHAREABLE);
    vram_addr addr = share_block(&world, MIB, FIRST);
    share_export_one(addr, 0, &share, &token);
    uint32_t descriptors = descriptors_open();
    for (int i = 0; i < 3; i++) {
        share_spawn(&child, "hold", &token, NULL);
        share_await(&child);
        share_await_readers(share, 1);
        share_kill(&child);
        share_await_readers(share, 0);
    }
    share_await_descriptors(descriptors + 2); /* the timeline, and one that is kept */
    assert_int_equal(share_count(&world, addr, MIB, FIRST), MIB / 4);
    assert_ok(vram_share_close(share));
    share_await_descriptors(descriptors);
    share_world_close(&world);
}

/* --------------------------------------------------------------------- refusals */

static void refused_with(struct share_world *world, const char *reason) {
    vram_pool_options options = {.size = sizeof options, .flags = VRAM_POOL_SHAREABLE};
    vram_share_token token = {{0}};
    vram_share *share = NULL;
    vram_pool *pool = NULL;
    share_device_open(world);
    assert_int_equal(vram_pool_create(world->device, &options, &pool), VRAM_ERR_UNSUPPORTED);
    assert_non_null(strstr(vram_error_get()->text, reason));
    assert_int_equal(vram_share_open(world->device, &token, NULL, &share), VRAM_ERR_UNSUPPORTED);
    share_world_close(world);
}

TEST(drivers_that_cannot_say_why) {
    struct share_world world;
    shim->hide("vkGetMemoryFdKHR");
    refused_with(&world, "vkGetMemoryFdKHR");
    shim->hide(NULL);
    shim->pretence.no_export = true;
    refused_with(&world, "VK_KHR_external_memory_fd");
    shim->pretence.no_export = false;
}

TEST(memory_of_another_driver_is_refused) {
    struct share_world world, other;
    vram_share *share, *opened = NULL;
    vram_share_token token;
    share_world_open(&world, VRAM_POOL_SHAREABLE);
    share_export_one(share_block(&world, MIB, FIRST), 0, &share, &token);
    shim->pretence.other_driver = true;
    share_device_open(&other);
    shim->pretence.other_driver = false;
    assert_int_equal(vram_share_open(other.device, &token, NULL, &opened), VRAM_ERR_UNSUPPORTED);
    assert_non_null(strstr(vram_error_get()->text, "another driver"));
    assert_null(opened);
    share_world_close(&other);
    share_world_close(&world);
}

static int share_end_test(void) {
    share_folder_remove();
    options_reset();
    return await_nothing_held();
}

static int begin_process(void) {
    shim_vulkan_control_fn *get = NULL;
    void *library = dlopen(SHIM_VULKAN_PATH, RTLD_NOW | RTLD_LOCAL);
    void *found = library ? dlsym(library, "shim_vulkan_control") : NULL;
    if (!found) {
        return 1;
    }
    memcpy(&get, &found, sizeof get);
    shim = get();
    shim->reset();
    share_backend = "vulkan";
    return setenv("VRAM_VULKAN_LIBRARY", SHIM_VULKAN_PATH, 1) | setenv("VRAM_LIVE", "off", 1);
}
WHOLE_FILE(begin_process, NULL)

static int play(int count, char **words) {
    return begin_process() || count != 5 ? 2
                                         : share_play(parts, sizeof parts / sizeof parts[0], words);
}
CHILD(play)
EACH_TEST(share_folder_make, share_end_test)
