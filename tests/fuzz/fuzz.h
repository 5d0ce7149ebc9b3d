/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz.h: what a fuzz target is. fuzz_driver.c feeds one with changed inputs in every build; with
 * clang tools/fuzz has libFuzzer do it (fuzz_libfuzzer.c), which sees the code it reaches. Both
 * change inputs by fuzz_mutate.c, and measure memory by fuzz_bounds.c.
 *
 * A target takes any bytes, and ends the process (FUZZ_EXPECT) when something does not hold.
 */
#ifndef TEST_FUZZ_H
#define TEST_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Bytes of an input that are left out, repeated and exchanged together. */
struct fuzz_part {
    size_t at, bytes;
};

enum { FUZZ_PARTS_MAX = 512 };

/* What is known of a target and of its inputs. All but the first three may be 0. */
struct fuzz_target {
    const char *name;
    const char *words; /* put in by mutations, each behind the first character of all; "": none */
    int (*take)(const uint8_t *data, size_t bytes);
    /* Divides an input into parts, which may overlap; returns how many, at most FUZZ_PARTS_MAX. */
    size_t (*split)(const uint8_t *data, size_t bytes, struct fuzz_part *parts);
    /* Makes lengths, counts and checksums right; returns the bytes that it has then. */
    size_t (*mend)(uint8_t *data, size_t bytes, size_t capacity);
    /* An input may take memory_times its bytes and memory_more; 0: twice, and 1 MiB. A target that
       allows more says why. */
    size_t memory_times, memory_more;
    /* Inputs that are packed by gzip or zstd are not taken: what those need and unpack to is
       fuzz_packed.c's, and bounds by the bytes of the input say nothing of it. */
    bool plain;
    /* Bytes beyond which an input is refused or cut, so that larger ones show nothing, and seeds
       are left as they are; 0: none. */
    size_t most;
    struct fuzz_target *next; /* FUZZ_TARGET's */
};

/* A target adds itself to the program: its fuzz_words, its fuzz_take and what else is known. */
#define FUZZ_TARGET(target, ...)                                                                   \
    static struct fuzz_target fuzz_self = {                                                        \
        .name = #target, .words = fuzz_words, .take = fuzz_take, __VA_ARGS__};                     \
    __attribute__((constructor)) static void fuzz_add(void) {                                      \
        fuzz_self.next = fuzz_targets;                                                             \
        fuzz_targets = &fuzz_self;                                                                 \
    }

/* fuzz_bounds.c: those of the program, and the one that is fed. */
extern struct fuzz_target *fuzz_targets;
extern const struct fuzz_target *fuzz_target;

/* fuzz_bounds.c: gives the target an input, and holds it to the bounds of its memory where a
   sanitizer counts it. Returns how many times the bytes of the input it had beyond memory_more. */
size_t fuzz_run(const uint8_t *data, size_t bytes);

/* Around calls into code of others, such as drivers that a context loads: their memory is not
   counted, and handlers of signals that they set are undone. LLVM's, which come with drivers that
   compile, would end the process before the input that ends a run is kept. */
void fuzz_foreign_begin(void);
void fuzz_foreign_end(void);

/* fuzz_mutate.c: one change to an input, of which there is room for `capacity` bytes. Returns the
   bytes that it has then. */
size_t fuzz_mutate(uint8_t *data, size_t bytes, size_t capacity);
/* The same without changes of single bytes, which libFuzzer makes itself. */
size_t fuzz_mutate_parts(uint8_t *data, size_t bytes, size_t capacity);
size_t fuzz_mend(uint8_t *data, size_t bytes, size_t capacity);
/* Numbers for it, by a seed. */
void fuzz_seed(uint64_t seed);
uint64_t fuzz_draw(uint64_t below);

/* fuzz_parts.c: splits for formats that several targets read. */
size_t fuzz_split_lines(const uint8_t *data, size_t bytes, struct fuzz_part *parts);
/* Values of JSON, at every depth, with their names and commas. */
size_t fuzz_split_json(const uint8_t *data, size_t bytes, struct fuzz_part *parts);

/* The lines of an input, for what takes several texts. */
enum { FUZZ_FIELD_BYTES = 512 };
struct fuzz_field {
    char text[FUZZ_FIELD_BYTES];
    const char *given; /* the text; NULL: the input ends before it */
};
void fuzz_fields(const uint8_t *data, size_t bytes, struct fuzz_field *fields, size_t count);

/* Numbers with their lowest byte first. */
uint64_t fuzz_get(const uint8_t *from, size_t bytes);
void fuzz_put(uint8_t *to, uint64_t value, size_t bytes);

/* A number below `below` that follows from the bytes: for checks that only a part of the inputs
   gets, the same input always the same ones. */
uint64_t fuzz_choice(const uint8_t *data, size_t bytes, uint64_t below);

#define FUZZ_EXPECT(fact)                                                                          \
    do {                                                                                           \
        if (!(fact)) {                                                                             \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #fact);              \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#endif
