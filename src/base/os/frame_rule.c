/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frame_rule.c: see frame_rule.h.
 *
 * .eh_frame_hdr is a sorted list of functions and their entries in .eh_frame. An entry refers to
 * one that many functions share, and has a program that changes the rule as the address rises.
 */
#include "base/os/frame_rule.h"

#include <string.h>

/* Names of the DWARF 5 standard and of the LSB, without DW_CFA_, DW_OP_ and DW_EH_PE_. */
enum {
    OP_NOP = 0x00,
    OP_SET_LOC,
    OP_ADVANCE_LOC1,
    OP_ADVANCE_LOC2,
    OP_ADVANCE_LOC4,
    OP_OFFSET_EXTENDED,
    OP_RESTORE_EXTENDED,
    OP_UNDEFINED,
    OP_SAME_VALUE,
    OP_REGISTER,
    OP_REMEMBER_STATE,
    OP_RESTORE_STATE,
    OP_DEF_CFA,
    OP_DEF_CFA_REGISTER,
    OP_DEF_CFA_OFFSET,
    OP_DEF_CFA_EXPRESSION,
    OP_EXPRESSION,
    OP_OFFSET_EXTENDED_SF,
    OP_DEF_CFA_SF,
    OP_DEF_CFA_OFFSET_SF,
    OP_VAL_OFFSET,
    OP_VAL_OFFSET_SF,
    OP_VAL_EXPRESSION,
    OP_AARCH64_NEGATE_RA_STATE_WITH_PC = 0x2c,
    OP_AARCH64_NEGATE_RA_STATE,
    OP_GNU_ARGS_SIZE,
    OP_ADVANCE_LOC = 0x40, /* these three have an operand in their lower six bits */
    OP_OFFSET = 0x80,
    OP_RESTORE = 0xc0,
    EXPRESSION_DEREF = 0x06,
    EXPRESSION_BREG0 = 0x70, /* 32 of them */
    PE_ULEB128 = 0x01,
    PE_UDATA4 = 0x03,
    PE_SIGNED = 0x08,
    PE_PCREL = 0x10,
    PE_INDEX = 0x3b /* sdata4, relative to the index: what linkers write */
};

/* ------------------------------------------------------------------ pointers */

/* Bytes of a number with this encoding; 0: LEB128, or not known. */
static uint32_t pointer_bytes(uint32_t encoding) {
    static const uint8_t bytes[8] = {8, 0, 2, 4, 8};
    return bytes[encoding & 7];
}

/* The number itself, without what it is relative to. */
static uint64_t next_value(struct vr_dwarf_cursor *cursor, uint32_t encoding) {
    bool is_signed = encoding & PE_SIGNED;
    uint32_t bytes = pointer_bytes(encoding);
    if ((encoding & 7) == PE_ULEB128) {
        return vr_dwarf_leb(cursor, is_signed);
    }
    cursor->bad = cursor->bad || bytes == 0;
    uint64_t value = vr_dwarf_number(cursor, bytes);
    uint32_t unused = 64 - 8 * (bytes ? bytes : 8);
    return is_signed ? (uint64_t)((int64_t)(value << unused) >> unused) : value;
}

static uint64_t next_pointer(struct vr_dwarf_cursor *cursor, uint32_t encoding) {
    uint64_t from = cursor->at;
    uint32_t relative = encoding & 0xF0;
    cursor->bad = cursor->bad || (relative != 0 && relative != PE_PCREL);
    return next_value(cursor, encoding) + (relative == PE_PCREL ? from : 0);
}

/* ------------------------------------------------------------------- entries */

/* What functions share (CIE). */
struct shared {
    uint64_t code_step;   /* of addresses */
    uint64_t offset_step; /* of offsets, in two's complement */
    uint32_t encoding;    /* of addresses */
    bool has_size;        /* the entries of functions have an augmentation */
    bool is_signal;       /* the function was not called: a signal came */
};

/* Puts the cursor behind the size of the entry at an address, and its end at the entry's. Returns
   how many bytes a reference has. */
static uint32_t entry_begin(struct vr_dwarf_cursor *cursor, const struct vr_frame_table *table,
                            uint64_t address) {
    uint32_t reference = 4;
    vr_dwarf_begin(cursor, &table->source, &table->segment, address - table->segment.offset);
    uint64_t bytes = vr_dwarf_number(cursor, 4);
    if (bytes == UINT32_MAX) {
        reference = 8;
        bytes = vr_dwarf_number(cursor, 8);
    }
    cursor->bad = cursor->bad || bytes > cursor->end - cursor->at;
    cursor->end = cursor->bad ? cursor->at : cursor->at + bytes;
    return reference;
}

/* The letters of the augmentation say what its data is. */
static void shared_augment(struct vr_dwarf_cursor *cursor, const char *letters,
                           struct shared *shared) {
    uint64_t bytes = vr_dwarf_leb(cursor, false), data = cursor->at;
    shared->has_size = true;
    for (; *letters && !cursor->bad; letters++) {
        switch (*letters) {
        case 'R':
            shared->encoding = vr_dwarf_byte(cursor);
            break;
        case 'P':
            (void)next_value(cursor, vr_dwarf_byte(cursor));
            break;
        case 'L':
            (void)vr_dwarf_byte(cursor);
            break;
        case 'S':
            shared->is_signal = true;
            break;
        case 'B': /* which key signs return addresses */
        case 'G':
            break;
        default:
            cursor->bad = true;
        }
    }
    vr_dwarf_skip(cursor, data + bytes - cursor->at);
}

/* Reads the entry at an address; the cursor is then at its program. */
static void shared_begin(struct vr_dwarf_cursor *cursor, const struct vr_frame_table *table,
                         uint64_t address, struct shared *shared) {
    char letters[8] = "";
    memset(shared, 0, sizeof *shared);
    uint64_t id = vr_dwarf_number(cursor, entry_begin(cursor, table, address));
    uint32_t version = vr_dwarf_byte(cursor), used = 0;
    while ((letters[used] = (char)vr_dwarf_byte(cursor)) != 0 && ++used < sizeof letters) {
    }
    cursor->bad = cursor->bad || id != 0 || (version != 1 && version != 3) ||
                  used == sizeof letters || (used && letters[0] != 'z');
    shared->code_step = vr_dwarf_leb(cursor, false);
    shared->offset_step = vr_dwarf_leb(cursor, true);
    uint64_t ret = version == 1 ? vr_dwarf_byte(cursor) : vr_dwarf_leb(cursor, false);
    cursor->bad = cursor->bad || ret != (uint64_t)VR_FRAME_RETURN;
    if (!cursor->bad && used) {
        shared_augment(cursor, letters + 1, shared);
    }
}

/* ------------------------------------------------------------------ programs */

enum where { WHERE_SAME, WHERE_NOWHERE, WHERE_OTHER, WHERE_CFA, WHERE_SP, WHERE_FP };

/* Where a register is kept, or how the CFA is computed. */
struct place {
    enum where where;
    bool stored; /* the value lies there; of the CFA alone */
    uint64_t offset;
};

struct places {
    struct place cfa, ret, fp;
};

struct program {
    struct vr_dwarf_cursor *cursor;
    const struct shared *shared;
    uint64_t address, wanted; /* where the rule is valid from, and for what it is sought */
    struct places now;
    struct places initial; /* by the shared program */
    struct places remembered[8];
    uint32_t depth;
};

static enum where where_register(uint64_t number) {
    return number == (uint64_t)VR_FRAME_SP   ? WHERE_SP
           : number == (uint64_t)VR_FRAME_FP ? WHERE_FP
                                             : WHERE_OTHER;
}

static void register_set(struct program *program, uint64_t number, struct place place) {
    if (number == (uint64_t)VR_FRAME_RETURN) {
        program->now.ret = place;
    } else if (number == (uint64_t)VR_FRAME_FP) {
        program->now.fp = place;
    }
}

static void register_restore(struct program *program, uint64_t number) {
    const struct places *initial = &program->initial;
    register_set(program, number, number == (uint64_t)VR_FRAME_RETURN ? initial->ret : initial->fp);
}

static struct place at_cfa(const struct program *program, uint64_t steps) {
    return (struct place){WHERE_CFA, false, steps * program->shared->offset_step};
}

/* Register plus offset, or what lies there. All else is WHERE_OTHER. */
static struct place next_expression(struct vr_dwarf_cursor *cursor) {
    uint64_t bytes = vr_dwarf_leb(cursor, false), begin = cursor->at;
    struct place place = {WHERE_OTHER, false, 0};
    uint32_t number = vr_dwarf_byte(cursor) - (uint32_t)EXPRESSION_BREG0;
    if (bytes >= 2 && number < 32) {
        place = (struct place){where_register(number), false, vr_dwarf_leb(cursor, true)};
        uint64_t rest = begin + bytes - cursor->at;
        place.stored = rest == 1 && vr_dwarf_byte(cursor) == EXPRESSION_DEREF;
        if (rest > 0 && !place.stored) {
            place.where = WHERE_OTHER;
        }
    }
    cursor->bad = cursor->bad || cursor->at - begin > bytes;
    vr_dwarf_skip(cursor, begin + bytes - cursor->at);
    return place;
}

static void program_remember(struct program *program) {
    if (program->depth < sizeof program->remembered / sizeof program->remembered[0]) {
        program->remembered[program->depth++] = program->now;
    } else {
        program->cursor->bad = true;
    }
}

static void program_recall(struct program *program) {
    if (program->depth) {
        program->now = program->remembered[--program->depth];
    } else {
        program->cursor->bad = true;
    }
}

/* Instructions about the CFA. False: it is none of them. */
static bool run_cfa(struct program *program, uint8_t op) {
    struct vr_dwarf_cursor *cursor = program->cursor;
    struct place *cfa = &program->now.cfa;
    switch (op) {
    case OP_DEF_CFA:
    case OP_DEF_CFA_SF:
        *cfa = (struct place){where_register(vr_dwarf_leb(cursor, false)), false, 0};
        cfa->offset = op == OP_DEF_CFA ? vr_dwarf_leb(cursor, false)
                                       : vr_dwarf_leb(cursor, true) * program->shared->offset_step;
        return true;
    case OP_DEF_CFA_REGISTER:
        *cfa = (struct place){where_register(vr_dwarf_leb(cursor, false)), false, cfa->offset};
        return true;
    case OP_DEF_CFA_OFFSET:
        cfa->offset = vr_dwarf_leb(cursor, false);
        return true;
    case OP_DEF_CFA_OFFSET_SF:
        cfa->offset = vr_dwarf_leb(cursor, true) * program->shared->offset_step;
        return true;
    case OP_DEF_CFA_EXPRESSION:
        *cfa = next_expression(cursor);
        return true;
    default:
        return false;
    }
}

/* Instructions about another register, whose number comes first. False: it is none of them. */
static bool run_register(struct program *program, uint8_t op) {
    struct vr_dwarf_cursor *cursor = program->cursor;
    struct place place = {WHERE_OTHER, false, 0};
    if (!(op >= OP_OFFSET_EXTENDED && op <= OP_REGISTER) &&
        !(op >= OP_EXPRESSION && op <= OP_VAL_EXPRESSION && op != OP_DEF_CFA_SF &&
          op != OP_DEF_CFA_OFFSET_SF)) {
        return false;
    }
    uint64_t number = vr_dwarf_leb(cursor, false);
    switch (op) {
    case OP_OFFSET_EXTENDED:
    case OP_OFFSET_EXTENDED_SF:
        place = at_cfa(program, vr_dwarf_leb(cursor, op == OP_OFFSET_EXTENDED_SF));
        break;
    case OP_RESTORE_EXTENDED:
        register_restore(program, number);
        return true;
    case OP_UNDEFINED:
        place.where = WHERE_NOWHERE;
        break;
    case OP_SAME_VALUE:
        place.where = WHERE_SAME;
        break;
    case OP_EXPRESSION:
        place = next_expression(cursor);
        break;
    case OP_VAL_EXPRESSION:
        (void)next_expression(cursor);
        break;
    default: /* in another register, or a value relative to the CFA */
        (void)vr_dwarf_leb(cursor, false);
    }
    register_set(program, number, place);
    return true;
}

static void run_other(struct program *program, uint8_t op) {
    struct vr_dwarf_cursor *cursor = program->cursor;
    switch (op) {
    case OP_SET_LOC:
        program->address = next_pointer(cursor, program->shared->encoding);
        break;
    case OP_ADVANCE_LOC1:
    case OP_ADVANCE_LOC2:
    case OP_ADVANCE_LOC4:
        program->address += vr_dwarf_number(cursor, UINT32_C(1) << (op - OP_ADVANCE_LOC1)) *
                            program->shared->code_step;
        break;
    case OP_REMEMBER_STATE:
        program_remember(program);
        break;
    case OP_RESTORE_STATE:
        program_recall(program);
        break;
    case OP_GNU_ARGS_SIZE:
        (void)vr_dwarf_leb(cursor, false);
        break;
    case OP_NOP:
    case OP_AARCH64_NEGATE_RA_STATE:
    case OP_AARCH64_NEGATE_RA_STATE_WITH_PC:
        break;
    default:
        cursor->bad = true;
    }
}

/* Runs up to the rows behind the wanted address. False: the program is not understood. */
static bool program_run(struct program *program, struct vr_dwarf_cursor *cursor) {
    program->cursor = cursor;
    while (cursor->at < cursor->end && !cursor->bad && program->address <= program->wanted) {
        uint8_t op = vr_dwarf_byte(cursor), operand = op & 0x3F;
        switch (op & 0xC0) {
        case OP_ADVANCE_LOC:
            program->address += operand * program->shared->code_step;
            break;
        case OP_OFFSET:
            register_set(program, operand, at_cfa(program, vr_dwarf_leb(cursor, false)));
            break;
        case OP_RESTORE:
            register_restore(program, operand);
            break;
        default:
            if (!run_cfa(program, op) && !run_register(program, op)) {
                run_other(program, op);
            }
        }
    }
    return !cursor->bad;
}

/* --------------------------------------------------------------------- rules */

/* Whether an offset is a number of words that a rule can hold. */
static bool words_of(uint64_t offset, int16_t *words) {
    int64_t value = (int64_t)offset / 8;
    *words = (int16_t)value;
    return offset % 8 == 0 && value == *words;
}

/* Whether a register lies on the stack relative to the CFA or to its base. */
static bool is_on_stack(const struct place *place, enum where base) {
    return !place->stored && (place->where == WHERE_CFA || place->where == base);
}

static struct vr_frame_rule rule_make(const struct places *places, bool is_signal) {
    const struct vr_frame_rule unknown = {.kind = VR_FRAME_UNKNOWN};
    enum where base = places->cfa.where;
    bool fp_same = places->fp.where == WHERE_SAME || places->fp.where == WHERE_NOWHERE;
    int16_t cfa, ret, fp;
    if (places->ret.where == WHERE_NOWHERE) {
        return (struct vr_frame_rule){.kind = VR_FRAME_LAST};
    }
    if ((base != WHERE_SP && base != WHERE_FP) || !is_on_stack(&places->ret, base) ||
        !(fp_same || is_on_stack(&places->fp, base)) || !words_of(places->cfa.offset, &cfa) ||
        !words_of(places->ret.offset, &ret) || !words_of(fp_same ? 0 : places->fp.offset, &fp)) {
        return unknown;
    }
    return (struct vr_frame_rule){.kind = VR_FRAME_STEP,
                                  .from_fp = base == WHERE_FP,
                                  .cfa_stored = places->cfa.stored,
                                  .return_based = places->ret.where == base,
                                  .fp_based = !fp_same && places->fp.where == base,
                                  .fp_same = fp_same,
                                  .interrupted = is_signal,
                                  .cfa = cfa,
                                  .ret = ret,
                                  .fp = fp};
}

/* The entry of the last function that begins at or before the address; 0: there is none. */
static uint64_t index_search(const struct vr_frame_table *table, uint64_t address) {
    struct vr_dwarf_cursor cursor;
    vr_dwarf_begin(&cursor, &table->source, &table->segment, table->index - table->segment.offset);
    uint32_t version = vr_dwarf_byte(&cursor), start = vr_dwarf_byte(&cursor);
    uint32_t number = vr_dwarf_byte(&cursor), form = vr_dwarf_byte(&cursor);
    if (version != 1 || number != PE_UDATA4 || form != PE_INDEX) {
        return 0;
    }
    (void)next_value(&cursor, start); /* of .eh_frame */
    uint64_t low = 0, high = vr_dwarf_number(&cursor, 4), rows = cursor.at;
    if (cursor.bad || high > (cursor.end - rows) / 8) {
        return 0;
    }
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        cursor.at = rows + 8 * middle;
        if (table->index + next_value(&cursor, PE_INDEX) <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    cursor.at = rows + 8 * low - 4; /* of the row before, if there is one */
    uint64_t entry = low ? table->index + next_value(&cursor, PE_INDEX) : 0;
    return cursor.bad ? 0 : entry;
}

struct vr_frame_rule vr_frame_rule_find(const struct vr_frame_table *table, uint64_t address) {
    const struct vr_frame_rule unknown = {.kind = VR_FRAME_UNKNOWN};
    struct vr_dwarf_cursor cursor, shared_cursor;
    struct shared shared;
    uint64_t entry = index_search(table, address);
    if (!entry) {
        return unknown;
    }
    uint32_t reference = entry_begin(&cursor, table, entry);
    uint64_t place = cursor.at, back = vr_dwarf_number(&cursor, reference);
    if (cursor.bad || back == 0) {
        return unknown;
    }
    shared_begin(&shared_cursor, table, place - back, &shared);
    uint64_t begin = next_pointer(&cursor, shared.encoding);
    uint64_t bytes = next_value(&cursor, shared.encoding);
    if (shared.has_size) {
        vr_dwarf_skip(&cursor, vr_dwarf_leb(&cursor, false));
    }
    bool is_x86 = VR_FRAME_SP == 7; /* elsewhere signal frames are not described so */
    if (cursor.bad || shared_cursor.bad || address < begin || address - begin >= bytes ||
        (shared.is_signal && !is_x86)) {
        return unknown;
    }
    struct program program = {.shared = &shared, .wanted = address};
    if (!program_run(&program, &shared_cursor)) {
        return unknown;
    }
    program.initial = program.now;
    program.address = begin;
    return program_run(&program, &cursor) ? rule_make(&program.now, shared.is_signal) : unknown;
}
