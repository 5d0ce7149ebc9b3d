/* SPDX-License-Identifier: Apache-2.0 */
/* The options table: the API, VRAM_CONF, the VRAM_* variables, ceilings, problems. */
#include "base/option.h"

#include "base/log.h"
#include "base/memory.h"
#include "base/option_value.h"
#include "rig/rig.h"
#include "vram/device.h"
#include "vram/sim.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

/* Starts every test without a VRAM_* variable, whatever the shell had. */
static int clean(void) {
    for (char **all = environ; *all;) {
        char name[256];
        size_t bytes = strcspn(*all, "=");
        if (strncmp(*all, "VRAM_", 5) != 0 || bytes >= sizeof name) {
            all++;
            continue;
        }
        memcpy(name, *all, bytes);
        name[bytes] = '\0';
        unsetenv(name);
        all = environ;
    }
    vram_log_set(NULL, NULL, VRAM_LOG_OFF);
    vr_option_reset();
    vram_error_clear();
    return 0;
}

static void assert_value(const char *name, const char *expected, vram_option_source from) {
    char text[VR_OPTION_TEXT_MAX] = "?";
    vram_option_source source = (vram_option_source)-1;
    assert_int_equal(vram_option_get(name, text, sizeof text, &source), VRAM_OK);
    assert_string_equal(text, expected);
    assert_int_equal(source, from);
}

static void assert_refused(vram_status status, const char *name, const char *text,
                           const char *told) {
    vram_error_clear();
    if (vram_option_set(name, text) != status) {
        fail_msg("%s=%s was not refused as %s", name, text, vram_status_name(status));
    }
    assert_int_equal(vram_error_get()->status, status);
    assert_string_equal(vram_error_get()->operation, "vram_option_set");
    if (!strstr(vram_error_get()->text, told)) {
        fail_msg("\"%s\" does not say \"%s\"", vram_error_get()->text, told);
    }
}

/* Whether one of the problems contains `told`. */
static bool has_problem(const char *told) {
    char text[256];
    for (size_t i = 0; i < vram_option_problem(i, text, sizeof text); i++) {
        if (strstr(text, told)) {
            return true;
        }
    }
    return false;
}

static void assert_problem(const char *told) {
    char text[256];
    if (!has_problem(told)) {
        for (size_t i = 0; i < vram_option_problem(i, text, sizeof text); i++) {
            print_message("problem: %s\n", text);
        }
        fail_msg("no problem says \"%s\"", told);
    }
}

static size_t problems(void) {
    return vram_option_problem(0, NULL, 0);
}

static void set_variable(const char *name, const char *text) {
    assert_int_equal(setenv(name, text, 1), 0);
    vr_option_reset();
}

/* ------------------------------------------------------------------------ strict */

/* What an operator wrote and nobody can use stops the program, in words; with strict=off, or if the
   variable may be another program's, it is only a problem. */
TEST(unusable_values_refuse_a_context) {
    static const char *const rows_of[][3] = {
        {"VRAM_DEVICE_LIMIT", "64Q", "VRAM_DEVICE_LIMIT: \"64Q\" is not a size"},
        {"VRAM_QUOTAS", "tenant=xyz", "VRAM_QUOTAS: \"tenant=xyz\" has an unreadable size"},
        {"VRAM_MEMORY_FRACTION", "0.01", "\"0.01\" is out of range; accepted: 0.1 to 1"},
        {"VRAM_LADDER", "drain,jump", "\"jump\" is none of"},
        {"VRAM_LADDER", "none,drain", "stands beside other words"},
        {"VRAM_LADDER", "drain,drain", "listed twice"},
        {"VRAM_CONF", "device_limi=4G", "did you mean device_limit?"},
        {"VRAM_CONF", "wait_timeout", "wait_timeout has no value"},
        {"VRAM_STRICT", "perhaps", "VRAM_STRICT: \"perhaps\" is neither on nor off"},
    };
    for (size_t i = 0; i < sizeof rows_of / sizeof rows_of[0]; i++) {
        vram_context *context = NULL;
        set_variable(rows_of[i][0], rows_of[i][1]);
        assert_int_equal(vram_context_create(NULL, &context), VRAM_ERR_INVALID);
        assert_null(context);
        assert_non_null(strstr(vram_error_get()->text, rows_of[i][2]));
        assert_string_equal(vram_error_get()->operation, "vram_context_create");
        assert_int_equal(vram_option_set("strict", "off"), VRAM_OK);
        assert_int_equal(vram_context_create(NULL, &context), VRAM_OK);
        assert_int_equal(vram_context_destroy(context), VRAM_OK);
        assert_true(problems() > 0);
        unsetenv(rows_of[i][0]);
    }
    vram_context *context = NULL;
    set_variable("VRAM_OF_ANOTHER_PROGRAM", "1");
    assert_int_equal(problems(), 1);
    assert_int_equal(vram_context_create(NULL, &context), VRAM_OK);
    assert_int_equal(vram_context_destroy(context), VRAM_OK);
}

/* ------------------------------------------------------------------ the table */

TEST(rows_are_whole) {
    assert_int_equal(vram_option_count(), VR_OPTION_COUNT);
    for (size_t i = 0; i < vram_option_count(); i++) {
        const vram_option_info *row = vram_option_at(i);
        assert_non_null(row);
        assert_true(strlen(row->name) > 0 && strlen(row->help) > 10);
        assert_int_equal(strspn(row->name, "abcdefghijklmnopqrstuvwxyz_"), strlen(row->name));
        assert_value(row->name, row->default_text, VRAM_OPTION_FROM_DEFAULT);
        for (size_t j = 0; j < i; j++) {
            assert_string_not_equal(row->name, vram_option_at(j)->name);
        }
    }
    assert_null(vram_option_at(vram_option_count()));
    assert_null(vram_option_at(SIZE_MAX));
    assert_int_equal(problems(), 0);
}

TEST(sets_gets_and_restores) {
    char text[VR_OPTION_TEXT_MAX];
    assert_int_equal(vram_option_set("wait_timeout", "1.5s"), VRAM_OK);
    assert_value("wait_timeout", "1.5s", VRAM_OPTION_FROM_API);
    assert_true(vr_option_number(VR_OPTION_WAIT_TIMEOUT) == UINT64_C(1500000000));
    assert_int_equal(vram_option_set("sim", "devices=2,memory=8G"), VRAM_OK);
    vr_option_text(VR_OPTION_SIM, text);
    assert_string_equal(text, "devices=2,memory=8G");
    assert_int_equal(vram_option_set("device_limit", "2G"), VRAM_OK);
    assert_true(vr_option_number(VR_OPTION_DEVICE_LIMIT) == UINT64_C(2) << 30);

    assert_int_equal(vram_option_set("wait_timeout", NULL), VRAM_OK);
    assert_value("wait_timeout", "60s", VRAM_OPTION_FROM_DEFAULT);
    assert_int_equal(vram_option_set("wait_timeout", NULL), VRAM_OK);
    assert_int_equal(vram_error_get()->status, VRAM_OK);
    assert_int_equal(vr_mem_live_blocks(), 0); /* the table owns no memory */
}

TEST(refusals_say_what_is_accepted) {
    static const char *const rows[][3] = {
        {NULL, "1", "NULL"},
        {"wait_timout", "1s", "did you mean wait_timeout?"},
        {"Log", "warn", "did you mean log?"},
        {"smi", "", "did you mean sim?"},
        {"zzzzzzzz", "1", "`vram info --options` lists them"},
        {"", "1", "vram info --options"},
        {"x\n\x1b[31m", "1", "\"x??[31m\""},
        {"wait_timeout", "5", "needs a unit: ns, us, ms, s or min"},
        {"wait_timeout", "1.5", "needs a unit"},
        {"wait_timeout", "soon", "is not a duration"},
        {"wait_timeout", "", "is not a duration"},
        {"wait_timeout", "-1s", "is not a duration"},
        {"wait_timeout", "0", "accepted: 1ns to 60min"},
        {"wait_timeout", "61min", "accepted: 1ns to 60min"},
        {"wait_timeout", "99999999999999999999s", "out of range"},
        {"device_limit", "much", "is not a size"},
        {"device_limit", "17E", "out of range"},
        {"log", "loud", "none of: off, error, warn, info, debug"},
        {"log", "warn,info", "none of: off"},
        {"log", "war", "none of: off"},
        {"poison", "streams", ", and is none of: stream"},
        {"cuda_library", "a\nb", "control character at byte 1"},
        {"cuda_library", "\x7f", "control character at byte 0"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_refused(VRAM_ERR_INVALID, rows[i][0], rows[i][1], rows[i][2]);
    }
    assert_value("wait_timeout", "60s", VRAM_OPTION_FROM_DEFAULT);
    assert_value("log", "", VRAM_OPTION_FROM_DEFAULT);
    char text[8] = "kept";
    vram_option_source source = VRAM_OPTION_FROM_API;
    assert_int_equal(vram_option_get("nothing", text, sizeof text, &source), VRAM_ERR_INVALID);
    assert_int_equal(vram_option_get(NULL, text, sizeof text, &source), VRAM_ERR_INVALID);
    assert_string_equal(text, "kept");
    assert_int_equal(source, VRAM_OPTION_FROM_API);
}

TEST(text_has_255_bytes) {
    char long_text[VR_OPTION_TEXT_MAX + 1], small[5] = "????";
    memset(long_text, 'x', sizeof long_text);
    long_text[VR_OPTION_TEXT_MAX] = '\0';
    assert_refused(VRAM_ERR_INVALID, "sim", long_text, "256 bytes; at most 255");
    memset(long_text, '0', VR_OPTION_TEXT_MAX);
    assert_refused(VRAM_ERR_INVALID, "device_limit", long_text, "at most 255");
    memset(long_text, 'x', VR_OPTION_TEXT_MAX);
    long_text[VR_OPTION_TEXT_MAX - 1] = '\0';
    assert_int_equal(vram_option_set("sim", long_text), VRAM_OK);
    assert_value("sim", long_text, VRAM_OPTION_FROM_API);

    assert_int_equal(vram_option_get("sim", small, sizeof small, NULL), VRAM_OK);
    assert_string_equal(small, "xxxx");
    assert_int_equal(vram_option_get("sim", small, 0, NULL), VRAM_OK);
    assert_string_equal(small, "xxxx");
    assert_int_equal(vram_option_get("sim", NULL, 100, NULL), VRAM_OK);
}

/* --------------------------------------------------------- values of all types */

/* Read by an option that takes 2 to 100000; without `told` it is `number`. */
TEST(reads_values_of_every_type) {
    static const struct {
        vram_option_type type;
        const char *text, *told;
        uint64_t number;
    } rows[] = {
        {VRAM_OPTION_BOOL, "on|ON|true|True|yes|1", NULL, 1},
        {VRAM_OPTION_BOOL, "off|Off|false|no|NO|0", NULL, 0},
        {VRAM_OPTION_BOOL, "|o|onn|2|yes |tru|enable", "neither on nor off", 0},
        {VRAM_OPTION_INTEGER, "2", NULL, 2},
        {VRAM_OPTION_INTEGER, "00100000", NULL, 100000},
        {VRAM_OPTION_INTEGER,
         "1|100001|18446744073709551616|18446744073709551618|999999999999999999999999",
         "accepted: 2 to 100000", 0},
        {VRAM_OPTION_INTEGER, "|-3|3K|1.5", "not a whole number", 0},
        {VRAM_OPTION_SIZE, "1.5K", NULL, 1536},
        {VRAM_OPTION_SIZE, "1", "accepted: 2 to 100000", 0},
        {VRAM_OPTION_DURATION, "100us", NULL, 100000},
        {VRAM_OPTION_DURATION, "1ms", "accepted: 2ns to 100us", 0},
        {VRAM_OPTION_FRACTION, "0.05", NULL, 50000},
        {VRAM_OPTION_FRACTION, ".1", NULL, 100000},
        {VRAM_OPTION_FRACTION, "7.5%", NULL, 75000},
        {VRAM_OPTION_FRACTION, "0.0123456789", NULL, 12345}, /* finer than it counts */
        {VRAM_OPTION_FRACTION, "3.%", NULL, 30000},
        {VRAM_OPTION_FRACTION, "0|0.100001|99999999999999999999999", "accepted: 2e-06 to 0.1", 0},
        {VRAM_OPTION_FRACTION, "|.|%|-0.5|nan|inf|0,5|5 %|1e-2", "not a fraction", 0},
        {VRAM_OPTION_TEXT, "anything \xFF", NULL, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const vram_option_info row = {"x", rows[i].type, false, "", 2, 100000, ""};
        for (const char *text = rows[i].text, *bar; text; text = bar ? bar + 1 : NULL) {
            char one[64], why[128] = "";
            uint64_t number = 77;
            bar = strchr(text, '|');
            snprintf(one, sizeof one, "%.*s", (int)strcspn(text, "|"), text);
            bool read = vr_option_value_read(&row, "", one, &number, why, sizeof why);
            bool good = rows[i].told ? number == 77 && strstr(why, rows[i].told) != NULL
                                     : number == rows[i].number;
            if (read != (rows[i].told == NULL) || !good) {
                fail_msg("\"%s\" gave %llu: %s", one, (unsigned long long)number, why);
            }
        }
    }
    assert_int_equal(vram_option_set("poison", "on"), VRAM_OK);
    assert_int_equal(vr_option_number(VR_OPTION_POISON), 1);
    assert_int_equal(vram_option_set("poison", "stream"), VRAM_OK);
    assert_int_equal(vr_option_number(VR_OPTION_POISON), VR_OPTION_CHOICE);
}

/* --------------------------------------------------------------- the environment */

/* What variables make of options, and what is told: lines of text, of which a problem's may be a
   part. A source is one letter: e, environment; d, default. */
static const struct {
    const char *variables, *values, *problems;
} situations[] = {
    {"VRAM_WAIT_TIMEOUT=2s\nVRAM_SIM=devices=3,memory=1G\nVRAM_LOG=error",
     "e wait_timeout=2s\ne sim=devices=3,memory=1G\ne log=error", ""},
    {"VRAM_CONF=wait_timeout=2s, sim=\"devices=2,memory=8G\" ,log=,device_limit=1G",
     "e wait_timeout=2s\ne sim=devices=2,memory=8G\ne log=\ne device_limit=1G", ""},
    /* A variable wins over VRAM_CONF; a bad one is as good as absent. */
    {"VRAM_CONF=wait_timeout=2s,sim=devices=1\nVRAM_WAIT_TIMEOUT=4s\nVRAM_SIM=",
     "e wait_timeout=4s\ne sim=", ""},
    {"VRAM_CONF=wait_timeout=2s\nVRAM_WAIT_TIMEOUT=4", "e wait_timeout=2s",
     "VRAM_WAIT_TIMEOUT: \"4\" needs a unit"},
    {"VRAM_CONF=wait_timout=1s,wait_timeout=never,device_limit,log=\"warn\"x,log=warn,log=info,"
     "zzzzzzzz=1,sim=devices=2,memory=8G,backends=cuda,host,cuda_library=\"a",
     "d wait_timeout=60s\ne log=info\ne sim=devices=2",
     "VRAM_CONF: unknown option \"wait_timout\"; did you mean wait_timeout?\n"
     "VRAM_CONF: wait_timeout: \"never\" is not a duration\n"
     "VRAM_CONF: device_limit has no value; write key=value\n"
     "VRAM_CONF: log has text after the closing quote\n"
     "VRAM_CONF: log is set twice; the last one counts\n"
     "VRAM_CONF: unknown option \"zzzzzzzz\"; `vram info --options` lists them all\n"
     "\"memory\"; a value with commas needs quotes, as in sim=\"a,b\"\n"
     "\"host\"; a value with commas needs quotes, as in backends=\"a,b\"\n"
     "VRAM_CONF: cuda_library has a quote that is never closed"},
    /* Text that commas have torn is told piece by piece, but for what is nearly a name after all;
       a level has no commas to quote. */
    {"VRAM_CONF=sim=devices=2,memory=8G,profile=h200,devicelimit=1G,log=warn,memory=1", "",
     "\"memory\"; a value with commas needs quotes, as in sim\n"
     "\"profile\"; a value with commas needs quotes, as in sim\n"
     "\"devicelimit\"; did you mean device_limit?\n"
     "\"memory\"; `vram info --options`"},
    {"VRAM_CONF=sim=devices=2,memory=\"8G\",profile=h200", "",
     "\"memory\"; a value with commas\n\"profile\"; a value with commas needs quotes, as in sim"},
    {"VRAM_CONF=sim=\"devices=2\",memory=8G", "", "\"memory\"; `vram info --options`"},
    {"VRAM_WAIT_TIMOUT=1s\nVRAM_wait_timeout=1s\nVRAM_=1\nVRAMX=not ours\nVRAM_CONF=\nVRAM_CONX=1\n"
     "VRAM_SOMETHING_ELSE_ENTIRELY_AND_LONGER_THAN_ANY_NAME_WE_HAVE=1",
     "d wait_timeout=60s",
     "VRAM_WAIT_TIMOUT: unknown variable; did you mean VRAM_WAIT_TIMEOUT?\n"
     "VRAM_wait_timeout: unknown variable; did you mean VRAM_WAIT_\n"
     "VRAM_: unknown variable\nVRAM_CONX: unknown variable\n"
     "VRAM_SOMETHING_ELSE_ENTIRELY_AND_LONGER_: unknown variable"},
    {"VRAM_WAIT_TIMEOUT=\x1b[2J\xFF\x35", "", "VRAM_WAIT_TIMEOUT: \"?[2J?5\" is not a duration"},
};

/* Each line of a text, which is taken apart. */
static char *line_next(char **rest) {
    char *line = *rest, *end = line ? strchr(line, '\n') : NULL;
    *rest = end ? end + 1 : NULL;
    if (end) {
        *end = 0;
    }
    return line && *line ? line : NULL;
}

TEST(variables_make_options_and_problems) {
    for (size_t i = 0; i < sizeof situations / sizeof situations[0]; i++) {
        char variables[512], values[512], told[1024], *rest = variables, *line;
        size_t count = 0;
        clean();
        snprintf(variables, sizeof variables, "%s", situations[i].variables);
        snprintf(values, sizeof values, "%s", situations[i].values);
        snprintf(told, sizeof told, "%s", situations[i].problems);
        while ((line = line_next(&rest))) {
            char *text = strchr(line, '=');
            *text = 0;
            set_variable(line, text + 1);
        }
        for (rest = values; (line = line_next(&rest));) {
            char *text = strchr(line, '=');
            *text = 0;
            assert_value(line + 2, text + 1,
                         line[0] == 'e' ? VRAM_OPTION_FROM_ENVIRONMENT : VRAM_OPTION_FROM_DEFAULT);
        }
        for (rest = told; (line = line_next(&rest)); count++) {
            assert_problem(line);
        }
        assert_int_equal(problems(), count);
        assert_int_equal(vram_error_get()->status, VRAM_OK); /* told, but no call failed */
    }
}

/* The API wins, and gives way again; what changes later does not count. */
TEST(the_api_wins_over_the_environment) {
    set_variable("VRAM_WAIT_TIMEOUT", "2s");
    assert_int_equal(vram_option_set("wait_timeout", "9s"), VRAM_OK);
    assert_value("wait_timeout", "9s", VRAM_OPTION_FROM_API);
    assert_int_equal(vram_option_set("wait_timeout", NULL), VRAM_OK);
    assert_value("wait_timeout", "2s", VRAM_OPTION_FROM_ENVIRONMENT);
    setenv("VRAM_WAIT_TIMEOUT", "3s", 1);
    assert_value("wait_timeout", "2s", VRAM_OPTION_FROM_ENVIRONMENT);
}

TEST(many_problems_are_counted) {
    char text[256];
    for (int i = 0; i < 60; i++) {
        snprintf(text, sizeof text, "VRAM_UNKNOWN_THING_%d", i);
        setenv(text, "1", 1);
    }
    vr_option_reset();
    size_t count = problems();
    assert_int_equal(count, 25);
    for (size_t i = 0; i < count; i++) {
        text[0] = '\0';
        assert_int_equal(vram_option_problem(i, text, sizeof text), count);
        assert_true(strlen(text) > 10);
    }
    assert_string_equal(text, "and 36 further problems in VRAM_* variables");
    strcpy(text, "untouched");
    vram_option_problem(count, text, sizeof text);
    vram_option_problem(SIZE_MAX, text, sizeof text);
    vram_option_problem(0, text, 0);
    assert_string_equal(text, "untouched");
    vram_option_problem(0, text, 5);
    assert_string_equal(text, "VRAM");
}

/* The problem that refuses a context is told, however many came before it. */
TEST(the_refusal_is_told) {
    char conf[1024] = "";
    for (int i = 0; i < 30; i++) {
        strcat(conf, "pool=on,");
    }
    setenv("VRAM_CONF", conf, 1);
    setenv("VRAM_DEVICE_LIMIT", "64Q", 1);
    vr_option_reset();
    assert_int_equal(vr_option_check(), VRAM_ERR_INVALID);
    assert_non_null(strstr(vram_error_get()->text, "VRAM_DEVICE_LIMIT"));
    unsetenv("VRAM_DEVICE_LIMIT");
    strcat(conf, "no_option=1");
    setenv("VRAM_CONF", conf, 1);
    vr_option_reset();
    assert_int_equal(vr_option_check(), VRAM_ERR_INVALID);
    assert_non_null(strstr(vram_error_get()->text, "no_option"));
    setenv("VRAM_STRICT", "off", 1);
    vr_option_reset();
    assert_int_equal(vr_option_check(), VRAM_OK);
}

TEST(a_process_may_have_no_environment) {
    char **saved = environ;
    environ = NULL;
    vr_option_reset();
    size_t count = problems();
    environ = saved;
    assert_int_equal(count, 0);
}

TEST(quotas_that_are_too_long) {
    char text[200] = "tenant=";
    memset(text + 7, '1', 64);
    assert_refused(VRAM_ERR_INVALID, "quotas", text, "has an unreadable size");
    memset(text, 't', 100);
    assert_refused(VRAM_ERR_INVALID, "quotas", text, "has no quota");
}

TEST(huge_values_are_told) {
    char *huge = malloc(100001);
    assert_non_null(huge);
    memset(huge, 'a', 100000);
    huge[100000] = '\0';
    memcpy(huge, "sim=", 4);
    set_variable("VRAM_CONF", huge);
    assert_problem("VRAM_CONF: sim: the value has");
    set_variable("VRAM_CONF", huge + 4);
    assert_problem("VRAM_CONF: unknown option \"aaaa");
    set_variable("VRAM_SIM", huge);
    assert_problem("VRAM_SIM: the value has 100000 bytes; at most 255");
    assert_value("sim", "", VRAM_OPTION_FROM_DEFAULT);
    free(huge);
}

TEST(environment_limits_are_ceilings) {
    set_variable("VRAM_DEVICE_LIMIT", "1G");
    assert_true(vr_option_number(VR_OPTION_DEVICE_LIMIT) == UINT64_C(1) << 30);
    assert_refused(VRAM_ERR_LIMIT, "device_limit", "2G", "at most 1G");
    assert_refused(VRAM_ERR_LIMIT, "device_limit", "1073741825", "at most 1G");
    assert_refused(VRAM_ERR_LIMIT, "device_limit", "0", "at most 1G");
    assert_value("device_limit", "1G", VRAM_OPTION_FROM_ENVIRONMENT);
    assert_int_equal(vram_option_set("device_limit", "1024M"), VRAM_OK);
    assert_int_equal(vram_option_set("device_limit", "512M"), VRAM_OK);
    assert_value("device_limit", "512M", VRAM_OPTION_FROM_API);
    assert_refused(VRAM_ERR_LIMIT, "device_limit", "2G", "at most 1G");
    assert_value("device_limit", "512M", VRAM_OPTION_FROM_API);
    assert_int_equal(vram_option_set("device_limit", NULL), VRAM_OK);
    assert_value("device_limit", "1G", VRAM_OPTION_FROM_ENVIRONMENT);
    /* No limit in the environment is no ceiling, and what is no limit has none. */
    set_variable("VRAM_DEVICE_LIMIT", "0");
    set_variable("VRAM_WAIT_TIMEOUT", "1s");
    assert_int_equal(vram_option_set("device_limit", "2G"), VRAM_OK);
    assert_int_equal(vram_option_set("device_limit", "0"), VRAM_OK);
    assert_int_equal(vram_option_set("wait_timeout", "2s"), VRAM_OK);
}

/* --------------------------------------------------------------- telling the log */

struct listener {
    unsigned heard;
    char last[256];
};

static void listen(void *user, vram_log_level level, const char *text) {
    struct listener *listener = user;
    listener->heard += level == VRAM_LOG_WARN;
    snprintf(listener->last, sizeof listener->last, "%s", text);
}

TEST(problems_are_logged_once) {
    struct listener listener = {0};
    set_variable("VRAM_CONF", "nonsense");
    set_variable("VRAM_WAIT_TIMEOUT", "x");
    vr_log_option_problems(); /* nobody listens: not used up */
    vram_log_set(listen, &listener, VRAM_LOG_ERROR);
    vr_log_option_problems();
    assert_int_equal(listener.heard, 0);
    vram_log_set(listen, &listener, VRAM_LOG_WARN);
    vr_log_option_problems();
    assert_int_equal(listener.heard, 2);
    assert_non_null(strstr(listener.last, "VRAM_WAIT_TIMEOUT: "));
    vr_log_option_problems();
    assert_int_equal(listener.heard, 2);
    vram_log_set(NULL, NULL, VRAM_LOG_OFF);
}

/* --------------------------------------------------------------------- threads */

enum { THREADS = 4, ROUNDS = 2000 };

struct user {
    unsigned number;
    unsigned wrong;
};

/* Sets, reads and restores; any value read is one that somebody set whole. */
static void *use_options(void *argument) {
    struct user *user = argument;
    char text[VR_OPTION_TEXT_MAX], own[VR_OPTION_TEXT_MAX];
    memset(own, 'a' + (int)user->number, 200);
    own[200] = '\0';
    for (unsigned i = 0; i < ROUNDS; i++) {
        vram_option_source source;
        user->wrong += vram_option_set("cuda_library", i % 8 ? own : NULL) != VRAM_OK;
        user->wrong += vram_option_get("cuda_library", text, sizeof text, &source) != VRAM_OK;
        size_t same = strspn(text, (char[]){text[0], '\0'});
        user->wrong += text[0] ? same != 200 : source != VRAM_OPTION_FROM_DEFAULT;
        user->wrong += vr_option_number(VR_OPTION_WAIT_TIMEOUT) != UINT64_C(2000000000);
        user->wrong += vram_option_problem(0, text, sizeof text) != 1;
    }
    return NULL;
}

TEST(threads_see_whole_values) {
    pthread_t threads[THREADS];
    struct user users[THREADS] = {{0, 0}};
    setenv("VRAM_WAIT_TIMEOUT", "2s", 1);
    setenv("VRAM_UNKNOWN", "1", 1);
    vr_option_reset(); /* so that all of them race to read the environment */
    for (unsigned i = 0; i < THREADS; i++) {
        users[i].number = i;
        assert_int_equal(pthread_create(&threads[i], NULL, use_options, &users[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(users[i].wrong, 0);
    }
}

/* ------------------------------------------------------------------ any numbers */

/* What takes a number and gives no status: a text for each, or none, and nothing beyond it. */
TEST(any_number_is_taken) {
    char text[320], size[VRAM_SIZE_TEXT_MAX];
    for (unsigned i = 0; i < 3 * 64; i++) {
        uint64_t value = (UINT64_C(1) << i / 3) - 1 + i % 3;
        assert_non_null(vram_status_name((vram_status)(int)value));
        assert_non_null(vram_status_text((vram_status)(int)value));
        vram_status_is_exhausted((vram_status)(int)value);
        assert_true(strlen(vram_size_format(value, size)) < sizeof size);
        assert_true((vram_option_at(value) != NULL) == (value < vram_option_count()));
        vram_option_problem(value, text, sizeof text);
        vram_option_problem(0, text, value);
        vram_log_set(NULL, NULL, (vram_log_level)(int)value);
        assert_non_null(vram_sim_call_name((vram_sim_call)(int)value));
    }
}

EACH_TEST(clean, clean)
