/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_driver.c: the fake's state and the way into every call; devices and contexts.
 *
 * A context is per thread a stack, as NVIDIA has it; calls without a current context fail. What is
 * made and given back is counted, so that a test can demand that nothing is left.
 */
#include "fake/fake_engine.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

struct fake_state fake = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .changed = PTHREAD_COND_INITIALIZER,
};

_Thread_local struct fake_thread fake_thread;

/* ----------------------------------------------------------------- entering */

bool fake_speaks_hip(void) {
    return strcmp(fake_driver, "hip") == 0;
}

bool fake_device_wake(struct fake_device *device) {
    if (device->file < 0) {
        device->file = memfd_create("fake_device", MFD_CLOEXEC);
    }
    return device->file >= 0;
}

/* HIP's current device starts at its first use. */
struct vr_cu_context *fake_current_context(void) {
    struct fake_device *device = &fake.devices[fake_thread.device];
    if (fake_thread.depth) {
        return fake_thread.stack[fake_thread.depth - 1];
    }
    if (!fake_speaks_hip() || !fake.initialized || !fake_device_wake(device)) {
        return NULL;
    }
    device->primary.alive = true;
    return &device->primary;
}

struct fake_device *fake_current_device(void) {
    struct vr_cu_context *context = fake_current_context();
    return context ? context->device : NULL;
}

void fake_violation(const char *text) {
    fake.violations++;
    fake.violation = text;
}

static vr_cu_result check_need(enum fake_need need) {
    struct vr_cu_context *context = fake_current_context();
    if (need == FAKE_NEEDS_NOTHING) {
        return VR_CU_SUCCESS;
    }
    if (!fake.initialized) {
        return VR_CU_NOT_INITIALIZED;
    }
    if (need == FAKE_NEEDS_INIT) {
        return VR_CU_SUCCESS;
    }
    if (!context) {
        return VR_CU_INVALID_CONTEXT;
    }
    if (!context->alive) {
        /* NVIDIA's answers this as well, or crashes, if the call has a stream of that context. */
        fake_violation("a call in a context that was reset");
        return VR_CU_CONTEXT_DESTROYED;
    }
    if (context->device->sticky) {
        return context->device->sticky;
    }
    return need == FAKE_NEEDS_SAFETY ? fake_unsafe() : VR_CU_SUCCESS;
}

vr_cu_result fake_enter(enum fake_call call, enum fake_need need) {
    fake_meanwhile(call);
    pthread_mutex_lock(&fake.lock);
    fake_wake_up();
    fake_journal(call);
    vr_cu_result code = fake_strike(call);
    if (code == VR_CU_SUCCESS) {
        code = check_need(need);
    }
    if (code != VR_CU_SUCCESS) {
        fake_thread.last = code;
        pthread_mutex_unlock(&fake.lock);
    }
    return code;
}

vr_cu_result fake_leave(vr_cu_result code) {
    fake_thread.last = code ? code : fake_thread.last;
    pthread_mutex_unlock(&fake.lock);
    return code;
}

/* ------------------------------------------------------------ driver, errors */

vr_cu_result fake_cuInit(unsigned flags) {
    FAKE_ENTER(cuInit, FAKE_NEEDS_NOTHING);
    if (flags) {
        return fake_leave(VR_CU_INVALID_VALUE);
    }
    if (fake.device_count <= 0) {
        return fake_leave(VR_CU_NO_DEVICE);
    }
    fake.initialized = true;
    return fake_leave(VR_CU_SUCCESS);
}

vr_cu_result fake_cuDriverGetVersion(int *version) {
    FAKE_ENTER(cuDriverGetVersion, FAKE_NEEDS_NOTHING);
    *version = fake.version;
    return fake_leave(VR_CU_SUCCESS);
}

/* The name of a code is also its text, in small letters: "cuda error out of memory". */
static vr_cu_result error_words(vr_cu_result code, const char **text, bool name) {
    static _Thread_local char words[96];
    *text = NULL;
    for (const struct fake_code *row = fake_codes; row->name; row++) {
        if (row->code == code) {
            for (size_t i = 0; i < sizeof words && (i == 0 || words[i - 1]); i++) {
                words[i] = row->name[i] == '_' ? ' ' : (char)tolower((unsigned char)row->name[i]);
            }
            *text = name ? row->name : words;
            return fake_leave(VR_CU_SUCCESS);
        }
    }
    return fake_leave(VR_CU_INVALID_VALUE);
}

vr_cu_result fake_cuGetErrorName(vr_cu_result code, const char **text) {
    FAKE_ENTER(cuGetErrorName, FAKE_NEEDS_NOTHING);
    return error_words(code, text, true);
}

vr_cu_result fake_cuGetErrorString(vr_cu_result code, const char **text) {
    FAKE_ENTER(cuGetErrorString, FAKE_NEEDS_NOTHING);
    return error_words(code, text, false);
}

/* ------------------------------------------------------------------ devices */

static bool device_known(vr_cu_device device) {
    return device >= 0 && device < fake.device_count;
}

vr_cu_result fake_cuDeviceGetCount(int *count) {
    FAKE_ENTER(cuDeviceGetCount, FAKE_NEEDS_INIT);
    *count = fake_thread.lie == FAKE_CUDA_TRUE   ? fake.device_count
             : fake_thread.lie == FAKE_CUDA_NULL ? 0
                                                 : -3;
    return fake_leave(VR_CU_SUCCESS);
}

vr_cu_result fake_cuDeviceGet(vr_cu_device *device, int ordinal) {
    FAKE_ENTER(cuDeviceGet, FAKE_NEEDS_INIT);
    if (!device_known(ordinal)) {
        return fake_leave(VR_CU_INVALID_DEVICE);
    }
    *device = ordinal;
    return fake_leave(VR_CU_SUCCESS);
}

vr_cu_result fake_cuDeviceGetName(char *name, int bytes, vr_cu_device device) {
    FAKE_ENTER(cuDeviceGetName, FAKE_NEEDS_INIT);
    if (!device_known(device)) {
        return fake_leave(VR_CU_INVALID_DEVICE);
    }
    snprintf(name, (size_t)bytes, "%s %d", fake.name, device);
    return fake_leave(VR_CU_SUCCESS);
}

vr_cu_result fake_cuDeviceGetUuid(struct vr_cu_uuid *uuid, vr_cu_device device) {
    FAKE_ENTER(cuDeviceGetUuid, FAKE_NEEDS_INIT);
    if (!device_known(device)) {
        return fake_leave(VR_CU_INVALID_DEVICE);
    }
    for (int i = 0; i < 16; i++) {
        uuid->bytes[i] = (char)(device * 16 + i + 1);
    }
    return fake_leave(VR_CU_SUCCESS);
}

vr_cu_result fake_cuDeviceGetPCIBusId(char *text, int bytes, vr_cu_device device) {
    FAKE_ENTER(cuDeviceGetPCIBusId, FAKE_NEEDS_INIT);
    if (!device_known(device)) {
        return fake_leave(VR_CU_INVALID_DEVICE);
    }
    snprintf(text, (size_t)bytes, "0000:%02X:00.0", 0x3B + device);
    return fake_leave(VR_CU_SUCCESS);
}

vr_cu_result fake_cuDeviceGetAttribute(int *value, enum vr_cu_attribute attribute,
                                       vr_cu_device device) {
    FAKE_ENTER(cuDeviceGetAttribute, FAKE_NEEDS_INIT);
    if (!device_known(device)) {
        return fake_leave(VR_CU_INVALID_DEVICE);
    }
    int set = fake_attribute((int)attribute);
    if (set < 0) {
        return fake_leave(VR_CU_INVALID_VALUE);
    }
    *value = set;
    return fake_leave(VR_CU_SUCCESS);
}

vr_cu_result fake_cuDeviceTotalMem(size_t *bytes, vr_cu_device device) {
    FAKE_ENTER(cuDeviceTotalMem, FAKE_NEEDS_INIT);
    if (!device_known(device)) {
        return fake_leave(VR_CU_INVALID_DEVICE);
    }
    *bytes = fake.capacity;
    return fake_leave(VR_CU_SUCCESS);
}

/* ----------------------------------------------------------------- contexts */

vr_cu_result fake_cuDevicePrimaryCtxRetain(struct vr_cu_context **context, vr_cu_device device) {
    FAKE_ENTER(cuDevicePrimaryCtxRetain, FAKE_NEEDS_INIT);
    if (!device_known(device)) {
        return fake_leave(VR_CU_INVALID_DEVICE);
    }
    struct fake_device *found = &fake.devices[device];
    if (found->sticky) {
        return fake_leave(found->sticky);
    }
    if (!fake_device_wake(found)) {
        return fake_leave(VR_CU_OPERATING_SYSTEM);
    }
    if (!found->primary.alive) {
        found->primary = (struct vr_cu_context){
            .device = found, .alive = true, .primary = true, .id = ++fake.contexts};
    }
    found->retains++;
    fake.live.retains++;
    *context = &found->primary;
    return fake_leave(VR_CU_SUCCESS);
}

vr_cu_result fake_cuDevicePrimaryCtxRelease(vr_cu_device device) {
    FAKE_ENTER(cuDevicePrimaryCtxRelease, FAKE_NEEDS_INIT);
    if (!device_known(device)) {
        return fake_leave(VR_CU_INVALID_DEVICE);
    }
    struct fake_device *found = &fake.devices[device];
    if (!found->retains) {
        return fake_leave(VR_CU_INVALID_CONTEXT);
    }
    found->retains--;
    fake.live.retains--;
    found->primary.alive = found->primary.alive && found->retains;
    return fake_leave(VR_CU_SUCCESS);
}

vr_cu_result fake_cuCtxGetId(struct vr_cu_context *context, unsigned long long *id) {
    FAKE_ENTER(cuCtxGetId, FAKE_NEEDS_INIT);
    if (!context->alive) {
        return fake_leave(context->was_reset ? VR_CU_CONTEXT_DESTROYED : VR_CU_INVALID_CONTEXT);
    }
    *id = context->id;
    return fake_leave(VR_CU_SUCCESS);
}

vr_cu_result fake_cuCtxPushCurrent(struct vr_cu_context *context) {
    FAKE_ENTER(cuCtxPushCurrent, FAKE_NEEDS_INIT);
    if (!context || (!context->alive && !context->was_reset)) {
        return fake_leave(VR_CU_INVALID_CONTEXT);
    }
    if (fake_thread.depth == FAKE_STACK_MAX) {
        return fake_leave(VR_CU_OUT_OF_MEMORY);
    }
    fake_thread.stack[fake_thread.depth++] = context;
    return fake_leave(VR_CU_SUCCESS);
}

/* Pops also when the device is lost: the stack is the thread's, not the device's. */
vr_cu_result fake_cuCtxPopCurrent(struct vr_cu_context **context) {
    FAKE_ENTER(cuCtxPopCurrent, FAKE_NEEDS_INIT);
    if (!fake_thread.depth) {
        return fake_leave(VR_CU_INVALID_CONTEXT);
    }
    *context = fake_thread.stack[--fake_thread.depth];
    return fake_leave(VR_CU_SUCCESS);
}

vr_cu_result fake_cuThreadExchangeStreamCaptureMode(enum vr_cu_capture_mode *mode) {
    FAKE_ENTER(cuThreadExchangeStreamCaptureMode, FAKE_NEEDS_INIT);
    enum vr_cu_capture_mode before = fake_thread.mode;
    fake_thread.mode = *mode;
    *mode = before;
    return fake_leave(VR_CU_SUCCESS);
}

/* -------------------------------------------------------------------- peers */

vr_cu_result fake_cuDeviceCanAccessPeer(int *can, vr_cu_device device, vr_cu_device peer) {
    FAKE_ENTER(cuDeviceCanAccessPeer, FAKE_NEEDS_INIT);
    if (!device_known(device) || !device_known(peer)) {
        return fake_leave(VR_CU_INVALID_DEVICE);
    }
    *can = device != peer;
    return fake_leave(VR_CU_SUCCESS);
}

vr_cu_result fake_peer_enable(struct fake_device *peer) {
    struct fake_device *device = fake_current_device();
    uint64_t bit = UINT64_C(1) << peer->ordinal;
    if (device == peer) {
        return fake_leave(VR_CU_INVALID_VALUE);
    }
    bool before = device->peers & bit;
    device->peers |= bit;
    return fake_leave(before ? VR_CU_PEER_ACCESS_ALREADY_ENABLED : VR_CU_SUCCESS);
}

vr_cu_result fake_cuCtxEnablePeerAccess(struct vr_cu_context *peer, unsigned flags) {
    FAKE_ENTER(cuCtxEnablePeerAccess, FAKE_NEEDS_CONTEXT);
    if (!peer || !peer->alive || flags) {
        return fake_leave(flags ? VR_CU_INVALID_VALUE : VR_CU_INVALID_CONTEXT);
    }
    return fake_peer_enable(peer->device);
}
