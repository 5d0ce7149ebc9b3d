/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scenario_channel.c: a ring's direction (ring/channel.c). Payloads are plain memory, and so are
 * headers of slots: a race shows a message that is read before it is complete, or overwritten
 * before it is read.
 */
#include "explore_scenario.h"

#include "explore_checker.h"
#include "ring/channel.h"

enum { CAPACITY = 2, STRIDE = sizeof(vram_ring_slot) + sizeof(uint64_t) };

static vr_atomic_u64 head, claim, tail;
static _Alignas(64) unsigned char slots[CAPACITY * STRIDE];
static struct vr_channel channel = {.head = &head,
                                    .claim = &claim,
                                    .tail = &tail,
                                    .slots = slots,
                                    .capacity = CAPACITY,
                                    .stride = STRIDE,
                                    .message_bytes = sizeof(uint64_t)};
static unsigned received, sum; /* the consumer's */
static bool more[2];           /* a producer could not send all */

static void channel_multi(void) {
    channel.multi = true;
}

/* Sends `count` messages from `first` on; false: there was no room for all. */
static bool messages_send(uint64_t first, uint64_t count) {
    uint64_t payload[2] = {first, first + 1}, done = 0;
    vram_ring_message messages[2] = {{.data = &payload[0], .bytes = sizeof payload[0]},
                                     {.data = &payload[1], .bytes = sizeof payload[1]}};
    CHECK(vr_channel_send(&channel, messages, count, 1, &done) == VRAM_OK);
    return done == count;
}

/* Takes a message; 0: there is none. */
static uint64_t message_take(void) {
    uint64_t payload = 0;
    vram_ring_slot slot;
    vram_status status = vr_channel_receive(&channel, &payload, sizeof payload, &slot);
    CHECK(status == VRAM_OK || status == VRAM_ERR_NOT_READY);
    CHECK(status != VRAM_OK || (slot.bytes == sizeof payload && payload > 0));
    return payload;
}

static void producer_three(void) {
    for (uint64_t i = 1; i <= 3; i++) {
        while (!messages_send(i, 1)) {
            explore_yield();
        }
    }
}

static void consumer_three(void) {
    for (uint64_t i = 1; i <= 3; i++) {
        uint64_t got;
        while (!(got = message_take())) {
            explore_yield();
        }
        CHECK(got == i); /* in order, none lost */
        received++;
    }
}

static void three_were_received(void) {
    CHECK(received == 3 && vr_channel_depth(&channel) == 0);
}

static void first_sends(void) {
    more[0] = !messages_send(1, 1);
}

static void second_sends(void) {
    more[1] = !messages_send(2, 1);
}

static void first_sends_two(void) {
    more[0] = !messages_send(1, 2);
}

/* What was sent is all published: nobody has to send once more. */
static void both_are_there(void) {
    CHECK(!more[0] && !more[1] && vr_channel_depth(&channel) == 2);
    CHECK(message_take() + message_take() == 3 && !message_take());
}

static void consumer_looks_twice(void) {
    sum += (unsigned)message_take();
    sum += (unsigned)message_take();
}

static void both_were_sent(void) {
    CHECK(!more[0] && !more[1]);
    sum += (unsigned)message_take();
    sum += (unsigned)message_take();
    CHECK(sum == 3 && vr_channel_depth(&channel) == 0);
}

/* One message is there, of capacity 2, so that slots are used again. */
static void one_is_there(void) {
    channel_multi();
    CHECK(messages_send(4, 1) && message_take() == 4 && messages_send(4, 1));
}

static void consumer_looks_once(void) {
    sum += (unsigned)message_take();
}

/* At least one of the two had room. */
static void rest_is_taken(void) {
    for (uint64_t got; (got = message_take());) {
        sum += (unsigned)got;
    }
    CHECK(!(more[0] && more[1]));
    CHECK(sum == 4 + (more[0] ? 0u : 1u) + (more[1] ? 0u : 2u));
}

static void depth_reader(void) {
    CHECK(vr_channel_depth(&channel) <= CAPACITY);
    CHECK(vr_channel_depth(&channel) <= CAPACITY);
}

static void one_sent(void) {
    CHECK(messages_send(1, 1));
}

static void producer_sends_twice(void) {
    (void)messages_send(1, 1);
    (void)messages_send(1, 1);
}

static void second_sends_twice(void) {
    more[1] = !messages_send(2, 1);
    (void)messages_send(2, 1);
}

/* No message that was sent waits for another one to be published. */
static void all_are_published(void) {
    CHECK(vr_load(&head, VR_RELAXED) == vr_load(&claim, VR_RELAXED));
}

const struct scenario channel_scenarios[] = {
    {"ring", "one producer", NULL, {producer_three, consumer_three}, three_were_received, false},
    {"ring", "two producers", channel_multi, {first_sends, second_sends}, both_are_there, false},
    {"ring",
     "two producers beside the consumer",
     channel_multi,
     {first_sends, second_sends, consumer_looks_twice},
     both_were_sent,
     true},
    {"ring", "slots used again", one_is_there, {first_sends, consumer_looks_once}, NULL, false},
    {"ring",
     "slots used again by two",
     one_is_there,
     {first_sends, second_sends, consumer_looks_once},
     rest_is_taken,
     true},
    {"ring",
     "two at once beside the consumer",
     channel_multi,
     {first_sends_two, consumer_looks_twice},
     NULL,
     false},
    {"ring",
     "the depth, from outside",
     one_sent,
     {producer_sends_twice, consumer_looks_twice, depth_reader},
     NULL,
     true},
    {"ring",
     "a slot used again at once",
     channel_multi,
     {first_sends, second_sends_twice, consumer_looks_once},
     all_are_published,
     true},
    {.name = NULL}};
