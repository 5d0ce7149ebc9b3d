/* SPDX-License-Identifier: Apache-2.0 */
/* fake_engine.h: streams as the engine sees them. All is called with the fake's lock held. */
#ifndef FAKE_ENGINE_H
#define FAKE_ENGINE_H

#include "fake/fake_state.h"

enum fake_op_kind {
    UPLOAD,
    DOWNLOAD,
    COPY,
    SET,
    WRITE,
    WAIT_VALUE,
    WAIT_EVENT,
    RECORD,
    CALL,
    LAUNCH,
    NOTHING
};

struct fake_kernel;

enum { FAKE_VALUES = 16 }; /* that a kernel takes at most */

struct fake_launch {
    const struct fake_kernel *kernel;
    unsigned groups[3], items[3];
    uint64_t values[FAKE_VALUES]; /* arguments */
    uint64_t start_ns;            /* when it came to the head of its stream; 0: it has not */
};

struct fake_op {
    struct fake_op *next;
    enum fake_op_kind kind;
    uint64_t to, from, bytes;            /* addresses; `to` is the word of WRITE and WAIT_VALUE */
    uint64_t rows, to_pitch, from_pitch; /* of UPLOAD, DOWNLOAD, COPY by rows of `bytes`; 0: one */
    uint64_t value;                      /* pattern, or the word's value */
    unsigned pattern_bytes;
    char *staged; /* a copy of pageable memory, or NULL */
    struct vr_cu_event *event;
    uint64_t ticket; /* which recording of the event */
    void (*run)(void *);
    void *argument;
    struct fake_device *peer; /* whose memory COPY reads; NULL: the stream's device */
    struct fake_launch launch;
};

/* Work that was captured; fake_graphs.c. */
struct fake_graph {
    struct fake_op *head, **tail;
    struct fake_user *user; /* that lives as long; NULL: none */
};

struct vr_cu_stream {
    struct vr_cu_stream *next;
    struct fake_device *device;
    struct vr_cu_context *context;
    struct fake_op *head, **tail;
    bool blocking, destroyed;
    bool program; /* made by the test, not counted as live */
    int priority;
    enum vr_cu_capture_status capture;
    enum vr_cu_capture_mode capture_mode;
    const struct fake_thread *capture_thread; /* that began it */
    struct fake_graph *graph; /* that a capture is recorded into; NULL: it is only counted */
    uint64_t id;              /* never used again */
};

struct vr_cu_event {
    struct vr_cu_event *next;
    uint64_t recorded, reached; /* tickets: submitted, and run */
    unsigned users;             /* operations that refer to it */
    bool captured;              /* recorded into a capture last */
    bool destroyed;
};

/* Whether a kernel that has started has come to its end. */
bool fake_launch_may_end(struct fake_launch *launch);
/* Runs a kernel; false when it touched what it may not. */
bool fake_launch_run(struct fake_device *device, const struct fake_launch *launch);

extern struct vr_cu_event *fake_events;
extern struct vr_cu_stream *fake_streams;

struct vr_cu_stream *fake_stream_new(struct vr_cu_context *context, bool blocking, bool program);
/* The stream behind a handle, in the current context; NULL when there is none. */
struct vr_cu_stream *fake_stream_of(struct vr_cu_stream *handle);
/* Frees streams that were destroyed and have nothing left to do. */
void fake_streams_sweep(void);
/* Frees an event that was destroyed and that no operation refers to. */
void fake_event_drop(struct vr_cu_event *event);
bool fake_is_legacy(const struct vr_cu_stream *stream);
/* What calls answer because of captures, and what they do to those; fake_graphs.c. VR_CU_SUCCESS:
   the call goes on. */
vr_cu_result fake_implicit_query(const struct vr_cu_stream *stream); /* harmless to captures */
vr_cu_result fake_implicit(const struct vr_cu_stream *stream);       /* uses the stream */
vr_cu_result fake_uncaptured(struct vr_cu_stream *stream);           /* that, and not captured */
vr_cu_result fake_captured_event(const struct vr_cu_event *event, struct vr_cu_stream *waits);
/* Whether a stream has work left; the legacy one comes behind the work of all blocking streams. */
bool fake_busy(const struct vr_cu_stream *stream);
/* What both drivers' calls come to; each lets the lock go. */
vr_cu_result fake_peer_copy(vr_cu_addr to, struct fake_device *from_device, vr_cu_addr from,
                            size_t bytes, struct vr_cu_stream *stream);
vr_cu_result fake_peer_enable(struct fake_device *peer);
vr_cu_result fake_prefetch(vr_cu_addr addr, size_t bytes, int to, struct vr_cu_stream *stream);
/* Adds a copy of an operation to a graph; false: no memory. */
bool fake_graph_add(struct fake_graph *graph, const struct fake_op *op);
/* Queues a wait for a word, and lets the lock go. */
vr_cu_result fake_wait_value(struct vr_cu_stream *stream, vr_cu_addr addr, uint64_t value);
/* Queues a copy of `op`, waits for it if asked, and lets the lock go. */
vr_cu_result fake_submit(struct vr_cu_stream *handle, const struct fake_op *op, bool wait);

#endif
