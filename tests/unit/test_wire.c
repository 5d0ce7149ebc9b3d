/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_wire.c: messages as bytes, on sockets whose other side reads too little, sends too little or
 * goes away.
 */
#include "assert_ok.h"
#include "base/clock.h"
#include "lease/lease_wire.h"
#include "share/share_wire.h"
#include "track/crc32.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ----------------------------------------------------------------- the system */

static size_t send_most; /* bytes that one sendmsg takes; 0: as the system does */

ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags) {
    struct iovec some = message->msg_iov[0];
    struct msghdr less = *message;
    if (send_most && some.iov_len > send_most) {
        some.iov_len = send_most;
        less.msg_iov = &some;
    }
    return __real_sendmsg(fd, &less, flags);
}

struct ends {
    int fd[2];
};

static struct ends ends_open(void) {
    struct ends ends;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.fd),
                     0);
    return ends;
}

static void ends_close(struct ends *ends) {
    close(ends->fd[0]);
    close(ends->fd[1]);
}

/* Sends until the other side would have to read. */
static void ends_fill(const struct ends *ends) {
    uint8_t bytes[64] = {0};
    while (send(ends->fd[0], bytes, sizeof bytes, MSG_NOSIGNAL) > 0) {
    }
}

static struct vr_wire_exchange exchange_of(int fd, uint64_t ns) {
    return (struct vr_wire_exchange){
        .fd = fd, .deadline = vr_clock_now() + ns, .silent = "nobody reads"};
}

#define SECOND UINT64_C(1000000000)

/* ------------------------------------------------------------------ exchanges */

TEST(headers_that_are_none) {
    uint8_t bytes[VR_WIRE_HEADER_BYTES];
    struct vr_wire_header header = {.version = 3, .type = 4, .status = VRAM_ERR_LIMIT, .bytes = 10};
    struct vr_wire_header read;
    vr_wire_header_write(bytes, &header);
    assert_true(vr_wire_header_read(bytes, 10, &read));
    assert_int_equal(read.version, 3);
    assert_int_equal(read.type, 4);
    assert_int_equal(read.status, VRAM_ERR_LIMIT);
    assert_int_equal(read.bytes, 10);
    assert_false(vr_wire_header_read(bytes, 9, &read));
    bytes[0] ^= 1;
    assert_false(vr_wire_header_read(bytes, 10, &read));
}

TEST(sending_in_pieces) {
    struct ends ends = ends_open();
    struct vr_wire_exchange here = exchange_of(ends.fd[0], SECOND),
                            there = exchange_of(ends.fd[1], SECOND);
    uint8_t sent[100], got[100];
    uint32_t none = 0;
    memset(sent, 0x5a, sizeof sent);
    send_most = 7;
    assert_ok(vr_wire_send(&here, sent, sizeof sent));
    send_most = 0;
    assert_ok(vr_wire_receive(&there, got, sizeof got, NULL, &none));
    assert_memory_equal(sent, got, sizeof sent);
    assert_int_equal(none, 0);
    ends_close(&ends);
}

TEST(nobody_reads) {
    struct ends ends = ends_open();
    uint8_t bytes[64] = {0};
    uint32_t none = 0;
    ends_fill(&ends);
    struct vr_wire_exchange here = exchange_of(ends.fd[0], SECOND / 100);
    assert_int_equal(vr_wire_send(&here, bytes, sizeof bytes), VRAM_ERR_TIMEOUT);
    assert_string_equal(vram_error_get()->text, "nobody reads");
    here = exchange_of(ends.fd[0], SECOND / 100); /* and nobody sends */
    assert_int_equal(vr_wire_receive(&here, bytes, sizeof bytes, NULL, &none), VRAM_ERR_TIMEOUT);
    close(ends.fd[1]);
    here = exchange_of(ends.fd[0], SECOND);
    assert_int_equal(vr_wire_send(&here, bytes, sizeof bytes), VRAM_ERR_STALE);
    close(ends.fd[0]);
}

/* A descriptor that came with the first bytes is closed when the rest does not come. */
TEST(descriptors_of_a_cut_message) {
    struct ends ends = ends_open();
    struct vr_wire_exchange there = exchange_of(ends.fd[1], SECOND);
    int sent = open("/dev/null", O_RDONLY | O_CLOEXEC), got[2] = {-1, -1};
    uint8_t bytes[16] = {0};
    uint32_t count = 2;
    size_t some;
    assert_ok(vr_os_socket_send(ends.fd[0], bytes, 8, &sent, 1, &some));

    close(ends.fd[0]);
    assert_int_equal(vr_wire_receive(&there, bytes, sizeof bytes, got, &count), VRAM_ERR_STALE);
    assert_int_equal(count, 0);
    assert_int_not_equal(got[0], -1);
    assert_int_equal(fcntl(got[0], F_GETFD), -1);
    close(sent);
    close(ends.fd[1]);
}

/* --------------------------------------------------------------------- leases */

TEST(texts_of_leases) {
    struct ends ends = ends_open();
    struct vr_lease_message message = {.type = VR_LEASE_OPEN, .n = {1, 2, 3, 4, 5, 6, 7, 8}}, read;
    struct vr_lease_reader reader = {0};
    memcpy(message.name, "a\"b\\c\x1f\x7f~ ", 10);
    memset(message.device, 'd', sizeof message.device); /* no end */
    assert_int_equal(vr_lease_receive(&reader, ends.fd[1], &read), VRAM_ERR_NOT_READY);
    assert_ok(vr_lease_send(ends.fd[0], &message));
    assert_ok(vr_lease_receive(&reader, ends.fd[1], &read));
    assert_string_equal(read.name, "a?b?c??~ ");
    assert_int_equal(strlen(read.device), sizeof read.device - 1);
    assert_memory_equal(read.n, message.n, sizeof read.n);
    ends_close(&ends);
}

/* Rule (2) of lease_wire.h: longer and shorter payloads of the same version. */
TEST(payloads_of_other_lengths) {
    struct vr_lease_message message = {.type = VR_LEASE_OPEN, .n = {1, 2}, .name = "n"}, read;
    for (uint32_t bytes = 0; bytes <= VR_LEASE_PAYLOAD_MAX; bytes += 8) {
        struct ends ends = ends_open();
        struct vr_lease_reader reader = {0};
        uint8_t all[VR_WIRE_HEADER_BYTES + VR_LEASE_PAYLOAD_MAX] = {0};
        vr_lease_message_write(all, &message);
        vr_wire_put(all + 8, bytes, 4);
        assert_int_equal(write(ends.fd[0], all, VR_WIRE_HEADER_BYTES + bytes / 2),
                         VR_WIRE_HEADER_BYTES + bytes / 2);
        if (bytes) {
            assert_int_equal(vr_lease_receive(&reader, ends.fd[1], &read), VRAM_ERR_NOT_READY);
            assert_true(
                write(ends.fd[0], all + VR_WIRE_HEADER_BYTES + bytes / 2, bytes - bytes / 2) > 0);
        }
        assert_ok(vr_lease_receive(&reader, ends.fd[1], &read));
        assert_int_equal(read.n[0], bytes >= 8 ? 1 : 0);
        assert_int_equal(read.n[1], bytes >= 16 ? 2 : 0);
        assert_string_equal(read.name, bytes > 64 ? "n" : "");
        ends_close(&ends);
    }
}

TEST(leases_that_nobody_reads) {
    struct ends ends = ends_open();
    struct vr_lease_message message = {.type = VR_LEASE_HELD};
    send_most = VR_LEASE_MESSAGE_BYTES - 1; /* the system takes a part */
    assert_int_equal(vr_lease_send(ends.fd[0], &message), VRAM_ERR_TIMEOUT);
    send_most = 0;
    ends_fill(&ends);
    assert_int_equal(vr_lease_send(ends.fd[0], &message), VRAM_ERR_TIMEOUT);
    close(ends.fd[1]);
    assert_int_equal(vr_lease_send(ends.fd[0], &message), VRAM_ERR_STALE);
    close(ends.fd[0]);
}

TEST(priorities_of_leases) {
    assert_int_equal(vr_lease_priority_get(vr_lease_priority_put(-100)), -100);
    assert_int_equal(vr_lease_priority_get(vr_lease_priority_put(42)), 42);
    assert_int_equal(vr_lease_priority_get(UINT64_MAX), VR_LEASE_PRIORITY_MOST);
    assert_int_equal(vr_lease_priority_get(0), -VR_LEASE_PRIORITY_MOST);
}

/* --------------------------------------------------------------------- tokens */

TEST(tokens_of_another_version) {
    struct vr_share_ticket ticket = {.slot = 7, .key = {1}}, read;
    vram_share_token token;
    vr_share_token_write(&token, &ticket);
    assert_ok(vr_share_token_read(&token, &read));
    assert_int_equal(read.slot, 7);
    assert_true(vr_share_key_same(read.key, ticket.key));
    token.bytes[4]++;
    assert_int_equal(vr_share_token_read(&token, &read), VRAM_ERR_INVALID);
    vr_wire_put(token.bytes + 60, vr_crc32(0, token.bytes, 60), 4);
    assert_int_equal(vr_share_token_read(&token, &read), VRAM_ERR_UNSUPPORTED);
    token.bytes[0]++;
    assert_int_equal(vr_share_token_read(&token, &read), VRAM_ERR_INVALID);
}
