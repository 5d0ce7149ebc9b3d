/* SPDX-License-Identifier: Apache-2.0 */
/*
 * estimate_json.c: an estimate for programs; docs/schema/vram.estimate-1.schema.json describes it.
 */
#include "estimate/estimate_job.h"

static const char *format_name(vram_model_format format) {
    static const char *const names[] = {"", "gguf", "safetensors", "config"};
    return names[format];
}

static void write_model(vram_json *json, const struct estimate_job *job) {
    const vram_model *model = &job->model;
    vram_json_object_begin(json, "model");
    vram_json_text(json, "path", job->path);
    vram_json_text(json, "format", format_name(model->format));
    vram_json_text(json, "name", model->name);
    vram_json_text(json, "architecture", model->architecture);
    vram_json_text(json, "weight_type", model->weight_type);
    vram_json_bool(json, "family_known", model->family_known);
    vram_json_bool(json, "tied", model->tied);
    vram_json_unsigned(json, "files", model->files);
    vram_json_unsigned(json, "tensors", model->tensors);
    vram_json_unsigned(json, "layers", model->layer_count);
    vram_json_unsigned(json, "parameters", model->parameters);
    vram_json_unsigned(json, "active_parameters", model->active_parameters);
    vram_json_unsigned(json, "weight_bytes", model->weight_bytes);
    vram_json_unsigned(json, "input_bytes", model->input_bytes);
    vram_json_unsigned(json, "output_bytes", model->output_bytes);
    vram_json_unsigned(json, "other_bytes", model->other_bytes);
    vram_json_value(json, "context_most",
                    (vram_value){model->context_most, model->context_most > 0});
    vram_json_object_end(json);
}

static void write_part(vram_json *json, const char *key, const char *device, const char *name,
                       const vram_estimate_part *part, bool free_known) {
    vram_json_object_begin(json, key);
    vram_json_text(json, "device", device);
    vram_json_text(json, "name", name);
    vram_json_unsigned(json, "first_layer", part->first_layer);
    vram_json_unsigned(json, "layers", part->layers);
    vram_json_bool(json, "input", part->has_input);
    vram_json_bool(json, "output", part->has_output);
    vram_json_unsigned(json, "weight_bytes", part->weight_bytes);
    vram_json_unsigned(json, "kv_bytes", part->kv_bytes);
    vram_json_unsigned(json, "compute_bytes", part->compute_bytes);
    vram_json_unsigned(json, "overhead_bytes", part->overhead_bytes);
    vram_json_unsigned(json, "total_bytes", part->total_bytes);
    vram_json_value(json, "free_bytes", (vram_value){part->free_bytes, free_known});
    vram_json_bool(json, "fits", part->fits);
    vram_json_object_end(json);
}

static void write_layout(vram_json *json, const struct estimate_job *job) {
    const vram_estimate *estimate = &job->estimate;
    vram_json_object_begin(json, "run");
    vram_json_unsigned(json, "context", estimate->context);
    vram_json_unsigned(json, "sequences", estimate->sequences);
    vram_json_unsigned(json, "batch", job->batch);
    vram_json_unsigned(json, "micro_batch", estimate->micro_batch);
    vram_json_text(json, "k_type", job->options.k_type ? job->options.k_type : "f16");
    vram_json_text(json, "v_type", job->options.v_type ? job->options.v_type : "f16");
    vram_json_bool(json, "flash_attention", job->flash);
    vram_json_unsigned(json, "layers_on_devices", estimate->layers_on_devices);
    vram_json_object_end(json);
    vram_json_array_begin(json, "devices");
    for (uint32_t i = 0; i < job->options.device_count; i++) {
        write_part(json, NULL, job->labels[i], job->names[i], &estimate->devices[i], true);
    }
    vram_json_array_end(json);
    write_part(json, "host", "host", "", &estimate->host, job->options.host_free_bytes.known);
    vram_json_object_begin(json, "total");
    vram_json_unsigned(json, "weight_bytes", estimate->weight_bytes);
    vram_json_unsigned(json, "kv_bytes", estimate->kv_bytes);
    vram_json_unsigned(json, "compute_bytes", estimate->compute_bytes);
    vram_json_unsigned(json, "overhead_bytes", estimate->overhead_bytes);
    vram_json_unsigned(json, "total_bytes", estimate->total_bytes);
    vram_json_unsigned(json, "token_bytes", estimate->token_bytes);
    vram_json_object_end(json);
}

/* null where it was not solved. */
static void write_fit(vram_json *json, const struct estimate_job *job) {
    if (!job->fit_known) {
        vram_json_null(json, "fit");
        return;
    }
    vram_json_object_begin(json, "fit");
    vram_json_unsigned(json, "context", job->fit.context);
    vram_json_value(json, "gpu_layers", job->fit.layers);
    vram_json_object_end(json);
}

static void write_shape(vram_json *json, const struct estimate_job *job) {
    const vram_inference_memory *memory = &job->shape_memory;
    uint32_t at = estimate_shape_place(job);
    vram_json_object_begin(json, "formula");
    vram_json_unsigned(json, "parameters", memory->parameters);
    vram_json_unsigned(json, "active_parameters", memory->active_parameters);
    vram_json_unsigned(json, "model_bytes", memory->model_bytes);
    vram_json_unsigned(json, "kv_bytes", memory->kv_bytes);
    vram_json_unsigned(json, "activation_bytes", memory->activation_bytes);
    vram_json_unsigned(json, "total_bytes", memory->total_bytes);
    vram_json_text(json, "device", at < job->options.device_count ? job->labels[at] : NULL);
    vram_json_object_end(json);
}

bool estimate_write(const struct estimate_job *job) {
    char text[ESTIMATE_ASSUMPTION_MAX], verdict[ESTIMATE_VERDICT_MAX];
    vram_json json;
    output_json_begin(&json, "vram.estimate/1");
    vram_json_bool(&json, "fits", job->path ? job->estimate.fits : estimate_answer(job));
    vram_json_text(&json, "verdict", estimate_verdict(job, verdict));
    if (job->path != NULL) {
        write_model(&json, job);
        write_layout(&json, job);
        write_fit(&json, job);
    } else {
        write_shape(&json, job);
    }
    vram_json_array_begin(&json, "assumptions");
    for (size_t i = 0; estimate_assumption(job, i, text); i++) {
        vram_json_text(&json, NULL, text);
    }
    vram_json_array_end(&json);
    return output_json_end(&json);
}
