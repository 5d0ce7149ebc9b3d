/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_name_pattern.c: patterns as files have them, against names of modules.
 */
#include "model/name_pattern.h"
#include "rig/rig.h"

#include <string.h>

#define STEPS UINT64_C(100000)

static bool matches(const char *pattern, const char *name) {
    uint64_t steps = STEPS;
    return vr_name_matches(pattern, name, &steps);
}

TEST(words_are_whole) {
    assert_true(matches("mlp.gate", "model.layers.3.mlp.gate"));
    assert_true(matches("gate", "model.layers.3.mlp.gate"));
    assert_false(matches("gate", "model.layers.3.mlp.gate_proj"));
    assert_false(matches("mlp.gate", "model.layers.3.bmlp.gate"));
    assert_true(matches("self_attn", "model.layers.3.self_attn.q_proj"));
    assert_true(matches("language_model.model.layers.3.mlp.gate", "model.layers.3.mlp.gate"));
    assert_false(matches("model.layers.3.mlp.gate", "model.layers.33.mlp.gate"));
    assert_false(matches("lm_head", "model.layers.3.mlp.gate"));
}

TEST(wildcards_end_at_components) {
    assert_true(matches("model.layers.*.self_attn", "model.layers.3.self_attn.q_proj"));
    assert_true(matches("model.layers.*.self_attn", "model.layers.3.self_attn"));
    assert_false(matches("model.layers.*.self_attn", "model.layers.3.self_attn_norm"));
    assert_true(matches("*self_attn*", "model.layers.3.self_attn.q_proj"));
    assert_true(matches("backbone.layers.1*", "model.layers.12.mixer.in_proj"));
    assert_false(matches("backbone.layers.1*", "model.layers.2.mixer.in_proj"));
    assert_true(matches("*.layer?.*", "a.layer7.b"));
    assert_false(matches("*vision*", "model.layers.3.mlp.gate"));
}

TEST(expressions_begin_at_the_start) {
    assert_true(matches("re:.*self_attn.*", "model.layers.3.self_attn.q_proj"));
    assert_false(matches("re:self_attn.*", "model.layers.3.self_attn.q_proj"));
    const char *gates = "re:.*mlp\\.(gate|up|gate_up|down)_proj.*";
    assert_true(matches(gates, "model.layers.3.mlp.gate_up_proj"));
    assert_true(matches(gates, "model.layers.3.mlp.down_proj"));
    assert_false(matches(gates, "model.layers.3.mlp.experts.0.down_proj"));
    assert_false(matches(gates, "model.layers.3.mlpx.down_proj"));
    assert_true(matches("re:.*layers\\.[0-2]\\..*", "model.layers.2.mlp.gate"));
    assert_false(matches("re:.*layers\\.[^0-2]\\..*", "model.layers.2.mlp.gate"));
    assert_true(matches("re:^model\\.layers\\.\\d+\\.mlp\\.gate$", "model.layers.42.mlp.gate"));
    assert_false(
        matches("re:^model\\.layers\\.\\d+\\.mlp\\.gate$", "model.layers.42.mlp.gate_proj"));
    assert_true(matches("re:.*\\.(?:a(b|c))?d", "x.acd"));
    assert_true(matches("re:.*\\.(?:a(b|c))?d", "x.d"));
    assert_true(matches("re:\\w+\\.x?y", "abc_1.y"));
    assert_true(matches("re:layers\\.3\\.mlp.*", "model.layers.3.mlp.gate"));
}

/* What is not understood matches nothing, and what could take forever ends. */
TEST(expressions_that_are_bad) {
    static const char *const bad[] = {"re:(a",   "re:[a",   "re:a\\", "re:(?!b).*",
                                      "re:(a)*", "re:(a)+", "re:a$b"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(matches(bad[i], "aaaa"));
    }
    char pattern[200] = "re:", name[100];
    for (size_t i = 0; i < 30; i++) {
        strcat(pattern, ".*a");
    }
    strcat(pattern, "b");
    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    uint64_t steps = STEPS;
    assert_false(vr_name_matches(pattern, name, &steps));
    assert_int_equal(steps, 0);
    assert_false(vr_name_matches("re:.*", name, &steps)); /* nothing matches from then on */
    assert_false(vr_name_matches("*", name, &steps));
}

TEST(one_layer_is_found) {
    uint32_t layer = 7;
    const char *rest = NULL;
    assert_true(vr_name_layer("model.layers.12.mlp.gate", &layer, &rest));
    assert_int_equal(layer, 12);
    assert_string_equal(rest, "mlp.gate");
    assert_true(vr_name_layer("layers.0", &layer, &rest));
    assert_string_equal(rest, "");
    assert_false(vr_name_layer("model.layers.1*", &layer, &rest));
    assert_false(vr_name_layer("model.layers.x.mlp", &layer, &rest));
    assert_false(vr_name_layer("model.layers.12345678", &layer, &rest));
    assert_false(vr_name_layer("lm_head", &layer, &rest));
}
