/* SPDX-License-Identifier: Apache-2.0 */
/*
 * explore.c: the ring's protocol, model-checked. Every interleaving of two producers and one
 * consumer on a small ring is walked through, with memory that is weaker than x86's:
 *
 *  - Each thread has a buffer of stores that others do not see yet. At any moment any of them may
 *    reach memory, in order for the same word and in any order for different words; a store with
 *    release order only when all stores before it have. That is PSO: it shows every place that
 *    needs a release.
 *  - A load sees the thread's own newest store to the word, else memory. A read-modify-write waits
 *    until the buffer is empty and is one step. A sequentially consistent store lets the thread go
 *    on when its buffer is empty, which is what such stores compile to.
 *  - Loads are made in order, as acquire has it. A consumer that looks at the payload before it
 *    looks at the head is a program of its own, among the faults.
 *
 * The programs are those of src/ring/channel.c (one producer; several, of whom any raises the head)
 * and of vram/ring_device.h (several, each of whom waits for its turn), one step for each access to
 * shared memory.
 *
 * What must hold: a message that is read is whole and the next of its producer; a slot below the
 * head has its sequence; at the end all counters are the number of messages; and from every state
 * an end can be reached, so no message stays behind for ever. Each planted fault must be found, or
 * the explorer itself is wrong.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PRODUCERS_MAX = 2,
    EACH = 6, /* messages of one producer at most */
    CAPACITY = 2,
    THREADS = PRODUCERS_MAX + 1, /* the last one consumes */
    BUFFER = 6                   /* stores under way of one thread */
};

/* The words of shared memory. */
enum { HEAD, CLAIM, TAIL, SEQUENCE, PAYLOAD = SEQUENCE + CAPACITY, WORDS = PAYLOAD + CAPACITY };

enum fault {
    NONE,
    PUBLISH_FIRST, /* the payload is written last */
    RELAXED_HEAD,  /* head without release order */
    NO_FULL_CHECK, /* the producer does not look at tail */
    OFF_BY_ONE,    /* one message more than there is room for */
    NO_FENCE,      /* own sequence and neighbour's are not sequentially consistent */
    PLAIN_CLAIM,   /* claim is read and written in two steps */
    EARLY_READ,    /* the consumer reads the payload before the head */
    EARLY_TAIL,    /* the consumer raises tail before it has read the payload */
    NO_TURN,       /* a device's producer does not wait for its turn */
    BLIND_ADVANCE, /* head is raised over slots that are not ready */
    FAULTS
};

static const char *const fault_names[FAULTS] = {
    "no fault",    "publish first", "relaxed head", "no full check", "off by one",   "no fence",
    "plain claim", "early read",    "early tail",   "no turn",       "blind advance"};

enum protocol { SINGLE, HOST_MULTI, DEVICE_MULTI, PROTOCOLS };
static const char *const protocol_names[PROTOCOLS] = {"one producer", "host's two", "device's two"};

struct world {
    enum protocol protocol;
    enum fault fault;
    unsigned producers;
    unsigned each; /* messages of each */
};

/* Where a thread is in its program. */
enum {
    P_START,    /* look at claim; alone: at head */
    P_ROOM,     /* look at tail: is there room? */
    P_CLAIM,    /* compare and swap claim */
    P_PAYLOAD,  /* write the payload */
    P_SEQUENCE, /* write the sequence */
    P_DRAIN,    /* wait until others see it */
    P_HEAD,     /* alone: store head. Host: look at it. Device: wait until it is the own number */
    P_LOOK,     /* host: is the slot at head ready? */
    P_RAISE,    /* host: compare and swap head. Device: store it */
    P_DONE
};
enum { C_HEAD, C_SEQUENCE, C_PAYLOAD, C_TAIL, C_DONE };

struct store {
    uint8_t word, value, release;
};

struct thread {
    uint8_t at;
    uint8_t left;    /* messages to send or to take */
    uint8_t number;  /* of the message it is at */
    uint8_t head;    /* that it looked at */
    uint8_t payload; /* that an early reader saw */
    uint8_t used;    /* of `stores` */
    struct store stores[BUFFER];
};

/* Bytes only, and unused ones are 0: equal states are equal bytes. */
struct state {
    uint8_t memory[WORDS];
    struct thread threads[THREADS];
    uint8_t next[PRODUCERS_MAX]; /* message of each producer that must come next */
};

/* ------------------------------------------------------------- what was seen */

static struct state *states; /* in the order they were found */
static uint64_t state_count, state_room;
static uint64_t *table; /* number of a state + 1, by its hash */
static uint64_t table_room;
static const char *complaint; /* the first thing that does not hold */

static void *must(void *memory) {
    if (!memory) {
        fputs("explore: out of memory\n", stderr);
        exit(2);
    }
    return memory;
}

/* Where in the table the state is, or would be. */
static uint64_t place_of(const struct state *state) {
    const unsigned char *bytes = (const unsigned char *)state;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < sizeof *state; i++) {
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    }
    uint64_t at = (hash ^ hash >> 31) & (table_room - 1);
    while (table[at] && memcmp(&states[table[at] - 1], state, sizeof *state) != 0) {
        at = (at + 1) & (table_room - 1);
    }
    return at;
}

static void table_grow(void) {
    free(table);
    table_room = table_room ? table_room * 2 : 1 << 16;
    table = must(calloc(table_room, sizeof *table));
    for (uint64_t i = 0; i < state_count; i++) {
        table[place_of(&states[i])] = i + 1;
    }
}

static void visit(const struct state *state) {
    if (state_count * 2 >= table_room) {
        table_grow();
    }
    uint64_t at = place_of(state);
    if (table[at]) {
        return;
    }
    if (state_count == state_room) {
        state_room = state_room ? state_room * 2 : 1 << 15;
        states = must(realloc(states, state_room * sizeof *states));
    }
    states[state_count] = *state;
    table[at] = ++state_count;
}

/* -------------------------------------------------------------------- memory */

static uint8_t load(const struct state *state, const struct thread *thread, unsigned word) {
    for (unsigned i = thread->used; i-- > 0;) {
        if (thread->stores[i].word == word) {
            return thread->stores[i].value;
        }
    }
    return state->memory[word];
}

/* False: the buffer is full, and the thread has to wait. */
static bool store(struct thread *thread, unsigned word, unsigned value, bool release) {
    if (thread->used == BUFFER) {
        return false;
    }
    thread->stores[thread->used++] = (struct store){(uint8_t)word, (uint8_t)value, release};
    return true;
}

/* Lets store i reach memory; false: it may not before those in front of it. */
static bool leave(struct state *state, struct thread *thread, unsigned i) {
    for (unsigned j = 0; j < i; j++) {
        if (thread->stores[i].release || thread->stores[j].word == thread->stores[i].word) {
            return false;
        }
    }
    state->memory[thread->stores[i].word] = thread->stores[i].value;
    thread->used--;
    memmove(&thread->stores[i], &thread->stores[i + 1], (thread->used - i) * sizeof(struct store));
    memset(&thread->stores[thread->used], 0, sizeof(struct store));
    return true;
}

/* ----------------------------------------------------------------- the programs */

/* A payload says whose and which; 0 is none. */
static uint8_t payload_of(unsigned producer, unsigned message) {
    return (uint8_t)(1 + producer * EACH + message);
}

static unsigned slot(unsigned word, unsigned message) {
    return word + message % CAPACITY;
}

static void sent(struct thread *thread) {
    thread->left--;
    thread->at = thread->left ? P_START : P_DONE;
    thread->number = thread->head = 0;
}

/* Its message is published: all is done, but for who writes the payload last. */
static bool published(struct thread *thread, const struct world *world) {
    if (world->fault == PUBLISH_FIRST) {
        thread->at = P_PAYLOAD;
    } else {
        sent(thread);
    }
    return true;
}

static bool is_full(const struct world *world, unsigned number, unsigned tail) {
    unsigned room = CAPACITY + (world->fault == OFF_BY_ONE);
    return world->fault != NO_FULL_CHECK && (uint8_t)(number - tail) >= room;
}

static bool store_head(struct thread *thread, const struct world *world) {
    return store(thread, HEAD, thread->number + 1u, world->fault != RELAXED_HEAD) &&
           published(thread, world);
}

static bool head_step(struct state *state, struct thread *thread, const struct world *world) {
    if (world->protocol == SINGLE) {
        return store_head(thread, world);
    }
    thread->head = load(state, thread, HEAD);
    if (world->protocol == DEVICE_MULTI) {
        thread->at = P_RAISE;
        return thread->head == thread->number || world->fault == NO_TURN;
    }
    if (world->fault == BLIND_ADVANCE) {
        if (thread->head > thread->number) {
            return published(thread, world);
        }
        thread->at = P_RAISE;
        return true;
    }
    thread->at = P_LOOK;
    return true;
}

static bool raise_step(struct state *state, struct thread *thread, const struct world *world) {
    if (world->protocol == DEVICE_MULTI) {
        return store_head(thread, world);
    }
    if (thread->used) {
        return false;
    }
    state->memory[HEAD] = (uint8_t)(state->memory[HEAD] + (state->memory[HEAD] == thread->head));
    thread->at = P_HEAD; /* and looks on from there */
    return true;
}

static bool claim_step(struct state *state, struct thread *thread, const struct world *world) {
    bool plain = world->fault == PLAIN_CLAIM;
    if (thread->used && !plain) {
        return false;
    }
    if (state->memory[CLAIM] != thread->number && !plain) {
        thread->at = P_START;
        thread->number = 0;
        return true;
    }
    state->memory[CLAIM] = (uint8_t)(thread->number + 1);
    thread->at = world->fault == PUBLISH_FIRST ? P_SEQUENCE : P_PAYLOAD;
    return true;
}

static bool payload_step(struct thread *thread, unsigned index, const struct world *world) {
    if (!store(thread, slot(PAYLOAD, thread->number), payload_of(index, world->each - thread->left),
               false)) {
        return false;
    }
    thread->at = P_SEQUENCE;
    if (world->fault == PUBLISH_FIRST) {
        sent(thread);
    }
    return true;
}

/* False: it cannot go on now, or looked in vain; then the state does not count. */
static bool producer_step(struct state *state, unsigned index, const struct world *world) {
    struct thread *thread = &state->threads[index];
    bool alone = world->protocol == SINGLE;
    switch (thread->at) {
    case P_START:
        thread->number = load(state, thread, alone ? HEAD : CLAIM);
        thread->at = P_ROOM;
        return true;
    case P_ROOM:
        if (is_full(world, thread->number, load(state, thread, TAIL))) {
            thread->at = P_START;
            thread->number = 0;
        } else if (alone) {
            thread->at = world->fault == PUBLISH_FIRST ? P_SEQUENCE : P_PAYLOAD;
        } else {
            thread->at = P_CLAIM;
        }
        return true;
    case P_CLAIM:
        return claim_step(state, thread, world);
    case P_PAYLOAD:
        return payload_step(thread, index, world);
    case P_SEQUENCE: /* relaxed where the thread itself stores the head behind it */
        thread->at = world->protocol == HOST_MULTI && world->fault != NO_FENCE ? P_DRAIN : P_HEAD;
        return store(thread, slot(SEQUENCE, thread->number), thread->number + 1u,
                     world->protocol == HOST_MULTI);
    case P_DRAIN:
        thread->at = P_HEAD;
        return thread->used == 0;
    case P_HEAD:
        return head_step(state, thread, world);
    case P_LOOK:
        if (load(state, thread, slot(SEQUENCE, thread->head)) != (uint8_t)(thread->head + 1)) {
            return published(thread, world);
        }
        thread->at = P_RAISE;
        return true;
    case P_RAISE:
        return raise_step(state, thread, world);
    default:
        return false;
    }
}

static void got(struct state *state, uint8_t payload) {
    unsigned producer = (payload - 1u) / EACH, message = (payload - 1u) % EACH;
    if (payload == 0 || producer >= PRODUCERS_MAX || state->next[producer] != message) {
        complaint = "a message came torn, twice or out of order";
    } else {
        state->next[producer]++;
    }
}

static bool taken(struct thread *thread) {
    thread->number++;
    thread->payload = 0;
    thread->at = --thread->left ? C_HEAD : C_DONE;
    return true;
}

static bool consumer_step(struct state *state, const struct world *world) {
    struct thread *thread = &state->threads[PRODUCERS_MAX];
    bool early_read = world->fault == EARLY_READ, early_tail = world->fault == EARLY_TAIL;
    bool empty = load(state, thread, HEAD) == thread->number;
    uint8_t payload = load(state, thread, slot(PAYLOAD, thread->number));
    switch (thread->at) {
    case C_HEAD: /* an early reader looks at the head one step later */
        thread->payload = early_read ? payload : 0;
        thread->at = early_tail ? C_TAIL : C_SEQUENCE;
        return early_read || !empty;
    case C_SEQUENCE:
        if (early_read && empty) {
            thread->at = C_HEAD;
            return true;
        }
        if (load(state, thread, slot(SEQUENCE, thread->number)) != (uint8_t)(thread->number + 1)) {
            complaint = "a slot below the head has another sequence";
        }
        thread->at = C_PAYLOAD;
        return true;
    case C_PAYLOAD:
        got(state, early_read ? thread->payload : payload);
        thread->at = C_TAIL;
        return early_tail ? taken(thread) : true;
    case C_TAIL:
        thread->at = C_PAYLOAD;
        return store(thread, TAIL, thread->number + 1u, true) && (early_tail || taken(thread));
    default:
        return false;
    }
}

/* Step number `which` of a thread: its stores that leave, then its own next step. */
static bool step(struct state *state, unsigned thread, unsigned which, const struct world *world) {
    if (which < state->threads[thread].used) {
        return leave(state, &state->threads[thread], which);
    }
    if (thread == PRODUCERS_MAX) {
        return consumer_step(state, world);
    }
    return thread < world->producers && producer_step(state, thread, world);
}

/* ------------------------------------------------------------------- exploring */

static bool is_end(const struct state *state, const struct world *world) {
    for (unsigned i = 0; i < THREADS; i++) {
        const struct thread *thread = &state->threads[i];
        bool takes_part = i == PRODUCERS_MAX || i < world->producers;
        if (takes_part && (thread->at != (i == PRODUCERS_MAX ? C_DONE : P_DONE) || thread->used)) {
            return false;
        }
    }
    return true;
}

static void check_end(const struct state *state, const struct world *world) {
    unsigned all = world->producers * world->each;
    bool claimed = world->protocol == SINGLE || state->memory[CLAIM] == all;
    if (state->memory[HEAD] != all || state->memory[TAIL] != all || !claimed) {
        complaint = "a counter is wrong at the end";
    }
}

static void expand(uint64_t index, const struct world *world) {
    for (unsigned i = 0; i < THREADS; i++) {
        for (unsigned j = 0; j <= states[index].threads[i].used && !complaint; j++) {
            struct state next = states[index];
            if (step(&next, i, j, world)) {
                visit(&next);
            }
        }
    }
    if (!complaint && is_end(&states[index], world)) {
        check_end(&states[index], world);
    }
}

/* Whether one step leads from the state to one that is marked. */
static bool leads_on(uint64_t index, const unsigned char *marked, const struct world *world) {
    for (unsigned i = 0; i < THREADS; i++) {
        for (unsigned j = 0; j <= states[index].threads[i].used; j++) {
            struct state next = states[index];
            if (step(&next, i, j, world) && marked[table[place_of(&next)] - 1]) {
                return true;
            }
        }
    }
    return false;
}

/* Marks ends, and what leads to marked states, until nothing changes; whether that is all. Those
   found late lie near the ends, so one pass from the back does nearly everything. */
static bool all_lead_to_an_end(const struct world *world) {
    unsigned char *marked = must(calloc(state_count, 1));
    uint64_t left = state_count, before = 0;
    while (left != before) {
        before = left;
        for (uint64_t i = state_count; i-- > 0;) {
            if (!marked[i] && (is_end(&states[i], world) || leads_on(i, marked, world))) {
                marked[i] = 1;
                left--;
            }
        }
    }
    free(marked);
    return left == 0;
}

/* Walks through all of it; NULL: everything holds. */
static const char *explore(const struct world *world) {
    struct state first;
    memset(&first, 0, sizeof first);
    for (unsigned i = 0; i < world->producers; i++) {
        first.threads[i].left = (uint8_t)world->each;
    }
    first.threads[PRODUCERS_MAX].left = (uint8_t)(world->producers * world->each);
    state_count = 0;
    complaint = NULL;
    if (table) {
        memset(table, 0, table_room * sizeof *table);
    }
    visit(&first);
    for (uint64_t i = 0; i < state_count && !complaint; i++) {
        expand(i, world);
    }
    if (!complaint && !all_lead_to_an_end(world)) {
        complaint = "a message stays behind for ever";
    }
    return complaint;
}

/* Which programs a fault can be planted in. */
static bool applies(enum fault fault, enum protocol protocol) {
    switch (fault) {
    case NO_FENCE:
    case BLIND_ADVANCE:
        return protocol == HOST_MULTI;
    case PLAIN_CLAIM:
        return protocol != SINGLE;
    case NO_TURN:
        return protocol == DEVICE_MULTI;
    case RELAXED_HEAD:
        return protocol != HOST_MULTI; /* who raises it by compare and swap */
    default:
        return true;
    }
}

int main(int count, char **words) {
    int wrong = 0;
    (void)words;
    if (count > 1) {
        fprintf(stderr, "ring_explore: it takes no words\n");
        return 2;
    }
    for (int p = 0; p < PROTOCOLS; p++) {
        for (int f = 0; f < FAULTS; f++) {
            struct world world = {.protocol = (enum protocol)p,
                                  .fault = (enum fault)f,
                                  .producers = p == SINGLE ? 1 : PRODUCERS_MAX,
                                  .each = p == SINGLE ? 6 : 3};
            if (applies(world.fault, world.protocol)) {
                const char *found = explore(&world);
                printf("%-12s %-13s %8" PRIu64 " states: %s\n", protocol_names[p], fault_names[f],
                       state_count, found ? found : "all holds");
                wrong += (found == NULL) != (f == NONE);
            }
        }
    }
    free(states);
    free(table);
    printf("%s\n",
           wrong ? "NOT as it should be" : "the protocols hold, and every planted fault is found");
    return wrong != 0;
}
