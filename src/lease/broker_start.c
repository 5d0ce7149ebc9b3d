/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker_start.c: starting a broker: the command `vram broker`, or a thread of this process.
 *
 *  (1) A process hosts at most one broker per directory. Its thread holds one reference to the
 *      record, and whoever waits for its end another.
 *  (2) A forked child has the records of its parent, but not the threads: it begins anew.
 */
#include "lease/broker.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/memory.h"
#include "base/option.h"
#include "base/os/os.h"
#include "base/os/spawn.h"
#include "base/own_fd.h"

#include <string.h>

#define IDLE_NS   UINT64_C(10000000000)
#define RETRY_NS  UINT64_C(2000000) /* between two looks whether it listens */
#define SETTLE_NS UINT64_C(50000000)

/* ----------------------------------------------------------------- in a thread */

struct host {
    struct vr_link link;
    struct vr_broker_run run;
    struct vr_thread thread;
    uint64_t process; /* (2) */
    int wake[2];
    uint32_t users; /* (1) */
    bool lonely;    /* this process has no lease: it ends when it has no connection */
    bool listens, stopping, done;
    uint64_t turns;
};

static struct vr_mutex hosts_lock = VR_MUTEX_INIT(VR_RANK_LEASE);
static struct vr_list hosts; /* next NULL: not begun */
static struct vr_cond hosts_changed;
static bool hosts_begun;       /* the two are, */
static uint64_t hosts_process; /* in this one; (2) */

static vram_status hosts_begin(void) {
    vram_status status = VRAM_OK;
    uint64_t process = vr_os_process_generation();
    vr_mutex_lock(&hosts_lock);
    if (!hosts_begun || hosts_process != process) { /* the parent's threads may wait for it */
        vr_list_init(&hosts);
        status = vr_cond_init(&hosts_changed);
        hosts_begun = status == VRAM_OK;
        hosts_process = process;
    }
    vr_mutex_unlock(&hosts_lock);
    return status;
}

/* Under the lock. */
static struct host *host_find(const char *dir) {
    uint64_t process = vr_os_process_generation();
    for (struct vr_link *link = hosts_begun ? vr_list_first(&hosts) : NULL; link;
         link = vr_list_next(&hosts, link)) {
        struct host *host = VR_CONTAINER(link, struct host, link);
        if (host->process == process && !host->done && strcmp(host->run.dir, dir) == 0) {
            return host;
        }
    }
    return NULL;
}

/* `done`: the thread leaves, so that whoever waits for it frees the record. All of it under the
   lock: whoever does not find the host any more finds nothing left of it either. */
static void host_leave(struct host *host, bool done) {
    vr_mutex_lock(&hosts_lock);
    bool last = --host->users == 0;
    host->done = host->done || done;
    vr_cond_broadcast(&hosts_changed);
    if (last) {
        vr_link_remove(&host->link);
        vr_own_fd_close(host->wake[0]);
        vr_own_fd_close(host->wake[1]);
        vr_mem_free(host);
    }
    vr_mutex_unlock(&hosts_lock);
}

static bool host_stop(void *user, uint32_t connections) {
    struct host *host = user;
    vr_mutex_lock(&hosts_lock);
    bool stop = host->lonely && !connections;
    host->stopping = stop;
    host->turns++;
    vr_cond_broadcast(&hosts_changed);
    vr_mutex_unlock(&hosts_lock);
    return stop;
}

static void host_started(void *user, const char *path) {
    struct host *host = user;
    (void)path;
    vr_mutex_lock(&hosts_lock);
    host->listens = true;
    vr_cond_broadcast(&hosts_changed);
    vr_mutex_unlock(&hosts_lock);
}

static void host_run(void *argument) {
    VR_OPERATION("vram_lease_open");
    struct host *host = argument;
    (void)vr_broker_serve(&host->run); /* another process was quicker, perhaps */
    host_leave(host, true);
}

static vram_status host_make(const char *dir, struct host **out) {
    struct host *host = vr_mem_alloc(1, sizeof *host, vr_operation());
    if (!host) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vram_status status = vr_os_event_open(host->wake);
    if (status != VRAM_OK) {
        vr_mem_free(host);
        return status;
    }
    vr_own_fd_note(host->wake[0]);
    vr_own_fd_note(host->wake[1]);
    memcpy(host->run.dir, dir, strlen(dir) + 1);
    host->run.idle_ns = IDLE_NS;
    host->run.stop = host_stop;
    host->run.started = host_started;
    host->run.user = host;
    host->run.wake = host->wake[0];
    host->process = vr_os_process_generation();
    host->users = 2; /* the thread, and the caller */
    *out = host;
    return VRAM_OK;
}

/* Starts the thread and waits until it listens, or has ended because another one does. */
static vram_status host_begin(const char *dir, uint64_t deadline) {
    struct host *host;
    vram_status status = hosts_begin();
    if (status != VRAM_OK || (status = host_make(dir, &host)) != VRAM_OK) {
        return status;
    }
    vr_mutex_lock(&hosts_lock);
    vr_list_append(&hosts, &host->link);
    status = vr_os_thread_start(&host->thread, "vram-broker", host_run, host);
    if (status == VRAM_OK) {
        vr_os_thread_detach(&host->thread);
    } else {
        host->users--;
    }
    while (status == VRAM_OK && !host->listens && !host->done && !vr_deadline_passed(deadline)) {
        (void)vr_cond_wait(&hosts_changed, &hosts_lock, SETTLE_NS);
    }
    vr_mutex_unlock(&hosts_lock);
    host_leave(host, false);
    return status;
}

bool vr_broker_is_hosted(const char *dir) {
    vr_mutex_lock(&hosts_lock);
    struct host *host = host_find(dir);
    if (host) {
        host->lonely = false; /* the caller is about to use it */
    }
    vr_mutex_unlock(&hosts_lock);
    return host;
}

/* The broker has seen that a connection has ended once it has ended the turn it is in, and two
   more. */
void vr_broker_host_end(const char *dir) {
    vr_mutex_lock(&hosts_lock);
    struct host *host = host_find(dir);
    if (!host) {
        vr_mutex_unlock(&hosts_lock);
        return;
    }
    uint64_t turns = host->turns + 3;
    host->users++;
    host->lonely = true;
    while (!host->done && host->lonely && (host->stopping || host->turns < turns)) {
        vr_os_event_send(host->wake[1]);
        (void)vr_cond_wait(&hosts_changed, &hosts_lock, SETTLE_NS);
    }
    vr_mutex_unlock(&hosts_lock);
    host_leave(host, false);
}

/* ---------------------------------------------------------------- as a process */

static bool broker_answers(const char *dir) {
    char path[VR_SOCKET_PATH_MAX];
    struct vram_error error;
    int fd;
    vr_broker_path(dir, path);
    vr_error_save(&error);
    bool answers = vr_os_socket_connect(path, 0, &fd) == VRAM_OK;
    vr_error_restore(&error);
    if (answers) {
        vr_os_file_close(fd);
    }
    return answers;
}

/* The command returns once its child is on its way. False: there is no such command, or it says
   that it cannot. */
static bool command_start(const char *command, const char *dir, uint64_t deadline) {
    const char *arguments[] = {command, "broker", "--detach", "--dir", dir, NULL};
    struct vram_error error;
    int code = -1;
    vr_error_save(&error);
    bool started = vr_os_spawn(arguments, deadline, &code) == VRAM_OK && code == 0;
    vr_error_restore(&error);
    while (started && !broker_answers(dir)) {
        if (vr_deadline_passed(deadline)) {
            return false;
        }
        vr_os_sleep(RETRY_NS);
    }
    return started;
}

vram_status vr_broker_start(const char *dir, uint64_t deadline) {
    char command[VR_OPTION_TEXT_MAX];
    uint64_t half = vr_clock_now() + vr_deadline_left(deadline) / 2;
    vr_option_text(VR_OPTION_BROKER, command);
    if (strcmp(command, "thread") != 0 && command_start(command[0] ? command : "vram", dir, half)) {
        return VRAM_OK;
    }
    return host_begin(dir, deadline);
}
