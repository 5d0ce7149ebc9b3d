/* SPDX-License-Identifier: Apache-2.0 */
/* leases.c: `vram info --leases`: who holds memory under a lease, and who gave what to whom. */
#include "leases.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ENTRIES_FIRST = 64, RECORDS_MAX = 256, NAME_COLUMN = 22, SIZE_COLUMN = 12, AGO_COLUMN = 12 };

/* What the broker said; too large for the stack of a small thread, and there is one. */
static struct {
    vram_lease_entry *entries;
    vram_lease_record records[RECORDS_MAX];
    uint32_t entry_count, record_count;
} found;

/* --------------------------------------------------------------------- text */

static void print_size(const struct terminal *terminal, uint64_t bytes) {
    char text[VRAM_SIZE_TEXT_MAX];
    terminal_cell(terminal, STYLE_PLAIN, SIZE_COLUMN, "%s", vram_size_format(bytes, text));
}

static void print_entry(const struct terminal *terminal, const vram_lease_entry *entry) {
    char name[VRAM_LEASE_NAME_MAX + 32], text[VRAM_SIZE_TEXT_MAX];
    snprintf(name, sizeof name, "%s (%" PRIu64 ")", entry->name, entry->process);
    printf("  ");
    terminal_cell(terminal, STYLE_BOLD, NAME_COLUMN, "%s ", name);
    print_size(terminal, entry->granted_bytes);
    print_size(terminal, entry->held_bytes);
    print_size(terminal, entry->min_bytes);
    print_size(terminal, entry->want_bytes);
    printf("%d", (int)entry->priority);
    if (entry->waiting_bytes) {
        terminal_print(terminal, STYLE_WARN, "  waits for %s",
                       vram_size_format(entry->waiting_bytes, text));
    }
    if (entry->asked_bytes) {
        terminal_print(terminal, STYLE_WARN, "  is asked for %s",
                       vram_size_format(entry->asked_bytes, text));
    }
    printf("\n");
}

/* Entries come device by device. */
static void print_entries(const struct terminal *terminal) {
    char size[VRAM_SIZE_TEXT_MAX];
    const char *device = "";
    for (uint32_t i = 0; i < found.entry_count; i++) {
        const vram_lease_entry *entry = &found.entries[i];
        if (strcmp(device, entry->device) != 0) {
            device = entry->device;
            printf("%s", i > 0 ? "\n" : "");
            terminal_print(terminal, STYLE_BOLD, "Device %s", device);
            printf(", %s for all leases\n  ", vram_size_format(entry->capacity_bytes, size));
            terminal_cell(terminal, STYLE_DIM, NAME_COLUMN, "lease (process)");
            terminal_cell(terminal, STYLE_DIM, SIZE_COLUMN, "granted");
            terminal_cell(terminal, STYLE_DIM, SIZE_COLUMN, "held");
            terminal_cell(terminal, STYLE_DIM, SIZE_COLUMN, "minimum");
            terminal_cell(terminal, STYLE_DIM, SIZE_COLUMN, "wanted");
            terminal_print(terminal, STYLE_DIM, "priority");
            printf("\n");
        }
        print_entry(terminal, entry);
    }
    if (found.entry_count == 0) {
        printf("No leases: a broker runs, and nobody uses it.\n");
    }
}

static void print_record(const struct terminal *terminal, const vram_lease_record *record) {
    char ago[DURATION_TEXT_MAX], size[VRAM_SIZE_TEXT_MAX], waited[DURATION_TEXT_MAX];
    printf("  ");
    terminal_cell(terminal, STYLE_DIM, AGO_COLUMN, "-%s ", duration_format(record->ago_ns, ago));
    if (record->from[0] != 0 || record->from_process) {
        terminal_print(terminal, STYLE_PLAIN, "%s (%" PRIu64 ") ", record->from,
                       record->from_process);
    }
    terminal_print(terminal,
                   record->happening == VRAM_LEASE_LOG_KEPT ||
                           record->happening == VRAM_LEASE_LOG_DENIED
                       ? STYLE_WARN
                       : STYLE_ACCENT,
                   "%s", vram_lease_happening_name(record->happening));
    printf(" %s", vram_size_format(record->bytes, size));
    if (record->to[0] != 0 || record->to_process) {
        terminal_print(terminal, STYLE_PLAIN, " %s %s (%" PRIu64 ")",
                       record->happening == VRAM_LEASE_LOG_KEPT ? "from" : "to", record->to,
                       record->to_process);
    }
    if (record->happening == VRAM_LEASE_LOG_KEPT) {
        printf(": %s", vram_lease_why_text(record->why));
    } else if (record->waited_ns) {
        printf(" after %s", duration_format(record->waited_ns, waited));
    }
    printf("\n");
}

static void print_leases(const struct terminal *terminal) {
    print_entries(terminal);
    if (found.record_count > 0) {
        printf("\n");
        terminal_print(terminal, STYLE_BOLD, "Log");
        printf("\n");
    }
    for (uint32_t i = 0; i < found.record_count; i++) {
        print_record(terminal, &found.records[i]);
    }
}

/* --------------------------------------------------------------------- JSON */

static void write_entries(struct json_out *json) {
    json_array_begin(json, "leases");
    for (uint32_t i = 0; i < found.entry_count; i++) {
        const vram_lease_entry *entry = &found.entries[i];
        json_object_begin(json, NULL);
        json_text(json, "device", entry->device);
        json_unsigned(json, "capacity_bytes", entry->capacity_bytes);
        json_text(json, "name", entry->name);
        json_unsigned(json, "process", entry->process);
        json_signed(json, "priority", entry->priority);
        json_unsigned(json, "min_bytes", entry->min_bytes);
        json_unsigned(json, "want_bytes", entry->want_bytes);
        json_unsigned(json, "granted_bytes", entry->granted_bytes);
        json_unsigned(json, "held_bytes", entry->held_bytes);
        json_unsigned(json, "waiting_bytes", entry->waiting_bytes);
        json_unsigned(json, "asked_bytes", entry->asked_bytes);
        json_object_end(json);
    }
    json_array_end(json);
}

static void write_party(struct json_out *json, const char *key, const char *name,
                        uint64_t process) {
    if (name[0] == 0 && process == 0) {
        json_null(json, key);
        return;
    }
    json_object_begin(json, key);
    json_text(json, "name", name);
    json_unsigned(json, "process", process);
    json_object_end(json);
}

static void write_records(struct json_out *json) {
    json_array_begin(json, "log");
    for (uint32_t i = 0; i < found.record_count; i++) {
        const vram_lease_record *record = &found.records[i];
        bool kept = record->happening == VRAM_LEASE_LOG_KEPT;
        json_object_begin(json, NULL);
        json_unsigned(json, "number", record->number);
        json_unsigned(json, "ago_ns", record->ago_ns);
        json_text(json, "happening", vram_lease_happening_name(record->happening));
        json_unsigned(json, "bytes", record->bytes);
        write_party(json, "from", record->from, record->from_process);
        write_party(json, "to", record->to, record->to_process);
        json_text(json, "why", kept ? vram_lease_why_name(record->why) : NULL);
        json_unsigned(json, "waited_ns", record->waited_ns);
        json_object_end(json);
    }
    json_array_end(json);
}

static bool write_leases(bool running) {
    struct json_out json;
    output_json_begin(&json, "vram.leases/1");
    json_bool(&json, "broker", running);
    write_entries(&json);
    write_records(&json);
    return output_json_end(&json);
}

/* --------------------------------------------------------------------- both */

/* All leases; there may be more at every look. */
static vram_status found_take(void) {
    for (uint32_t most = ENTRIES_FIRST;; most = found.entry_count + ENTRIES_FIRST) {
        free(found.entries);
        found.entries = calloc(most, sizeof *found.entries);
        if (found.entries == NULL) {
            return VRAM_ERR_HOST_MEMORY;
        }
        found.entry_count = most;
        found.record_count = RECORDS_MAX;
        vram_status status = vram_lease_list(NULL, found.entries, &found.entry_count, found.records,
                                             &found.record_count);
        if (status != VRAM_OK) {
            found.entry_count = found.record_count = 0;
        }
        if (found.entry_count <= most) {
            return status;
        }
    }
}

static int found_show(const struct invocation *invocation, bool running) {
    if (invocation->json) {
        return !write_leases(running) ? EXIT_MISUSE : running ? EXIT_YES : EXIT_NO;
    }
    if (!running) {
        printf("No leases: no broker runs.\n");
        return EXIT_NO;
    }
    print_leases(&invocation->terminal);
    return EXIT_YES;
}

int leases_show(const struct invocation *invocation) {
    vram_status status = found_take();
    int code = status == VRAM_OK || status == VRAM_ERR_STALE
                   ? found_show(invocation, status == VRAM_OK)
                   : say_failure("cannot list the leases", status);
    free(found.entries);
    found.entries = NULL;
    return code;
}
