/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_unchanged_device.c: a call of contexts, devices, queues, coarse memory, ranges and kernels
 * that fails has changed nothing. Every call below it fails in turn; trial_world.h says what holds
 * after each.
 */
#include "unit/trial_world.h"
#include "vram/vmm.h"

#define TWO_DEVICES "memory=64M,granule=64K,lag=5,devices=2"
#define REAL        "memory=64M,granule=64K,lag=5,real=on"

enum { PIECES = 3 };

static void look_device(struct scene *scene, struct object_state *state) {
    state_number(state, "made", scene->object != NULL || scene->addr != 0);
    state_device(state, &scene->rig);
}

/* ----------------------------------------------------- contexts, devices, queues */

static vram_status call_context(struct scene *scene) {
    vram_context_options options = {.size = sizeof options, .backends = "sim", .sim = TWO_DEVICES};
    vram_context *context = NULL;
    vram_status status = vram_context_create(&options, &context);
    scene->object = context;
    return status;
}
static void look_context(struct scene *scene, struct object_state *state) {
    look_device(scene, state);
    state_number(state, "devices", scene->object ? vram_device_count(scene->object) : 0);
}
static void end_context(struct scene *scene) {
    vram_context_destroy(scene->object);
}

static vram_status call_open(struct scene *scene) {
    vram_device *device = NULL;
    vram_status status = vram_device_open(scene->rig.context, 0, &device);
    scene->object = device;
    return status;
}
static void end_device(struct scene *scene) {
    vram_device_close(scene->object);
}

static vram_status call_queue(struct scene *scene) {
    vram_queue *queue = NULL;
    vram_status status = vram_queue_create(scene->rig.device, NULL, &queue);
    scene->object = queue;
    return status;
}
static void end_queue(struct scene *scene) {
    vram_queue_destroy(scene->object);
}

static vram_status call_adopt(struct scene *scene) {
    vram_queue *queue = NULL;
    void *native;
    vram_status status = vram_queue_native(scene->side, &native);
    if (status == VRAM_OK) {
        status = vram_queue_adopt(scene->rig.device, native, &queue);
    }
    scene->object = queue;
    return status;
}
static void end_adopted(struct scene *scene) {
    assert_ok(vram_queue_end(scene->object));
}
static void make_adopted(struct scene *scene) {
    assert_ok(call_adopt(scene));
    assert_ok(vram_queue_fill(scene->object, scene->target, 0x22, 1, scene->bytes));
}
static vram_status call_end_adopted(struct scene *scene) {
    vram_status status = vram_queue_end(scene->object);
    scene->object = status == VRAM_OK ? NULL : scene->object;
    return status;
}

static vram_status call_capture(struct scene *scene) {
    vram_queue *queue = NULL;
    vram_status status = vram_capture_begin(scene->side, &queue);
    scene->object = queue;
    return status;
}
static void end_capture(struct scene *scene) {
    assert_ok(vram_capture_end(scene->object));
}
static void make_capture(struct scene *scene) {
    assert_ok(call_capture(scene));
}
static vram_status call_end_capture(struct scene *scene) {
    vram_status status = vram_capture_end(scene->object);
    scene->object = status == VRAM_OK ? NULL : scene->object;
    return status;
}

/* Points of other queues and devices, behind work that is under way. */
static vram_status call_mark(struct scene *scene) {
    vram_point point;
    vram_status status = vram_queue_mark(scene->side, &point);
    if (status == VRAM_OK) {
        (void)trial_disarm(scene);
        assert_ok(vram_point_wait(point, VRAM_TIMEOUT_DEFAULT));
    }
    return status;
}
static vram_status call_after(struct scene *scene) {
    vram_point point = {scene->object, scene->addr};
    return vram_queue_after(scene->side, point);
}
static void make_point(struct scene *scene) {
    vram_point point;
    assert_ok(vram_queue_fill(scene->rig.queue, scene->target, 0x22, 1, scene->bytes));
    assert_ok(vram_queue_mark(scene->rig.queue, &point));
    scene->object = point.queue;
    scene->addr = point.value;
}
static vram_status call_peer(struct scene *scene) {
    return vram_device_peer_enable(scene->rig.device, scene->rig.other);
}

static void devices_and_queues(void **state) {
    static const struct trial trials[] = {
        TRIAL("vram_context_create", NULL, call_context, look_context, end_context),
        TRIAL("vram_device_open", NULL, call_open, look_device, end_device),
        TRIAL("vram_queue_create", NULL, call_queue, look_device, end_queue),
        TRIAL("vram_queue_adopt", NULL, call_adopt, look_device, end_adopted),
        TRIAL("vram_queue_end", make_adopted, call_end_adopted, look_device, NULL),
        TRIAL("vram_capture_begin", NULL, call_capture, look_device, end_capture),
        TRIAL("vram_capture_end", make_capture, call_end_capture, look_device, NULL),
        TRIAL("vram_queue_mark", NULL, call_mark, look_device, NULL),
        TRIAL("vram_queue_after", make_point, call_after, look_device, NULL),
        {.name = "vram_device_peer_enable",
         .call = call_peer,
         .look = look_device,
         .sim = TWO_DEVICES},
    };
    (void)state;
    TRIALS(trials);
}

/* ---------------------------------------------------------------- coarse memory */

static vram_status take(struct scene *scene, vram_memory_kind kind) {
    return vram_device_alloc(scene->rig.device, 100 * KIB, kind, &scene->addr);
}
static vram_status call_take_device(struct scene *scene) {
    return take(scene, VRAM_MEMORY_DEVICE);
}
static vram_status call_take_pinned(struct scene *scene) {
    return take(scene, VRAM_MEMORY_PINNED);
}
static vram_status call_take_managed(struct scene *scene) {
    return take(scene, VRAM_MEMORY_MANAGED);
}
static void end_coarse(struct scene *scene) {
    assert_ok(vram_device_free(scene->rig.device, scene->addr));
}
static void make_coarse(struct scene *scene) {
    assert_ok(call_take_device(scene));
    assert_ok(vram_queue_fill(scene->rig.queue, scene->addr, 0x44, 1, 100 * KIB));
    assert_ok(vram_queue_wait(scene->rig.queue, VRAM_TIMEOUT_DEFAULT));
}
static void make_pinned(struct scene *scene) {
    assert_ok(call_take_pinned(scene));
    memset((void *)(uintptr_t)scene->addr, 0x44, 100 * KIB);
}
static void make_managed(struct scene *scene) {
    assert_ok(call_take_managed(scene));
    memset((void *)(uintptr_t)scene->addr, 0x44, 100 * KIB);
}
static void look_coarse(struct scene *scene, struct object_state *state) {
    vram_native_info info = {.size = sizeof info};
    look_device(scene, state);
    if (scene->addr) {
        assert_ok(vram_native(scene->addr, &info));
        state_number(state, "coarse.bytes", info.bytes);
        state_number(state, "coarse.kind", info.kind);
        if (info.kind == VRAM_MEMORY_DEVICE) {
            state_memory(state, "coarse.contents", scene->rig.queue, scene->addr, 100 * KIB);
        } else {
            state_bytes(state, "coarse.contents", info.host_pointer, 100 * KIB);
        }
    }
}
static vram_status call_give_back(struct scene *scene) {
    vram_status status = vram_device_free(scene->rig.device, scene->addr);
    scene->addr = status == VRAM_OK ? 0 : scene->addr;
    return status;
}
static vram_status call_prefetch(struct scene *scene) {
    return vram_queue_prefetch(scene->rig.queue, scene->addr, 100 * KIB, VRAM_TARGET_OWN);
}

static void coarse_memory(void **state) {
    static const struct trial trials[] = {
        TRIAL("vram_device_alloc device", NULL, call_take_device, look_device, end_coarse),
        TRIAL("vram_device_alloc pinned", NULL, call_take_pinned, look_device, end_coarse),
        TRIAL("vram_device_alloc managed", NULL, call_take_managed, look_device, end_coarse),
        TRIAL("vram_device_free device", make_coarse, call_give_back, look_coarse, NULL),
        TRIAL("vram_device_free pinned", make_pinned, call_give_back, look_coarse, NULL),
        TRIAL("vram_device_free managed", make_managed, call_give_back, look_coarse, NULL),
        TRIAL("vram_queue_prefetch", make_managed, call_prefetch, look_coarse, end_coarse),
    };
    (void)state;
    TRIALS(trials);
}

/* ------------------------------------------------------------ ranges and memory */

/* Pieces of one granule, two, and three. */
static struct pieces {
    vram_physical *at[PIECES];
    bool mapped; /* by a call that succeeded */
} range_pieces;

static uint64_t piece_offset(int piece) {
    return (uint64_t)(piece * (piece + 1) / 2) * 64 * KIB;
}
static void make_range(struct scene *scene) {
    struct pieces *pieces = scene->object = &range_pieces;
    *pieces = (struct pieces){.mapped = false};
    assert_ok(vram_range_create(scene->rig.device, 1 * MIB, &scene->addr));
    for (int i = 0; i < PIECES; i++) {
        assert_ok(
            vram_physical_create(scene->rig.device, (uint64_t)(i + 1) * 64 * KIB, &pieces->at[i]));
    }
}
/* The first handles of a map that the driver would not undo are unmapped by the program: vmm.h. */
static void unmap_rest(struct scene *scene) {
    struct vram_error error;
    vr_error_save(&error);
    (void)trial_disarm(scene);
    for (int left = PIECES; left > 0; left--) {
        (void)vram_range_unmap(scene->rig.device, scene->addr, piece_offset(left));
    }
    vr_error_restore(&error);
}
static vram_status call_map(struct scene *scene) {
    struct pieces *pieces = scene->object;
    vram_status status = vram_range_map(scene->rig.device, scene->addr, pieces->at, PIECES);
    if (status != VRAM_OK && driver_refuses(scene)) {
        unmap_rest(scene);
    }
    if (status == VRAM_OK && !pieces->mapped) {
        pieces->mapped = true;
        (void)trial_disarm(scene);
        assert_ok(vram_queue_fill(scene->rig.queue, scene->addr, 0x33, 1, piece_offset(PIECES)));
    }
    return status;
}
static void make_mapped(struct scene *scene) {
    make_range(scene);
    assert_ok(call_map(scene));
    assert_ok(vram_queue_wait(scene->rig.queue, VRAM_TIMEOUT_DEFAULT));
}
/* Of each piece whether memory is there, and its contents. */
static void look_range(struct scene *scene, struct object_state *state) {
    struct pieces *pieces = scene->object;
    look_device(scene, state);
    for (int i = 0; i < PIECES && state->contents; i++) {
        vram_addr at = scene->addr + piece_offset(i);
        char byte;
        bool mapped = vram_queue_download(scene->rig.queue, &byte, at, 1) == VRAM_OK;
        assert_ok(vram_queue_wait(scene->rig.queue, VRAM_TIMEOUT_DEFAULT));
        state_number(state, "physical.bytes", vram_physical_bytes(pieces->at[i]));
        state_number(state, "~piece.mapped", mapped);
        if (mapped) {
            state_memory(state, "~piece.contents", scene->rig.queue, at, (uint64_t)(i + 1) * KIB);
        }
    }
    vram_error_clear();
}
/* Unmaps what is mapped from the first such piece on, as a program does that goes on behind a
   failure. */
static vram_status call_unmap(struct scene *scene) {
    vram_status status = VRAM_OK;
    for (int i = 0; i < PIECES && status == VRAM_OK; i++) {
        uint64_t bytes = piece_offset(PIECES) - piece_offset(i);
        status = vram_range_unmap(scene->rig.device, scene->addr + piece_offset(i), bytes);
        if (status != VRAM_ERR_INVALID) {
            break;
        }
        vram_error_clear();
        status = VRAM_OK;
    }
    return status;
}
static void end_range(struct scene *scene) {
    struct pieces *pieces = scene->object;
    (void)vram_range_unmap(scene->rig.device, scene->addr, piece_offset(PIECES));
    for (int i = 0; i < PIECES; i++) {
        assert_ok(vram_physical_destroy(pieces->at[i]));
    }
    assert_ok(vram_range_destroy(scene->rig.device, scene->addr));
}

static vram_status call_range(struct scene *scene) {
    return vram_range_create(scene->rig.device, 1 * MIB, &scene->addr);
}
static void make_bare_range(struct scene *scene) {
    assert_ok(call_range(scene));
}
static vram_status call_range_destroy(struct scene *scene) {
    vram_status status = vram_range_destroy(scene->rig.device, scene->addr);
    scene->addr = status == VRAM_OK ? 0 : scene->addr;
    return status;
}
static void end_bare_range(struct scene *scene) {
    assert_ok(call_range_destroy(scene));
}
static vram_status call_physical(struct scene *scene) {
    vram_physical *physical = NULL;
    vram_status status = vram_physical_create(scene->rig.device, 100 * KIB, &physical);
    scene->object = physical;
    return status;
}
static void make_physical(struct scene *scene) {
    assert_ok(call_physical(scene));
}
static vram_status call_physical_destroy(struct scene *scene) {
    vram_status status = vram_physical_destroy(scene->object);
    scene->object = status == VRAM_OK ? NULL : scene->object;
    return status;
}
static void end_physical(struct scene *scene) {
    assert_ok(call_physical_destroy(scene));
}

static void ranges(void **state) {
    static const struct trial trials[] = {
        TRIAL("vram_range_create", NULL, call_range, look_device, end_bare_range),
        TRIAL("vram_range_destroy", make_bare_range, call_range_destroy, look_device, NULL),
        TRIAL("vram_physical_create", NULL, call_physical, look_device, end_physical),
        TRIAL("vram_physical_destroy", make_physical, call_physical_destroy, look_device, NULL),
        TRIAL("vram_range_map", make_range, call_map, look_range, end_range),
        MARKED("vram_range_unmap", make_mapped, call_unmap, look_range, end_range, TRIAL_PARTIAL),
    };
    (void)state;
    TRIALS(trials);
}

/* ------------------------------------------------------- copies, fills, launches */

/* What was submitted is done; that the device is lost meanwhile is no failure of the call. */
static vram_status finish(struct scene *scene, vram_queue *queue, vram_status status) {
    if (status == VRAM_OK) {
        (void)trial_disarm(scene);
        (void)vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT);
        vram_error_clear();
    }
    return status;
}
static vram_status call_fill(struct scene *scene) {
    return finish(scene, scene->side,
                  vram_queue_fill(scene->side, scene->target, 0x2211, 2, scene->bytes));
}
static vram_status call_copy(struct scene *scene) {
    return finish(scene, scene->side,
                  vram_queue_copy(scene->side, scene->target, scene->area, scene->bytes));
}
static vram_status call_upload(struct scene *scene) {
    return finish(scene, scene->side,
                  vram_queue_upload(scene->side, scene->target, scene->host, scene->bytes));
}
static vram_status call_download(struct scene *scene) {
    return finish(scene, scene->side,
                  vram_queue_download(scene->side, scene->host, scene->area, scene->bytes));
}

static void flip(const vram_kernel_call *call) {
    unsigned char *data = *(unsigned char *const *)call->arguments[0];
    data[call->group[0]] ^= 0xFF;
}
static vram_status call_kernel(struct scene *scene) {
    vram_kernel_source source = {.size = sizeof source,
                                 .format = VRAM_KERNEL_C,
                                 .code = (const void *)(uintptr_t)flip,
                                 .entry = "flip"};
    vram_kernel *kernel = NULL;
    vram_status status = vram_kernel_create(scene->rig.device, &source, &kernel);
    scene->object = kernel;
    return status;
}
static void make_kernel(struct scene *scene) {
    assert_ok(call_kernel(scene));
}
static void end_kernel(struct scene *scene) {
    vram_kernel_destroy(scene->object);
}
static vram_status call_launch(struct scene *scene) {
    vram_launch launch = {.size = sizeof launch,
                          .groups = {100, 1, 1},
                          .group_size = {1, 1, 1},
                          .argument_count = 1,
                          .arguments = (const void *[]){&scene->target},
                          .argument_bytes = (size_t[]){sizeof scene->target},
                          .address_mask = 1};
    return finish(scene, scene->side, vram_queue_launch(scene->side, scene->object, &launch));
}

/* One call of the driver's each: it is taken or it is not. */
static void work(void **state) {
    static const struct trial trials[] = {
        TRIAL("vram_queue_fill", NULL, call_fill, look_device, NULL),
        TRIAL("vram_queue_copy", NULL, call_copy, look_device, NULL),
        TRIAL("vram_queue_upload", NULL, call_upload, look_device, NULL),
        TRIAL("vram_queue_download", NULL, call_download, look_device, NULL),
        {.name = "vram_kernel_create",
         .call = call_kernel,
         .look = look_device,
         .end = end_kernel,
         .sim = REAL},
        {.name = "vram_queue_launch",
         .make = make_kernel,
         .call = call_launch,
         .look = look_device,
         .end = end_kernel,
         .sim = REAL},
    };
    (void)state;
    TRIALS(trials);
}

#define HERE(test) cmocka_unit_test_setup_teardown(test, start, nothing_left)

int main(void) {
    const struct CMUnitTest tests[] = {HERE(devices_and_queues), HERE(coarse_memory), HERE(ranges),
                                       HERE(work)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
