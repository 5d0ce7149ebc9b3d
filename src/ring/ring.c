/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring.c: creating, describing and ending rings.
 *
 * A ring is a child of its pool (pool_end.c), and its memory is buffers of that pool. The thread
 * that retires its handle ends it: it stops the ring's thread first, then drops the owner's
 * reference. The destructor, which runs when the last call has left, waits for the copies, frees
 * queue and memory, and drops the reference to the pool.
 */
#include "core/pool/pool_calls.h"
#include "ring/ring_object.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "device/device_calls.h"
#include "mem/mem_calls.h"
#include "ring/visibility_table.h"
#include "vram/ring_device.h"

#include <stdio.h>
#include <string.h>

const char *vram_ring_strategy_name(vram_ring_strategy strategy) {
    static const char *const names[] = {"auto", "sync", "async", "direct", "dma_polling"};
    return (unsigned)strategy < 5 ? names[strategy] : "unknown";
}

/* ------------------------------------------------------------------- options */

enum { WAYS = VRAM_RING_INPUT | VRAM_RING_OUTPUT, FLAGS = (VRAM_RING_NO_TELEMETRY << 1) - 1 };

static vram_status check_capacity(uint32_t capacity, const char *which) {
    if (capacity > VRAM_RING_CAPACITY_MAX) {
        return vr_fail(VRAM_ERR_INVALID, "the %s's capacity is more than %d messages", which,
                       VRAM_RING_CAPACITY_MAX);
    }
    if (capacity & (capacity - 1)) {
        uint32_t next = 1;
        while (next < capacity) {
            next *= 2;
        }
        return vr_fail(VRAM_ERR_INVALID,
                       "the %s's capacity, %u, is not a power of two; the next is %u", which,
                       capacity, next);
    }
    return VRAM_OK;
}

/* Sets defaults, and rejects invalid options. */
static vram_status options_settle(struct vram_ring_options *options) {
    if ((unsigned)options->strategy > VRAM_RING_DMA_POLLING || options->flags & ~(uint32_t)FLAGS ||
        (unsigned)options->visibility > VRAM_VISIBILITY_SYSTEM) {
        return vr_fail(VRAM_ERR_INVALID, "no such strategy, flag or visibility");
    }
    if (options->message_bytes > VRAM_RING_MESSAGE_MAX ||
        options->poll_ns > VRAM_RING_POLL_MAX_NS) {
        return vr_fail(VRAM_ERR_INVALID,
                       "messages may have %d bytes at most, and poll_ns may be %llu at most",
                       VRAM_RING_MESSAGE_MAX, (unsigned long long)VRAM_RING_POLL_MAX_NS);
    }
    options->flags |= options->flags & WAYS ? 0 : WAYS;
    uint32_t *const capacities[2] = {&options->input_capacity, &options->output_capacity};
    for (uint32_t i = 0; i < 2; i++) {
        vram_status status = check_capacity(*capacities[i], i ? "output" : "input");
        if (status != VRAM_OK) {
            return status;
        }
        if (!(options->flags & (i ? VRAM_RING_OUTPUT : VRAM_RING_INPUT))) {
            *capacities[i] = 0;
        } else if (*capacities[i] == 0) {
            *capacities[i] = VRAM_RING_CAPACITY_DEFAULT;
        }
    }
    options->message_bytes =
        options->message_bytes ? options->message_bytes : VRAM_RING_MESSAGE_DEFAULT;
    options->poll_ns = options->poll_ns ? options->poll_ns : VRAM_RING_POLL_NS;
    return VRAM_OK;
}

/* Chooses visibility and strategy, and records why not more is possible. */
static vram_status strategy_choose(struct vr_ring *ring, const struct vram_ring_options *options) {
    struct vram_ring_info *info = &ring->info;
    vram_visibility most =
        vr_visibility_here(&ring->device->base.info, options->kernel_text, info->reason);
    if (options->visibility > most) {
        return vr_fail(VRAM_ERR_UNSUPPORTED, "visibility \"%s\": %s",
                       vr_visibility_name(options->visibility), info->reason);
    }
    if (options->visibility != VRAM_VISIBILITY_AUTO && options->visibility < most) {
        most = options->visibility;
        snprintf(info->reason, sizeof info->reason, "the program asked for visibility \"%s\"",
                 vr_visibility_name(most));
    }
    info->visibility = most;
    info->live = most == VRAM_VISIBILITY_SYSTEM;
    info->strategy = options->strategy;
    if (info->strategy == VRAM_RING_AUTO) {
        info->strategy = info->live ? VRAM_RING_DIRECT : VRAM_RING_DMA_POLLING;
    }
    if (info->strategy == VRAM_RING_DIRECT && !info->live) {
        return vr_fail(VRAM_ERR_UNSUPPORTED, "strategy \"direct\": %s", info->reason);
    }
    return VRAM_OK;
}

/* -------------------------------------------------------------------- memory */

static vram_status take_buffer(vram_pool *pool, uint64_t bytes, vram_queue *queue,
                               vram_buffer_kind kind, const char *name, vram_buffer **buffer) {
    vram_buffer_options options = {.size = sizeof options,
                                   .kind = kind,
                                   .flags = kind == VRAM_BUFFER_PINNED ? VRAM_BUFFER_PAGEABLE : 0,
                                   .name = name,
                                   .tag = "ring"};
    return vr_buffer_create(pool, bytes, queue, &options, buffer);
}

/* Memory for both sides: of a kind that does not migrate, if there is one. */
static vram_status take_shared(struct vr_ring *ring, vram_pool *pool) {
    void *host;
    uint32_t caps = ring->device->base.info.caps;
    vram_buffer_kind kind =
        caps & (VRAM_CAP_HOST_ACCESS | VRAM_CAP_PINNED) ? VRAM_BUFFER_MAPPED : VRAM_BUFFER_MANAGED;
    vram_status status = take_buffer(pool, ring->info.bytes, NULL, kind, "ring", &ring->block);
    if (status == VRAM_OK) {
        status = vr_buffer_host(ring->block, &host);
    }
    if (status == VRAM_OK) {
        ring->shared = host;
    }
    return status;
}

/* The device's block and the host's half. */
static vram_status take_halves(struct vr_ring *ring, vram_pool *pool, vram_queue *queue) {
    uint64_t words = VR_RING_STEPS * sizeof *ring->steps + sizeof *ring->counters +
                     VR_RING_PEEK * sizeof *ring->peeked;
    uint64_t slots = ring->info.bytes - VRAM_RING_AT_SLOTS;
    void *host;
    vram_status status = VRAM_OK;
    if (!queue) {
        status = vr_queue_make((vram_device *)(uintptr_t)ring->device->object.handle, NULL, &queue);
        ring->own_queue = status == VRAM_OK;
    }
    if (status == VRAM_OK) {
        ring->info.queue = queue;
        status =
            take_buffer(pool, ring->info.bytes, queue, VRAM_BUFFER_DEVICE, "ring", &ring->block);
    }
    if (status == VRAM_OK) {
        status = take_buffer(pool, words + slots, queue, VRAM_BUFFER_PINNED, "ring staging",
                             &ring->staging);
    }
    if (status == VRAM_OK) {
        status = vr_buffer_host(ring->staging, &host);
    }
    if (status == VRAM_OK) {
        memset(host, 0, (size_t)(words + slots));
        ring->steps = host;
        ring->counters = (void *)(ring->steps + VR_RING_STEPS);
        ring->peeked = (void *)(ring->counters + 1);
        ring->input.slots = (unsigned char *)(ring->peeked + VR_RING_PEEK);
        ring->output.slots = ring->input.slots + ring->input.capacity * ring->input.stride;
    }
    return status;
}

static vr_atomic_u64 *word_at(const struct vr_ring *ring, uint64_t offset) {
    return (vr_atomic_u64 *)(void *)(ring->shared + offset);
}

/* Sets the channels' pointers to the counters. */
static void channels_connect(struct vr_ring *ring) {
    if (vr_ring_copies(ring)) {
        ring->input.head = &ring->head.word;
        ring->input.claim = &ring->claim.word;
        ring->input.tail = &ring->tail.word;
        ring->output.head = &ring->arrived.word;
        ring->output.tail = &ring->consumed.word;
        return;
    }
    ring->input.head = word_at(ring, VRAM_RING_AT_INPUT_HEAD);
    ring->input.claim = word_at(ring, VRAM_RING_AT_INPUT_HEAD + sizeof(uint64_t));
    ring->input.tail = word_at(ring, VRAM_RING_AT_INPUT_TAIL);
    ring->output.head = word_at(ring, VRAM_RING_AT_OUTPUT_HEAD);
    ring->output.tail = word_at(ring, VRAM_RING_AT_OUTPUT_TAIL);
    ring->input.slots = ring->shared + VRAM_RING_AT_SLOTS;
    ring->output.slots = ring->input.slots + ring->input.capacity * ring->input.stride;
}

static void control_make(struct vr_ring *ring) {
    struct vram_ring_control control;
    bool offsets = !(ring->device->base.info.caps & VRAM_CAP_TRUE_ADDRESS);
    uint64_t base = offsets ? 0 : ring->info.control, flags = offsets ? VRAM_RING_FLAG_OFFSETS : 0;
    uint32_t asked = ring->info.flags;
    flags |= ring->info.visibility == VRAM_VISIBILITY_SYSTEM ? VRAM_RING_FLAG_SYSTEM : 0;
    flags |= asked & VRAM_RING_CRC ? VRAM_RING_FLAG_CRC : 0;
    flags |= asked & VRAM_RING_NO_TELEMETRY ? 0 : VRAM_RING_FLAG_TELEMETRY;
    flags |= asked & VRAM_RING_MULTI_INPUT ? VRAM_RING_FLAG_MULTI_INPUT : 0;
    flags |= asked & VRAM_RING_MULTI_OUTPUT ? VRAM_RING_FLAG_MULTI_OUTPUT : 0;
    control = (struct vram_ring_control){
        .is_active = 1,
        .input_queue_head_ptr = base + VRAM_RING_AT_INPUT_HEAD,
        .input_queue_tail_ptr = base + VRAM_RING_AT_INPUT_TAIL,
        .input_queue_buffer_ptr = base + VRAM_RING_AT_SLOTS,
        .input_queue_capacity = (int32_t)ring->input.capacity,
        .input_queue_message_size = (int32_t)ring->input.message_bytes,
        .output_queue_head_ptr = base + VRAM_RING_AT_OUTPUT_HEAD,
        .output_queue_tail_ptr = base + VRAM_RING_AT_OUTPUT_TAIL,
        .output_queue_buffer_ptr =
            base + VRAM_RING_AT_SLOTS + ring->input.capacity * ring->input.stride,
        .output_queue_capacity = (int32_t)ring->output.capacity,
        .output_queue_message_size = (int32_t)ring->output.message_bytes,
        .reserved = {VRAM_RING_MAGIC, 0, flags, 0}};
    control.reserved[1] = vram_ring_check_of(&control);
    memcpy(ring->control, &control, sizeof control);
    ring->control_sent = vr_ring_control_word(ring);
}

/* Writes zeros with the control block at their start, before the ring is visible to others. */
static vram_status write_block(struct vr_ring *ring) {
    if (!vr_ring_copies(ring)) {
        memset(ring->shared, 0, (size_t)ring->info.bytes);
        memcpy(ring->shared, ring->control, sizeof ring->control);
        return VRAM_OK;
    }
    vram_queue *queue = ring->info.queue;
    memcpy(ring->peeked, ring->control, sizeof ring->control);
    vram_status status = vr_submit_fill(queue, ring->info.control, 0, 4, ring->info.bytes);
    if (status == VRAM_OK) {
        status = vr_submit_upload(queue, ring->info.control, ring->peeked, sizeof ring->control);
    }
    return status == VRAM_OK ? vr_queue_wait(queue, VRAM_TIMEOUT_DEFAULT) : status;
}

/* What the host reads and writes in place stays there: the pool neither sleeps nor is sealed. */
static vram_status block_pin(struct vr_ring *ring) {
    if (vr_ring_copies(ring) || !(ring->device->base.info.caps & VRAM_CAP_HOST_ACCESS) ||
        !vr_pool_on_device(ring->pool)) {
        return VRAM_OK; /* or it is no block of the pool's */
    }
    vram_status status = vr_pin(ring->info.control);
    ring->pinned = status == VRAM_OK;
    return status;
}

static vram_status ring_build(struct vr_ring *ring, vram_pool *pool,
                              const struct vram_ring_options *options) {
    vram_status status = strategy_choose(ring, options);
    if (status == VRAM_OK) {
        status = ring->info.strategy == VRAM_RING_DIRECT ? take_shared(ring, pool)
                                                         : take_halves(ring, pool, options->queue);
    }
    if (status == VRAM_OK) {
        status = vr_buffer_addr(ring->block, &ring->info.control);
    }
    if (status == VRAM_OK && ring->info.control % sizeof(vram_ring_control)) {
        status =
            vr_fail(VRAM_ERR_UNSUPPORTED, "the pool's memory is aligned to less than 128 bytes");
    }
    if (status == VRAM_OK) {
        status = block_pin(ring);
    }
    if (status == VRAM_OK) {
        channels_connect(ring);
        control_make(ring);
        status = write_block(ring);
    }
    return status;
}

/* -------------------------------------------------------------- making, ending */

/* The destructor, also of a half-built ring. */
static void ring_free(void *object) {
    struct vr_ring *ring = object;
    struct vram_error error;
    vr_error_save(&error);
    vr_ring_thread_stop(ring);
    if (ring->own_queue) {
        vr_queue_end(ring->info.queue);
    } else if (ring->info.queue) {
        (void)vr_point_wait(vr_ring_last_point(ring), VRAM_TIMEOUT_DEFAULT);
    }
    vr_ring_loads_end(ring);
    if (ring->pinned) {
        (void)vr_unpin(ring->info.control);
    }
    (void)vr_buffer_destroy(ring->staging);
    (void)vr_buffer_destroy(ring->block);
    vr_error_restore(&error);
    uint64_t pool = ring->pool->object.handle;
    vr_pool_child_remove(pool, ring->pool, &ring->child);
    vr_cond_destroy(&ring->wake);
    vr_mutex_destroy(&ring->lock);
    vr_mem_free(ring);
    vr_handle_unpin(pool);
}

static vram_status ring_end(void *object) {
    struct vr_ring *ring = object;
    vr_store(&ring->ending, true, VR_RELEASE);
    vr_ring_thread_stop(ring);
    return VRAM_OK;
}

static void pool_ended(struct vr_pool_child *child) {
    vr_object_parent_ended(&VR_CONTAINER(child, struct vr_ring, child)->object, ring_end);
}

static vram_status ring_make(struct vr_pool *pool, const struct vram_ring_options *options,
                             struct vr_ring **out) {
    struct vr_ring *ring = vr_mem_alloc(1, sizeof *ring, vr_operation());
    if (!ring) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vram_status status = vr_cond_init(&ring->wake);
    if (status != VRAM_OK) {
        vr_mem_free(ring);
        return status;
    }
    vr_mutex_init(&ring->lock, VR_RANK_RING);
    ring->object.process = vr_os_process_generation();
    ring->child.pool_ended = pool_ended;
    ring->pool = pool;
    vr_handle_ref(pool->object.handle);
    ring->device = pool->device;
    ring->wait_ns = pool->device->context->wait_ns;
    struct vr_channel channel = {.stride = VRAM_RING_STRIDE(options->message_bytes),
                                 .message_bytes = options->message_bytes,
                                 .crc = options->flags & VRAM_RING_CRC};
    ring->input = ring->output = channel;
    ring->input.capacity = options->input_capacity;
    ring->input.multi = options->flags & VRAM_RING_MULTI_INPUT;
    ring->output.capacity = options->output_capacity;
    ring->info = (struct vram_ring_info){
        .size = sizeof ring->info,
        .bytes = VRAM_RING_AT_SLOTS +
                 ((uint64_t)options->input_capacity + options->output_capacity) * channel.stride,
        .flags = options->flags,
        .input_capacity = options->input_capacity,
        .output_capacity = options->output_capacity,
        .message_bytes = options->message_bytes};
    *out = ring;
    return VRAM_OK;
}

static vram_status ring_create(struct vr_pool *pool, const struct vram_ring_options *options,
                               vram_ring **out) {
    uint64_t handle;
    struct vr_ring *ring;
    vram_status status = ring_make(pool, options, &ring);
    if (status != VRAM_OK) {
        return status;
    }
    status = ring_build(ring, (vram_pool *)(uintptr_t)pool->object.handle, options);
    if (status == VRAM_OK && ring->info.strategy == VRAM_RING_DMA_POLLING) {
        ring->info.poll_ns = options->poll_ns;
        status = vr_ring_thread_start(ring);
    }
    if (status != VRAM_OK) {
        ring_free(ring);
        return status;
    }
    status =
        vr_pool_child_publish(pool, VR_KIND_RING, &ring->object, ring_free, &ring->child, &handle);
    if (status == VRAM_OK) {
        *out = (vram_ring *)(uintptr_t)handle;
    }
    return status;
}

vram_status vram_ring_create(vram_pool *pool_handle, const vram_ring_options *options,
                             vram_ring **out) {
    VR_CALL;
    struct vram_ring_options taken;
    struct vr_queue_object *queue;
    struct vr_pool *pool;
    if (!out) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the ring is NULL");
    }
    vram_status status = vr_options_take(&taken, sizeof taken, options);
    if (status == VRAM_OK) {
        status = options_settle(&taken);
    }
    if (status == VRAM_OK) {
        status = vr_pool_enter(pool_handle, taken.queue, &pool, &queue);
    }
    if (status == VRAM_OK) {
        status =
            vr_stale_if_ended(VR_KIND_POOL, (uintptr_t)pool_handle, ring_create(pool, &taken, out));
        vr_pool_leave(pool, queue);
    }
    return status;
}

vram_status vram_ring_destroy(vram_ring *handle) {
    VR_CALL;
    void *entered;
    vram_status status = vr_end_enter(VR_KIND_RING, handle, &entered);
    struct vr_ring *ring = entered;
    if (!ring) {
        return status;
    }
    if (vr_ring_thread_is_own(ring)) {
        vr_leave(ring);
        return vr_fail(
            VRAM_ERR_BUSY,
            "this is the ring's own thread, inside a callback of the program: destroy the "
            "ring on another thread, after the callback has returned");
    }
    if (!vr_object_end(&ring->object, ring_end, &status)) {
        status = vr_fail(VRAM_ERR_STALE, "the ring is being destroyed already");
    }
    vr_leave(ring);
    return status;
}

/* --------------------------------------------------------------- description */

vram_status vram_ring_info_get(vram_ring *handle, vram_ring_info *info) {
    VR_CALL;
    void *entered;
    vram_status status = vr_enter(VR_KIND_RING, handle, &entered);
    if (status == VRAM_OK) {
        const struct vr_ring *ring = entered;
        status = vr_info_give(info, &ring->info, sizeof ring->info, sizeof ring->info);
        vr_leave(entered);
    }
    return status;
}
