/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bugs_program.c: a program that finds its driver in many ways, for bugs_run.py. Each word is a
 * step. Built as a part of tests/run/run_program.c, which does not know the driver, as a program
 * that is linked with it (LINKED), and as two libraries that such a program is linked with: one
 * that looks the driver up behind itself (NEXT), and a second interposer (SECOND).
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long addr_number;
typedef int alloc_fn(addr_number *addr, size_t bytes);
typedef int free_fn(addr_number addr);

#define MIB ((size_t)1 << 20)

#if defined(NEXT)

int next_pair(size_t bytes);
int next_pair(size_t bytes) {
    addr_number addr = 0;
    for (int i = 0; i < 3; i++) { /* repeated lookups have the same answer */
        alloc_fn *take = (alloc_fn *)(size_t)dlsym(RTLD_NEXT, "cuMemAlloc_v2");
        free_fn *give = (free_fn *)(size_t)dlsym(RTLD_NEXT, "cuMemFree_v2");
        if (!take || !give || take(&addr, bytes) != 0 || (i < 2 && give(addr) != 0)) {
            return 1;
        }
    }
    return 0; /* the last one stays */
}

#elif defined(SECOND)

static int calls;
int second_calls(void);
int second_calls(void) {
    return calls;
}

int cuMemAlloc_v2(addr_number *addr, size_t bytes);
int cuMemAlloc_v2(addr_number *addr, size_t bytes) {
    alloc_fn *next = (alloc_fn *)(size_t)dlsym(RTLD_NEXT, "cuMemAlloc_v2");
    if (++calls > 64) {
        abort();
    }
    return next ? next(addr, bytes) : 500;
}

#else

static void check(int good, const char *what) {
    if (!good) {
        printf("failed: %s\n", what);
        exit(5);
    }
}
#define CHECK(condition) check(condition, #condition)

/* Without a driver there is nothing to be found, in whatever libraries it is looked for. */
static void step_nothing(void) {
    void *self = dlopen(NULL, RTLD_NOW);
    CHECK(self && !dlsym(self, "cuMemAlloc_v2"));
    CHECK(!dlsym(RTLD_DEFAULT, "cuMemAlloc_v2"));
    CHECK(!dlsym(RTLD_NEXT, "cuMemAlloc_v2"));
    CHECK(!dlsym(RTLD_DEFAULT, "hipMalloc"));
}

/* Looked up in the driver's own library, then in everything: one function, and it ends. */
static void step_scopes(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    CHECK(library != NULL);
    void *found[] = {dlsym(library, "cuMemAlloc_v2"), dlsym(RTLD_DEFAULT, "cuMemAlloc_v2"),
                     dlsym(RTLD_NEXT, "cuMemAlloc_v2"), dlsym(library, "cuMemAlloc_v2")};
    int (*init)(unsigned) = (int (*)(unsigned))(size_t)dlsym(library, "cuInit");
    CHECK(init && init(0) == 0);
    for (size_t i = 0; i < sizeof found / sizeof found[0]; i++) {
        addr_number addr = 0;
        CHECK(found[i] != NULL && found[i] == found[0]);
        CHECK(((alloc_fn *)(size_t)found[i])(&addr, MIB) == 0 && addr);
    }
}

/* Calls that fail with rubbish in their results. */
static void step_rubbish(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    alloc_fn *take = (alloc_fn *)(size_t)(library ? dlsym(library, "cuMemAlloc_v2") : NULL);
    free_fn *give = (free_fn *)(size_t)(library ? dlsym(library, "cuMemFree_v2") : NULL);
    addr_number addr;
    CHECK(take && give);
    for (int i = 0; i < 3; i++) {
        CHECK(take(&addr, MIB << 20) == 2);
        CHECK(give(addr) != 0); /* what no allocation gave is the driver's to refuse */
    }
    CHECK(take(&addr, MIB) == 0 && give(addr) == 0);
}

static void step_hip(void) {
    void *library = dlopen("libamdhip64.so.6", RTLD_NOW | RTLD_GLOBAL);
    int (*take)(void **, size_t) =
        (int (*)(void **, size_t))(size_t)(library ? dlsym(library, "hipMalloc") : NULL);
    int (*give)(void *) = (int (*)(void *))(size_t)(library ? dlsym(library, "hipFree") : NULL);
    void *kept, *memory;
    CHECK(take && give);
    CHECK(take(&kept, 3 * MIB) == 0);
    CHECK(take(&memory, MIB) == 0 && give(memory) == 0);
}

#ifdef LINKED
int next_pair(size_t bytes);
int second_calls(void) __attribute__((weak));
int cuInit(unsigned flags);
int cuMemAlloc_v2(addr_number *addr, size_t bytes);

static void step_next(void) {
    CHECK(cuInit(0) == 0);
    CHECK(next_pair(2 * MIB) == 0);
}

static void step_second(void) {
    addr_number addr;
    CHECK(second_calls && cuInit(0) == 0 && cuMemAlloc_v2(&addr, 5 * MIB) == 0);
    CHECK(second_calls() == 1);
}
#endif

static const struct {
    const char *name;
    void (*run)(void);
} steps[] = {
    {"nothing", step_nothing}, {"scopes", step_scopes},
    {"rubbish", step_rubbish}, {"hip", step_hip},
#ifdef LINKED
    {"next", step_next},       {"second", step_second},
#endif
};

#ifndef LINKED
int bugs_main(int count, char **words);
#define main bugs_main /* of tests/run/run_program.c */
#endif

int main(int count, char **words) {
    for (int i = 1; i < count; i++) {
        size_t at = 0;
        while (at < sizeof steps / sizeof steps[0] && strcmp(steps[at].name, words[i]) != 0) {
            at++;
        }
        CHECK(at < sizeof steps / sizeof steps[0]);
        steps[at].run();
    }
    return 0;
}

#endif
