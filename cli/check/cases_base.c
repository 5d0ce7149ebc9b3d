/* SPDX-License-Identifier: Apache-2.0 */
/* cases_base.c: what needs no device: versions, statuses, sizes, options, host memory, JSON. */
#include "case.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The header may be another version than the library, which is why the number is read from the
   library's own text and only the major part is held against the header. */
static bool version(struct check *check) {
    unsigned major = 0, minor = 0, patch = 0;
    CHECK_THAT(check, sscanf(vram_version_text(), "%u.%u.%u", &major, &minor, &patch) == 3);
    CHECK_EQUAL(check, vram_version(), major * 1000000u + minor * 1000u + patch);
    CHECK_EQUAL(check, vram_version() / 1000000u, VRAM_VERSION_MAJOR);
    return true;
}

/* Built from the public list, so a status that is added without name or text is found here. */
static bool statuses(struct check *check) {
    static const struct {
        vram_status status;
        const char *name;
    } rows[] = {
#define ROW(name, value, text) {VRAM_##name, "VRAM_" #name},
        VRAM_STATUS_MAP(ROW)
#undef ROW
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        vram_status status = rows[i].status;
        bool exhaustion = status == VRAM_ERR_HOST_MEMORY || status == VRAM_ERR_DEVICE_MEMORY ||
                          status == VRAM_ERR_LIMIT || status == VRAM_ERR_FRAGMENTED;
        check_note(check, "%s", rows[i].name);
        CHECK_THAT(check, strcmp(vram_status_name(status), rows[i].name) == 0);
        CHECK_THAT(check, vram_status_text(status)[0] != 0);
        CHECK_THAT(check, vram_status_is_exhausted(status) == exhaustion);
    }
    CHECK_THAT(check, strcmp(vram_status_name((vram_status)-7777), "VRAM_ERR_UNKNOWN") == 0);
    CHECK_THAT(check, vram_status_text((vram_status)4242)[0] != 0);
    CHECK_THAT(check, !vram_status_is_exhausted((vram_status)-7777));
    return true;
}

/* Powers of 1024 and of 1000 are told apart by one letter; a limit that is read wrongly is
   worse than one that is refused. */
static bool sizes_read(struct check *check) {
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {{"0", 0},
                {"4096", 4096},
                {"64K", 65536},
                {"1.5GiB", 1610612736},
                {"2 MB", 2000000},
                {"1kB", 1000},
                {"18446744073709551615", UINT64_MAX}};
    static const char *const bad[] = {
        "",          " ",   "-1", "+1", "K", "1X", "1K1", "1.5.5K", "18446744073709551616",
        "16777216T", "0x10"};

    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        uint64_t bytes = CHECK_CANARY;
        check_note(check, "\"%s\"", good[i].text);
        CHECK_OK(check, vram_size_parse(good[i].text, &bytes));
        CHECK_EQUAL(check, bytes, good[i].bytes);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint64_t bytes = CHECK_CANARY;
        check_note(check, "\"%s\"", bad[i]);
        vram_status status = vram_size_parse(bad[i], &bytes);
        CHECK_THAT(check, status == VRAM_ERR_INVALID || status == VRAM_ERR_OVERFLOW);
        CHECK_EQUAL(check, bytes, CHECK_CANARY);
    }
    return true;
}

/* Powers of two are the sizes that people write, and the ones that formatting must not round. */
static bool sizes_written(struct check *check) {
    char text[VRAM_SIZE_TEXT_MAX];
    CHECK_THAT(check, strcmp(vram_size_format(512, text), "512 B") == 0);
    CHECK_THAT(check, strcmp(vram_size_format(UINT64_C(2) << 20, text), "2.00 MiB") == 0);
    for (unsigned bit = 0; bit < 64; bit++) {
        uint64_t bytes = UINT64_C(1) << bit, read = 0;
        check_note(check, "2^%u", bit);
        CHECK_OK(check, vram_size_parse(vram_size_format(bytes, text), &read));
        CHECK_EQUAL(check, read, bytes);
        CHECK_THAT(check, strlen(vram_size_format(bytes - 1, text)) < VRAM_SIZE_TEXT_MAX);
    }
    return true;
}

/* Whatever the table lists must be readable by the name it gives. */
static bool option_table(struct check *check) {
    char text[256];
    for (size_t i = 0; i < vram_option_count(); i++) {
        const vram_option_info *row = vram_option_at(i);
        vram_option_source source = (vram_option_source)99;
        CHECK_THAT(check, row != NULL && row->name[0] != 0 && row->help[0] != 0);
        check_note(check, "%s", row->name);
        CHECK_OK(check, vram_option_get(row->name, text, sizeof text, &source));
        CHECK_THAT(check, source <= VRAM_OPTION_FROM_API);
        CHECK_OK(check, vram_option_get(row->name, text, sizeof text, NULL));
    }
    CHECK_THAT(check, vram_option_count() > 0 && vram_option_at(vram_option_count()) == NULL);
    CHECK_STATUS(check, vram_option_get("no_such", text, sizeof text, NULL), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_option_get(NULL, text, sizeof text, NULL), VRAM_ERR_INVALID);
    return true;
}

/* Whoever runs the suite has set wait_timeout, and finds it as it was. */
static bool set_and_restore(struct check *check) {
    char text[64], kept[64];
    vram_option_source source;

    CHECK_OK(check, vram_option_set("wait_timeout", "250ms"));
    CHECK_OK(check, vram_option_get("wait_timeout", kept, sizeof kept, &source));
    CHECK_THAT(check, source == VRAM_OPTION_FROM_API && strstr(kept, "250") != NULL);
    CHECK_STATUS(check, vram_option_set("wait_timeout", "soon"), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_option_set("wait_timeout", "-1s"), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_option_set("wait_timeout", "999999min"), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_option_set("no_such", "1"), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_option_set(NULL, "1"), VRAM_ERR_INVALID);
    CHECK_OK(check, vram_option_get("wait_timeout", text, sizeof text, &source));
    CHECK_THAT(check, source == VRAM_OPTION_FROM_API && strcmp(text, kept) == 0);
    CHECK_OK(check, vram_option_set("wait_timeout", NULL));
    CHECK_OK(check, vram_option_get("wait_timeout", text, sizeof text, &source));
    CHECK_THAT(check, source != VRAM_OPTION_FROM_API);
    return true;
}

static bool option_set(struct check *check) {
    char text[64];
    CHECK_OK(check, vram_option_get("wait_timeout", text, sizeof text, NULL));
    bool held = set_and_restore(check);
    vram_option_set("wait_timeout", text);
    return held;
}

/* Counts what the library takes through it. */
struct counter {
    atomic_llong blocks, calls;
};

/* An allocator of the program's own, as an embedder would bring it. */
static void *counted_alloc(void *user, size_t bytes) {
    struct counter *counter = user;
    void *memory = malloc(bytes);
    atomic_fetch_add(&counter->calls, 1);
    atomic_fetch_add(&counter->blocks, memory != NULL);
    return memory;
}

static void *counted_resize(void *user, void *memory, size_t bytes) {
    struct counter *counter = user;
    void *resized = realloc(memory, bytes);
    atomic_fetch_add(&counter->blocks, memory == NULL && resized != NULL);
    return resized;
}

static void counted_free(void *user, void *memory) {
    struct counter *counter = user;
    atomic_fetch_sub(&counter->blocks, 1);
    free(memory);
}

static bool allocator_is_used(struct check *check, struct counter *counter) {
    vram_context *context;
    CHECK_CONTEXT(check, NULL, NULL, &context);
    CHECK_THAT(check, atomic_load(&counter->calls) > 0);
    check_context_end(check, context);
    return true;
}

/* Whether the library can hold nothing at all is the program's affair: where it does, the refusal
   is what there is to see. */
static bool host_allocator(struct check *check) {
    /* Static, because a library that leaks would go on using it. */
    static struct counter counter;
    vram_host_allocator whole = {&counter, counted_alloc, counted_resize, counted_free};
    vram_host_allocator half = {&counter, counted_alloc, NULL, counted_free};

    atomic_store(&counter.calls, 0);
    atomic_store(&counter.blocks, 0);
    CHECK_THAT(check, vram_host_bytes() > 0); /* this case has a context */
    CHECK_STATUS(check, vram_host_allocator_set(&whole), VRAM_ERR_BUSY);
    if (check->context != check->target->context) {
        check_context_end(check, check->context);
        check->context = NULL;
    }
    if (vram_host_bytes() != 0) {
        return true;
    }
    CHECK_STATUS(check, vram_host_allocator_set(&half), VRAM_ERR_INVALID);
    CHECK_OK(check, vram_host_allocator_set(&whole));
    bool used = allocator_is_used(check, &counter);
    for (uint32_t i = 0; i < CHECK_CONTEXTS_MAX; i++) {
        check_context_end(check, check->contexts[i]);
    }
    vram_status back = vram_host_allocator_set(NULL);
    CHECK_TRY(used);
    CHECK_OK(check, back);
    CHECK_EQUAL(check, (uint64_t)atomic_load(&counter.blocks), 0);
    return true;
}

/* A few bytes to write a report into; refuses when they are full. */
struct page {
    char text[4096];
    size_t used;
};

static bool page_write(void *user, const char *text, size_t bytes) {
    struct page *page = user;
    if (bytes >= sizeof page->text - page->used) {
        return false;
    }
    memcpy(page->text + page->used, text, bytes);
    page->text[page->used += bytes] = 0;
    return true;
}

/* A report made up here: escapes, large numbers, unknown values, and a callback that refuses. */
static bool report(struct check *check) {
    static const vram_report_format formats[] = {VRAM_REPORT_TEXT, VRAM_REPORT_JSON};
    vram_oom_report made = {.size = sizeof made,
                            .number = 1,
                            .status = VRAM_ERR_LIMIT,
                            .summary = "a\"\\\n\xff",
                            .asked_bytes = UINT64_MAX};
    static struct page page;
    for (size_t i = 0; i < 2; i++) {
        page.used = 0;
        CHECK_OK(check, vram_oom_report_write(&made, formats[i], page_write, &page));
        CHECK_THAT(check, strstr(page.text, "18446744073709551615") != NULL);
        CHECK_THAT(check, strstr(page.text, "VRAM_ERR_LIMIT") != NULL);
        CHECK_THAT(check, page.text[page.used - 1] == '\n');
        page.used = sizeof page.text - 100;
        CHECK_STATUS(check, vram_oom_report_write(&made, formats[i], page_write, &page),
                     VRAM_ERR_IO);
        CHECK_STATUS(check, vram_oom_report_write(NULL, formats[i], page_write, &page),
                     VRAM_ERR_INVALID);
        CHECK_STATUS(check, vram_oom_report_write(&made, formats[i], NULL, NULL), VRAM_ERR_INVALID);
    }
    page.used = 0;
    CHECK_OK(check, vram_oom_report_write(&made, VRAM_REPORT_JSON, page_write, &page));
    CHECK_THAT(check, strstr(page.text, "\"a\\\"\\\\\\n\xef\xbf\xbd\"") != NULL);
    CHECK_THAT(check, strstr(page.text, "\"total_bytes\": null") != NULL);
    CHECK_STATUS(check, vram_oom_report_write(&made, (vram_report_format)9, page_write, &page),
                 VRAM_ERR_INVALID);
    return true;
}

const struct check_case check_cases_base[] = {
    {"base.version", "the version as a number and as text agree", version},
    {"base.statuses",
     "every status has a name and a text, and the four kinds of exhaustion are known", statuses},
    {"base.sizes_read", "sizes with units are read exactly, and anything else is refused",
     sizes_read},
    {"base.sizes_written", "a written size is read back as the same number", sizes_written},
    {"base.option_table", "every option can be found, described and read", option_table},
    {"base.option_set", "an option takes what is in its range, refuses the rest and is restored",
     option_set},
    {"base.host_allocator", "bookkeeping goes through the program's allocator and all comes back",
     host_allocator},
    {"base.report", "a report is escaped as JSON, and a callback that refuses ends it", report},
    {NULL, NULL, NULL},
};
