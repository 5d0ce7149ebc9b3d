/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scope.c: blocks, buffers and inner scopes that are released together when the scope ends.
 *
 *  (1) A scope is a child of its pool (pool_end.c), pins nothing, and ends with it. It holds its
 *      pool and context by handle only: a pool that ends frees its blocks itself.
 *  (2) The scope alone owns what is in `items`. The thread that takes an item off the list, under
 *      the lock, frees it or passes it on; so each is freed once.
 *  (3) The thread that retires the handle ends the scope, and sets `ended` under the lock before it
 *      takes the first item off. A call that has allocated a block meanwhile sees `ended` when it
 *      adds the block, and frees it.
 *  (4) An inner scope is an item of its parent, by handle. The parent's end ends it, too; its own
 *      end takes it off the parent's list. Scopes may nest without bound, so ending walks by `up`
 *      and does not recurse.
 *  (5) The lock of one scope is never taken under that of another. Under it nothing is allocated
 *      from a pool or freed.
 */
#include "vram/scope.h"
#include "core/guard/block_lookup.h"
#include "core/pool/pool_calls.h"
#include "mem/owned_list.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "mem/buffer_object.h"
#include "mem/mem_calls.h"

struct vr_scope {
    struct vr_object object;
    struct vr_pool_child child;
    struct vr_pool *pool_object; /* not pinned: for vr_pool_child_remove alone */
    uint64_t pool;               /* its handle; (1) */
    uint64_t context;            /* handle */
    uint64_t parent;             /* handle; 0: none */
    struct vr_scope *up;         /* while it ends: the scope to end after this one; (4) */
    struct vr_mutex lock;        /* guards the rest */
    bool ended;
    struct vr_owned_list items;
};

static vram_status has_ended(void) {
    return vr_fail(VRAM_ERR_STALE, "the scope has ended meanwhile");
}

/* ----------------------------------------------------------------- the items */

static vram_status scope_add(struct vr_scope *scope, const struct vr_owned *item) {
    vr_mutex_lock(&scope->lock);
    bool ended = scope->ended;
    vram_status status = ended ? VRAM_OK : vr_owned_list_add(&scope->items, item);
    vr_mutex_unlock(&scope->lock);
    return ended ? has_ended() : status;
}

static bool take_off(struct vr_scope *scope, enum vr_owned_kind kind, uint64_t number,
                     struct vr_owned *item) {
    vr_mutex_lock(&scope->lock);
    bool found = vr_owned_list_remove(&scope->items, kind, number, item);
    vr_mutex_unlock(&scope->lock);
    return found;
}

static vram_status has_none(vram_addr addr) {
    return vr_fail(VRAM_ERR_INVALID, "the scope has no block at 0x%llx", (unsigned long long)addr);
}

/* -------------------------------------------------------------------- ending */

static void scope_free(void *memory) {
    struct vr_scope *scope = memory;
    vr_pool_child_remove(scope->pool, scope->pool_object, &scope->child);
    vr_owned_list_free(&scope->items);
    vr_mutex_destroy(&scope->lock);
    vr_mem_free(scope);
}

/* Makes the caller, which has a reference, the one that ends the scope; keeps (3). */
static bool scope_claim(struct vr_scope *scope) {
    if (!vr_handle_retire(scope->object.handle)) {
        return false;
    }
    vr_mutex_lock(&scope->lock);
    scope->ended = true;
    vr_mutex_unlock(&scope->lock);
    return true;
}

/* The scope of that handle, for the caller to end; NULL: it has ended, or another thread ends
   it. */
static struct vr_scope *scope_claim_handle(uint64_t handle) {
    struct vr_scope *scope = vr_handle_pin(VR_KIND_SCOPE, (void *)(uintptr_t)handle);
    if (scope && !scope_claim(scope)) {
        vr_leave(scope);
        scope = NULL;
    }
    return scope;
}

/* Drops the owner's and the ending thread's references of an empty scope. Returns the scope to
   continue with. */
static struct vr_scope *scope_unref_empty(struct vr_scope *scope) {
    struct vr_scope *up = scope->up;
    uint64_t handle = scope->object.handle;
    vr_handle_unpin(handle);
    vr_handle_unpin(handle);
    return up;
}

/* Releases everything that the scope and its inner scopes own. The caller has won the scope and
   passes its reference on. */
static vram_status scope_release_items(struct vr_scope *scope) {
    vram_status first = VRAM_OK;
    struct vram_error error;
    scope->up = NULL;
    while (scope) {
        struct vr_owned item;
        vr_mutex_lock(&scope->lock);
        bool found = vr_owned_list_pop(&scope->items, &item);
        vr_mutex_unlock(&scope->lock);
        if (!found) {
            scope = scope_unref_empty(scope);
        } else if (item.kind == VR_OWNED_SCOPE) {
            struct vr_scope *child = scope_claim_handle(item.number);
            if (child) {
                child->up = scope;
                scope = child;
            }
        } else {
            vram_status status = vr_owned_release(&item);
            if (status != VRAM_OK && first == VRAM_OK) {
                first = status;
                vr_error_save(&error);
            }
        }
    }
    if (first != VRAM_OK) {
        vr_error_restore(&error); /* the first, not the last */
    }
    return first;
}

/* Takes a scope off its parent's list. */
static void leave_parent(uint64_t parent, uint64_t handle) {
    struct vr_owned item;
    struct vr_scope *scope =
        parent ? vr_handle_pin(VR_KIND_SCOPE, (void *)(uintptr_t)parent) : NULL;
    if (scope) {
        (void)take_off(scope, VR_OWNED_SCOPE, handle, &item);
        vr_leave(scope);
    }
}

static vram_status scope_end(struct vr_scope *scope) {
    leave_parent(scope->parent, scope->object.handle);
    return scope_release_items(scope);
}

vram_status vram_scope_end(vram_scope *handle) {
    VR_CALL;
    void *entered;
    vram_status status = vr_end_enter(VR_KIND_SCOPE, handle, &entered);
    struct vr_scope *scope = entered;
    if (!scope) {
        return status;
    }
    if (!scope_claim(scope)) {
        vr_leave(scope);
        return vr_fail(VRAM_ERR_STALE, "the scope is being ended already");
    }
    return scope_end(scope);
}

/* The pool has freed its blocks; buffers and scopes of other pools remain. The caller holds a
   reference, too. */
static void pool_ended(struct vr_pool_child *child) {
    struct vr_scope *scope = VR_CONTAINER(child, struct vr_scope, child);
    struct vram_error error;
    vr_handle_ref(scope->object.handle);
    if (!scope_claim(scope)) {
        vr_leave(scope);
        return;
    }
    vr_error_save(&error);
    (void)scope_end(scope);
    vr_error_restore(&error);
}

/* ----------------------------------------------------------------- beginning */

static vram_status list_in_parent(struct vr_scope *parent, struct vr_scope *scope) {
    struct vr_owned item = {.kind = VR_OWNED_SCOPE, .number = scope->object.handle};
    return parent ? scope_add(parent, &item) : VRAM_OK;
}

static vram_status scope_begin(struct vr_pool *pool, struct vr_scope *parent, vram_scope **out) {
    struct vr_scope *scope = vr_mem_alloc(1, sizeof *scope, vr_operation());
    if (!scope) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vr_mutex_init(&scope->lock, VR_RANK_SCOPE);
    scope->object.process = vr_os_process_generation();
    scope->child.pool_ended = pool_ended;
    scope->pool_object = pool;
    scope->pool = pool->object.handle;
    scope->context = pool->device->context->object.handle;
    scope->parent = parent ? parent->object.handle : 0;
    vram_status status = vr_handle_publish(VR_KIND_SCOPE, scope, scope_free, &scope->object.handle);
    if (status != VRAM_OK) {
        scope_free(scope);
        return status;
    }
    uint64_t handle = scope->child.handle = scope->object.handle;
    vr_handle_ref(handle); /* once listed, it may end at any moment */
    status = list_in_parent(parent, scope);
    if (status == VRAM_OK) {
        status = vr_pool_child_add(pool, &scope->child);
    }
    if (status != VRAM_OK) {
        if (scope_claim(scope)) {
            (void)scope_end(scope);
        } else {
            vr_handle_unpin(handle);
        }
        return status;
    }
    vr_handle_unpin(handle);
    *out = (vram_scope *)(uintptr_t)handle;
    return VRAM_OK;
}

vram_status vram_scope_begin(vram_pool *pool_handle, vram_scope *parent_handle,
                             vram_scope **scope) {
    VR_CALL;
    void *pool, *parent = NULL;
    if (!scope) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the scope is NULL");
    }
    vram_status status = vr_enter(VR_KIND_POOL, pool_handle, &pool);
    if (status != VRAM_OK) {
        return status;
    }
    if (parent_handle) {
        status = vr_enter(VR_KIND_SCOPE, parent_handle, &parent);
    }
    if (status == VRAM_OK && parent &&
        ((struct vr_scope *)parent)->context !=
            ((struct vr_pool *)pool)->device->context->object.handle) {
        status = vr_fail(VRAM_ERR_INVALID, "the parent belongs to another context");
    }
    if (status == VRAM_OK) {
        status = scope_begin(pool, parent, scope);
    }
    if (parent) {
        vr_leave(parent);
    }
    vr_leave(pool);
    return status;
}

/* ---------------------------------------------------------------- the blocks */

/* Adds a new item, or releases it if the scope has ended: keeps (3). */
static vram_status scope_add_or_release(struct vr_scope *scope, const struct vr_owned *item) {
    vram_status status = scope_add(scope, item);
    if (status != VRAM_OK) {
        struct vram_error error;
        vr_error_save(&error);
        (void)vr_owned_release(item);
        vr_error_restore(&error);
    }
    return status;
}

static vram_status alloc_in(vram_scope *handle, uint64_t size, vram_queue *queue,
                            const vram_alloc_options *options, vram_addr *addr) {
    void *entered;
    vram_addr got;
    if (!addr) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the address is NULL");
    }
    vram_status status = vr_enter(VR_KIND_SCOPE, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_scope *scope = entered;
    vram_pool *pool = (vram_pool *)(uintptr_t)scope->pool;
    status = vr_alloc_owned(pool, size, queue, options, &got);
    if (status == VRAM_OK) {
        struct vr_owned block = {.kind = VR_OWNED_BLOCK,
                                 .number = got,
                                 .bytes = size,
                                 .queue = (uintptr_t)queue,
                                 .pool = scope->pool};
        status = scope_add_or_release(scope, &block);
    }
    if (status == VRAM_OK) {
        *addr = got;
    }
    vr_leave(scope);
    return status;
}

vram_status vram_scope_alloc(vram_scope *scope, uint64_t size, vram_queue *queue, vram_addr *addr) {
    VR_CALL;
    return alloc_in(scope, size, queue, NULL, addr);
}

vram_status vram_scope_alloc_with(vram_scope *scope, uint64_t size, vram_queue *queue,
                                  const vram_alloc_options *options, vram_addr *addr) {
    VR_CALL;
    return alloc_in(scope, size, queue, options, addr);
}

/* Checks pool and queue while the scope still owns the block. */
vram_status vram_scope_free(vram_scope *handle, vram_addr addr, vram_queue *queue_handle) {
    VR_CALL;
    struct vr_queue_object *queue;
    struct vr_pool *pool;
    struct vr_owned block;
    void *entered;
    vram_status status = vr_enter(VR_KIND_SCOPE, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_scope *scope = entered;
    status = vr_pool_enter((vram_pool *)(uintptr_t)scope->pool, queue_handle, &pool, &queue);
    if (status == VRAM_OK) {
        if (!take_off(scope, VR_OWNED_BLOCK, addr, &block)) {
            status = has_none(addr);
        } else {
            block.queue = (uintptr_t)queue_handle;
            status = vr_owned_release(&block);
        }
        vr_pool_leave(pool, queue);
    }
    vr_leave(scope);
    return status;
}

vram_status vram_scope_take(vram_scope *handle, vram_addr addr) {
    VR_CALL;
    struct vr_owned block;
    void *scope;
    vram_status status = vr_enter(VR_KIND_SCOPE, handle, &scope);
    if (status != VRAM_OK) {
        return status;
    }
    if (!take_off(scope, VR_OWNED_BLOCK, addr, &block)) {
        status = has_none(addr);
    } else {
        (void)vr_pool_own(block.pool, addr, false);
    }
    vr_leave(scope);
    return status;
}

/* Adds an item of the caller's, unless the scope has it already. */
static vram_status add_given(struct vr_scope *scope, const struct vr_owned *item) {
    vram_status status = VRAM_OK;
    vr_mutex_lock(&scope->lock);
    bool ended = scope->ended;
    bool has = !ended && vr_owned_list_find(&scope->items, item->kind, item->number);
    if (!ended && !has) {
        status = vr_owned_list_add(&scope->items, item);
    }
    vr_mutex_unlock(&scope->lock);
    if (has) {
        return vr_fail(VRAM_ERR_INVALID, "the scope has this already");
    }
    return ended ? has_ended() : status;
}

/* Adds a live block of the scope's pool. */
static vram_status scope_give_block(struct vr_scope *scope, struct vr_owned *block) {
    struct vram_block_info info = {.size = sizeof info};
    vram_status status = vr_block_info_get(block->number, &info);
    if (status != VRAM_OK || (uintptr_t)info.pool != scope->pool) {
        return vr_fail(VRAM_ERR_INVALID,
                       "0x%llx is not the start of a live block of the scope's pool",
                       (unsigned long long)block->number);
    }
    if (!vr_pool_own(scope->pool, block->number, true)) {
        return vr_fail(VRAM_ERR_INVALID,
                       "the block at 0x%llx is a scope's, a batch's or a buffer's already",
                       (unsigned long long)block->number);
    }
    block->bytes = info.requested_bytes;
    status = add_given(scope, block);
    if (status != VRAM_OK) {
        (void)vr_pool_own(scope->pool, block->number, false);
    }
    return status;
}

vram_status vram_scope_give(vram_scope *handle, vram_addr addr, vram_queue *queue_handle) {
    VR_CALL;
    struct vr_queue_object *queue;
    struct vr_pool *pool;
    void *entered;
    vram_status status = vr_enter(VR_KIND_SCOPE, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_scope *scope = entered;
    status = vr_pool_enter((vram_pool *)(uintptr_t)scope->pool, queue_handle, &pool, &queue);
    if (status == VRAM_OK) {
        struct vr_owned block = {.kind = VR_OWNED_BLOCK,
                                 .number = addr,
                                 .queue = (uintptr_t)queue_handle,
                                 .pool = scope->pool};
        status = scope_give_block(scope, &block);
        vr_pool_leave(pool, queue);
    }
    vr_leave(scope);
    return status;
}

/* --------------------------------------------------------------- the buffers */

vram_status vram_scope_buffer_create(vram_scope *handle, uint64_t bytes, vram_queue *queue,
                                     const vram_buffer_options *options, vram_buffer **buffer) {
    VR_CALL;
    void *entered;
    vram_buffer *made;
    if (!buffer) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the buffer is NULL");
    }
    vram_status status = vr_enter(VR_KIND_SCOPE, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_scope *scope = entered;
    status = vr_buffer_create((vram_pool *)(uintptr_t)scope->pool, bytes, queue, options, &made);
    if (status == VRAM_OK) {
        struct vr_owned item = {.kind = VR_OWNED_BUFFER, .number = (uintptr_t)made};
        status = scope_add_or_release(scope, &item);
    }
    if (status == VRAM_OK) {
        *buffer = made;
    }
    vr_leave(scope);
    return status;
}

vram_status vram_scope_buffer_take(vram_scope *handle, vram_buffer *buffer) {
    VR_CALL;
    struct vr_owned item;
    void *scope;
    vram_status status = vr_enter(VR_KIND_SCOPE, handle, &scope);
    if (status != VRAM_OK) {
        return status;
    }
    if (!take_off(scope, VR_OWNED_BUFFER, (uintptr_t)buffer, &item)) {
        status = vr_fail(VRAM_ERR_INVALID, "the scope has no such buffer");
    }
    vr_leave(scope);
    return status;
}

vram_status vram_scope_buffer_give(vram_scope *handle, vram_buffer *buffer_handle) {
    VR_CALL;
    struct vr_buffer *buffer;
    void *entered;
    vram_status status = vr_enter(VR_KIND_SCOPE, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_scope *scope = entered;
    status = vr_buffer_enter(buffer_handle, &buffer);
    if (status == VRAM_OK) {
        struct vr_owned item = {.kind = VR_OWNED_BUFFER, .number = (uintptr_t)buffer_handle};
        if (buffer->pool->device->context->object.handle != scope->context) {
            status = vr_fail(VRAM_ERR_INVALID, "the buffer belongs to another context");
        } else {
            status = add_given(scope, &item);
        }
        vr_buffer_leave(buffer);
    }
    vr_leave(scope);
    return status;
}

/* --------------------------------------------------------------- information */

vram_status vram_scope_info_get(vram_scope *handle, vram_scope_info *info) {
    VR_CALL;
    struct vram_scope_info full = {.size = sizeof full};
    void *entered;
    vram_status status = vr_enter(VR_KIND_SCOPE, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_scope *scope = entered;
    full.pool = (vram_pool *)(uintptr_t)scope->pool;
    full.parent = (vram_scope *)(uintptr_t)scope->parent;
    vr_mutex_lock(&scope->lock);
    for (size_t i = 0; i < scope->items.count; i++) {
        const struct vr_owned *item = &scope->items.items[i];
        full.blocks += item->kind == VR_OWNED_BLOCK;
        full.buffers += item->kind == VR_OWNED_BUFFER;
        full.scopes += item->kind == VR_OWNED_SCOPE;
        full.bytes += item->bytes;
    }
    vr_mutex_unlock(&scope->lock);
    status = vr_info_give(info, &full, sizeof full, sizeof full);
    vr_leave(scope);
    return status;
}
