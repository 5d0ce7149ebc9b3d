/* SPDX-License-Identifier: Apache-2.0 */
/*
 * line_table.c: reads units, runs their programs and finds file names. See line_table.h.
 */
#include "base/os/line_table.h"

#include <string.h>

/* Names of the DWARF 5 standard, without its prefixes DW_LNS_, DW_LNE_, DW_LNCT_ and DW_FORM_. */
enum {
    OP_EXTENDED,
    OP_COPY,
    OP_ADVANCE_PC,
    OP_ADVANCE_LINE,
    OP_SET_FILE,
    OP_CONST_ADD_PC = 8,
    OP_FIXED_ADVANCE_PC,
    EXTENDED_END_SEQUENCE = 1,
    EXTENDED_SET_ADDRESS,
    CONTENT_PATH = 1,
    FORM_DATA2 = 0x05,
    FORM_DATA4,
    FORM_DATA8,
    FORM_STRING,
    FORM_BLOCK,
    FORM_BLOCK1,
    FORM_DATA1,
    FORM_SDATA = 0x0d,
    FORM_STRP,
    FORM_UDATA,
    FORM_DATA16 = 0x1e,
    FORM_LINE_STRP
};

/* --------------------------------------------------------------------- texts */

/* A text up to its final 0: what follows the last '/', truncated if it does not fit, goes to
   `name`, which may be NULL. False: the text is empty. */
static bool next_name(struct vr_dwarf_cursor *cursor, char *name) {
    uint32_t used = 0;
    bool any = false;
    for (uint8_t byte; (byte = vr_dwarf_byte(cursor)) != 0; any = true) {
        if (byte == '/') {
            used = 0;
        } else if (name && used + 1 < VR_CODE_FILE) {
            name[used++] = (char)byte;
        }
    }
    if (name) {
        name[used] = '\0';
    }
    return any;
}

/* --------------------------------------------------------------------- units */

struct unit {
    const struct vr_line_table *table;
    uint32_t version;
    uint32_t offset_bytes; /* of an offset: 4, or 8 in 64-bit DWARF */
    uint64_t end;          /* in the file, as the next two */
    uint64_t names;        /* lists of folders and files */
    uint64_t programs;
    uint32_t step; /* bytes of the smallest instruction */
    int32_t line_base;
    uint32_t line_range; /* > 0 */
    uint32_t opcode_base;
    uint8_t operands[256]; /* of each standard opcode */
};

/* Reads a header; the cursor then ends with the unit. False: there is none that can be read;
   `unit->end` is where the next one begins, or 0 if that is unknown. */
static bool next_unit(struct vr_dwarf_cursor *cursor, const struct vr_line_table *table,
                      struct unit *unit) {
    memset(unit, 0, sizeof *unit);
    unit->table = table;
    unit->offset_bytes = 4;
    uint64_t bytes = vr_dwarf_number(cursor, 4);
    if (bytes == UINT32_MAX) {
        unit->offset_bytes = 8;
        bytes = vr_dwarf_number(cursor, 8);
    }
    if (cursor->bad || bytes > cursor->end - cursor->at) {
        return false;
    }
    unit->end = cursor->end = cursor->at + bytes;
    unit->version = (uint32_t)vr_dwarf_number(cursor, 2);
    if (unit->version < 2 || unit->version > 5) {
        return false;
    }
    vr_dwarf_skip(cursor, unit->version >= 5 ? 2 : 0); /* sizes of an address and a selector */
    uint64_t header = vr_dwarf_number(cursor, unit->offset_bytes);
    if (cursor->bad || header > unit->end - cursor->at) {
        return false;
    }
    unit->programs = cursor->at + header;
    unit->step = vr_dwarf_byte(cursor);
    vr_dwarf_skip(cursor, unit->version >= 4 ? 2 : 1); /* operations per instruction, is_stmt */
    unit->line_base = (int8_t)vr_dwarf_byte(cursor);
    unit->line_range = vr_dwarf_byte(cursor);
    unit->opcode_base = vr_dwarf_byte(cursor);
    for (uint32_t i = 1; i < unit->opcode_base; i++) {
        unit->operands[i] = vr_dwarf_byte(cursor);
    }
    unit->names = cursor->at;
    return !cursor->bad && unit->names <= unit->programs && unit->line_range > 0;
}

/* ------------------------------------------------------------------ programs */

struct row {
    uint64_t address, file, line;
};

enum step { STEP_NONE, STEP_ROW, STEP_END };

static enum step run_extended(struct vr_dwarf_cursor *cursor, struct row *row) {
    uint64_t bytes = vr_dwarf_leb(cursor, false);
    if (bytes == 0) {
        return STEP_NONE;
    }
    uint8_t opcode = vr_dwarf_byte(cursor);
    if (opcode == EXTENDED_SET_ADDRESS && bytes - 1 <= sizeof row->address) {
        row->address = vr_dwarf_number(cursor, (uint32_t)bytes - 1);
    } else {
        vr_dwarf_skip(cursor, bytes - 1);
    }
    return opcode == EXTENDED_END_SEQUENCE && !cursor->bad ? STEP_END : STEP_NONE;
}

static enum step run_standard(struct vr_dwarf_cursor *cursor, const struct unit *unit,
                              uint8_t opcode, struct row *row) {
    switch (opcode) {
    case OP_COPY:
        return STEP_ROW;
    case OP_ADVANCE_PC:
        row->address += unit->step * vr_dwarf_leb(cursor, false);
        break;
    case OP_ADVANCE_LINE:
        row->line += vr_dwarf_leb(cursor, true);
        break;
    case OP_SET_FILE:
        row->file = vr_dwarf_leb(cursor, false);
        break;
    case OP_CONST_ADD_PC:
        row->address += (uint64_t)unit->step * ((255 - unit->opcode_base) / unit->line_range);
        break;
    case OP_FIXED_ADVANCE_PC:
        row->address += vr_dwarf_number(cursor, 2);
        break;
    default: /* columns, marks, and what later versions add */
        for (uint32_t i = 0; i < unit->operands[opcode]; i++) {
            (void)vr_dwarf_leb(cursor, false);
        }
    }
    return STEP_NONE;
}

/* Runs one instruction. */
static enum step run_step(struct vr_dwarf_cursor *cursor, const struct unit *unit,
                          struct row *row) {
    uint8_t opcode = vr_dwarf_byte(cursor);
    if (opcode >= unit->opcode_base) {
        uint32_t advance = opcode - unit->opcode_base;
        row->address += (uint64_t)unit->step * (advance / unit->line_range);
        row->line += (uint64_t)(unit->line_base + (int32_t)(advance % unit->line_range));
        return STEP_ROW;
    }
    return opcode == OP_EXTENDED ? run_extended(cursor, row)
                                 : run_standard(cursor, unit, opcode, row);
}

static const struct row first_row = {.file = 1, .line = 1};

/* Runs to the end of the sequence at the cursor. False: it has none. */
static bool next_sequence(struct vr_dwarf_cursor *cursor, const struct unit *unit,
                          struct vr_line_sequence *sequence) {
    struct row row = first_row;
    bool begun = false;
    sequence->low = sequence->high = 0; /* stays so without a row */
    while (!cursor->bad && cursor->at < cursor->end) {
        enum step step = run_step(cursor, unit, &row);
        if (step == STEP_ROW && !begun) {
            sequence->low = row.address;
            begun = true;
        } else if (step == STEP_END) {
            sequence->high = begun ? row.address : 0;
            return true;
        }
    }
    return false;
}

uint32_t vr_line_sequences(const struct vr_line_table *table, struct vr_line_sequence *list,
                           uint32_t capacity) {
    const struct vr_dwarf_section *lines = &table->lines;
    uint64_t unit_at = 0;
    uint32_t count = 0;
    while (count < capacity && unit_at < lines->bytes && lines->bytes <= UINT32_MAX) {
        struct vr_dwarf_cursor cursor;
        struct unit unit;
        vr_dwarf_begin(&cursor, &table->source, lines, unit_at);
        bool good = next_unit(&cursor, table, &unit);
        cursor.at = unit.programs;
        while (good && count < capacity) {
            struct vr_line_sequence *next = &list[count];
            next->unit = (uint32_t)unit_at;
            next->program = (uint32_t)(cursor.at - lines->offset);
            good = next_sequence(&cursor, &unit, next);
            /* The linker leaves code that it dropped at address 0. */
            count += good && next->low > 0 && next->low < next->high;
        }
        if (!unit.end) {
            break;
        }
        unit_at = unit.end - lines->offset;
    }
    return count;
}

/* --------------------------------------------------------------------- names */

/* Before DWARF 5: texts of folders, an empty one, then files: a text and three numbers each. */
static bool find_name_early(struct vr_dwarf_cursor *cursor, uint64_t file, char *name) {
    while (next_name(cursor, NULL)) {
    }
    for (uint64_t i = 1; i <= file && next_name(cursor, name); i++) {
        if (i == file) {
            return !cursor->bad;
        }
        for (int k = 0; k < 3; k++) { /* folder, time and size */
            (void)vr_dwarf_leb(cursor, false);
        }
    }
    return false;
}

/* What a folder or file of DWARF 5 has: pairs of what it is and how it is written. */
struct format {
    uint32_t count;
    struct {
        uint64_t content, form;
    } parts[8];
};

static bool next_format(struct vr_dwarf_cursor *cursor, struct format *format) {
    format->count = vr_dwarf_byte(cursor);
    if (format->count > sizeof format->parts / sizeof format->parts[0]) {
        return false;
    }
    for (uint32_t i = 0; i < format->count; i++) {
        format->parts[i].content = vr_dwarf_leb(cursor, false);
        format->parts[i].form = vr_dwarf_leb(cursor, false);
    }
    return !cursor->bad;
}

/* A name in another section. */
static void name_at(const struct vr_line_table *table, const struct vr_dwarf_section *section,
                    uint64_t offset, char *name) {
    struct vr_dwarf_cursor cursor;
    vr_dwarf_begin(&cursor, &table->source, section, offset);
    (void)next_name(&cursor, name);
    if (cursor.bad) {
        name[0] = '\0';
    }
}

/* Reads a value and, if it is a text, what lies behind its last '/', into `name`, which may be
   NULL. Consumes at least one byte. False: a form that is not known. */
static bool next_form(struct vr_dwarf_cursor *cursor, const struct unit *unit, uint64_t form,
                      char *name) {
    uint64_t offset;
    switch (form) {
    case FORM_STRING:
        (void)next_name(cursor, name);
        return true;
    case FORM_STRP:
    case FORM_LINE_STRP:
        offset = vr_dwarf_number(cursor, unit->offset_bytes);
        if (name) {
            const struct vr_line_table *table = unit->table;
            name_at(table, form == FORM_STRP ? &table->names : &table->line_names, offset, name);
        }
        return true;
    case FORM_DATA1:
        vr_dwarf_skip(cursor, 1);
        return true;
    case FORM_DATA2:
        vr_dwarf_skip(cursor, 2);
        return true;
    case FORM_DATA4:
        vr_dwarf_skip(cursor, 4);
        return true;
    case FORM_DATA8:
        vr_dwarf_skip(cursor, 8);
        return true;
    case FORM_DATA16:
        vr_dwarf_skip(cursor, 16);
        return true;
    case FORM_UDATA:
    case FORM_SDATA:
        (void)vr_dwarf_leb(cursor, false);
        return true;
    case FORM_BLOCK:
        vr_dwarf_skip(cursor, vr_dwarf_leb(cursor, false));
        return true;
    case FORM_BLOCK1:
        vr_dwarf_skip(cursor, vr_dwarf_byte(cursor));
        return true;
    default:
        return false;
    }
}

/* Goes through a list of DWARF 5 up to entry `last`, whose path goes to `name`, or through all of
   it if `name` is NULL. */
static bool read_entries(struct vr_dwarf_cursor *cursor, const struct unit *unit, uint64_t last,
                         char *name) {
    struct format format;
    if (!next_format(cursor, &format)) {
        return false;
    }
    uint64_t count = vr_dwarf_leb(cursor, false);
    if (format.count == 0 || (name && last >= count)) {
        return !name && count == 0;
    }
    for (uint64_t i = 0; i < count && !cursor->bad; i++) {
        for (uint32_t k = 0; k < format.count; k++) {
            bool wanted = name && i == last && format.parts[k].content == CONTENT_PATH;
            if (!next_form(cursor, unit, format.parts[k].form, wanted ? name : NULL)) {
                return false;
            }
        }
        if (name && i == last) {
            break;
        }
    }
    return !cursor->bad;
}

static bool find_name(struct vr_dwarf_cursor *cursor, const struct unit *unit, uint64_t file,
                      char *name) {
    name[0] = '\0';
    bool found = unit->version < 5 ? find_name_early(cursor, file, name)
                                   : read_entries(cursor, unit, 0, NULL) &&
                                         read_entries(cursor, unit, file, name);
    return found && name[0] != '\0';
}

/* The last row that is not behind `address`. Line 0 is code that belongs to no line. */
static bool find_row(struct vr_dwarf_cursor *cursor, const struct unit *unit, uint64_t address,
                     struct row *found) {
    struct row row = first_row;
    *found = (struct row){.line = 0};
    while (!cursor->bad && cursor->at < cursor->end) {
        enum step step = run_step(cursor, unit, &row);
        if (step != STEP_NONE && row.address > address) {
            return found->line > 0 && found->line <= UINT32_MAX;
        } else if (step == STEP_END) {
            return false;
        } else if (step == STEP_ROW) {
            *found = row;
        }
    }
    return false;
}

bool vr_line_find(const struct vr_line_table *table, const struct vr_line_sequence *sequence,
                  uint64_t address, struct vr_code_source *source) {
    struct vr_dwarf_cursor cursor;
    struct unit unit;
    struct row row;
    vr_dwarf_begin(&cursor, &table->source, &table->lines, sequence->unit);
    if (!next_unit(&cursor, table, &unit)) {
        return false;
    }
    cursor.at = table->lines.offset + sequence->program;
    if (!find_row(&cursor, &unit, address, &row)) {
        return false;
    }
    cursor.at = unit.names;
    cursor.end = unit.programs;
    char name[VR_CODE_FILE];
    if (!find_name(&cursor, &unit, row.file, name)) {
        return false;
    }
    memcpy(source->file, name, sizeof name);
    source->line = (uint32_t)row.line;
    return true;
}
