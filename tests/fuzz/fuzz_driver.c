/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_driver.c: feeds a fuzz target without libFuzzer.
 *
 *   fuzz_NAME [--runs N | --seconds T] [--seed S] [--only K] FILE...
 *
 * Every file goes in as it is, then N inputs that are mutations of these, or as many as there is
 * time for. An input depends on the
 * seed and its number alone, so that --seed S --only K shows again what ended a run; both are
 * printed then.
 */
#include "fuzz.h"

#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { INPUT_MAX = 8192, FILES_MAX = 64 };

struct input {
    uint8_t data[INPUT_MAX];
    size_t bytes;
};

static struct input files[FILES_MAX];
static size_t file_count;
static uint64_t seed = 1, random_state;
static char last_words[96];

/* Only a build with a sanitizer has this function. */
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static void say_last_words(void) {
    ssize_t written = write(STDERR_FILENO, last_words, strlen(last_words));
    (void)written;
}

static void on_abort(int number) {
    say_last_words();
    signal(number, SIG_DFL);
    raise(number);
}

static uint64_t draw(uint64_t below) {
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (random_state >> 33) % below;
}

/* ----------------------------------------------------------------- mutating */

/* Puts `bytes` bytes at `at`, in the place of `gone` ones. */
static void replace(struct input *input, size_t at, size_t gone, const void *data, size_t bytes) {
    if (input->bytes - gone + bytes > INPUT_MAX) {
        return;
    }
    memmove(input->data + at + bytes, input->data + at + gone, input->bytes - at - gone);
    memcpy(input->data + at, data, bytes);
    input->bytes = input->bytes - gone + bytes;
}

static void put_word(struct input *input, size_t at) {
    size_t words = 0;
    while (fuzz_words[words]) {
        words++;
    }
    if (words > 0) {
        const char *word = fuzz_words[draw(words)];
        replace(input, at, 0, word, strlen(word));
    }
}

/* In the place of a number, or anywhere. */
static void put_number(struct input *input, size_t at) {
    static const char *const numbers[] = {"0",
                                          "1",
                                          "-1",
                                          "18446744073709551615",
                                          "18446744073709551616",
                                          "9223372036854775807",
                                          "9223372036854775808",
                                          "4294967296",
                                          "65536",
                                          "512",
                                          "1e9",
                                          "0x10",
                                          "16E"};
    size_t end = at;
    while (end < input->bytes && input->data[end] >= '0' && input->data[end] <= '9') {
        end++;
    }
    const char *number = numbers[draw(sizeof numbers / sizeof numbers[0])];
    replace(input, at, end - at, number, strlen(number));
}

static void mutate_once(struct input *input) {
    size_t at = draw(input->bytes + 1), left = input->bytes - at;
    uint8_t piece[64];
    switch (draw(8)) {
    case 0:
        if (left > 0) {
            input->data[at] ^= (uint8_t)(1u << draw(8));
        }
        break;
    case 1:
        if (left > 0) {
            input->data[at] = (uint8_t)draw(256);
        }
        break;
    case 2: /* a part goes */
        replace(input, at, draw((left < 32 ? left : 32) + 1), piece, 0);
        break;
    case 3: /* a part comes twice, somewhere else */
        left = left < sizeof piece ? left : sizeof piece;
        memcpy(piece, input->data + at, left);
        replace(input, draw(input->bytes + 1), 0, piece, left);
        break;
    case 4:
        put_word(input, at);
        break;
    case 5:
        put_number(input, at);
        break;
    case 6: /* it is cut off */
        input->bytes = draw(4) ? input->bytes : at;
        break;
    default:
        for (size_t i = 0; i < 8; i++) {
            piece[i] = (uint8_t)draw(256);
        }
        replace(input, at, 0, piece, draw(9));
    }
}

static void make_input(struct input *input, uint64_t number) {
    random_state = seed * UINT64_C(0x9E3779B97F4A7C15) + number;
    input->bytes = 0;
    if (file_count > 0 && draw(16)) {
        *input = files[draw(file_count)];
    }
    for (uint64_t count = 1 + draw(12); count > 0; count--) {
        mutate_once(input);
    }
}

/* ------------------------------------------------------------------ running */

/* The target gets memory of exactly that size, so that a read past it is noticed. */
static void run(const struct input *input, const char *name, uint64_t number) {
    snprintf(last_words, sizeof last_words, "fuzz: input %s --seed %llu --only %llu\n", name,
             (unsigned long long)seed, (unsigned long long)number);
    uint8_t *data = malloc(input->bytes ? input->bytes : 1);
    FUZZ_EXPECT(data != NULL);
    memcpy(data, input->data, input->bytes);
    LLVMFuzzerTestOneInput(data, input->bytes);
    free(data);
}

static void read_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file || file_count == FILES_MAX) {
        fprintf(stderr, "fuzz: %s cannot be read, or is one too many\n", path);
        exit(2);
    }
    files[file_count].bytes = fread(files[file_count].data, 1, INPUT_MAX, file);
    fclose(file);
    run(&files[file_count++], path, 0);
}

static uint64_t now_s(void) {
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec;
}

int main(int count, char **words) {
    static struct input input;
    uint64_t runs = 1000, only = 0, seconds = UINT64_MAX, begun = now_s();
    signal(SIGABRT, on_abort);
    if (__sanitizer_set_death_callback) {
        __sanitizer_set_death_callback(say_last_words);
    }
    for (int i = 1; i < count; i++) {
        bool more = i + 1 < count;
        if (more && strcmp(words[i], "--runs") == 0) {
            runs = strtoull(words[++i], NULL, 10);
        } else if (more && strcmp(words[i], "--seconds") == 0) {
            seconds = strtoull(words[++i], NULL, 10);
            runs = UINT64_MAX;
        } else if (more && strcmp(words[i], "--seed") == 0) {
            seed = strtoull(words[++i], NULL, 10);
        } else if (more && strcmp(words[i], "--only") == 0) {
            only = strtoull(words[++i], NULL, 10);
        } else {
            read_file(words[i]);
        }
    }
    uint64_t number = only ? only : 1, done = 0;
    for (; number <= (only ? only : runs) && now_s() - begun < seconds; number++, done++) {
        make_input(&input, number);
        run(&input, "mutated,", number);
    }
    printf("%zu files and %llu mutations of seed %llu: nothing found\n", file_count,
           (unsigned long long)done, (unsigned long long)seed);
    return 0;
}
