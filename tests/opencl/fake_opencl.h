/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_opencl.h: an OpenCL driver without a device: a real shared object over host memory, that a
 * test can make to be many kinds of device, to fail (opencl_entries.h) and to wait, and that counts
 * what was left behind and what broke OpenCL's rules.
 *
 * Commands are run by a thread of the fake's own, those of an out-of-order queue last come first
 * served. Kernels are C functions of these names: gate, saxpy, store,
 * tally, scratch, vram_check_scale, vram_matmul, vram_ring_echo.
 */
#ifndef TEST_FAKE_OPENCL_H
#define TEST_FAKE_OPENCL_H

#include "opencl/opencl_entries.h"

/* What the devices are. Found and set by a test, or by the environment:
   FAKE_OPENCL="gpu=1,svm=3". */
struct fake_opencl_settings {
    int platforms;      /* 1 */
    int devices;        /* of each platform; 1 */
    int gpu;            /* 1; 0: CPUs */
    int svm;            /* CL_DEVICE_SVM_CAPABILITIES; 3: coarse and fine */
    int usm;            /* whether there is unified shared memory; 0 */
    int version;        /* 300: OpenCL 3.0 */
    int available;      /* 1 */
    int compiler;       /* 1 */
    int priorities;     /* 1: cl_khr_priority_hints */
    int align_bits;     /* CL_DEVICE_MEM_BASE_ADDR_ALIGN; 4096 */
    int lazy;           /* 1: buffers get memory at their first use */
    int aligned;        /* 0: pointers lie 128 bytes behind a page */
    int arg_info;       /* 1: kernels know their arguments */
    int memory_mib;     /* of a device; 1024 */
    int largest_mib;    /* the largest allocation; 256 */
    int twin;           /* 1: the UUID is that of the first device of the tests' CUDA driver; 0 */
    int late_callbacks; /* 1: only fake_opencl_control.call_back has them called */
    int nvidia;         /* 1: tells its compute capability, which is 9.0; 0 */
    const char *extensions; /* instead of the usual ones; NULL */
};

struct fake_opencl_control {
    void (*reset)(void); /* settings as at the start, nothing held; forgets violations */
    struct fake_opencl_settings *settings;
    void (*hold)(bool held);   /* commands wait while it is held */
    void (*crash)(int status); /* commands end with this from now on; 0: they do not */
    void (*settle)(void);      /* waits until no command can run and no callback is running */
    void (*call_back)(void);   /* late callbacks, newest first */
    uint64_t (*live)(void);    /* objects and pointers that were not given back */
    /* Rules that were broken; *text is the last one's. */
    uint64_t (*violations)(const char **text);
    struct vr_cl_queue *(*queue_new)(struct vr_cl_queue *like, bool unordered, bool elsewhere);
};

OPENCL_API const struct fake_opencl_control *fake_opencl_control(void);

/* ---------------------------------------------------------------- inside it */

#define FAKE_MAGIC(letter) (UINT32_C(0xFA4E0000) + (letter))

struct fake_head { /* of every object */
    uint32_t magic;
    int references;
    struct fake_head *next, *before; /* all are in one list: none is lost, only kept */
};

struct vr_cl_platform {
    struct fake_head head;
};

struct vr_cl_device {
    struct fake_head head;
    struct vr_cl_platform *platform;
    uint64_t used; /* bytes */
};

struct vr_cl_context {
    struct fake_head head;
    struct vr_cl_device *device;
};

struct fake_callback {
    struct fake_callback *next;
    struct vr_cl_event *event;
    vr_cl_notify_fn *notify;
    void *user;
};

struct vr_cl_event {
    struct fake_head head;
    struct vr_cl_context *context;
    vr_cl_int status; /* 0: complete; positive: not yet */
    bool user;
    struct fake_callback *callbacks;
};

struct vr_cl_memory {
    struct fake_head head;
    struct vr_cl_context *context;
    struct vr_cl_memory *parent; /* of a sub-buffer */
    size_t offset, bytes;
    char *data; /* of a buffer that has memory */
    bool host;  /* CL_MEM_ALLOC_HOST_PTR */
};

enum { FAKE_ARGUMENTS = 16 };

struct fake_argument {
    size_t bytes;
    char value[64];
    struct vr_cl_memory *memory;
    bool set, pointer, local;
};

typedef void fake_kernel_fn(const struct fake_argument *arguments, const size_t items[3],
                            const size_t group[3]);

struct fake_command {
    struct fake_command *next;
    char *to;
    const char *from; /* NULL: a fill */
    size_t bytes, pattern_bytes;
    size_t rows, to_pitch, from_pitch; /* a copy of rows of `bytes` each; 0: of one */
    char pattern[16];
    bool barrier; /* in an out-of-order queue nothing passes it */
    bool marker;  /* complete when all before it is */
    fake_kernel_fn *kernel;
    struct fake_argument arguments[FAKE_ARGUMENTS];
    size_t items[3], group[3];
    struct vr_cl_memory *memories[2]; /* kept until it is done */
    struct vr_cl_event *waits[4];
    vr_cl_uint wait_count;
    struct vr_cl_event *event; /* NULL: nobody asked for one */
};

/* The bytes of a buffer for a command of the queue, or the code that the driver answers. */
vr_cl_int fake_bytes_of(struct vr_cl_queue *queue, struct vr_cl_memory *memory, size_t offset,
                        size_t bytes, char **at);
void fake_fill_event_calls(struct vr_opencl_api *api);
void fake_fill_rows_calls(struct vr_opencl_api *api);

struct vr_cl_queue {
    struct fake_head head;
    struct vr_cl_context *context;
    vr_cl_bits props;
    struct vr_cl_queue *next; /* of all */
    struct fake_command *commands;
    bool running; /* one of them */
};

struct vr_cl_program {
    struct fake_head head;
    struct vr_cl_context *context;
    char *text;
    bool built;
};

struct vr_cl_kernel {
    struct fake_head head;
    struct vr_cl_program *program;
    const struct fake_kernel *code;
    struct fake_argument arguments[FAKE_ARGUMENTS];
};

extern struct fake_opencl_settings fake_settings;

void fake_lock(void);
void fake_unlock(void);
/* With the lock held. */
void fake_violate(const char *text);
void *fake_new(size_t bytes, char letter);
void fake_keep(struct fake_head *head);
/* Whether it is an object of that kind and was not given back; a violation if not. */
bool fake_is(const void *object, char letter);
/* Gives a reference back; true when it was the last and the object is to be freed. */
bool fake_drop(void *object, char letter);
void fake_gone(void *object);
void fake_context_drop(struct vr_cl_context *context);
void fake_event_drop(struct vr_cl_event *event);
struct vr_cl_event *fake_event_new(struct vr_cl_context *context, bool user);
/* Completes an event; what is to be called then. With the lock. */
struct fake_callback *fake_event_complete(struct vr_cl_event *event, vr_cl_int status);
/* Calls back without the lock. */
void fake_callbacks_run(struct fake_callback *callbacks);
void fake_memory_drop(struct vr_cl_memory *memory);
/* Memory for a buffer that has none yet; false: the device is full. */
bool fake_memory_back(struct vr_cl_memory *memory);
char *fake_memory_at(struct vr_cl_memory *memory);
/* Whether [offset, offset + bytes) lies in it. */
bool fake_memory_has(const struct vr_cl_memory *memory, size_t offset, size_t bytes);
/* Submits a copy of `command`, and waits for it if asked. Takes the lock itself. */
vr_cl_int fake_submit(struct vr_cl_queue *queue, struct fake_command *command, bool wait,
                      vr_cl_uint count, struct vr_cl_event *const *events,
                      struct vr_cl_event **event);

void fake_fill_queue_calls(struct vr_opencl_api *api);
void fake_fill_kernel_calls(struct vr_opencl_api *api);
void fake_fill_memory_calls(struct vr_opencl_api *api);
void *fake_usm_call(const char *name);

/* Control of the engine. */
void fake_engine_hold(bool held);
void fake_engine_crash(int status);
void fake_engine_settle(void);
void fake_engine_call_back(void);
struct vr_cl_queue *fake_engine_queue(struct vr_cl_queue *like, bool unordered, bool elsewhere);

#endif
