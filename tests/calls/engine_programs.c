/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_programs.c: programs of steps that a seed draws (program.h), run against the model.
 *
 *   calls --engine programs --seed N --runs CALLS --with "threads=3 mode=segments"
 *
 * The words of --with:
 *   threads=3, ops=600     of each program; `ops` steps
 *   mode=vmm|segments|off  of the pools
 *   faults                 the simulated driver and host memory fail now and then
 *   cancel                 threads are cancelled inside of calls
 *   delays                 threads are delayed at random between their steps (debug builds)
 *   second=LIBRARY         handles are shown to a second copy of the library
 *   compare=C,D            the same programs on backend:mode C and D must answer alike
 *   fresh                  each program in a process of its own
 *   large                  a device of 6 GiB, of which three quarters are live
 *   patience=18            no call takes more seconds
 * --only alloc,free: steps of these kinds alone, after the first few.
 *
 * A process runs the programs; this one watches it. A program that fails, crashes or hangs is run
 * again in smaller parts, and what is left of it is told, call by call. "seed step ..." repeats it:
 * those steps of the seed's program, or all.
 */
#include "calls/program.h"

#include "base/delay.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RACE_TRIES = 12, TRIES_MAX = 4000, KEY = 24, CALLS = 100000, WORDS_BYTES = 400 };

static char words[WORDS_BYTES], *compare;

/* --------------------------------------------------------------------- processes */

/* Delays a thread at random places, for a few microseconds. */
static void delay_hook(const char *place) {
    static _Thread_local uint64_t random;
    random = random ? random : (uint64_t)(uintptr_t)&random ^ told->seed;
    (void)place;
    uint64_t drawn = mix(random++);
    if (drawn % 64 == 0) {
        nanosleep(&(struct timespec){0, (long)(drawn >> 32) % 30000}, NULL);
    }
}

static void child_start(void) {
    char timeout[24];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setenv("VRAM_QUOTAS", "ceiling=8M", 1);
    setenv("VRAM_LIVE", "off", 1);
    faults_install();
    snprintf(timeout, sizeof timeout, "%us", settings.seconds + 2);
    vram_option_set("wait_timeout", timeout);
    vram_option_set("oom_wait", NULL);
    vram_option_set("staging_slot", NULL);
    vram_option_set("pool", strcmp(settings.mode, "off") == 0 ? "off" : NULL);
    vr_delay_hook_set(settings.delays ? delay_hook : NULL);
}

/* Waits for a process; 0: it went well, 1: it found something, was killed or hangs. */
static int child_wait(pid_t child) {
    uint64_t beats = 0, last = calls_now_ns();
    for (unsigned turn = 0;; turn++) {
        int status;
        if (waitpid(child, &status, WNOHANG) == child) {
            if (WIFSIGNALED(status)) {
                snprintf(told->failure, sizeof told->failure, "killed by signal %d",
                         WTERMSIG(status));
            }
            return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
        }
        nanosleep(&(struct timespec){0, turn < 100 ? 200000 : 5000000}, NULL);
        uint64_t now = told->beats + told->programs;
        if (now != beats) {
            beats = now;
            last = calls_now_ns();
        } else if (calls_now_ns() - last > (settings.seconds + 2) * UINT64_C(3000000000)) {
            kill(child, SIGABRT);
            waitpid(child, &status, 0);
            snprintf(told->failure, sizeof told->failure, "a call hangs");
            return 1;
        }
    }
}

/* Runs the program, or without one those from the seed on: so many, or until so many calls are
   made. */
static int child_run(const struct program *program, uint64_t seed, uint64_t calls,
                     uint64_t programs) {
    uint64_t before = told->calls;
    told->failure[0] = 0;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        child_start();
        for (uint64_t i = 0; programs ? i < programs : told->calls - before < calls; i++) {
            struct program drawn;
            program_draw(&drawn, seed + i, settings.ops, settings.threads);
            program_run(program ? program : &drawn);
            free(drawn.ops);
        }
        fflush(stdout);
        _exit(0);
    }
    return child < 0 ? 2 : child_wait(child);
}

static int program_try(const struct program *program, bool speak) {
    told->speak = speak;
    int found = child_run(program, program->seed, 0, 1);
    told->speak = false;
    return found;
}

/* ---------------------------------------------------------------------- shrinking */

static unsigned tries;
static char finding[64]; /* how the failure begins: a part must fail in the same way */

/* A race fails now and then only: with several threads each try is made a few times. */
static bool still_fails(const struct program *program) {
    unsigned times = settings.threads > 1 ? RACE_TRIES : 1;
    for (unsigned i = 0; i < times && tries < TRIES_MAX; i++) {
        tries++;
        if (program_try(program, false) && strncmp(told->failure, finding, KEY) == 0) {
            return true;
        }
    }
    return false;
}

/* Leaves out [first, end), if the rest fails without. */
static void leave_out(struct program *program, struct op *kept, uint32_t first, uint32_t end) {
    bool any = false;
    memcpy(kept, program->ops, program->count * sizeof *kept);
    for (uint32_t i = first; i < end; i++) {
        any = any || program->ops[i].kind;
        program->ops[i].kind = 0;
    }
    if (any && !still_fails(program)) {
        memcpy(program->ops, kept, program->count * sizeof *kept);
    }
}

/* What repeats the program: as text, "seed step step ...". */
static void again_write(const struct program *program) {
    printf("  again: calls --engine programs --backend %s --with \"%s\"", settings.backend, words);
    if (*settings.kinds) {
        printf(" --only %s", settings.kinds);
    }
    printf(" --again \"%llu", (unsigned long long)program->seed);
    for (uint32_t i = 0; i < program->count; i++) {
        if (program->ops[i].kind) {
            printf(" %u", i);
        }
    }
    printf("\"\n");
}

/* Leaves out halves, quarters and so on as long as the rest still fails, then single steps. */
static void program_shrink(struct program *program) {
    struct op *kept = malloc(program->count * sizeof *kept);
    snprintf(finding, sizeof finding, "%.*s", KEY, told->failure);
    tries = 0;
    if (!kept || !still_fails(program)) {
        printf("  the program alone does not fail again\n");
        free(kept);
        return;
    }
    for (uint32_t size = program->count / 2; size; size = size > 1 ? size / 2 : 0) {
        for (uint32_t first = program->count; first > 0;) {
            uint32_t end = first;
            first = first > size ? first - size : 0;
            leave_out(program, kept, first, end);
        }
    }
    for (unsigned i = 0; i < RACE_TRIES * 4 && !program_try(program, false); i++) {
    }
    (void)program_try(program, true);
    again_write(program);
    free(kept);
}

static void tell_finding(struct program *program) {
    calls_count.findings++;
    printf("FINDING program %llu, step %u, %llu calls before it, %s %s, %u thread%s: %s\n",
           (unsigned long long)program->seed, told->op, (unsigned long long)told->calls,
           settings.backend, settings.mode, settings.threads, settings.threads > 1 ? "s" : "",
           told->failure);
    fflush(stdout);
    program_shrink(program);
}

static void tell_seed(uint64_t seed) {
    struct program program;
    program_draw(&program, seed, settings.ops, settings.threads);
    tell_finding(&program);
    free(program.ops);
}

/* --------------------------------------------------------------------- comparison */

static void configure(char *text) {
    char *mode = strchr(text, ':');
    settings.backend = text;
    settings.mode = mode ? mode + 1 : "vmm";
    if (mode) {
        *mode = 0;
    }
}

/* Says where two configurations first answer differently. */
static void difference_tell(const char *first, const char *second, uint64_t programs) {
    static uint64_t answers[OPS_MAX];
    char one[64], two[64];
    calls_count.findings++;
    for (uint64_t seed = calls_options.seed; programs--; seed++) {
        struct program program;
        program_draw(&program, seed, settings.ops, settings.threads);
        snprintf(one, sizeof one, "%s", first);
        snprintf(two, sizeof two, "%s", second);
        configure(one);
        (void)program_try(&program, false);
        memcpy(answers, told->answers, sizeof answers);
        configure(two);
        (void)program_try(&program, false);
        for (uint32_t k = 0; k < program.count; k++) {
            if (answers[k] != told->answers[k]) {
                printf("FINDING %s and %s differ: seed %llu, step %u (%s)\n", first, second,
                       (unsigned long long)seed, k, kinds[program.ops[k].kind].name);
                programs = 0;
                break;
            }
        }
        free(program.ops);
    }
}

static void told_print(const char *what) {
    printf("%s, %u thread%s%s: %llu programs, %llu calls, digest %016llx\n", what, settings.threads,
           settings.threads > 1 ? "s" : "", settings.faults ? ", faults" : "",
           (unsigned long long)told->programs, (unsigned long long)told->calls,
           (unsigned long long)told->digest);
}

/* Runs the same programs on several backends; a digest each. */
static void compare_run(uint64_t calls) {
    uint64_t first = 0, programs = 0;
    char *name = NULL, *rest = compare, kept[64], first_name[64] = "";
    while ((name = strtok_r(rest, ",", &rest))) {
        snprintf(kept, sizeof kept, "%s", name);
        configure(name);
        told->digest = told->calls = told->programs = 0;
        if (child_run(NULL, calls_options.seed, calls, programs)) {
            tell_seed(told->seed);
            return;
        }
        calls_count.runs += told->calls;
        programs = programs ? programs : told->programs;
        told_print(kept);
        if (first_name[0] && told->digest != first) {
            difference_tell(first_name, kept, programs);
            return;
        }
        first = told->digest;
        memcpy(first_name, kept, sizeof kept);
    }
}

/* ------------------------------------------------------------------------- engine */

static bool number_of(const char *text, uint64_t most, uint64_t *number) {
    char *end;
    *number = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end && *number && *number <= most;
}

static bool word_take(const char *word) {
    static char rest[WORDS_BYTES];
    const char *value = strchr(word, '=') ? strchr(word, '=') + 1 : "";
    size_t length = strcspn(word, "=");
    uint64_t number;
    const struct {
        const char *name;
        bool *flag;
    } flags[] = {{"faults", &settings.faults},
                 {"cancel", &settings.cancel},
                 {"delays", &settings.delays},
                 {"fresh", &settings.fresh},
                 {"large", &settings.large}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        if (strcmp(word, flags[i].name) == 0) {
            return *flags[i].flag = true;
        }
    }
#define IS(name) (length == strlen(name) && strncmp(word, name, length) == 0)
    if (IS("threads") && number_of(value, THREADS_MAX, &number)) {
        settings.threads = (unsigned)number;
    } else if (IS("ops") && number_of(value, OPS_MAX - 300, &number)) {
        settings.ops = (uint32_t)number;
    } else if (IS("patience") && number_of(value, 10000, &number)) {
        settings.seconds = (unsigned)number;
    } else if (IS("mode") &&
               (!strcmp(value, "vmm") || !strcmp(value, "segments") || !strcmp(value, "off"))) {
        settings.mode = value;
    } else if (IS("second") && access(value, R_OK) == 0) {
        settings.second = value;
    } else if (IS("compare") && *value) {
        snprintf(rest, sizeof rest, "%s", value);
        compare = rest;
    } else {
        fprintf(stderr, "calls: %s is no word that --with takes\n", word);
        return false;
    }
    return true;
}

static bool words_take(const char *text) {
    static char kept[WORDS_BYTES];
    char *rest = kept, *word;
    snprintf(words, sizeof words, "%s", text);
    snprintf(kept, sizeof kept, "%s", text);
    while ((word = strtok_r(rest, " ", &rest))) {
        if (!word_take(word)) {
            return false;
        }
    }
    return true;
}

/* The steps of the seed's program that --again names, or all. */
static bool again_parse(const char *text, struct program *program) {
    char *end;
    uint64_t seed = strtoull(text, &end, 10);
    if (end == text) {
        return false;
    }
    program_draw(program, seed, settings.ops, settings.threads);
    for (uint32_t at = 0; *end;) {
        char *begun = end;
        uint64_t step = strtoull(begun, &end, 10);
        if (end == begun || step < at || step >= program->count) {
            return false;
        }
        for (; at < step; at++) {
            program->ops[at].kind = 0;
        }
        at++;
        for (uint32_t i = at; !*end && i < program->count; i++) {
            program->ops[i].kind = 0;
        }
    }
    return true;
}

static struct program again;

static bool programs_prepare(const char *text) {
    settings = (struct settings){.backend = calls_options.backend,
                                 .mode = "vmm",
                                 .kinds = calls_options.only,
                                 .threads = 1,
                                 .seconds = 18,
                                 .ops = 600};
    if (!words_take(calls_options.with)) {
        exit(2);
    }
    settings.kinds = settings.large ? "alloc,free" : settings.kinds;
    for (unsigned i = 0; i < kind_count; i++) {
        calls_count.rows += kinds[i].weight && kind_is_wanted(kinds[i].name);
    }
    return !text || again_parse(text, &again);
}

static void programs_list(void) {
    for (unsigned i = 0; i < kind_count; i++) {
        if (kinds[i].weight && kind_is_wanted(kinds[i].name)) {
            printf("%s\n", kinds[i].name);
        }
    }
}

static void programs_run(void) {
    uint64_t calls = calls_options.runs ? calls_options.runs : CALLS, seed = calls_options.seed;
    told = mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (told == MAP_FAILED) {
        perror("calls: mmap");
        exit(2);
    }
    if (compare) {
        compare_run(calls);
        return;
    }
    bool found = again.ops && program_try(&again, false);
    if (found) {
        tell_finding(&again);
    } else if (!again.ops) {
        do {
            found = child_run(NULL, seed++, calls, settings.fresh);
        } while (!found && settings.fresh && told->calls < calls);
        if (found) {
            tell_seed(told->seed);
        }
    }
    calls_count.runs = told->calls;
    told_print(settings.backend);
}

const struct engine engine_programs = {"programs", "programs drawn at random, judged by a model",
                                       programs_prepare, programs_list, programs_run};
