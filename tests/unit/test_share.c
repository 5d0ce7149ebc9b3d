/* SPDX-License-Identifier: Apache-2.0 */
/* test_share.c: memory in two processes: contents, neighbours, ends in every order, time, names. */
#include "share_world.h"

#include "unit/fault_step.h"

#include <stdatomic.h>

#define FIRST  UINT32_C(0x11223344)
#define SECOND UINT32_C(0x55667788)
#define LONG   UINT64_C(10000000000)

static const char *const backends[] = {"host", "sim"
#ifdef FAKE_CUDA_PATH
                                       ,
                                       "cuda"
#endif
#ifdef FAKE_HIP_PATH
                                       ,
                                       "hip"
#endif
};
enum { BACKENDS = sizeof backends / sizeof backends[0] };

/* --------------------------------------------------------- parts of the child */

/* Opens, tells the parent and keeps it until the parent says so. */
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

/* Exports, passes the token to the parent and waits to be killed. */
static int play_owner(struct share_world *world, const vram_share_token *unused,
                      const char *argument) {
    vram_pool_options options = {.size = sizeof options, .flags = VRAM_POOL_SHAREABLE};
    vram_share *share;
    vram_share_token token;
    (void)unused;
    if (vram_pool_create(world->device, &options, &world->pool) != VRAM_OK) {
        return 2;
    }
    share_export_one(share_block(world, 3 * MIB, FIRST), 0, &share, &token);
    if (argument[0] && vram_share_publish(share, argument, NULL) != VRAM_OK) {
        return 3;
    }
    share_tell(&token, sizeof token);
    share_rest();
    return 0;
}

/* Tries to open as another user: "b" expects VRAM_ERR_BUSY, "n" goes by the name "shown" and sees
   no other. */
static int play_stranger(struct share_world *world, const vram_share_token *token,
                         const char *argument) {
    vram_share *share = NULL;
    vram_share_options options = {.size = sizeof options, .flags = VRAM_SHARE_USER, .user = 0};
    if (setgid(65534) != 0 || setuid(65534) != 0) {
        return 90;
    }
    if (argument[0] == 'n') {
        vram_share_name names[2];
        uint32_t count = 2;
        bool found = vram_share_open_name(world->device, "shown", &options, &share) == VRAM_OK;
        return found && vram_share_list(&options, names, &count) == VRAM_OK && count == 1 &&
                       strcmp(names[0].name, "shown") == 0
                   ? 0
                   : 3;
    }
    vram_status status = vram_share_open(world->device, token, &options, &share);
    return status == VRAM_OK ? 0 : argument[0] == 'b' && status == VRAM_ERR_BUSY ? 1 : 2;
}

static const struct share_part parts[] = {
    {"hold", play_hold},
    {"owner", play_owner},
    {"stranger", play_stranger},
};

/* -------------------------------------------------------------------- contents */

/* Parts stay in the order of the call, whatever the order of their addresses. */
TEST(blocks_are_exported_in_any_order) {
    static const int order[] = {2, 0, 3, 1};
    struct share_world world, other;
    vram_addr blocks[4], given[4];
    vram_share_part opened[4];
    vram_share *share, *there;
    vram_share_token token;
    share_world_open(&world, VRAM_POOL_SHAREABLE);
    share_device_open(&other);
    for (uint32_t i = 0; i < 4; i++) {
        blocks[i] = share_block(&world, 3 * MIB + i * 4096, FIRST + i);
    }
    for (int i = 0; i < 4; i++) {
        given[i] = blocks[order[i]];
    }
    assert_ok(vram_share_export(given, 4, NULL, &share));
    assert_ok(vram_share_token_get(share, &token));
    assert_ok(vram_share_open(other.device, &token, NULL, &there));
    assert_ok(vram_share_parts_get(there, 0, 4, opened));
    for (int i = 0; i < 4; i++) {
        uint64_t bytes = 3 * MIB + (uint64_t)order[i] * 4096;
        assert_int_equal(opened[i].bytes, bytes);
        assert_int_equal(share_count(&other, opened[i].addr, bytes, FIRST + (uint32_t)order[i]),
                         bytes / 4);
    }
    assert_ok(vram_share_close(there));
    share_world_close(&other);
    share_world_close(&world);
}

TEST(what_cannot_be_exported_is_refused) {
    struct share_world world, plain;
    vram_share *share = NULL;
    share_world_open(&world, VRAM_POOL_SHAREABLE);
    share_world_open(&plain, 0);
    vram_addr addr = share_block(&world, MIB, FIRST), other = share_block(&plain, MIB, FIRST);
    vram_addr both[] = {addr, other}, inside = addr + 512;
    const vram_share_options flags = {.size = sizeof flags, .flags = 64},
                             nowhere = {.size = sizeof nowhere, .dir = "/nonexistent/vram"},
                             deep = {.size = sizeof deep,
                                     .dir = "/tmp/a-directory-with-a-name-that-is-much-too-long-"
                                            "for-the-path-of-a-socket-in-it/and-more"};
    const struct {
        const vram_addr *blocks;
        uint32_t count;
        const vram_share_options *options;
        vram_status status;
        const char *text; /* that is in the error's */
    } rows[] = {
        {NULL, 1, NULL, VRAM_ERR_INVALID, ""},
        {&addr, 0, NULL, VRAM_ERR_INVALID, ""},
        {&addr, UINT32_MAX, NULL, VRAM_ERR_LIMIT, ""},
        {&addr, 1, &flags, VRAM_ERR_INVALID, ""},
        {&other, 1, NULL, VRAM_ERR_INVALID, "VRAM_POOL_SHAREABLE"},
        {both, 2, NULL, VRAM_ERR_INVALID, ""},
        {&inside, 1, NULL, VRAM_ERR_INVALID, ""},
        {&addr, 1, &nowhere, VRAM_ERR_IO, ""},
        {&addr, 1, &deep, VRAM_ERR_LIMIT, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(vram_share_export(rows[i].blocks, rows[i].count, rows[i].options, &share),
                         rows[i].status);
        assert_non_null(strstr(vram_error_get()->text, rows[i].text));
        assert_null(share);
    }
    assert_ok(vram_free(addr, world.queue));
    assert_int_equal(vram_share_export(&addr, 1, NULL, &share), VRAM_ERR_INVALID);
    share_world_close(&plain);
    share_world_close(&world);
}

TEST(pools_that_cannot_share_say_so) {
    struct share_world world;
    vram_pool *pool = NULL;
    vram_pool_options options = {
        .size = sizeof options, .flags = VRAM_POOL_SHAREABLE, .kind = VRAM_MEMORY_PINNED};
    share_world_open(&world, 0);
    assert_int_equal(vram_pool_create(world.device, &options, &pool), VRAM_ERR_INVALID);
    share_world_close(&world);
    vram_context_options context = {.size = sizeof context, .backends = "sim", .sim = "vmm=off"};
    assert_ok(vram_context_create(&context, &world.context));
    assert_ok(vram_device_open(world.context, 0, &world.device));
    options.kind = VRAM_MEMORY_DEVICE;
    assert_int_equal(vram_pool_create(world.device, &options, &pool), VRAM_ERR_UNSUPPORTED);
    assert_non_null(strstr(vram_error_get()->text, "cannot share"));
    share_world_close(&world);
}

/* Pools that are created while the option `exportable` is on, and not those before or those of
   segments. */
TEST(the_option_makes_groups) {
    struct share_world world, later, other;
    vram_share *share = NULL, *there;
    vram_share_part part;
    vram_share_token token;
    share_world_open(&world, 0);
    assert_ok(vram_option_set("exportable", "on"));
    share_world_open(&later, 0);
    share_device_open(&other);
    vram_addr addr = share_block(&world, 3 * MIB, FIRST);
    assert_int_equal(vram_share_export(&addr, 1, NULL, &share), VRAM_ERR_INVALID);
    addr = share_block(&later, 4096, SECOND);
    share_export_one(addr, 0, &share, &token);
    assert_ok(vram_share_open(other.device, &token, NULL, &there));
    assert_ok(vram_share_parts_get(there, 0, 1, &part));
    assert_int_equal(share_count(&other, part.addr, 4096, SECOND), 1024);
    assert_ok(vram_share_close(there));
    assert_ok(vram_share_close(share));
    share_world_close(&other);
    share_world_close(&later);
    share_world_close(&world);
    share_world_open(&world, VRAM_POOL_SEGMENTS);
    addr = share_block(&world, MIB, FIRST);
    assert_int_equal(vram_share_export(&addr, 1, NULL, &share), VRAM_ERR_INVALID);
    share_world_close(&world);
    assert_ok(vram_option_set("exportable", NULL));
}

/* ------------------------------------------------------------------------ ends */

TEST(memory_outlives_a_killed_owner) {
    for (int i = 0; i < BACKENDS; i++) {
        struct share_world world;
        struct share_child child;
        vram_share *share, *again = NULL;
        vram_share_token token;
        vram_share_part part;
        vram_share_info info = {.size = sizeof info};
        share_backend = backends[i];
        share_device_open(&world);
        share_spawn(&child, "owner", NULL, NULL);
        share_hear(&child, &token, sizeof token);
        assert_ok(vram_share_open(world.device, &token, NULL, &share));
        assert_ok(vram_share_parts_get(share, 0, 1, &part));
        share_kill(&child);
        assert_int_equal(share_count(&world, part.addr, part.bytes, FIRST), part.bytes / 4);
        assert_int_equal(vram_share_wait(share, 1, LONG), VRAM_ERR_STALE);
        assert_ok(vram_share_info_get(share, &info));
        assert_false(info.alive);
        assert_int_equal(vram_share_open(world.device, &token, NULL, &again), VRAM_ERR_STALE);
        assert_non_null(strstr(vram_error_get()->text, "VRAM_SHARE_DIR")); /* what else it may be */
        assert_ok(vram_share_close(share));
        share_world_close(&world);
    }
}

/* Rounds of opening and killing: nothing is left of a reader, and none hangs. */
TEST(readers_are_killed_at_any_time) {
    const char *text = getenv("SHARE_ROUNDS");
    int rounds = text ? atoi(text) : (int)race_rounds(300);
    struct share_world world;
    vram_share *share;
    vram_share_token token;
    share_world_open(&world, VRAM_POOL_SHAREABLE);
    vram_addr addr = share_block(&world, 3 * MIB, FIRST);
    share_export_one(addr, 0, &share, &token);
    uint32_t descriptors = 0;
    srand(1);
    for (int i = 0; i < rounds; i++) {
        struct share_child child;
        vram_share *fresh = NULL;
        vram_share_token passed = token;
        if (i % 3 == 0) {
            share_export_one(addr, 0, &fresh, &passed);
        }
        share_spawn(&child, "hold", &passed, NULL);
        if (i % 2) {
            usleep((unsigned)(rand() % 6000));
        } else {
            share_await(&child);
        }
        share_kill(&child);
        if (fresh) {
            assert_ok(vram_share_close(fresh));
        }
        if (i % 50 == 2) { /* the first two rounds have opened both kinds */
            share_await_readers(share, 0);
            descriptors = descriptors ? descriptors : descriptors_open();
            share_await_descriptors(descriptors);
        }
    }
    share_await_readers(share, 0);
    assert_int_equal(share_folder_entries("vram-s-"), 1);
    assert_ok(vram_share_close(share));
    assert_int_equal(share_folder_entries("vram-s-"), 0);
    share_world_close(&world);
}

TEST(owners_are_killed_at_any_time) {
    struct share_world world;
    uint32_t descriptors = 0;
    share_device_open(&world);
    for (int i = 0; i < 40; i++) {
        struct share_child child;
        vram_share_token token;
        vram_share *share = NULL;
        share_spawn(&child, "owner", NULL, NULL);
        share_hear(&child, &token, sizeof token);
        if (i % 2) {
            assert_ok(vram_share_open(world.device, &token, NULL, &share));
        }
        share_kill(&child);
        vram_status status =
            share ? vram_share_close(share) : vram_share_open(world.device, &token, NULL, &share);
        assert_true(status == (i % 2 ? VRAM_OK : VRAM_ERR_STALE));
        descriptors = descriptors ? descriptors : descriptors_open();
        share_await_descriptors(descriptors);
    }
    share_world_close(&world);
    /* The next server sweeps what the killed ones left. */
    share_world_open(&world, VRAM_POOL_SHAREABLE);
    vram_share *share;
    vram_share_token token;
    share_export_one(share_block(&world, MIB, FIRST), 0, &share, &token);
    assert_int_equal(share_folder_entries("vram-s-"), 1);
    share_world_close(&world);
}

/* ------------------------------------------------------- read-only, users, pids */

TEST(readers_are_listed_by_their_process) {
    struct share_world world;
    struct share_child child[2];
    vram_share *share;
    vram_share_token token;
    vram_share_info info = {.size = sizeof info};
    char line[64];
    share_world_open(&world, VRAM_POOL_SHAREABLE);
    share_export_one(share_block(&world, MIB, FIRST), 0, &share, &token);
    for (int i = 0; i < 2; i++) {
        share_spawn(&child[i], "hold", &token, NULL);
        share_await(&child[i]);
    }
    assert_ok(vram_share_info_get(share, &info));
    assert_int_equal(info.reader_count, 2);
    assert_int_equal(info.readers[0], child[0].pid);
    assert_int_equal(info.readers[1], child[1].pid);
    vram_pool_stats stats = {.size = sizeof stats};
    assert_ok(vram_pool_stats_get(world.pool, &stats));
    assert_int_equal(stats.shared_bytes, 2 * MIB);
    for (int i = 0; i < 2; i++) {
        snprintf(line, sizeof line, "shared with pid %d: ", (int)child[i].pid);
        assert_true(share_stats_say(world.pool, VRAM_REPORT_TEXT, line));
    }
    share_kill(&child[0]);
    share_await_readers(share, 1);
    assert_true(share_stats_say(world.pool, VRAM_REPORT_TEXT, line));
    snprintf(line, sizeof line, "shared with pid %d: ", (int)child[0].pid);
    assert_false(share_stats_say(world.pool, VRAM_REPORT_TEXT, line));
    assert_int_equal(share_end(&child[1]), 0);
    share_await_readers(share, 0);
    assert_ok(vram_share_close(share));
    assert_ok(vram_pool_stats_get(world.pool, &stats));
    assert_int_equal(stats.shared_bytes, 0);
    share_world_close(&world);
}

TEST(another_user_needs_to_be_named) {
    struct share_world world;
    struct share_child child;
    vram_share *share, *named;
    vram_share_token token;
    vram_share_options options = {.size = sizeof options, .flags = VRAM_SHARE_USER, .user = 65534};
    if (geteuid() != 0) {
        skip();
    }
    assert_int_equal(chmod(share_dir, 0755), 0);
    share_world_open(&world, VRAM_POOL_SHAREABLE);
    vram_addr addr = share_block(&world, MIB, FIRST);
    share_export_one(addr, 0, &share, &token);
    share_spawn(&child, "stranger", &token, "b");
    assert_int_equal(share_end(&child), 1); /* the socket's permissions refuse it */
    assert_ok(vram_share_export(&addr, 1, &options, &named));
    share_spawn(&child, "stranger", &token, "b");
    assert_int_equal(share_end(&child), 1); /* the other export's users do not count */
    assert_ok(vram_share_token_get(named, &token));
    share_spawn(&child, "stranger", &token, "");
    assert_int_equal(share_end(&child), 0);
    assert_ok(vram_share_publish(share, "hidden", NULL));
    assert_ok(vram_share_publish(named, "shown", NULL));
    share_spawn(&child, "stranger", &token, "n");
    assert_int_equal(share_end(&child), 0);
    assert_ok(
        vram_share_export(&addr, 1, NULL, &share)); /* the next version is this user's again */
    assert_ok(vram_share_publish(share, "shown", NULL));
    share_spawn(&child, "stranger", &token, "n");
    assert_int_equal(share_end(&child), 3);
    share_world_close(&world);
}

/* ------------------------------------------------------------------- time, names */

static atomic_bool held;

static void hold_queue(const vram_kernel_call *call) {
    (void)call;
    while (atomic_load(&held)) {
        usleep(100);
    }
}

/* Work that does not end before `held` is false. */
static void launch_hold(const struct share_world *world) {
    vram_kernel_source source = {.size = sizeof source,
                                 .format = VRAM_KERNEL_C,
                                 .code = (const void *)(uintptr_t)hold_queue,
                                 .entry = "hold_queue"};
    vram_launch launch = {.size = sizeof launch, .groups = {1, 1, 1}, .group_size = {1, 1, 1}};
    vram_kernel *kernel;
    assert_ok(vram_kernel_create(world->device, &source, &kernel));
    atomic_store(&held, true);
    assert_ok(vram_queue_launch(world->queue, kernel, &launch));
}

/* Memory is not unmapped under work of the reader. */
TEST(a_close_waits_for_work) {
    struct share_world world, other;
    vram_share *share, *there;
    vram_share_token token;
    share_world_open(&world, VRAM_POOL_SHAREABLE);
    assert_ok(vram_option_set("wait_timeout", "50ms"));
    share_device_open(&other);
    assert_ok(vram_option_set("wait_timeout", NULL));
    share_export_one(share_block(&world, MIB, 0), 0, &share, &token);
    assert_ok(vram_share_open(other.device, &token, NULL, &there));
    launch_hold(&other);
    vram_status status = vram_share_close(there);
    atomic_store(&held, false);
    assert_int_equal(status, VRAM_ERR_TIMEOUT);
    assert_ok(vram_queue_wait(other.queue, LONG));
    share_world_close(&other);
    share_world_close(&world);
}

/* Value 0 is the last that was marked: also while its work is under way. */
TEST(the_last_mark_is_waited_for) {
    struct share_world world;
    vram_share *share;
    vram_share_token token;
    uint64_t value = 0;
    share_world_open(&world, VRAM_POOL_SHAREABLE);
    share_export_one(share_block(&world, MIB, 0), 0, &share, &token);
    launch_hold(&world);
    assert_ok(vram_share_mark(share, world.queue, &value));
    vram_status status = vram_share_wait(share, 0, 0);
    atomic_store(&held, false);
    assert_int_equal(status, VRAM_ERR_TIMEOUT);
    assert_ok(vram_share_wait(share, 0, LONG));
    share_world_close(&world);
}

TEST(an_owner_that_restarts_takes_its_names_over) {
    struct share_world world;
    struct share_child owner;
    vram_share *share, *again;
    vram_share_token token;
    vram_share_info info = {.size = sizeof info};
    share_device_open(&world);
    share_spawn(&owner, "owner", NULL, "model");
    share_hear(&owner, &token, sizeof token);
    assert_ok(vram_share_open_name(world.device, "model", NULL, &share));
    share_kill(&owner);
    assert_int_equal(vram_share_open_name(world.device, "model", NULL, &again), VRAM_ERR_STALE);
    share_spawn(&owner, "owner", NULL, "model");
    share_hear(&owner, &token, sizeof token);
    assert_ok(vram_share_open_name(world.device, "model", NULL, &again));
    assert_ok(vram_share_info_get(again, &info));
    assert_int_equal(info.version, 2);
    assert_ok(vram_share_close(share));
    assert_ok(vram_share_close(again));
    share_kill(&owner);
    share_world_close(&world);
}

static int play(int count, char **words) {
    return count == 5 ? share_play(parts, sizeof parts / sizeof parts[0], words) : 2;
}
CHILD(play)

static int begin_file(void) {
    return setenv("VRAM_CUDA_LIBRARY", FAKE_CUDA_PATH, 1) |
           setenv("VRAM_HIP_LIBRARY", FAKE_HIP_PATH, 1);
}
WHOLE_FILE(begin_file, NULL)
EACH_TEST(share_folder_make, share_folder_end)
