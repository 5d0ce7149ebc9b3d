/* SPDX-License-Identifier: Apache-2.0 */
/* fake_metal_object.c: devices, heaps, buffers, strings and errors. */
#include "fake/fake_metal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { DEVICES_MAX = 8, PAGE = 1 << 16 };

/* ---------------------------------------------------------- strings, errors */

struct string {
    struct fake_object object;
    char text[1];
};

vr_mtl_id fake_metal_string(const char *text) {
    size_t bytes = strlen(text);
    struct string *string =
        (struct string *)fake_metal_object(FAKE_STRING, sizeof *string + bytes, NULL);
    memcpy(string->text, text, bytes + 1);
    return fake_metal_later(string);
}

const char *fake_metal_text(vr_mtl_id string) {
    return fake_metal_is(string, FAKE_STRING) ? ((struct string *)string)->text : "";
}

vr_mtl_id fake_metal_string_with(vr_mtl_id receiver, vr_mtl_selector message, const char *text) {
    (void)message;
    return fake_metal_is(receiver, FAKE_CLASS) ? fake_metal_string(text) : NULL;
}

const char *fake_metal_utf8(vr_mtl_id receiver, vr_mtl_selector message) {
    (void)message;
    return fake_metal_text(receiver);
}

struct error {
    struct fake_object object;
    long code;
    char text[64];
};

vr_mtl_id fake_metal_error(long code, const char *text) {
    struct error *error = (struct error *)fake_metal_object(FAKE_ERROR, sizeof *error, NULL);
    error->code = code;
    snprintf(error->text, sizeof error->text, "%s", text);
    return fake_metal_later(error);
}

long fake_metal_error_code(vr_mtl_id receiver, vr_mtl_selector message) {
    (void)message;
    return fake_metal_is(receiver, FAKE_ERROR) ? ((struct error *)receiver)->code : 0;
}

vr_mtl_id fake_metal_error_text(vr_mtl_id receiver, vr_mtl_selector message) {
    (void)message;
    return fake_metal_is(receiver, FAKE_ERROR) ? fake_metal_string(((struct error *)receiver)->text)
                                               : NULL;
}

/* ------------------------------------------------------------------ devices */

static struct fake_device devices[DEVICES_MAX];
static bool old;

bool fake_metal_tells_addresses(void) {
    return !old;
}

vr_mtl_id fake_metal_devices(void) {
    old = fake_metal_setting("FAKE_METAL_OLD", 0);
    for (int i = 0; i < DEVICES_MAX; i++) {
        struct fake_device *device = &devices[i];
        pthread_mutex_lock(&fake_metal_lock);
        device->object.kind = FAKE_DEVICE;
        device->object.refs = 1 << 20; /* they stay */
        device->memory = fake_metal_setting("FAKE_METAL_MEMORY", UINT64_C(4) << 30);
        snprintf(device->name, sizeof device->name, "Fake M%d", i + 1);
        pthread_mutex_unlock(&fake_metal_lock);
    }
    return fake_metal_object(FAKE_ARRAY, sizeof(struct fake_object), NULL);
}

unsigned long fake_metal_count(vr_mtl_id receiver, vr_mtl_selector message) {
    (void)message;
    uint64_t count = fake_metal_setting("FAKE_METAL_DEVICES", 1);
    return fake_metal_is(receiver, FAKE_ARRAY) ? (count < DEVICES_MAX ? count : DEVICES_MAX) : 0;
}

vr_mtl_id fake_metal_object_at(vr_mtl_id receiver, vr_mtl_selector message, unsigned long index) {
    (void)message;
    return fake_metal_is(receiver, FAKE_ARRAY) && index < DEVICES_MAX ? &devices[index] : NULL;
}

vr_mtl_id fake_metal_device_name(vr_mtl_id receiver, vr_mtl_selector message) {
    (void)message;
    struct fake_device *device = receiver;
    return fake_metal_is(device, FAKE_DEVICE) ? fake_metal_string(device->name) : NULL;
}

uint64_t fake_metal_registry_id(vr_mtl_id receiver, vr_mtl_selector message) {
    (void)message;
    const struct fake_device *device = receiver;
    return fake_metal_is(device, FAKE_DEVICE) ? 100 + (uint64_t)(device - devices) : 0;
}

uint64_t fake_metal_working_set(vr_mtl_id receiver, vr_mtl_selector message) {
    (void)message;
    struct fake_device *device = receiver;
    return fake_metal_is(device, FAKE_DEVICE) ? device->memory : 0;
}

unsigned long fake_metal_allocated_size(vr_mtl_id receiver, vr_mtl_selector message) {
    (void)message;
    struct fake_device *device = receiver;
    pthread_mutex_lock(&fake_metal_lock);
    unsigned long used = device->used;
    pthread_mutex_unlock(&fake_metal_lock);
    return used;
}

unsigned long fake_metal_max_buffer(vr_mtl_id receiver, vr_mtl_selector message) {
    (void)message;
    return fake_metal_is(receiver, FAKE_DEVICE) ? 1ul << 31 : 0;
}

/* ------------------------------------------------------------------- memory */

static char *take(struct fake_device *device, unsigned long bytes) {
    char *memory = MAP_FAILED;
    pthread_mutex_lock(&fake_metal_lock);
    bool fits = bytes && bytes <= device->memory - device->used;
    device->used += fits ? bytes : 0;
    pthread_mutex_unlock(&fake_metal_lock);
    if (fits) {
        memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    }
    return memory == MAP_FAILED ? NULL : memory;
}

static void give(struct fake_device *device, char *memory, unsigned long bytes) {
    munmap(memory, bytes);
    pthread_mutex_lock(&fake_metal_lock);
    device->used -= bytes;
    pthread_mutex_unlock(&fake_metal_lock);
}

struct descriptor {
    struct fake_object object;
    unsigned long size, storage, hazards;
    long type;
};

vr_mtl_id fake_metal_create(vr_mtl_id receiver, vr_mtl_selector message) {
    (void)message;
    return fake_metal_is(receiver, FAKE_CLASS)
               ? fake_metal_object(FAKE_DESCRIPTOR, sizeof(struct descriptor), NULL)
               : NULL;
}

#define SETTER(message_name, type, field)                                                          \
    void fake_metal_##message_name(vr_mtl_id receiver, vr_mtl_selector message, type value) {      \
        (void)message;                                                                             \
        if (fake_metal_is(receiver, FAKE_DESCRIPTOR)) {                                            \
            ((struct descriptor *)receiver)->field = value;                                        \
        }                                                                                          \
    }
SETTER(set_size, unsigned long, size)
SETTER(set_storage, unsigned long, storage)
SETTER(set_type, long, type)
SETTER(set_hazards, unsigned long, hazards)

struct heap {
    struct fake_object object;
    struct fake_device *device;
    char *memory;
    unsigned long bytes;
};

static void heap_end(struct fake_object *object) {
    struct heap *heap = (struct heap *)object;
    give(heap->device, heap->memory, heap->bytes);
}

struct vr_mtl_size_and_align fake_metal_heap_fit(vr_mtl_id receiver, vr_mtl_selector message,
                                                 unsigned long bytes, unsigned long options) {
    (void)receiver;
    (void)message;
    (void)options;
    return (struct vr_mtl_size_and_align){(bytes + PAGE - 1) / PAGE * PAGE, PAGE};
}

vr_mtl_id fake_metal_heap_create(vr_mtl_id receiver, vr_mtl_selector message, vr_mtl_id how) {
    (void)message;
    struct descriptor *descriptor = how;
    if (!fake_metal_is(receiver, FAKE_DEVICE) || !fake_metal_is(how, FAKE_DESCRIPTOR) ||
        descriptor->type != VR_MTL_PLACEMENT || descriptor->storage != VR_MTL_PRIVATE) {
        return NULL;
    }
    char *memory = take(receiver, descriptor->size);
    if (!memory) {
        return NULL;
    }
    struct heap *heap = (struct heap *)fake_metal_object(FAKE_HEAP, sizeof *heap, heap_end);
    heap->device = receiver;
    heap->memory = memory;
    heap->bytes = descriptor->size;
    return heap;
}

static void buffer_end(struct fake_object *object) {
    struct fake_buffer *buffer = (struct fake_buffer *)object;
    if (buffer->heap) {
        fake_metal_drop(buffer->heap);
    } else {
        give(buffer->device, buffer->contents, buffer->bytes);
    }
}

static struct fake_buffer *make_buffer(struct fake_device *device, char *contents,
                                       unsigned long bytes) {
    struct fake_buffer *buffer =
        (struct fake_buffer *)fake_metal_object(FAKE_BUFFER, sizeof *buffer, buffer_end);
    buffer->device = device;
    buffer->contents = contents;
    buffer->bytes = bytes;
    return buffer;
}

vr_mtl_id fake_metal_heap_buffer(vr_mtl_id receiver, vr_mtl_selector message, unsigned long bytes,
                                 unsigned long options, unsigned long offset) {
    (void)message;
    (void)options;
    struct heap *heap = receiver;
    if (!fake_metal_is(heap, FAKE_HEAP) || offset % PAGE || bytes > heap->bytes - offset) {
        return NULL;
    }
    struct fake_buffer *buffer = make_buffer(heap->device, heap->memory + offset, bytes);
    buffer->heap = &heap->object;
    fake_metal_keep(heap);
    return buffer;
}

vr_mtl_id fake_metal_buffer_create(vr_mtl_id receiver, vr_mtl_selector message, unsigned long bytes,
                                   unsigned long options) {
    (void)message;
    char *memory = fake_metal_is(receiver, FAKE_DEVICE) ? take(receiver, bytes) : NULL;
    if (!memory) {
        return NULL;
    }
    struct fake_buffer *buffer = make_buffer(receiver, memory, bytes);
    buffer->shared = (options >> VR_MTL_STORAGE_SHIFT & 15) == VR_MTL_SHARED;
    return buffer;
}

void *fake_metal_contents(vr_mtl_id receiver, vr_mtl_selector message) {
    (void)message;
    struct fake_buffer *buffer = receiver;
    return fake_metal_is(buffer, FAKE_BUFFER) && buffer->shared ? buffer->contents : NULL;
}

uint64_t fake_metal_gpu_address(vr_mtl_id receiver, vr_mtl_selector message) {
    (void)message;
    struct fake_buffer *buffer = receiver;
    return fake_metal_is(buffer, FAKE_BUFFER) ? (uintptr_t)buffer->contents : 0;
}
