/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cases_ring.c: messages between host and device. If the device's kernels are in C, a kernel is the
 * other end. On all others the case itself acts as the device, with copies from and to the ring's
 * memory.
 */
#include "bench/generated/ring_code_ptx.h"
#include "bench/ring_kernel.h"
#include "bench/ring_opencl_code.h"
#include "case.h"
#include "generated/ring_echo_spirv.h"

#include <string.h>
#include <vram/ring_device.h>

/* The status that a battery wants; VRAM_OK: VRAM_ERR_INVALID or VRAM_ERR_STALE, either. */
static bool refuses(struct check *check, vram_status status, vram_status want,
                    struct check_place place) {
    return want == VRAM_OK ? check_refused(check, status, place)
                           : check_status(check, status, want, place);
}
#define REFUSES(call) CHECK_TRY(refuses(check, call, want, CHECK_AT(#call)))

static bool as_ring(struct check *check, void *bad, vram_status want) {
    vram_ring *ring = bad;
    vram_ring_message message = {.data = "x", .bytes = 1};
    vram_ring_info info = {.size = sizeof info};
    vram_ring_stats stats = {.size = sizeof stats};
    vram_ring_telemetry telemetry;
    vram_ring_slot header;
    uint64_t count;
    vram_async async;
    char data[8];

    REFUSES(vram_ring_send(ring, "x", 1, 0, 0));
    REFUSES(vram_ring_send_many(ring, &message, 1, 0, &count));
    REFUSES(vram_ring_receive(ring, data, sizeof data, 0, &header));
    REFUSES(vram_ring_flush(ring, &count, &async));
    REFUSES(vram_ring_fetch(ring, &count, &async));
    REFUSES(vram_ring_stop(ring));
    REFUSES(vram_ring_drain(ring, 0));
    REFUSES(vram_ring_join(ring, 0));
    REFUSES(vram_ring_info_get(ring, &info));
    REFUSES(vram_ring_stats_get(ring, &stats));
    REFUSES(vram_ring_telemetry_get(ring, &telemetry));
    REFUSES(vram_ring_check(ring));
    if (ring != NULL) { /* destroying NULL is allowed */
        REFUSES(vram_ring_destroy(ring));
    }
    return true;
}

enum { CAPACITY = 4 };

/* More than fit, so that the ring wraps. */
static uint64_t messages_of(const struct check *check) {
    return check->target->quick ? CAPACITY + 1 : 5 * CAPACITY + 1;
}

/* Options of a small ring. */
static vram_ring_options small(vram_ring_strategy strategy) {
    return (vram_ring_options){.size = sizeof(vram_ring_options),
                               .strategy = strategy,
                               .flags = VRAM_RING_CRC,
                               .input_capacity = CAPACITY,
                               .output_capacity = CAPACITY,
                               .message_bytes = 40,
                               .poll_ns = 50000};
}

static bool handles(struct check *check) {
    struct check_device *device;
    struct check_stock stock;
    vram_ring *ring;
    vram_visibility visibility;
    vram_ring_options options = small(VRAM_RING_SYNC);

    CHECK_TRY(as_ring(check, NULL, VRAM_ERR_INVALID));
    CHECK_TRY(as_ring(check, check->context, VRAM_OK));
    CHECK_TRY(as_ring(check, check, VRAM_OK));
    CHECK_STATUS(check, vram_ring_create(NULL, &options, &ring), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_visibility_detect(NULL, NULL, &visibility, NULL), VRAM_ERR_INVALID);
    CHECK_OPEN(check, &device);
    CHECK_STOCK(check, device, NULL, &stock);
    CHECK_OK(check, vram_ring_create(stock.pool, &options, &ring));
    CHECK_OK(check, vram_ring_destroy(ring));
    CHECK_TRY(as_ring(check, ring, VRAM_ERR_STALE));
    CHECK_OK(check, vram_ring_create(stock.pool, &options, &ring));
    CHECK_OK(check, vram_pool_destroy(stock.pool));
    CHECK_TRY(as_ring(check, ring, VRAM_ERR_STALE));
    return true;
}

/* -------------------------------------------------------- the case as the device */

/* What a device would hold in its hands. */
struct played {
    vram_ring_info info;
    uint64_t *word;   /* one word on its way */
    uint8_t *slot;    /* one slot on its way */
    uint64_t stride;  /* bytes of it */
    uint64_t in, out; /* messages taken and given */
};

static uint64_t slot_at(const struct played *played, bool output, uint64_t message) {
    uint64_t input = played->info.input_capacity * played->stride;
    return played->info.control + VRAM_RING_AT_SLOTS + (output ? input : 0) +
           message % (output ? played->info.output_capacity : played->info.input_capacity) *
               played->stride;
}

static void payload_of(uint64_t number, uint8_t payload[40]) {
    check_seed(payload, 40, number + 1);
}

/* Takes one message, as the convention says: head, slot, tail. */
static bool play_take(struct check *check, struct played *played) {
    vram_queue *queue = played->info.queue;
    vram_addr base = played->info.control;
    uint8_t expected[40];
    vram_ring_slot header;

    CHECK_OK(check, vram_queue_download(queue, played->word, base + VRAM_RING_AT_INPUT_HEAD, 8));
    CHECK_WAIT(check, queue);
    CHECK_THAT(check, *played->word > played->in);
    CHECK_OK(check, vram_queue_download(queue, played->slot, slot_at(played, false, played->in),
                                        played->stride));
    CHECK_WAIT(check, queue);
    memcpy(&header, played->slot, sizeof header);
    payload_of(played->in, expected);
    CHECK_EQUAL(check, header.sequence, played->in + 1);
    CHECK_EQUAL(check, header.bytes, 40);
    CHECK_SAME(check, played->slot + sizeof header, expected, 40);
    CHECK_EQUAL(check, header.crc, vram_ring_crc(0, expected, 40));
    *played->word = ++played->in;
    CHECK_OK(check, vram_queue_upload(queue, base + VRAM_RING_AT_INPUT_TAIL, played->word, 8));
    CHECK_WAIT(check, queue);
    return true;
}

/* Gives one message back: slot, then head. */
static bool play_give(struct check *check, struct played *played) {
    vram_queue *queue = played->info.queue;
    vram_ring_slot header = {.sequence = played->out + 1, .bytes = 40, .kind = 9};
    payload_of(played->out, played->slot + sizeof header);
    header.crc = vram_ring_crc(0, played->slot + sizeof header, 40);
    memcpy(played->slot, &header, sizeof header);
    CHECK_OK(check, vram_queue_upload(queue, slot_at(played, true, played->out), played->slot,
                                      played->stride));
    CHECK_WAIT(check, queue);
    *played->word = ++played->out;
    CHECK_OK(check, vram_queue_upload(queue, played->info.control + VRAM_RING_AT_OUTPUT_HEAD,
                                      played->word, 8));
    CHECK_WAIT(check, queue);
    return true;
}

/* The layout that the device finds is the one that the host wrote. */
static bool play_open(struct check *check, vram_ring *ring, struct played *played) {
    void *memory;
    vram_ring_control control;
    played->info.size = sizeof played->info;
    CHECK_OK(check, vram_ring_info_get(ring, &played->info));
    played->stride = VRAM_RING_STRIDE(40);
    CHECK_TRY(check_host(check, 512, &memory));
    played->word = memory;
    played->slot = (uint8_t *)memory + 128;
    CHECK_OK(check, vram_queue_download(played->info.queue, played->slot, played->info.control,
                                        sizeof control));
    CHECK_WAIT(check, played->info.queue);
    memcpy(&control, played->slot, sizeof control);
    CHECK_EQUAL(check, control.reserved[0], VRAM_RING_MAGIC);
    CHECK_EQUAL(check, control.reserved[1], vram_ring_check_of(&control));
    CHECK_EQUAL(check, (uint64_t)control.is_active, 1);
    CHECK_EQUAL(check, (uint64_t)control.should_terminate, 0);
    CHECK_EQUAL(check, (uint64_t)control.input_queue_capacity, CAPACITY);
    CHECK_EQUAL(check, (uint64_t)control.output_queue_message_size, 40);
    CHECK_EQUAL(check, played->info.control % sizeof control, 0);
    return true;
}

static bool copies_with(struct check *check, struct check_stock *stock,
                        vram_ring_strategy strategy) {
    vram_ring *ring;
    vram_ring_options options = small(strategy);
    struct played played = {0};
    uint8_t data[40], expected[40];
    vram_ring_slot header;
    vram_ring_stats stats = {.size = sizeof stats};
    uint64_t count = messages_of(check);

    check_note(check, "strategy %s", vram_ring_strategy_name(strategy));
    CHECK_OK(check, vram_ring_create(stock->pool, &options, &ring));
    CHECK_TRY(play_open(check, ring, &played));
    for (uint64_t i = 0; i < count; i++) {
        payload_of(i, data);
        CHECK_OK(check, vram_ring_send(ring, data, 40, 0, CHECK_DEADLINE_NS));
        CHECK_OK(check, vram_ring_flush(ring, NULL, NULL));
        CHECK_TRY(play_take(check, &played));
        CHECK_TRY(play_give(check, &played));
        CHECK_OK(check, vram_ring_receive(ring, data, sizeof data, CHECK_DEADLINE_NS, &header));
        payload_of(i, expected);
        CHECK_SAME(check, data, expected, 40);
        CHECK_EQUAL(check, header.kind, 9);
    }
    CHECK_OK(check, vram_ring_drain(ring, CHECK_DEADLINE_NS));
    CHECK_OK(check, vram_ring_check(ring));
    CHECK_OK(check, vram_ring_stats_get(ring, &stats));
    CHECK_EQUAL(check, stats.host_to_device_count, count);
    CHECK_EQUAL(check, stats.device_to_host_count, count);
    CHECK_EQUAL(check, stats.taken, count);
    CHECK_OK(check, vram_ring_destroy(ring));
    return true;
}

static bool copies(struct check *check) {
    struct check_device *device;
    struct check_stock stock;
    CHECK_OPEN(check, &device);
    CHECK_STOCK(check, device, NULL, &stock);
    CHECK_TRY(copies_with(check, &stock, VRAM_RING_SYNC));
    CHECK_TRY(copies_with(check, &stock, VRAM_RING_ASYNC));
    if (check->target->quick) {
        return true;
    }
    return copies_with(check, &stock, VRAM_RING_DMA_POLLING);
}

/* A full ring refuses, and loses nothing; what was stopped takes no more. */
static bool full(struct check *check) {
    struct check_device *device;
    struct check_stock stock;
    vram_ring *ring;
    vram_ring_options options = small(VRAM_RING_SYNC);
    struct played played = {0};
    uint8_t data[40];

    CHECK_OPEN(check, &device);
    CHECK_STOCK(check, device, NULL, &stock);
    CHECK_OK(check, vram_ring_create(stock.pool, &options, &ring));
    CHECK_TRY(play_open(check, ring, &played));
    for (uint64_t i = 0; i < CAPACITY; i++) {
        payload_of(i, data);
        CHECK_OK(check, vram_ring_send(ring, data, 40, 0, 0));
    }
    CHECK_STATUS(check, vram_ring_send(ring, data, 40, 0, 0), VRAM_ERR_NOT_READY);
    CHECK_STATUS(check, vram_ring_send(ring, data, 40, 0, 1000), VRAM_ERR_TIMEOUT);
    CHECK_OK(check, vram_ring_flush(ring, NULL, NULL));
    for (uint64_t i = 0; i < CAPACITY; i++) {
        CHECK_TRY(play_take(check, &played));
    }
    CHECK_OK(check, vram_ring_drain(ring, CHECK_DEADLINE_NS));
    payload_of(CAPACITY, data);
    CHECK_OK(check, vram_ring_send(ring, data, 40, 0, 0));
    CHECK_OK(check, vram_ring_stop(ring));
    CHECK_STATUS(check, vram_ring_send(ring, data, 40, 0, 0), VRAM_ERR_SHUTDOWN);
    CHECK_OK(check, vram_ring_flush(ring, NULL, NULL));
    CHECK_TRY(play_take(check, &played));
    CHECK_OK(check, vram_queue_download(played.info.queue, played.word, played.info.control, 8));
    CHECK_WAIT(check, played.info.queue);
    CHECK_EQUAL(check, *played.word, UINT64_C(1) << 32); /* not active, and to terminate */
    CHECK_OK(check, vram_ring_destroy(ring));
    return true;
}

/* ------------------------------------------------------------- a kernel in C */

static void echo(const vram_kernel_call *call) {
    vram_ring_control *control;
    const uint32_t *gate; /* opened by the runner when the case ends early */
    vram_ring_peer peer;
    memcpy(&control, call->arguments[0], sizeof control);
    memcpy(&gate, call->arguments[1], sizeof gate);
    if (vram_ring_peer_open(control, &peer) != 0) {
        return;
    }
    for (;;) {
        if (ring_echo_one(&peer) > 0) {
            continue;
        }
        if (!ring_stays(&peer) || vram_ring_peer_stopping(&peer) ||
            __atomic_load_n(gate, __ATOMIC_ACQUIRE)) {
            break;
        }
        check_sleep(1000);
    }
    ring_leave(&peer, ring_stays(&peer));
}

static bool launch(struct check *check, vram_queue *queue, vram_kernel *kernel, vram_addr control) {
    vram_launch call = {.size = sizeof call,
                        .groups = {1, 1, 1},
                        .group_size = {1, 1, 1},
                        .argument_count = 2,
                        .arguments = (const void *[]){&control, &check->gates[0]},
                        .argument_bytes = (size_t[]){sizeof control, sizeof check->gates[0]},
                        .address_mask = 1};
    CHECK_OK(check, vram_queue_launch(queue, kernel, &call));
    return true;
}

static bool kernel_with(struct check *check, struct check_stock *stock, vram_queue *queue,
                        vram_kernel *kernel, vram_ring_strategy strategy) {
    vram_ring *ring;
    vram_ring_options options = small(strategy);
    vram_ring_info info = {.size = sizeof info};
    vram_ring_slot header;
    uint8_t data[40], expected[40];

    check_note(check, "strategy %s", vram_ring_strategy_name(strategy));
    vram_status status = vram_ring_create(stock->pool, &options, &ring);
    if (status == VRAM_ERR_UNSUPPORTED && strategy == VRAM_RING_DIRECT) {
        CHECK_THAT(check, strlen(vram_error_get()->text) > 20); /* the reason */
        return true;
    }
    CHECK_OK(check, status);
    CHECK_OK(check, vram_ring_info_get(ring, &info));
    if (info.live) {
        CHECK_TRY(launch(check, queue, kernel, info.control));
    }
    for (uint64_t i = 0; i < messages_of(check); i++) {
        payload_of(i, data);
        CHECK_OK(check, vram_ring_send(ring, data, 40, 0, CHECK_DEADLINE_NS));
        CHECK_OK(check, vram_ring_flush(ring, NULL, NULL));
        if (!info.live) {
            CHECK_TRY(launch(check, info.queue, kernel, info.control));
        }
        CHECK_OK(check, vram_ring_receive(ring, data, sizeof data, CHECK_DEADLINE_NS, &header));
        payload_of(i, expected);
        CHECK_SAME(check, data, expected, 40);
        CHECK_EQUAL(check, header.kind, RING_ECHO_KIND);
    }
    CHECK_OK(check, vram_ring_stop(ring));
    CHECK_OK(check, vram_ring_join(ring, CHECK_DEADLINE_NS));
    if (info.live) {
        CHECK_WAIT(check, queue);
    }
    CHECK_OK(check, vram_ring_destroy(ring));
    return true;
}

static bool kernel(struct check *check) {
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue;
    vram_kernel *loaded;
    void *gate;
    vram_kernel_source source = {.size = sizeof source,
                                 .format = VRAM_KERNEL_C,
                                 .code = (const void *)(uintptr_t)echo,
                                 .entry = "echo"};

    CHECK_NEEDS(check, VRAM_CAP_KERNELS);
    CHECK_OPEN(check, &device);
    CHECK_STOCK(check, device, NULL, &stock);
    CHECK_QUEUE(check, device, &queue);
    vram_status status = vram_kernel_create(device->device, &source, &loaded);
    if (status == VRAM_ERR_UNSUPPORTED) {
        return check_skip(check, "the device runs no kernels in C");
    }
    CHECK_OK(check, status);
    CHECK_TRY(check_host(check, sizeof(uint32_t), &gate));
    check->gates[0] = gate;
    CHECK_TRY(kernel_with(check, &stock, queue, loaded, VRAM_RING_SYNC));
    CHECK_TRY(kernel_with(check, &stock, queue, loaded, VRAM_RING_ASYNC));
    CHECK_TRY(kernel_with(check, &stock, queue, loaded, VRAM_RING_DIRECT));
    if (check->target->quick) {
        return true;
    }
    return kernel_with(check, &stock, queue, loaded, VRAM_RING_DMA_POLLING);
}

/* -------------------------------------------- a kernel in the device's own language */

/* The kernels end by themselves if no message arrives for so long: ns, or turns if there is no
   clock. */
#define LONELY UINT64_C(10000000000)

static vram_status load_code(vram_device *device, vram_kernel **loaded) {
    vram_kernel_source source = {.size = sizeof source,
                                 .format = VRAM_KERNEL_PTX,
                                 .code = ring_code_ptx,
                                 .code_bytes = sizeof ring_code_ptx - 1,
                                 .entry = "vram_ring_echo"};
    vram_status status = vram_kernel_create(device, &source, loaded);
    if (status == VRAM_ERR_UNSUPPORTED) {
        source.format = VRAM_KERNEL_OPENCL_C;
        source.code = ring_opencl_code;
        source.code_bytes = sizeof ring_opencl_code - 1;
        status = vram_kernel_create(device, &source, loaded);
    }
    return status;
}

/* The kernel stays, and the ring lies in memory that both reach. */
static bool talk(struct check *check, vram_ring *ring) {
    uint8_t data[40], expected[40];
    vram_ring_slot header;
    for (uint64_t i = 0; i < messages_of(check); i++) {
        payload_of(i, data);
        CHECK_OK(check, vram_ring_send(ring, data, 40, 0, CHECK_DEADLINE_NS));
        CHECK_OK(check, vram_ring_receive(ring, data, sizeof data, CHECK_DEADLINE_NS, &header));
        payload_of(i, expected);
        CHECK_SAME(check, data, expected, 40);
        CHECK_EQUAL(check, header.kind, RING_ECHO_KIND);
    }
    CHECK_OK(check, vram_ring_stop(ring));
    CHECK_OK(check, vram_ring_join(ring, CHECK_DEADLINE_NS));
    return true;
}

/* A kernel that finds the control block damaged takes no message, tells the host, and is not waited
   for. */
static bool damaged(struct check *check, vram_ring *ring, const vram_ring_info *info,
                    vram_kernel *loaded, const vram_launch *call) {
    vram_ring_stats stats = {.size = sizeof stats};
    uint32_t capacity = UINT32_C(1) << 30;
    uint8_t data[40];

    payload_of(0, data);
    CHECK_OK(check, vram_ring_send(ring, data, 40, 0, CHECK_DEADLINE_NS));
    CHECK_OK(check, vram_ring_flush(ring, NULL, NULL));
    CHECK_OK(check,
             vram_queue_upload(info->queue,
                               info->control + offsetof(vram_ring_control, input_queue_capacity),
                               &capacity, sizeof capacity));
    CHECK_WAIT(check, info->queue);
    CHECK_OK(check, vram_ring_stats_get(ring, &stats));
    uint64_t taken = stats.taken;
    CHECK_OK(check, vram_queue_launch(info->queue, loaded, call));
    CHECK_WAIT(check, info->queue);
    CHECK_OK(check, vram_ring_fetch(ring, NULL, NULL));
    CHECK_OK(check, vram_ring_stats_get(ring, &stats));
    CHECK_THAT(check, stats.kernel_errors > 0 && stats.has_terminated == VRAM_RING_DONE);
    CHECK_EQUAL(check, stats.taken, taken);
    CHECK_STATUS(check, vram_ring_check(ring), VRAM_ERR_CORRUPT);
    return true;
}

/* Where no kernel can stay: launched for each message, with copies before and behind it. */
static bool turns(struct check *check, struct check_device *device, struct check_stock *stock) {
    vram_ring *ring;
    vram_kernel *loaded;
    vram_ring_info info = {.size = sizeof info};
    vram_ring_options options = small(VRAM_RING_SYNC);
    vram_ring_slot header;
    uint8_t data[40], expected[40];
    vram_kernel_source source = {.size = sizeof source,
                                 .format = VRAM_KERNEL_SPIRV,
                                 .code = ring_echo_spirv,
                                 .code_bytes = sizeof ring_echo_spirv,
                                 .entry = "vram_ring_echo"};

    vram_status status = vram_kernel_create(device->device, &source, &loaded);
    if (status == VRAM_ERR_UNSUPPORTED) {
        return check_skip(check, "no kernel can stay here, and the device takes no SPIR-V");
    }
    CHECK_OK(check, status);
    CHECK_OK(check, vram_ring_create(stock->pool, &options, &ring));
    CHECK_OK(check, vram_ring_info_get(ring, &info));
    vram_launch call = {.size = sizeof call,
                        .groups = {1, 1, 1},
                        .group_size = {1, 1, 1},
                        .argument_count = 1,
                        .arguments = (const void *[]){&info.control},
                        .argument_bytes = (size_t[]){8},
                        .address_mask = 1};
    for (uint64_t i = 0; i < messages_of(check); i++) {
        payload_of(i, data);
        CHECK_OK(check, vram_ring_send(ring, data, 40, 0, CHECK_DEADLINE_NS));
        CHECK_OK(check, vram_ring_flush(ring, NULL, NULL));
        CHECK_OK(check, vram_queue_launch(info.queue, loaded, &call));
        CHECK_OK(check, vram_ring_receive(ring, data, sizeof data, CHECK_DEADLINE_NS, &header));
        payload_of(i, expected);
        CHECK_SAME(check, data, expected, 40);
        CHECK_EQUAL(check, header.kind, RING_ECHO_KIND);
    }
    CHECK_OK(check, vram_ring_join(ring, CHECK_DEADLINE_NS));
    CHECK_WAIT(check, info.queue);
    CHECK_TRY(damaged(check, ring, &info, loaded, &call));
    vram_kernel_destroy(loaded);
    CHECK_OK(check, vram_ring_destroy(ring));
    return true;
}

static bool code(struct check *check) {
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue;
    vram_kernel *loaded;
    vram_ring *ring;
    vram_ring_info info = {.size = sizeof info};
    vram_ring_options options = small(VRAM_RING_DIRECT);
    uint64_t patience = LONELY, none = 0;

    CHECK_NEEDS(check, VRAM_CAP_KERNELS);
    CHECK_OPEN(check, &device);
    CHECK_STOCK(check, device, NULL, &stock);
    CHECK_QUEUE(check, device, &queue);
    vram_status status = vram_ring_create(stock.pool, &options, &ring);
    if (status == VRAM_ERR_UNSUPPORTED) {
        return turns(check, device, &stock);
    }
    CHECK_OK(check, status);
    CHECK_OK(check, vram_ring_info_get(ring, &info));
    status = load_code(device->device, &loaded);
    if (status == VRAM_ERR_UNSUPPORTED) {
        return check_skip(check, "the device runs neither PTX nor OpenCL C");
    }
    CHECK_OK(check, status);
    vram_launch call = {.size = sizeof call,
                        .groups = {1, 1, 1},
                        .group_size = {1, 1, 1},
                        .argument_count = 3,
                        .arguments = (const void *[]){&info.control, &patience, &none},
                        .argument_bytes = (size_t[]){8, 8, 8},
                        .address_mask = 1};
    CHECK_OK(check, vram_queue_launch(queue, loaded, &call));
    bool good = talk(check, ring);
    (void)vram_ring_stop(ring); /* a kernel that runs is told to end, whatever happened */
    CHECK_TRY(good);
    CHECK_WAIT(check, queue);
    vram_kernel_destroy(loaded);
    CHECK_OK(check, vram_ring_destroy(ring));
    return true;
}

/* A visibility that the device lacks is refused with the reason, and the ring of AUTO works by
   copies. */
static bool visibility(struct check *check) {
    struct check_device *device;
    struct check_stock stock;
    vram_visibility seen = VRAM_VISIBILITY_AUTO;
    char reason[VRAM_VISIBILITY_REASON_MAX] = "";
    vram_ring *ring;
    vram_ring_info info = {.size = sizeof info};
    vram_ring_options options = small(VRAM_RING_DIRECT);

    CHECK_OPEN(check, &device);
    CHECK_STOCK(check, device, NULL, &stock);
    CHECK_OK(check, vram_visibility_detect(device->device, NULL, &seen, reason));
    CHECK_THAT(check, seen != VRAM_VISIBILITY_AUTO);
    CHECK_EQUAL(check, reason[0] == 0, seen == VRAM_VISIBILITY_SYSTEM);
    if (seen != VRAM_VISIBILITY_SYSTEM) {
        CHECK_STATUS(check, vram_ring_create(stock.pool, &options, &ring), VRAM_ERR_UNSUPPORTED);
        CHECK_THAT(check, strstr(vram_error_get()->text, reason) != NULL);
    }
    options.strategy = VRAM_RING_ASYNC;
    options.visibility = VRAM_VISIBILITY_DMA;
    CHECK_OK(check, vram_ring_create(stock.pool, &options, &ring));
    CHECK_OK(check, vram_ring_info_get(ring, &info));
    CHECK_THAT(check, !info.live && info.visibility == VRAM_VISIBILITY_DMA);
    CHECK_OK(check, vram_ring_destroy(ring));
    return true;
}

const struct check_case check_cases_ring[] = {
    {"ring.handles", "calls of ring.h refuse invalid handles", handles},
    {"ring.copies", "messages reach device memory and come back by copies, in order", copies},
    {"ring.full", "a full ring makes its senders wait, a stopped one refuses them", full},
    {"ring.kernel", "a kernel in C is the other end of a ring, with every strategy", kernel},
    {"ring.code", "a kernel in the device's own language answers, and keeps running if it can",
     code},
    {"ring.visibility", "a visibility that the device lacks is refused with the reason",
     visibility},
    {NULL, NULL, NULL},
};
