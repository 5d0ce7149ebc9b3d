/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_calibration.c: rates that were measured once are found again, in the folder that is said;
 * and what lies there instead of them is measured anew: cut off, changed, somebody else's, or no
 * file at all.
 */
#include "compute/calibration_cache.h"
#include "unit/compute_world.h"
#include "unit/fault_step.h"
#include "vram/transfer.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[200];

static int begin(void) {
    const char *temporary = getenv("TMPDIR");
    int failed = start();
    (void)snprintf(folder, sizeof folder, "%.170s/vram_cache_XXXXXX",
                   temporary && *temporary ? temporary : "/tmp");
    assert_non_null(mkdtemp(folder));
    assert_ok(vram_option_set("blas_library", "none"));
    assert_ok(vram_option_set("calibration_cache", folder));
    return failed;
}

/* How many entries there are; the last one's path. */
static int entries(const char *in, char path[512]) {
    DIR *listed = opendir(in);
    int count = 0;
    for (struct dirent *entry; listed && (entry = readdir(listed));) {
        if (entry->d_name[0] != '.') {
            (void)snprintf(path, 512, "%.240s/%.255s", in, entry->d_name);
            count++;
        }
    }
    if (listed) {
        closedir(listed);
    }
    return count;
}

static int end(void) {
    char path[512];
    (void)chmod(folder, 0700);
    while (entries(folder, path)) {
        if (unlink(path) != 0 && rmdir(path) != 0) {
            return -1;
        }
    }
    return rmdir(folder) != 0 || nothing_left();
}

/* Of a new scheduler on the host. */
static vram_calibration calibrated(void) {
    vram_calibration rates = {.size = sizeof rates};
    struct rig rig = rig_make("host", NULL);
    vram_scheduler *scheduler = scheduler_of(pool_of(&rig, 0), VRAM_PLACE_AUTO);
    vram_error_clear();
    assert_ok(vram_scheduler_calibrate(scheduler, &rates));
    expect_no_record();
    assert_true(stats_of_scheduler(scheduler).calibrated);
    vram_context_destroy(rig.context);
    assert_true(rates.cpu_rate >= 1 && rates.device_rate >= 1 && rates.upload_rate >= 1);
    assert_true(rates.download_rate >= 1 && rates.device_seconds > 0);
    return rates;
}

static bool equal(const vram_calibration *a, const vram_calibration *b) {
    return memcmp(a, b, sizeof *a) == 0;
}

static size_t read_all(const char *path, char text[4096]) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t bytes = fread(text, 1, 4096, file);
    fclose(file);
    return bytes;
}

static void write_all(const char *path, const char *text, size_t bytes) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static int begin_file(void);

static int end(void);

TEST(measured_once) {
    char path[512], text[4096];
    vram_calibration first = calibrated(), second = calibrated();
    assert_true(equal(&first, &second)); /* two measurements are never the same */
    assert_int_equal(entries(folder, path), 1);
    size_t bytes = read_all(path, text);
    assert_memory_equal(text, "vram calibration 2\nversion ", 27);
    assert_true(bytes < 2000);

    /* What rates depend on is in the key: another setting has a file of its own. */
    struct rig rig = rig_make("host", NULL);
    vram_scheduler_options options = {.size = sizeof options, .cpu_threads = 1};
    vram_scheduler *scheduler;
    assert_ok(vram_scheduler_create(pool_of(&rig, 0), &options, &scheduler));
    assert_ok(vram_scheduler_calibrate(scheduler, NULL));
    vram_context_destroy(rig.context);
    assert_int_equal(entries(folder, path), 2);
}

static uint64_t copied(vram_device *device, vram_transfer_direction direction) {
    vram_transfer_stats stats = {.size = sizeof stats};
    assert_ok(vram_transfer_stats_get(device, direction, VRAM_ROUTE_ANY, &stats));
    return stats.bytes;
}

/* The rates are those of the copies that products make, which know more ways than one, and all that
   these depend on is in the key. */
TEST(measured_as_it_is_copied) {
    char path[512];
    struct rig rig = rig_make("host", NULL);
    assert_ok(vram_scheduler_calibrate(scheduler_of(pool_of(&rig, 0), VRAM_PLACE_AUTO), NULL));
    assert_true(copied(rig.device, VRAM_TRANSFER_TO_DEVICE) >= 7 * (UINT64_C(8) << 20));
    assert_true(copied(rig.device, VRAM_TRANSFER_TO_HOST) >= 7 * (UINT64_C(8) << 20));
    vram_context_destroy(rig.context);
    assert_int_equal(entries(folder, path), 1);
    assert_ok(vram_option_set("staging_slots", "3"));
    (void)calibrated();
    assert_ok(vram_option_set("staging_slots", NULL));
    assert_int_equal(entries(folder, path), 2);
}

TEST(nowhere) {
    char path[512];
    assert_ok(vram_option_set("calibration_cache", "off"));
    vram_calibration first = calibrated(), second = calibrated();
    assert_false(equal(&first, &second));
    assert_int_equal(entries(folder, path), 0);
    assert_ok(vram_option_set("calibration_cache", "/proc/nowhere/at/all"));
    (void)calibrated(); /* cannot be kept: nobody's error */
}

/* The folders of the environment, made when they are missing. */
TEST_IN(begin_file, end, in_the_users_cache) {
    char path[512], place[220], made[240];
    assert_ok(vram_option_set("calibration_cache", NULL));
    (void)snprintf(place, sizeof place, "%s/x", folder);
    assert_int_equal(setenv("XDG_CACHE_HOME", place, 1), 0);
    vram_calibration first = calibrated(), second = calibrated();
    assert_true(equal(&first, &second));
    (void)snprintf(made, sizeof made, "%s/vram", place);
    assert_int_equal(entries(made, path), 1);
    assert_int_equal(unlink(path) | rmdir(made) | rmdir(place), 0);

    assert_int_equal(setenv("XDG_CACHE_HOME", "relative", 1), 0); /* is to be ignored */
    assert_int_equal(setenv("HOME", folder, 1), 0);
    (void)calibrated();
    (void)snprintf(made, sizeof made, "%s/.cache/vram", folder);
    assert_int_equal(entries(made, path), 1);
    assert_int_equal(unlink(path) | rmdir(made), 0);
    (void)snprintf(made, sizeof made, "%s/.cache", folder);
    assert_int_equal(rmdir(made), 0);
    assert_int_equal(unsetenv("XDG_CACHE_HOME") | unsetenv("HOME"), 0);
    (void)calibrated(); /* nowhere to keep it */
    assert_int_equal(entries(folder, path), 0);
}

/* Every byte of a file changed, added or gone: it does not count. */
TEST_IN(begin_file, end, every_change_is_seen) {
    char path[512], text[4096], changed[4096 + 1];
    struct vram_calibration rates = {.size = 7}, untouched = rates;
    vram_calibration first = calibrated();
    assert_int_equal(entries(folder, path), 1);
    size_t bytes = read_all(path, text);
    const char *numbers = strstr(text, "\ncpu_rate ");
    assert_non_null(numbers);
    static const char heading[] = "vram calibration 2\n";
    char key[4096];
    size_t head = sizeof heading - 1, length = (size_t)(numbers + 1 - text) - head;
    memcpy(key, text + head, length);
    key[length] = 0;
    for (size_t at = 0; at < bytes; at++) {
        for (int bit = 0; bit < 8; bit++) {
            memcpy(changed, text, bytes);
            changed[at] = (char)(changed[at] ^ 1 << bit);
            assert_false(vr_calibration_parse(key, changed, bytes, &rates));
        }
        assert_false(vr_calibration_parse(key, text, at, &rates));
        memcpy(changed, text, at);
        changed[at] = '0';
        memcpy(changed + at + 1, text + at, bytes - at);
        assert_false(vr_calibration_parse(key, changed, bytes + 1, &rates));
    }
    assert_false(vr_calibration_parse("another key\n", text, bytes, &rates));
    assert_memory_equal(&rates, &untouched, sizeof rates);
    assert_true(vr_calibration_parse(key, text, bytes, &rates));
    assert_true(equal(&rates, &first));
}

/* Whatever lies in the file's place, it is measured and, where that can be, replaced. */
TEST_IN(begin_file, end, hostile_files) {
    char path[512], text[4096];
    static char much[100000];
    vram_calibration first = calibrated();
    assert_int_equal(entries(folder, path), 1);
    size_t bytes = read_all(path, text);
    for (int kind = 0; kind < 6; kind++) {
        assert_int_equal(unlink(path), 0);
        if (kind == 0) {
            write_all(path, text, bytes / 2);
        } else if (kind == 1) {
            write_all(path, much, sizeof much);
        } else if (kind == 2) {
            assert_int_equal(mkfifo(path, 0600), 0); /* nobody waits for it */
        } else if (kind == 3) {
            assert_int_equal(symlink("/dev/zero", path), 0);
        } else if (kind == 4) {
            write_all(path, "", 0);
        } else {
            write_all(path, text, bytes);
            assert_int_equal(chmod(path, 0), 0);
        }
        vram_calibration again = calibrated(), after = calibrated();
        assert_true(kind == 5 || !equal(&again, &first)); /* root reads what it may not */
        assert_true(equal(&again, &after));
    }
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0); /* stays, and does no harm */
    (void)calibrated();
    (void)calibrated();
    assert_int_equal(entries(folder, path), 1);
}

static const vram_calibration some = {.size = sizeof some,
                                      .cpu_rate = 1e9,
                                      .device_rate = 2e9,
                                      .upload_rate = 3e9,
                                      .download_rate = 4e9,
                                      .device_seconds = 5e-6};

static struct vr_calibration_place some_place(void) {
    struct vr_calibration_place place = {.key = "some key\n"};
    (void)snprintf(place.path, sizeof place.path, "%s/calibration-x", folder);
    return place;
}

/* The n-th call of the system fails: the file is there whole, or not, and nothing beside it. */
TEST_IN(begin_file, end, every_call_may_fail) {
    struct vr_calibration_place place = some_place();
    vram_calibration found;
    char path[512];
    bool struck = true;
    for (uint64_t nth = 1; struck; nth++) {
        assert_true(nth < 50);
        (void)unlink(place.path);
        vr_os_fail_at(nth, false, 28); /* no space */
        vr_calibration_keep(&place, &some);
        bool read = vr_calibration_read(&place, &found);
        struck = vr_os_failed() > 0;
        vr_os_fail_at(0, false, 0);
        expect_no_record();
        assert_true(!read || found.cpu_rate == 1e9);
        assert_true(struck || read);
        int count = entries(folder, path);
        assert_true(count == 0 || (count == 1 && strcmp(path, place.path) == 0));
    }
    memset(place.path, 'x', sizeof place.path - 1); /* longer than paths are */
    place.path[0] = '/';
    vr_calibration_keep(&place, &some);
    assert_false(vr_calibration_read(&place, &found));
    expect_no_record();
}

/* Of the file that is written beside it before it has its name. */
static const char *beside(const struct vr_calibration_place *place) {
    static char path[800];
    (void)snprintf(path, sizeof path, "%s.new", place->path);
    return path;
}

static void expect_kept(const struct vr_calibration_place *place) {
    char path[512];
    vram_calibration found;
    (void)unlink(place->path);
    vr_calibration_keep(place, &some);
    assert_true(vr_calibration_read(place, &found));
    assert_int_equal(entries(folder, path), 1); /* and nothing beside it */
    expect_no_record();
}

/* Under a limit on the size of files nothing is stored, no signal ends the process, and no file is
   left. */
TEST_IN(begin_file, end, a_limit_of_files) {
    struct vr_calibration_place place = some_place();
    const struct rlimit little = {10, 10};
    char path[512];
    int how;
    pid_t child = fork();
    if (child == 0) {
        (void)setrlimit(RLIMIT_FSIZE, &little);
        (void)signal(SIGXFSZ, SIG_DFL);
        vr_calibration_keep(&place, &some);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    assert_int_equal(entries(folder, path), 0);
    expect_kept(&place);
}

/* A process ended while it wrote: the next one still stores its rates, and no temporary file is
   left. */
TEST_IN(begin_file, end, ended_in_the_middle) {
    struct vr_calibration_place place = some_place();
    char path[512];
    vr_calibration_keep(&place, &some);
    assert_int_equal(rename(place.path, beside(&place)), 0);
    assert_int_equal(truncate(beside(&place), 10), 0);
    assert_int_equal(entries(folder, path), 1);
    expect_kept(&place);
}

/* Whatever lies in the way of the file that is written first. */
TEST_IN(begin_file, end, in_the_way) {
    struct vr_calibration_place place = some_place();
    static char much[100000];
    char text[4096], other[128];
    (void)snprintf(other, sizeof other, "%.64s-other", folder);
    write_all(other, "precious", 8);
    write_all(beside(&place), much, sizeof much);
    expect_kept(&place);
    assert_int_equal(mkfifo(beside(&place), 0600), 0); /* nobody waits for it */
    expect_kept(&place);
    assert_int_equal(symlink(other, beside(&place)), 0);
    expect_kept(&place);
    assert_int_equal(link(other, beside(&place)), 0);
    expect_kept(&place);
    write_all(beside(&place), "", 0);
    assert_int_equal(chmod(beside(&place), 0), 0);
    expect_kept(&place);
    assert_int_equal(read_all(other, text), 8);
    assert_memory_equal(text, "precious", 8);
    assert_int_equal(unlink(other), 0);
    assert_int_equal(mkdir(beside(&place), 0700), 0); /* stays, and does no harm */
    vr_calibration_keep(&place, &some);
    expect_no_record();
}

/* Another is writing it: nobody waits, and what it writes is left alone. */
TEST(another_is_at_it) {
    struct vr_calibration_place place = some_place();
    vram_calibration found, rates = some;
    char text[4096];
    vr_calibration_keep(&place, &some);
    int fd = open(beside(&place), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    assert_int_equal(write(fd, "half", 4), 4);
    rates.cpu_rate = 7e9;
    vr_calibration_keep(&place, &rates);
    expect_no_record();
    assert_int_equal(read_all(beside(&place), text), 4);
    assert_true(vr_calibration_read(&place, &found) && found.cpu_rate == 1e9);
    assert_int_equal(close(fd), 0);
    expect_kept(&place);
}

/* One thread's work on files: ThreadSanitizer has it in make test-long. */
static int begin_file(void) {
    if (race_rounds(2) != 2) {
        skip();
    }
    return begin();
}
EACH_TEST(begin, end)
