/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remote.c: a remote from opening to closing, its thread, and how other threads hand it work. The
 * invariants are in remote_object.h.
 */
#include "adapters/ucx/remote_object.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/struct_tail.h"

#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

enum {
    TIMEOUT_DEFAULT_S = 10,
    SLOTS_DEFAULT = 8,
    SLOTS_MAX = 256,
    CHUNK_MAX = 256 << 20,
    SPIN_NS = 20000,    /* that the thread looks for more before it sleeps */
    TURN_PROGRESS = 64, /* calls of worker_progress in one turn of the loop */
};
#define SLEEP_MAX_NS UINT64_C(1000000000)
#define END_WAIT_NS  UINT64_C(2000000000) /* for UCX to close endpoints */

/* ------------------------------------------------------------------ commands */

vram_status vr_remote_post(struct vr_remote *remote, struct vr_command *command) {
    vr_mutex_lock(&remote->lock);
    bool taken = !remote->stopping;
    if (taken) {
        vr_list_append(&remote->inbox, &command->link);
    }
    vr_mutex_unlock(&remote->lock);
    if (!taken) {
        return vr_fail(VRAM_ERR_SHUTDOWN, "the remote is being closed");
    }
    VR_UCX_QUIET;
    (void)vr_ucx.worker_signal(remote->net.worker);
    return VRAM_OK;
}

vram_status vr_remote_call(struct vr_remote *remote, struct vr_command *command) {
    if (vr_os_thread_number() == vr_load(&remote->thread_number, VR_ACQUIRE)) {
        return vr_fail(VRAM_ERR_BUSY, "a callback on the remote's own thread cannot wait for it");
    }
    command->waits = true;
    vram_status status = vr_remote_post(remote, command);
    if (status != VRAM_OK) {
        return status;
    }
    VR_UNCANCELLED;
    vr_mutex_lock(&remote->lock);
    while (!command->done) {
        (void)vr_cond_wait(&remote->changed, &remote->lock, UINT64_MAX);
    }
    vr_mutex_unlock(&remote->lock);
    if (command->status != VRAM_OK) {
        command->error.operation = vr_operation();
        vr_error_restore(&command->error);
    }
    return command->status;
}

void vr_command_end(struct vr_remote *remote, struct vr_command *command, vram_status status) {
    if (status != VRAM_OK) {
        vr_error_save(&command->error);
    }
    vr_mutex_lock(&remote->lock);
    command->status = status;
    command->done = true;
    vr_cond_broadcast(&remote->changed);
    vr_mutex_unlock(&remote->lock);
}

static struct vr_command *inbox_take(struct vr_remote *remote) {
    vr_mutex_lock(&remote->lock);
    struct vr_link *link = vr_list_first(&remote->inbox);
    if (link) {
        vr_link_remove(link);
    }
    vr_mutex_unlock(&remote->lock);
    return link ? VR_CONTAINER(link, struct vr_command, link) : NULL;
}

/* Runs what other threads have handed over; false: the remote is being closed. */
static bool inbox_run(struct vr_remote *remote) {
    struct vr_command *command;
    while ((command = inbox_take(remote)) != NULL) {
        remote->busy = true;
        command->run(remote, command);
    }
    vr_mutex_lock(&remote->lock);
    bool goes_on = !remote->stopping;
    vr_mutex_unlock(&remote->lock);
    return goes_on;
}

/* -------------------------------------------------------------------- thread */

/* One turn of the loop, without the inbox. */
static void remote_turn(struct vr_remote *remote) {
    remote->sleep_ns = SLEEP_MAX_NS;
    for (int i = 0; i < TURN_PROGRESS && vr_ucx.worker_progress(remote->net.worker); i++) {
        remote->busy = true;
    }
    vr_mail_step(remote);
    vr_marks_step(remote);
    vr_peers_step(remote);
    vr_regions_step(remote);
}

/* Sleeps until UCX or another thread has something, or sleep_ns are over. */
static void remote_sleep(struct vr_remote *remote, uint64_t *idle_since) {
    uint64_t now = vr_clock_now();
    if (remote->busy || *idle_since == 0) {
        *idle_since = now;
        return;
    }
    if (now - *idle_since < SPIN_NS) {
        vr_os_pause();
        return;
    }
    if (vr_ucx.worker_arm(remote->net.worker) != UCS_OK) {
        return; /* something has arrived meanwhile */
    }
    struct pollfd polled = {.fd = remote->event_fd, .events = POLLIN};
    struct timespec time = {.tv_sec = (time_t)(remote->sleep_ns / 1000000000),
                            .tv_nsec = (long)(remote->sleep_ns % 1000000000)};
    (void)ppoll(&polled, 1, &time, NULL);
}

static void remote_run(void *argument) {
    struct vr_remote *remote = argument;
    uint64_t idle_since = 0;
    VR_OPERATION("vram_remote");
    VR_UCX_QUIET;
    vr_store(&remote->thread_number, vr_os_thread_number(), VR_RELEASE);
    do {
        remote->busy = false;
        remote_turn(remote);
        remote_sleep(remote, &idle_since);
    } while (inbox_run(remote));
    remote->ending = true;
    (void)inbox_run(remote); /* nothing comes after `stopping` was set */
    vr_regions_end(remote);  /* peers release them */
    uint64_t deadline = vr_deadline_in(remote->timeout_ns);
    while (!vr_list_empty(&remote->regions) && !vr_deadline_passed(deadline)) {
        remote->busy = false;
        remote_turn(remote);
        remote_sleep(remote, &idle_since);
    }
    vr_marks_end(remote);
    vr_peers_end(remote);
    deadline = vr_deadline_in(END_WAIT_NS);
    while (!vr_list_empty(&remote->peers) && !vr_deadline_passed(deadline)) {
        remote->busy = false;
        remote_turn(remote);
    }
}

/* -------------------------------------------------------------------- ending */

static void worker_close(struct vr_ucx_worker *worker) {
    if (worker->address) {
        vr_ucx.worker_release_address(worker->worker, worker->address);
    }
    if (worker->worker) {
        vr_ucx.worker_destroy(worker->worker);
    }
    if (worker->context) {
        vr_ucx.cleanup(worker->context);
    }
    *worker = (struct vr_ucx_worker){0};
}

/* Runs when the last reference is dropped: no memory of the provider is left. */
static void remote_free(void *memory) {
    struct vr_remote *remote = memory;
    VR_UCX_QUIET;
    if (!vr_exiting()) {
        worker_close(&remote->near);
        if (remote->listener) { /* directly before its worker: UCX 1.13 calls it until then */
            vr_ucx.listener_destroy(remote->listener);
        }
        worker_close(&remote->net);
    }
    struct vr_link *link;
    while ((link = vr_list_first(&remote->abandoned)) != NULL) {
        vr_link_remove(link);
        vr_mem_free(VR_CONTAINER(link, struct vr_abandoned, link));
    }
    vr_mem_free(remote->address);
    vr_mem_free(remote->sessions);
    vr_cond_destroy(&remote->changed);
    vr_mutex_destroy(&remote->lock);
    vr_mem_free(remote);
}

/* Stops the thread and gives back what the device has given. */
static vram_status remote_stop(void *object) {
    struct vr_remote *remote = object;
    struct vram_error error;
    vr_mutex_lock(&remote->lock);
    remote->stopping = true;
    vram_attachment *attachment = remote->attachment;
    vr_cond_broadcast(&remote->changed);
    vr_mutex_unlock(&remote->lock);
    VR_UCX_QUIET;
    vr_error_save(&error);
    if (remote->thread.running) {
        (void)vr_ucx.worker_signal(remote->net.worker);
        vr_os_thread_join(&remote->thread);
    }
    vr_remote_slots_free(remote);
    (void)vram_queue_destroy(remote->queue);
    (void)vram_attachment_end(attachment);
    (void)vram_pool_destroy(remote->pool);
    vr_error_restore(&error);
    return VRAM_OK;
}

/* `handle` is the remote's, which may have ended by now. */
static void pool_ended(void *handle) {
    struct vr_remote *remote = vr_handle_pin(VR_KIND_REMOTE, handle);
    if (remote) {
        vr_object_parent_ended(&remote->object, remote_stop);
        vr_leave(remote);
    }
}

vram_status vram_remote_close(vram_remote *handle) {
    VR_CALL;
    struct vr_remote *remote = vr_handle_pin(VR_KIND_REMOTE, handle);
    bool own = remote && vr_os_thread_number() == vr_load(&remote->thread_number, VR_ACQUIRE);
    if (remote) {
        vr_leave(remote);
    }
    return own ? vr_fail(VRAM_ERR_BUSY, "a callback on the remote's own thread cannot close it")
               : vr_object_destroy(VR_KIND_REMOTE, handle, remote_stop,
                                   "the remote is being closed");
}

/* ------------------------------------------------------------------- opening */

static vram_status options_check(struct vram_remote_options *options) {
    const uint32_t known = VRAM_REMOTE_STAGED | VRAM_REMOTE_DEVICE_DIRECT | VRAM_REMOTE_IN_PLACE;
    if (options->flags & ~known) {
        return vr_fail(VRAM_ERR_INVALID, "unknown flags of a remote: 0x%x", options->flags);
    }
    options->timeout_ns =
        options->timeout_ns ? options->timeout_ns : TIMEOUT_DEFAULT_S * UINT64_C(1000000000);
    options->chunk_bytes = options->chunk_bytes ? options->chunk_bytes : VRAM_REMOTE_CHUNK_DEFAULT;
    options->slots = options->slots ? options->slots : SLOTS_DEFAULT;
    if (options->chunk_bytes < 4096 || options->chunk_bytes > CHUNK_MAX ||
        options->chunk_bytes % 4096) {
        return vr_fail(VRAM_ERR_INVALID,
                       "%llu bytes are no size of a chunk; a multiple of 4096 up to %d MiB is",
                       (unsigned long long)options->chunk_bytes, CHUNK_MAX >> 20);
    }
    if (options->slots > SLOTS_MAX) {
        return vr_fail(VRAM_ERR_INVALID, "%u slots are too many; at most %d", options->slots,
                       SLOTS_MAX);
    }
    return VRAM_OK;
}

/* Opens a context of UCX with a worker. NULL settings leave UCX's own. */
static vram_status worker_open(struct vr_ucx_worker *worker, uint64_t features, const char *tls,
                               const char *interfaces) {
    ucp_config_t *config;
    ucs_status_t code = vr_ucx.config_read(NULL, NULL, &config);
    if (code != UCS_OK) {
        return vr_ucx_fail(code, "ucp_config_read");
    }
    /* Otherwise the thread would wait in connect(2), past every deadline. */
    code = vr_ucx.config_modify(config, "CONN_NB", "y");
    if (code == UCS_OK && tls) {
        code = vr_ucx.config_modify(config, "TLS", tls);
    }
    if (code == UCS_OK && interfaces) {
        code = vr_ucx.config_modify(config, "NET_DEVICES", interfaces);
    }
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES |
                                         UCP_PARAM_FIELD_MT_WORKERS_SHARED | UCP_PARAM_FIELD_NAME,
                           .features = features,
                           .mt_workers_shared = 1,
                           .name = "libvram"};
    if (code == UCS_OK) {
        code = vr_ucx.init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &worker->context);
    }
    vr_ucx.config_release(config);
    if (code != UCS_OK) {
        worker->context = NULL;
        return vr_ucx_fail(code, "ucp_init");
    }
    ucp_worker_params_t kind = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                .thread_mode = UCS_THREAD_MODE_SERIALIZED};
    code = vr_ucx.worker_create(worker->context, &kind, &worker->worker);
    if (code != UCS_OK) {
        worker->worker = NULL;
        return vr_ucx_fail(code, "ucp_worker_create");
    }
    code = vr_ucx.worker_get_address(worker->worker, &worker->address, &worker->address_bytes);
    if (code != UCS_OK) {
        worker->address = NULL;
        return vr_ucx_fail(code, "ucp_worker_get_address");
    }
    return VRAM_OK;
}

/* Whether "sm" is among the words of a list; NULL has all. */
static bool near_wanted(const char *transports) {
    for (const char *at = transports; at; at = strchr(at, ',')) {
        at += *at == ',';
        size_t length = strcspn(at, ",");
        if ((length == 2 && memcmp(at, "sm", 2) == 0) ||
            (length == 3 && memcmp(at, "all", 3) == 0)) {
            return true;
        }
    }
    return !transports;
}

/* Where other processes connect. */
static vram_status listen_open(struct vr_remote *remote, const char *interfaces) {
    struct sockaddr_storage socket;
    vram_status status = vr_socket_choose(interfaces, &socket);
    if (status != VRAM_OK) {
        return status;
    }
    ucp_listener_params_t params = {
        .field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
        .sockaddr = {.addr = (const struct sockaddr *)&socket,
                     .addrlen = socket.ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                             : sizeof(struct sockaddr_in)},
        .conn_handler = {.cb = vr_peer_arrives, .arg = remote}};
    ucs_status_t code = vr_ucx.listener_create(remote->net.worker, &params, &remote->listener);
    if (code != UCS_OK) {
        remote->listener = NULL;
        return vr_ucx_fail(code, "ucp_listener_create");
    }
    ucp_listener_attr_t found = {.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR};
    code = vr_ucx.listener_query(remote->listener, &found);
    if (code != UCS_OK) {
        return vr_ucx_fail(code, "ucp_listener_query");
    }
    vr_socket_write(&found.sockaddr, remote->socket);
    return VRAM_OK;
}

/* Shared memory is an addition: without it, everything goes over the network. */
static vram_status ucx_open(struct vr_remote *remote, const struct vram_remote_options *options) {
    VR_UCX_QUIET;
    /* Without the feature, UCX does not take accesses to memory from the network. */
    uint64_t features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP |
                        (options->flags & VRAM_REMOTE_IN_PLACE ? UCP_FEATURE_RMA : 0);
    vram_status status =
        worker_open(&remote->net, features, options->transports, options->interfaces);
    if (status != VRAM_OK) {
        return status;
    }
    ucs_status_t code = vr_ucx.worker_get_efd(remote->net.worker, &remote->event_fd);
    if (code != UCS_OK) {
        return vr_ucx_fail(code, "ucp_worker_get_efd");
    }
    ucp_context_attr_t attributes = {.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES};
    if (vr_ucx.context_query(remote->net.context, &attributes) == UCS_OK) {
        remote->device_direct = (options->flags & VRAM_REMOTE_DEVICE_DIRECT) &&
                                strcmp(remote->info.backend, "cuda") == 0 &&
                                (attributes.memory_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA));
    }
    if (near_wanted(options->transports) && !(options->flags & VRAM_REMOTE_STAGED) &&
        (remote->info.caps & VRAM_CAP_HOST_ACCESS) &&
        worker_open(&remote->near, UCP_FEATURE_RMA, "sm", NULL) != VRAM_OK) {
        worker_close(&remote->near);
    }
    status = vr_mail_open(remote);
    return status == VRAM_OK ? listen_open(remote, options->interfaces) : status;
}

static vram_status address_make(struct vr_remote *remote) {
    struct vr_remote_address address = {.secret = {remote->secret[0], remote->secret[1]},
                                        .net = remote->socket,
                                        .net_bytes = sizeof remote->socket,
                                        .near = (const uint8_t *)remote->near.address,
                                        .near_bytes = (uint32_t)remote->near.address_bytes};
    remote->address_bytes = vr_address_write(&address, NULL, 0);
    if (remote->address_bytes > VRAM_REMOTE_ADDRESS_MAX) {
        return vr_fail(VRAM_ERR_LIMIT, "UCX's address has %zu bytes; choose fewer interfaces",
                       remote->net.address_bytes + remote->near.address_bytes);
    }
    remote->address = vr_mem_alloc(1, remote->address_bytes, vr_operation());
    if (!remote->address) {
        return VRAM_ERR_HOST_MEMORY;
    }
    (void)vr_address_write(&address, remote->address, remote->address_bytes);
    return VRAM_OK;
}

static struct vr_remote *remote_make(const struct vram_remote_options *options) {
    struct vr_remote *remote = vr_mem_alloc(1, sizeof *remote, vr_operation());
    if (!remote) {
        return NULL;
    }
    if (vr_cond_init(&remote->changed) != VRAM_OK) {
        vr_mem_free(remote);
        return NULL;
    }
    vr_mutex_init(&remote->lock, VR_RANK_REMOTE);
    struct vr_list *lists[] = {&remote->inbox,   &remote->segments,      &remote->peers,
                               &remote->regions, &remote->registrations, &remote->mail,
                               &remote->marks,   &remote->abandoned,     &remote->arrivals};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        vr_list_init(lists[i]);
    }
    remote->object.process = vr_os_process_generation();
    remote->flags = options->flags;
    remote->timeout_ns = options->timeout_ns;
    remote->chunk_bytes = options->chunk_bytes;
    remote->slot_count = options->slots;
    remote->info.size = sizeof remote->info;
    return remote;
}

/* A pool for slots, which also tells of the device's end. A device without page-locked memory has
   an ordinary one, which is never used: its memory cannot be staged. */
static vram_status pool_make(struct vr_remote *remote, vram_device *device) {
    struct vram_pool_options options = {.size = sizeof options, .kind = VRAM_MEMORY_PINNED};
    vram_status status = vram_device_describe(device, &remote->info);
    if (status == VRAM_OK) {
        status = vram_pool_create(device, &options, &remote->pool);
    }
    if (status == VRAM_ERR_UNSUPPORTED) {
        remote->slot_count = 0;
        status = vram_pool_create(device, NULL, &remote->pool);
    }
    return status;
}

static vram_status remote_start(struct vr_remote *remote,
                                const struct vram_remote_options *options) {
    vram_status status =
        getrandom(remote->secret, sizeof remote->secret, 0) == sizeof remote->secret
            ? ucx_open(remote, options)
            : vr_fail(VRAM_ERR_IO, "the system has no random numbers");
    if (status == VRAM_OK) {
        status = address_make(remote);
    }
    return status == VRAM_OK
               ? vr_os_thread_start(&remote->thread, "vram-remote", remote_run, remote)
               : status;
}

/* The end of the device may come at any moment from here on, and it stops the thread: so it runs
   already. */
static vram_status remote_attach(struct vr_remote *remote) {
    vram_attachment *attachment;
    vram_status status = vram_pool_attach(
        remote->pool, pool_ended, (void *)(uintptr_t)remote->object.handle, NULL, &attachment);
    if (status != VRAM_OK) {
        return status;
    }
    vr_mutex_lock(&remote->lock);
    bool stopped = remote->stopping;
    remote->attachment = stopped ? NULL : attachment;
    vr_mutex_unlock(&remote->lock);
    if (stopped) { /* by that end, which did not know the attachment yet */
        (void)vram_attachment_end(attachment);
    }
    return VRAM_OK;
}

static vram_status remote_open(vram_device *device, const struct vram_remote_options *options,
                               vram_remote **out) {
    struct vr_remote *remote = remote_make(options);
    if (!remote) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vram_status status = pool_make(remote, device);
    remote->device = device;
    if (status == VRAM_OK) {
        status = vr_handle_publish(VR_KIND_REMOTE, remote, remote_free, &remote->object.handle);
    }
    if (status != VRAM_OK) {
        struct vram_error error;
        vr_error_save(&error);
        (void)vram_pool_destroy(remote->pool);
        vr_error_restore(&error);
        remote_free(remote);
        return status;
    }
    vr_handle_ref(remote->object.handle);
    status = remote_start(remote, options);
    if (status == VRAM_OK) {
        status = remote_attach(remote);
    }
    if (status == VRAM_OK) { /* it may have ended with its device by now */
        *out = (vram_remote *)(uintptr_t)remote->object.handle;
    } else {
        vr_object_parent_ended(&remote->object, remote_stop);
    }
    vr_leave(remote);
    return status;
}

/* Puts the operation in the record of a failure. */
static vram_status in_operation(vram_status status) {
    if (status != VRAM_OK) {
        struct vram_error error;
        vr_error_save(&error);
        error.operation = error.backend[0] ? error.operation : vr_operation();
        vr_error_restore(&error);
    }
    return status;
}

vram_status vram_remote_open(vram_device *device, const vram_remote_options *options,
                             vram_remote **remote) {
    VR_CALL;
    struct vram_remote_options taken;
    if (!remote) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the remote is NULL");
    }
    vram_status status = vr_options_take(&taken, sizeof taken, options);
    if (status == VRAM_OK) {
        status = options_check(&taken);
    }
    if (status == VRAM_OK) {
        status = vr_ucx_load();
    }
    if (status == VRAM_OK) {
        status = vr_process_watch(0); /* this library's own copy of the flag */
    }
    return status == VRAM_OK ? in_operation(remote_open(device, &taken, remote)) : status;
}

/* --------------------------------------------------------------- information */

vram_status vram_remote_address_get(vram_remote *handle, void *address, size_t *bytes) {
    VR_CALL;
    void *entered;
    if (!bytes || (!address && *bytes)) {
        return vr_fail(VRAM_ERR_INVALID, "the pointers that receive the address are NULL");
    }
    vram_status status = vr_enter(VR_KIND_REMOTE, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_remote *remote = entered;
    if (!address || *bytes < remote->address_bytes) {
        status = vr_fail(VRAM_ERR_LIMIT, "the address has %zu bytes, and there is room for %zu",
                         remote->address_bytes, *bytes);
    } else {
        memcpy(address, remote->address, remote->address_bytes);
    }
    *bytes = remote->address_bytes;
    vr_leave(remote);
    return status;
}

static uint64_t counter_read(vr_atomic_u64 *counter) {
    return vr_load(counter, VR_RELAXED);
}

vram_status vram_remote_info_get(vram_remote *handle, vram_remote_info *info) {
    VR_CALL;
    void *entered;
    vram_status status = vr_enter(VR_KIND_REMOTE, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_remote *remote = entered;
    struct vram_remote_info full = {
        .size = sizeof full,
        .shared_memory = remote->near.worker != NULL,
        .device_direct = remote->device_direct,
        .peers = (uint32_t)counter_read(&remote->peer_count),
        .regions = (uint32_t)counter_read(&remote->region_count),
        .handles = (uint32_t)counter_read(&remote->handle_count),
        .registrations = counter_read(&remote->registration_count),
        .put_bytes = counter_read(&remote->put_bytes),
        .get_bytes = counter_read(&remote->get_bytes),
        .shared_bytes = counter_read(&remote->shared_bytes),
        .direct_bytes = counter_read(&remote->direct_bytes),
        .served_bytes = counter_read(&remote->served_bytes),
        .staged_bytes = counter_read(&remote->staged_bytes),
        .failures = counter_read(&remote->failures),
        .refused = counter_read(&remote->refused),
    };
    vr_ucx_version(full.version, sizeof full.version);
    status = vr_info_give(info, &full, sizeof full, sizeof full);
    vr_leave(remote);
    return status;
}
