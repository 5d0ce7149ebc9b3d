/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_run_child.c: `vram run` finds its library and the program, says beforehand what the loader
 * will refuse, and starts the program: files of all kinds. golden.injected fails its system calls.
 */
#include "printed_text.h"
#include "run/run_child.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>

static char folder[64];

/* ---------------------------------------------------------------- the system */

static const char *exe;  /* what /proc/self/exe leads to; NULL: nothing */
static const char *real; /* what every path leads to; NULL: where it does */
static bool xattr_is_there;
static enum { FORKS, IS_CHILD } forking;
static jmp_buf child_left;
static int child_code, executed;

ssize_t __wrap_readlink(const char *path, char *to, size_t bytes);
ssize_t __wrap_readlink(const char *path, char *to, size_t bytes) {
    (void)path;
    if (exe == NULL) {
        errno = ENOENT;
        return -1;
    }
    size_t length = strlen(exe) < bytes ? strlen(exe) : bytes;
    memcpy(to, exe, length);
    return (ssize_t)length;
}

char *__real_realpath(const char *path, char *to);
char *__wrap_realpath(const char *path, char *to);
char *__wrap_realpath(const char *path, char *to) {
    return real != NULL ? strdup(real) : __real_realpath(path, to);
}

ssize_t __wrap_getxattr(const char *path, const char *name, void *value, size_t bytes);
ssize_t __wrap_getxattr(const char *path, const char *name, void *value, size_t bytes) {
    (void)path, (void)name, (void)value, (void)bytes;
    errno = ENODATA;
    return xattr_is_there ? 20 : -1;
}

pid_t __real_fork(void);
pid_t __wrap_fork(void);
pid_t __wrap_fork(void) {
    return forking == IS_CHILD ? 0 : __real_fork();
}

static int exec_error = EACCES; /* of the child that is not one */

int __real_execv(const char *path, char *const *arguments);
int __wrap_execv(const char *path, char *const *arguments);
int __wrap_execv(const char *path, char *const *arguments) {
    executed++;
    errno = exec_error;
    return forking == IS_CHILD ? -1 : __real_execv(path, arguments);
}

_Noreturn void __real__exit(int code);
_Noreturn void __wrap__exit(int code);
_Noreturn void __wrap__exit(int code) {
    if (forking == IS_CHILD) {
        child_code = code;
        longjmp(child_left, 1);
    }
    __real__exit(code);
}

/* --------------------------------------------------------------------- files */

static const char *path_of(const char *name) {
    static char path[4][200];
    static unsigned next;
    next = (next + 1) % 4;
    snprintf(path[next], sizeof path[next], "%s/%s", folder, name);
    return path[next];
}

static const char *make_file(const char *name, const void *bytes, size_t count, mode_t mode) {
    const char *path = path_of(name);
    (void)unlink(path);
    int file = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0700);
    assert_true(file >= 0);
    assert_int_equal(write(file, bytes, count), count);
    assert_int_equal(close(file), 0);
    assert_int_equal(chmod(path, mode), 0);
    return path;
}

static const char *make_text(const char *name, const char *text, mode_t mode) {
    return make_file(name, text, strlen(text), mode);
}

/* ------------------------------------------------------------------- library */

/* Where the library is, as a path below the folder of the test; NULL: an error. */
static const char *library_of(const char *from) {
    static struct run_child child;
    exe = from;
    printed_begin();
    bool good = run_child_prepare(&child);
    printed_end();
    if (good) {
        assert_non_null(child.page);
        assert_true(child.page->magic == RUN_PAGE_MAGIC);
    }
    static char library[RUN_PATH];
    snprintf(library, sizeof library, "%s", child.library);
    run_child_end(&child);
    assert_null(child.page);
    assert_int_equal(child.page_fd, -1);
    return good ? library + strlen(folder) : NULL;
}

TEST(the_library_is_found) {
    char command[200];
    assert_int_equal(mkdir(path_of("bin"), 0700), 0);
    assert_int_equal(mkdir(path_of("lib"), 0700), 0);
    assert_int_equal(mkdir(path_of("lib/vram"), 0700), 0);
    snprintf(command, sizeof command, "%s", path_of("bin/vram"));
    assert_null(library_of(NULL));
    printed_has("libvram-run.so is not beside vram");
    assert_null(library_of(command));
    printed_has("install it again");
    make_text("lib/vram/libvram-run.so", "", 0600);
    assert_string_equal(library_of(command), "/lib/vram/libvram-run.so");
    make_text("bin/libvram-run.so", "", 0600);
    assert_string_equal(library_of(command), "/bin/libvram-run.so");
    static char far[RUN_PATH + 1];
    memset(far, 'x', RUN_PATH);
    real = far; /* longer than a page has room for */
    assert_null(library_of(command));
    real = "/with a blank/libvram-run.so";
    assert_null(library_of(command));
    printed_has("/with a blank/libvram-run.so: the loader takes no path with a blank or a colon");
    real = NULL;
}

/* ------------------------------------------------------------------- program */

static int find(const char *name) {
    static struct run_child child;
    printed_begin();
    int code = run_child_find(&child, name);
    printed_end();
    return code;
}

TEST(programs_are_found_as_the_shell_does) {
    static char far[2 * RUN_PATH], path[4 * RUN_PATH];
    memset(far, 'x', sizeof far - 1);
    make_text("text", "text\n", 0600);
    assert_int_equal(find(path_of("none")), RUN_NOT_FOUND);
    assert_int_equal(find(path_of("text/below")), RUN_NOT_FOUND); /* not a folder */
    assert_int_equal(find(path_of("text")), RUN_CANNOT_EXECUTE);
    printed_has("cannot be executed: Permission denied");
    assert_int_equal(find(folder), RUN_CANNOT_EXECUTE);
    far[0] = '/';
    assert_int_equal(find(far), RUN_CANNOT_EXECUTE);
    far[0] = 'x';

    char before[4096], working[1024];
    snprintf(before, sizeof before, "%s", getenv("PATH"));
    assert_non_null(getcwd(working, sizeof working));
    assert_int_equal(setenv("PATH", "", 1), 0);
    assert_int_equal(find("true"), RUN_NOT_FOUND);
    unsetenv("PATH");
    assert_int_equal(find("true"), 0);
    snprintf(path, sizeof path, "%s:/nonexistent", folder);
    assert_int_equal(setenv("PATH", path, 1), 0);
    assert_int_equal(find("text"), RUN_CANNOT_EXECUTE); /* says more than that it is not there */
    snprintf(path, sizeof path, "%s:%s:", far, "/nonexistent");
    assert_int_equal(setenv("PATH", path, 1), 0);
    assert_int_equal(find("true"), RUN_CANNOT_EXECUTE);
    printed_has("File name too long");
    make_text("own", "#!/bin/sh\n", 0700);
    assert_int_equal(chdir(folder), 0); /* which "" is, wherever it stands */
    static const char *const paths[] = {":/nonexistent", "/nonexistent:", "/nonexistent::/", ""};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        assert_int_equal(setenv("PATH", paths[i], 1), 0);
        assert_int_equal(find("own"), 0);
    }
    assert_int_equal(chdir(working), 0);
    assert_int_equal(setenv("PATH", before, 1), 0);
}

/* What is said of an executable file before it runs; "": nothing. */
static const char *warning(const char *path) {
    assert_int_equal(find(path), 0);
    return printed;
}

TEST(the_loader_refuses_some) {
    struct {
        Elf64_Ehdr head;
        Elf64_Phdr parts[2];
    } elf = {.head = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64},
                      .e_phoff = sizeof elf.head,
                      .e_phentsize = sizeof elf.parts[0],
                      .e_phnum = 2},
             .parts = {{.p_type = PT_LOAD}, {.p_type = PT_INTERP}}};
    assert_string_equal(warning(make_file("elf", &elf, sizeof elf, 0700)), "");
    elf.parts[1].p_type = PT_NOTE;
    warning(make_file("elf", &elf, sizeof elf, 0700));
    printed_has("elf is statically linked");
    elf.parts[1].p_type = PT_INTERP;
    warning(make_file("elf", &elf, sizeof elf - 1, 0700)); /* its end is missing */
    printed_has("elf is statically linked");
    elf.head.e_phentsize = 1;
    warning(make_file("elf", &elf, sizeof elf, 0700));
    printed_has("elf is statically linked");
    elf.head.e_ident[EI_CLASS] = ELFCLASS32;
    warning(make_file("elf", &elf, sizeof elf, 0700));
    printed_has("elf is built for another word size than vram");
    elf.head.e_ident[EI_MAG0] = 'x';
    assert_string_equal(warning(make_file("elf", &elf, sizeof elf, 0700)), "");
    xattr_is_there = true;
    warning(path_of("elf"));
    printed_has("set-user-ID, set-group-ID or has capabilities");
    xattr_is_there = false;
}

TEST(scripts_have_interpreters) {
    char text[300];
    static const char *const quiet[] = {"",    "#",      "#!",          "#x ",
                                        "abc", "#!sh\n", "#!/none/x\n", "#! \t/bin/sh -e\n"};
    for (size_t i = 0; i < sizeof quiet / sizeof quiet[0]; i++) {
        assert_string_equal(warning(make_text("script", quiet[i], 0700)), "");
    }
    Elf64_Ehdr elf = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64}};
    snprintf(text, sizeof text, "#!%s\n", make_file("static", &elf, sizeof elf, 0700));
    warning(make_text("script", text, 0700));
    printed_has("static is statically linked");
    assert_int_equal(mkfifo(path_of("fifo"), 0700), 0);
    snprintf(text, sizeof text, "#!%s\n", path_of("fifo"));
    alarm(30); /* nobody will ever write there */
    assert_string_equal(warning(make_text("script", text, 0700)), "");
    alarm(0);
}

TEST(programs_that_gain_rights) {
    static const struct {
        uid_t user;
        gid_t group;
        mode_t mode;
        bool gains;
    } cases[] = {{65534, 65534, 04755, true},
                 {65534, 65534, 02755, true},
                 {65534, 65534, 00755, false},
                 {0, 0, 06755, false}};
    if (geteuid() != 0) {
        skip(); /* only root gives files away */
    }
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *path = make_text("rights", "text", 0700);
        assert_int_equal(chown(path, cases[i].user, cases[i].group), 0);
        assert_int_equal(chmod(path, cases[i].mode), 0);
        assert_int_equal(strstr(warning(path), "set-user-ID") != NULL, cases[i].gains);
    }
}

/* ------------------------------------------------------------------ starting */

static struct run_child started;
static char *const program[] = {"true", NULL};

static void start_prepare(void) {
    exe = path_of("bin/vram");
    assert_true(run_child_prepare(&started));
}

static int start(void) {
    sigset_t none;
    sigemptyset(&none);
    printed_begin();
    int code = run_child_start(&started, program, &none);
    printed_end();
    return code;
}

TEST(programs_that_do_not_start) {
    start_prepare();
    forking = FORKS;
    snprintf(started.program, sizeof started.program, "%s", make_text("plain", "exit 6", 0700));
    assert_int_equal(start(), 0); /* without #! the shell reads it */
    int status;
    assert_int_equal(waitpid(started.pid, &status, 0), started.pid);
    assert_int_equal(status, 6 << 8);
    snprintf(started.program, sizeof started.program, "%s", path_of("none"));
    assert_int_equal(start(), RUN_NOT_FOUND);
    assert_int_equal(waitpid(started.pid, NULL, 0), started.pid);
    run_child_end(&started);
}

/* As the child, up to the call that would replace it. */
static int be_child(bool to_stderr) {
    sigset_t none;
    sigemptyset(&none);
    forking = IS_CHILD;
    executed = 0;
    started.to_stderr = to_stderr;
    printed_begin();
    if (setjmp(child_left) == 0) {
        (void)run_child_start(&started, program, &none);
    }
    printed_end();
    forking = FORKS;
    assert_int_equal(child_code, RUN_CANNOT_EXECUTE);
    return executed;
}

TEST(the_environment_is_added_to) {
    char preload[RUN_PATH + 32], layers[RUN_PATH + 32];
    start_prepare();
    snprintf(preload, sizeof preload, "%s", started.library);
    snprintf(layers, sizeof layers, "%s", path_of("bin/vulkan"));
    unsetenv("ASAN_OPTIONS"); /* a sanitized build of the tests has some */
    assert_int_equal(be_child(false), 1);
    assert_string_equal(getenv("LD_PRELOAD"), preload);
    assert_string_equal(getenv("OPENCL_LAYERS"), preload);
    assert_string_equal(getenv("VK_ADD_LAYER_PATH"), layers);
    assert_string_equal(getenv("ASAN_OPTIONS"), "verify_asan_link_order=0");
    assert_string_equal(getenv("VK_INSTANCE_LAYERS"), "VK_LAYER_VRAM_run");
    assert_int_equal(started.page->settings.root, getpid());

    char *behind;
    long inherited = strtol(getenv(RUN_PAGE_VARIABLE), &behind, 10);
    assert_true(inherited >= 100 && strncmp(behind, ":vram-run-", 10) == 0);
    assert_non_null(strstr(behind, ":/proc/"));
    struct stat given, own;
    assert_int_equal(fstat((int)inherited, &given), 0);
    assert_int_equal(fstat(started.page_fd, &own), 0);
    assert_true(given.st_ino == own.st_ino && given.st_dev == own.st_dev);
    assert_int_equal(fcntl((int)inherited, F_GETFD), 0); /* through the exec */
    assert_int_equal(ftruncate((int)inherited, 0), -1);  /* nobody takes it away from others */

    assert_int_equal(setenv("LD_PRELOAD", "", 1), 0);
    assert_int_equal(setenv("OPENCL_LAYERS", "/a.so", 1), 0);
    assert_int_equal(setenv("VK_LAYER_PATH", "/layers", 1), 0);
    assert_int_equal(setenv("VK_INSTANCE_LAYERS", "VK_LAYER_other", 1), 0);
    assert_int_equal(be_child(true), 1);
    assert_string_equal(getenv("LD_PRELOAD"), preload);
    snprintf(preload, sizeof preload, "%s:/a.so", started.library);
    assert_string_equal(getenv("OPENCL_LAYERS"), preload);
    snprintf(layers, sizeof layers, "%s:/layers", path_of("bin/vulkan"));
    assert_string_equal(getenv("VK_LAYER_PATH"), layers);
    assert_string_equal(getenv("VK_INSTANCE_LAYERS"), "VK_LAYER_other:VK_LAYER_VRAM_run");

    assert_int_equal(setenv("VK_LAYER_PATH", "", 1), 0); /* as if it were not set */
    unsetenv("VK_ADD_LAYER_PATH");
    assert_int_equal(be_child(false), 1);
    assert_non_null(getenv("VK_ADD_LAYER_PATH"));

    exec_error = ENOEXEC;
    assert_int_equal(be_child(false), 2); /* the shell, too */
    exec_error = EACCES;
    run_child_end(&started);
}

static int folder_begin(void) {
    snprintf(folder, sizeof folder, "/tmp/vram_run_child_XXXXXX");
    return mkdtemp(folder) == NULL;
}

static int folder_end(void) {
    char command[128];
    unsetenv("LD_PRELOAD");
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

WHOLE_FILE(folder_begin, folder_end)
