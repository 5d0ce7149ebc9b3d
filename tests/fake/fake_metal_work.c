/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_metal_work.c: queues, command buffers and events.
 *
 * A queue's thread runs its command buffers in the order of their commits; a thread of the process
 * tells of their ends. What a command buffer names it keeps until then.
 */
#include "fake/fake_metal_work.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool held;

void fake_metal_hold(bool hold);
void fake_metal_hold(bool hold) {
    pthread_mutex_lock(&fake_metal_lock);
    held = hold;
    pthread_cond_broadcast(&fake_metal_changed);
    pthread_mutex_unlock(&fake_metal_lock);
}

void fake_metal_breach(const char *text) {
    pthread_mutex_lock(&fake_metal_lock);
    fake_metal_violation(text);
    pthread_mutex_unlock(&fake_metal_lock);
}

/* ------------------------------------------------------------- running, ends */

void fake_metal_op_free(struct op *op) {
    void *const objects[] = {op->from, op->to, op->event, op->pipeline};
    for (size_t i = 0; i < sizeof objects / sizeof objects[0]; i++) {
        if (objects[i]) {
            fake_metal_drop(objects[i]);
        }
    }
    for (int i = 0; i < ARGUMENTS_MAX; i++) {
        if (op->arguments[i].buffer) {
            fake_metal_drop(op->arguments[i].buffer);
        }
    }
    free(op);
}

static void raise_event(struct event *event, uint64_t value) {
    pthread_mutex_lock(&fake_metal_lock);
    if (value <= event->value) {
        fake_metal_violation("an event was set back");
    }
    event->value = value;
    pthread_cond_broadcast(&fake_metal_changed);
    pthread_mutex_unlock(&fake_metal_lock);
}

static void await_event(struct event *event, uint64_t value) {
    pthread_mutex_lock(&fake_metal_lock);
    while (event->value < value) {
        pthread_cond_wait(&fake_metal_changed, &fake_metal_lock);
    }
    pthread_mutex_unlock(&fake_metal_lock);
}

static void run_op(const struct op *op, bool failed) {
    if (op->kind == OP_SIGNAL) {
        raise_event(op->event, op->number);
    } else if (op->kind == OP_WAIT) {
        await_event(op->event, op->number);
    } else if (failed) {
        return;
    } else if (op->kind == OP_COPY) {
        memmove(op->to->contents + op->to_offset, op->from->contents + op->from_offset, op->bytes);
    } else if (op->kind == OP_FILL) {
        memset(op->to->contents + op->to_offset, op->value, op->bytes);
    } else {
        fake_metal_run_kernel(op);
    }
}

/* Command buffers that have run; a thread tells of them. */
static struct commands *ended;
static bool telling;

/* The oldest of those that have ended, or, unordered, the newest. With the lock held. */
static struct commands *next_ended(void) {
    struct commands **at = &ended;
    while (*at && (*at)->next && !fake_metal_setting("FAKE_METAL_UNORDERED", 0)) {
        at = &(*at)->next;
    }
    struct commands *commands = *at;
    if (commands) {
        *at = commands->next;
    }
    return commands;
}

void *objc_autoreleasePoolPush(void);
void objc_autoreleasePoolPop(void *pool);

static void tell_end(struct commands *commands) {
    void *pool = objc_autoreleasePoolPush();
    if (commands->code) {
        struct fake_object *error = fake_metal_error(commands->code, "the work failed");
        fake_metal_keep(error);
        commands->error = error;
    }
    while (commands->handlers) {
        struct handler *handler = commands->handlers;
        commands->handlers = handler->next;
        handler->block.invoke(&handler->block, commands);
        free(handler);
    }
    objc_autoreleasePoolPop(pool);
    fake_metal_drop(commands);
}

static void *tell(void *argument) {
    (void)argument;
    pthread_mutex_lock(&fake_metal_lock);
    for (struct commands *commands; (commands = next_ended());) {
        pthread_mutex_unlock(&fake_metal_lock);
        tell_end(commands);
        pthread_mutex_lock(&fake_metal_lock);
    }
    telling = false;
    pthread_mutex_unlock(&fake_metal_lock);
    return NULL;
}

static void start_thread(void *(*run)(void *), void *argument) {
    pthread_t thread;
    pthread_attr_t detached;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &detached, run, argument)) {
        abort();
    }
    pthread_attr_destroy(&detached);
}

static void run_commands(struct commands *commands) {
    uint64_t delay = fake_metal_setting("FAKE_METAL_DELAY", 0);
    if (delay) {
        usleep((useconds_t)delay);
    }
    for (struct op *op = commands->first; op; op = op->next) {
        run_op(op, commands->code != 0);
    }
    pthread_mutex_lock(&fake_metal_lock);
    commands->next = ended; /* newest first */
    ended = commands;
    if (!telling) {
        telling = true;
        start_thread(tell, NULL);
    }
    pthread_mutex_unlock(&fake_metal_lock);
}

static void *run_queue(void *argument) {
    struct queue *queue = argument;
    pthread_mutex_lock(&fake_metal_lock);
    while (queue->first) {
        while (held) {
            pthread_cond_wait(&fake_metal_changed, &fake_metal_lock);
        }
        struct commands *commands = queue->first;
        queue->first = commands->next;
        if (!queue->first) {
            queue->last = &queue->first;
        }
        pthread_mutex_unlock(&fake_metal_lock);
        run_commands(commands);
        pthread_mutex_lock(&fake_metal_lock);
    }
    queue->running = false;
    pthread_mutex_unlock(&fake_metal_lock);
    fake_metal_drop(queue);
    return NULL;
}

/* ------------------------------------------------------------------- queues */

vr_mtl_id fake_metal_queue_create(vr_mtl_id receiver, vr_mtl_selector message,
                                  unsigned long count) {
    (void)message;
    if (!fake_metal_is(receiver, FAKE_DEVICE) || !count) {
        return NULL;
    }
    struct queue *queue = (struct queue *)fake_metal_object(FAKE_QUEUE, sizeof *queue, NULL);
    queue->device = receiver;
    queue->last = &queue->first;
    return queue;
}

vr_mtl_id fake_metal_queue_device(vr_mtl_id receiver, vr_mtl_selector message) {
    (void)message;
    return fake_metal_is(receiver, FAKE_QUEUE) ? ((struct queue *)receiver)->device : NULL;
}

vr_mtl_id fake_metal_event_create(vr_mtl_id receiver, vr_mtl_selector message) {
    (void)message;
    return fake_metal_is(receiver, FAKE_DEVICE)
               ? fake_metal_object(FAKE_EVENT, sizeof(struct event), NULL)
               : NULL;
}

static void commands_end(struct fake_object *object) {
    struct commands *commands = (struct commands *)object;
    while (commands->first) {
        struct op *op = commands->first;
        commands->first = op->next;
        fake_metal_op_free(op);
    }
    while (commands->handlers) {
        struct handler *handler = commands->handlers;
        commands->handlers = handler->next;
        free(handler);
    }
    if (commands->error) {
        fake_metal_drop(commands->error);
    }
    fake_metal_drop(commands->queue);
}

vr_mtl_id fake_metal_command_buffer(vr_mtl_id receiver, vr_mtl_selector message) {
    (void)message;
    if (!fake_metal_is(receiver, FAKE_QUEUE)) {
        return NULL;
    }
    struct commands *commands =
        (struct commands *)fake_metal_object(FAKE_COMMANDS, sizeof *commands, commands_end);
    commands->queue = receiver;
    commands->last = &commands->first;
    fake_metal_keep(receiver);
    return fake_metal_later(commands);
}

void fake_metal_add_completed(vr_mtl_id receiver, vr_mtl_selector message, void *given) {
    (void)message;
    struct commands *commands = receiver;
    const struct vr_mtl_block *block = given;
    if (fake_metal_is(commands, FAKE_COMMANDS) && !commands->committed &&
        block->descriptor->size == sizeof *block) {
        struct handler *handler = malloc(sizeof *handler);
        *handler = (struct handler){commands->handlers, *block};
        commands->handlers = handler;
    } else {
        fake_metal_breach("a handler came too late");
    }
}

void fake_metal_commit(vr_mtl_id receiver, vr_mtl_selector message) {
    (void)message;
    struct commands *commands = receiver;
    if (!fake_metal_is(commands, FAKE_COMMANDS) || commands->committed || commands->encoding) {
        fake_metal_breach("a command buffer was committed twice, or while an encoder was open");
        return;
    }
    fake_metal_keep(commands);
    struct queue *queue = commands->queue;
    pthread_mutex_lock(&fake_metal_lock);
    commands->committed = true;
    commands->code = fake_metal_commit_code();
    commands->next = NULL;
    *queue->last = commands;
    queue->last = &commands->next;
    bool start = !queue->running;
    queue->running = true;
    queue->object.refs += start;
    pthread_mutex_unlock(&fake_metal_lock);
    if (start) {
        start_thread(run_queue, queue);
    }
}

vr_mtl_id fake_metal_buffer_error(vr_mtl_id receiver, vr_mtl_selector message) {
    (void)message;
    return fake_metal_is(receiver, FAKE_COMMANDS) ? ((struct commands *)receiver)->error : NULL;
}
