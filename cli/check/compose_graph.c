/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compose_graph.c: a captured region, with a graph of the driver in it where that is CUDA's. On
 * other devices that have regions the work of the graph is submitted again for each launch.
 */
#include "compose.h"

#include <dlfcn.h>
#include <string.h>

/* CUDA's functions for graphs: X(field, symbol, parameters). */
#define GRAPH_CALLS(X)                                                                             \
    X(stream_context, "cuStreamGetCtx", (void *stream, void **context))                            \
    X(push, "cuCtxPushCurrent_v2", (void *context))                                                \
    X(pop, "cuCtxPopCurrent_v2", (void **context))                                                 \
    X(begin, "cuStreamBeginCapture_v2", (void *stream, int mode))                                  \
    X(end, "cuStreamEndCapture", (void *stream, void **graph))                                     \
    X(exchange_mode, "cuThreadExchangeStreamCaptureMode", (int *mode))                             \
    X(make_ready, "cuGraphInstantiateWithFlags",                                                   \
      (void **ready, void *graph, unsigned long long flags))                                       \
    X(launch, "cuGraphLaunch", (void *ready, void *stream))                                        \
    X(ready_destroy, "cuGraphExecDestroy", (void *ready))                                          \
    X(destroy, "cuGraphDestroy", (void *graph))

static struct {
    void *library;
#define GRAPH_FIELD(name, symbol, parameters) int(*name) parameters;
    GRAPH_CALLS(GRAPH_FIELD)
#undef GRAPH_FIELD
} cuda;

/* Whether the device's driver has graphs. The library is loaded already, by libvram. */
static bool graphs_load(const struct check *check) {
    char path[256] = "";
    if (strcmp(check->info.backend, "cuda") != 0) {
        return false;
    }
    vram_option_get("cuda_library", path, sizeof path, NULL);
    cuda.library = cuda.library ? cuda.library
                                : dlopen(path[0] ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *found = cuda.library;
#define GRAPH_LOAD(name, symbol, parameters)                                                       \
    found = found ? dlsym(cuda.library, symbol) : NULL;                                            \
    memcpy(&cuda.name, &found, sizeof found);
    GRAPH_CALLS(GRAPH_LOAD)
#undef GRAPH_LOAD
    return found != NULL;
}

enum { GLOBAL = 0, RELAXED = 2 }; /* CU_STREAM_CAPTURE_MODE_ */

static bool mode_set(int mode) {
    return cuda.exchange_mode(&mode) == 0;
}

/* Makes the stream's context that of the thread, or takes it away again. The calls between may not
   end a capture of somebody else's in global mode. */
static bool context_push(void *stream) {
    void *context = NULL;
    return cuda.stream_context(stream, &context) == 0 && cuda.push(context) == 0 &&
           mode_set(RELAXED);
}

static void context_pop(void) {
    void *context = NULL;
    mode_set(GLOBAL);
    cuda.pop(&context);
}

/* What the graph does: it fills its own block with its mark, and the one that is shared. `mask`
   changes the marks. */
static vram_status work_submit(struct compose *compose, uint32_t mask) {
    const vram_addr blocks[] = {compose->graph.addr, compose->shared};
    vram_status status = VRAM_OK;
    for (int i = 0; i < 2 && status == VRAM_OK && blocks[i]; i++) {
        status = vram_queue_fill(compose->graph.captured, blocks[i],
                                 compose_mark_of(compose, blocks[i]) ^ mask, 4, COMPOSE_EDGE);
    }
    return status;
}

/* While work is captured, what would have to wait for the stream is refused. */
static bool capture(struct compose *compose) {
    struct compose_graph *graph = &compose->graph;
    struct check *check = compose->check;
    CHECK_THAT(check, cuda.begin(graph->stream, 0) == 0);
    CHECK_OK(check, work_submit(compose, 0));
    if (compose->set >> COMPOSE_SLEEP & 1) {
        const vram_sleep_options options = {.size = sizeof options, .contents = VRAM_SLEEP_DROP};
        vram_pool_stats stats;
        vram_status status = vram_pool_sleep(compose->stock.pool, &options);
        CHECK_THAT(check, status == VRAM_ERR_CAPTURE || status == VRAM_ERR_UNSUPPORTED);
        CHECK_TRY(check_stats(check, compose->stock.pool, &stats));
        CHECK_EQUAL(check, stats.asleep_bytes, 0);
    }
    CHECK_THAT(check, cuda.end(graph->stream, &graph->graph) == 0);
    CHECK_THAT(check, cuda.make_ready(&graph->ready, graph->graph, 0) == 0);
    return true;
}

bool compose_graph_on(struct compose *compose) {
    struct compose_graph *graph = &compose->graph;
    struct check *check = compose->check;
    if (!check_has(check, VRAM_CAP_ADOPT)) {
        CHECK_STATUS(check, vram_capture_begin(compose->queue, &graph->captured),
                     VRAM_ERR_UNSUPPORTED);
        return true;
    }
    CHECK_OK(check, vram_capture_begin(compose->queue, &graph->captured));
    if (compose_is(compose, COMPOSE_SLEEP)) {
        CHECK_TRY(compose_refuses(compose, 50000, graph->captured, VRAM_ERR_BUSY));
        CHECK_OK(check, vram_capture_end(graph->captured));
        graph->captured = NULL;
        return true;
    }
    compose->on |= 1u << COMPOSE_GRAPH;
    CHECK_TAKE(check, &compose->stock, 50000, graph->captured, &graph->addr);
    /* Both queues are one native queue, and only the other can be waited for. */
    compose->stock.blocks[compose->stock.count - 1].queue = compose->queue;
    CHECK_WAIT(check, compose->queue);
    if (!graphs_load(check)) {
        return true;
    }
    CHECK_OK(check, vram_queue_native(graph->captured, &graph->stream));
    CHECK_THAT(check, context_push(graph->stream));
    bool captured = capture(compose);
    context_pop();
    return captured;
}

/* The graph finds its memory where it was, with what was in it, and a reader sees what it wrote:
   compose_verify looks there next. */
bool compose_graph_verify(struct compose *compose) {
    struct compose_graph *graph = &compose->graph;
    struct check *check = compose->check;
    uint32_t mark = compose_mark_of(compose, graph->addr);
    CHECK_TRY(compose_head(compose, compose->queue, graph->addr, mark));
    CHECK_OK(check, work_submit(compose, UINT32_MAX));
    if (graph->ready) {
        CHECK_THAT(check, context_push(graph->stream));
        int code = cuda.launch(graph->ready, graph->stream);
        context_pop();
        CHECK_EQUAL(check, (uint64_t)code, 0);
    } else {
        CHECK_OK(check, work_submit(compose, 0));
    }
    return compose_head(compose, compose->queue, graph->addr, mark);
}

static void graph_destroy(struct compose_graph *graph) {
    if (graph->stream && context_push(graph->stream)) {
        if (graph->ready) {
            cuda.ready_destroy(graph->ready);
        }
        if (graph->graph) {
            cuda.destroy(graph->graph);
        }
        context_pop();
    }
    graph->ready = graph->graph = graph->stream = NULL;
}

bool compose_graph_off(struct compose *compose) {
    struct compose_graph *graph = &compose->graph;
    graph_destroy(graph);
    CHECK_GIVE(compose->check, &compose->stock, graph->addr, graph->captured);
    CHECK_OK(compose->check, vram_capture_end(graph->captured));
    *graph = (struct compose_graph){.captured = NULL};
    return true;
}

void compose_graph_end(struct compose_graph *graph) {
    graph_destroy(graph);
    vram_capture_end(graph->captured);
}
