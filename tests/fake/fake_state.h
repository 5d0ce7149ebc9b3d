/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_state.h: what the parts of the fake driver share. One lock guards all state; the engine lets
 * it go only while it calls a host function or rests.
 */
#ifndef FAKE_STATE_H
#define FAKE_STATE_H

#include "fake/fake_cuda.h"

#include <pthread.h>

#define FAKE_API         __attribute__((visibility("default")))
#define FAKE_GRANULE     (UINT64_C(2) << 20)
#define FAKE_DEVICES_MAX 8

/* What the exported symbols do; tools/driver-table writes the exports,
   fake_cuda_entries.c. */
#define FAKE_DECLARE(name, symbol, fallback, optional, parameters)                                 \
    vr_cu_result fake_##name parameters;
VR_CUDA_FUNCTIONS(FAKE_DECLARE)
VR_HIP_FUNCTIONS(FAKE_DECLARE)
#undef FAKE_DECLARE

enum fake_call {
#define FAKE_ENUM(name, symbol, fallback, optional, parameters) FAKE_##name,
    VR_CUDA_FUNCTIONS(FAKE_ENUM) VR_HIP_FUNCTIONS(FAKE_ENUM)
#undef FAKE_ENUM
        FAKE_CALL_COUNT
};

struct fake_code {
    vr_cu_result code;
    const char *name;
};

extern const char *const fake_driver;                 /* "cuda" or "hip" */
extern const char *const fake_names[FAKE_CALL_COUNT]; /* of the entries, without version suffix */
extern const struct fake_code fake_codes[];           /* with their names, NULL behind the last */

struct vr_cu_context {
    struct fake_device *device;
    bool alive;
    bool primary;
    bool was_reset;        /* its handle can still be made current */
    unsigned long long id; /* of its present life */
};

struct fake_device {
    int ordinal;
    struct vr_cu_context primary, other;
    unsigned retains;
    vr_cu_result sticky; /* what every call answers once something went wrong */
    uint64_t used;       /* bytes taken */
    uint64_t peers;      /* bit i: may use the memory of device i */
    uint64_t next;       /* where in the file the next memory goes */
    int file;
};

struct fake_state {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* an operation ended, or was submitted */
    bool initialized;
    bool exiting;
    int process; /* the one that called cuInit */
    int device_count;
    const char *name; /* of every device, without its number */
    int version;
    uint64_t capacity;
    uint64_t cache_bytes, host_bytes; /* of an integrated GPU's memory, in the page cache and in
                                         programs of the host */
    uint64_t ahead_bytes;             /* what the driver has taken, at least */
    unsigned delay_us;
    unsigned export_us;
    bool held;
    bool no_functions; /* cuLaunchHostFunc is not supported */
    bool calling;      /* the engine is in a function of the program's, without the lock */
    unsigned pinned_offset;
    bool free_held;  /* it does not come back */
    bool free_waits; /* cuMemFreeHost takes its time, and waits for kernels */
    struct fake_device devices[FAKE_DEVICES_MAX];
    struct fake_cuda_live live;
    unsigned long long contexts; /* made so far */
    uint64_t violations;
    const char *violation;
    uint64_t captured;
    int hinted; /* where the last hint wanted managed memory; -1: the host */
};

extern struct fake_state fake;

#define FAKE_STACK_MAX 32

/* What the driver keeps for each thread. */
struct fake_thread {
    struct vr_cu_context *stack[FAKE_STACK_MAX];
    unsigned depth;
    enum vr_cu_capture_mode mode;
    int device;             /* HIP's current one */
    vr_cu_result last;      /* HIP's error that waits to be read */
    enum fake_cuda_lie lie; /* what the plan wants of the call that was entered last */
};

extern _Thread_local struct fake_thread fake_thread;

/* What a call needs before it may run. */
enum fake_need {
    FAKE_NEEDS_NOTHING,
    FAKE_NEEDS_INIT,
    FAKE_NEEDS_CONTEXT, /* a current context of a device that is not lost */
    FAKE_NEEDS_SAFETY   /* that, and no capture that forbids "potentially unsafe" calls */
};

/* Counts and checks a call; what it has to answer at once, or success with the lock held. */
vr_cu_result fake_enter(enum fake_call call, enum fake_need need);
vr_cu_result fake_leave(vr_cu_result code);

#define FAKE_ENTER(name, need)                                                                     \
    do {                                                                                           \
        vr_cu_result entered = fake_enter(FAKE_##name, need);                                      \
        if (entered != VR_CU_SUCCESS) {                                                            \
            return entered;                                                                        \
        }                                                                                          \
    } while (0)

/* What the test wants to happen before a call; without the lock. */
void fake_meanwhile(enum fake_call call);

/* The rest is called with the lock held. */

/* Reads the environment at the first call of all, so that even cuInit can be made to fail. */
void fake_wake_up(void);
/* Counts a call; the code it must answer, 0 for none. */
vr_cu_result fake_strike(enum fake_call call);
/* Writes down calls that a correct program cannot make any more, where another process can read
   them: this one may be about to end. */
void fake_journal(enum fake_call call);
/* What an attribute is set to; negative when asking is to fail. */
int fake_attribute(int number);

/* A setting in the environment, FAKE_CUDA_<name> or FAKE_HIP_<name>; NULL: not set. */
const char *fake_environment(const char *name);

/* What is left of the memory that an integrated GPU shares, with or without the page cache. */
uint64_t fake_machine_free(const struct fake_device *device, bool without_cache);
/* After the device has taken or given memory: /proc/meminfo says so, where a test asked for it. */
void fake_machine_note(const struct fake_device *device);

bool fake_speaks_hip(void);
/* Opens the file behind a device's memory; false when the system has none. */
bool fake_device_wake(struct fake_device *device);
struct fake_device *fake_current_device(void); /* of the calling thread's context, or NULL */
struct vr_cu_context *fake_current_context(void);
void fake_violation(const char *text);

/* Device memory, or pinned host memory, as the engine sees it: false when it may not touch it. */
bool fake_access(struct fake_device *device, uint64_t addr, void *buffer, uint64_t bytes,
                 bool write);
bool fake_is_managed(uint64_t addr, uint64_t bytes);
bool fake_is_pinned(const void *memory, uint64_t bytes);
/* A reset ends the primary context. Host memory that the driver allocated for the device cannot be
   touched any more, what it registered it does not know any more. */
void fake_device_reset(struct fake_device *device);

/* Whether unfinished work touches the range. */
bool fake_in_use(uint64_t addr, uint64_t bytes);
/* Whether a kernel runs on some device, or waits for its turn. */
bool fake_kernels_run(void);
/* A "potentially unsafe" call begins, or one that needs the whole context: it is refused, and ends
   the captures that forbid it. */
vr_cu_result fake_unsafe(void);
vr_cu_result fake_context_uncaptured(void);
/* Forget all streams and events with their work, and all memory. */
void fake_streams_reset(void);
void fake_memory_reset(void);
void fake_modules_reset(void);

/* Whether a device may use memory at an address. */
bool fake_reaches(int device, uint64_t addr);
void fake_stream_fill_control(struct fake_cuda_control *control);

#endif
