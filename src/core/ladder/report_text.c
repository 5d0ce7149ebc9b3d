/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report_text.c: a report as text and as JSON; see report.h.
 */
#include "core/ladder/report.h"

#include "base/error.h"
#include "base/json.h"
#include "base/size_text.h"
#include "base/status.h"

/* ------------------------------------------------------------------------- text */

static void add_size(struct vr_writer *writer, const char *before, uint64_t bytes,
                     const char *behind) {
    char text[VRAM_SIZE_TEXT_MAX];
    vr_writer_print(writer, "%s%s%s", before, vr_size_format(bytes, text), behind);
}

static void add_value(struct vr_writer *writer, const char *before, vram_value value,
                      const char *behind) {
    if (value.known) {
        add_size(writer, before, value.value, behind);
    } else {
        vr_writer_print(writer, "%san unknown amount%s", before, behind);
    }
}

static void add_request(struct vr_writer *writer, const struct vram_oom_report *report) {
    vr_writer_print(writer, "  asked    %llu bytes, aligned to %llu",
                    (unsigned long long)report->asked_bytes, (unsigned long long)report->alignment);
    if (*report->tag) {
        vr_writer_print(writer, ", for \"%s\"", report->tag);
    }
    vr_writer_print(writer, "\n");
}

static void add_device(struct vr_writer *writer, const struct vram_oom_report *report) {
    vr_writer_print(writer, "  device   %s: ", report->device_name);
    add_value(writer, "", report->total_bytes, " in all, ");
    add_value(writer, "", report->free_bytes, " free, ");
    add_size(writer, "", report->process_bytes, " held here, ");
    add_value(writer, "", report->others_bytes, " by others");
    if (report->processes_bytes.known && report->others_bytes.value) {
        add_size(writer, " (", report->processes_bytes.value, " by other processes)");
    }
    vr_writer_print(writer, "\n");
    if (report->limit_bytes.known) {
        add_size(writer, "  limit    ", report->limit_bytes.value, " for this pool");
        vr_writer_print(writer, " (%s)\n", report->limit_name);
    }
    if (*report->quota_tag) {
        add_size(writer, "  quota    ", report->quota_bytes, "");
        vr_writer_print(writer, " for \"%s\"", report->quota_tag);
        add_size(writer, ", which has ", report->quota_used_bytes, "\n");
    }
}

static void add_part(struct vr_writer *writer, uint64_t bytes, const char *what) {
    if (bytes) {
        add_size(writer, ", ", bytes, what);
    }
}

static void add_pool(struct vr_writer *writer, const struct vram_oom_report *report) {
    vr_writer_print(writer, "  pool     \"%s\": ", report->pool_name);
    add_size(writer, "", report->reserved_bytes, " held, ");
    add_size(writer, "", report->live_bytes, " live");
    add_part(writer, report->rounding_bytes, " of it by rounding");
    add_part(writer, report->cached_bytes, " at hand in threads");
    add_part(writer, report->asleep_bytes, " asleep");
    add_part(writer, report->pending_bytes, " pending");
    add_part(writer, report->pinned_bytes, " freed but pinned");
    add_part(writer, report->unused_bytes, " unused");
    if (report->unused_bytes) {
        add_size(writer, " (largest piece ", report->largest_bytes, "");
        if (report->elsewhere_bytes) {
            add_size(writer, ", ", report->elsewhere_bytes, " among blocks of other sizes");
        }
        if (report->spare_bytes) {
            add_size(writer, ", ", report->spare_bytes, " mapped nowhere");
        }
        vr_writer_print(writer, ")");
    }
    add_part(writer, report->lost_bytes, " lost");
    add_part(writer, report->fallback_bytes, " of other memory");
    vr_writer_print(writer, "\n");
}

static void add_readers(struct vr_writer *writer, const struct vram_oom_report *report) {
    if (report->shared_bytes && !report->reader_count) {
        add_size(writer, "  shared   ", report->shared_bytes, " exported, opened by nobody\n");
    }
    for (uint32_t i = 0; i < report->reader_count; i++) {
        add_size(writer, "  shared   ", report->readers[i].bytes, "");
        if (report->readers[i].process) {
            vr_writer_print(writer, " shared with pid %llu\n",
                            (unsigned long long)report->readers[i].process);
        } else {
            vr_writer_print(writer, " shared with a process of another pid namespace\n");
        }
    }
}

static void add_addresses(struct vr_writer *writer, const struct vram_oom_report *report) {
    if (report->cause == VRAM_OOM_ADDRESSES) {
        add_size(writer, "  range    ", report->address_bytes, " of addresses for such blocks, ");
        add_size(writer, "", report->longest_bytes, " free in one run\n");
    }
}

static void add_lists(struct vr_writer *writer, const struct vram_oom_report *report) {
    for (uint32_t i = 0; i < report->queue_count; i++) {
        add_size(writer, "  pending  ", report->queues[i].bytes, "");
        vr_writer_print(writer, " on queue 0x%llx\n",
                        (unsigned long long)(uintptr_t)report->queues[i].queue);
    }
    for (uint32_t i = 0; i < report->pool_count; i++) {
        vr_writer_print(writer, "  pools    \"%s\": ", report->pools[i].name);
        add_size(writer, "", report->pools[i].reserved_bytes, " held, ");
        add_size(writer, "", report->pools[i].free_bytes, " of it unused\n");
    }
    for (uint32_t i = 0; i < report->holder_count; i++) {
        const struct vram_oom_holder *holder = &report->holders[i];
        vr_writer_print(
            writer,
            *holder->tag ? "  holders  \"%s\": " : "  holders  %swithout a tag: ", holder->tag);
        add_size(writer, "", holder->bytes, "");
        vr_writer_print(writer, " in %llu block%s\n", (unsigned long long)holder->blocks,
                        holder->blocks == 1 ? "" : "s");
    }
}

static void add_lenders(struct vr_writer *writer, const struct vram_oom_report *report) {
    for (uint32_t i = 0; i < report->lender_count; i++) {
        const struct vram_oom_lender *lender = &report->lenders[i];
        vr_writer_print(writer, "  leases   \"%s\" (process %llu, priority %d): ", lender->name,
                        (unsigned long long)lender->process, (int)lender->priority);
        add_size(writer, "gave ", lender->given_bytes, " of ");
        add_size(writer, "", lender->asked_bytes, "");
        vr_writer_print(writer, ": %s\n", vr_lease_why_text(lender->why));
    }
}

static void add_steps(struct vr_writer *writer, const struct vram_oom_report *report) {
    vr_writer_print(writer, "  ladder   ");
    for (uint32_t i = 0; i < report->step_count; i++) {
        const struct vram_oom_step *step = &report->steps[i];
        vr_writer_print(writer, "%s%s", i ? ", " : "", vr_ladder_step_name(step->step));
        if (!step->taken) {
            vr_writer_print(writer, step->step == VRAM_LADDER_FALLBACK && report->integrated
                                        ? " - (host memory is the device's)"
                                        : " -");
        } else if (step->bytes) {
            add_size(writer, " ", step->bytes, "");
        } else if (step->step != VRAM_LADDER_RETRY) {
            vr_writer_print(writer, " 0");
        }
    }
    vr_writer_print(writer, "%s\n", report->step_count ? "" : "no step was taken");
}

static void write_text(struct vr_writer *writer, const struct vram_oom_report *report) {
    vr_writer_print(writer, "%s\n", report->summary);
    add_request(writer, report);
    add_device(writer, report);
    add_pool(writer, report);
    add_readers(writer, report);
    add_addresses(writer, report);
    add_lists(writer, report);
    add_lenders(writer, report);
    add_steps(writer, report);
    vr_writer_print(writer, "  error    %s: %s\n", vr_status_name(report->status), report->error);
    vr_writer_print(writer, "  help     %s\n", report->advice);
}

/* ------------------------------------------------------------------------- JSON */

static void write_request(const struct vram_oom_report *report, struct vr_json *json) {
    vr_json_object_begin(json, "request");
    vr_json_text(json, "pool", report->pool_name);
    vr_json_text(json, "tag", *report->tag ? report->tag : NULL);
    vr_json_unsigned(json, "queue", (uintptr_t)report->queue);
    vr_json_unsigned(json, "asked_bytes", report->asked_bytes);
    vr_json_unsigned(json, "needed_bytes", report->needed_bytes);
    vr_json_unsigned(json, "alignment_bytes", report->alignment);
    vr_json_object_end(json);
}

static void write_device(const struct vram_oom_report *report, struct vr_json *json) {
    vr_json_object_begin(json, "device");
    vr_json_text(json, "name", report->device_name);
    vr_json_bool(json, "integrated", report->integrated);
    vr_json_value(json, "total_bytes", report->total_bytes);
    vr_json_value(json, "free_bytes", report->free_bytes);
    vr_json_unsigned(json, "process_bytes", report->process_bytes);
    vr_json_value(json, "others_bytes", report->others_bytes);
    vr_json_value(json, "processes_bytes", report->processes_bytes);
    vr_json_value(json, "limit_bytes", report->limit_bytes);
    vr_json_text(json, "limit", *report->limit_name ? report->limit_name : NULL);
    vr_json_object_end(json);
}

static void write_quota(const struct vram_oom_report *report, struct vr_json *json) {
    if (!*report->quota_tag) {
        vr_json_text(json, "quota", NULL);
        return;
    }
    vr_json_object_begin(json, "quota");
    vr_json_text(json, "tag", report->quota_tag);
    vr_json_unsigned(json, "hard_bytes", report->quota_bytes);
    vr_json_unsigned(json, "used_bytes", report->quota_used_bytes);
    vr_json_object_end(json);
}

static void write_pool(const struct vram_oom_report *report, struct vr_json *json) {
    vr_json_object_begin(json, "pool");
    vr_json_unsigned(json, "reserved_bytes", report->reserved_bytes);
    vr_json_unsigned(json, "live_bytes", report->live_bytes);
    vr_json_unsigned(json, "rounding_bytes", report->rounding_bytes);
    vr_json_unsigned(json, "cached_bytes", report->cached_bytes);
    vr_json_unsigned(json, "unused_bytes", report->unused_bytes);
    vr_json_unsigned(json, "largest_bytes", report->largest_bytes);
    vr_json_unsigned(json, "elsewhere_bytes", report->elsewhere_bytes);
    vr_json_unsigned(json, "spare_bytes", report->spare_bytes);
    vr_json_unsigned(json, "lost_bytes", report->lost_bytes);
    vr_json_unsigned(json, "pending_bytes", report->pending_bytes);
    vr_json_unsigned(json, "pinned_bytes", report->pinned_bytes);
    vr_json_unsigned(json, "asleep_bytes", report->asleep_bytes);
    vr_json_unsigned(json, "fallback_bytes", report->fallback_bytes);
    vr_json_unsigned(json, "stranded_bytes", report->stranded_bytes);
    vr_json_unsigned(json, "address_bytes", report->address_bytes);
    vr_json_unsigned(json, "longest_bytes", report->longest_bytes);
    vr_json_unsigned(json, "shared_bytes", report->shared_bytes);
    vr_json_object_end(json);
}

static void write_lists(const struct vram_oom_report *report, struct vr_json *json) {
    vr_json_array_begin(json, "pending");
    for (uint32_t i = 0; i < report->queue_count; i++) {
        vr_json_object_begin(json, NULL);
        vr_json_unsigned(json, "queue", (uintptr_t)report->queues[i].queue);
        vr_json_unsigned(json, "bytes", report->queues[i].bytes);
        vr_json_object_end(json);
    }
    vr_json_array_end(json);
    vr_json_array_begin(json, "other_pools");
    for (uint32_t i = 0; i < report->pool_count; i++) {
        vr_json_object_begin(json, NULL);
        vr_json_text(json, "name", report->pools[i].name);
        vr_json_unsigned(json, "reserved_bytes", report->pools[i].reserved_bytes);
        vr_json_unsigned(json, "unused_bytes", report->pools[i].free_bytes);
        vr_json_object_end(json);
    }
    vr_json_array_end(json);
    vr_json_array_begin(json, "shared_with");
    for (uint32_t i = 0; i < report->reader_count; i++) {
        vr_json_object_begin(json, NULL);
        vr_json_unsigned(json, "process", report->readers[i].process);
        vr_json_unsigned(json, "bytes", report->readers[i].bytes);
        vr_json_object_end(json);
    }
    vr_json_array_end(json);
    vr_json_array_begin(json, "holders");
    for (uint32_t i = 0; i < report->holder_count; i++) {
        vr_json_object_begin(json, NULL);
        vr_json_text(json, "tag", *report->holders[i].tag ? report->holders[i].tag : NULL);
        vr_json_unsigned(json, "bytes", report->holders[i].bytes);
        vr_json_unsigned(json, "blocks", report->holders[i].blocks);
        vr_json_object_end(json);
    }
    vr_json_array_end(json);
}

static void write_lease(const struct vram_oom_report *report, struct vr_json *json) {
    if (!report->lease_bytes.known) {
        vr_json_text(json, "lease", NULL);
        return;
    }
    vr_json_object_begin(json, "lease");
    vr_json_unsigned(json, "granted_bytes", report->lease_bytes.value);
    vr_json_text(json, "reason", *report->lease_reason ? report->lease_reason : NULL);
    vr_json_array_begin(json, "lenders");
    for (uint32_t i = 0; i < report->lender_count; i++) {
        const struct vram_oom_lender *lender = &report->lenders[i];
        vr_json_object_begin(json, NULL);
        vr_json_unsigned(json, "process", lender->process);
        vr_json_text(json, "name", lender->name);
        vr_json_number(json, "priority", lender->priority);
        vr_json_unsigned(json, "asked_bytes", lender->asked_bytes);
        vr_json_unsigned(json, "given_bytes", lender->given_bytes);
        vr_json_text(json, "why", vr_lease_why_name(lender->why));
        vr_json_object_end(json);
    }
    vr_json_array_end(json);
    vr_json_object_end(json);
}

static void write_steps(const struct vram_oom_report *report, struct vr_json *json) {
    vr_json_array_begin(json, "ladder");
    for (uint32_t i = 0; i < report->step_count; i++) {
        vr_json_object_begin(json, NULL);
        vr_json_text(json, "step", vr_ladder_step_name(report->steps[i].step));
        vr_json_unsigned(json, "taken", report->steps[i].taken);
        vr_json_unsigned(json, "bytes", report->steps[i].bytes);
        vr_json_unsigned(json, "ns", report->steps[i].ns);
        vr_json_object_end(json);
    }
    vr_json_array_end(json);
}

static vram_status write_json(struct vr_writer *writer, const struct vram_oom_report *report) {
    struct vr_json json;
    vr_json_document_begin(&json, writer);
    vr_json_object_begin(&json, NULL);
    vr_json_text(&json, "schema", "vram.oom/1");
    vr_json_unsigned(&json, "number", report->number);
    vr_json_text(&json, "status", vr_status_name(report->status));
    vr_json_text(&json, "cause", vr_oom_cause_name(report->cause));
    vr_json_text(&json, "summary", report->summary);
    vr_json_text(&json, "advice", report->advice);
    vr_json_text(&json, "error", report->error);
    write_request(report, &json);
    write_device(report, &json);
    write_quota(report, &json);
    write_pool(report, &json);
    write_lists(report, &json);
    write_steps(report, &json);
    write_lease(report, &json);
    vr_json_object_end(&json);
    return vr_json_document_end(&json, vr_operation());
}

/* ------------------------------------------------------------------------- both */

vram_status vram_oom_report_write(const vram_oom_report *report, vram_report_format format,
                                  vram_write_fn *write, void *user) {
    VR_CALL;
    struct vr_writer writer;
    vram_status status = vr_writer_begin(&writer, format, write, user, vr_operation());
    if (status != VRAM_OK) {
        return status;
    }
    if (!report || report->size < sizeof *report || !report->number) {
        return vr_fail(VRAM_ERR_INVALID, "%s",
                       report ? "vram_oom_report_get did not fill this report"
                              : "the report is NULL");
    }
    if (format == VRAM_REPORT_JSON) {
        return write_json(&writer, report);
    }
    write_text(&writer, report);
    return vr_writer_end(&writer, vr_operation());
}
