/* SPDX-License-Identifier: Apache-2.0 */
/*
 * s1_manager.c: the code of document S1: one manager for every backend, which knows its
 * configuration, its pressure, each of its buffers, and what a model will need.
 */
#include "sample.h"

/* The picture: one manager, and a pool for each backend below it. */
static void architecture(struct sample_world *world) {
    static const char *const pools[] = {"cuda", "hip", "metal", "opencl"};
    for (size_t i = 0; i < COUNT(pools); i++) {
        bool known = false;
        for (uint32_t at = 0; at < vram_backend_count(world->context); at++) {
            vram_backend_info info = {.size = sizeof info};
            must(vram_backend_info_get(world->context, at, &info));
            if (strcmp(info.name, pools[i]) == 0) {
                known = true;
                hold(info.present || info.reason[0] != '\0'); /* absent ones say why */
            }
        }
        hold(known);
    }
    vram_limits config = {.size = sizeof config};
    vram_pressure pressure = {.size = sizeof pressure};
    must(vram_pool_limits_get(world->pool, &config));
    must(vram_pool_pressure_get(world->pool, &pressure));
    hold(sample_stats(world->pool).reserved_bytes == 0); /* nothing before it is needed */
}

static void memory_statistics(struct sample_world *world) {
    vram_addr kept, returned;
    must(vram_alloc(world->pool, 600, world->queue, &kept));
    must(vram_alloc(world->pool, 1000, world->queue, &returned));
    must(vram_free(returned, world->queue));
    must(vram_alloc(world->pool, 1000, world->queue, &returned));
    must(vram_free(returned, world->queue));

    vram_pool_stats stats = sample_stats(world->pool);
    hold(stats.reserved_bytes >= stats.allocated_bytes + stats.cached_bytes); /* total_allocated */
    hold(stats.requested_bytes == 600 && stats.allocated_bytes >= 600);       /* in_use */
    hold(stats.cached_bytes >= 1000);                                         /* pooled */
    hold(stats.peak_reserved_bytes >= stats.reserved_bytes);                  /* peak */
    hold(stats.peak_requested_bytes >= 1600);
    hold(stats.hits + stats.misses == 3 && stats.hits >= 1); /* pool_hits, pool_misses */
    hold(stats.fallbacks == 0);                              /* cpu_fallbacks */
    hold(stats.active_buffers == 1);                         /* active_buffers */
    must(vram_free(kept, world->queue));
}

static void memory_configuration(struct sample_world *world) {
    vram_limits config = {.size = sizeof config};

    /* Default configuration. */
    must(vram_preset_get(VRAM_PRESET_DEFAULT, &config));
    hold(config.fraction == 0.9 && config.min_free_bytes == 512 * MIB);
    hold(config.cpu_fallback == VRAM_SWITCH_ON && config.cached_blocks == 8);
    hold(config.tracking == VRAM_SWITCH_DEFAULT); /* in debug builds */

    /* Inference-optimised, and for memory-constrained systems. */
    must(vram_preset_get(VRAM_PRESET_INFERENCE, &config));
    hold(config.fraction == 0.95 && config.min_free_bytes == 256 * MIB);
    must(vram_preset_get(VRAM_PRESET_CONSTRAINED, &config));
    hold(config.fraction == 0.7 && config.min_free_bytes == 128 * MIB);

    /* Custom: fields in the place of a builder, in any order. */
    config = (vram_limits){.size = sizeof config,
                           .fraction = 0.8,                /* use 80 % of GPU memory */
                           .cpu_fallback = VRAM_SWITCH_ON, /* enable CPU fallback */
                           .min_free_bytes = 64 * MIB,     /* keep that much free */
                           .tracking = VRAM_SWITCH_ON};    /* enable allocation tracking */
    vram_pool_options options = {.size = sizeof options, .limits = &config};
    vram_limits in_force = {.size = sizeof in_force};
    VRAM_AUTO(vram_pool) *pool = NULL;
    must(vram_pool_create(world->device, &options, &pool));
    must(vram_pool_limits_get(pool, &in_force));
    hold(in_force.fraction == 0.8 && in_force.min_free_bytes == 64 * MIB);
    hold(in_force.cpu_fallback == VRAM_SWITCH_ON && in_force.tracking == VRAM_SWITCH_ON);
}

static void pressure_levels(struct sample_world *world) {
    (void)world;
    hold(vram_pressure_level_of(0.59) == VRAM_PRESSURE_LOW);    /* < 60 % */
    hold(vram_pressure_level_of(0.60) == VRAM_PRESSURE_MEDIUM); /* 60 to 80 % */
    hold(vram_pressure_level_of(0.80) == VRAM_PRESSURE_HIGH);   /* 80 to 95 % */
    hold(vram_pressure_level_of(0.95) == VRAM_PRESSURE_HIGH);
    hold(vram_pressure_level_of(0.96) == VRAM_PRESSURE_CRITICAL); /* > 95 % */
}

/* The trait's seven functions. */
static void pool_interface(struct sample_world *world) {
    vram_device_info device = {.size = sizeof device};
    vram_memory_info memory = {.size = sizeof memory};
    vram_pressure pressure = {.size = sizeof pressure};
    vram_addr block;
    uint64_t cached, released;
    must(vram_alloc(world->pool, 8 * MIB, world->queue, &block));
    must(vram_device_describe(world->device, &device));
    hold(strcmp(device.backend, world->simulated ? "sim" : "host") == 0); /* backend_name */
    hold(sample_stats(world->pool).active_buffers == 1);                  /* stats */
    must(vram_memory_info_get(world->device, &memory));
    hold(memory.total_bytes.known && memory.total_bytes.value > 0); /* total_memory */
    hold(memory.free_bytes.value <= memory.total_bytes.value);      /* free_memory */
    must(vram_pool_pressure_get(world->pool, &pressure));           /* pressure */
    hold(pressure.level == vram_pressure_level_of(pressure.value));

    must(vram_free(block, world->queue));
    must(vram_queue_wait(world->queue, WAIT));
    uint64_t held = sample_stats(world->pool).reserved_bytes;
    vram_trim_options caches = {.size = sizeof caches, .flags = VRAM_TRIM_CACHES};
    must(vram_pool_trim(world->pool, &caches, &cached)); /* clear_pool: out of the caches, */
    hold(sample_stats(world->pool).cached_bytes == 0);
    must(vram_pool_trim(world->pool, NULL, &released)); /* shrink: and back to the driver */
    hold(held >= 8 * MIB && released == held && sample_stats(world->pool).reserved_bytes == 0);
}

static vram_inference_shape mistral_7b(uint64_t element_bytes) {
    return (vram_inference_shape){.size = sizeof(vram_inference_shape),
                                  .hidden = 4096,
                                  .intermediate = 14336,
                                  .layers = 32,
                                  .vocabulary = 32000,
                                  .heads = 32,
                                  .kv_heads = 8,
                                  .tokens = 4096,
                                  .element_bytes = element_bytes};
}

static void memory_estimation(struct sample_world *world) {
    vram_inference_shape single = mistral_7b(4), half = mistral_7b(2);
    vram_inference_memory fp32 = {.size = sizeof fp32}, fp16 = {.size = sizeof fp16};
    char text[200];
    (void)world;
    must(vram_inference_estimate(&single, &fp32));
    must(vram_inference_estimate(&half, &fp16));
    snprintf(text, sizeof text, "FP32: %.2f GB, FP16: %.2f GB", fp32.total_gb, fp16.total_gb);
    hold(strcmp(text, "FP32: 27.98 GB, FP16: 13.99 GB") == 0);
    hold(fp32.total_bytes == UINT64_C(30040932352) && fp16.total_bytes == UINT64_C(15020466176));

    /* Detailed breakdown. */
    snprintf(text, sizeof text, "Model: %.2f GB, KV Cache: %.2f GB, Activations: %.2f MB",
             fp32.model_mb / 1024, fp32.kv_mb / 1024, fp32.activation_mb);
    hold(strcmp(text, "Model: 26.98 GB, KV Cache: 1.00 GB, Activations: 0.25 MB") == 0);
}

static void selecting_a_backend(struct sample_world *world) {
    vram_inference_shape huge = mistral_7b(4);
    vram_model_select_options fits = {.size = sizeof fits, .bytes = 64 * MIB};
    vram_model_select_options too_much = {.size = sizeof too_much, .shape = &huge};
    vram_model_place place = {.size = sizeof place};
    must(vram_model_select(world->context, &fits, &place));
    hold(place.device == world->index); /* "Use {backend} on device {index}" */
    hold(strcmp(place.backend, world->simulated ? "sim" : "host") == 0);

    huge.layers = 1000000; /* more than any machine has */
    hold(vram_model_select(world->context, &too_much, &place) == VRAM_ERR_DEVICE_MEMORY);
    hold(strstr(vram_error_get()->text, "No backend has enough memory"));
}

struct found {
    uint64_t blocks, last_id;
    char tag[64];
};

static bool find(void *user, const vram_live_block *block) {
    struct found *found = user;
    found->blocks++;
    hold(block->id != found->last_id);
    found->last_id = block->id;
    snprintf(found->tag, sizeof found->tag, "%s", block->tag ? block->tag : "");
    return true;
}

/* The tracker is the pool's: what is allocated is tracked, with nobody having to say so. */
static void buffer_tracking(struct sample_world *world) {
    vram_pool_options tracked = {.size = sizeof tracked, .flags = VRAM_POOL_TRACKED};
    VRAM_AUTO(vram_pool) *pool = NULL;
    must(vram_pool_create(world->device, &tracked, &pool));

    vram_alloc_options meta = {.size = sizeof meta,
                               .elements = 256 * KIB, /* 256K elements */
                               .tag = "attention_scores"};
    vram_addr scores;
    must(vram_alloc_with(pool, 1 * MIB, world->queue, &meta, &scores)); /* 1 MB */
    vram_live_block block = {.size = sizeof block};
    must(vram_live_get(scores, &block));
    hold(block.id != 0 && block.elements == 256 * KIB && block.kind == VRAM_MEMORY_DEVICE);

    /* Potentially leaked: what is older than a minute. Nothing is, so far. */
    struct found found = {0};
    vram_live_query old = {.size = sizeof old, .pool = pool, .older_ns = VRAM_LIVE_OLD_NS};
    must(vram_live_visit(&old, find, &found));
    hold(found.blocks == 0);
    old.older_ns = 0; /* of any age: "Potential leak: {id} ({tag})" */
    must(vram_live_visit(&old, find, &found));
    hold(found.blocks == 1 && found.last_id == block.id);
    hold(strcmp(found.tag, "attention_scores") == 0);

    /* "Tracked: {} buffers, {} bytes". */
    vram_live_stats stats = {.size = sizeof stats};
    must(vram_live_stats_get(&old, &stats));
    hold(stats.live_blocks == 1 && stats.live_bytes == 1 * MIB);
    must(vram_free(scores, world->queue));
}

static void fallback_buffer(struct sample_world *world) {
    vram_limits small = {.size = sizeof small, .hard_bytes = 4 * MIB};
    vram_pool_options options = {.size = sizeof options, .limits = &small};
    vram_buffer_options fallback = {.size = sizeof fallback, .kind = VRAM_BUFFER_FALLBACK};
    VRAM_AUTO(vram_pool) *pool = NULL;
    VRAM_AUTO(vram_buffer) *on_gpu = NULL;
    VRAM_AUTO(vram_buffer) *on_cpu = NULL;
    float numbers[256], back[256] = {0};
    sample_numbers(numbers, COUNT(numbers), 1);
    must(vram_pool_create(world->device, &options, &pool));
    must(vram_buffer_create_elements(pool, 768 * KIB, VRAM_PRECISION_FP32, world->queue, &fallback,
                                     &on_gpu));
    must(vram_buffer_create_elements(pool, 768 * KIB, VRAM_PRECISION_FP32, world->queue, &fallback,
                                     &on_cpu)); /* does not fit any more */
    hold(sample_info(on_gpu).location == VRAM_MEMORY_DEVICE);
    hold(sample_info(on_cpu).location != VRAM_MEMORY_DEVICE);
    hold(sample_info(on_cpu).elements == 768 * KIB);
    hold(sample_info(on_cpu).id != sample_info(on_gpu).id);
    hold(sample_stats(pool).fallbacks == 1);

    /* It is used like the other, and comes back when there is room. */
    vram_span span = {on_cpu, 0, sizeof numbers};
    must(vram_span_upload(world->queue, span, numbers));
    must(vram_buffer_destroy(on_gpu));
    must(vram_buffer_promote(on_cpu, world->queue));
    hold(sample_info(on_cpu).location == VRAM_MEMORY_DEVICE);
    must(vram_span_download(world->queue, back, span));
    must(vram_queue_wait(world->queue, WAIT));
    hold(memcmp(numbers, back, sizeof back) == 0);
}

/* Memory of the program's own, which the pool knows nothing of but its addresses. */
struct own_memory {
    uint64_t bytes, pieces;
};

static vram_status own_alloc(void *user, uint64_t bytes, vram_addr *addr) {
    struct own_memory *own = user;
    void *memory = aligned_alloc(64 * KIB, bytes);
    if (!memory) {
        return VRAM_ERR_HOST_MEMORY;
    }
    own->bytes += bytes;
    own->pieces++;
    *addr = (uintptr_t)memory;
    return VRAM_OK;
}

static vram_status own_free(void *user, vram_addr addr, uint64_t bytes) {
    struct own_memory *own = user;
    free((void *)(uintptr_t)addr);
    own->bytes -= bytes;
    return VRAM_OK;
}

/* "A pool for any backend", here for plain host memory. The document returns a buffer that its
   first branch never had. What it records without having it cannot be reused, so the first attempt
   finds nothing. */
static void memory_pool_integration(struct sample_world *world) {
    struct own_memory own = {0};
    vram_limits config = {.size = sizeof config};
    vram_provider provider = {.size = sizeof provider,
                              .user = &own,
                              .alloc = own_alloc,
                              .free = own_free,
                              .granule = 64 * KIB};
    vram_alloc_options try_get = {.size = sizeof try_get, .flags = VRAM_ALLOC_CACHED_ONLY};
    vram_addr buffer;
    must(vram_preset_get(VRAM_PRESET_INFERENCE, &config));
    vram_pool_options options = {.size = sizeof options, .limits = &config, .provider = &provider};
    {
        VRAM_AUTO(vram_pool) *pool = NULL;
        must(vram_pool_create(world->device, &options, &pool));

        /* Try to get from the pool; else allocate. */
        vram_status status = vram_alloc_with(pool, 1 * MIB, NULL, &try_get, &buffer);
        hold(vram_status_is_exhausted(status) && own.pieces == 0);
        must(vram_alloc(pool, 1 * MIB, NULL, &buffer));
        memset((void *)(uintptr_t)buffer, 1, 1 * MIB);

        /* Return to the pool; a smaller one is then served without a new piece of memory. */
        must(vram_free(buffer, NULL));
        uint64_t pieces = own.pieces;
        must(vram_alloc_with(pool, 512 * KIB, NULL, &try_get, &buffer));
        hold(own.pieces == pieces);
        must(vram_free(buffer, NULL));

        must(vram_alloc(pool, 512 * KIB, NULL, &buffer)); /* from the thread's cache: a hit */
        must(vram_free(buffer, NULL));
        char text[40];
        vram_pool_stats stats = sample_stats(pool);
        snprintf(text, sizeof text, "Hit rate: %.1f%%", stats.hit_rate * 100.0);
        hold(stats.allocs == 3 && stats.hits == 2 && strcmp(text, "Hit rate: 66.7%") == 0);
    }
    hold(own.bytes == 0);
}

const struct sample s1_samples[] = {
    {"S1-01 S1-06", "Architecture", architecture},
    {"S1-07 S1-45", "Memory Statistics", memory_statistics},
    {"S1-09 S1-10 S1-11 S1-12 S1-13 S1-14 S1-15 S1-16 S1-17", "Memory Configuration",
     memory_configuration},
    {"S1-18", "Memory Pressure Levels", pressure_levels},
    {"S1-19 S1-20 S1-21 S1-22 S1-23 S1-24 S1-25", "GpuMemoryPool Trait", pool_interface},
    {"S1-26 S1-27 S1-28", "Memory Estimation", memory_estimation},
    {"S1-05 S1-29", "Selecting Backend for Model Size", selecting_a_backend},
    {"S1-02 S1-30 S1-31 S1-32 S1-33 S1-34 S1-35 S1-36 S1-37 S1-38", "Buffer Tracking",
     buffer_tracking},
    {"S1-04 S1-39", "Fallback Buffer", fallback_buffer},
    {"S1-08 S1-40 S1-41 S1-43", "Memory Pool Integration", memory_pool_integration},
    {0},
};
