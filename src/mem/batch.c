/* SPDX-License-Identifier: Apache-2.0 */
/*
 * batch.c: buffers that are created together, lie together and are destroyed together.
 *
 *      one block of the pool          +--------+-----+----------+--+
 *      items in the order given       | 0      | 1   | 2        |  |   each at a multiple of 512
 *                                     +--------+-----+----------+--+
 *
 *  (1) A batch is a child of its pool, pins nothing, and ends with it.
 *  (2) One call collects what it adds in a draft, which no other thread sees. The draft joins the
 *      batch as a whole, under the lock and with capacity reserved before. A draft that fails is
 *      released, newest first.
 *  (3) Buffers in a common block do not own their memory (vr_buffer_memory.base): the batch owns
 *      the block, and frees it after them.
 *  (4) Indices of buffers are stable: nothing leaves `buffers` before the end.
 *  (5) The thread that retires the handle ends the batch. It sets `ended` under the lock, and no
 *      draft joins after that.
 */
#include "vram/batch.h"
#include "mem/owned_list.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "base/size.h"
#include "core/guard/block_lookup.h"
#include "core/limit/limit.h"
#include "core/pool/pool_calls.h"
#include "device/device_calls.h"
#include "mem/buffer_object.h"
#include "mem/mem_calls.h"

#include <string.h>

struct vr_batch {
    struct vr_object object;
    struct vr_pool_child child;
    struct vr_pool *pool_object; /* not pinned: for vr_pool_child_remove alone */
    uint64_t pool;               /* its handle */
    uint64_t context;            /* handle */
    vram_queue *queue;           /* home queue of what is added; NULL: none */
    const char *tag;             /* the ledger's; NULL: none */
    struct vr_mutex lock;        /* guards the rest */
    bool ended;
    struct vr_owned_list blocks;  /* the common blocks */
    struct vr_owned_list buffers; /* by index */
};

/* One item of a call; keeps (2). */
struct draft_item {
    struct vram_batch_item item;
    uint64_t bytes;
};

struct draft {
    struct vr_pool *pool; /* entered */
    const struct vr_batch *batch;
    struct draft_item *items; /* copies: the program may change its own between check and use */
    uint32_t count;
    struct vr_owned_list blocks, buffers;
};

/* -------------------------------------------------------------------- ending */

static void batch_free(void *memory) {
    struct vr_batch *batch = memory;
    vr_pool_child_remove(batch->pool, batch->pool_object, &batch->child);
    vr_owned_list_free(&batch->buffers);
    vr_owned_list_free(&batch->blocks);
    vr_mutex_destroy(&batch->lock);
    vr_mem_free(batch);
}

/* Buffers first, then what they lie in: keeps (3). */
static vram_status release_lists(struct vr_owned_list *buffers, struct vr_owned_list *blocks) {
    struct vram_error error;
    vram_status status = vr_owned_list_release(buffers);
    if (status != VRAM_OK) {
        vr_error_save(&error);
    }
    vram_status freed = vr_owned_list_release(blocks);
    if (status != VRAM_OK) {
        vr_error_restore(&error);
    }
    return status != VRAM_OK ? status : freed;
}

static vram_status batch_end(void *object) {
    struct vr_batch *batch = object;
    vr_mutex_lock(&batch->lock);
    batch->ended = true;
    struct vr_owned_list buffers = batch->buffers, blocks = batch->blocks;
    batch->buffers = batch->blocks = (struct vr_owned_list){0};
    vr_mutex_unlock(&batch->lock);
    return release_lists(&buffers, &blocks);
}

static void pool_ended(struct vr_pool_child *child) {
    vr_object_parent_ended(&VR_CONTAINER(child, struct vr_batch, child)->object, batch_end);
}

vram_status vram_batch_destroy(vram_batch *handle) {
    VR_CALL;
    return vr_object_destroy(VR_KIND_BATCH, handle, batch_end, "the batch is being destroyed");
}

/* ------------------------------------------------------------------ creating */

static vram_status batch_create(struct vr_pool *pool, vram_queue *queue, struct vr_tag *tag,
                                vram_batch **out) {
    struct vr_batch *batch = vr_mem_alloc(1, sizeof *batch, vr_operation());
    if (!batch) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vr_mutex_init(&batch->lock, VR_RANK_SCOPE);
    batch->object.process = vr_os_process_generation();
    batch->child.pool_ended = pool_ended;
    batch->pool_object = pool;
    batch->pool = pool->object.handle;
    batch->context = pool->device->context->object.handle;
    batch->queue = queue;
    batch->tag = vr_tag_name(tag);
    uint64_t handle;
    vram_status status = vr_pool_child_publish(pool, VR_KIND_BATCH, &batch->object, batch_free,
                                               &batch->child, &handle);
    if (status == VRAM_OK) {
        *out = (vram_batch *)(uintptr_t)handle;
    }
    return status;
}

vram_status vram_batch_create(vram_pool *pool_handle, vram_queue *queue_handle,
                              const vram_batch_options *options, vram_batch **batch) {
    VR_CALL;
    struct vram_batch_options taken;
    struct vr_queue_object *queue;
    struct vr_pool *pool;
    struct vr_tag *tag = NULL;
    if (!batch) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the batch is NULL");
    }
    vram_status status = vr_options_take(&taken, sizeof taken, options);
    if (status == VRAM_OK) {
        status = vr_pool_enter(pool_handle, queue_handle, &pool, &queue);
    }
    if (status != VRAM_OK) {
        return status;
    }
    if (taken.tag && *taken.tag) {
        status = vr_tag_get(vr_ledger_of(pool->device), taken.tag, &tag);
    }
    if (status == VRAM_OK) {
        status = batch_create(pool, queue_handle, tag, batch);
    }
    vr_pool_leave(pool, queue);
    return status;
}

/* -------------------------------------------------------------------- adding */

static struct vram_buffer_options options_of(const struct draft *draft,
                                             const struct vram_batch_item *item) {
    return (struct vram_buffer_options){.size = sizeof(struct vram_buffer_options),
                                        .kind = item->kind,
                                        .precision = item->precision,
                                        .flags = item->flags,
                                        .name = item->name,
                                        .tag = draft->batch->tag};
}

/* Copies one item of any version. The size field of the first item is the stride. */
static vram_status take_item(const struct draft *draft, const struct vram_batch_item *items,
                             uint32_t index, struct vram_batch_item *item, uint64_t *bytes) {
    size_t stride, size;
    memcpy(&stride, items, sizeof stride);
    const void *from = (const char *)items + stride * index;
    memcpy(&size, from, sizeof size);
    if (size != stride) { /* checked before anything behind the item is read */
        return vr_fail(VRAM_ERR_INVALID,
                       "the size field of item %u is %zu, not "
                       "%zu as in the first",
                       index, size, stride);
    }
    vram_status status = vr_options_take(item, sizeof *item, from);
    if (status == VRAM_OK) {
        status = vr_precision_size(item->precision, item->elements, bytes);
    }
    if (status == VRAM_OK) {
        struct vram_buffer_options options = options_of(draft, item);
        status = vr_buffer_options_check(&options, *bytes);
    }
    if (status == VRAM_OK && item->host_bytes != (item->host ? *bytes : 0)) {
        return vr_fail(VRAM_ERR_INVALID,
                       "item %u has %llu bytes (%llu elements of %s) and %llu bytes on the host",
                       index, (unsigned long long)*bytes, (unsigned long long)item->elements,
                       vr_precision_name(item->precision), (unsigned long long)item->host_bytes);
    }
    if (status == VRAM_OK && item->host && *bytes && !draft->batch->queue) {
        return vr_fail(VRAM_ERR_INVALID,
                       "item %u has bytes on the host, and the batch has no queue to upload them",
                       index);
    }
    return status;
}

/* The bytes that an item takes of the common block: whole units, at least one, so that items begin
   at different multiples of the unit. */
static bool share_of(uint64_t bytes, uint64_t *share) {
    return vr_round_up(bytes ? bytes : 1, VR_UNIT, share);
}

static bool is_shared(const struct draft *draft, const struct vram_batch_item *item) {
    return item->kind == VRAM_BUFFER_DEVICE &&
           !(draft->pool->device->base.info.caps & VRAM_CAP_HANDLES);
}

/* Checks all items before anything is allocated. *total: the bytes of the common block. */
static vram_status measure_items(const struct draft *draft, const struct vram_batch_item *items,
                                 uint64_t *total) {
    *total = 0;
    for (uint32_t i = 0; i < draft->count; i++) {
        struct draft_item *copied = &draft->items[i];
        uint64_t share;
        vram_status status = take_item(draft, items, i, &copied->item, &copied->bytes);
        if (status != VRAM_OK) {
            return status;
        }
        if (is_shared(draft, &copied->item) &&
            (!share_of(copied->bytes, &share) || !vr_add(*total, share, total))) {
            return vr_fail(VRAM_ERR_OVERFLOW, "the bytes of %u items do not fit into 64 bits",
                           draft->count);
        }
    }
    return VRAM_OK;
}

/* Allocates the common block, if it has any bytes. */
static vram_status take_block(struct draft *draft, uint64_t bytes, vram_addr *base) {
    struct vram_alloc_options options = {.size = sizeof options, .tag = draft->batch->tag};
    vram_pool *pool = (vram_pool *)(uintptr_t)draft->batch->pool;
    *base = 0;
    if (!bytes) {
        return VRAM_OK;
    }
    vram_status status = vr_owned_list_reserve(&draft->blocks, 1);
    if (status == VRAM_OK) {
        status = vr_alloc_owned(pool, bytes, draft->batch->queue,
                                draft->batch->tag ? &options : NULL, base);
    }
    if (status == VRAM_OK) {
        struct vr_owned block = {.kind = VR_OWNED_BLOCK,
                                 .number = *base,
                                 .bytes = bytes,
                                 .queue = (uintptr_t)draft->batch->queue,
                                 .pool = draft->batch->pool};
        (void)vr_owned_list_add(&draft->blocks, &block); /* capacity is reserved */
    }
    return status;
}

/* Creates one buffer: at *at in the common block, or with memory of its own. */
static vram_status take_buffer(struct draft *draft, const struct draft_item *copied, vram_addr base,
                               vram_addr *at) {
    struct vram_buffer_options options = options_of(draft, &copied->item);
    vram_queue *queue = draft->batch->queue;
    uint64_t bytes = copied->bytes, share = 0;
    vram_buffer *buffer;
    vram_status status;
    if (is_shared(draft, &copied->item)) {
        status = vr_buffer_carve(draft->pool, base, *at, bytes, queue, &options, &buffer);
        (void)share_of(bytes, &share); /* checked before */
        *at += share;
    } else {
        status = vr_buffer_create((vram_pool *)(uintptr_t)draft->batch->pool, bytes, queue,
                                  &options, &buffer);
    }
    if (status == VRAM_OK) {
        struct vr_owned item = {.kind = VR_OWNED_BUFFER, .number = (uintptr_t)buffer};
        (void)vr_owned_list_add(&draft->buffers, &item); /* capacity is reserved */
    }
    return status;
}

/* Copies on the device in stream order, and on the host at once: host memory is new, and no work
   uses it yet. */
static vram_status upload_item(const struct draft *draft, uint32_t index) {
    const void *host = draft->items[index].item.host;
    uint64_t bytes = draft->items[index].bytes;
    vram_buffer *buffer = (vram_buffer *)(uintptr_t)draft->buffers.items[index].number;
    struct vram_buffer_info info = {.size = sizeof info};
    if (!host || !bytes) {
        return VRAM_OK;
    }
    vram_status status = vr_buffer_info_get(buffer, &info);
    if (status != VRAM_OK) {
        return status;
    }
    if (info.location == VRAM_MEMORY_DEVICE || info.location == VRAM_MEMORY_MANAGED) {
        return vr_submit_upload(draft->batch->queue, info.addr, host, bytes);
    }
    memcpy((void *)(uintptr_t)info.addr, host, (size_t)bytes);
    return VRAM_OK;
}

/* Allocates all memory first: a call that fails because memory ran out has copied nothing. */
static vram_status fill_draft(struct draft *draft, const struct vram_batch_item *items) {
    uint64_t total;
    vram_addr base = 0;
    vram_status status = measure_items(draft, items, &total);
    if (status == VRAM_OK) {
        status = vr_owned_list_reserve(&draft->buffers, draft->count);
    }
    if (status == VRAM_OK) {
        status = take_block(draft, total, &base);
    }
    vram_addr at = base;
    for (uint32_t i = 0; i < draft->count && status == VRAM_OK; i++) {
        status = take_buffer(draft, &draft->items[i], base, &at);
    }
    for (uint32_t i = 0; i < draft->count && status == VRAM_OK; i++) {
        status = upload_item(draft, i);
    }
    return status;
}

static void move_all(struct vr_owned_list *to, struct vr_owned_list *from) {
    for (size_t i = 0; i < from->count; i++) {
        to->items[to->count++] = from->items[i];
    }
    from->count = 0;
}

/* Keeps (2) and (5). */
static vram_status join_batch(struct vr_batch *batch, struct draft *draft, uint32_t *first) {
    vr_mutex_lock(&batch->lock);
    bool ended = batch->ended;
    bool full = draft->buffers.count > UINT32_MAX - batch->buffers.count;
    vram_status status = VRAM_ERR_STALE;
    if (!ended && !full) {
        status = vr_owned_list_reserve(&batch->buffers, draft->buffers.count);
    }
    if (status == VRAM_OK) {
        status = vr_owned_list_reserve(&batch->blocks, draft->blocks.count);
    }
    if (status == VRAM_OK) {
        *first = (uint32_t)batch->buffers.count;
        move_all(&batch->buffers, &draft->buffers);
        move_all(&batch->blocks, &draft->blocks);
    }
    vr_mutex_unlock(&batch->lock);
    if (ended) {
        return vr_fail(VRAM_ERR_STALE, "the batch was destroyed meanwhile");
    }
    return full ? vr_fail(VRAM_ERR_LIMIT, "a batch has at most %u buffers", UINT32_MAX) : status;
}

static vram_status batch_add(struct vr_batch *batch, struct vr_pool *pool,
                             const struct vram_batch_item *items, uint32_t count, uint32_t *first) {
    struct draft draft = {.pool = pool, .batch = batch, .count = count};
    struct vram_error error;
    draft.items = vr_mem_alloc(count, sizeof *draft.items, vr_operation());
    vram_status status = draft.items ? fill_draft(&draft, items) : VRAM_ERR_HOST_MEMORY;
    if (status == VRAM_OK) {
        status = join_batch(batch, &draft, first);
    }
    vr_error_save(&error);
    (void)release_lists(&draft.buffers,
                        &draft.blocks); /* what did not join, and the lists themselves */
    vr_error_restore(&error);
    vr_mem_free(draft.items);
    return status;
}

vram_status vram_batch_add(vram_batch *handle, const vram_batch_item *items, uint32_t count,
                           uint32_t *first) {
    VR_CALL;
    struct vr_queue_object *queue;
    struct vr_pool *pool;
    void *entered;
    if (!items || !count || !first) {
        return vr_fail(VRAM_ERR_INVALID, !first
                                             ? "the pointer that receives the first number is NULL"
                                             : "there are no items");
    }
    vram_status status = vr_enter(VR_KIND_BATCH, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_batch *batch = entered;
    status = vr_pool_enter((vram_pool *)(uintptr_t)batch->pool, batch->queue, &pool, &queue);
    if (status == VRAM_OK) {
        uint64_t device = pool->device->object.handle;
        status = batch_add(batch, pool, items, count, first);
        vr_pool_leave(pool, queue);
        status = vr_stale_if_ended(VR_KIND_POOL, batch->pool, status);
        status = vr_stale_if_ended(VR_KIND_DEVICE, device, status);
    }
    vr_leave(batch);
    return status;
}

/* ------------------------------------------------------- giving and reading */

static vram_status batch_give(struct vr_batch *batch, uint64_t buffer, uint32_t *index) {
    struct vr_owned item = {.kind = VR_OWNED_BUFFER, .number = buffer};
    vram_status status = VRAM_ERR_STALE;
    vr_mutex_lock(&batch->lock);
    bool ended = batch->ended;
    bool has = vr_owned_list_find(&batch->buffers, VR_OWNED_BUFFER, buffer);
    bool full = batch->buffers.count >= UINT32_MAX;
    if (!ended && !has && !full) {
        status = vr_owned_list_add(&batch->buffers, &item);
    }
    uint32_t last = (uint32_t)(batch->buffers.count - 1);
    vr_mutex_unlock(&batch->lock);
    if (ended) {
        return vr_fail(VRAM_ERR_STALE, "the batch was destroyed meanwhile");
    }
    if (has) {
        return vr_fail(VRAM_ERR_INVALID, "the batch has this buffer already");
    }
    if (status == VRAM_OK) {
        *index = last;
    }
    return full ? vr_fail(VRAM_ERR_LIMIT, "the batch is full") : status;
}

vram_status vram_batch_give(vram_batch *handle, vram_buffer *buffer_handle, uint32_t *index) {
    VR_CALL;
    struct vr_buffer *buffer;
    void *entered;
    if (!index) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the number is NULL");
    }
    vram_status status = vr_enter(VR_KIND_BATCH, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_batch *batch = entered;
    status = vr_buffer_enter(buffer_handle, &buffer);
    if (status == VRAM_OK) {
        if (buffer->pool->device->context->object.handle != batch->context) {
            status = vr_fail(VRAM_ERR_INVALID, "the buffer belongs to another context");
        } else {
            status = batch_give(batch, (uintptr_t)buffer_handle, index);
        }
        vr_buffer_leave(buffer);
    }
    vr_leave(batch);
    return status;
}

vram_status vram_batch_get(vram_batch *handle, uint32_t index, vram_buffer **buffer) {
    VR_CALL;
    void *entered;
    if (!buffer) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the buffer is NULL");
    }
    vram_status status = vr_enter(VR_KIND_BATCH, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_batch *batch = entered;
    vr_mutex_lock(&batch->lock);
    size_t count = batch->buffers.count;
    if (index < count) {
        *buffer = (vram_buffer *)(uintptr_t)batch->buffers.items[index].number;
    }
    vr_mutex_unlock(&batch->lock);
    if (index >= count) {
        status =
            vr_fail(VRAM_ERR_INVALID, "there is no buffer %u: the batch has %zu", index, count);
    }
    status = vr_stale_if_ended(VR_KIND_BATCH, batch->object.handle, status);
    vr_leave(batch);
    return status;
}

vram_status vram_batch_info_get(vram_batch *handle, vram_batch_info *info) {
    VR_CALL;
    struct vram_batch_info full = {.size = sizeof full};
    void *entered;
    vram_status status = vr_enter(VR_KIND_BATCH, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_batch *batch = entered;
    full.pool = (vram_pool *)(uintptr_t)batch->pool;
    full.queue = batch->queue;
    vr_mutex_lock(&batch->lock);
    full.count = (uint32_t)batch->buffers.count;
    full.blocks = (uint32_t)batch->blocks.count;
    for (size_t i = 0; i < batch->blocks.count; i++) {
        full.shared_bytes += batch->blocks.items[i].bytes;
    }
    vr_mutex_unlock(&batch->lock);
    status = vr_info_give(info, &full, sizeof full, sizeof full);
    vr_leave(batch);
    return status;
}
