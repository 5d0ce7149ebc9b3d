/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_graphs.c: calls of CUDA that the library never makes and programs do: a stream's work is
 * captured into a graph, which is then launched any number of times. Graphs know copies and fills
 * of device memory; what they touch is looked up at each launch, so that a graph whose memory has
 * gone loses the device, as on a GPU.
 */
#include "fake/fake_engine.h"

#include <stdlib.h>

static void graph_free(struct fake_graph *graph) {
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
    (void)mode;
    pthread_mutex_lock(&fake.lock);
    struct vr_cu_stream *stream = fake_stream_of(handle);
    if (!stream || stream->capture != VR_CU_CAPTURE_NONE) {
        return fake_leave(VR_CU_INVALID_HANDLE);
    }
    stream->graph = graph_new();
    if (!stream->graph) {
        return fake_leave(VR_CU_OUT_OF_MEMORY);
    }
    stream->capture = VR_CU_CAPTURE_ACTIVE;
    return fake_leave(VR_CU_SUCCESS);
}

FAKE_API vr_cu_result cuStreamEndCapture(struct vr_cu_stream *handle, struct fake_graph **graph);
FAKE_API vr_cu_result cuStreamEndCapture(struct vr_cu_stream *handle, struct fake_graph **graph) {
    pthread_mutex_lock(&fake.lock);
    struct vr_cu_stream *stream = fake_stream_of(handle);
    if (!stream || !stream->graph) {
        return fake_leave(VR_CU_INVALID_HANDLE);
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
    struct fake_graph *made = graph_new();
    (void)flags;
    for (const struct fake_op *op = graph->head; made && op; op = op->next) {
        if (!fake_graph_add(made, op)) {
            graph_free(made);
            made = NULL;
        }
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
