/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_storm.c: many threads make random calls of the public API on shared tables of handles, and
 * destroy contexts, devices and queues under each other's feet.
 *
 * What must hold: no crash and no report of a sanitizer; every failure is in the error record and
 * no success is; statuses that mean a broken driver or library never come; the simulated driver
 * logs no breach of its protocol; and at the end nothing is left, neither in the library nor in the
 * driver.
 *
 * A program owes the library two things, and so does the storm: memory is not freed or unmapped
 * under work that uses it, and two pieces of work do not touch the same memory without an order. So
 * memory that work touches is locked by whoever deals with it and remembers the last point that
 * used it. That a queue was destroyed meanwhile is no excuse: its points then count as passed, and
 * must have. Memory goes with its device, and its address may then be another device's: so it is
 * used through queues of its own device alone, but where addresses are not used again. Everything
 * else is wild: stale handles, double frees, maps and unmaps of the same place at once. Wild memory
 * lives on devices of its own, so that a double free cannot meet memory that is in use.
 *
 * `test_storm SEED` plays one storm again, as far as the system's scheduling allows.
 */
#include "unit/storm_world.h"

/* --------------------------------------------------------------- life of objects */

static void renew_context(struct sailor *self) {
    _Atomic(vram_context *) *slot = PICK(self, storm.contexts);
    vram_context_options options = {
        .size = sizeof options, .backends = storm.backends, .sim = storm.sim};
    vram_context *fresh = NULL;
    if (draw(self, 40)) {
        return; /* seldom: everything hangs on it */
    }
    TRY(vram_context_create(&options, &fresh));
    END(vram_context_destroy(atomic_exchange(slot, fresh)));
}

static void renew_device(struct sailor *self) {
    _Atomic(vram_device *) *slot = PICK(self, storm.devices);
    vram_context *context = ANY(self, storm.contexts);
    vram_device *fresh = NULL;
    uint32_t count = vram_device_count(context);
    if (count && atomic_load(slot) && draw(self, 6)) {
        return;
    }
    TRY(vram_device_open(context, (uint32_t)draw(self, count + 1), &fresh));
    END(vram_device_close(atomic_exchange(slot, fresh)));
}

static void end_queue(vram_queue *queue) {
    vram_error_clear();
    vram_queue_destroy(queue);
    if (vram_error_get()->status == VRAM_ERR_INVALID) {
        TRY(vram_queue_end(queue)); /* it was adopted */
    }
    judge_end("vram_queue_destroy");
}

static void renew_queue(struct sailor *self) {
    uint64_t at = draw(self, QUEUES);
    vram_device *device = draw(self, 5) ? QUIET_DEVICE(self) : WILD_DEVICE(self);
    vram_queue *fresh = NULL;
    if (draw(self, 3)) {
        TRY(vram_queue_create(device, NULL, &fresh));
    } else {
        TRY(vram_queue_adopt(device, PICK(self, natives), &fresh));
    }
    pthread_mutex_lock(&storm.owner_lock);
    storm.owners[at] = (struct owner){fresh, device};
    pthread_mutex_unlock(&storm.owner_lock);
    end_queue(atomic_exchange(&storm.queues[at], fresh));
}

static void drop_queue(struct sailor *self) {
    vram_queue *queue = ANY(self, storm.queues); /* it stays in the table, stale */
    if (draw(self, 4) == 0) {
        end_queue(queue);
    }
}

/* ------------------------------------------------------------ memory in good order */

static void add_one(const vram_kernel_call *call) {
    uint64_t *memory = (uint64_t *)*(uintptr_t *)call->arguments[0];
    memory[call->group[0]] += 1;
}

static void make_mapped(struct buffer *buffer, vram_device *device) {
    vram_addr base = 0;
    vram_physical *physical = NULL;
    vram_device_info info = {.size = sizeof info};
    if (TRY(vram_device_describe(device, &info)) != VRAM_OK) {
        return;
    }
    uint64_t bytes = info.vmm_granule.known ? info.vmm_granule.value : PAGE;
    if (TRY(vram_range_create(device, bytes, &base)) == VRAM_OK &&
        TRY(vram_physical_create(device, bytes, &physical)) == VRAM_OK &&
        TRY(vram_range_map(device, base, &physical, 1)) == VRAM_OK) {
        buffer->addr = base;
        buffer->physical = physical;
        return;
    }
    if (physical) {
        TRY(vram_physical_destroy(physical));
    }
    if (base) {
        TRY(vram_range_destroy(device, base));
    }
}

static void end_buffer(struct buffer *buffer) {
    vram_native_info native = {.size = sizeof native};
    settle(buffer);
    if (buffer->physical && TRY(vram_native(buffer->addr, &native)) == VRAM_OK) {
        TRY(vram_range_unmap(buffer->device, buffer->addr, native.bytes));
        TRY(vram_physical_destroy(buffer->physical));
        TRY(vram_range_destroy(buffer->device, buffer->addr));
    } else if (!buffer->physical) {
        TRY(vram_device_free(buffer->device, buffer->addr));
    }
    buffer->addr = 0;
    buffer->physical = NULL;
}

static void renew_buffer(struct sailor *self) {
    struct buffer *buffer = PICK(self, storm.buffers);
    pthread_mutex_lock(&buffer->lock);
    if (buffer->addr) {
        end_buffer(buffer);
    }
    buffer->device = QUIET_DEVICE(self);
    buffer->on_host = false;
    if (draw(self, 4) == 0) {
        make_mapped(buffer, buffer->device);
    } else {
        vram_memory_kind kind =
            draw(self, 6) ? VRAM_MEMORY_DEVICE : (vram_memory_kind)draw(self, 4);
        TRY(vram_device_alloc(buffer->device, PAGE, kind, &buffer->addr));
        buffer->on_host = kind != VRAM_MEMORY_DEVICE;
    }
    pthread_mutex_unlock(&buffer->lock);
}

static void renew_kernel(struct sailor *self) {
    struct buffer *slot = PICK(self, storm.kernels);
    vram_kernel_source code = {.size = sizeof code,
                               .format = VRAM_KERNEL_C,
                               .code = (const void *)(uintptr_t)add_one,
                               .entry = "add_one"};
    pthread_mutex_lock(&slot->lock);
    settle(slot);
    END(vram_kernel_destroy(slot->kernel));
    slot->kernel = NULL;
    slot->device = QUIET_DEVICE(self);
    TRY(vram_kernel_create(slot->device, &code, &slot->kernel));
    pthread_mutex_unlock(&slot->lock);
}

/* Notes that a call on the queue, which answered `status`, uses the buffer. */
static void note(struct buffer *buffer, struct use use, vram_status status) {
    if (status == VRAM_OK) {
        buffer->use = use;
    }
}

static vram_status submit_simple(struct sailor *self, vram_queue *queue, vram_addr addr) {
    unsigned sink = atomic_fetch_add(&storm.next_sink, 1);
    uint64_t bytes = 1 + draw(self, PAGE);
    switch (draw(self, 4)) {
    case 0:
        return TRY(vram_queue_upload(queue, addr, source, bytes));
    case 1:
        return TRY(vram_queue_fill(queue, addr, 7, 1, bytes));
    case 2:
        return TRY(vram_queue_prefetch(queue, addr, bytes, (int32_t)draw(self, 2) - 2));
    default:
        return sink < SINKS ? TRY(vram_queue_download(queue, sinks[sink], addr, SINK_BYTES))
                            : VRAM_ERR_LIMIT;
    }
}

static void use_buffer(struct sailor *self) {
    struct buffer *buffer = PICK(self, storm.buffers);
    pthread_mutex_lock(&buffer->lock);
    if (buffer->addr) {
        vram_queue *queue = queue_for(self, buffer->device);
        order(self, buffer, queue);
        vram_status status = submit_simple(self, queue, buffer->addr);
        note(buffer, status == VRAM_OK ? use_now(queue) : buffer->use, status);
    }
    pthread_mutex_unlock(&buffer->lock);
}

/* Also between devices: then the right is asked for first, or not. */
static void copy_buffer(struct sailor *self) {
    uint64_t one = draw(self, BUFFERS), two = draw(self, BUFFERS);
    struct buffer *low = &storm.buffers[one < two ? one : two];
    struct buffer *high = &storm.buffers[one < two ? two : one];
    if (one == two) {
        return;
    }
    pthread_mutex_lock(&low->lock);
    pthread_mutex_lock(&high->lock);
    bool sure = low->device == high->device || (storm.unique && !low->on_host);
    if (low->addr && high->addr && sure) {
        vram_queue *queue = queue_for(self, high->device);
        if (low->device != high->device && draw(self, 2)) {
            TRY(vram_device_peer_enable(high->device, low->device));
        }
        order(self, low, queue);
        order(self, high, queue);
        vram_status status = TRY(vram_queue_copy(queue, high->addr, low->addr, PAGE));
        struct use use = status == VRAM_OK ? use_now(queue) : low->use;
        note(low, use, status);
        note(high, use, status);
    }
    pthread_mutex_unlock(&high->lock);
    pthread_mutex_unlock(&low->lock);
}

static void launch_kernel(struct sailor *self) {
    struct buffer *slot = PICK(self, storm.kernels), *buffer = PICK(self, storm.buffers);
    pthread_mutex_lock(&slot->lock); /* before any buffer's */
    pthread_mutex_lock(&buffer->lock);
    vram_native_info native = {.size = sizeof native};
    bool reachable = buffer->addr && slot->device == buffer->device &&
                     TRY(vram_native(buffer->addr, &native)) == VRAM_OK && native.host_pointer;
    if (reachable) {
        vram_queue *queue = queue_for(self, buffer->device);
        const void *arguments[] = {&buffer->addr};
        const size_t sizes[] = {sizeof buffer->addr};
        vram_launch launch = {.size = sizeof launch,
                              .groups = {1 + (uint32_t)draw(self, 8), 1, 1},
                              .group_size = {1, 1, 1},
                              .argument_count = 1,
                              .arguments = arguments,
                              .argument_bytes = sizes};
        settle(slot);
        order(self, buffer, queue);
        vram_status status = TRY(vram_queue_launch(queue, slot->kernel, &launch));
        struct use use = status == VRAM_OK ? use_now(queue) : slot->use;
        note(slot, use, status);
        note(buffer, status == VRAM_OK ? use : buffer->use, status);
    }
    pthread_mutex_unlock(&buffer->lock);
    pthread_mutex_unlock(&slot->lock);
}

/* -------------------------------------------------------------------- wild calls */

static void wild_alloc(struct sailor *self) {
    vram_addr addr = 0;
    if (TRY(vram_device_alloc(WILD_DEVICE(self), PAGE, VRAM_MEMORY_DEVICE, &addr)) == VRAM_OK) {
        atomic_store(PICK(self, storm.wild), addr);
    }
}

static void wild_free(struct sailor *self) {
    TRY(vram_device_free(WILD_DEVICE(self), ANY(self, storm.wild)));
}

static void wild_range(struct sailor *self) {
    _Atomic(vram_addr) *slot = PICK(self, storm.ranges);
    vram_addr base = 0;
    if (draw(self, 3)) {
        TRY(vram_range_destroy(WILD_DEVICE(self), atomic_load(slot)));
    } else if (TRY(vram_range_create(WILD_DEVICE(self), PLACES * PAGE, &base)) == VRAM_OK) {
        atomic_store(slot, base);
    }
}

static void wild_handle(struct sailor *self) {
    _Atomic(vram_physical *) *slot = PICK(self, storm.handles);
    vram_physical *fresh = NULL;
    if (draw(self, 2)) {
        TRY(vram_physical_destroy(atomic_load(slot)));
    } else if (TRY(vram_physical_create(WILD_DEVICE(self), PAGE * (1 + draw(self, 2)), &fresh)) ==
               VRAM_OK) {
        atomic_store(slot, fresh); /* the old one goes with its device */
    }
}

static void wild_map(struct sailor *self) {
    vram_physical *list[3];
    uint32_t count = 1 + (uint32_t)draw(self, 3);
    for (uint32_t i = 0; i < count; i++) {
        list[i] = ANY(self, storm.handles);
    }
    vram_addr at = ANY(self, storm.ranges) + draw(self, PLACES) * PAGE;
    TRY(vram_range_map(WILD_DEVICE(self), at, list, count));
}

static void wild_unmap(struct sailor *self) {
    vram_addr at = ANY(self, storm.ranges) + draw(self, PLACES) * PAGE;
    TRY(vram_range_unmap(WILD_DEVICE(self), at, PAGE * (1 + draw(self, 3))));
}

static void wild_point(struct sailor *self) {
    static const uint64_t timeouts[] = {0, 1000, 300000};
    pthread_mutex_lock(&storm.point_lock);
    vram_point point = *PICK(self, storm.points);
    pthread_mutex_unlock(&storm.point_lock);
    switch (draw(self, 4)) {
    case 0:
        if (TRY(vram_queue_mark(ANY(self, storm.queues), &point)) == VRAM_OK) {
            pthread_mutex_lock(&storm.point_lock);
            *PICK(self, storm.points) = point;
            pthread_mutex_unlock(&storm.point_lock);
        }
        break;
    case 1:
        TRY(vram_point_wait(point, *PICK(self, timeouts)));
        break;
    case 2:
        TRY(vram_queue_after(ANY(self, storm.queues), point));
        break;
    default:
        TRY(vram_point_poll(point));
    }
}

static void wild_wait(struct sailor *self) {
    vram_queue *queue = ANY(self, storm.queues);
    void *native;
    switch (draw(self, 3)) {
    case 0:
        TRY(vram_queue_wait(queue, draw(self, 2) ? 60 * SECOND : draw(self, 100000)));
        break;
    case 1:
        TRY(vram_queue_native(queue, &native));
        break;
    default:
        TRY(vram_queue_poll(queue));
    }
}

static void wild_look(struct sailor *self) {
    vram_device *device = ANY(self, storm.devices);
    vram_context *context = ANY(self, storm.contexts);
    vram_memory_info memory = {.size = sizeof memory};
    vram_native_info native = {.size = sizeof native};
    vram_backend_info backend = {.size = sizeof backend};
    vram_sim_state state = {.size = sizeof state};
    uint32_t index;
    vram_addr addr = ANY(self, storm.wild) + draw(self, PAGE);
    if (TRY(vram_memory_info_get(device, &memory)) == VRAM_OK && memory.held_bytes >> 40) {
        complain("books that do not balance", "vram_memory_info_get");
    }
    if (TRY(vram_native(addr, &native)) == VRAM_OK &&
        (native.offset >= native.bytes || native.base + native.offset != addr)) {
        complain("a place that cannot be", "vram_native");
    }
    TRY(vram_backend_info_get(context, 0, &backend));
    TRY(vram_device_best(context, &index));
    TRY(vram_sim_state_get(context, &state));
    vram_physical_bytes(ANY(self, storm.handles));
}

static void be_hungry(struct sailor *self) {
    if (storm.hungry) {
        vr_mem_fail_at(1 + draw(self, 60), false);
    }
}

/* ----------------------------------------------------------------------- the storm */

static const struct {
    void (*op)(struct sailor *self);
    unsigned weight;
} ops[] = {
    {renew_context, 1}, {renew_device, 3}, {renew_queue, 8}, {drop_queue, 4},
    {renew_buffer, 14}, {renew_kernel, 3}, {use_buffer, 24}, {copy_buffer, 12},
    {launch_kernel, 6}, {wild_alloc, 6},   {wild_free, 8},   {wild_range, 4},
    {wild_handle, 10},  {wild_map, 12},    {wild_unmap, 12}, {wild_point, 16},
    {wild_wait, 8},     {wild_look, 4},    {be_hungry, 3},
};

static void *sail(void *argument) {
    struct sailor *self = argument;
    unsigned total = 0;
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        total += ops[i].weight;
    }
    while (vr_os_now() < storm.deadline && atomic_load(&storm.failures) < 10) {
        uint64_t drawn = draw(self, total);
        size_t at = 0;
        for (; drawn >= ops[at].weight; at++) {
            drawn -= ops[at].weight;
        }
        self->op = ops[at].op;
        self->op(self);
    }
    return NULL;
}

static void begin(const char *backends, const char *sim, bool hungry, uint64_t seed) {
    vram_context_options options = {.size = sizeof options, .backends = backends, .sim = sim};
    memset(&storm, 0, sizeof storm);
    storm.backends = backends;
    storm.sim = sim;
    storm.hungry = hungry;
    storm.lossy = sim && strstr(sim, "lose=");
    storm.unique = sim && !strstr(sim, "real=on") && !strstr(backends, "host");
    storm.seed = seed;
    storm.deadline = vr_os_now() + STORM_NS;
    pthread_mutex_init(&storm.point_lock, NULL);
    pthread_mutex_init(&storm.owner_lock, NULL);
    for (int i = 0; i < BUFFERS; i++) {
        pthread_mutex_init(&storm.buffers[i].lock, NULL);
    }
    for (int i = 0; i < KERNELS; i++) {
        pthread_mutex_init(&storm.kernels[i].lock, NULL);
    }
    vram_log_set(on_log, NULL, VRAM_LOG_ERROR);
    for (int i = 0; i < CONTEXTS; i++) {
        vram_context *context;
        assert_int_equal(vram_context_create(&options, &context), VRAM_OK);
        atomic_store(&storm.contexts[i], context);
    }
    for (uint32_t i = 0; i < DEVICES; i++) {
        vram_device *device;
        vram_context *context = atomic_load(&storm.contexts[i % CONTEXTS]);
        uint32_t count = vram_device_count(context);
        assert_int_equal(vram_device_open(context, i / CONTEXTS % count, &device), VRAM_OK);
        atomic_store(&storm.devices[i], device);
    }
}

/* Everything is destroyed from the top; a simulated driver must then hold nothing. */
static void end(void) {
    for (int i = 0; i < DEVICES; i++) {
        END(vram_device_close(atomic_load(&storm.devices[i])));
    }
    for (int i = 0; i < CONTEXTS; i++) {
        vram_context *context = atomic_load(&storm.contexts[i]);
        vram_sim_state state = {.size = sizeof state};
        if (vram_sim_state_get(context, &state) == VRAM_OK) {
            assert_int_equal(state.violations, 0);
            assert_int_equal(state.live_bytes, 0);
            assert_int_equal(state.live_handles, 0);
        }
        END(vram_context_destroy(context));
    }
    vram_log_set(NULL, NULL, VRAM_LOG_OFF);
    assert_int_equal(vr_handle_live(0), 0);
    assert_int_equal(vr_mem_live_bytes(), 0);
    assert_int_equal(atomic_load(&storm.failures), 0);
    assert_true(atomic_load(&storm.successes) > 100); /* it was not all refusals */
}

static uint64_t seed_from_user;

static void play(const char *backends, const char *sim, bool hungry, uint64_t seed) {
    struct sailor crew[THREADS];
    begin(backends, sim, hungry, seed_from_user ? seed_from_user : seed);
    for (uint64_t i = 0; i < THREADS; i++) {
        crew[i] = (struct sailor){.random = storm.seed * 1000 + i};
        assert_int_equal(pthread_create(&crew[i].thread, NULL, sail, &crew[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(crew[i].thread, NULL);
    }
    vr_mem_fail_at(0, false);
    print_message("%llu calls, %llu of them successes\n",
                  (unsigned long long)atomic_load(&storm.calls),
                  (unsigned long long)atomic_load(&storm.successes));
    end();
}

static void on_the_host(void **state) {
    (void)state;
    play("host", NULL, false, 11);
}

static void on_real_memory(void **state) {
    (void)state;
    play("sim", "devices=2,memory=4G,granule=64K,real=on,lag=20,journal=64", false, 12);
}

static void on_slow_devices(void **state) {
    (void)state;
    play("sim", "devices=3,memory=64G,granule=64K,lag=200,journal=0,seed=5", false, 13);
}

static void on_devices_that_are_lost(void **state) {
    (void)state;
    play("sim", "devices=2,memory=4G,granule=64K,lag=20,journal=0,lose=900:1", false, 15);
}

static void with_little_host_memory(void **state) {
    (void)state;
    play("sim,host", "devices=2,memory=4G,granule=64K,lag=10", true, 14);
}

int main(int count, char **words) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_the_host),
        cmocka_unit_test(on_real_memory),
        cmocka_unit_test(on_slow_devices),
        cmocka_unit_test(on_devices_that_are_lost),
        cmocka_unit_test(with_little_host_memory),
    };
    seed_from_user = count > 1 ? strtoull(words[1], NULL, 10) : 0;
    cmocka_set_test_filter(count > 2 ? words[2] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
