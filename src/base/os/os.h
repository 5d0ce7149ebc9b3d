/* SPDX-License-Identifier: Apache-2.0 */
/*
 * os.h: every system call that the library makes, in one folder, so that a port is one folder.
 * posix.c has what all Unixes share, fork.c handles forks, fault.c has the fault plan for tests;
 * linux.c (with meminfo.c) and darwin.c have the rest, behind the interface of platform.h.
 *
 * Failures return VRAM_ERR_IO, _HOST_MEMORY or _LIMIT with errno as native code, backend "os" and
 * the system call as operation. EINTR is retried. All descriptors are close-on-exec.
 */
#ifndef VR_OS_H
#define VR_OS_H

#include "base/atomic.h"
#include "vram/base.h"

/* -------------------------------------------------------------------- pages */

size_t vr_os_page_bytes(void);
/* Physical memory of the machine and what is available now, both within the limit of the process's
   control group, if there is one. Values that cannot be read are unknown. */
void vr_os_memory(vram_value *total, vram_value *available);
/* Physical memory of the machine, whatever the process may use of it. */
vram_value vr_os_memory_installed(void);

/* Fresh zeroed readable and writable pages; `bytes` a multiple of the page. */
vram_status vr_os_pages_alloc(uint64_t bytes, void **pages);
/* The same, shared with forked children: a fork never gives the parent other memory for them, so
   that what a driver has locked stays what the process sees. */
vram_status vr_os_pages_alloc_shared(uint64_t bytes, void **pages);
/* Makes these pages read as zeros in a child, whether created by fork or by a raw clone. Does
   nothing where the system cannot. */
void vr_os_pages_wipe(void *pages, uint64_t bytes);
/* Addresses without memory or access, aligned to `align` (a power of two >= page). */
vram_status vr_os_pages_reserve(uint64_t bytes, uint64_t align, void **pages);
/* Asks for large pages from now on, if the system has them; best aligned to 2 MiB. */
void vr_os_pages_enlarge(void *pages, uint64_t bytes);
/* Unmaps the whole of what alloc or reserve returned. */
vram_status vr_os_pages_free(void *pages, uint64_t bytes);
/* Locks pages in memory. VRAM_ERR_LIMIT when the system's limit is reached. */
vram_status vr_os_pages_lock(void *pages, uint64_t bytes);
void vr_os_pages_unlock(void *pages, uint64_t bytes);

/* memcpy for data that is not read again soon: nontemporal_copy.c. */
void vr_os_copy_nontemporal(void *to, const void *from, size_t bytes);

/* --------------------------------------------------------------- NUMA nodes */

/* The node that a PCI device, "0000:3b:00.0", is attached to; unknown if the system does not say.
   `root` is a prefix of the path for tests, otherwise "". */
vram_value vr_os_numa_of_device(const char *root, const char *pci);
/* The node that the page at `address` lies on; unknown if the system does not say. */
vram_value vr_os_numa_of_page(const void *address);

/* A thread's memory policy. */
struct vr_numa {
    int policy;
    unsigned long nodes[16]; /* a bit mask */
};
/* Places new pages of the calling thread on `node` if it has free memory, until vr_os_numa_end.
   False: the system refused, and vr_os_numa_end must not be called. */
bool vr_os_numa_begin(uint64_t node, struct vr_numa *before);
void vr_os_numa_end(const struct vr_numa *before);
/* Restricts the calling thread to the processors of `node` that it may use. False: nothing
   changed. */
bool vr_os_numa_run(const char *root, uint64_t node);

/* -------------------------------------------------------- files in memory */

/* An anonymous sparse file; `fd` is close-on-exec. */
vram_status vr_os_file_create(const char *name, int *fd);
void vr_os_file_close(int fd);
/* How many descriptors the process may have open; 0: unknown. */
uint64_t vr_os_descriptors_most(void);
vram_status vr_os_file_resize(int fd, uint64_t bytes);
/* Frees the memory behind [offset, offset + bytes); it reads as zeros again. */
vram_status vr_os_file_punch(int fd, uint64_t offset, uint64_t bytes);
vram_status vr_os_file_read(int fd, uint64_t offset, void *to, uint64_t bytes);
vram_status vr_os_file_write(int fd, uint64_t offset, const void *from, uint64_t bytes);
/* Maps a part of the file over reserved pages at `pages`, without access. */
vram_status vr_os_file_map(int fd, uint64_t offset, void *pages, uint64_t bytes);
/* Makes pages readable and writable. */
vram_status vr_os_pages_access(void *pages, uint64_t bytes);
vram_status vr_os_pages_read_only(void *pages, uint64_t bytes);
/* Turns a mapped part back into reserved pages without memory. Nothing but the kernel's limit on
   the number of mappings can make it fail. */
vram_status vr_os_pages_unmap(void *pages, uint64_t bytes);

/* A file in memory for other processes, sealed at its size: nobody can cut or lengthen it.
   VRAM_ERR_UNSUPPORTED where the system has no seals. */
vram_status vr_os_shared_create(const char *name, uint64_t bytes, int *fd);
/* VRAM_ERR_INVALID unless it is such a file and has at least that many bytes. */
vram_status vr_os_shared_check(int fd, uint64_t bytes);
/* A second descriptor of the file; `read_only`: one that nobody can map for writing. */
vram_status vr_os_shared_reopen(int fd, bool read_only, int *out);
/* A second descriptor with the same rights. */
vram_status vr_os_shared_duplicate(int fd, int *out);

/* ------------------------------------------------------------ files on disk */

/* Opens or creates a file for writing, locks it, and truncates it. VRAM_ERR_BUSY if it is locked by
   another open of it, in this process or another; VRAM_ERR_INVALID if it is not a plain file;
   VRAM_ERR_LIMIT for more than eight at a time. It is closed in a forked child. */
vram_status vr_os_disk_open(const char *path, int *fd);
/* Unlocks and closes it. */
void vr_os_disk_close(int fd);
/* Closes it in a forked child, where it is open only if fork handlers did not run: the parent keeps
   the lock. */
void vr_os_disk_abandon(int fd);
/* Allocates disk blocks for [offset, offset + bytes); new bytes are zero. VRAM_ERR_IO also if the
   file was truncated below `offset`. */
vram_status vr_os_disk_grow(int fd, uint64_t offset, uint64_t bytes);
/* Maps a part of a file for reading and writing; not inherited by a forked child. If another
   process truncates the file, what is written past its end is lost, without any other effect. */
vram_status vr_os_disk_map(int fd, uint64_t offset, uint64_t bytes, void **pages);
/* Has its pages ready for writing: cheaper at once than page by page. */
void vr_os_disk_populate(void *pages, uint64_t bytes);
void vr_os_disk_unmap(void *pages, uint64_t bytes);
/* Forgets, in a forked child, what its parent has mapped. */
void vr_os_disk_forget(const void *pages);
/* Whether the file still has that many bytes: another process may truncate it. */
bool vr_os_disk_reaches(int fd, uint64_t bytes);

/* Opens a plain file for reading and returns its length. VRAM_ERR_INVALID if it is not a plain
   file, with the native code EISDIR for a folder. Read it with vr_os_file_read, close it with
   vr_os_file_close. */
vram_status vr_os_disk_read_open(const char *path, int *fd, uint64_t *bytes);

/* append adds text to the end of a file in one write and creates the file if needed. read reads a
   whole file of fewer than `capacity` bytes; VRAM_ERR_LIMIT if it is longer. Neither blocks:
   VRAM_ERR_INVALID for a pipe, a socket or a folder. */
vram_status vr_os_text_append(const char *path, const char *text, size_t bytes);
vram_status vr_os_text_read(const char *path, char *text, size_t capacity, size_t *bytes);

/* Replaces the file's text, completely or not at all: writes it to path.new and renames that. A
   path.new that a process left behind when it ended is taken over. On a file system without locks
   two writers at once may leave a mixture, which a checksum in the text detects. Creates missing
   folders, for this user only. Never blocks. VRAM_ERR_IO, VRAM_ERR_BUSY if another process is
   writing it, VRAM_ERR_LIMIT for a path that is too long. Only this user can read the file, and
   `*reader` (NULL: nobody else), which is VRAM_ERR_UNSUPPORTED on file systems without access
   lists. */
vram_status vr_os_text_replace(const char *path, const char *text, size_t bytes,
                               const uint32_t *reader);

/* ------------------------------------------------------------------- events */

/* A descriptor that the program polls, fds[0], and one by which vr_os_event_send makes it readable,
   fds[1]: an eventfd, or a pipe where there is none. Each is closed by itself, in any order. */
vram_status vr_os_event_open(int fds[2]);
void vr_os_event_send(int fd);
void vr_os_event_close(int fd);
/* Makes fds[0] unreadable again. */
void vr_os_event_clear(int fd);

/* ------------------------------------------------------------------ threads */

/* Must not move between start and join: the new thread reads it. */
struct vr_thread {
    uintptr_t native; /* the system's handle */
    bool running;     /* started and not yet joined */
    void (*run)(void *argument);
    void *argument;
    char name[16]; /* what debuggers show */
};

/* All signals are blocked in the new thread. `name` is cut at 15 bytes. */
vram_status vr_os_thread_start(struct vr_thread *thread, const char *name, void (*run)(void *),
                               void *argument);
/* Waits until it ends; accepts a thread that is not running. */
void vr_os_thread_join(struct vr_thread *thread);
/* Detaches it instead: nothing waits for its end. */
void vr_os_thread_detach(struct vr_thread *thread);
extern _Thread_local uint64_t vr_os_thread_own __attribute__((tls_model("initial-exec")));
uint64_t vr_os_thread_number_first(void);
/* The calling thread's number, unique among all threads the process ever had; never 0. */
static inline uint64_t vr_os_thread_number(void) {
    uint64_t own = vr_os_thread_own;
    return __builtin_expect(own != 0, 1) ? own : vr_os_thread_number_first();
}
/* Between the two the calling thread cannot be cancelled (pthread_cancel); they nest. No call of
   the library is a cancellation point, since a cancelled call would leave its locks and references
   behind. So every system call that may be one, and all code outside the library (drivers,
   callbacks of the program), runs between the two. */
struct vr_os_cancellation {
    uint32_t depth;
    int before; /* state before the outermost call */
};
extern _Thread_local struct vr_os_cancellation vr_os_cancellation
    __attribute__((tls_model("initial-exec")));
void vr_os_cancel_off_first(void);
void vr_os_cancel_on_last(void);
static inline bool vr_os_cancel_off(void) {
    if (vr_os_cancellation.depth++ == 0) {
        vr_os_cancel_off_first();
    }
    return true;
}
static inline void vr_os_cancel_on(const bool *unused) {
    (void)unused;
    if (--vr_os_cancellation.depth == 0) {
        vr_os_cancel_on_last();
    }
}
/* Disables cancellation until the end of the enclosing block. */
#define VR_UNCANCELLED                                                                             \
    __attribute__((cleanup(vr_os_cancel_on), unused)) const bool vr_uncancelled = vr_os_cancel_off()
/* Processors that the calling thread may run on; at least 1. */
uint32_t vr_os_processors(void);
void vr_os_yield(void);
void vr_os_pause(void); /* the CPU's hint in a spin loop */

/* Calls `end` at the end of a thread with the value that the thread has set; false: it cannot. At
   most one such hook in the process. */
bool vr_os_thread_end_start(void (*end)(void *value));
void vr_os_thread_end_set(void *value);
/* Calls `end` with the argument when the calling thread ends, before the hook above and those of
   drivers, which still know the thread then. False: the system cannot. */
bool vr_os_thread_end_first(void (*end)(void *argument), void *argument);

/* Prepares vr_os_barrier for this process. False if the system has no such barrier, and under
   ThreadSanitizer, which does not understand it. */
bool vr_os_barrier_start(void);
/* Every other thread of the process executes a full memory barrier before this returns. So the
   frequent side of an ordering needs only plain stores and loads. False: the system refused. */
bool vr_os_barrier(void);

/* --------------------------------------------------------------------- time */

uint64_t vr_os_now(void);        /* monotonic ns; 0 when the clock fails */
uint64_t vr_os_now_coarse(void); /* the same as of the last timer tick, if that is cheaper */
uint64_t vr_os_now_recent(void); /* the same, at most a millisecond old on this thread */
uint64_t vr_os_date(void);       /* ns since 1970; 0 when the clock fails */
void vr_os_sleep(uint64_t ns);

/* ------------------------------------------------------------------ process */

/* secure_getenv: NULL in set-id programs. */
const char *vr_os_environment(const char *name);
/* All variables, for finding unknown VRAM_* ones; NULL-terminated, NULL in set-id programs. */
char **vr_os_environment_all(void);
/* Writes one line, which includes its newline, to standard error in a single write. */
void vr_os_stderr(const char *text, size_t bytes);

/* A number that differs in a forked child, however it was created (a page wiped on fork, and
   pthread_atfork). Cheap: one load. */
uint64_t vr_os_process_generation(void);
/* The process id. */
uint64_t vr_os_process_id(void);
/* The name of the running program, without its folder; "" if the system does not tell. */
void vr_os_program_name(char *name, size_t capacity);
/* Runs these functions at a fork: `prepare` in reverse order of registration, the others in order.
   NULL functions are skipped. At most 8; never removed. Locks need no handler: see lock.h.
   VRAM_ERR_LIMIT if the table is full. */
vram_status vr_os_at_fork(void (*prepare)(void), void (*parent)(void), void (*child)(void));
/* Runs `fn` when the process exits normally. */
vram_status vr_os_at_exit(void (*fn)(void));
/* Records that the process is exiting: no thread calls a driver from now on. */
void vr_os_exit_begins(void);
extern vr_atomic_bool vr_os_exit_began;
static inline bool vr_os_exiting(void) {
    return vr_load(&vr_os_exit_began, VR_ACQUIRE);
}

/* Shared libraries: a handle or NULL with the reason copied into `why`. */
void *vr_os_library_open(const char *name, char *why, size_t why_bytes);
void *vr_os_library_symbol(void *library, const char *name); /* library NULL: in all of them */
void vr_os_library_close(void *library);
/* Whether the process has loaded it, whoever did. Takes the loader's lock. */
bool vr_os_library_is_loaded(const char *name);

/* Whether there is a folder at the path that is not empty. */
bool vr_os_folder_has_entries(const char *path);

/* -------------------------------------------------------------- who called */

/* The module that contains an address: its file name without the folder, and where it lies. */
struct vr_module {
    char name[64];
    uintptr_t low, high;
};
/* Finds it and keeps it loaded until the process ends; false: there is none, or the system does not
   tell. Takes the loader's lock. */
bool vr_os_module_keep(const void *address, struct vr_module *module);

/* Copies memory of this process that another thread may unmap meanwhile; false: some of it is not
   there, or the system does not allow it. Takes a microsecond, however many parts there are. */
enum { VR_MEMORY_PARTS = 4 };
struct vr_memory_part {
    uintptr_t from;
    void *to;
    size_t bytes;
};
bool vr_os_memory_copy(const struct vr_memory_part *parts, unsigned count);
/* Whether the calling thread is the one that the process began with, or was forked with. */
bool vr_os_thread_is_first(void);

/* Return addresses of the calling thread, innermost first, some of them in the library itself;
   returns their number. May wait for the loader of shared libraries: not for use in thread caches
   or with a lock held. */
uint32_t vr_os_callers(uint64_t *frames, uint32_t capacity);

/* What the file of a module says about a code address; names are empty if unknown and truncated if
   they do not fit. */
enum { VR_CODE_FILE = 48 };
struct vr_code_source {
    char function[120];       /* by the symbol table */
    uint64_t function_offset; /* from the function's start */
    char file[VR_CODE_FILE];  /* by the debug information: file name without its folder */
    uint32_t line;
};

/* What lies at a code address, as far as it is known. The names are borrowed until the module is
   unloaded. Names in `source` live as long as the struct, which must not be copied then. */
struct vr_code {
    const char *module;       /* file name; NULL: unknown */
    uint64_t module_offset;   /* from its load address */
    const char *function;     /* NULL: unknown */
    uint64_t function_offset; /* from the function's start */
    bool ours;                /* in the module that holds this library */
    struct vr_code_source source;
};
/* May read the file that holds the code: for reports, with no lock held. */
void vr_os_code_at(uint64_t pc, struct vr_code *symbol);

/* -------------------------------------------------------------------- tests */

/* Makes the n-th fallible system call from now fail with `error` (an errno), once or for ever; 0
   ends the plan. Each call of these counts: pages_alloc, _alloc_shared, _reserve, _lock, _access,
   file_create, _resize, _read, _write, _map, disk_open, _grow, _map, _read_open, event_open,
   thread_start and at_exit. Calls that release do not: pages_free, _unlock, _unmap, file_punch,
   _close. */
void vr_os_fail_at(uint64_t nth, bool for_ever, int error);
uint64_t vr_os_calls(void);  /* since the plan was set */
uint64_t vr_os_failed(void); /* failed by the plan */

#endif
