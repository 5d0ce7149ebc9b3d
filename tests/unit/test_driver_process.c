/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_driver_process.c: a driver and the life of the process: exit with work outstanding, and a
 * fork with an open context, whose child is told so without a call of the driver and whose parent
 * goes on. The same file is built for each backend. The tests' own drivers end a process that calls
 * them when it must not (STRIKE_TRAP), or write that into a journal, which outlives the process.
 *
 * This program itself never loads the driver: its children do, each in a fresh state.
 */
#include "unit/child.h"

#include "vram/vram.h"

#include <dlfcn.h>
#include <string.h>

enum { QUEUES = 3, BYTES = WORK_BYTES, ROUNDS = 10, LOADS = 10, PART = BYTES / QUEUES / 4 * 4 };

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

/* ----------------------------------------------------------------------- journal */

static char journal[256];

static int journal_begin(void) {
#ifdef JOURNAL
    snprintf(journal, sizeof journal, "/tmp/vram_journal_XXXXXX");
    int file = mkstemp(journal);
    return file < 0 || close(file) != 0 || setenv(JOURNAL, journal, 1) != 0;
#else
    return 0;
#endif
}

static const char *journal_text(void) {
    static char text[4096];
    FILE *file = *journal ? fopen(journal, "rb") : NULL;
    size_t bytes = file ? fread(text, 1, sizeof text - 1, file) : 0;
    text[bytes] = 0;
    if (file) {
        fclose(file);
    }
    return text;
}

static int journal_end(void) {
    return *journal ? unlink(journal) : 0;
}

/* -------------------------------------------------------------------------- exit */

static struct alive late;

/* Runs behind the library's own exit handler, as an application's static destructor would. */
static void free_late(void) {
    vram_device_free(late.device, late.addr);
    vram_queue_destroy(late.queues[0]);
    vram_context_destroy(late.context);
}

/* The driver is not the first that the library starts. */
static int leave_with_work(void *argument) {
    const vram_context_options host = {.size = sizeof host, .backends = "host"};
    vram_context *before;
    (void)argument;
    if (vram_context_create(&host, &before) != VRAM_OK || atexit(free_late) != 0 ||
        !make_alive(&late)) {
        return 1;
    }
    exit(42); /* not child_leave: the handlers of an exit are what is tested */
}

TEST(no_driver_is_called_at_exit) {
#if defined(__SANITIZE_ADDRESS__)
    skip(); /* what a process has at its exit is a leak to the sanitizer, and the point here */
#endif
    for (int i = 0; i < 8; i++) {
        assert_int_equal(in_child(leave_with_work, NULL), 42);
    }
    assert_string_equal(journal_text(), "");
}

#ifdef JOURNAL
static int (*call_late)(unsigned);

static void break_the_rule(void) {
    call_late(0);
}

/* The journal itself: a call that comes too late is in it, or the test above proves nothing. */
static int leave_with_a_call(void *argument) {
    (void)argument;
    void *library = dlopen(DRIVER, RTLD_NOW | RTLD_LOCAL);
    *(void **)&call_late = library ? dlsym(library, FIRST_CALL) : NULL;
    if (!call_late || atexit(break_the_rule) != 0 || !make_alive(&late)) {
        return 1;
    }
    exit(43);
}

TEST(late_calls_are_in_the_journal) {
    assert_int_equal(in_child(leave_with_a_call, NULL), 43);
    assert_string_equal(journal_text(), "exit " FIRST_CALL "\n");
}
#endif

/* -------------------------------------------------------------------------- fork */

static int grandchild(void *argument) {
    struct alive *alive = argument;
    unsigned char byte;
    vram_addr addr;
    vram_queue *queue;
    bool told =
        vram_device_alloc(alive->device, 4096, VRAM_MEMORY_DEVICE, &addr) == VRAM_ERR_FORKED &&
        vram_device_free(alive->device, alive->addr) == VRAM_ERR_FORKED &&
        vram_queue_create(alive->device, NULL, &queue) == VRAM_ERR_FORKED &&
        vram_queue_fill(alive->queues[0], alive->addr, 0, 1, 1) == VRAM_ERR_FORKED &&
        vram_queue_download(alive->queues[0], &byte, alive->addr, 1) == VRAM_ERR_FORKED &&
        vram_point_wait(alive->point, 0) == VRAM_ERR_FORKED;
    vram_queue_destroy(alive->queues[0]);
    vram_device_close(alive->device);
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

TEST(no_driver_is_called_in_a_child) {
    for (int i = 0; i < 4; i++) {
        assert_int_equal(in_child(fork_with_work, NULL), 0);
    }
    assert_string_equal(journal_text(), "");
}

/* ---------------------------------------------------------------- again and again */

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

/* The library uses the driver and is unloaded, with its context alive or not. */
static int load_and_unload(void *argument) {
    const vram_context_options options = {.size = sizeof options, .backends = BACKEND ",host"};
    (void)argument;
    for (int i = 0; i < LOADS; i++) {
        __typeof__(vram_context_create) *create = NULL;
        __typeof__(vram_context_destroy) *destroy = NULL;
        __typeof__(vram_device_count) *count = NULL;
        vram_context *context;
        void *library = dlopen(LIBVRAM_PATH, RTLD_NOW | RTLD_LOCAL);
        if (!library) {
            return 1;
        }
        *(void **)&create = dlsym(library, "vram_context_create");
        *(void **)&destroy = dlsym(library, "vram_context_destroy");
        *(void **)&count = dlsym(library, "vram_device_count");
        if (create(&options, &context) != VRAM_OK || count(context) != 2) {
            return 2;
        }
        if (i % 2) {
            destroy(context);
        }
        if (dlclose(library) != 0) {
            return 3;
        }
    }
    return 0;
}

TEST(the_library_is_loaded_and_unloaded) {
    assert_int_equal(in_child(load_and_unload, NULL), 0);
    assert_string_equal(journal_text(), "");
}

/* -------------------------------------------------------------- without the driver */

#ifdef SONAMES
/* What a context says of a machine without a driver; the other backends are there all the same. */
static int look_for_the_driver(void *argument) {
    vram_context *context;
    vram_backend_info info = {.size = sizeof info};
    (void)argument;
    unsetenv(LIBRARY);
    if (vram_context_create(NULL, &context) != VRAM_OK || vram_device_count(context) == 0) {
        return 1;
    }
    for (uint32_t i = 0; !info.name || strcmp(info.name, BACKEND) != 0; i++) {
        if (vram_backend_info_get(context, i, &info) != VRAM_OK) {
            return 2;
        }
    }
    bool told = !info.present && info.device_count == 0 &&
                strncmp(info.reason, SONAMES ": ", strlen(SONAMES ": ")) == 0 &&
                strstr(info.reason, "; install ");
    vram_context_destroy(context);
    return told ? 0 : 3;
}

/* Only where there is no real driver, as on the machines that run the tests. */
TEST(a_missing_driver_names_the_mend) {
    char names[] = SONAMES, *rest = names;
    for (char *name; (name = strtok_r(rest, ", ", &rest)) != NULL;) {
        if (dlopen(name, RTLD_LAZY | RTLD_LOCAL)) {
            skip();
        }
    }
    assert_int_equal(in_child(look_for_the_driver, NULL), 0);
}
#endif

EACH_TEST(journal_begin, journal_end)
