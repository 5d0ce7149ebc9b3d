/* SPDX-License-Identifier: Apache-2.0 */
/*
 * estimate.c: `vram estimate`: will a model fit, where, and with how much context. The flags that
 * say how it is run are spelled as llama.cpp spells them.
 */
#include "estimate/estimate_job.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ------------------------------------------------------------------ --params */

/* Both the document's names and the short ones. */
static const struct {
    const char *names;
    size_t field;
} params[] = {
    {"hidden hidden_size", offsetof(vram_inference_shape, hidden)},
    {"intermediate intermediate_size", offsetof(vram_inference_shape, intermediate)},
    {"layers", offsetof(vram_inference_shape, layers)},
    {"vocab vocabulary", offsetof(vram_inference_shape, vocabulary)},
    {"heads", offsetof(vram_inference_shape, heads)},
    {"kv_heads", offsetof(vram_inference_shape, kv_heads)},
    {"tokens seq", offsetof(vram_inference_shape, tokens)},
    {"bytes", offsetof(vram_inference_shape, element_bytes)},
    {"experts", offsetof(vram_inference_shape, experts)},
    {"shared_experts", offsetof(vram_inference_shape, shared_experts)},
    {"top_k experts_used", offsetof(vram_inference_shape, experts_used)},
    {"expert_intermediate", offsetof(vram_inference_shape, expert_intermediate)},
    {"first_expert_layer", offsetof(vram_inference_shape, first_expert_layer)},
};

enum { PARAM_COUNT = sizeof params / sizeof params[0] };

static bool name_in(const char *list, const char *name, size_t bytes) {
    for (const char *at = list; *at != 0;) {
        size_t one = strcspn(at, " ");
        if (one == bytes && memcmp(at, name, bytes) == 0) {
            return true;
        }
        at += one + (at[one] == ' ');
    }
    return false;
}

/* Digits up to `end` and nothing else; *large: they are a number, but none of 64 bits. */
static bool read_number(const char *digits, const char *end, uint64_t *number, bool *large) {
    char *stop = NULL;
    errno = 0;
    *number = strtoull(digits, &stop, 10);
    bool whole = digits[0] >= '0' && digits[0] <= '9' && stop == end;
    *large = whole && errno == ERANGE;
    return whole && !*large;
}

/* "hidden=4096", up to `bytes`. */
static bool read_param(vram_inference_shape *shape, const char *text, size_t bytes) {
    size_t name = strcspn(text, "=");
    bool large = false;
    for (size_t i = 0; i < PARAM_COUNT && name < bytes; i++) {
        if (name_in(params[i].names, text, name)) {
            uint64_t number;
            if (!read_number(text + name + 1, text + bytes, &number, &large)) {
                break;
            }
            memcpy((char *)shape + params[i].field, &number, sizeof number);
            return true;
        }
    }
    if (large) {
        say_error("--params: %.*s does not fit in 64 bits", (int)(bytes < 60 ? bytes : 60), text);
        return false;
    }
    say_error(
        "--params: \"%.*s\" is not NAME=NUMBER; names are hidden, intermediate, layers, vocab, "
        "heads, kv_heads, tokens, bytes, and for experts experts, shared_experts, top_k, "
        "expert_intermediate, first_expert_layer",
        (int)(bytes < 60 ? bytes : 60), text);
    return false;
}

static int read_params(struct estimate_job *job, const char *text) {
    job->shape = (vram_inference_shape){.size = sizeof job->shape, .element_bytes = 2};
    job->shape_memory.size = sizeof job->shape_memory;
    while (*text != 0) {
        size_t bytes = strcspn(text, ",");
        if (!read_param(&job->shape, text, bytes)) {
            return EXIT_MISUSE;
        }
        text += bytes + (text[bytes] == ',');
    }
    vram_status status = vram_inference_estimate(&job->shape, &job->shape_memory);
    return status == VRAM_OK ? EXIT_YES : say_failure("--params", status);
}

/* ------------------------------------------------------------------- options */

/* A number of tokens: 131072, 128k, 1M. As llama.cpp has it, 0 is the model's own; not given is the
   library's default. */
static bool read_context(const struct invocation *invocation, struct estimate_job *job) {
    const char *text = flag_value(invocation, "ctx-size");
    if (text == NULL) {
        return true;
    }
    char *end = NULL;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    bool good = text[0] >= '0' && text[0] <= '9' && errno == 0 && number <= UINT32_MAX;
    bool kilo = *end == 'k' || *end == 'K', mega = *end == 'm' || *end == 'M';
    number *= kilo ? 1024 : mega ? 1024 * 1024 : 1;
    good = good && end[kilo || mega] == 0 && number <= UINT32_MAX;
    if (!good) {
        say_error("--ctx-size=%s: not a number of tokens from 0 to %u, as 131072, 128k or 1M", text,
                  UINT32_MAX);
        return false;
    }
    job->options.context = number == 0 ? VRAM_CONTEXT_MOST : number;
    return true;
}

/* A number, "all", or a negative number, which is all in llama.cpp, too. */
static bool read_layers(const struct invocation *invocation, struct estimate_job *job) {
    const char *text = flag_value(invocation, "gpu-layers");
    uint64_t layers = 0;
    if (text == NULL || strcmp(text, "all") == 0 || strcmp(text, "auto") == 0 ||
        strcmp(text, "-1") == 0 || strcmp(text, "-2") == 0) {
        return true;
    }
    char *end = NULL;
    errno = 0;
    layers = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != 0 || errno != 0) {
        say_error("--gpu-layers=%s: not a number of layers from 0 on, or all", text);
        return false;
    }
    job->options.layers = (vram_value){layers, true};
    return true;
}

static bool read_experts(const struct invocation *invocation, struct estimate_job *job) {
    if (flag_given(invocation, "cpu-moe")) {
        job->options.host_expert_layers = UINT64_MAX;
        return true;
    }
    return flag_number(invocation, "n-cpu-moe", 0, UINT32_MAX, &job->options.host_expert_layers);
}

/* "3,1": a share for each device, in their order; devices without one get none. */
static bool read_split(const struct invocation *invocation, struct estimate_job *job) {
    const char *text = flag_value(invocation, "tensor-split"), *at = text;
    double sum = 0;
    uint32_t count = 0;
    if (text == NULL) {
        return true;
    }
    for (;; at++) {
        char *end = NULL;
        double share = strtod(at, &end);
        bool good = ((at[0] >= '0' && at[0] <= '9') || at[0] == '.') && share <= 1e9;
        if (!good || (*end != 0 && *end != ',' && *end != '/')) {
            say_error("--tensor-split=%s: not a list of numbers from 0 on, as 3,1", text);
            return false;
        }
        if (count >= job->options.device_count) {
            say_error("--tensor-split=%s: there are more shares than devices, which are %" PRIu32
                      "; add one with --memory, or leave out a share",
                      text, job->options.device_count);
            return false;
        }
        job->devices[count++].share = share;
        sum += share;
        if (*(at = end) == 0) {
            break;
        }
    }
    job->split_given = sum > 0; /* llama.cpp takes only zeros for no split */
    return true;
}

static bool read_options(const struct invocation *invocation, struct estimate_job *job) {
    const char *flash = flag_value(invocation, "flash-attn");
    vram_estimate_options *options = &job->options;
    options->size = sizeof *options;
    options->k_type = flag_value(invocation, "cache-type-k");
    options->v_type = flag_value(invocation, "cache-type-v");
    job->flash = flash == NULL || (strcmp(flash, "off") != 0 && strcmp(flash, "0") != 0);
    options->no_flash_attention = !job->flash;
    job->fit_wanted = flag_given(invocation, "fit");
    job->guess_accepted = flag_given(invocation, "guess");
    options->swa_full = flag_given(invocation, "swa-full");
    job->batch = 2048;
    options->devices = job->devices;
    return read_context(invocation, job) && read_layers(invocation, job) &&
           read_experts(invocation, job) &&
           flag_number(invocation, "parallel", 1, UINT32_MAX, &options->sequences) &&
           flag_number(invocation, "batch-size", 1, UINT32_MAX, &job->batch) &&
           flag_number(invocation, "ubatch-size", 1, UINT32_MAX, &options->micro_batch) &&
           flag_number(invocation, "outputs", 1, UINT32_MAX, &options->outputs) &&
           flag_number(invocation, "activation-bytes", 1, 8, &options->activation_bytes);
}

/* ------------------------------------------------------------------------ run */

static int lay_out(struct estimate_job *job) {
    job->estimate.size = sizeof job->estimate;
    job->fit.size = sizeof job->fit;
    /* No micro-batch is larger than the batch it is a part of. */
    if (job->options.micro_batch == 0 ? job->batch < 512 : job->batch < job->options.micro_batch) {
        job->options.micro_batch = job->batch;
    }
    vram_status status = vram_estimate_get(&job->model, &job->options, &job->estimate);
    if (status == VRAM_OK && (job->fit_wanted || !job->estimate.fits)) {
        status = vram_fit_get(&job->model, &job->options, &job->fit);
        job->fit_known = status == VRAM_OK;
    }
    return status == VRAM_OK ? EXIT_YES : say_failure("cannot estimate", status);
}

/* "organisation/model", as hubs of models have it, where there is no such file. */
static bool is_repository(const char *path) {
    const char *slash = strchr(path, '/');
    const char *safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    return slash != NULL && path[0] != '.' && slash != path && slash[1] != 0 &&
           strspn(path, safe) == (size_t)(slash - path) &&
           slash[1 + strspn(slash + 1, safe)] == 0 && access(path, F_OK) != 0 &&
           strstr(slash, ".gguf") == NULL && strstr(slash, ".safetensors") == NULL &&
           strstr(slash, ".json") == NULL;
}

static int read_model(const struct invocation *invocation, struct estimate_job *job) {
    vram_model_read_options options = {.size = sizeof options,
                                       .weight_type = flag_value(invocation, "weights"),
                                       .projector = flag_value(invocation, "mmproj")};
    job->weights_given = options.weight_type != NULL;
    job->model.size = sizeof job->model;
    vram_status status = vram_model_read(job->path, &options, &job->model);
    if (status == VRAM_ERR_IO && is_repository(job->path)) {
        const char *name = strchr(job->path, '/') + 1;
        say_error(
            "%s: there is no such file. If it is a model's name, fetch its description first: "
            "`hf download %s config.json --local-dir %s`, then `vram estimate %s`",
            job->path, job->path, name, name);
        return EXIT_MISUSE;
    }
    return status == VRAM_OK ? EXIT_YES : say_failure("cannot read the model", status);
}

static int answer(const struct invocation *invocation, struct estimate_job *job) {
    const char *given = flag_value(invocation, "params");
    int code = job->path != NULL ? read_model(invocation, job) : read_params(job, given);
    if (code == EXIT_YES && !read_options(invocation, job)) {
        code = EXIT_MISUSE;
    }
    if (code == EXIT_YES) {
        code = estimate_devices_find(invocation, job);
    }
    if (code == EXIT_YES && !read_split(invocation, job)) {
        code = EXIT_MISUSE;
    }
    if (code == EXIT_YES && job->path != NULL) {
        code = lay_out(job);
    }
    if (code != EXIT_YES) {
        return code;
    }
    if (!invocation->json) {
        estimate_print(&invocation->terminal, job);
    } else if (!estimate_write(job)) {
        return EXIT_MISUSE;
    }
    if (estimate_exit(job) == EXIT_MISUSE) {
        char verdict[ESTIMATE_VERDICT_MAX];
        say_error("%s", estimate_verdict(job, verdict));
    }
    return estimate_exit(job);
}

static int run(struct invocation *invocation) {
    bool shaped = flag_given(invocation, "params");
    if (invocation->operand_count != (shaped ? 0 : 1)) {
        say_error(shaped ? "`vram estimate --params` takes no model"
                         : "`vram estimate` needs one model: a .gguf or .safetensors file, a "
                           "config.json or a folder with one; or --params");
        return EXIT_MISUSE;
    }
    struct estimate_job *job = calloc(1, sizeof *job);
    if (job == NULL) {
        return say_failure("cannot start", VRAM_ERR_HOST_MEMORY);
    }
    job->path = shaped ? NULL : invocation->operands[0];
    int code = answer(invocation, job);
    free(job);
    return code;
}

#define CACHE_HINTS "f32 f16 bf16 q8_0 q5_1 q5_0 q4_1 q4_0 iq4_nl"

static const struct flag flags[] = {
    {.name = "ctx-size",
     .letter = 'c',
     .value = "N",
     .help = "tokens of context, also as 128k; 4096 if not given; 0: as many as the model was "
             "trained for"},
    {.name = "gpu-layers",
     .value = "N",
     .also = "ngl -n-gpu-layers",
     .help = "layers on devices, also -ngl: the output first, then from the last layer on; all if "
             "not given",
     .hints = "all"},
    {.name = "cache-type-k",
     .value = "TYPE",
     .also = "ctk",
     .help = "type of cached keys, also -ctk; f16 if not given",
     .hints = CACHE_HINTS},
    {.name = "cache-type-v",
     .value = "TYPE",
     .also = "ctv",
     .help = "type of cached values, also -ctv; f16 if not given",
     .hints = CACHE_HINTS},
    {.name = "batch-size",
     .letter = 'b',
     .value = "N",
     .help = "most tokens of one call, 2048 if not given"},
    {.name = "ubatch-size",
     .value = "N",
     .also = "ub",
     .help = "tokens computed at once, also -ub; 512 if not given"},
    {.name = "parallel",
     .value = "N",
     .also = "np",
     .help = "sequences that share the context, also -np; 1 if not given"},
    {.name = "flash-attn",
     .value = "WHEN",
     .also = "fa",
     .help = "flash attention, also -fa; on if not given",
     .choices = "on off auto 0 1"},
    {.name = "swa-full", .help = "layers with a window cache the whole context"},
    {.name = "tensor-split",
     .value = "LIST",
     .also = "ts",
     .help = "share of the layers for each device, also -ts: 3,1; filled in order if not given"},
    {.name = "n-cpu-moe",
     .value = "N",
     .also = "ncmoe",
     .help = "experts of the first N layers stay on the host, also -ncmoe"},
    {.name = "cpu-moe", .also = "cmoe", .help = "all experts stay on the host, also -cmoe"},
    {.name = "mmproj",
     .value = "FILE",
     .also = "mm",
     .help = "projector of the model, also -mm: its weights are added on the first device"},
    {.name = "guess", .help = "answer although the model's family is unknown, as if it were Llama"},
    {.name = "fit",
     .letter = 'f',
     .help = "find the largest context and the most layers; exit with 0 if some fit"},
    {.name = "memory",
     .letter = 'm',
     .value = "SIZE",
     .help = "a device with that much free memory instead of this machine's; may be repeated",
     .repeats = true},
    {.name = "overhead",
     .value = "SIZE",
     .help = "memory of each device for the runtime, 512M if not given"},
    {.name = "weights",
     .value = "TYPE",
     .help =
         "for config.json: weights are stored as TYPE, also Q4_K_M and the like, or fp8, nvfp4, "
         "mxfp4, int4, awq, whatever it says",
     .hints = "F32 BF16 F16 Q8_0 Q6_K Q5_K_M Q5_K_S Q4_K_M Q4_K_S Q4_0 Q3_K_L Q3_K_M Q3_K_S Q2_K "
              "IQ4_XS IQ4_NL IQ3_M IQ3_XXS IQ2_M IQ2_XXS MXFP4_MOE fp8 mxfp8 nvfp4 mxfp4 int4 int8 "
              "awq gptq"},
    {.name = "outputs",
     .value = "N",
     .help = "tokens whose logits are computed at once, a micro-batch if not given"},
    {.name = "activation-bytes", .value = "N", .help = "bytes of one activation, 4 if not given"},
    {.name = "params",
     .value = "LIST",
     .help = "no file: estimate from "
             "hidden=N,intermediate=N,layers=N,vocab=N,heads=N,kv_heads=N,tokens=N,bytes=N"},
    {.name = "backend",
     .value = "NAME",
     .help = "use only this backend, or several joined by commas",
     .hints = BACKEND_HINTS},
    FLAG_DEVICE,
    FLAG_END,
};

const struct verb verb_estimate = {
    .name = "estimate",
    .summary = "Check whether a model fits: weights, cache and buffers against free memory",
    .usage = "MODEL|--params=LIST [OPTION]...",
    .examples = "vram estimate model.gguf -c 32768         # on this machine's devices\n"
                "vram estimate model.gguf -c 32768 -m 24G  # on a GPU that is not here\n"
                "vram estimate folder/ -m 80G -m 80G -np 8 # two GPUs, eight sequences\n"
                "vram estimate model.gguf -m 12G --fit     # how much context, how many layers\n"
                "vram estimate config.json --weights Q4_K_M -m 16G -ctk q8_0 -ctv q8_0\n",
    .flags = flags,
    .run = run,
    .operands = OPERANDS_FILES,
};
