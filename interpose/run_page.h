/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_page.h: the page of memory that `vram run` shares with the processes that it watches.
 *
 *      run_page
 *      +-----------------+  written by `vram run` before the program starts, then never changed
 *      | settings        |
 *      +-----------------+  one slot for each process that has used a device; the first process to
 *      | slots           |  set `pid` owns it. It stays after the process has ended.
 *      +-----------------+
 *
 * The page is a plain file. The variable RUN_PAGE_VARIABLE is DESCRIPTOR:NAME:PATH, or without NAME,
 * or PATH alone. The descriptor is inherited, and reaches the page also as another user and in
 * another namespace of users or processes; the path serves programs that are started without it.
 * Who has neither sends a message to the abstract socket of that name. What is in the page
 * survives a kill of any process. `vram run` treats texts and counts in it as hostile: another
 * program may have written there. So does the library: any user who inherited the descriptor can
 * change the page, and a process of root must not write where that user says. The path of the trace
 * is in a variable of its own, RUN_TRACE_VARIABLE.
 */
#ifndef RUN_PAGE_H
#define RUN_PAGE_H

#include <stdatomic.h>
#include <stdint.h>

#define RUN_PAGE_VARIABLE  "LIBVRAM_RUN"       /* not VRAM_*: these are options of the library */
#define RUN_TRACE_VARIABLE "LIBVRAM_RUN_TRACE" /* %p and %h are replaced; none: no trace */
#define RUN_PAGE_MAGIC     UINT64_C(0x316e75526d617276)

enum {
    RUN_PAGE_VERSION = 4,
    RUN_SLOTS = 64,        /* processes that used a device; what is more is only counted */
    RUN_DEVICES = 16,      /* of one process, of all APIs */
    RUN_PATH = 1024,       /* bytes of a path, the final 0 included; so below */
    RUN_NAME = 64,         /* of a device or a symbol */
    RUN_UNKNOWN_NAMES = 8, /* symbols that are named as unknown */
    RUN_APIS = 4
};

/* What a block of memory is. run_kinds (run_record.h) has its name and whether it counts. */
enum run_kind {
    RUN_DEVICE = 0,      /* cuMemAlloc, clCreateBuffer, vkAllocateMemory */
    RUN_STREAM = 1,      /* stream-ordered: cuMemAllocAsync of a pool of the driver */
    RUN_PHYSICAL = 2,    /* physical memory without an address: cuMemCreate */
    RUN_MANAGED = 3,     /* moves between host and device: cuMemAllocManaged, fine-grained SVM */
    RUN_ARRAY = 4,       /* arrays and images */
    RUN_CODE = 5,        /* modules: code and globals */
    RUN_CONTEXT = 6,     /* what the driver takes for a context */
    RUN_SERVED = 7,      /* stream-ordered, from the pool of --serve: a part of RUN_PHYSICAL */
    RUN_IMPORTED = 8,    /* memory of another process or API */
    RUN_PINNED = 9,      /* of the host, page-locked by the driver */
    RUN_REGISTERED = 10, /* of the host, the program's own, page-locked */
    RUN_HOST = 11,       /* of the host, otherwise */
    RUN_KINDS = 12
};

enum run_api { RUN_CUDA = 1, RUN_HIP = 2, RUN_OPENCL = 3, RUN_VULKAN = 4 };

enum run_stacks { RUN_STACKS_OFF = 0, RUN_STACKS_NATIVE = 1 };

/* What was in use on a device before the program started. */
struct run_before {
    unsigned char uuid[16];
    uint64_t used; /* bytes, plus 1; 0: unknown */
};

struct run_settings {
    uint64_t limit_bytes; /* of each device; 0: none */
    int64_t root;         /* pid of the program that `vram run` started; written before it runs */
    uint64_t pid_space;   /* in which it is: inode of /proc/self/ns/pid */
    uint32_t stacks;      /* enum run_stacks */
    uint32_t follow;      /* record children as well */
    uint32_t tree;        /* the limit is for all processes together */
    uint32_t serve;       /* stream-ordered memory comes from a libvram pool */
    struct run_before before[RUN_DEVICES];
};

/* The driver's own figures at one time, and what was counted then. */
struct run_figure {
    _Atomic(uint64_t) time_ns; /* monotonic; 0: never taken. Written last. */
    _Atomic(uint64_t) free, counted;
};

struct run_device {
    _Atomic(uint64_t) claim;  /* by the thread that describes it; 0: unused */
    _Atomic(uint32_t) api;    /* enum run_api; 0: unused. Written last. */
    uint32_t ordinal;         /* as the API counts */
    char name[RUN_NAME];      /* "" if unknown */
    unsigned char uuid[16];   /* zeros: unknown */
    _Atomic(uint64_t) total;  /* bytes, as the driver says; 0: unknown */
    _Atomic(uint64_t) before; /* used on the device before this process's first context, by all
                                 processes, plus 1; 0: unknown */
    struct run_figure first;  /* after the first context */
    struct run_figure least;  /* with the least free memory */
    struct run_figure last;
    _Atomic(uint64_t) asked; /* most bytes that were counted when the driver was asked */
    _Atomic(uint64_t) used;  /* counted towards the limit, refused requests in flight too */
    _Atomic(uint64_t) live[RUN_KINDS];
    _Atomic(uint64_t) peak[RUN_KINDS];       /* most of each kind, at different times */
    _Atomic(uint64_t) counted, counted_peak; /* of the kinds that count */
};

enum run_state { RUN_STARTED = 1, RUN_ENDED = 2 };

struct run_slot {
    _Atomic(int64_t) pid;       /* 0: free */
    uint64_t pid_space;         /* in which that is its id */
    _Atomic(uint32_t) state;    /* enum run_state; 0: its space, trace and command are not written.
                                   A process that was killed never ends */
    _Atomic(uint32_t) recorded; /* it writes a trace */
    char trace[RUN_PATH];       /* its path, valid once `recorded` is set */
    char problem[128];          /* why there is no trace; valid once `recorded` is 2 */
    char command[RUN_NAME];
    _Atomic(uint64_t) allocs, frees, refusals, limit_refusals;
    _Atomic(uint64_t) strangers; /* frees of what was never seen */
    _Atomic(uint64_t) own_ns;    /* spent in the recorder, as far as it was measured */
    _Atomic(uint64_t) unknown;   /* entry points for memory that the table does not know */
    char unknown_names[RUN_UNKNOWN_NAMES][RUN_NAME];
    struct run_device devices[RUN_DEVICES];
};

struct run_page {
    uint64_t magic;
    uint32_t version, bytes;
    struct run_settings settings;
    _Atomic(uint32_t) processes; /* that loaded the library, the program itself among them */
    _Atomic(uint32_t) slotless;  /* processes that found no free slot */
    _Atomic(uint32_t) unlayered[RUN_APIS]; /* processes that had the API's loader, which did not
                                              load the layer; by enum run_api, minus 1 */
    struct run_slot slots[RUN_SLOTS];
};

#endif
