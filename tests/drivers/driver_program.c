/* SPDX-License-Identifier: Apache-2.0 */
/* driver_program.c: a program that uses all that a device can do; see drivers.h. */
#include "drivers.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { KIB = 1 << 10, MIB = 1 << 20, SETTLE_US = 100000 };

/* An output that a call writes when it succeeds, and only then. */
#define UNTOUCHED UINT64_C(0xABCDEF0123456789)

bool step(struct program *program, const char *name, vram_status status) {
    if (status != VRAM_OK && !program->step) {
        program->step = name;
        program->status = status;
        program->error = *vram_error_get();
    }
    return status == VRAM_OK;
}

/* What no failure of a driver excuses. */
static bool broken(struct program *program, const char *what) {
    program->step = "broken";
    snprintf(program->error.text, sizeof program->error.text, "%s", what);
    return false;
}

bool present(struct program *program, vram_context *context) {
    vram_backend_info info = {.size = sizeof info};
    for (uint32_t i = 0; vram_backend_info_get(context, i, &info) == VRAM_OK; i++) {
        if (strcmp(info.name, program->driver->name) == 0 && !info.present && !program->step) {
            program->step = "absent";
            program->status = VRAM_ERR_NO_DEVICE;
            memcpy(program->error.text, info.reason, sizeof info.reason);
        }
    }
    return !program->step;
}

bool program_open(struct program *program, const struct driver *driver) {
    const vram_context_options options = {.size = sizeof options, .backends = driver->name};
    *program = (struct program){.driver = driver, .info.size = sizeof program->info};
    vram_error_clear();
    program->open =
        STEP(program, vram_context_create(&options, &program->context)) &&
        present(program, program->context) &&
        STEP(program, vram_device_open(program->context, 0, &program->device)) &&
        STEP(program, vram_device_describe(program->device, &program->info)) &&
        STEP(program, vram_device_open(program->context, vram_device_count(program->context) > 1,
                                       &program->other));
    return program->open;
}

static bool can(const struct program *program, uint32_t caps) {
    return (program->info.caps & caps) == caps;
}

static bool alloc(struct program *program, uint64_t bytes, vram_memory_kind kind, vram_addr *addr) {
    vram_addr out = UNTOUCHED;
    bool good = STEP(program, vram_device_alloc(program->device, bytes, kind, &out));
    if (good == (out == UNTOUCHED)) {
        return broken(program, good ? "an output was not written" : "an output was written");
    }
    *addr = good ? out : 0;
    return good;
}

static bool take(struct program *program) {
    vram_memory_info memory = {.size = sizeof memory};
    vram_device *device = program->device;
    const vram_queue_options urgent = {.size = sizeof urgent, .priority = 1};
    bool going = alloc(program, 4 * MIB, VRAM_MEMORY_DEVICE, &program->addr) &&
                 alloc(program, MIB, VRAM_MEMORY_DEVICE, &program->second) &&
                 STEP(program, vram_memory_info_get(device, &memory)) &&
                 step(program, "lost", memory.lost ? VRAM_ERR_DEVICE_LOST : VRAM_OK) &&
                 (!can(program, VRAM_CAP_PINNED) ||
                  alloc(program, 8 * KIB, VRAM_MEMORY_PINNED, &program->pinned)) &&
                 STEP(program, vram_queue_create(device, &urgent, &program->queue)) &&
                 STEP(program, vram_queue_create(device, NULL, &program->third)) &&
                 STEP(program, vram_queue_create(program->other, NULL, &program->far)) &&
                 STEP(program, vram_queue_native(program->queue, &program->native)) &&
                 (!can(program, VRAM_CAP_ADOPT) ||
                  STEP(program, vram_queue_adopt(device, program->native, &program->adopted)));
    if (going && can(program, VRAM_CAP_MANAGED)) {
        going = alloc(program, 8 * KIB, VRAM_MEMORY_MANAGED, &program->managed) &&
                STEP(program, vram_device_advise(device, program->managed, 8 * KIB,
                                                 VRAM_ADVICE_PREFER, VRAM_TARGET_OWN));
    }
    if (going && can(program, VRAM_CAP_VMM)) {
        going = STEP(program, vram_range_create(device, 8 * MIB, &program->range)) &&
                STEP(program, vram_physical_create(device, 2 * MIB, &program->physical)) &&
                (program->mapped =
                     STEP(program, vram_range_map(device, program->range, &program->physical, 1)));
    }
    return going;
}

static bool compute(struct program *program) {
    const uint64_t values[] = {program->addr, program->second, 3, 64};
    const void *const arguments[] = {&values[0], &values[1], &values[2], &values[3]};
    const size_t bytes[] = {8, 8, 8, 8};
    const vram_launch launch = {.size = sizeof launch,
                                .groups = {1, 1, 1},
                                .group_size = {64, 1, 1},
                                .argument_count = 4,
                                .arguments = arguments,
                                .argument_bytes = bytes,
                                .address_mask = 3};
    if (!can(program, VRAM_CAP_KERNELS)) {
        return true;
    }
    return STEP(program,
                vram_kernel_create(program->device, program->driver->kernel, &program->kernel)) &&
           STEP(program, vram_queue_launch(program->queue, program->kernel, &launch));
}

/* What the driver refused to take is given once more: a free that failed has changed nothing. */
#define GIVE(program, what, call)                                                                  \
    if (program->what) {                                                                           \
        if (STEP(program, call) || step(program, #call " again", call)) {                          \
            program->what = 0;                                                                     \
        }                                                                                          \
    }

/* The copy is over here: once the device is lost, nobody could tell when it is. */
static bool enable_peer(struct program *program) {
    vram_status status = vram_device_peer_enable(program->device, program->other);
    if (status == VRAM_ERR_UNSUPPORTED && vram_error_get()->native_code == 0) {
        return true; /* the driver did not say that there is a path */
    }
    return step(program, "vram_device_peer_enable", status) &&
           STEP(program,
                vram_queue_copy(program->queue, program->addr, program->other_addr, 4096)) &&
           STEP(program, vram_queue_wait(program->queue, VRAM_TIMEOUT_DEFAULT));
}

static bool give_peer(struct program *program) {
    GIVE(program, other_addr, vram_device_free(program->other, program->other_addr))
    return !program->step;
}

static bool use_peer(struct program *program) {
    return !can(program, VRAM_CAP_PEERS) || vram_device_count(program->context) < 2 ||
           (STEP(program, vram_device_alloc(program->other, 2 * MIB, VRAM_MEMORY_DEVICE,
                                            &program->other_addr)) &&
            enable_peer(program) && give_peer(program));
}

/* Memory of the program's own, page-locked in place for one copy. Pages that a driver may still
   have locked, since it did not say that it let them go, are not used again. */
static bool lock_own(struct program *program) {
    enum { BYTES = 8 * KIB };
    vram_device *device = program->device;
    if (!can(program, VRAM_CAP_PINNED)) {
        return true;
    }
    void *own = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (own == MAP_FAILED) {
        return false;
    }
    vram_status status = vram_pinned_begin(device, own, BYTES);
    if (status == VRAM_ERR_UNSUPPORTED && vram_error_get()->native_code == 0) {
        (void)munmap(own, BYTES);
        return true; /* the backend cannot */
    }
    bool going = step(program, "vram_pinned_begin", status) &&
                 STEP(program, vram_queue_upload(program->queue, program->addr, own, BYTES)) &&
                 STEP(program, vram_queue_wait(program->queue, VRAM_TIMEOUT_DEFAULT)) &&
                 STEP(program, vram_pinned_end(device, own, BYTES)) &&
                 STEP(program, vram_pinned_forget(device, own, BYTES));
    if (going) {
        (void)munmap(own, BYTES);
    }
    return going;
}

/* Exports a block, and opens it as another process would. */
static bool share_own(struct program *program) {
    const vram_pool_options options = {.size = sizeof options, .flags = VRAM_POOL_SHAREABLE};
    vram_share *exported = NULL, *opened = NULL;
    vram_pool *pool = NULL;
    vram_share_token token;
    vram_addr addr = 0;
    vram_status status = vram_pool_create(program->device, &options, &pool);
    if (status == VRAM_ERR_UNSUPPORTED && vram_error_get()->native_code == 0) {
        return true;
    }
    bool going = step(program, "vram_pool_create of a shareable pool", status) &&
                 STEP(program, vram_alloc(pool, 2 * MIB, program->queue, &addr)) &&
                 STEP(program, vram_share_export(&addr, 1, NULL, &exported)) &&
                 STEP(program, vram_share_token_get(exported, &token)) &&
                 STEP(program, vram_share_open(program->device, &token, NULL, &opened));
    going = STEP(program, vram_share_close(opened)) && going;
    going = STEP(program, vram_share_close(exported)) && going;
    return STEP(program, vram_pool_destroy(pool)) && going;
}

/* Ordinary memory and page-locked, whole words and not, small pieces and long ones. */
static char ordinary[100000];

static void *host_of(const struct program *program) {
    return program->pinned ? (void *)(uintptr_t)program->pinned : ordinary;
}

static bool copy(struct program *program) {
    vram_queue *queue = program->queue;
    vram_addr addr = program->addr;
    return STEP(program, vram_queue_upload(queue, addr, host_of(program), 4096)) &&
           STEP(program, vram_queue_upload(queue, addr + 1, ordinary, 101)) &&
           STEP(program, vram_queue_upload(queue, addr, ordinary, sizeof ordinary)) &&
           STEP(program, vram_queue_fill(queue, addr, 1, 1, 63)) &&
           STEP(program, vram_queue_fill(queue, addr, 1, 2, 64)) &&
           STEP(program, vram_queue_fill(queue, addr, 1, 4, 64)) &&
           STEP(program, vram_queue_download(queue, ordinary, addr, sizeof ordinary)) &&
           (!program->mapped ||
            STEP(program, vram_queue_fill(queue, program->range, 1, 4, 2 * MIB)));
}

static bool use_managed(struct program *program) {
    vram_queue *queue = program->queue;
    vram_addr addr = program->managed;
    return !addr || (STEP(program, vram_queue_fill(queue, addr, 1, 4, 64)) &&
                     STEP(program, vram_queue_copy(queue, addr + 64, addr, 64)) &&
                     STEP(program, vram_queue_prefetch(queue, addr, 8 * KIB, VRAM_TARGET_OWN)));
}

/* Rows to the device, on it and back, in one call of the driver or one by one; no byte is lost. */
static bool copy_rows(struct program *program) {
    enum { ROW = 33, ROWS = 3, NARROW = 40, WIDE = 48 };
    static char found[ROWS * NARROW];
    vram_queue *queue = program->queue;
    vram_addr addr = program->addr, second = program->second;
    const vram_copy_2d up = {{.to = addr, .from_host = ordinary}, ROW, ROWS, WIDE, NARROW};
    const vram_copy_2d over = {{.to = second, .from = addr}, ROW, ROWS, NARROW, WIDE};
    const vram_copy_2d down = {{.to_host = found, .from = second}, ROW, ROWS, NARROW, NARROW};
    for (int i = 0; i < ROWS * NARROW; i++) {
        ordinary[i] = (char)(i * 7 + 1);
    }
    memset(found, 0, sizeof found);
    if (!STEP(program, vram_transfer_2d(queue, &up, NULL, NULL)) ||
        !STEP(program, vram_transfer_2d(queue, &over, NULL, NULL)) ||
        !STEP(program, vram_transfer_2d(queue, &down, NULL, NULL)) ||
        !STEP(program, vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT))) {
        return false;
    }
    for (int i = 0; i < ROWS; i++) {
        if (memcmp(found + i * NARROW, ordinary + i * NARROW, ROW) != 0) {
            return broken(program, "rows came back with other bytes");
        }
    }
    return true;
}

static bool poll(struct program *program) {
    vram_status status = vram_queue_poll(program->queue);
    return status == VRAM_ERR_NOT_READY || step(program, "vram_queue_poll", status);
}

/* The other queue waits for what the first one does. */
static bool follow(struct program *program) {
    vram_queue *second = program->adopted ? program->adopted : program->third;
    const struct driver *driver = program->driver;
    vram_point point;
    driver->hold(true);
    bool going = STEP(program, vram_queue_mark(program->queue, &point)) &&
                 STEP(program, vram_queue_after(second, point)) &&
                 STEP(program, vram_queue_after(program->third, point)) &&
                 STEP(program, vram_queue_after(program->far, point));
    driver->hold(false);
    return going &&
           STEP(program, vram_queue_copy(second, program->addr + MIB, program->addr, 4096)) &&
           STEP(program, vram_queue_download(second, host_of(program), program->addr, 4096)) &&
           poll(program) && STEP(program, vram_queue_wait(second, VRAM_TIMEOUT_DEFAULT)) &&
           STEP(program, vram_queue_wait(program->third, VRAM_TIMEOUT_DEFAULT));
}

static bool use_pool(struct program *program) {
    /* Where the driver says that it is not page-locked: an answer, and the program goes on. */
    vram_buffer_options pinned = {
        .size = sizeof pinned, .kind = VRAM_BUFFER_PINNED, .flags = VRAM_BUFFER_PAGEABLE};
    vram_native_info native = {.size = sizeof native};
    vram_buffer *buffer = NULL;
    return STEP(program, vram_pool_create(program->device, NULL, &program->pool)) &&
           STEP(program, vram_alloc(program->pool, MIB, program->queue, &program->block)) &&
           STEP(program, vram_queue_fill(program->queue, program->block, 0, 4, MIB)) &&
           STEP(program, vram_native(program->block, &native)) &&
           STEP(program, vram_free(program->block, program->queue)) &&
           STEP(program,
                vram_buffer_create(program->pool, 8192, program->queue, &pinned, &buffer)) &&
           STEP(program, vram_buffer_destroy(buffer)) &&
           STEP(program, vram_queue_wait(program->queue, VRAM_TIMEOUT_DEFAULT));
}

static bool give(struct program *program) {
    vram_device *device = program->device;
    if (program->status == VRAM_ERR_DEVICE_LOST && program->other_addr) {
        usleep(SETTLE_US); /* the device may be well, and read from the other what it was told to */
    }
    vram_queue *const queues[] = {program->far, program->adopted, program->third, program->queue};
    for (int i = 0; i < 4; i++) {
        (void)(!queues[i] || STEP(program, vram_queue_wait(queues[i], VRAM_TIMEOUT_DEFAULT)));
    }
    GIVE(program, mapped, vram_range_unmap(device, program->range, 2 * MIB))
    GIVE(program, physical, vram_physical_destroy(program->physical))
    GIVE(program, range, vram_range_destroy(device, program->range))
    GIVE(program, managed, vram_device_free(device, program->managed))
    GIVE(program, pinned, vram_device_free(device, program->pinned))
    GIVE(program, addr, vram_device_free(device, program->addr))
    GIVE(program, second, vram_device_free(device, program->second))
    return give_peer(program);
}

void program_work(struct program *program) {
    const struct driver *driver = program->driver;
    (void)(take(program) && copy(program) && follow(program) && use_managed(program) &&
           compute(program) && use_peer(program) && (!driver->more || driver->more(program)) &&
           copy_rows(program) && lock_own(program) && give(program) && share_own(program) &&
           use_pool(program));
}

void program_end(struct program *program) {
    (void)give(program);
    if (program->adopted) {
        (void)STEP(program, vram_queue_end(program->adopted));
    }
    if (program->pool) {
        (void)STEP(program, vram_pool_destroy(program->pool));
    }
    program->ending = true;
    vram_kernel_destroy(program->kernel);
    vram_queue_destroy(program->far);
    vram_queue_destroy(program->third);
    vram_queue_destroy(program->queue);
    vram_device_close(program->other);
    vram_device_close(program->device);
    vram_context_destroy(program->context);
}
