/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_driver_process.c: a driver and the life of the process: exit with work outstanding, and a
 * fork with an open context, whose child is told so without a call of the driver and whose parent
 * goes on. The same program is built for several backends. The tests' own drivers end a process
 * that calls them when it must not (STRIKE_TRAP).
 *
 * This program itself never loads the driver: its children do, each in a fresh state.
 */
#include "unit/child.h"

#include "vram/vram.h"

enum { QUEUES = 3, BYTES = WORK_BYTES, ROUNDS = 10, PART = BYTES / QUEUES / 4 * 4 };

struct alive {
    vram_context *context;
    vram_device *device;
    vram_queue *queues[QUEUES];
    vram_addr addr;
    vram_point point;
};

/* Some milliseconds of work on every queue, each on a part of its own, each round with a mark. */
static bool make_alive(struct alive *alive) {
    const vram_context_options options = {.size = sizeof options, .backends = BACKEND};
    bool good =
        vram_context_create(&options, &alive->context) == VRAM_OK &&
        vram_device_open(alive->context, 0, &alive->device) == VRAM_OK &&
        vram_device_alloc(alive->device, BYTES, VRAM_MEMORY_DEVICE, &alive->addr) == VRAM_OK;
    for (int i = 0; i < QUEUES && good; i++) {
        good = vram_queue_create(alive->device, NULL, &alive->queues[i]) == VRAM_OK;
    }
    for (int i = 0; i < QUEUES * ROUNDS && good; i++) {
        vram_queue *queue = alive->queues[i % QUEUES];
        vram_addr part = alive->addr + (uint64_t)(i % QUEUES) * PART;
        good = vram_queue_fill(queue, part, (uint32_t)i, 4, PART) == VRAM_OK &&
               vram_queue_mark(queue, &alive->point) == VRAM_OK;
    }
    return good;
}

static int leave_with_work(void *argument) {
    static struct alive alive;
    (void)argument;
    if (!make_alive(&alive)) {
        return 1;
    }
    exit(0); /* not child_leave: the handlers of an exit are what is tested */
}

TEST(exit_with_work_outstanding) {
#if defined(__SANITIZE_ADDRESS__)
    skip(); /* what a process has at its exit is a leak to the sanitizer, and the point here */
#endif
    for (int i = 0; i < 8; i++) {
        assert_int_equal(in_child(leave_with_work, NULL), 0);
    }
}

static int grandchild(void *argument) {
    struct alive *alive = argument;
    unsigned char byte;
    bool told = vram_queue_fill(alive->queues[0], alive->addr, 0, 1, 1) == VRAM_ERR_FORKED &&
                vram_queue_download(alive->queues[0], &byte, alive->addr, 1) == VRAM_ERR_FORKED &&
                vram_point_wait(alive->point, 0) == VRAM_ERR_FORKED;
    vram_context_destroy(alive->context);
    return told ? 0 : 1;
}

static int fork_with_work(void *argument) {
    static struct alive alive;
    uint32_t found = 0;
    (void)argument;
    if (!make_alive(&alive) || in_child(grandchild, &alive) != 0) {
        return 1;
    }
    vram_queue *last = alive.queues[(QUEUES * ROUNDS - 1) % QUEUES];
    if (vram_queue_download(last, &found, alive.addr + QUEUES * PART - 4, 4) != VRAM_OK ||
        vram_queue_wait(last, VRAM_TIMEOUT_DEFAULT) != VRAM_OK) {
        return 2;
    }
    vram_context_destroy(alive.context);
    return found == QUEUES * ROUNDS - 1 ? 0 : 3;
}

TEST(fork_with_an_open_context) {
    for (int i = 0; i < 4; i++) {
        assert_int_equal(in_child(fork_with_work, NULL), 0);
    }
}

/* One context after the other, each with a loader and an instance of its own. */
static int start_again(void *argument) {
    struct alive alive;
    (void)argument;
    for (int i = 0; i < 10; i++) {
        if (!make_alive(&alive)) {
            return 1;
        }
        vram_context_destroy(alive.context);
    }
    return 0;
}

TEST(contexts_come_and_go) {
    assert_int_equal(in_child(start_again, NULL), 0);
}
