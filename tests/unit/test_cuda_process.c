/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cuda_process.c: the driver and the life of the process. At exit no driver is called any
 * more, whatever is still alive, and a forked child never calls the parent's. The fake driver
 * writes calls that break this into a journal, which outlives the process that made them.
 *
 * This program itself never loads the driver: its children do, each in a fresh state.
 */
#include "unit/child.h"

#include "fake/fake_cuda.h"
#include "vram/vram.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GRANULE (UINT64_C(2) << 20)

static char journal[256];

/* Everything that may be alive when a process ends. */
struct alive {
    vram_context *context;
    vram_device *device;
    vram_queue *queue;
    vram_addr addr, pinned;
    vram_point point;
};

static bool make_alive(struct alive *alive) {
    static unsigned char bytes[4096];
    uint32_t index = 0;
    const vram_context_options options = {.size = sizeof options, .backends = "cuda"};
    return vram_context_create(&options, &alive->context) == VRAM_OK &&
           vram_device_best(alive->context, &index) == VRAM_OK &&
           vram_device_open(alive->context, index, &alive->device) == VRAM_OK &&
           vram_queue_create(alive->device, NULL, &alive->queue) == VRAM_OK &&
           vram_device_alloc(alive->device, GRANULE, VRAM_MEMORY_DEVICE, &alive->addr) == VRAM_OK &&
           vram_device_alloc(alive->device, 4096, VRAM_MEMORY_PINNED, &alive->pinned) == VRAM_OK &&
           vram_queue_upload(alive->queue, alive->addr, bytes, sizeof bytes) == VRAM_OK &&
           vram_queue_mark(alive->queue, &alive->point) == VRAM_OK;
}

/* What the journal holds, or "" when nothing was written. */
static const char *journal_text(void) {
    static char text[4096];
    size_t bytes = 0;
    FILE *file = fopen(journal, "rb");
    if (file) {
        bytes = fread(text, 1, sizeof text - 1, file);
        fclose(file);
    }
    text[bytes] = 0;
    return text;
}

static int new_journal(void **state) {
    const char *folder = getenv("TMPDIR");
    (void)state;
    snprintf(journal, sizeof journal, "%s/fake_cuda_journal_XXXXXX",
             folder && *folder ? folder : "/tmp");
    int file = mkstemp(journal);
    if (file < 0 || close(file) != 0 || setenv("FAKE_CUDA_JOURNAL", journal, 1) != 0) {
        return 1;
    }
    return setenv("VRAM_CUDA_LIBRARY", FAKE_CUDA_PATH, 1);
}

static int end_journal(void **state) {
    (void)state;
    return unlink(journal);
}

/* --------------------------------------------------------------------- exit */

static struct alive late;

/* Runs behind the library's own exit handler, as an application's static destructor would. */
static void free_late(void) {
    vram_device_free(late.device, late.addr);
    vram_queue_destroy(late.queue);
    vram_context_destroy(late.context);
}

static int exit_with_everything_alive(void *argument) {
    (void)argument;
    if (atexit(free_late) != 0 || !make_alive(&late)) {
        return 1;
    }
    exit(42);
}

static void no_driver_is_called_at_exit(void **state) {
    (void)state;
    assert_int_equal(in_child(exit_with_everything_alive, NULL), 42);
    assert_string_equal(journal_text(), "");
}

static vr_cu_result (*call_late)(unsigned);

static void break_the_rule(void) {
    call_late(0);
}

/* The journal itself: a call that comes too late is in it, or the test above proves nothing. */
static int exit_with_a_late_call(void *argument) {
    (void)argument;
    void *library = dlopen(FAKE_CUDA_PATH, RTLD_NOW | RTLD_LOCAL);
    void *found = library ? dlsym(library, "cuInit") : NULL;
    memcpy(&call_late, &found, sizeof call_late);
    if (!found || atexit(break_the_rule) != 0 || !make_alive(&late)) {
        return 1;
    }
    exit(43);
}

static void late_calls_are_in_the_journal(void **state) {
    (void)state;
    assert_int_equal(in_child(exit_with_a_late_call, NULL), 43);
    assert_string_equal(journal_text(), "exit cuInit\n");
}

/* --------------------------------------------------------------------- fork */

static int use_the_parents(void *argument) {
    struct alive *alive = argument;
    vram_addr addr;
    vram_queue *queue;
    bool refused =
        vram_device_alloc(alive->device, GRANULE, VRAM_MEMORY_DEVICE, &addr) == VRAM_ERR_FORKED &&
        vram_device_free(alive->device, alive->addr) == VRAM_ERR_FORKED &&
        vram_queue_create(alive->device, NULL, &queue) == VRAM_ERR_FORKED &&
        vram_queue_wait(alive->queue, 0) == VRAM_ERR_FORKED;
    vram_queue_destroy(alive->queue);
    vram_device_close(alive->device);
    vram_context_destroy(alive->context);
    return refused ? 0 : 1;
}

static int fork_with_everything_alive(void *argument) {
    struct alive alive;
    (void)argument;
    if (!make_alive(&alive)) {
        return 1;
    }
    pid_t child = fork();
    if (child == 0) {
        alarm(CHILD_SECONDS);
        exit(use_the_parents(&alive));
    }
    int code = child_end(child);
    bool whole = vram_point_wait(alive.point, VRAM_TIMEOUT_DEFAULT) == VRAM_OK &&
                 vram_device_free(alive.device, alive.addr) == VRAM_OK;
    vram_context_destroy(alive.context);
    return code == 0 && whole ? 44 : 2;
}

static void no_driver_is_called_in_a_child(void **state) {
    (void)state;
    assert_int_equal(in_child(fork_with_everything_alive, NULL), 44);
    assert_string_equal(journal_text(), "");
}

/* ----------------------------------------------------------------- contexts */

/* What a context says of a machine without a driver; the other backends are there all the same. */
static int look_for_the_driver(void *argument) {
    vram_context *context;
    vram_backend_info info = {.size = sizeof info};
    (void)argument;
    unsetenv("VRAM_CUDA_LIBRARY");
    if (vram_context_create(NULL, &context) != VRAM_OK ||
        vram_backend_info_get(context, 0, &info) != VRAM_OK || vram_device_count(context) == 0) {
        return 1;
    }
    bool told = !info.present && strcmp(info.name, "cuda") == 0 && info.device_count == 0 &&
                strcmp(info.reason, "libcuda.so.1 not found: install the NVIDIA driver") == 0;
    vram_context_destroy(context);
    return told ? 46 : 2;
}

/* Only where there is no real driver, as on the machines that run the tests. Asked here and not in
   test_cuda.c: a process that has loaded the fake would find that one by its name. */
static void a_missing_driver_names_the_mend(void **state) {
    (void)state;
    void *real = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (real) {
        dlclose(real);
        skip();
    }
    assert_int_equal(in_child(look_for_the_driver, NULL), 46);
}

static int many_contexts(void *argument) {
    (void)argument;
    for (int i = 0; i < 20; i++) {
        struct alive alive;
        if (!make_alive(&alive)) {
            return 1;
        }
        vram_context_destroy(alive.context);
    }
    void *library = dlopen(FAKE_CUDA_PATH, RTLD_NOW | RTLD_LOCAL);
    void *found = library ? dlsym(library, "fake_cuda_control") : NULL;
    const struct fake_cuda_control *(*get)(void) = NULL;
    struct fake_cuda_live live;
    memcpy(&get, &found, sizeof get);
    get()->live(&live);
    return live.total || get()->violations(NULL) ? 2 : 45;
}

static void contexts_come_and_go(void **state) {
    (void)state;
    assert_int_equal(in_child(many_contexts, NULL), 45);
}

#define HERE(test) cmocka_unit_test_setup_teardown(test, new_journal, end_journal)

int main(void) {
    const struct CMUnitTest tests[] = {
        HERE(no_driver_is_called_at_exit),     HERE(late_calls_are_in_the_journal),
        HERE(no_driver_is_called_in_a_child),  HERE(contexts_come_and_go),
        HERE(a_missing_driver_names_the_mend),
    };
    return cmocka_run_group_tests_name("cuda_process", tests, NULL, NULL);
}
