/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c: the command `vram`: finds the verb, reads its arguments, runs it, checks stdout.
 */
#include "help.h"
#include "verb.h"
#include "words.h"

#include <locale.h>
#include <stdio.h>
#include <string.h>

const struct verb *const verb_table[] = {
    &verb_info,     &verb_check,  &verb_tour,       &verb_replay, &verb_report,
    &verb_run,      &verb_top,    &verb_exporter,   &verb_bench,  &verb_stress,
    &verb_estimate, &verb_broker, &verb_completion, &verb_help,   NULL,
};

const struct verb *verb_find(const char *name) {
    for (size_t i = 0; verb_table[i] != NULL; i++) {
        if (strcmp(verb_table[i]->name, name) == 0) {
            return verb_table[i];
        }
    }
    return NULL;
}

/* What other tools call it. */
static const char *const other_words[][2] = {
    {"list", "info"},    {"devices", "info"}, {"smi", "top"},          {"monitor", "top"},
    {"stats", "top"},    {"trace", "run"},    {"record", "run"},       {"profile", "run"},
    {"leaks", "report"}, {"view", "report"},  {"simulate", "replay"},  {"test", "check"},
    {"fit", "estimate"}, {"demo", "tour"},    {"metrics", "exporter"}, {"version", "--version"},
};

const struct verb *verb_require(const char *name) {
    const struct verb *verb = verb_find(name);
    if (verb != NULL) {
        return verb;
    }
    struct nearest nearest = {.typed = name};
    for (size_t i = 0; verb_table[i] != NULL; i++) {
        nearest_consider(&nearest, verb_table[i]->name, strlen(verb_table[i]->name));
    }
    for (size_t i = 0; i < sizeof other_words / sizeof other_words[0]; i++) {
        if (strcmp(other_words[i][0], name) == 0) {
            snprintf(nearest.best, sizeof nearest.best, "%s", other_words[i][1]);
        }
    }
    if (nearest.best[0] != 0) {
        say_error("unknown verb \"%s\"; did you mean \"%s\"?", name, nearest.best);
    } else {
        say_error("unknown verb \"%s\"; `vram --help` lists them", name);
    }
    return NULL;
}

/* What the environment held and nobody could use is said once, before the verb's own words. */
static void warn_of_environment(void) {
    char text[512];
    size_t count = vram_option_problem(0, text, sizeof text);
    for (size_t i = 0; i < count; i++) {
        vram_option_problem(i, text, sizeof text);
        say_warning("%s", text);
    }
}

/* --help wins over everything but a mistake before it: whoever asks for help gets nothing else. */
static int run_verb(const struct verb *verb, char *const *words) {
    struct invocation invocation;
    if (!arguments_parse(&invocation, verb, words)) {
        return EXIT_MISUSE;
    }
    if (invocation.help) {
        help_print_verb(&invocation.terminal, verb);
        return EXIT_YES;
    }
    warn_of_environment();
    return verb->run(&invocation);
}

/* Flags before the verb: they end the work at once, so the first one counts. */
static int run_flag(const char *flag) {
    struct terminal terminal;
    terminal_detect(&terminal, NULL);
    if (strcmp(flag, "--help") == 0 || strcmp(flag, "-h") == 0) {
        help_print_command(&terminal);
        return EXIT_YES;
    }
    if (strcmp(flag, "--version") == 0 || strcmp(flag, "-V") == 0) {
        printf("vram %s\n", vram_version_text());
        return EXIT_YES;
    }
    struct nearest nearest = {.typed = flag};
    nearest_consider(&nearest, "--help", strlen("--help"));
    nearest_consider(&nearest, "--version", strlen("--version"));
    if (nearest.best[0] != 0) {
        say_error("unknown flag %s; did you mean %s?", flag, nearest.best);
    } else {
        say_error("unknown flag %s before the verb; `vram --help` shows the order", flag);
    }
    return EXIT_MISUSE;
}

static int run_command(char *const *words) {
    if (words[0] == NULL) {
        say_error("a verb is missing; `vram --help` lists them, `vram info` is a good first one");
        return EXIT_MISUSE;
    }
    if (words[0][0] == '-') {
        return run_flag(words[0]);
    }
    const struct verb *verb = verb_require(words[0]);
    return verb != NULL ? run_verb(verb, words + 1) : EXIT_MISUSE;
}

int main(int count, char **words) {
    output_start();
    setlocale(LC_CTYPE, "");
    int code = run_command(count > 0 ? words + 1 : words);
    return output_finish() ? code : EXIT_MISUSE;
}
