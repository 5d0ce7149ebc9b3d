/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_mutate.c: changes of inputs: single bytes, pieces, words, numbers, and the parts that a
 * target's format has. What is made depends on fuzz_seed alone.
 */
#include "fuzz.h"

#include <string.h>

struct input {
    uint8_t *data;
    size_t bytes, capacity;
};

static uint64_t random_state;

void fuzz_seed(uint64_t seed) {
    random_state = seed;
}

uint64_t fuzz_draw(uint64_t below) {
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (random_state >> 33) % below;
}

/* Puts `bytes` bytes at `at`, in the place of `gone` ones. */
static void replace(struct input *input, size_t at, size_t gone, const void *data, size_t bytes) {
    if (input->bytes - gone + bytes > input->capacity) {
        return;
    }
    memmove(input->data + at + bytes, input->data + at + gone, input->bytes - at - gone);
    if (bytes > 0) {
        memcpy(input->data + at, data, bytes);
    }
    input->bytes = input->bytes - gone + bytes;
}

static void put_word(struct input *input, size_t at) {
    const char *word = fuzz_target->words;
    const char between[] = {word[0], 0};
    size_t words = 0;
    for (const char *next = word; *next; next++) {
        words += *next == between[0];
    }
    for (uint64_t skipped = words ? fuzz_draw(words) : 0; skipped > 0; skipped--) {
        word += 1 + strcspn(word + 1, between);
    }
    if (words > 0) {
        replace(input, at, 0, word + 1, strcspn(word + 1, between));
    }
}

/* In the place of a number, or anywhere. */
static void put_number(struct input *input, size_t at) {
    static const char numbers[][24] = {
        "0",          "1",     "-1",  "18446744073709551615", "18446744073709551616",
        "4294967296", "65536", "512", "9223372036854775807",  "9223372036854775808",
        "1e9",        "0x10",  "16E"};
    size_t end = at;
    while (end < input->bytes && input->data[end] >= '0' && input->data[end] <= '9') {
        end++;
    }
    const char *number = numbers[fuzz_draw(sizeof numbers / sizeof numbers[0])];
    replace(input, at, end - at, number, strlen(number));
}

/* A little-endian number of 1, 2, 4 or 8 bytes, near a bound or near what is there. */
static void put_binary(struct input *input, size_t at) {
    size_t width = (size_t)1 << fuzz_draw(4);
    uint64_t value = 0;
    if (input->bytes - at < width) {
        return;
    }
    memcpy(&value, input->data + at, width); /* wrong on big-endian machines, and as good */
    uint64_t bound = UINT64_C(1) << fuzz_draw(8 * width);
    value = fuzz_draw(2) ? bound - fuzz_draw(3) + 1 : value + fuzz_draw(17) - 8;
    memcpy(input->data + at, &value, width);
}

/* -------------------------------------------------------------------- parts */

/* A part of the input goes, comes again, is repeated, or takes the place of another one. */
static bool change_parts(struct input *input) {
    static struct fuzz_part parts[FUZZ_PARTS_MAX];
    uint8_t copy[1024];
    size_t count = fuzz_target->split ? fuzz_target->split(input->data, input->bytes, parts) : 0;
    if (count == 0) {
        return false;
    }
    const struct fuzz_part *one = &parts[fuzz_draw(count)], *other = &parts[fuzz_draw(count)];
    if (one->bytes > sizeof copy) {
        return false;
    }
    memcpy(copy, input->data + one->at, one->bytes);
    switch (fuzz_draw(4)) {
    case 0:
        replace(input, one->at, one->bytes, NULL, 0);
        break;
    case 1:
        replace(input, other->at, 0, copy, one->bytes);
        break;
    case 2:
        replace(input, other->at, other->bytes, copy, one->bytes);
        break;
    default:
        for (uint64_t times = fuzz_draw(16); times > 0; times--) {
            replace(input, one->at, 0, copy, one->bytes);
        }
    }
    return true;
}

static void mutate_parts(struct input *input) {
    size_t at = fuzz_draw(input->bytes + 1);
    switch (fuzz_draw(4)) {
    case 0:
        put_word(input, at);
        break;
    case 1:
        put_number(input, at);
        break;
    case 2:
        put_binary(input, at);
        break;
    default:
        if (!change_parts(input)) {
            put_word(input, at);
        }
    }
}

size_t fuzz_mutate_parts(uint8_t *data, size_t bytes, size_t capacity) {
    struct input input = {data, bytes, capacity};
    mutate_parts(&input);
    return input.bytes;
}

/* -------------------------------------------------------------------- bytes */

static void mutate_bytes(struct input *input) {
    size_t at = fuzz_draw(input->bytes + 1), left = input->bytes - at;
    uint8_t piece[64];
    switch (fuzz_draw(6)) {
    case 0:
        if (left > 0) {
            input->data[at] ^= (uint8_t)(1u << fuzz_draw(8));
        }
        break;
    case 1:
        if (left > 0) {
            input->data[at] = (uint8_t)fuzz_draw(256);
        }
        break;
    case 2: /* a part goes */
        replace(input, at, fuzz_draw((left < 32 ? left : 32) + 1), NULL, 0);
        break;
    case 3: /* a part comes twice, somewhere else */
        left = left < sizeof piece ? left : sizeof piece;
        memcpy(piece, input->data + at, left);
        replace(input, fuzz_draw(input->bytes + 1), 0, piece, left);
        break;
    case 4: /* it is cut off */
        input->bytes = fuzz_draw(4) ? input->bytes : at;
        break;
    default:
        for (size_t i = 0; i < 8; i++) {
            piece[i] = (uint8_t)fuzz_draw(256);
        }
        replace(input, at, 0, piece, fuzz_draw(9));
    }
}

size_t fuzz_mutate(uint8_t *data, size_t bytes, size_t capacity) {
    struct input input = {data, bytes, capacity};
    if (fuzz_draw(8) < 5) {
        mutate_bytes(&input);
    } else {
        mutate_parts(&input);
    }
    return input.bytes;
}

size_t fuzz_mend(uint8_t *data, size_t bytes, size_t capacity) {
    return fuzz_target->mend ? fuzz_target->mend(data, bytes, capacity) : bytes;
}
