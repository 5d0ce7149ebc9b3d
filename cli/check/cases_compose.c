/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cases_compose.c: features of pools, all together: each pair of the eight, one inside the other in
 * both orders, and then all of them in any order.
 */
#include "compose.h"

enum { STEPS = 60 };

/* ---------------------------------------------------------------------- pairs */

/* One begins first and ends first; then the other begins first and ends last. */
static bool both_orders(struct compose *compose, enum compose_feature one,
                        enum compose_feature two) {
    CHECK_TRY(compose_turn(compose, one, true) && compose_verify(compose));
    CHECK_TRY(compose_turn(compose, two, true) && compose_verify(compose));
    CHECK_TRY(compose_turn(compose, one, false) && compose_verify(compose));
    CHECK_TRY(compose_turn(compose, two, false));
    if (compose->check->target->quick) {
        return compose_verify(compose);
    }
    CHECK_TRY(compose_turn(compose, two, true));
    CHECK_TRY(compose_turn(compose, one, true) && compose_verify(compose));
    CHECK_TRY(compose_turn(compose, one, false) && compose_verify(compose));
    CHECK_TRY(compose_turn(compose, two, false));
    return compose_verify(compose);
}

static bool pair(struct check *check, enum compose_feature one, enum compose_feature two) {
    struct compose compose;
    bool group = one == COMPOSE_TIGHT; /* these pools move memory */
    bool passed = compose_begin(check, 1u << one | 1u << two, group, &compose);
    compose.alone = check_block_bytes(1536) == 1536; /* buckets leave other holes */
    if (passed) {
        passed = both_orders(&compose, one, two);
    }
    compose_end(&compose);
    return passed;
}

/* X(ONE, TWO, one, two): the 28 pairs. */
#define PAIR_MAP(X)                                                                                \
    X(TIGHT, SLEEP, tight, sleep)                                                                  \
    X(TIGHT, SHARE, tight, share)                                                                  \
    X(TIGHT, GRAPH, tight, graph)                                                                  \
    X(TIGHT, LIMIT, tight, limit)                                                                  \
    X(TIGHT, TRACE, tight, trace)                                                                  \
    X(TIGHT, POISON, tight, poison)                                                                \
    X(TIGHT, QUEUES, tight, queues)                                                                \
    X(SLEEP, SHARE, sleep, share)                                                                  \
    X(SLEEP, GRAPH, sleep, graph)                                                                  \
    X(SLEEP, LIMIT, sleep, limit)                                                                  \
    X(SLEEP, TRACE, sleep, trace)                                                                  \
    X(SLEEP, POISON, sleep, poison)                                                                \
    X(SLEEP, QUEUES, sleep, queues)                                                                \
    X(SHARE, GRAPH, share, graph)                                                                  \
    X(SHARE, LIMIT, share, limit)                                                                  \
    X(SHARE, TRACE, share, trace)                                                                  \
    X(SHARE, POISON, share, poison)                                                                \
    X(SHARE, QUEUES, share, queues)                                                                \
    X(GRAPH, LIMIT, graph, limit)                                                                  \
    X(GRAPH, TRACE, graph, trace)                                                                  \
    X(GRAPH, POISON, graph, poison)                                                                \
    X(GRAPH, QUEUES, graph, queues)                                                                \
    X(LIMIT, TRACE, limit, trace)                                                                  \
    X(LIMIT, POISON, limit, poison)                                                                \
    X(LIMIT, QUEUES, limit, queues)                                                                \
    X(TRACE, POISON, trace, poison)                                                                \
    X(TRACE, QUEUES, trace, queues)                                                                \
    X(POISON, QUEUES, poison, queues)

#define PAIR_RUN(ONE, TWO, one, two)                                                               \
    static bool one##_##two(struct check *check) {                                                 \
        return pair(check, COMPOSE_##ONE, COMPOSE_##TWO);                                          \
    }
PAIR_MAP(PAIR_RUN)
#undef PAIR_RUN

/* --------------------------------------------------------------------- at random */

/* Turns a feature on or off, or takes or gives a block. */
static bool step(struct compose *compose) {
    struct check *check = compose->check;
    uint64_t what = check_random(check, COMPOSE_COUNT + 4);
    if (what < COMPOSE_COUNT && !(compose->set >> what & 1)) {
        return true;
    }
    if (what < COMPOSE_COUNT) {
        return compose_turn(compose, (enum compose_feature)what, !(compose->on >> what & 1));
    }
    if (what < COMPOSE_COUNT + 2) {
        uint64_t most = check_random(check, 4) ? 100000 : 3 * compose->unit;
        vram_queue *queue = check_random(check, 2) ? compose->queue : compose->second;
        uint64_t bytes = 512 + check_random(check, most);
        if (compose->stock.count > 40) {
            return true;
        }
        return compose_take(compose, bytes, queue);
    }
    return compose_give(compose);
}

static bool at_random(struct compose *compose) {
    uint32_t steps = check_rounds(compose->check, STEPS);
    for (uint32_t i = 0; i < steps; i++) {
        check_note(compose->check, "step %u", i);
        CHECK_TRY(step(compose));
        if (check_random(compose->check, 4) == 0) {
            CHECK_TRY(compose_verify(compose));
        }
    }
    for (int i = COMPOSE_COUNT; i-- > 0;) {
        CHECK_TRY(compose_turn(compose, (enum compose_feature)i, false));
    }
    return compose_verify(compose);
}

/* Poison makes every call slower and keeps freed memory apart: half of the runs have none. */
static bool all(struct check *check) {
    struct compose compose;
    uint32_t set = (1u << COMPOSE_COUNT) - 1;
    if (check_random(check, 2)) {
        set &= ~(1u << COMPOSE_POISON);
    }
    bool passed = compose_begin(check, set, check_random(check, 2), &compose);
    if (passed) {
        passed = at_random(&compose);
    }
    compose_end(&compose);
    return passed;
}

#define PAIR_CASE(ONE, TWO, one, two)                                                              \
    {"compose." #one "_" #two, #one " and " #two " at once, in both orders", one##_##two},
const struct check_case check_cases_compose[] = {
    PAIR_MAP(PAIR_CASE){"compose.random",
                        "all eight features at once, turned on and off in any order", all},
    {NULL, NULL, NULL}};
#undef PAIR_CASE
