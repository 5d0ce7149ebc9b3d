/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_bus_error.c: a mapped file that is truncated costs what was written to it, and nothing else;
 * all other bus errors are the program's.
 */
#include "base/os/os.h"
#include "unit/assert_ok.h"
#include "unit/child.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGES = 4 };

static char path[64];

static int make_path(void) {
    snprintf(path, sizeof path, "/tmp/vram-bus-%ld", (long)getpid());
    return 0;
}

static int remove_path(void) {
    return unlink(path);
}

/* A guarded mapping of a file. */
static uint8_t *map_guarded(int *fd) {
    void *pages = NULL;
    uint64_t bytes = PAGES * vr_os_page_bytes();
    assert_ok(vr_os_disk_open(path, fd));
    assert_ok(vr_os_disk_grow(*fd, 0, bytes));
    assert_ok(vr_os_disk_map(*fd, 0, bytes, &pages));
    vr_os_disk_populate(pages, bytes);
    return pages;
}

TEST(a_truncated_file_is_written_to_no_more) {
    size_t page = vr_os_page_bytes();
    int fd;
    uint8_t *pages = map_guarded(&fd);
    pages[0] = 1;
    assert_int_equal(truncate(path, (off_t)page), 0);
    for (size_t i = 0; i < PAGES; i++) {
        pages[i * page + 5] = 7;
    }
    assert_int_equal(pages[0], 1); /* the first page is still the file's, */
    assert_int_equal(pages[page], 0);
    assert_int_equal(pages[3 * page + 5], 7); /* the others are memory */
    assert_false(vr_os_disk_reaches(fd, page + 1));
    vr_os_disk_unmap(pages, PAGES * page);
    vr_os_disk_close(fd);
}

/* Another mapping of the file, as a program may have one, and an access past the file's end. */
static void touch_foreign(void) {
    int fd = open(path, O_RDWR | O_CLOEXEC);
    volatile uint8_t *pages =
        mmap(NULL, vr_os_page_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0 && pages != MAP_FAILED && ftruncate(fd, 0) == 0) {
        *pages = 1;
    }
}

/* A coverage build writes its counts here: what raised the signal holds no lock. */
static void leave_well(int number) {
    (void)number;
    child_leave(42);
}

static void leave_informed(int number, siginfo_t *info, void *context) {
    (void)info;
    (void)context;
    leave_well(number);
}

/* The program's own handler, and where the signal comes from. */
struct touch {
    enum { DEFAULT, PLAIN, INFORMED } handler;
    bool sent;
    int end; /* of the process */
};

static int touch(void *argument) {
    const struct touch *touch = argument;
    struct sigaction action = {.sa_handler = touch->handler == PLAIN ? leave_well : SIG_DFL};
    int fd;
    if (touch->handler == INFORMED) {
        action = (struct sigaction){.sa_sigaction = leave_informed, .sa_flags = SA_SIGINFO};
    }
    if (sigaction(SIGBUS, &action, NULL) != 0) { /* a sanitizer may have one */
        return 1;
    }
    map_guarded(&fd);
    if (touch->sent) {
        kill(getpid(), SIGBUS);
    } else {
        touch_foreign();
    }
    return 2;
}

/* A handler that is set later stays when the last mapping goes. */
static int handler_set_later(void *argument) {
    struct sigaction later = {.sa_sigaction = leave_informed, .sa_flags = SA_SIGINFO}, now;
    int fd;
    (void)argument;
    uint8_t *pages = map_guarded(&fd);
    if (sigaction(SIGBUS, &later, NULL) != 0) {
        return 1;
    }
    vr_os_disk_unmap(pages, PAGES * vr_os_page_bytes());
    return sigaction(SIGBUS, NULL, &now) == 0 && now.sa_sigaction == leave_informed ? 0 : 2;
}

TEST(other_bus_errors_are_the_programs) {
    static struct touch touches[] = {{PLAIN, false, 42},
                                     {PLAIN, true, 42},
                                     {INFORMED, false, 42},
                                     {DEFAULT, false, 1000 + SIGBUS},
                                     {DEFAULT, true, 1000 + SIGBUS}};
    for (size_t i = 0; i < sizeof touches / sizeof touches[0]; i++) {
        assert_int_equal(in_child(touch, &touches[i]), touches[i].end);
    }
    assert_int_equal(in_child(handler_set_later, NULL), 0);
}

TEST(the_handler_goes_with_the_last_mapping) {
    struct sigaction before, during, after;
    int fd;
    assert_int_equal(sigaction(SIGBUS, NULL, &before), 0);
    uint8_t *pages = map_guarded(&fd);
    assert_int_equal(sigaction(SIGBUS, NULL, &during), 0);
    vr_os_disk_unmap(pages, PAGES * vr_os_page_bytes());
    vr_os_disk_close(fd);
    assert_int_equal(sigaction(SIGBUS, NULL, &after), 0);
    assert_true(during.sa_handler != before.sa_handler);
    assert_true(after.sa_handler == before.sa_handler);
}

WHOLE_FILE(make_path, remove_path)
