/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_frames.c: see run_frames.h.
 *
 * Modules are found by _dl_find_object, which takes nanoseconds (glibc 2.35); without it, by dladdr.
 * A module with more than LARGE symbols gets an index of its functions, sorted by address, made once
 * from the table that the loader has mapped.
 */
#include "run_frames.h"

#include "base/lock.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "base/text.h"
#include "track/frame_name.h"
#include "track/python_layout.h"
#include "track/stack.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

enum { LARGE = 16384, MODULES = 64 };

/* The beginning of struct dl_find_object, which older headers do not have. */
struct found_object {
    unsigned long long flags;
    void *map_start, *map_end;
    struct link_map *link_map;
    void *eh_frame;
    unsigned long long reserved[7];
};
typedef int find_object_fn(void *address, struct found_object *found);

static struct vr_once once = VR_ONCE_INIT;
static find_object_fn *find_object; /* NULL: the C library has none */

static void finder_load(void) {
    find_object = (find_object_fn *)(uintptr_t)dlsym(RTLD_DEFAULT, "_dl_find_object");
}

/* The module of a return address; the call lies before it. */
static struct link_map *map_of(uint64_t frame) {
    struct found_object found;
    vr_once(&once, finder_load);
    return find_object && find_object((void *)(uintptr_t)(frame - 1), &found) == 0 ? found.link_map
                                                                                   : NULL;
}

static const char *file_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The program itself has no name there. */
static const char *program_name(void) {
    return program_invocation_short_name ? program_invocation_short_name : "program";
}

const char *run_frame_module(uint64_t frame) {
    if (vr_frame_name(frame)) {
        const struct vr_python *python = vr_python_get();
        return python ? python->module.name : NULL;
    }
    struct link_map *map = map_of(frame);
    if (map) {
        return map->l_name && *map->l_name ? file_name(map->l_name) : program_name();
    }
    Dl_info info;
    bool found = dladdr((void *)(uintptr_t)(frame - 1), &info) && info.dli_fname;
    return found ? file_name(info.dli_fname) : NULL;
}

uint32_t run_frames(uint32_t stack, uint64_t *frames, uint32_t capacity) {
    static const char here;
    uint64_t all[VR_STACK_DEPTH];
    uint32_t depth = vr_stack_all(stack, all, VR_STACK_DEPTH), first = 0, count = 0;
    struct link_map *own = map_of((uintptr_t)&here + 1);
    while (own && first + 1 < depth && map_of(all[first]) == own) {
        first++;
    }
    if (!own) {
        uint64_t kept[VR_STACK_DEPTH];
        count = vr_stack_frames(stack, kept);
        count = count < capacity ? count : capacity;
        memcpy(frames, kept, count * sizeof *kept);
        return count;
    }
    for (; first < depth && count < capacity; first++) {
        frames[count++] = all[first];
    }
    return count;
}

/* ----------------------------------------------------------------------- indexes */

struct function_row {
    uint32_t offset; /* from the load address */
    uint32_t symbol; /* in the table */
};

struct module_index {
    struct link_map *map; /* NULL: a free place */
    ElfW(Addr) base;
    const ElfW(Dyn) *
        dynamic; /* both of the map: a module that took the place of another differs */
    const ElfW(Sym) * symbols;
    const char *names;
    struct function_row *rows; /* sorted by offset; NULL: not a large module */
    uint32_t count;
};

static struct vr_mutex lock = VR_MUTEX_INIT(VR_RANK_MONITOR); /* guards the indexes */
static struct module_index modules[MODULES];

/* An address in the dynamic section, which glibc has relocated, as other loaders have not. */
static const void *pointer_of(const struct link_map *map, ElfW(Addr) value) {
    return (const void *)(value < map->l_addr ? map->l_addr + value : value);
}

/* How many symbols there are: the GNU hash table tells where the last chain ends. */
static uint32_t symbol_count(const uint32_t *hash) {
    uint32_t buckets = hash[0], first = hash[1], bloom = hash[2], last = 0;
    const uint32_t *bucket = hash + 4 + (size_t)bloom * (sizeof(ElfW(Addr)) / 4);
    const uint32_t *chain = bucket + buckets;
    for (uint32_t i = 0; i < buckets; i++) {
        last = bucket[i] > last ? bucket[i] : last;
    }
    if (last < first) {
        return first;
    }
    while (!(chain[last - first] & 1)) {
        last++;
    }
    return last + 1;
}

static int by_offset(const void *one, const void *other) {
    const struct function_row *a = one, *b = other;
    return (a->offset > b->offset) - (a->offset < b->offset);
}

/* Fills the index; the rows stay NULL if the module is small or memory ran out. */
static void index_make(struct module_index *module, struct link_map *map) {
    const uint32_t *hash = NULL;
    *module = (struct module_index){.map = map, .base = map->l_addr, .dynamic = map->l_ld};
    for (const ElfW(Dyn) *at = map->l_ld; at && at->d_tag != DT_NULL; at++) {
        if (at->d_tag == DT_GNU_HASH) {
            hash = pointer_of(map, at->d_un.d_ptr);
        } else if (at->d_tag == DT_SYMTAB) {
            module->symbols = pointer_of(map, at->d_un.d_ptr);
        } else if (at->d_tag == DT_STRTAB) {
            module->names = pointer_of(map, at->d_un.d_ptr);
        }
    }
    uint32_t symbols = hash && module->symbols && module->names ? symbol_count(hash) : 0;
    if (symbols <= LARGE ||
        !(module->rows = vr_mem_alloc(symbols, sizeof *module->rows, "vram run"))) {
        return;
    }
    for (uint32_t i = 0; i < symbols; i++) {
        const ElfW(Sym) *symbol = &module->symbols[i];
        if (ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && symbol->st_shndx != SHN_UNDEF &&
            symbol->st_value < UINT32_MAX) {
            module->rows[module->count++] = (struct function_row){(uint32_t)symbol->st_value, i};
        }
    }
    qsort(module->rows, module->count, sizeof *module->rows, by_offset);
}

/* The index of a module, under the lock; NULL: too many modules. */
static struct module_index *index_of(struct link_map *map) {
    struct module_index *free_place = NULL;
    for (unsigned i = 0; i < MODULES; i++) {
        struct module_index *module = &modules[i];
        if (module->map == map) {
            if (module->base != map->l_addr || module->dynamic != map->l_ld) {
                vr_mem_free(module->rows);
                index_make(module, map);
            }
            return module;
        }
        free_place = !free_place && !module->map ? module : free_place;
    }
    if (free_place) {
        index_make(free_place, map);
    }
    return free_place;
}

/* The last function that begins at or before the offset; NULL: none that reaches so far. */
static const ElfW(Sym) * function_at(const struct module_index *module, uint64_t offset) {
    uint32_t low = 0, high = module->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (module->rows[middle].offset <= offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    const ElfW(Sym) *symbol = low ? &module->symbols[module->rows[low - 1].symbol] : NULL;
    return symbol && (symbol->st_size == 0 || offset < symbol->st_value + symbol->st_size) ? symbol
                                                                                           : NULL;
}

/* False: not a large module, or none that is known. */
static bool text_of_large(uint64_t frame, char *text) {
    struct link_map *map = map_of(frame);
    if (!map) {
        return false;
    }
    vr_mutex_lock(&lock);
    struct module_index *module = index_of(map);
    bool large = module && module->rows;
    if (large) {
        uint64_t offset = frame - map->l_addr;
        const ElfW(Sym) *symbol = function_at(module, offset - 1);
        const char *file = map->l_name && *map->l_name ? file_name(map->l_name) : program_name();
        if (symbol) {
            (void)vr_text_format(text, VR_FRAME_TEXT, "%.104s+0x%llx (%.48s+0x%llx)",
                                 module->names + symbol->st_name,
                                 (unsigned long long)(offset - symbol->st_value), file,
                                 (unsigned long long)offset);
        } else {
            (void)vr_text_format(text, VR_FRAME_TEXT, "%.80s+0x%llx", file,
                                 (unsigned long long)offset);
        }
    }
    vr_mutex_unlock(&lock);
    return large;
}

void run_frame_text(uint64_t frame, char *text) {
    if (!text_of_large(frame, text)) {
        vr_frame_text(frame, text);
    }
}
