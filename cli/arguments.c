/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arguments.c: see arguments.h.
 */
#include "arguments.h"
#include "output.h"
#include "verb.h"
#include "words.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct flag common_flags[] = {
    {.name = "json", .letter = 'j', .help = "print one JSON document, sizes in bytes"},
    {.name = "color",
     .value = "WHEN",
     .help = "use colors: auto (the default), always or never",
     .choices = "auto always never"},
    {.name = "help", .letter = 'h', .help = "print this help and exit"},
    FLAG_END,
};

/* The words still to be read, and whose they are. */
struct reader {
    struct invocation *invocation;
    char *const *words; /* the next one; NULL at the end */
    bool flags_ended;   /* `--` was seen */
};

/* A row that matched: in the verb's own table, whose slot keeps the value, or a common one. */
struct match {
    const struct flag *flag;
    const char **slot; /* NULL for a common flag */
};

/* Finds a flag by its long name (`bytes` of `name`), or by its letter when that is not 0. */
static struct match find(struct invocation *invocation, const char *name, size_t bytes,
                         char letter) {
    const struct flag *tables[2] = {invocation->verb->flags, common_flags};
    for (int t = 0; t < 2; t++) {
        for (size_t i = 0; i < FLAGS_MAX && tables[t][i].name != NULL; i++) {
            const struct flag *flag = &tables[t][i];
            bool same = letter != 0 ? flag->letter == letter
                                    : name != NULL && strlen(flag->name) == bytes &&
                                          memcmp(flag->name, name, bytes) == 0;
            if (same) {
                return (struct match){flag, t == 0 ? &invocation->values[i] : NULL};
            }
        }
    }
    return (struct match){NULL, NULL};
}

/* A mistyped flag is answered with the one that was meant, else with where they are listed. */
static bool unknown_long(const struct invocation *invocation, const char *name, size_t bytes) {
    char typed[WORD_MAX];
    struct nearest nearest = {.typed = typed};
    snprintf(typed, sizeof typed, "%.*s", (int)bytes, name);
    const struct flag *tables[2] = {invocation->verb->flags, common_flags};
    for (int t = 0; t < 2; t++) {
        for (const struct flag *flag = tables[t]; flag->name != NULL; flag++) {
            nearest_consider(&nearest, flag->name, strlen(flag->name));
        }
    }
    if (nearest.best[0] != 0) {
        say_error("unknown flag --%.*s; did you mean --%s?", (int)bytes, name, nearest.best);
    } else {
        say_error("unknown flag --%.*s; `vram %s --help` lists them", (int)bytes, name,
                  invocation->verb->name);
    }
    return false;
}

/* Keeps a value after checking it against the flag's choices. */
static bool accept(struct invocation *invocation, struct match match, const char *value) {
    const struct flag *flag = match.flag;
    if (flag->choices != NULL && !words_contain(flag->choices, value)) {
        char choices[256];
        say_error("--%s=%s: not one of %s", flag->name, value,
                  words_join(flag->choices, choices, sizeof choices));
        return false;
    }
    if (flag->repeats && invocation->repeated_count == REPEATED_MAX) {
        say_error("--%s=%s: a flag may be repeated at most %d times", flag->name, value,
                  REPEATED_MAX);
        return false;
    }
    if (flag->repeats) {
        invocation->repeated[invocation->repeated_count].flag = flag;
        invocation->repeated[invocation->repeated_count++].value = value;
    }
    if (match.slot != NULL) {
        *match.slot = value;
    } else if (strcmp(flag->name, "json") == 0) {
        invocation->json = true;
    } else if (strcmp(flag->name, "help") == 0) {
        invocation->help = true;
    } else {
        invocation->color = value;
    }
    return true;
}

/* Takes the flag's argument from `given`, or from the next word when there is none. */
static bool take_value(struct reader *reader, struct match match, const char *given) {
    if (given == NULL && *reader->words != NULL) {
        given = *reader->words++;
    }
    if (given == NULL) {
        say_error("--%s needs an argument: --%s=%s", match.flag->name, match.flag->name,
                  match.flag->value);
        return false;
    }
    return accept(reader->invocation, match, given);
}

/* A flag by another spelling: `bytes` of `word`, behind the first dash. */
static struct match find_also(struct invocation *invocation, const char *word, size_t bytes) {
    const struct flag *flags = invocation->verb->flags;
    for (size_t i = 0; i < FLAGS_MAX && flags[i].name != NULL; i++) {
        for (const char *at = flags[i].also != NULL ? flags[i].also : ""; *at != 0;) {
            size_t one = strcspn(at, " ");
            if (one == bytes && memcmp(at, word, bytes) == 0) {
                return (struct match){&flags[i], &invocation->values[i]};
            }
            at += one + (at[one] == ' ');
        }
    }
    return (struct match){NULL, NULL};
}

/* --name, --name=value, or --name with its value in the next word. */
static bool read_long(struct reader *reader, const char *word) {
    const char *name = word + 2;
    size_t bytes = strcspn(name, "=");
    const char *given = name[bytes] == '=' ? name + bytes + 1 : NULL;
    struct match match = find(reader->invocation, name, bytes, 0);
    if (match.flag == NULL) {
        match = find_also(reader->invocation, word + 1, bytes + 1);
    }
    if (match.flag == NULL) {
        return unknown_long(reader->invocation, name, bytes);
    }
    if (match.flag->value != NULL) {
        return take_value(reader, match, given);
    }
    if (given != NULL) {
        say_error("--%s takes no argument", match.flag->name);
        return false;
    }
    return accept(reader->invocation, match, "");
}

/* A cluster: switches in a row, the last one may take an argument (-jb host, -bhost). */
static bool read_short(struct reader *reader, const char *word) {
    struct match whole = find_also(reader->invocation, word + 1, strlen(word + 1));
    if (whole.flag != NULL) {
        return whole.flag->value != NULL ? take_value(reader, whole, NULL)
                                         : accept(reader->invocation, whole, "");
    }
    for (const char *letter = word + 1; *letter != 0; letter++) {
        struct match match = find(reader->invocation, NULL, 0, *letter);
        if (match.flag == NULL) {
            say_error("unknown flag -%c; `vram %s --help` lists them", *letter,
                      reader->invocation->verb->name);
            return false;
        }
        if (match.flag->value != NULL) {
            return take_value(reader, match, letter[1] != 0 ? letter + 1 : NULL);
        }
        if (!accept(reader->invocation, match, "")) {
            return false;
        }
    }
    return true;
}

/*
 * A word that is no flag. Verbs that take none say so, rather than ignore what the user meant to
 * matter; those that know their words refuse others here, so that no verb has to.
 */
static bool read_operand(struct invocation *invocation, const char *word) {
    const struct verb *verb = invocation->verb;
    if (verb->operands == NULL || invocation->operand_count == OPERANDS_MAX) {
        say_error("`vram %s` takes no argument \"%s\"", verb->name, word);
        return false;
    }
    if (verb->operands[0] != '@' && !words_contain(verb->operands, word)) {
        char accepted[256];
        say_error("\"%s\" is not one of %s", word,
                  words_join(verb->operands, accepted, sizeof accepted));
        return false;
    }
    invocation->operands[invocation->operand_count++] = word;
    return true;
}

/* Whether the word just read is a program: it and what follows is not ours to read. */
static bool takes_program(struct reader *reader) {
    const char *operands = reader->invocation->verb->operands;
    if (operands == NULL || strcmp(operands, OPERANDS_PROGRAM) != 0) {
        return false;
    }
    reader->invocation->rest = reader->words - 1;
    while (*reader->words != NULL) {
        reader->words++;
    }
    return true;
}

/* Reads one word, and the next one too where it is a flag's argument. */
static bool read_word(struct reader *reader) {
    const char *word = *reader->words++;
    if (reader->flags_ended || word[0] != '-' || word[1] == 0) {
        if (takes_program(reader)) {
            return true;
        }
        return read_operand(reader->invocation, word);
    }
    if (strcmp(word, "--") == 0) {
        reader->flags_ended = true;
        return true;
    }
    return word[1] == '-' ? read_long(reader, word) : read_short(reader, word);
}

/* The terminal is looked at last: --color may stand anywhere. */
bool arguments_parse(struct invocation *invocation, const struct verb *verb, char *const *words) {
    memset(invocation, 0, sizeof *invocation);
    invocation->verb = verb;
    struct reader reader = {invocation, words, false};
    while (*reader.words != NULL) {
        if (!read_word(&reader)) {
            return false;
        }
    }
    terminal_detect(&invocation->terminal, invocation->color);
    return true;
}

/* Asking for a flag that is in no table is a mistake of the verb's, not of the user's. */
const char *flag_value(const struct invocation *invocation, const char *name) {
    const struct flag *flags = invocation->verb->flags;
    for (size_t i = 0; i < FLAGS_MAX && flags[i].name != NULL; i++) {
        if (strcmp(flags[i].name, name) == 0) {
            return invocation->values[i];
        }
    }
    assert(0 && "the flag is in the verb's table");
    return NULL;
}

bool flag_given(const struct invocation *invocation, const char *name) {
    return flag_value(invocation, name) != NULL;
}

size_t flag_values(const struct invocation *invocation, const char *name,
                   const char *values[REPEATED_MAX]) {
    size_t count = 0;
    for (size_t i = 0; i < invocation->repeated_count; i++) {
        if (strcmp(invocation->repeated[i].flag->name, name) == 0) {
            values[count++] = invocation->repeated[i].value;
        }
    }
    return count;
}

bool flag_number(const struct invocation *invocation, const char *name, uint64_t minimum,
                 uint64_t maximum, uint64_t *number) {
    const char *text = flag_value(invocation, name);
    if (text == NULL) {
        return true;
    }
    char *end = NULL;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    bool digits = text[0] >= '0' && text[0] <= '9'; /* strtoull would take blanks and signs */
    if (!digits || *end != 0 || errno != 0 || value < minimum || value > maximum) {
        say_error("--%s=%s: not a whole number from %" PRIu64 " to %" PRIu64, name, text, minimum,
                  maximum);
        return false;
    }
    *number = value;
    return true;
}
