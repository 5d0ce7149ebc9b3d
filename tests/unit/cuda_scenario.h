/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_scenario.h: one scenario that uses all of a backend of CUDA's kind, for tests in which its
 * driver fails. It stops at the first step that fails, notes what that answered, and gives back
 * what it got: what the driver refuses to take stays held for another try.
 */
#ifndef TEST_CUDA_SCENARIO_H
#define TEST_CUDA_SCENARIO_H

#include "unit/cuda_world.h"

#include <unistd.h>

/* Everything the scenario may hold. */
struct holdings {
    struct vr_backend backend;
    struct vr_device device;
    struct vr_queue own, adopted;
    vram_addr addr, pinned, managed, base;
    uint64_t handle;
    uint64_t shared[2]; /* a handle that can be exported, and the same memory imported */
    void *kernel;
    struct vr_device other; /* a peer, when there is a second device */
    vram_addr other_addr;
    bool mapped;
    bool registered;             /* own_page() */
    struct vr_cu_stream *stream; /* the program's */
    const char *step;            /* the first that failed, or NULL */
    vram_status status;          /* its answer */
    vram_error error;            /* and its record */
    bool tried;                  /* a call failed before the device was open */
    bool forgiven;               /* a call failed whose failure nobody can be told */
};

/* A page of the program's own. */
static vram_addr own_page(void) {
    static _Alignas(4096) char page[4096];
    return (vram_addr)(uintptr_t)page;
}

/* ----------------------------------------------------------------- scenario */

/* Notes a step's answer; whether the scenario goes on. */
static bool step(struct holdings *held, const char *name, vram_status status) {
    if (status == VRAM_OK) {
        return true;
    }
    if (!held->step) {
        held->step = name;
        held->status = status;
        vr_error_save(&held->error);
    }
    if (status == VRAM_ERR_DEVICE_LOST && held->device.impl) {
        note_loss(&held->device);
    }
    return false;
}

#define UNTOUCHED UINT64_C(0xABCDEF0123456789)

/* A step with one output, which it writes when it succeeds and only then. */
static bool step_out(struct holdings *held, const char *name, vram_status status, uint64_t found,
                     uint64_t *result) {
    assert_true((status == VRAM_OK) == (found != UNTOUCHED));
    *result = status == VRAM_OK ? found : 0;
    return step(held, name, status);
}

static bool ask_memory(struct holdings *held) {
    struct vr_device *device = &held->device;
    vram_value free_bytes = {UNTOUCHED, false}, total = free_bytes;
    vram_status status = device->ops->memory_info(device, &free_bytes, &total);
    assert_true((status == VRAM_OK) == (free_bytes.value != UNTOUCHED && free_bytes.known));
    assert_true((status == VRAM_OK) == (total.value != UNTOUCHED && total.known));
    return step(held, "memory_info", status);
}

static bool take_all(struct holdings *held) {
    struct vr_device *device = &held->device;
    vram_addr out = UNTOUCHED;
    if (!ask_memory(held)) {
        return false;
    }
    vram_status status = device->ops->alloc(device, GRANULE, &out);
    if (!step_out(held, "alloc", status, out, &held->addr)) {
        return false;
    }
    if (!device->pinned) {
        return true; /* a trial took it away */
    }
    out = UNTOUCHED;
    status = device->pinned->alloc(device, PAGE, &out);
    if (!step_out(held, "pinned", status, out, &held->pinned)) {
        return false;
    }
    vram_value locked = {UNTOUCHED, false};
    status = device->pinned->check(device, held->pinned, &locked);
    assert_true((status == VRAM_OK) == (locked.value <= 1));
    if (!step(held, "pinned_check", status)) {
        return false;
    }
    return step(held, "register", device->pinned->register_pages(device, own_page(), PAGE)) &&
           (held->registered = true);
}

static bool map_all(struct holdings *held) {
    struct vr_device *device = &held->device;
    if (!device->vmm) {
        return true; /* the driver did not say that it can */
    }
    uint64_t out = UNTOUCHED;
    vram_status status = device->vmm->reserve(device, GRANULE, GRANULE, &out);
    if (!step_out(held, "reserve", status, out, &held->base)) {
        return false;
    }
    out = UNTOUCHED;
    status = device->vmm->create(device, GRANULE, &out);
    if (!step_out(held, "create", status, out, &held->handle) ||
        !step(held, "map", device->vmm->map(device, held->base, held->handle, GRANULE))) {
        return false;
    }
    held->mapped = true;
    return step(held, "access", device->vmm->access(device, held->base, GRANULE));
}

/* Both handles in one process: what another process would do with the descriptor. */
static bool share_all(struct holdings *held) {
    struct vr_device *device = &held->device;
    uint64_t out = UNTOUCHED;
    int descriptor = -1;
    if (!device->share) {
        return true;
    }
    vram_status status = device->share->create(device, GRANULE, &out);
    if (!step_out(held, "create", status, out, &held->shared[0])) {
        return false;
    }
    status = device->share->export_handle(device, held->shared[0], GRANULE, false, &descriptor);
    assert_true((status == VRAM_OK) == (descriptor >= 0));
    if (!step(held, "export", status)) {
        return false;
    }
    out = UNTOUCHED;
    status = device->share->import_handle(device, descriptor, GRANULE, &out);
    close(descriptor);
    return step_out(held, "import", status, out, &held->shared[1]);
}

static bool take_managed(struct holdings *held) {
    struct vr_device *device = &held->device;
    vram_addr out = UNTOUCHED;
    if (!device->managed) {
        return true;
    }
    vram_status status = device->managed->alloc(device, PAGE, &out);
    return step_out(held, "managed", status, out, &held->managed) &&
           step(held, "advise",
                device->managed->advise(device, held->managed, PAGE, VRAM_ADVICE_PREFER, 0));
}

static bool load_kernel(struct holdings *held) {
    static const char code[] = ".version 6.0\n.visible .entry vram_check_scale(\n)\n{\n}\n";
    const struct vram_kernel_source source = {.size = sizeof source,
                                              .format = WORLD_FORMAT,
                                              .code = code,
                                              .code_bytes = sizeof code - 1,
                                              .entry = "vram_check_scale"};
    void *const untouched = (void *)(uintptr_t)UNTOUCHED;
    void *out = untouched;
    if (!held->device.kernel) {
        return true;
    }
    vram_status status = held->device.kernel->load(&held->device, &source, &out);
    assert_true((status == VRAM_OK) == (out != untouched));
    held->kernel = status == VRAM_OK ? out : NULL;
    return step(held, "load", status);
}

/* A second device, where there is one. */
static bool open_other(struct holdings *held) {
    uint32_t index = 1 - WORLD_INDEX;
    if (held->backend.ops->count(&held->backend) < 2) {
        return true;
    }
    held->other =
        (struct vr_device){.backend = &held->backend, .index = index, .info.backend = WORLD_NAME};
    return step(held, "describe",
                held->backend.ops->describe(&held->backend, index, &held->other.info)) &&
           step(held, "open", held->backend.ops->device_open(&held->other));
}

static bool enable_peer(struct holdings *held) {
    struct vr_device *device = &held->device, *other = &held->other;
    if (!device->peer || !other->peer) {
        return true;
    }
    return step(held, "alloc", other->ops->alloc(other, GRANULE, &held->other_addr)) &&
           (!device->peer->reachable(device, other) ||
            step(held, "peer", device->peer->enable(device, other)));
}

/* Waits as src/device does: by the word, asking the driver now and then. */
static vram_status wait_for(struct vr_queue *queue, uint64_t value) {
    uint64_t end = vr_os_now() + FOR_EVER;
    while (word_of(queue) < value) {
        vram_status status = queue->device->queue_ops->poll(queue);
        if (status != VRAM_OK && status != VRAM_ERR_NOT_READY && word_of(queue) < value) {
            return status;
        }
        if (vr_os_now() > end) {
            return VRAM_ERR_TIMEOUT;
        }
        vr_os_yield();
    }
    return VRAM_OK;
}

static vram_status poll_once(struct vr_queue *queue) {
    vram_status status = queue->device->queue_ops->poll(queue);
    return status == VRAM_ERR_NOT_READY ? VRAM_OK : status;
}

/* Rows that the driver will not copy at once would go one by one. */
static vram_status copy_rows(struct holdings *held, void *host) {
    struct vr_queue *own = &held->own;
    const struct vr_rectangle rectangle = {.to = held->addr,
                                           .from = (uintptr_t)host,
                                           .to_pitch = 48,
                                           .from_pitch = 40,
                                           .row_bytes = 33,
                                           .rows = 3,
                                           .from_host = true};
    vram_status status = own->device->queue_ops->copy_rows(own, &rectangle);
    return status == VRAM_ERR_UNSUPPORTED ? VRAM_OK : status;
}

/* What not every device can do. */
static bool work_more(struct holdings *held) {
    struct vr_device *device = &held->device;
    struct vr_queue *own = &held->own;
    const uint64_t values[] = {held->addr, held->addr + 64, 3, 4};
    const void *const arguments[] = {&values[0], &values[1], &values[2], &values[3]};
    const size_t bytes[] = {8, 8, 8, 8};
    const struct vram_launch launch = {.size = sizeof launch,
                                       .groups = {1, 1, 1},
                                       .group_size = {4, 1, 1},
                                       .argument_count = 4,
                                       .arguments = arguments,
                                       .argument_bytes = bytes};
    return (!held->managed ||
            step(held, "prefetch", device->managed->prefetch(own, held->managed, PAGE, 0))) &&
           (!held->kernel ||
            step(held, "launch", device->kernel->launch(own, held->kernel, &launch))) &&
           (!held->other_addr || !held->other.peer ||
            step(held, "peer_copy",
                 device->peer->copy(own, held->addr, &held->other, held->other_addr, 64)));
}

static bool work_all(struct holdings *held) {
    struct vr_device *device = &held->device;
    const struct vr_queue_ops *ops = device->queue_ops;
    struct vr_queue *own = &held->own, *adopted = &held->adopted;
    static char pageable[4096];
    void *host = held->pinned ? (void *)(uintptr_t)held->pinned : pageable;
    uint64_t value;
    *own = (struct vr_queue){.device = device};
    *adopted = (struct vr_queue){.device = device, .native = held->stream, .adopted = true};
    if (!step(held, "queue", ops->create(own, NULL)) || !step(held, "adopt", ops->adopt(adopted))) {
        assert_true(!adopted->impl && !adopted->word && adopted->native == held->stream);
        return false;
    }
    value = (word_of(own) > word_of(adopted) ? word_of(own) : word_of(adopted)) + 1;
    return step(held, "upload", ops->upload(own, held->addr, host, PAGE)) &&
           step(held, "copy_rows", copy_rows(held, host)) &&
           step(held, "fill1", ops->fill(own, held->addr, 1, 1, 64)) &&
           step(held, "fill2", ops->fill(own, held->addr, 1, 2, 64)) &&
           step(held, "fill4", ops->fill(own, held->addr, 1, 4, 64)) &&
           step(held, "signal", ops->signal(own, value)) &&
           step(held, "after", ops->after(adopted, own, value)) &&
           step(held, "copy", ops->copy(adopted, held->addr + 64, held->addr, 64)) &&
           step(held, "download", ops->download(adopted, host, held->addr, PAGE)) &&
           step(held, "signal", ops->signal(adopted, value)) &&
           step(held, "wait", wait_for(adopted, value)) && step(held, "poll", poll_once(own)) &&
           work_more(held) && step(held, "signal", ops->signal(own, value + 1)) &&
           step(held, "wait", wait_for(own, value + 1));
}

static bool run_open(struct holdings *held) {
    struct vr_device *device = &held->device;
    held->backend = (struct vr_backend){.ops = &WORLD_BACKEND};
    if (!step(held, "start", held->backend.ops->start(&held->backend, NULL))) {
        return false;
    }
    *device = (struct vr_device){
        .backend = &held->backend, .index = WORLD_INDEX, .info.backend = WORLD_NAME};
    return step(held, "describe",
                held->backend.ops->describe(&held->backend, WORLD_INDEX, &device->info)) &&
           step(held, "open", held->backend.ops->device_open(device)) && open_other(held);
}

static bool run_rest(struct holdings *held) {
    return take_all(held) && map_all(held) && share_all(held) && take_managed(held) &&
           load_kernel(held) && enable_peer(held) && work_all(held);
}

/* ------------------------------------------------------------------ release */

/* An end that cannot fail; when the driver refuses something in it, that is nobody's leak. */
static void end_one(struct holdings *held, struct vr_queue *queue) {
    uint64_t struck = fake->struck();
    if (queue->impl) {
        queue->device->queue_ops->destroy(queue);
        held->forgiven = held->forgiven || fake->struck() != struck;
    }
}

/* Submitted work is over before memory goes, as src/device sees to. */
static void settle_all(struct holdings *held) {
    for (int i = 0; i < 10000 && !vr_load(&held->device.lost, VR_ACQUIRE); i++) {
        bool idle = true;
        struct vr_queue *const queues[] = {&held->own, &held->adopted};
        for (int j = 0; j < 2; j++) {
            if (queues[j]->impl) {
                vram_status status = held->device.queue_ops->poll(queues[j]);
                step(held, "settle", status == VRAM_ERR_DEVICE_LOST ? status : VRAM_OK);
                idle = idle && status != VRAM_ERR_NOT_READY;
            }
        }
        if (idle) {
            return;
        }
        vr_os_sleep(20000);
    }
}

/* Gives back what is held; what the driver refuses to take stays held, for another try. */
static void release_all(struct holdings *held) {
    struct vr_device *device = &held->device;
    bool lost = vr_load(&device->lost, VR_ACQUIRE);
    if (held->mapped && step(held, "unmap", device->vmm->unmap(device, held->base, GRANULE))) {
        held->mapped = false;
    }
    if (held->handle && !held->mapped &&
        step(held, "release", device->vmm->release(device, held->handle, GRANULE))) {
        held->handle = 0;
    }
    for (int i = 1; i >= 0; i--) {
        if (held->shared[i] &&
            step(held, "release", device->vmm->release(device, held->shared[i], GRANULE))) {
            held->shared[i] = 0;
        }
    }
    if (held->base && !held->mapped &&
        step(held, "unreserve", device->vmm->unreserve(device, held->base, GRANULE))) {
        held->base = 0;
    }
    if (held->registered &&
        step(held, "unregister", device->pinned->unregister_pages(device, own_page(), PAGE))) {
        held->registered = false;
    }
    if (held->pinned && step(held, "unpin", device->pinned->free(device, held->pinned, PAGE))) {
        held->pinned = 0;
    }
    if (held->managed && step(held, "free", device->managed->free(device, held->managed, PAGE))) {
        held->managed = 0;
    }
    if (held->addr && step(held, "free", device->ops->free(device, held->addr, GRANULE))) {
        held->addr = 0;
    }
    assert_true(!lost || (!held->addr && !held->managed && !held->pinned && !held->base &&
                          !held->handle && !held->shared[0] && !held->shared[1]));
}

static void close_all(struct holdings *held) {
    uint64_t struck = fake->struck();
    if (held->kernel) {
        held->device.kernel->unload(&held->device, held->kernel);
    }
    if (held->other_addr) {
        (void)held->other.ops->free(&held->other, held->other_addr, GRANULE);
    }
    if (held->other.impl) {
        close_device(&held->other);
    }
    if (held->device.impl) {
        close_device(&held->device);
    }
    held->forgiven = held->forgiven || fake->struck() != struck;
    if (held->backend.impl) {
        held->backend.ops->stop(&held->backend);
    }
}

#endif
