/* SPDX-License-Identifier: Apache-2.0 */
/*
 * named_info.c: creation and destruction of managers of named buffers, removal of buffers, and
 * information on them. The invariants are in named_object.h.
 */
#include "mem/named_object.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "base/size_text.h"
#include "core/limit/limit.h"
#include "core/pool/pool_calls.h"
#include "mem/mem_calls.h"

#include <string.h>

/* -------------------------------------------------------------------- ending */

static void named_free(void *memory) {
    struct vr_named *named = memory;
    vr_pool_child_remove(named->pool, named->pool_object, &named->child);
    for (size_t i = 0; i < named->count; i++) {
        vr_mem_free(named->entries[i]);
    }
    vr_mem_free(named->entries);
    vr_mutex_destroy(&named->lock);
    vr_mem_free(named);
}

/* A buffer that was destroyed already is not a failure. */
static vram_status destroy_buffer(uint64_t buffer) {
    struct vram_error error;
    vr_error_save(&error);
    vram_status status = vr_buffer_destroy((vram_buffer *)(uintptr_t)buffer);
    if (status == VRAM_OK || status == VRAM_ERR_STALE) {
        vr_error_restore(&error);
        return VRAM_OK;
    }
    return status;
}

static vram_status named_end(void *object) {
    struct vr_named *named = object;
    vram_status status = VRAM_OK;
    vr_mutex_lock(&named->lock);
    named->ended = true; /* keeps (6): the list does not change after this */
    vr_mutex_unlock(&named->lock);
    for (size_t i = named->count; i-- > 0;) {
        vr_mutex_lock(&named->lock);
        uint64_t buffer = named->entries[i]->buffer;
        vr_mutex_unlock(&named->lock);
        vram_status destroyed = destroy_buffer(buffer);
        status = status == VRAM_OK ? destroyed : status;
    }
    return status;
}

static void pool_ended(struct vr_pool_child *child) {
    vr_object_parent_ended(&VR_CONTAINER(child, struct vr_named, child)->object, named_end);
}

vram_status vram_named_destroy(vram_named *handle) {
    VR_CALL;
    return vr_object_destroy(VR_KIND_NAMED, handle, named_end, "the manager is being destroyed");
}

/* ------------------------------------------------------------------ creating */

static vram_status named_create(struct vr_pool *pool, vram_queue *queue,
                                const struct vram_named_options *options, struct vr_tag *tag,
                                vram_named **out) {
    struct vr_named *named = vr_mem_alloc(1, sizeof *named, vr_operation());
    if (!named) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vr_mutex_init(&named->lock, VR_RANK_SCOPE);
    named->object.process = vr_os_process_generation();
    named->child.pool_ended = pool_ended;
    named->pool_object = pool;
    named->pool = pool->object.handle;
    named->wait_ns = pool->device->context->wait_ns;
    named->queue = queue;
    named->limit_bytes = options->limit_bytes;
    named->tag = vr_tag_name(tag);
    uint64_t handle;
    vram_status status = vr_pool_child_publish(pool, VR_KIND_NAMED, &named->object, named_free,
                                               &named->child, &handle);
    if (status == VRAM_OK) {
        *out = (vram_named *)(uintptr_t)handle;
    }
    return status;
}

vram_status vram_named_create(vram_pool *pool_handle, vram_queue *queue_handle,
                              const vram_named_options *options, vram_named **named) {
    VR_CALL;
    struct vram_named_options taken;
    struct vr_queue_object *queue;
    struct vr_pool *pool;
    struct vr_tag *tag = NULL;
    if (!named) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the manager is NULL");
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
        status = named_create(pool, queue_handle, &taken, tag, named);
    }
    vr_pool_leave(pool, queue);
    return status;
}

/* ------------------------------------------------------------------ removing */

/* Removes the buffer from its entry, if it is still there; the caller destroys it. */
static bool take_off(struct vr_named *named, struct vr_named_entry *entry, uint64_t buffer) {
    vr_mutex_lock(&named->lock);
    bool same = !named->ended && entry->buffer == buffer;
    if (same) {
        entry->buffer = 0;
        entry->capacity_bytes = 0;
        named->removed++;
    }
    vr_mutex_unlock(&named->lock);
    return same;
}

/* The entry of that name, with its live buffer in *buffer; NULL: none. */
static struct vr_named_entry *find_live(struct vr_named *named, const char *name,
                                        uint64_t *buffer) {
    size_t at;
    vr_mutex_lock(&named->lock);
    struct vr_named_entry *entry = vr_named_find(named, name, &at) ? named->entries[at] : NULL;
    *buffer = vr_named_live(entry);
    vr_mutex_unlock(&named->lock);
    return *buffer ? entry : NULL;
}

vram_status vram_named_remove(vram_named *handle, const char *name) {
    VR_CALL;
    uint64_t buffer;
    void *named;
    vram_status status = vr_named_check(name);
    if (status == VRAM_OK) {
        status = vr_enter(VR_KIND_NAMED, handle, &named);
    }
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_named_entry *entry = find_live(named, name, &buffer);
    if (entry && take_off(named, entry, buffer)) {
        status = destroy_buffer(buffer);
    } else {
        status = vr_fail(VRAM_ERR_INVALID, "there is no buffer \"%s\"", name);
    }
    vr_leave(named);
    return status;
}

/* Entry number `at`, with its live buffer; NULL behind the last. */
static struct vr_named_entry *entry_at(struct vr_named *named, size_t at, uint64_t *buffer) {
    vr_mutex_lock(&named->lock);
    struct vr_named_entry *entry = at < named->count ? named->entries[at] : NULL;
    *buffer = vr_named_live(entry);
    vr_mutex_unlock(&named->lock);
    return entry;
}

vram_status vram_named_cleanup(vram_named *handle, uint64_t idle_ns, uint64_t *bytes) {
    VR_CALL;
    struct vr_named_entry *entry;
    uint64_t buffer, sum = 0;
    void *named;
    vram_status status = vr_enter(VR_KIND_NAMED, handle, &named);
    if (status != VRAM_OK) {
        return status;
    }
    for (size_t i = 0; (entry = entry_at(named, i, &buffer)); i++) {
        struct vram_buffer_info info = vr_named_buffer(buffer);
        uint64_t now = vr_clock_now();
        uint64_t idle = now > info.accessed_ns ? now - info.accessed_ns : 0;
        if (info.id && !info.used_bytes && idle >= idle_ns && take_off(named, entry, buffer)) {
            vram_status destroyed = destroy_buffer(buffer);
            status = status == VRAM_OK ? destroyed : status;
            sum += info.capacity_bytes;
        }
    }
    vr_leave(named);
    if (bytes) {
        *bytes = sum;
    }
    return status;
}

/* --------------------------------------------------------------- information */

/* False: the buffer was destroyed meanwhile. */
static bool describe_entry(const struct vr_named_entry *entry, uint64_t buffer,
                           struct vram_named_info *info) {
    struct vram_buffer_info is = vr_named_buffer(buffer);
    *info = (struct vram_named_info){
        .size = sizeof *info,
        .buffer = (vram_buffer *)(uintptr_t)buffer,
        .kind = is.kind,
        .precision = is.precision,
        .capacity_bytes = is.capacity_bytes,
        .used_bytes = is.used_bytes,
        .resizes = is.resizes,
        .created_ns = is.created_ns,
        .accessed_ns = is.accessed_ns,
    };
    if (is.capacity_bytes) {
        info->utilisation = (double)is.used_bytes / (double)is.capacity_bytes;
    }
    memcpy(info->name, entry->name, sizeof info->name);
    return is.id;
}

vram_status vram_named_info_get(vram_named *handle, const char *name, vram_named_info *info) {
    VR_CALL;
    struct vram_named_info full;
    uint64_t buffer;
    void *named;
    vram_status status = vr_named_check(name);
    if (status == VRAM_OK) {
        status = vr_enter(VR_KIND_NAMED, handle, &named);
    }
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_named_entry *entry = find_live(named, name, &buffer);
    status = entry && describe_entry(entry, buffer, &full)
                 ? vr_info_give(info, &full, sizeof full, sizeof full)
                 : vr_fail(VRAM_ERR_INVALID, "there is no buffer \"%s\"", name);
    vr_leave(named);
    return status;
}

/* Counts only entries with a buffer. */
static bool describe_at(struct vr_named *named, uint32_t index, struct vram_named_info *info) {
    struct vr_named_entry *entry;
    uint64_t buffer;
    uint32_t number = 0;
    for (size_t i = 0; (entry = entry_at(named, i, &buffer)); i++) {
        if (buffer && number++ == index && describe_entry(entry, buffer, info)) {
            return true;
        }
    }
    return false;
}

vram_status vram_named_info_at(vram_named *handle, uint32_t index, vram_named_info *info) {
    VR_CALL;
    struct vram_named_info full;
    void *named;
    vram_status status = vr_enter(VR_KIND_NAMED, handle, &named);
    if (status != VRAM_OK) {
        return status;
    }
    status = describe_at(named, index, &full)
                 ? vr_info_give(info, &full, sizeof full, sizeof full)
                 : vr_fail(VRAM_ERR_INVALID, "there is no buffer number %u", index);
    vr_leave(named);
    return status;
}

static void sum_up(struct vr_named *named, struct vram_named_stats *stats) {
    uint64_t buffer;
    *stats = (struct vram_named_stats){.size = sizeof *stats};
    for (size_t i = 0; entry_at(named, i, &buffer); i++) {
        struct vram_buffer_info info = vr_named_buffer(buffer);
        stats->buffers += info.id != 0;
        stats->total_bytes += info.capacity_bytes;
        stats->used_bytes += info.used_bytes;
    }
    vr_mutex_lock(&named->lock);
    if (stats->total_bytes > named->peak_bytes) {
        named->peak_bytes = stats->total_bytes; /* the program grew buffers by their handles */
    }
    stats->peak_bytes = named->peak_bytes;
    stats->limit_bytes = named->limit_bytes;
    stats->created = named->created;
    stats->removed = named->removed;
    stats->resizes = named->resizes;
    stats->refusals = named->refusals;
    vr_mutex_unlock(&named->lock);
}

vram_status vram_named_stats_get(vram_named *handle, vram_named_stats *stats) {
    VR_CALL;
    struct vram_named_stats full;
    void *named;
    vram_status status = vr_enter(VR_KIND_NAMED, handle, &named);
    if (status == VRAM_OK) {
        sum_up(named, &full);
        status = vr_info_give(stats, &full, sizeof full, sizeof full);
        vr_leave(named);
    }
    return status;
}

/* --------------------------------------------------------------------- report */

static void buffer_json(struct vr_json *json, const struct vram_named_info *info) {
    vr_json_object_begin(json, NULL);
    vr_json_text(json, "name", info->name);
    vr_json_text(json, "precision", vr_precision_name(info->precision));
    vr_json_unsigned(json, "capacity_bytes", info->capacity_bytes);
    vr_json_unsigned(json, "used_bytes", info->used_bytes);
    vr_json_number(json, "utilisation", info->utilisation);
    vr_json_unsigned(json, "resizes", info->resizes);
    vr_json_object_end(json);
}

static void buffer_text(struct vr_writer *writer, const struct vram_named_info *info) {
    char used[VRAM_SIZE_TEXT_MAX], capacity[VRAM_SIZE_TEXT_MAX];
    vr_writer_line(writer, "  \"%s\" (%s): %s of %s in use (%.0f %%), resized %llu times",
                   info->name, vr_precision_name(info->precision),
                   vr_size_format(info->used_bytes, used),
                   vr_size_format(info->capacity_bytes, capacity), info->utilisation * 100,
                   (unsigned long long)info->resizes);
}

/* Writes each buffer; `json` NULL: as text. */
static void write_buffers(struct vr_named *named, struct vr_writer *writer, struct vr_json *json) {
    struct vr_named_entry *entry;
    uint64_t buffer;
    for (size_t i = 0; (entry = entry_at(named, i, &buffer)); i++) {
        struct vram_named_info info;
        if (!buffer || !describe_entry(entry, buffer, &info)) {
            continue;
        }
        if (json) {
            buffer_json(json, &info);
        } else {
            buffer_text(writer, &info);
        }
    }
}

static vram_status write_json(struct vr_named *named, const struct vram_named_stats *stats,
                              struct vr_writer *writer) {
    struct vr_json json;
    vr_json_document_begin(&json, writer);
    vr_json_object_begin(&json, NULL);
    vr_json_text(&json, "schema", "vram.named/1");
    vr_json_value(&json, "limit_bytes",
                  (vram_value){.value = stats->limit_bytes, .known = stats->limit_bytes != 0});
    vr_json_unsigned(&json, "total_bytes", stats->total_bytes);
    vr_json_unsigned(&json, "used_bytes", stats->used_bytes);
    vr_json_unsigned(&json, "peak_bytes", stats->peak_bytes);
    vr_json_array_begin(&json, "buffers");
    write_buffers(named, writer, &json);
    vr_json_array_end(&json);
    vr_json_object_end(&json);
    return vr_json_document_end(&json, vr_operation());
}

static vram_status write_text(struct vr_named *named, const struct vram_named_stats *stats,
                              struct vr_writer *writer) {
    char used[VRAM_SIZE_TEXT_MAX], total[VRAM_SIZE_TEXT_MAX], peak[VRAM_SIZE_TEXT_MAX];
    char limit[VRAM_SIZE_TEXT_MAX];
    vr_writer_line(writer, "named buffers: %u, %s of %s in use, peak %s, limit %s", stats->buffers,
                   vr_size_format(stats->used_bytes, used),
                   vr_size_format(stats->total_bytes, total),
                   vr_size_format(stats->peak_bytes, peak),
                   stats->limit_bytes ? vr_size_format(stats->limit_bytes, limit) : "none");
    write_buffers(named, writer, NULL);
    return vr_writer_end(writer, vr_operation());
}

vram_status vram_named_write(vram_named *handle, vram_report_format format, vram_write_fn *write,
                             void *user) {
    VR_CALL;
    struct vram_named_stats stats;
    struct vr_writer writer;
    void *named;
    vram_status status = vr_writer_begin(&writer, format, write, user, vr_operation());
    if (status == VRAM_OK) {
        status = vr_enter(VR_KIND_NAMED, handle, &named);
    }
    if (status != VRAM_OK) {
        return status;
    }
    sum_up(named, &stats);
    status = format == VRAM_REPORT_JSON ? write_json(named, &stats, &writer)
                                        : write_text(named, &stats, &writer);
    vr_leave(named);
    return status;
}
