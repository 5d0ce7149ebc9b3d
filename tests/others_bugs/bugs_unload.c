/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bugs_unload.c: bugs of others when a library is closed (dlclose) while threads have used it:
 * the end of a thread then calls a function of a library that is gone. This program has no part of
 * libvram in it; it loads the shared library as a plug-in would.
 */
#include "others_bugs/bugs.h"

#include "unit/child.h"
#include "vram/vram.h"

#include <dlfcn.h>
#include <pthread.h>

static int others_bugs_begin(void) {
    return 0;
}

static int others_bugs_end(void) {
    return 0;
}

#define CALLS(X)                                                                                   \
    X(vram_context_create)                                                                         \
    X(vram_context_destroy)                                                                        \
    X(vram_device_open)                                                                            \
    X(vram_pool_create)                                                                            \
    X(vram_alloc)                                                                                  \
    X(vram_free)

struct library {
    void *handle;
#define FIELD(name) __typeof__(&name) name;
    CALLS(FIELD)
#undef FIELD
    vram_context *context;
    vram_pool *pool;
};

static void library_open(struct library *library) {
    vram_context_options options = {.size = sizeof options, .backends = "host"};
    vram_device *device;
    library->handle = dlopen(LIBVRAM_PATH, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library->handle);
#define FIND(name) *(void **)&library->name = dlsym(library->handle, #name);
    CALLS(FIND)
#undef FIND
    assert_ok(library->vram_context_create(&options, &library->context));
    assert_ok(library->vram_device_open(library->context, 0, &device));
    assert_ok(library->vram_pool_create(device, NULL, &library->pool));
}

/* Fills the thread's cache, which the thread's end has to empty. */
static void library_use(struct library *library) {
    vram_addr addr;
    for (uint64_t bytes = 1; bytes < 100000; bytes *= 3) {
        assert_ok(library->vram_alloc(library->pool, bytes, NULL, &addr));
        assert_ok(library->vram_free(addr, NULL));
    }
}

struct step {
    struct library *library;
    pthread_barrier_t used, closed;
};

static void *use_and_end_late(void *argument) {
    struct step *step = argument;
    library_use(step->library);
    pthread_barrier_wait(&step->used);
    pthread_barrier_wait(&step->closed);
    return NULL;
}

/* Threads that have used it end after it was closed. */
static void close_under_threads(struct library *library, bool destroys) {
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    struct step step = {.library = library};
    pthread_barrier_init(&step.used, NULL, THREADS + 1);
    pthread_barrier_init(&step.closed, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, use_and_end_late, &step), 0);
    }
    pthread_barrier_wait(&step.used);
    if (destroys) {
        assert_ok(library->vram_context_destroy(library->context));
    }
    assert_int_equal(dlclose(library->handle), 0);
    pthread_barrier_wait(&step.closed);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    pthread_barrier_destroy(&step.used);
    pthread_barrier_destroy(&step.closed);
}

BUG(34, threads_end_after_the_close) {
    struct library library;
    library_open(&library);
    close_under_threads(&library, true);
}

/* The same with all objects alive. */
BUG(35, closed_with_everything_alive) {
    struct library library;
    library_open(&library);
    close_under_threads(&library, false);
}

/* Closed, opened again and used by new threads while old ones still end. */
BUG(36, opened_again_and_again) {
    for (int i = 0; i < (BUGS_WATCHED ? 5 : 30); i++) {
        struct library library;
        library_open(&library);
        close_under_threads(&library, i % 2);
    }
}

/* A plug-in's thread loads it, uses it, closes it and ends. */
static void *whole_life(void *argument) {
    struct library library;
    library_open(&library);
    library_use(&library);
    assert_ok(library.vram_context_destroy(library.context));
    assert_int_equal(dlclose(library.handle), 0);
    return argument;
}

BUG(37, whole_life_in_a_thread) {
    pthread_t thread;
    for (int i = 0; i < 10; i++) {
        assert_int_equal(pthread_create(&thread, NULL, whole_life, NULL), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
}

static int keys_left(void) {
    pthread_key_t keys[2048];
    int count = 0;
    while (count < 2048 && pthread_key_create(&keys[count], NULL) == 0) {
        count++;
    }
    for (int i = 0; i < count; i++) {
        pthread_key_delete(keys[i]);
    }
    return count;
}

/* More loads than a process has keys for the ends of threads: none of them is used up. */
BUG(38, keys_are_not_used_up) {
    struct library library;
    (void)whole_life(NULL);
    int before = keys_left();
    for (int i = 0; i < 1100; i++) {
        library.handle = dlopen(LIBVRAM_PATH, RTLD_NOW | RTLD_LOCAL);
        assert_non_null(library.handle);
        assert_int_equal(dlclose(library.handle), 0);
    }
    (void)whole_life(NULL);
    assert_int_equal(keys_left(), before);
}

EACH_TEST(others_bugs_begin, others_bugs_end)
