/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_layer_opencl.c: whatever a program calls, with whatever handles, the OpenCL layer of vram
 * run counts what the driver has. This driver knows its own handles, refuses all others, and fails
 * now and then. After every call the recorder's sum is compared with its own.
 */
#include "fuzz.h"

#include "interpose/layer_opencl_abi.h"
#include "interpose/run_page.h"
#include "interpose/run_record.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char fuzz_words[] = " B S K R I V F Q L";

vr_cl_int clInitLayer(vr_cl_uint count, void *const *target, vr_cl_uint *own_count,
                      void *const **own);

/* --------------------------------------------------------------------- the page */

static struct run_page *page;

static void page_make(void) {
    char path[] = "/tmp/vram_fuzz_XXXXXX";
    int fd = mkstemp(path);
    FUZZ_EXPECT(fd >= 0 && ftruncate(fd, sizeof *page) == 0);
    page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    FUZZ_EXPECT(page != MAP_FAILED);
    close(fd);
    page->magic = RUN_PAGE_MAGIC;
    page->version = RUN_PAGE_VERSION;
    page->bytes = sizeof *page;
    page->settings.root = getpid();
    page->settings.limit_bytes = UINT64_C(1) << 50;
    FUZZ_EXPECT(setenv(RUN_PAGE_VARIABLE, path, 1) == 0 && run_active());
    unlink(path);
}

static uint64_t counted(void) {
    uint64_t sum = 0;
    for (int i = 0; i < RUN_DEVICES; i++) {
        const struct run_device *device = &page->slots[0].devices[i];
        sum += device->api == RUN_OPENCL ? device->counted : 0;
    }
    return sum;
}

/* --------------------------------------------------------------- OpenCL's driver */

enum { OBJECTS = 12, POINTERS = 4 };

struct vr_cl_memory {
    size_t bytes; /* that count */
    int references, children;
    struct vr_cl_memory *parent;
};
struct vr_cl_device {
    int unused;
};
struct vr_cl_context {
    int unused;
};

static struct vr_cl_memory objects[OBJECTS];
static struct vr_cl_device cl_device;
static struct vr_cl_context cl_context;
static char pointers[POINTERS][16];
static size_t pointer_bytes[POINTERS];
static bool failing; /* the next call */

static vr_cl_int fails(vr_cl_int *code) {
    vr_cl_int answer = failing ? VR_CL_OUT_OF_RESOURCES : VR_CL_SUCCESS;
    failing = false;
    if (code) {
        *code = answer;
    }
    return answer;
}

static bool is_object(const struct vr_cl_memory *memory) {
    return memory >= objects && memory < objects + OBJECTS && memory->references > 0;
}

static struct vr_cl_memory *object_new(size_t bytes, struct vr_cl_memory *parent, vr_cl_int *code) {
    for (int i = 0; !fails(code) && i < OBJECTS; i++) {
        if (!objects[i].references && !objects[i].children) {
            objects[i] = (struct vr_cl_memory){bytes, 1, 0, parent};
            if (parent) {
                parent->children++;
            }
            return &objects[i];
        }
    }
    return NULL;
}

static struct vr_cl_memory *create_buffer(struct vr_cl_context *context, vr_cl_bits flags,
                                          size_t bytes, void *host, vr_cl_int *code) {
    bool host_memory = flags & (VR_CL_MEM_ALLOC_HOST_PTR | LAYER_CL_MEM_USE_HOST_PTR);
    (void)host;
    return context == &cl_context && bytes ? object_new(host_memory ? 0 : bytes, NULL, code) : NULL;
}

static struct vr_cl_memory *create_part(struct vr_cl_memory *memory, vr_cl_bits flags,
                                        vr_cl_uint type, const void *region, vr_cl_int *code) {
    (void)flags, (void)type, (void)region;
    return is_object(memory) ? object_new(0, memory, code) : NULL;
}

static struct vr_cl_memory *create_image(struct vr_cl_context *context, vr_cl_bits flags,
                                         const struct layer_cl_image_format *format,
                                         const struct layer_cl_image_desc *desc, void *host,
                                         vr_cl_int *code) {
    (void)flags, (void)format, (void)host;
    if (context != &cl_context || !desc || (desc->parent && !is_object(desc->parent))) {
        return NULL;
    }
    return object_new(desc->parent ? 0 : desc->width, desc->parent, code);
}

static vr_cl_int retain(struct vr_cl_memory *memory) {
    if (!is_object(memory) || fails(NULL)) {
        return VR_CL_INVALID_MEM_OBJECT;
    }
    memory->references++;
    return VR_CL_SUCCESS;
}

static vr_cl_int release(struct vr_cl_memory *memory) {
    if (!is_object(memory) || fails(NULL)) {
        return VR_CL_INVALID_MEM_OBJECT;
    }
    memory->references--;
    while (memory && !memory->references && !memory->children) {
        struct vr_cl_memory *parent = memory->parent;
        memory->bytes = 0;
        if (parent) {
            parent->children--;
        }
        memory = parent;
    }
    return VR_CL_SUCCESS;
}

static vr_cl_int memory_info(struct vr_cl_memory *memory, vr_cl_uint what, size_t bytes,
                             void *value, size_t *needed) {
    (void)what, (void)bytes, (void)needed;
    memcpy(value, &memory->bytes, sizeof memory->bytes);
    return VR_CL_SUCCESS;
}

static void *svm_alloc(struct vr_cl_context *context, vr_cl_bits flags, size_t bytes,
                       vr_cl_uint align) {
    (void)flags, (void)align;
    for (int i = 0; context == &cl_context && bytes && !fails(NULL) && i < POINTERS; i++) {
        if (!pointer_bytes[i]) {
            pointer_bytes[i] = bytes;
            return pointers[i];
        }
    }
    return NULL;
}

static void svm_free(struct vr_cl_context *context, void *pointer) {
    (void)context;
    for (int i = 0; i < POINTERS; i++) {
        if (pointer == pointers[i]) {
            pointer_bytes[i] = 0;
        }
    }
}

static vr_cl_int svm_enqueue(struct vr_cl_queue *queue, vr_cl_uint pointer_count, void **list,
                             layer_cl_free_fn *callback, void *user, vr_cl_uint count,
                             struct vr_cl_event *const *events, struct vr_cl_event **event) {
    vr_cl_int code = pointer_count && !list ? VR_CL_INVALID_VALUE : fails(NULL);
    (void)queue, (void)callback, (void)user, (void)count, (void)events, (void)event;
    for (vr_cl_uint i = 0; !code && i < pointer_count; i++) {
        svm_free(&cl_context, list[i]);
    }
    return code;
}

static vr_cl_int get_platforms(vr_cl_uint room, struct vr_cl_platform **found, vr_cl_uint *count) {
    (void)room;
    found[0] = (struct vr_cl_platform *)&cl_device;
    *count = 1;
    return VR_CL_SUCCESS;
}

static vr_cl_int get_devices(struct vr_cl_platform *platform, vr_cl_bits type, vr_cl_uint room,
                             struct vr_cl_device **found, vr_cl_uint *count) {
    (void)platform, (void)type, (void)room;
    found[0] = &cl_device;
    *count = 1;
    return VR_CL_SUCCESS;
}

static vr_cl_int device_info(struct vr_cl_device *device, vr_cl_uint what, size_t bytes,
                             void *value, size_t *needed) {
    uint64_t total = UINT64_C(1) << 40;
    (void)device;
    if (what != VR_CL_DEVICE_GLOBAL_MEM_SIZE || (value && bytes < sizeof total)) {
        return VR_CL_INVALID_VALUE;
    }
    if (value) {
        memcpy(value, &total, sizeof total);
    }
    if (needed) {
        *needed = sizeof total;
    }
    return VR_CL_SUCCESS;
}

static vr_cl_int context_info(struct vr_cl_context *context, vr_cl_uint what, size_t bytes,
                              void *value, size_t *needed) {
    struct vr_cl_device *device = &cl_device;
    (void)what, (void)bytes, (void)needed;
    if (context != &cl_context) {
        return VR_CL_INVALID_CONTEXT;
    }
    memcpy(value, &device, sizeof device);
    return VR_CL_SUCCESS;
}

/* The table that the layer returns, by name. */
static struct {
#define FIELD(place, returns, name, parameters) returns(*name) parameters;
    LAYER_CL_FUNCTIONS(FIELD)
#undef FIELD
} cl;

static void opencl_load(void) {
    static void *target[LAYER_CL_PLACES];
    void *const *own = NULL;
    vr_cl_uint count = 0;
    cl.clGetPlatformIDs = get_platforms;
    cl.clGetDeviceIDs = get_devices;
    cl.clGetDeviceInfo = device_info;
    cl.clGetContextInfo = context_info;
    cl.clGetMemObjectInfo = memory_info;
    cl.clCreateBuffer = create_buffer;
    cl.clCreateSubBuffer = create_part;
    cl.clCreateImage = create_image;
    cl.clRetainMemObject = retain;
    cl.clReleaseMemObject = release;
    cl.clSVMAlloc = svm_alloc;
    cl.clSVMFree = svm_free;
    cl.clEnqueueSVMFree = svm_enqueue;
#define PUT(place, returns, name, parameters) memcpy(&target[place], &cl.name, sizeof(void *));
    LAYER_CL_FUNCTIONS(PUT)
#undef PUT
    FUZZ_EXPECT(clInitLayer(LAYER_CL_PLACES, target, &count, &own) == VR_CL_SUCCESS);
#define GET(place, returns, name, parameters)                                                      \
    if (own[place]) {                                                                              \
        memcpy(&cl.name, &own[place], sizeof(void *));                                             \
    }
    LAYER_CL_FUNCTIONS(GET)
#undef GET
}

static uint64_t opencl_truth(void) {
    uint64_t sum = 0;
    for (int i = 0; i < OBJECTS; i++) {
        sum += objects[i].bytes;
    }
    for (int i = 0; i < POINTERS; i++) {
        sum += pointer_bytes[i];
    }
    return sum;
}

/* -------------------------------------------------------------------- the program */

static const uint8_t *input, *input_end;

static uint8_t next(void) {
    return input < input_end ? *input++ : 0;
}

static size_t next_bytes(void) {
    uint8_t byte = next();
    return byte == 255 ? SIZE_MAX : byte == 254 ? SIZE_MAX / 2 : (size_t)byte * 4096;
}

/* A live object, a dead one, one that never was, or none. */
static struct vr_cl_memory *next_object(void) {
    uint8_t byte = next();
    return byte % 16 < OBJECTS    ? &objects[byte % 16]
           : byte % 16 == OBJECTS ? NULL
                                  : (struct vr_cl_memory *)(uintptr_t)(byte * UINT64_C(0x9E3779B9));
}

static void *next_pointer(void) {
    uint8_t byte = next();
    void *other = byte % 8 == POINTERS ? NULL : &page;
    return byte % 8 < POINTERS ? pointers[byte % 8] : other;
}

static void opencl_step(uint8_t what) {
    vr_cl_int code = 0, *answer = what & 0x20 ? &code : NULL; /* small letters ask for the code */
    struct vr_cl_context *context = next() == 77 ? NULL : &cl_context;
    vr_cl_bits flags = (vr_cl_bits)(next() % 32);
    struct layer_cl_image_desc desc = {.width = 0};
    void *list[3];
    switch (what & ~0x20) {
    case 'B':
        (void)cl.clCreateBuffer(context, flags, next_bytes(), NULL, answer);
        break;
    case 'S':
        (void)cl.clCreateSubBuffer(next_object(), flags, 0, NULL, answer);
        break;
    case 'I':
        desc.width = next_bytes() % (1 << 20) + 1;
        desc.parent = next() % 2 ? next_object() : NULL;
        (void)cl.clCreateImage(context, 0, NULL, next() == 7 ? NULL : &desc, NULL, answer);
        break;
    case 'K':
        (void)cl.clRetainMemObject(next_object());
        break;
    case 'R':
        (void)cl.clReleaseMemObject(next_object());
        break;
    case 'V':
        (void)cl.clSVMAlloc(context, flags, next_bytes(), 0);
        break;
    case 'F':
        cl.clSVMFree(context, next_pointer());
        break;
    case 'Q':
        for (int i = 0; i < 3; i++) {
            list[i] = next_pointer();
        }
        (void)cl.clEnqueueSVMFree(NULL, next() % 4, next() == 9 ? NULL : list, NULL, NULL, 0, NULL,
                                  NULL);
        break;
    case 'L':
        page->settings.limit_bytes = (uint64_t)next() * 65536 + 1;
        break;
    default:
        failing = what % 5 == 0;
        break;
    }
}

/* Whatever was left is released as often as it takes. */
static void opencl_end(void) {
    failing = false;
    for (int i = 0; i < OBJECTS; i++) {
        while (objects[i].references) {
            FUZZ_EXPECT(cl.clReleaseMemObject(&objects[i]) == VR_CL_SUCCESS);
        }
    }
    for (int i = 0; i < POINTERS; i++) {
        cl.clSVMFree(&cl_context, pointers[i]);
    }
    FUZZ_EXPECT(counted() == 0 && opencl_truth() == 0);
}

static int fuzz_take(const uint8_t *data, size_t bytes) {
    if (!page) {
        page_make();
        opencl_load();
    }
    input = data;
    input_end = data + bytes;
    page->settings.limit_bytes = UINT64_C(1) << 50;
    while (input < input_end) {
        opencl_step(next());
        FUZZ_EXPECT(counted() == opencl_truth());
    }
    page->settings.limit_bytes = UINT64_C(1) << 50;
    opencl_end();
    return 0;
}

FUZZ_TARGET(layer_opencl, .memory_times = 0)
