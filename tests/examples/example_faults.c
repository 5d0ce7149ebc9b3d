/* SPDX-License-Identifier: Apache-2.0 */
/*
 * example_faults.c: all examples in one program.
 *
 *   examples_faulted NAME                    with one call after the other failing: of the host's
 *                                            memory, and of the simulated driver, which it is given
 *                                            in the place of the host and which answers some calls
 *                                            with a success that cannot be
 *   examples_faulted --plain NAME [WORD...]  as it is
 *
 * Whichever way an example ends, by itself or by exit(), nothing is left: no object, no byte. One
 * that succeeds has the exit code 0, one that fails 1.
 */
#include "tools.h"

#include "base/error.h"
#include "base/handle.h"
#include "base/memory.h"
#include "base/option.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Noreturn void example_exit(int code);

static int (*example_main)(int count, char **words);
static char *example_words[] = {"example", NULL};
static jmp_buf out;
static bool plain;
static int exit_code;

void example_exit(int code) {
    if (plain) {
        exit(code);
    }
    exit_code = code;
    longjmp(out, 1);
}

static int run(void) {
    if (setjmp(out) == 0) {
        exit_code = example_main(1, example_words);
    }
    return exit_code;
}

/* One run; false when it has left something, or ended as nothing should. */
static bool is_clean(const char *what, unsigned nth, int *code) {
    uint64_t bytes = vr_mem_live_bytes(), handles = vr_handle_live(0);
    *code = run();
    vr_mem_fail_at(0, false);
    int64_t more_bytes = (int64_t)(vr_mem_live_bytes() - bytes);
    int64_t more_handles = (int64_t)(vr_handle_live(0) - handles);
    if (more_bytes || more_handles || (*code != 0 && *code != 1)) {
        fprintf(stderr, "%s %u: exit code %d, %lld bytes and %lld objects left\n", what, nth, *code,
                (long long)more_bytes, (long long)more_handles);
        return false;
    }
    return true;
}

enum {
    DRIVER_CALLS = 60,
    LIES = 3
}; /* an example makes few of the calls that can report a false success */

/* The same with a fault of the driver's. */
static bool is_clean_on_sim(const char *fault, unsigned nth, int *code) {
    char sim[64];
    snprintf(sim, sizeof sim, "memory=1G,real=on,fault=any:%u:%s", nth, fault);
    bool clean = vram_option_set("sim", sim) == VRAM_OK &&
                 vram_option_set("backends", "sim") == VRAM_OK &&
                 is_clean("with a fault at the driver's call", nth, code);
    vr_option_reset();
    return clean;
}

/* The first calls one by one, which make the objects; later ones, which are much alike, with
   gaps. */
static unsigned next_call(unsigned nth) {
    return nth + 1 + nth / 12;
}

static bool example_find(const char *name) {
    const struct named_main *example = examples;
    while (name && example->name && strcmp(name, example->name) != 0) {
        example++;
    }
    example_main = name ? example->main : NULL;
    return example_main;
}

int main(int count, char **words) {
    int code, failed = 0;
    bool clean = true, more = true;
    plain = count > 1 && strcmp(words[1], "--plain") == 0;
    if (count < 2 + plain || !example_find(words[1 + plain]) || (!plain && count > 2)) {
        fprintf(stderr, "usage: examples_faulted NAME | --plain NAME [WORD...]; names are those of "
                        "the files in examples\n");
        return 2;
    }
    if (plain) {
        return example_main(count - 2, words + 2);
    }
    if (!freopen("/dev/null", "w", stdout)) {
        return 2;
    }
    (void)run(); /* what the library makes once */
    for (unsigned nth = 1; more && clean; nth = next_call(nth)) {
        vr_mem_fail_at(nth, false);
        clean = is_clean("without host memory at call", nth, &code);
        failed += code;
        more = vr_mem_failed() > 0;
    }
    for (unsigned nth = 1; nth <= DRIVER_CALLS && clean; nth = next_call(nth)) {
        clean = is_clean_on_sim("out_of_memory", nth, &code);
        failed += code;
    }
    for (unsigned nth = 1; nth <= LIES && clean; nth++) {
        clean = is_clean_on_sim("null", nth, &code) && is_clean_on_sim("overlap", nth, &code);
    }
    if (clean && failed == 0) {
        fprintf(stderr, "no call was made to fail\n");
        clean = false;
    }
    return clean ? 0 : 1;
}
