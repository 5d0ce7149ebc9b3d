/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/compat.h: older names, and the presets of one application, for programs that move from a
 * pool of their own. Not part of vram/vram.h. docs/coverage.md says where the names come from.
 *
 * Get and return, acquire and release are thin aliases and marked deprecated: the compiler says
 * what to write instead. They take no queue. Their memory is ready for any queue, and a caller that
 * returns it must know that no work still uses it. The calls that replace them free memory in
 * stream order.
 */
#ifndef VRAM_COMPAT_H
#define VRAM_COMPAT_H

#include <vram/named.h>

#ifdef __cplusplus
extern "C" {
#endif

/* -------------------------------------------------------------- older names */

#if defined(__GNUC__)
#define VRAM_DEPRECATED(instead) __attribute__((deprecated("use " instead)))
#else
#define VRAM_DEPRECATED(instead)
#endif

/** Creates a buffer of `elements` of that precision; the pool reuses what was returned to it. */
VRAM_DEPRECATED("vram_buffer_create_elements")
static inline vram_status vram_get_buffer(vram_pool *pool, uint64_t elements,
                                          vram_precision precision, vram_buffer **buffer) {
    return vram_buffer_create_elements(pool, elements, precision, NULL, NULL, buffer);
}

/** The same for 32-bit floats, for pools that are keyed by size alone. */
VRAM_DEPRECATED("vram_buffer_create_elements")
static inline vram_status vram_get_or_create(vram_pool *pool, uint64_t elements,
                                             vram_buffer **buffer) {
    return vram_buffer_create_elements(pool, elements, VRAM_PRECISION_FP32, NULL, NULL, buffer);
}

/** Returns a buffer to its pool, which knows its size and precision. NULL is allowed. */
VRAM_DEPRECATED("vram_buffer_destroy")
static inline vram_status vram_return_buffer(vram_buffer *buffer) {
    return vram_buffer_destroy(buffer);
}

/** Allocates at least `bytes`, without rounding up to a power of two. */
VRAM_DEPRECATED("vram_alloc")
static inline vram_status vram_acquire(vram_pool *pool, uint64_t bytes, vram_addr *addr) {
    return vram_alloc(pool, bytes, NULL, addr);
}

/** Frees a block. It takes no size, because the pool knows it. 0 is allowed. */
VRAM_DEPRECATED("vram_free")
static inline vram_status vram_release(vram_pool *pool, vram_addr addr) {
    (void)pool;
    return vram_free(addr, NULL);
}

/* ------------------------------------------------------------------ presets */

/** The limit that the application's manager of named buffers had: 6 GiB. */
#define VRAM_NAMED_LIMIT_PRESET (UINT64_C(6) << 30)

/**
 * Its growth policies, all VRAM_GROWTH_FACTOR: X("name", factor_ppm, element_bytes, min_bytes,
 * max_bytes in MiB).
 */
#define VRAM_GROWTH_PRESET_MAP(X)                                                                  \
    X("default", 1500000, 4, 4096, 1024)                                                           \
    X("positions", 1300000, 12, 4096, 512)                                                         \
    X("velocities", 1300000, 12, 4096, 512)                                                        \
    X("forces", 1300000, 12, 4096, 512)                                                            \
    X("edges", 2000000, 32, 8192, 2048)                                                            \
    X("grid_cells", 1500000, 8, 2048, 256)

static inline bool vram_compat_same(const char *one, const char *other) {
    for (; *one && *one == *other; one++, other++) {
    }
    return *one == *other;
}

/** Fills `growth` with the policy of that name. VRAM_ERR_INVALID for another name, and for NULL. */
static inline vram_status vram_growth_preset(const char *name, vram_growth *growth) {
    static const struct {
        const char *name;
        uint32_t factor_ppm, element_bytes;
        uint64_t min_bytes, max_mib;
    } presets[] = {
#define VRAM_GROWTH_PRESET_ROW(name, factor, element, least, most)                                 \
    {name, factor, element, least, most},
        VRAM_GROWTH_PRESET_MAP(VRAM_GROWTH_PRESET_ROW)
#undef VRAM_GROWTH_PRESET_ROW
    };
    for (size_t i = 0; name && growth && i < sizeof presets / sizeof presets[0]; i++) {
        if (vram_compat_same(name, presets[i].name)) {
            growth->size = sizeof *growth;
            growth->policy = VRAM_GROWTH_FACTOR;
            growth->factor_ppm = presets[i].factor_ppm;
            growth->step_bytes = 0;
            growth->min_bytes = presets[i].min_bytes;
            growth->max_bytes = presets[i].max_mib << 20;
            growth->element_bytes = presets[i].element_bytes;
            return VRAM_OK;
        }
    }
    return VRAM_ERR_INVALID;
}

/** Fills `config` with single precision and the growth policy of that name. */
static inline vram_status vram_named_config_preset(const char *name, vram_named_config *config) {
    vram_growth growth;
    vram_status status = config ? vram_growth_preset(name, &growth) : VRAM_ERR_INVALID;
    if (status == VRAM_OK) {
        config->size = sizeof *config;
        config->kind = VRAM_BUFFER_DEVICE;
        config->precision = VRAM_PRECISION_FP32;
        config->growth = growth;
    }
    return status;
}

#ifdef __cplusplus
}
#endif

#endif
