/* SPDX-License-Identifier: Apache-2.0 */
/*
 * option.c: the options table.
 *
 *  (1) An option has up to three values: the default, the environment's, and the one set by the
 *      API. The current value is the last of these that exists.
 *  (2) The environment is read once, at the first use of the table, under its lock. Later changes
 *      of the environment are ignored, so a limit cannot be lifted from inside the process.
 *  (3) VRAM_<NAME> takes precedence over the same key in VRAM_CONF, and an unusable value counts as
 *      absent. Everything unusable becomes a problem that vram_option_problem returns.
 *  (4) Nothing is logged, and no error recorded, while the environment is read: that happens inside
 *      calls that succeed, and the log reads its level from this table.
 *
 * All state is static and behind one lock. Reading an option is too slow for hot paths: contexts
 * read theirs once.
 */
#include "base/option.h"

#include "base/atomic.h"
#include "base/conf.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/option_value.h"
#include "base/os/os.h"
#include "base/quota_list.h"
#include "base/text.h"

#include <assert.h>
#include <string.h>

#define PREFIX "VRAM_"

enum {
    NAME_MAX_BYTES = 48, /* of a variable's name, the final 0 included */
    PROBLEM_BYTES = 200, /* of one problem's text */
    PROBLEMS_KEPT = 24,  /* problems whose text is kept; the rest is counted */
    WHY_BYTES = 160      /* of the clause that says what is wrong with a value */
};

static const vram_option_info rows[VR_OPTION_COUNT] = {
#define ROW(ID, name, type, def, min, max, limit, choices, help)                                   \
    {name, VRAM_OPTION_##type, limit, def, min, max, help},
    VR_OPTION_MAP(ROW)
#undef ROW
};

static const char *const choices_of[VR_OPTION_COUNT] = {
#define CHOICES(ID, name, type, def, min, max, limit, choices, help) choices,
    VR_OPTION_MAP(CHOICES)
#undef CHOICES
};

/* Variables of the library that begin with VRAM_ and are not options. */
static const char *const other_variables[] = {"VRAM_CONF"};

struct value {
    bool set;
    uint64_t number; /* as vr_option_value_read makes it */
    char text[VR_OPTION_TEXT_MAX];
};

static struct {
    struct vr_mutex lock;
    bool loaded; /* the environment was read */
    struct value fallback[VR_OPTION_COUNT];
    struct value environment[VR_OPTION_COUNT];
    struct value api[VR_OPTION_COUNT];
    size_t problem_count; /* all, also those whose text is not kept */
    char problems[PROBLEMS_KEPT][PROBLEM_BYTES];
    char refusal[PROBLEM_BYTES]; /* the first that makes a value unusable; "": none */
} table = {.lock = VR_MUTEX_INIT(VR_RANK_OPTION)};

static vr_atomic_bool problems_logged;
vr_atomic_u64 vr_option_changes;

/* ---------------------------------------------------------------------- names */

static enum vr_option option_find(const char *name, size_t bytes) {
    unsigned i = 0;
    while (i < VR_OPTION_COUNT &&
           (strlen(rows[i].name) != bytes || memcmp(rows[i].name, name, bytes) != 0)) {
        i++;
    }
    return (enum vr_option)i;
}

static void variable_of(enum vr_option option, char name[NAME_MAX_BYTES]) {
    size_t at = sizeof PREFIX - 1;
    memcpy(name, PREFIX, at);
    for (const char *from = rows[option].name; *from && at < NAME_MAX_BYTES - 1; from++) {
        name[at++] = vr_text_upper(*from);
    }
    name[at] = '\0';
}

/* The option that was probably meant; VR_OPTION_COUNT if none is similar. A third of the letters
   may differ, as in hosts_memmory. */
static enum vr_option option_nearest(const char *name, size_t bytes) {
    enum vr_option best = VR_OPTION_COUNT;
    uint32_t best_distance = (uint32_t)(bytes < 3 ? 1 : 1 + bytes / 3);
    for (unsigned i = 0; i < VR_OPTION_COUNT; i++) {
        size_t row_bytes = strlen(rows[i].name);
        if ((bytes > row_bytes ? bytes - row_bytes : row_bytes - bytes) >= best_distance) {
            continue; /* each letter more or less is a difference */
        }
        uint32_t distance = vr_text_distance(name, bytes, rows[i].name);
        if (distance < best_distance) {
            best_distance = distance;
            best = (enum vr_option)i;
        }
    }
    return best;
}

/* "did you mean ...", or where to find the list if no name is similar. */
static void option_suggest(const char *name, size_t bytes, char *text, size_t text_bytes) {
    enum vr_option meant = option_nearest(name, bytes);
    if (meant != VR_OPTION_COUNT) {
        vr_text_format(text, text_bytes, "did you mean %s?", rows[meant].name);
    } else {
        vr_text_format(text, text_bytes, "`vram info --options` lists them all");
    }
}

static int shown_length(size_t bytes) {
    return bytes < 40 ? (int)bytes : 40;
}

/* --------------------------------------------------- reading the environment */

/* `refuses`: the problem is about a value, which a strict context refuses. */
static void problem_add(bool refuses, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void problem_add(bool refuses, const char *format, ...) {
    char text[PROBLEM_BYTES];
    size_t index = table.problem_count++;
    va_list arguments;
    va_start(arguments, format);
    vr_text_format_list(text, sizeof text, format, arguments);
    va_end(arguments);
    if (index < PROBLEMS_KEPT) {
        vr_text_copy(table.problems[index], PROBLEM_BYTES, text);
    }
    if (refuses && !table.refusal[0]) {
        vr_text_copy(table.refusal, PROBLEM_BYTES, text);
    }
}

/* Reads a value of the option; false: it cannot be used, and `why` is a clause that says why. */
static bool value_read(enum vr_option option, const char *text, uint64_t *number,
                       char why[WHY_BYTES]) {
    return vr_option_value_read(&rows[option], choices_of[option], text, number, why, WHY_BYTES) &&
           (option != VR_OPTION_QUOTAS || vr_quota_list_check(text, why, WHY_BYTES));
}

static void value_put(struct value *value, uint64_t number, const char *text) {
    value->set = true;
    value->number = number;
    vr_text_copy(value->text, sizeof value->text, text);
}

/* Sets an option's value from the environment, or records why it cannot be used. */
static void option_assign(enum vr_option option, const char *origin, const char *text) {
    char why[WHY_BYTES];
    uint64_t number;
    if (value_read(option, text, &number, why)) {
        value_put(&table.environment[option], number, text);
    } else {
        problem_add(true, "%s: %s", origin, why);
    }
}

/* An unknown key of VRAM_CONF. After an unquoted text value it is probably a part of that text, as
   in sim=devices=2,memory=8G, unless it is similar to an option's name. */
static void unknown_key(const struct vr_conf_entry *entry, const struct vr_conf_entry *before) {
    enum vr_option last = option_find(before->key, before->key_bytes);
    bool torn = last != VR_OPTION_COUNT && rows[last].type == VRAM_OPTION_TEXT &&
                choices_of[last][0] == '\0' && !before->quoted;
    char hint[WHY_BYTES];
    if (table.problem_count >= PROBLEMS_KEPT && table.refusal[0]) {
        table.problem_count++; /* its text would not be kept */
        return;
    }
    if (torn && option_nearest(entry->key, entry->key_bytes) == VR_OPTION_COUNT) {
        vr_text_format(hint, sizeof hint, "a value with commas needs quotes, as in %s=\"a,b\"",
                       rows[last].name);
    } else {
        option_suggest(entry->key, entry->key_bytes, hint, sizeof hint);
    }
    problem_add(true, "VRAM_CONF: unknown option \"%.*s\"; %s", shown_length(entry->key_bytes),
                entry->key, hint);
}

static void read_entry(const struct vr_conf_entry *entry, enum vr_option option) {
    char origin[NAME_MAX_BYTES + 16];
    char text[2 * VR_OPTION_TEXT_MAX];
    vr_text_format(origin, sizeof origin, "VRAM_CONF: %s", rows[option].name);
    /* A value longer than the buffer exceeds every option's limit, truncated or not. */
    size_t bytes = entry->value_bytes < sizeof text ? entry->value_bytes : sizeof text - 1;
    memcpy(text, entry->value, bytes);
    text[bytes] = '\0';
    option_assign(option, origin, text);
}

static void read_conf(const char *conf) {
    struct vr_conf_entry entry, before = {.key = ""};
    bool seen[VR_OPTION_COUNT] = {false};
    for (; vr_conf_next(&conf, &entry); before = entry) {
        enum vr_option option = option_find(entry.key, entry.key_bytes);
        if (option == VR_OPTION_COUNT) {
            unknown_key(&entry, &before);
            entry.key = before.key; /* further fragments belong to the same text */
            entry.key_bytes = before.key_bytes;
            entry.quoted = before.quoted;
            continue;
        }
        if (entry.problem) {
            problem_add(true, "VRAM_CONF: %s %s", rows[option].name, entry.problem);
            continue;
        }
        if (seen[option]) {
            problem_add(false, "VRAM_CONF: %s is set twice; the last one counts",
                        rows[option].name);
        }
        seen[option] = true;
        read_entry(&entry, option);
    }
}

static void read_variables(void) {
    for (unsigned i = 0; i < VR_OPTION_COUNT; i++) {
        char name[NAME_MAX_BYTES];
        variable_of((enum vr_option)i, name);
        const char *text = vr_os_environment(name);
        if (text) {
            option_assign((enum vr_option)i, name, text);
        }
    }
}

/* Whether the first `bytes` bytes of `variable` name an option or another variable of ours. */
static bool is_ours(const char *variable, size_t bytes) {
    char name[NAME_MAX_BYTES];
    for (unsigned i = 0; i < VR_OPTION_COUNT; i++) {
        variable_of((enum vr_option)i, name);
        if (strlen(name) == bytes && memcmp(name, variable, bytes) == 0) {
            return true;
        }
    }
    for (size_t i = 0; i < sizeof other_variables / sizeof other_variables[0]; i++) {
        if (strlen(other_variables[i]) == bytes &&
            memcmp(other_variables[i], variable, bytes) == 0) {
            return true;
        }
    }
    return false;
}

static void unknown_variable(const char *variable, size_t bytes) {
    char name[NAME_MAX_BYTES] = "";
    size_t prefix = strlen(PREFIX);
    for (size_t i = prefix; i < bytes && i - prefix < sizeof name - 1; i++) {
        name[i - prefix] = vr_text_lower(variable[i]);
    }
    enum vr_option meant = option_nearest(name, strlen(name));
    if (meant == VR_OPTION_COUNT) {
        problem_add(false, "%.*s: unknown variable", shown_length(bytes), variable);
        return;
    }
    variable_of(meant, name);
    problem_add(false, "%.*s: unknown variable; did you mean %s?", shown_length(bytes), variable,
                name);
}

static void find_unknown_variables(char **all) {
    for (; all && *all; all++) {
        size_t bytes = strcspn(*all, "=");
        if (strncmp(*all, PREFIX, strlen(PREFIX)) == 0 && !is_ours(*all, bytes)) {
            unknown_variable(*all, bytes);
        }
    }
}

static void read_defaults(void) {
    for (unsigned i = 0; i < VR_OPTION_COUNT; i++) {
        char why[WHY_BYTES];
        uint64_t number = 0;
        bool good = value_read((enum vr_option)i, rows[i].default_text, &number, why);
        assert(good && "a default in VR_OPTION_MAP is not accepted by its own row");
        (void)good;
        value_put(&table.fallback[i], number, rows[i].default_text);
    }
}

/* Locks the table and keeps (2). */
static void open_table(void) {
    vr_mutex_lock(&table.lock);
    if (!table.loaded) {
        const char *conf = vr_os_environment("VRAM_CONF");
        read_defaults();
        read_conf(conf ? conf : "");
        read_variables();
        find_unknown_variables(vr_os_environment_all());
        table.loaded = true;
    }
}

static void close_table(void) {
    vr_mutex_unlock(&table.lock);
}

/* -------------------------------------------------------------- inside the library */

/* The current value: see (1). The table is open. */
static const struct value *option_current(enum vr_option option, vram_option_source *source) {
    if (table.api[option].set) {
        *source = VRAM_OPTION_FROM_API;
        return &table.api[option];
    }
    if (table.environment[option].set) {
        *source = VRAM_OPTION_FROM_ENVIRONMENT;
        return &table.environment[option];
    }
    *source = VRAM_OPTION_FROM_DEFAULT;
    return &table.fallback[option];
}

uint64_t vr_option_number(enum vr_option option) {
    vram_option_source source;
    open_table();
    uint64_t number = option_current(option, &source)->number;
    close_table();
    return number;
}

bool vr_option_environment(enum vr_option option, uint64_t *number) {
    open_table();
    bool set = table.environment[option].set;
    *number = set ? table.environment[option].number : 0;
    close_table();
    return set;
}

void vr_option_environment_text(enum vr_option option, char text[VR_OPTION_TEXT_MAX]) {
    open_table();
    vr_text_copy(text, VR_OPTION_TEXT_MAX,
                 table.environment[option].set ? table.environment[option].text : "");
    close_table();
}

void vr_option_text(enum vr_option option, char text[VR_OPTION_TEXT_MAX]) {
    vram_option_source source;
    open_table();
    vr_text_copy(text, VR_OPTION_TEXT_MAX, option_current(option, &source)->text);
    close_table();
}

bool vr_option_problems_claim(void) {
    return !vr_exchange(&problems_logged, true, VR_RELAXED);
}

vram_status vr_option_check(void) {
    VR_OPERATION("vram_context_create");
    char text[PROBLEM_BYTES] = "";
    vram_option_source source;
    open_table();
    if (option_current(VR_OPTION_STRICT, &source)->number) {
        vr_text_copy(text, sizeof text, table.refusal);
    }
    close_table();
    return !text[0] ? VRAM_OK
                    : vr_fail(VRAM_ERR_INVALID,
                              "%s (correct it, or set VRAM_STRICT=off to run without it)", text);
}

void vr_option_reset(void) {
    vr_mutex_lock(&table.lock);
    memset(table.environment, 0, sizeof table.environment);
    memset(table.api, 0, sizeof table.api);
    table.problem_count = 0;
    table.refusal[0] = '\0';
    table.loaded = false;
    vr_mutex_unlock(&table.lock);
    vr_store(&problems_logged, false, VR_RELAXED);
    vr_fetch_add(&vr_option_changes, 1, VR_RELAXED);
}

/* -------------------------------------------------------------------- the API */

size_t vram_option_count(void) {
    return VR_OPTION_COUNT;
}

const vram_option_info *vram_option_at(size_t index) {
    return index < VR_OPTION_COUNT ? &rows[index] : NULL;
}

/* The option, or VR_OPTION_COUNT with VRAM_ERR_INVALID and a suggestion recorded. */
static enum vr_option find_named(const char *name, const char *operation) {
    if (!name) {
        vr_fail_in(VRAM_ERR_INVALID, operation, "the name is NULL");
        return VR_OPTION_COUNT;
    }
    enum vr_option option = option_find(name, strlen(name));
    if (option == VR_OPTION_COUNT) {
        char hint[WHY_BYTES];
        option_suggest(name, strlen(name), hint, sizeof hint);
        vr_fail_in(VRAM_ERR_INVALID, operation, "unknown option \"%.40s\"; %s", name, hint);
    }
    return option;
}

/* Whether the environment forbids a limit of `number`, where 0 means no limit. */
static bool above_ceiling(enum vr_option option, uint64_t number) {
    const struct value *ceiling = &table.environment[option];
    bool limited = rows[option].is_limit && ceiling->set && ceiling->number != 0;
    return limited && (number == 0 || number > ceiling->number);
}

vram_status vram_option_set(const char *name, const char *text) {
    VR_CALL;
    enum vr_option option = find_named(name, vr_operation());
    vram_status status = VRAM_OK;
    uint64_t number = 0;
    char why[WHY_BYTES];
    if (option == VR_OPTION_COUNT) {
        return VRAM_ERR_INVALID;
    }
    if (text && !value_read(option, text, &number, why)) {
        return vr_fail(VRAM_ERR_INVALID, "%s: %s", name, why);
    }
    open_table();
    if (!text) {
        table.api[option].set = false;
    } else if (!above_ceiling(option, number)) {
        value_put(&table.api[option], number, text);
    } else {
        status = vr_fail(VRAM_ERR_LIMIT,
                         "%s: \"%.40s\" is above the environment's limit; at most %s is accepted",
                         name, text, table.environment[option].text);
    }
    close_table();
    vr_fetch_add(&vr_option_changes, 1, VR_RELAXED);
    return status;
}

vram_status vram_option_get(const char *name, char *text, size_t text_bytes,
                            vram_option_source *source) {
    enum vr_option option = find_named(name, "vram_option_get");
    vram_option_source from;
    if (option == VR_OPTION_COUNT) {
        return VRAM_ERR_INVALID;
    }
    open_table();
    const struct value *value = option_current(option, &from);
    if (text) {
        vr_text_copy(text, text_bytes, value->text);
    }
    close_table();
    if (source) {
        *source = from;
    }
    return VRAM_OK;
}

size_t vr_option_problem(size_t index, char *text, size_t text_bytes) {
    open_table();
    size_t all = table.problem_count;
    size_t count = all <= PROBLEMS_KEPT ? all : PROBLEMS_KEPT + 1;
    if (text && index < count && index < PROBLEMS_KEPT) {
        vr_text_copy(text, text_bytes, table.problems[index]);
    } else if (text && index < count) {
        vr_text_format(text, text_bytes, "and %zu further problems in VRAM_* variables",
                       all - PROBLEMS_KEPT);
    }
    close_table();
    return count;
}

size_t vram_option_problem(size_t index, char *text, size_t text_bytes) {
    return vr_option_problem(index, text, text_bytes);
}
