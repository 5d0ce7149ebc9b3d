/* SPDX-License-Identifier: Apache-2.0 */
/* os_thread.c: starting, joining and detaching threads, and their numbers. */
#include "base/os/platform.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>

static pthread_key_t end_key;
static bool end_key_made;

bool vr_os_thread_end_start(void (*end)(void *value)) {
    end_key_made = pthread_key_create(&end_key, end) == 0;
    return end_key_made;
}

void vr_os_thread_end_set(void *value) {
    if (end_key_made) {
        (void)pthread_setspecific(end_key, value);
    }
}

/* Neither addresses nor the system's thread ids are unique: both are reused. */
_Thread_local uint64_t vr_os_thread_own __attribute__((tls_model("initial-exec")));

uint64_t vr_os_thread_number_first(void) {
    static vr_atomic_u64 last;
    vr_os_thread_own = vr_fetch_add(&last, 1, VR_RELAXED) + 1;
    return vr_os_thread_own;
}

static void *thread_main(void *argument) {
    struct vr_thread *thread = argument;
    vr_os_thread_name(thread->name);
    thread->run(thread->argument);
    return NULL;
}

/* Signals belong to the program. All are blocked while the thread is created; the thread inherits
   that, so no handler of the program ever runs on a thread that it does not know. */
static int thread_create(struct vr_thread *thread) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t native;
    int error = pthread_create(&native, NULL, thread_main, thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!error) {
        thread->native = (uintptr_t)native;
    }
    return error;
}

vram_status vr_os_thread_start(struct vr_thread *thread, const char *name, void (*run)(void *),
                               void *argument) {
    *thread = (struct vr_thread){.run = run, .argument = argument};
    snprintf(thread->name, sizeof thread->name, "%s", name);
    int error = vr_os_fault();
    error = error ? error : thread_create(thread);
    if (error) {
        return vr_os_error(error, "pthread_create", 0);
    }
    thread->running = true;
    return VRAM_OK;
}

void vr_os_thread_join(struct vr_thread *thread) {
    VR_UNCANCELLED;
    if (thread->running) {
        (void)pthread_join((pthread_t)thread->native, NULL);
        thread->running = false;
    }
}

void vr_os_thread_detach(struct vr_thread *thread) {
    if (thread->running) {
        (void)pthread_detach((pthread_t)thread->native);
        thread->running = false;
    }
}
