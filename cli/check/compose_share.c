/* SPDX-License-Identifier: Apache-2.0 */
/* compose_share.c: a block of the pool is open on a second handle of the device. */
#include "compose.h"

bool compose_share_on(struct compose *compose) {
    struct check *check = compose->check;
    vram_share_options options = {.size = sizeof options};
    vram_share_token token;

    compose->read_only = check_random(check, 2);
    options.flags = compose->read_only ? VRAM_SHARE_READ_ONLY : 0;
    if (compose_is(compose, COMPOSE_SLEEP) && compose->slept) {
        CHECK_STATUS(check, vram_share_export(&compose->shared, 1, &options, &compose->share),
                     VRAM_ERR_BUSY);
        return true; /* what is asleep is not there to be mapped */
    }
    vram_status status = vram_share_export(&compose->shared, 1, &options, &compose->share);
    if (status == VRAM_ERR_IO && !check_driver_failed(check)) {
        return check_skip(check, "%s", vram_error_get()->text);
    }
    CHECK_OK(check, status);
    compose->on |= 1u << COMPOSE_SHARE;
    CHECK_OK(check, vram_share_token_get(compose->share, &token));
    CHECK_OK(check, vram_share_open(compose->reader->device, &token, NULL, &compose->opened));
    CHECK_OK(check, vram_share_parts_get(compose->opened, 0, 1, &compose->part));
    CHECK_STATUS(check, vram_unpin(compose->shared), VRAM_ERR_INVALID); /* the pin is the share's */
    return true;
}

/* Either side goes first. */
bool compose_share_off(struct compose *compose) {
    bool reader_first = check_random(compose->check, 2);
    CHECK_OK(compose->check, vram_share_close(reader_first ? compose->opened : compose->share));
    CHECK_OK(compose->check, vram_share_close(reader_first ? compose->share : compose->opened));
    return true;
}

/* Each side sees what the other has written, whether the rest of the pool sleeps or not. */
bool compose_share_verify(struct compose *compose) {
    struct check *check = compose->check;
    uint32_t mark = compose_mark_of(compose, compose->shared);
    vram_queue *writer = compose->read_only ? compose->queue : compose->other;
    vram_addr there = compose->read_only ? compose->shared : compose->part.addr;

    CHECK_TRY(compose_head(compose, compose->other, compose->part.addr, mark));
    if (compose->read_only) {
        CHECK_STATUS(check, vram_queue_fill(compose->other, compose->part.addr, 0, 4, 64),
                     VRAM_ERR_INVALID);
    }
    CHECK_OK(check, vram_queue_fill(writer, there, ~mark, 4, COMPOSE_EDGE));
    CHECK_WAIT(check, writer);
    CHECK_TRY(compose_head(compose, compose->other, compose->part.addr, ~mark));
    CHECK_TRY(compose_head(compose, compose->queue, compose->shared, ~mark));
    CHECK_OK(check, vram_queue_fill(writer, there, mark, 4, COMPOSE_EDGE));
    CHECK_WAIT(check, writer);
    return true;
}
