/* SPDX-License-Identifier: Apache-2.0 */
/*
 * python_layout.c: see python_layout.h.
 */
#include "track/python_layout.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------- layouts */

static const struct vr_python_layout layouts[] = {
    /* 3.9 */
    {.thread_interpreter = 16,
     .thread_frame = 24,
     .frame_object = true,
     .frame_previous = 24,
     .frame_code = 32,
     .frame_instruction = 104,
     .code_file = 104,
     .code_name = 112,
     .code_lines = 120,
     .code_first = 40,
     .instruction_bytes = 1,
     .text_ascii = 48,
     .text_wide = 72,
     .lines = VR_PYTHON_STEPS},
    /* 3.10 */
    {.thread_interpreter = 16,
     .thread_frame = 24,
     .frame_object = true,
     .frame_previous = 24,
     .frame_code = 32,
     .frame_instruction = 96,
     .code_file = 104,
     .code_name = 112,
     .code_lines = 120,
     .code_first = 40,
     .instruction_bytes = 2,
     .text_ascii = 48,
     .text_wide = 72,
     .lines = VR_PYTHON_RANGES},
    /* 3.11 */
    {.thread_interpreter = 16,
     .thread_frame = 56,
     .frame_between = true,
     .between = 8,
     .frame_previous = 48,
     .frame_code = 32,
     .frame_instruction = 56,
     .code_file = 112,
     .code_name = 120,
     .code_lines = 136,
     .code_first = 72,
     .code_instructions = 184,
     .text_ascii = 48,
     .text_wide = 72,
     .lines = VR_PYTHON_LOCATIONS},
    /* 3.12 */
    {.thread_interpreter = 16,
     .thread_frame = 56,
     .frame_between = true,
     .between = 0,
     .frame_previous = 8,
     .frame_code = 0,
     .frame_instruction = 56,
     .frame_owner = 70,
     .code_file = 112,
     .code_name = 120,
     .code_lines = 136,
     .code_first = 68,
     .code_instructions = 192,
     .text_ascii = 40,
     .text_wide = 56,
     .lines = VR_PYTHON_LOCATIONS},
};

/* The table of a newer interpreter, as far as it is read: words, at these places. */
enum { TABLE_VERSION = 1, TABLE_FREE_THREADED = 2 };
static const char table_cookie[] = "xdebugpy";

static const struct table_places {
    unsigned thread, frame, code; /* the size of each struct; its fields follow */
} table_places[] = {
    {19, 28, 34}, /* 3.13 */
    {22, 31, 39}, /* 3.14 */
};

/* Keeps the offset of a field; false: it is not one of a field that we could read. */
static bool field_take(const uint64_t *table, unsigned place, uint16_t *offset) {
    *offset = (uint16_t)table[place];
    return table[place] < 1024;
}

static bool layout_by_table(unsigned minor, const void *from, struct vr_python_layout *layout) {
    uint64_t table[64];
    if (!from || minor - 13 >= sizeof table_places / sizeof table_places[0]) {
        return false;
    }
    const struct table_places *at = &table_places[minor - 13];
    memcpy(table, from, sizeof table);
    if (memcmp(table, table_cookie, sizeof table[0]) != 0 ||
        table[TABLE_VERSION] >> 16 != (3 << 8 | minor) || table[TABLE_FREE_THREADED]) {
        return false;
    }
    *layout =
        (struct vr_python_layout){.text_ascii = 40, .text_wide = 56, .lines = VR_PYTHON_LOCATIONS};
    return field_take(table, at->thread + 3, &layout->thread_interpreter) &&
           field_take(table, at->thread + 4, &layout->thread_frame) &&
           field_take(table, at->frame + 1, &layout->frame_previous) &&
           field_take(table, at->frame + 2, &layout->frame_code) &&
           field_take(table, at->frame + 3, &layout->frame_instruction) &&
           field_take(table, at->frame + 5, &layout->frame_owner) &&
           field_take(table, at->code + 1, &layout->code_file) &&
           field_take(table, at->code + 2, &layout->code_name) &&
           field_take(table, at->code + 4, &layout->code_lines) &&
           field_take(table, at->code + 5, &layout->code_first) &&
           field_take(table, at->code + 9, &layout->code_instructions);
}

/* The end of the last of these fields, if they are words. */
static uint16_t end_of(const uint16_t *offsets, size_t count) {
    uint16_t end = 0;
    for (size_t i = 0; i < count; i++) {
        end = offsets[i] > end ? offsets[i] : end;
    }
    return (uint16_t)(end + sizeof(uintptr_t));
}

static bool layout_measure(struct vr_python_layout *layout) {
    const uint16_t frame[] = {layout->frame_previous, layout->frame_code, layout->frame_instruction,
                              layout->frame_owner};
    const uint16_t code[] = {layout->code_file, layout->code_name, layout->code_lines,
                             layout->code_first};
    layout->frame_bytes = end_of(frame, sizeof frame / sizeof frame[0]);
    layout->code_bytes = end_of(code, sizeof code / sizeof code[0]);
    return layout->frame_bytes <= VR_PYTHON_STRUCT && layout->code_bytes <= VR_PYTHON_STRUCT;
}

/* "3.12.1 (main, ...": a release. Structures may still change before the first one ("3.13.0a1"). */
bool vr_python_layout_of(const char *version, const void *table, struct vr_python_layout *layout) {
    char *end;
    if (strncmp(version, "3.", 2) != 0) {
        return false;
    }
    unsigned long minor = strtoul(version + 2, &end, 10);
    if (*end != '.' || minor < 9) {
        return false;
    }
    (void)strtoul(end + 1, &end, 10);
    if (*end == 'a' || *end == 'b') {
        return false;
    }
    if (minor - 9 < sizeof layouts / sizeof layouts[0]) {
        *layout = layouts[minor - 9];
        return layout_measure(layout);
    }
    return layout_by_table((unsigned)minor, table, layout) && layout_measure(layout);
}

/* -------------------------------------------------------------- the interpreter */

/* One thread looks at a time; others meanwhile see none. */
enum { UNKNOWN, LOOKING, FOUND, REJECTED };
static vr_atomic_u32 state;
static struct vr_python python; /* written while LOOKING */

static bool symbol_take(const char *name, void *place) {
    void *symbol = vr_os_library_symbol(NULL, name);
    memcpy(place, &symbol, sizeof symbol);
    return symbol != NULL;
}

/* The lock of the loader is taken, and none of ours is held: a constructor may allocate. */
static uint32_t python_find(struct vr_python *found) {
    const char *(*version)(void);
    void *table = NULL;
    if (!symbol_take("PyGILState_GetThisThreadState", &found->thread_state)) {
        return UNKNOWN;
    }
    bool known = symbol_take("_PyRuntime", &table) && /* which no program has a copy of */
                 symbol_take("Py_GetVersion", &version) &&
                 symbol_take("PyInterpreterState_Main", &found->interpreter_first) &&
                 symbol_take("PyInterpreterState_Head", &found->interpreter_latest) &&
                 symbol_take("PyGILState_Check", &found->is_locked) &&
                 (symbol_take("Py_IsFinalizing", &found->is_finalizing) ||
                  symbol_take("_Py_IsFinalizing", &found->is_finalizing)) &&
                 symbol_take("PyCode_Type", &found->code_type) &&
                 symbol_take("PyUnicode_Type", &found->text_type) &&
                 symbol_take("PyBytes_Type", &found->bytes_type) &&
                 symbol_take("PyFrame_Type", &found->frame_type) &&
                 vr_os_module_keep(table, &found->module) &&
                 vr_python_layout_of(version(), table, &found->layout);
    found->alone = strstr(found->module.name, "python") != NULL;
    return known ? FOUND : REJECTED;
}

const struct vr_python *vr_python_get(void) {
    return vr_load(&state, VR_ACQUIRE) == FOUND ? &python : NULL;
}

const struct vr_python *vr_python_look(void) {
    uint32_t seen = UNKNOWN;
    if (vr_cas(&state, &seen, LOOKING, VR_ACQUIRE)) {
        vr_store(&state, python_find(&python), VR_RELEASE);
    }
    return vr_python_get();
}

void vr_python_reject(void) {
    vr_store(&state, REJECTED, VR_RELEASE);
}
