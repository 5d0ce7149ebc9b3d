/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config_blocks.c: the tensors of a layer's blocks, one by one, named as in the files of the
 * families that have them.
 */
#include "model/config_parts.h"

#include "base/text.h"

/* ------------------------------------------------------------------- tensors */

static void numbers_add(struct vr_part_sum *part, struct vr_number_sum *to, const char *module,
                        uint64_t count, uint64_t rows, uint64_t columns) {
    uint8_t scheme = VR_SCHEME_PLAIN;
    uint64_t bytes = 0;
    if (part->quantization && count && rows && columns) {
        scheme =
            vr_quantization_find(part->quantization, module, part->layer, to == &part->experts);
    }
    if (scheme == VR_SCHEME_PLAIN) {
        vr_sum_add(&to->plain, 3, (uint64_t[]){count, rows, columns});
        return;
    }
    bool fits = vr_scheme_bytes(&part->quantization->schemes[scheme], rows, columns, &bytes);
    to->packed_bytes.overflow = to->packed_bytes.overflow || !fits;
    vr_sum_add(&to->packed, 3, (uint64_t[]){count, rows, columns});
    vr_sum_add(&to->packed_bytes, 2, (uint64_t[]){count, bytes});
    vr_sum_add(&part->scheme_bytes[scheme], 2, (uint64_t[]){count, bytes});
}

void vr_matrix_add(struct vr_part_sum *part, const char *block, const char *name, uint64_t rows,
                   uint64_t columns) {
    char module[96];
    vr_text_format(module, sizeof module, "%s.%s", block, name);
    numbers_add(part, &part->numbers, module, 1, rows, columns);
}

void vr_experts_add(struct vr_part_sum *part, const char *block, const char *name, uint64_t count,
                    uint64_t rows, uint64_t columns) {
    char module[96];
    vr_text_format(module, sizeof module, "%s%sexperts.0.%s", block, block[0] ? "." : "", name);
    numbers_add(part, &part->experts, module, count, rows, columns);
}

static const char *mixer_name(const struct vr_block_count *count) {
    return count->family->attention ? count->family->attention : "self_attn";
}

static const char *feed_name(const struct vr_block_count *count) {
    return count->family->feed ? count->family->feed : "mlp";
}

static const char *experts_name(const struct vr_block_count *count) {
    return count->family->experts ? count->family->experts : feed_name(count);
}

static bool has_bit(const struct vr_block_count *count, uint32_t bit) {
    return (count->family->bits & bit) != 0;
}

/* Every matrix has a bias. */
static bool has_linear_bias(const struct vr_block_count *count) {
    return vr_config_get(count->text, VR_CONFIG_BIAS, has_bit(count, VR_FAMILY_LINEAR_BIAS)) != 0;
}

/* ----------------------------------------------------------------- attention */

static void heads_add(const struct vr_block_count *count, const char *block) {
    const struct vr_layer_plan *plan = &count->plan;
    struct vr_part_sum *part = count->part;
    uint64_t hidden = count->model->hidden, gate = has_bit(count, VR_FAMILY_GATED_QUERY) ? 2 : 1;
    uint64_t q = plan->heads * plan->head, out = plan->heads * plan->value_head;
    uint64_t k = plan->shares_cache ? 0 : plan->kv_heads * plan->head;
    uint64_t v =
        plan->shares_cache || plan->keys_are_values ? 0 : plan->kv_heads * plan->value_head;
    bool linear = has_linear_bias(count);
    bool bias = linear || vr_config_get(count->text, VR_CONFIG_ATTENTION_BIAS,
                                        has_bit(count, VR_FAMILY_QKV_BIAS));
    bool o_bias = linear || vr_config_get(count->text, VR_CONFIG_O_BIAS,
                                          bias && has_bit(count, VR_FAMILY_O_BIAS));
    bool normed =
        !has_bit(count, VR_FAMILY_NORM_TOLD) || vr_config_get(count->text, VR_CONFIG_HEAD_NORM, 0);
    uint64_t q_rank = vr_config_get(count->text, VR_CONFIG_Q_RANK, 0);
    vr_matrix_add(part, block, "q_proj", q_rank ? q_rank : q * gate, hidden);
    vr_matrix_add(part, block, "wq", q, q_rank);
    VR_NUMBERS_ADD(part, q_rank);
    vr_matrix_add(part, block, "k_proj", k, hidden);
    vr_matrix_add(part, block, "v_proj", v, hidden);
    vr_matrix_add(part, block, "o_proj", hidden, out);
    vr_matrix_add(part, block, "g_proj", has_bit(count, VR_FAMILY_HEAD_GATE) ? plan->heads : 0,
                  hidden);
    VR_NUMBERS_ADD(part, q * gate + k + v, bias);
    VR_NUMBERS_ADD(part, hidden, o_bias);
    VR_NUMBERS_ADD(part, plan->head, k ? 2 : 1, normed && has_bit(count, VR_FAMILY_HEAD_NORM));
    VR_NUMBERS_ADD(part, q + k, has_bit(count, VR_FAMILY_WIDE_NORM));
    VR_NUMBERS_ADD(part, plan->heads, plan->sinks);
    if (plan->indexed) {
        uint64_t index = vr_config_get(count->text, VR_CONFIG_INDEX_DIM, 0);
        vr_matrix_add(part, block, "index_q_proj",
                      vr_config_get(count->text, VR_CONFIG_INDEX_HEADS, 0) * index, hidden);
        vr_matrix_add(part, block, "index_k_proj", index, hidden);
        VR_NUMBERS_ADD(part, 2, index);
    }
}

/* An indexer chooses the tokens that attention looks at. */
static void indexer_add(const struct vr_block_count *count) {
    struct vr_part_sum *part = count->part;
    uint64_t hidden = count->model->hidden;
    uint64_t heads = vr_config_get(count->text, VR_CONFIG_INDEX_HEADS, 0);
    uint64_t head = vr_config_get(count->text, VR_CONFIG_INDEX_DIM, 0);
    vr_matrix_add(part, "self_attn.indexer", "wq_b", heads * head,
                  vr_config_get(count->text, VR_CONFIG_Q_RANK, hidden));
    vr_matrix_add(part, "self_attn.indexer", "wk", head, hidden);
    VR_NUMBERS_ADD(part, heads, hidden);
    VR_NUMBERS_ADD(part, 2, head);
}

static void latent_add(const struct vr_block_count *count) {
    const struct vr_config_part *text = count->text;
    struct vr_part_sum *part = count->part;
    const char *block = mixer_name(count);
    uint64_t hidden = count->model->hidden, heads = count->model->heads;
    uint64_t nope = vr_config_get(text, VR_CONFIG_NOPE_DIM, 0);
    uint64_t rope = vr_config_get(text, VR_CONFIG_ROPE_DIM, 0);
    uint64_t value = vr_config_get(text, VR_CONFIG_V_DIM, nope);
    uint64_t q_rank = vr_config_get(text, VR_CONFIG_Q_RANK, 0);
    uint64_t kv_rank = vr_config_get(text, VR_CONFIG_KV_RANK, 0);
    bool bias = vr_config_get(text, VR_CONFIG_ATTENTION_BIAS, 0);
    if (q_rank) {
        vr_matrix_add(part, block, "q_a_proj", q_rank, hidden);
        vr_matrix_add(part, block, "q_b_proj", heads * (nope + rope), q_rank);
        VR_NUMBERS_ADD(part, q_rank, bias ? 2 : 1); /* its norm */
    } else {
        vr_matrix_add(part, block, "q_proj", heads * (nope + rope), hidden);
    }
    vr_matrix_add(part, block, "kv_a_proj_with_mqa", kv_rank + rope, hidden);
    VR_NUMBERS_ADD(part, kv_rank);
    vr_matrix_add(part, block, "kv_b_proj", heads * (nope + value), kv_rank);
    vr_matrix_add(part, block, "o_proj", hidden, heads * value);
    VR_NUMBERS_ADD(part, kv_rank + rope + hidden, bias);
    if (vr_config_get(text, VR_CONFIG_OUTPUT_GATE, 0)) {
        vr_matrix_add(part, block, "g_proj", heads * value, hidden);
    }
    indexer_add(count);
}

/* Several tokens are compressed into one: into the weighted sum of their vectors, each of which has
   a weight for every channel. */
static void compressor_add(const struct vr_block_count *count, const char *block, uint64_t head,
                           uint64_t sums) {
    struct vr_part_sum *part = count->part;
    vr_matrix_add(part, block, "kv_proj", sums * head, count->model->hidden);
    vr_matrix_add(part, block, "gate_proj", sums * head, count->model->hidden);
    VR_NUMBERS_ADD(part, count->plan.ratio, sums, head);
    VR_NUMBERS_ADD(part, head);
}

static void compressed_add(const struct vr_block_count *count) {
    const struct vr_config_part *text = count->text;
    const struct vr_layer_plan *plan = &count->plan;
    struct vr_part_sum *part = count->part;
    const char *block = mixer_name(count);
    uint64_t hidden = count->model->hidden, q = plan->heads * plan->head;
    uint64_t q_rank = vr_config_get(text, VR_CONFIG_Q_RANK, 0);
    uint64_t groups = vr_config_get(text, VR_CONFIG_O_GROUPS, 1);
    uint64_t out = groups * vr_config_get(text, VR_CONFIG_O_RANK, 0);
    uint64_t index_heads = vr_config_get(text, VR_CONFIG_INDEX_HEADS, 0);
    uint64_t index_head = vr_config_get(text, VR_CONFIG_INDEX_DIM, 0);
    vr_matrix_add(part, block, "q_a_proj", q_rank, hidden);
    vr_matrix_add(part, block, "q_b_proj", q, q_rank);
    vr_matrix_add(part, block, "kv_proj", plan->head, hidden);
    vr_matrix_add(part, block, "o_a_proj", out, groups ? q / groups : 0);
    vr_matrix_add(part, block, "o_b_proj", hidden, out);
    VR_NUMBERS_ADD(part, q_rank);
    VR_NUMBERS_ADD(part, plan->head);
    VR_NUMBERS_ADD(part, plan->heads, plan->sinks);
    if (plan->ratio > 0) {
        compressor_add(count, "self_attn.compressor", plan->head, plan->indexed ? 2 : 1);
    }
    if (plan->indexed) {
        compressor_add(count, "self_attn.indexer.compressor", index_head, 2);
        vr_matrix_add(part, "self_attn.indexer", "q_b_proj", index_heads * index_head, q_rank);
        VR_NUMBERS_ADD(part, index_heads, hidden);
    }
}

/* --------------------------------------------------------- mixers with a state */

/* The dimensions of a mixer that keeps a state. */
struct state_shape {
    uint64_t keys, values;      /* numbers of all heads of keys, and of values */
    uint64_t heads;             /* of values */
    uint64_t key_head;          /* numbers of one head of keys: the state's other side */
    uint64_t kernel, convolved; /* of the convolution: its length, and how many numbers it has */
};

static struct state_shape state_shape_of(const struct vr_config_part *text,
                                         const struct vr_layer_plan *plan, enum vr_mixer mixer,
                                         uint64_t hidden) {
    struct state_shape shape = {.kernel = vr_config_get(text, VR_CONFIG_LINEAR_KERNEL, 4)};
    uint64_t key_heads = vr_config_get(text, VR_CONFIG_LINEAR_KEY_HEADS, plan->heads);
    uint64_t expanded = vr_config_get(text, VR_CONFIG_STATE_EXPAND, 2) * hidden;
    shape.key_head = vr_config_get(text, VR_CONFIG_LINEAR_KEY_DIM, plan->head);
    switch (mixer) {
    case VR_MIXER_DELTA:
        shape.heads = vr_config_get(text, VR_CONFIG_LINEAR_VALUE_HEADS, 0);
        shape.values = shape.heads * vr_config_get(text, VR_CONFIG_LINEAR_VALUE_DIM, 0);
        break;
    case VR_MIXER_KIMI:
        shape.heads = key_heads;
        shape.values = key_heads * shape.key_head;
        break;
    case VR_MIXER_LIGHTNING:
        shape.heads = key_heads = plan->heads;
        shape.key_head = plan->head;
        shape.values = plan->heads * plan->head;
        shape.kernel = 1;
        break;
    default: /* Mamba: every channel is a value, and all share one key, or one for each group */
        shape.key_head = vr_config_get(text, VR_CONFIG_STATE_SIZE, 0);
        shape.kernel = vr_config_get(text, VR_CONFIG_STATE_KERNEL, 4);
        shape.heads = vr_config_get(text, VR_CONFIG_STATE_HEADS, plan->heads);
        shape.values = mixer == VR_MIXER_MAMBA2
                           ? shape.heads * vr_config_get(text, VR_CONFIG_STATE_HEAD_DIM, plan->head)
                       : plan->feed == VR_FEED_NONE
                           ? vr_config_get(text, VR_CONFIG_INTERMEDIATE, expanded)
                           : expanded; /* intermediate_size is the other block's */
        key_heads = mixer == VR_MIXER_MAMBA2 ? vr_config_get(text, VR_CONFIG_STATE_GROUPS, 1) : 0;
    }
    shape.keys = key_heads * shape.key_head;
    shape.convolved = 2 * shape.keys + shape.values;
    return shape;
}

static void state_add(struct vr_sum *state, const struct vr_config_part *text,
                      const struct vr_layer_plan *plan, enum vr_mixer mixer, uint64_t hidden) {
    if (mixer >= VR_MIXER_DELTA && mixer <= VR_MIXER_MAMBA2) {
        struct state_shape shape = state_shape_of(text, plan, mixer, hidden);
        state->overflow = state->overflow || shape.keys > UINT32_MAX || shape.values > UINT32_MAX;
        vr_sum_add(state, 2, (uint64_t[]){shape.values, shape.key_head});
        vr_sum_add(state, 2, (uint64_t[]){shape.kernel ? shape.kernel - 1 : 0, shape.convolved});
    }
}

struct vr_sum vr_mixer_state(const struct vr_config_part *text, const struct vr_layer_plan *plan,
                             uint64_t hidden) {
    struct vr_sum state = vr_sum_of(0);
    state_add(&state, text, plan, plan->mixer, hidden);
    state_add(&state, text, plan, plan->beside, hidden);
    return state;
}

/* Queries, keys, values and a gate, two numbers for each head of values, a convolution over the
   first three. */
static void delta_add(const struct vr_block_count *count) {
    struct state_shape shape =
        state_shape_of(count->text, &count->plan, VR_MIXER_DELTA, count->model->hidden);
    struct vr_part_sum *part = count->part;
    uint64_t hidden = count->model->hidden;
    vr_matrix_add(part, "linear_attn", "in_proj_qkv", shape.convolved, hidden);
    vr_matrix_add(part, "linear_attn", "in_proj_z", shape.values, hidden);
    vr_matrix_add(part, "linear_attn", "in_proj_b", shape.heads, hidden);
    vr_matrix_add(part, "linear_attn", "in_proj_a", shape.heads, hidden);
    vr_matrix_add(part, "linear_attn", "out_proj", hidden, shape.values);
    VR_NUMBERS_ADD(part, shape.convolved, shape.kernel);
    VR_NUMBERS_ADD(part, 2, shape.heads);
    VR_NUMBERS_ADD(part, shape.heads ? shape.values / shape.heads : 0);
}

/* The same with a forget gate for each channel; it and the output's gate are of low rank. */
static void kimi_add(const struct vr_block_count *count) {
    struct state_shape shape =
        state_shape_of(count->text, &count->plan, VR_MIXER_KIMI, count->model->hidden);
    struct vr_part_sum *part = count->part;
    const char *block = mixer_name(count);
    uint64_t hidden = count->model->hidden, all = shape.values, head = shape.key_head;
    vr_matrix_add(part, block, "q_proj", all, hidden);
    vr_matrix_add(part, block, "k_proj", all, hidden);
    vr_matrix_add(part, block, "v_proj", all, hidden);
    vr_matrix_add(part, block, "o_proj", hidden, all);
    vr_matrix_add(part, block, "f_a_proj", head, hidden);
    vr_matrix_add(part, block, "f_b_proj", all, head);
    vr_matrix_add(part, block, "b_proj", shape.heads, hidden);
    if (vr_config_get(count->text, VR_CONFIG_FULL_RANK_GATE, 0)) {
        vr_matrix_add(part, block, "g_proj", all, hidden);
    } else {
        vr_matrix_add(part, block, "g_a_proj", head, hidden);
        vr_matrix_add(part, block, "g_b_proj", all, head);
    }
    VR_NUMBERS_ADD(part, shape.convolved, shape.kernel);
    VR_NUMBERS_ADD(part, all + shape.heads + head); /* dt_bias, A_log and the norm */
}

static void lightning_add(const struct vr_block_count *count) {
    uint64_t hidden = count->model->hidden, all = count->plan.heads * count->plan.head;
    const char *block = mixer_name(count);
    vr_matrix_add(count->part, block, "qkv_proj", 3 * all, hidden);
    vr_matrix_add(count->part, block, "output_gate", all, hidden);
    vr_matrix_add(count->part, block, "out_proj", hidden, all);
    VR_NUMBERS_ADD(count->part, all);
}

static void mamba_add(const struct vr_block_count *count, const char *block, enum vr_mixer mixer) {
    struct state_shape shape =
        state_shape_of(count->text, &count->plan, mixer, count->model->hidden);
    struct vr_part_sum *part = count->part;
    uint64_t hidden = count->model->hidden, inner = shape.values, state = shape.key_head;
    uint64_t rank = vr_config_get(count->text, VR_CONFIG_STATE_RANK, (hidden + 15) / 16);
    VR_NUMBERS_ADD(part, shape.convolved, shape.kernel + 1); /* with its bias */
    if (mixer == VR_MIXER_MAMBA2) {
        vr_matrix_add(part, block, "in_proj", inner + shape.convolved + shape.heads, hidden);
        VR_NUMBERS_ADD(part, 3, shape.heads); /* dt_bias, A_log, D */
        VR_NUMBERS_ADD(part, inner);          /* the norm */
    } else {
        vr_matrix_add(part, block, "in_proj", 2 * inner, hidden);
        vr_matrix_add(part, block, "x_proj", rank + 2 * state, inner);
        vr_matrix_add(part, block, "dt_proj", inner, rank);
        VR_NUMBERS_ADD(part, inner, state);
        VR_NUMBERS_ADD(part, 2, inner); /* dt_proj's bias and D */
        VR_NUMBERS_ADD(part, rank + 2 * state, has_bit(count, VR_FAMILY_STATE_NORM));
    }
    vr_matrix_add(part, block, "out_proj", hidden, inner);
}

void vr_mixer_add(const struct vr_block_count *count) {
    uint64_t hidden = count->model->hidden;
    switch (count->plan.mixer) {
    case VR_MIXER_HEADS:
        heads_add(count, mixer_name(count));
        if (count->plan.cross) {
            heads_add(count, "encoder_attn");
        }
        break;
    case VR_MIXER_LATENT:
        latent_add(count);
        break;
    case VR_MIXER_COMPRESSED:
        compressed_add(count);
        break;
    case VR_MIXER_DELTA:
        delta_add(count);
        break;
    case VR_MIXER_KIMI:
        kimi_add(count);
        break;
    case VR_MIXER_LIGHTNING:
        lightning_add(count);
        break;
    case VR_MIXER_MAMBA:
    case VR_MIXER_MAMBA2:
        mamba_add(count, mixer_name(count), count->plan.mixer);
        break;
    case VR_MIXER_MATRIX:
        vr_matrix_add(count->part, mixer_name(count), "linear_attn", hidden, hidden);
        break;
    case VR_MIXER_NONE:
        break;
    }
    if (count->plan.beside == VR_MIXER_MAMBA2) {
        mamba_add(count, "mamba", VR_MIXER_MAMBA2);
    }
}

/* ------------------------------------------------------------- feed-forward */

/* Two matrices, or three if one of them is a gate. */
static bool has_gate(const struct vr_block_count *count) {
    return vr_config_get(count->text, VR_CONFIG_GATED, !has_bit(count, VR_FAMILY_PLAIN_MLP)) != 0;
}

static void dense_add(const struct vr_block_count *count, const char *block, uint64_t width) {
    struct vr_part_sum *part = count->part;
    uint64_t hidden = count->model->hidden;
    bool gate = has_gate(count);
    bool bias = vr_config_get(count->text, VR_CONFIG_MLP_BIAS, has_linear_bias(count)) != 0;
    vr_matrix_add(part, block, "gate_proj", gate ? width : 0, hidden);
    vr_matrix_add(part, block, "up_proj", width, hidden);
    vr_matrix_add(part, block, "down_proj", hidden, width);
    VR_NUMBERS_ADD(part, (gate ? 2 : 1) * width + hidden, bias);
}

static void shared_add(const struct vr_block_count *count, uint64_t expert_width) {
    const struct vr_config_part *text = count->text;
    uint64_t number =
        vr_config_get(text, VR_CONFIG_SHARED_EXPERTS, has_bit(count, VR_FAMILY_SHARED_ONE));
    uint64_t width = vr_config_get(text, VR_CONFIG_SHARED_INTERMEDIATE, number * expert_width);
    const char *outer = experts_name(count);
    char block[64];
    vr_text_format(block, sizeof block, "%s%sshared_experts", outer, outer[0] ? "." : "");
    if (width > 0) {
        dense_add(count, block, width);
        VR_NUMBERS_ADD(count->part, count->model->hidden, has_bit(count, VR_FAMILY_SHARED_GATE));
    }
}

/* The router is never packed. Experts may work in a narrower space, into which one matrix leads and
   out of which another. */
static void experts_add(const struct vr_block_count *count) {
    const struct vr_config_part *text = count->text;
    struct vr_part_sum *part = count->part;
    const char *block = experts_name(count);
    uint64_t hidden = count->model->hidden, experts = count->model->experts;
    uint64_t width = vr_config_get(text, VR_CONFIG_EXPERT_INTERMEDIATE, count->plan.width);
    uint64_t inner = vr_config_get(text, VR_CONFIG_EXPERT_HIDDEN, hidden);
    bool bias = has_bit(count, VR_FAMILY_EXPERT_BIAS), gate = has_gate(count);
    vr_experts_add(part, block, "gate_proj", gate ? experts : 0, width, inner);
    vr_experts_add(part, block, "up_proj", experts, width, inner);
    vr_experts_add(part, block, "down_proj", experts, inner, width);
    vr_sum_add(&part->experts.plain, 3, (uint64_t[]){experts, 2 * width + hidden, bias});
    if (inner != hidden) {
        vr_matrix_add(part, block, "fc1_latent_proj", inner, hidden);
        vr_matrix_add(part, block, "fc2_latent_proj", hidden, inner);
    }
    VR_NUMBERS_ADD(part, experts, hidden);
    VR_NUMBERS_ADD(part, experts, bias || has_bit(count, VR_FAMILY_ROUTER_FIX));
    shared_add(count, width);
    if (has_bit(count, VR_FAMILY_BOTH_FEEDS)) {
        dense_add(count, feed_name(count), count->plan.width);
        VR_NUMBERS_ADD(part, 4, hidden); /* three norms, and the scale of the router's input */
        VR_NUMBERS_ADD(part, experts);
    }
}

void vr_feed_add(const struct vr_block_count *count) {
    switch (count->plan.feed) {
    case VR_FEED_EXPERTS:
        experts_add(count);
        break;
    case VR_FEED_MATRIX:
        vr_matrix_add(count->part, feed_name(count), "linear_mlp", count->model->hidden,
                      count->model->hidden);
        break;
    case VR_FEED_NONE:
        break;
    default:
        dense_add(count, feed_name(count), count->plan.width);
    }
}
