/* SPDX-License-Identifier: Apache-2.0 */
/*
 * explored_system.c: what the explored sources need of base/error.h, lock.h, memory.h and
 * os/os.h.
 * Mutexes and waits are steps of the search; memory is the scenario's.
 */
#include "explore_checker.h"
#include "explore_scenario.h"

#include "base/error.h"
#include "base/lock.h"
#include "base/memory.h"
#include "base/os/os.h"

#include <string.h>

/* ------------------------------------------------------------------ mutexes */

static CHECKER_STATE struct {
    unsigned count;
    struct {
        const void *object;
        unsigned holder; /* THREADS_MAX: none */
        struct view view;
    } mutex[MUTEXES_MAX];
} mutexes;

void mutexes_reset(void) {
    mutexes.count = 0;
}

bool mutex_is_free(unsigned mutex) {
    return mutexes.mutex[mutex].holder == THREADS_MAX;
}

static unsigned mutex_of(const void *object) {
    for (unsigned i = 0; i < mutexes.count; i++) {
        if (mutexes.mutex[i].object == object) {
            return i;
        }
    }
    if (mutexes.count == MUTEXES_MAX) {
        checker_fail("more mutexes than there is room for");
    }
    mutexes.mutex[mutexes.count].object = object;
    mutexes.mutex[mutexes.count].holder = THREADS_MAX;
    memset(&mutexes.mutex[mutexes.count].view, 0, sizeof(struct view));
    return mutexes.count++;
}

static void mutex_taken(unsigned mutex) {
    mutexes.mutex[mutex].holder = fiber_self();
    model_join(fiber_self(), &mutexes.mutex[mutex].view);
}

void vr_mutex_init(struct vr_mutex *mutex, enum vr_rank rank) {
    mutex->rank = rank;
}

void vr_mutex_destroy(struct vr_mutex *mutex) {
    (void)mutex;
}

void vr_mutex_lock(struct vr_mutex *mutex) {
    if (search_is_running()) {
        const struct step step = {.kind = STEP_LOCK, .location = mutex_of(mutex)};
        if (vr_mutex_is_held(mutex)) {
            search_violation("a thread locks a mutex that it holds");
        }
        (void)search_step(&step);
        search_note(NULL, "locks", step.location);
        mutex_taken(step.location);
    }
}

bool vr_mutex_try(struct vr_mutex *mutex) {
    if (!search_is_running()) {
        return true;
    }
    const struct step step = {.kind = STEP_TRY, .location = mutex_of(mutex)};
    bool taken = search_step(&step) == 1;
    search_note(NULL, taken ? "locks" : "refused", step.location);
    if (taken) {
        mutex_taken(step.location);
    }
    return taken;
}

void vr_mutex_unlock(struct vr_mutex *mutex) {
    if (search_is_running()) {
        unsigned at = mutex_of(mutex), self = fiber_self();
        if (mutexes.mutex[at].holder != self) {
            search_violation("a thread unlocks a mutex that it does not hold");
        }
        search_note(NULL, "unlocks", at);
        mutexes.mutex[at].holder = THREADS_MAX;
        mutexes.mutex[at].view = *model_view(self);
        model_tick(self);
    }
}

bool vr_mutex_is_held(const struct vr_mutex *mutex) {
    return !search_is_running() || mutexes.mutex[mutex_of(mutex)].holder == fiber_self();
}

unsigned vr_locks_held(void) {
    unsigned held = 0;
    for (unsigned i = 0; search_is_running() && i < mutexes.count; i++) {
        held += mutexes.mutex[i].holder == fiber_self();
    }
    return held;
}

/* In set_up, before threads could meet here. */
void vr_once(struct vr_once *once, void (*fn)(void)) {
    char zeros[sizeof once->native] = {0};
    if (memcmp(&once->native, zeros, sizeof zeros) == 0) {
        if (search_is_running()) {
            checker_fail("set_up has to do what is done once");
        }
        memset(&once->native, 1, sizeof once->native);
        fn();
    }
}

/* ------------------------------------------------------------------- memory */

bool scenario_memory_ends;

void *vr_mem_alloc(size_t count, size_t bytes, const char *operation) {
    (void)operation;
    if (scenario_memory_ends) {
        return NULL;
    }
    size_t *head = scenario_memory(128 + count * bytes);
    *head = count * bytes;
    return (char *)head + 128;
}

void vr_mem_free(void *memory) {
    if (memory) {
        shadow_freed(memory, *(size_t *)(void *)((char *)memory - 128));
    }
}

/* Whoever zeroes them does so by plain stores. */
vram_status vr_os_pages_alloc(uint64_t bytes, void **pages) {
    *pages = scenario_memory(bytes);
    shadow_plain(*pages, bytes, true);
    return VRAM_OK;
}

size_t vr_os_page_bytes(void) {
    return 4096;
}

void vr_os_pages_wipe(void *pages, uint64_t bytes) {
    (void)pages;
    (void)bytes;
}

/* ------------------------------------------------------------ threads, time */

_Thread_local uint64_t vr_os_thread_own;
_Thread_local struct vr_os_cancellation vr_os_cancellation;

uint64_t vr_os_thread_number_first(void) {
    return fiber_self() < THREADS_MAX ? fiber_self() + 1 : THREADS_MAX + 1;
}

void vr_os_pause(void) {
    explore_yield();
}

void vr_os_yield(void) {
    explore_yield();
}

void vr_os_sleep(uint64_t ns) {
    (void)ns;
    explore_yield();
}

bool vr_os_barrier_start(void) {
    return true;
}

bool vr_os_barrier(void) {
    return explore_barrier();
}

bool vr_os_thread_end_start(void (*end)(void *value)) {
    (void)end;
    return true;
}

void vr_os_thread_end_set(void *value) {
    (void)value;
}

uint64_t vr_os_process_generation(void) {
    return 1;
}

vram_status vr_os_at_fork(void (*prepare)(void), void (*parent)(void), void (*child)(void)) {
    (void)prepare;
    (void)parent;
    (void)child;
    return VRAM_OK;
}

uint64_t vr_os_now(void) {
    return 0;
}

/* -------------------------------------------------- errors and assertions */

_Thread_local const char *vr_operation_inside = "";

vram_status vr_error_set(vram_status status, const char *backend, const char *operation,
                         int64_t native_code, const char *format, ...) {
    (void)backend;
    (void)operation;
    (void)native_code;
    (void)format;
    return status;
}

void vr_error_save(vram_error *copy) {
    memset(copy, 0, sizeof *copy);
}

void vr_error_restore(const vram_error *copy) {
    (void)copy;
}

void __assert_fail(const char *text, const char *file, unsigned line, const char *function);

_Noreturn void __assert_fail(const char *text, const char *file, unsigned line,
                             const char *function) {
    (void)file;
    search_violation("%s, line %u: assertion %s", function, line, text);
}
