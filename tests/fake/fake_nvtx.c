/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_nvtx.c: see fake_nvtx.h. The structs are written down once more, from NVIDIA's headers and
 * not from src/track/nvtx.c, so that a mistake there does not repeat here.
 */
#include "fake/fake_nvtx.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define FAKE_API __attribute__((visibility("default")))

enum { COMPAT = 0x0102, HEAPS = 256, REGIONS = 4096, NAME = 64 };

struct segment {
    size_t id, count;
    intptr_t *slots;
};

struct module {
    uint16_t version, size, id, compat;
    size_t segment_count;
    struct segment *segments;
    intptr_t (*get)(uint32_t id);
    const void *extra;
};

struct range {
    size_t size;
    const char *ptr;
};

struct heap_desc {
    uint16_t compat, size;
    uint32_t reserved0, usage, type;
    size_t desc_size;
    const struct range *desc;
    uint32_t category, message_type;
    const void *message;
};

/* RegionsRegister; the others have no heap and no handles. */
struct register_batch {
    uint16_t compat, size;
    uint32_t type;
    void *heap;
    size_t count, element_size;
    const struct range *elements;
    void **handles;
};

struct batch {
    uint16_t compat, size;
    uint32_t type;
    size_t count, element_size;
    const void *elements;
};

struct name {
    uint32_t reference_type, name_type;
    const char *region;
    const char *text;
    uint32_t category, reserved0;
};

FAKE_API int InitializeInjectionNvtxExtension(struct module *module);
FAKE_API const struct fake_nvtx_control *fake_nvtx_control(void);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct { uint64_t base, bytes; /* bytes 0: unused */ } heaps[HEAPS];
static struct {
    uint64_t base, bytes;
    int heap;
    char name[NAME];
} regions[REGIONS];
static uint64_t calls, breaches;

/* ----------------------------------------------------------------- the tool's tables */

static int heap_of(const void *handle) {
    intptr_t at = (intptr_t)handle - 1;
    return at >= 0 && at < HEAPS && heaps[at].bytes ? (int)at : -1;
}

static int region_at(uint64_t base) {
    for (int i = 0; i < REGIONS; i++) {
        if (regions[i].bytes && regions[i].base == base) {
            return i;
        }
    }
    return -1;
}

/* Whether a region may lie there; `self` is not looked at. */
static bool fits(int heap, uint64_t base, uint64_t bytes, int self) {
    if (heap < 0 || !bytes || base < heaps[heap].base ||
        base + bytes > heaps[heap].base + heaps[heap].bytes) {
        return false;
    }
    for (int i = 0; i < REGIONS; i++) {
        if (i != self && regions[i].bytes && base < regions[i].base + regions[i].bytes &&
            regions[i].base < base + bytes) {
            return false;
        }
    }
    return true;
}

/* The real tool refuses calls of a thread without a current context. */
static bool has_context(void) {
    int (*get)(void **context) = NULL;
    void *context = NULL, *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    void *found = driver ? dlsym(driver, "cuCtxGetCurrent") : NULL;
    memcpy(&get, &found, sizeof get);
    bool has = get && get(&context) == 0 && context;
    if (driver) {
        dlclose(driver);
    }
    return has;
}

static void begin(bool right) {
    right = right && has_context();
    pthread_mutex_lock(&lock);
    calls++;
    breaches += !right;
}

static void end(bool right) {
    breaches += !right;
    pthread_mutex_unlock(&lock);
}

/* --------------------------------------------------------------------- its functions */

static void *heap_register(void *domain, const struct heap_desc *desc) {
    int at = 0;
    (void)domain;
    begin(desc->compat == COMPAT && desc->size == sizeof *desc && desc->usage == 1 &&
          desc->type == 1 && desc->desc_size == sizeof *desc->desc);
    uint64_t base = (uint64_t)(uintptr_t)desc->desc->ptr, bytes = desc->desc->size;
    for (int i = 0; i < HEAPS; i++) {
        breaches +=
            heaps[i].bytes && base < heaps[i].base + heaps[i].bytes && heaps[i].base < base + bytes;
    }
    while (at < HEAPS && heaps[at].bytes) {
        at++;
    }
    if (at < HEAPS) {
        heaps[at].base = base;
        heaps[at].bytes = bytes;
    }
    end(at < HEAPS && bytes);
    return (void *)(intptr_t)(at + 1);
}

static void heap_unregister(void *domain, void *handle) {
    (void)domain;
    begin(true);
    int heap = heap_of(handle);
    for (int i = 0; heap >= 0 && i < REGIONS; i++) {
        regions[i].bytes = regions[i].heap == heap ? 0 : regions[i].bytes;
    }
    if (heap >= 0) {
        heaps[heap].bytes = 0;
    }
    end(heap >= 0);
}

static void regions_register(void *domain, const struct register_batch *batch) {
    int at = 0;
    (void)domain;
    begin(batch->compat == COMPAT && batch->size == sizeof *batch && batch->type == 1 &&
          batch->count == 1 && batch->element_size == sizeof(struct range));
    int heap = heap_of(batch->heap);
    uint64_t base = (uint64_t)(uintptr_t)batch->elements->ptr, bytes = batch->elements->size;
    bool right = fits(heap, base, bytes, -1);
    while (at < REGIONS && regions[at].bytes) {
        at++;
    }
    if (right && at < REGIONS) {
        regions[at].base = base;
        regions[at].bytes = bytes;
        regions[at].heap = heap;
        regions[at].name[0] = 0;
    }
    end(right && at < REGIONS);
}

static bool batch_is_right(const struct batch *batch, size_t element_size) {
    return batch->compat == COMPAT && batch->size == sizeof *batch && batch->count == 1 &&
           batch->element_size == element_size;
}

static void regions_resize(void *domain, const struct batch *batch) {
    const struct range *range = batch->elements;
    (void)domain;
    begin(batch_is_right(batch, sizeof *range) && batch->type == 1);
    int at = region_at((uint64_t)(uintptr_t)range->ptr);
    bool right = at >= 0 && fits(regions[at].heap, regions[at].base, range->size, at);
    if (right) {
        regions[at].bytes = range->size;
    }
    end(right);
}

static void regions_unregister(void *domain, const struct batch *batch) {
    const char *const *pointer = batch->elements;
    (void)domain;
    begin(batch_is_right(batch, sizeof *pointer) && batch->type == 1);
    int at = region_at((uint64_t)(uintptr_t)*pointer);
    if (at >= 0) {
        regions[at].bytes = 0;
    }
    end(at >= 0);
}

static void regions_name(void *domain, const struct batch *batch) {
    const struct name *name = batch->elements;
    (void)domain;
    begin(batch->compat == COMPAT && batch->size == sizeof *batch + sizeof(size_t) &&
          batch->count == 1 && batch->element_size == sizeof *name && name->reference_type == 1 &&
          name->name_type == 1);
    int at = region_at((uint64_t)(uintptr_t)name->region);
    bool right = at >= 0 && name->text[0];
    for (const char *byte = name->text; *byte; byte++) {
        right = right && *byte >= ' ' && *byte <= '~';
    }
    if (right) {
        strncpy(regions[at].name, name->text, NAME - 1);
    }
    end(right);
}

static void set_slot(intptr_t *slot, const void *function) {
    memcpy(slot, function, sizeof *slot);
}

int InitializeInjectionNvtxExtension(struct module *module) {
    const char *mode = getenv("FAKE_NVTX");
    const struct segment *segment = module->segments;
    if (mode && strcmp(mode, "refuse") == 0) {
        return 0;
    }
    if (module->version != 3 || module->size != sizeof *module || module->id != 1 ||
        module->compat != COMPAT || module->segment_count != 1 || segment->id != 1 ||
        segment->count < 17) {
        breaches++;
        return 0;
    }
    if (mode && strcmp(mode, "none") == 0) {
        return 1;
    }
    void *(*heap_begin)(void *, const struct heap_desc *) = heap_register;
    void (*heap_end)(void *, void *) = heap_unregister;
    void (*region_begin)(void *, const struct register_batch *) = regions_register;
    void (*const others[])(void *, const struct batch *) = {regions_resize, regions_unregister,
                                                            regions_name};
    set_slot(&segment->slots[0], &heap_begin);
    set_slot(&segment->slots[1], &heap_end);
    set_slot(&segment->slots[3], &region_begin);
    for (int i = 0; i < 3; i++) {
        set_slot(&segment->slots[4 + i], &others[i]);
    }
    return 1;
}

/* -------------------------------------------------------------------- the test's view */

static uint64_t region_bytes(uint64_t addr) {
    pthread_mutex_lock(&lock);
    int at = region_at(addr);
    uint64_t bytes = at < 0 ? 0 : regions[at].bytes;
    pthread_mutex_unlock(&lock);
    return bytes;
}

static const char *region_name(uint64_t addr) {
    int at = region_at(addr);
    return at < 0 ? "" : regions[at].name;
}

static bool is_accessible(uint64_t addr, uint64_t bytes) {
    bool inside = false;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < REGIONS; i++) {
        inside = inside || (regions[i].bytes && addr >= regions[i].base &&
                            addr + bytes <= regions[i].base + regions[i].bytes);
    }
    pthread_mutex_unlock(&lock);
    return inside;
}

static uint64_t heap_count(void) {
    uint64_t count = 0;
    for (int i = 0; i < HEAPS; i++) {
        count += heaps[i].bytes != 0;
    }
    return count;
}

static uint64_t region_count(void) {
    uint64_t count = 0;
    for (int i = 0; i < REGIONS; i++) {
        count += regions[i].bytes != 0;
    }
    return count;
}

static uint64_t call_count(void) {
    return calls;
}

static uint64_t breach_count(void) {
    return breaches;
}

const struct fake_nvtx_control *fake_nvtx_control(void) {
    static const struct fake_nvtx_control control = {
        .region = region_bytes,
        .name = region_name,
        .accessible = is_accessible,
        .heaps = heap_count,
        .regions = region_count,
        .calls = call_count,
        .breaches = breach_count,
    };
    return &control;
}
