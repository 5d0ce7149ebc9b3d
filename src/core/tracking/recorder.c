/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recorder.c: see recorder.h.
 *
 *  (1) One trace at a time receives the events of pools (vr_events_to). It stops receiving before
 *      its writer is closed, so no event finds a closed file.
 *  (2) A trace of a context is in the context's list of watchers and pins the context. The trace of
 *      the option has no context and no handle: it records all pools and ends with the process.
 *  (3) When a sample is due, the thread of the next event takes it, one thread at a time. The
 *      event's pool exists during the event. No lock is held.
 *  (4) Hits are written inside the thread's caches (track/trace_shard.h), by threads that have sent
 *      an event of that pool before. After the trace has stopped to receive, every thread leaves
 *      its caches once before the writer is closed.
 */
#include "core/tracking/recorder.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/option.h"
#include "base/os/os.h"
#include "base/text.h"
#include "core/object/walk.h"
#include "core/stats/pool_stats.h"
#include "track/stack.h"
#include "track/trace_format.h"
#include "track/trace_writer.h"
#include "vram/trace.h"

#include <string.h>

struct vr_recorder {
    struct vr_object object;
    struct vr_watcher watcher;
    struct vr_context *context; /* pinned; NULL: all pools of the process */
    struct vr_trace_writer *writer;
    uint64_t sample_ns;
    char path[sizeof((struct vram_trace_info *)0)->path];
};

/* --------------------------------------------------------------------- events */

/* Keeps (3). */
static void sample_pool(struct vr_recorder *recorder, struct vr_pool *pool) {
    struct vram_fragmentation free;
    struct vram_pool_stats stats = {.size = sizeof stats};
    vr_stats_of_pool(pool, &stats);
    vr_pool_measure_fragmentation(pool, &free);
    if (free.free_bytes > stats.reserved_bytes) { /* other threads may run between the two reads */
        free.free_bytes = stats.reserved_bytes;
    }
    struct vr_trace_sample sample = {.pool = pool->object.handle,
                                     .live_bytes = stats.requested_bytes,
                                     .held_bytes = stats.allocated_bytes,
                                     .reserved_bytes = stats.reserved_bytes,
                                     .cached_bytes = stats.cached_bytes,
                                     .free_bytes = free.free_bytes,
                                     .largest_free_bytes = free.largest_free_bytes,
                                     .limit_bytes =
                                         stats.budget_bytes.known ? stats.budget_bytes.value : 0,
                                     .hits = stats.hits,
                                     .misses = stats.misses};
    vr_trace_write_sample(recorder->writer, &sample);
}

static void record_event(void *user, const struct vr_event *event) {
    struct vr_recorder *recorder = user;
    bool transfer = event->kind == VR_EVENT_TRANSFER;
    struct vr_pool *pool = transfer ? NULL : event->source;
    struct vr_context *context = transfer ? event->source : pool->device->context;
    if (recorder->context && context != recorder->context) {
        return;
    }
    if (event->kind == VR_EVENT_POOL_END) {
        sample_pool(recorder, pool);
    }
    vr_trace_write_event(recorder->writer, event);
    if ((event->kind == VR_EVENT_ALLOC || event->kind == VR_EVENT_FREE) &&
        vr_trace_writer_due(recorder->writer, recorder->sample_ns)) {
        sample_pool(recorder, pool);
    }
}

/* ------------------------------------------------------------ making and ending */

_Static_assert((int)VR_STACK_DEPTH <= (int)VR_TRACE_FRAMES_MAX &&
                   (int)VR_FRAME_TEXT == (int)VR_TRACE_TEXT_MAX + 1,
               "stacks and their texts fit into what a trace has for them");

static uint32_t stack_frames(uint32_t stack, uint64_t *frames, uint32_t capacity) {
    (void)capacity; /* as many as asserted above */
    return vr_stack_frames(stack, frames);
}

static void frame_describe(uint64_t frame, char *text, size_t bytes) {
    (void)bytes;
    vr_frame_text(frame, text);
}

/* Writes the path with the process id in place of "%p"; false: it does not fit. */
static bool trace_path(const char *wanted, char *path, size_t bytes) {
    const char *mark = strstr(wanted, "%p");
    if (!mark) {
        return vr_text_copy(path, bytes, wanted);
    }
    return vr_text_format(path, bytes, "%.*s%llu%s", (int)(mark - wanted), wanted,
                          (unsigned long long)vr_os_process_id(), mark + 2);
}

static void recorder_free(void *memory) {
    struct vr_recorder *recorder = memory;
    uint64_t context = recorder->context ? recorder->context->object.handle : 0;
    vr_trace_writer_close(recorder->writer);
    vr_mem_free(recorder);
    if (context) {
        vr_handle_unpin(context);
    }
}

/* Creates a recorder with its file; it receives no events yet. */
static vram_status recorder_make(const struct vram_trace_options *options,
                                 struct vr_recorder **out) {
    struct vr_recorder *recorder = vr_mem_alloc(1, sizeof *recorder, vr_operation());
    if (!recorder) {
        return VRAM_ERR_HOST_MEMORY;
    }
    recorder->object.process = vr_os_process_generation();
    recorder->sample_ns =
        options->sample_ns ? options->sample_ns : vr_option_number(VR_OPTION_TRACE_SAMPLE);
    uint64_t ring =
        options->ring_bytes ? options->ring_bytes : vr_option_number(VR_OPTION_TRACE_RING);
    const struct vr_trace_stacks stacks = {stack_frames, frame_describe};
    vram_status status = VRAM_OK;
    if (!trace_path(options->path, recorder->path, sizeof recorder->path)) {
        status =
            vr_fail(VRAM_ERR_INVALID, "the path of the trace is too long: use at most 255 bytes");
    }
    if (status == VRAM_OK) {
        status = vr_trace_writer_open(recorder->path, ring, &stacks, &recorder->writer);
    }
    if (status != VRAM_OK) {
        recorder_free(recorder);
        return status;
    }
    *out = recorder;
    return VRAM_OK;
}

/* Takes a last sample of every pool of the context. */
static void sample_all(struct vr_recorder *recorder) {
    struct vr_walk walk = {.context = recorder->context};
    for (struct vr_pool *pool; (pool = vr_walk_next(&walk)); vr_leave(pool)) {
        if (pool->traced) {
            sample_pool(recorder, pool);
        }
    }
}

static vram_status receive_start(struct vr_recorder *recorder) {
    vram_status status = vr_events_to(record_event, recorder);
    if (status == VRAM_OK) {
        vr_trace_writer_quick(recorder->writer, true);
    }
    return status;
}

/* Keeps (1) and (4). */
static void receive_stop(struct vr_recorder *recorder) {
    (void)vr_events_to(NULL, NULL);
    vr_trace_writer_quick(recorder->writer, false);
    vr_thread_quiesce();
}

static vram_status recorder_end(void *object) {
    struct vr_recorder *recorder = object;
    vr_mutex_lock(&recorder->context->lock);
    vr_link_remove(&recorder->watcher.link);
    vr_mutex_unlock(&recorder->context->lock);
    receive_stop(recorder);
    sample_all(recorder);
    return VRAM_OK;
}

static void context_closing(struct vr_watcher *watcher, bool finished) {
    (void)finished;
    vr_object_parent_ended(&VR_CONTAINER(watcher, struct vr_recorder, watcher)->object,
                           recorder_end);
}

/* Lists the recorder and has it receive events; undone by the caller's last reference. */
static vram_status recorder_start(struct vr_recorder *recorder, struct vr_context *context) {
    recorder->watcher.closing = context_closing;
    vram_status status = receive_start(recorder);
    if (status != VRAM_OK) {
        return vr_fail(VRAM_ERR_BUSY, "a process can write one trace at a time, and one is active");
    }
    vr_mutex_lock(&context->lock);
    bool closing = context->closing;
    if (!closing) {
        vr_list_append(&context->watchers, &recorder->watcher.link);
    }
    vr_mutex_unlock(&context->lock);
    if (closing) {
        receive_stop(recorder);
        return vr_fail(VRAM_ERR_SHUTDOWN, "the context is being destroyed");
    }
    return VRAM_OK;
}

static vram_status trace_begin(struct vr_context *context, const struct vram_trace_options *options,
                               vram_trace **out) {
    struct vr_recorder *recorder;
    if (vr_events_taken()) { /* before a file is truncated in vain */
        return vr_fail(VRAM_ERR_BUSY, "a process can write one trace at a time, and one is active");
    }
    vram_status status = recorder_make(options, &recorder);
    if (status != VRAM_OK) {
        return status;
    }
    vr_handle_ref(context->object.handle);
    recorder->context = context;
    status = vr_handle_publish(VR_KIND_TRACE, recorder, recorder_free, &recorder->object.handle);
    if (status != VRAM_OK) {
        recorder_free(recorder);
        return status;
    }
    uint64_t handle = recorder->watcher.handle = recorder->object.handle;
    status = recorder_start(recorder, context);
    if (status != VRAM_OK) {
        vr_handle_retire(handle);
        vr_handle_unpin(handle);
        return status;
    }
    *out = (vram_trace *)(uintptr_t)handle;
    return VRAM_OK;
}

/* ---------------------------------------------------------------- the option's */

static vr_atomic_u64 started;             /* the process that tried, plus 1; 0: none */
static struct vr_recorder *of_the_option; /* NULL: none; written before it receives events */

static void end_at_exit(void) {
    if (of_the_option && !vr_forked(&of_the_option->object)) {
        receive_stop(of_the_option);
        recorder_free(of_the_option);
        of_the_option = NULL;
    }
}

/* Another process may have locked the file that the option names: a program and its children share
   the environment. Then the process id is appended to the name. */
static vram_status make_for_option(const char *path, struct vr_recorder **recorder) {
    VR_OPERATION("option trace");
    char own[VR_OPTION_TEXT_MAX + 24];
    struct vram_trace_options options = {.size = sizeof options, .path = path};
    vram_status status = recorder_make(&options, recorder);
    if (status == VRAM_ERR_BUSY) {
        vr_log(VRAM_LOG_INFO, "another program writes to %s: appending the process id to the name",
               path);
        vr_text_format(own, sizeof own, "%s.%llu", path, (unsigned long long)vr_os_process_id());
        options.path = own;
        status = recorder_make(&options, recorder);
    }
    return status;
}

void vr_recorder_start(void) {
    char path[VR_OPTION_TEXT_MAX];
    struct vram_error error;
    struct vr_recorder *recorder;
    uint64_t process = vr_os_process_generation() + 1, seen = vr_load(&started, VR_ACQUIRE);
    if (seen == process) {
        return;
    }
    vr_option_text(VR_OPTION_TRACE, path);
    if (!*path || !vr_cas(&started, &seen, process, VR_ACQ_REL)) {
        return;
    }
    vr_error_save(&error);
    vram_status status = make_for_option(path, &recorder);
    if (status == VRAM_OK) {
        of_the_option = recorder;
        status = receive_start(recorder);
        if (status != VRAM_OK) {
            of_the_option = NULL;
            recorder_free(recorder);
        } else {
            (void)vr_os_at_exit(end_at_exit);
        }
    }
    if (status != VRAM_OK) {
        vr_log(VRAM_LOG_WARN, "no trace is written to %s: %s", path, vr_error_get()->text);
    }
    vr_error_restore(&error);
}

/* --------------------------------------------------------------------- public */

vram_status vram_trace_begin(vram_context *handle, const vram_trace_options *options,
                             vram_trace **trace) {
    VR_CALL;
    struct vram_trace_options taken;
    char path[VR_OPTION_TEXT_MAX];
    void *context;
    if (!trace) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the trace is NULL");
    }
    vram_status status = vr_options_take(&taken, sizeof taken, options);
    if (status == VRAM_OK) {
        status = vr_enter(VR_KIND_CONTEXT, handle, &context);
    }
    if (status != VRAM_OK) {
        return status;
    }
    if (!taken.path) {
        vr_option_text(VR_OPTION_TRACE, path);
        taken.path = path;
    }
    if (!*taken.path) {
        status = vr_fail(VRAM_ERR_INVALID,
                         "a trace needs a path: vram_trace_options.path, or the option trace");
    } else {
        status = trace_begin(context, &taken, trace);
    }
    vr_leave(context);
    return status;
}

vram_status vram_trace_end(vram_trace *handle) {
    VR_CALL;
    return vr_object_destroy(VR_KIND_TRACE, handle, recorder_end, NULL);
}

vram_status vram_trace_mark(vram_trace *handle, const char *text) {
    VR_CALL;
    void *found;
    vram_status status = vr_enter(VR_KIND_TRACE, handle, &found);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_recorder *recorder = found;
    if (!text || !*text) {
        status = vr_fail(VRAM_ERR_INVALID, "the text of the mark is empty");
    } else {
        vr_trace_write_mark(recorder->writer, text);
    }
    vr_leave(recorder);
    return status;
}

vram_status vram_trace_info_get(vram_trace *handle, vram_trace_info *info) {
    VR_CALL;
    struct vr_trace_sums sums;
    void *found;
    vram_status status = vr_enter(VR_KIND_TRACE, handle, &found);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_recorder *recorder = found;
    vr_trace_writer_sums(recorder->writer, &sums);
    struct vram_trace_info full = {.size = sizeof full,
                                   .events = sums.events,
                                   .lost_events = sums.lost,
                                   .file_bytes = sums.bytes,
                                   .stopped = sums.stopped};
    memcpy(full.path, recorder->path, sizeof full.path);
    status = vr_info_give(info, &full, sizeof full, sizeof full);
    vr_leave(recorder);
    return status;
}
