/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_scanner.c: `vram replay --verify` on a device that compares by itself, over the fake driver:
 * exact counts, and a scanner that is not there when any of its calls fails.
 */
#include "replay/scanner.h"
#include "unit/assert_ok.h"
#include "unit/cuda_world.h"

enum { BLOCK_BYTES = 100003, BLOCK_BODY = 100000 };

static struct place place;

static int begin(void) {
    vram_context_options options = {.size = sizeof options, .backends = "cuda"};
    if (!fake) {
        fake = fake_open(FAKE_CUDA_PATH);
    }
    fake->reset();
    place = (struct place){.info.size = sizeof place.info, .queue_count = 2};
    assert_ok(vram_option_set("cuda_library", FAKE_CUDA_PATH));
    assert_ok(vram_context_create(&options, &place.context));
    assert_ok(vram_device_open(place.context, 0, &place.device));
    for (uint32_t i = 0; i < place.queue_count; i++) {
        assert_ok(vram_queue_create(place.device, NULL, &place.queues[i]));
    }
    rig_state = &place;
    return 0;
}

static int end(void) {
    fake->refuse(NULL, 0, 0, false);
    vram_context_destroy(place.context);
    assert_int_equal(live_total(), 0);
    assert_clean();
    assert_ok(vram_option_set("cuda_library", NULL));
    return vr_mem_live_blocks() == 0 ? 0 : -1;
}

/* A block as checker_fill leaves it, with `wrong` bytes that are not as they should be. */
static vram_addr make_block(uint32_t pattern, uint64_t wrong) {
    vram_addr block;
    vram_queue *queue = place.queues[1];
    assert_ok(vram_device_alloc(place.device, BLOCK_BYTES, VRAM_MEMORY_DEVICE, &block));
    assert_ok(vram_queue_fill(queue, block, pattern, 4, BLOCK_BODY));
    assert_ok(
        vram_queue_fill(queue, block + BLOCK_BODY, pattern & 0xff, 1, BLOCK_BYTES - BLOCK_BODY));
    assert_ok(vram_queue_fill(queue, block + BLOCK_BYTES - wrong, 0, 1, wrong));
    return block;
}

TEST(counts_bytes_that_differ) {
    const uint32_t pattern = 0x04030201;
    uint64_t wrong = UINT64_MAX;
    struct scanner *scanner = scanner_open(&place);
    assert_non_null(scanner);
    vram_addr whole = make_block(pattern, 0), spoilt = make_block(pattern, 1000);
    assert_ok(scanner_look(scanner, 1, whole, BLOCK_BYTES, BLOCK_BODY, pattern));
    assert_ok(scanner_look(scanner, 1, whole, 0, 0, pattern));
    assert_ok(scanner_read(scanner, &wrong));
    assert_int_equal(wrong, 0);
    assert_ok(scanner_look(scanner, 1, spoilt, BLOCK_BYTES, BLOCK_BODY, pattern));
    assert_ok(scanner_look(scanner, 1, spoilt, BLOCK_BYTES, BLOCK_BODY, pattern));
    assert_ok(scanner_read(scanner, &wrong));
    assert_int_equal(wrong, 2000); /* since it was opened */
    assert_int_equal(place.busy_queues, 0);
    scanner_close(scanner);
    scanner_close(NULL);
    assert_ok(vram_device_free(place.device, whole));
    assert_ok(vram_device_free(place.device, spoilt));
}

/* The memory of a block that ended is not looked at, and the status says so. */
TEST(refuses_what_is_no_block) {
    struct scanner *scanner = scanner_open(&place);
    assert_non_null(scanner);
    assert_int_equal(scanner_look(scanner, 0, 4096, 100, 100, 1), VRAM_ERR_INVALID);
    scanner_close(scanner);
}

/* Each of its calls fails once: then there is no scanner, and nothing is left of it. */
TEST(fails_cleanly) {
    static const struct {
        const char *call;
        uint64_t count; /* that opening makes */
    } calls[] = {{"cuModuleLoadData", 1}, {"cuModuleGetFunction", 1}, {"cuMemAlloc", 2},
                 {"cuMemsetD32Async", 3}, {"cuMemsetD8Async", 2},     {"cuLaunchKernel", 1},
                 {"cuMemcpyDtoHAsync", 1}};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        for (uint64_t nth = 1; nth <= calls[i].count; nth++) {
            fake->refuse(calls[i].call, nth, VR_CU_OUT_OF_MEMORY, false);
            if (scanner_open(&place) != NULL) {
                fail_msg("call %d of %s failed, and there is a scanner", (int)nth, calls[i].call);
            }
        }
        fake->refuse(NULL, 0, 0, false);
    }
    struct scanner *scanner = scanner_open(&place);
    assert_non_null(scanner);
    scanner_close(scanner);
}

/* A device whose kernels count wrong is not trusted: here a copy of the count never arrives. */
TEST(is_tried_first) {
    fake->lie("cuMemcpyDtoHAsync", 1, FAKE_CUDA_NULL, false);
    assert_null(scanner_open(&place));
}

EACH_TEST(begin, end)
