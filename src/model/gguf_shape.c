/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gguf_shape.c: see gguf_shape.h. The rules are those of llama.cpp, build b11549: its files
 * src/models say which layers have a window, llama-hparams.cpp how large a state is, and
 * llama_model::create_memory which layers have a cache.
 *
 * An architecture that is not in the tables below has no windows and a cache in every layer: no
 * rule makes a cache larger than that, so a missing name never makes an estimate too small.
 */
#include "model/gguf_shape.h"

#include "model/sum.h"

#include <string.h>

#define PRODUCT(sum, ...)                                                                          \
    vr_sum_add(sum, sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t), (uint64_t[]){__VA_ARGS__})

static const char *const number_keys[VR_GGUF_NUMBERS] = {
#define VR_GGUF_KEY(name, key) [VR_GGUF_##name] = key,
    VR_GGUF_MAP(VR_GGUF_KEY)
#undef VR_GGUF_KEY
};

enum vr_gguf_number vr_gguf_number_find(const char *key) {
    uint32_t found = 0;
    while (found < VR_GGUF_NUMBERS && strcmp(number_keys[found], key) != 0) {
        found++;
    }
    return (enum vr_gguf_number)found;
}

void vr_gguf_shape_note(struct vr_gguf_shape *shape, enum vr_gguf_number key, uint64_t index,
                        struct vram_value value) {
    if (index >= VRAM_MODEL_LAYERS_MAX || !value.known || value.value > UINT32_MAX) {
        return;
    }
    uint32_t number = (uint32_t)value.value, count = (uint32_t)index + 1;
    switch (key) {
    case VR_GGUF_KV_HEADS:
        shape->kv_heads[index] = number;
        shape->kv_head_count = count;
        break;
    case VR_GGUF_WINDOW_PATTERN:
        shape->slides[index] = number != 0;
        shape->slide_count = count;
        break;
    case VR_GGUF_RECURRENT:
        shape->recurrent[index] = number != 0;
        shape->recurrent_count = count;
        break;
    case VR_GGUF_FEED_FORWARD:
        shape->feed_forward[index] = number;
        shape->feed_forward_count = count;
        break;
    case VR_GGUF_HEADS: /* the most of any layer */
        if (!shape->numbers[key].known || value.value > shape->numbers[key].value) {
            shape->numbers[key] = value;
        }
        break;
    default:
        break;
    }
}

/* --------------------------------------------------------------------- tables */

/* Whether `word` is in a list separated by blanks. */
static bool name_listed(const char *list, const char *word) {
    size_t bytes = strlen(word);
    for (const char *at = list; *at && bytes > 0;) {
        size_t one = strcspn(at, " ");
        if (one == bytes && memcmp(at, word, bytes) == 0) {
            return true;
        }
        at += one + (at[one] == ' ');
    }
    return false;
}

/* Of `every` layers the last is full, or the first; the others have a window. 0: every layer has
   one; 1: only those that the file's array names. */
struct window_rule {
    const char *names;
    uint32_t every;
    bool full_first;
    uint32_t window; /* if the file does not say; 0: then there is none */
};

/* All others have no windows, whatever the file says: Phi-3's is off in llama.cpp, Mistral's and
   Qwen's are not read. Llama 4 attends to chunks, which are cached like windows. */
static const struct window_rule window_rules[] = {
    {"gemma2", 2, false, 4096},
    {"gemma3", 6, false, 0},
    {"gemma3n", 5, false, 0},
    {"gpt-oss", 2, false, 0},
    {"llama4", 4, false, 8192},
    {"exaone4", 4, false, 4096},
    {"cohere2 exaone-moe afmoe mellum muse-glimmer olmo2", 4, false, 0},
    {"cohere2moe laguna smallthinker", 4, true, 0},
    {"plamo3", 8, false, 0},
    {"lfm2", 0, false, 0},
    {"gemma4 granite_swa maple mimo2 spark2_5 step35 dots3note", 1, false, 0},
};

/* Encoders and diffusion models, which look at all tokens at once. */
static const char no_cache[] =
    "bert modern-bert nomic-bert nomic-bert-moe neo-bert jina-bert-v2 jina-bert-v3 eurobert "
    "gemma-embedding gemma-embedding2 wavtokenizer-dec dream llada llada-moe rnd1 clef";

enum { GEMMA3N_CACHES = 20, FULL_EVERY_DEFAULT = 4 };

/* --------------------------------------------------------------------- layers */

static uint64_t number_get(const struct vr_gguf_shape *shape, enum vr_gguf_number key,
                           uint64_t other) {
    return shape->numbers[key].known ? shape->numbers[key].value : other;
}

static uint64_t kv_heads_of(const struct vr_gguf_shape *shape, uint32_t layer) {
    if (shape->kv_head_count) {
        return layer < shape->kv_head_count ? shape->kv_heads[layer] : 0;
    }
    return number_get(shape, VR_GGUF_KV_HEADS, number_get(shape, VR_GGUF_HEADS, 0));
}

/* Tokens that the layer looks back; 0: all. */
static uint64_t window_of(const struct vr_gguf_shape *shape, const struct vram_model *model,
                          uint32_t layer) {
    for (size_t i = 0; i < sizeof window_rules / sizeof window_rules[0]; i++) {
        const struct window_rule *rule = &window_rules[i];
        if (!name_listed(rule->names, model->architecture) ||
            (strcmp(rule->names, "exaone4") == 0 && model->layer_count != 64)) {
            continue;
        }
        uint64_t every = number_get(shape, VR_GGUF_WINDOW_PATTERN, rule->every);
        bool slides = every == 0 || layer % every != (rule->full_first ? 0 : every - 1);
        if (shape->slide_count) {
            slides = layer < shape->slide_count && shape->slides[layer];
        }
        return slides ? number_get(shape, VR_GGUF_WINDOW, rule->window) : 0;
    }
    return 0;
}

/* Layers without heads of keys have a state. In Nemotron-H those with a feed-forward block have
   neither; Qwen's hybrid models name the layers, or have one full layer in four. */
static bool is_recurrent(const struct vr_gguf_shape *shape, const struct vram_model *model,
                         uint32_t layer) {
    bool qwen = name_listed("qwen3next qwen35 qwen35moe qwen4exp", model->architecture);
    uint64_t every = number_get(shape, VR_GGUF_FULL_EVERY, qwen ? FULL_EVERY_DEFAULT : 0);
    if (shape->recurrent_count) {
        return layer < shape->recurrent_count && shape->recurrent[layer];
    }
    if (every) {
        return (layer + 1) % every != 0;
    }
    bool fed = layer < shape->feed_forward_count && shape->feed_forward[layer] > 0;
    return kv_heads_of(shape, layer) == 0 &&
           !(fed && name_listed("nemotron_h nemotron_h_moe", model->architecture));
}

/* Whether the layer has a cache or state of its own: layers for multi-token prediction do not, and
   the last layers of Gemma 3n and 4 use the caches of earlier ones. */
static bool has_memory(const struct vr_gguf_shape *shape, const struct vram_model *model,
                       uint32_t layer) {
    uint64_t extra = number_get(shape, VR_GGUF_EXTRA_LAYERS, 0);
    uint64_t shared = number_get(shape, VR_GGUF_SHARED_CACHES, 0);
    if (name_listed("gemma3n", model->architecture)) {
        return layer < GEMMA3N_CACHES;
    }
    uint64_t without = extra > shared ? extra : shared;
    return (without >= model->layer_count || layer < model->layer_count - without) &&
           !name_listed(no_cache, model->architecture);
}

/* Elements of the state of a sequence: RWKV's, of short convolutions, of Kimi's delta attention, or
   Mamba's. */
static struct vr_sum state_of(const struct vr_gguf_shape *shape, const struct vram_model *model) {
    struct vr_sum state = vr_sum_of(0);
    uint64_t kernel = number_get(shape, VR_GGUF_SSM_KERNEL, 0), before = kernel ? kernel - 1 : 0;
    uint64_t wkv = number_get(shape, VR_GGUF_WKV_HEAD, 0);
    uint64_t kda = number_get(shape, VR_GGUF_KDA_HEAD, 0);
    uint64_t short_kernel = number_get(shape, VR_GGUF_SHORT_KERNEL, 0);
    uint64_t inner = number_get(shape, VR_GGUF_SSM_INNER, 0);
    uint64_t states = number_get(shape, VR_GGUF_SSM_STATE, 0);
    if (wkv) {
        PRODUCT(&state, model->hidden, wkv);
        PRODUCT(&state, model->hidden, number_get(shape, VR_GGUF_TOKEN_SHIFTS, 2));
    } else if (short_kernel) {
        PRODUCT(&state, model->hidden, short_kernel - 1);
    } else if (kda) {
        PRODUCT(&state, 3, kernel ? before : 3, model->heads, kda);
        PRODUCT(&state, kda, kda, model->heads);
    } else {
        PRODUCT(&state, inner, states);
        PRODUCT(&state, before, inner);
        PRODUCT(&state, before, 2, number_get(shape, VR_GGUF_SSM_GROUPS, 0), states);
    }
    return state;
}

/* Keys and values of a token. Latent attention caches the latent vector, which has both; DeepSeek's
   and GLM's sparse attention the keys of its indexer, too. */
static void add_cache(const struct vr_gguf_shape *shape, const struct vram_model *model,
                      uint32_t layer, bool slides, struct vr_sum *k, struct vr_sum *v) {
    uint64_t heads = kv_heads_of(shape, layer);
    uint64_t key = number_get(shape, VR_GGUF_KEY, model->head_elements);
    uint64_t value = number_get(shape, VR_GGUF_VALUE, model->head_elements);
    if (shape->numbers[VR_GGUF_KV_RANK].known && heads == 1) {
        PRODUCT(k, number_get(shape, VR_GGUF_KV_RANK, 0));
        PRODUCT(k, number_get(shape, VR_GGUF_ROPE, 0));
    } else {
        PRODUCT(k, heads, slides ? number_get(shape, VR_GGUF_WINDOW_KEY, key) : key);
        PRODUCT(v, heads, slides ? number_get(shape, VR_GGUF_WINDOW_VALUE, value) : value);
    }
    if (name_listed("glm-dsa deepseek32", model->architecture)) {
        PRODUCT(k, number_get(shape, VR_GGUF_INDEXER_KEY, 0));
    }
}

/* False: not within 32 bits. */
static bool set_layer(const struct vr_gguf_shape *shape, struct vram_model *model, uint32_t index) {
    struct vram_model_layer *layer = &model->layers[index];
    struct vr_sum k = vr_sum_of(0), v = vr_sum_of(0), state = vr_sum_of(0);
    bool both = strcmp(model->architecture, "falcon-h1") == 0;
    bool recurrent = is_recurrent(shape, model, index);
    uint64_t window = 0;
    if (has_memory(shape, model, index)) {
        if (recurrent || both) {
            state = state_of(shape, model);
        }
        if (!recurrent) {
            window = window_of(shape, model, index);
            add_cache(shape, model, index, window > 0, &k, &v);
        }
    }
    layer->k_elements = (uint32_t)k.value;
    layer->v_elements = (uint32_t)v.value;
    layer->state_elements = (uint32_t)state.value;
    layer->window = (uint32_t)window; /* below 2^32, as every number of the file */
    /* Keys and values are a product of two 32-bit numbers, and one such number at most: no
       overflow. */
    return !state.overflow && k.value <= UINT32_MAX && v.value <= UINT32_MAX &&
           state.value <= UINT32_MAX;
}

static vram_status set_layers(const struct vr_gguf_shape *shape, const struct vr_source *source,
                              struct vram_model *model) {
    uint64_t layers = number_get(shape, VR_GGUF_LAYERS, 0);
    uint64_t heads = number_get(shape, VR_GGUF_HEADS, 0);
    if (layers == 0) {
        return vr_source_bad(source, VRAM_ERR_INVALID,
                             "the file has no block_count: it does not contain a language model");
    }
    if (layers > VRAM_MODEL_LAYERS_MAX) {
        return vr_source_bad(source, VRAM_ERR_UNSUPPORTED,
                             "the model has %llu layers; at most %d are supported",
                             (unsigned long long)layers, VRAM_MODEL_LAYERS_MAX);
    }
    model->layer_count = (uint32_t)layers;
    model->heads = heads;
    model->kv_heads = kv_heads_of(shape, 0);
    model->head_elements = number_get(shape, VR_GGUF_KEY, heads ? model->hidden / heads : 0);
    model->kv_known = heads > 0 || shape->kv_head_count > 0 ||
                      shape->numbers[VR_GGUF_SSM_STATE].known ||
                      shape->numbers[VR_GGUF_WKV_HEAD].known;
    for (uint32_t i = 0; i < model->layer_count; i++) {
        if (!set_layer(shape, model, i)) {
            return vr_source_bad(source, VRAM_ERR_CORRUPT,
                                 "layer %u would store more than 2^32 numbers", i);
        }
    }
    return VRAM_OK;
}

vram_status vr_gguf_shape_apply(const struct vr_gguf_shape *shape, const struct vr_source *source,
                                struct vram_model *model) {
    uint64_t widest = 0;
    for (uint32_t i = 0; i < VR_GGUF_NUMBERS; i++) {
        if (shape->numbers[i].known && shape->numbers[i].value > UINT32_MAX) {
            return vr_source_bad(source, VRAM_ERR_CORRUPT, "%s is %llu, more than any model has",
                                 number_keys[i], (unsigned long long)shape->numbers[i].value);
        }
    }
    for (uint32_t i = 0; i < shape->feed_forward_count; i++) {
        widest = shape->feed_forward[i] > widest ? shape->feed_forward[i] : widest;
    }
    model->hidden = number_get(shape, VR_GGUF_HIDDEN, 0);
    model->context_most = number_get(shape, VR_GGUF_CONTEXT, 0);
    model->vocabulary = number_get(shape, VR_GGUF_VOCABULARY, shape->tokens);
    model->experts = number_get(shape, VR_GGUF_EXPERTS, 0);
    model->experts_used = number_get(shape, VR_GGUF_EXPERTS_USED, model->experts);
    if (model->experts_used > model->experts) {
        return vr_source_bad(
            source, VRAM_ERR_CORRUPT, "the file says that %llu of %llu experts are used",
            (unsigned long long)model->experts_used, (unsigned long long)model->experts);
    }
    uint64_t dense = number_get(shape, VR_GGUF_FEED_FORWARD, widest);
    uint64_t experts = number_get(shape, VR_GGUF_EXPERT_FEED_FORWARD, dense) * model->experts_used;
    model->intermediate = dense > experts ? dense : experts;
    return set_layers(shape, source, model);
}
