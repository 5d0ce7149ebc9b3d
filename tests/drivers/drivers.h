/* SPDX-License-Identifier: Apache-2.0 */
/*
 * drivers.h: what the program `drivers` knows of a backend's driver: how to make its calls fail,
 * lie or be missing, and, in tables, what must come of that. A driver is one file, driver_*.c; the
 * engines in driver_engines.c and the program in driver_program.c serve all.
 */
#ifndef TEST_DRIVERS_H
#define TEST_DRIVERS_H

#include "fake/driver_entry.h"
#include "vram/vram.h"

#include <limits.h>

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])
#define ANY_CODE        INT_MAX
#define ANY_UNSUPPORTED (INT_MAX - 1) /* those that are VRAM_ERR_UNSUPPORTED */

/* ------------------------------------------------------------------ program */

/* A program that uses all of a device by public calls; it stops at the first that fails. */
struct program {
    const struct driver *driver;
    vram_context *context;
    vram_device *device, *other; /* the second one, or the same once more */
    vram_device_info info;
    vram_queue *queue, *adopted, *third, *far;
    vram_pool *pool;
    vram_addr addr, second, pinned, managed, range, block, other_addr;
    vram_physical *physical;
    vram_kernel *kernel;
    bool mapped;
    void *native;       /* the queue's */
    bool open;          /* the device was opened */
    bool ending;        /* it gives back: a call without a status may fail, too */
    const char *step;   /* the call that failed first; NULL: none did */
    vram_status status; /* its answer */
    vram_error error;   /* and its record; of a backend that is absent, the reason alone */
};

/* Notes the answer of a call; whether the program goes on. */
bool step(struct program *program, const char *name, vram_status status);
#define STEP(program, call) step(program, #call, call)

/* Whether the backend is there; else its reason is noted. */
bool present(struct program *program, vram_context *context);

/* The device is open then. */
bool program_open(struct program *program, const struct driver *driver);
void program_work(struct program *program);
void program_end(struct program *program);

/* ------------------------------------------------------------------- tables */

/* What a code becomes, by this table and not by the backend's. The first row that fits counts. */
struct code_row {
    int first, last;
    vram_status status;
};

/* Where a failing call becomes something else than that: VRAM_OK, the program goes on without, or
   another way; else that status. */
struct excuse {
    const char *entry; /* or its beginning and a star */
    int code;          /* or one of the two above */
    vram_status status;
    enum {
        NAMED,
        OR_USUAL = 1,
        UNNAMED = 2,
        OR_PASS = 4
    } how; /* or what the code is elsewhere; the record tells of
                                                      another call or code */
};

/* A call that succeeds with what cannot be, once or for ever; the program is told so. */
struct lie {
    const char *call;
    int kind; /* the driver's; from 1 */
    bool for_ever;
};

/* A driver that is not the usual one, and what is said of it then. */
struct answer {
    const char *what;
    unsigned manner;
    int key;             /* a setting of the driver; 0: none */
    long value;          /* of it */
    const void *world;   /* or several of them; NULL: none */
    const char *library; /* another than the driver; NULL: the driver */
    struct {
        const char *call; /* from here on its n-th call ... */
        uint64_t nth;     /* 0: the first */
        int code, lie;    /* answers this, or succeeds and lies */
        bool for_ever;
    } plan;
    bool idle;           /* such a device cannot be used */
    const char *reason;  /* the backend is absent, and says this */
    vram_status status;  /* else what opening the device answers */
    const char *words;   /* and says */
    uint32_t has, lacks; /* capabilities */
    enum {
        KNOWN,
        MEMORY_UNKNOWN = 1,
        MAX_UNKNOWN = 2,
        VMM_UNKNOWN = 4,
        ARCHITECTURE_UNKNOWN = 8,
        UUID_UNKNOWN = 16,
        PCI_UNKNOWN = 32
    } unknown;
    bool (*more)(const struct program *program); /* what else is so; NULL: nothing */
};

struct driver {
    const char *name;    /* the backend's, too */
    const char *option;  /* that names its library */
    const char *library; /* which is this one */
    const struct driver_entry *entries;
    unsigned entry_count, symbol_count; /* the first of them, where not all are symbols; else 0 */
    const struct code_row *statuses;    /* up to one of all codes */
    const struct excuse *excuses;
    unsigned excuse_count;
    const struct answer *answers;
    unsigned answer_count;
    const struct lie *lies;
    unsigned lie_count;
    const char *sample;         /* an entry that gets every code of `statuses` */
    const int *each;            /* codes with which call after call fails; the first 0 ends them */
    const char *const *manners; /* ways to use the device; the first is the usual one */
    unsigned manner_count, usual_manners; /* the latter first, in which the program ends well */
    bool alike;                           /* the same calls are made in all manners */
    bool slow;                            /* a sanitizer tries some codes only */
    bool identified;                      /* its devices tell UUID and PCI */
    bool tries; /* to open a device is to try it: what fails then is done without */
    const vram_kernel_source *kernel;

    bool (*load)(const char *path); /* finds its control */
    void (*reset)(unsigned manner);
    void (*set)(int key, long value, const void *world);
    void (*plan)(const char *call, uint64_t nth, int code, int lie, bool for_ever); /* NULL: none */
    void (*hide)(const char *symbol); /* until it is reset; NULL: a copy of its file lacks it */
    void (*hold)(bool held); /* while it is, nothing that was submitted runs, where that can be */
    uint64_t (*struck)(void);
    const char *(*last_call)(void);
    uint64_t (*live)(void); /* objects made and not ended */
    /* What broke the driver's rules, after that call failed or all did; NULL: nothing. */
    const char *(*wrong)(const char *last, bool all);
    bool (*more)(struct program *program); /* what only this driver has; NULL: nothing */
};

extern const struct driver driver_cuda, driver_hip, driver_opencl, driver_vulkan, driver_metal;

#endif
