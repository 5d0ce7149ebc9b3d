/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_system_call.c: every system call of src/base/os fails in its turn, by an error, by a signal
 * that came in between, or because something is busy. What was asked ends with a status or an empty
 * answer; no descriptor, mapping, lock or process is left.
 */
#include "base/clock.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/os/machine.h"
#include "base/os/os.h"
#include "base/os/page_file.h"
#include "base/os/platform.h"
#include "base/os/spawn.h"
#include "base/os/unix_socket.h"
#include "base/own_fd.h"
#include "unit/assert_ok.h"
#include "unit/child.h"
#include "unit/fault_step.h"
#include "unit/system_call.h"
#include "vram/vram.h"

#include <dirent.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)

static const int all_errors[] = {EIO, EINTR, EAGAIN, EACCES, ECONNABORTED, 0};

static char folder[40], path[80];
static unsigned descriptors;

/* -------------------------------------------------------------- what is left */

static int folder_make(void) {
    strcpy(folder, "/tmp/vram-system-XXXXXX");
    bool made = mkdtemp(folder);
    snprintf(path, sizeof path, "%s/file", folder);
    setenv("XDG_RUNTIME_DIR", folder, 1);
    descriptors = descriptors_open();
    return made ? 0 : -1;
}

static void folder_empty(const char *of) {
    char name[400];
    DIR *list = opendir(of);
    for (struct dirent *entry; list && (entry = readdir(list));) {
        snprintf(name, sizeof name, "%s/%s", of, entry->d_name);
        (void)unlink(name);
    }
    closedir(list);
}

static int folder_remove(void) {
    char pages[60];
    snprintf(pages, sizeof pages, "%s/vram", folder);
    if (access(pages, F_OK) == 0) {
        folder_empty(pages);
        rmdir(pages);
    }
    folder_empty(folder);
    unsetenv("XDG_RUNTIME_DIR");
    return rmdir(folder) == 0 ? 0 : -1;
}

/* After each run; the next one begins anew. */
static void nothing_open(void) {
    assert_int_equal(descriptors_open(), descriptors);
    folder_empty(folder);
    vr_error_clear();
}

static void each_fails(void (*work)(void)) {
    system_call_each(work, nothing_open, all_errors, FAULT_STEP);
}

/* ---------------------------------------------------------------------- files */

static void file_written(void) {
    int fd;
    void *pages;
    if (vr_os_disk_open(path, &fd) != VRAM_OK) {
        assert_int_not_equal(vr_error_get()->status, VRAM_OK);
        return;
    }
    if (vr_os_disk_grow(fd, 0, 4096) == VRAM_OK && vr_os_disk_map(fd, 0, 4096, &pages) == VRAM_OK) {
        *(char *)pages = 1;
        vr_os_disk_unmap(pages, 4096);
    }
    vr_os_disk_close(fd);
    vr_os_disk_close(fd); /* it is not its own any more */
}

static void text_written(void) {
    char text[64] = "";
    size_t bytes = 0;
    uint64_t length;
    int fd;
    (void)vr_os_text_append(path, "one\n", 4);
    if (vr_os_text_replace(path, "two\n", 4, NULL) == VRAM_OK &&
        vr_os_text_read(path, text, sizeof text, &bytes) == VRAM_OK) {
        assert_int_equal(bytes, 4);
        assert_memory_equal(text, "two\n", 4);
    }
    if (vr_os_disk_read_open(path, &fd, &length) == VRAM_OK) {
        vr_os_file_close(fd);
    }
}

TEST(files_and_texts) {
    each_fails(file_written);
    each_fails(text_written);
}

/* What nobody may open is replaced all the same, in a folder of one's own. */
TEST(names_in_the_way) {
    char new[100], other[100], text[8];
    size_t bytes;
    snprintf(new, sizeof new, "%s.new", path);
    snprintf(other, sizeof other, "%s/other", folder);
    assert_ok(vr_os_text_append(other, "kept", 4));
    assert_int_equal(link(other, new), 0); /* has another name */
    assert_ok(vr_os_text_replace(path, "two", 3, NULL));
    assert_int_equal(symlink(other, new), 0);
    assert_ok(vr_os_text_replace(path, "three", 5, NULL));
    assert_ok(vr_os_text_read(other, text, sizeof text, &bytes));
    assert_memory_equal(text, "kept", 4);
    assert_int_equal(vr_os_text_read(path, text, 3, &bytes), VRAM_ERR_LIMIT);
    assert_int_equal(mkdir(new, 0700), 0); /* cannot be removed as a file is */
    assert_int_equal(vr_os_text_replace(path, "four", 4, NULL), VRAM_ERR_IO);
    assert_int_equal(rmdir(new), 0);
    char longer[5000];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    assert_int_equal(vr_os_text_replace(longer, "x", 1, NULL), VRAM_ERR_LIMIT);
}

/* -------------------------------------------------------------------- sockets */

static void message_exchanged(int client, int server) {
    int passed[2], got[4];
    char byte = 0;
    uint32_t count = 4;
    size_t some;
    struct vr_os_peer peer;
    struct vr_os_poll poll = {.fd = server, .read = true};
    (void)vr_os_socket_peer(server, &peer);
    if (vr_os_shared_create("passed", 4096, &passed[0]) != VRAM_OK) {
        return;
    }
    if (vr_os_socket_send(client, "x", 1, passed, 1, &some) == VRAM_OK) {
        vr_os_poll(&poll, 1, SECOND);
        if (vr_os_socket_receive(server, &byte, 1, &some, got, &count) == VRAM_OK) {
            assert_int_equal(byte, 'x');
            assert_int_equal(count, 1);
            (void)vr_os_shared_check(got[0], 4096);
            vr_os_file_close(got[0]);
        }
    }
    if (vr_os_shared_reopen(passed[0], true, &passed[1]) == VRAM_OK) {
        vr_os_file_close(passed[1]);
    }
    vr_os_file_close(passed[0]);
}

static void sockets_used(void) {
    int listener, client, server;
    if (vr_os_socket_listen(path, &listener) != VRAM_OK) {
        assert_int_equal(access(path, F_OK), -1);
        return;
    }
    (void)vr_os_socket_admit(path);
    assert_false(vr_os_socket_is_dead(path));
    if (vr_os_socket_connect(path, vr_deadline_in(SECOND), &client) == VRAM_OK) {
        struct vr_os_poll poll = {.fd = listener, .read = true};
        vr_os_poll(&poll, 1, SECOND);
        vram_status status = vr_os_socket_accept(listener, &server);
        if (status == VRAM_OK) { /* that of is_dead, or the client's */
            message_exchanged(client, server);
            vr_os_file_close(server);
        }
        vr_os_socket_shut(client);
        vr_os_file_close(client);
    }
    vr_os_file_close(listener);
    (void)vr_os_socket_is_dead(path);
}

static bool entry_seen(void *user, const char *name) {
    (void)name;
    return ++*(int *)user < 2;
}

static void folder_used(void) {
    int fd, again, seen = 0;
    char inner[100];
    snprintf(inner, sizeof inner, "%s/vram", folder);
    (void)vr_os_folder_check(inner, true, 0);
    rmdir(inner);
    (void)vr_os_text_append(path, "x", 1);
    (void)vr_os_folder_list(folder, entry_seen, &seen);
    if (vr_os_lock_file(path, vr_deadline_in(SECOND), &fd) == VRAM_OK) {
        assert_int_not_equal(vr_os_lock_file(path, vr_deadline_in(3000000), &again), VRAM_OK);
        vr_os_file_close(fd);
    }
}

TEST(sockets_and_folders) {
    each_fails(sockets_used);
    each_fails(folder_used);
}

/* Errors of connect that only another system's state would bring. */
TEST(connects_are_refused) {
    int listener, fd;
    assert_ok(vr_os_socket_listen(path, &listener));
    static const struct {
        int error;
        vram_status status;
    } answers[] = {{EPERM, VRAM_ERR_BUSY},
                   {ECONNREFUSED, VRAM_ERR_STALE},
                   {ENOENT, VRAM_ERR_STALE},
                   {EAGAIN, VRAM_ERR_TIMEOUT},
                   {EINTR, VRAM_ERR_TIMEOUT}};
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        unsigned nth = 1; /* the call behind socket */
        vram_status status;
        do {
            system_call_plan(nth++, answers[i].error);
            status = vr_os_socket_connect(path, 0, &fd);
            if (status == VRAM_OK) {
                vr_os_file_close(fd);
            }
        } while (status != answers[i].status && nth < 9);
        system_call_plan(0, 0);
        assert_int_equal(status, answers[i].status);
    }
    size_t some;
    assert_int_equal(vr_os_socket_send(listener, "x", 1, NULL, 0, &some), VRAM_ERR_STALE);
    vr_os_file_close(listener);
    char longer[200];
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = 0;
    assert_int_equal(vr_os_socket_connect(longer, 0, &fd), VRAM_ERR_LIMIT);
    assert_int_equal(vr_os_socket_listen(longer, &listener), VRAM_ERR_LIMIT);
}

/* What comes with the bytes and is no descriptor is passed over; a wait for ever is one. */
TEST(other_control_messages) {
    int pair[2], yes = 1, got[1];
    char byte;
    size_t some;
    uint32_t count = 1;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(setsockopt(pair[1], SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes), 0);
    assert_ok(vr_os_socket_send(pair[0], "x", 1, NULL, 0, &some));
    struct vr_os_poll poll = {.fd = pair[1], .read = true};
    vr_os_poll(&poll, 1, UINT64_MAX);
    assert_true(poll.readable);
    assert_ok(vr_os_socket_receive(pair[1], &byte, 1, &some, got, &count));
    assert_int_equal(count, 0);
    vr_os_file_close(pair[0]);
    vr_os_file_close(pair[1]);
}

/* A folder of somebody else is not used, unless that user is the one who is meant. */
TEST(folders_of_others) {
    struct vr_page_file file;
    system_call.owner = vr_os_user() + 1234;
    assert_int_equal(vr_os_folder_check(folder, false, 0), VRAM_ERR_IO);
    assert_ok(vr_os_folder_check(folder, false, vr_os_user() + 1234));
    assert_int_equal(vr_page_file_place(&file), VRAM_ERR_IO);
    assert_false(vr_os_socket_is_dead(path));
    system_call.owner = 0;
}

/* ---------------------------------------------------------------------- pages */

static void page_used(void) {
    struct vr_page_file file;
    char text[100];
    int fd;
    vr_os_command_line(text, sizeof text);
    if (vr_page_file_place(&file) != VRAM_OK) {
        return;
    }
    assert_false(vr_os_process_ended(&file.process));
    if (vr_page_file_create(&file, 4096) == VRAM_OK) {
        (void)vr_page_file_peek(&file, 0, text, sizeof text);
        if (vr_page_file_open(&file, &fd) == VRAM_OK) {
            vr_os_file_close(fd);
        }
        assert_int_equal(vr_page_folder_sweep(file.folder, 8), 0);
        vr_page_file_remove(&file);
    } else {
        assert_int_equal(access(file.path, F_OK), -1);
    }
}

TEST(pages) {
    each_fails(page_used);
}

/* Somebody else's file in its place, one that was cut, and folders that cannot hold it. */
TEST(pages_replaced) {
    struct vr_page_file file, other;
    char inner[100], longer[200];
    int fd;
    assert_ok(vr_page_file_place(&file));
    assert_ok(vr_page_file_create(&file, 4096));
    assert_int_equal(vr_page_file_create(&file, 4096), VRAM_ERR_BUSY);
    assert_int_equal(truncate(file.path, 100), 0);
    assert_int_equal(vr_page_file_open(&file, &fd), VRAM_ERR_STALE);
    assert_ok(vr_os_text_append(path, "x", 1));
    assert_int_equal(rename(path, file.path), 0);
    assert_int_equal(vr_page_file_open(&file, &fd), VRAM_ERR_BUSY);
    vr_page_file_remove(&file);
    assert_int_equal(vr_page_file_open(&file, &fd), VRAM_ERR_STALE);
    assert_false(vr_page_file_peek(&file, 0, inner, sizeof inner));
    assert_int_equal(chmod(folder, 01777), 0); /* as /tmp */
    assert_ok(vr_page_file_place(&other));
    assert_string_equal(other.folder, file.folder);
    assert_int_equal(chmod(folder, 0777), 0);
    (void)vr_page_file_place(&other);
    assert_string_not_equal(other.folder, file.folder);
    assert_int_equal(chmod(folder, 0700), 0);
    snprintf(inner, sizeof inner, "%s/vram", folder);
    assert_int_equal(rmdir(inner), 0);
    assert_ok(vr_os_text_append(inner, "x", 1)); /* a file */
    (void)vr_page_file_place(&other);
    assert_string_not_equal(other.folder, file.folder);
    assert_int_equal(unlink(inner), 0);
    memset(longer, '/', sizeof longer);
    longer[sizeof longer - 1] = 0;
    setenv("XDG_RUNTIME_DIR", longer, 1);
    (void)vr_page_file_place(&other);
    assert_string_not_equal(other.folder, file.folder);
    setenv("XDG_RUNTIME_DIR", "relative", 1);
    (void)vr_page_file_place(&other);
    assert_string_not_equal(other.folder, file.folder);
}

/* Files of the sweep: of ended processes, and other names. */
TEST(sweeping) {
    static const char *const names[] = {"1-1-",
                                        "x-1-1.page",
                                        "0-1-1.page",
                                        "1-2.page",
                                        "1-2-3.oops",
                                        "1-2-3.page",
                                        ("12345678901234567890123456789012345678901234567890"
                                         "123456789012345678901234567890.page")};
    struct vr_page_file file;
    char name[300];
    pid_t child = fork();
    if (child == 0) {
        _exit(0);
    }
    siginfo_t ended;
    assert_int_equal(waitid(P_PID, (id_t)child, &ended, WEXITED | WNOWAIT), 0);
    assert_ok(vr_page_file_place(&file));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(name, sizeof name, "%s/%s", file.folder, names[i]);
        assert_ok(vr_os_text_append(name, "x", 1));
    }
    assert_int_equal(vr_page_folder_sweep(file.folder, 8), 0); /* of another pid namespace */
    struct vr_process_identity process = {.pid = (uint64_t)child,
                                          .pid_space = file.process.pid_space};
    assert_true(vr_os_process_ended(&process)); /* nobody has waited for it yet */
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_true(vr_os_process_ended(&process)); /* nobody has its number */
    process = file.process;
    process.start_ticks++;
    assert_true(vr_os_process_ended(&process)); /* another one has its number */
    process.start_ticks = 0;
    assert_false(vr_os_process_ended(&process));
    process.pid = UINT64_C(1) << 40;
    assert_false(vr_os_process_ended(&process));
    snprintf(name, sizeof name, "%s/%ld-1-%llu.sock", file.folder, (long)child,
             (unsigned long long)file.process.pid_space);
    assert_ok(vr_os_text_append(name, "x", 1));
    snprintf(name, sizeof name, "%s/%ld-2-%llu.page", file.folder, (long)child,
             (unsigned long long)file.process.pid_space);
    assert_ok(vr_os_text_append(name, "x", 1));
    assert_int_equal(vr_page_folder_sweep(file.folder, 1), 1);
    assert_int_equal(vr_page_folder_sweep(file.folder, 8), 1);
}

/* ---------------------------------------------------------------------- others */

/* A waitpid that fails leaves the child to the process, as a program that ignores SIGCHLD does. */
static void program_run(void) {
    static const char *const arguments[] = {"true", NULL};
    int code = -1;
    if (vr_os_spawn(arguments, vr_deadline_in(20 * SECOND), &code) == VRAM_OK) {
        assert_true(code == 0 || code == -1);
    }
    while (__real_waitpid(-1, NULL, 0) > 0) {
    }
}

TEST(programs) {
    static const char *const killed[] = {"sh", "-c", "kill -9 $$", NULL};
    static const char *const slow[] = {"sleep", "60", NULL};
    static char longer[5000];
    int code = 0;
    each_fails(program_run);
    assert_ok(vr_os_spawn(killed, vr_deadline_in(20 * SECOND), &code));
    assert_int_equal(code, -1);
    code = 0;
    assert_ok(vr_os_spawn(slow, vr_deadline_in(1000000), &code));
    assert_int_equal(code, -1);
    memset(longer, 'x', sizeof longer - 1);
    setenv("ASAN_OPTIONS", longer, 1); /* too long to be passed on */
    program_run();
    unsetenv("ASAN_OPTIONS");
    const char *search = getenv("PATH");
    char kept[4096];
    snprintf(kept, sizeof kept, "%s", search ? search : "");
    unsetenv("PATH");
    assert_int_equal(vr_os_spawn(slow, 0, &code), VRAM_ERR_UNSUPPORTED);
    setenv("PATH", kept, 1);
}

static void machine_asked(void) {
    struct vr_machine machine;
    uint64_t number;
    int fds[2];
    struct vr_cond cond;
    vram_value total, available;
    struct vr_numa before;
    vr_os_machine(&machine);
    assert_true(vr_os_processors() >= 1);
    (void)vr_os_descriptors_most();
    uintptr_t low, high;
    vr_os_stack_bounds(&low, &high);
    assert_true(low <= high);
    (void)vr_os_numa_run("", 0);
    if (vr_os_numa_begin(0, &before)) {
        vr_os_numa_end(&before);
    }
    assert_true(strlen(machine.cpu) > 0);
    (void)vr_os_random(&number, sizeof number);
    (void)vr_os_boot();
    vr_os_memory(&total, &available);
    if (vr_os_event_open(fds) == VRAM_OK) {
        vr_os_event_send(fds[1]);
        vr_os_event_clear(fds[0]);
        vr_own_fd_note(fds[0]);
        vr_own_fd_close(fds[0]);
        vr_own_fd_close(fds[0]); /* closed already */
        vr_os_event_close(fds[1]);
    }
    if (vr_cond_init(&cond) == VRAM_OK) {
        vr_cond_destroy(&cond);
    }
    vr_atomic_u64 *word = vr_os_fork_word();
    if (word) {
        assert_int_equal(munmap((void *)(uintptr_t)word, vr_os_page_bytes()), 0);
    }
}

static void file_in_memory_used(void) {
    char text[16] = "text";
    int fd;
    if (vr_os_file_create("test", &fd) != VRAM_OK) {
        return;
    }
    if (vr_os_file_resize(fd, 4096) == VRAM_OK &&
        vr_os_file_write(fd, 0, text, sizeof text) == VRAM_OK &&
        vr_os_file_read(fd, 0, text, sizeof text) == VRAM_OK) {
        assert_string_equal(text, "text");
    }
    vr_os_file_close(fd);
}

static void code_asked(void) {
    struct vr_code code;
    uint64_t frames[8];
    uint32_t count = vr_os_callers(frames, 8);
    for (uint32_t i = 0; i < count; i++) {
        vr_os_code_at(frames[i], &code);
    }
}

TEST(questions) {
    char longer[1000];
    vram_value total = {0}, available = {0};
    memset(longer, '/', sizeof longer);
    longer[sizeof longer - 1] = 0;
    vr_os_memory_under(longer, &total, &available);
    assert_false(vr_os_numa_run(longer, 0));
    assert_false(vr_os_numa_of_device(longer, "0000:3b:00.0").known);
    assert_false(vr_os_numa_of_device("", "0000:3b:00.0:0000:3b").known);
    assert_false(vr_os_numa_of_device("", "0000..0").known);
    vr_own_fd_note(1 << 16);
    vr_own_fd_note(-1);
    vr_own_fd_close(-1);
    vr_own_fd_close((1 << 16) + 1); /* past those that are noted, and not open */
    each_fails(machine_asked);
    each_fails(code_asked);
    each_fails(file_in_memory_used);
}

/* A clock that fails reads 0. */
TEST(clocks) {
    system_call.clock = true;
    uint64_t cpu = vr_os_thread_cpu(), date = vr_os_date(), now = vr_os_now();
    uint64_t coarse = vr_os_now_coarse();
    system_call.clock = false;
    assert_int_equal(cpu + date + now + coarse, 0);
    assert_true(vr_os_thread_cpu() > 0 && vr_os_date() > 0 && vr_os_now() > 0);
}

/* More mappings than there are rows for are not guarded, and so not made. */
TEST(mappings_guarded) {
    enum { MANY = 300 };
    static void *all[MANY];
    int fd, count = 0;
    assert_ok(vr_os_disk_open(path, &fd));
    assert_ok(vr_os_disk_grow(fd, 0, 4096));
    while (count < MANY && vr_os_disk_map(fd, 0, 4096, &all[count]) == VRAM_OK) {
        count++;
    }
    assert_in_range(count, 64, MANY - 1);
    vr_os_disk_forget(&fd); /* none of them */
    while (count) {
        vr_os_disk_unmap(all[--count], 4096);
    }
    vr_os_disk_close(fd);
}

/* The first copy of ordinary memory makes locks and a block of memory; what the system refuses is
   no copy, or one by another way. */
TEST(a_first_copy) {
    static unsigned char data[300000], back[300000];
    assert_ok(vram_option_set("staging_threads", "1"));
    assert_ok(vram_option_set("staging_idle", "0"));
    for (unsigned nth = 1, calls = 1; nth <= calls; nth++) {
        vram_context_options options = {.size = sizeof options, .backends = "sim"};
        vram_context *context;
        vram_device *device;
        vram_queue *queue;
        vram_addr addr;
        assert_ok(vram_context_create(&options, &context));
        assert_ok(vram_device_open(context, 0, &device));
        assert_ok(vram_queue_create(device, NULL, &queue));
        assert_ok(vram_device_alloc(device, sizeof data, VRAM_MEMORY_DEVICE, &addr));
        memset(data, (int)nth, sizeof data);
        system_call_plan(nth, ENOMEM);
        vram_status status = vram_transfer_upload(queue, addr, data, sizeof data, NULL, NULL);
        calls = atomic_load(&system_call.calls);
        system_call.nth = 0;
        if (status == VRAM_OK) {
            assert_ok(vram_queue_download(queue, back, addr, sizeof back));
            assert_ok(vram_queue_wait(queue, 30 * SECOND));
            assert_memory_equal(back, data, sizeof data);
        } else {
            assert_int_equal(vram_error_get()->status, status);
        }
        vram_context_destroy(context);
    }
    assert_ok(vram_option_set("staging_threads", NULL));
    assert_ok(vram_option_set("staging_idle", NULL));
}

/* As many files as can be locked at once. */
TEST(files_locked) {
    enum { MANY = 2000 };
    static int all[MANY];
    char name[100];
    int count = 0;
    vram_status status = VRAM_OK;
    while (count < MANY && status == VRAM_OK) {
        snprintf(name, sizeof name, "%s/%d", folder, count);
        status = vr_os_disk_open(name, &all[count]);
        count += status == VRAM_OK;
    }
    assert_int_equal(status, VRAM_ERR_LIMIT);
    assert_true(count >= 8);
    vr_os_disk_abandon(all[--count]);
    vr_os_disk_abandon(all[count]);
    while (count) {
        vr_os_disk_close(all[--count]);
    }
}

EACH_TEST(folder_make, folder_remove)
