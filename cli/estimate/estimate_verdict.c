/* SPDX-License-Identifier: Apache-2.0 */
/*
 * estimate_verdict.c: what `vram estimate` says besides the numbers: the verdict, whether it is a
 * guess, warnings, and what was assumed.
 */
#include "estimate/estimate_job.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static const char *size_of(uint64_t bytes, char text[VRAM_SIZE_TEXT_MAX]) {
    return vram_size_format(bytes, text);
}

bool estimate_is_guess(const struct estimate_job *job) {
    return job->path != NULL && (!job->model.family_known || job->model.kv_guessed);
}

int estimate_exit(const struct estimate_job *job) {
    if (estimate_is_guess(job) && !job->guess_accepted) {
        return EXIT_MISUSE;
    }
    return estimate_answer(job) ? EXIT_YES : EXIT_NO;
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

static void model_verdict(const struct estimate_job *job, char text[ESTIMATE_VERDICT_MAX]) {
    char need[VRAM_SIZE_TEXT_MAX], have[VRAM_SIZE_TEXT_MAX];
    const char *label = "host";
    const vram_estimate_part *short_of;
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
        return;
    }
    snprintf(text, ESTIMATE_VERDICT_MAX, "does not fit: %s needs %s and has %s free", label,
             size_of(short_of->total_bytes, need), size_of(short_of->free_bytes, have));
    add_advice(job, text, ESTIMATE_VERDICT_MAX);
}

/* What is not known, and what was taken for it. */
static void guess_reason(const vram_model *model, char text[ESTIMATE_ASSUMPTION_MAX]) {
    if (!model->kv_guessed) { /* the language model is known, but not all that belongs to it */
        snprintf(text, ESTIMATE_ASSUMPTION_MAX,
                 "a part of \"%.40s\" is unknown; its weights are not all counted",
                 model->architecture);
        return;
    }
    snprintf(text, ESTIMATE_ASSUMPTION_MAX,
             "the family \"%.40s\" is unknown; its %s taken as those of a Llama with these "
             "dimensions",
             model->architecture,
             model->family_known ? "keys and values are" : "weights and KV cache are");
}

const char *estimate_verdict(const struct estimate_job *job, char text[ESTIMATE_VERDICT_MAX]) {
    char reason[ESTIMATE_ASSUMPTION_MAX], verdict[ESTIMATE_VERDICT_MAX], need[VRAM_SIZE_TEXT_MAX];
    if (job->path == NULL) {
        shape_verdict(job, text);
        return text;
    }
    if (!estimate_is_guess(job)) {
        model_verdict(job, text);
        return text;
    }
    guess_reason(&job->model, reason);
    if (job->guess_accepted) {
        model_verdict(job, verdict);
        snprintf(text, ESTIMATE_VERDICT_MAX, "guess: %.300s; %s", verdict, reason);
    } else {
        snprintf(text, ESTIMATE_VERDICT_MAX,
                 "cannot tell whether it fits: %s, %s in all; --guess accepts that", reason,
                 size_of(job->estimate.total_bytes, need));
    }
    return text;
}

/* ------------------------------------------------------------------- warnings */

/* Writes a warning or an assumption. False: it does not apply. */
typedef bool (*saying)(const struct estimate_job *job, char *text);

/* The one of that index among those that apply. */
static bool say_at(const struct estimate_job *job, const saying *sayings, size_t count,
                   size_t index, char *text) {
    for (size_t i = 0; i < count; i++) {
        if (sayings[i](job, text) && index-- == 0) {
            return true;
        }
    }
    return false;
}

static bool warn_context(const struct estimate_job *job, char *text) {
    uint64_t most = job->model.context_most;
    uint64_t each = job->estimate.context / job->estimate.sequences;
    snprintf(text, ESTIMATE_ASSUMPTION_MAX,
             "a sequence of %" PRIu64 " tokens is longer than the %" PRIu64
             " that the model was trained for; use -c %" PRIu64,
             each, most,
             most > UINT64_MAX / job->estimate.sequences ? most : most * job->estimate.sequences);
    return most > 0 && each > most;
}

static bool warn_values(const struct estimate_job *job, char *text) {
    const char *type = job->options.v_type;
    snprintf(text, ESTIMATE_ASSUMPTION_MAX,
             "llama.cpp stores values as %.16s only with flash attention; use -fa on",
             type ? type : "");
    return !job->flash && type != NULL && strchr("qQiI", type[0]) != NULL;
}

static bool warn_experts(const struct estimate_job *job, char *text) {
    snprintf(text, ESTIMATE_ASSUMPTION_MAX, "%s has no effect, because the model has no experts",
             job->options.host_expert_layers == UINT64_MAX ? "--cpu-moe" : "--n-cpu-moe");
    return job->options.host_expert_layers > 0 && job->model.experts == 0;
}

static bool warn_weights(const struct estimate_job *job, char *text) {
    snprintf(text, ESTIMATE_ASSUMPTION_MAX,
             "--weights has no effect, because the file says how its weights are stored");
    return job->weights_given && job->model.format != VRAM_MODEL_CONFIG;
}

/* The first of the ways to pack weights that the path names as a word of its own; NULL: none. */
static const char *packing_of_path(const char *path) {
    static const char *const names[] = {"nvfp4", "mxfp4", "mxfp8", "fp8",
                                        "awq",   "gptq",  "int4",  "int8"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t bytes = strlen(names[i]);
        for (const char *at = path; *at != 0; at++) {
            if (strncasecmp(at, names[i], bytes) == 0 && !isalnum((unsigned char)at[bytes]) &&
                (at == path || !isalnum((unsigned char)at[-1]))) {
                return names[i];
            }
        }
    }
    return NULL;
}

/* A config that does not say how its weights are stored, of a model whose name does. */
static bool warn_name(const struct estimate_job *job, char *text) {
    char folder[4096] = "";
    const char *packing = packing_of_path(job->path);
    if (packing == NULL && job->path[0] != '/' && getcwd(folder, sizeof folder) != NULL) {
        packing = packing_of_path(folder);
    }
    snprintf(text, ESTIMATE_ASSUMPTION_MAX,
             "the name says %s, but config.json names no quantization: counted as %s; put "
             "hf_quant_config.json beside it, or use --weights %s",
             packing != NULL ? packing : "", job->model.weight_type,
             packing != NULL ? packing : "");
    return packing != NULL && job->model.format == VRAM_MODEL_CONFIG && !job->weights_given &&
           strcmp(job->model.quantization, "none") == 0;
}

/* A quantization that leaves most bytes as they are: its modules may have names unknown here. */
static bool warn_plain(const struct estimate_job *job, char *text) {
    const vram_model *model = &job->model;
    snprintf(
        text, ESTIMATE_ASSUMPTION_MAX,
        "the quantization is %s, but by the modules that it names or leaves out most bytes stay "
        "%s; if the files are smaller, name the type with --weights",
        model->quantization, model->weight_type);
    return model->format == VRAM_MODEL_CONFIG && !job->weights_given &&
           strcmp(model->quantization, "none") != 0 &&
           (strcmp(model->weight_type, "bf16") == 0 || strcmp(model->weight_type, "f16") == 0 ||
            strcmp(model->weight_type, "f32") == 0);
}

bool estimate_warning(const struct estimate_job *job, size_t index,
                      char text[ESTIMATE_ASSUMPTION_MAX]) {
    static const saying warnings[] = {warn_context, warn_values, warn_experts,
                                      warn_weights, warn_name,   warn_plain};
    return job->path != NULL &&
           say_at(job, warnings, sizeof warnings / sizeof warnings[0], index, text);
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

/* Where the type of the weights is from. */
static const char *type_origin(const struct estimate_job *job) {
    return job->weights_given ? "as --weights says"
           : strstr(job->model.defaults, "torch_dtype") != NULL
               ? "because config.json names no type"
           : strcmp(job->model.quantization, "none") == 0
               ? "as config.json says, which names no quantization"
               : "as config.json says";
}

static bool weights_assumption(const struct estimate_job *job, char *text) {
    const vram_model *model = &job->model;
    if (model->missing_files > 0) {
        snprintf(text, ESTIMATE_ASSUMPTION_MAX,
                 "weights: the total_size of an index of %" PRIu64 " tensors; %" PRIu32
                 " of its %" PRIu32 " files were not read",
                 model->tensors, model->missing_files, model->files);
    } else if (model->format != VRAM_MODEL_CONFIG) {
        snprintf(text, ESTIMATE_ASSUMPTION_MAX,
                 "weights: the bytes of %" PRIu64 " tensors in %" PRIu32 " file%s", model->tensors,
                 model->files, model->files == 1 ? "" : "s");
    } else {
        snprintf(text, ESTIMATE_ASSUMPTION_MAX,
                 "weights: counted from config.json%s, stored as %s, %s",
                 model->family_known ? "" : " (a guess)", model->weight_type, type_origin(job));
    }
    return true;
}

static bool defaults_assumption(const struct estimate_job *job, char *text) {
    snprintf(text, ESTIMATE_ASSUMPTION_MAX,
             "filled in by default, as config.json leaves it out: %s", job->model.defaults);
    return job->model.defaults[0] != 0;
}

static bool cache_assumption(const struct estimate_job *job, char *text) {
    char token[VRAM_SIZE_TEXT_MAX];
    bool windows = false, states = false, latent = false;
    for (uint32_t i = 0; i < job->model.layer_count; i++) {
        const vram_model_layer *layer = &job->model.layers[i];
        windows = windows || layer->window > 0;
        states = states || layer->state_elements > 0;
        latent = latent || (layer->k_elements > 0 && layer->v_elements == 0);
    }
    snprintf(text, ESTIMATE_ASSUMPTION_MAX,
             "KV cache%s: %s a token, the whole context taken at once%s%s%s",
             job->model.kv_guessed ? " (a guess)" : "", size_of(job->estimate.token_bytes, token),
             !windows ? ""
             : job->options.swa_full
                 ? "; layers with a window store it, too (--swa-full)"
                 : "; layers with a window store the window and one micro-batch of each sequence",
             latent ? "; latent attention stores the latent vector only" : "",
             states ? "; states of recurrent layers in f32" : "");
    return true;
}

static bool input_assumption(const struct estimate_job *job, char *text) {
    bool copy = job->model.tied;
    for (uint32_t i = 0; i <= job->options.device_count; i++) {
        bool host = i == job->options.device_count;
        const vram_estimate_part *part = host ? &job->estimate.host : &job->estimate.devices[i];
        copy = copy && !(part->has_input && part->has_output);
    }
    snprintf(text, ESTIMATE_ASSUMPTION_MAX, "token embeddings lie %s%s",
             job->estimate.host.has_input ? "on the host" : "on the first device where they fit",
             copy ? ", and a second time with the output" : "");
    return true;
}

static bool compute_assumption(const struct estimate_job *job, char *text) {
    snprintf(text, ESTIMATE_ASSUMPTION_MAX,
             "compute: %" PRIu64 " tokens at once in numbers of %" PRIu64
             " bytes, attention scores %s, logits in f32 of %" PRIu64 " at once",
             job->estimate.micro_batch,
             job->options.activation_bytes ? job->options.activation_bytes : UINT64_C(4),
             job->flash ? "never complete in memory (flash attention)" : "complete in memory",
             job->options.outputs ? job->options.outputs : job->estimate.micro_batch);
    return true;
}

static bool overhead_assumption(const struct estimate_job *job, char *text) {
    char overhead[VRAM_SIZE_TEXT_MAX];
    snprintf(text, ESTIMATE_ASSUMPTION_MAX,
             "overhead: %s of each device for the runtime's context and kernels (--overhead)",
             size_of(job->options.device_count && job->devices[0].overhead_bytes.known
                         ? job->devices[0].overhead_bytes.value
                     : job->options.device_count ? VRAM_OVERHEAD_DEFAULT
                                                 : 0,
                     overhead));
    return true;
}

static bool split_assumption(const struct estimate_job *job, char *text) {
    snprintf(text, ESTIMATE_ASSUMPTION_MAX, "layers are split over the devices %s",
             job->split_given ? "by --tensor-split" : "in order: each is filled before the next");
    return job->options.device_count > 1;
}

static bool projector_assumption(const struct estimate_job *job, char *text) {
    snprintf(text, ESTIMATE_ASSUMPTION_MAX,
             "the projector's weights lie on the first device; memory for encoding an image is not "
             "counted");
    return job->model.projector_bytes > 0;
}

static bool free_assumption(const struct estimate_job *job, char *text) {
    snprintf(text, ESTIMATE_ASSUMPTION_MAX, "free: %s",
             job->free_guessed ? "four fifths of the memory if the driver does not report it"
             : job->labels[0][0] == 'm' ? "all of each --memory"
             : job->simulated           ? "as the simulated devices report it"
                                        : "as the drivers report it now");
    return true;
}

bool estimate_assumption(const struct estimate_job *job, size_t index,
                         char text[ESTIMATE_ASSUMPTION_MAX]) {
    static const saying assumptions[] = {
        weights_assumption,   defaults_assumption, cache_assumption,
        compute_assumption,   overhead_assumption, input_assumption,
        projector_assumption, split_assumption,    free_assumption};
    return job->path != NULL
               ? say_at(job, assumptions, sizeof assumptions / sizeof assumptions[0], index, text)
               : shape_assumption(index, text);
}
