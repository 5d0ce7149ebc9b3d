/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_ticket.c: the numbers that the driver gives out for handles, native queues and kernels.
 *
 * A ticket is generation and slot. It is looked up, never followed, so a handle that was released,
 * belongs to another machine or was made up is told apart from a live one, whatever it is.
 *
 *     63          32 31        0
 *    +--------------+-----------+
 *    |  generation  |  slot + 1 |
 *    +--------------+-----------+
 */
#include "backend/sim/sim_machine.h"

#include "base/memory.h"

static bool grow(struct vr_sim *sim) {
    uint32_t count = sim->ticket_count ? sim->ticket_count * 2 : 64;
    if (count <= sim->ticket_count) {
        return false;
    }
    struct vr_sim_ticket *larger =
        vr_mem_resize(sim->tickets, count, sizeof *larger, "simulated handle");
    if (!larger) {
        return false;
    }
    sim->tickets = larger;
    for (uint32_t i = sim->ticket_count; i < count; i++) {
        larger[i] = (struct vr_sim_ticket){.generation = 1, .next = i + 1 < count ? i + 2 : 0};
    }
    sim->ticket_free = sim->ticket_count + 1;
    sim->ticket_count = count;
    return true;
}

uint64_t vr_sim_ticket_take(struct vr_sim *sim, enum vr_sim_kind kind, void *object) {
    if (!sim->ticket_free && !grow(sim)) {
        return 0;
    }
    uint32_t slot = sim->ticket_free - 1;
    struct vr_sim_ticket *ticket = &sim->tickets[slot];
    sim->ticket_free = ticket->next;
    ticket->object = object;
    ticket->kind = kind;
    return (uint64_t)ticket->generation << 32 | (slot + 1);
}

static struct vr_sim_ticket *ticket_at(struct vr_sim *sim, uint64_t number) {
    uint64_t slot = (number & UINT32_MAX) - 1;
    if (slot >= sim->ticket_count || sim->tickets[slot].generation != number >> 32) {
        return NULL;
    }
    return &sim->tickets[slot];
}

void *vr_sim_ticket_find(struct vr_sim *sim, enum vr_sim_kind kind, uint64_t number) {
    struct vr_sim_ticket *ticket = ticket_at(sim, number);
    return ticket && ticket->kind == kind ? ticket->object : NULL;
}

void vr_sim_ticket_give(struct vr_sim *sim, uint64_t number) {
    struct vr_sim_ticket *ticket = ticket_at(sim, number);
    if (ticket && ticket->object) {
        ticket->object = NULL;
        ticket->generation++;
        ticket->next = sim->ticket_free;
        sim->ticket_free = (uint32_t)number;
    }
}
