/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frame_rule.h: how to get from a frame of the stack to its caller, from the tables that compilers
 * write for exceptions: .eh_frame and its index .eh_frame_hdr (DWARF call frame information).
 *
 *      +-----------------+ <- CFA: the stack pointer once the function has returned
 *      | return address  | <- mostly CFA - 8; anywhere in the frame on aarch64
 *      | frame pointer   | <- the caller's, if the function saves it
 *      | ...             |
 *      +-----------------+ <- sp: the stack pointer at a call inside the function
 *
 * For each code address the table says how to compute the CFA from sp or from the frame pointer,
 * and where below it the caller's registers lie. A rule is what it says for one address.
 *
 *  (1) The bytes are untrusted: each is read within the segment, and every loop consumes bytes.
 *  (2) Nothing is allocated and nothing is kept between calls.
 */
#ifndef VR_FRAME_RULE_H
#define VR_FRAME_RULE_H

#include "base/os/dwarf_cursor.h"

/* Registers by their numbers in DWARF. */
#if defined(__x86_64__)
enum { VR_FRAME_FP = 6, VR_FRAME_SP = 7, VR_FRAME_RETURN = 16 };
#elif defined(__aarch64__)
enum { VR_FRAME_FP = 29, VR_FRAME_SP = 31, VR_FRAME_RETURN = 30 };
#else
enum { VR_FRAME_FP = -1, VR_FRAME_SP = -2, VR_FRAME_RETURN = -3 }; /* no rule is known */
#endif

enum vr_frame_kind { VR_FRAME_UNKNOWN, VR_FRAME_STEP, VR_FRAME_LAST /* it has no caller */ };

/* 8 bytes. Offsets are in words of 8 bytes. */
struct vr_frame_rule {
    int16_t cfa, ret, fp;
    uint8_t kind;          /* enum vr_frame_kind */
    bool from_fp : 1;      /* the base is the frame pointer, otherwise sp */
    bool cfa_stored : 1;   /* the CFA lies at base + cfa; otherwise it is base + cfa */
    bool return_based : 1; /* the return address lies at base + ret, otherwise at CFA + ret */
    bool fp_based : 1;     /* the same for the caller's frame pointer */
    bool fp_same : 1;      /* the function has not changed the frame pointer */
    bool interrupted : 1;  /* by a signal: the caller's address is not behind a call */
    uint8_t unused : 2;    /* 0, so that rules can be compared as a whole */
};

struct vr_frame_table {
    struct vr_dwarf_source source;
    struct vr_dwarf_section segment; /* the addresses around both sections */
    uint64_t index;                  /* address of .eh_frame_hdr */
};

/* The rule at an address inside an instruction. Its kind is VR_FRAME_UNKNOWN if the table has none,
   or one that is not of the form above. */
struct vr_frame_rule vr_frame_rule_find(const struct vr_frame_table *table, uint64_t address);

#endif
