/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_ends.c: every row beside every call that ends what it works on (call_enders.c), each pair
 * in a world of its own, by a schedule that holds the two up at delay points (call_schedule.c).
 *
 * The engine rows: a row beside another, or beside itself, on the same objects. The pairs are drawn
 * by the seed as long as the time allows; with --sweep all of them run once.
 *
 * "variant first n m" repeats a run: which world, which of the two goes first, and the points.
 */
#include "calls/calls.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAIRS_MAX = 4096, GUESSED_POINTS = 60 };

struct pair {
    struct row *row;
    struct ender *ender;
    bool set_queue;    /* the queue belongs to a stream set, which the ender destroys */
    struct row *other; /* whose call the ender is; NULL: it ends something */
};

static struct pair pairs[PAIRS_MAX];
static unsigned pair_count, pair_number; /* of this share, of all */

/* The run that --again asks for. */
static struct {
    bool given;
    uint32_t variant;
    struct schedule schedule;
} again;

/* ------------------------------------------------------------------------- pairs */

static void pairs_of(struct row *row) {
    uint64_t enders = row_enders(row);
    for (unsigned i = 0; i < call_ender_count; i++) {
        struct ender *ender = &call_enders[i];
        if (!(enders >> i & 1) || !name_is_wanted(calls_options.beside, ender->call) ||
            pair_count == PAIRS_MAX ||
            pair_number++ % calls_options.shares != calls_options.share - 1) {
            continue;
        }
        bool set =
            strcmp(ender->call, "vram_stream_set_destroy") == 0 && row->kind != KIND_STREAM_SET;
        pairs[pair_count++] = (struct pair){row, ender, set, NULL};
    }
}

static bool again_parse(const char *text) {
    char first[8], rest;
    again.given = sscanf(text, "%u %7[a-z] %u %u%c", &again.variant, first, &again.schedule.n,
                         &again.schedule.m, &rest) == 4;
    again.schedule.ender_first = again.given && strcmp(first, "ender") == 0;
    return again.given && (again.schedule.ender_first || strcmp(first, "call") == 0);
}

static bool ends_prepare(const char *text) {
    pair_count = pair_number = 0;
    for (struct row *row = calls_rows; row; row = row->next) {
        if (row_is_wanted(row)) {
            unsigned before = pair_count;
            pairs_of(row);
            calls_count.rows += pair_count > before;
        }
    }
    return !text || again_parse(text);
}

static void ends_list(void) {
    for (unsigned i = 0; i < pair_count; i++) {
        char name[NAME_MAX_BYTES];
        row_name(pairs[i].row, name);
        printf("%s %s\n", name, pairs[i].ender->call);
    }
}

/* -------------------------------------------------------------------------- runs */

static bool answer_is_fine(vram_status status, uint32_t flags) {
    switch (status) {
    case VRAM_OK:
    case VRAM_ERR_STALE:
    case VRAM_ERR_SHUTDOWN:
    case VRAM_ERR_UNSUPPORTED:
        return true;
    case VRAM_ERR_INVALID:
        return flags & ROW_INVALID;
    case VRAM_ERR_BUSY:
        return flags & ROW_BUSY;
    case VRAM_ERR_NOT_READY:
        return flags & ROW_NOT_READY;
    case VRAM_ERR_TIMEOUT:
        return flags & ROW_TIMEOUT;
    default:
        return false;
    }
}

static void tell_finding(const char *what, const struct outcome *outcome) {
    calls_finding(what);
    printf("  call %s %s\n  ender %s %s\n", vram_status_name(outcome->call), outcome->call_text,
           vram_status_name(outcome->ender), outcome->ender_text);
    if (outcome->first_place) {
        printf("  first held up at %s, the other at %s\n", outcome->first_place,
               outcome->second_place ? outcome->second_place : "-");
    }
    fflush(stdout);
}

static void now(const struct pair *pair, uint32_t variant, struct schedule schedule) {
    calls_now(pair->row, pair->ender ? pair->ender->call : NULL, "%u %s %u %u", variant,
              schedule.ender_first ? "ender" : "call", schedule.n, schedule.m);
}

static unsigned char host[HOST_BYTES], second_host[HOST_BYTES];
static struct world world = {.host = host}, second;

/* Beside a call that works on the same objects. */
static bool answer_is_of_two(vram_status status) {
    switch (status) {
    case VRAM_OK:
    case VRAM_ERR_STALE:
    case VRAM_ERR_SHUTDOWN:
    case VRAM_ERR_UNSUPPORTED:
    case VRAM_ERR_INVALID:
    case VRAM_ERR_BUSY:
    case VRAM_ERR_NOT_READY:
    case VRAM_ERR_TIMEOUT:
        return true;
    default:
        return vram_status_is_exhausted(status);
    }
}

static const char *look_after_two(const struct outcome *outcome) {
    world_drain(&second);
    world_end_made(&second);
    const char *text = world_end(&world, outcome->call, 0);
    bool fine = answer_is_of_two(outcome->call) && answer_is_of_two(outcome->ender);
    return fine ? text : "it answers what two calls may not cause";
}

/* What is wrong with a run, or NULL. Ends the world, unless a call hangs. */
static const char *look_after(const struct pair *pair, const struct outcome *outcome) {
    if (outcome->late) {
        return "a call did not return in time";
    }
    if (pair->other) {
        return look_after_two(outcome);
    }
    const char *text = world_end(&world, outcome->call, pair->row->flags);
    if (!answer_is_fine(outcome->call, pair->row->flags)) {
        return "the call's answer is none that it may give";
    }
    if (pair->ender && !answer_is_fine(outcome->ender, pair->ender->answers)) {
        return "the ender's answer is none that it may give";
    }
    return text ? text : calls_logged();
}

/* No further run is possible while a call hangs. */
static void abort_on_hang(void) {
    printf("calls: a call hangs; the threads that have not returned are at:\n");
    fflush(stdout);
    schedule_show_stacks();
    kill(getpid(), SIGABRT);
}

static bool pair_run(struct pair *pair, uint32_t variant, struct schedule schedule) {
    struct outcome outcome;
    now(pair, variant, schedule);
    uint64_t kinds = pair_kinds(pair->row, pair->ender);
    world_make(&world, calls_options.backend, variant,
               pair->other ? kinds | pair_kinds(pair->other, NULL) : kinds, pair->set_queue);
    if (world.failed) {
        bool absent = vram_error_get()->status == VRAM_ERR_UNSUPPORTED ||
                      vram_error_get()->status == VRAM_ERR_NO_DEVICE;
        if (!absent) {
            calls_finding(world.failed);
        }
        world_end(&world, VRAM_OK, 0);
        return false;
    }
    world_fill_host(&world, pair->row->flags);
    if (pair->other) {
        world_second(&world, second_host, &second);
        world_fill_host(&second, pair->other->flags);
    }
    schedule_run(&world, pair->row, pair->ender, schedule, &outcome);
    calls_count.runs++;
    const char *text = look_after(pair, &outcome);
    if (text) {
        tell_finding(text, &outcome);
    } else if (calls_options.verbose) {
        printf("%s beside %s: %s, %s; points %u and %u; %s, %s\n", pair->row->call,
               pair->ender->call, vram_status_name(outcome.call), vram_status_name(outcome.ender),
               outcome.call_points, outcome.ender_points,
               outcome.first_place ? outcome.first_place : "-",
               outcome.second_place ? outcome.second_place : "-");
    }
    if (outcome.late) {
        abort_on_hang();
    }
    pair->ender->points =
        outcome.ender_points > pair->ender->points ? outcome.ender_points : pair->ender->points;
    pair->ender->ns = outcome.ender_ns;
    if (outcome.call_points > pair->row->points) {
        pair->row->points = outcome.call_points;
    }
    calls_idle();
    return true;
}

/* Runs the call alone, to count its delay points and measure its time. */
static bool measure(struct row *row, uint32_t variant) {
    struct outcome outcome;
    struct pair pair = {.row = row};
    if (row->flags & ROW_UNTIL_END) {
        row->points = 50;
        row->ns = 100000;
        return true;
    }
    now(&pair, variant, (struct schedule){0});
    world_make(&world, calls_options.backend, variant, pair_kinds(row, NULL), false);
    if (world.failed) {
        world_end(&world, VRAM_OK, 0);
        calls_idle();
        return false;
    }
    world_fill_host(&world, row->flags);
    schedule_run(&world, row, NULL, (struct schedule){0}, &outcome);
    const char *text = look_after(&pair, &outcome);
    bool fine = outcome.call == VRAM_OK || outcome.call == VRAM_ERR_UNSUPPORTED ||
                (outcome.call == VRAM_ERR_NOT_READY && (row->flags & ROW_NOT_READY)) ||
                (outcome.call == VRAM_ERR_BUSY && (row->flags & ROW_BUSY)) ||
                (outcome.call == VRAM_ERR_TIMEOUT && (row->flags & ROW_TIMEOUT));
    if (text || !fine) {
        tell_finding(text ? text : "alone it fails", &outcome);
    }
    if (outcome.late) {
        abort_on_hang();
    }
    row->points = outcome.call_points > row->points ? outcome.call_points : row->points;
    row->ns = outcome.call_ns > row->ns ? outcome.call_ns : row->ns;
    calls_idle();
    return outcome.call != VRAM_ERR_UNSUPPORTED;
}

static struct schedule schedule_of(const struct pair *pair, uint64_t number, uint64_t round) {
    uint64_t one = calls_mix(number), two = calls_mix(one), three = calls_mix(two);
    struct schedule schedule = {.ender_first = one & 1};
    unsigned call = pair->row->points + 2, ender = pair->ender->points + 2;
    if (calls_options.sweep && schedule_has_points() && round < call + ender) {
        schedule.ender_first = round >= call;
        schedule.n = 1 + (uint32_t)(schedule.ender_first ? round - call : round);
    } else if (schedule_has_points()) {
        schedule.n = 1 + (uint32_t)(two % (schedule.ender_first ? ender : call));
        schedule.m = one & 2 ? 0 : 1 + (uint32_t)(three % (schedule.ender_first ? call : ender));
    } else if (schedule.ender_first) {
        schedule.m = (uint32_t)(two % (pair->ender->ns + 1000)); /* the call starts later */
    } else {
        schedule.m = (uint32_t)(two % (pair->row->ns + 1000));
    }
    return schedule;
}

static void run_numbered(struct pair *pair, uint64_t round) {
    uint64_t number = calls_options.seed * UINT64_C(0x9E3779B97F4A7C15) + round * PAIRS_MAX +
                      (uint64_t)(pair - pairs);
    uint32_t variant = again.given ? again.variant : (uint32_t)(calls_mix(number ^ 1) % VARIANTS);
    pair_run(pair, variant, again.given ? again.schedule : schedule_of(pair, number, round));
}

/* -------------------------------------------------------------------------- modes */

/* Leaves out pairs that this backend does not support. A run of a share of the pairs has little
   time, so it starts with an estimate. */
static void measure_all(void) {
    unsigned kept = 0;
    if (calls_options.shares > 1) {
        for (struct row *row = calls_rows; row; row = row->next) {
            row->points = GUESSED_POINTS;
        }
        return;
    }
    for (struct row *row = calls_rows; row; row = row->next) {
        bool any = false, here = false;
        for (unsigned i = 0; i < pair_count; i++) {
            any |= pairs[i].row == row;
        }
        if (any && (calls_options.slow || !(row->flags & ROW_SLOW))) {
            here = measure(row, again.given ? again.variant : 0);
            here |= !here && measure(row, 1);
        }
        calls_count.absent += any && !here;
        if (any && !here && calls_options.verbose) {
            printf("not here: %s %s (%s %s)\n", row->call, row->as,
                   world.failed ? world.failed : "", vram_error_get()->text);
        }
        row->points = here ? row->points : UINT32_MAX;
    }
    for (unsigned i = 0; i < pair_count; i++) {
        if (pairs[i].row->points != UINT32_MAX) {
            pairs[kept++] = pairs[i];
        }
    }
    pair_count = kept;
}

static void ends_run(void) {
    double until = calls_seconds() + calls_options.seconds;
    schedule_start();
    measure_all();
    for (uint64_t round = 0; round == 0 || round < calls_options.runs ||
                             (!calls_options.runs && calls_seconds() < until);
         round++) {
        for (unsigned i = 0;
             i < pair_count && !(round && !calls_options.runs && calls_seconds() > until); i++) {
            run_numbered(&pairs[i], round);
        }
    }
    schedule_stop();
}

const struct engine engine_ends = {"ends", "every row beside the ends of what it works on",
                                   ends_prepare, ends_list, ends_run};

/* ---------------------------------------------------------------- row beside row */

enum { ROWS_MAX = 1024 };
static struct row *drawn[ROWS_MAX];
static unsigned drawn_count;
static struct ender beside; /* the other row's call */
static const struct row *beside_row;

static vram_status beside_call(struct world *w) {
    (void)w; /* its objects are the second's, too */
    return beside_row->fn(&second);
}

/* The row's own use of objects is for one thread, or it waits for what does not come. */
static bool is_drawn(const struct row *row) {
    bool wanted = calls_options.planted ? row_is_wanted(row) : !row->planted;
    return wanted &&
           !(row->flags & (ROW_UNTIL_END | ROW_SLOW | ROW_WAITS | ROW_ALONE | ROW_CHECKS));
}

static void rows_beside(struct row *row, struct row *other, uint64_t number) {
    static char name[NAME_MAX_BYTES];
    struct pair pair = {.row = row, .other = other, .ender = &beside};
    uint32_t variant = again.given ? again.variant : (uint32_t)(calls_mix(number ^ 1) % VARIANTS);
    row_name(other, name);
    beside_row = other;
    beside = (struct ender){name, beside_call, other->kind, 0, other->points, other->ns};
    pair_run(&pair, variant, again.given ? again.schedule : schedule_of(&pair, number, 0));
    other->points = beside.points;
    other->ns = beside.ns;
}

static bool rows_prepare(const char *text) {
    drawn_count = 0;
    for (struct row *row = calls_rows; row; row = row->next) {
        row->points = row->points ? row->points : GUESSED_POINTS;
        if (is_drawn(row) && drawn_count < ROWS_MAX) {
            drawn[drawn_count++] = row;
            calls_count.rows += row_is_wanted(row);
        }
    }
    return !text || again_parse(text);
}

static void rows_list(void) {
    for (unsigned i = 0; i < drawn_count; i++) {
        printf("%s %s\n", drawn[i]->call, drawn[i]->as);
    }
}

static void rows_pair(unsigned one, unsigned two, uint64_t number) {
    char name[NAME_MAX_BYTES];
    row_name(drawn[two], name);
    if (row_is_wanted(drawn[one]) && name_is_wanted(calls_options.beside, name)) {
        rows_beside(drawn[one], drawn[two], number);
    }
}

static void rows_sweep(void) {
    for (unsigned i = 0; i < drawn_count * drawn_count; i++) {
        if (i % calls_options.shares == calls_options.share - 1) {
            rows_pair(i / drawn_count, i % drawn_count, calls_mix(calls_options.seed) + i);
        }
    }
}

/* Every third beside itself or its neighbours in the alphabet, which are of the same object. */
static void rows_draw(double until) {
    for (uint64_t i = 0; i < calls_options.runs || calls_seconds() < until; i++) {
        uint64_t number = calls_mix(calls_options.seed * UINT64_C(0x9E3779B97F4A7C15) + i);
        unsigned one = (unsigned)(number % drawn_count);
        unsigned near = (unsigned)((one + calls_mix(number) % 8) % drawn_count);
        unsigned far = (unsigned)(calls_mix(number) % drawn_count);
        rows_pair(one, i % 3 ? far : near, number);
    }
}

static void rows_run(void) {
    double until = calls_seconds() + calls_options.seconds;
    bool named = *calls_options.only && *calls_options.beside;
    schedule_start();
    if (calls_options.sweep || named) {
        rows_sweep();
    } else {
        rows_draw(until);
    }
    schedule_stop();
}

const struct engine engine_rows = {"rows", "a row beside another on the same objects", rows_prepare,
                                   rows_list, rows_run};
