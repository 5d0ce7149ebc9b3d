/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cases_strategy.c: copies by strategy, strided, in lists, and between devices. Each buffer has a
 * model of its contents, and all of it is compared.
 */
#include "case.h"

#include <string.h>

static const vram_transfer_strategy copying[] = {VRAM_TRANSFER_AUTO, VRAM_TRANSFER_SYNC,
                                                 VRAM_TRANSFER_ASYNC, VRAM_TRANSFER_DMA_POLLING};

enum { COPYING = sizeof copying / sizeof copying[0], BYTES = 70001 };

static vram_transfer_options by(vram_transfer_strategy strategy) {
    return (vram_transfer_options){.size = sizeof(vram_transfer_options), .strategy = strategy};
}

static bool moved(struct check *check, vram_async *async, uint64_t bytes) {
    uint64_t result = 0;
    CHECK_OK(check, vram_async_wait(async, CHECK_DEADLINE_NS));
    CHECK_OK(check, vram_async_result_get(async, &result));
    CHECK_EQUAL(check, result, bytes);
    return true;
}

/* Opens the device; what transfers take for themselves is not in the ledger. */
static bool begin(struct check *check, struct check_device **device, vram_queue **queue) {
    CHECK_OPEN(check, device);
    (*device)->unledgered = true;
    CHECK_QUEUE(check, *device, queue);
    return true;
}

/* Up, across, filled and back, each way, from ordinary memory and from page-locked. */
static bool every(struct check *check) {
    struct check_device *device;
    vram_queue *queue;
    struct check_buffer a, b;
    uint8_t *from, *back;
    vram_async async;

    CHECK_TRY(begin(check, &device, &queue));
    CHECK_BUFFER(check, device, queue, BYTES, &a);
    CHECK_BUFFER(check, device, queue, BYTES, &b);
    CHECK_TRY(check_host_seeded(check, BYTES, 3, &from));
    CHECK_TRY(check_host_seeded(check, BYTES, 4, &back));
    for (int i = 0; i < COPYING; i++) {
        vram_transfer_options options = by(copying[i]);
        check_note(check, "%s", vram_transfer_strategy_name(copying[i]));
        check_seed(from, BYTES, 10 + (uint64_t)i);
        CHECK_OK(check, vram_transfer_upload(queue, a.addr, from, BYTES, &options, &async));
        CHECK_TRY(moved(check, &async, BYTES));
        CHECK_OK(check, vram_transfer_copy(queue, b.addr, a.addr, BYTES, &options, &async));
        CHECK_TRY(moved(check, &async, BYTES));
        CHECK_OK(check, vram_transfer_fill(queue, a.addr, 0x5a, 1, 100, &options, &async));
        CHECK_TRY(moved(check, &async, 100));
        CHECK_OK(check, vram_transfer_download(queue, back, b.addr, BYTES, &options, &async));
        CHECK_TRY(moved(check, &async, BYTES));
        CHECK_SAME(check, back, from, BYTES);
        memcpy(b.model, from, BYTES);
        memcpy(a.model, from, BYTES);
        memset(a.model, 0x5a, 100);
        CHECK_VERIFY(check, &a);
        CHECK_VERIFY(check, &b);
    }
    return true;
}

static bool pinned(struct check *check) {
    struct check_device *device;
    vram_queue *queue;
    struct check_buffer a;
    vram_addr host;
    vram_async async;

    CHECK_NEEDS(check, VRAM_CAP_PINNED);
    CHECK_TRY(begin(check, &device, &queue));
    CHECK_BUFFER(check, device, queue, BYTES, &a);
    CHECK_ALLOC_KIND(check, device, BYTES, VRAM_MEMORY_PINNED, &host);
    check_seed((uint8_t *)(uintptr_t)host, BYTES, 77);
    CHECK_OK(check, vram_transfer_copy(queue, a.addr, host, BYTES, NULL, &async));
    CHECK_TRY(moved(check, &async, BYTES));
    check_seed(a.model, BYTES, 77);
    CHECK_VERIFY(check, &a);
    memset((void *)(uintptr_t)host, 0, BYTES);
    CHECK_OK(check,
             vram_transfer_download(queue, (void *)(uintptr_t)host, a.addr, BYTES, NULL, &async));
    CHECK_TRY(moved(check, &async, BYTES));
    CHECK_SAME(check, (const uint8_t *)(uintptr_t)host, a.model, BYTES);
    return true;
}

/* One place for both sides: nothing is copied, and each sees what the other wrote. */
static bool direct(struct check *check) {
    struct check_device *device;
    vram_queue *queue;
    struct check_buffer copy;
    vram_addr both;
    vram_async async;
    vram_transfer_options options = by(VRAM_TRANSFER_DIRECT);

    CHECK_NEEDS(check, VRAM_CAP_MANAGED);
    CHECK_TRY(begin(check, &device, &queue));
    CHECK_BUFFER(check, device, queue, BYTES, &copy);
    CHECK_ALLOC_KIND(check, device, BYTES, VRAM_MEMORY_MANAGED, &both);
    uint8_t *host = (uint8_t *)(uintptr_t)both;
    CHECK_WAIT(check, queue);
    vram_native_info native = {.size = sizeof native};
    CHECK_OK(check, vram_native(both, &native));
    if (native.host_pointer != NULL) { /* a simulated device may keep it to itself */
        check_seed(host, BYTES, 5);
        check_seed(copy.model, BYTES, 5);
        CHECK_OK(check, vram_transfer_upload(queue, both, host, BYTES, &options, &async));
        CHECK_TRY(moved(check, &async, 0));
        CHECK_OK(check, vram_transfer_copy(queue, copy.addr, both, BYTES, NULL, &async));
        CHECK_TRY(moved(check, &async, BYTES));
        CHECK_VERIFY(check, &copy);
        CHECK_OK(check, vram_transfer_fill(queue, both, 0x11, 1, BYTES, NULL, NULL));
        CHECK_OK(check, vram_transfer_download(queue, host, both, BYTES, &options, &async));
        CHECK_TRY(moved(check, &async, 0));
        memset(copy.model, 0x11, BYTES);
        CHECK_SAME(check, host, copy.model, BYTES);
    }
    CHECK_STATUS(check, vram_transfer_copy(queue, copy.addr, both, 16, &options, &async),
                 VRAM_ERR_INVALID);
    return true;
}

/* Rows with gaps on either side, in every direction; the gaps stay as they are. */
static bool rectangles(struct check *check) {
    enum { ROW = 61, ROWS = 45, WIDE = 128 };
    struct check_device *device;
    vram_queue *queue;
    struct check_buffer a, b;
    uint8_t *from, *back, *expected;
    vram_async async;
    vram_native_info native = {.size = sizeof native};

    CHECK_TRY(begin(check, &device, &queue));
    CHECK_BUFFER(check, device, queue, WIDE * ROWS, &a);
    CHECK_BUFFER(check, device, queue, WIDE * ROWS, &b);
    CHECK_TRY(check_host_seeded(check, WIDE * ROWS, 3, &from));
    CHECK_TRY(check_host_seeded(check, WIDE * ROWS, 4, &back));
    CHECK_TRY(check_host_seeded(check, WIDE * ROWS, 4, &expected));
    vram_copy_2d up = {{.to = a.addr, .from_host = from}, ROW, ROWS, 64, WIDE};
    vram_copy_2d across = {{.to = b.addr, .from = a.addr}, ROW, ROWS, WIDE, 64};
    vram_copy_2d down = {{.to_host = back, .from = b.addr}, ROW, ROWS, ROW, WIDE};
    for (uint64_t row = 0; row < ROWS; row++) {
        memcpy(a.model + row * 64, from + row * WIDE, ROW);
        memcpy(b.model + row * WIDE, from + row * WIDE, ROW);
        memcpy(expected + row * ROW, from + row * WIDE, ROW);
    }
    CHECK_OK(check, vram_transfer_2d(queue, &up, NULL, NULL));
    CHECK_OK(check, vram_transfer_2d(queue, &across, NULL, NULL));
    CHECK_OK(check, vram_transfer_2d(queue, &down, NULL, &async));
    CHECK_TRY(moved(check, &async, ROW * ROWS));
    CHECK_SAME(check, back, expected, WIDE * ROWS);
    CHECK_VERIFY(check, &a);
    CHECK_VERIFY(check, &b);
    CHECK_OK(check, vram_native(b.addr, &native));
    down.first.from = native.base + native.bytes - WIDE; /* the second row leaves the block */
    CHECK_STATUS(check, vram_transfer_2d(queue, &down, NULL, NULL), VRAM_ERR_INVALID);
    down.to_pitch = ROW - 1;
    CHECK_STATUS(check, vram_transfer_2d(queue, &down, NULL, NULL), VRAM_ERR_INVALID);
    return true;
}

/* Small copies in all directions, in no order, in one call. */
static bool lists(struct check *check) {
    enum { N = 60, EACH = 1013 };
    struct check_device *device;
    vram_queue *queue;
    struct check_buffer a, b, c;
    uint8_t *from, *back, *expected;
    vram_copy list[3 * N];
    vram_async async;

    CHECK_TRY(begin(check, &device, &queue));
    CHECK_BUFFER(check, device, queue, N * EACH, &a);
    CHECK_BUFFER(check, device, queue, N * EACH, &b);
    CHECK_BUFFER(check, device, queue, N * EACH, &c);
    CHECK_TRY(check_host_seeded(check, N * EACH, 6, &from));
    CHECK_TRY(check_host_seeded(check, N * EACH, 7, &back));
    CHECK_TRY(check_host_seeded(check, N * EACH, 7, &expected));
    for (uint64_t i = 0; i < N; i++) {
        uint64_t to = (i * 7 % N) * EACH, other = (i * 11 % N) * EACH;
        list[3 * i] = (vram_copy){.to = a.addr + to, .from_host = from + other, .bytes = EACH};
        list[3 * i + 1] = (vram_copy){.to_host = back + other, .from = b.addr + to, .bytes = EACH};
        list[3 * i + 2] = (vram_copy){.to = c.addr + other, .from = b.addr + to, .bytes = EACH};
        memcpy(a.model + to, from + other, EACH);
        memcpy(expected + other, b.model + to, EACH);
        memcpy(c.model + other, b.model + to, EACH);
    }
    CHECK_OK(check, vram_transfer_batch(queue, list, 3 * N, NULL, &async));
    CHECK_TRY(moved(check, &async, 3 * N * EACH));
    CHECK_SAME(check, back, expected, N * EACH);
    CHECK_VERIFY(check, &a);
    CHECK_VERIFY(check, &c);
    list[5].to = list[2].to; /* two writers */
    CHECK_STATUS(check, vram_transfer_batch(queue, list, 3 * N, NULL, &async), VRAM_ERR_INVALID);
    list[5].to = a.addr + a.bytes * 1000;
    CHECK_STATUS(check, vram_transfer_batch(queue, list, 3 * N, NULL, &async), VRAM_ERR_INVALID);
    CHECK_VERIFY(check, &a);
    return true;
}

/* From a device of the backend that is not a peer: through host memory, in the order of the
   queue. */
static bool bridged(struct check *check) {
    struct check_device *own, *other;
    vram_queue *queue, *other_queue;
    struct check_buffer from, to;
    vram_async async;
    uint64_t bytes = check->target->quick ? 100001 : 9000001;

    CHECK_TRY(begin(check, &own, &queue));
    CHECK_TRY(begin(check, &other, &other_queue)); /* a handle of its own: no peer of the first */
    if (own->info.memory_bytes.known && bytes > own->info.memory_bytes.value / 16) {
        bytes = own->info.memory_bytes.value / 16;
    }
    CHECK_BUFFER(check, other, other_queue, bytes, &from);
    CHECK_BUFFER(check, own, queue, bytes, &to);
    CHECK_WAIT(check, other_queue);
    CHECK_OK(check, vram_transfer_copy(queue, to.addr, from.addr, bytes, NULL, &async));
    memcpy(to.model, from.model, bytes);
    CHECK_TRY(moved(check, &async, bytes));
    CHECK_VERIFY(check, &to);
    CHECK_VERIFY(check, &from);
    return true;
}

/* The call returns before work that certainly runs, and the handle says pending. */
static bool beside(struct check *check) {
    struct check_device *device;
    vram_queue *queue;
    struct check_gate gate;
    struct check_buffer a;
    vram_addr host;
    vram_async async;
    vram_async_state state = VRAM_ASYNC_READY;

    CHECK_NEEDS(check, VRAM_CAP_PINNED);
    CHECK_TRY(begin(check, &device, &queue));
    CHECK_BUFFER(check, device, queue, BYTES, &a);
    CHECK_ALLOC_KIND(check, device, BYTES, VRAM_MEMORY_PINNED, &host);
    check_seed((uint8_t *)(uintptr_t)host, BYTES, 9);
    CHECK_GATE(check, device, &gate);
    CHECK_GATE_PASS(check, &gate, queue);
    CHECK_OK(check, vram_transfer_copy(queue, a.addr, host, BYTES, NULL, &async));
    CHECK_OK(check, vram_async_state_get(&async, &state));
    CHECK_THAT(check, state == VRAM_ASYNC_PENDING);
    CHECK_STATUS(check, vram_async_wait(&async, 1000000), VRAM_ERR_TIMEOUT);
    check_gate_open(&gate);
    CHECK_TRY(moved(check, &async, BYTES));
    check_seed(a.model, BYTES, 9);
    CHECK_VERIFY(check, &a);
    return true;
}

const struct check_case check_cases_strategy[] = {
    {"strategy.every", "every strategy moves exactly its range, and its handle says how much",
     every},
    {"strategy.pinned", "page-locked memory is given as an address or as a pointer", pinned},
    {"strategy.direct", "memory that both reach is not copied, and each sees the other's writes",
     direct},
    {"strategy.rectangles", "strided copies move rows and leave the gaps", rectangles},
    {"strategy.lists", "a list of small copies in all directions arrives complete", lists},
    {"strategy.bridged", "memory of a device that is not a peer is copied through host memory",
     bridged},
    {"strategy.beside", "a transfer after running work returns at once and is pending", beside},
    {NULL, NULL, NULL},
};
