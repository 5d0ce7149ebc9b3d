/* SPDX-License-Identifier: Apache-2.0 */
/*
 * estimate_view.c: an estimate as a table for people, with its verdict and what it assumes.
 */
#include "estimate/estimate_job.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { DEVICE_COLUMN = 11, LAYER_COLUMN = 22, SIZE_COLUMN = 12, LABEL_COLUMN = 9 };
enum { TABLE_COLUMNS = DEVICE_COLUMN + LAYER_COLUMN + 6 * SIZE_COLUMN };

static const char *size_of(uint64_t bytes, char text[VRAM_SIZE_TEXT_MAX]) {
    return vram_size_format(bytes, text);
}

bool estimate_answer(const struct estimate_job *job) {
    if (job->path == NULL) {
        return estimate_shape_place(job) < job->options.device_count;
    }
    if (job->estimate.fits) {
        return true;
    }
    bool some = job->fit_known &&
                (job->fit.context > 0 || (job->fit.layers.known && job->fit.layers.value > 0));
    return job->fit_wanted && some;
}

uint32_t estimate_shape_place(const struct estimate_job *job) {
    uint32_t at = 0;
    while (at < job->options.device_count &&
           job->devices[at].free_bytes < job->shape_memory.total_bytes) {
        at++;
    }
    return at;
}

/* ------------------------------------------------------------------- verdict */

/* What is short by the most, the host included; NULL: nothing is. */
static const vram_estimate_part *worst(const struct estimate_job *job, const char **label) {
    const vram_estimate_part *found = NULL;
    for (uint32_t i = 0; i <= job->options.device_count; i++) {
        bool host = i == job->options.device_count;
        const vram_estimate_part *part = host ? &job->estimate.host : &job->estimate.devices[i];
        if (!part->fits && (found == NULL || part->total_bytes - part->free_bytes >
                                                 found->total_bytes - found->free_bytes)) {
            found = part;
            *label = host ? "host" : job->labels[i];
        }
    }
    return found;
}

static void add_advice(const struct estimate_job *job, char *text, size_t room) {
    const vram_fit *fit = &job->fit;
    size_t used = strlen(text);
    uint32_t all = job->model.layer_count + 1;
    bool context = job->fit_known && fit->context > 0 && fit->context < job->estimate.context;
    bool layers = job->fit_known && fit->layers.known && fit->layers.value > 0 &&
                  fit->layers.value < all && job->options.device_count > 0;
    if (context) {
        used += (size_t)snprintf(text + used, room - used,
                                 "; a context of %" PRIu64 " fits (-c %" PRIu64 ")", fit->context,
                                 fit->context);
    }
    if (layers) {
        used += (size_t)snprintf(text + used, room - used,
                                 "; %" PRIu64 " of %" PRIu32 " layers fit (-ngl %" PRIu64 ")",
                                 fit->layers.value, all, fit->layers.value);
    }
    if (!context && !layers) {
        snprintf(text + used, room - used,
                 "; it does not fit with a shorter context or fewer layers either");
    }
}

static void shape_verdict(const struct estimate_job *job, char text[ESTIMATE_VERDICT_MAX]) {
    char need[VRAM_SIZE_TEXT_MAX], have[VRAM_SIZE_TEXT_MAX];
    uint32_t at = estimate_shape_place(job);
    size_of(job->shape_memory.total_bytes, need);
    if (at < job->options.device_count) {
        snprintf(text, ESTIMATE_VERDICT_MAX, "fits: %s of %s free on %s", need,
                 size_of(job->devices[at].free_bytes, have), job->labels[at]);
    } else {
        snprintf(text, ESTIMATE_VERDICT_MAX, "does not fit: no device has %s", need);
    }
}

const char *estimate_verdict(const struct estimate_job *job, char text[ESTIMATE_VERDICT_MAX]) {
    char need[VRAM_SIZE_TEXT_MAX], have[VRAM_SIZE_TEXT_MAX];
    const char *label = "host";
    const vram_estimate_part *short_of;
    if (job->path == NULL) {
        shape_verdict(job, text);
        return text;
    }
    if ((short_of = worst(job, &label)) == NULL) {
        uint64_t on_devices = job->estimate.total_bytes - job->estimate.host.total_bytes;
        uint64_t room = 0;
        for (uint32_t i = 0; i < job->options.device_count; i++) {
            room += job->devices[i].free_bytes;
        }
        if (job->options.device_count == 0) {
            snprintf(text, ESTIMATE_VERDICT_MAX, "fits: %s on the host",
                     size_of(job->estimate.host.total_bytes, need));
        } else {
            snprintf(text, ESTIMATE_VERDICT_MAX, "fits: %s of %s free on %" PRIu32 " device%s",
                     size_of(on_devices, need), size_of(room, have), job->options.device_count,
                     job->options.device_count == 1 ? "" : "s");
        }
        return text;
    }
    snprintf(text, ESTIMATE_VERDICT_MAX, "does not fit: %s needs %s and has %s free", label,
             size_of(short_of->total_bytes, need), size_of(short_of->free_bytes, have));
    add_advice(job, text, ESTIMATE_VERDICT_MAX);
    return text;
}

/* --------------------------------------------------------------- assumptions */

static bool shape_assumption(size_t index, char text[ESTIMATE_ASSUMPTION_MAX]) {
    static const char *const lines[] = {
        "from dimensions alone: gated feed-forward blocks, a separate output layer, heads of "
        "hidden / heads; activations of one token",
        "the model lies on one device; nothing is added for the runtime",
    };
    if (index < sizeof lines / sizeof lines[0]) {
        snprintf(text, ESTIMATE_ASSUMPTION_MAX, "%s", lines[index]);
    }
    return index < sizeof lines / sizeof lines[0];
}

static void weights_assumption(const struct estimate_job *job, char *text) {
    const vram_model *model = &job->model;
    if (model->format != VRAM_MODEL_CONFIG) {
        snprintf(text, ESTIMATE_ASSUMPTION_MAX,
                 "weights: the bytes of %" PRIu64 " tensors in %" PRIu32 " file%s", model->tensors,
                 model->files, model->files == 1 ? "" : "s");
    } else {
        snprintf(text, ESTIMATE_ASSUMPTION_MAX, "weights: counted from config.json%s, stored as %s",
                 model->family_known ? "" : " (a guess: the architecture is not known well)",
                 model->weight_type);
    }
}

static void cache_assumption(const struct estimate_job *job, char *text) {
    char token[VRAM_SIZE_TEXT_MAX];
    bool windows = false, states = false, latent = false;
    for (uint32_t i = 0; i < job->model.layer_count; i++) {
        const vram_model_layer *layer = &job->model.layers[i];
        windows = windows || layer->window > 0;
        states = states || layer->state_elements > 0;
        latent = latent || (layer->k_elements > 0 && layer->v_elements == 0);
    }
    snprintf(text, ESTIMATE_ASSUMPTION_MAX,
             "KV cache: %s a token, the whole context taken at once%s%s%s",
             size_of(job->estimate.token_bytes, token),
             windows
                 ? "; layers with a window store the window and one micro-batch of each sequence"
                 : "",
             latent ? "; latent attention stores the latent vector only" : "",
             states ? "; states of recurrent layers in f32" : "");
}

static void input_assumption(const struct estimate_job *job, char *text) {
    bool copy = job->model.tied;
    for (uint32_t i = 0; i <= job->options.device_count; i++) {
        bool host = i == job->options.device_count;
        const vram_estimate_part *part = host ? &job->estimate.host : &job->estimate.devices[i];
        copy = copy && !(part->has_input && part->has_output);
    }
    snprintf(text, ESTIMATE_ASSUMPTION_MAX, "token embeddings lie %s%s",
             job->estimate.host.has_input ? "on the host" : "on the first device where they fit",
             copy ? ", and a second time with the output" : "");
}

bool estimate_assumption(const struct estimate_job *job, size_t index,
                         char text[ESTIMATE_ASSUMPTION_MAX]) {
    char overhead[VRAM_SIZE_TEXT_MAX];
    if (job->path == NULL) {
        return shape_assumption(index, text);
    }
    switch (index) {
    case 0:
        weights_assumption(job, text);
        return true;
    case 1:
        cache_assumption(job, text);
        return true;
    case 2:
        snprintf(text, ESTIMATE_ASSUMPTION_MAX,
                 "compute: %" PRIu64 " tokens at once in numbers of %" PRIu64
                 " bytes, attention scores %s, logits in f32 of %" PRIu64 " at once",
                 job->estimate.micro_batch,
                 job->options.activation_bytes ? job->options.activation_bytes : UINT64_C(4),
                 job->flash ? "never complete in memory (flash attention)" : "complete in memory",
                 job->options.outputs ? job->options.outputs : job->estimate.micro_batch);
        return true;
    case 3:
        snprintf(text, ESTIMATE_ASSUMPTION_MAX,
                 "overhead: %s of each device for the runtime's context and kernels (--overhead)",
                 size_of(job->options.device_count && job->devices[0].overhead_bytes.known
                             ? job->devices[0].overhead_bytes.value
                         : job->options.device_count ? VRAM_OVERHEAD_DEFAULT
                                                     : 0,
                         overhead));
        return true;
    case 4:
        input_assumption(job, text);
        return true;
    case 5:
        snprintf(text, ESTIMATE_ASSUMPTION_MAX, "free: %s",
                 job->free_guessed ? "four fifths of the memory if the driver does not report it"
                 : job->labels[0][0] == 'm' ? "all of each --memory"
                 : job->simulated           ? "as the simulated devices report it"
                                            : "as the drivers report it now");
        return true;
    default:
        return false;
    }
}

/* ---------------------------------------------------------------------- text */

static void print_label(const struct terminal *terminal, const char *label) {
    terminal_cell(terminal, STYLE_DIM, LABEL_COLUMN, "%s", label);
}

/* "8.03 billion parameters (3.61 at once)"; of small models millions, or the number itself. */
static void print_parameters(const struct terminal *terminal, const vram_model *model) {
    bool billions = model->parameters >= 1000000000;
    double unit = billions ? 1e9 : 1e6;
    if (model->parameters < 1000000) {
        terminal_print(terminal, STYLE_PLAIN, "%" PRIu64 " parameters", model->parameters);
        return;
    }
    terminal_print(terminal, STYLE_PLAIN, "%.2f %s parameters", (double)model->parameters / unit,
                   billions ? "billion" : "million");
    if (model->active_parameters < model->parameters) {
        printf(" (%.2f at once)", (double)model->active_parameters / unit);
    }
}

static void print_model(const struct terminal *terminal, const struct estimate_job *job) {
    const vram_model *model = &job->model;
    char bytes[VRAM_SIZE_TEXT_MAX];
    print_label(terminal, "model");
    terminal_print(terminal, STYLE_BOLD, "%s", model->name[0] ? model->name : job->path);
    printf("\n");
    print_label(terminal, "");
    terminal_print(terminal, STYLE_PLAIN, "%s, %" PRIu32 " layer%s, ",
                   model->architecture[0] ? model->architecture : "unknown architecture",
                   model->layer_count, model->layer_count == 1 ? "" : "s");
    print_parameters(terminal, model);
    printf(", %s, mostly %s\n", size_of(model->weight_bytes, bytes), model->weight_type);
    char run[256];
    snprintf(run, sizeof run,
             "context %" PRIu64 ", %" PRIu64 " sequence%s, micro-batch %" PRIu64
             ", keys %s, values %s, flash attention %s",
             job->estimate.context, job->estimate.sequences,
             job->estimate.sequences == 1 ? "" : "s", job->estimate.micro_batch,
             job->options.k_type ? job->options.k_type : "f16",
             job->options.v_type ? job->options.v_type : "f16", job->flash ? "on" : "off");
    print_label(terminal, "run");
    terminal_wrap(terminal, STYLE_PLAIN, LABEL_COLUMN, run);
    printf("\n");
}

/* What separates a device from its sizes: nothing, or a line break where both do not fit in one
   line. */
static void print_break(const struct terminal *terminal) {
    if (terminal->width < TABLE_COLUMNS) {
        printf("\n  ");
    }
}

static void print_sizes(const struct terminal *terminal, const vram_estimate_part *part,
                        bool free_known) {
    const uint64_t sizes[] = {part->weight_bytes, part->kv_bytes, part->compute_bytes,
                              part->overhead_bytes, part->total_bytes};
    char text[VRAM_SIZE_TEXT_MAX];
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        terminal_cell(terminal, i == 4 ? STYLE_BOLD : STYLE_PLAIN, SIZE_COLUMN, "%s",
                      size_of(sizes[i], text));
    }
    terminal_print(terminal, part->fits ? STYLE_GOOD : STYLE_BAD, "%s",
                   free_known ? size_of(part->free_bytes, text) : "unknown");
    printf("\n");
}

static void print_part(const struct terminal *terminal, const char *label,
                       const vram_estimate_part *part, bool free_known) {
    char what[64];
    if (part->layers > 0) {
        snprintf(what, sizeof what, "%s%" PRIu32 "-%" PRIu32 "%s", part->has_input ? "input, " : "",
                 part->first_layer, part->first_layer + part->layers - 1,
                 part->has_output ? ", output" : "");
    } else {
        snprintf(what, sizeof what, "%s",
                 part->has_input && part->has_output ? "input, output"
                 : part->has_input                   ? "input"
                 : part->has_output                  ? "output"
                                                     : "nothing");
    }
    terminal_cell(terminal, STYLE_ACCENT, DEVICE_COLUMN, "%s", label);
    bool whole = terminal->width >= TABLE_COLUMNS;
    terminal_cell(terminal, STYLE_PLAIN, whole ? LAYER_COLUMN : 0, "%s", what);
    print_break(terminal);
    print_sizes(terminal, part, free_known);
}

static void print_table(const struct terminal *terminal, const struct estimate_job *job) {
    static const char *const heads[] = {"weights", "KV cache", "compute", "overhead", "total"};
    terminal_cell(terminal, STYLE_BOLD, DEVICE_COLUMN, "device");
    terminal_cell(terminal, STYLE_BOLD, terminal->width >= TABLE_COLUMNS ? LAYER_COLUMN : 0,
                  "layers");
    print_break(terminal);
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        terminal_cell(terminal, STYLE_BOLD, SIZE_COLUMN, "%s", heads[i]);
    }
    terminal_print(terminal, STYLE_BOLD, "free");
    printf("\n");
    for (uint32_t i = 0; i < job->options.device_count; i++) {
        print_part(terminal, job->labels[i], &job->estimate.devices[i], true);
    }
    if (job->estimate.host.total_bytes > 0) {
        print_part(terminal, "host", &job->estimate.host, job->options.host_free_bytes.known);
    }
    printf("\n");
}

static void print_shape(const struct terminal *terminal, const struct estimate_job *job) {
    const vram_inference_memory *memory = &job->shape_memory;
    const struct {
        const char *label;
        uint64_t bytes;
    } rows[] = {{"weights", memory->model_bytes},
                {"KV cache", memory->kv_bytes},
                {"activations", memory->activation_bytes},
                {"total", memory->total_bytes}};
    char text[VRAM_SIZE_TEXT_MAX];
    printf("%" PRIu64 " parameters", memory->parameters);
    if (memory->active_parameters < memory->parameters) {
        printf(", %" PRIu64 " of them for a token", memory->active_parameters);
    }
    printf("\n\n");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        terminal_cell(terminal, STYLE_PLAIN, SIZE_COLUMN, "%s", rows[i].label);
        terminal_cell(terminal, STYLE_BOLD, SIZE_COLUMN, "%s", size_of(rows[i].bytes, text));
        printf("%" PRIu64 " bytes\n", rows[i].bytes);
    }
    printf("\n");
    for (uint32_t i = 0; i < job->options.device_count; i++) {
        terminal_cell(terminal, STYLE_ACCENT, SIZE_COLUMN, "%s", job->labels[i]);
        terminal_print(terminal,
                       job->devices[i].free_bytes >= memory->total_bytes ? STYLE_GOOD : STYLE_BAD,
                       "%s free", size_of(job->devices[i].free_bytes, text));
        printf("\n");
    }
    printf("\n");
}

static void print_fit(const struct estimate_job *job) {
    uint32_t all = job->model.layer_count + 1;
    if (!job->fit_wanted || !job->fit_known) {
        return;
    }
    if (job->fit.context > 0) {
        printf("largest context  %" PRIu64 "  (-c %" PRIu64 ")\n", job->fit.context,
               job->fit.context);
    } else {
        printf("largest context  none\n");
    }
    if (job->fit.layers.known) {
        printf("most layers      %" PRIu64 " of %" PRIu32 "  (-ngl %" PRIu64 ")\n",
               job->fit.layers.value, all, job->fit.layers.value);
    } else {
        printf("most layers      none\n");
    }
    printf("\n");
}

void estimate_print(const struct terminal *terminal, const struct estimate_job *job) {
    char text[ESTIMATE_ASSUMPTION_MAX], verdict[ESTIMATE_VERDICT_MAX];
    bool fits = job->path == NULL ? estimate_answer(job) : job->estimate.fits;
    if (job->path != NULL) {
        print_model(terminal, job);
        print_table(terminal, job);
        print_fit(job);
    } else {
        print_shape(terminal, job);
    }
    estimate_verdict(job, verdict);
    terminal_print(terminal, fits ? STYLE_GOOD : STYLE_BAD, "%s", verdict);
    printf("\n\n");
    terminal_print(terminal, STYLE_BOLD, "Assumptions");
    printf("\n");
    for (size_t i = 0; estimate_assumption(job, i, text); i++) {
        printf("  ");
        terminal_wrap(terminal, STYLE_DIM, 2, text);
    }
}
