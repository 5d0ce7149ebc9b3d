/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The broker's decisions, without sockets: the order of requests, who is asked, deadlines, and a
 * random run that compares its books with what the holders were told.
 */
#include "assert_ok.h"
#include "base/memory.h"
#include "lease/broker_table.h"

#include <stdio.h>
#include <string.h>

enum { HOLDERS = 6, SENT_MAX = 64 };

/* A holder as its process would see itself. */
struct seen {
    struct vr_broker_lease *lease;
    uint64_t grant; /* by what it was told and gave */
    uint64_t asked, ask_bytes;
    uint64_t waits; /* the request's number; 0: none */
    uint64_t deadline;
    uint64_t denied, granted, lenders; /* answers so far */
    vram_lease_why why;                /* of the last lender it was told of */
    bool unused_alone;
};

static struct seen holders[HOLDERS];
static struct vr_broker_table table;
static uint64_t numbers;

static void sent(struct vr_broker_lease *lease, const struct vr_lease_message *message) {
    struct seen *holder = lease->user;
    switch (message->type) {
    case VR_LEASE_GRANTED:
        assert_int_equal(message->n[0], holder->waits);
        holder->grant += message->n[1];
        holder->granted++;
        holder->waits = 0;
        break;
    case VR_LEASE_DENIED:
        assert_int_equal(message->n[0], holder->waits);
        assert_int_equal(message->n[1], holder->lenders);
        holder->denied++;
        holder->waits = 0;
        break;
    case VR_LEASE_LENDER:
        holder->lenders++;
        holder->why = (vram_lease_why)message->n[4];
        break;
    case VR_LEASE_REVOKE:
        assert_int_equal(holder->asked, 0); /* one question at a time */
        holder->asked = message->n[0];
        holder->ask_bytes = message->n[1];
        holder->unused_alone = message->n[5];
        break;
    case VR_LEASE_CANCEL:
        if (message->n[0] == holder->asked) {
            holder->asked = 0;
        }
        break;
    default:
        fail_msg("message %u", message->type);
    }
}

static void open_holder(int i, uint64_t min, uint64_t want, int32_t priority, uint64_t now) {
    struct vr_lease_message message = {
        .version = VR_LEASE_VERSION,
        .type = VR_LEASE_OPEN,
        .n = {min, want, 0, 0, 1000, vr_lease_priority_put(priority)}};
    strcpy(message.device, "sim 0");
    snprintf(message.name, sizeof message.name, "h%d", i);
    holders[i] = (struct seen){.grant = 0};
    assert_ok(
        vr_broker_open(&table, &message, 100 + (uint64_t)i, &holders[i], now, &holders[i].lease));
    holders[i].grant = holders[i].lease->grant;
}

static void close_holder(int i, uint64_t now) {
    struct vr_broker_lease *lease = holders[i].lease;
    holders[i] = (struct seen){.grant = 0};
    vr_broker_close(&table, lease, now);
}

static void need(int i, uint64_t bytes, uint64_t ns, uint64_t now) {
    holders[i].waits = ++numbers;
    holders[i].lenders = 0;
    holders[i].deadline = now + ns;
    struct vr_lease_message message = {.version = VR_LEASE_VERSION,
                                       .type = VR_LEASE_NEED,
                                       .n = {holders[i].waits, bytes, ns, holders[i].grant}};
    assert_true(vr_broker_take(&table, holders[i].lease, &message, now));
}

static void give(int i, uint64_t bytes, vram_lease_why why, bool final, uint64_t now) {
    struct vr_lease_message message = {
        .version = VR_LEASE_VERSION,
        .type = VR_LEASE_GIVE,
        .n = {holders[i].asked, bytes, (uint64_t)why, final, holders[i].grant - bytes}};
    holders[i].grant -= bytes;
    holders[i].ask_bytes -= bytes < holders[i].ask_bytes ? bytes : holders[i].ask_bytes;
    if (final || !holders[i].ask_bytes) { /* as a process would see it */
        holders[i].asked = 0;
    }
    assert_true(vr_broker_take(&table, holders[i].lease, &message, now));
}

static int begin(void) {
    vr_broker_table_init(&table, sent);
    memset(holders, 0, sizeof holders);
    return 0;
}

static int end(void) {
    vr_broker_table_end(&table);
    return vr_mem_live_blocks() == 0 ? 0 : -1;
}

/* ------------------------------------------------------------------- opening */

static vram_status open_of(const char *device, uint64_t min, uint64_t want, uint64_t grant,
                           struct seen *holder) {
    struct vr_lease_message message = {
        .version = VR_LEASE_VERSION, .type = VR_LEASE_OPEN, .n = {min, want, grant, 0, 1000, 1000}};
    strcpy(message.device, device);
    return vr_broker_open(&table, &message, 1, holder, 1, &holder->lease);
}

/* Devices are apart, a device has a name, and whoever claims everything does so once. */
TEST(devices) {
    struct seen *first = &holders[0], *second = &holders[1], *third = &holders[2];
    struct seen *fourth = &holders[3];
    assert_int_equal(open_of("", 0, 10, 0, first), VRAM_ERR_INVALID);
    assert_ok(open_of("a", 0, 600, 0, first));
    assert_ok(open_of("b", 0, 600, 0, second));
    assert_int_equal(second->lease->grant, 600);
    assert_ok(open_of("a", 0, UINT64_MAX, UINT64_MAX - 1, third));
    assert_int_equal(third->lease->grant, UINT64_MAX - 1);
    assert_ok(open_of("a", 0, 300, 0, fourth)); /* the sum does not wrap: nothing is left */
    assert_int_equal(fourth->lease->grant, 0);
}

/* Answers to another question, and reasons that nobody has. */
TEST(gifts_that_were_not_asked_for) {
    open_holder(0, 0, 1000, 0, 1);
    open_holder(1, 0, 1000, 0, 1);
    need(1, 300, 1000, 2);
    uint64_t number = holders[0].asked;
    assert_true(number != 0);
    struct vr_lease_message gift = {.version = VR_LEASE_VERSION,
                                    .type = VR_LEASE_GIVE,
                                    .n = {number + 7, 10, VRAM_LEASE_GAVE, 1, 990}};
    assert_true(vr_broker_take(&table, holders[0].lease, &gift, 3));
    assert_int_equal(holders[1].denied + holders[1].granted, 0); /* it is not the answer */
    gift = (struct vr_lease_message){
        .version = VR_LEASE_VERSION, .type = VR_LEASE_GIVE, .n = {number, 0, UINT64_MAX, 1, 990}};
    assert_true(vr_broker_take(&table, holders[0].lease, &gift, 4));
    assert_int_equal(holders[1].denied, 1);
    assert_int_equal(holders[1].why, VRAM_LEASE_IN_USE);
}

/* -------------------------------------------------------------------- order */

TEST(most_above_the_minimum_first) {
    open_holder(0, 100, 300, 0, 1);
    open_holder(1, 100, 500, 0, 1);
    open_holder(2, 0, 400, 0, 1);
    assert_int_equal(holders[2].grant, 200);
    need(2, 150, 1000, 2);
    assert_int_equal(holders[0].asked, 0); /* 200 above its minimum, the other 400 */
    assert_int_equal(holders[1].ask_bytes, 150);
    give(1, 100, VRAM_LEASE_IN_USE, true, 3); /* less than it was asked for */
    assert_int_equal(holders[0].ask_bytes, 50);
    give(0, 50, VRAM_LEASE_GAVE, true, 4);
    assert_int_equal(holders[2].granted, 1);
    assert_int_equal(holders[2].grant, 350);
}

TEST(lower_priorities_give_first) {
    open_holder(0, 0, 300, 1, 1);
    open_holder(1, 0, 100, -1, 1);
    open_holder(2, 0, 600, 0, 1);
    assert_int_equal(holders[2].grant, 600);
    close_holder(2, 2);
    open_holder(2, 0, 600, 0, 2);
    open_holder(3, 0, 500, 0, 2);
    need(3, 500, 1000, 3);
    assert_int_equal(holders[1].ask_bytes, 100);
    assert_int_equal(holders[2].ask_bytes, 400);
    assert_int_equal(holders[0].asked, 0);
    give(1, 100, VRAM_LEASE_GAVE, true, 4);
    give(2, 100, VRAM_LEASE_REFUSED, true, 4);
    assert_true(holders[0].asked && holders[0].unused_alone); /* of higher priority */
    give(0, 0, VRAM_LEASE_PRIORITY, true, 5);
    assert_int_equal(holders[3].denied, 1); /* nobody is left: long before its deadline */
    assert_int_equal(holders[3].lenders, 3);
}

/* Requests of higher priority go first, and those of one in their order; a small one does not
   overtake. */
TEST(requests_in_order) {
    open_holder(0, 0, 1000, 0, 1);
    for (int i = 1; i < 4; i++) {
        open_holder(i, 0, 600, i == 3 ? 5 : 0, 1);
    }
    need(1, 500, 1000, 2);
    assert_int_equal(holders[0].ask_bytes, 500);
    need(2, 10, 1000, 3);
    need(3, 300, 1000, 4);
    give(0, 300, VRAM_LEASE_NO_POINT, false, 5);
    assert_int_equal(holders[3].granted, 1); /* the later one, of higher priority */
    assert_int_equal(holders[2].granted + holders[1].granted, 0);
    give(0, 200, VRAM_LEASE_GAVE, false, 6); /* all of what it was asked for */
    assert_int_equal(holders[1].granted, 0);
    assert_int_equal(holders[2].granted, 0);
    close_holder(3, 7);
    assert_int_equal(holders[1].granted, 1);
}

/* --------------------------------------------------------------- the deadline */

TEST(deadlines) {
    open_holder(0, 0, 1000, 0, 1);
    open_holder(1, 0, 600, 0, 1);
    need(1, 500, 100, 10);
    assert_int_equal(vr_broker_tick(&table, 50), 110);
    assert_int_equal(holders[1].denied, 0);
    assert_int_equal(vr_broker_tick(&table, 110), UINT64_MAX);
    assert_int_equal(holders[1].denied, 1);
    assert_int_equal(holders[1].why, VRAM_LEASE_SILENT);
    assert_int_equal(holders[0].asked, 0); /* taken back */
    need(1, 500, 100, 200);
    give(0, 0, VRAM_LEASE_NO_POINT, false, 210);
    (void)vr_broker_tick(&table, 300);
    assert_int_equal(holders[1].why, VRAM_LEASE_NO_POINT);
    give(0, 400, VRAM_LEASE_GAVE, false, 310); /* late: it is free then */
    need(1, 400, 0, 320);
    assert_int_equal(holders[1].granted, 1);
}

/* After another broker has ended, holders come back before others get anything. */
TEST(recovery) {
    struct vr_lease_message message = {.version = VR_LEASE_VERSION,
                                       .type = VR_LEASE_OPEN,
                                       .n = {0, 900, 800, 700, 1000, 1000, 1},
                                       .device = "sim 0",
                                       .name = "late"};
    table.ready_at = 100;
    open_holder(0, 100, 600, 0, 10);
    assert_int_equal(holders[0].grant, 0);
    need(0, 100, 1000, 20);
    assert_int_equal(holders[0].granted, 0);
    assert_ok(vr_broker_open(&table, &message, 7, &holders[1], 50, &holders[1].lease));
    assert_int_equal(holders[1].lease->grant, 800);
    assert_int_equal(vr_broker_tick(&table, 60), 100);
    (void)vr_broker_tick(&table, 100);
    assert_int_equal(holders[0].granted, 1);
    assert_int_equal(holders[0].grant, 200); /* all that is free: nobody else waits */
}

/* The driver's word: what it refuses is not there. */
TEST(capacity) {
    struct vr_lease_message refused = {.version = VR_LEASE_VERSION, .type = VR_LEASE_NEED};
    open_holder(0, 0, 500, 0, 1);
    open_holder(1, 0, 500, 0, 1);
    holders[0].lease->held = 400;
    give(1, 500, VRAM_LEASE_GAVE, false, 2); /* it uses nothing */
    holders[1].waits = ++numbers;
    uint64_t n[] = {numbers, 300, 1000, 0, 100 + 1, true};
    memcpy(refused.n, n, sizeof n);
    assert_true(vr_broker_take(&table, holders[1].lease, &refused, 3));
    assert_int_equal(holders[1].lease->device->capacity, 500); /* 400 held and 100 free */
    assert_int_equal(holders[0].ask_bytes, 300);
    give(0, 300, VRAM_LEASE_GAVE, true, 4);
    assert_int_equal(holders[1].granted, 1);
}

/* A holder has one request: the next one ends that which it does not wait for any more. */
TEST(a_request_replaces_the_last) {
    open_holder(0, 0, 1000, 0, 1);
    open_holder(1, 0, 600, 0, 1);
    need(1, 500, 1000, 2);
    uint64_t first = holders[0].asked;
    assert_int_equal(holders[0].ask_bytes, 500);
    need(1, 300, 1000, 3);
    assert_true(holders[0].asked && holders[0].asked != first);
    assert_int_equal(holders[0].ask_bytes, 300);
    give(0, 300, VRAM_LEASE_GAVE, true, 4);
    assert_int_equal(holders[1].granted, 1);
    assert_int_equal(holders[1].grant, 300);
    assert_int_equal(vr_broker_tick(&table, 2000), UINT64_MAX);
}

/* A grant and a request may cross: what it lacks then is less than it says, or nothing. */
TEST(a_request_crosses_a_grant) {
    open_holder(0, 0, 600, 0, 1);
    open_holder(1, 0, 700, 0, 1);
    assert_int_equal(holders[1].grant, 400);
    need(1, 700, 1000, 2); /* it has not seen its grant */
    assert_int_equal(holders[0].ask_bytes, 300);
    give(0, 300, VRAM_LEASE_GAVE, true, 3);
    assert_int_equal(holders[1].grant, 700);
    need(1, 200, 1000, 4);
    assert_int_equal(holders[1].granted, 2); /* with nothing more */
    assert_int_equal(holders[1].grant, 700);
    assert_int_equal(holders[0].asked, 0);
}

TEST(protocol) {
    struct vr_lease_message message = {.version = VR_LEASE_VERSION, .type = VR_LEASE_OPEN};
    struct vr_broker_lease *lease;
    assert_int_equal(vr_broker_open(&table, &message, 1, NULL, 1, &lease), VRAM_ERR_INVALID);
    uint64_t n[] = {2000, 2000, 0, 0, 1000, 1000};
    memcpy(message.n, n, sizeof n);
    strcpy(message.device, "sim 0");
    assert_int_equal(vr_broker_open(&table, &message, 1, NULL, 1, &lease), VRAM_ERR_LIMIT);
    open_holder(0, 0, 500, 0, 1);
    struct vr_lease_message wrong[] = {
        {.type = VR_LEASE_OPEN},
        {.type = VR_LEASE_GIVE, .n = {0, 501}},
        {.type = VR_LEASE_NEED, .n = {1, UINT64_MAX, 1}},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_false(vr_broker_take(&table, holders[0].lease, &wrong[i], 2));
    }
    assert_true(
        vr_broker_take(&table, holders[0].lease, &(struct vr_lease_message){.type = 250}, 3));
    message.n[0] = 0;
    message.n[2] = UINT64_MAX - 5; /* claims that cannot be true do not overflow the sums */
    message.n[1] = UINT64_MAX;
    assert_ok(vr_broker_open(&table, &message, 1, &holders[1], 4, &lease));
    (void)vr_broker_tick(&table, 5);
    vr_broker_close(&table, lease, 6);
}

/* -------------------------------------------------------------------- random */

static uint64_t random_state = 88172645463325252u;

static uint64_t random_below(uint64_t most) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % most;
}

static void books_check(uint64_t now) {
    uint64_t sum = 0;
    for (int i = 0; i < HOLDERS; i++) {
        struct seen *holder = &holders[i];
        if (holder->lease) {
            assert_int_equal(holder->grant, holder->lease->grant);
            assert_true(holder->grant <= holder->lease->want);
            assert_int_equal(holder->waits != 0, holder->lease->waiting);
            assert_true(!holder->waits || holder->deadline > now);
            sum += holder->grant;
        }
    }
    assert_true(sum <= 1000);
}

static void random_step(uint64_t now) {
    int i = (int)random_below(HOLDERS);
    struct seen *holder = &holders[i];
    uint64_t want = 1 + random_below(800);
    if (!holder->lease) {
        open_holder(i, random_below(want) / 4, want, (int32_t)random_below(5) - 2, now);
    } else if (random_below(20) == 0) {
        close_holder(i, now);
    } else if (holder->asked) {
        uint64_t least = holder->lease->min,
                 most = holder->grant > least ? holder->grant - least : 0;
        uint64_t bytes = random_below(most + 1);
        bool whole = bytes >= holder->ask_bytes, final = whole || random_below(2);
        give(i, bytes, whole ? VRAM_LEASE_GAVE : VRAM_LEASE_IN_USE, final, now);
    } else if ((!holder->waits || random_below(4) == 0) && holder->grant < holder->lease->want) {
        need(i, 1 + random_below(holder->lease->want - holder->grant), random_below(50), now);
    } else if (holder->grant > holder->lease->min) {
        give(i, random_below(holder->grant - holder->lease->min + 1), VRAM_LEASE_GAVE, false, now);
    }
}

TEST(random_runs) {
    uint64_t now = 1;
    for (int step = 0; step < 100000; step++) {
        random_step(now);
        now += random_below(4);
        (void)vr_broker_tick(&table, now);
        books_check(now);
    }
    for (int i = 0; i < HOLDERS; i++) {
        if (holders[i].lease) {
            close_holder(i, now);
        }
    }
    assert_null(vr_list_first(&table.devices));
    assert_true(table.records > 10000);
}

EACH_TEST(begin, end)
