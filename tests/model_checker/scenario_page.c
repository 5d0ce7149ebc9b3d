/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scenario_page.c: the live page, written by core/live/page_image.c and read by
 * cli/live/page_view.c. The file has five words that matter. Writing and reading it are relaxed
 * stores and loads of these: the system promises no more for write and pread.
 */
#include "explore_scenario.h"

#include "explore_checker.h"

#include <sched.h>
#include <sys/types.h>
#include <unistd.h>

static ssize_t explored_pread(int file, void *into, size_t bytes, off_t offset);
static int explored_sched_yield(void);

/* The reader itself, since what copies a page is not visible outside. */
#define pread       explored_pread
#define sched_yield explored_sched_yield
#include "live/page_view.c"
#undef pread
#undef sched_yield

#include "base/os/os.h"
#include "base/os/page_file.h"
#include "base/text.h"
#include "core/live/page_image.h"

static vr_atomic_u64 magic_word, constant_word, sequence_word, first_word, last_word;
static const struct file_word {
    size_t offset;
    vr_atomic_u64 *word;
} file_words[] = {{offsetof(vram_live_page, magic), &magic_word},
                  {offsetof(vram_live_page, start_ticks), &constant_word},
                  {offsetof(vram_live_page, sequence), &sequence_word},
                  {offsetof(vram_live_page, updated_ns), &first_word},
                  {offsetof(vram_live_page, updates), &last_word}};
enum { FILE_WORDS = sizeof file_words / sizeof file_words[0] };

static bool is_inside(const struct file_word *word, size_t offset, size_t bytes) {
    return word->offset >= offset && word->offset + sizeof(uint64_t) <= offset + bytes;
}

vram_status vr_os_file_write(int fd, uint64_t offset, const void *from, uint64_t bytes) {
    (void)fd;
    for (unsigned i = 0; i < FILE_WORDS; i++) {
        if (is_inside(&file_words[i], offset, bytes)) {
            uint64_t value;
            memcpy(&value, (const char *)from + file_words[i].offset - offset, sizeof value);
            vr_store(file_words[i].word, value, VR_RELAXED);
        }
    }
    return VRAM_OK;
}

vram_status vr_os_file_read(int fd, uint64_t offset, void *to, uint64_t bytes) {
    (void)fd;
    for (unsigned i = 0; i < FILE_WORDS; i++) {
        if (is_inside(&file_words[i], offset, bytes)) {
            uint64_t value = vr_load(file_words[i].word, VR_RELAXED);
            memcpy((char *)to + file_words[i].offset - offset, &value, sizeof value);
        }
    }
    return VRAM_OK;
}

static ssize_t explored_pread(int file, void *into, size_t bytes, off_t offset) {
    (void)vr_os_file_read(file, (uint64_t)offset, into, bytes);
    return (ssize_t)bytes;
}

static int explored_sched_yield(void) {
    explore_yield();
    return 0;
}

vram_status vr_page_file_create(struct vr_page_file *file, uint64_t bytes) {
    (void)file;
    (void)bytes;
    return VRAM_OK;
}

vram_status vr_page_file_open(const struct vr_page_file *file, int *fd) {
    (void)file;
    *fd = 0;
    return VRAM_OK;
}

void vr_os_file_close(int fd) {
    (void)fd;
}

/* ---------------------------------------------------------------- scenarios */

static struct vr_page_image image, packed;
static struct vr_page_file file;
static vram_live_page copy;

static void page_update(uint64_t number) {
    uint32_t request = 0;
    image.head.updated_ns = image.head.updates = number;
    CHECK(vr_page_image_write(&image, &packed, &file, &request) == VRAM_OK);
}

static void writer(void) {
    page_update(1);
}

static void writer_of_two(void) {
    page_update(1);
    page_update(2);
}

void vr_os_command_line(char *text, size_t bytes) {
    (void)bytes;
    text[0] = 0;
}

void vr_text_clean(char *text) {
    (void)text;
}

enum { START = 3 };

static void creator(void) {
    file.process.start_ticks = START;
    CHECK(vr_page_image_create(&image, &file, 1) == VRAM_OK);
}

/* A page is complete once its magic is there. */
static void first_reader(void) {
    if (page_copy(0, &copy, sizeof copy) == PAGE_READ) {
        CHECK(copy.magic == VRAM_LIVE_PAGE_MAGIC && copy.start_ticks == START);
    }
}

/* A page that was read is of one update. */
static void page_reader(void) {
    if (page_copy(0, &copy, sizeof copy) == PAGE_READ) {
        CHECK(copy.sequence % 2 == 0 && copy.updated_ns == copy.updates);
        CHECK(copy.updates == copy.sequence / 2);
    }
}

const struct scenario page_scenarios[] = {
    {"live page", "an update beside a reader", creator, {writer, page_reader}, NULL, false},
    {"live page", "two updates beside a reader", creator, {writer_of_two, page_reader}, NULL, true},
    {"live page", "a new page beside a reader", NULL, {creator, first_reader}, NULL, false},
    {.name = NULL}};
