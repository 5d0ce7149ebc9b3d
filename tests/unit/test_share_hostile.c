/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_share_hostile.c: bad tokens, peers that lie, are silent or send garbage, descriptors that
 * run out, and every call that can fail made to fail. Both sides are in this process.
 */
#include "share_world.h"

#include "base/os/os.h"
#include "base/os/unix_socket.h"
#include "share/share_wire.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#define PATTERN UINT32_C(0x13579bdf)
#define SECOND  UINT64_C(1000000000)

/* ---------------------------------------------------------------------- tokens */

/* With a good checksum: another key, slot, socket and boot. `check share.tokens` changes bytes. */
TEST(tokens_of_something_else_are_refused) {
    struct share_world world;
    vram_share *share, *opened = NULL;
    vram_share_token token;
    struct vr_share_ticket ticket;
    share_world_open(&world, VRAM_POOL_SHAREABLE);
    share_export_one(share_block(&world, MIB, PATTERN), 0, &share, &token);
    assert_ok(vr_share_token_read(&token, &ticket));
    for (int i = 0; i < 6; i++) {
        struct vr_share_ticket wrong = ticket;
        vram_share_token bad;
        wrong.key[15] ^= i == 0;
        wrong.slot += i == 1 ? 1 : i == 2 ? UINT32_MAX / 2 : 0;
        wrong.server[0] ^= i == 3;
        wrong.boot ^= i == 4;
        vr_share_token_write(&bad, &wrong);
        assert_int_equal(vram_share_open(world.device, &bad, NULL, &opened),
                         i == 5 ? VRAM_OK : VRAM_ERR_STALE);
    }
    share_world_close(&world);
}

TEST(a_share_of_another_backend_is_refused) {
    struct share_world world, other;
    vram_share *share, *opened = NULL;
    vram_share_token token;
    share_world_open(&world, VRAM_POOL_SHAREABLE);
    share_export_one(share_block(&world, MIB, PATTERN), 0, &share, &token);
    share_backend = "sim";
    share_device_open(&other);
    share_backend = "host";
    assert_int_equal(vram_share_open(other.device, &token, NULL, &opened), VRAM_ERR_UNSUPPORTED);
    assert_non_null(strstr(vram_error_get()->text, "another device"));
    share_world_close(&other);
    share_world_close(&world);
}

/* --------------------------------------------------------------- lying clients */

static int connect_to(const vram_share_token *token) {
    struct vr_share_ticket ticket;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    assert_ok(vr_share_token_read(token, &ticket));
    snprintf(address.sun_path, sizeof address.sun_path, "%s/vram-s-%016llx%08llx", share_dir,
             (unsigned long long)ticket.server[0], (unsigned long long)ticket.server[1]);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

TEST(a_client_that_lies_is_dropped) {
    struct share_world world;
    vram_share *share, *opened;
    vram_share_token token;
    uint8_t message[400], answer[64];
    share_world_open(&world, VRAM_POOL_SHAREABLE);
    share_export_one(share_block(&world, MIB, PATTERN), 0, &share, &token);
    uint32_t descriptors = descriptors_open();
    srand(2);
    for (int i = 0; i < 300; i++) {
        int fd = connect_to(&token);
        size_t bytes = (size_t)(1 + rand() % (int)sizeof message);
        for (size_t k = 0; k < bytes; k++) {
            message[k] = (uint8_t)rand();
        }
        if (i % 3) { /* a good header with some other type, version or length */
            vr_wire_header_write(message,
                                 &(struct vr_wire_header){.version = (uint8_t)(rand() % 3),
                                                          .type = (uint8_t)(rand() % 4),
                                                          .bytes = (uint32_t)(rand() % 300)});
        }
        (void)send(fd, message, bytes, MSG_NOSIGNAL);
        if (i % 5 == 0) {
            (void)shutdown(fd, SHUT_WR);
            while (read(fd, answer, sizeof answer) > 0) {
            }
        }
        close(fd);
    }
    int cut = connect_to(&token); /* a question that is too short */
    vr_wire_header_write(message, &(struct vr_wire_header){.version = VR_WIRE_VERSION,
                                                           .type = VR_WIRE_OPEN,
                                                           .bytes = VR_WIRE_OPEN_BYTES - 1});
    (void)send(cut, message, VR_WIRE_HEADER_BYTES + VR_WIRE_OPEN_BYTES - 1, MSG_NOSIGNAL);
    assert_true(read(cut, answer, sizeof answer) <= 0);
    close(cut);
    /* Others are served meanwhile and after it. */
    int silent = connect_to(&token);
    assert_ok(vram_share_open(world.device, &token, NULL, &opened));
    assert_ok(vram_share_close(opened));
    char byte;
    assert_int_equal(read(silent, &byte, 1), 0); /* after the deadline the server closes it */
    close(silent);
    share_await_readers(share, 0);
    share_await_descriptors(descriptors + 1); /* the timeline's */
    share_world_close(&world);
}

/* A client that asks and does not read the answer, or sends descriptors and more than it may. */
TEST(a_client_that_does_not_read_delays_nobody) {
    enum { COUNT = 40000 };
    struct share_world world;
    static vram_addr blocks[COUNT];
    vram_share *share, *opened;
    vram_share_token token;
    struct vr_share_ticket ticket;
    uint8_t request[VR_WIRE_HEADER_BYTES + VR_WIRE_OPEN_BYTES] = {0};
    share_world_open(&world, VRAM_POOL_SHARE_GROUP);
    for (int i = 0; i < COUNT; i++) {
        assert_ok(vram_alloc(world.pool, 512, world.queue, &blocks[i]));
    }
    assert_ok(vram_share_export(blocks, COUNT, NULL, &share));
    assert_ok(vram_share_token_get(share, &token));
    assert_ok(vr_share_token_read(&token, &ticket));
    vr_wire_header_write(request, &(struct vr_wire_header){.version = VR_WIRE_VERSION,
                                                           .type = VR_WIRE_OPEN,
                                                           .bytes = VR_WIRE_OPEN_BYTES});
    vr_wire_put(request + VR_WIRE_HEADER_BYTES, ticket.slot, 4);
    memcpy(request + VR_WIRE_HEADER_BYTES + 8, ticket.key, sizeof ticket.key);
    int lazy = connect_to(&token), eager = connect_to(&token);
    assert_int_equal(send(lazy, request, sizeof request, 0), sizeof request);
    assert_int_equal(send(eager, request, sizeof request, 0), sizeof request);
    assert_ok(vram_share_open(world.device, &token, NULL, &opened));
    /* A reader that sends anything is dropped. */
    char sink[65536];
    for (int i = 0; i < 40; i++) {
        (void)recv(eager, sink, sizeof sink, MSG_DONTWAIT);
        usleep(1000);
    }
    assert_true(send(eager, "x", 1, MSG_NOSIGNAL) <= 1);
    assert_ok(vram_share_close(opened));
    share_await_readers(share, 0); /* the lazy one ran into its deadline */
    close(lazy);
    close(eager);
    share_world_close(&world);
}

/* --------------------------------------------------------------- lying servers */

struct impostor {
    int listener;
    uint8_t answer[65536];
    size_t bytes;
    int descriptors[4];
    uint32_t count; /* of the descriptors, which follow the answer with a header of their own */
    bool handles;   /* that header follows */
    bool silent;
};

static void *impostor_run(void *argument) {
    struct impostor *impostor = argument;
    uint8_t request[64];
    size_t sent;
    int fd = accept(impostor->listener, NULL, NULL);
    (void)!read(fd, request, sizeof request);
    if (impostor->bytes) {
        (void)vr_os_socket_send(fd, impostor->answer, impostor->bytes, NULL, 0, &sent);
    }
    if (impostor->handles) {
        vr_wire_header_write(
            request, &(struct vr_wire_header){.version = VR_WIRE_VERSION, .type = VR_WIRE_HANDLES});
        (void)vr_os_socket_send(fd, request, VR_WIRE_HEADER_BYTES, impostor->descriptors,
                                impostor->count, &sent);
    }
    if (impostor->silent) {
        (void)!read(fd, request, sizeof request); /* until the client has had enough */
    }
    close(fd);
    return NULL;
}

/* Opens a token whose server is the impostor. Only a silent one is given up soon: a busy machine
   may be slow to run the others. */
static vram_status open_from(struct share_world *world, struct impostor *impostor) {
    struct vr_share_ticket ticket = {.server = {1, 2}};
    vram_share_options options = {.size = sizeof options,
                                  .timeout_ns = impostor->silent ? SECOND / 4 : 60 * SECOND};
    vram_share_token token;
    vram_share *opened = NULL;
    char path[VR_SOCKET_PATH_MAX];
    pthread_t thread;
    snprintf(path, sizeof path, "%s/vram-s-%016x%08x", share_dir, 1, 2);
    unlink(path);
    assert_ok(vr_os_socket_listen(path, &impostor->listener));
    (void)fcntl(impostor->listener, F_SETFL, 0);
    vr_share_token_write(&token, &ticket);
    assert_int_equal(pthread_create(&thread, NULL, impostor_run, impostor), 0);
    vram_status status = vram_share_open(world->device, &token, &options, &opened);
    assert_null(opened);
    pthread_join(thread, NULL);
    close(impostor->listener);
    unlink(path);
    return status;
}

/* A good answer of one handle of 2 MiB and one part, without descriptors. */
static void answer_write(struct impostor *impostor) {
    uint8_t *to = impostor->answer;
    memset(impostor, 0, sizeof *impostor);
    impostor->bytes = VR_WIRE_HEADER_BYTES + VR_WIRE_OPENED_BYTES + 8 + 16;
    vr_wire_header_write(to, &(struct vr_wire_header){.version = VR_WIRE_VERSION,
                                                      .type = VR_WIRE_OPENED,
                                                      .bytes = VR_WIRE_OPENED_BYTES + 8 + 16});
    to += VR_WIRE_HEADER_BYTES;
    memcpy(to, "host", 4);
    vr_wire_put(to + 40, 2 * MIB, 8);
    vr_wire_put(to + 48, 1, 4);
    vr_wire_put(to + 52, 1, 4);
    vr_wire_put(to + 64, 2 * MIB, 8);
    vr_wire_put(to + 72, 0, 8);
    vr_wire_put(to + 80, MIB, 8);
}

TEST(a_server_that_lies_is_found_out) {
    struct share_world world;
    static struct impostor impostor;
    const struct {
        int at, bytes;
        uint64_t value;
        vram_status status;
    } lies[] = {
        {0, 4, 7, VRAM_ERR_CORRUPT},                   /* no message of ours */
        {4, 1, 2, VRAM_ERR_UNSUPPORTED},               /* another version of libvram */
        {5, 1, 9, VRAM_ERR_CORRUPT},                   /* an unknown type */
        {5, 1, VR_WIRE_HANDLES, VRAM_ERR_CORRUPT},     /* a known one at the wrong place */
        {5, 1, VR_WIRE_REFUSED, VRAM_ERR_UNSUPPORTED}, /* refused */
        {8, 4, UINT32_MAX, VRAM_ERR_CORRUPT},          /* longer than any message */
        {8, 4, 10, VRAM_ERR_CORRUPT},                  /* too short for its fields */
        {16, 4, 0x41424344, VRAM_ERR_UNSUPPORTED},     /* another backend */
        {16 + 40, 8, 4096, VRAM_ERR_UNSUPPORTED},      /* another granule */
        {16 + 48, 4, 0, VRAM_ERR_CORRUPT},             /* no handles */
        {16 + 48, 4, 65536, VRAM_ERR_CORRUPT},         /* more than the message has */
        {16 + 48, 4, UINT32_MAX, VRAM_ERR_CORRUPT},    /* more than there can be */
        {16 + 52, 4, UINT32_MAX, VRAM_ERR_CORRUPT},    /* the same of parts */
        {16 + 64, 8, 0, VRAM_ERR_CORRUPT},             /* a handle of nothing */
        {16 + 64, 8, 2 * MIB + 1, VRAM_ERR_CORRUPT},   /* not in granules */
        {16 + 72, 8, 2 * MIB, VRAM_ERR_CORRUPT},       /* a part behind the memory */
        {16 + 80, 8, UINT64_MAX, VRAM_ERR_CORRUPT},    /* a part that is longer */
    };
    share_device_open(&world);
    uint32_t descriptors = descriptors_open();
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        answer_write(&impostor);
        vr_wire_put(impostor.answer + lies[i].at, lies[i].value, lies[i].bytes);
        assert_int_equal(open_from(&world, &impostor), lies[i].status);
        assert_true(strlen(vram_error_get()->text) > 10);
    }
    for (size_t cut = 0; cut < VR_WIRE_HEADER_BYTES + VR_WIRE_OPENED_BYTES + 8 + 16; cut += 3) {
        answer_write(&impostor);
        impostor.bytes = cut;
        assert_int_equal(open_from(&world, &impostor), VRAM_ERR_STALE);
    }
    answer_write(&impostor);
    impostor.bytes = 20;
    impostor.silent = true;
    assert_int_equal(open_from(&world, &impostor), VRAM_ERR_TIMEOUT);
    assert_int_equal(descriptors_open(), descriptors);
    share_world_close(&world);
}

/* Descriptors of the wrong kind: a pipe, a file that can be cut, one that is too small, too many,
   too few, none. */
TEST(wrong_descriptors_are_refused) {
    static const vram_status expected[] = {VRAM_ERR_INVALID, VRAM_ERR_INVALID, VRAM_ERR_INVALID,
                                           VRAM_ERR_INVALID, VRAM_ERR_STALE,   VRAM_ERR_STALE,
                                           VRAM_ERR_CORRUPT};
    struct share_world world;
    static struct impostor impostor;
    share_device_open(&world);
    uint32_t descriptors = descriptors_open();
    for (int kind = 0; kind < 7; kind++) {
        int good, bad = -1, pipes[2];
        assert_ok(vr_os_shared_create("good", 4096, &good));
        answer_write(&impostor);
        assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
        if (kind == 0) {
            bad = dup(pipes[0]);
        } else if (kind == 1) {
            assert_ok(vr_os_file_create("unsealed", &bad));
            assert_ok(vr_os_file_resize(bad, 2 * MIB));
        } else {
            assert_ok(vr_os_shared_create("small", 4096, &bad));
        }
        impostor.handles = true;
        impostor.descriptors[0] = kind == 3 ? pipes[0] : good;
        impostor.descriptors[1] = impostor.descriptors[2] = bad;
        impostor.count = kind == 4 ? 3 : kind == 5 ? 1 : kind == 6 ? 0 : 2;
        assert_int_equal(open_from(&world, &impostor), expected[kind]);
        close(good);
        close(bad);
        close(pipes[0]);
        close(pipes[1]);
        assert_int_equal(descriptors_open(), descriptors);
    }
    share_world_close(&world);
}

TEST(descriptors_may_be_used_up) {
    struct rlimit limit, low;
    struct share_world world;
    vram_share *share, *opened = NULL;
    vram_share_token token;
    share_world_open(&world, VRAM_POOL_SHAREABLE);
    share_export_one(share_block(&world, MIB, PATTERN), 0, &share, &token);
    assert_ok(vram_share_open(world.device, &token, NULL, &opened));
    assert_ok(vram_share_close(opened));
    share_await_readers(share, 0);
    uint32_t descriptors = descriptors_open();
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    /* From none left to enough: a status, nothing left open, and it works again. */
    for (rlim_t more = 0; more < 16; more++) {
        low = (struct rlimit){descriptors - 3 + more, limit.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
        vram_share_options options = {.size = sizeof options, .timeout_ns = SECOND / 4};
        vram_status status = vram_share_open(world.device, &token, &options, &opened);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        if (status == VRAM_OK) {
            assert_ok(vram_share_close(opened));
        }
        share_await_readers(share, 0);
        share_await_descriptors(descriptors);
    }
    assert_ok(vram_share_open(world.device, &token, NULL, &opened));
    share_world_close(&world);
}

/* ---------------------------------------------------------------------- folders */

/* A user who is named in an export may own the directory. A link that this user puts in place of
   the socket changes the mode of no other file. */
TEST(a_link_in_place_of_the_socket) {
    struct share_world world;
    vram_share *share, *second = NULL;
    vram_share_token token;
    struct vr_share_ticket ticket;
    struct stat about;
    char path[80], secret[64];
    vram_share_options options = {
        .size = sizeof options, .flags = VRAM_SHARE_USER, .user = (uint32_t)geteuid() + 1};
    share_world_open(&world, VRAM_POOL_SHAREABLE);
    vram_addr addr = share_block(&world, MIB, PATTERN);
    assert_ok(vram_share_export(&addr, 1, &options, &share));
    assert_ok(vram_share_token_get(share, &token));
    assert_ok(vr_share_token_read(&token, &ticket));
    snprintf(path, sizeof path, "%s/vram-s-%016llx%08llx", share_dir,
             (unsigned long long)ticket.server[0], (unsigned long long)ticket.server[1]);
    snprintf(secret, sizeof secret, "%s/secret", share_dir);
    close(open(secret, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0666);
    for (int hard = 0; hard < 2; hard++) {
        assert_int_equal(unlink(path), 0);
        assert_int_equal(hard ? link(secret, path) : symlink(secret, path), 0);
        assert_int_equal(vram_share_export(&addr, 1, &options, &second), VRAM_ERR_IO);
        assert_int_equal(stat(secret, &about), 0);
        assert_int_equal(about.st_mode & 0777, 0600);
    }
    assert_null(second);
    assert_ok(vram_share_close(share));
    share_world_close(&world);
}

TEST(folders_that_others_can_write_are_refused) {
    struct share_world world;
    vram_share *share = NULL;
    vram_share_token token;
    char path[64];
    share_world_open(&world, VRAM_POOL_SHAREABLE);
    vram_addr addr = share_block(&world, MIB, PATTERN);
    assert_int_equal(chmod(share_dir, 0777), 0);
    assert_int_equal(vram_share_export(&addr, 1, NULL, &share), VRAM_ERR_IO);
    assert_int_equal(chmod(share_dir, 01777), 0); /* sticky, as /tmp is */
    share_export_one(addr, 0, &share, &token);
    assert_ok(vram_share_close(share));
    assert_int_equal(chmod(share_dir, 0700), 0);
    snprintf(path, sizeof path, "%s/link", share_dir);
    assert_int_equal(symlink(share_dir, path), 0);
    vram_share_options options = {.size = sizeof options, .dir = path};
    assert_int_equal(vram_share_export(&addr, 1, &options, &share), VRAM_ERR_IO);
    unlink(path);
    close(open(path, O_CREAT | O_WRONLY, 0600));
    assert_int_equal(vram_share_export(&addr, 1, &options, &share), VRAM_ERR_IO);
    if (geteuid() == 0) {
        assert_int_equal(chown(share_dir, 65534, 65534), 0);
        assert_int_equal(vram_share_export(&addr, 1, NULL, &share), VRAM_ERR_IO);
        assert_int_equal(chown(share_dir, 0, 0), 0);
    }
    /* The default: a folder of our own below /tmp, or the user's runtime folder. */
    assert_ok(vram_option_set("share_dir", ""));
    unsetenv("XDG_RUNTIME_DIR");
    assert_ok(vram_share_export(&addr, 1, NULL, &share));
    snprintf(path, sizeof path, "/tmp/vram-%u", geteuid());
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0700);
    assert_ok(vram_share_close(share));
    setenv("XDG_RUNTIME_DIR", share_dir, 1);
    assert_ok(vram_share_export(&addr, 1, NULL, &share));
    assert_int_equal(share_folder_entries("vram-s-"), 1);
    unsetenv("XDG_RUNTIME_DIR");
    share_world_close(&world);
}

/* ----------------------------------------------------------------------- faults */

/* A forked child has none of it, and the parent goes on. */
static int forked(void *argument) {
    struct share_world *world = ((void **)argument)[0];
    vram_share *share = ((void **)argument)[1], *other = NULL;
    vram_share_token token;
    if (vram_share_token_get(share, &token) != VRAM_ERR_FORKED ||
        vram_share_close(share) != VRAM_OK) {
        return 1;
    }
    (void)world;
#ifdef __SANITIZE_THREAD__ /* which forbids new threads after such a fork */
    (void)other;
    return 0;
#endif
    struct share_world mine;
    share_world_open(&mine, VRAM_POOL_SHAREABLE);
    share_export_one(share_block(&mine, MIB, PATTERN), 0, &share, &token);
    if (vram_share_open(mine.device, &token, NULL, &other) != VRAM_OK) {
        return 2;
    }
    share_world_close(&mine);
    return 0;
}

TEST(a_forked_child_serves_its_own) {
    struct share_world world;
    vram_share *share, *opened;
    vram_share_token token;
    share_world_open(&world, VRAM_POOL_SHAREABLE);
    share_export_one(share_block(&world, MIB, PATTERN), 0, &share, &token);
    assert_ok(vram_share_open(world.device, &token, NULL, &opened));
    void *arguments[] = {&world, share};
    assert_int_equal(in_child(forked, arguments), 0);
    assert_ok(vram_share_close(opened));
    assert_ok(vram_share_open(world.device, &token, NULL, &opened));
    share_world_close(&world);
}

/* A child that was forked while a share was open, and lives on. */
TEST(a_forked_child_hides_no_close) {
    struct share_world world;
    vram_share *share, *opened;
    vram_share_token token;
    share_world_open(&world, VRAM_POOL_SHAREABLE);
    share_export_one(share_block(&world, MIB, PATTERN), 0, &share, &token);
    assert_ok(vram_share_open(world.device, &token, NULL, &opened));
    share_await_readers(share, 1);
    pid_t child = fork();
    assert_true(child >= 0);
    while (child == 0) {
        pause();
    }
    assert_ok(vram_share_close(opened));
    share_await_readers(share, 0);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    share_world_close(&world);
}

static int begin_file(void) {
    setenv("VRAM_LIVE", "off", 1); /* its thread's system calls fail too, and end its page */
    return 0;
}
WHOLE_FILE(begin_file, NULL)
EACH_TEST(share_folder_make, share_folder_end)
