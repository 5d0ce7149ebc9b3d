/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_misuse.c: every argument of a row's call, wrong in every way that its type allows:
 * handles that are NULL, stale, of another kind or made up; numbers at every power of two and
 * beside it, addresses also at such a distance from the right one; points and spans of such;
 * structs that are shorter, or longer by what the library does not know, and their numbers; texts
 * and pointers that are missing.
 *
 * Of 2^k - 1, 2^k and 2^k + 1 one is tried where k is small, and of the distances every third; all
 * of them with --sweep. On another backend than the simulated one only those rows run whose calls
 * get there.
 *
 * What is refused changes nothing that can be seen, and the record says so.
 * Afterwards the call with its right arguments does what it always does. The sanitizers watch.
 *
 * "variant argument way" repeats a run.
 */
#include "calls/call_look.h"
#include "calls/calls.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ARGUMENTS_MAX = 8,
    POWERS = 3 * 64 + 1,
    VALUES = POWERS + 2 * 64, /* and the right number, 2^k more and less */
    HANDLE_WAYS = 12,
    TEXTS = 26,
    HUGE_WAY = 3 * 60, /* 2^60: no call can serve a number of this size */
    LENGTH_WAY = 3 * 48,
    TAIL = 24, /* bytes of a struct that the library does not know */
    STRUCT_BYTES = 16384
};

/* ------------------------------------------------------------------------ structs */

struct field {
    const char *name;
    size_t offset, bytes;
    bool number;
};

#define IS_NUMBER(x) _Generic((x), NUMBERS(true), default : false)
#define FIELD(type, field)                                                                         \
    {#type "." #field, offsetof(type, field), sizeof(((type *)0)->field),                          \
     IS_NUMBER(((type *)0)->field)},
#define FIELDS_OF(type, input)                                                                     \
    static const struct field fields_##type[] = {CALL_FIELDS_##type(FIELD){0}};
CALL_STRUCTS(FIELDS_OF)

static const struct {
    const char *name;
    size_t bytes;
    bool input;
    const struct field *fields;
} structs[] = {
#define STRUCT_ROW(type, input) {#type, sizeof(type), input, fields_##type},
    CALL_STRUCTS(STRUCT_ROW)};

/* Lengths of the program's own memory, what would keep a machine busy for years, and limits, which
   are in force although the call says that more is held. A '.' at the end means all. */
static const char *const fixed_fields[] = {"vram_batch_item.host_bytes",
                                           "vram_transfer_options.timeout_ns",
                                           "vram_limits.",
                                           "vram_matmul.",
                                           "vram_distance.",
                                           "vram_weights_options.",
                                           "vram_launch.argument_count"};

static bool is_fixed(const char *name) {
    for (size_t i = 0; i < sizeof fixed_fields / sizeof *fixed_fields; i++) {
        if (strncmp(name, fixed_fields[i], strlen(fixed_fields[i])) == 0) {
            return true;
        }
    }
    return false;
}

/* ----------------------------------------------------------------------- arguments */

static unsigned char host[HOST_BYTES];
static struct world world = {.host = host};
static struct call_state before, after;

struct argument {
    struct call_argument is;
    unsigned char value[64]; /* the right one */
};

/* What is wrong in this run. */
static struct {
    const struct row *row;
    uint32_t variant;
    bool recording;           /* nothing is: the right arguments are learned */
    unsigned argument, way;   /* the way of its kind */
    bool over;                /* all ways were tried, or the call has taken one */
    bool is_near, took_near;  /* the wrong address is near the right one: perhaps another block's */
    bool must_pass;           /* it is right after all */
    bool must_fail, is_wrong; /* of this way; this call has a wrong argument */
    vram_status status, whole;
    char what[160]; /* the way, as text */
    char found[700];
} run;
static struct argument arguments[ARGUMENTS_MAX];
static unsigned argument_count;
static bool has_stale; /* the handles of `arguments` have ended */

static uint64_t value_at(unsigned i, uint64_t right) {
    uint64_t power = UINT64_C(1) << i / 3 % 64;
    if (i >= POWERS) {
        power = UINT64_C(1) << (i - POWERS) / 2;
        return (i - POWERS) % 2 ? right - power : right + power;
    }
    return i == POWERS - 1 ? UINT64_MAX : power - 1 + i % 3;
}

static bool is_left_out(unsigned way, uint64_t right) {
    unsigned bit = way < POWERS ? way / 3 : (way - POWERS) / 2;
    uint64_t chance = calls_mix(bit * 8 + run.argument + calls_options.seed);
    if (way >= POWERS) {
        return right >> 32 == 0 || (!calls_options.sweep && (chance + way) % 3 != 0);
    }
    bool is_edge = bit == 0 || (bit >= 31 && bit <= 33) || bit >= 62;
    return !calls_options.sweep && !is_edge && way % 3 != chance % 3;
}

/* The first way from `way` on that is tried; VALUES: there is none. */
static unsigned number_way(unsigned way, uint64_t right) {
    while (way < VALUES && is_left_out(way, right)) {
        way++;
    }
    return way;
}

static const char *put_number(unsigned way, void *value, size_t bytes, uint64_t right) {
    static char text[40];
    uint64_t number = value_at(way, right);
    memcpy(value, &number, bytes);
    run.is_near = way >= POWERS;
    snprintf(text, sizeof text, "%llu", (unsigned long long)number);
    return text;
}

static const char *put_handle(unsigned way, void *value, const void *right) {
    static char text[40];
    uint64_t chance = calls_mix((uintptr_t)run.row + run.argument * HANDLE_WAYS + way);
    const void *handles[] = {NULL, has_stale ? right : NULL, world.pool, world.other,
                             (const char *)right + 1};
    const char *const names[] = {"NULL", "a stale handle", "a pool's handle", "a queue's handle",
                                 "a handle and one"};
    if (way < sizeof handles / sizeof *handles) {
        memcpy(value, &handles[way], sizeof handles[way]);
        return names[way];
    }
    return snprintf(text, sizeof text, "the handle %s",
                    put_number((unsigned)(chance % POWERS), value, sizeof(void *), 0)) < 0
               ? NULL
               : text;
}

/* A handle and numbers, which begin behind it. */
static const char *put_parts(unsigned way, void *value, size_t bytes) {
    unsigned char *numbers = (unsigned char *)value + sizeof(void *);
    size_t left = (bytes - sizeof(void *)) / 8;
    const void *handle;
    uint64_t right;
    run.must_fail = false;
    if (way < HANDLE_WAYS) {
        memcpy(&handle, value, sizeof handle);
        return put_handle(way, value, handle);
    }
    for (unsigned number = (way - HANDLE_WAYS) / VALUES; number < left; number++) {
        memcpy(&right, numbers + 8 * number, sizeof right);
        unsigned first = HANDLE_WAYS + number * VALUES;
        way = number_way(way < first ? 0 : way - first, right);
        run.way = first + way;
        if (way < VALUES) {
            return put_number(way, numbers + 8 * number, 8, right);
        }
        way = run.way;
    }
    return NULL;
}

/* Some are read by one call and written by another; what was told is an output of the library. */
static bool is_output(const struct call_argument *is) {
    return is->marks & MARK_OUTPUT || strcmp(is->text, "&info") == 0 ||
           strcmp(is->text, "&report") == 0 || strcmp(is->text, "&told") == 0;
}

/* The struct with one thing wrong; NULL: there is no such way. */
static const char *put_struct(unsigned way, void *value, const struct argument *argument) {
    unsigned kind = (unsigned)argument->is.kind - ARG_STRUCT;
    bool output = !structs[kind].input || is_output(&argument->is);
    static _Alignas(16) unsigned char made[STRUCT_BYTES];
    static char text[120];
    unsigned char *right;
    size_t bytes = structs[kind].bytes, size = bytes;
    void *to = way ? made : NULL;
    memcpy(&right, value, sizeof right);
    if (way > 2 && strcmp(argument->is.text, "&told") == 0) {
        return NULL; /* its size is what the library has written there */
    }
    if (!right) { /* the row passes none */
        run.must_fail = false;
        return NULL;
    }
    memset(made, 0, sizeof made);
    memcpy(made, right, bytes);
    memcpy(value, &to, sizeof to);
    switch (way) {
    case 0:
        run.must_fail = output;
        return "NULL";
    case 1:
    case 2:
        size = way - 1;
        memcpy(made, &size, sizeof size);
        return way == 1 ? "a struct of 0 bytes" : "a struct of 1 byte";
    case 3:
    case 4:
        size = bytes + TAIL;
        memcpy(made, &size, sizeof size);
        made[bytes + 3] = way == 4;
        run.must_fail = way == 4 && !output;
        run.must_pass = way == 3;
        return way == 3 ? "a longer struct" : "a longer struct that asks for more";
    case 5:
    case 6:
        size = way == 5 ? 1 << 17 : SIZE_MAX;
        memcpy(made, &size, sizeof size);
        return way == 5 ? "a struct of 128 KiB" : "a struct of all memory";
    default:
        break;
    }
    if (output) {
        return NULL;
    }
    run.must_fail = false;
    unsigned first = 7;
    for (const struct field *field = structs[kind].fields; field->name; field++) {
        uint64_t old = 0;
        if (!field->number || is_fixed(field->name)) {
            continue;
        }
        memcpy(&old, made + field->offset, field->bytes);
        unsigned number = way < first + VALUES ? number_way(way - first, old) : VALUES;
        if (number < VALUES) {
            run.way = first + number;
            snprintf(text, sizeof text, "%s of %s", field->name,
                     put_number(number, made + field->offset, field->bytes, old));
            return text;
        }
        first += VALUES;
        way = way < first ? first : way;
    }
    return NULL;
}

/* Whether the row itself passes NULL. */
static bool is_null(const struct argument *right) {
    static const unsigned char zeros[sizeof(void *)];
    return memcmp(right->value, zeros, sizeof zeros) == 0;
}

/* Puts the wrong value there; NULL: this argument has no such way. */
static const char *put_wrong(void *value, const struct argument *right) {
    static char long_text[5000];
    static char what[48];
    const char *text;
    const void *handle;
    uint64_t number = 0;
    unsigned way = run.way;
    run.must_fail = true;
    run.must_pass = run.is_near = false;
    if (right->is.marks & MARK_FIXED) {
        return NULL;
    }
    if (right->is.marks & MARK_LENGTH && way < LENGTH_WAY) {
        way = run.way = LENGTH_WAY;
    }
    if (right->is.kind >= ARG_STRUCT) {
        return put_struct(way, value, right);
    }
    switch (right->is.kind) {
    case ARG_HANDLE:
        memcpy(&handle, right->value, sizeof handle);
        run.must_fail = way != 0 || !(right->is.marks & MARK_NULL);
        run.must_fail &= way < 2 || way > 4; /* a pool's handle may be right, see the next */
        text = way < HANDLE_WAYS ? put_handle(way, value, handle) : NULL;
        memcpy(&handle, value, sizeof handle);
        run.must_fail &= handle || way < 2; /* zero is NULL again */
        return text;
    case ARG_PARTS:
        return put_parts(way, value, right->is.bytes);
    case ARG_NUMBER:
        memcpy(&number, right->value, right->is.bytes);
        run.way = way = number_way(way, number);
        /* 2^k - 1 is as large for a parameter of 32 bits */
        run.must_fail =
            !(right->is.marks & MARK_ANY) && way >= HUGE_WAY && way < POWERS && way % 3 == 0;
        return way < VALUES ? put_number(way, value, right->is.bytes, number) : NULL;
    case ARG_TEXT:
        run.must_fail = false;
        if (way < TEXTS) { /* none; of 0 to 4096 characters, and of one less */
            memset(long_text, 'x', sizeof long_text);
            long_text[(1u << way / 2) - way % 2] = 0;
            text = way ? long_text : NULL;
            memcpy(value, &text, sizeof text);
            snprintf(what, sizeof what, "a text of %zu characters", text ? strlen(text) : 0);
            return text ? what : "no text";
        }
        return NULL;
    default:
        run.must_fail = !(right->is.marks & MARK_NULL) && !is_null(right);
        if (way == 0 && right->is.bytes == sizeof(void *)) {
            memset(value, 0, right->is.bytes);
            return "a pointer that is NULL";
        }
        return NULL;
    }
}

/* ------------------------------------------------------------------ around a call */

static void wrong(const char *what, const char *more) {
    if (!*run.found) {
        snprintf(run.found, sizeof run.found, "%s: %s%s%s", run.what, what, more ? ": " : "",
                 more ? more : "");
    }
}

static void on_begin(void) {
    run.is_wrong = false;
    if (!run.recording && !run.over && !before.length) {
        call_look(&world, true, &before);
    }
    vram_error_clear();
}

static void on_argument(void *value, const struct call_argument *argument) {
    unsigned at = argument->left - 1;
    if (run.recording) {
        size_t bytes = argument->bytes;
        arguments[at].is = *argument;
        memcpy(arguments[at].value, value, bytes < 64 ? bytes : 64);
        argument_count = at + 1 > argument_count ? at + 1 : argument_count;
    } else if (!run.over && at == run.argument) {
        const char *what = put_wrong(value, &arguments[at]);
        run.is_wrong = what != NULL;
        run.over = !what;
        snprintf(run.what, sizeof run.what, "%s is %s", argument->text, what ? what : "right");
        calls_now(run.row, NULL, "%u %u %u", run.variant, run.argument, run.way);
    }
}

/* The call with the wrong argument is over. */
static void judge(vram_status status) {
    const vram_error *error = vram_error_get();
    vram_status expected = status == VRAM_ERR_NOT_READY ? VRAM_OK : status;
    if (strcmp(vram_status_name(status), "VRAM_ERR_UNKNOWN") == 0 || error->status != expected) {
        wrong("the record does not tell of this status", vram_status_name(status));
    } else if (run.must_pass && status != run.whole) {
        wrong("it was refused", error->text);
    } else if (status == VRAM_OK || status == run.whole) {
        run.over = true; /* it may have done something: the next way is tried in another world */
        run.took_near = run.is_near;
        if (run.must_fail && status == VRAM_OK) {
            wrong("it was taken", NULL);
        }
    } else {
        call_look(&world, true, &after);
        const char *difference = call_difference(&before, &after, "");
        if (difference) {
            wrong("a call that failed has changed something", difference);
        }
    }
}

static bool on_again(vram_status status) {
    if (run.recording) {
        run.whole = run.status = status;
        return false;
    }
    calls_count.runs++;
    if (!run.is_wrong) { /* at last the right arguments */
        run.status = status;
        if (status != run.whole) {
            wrong("made with the right arguments, it fails", vram_error_get()->text);
        }
        return false;
    }
    judge(status);
    run.status = status;
    run.way++;
    return !run.over && !*run.found && !calls_options.again;
}

static const struct call_hooks hooks = {on_begin, on_again, on_argument};

/* -------------------------------------------------------------------------- runs */

/* One world, in which ways are tried until the call takes one, or none is left. */
static bool run_world(void) {
    before.length = 0;
    run.over = run.is_wrong = run.took_near = false;
    run.found[0] = 0;
    calls_now(run.row, NULL, "%u %u %u", run.variant, run.argument, run.way);
    call_hooks = NULL;
    world_make(&world, calls_options.backend, run.variant, pair_kinds(run.row, NULL), false);
    if (world.failed) {
        world_end(&world, VRAM_OK, 0);
        return false;
    }
    world_drain(&world);
    world_fill_host(&world, run.row->flags);
    call_hooks = &hooks;
    (void)run.row->fn(&world);
    call_hooks = NULL;
    /* What was made with other arguments has no right contents. */
    const char *text = run.took_near ? world_drop(&world) : world_end(&world, run.status, 0);
    text = *run.found ? run.found : text ? text : calls_logged();
    if (text && text != run.found && strstr(text, "was written behind its end")) {
        text = NULL; /* that is what it was asked for */
    }
    if (text) {
        if (text != run.found) {
            printf("  after: %s\n", run.what);
        }
        calls_finding(text);
    }
    return !text;
}

static bool learn(const struct row *row, uint32_t variant) {
    memset(&run, 0, sizeof run);
    run.row = row;
    run.variant = variant;
    argument_count = 0;
    run.recording = true;
    bool fine = run_world();
    run.recording = false;
    has_stale = fine;
    return fine && run.whole != VRAM_ERR_UNSUPPORTED;
}

static void run_row(const struct row *row, uint32_t variant) {
    double began = calls_seconds();
    if (!learn(row, variant)) {
        calls_count.absent++;
        return;
    }
    for (run.argument = 0; run.argument < argument_count; run.argument++) {
        bool more = true;
        for (run.way = 0; more;) {
            unsigned way = run.way;
            run_world();
            more = run.way > way && (run.is_wrong || *run.found);
        }
    }
    if (calls_options.verbose) {
        printf("%s %s: %.0f ms\n", row->call, row->as, (calls_seconds() - began) * 1000);
    }
}

/* ------------------------------------------------------------------------- engine */

static bool is_tried(const struct row *row) {
    bool gets_there = strcmp(calls_options.backend, "sim") == 0 || kind_is_of_device(row->kind);
    return gets_there && row_is_wanted(row) &&
           !(row->flags & (ROW_UNTIL_END | ROW_SLOW | ROW_WAITS));
}

static struct {
    bool given;
    unsigned variant, argument, way;
} again;

static bool misuse_prepare(const char *text) {
    char rest;
    for (const struct row *row = calls_rows; row; row = row->next) {
        calls_count.rows += is_tried(row);
    }
    again.given =
        text && sscanf(text, "%u %u %u%c", &again.variant, &again.argument, &again.way, &rest) == 3;
    return !text || again.given;
}

static void misuse_list(void) {
    for (const struct row *row = calls_rows; row; row = row->next) {
        if (is_tried(row)) {
            printf("%s %s\n", row->call, row->as);
        }
    }
}

static void misuse_run(void) {
    uint64_t index = 0;
    vram_option_set("host_memory", "256M");
    for (const struct row *row = calls_rows; row; row = row->next) {
        if (!is_tried(row) || index++ % calls_options.shares != calls_options.share - 1) {
            continue;
        }
        if (again.given && learn(row, again.variant)) {
            run.argument = again.argument;
            run.way = again.way;
            run_world();
        } else if (!again.given) {
            run_row(row, (uint32_t)(calls_mix(calls_options.seed + index) % VARIANTS));
        }
    }
}

const struct engine engine_misuse = {"misuse", "every argument of a row's call is wrong in turn",
                                     misuse_prepare, misuse_list, misuse_run};
