/* SPDX-License-Identifier: Apache-2.0 */
/*
 * help.c: `vram help`, and what --help prints, all from the table of verbs.
 */
#include "help.h"
#include "words.h"

#include <stdio.h>
#include <string.h>

enum { INDENT = 2, FLAG_COLUMN = 26, VERB_COLUMN = 14 };

static void heading(const struct terminal *terminal, const char *text) {
    printf("\n");
    terminal_print(terminal, STYLE_BOLD, "%s", text);
    printf("\n");
}

/* "  -b, --backend=NAME      what it does", the text wrapped in its own column; below a name that
   reaches into it. */
static void print_flags(const struct terminal *terminal, const struct flag *flags) {
    for (; flags->name != NULL; flags++) {
        printf("%*s", INDENT, "");
        if (flags->letter != 0) {
            printf("-%c, ", flags->letter);
        } else {
            printf("    ");
        }
        char name[64];
        snprintf(name, sizeof name, "--%s%s%s", flags->name, flags->value != NULL ? "=" : "",
                 flags->value != NULL ? flags->value : "");
        terminal_cell(terminal, STYLE_ACCENT, FLAG_COLUMN - INDENT - 4, "%s", name);
        if (strlen(name) >= FLAG_COLUMN - INDENT - 4) {
            printf("\n%*s", FLAG_COLUMN, "");
        }
        terminal_wrap(terminal, STYLE_PLAIN, FLAG_COLUMN, flags->help);
    }
}

/* Examples are lines; the part behind '#' is a remark. */
static void print_examples(const struct terminal *terminal, const char *examples) {
    while (*examples != 0) {
        size_t bytes = strcspn(examples, "\n");
        size_t command = strcspn(examples, "#\n");
        printf("%*s%.*s", INDENT, "", (int)command, examples);
        terminal_print(terminal, STYLE_DIM, "%.*s", (int)(bytes - command), examples + command);
        printf("\n");
        examples += bytes + (examples[bytes] == '\n');
    }
}

/* Synopsis, one sentence, flags, examples: what people look for, in the order they look. */
void help_print_verb(const struct terminal *terminal, const struct verb *verb) {
    printf("Usage: vram %s %s\n", verb->name, verb->usage);
    printf("%s.\n", verb->summary);
    heading(terminal, "Options");
    print_flags(terminal, verb->flags);
    print_flags(terminal, common_flags);
    heading(terminal, "Examples");
    print_examples(terminal, verb->examples);
}

void help_print_command(const struct terminal *terminal) {
    printf("Usage: vram VERB [OPTION]...\n");
    printf("A memory manager for every GPU.\n");
    heading(terminal, "Verbs");
    for (size_t i = 0; verb_table[i] != NULL; i++) {
        printf("%*s", INDENT, "");
        terminal_cell(terminal, STYLE_ACCENT, VERB_COLUMN - INDENT, "%s", verb_table[i]->name);
        terminal_wrap(terminal, STYLE_PLAIN, VERB_COLUMN, verb_table[i]->summary);
    }
    heading(terminal, "Options");
    print_flags(terminal, command_flags);
    heading(terminal, "Examples");
    print_examples(terminal, "vram info               # what is in this machine\n"
                             "vram tour               # see it work, step by step\n"
                             "vram check              # does my device do what libvram needs\n"
                             "vram help info          # the options of one verb\n");
    printf("\nExit codes: 0 success, 1 the answer is no (a check failed), 2 misuse or failure.\n");
}

const struct flag command_flags[] = {
    {.name = "help", .letter = 'h', .help = "print this help and exit"},
    {.name = "version", .letter = 'V', .help = "print the version and exit"},
    FLAG_END,
};

/* --------------------------------------------------------------------- JSON */

/* A list of words as a JSON array; empty for NULL. */
static void write_words(struct json_out *json, const char *key, const char *list) {
    const char *word;
    size_t bytes;
    json_array_begin(json, key);
    while (words_next(&list, &word, &bytes)) {
        char text[WORD_MAX];
        snprintf(text, sizeof text, "%.*s", (int)bytes, word);
        json_text(json, NULL, text);
    }
    json_array_end(json);
}

static void write_flags(struct json_out *json, const struct flag *flags) {
    for (; flags->name != NULL; flags++) {
        char letter[2] = {flags->letter, 0};
        json_object_begin(json, NULL);
        json_text(json, "name", flags->name);
        json_text(json, "letter", letter[0] != 0 ? letter : NULL);
        json_text(json, "value", flags->value);
        json_text(json, "help", flags->help);
        write_words(json, "choices", flags->choices);
        json_object_end(json);
    }
}

static void write_verb(struct json_out *json, const struct verb *verb) {
    json_object_begin(json, NULL);
    json_text(json, "name", verb->name);
    json_text(json, "summary", verb->summary);
    json_text(json, "usage", verb->usage);
    json_text(json, "examples", verb->examples);
    json_array_begin(json, "flags");
    write_flags(json, verb->flags);
    write_flags(json, common_flags);
    json_array_end(json);
    json_object_end(json);
}

/* The table itself, so that documents and tools can be held against it. */
static int help_json(const struct verb *only) {
    struct json_out json;
    output_json_begin(&json, "vram.help/1");
    json_array_begin(&json, "flags");
    write_flags(&json, command_flags);
    json_array_end(&json);
    json_array_begin(&json, "verbs");
    for (size_t i = 0; verb_table[i] != NULL; i++) {
        if (only == NULL || only == verb_table[i]) {
            write_verb(&json, verb_table[i]);
        }
    }
    json_array_end(&json);
    return output_json_end(&json) ? EXIT_YES : EXIT_MISUSE;
}

/* --------------------------------------------------------------------- verb */

static int run(struct invocation *invocation) {
    const struct verb *only = NULL;
    if (invocation->operand_count > 1) {
        say_error("`vram help` takes one verb at most");
        return EXIT_MISUSE;
    }
    if (invocation->operand_count == 1) {
        only = verb_require(invocation->operands[0]);
        if (only == NULL) {
            return EXIT_MISUSE;
        }
    }
    if (invocation->json) {
        return help_json(only);
    }
    if (only != NULL) {
        help_print_verb(&invocation->terminal, only);
    } else {
        help_print_command(&invocation->terminal);
    }
    return EXIT_YES;
}

static const struct flag flags[] = {FLAG_END};

const struct verb verb_help = {
    .name = "help",
    .summary = "Print the help of the command or of one verb",
    .usage = "[VERB] [OPTION]...",
    .examples = "vram help               # all verbs\n"
                "vram help check         # the same as vram check --help\n"
                "vram help --json        # the whole table of verbs and flags, for tools\n",
    .flags = flags,
    .run = run,
    .operands = OPERANDS_VERBS,
};
