/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calls.c: the program that runs engines over the rows of tests/calls.
 *
 *   calls --engine ends                                every row, on the simulated device
 *   calls --engine ends --backend host --seconds 60    again and again until the time is over
 *   calls --engine ends --only vram_alloc --beside vram_pool_destroy --again "3 call 12 0"
 *   calls --engine ends --share 1/2                    every second part of the work
 *   calls --engine ends --planted                      the planted defects: each has to be found
 *   calls --engine rows --only vram_alloc --beside vram_pool_trim
 *   calls --engine ends --list
 *
 * A finding prints the command that repeats it. Exit code 1: something was found (of planted
 * defects: one was not). Exit code 2: the command line is wrong.
 */
#include "calls/calls.h"

#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct calls_options calls_options = {
    .backend = "sim", .with = "", .seed = 1, .share = 1, .shares = 1};
struct calls_count calls_count;
struct row *calls_rows;

static const struct engine *const engines[] = {
    &engine_ends,     &engine_faults, &engine_misuse, &engine_modes, &engine_rows, &engine_storm,
#ifdef HAS_PROGRAMS
    &engine_programs,
#endif
};
static const struct engine *engine;

/* What is running, for the report of a crash. */
static struct {
    const struct row *row;
    char beside[NAME_MAX_BYTES], again[120];
} current;

/* ------------------------------------------------------------------------- rows */

static int row_order(const struct row *a, const struct row *b) {
    int order = strcmp(a->call, b->call);
    return order ? order : strcmp(a->as, b->as);
}

void row_add(struct row *row) {
    struct row **at = &calls_rows;
    while (*at && row_order(*at, row) < 0) {
        at = &(*at)->next;
    }
    row->next = *at;
    *at = row;
}

void row_name(const struct row *row, char name[NAME_MAX_BYTES]) {
    snprintf(name, NAME_MAX_BYTES, "%s%s%s", row->call, *row->as ? ":" : "", row->as);
}

bool name_is_wanted(const char *pattern, const char *name) {
    return !*pattern || strcmp(pattern, "*") == 0 || strcmp(pattern, name) == 0;
}

/* A call's name alone means all its rows. */
bool row_is_wanted(const struct row *row) {
    char name[NAME_MAX_BYTES];
    row_name(row, name);
    bool planted = row->planted != NULL;
    return planted == calls_options.planted &&
           (!planted || strcmp(row->planted, engine->name) == 0) &&
           (name_is_wanted(calls_options.only, name) ||
            name_is_wanted(calls_options.only, row->call));
}

/* ---------------------------------------------------------------------- findings */

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static char logged[300];

static void on_log(void *user, vram_log_level level, const char *text) {
    (void)user, (void)level;
    pthread_mutex_lock(&log_lock);
    if (!*logged) {
        snprintf(logged, sizeof logged, "the library logged: %s", text);
    }
    pthread_mutex_unlock(&log_lock);
}

const char *calls_logged(void) {
    pthread_mutex_lock(&log_lock);
    bool any = *logged;
    pthread_mutex_unlock(&log_lock);
    return any ? logged : NULL;
}

void calls_now(const struct row *row, const char *beside, const char *again, ...) {
    va_list list;
    current.row = row;
    snprintf(current.beside, sizeof current.beside, "%s", beside ? beside : "");
    va_start(list, again);
    vsnprintf(current.again, sizeof current.again, again, list);
    va_end(list);
    logged[0] = 0;
}

void calls_idle(void) {
    current.row = NULL;
}

static void tell(const char *what) {
    char name[NAME_MAX_BYTES], text[1600];
    const char *beside = current.beside;
    if (!current.row) {
        return;
    }
    row_name(current.row, name);
    bool whole = !current.row->fn; /* it is about no row */
    int length =
        snprintf(text, sizeof text,
                 "FINDING %s%s%s on %s: %s\n  again: calls --engine %s --backend %s%s%s%s%s"
                 "%s%s%s%s --again \"%s\"\n",
                 name, *beside ? " beside " : "", beside, calls_options.backend, what, engine->name,
                 calls_options.backend, whole ? "" : " --only ", whole ? "" : name,
                 *beside ? " --beside " : "", beside, *calls_options.with ? " --with \"" : "",
                 calls_options.with, *calls_options.with ? "\"" : "",
                 calls_options.planted ? " --planted" : "", current.again);
    length = length < (int)sizeof text ? length : (int)sizeof text - 1;
    fflush(stdout);
    if (write(STDOUT_FILENO, text, (size_t)length) < 0) {
        return;
    }
}

void calls_finding(const char *what) {
    tell(what);
    calls_count.findings++;
}

static void on_death(void) {
    tell("the process died");
}

static void on_crash(int number) {
    void *frames[40];
    on_death();
    backtrace_symbols_fd(frames, backtrace(frames, 40), STDOUT_FILENO);
    signal(number, SIG_DFL);
    raise(number);
}

#ifdef __SANITIZE_ADDRESS__
/* Memory of a size that few machines have is refused, as without the sanitizer. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "allocator_may_return_null=1:max_allocation_size_mb=512";
}
#endif

#ifdef __SANITIZE_THREAD__
/* Two rows that write the same contents race as a program would that does. */
__attribute__((visibility("default"))) const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void) {
    return "race:copy_on_host";
}
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
void __sanitizer_set_death_callback(void (*callback)(void));
#endif

static void watch_for_death(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    __sanitizer_set_death_callback(on_death);
    signal(SIGABRT, on_crash); /* a failed assert of the library */
#else
    const int numbers[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        signal(numbers[i], on_crash);
    }
#endif
}

/* -------------------------------------------------------------------------- main */

double calls_seconds(void) {
    return (double)calls_now_ns() / 1e9;
}

uint64_t calls_mix(uint64_t x) {
    x ^= x >> 33;
    x *= UINT64_C(0xff51afd7ed558ccd);
    x ^= x >> 33;
    x *= UINT64_C(0xc4ceb9fe1a85ec53);
    return x ^ x >> 33;
}

static int usage(const char *word, const char *why) {
    fprintf(stderr, "calls: %s %s\nusage: calls --engine ", word, why);
    for (size_t i = 0; i < sizeof engines / sizeof *engines; i++) {
        fprintf(stderr, "%s%s", i ? "|" : "", engines[i]->name);
    }
    fprintf(stderr,
            " [--backend sim|host|cuda] [--seconds N] [--runs N] [--seed N] [--share I/N]\n"
            "  [--only CALL] [--beside CALL] [--with WORDS] [--again TEXT] [--slow] [--sweep] "
            "[--verbose] [--planted] [--list]\n");
    return 2;
}

static bool number_of(const char *text, uint64_t *number) {
    char *end;
    *number = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end;
}

static bool share_of(const char *text, struct calls_options *options) {
    char rest;
    return sscanf(text, "%u/%u%c", &options->share, &options->shares, &rest) == 2 &&
           options->share && options->share <= options->shares;
}

/* Whether `value` is one of the option's; false without a problem: there is no such option. */
static bool option_takes(const char *name, const char *value, const char **problem) {
    struct calls_options *o = &calls_options;
    uint64_t number;
    *problem = NULL;
    if (strcmp(name, "--engine") == 0) {
        for (size_t i = 0; i < sizeof engines / sizeof *engines; i++) {
            engine = strcmp(value, engines[i]->name) == 0 ? engines[i] : engine;
        }
        *problem = engine ? NULL : "is no engine";
    } else if (strcmp(name, "--backend") == 0) {
        o->backend = value;
        *problem = strcmp(value, "sim") && strcmp(value, "host") && strcmp(value, "cuda")
                       ? "is no backend of the tests"
                       : NULL;
    } else if (strcmp(name, "--seconds") == 0) {
        *problem = number_of(value, &number) ? NULL : "is not a number";
        o->seconds = (double)number;
    } else if (strcmp(name, "--seed") == 0) {
        *problem = number_of(value, &o->seed) ? NULL : "is not a number";
    } else if (strcmp(name, "--runs") == 0) {
        *problem = number_of(value, &o->runs) ? NULL : "is not a number";
    } else if (strcmp(name, "--share") == 0) {
        *problem = share_of(value, o) ? NULL : "is no share: expected 1/2, or 3/4";
    } else if (strcmp(name, "--only") == 0) {
        snprintf(o->only, sizeof o->only, "%s", value);
    } else if (strcmp(name, "--beside") == 0) {
        snprintf(o->beside, sizeof o->beside, "%s", value);
    } else if (strcmp(name, "--with") == 0) {
        o->with = value;
    } else if (strcmp(name, "--again") == 0) {
        o->again = value;
    } else {
        return false;
    }
    return true;
}

static bool *switch_of(const char *name) {
    struct calls_options *o = &calls_options;
    const struct {
        const char *name;
        bool *flag;
    } switches[] = {{"--slow", &o->slow},
                    {"--sweep", &o->sweep},
                    {"--verbose", &o->verbose},
                    {"--planted", &o->planted},
                    {"--list", &o->list}};
    for (size_t i = 0; i < sizeof switches / sizeof *switches; i++) {
        if (strcmp(name, switches[i].name) == 0) {
            return switches[i].flag;
        }
    }
    return NULL;
}

/* 0, or the exit code of a command line that is wrong. */
static int parse(int count, char **words) {
    const char *problem;
    for (int i = 1; i < count; i++) {
        bool *flag = switch_of(words[i]);
        if (flag) {
            *flag = true;
        } else if (!option_takes(words[i], i + 1 < count ? words[i + 1] : "", &problem)) {
            return usage(words[i], "is no option");
        } else if (++i == count) {
            return usage(words[i - 1], "needs a value");
        } else if (problem) {
            return usage(words[i], problem);
        }
    }
    if (!engine) {
        return usage("--engine", "is missing");
    }
    return 0;
}

static void prepare_library(void) {
    char seconds[16];
    snprintf(seconds, sizeof seconds, "%ds", WAIT_SECONDS);
    vram_option_set("wait_timeout", seconds);
    vram_option_set("calibration_cache", "off");
    vram_option_set("oom_wait", "1ms");
    vram_option_set("staging_slot", "64K");
    vram_log_set(on_log, NULL, VRAM_LOG_ERROR);
}

/* 0, or the exit code of a command line that asks for nothing. */
static int prepare_engine(void) {
    calls_count = (struct calls_count){0};
    if (!engine->prepare(calls_options.again)) {
        return usage(calls_options.again, "is nothing that a finding of this engine prints");
    }
    return calls_count.rows ? 0 : usage("--only and --beside", "match no row");
}

static int run_engine(void) {
    engine->run();
    printf("calls: %s on %s: %u rows, %llu runs, %u rows not on this backend, %u findings\n",
           engine->name, calls_options.backend, calls_count.rows,
           (unsigned long long)calls_count.runs, calls_count.absent, calls_count.findings);
    return calls_count.findings != 0;
}

/* Each planted defect in a process of its own, which may hang or die of it. */
static int run_planted(void) {
    unsigned found = 0, all = 0;
    schedule_seconds = 2;
    calls_options.runs = calls_options.runs ? calls_options.runs : 50;
    for (const struct row *row = calls_rows; row; row = row->next) {
        if (!row_is_wanted(row)) {
            continue;
        }
        int status = 0;
        pid_t child = fork();
        if (child == 0) {
            row_name(row, calls_options.only);
            _exit(prepare_engine() ? 0 : run_engine());
        }
        waitpid(child, &status, 0);
        bool seen = WIFSIGNALED(status) ? WTERMSIG(status) == SIGABRT : WEXITSTATUS(status) == 1;
        printf("calls: %s %s: %s\n", row->call, row->as, seen ? "found" : "NOT FOUND");
        all++;
        found += seen;
    }
    printf("calls: %u of %u planted defects found by %s\n", found, all, engine->name);
    return found != all;
}

int main(int count, char **words) {
    int code = parse(count, words);
    code = code ? code : prepare_engine();
    if (code) {
        return code;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    prepare_library();
    watch_for_death();
    if (calls_options.list) {
        engine->list();
        return 0;
    }
    return calls_options.planted && !calls_options.again ? run_planted() : run_engine();
}
