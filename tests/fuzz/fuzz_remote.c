/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_remote.c: whatever another machine sends, stores or hands over, it is refused, or says
 * nothing that is not in its bytes. The first byte chooses what the rest is:
 *
 *   m  messages, as UCX hands them over, to a process that serves no region
 *   o  the table of a region that was asked for
 *   a  an address
 *   t  a token
 */
#include "fuzz.h"

#include "adapters/ucx/remote_object.h"
#include "base/memory.h"

#include <string.h>

static const char fuzz_words[] =
    " m o a t Vram Vraa Vrat \x01\x01\x01\x01 \xff\xff\xff\xff\xff\xff\xff\xff";

static struct vr_remote remote;

static void peer_begin(struct vr_peer *peer) {
    *peer = (struct vr_peer){.remote = &remote, .state = VR_PEER_BROKEN, .chunk_bytes = 65536};
    vr_list_init(&remote.regions);
    vr_list_init(&peer->transfers);
    vr_list_init(&peer->chunks);
    vr_list_init(&peer->grants);
    vr_list_init(&peer->holders);
    vr_list_init(&peer->serves);
}

/* What is served is bounded, and goes with the peer. */
static void messages_try(const uint8_t *data, size_t bytes) {
    static struct vr_peer peer;
    peer_begin(&peer);
    remote.next_region = 8;
    for (; bytes >= VR_REMOTE_MESSAGE_BYTES && !peer.failed;
         data += VR_REMOTE_MESSAGE_BYTES, bytes -= VR_REMOTE_MESSAGE_BYTES) {
        struct vr_mail mail = {.bytes = 0};
        uint8_t again[VR_REMOTE_MESSAGE_BYTES];
        if (vr_message_read(data, VR_REMOTE_MESSAGE_BYTES, &mail.message)) {
            vr_message_write(&mail.message, again);
            FUZZ_EXPECT(memcmp(data, again, sizeof again) == 0);
            vr_serve_mail(&peer, &mail);
            vr_serves_step(&peer);
            FUZZ_EXPECT(peer.serve_count <= VR_REMOTE_SERVED_MAX);
        }
    }
    vr_serves_end(&peer);
    FUZZ_EXPECT(peer.serve_count == 0);
}

/* Parts and pieces that are accepted add up. */
static void grant_expect(const struct vr_grant *grant) {
    FUZZ_EXPECT(grant->part_count > 0);
    for (uint32_t i = 0; i < grant->part_count; i++) {
        const struct vr_grant_part *part = &grant->parts[i];
        uint64_t sum = 0;
        FUZZ_EXPECT(part->first <= grant->piece_count &&
                    part->count <= grant->piece_count - part->first);
        for (uint32_t j = 0; j < part->count; j++) {
            const struct vr_grant_piece *piece = &grant->pieces[part->first + j];
            FUZZ_EXPECT(piece->key < grant->key_count && piece->bytes <= part->bytes - sum);
            sum += piece->bytes;
        }
        FUZZ_EXPECT(sum == part->bytes || grant->served);
    }
}

static void table_try(const uint8_t *data, size_t bytes) {
    static struct vr_peer peer;
    uint8_t none[8] = {0};
    struct vr_mail mail = {.message = {.type = VR_REMOTE_OPENED, .op = 7},
                           .desc = bytes ? (void *)(uintptr_t)data : none,
                           .desc_is_data = true,
                           .bytes = bytes};
    struct vr_grant *grant = vr_mem_alloc(1, sizeof *grant, "fuzz");
    FUZZ_EXPECT(grant != NULL);
    peer_begin(&peer);
    grant->op = 7;
    vr_list_append(&peer.grants, &grant->link);
    vr_grant_opened(&peer, &mail);
    FUZZ_EXPECT(grant->ready != peer.failed);
    if (grant->ready) {
        grant_expect(grant);
    }
    vr_grants_end(&peer);
}

static void address_try(const uint8_t *data, size_t bytes) {
    struct vr_remote_address address;
    uint8_t again[VRAM_REMOTE_ADDRESS_MAX];
    if (vr_address_read(data, bytes, &address) == VRAM_OK) {
        FUZZ_EXPECT(vr_address_write(&address, again, sizeof again) == bytes &&
                    memcmp(data, again, bytes) == 0);
        struct sockaddr_storage socket;
        (void)vr_socket_read(address.net, address.net_bytes, &socket);
    }
}

static void token_try(const uint8_t *data, size_t bytes) {
    vram_remote_token token, again;
    struct vr_remote_key key;
    memset(&token, 0, sizeof token);
    memcpy(token.bytes, data, bytes < sizeof token.bytes ? bytes : sizeof token.bytes);
    if (vr_token_read(&token, &key) == VRAM_OK) {
        vr_token_write(&key, &again);
        FUZZ_EXPECT(memcmp(token.bytes + 8, again.bytes + 8, 24) == 0);
    }
}

static int fuzz_take(const uint8_t *data, size_t bytes) {
    if (bytes == 0) {
        return 0;
    }
    switch (data[0]) {
    case 'm':
        messages_try(data + 1, bytes - 1);
        break;
    case 'o':
        table_try(data + 1, bytes - 1);
        break;
    case 'a':
        address_try(data + 1, bytes - 1);
        break;
    default:
        token_try(data + 1, bytes - 1);
    }
    FUZZ_EXPECT(vr_mem_live_blocks() == 0);
    return 0;
}

/* ------------------------------------------------------------------- structure */

/* Messages, or numbers. */
static size_t split(const uint8_t *data, size_t bytes, struct fuzz_part *parts) {
    size_t count = 0, some = bytes > 0 && data[0] == 'm' ? VR_REMOTE_MESSAGE_BYTES : 8;
    for (size_t at = 1; at + some <= bytes && count < FUZZ_PARTS_MAX; at += some) {
        parts[count++] = (struct fuzz_part){at, some};
    }
    return count;
}

/* Checksums and lengths of an address and a token. */
static size_t mend(uint8_t *data, size_t bytes, size_t capacity) {
    size_t sealed = bytes > 0 && data[0] == 't' ? 64 : bytes - 1;
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    (void)capacity;
    if (bytes < 1 + 64 || (data[0] != 'a' && data[0] != 't')) {
        return bytes;
    }
    if (data[0] == 'a') {
        fuzz_put(data + 1 + 8, sealed, 8);
        fuzz_put(data + 1 + 32, sealed - 56 - data[1 + 40], 8);
    }
    for (size_t i = 0; i < sealed - 8; i++) {
        sum = (sum ^ data[1 + i]) * UINT64_C(0x100000001b3);
    }
    fuzz_put(data + 1 + sealed - 8, sum, 8);
    return bytes;
}

FUZZ_TARGET(remote, .split = split, .mend = mend)
