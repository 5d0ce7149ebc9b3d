/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_share_edges.c: exporting, publishing, listing and opening while every system call, every
 * allocation and every call of the driver fails in its turn; peers of other users; planted files.
 * The exporter and the reader are two contexts of one process.
 */
#include "share_world.h"

#include "base/error.h"
#include "base/handle.h"
#include "base/memory.h"
#include "fault_step.h"
#include "nothing_left.h"
#include "share/share_wire.h"
#include "system_call.h"
#include "vram/sim.h"

#include <sys/socket.h>
#include <sys/un.h>

static struct share_world owner, reader;
static vram_addr block;
static vram_share_options general; /* of all calls below */
static uint32_t descriptors;
static uint64_t blocks_before;

static void worlds_open(void) {
    share_world_open(&owner, VRAM_POOL_SHAREABLE);
    share_device_open(&reader);
    block = share_block(&owner, MIB, 7);
    general = (vram_share_options){.size = sizeof general};
}

static void worlds_close(void) {
    share_world_close(&reader);
    share_world_close(&owner);
}

/* A whole life of a share, each step of which may fail. */
static void share_lives(void) {
    vram_share *share = NULL, *opened = NULL, *named = NULL;
    vram_share_token token;
    vram_share_name names[2];
    uint32_t count = 2;
    uint64_t value;
    general.timeout_ns = UINT64_C(50000000);
    if (vram_share_export(&block, 1, &general, &share) != VRAM_OK) {
        return;
    }
    (void)vram_share_publish(share, "weights", NULL);
    (void)vram_share_list(&general, names, &count);
    if (vram_share_token_get(share, &token) == VRAM_OK) {
        (void)vram_share_open(reader.device, &token, &general, &opened);
    }
    (void)vram_share_mark(share, owner.queue, &value);
    (void)vram_share_open_name(reader.device, "weights", &general, &named);
    if (opened) {
        (void)vram_share_wait(opened, value, UINT64_C(1000000));
    }
    (void)vram_share_close(named);
    (void)vram_share_close(opened);
    (void)vram_share_close(share);
}

/* The server's thread may still be ending. */
static void nothing_is_left(void) {
    for (int i = 0; i < 3000; i++) {
        if (vr_mem_live_blocks() <= blocks_before && descriptors_open() <= descriptors) {
            vr_error_clear();
            return;
        }
        usleep(1000);
    }
    fail_msg("%d blocks and %d descriptors are left; %s failed with %d",
             (int)(vr_mem_live_blocks() - blocks_before), (int)(descriptors_open() - descriptors),
             system_call.failed, system_call.error);
}

static void count_what_is_there(void) {
    share_lives(); /* what the process keeps is there afterwards */
    usleep(20000);
    blocks_before = vr_mem_live_blocks();
    descriptors = descriptors_open();
}

/* --------------------------------------------------------------------- faults */

static void every_system_call_fails(void **state) {
    static const int errors[] = {EIO, 0}, others[] = {EINTR, EMFILE, EACCES, 0};
    static const int short_of[] = {EMFILE, 0};
    (void)state;
    worlds_open();
    general.flags = VRAM_SHARE_USER | VRAM_SHARE_READ_ONLY;
    general.user = (uint32_t)geteuid() + 1;
    count_what_is_there();
    system_call_each(share_lives, nothing_is_left, errors, FAULT_STEP);
    general.flags = 0;
    system_call_each(share_lives, nothing_is_left, others, 2);
    worlds_close();
    share_backend = "sim"; /* keeps descriptors, which it gives up when there are no others */
    worlds_open();
    count_what_is_there();
    blocks_before = UINT64_MAX; /* its journal grows */
    system_call_each(share_lives, nothing_is_left, short_of, FAULT_STEP);
    worlds_close();
    share_backend = "host";
}

static void allocations_fail(void) {
    for (uint64_t nth = 1, failed = 1; failed; nth += FAULT_STEP) {
        vr_mem_fail_at(nth, false);
        share_lives();
        failed = vr_mem_failed();
        vr_mem_fail_at(0, false);
        nothing_is_left();
    }
}

/* With a server that is made for the share, and with one that serves others already, in this folder
   and in another one. */
static void every_allocation_fails(void **state) {
    vram_share *share[2];
    char folder[60], path[100];
    vram_share_options elsewhere = {.size = sizeof elsewhere, .dir = folder};
    (void)state;
    snprintf(folder, sizeof folder, "%s/inner", share_dir);
    assert_int_equal(mkdir(folder, 0700), 0);
    worlds_open();
    count_what_is_there();
    allocations_fail();
    assert_ok(vram_share_export(&block, 1, &elsewhere, &share[0]));
    assert_ok(vram_share_export(&block, 1, NULL, &share[1]));
    count_what_is_there();
    allocations_fail();
    assert_ok(vram_share_close(share[1]));
    assert_ok(vram_share_close(share[0]));
    worlds_close();
    snprintf(path, sizeof path, "%s/vram-%u.lock", folder, (unsigned)geteuid());
    (void)unlink(path);
    assert_int_equal(rmdir(folder), 0);
}

/* Memory may run out on either side: the reader is told so, and not left to find out. */
static void exhaustion_is_told(void **state) {
    vram_share *share, *opened;
    vram_share_token token;
    (void)state;
    worlds_open();
    share_export_one(block, 0, &share, &token);
    for (uint64_t nth = 1, failed = 1; failed; nth++) {
        opened = NULL;
        vr_mem_fail_at(nth, false);
        vram_status status = vram_share_open(reader.device, &token, NULL, &opened);
        failed = vr_mem_failed();
        vr_mem_fail_at(0, false);
        assert_true(status == VRAM_OK || (failed && status == VRAM_ERR_HOST_MEMORY));
        assert_ok(vram_share_close(opened));
        assert_true(nth < 200);
    }
    assert_ok(vram_share_close(share));
    worlds_close();
}

/* Once, and for ever: what a driver does not release is counted as lost, and nothing else is. */
static void every_driver_call_fails(void **state) {
    static const vram_sim_call calls[] = {VRAM_SIM_EXPORT,  VRAM_SIM_IMPORT,   VRAM_SIM_RESERVE,
                                          VRAM_SIM_MAP,     VRAM_SIM_UNMAP,    VRAM_SIM_ACCESS,
                                          VRAM_SIM_RELEASE, VRAM_SIM_UNRESERVE};
    (void)state;
    share_backend = "sim";
    for (int for_ever = 0; for_ever < 2; for_ever++) {
        worlds_open();
        for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
            vram_sim_fault fault = {.size = sizeof fault,
                                    .call = calls[i],
                                    .nth = 1,
                                    .for_ever = for_ever,
                                    .code = VRAM_SIM_INVALID_VALUE};
            assert_ok(vram_sim_fault_set(reader.context, &fault));
            assert_ok(
                vram_sim_fault_set(owner.context, calls[i] == VRAM_SIM_EXPORT ? &fault : NULL));
            share_lives();
            assert_ok(vram_sim_fault_set(reader.context, NULL));
            assert_ok(vram_sim_fault_set(owner.context, NULL));
        }
        vram_sim_fault lie = {.size = sizeof lie,
                              .call = VRAM_SIM_RESERVE,
                              .nth = 1,
                              .for_ever = true,
                              .lie = for_ever ? VRAM_SIM_LIE_NULL : VRAM_SIM_LIE_MISALIGNED};
        assert_ok(vram_sim_fault_set(reader.context, &lie));
        share_lives();
        assert_ok(vram_sim_fault_set(reader.context, NULL));
        worlds_close();
    }
    share_backend = "host";
}

/* No handle is left for a share: neither side keeps a trace. */
static void no_handles_are_left(void **state) {
    vram_share *share = NULL, *opened = NULL;
    vram_share_token token;
    (void)state;
    worlds_open();
    vr_handle_limits_set(0, 1);
    assert_int_equal(vram_share_export(&block, 1, NULL, &share), VRAM_ERR_LIMIT);
    vr_handle_limits_set(0, 0);
    share_export_one(block, 0, &share, &token);
    vr_handle_limits_set(0, 1);
    assert_int_equal(vram_share_open(reader.device, &token, NULL, &opened), VRAM_ERR_LIMIT);
    vr_handle_limits_set(0, 0);
    assert_null(opened);
    assert_ok(vram_share_close(share));
    worlds_close();
}

/* ---------------------------------------------------------------------- peers */

static void seems_of_another_user(void *credentials) {
    ((struct ucred *)credentials)->uid++;
}

/* Both sides have to name the other's user. */
static void peers_of_another_user(void **state) {
    vram_share *share, *opened = NULL;
    vram_share_token token;
    vram_share_options named = {
        .size = sizeof named, .flags = VRAM_SHARE_USER, .user = (uint32_t)geteuid() + 1};
    (void)state;
    worlds_open();
    share_export_one(block, 0, &share, &token);
    system_call.peer = seems_of_another_user;
    vram_status nobody = vram_share_open(reader.device, &token, NULL, &opened);
    vram_status one_side = vram_share_open(reader.device, &token, &named, &opened);
    system_call.peer = NULL;
    assert_int_equal(nobody, VRAM_ERR_BUSY);
    assert_int_equal(one_side, VRAM_ERR_BUSY);
    assert_ok(vram_share_close(share));
    assert_ok(vram_share_export(&block, 1, &named, &share));
    assert_ok(vram_share_token_get(share, &token));
    named.user++;
    system_call.peer = seems_of_another_user;
    vram_status other = vram_share_open(reader.device, &token, &named, &opened);
    named.user--;
    vram_status both = vram_share_open(reader.device, &token, &named, &opened);
    system_call.peer = NULL;
    assert_int_equal(other, VRAM_ERR_BUSY);
    assert_ok(both);
    assert_ok(vram_share_close(opened));
    assert_ok(vram_share_close(share));
    worlds_close();
}

/* Once an export names a user, anybody can connect. Who may open nothing is refused at once, before
   asking, and so cannot take the places of others. */
static void users_without_an_export_are_not_kept(void **state) {
    vram_share *share;
    vram_share_token token;
    struct vr_share_ticket ticket;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    uint8_t refusal[VR_WIRE_HEADER_BYTES];
    vram_share_options named = {
        .size = sizeof named, .flags = VRAM_SHARE_USER, .user = (uint32_t)geteuid() + 2};
    (void)state;
    worlds_open();
    assert_ok(vram_share_export(&block, 1, &named, &share));
    assert_ok(vram_share_token_get(share, &token));
    assert_ok(vr_share_token_read(&token, &ticket));
    snprintf(address.sun_path, sizeof address.sun_path, "%s/vram-s-%016llx%08llx", share_dir,
             (unsigned long long)ticket.server[0], (unsigned long long)ticket.server[1]);
    system_call.peer = seems_of_another_user;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int connected = connect(fd, (struct sockaddr *)&address, sizeof address);
    ssize_t got = read(fd, refusal, sizeof refusal); /* nothing if it is only dropped, later */
    system_call.peer = NULL;
    close(fd);
    assert_int_equal(connected, 0);
    assert_int_equal(got, sizeof refusal);
    assert_int_equal(refusal[5], VR_WIRE_REFUSED);
    assert_ok(vram_share_close(share));
    worlds_close();
}

/* ---------------------------------------------------------------------- names */

static void file_plant(const char *name, const char *text) {
    char path[300];
    snprintf(path, sizeof path, "%s/%s", share_dir, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static bool file_is_there(const char *name) {
    char path[300];
    snprintf(path, sizeof path, "%s/%s", share_dir, name);
    return access(path, F_OK) == 0;
}

static void note_openings(void *user, vram_log_level level, const char *text) {
    (void)level;
    if (strstr(text, "are shared with process")) {
        atomic_fetch_add((atomic_uint *)user, 1);
    }
}

/* The exporter logs who got the memory, and a name goes with its share. */
static void traces_of_a_share(void **state) {
    static atomic_uint openings;
    vram_share *share, *opened;
    vram_share_token token;
    (void)state;
    worlds_open();
    share_export_one(block, 0, &share, &token);
    atomic_store(&openings, 0);
    vram_log_set(note_openings, &openings, VRAM_LOG_INFO);
    assert_ok(vram_share_open(reader.device, &token, NULL, &opened));
    for (int i = 0; i < 10000 && !atomic_load(&openings); i++) {
        usleep(1000); /* the answer comes first */
    }
    vram_log_set(NULL, NULL, VRAM_LOG_OFF);
    assert_int_equal(atomic_load(&openings), 1);
    assert_ok(vram_share_close(opened));
    assert_ok(vram_share_publish(share, "x", NULL));
    assert_true(file_is_there("vram-n-x"));
    assert_ok(vram_share_close(share));
    assert_false(file_is_there("vram-n-x"));
    worlds_close();
}

static void names_of_all_kinds(void **state) {
    static const char *const good[] = {"azAZ09-_", "a@[`{:/~", "x.y"};
    vram_share *shares[3], *opened = NULL;
    vram_share_token token;
    vram_share_name names[4];
    char text[600], hex[2 * VRAM_SHARE_TOKEN_BYTES + 1];
    uint32_t count = 4;
    vram_share_options wrong = {.size = 3}, nowhere = {.size = sizeof nowhere, .dir = "/proc/none"};
    (void)state;
    worlds_open();
    for (int i = 0; i < 3; i++) {
        share_export_one(block, 0, &shares[i], &token);
        assert_ok(vram_share_publish(shares[i], good[i], NULL));
    }
    assert_true(file_is_there("vram-n-azAZ09-_"));
    assert_true(file_is_there("vram-n-a%40%5B%60%7B%3A%2F%7E"));
    assert_int_equal(vram_share_publish(shares[0], "\x7f", NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_share_publish(shares[0], "another", NULL), VRAM_ERR_BUSY);
    assert_ok(vram_share_publish(shares[0], good[0], NULL)); /* once more */
    share_hex(&token, hex);
    file_plant("vram-n-1", "vram-name 1\nx\n");
    file_plant("vram-n-2", "vram-name 1\n:\n");
    file_plant("vram-n-6", "vram-name 1\n!\n");
    snprintf(text, sizeof text, "vram-name 1\n1\n%s\n\n", hex);
    file_plant("vram-n-3", text); /* without a name */
    snprintf(text, sizeof text, "vram-name 1\n1\n%s\n%0150d\n", hex, 7);
    file_plant("vram-n-4", text); /* with too long a one */
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = 0;
    file_plant("vram-n-5", text);
    file_plant("other", "file");
    assert_ok(vram_share_list(NULL, names, &count));
    assert_int_equal(count, 3);
    count = 1;
    assert_int_equal(vram_share_list(NULL, NULL, &count), VRAM_ERR_INVALID);
    assert_int_equal(vram_share_list(&wrong, names, &count), VRAM_ERR_INVALID);
    assert_int_equal(vram_share_list(&nowhere, names, &count), VRAM_ERR_IO);
    assert_int_equal(vram_share_open_name(reader.device, "x.y", &wrong, &opened), VRAM_ERR_INVALID);
    assert_int_equal(vram_share_open_name(reader.device, "x.y", &nowhere, &opened), VRAM_ERR_IO);
    assert_int_equal(vram_share_open(reader.device, &token, &wrong, &opened), VRAM_ERR_INVALID);
    assert_int_equal(vram_share_export(&block, 1, &nowhere, &opened), VRAM_ERR_IO);
    for (int i = 0; i < 3; i++) {
        assert_ok(vram_share_open_name(reader.device, good[i], NULL, &opened));
        assert_ok(vram_share_close(opened));
    }
    file_plant("vram-n-x.y", "somebody else's"); /* stays: the share is not named by it */
    for (int i = 0; i < 3; i++) {
        assert_ok(vram_share_close(shares[i]));
    }
    worlds_close();
}

static int edges_end(void **state) {
    share_folder_remove();
    for (int i = 0; i < 2000 && (vr_mem_live_bytes() || vr_handle_live(0)); i++) {
        usleep(1000);
    }
    return nothing_left(state);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, share_folder_make, edges_end)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(no_handles_are_left), /* before a slot of a share is free */
        TEST(every_system_call_fails), TEST(every_allocation_fails),
        TEST(exhaustion_is_told),      TEST(every_driver_call_fails),
        TEST(peers_of_another_user),   TEST(users_without_an_export_are_not_kept),
        TEST(names_of_all_kinds),      TEST(traces_of_a_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
