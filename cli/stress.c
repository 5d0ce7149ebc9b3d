/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stress.c: `vram stress`: a soak of any device for as long as one likes, or a script that leads a
 * pool through every level of pressure and every way out of it.
 */
#include "stress/stress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------------- soak */

static bool read_soak(const struct invocation *invocation, struct soak_plan *plan) {
    const char *limit = flag_value(invocation, "limit");
    uint64_t seconds = 10, threads = 2;
    *plan = (struct soak_plan){.seed = 1};
    if (!flag_number(invocation, "seconds", 1, 604800, &seconds) ||
        !flag_number(invocation, "threads", 1, SOAK_THREADS_MAX, &threads) ||
        !flag_number(invocation, "seed", 0, UINT64_MAX, &plan->seed)) {
        return false;
    }
    if (limit != NULL &&
        (vram_size_parse(limit, &plan->bytes) != VRAM_OK || plan->bytes < 1 << 20)) {
        say_error("--limit=%s: not a size from 1M on, like 64M or 1.5GiB", limit);
        return false;
    }
    plan->seconds = (double)seconds;
    plan->threads = (uint32_t)threads;
    return true;
}

static void print_soak(const struct terminal *terminal, const struct soak_result *result) {
    char held[VRAM_SIZE_TEXT_MAX], limit[VRAM_SIZE_TEXT_MAX];
    const vram_pool_stats *stats = &result->stats;
    if (result->interrupted) {
        printf("stopped after %.1f s\n", result->seconds);
    }
    printf(
        "%llu allocations in %.1f s, %.1f %% of them hits; %llu refused because memory ran out\n",
        (unsigned long long)result->allocs, result->seconds, 100 * stats->hit_rate,
        (unsigned long long)result->refusals);
    printf("most held %s of %s; caches halved %llu times, rare sizes dropped %llu, emergencies "
           "%llu\n",
           vram_size_format(stats->peak_reserved_bytes, held),
           vram_size_format(result->limit_bytes, limit),
           (unsigned long long)stats->response_steps[VRAM_RESPONSE_HALVE],
           (unsigned long long)stats->response_steps[VRAM_RESPONSE_DROP],
           (unsigned long long)stats->response_steps[VRAM_RESPONSE_EMERGENCY]);
    printf("%llu blocks read back, %llu wrong; %llu failures; %llu bytes left\n",
           (unsigned long long)result->verified, (unsigned long long)result->wrong,
           (unsigned long long)result->failures, (unsigned long long)result->left_bytes);
    if (result->first[0] != 0) {
        terminal_print(terminal, STYLE_BAD, "the first failure: %s", result->first);
        printf("\n");
    }
    terminal_print(terminal, soak_is_good(result) ? STYLE_GOOD : STYLE_BAD, "%s",
                   soak_is_good(result) ? "passed" : "FAILED");
    printf("\n");
}

static void begin_json(struct json_out *json, const char *what, const struct target *target) {
    output_json_begin(json, "vram.stress/1");
    json_text(json, "what", what);
    json_object_begin(json, "device");
    json_unsigned(json, "index", target->index);
    json_text(json, "backend", target->info.backend);
    json_text(json, "name", target->info.name);
    json_object_end(json);
}

static bool write_soak(const struct target *target, const struct soak_plan *plan,
                       const struct soak_result *result) {
    struct json_out json;
    begin_json(&json, "soak", target);
    json_unsigned(&json, "threads", plan->threads);
    json_unsigned(&json, "seed", plan->seed);
    json_unsigned(&json, "duration_ns", (uint64_t)(result->seconds * 1e9));
    json_unsigned(&json, "limit_bytes", result->limit_bytes);
    json_unsigned(&json, "allocs", result->allocs);
    json_unsigned(&json, "frees", result->frees);
    json_unsigned(&json, "refusals", result->refusals);
    json_unsigned(&json, "failures", result->failures);
    json_text(&json, "first_failure", result->first[0] != 0 ? result->first : NULL);
    json_unsigned(&json, "verified", result->verified);
    json_unsigned(&json, "wrong", result->wrong);
    json_number(&json, "hit_rate", result->stats.hit_rate);
    json_unsigned(&json, "peak_reserved_bytes", result->stats.peak_reserved_bytes);
    json_unsigned(&json, "halved", result->stats.response_steps[VRAM_RESPONSE_HALVE]);
    json_unsigned(&json, "dropped", result->stats.response_steps[VRAM_RESPONSE_DROP]);
    json_unsigned(&json, "emergencies", result->stats.response_steps[VRAM_RESPONSE_EMERGENCY]);
    json_unsigned(&json, "ladder_runs", result->stats.ladder_runs);
    json_unsigned(&json, "left_bytes", result->left_bytes);
    json_bool(&json, "good", soak_is_good(result));
    return output_json_end(&json);
}

static int run_soak(struct invocation *invocation) {
    struct soak_plan plan;
    struct soak_result result;
    struct target target;
    if (!read_soak(invocation, &plan)) {
        return EXIT_MISUSE;
    }
    int code = target_open(invocation, &target);
    if (code != EXIT_YES) {
        return code;
    }
    bool ran = soak_run(&plan, &target, &invocation->terminal, &result);
    if (ran && !invocation->json) {
        print_soak(&invocation->terminal, &result);
    } else if (ran) {
        ran = write_soak(&target, &plan, &result);
    }
    target_close(&target);
    return !ran ? EXIT_MISUSE : soak_is_good(&result) ? EXIT_YES : EXIT_NO;
}

/* -------------------------------------------------------------------- script */

static void print_script(const struct terminal *terminal, const struct script_result *result) {
    for (uint32_t i = 0; i < result->count; i++) {
        const struct script_line *line = &result->lines[i];
        bool good = line->planned == line->found;
        terminal_cell(terminal, good ? STYLE_GOOD : STYLE_BAD, 8, "%s", good ? "ok" : "WRONG");
        terminal_cell(terminal, STYLE_PLAIN, 44, "%s", line->name);
        terminal_print(terminal, STYLE_ACCENT, "%llu", (unsigned long long)line->found);
        if (!good) {
            terminal_print(terminal, STYLE_BAD, ", planned %llu",
                           (unsigned long long)line->planned);
        }
        printf("\n");
    }
    printf("%u of %u as planned", result->count - result->wrong, result->count);
    if (result->skipped > 0) {
        printf(", %u fallbacks skipped: there is no such memory, or too little may be locked",
               result->skipped);
    }
    printf("\n");
}

static bool write_script(const struct target *target, const struct script_result *result) {
    struct json_out json;
    begin_json(&json, "pressure", target);
    json_unsigned(&json, "unit_bytes", result->unit_bytes);
    json_array_begin(&json, "lines");
    for (uint32_t i = 0; i < result->count; i++) {
        json_object_begin(&json, NULL);
        json_text(&json, "name", result->lines[i].name);
        json_unsigned(&json, "planned", result->lines[i].planned);
        json_unsigned(&json, "found", result->lines[i].found);
        json_object_end(&json);
    }
    json_array_end(&json);
    json_unsigned(&json, "skipped", result->skipped);
    json_unsigned(&json, "wrong", result->wrong);
    json_bool(&json, "good", result->wrong == 0);
    return output_json_end(&json);
}

/* How full the machine is depends on others: a host device of a fixed size does not. */
static void settle_host(void) {
    vram_option_source source = VRAM_OPTION_FROM_DEFAULT;
    char text[64];
    if (vram_option_get("host_memory", text, sizeof text, &source) == VRAM_OK &&
        source == VRAM_OPTION_FROM_DEFAULT) {
        (void)vram_option_set("host_memory", "4G");
    }
}

static int run_script(struct invocation *invocation) {
    static struct script_result result;
    struct target target;
    settle_host();
    int code = target_open(invocation, &target);
    if (code != EXIT_YES) {
        return code;
    }
    if (!(target.info.caps & VRAM_CAP_VMM)) {
        say_error("%s device %u cannot map memory, which the script needs; `vram stress soak` runs "
                  "on any device",
                  target.info.backend, target.info.backend_index);
        target_close(&target);
        return EXIT_MISUSE;
    }
    bool simulated = target.info.caps & VRAM_CAP_SIMULATED;
    bool ran = script_run(&target, simulated, &invocation->terminal, &result);
    if (ran && !invocation->json) {
        print_script(&invocation->terminal, &result);
    } else if (ran) {
        ran = write_script(&target, &result);
    }
    target_close(&target);
    return !ran ? EXIT_MISUSE : result.wrong == 0 ? EXIT_YES : EXIT_NO;
}

/* ---------------------------------------------------------------------- verb */

static int run(struct invocation *invocation) {
    static const char *const soak_only[] = {"seconds", "threads", "limit", "seed"};
    if (invocation->operand_count != 1) {
        say_error("say which test to run: vram stress soak, or vram stress pressure");
        return EXIT_MISUSE;
    }
    if (strcmp(invocation->operands[0], "soak") == 0) {
        return run_soak(invocation);
    }
    for (int i = 0; i < 4; i++) {
        if (flag_given(invocation, soak_only[i])) {
            say_error("--%s is only for `vram stress soak`", soak_only[i]);
            return EXIT_MISUSE;
        }
    }
    return run_script(invocation);
}

static const struct flag flags[] = {
    FLAG_BACKEND,
    FLAG_DEVICE,
    {.name = "seconds", .letter = 's', .value = "N", .help = "how long to run (10)"},
    {.name = "threads", .letter = 't', .value = "N", .help = "threads that allocate (2)"},
    {.name = "limit",
     .letter = 'l',
     .value = "SIZE",
     .help = "most that the pool may hold (a quarter of what is free, at most 1 GiB)"},
    {.name = "seed", .value = "N", .help = "seed of sizes and order (1)"},
    FLAG_END,
};

const struct verb verb_stress = {
    .name = "stress",
    .summary = "Run a soak test on a device, or a script through all levels of memory pressure",
    .usage = "soak|pressure [OPTION]...",
    .examples = "vram stress soak                       # ten seconds on the best device\n"
                "vram stress soak -s 3600 -t 8          # an hour, eight threads\n"
                "vram stress soak -b host -l 64M        # in 64 MiB of host memory\n"
                "vram stress pressure -b sim            # exit code 1 if not as planned\n"
                "vram stress pressure -b host --json    # for programs: vram.stress/1\n",
    .flags = flags,
    .run = run,
    .operands = "soak pressure",
};
