/* SPDX-License-Identifier: Apache-2.0 */
/*
 * foreign_list.c: all records of foreign memory of a device, for queries and at the context's end.
 */
#include "core/limit/foreign_record.h"
#include "core/limit/tag.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "track/leak_output.h"

bool vr_foreigns_copy(const struct vr_foreigns *foreigns, struct vr_tracks *tracks) {
    if (!foreigns->count) {
        return true;
    }
    size_t count = tracks->foreign_count + foreigns->count;
    struct vr_track_view *views =
        vr_mem_resize(tracks->foreign, count, sizeof *views, vr_operation());
    if (!views) {
        return false;
    }
    tracks->foreign = views;
    for (size_t i = 0; i < foreigns->count; i++) {
        const struct vr_foreign *record = foreigns->records[i];
        struct vr_track_view *view = &views[tracks->foreign_count];
        *view = (struct vr_track_view){.id = record->id,
                                       .requested = record->bytes,
                                       .held = record->bytes,
                                       .number = tracks->foreign_count++,
                                       .time_ns = record->since_ns,
                                       .memory = record->kind,
                                       .elements = record->elements,
                                       .site.tag = vr_tag_name(record->tag),
                                       .foreign = true,
                                       .device = record->device};
        (void)vr_text_copy(view->name, sizeof view->name, record->name);
    }
    return true;
}

void vr_foreigns_tell(const struct vr_foreigns *foreigns) {
    VR_OPERATION("vram_context_destroy");
    struct vr_tracks records = {0};
    struct vram_error error;
    bool heard = vr_option_number(VR_OPTION_LEAKS) || vr_log_enabled(VRAM_LOG_WARN);
    if (!foreigns->count || !heard) {
        return;
    }
    vr_error_save(&error);
    if (vr_foreigns_copy(foreigns, &records)) {
        vr_leaks_tell(&records, "foreign memory");
    }
    vr_tracks_let_go(&records);
    vr_error_restore(&error);
}

void vr_foreigns_free(struct vr_foreigns *foreigns) {
    for (size_t i = 0; i < foreigns->count; i++) {
        vr_mem_free(foreigns->records[i]);
    }
    vr_mem_free(foreigns->records);
}
