/* SPDX-License-Identifier: Apache-2.0 */
/*
 * race_matrix.c: runs the pairs of the race matrix (race_table.h) and says what it found.
 *
 *   race_matrix --backend sim --seconds 4    every pair once, then again until the time is over
 *   race_matrix --backend host --runs 100    every pair a hundred times
 *   race_matrix --pair vram_alloc,vram_pool_destroy [--variant V --schedule call,N,M] [--runs K]
 *   race_matrix --sweep ...      every delay point of both calls in turn, instead of random ones
 *   race_matrix --share 1/2 ...  every second pair, from the first on (2/2: the others)
 *   race_matrix --isolate ...    each pair in its own process: one that dies is a finding
 *   race_matrix --list
 *
 * Names of pairs may be "*". A finding says how to repeat it. Exit code 1: something was found.
 */
#include "race/race_table.h"

#include "base/delay.h"

#include <errno.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAIRS_MAX = 4096, CHILD_SECONDS = 120, GUESSED_POINTS = 60 };

struct pair {
    struct row *row;
    struct ender *ender;
    bool set_queue; /* the queue belongs to a stream set, which the ender destroys */
};

static struct {
    const char *backend;
    double seconds;
    uint64_t seed;
    uint64_t runs; /* of each pair; 0: as the time allows */
    bool isolate, list, slow, sweep, verbose;
    unsigned share, shares;   /* of the pairs, from 1 */
    char call[64], ender[64]; /* "" or "*": all */
    bool exact;               /* the next two are given */
    struct schedule schedule;
    uint32_t variant;
} options = {.backend = "sim", .seed = 1, .share = 1, .shares = 1};

static struct row *rows; /* in the order of their names */
static struct pair pairs[PAIRS_MAX];
static unsigned pair_count, row_count, known_count, absent_count;
static uint64_t run_count;
static unsigned finding_count;

/* What is running now, for the report of a crash. */
static struct {
    const struct pair *pair;
    struct schedule schedule;
    uint32_t variant;
} current;

/* ------------------------------------------------------------------------- table */

static int row_order(const struct row *a, const struct row *b) {
    int order = strcmp(a->call, b->call);
    return order ? order : strcmp(a->as, b->as);
}

void row_add(struct row *row) {
    struct row **at = &rows;
    while (*at && row_order(*at, row) < 0) {
        at = &(*at)->next;
    }
    row->next = *at;
    *at = row;
}

static void row_name(const struct row *row, char name[64]) {
    snprintf(name, 64, "%s%s", row->call, row->as);
}

static bool wanted(const char *pattern, const char *name) {
    return !*pattern || strcmp(pattern, "*") == 0 || strcmp(pattern, name) == 0;
}

static const struct known *known_defect(const char *row, const struct ender *ender) {
    for (const struct known *known = race_known; known->call; known++) {
        if (wanted(known->call, row) && wanted(known->ender, ender->call) &&
            wanted(known->backend, options.backend)) {
            return known;
        }
    }
    return NULL;
}

static void pairs_of(struct row *row) {
    static unsigned number;
    char name[64];
    uint64_t enders = row_enders(row);
    row_name(row, name);
    row_count++;
    for (unsigned i = 0; i < race_ender_count; i++) {
        struct ender *ender = &race_enders[i];
        if (!(enders >> i & 1) || !wanted(options.call, name) ||
            !wanted(options.ender, ender->call) || pair_count == PAIRS_MAX) {
            continue;
        }
        const struct known *known = known_defect(name, ender);
        if (known && !*options.call) {
            printf("known: %s beside %s on %s: %s\n", name, ender->call, options.backend,
                   known->why);
            known_count++;
            continue;
        }
        if (number++ % options.shares != options.share - 1) {
            continue;
        }
        bool set =
            strcmp(ender->call, "vram_stream_set_destroy") == 0 && row->kind != KIND_STREAM_SET;
        pairs[pair_count++] = (struct pair){row, ender, set};
    }
}

/* ---------------------------------------------------------------------- findings */

static void tell_current(const char *what) {
    char name[64], text[1200];
    if (!current.pair) {
        return;
    }
    row_name(current.pair->row, name);
    int length = snprintf(
        text, sizeof text,
        "FINDING %s beside %s on %s: %s\n"
        "  again: race_matrix --backend %s --pair %s,%s --variant %u --schedule %s,%u,%u\n",
        name, current.pair->ender->call, options.backend, what, options.backend, name,
        current.pair->ender->call, current.variant, current.schedule.ender_first ? "ender" : "call",
        current.schedule.n, current.schedule.m);
    fflush(stdout);
    if (write(STDOUT_FILENO, text, (size_t)length) < 0) {
        return;
    }
}

static void tell_finding(const char *what, const struct outcome *outcome) {
    tell_current(what);
    finding_count++;
    printf("  call %s %s\n  ender %s %s\n", vram_status_name(outcome->call), outcome->call_text,
           vram_status_name(outcome->ender), outcome->ender_text);
    if (outcome->first_place) {
        printf("  first held up at %s, the other at %s\n", outcome->first_place,
               outcome->second_place ? outcome->second_place : "-");
    }
    fflush(stdout);
}

static void on_death(void) {
    tell_current("the process died");
}

static void on_crash(int number) {
    void *frames[40];
    on_death();
    backtrace_symbols_fd(frames, backtrace(frames, 40), STDOUT_FILENO);
    signal(number, SIG_DFL);
    raise(number);
}

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

static const char *what_was_logged(void) {
    pthread_mutex_lock(&log_lock);
    bool any = *logged;
    pthread_mutex_unlock(&log_lock);
    return any ? logged : NULL;
}

/* -------------------------------------------------------------------------- runs */

static bool answer_is_fine(vram_status status, uint32_t flags) {
    switch (status) {
    case VRAM_OK:
    case VRAM_ERR_STALE:
    case VRAM_ERR_SHUTDOWN:
    case VRAM_ERR_UNSUPPORTED:
        return true;
    case VRAM_ERR_INVALID:
        return flags & ROW_INVALID;
    case VRAM_ERR_BUSY:
        return flags & ROW_BUSY;
    case VRAM_ERR_NOT_READY:
        return flags & ROW_NOT_READY;
    case VRAM_ERR_TIMEOUT:
        return flags & ROW_TIMEOUT;
    default:
        return false;
    }
}

static struct world world;

/* What is wrong with a run, or NULL. Ends the world, unless a call hangs. */
static const char *look(const struct pair *pair, const struct outcome *outcome) {
    if (outcome->late) {
        return "a call did not return in time";
    }
    const char *text = world_end(&world, outcome->call, pair->row->flags);
    if (!answer_is_fine(outcome->call, pair->row->flags)) {
        return "the call's answer is none that it may give";
    }
    if (pair->ender && !answer_is_fine(outcome->ender, pair->ender->answers)) {
        return "the ender's answer is none that it may give";
    }
    return text ? text : what_was_logged();
}

static void fill_host(const struct row *row) {
    if (row->flags & (ROW_UPLOAD | ROW_DOWNLOAD)) {
        memset(world.host, row->flags & ROW_UPLOAD ? UPLOAD_BYTE : FRESH_BYTE, COPY_BYTES);
    }
}

/* No further run is possible while a call hangs. */
static void abort_on_hang(void) {
    printf("race matrix: a call hangs; the threads that have not returned are at:\n");
    fflush(stdout);
    schedule_show_stacks();
    kill(getpid(), SIGABRT);
}

static bool run(struct pair *pair, uint32_t variant, struct schedule schedule) {
    struct outcome outcome;
    current.pair = pair;
    current.schedule = schedule;
    current.variant = variant;
    logged[0] = 0;
    world_make(&world, options.backend, variant, pair_kinds(pair->row, pair->ender),
               pair->set_queue);
    if (world.failed) {
        bool absent = vram_error_get()->status == VRAM_ERR_UNSUPPORTED ||
                      vram_error_get()->status == VRAM_ERR_NO_DEVICE;
        if (!absent) {
            printf("FINDING the world of %s: %s: %s\n", pair->row->call, world.failed,
                   vram_error_get()->text);
            finding_count++;
        }
        world_end(&world, VRAM_OK, 0);
        return false;
    }
    fill_host(pair->row);
    schedule_run(&world, pair->row, pair->ender, schedule, &outcome);
    run_count++;
    const char *text = look(pair, &outcome);
    if (text) {
        tell_finding(text, &outcome);
    } else if (options.verbose) {
        printf("%s beside %s: %s, %s; points %u and %u; %s, %s\n", pair->row->call,
               pair->ender->call, vram_status_name(outcome.call), vram_status_name(outcome.ender),
               outcome.call_points, outcome.ender_points,
               outcome.first_place ? outcome.first_place : "-",
               outcome.second_place ? outcome.second_place : "-");
    }
    if (outcome.late) {
        abort_on_hang();
    }
    pair->ender->points =
        outcome.ender_points > pair->ender->points ? outcome.ender_points : pair->ender->points;
    pair->ender->ns = outcome.ender_ns;
    if (outcome.call_points > pair->row->points) {
        pair->row->points = outcome.call_points;
    }
    current.pair = NULL;
    return true;
}

/* Runs the call alone, to count its delay points and measure its time. */
static bool measure(struct row *row, uint32_t variant) {
    struct outcome outcome;
    struct ender nobody = {.call = "nothing"};
    struct pair pair = {.row = row, .ender = &nobody};
    if (row->flags & ROW_UNTIL_END) {
        row->points = 50;
        row->ns = 100000;
        return true;
    }
    current.pair = &pair;
    current.variant = variant;
    current.schedule = (struct schedule){0};
    logged[0] = 0;
    world_make(&world, options.backend, variant, pair_kinds(row, NULL), false);
    if (world.failed) {
        world_end(&world, VRAM_OK, 0);
        current.pair = NULL;
        return false;
    }
    fill_host(row);
    schedule_run(&world, row, NULL, (struct schedule){0}, &outcome);
    pair.ender = NULL;
    const char *text = look(&pair, &outcome);
    pair.ender = &nobody;
    bool fine = outcome.call == VRAM_OK || outcome.call == VRAM_ERR_UNSUPPORTED ||
                (outcome.call == VRAM_ERR_NOT_READY && (row->flags & ROW_NOT_READY)) ||
                (outcome.call == VRAM_ERR_TIMEOUT && (row->flags & ROW_TIMEOUT));
    if (text || !fine) {
        tell_finding(text ? text : "alone it fails", &outcome);
    }
    if (outcome.late) {
        abort_on_hang();
    }
    row->points = outcome.call_points > row->points ? outcome.call_points : row->points;
    row->ns = outcome.call_ns > row->ns ? outcome.call_ns : row->ns;
    current.pair = NULL;
    return outcome.call != VRAM_ERR_UNSUPPORTED;
}

static uint64_t mix(uint64_t x) {
    x ^= x >> 33;
    x *= UINT64_C(0xff51afd7ed558ccd);
    x ^= x >> 33;
    x *= UINT64_C(0xc4ceb9fe1a85ec53);
    return x ^ x >> 33;
}

static struct schedule schedule_of(const struct pair *pair, uint64_t number, uint64_t round) {
    uint64_t one = mix(number), two = mix(one), three = mix(two);
    struct schedule schedule = {.ender_first = one & 1};
    unsigned call = pair->row->points + 2, ender = pair->ender->points + 2;
    if (options.sweep && schedule_has_points() && round < call + ender) {
        schedule.ender_first = round >= call;
        schedule.n = 1 + (uint32_t)(schedule.ender_first ? round - call : round);
    } else if (schedule_has_points()) {
        schedule.n = 1 + (uint32_t)(two % (schedule.ender_first ? ender : call));
        schedule.m = one & 2 ? 0 : 1 + (uint32_t)(three % (schedule.ender_first ? call : ender));
    } else if (schedule.ender_first) {
        schedule.m = (uint32_t)(two % (pair->ender->ns + 1000)); /* the call starts later */
    } else {
        schedule.m = (uint32_t)(two % (pair->row->ns + 1000));
    }
    return schedule;
}

static void run_numbered(struct pair *pair, uint64_t round) {
    uint64_t number =
        options.seed * UINT64_C(0x9E3779B97F4A7C15) + round * PAIRS_MAX + (uint64_t)(pair - pairs);
    uint32_t variant = options.exact ? options.variant : (uint32_t)(mix(number ^ 1) % 24);
    run(pair, variant, options.exact ? options.schedule : schedule_of(pair, number, round));
}

/* -------------------------------------------------------------------------- modes */

static double now_seconds(void) {
    return (double)race_now_ns() / 1e9;
}

/* Leaves out pairs that this backend does not support. A run of a share of the pairs has little
   time, so it starts with an estimate. */
static void measure_all(void) {
    unsigned kept = 0;
    if (options.shares > 1) {
        for (struct row *row = rows; row; row = row->next) {
            row->points = GUESSED_POINTS;
        }
        return;
    }
    for (struct row *row = rows; row; row = row->next) {
        bool any = false, here = false;
        for (unsigned i = 0; i < pair_count; i++) {
            any |= pairs[i].row == row;
        }
        if (any && (options.slow || !(row->flags & ROW_SLOW))) {
            here = measure(row, options.exact ? options.variant : 0);
            here |= !here && measure(row, 1);
        }
        absent_count += any && !here;
        if (any && !here && options.verbose) {
            printf("not here: %s%s (%s %s)\n", row->call, row->as, world.failed ? world.failed : "",
                   vram_error_get()->text);
        }
        row->points = here ? row->points : UINT32_MAX;
    }
    for (unsigned i = 0; i < pair_count; i++) {
        if (pairs[i].row->points != UINT32_MAX) {
            pairs[kept++] = pairs[i];
        }
    }
    pair_count = kept;
}

static void run_together(void) {
    double until = now_seconds() + options.seconds;
    schedule_start();
    measure_all();
    for (uint64_t round = 0;
         round == 0 || round < options.runs || (!options.runs && now_seconds() < until); round++) {
        for (unsigned i = 0; i < pair_count && !(round && !options.runs && now_seconds() > until);
             i++) {
            run_numbered(&pairs[i], round);
            if (options.isolate && finding_count) {
                break; /* one finding per pair is enough */
            }
        }
    }
    schedule_stop();
}

/* One pair in a child: it may die, or hang. */
static void run_child(unsigned index, unsigned *absent) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        finding_count = absent_count = 0;
        run_count = 0;
        pairs[0] = pairs[index];
        pair_count = 1;
        run_together();
        fflush(stdout);
        _exit(finding_count ? 1 : absent_count ? 3 : 0);
    }
    int status = 0;
    double until = now_seconds() + CHILD_SECONDS;
    while (waitpid(child, &status, WNOHANG) == 0) {
        if (now_seconds() > until) {
            printf("FINDING pair %s beside %s: the child hangs\n", pairs[index].row->call,
                   pairs[index].ender->call);
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
            break;
        }
        usleep(500);
    }
    *absent += WIFEXITED(status) && WEXITSTATUS(status) == 3;
    run_count += options.runs;
    if (!WIFEXITED(status) || (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != 3)) {
        finding_count++;
        printf("pair %s%s,%s failed (%s %d)\n", pairs[index].row->call, pairs[index].row->as,
               pairs[index].ender->call, WIFEXITED(status) ? "exit" : "signal",
               WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    }
}

static void run_isolated(void) {
    options.runs = options.runs ? options.runs : 20;
    for (unsigned i = 0; i < pair_count; i++) {
        run_child(i, &absent_count);
    }
}

/* --------------------------------------------------------------------------- main */

static int usage(void) {
    fprintf(stderr, "usage: race_matrix [--backend sim|host] [--seconds N] [--runs N] [--seed N]\n"
                    "  [--pair CALL,ENDER [--variant N --schedule call|ender,N,M]] [--isolate] "
                    "[--slow] [--sweep]\n"
                    "  [--share I/N] [--verbose] [--list]\n");
    return 2;
}

static bool parse_pair(const char *text) {
    const char *comma = strchr(text, ',');
    if (!comma || comma - text >= 64 || strlen(comma) > 63) {
        return false;
    }
    snprintf(options.call, sizeof options.call, "%.*s", (int)(comma - text), text);
    /* "nothing": the call alone, which is measured before any pair of it */
    snprintf(options.ender, sizeof options.ender, "%s",
             strcmp(comma + 1, "nothing") == 0 ? "" : comma + 1);
    return true;
}

static bool parse_schedule(const char *text) {
    char first[8];
    options.exact =
        sscanf(text, "%7[a-z],%u,%u", first, &options.schedule.n, &options.schedule.m) == 3;
    options.schedule.ender_first = options.exact && strcmp(first, "ender") == 0;
    return options.exact;
}

static bool parse(int count, char **words) {
    for (int i = 1; i < count; i++) {
        const char *word = words[i], *next = i + 1 < count ? words[i + 1] : "";
        bool takes = true;
        if (strcmp(word, "--backend") == 0) {
            options.backend = next;
        } else if (strcmp(word, "--seconds") == 0) {
            options.seconds = atof(next);
        } else if (strcmp(word, "--seed") == 0) {
            options.seed = strtoull(next, NULL, 10);
        } else if (strcmp(word, "--runs") == 0) {
            options.runs = strtoull(next, NULL, 10);
        } else if (strcmp(word, "--variant") == 0) {
            options.variant = (uint32_t)strtoul(next, NULL, 10);
        } else if (strcmp(word, "--pair") == 0) {
            if (!parse_pair(next)) {
                return false;
            }
        } else if (strcmp(word, "--share") == 0) {
            if (sscanf(next, "%u/%u", &options.share, &options.shares) != 2 || !options.shares) {
                return false;
            }
        } else if (strcmp(word, "--schedule") == 0) {
            if (!parse_schedule(next)) {
                return false;
            }
        } else {
            takes = false;
            options.isolate |= strcmp(word, "--isolate") == 0;
            options.slow |= strcmp(word, "--slow") == 0;
            options.sweep |= strcmp(word, "--sweep") == 0;
            options.verbose |= strcmp(word, "--verbose") == 0;
            options.list |= strcmp(word, "--list") == 0;
            if (!strstr("--isolate --slow --sweep --verbose --list", word)) {
                return false;
            }
        }
        i += takes;
    }
    return true;
}

int main(int count, char **words) {
    static unsigned char host[COPY_BYTES];
    char seconds[16];
    world.host = host;
    if (!parse(count, words)) {
        return usage();
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    snprintf(seconds, sizeof seconds, "%ds", WAIT_SECONDS);
    vram_option_set("wait_timeout", seconds);
    vram_option_set("calibration_cache", "off");
    vram_option_set("oom_wait", "1ms");
    vram_log_set(on_log, NULL, VRAM_LOG_ERROR);
    watch_for_death();
    for (struct row *row = rows; row; row = row->next) {
        pairs_of(row);
    }
    unsigned all = pair_count;
    if (options.list) {
        for (unsigned i = 0; i < pair_count; i++) {
            printf("%s%s,%s\n", pairs[i].row->call, pairs[i].row->as, pairs[i].ender->call);
        }
    } else if (options.isolate) {
        run_isolated();
    } else {
        run_together();
    }
    printf("race matrix on %s: %u calls, %u pairs, %llu runs, %u calls not on this backend, known: "
           "%u, %u findings\n",
           options.backend, row_count, options.isolate ? all : pair_count,
           (unsigned long long)run_count, absent_count, known_count, finding_count);
    return finding_count != 0;
}
