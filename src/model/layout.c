/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layout.c: a model laid out over devices and the host, as vram/model.h describes it.
 *
 * (1) A layer is on one part as a whole, with its weights and its cache; only its experts may be on
 *     the host instead.
 * (2) Parts are contiguous: the host has the first layers, the devices follow in their order, and
 *     the output is behind the last layer. So llama.cpp (b11549) does it: the output counts as the
 *     last layer, and -ngl N takes the last N of all.
 * (3) Sums that overflow stay overflowed, and make the estimate fail at its end.
 */
#include "vram/model.h"

#include "base/error.h"
#include "base/struct_tail.h"
#include "model/cache_size.h"
#include "model/layout.h"
#include "model/sum.h"

#include <float.h>
#include <string.h>

enum { CELL_STEP = 256 }; /* llama.cpp rounds the tokens of a cache up to it */

#define PRODUCT(sum, ...)                                                                          \
    vr_sum_add(sum, sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t), (uint64_t[]){__VA_ARGS__})

/* A part that is being filled: a device or the host. */
struct layout_part {
    struct vr_sum weights, kv, compute;
    struct vr_sum total; /* of the three and the overhead */
    uint64_t kv_widest;  /* keys and values of its widest layer, for one token */
    uint32_t first_layer, layers;
    uint32_t expert_layers; /* of the host: layers elsewhere whose experts are here */
    bool has_input, has_output, used, is_host;
};

/* ------------------------------------------------------------------- options */

static uint64_t or_default(uint64_t value, uint64_t other) {
    return value ? value : other;
}

static uint64_t smaller_of(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static vram_status check_shares(struct vr_layout *layout) {
    const struct vram_estimate_options *options = &layout->options;
    layout->split = false;
    for (uint32_t i = 0; i < options->device_count; i++) {
        double share = options->devices[i].share;
        if (!(share >= 0 && share <= FLT_MAX / VRAM_ESTIMATE_DEVICES_MAX)) { /* NaN, too */
            return vr_fail(VRAM_ERR_INVALID, "the share of device %u is not a number from 0 on", i);
        }
        layout->split = layout->split || share > 0;
    }
    return VRAM_OK;
}

static vram_status check_counts(const struct vr_layout *layout) {
    const struct vram_estimate_options *options = &layout->options;
    if (options->device_count > VRAM_ESTIMATE_DEVICES_MAX ||
        (options->device_count > 0 && !options->devices)) {
        return vr_fail(VRAM_ERR_INVALID,
                       options->devices ? "%u devices are too many; at most %d are supported"
                                        : "the list of %u devices is NULL; it may have at most %d",
                       options->device_count, VRAM_ESTIMATE_DEVICES_MAX);
    }
    if (options->input > VRAM_INPUT_ON_DEVICE) {
        return vr_fail(VRAM_ERR_INVALID, "%d is not a place of the input", (int)options->input);
    }
    if (options->context == VRAM_CONTEXT_MOST) {
        return vr_fail(VRAM_ERR_INVALID,
                       "the model does not say its context; give the number of tokens");
    }
    if (options->sequences > options->context) {
        return vr_fail(
            VRAM_ERR_INVALID,
            "%llu sequences cannot share a context of %llu tokens; each needs at least one",
            (unsigned long long)options->sequences, (unsigned long long)options->context);
    }
    return VRAM_OK;
}

vram_status vr_layout_begin(struct vr_layout *layout, const struct vram_model *model,
                            const struct vram_estimate_options *options) {
    struct vram_estimate_options *taken = &layout->options;
    vram_status status = vr_options_take(taken, sizeof *taken, options);
    if (status != VRAM_OK) {
        return status;
    }
    if (!model || model->size < sizeof *model || !vr_tail_is_zero(model, sizeof *model) ||
        model->layer_count > VRAM_MODEL_LAYERS_MAX) {
        return vr_fail(VRAM_ERR_INVALID, "the model is NULL or invalid");
    }
    layout->model = model;
    taken->sequences = or_default(taken->sequences, 1);
    if (taken->context == 0) {
        taken->context = smaller_of(4096, or_default(model->context_most, 4096));
    } else if (taken->context == VRAM_CONTEXT_MOST) {
        taken->context = or_default(model->context_most, VRAM_CONTEXT_MOST);
    }
    taken->micro_batch = or_default(taken->micro_batch, 512);
    taken->activation_bytes = or_default(taken->activation_bytes, 4);
    if ((status = check_counts(layout)) != VRAM_OK || (status = check_shares(layout)) != VRAM_OK ||
        (status = vr_cache_types_find(taken->k_type, taken->v_type, &layout->types)) != VRAM_OK) {
        return status;
    }
    return vram_model_token_bytes(model, taken->k_type, taken->v_type, &layout->token_bytes);
}

/* --------------------------------------------------------------------- layers */

/* Tokens that are processed at once: no more than there are. */
static uint64_t micro_batch(const struct vr_layout *layout) {
    return smaller_of(layout->options.micro_batch, layout->options.context);
}

/* What llama.cpp does: the context is rounded up, divided, and rounded up again. */
static bool set_cells(struct vr_layout *layout) {
    const struct vram_estimate_options *options = &layout->options;
    uint64_t whole;
    layout->cells = 0;
    return vr_round_up(options->context, CELL_STEP, &whole) &&
           vr_round_up(whole / options->sequences, CELL_STEP, &layout->cells);
}

/* As llama.cpp's llama_kv_cache_iswa has it, with a stream for each sequence. */
static struct vr_sum layer_cache(const struct vr_layout *layout, uint32_t index) {
    const struct vram_estimate_options *options = &layout->options;
    const struct vram_model_layer *layer = &layout->model->layers[index];
    uint64_t cells = layout->cells, token = 0, kept;
    struct vr_sum bytes = vr_sum_of(0);
    if (layer->window && !options->swa_full && vr_add(layer->window, micro_batch(layout), &kept) &&
        vr_round_up(kept, CELL_STEP, &kept)) {
        cells = smaller_of(cells, kept);
    }
    vr_cache_token_bytes(layer, &layout->types,
                         &token); /* vr_layout_begin has checked that this succeeds */
    PRODUCT(&bytes, cells, options->sequences, token);
    PRODUCT(&bytes, options->sequences, layer->state_elements, 4);
    return bytes;
}

/* ------------------------------------------------------------------------ parts */

/* The formula of vram/model.h. */
static struct vr_sum compute_of(const struct vr_layout *layout, const struct layout_part *part) {
    const struct vram_estimate_options *options = &layout->options;
    const struct vram_model *model = layout->model;
    const uint64_t u = micro_batch(layout), a = options->activation_bytes;
    const uint64_t span = layout->cells;
    struct vr_sum attention = vr_sum_of(0), feed, output = vr_sum_of(0);
    if (part->layers > 0) {
        PRODUCT(&attention, u, span, options->no_flash_attention ? 4 : 2);
        feed = attention;
        PRODUCT(&attention, u, a, 2, model->hidden);
        PRODUCT(&attention, u, a, model->heads, model->head_elements);
        PRODUCT(&attention, u, a, part->kv_widest);
        PRODUCT(&attention, u, span, 4, model->heads, options->no_flash_attention);
        PRODUCT(&feed, u, a, 2, model->hidden);
        PRODUCT(&feed, u, a, 2, model->intermediate);
        attention.overflow = attention.overflow || feed.overflow;
        attention.value = feed.value > attention.value ? feed.value : attention.value;
    }
    if (part->has_output) {
        PRODUCT(&output, or_default(options->outputs, u), 4, model->vocabulary);
        PRODUCT(&output, u, a, model->hidden);
        attention.overflow = attention.overflow || output.overflow;
        attention.value = output.value > attention.value ? output.value : attention.value;
    }
    return attention;
}

static void sum_up(const struct vr_layout *layout, struct layout_part *part, uint64_t overhead) {
    part->compute = compute_of(layout, part);
    part->total = vr_sum_of(overhead);
    vr_sum_add_times(&part->total, part->weights, 1);
    vr_sum_add_times(&part->total, part->kv, 1);
    vr_sum_add_times(&part->total, part->compute, 1);
}

static void add_weights(struct layout_part *part, uint64_t bytes) {
    PRODUCT(&part->weights, bytes);
    part->used = true;
}

/* Bytes of the layer that are on the host although the layer is on a device. */
static uint64_t host_experts(const struct vr_layout *layout, uint32_t index) {
    const struct vram_model_layer *layer = &layout->model->layers[index];
    return index < layout->options.host_expert_layers
               ? smaller_of(layer->expert_bytes, layer->weight_bytes)
               : 0;
}

static void add_layer(const struct vr_layout *layout, struct layout_part *part, uint32_t index) {
    const struct vram_model_layer *layer = &layout->model->layers[index];
    uint64_t wide = (uint64_t)layer->k_elements + layer->v_elements;
    uint64_t elsewhere = part->is_host ? 0 : host_experts(layout, index);
    part->first_layer = part->layers ? part->first_layer : index;
    part->layers++;
    part->kv_widest = wide > part->kv_widest ? wide : part->kv_widest;
    add_weights(part, layer->weight_bytes - elsewhere);
    vr_sum_add_times(&part->kv, layer_cache(layout, index), 1);
}

/* The output has a copy of a tied input that is on another part. */
static void add_output(const struct vr_layout *layout, struct layout_part *part) {
    const struct vram_model *model = layout->model;
    part->has_output = true;
    add_weights(part, model->output_bytes);
    if (model->tied && !part->has_input) {
        add_weights(part, model->input_bytes);
    }
}

static void add_input(const struct vr_layout *layout, struct layout_part *part) {
    part->has_input = true;
    add_weights(part, layout->model->input_bytes);
}

/* --------------------------------------------------------------------- filling */

struct filling {
    const struct vr_layout *layout;
    struct layout_part parts[VRAM_ESTIMATE_DEVICES_MAX];
    uint32_t at;       /* the device that is being filled */
    uint64_t position; /* of the next layer, among `count` on devices, the output included */
    uint64_t count;
};

static uint64_t overhead_of(const struct vr_layout *layout, uint32_t device) {
    const struct vram_estimate_device *one = &layout->options.devices[device];
    return one->overhead_bytes.known ? one->overhead_bytes.value : VRAM_OVERHEAD_DEFAULT;
}

/* The device of the next layer by the shares: the first whose sum of shares so far is larger than
   the part of the layers before this one. llama.cpp computes it in float, and so does this. */
static uint32_t device_by_share(const struct filling *filling) {
    const struct vram_estimate_options *options = &filling->layout->options;
    float sums[VRAM_ESTIMATE_DEVICES_MAX], sum = 0;
    float before = (float)filling->position / (float)filling->count;
    uint32_t device = 0;
    for (uint32_t i = 0; i < options->device_count; i++) {
        sum += (float)options->devices[i].share;
        sums[i] = sum;
    }
    while (device + 1 < options->device_count && sums[device] / sum <= before) {
        device++;
    }
    return device;
}

/* Puts what `add` adds on the device that is being filled or, if it does not fit there, on the
   first device behind it where it does. What fits nowhere stays on the last. With shares it stays
   on the device that is being filled. */
static void place_on_device(struct filling *filling,
                            void (*add)(const struct vr_layout *, struct layout_part *, uint32_t),
                            uint32_t index) {
    const struct vr_layout *layout = filling->layout;
    for (;; filling->at++) {
        struct layout_part tried = filling->parts[filling->at];
        uint64_t free_bytes = layout->options.devices[filling->at].free_bytes;
        add(layout, &tried, index);
        sum_up(layout, &tried, overhead_of(layout, filling->at));
        bool fits = !tried.total.overflow && tried.total.value <= free_bytes;
        if (fits || layout->split || filling->at + 1 == layout->options.device_count) {
            filling->parts[filling->at] = tried;
            return;
        }
    }
}

static void place_input(const struct vr_layout *layout, struct layout_part *part, uint32_t index) {
    (void)index;
    add_input(layout, part);
}

static void place_output(const struct vr_layout *layout, struct layout_part *part, uint32_t index) {
    (void)index;
    add_output(layout, part);
}

/* What is outside the layers, without the projector. */
static uint64_t other_of(const struct vram_model *model) {
    return model->other_bytes - smaller_of(model->projector_bytes, model->other_bytes);
}

static void place_other(const struct vr_layout *layout, struct layout_part *part, uint32_t index) {
    (void)index;
    add_weights(part, other_of(layout->model));
}

/* A layer, or the output. */
static void place_next(struct filling *filling,
                       void (*add)(const struct vr_layout *, struct layout_part *, uint32_t),
                       uint32_t index) {
    if (filling->layout->split) {
        filling->at = device_by_share(filling);
    }
    place_on_device(filling, add, index);
    filling->position++;
}

/* The projector is on the first device even if no layer is on any. */
static void fill_devices(struct filling *filling, uint32_t first, bool output) {
    const struct vram_model *model = filling->layout->model;
    if (model->projector_bytes) {
        add_weights(&filling->parts[0], model->projector_bytes);
        sum_up(filling->layout, &filling->parts[0], overhead_of(filling->layout, 0));
    }
    if (filling->layout->input_on_devices) {
        place_on_device(filling, place_input, 0);
    }
    if (!output) {
        return;
    }
    if (other_of(model)) {
        place_on_device(filling, place_other, 0);
    }
    filling->count = model->layer_count - first + UINT64_C(1);
    for (uint32_t i = first; i < model->layer_count; i++) {
        place_next(filling, add_layer, i);
    }
    place_next(filling, place_output, 0);
}

static void fill_host(const struct vr_layout *layout, struct layout_part *host, uint32_t layers,
                      bool output) {
    const struct vram_model *model = layout->model;
    if (!layout->input_on_devices) {
        add_input(layout, host);
    }
    for (uint32_t i = 0; i < layers; i++) {
        add_layer(layout, host, i);
    }
    for (uint32_t i = layers; i < model->layer_count; i++) {
        if (host_experts(layout, i)) {
            add_weights(host, host_experts(layout, i));
            host->expert_layers++;
        }
    }
    if (output) { /* then no layer is on a device */
        add_output(layout, host);
        add_weights(host, layout->options.device_count ? other_of(model) : model->other_bytes);
    }
    sum_up(layout, host, 0);
}

/* ---------------------------------------------------------------------- together */

static bool give_part(const struct layout_part *part, uint64_t overhead, uint64_t free_bytes,
                      bool free_known, struct vram_estimate_part *given) {
    if (!part->used) {
        *given = (struct vram_estimate_part){.free_bytes = free_bytes, .fits = true};
        return true;
    }
    *given = (struct vram_estimate_part){
        .weight_bytes = part->weights.value,
        .kv_bytes = part->kv.value,
        .compute_bytes = part->compute.value,
        .overhead_bytes = overhead,
        .total_bytes = part->total.value,
        .free_bytes = free_bytes,
        .first_layer = part->first_layer,
        .layers = part->layers,
        .expert_layers = part->expert_layers,
        .has_input = part->has_input,
        .has_output = part->has_output,
        .fits = !free_known || part->total.value <= free_bytes,
    };
    return !part->total.overflow;
}

static void add_part(struct vram_estimate *estimate, const struct vram_estimate_part *part,
                     struct vr_sum *total) {
    PRODUCT(total, part->total_bytes);
    estimate->weight_bytes += part->weight_bytes; /* none is larger than the total */
    estimate->kv_bytes += part->kv_bytes;
    estimate->compute_bytes += part->compute_bytes;
    estimate->overhead_bytes += part->overhead_bytes;
    estimate->fits = estimate->fits && part->fits;
}

static bool input_on_devices(const struct vram_estimate_options *options,
                             const struct vram_model *model, uint64_t wanted) {
    bool by_default = model->format != VRAM_MODEL_GGUF && wanted > 0;
    return options->device_count > 0 && (options->input == VRAM_INPUT_ON_DEVICE ||
                                         (options->input == VRAM_INPUT_DEFAULT && by_default));
}

vram_status vr_layout_estimate(struct vr_layout *layout, struct vram_estimate *estimate) {
    const struct vram_estimate_options *options = &layout->options;
    const struct vram_model *model = layout->model;
    struct filling filling = {.layout = layout};
    struct layout_part host = {.is_host = true};
    uint64_t wanted = options->layers.known ? options->layers.value : UINT64_MAX;
    wanted = options->device_count ? wanted : 0;
    bool output = wanted > 0, good; /* keeps (2) */
    uint32_t on_devices = (uint32_t)smaller_of(output ? wanted - 1 : 0, model->layer_count);
    uint32_t on_host = model->layer_count - on_devices;
    struct vr_sum total = vr_sum_of(0);
    good = set_cells(layout);
    layout->input_on_devices = input_on_devices(options, model, wanted);
    if (options->device_count) {
        fill_devices(&filling, on_host, output);
    }
    fill_host(layout, &host, on_host, !output);
    *estimate = (struct vram_estimate){.size = sizeof *estimate,
                                       .fits = true,
                                       .context = options->context,
                                       .sequences = options->sequences,
                                       .micro_batch = micro_batch(layout),
                                       .token_bytes = layout->token_bytes,
                                       .layers_on_devices = on_devices,
                                       .device_count = options->device_count};
    for (uint32_t i = 0; i < options->device_count; i++) {
        good = give_part(&filling.parts[i], overhead_of(layout, i), options->devices[i].free_bytes,
                         true, &estimate->devices[i]) &&
               good;
        add_part(estimate, &estimate->devices[i], &total);
    }
    good = give_part(&host, 0, options->host_free_bytes.value, options->host_free_bytes.known,
                     &estimate->host) &&
           good;
    add_part(estimate, &estimate->host, &total);
    estimate->total_bytes = total.value;
    return good && !total.overflow
               ? VRAM_OK
               : vr_fail(VRAM_ERR_OVERFLOW, "with %llu tokens the sum does not fit in 64 bits",
                         (unsigned long long)options->context);
}

vram_status vram_estimate_get(const vram_model *model, const vram_estimate_options *options,
                              vram_estimate *estimate) {
    VR_CALL;
    struct vr_layout layout;
    struct vram_estimate full;
    vram_status status = vr_layout_begin(&layout, model, options);
    if (status == VRAM_OK) {
        status = vr_layout_estimate(&layout, &full);
    }
    return status == VRAM_OK ? vr_info_give(estimate, &full, sizeof full, sizeof full) : status;
}
