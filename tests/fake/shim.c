/* SPDX-License-Identifier: Apache-2.0 */
/* shim.c: the plan of the shim, and the way to the real driver; see shim.h. */
#include "fake/shim.h"

#include "fake/strike.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct strike strike;
static struct {
    unsigned entry;
    vr_cu_result code;
} always[4]; /* calls that are refused beside the plan */
static unsigned always_count;
static const char *names[STRIKE_CALLS_MAX];
static void *driver;
static _Atomic uint64_t spent[STRIKE_CALLS_MAX], forwarded[STRIKE_CALLS_MAX]; /* ns, calls */

/* Versioned names first; the real driver is not under the shim's own name, so it is not found. */
static void *driver_open(void) {
    static const char *const cuda[] = {"libcuda.so.1", NULL};
    static const char *const hip[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5",
                                      NULL};
    const char *path = getenv("SHIM_DRIVER");
    const char *const *name = strcmp(shim_driver, "hip") == 0 ? hip : cuda;
    void *found = path && *path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    for (; !(path && *path) && !found && *name; name++) {
        found = dlopen(*name, RTLD_NOW | RTLD_LOCAL);
    }
    return found;
}

static void wake_up(void) {
    for (unsigned i = 0; i < shim_entry_count; i++) {
        names[i] = shim_entries[i].name;
    }
    strike.names = names;
    strike.count = shim_entry_count;
    strike_set(&strike, NULL, 0, 0, 0, false);
    strike_set_text(&strike, getenv("SHIM_FAIL"));
    driver = driver_open();
}

static void report(const char *name) {
    const char *path = getenv("SHIM_REPORT");
    int file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    if (file >= 0) {
        char line[96];
        size_t bytes = strlen(name);
        memcpy(line, name, bytes);
        line[bytes] = '\n';
        if (write(file, line, bytes + 1) < 0) {
            unlink(path); /* half a report is none */
        }
        close(file);
    }
}

bool shim_strike(unsigned entry, vr_cu_result *answer) {
    pthread_once(&once, wake_up);
    pthread_mutex_lock(&lock);
    bool struck = strike_now(&strike, entry);
    bool refused = false;
    *answer = strike.code;
    for (unsigned i = 0; i < always_count && !struck && !refused; i++) {
        refused = always[i].entry == entry;
        *answer = always[i].code;
    }
    pthread_mutex_unlock(&lock);
    if (struck) {
        report(shim_entries[entry].name);
    }
    return struck || refused;
}

void *shim_real(unsigned entry, unsigned symbol) {
    return driver ? dlsym(driver, shim_entries[entry].symbols[symbol]) : NULL;
}

/* --------------------------------------------------------------------- time */

uint64_t shim_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

void shim_note(unsigned entry, uint64_t begin) {
    atomic_fetch_add_explicit(&spent[entry], shim_now() - begin, memory_order_relaxed);
    atomic_fetch_add_explicit(&forwarded[entry], 1, memory_order_relaxed);
}

uint64_t shim_spent(const char *name, uint64_t *calls) {
    unsigned entry = 0;
    while (entry < shim_entry_count && strcmp(shim_entries[entry].name, name) != 0) {
        entry++;
    }
    bool known = entry < shim_entry_count;
    if (calls) {
        *calls = known ? forwarded[entry] : 0;
    }
    return known ? spent[entry] : 0;
}

/* ------------------------------------------------------------------ control */

static void control_refuse(const char *name, uint64_t nth, vr_cu_result code, bool for_ever) {
    pthread_mutex_lock(&lock);
    strike_set(&strike, name, nth, code, 0, for_ever);
    pthread_mutex_unlock(&lock);
}

static void control_always(const char *name, vr_cu_result code) {
    pthread_mutex_lock(&lock);
    if (!name) {
        always_count = 0;
    } else if (always_count < sizeof always / sizeof always[0]) {
        always[always_count].entry = strike_call(&strike, name);
        always[always_count++].code = code;
    }
    pthread_mutex_unlock(&lock);
}

static uint64_t control_struck(void) {
    pthread_mutex_lock(&lock);
    uint64_t struck = strike.struck;
    pthread_mutex_unlock(&lock);
    return struck;
}

static const char *control_last_call(void) {
    return strike.last;
}

static uint64_t control_calls(const char *name) {
    pthread_mutex_lock(&lock);
    unsigned call = strike_call(&strike, name);
    uint64_t calls = call == strike.count ? strike.total : strike.counts[call];
    pthread_mutex_unlock(&lock);
    return calls;
}

const struct shim_control *shim_control(void) {
    static const struct shim_control control = {.refuse = control_refuse,
                                                .always = control_always,
                                                .struck = control_struck,
                                                .last_call = control_last_call,
                                                .calls = control_calls};
    pthread_once(&once, wake_up);
    return &control;
}
