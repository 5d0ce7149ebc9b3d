/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_run_before.c: what was in use before a program starts, by NVML: libraries without some of
 * its functions, calls that fail, and identities that are none.
 */
#include "rig/rig.h"
#include "run/run_before.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------- a library of NVML */

static const char *without;     /* the function that it does not have; NULL: it has all */
static bool is_there = true;    /* the library itself */
static const char *failing;     /* the function that fails; NULL: none */
static const char *identity;    /* of every device */
static unsigned devices;        /* how many */
static bool has_threads = true; /* more can be started */

static int answer(const char *name) {
    return failing != NULL && strcmp(failing, name) == 0 ? 999 : 0;
}

static int own_init(void) {
    return answer("nvmlInit_v2");
}
static int own_shutdown(void) {
    return 0;
}
static int own_count(unsigned *count) {
    *count = devices;
    return answer("nvmlDeviceGetCount_v2");
}
static int own_device(unsigned index, void **device) {
    *device = (void *)(uintptr_t)(index + 1);
    return answer("nvmlDeviceGetHandleByIndex_v2");
}
static int own_uuid(void *device, char *text, unsigned bytes) {
    (void)device;
    snprintf(text, bytes, "%s", identity);
    return answer("nvmlDeviceGetUUID");
}
static int own_memory(void *device, unsigned long long *memory) {
    memory[2] = 1000 * (unsigned long long)(uintptr_t)device;
    return answer("nvmlDeviceGetMemoryInfo");
}

void *__wrap_dlopen(const char *path, int flags);
void *__wrap_dlopen(const char *path, int flags) {
    (void)path, (void)flags;
    return is_there ? &devices : NULL;
}
int __wrap_dlclose(void *library);
int __wrap_dlclose(void *library) {
    assert_ptr_equal(library, &devices);
    return 0;
}
void *__wrap_dlsym(void *library, const char *name);
void *__wrap_dlsym(void *library, const char *name) {
    static const struct {
        const char *name;
        void (*function)(void);
    } all[] = {{"nvmlInit_v2", (void (*)(void))own_init},
               {"nvmlShutdown", (void (*)(void))own_shutdown},
               {"nvmlDeviceGetCount_v2", (void (*)(void))own_count},
               {"nvmlDeviceGetHandleByIndex_v2", (void (*)(void))own_device},
               {"nvmlDeviceGetUUID", (void (*)(void))own_uuid},
               {"nvmlDeviceGetMemoryInfo", (void (*)(void))own_memory}};
    void *found = NULL;
    (void)library;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (strcmp(all[i].name, name) == 0 && (without == NULL || strcmp(without, name) != 0)) {
            memcpy(&found, &all[i].function, sizeof found);
        }
    }
    return found;
}

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *user);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *user);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *user) {
    return has_threads ? __real_pthread_create(thread, attributes, run, user) : 11;
}

/* ------------------------------------------------------------------------- tests */

#define GOOD "GPU-01020304-0506-0708-090a-0b0c0d0e0f10"

static struct run_page page;

/* Bytes that were in use on the first device, and 1; 0: unknown. */
static uint64_t first_used(void) {
    memset(&page, 0, sizeof page);
    run_before_read(&page);
    return page.settings.before[0].used;
}

TEST(figures_are_taken) {
    has_threads = false;
    assert_int_equal(first_used(), 0);
    has_threads = true;
    identity = GOOD;
    devices = RUN_DEVICES + 4; /* more than a page has room for */
    assert_int_equal(first_used(), 1001);
    assert_int_equal(page.settings.before[0].uuid[0], 1);
    assert_int_equal(page.settings.before[0].uuid[15], 16);
    assert_int_equal(page.settings.before[RUN_DEVICES - 1].used, 1000 * RUN_DEVICES + 1);
}

TEST(no_figures_are_invented) {
    static const char *const names[] = {
        "nvmlInit_v2",           "nvmlShutdown",      "nvmlDeviceGetHandleByIndex_v2",
        "nvmlDeviceGetCount_v2", "nvmlDeviceGetUUID", "nvmlDeviceGetMemoryInfo"};
    identity = GOOD;
    devices = 1;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        without = names[i];
        assert_int_equal(first_used(), 0);
        without = NULL;
        failing = i == 1 ? NULL : names[i]; /* nobody asks how the end went */
        assert_int_equal(first_used(), i == 1 ? 1001 : 0);
        failing = NULL;
    }
    is_there = false;
    assert_int_equal(first_used(), 0);
    is_there = true;
}

TEST(identities_are_checked) {
    static const char *const bad[] = {"",
                                      "GPU-",
                                      "GPU-0102",
                                      "GPU-zz020304-0506-0708-090a-0b0c0d0e0f10",
                                      "GPU-01020304-0506-0708-090a-0b0c0d0e0f1",
                                      "0",
                                      "-"};
    devices = 1;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        identity = bad[i];
        assert_int_equal(first_used(), 0);
    }
    identity = "0102030405060708090a0b0c0d0e0f10"; /* digits alone */
    assert_int_equal(first_used(), 1001);
    assert_int_equal(page.settings.before[0].uuid[15], 16);
}

static int begin_file(void) {
    (void)setenv("VRAM_NVML_LIBRARY", "libnvidia-ml.so.1", 1);
    return 0;
}
WHOLE_FILE(begin_file, NULL)
