/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_opencl_queue.c: queues, and the threads that run commands.
 *
 * A command is done when it is first in its queue and what it waits for has happened. In a queue
 * without order the last command is taken that no barrier or marker holds back: whoever relies on
 * order there finds out at once.
 */
#include "opencl/fake_opencl.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct vr_cl_queue *queues;
static bool held;
static int crashed;
static int at_work; /* engines that run a command or its callbacks */
static pthread_once_t engine_once = PTHREAD_ONCE_INIT;

/* The engine and those who wait for it look again this often; nobody needs to be woken. */
static void rest(void) {
    const struct timespec time = {.tv_nsec = 20000};
    nanosleep(&time, NULL);
}

/* ------------------------------------------------------------------- engine */

/* A single byte is read to see that there is memory, in no order with other queues, by a device:
   which no checker of threads would see. */
__attribute__((no_sanitize("thread"))) static void read_byte(volatile unsigned char *to,
                                                             const volatile unsigned char *from) {
    *to = *from;
}

static void perform(const struct fake_command *command) {
    if (command->kernel) {
        command->kernel(command->arguments, command->items, command->group);
    } else if (command->from && command->bytes == 1 && !command->rows) {
        read_byte((volatile unsigned char *)command->to,
                  (const volatile unsigned char *)command->from);
    } else if (command->from) {
        for (size_t row = 0; row < (command->rows ? command->rows : 1); row++) {
            memcpy(command->to + row * command->to_pitch, command->from + row * command->from_pitch,
                   command->bytes);
        }
    }
    /* The part that is filled doubles: pattern by pattern TSan would take seconds for what a case
       waits for. */
    for (size_t done = 0, next; command->pattern_bytes && done < command->bytes; done += next) {
        next = done ? done : command->pattern_bytes;
        next = next < command->bytes - done ? next : command->bytes - done;
        memcpy(command->to + done, done ? command->to : command->pattern, next);
    }
}

static bool waits(const struct fake_command *command) {
    for (vr_cl_uint i = 0; i < command->wait_count; i++) {
        if (command->waits[i]->status > 0) {
            return true;
        }
    }
    return false;
}

/* The place of the command to run next; NULL: none can be. */
static struct fake_command **choose(struct vr_cl_queue *queue) {
    struct fake_command **chosen = NULL;
    bool unordered = (queue->props & VR_CL_QUEUE_OUT_OF_ORDER) != 0;
    if (queue->running) {
        return NULL;
    }
    for (struct fake_command **at = &queue->commands; *at; at = &(*at)->next) {
        bool first = at == &queue->commands, fence = (*at)->barrier || (*at)->marker;
        if (!waits(*at) && (first || (unordered && !fence))) {
            chosen = at;
        }
        if (!unordered || (*at)->barrier) {
            break;
        }
    }
    return chosen;
}

static void command_end(struct fake_command *command) {
    for (vr_cl_uint i = 0; i < command->wait_count; i++) {
        fake_event_drop(command->waits[i]);
    }
    for (int i = 0; i < 2; i++) {
        if (command->memories[i]) {
            fake_memory_drop(command->memories[i]);
        }
    }
    for (int i = 0; command->kernel && i < FAKE_ARGUMENTS; i++) {
        if (command->arguments[i].memory) {
            fake_memory_drop(command->arguments[i].memory);
        }
    }
    if (command->event) {
        fake_event_drop(command->event);
    }
    free(command);
}

/* Commands hold their queue: one that was released goes when they are done. */
static void queue_drop(struct vr_cl_queue *queue) {
    if (!fake_drop(queue, 'q')) {
        return;
    }
    struct vr_cl_queue **at = &queues;
    while (*at != queue) {
        at = &(*at)->next;
    }
    *at = queue->next;
    fake_context_drop(queue->context);
    fake_gone(queue);
}

/* Runs one command of the queue; false when there is none to run. With the lock, which it lets
   go. */
static bool step(struct vr_cl_queue *queue) {
    struct fake_command **at = held ? NULL : choose(queue);
    struct fake_callback *callbacks = NULL;
    if (!at) {
        return false;
    }
    struct fake_command *command = *at;
    *at = command->next;
    queue->running = true;
    int status = crashed;
    fake_unlock();
    if (!status) {
        perform(command);
    }
    fake_lock();
    queue->running = false;
    if (command->event) {
        callbacks = fake_event_complete(command->event, status);
    }
    command_end(command);
    queue_drop(queue);
    fake_unlock();
    fake_callbacks_run(callbacks);
    fake_lock();
    return true;
}

/* After a step the list may have changed: it is begun anew. */
static bool step_any(void) {
    for (struct vr_cl_queue *queue = queues; queue; queue = queue->next) {
        if (step(queue)) {
            return true;
        }
    }
    return false;
}

static void *engine(void *unused) {
    (void)unused;
    for (;;) {
        fake_lock();
        at_work++;
        bool busy = step_any();
        at_work--;
        fake_unlock();
        if (!busy) {
            rest();
        }
    }
    return NULL;
}

/* Two, so that a command that waits for the host does not hold up the others. */
static void engine_start(void) {
    pthread_t thread;
    for (int i = 0; i < 2; i++) {
        if (pthread_create(&thread, NULL, engine, NULL) == 0) {
            pthread_detach(thread);
        }
    }
}

void fake_engine_hold(bool hold) {
    fake_lock();
    held = hold;
    fake_unlock();
}

void fake_engine_crash(int status) {
    fake_lock();
    crashed = status;
    fake_unlock();
}

/* Callbacks run without the lock: an engine inside one is at work all the same. */
void fake_engine_settle(void) {
    for (bool busy = true; busy;) {
        fake_lock();
        busy = at_work > 0;
        for (struct vr_cl_queue *queue = queues; queue && !busy; queue = queue->next) {
            busy = choose(queue) != NULL;
        }
        fake_unlock();
        if (busy) {
            rest();
        }
    }
}

/* ------------------------------------------------------------------- queues */

static struct vr_cl_queue *queue_new(struct vr_cl_context *context, vr_cl_bits props) {
    struct vr_cl_queue *queue = fake_new(sizeof *queue, 'q');
    queue->context = context;
    fake_keep(&context->head);
    queue->props = props;
    queue->next = queues;
    queues = queue;
    return queue;
}

static struct vr_cl_queue *create_queue(struct vr_cl_context *context, struct vr_cl_device *device,
                                        vr_cl_bits props, vr_cl_int *code) {
    struct vr_cl_queue *queue = NULL;
    pthread_once(&engine_once, engine_start);
    fake_lock();
    *code =
        fake_is(context, 'c') && context->device == device ? VR_CL_SUCCESS : VR_CL_INVALID_CONTEXT;
    if (*code == VR_CL_SUCCESS) {
        queue = queue_new(context, props);
    }
    fake_unlock();
    return queue;
}

static struct vr_cl_queue *create_queue_with(struct vr_cl_context *context,
                                             struct vr_cl_device *device, const vr_cl_bits *props,
                                             vr_cl_int *code) {
    if (props && props[0] == VR_CL_QUEUE_PRIORITY_KHR && !fake_settings.priorities) {
        *code = VR_CL_INVALID_QUEUE_PROPERTIES;
        return NULL;
    }
    return create_queue(context, device, 0, code);
}

/* A queue as a program would make it, in the context of `like` or in one of its own. */
struct vr_cl_queue *fake_engine_queue(struct vr_cl_queue *like, bool unordered, bool elsewhere) {
    fake_lock();
    struct vr_cl_context *context = like->context;
    if (elsewhere) {
        context = fake_new(sizeof *context, 'c');
        context->device = like->context->device;
    }
    struct vr_cl_queue *queue = queue_new(context, unordered ? VR_CL_QUEUE_OUT_OF_ORDER : 0);
    if (elsewhere) {
        fake_context_drop(context);
    }
    fake_unlock();
    return queue;
}

static vr_cl_int retain_queue(struct vr_cl_queue *queue) {
    fake_lock();
    fake_keep(&queue->head);
    fake_unlock();
    return VR_CL_SUCCESS;
}

static vr_cl_int release_queue(struct vr_cl_queue *queue) {
    fake_lock();
    if (fake_is(queue, 'q')) {
        queue_drop(queue);
    }
    fake_unlock();
    return VR_CL_SUCCESS;
}

static vr_cl_int get_queue_info(struct vr_cl_queue *queue, vr_cl_uint what, size_t bytes,
                                void *value, size_t *needed) {
    (void)needed;
    fake_lock();
    bool good = fake_is(queue, 'q');
    if (good && what == VR_CL_QUEUE_CONTEXT) {
        memcpy(value, &queue->context, bytes);
    } else if (good && what == VR_CL_QUEUE_DEVICE) {
        memcpy(value, &queue->context->device, bytes);
    } else if (good) {
        memcpy(value, &queue->props, bytes);
    }
    fake_unlock();
    return good ? VR_CL_SUCCESS : VR_CL_INVALID_COMMAND_QUEUE;
}

static vr_cl_int flush(struct vr_cl_queue *queue) {
    fake_lock();
    bool good = fake_is(queue, 'q');
    fake_unlock();
    return good ? VR_CL_SUCCESS : VR_CL_INVALID_COMMAND_QUEUE;
}

static vr_cl_int finish(struct vr_cl_queue *queue) {
    for (;;) {
        fake_lock();
        bool good = fake_is(queue, 'q'), idle = !good || (!queue->commands && !queue->running);
        fake_unlock();
        if (idle) {
            return good ? VR_CL_SUCCESS : VR_CL_INVALID_COMMAND_QUEUE;
        }
        rest();
    }
}

static bool of_context(const struct vr_cl_queue *queue, vr_cl_uint count,
                       struct vr_cl_event *const *events) {
    for (vr_cl_uint i = 0; i < count; i++) {
        if (!fake_is(events[i], 'e') || events[i]->context != queue->context) {
            return false;
        }
    }
    return true;
}

vr_cl_int fake_submit(struct vr_cl_queue *queue, struct fake_command *command, bool wait,
                      vr_cl_uint count, struct vr_cl_event *const *events,
                      struct vr_cl_event **event) {
    fake_lock();
    if (!fake_is(queue, 'q') || !of_context(queue, count, events)) {
        bool other = fake_is(queue, 'q');
        fake_unlock();
        return other ? VR_CL_INVALID_CONTEXT : VR_CL_INVALID_COMMAND_QUEUE;
    }
    struct fake_command *copy = calloc(1, sizeof *copy);
    *copy = *command;
    for (int i = 0; i < 2; i++) {
        if (copy->memories[i]) {
            fake_keep(&copy->memories[i]->head);
        }
    }
    for (vr_cl_uint i = 0; i < count; i++) {
        copy->waits[i] = events[i];
        fake_keep(&events[i]->head);
    }
    copy->wait_count = count;
    if (event) {
        copy->event = fake_event_new(queue->context, false);
        fake_keep(&copy->event->head);
        *event = copy->event;
    }
    struct fake_command **at = &queue->commands;
    while (*at) {
        at = &(*at)->next;
    }
    *at = copy;
    fake_keep(&queue->head);
    fake_unlock();
    return wait ? finish(queue) : VR_CL_SUCCESS;
}

/* ----------------------------------------------------------------- commands */

vr_cl_int fake_bytes_of(struct vr_cl_queue *queue, struct vr_cl_memory *memory, size_t offset,
                        size_t bytes, char **at) {
    vr_cl_int code = VR_CL_SUCCESS;
    fake_lock();
    if (!fake_is(memory, 'm')) {
        code = VR_CL_INVALID_MEM_OBJECT;
    } else if (memory->context != queue->context) {
        code = VR_CL_INVALID_CONTEXT;
    } else if (!fake_memory_has(memory, offset, bytes)) {
        code = VR_CL_INVALID_VALUE;
    } else if (!fake_memory_back(memory)) {
        code = VR_CL_MEM_OBJECT_ALLOCATION_FAILURE;
    } else {
        *at = fake_memory_at(memory) + offset;
    }
    fake_unlock();
    return code;
}

static vr_cl_int read_buffer(struct vr_cl_queue *queue, struct vr_cl_memory *memory,
                             vr_cl_uint wait, size_t offset, size_t bytes, void *to,
                             vr_cl_uint count, struct vr_cl_event *const *events,
                             struct vr_cl_event **event) {
    char *from = NULL;
    vr_cl_int code = fake_bytes_of(queue, memory, offset, bytes, &from);
    struct fake_command command = {.to = to, .from = from, .bytes = bytes, .memories = {memory}};
    return code ? code : fake_submit(queue, &command, wait, count, events, event);
}

static vr_cl_int write_buffer(struct vr_cl_queue *queue, struct vr_cl_memory *memory,
                              vr_cl_uint wait, size_t offset, size_t bytes, const void *from,
                              vr_cl_uint count, struct vr_cl_event *const *events,
                              struct vr_cl_event **event) {
    char *to = NULL;
    vr_cl_int code = fake_bytes_of(queue, memory, offset, bytes, &to);
    struct fake_command command = {.to = to, .from = from, .bytes = bytes, .memories = {memory}};
    return code ? code : fake_submit(queue, &command, wait, count, events, event);
}

static vr_cl_int copy_buffer(struct vr_cl_queue *queue, struct vr_cl_memory *source,
                             struct vr_cl_memory *target, size_t from_offset, size_t to_offset,
                             size_t bytes, vr_cl_uint count, struct vr_cl_event *const *events,
                             struct vr_cl_event **event) {
    char *from = NULL, *to = NULL;
    vr_cl_int code = fake_bytes_of(queue, source, from_offset, bytes, &from);
    code = code ? code : fake_bytes_of(queue, target, to_offset, bytes, &to);
    struct fake_command command = {
        .to = to, .from = from, .bytes = bytes, .memories = {source, target}};
    return code ? code : fake_submit(queue, &command, false, count, events, event);
}

static vr_cl_int fill_buffer(struct vr_cl_queue *queue, struct vr_cl_memory *memory,
                             const void *pattern, size_t pattern_bytes, size_t offset, size_t bytes,
                             vr_cl_uint count, struct vr_cl_event *const *events,
                             struct vr_cl_event **event) {
    char *to = NULL;
    vr_cl_int code = fake_bytes_of(queue, memory, offset, bytes, &to);
    struct fake_command command = {
        .to = to, .bytes = bytes, .pattern_bytes = pattern_bytes, .memories = {memory}};
    memcpy(command.pattern, pattern, pattern_bytes);
    if (!code && (offset % pattern_bytes || bytes % pattern_bytes)) {
        code = VR_CL_INVALID_VALUE;
    }
    return code ? code : fake_submit(queue, &command, false, count, events, event);
}

static vr_cl_int migrate(struct vr_cl_queue *queue, vr_cl_uint memory_count,
                         struct vr_cl_memory *const *memories, vr_cl_bits flags, vr_cl_uint count,
                         struct vr_cl_event *const *events, struct vr_cl_event **event) {
    struct fake_command command = {.memories = {memories[0]}};
    (void)memory_count, (void)flags;
    return fake_submit(queue, &command, false, count, events, event);
}

static void *map_buffer(struct vr_cl_queue *queue, struct vr_cl_memory *memory, vr_cl_uint wait,
                        vr_cl_bits flags, size_t offset, size_t bytes, vr_cl_uint count,
                        struct vr_cl_event *const *events, struct vr_cl_event **event,
                        vr_cl_int *code) {
    char *at = NULL;
    (void)wait, (void)flags, (void)count, (void)events, (void)event;
    *code = fake_bytes_of(queue, memory, offset, bytes, &at);
    return at;
}

static vr_cl_int unmap(struct vr_cl_queue *queue, struct vr_cl_memory *memory, void *mapped,
                       vr_cl_uint count, struct vr_cl_event *const *events,
                       struct vr_cl_event **event) {
    struct fake_command command = {.memories = {memory}};
    (void)mapped;
    return fake_submit(queue, &command, false, count, events, event);
}

static vr_cl_int marker(struct vr_cl_queue *queue, vr_cl_uint count,
                        struct vr_cl_event *const *events, struct vr_cl_event **event) {
    struct fake_command command = {.marker = true};
    return fake_submit(queue, &command, false, count, events, event);
}

static vr_cl_int barrier(struct vr_cl_queue *queue, vr_cl_uint count,
                         struct vr_cl_event *const *events, struct vr_cl_event **event) {
    struct fake_command command = {.barrier = true};
    return fake_submit(queue, &command, false, count, events, event);
}

static vr_cl_int svm_copy(struct vr_cl_queue *queue, vr_cl_uint wait, void *to, const void *from,
                          size_t bytes, vr_cl_uint count, struct vr_cl_event *const *events,
                          struct vr_cl_event **event) {
    struct fake_command command = {.to = to, .from = from, .bytes = bytes};
    return fake_submit(queue, &command, wait, count, events, event);
}

static vr_cl_int svm_fill(struct vr_cl_queue *queue, void *to, const void *pattern,
                          size_t pattern_bytes, size_t bytes, vr_cl_uint count,
                          struct vr_cl_event *const *events, struct vr_cl_event **event) {
    struct fake_command command = {.to = to, .bytes = bytes, .pattern_bytes = pattern_bytes};
    memcpy(command.pattern, pattern, pattern_bytes);
    return fake_submit(queue, &command, false, count, events, event);
}

static vr_cl_int svm_migrate(struct vr_cl_queue *queue, vr_cl_uint pointer_count,
                             const void **pointers, const size_t *sizes, vr_cl_bits flags,
                             vr_cl_uint count, struct vr_cl_event *const *events,
                             struct vr_cl_event **event) {
    struct fake_command command = {.to = NULL};
    (void)pointer_count, (void)pointers, (void)sizes, (void)flags;
    return fake_submit(queue, &command, false, count, events, event);
}

void fake_fill_queue_calls(struct vr_opencl_api *api) {
    api->clCreateCommandQueue = create_queue;
    api->clCreateCommandQueueWithProperties = create_queue_with;
    api->clRetainCommandQueue = retain_queue;
    api->clReleaseCommandQueue = release_queue;
    api->clGetCommandQueueInfo = get_queue_info;
    api->clFlush = flush;
    api->clFinish = finish;
    api->clEnqueueReadBuffer = read_buffer;
    api->clEnqueueWriteBuffer = write_buffer;
    api->clEnqueueCopyBuffer = copy_buffer;
    api->clEnqueueFillBuffer = fill_buffer;
    api->clEnqueueMigrateMemObjects = migrate;
    api->clEnqueueMapBuffer = map_buffer;
    api->clEnqueueUnmapMemObject = unmap;
    api->clEnqueueMarkerWithWaitList = marker;
    api->clEnqueueBarrierWithWaitList = barrier;
    api->clEnqueueSVMMemcpy = svm_copy;
    api->clEnqueueSVMMemFill = svm_fill;
    api->clEnqueueSVMMigrateMem = svm_migrate;
    fake_fill_event_calls(api);
    fake_fill_rows_calls(api);
}
