/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_share_fabric.c: blocks for other machines, with the tests' CUDA driver, whose fabric is one
 * machine. No directory is shared here: the bytes are all that the other process gets.
 */
#include "base/handle.h"
#include "base/memory.h"
#include "base/option.h"
#include "share_world.h"

#include "base/wire.h"
#include "fake/fake_cuda.h"
#include "track/crc32.h"

#include <dlfcn.h>

#define FIRST  UINT32_C(0x11223344)
#define SECOND UINT32_C(0x55667788)

enum { FABRIC = VRAM_POOL_SHAREABLE | VRAM_POOL_SHARE_FABRIC };

static const struct fake_cuda_control *fake;

static void fake_find(void) {
    const struct fake_cuda_control *(*get)(void) = NULL;
    void *library = dlopen(FAKE_CUDA_PATH, RTLD_NOW | RTLD_LOCAL);
    void *found = library ? dlsym(library, "fake_cuda_control") : NULL;
    assert_non_null(found);
    memcpy(&get, &found, sizeof get);
    fake = get();
}

static void fabric_of(struct share_world *world, uint64_t bytes, vram_share **share,
                      vram_share_fabric *fabric, vram_addr *addr) {
    vram_share_token token;
    *addr = share_block(world, bytes, FIRST);
    share_export_one(*addr, 0, share, &token);
    assert_ok(vram_share_fabric_get(*share, fabric));
}

/* --------------------------------------------------------- the other process */

/* Reads the bytes from its standard input, opens them, checks the first pattern and writes the
   second. */
static int play_answer(struct share_world *world, const vram_share_token *token,
                       const char *argument) {
    vram_share_fabric fabric;
    vram_share *share;
    vram_share_part part;
    (void)token;
    (void)argument;
    if (read(0, &fabric, sizeof fabric) != sizeof fabric) {
        return 2;
    }
    if (vram_share_fabric_open(world->device, &fabric, NULL, &share) != VRAM_OK ||
        vram_share_parts_get(share, 0, 1, &part) != VRAM_OK) {
        return 3;
    }
    if (share_count(world, part.addr, part.bytes, FIRST) != part.bytes / 4) {
        return 4;
    }
    vram_queue_fill(world->queue, part.addr, SECOND, 4, part.bytes);
    vram_queue_wait(world->queue, VRAM_TIMEOUT_DEFAULT);
    return vram_share_close(share) == VRAM_OK ? 0 : 5;
}

static const struct share_part parts[] = {{"answer", play_answer}};

TEST(contents_are_equal_both_ways) {
    struct share_world world;
    struct share_child child;
    vram_share *share;
    vram_share_fabric fabric;
    vram_addr addr;
    share_world_open(&world, FABRIC);
    fabric_of(&world, 5 * MIB, &share, &fabric, &addr);
    setenv("VRAM_SHARE_DIR", "/proc", 1); /* of no use to the child */
    share_spawn(&child, "answer", NULL, NULL);
    assert_int_equal(write(child.to, &fabric, sizeof fabric), sizeof fabric);
    assert_int_equal(share_end(&child), 0);
    assert_int_equal(share_count(&world, addr, 5 * MIB, SECOND), 5 * MIB / 4);
    assert_int_equal(share_readers(share), 0); /* it never was one */
    share_world_close(&world);
}

/* What is open stays, whatever becomes of the exporter; it is not a share of a process. */
TEST(what_is_open_stays) {
    struct share_world world, other;
    vram_share *share, *opened, *again;
    vram_share_fabric fabric;
    vram_share_part part;
    vram_share_info info = {.size = sizeof info};
    vram_addr addr;
    share_world_open(&world, FABRIC);
    share_device_open(&other);
    fabric_of(&world, 2 * MIB + 40, &share, &fabric, &addr);
    vram_share_options options = {.size = sizeof options, .flags = VRAM_SHARE_READ_ONLY};
    assert_ok(vram_share_fabric_open(other.device, &fabric, &options, &opened));
    assert_ok(vram_share_info_get(opened, &info));
    assert_true(!info.exported && !info.alive && info.read_only && info.handles == 1);
    assert_int_equal(vram_share_wait(opened, 1, 0), VRAM_ERR_UNSUPPORTED);
    assert_ok(vram_share_parts_get(opened, 0, 1, &part));
    assert_int_equal(vram_queue_fill(other.queue, part.addr, 0, 4, 4), VRAM_ERR_INVALID);
    share_world_close(&world);
    assert_int_equal(part.bytes, 2 * MIB + 40);
    assert_int_equal(share_count(&other, part.addr, part.bytes, FIRST), part.bytes / 4);
    assert_ok(vram_share_close(opened));
    assert_int_equal(vram_share_fabric_open(other.device, &fabric, NULL, &again),
                     VRAM_ERR_INVALID); /* the memory has gone from every process */
    share_world_close(&other);
}

/* --------------------------------------------------------------------- refusals */

/* A number of the bytes as somebody may have forged it, with its checksum. */
static vram_share_fabric forged(const vram_share_fabric *fabric, int at, uint64_t value,
                                int bytes) {
    enum { CHECKED = VRAM_SHARE_FABRIC_BYTES - 4 };
    vram_share_fabric made = *fabric;
    vr_wire_put(made.bytes + at, value, bytes);
    vr_wire_put(made.bytes + CHECKED, vr_crc32(0, made.bytes, CHECKED), 4);
    return made;
}

TEST(forged_bytes_are_refused) {
    static const struct {
        int at, bytes;
        uint64_t value;
        vram_status status;
    } forgeries[] = {{4, 1, 9, VRAM_ERR_UNSUPPORTED},
                     {32, 8, 4096, VRAM_ERR_UNSUPPORTED},
                     {24, 8, 0, VRAM_ERR_INVALID},
                     {24, 8, 12345, VRAM_ERR_INVALID},
                     {8, 8, UINT64_C(1) << 40, VRAM_ERR_INVALID},
                     {16, 8, UINT64_C(1) << 40, VRAM_ERR_INVALID}};
    struct share_world world;
    vram_share *share, *opened = NULL;
    vram_share_fabric fabric, made;
    vram_share_info info = {.size = sizeof info};
    vram_addr addr;
    share_world_open(&world, FABRIC);
    fabric_of(&world, MIB, &share, &fabric, &addr);
    for (size_t i = 0; i < sizeof forgeries / sizeof forgeries[0]; i++) {
        made = forged(&fabric, forgeries[i].at, forgeries[i].value, forgeries[i].bytes);
        assert_int_equal(vram_share_fabric_open(world.device, &made, NULL, &opened),
                         forgeries[i].status);
    }
    made = forged(&fabric, 5, 1, 1);
    assert_ok(vram_share_fabric_open(world.device, &made, NULL, &opened));
    assert_ok(vram_share_info_get(opened, &info));
    assert_true(info.read_only); /* as its exporter says */
    assert_int_equal(vram_share_fabric_get(opened, &made), VRAM_ERR_INVALID);
    assert_ok(vram_share_close(opened));
    share_world_close(&world);
}

TEST(damaged_bytes_are_refused) {
    struct share_world world;
    vram_share *share, *opened = NULL;
    vram_share_fabric fabric, bad;
    vram_addr addr;
    share_world_open(&world, FABRIC);
    fabric_of(&world, MIB, &share, &fabric, &addr);
    for (int i = 0; i < VRAM_SHARE_FABRIC_BYTES; i++) {
        bad = fabric;
        bad.bytes[i] ^= 0x21;
        assert_int_equal(vram_share_fabric_open(world.device, &bad, NULL, &opened),
                         VRAM_ERR_INVALID);
    }
    vram_share_options options = {.size = sizeof options, .flags = 1u << 20};
    assert_int_equal(vram_share_fabric_open(world.device, &fabric, &options, &opened),
                     VRAM_ERR_INVALID);
    assert_int_equal(vram_share_fabric_open(world.device, NULL, NULL, &opened), VRAM_ERR_INVALID);
    assert_int_equal(vram_share_fabric_open(world.device, &fabric, NULL, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_share_fabric_open(NULL, &fabric, NULL, &opened), VRAM_ERR_INVALID);
    assert_int_equal(vram_share_fabric_get(share, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_share_fabric_get(NULL, &fabric), VRAM_ERR_INVALID);
    assert_null(opened);
    share_world_close(&world);
}

TEST(only_fabric_memory_has_a_name) {
    struct share_world world, plain;
    vram_pool_options options = {.size = sizeof options};
    vram_share *share, *opened;
    vram_share_token token;
    vram_share_fabric fabric;
    vram_addr blocks[2];
    vram_pool *pool = NULL;
    share_world_open(&plain, VRAM_POOL_SHAREABLE);
    share_export_one(share_block(&plain, MIB, FIRST), 0, &share, &token);
    assert_int_equal(vram_share_fabric_get(share, &fabric), VRAM_ERR_INVALID);
    assert_ok(vram_share_open(plain.device, &token, NULL, &opened));
    assert_int_equal(vram_share_fabric_get(opened, &fabric), VRAM_ERR_INVALID);
    static const uint32_t bad[] = {VRAM_POOL_SHARE_FABRIC,
                                   VRAM_POOL_SHARE_FABRIC | VRAM_POOL_SHARE_GROUP,
                                   FABRIC | VRAM_POOL_SHARE_GROUP};
    for (int i = 0; i < 3; i++) {
        options.flags = bad[i];
        assert_int_equal(vram_pool_create(plain.device, &options, &pool), VRAM_ERR_INVALID);
    }
    share_world_close(&plain);
    share_world_open(&world, FABRIC);
    blocks[0] = share_block(&world, MIB, FIRST);
    blocks[1] = share_block(&world, MIB, FIRST);
    assert_ok(vram_share_export(blocks, 2, NULL, &share));
    assert_int_equal(vram_share_fabric_get(share, &fabric), VRAM_ERR_INVALID);
    share_world_close(&world);
}

TEST(a_device_without_says_so) {
    struct share_world world;
    vram_pool_options options = {.size = sizeof options, .flags = FABRIC};
    vram_share_fabric fabric = {{0}};
    vram_share *share = NULL;
    vram_pool *pool = NULL;
    fake->attribute(VR_CU_ATTRIBUTE_FABRIC, 0);
    share_device_open(&world);
    fake->attribute(VR_CU_ATTRIBUTE_FABRIC, 1);
    assert_int_equal(vram_pool_create(world.device, &options, &pool), VRAM_ERR_UNSUPPORTED);
    assert_non_null(strstr(vram_error_get()->text, "fabric"));
    assert_int_equal(vram_share_fabric_open(world.device, &fabric, NULL, &share),
                     VRAM_ERR_UNSUPPORTED);
    options.flags = VRAM_POOL_SHAREABLE;
    assert_ok(vram_pool_create(world.device, &options, &pool));
    share_world_close(&world);
}

/* ----------------------------------------------------------------------- faults */

static int share_end_test(void) {
    share_folder_remove();
    for (int i = 0; i < 3000 && (vr_mem_live_bytes() || vr_handle_live(0)); i++) {
        usleep(1000);
    }
    vr_option_reset();
    return 0;
}

static int begin_process(void) {
    share_backend = "cuda";
    return setenv("FAKE_CUDA_FABRIC", "1", 1) | setenv("VRAM_CUDA_LIBRARY", FAKE_CUDA_PATH, 1) |
           setenv("VRAM_LIVE", "off", 1);
}

static int play(int count, char **words) {
    return begin_process() || count != 5 ? 2
                                         : share_play(parts, sizeof parts / sizeof parts[0], words);
}
CHILD(play)

static int begin_file(void) {
    int failed = begin_process();
    fake_find();
    return failed;
}
WHOLE_FILE(begin_file, NULL)
EACH_TEST(share_folder_make, share_end_test)
