/* SPDX-License-Identifier: Apache-2.0 */
/* page_view.c: reads live pages. See page_view.h. */
#include "live/page_view.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <vram/pressure.h>

enum {
    COPIES_MAX =
        100 /* tries to copy a page between two updates, each of which takes microseconds */
};

#define SILENT_NS UINT64_C(2000000000)

uint64_t page_sum(uint64_t a, uint64_t b) {
    if (a == VRAM_LIVE_PAGE_UNKNOWN || b == VRAM_LIVE_PAGE_UNKNOWN) {
        return VRAM_LIVE_PAGE_UNKNOWN;
    }
    return a > PAGE_NUMBER_MAX - b ? PAGE_NUMBER_MAX : a + b;
}

/* -------------------------------------------------------------------- texts */

/* Bytes of the UTF-8 character at `text`, which has `left` bytes; 0: not one that may be shown. */
static size_t character_bytes(const unsigned char *text, size_t left) {
    static const uint32_t least[] = {0, 0x20, 0xa0, 0x800, 0x10000};
    unsigned first = text[0];
    size_t bytes = first < 0x80 ? 1 : first >> 5 == 6 ? 2 : first >> 4 == 14 ? 3 : 4;
    if (bytes > left || (bytes == 4 && first >> 3 != 30)) {
        return 0;
    }
    uint32_t code = bytes == 1 ? first : first & (0x7fu >> bytes);
    for (size_t i = 1; i < bytes; i++) {
        if (text[i] >> 6 != 2) {
            return 0;
        }
        code = code << 6 | (text[i] & 0x3f);
    }
    bool surrogate = code >= 0xd800 && code < 0xe000;
    bool turns = (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
    bool shown = code >= least[bytes] && code != 0x7f && !surrogate && !turns && code <= 0x10ffff;
    return shown ? bytes : 0;
}

/* Ends a text inside its field, and replaces what a terminal or a parser could stumble on. */
static void text_clean(char *field, size_t capacity) {
    field[capacity - 1] = 0;
    unsigned char *text = (unsigned char *)field;
    size_t left = strlen(field);
    while (left > 0) {
        size_t bytes = character_bytes(text, left);
        if (bytes == 0) {
            *text = '?';
            bytes = 1;
        }
        text += bytes;
        left -= bytes;
    }
}

#define TEXT_CLEAN(field) text_clean((field), sizeof(field))

/* ------------------------------------------------------------------ numbers */

/* `last` is the last of a run of uint64_t fields that begins with `first`. */
static void numbers_clean(uint64_t *first, const uint64_t *last) {
    for (uint64_t *number = first; number <= last; number++) {
        if (*number > PAGE_NUMBER_MAX) {
            *number = VRAM_LIVE_PAGE_UNKNOWN;
        }
    }
}

static void counts_clean(vram_live_page_counts *counts) {
    numbers_clean(&counts->held_bytes, &counts->free_rate);
}

static void level_clean(uint32_t *level) {
    static const uint32_t known[] = {
#define PAGE_LEVEL(NAME, number, name, text) (uint32_t)(number),
        VRAM_PRESSURE_MAP(PAGE_LEVEL)
#undef PAGE_LEVEL
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (*level == known[i]) {
            return;
        }
    }
    *level = VRAM_PRESSURE_UNKNOWN;
}

static void row_clean(const struct page_view *view, uint32_t *device) {
    if (*device >= view->head.devices.count) {
        *device = UINT32_MAX;
    }
}

static void view_clean(struct page_view *view) {
    vram_live_page *head = &view->head;
    TEXT_CLEAN(head->library);
    TEXT_CLEAN(head->command);
    counts_clean(&head->sum);
    numbers_clean(&head->tracked_pools, &head->updates);
    numbers_clean(head->causes, head->causes + VRAM_LIVE_PAGE_CAUSES - 1);
    numbers_clean(&head->sizes[0].blocks, &head->sizes[VRAM_LIVE_PAGE_SIZES - 1].bytes);
    for (uint32_t i = 0; i < head->devices.count; i++) {
        vram_live_page_device *device = &view->devices[i];
        TEXT_CLEAN(device->backend);
        TEXT_CLEAN(device->name);
        TEXT_CLEAN(device->pci);
        level_clean(&device->pressure_level);
        numbers_clean(&device->pressure_millionths, &device->pools);
    }
    for (uint32_t i = 0; i < head->pools.count; i++) {
        vram_live_page_pool *pool = &view->pools[i];
        TEXT_CLEAN(pool->name);
        row_clean(view, &pool->device);
        level_clean(&pool->pressure_level);
        numbers_clean(&pool->pressure_millionths, &pool->pressure_millionths);
        counts_clean(&pool->counts);
    }
    for (uint32_t i = 0; i < head->tags.count; i++) {
        vram_live_page_tag *tag = &view->tags[i];
        TEXT_CLEAN(tag->name);
        row_clean(view, &tag->device);
        numbers_clean(&tag->used_bytes, &tag->refusals);
    }
    for (uint32_t i = 0; i < head->refusals.count; i++) {
        vram_live_page_refusal *refusal = &view->refusals[i];
        TEXT_CLEAN(refusal->pool);
        TEXT_CLEAN(refusal->tag);
        TEXT_CLEAN(refusal->text);
        numbers_clean(&refusal->bytes, &refusal->bytes);
    }
}

/* ------------------------------------------------------------------- tables */

/* One of the four tables of a page: where its description is, and what its rows are. */
struct table_kind {
    size_t table; /* offset of its description in the head */
    size_t rows;  /* offset of its pointer in the view */
    size_t bytes; /* of a row */
    uint32_t most;
    const char *problem;
};

#define TABLE(name, type, most)                                                                    \
    {                                                                                              \
        offsetof(vram_live_page, name), offsetof(struct page_view, name), sizeof(type), most,      \
            "its table of " #name " does not fit"                                                  \
    }

static const struct table_kind tables[] = {
    TABLE(devices, vram_live_page_device, VRAM_LIVE_PAGE_DEVICES),
    TABLE(pools, vram_live_page_pool, VRAM_LIVE_PAGE_POOLS),
    TABLE(tags, vram_live_page_tag, VRAM_LIVE_PAGE_TAGS),
    TABLE(refusals, vram_live_page_refusal, VRAM_LIVE_PAGE_REFUSALS),
};

enum { TABLES = sizeof tables / sizeof tables[0] };

static vram_live_page_table *table_of(struct page_view *view, const struct table_kind *kind) {
    return (vram_live_page_table *)(void *)((char *)&view->head + kind->table);
}

static bool table_fits(const struct table_kind *kind, const vram_live_page_table *table,
                       size_t bytes) {
    return table->count <= kind->most && table->count <= table->total &&
           (table->count == 0 ||
            (table->offset >= sizeof(vram_live_page) && table->offset % 8 == 0 &&
             table->stride >= kind->bytes && table->stride % 8 == 0 && table->offset <= bytes &&
             (uint64_t)table->count * table->stride <= bytes - table->offset));
}

/* Copies the rows of all tables into one block. */
static bool tables_copy(const char *page, struct page_view *view) {
    size_t needed = 1;
    for (size_t i = 0; i < TABLES; i++) {
        needed += table_of(view, &tables[i])->count * tables[i].bytes;
    }
    char *at = view->memory = malloc(needed);
    if (!at) {
        return false;
    }
    for (size_t i = 0; i < TABLES; i++) {
        const vram_live_page_table *table = table_of(view, &tables[i]);
        memcpy((char *)view + tables[i].rows, &at, sizeof at);
        for (uint32_t row = 0; row < table->count; row++, at += tables[i].bytes) {
            memcpy(at, page + table->offset + (size_t)row * table->stride, tables[i].bytes);
        }
    }
    return true;
}

static const char *head_problem(const vram_live_page *head, size_t bytes) {
    return head->magic != VRAM_LIVE_PAGE_MAGIC       ? "it is not a live page"
           : head->version != VRAM_LIVE_PAGE_VERSION ? "its version is not known here"
           : head->page_bytes != bytes               ? "its size is not what it says"
                                                     : NULL;
}

enum page_state page_take(const void *copy, size_t bytes, struct page_view *view,
                          const char **problem) {
    *view = (struct page_view){0};
    *problem = NULL;
    if (bytes < sizeof view->head || bytes > VRAM_LIVE_PAGE_BYTES_MAX) {
        *problem = "its size is not that of a live page";
        return PAGE_WRONG;
    }
    memcpy(&view->head, copy, sizeof view->head);
    if (view->head.magic == 0) {
        return PAGE_BUSY;
    }
    *problem = head_problem(&view->head, bytes);
    for (size_t i = 0; i < TABLES && !*problem; i++) {
        *problem =
            table_fits(&tables[i], table_of(view, &tables[i]), bytes) ? NULL : tables[i].problem;
    }
    if (*problem) {
        return PAGE_WRONG;
    }
    if (!tables_copy(copy, view)) {
        *problem = "host memory ran out";
        return PAGE_FAILED;
    }
    view_clean(view);
    return PAGE_READ;
}

void page_view_free(struct page_view *view) {
    free(view->memory);
    *view = (struct page_view){0};
}

/* -------------------------------------------------------------------- files */

/* Reads `bytes` at `offset`; false: the file is shorter, or cannot be read. A page that is read and
   not mapped cannot raise SIGBUS if its owner truncates it. */
static bool bytes_read(int file, void *into, size_t bytes, size_t offset) {
    for (size_t done = 0; done < bytes;) {
        ssize_t some = pread(file, (char *)into + done, bytes - done, (off_t)(offset + done));
        if (some <= 0) {
            return false;
        }
        done += (size_t)some;
    }
    return true;
}

static bool word_read(int file, uint64_t *word, size_t offset) {
    __sync_synchronize();
    bool read = bytes_read(file, word, sizeof *word, offset);
    __sync_synchronize();
    return read;
}

static bool sequence_read(int file, uint64_t *sequence) {
    return word_read(file, sequence, offsetof(vram_live_page, sequence));
}

/* A copy that no update has changed half-way: rule (2) of the layout; and of a complete page: rule
   (3). */
static enum page_state page_copy(int file, void *copy, size_t bytes) {
    uint64_t magic, before, after;
    if (!word_read(file, &magic, offsetof(vram_live_page, magic))) {
        return PAGE_GONE;
    }
    if (magic == 0) {
        return PAGE_BUSY;
    }
    for (int i = 0; i < COPIES_MAX; i++) {
        if (!sequence_read(file, &before)) {
            return PAGE_GONE;
        }
        if (before % 2 == 0) {
            if (!bytes_read(file, copy, bytes, 0) || !sequence_read(file, &after)) {
                return PAGE_GONE;
            }
            if (before == after) {
                return PAGE_READ;
            }
        }
        (void)sched_yield();
    }
    return PAGE_BUSY;
}

static void age_set(struct page_view *view) {
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    view->age_ns = ns > view->head.updated_ns ? ns - view->head.updated_ns : 0;
    view->silent = view->age_ns > SILENT_NS;
}

static enum page_state file_read(int file, struct page_view *view, const char **problem) {
    struct stat about;
    if (fstat(file, &about) != 0 || !S_ISREG(about.st_mode)) {
        *problem = "it is not a plain file";
        return PAGE_WRONG;
    }
    if (about.st_size == 0) {
        return PAGE_BUSY;
    }
    if (about.st_size < (off_t)sizeof(vram_live_page) || about.st_size > VRAM_LIVE_PAGE_BYTES_MAX) {
        *problem = "its size is not that of a live page";
        return PAGE_WRONG;
    }
    size_t bytes = (size_t)about.st_size;
    void *copy = malloc(bytes);
    if (!copy) {
        *problem = "host memory ran out";
        return PAGE_FAILED;
    }
    enum page_state state = page_copy(file, copy, bytes);
    state = state == PAGE_READ ? page_take(copy, bytes, view, problem) : state;
    free(copy);
    return state;
}

enum page_state page_read(int folder, const char *name, struct page_view *view,
                          const char **problem) {
    *view = (struct page_view){0};
    *problem = NULL;
    int file = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0) {
        *problem = errno == ENOENT ? NULL : strerror(errno);
        return errno == ENOENT ? PAGE_GONE : PAGE_FAILED;
    }
    enum page_state state = file_read(file, view, problem);
    (void)close(file);
    if (state == PAGE_READ) {
        age_set(view);
    } else {
        page_view_free(view);
    }
    return state;
}
