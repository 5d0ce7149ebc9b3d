/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cases_log.c: the library is silent unless asked.
 *
 * Silence is shown by putting a file in the place of standard error while calls fail. Messages that
 * others write meanwhile would be mistaken for the library's, so this is a short while.
 */
#include "case.h"
#include "environment.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Does things that a talkative library would comment on. */
static void provoke(struct check *check, struct check_device *device) {
    vram_addr addr;
    vram_device_alloc(device->device, 0, VRAM_MEMORY_DEVICE, &addr);
    vram_device_alloc(device->device, UINT64_MAX, VRAM_MEMORY_DEVICE, &addr);
    vram_device_free(device->device, 12345);
    vram_queue_wait(NULL, 0);
    vram_context_destroy((vram_context *)(uintptr_t)4096);
    vram_device_info_get(check->context, UINT32_MAX, NULL);
}

static bool silent(struct check *check) {
    struct check_device *device;
    const char *asked = environment_get("VRAM_LOG");
    char found[64] = "";

    CHECK_OPEN(check, &device);
    if ((asked != NULL && asked[0] != 0) || environment_get("VRAM_CONF") != NULL) {
        return check_skip(check, "the environment may ask for messages (VRAM_LOG, VRAM_CONF)");
    }
    FILE *file = tmpfile();
    int kept = dup(STDERR_FILENO);
    if (file == NULL || kept < 0 || dup2(fileno(file), STDERR_FILENO) < 0) {
        if (file != NULL) {
            fclose(file);
        }
        close(kept);
        return check_skip(check, "standard error cannot be looked at here");
    }
    vram_log_set(NULL, NULL, VRAM_LOG_OFF);
    provoke(check, device);
    dup2(kept, STDERR_FILENO);
    close(kept);
    long length = lseek(fileno(file), 0, SEEK_END);
    lseek(fileno(file), 0, SEEK_SET);
    ssize_t got = read(fileno(file), found, sizeof found - 1);
    fclose(file);
    if (length != 0 || got != 0) {
        return check_fail(check, CHECK_AT("standard error"), "%ld bytes written: \"%.40s\"", length,
                          found);
    }
    return true;
}

/* What the callback has seen. */
struct log_probe {
    struct check *check;
    vram_device *device;
    atomic_uint messages, bad;
    vram_log_level limit;
};

static void log_probe_receive(void *user, vram_log_level level, const char *text) {
    struct log_probe *seen = user;
    vram_memory_info info = {.size = sizeof info};

    atomic_fetch_add(&seen->messages, 1);
    if (level <= VRAM_LOG_OFF || level > seen->limit || text == NULL ||
        strchr(text, '\n') != NULL) {
        atomic_fetch_add(&seen->bad, 1);
    }
    /* No lock of the library is held here: calling it must neither hang nor nest. */
    vram_memory_info_get(seen->device, &info);
    vram_device_count(seen->check->context);
}

/* At debug level each allocation and each free of a pool is a message. */
static bool pool_is_logged(struct check *check, struct check_device *device, vram_queue *queue,
                           struct log_probe *seen) {
    vram_pool *pool;
    vram_addr addr;
    CHECK_OK(check, vram_pool_create(device->device, NULL, &pool));
    unsigned before = atomic_load(&seen->messages);
    CHECK_OK(check, vram_alloc(pool, 3000, queue, &addr));
    unsigned between = atomic_load(&seen->messages);
    CHECK_OK(check, vram_free(addr, queue));
    unsigned after = atomic_load(&seen->messages);
    /* A block whose record found no memory is not logged. */
    CHECK_THAT(check, (between > before && after > between) || check->target->faulty);
    CHECK_OK(check, vram_pool_destroy(pool));
    return true;
}

/* How much else is logged is nobody's promise; what is logged, and until when, is. */
static bool callback(struct check *check) {
    struct check_device *device;
    struct log_probe seen = {.check = check, .limit = VRAM_LOG_DEBUG};
    vram_context *context;
    vram_queue *queue;

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    device->unledgered = true; /* what a pool takes is its own affair */
    seen.device = device->device;
    vram_log_set(log_probe_receive, &seen, VRAM_LOG_DEBUG);
    provoke(check, device);
    bool logged = true;
    if (check_pools()) {
        logged = pool_is_logged(check, device, queue, &seen);
    }
    vram_status status = vram_context_create(check->target->options, &context);
    bool made = check_ok(check, status, CHECK_AT("vram_context_create"));
    if (made) {
        vram_context_destroy(context);
    }
    vram_log_set(log_probe_receive, &seen, VRAM_LOG_OFF);
    unsigned before = atomic_load(&seen.messages);
    provoke(check, device);
    vram_log_set(NULL, NULL, VRAM_LOG_OFF);
    CHECK_TRY(logged && made);
    CHECK_EQUAL(check, atomic_load(&seen.bad), 0);
    CHECK_EQUAL(check, atomic_load(&seen.messages), before);
    return true;
}

const struct check_case check_cases_log[] = {
    {"log.silent", "nothing is written to standard error unless it was asked for", silent},
    {"log.callback", "messages are single lines at or below their level, and end when told to",
     callback},
    {NULL, NULL, NULL},
};
