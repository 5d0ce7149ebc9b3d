/* SPDX-License-Identifier: Apache-2.0 */
/* lease_thread.c: the lease's thread: messages of the broker, and a new broker when it has gone. */
#include "lease/broker.h"
#include "lease/lease_object.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/os/os.h"
#include "base/own_fd.h"
#include "base/text.h"

#include <string.h>

#define PAUSE_NS      UINT64_C(20000000)   /* after the first failure; then twice as long, */
#define PAUSE_MOST_NS UINT64_C(1000000000) /* up to this */

static bool thread_must_stop(struct vr_lease *lease) {
    vr_mutex_lock(&lease->lock);
    bool stop = lease->stop;
    vr_mutex_unlock(&lease->lock);
    return stop;
}

/* ------------------------------------------------------------------- messages */

/* Under the lock. False: it does not make sense. */
static bool granted_take(struct vr_lease *lease, const struct vr_lease_message *message) {
    struct vr_lease_question *question = &lease->question;
    uint64_t bytes = message->n[1];
    if (bytes > lease->options.want_bytes - lease->grant) {
        return false;
    }
    vr_lease_grant_set(lease, lease->grant + bytes);
    lease->counts.got_bytes += bytes;
    if (question->answer == VR_LEASE_WAITING && message->n[0] == question->number) {
        question->level = vr_lease_level_with(lease, question->need); /* keeps (6) */
        question->answer = VR_LEASE_YES;
        question->got = bytes;
    }
    return true;
}

static void lender_take(struct vr_lease_question *question,
                        const struct vr_lease_message *message) {
    struct vr_lease_refusal *refusal = &question->refusal;
    if (message->n[0] != question->number || refusal->count >= VRAM_OOM_LIST_MAX) {
        return;
    }
    struct vram_oom_lender *lender = &refusal->lenders[refusal->count++];
    *lender = (struct vram_oom_lender){
        .process = message->n[1],
        .asked_bytes = message->n[2],
        .given_bytes = message->n[3],
        .why = message->n[4] <= VRAM_LEASE_GONE ? (vram_lease_why)message->n[4] : VRAM_LEASE_SILENT,
        .priority = vr_lease_priority_get(message->n[5])};
    vr_text_copy(lender->name, sizeof lender->name, message->name);
}

static void revoke_take(struct vr_lease *lease, const struct vr_lease_message *message) {
    struct vr_lease_ask *ask = &lease->ask;
    bool giving = ask->giving;
    *ask = (struct vr_lease_ask){.number = message->n[0],
                                 .bytes = message->n[1],
                                 .deadline = vr_deadline_in(message->n[2]),
                                 .process = message->n[3],
                                 .priority = vr_lease_priority_get(message->n[4]),
                                 .unused_alone = message->n[5],
                                 .giving = giving,
                                 .at_once = true};
    memcpy(ask->name, message->name, sizeof ask->name);
    lease->counts.revocations++;
}

/* False: the broker does not keep to the protocol. */
static bool message_take(struct vr_lease *lease, const struct vr_lease_message *message) {
    struct vr_lease_question *question = &lease->question;
    bool good = message->version == VR_LEASE_VERSION && message->type != VR_LEASE_REFUSED;
    vr_mutex_lock(&lease->lock);
    switch (good ? message->type : 0) {
    case VR_LEASE_GRANTED:
        good = granted_take(lease, message);
        break;
    case VR_LEASE_LENDER:
        lender_take(question, message);
        break;
    case VR_LEASE_DENIED:
        if (question->answer == VR_LEASE_WAITING && message->n[0] == question->number) {
            question->answer = VR_LEASE_NO;
            question->capacity = message->n[2];
        }
        break;
    case VR_LEASE_REVOKE:
        revoke_take(lease, message);
        break;
    case VR_LEASE_CANCEL:
        if (lease->ask.number == message->n[0]) {
            lease->ask.number = 0;
            vr_store(&lease->asked, false, VR_RELAXED);
        }
        break;
    default: /* rule (3) of lease_wire.h */
        break;
    }
    vr_cond_broadcast(&lease->changed);
    vr_mutex_unlock(&lease->lock);
    return good;
}

/* Takes what has come. False: the connection has ended. */
static bool messages_take(struct vr_lease *lease, int fd) {
    struct vr_lease_message message;
    vram_status status;
    while ((status = vr_lease_receive(&lease->reader, fd, &message)) == VRAM_OK) {
        if (!message_take(lease, &message)) {
            vr_log(VRAM_LOG_ERROR, "the broker of leases sent a message that makes no sense");
            return false;
        }
    }
    return status == VRAM_ERR_NOT_READY;
}

/* ------------------------------------------------------------------ connection */

/* Keeps (4). Requests under way ask the next broker; what was asked is forgotten. */
static void connection_lost(struct vr_lease *lease, int fd) {
    vr_mutex_lock(&lease->lock);
    lease->fd = -1;
    lease->ask.number = 0;
    vr_store(&lease->asked, false, VR_RELAXED);
    if (lease->question.answer == VR_LEASE_WAITING) {
        lease->question.answer = VR_LEASE_LOST;
    }
    lease->counts.broker = 0;
    vr_cond_broadcast(&lease->changed);
    vr_mutex_unlock(&lease->lock);
    vr_own_fd_close(fd);
}

static void thread_pause(struct vr_lease *lease, uint64_t ns) {
    struct vr_os_poll poll = {.fd = lease->wake[0], .read = true};
    vr_os_poll(&poll, 1, ns);
    if (poll.readable) { /* the end has a flag, and nothing else matters without a broker */
        vr_os_event_clear(lease->wake[0]);
    }
}

/* Connects again, with longer and longer pauses. */
static void connection_renew(struct vr_lease *lease) {
    uint64_t pause = PAUSE_NS;
    while (!thread_must_stop(lease) &&
           vr_lease_connect(lease, true, vr_deadline_in(vr_lease_broker_ns)) != VRAM_OK) {
        vr_log(VRAM_LOG_WARN, "no broker of leases can be reached: %s", vr_error_get()->text);
        thread_pause(lease, pause);
        pause = pause < PAUSE_MOST_NS / 2 ? pause * 2 : PAUSE_MOST_NS;
    }
    vr_error_clear();
}

/* ------------------------------------------------------------------------ turns */

/* Tells the broker what is held now, if that has changed. */
static void held_report(struct vr_lease *lease) {
    uint64_t held = vr_lease_held(lease);
    vr_mutex_lock(&lease->lock);
    if (held != lease->reported &&
        vr_lease_tell(lease, &(struct vr_lease_message){.type = VR_LEASE_HELD, .n = {held}})) {
        lease->reported = held;
    }
    vr_mutex_unlock(&lease->lock);
}

/* Gives what can be given here. The rest waits for vram_lease_point. */
static void ask_serve(struct vr_lease *lease) {
    vr_mutex_lock(&lease->lock);
    bool due = lease->ask.number && lease->ask.at_once && !lease->ask.giving;
    bool rest = lease->ask.number && lease->ask.rest && !lease->ask.giving;
    bool free_only = lease->ask.later || !(lease->options.flags & VRAM_LEASE_AT_ONCE);
    lease->ask.at_once &= !due;
    lease->ask.rest &= !due && !rest;
    vr_mutex_unlock(&lease->lock);
    if (due || rest) {
        (void)vr_lease_give(lease, free_only, false);
    }
}

void vr_lease_run(void *argument) {
    VR_OPERATION("vram_lease_open");
    struct vr_lease *lease = argument;
    vr_store(&lease->runner, vr_os_thread_number(), VR_RELEASE);
    while (!thread_must_stop(lease)) {
        vr_mutex_lock(&lease->lock);
        int fd = lease->fd;
        vr_mutex_unlock(&lease->lock);
        if (fd < 0) {
            connection_renew(lease);
            continue;
        }
        struct vr_os_poll polls[] = {{.fd = lease->wake[0], .read = true},
                                     {.fd = fd, .read = true}};
        vr_os_poll(polls, 2, VR_LEASE_HELD_NS);
        if (polls[0].readable) {
            vr_os_event_clear(lease->wake[0]);
        }
        if (polls[1].readable && !messages_take(lease, fd)) {
            connection_lost(lease, fd);
        }
        ask_serve(lease);
        held_report(lease);
        vr_error_clear();
    }
    uint64_t handle = lease->object.handle;
    vr_mutex_lock(&lease->lock);
    int fd = lease->fd;
    lease->fd = -1;
    vr_mutex_unlock(&lease->lock);
    if (fd >= 0) {
        vr_own_fd_close(fd);
    }
    vr_mutex_lock(&lease->lock);
    lease->done = true;
    vr_cond_broadcast(&lease->changed);
    vr_mutex_unlock(&lease->lock);
    vr_handle_unpin(handle); /* keeps (5) */
}
