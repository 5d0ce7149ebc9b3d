/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache_entry.c: the calling thread's cache for a pool and a queue, created on first use.
 */
#include "core/cache/drain.h"
#include "core/cache/stamp.h"
#include "core/limit/limit.h"

#include "base/error.h"

/* Creates the thread's cache for this pool and queue; false if that is not possible. */
static bool make_cache(struct vr_thread_state *thread, struct vr_pool *pool,
                       struct vr_queue_object *queue) {
    struct vr_queue_id id = {queue ? queue->object.handle : 0};
    vr_mutex_lock(&pool->lock);
    vram_status status = vr_pool_ensure_queue(pool, queue);
    vr_mutex_unlock(&pool->lock);
    if (status != VRAM_OK) {
        return false;
    }
    if (vr_limit_caches_add(pool, true)) {
        (void)vr_pool_drain(pool);
    }
    if (!vr_cache_make(thread, pool, pool->object.handle, id)) {
        (void)vr_limit_caches_add(pool, false);
        return false;
    }
    if ((queue && !vr_queue_is_open(queue)) || vr_load(&pool->uncached, VR_RELAXED)) {
        /* The queue has ended meanwhile, or the pool is falling asleep: see vr_uncached. The thread
           that drops the caches may have done so before this one was created. */
        vr_pool_drop_caches(pool, id);
        return false;
    }
    return true;
}

/* The thread's cache for this pool and queue, created if necessary; the thread is inside it on
   return. NULL: out of memory, or the queue is ending. */
static struct vr_cache *cache_try(struct vr_pool *pool, struct vr_queue_object *queue) {
    VR_OPERATION("vram_alloc");
    uint64_t pool_handle = pool->object.handle;
    struct vr_queue_id queue_id = {queue ? queue->object.handle : 0};
    struct vr_thread_state *thread = vr_thread_get();
    if (!thread) {
        return NULL;
    }
    for (;;) {
        if (vr_load(&thread->busy, VR_RELAXED)) {
            return NULL; /* in a signal handler that interrupted a call of this thread */
        }
        (void)vr_thread_enter_wait(thread);
        struct vr_cache *cache = vr_cache_find(thread, pool_handle, queue_id);
        if (cache) {
            return cache;
        }
        vr_thread_leave(thread);
        if (!make_cache(thread, pool, queue)) {
            return NULL;
        }
    }
}

/* Without a cache the thread is only slower, so no error is recorded. */
struct vr_cache *vr_pool_cache_enter(struct vr_pool *pool, struct vr_queue_object *queue) {
    struct vram_error error;
    if (vr_load(&pool->uncached, VR_RELAXED)) {
        return NULL;
    }
    vr_error_save(&error);
    struct vr_cache *cache = cache_try(pool, queue);
    if (!cache) {
        vr_error_restore(&error);
    }
    return cache;
}
