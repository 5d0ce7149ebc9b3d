/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lease_connect.c: a connection to the broker. The broker may be hostile, too: it may send any
 * bytes, too few or too late. Every wait has a deadline, and a grant beyond what was asked for ends
 * the connection.
 */
#include "lease/broker.h"
#include "lease/lease_object.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/os/os.h"
#include "base/own_fd.h"
#include "base/size.h"
#include "base/status.h"
#include "base/text.h"

#include <string.h>

uint64_t vr_lease_broker_ns = UINT64_C(3000000000);

#define RETRY_NS UINT64_C(1000000000) /* longest wait at a time */
#define AGAIN_NS UINT64_C(2000000)    /* between two tries */

/* Keeps (1) of lease_object.h. */
void vr_lease_grant_set(struct vr_lease *lease, uint64_t grant) {
    lease->grant = grant;
    vr_store(&lease->device->slot->account->lease, grant + 1, VR_SEQ_CST);
}

uint64_t vr_lease_level(const struct vr_lease *lease) {
    const struct vr_lease_question *question = &lease->question;
    uint64_t level = vr_lease_held(lease);
    if (question->answer == VR_LEASE_YES) {
        level = vr_larger(level, question->level);
    }
    for (struct vr_link *link = vr_list_first(&lease->holds); link;
         link = vr_list_next(&lease->holds, link)) {
        level = vr_larger(level, VR_CONTAINER(link, struct vr_lease_hold, link)->level);
    }
    return level;
}

uint64_t vr_lease_level_with(const struct vr_lease *lease, uint64_t bytes) {
    uint64_t level;
    return vr_add(vr_lease_level(lease), bytes, &level) ? level : UINT64_MAX;
}

bool vr_lease_tell(struct vr_lease *lease, const struct vr_lease_message *message) {
    struct vram_error error;
    if (lease->fd < 0) {
        return false;
    }
    vr_error_save(&error);
    bool sent = vr_lease_send(lease->fd, message) == VRAM_OK;
    vr_error_restore(&error);
    if (!sent) {
        vr_lease_disconnect(lease);
    }
    return sent;
}

/* Other threads may be about to poll the descriptor: only the thread closes it, when it has seen
   that it is shut. Before the thread runs there are no others. */
void vr_lease_disconnect(struct vr_lease *lease) {
    if (lease->fd >= 0) {
        vr_os_socket_shut(lease->fd);
    }
}

/* --------------------------------------------------------------------- connect */

/* A socket to the broker, which is started if there is none. */
static vram_status broker_reach(const struct vr_lease *lease, uint64_t deadline, int *fd) {
    char path[VR_SOCKET_PATH_MAX];
    struct vr_os_peer peer;
    vr_broker_path(lease->dir, path);
    (void)vr_broker_is_hosted(lease->dir);
    vram_status status = vr_os_socket_connect(path, deadline, fd);
    if (status == VRAM_ERR_STALE) {
        status = vr_broker_start(lease->dir, deadline);
        status = status == VRAM_OK ? vr_os_socket_connect(path, deadline, fd) : status;
    }
    if (status != VRAM_OK) {
        return status;
    }
    status = vr_os_socket_peer(*fd, &peer);
    if (status == VRAM_OK && peer.user != vr_os_user()) {
        status = vr_fail(VRAM_ERR_BUSY, "the broker at %s belongs to user %u", path, peer.user);
    }
    if (status != VRAM_OK) {
        vr_os_file_close(*fd);
    }
    return status;
}

static vram_status refusal_status(const struct vr_lease *lease, vram_status status) {
    if (status == VRAM_ERR_LIMIT) {
        return vr_fail(status, "the lease's minimum is more than its broker shares out of %s",
                       lease->key);
    }
    return status == VRAM_ERR_HOST_MEMORY
               ? vr_fail(status, "the broker of leases has no host memory left")
               : vr_fail(VRAM_ERR_INVALID, "the broker of leases refused: %s",
                         vr_status_text(status));
}

/* Waits for the first answer. */
static vram_status answer_wait(struct vr_lease *lease, int fd, uint64_t deadline,
                               struct vr_lease_message *message) {
    vram_status status;
    lease->reader.bytes = 0;
    while ((status = vr_lease_receive(&lease->reader, fd, message)) == VRAM_ERR_NOT_READY) {
        struct vr_os_poll polls[] = {{.fd = fd, .read = true},
                                     {.fd = lease->wake[0], .read = true}};
        if (vr_load(&lease->ending, VR_RELAXED)) {
            return vr_fail(VRAM_ERR_STALE, "the lease is being closed");
        }
        if (vr_deadline_passed(deadline)) {
            return vr_fail(VRAM_ERR_TIMEOUT, "the broker of leases in %s does not answer",
                           lease->dir);
        }
        vr_os_poll(polls, 2, vr_smaller(vr_deadline_left(deadline), RETRY_NS));
        if (polls[1].readable) {
            vr_os_event_clear(lease->wake[0]);
        }
    }
    if (status != VRAM_OK) {
        return status;
    }
    if (message->version != VR_LEASE_VERSION) {
        return vr_fail(VRAM_ERR_UNSUPPORTED,
                       "the broker of leases speaks version %u of the protocol, this libvram "
                       "version %d: use the same libvram for both, or end that broker",
                       message->version, VR_LEASE_VERSION);
    }
    return message->type == VR_LEASE_REFUSED ? refusal_status(lease, message->status)
           : message->type == VR_LEASE_OPENED
               ? VRAM_OK
               : vr_fail(VRAM_ERR_CORRUPT, "the broker of leases answered with message %u",
                         message->type);
}

/* The grant must not change between what is said here and what the broker enters. Nobody lowers it:
   gifts need a connection. */
static vram_status lease_introduce(struct vr_lease *lease, int fd, bool resumed, uint64_t deadline,
                                   struct vr_lease_message *answer) {
    struct vr_lease_message open = {.type = VR_LEASE_OPEN};
    const struct vram_lease_options *options = &lease->options;
    vr_mutex_lock(&lease->lock);
    uint64_t grant = lease->grant, held = vr_lease_held(lease);
    vr_mutex_unlock(&lease->lock);
    uint64_t n[] = {options->min_bytes,
                    options->want_bytes,
                    grant,
                    held,
                    lease->capacity,
                    vr_lease_priority_put(options->priority),
                    resumed};
    memcpy(open.n, n, sizeof n);
    memcpy(open.name, lease->name, sizeof open.name);
    memcpy(open.device, lease->key, sizeof open.device);
    vram_status status = vr_lease_send(fd, &open);
    if (status == VRAM_OK || status == VRAM_ERR_STALE) { /* it may have refused already */
        status = answer_wait(lease, fd, deadline, answer);
    }
    if (status == VRAM_OK && answer->n[0] > options->want_bytes - grant) {
        status = vr_fail(VRAM_ERR_CORRUPT, "the broker of leases granted more than was asked for");
    }
    return status;
}

/* One try. */
static vram_status connect_once(struct vr_lease *lease, bool resumed, uint64_t deadline, int *fd,
                                struct vr_lease_message *answer) {
    vram_status status = broker_reach(lease, deadline, fd);
    if (status != VRAM_OK) {
        return status;
    }
    vr_own_fd_note(*fd);
    status = lease_introduce(lease, *fd, resumed, deadline, answer);
    if (status != VRAM_OK) {
        struct vram_error error;
        vr_error_save(&error);
        vr_own_fd_close(*fd);
        vr_error_restore(&error);
    }
    return status;
}

/* A broker that is just ending, or is killed, is followed by another. */
vram_status vr_lease_connect(struct vr_lease *lease, bool resumed, uint64_t deadline) {
    struct vr_lease_message answer;
    vram_status status;
    int fd;
    while ((status = connect_once(lease, resumed, deadline, &fd, &answer)) == VRAM_ERR_STALE &&
           !vr_deadline_passed(deadline) && !vr_load(&lease->ending, VR_RELAXED)) {
        vr_os_sleep(AGAIN_NS);
    }
    if (status == VRAM_ERR_STALE && !vr_load(&lease->ending, VR_RELAXED)) {
        status = vr_fail(VRAM_ERR_TIMEOUT, "no broker of leases stays in %s", lease->dir);
    }
    if (status != VRAM_OK) {
        return status;
    }
    vr_mutex_lock(&lease->lock);
    lease->fd = fd;
    vr_lease_grant_set(lease, lease->grant + answer.n[0]);
    lease->counts.broker = answer.n[1];
    lease->counts.brokers++;
    vr_cond_broadcast(&lease->changed);
    vr_mutex_unlock(&lease->lock);
    return VRAM_OK;
}
