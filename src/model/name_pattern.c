/* SPDX-License-Identifier: Apache-2.0 */
/*
 * name_pattern.c: see name_pattern.h. The regular expressions are the part of Python's that such
 * files use: literals, '.', classes, escapes, '*', '+' and '?' behind one of these, '^', '$', and
 * groups of alternatives, which '?' may follow. Anything else matches nothing.
 */
#include "model/name_pattern.h"

#include <stddef.h>
#include <string.h>

enum { CALL_STEPS = 8 }; /* what a call takes at least */

static bool step_taken(uint64_t *steps) {
    *steps -= *steps > 0;
    return *steps > 0;
}

/* ----------------------------------------------------------------- wildcards */

/* '*' is any text. Ends at the end of the name or of a component. */
static bool wildcard_matches(const char *pattern, const char *name, uint64_t *steps) {
    const char *star = NULL, *retry = NULL;
    while (step_taken(steps)) {
        if (*pattern == '*') {
            star = ++pattern;
            retry = name;
        } else if (*pattern == '\0' && (*name == '\0' || *name == '.')) {
            return true;
        } else if (*name && (*pattern == *name || *pattern == '?')) {
            pattern++, name++;
        } else if (star && *retry) {
            pattern = star;
            name = ++retry;
        } else {
            return false;
        }
    }
    return false;
}

/* Whole components of the name. */
static bool words_match(const char *words, const char *name, uint64_t *steps) {
    size_t bytes = strlen(words);
    for (const char *at = strstr(name, words); at && step_taken(steps);
         at = strstr(at + 1, words)) {
        if ((at == name || at[-1] == '.') && (at[bytes] == '.' || at[bytes] == '\0')) {
            return true;
        }
    }
    return false;
}

/* --------------------------------------------------------- regular expressions */

/* What follows a group. */
struct regex_rest {
    const char *at, *end;
    const struct regex_rest *up;
};

/* The end of the atom at `at`: a class, an escape or one character. NULL: it has none. */
static const char *atom_end(const char *at, const char *end) {
    if (*at == '[') {
        const char *close = memchr(at, ']', (size_t)(end - at));
        return close ? close + 1 : NULL;
    }
    return *at == '\\' ? (end - at > 1 ? at + 2 : NULL) : at + 1;
}

static bool class_contains(const char *at, const char *end, char c) {
    bool inverse = at < end && *at == '^', found = false;
    for (at += inverse; at < end; at++) {
        if (end - at > 2 && at[1] == '-') {
            found = found || (c >= at[0] && c <= at[2]);
            at += 2;
        } else {
            found = found || c == *at;
        }
    }
    return found != inverse;
}

static bool atom_matches(const char *at, const char *end, char c) {
    if (c == '\0') {
        return false;
    }
    if (*at == '[') {
        return class_contains(at + 1, end - 1, c);
    }
    if (*at == '\\') {
        bool digit = c >= '0' && c <= '9';
        return at[1] == 'd'   ? digit
               : at[1] == 'w' ? digit || c == '_' || (c | 32) >= 'a'
                              : c == at[1];
    }
    return *at == '.' || *at == c;
}

/* The parenthesis that closes the group at `at`; NULL: none does. */
static const char *group_end(const char *at, const char *end) {
    int depth = 0;
    for (; at < end; at++) {
        if (*at == '\\') {
            at++;
        } else if (*at == '(') {
            depth++;
        } else if (*at == ')' && --depth == 0) {
            return at;
        }
    }
    return NULL;
}

static bool regex_matches(const char *at, const char *end, const char *name,
                          const struct regex_rest *rest, uint64_t *steps);

/* Each alternative of a group, followed by what is behind the group. */
static bool group_matches(const char *at, const char *end, const char *name,
                          const struct regex_rest *rest, uint64_t *steps) {
    const char *close = group_end(at, end), *one = at + 1;
    if (!close || (close + 1 < end && (close[1] == '*' || close[1] == '+')) ||
        (one[0] == '?' && one[1] != ':')) {
        return false;
    }
    bool optional = close + 1 < end && close[1] == '?';
    struct regex_rest behind = {close + 1 + optional, end, rest};
    one += one[0] == '?' ? 2 : 0;
    for (int depth = 0; one <= close && step_taken(steps);) {
        const char *stop = one;
        for (; stop < close && (depth > 0 || *stop != '|'); stop++) {
            depth += (*stop == '(') - (*stop == ')');
        }
        if (regex_matches(one, stop, name, &behind, steps)) {
            return true;
        }
        one = stop + 1;
    }
    return optional && regex_matches(behind.at, behind.end, name, behind.up, steps);
}

static bool regex_matches(const char *at, const char *end, const char *name,
                          const struct regex_rest *rest, uint64_t *steps) {
    while (step_taken(steps)) {
        if (at >= end) {
            return !rest || regex_matches(rest->at, rest->end, name, rest->up, steps);
        }
        if (*at == '(') {
            return group_matches(at, end, name, rest, steps);
        }
        if (*at == '^' || (*at == '$' && *name == '\0')) {
            at++;
            continue;
        }
        const char *next = atom_end(at, end);
        char count = next && next < end ? *next : '\0';
        if (!next || *at == '$') {
            return false;
        }
        if (count == '*' || count == '+' || count == '?') {
            size_t least = count == '+', most = 0;
            while ((most == 0 || count != '?') && atom_matches(at, next, name[most])) {
                most++;
            }
            for (size_t taken = most + 1; taken-- > least;) {
                if (regex_matches(next + 1, end, name + taken, rest, steps)) {
                    return true;
                }
            }
            return false;
        }
        if (!atom_matches(at, next, *name)) {
            return false;
        }
        at = next;
        name++;
    }
    return false;
}

/* -------------------------------------------------------------------- together */

static const char *layers_part(const char *name) {
    const char *at = strstr(name, "layers.");
    return at ? at : name;
}

bool vr_name_matches(const char *pattern, const char *name, uint64_t *steps) {
    if (*steps <= CALL_STEPS) {
        *steps = 0;
        return false;
    }
    *steps -= CALL_STEPS;
    if (strncmp(pattern, "re:", 3) == 0) {
        const char *end = pattern + strlen(pattern);
        return regex_matches(pattern + 3, end, name, NULL, steps) ||
               regex_matches(pattern + 3, end, layers_part(name), NULL, steps);
    }
    if (strchr(pattern, '*')) {
        return wildcard_matches(pattern, name, steps) ||
               wildcard_matches(layers_part(pattern), layers_part(name), steps);
    }
    return words_match(layers_part(pattern), name, steps);
}

bool vr_name_layer(const char *name, uint32_t *layer, const char **rest) {
    const char *at = strstr(name, "layers.");
    uint32_t number = 0, digits = 0;
    if (!at || strpbrk(name, "*[(\\")) {
        return false;
    }
    for (at += strlen("layers."); *at >= '0' && *at <= '9' && digits < 6; at++, digits++) {
        number = number * 10 + (uint32_t)(*at - '0');
    }
    if (digits == 0 || (*at != '.' && *at != '\0')) {
        return false;
    }
    *layer = number;
    *rest = at + (*at == '.');
    return true;
}
