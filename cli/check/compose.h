/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compose.h: one pool with several features at once, for cases that put them together.
 *
 * Each feature can be turned on and off at any moment, whatever else is on. What it cannot do then
 * must be refused with its own status and change nothing, and it stays off: compose_turn knows what
 * to expect and checks it. docs/composition.md has the same table in words.
 */
#ifndef CHECK_COMPOSE_H
#define CHECK_COMPOSE_H

#include "case.h"

/* X(NAME, name): in the order of docs/composition.md. */
#define COMPOSE_MAP(X)                                                                             \
    X(TIGHT, tight)                                                                                \
    X(SLEEP, sleep)                                                                                \
    X(SHARE, share)                                                                                \
    X(GRAPH, graph)                                                                                \
    X(LIMIT, limit)                                                                                \
    X(TRACE, trace)                                                                                \
    X(POISON, poison)                                                                              \
    X(QUEUES, queues)

enum compose_feature {
#define COMPOSE_ENUM(NAME, name) COMPOSE_##NAME,
    COMPOSE_MAP(COMPOSE_ENUM)
#undef COMPOSE_ENUM
        COMPOSE_COUNT
};

enum { COMPOSE_EDGE = 512, COMPOSE_PIECES = 4, COMPOSE_KEPT = 16 };

/* A graph of the driver's, where its entry points are known; compose_graph.c. */
struct compose_graph {
    vram_queue *captured; /* of the captured region; NULL: none is open */
    void *stream;         /* its native queue */
    void *graph, *ready;  /* captured, and ready to be launched; NULL: none */
    vram_addr addr;       /* the block that a launch fills with its mark */
};

struct compose {
    struct check *check;
    uint32_t set;    /* features that the pool was made for, a bit each */
    uint32_t on;     /* of these, what is on */
    bool group;      /* shared memory is a group's: VRAM_POOL_SHARE_GROUP */
    bool alone;      /* the pool has no blocks but those of its features */
    uint64_t unit;   /* bytes of a granule */
    bool read_only;  /* of the export */
    bool slept;      /* the block to be shared was put to sleep with the pool */
    uint64_t limit;  /* in force; 0: none */
    uint64_t events; /* of the trace, at the last look */
    struct check_device *device, *reader;
    vram_queue *queue, *second, *other; /* two of the device, one of the reader */
    struct check_stock stock;
    vram_addr shared;                 /* block that is exported */
    vram_addr pieces[COMPOSE_PIECES]; /* tight: blocks beside the holes; 0: none */
    vram_addr tagged;                 /* limit: a block within its quota; 0: none */
    vram_addr copied, behind;         /* queues: made by the second queue, and after it; 0: none */
    vram_share *share, *opened;
    vram_share_part part;
    vram_trace *trace;
    struct compose_graph graph;
};

static inline bool compose_is(const struct compose *compose, enum compose_feature feature) {
    return compose->on >> feature & 1;
}

/* A pool made for the features of `set`, with some blocks in it. Ends the case as skipped where the
   device cannot have it. */
bool compose_begin(struct check *check, uint32_t set, bool group, struct compose *compose);
/* Ends what would outlive the case's device. Always. */
void compose_end(struct compose *compose);

/* Turns a feature on or off, or sees that it is refused as it must be. */
bool compose_turn(struct compose *compose, enum compose_feature feature, bool on);

/* Everything that can be read is as it must be: contents, counters, what the reader sees, what a
   graph does. */
bool compose_verify(struct compose *compose);

/* Takes a block, or gives one that no feature needs. */
bool compose_take(struct compose *compose, uint64_t bytes, vram_queue *queue);
bool compose_give(struct compose *compose);

/* ------------------------------------------------- between the files of this */

typedef bool compose_turn_fn(struct compose *compose);

compose_turn_fn compose_tight_on, compose_tight_off, compose_sleep_on, compose_sleep_off,
    compose_limit_on, compose_limit_off, compose_trace_on, compose_trace_off, compose_poison_on,
    compose_poison_off, compose_queues_on, compose_queues_off;             /* compose_features.c */
compose_turn_fn compose_share_on, compose_share_off, compose_share_verify; /* compose_share.c */
compose_turn_fn compose_graph_on, compose_graph_off, compose_graph_verify; /* compose_graph.c */
/* Forgets the graph and the region, whatever state they are in. */
void compose_graph_end(struct compose_graph *graph);

/* What a block was marked with; 0: there is no such block. */
uint32_t compose_mark_of(const struct compose *compose, vram_addr addr);
/* Whether the first COMPOSE_EDGE bytes are that word again and again; read on the queue. */
bool compose_head(struct compose *compose, vram_queue *queue, vram_addr addr, uint32_t mark);
/* The status of an allocation that is refused, with nothing changed. */
bool compose_refuses(struct compose *compose, uint64_t bytes, vram_queue *queue,
                     vram_status expected);

#endif
