/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inject.c: preloaded into the command, which must survive what this does. It stands before calls
 * of the C library and of libvram that the command and libvram make.
 *
 *     INJECT=at:PLACE   the call fails that INJECT_LIST has under this name
 *     INJECT=NAME:N[*]  the N-th call of a function fails, or with * every N-th; vram: of libvram's
 *     INJECT=short:N    the N-th read or write is of half of what it was asked for
 *     INJECT=lie:WHAT   calls of libvram succeed, and their results are wrong: see inject_lies.c
 *     INJECT_CODE=CODE  errno, or what a call of libvram returns; ENOMEM and VRAM_ERR_BACKEND
 *     INJECT_LIST=FILE  "PLACE NAME" of the first call of each call stack, of libvram the third
 *     INJECT_LOG=FILE   the name of each function that was made to fail
 *
 * A process that exits while libvram still has host memory ends with exit code 23.
 */
#include "inject.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <vram/compute.h>
#include <vram/vram.h>

typedef long call_fn(long, long, long, long, long, long, long, long);

#define ROW_SYSTEM(name, way) {#name, way, NULL, 0},
#define ROW_LIBRARY(name)     {#name, GIVES_STATUS, NULL, 0},
static struct {
    const char *name;
    enum way way;
    call_fn *real;
    uint64_t made;
} calls[] = {SYSTEM_CALLS(ROW_SYSTEM) LIBRARY_CALLS(ROW_LIBRARY)};

enum { FRAMES_MAX = 24, STACKS_MAX = 1 << 16, RANGES_MAX = 8 };

static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER; /* guards what is counted */
static uint64_t made_of_library;
static struct { uint64_t hash, seen; } stacks[STACKS_MAX];

static struct { uintptr_t from, to; } ours[RANGES_MAX]; /* where the command and libvram lie */
static int our_count;

static bool active; /* in a process that is the command, until it exits */
static char wish[64];
static uint64_t wish_number;
static bool wish_every;
static const char *list_path, *log_path;
static _Thread_local bool inside;

/* ----------------------------------------------------------------------- begin */

static int find_ours(struct dl_phdr_info *object, size_t size, void *context) {
    (void)size, (void)context;
    bool wanted = object->dlpi_name[0] == '\0' || strstr(object->dlpi_name, "/libvram") != NULL;
    for (int i = 0; wanted && i < object->dlpi_phnum && our_count < RANGES_MAX; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        if (part->p_type == PT_LOAD && (part->p_flags & PF_X) != 0) {
            ours[our_count].from = object->dlpi_addr + part->p_vaddr;
            ours[our_count].to = ours[our_count].from + part->p_memsz;
            our_count++;
        }
    }
    return 0;
}

static call_fn *real_of(int number) {
    if (calls[number].real == NULL) {
        void *found = dlsym(RTLD_NEXT, calls[number].name);
        memcpy(&calls[number].real, &found, sizeof found);
    }
    return calls[number].real;
}

/* What sanitizers and the C library do after exit is not counted. */
static void end_count(void) {
    active = false;
}

__attribute__((constructor)) static void begin_count(void) {
    const char *spec = getenv("INJECT");
    list_path = getenv("INJECT_LIST"), log_path = getenv("INJECT_LOG");
    for (int i = 0; i < CALL_COUNT; i++) {
        real_of(i);
    }
    if (strncmp(program_invocation_short_name, "vram", 4) != 0 || (!spec && !list_path)) {
        return;
    }
    void *frame[1];
    backtrace(frame, 1); /* loads what it needs */
    dl_iterate_phdr(find_ours, NULL);
    const char *colon = spec ? strchr(spec, ':') : NULL;
    if (colon != NULL && (size_t)(colon - spec) < sizeof wish) {
        memcpy(wish, spec, (size_t)(colon - spec));
        wish_number = strtoull(colon + 1, NULL, 10);
        wish_every = strchr(colon, '*') != NULL;
    }
    active = atexit(end_count) == 0;
}

/* Where libvram is a library of its own, as here, its count outlives it. */
__attribute__((destructor)) static void count_host_memory(void) {
    void *found = dlsym(RTLD_DEFAULT, "vram_host_bytes");
    uint64_t (*host_bytes)(void);
    memcpy(&host_bytes, &found, sizeof found);
    if (found != NULL && getenv("INJECT") != NULL && host_bytes() > 0) {
        dprintf(2, "inject: libvram still has %llu bytes\n", (unsigned long long)host_bytes());
        _exit(23);
    }
}

/* ----------------------------------------------------------------------- count */

static void append(const char *path, const char *line) {
    int file = (int)calls[NUMBER_open].real((long)path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
                                            0600, 0, 0, 0, 0, 0);
    if (file < 0 ||
        calls[NUMBER_write].real(file, (long)line, (long)strlen(line), 0, 0, 0, 0, 0) < 0) {
        abort();
    }
    close(file);
}

/* An address within the command or libvram, the same in every process; 0 elsewhere. */
static uint64_t place_of(uintptr_t address) {
    for (int i = 0; i < our_count; i++) {
        if (address >= ours[i].from && address < ours[i].to) {
            return (uint64_t)(i + 1) << 48 | (address - ours[i].from);
        }
    }
    return 0;
}

/* A name of this call stack, of its part in the command and libvram; and how often there was it. */
static uint64_t stack_seen(uint64_t *name) {
    void *frames[FRAMES_MAX];
    int count = backtrace(frames, FRAMES_MAX);
    uint64_t hash = UINT64_C(14695981039346656037);
    for (int i = 0; i < count; i++) {
        uint64_t place = place_of((uintptr_t)frames[i]);
        hash = place != 0 ? (hash ^ place) * UINT64_C(1099511628211) : hash;
    }
    hash |= 1; /* 0 is an empty place */
    *name = hash;
    size_t place = (size_t)(hash >> 20) % STACKS_MAX;
    while (stacks[place].hash != 0 && stacks[place].hash != hash) {
        place = (place + 1) % STACKS_MAX;
    }
    stacks[place].hash = hash;
    return ++stacks[place].seen;
}

static bool is_wished(uint64_t number) {
    return wish_number > 0 && (wish_every ? number % wish_number == 0 : number == wish_number);
}

/* Counts a call; whether it is one that fails, or that is cut short. */
static bool strikes(int number, uintptr_t caller, bool *shorter) {
    bool fails = false, of_library = calls[number].way == GIVES_STATUS;
    if (!active || inside || place_of(caller) == 0) {
        return false;
    }
    inside = true;
    pthread_mutex_lock(&counting);
    uint64_t in_all = made_of_library += of_library, of_it = ++calls[number].made;
    char line[128];
    if (list_path != NULL || strcmp(wish, "at") == 0) {
        uint64_t place, seen = stack_seen(&place);
        place += seen;
        fails = strcmp(wish, "at") == 0 && place == wish_number;
        if (list_path != NULL && (seen == 1 || (of_library && seen == 3))) {
            snprintf(line, sizeof line, "%llu %s\n", (unsigned long long)place, calls[number].name);
            append(list_path, line);
        }
    }
    fails = fails || (of_library && strcmp(wish, "vram") == 0 && is_wished(in_all)) ||
            (strcmp(wish, calls[number].name) == 0 && is_wished(of_it));
    if (strcmp(wish, "short") == 0 && (number == NUMBER_write || number == NUMBER_read ||
                                       number == NUMBER_pread || number == NUMBER_pwrite)) {
        static uint64_t cut;
        *shorter = is_wished(++cut);
    }
    if (log_path != NULL && (fails || *shorter)) {
        snprintf(line, sizeof line, "%s\n", calls[number].name);
        append(log_path, line);
    }
    pthread_mutex_unlock(&counting);
    inside = false;
    return fails;
}

long inject_fail(int number, const long *with) {
    const char *code = getenv("INJECT_CODE");
    if (calls[number].way == GIVES_STATUS) {
        vram_status status = code ? (vram_status)atoi(code) : VRAM_ERR_BACKEND;
        vram_error error = {.status = status, .backend = "", .operation = calls[number].name};
        snprintf(error.text, sizeof error.text, "planted in %s", calls[number].name);
        vram_status (*error_set)(const vram_error *);
        void *found = dlsym(RTLD_DEFAULT, "vram_error_set");
        memcpy(&error_set, &found, sizeof found);
        return error_set(&error);
    }
    if (calls[number].way == FAILS_DONE) {
        calls[number].real(with[0], with[1], with[2], with[3], with[4], with[5], 0, 0);
    }
    errno = code ? atoi(code) : ENOMEM;
    return calls[number].way == GIVES_NONE ? 0 : calls[number].way == GIVES_CODE ? errno : -1;
}

/* ----------------------------------------------------------------------- calls */

static long called(int number, uintptr_t caller, long with[8]) {
    bool shorter = false;
    if (real_of(number) == NULL) {
        errno = ENOMEM; /* dlsym itself asks for memory */
        return 0;
    }
    if (number == NUMBER_vram_backend_info_get) {
        inject_end();
    }
    bool kept = number == NUMBER_vram_alloc && inject_lies("kept"); /* it fails, and keeps memory */
    /* A flush of standard output that fails leaves a mark in it, which is not done here. */
    bool marks = number == NUMBER_fflush && with[0] == (long)(uintptr_t)stdout;
    if ((!marks && strikes(number, caller, &shorter)) || kept) {
        return inject_fail(number, with);
    }
    long bytes = shorter && with[2] > 1 ? with[2] / 2 : with[2];
    long result = inject_replaces(number) ? VRAM_OK
                                          : calls[number].real(with[0], with[1], bytes, with[3],
                                                               with[4], with[5], with[6], with[7]);
    return calls[number].way == GIVES_STATUS ? inject_lie(number, with, (int)result) : result;
}

/* Under the name of the call: its parameters are whole numbers and pointers, whatever their types;
   those that it does not have are passed on unused. */
#define STAND(name)                                                                                \
    long stand_##name(long, long, long, long, long, long, long, long) __asm__(#name);              \
    __attribute__((visibility("default"))) long stand_##name(long a, long b, long c, long d,       \
                                                             long e, long f, long g, long h) {     \
        return called(NUMBER_##name, (uintptr_t)__builtin_return_address(0),                       \
                      (long[8]){a, b, c, d, e, f, g, h});                                          \
    }
#define STAND_SYSTEM(name, way) STAND(name)
SYSTEM_CALLS(STAND_SYSTEM)
LIBRARY_CALLS(STAND)
