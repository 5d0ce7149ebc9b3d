/* SPDX-License-Identifier: Apache-2.0 */
/*
 * estimate_view.c: an estimate as a table for people, with its verdict, warnings and assumptions.
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

/* ---------------------------------------------------------------------- text */

static void print_label(const struct terminal *terminal, const char *label) {
    terminal_cell(terminal, STYLE_DIM, LABEL_COLUMN, "%s", label);
}

/* "8.03 billion parameters (3.61 at once)"; of small models millions, or the number itself. A
   vision tower is not part of the language model. */
static void print_parameters(const struct terminal *terminal, const vram_model *model) {
    bool billions = model->parameters >= 1000000000;
    double unit = billions ? 1e9 : 1e6;
    if (model->parameters == 0) {
        terminal_print(terminal, STYLE_PLAIN, "parameters not counted");
        return;
    }
    if (model->parameters < 1000000) {
        terminal_print(terminal, STYLE_PLAIN, "%" PRIu64 " parameters", model->parameters);
        return;
    }
    terminal_print(terminal, STYLE_PLAIN, "%.2f %s parameters", (double)model->parameters / unit,
                   billions ? "billion" : "million");
    bool towers = model->tower_parameters > 0,
         experts = model->active_parameters < model->parameters;
    if (towers) {
        printf(" (%.2f of language%s", (double)(model->parameters - model->tower_parameters) / unit,
               experts ? "," : ")");
    }
    if (experts) {
        printf(" %s%.2f at once)", towers ? "" : "(", (double)model->active_parameters / unit);
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
    printf(", %s%s%s\n", size_of(model->weight_bytes, bytes),
           model->weight_type[0] ? ", mostly " : "", model->weight_type);
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

/* "input, 0-15, output", "experts of 12", "nothing". */
static void part_contents(const vram_estimate_part *part, char *text, size_t room) {
    char layers[32] = "", experts[32] = "";
    if (part->layers == 1) {
        snprintf(layers, sizeof layers, ", %" PRIu32, part->first_layer);
    } else if (part->layers > 1) {
        snprintf(layers, sizeof layers, ", %" PRIu32 "-%" PRIu32, part->first_layer,
                 part->first_layer + part->layers - 1);
    }
    if (part->expert_layers > 0) {
        snprintf(experts, sizeof experts, ", experts of %" PRIu32, part->expert_layers);
    }
    char all[96];
    snprintf(all, sizeof all, "%s%s%s%s", part->has_input ? ", input" : "", layers, experts,
             part->has_output ? ", output" : "");
    snprintf(text, room, "%s",
             all[0] != 0               ? all + 2
             : part->weight_bytes != 0 ? "projector"
                                       : "nothing");
}

static void print_part(const struct terminal *terminal, const char *label,
                       const vram_estimate_part *part, bool free_known) {
    char what[96];
    part_contents(part, what, sizeof what);
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
    bool open = estimate_is_guess(job) && !job->guess_accepted;
    if (job->path != NULL) {
        print_model(terminal, job);
        print_table(terminal, job);
        print_fit(job);
    } else {
        print_shape(terminal, job);
    }
    estimate_verdict(job, verdict);
    for (size_t i = 0; estimate_warning(job, i, text); i++) {
        terminal_print(terminal, STYLE_BAD, "warning: %s", text);
        printf("\n");
    }
    terminal_print(terminal, fits && !open ? STYLE_GOOD : STYLE_BAD, "%s", verdict);
    printf("\n\n");
    terminal_print(terminal, STYLE_BOLD, "Assumptions");
    printf("\n");
    for (size_t i = 0; estimate_assumption(job, i, text); i++) {
        printf("  ");
        terminal_wrap(terminal, STYLE_DIM, 2, text);
    }
}
