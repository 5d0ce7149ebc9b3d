/* SPDX-License-Identifier: Apache-2.0 */
/*
 * race_world.c: makes the objects of a run, with work in progress, and checks what is left when
 * both calls have returned.
 *
 * The variant of a run chooses what kind of pool, buffer and ring there is: see below.
 */
#include "race/race_table.h"

#include "base/handle.h"
#include "base/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Alignas(65536) unsigned char race_registered[8][65536];

#define BIT(n) (UINT64_C(1) << (n))

/* ------------------------------------------------------------------------ making */

/* Stops at the first object that cannot be made. */
#define NEED(call)                                                                                 \
    do {                                                                                           \
        if ((call) != VRAM_OK) {                                                                   \
            world->failed = #call;                                                                 \
            return;                                                                                \
        }                                                                                          \
    } while (0)

static const uint32_t pool_flags[] = {0, VRAM_POOL_TRACKED, VRAM_POOL_DETERMINISTIC,
                                      VRAM_POOL_SEGMENTS};
static const vram_buffer_kind buffer_kinds[] = {VRAM_BUFFER_DEVICE, VRAM_BUFFER_FALLBACK,
                                                VRAM_BUFFER_PINNED};
static const vram_ring_strategy strategies[] = {VRAM_RING_SYNC, VRAM_RING_ASYNC,
                                                VRAM_RING_DMA_POLLING};

static void slow_kernel(const vram_kernel_call *call) {
    (void)call;
    usleep(200);
}

static vram_status slow_kernel_make(vram_device *device, vram_kernel **kernel) {
    vram_kernel_source source = {.size = sizeof source,
                                 .format = VRAM_KERNEL_C,
                                 .code = (const void *)(uintptr_t)slow_kernel,
                                 .entry = "slow_kernel"};
    return vram_kernel_create(device, &source, kernel);
}

static void make_kernel(struct world *world) {
    NEED(slow_kernel_make(world->device, &world->kernel));
}

/* On the host a kernel keeps the queue busy; a simulated queue is late by itself. */
static void keep_busy(struct world *world) {
    vram_launch launch = {.size = sizeof launch, .groups = {1, 1, 1}, .group_size = {1, 1, 1}};
    if (strcmp(world->backend, "host") == 0) {
        NEED(slow_kernel_make(world->device, &world->busy));
        NEED(vram_queue_launch(world->queue, world->busy, &launch));
    }
}

static void make_base(struct world *world, uint64_t kinds, bool set_queue) {
    char sim[80];
    snprintf(sim, sizeof sim, "memory=64M,real=on,lag=%u,seed=%u,devices=%d",
             4 + world->variant % 13, world->variant + 1, kinds & BIT(KIND_PEER) ? 2 : 1);
    vram_context_options options = {.size = sizeof options, .backends = world->backend, .sim = sim};
    vram_pool_options pool = {.size = sizeof pool,
                              .flags = pool_flags[world->variant % 4],
                              .range_bytes = UINT64_C(256) << 20};
    NEED(vram_context_create(&options, &world->context));
    NEED(vram_device_open(world->context, 0, &world->device));
    NEED(vram_queue_create(world->device, NULL, &world->other));
    if (kinds & BIT(KIND_STREAM_SET)) {
        NEED(vram_stream_set_create(world->device, NULL, &world->set));
    }
    if (set_queue) {
        NEED(vram_stream_set_get(world->set, 1, &world->queue));
    } else {
        NEED(vram_queue_create(world->device, NULL, &world->queue));
    }
    NEED(vram_pool_create(world->device, &pool, &world->pool));
    NEED(vram_alloc(world->pool, COPY_BYTES, world->queue, &world->block));
    keep_busy(world);
    if (!world->failed) {
        NEED(vram_queue_fill(world->queue, world->block, SOURCE_BYTE, 1, COPY_BYTES));
    }
}

static void make_peer(struct world *world) {
    NEED(vram_device_open(world->context, 1, &world->peer));
}

static int native; /* what a simulated queue is made on */

static void make_adopted(struct world *world) {
    NEED(vram_queue_adopt(world->device, &native, &world->adopted));
    NEED(vram_queue_fill(world->adopted, world->block, SOURCE_BYTE, 1, COPY_BYTES));
}

static void make_captured(struct world *world) {
    make_adopted(world);
    if (!world->failed) {
        NEED(vram_capture_begin(world->adopted, &world->captured));
    }
}

static void make_memory(struct world *world) {
    NEED(vram_device_alloc(world->device, COPY_BYTES, VRAM_MEMORY_DEVICE, &world->memory));
}

static void make_physical(struct world *world) {
    NEED(vram_physical_create(world->device, 2 << 20, &world->physical));
}

static void make_range(struct world *world) {
    make_physical(world);
    if (!world->failed) {
        NEED(vram_range_create(world->device, 2 << 20, &world->range));
    }
}

static void make_registered(struct world *world) {
    for (int i = 0; i < 8; i++) {
        NEED(vram_pinned_begin(world->device, race_registered[i], sizeof race_registered[i]));
        NEED(vram_pinned_end(world->device, race_registered[i], sizeof race_registered[i]));
    }
}

static void make_readback(struct world *world) {
    uint64_t number;
    NEED(vram_readback_create(world->device, NULL, &world->readback));
    NEED(vram_readback_start(world->readback, world->queue, world->block, 4096, &number));
}

static void make_frame(struct world *world) {
    make_readback(world);
    if (!world->failed) {
        NEED(vram_readback_wait(world->readback, 1, VRAM_TIMEOUT_DEFAULT));
        NEED(vram_readback_latest(world->readback, &world->frame));
    }
}

static void make_feed(struct world *world) {
    NEED(vram_feed_create(world->device, NULL, &world->feed));
}

static void make_feed_block(struct world *world) {
    make_feed(world);
    if (!world->failed) {
        NEED(vram_feed_begin(world->feed, 4096, VRAM_TIMEOUT_DEFAULT, &world->feed_block));
        memset(world->feed_block.data, UPLOAD_BYTE, 4096);
    }
}

static void make_block(struct world *world) {
    NEED(vram_alloc(world->pool, COPY_BYTES, world->queue, &world->spare));
}

static void make_buffer(struct world *world) {
    vram_buffer_options options = {.size = sizeof options,
                                   .kind = buffer_kinds[world->variant / 4 % 3]};
    vram_span span;
    static const unsigned char contents[COPY_BYTES] = {1};
    NEED(vram_buffer_create(world->pool, COPY_BYTES, world->queue, &options, &world->buffer));
    NEED(vram_buffer_span(world->buffer, 0, COPY_BYTES, &span));
    NEED(vram_span_upload(world->queue, span, contents));
}

static void make_mapped(struct world *world) {
    void *pointer;
    make_buffer(world);
    if (!world->failed) {
        NEED(vram_buffer_map(world->buffer, 0, COPY_BYTES, VRAM_MAP_READ | VRAM_MAP_WRITE,
                             world->queue, &pointer));
    }
}

static void make_scope(struct world *world) {
    vram_addr addr;
    NEED(vram_scope_begin(world->pool, NULL, &world->scope));
    NEED(vram_scope_alloc(world->scope, COPY_BYTES, world->queue, &addr));
    if (world->buffer) {
        NEED(vram_scope_buffer_give(world->scope, world->buffer));
    }
}

static void make_batch(struct world *world) {
    vram_batch_item item = {.size = sizeof item, .elements = 1000};
    uint32_t first;
    NEED(vram_batch_create(world->pool, world->queue, NULL, &world->batch));
    NEED(vram_batch_add(world->batch, &item, 1, &first));
    if (world->buffer) {
        NEED(vram_batch_give(world->batch, world->buffer, &first));
    }
}

static void make_named(struct world *world) {
    vram_buffer *buffer;
    NEED(vram_named_create(world->pool, world->queue, NULL, &world->named));
    NEED(vram_named_add(world->named, "a", COPY_BYTES, NULL, &buffer));
    if (world->buffer) { /* the pair is about a buffer of the manager's */
        NEED(vram_buffer_destroy(world->buffer));
        world->buffer = buffer;
    }
}

static void make_ring(struct world *world) {
    vram_ring_options options = {.size = sizeof options,
                                 .strategy = strategies[world->variant % 3],
                                 .flags = VRAM_RING_MULTI_INPUT,
                                 .input_capacity = 8,
                                 .output_capacity = 8,
                                 .message_bytes = 4096};
    if (world->variant / 3 % 2) {
        options.queue = world->queue;
    }
    NEED(vram_ring_create(world->pool, &options, &world->ring));
}

static void make_scheduler(struct world *world) {
    vram_scheduler_options options = {
        .size = sizeof options, .place = (vram_place)(world->variant % 3), .cpu_threads = 1};
    NEED(vram_scheduler_create(world->pool, &options, &world->scheduler));
}

static void make_weights(struct world *world) {
    static const float b[64];
    vram_weights_options options = {.size = sizeof options, .k = 8, .n = 8, .b = b};
    if (!world->scheduler) {
        make_scheduler(world);
    }
    if (!world->failed) {
        NEED(vram_weights_create(world->scheduler, &options, &world->weights));
    }
}

static void make_attachment(struct world *world) {
    NEED(vram_pool_attach(world->pool, race_ignore_end, NULL, NULL, &world->attachment));
}

static void make_labels(struct world *world) {
    NEED(vram_labels_create(NULL, &world->labels));
}

/* Work of the queue's, or of a thread of the library's that copies. */
static void make_async(struct world *world) {
    static unsigned char staged[512 << 10];
    if (world->variant % 2 == 0) {
        NEED(vram_transfer_fill(world->queue, world->block, SOURCE_BYTE, 1, COPY_BYTES, NULL,
                                &world->async));
        return;
    }
    NEED(vram_alloc(world->pool, sizeof staged, world->queue, &world->spare));
    NEED(vram_transfer_download(world->queue, staged, world->spare, sizeof staged, NULL,
                                &world->async));
}

static void make_point(struct world *world) {
    NEED(vram_queue_mark(world->queue, &world->point));
}

bool race_ignore_text(void *user, const char *text, size_t bytes) {
    (void)user, (void)text, (void)bytes;
    return true;
}

void race_ignore_end(void *user) {
    (void)user;
}

void race_ignore_pressure(void *user, const vram_pressure_event *event) {
    (void)user, (void)event;
}

static void make_watch(struct world *world) {
    vram_watch_options options = {.size = sizeof options, .call = race_ignore_pressure};
    NEED(vram_pool_watch_begin(world->pool, &options, &world->watch));
}

static void make_device_watch(struct world *world) {
    vram_watch_options options = {.size = sizeof options, .call = race_ignore_pressure};
    NEED(vram_device_watch_begin(world->device, &options, &world->watch));
}

static void make_monitor(struct world *world) {
    vram_monitor_options options = {
        .size = sizeof options, .interval_ns = 100000, .maintain_ns = 100000};
    NEED(vram_monitor_begin(world->context, &options, &world->monitor));
}

static void make_trace(struct world *world) {
    char path[64];
    snprintf(path, sizeof path, "/tmp/vram_race_%d.trace", (int)getpid());
    vram_trace_options options = {.size = sizeof options, .path = path};
    NEED(vram_trace_begin(world->context, &options, &world->trace));
    unlink(path);
}

static uint64_t on_oom(void *user, const vram_oom_event *event) {
    (void)user, (void)event;
    return 0;
}

static void make_oom_callback(struct world *world) {
    NEED(vram_oom_callback_add(world->device, on_oom, NULL, &world->callback));
}

static void make_foreign(struct world *world) {
    NEED(vram_foreign_track(world->device, 1000, NULL, &world->foreign));
}

static char lease_dir[32];

static void lease_dir_remove(void) {
    char path[64];
    snprintf(path, sizeof path, "%s/vram-%u.lock", lease_dir, (unsigned)geteuid());
    (void)unlink(path);
    (void)rmdir(lease_dir);
}

const vram_lease_options *race_lease_options(void) {
    static const vram_lease_options options = {.size = sizeof options,
                                               .want_bytes = 16 << 20,
                                               .capacity_bytes = 64 << 20,
                                               .timeout_ns = 100000000,
                                               .name = "race",
                                               .dir = lease_dir};
    if (!lease_dir[0]) {
        strcpy(lease_dir, "/tmp/vram-race-XXXXXX");
        (void)!mkdtemp(lease_dir);
        atexit(lease_dir_remove);
        vram_option_set("broker", "thread");
    }
    return &options;
}

static void make_lease(struct world *world) {
    NEED(vram_lease_open(world->device, race_lease_options(), &world->lease));
}

static void make_share(struct world *world) {
    vram_pool_options options = {.size = sizeof options, .flags = VRAM_POOL_SHAREABLE};
    vram_share_options where = {.size = sizeof where, .dir = "/tmp"};
    vram_addr addr = 0;
    NEED(vram_pool_create(world->device, &options, &world->share_pool));
    NEED(vram_alloc(world->share_pool, 4096, world->queue, &addr));
    NEED(vram_share_export(&addr, 1, &where, &world->exported));
    NEED(vram_share_token_get(world->exported, &world->token));
    snprintf(world->share_name, sizeof world->share_name, "vram.race.%d", (int)getpid());
    NEED(vram_share_publish(world->exported, world->share_name, NULL));
    world->share = world->exported;
    if (world->variant % 2) {
        NEED(vram_share_open(world->device, &world->token, &where, &world->share));
    }
}

/* In this order: a scope and a batch take the buffer. */
static const struct {
    enum kind kind;
    void (*make)(struct world *world);
} makers[] = {
    {KIND_PEER, make_peer},
    {KIND_ADOPTED, make_adopted},
    {KIND_CAPTURED, make_captured},
    {KIND_KERNEL, make_kernel},
    {KIND_MEMORY, make_memory},
    {KIND_PHYSICAL, make_physical},
    {KIND_RANGE, make_range},
    {KIND_REGISTERED, make_registered},
    {KIND_READBACK, make_readback},
    {KIND_FRAME, make_frame},
    {KIND_FEED, make_feed},
    {KIND_FEED_BLOCK, make_feed_block},
    {KIND_BLOCK, make_block},
    {KIND_BUFFER, make_buffer},
    {KIND_MAPPED, make_mapped},
    {KIND_SCOPE, make_scope},
    {KIND_BATCH, make_batch},
    {KIND_NAMED, make_named},
    {KIND_RING, make_ring},
    {KIND_SCHEDULER, make_scheduler},
    {KIND_WEIGHTS, make_weights},
    {KIND_LABELS, make_labels},
    {KIND_ATTACHMENT, make_attachment},
    {KIND_ASYNC, make_async},
    {KIND_POINT, make_point},
    {KIND_WATCH, make_watch},
    {KIND_DEVICE_WATCH, make_device_watch},
    {KIND_MONITOR, make_monitor},
    {KIND_TRACE, make_trace},
    {KIND_OOM_CALLBACK, make_oom_callback},
    {KIND_FOREIGN, make_foreign},
    {KIND_SHARE, make_share},
    {KIND_LEASE, make_lease},
};

/* Kinds whose making makes another: that is not made again. */
static uint64_t without_parts(uint64_t kinds) {
    static const enum kind whole[][2] = {
        {KIND_CAPTURED, KIND_ADOPTED}, {KIND_FRAME, KIND_READBACK},
        {KIND_FEED_BLOCK, KIND_FEED},  {KIND_MAPPED, KIND_BUFFER},
        {KIND_RANGE, KIND_PHYSICAL},   {KIND_DEVICE_WATCH, KIND_WATCH}};
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        kinds &= kinds & BIT(whole[i][0]) ? ~BIT(whole[i][1]) : ~UINT64_C(0);
    }
    return kinds;
}

void world_make(struct world *world, const char *backend, uint32_t variant, uint64_t kinds,
                bool set_queue) {
    unsigned char *host = world->host;
    *world = (struct world){.backend = backend, .variant = variant, .host = host};
    world->host_bytes_before = vr_mem_live_bytes();
    world->handles_before = vr_handle_live(0);
    make_base(world, kinds, set_queue);
    kinds = without_parts(kinds);
    for (size_t i = 0; i < sizeof makers / sizeof *makers && !world->failed; i++) {
        if (kinds & BIT(makers[i].kind)) {
            makers[i].make(world);
        }
    }
}

/* ------------------------------------------------------------------------ ending */

static char finding[400];

__attribute__((format(printf, 1, 2))) static const char *found(const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(finding, sizeof finding, format, list);
    va_end(list);
    return finding;
}

static bool all_are(const unsigned char *bytes, unsigned char value) {
    for (size_t i = 0; i < COPY_BYTES; i++) {
        if (bytes[i] != value) {
            return false;
        }
    }
    return true;
}

/* Everything but pool, device and context. What has ended already says that it is stale. */
static void end_objects(struct world *w) {
    vram_lease_close(w->made.lease);
    vram_lease_close(w->lease);
    vram_share_close(w->made.share);
    vram_share_close(w->share);
    vram_share_close(w->exported);
    vram_pool_destroy(w->share_pool);
    vram_trace_end(w->trace);
    vram_trace_end(w->made.trace);
    vram_monitor_end(w->monitor);
    vram_monitor_end(w->made.monitor);
    vram_watch_end(w->watch);
    vram_watch_end(w->made.watch);
    vram_labels_destroy(w->labels);
    vram_attachment_end(w->attachment);
    vram_attachment_end(w->made.attachment);
    vram_weights_destroy(w->weights);
    vram_weights_destroy(w->made.weights);
    vram_scheduler_destroy(w->scheduler);
    vram_scheduler_destroy(w->made.scheduler);
    vram_ring_destroy(w->ring);
    vram_ring_destroy(w->made.ring);
    vram_readback_destroy(w->readback);
    vram_readback_destroy(w->made.readback);
    vram_feed_destroy(w->feed);
    vram_feed_destroy(w->made.feed);
    vram_named_destroy(w->named);
    vram_named_destroy(w->made.named);
    vram_batch_destroy(w->batch);
    vram_batch_destroy(w->made.batch);
    vram_scope_end(w->scope);
    vram_scope_end(w->made.scope);
    vram_buffer_destroy(w->buffer);
    vram_buffer_destroy(w->made.buffer);
    vram_capture_end(w->captured);
    vram_queue_end(w->adopted);
    vram_async_end(&w->async);
    vram_async_end(&w->made.async);
    if (w->made.pinned) {
        vram_pinned_end(w->device, race_registered[0], sizeof race_registered[0]);
    }
}

static void wait_for_queues(struct world *w) {
    vram_queue *const queues[] = {w->queue, w->other, w->made.queue};
    vram_stream_set_wait(w->set, VRAM_TIMEOUT_DEFAULT);
    for (size_t i = 0; i < sizeof queues / sizeof *queues; i++) {
        vram_queue_wait(queues[i], VRAM_TIMEOUT_DEFAULT);
    }
}

/* The contents of the block, if a queue and a device are left to read it. */
static const char *check_block(struct world *w, vram_status call, uint32_t flags) {
    static unsigned char now[COPY_BYTES];
    if (!(flags & (ROW_UPLOAD | ROW_DOWNLOAD)) ||
        vram_queue_download(w->other, now, w->block, sizeof now) != VRAM_OK) {
        return NULL;
    }
    vram_queue_wait(w->other, VRAM_TIMEOUT_DEFAULT);
    bool written = call == VRAM_OK && (flags & ROW_UPLOAD);
    if (!all_are(now, written ? UPLOAD_BYTE : SOURCE_BYTE)) {
        return found("the block's contents are wrong after %s: it begins with 0x%02x 0x%02x",
                     vram_status_name(call), now[0], now[1]);
    }
    return NULL;
}

/* Host memory that a download was given; every queue has ended. */
static const char *check_host(const struct world *w, vram_status call, uint32_t flags) {
    if (!(flags & ROW_DOWNLOAD)) {
        return NULL;
    }
    if (!all_are(w->host, call == VRAM_OK ? SOURCE_BYTE : FAILED_BYTE)) {
        return found(call == VRAM_OK
                         ? "a download that succeeded has not brought the contents (0x%02x)"
                         : "host memory was written after the call had failed (0x%02x)",
                     w->host[0] == FAILED_BYTE ? w->host[COPY_BYTES - 1] : w->host[0]);
    }
    return NULL;
}

/* A pool of which nothing is used holds nothing once it is trimmed. */
static const char *check_pool(struct world *w, vram_pool *pool) {
    vram_pool_stats stats = {.size = sizeof stats};
    if (!pool || vram_pool_stats_get(pool, &stats) != VRAM_OK) {
        return NULL; /* it has ended */
    }
    /* A trim does not wait for queues but marks their work: once the marks have passed, a second
       trim frees everything. */
    vram_status trimmed = vram_pool_trim(pool, NULL, NULL);
    wait_for_queues(w);
    trimmed = trimmed ? trimmed : vram_pool_trim(pool, NULL, NULL);
    vram_pool_stats_get(pool, &stats);
    if (trimmed != VRAM_OK || stats.reserved_bytes || stats.other_bytes || stats.live_blocks ||
        stats.requested_bytes || stats.cached_bytes || stats.fallback_bytes) {
        return found("an idle and trimmed pool (%s) has %llu bytes reserved, %llu other, %llu "
                     "cached, %llu live blocks",
                     vram_status_name(trimmed), (unsigned long long)stats.reserved_bytes,
                     (unsigned long long)stats.other_bytes, (unsigned long long)stats.cached_bytes,
                     (unsigned long long)stats.live_blocks);
    }
    vram_status status = vram_pool_destroy(pool);
    return status == VRAM_OK ? NULL : found("vram_pool_destroy is %s", vram_status_name(status));
}

static const char *check_driver(struct world *w) {
    vram_sim_state state = {.size = sizeof state};
    char text[240] = "";
    if (strcmp(w->backend, "sim") != 0 || vram_sim_state_get(w->context, &state) != VRAM_OK) {
        return NULL;
    }
    vram_sim_violation(w->context, 0, text, sizeof text);
    if (state.violations || state.live_bytes || state.live_handles) {
        return found("the driver has %llu bytes and %llu handles left, and saw %llu breaches: %s",
                     (unsigned long long)state.live_bytes, (unsigned long long)state.live_handles,
                     (unsigned long long)state.violations, text);
    }
    return NULL;
}

/* The end of an export whose reader has just gone is the server's, in a thread of its own. */
static void await_servers(const struct world *w) {
    for (int i = 0;
         w->share_pool && i < 2000 &&
         (vr_mem_live_bytes() != w->host_bytes_before || vr_handle_live(0) != w->handles_before);
         i++) {
        usleep(1000);
    }
}

static const char *check_library(struct world *w) {
    await_servers(w);
    int64_t bytes = (int64_t)(vr_mem_live_bytes() - w->host_bytes_before);
    int64_t handles = (int64_t)(vr_handle_live(0) - w->handles_before);
    return bytes || handles ? found("the library keeps %lld bytes and %lld handles",
                                    (long long)bytes, (long long)handles)
                            : NULL;
}

#define FIRST(check) (text = text ? text : (check))

const char *world_end(struct world *w, vram_status call, uint32_t flags) {
    const char *text = NULL;
    end_objects(w);
    wait_for_queues(w);
    if (!w->failed) {
        FIRST(check_block(w, call, flags));
    }
    vram_addr blocks[] = {w->block, w->spare, w->made.block};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        vram_free(blocks[i], NULL);
    }
    FIRST(check_pool(w, w->pool));
    FIRST(check_pool(w, w->made.pool));
    vram_queue_destroy(w->queue);
    vram_queue_destroy(w->made.queue);
    vram_queue_destroy(w->other);
    vram_stream_set_destroy(w->set);
    vram_stream_set_destroy(w->made.set);
    vram_kernel_destroy(w->kernel);
    vram_kernel_destroy(w->busy);
    vram_kernel_destroy(w->made.kernel);
    FIRST(check_host(w, call, flags));
    vram_device_close(w->device);
    vram_device_close(w->made.device);
    vram_device_close(w->peer);
    FIRST(check_driver(w));
    vram_context_destroy(w->context);
    return FIRST(check_library(w));
}
