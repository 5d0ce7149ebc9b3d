/* SPDX-License-Identifier: Apache-2.0 */
/*
 * line_table.h: the lines of code addresses, from DWARF 2 to 5 (.debug_line, which -g writes).
 *
 * The section is a list of units, one per compiled file. A unit is a header, its list of file
 * names, and programs that produce rows of (address, file, line), addresses rising. A program for
 * one contiguous range of addresses is a sequence:
 *
 *      .debug_line:  | header | file names | sequence | sequence | header | file names | ...
 *                      unit                 ^ program
 *
 *  (1) The bytes are untrusted: each is read within its section, and every loop consumes bytes, so
 *      a call takes time proportional to the bytes it may read.
 *  (2) Nothing is allocated and nothing is kept between calls.
 */
#ifndef VR_LINE_TABLE_H
#define VR_LINE_TABLE_H

#include "base/os/dwarf_cursor.h"
#include "base/os/os.h"

struct vr_line_table {
    struct vr_dwarf_source source;
    struct vr_dwarf_section lines;      /* .debug_line, less than 4 GiB */
    struct vr_dwarf_section line_names; /* .debug_line_str, DWARF 5 */
    struct vr_dwarf_section names;      /* .debug_str */
};

struct vr_line_sequence {
    uint64_t low, high;     /* addresses, without `high` */
    uint32_t unit, program; /* offsets in .debug_line */
};

/* Lists the sequences in the order of the file, and returns how many. Stops when the list is full,
   or at a unit that goes past the section. Code that the linker dropped is left out. */
uint32_t vr_line_sequences(const struct vr_line_table *table, struct vr_line_sequence *list,
                           uint32_t capacity);

/* File name, without its folder, and line of an address in a sequence. False: unknown. */
bool vr_line_find(const struct vr_line_table *table, const struct vr_line_sequence *sequence,
                  uint64_t address, struct vr_code_source *source);

#endif
