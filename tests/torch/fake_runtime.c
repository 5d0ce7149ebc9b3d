/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_runtime: the part of CUDA's runtime (12, 13) that PyTorch calls to have a device, streams,
 * events and graphs, without a GPU. Preloaded before libcudart, it makes torch.empty(device="cuda")
 * work on the fake driver that libvram uses (tests/fake): memory is there, kernels do nothing.
 * Streams are the fake driver's, so that libvram can adopt them. Its soname is libcuda.so.1: what
 * PyTorch asks the driver itself is answered here, too.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAKE __attribute__((visibility("default")))

enum { SUCCESS = 0, INVALID = 1, OUT_OF_MEMORY = 2, NOT_SUPPORTED = 801, CAPTURES = 8 };
enum { ENDS = 16 }; /* of one stream */

/* cudaDeviceProp of CUDA 12 and 13 as far as it is filled in. */
struct properties {
    char name[256];
    char uuid[16], luid[8];
    unsigned mask;
    size_t total, shared;
    int registers, warp;
    size_t pitch;
    int threads, block[3], grid[3];
    size_t constant;
    int major, minor;
    size_t texture, texture_pitch;
    int processors;    /* CUDA 12: another field */
    int processors_12; /* CUDA 13: another field */
};

typedef void *stream_t;

static __thread int current;
static __thread int last_error;

/* A node of a graph: work of a captured stream, and what it waits for. Kept for ever. */
struct node {
    size_t count;
    struct node *before[ENDS];
};

/* A stream that takes part in a capture: the one on which it began, or one that waited for an event
   of it. An event has the same. The next work waits for the ends. */
struct capture {
    stream_t stream;
    unsigned long long id;
    bool spoiled; /* a call has ended it */
    size_t count;
    struct node *ends[ENDS];
};
static struct capture captures[CAPTURES];
static unsigned long long capture_ids;
static size_t held; /* by cudaMalloc */

static void *driver_call(const char *name) {
    static void *driver;
    if (driver == NULL) {
        driver = dlopen(getenv("VRAM_CUDA_LIBRARY"), RTLD_NOW);
    }
    return driver == NULL ? NULL : dlsym(driver, name);
}

/* Writes the function pointer at `call`; false if the driver has no such entry. */
static bool driver_entry(const char *name, void *call) {
    void *found = driver_call(name);
    memcpy(call, &found, sizeof found);
    return found != NULL;
}

/* Makes the device's context the thread's, for calls of the driver. */
static bool context_enter(void) {
    int (*retain)(void **, int);
    int (*init)(unsigned);
    int (*push)(void *);
    void *context = NULL;
    return driver_entry("cuInit", &init) && driver_entry("cuDevicePrimaryCtxRetain", &retain) &&
           driver_entry("cuCtxPushCurrent_v2", &push) && init(0) == 0 &&
           retain(&context, current) == 0 && push(context) == 0;
}

static void context_leave(void) {
    int (*pop)(void **);
    void *context = NULL;
    if (driver_entry("cuCtxPopCurrent_v2", &pop)) {
        pop(&context);
    }
}

static int device_count(void) {
    const char *text = getenv("FAKE_CUDA_DEVICES");
    return text == NULL ? 1 : atoi(text);
}

/* -------------------------------------------------------------------- captures */

static struct capture *capture_of(stream_t stream) {
    for (int i = 0; i < CAPTURES; i++) {
        if (captures[i].id != 0 && captures[i].stream == stream) {
            return &captures[i];
        }
    }
    return NULL;
}

static struct capture *capture_join(stream_t stream, unsigned long long id) {
    for (int i = 0; i < CAPTURES; i++) {
        if (captures[i].id == 0) {
            captures[i] = (struct capture){.stream = stream, .id = id};
            return &captures[i];
        }
    }
    return NULL;
}

/* A copy on a captured stream becomes a node. */
static void capture_work(stream_t stream) {
    struct capture *capture = capture_of(stream);
    struct node *node = capture == NULL ? NULL : malloc(sizeof *node);
    if (node != NULL) {
        node->count = capture->count;
        memcpy(node->before, capture->ends, sizeof node->before);
        capture->ends[0] = node;
        capture->count = 1;
    }
}

/* --------------------------------------------------------------------- devices */

FAKE int cudaGetDeviceCount(int *count) {
    *count = device_count();
    return SUCCESS;
}

FAKE int cudaGetDevice(int *device) {
    *device = current;
    return SUCCESS;
}

FAKE int cudaSetDevice(int device) {
    if (device < 0 || device >= device_count()) {
        return last_error = 101;
    }
    current = device;
    return SUCCESS;
}

FAKE int cudaGetDeviceProperties(struct properties *made, int device) {
    (void)device;
    const char *memory = getenv("FAKE_CUDA_MEMORY");
    memset(made, 0, sizeof *made);
    strcpy(made->name, "Fake GPU");
    made->total = memory == NULL ? (size_t)4 << 30 : strtoull(memory, NULL, 10);
    made->shared = 49152;
    made->registers = 65536;
    made->warp = 32;
    made->threads = 1024;
    made->major = 9;
    made->processors = 100;
    return SUCCESS;
}

FAKE int cudaGetDeviceProperties_v2(struct properties *made, int device) { /* CUDA 12 */
    cudaGetDeviceProperties(made, device);
    made->processors_12 = made->processors;
    made->processors = 0;
    return SUCCESS;
}

FAKE int cudaDriverGetVersion(int *version) {
    *version = 13000;
    return SUCCESS;
}

FAKE int cudaDeviceGetAttribute(int *value, int attribute, int device) {
    (void)attribute;
    (void)device;
    *value = 1;
    return SUCCESS;
}

FAKE int cudaDeviceCanAccessPeer(int *can, int device, int peer) {
    (void)device;
    (void)peer;
    *can = 0;
    return SUCCESS;
}

/* Ends captures, as on a GPU. */
FAKE int cudaDeviceSynchronize(void) {
    int (*synchronize)(void);
    if (!driver_entry("cuCtxSynchronize", &synchronize) || !context_enter()) {
        return last_error = NOT_SUPPORTED;
    }
    int error = synchronize();
    context_leave();
    return last_error = error;
}

FAKE int cudaGetLastError(void) {
    int error = last_error;
    last_error = 0;
    return error;
}

FAKE int cudaPeekAtLastError(void) {
    return last_error;
}

static int refuse(void) {
    return NOT_SUPPORTED;
}

/* PyTorch 2.15 insists on a list of calls before its first kernel, and makes few of them. */
FAKE int cudaGetDriverEntryPointByVersion(const char *name, void **call, unsigned version,
                                          unsigned long long flags, int *result) {
    (void)version;
    (void)flags;
    *call = driver_call(name);
    if (*call == NULL) {
        int (*refusal)(void) = refuse;
        memcpy(call, &refusal, sizeof refusal);
        if (getenv("FAKE_RUNTIME_LOG") != NULL) {
            fprintf(stderr, "fake_runtime: no %s\n", name);
        }
    }
    if (result != NULL) {
        *result = 0;
    }
    return SUCCESS;
}

FAKE int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
    (void)device;
    *flags = 0;
    *active = 1;
    return SUCCESS;
}

/* ---------------------------------------------------------------------- memory */

FAKE int cudaMemGetInfo(size_t *free_bytes, size_t *total) {
    struct properties made;
    cudaGetDeviceProperties(&made, 0);
    *total = made.total;
    *free_bytes = made.total / 2;
    return SUCCESS;
}

FAKE int cudaMalloc(void **pointer, size_t size) {
    *pointer = size > (size_t)1 << 40 ? NULL : aligned_alloc(512, (size + 511) / 512 * 512);
    held += size;
    return *pointer != NULL ? SUCCESS : (last_error = OUT_OF_MEMORY);
}

FAKE int cudaFree(void *pointer) {
    free(pointer);
    return SUCCESS;
}

enum { TO_DEVICE = 1, TO_HOST = 2 }; /* cudaMemcpyKind */

/* Between host and device, for tests of contents; everything else is a kernel's work. */
FAKE int cudaMemcpy(void *to, const void *from, size_t count, int kind) {
    int (*copy)(void *, const void *, size_t); /* an address is as large as a pointer */
    if ((kind == TO_DEVICE && driver_entry("cuMemcpyHtoD_v2", &copy)) ||
        (kind == TO_HOST && driver_entry("cuMemcpyDtoH_v2", &copy))) {
        if (!context_enter()) {
            return last_error = NOT_SUPPORTED;
        }
        copy(to, from, count);
        context_leave();
    }
    return SUCCESS;
}

FAKE int cudaMemcpyAsync(void *to, const void *from, size_t count, int kind, stream_t stream) {
    capture_work(stream);
    return cudaMemcpy(to, from, count, kind);
}

FAKE int cudaMemsetAsync(void *to, int value, size_t count, stream_t stream) {
    (void)to;
    (void)value;
    (void)count;
    (void)stream;
    return SUCCESS;
}

FAKE int cudaLaunchKernel(const void *kernel, ...) {
    (void)kernel;
    return SUCCESS;
}

FAKE int cudaLaunchKernelExC(const void *config, const void *kernel, void **arguments) {
    (void)config;
    (void)kernel;
    (void)arguments;
    return SUCCESS;
}

/* -------------------------------------------------------------------- streams */

FAKE int cudaStreamCreateWithPriority(stream_t *stream, unsigned flags, int priority) {
    int (*create)(stream_t *, unsigned);
    (void)priority;
    if (!driver_entry("cuStreamCreate", &create) || !context_enter()) {
        return last_error = NOT_SUPPORTED;
    }
    int error = create(stream, flags);
    context_leave();
    return error;
}

FAKE int cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    *least = 0;
    *greatest = -3;
    return SUCCESS;
}

/* As if all streams had been destroyed, and others made that have their handles. */
static unsigned long long stream_generation;
FAKE void fake_streams_renew(void) {
    stream_generation++;
}

FAKE int cudaStreamGetId(stream_t stream, unsigned long long *id) {
    static _Thread_local char own; /* its address numbers the thread's default stream */
    struct capture *capture = capture_of(stream);
    if (capture != NULL) { /* ends the capture, as on a GPU */
        capture->spoiled = true;
        return last_error = 900;
    }
    size_t number = (size_t)stream == 2 ? (size_t)&own : (size_t)stream;
    *id = (unsigned long long)number + stream_generation;
    return SUCCESS;
}

FAKE int cudaStreamQuery(stream_t stream) {
    (void)stream;
    return SUCCESS;
}

FAKE int cudaStreamSynchronize(stream_t stream) {
    (void)stream;
    return SUCCESS;
}

FAKE int cudaStreamWaitEvent(stream_t stream, void *event, unsigned flags) {
    const struct capture *from = event;
    struct capture *capture = capture_of(stream);
    (void)flags;
    if (from->id != 0 && capture == NULL) {
        capture = capture_join(stream, from->id);
    }
    for (size_t i = 0; from->id != 0 && capture != NULL && i < from->count; i++) {
        if (capture->count < ENDS) {
            capture->ends[capture->count++] = from->ends[i];
        }
    }
    return SUCCESS;
}

FAKE int cudaThreadExchangeStreamCaptureMode(int *mode) {
    static __thread int now;
    int before = now;
    now = *mode;
    *mode = before;
    return SUCCESS;
}

/* --------------------------------------------------------------------- events */

FAKE int cudaEventCreateWithFlags(void **event, unsigned flags) {
    (void)flags;
    *event = calloc(1, sizeof(struct capture));
    return SUCCESS;
}

FAKE int cudaEventDestroy(void *event) {
    free(event);
    return SUCCESS;
}

FAKE int cudaEventRecord(void *event, stream_t stream) {
    const struct capture *capture = capture_of(stream);
    memset(event, 0, sizeof(struct capture));
    if (capture != NULL) {
        memcpy(event, capture, sizeof *capture);
    }
    return SUCCESS;
}

FAKE int cudaEventRecordWithFlags(void *event, stream_t stream, unsigned flags) {
    (void)flags;
    return cudaEventRecord(event, stream);
}

FAKE int cudaEventQuery(void *event) {
    (void)event;
    return SUCCESS;
}

FAKE int cudaEventSynchronize(void *event) {
    (void)event;
    return SUCCESS;
}

/* All work is complete when it is submitted, so an event of another process has passed. */
FAKE int cudaIpcGetEventHandle(void *handle, void *event) {
    (void)event;
    memset(handle, 0, 64);
    return SUCCESS;
}

struct event_handle {
    char reserved[64];
};

FAKE int cudaIpcOpenEventHandle(void **event, struct event_handle handle) {
    (void)handle;
    return cudaEventCreateWithFlags(event, 0);
}

/* Memory of the fake driver has no such handles. */
FAKE int cudaIpcGetMemHandle(void *handle, void *pointer) {
    (void)handle;
    (void)pointer;
    return INVALID;
}

/* --------------------------------------------------------------------- graphs */

FAKE int cudaStreamIsCapturing(stream_t stream, int *status) {
    *status = capture_of(stream) != NULL;
    return SUCCESS;
}

FAKE int cudaStreamGetCaptureInfo(stream_t stream, int *status, unsigned long long *id,
                                  void **graph, struct node ***ends, void **edges, size_t *count) {
    struct capture *capture = capture_of(stream);
    *status = capture != NULL;
    if (id != NULL) {
        *id = capture != NULL ? capture->id : 0;
    }
    if (graph != NULL) {
        *graph = NULL;
    }
    if (ends != NULL && capture != NULL) {
        *ends = capture->ends;
    }
    if (edges != NULL) {
        *edges = NULL;
    }
    if (count != NULL) {
        *count = capture != NULL ? capture->count : 0;
    }
    return SUCCESS;
}

FAKE int cudaStreamGetCaptureInfo_v2(stream_t stream, int *status, unsigned long long *id,
                                     void **graph, struct node ***ends, size_t *count) {
    return cudaStreamGetCaptureInfo(stream, status, id, graph, ends, NULL, count); /* CUDA 12 */
}

FAKE int cudaGraphNodeGetDependencies(struct node *node, struct node **before, void *edges,
                                      size_t *count) {
    (void)edges; /* all are plain: zeros */
    if (before != NULL) {
        memcpy(before, node->before, *count * sizeof *before);
    }
    *count = node->count;
    return SUCCESS;
}

FAKE int cudaStreamBeginCapture(stream_t stream, int mode) {
    (void)mode;
    return capture_join(stream, ++capture_ids) != NULL ? SUCCESS : (last_error = INVALID);
}

FAKE int cudaStreamEndCapture(stream_t stream, void **graph) {
    struct capture *capture = capture_of(stream);
    if (capture == NULL) {
        return last_error = INVALID;
    }
    unsigned long long id = capture->id;
    bool spoiled = false;
    for (int i = 0; i < CAPTURES; i++) {
        if (captures[i].id == id) {
            spoiled = spoiled || captures[i].spoiled;
            captures[i].id = 0;
        }
    }
    if (spoiled) {
        return last_error = 901;
    }
    *graph = malloc(1);
    return SUCCESS;
}

FAKE int cudaGraphGetNodes(void *graph, void *nodes, size_t *count) {
    (void)graph;
    (void)nodes;
    *count = 1;
    return SUCCESS;
}

FAKE int cudaGraphInstantiateWithFlags(void **made, void *graph, unsigned long long flags) {
    (void)graph;
    (void)flags;
    *made = malloc(1);
    return SUCCESS;
}

FAKE int cudaGraphInstantiate(void **made, void *graph, unsigned long long flags) {
    return cudaGraphInstantiateWithFlags(made, graph, flags);
}

FAKE int cudaGraphLaunch(void *graph, stream_t stream) {
    (void)graph;
    (void)stream;
    return SUCCESS;
}

FAKE int cudaGraphDestroy(void *graph) {
    free(graph);
    return SUCCESS;
}

FAKE int cudaGraphExecDestroy(void *graph) {
    free(graph);
    return SUCCESS;
}
