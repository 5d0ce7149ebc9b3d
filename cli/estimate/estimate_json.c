/* SPDX-License-Identifier: Apache-2.0 */
/*
 * estimate_json.c: an estimate for programs; docs/schema/vram.estimate-1.schema.json describes it.
 */
#include "estimate/estimate_job.h"

static const char *format_name(vram_model_format format) {
    static const char *const names[] = {"", "gguf", "safetensors", "config"};
    return names[format];
}

static void write_model(struct json_out *json, const struct estimate_job *job) {
    const vram_model *model = &job->model;
    json_object_begin(json, "model");
    json_text(json, "path", job->path);
    json_text(json, "format", format_name(model->format));
    json_text(json, "name", model->name);
    json_text(json, "architecture", model->architecture);
    json_text(json, "weight_type", model->weight_type);
    json_text(json, "quantization", model->quantization);
    json_bool(json, "family_known", model->family_known);
    json_bool(json, "kv_guessed", model->kv_guessed);
    json_bool(json, "tied", model->tied);
    json_unsigned(json, "files", model->files);
    json_unsigned(json, "missing_files", model->missing_files);
    json_unsigned(json, "tensors", model->tensors);
    json_unsigned(json, "layers", model->layer_count);
    json_unsigned(json, "parameters", model->parameters);
    json_unsigned(json, "active_parameters", model->active_parameters);
    json_unsigned(json, "tower_parameters", model->tower_parameters);
    json_unsigned(json, "weight_bytes", model->weight_bytes);
    json_unsigned(json, "input_bytes", model->input_bytes);
    json_unsigned(json, "output_bytes", model->output_bytes);
    json_unsigned(json, "other_bytes", model->other_bytes);
    json_unsigned(json, "projector_bytes", model->projector_bytes);
    json_value(json, "context_most", (vram_value){model->context_most, model->context_most > 0});
    json_object_end(json);
}

static void write_part(struct json_out *json, const char *key, const char *device, const char *name,
                       const vram_estimate_part *part, bool free_known) {
    json_object_begin(json, key);
    json_text(json, "device", device);
    json_text(json, "name", name);
    json_unsigned(json, "first_layer", part->first_layer);
    json_unsigned(json, "layers", part->layers);
    json_unsigned(json, "expert_layers", part->expert_layers);
    json_bool(json, "input", part->has_input);
    json_bool(json, "output", part->has_output);
    json_unsigned(json, "weight_bytes", part->weight_bytes);
    json_unsigned(json, "kv_bytes", part->kv_bytes);
    json_unsigned(json, "compute_bytes", part->compute_bytes);
    json_unsigned(json, "overhead_bytes", part->overhead_bytes);
    json_unsigned(json, "total_bytes", part->total_bytes);
    json_value(json, "free_bytes", (vram_value){part->free_bytes, free_known});
    json_bool(json, "fits", part->fits);
    json_object_end(json);
}

static void write_layout(struct json_out *json, const struct estimate_job *job) {
    const vram_estimate *estimate = &job->estimate;
    json_object_begin(json, "run");
    json_unsigned(json, "context", estimate->context);
    json_unsigned(json, "sequences", estimate->sequences);
    json_unsigned(json, "batch", job->batch);
    json_unsigned(json, "micro_batch", estimate->micro_batch);
    json_text(json, "k_type", job->options.k_type ? job->options.k_type : "f16");
    json_text(json, "v_type", job->options.v_type ? job->options.v_type : "f16");
    json_bool(json, "flash_attention", job->flash);
    json_bool(json, "swa_full", job->options.swa_full);
    json_unsigned(json, "layers_on_devices", estimate->layers_on_devices);
    json_unsigned(json, "expert_layers_on_host", estimate->host.expert_layers);
    json_array_begin(json, "tensor_split");
    for (uint32_t i = 0; i < job->options.device_count && job->split_given; i++) {
        json_number(json, NULL, job->devices[i].share);
    }
    json_array_end(json);
    json_object_end(json);
    json_array_begin(json, "devices");
    for (uint32_t i = 0; i < job->options.device_count; i++) {
        write_part(json, NULL, job->labels[i], job->names[i], &estimate->devices[i], true);
    }
    json_array_end(json);
    write_part(json, "host", "host", "", &estimate->host, job->options.host_free_bytes.known);
    json_object_begin(json, "total");
    json_unsigned(json, "weight_bytes", estimate->weight_bytes);
    json_unsigned(json, "kv_bytes", estimate->kv_bytes);
    json_unsigned(json, "compute_bytes", estimate->compute_bytes);
    json_unsigned(json, "overhead_bytes", estimate->overhead_bytes);
    json_unsigned(json, "total_bytes", estimate->total_bytes);
    json_unsigned(json, "token_bytes", estimate->token_bytes);
    json_object_end(json);
}

/* null where it was not solved. */
static void write_fit(struct json_out *json, const struct estimate_job *job) {
    if (!job->fit_known) {
        json_null(json, "fit");
        return;
    }
    json_object_begin(json, "fit");
    json_unsigned(json, "context", job->fit.context);
    json_value(json, "gpu_layers", job->fit.layers);
    json_object_end(json);
}

static void write_shape(struct json_out *json, const struct estimate_job *job) {
    const vram_inference_memory *memory = &job->shape_memory;
    uint32_t at = estimate_shape_place(job);
    json_object_begin(json, "formula");
    json_unsigned(json, "parameters", memory->parameters);
    json_unsigned(json, "active_parameters", memory->active_parameters);
    json_unsigned(json, "model_bytes", memory->model_bytes);
    json_unsigned(json, "kv_bytes", memory->kv_bytes);
    json_unsigned(json, "activation_bytes", memory->activation_bytes);
    json_unsigned(json, "total_bytes", memory->total_bytes);
    json_text(json, "device", at < job->options.device_count ? job->labels[at] : NULL);
    json_object_end(json);
}

bool estimate_write(const struct estimate_job *job) {
    char text[ESTIMATE_ASSUMPTION_MAX], verdict[ESTIMATE_VERDICT_MAX];
    struct json_out json;
    output_json_begin(&json, "vram.estimate/1");
    if (estimate_is_guess(job) && !job->guess_accepted) {
        json_null(&json, "fits");
    } else {
        json_bool(&json, "fits", job->path ? job->estimate.fits : estimate_answer(job));
    }
    json_bool(&json, "guess", estimate_is_guess(job));
    json_text(&json, "verdict", estimate_verdict(job, verdict));
    if (job->path != NULL) {
        write_model(&json, job);
        write_layout(&json, job);
        write_fit(&json, job);
    } else {
        write_shape(&json, job);
    }
    json_array_begin(&json, "warnings");
    for (size_t i = 0; estimate_warning(job, i, text); i++) {
        json_text(&json, NULL, text);
    }
    json_array_end(&json);
    json_array_begin(&json, "assumptions");
    for (size_t i = 0; estimate_assumption(job, i, text); i++) {
        json_text(&json, NULL, text);
    }
    json_array_end(&json);
    return output_json_end(&json);
}
