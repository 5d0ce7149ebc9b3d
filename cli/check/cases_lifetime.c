/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cases_lifetime.c: the end of things: under running work, under waiting threads, in the wrong
 * order, and in a forked child.
 */
#include "case.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ------------------------------------------------------ ended while in use */

struct part {
    vram_context *context;
    vram_device *device; /* what the first thread ends, or NULL: the context */
    vram_queue *queue;
    vram_addr addr;
    bool ends; /* this thread ends it */
};

/* What a call may answer once its object is being taken away from under it. */
static bool is_ending(vram_status status) {
    return status == VRAM_ERR_STALE || status == VRAM_ERR_SHUTDOWN || status == VRAM_ERR_INVALID;
}

static void end(struct part *part) {
    check_sleep(1000000);
    if (part->device != NULL) {
        vram_device_close(part->device);
    } else {
        vram_context_destroy(part->context);
    }
}

static bool work_or_end(struct check *check, void *argument) {
    struct part *part = argument;
    uint64_t deadline = check_now() + CHECK_DEADLINE_NS;
    vram_status status = VRAM_OK;

    if (part->ends) {
        end(part);
        return true;
    }
    while (status == VRAM_OK && check_now() < deadline) {
        vram_point point = {NULL, 0};
        status = vram_queue_fill(part->queue, part->addr, 1, 1, 4096);
        status = status == VRAM_OK ? vram_queue_mark(part->queue, &point) : status;
        status = status == VRAM_OK ? vram_point_wait(point, CHECK_DEADLINE_NS) : status;
    }
    if (!is_ending(status)) {
        CHECK_OK(check, status); /* a fault, or a worker that never noticed */
        return check_fail(check, CHECK_AT("work"), "went on after the object was gone");
    }
    return true;
}

enum { PARTS = 4 };

static bool end_under_work(struct check *check, bool whole_context) {
    vram_context *context;
    struct check_device *device;
    struct part parts[PARTS];

    CHECK_CONTEXT(check, NULL, NULL, &context);
    CHECK_OPEN_OF(check, context, check->target->device, &device);
    vram_device *handle = device->device;
    for (uint32_t i = 0; i < PARTS; i++) {
        parts[i] = (struct part){context, whole_context ? NULL : handle, NULL, 0, i == 0};
        CHECK_QUEUE(check, device, &parts[i].queue);
        CHECK_ALLOC(check, device, 4096, &parts[i].addr);
    }
    device->device = NULL; /* a thread ends it */
    CHECK_TRY(check_threads(check, PARTS, work_or_end, parts, sizeof parts[0]));
    CHECK_STATUS(check, vram_queue_poll(parts[1].queue), VRAM_ERR_STALE);
    CHECK_STATUS(check, vram_device_free(handle, parts[1].addr), VRAM_ERR_STALE);
    return true;
}

static bool close_under_work(struct check *check) {
    return end_under_work(check, false);
}

static bool destroy_under_work(struct check *check) {
    return end_under_work(check, true);
}

/* --------------------------------------------------- ended while waited for */

static bool wait_or_end(struct check *check, void *argument) {
    struct part *part = argument;
    vram_point point = {part->queue, part->addr}; /* the value travels in addr */

    if (part->ends) {
        end(part);
        return true;
    }
    uint64_t start = check_now();
    vram_status status = vram_point_wait(point, CHECK_DEADLINE_NS);
    CHECK_THAT(check, check_now() - start < 2 * CHECK_DEADLINE_NS);
    if (status != VRAM_OK && !is_ending(status)) {
        CHECK_OK(check, status);
    }
    return true;
}

static bool destroy_under_wait(struct check *check) {
    vram_context *context;
    struct check_device *device;
    vram_queue *queue;
    vram_addr addr;
    vram_point point;
    struct part parts[PARTS];
    uint64_t bytes = check->target->quick ? 65536 : UINT64_C(16) << 20;

    CHECK_CONTEXT(check, NULL, NULL, &context);
    CHECK_OPEN_OF(check, context, check->target->device, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_ALLOC(check, device, bytes, &addr);
    for (uint32_t i = 0; i < 8; i++) {
        CHECK_OK(check, vram_queue_fill(queue, addr, i, 1, bytes));
    }
    CHECK_OK(check, vram_queue_mark(queue, &point));
    for (uint32_t i = 0; i < PARTS; i++) {
        parts[i] = (struct part){context, NULL, queue, point.value, i == 0};
    }
    device->device = NULL;
    CHECK_TRY(check_threads(check, PARTS, wait_or_end, parts, sizeof parts[0]));
    CHECK_OK(check, vram_point_poll(point));
    return true;
}

/* ------------------------------------------------------------- wrong order */

/* Languages with collectors and finalizers end things in any order. */
static bool any_order(struct check *check) {
    struct check_device *device;
    vram_queue *queue, *idle;
    vram_addr addr;

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_QUEUE(check, device, &idle);
    CHECK_ALLOC(check, device, 5000, &addr);
    CHECK_OK(check, vram_queue_fill(queue, addr, 1, 1, 5000));
    vram_device *closed = device->device;
    check_close(device); /* parents first, then the children by their dead names */
    vram_queue_destroy(queue);
    vram_queue_destroy(idle);
    vram_device_close(closed);
    CHECK_STATUS(check, vram_device_free(closed, addr), VRAM_ERR_STALE);
    CHECK_THAT(check, vram_device_count(check->context) > 0);
    return true;
}

/* Everything a device can have, left on it when it is closed. */
static bool whole_life(struct check *check, vram_context *context) {
    struct check_device *device;
    vram_queue *queue;
    struct check_buffer buffer;

    CHECK_OPEN_OF(check, context, check->target->device, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_BUFFER(check, device, queue, 30000, &buffer);
    CHECK_VERIFY(check, &buffer);
    if (check_has(check, VRAM_CAP_VMM)) {
        vram_physical *physical;
        vram_addr base;
        CHECK_RANGE(check, device, 1, &base);
        CHECK_PHYSICAL(check, device, 1, &physical);
        CHECK_OK(check, vram_range_map(device->device, base, &physical, 1));
    }
    check_close(device); /* with everything still on it */
    check->device_count--;
    return true;
}

/* Tables may grow in the first rounds and are kept; after that nothing may be added. */
static bool no_residue(struct check *check) {
    uint64_t before = 0;
    for (uint32_t round = 0; round < 6; round++) {
        check_note(check, "round %u", round);
        CHECK_TRY(whole_life(check, check->context));
        if (round == 2) {
            before = vram_host_bytes();
        }
    }
    CHECK_EQUAL(check, vram_host_bytes(), before);
    return true;
}

/* --------------------------------------------------------------------- fork */

/* What the child of a fork finds; 0, or the number of the step that was wrong. Nothing here may
   wait for a thread: there is but one. */
static int child(struct check *check, struct check_device *device, vram_queue *queue,
                 vram_addr addr) {
    vram_addr taken = 0;
    if (vram_device_alloc(device->device, 1, VRAM_MEMORY_DEVICE, &taken) != VRAM_ERR_FORKED) {
        return 1;
    }
    if (vram_queue_fill(queue, addr, 0, 1, 100) != VRAM_ERR_FORKED) {
        return 2;
    }
    if (vram_queue_wait(queue, CHECK_DEADLINE_NS) != VRAM_ERR_FORKED) {
        return 3;
    }
    if (vram_error_get()->status != VRAM_ERR_FORKED) {
        return 4;
    }
    vram_queue_destroy(queue);
    vram_device_close(device->device);
    vram_context_destroy(check->context);
    return 0;
}

/* The child's exit code; -1 when it did not end in time. */
static int reap(pid_t process) {
    uint64_t deadline = check_now() + CHECK_DEADLINE_NS;
    int how = 0;
    while (waitpid(process, &how, WNOHANG) == 0) {
        if (check_now() > deadline) {
            kill(process, SIGKILL);
            waitpid(process, &how, 0);
            return -1;
        }
        check_sleep(1000000);
    }
    return WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
}

/* Python forks with a context alive; the child must neither hang nor touch the device. */
static bool forked(struct check *check) {
    struct check_device *device;
    vram_queue *queue;
    struct check_buffer buffer;

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_BUFFER(check, device, queue, 10000, &buffer);
    pid_t process = fork();
    if (process == 0) {
        _exit(child(check, device, queue, buffer.addr));
    }
    if (process < 0) {
        return check_skip(check, "the system makes no new process");
    }
    CHECK_EQUAL(check, (uint64_t)reap(process), 0);
    CHECK_VERIFY(check, &buffer); /* the parent does not notice */
    CHECK_FILL(check, &buffer, 0, 5, 1, 10000);
    CHECK_VERIFY(check, &buffer);
    return true;
}

const struct check_case check_cases_lifetime[] = {
    {"lifetime.close_under_work", "closing a device under working threads is safe",
     close_under_work},
    {"lifetime.destroy_under_work", "ending a context under working threads is safe",
     destroy_under_work},
    {"lifetime.destroy_under_wait", "ending a context wakes those who wait on its queues",
     destroy_under_wait},
    {"lifetime.any_order", "parents may end before their children", any_order},
    {"lifetime.no_residue", "lives lived one after the other leave no bookkeeping behind",
     no_residue},
    {"lifetime.forked", "a forked child is refused, and the parent goes on unharmed", forked},
    {NULL, NULL, NULL},
};
