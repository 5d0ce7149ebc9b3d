/* SPDX-License-Identifier: Apache-2.0 */
/* cases_error.c: the error record. That every failing call leaves one is looked at in all cases. */
#include "case.h"

#include <string.h>

static bool is_clear(const vram_error *error) {
    return error->status == VRAM_OK && error->backend[0] == 0 && error->operation[0] == 0 &&
           error->native_code == 0 && error->text[0] == 0;
}

/* Texts are shown to people and written to logs: one line, terminated, never empty. */
static bool record(struct check *check) {
    struct check_device *device;
    vram_addr addr = CHECK_CANARY;

    CHECK_OPEN(check, &device);
    vram_error_clear();
    CHECK_THAT(check, is_clear(vram_error_get()));
    CHECK_STATUS(check, vram_device_alloc(device->device, 0, VRAM_MEMORY_DEVICE, &addr),
                 VRAM_ERR_INVALID);
    const vram_error *error = vram_error_get();
    CHECK_THAT(check, strstr(error->operation, "alloc") != NULL);
    CHECK_THAT(check, error->backend != NULL && error->text[0] != 0);
    CHECK_THAT(check, strchr(error->text, '\n') == NULL);
    CHECK_THAT(check, memchr(error->text, 0, sizeof error->text) != NULL);
    vram_error_clear();
    CHECK_THAT(check, is_clear(vram_error_get()));
    return true;
}

/* Programs check late; what they find must still be the failure. */
static bool success_leaves_it(struct check *check) {
    struct check_device *device;
    vram_queue *queue;
    struct check_buffer buffer;

    CHECK_OPEN(check, &device);
    CHECK_STATUS(check, vram_device_free(device->device, 77), VRAM_ERR_INVALID);
    vram_error before = *vram_error_get();
    CHECK_QUEUE(check, device, &queue);
    CHECK_BUFFER(check, device, queue, 5000, &buffer);
    CHECK_VERIFY(check, &buffer);
    CHECK_FREE(check, device, buffer.addr);
    const vram_error *after = vram_error_get();
    CHECK_THAT(check, after->status == before.status && strcmp(after->text, before.text) == 0);
    CHECK_THAT(check, strcmp(after->operation, before.operation) == 0);
    return true;
}

/* The same for a whole life from a clear record: nothing that succeeds may set it. */
static bool clear_stays_clear(struct check *check) {
    vram_context *context;
    struct check_device *device;
    vram_queue *queue;
    struct check_buffer buffer;
    vram_point point;

    vram_error_clear();
    CHECK_CONTEXT(check, NULL, NULL, &context);
    CHECK_OPEN_OF(check, context, check->target->device, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_BUFFER(check, device, queue, 100000, &buffer);
    CHECK_OK(check, vram_queue_mark(queue, &point));
    CHECK_OK(check, vram_point_wait(point, CHECK_DEADLINE_NS));
    CHECK_VERIFY(check, &buffer);
    CHECK_THAT(check, is_clear(vram_error_get()));
    vram_queue_destroy(queue);
    check_close(device);
    check_context_end(check, context);
    /* Destroying returns no status: the record is where a fault on the way would show. */
    CHECK_OK(check, vram_error_get()->status);
    return true;
}

static bool in_thread(struct check *check, void *argument) {
    vram_status status = *(vram_status *)argument;
    CHECK_THAT(check, is_clear(vram_error_get())); /* fresh on every thread */
    for (uint32_t i = 0; i < 100; i++) {
        if (status == VRAM_ERR_INVALID) {
            CHECK_STATUS(check, vram_size_parse("none", &(uint64_t){0}), VRAM_ERR_INVALID);
        } else {
            CHECK_STATUS(check, vram_size_parse("99999999999999999999", &(uint64_t){0}),
                         VRAM_ERR_OVERFLOW);
        }
        CHECK_THAT(check, vram_error_get()->status == status);
    }
    return true;
}

/* Four threads fail in two ways at once, and the thread that waits for them keeps its own. */
static bool per_thread(struct check *check) {
    vram_status statuses[] = {VRAM_ERR_INVALID, VRAM_ERR_OVERFLOW, VRAM_ERR_INVALID,
                              VRAM_ERR_OVERFLOW};
    uint32_t index;

    CHECK_STATUS(check, vram_device_best(NULL, &index), VRAM_ERR_INVALID);
    vram_error before = *vram_error_get();
    CHECK_TRY(check_threads(check, 4, in_thread, statuses, sizeof statuses[0]));
    CHECK_THAT(check, strcmp(vram_error_get()->text, before.text) == 0);
    CHECK_THAT(check, vram_error_get()->status == before.status);
    return true;
}

const struct check_case check_cases_error[] = {
    {"error.record", "a failure leaves status, call and one line of text; clearing undoes it",
     record},
    {"error.success_leaves_it", "calls that succeed leave the last failure's record alone",
     success_leaves_it},
    {"error.clear_stays_clear", "a whole life without failure sets no error record",
     clear_stays_clear},
    {"error.per_thread", "each thread has a record of its own", per_thread},
    {NULL, NULL, NULL},
};
