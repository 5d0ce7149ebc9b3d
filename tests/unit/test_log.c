/* SPDX-License-Identifier: Apache-2.0 */
/* Messages: who hears them, at which level, from which thread, and what silence costs. */
#include "base/log.h"

#include "base/atomic.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/option.h"
#include "rig/rig.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct heard {
    unsigned count;
    vram_log_level level;
    char text[1024];
    unsigned locks;
};

static void hear(void *user, vram_log_level level, const char *text) {
    struct heard *heard = user;
    heard->count++;
    heard->level = level;
    heard->locks += vr_locks_held();
    snprintf(heard->text, sizeof heard->text, "%s", text);
}

static int clean(void) {
    unsetenv("VRAM_LOG");
    unsetenv("VRAM_CONF");
    vram_log_set(NULL, NULL, VRAM_LOG_OFF);
    vr_option_reset();
    vram_error_clear();
    return 0;
}

/* --------------------------------------------------------- what stderr receives */

static int saved_stderr = -1;
static FILE *caught;

static void catch_stderr(void) {
    fflush(stderr);
    caught = tmpfile();
    assert_non_null(caught);
    saved_stderr = dup(STDERR_FILENO);
    assert_true(saved_stderr >= 0);
    assert_true(dup2(fileno(caught), STDERR_FILENO) >= 0);
}

/* Ends the catching and gives what was written since. */
static const char *caught_text(void) {
    static char text[4096];
    fflush(stderr);
    dup2(saved_stderr, STDERR_FILENO);
    close(saved_stderr);
    rewind(caught);
    size_t bytes = fread(text, 1, sizeof text - 1, caught);
    text[bytes] = '\0';
    fclose(caught);
    return text;
}

static void say_all(void) {
    vr_log(VRAM_LOG_ERROR, "one %d", 1);
    vr_log(VRAM_LOG_WARN, "two %d", 2);
    vr_log(VRAM_LOG_INFO, "three %d", 3);
    vr_log(VRAM_LOG_DEBUG, "four %d", 4);
}

TEST(environment_asks_for_stderr) {
    setenv("VRAM_LOG", "warn", 1);
    vr_option_reset();
    assert_true(vr_log_enabled(VRAM_LOG_WARN));
    assert_false(vr_log_enabled(VRAM_LOG_INFO));
    catch_stderr();
    say_all();
    assert_string_equal(caught_text(), "vram: error: one 1\nvram: warn: two 2\n");
    unsetenv("VRAM_LOG");
    setenv("VRAM_CONF", "log=debug", 1);
    vr_option_reset();
    catch_stderr();
    say_all();
    assert_string_equal(caught_text(),
                        "vram: error: one 1\nvram: warn: two 2\nvram: info: three 3\n"
                        "vram: debug: four 4\n");
    setenv("VRAM_CONF", "log=everything", 1);
    vr_option_reset();
    catch_stderr();
    say_all();
    assert_string_equal(caught_text(), "");
}

TEST(option_takes_effect_at_once) {
    catch_stderr();
    assert_int_equal(vram_option_set("log", "error"), VRAM_OK);
    say_all();
    assert_int_equal(vram_option_set("log", "off"), VRAM_OK);
    say_all();
    assert_int_equal(vram_option_set("log", "error"), VRAM_OK);
    assert_int_equal(vram_option_set("log", NULL), VRAM_OK);
    say_all();
    assert_string_equal(caught_text(), "vram: error: one 1\n");
}

TEST(long_lines_are_cut_and_ended) {
    char text[2000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_int_equal(vram_option_set("log", "error"), VRAM_OK);
    catch_stderr();
    vr_log(VRAM_LOG_ERROR, "%s", text);
    vr_log(VRAM_LOG_ERROR, "next\nline\x1b");
    const char *lines = caught_text();
    const char *end = strchr(lines, '\n');
    assert_non_null(end);
    assert_int_equal(end - lines, strlen("vram: error: ") + 511);
    assert_string_equal(end, "\nvram: error: next?line?\n");
}

/* ------------------------------------------------------------------ callbacks */

TEST(callback_gets_its_levels) {
    catch_stderr();
    for (int level = VRAM_LOG_OFF; level <= VRAM_LOG_DEBUG; level++) {
        struct heard heard = {0};
        vram_log_set(hear, &heard, (vram_log_level)level);
        say_all();
        assert_int_equal(heard.count, level);
        assert_int_equal(heard.level, level);
        assert_int_equal(heard.locks, 0);
    }
    struct heard heard = {0};
    vram_log_set(hear, &heard, VRAM_LOG_DEBUG);
    vr_log(VRAM_LOG_INFO, "%s and %d", "text", 5);
    assert_string_equal(heard.text, "text and 5");
    vram_log_set(NULL, &heard, VRAM_LOG_DEBUG); /* back to the start: silence */
    say_all();
    assert_int_equal(heard.count, 1);
    assert_string_equal(caught_text(), "");
}

TEST(levels_out_of_range_mean_the_nearest) {
    struct heard heard = {0};
    vram_log_set(hear, &heard, (vram_log_level)1000);
    say_all();
    assert_int_equal(heard.count, 4);
    vram_log_set(hear, &heard, (vram_log_level)-1);
    say_all();
    assert_int_equal(heard.count, 4);
}

TEST(callback_wins_over_the_environment) {
    struct heard heard = {0};
    setenv("VRAM_LOG", "debug", 1);
    vr_option_reset();
    catch_stderr();
    vram_log_set(hear, &heard, VRAM_LOG_ERROR);
    say_all();
    assert_int_equal(vram_option_set("log", "info"), VRAM_OK); /* does not touch the callback */
    say_all();
    assert_int_equal(heard.count, 2);
    vram_log_set(NULL, NULL, VRAM_LOG_OFF);
    vr_log(VRAM_LOG_INFO, "now here");
    vr_log(VRAM_LOG_DEBUG, "not here");
    assert_string_equal(caught_text(), "vram: info: now here\n");
}

static void log_again(void *user, vram_log_level level, const char *text) {
    hear(user, level, text);
    say_all(); /* dropped rather than nested */
    assert_int_equal(vram_option_set("wait_timeout", "nonsense"), VRAM_ERR_INVALID);
}

TEST(callback_may_call_the_library) {
    struct heard heard = {0};
    vram_log_set(log_again, &heard, VRAM_LOG_DEBUG);
    vr_fail_in(VRAM_ERR_DEVICE_LOST, "outer", "the failure that is logged");
    vr_log(VRAM_LOG_ERROR, "first");
    assert_int_equal(heard.count, 1);
    assert_string_equal(heard.text, "first");
    /* What the callback got wrong is not what the outer call reports. */
    assert_int_equal(vram_error_get()->status, VRAM_ERR_DEVICE_LOST);
    assert_string_equal(vram_error_get()->text, "the failure that is logged");
    vr_log(VRAM_LOG_ERROR, "second");
    assert_int_equal(heard.count, 2);
}

static void unregister(void *user, vram_log_level level, const char *text) {
    hear(user, level, text);
    vram_log_set(NULL, NULL, VRAM_LOG_OFF);
}

TEST(callback_may_take_itself_away) {
    struct heard heard = {0};
    vram_log_set(unregister, &heard, VRAM_LOG_DEBUG);
    say_all();
    assert_int_equal(heard.count, 1);
}

/* --------------------------------------------------------------------- threads */

enum { THREADS = 4, ROUNDS = 3000 };

/* Two receivers, each with its own level. Each must get its own user pointer and nothing above its
   level, however the registration changes meanwhile. */
struct receiver {
    vram_log_level highest;
    vr_atomic_u64 count, wrong;
};

static struct receiver receivers[2] = {{.highest = VRAM_LOG_ERROR}, {.highest = VRAM_LOG_DEBUG}};

static void receive(struct receiver *self, void *user, vram_log_level level) {
    vr_fetch_add(&self->count, 1, VR_RELAXED);
    if (user != self || level > self->highest) {
        vr_fetch_add(&self->wrong, 1, VR_RELAXED);
    }
}

static void receive_first(void *user, vram_log_level level, const char *text) {
    (void)text;
    receive(&receivers[0], user, level);
}

static void receive_second(void *user, vram_log_level level, const char *text) {
    (void)text;
    receive(&receivers[1], user, level);
}

static void *talk(void *argument) {
    vr_atomic_bool *stop = argument;
    while (!vr_load(stop, VR_RELAXED)) {
        say_all();
    }
    return NULL;
}

TEST(registration_races_with_messages) {
    pthread_t threads[THREADS];
    vr_atomic_bool stop = false;
    catch_stderr();
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, talk, &stop), 0);
    }
    for (int i = 0; i < ROUNDS || (i < 1000000 && !vr_load(&receivers[1].count, VR_RELAXED)); i++) {
        vram_log_set(receive_first, &receivers[0], VRAM_LOG_ERROR);
        vram_log_set(receive_second, &receivers[1], VRAM_LOG_DEBUG);
        vram_log_set(NULL, NULL, VRAM_LOG_OFF);
        vram_option_set("log", i % 2 ? "off" : NULL);
    }
    vr_store(&stop, true, VR_RELAXED);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_string_equal(caught_text(), ""); /* silence was asked for whenever nobody listened */
    assert_true(vr_load(&receivers[1].count, VR_RELAXED) > 0);
    assert_int_equal(vr_load(&receivers[0].wrong, VR_RELAXED), 0);
    assert_int_equal(vr_load(&receivers[1].wrong, VR_RELAXED), 0);
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void *ask(void *argument) {
    vr_atomic_bool *stop = argument;
    while (!vr_load(stop, VR_RELAXED)) {
        vr_log_enabled(VRAM_LOG_ERROR);
    }
    return NULL;
}

/* Other threads find out the level all the time; none of them publishes an answer that was true
   only before the option was set. */
TEST(old_answers_are_not_published) {
    pthread_t threads[2];
    vr_atomic_bool stop = false;
    int wrong = 0;
    double end = seconds() + 1;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, ask, &stop), 0);
    }
    for (int i = 0; i < 100 * ROUNDS && seconds() < end; i++) {
        bool on = i % 2;
        vram_option_set("log", on ? "error" : "off");
        for (int look = 0; look < i % 64; look++) { /* a late answer has its chance */
            wrong += vr_log_enabled(VRAM_LOG_ERROR) != on;
        }
    }
    vr_store(&stop, true, VR_RELAXED);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(wrong, 0);
}

EACH_TEST(clean, clean)
