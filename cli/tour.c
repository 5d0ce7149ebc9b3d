/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tour.c: `vram tour`: leads through the library on one device, step by step, with times.
 */
#include "tour.h"
#include "survey.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
    NUMBER_COLUMNS = 4,
    NAME_COLUMNS = 10,
    TEXT_COLUMN = NUMBER_COLUMNS + NAME_COLUMNS,
    DURATION_COLUMNS = 10,
    BAR_COLUMNS = 32
};

/* What became of a step, kept for JSON. */
struct stage {
    enum stop_result result;
    uint64_t duration_ns, moved_bytes;
    char remark[REMARK_MAX];
};

/* -------------------------------------------------------------------- clock */

static bool is_simulated(const struct tour *tour) {
    return tour->target->info.kind == VRAM_DEVICE_SIMULATED;
}

/* A simulated device's time is that of its model; the wall's would say nothing of a GPU. */
uint64_t tour_now(void *user) {
    const struct tour *tour = user;
    vram_sim_state state = {.size = sizeof state};
    if (is_simulated(tour) && vram_sim_state_get(tour->target->context, &state) == VRAM_OK) {
        return state.clock_ns;
    }
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

void tour_clock_restart(struct tour *tour) {
    tour->started_ns = tour_now(tour);
}

void tour_clock_stop(struct tour *tour) {
    tour->stopped_ns = tour_now(tour);
    tour->clock_stopped = true;
}

/* ------------------------------------------------------------------ leading */

/* Runs one step with the clock around it and keeps what became of it. */
static void take_stage(struct tour *tour, const struct stop *stop, struct stage *stage) {
    tour->moved_bytes = 0;
    tour->remark[0] = 0;
    tour->clock_stopped = false;
    tour_clock_restart(tour);
    stage->result = stop->run(tour);
    if (!tour->clock_stopped) {
        tour_clock_stop(tour);
    }
    stage->duration_ns = tour->stopped_ns - tour->started_ns;
    stage->moved_bytes = stage->result == STOP_DONE ? tour->moved_bytes : 0;
    memcpy(stage->remark, tour->remark, sizeof stage->remark);
}

static void print_story(const struct terminal *terminal, size_t index, const struct stop *stop) {
    terminal_cell(terminal, STYLE_ACCENT, NUMBER_COLUMNS, "%2zu", index + 1);
    terminal_cell(terminal, STYLE_BOLD, NAME_COLUMNS, "%s", stop->name);
    terminal_wrap(terminal, STYLE_PLAIN, TEXT_COLUMN, stop->story);
    fflush(stdout); /* whoever watches reads it while it happens */
}

/*
 * "done in 4.02 ms, 3.9 GiB/s: contents are equal", below the story. A simulation without prices
 * has no times to show. What went wrong is told on stderr, by judge, and not twice.
 */
static void print_stage(const struct terminal *terminal, const struct stage *stage) {
    static const struct {
        enum style style;
        const char *text;
    } faces[] = {[STOP_DONE] = {STYLE_GOOD, "done"},
                 [STOP_SKIPPED] = {STYLE_WARN, "skipped"},
                 [STOP_DIFFERED] = {STYLE_BAD, "contents differ"},
                 [STOP_FAILED] = {STYLE_BAD, "failed"}};
    char text[REMARK_MAX + 128] = "", duration[DURATION_TEXT_MAX];
    size_t used = 0;
    if (stage->result == STOP_DONE && stage->duration_ns > 0) {
        used += (size_t)snprintf(text, sizeof text, " in %s",
                                 duration_format(stage->duration_ns, duration));
    }
    if (stage->moved_bytes > 0 && stage->duration_ns > 0) {
        double speed = (double)stage->moved_bytes / (double)stage->duration_ns * 1e9 / (1 << 30);
        used += (size_t)snprintf(text + used, sizeof text - used, ", %.2f GiB/s", speed);
    }
    if (stage->remark[0] != 0 && stage->result <= STOP_SKIPPED) {
        snprintf(text + used, sizeof text - used, ": %s", stage->remark);
    }
    printf("%*s", TEXT_COLUMN, "");
    terminal_print(terminal, faces[stage->result].style, "%s", faces[stage->result].text);
    terminal_print(terminal, STYLE_DIM, "%s", text);
    printf("\n");
}

/* The slowest has the whole bar. Without prices a simulation has no times, and there is no race to
   see. */
static void print_race(const struct terminal *terminal, const struct race *race) {
    uint64_t most = 0;
    for (int i = 0; i < RACERS; i++) {
        most = race->racers[i].ran && race->racers[i].ns > most ? race->racers[i].ns : most;
    }
    for (int i = 0; i < RACERS && most > 0; i++) {
        const struct racer *racer = &race->racers[i];
        char duration[DURATION_TEXT_MAX];
        printf("%*s", TEXT_COLUMN, "");
        terminal_cell(terminal, STYLE_BOLD, NAME_COLUMNS, "%s", racer->name);
        if (!racer->ran) {
            terminal_wrap(terminal, STYLE_DIM, TEXT_COLUMN + NAME_COLUMNS, racer->reason);
            continue;
        }
        terminal_cell(terminal, STYLE_PLAIN, DURATION_COLUMNS, "%s",
                      duration_format(racer->ns, duration));
        terminal_bar(terminal, BAR_COLUMNS, racer->ns, most);
        printf(" %.2f\n", (double)most / (double)(racer->ns > 0 ? racer->ns : 1));
    }
}

static void choose_route(struct tour *tour, bool race_alone) {
    assert(stop_count <= STOPS_MAX);
    for (size_t i = 0; i < stop_count && i < STOPS_MAX; i++) {
        if (!race_alone || stops[i].race) {
            tour->route[tour->route_count++] = &stops[i];
        }
    }
}

static bool has_raced(const struct tour *tour) {
    return tour->race.racers[RACERS - 1].name != NULL;
}

/* Takes the steps until one goes wrong. Returns how many were taken. */
static size_t lead(struct tour *tour, struct stage stages[STOPS_MAX],
                   const struct terminal *terminal) {
    bool raced = false;
    for (size_t i = 0; i < tour->route_count; i++) {
        if (terminal != NULL) {
            print_story(terminal, i, tour->route[i]);
        }
        take_stage(tour, tour->route[i], &stages[i]);
        if (terminal != NULL) {
            print_stage(terminal, &stages[i]);
        }
        if (terminal != NULL && stages[i].result == STOP_DONE && !raced && has_raced(tour)) {
            print_race(terminal, &tour->race);
            raced = true;
        }
        if (stages[i].result >= STOP_DIFFERED) {
            return i + 1;
        }
    }
    return tour->route_count;
}

/* ------------------------------------------------------------------ telling */

static void print_title(const struct terminal *terminal, const vram_device_info *info) {
    char label[DEVICE_LABEL_MAX];
    terminal_print(terminal, STYLE_BOLD, "A tour of libvram %s on %s, %s", vram_version_text(),
                   device_label(info, label), info->name);
    if (info->kind == VRAM_DEVICE_SIMULATED) {
        terminal_print(terminal, STYLE_WARN, " (simulated: times are those of a model)");
    }
    printf("\n\n");
}

static void print_end(const struct terminal *terminal, const vram_memory_info *left) {
    printf("\n");
    if (left->held_bytes == 0) {
        terminal_print(terminal, STYLE_GOOD, "nothing left: 0 bytes held");
    } else {
        terminal_print(terminal, STYLE_BAD, "left behind: %" PRIu64 " bytes held",
                       left->held_bytes);
    }
    printf("\n");
}

/* Empty if the tour ended before that. */
static void write_race(struct json_out *json, const struct race *race) {
    json_array_begin(json, "race");
    for (int i = 0; i < RACERS && race->racers[i].name != NULL; i++) {
        const struct racer *racer = &race->racers[i];
        json_object_begin(json, NULL);
        json_text(json, "name", racer->name);
        json_text(json, "about", racer->about);
        json_text(json, "reason", racer->ran ? NULL : racer->reason);
        json_unsigned(json, "frames", RACE_FRAMES);
        json_unsigned(json, "frame_bytes", race->bytes);
        json_value(json, "duration_ns", (vram_value){racer->ns, racer->ran});
        json_object_end(json);
    }
    json_array_end(json);
}

/* held_bytes is known only when the last step was reached: it is the one that asks. */
static bool write_tour(const struct tour *tour, const struct stage *stages, size_t count,
                       bool passed) {
    static const char *const results[] = {"done", "skipped", "differed", "failed"};
    const vram_device_info *info = &tour->target->info;
    struct json_out json;
    output_json_begin(&json, "vram.tour/1");
    json_text(&json, "backend", info->backend);
    json_unsigned(&json, "device", tour->target->index);
    json_text(&json, "device_name", info->name);
    json_text(&json, "clock", is_simulated(tour) ? "simulated" : "wall");
    json_array_begin(&json, "steps");
    for (size_t i = 0; i < count; i++) {
        json_object_begin(&json, NULL);
        json_text(&json, "name", tour->route[i]->name);
        json_text(&json, "story", tour->route[i]->story);
        json_text(&json, "result", results[stages[i].result]);
        json_text(&json, "remark", stages[i].remark[0] != 0 ? stages[i].remark : NULL);
        json_unsigned(&json, "duration_ns", stages[i].duration_ns);
        json_value(&json, "moved_bytes",
                   (vram_value){stages[i].moved_bytes, stages[i].moved_bytes > 0});
        json_object_end(&json);
    }
    json_array_end(&json);
    write_race(&json, &tour->race);
    json_bool(&json, "passed", passed);
    json_value(&json, "held_bytes",
               (vram_value){tour->left.held_bytes, count == tour->route_count});
    return output_json_end(&json);
}

/* --------------------------------------------------------------------- verb */

/* The exit code, and one line on stderr when the tour did not come to its end. */
static int judge(const struct tour *tour, const struct stage *last, const char *name) {
    if (last->result == STOP_FAILED) {
        say_error("the step \"%s\" failed: %s", name, last->remark);
        return EXIT_MISUSE;
    }
    if (last->result == STOP_DIFFERED) {
        say_error("the step \"%s\" found wrong contents: %s", name, last->remark);
        return EXIT_NO;
    }
    return tour->left.held_bytes == 0 ? EXIT_YES : EXIT_NO;
}

/* JSON is written at the end, as one document; text while the steps run. */
static int walk(const struct invocation *invocation, const struct target *target) {
    const struct terminal *terminal = invocation->json ? NULL : &invocation->terminal;
    struct tour tour = {.target = target};
    choose_route(&tour, flag_given(invocation, "race"));
    struct stage stages[STOPS_MAX];
    if (terminal != NULL) {
        print_title(terminal, &target->info);
    }
    size_t count = lead(&tour, stages, terminal);
    assert(count > 0); /* a route has a stop */
    int code = judge(&tour, &stages[count - 1], tour.route[count - 1]->name);
    if (terminal == NULL) {
        code = write_tour(&tour, stages, count, code == EXIT_YES) ? code : EXIT_MISUSE;
    } else if (stages[count - 1].result <= STOP_SKIPPED) {
        print_end(terminal, &tour.left);
    }
    tour_end(&tour);
    return code;
}

static int run(struct invocation *invocation) {
    struct target target;
    int code = target_open(invocation, &target);
    if (code == EXIT_YES) {
        code = walk(invocation, &target);
        target_close(&target);
    }
    return code;
}

static const struct flag flags[] = {
    FLAG_BACKEND, FLAG_DEVICE, {.name = "race", .help = "only the race of transfers"}, FLAG_END};

const struct verb verb_tour = {
    .name = "tour",
    .summary = "Walk through allocation, copies, queues, moves, pools and a race, with times",
    .usage = "[OPTION]...",
    .examples = "vram tour                       # on the best device\n"
                "vram tour --backend host        # on plain host memory, works everywhere\n"
                "vram tour --backend cuda -d 1   # on the second CUDA device\n"
                "VRAM_SIM=profile=h200 vram tour --backend sim    # a model of an H200\n"
                "vram tour --race                # frames to the host in four ways, a table\n",
    .flags = flags,
    .run = run,
};
