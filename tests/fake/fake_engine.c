/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_engine.c: the thread that runs the fake driver's streams.
 *
 * It looks at the heads of their queues in turn and runs one that may run: a wait whose event has
 * not been recorded, or whose word is too low, lets others pass. So streams are asynchronous to the
 * caller and interleave, each in its own order. An operation stays at the head of its queue until
 * it is over.
 *
 * A thread's default streams end with it, as NVIDIA's do: in the destructors of its pthread keys.
 * Their work runs on; the thread may not use them any more.
 *
 * Work that touches memory it may not touch makes the device answer "illegal address" from then on,
 * and everything queued on it is dropped, as on a GPU.
 */
#include "fake/fake_engine.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

struct vr_cu_stream *fake_streams;
struct vr_cu_event *fake_events;
static struct vr_cu_stream *legacy[FAKE_DEVICES_MAX];
static _Thread_local struct vr_cu_stream *per_thread[FAKE_DEVICES_MAX];
static _Thread_local uint64_t per_thread_epoch; /* of the resets that per_thread has seen */
static _Thread_local bool per_thread_ended;
static pthread_key_t per_thread_key;
static uint64_t epoch;
static uint64_t last_id; /* of streams */

/* ------------------------------------------------------------------ objects */

struct vr_cu_stream *fake_stream_new(struct vr_cu_context *context, bool blocking, bool program) {
    struct vr_cu_stream *stream = calloc(1, sizeof *stream);
    if (stream) {
        stream->device = context->device;
        stream->context = context;
        stream->tail = &stream->head;
        stream->blocking = blocking;
        stream->program = program;
        stream->id = ++last_id;
        stream->next = fake_streams;
        fake_streams = stream;
        fake.live.streams += !program;
    }
    return stream;
}

void fake_event_drop(struct vr_cu_event *event) {
    struct vr_cu_event **link = &fake_events;
    if (event->users || !event->destroyed) {
        return;
    }
    while (*link != event) {
        link = &(*link)->next;
    }
    *link = event->next;
    free(event);
}

static void op_end(struct vr_cu_stream *stream) {
    struct fake_op *op = stream->head;
    stream->head = op->next;
    if (!stream->head) {
        stream->tail = &stream->head;
    }
    if (op->event) {
        op->event->users--;
        fake_event_drop(op->event);
    }
    free(op->staged);
    free(op);
}

void fake_streams_sweep(void) {
    for (struct vr_cu_stream **link = &fake_streams; *link;) {
        struct vr_cu_stream *stream = *link;
        if (stream->destroyed && !stream->head) {
            *link = stream->next;
            free(stream);
        } else {
            link = &stream->next;
        }
    }
}

void fake_streams_reset(void) {
    for (struct vr_cu_stream *stream = fake_streams; stream; stream = stream->next) {
        while (stream->head) {
            op_end(stream);
        }
        stream->destroyed = true;
    }
    fake_streams_sweep();
    while (fake_events) {
        struct vr_cu_event *event = fake_events;
        fake_events = event->next;
        free(event);
    }
    memset(legacy, 0, sizeof legacy);
    epoch++;
}

static void per_thread_end(void *unused) {
    (void)unused;
    pthread_mutex_lock(&fake.lock);
    for (int i = 0; i < FAKE_DEVICES_MAX && per_thread_epoch == epoch; i++) {
        if (per_thread[i]) {
            per_thread[i]->destroyed = true;
        }
    }
    per_thread_ended = true;
    fake_streams_sweep();
    pthread_mutex_unlock(&fake.lock);
}

/* Before keys of threads' users, as with a driver that was loaded first. */
__attribute__((constructor)) static void per_thread_start(void) {
    (void)pthread_key_create(&per_thread_key, per_thread_end);
}

static struct vr_cu_stream *per_thread_of(struct vr_cu_context *context, int device) {
    if (per_thread_ended) {
        fake_violation("the default stream of a thread was used after the thread's end");
        return NULL;
    }
    if (per_thread_epoch != epoch) {
        memset(per_thread, 0, sizeof per_thread);
        per_thread_epoch = epoch;
    }
    if (!per_thread[device]) {
        (void)pthread_setspecific(per_thread_key, &per_thread);
        per_thread[device] = fake_stream_new(context, true, true);
    }
    return per_thread[device];
}

struct vr_cu_stream *fake_stream_of(struct vr_cu_stream *handle) {
    struct vr_cu_context *context =
        fake_current_context(); /* NULL: the handle is not of these two */
    int device = context ? context->device->ordinal : 0;
    if ((uintptr_t)handle <= VR_CU_STREAM_LEGACY) {
        if (!legacy[device]) {
            legacy[device] = fake_stream_new(context, true, true);
        }
        return legacy[device];
    }
    if ((uintptr_t)handle == VR_CU_STREAM_PER_THREAD) {
        return per_thread_of(context, device);
    }
    struct vr_cu_stream *stream = fake_streams;
    while (stream && (stream != handle || stream->destroyed)) {
        stream = stream->next;
    }
    return stream;
}

/* ------------------------------------------------------------------- engine */

static uint64_t word_read(uint64_t addr) {
    return __atomic_load_n((uint64_t *)(uintptr_t)addr, __ATOMIC_ACQUIRE);
}

static bool may_run(struct fake_op *op) {
    switch (op->kind) {
    case WAIT_VALUE:
        return (int64_t)(word_read(op->to) - op->value) >= 0;
    case WAIT_EVENT:
        return op->event->reached >= op->ticket;
    case LAUNCH:
        return fake_launch_may_end(&op->launch);
    default:
        return true;
    }
}

/* Copies through a bounce buffer, so that overlapping or huge ranges need no thought. */
static bool run_copy(struct fake_device *device, const struct fake_op *op) {
    char buffer[65536];
    for (uint64_t done = 0; done < op->bytes;) {
        uint64_t part = op->bytes - done < sizeof buffer ? op->bytes - done : sizeof buffer;
        char *from =
            op->kind == UPLOAD ? (op->staged ? op->staged : (char *)(uintptr_t)op->from) : buffer;
        char *to = op->kind == DOWNLOAD ? (char *)(uintptr_t)op->to + done : buffer;
        if (op->kind == UPLOAD) {
            to = from + done;
        } else if (!fake_access(op->peer ? op->peer : device, op->from + done, to, part, false)) {
            return false;
        }
        if (op->kind != DOWNLOAD && !fake_access(device, op->to + done, to, part, true)) {
            return false;
        }
        done += part;
    }
    return true;
}

static bool run_rows(struct fake_device *device, const struct fake_op *op) {
    struct fake_op row = *op;
    for (uint64_t i = 0; i < (op->rows ? op->rows : 1); i++) {
        row.to = op->to + i * op->to_pitch;
        row.from = op->from + i * op->from_pitch;
        row.staged = op->staged ? op->staged + i * op->bytes : NULL;
        if (!run_copy(device, &row)) {
            return false;
        }
    }
    return true;
}

static bool run_set(struct fake_device *device, const struct fake_op *op) {
    char buffer[65536];
    size_t least = op->bytes < sizeof buffer ? (size_t)op->bytes : sizeof buffer;
    /* What is filled doubles: pattern by pattern a sanitizer would spend most of a suite here. */
    memcpy(buffer, &op->value, op->pattern_bytes);
    for (size_t full = op->pattern_bytes; full < least; full *= 2) {
        memcpy(buffer + full, buffer, full);
    }
    for (uint64_t done = 0; done < op->bytes;) {
        uint64_t part = op->bytes - done < sizeof buffer ? op->bytes - done : sizeof buffer;
        if (!fake_access(device, op->to + done, buffer, part, true)) {
            return false;
        }
        done += part;
    }
    return true;
}

/* Runs one operation; false when it touched what it may not. A host function is called without the
   lock, as the driver's own thread would; it may only touch the program's memory. */
static bool run(struct vr_cu_stream *stream) {
    struct fake_op *op = stream->head;
    switch (op->kind) {
    case UPLOAD:
    case DOWNLOAD:
    case COPY:
        return run_rows(stream->device, op);
    case SET:
        return run_set(stream->device, op);
    case WRITE:
        __atomic_store_n((uint64_t *)(uintptr_t)op->to, op->value, __ATOMIC_RELEASE);
        return true;
    case RECORD:
        op->event->reached = op->ticket;
        return true;
    case CALL:
        fake.calling = true;
        pthread_mutex_unlock(&fake.lock);
        op->run(op->argument);
        pthread_mutex_lock(&fake.lock);
        fake.calling = false;
        pthread_cond_broadcast(&fake.changed);
        return true;
    case LAUNCH:
        return fake_launch_run(stream->device, &op->launch);
    default:
        return true;
    }
}

static void drop_lost(struct fake_device *device) {
    for (struct vr_cu_stream *stream = fake_streams; stream; stream = stream->next) {
        while (stream->device == device && stream->head) {
            op_end(stream);
        }
    }
}

/* Runs at most one operation, of the stream behind the one that ran last; whether it did. */
static bool step(void) {
    static unsigned turn;
    unsigned count = 0, index = 0;
    struct vr_cu_stream *chosen = NULL, *first = NULL;
    for (struct vr_cu_stream *stream = fake_streams; stream; stream = stream->next) {
        if (stream->head && stream->device->sticky) {
            drop_lost(stream->device);
            return true;
        }
        count += stream->head && may_run(stream->head);
    }
    for (struct vr_cu_stream *stream = fake_streams; stream && count; stream = stream->next) {
        if (stream->head && may_run(stream->head)) {
            first = first ? first : stream;
            chosen = index++ == turn % count ? stream : chosen;
        }
    }
    chosen = chosen ? chosen : first;
    if (!chosen) {
        return false;
    }
    turn++;
    uint64_t before = epoch;
    bool good = run(chosen);
    if (epoch != before) {
        return true; /* a reset came between: the stream is gone */
    }
    if (!good) {
        chosen->device->sticky = VR_CU_ILLEGAL_ADDRESS;
    }
    op_end(chosen);
    return true;
}

static bool any_work(void) {
    for (struct vr_cu_stream *stream = fake_streams; stream; stream = stream->next) {
        if (stream->head) {
            return true;
        }
    }
    return false;
}

static void rest(unsigned us) {
    struct timespec time = {.tv_nsec = (long)us * 1000};
    pthread_mutex_unlock(&fake.lock);
    nanosleep(&time, NULL);
    pthread_mutex_lock(&fake.lock);
}

static void *engine(void *unused) {
    (void)unused;
    pthread_mutex_lock(&fake.lock);
    for (;;) {
        if (fake.held || !any_work()) {
            pthread_cond_wait(&fake.changed, &fake.lock);
            continue;
        }
        if (fake.delay_us) {
            rest(fake.delay_us);
        }
        if (!fake.held && step()) {
            fake_streams_sweep();
            pthread_cond_broadcast(&fake.changed);
        } else {
            rest(50); /* a word that the host or another device writes */
        }
    }
    return NULL;
}

static bool engine_start(void) {
    static bool running;
    pthread_t thread;
    if (!running && pthread_create(&thread, NULL, engine, NULL) == 0) {
        pthread_detach(thread);
        running = true;
    }
    return running;
}

/* --------------------------------------------------------------- submission */

bool fake_in_use(uint64_t addr, uint64_t bytes) {
    for (struct vr_cu_stream *stream = fake_streams; stream; stream = stream->next) {
        for (struct fake_op *op = stream->head; op; op = op->next) {
            uint64_t span = op->kind == WRITE || op->kind == WAIT_VALUE ? 8 : op->bytes;
            uint64_t more = op->rows ? op->rows - 1 : 0;
            bool to = op->to < addr + bytes && addr < op->to + span + more * op->to_pitch;
            bool from = op->from < addr + bytes && addr < op->from + span + more * op->from_pitch;
            if (span && (to || from)) {
                return true;
            }
        }
    }
    return false;
}

bool fake_kernels_run(void) {
    for (struct vr_cu_stream *stream = fake_streams; stream; stream = stream->next) {
        for (struct fake_op *op = stream->head; op; op = op->next) {
            if (op->kind == LAUNCH) {
                return true;
            }
        }
    }
    return false;
}

bool fake_is_legacy(const struct vr_cu_stream *stream) {
    return stream == legacy[stream->device->ordinal];
}

bool fake_busy(const struct vr_cu_stream *stream) {
    bool is_legacy = fake_is_legacy(stream), busy = stream->head;
    for (struct vr_cu_stream *other = fake_streams; other && is_legacy && !busy;
         other = other->next) {
        busy = other->blocking && other->context == stream->context && other->head;
    }
    return busy;
}

vr_cu_result fake_submit(struct vr_cu_stream *handle, const struct fake_op *op, bool wait) {
    struct vr_cu_stream *stream = fake_stream_of(handle);
    if (!stream || stream->context != fake_current_context()) {
        free(op->staged);
        return fake_leave(VR_CU_INVALID_HANDLE);
    }
    vr_cu_result code = fake_implicit(stream);
    code = code == VR_CU_SUCCESS && op->kind == WAIT_EVENT ? fake_captured_event(op->event, stream)
                                                           : code;
    code = code == VR_CU_SUCCESS && stream->capture == VR_CU_CAPTURE_INVALIDATED ? 901 : code;
    if (code != VR_CU_SUCCESS) {
        free(op->staged);
        return fake_leave(code);
    }
    if (op->kind == RECORD) {
        op->event->captured = stream->capture == VR_CU_CAPTURE_ACTIVE;
    }
    if (stream->capture == VR_CU_CAPTURE_ACTIVE) {
        if (op->kind == WRITE || op->kind == WAIT_VALUE || op->kind == CALL || op->kind == RECORD ||
            op->kind == WAIT_EVENT) {
            fake_violation("a marker went into a capture");
        }
        bool recorded = !stream->graph || (!op->staged && fake_graph_add(stream->graph, op));
        fake.captured++;
        free(op->staged);
        return fake_leave(recorded ? VR_CU_SUCCESS : VR_CU_OUT_OF_MEMORY);
    }
    struct fake_op *queued = malloc(sizeof *queued);
    if (!queued || !engine_start()) {
        free(queued);
        free(op->staged);
        return fake_leave(VR_CU_OUT_OF_MEMORY);
    }
    *queued = *op;
    queued->next = NULL;
    if (op->event) {
        op->event->users++;
    }
    *stream->tail = queued;
    stream->tail = &queued->next;
    pthread_cond_broadcast(&fake.changed);
    while (wait && stream->head && !stream->device->sticky) {
        pthread_cond_wait(&fake.changed, &fake.lock);
    }
    return fake_leave(wait ? stream->device->sticky : VR_CU_SUCCESS);
}
