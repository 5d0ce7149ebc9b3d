/* SPDX-License-Identifier: Apache-2.0 */
/*
 * programs.c: draws programs over the public API and runs them against the model.
 *
 *   generated_programs --seed N --calls M --threads T
 *                      --backend host|sim|opencl --mode vmm|segments|off
 *   --faults      the simulated driver and host memory fail now and then
 *   --cancel      threads are cancelled inside of calls
 *   --delays      threads are delayed at random between their steps (debug builds)
 *   --second F    handles are shown to a second copy of the library, F
 *   --compare C,D the same programs on backend:mode C and D must answer alike
 *   --only        the one program of the seed; --ops operations long
 *   --fresh       each program in a process of its own
 *   --large       a device of 6 GiB, of which three quarters are live
 *   --kinds A,B   only operations of these kinds, after the first few
 *   --seconds S   no call takes longer; 18. More on a machine that is busy with other work
 *   --no-shrink   a failing program is not cut down
 *
 * A process runs the programs; this one watches it. A program that fails, crashes or hangs is run
 * again in smaller parts, and what is left of it is printed as C. Exit 1: something was found.
 */
#include "programs/steps.h"

#include "base/delay.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct {
    uint64_t seed, calls;
    uint32_t ops;
    bool only, shrink, fresh;
    char *compare;
} options = {.seed = 1, .calls = 100000, .ops = 600, .shrink = true};

/* ----------------------------------------------------------------------- child */

/* Delays a thread at random places, for a few microseconds. */
static void delay_hook(const char *place) {
    static _Thread_local uint64_t random;
    if (!random) {
        random = (uint64_t)(uintptr_t)&random ^ told->seed;
    }
    (void)place;
    uint64_t drawn = mix(random++);
    if (drawn % 64 == 0) {
        struct timespec time = {0, (long)(drawn >> 32) % 30000};
        nanosleep(&time, NULL);
    }
}

static void child_start(void) {
    char timeout[24];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setenv("VRAM_QUOTAS", "ceiling=8M", 1);
    setenv("VRAM_LIVE", "off", 1);
    faults_install();
    if (strcmp(settings.mode, "off") == 0) {
        vram_option_set("pool", "off");
    }
    snprintf(timeout, sizeof timeout, "%us", settings.seconds + 2);
    vram_option_set("wait_timeout", timeout);
    if (settings.delays) {
        vr_delay_hook_set(delay_hook);
    }
}

/* Waits for a process; 0: it went well, 1: it found something, was killed or hangs. */
static int child_wait(pid_t child) {
    uint64_t beats = 0, last = now_ns();
    for (unsigned turn = 0;; turn++) {
        int status;
        if (waitpid(child, &status, WNOHANG) == child) {
            if (WIFSIGNALED(status)) {
                snprintf(told->failure, sizeof told->failure, "killed by signal %d (%s)",
                         WTERMSIG(status), kinds[0].name);
            }
            return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
        }
        struct timespec pause_time = {0, turn < 100 ? 200000 : 5000000};
        nanosleep(&pause_time, NULL);
        uint64_t now = told->beats + told->programs;
        if (now != beats) {
            beats = now;
            last = now_ns();
        } else if (now_ns() - last > (settings.seconds + 2) * UINT64_C(3000000000)) {
            kill(child, SIGABRT);
            waitpid(child, &status, 0);
            snprintf(told->failure, sizeof told->failure, "a call hangs");
            return 1;
        }
    }
}

int child_run(const struct program *program, bool keep_text) {
    told->keep_text = keep_text;
    memset(told->text_bytes, 0, sizeof told->text_bytes);
    told->failure[0] = 0;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        child_start();
        program_run(program);
        _exit(0);
    }
    int found = child < 0 ? 2 : child_wait(child);
    told->keep_text = false;
    return found;
}

/* Many programs in one process. */
static int children_run(uint64_t seed, uint64_t calls, uint64_t programs) {
    uint64_t before = told->calls;
    fflush(NULL);
    told->failure[0] = 0;
    pid_t child = fork();
    if (child == 0) {
        child_start();
        for (uint64_t i = 0; programs ? i < programs : told->calls - before < calls; i++) {
            struct program program;
            program_draw(&program, seed + i, options.ops, settings.threads);
            program_run(&program);
            free(program.ops);
        }
        _exit(0);
    }
    return child < 0 ? 2 : child_wait(child);
}

/* ---------------------------------------------------------------------- parent */

static int report(uint64_t seed) {
    struct program program;
    printf("FINDING seed %llu, operation %u, %llu calls before this program, %s %s, %u thread%s: "
           "%s\n",
           (unsigned long long)seed, told->op, (unsigned long long)told->calls, settings.backend,
           settings.mode, settings.threads, settings.threads > 1 ? "s" : "", told->failure);
    fflush(stdout);
    if (options.shrink) {
        program_draw(&program, seed, options.ops, settings.threads);
        program_shrink(&program);
        free(program.ops);
    }
    return 1;
}

static void configure(char *text) {
    char *mode = strchr(text, ':');
    settings.backend = text;
    settings.mode = "vmm";
    if (mode) {
        *mode = 0;
        settings.mode = mode + 1;
    }
}

/* Says where two configurations first answer differently. */
static int difference_find(char *first, char *second, uint64_t programs) {
    static uint64_t answers[OPS_MAX];
    for (uint64_t i = 0; i < programs; i++) {
        struct program program;
        char one[64], two[64];
        snprintf(one, sizeof one, "%s", first);
        snprintf(two, sizeof two, "%s", second);
        configure(one);
        program_draw(&program, options.seed + i, options.ops, settings.threads);
        (void)child_run(&program, false);
        memcpy(answers, told->answers, sizeof answers);
        configure(two);
        (void)child_run(&program, false);
        for (uint32_t k = 0; k < program.count; k++) {
            if (answers[k] != told->answers[k]) {
                printf("FINDING %s and %s differ: seed %llu, operation %u (%s)\n", first, second,
                       (unsigned long long)program.seed, k, kinds[program.ops[k].kind].name);
                free(program.ops);
                return 1;
            }
        }
        free(program.ops);
    }
    return 1;
}

/* Runs the same programs on several backends; a digest each. */
static int compare_run(void) {
    uint64_t first = 0, programs = 0;
    char *name = NULL, *rest = options.compare, kept[64], first_name[64] = "";
    while ((name = strtok_r(rest, ",", &rest))) {
        snprintf(kept, sizeof kept, "%s", name);
        configure(name);
        told->digest = 0;
        told->calls = 0;
        told->programs = 0;
        if (children_run(options.seed, options.calls, programs)) {
            return report(told->seed);
        }
        programs = programs ? programs : told->programs;
        printf("%s: %llu programs, %llu calls, digest %016llx\n", kept,
               (unsigned long long)told->programs, (unsigned long long)told->calls,
               (unsigned long long)told->digest);
        if (first_name[0] && told->digest != first) {
            return difference_find(first_name, kept, programs);
        }
        first = told->digest;
        memcpy(first_name, kept, sizeof kept);
    }
    return 0;
}

static void parse(int argc, char **argv) {
    static const struct option long_options[] = {
        {"seed", 1, 0, 's'},      {"calls", 1, 0, 'n'},   {"threads", 1, 0, 't'},
        {"backend", 1, 0, 'b'},   {"mode", 1, 0, 'm'},    {"ops", 1, 0, 'o'},
        {"faults", 0, 0, 'f'},    {"cancel", 0, 0, 'c'},  {"delays", 0, 0, 'd'},
        {"second", 1, 0, '2'},    {"compare", 1, 0, 'C'}, {"only", 0, 0, '1'},
        {"no-shrink", 0, 0, 'S'}, {"fresh", 0, 0, 'F'},   {"kinds", 1, 0, 'k'},
        {"large", 0, 0, 'l'},     {"seconds", 1, 0, 'p'}, {0, 0, 0, 0}};
    int letter;
    while ((letter = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        switch (letter) {
        case 's':
            options.seed = strtoull(optarg, NULL, 0);
            break;
        case 'n':
            options.calls = strtoull(optarg, NULL, 0);
            break;
        case 't':
            settings.threads = (unsigned)atoi(optarg);
            break;
        case 'b':
            settings.backend = optarg;
            break;
        case 'm':
            settings.mode = optarg;
            break;
        case 'o':
            options.ops = (uint32_t)atoi(optarg);
            break;
        case 'f':
            settings.faults = true;
            break;
        case 'c':
            settings.cancel = true;
            break;
        case 'd':
            settings.delays = true;
            break;
        case '2':
            settings.second = optarg;
            break;
        case 'C':
            options.compare = optarg;
            break;
        case '1':
            options.only = true;
            break;
        case 'k':
            settings.kinds = optarg;
            break;
        case 'p':
            settings.seconds = (unsigned)atoi(optarg);
            break;
        case 'F':
            options.fresh = true;
            break;
        case 'S':
            options.shrink = false;
            break;
        case 'l':
            settings.large = true;
            settings.kinds = "alloc,free";
            break;
        default:
            exit(2);
        }
    }
    if (settings.threads < 1 || settings.threads > THREADS_MAX || options.ops > OPS_MAX - 300) {
        fprintf(stderr, "generated_programs: --threads 1 to %d, --ops at most %d\n", THREADS_MAX,
                OPS_MAX - 300);
        exit(2);
    }
}

int main(int argc, char **argv) {
    parse(argc, argv);
    told = mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (told == MAP_FAILED) {
        perror("generated_programs: mmap");
        return 2;
    }
    if (options.compare) {
        return compare_run();
    }
    uint64_t began = now_ns();
    for (uint64_t i = 0; options.fresh && told->calls < options.calls; i++) {
        if (children_run(options.seed + i, options.calls, 1)) {
            return report(told->seed);
        }
    }
    if (!options.fresh && children_run(options.seed, options.calls, options.only)) {
        return report(told->seed);
    }
    printf("%s %s, %u thread%s%s: %llu programs, %llu calls, digest %016llx, %.1f s\n",
           settings.backend, settings.mode, settings.threads, settings.threads > 1 ? "s" : "",
           settings.faults ? ", faults" : "", (unsigned long long)told->programs,
           (unsigned long long)told->calls, (unsigned long long)told->digest,
           (double)(now_ns() - began) / 1e9);
    return 0;
}
