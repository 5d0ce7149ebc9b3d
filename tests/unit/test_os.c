/* SPDX-License-Identifier: Apache-2.0 */
/* test_os.c: pages, files in memory, threads, time and the rest of src/base/os, with failures. */
#include "base/os/platform.h"
#include "base/size.h"

#include "unit/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>

#define PAGE     ((uint64_t)vr_os_page_bytes())
#define TOO_MUCH (UINT64_MAX / 4096 * 4096) /* bytes that no machine has */

/* The last failure was of `call`, with `code`. */
static void assert_error(vram_status status, const char *call, int64_t code) {
    const vram_error *error = vram_error_get();
    assert_int_equal(error->status, status);
    assert_string_equal(error->backend, "os");
    assert_string_equal(error->operation, call);
    assert_int_equal(error->native_code, code);
    assert_non_null(strstr(error->text, call));
}

/* Whether the kernel can read the byte at `address`: asks without touching it. */
static bool readable(const void *address) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    bool good = write(ends[1], address, 1) == 1;
    assert_true(good || errno == EFAULT);
    close(ends[0]);
    close(ends[1]);
    return good;
}

static bool all_bytes(const unsigned char *bytes, uint64_t count, unsigned char value) {
    for (uint64_t i = 0; i < count; i++) {
        if (bytes[i] != value) {
            return false;
        }
    }
    return true;
}

/* -------------------------------------------------------------------- pages */

TEST(pages_are_fresh_and_zero) {
    assert_true(vr_is_power_of_two(PAGE) && PAGE >= 4096);
    void *pages = NULL;
    assert_int_equal(vr_os_pages_alloc(16 * PAGE, &pages), VRAM_OK);
    assert_int_equal((uintptr_t)pages % PAGE, 0);
    assert_true(all_bytes(pages, 16 * PAGE, 0));
    memset(pages, 0xa5, 16 * PAGE);
    assert_true(
        readable(pages)); /* a sanitizer maps what it keeps of pipes now, not in their place */
    assert_int_equal(vr_os_pages_free(pages, 16 * PAGE), VRAM_OK);
    assert_false(readable(pages));
}

TEST(reservations_are_aligned_and_closed) {
    for (uint64_t align = PAGE; align <= VR_GIB; align *= 8) {
        void *pages = NULL;
        assert_int_equal(vr_os_pages_reserve(3 * PAGE, align, &pages), VRAM_OK);
        assert_int_equal((uintptr_t)pages % align, 0);
        assert_false(readable(pages));
        assert_int_equal(vr_os_pages_access(pages, 3 * PAGE), VRAM_OK);
        assert_true(all_bytes(pages, 3 * PAGE, 0));
        assert_int_equal(vr_os_pages_free(pages, 3 * PAGE), VRAM_OK);
    }
}

TEST(reserving_much_costs_nothing) {
    void *pages = NULL;
    assert_int_equal(vr_os_pages_reserve(UINT64_C(1) << 37, VR_GIB, &pages), VRAM_OK);
    assert_int_equal(vr_os_pages_free(pages, UINT64_C(1) << 37), VRAM_OK);
}

TEST(impossible_sizes_are_refused) {
    void *pages = (void *)1;
    assert_int_equal(vr_os_pages_alloc(TOO_MUCH, &pages), VRAM_ERR_HOST_MEMORY);
    assert_error(VRAM_ERR_HOST_MEMORY, "mmap", ENOMEM);
    assert_int_equal(vr_os_pages_alloc(0, &pages), VRAM_ERR_IO);
    assert_error(VRAM_ERR_IO, "mmap", EINVAL);
    assert_int_equal(vr_os_pages_reserve(TOO_MUCH, PAGE, &pages), VRAM_ERR_HOST_MEMORY);
    assert_int_equal(vr_os_pages_reserve(TOO_MUCH, VR_GIB, &pages), VRAM_ERR_HOST_MEMORY);
    assert_int_equal(vr_os_pages_reserve(PAGE, UINT64_C(1) << 63, &pages), VRAM_ERR_HOST_MEMORY);
    assert_ptr_equal(pages, (void *)1);
}

TEST(bad_addresses_are_told) {
    static int local;
    char *odd = (char *)&local + 1;
    assert_int_equal(vr_os_pages_free(odd, PAGE), VRAM_ERR_IO);
    assert_error(VRAM_ERR_IO, "munmap", EINVAL);
    assert_int_equal(vr_os_pages_access(odd, PAGE), VRAM_ERR_IO);
    assert_error(VRAM_ERR_IO, "mprotect", EINVAL);
    assert_int_equal(vr_os_pages_unmap(odd, PAGE), VRAM_ERR_IO);
    assert_error(VRAM_ERR_IO, "mmap", EINVAL);
}

TEST(locking_meets_limits) {
    void *pages = NULL;
    assert_int_equal(vr_os_pages_alloc(PAGE, &pages), VRAM_OK);
    vram_status status = vr_os_pages_lock(pages, PAGE);
    assert_true(status == VRAM_OK || status == VRAM_ERR_LIMIT);
    vr_os_pages_unlock(pages, PAGE);
    const int limits[] = {EPERM, ENOMEM, EAGAIN};
    for (size_t i = 0; i < 3; i++) {
        vr_os_fail_at(1, false, limits[i]);
        assert_int_equal(vr_os_pages_lock(pages, PAGE), VRAM_ERR_LIMIT);
        assert_error(VRAM_ERR_LIMIT, "mlock", limits[i]);
    }
    vr_os_fail_at(1, false, EINVAL);
    assert_int_equal(vr_os_pages_lock(pages, PAGE), VRAM_ERR_IO);
    vr_os_fail_at(0, false, 0);
    assert_int_equal(vr_os_pages_free(pages, PAGE), VRAM_OK);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* there mlock does nothing */
    /* Not mapped any more: the kernel says ENOMEM for that too. */
    assert_int_equal(vr_os_pages_lock(pages, PAGE), VRAM_ERR_LIMIT);
#endif
}

/* -------------------------------------------------------- files in memory */

static int file_with(uint64_t bytes) {
    int fd = -1;
    assert_int_equal(vr_os_file_create("test", &fd), VRAM_OK);
    assert_true(fd >= 0);
    assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    assert_int_equal(vr_os_file_resize(fd, bytes), VRAM_OK);
    return fd;
}

TEST(files_are_sparse_and_punched) {
    int fd = file_with(1024 * PAGE);
    struct stat info;
    assert_int_equal(fstat(fd, &info), 0);
    assert_int_equal(info.st_blocks, 0);
    unsigned char *data = malloc(4 * PAGE);
    memset(data, 0x5a, 4 * PAGE);
    assert_int_equal(vr_os_file_write(fd, 8 * PAGE, data, 4 * PAGE), VRAM_OK);
    assert_int_equal(fstat(fd, &info), 0);
    assert_int_equal(info.st_blocks * 512, 4 * PAGE);
    assert_int_equal(vr_os_file_punch(fd, 8 * PAGE, 3 * PAGE), VRAM_OK);
    assert_int_equal(fstat(fd, &info), 0);
    assert_int_equal(info.st_blocks * 512, PAGE);
    assert_int_equal(info.st_size, 1024 * PAGE);
    assert_int_equal(vr_os_file_read(fd, 8 * PAGE, data, 4 * PAGE), VRAM_OK);
    assert_true(all_bytes(data, 3 * PAGE, 0));
    assert_true(all_bytes(data + 3 * PAGE, PAGE, 0x5a));
    free(data);
    vr_os_file_close(fd);
}

TEST(one_page_is_mapped_at_two_places) {
    int fd = file_with(4 * PAGE);
    void *pages = NULL;
    assert_int_equal(vr_os_pages_reserve(8 * PAGE, PAGE, &pages), VRAM_OK);
    unsigned char *first = pages;
    unsigned char *second = first + 4 * PAGE;
    assert_int_equal(vr_os_file_map(fd, PAGE, first, 2 * PAGE), VRAM_OK);
    assert_int_equal(vr_os_file_map(fd, PAGE, second, 2 * PAGE), VRAM_OK);
    assert_false(readable(first)); /* mapped, but not yet open */
    assert_int_equal(vr_os_pages_access(first, 2 * PAGE), VRAM_OK);
    assert_int_equal(vr_os_pages_access(second, 2 * PAGE), VRAM_OK);
    first[PAGE] = 77;
    assert_int_equal(second[PAGE], 77);
    unsigned char byte = 0;
    assert_int_equal(vr_os_file_read(fd, 2 * PAGE, &byte, 1), VRAM_OK);
    assert_int_equal(byte, 77);
    assert_int_equal(vr_os_pages_unmap(first, 2 * PAGE), VRAM_OK);
    assert_false(readable(first));
    assert_int_equal(second[PAGE], 77); /* moved, not lost */
    assert_int_equal(vr_os_pages_free(pages, 8 * PAGE), VRAM_OK);
    vr_os_file_close(fd);
}

TEST(bad_files_and_offsets_are_told) {
    unsigned char byte = 0;
    int fd = file_with(PAGE);
    assert_int_equal(vr_os_file_read(fd, PAGE, &byte, 1), VRAM_ERR_IO); /* behind the end */
    assert_error(VRAM_ERR_IO, "pread", EIO);
    assert_int_equal(vr_os_file_read(fd, UINT64_MAX, &byte, 1), VRAM_ERR_LIMIT);
    assert_int_equal(vr_os_file_read(fd, INT64_MAX, &byte, 1), VRAM_ERR_LIMIT);
    assert_int_equal(vr_os_file_write(fd, UINT64_MAX - 4, &byte, 4), VRAM_ERR_LIMIT);
    assert_int_equal(vr_os_file_resize(fd, UINT64_MAX), VRAM_ERR_LIMIT);
    assert_error(VRAM_ERR_LIMIT, "ftruncate", EFBIG);
    assert_int_equal(vr_os_file_punch(fd, UINT64_MAX, 1), VRAM_ERR_LIMIT);
    assert_int_equal(vr_os_file_punch(fd, 0, 0), VRAM_ERR_IO);
    assert_error(VRAM_ERR_IO, "fallocate", EINVAL);
    vr_os_file_close(fd);
    assert_int_equal(vr_os_file_resize(fd, 1), VRAM_ERR_IO);
    assert_error(VRAM_ERR_IO, "ftruncate", EBADF);
    assert_int_equal(vr_os_file_read(fd, 0, &byte, 1), VRAM_ERR_IO);
    assert_int_equal(vr_os_file_write(fd, 0, &byte, 1), VRAM_ERR_IO);
    assert_error(VRAM_ERR_IO, "pwrite", EBADF);
    void *pages = NULL;
    assert_int_equal(vr_os_pages_reserve(PAGE, PAGE, &pages), VRAM_OK);
    assert_int_equal(vr_os_file_map(fd, 0, pages, PAGE), VRAM_ERR_IO);
    assert_error(VRAM_ERR_IO, "mmap", EBADF);
    assert_int_equal(vr_os_pages_free(pages, PAGE), VRAM_OK);
}

/* Past the limit on file sizes the kernel sends a signal that kills: it must not come to that. */
static int grow_past_the_limit(void *argument) {
    (void)argument;
    struct rlimit limit = {.rlim_cur = 4096, .rlim_max = 4096};
    unsigned char byte = 1;
    int fd = -1;
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0 || vr_os_file_create("test", &fd) != VRAM_OK) {
        return 1;
    }
    if (vr_os_file_resize(fd, 4096) != VRAM_OK || vr_os_file_resize(fd, 4097) != VRAM_ERR_LIMIT) {
        return 2;
    }
    return vr_os_file_write(fd, 4096, &byte, 1) == VRAM_ERR_LIMIT ? 0 : 3;
}

TEST(the_file_limit_does_not_kill) {
    assert_int_equal(in_child(grow_past_the_limit, NULL), 0);
}

/* ---------------------------------------------------------------- fault plan */

static void do_nothing(void *argument) {
    (void)argument;
}

static void do_nothing_at_exit(void) {}

/* Everything that is counted, once; stops at the first failure and leaves nothing behind. */
static vram_status use_everything(void) {
    void *pages = NULL, *range = NULL;
    int fd = -1;
    char byte = 0;
    struct vr_thread thread = {.running = false};
    vram_status status = vr_os_pages_alloc(PAGE, &pages);
    status = status ? status : vr_os_pages_reserve(2 * PAGE, 2 * PAGE, &range);
    status = status ? status : vr_os_file_create("test", &fd);
    status = status ? status : vr_os_file_resize(fd, PAGE);
    status = status ? status : vr_os_file_write(fd, 0, "x", 1);
    status = status ? status : vr_os_file_read(fd, 0, &byte, 1);
    status = status ? status : vr_os_file_map(fd, 0, range, PAGE);
    status = status ? status : vr_os_pages_access(range, PAGE);
    status = status ? status : vr_os_thread_start(&thread, "test", do_nothing, NULL);
    status = status ? status : vr_os_at_exit(do_nothing_at_exit);
    vr_os_thread_join(&thread);
    if (fd >= 0) {
        vr_os_file_close(fd);
    }
    if (range) {
        (void)vr_os_pages_free(range, 2 * PAGE);
    }
    if (pages) {
        (void)vr_os_pages_free(pages, PAGE);
    }
    return status;
}

TEST(the_plan_fails_each_call_once) {
    uint64_t nth = 1;
    for (;; nth++) {
        vr_os_fail_at(nth, false, EMFILE);
        vram_status status = use_everything();
        if (vr_os_failed() == 0) {
            assert_int_equal(status, VRAM_OK);
            break;
        }
        assert_int_equal(vr_os_failed(), 1);
        assert_int_equal(vr_os_calls(), nth);
        assert_int_equal(status, VRAM_ERR_LIMIT);
        assert_int_equal(vram_error_get()->native_code, EMFILE);
    }
    assert_int_equal(nth, 11);
    vr_os_fail_at(0, false, 0);
}

/* What valgrind answers to more addresses than it has is a shortage, and not a mistake: pools then
   ask for fewer. */
TEST(an_invalid_length_is_a_shortage) {
    void *range = NULL;
    vr_os_fail_at(1, false, EINVAL);
    assert_int_equal(vr_os_pages_reserve(2 * PAGE, PAGE, &range), VRAM_ERR_HOST_MEMORY);
    vr_os_fail_at(0, false, 0);
    assert_null(range);
}

TEST(the_plan_fails_for_ever) {
    void *pages = NULL;
    vr_os_fail_at(2, true, 0); /* no errno given: still a failure */
    assert_int_equal(vr_os_pages_alloc(PAGE, &pages), VRAM_OK);
    void *none = NULL;
    for (int i = 0; i < 5; i++) {
        assert_int_equal(vr_os_pages_alloc(PAGE, &none), VRAM_ERR_IO);
    }
    assert_null(none);
    assert_int_equal(vr_os_failed(), 5);
    vr_os_fail_at(0, true, EIO);
    assert_int_equal(vr_os_pages_alloc(PAGE, &none), VRAM_OK);
    assert_int_equal(vr_os_calls(), 1);
    assert_int_equal(vr_os_pages_free(none, PAGE), VRAM_OK);
    assert_int_equal(vr_os_pages_free(pages, PAGE), VRAM_OK);
}

TEST(errors_become_statuses) {
    static const struct {
        int error;
        vram_status status;
    } cases[] = {
        {ENOMEM, VRAM_ERR_HOST_MEMORY}, {ENOSPC, VRAM_ERR_HOST_MEMORY}, {EAGAIN, VRAM_ERR_LIMIT},
        {EMFILE, VRAM_ERR_LIMIT},       {ENFILE, VRAM_ERR_LIMIT},       {EFBIG, VRAM_ERR_LIMIT},
        {EDQUOT, VRAM_ERR_LIMIT},       {EACCES, VRAM_ERR_IO},          {99999, VRAM_ERR_IO},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(vr_os_error(cases[i].error, "call", 0), cases[i].status);
        assert_error(cases[i].status, "call", cases[i].error);
    }
    vr_os_error(ENOMEM, "call", 4096);
    assert_string_equal(vram_error_get()->text, "call of 4096 bytes: Cannot allocate memory");
}

/* ------------------------------------------------------------------ threads */

struct seen {
    char name[16];
    bool blocked; /* all signals that can be */
    int value;
};

static void look_around(void *argument) {
    struct seen *seen = argument;
    sigset_t now;
    (void)pthread_getname_np(pthread_self(), seen->name, sizeof seen->name);
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    seen->blocked = sigismember(&now, SIGINT) && sigismember(&now, SIGALRM) &&
                    sigismember(&now, SIGUSR1) && sigismember(&now, SIGTERM);
    seen->value = 42;
}

TEST(threads_run_with_signals_blocked) {
    struct seen seen = {.value = 0};
    struct vr_thread thread;
    sigset_t before, after;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    assert_int_equal(vr_os_thread_start(&thread, "vram-a-name-too-long", look_around, &seen),
                     VRAM_OK);
    assert_true(thread.running);
    vr_os_thread_join(&thread);
    assert_false(thread.running);
    vr_os_thread_join(&thread); /* nothing to wait for any more */
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    assert_int_equal(sigismember(&before, SIGINT), sigismember(&after, SIGINT));
    assert_int_equal(seen.value, 42);
    assert_true(seen.blocked);
    assert_string_equal(seen.name, "vram-a-name-too");
    vr_os_yield();
    vr_os_pause();
}

/* --------------------------------------------------------------------- time */

static void ignore_signal(int number) {
    (void)number;
}

TEST(sleep_outlasts_signals) {
    struct sigaction action = {.sa_handler = ignore_signal}, before;
    sigaction(SIGALRM, &action, &before);
    struct itimerval often = {{0, 5000}, {0, 5000}}, none = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &often, NULL);
    uint64_t start = vr_os_now();
    vr_os_sleep(UINT64_C(40000000));
    uint64_t slept = vr_os_now() - start;
    setitimer(ITIMER_REAL, &none, NULL);
    sigaction(SIGALRM, &before, NULL);
    assert_true(start > 0);
    assert_true(slept >= UINT64_C(40000000));
    vr_os_sleep(0);
}

/* ------------------------------------------------------------------ process */

TEST(libraries_open_and_close) {
    char why[64] = "untouched";
    void *library = vr_os_library_open("libm.so.6", why, sizeof why);
    assert_non_null(library);
    assert_string_equal(why, "untouched");
    assert_non_null(vr_os_library_symbol(library, "cos"));
    assert_null(vr_os_library_symbol(library, "no_such_function"));
    vr_os_library_close(library);
    vr_os_library_close(NULL);
    assert_null(vr_os_library_open("libno_such_library.so.9", why, sizeof why));
    assert_non_null(strstr(why, "libno_such_library.so.9"));
    assert_null(vr_os_library_open("", why, sizeof why));
    assert_string_equal(why, "no file name");
    assert_null(vr_os_library_open(NULL, why, 3));
    assert_string_equal(why, "no");
}

/* A pipe that nobody else has open, with a name: nothing that is told to use it waits for the other
   end. */
TEST(a_pipe_makes_nobody_wait) {
    char path[64], text[16], why[128] = "";
    size_t bytes;
    snprintf(path, sizeof path, "/tmp/vram-os-%ld.pipe", (long)getpid());
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    alarm(60);
    assert_int_equal(vr_os_text_read(path, text, sizeof text, &bytes), VRAM_ERR_INVALID);
    assert_int_equal(vr_os_text_append(path, "x", 1), VRAM_ERR_IO); /* nobody reads */
    assert_null(vr_os_library_open(path, why, sizeof why));
    assert_non_null(strstr(why, ": not a plain file"));
    int reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(reader >= 0);
    assert_int_equal(vr_os_text_append(path, "x", 1), VRAM_ERR_INVALID);
    assert_int_equal(vr_os_text_replace(path, "new", 3, NULL), VRAM_OK); /* in its place */
    assert_int_equal(vr_os_text_read(path, text, sizeof text, &bytes), VRAM_OK);
    assert_int_equal(bytes, 3);
    alarm(0);
    assert_int_equal(close(reader), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(vr_os_text_read("/tmp", text, sizeof text, &bytes), VRAM_ERR_INVALID);
    assert_int_equal(vr_os_text_append("/dev/null", "x", 1), VRAM_OK);
    assert_int_equal(vr_os_text_read("/dev/null", text, sizeof text, &bytes), VRAM_OK);
    assert_int_equal(bytes, 0);
}

static int append_past_the_limit(void *argument) {
    struct rlimit before, limit = {.rlim_cur = 2, .rlim_max = RLIM_INFINITY};
    bool right = getrlimit(RLIMIT_FSIZE, &before) == 0 && setrlimit(RLIMIT_FSIZE, &limit) == 0 &&
                 vr_os_text_append(argument, "abc", 3) == VRAM_ERR_IO &&
                 vr_os_text_replace(argument, "abc", 3, NULL) == VRAM_ERR_IO &&
                 vr_os_text_append(argument, "ab", 2) == VRAM_OK;
    setrlimit(RLIMIT_FSIZE, &before); /* a build that measures coverage writes files at exit */
    return right ? 0 : 1;
}

/* Text past the limit on the size of files is refused; the system would send a signal, too. */
TEST(text_past_the_limit_does_not_kill) {
    char path[64];
    snprintf(path, sizeof path, "/tmp/vram-os-%ld.txt", (long)getpid());
    unlink(path);
    assert_int_equal(in_child(append_past_the_limit, path), 0);
    assert_int_equal(unlink(path), 0);
}
