/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forces_layout.c: the layout on a device. What libvram does for it:
 *
 *   named buffers that grow   the graph becomes larger during the layout: positions and speeds on
 *                             the device stay, and only new nodes are uploaded (vram/named.h)
 *   a set of three streams    compute runs the steps, memory the uploads, analysis measures each
 *                             frame; they wait for each other on the device (vram/stream.h)
 *   readback in two slots     while frame n is computed, frame n - 1 is copied to the host and
 *                             measured, and the host works on what it has (vram/readback.h). A
 *                             frame is a copy on the device, made in the order of compute: it is
 *                             never torn
 *   tracking                  what was live at the peak, and that nothing is left at the end
 *                             (vram/stats.h)
 *
 *   compute   | step 0 . copy | step 1 . copy | step 2 . copy |
 *   readback                  | frame 0 down  | frame 1 down  | ...
 *   analysis                  | measure 0     | measure 1     | ...
 *   host      | reference 0   | reference 1, compare 0        | ...
 */
#include "forces.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { SLOTS = 2, GROUP = 64 };

enum { MIB = 1 << 20 };
static const uint64_t limit_bytes = UINT64_C(6) << 30; /* all buffers together */

/* How buffers grow: by a factor, between two sizes. */
static const vram_growth grow_nodes = {.size = sizeof grow_nodes,
                                       .policy = VRAM_GROWTH_FACTOR,
                                       .factor_ppm = 1300000,
                                       .min_bytes = 4096,
                                       .max_bytes = UINT64_C(512) * MIB};
static const vram_growth grow_edges = {.size = sizeof grow_edges,
                                       .policy = VRAM_GROWTH_FACTOR,
                                       .factor_ppm = 2000000,
                                       .min_bytes = 8192,
                                       .max_bytes = UINT64_C(2048) * MIB};
static const vram_growth grow_cells = {.size = sizeof grow_cells,
                                       .policy = VRAM_GROWTH_FACTOR,
                                       .factor_ppm = 1500000,
                                       .min_bytes = 2048,
                                       .max_bytes = UINT64_C(256) * MIB};
static const vram_growth grow_others = {.size = sizeof grow_others,
                                        .policy = VRAM_GROWTH_FACTOR,
                                        .factor_ppm = 1500000,
                                        .min_bytes = 4096,
                                        .max_bytes = UINT64_C(1024) * MIB};

/* The buffers on the device by name, and how each grows. */
enum { POSITIONS, VELOCITIES, FORCES, OFFSETS, EDGES, CELLS, FRAME, RESULT = FRAME + SLOTS };
enum { BUFFERS = RESULT + SLOTS };
static const struct {
    const char *name;
    uint32_t element_bytes;
    const vram_growth *growth;
} plans[BUFFERS] = {
    [POSITIONS] = {"positions", 8, &grow_nodes},
    [VELOCITIES] = {"velocities", 8, &grow_nodes},
    [FORCES] = {"forces", 8, &grow_nodes},
    [OFFSETS] = {"offsets", 4, &grow_others},
    [EDGES] = {"edges", 8, &grow_edges},
    [CELLS] = {"grid_cells", 12, &grow_cells},
    [FRAME] = {"frame_0", 8, &grow_nodes},
    [FRAME + 1] = {"frame_1", 8, &grow_nodes},
    [RESULT] = {"result_0", sizeof(struct forces_measure), &grow_others},
    [RESULT + 1] = {"result_1", sizeof(struct forces_measure), &grow_others},
};

/* One frame on its way to the host. */
struct slot {
    uint64_t number;     /* of the readback; 0: none is on its way */
    vram_point read;     /* when its places have arrived, */
    vram_point measured; /* and what the device measured of them */
    struct forces_measure arrived, expected;
};

struct layout {
    vram_context *context;
    uint32_t index; /* of the best device */
    vram_device *device;
    vram_stream_set *streams;
    vram_queue *compute, *memory, *analysis; /* its three */
    vram_readback *readback;
    vram_pool *pool;
    vram_named *named;
    vram_kernel *kernel;
    vram_buffer *buffers[BUFFERS];
    vram_addr addrs[BUFFERS];
    struct graph graph;
    struct reference reference;
    struct slot slots[SLOTS];
    bool careless;
    bool last_equal; /* the last frame was the reference, place by place */
    uint64_t frames, wrong_frames;
    uint64_t ready_frames; /* had arrived when the host came for them: the readback cost no wait */
};

#define TRY(call)                                                                                  \
    do {                                                                                           \
        vram_status status_ = (call);                                                              \
        if (status_ != VRAM_OK) {                                                                  \
            return status_;                                                                        \
        }                                                                                          \
    } while (0)

/* --------------------------------------------------------------- beginning */

/* The device has no kernels, or nobody wrote this one for it. */
static vram_status load_kernel(struct layout *layout, const struct forces_options *options) {
    vram_device_info info = {.size = sizeof info};
    vram_kernel_source source;
    TRY(vram_device_info_get(layout->context, layout->index, &info));
    TRY(forces_source(info.backend, options->code, options->code_bytes, &source));
    return vram_kernel_create(layout->device, &source, &layout->kernel);
}

static vram_status begin(struct layout *layout, const struct forces_options *options) {
    vram_context_options context = {
        .size = sizeof context, .backends = options->backend, .sim = options->sim};
    vram_limits limits = {.size = sizeof limits, .tracking = VRAM_SWITCH_ON};
    vram_pool_options tracked = {.size = sizeof tracked, .name = "layout", .limits = &limits};
    vram_named_options named = {.size = sizeof named, .limit_bytes = limit_bytes};
    TRY(vram_context_create(&context, &layout->context));
    TRY(vram_device_best(layout->context, &layout->index));
    TRY(vram_device_open(layout->context, layout->index, &layout->device));
    TRY(vram_stream_set_create(layout->device, NULL, &layout->streams));
    TRY(vram_stream_set_get(layout->streams, VRAM_STREAM_COMPUTE, &layout->compute));
    TRY(vram_stream_set_get(layout->streams, VRAM_STREAM_MEMORY, &layout->memory));
    TRY(vram_stream_set_get(layout->streams, VRAM_STREAM_ANALYSIS, &layout->analysis));
    /* No frame may be lost; two sources in turn are left alone while they travel. */
    vram_readback_options every = {.size = sizeof every,
                                   .slots = SLOTS,
                                   .mode = VRAM_READBACK_STEADY,
                                   .policy = VRAM_READBACK_EVERY};
    TRY(vram_readback_create(layout->device, &every, &layout->readback));
    TRY(load_kernel(layout, options));
    TRY(vram_pool_create(layout->device, &tracked, &layout->pool));
    TRY(vram_named_create(layout->pool, layout->compute, &named, &layout->named));
    for (int i = 0; i < BUFFERS; i++) {
        vram_named_config config = {
            .size = sizeof config, .precision = VRAM_PRECISION_BYTES, .growth = *plans[i].growth};
        config.growth.element_bytes = plans[i].element_bytes;
        TRY(vram_named_add(layout->named, plans[i].name, 0, &config, &layout->buffers[i]));
    }
    return VRAM_OK;
}

/* ----------------------------------------------------------------- growing */

/* Makes every buffer as large as the graph is. What is in them stays. */
static vram_status make_room(struct layout *layout) {
    const struct graph *graph = &layout->graph;
    for (int i = 0; i < BUFFERS; i++) {
        uint64_t elements = i == OFFSETS  ? (uint64_t)graph->nodes + 1
                            : i == EDGES  ? graph->edges
                            : i == CELLS  ? UINT64_C(1) << 2 * graph->cell_bits
                            : i >= RESULT ? 1
                                          : graph->nodes;
        TRY(vram_named_ensure(layout->named, plans[i].name, elements, &layout->buffers[i]));
        TRY(vram_buffer_addr(layout->buffers[i], &layout->addrs[i]));
    }
    return VRAM_OK;
}

/* Uploads the new nodes and, as old ones have new neighbours, the whole graph. */
static vram_status upload(struct layout *layout, uint32_t old) {
    const struct graph *graph = &layout->graph;
    vram_queue *memory = layout->memory;
    uint64_t from = (uint64_t)old * 8, bytes = (uint64_t)(graph->nodes - old) * 8;
    /* Growing may have copied buffers on compute. */
    TRY(vram_stream_set_order(layout->streams, VRAM_STREAM_COMPUTE, VRAM_STREAM_MEMORY));
    TRY(vram_queue_upload(memory, layout->addrs[POSITIONS] + from, graph->beginnings + 2 * old,
                          bytes));
    TRY(vram_queue_fill(memory, layout->addrs[VELOCITIES] + from, 0, 4, bytes));
    TRY(vram_queue_upload(memory, layout->addrs[OFFSETS], graph->offsets,
                          ((uint64_t)graph->nodes + 1) * 4));
    TRY(vram_queue_upload(memory, layout->addrs[EDGES], graph->ends, (uint64_t)graph->edges * 8));
    TRY(vram_stream_set_order(layout->streams, VRAM_STREAM_MEMORY, VRAM_STREAM_COMPUTE));
    for (int i = POSITIONS; i <= EDGES; i++) {
        TRY(vram_buffer_use(layout->buffers[i], memory));
    }
    return VRAM_OK;
}

static vram_status grow(struct layout *layout, uint32_t nodes) {
    uint32_t old = layout->graph.nodes;
    TRY(vram_stream_set_wait(layout->streams, VRAM_TIMEOUT_DEFAULT)); /* may read the old graph */
    if (!graph_grow(&layout->graph, nodes) || !reference_grow(&layout->reference, &layout->graph)) {
        return VRAM_ERR_HOST_MEMORY;
    }
    TRY(make_room(layout));
    return upload(layout, old);
}

/* ------------------------------------------------------------------- steps */

static vram_status launch(struct layout *layout, vram_queue *queue, uint32_t stage,
                          vram_addr places, vram_addr result) {
    const vram_addr *addrs = layout->addrs;
    uint32_t count = layout->graph.nodes, bits = layout->graph.cell_bits;
    /* What a stage does not look at is given all the same; measuring looks at the frame alone. */
    vram_addr other = stage == FORCES_MEASURE ? places : 0;
    vram_addr velocities = other ? other : addrs[VELOCITIES];
    vram_addr forces = other ? other : addrs[FORCES], offsets = other ? other : addrs[OFFSETS];
    vram_addr edges = other ? other : addrs[EDGES], cells = other ? other : addrs[CELLS];
    vram_launch call = {.size = sizeof call,
                        .groups = {(count + GROUP - 1) / GROUP, 1, 1},
                        .group_size = {GROUP, 1, 1},
                        .argument_count = 10,
                        .arguments =
                            (const void *[]){&places, &velocities, &forces, &offsets, &edges,
                                             &cells, &result, &count, &bits, &stage},
                        .argument_bytes = (size_t[]){8, 8, 8, 8, 8, 8, 8, 4, 4, 4},
                        .address_mask = 0x7f};
    return vram_queue_launch(queue, layout->kernel, &call);
}

static vram_status step(struct layout *layout) {
    vram_queue *compute = layout->compute;
    uint64_t cell_bytes = UINT64_C(12) << 2 * layout->graph.cell_bits;
    TRY(vram_queue_fill(compute, layout->addrs[CELLS], 0, 4, cell_bytes));
    for (uint32_t stage = FORCES_COUNT; stage <= FORCES_MOVE; stage++) {
        TRY(launch(layout, compute, stage, layout->addrs[POSITIONS], layout->addrs[RESULT]));
    }
    return VRAM_OK;
}

/*
 * Copies the positions on the device, and starts the readback and the measuring of that copy. The
 * previous copy in this slot may still be read: compute waits for that on the device, the host does
 * not.
 */
static vram_status start_frame(struct layout *layout, int index) {
    vram_queue *compute = layout->compute, *analysis = layout->analysis;
    struct slot *slot = &layout->slots[index];
    vram_addr frame = layout->addrs[FRAME + index], result = layout->addrs[RESULT + index];
    uint64_t bytes = (uint64_t)layout->graph.nodes * 8;
    TRY(vram_queue_after(compute, slot->read));
    TRY(vram_queue_after(compute, slot->measured));
    TRY(vram_queue_copy(compute, frame, layout->addrs[POSITIONS], bytes));
    TRY(vram_readback_start(layout->readback, layout->careless ? NULL : compute, frame, bytes,
                            &slot->number));
    TRY(vram_readback_point(layout->readback, slot->number, &slot->read));
    TRY(vram_stream_set_order(layout->streams, VRAM_STREAM_COMPUTE, VRAM_STREAM_ANALYSIS));
    TRY(vram_queue_fill(analysis, result, 0, 4, sizeof slot->arrived));
    TRY(launch(layout, analysis, FORCES_MEASURE, frame, result));
    TRY(vram_queue_download(analysis, &slot->arrived, result, sizeof slot->arrived));
    TRY(vram_queue_mark(analysis, &slot->measured));
    TRY(vram_buffer_use(layout->buffers[FRAME + index], analysis));
    TRY(vram_buffer_use(layout->buffers[FRAME + index], slot->read.queue));
    return vram_buffer_use(layout->buffers[RESULT + index], analysis);
}

/* Takes the frame of a slot, if it has one: its places and its measures must be the reference's. */
static vram_status take_frame(struct layout *layout, int index) {
    struct slot *slot = &layout->slots[index];
    vram_frame frame;
    if (!slot->number) {
        return VRAM_OK;
    }
    layout->ready_frames += vram_readback_poll(layout->readback, slot->number) == VRAM_OK;
    TRY(vram_readback_next(layout->readback, VRAM_TIMEOUT_DEFAULT, &frame));
    TRY(vram_point_wait(slot->measured, VRAM_TIMEOUT_DEFAULT));
    struct forces_measure found =
        forces_measure_of(frame.data, (uint32_t)(frame.bytes / (2 * sizeof(int32_t))));
    bool right = frame.number == slot->number && frame.bytes == (uint64_t)layout->graph.nodes * 8 &&
                 memcmp(&found, &slot->expected, sizeof found) == 0 &&
                 memcmp(&slot->arrived, &slot->expected, sizeof found) == 0;
    layout->last_equal = memcmp(frame.data, layout->reference.positions, frame.bytes) == 0;
    layout->frames++;
    layout->wrong_frames += !right;
    slot->number = 0;
    return vram_readback_release(layout->readback, frame.number);
}

/* As many steps as asked for at the present size, each of them a frame. */
static vram_status advance(struct layout *layout, uint32_t steps) {
    for (uint32_t i = 0; i < steps; i++) {
        int index = (int)(i % SLOTS);
        TRY(take_frame(layout, index));
        TRY(step(layout));
        TRY(start_frame(layout, index));
        reference_step(&layout->reference, &layout->graph); /* while the device works */
        layout->slots[index].expected =
            forces_measure_of(layout->reference.positions, layout->reference.nodes);
    }
    for (uint32_t i = steps; i < steps + SLOTS; i++) {
        TRY(take_frame(layout, (int)(i % SLOTS)));
    }
    layout->wrong_frames += !layout->last_equal; /* of the frame taken last */
    return VRAM_OK;
}

/* ----------------------------------------------------------------- telling */

static void print_size(const struct layout *layout, uint32_t steps, bool report, double seconds) {
    const struct slot *last = &layout->slots[(steps - 1) % SLOTS];
    printf("%8" PRIu32 " %8" PRIu32 " %7" PRIu32 " %6" PRIu32 " %9" PRIu32 "  %08" PRIx32,
           layout->graph.nodes, layout->graph.edges, UINT32_C(1) << 2 * layout->graph.cell_bits,
           steps, (uint32_t)((uint64_t)last->arrived.distance * 2048 / layout->graph.nodes),
           last->arrived.checksum);
    if (report) {
        printf("  %9.3f ms a frame", seconds * 1e3 / steps);
    }
    printf("\n");
    fflush(stdout);
}

static vram_status print_report(struct layout *layout) {
    vram_live_query query = {.size = sizeof query, .pool = layout->pool};
    vram_live_stats stats = {.size = sizeof stats};
    vram_device_info info = {.size = sizeof info};
    TRY(vram_device_info_get(layout->context, layout->index, &info));
    TRY(vram_live_stats_get(&query, &stats));
    printf("\non %s, %s\n", info.backend, info.name);
    for (int i = 0; i < BUFFERS; i++) {
        vram_growth_info growth = {.size = sizeof growth};
        TRY(vram_buffer_growth_get(layout->buffers[i], &growth));
        printf("  %-12s %11" PRIu64 " of %11" PRIu64 " bytes, grown %" PRIu64
               " times in place and %" PRIu64 " times by a copy\n",
               plans[i].name, growth.used_bytes, growth.capacity_bytes, growth.in_place,
               growth.copies);
    }
    printf("  at the peak %" PRIu64 " bytes in %" PRIu64 " blocks; %" PRIu64 " of %" PRIu64
           " frames had arrived before the host came for them\n\n",
           stats.peak_bytes, stats.peak_blocks, layout->ready_frames, layout->frames);
    return VRAM_OK;
}

/* ------------------------------------------------------------------ running */

static double seconds_now(void) {
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static vram_status lay_out(struct layout *layout, const struct forces_options *options) {
    TRY(begin(layout, options));
    printf("   nodes    edges   cells frames  distance  checksum\n");
    for (uint64_t nodes = FORCES_NODES_MIN;; nodes *= 4) {
        nodes = nodes < options->nodes ? nodes : options->nodes;
        TRY(grow(layout, (uint32_t)nodes));
        double start = seconds_now();
        TRY(advance(layout, options->steps));
        print_size(layout, options->steps, options->report, seconds_now() - start);
        if (nodes == options->nodes) {
            break;
        }
    }
    return options->report ? print_report(layout) : VRAM_OK;
}

/* Destroys the buffers; what is live in the pool then, nobody would ever have freed. */
static vram_status find_leaks(struct layout *layout, uint64_t *blocks) {
    vram_live_query query = {.size = sizeof query, .pool = layout->pool};
    vram_live_stats stats = {.size = sizeof stats};
    TRY(vram_named_destroy(layout->named));
    vram_readback_destroy(layout->readback);
    TRY(vram_live_stats_get(&query, &stats));
    *blocks = stats.live_blocks;
    return VRAM_OK;
}

int forces_run(const struct forces_options *options) {
    struct layout layout = {.careless = options->careless};
    uint64_t leaked = 0;
    vram_status status = lay_out(&layout, options);
    status = status == VRAM_OK ? find_leaks(&layout, &leaked) : status;
    if (status != VRAM_OK) {
        fprintf(stderr, "forces: %s: %s\n", vram_status_name(status), vram_error_get()->text);
    } else {
        printf("%" PRIu64 " frames, %" PRIu64 " not equal to the reference; %" PRIu64
               " blocks leaked\n",
               layout.frames, layout.wrong_frames, leaked);
    }
    vram_context_destroy(layout.context); /* waits for what is still under way */
    graph_end(&layout.graph);
    reference_end(&layout.reference);
    return status != VRAM_OK || layout.wrong_frames > 0 || leaked > 0;
}
