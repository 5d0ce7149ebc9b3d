/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config_world.h: what the tests of config.json share: the model that was read, and where from.
 */
#ifndef TEST_CONFIG_WORLD_H
#define TEST_CONFIG_WORLD_H

#include "rig/rig.h"
#include "vram/model.h"
#include "vram/vram.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* About 25 KiB: one for all tests. */
static vram_model model;

static inline int fresh(void) {
    memset(&model, 0, sizeof model);
    model.size = sizeof model;
    return 0;
}

/* A text, or the name of a file in tests/model_configs. */
static inline vram_status read_config(const char *what) {
    char path[1024] = "/tmp/vram-config-XXXXXX";
    fresh();
    bool is_text = strchr("{[\n ", *what) != NULL;
    if (is_text) {
        int fd = mkstemp(path);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, what, strlen(what)), strlen(what));
        close(fd);
    } else {
        snprintf(path, sizeof path, "%s/%s.json", MODEL_CONFIGS, what);
    }
    vram_status status = vram_model_read(path, NULL, &model);
    if (is_text) {
        unlink(path);
    }
    return status;
}

#define DIMENSIONS                                                                                 \
    "\"num_hidden_layers\":2,\"hidden_size\":64,\"vocab_size\":10,\"intermediate_size\":8"
#define SMALL "\"hidden_size\":64,\"num_hidden_layers\":2,\"vocab_size\":100"
#define LLAMA "\"model_type\":\"llama\"," SMALL ",\"intermediate_size\":8,\"num_attention_heads\":2"

EACH_TEST_ELSE(fresh, NULL)

#endif
