/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remote_serve.c: what this process does for peers that have connected to it. Each message is
 * checked against the region that it names, each time: the region may have been closed since, and
 * the peer may be hostile.
 */
#include "adapters/ucx/remote_object.h"

#include "base/error.h"
#include "base/memory.h"

/* The record of a peer's operation, made if needed; NULL: there are too many, or no memory. */
static struct vr_serve *serve_of(struct vr_peer *peer, uint64_t op, bool make) {
    for (struct vr_link *link = vr_list_first(&peer->serves); link;
         link = vr_list_next(&peer->serves, link)) {
        struct vr_serve *serve = VR_CONTAINER(link, struct vr_serve, link);
        if (serve->op == op) {
            return serve;
        }
    }
    if (!make || peer->serve_count >= VR_REMOTE_SERVED_MAX) {
        return NULL;
    }
    struct vr_serve *serve = vr_mem_alloc(1, sizeof *serve, vr_operation());
    if (serve) {
        serve->op = op;
        vr_list_append(&peer->serves, &serve->link);
        peer->serve_count++;
    }
    return serve;
}

static void serve_end(struct vr_peer *peer, struct vr_serve *serve) {
    vr_link_remove(&serve->link);
    peer->serve_count--;
    vr_mem_free(serve);
}

void vr_serves_end(struct vr_peer *peer) {
    struct vr_link *link;
    while ((link = vr_list_first(&peer->serves)) != NULL) {
        serve_end(peer, VR_CONTAINER(link, struct vr_serve, link));
    }
}

/* --------------------------------------------------------------------- grants */

static vram_status holder_add(struct vr_peer *peer, struct vr_region *region) {
    for (struct vr_link *link = vr_list_first(&peer->holders); link;
         link = vr_list_next(&peer->holders, link)) {
        if (VR_CONTAINER(link, struct vr_holder, link)->region == region) {
            return VRAM_OK;
        }
    }
    struct vr_holder *holder = vr_mem_alloc(1, sizeof *holder, vr_operation());
    if (!holder) {
        return VRAM_ERR_HOST_MEMORY;
    }
    holder->region = region;
    region->holders++;
    vr_handle_ref(region->object.handle);
    vr_list_append(&peer->holders, &holder->link);
    return VRAM_OK;
}

static void serve_open(struct vr_peer *peer, const struct vr_message *message) {
    struct vr_region *region;
    uint8_t *table = NULL;
    size_t bytes = 0;
    vram_status status = vr_region_find(peer->remote, &message->key, &region);
    if (status == VRAM_OK) {
        status = vr_region_table(region, message->value != 0, &table, &bytes);
    }
    if (status == VRAM_OK) {
        status = holder_add(peer, region);
    }
    if (status == VRAM_ERR_INVALID) {
        vr_fetch_add(&peer->remote->refused, 1, VR_RELAXED);
    }
    struct vr_message answer = {.type = VR_REMOTE_OPENED, .op = message->op, .status = status};
    if (status == VRAM_OK) {
        vr_mail_send_data(peer, answer, table, bytes);
    } else {
        vr_mem_free(table);
        vr_mail_send(peer, answer);
    }
}

static void serve_release(struct vr_peer *peer, uint64_t region) {
    for (struct vr_link *link = vr_list_first(&peer->holders); link;
         link = vr_list_next(&peer->holders, link)) {
        struct vr_holder *holder = VR_CONTAINER(link, struct vr_holder, link);
        if (holder->region->key.region == region) {
            vr_holder_end(holder);
            peer->remote->busy = true;
            return;
        }
    }
}

/* ------------------------------------------------------------------- contents */

/* Checks an access; *place is its memory. */
static vram_status access_check(struct vr_peer *peer, const struct vr_message *message, bool write,
                                struct vr_region **region, struct vr_region_part *place) {
    vram_status status = vr_region_find(peer->remote, &message->key, region);
    if (status != VRAM_OK) {
        return status;
    }
    if (message->part >= (*region)->part_count || message->bytes == 0 ||
        message->bytes > peer->chunk_bytes ||
        (write && ((*region)->flags & VRAM_REMOTE_READ_ONLY))) {
        return VRAM_ERR_INVALID;
    }
    const struct vr_region_part *part = &(*region)->parts[message->part];
    if (message->offset > part->bytes || message->bytes > part->bytes - message->offset) {
        return VRAM_ERR_INVALID;
    }
    *place = (struct vr_region_part){.addr = part->addr + message->offset,
                                     .bytes = message->bytes,
                                     .host = part->host ? part->host + message->offset : NULL};
    return VRAM_OK;
}

/* Begins a chunk for a peer's READ or WRITE. */
static vram_status serve_chunk(struct vr_peer *peer, struct vr_mail *mail, bool write) {
    const struct vr_message *message = &mail->message;
    struct vr_region *region;
    struct vr_region_part place;
    vram_status status = access_check(peer, message, write, &region, &place);
    if (status != VRAM_OK) {
        vr_fetch_add(&peer->remote->refused, 1, VR_RELAXED);
        return status;
    }
    if (peer->serve_count >= VR_REMOTE_SERVED_MAX) {
        return VRAM_ERR_LIMIT;
    }
    struct vr_chunk *chunk = vr_mem_alloc(1, sizeof *chunk, vr_operation());
    if (!chunk) {
        return VRAM_ERR_HOST_MEMORY;
    }
    *chunk = (struct vr_chunk){.peer = peer,
                               .region = region,
                               .to_network = !write,
                               .addr = place.addr,
                               .host = place.host,
                               .bytes = place.bytes,
                               .op = message->op,
                               .desc = mail->desc,
                               .desc_is_data = mail->desc_is_data};
    mail->desc = NULL;
    region->serving++;
    vr_handle_ref(region->object.handle);
    peer->serve_count++;
    vr_list_append(&peer->chunks, &chunk->link);
    vr_chunk_start(chunk);
    return VRAM_OK;
}

void vr_serve_landed(struct vr_chunk *chunk) {
    struct vr_peer *peer = chunk->peer;
    peer->serve_count--;
    chunk->region->serving--;
    if (chunk->to_network) {
        if (chunk->status != VRAM_OK && peer->state != VR_PEER_BROKEN) {
            vr_mail_send(peer, (struct vr_message){.type = VR_REMOTE_DATA,
                                                   .op = chunk->op,
                                                   .status = chunk->status});
        }
    } else {
        struct vr_serve *serve = serve_of(peer, chunk->op, false);
        if (serve && chunk->status == VRAM_OK) {
            serve->landed += chunk->bytes;
        } else if (serve) {
            serve->status = chunk->status;
        }
    }
    vr_handle_unpin(chunk->region->object.handle);
}

static void serve_read(struct vr_peer *peer, struct vr_mail *mail) {
    vram_status status = serve_chunk(peer, mail, false);
    if (status != VRAM_OK) {
        vr_mail_send(peer, (struct vr_message){
                               .type = VR_REMOTE_DATA, .op = mail->message.op, .status = status});
    }
}

static void serve_write(struct vr_peer *peer, struct vr_mail *mail) {
    struct vr_serve *serve = serve_of(peer, mail->message.op, true);
    if (!serve) {
        vr_mail_refuse(peer, "too many requests");
        return;
    }
    vram_status status = serve->committed && serve->landed >= serve->expected
                             ? VRAM_ERR_INVALID /* more than it has announced */
                             : serve_chunk(peer, mail, true);
    serve->status = serve->status == VRAM_OK ? status : serve->status;
}

/* ------------------------------------------------------------- marks, commits */

/* Answers what has come to its end; true: it is over. */
static bool serve_step(struct vr_peer *peer, struct vr_serve *serve) {
    struct vr_region *region;
    vram_status status = serve->status;
    if (!serve->awaits && !serve->committed) {
        return false;
    }
    if (status == VRAM_OK) {
        status = vr_region_find(peer->remote, &serve->key, &region);
    }
    if (status == VRAM_OK && serve->awaits) {
        if (vr_region_mark(region) < serve->after) {
            return false;
        }
    } else if (status == VRAM_OK) {
        if (serve->landed < serve->expected) {
            return false;
        }
        status = serve->landed > serve->expected                          ? VRAM_ERR_CORRUPT
                 : serve->mark && (region->flags & VRAM_REMOTE_READ_ONLY) ? VRAM_ERR_INVALID
                                                                          : VRAM_OK;
        if (status == VRAM_OK) {
            vr_region_mark_raise(region, serve->mark);
        }
    }
    vr_mail_send(peer,
                 (struct vr_message){.type = serve->awaits ? VR_REMOTE_REACHED : VR_REMOTE_DONE,
                                     .op = serve->op,
                                     .status = status});
    return true;
}

void vr_serves_step(struct vr_peer *peer) {
    struct vr_link *link = vr_list_first(&peer->serves);
    while (link) {
        struct vr_serve *serve = VR_CONTAINER(link, struct vr_serve, link);
        link = vr_list_next(&peer->serves, link);
        if (serve_step(peer, serve)) {
            serve_end(peer, serve);
            peer->remote->busy = true;
        }
    }
}

static void serve_await(struct vr_peer *peer, const struct vr_message *message) {
    struct vr_serve *serve = serve_of(peer, message->op, true);
    if (!serve || serve->awaits || serve->committed || serve->landed) {
        vr_mail_refuse(peer, serve ? "the same number twice" : "too many requests");
        return;
    }
    serve->awaits = true;
    serve->after = message->value;
    serve->key = message->key;
}

static void serve_commit(struct vr_peer *peer, const struct vr_message *message) {
    struct vr_serve *serve = serve_of(peer, message->op, true);
    if (!serve || serve->awaits || serve->committed) {
        vr_mail_refuse(peer, serve ? "the same number twice" : "too many requests");
        return;
    }
    serve->committed = true;
    serve->expected = message->bytes;
    serve->mark = message->value;
    serve->key = message->key;
}

void vr_serve_mail(struct vr_peer *peer, struct vr_mail *mail) {
    const struct vr_message *message = &mail->message;
    struct vr_serve *serve;
    switch (message->type) {
    case VR_REMOTE_OPEN:
        serve_open(peer, message);
        break;
    case VR_REMOTE_AWAIT:
        serve_await(peer, message);
        break;
    case VR_REMOTE_READ:
        serve_read(peer, mail);
        break;
    case VR_REMOTE_WRITE:
        serve_write(peer, mail);
        break;
    case VR_REMOTE_COMMIT:
        serve_commit(peer, message);
        break;
    case VR_REMOTE_RELEASE:
        serve_release(peer, message->key.region);
        break;
    case VR_REMOTE_CANCEL:
        serve = serve_of(peer, message->op, false);
        if (serve) {
            serve_end(peer, serve);
        }
        break;
    default:
        vr_mail_refuse(peer, "a message of an unknown type");
    }
}
