/* SPDX-License-Identifier: Apache-2.0 */
/* rig.c: runs the tests of rig.h. */
#include "rig/rig.h"
#include "vram/base.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { FILES_MAX = 512 };

/* The files of this program, in the order of their names; their tests as they stand there. */
static struct rig_file {
    char name[48];
    struct rig_test *first, **last;
    const struct rig_pair *whole, *common;
    rig_child_fn *const *child;
} files[FILES_MAX];
static unsigned file_count;

static struct {
    const struct rig_file *file;
    const struct rig_note *note;
    int words;
    char **word;
    pid_t process;
    pthread_t thread;
    jmp_buf end; /* of the test that runs */
    bool running, may_leave, may_leave_locks;
} rig_now;

void *rig_state;
bool rig_no_leak_check;

enum { GOES_ON, FAILED, SKIPPED };

const char *rig_word(int n) {
    return n < rig_now.words ? rig_now.word[n] : NULL;
}

const char *rig_self(void) {
    static char name[64];
    snprintf(name, sizeof name, "test_%s", rig_now.file->name);
    return name;
}

/* -------------------------------------------------------------------------------- files */

/* What stands between the first '_' of the file's name and its end: space. */
static void file_name(const char *source, char *name, size_t size) {
    const char *slash = strrchr(source, '/'), *base = slash ? slash + 1 : source;
    const char *line = strchr(base, '_'), *from = line ? line + 1 : base;
    snprintf(name, size, "%.*s", (int)strcspn(from, "."), from);
}

static struct rig_file *file_find(const char *name) {
    for (unsigned i = 0; i < file_count; i++) {
        if (strcmp(files[i].name, name) == 0) {
            return &files[i];
        }
    }
    return NULL;
}

/* Before main, one file after another. */
void rig_add(const char *source, struct rig_test *test, const struct rig_pair *whole,
             const struct rig_pair *common, rig_child_fn *const *child, bool first) {
    char name[sizeof files[0].name];
    file_name(source, name, sizeof name);
    struct rig_file *file = file_find(name);
    if (!file) {
        if (file_count == FILES_MAX) {
            abort();
        }
        file = &files[file_count++];
        memcpy(file->name, name, sizeof name);
        file->whole = whole;
        file->common = common;
        file->child = child;
        file->last = &file->first;
    }
    struct rig_test **place = first ? &file->first : file->last;
    test->next = *place;
    *place = test;
    if (!test->next) {
        file->last = &test->next;
    }
}

/* ----------------------------------------------------------------------------- one test */

/* Out of the test; a child or a thread of it takes its process with it. */
static _Noreturn void test_leave(int how) {
    if (!rig_now.running || getpid() != rig_now.process ||
        !pthread_equal(pthread_self(), rig_now.thread)) {
        fflush(NULL);
        _exit(1);
    }
    longjmp(rig_now.end, how);
}

_Noreturn void test_fail(const char *file, int line, const char *text, ...) {
    va_list arguments;
    va_start(arguments, text);
    fflush(stdout);
    fprintf(stderr, "%s:%d: ", file, line);
    vfprintf(stderr, text, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    test_leave(FAILED);
}

_Noreturn void test_skip(void) {
    test_leave(SKIPPED);
}

/* Runs a test, or a hook; how it ended. */
static int part_run(void (*run)(void), int (*hook)(void)) {
    int how = setjmp(rig_now.end);
    if (how == GOES_ON) {
        rig_now.running = true;
        if (run) {
            run();
        }
        if (hook && hook() != 0) {
            fprintf(stderr, "a hook failed\n");
            how = FAILED;
        }
    }
    rig_now.running = false;
    return how;
}

/* Of the library, where the program has one. */
uint64_t vr_mem_live_bytes(void) __attribute__((weak));
uint64_t vr_handle_live(unsigned kind) __attribute__((weak));
uint64_t vr_locks_live(void) __attribute__((weak));
void vr_mem_fail_at(uint64_t nth, bool for_ever) __attribute__((weak));
uint64_t vr_mem_failed(void) __attribute__((weak));
void vr_os_fail_at(uint64_t nth, bool for_ever, int error) __attribute__((weak));
uint64_t vr_os_failed(void) __attribute__((weak));
void vr_option_reset(void) __attribute__((weak));
#pragma weak vram_log_set

struct held {
    uint64_t bytes, handles, locks;
};

static struct held held_now(void) {
    return (struct held){vr_mem_live_bytes ? vr_mem_live_bytes() : 0,
                         vr_handle_live ? vr_handle_live(0) : 0,
                         vr_locks_live ? vr_locks_live() : 0};
}

int await_nothing_held(void) {
    struct held held = held_now();
    for (int i = 0; i < 10000 && (held.bytes || held.handles); i++) {
        usleep(1000);
        held = held_now();
    }
    return 0;
}

void memory_fails(uint64_t nth, bool for_ever) {
    vr_mem_fail_at(nth, for_ever);
}

uint64_t memory_failed(void) {
    return vr_mem_failed();
}

void system_fails(uint64_t nth, bool for_ever, int error) {
    vr_os_fail_at(nth, for_ever, error);
}

uint64_t system_failed(void) {
    return vr_os_failed();
}

void options_reset(void) {
    vr_option_reset();
}

/* What a test planned and set is not the next one's. */
static void tidy(void) {
    if (vr_mem_fail_at) {
        vr_mem_fail_at(0, false);
    }
    if (vr_os_fail_at) {
        vr_os_fail_at(0, false, 0);
    }
    if (!rig_now.file->whole->begin && vr_option_reset && vram_log_set) {
        vr_option_reset();
        vram_log_set(NULL, NULL, VRAM_LOG_OFF);
    }
}

void may_leave(const char *why) {
    (void)why;
    rig_now.may_leave = true;
}

void may_leave_locks(const char *why) {
    (void)why;
    rig_now.may_leave_locks = true;
}

static int nothing_is_left(const struct held *before) {
    struct held now = held_now();
    now.locks = rig_now.may_leave_locks ? before->locks : now.locks;
    if (rig_now.may_leave || memcmp(&now, before, sizeof now) == 0) {
        return GOES_ON;
    }
    fprintf(stderr, "left: %lld bytes, %lld handles, %lld locks\n",
            (long long)(now.bytes - before->bytes), (long long)(now.handles - before->handles),
            (long long)(now.locks - before->locks));
    return FAILED;
}

static bool test_run(const struct rig_test *test) {
    const struct rig_pair *hooks = test->hooks;
    if (!hooks->begin && !hooks->end && !rig_now.file->whole->begin) {
        hooks = rig_now.file->common;
    }
    struct held before = held_now();
    printf("%s.%s\n", rig_now.file->name, test->name);
    fflush(stdout); /* a crash is this one's */
    rig_state = NULL;
    rig_now.may_leave = rig_now.may_leave_locks = false;
    int how = part_run(NULL, hooks->begin);
    if (how == GOES_ON) {
        how = part_run(test->run, NULL);
        int end = part_run(NULL, hooks->end);
        how = how == GOES_ON ? end : how;
        tidy();
        how = how == GOES_ON ? nothing_is_left(&before) : how;
    }
    fflush(stdout);
    if (how == FAILED) {
        fprintf(stderr, "FAILED: %s.%s\n", rig_now.file->name, test->name);
    } else if (how == SKIPPED) {
        printf("    skipped\n");
    }
    return how != FAILED;
}

/* ------------------------------------------------------------------------------- threads */

#ifdef RIG_ONE_THREAD
#include <dlfcn.h>

typedef int create_fn(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

static create_fn *pthread_create_find(void) {
    static _Atomic(create_fn *) found;
    create_fn *create = found;
    if (!create) {
        void *next = dlsym(RTLD_NEXT, "pthread_create");
        memcpy(&create, &next, sizeof create);
        found = create;
    }
    return create;
}

/* In the place of the C library's, for libraries and drivers too: the build with ThreadSanitizer
   leaves out the files that are ONE_THREAD, where nobody would look at a thread that one of them
   starts, or its child, or a driver. */
__attribute__((visibility("default"))) int pthread_create(pthread_t *thread,
                                                          const pthread_attr_t *attributes,
                                                          void *(*run)(void *), void *argument) {
    if (rig_now.note && rig_now.note->one_thread) {
        fprintf(stderr, "this test is ONE_THREAD in tests/unit/CMakeLists.txt and starts a thread: "
                        "take the word out\n");
        _exit(1);
    }
    return pthread_create_find()(thread, attributes, run, argument);
}
#endif

/* LeakSanitizer asks this first. */
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void) {
    return rig_no_leak_check;
}

/* -------------------------------------------------------------------------- the program */

static void file_begin(const struct rig_file *file, int count, char **words) {
    rig_now.file = file;
    rig_now.words = count;
    rig_now.word = words;
    rig_now.process = getpid();
    rig_now.thread = pthread_self();
#ifdef RIG_ONE_THREAD
    (void)pthread_create_find(); /* while dlsym is the system's */
#endif
    for (const struct rig_note *note = rig_notes; note->file; note++) {
        if (strcmp(note->file, file->name) == 0) {
            rig_now.note = note;
            for (const struct rig_wrap *wrap = note->wraps; wrap && wrap->place; wrap++) {
                *wrap->place = wrap->function;
            }
        }
    }
}

/* The tests of a file, or the one called `only`; the exit code. */
static int file_run(const char *only) {
    const struct rig_file *file = rig_now.file;
    unsigned met = 0, failed = 0;
    int how = part_run(NULL, file->whole->begin);
    if (how != GOES_ON) {
        return how == SKIPPED ? 77 : 1;
    }
    for (const struct rig_test *test = file->first; test; test = test->next) {
        if (!only || strcmp(only, test->name) == 0) {
            met++;
            failed += !test_run(test);
        }
    }
    failed += part_run(NULL, file->whole->end) != GOES_ON;
    if (met == 0) {
        fprintf(stderr, "there is no test %s in %s\n", only, file->name);
        return 2;
    }
    printf("%s: %u of %u tests failed\n", file->name, failed, met);
    return failed ? 1 : 0;
}

/* All files, each in a process of its own. */
static int all_run(const char *program) {
    unsigned failed = 0;
    for (unsigned i = 0; i < file_count; i++) {
        char *words[] = {(char *)program, files[i].name, NULL};
        pid_t child;
        int status = 1;
        if (posix_spawn(&child, "/proc/self/exe", NULL, NULL, words, environ) != 0 ||
            waitpid(child, &status, 0) != child ||
            (status != 0 && !(WIFEXITED(status) && WEXITSTATUS(status) == 77))) {
            fprintf(stderr, "FAILED: %s\n", files[i].name);
            failed++;
        }
    }
    printf("%u of %u files failed\n", failed, file_count);
    return failed ? 1 : 0;
}

static void list(void) {
    for (unsigned i = 0; i < file_count; i++) {
        for (const struct rig_test *test = files[i].first; test; test = test->next) {
            printf("%s.%s\n", files[i].name, test->name);
        }
    }
}

int main(int count, char **words) {
    const char *slash = strrchr(words[0], '/'), *program = slash ? slash + 1 : words[0];
    char name[sizeof files[0].name];
    struct rig_file *file;
    if (strncmp(program, "test_", 5) == 0) {
        file = file_find(program + 5);
        if (!file || !*file->child) {
            return 2;
        }
        file_begin(file, count, words);
        return (*file->child)(count, words);
    }
    if (count == 1) {
        setenv("VRAM_LIVE", "off", 0); /* as ctest has it */
        setenv("OCL_ICD_VENDORS", "/nonexistent", 0);
        return all_run(program);
    }
    if (strcmp(words[1], "--list") == 0) {
        list();
        return 0;
    }
    size_t length = strcspn(words[1], ".");
    snprintf(name, sizeof name, "%.*s", (int)length, words[1]);
    file = file_find(name);
    if (!file) {
        fprintf(stderr, "there is no file %s of tests; %s --list names them and their tests\n",
                name, program);
        return 2;
    }
    file_begin(file, count - 1, words + 1);
    return file_run(words[1][length] ? words[1] + length + 1 : NULL);
}
