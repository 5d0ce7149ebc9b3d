/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_graphs.c: calls of CUDA that the library never makes and programs do: a stream's work is
 * captured into a graph, which is then launched any number of times. Graphs know copies and fills
 * of device memory; what they touch is looked up at each launch, so that a graph whose memory has
 * gone loses the device, as on a GPU.
 *
 * What calls do to captures beside them is what NVIDIA's driver was seen to do (580.159 on an H200,
 * every call of the library's in every mode of a capture); src/backend/cuda/cuda_queue.c has the
 * list.
 */
#include "fake/fake_engine.h"

#include <stdlib.h>

/* ----------------------------------------------------------- what ends a capture */

static bool capturing(const struct vr_cu_stream *stream) {
    return stream->capture == VR_CU_CAPTURE_ACTIVE;
}

static void spoil(struct vr_cu_stream *stream, const char *how) {
    stream->capture = VR_CU_CAPTURE_INVALIDATED;
    fake_violation(how);
}

/* Which captures forbid "potentially unsafe" calls to this thread: its own, and GLOBAL ones. */
static bool forbids_unsafe(const struct vr_cu_stream *stream) {
    bool own = stream->capture_thread == &fake_thread;
    switch (fake_thread.mode) {
    case VR_CU_MODE_RELAXED:
        return false;
    case VR_CU_MODE_THREAD_LOCAL:
        return own && stream->capture_mode != VR_CU_MODE_RELAXED;
    default:
        return own ? stream->capture_mode != VR_CU_MODE_RELAXED
                   : stream->capture_mode == VR_CU_MODE_GLOBAL;
    }
}

vr_cu_result fake_unsafe(void) {
    vr_cu_result code = VR_CU_SUCCESS;
    for (struct vr_cu_stream *stream = fake_streams; stream; stream = stream->next) {
        if (capturing(stream) && forbids_unsafe(stream)) {
            spoil(stream, "a capture was spoiled by an unsafe call");
            code = VR_CU_CAPTURE_FIRST;
        }
    }
    return code;
}

vr_cu_result fake_context_uncaptured(void) {
    vr_cu_result code = VR_CU_SUCCESS;
    for (struct vr_cu_stream *stream = fake_streams; stream; stream = stream->next) {
        if (capturing(stream) && stream->context == fake_current_context()) {
            spoil(stream, "a capture was spoiled by a wait for the context");
            code = VR_CU_CAPTURE_FIRST;
        }
    }
    return code;
}

/* The next captured stream that the legacy stream would have to wait for; NULL: none. */
static struct vr_cu_stream *implied(const struct vr_cu_stream *legacy, struct vr_cu_stream *from) {
    while (from && !(fake_is_legacy(legacy) && from->blocking && capturing(from) &&
                     from->context == legacy->context)) {
        from = from->next;
    }
    return from;
}

vr_cu_result fake_implicit_query(const struct vr_cu_stream *stream) {
    return implied(stream, fake_streams) ? VR_CU_CAPTURE_IMPLICIT : VR_CU_SUCCESS;
}

vr_cu_result fake_implicit(const struct vr_cu_stream *stream) {
    vr_cu_result code = fake_implicit_query(stream);
    for (struct vr_cu_stream *each = fake_streams; (each = implied(stream, each));) {
        spoil(each, "a capture was spoiled by the legacy stream");
    }
    return code;
}

vr_cu_result fake_uncaptured(struct vr_cu_stream *stream) {
    vr_cu_result code = fake_implicit(stream);
    if (code == VR_CU_SUCCESS && capturing(stream)) {
        spoil(stream, "a call on a captured stream spoiled the capture");
        return VR_CU_CAPTURE_FIRST;
    }
    return code == VR_CU_SUCCESS && stream->capture == VR_CU_CAPTURE_INVALIDATED ? 901 : code;
}

/* Asked for (`waits` NULL), an event of a capture spoils all captures: which one it is of is not
   kept. A captured stream waits for events of captures only. */
vr_cu_result fake_captured_event(const struct vr_cu_event *event, struct vr_cu_stream *waits) {
    if (waits) {
        bool refused = capturing(waits) && !event->captured;
        if (refused) {
            spoil(waits, "a captured stream was made to wait for work outside");
        }
        return refused ? 905 : VR_CU_SUCCESS;
    }
    for (struct vr_cu_stream *stream = fake_streams; event->captured && stream;
         stream = stream->next) {
        if (capturing(stream)) {
            spoil(stream, "an event of a capture was queried");
        }
    }
    return event->captured ? 907 : VR_CU_SUCCESS;
}

/* ------------------------------------------------------------------------ graphs */

/* What a program wants to live as long as its graphs. */
struct fake_user {
    void (*destroy)(void *argument);
    void *argument;
    unsigned users;
};

static void user_let_go(struct fake_user *user) {
    if (user && __atomic_sub_fetch(&user->users, 1, __ATOMIC_ACQ_REL) == 0) {
        user->destroy(user->argument);
        free(user);
    }
}

static void graph_free(struct fake_graph *graph) {
    user_let_go(graph ? graph->user : NULL);
    while (graph && graph->head) {
        struct fake_op *op = graph->head;
        graph->head = op->next;
        free(op);
    }
    free(graph);
}

static struct fake_graph *graph_new(void) {
    struct fake_graph *graph = calloc(1, sizeof *graph);
    if (graph) {
        graph->tail = &graph->head;
    }
    return graph;
}

bool fake_graph_add(struct fake_graph *graph, const struct fake_op *op) {
    struct fake_op *copy = malloc(sizeof *copy);
    if (!copy) {
        return false;
    }
    *copy = *op;
    copy->next = NULL;
    *graph->tail = copy;
    graph->tail = &copy->next;
    return true;
}

FAKE_API vr_cu_result cuStreamBeginCapture_v2(struct vr_cu_stream *handle, int mode);
FAKE_API vr_cu_result cuStreamBeginCapture_v2(struct vr_cu_stream *handle, int mode) {
    pthread_mutex_lock(&fake.lock);
    struct vr_cu_stream *stream = fake_stream_of(handle);
    if (!stream || fake_is_legacy(stream)) {
        return fake_leave(stream ? VR_CU_CAPTURE_FIRST : VR_CU_INVALID_HANDLE);
    }
    if (stream->capture != VR_CU_CAPTURE_NONE) {
        return fake_leave(VR_CU_ILLEGAL_STATE);
    }
    stream->graph = graph_new();
    if (!stream->graph) {
        return fake_leave(VR_CU_OUT_OF_MEMORY);
    }
    stream->capture = VR_CU_CAPTURE_ACTIVE;
    stream->capture_mode = (enum vr_cu_capture_mode)mode;
    stream->capture_thread = &fake_thread;
    return fake_leave(VR_CU_SUCCESS);
}

FAKE_API vr_cu_result cuStreamEndCapture(struct vr_cu_stream *handle, struct fake_graph **graph);
FAKE_API vr_cu_result cuStreamEndCapture(struct vr_cu_stream *handle, struct fake_graph **graph) {
    pthread_mutex_lock(&fake.lock);
    struct vr_cu_stream *stream = fake_stream_of(handle);
    if (!stream || !stream->graph) {
        return fake_leave(stream ? VR_CU_ILLEGAL_STATE : VR_CU_INVALID_HANDLE);
    }
    if (stream->capture_mode != VR_CU_MODE_RELAXED && stream->capture_thread != &fake_thread) {
        return fake_leave(VR_CU_CAPTURE_LAST);
    }
    bool spoiled = stream->capture == VR_CU_CAPTURE_INVALIDATED;
    stream->capture = VR_CU_CAPTURE_NONE;
    if (spoiled) {
        graph_free(stream->graph);
        *graph = NULL;
    } else {
        *graph = stream->graph;
    }
    stream->graph = NULL;
    return fake_leave(spoiled ? 901 : VR_CU_SUCCESS);
}

FAKE_API vr_cu_result cuGraphInstantiateWithFlags(struct fake_graph **ready,
                                                  struct fake_graph *graph,
                                                  unsigned long long flags);
FAKE_API vr_cu_result cuGraphInstantiateWithFlags(struct fake_graph **ready,
                                                  struct fake_graph *graph,
                                                  unsigned long long flags) {
    pthread_mutex_lock(&fake.lock);
    vr_cu_result code = fake_leave(fake_unsafe());
    if (code != VR_CU_SUCCESS) {
        return code;
    }
    struct fake_graph *made = graph_new();
    (void)flags;
    for (const struct fake_op *op = graph->head; made && op; op = op->next) {
        if (!fake_graph_add(made, op)) {
            graph_free(made);
            made = NULL;
        }
    }
    if (made && graph->user) {
        made->user = graph->user;
        __atomic_add_fetch(&made->user->users, 1, __ATOMIC_RELAXED);
    }
    *ready = made;
    return made ? VR_CU_SUCCESS : VR_CU_OUT_OF_MEMORY;
}

FAKE_API vr_cu_result cuGraphLaunch(struct fake_graph *graph, struct vr_cu_stream *stream);
FAKE_API vr_cu_result cuGraphLaunch(struct fake_graph *graph, struct vr_cu_stream *stream) {
    vr_cu_result code = VR_CU_SUCCESS;
    for (const struct fake_op *op = graph->head; op && code == VR_CU_SUCCESS; op = op->next) {
        pthread_mutex_lock(&fake.lock);
        code = fake_submit(stream, op, false); /* lets the lock go */
    }
    return code;
}

FAKE_API vr_cu_result cuGraphDestroy(struct fake_graph *graph);
FAKE_API vr_cu_result cuGraphDestroy(struct fake_graph *graph) {
    graph_free(graph);
    return VR_CU_SUCCESS;
}

FAKE_API vr_cu_result cuGraphExecDestroy(struct fake_graph *graph);
FAKE_API vr_cu_result cuGraphExecDestroy(struct fake_graph *graph) {
    graph_free(graph);
    return VR_CU_SUCCESS;
}

/* --------------------------------------------------------------------- user objects */

FAKE_API vr_cu_result cuStreamGetCaptureInfo_v2(struct vr_cu_stream *handle, int *status,
                                                uint64_t *id, struct fake_graph **graph,
                                                const void **nodes, size_t *count);
FAKE_API vr_cu_result cuStreamGetCaptureInfo_v2(struct vr_cu_stream *handle, int *status,
                                                uint64_t *id, struct fake_graph **graph,
                                                const void **nodes, size_t *count) {
    (void)nodes, (void)count;
    pthread_mutex_lock(&fake.lock);
    struct vr_cu_stream *stream = fake_stream_of(handle);
    vr_cu_result code = stream ? fake_implicit_query(stream) : VR_CU_INVALID_HANDLE;
    if (code == VR_CU_SUCCESS) {
        *status = (int)stream->capture;
        *id = stream->id;
        *graph = stream->graph;
    }
    return fake_leave(code);
}

FAKE_API vr_cu_result cuUserObjectCreate(struct fake_user **user, void *argument,
                                         void (*destroy)(void *), unsigned users, unsigned flags);
FAKE_API vr_cu_result cuUserObjectCreate(struct fake_user **user, void *argument,
                                         void (*destroy)(void *), unsigned users, unsigned flags) {
    struct fake_user *made = calloc(1, sizeof *made);
    if (!made || flags != 1) {
        free(made);
        return made ? VR_CU_INVALID_VALUE : VR_CU_OUT_OF_MEMORY;
    }
    *made = (struct fake_user){destroy, argument, users};
    *user = made;
    return VR_CU_SUCCESS;
}

FAKE_API vr_cu_result cuUserObjectRelease(struct fake_user *user, unsigned count);
FAKE_API vr_cu_result cuUserObjectRelease(struct fake_user *user, unsigned count) {
    while (count--) {
        user_let_go(user);
    }
    return VR_CU_SUCCESS;
}

/* The graph takes the caller's reference (flag 1), and has room for one object. */
FAKE_API vr_cu_result cuGraphRetainUserObject(struct fake_graph *graph, struct fake_user *user,
                                              unsigned count, unsigned flags);
FAKE_API vr_cu_result cuGraphRetainUserObject(struct fake_graph *graph, struct fake_user *user,
                                              unsigned count, unsigned flags) {
    if (!graph || graph->user || count != 1 || flags != 1) {
        return VR_CU_INVALID_VALUE;
    }
    graph->user = user;
    return VR_CU_SUCCESS;
}
