/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_driver.c: feeds a fuzz target without libFuzzer.
 *
 * fuzz TARGET [--runs N | --seconds T] [--seed S] [--only K] [--every N] [--growth BYTES] [FILE...]
 *
 * `fuzz --list` names the targets. Every file goes in as it is, then:
 *
 *   --every    every truncation and every change of one byte of the files that are small, or N of
 *              these, evenly spread; 0: all
 *   --growth   files of which a part is repeated up to BYTES and up to twice as many: the time may
 *              grow as the input does
 *   --runs     N inputs that are mutations of the files; --seconds: as many as there is time for
 *
 * An input depends on the seed and its number alone, so that --seed S --only K shows again what
 * ended a run. What ended one is printed, and the input is written to fuzz_found.input.
 */
#include "fuzz.h"

#include <fcntl.h>
#include <limits.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    INPUT_MAX = 20480,
    FILES_MAX = 64,
    SMALL_MAX = 4096,    /* of files whose every byte is changed */
    PIECES = 6,          /* of a file that are repeated */
    CHANGES = 256,       /* of a byte: 255 other values, and the end before it */
    TRIES = 6,           /* of a measurement that is too slow: the machine may be busy */
    TIME_FLOOR = 1000000 /* ns, of which nothing is concluded */
};

struct input {
    uint8_t data[INPUT_MAX];
    size_t bytes;
};

static struct input files[FILES_MAX];
static const char *names[FILES_MAX];
static size_t file_count;
static uint64_t seed = 1;
static char last_words[512];
static const uint8_t *running; /* the input that is being taken */
static size_t running_bytes;
static size_t memory_times; /* fuzz_run, the most so far */

/* Only a build with a sanitizer has this function. */
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static void say_last_words(void) {
    ssize_t written = write(STDERR_FILENO, last_words, strlen(last_words));
    int file = open("fuzz_found.input", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file >= 0) {
        written = write(file, running, running_bytes);
        close(file);
    }
    (void)written;
}

static void on_abort(int number) {
    say_last_words();
    signal(number, SIG_DFL);
    raise(number);
}

static uint64_t clock_ns(clockid_t clock) {
    struct timespec now = {0};
    (void)clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* The target gets memory of exactly that size, so that a read past it is noticed. Returns the time
   that it took, ns of the processor. */
static uint64_t run(const uint8_t *from, size_t bytes) {
    uint8_t *data = malloc(bytes ? bytes : 1);
    FUZZ_EXPECT(data != NULL);
    memcpy(data, from, bytes);
    running = data;
    running_bytes = bytes;
    uint64_t begun = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    size_t times = fuzz_run(data, bytes);
    uint64_t time = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - begun;
    memory_times = times > memory_times ? times : memory_times;
    running_bytes = 0;
    free(data);
    return time;
}

static void read_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file || file_count == FILES_MAX) {
        fprintf(stderr, "fuzz: %s cannot be read, or is one too many\n", path);
        exit(2);
    }
    struct input *input = &files[file_count];
    names[file_count++] = path;
    input->bytes = fread(input->data, 1, INPUT_MAX, file);
    fclose(file);
    snprintf(last_words, sizeof last_words, "fuzz: input %s\n", path);
    (void)run(input->data, input->bytes);
}

/* ---------------------------------------------------------------- every byte */

static void change_run(const struct input *file, const char *name, uint64_t number) {
    static struct input changed;
    size_t at = number / CHANGES, how = number % CHANGES;
    snprintf(last_words, sizeof last_words, "fuzz: input %s, byte %zu, %s %zu\n", name, at,
             how ? "exclusive or" : "the end before it,", how);
    memcpy(changed.data, file->data, file->bytes);
    changed.bytes = how ? file->bytes : at;
    changed.data[at] ^= (uint8_t)how;
    (void)run(changed.data, changed.bytes);
    if (fuzz_target->mend) {
        changed.bytes = fuzz_mend(changed.data, changed.bytes, INPUT_MAX);
        (void)run(changed.data, changed.bytes);
    }
}

static uint64_t changes_of(const struct input *file) {
    bool used = fuzz_target->most == 0 || file->bytes <= fuzz_target->most;
    return used && file->bytes <= SMALL_MAX ? file->bytes * CHANGES : 0;
}

/* At most so many, evenly spread; 0: all. Returns how many. */
static uint64_t every_change(uint64_t most) {
    uint64_t total = 0, done = 0, next = 0;
    for (size_t i = 0; i < file_count; i++) {
        total += changes_of(&files[i]);
    }
    uint64_t step = most == 0 || most >= total ? 1 : (total / most) | 1; /* odd: meets all values */
    for (size_t i = 0; i < file_count; i++) {
        for (; next < changes_of(&files[i]); next += step, done++) {
            change_run(&files[i], names[i], next);
        }
        next -= changes_of(&files[i]);
    }
    return done;
}

/* -------------------------------------------------------------------- growth */

/* The file with one of its parts repeated up to so many bytes. */
static size_t grown_make(const struct input *file, const struct fuzz_part *part, size_t bytes,
                         uint8_t *to) {
    size_t at = part->at, rest = file->bytes - part->at;
    memcpy(to, file->data, at);
    while (at + part->bytes + rest <= bytes) {
        memcpy(to + at, file->data + part->at, part->bytes);
        at += part->bytes;
    }
    memcpy(to + at, file->data + part->at, rest);
    return fuzz_mend(to, at + rest, bytes);
}

/* Twice the input takes at most two and a half times as long, in the best of some tries. */
static void growth_of_part(const struct input *file, const char *name, size_t bytes,
                           const struct fuzz_part *part) {
    uint8_t *small = malloc(bytes), *large = malloc(2 * bytes);
    FUZZ_EXPECT(small != NULL && large != NULL);
    size_t small_bytes = grown_make(file, part, bytes, small);
    size_t large_bytes = grown_make(file, part, 2 * bytes, large);
    uint64_t least = UINT64_MAX, most = UINT64_MAX;
    snprintf(last_words, sizeof last_words, "fuzz: input %s, %zu bytes from %zu repeated\n", name,
             part->bytes, part->at);
    for (int i = 0; i < TRIES && (i == 0 || most > least * 5 / 2 + TIME_FLOOR); i++) {
        uint64_t time = run(small, small_bytes), twice = run(large, large_bytes);
        least = time < least ? time : least;
        most = twice < most ? twice : most;
    }
    if (most > least * 5 / 2 + TIME_FLOOR) {
        fprintf(stderr, "%zu bytes took %llu us, %zu bytes %llu us\n", small_bytes,
                (unsigned long long)least / 1000, large_bytes, (unsigned long long)most / 1000);
        running = large;
        running_bytes = large_bytes;
        abort();
    }
    free(small);
    free(large);
}

static void growth(size_t bytes) {
    static struct fuzz_part parts[FUZZ_PARTS_MAX];
#ifdef __GLIBC__
    /* Memory that goes back to the system between two runs is faulted in again, which can take
       longer than the reader, for the larger input alone. */
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, INT_MAX);
#endif
    if (fuzz_target->most && bytes > fuzz_target->most / 2) {
        bytes = fuzz_target->most / 2;
    }
    for (size_t i = 0; i < file_count; i++) {
        const struct input *file = &files[i];
        size_t count = fuzz_target->split ? fuzz_target->split(file->data, file->bytes, parts) : 0;
        for (; count < PIECES && file->bytes > 0; count++) { /* bytes, where no parts are known */
            size_t at = file->bytes * (count + 1) / (PIECES + 1), left = file->bytes - at;
            size_t some = (size_t)1 << count;
            parts[count] = (struct fuzz_part){at, some < left ? some : left};
        }
        for (size_t k = 0; k < PIECES && k < count; k++) {
            const struct fuzz_part *part = &parts[k * count / PIECES];
            if (part->bytes > 0 && file->bytes + part->bytes <= bytes) {
                growth_of_part(file, names[i], bytes, part);
            }
        }
    }
}

/* ----------------------------------------------------------------- mutations */

static void mutation_run(uint64_t number) {
    static struct input input;
    snprintf(last_words, sizeof last_words, "fuzz: --seed %llu --only %llu\n",
             (unsigned long long)seed, (unsigned long long)number);
    fuzz_seed(seed * UINT64_C(0x9E3779B97F4A7C15) + number);
    input.bytes = 0;
    if (file_count > 0 && fuzz_draw(16)) {
        const struct input *file = &files[fuzz_draw(file_count)];
        input.bytes = file->bytes;
        memcpy(input.data, file->data, file->bytes);
    }
    for (uint64_t count = 1 + fuzz_draw(12); count > 0; count--) {
        input.bytes = fuzz_mutate(input.data, input.bytes, INPUT_MAX);
    }
    if (fuzz_draw(2)) {
        input.bytes = fuzz_mend(input.data, input.bytes, INPUT_MAX);
    }
    (void)run(input.data, input.bytes);
}

struct plan {
    uint64_t runs, only, seconds, every, growth;
    bool changes;
};

static void plan_run(const struct plan *plan) {
    uint64_t begun = clock_ns(CLOCK_MONOTONIC), number = plan->only ? plan->only : 1, done = 0;
    uint64_t last = plan->only ? plan->only : plan->runs;
    uint64_t changes = plan->changes ? every_change(plan->every) : 0;
    if (plan->growth) {
        growth((size_t)plan->growth);
    }
    while (number <= last &&
           clock_ns(CLOCK_MONOTONIC) - begun < plan->seconds * UINT64_C(1000000000)) {
        mutation_run(number++);
        done++;
    }
    printf("%zu files, %llu changes of one byte and %llu mutations of seed %llu: nothing found\n",
           file_count, (unsigned long long)changes, (unsigned long long)done,
           (unsigned long long)seed);
    if (memory_times > 0) { /* where a sanitizer counts */
        printf("memory: at most %zu times the bytes of an input, beyond what it may take at once\n",
               memory_times);
    }
}

/* False: there is no such option. */
static bool option_take(struct plan *plan, const char *option, const char *word) {
    static const char *const options[] = {"--runs", "--seconds", "--seed",
                                          "--only", "--growth",  "--every"};
    uint64_t *const numbers[] = {&plan->runs, &plan->seconds, &seed,
                                 &plan->only, &plan->growth,  &plan->every};
    char *end = NULL;
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        if (strcmp(option, options[i]) != 0) {
            continue;
        }
        *numbers[i] = word ? strtoull(word, &end, 10) : 0;
        if (!word || end == word || *end || *word == '-') {
            fprintf(stderr, "fuzz: %s needs a number\n", option);
            exit(2);
        }
        plan->changes = plan->changes || numbers[i] == &plan->every;
        if (numbers[i] == &plan->seconds) {
            plan->runs = UINT64_MAX; /* or what --runs says behind it */
        }
        return true;
    }
    return false;
}

static const struct fuzz_target *target_find(const char *name) {
    const struct fuzz_target *target = fuzz_targets;
    while (target && strcmp(target->name, name) != 0) {
        target = target->next;
    }
    return target;
}

int main(int count, char **words) {
    struct plan plan = {.runs = 1000, .seconds = 1000000000};
    if (count == 2 && strcmp(words[1], "--list") == 0) {
        for (const struct fuzz_target *target = fuzz_targets; target; target = target->next) {
            puts(target->name);
        }
        return 0;
    }
    fuzz_target = count > 1 ? target_find(words[1]) : NULL;
    if (!fuzz_target) {
        fprintf(stderr, "fuzz: %s%s; fuzz --list names the targets\n",
                count > 1 ? "there is no target " : "a target is missing",
                count > 1 ? words[1] : "");
        return 2;
    }
    signal(SIGABRT, on_abort);
    if (__sanitizer_set_death_callback) {
        __sanitizer_set_death_callback(say_last_words);
    }
    for (int i = 2; i < count; i++) {
        if (option_take(&plan, words[i], words[i + 1])) {
            i++;
        } else {
            read_file(words[i]);
        }
    }
    plan_run(&plan);
    return 0;
}
