/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_child.c: see run_child.h.
 *
 * The page is a file in memory, whose descriptor the program inherits. Programs that it starts
 * without that open it by way of /proc: so nothing is left behind, however this process ends.
 */
#include "run_child.h"
#include "environment.h"
#include "output.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <unistd.h>

#ifndef VRAM_RUN_LIBRARY_FOLDER
#define VRAM_RUN_LIBRARY_FOLDER "lib/vram"
#endif

enum { INHERITED_FD = 500, LEAST_FD = 10, LOST_MAX = 1000 };

/* ------------------------------------------------------------------ preparations */

/* Of a fixed size: a process that could make it smaller would end all others by SIGBUS. */
static bool page_make(struct run_child *child) {
    child->page_fd = memfd_create("vram-run", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (child->page_fd < 0 || ftruncate(child->page_fd, sizeof *child->page) != 0) {
        return false;
    }
    (void)fcntl(child->page_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    void *bytes =
        mmap(NULL, sizeof *child->page, PROT_READ | PROT_WRITE, MAP_SHARED, child->page_fd, 0);
    if (bytes == MAP_FAILED) {
        return false;
    }
    child->page = bytes;
    child->page->magic = RUN_PAGE_MAGIC;
    child->page->version = RUN_PAGE_VERSION;
    child->page->bytes = sizeof *child->page;
    return true;
}

/* Its name is not guessed: other users could say that programs are lost. Without a socket those
   programs are silent. */
static void lost_listen(struct run_child *child) {
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    uint64_t token[2];
    if (getrandom(token, sizeof token, 0) != (ssize_t)sizeof token) {
        return;
    }
    char name[sizeof child->lost_name] = "";
    int bytes =
        snprintf(name, sizeof name, "vram-run-%016" PRIx64 "%016" PRIx64 ":", token[0], token[1]);
    bytes--;                                      /* without the colon */
    memcpy(at.sun_path + 1, name, (size_t)bytes); /* behind a 0: no file */
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)bytes);
    child->lost_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (child->lost_fd >= 0 && bind(child->lost_fd, (struct sockaddr *)&at, length) == 0) {
        memcpy(child->lost_name, name, sizeof name);
    }
}

unsigned run_child_lost(struct run_child *child) {
    unsigned count = 0;
    char byte;
    while (child->lost_fd >= 0 && count < LOST_MAX && recv(child->lost_fd, &byte, 1, 0) >= 0) {
        count++;
    }
    return count;
}

/* Beside the command, as in a build; or where both were installed. */
static bool library_find(struct run_child *child) {
    static const char *const places[] = {"libvram-run.so",
                                         "../" VRAM_RUN_LIBRARY_FOLDER "/libvram-run.so",
                                         "../lib/vram/libvram-run.so"};
    char folder[RUN_PATH];
    ssize_t bytes = readlink("/proc/self/exe", folder, sizeof folder - 1);
    if (bytes < 0) {
        return false;
    }
    folder[bytes] = 0;
    const char *own = dirname(folder);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        char path[2 * RUN_PATH], *whole;
        snprintf(path, sizeof path, "%s/%s", own, places[i]);
        whole = realpath(path, NULL);
        if (whole != NULL && strlen(whole) < sizeof child->library) {
            snprintf(child->library, sizeof child->library, "%s", whole);
            free(whole);
            return true;
        }
        free(whole);
    }
    return false;
}

bool run_child_prepare(struct run_child *child) {
    *child = (struct run_child){.page_fd = -1, .lost_fd = -1};
    if (!library_find(child)) {
        say_error(VRAM_RUN_IS_BUILT
                      ? "libvram-run.so is not beside vram, nor in ../" VRAM_RUN_LIBRARY_FOLDER
                        " as installed; install it again"
                      : "this vram was built without libvram-run.so, which needs glibc; build it "
                        "with glibc");
        return false;
    }
    if (strpbrk(child->library, " :") != NULL) { /* both end a name in LD_PRELOAD */
        say_error("%s: the loader takes no path with a blank or a colon; install it elsewhere",
                  child->library);
        return false;
    }
    if (!page_make(child)) {
        say_error("cannot make a page of shared memory: %s", strerror(errno));
        return false;
    }
    lost_listen(child);
    return true;
}

void run_child_end(struct run_child *child) {
    if (child->page != NULL) {
        munmap(child->page, sizeof *child->page);
    }
    if (child->page_fd >= 0) {
        close(child->page_fd);
    }
    if (child->lost_fd >= 0) {
        close(child->lost_fd);
    }
    *child = (struct run_child){.page_fd = -1, .lost_fd = -1};
}

/* ------------------------------------------------------------------- the program */

/* What the loader does with a file. */
enum program_kind { PROGRAM_DYNAMIC, PROGRAM_STATIC, PROGRAM_FOREIGN, PROGRAM_SCRIPT };

#if UINTPTR_MAX == UINT32_MAX
#define OWN_CLASS ELFCLASS32
#else
#define OWN_CLASS ELFCLASS64
#endif

/* Whether an ELF file asks for the loader of shared libraries. */
static enum program_kind elf_kind(int fd, const Elf64_Ehdr *head) {
    Elf64_Phdr part;
    if (head->e_ident[EI_CLASS] != OWN_CLASS) {
        return PROGRAM_FOREIGN;
    }
    for (unsigned i = 0; i < head->e_phnum && head->e_phentsize == sizeof part; i++) {
        if (pread(fd, &part, sizeof part, (off_t)(head->e_phoff + i * sizeof part)) !=
            (ssize_t)sizeof part) {
            break;
        }
        if (part.p_type == PT_INTERP) {
            return PROGRAM_DYNAMIC;
        }
    }
    return PROGRAM_STATIC;
}

/* For a script *next is its interpreter. What cannot be read is left to the kernel. */
static enum program_kind kind_of(const char *path, char *next, size_t bytes) {
    union {
        Elf64_Ehdr elf;
        char text[256];
    } head = {.text = ""};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* an interpreter may be anything */
    ssize_t got = fd >= 0 ? pread(fd, &head, sizeof head - 1, 0) : -1;
    enum program_kind kind = PROGRAM_DYNAMIC;
    if (got > 2 && head.text[0] == '#' && head.text[1] == '!') {
        const char *from = head.text + 2 + strspn(head.text + 2, " \t");
        snprintf(next, bytes, "%.*s", (int)strcspn(from, " \t\n"), from);
        kind = PROGRAM_SCRIPT;
    } else if (got >= (ssize_t)sizeof head.elf && memcmp(head.elf.e_ident, ELFMAG, SELFMAG) == 0) {
        kind = elf_kind(fd, &head.elf);
    }
    if (fd >= 0) {
        close(fd);
    }
    return kind;
}

/* The loader gives no library to a program that gains rights by being run. */
static bool gains_rights(const char *path) {
    struct stat about;
    if (stat(path, &about) != 0) {
        return false;
    }
    bool user = (about.st_mode & S_ISUID) != 0 && about.st_uid != geteuid();
    bool group = (about.st_mode & S_ISGID) != 0 && about.st_gid != getegid();
    return user || group || getxattr(path, "security.capability", NULL, 0) > 0;
}

static void warn_of(const char *path) {
    char file[RUN_PATH], next[RUN_PATH] = "";
    snprintf(file, sizeof file, "%s", path);
    enum program_kind kind = kind_of(file, next, sizeof next);
    if (kind == PROGRAM_SCRIPT && next[0] == '/') {
        snprintf(file, sizeof file, "%s", next);
        kind = kind_of(file, next, sizeof next);
    }
    if (kind == PROGRAM_STATIC) {
        say_warning("%s is statically linked: nothing of it can be intercepted, only of programs "
                    "that it starts (--follow-children)",
                    file);
    } else if (kind == PROGRAM_FOREIGN) {
        say_warning("%s is built for another word size than vram: nothing of it can be "
                    "intercepted",
                    file);
    } else if (gains_rights(file)) {
        say_warning("%s is set-user-ID, set-group-ID or has capabilities: the loader refuses the "
                    "library, and nothing can be intercepted; run it as the user that it becomes",
                    file);
    }
}

static int cannot_execute(const char *name, int error) {
    say_error("%s: cannot be executed: %s", name, strerror(error));
    return error == ENOENT || error == ENOTDIR ? RUN_NOT_FOUND : RUN_CANNOT_EXECUTE;
}

/* 0, or the errno that executing it would fail with. */
static int try_file(const char *path) {
    struct stat about;
    if (stat(path, &about) != 0) {
        return errno;
    }
    return S_ISREG(about.st_mode) && access(path, X_OK) == 0 ? 0 : EACCES;
}

int run_child_find(struct run_child *child, const char *name) {
    int error = ENOENT;
    const char *at = environment_get("PATH");
    at = at != NULL ? at : "/usr/bin:/bin";
    if (strchr(name, '/') != NULL) {
        snprintf(child->program, sizeof child->program, "%s", name);
        error = strlen(name) < sizeof child->program ? try_file(name) : ENAMETOOLONG;
        at = NULL;
    }
    while (at != NULL && error != 0) {
        size_t bytes = strcspn(at, ":");
        int got = snprintf(child->program, sizeof child->program, "%.*s%s%s", (int)bytes, at,
                           bytes > 0 ? "/" : "./", name); /* "" is the working folder */
        int why = (size_t)got < sizeof child->program ? try_file(child->program) : ENAMETOOLONG;
        error = why == 0 || error == ENOENT ? why : error; /* EACCES says more than "not there" */
        at = at[bytes] == ':' ? at + bytes + 1 : NULL;
    }
    if (error != 0) {
        return cannot_execute(name, error);
    }
    warn_of(child->program);
    return 0;
}

/* ---------------------------------------------------------------------- starting */

/* NAME=ours, or ours before or behind what it was, with a colon between the two. */
static bool variable_add(const char *name, const char *ours, bool lead) {
    const char *before = environment_get(name);
    if (before == NULL || *before == 0) {
        return setenv(name, ours, 1) == 0;
    }
    size_t bytes = strlen(ours) + strlen(before) + 2;
    char *text = malloc(bytes);
    bool good = text != NULL;
    if (good) {
        snprintf(text, bytes, "%s:%s", lead ? ours : before, lead ? before : ours);
        good = setenv(name, text, 1) == 0;
    }
    free(text);
    return good;
}

/* The loaders of OpenCL and Vulkan take the library as a layer, the one next to the drivers. A path
   of the user's own for Vulkan's layers replaces all others. */
static bool layers_set(const char *library) {
    char folder[RUN_PATH + 16];
    snprintf(folder, sizeof folder, "%.*s/vulkan", (int)(strrchr(library, '/') - library), library);
    const char *own = environment_get("VK_LAYER_PATH");
    return variable_add("OPENCL_LAYERS", library, true) &&
           variable_add(own != NULL && *own != 0 ? "VK_LAYER_PATH" : "VK_ADD_LAYER_PATH", folder,
                        true) &&
           variable_add("VK_INSTANCE_LAYERS", "VK_LAYER_VRAM_run", false);
}

/* The descriptor is one that programs do not use by number, if so many are allowed. */
static bool environment_set(const struct run_child *child, pid_t parent) {
    char path[128], inherited[64] = "";
    int fd = -1;
    for (int number = INHERITED_FD; fd < 0 && number >= LEAST_FD; number /= 2) {
        fd = fcntl(child->page_fd, F_DUPFD, number);
    }
    if (fd >= 0) {
        snprintf(inherited, sizeof inherited, "%d:%s", fd, child->lost_name);
    }
    snprintf(path, sizeof path, "%s/proc/%ld/fd/%d", inherited, (long)parent, child->page_fd);
    return setenv(RUN_PAGE_VARIABLE, path, 1) == 0 &&
           setenv(RUN_TRACE_VARIABLE, child->trace, 1) == 0 &&
           variable_add("LD_PRELOAD", child->library, true) && layers_set(child->library) &&
           /* else a program with a shared ASan ends because that is not the first library */
           variable_add("ASAN_OPTIONS", "verify_asan_link_order=0", true);
}

/* A script that names no interpreter, as execvp runs it. Returns if that fails. */
static void shell_exec(const char *script, char *const *words) {
    size_t count = 0;
    while (words[count] != NULL) {
        count++;
    }
    const char **all = calloc(count + 2, sizeof *all); /* the last one stays NULL */
    if (all != NULL) {
        all[0] = "/bin/sh";
        all[1] = script;
        memcpy(all + 2, words + 1, (count - 1) * sizeof *all);
        execv(all[0], (char *const *)(uintptr_t)all);
        free(all);
    }
}

/* In the child. What fails is told to the parent: it would be mistaken for the program's own. */
static void child_exec(const struct run_child *child, pid_t parent, char *const *words,
                       const sigset_t *signals, int tell) {
    struct stat space;
    child->page->settings.root = getpid();
    child->page->settings.pid_space = stat("/proc/self/ns/pid", &space) == 0 ? space.st_ino : 0;
    sigprocmask(SIG_SETMASK, signals, NULL);
    output_start_program();
    if (child->to_stderr) {
        dup2(STDERR_FILENO, STDOUT_FILENO);
    }
    if (environment_set(child, parent)) {
        execv(child->program, words);
    }
    int error = errno;
    if (error == ENOEXEC) {
        shell_exec(child->program, words);
    }
    ssize_t ignored = write(tell, &error, sizeof error);
    (void)ignored;
    _exit(RUN_CANNOT_EXECUTE);
}

int run_child_start(struct run_child *child, char *const *words, const sigset_t *signals) {
    int pipe_fds[2], error = 0;
    pid_t parent = getpid();
    if (pipe2(pipe_fds, O_CLOEXEC) != 0) {
        say_error("cannot start %s: %s", words[0], strerror(errno));
        return RUN_CANNOT_EXECUTE;
    }
    child->pid = fork();
    if (child->pid == 0) {
        child_exec(child, parent, words, signals, pipe_fds[1]);
    }
    if (child->pid < 0) {
        error = errno;
    }
    close(pipe_fds[1]);
    if (child->pid > 0 && read(pipe_fds[0], &error, sizeof error) != (ssize_t)sizeof error) {
        error = 0; /* closed by the exec */
    }
    close(pipe_fds[0]);
    return error == 0 ? 0 : cannot_execute(words[0], error);
}
