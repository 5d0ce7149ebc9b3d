/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_storm.c: several threads make the calls of rows drawn at random, all on one world. Others
 * end its objects under them and make them anew, and at last the pool, its queue, the device or the
 * context ends, too. Each round has a world and threads of its own.
 *
 *   calls --engine storm --seconds 10 --with "hungry sim=memory=8M"
 *
 * hungry: host memory fails now and then. sim=: the words of the simulated devices; with lose=900
 * they are lost. "seed" repeats a round, as far as the scheduling allows.
 *
 * Every failure is in the error record, and no success is; statuses that mean a broken driver or
 * library never come; no call hangs; and all that the other engines ask of a world's end holds. A
 * program owes the library that two pieces of work on the same memory have an order, and that no
 * memory is released under work of a queue that its owner does not know. So all work goes to one
 * queue, and nothing is allocated any more once the pool may have ended: its addresses may be
 * another's then.
 */
#include "calls/calls.h"

#include "base/memory.h"
#include "core/pool/pool_calls.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    THREADS = 4,
    ROWS_EACH = 40, /* of a thread in a round */
    ENDS_FROM = 32, /* which of them may end what the others stand on */
    ROWS_MAX = 1024
};

#define BIT(n) (UINT64_C(1) << (n))

struct sailor {
    pthread_t thread;
    uint64_t random;
    const struct row *_Atomic row; /* that it makes; NULL: none */
    _Atomic uint64_t since;
    unsigned char host[HOST_BYTES];
};

static struct {
    bool hungry, lossy;
    bool again;
    uint64_t seed;
    uint64_t here, kinds; /* of objects: on this backend, and in the world */
    struct world world;
    pthread_mutex_t lock; /* of the world, whose handles each thread copies */
    pthread_mutex_t findings;
    const struct row *rows[ROWS_MAX];
    unsigned row_count;
    _Atomic unsigned ended; /* threads */
    _Atomic uint64_t calls, successes;
    _Atomic bool lost; /* a device of the round */
} storm = {.lock = PTHREAD_MUTEX_INITIALIZER, .findings = PTHREAD_MUTEX_INITIALIZER};

static struct sailor crew[THREADS];
static _Thread_local struct sailor *self;

static uint64_t draw(uint64_t below) {
    self->random += UINT64_C(0x9e3779b97f4a7c15);
    return calls_mix(self->random) % below;
}

/* ---------------------------------------------------------------------- judgement */

static struct row round_row = {.call = "storm", .as = ""}; /* of a finding */

static void complain(const struct row *row, const char *what, const char *more) {
    char text[VRAM_ERROR_TEXT_MAX + 300];
    snprintf(text, sizeof text, "%s %s: %s: %s", row ? row->call : "", row ? row->as : "", what,
             more);
    pthread_mutex_lock(&storm.findings);
    if (calls_count.findings < 10) {
        calls_finding(text);
    }
    pthread_mutex_unlock(&storm.findings);
}

/* Statuses that no healthy device and no mistake of a program leads to. */
static bool is_possible(const struct row *row, vram_status status) {
    switch (status) {
    case VRAM_ERR_BACKEND:
    case VRAM_ERR_FORKED:
        return false;
    case VRAM_ERR_CORRUPT: /* of a ring whose memory was dropped in a sleep */
        return row->kind == KIND_RING;
    case VRAM_ERR_CAPTURE:
        return storm.kinds & BIT(KIND_CAPTURED);
    case VRAM_ERR_IO: /* others use the name, or the broker */
        return row->kind == KIND_SHARE || row->kind == KIND_LEASE || storm.hungry;
    case VRAM_ERR_DEVICE_LOST: /* a simulation that lacks memory is lost, too */
        storm.lost = true;
        return storm.lossy || storm.hungry;
    case VRAM_ERR_HOST_MEMORY:
        return storm.hungry;
    default:
        return true;
    }
}

static void on_begin(void) {
    vram_error_clear();
}

static bool on_again(vram_status status) {
    const vram_error *error = vram_error_get();
    const struct row *row = self->row;
    bool fine = status == VRAM_OK || status == VRAM_ERR_NOT_READY;
    storm.calls++;
    storm.successes += fine;
    if (calls_options.verbose) {
        printf("thread %d: %s %s: %s\n", (int)(self - crew), row->call, row->as,
               vram_status_name(status));
    }
    if (fine && error->status != VRAM_OK && !storm.lost) {
        complain(row, "no failure, but a record", error->text);
    } else if (!fine && !storm.hungry && (error->status != status || !*error->text)) {
        char text[VRAM_ERROR_TEXT_MAX + 80];
        snprintf(text, sizeof text, "the record says %s, %s", vram_status_name(error->status),
                 error->text);
        complain(row, vram_status_name(status), text);
    } else if (!is_possible(row, status)) {
        complain(row, vram_status_name(status), error->text);
    }
    return false;
}

static const struct call_hooks hooks = {on_begin, on_again, NULL};

/* --------------------------------------------------------------------------- rows */

/* Whether the call ends what all others stand on. */
static bool ends_much(const struct row *row) {
    const uint64_t much = BIT(KIND_CONTEXT) | BIT(KIND_DEVICE) | BIT(KIND_PEER) | BIT(KIND_POOL) |
                          BIT(KIND_QUEUE) | BIT(KIND_STREAM_SET);
    for (unsigned i = 0; i < call_ender_count; i++) {
        if (much & BIT(call_enders[i].kind) && strcmp(call_enders[i].call, row->call) == 0) {
            return true;
        }
    }
    return false;
}

static bool gets_memory(const struct row *row) {
    static const char *const words[] = {"_create", "_alloc",  "_open",    "_warm",   "_begin",
                                        "_wake",   "_get_or", "_reserve", "_resize", "_add"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strstr(row->call, words[i])) {
            return true;
        }
    }
    return false;
}

/* The row of vram_pool_wake drops the contents of all that the pool has. */
static bool is_drawn(const struct row *row) {
    const uint32_t never = ROW_ALONE | ROW_UNTIL_END | ROW_SLOW | ROW_WAITS;
    bool drops = strcmp(row->call, "vram_pool_wake") == 0 && !*row->as;
    return row_is_wanted(row) && !drops && !(row->flags & never);
}

static const struct row *row_draw(unsigned number) {
    for (unsigned tries = 0; tries < 100; tries++) {
        const struct row *row = storm.rows[draw(storm.row_count)];
        if (number < ENDS_FROM ? !ends_much(row) : !gets_memory(row)) {
            return row;
        }
    }
    return NULL;
}

/* Makes the row's call on what the world has at this moment. The host's memory is the thread's own,
   and is used by nothing any more when it returns. */
static void row_make(const struct row *row) {
    static _Thread_local struct world view;
    pthread_mutex_lock(&storm.lock);
    view = storm.world;
    pthread_mutex_unlock(&storm.lock);
    view.host = self->host;
    view.other = view.queue;
    if (pair_kinds(row, NULL) & ~storm.kinds) {
        return;
    }
    world_fill_host(&view, row->flags);
    self->since = calls_now_ns();
    self->row = row;
    (void)row->fn(&view);
    vram_async_wait(&view.made.async, VRAM_TIMEOUT_DEFAULT);
    vram_queue_wait(view.queue, VRAM_TIMEOUT_DEFAULT);
    vram_queue_wait(view.adopted, VRAM_TIMEOUT_DEFAULT);
    world_end_made(&view);
    self->row = NULL;
}

/* Ends an object of the world, and makes another in its place. Not what others stand on, and not a
   part of an object that would be made anew with it. */
static void renew(void) {
    const uint64_t stays = BIT(KIND_CONTEXT) | BIT(KIND_DEVICE) | BIT(KIND_PEER) | BIT(KIND_POOL) |
                           BIT(KIND_QUEUE) | BIT(KIND_STREAM_SET) | BIT(KIND_SHARE) |
                           BIT(KIND_FRAME) | BIT(KIND_FEED_BLOCK);
    const struct ender *ender = &call_enders[draw(call_ender_count)];
    if (BIT(ender->kind) & storm.kinds & ~stays && strcmp(ender->call, "vram_named_remove") != 0) {
        pthread_mutex_lock(&storm.lock);
        (void)ender->fn(&storm.world);
        (void)world_renew(&storm.world, ender->kind);
        pthread_mutex_unlock(&storm.lock);
    }
}

static void *sail(void *argument) {
    self = argument;
    for (unsigned i = 0; i < ROWS_EACH; i++) {
        const struct row *row = row_draw(i);
        if (i < ENDS_FROM && draw(4) == 0) {
            renew();
        }
        if (storm.hungry && draw(3) == 0) {
            vr_mem_fail_at(1 + draw(40), false);
        }
        if (row) {
            row_make(row);
        }
    }
    storm.ended++;
    return NULL;
}

/* ------------------------------------------------------------------------- rounds */

/* A call that hangs ends the process: its threads cannot be joined. */
static void watch(void) {
    while (storm.ended < THREADS) {
        usleep(200);
        for (unsigned i = 0; i < THREADS; i++) {
            const struct row *row = crew[i].row;
            uint64_t since = crew[i].since, now = calls_now_ns();
            if (row && now > since && now - since > RUN_SECONDS * UINT64_C(1000000000)) {
                complain(row, "the call did not return in time", "");
                abort();
            }
        }
    }
}

/* What this backend has of the kinds of objects. */
static uint64_t kinds_here(void) {
    uint64_t kinds = 0;
    for (unsigned kind = 0; kind <= KIND_LEASE; kind++) {
        world_make(&storm.world, calls_options.backend, 0, BIT(kind), false);
        kinds |= storm.world.failed ? 0 : BIT(kind);
        (void)world_drop(&storm.world);
    }
    return kinds;
}

/* One of each kind; those that would take the buffer for themselves take turns. */
static uint64_t kinds_of(uint64_t seed) {
    static const enum kind takers[] = {KIND_SCOPE, KIND_BATCH, KIND_NAMED, KIND_MAPPED};
    uint64_t kinds = storm.here;
    for (unsigned i = 0; i < 4; i++) {
        kinds &= calls_mix(seed) % 4 == i ? UINT64_MAX : ~BIT(takers[i]);
    }
    return kinds;
}

/* A block that no row knows of. */
static vram_addr kept_make(const struct world *w) {
    vram_alloc_options options = {.size = sizeof options, .tag = "kept"};
    vram_addr addr = 0;
    if (vram_alloc_with(w->pool, HOST_BYTES, w->queue, &options, &addr) != VRAM_OK ||
        vram_queue_fill(w->queue, addr, SOURCE_BYTE, 1, HOST_BYTES) != VRAM_OK) {
        return 0;
    }
    vram_queue_wait(w->queue, VRAM_TIMEOUT_DEFAULT);
    return addr;
}

/* It has its contents, if its pool is there and awake. */
static const char *kept_check(const struct world *w, vram_addr addr) {
    unsigned char *found = crew[0].host;
    bool read = vram_queue_download(w->other, found, addr, HOST_BYTES) == VRAM_OK &&
                vram_queue_wait(w->other, VRAM_TIMEOUT_DEFAULT) == VRAM_OK;
    vr_free(w->pool, addr, NULL);
    return !read || (found[0] == SOURCE_BYTE && !memcmp(found, found + 1, HOST_BYTES - 1))
               ? NULL
               : "a block that nobody used has lost its contents";
}

static void round_run(uint64_t seed) {
    storm.seed = seed;
    storm.kinds = kinds_of(seed);
    storm.ended = 0;
    storm.lost = storm.lossy;
    calls_now(&round_row, NULL, "%llu", (unsigned long long)seed);
    world_make(&storm.world, calls_options.backend,
               (uint32_t)(calls_mix(seed ^ 1) % VARIANTS) & ~1u, storm.kinds, false);
    bool made = !storm.world.failed;
    if (!made && !storm.lossy && !vram_status_is_exhausted(vram_error_get()->status)) {
        complain(NULL, storm.world.failed, vram_error_get()->text);
    }
    vram_addr kept = made ? kept_make(&storm.world) : 0;
    call_hooks = &hooks;
    for (unsigned i = 0; i < THREADS && made; i++) {
        crew[i].random = calls_mix(seed * THREADS + i);
        if (pthread_create(&crew[i].thread, NULL, sail, &crew[i]) != 0) {
            abort();
        }
    }
    if (made) {
        watch();
    }
    for (unsigned i = 0; i < THREADS && made; i++) {
        pthread_join(crew[i].thread, NULL);
    }
    call_hooks = NULL;
    vr_mem_fail_at(0, false);
    vram_pool_wake(storm.world.pool, NULL); /* a row that waked it may have been refused */
    vram_pool_unseal(storm.world.pool, NULL);
    const char *text = kept && !storm.lost ? kept_check(&storm.world, kept) : NULL;
    storm.world.refused = storm.hungry; /* what could not be noted is kept until the pool ends */
    const char *left = storm.lost ? world_drop(&storm.world) : world_end(&storm.world, VRAM_OK, 0);
    text = text ? text : left;
    text = text || *calls_options.with ? text : calls_logged(); /* of a shortage there is much */
    if (text) {
        complain(NULL, "at the end", text);
    }
}

/* ------------------------------------------------------------------------- engine */

static bool storm_prepare(const char *text) {
    static char words[200];
    char *rest = words, *word, end;
    storm.row_count = 0;
    snprintf(words, sizeof words, "%s", calls_options.with);
    while ((word = strtok_r(rest, " ", &rest))) {
        if (strcmp(word, "hungry") == 0) {
            storm.hungry = true;
        } else if (strncmp(word, "sim=", 4) == 0) {
            world_sim = word + 4;
            storm.lossy = strstr(word, "lose=") != NULL;
        } else {
            fprintf(stderr, "calls: %s is no word that --with takes\n", word);
            exit(2);
        }
    }
    for (const struct row *row = calls_rows; row; row = row->next) {
        if (is_drawn(row) && storm.row_count < ROWS_MAX) {
            storm.rows[storm.row_count++] = row;
        }
    }
    calls_count.rows = storm.row_count;
    unsigned long long seed = 0;
    storm.again = text && sscanf(text, "%llu%c", &seed, &end) == 1;
    storm.seed = seed;
    return !text || storm.again;
}

static void storm_list(void) {
    for (unsigned i = 0; i < storm.row_count; i++) {
        printf("%s %s\n", storm.rows[i]->call, storm.rows[i]->as);
    }
}

static void storm_run(void) {
    double until = calls_seconds() + calls_options.seconds;
    storm.here = kinds_here();
    for (uint64_t round = 0;
         round == 0 || (!storm.again && (round < calls_options.runs ||
                                         (!calls_options.runs && calls_seconds() < until)));
         round++) {
        round_run(storm.again ? storm.seed : calls_options.seed * 1000000 + round);
    }
    calls_count.runs = storm.calls;
    printf("storm: %llu of %llu calls have succeeded\n", (unsigned long long)storm.successes,
           (unsigned long long)storm.calls);
    if (!storm.lossy && storm.successes < storm.calls / 4) {
        complain(NULL, "most calls are refused", "");
    }
}

const struct engine engine_storm = {"storm", "many threads make the calls of rows on one world",
                                    storm_prepare, storm_list, storm_run};
