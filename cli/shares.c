/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shares.c: `vram info --shares`: the names under which memory is shared, and whether their owners
 * are still there. An owner is asked by opening what it shares on the host device: another device's
 * memory cannot be opened there, but the answer shows that it lives.
 */
#include "shares.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES_FIRST = 64, NAME_COLUMN = 32, VERSION_COLUMN = 12 };

/* What is known of one name. */
struct finding {
    vram_share_name name;
    const char *state; /* "served", "gone" or "unknown" */
    vram_value bytes;  /* of memory that the host could open */
};

struct findings {
    struct finding *list;
    uint32_t count;
};

/* --------------------------------------------------------------------- finding */

static int by_name(const void *a, const void *b) {
    const struct finding *first = a, *second = b;
    return strcmp(first->name.name, second->name.name);
}

/* All names; there may be more at every look. */
static vram_status names_list(vram_share_name **names, uint32_t *count) {
    uint32_t most = NAMES_FIRST;
    for (;;) {
        vram_share_name *list = calloc(most, sizeof *list);
        if (!list) {
            return VRAM_ERR_HOST_MEMORY;
        }
        *count = most;
        vram_status status = vram_share_list(NULL, list, count);
        if (status == VRAM_OK && *count <= most) {
            *names = list;
            return VRAM_OK;
        }
        free(list);
        if (status != VRAM_OK) {
            return status;
        }
        most = *count + NAMES_FIRST;
    }
}

static void owner_ask(vram_device *device, struct finding *finding) {
    const vram_share_options options = {.size = sizeof options, .flags = VRAM_SHARE_READ_ONLY};
    vram_share_info info = {.size = sizeof info};
    vram_share *share;
    vram_status status = vram_share_open(device, &finding->name.token, &options, &share);
    if (status == VRAM_OK) {
        finding->bytes.known = vram_share_info_get(share, &info) == VRAM_OK;
        finding->bytes.value = info.bytes;
        vram_share_close(share);
    }
    finding->state = status == VRAM_OK || status == VRAM_ERR_UNSUPPORTED || status == VRAM_ERR_BUSY
                         ? "served"
                     : status == VRAM_ERR_STALE ? "gone"
                                                : "unknown";
}

static vram_status findings_take(struct findings *findings) {
    const vram_context_options options = {.size = sizeof options, .backends = "host"};
    vram_context *context = NULL;
    vram_device *device = NULL;
    vram_share_name *names = NULL;
    vram_status status = names_list(&names, &findings->count);
    if (status != VRAM_OK || findings->count == 0) {
        free(names);
        return status;
    }
    findings->list = calloc(findings->count, sizeof *findings->list);
    status = findings->list ? vram_context_create(&options, &context) : VRAM_ERR_HOST_MEMORY;
    if (status == VRAM_OK && (status = vram_device_open(context, 0, &device)) == VRAM_OK) {
        for (uint32_t i = 0; i < findings->count; i++) {
            findings->list[i].name = names[i];
            owner_ask(device, &findings->list[i]);
        }
        qsort(findings->list, findings->count, sizeof *findings->list, by_name);
    }
    free(names);
    vram_context_destroy(context);
    return status;
}

/* ----------------------------------------------------------------------- output */

static void print_findings(const struct terminal *terminal, const struct findings *findings) {
    char size[VRAM_SIZE_TEXT_MAX];
    terminal_cell(terminal, STYLE_DIM, NAME_COLUMN, "name");
    terminal_cell(terminal, STYLE_DIM, VERSION_COLUMN, "version");
    terminal_print(terminal, STYLE_DIM, "owner");
    printf("\n");
    for (uint32_t i = 0; i < findings->count; i++) {
        const struct finding *finding = &findings->list[i];
        bool served = strcmp(finding->state, "served") == 0;
        terminal_cell(terminal, STYLE_BOLD, NAME_COLUMN, "%s ", finding->name.name);
        terminal_cell(terminal, STYLE_PLAIN, VERSION_COLUMN, "%" PRIu64, finding->name.version);
        terminal_print(terminal, served ? STYLE_GOOD : STYLE_WARN, "%s", finding->state);
        if (finding->bytes.known) {
            terminal_print(terminal, STYLE_PLAIN, ", %s",
                           vram_size_format(finding->bytes.value, size));
        }
        printf("\n");
    }
}

static bool write_findings(const struct findings *findings) {
    struct json_out json;
    output_json_begin(&json, "vram.shares/1");
    json_array_begin(&json, "shares");
    for (uint32_t i = 0; i < findings->count; i++) {
        const struct finding *finding = &findings->list[i];
        json_object_begin(&json, NULL);
        json_text(&json, "name", finding->name.name);
        json_unsigned(&json, "share_version", finding->name.version);
        json_text(&json, "owner", finding->state);
        json_value(&json, "bytes", finding->bytes);
        json_object_end(&json);
    }
    json_array_end(&json);
    return output_json_end(&json);
}

int shares_show(const struct invocation *invocation) {
    struct findings findings = {.list = NULL};
    vram_status status = findings_take(&findings);
    int code = findings.count > 0 ? EXIT_YES : EXIT_NO;
    if (status != VRAM_OK) {
        code = say_failure("cannot list the names of shared memory", status);
    } else if (invocation->json) {
        code = write_findings(&findings) ? code : EXIT_MISUSE;
    } else if (findings.count > 0) {
        print_findings(&invocation->terminal, &findings);
    } else {
        printf("No names: nobody has published shared memory in this directory.\n");
    }
    free(findings.list);
    return code;
}
