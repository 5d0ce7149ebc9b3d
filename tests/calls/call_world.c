/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call_world.c: makes the objects of a run, with work in progress.
 *
 * The variant of a run chooses what kind of pool, buffer and ring there is: see below.
 */
#include "calls/call_table.h"

#include "base/handle.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Alignas(65536) unsigned char call_registered[8][65536];

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

static const uint32_t pool_flags[POOLS] = {0,
                                           VRAM_POOL_TRACKED,
                                           VRAM_POOL_DETERMINISTIC,
                                           VRAM_POOL_SEGMENTS,
                                           VRAM_POOL_ZERO_ALLOC,
                                           VRAM_POOL_ZERO_FREE | VRAM_POOL_POISON |
                                               VRAM_POOL_RED_ZONES};
/* A fallback buffer may be demoted; a growing one has more capacity than it uses. */
static const struct {
    vram_buffer_kind kind;
    bool demoted, growing;
} buffer_kinds[BUFFERS] = {
    {VRAM_BUFFER_DEVICE, false, false},  {VRAM_BUFFER_FALLBACK, false, false},
    {VRAM_BUFFER_PINNED, false, false},  {VRAM_BUFFER_MANAGED, false, false},
    {VRAM_BUFFER_FALLBACK, true, false}, {VRAM_BUFFER_DEVICE, false, true}};
/* The last is the host's alone. */
static const vram_ring_strategy strategies[] = {VRAM_RING_SYNC, VRAM_RING_ASYNC,
                                                VRAM_RING_DMA_POLLING, VRAM_RING_DIRECT};

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

const char *world_sim = "memory=64M";

static void make_base(struct world *world, uint64_t kinds, bool set_queue) {
    char sim[160];
    snprintf(sim, sizeof sim, "%s,real=on,lag=%u,seed=%u,devices=%d%s", world_sim,
             4 + world->variant % 13, world->variant + 1, kinds & BIT(KIND_PEER) ? 2 : 1,
             world->variant / 3 % 2 ? "" : ",granule=64K");
    vram_context_options options = {.size = sizeof options, .backends = world->backend, .sim = sim};
    vram_pool_options pool = {.size = sizeof pool,
                              .flags = pool_flags[world->variant % POOLS],
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
        NEED(vram_pinned_begin(world->device, call_registered[i], sizeof call_registered[i]));
        NEED(vram_pinned_end(world->device, call_registered[i], sizeof call_registered[i]));
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
    size_t kind = world->variant / POOLS % BUFFERS;
    vram_growth growth = {
        .size = sizeof growth, .policy = VRAM_GROWTH_FACTOR, .factor_ppm = 1500000};
    vram_buffer_options options = {.size = sizeof options,
                                   .kind = buffer_kinds[kind].kind,
                                   .growth = buffer_kinds[kind].growing ? &growth : NULL};
    vram_span span;
    static const unsigned char contents[COPY_BYTES] = {1};
    NEED(vram_buffer_create(world->pool, (kind + 1) * COPY_BYTES, world->queue, &options,
                            &world->buffer));
    NEED(vram_buffer_resize(world->buffer, COPY_BYTES, world->queue));
    NEED(vram_buffer_span(world->buffer, 0, COPY_BYTES, &span));
    NEED(vram_span_upload(world->queue, span, contents));
    if (buffer_kinds[kind].demoted) {
        NEED(vram_buffer_demote(world->buffer, world->queue));
    }
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
    uint32_t kinds = strcmp(world->backend, "host") == 0 ? 4 : 3;
    vram_ring_options options = {.size = sizeof options,
                                 .strategy = strategies[world->variant % kinds],
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
    NEED(vram_pool_attach(world->pool, call_ignore_end, NULL, NULL, &world->attachment));
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
    NEED(vram_alloc(world->pool, sizeof staged, world->queue, &world->staged));
    NEED(vram_transfer_download(world->queue, staged, world->staged, sizeof staged, NULL,
                                &world->async));
}

static void make_point(struct world *world) {
    NEED(vram_queue_mark(world->queue, &world->point));
}

bool call_ignore_text(void *user, const char *text, size_t bytes) {
    (void)user, (void)text, (void)bytes;
    return true;
}

void call_ignore_end(void *user) {
    (void)user;
}

void call_ignore_pressure(void *user, const vram_pressure_event *event) {
    (void)user, (void)event;
}

static void make_watch(struct world *world) {
    vram_watch_options options = {.size = sizeof options, .call = call_ignore_pressure};
    NEED(vram_pool_watch_begin(world->pool, &options, &world->watch));
}

static void make_device_watch(struct world *world) {
    vram_watch_options options = {.size = sizeof options, .call = call_ignore_pressure};
    NEED(vram_device_watch_begin(world->device, &options, &world->watch));
}

static void make_monitor(struct world *world) {
    vram_monitor_options options = {
        .size = sizeof options, .interval_ns = 100000, .maintain_ns = 100000};
    NEED(vram_monitor_begin(world->context, &options, &world->monitor));
}

static void make_trace(struct world *world) {
    char path[64];
    snprintf(path, sizeof path, "/tmp/vram_calls_%d.trace", (int)getpid());
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

const vram_lease_options *call_lease_options(void) {
    static const vram_lease_options options = {.size = sizeof options,
                                               .want_bytes = 16 << 20,
                                               .capacity_bytes = 64 << 20,
                                               .timeout_ns = 100000000,
                                               .name = "calls",
                                               .dir = lease_dir};
    if (!lease_dir[0]) {
        strcpy(lease_dir, "/tmp/vram-calls-XXXXXX");
        (void)!mkdtemp(lease_dir);
        atexit(lease_dir_remove);
        vram_option_set("broker", "thread");
    }
    return &options;
}

static void make_lease(struct world *world) {
    NEED(vram_lease_open(world->device, call_lease_options(), &world->lease));
}

static void make_share(struct world *world) {
    vram_pool_options options = {.size = sizeof options, .flags = VRAM_POOL_SHAREABLE};
    vram_share_options where = {.size = sizeof where, .dir = "/tmp"};
    vram_addr addr = 0;
    NEED(vram_pool_create(world->device, &options, &world->share_pool));
    NEED(vram_alloc(world->share_pool, 4096, world->queue, &addr));
    NEED(vram_share_export(&addr, 1, &where, &world->exported));
    NEED(vram_share_token_get(world->exported, &world->token));
    snprintf(world->share_name, sizeof world->share_name, "vram.calls.%d", (int)getpid());
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
    *world = (struct world){
        .backend = backend, .variant = variant, .host = host, .host_bytes = COPY_BYTES};
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

bool world_renew(struct world *world, enum kind kind) {
    world->failed = NULL;
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
        if (makers[i].kind == kind) {
            makers[i].make(world);
            return !world->failed;
        }
    }
    return false;
}

void world_second(const struct world *world, unsigned char *host, struct world *second) {
    *second = *world;
    second->host = host;
    second->made = (struct made){0};
    memset(second->blocks, 0, sizeof second->blocks);
}

void world_fill_host(struct world *w, uint32_t flags) {
    if (flags & (ROW_UPLOAD | ROW_DOWNLOAD)) {
        memset(w->host, flags & ROW_UPLOAD ? UPLOAD_BYTE : FRESH_BYTE, COPY_BYTES);
    }
}
