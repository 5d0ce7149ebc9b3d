/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_limit_source.c: a limit refuses a request; the report names the setting in force, and who
 * follows its advice to the letter gets the memory. Every limit, from every place where it can be
 * set.
 */
#include "byte_units.h"
#include "unit/device_world.h"
#include "vram/limits.h"
#include "vram/oom.h"

#include <stdlib.h>

#define NONE VRAM_LIMIT_NONE

/* What is set, and where. The device has 4 GiB. */
struct setting {
    const char *variable, *value;      /* in the environment; NULL: nothing */
    const char *option, *option_value; /* by vram_option_set; NULL: nothing */
    struct vram_limits device, pool;   /* by their calls; all 0: not called */
    const char *name;                  /* that the report must give for the limit */
};

static const struct setting settings[] = {
    {.pool = {.hard_bytes = GIB}, .name = "hard_bytes of the pool"},
    {.variable = "VRAM_POOL_LIMIT", .value = "1G", .name = "VRAM_POOL_LIMIT"},
    {.variable = "VRAM_CONF", .value = "pool_limit=1G", .name = "VRAM_POOL_LIMIT"},
    {.option = "pool_limit", .option_value = "1G", .name = "hard_bytes of the pool"},
    {.variable = "VRAM_POOL_LIMIT",
     .value = "2G",
     .pool = {.hard_bytes = GIB},
     .name = "hard_bytes of the pool"},
    {.variable = "VRAM_POOL_LIMIT",
     .value = "1G",
     .pool = {.hard_bytes = 2 * GIB},
     .name = "VRAM_POOL_LIMIT"},
    {.device = {.hard_bytes = GIB}, .name = "hard_bytes of the device"},
    {.variable = "VRAM_DEVICE_LIMIT", .value = "1G", .name = "VRAM_DEVICE_LIMIT"},
    {.option = "device_limit", .option_value = "1G", .name = "option device_limit"},
    {.variable = "VRAM_DEVICE_LIMIT",
     .value = "3G",
     .device = {.hard_bytes = GIB},
     .name = "hard_bytes of the device"},
    {.pool = {.fraction = 0.25}, .name = "fraction of the pool"},
    {.device = {.fraction = 0.25}, .name = "fraction of the device"},
    {.device = {.fraction = 0.25}, .pool = {.fraction = 0.9}, .name = "fraction of the device"},
    {.variable = "VRAM_MEMORY_FRACTION", .value = "0.25", .name = "VRAM_MEMORY_FRACTION"},
    {.option = "memory_fraction", .option_value = "0.25", .name = "fraction of the pool"},
    {.variable = "VRAM_PRESET", .value = "constrained", .name = "VRAM_PRESET"},
    {.option = "preset", .option_value = "constrained", .name = "fraction of the pool"},
    {.pool = {.min_free_bytes = 3 * GIB}, .name = "min_free_bytes of the pool"},
    {.device = {.min_free_bytes = 3 * GIB}, .name = "min_free_bytes of the device"},
    {.variable = "VRAM_MIN_FREE", .value = "3G", .name = "VRAM_MIN_FREE"},
    {.option = "min_free", .option_value = "3G", .name = "min_free_bytes of the pool"},
};

struct attempt {
    struct rig rig;
    vram_pool *pool;
};

static bool is_set(const struct vram_limits *limits) {
    return limits->hard_bytes || limits->fraction > 0 || limits->min_free_bytes;
}

static vram_status alloc_on(struct attempt *attempt, uint64_t bytes) {
    vram_addr addr = 0;
    return vram_alloc(attempt->pool, bytes, attempt->rig.queue, &addr);
}

static void clean_environment(void) {
    static const char *const names[] = {"VRAM_POOL_LIMIT", "VRAM_DEVICE_LIMIT",
                                        "VRAM_CONF",       "VRAM_MEMORY_FRACTION",
                                        "VRAM_PRESET",     "VRAM_MIN_FREE"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        unsetenv(names[i]);
    }
}

static struct attempt attempt_begin(const struct setting *setting) {
    struct attempt attempt;
    clean_environment();
    if (setting->variable) {
        setenv(setting->variable, setting->value, 1);
    }
    vr_option_reset();
    if (setting->option) {
        assert_ok(vram_option_set(setting->option, setting->option_value));
    }
    attempt.rig = rig_make("sim", "memory=4G");
    if (is_set(&setting->device)) {
        vram_limits limits = setting->device;
        limits.size = sizeof limits;
        assert_ok(vram_device_limits_set(attempt.rig.device, &limits));
    }
    assert_ok(vram_pool_create(attempt.rig.device, NULL, &attempt.pool));
    if (is_set(&setting->pool)) {
        vram_limits limits = setting->pool;
        limits.size = sizeof limits;
        assert_ok(vram_pool_limits_set(attempt.pool, &limits));
    }
    return attempt;
}

static bool says(const vram_oom_report *report, const char *words) {
    return strstr(report->advice, words) != NULL;
}

/* The limits, with the one that the advice names lifted. */
static vram_limits lifted(vram_limits limits, const vram_oom_report *report) {
    limits.size = sizeof limits;
    limits.hard_bytes = says(report, "raise hard_bytes") ? NONE : limits.hard_bytes;
    limits.fraction = says(report, "raise fraction") ? 1 : limits.fraction;
    limits.min_free_bytes = says(report, "lower min_free_bytes") ? NONE : limits.min_free_bytes;
    return limits;
}

/* Begins again with the variable that the advice names. */
static void set_variable_and_restart(struct attempt *attempt, struct setting setting,
                                     const vram_oom_report *report) {
    static const char *const rows[][2] = {{"VRAM_POOL_LIMIT", "4G"},
                                          {"VRAM_DEVICE_LIMIT", "4G"},
                                          {"VRAM_MEMORY_FRACTION", "1"},
                                          {"VRAM_MIN_FREE", "1M"}};
    rig_end_clean(&attempt->rig);
    setting.variable = NULL;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (says(report, rows[i][0])) {
            setting.variable = rows[i][0];
            setting.value = rows[i][1];
        }
    }
    assert_non_null(setting.variable);
    *attempt = attempt_begin(&setting);
}

static void obey(struct attempt *attempt, const struct setting *setting,
                 const vram_oom_report *report) {
    if (says(report, "vram_pool_limits_set")) {
        vram_limits limits = lifted(setting->pool, report);
        assert_ok(vram_pool_limits_set(attempt->pool, &limits));
    } else if (says(report, "vram_device_limits_set")) {
        vram_limits limits = lifted(setting->device, report);
        assert_ok(vram_device_limits_set(attempt->rig.device, &limits));
    } else if (says(report, "vram_option_set")) {
        struct setting other = *setting;
        assert_true(says(report, other.option));
        other.option_value = "0";
        rig_end_clean(&attempt->rig);
        *attempt = attempt_begin(&other);
    } else {
        assert_true(says(report, "in the environment"));
        set_variable_and_restart(attempt, *setting, report);
    }
}

TEST(advice_helps) {
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        const struct setting *setting = &settings[i];
        bool preset = strcmp(setting->name, "VRAM_PRESET") == 0 ||
                      (setting->option && strcmp(setting->option, "preset") == 0);
        uint64_t bytes = preset ? 3 * GIB : GIB + GIB / 2;
        struct attempt attempt = attempt_begin(setting);
        vram_oom_report report = {.size = sizeof report};
        assert_int_equal(alloc_on(&attempt, bytes), VRAM_ERR_LIMIT);
        assert_non_null(strstr(vram_error_get()->text, setting->name));
        assert_ok(vram_oom_report_get(attempt.pool, &report));
        assert_int_equal(report.cause, VRAM_OOM_LIMIT);
        assert_string_equal(report.limit_name, setting->name);
        obey(&attempt, setting, &report);
        if (alloc_on(&attempt, bytes) != VRAM_OK) {
            fail_msg("setting %zu (%s): \"%s\" does not help: %s", i, setting->name, report.advice,
                     vram_error_get()->text);
        }
        rig_end_clean(&attempt.rig);
    }
    clean_environment();
    vr_option_reset();
}
