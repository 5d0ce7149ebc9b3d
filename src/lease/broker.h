/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker.h: the broker's loop, and how it is started.
 *
 *   broker.c        the loop: connections, their messages
 *   broker_table.c  the decisions
 *   broker_list.c   the log, and lists for `vram info --leases`
 *   broker_start.c  starting it: another process, or a thread of this one
 */
#ifndef VR_BROKER_H
#define VR_BROKER_H

#include "base/runtime_folder.h"
#include "vram/lease.h"

/* How a broker runs. */
struct vr_broker_run {
    char dir[VR_RUNTIME_DIR_MAX];
    uint64_t idle_ns;
    /* After each turn: whether to end; `connections` are open. */
    bool (*stop)(void *user, uint32_t connections);
    void *user;
    int wake; /* becomes readable when `stop` is to be asked at once; -1: none */
    vram_broker_started_fn *started; /* NULL: nobody wants to know */
};

void vr_broker_path(const char *dir, char path[VR_SOCKET_PATH_MAX]);
/* VRAM_ERR_BUSY if there is one already. */
vram_status vr_broker_serve(const struct vr_broker_run *run);

/* Starts a broker for the directory; another process may be quicker, which is as good. */
vram_status vr_broker_start(const char *dir, uint64_t deadline);
/* Whether a thread of this process is that directory's broker. */
bool vr_broker_is_hosted(const char *dir);
/* Ends the one that a thread of this process is, if nobody uses it any more. No lock held. */
void vr_broker_host_end(const char *dir);

#endif
