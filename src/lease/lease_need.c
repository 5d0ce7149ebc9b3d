/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lease_need.c: asking for memory: the ladder's step `lease`.
 *
 * A process has one request at a time; its other threads wait for their turn, within their own
 * deadlines. A broker that goes away is replaced by the lease's thread, and the request put again.
 * It is also put again if the process had to give, while it waited, what the request counted on.
 */
#include "lease/lease_object.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/os/os.h"
#include "base/size.h"
#include "base/size_text.h"
#include "base/status.h"
#include "base/text.h"
#include "device/ops.h"

/* Waits at most until `deadline`; false: it has passed. Under the lock. Real time: the other side
   does not know of a simulated clock. */
static bool changed_wait(struct vr_lease *lease, uint64_t deadline) {
    uint64_t now = vr_os_now();
    return now < deadline && (vr_cond_wait(&lease->changed, &lease->lock, deadline - now), true);
}

static void refusal_set(struct vr_lease_refusal *refusal, const char *text) {
    vr_text_copy(refusal->text, sizeof refusal->text, text);
}

/* The one who kept the most comes first in the text. */
static const struct vram_oom_lender *keeper_of(const struct vr_lease_refusal *refusal) {
    const struct vram_oom_lender *best = NULL;
    for (uint32_t i = 0; i < refusal->count; i++) {
        const struct vram_oom_lender *lender = &refusal->lenders[i];
        uint64_t kept = lender->asked_bytes - vr_smaller(lender->given_bytes, lender->asked_bytes);
        uint64_t most =
            best ? best->asked_bytes - vr_smaller(best->given_bytes, best->asked_bytes) : 0;
        best = !best || kept > most ? lender : best;
    }
    return best;
}

static void refusal_explain(const struct vr_lease *lease, uint64_t bytes,
                            struct vr_lease_refusal *refusal) {
    char lacking[VRAM_SIZE_TEXT_MAX], all[VRAM_SIZE_TEXT_MAX], others[32] = "";
    const struct vram_oom_lender *lender = keeper_of(refusal);
    vr_size_format(bytes, lacking);
    if (!lender) {
        vr_text_format(refusal->text, sizeof refusal->text,
                       "the lease lacks %s, and leases share out %s of this device", lacking,
                       vr_size_format(lease->question.capacity, all));
        return;
    }
    if (refusal->count > 1) {
        vr_text_format(others, sizeof others, "; %u more were asked", refusal->count - 1);
    }
    vr_text_format(refusal->text, sizeof refusal->text,
                   "the lease lacks %s; \"%.40s\" (process %llu): %s%s", lacking, lender->name,
                   (unsigned long long)lender->process, vr_lease_why_text(lender->why), others);
}

/* ------------------------------------------------------------------- the grant */

/* What the grant lacks for `bytes` more, as far as the lease may have it. Under the lock. */
static uint64_t grant_lacks(const struct vr_lease *lease, uint64_t bytes) {
    uint64_t level = vr_lease_level_with(lease, bytes);
    return vr_smaller(level > lease->grant ? level - lease->grant : 0,
                      lease->options.want_bytes - lease->grant);
}

/* Lists a request; what it was granted is its own until it has ended: (6). Under the lock. */
static void hold_note(struct vr_lease *lease, struct vr_lease_hold *hold, uint64_t level) {
    if (!hold->lease) {
        vr_handle_ref(lease->object.handle);
        hold->lease = lease;
        vr_list_append(&lease->holds, &hold->link);
    }
    hold->level = level;
}

static void lease_hold(uint64_t handle, struct vr_lease_hold *hold) {
    struct vram_error error;
    void *entered;
    vr_error_save(&error);
    if (vr_enter(VR_KIND_LEASE, (const void *)(uintptr_t)handle, &entered) == VRAM_OK) {
        struct vr_lease *lease = entered;
        vr_mutex_lock(&lease->lock);
        hold_note(lease, hold, 0);
        vr_mutex_unlock(&lease->lock);
        vr_leave(lease);
    }
    vr_error_restore(&error);
}

void vr_lease_done(struct vr_lease_hold *hold) {
    struct vr_lease *lease = hold->lease;
    if (!lease) {
        return;
    }
    vr_mutex_lock(&lease->lock);
    vr_link_remove(&hold->link);
    lease->ask.rest = lease->ask.number && lease->ask.bytes;
    bool rest = lease->ask.rest;
    vr_mutex_unlock(&lease->lock);
    if (rest) {
        vr_os_event_send(lease->wake[1]);
    }
    hold->lease = NULL;
    vr_handle_unpin(lease->object.handle);
}

/* ------------------------------------------------------------------ one request */

struct lease_request {
    uint64_t bytes;    /* that it needs */
    uint64_t free;     /* driver's word on what is free, and 1; 0: not known */
    uint64_t deadline; /* vr_os_now */
    bool refused;      /* by the driver, within the grant */
};

/* Sends the request to the broker of the moment and waits for the answer. Under the lock. */
static enum vr_lease_answer question_put(struct vr_lease *lease, const struct lease_request *of,
                                         uint64_t bytes) {
    struct vr_lease_question *question = &lease->question;
    uint64_t deadline = of->deadline;
    question->answer = VR_LEASE_IDLE; /* nothing is kept while it waits: (6) */
    while (lease->fd < 0 && !lease->stop) {
        if (!changed_wait(lease, deadline)) {
            return VR_LEASE_LOST;
        }
    }
    uint64_t now = vr_os_now(), left = deadline > now ? deadline - now : 0;
    *question = (struct vr_lease_question){
        .busy = true, .number = ++lease->numbers, .answer = VR_LEASE_WAITING, .need = of->bytes};
    struct vr_lease_message need = {
        .type = VR_LEASE_NEED,
        .n = {question->number, bytes, left, vr_lease_held(lease), of->free, of->refused}};
    if (lease->stop || !vr_lease_tell(lease, &need)) {
        question->answer = VR_LEASE_LOST;
        (void)changed_wait(lease, vr_smaller(deadline, now + 1000000));
    }
    while (question->answer == VR_LEASE_WAITING && !lease->stop &&
           changed_wait(lease, deadline + VR_LEASE_SLACK_NS)) {
    }
    return question->answer;
}

/* Puts it until a broker has answered, or the time is over. Under the lock. */
static vram_status question_ask(struct vr_lease *lease, const struct lease_request *of,
                                uint64_t bytes, struct vr_lease_refusal *refusal) {
    enum vr_lease_answer answer;
    do {
        answer = question_put(lease, of, bytes);
    } while (answer == VR_LEASE_LOST && !lease->stop && vr_os_now() < of->deadline);
    switch (answer) {
    case VR_LEASE_YES:
        return VRAM_OK;
    case VR_LEASE_NO:
        *refusal = lease->question.refusal;
        refusal_explain(lease, bytes, refusal);
        return VRAM_ERR_LIMIT;
    default:
        refusal_set(refusal, lease->stop                  ? "the lease is being closed"
                             : answer == VR_LEASE_WAITING ? "the broker of leases does not answer"
                                                          : "no broker of leases can be reached");
        return lease->stop ? VRAM_ERR_STALE : VRAM_ERR_TIMEOUT;
    }
}

/* Asks until the grant has what the request needs. Under the lock. */
static vram_status request_ask(struct vr_lease *lease, const struct lease_request *of,
                               uint64_t *got, struct vr_lease_refusal *refusal) {
    uint64_t most = lease->options.want_bytes - lease->grant;
    uint64_t lacks = of->refused ? vr_smaller(of->bytes, most) : grant_lacks(lease, of->bytes);
    vram_status status = VRAM_OK;
    if (!most) {
        refusal_set(refusal, "the lease's grant has reached its want_bytes");
        return VRAM_ERR_LIMIT;
    }
    lease->question.level = vr_lease_level_with(lease, of->bytes); /* if it lacks nothing */
    while (lacks && status == VRAM_OK) {
        status = question_ask(lease, of, lacks, refusal);
        if (status == VRAM_OK) {
            uint64_t level = lease->question.level, grant = lease->grant;
            *got += lease->question.got;
            lacks = of->refused || level <= grant
                        ? 0
                        : vr_smaller(level - grant, lease->options.want_bytes - grant);
        }
        if (status == VRAM_OK && lacks && vr_os_now() >= of->deadline) {
            refusal_set(refusal, "other processes took what was granted");
            status = VRAM_ERR_TIMEOUT;
        }
    }
    return status;
}

static uint64_t driver_free(struct vr_device_object *device) {
    vram_value free = {0}, total = {0};
    struct vram_error error;
    vr_error_save(&error);
    bool known = device->base.info.caps & VRAM_CAP_MEMORY_INFO &&
                 vr_memory_info(&device->base, &free, &total) == VRAM_OK && free.known;
    vr_error_restore(&error);
    return known ? free.value + 1 : 0;
}

/* Waits for other requests of this process. Under the lock. */
static bool turn_take(struct vr_lease *lease, uint64_t deadline) {
    while (lease->question.busy && !lease->stop && changed_wait(lease, deadline)) {
    }
    bool mine = !lease->question.busy && !lease->stop;
    lease->question.busy |= mine;
    return mine;
}

vram_status vr_lease_need_more(struct vr_lease *lease, uint64_t bytes, bool refused,
                               struct vr_lease_hold *hold, uint64_t *got,
                               struct vr_lease_refusal *refusal) {
    uint64_t begin = vr_os_now();
    struct lease_request request = {
        .bytes = bytes,
        .free = driver_free(lease->device),
        .deadline = begin + vr_smaller(lease->options.timeout_ns, UINT64_MAX / 4),
        .refused = refused};
    vram_status status = VRAM_ERR_TIMEOUT;
    *got = 0;
    *refusal = (struct vr_lease_refusal){.count = 0};
    uint64_t thread = vr_os_thread_number();
    if (vr_load(&lease->runner, VR_ACQUIRE) == thread ||
        vr_load(&lease->giver, VR_RELAXED) == thread) { /* who asks now waits for this one */
        refusal_set(refusal, "an allocation inside the lease's own callback asks nobody");
        return VRAM_ERR_BUSY;
    }
    if (refused) { /* what the driver does not have is nobody's to keep */
        vr_lease_give_unused(lease);
    }
    vr_mutex_lock(&lease->lock);
    hold->level = 0; /* while it waits: (6) */
    lease->counts.requests++;
    if (!turn_take(lease, request.deadline)) {
        refusal_set(refusal, lease->stop ? "the lease is being closed"
                                         : "other threads of this process are asking");
    } else {
        status = request_ask(lease, &request, got, refusal);
        if (status == VRAM_OK) {
            hold_note(lease, hold, lease->question.level);
        }
        lease->question.busy = false;
        lease->question.answer = VR_LEASE_IDLE;
    }
    lease->counts.refusals += status != VRAM_OK;
    lease->counts.waited_ns += vr_os_now() - begin;
    vr_cond_broadcast(&lease->changed);
    vr_mutex_unlock(&lease->lock);
    return status;
}

static vram_status lease_need(uint64_t handle, uint64_t bytes, bool refused,
                              struct vr_lease_hold *hold, uint64_t *got,
                              struct vr_lease_refusal *refusal) {
    struct vram_error error;
    void *entered;
    vr_error_save(&error);
    vram_status status = vr_enter(VR_KIND_LEASE, (const void *)(uintptr_t)handle, &entered);
    if (status == VRAM_OK) {
        status = vr_lease_need_more(entered, bytes, refused, hold, got, refusal);
        vr_leave(entered);
    }
    vr_error_restore(&error);
    return status;
}

const struct vr_lease_ops vr_lease_ops = {
    .begin = lease_hold, .need = lease_need, .done = vr_lease_done};
