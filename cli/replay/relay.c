/* SPDX-License-Identifier: Apache-2.0 */
/*
 * relay.c: see relay.h.
 *
 * The lock is held by the thread whose turn it is for as long as it lasts: what one wrote, the next
 * one sees, and nothing else is needed.
 */
#include "relay.h"

#include <pthread.h>
#include <stdlib.h>

struct relay;

struct runner {
    struct relay *relay;
    pthread_t thread;
    pthread_cond_t called; /* it is this one's turn, or all is over */
    uint32_t number;
};

struct relay {
    pthread_mutex_t lock;
    struct runner *runners;
    uint32_t count, turn;
    bool over, open; /* open: everybody is there */
    relay_turn_fn *work;
    void *user;
};

static void call_all(struct relay *relay) {
    for (uint32_t i = 0; i < relay->count; i++) {
        pthread_cond_signal(&relay->runners[i].called);
    }
}

static void *run(void *argument) {
    struct runner *runner = argument;
    struct relay *relay = runner->relay;
    pthread_mutex_lock(&relay->lock);
    while (!relay->over) {
        if (!relay->open || relay->turn != runner->number) {
            pthread_cond_wait(&runner->called, &relay->lock);
        } else if (!relay->work(relay->user, &relay->turn)) {
            relay->over = true;
            call_all(relay);
        } else {
            pthread_cond_signal(&relay->runners[relay->turn].called);
        }
    }
    pthread_mutex_unlock(&relay->lock);
    return NULL;
}

/* Starts the runners; returns how many the system gave. */
static uint32_t start(struct relay *relay) {
    for (uint32_t i = 0; i < relay->count; i++) {
        struct runner *runner = &relay->runners[i];
        runner->relay = relay;
        runner->number = i;
        pthread_cond_init(&runner->called, NULL);
    }
    for (uint32_t i = 0; i < relay->count; i++) {
        if (pthread_create(&relay->runners[i].thread, NULL, run, &relay->runners[i]) != 0) {
            return i;
        }
    }
    return relay->count;
}

vram_status relay_run(uint32_t threads, uint32_t first, relay_turn_fn *turn, void *user) {
    if (threads <= 1) {
        while (turn(user, &first)) {
        }
        return VRAM_OK;
    }
    struct relay relay = {.count = threads, .turn = first, .work = turn, .user = user};
    relay.runners = calloc(threads, sizeof *relay.runners);
    if (relay.runners == NULL) {
        return VRAM_ERR_HOST_MEMORY;
    }
    pthread_mutex_init(&relay.lock, NULL);
    uint32_t started = start(&relay);
    pthread_mutex_lock(&relay.lock);
    relay.open = true;
    relay.over = started < threads;
    call_all(&relay);
    pthread_mutex_unlock(&relay.lock);
    for (uint32_t i = 0; i < started; i++) {
        pthread_join(relay.runners[i].thread, NULL);
    }
    for (uint32_t i = 0; i < threads; i++) {
        pthread_cond_destroy(&relay.runners[i].called);
    }
    pthread_mutex_destroy(&relay.lock);
    free(relay.runners);
    return started == threads ? VRAM_OK : VRAM_ERR_IO;
}
