/* SPDX-License-Identifier: Apache-2.0 */
/* How a lease begins: what there is to share out, and who starts the broker. */
#include "lease_world.h"

/* Without a capacity the device's own figure is shared out: what is free, and what is held. */
TEST(capacity_of_the_device) {
    struct holder first, second;
    vram_lease_options options = lease_options("first", 0, 1024 * UNIT);
    options.capacity_bytes = 0;
    holder_device(&first);
    holder_fill(&first, 200 * UNIT, 1);
    assert_ok(vram_lease_open(first.device, &options, &first.lease));
    assert_int_equal(holder_granted(&first), 1024 * UNIT);
    options.name = "second";
    holder_open(&second, &options);
    assert_int_equal(holder_granted(&second), 0); /* nothing is left */
    holder_close(&second);
    holder_close(&first);
}

/* A driver that does not tell what is free: the device's size is shared out, and a request says
   nothing of what is free. */
TEST(drivers_that_do_not_tell) {
    struct holder first, second;
    vram_lease_options options = lease_options("first", 0, 1024 * UNIT);
    options.capacity_bytes = 0;
    lease_sim = "memory=64M,granule=64K,real=on,info=off";
    holder_open(&first, &options);
    assert_int_equal(holder_granted(&first), 1024 * UNIT);
    options.name = "second";
    holder_open(&second, &options);
    lease_sim = LEASE_SIM;
    assert_int_equal(holder_granted(&second), 0);
    holder_fill(&first, 300 * UNIT, 1);
    holder_fill(&second, 700 * UNIT, 2); /* what the first does not use */
    assert_int_equal(holder_granted(&first) + holder_granted(&second), 1024 * UNIT);
    holder_expect(&first, 300 * UNIT, 1);
    holder_close(&second);
    holder_close(&first);
}

/* Leases in two folders have a broker each, though one process hosts both. */
TEST(folders_are_apart) {
    struct holder first, second;
    vram_lease_options options = lease_options("first", 0, 1024 * UNIT);
    char other[] = "/tmp/vram-test-XXXXXX", path[64];
    vram_lease_entry entry;
    uint32_t count = 1;
    assert_non_null(mkdtemp(other));
    holder_open(&first, &options);
    options.name = "second";
    options.dir = other;
    holder_open(&second, &options);
    assert_int_equal(holder_granted(&second), 1024 * UNIT); /* the first has as much */
    assert_ok(vram_lease_list(other, &entry, &count, NULL, NULL));
    assert_int_equal(count, 1);
    assert_string_equal(entry.name, "second");
    holder_close(&second); /* ends the second broker alone */
    assert_int_equal(vram_lease_list(other, &entry, &count, NULL, NULL), VRAM_ERR_STALE);
    assert_ok(vram_lease_list(lease_dir, &entry, &count, NULL, NULL));
    assert_string_equal(entry.name, "first");
    holder_close(&first);
    strcpy(path, lease_dir);
    strcpy(lease_dir, other);
    lease_folder_remove();
    strcpy(lease_dir, path);
}

/* A command that does not start a broker, or does not exist, costs half of the time limit. */
TEST(broker_command_fails) {
    static const char *const commands[] = {"/bin/true", "/bin/false", "/nowhere/vram"};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        struct holder holder;
        vram_lease_options options = lease_options("first", 0, 700 * UNIT);
        assert_ok(vram_option_set("broker", commands[i]));
        options.timeout_ns = SECOND / 2;
        uint64_t begin = lease_now();
        holder_open(&holder, &options);
        assert_true(lease_now() - begin < 20 * SECOND);
        assert_int_equal(lease_info(holder.lease).broker, getpid()); /* a thread of ours */
        assert_int_equal(holder_granted(&holder), 700 * UNIT);
        holder_close(&holder);
    }
}

static void *alloc_again(void *argument) {
    struct holder *holder = argument;
    vram_addr addr;
    assert_int_equal(vram_alloc(holder->pool, 500 * UNIT, holder->queue, &addr), VRAM_ERR_LIMIT);
    return NULL;
}

/* Two threads ask: the second waits for its turn, and neither longer than the time limit allows. */
TEST(two_threads_ask) {
    struct holder first, second;
    vram_lease_options options = lease_options("first", 600 * UNIT, 800 * UNIT);
    pthread_t threads[2];
    holder_open(&first, &options);
    holder_fill(&first, 700 * UNIT, 1);
    options = lease_options("second", 0, 1024 * UNIT);
    options.timeout_ns = SECOND / 5;
    holder_open(&second, &options);
    uint64_t begin = lease_now();
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, alloc_again, &second), 0);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_true(lease_now() - begin < 20 * SECOND);
    holder_close(&second);
    holder_close(&first);
}

EACH_TEST(lease_folder_make, lease_folder_remove)
