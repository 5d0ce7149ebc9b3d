/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cuda_process.c: the driver and the life of the process. At exit no driver is called any
 * more, whatever is still alive, and a forked child never calls the parent's. The fake driver
 * writes calls that break this into a journal, which outlives the process that made them.
 *
 * This program itself never loads the driver: its children do, each in a fresh state.
 */
#include "rig/rig.h"
#include "unit/child.h"

#include "fake/fake_cuda.h"
#include "vram/vram.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GRANULE (UINT64_C(2) << 20)

/* Which of the two drivers of this kind is tested. */
#ifdef WORLD_HIP
#define NAME    "hip"
#define PATH    FAKE_HIP_PATH
#define LIBRARY "VRAM_HIP_LIBRARY"
#define JOURNAL "FAKE_HIP_JOURNAL"
#define INIT    "hipInit"
#define ORDER   1 /* its place among the backends */
#define SONAMES "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"
#define TRIED   "libamdhip64.so.7, libamdhip64.so.6, libamdhip64.so.5, libamdhip64.so: "
#define MEND    "; install AMD's ROCm (this backend is not run on hardware yet)"
#else
#define NAME    "cuda"
#define PATH    FAKE_CUDA_PATH
#define LIBRARY "VRAM_CUDA_LIBRARY"
#define JOURNAL "FAKE_CUDA_JOURNAL"
#define INIT    "cuInit"
#define ORDER   0
#define SONAMES "libcuda.so.1"
#define TRIED   "libcuda.so.1: "
#define MEND    "; install the NVIDIA driver"
#endif

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
    const vram_context_options options = {.size = sizeof options, .backends = NAME};
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

static int new_journal(void) {
    const char *folder = getenv("TMPDIR");
    snprintf(journal, sizeof journal, "%s/fake_cuda_journal_XXXXXX",
             folder && *folder ? folder : "/tmp");
    int file = mkstemp(journal);
    if (file < 0 || close(file) != 0 || setenv(JOURNAL, journal, 1) != 0) {
        return 1;
    }
    return setenv(LIBRARY, PATH, 1);
}

static int end_journal(void) {
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

TEST(no_driver_is_called_at_exit) {
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
    void *library = dlopen(PATH, RTLD_NOW | RTLD_LOCAL);
    void *found = library ? dlsym(library, INIT) : NULL;
    memcpy(&call_late, &found, sizeof call_late);
    if (!found || atexit(break_the_rule) != 0 || !make_alive(&late)) {
        return 1;
    }
    exit(43);
}

TEST(late_calls_are_in_the_journal) {
    assert_int_equal(in_child(exit_with_a_late_call, NULL), 43);
    assert_string_equal(journal_text(), "exit " INIT "\n");
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
#if defined(__SANITIZE_ADDRESS__)
    /* Its allocator has locks that nobody lets go of in a child when the driver's thread had
       one. */
    if (vram_point_wait(alive.point, VRAM_TIMEOUT_DEFAULT) != VRAM_OK) {
        return 1;
    }
#endif
    pid_t child = fork();
    if (child == 0) {
        rig_no_leak_check =
            true; /* it would stop all threads, of which a forked process has none */
        alarm(CHILD_SECONDS);
        exit(use_the_parents(&alive));
    }
    int code = child_end(child);
    bool whole = vram_point_wait(alive.point, VRAM_TIMEOUT_DEFAULT) == VRAM_OK &&
                 vram_device_free(alive.device, alive.addr) == VRAM_OK;
    vram_context_destroy(alive.context);
    return code == 0 && whole ? 44 : 2;
}

TEST(no_driver_is_called_in_a_child) {
    assert_int_equal(in_child(fork_with_everything_alive, NULL), 44);
    assert_string_equal(journal_text(), "");
}

/* ----------------------------------------------------------------- contexts */

/* What a context says of a machine without a driver; the other backends are there all the same. */
static int look_for_the_driver(void *argument) {
    vram_context *context;
    vram_backend_info info = {.size = sizeof info};
    (void)argument;
    unsetenv(LIBRARY);
    if (vram_context_create(NULL, &context) != VRAM_OK ||
        vram_backend_info_get(context, ORDER, &info) != VRAM_OK ||
        vram_device_count(context) == 0) {
        return 1;
    }
    bool told = !info.present && strcmp(info.name, NAME) == 0 && info.device_count == 0 &&
                strncmp(info.reason, TRIED, strlen(TRIED)) == 0 && strstr(info.reason, MEND);
    if (!told) {
        fprintf(stderr, "%s is %s: %s\n", info.name, info.present ? "present" : "absent",
                info.reason);
    }
    vram_context_destroy(context);
    return told ? 46 : 2;
}

/* Only where there is no real driver, as on the machines that run the tests. Asked here and not in
   test_cuda.c: a process that has loaded the fake would find that one by its name. */
TEST(a_missing_driver_names_the_mend) {
    static const char *const names[] = {SONAMES};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        void *real = dlopen(names[i], RTLD_LAZY | RTLD_LOCAL);
        if (real) {
            dlclose(real);
            skip();
        }
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
    void *library = dlopen(PATH, RTLD_NOW | RTLD_LOCAL);
    void *found = library ? dlsym(library, "fake_cuda_control") : NULL;
    const struct fake_cuda_control *(*get)(void) = NULL;
    struct fake_cuda_live live;
    memcpy(&get, &found, sizeof get);
    get()->live(&live);
    return live.total || get()->violations(NULL) ? 2 : 45;
}

TEST(contexts_come_and_go) {
    assert_int_equal(in_child(many_contexts, NULL), 45);
}

/* ------------------------------------------------------------ loading, unloading */

typedef vram_status create_fn(const vram_context_options *, vram_context **);
typedef void destroy_fn(vram_context *);
typedef uint32_t count_fn(vram_context *);

/* Loads the library, uses the driver, unloads it; again and again, with the driver loaded or
   not. */
static int load_and_unload(void *argument) {
    (void)argument;
    const vram_context_options options = {.size = sizeof options, .backends = NAME ",host"};
    for (int i = 0; i < 50; i++) {
        create_fn *create = NULL;
        destroy_fn *destroy = NULL;
        count_fn *count = NULL;
        vram_context *context;
        void *library = dlopen(LIBVRAM_PATH, RTLD_NOW | RTLD_LOCAL);
        void *found[] = {library ? dlsym(library, "vram_context_create") : NULL,
                         library ? dlsym(library, "vram_context_destroy") : NULL,
                         library ? dlsym(library, "vram_device_count") : NULL};
        memcpy(&create, &found[0], sizeof create);
        memcpy(&destroy, &found[1], sizeof destroy);
        memcpy(&count, &found[2], sizeof count);
        if (!create || !destroy || !count || create(&options, &context) != VRAM_OK) {
            return 1;
        }
        if (count(context) != 2) {
            return 2;
        }
        if (i % 2) {
            destroy(context);
        }
        if (dlclose(library) != 0) {
            return 3;
        }
    }
    return 47;
}

TEST(the_library_is_loaded_and_unloaded) {
    assert_int_equal(in_child(load_and_unload, NULL), 47);
    assert_string_equal(journal_text(), "");
}

EACH_TEST(new_journal, end_journal)
