/* SPDX-License-Identifier: Apache-2.0 */
/*
 * info.c: `vram info`: every backend and device, what they can do, and why a backend is absent.
 */
#include "leases.h"
#include "shares.h"
#include "survey.h"
#include "target.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { NAME_COLUMN = 10, DETAIL_INDENT = 6, DETAIL_COLUMN = 18, BAR_COLUMNS_MOST = 20 };

static const char *const option_type_names[] = {"bool", "integer",  "size", "duration",
                                                "text", "fraction", "list"};
static const char *const option_source_names[] = {"default", "environment", "api"};

static const char *option_type_name(vram_option_type type) {
    return type <= VRAM_OPTION_LIST ? option_type_names[type] : "unknown";
}

static const char *option_source_name(vram_option_source source) {
    return source <= VRAM_OPTION_FROM_API ? option_source_names[source] : "unknown";
}

/* --------------------------------------------------------------------- text */

static void print_heading(const struct terminal *terminal, const char *text) {
    printf("\n");
    terminal_print(terminal, STYLE_BOLD, "%s", text);
    printf("\n");
}

/* One line, or the reason of its absence wrapped in a column of its own. */
static void print_backend(const struct terminal *terminal, const vram_backend_info *backend) {
    printf("  ");
    terminal_cell(terminal, backend->present ? STYLE_BOLD : STYLE_DIM, NAME_COLUMN, "%s",
                  backend->name);
    if (!backend->present) {
        terminal_cell(terminal, STYLE_DIM, NAME_COLUMN, "absent");
        terminal_wrap(terminal, STYLE_DIM, 2 + 2 * NAME_COLUMN, backend->reason);
        return;
    }
    terminal_cell(terminal, STYLE_GOOD, NAME_COLUMN, "present");
    printf("%" PRIu32 " device%s", backend->device_count, backend->device_count == 1 ? "" : "s");
    if (backend->version[0] != 0) {
        terminal_print(terminal, STYLE_PLAIN, ", version %s", backend->version);
    }
    printf("\n");
}

/* The left part of a line below a device; what follows starts in DETAIL_COLUMN. */
static void print_label(const struct terminal *terminal, const char *label) {
    printf("%*s", DETAIL_INDENT, "");
    terminal_cell(terminal, STYLE_DIM, DETAIL_COLUMN - DETAIL_INDENT, "%s", label);
}

/* A size, or the plain word where the driver does not tell: 0 would be a lie. */
static const char *value_text(vram_value value, char text[VRAM_SIZE_TEXT_MAX]) {
    if (!value.known) {
        snprintf(text, VRAM_SIZE_TEXT_MAX, "unknown");
        return text;
    }
    return vram_size_format(value.value, text);
}

/*
 * Total, a bar of what is in use, and what is free. A driver may say that more is free than there
 * is; then no bar is drawn, and the two numbers stand for themselves.
 */
static void print_memory(const struct terminal *terminal, const struct device_survey *device) {
    char total[VRAM_SIZE_TEXT_MAX], free_text[VRAM_SIZE_TEXT_MAX];
    print_label(terminal, "memory");
    terminal_print(terminal, STYLE_PLAIN, "%s", value_text(device->total_bytes, total));
    bool both = device->total_bytes.known && device->free_bytes.known;
    uint32_t columns = terminal->width / 4;
    if (both && device->free_bytes.value <= device->total_bytes.value) {
        printf("  ");
        terminal_bar(terminal, columns < BAR_COLUMNS_MOST ? columns : BAR_COLUMNS_MOST,
                     device->total_bytes.value - device->free_bytes.value,
                     device->total_bytes.value);
    }
    terminal_print(terminal, STYLE_PLAIN, device->free_bytes.known ? "  %s free" : "  free %s",
                   value_text(device->free_bytes, free_text));
    if ((device->info.caps & device->info.caps_known & VRAM_CAP_INTEGRATED) != 0) {
        terminal_print(terminal, STYLE_PLAIN, ", shared with the host");
    }
    printf("\n");
    if (device->problem[0] != 0) {
        print_label(terminal, "problem");
        terminal_wrap(terminal, STYLE_BAD, DETAIL_COLUMN, device->problem);
    }
}

/* The granule of virtual memory is left out where there is none to speak of. */
static void print_granules(const struct terminal *terminal, const vram_device_info *info) {
    char alloc[VRAM_SIZE_TEXT_MAX], vmm[VRAM_SIZE_TEXT_MAX], most[VRAM_SIZE_TEXT_MAX];
    char text[3 * VRAM_SIZE_TEXT_MAX + 64];
    bool without_vmm = (info->caps_known & ~info->caps & VRAM_CAP_VMM) != 0;
    snprintf(text, sizeof text, "alloc %s%s%s; largest allocation %s",
             value_text(info->alloc_granule, alloc), without_vmm ? "" : ", vmm ",
             without_vmm ? "" : value_text(info->vmm_granule, vmm),
             value_text(info->alloc_max, most));
    print_label(terminal, "granules");
    terminal_wrap(terminal, STYLE_PLAIN, DETAIL_COLUMN, text);
}

/* What tells two equal devices apart, whatever order a driver lists them in. */
static void print_identity(const struct terminal *terminal, const vram_device_info *info) {
    char uuid[UUID_TEXT_MAX] = "unknown";
    if (info->uuid_known) {
        uuid_format(info->uuid, uuid);
    }
    print_label(terminal, "identity");
    terminal_print(terminal, STYLE_PLAIN, "uuid %s, pci %s", uuid,
                   info->pci_known ? info->pci : "unknown");
    printf("\n");
}

/* The names of the capabilities whose bit is in `bits`, or nothing when there are none. */
static void print_capabilities(const struct terminal *terminal, const char *label, enum style style,
                               uint32_t bits) {
    char text[256] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < capability_count && used < sizeof text; i++) {
        if ((capabilities[i].bit & bits) != 0) {
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", used > 0 ? " " : "",
                                     capabilities[i].name);
        }
    }
    if (used > 0) {
        print_label(terminal, label);
        terminal_wrap(terminal, style, DETAIL_COLUMN, text);
    }
}

/* A line that names the device, and one for each thing to know about it. */
static void print_device(const struct terminal *terminal, const struct device_survey *device,
                         uint32_t index, bool best) {
    const vram_device_info *info = &device->info;
    char label[DEVICE_LABEL_MAX];
    terminal_cell(terminal, STYLE_GOOD, 2, "%s", best ? "*" : "");
    terminal_cell(terminal, STYLE_ACCENT, 4, "%" PRIu32, index);
    terminal_cell(terminal, STYLE_PLAIN, NAME_COLUMN + 2, "%s", device_label(info, label));
    terminal_print(terminal, STYLE_BOLD, "%s", info->name);
    terminal_print(terminal, STYLE_DIM, "  %s%s%s", device_kind_name(info->kind),
                   info->architecture[0] != 0 ? " " : "", info->architecture);
    printf("\n");
    print_memory(terminal, device);
    print_granules(terminal, info);
    print_identity(terminal, info);
    print_capabilities(terminal, "can", STYLE_GOOD, info->caps & info->caps_known);
    print_capabilities(terminal, "cannot", STYLE_DIM, ~info->caps & info->caps_known);
    print_capabilities(terminal, "unknown", STYLE_WARN, ~info->caps_known);
}

/* The options with their present values, so that a user sees what the environment did. */
static void print_options(const struct terminal *terminal) {
    print_heading(terminal, "Options (VRAM_CONF=\"name=value,...\" or VRAM_<NAME>=value)");
    for (size_t i = 0; i < vram_option_count(); i++) {
        const vram_option_info *option = vram_option_at(i);
        char value[512] = "";
        vram_option_source source = VRAM_OPTION_FROM_DEFAULT;
        vram_option_get(option->name, value, sizeof value, &source);
        printf("  ");
        terminal_cell(terminal, STYLE_BOLD, DETAIL_COLUMN - 2, "%s ", option->name);
        terminal_print(terminal, STYLE_ACCENT, "%s", value[0] != 0 ? value : "\"\"");
        terminal_print(terminal, STYLE_DIM, "  (%s, %s%s)", option_source_name(source),
                       option_type_name(option->type), option->is_limit ? ", limit" : "");
        printf("\n%*s", DETAIL_COLUMN, "");
        terminal_wrap(terminal, STYLE_DIM, DETAIL_COLUMN, option->help);
    }
}

/* What the environment has and nobody can use; the defaults are in force instead. */
static void print_problems(const struct terminal *terminal) {
    char text[512];
    size_t count = vram_option_problem(0, text, sizeof text);
    if (count > 0) {
        print_heading(terminal, "Not usable");
    }
    for (size_t i = 0; i < count; i++) {
        vram_option_problem(i, text, sizeof text);
        printf("  ");
        terminal_wrap(terminal, STYLE_WARN, 2, text);
    }
}

/* Whether `name` stands in a list by commas; a NULL list has every name in it. */
static bool is_wanted(const char *list, const char *name) {
    size_t bytes = strlen(name);
    while (list != NULL) {
        size_t entry = strcspn(list, ",");
        if (entry == bytes && memcmp(list, name, bytes) == 0) {
            return true;
        }
        if (list[entry] == 0) {
            return false;
        }
        list += entry + 1;
    }
    return true;
}

/* Backends that --backend left out are not worth a line each: the user knows why. */
static void print_survey(const struct terminal *terminal, const struct survey *survey,
                         const char *wanted) {
    terminal_print(terminal, STYLE_BOLD, "libvram %s", vram_version_text());
    printf("\n");
    print_heading(terminal, "Backends");
    for (uint32_t i = 0; i < survey->backend_count; i++) {
        if (is_wanted(wanted, survey->backends[i].name)) {
            print_backend(terminal, &survey->backends[i]);
        }
    }
    if (survey->device_count == 0) {
        printf("\nNo device was found.\n");
        return;
    }
    print_heading(terminal, "Devices (* is used when none is chosen)");
    for (uint32_t i = 0; i < survey->device_count; i++) {
        print_device(terminal, &survey->devices[i], i, survey->best_known && i == survey->best);
    }
}

/* --------------------------------------------------------------------- JSON */

static void write_backends(struct json_out *json, const struct survey *survey) {
    json_array_begin(json, "backends");
    for (uint32_t i = 0; i < survey->backend_count; i++) {
        const vram_backend_info *backend = &survey->backends[i];
        json_object_begin(json, NULL);
        json_text(json, "name", backend->name);
        json_bool(json, "present", backend->present);
        json_text(json, "version", backend->version[0] != 0 ? backend->version : NULL);
        json_unsigned(json, "device_count", backend->device_count);
        json_text(json, "reason", backend->present ? NULL : backend->reason);
        json_object_end(json);
    }
    json_array_end(json);
}

static void write_capabilities(struct json_out *json, const vram_device_info *info) {
    json_object_begin(json, "caps");
    for (uint32_t i = 0; i < capability_count; i++) {
        uint32_t bit = capabilities[i].bit;
        if ((info->caps_known & bit) != 0) {
            json_bool(json, capabilities[i].name, (info->caps & bit) != 0);
        } else {
            json_null(json, capabilities[i].name);
        }
    }
    json_object_end(json);
}

/* The same facts as the text has; what is unknown is null. */
static void write_device(struct json_out *json, const struct device_survey *device,
                         uint32_t index) {
    const vram_device_info *info = &device->info;
    char uuid[UUID_TEXT_MAX];
    json_object_begin(json, NULL);
    json_unsigned(json, "index", index);
    json_text(json, "backend", info->backend);
    json_unsigned(json, "backend_index", info->backend_index);
    json_text(json, "name", info->name);
    json_text(json, "kind", device_kind_name(info->kind));
    json_text(json, "architecture", info->architecture[0] != 0 ? info->architecture : NULL);
    json_text(json, "uuid", info->uuid_known ? uuid_format(info->uuid, uuid) : NULL);
    json_text(json, "pci", info->pci_known ? info->pci : NULL);
    json_value(json, "memory_total_bytes", device->total_bytes);
    json_value(json, "memory_free_bytes", device->free_bytes);
    json_value(json, "alloc_granule_bytes", info->alloc_granule);
    json_value(json, "alloc_max_bytes", info->alloc_max);
    json_value(json, "vmm_granule_bytes", info->vmm_granule);
    write_capabilities(json, info);
    json_text(json, "problem", device->problem[0] != 0 ? device->problem : NULL);
    json_object_end(json);
}

/* Bounds mean something for numbers only; the unit is said beside them. */
static void write_option(struct json_out *json, const vram_option_info *option) {
    static const char *const units[] = {NULL, "1", "byte", "ns", NULL, "millionth"};
    const char *unit = option->type <= VRAM_OPTION_FRACTION ? units[option->type] : NULL;
    char value[512] = "";
    vram_option_source source = VRAM_OPTION_FROM_DEFAULT;
    vram_option_get(option->name, value, sizeof value, &source);
    json_object_begin(json, NULL);
    json_text(json, "name", option->name);
    json_text(json, "type", option_type_name(option->type));
    json_text(json, "value", value);
    json_text(json, "source", option_source_name(source));
    json_text(json, "default", option->default_text);
    json_text(json, "unit", unit);
    json_value(json, "minimum", (vram_value){option->minimum, unit != NULL});
    json_value(json, "maximum", (vram_value){option->maximum, unit != NULL});
    json_bool(json, "is_limit", option->is_limit);
    json_text(json, "help", option->help);
    json_object_end(json);
}

/* They are on stderr too, but whoever reads JSON may not look there. */
static void write_problems(struct json_out *json) {
    char text[512];
    size_t count = vram_option_problem(0, text, sizeof text);
    json_array_begin(json, "option_problems");
    for (size_t i = 0; i < count; i++) {
        vram_option_problem(i, text, sizeof text);
        json_text(json, NULL, text);
    }
    json_array_end(json);
}

static bool write_survey(const struct survey *survey) {
    struct json_out json;
    output_json_begin(&json, "vram.info/1");
    write_backends(&json, survey);
    json_array_begin(&json, "devices");
    for (uint32_t i = 0; i < survey->device_count; i++) {
        write_device(&json, &survey->devices[i], i);
    }
    json_array_end(&json);
    json_value(&json, "best_device_index", (vram_value){survey->best, survey->best_known});
    json_array_begin(&json, "options");
    for (size_t i = 0; i < vram_option_count(); i++) {
        write_option(&json, vram_option_at(i));
    }
    json_array_end(&json);
    write_problems(&json);
    return output_json_end(&json);
}

/* --------------------------------------------------------------------- verb */

/* Takes the survey. If the environment has values that programs refuse (option strict), says so,
   and goes on without them: this verb is how a user finds out. */
static vram_status take_survey(const char *wanted, struct survey *survey, bool *refused) {
    vram_status status = survey_take(wanted, survey);
    *refused = status == VRAM_ERR_INVALID && vram_option_problem(0, NULL, 0) > 0 &&
               vram_option_set("strict", "off") == VRAM_OK;
    if (*refused) {
        survey_free(survey);
        status = survey_take(wanted, survey);
    }
    return status;
}

/* A machine without a device is an answer, not a failure: the reasons are printed. */
static int show(const struct invocation *invocation, struct survey *survey) {
    const char *wanted = flag_value(invocation, "backend");
    bool refused;
    vram_status status = take_survey(wanted, survey, &refused);
    if (status != VRAM_OK) {
        return say_failure("cannot list the devices", status);
    }
    if (refused) {
        say_error(
            "programs refuse to start with these values; correct them, or set VRAM_STRICT=off");
    }
    if (invocation->json) {
        if (!write_survey(survey)) {
            return EXIT_MISUSE;
        }
    } else {
        print_survey(&invocation->terminal, survey, wanted);
        if (flag_given(invocation, "options")) {
            print_options(&invocation->terminal);
            print_problems(&invocation->terminal);
        }
    }
    return refused ? EXIT_MISUSE : survey->device_count > 0 ? EXIT_YES : EXIT_NO;
}

static int run(struct invocation *invocation) {
    struct survey survey;
    if (flag_given(invocation, "leases") && flag_given(invocation, "shares")) {
        say_error("--leases and --shares exclude each other");
        return EXIT_MISUSE;
    }
    if (flag_given(invocation, "leases")) {
        return leases_show(invocation);
    }
    if (flag_given(invocation, "shares")) {
        return shares_show(invocation);
    }
    int code = show(invocation, &survey);
    survey_free(&survey);
    return code;
}

static const struct flag flags[] = {
    FLAG_BACKEND,
    {.name = "options", .help = "also list the options with their values and sources"},
    {.name = "leases",
     .help = "instead, list who holds memory under a lease, and who gave what to whom"},
    {.name = "shares", .help = "instead, list the names under which memory is shared"},
    FLAG_END,
};

const struct verb verb_info = {
    .name = "info",
    .summary = "Show backends, devices, memory and capabilities, and why a backend is absent",
    .usage = "[OPTION]...",
    .examples = "vram info                       # everything, the best device marked *\n"
                "vram info --backend cuda        # one backend; exit code 1 if it has no device\n"
                "vram info --json                # for programs: schema vram.info/1\n"
                "vram info --leases              # who holds memory under a lease\n"
                "vram info --shares              # names of shared memory, and their owners\n"
                "VRAM_SIM=devices=2,memory=80G vram info    # with two simulated GPUs\n",
    .flags = flags,
    .run = run,
};
