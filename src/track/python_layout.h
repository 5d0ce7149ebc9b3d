/* SPDX-License-Identifier: Apache-2.0 */
/*
 * python_layout.h: a Python interpreter in this process: where its structures have what a walk of a
 * thread's frames reads. Its symbols are looked up among those that are loaded; nothing of Python
 * is needed to build.
 *
 * CPython 3.9 to 3.14, releases, with a global lock. The structures of 3.9 to 3.12 do not change
 * within a minor version; from 3.13 on the interpreter has a table of its own offsets.
 */
#ifndef VR_PYTHON_LAYOUT_H
#define VR_PYTHON_LAYOUT_H

#include "base/os/os.h"

/* How code objects tell the line of an instruction. */
enum vr_python_lines {
    VR_PYTHON_STEPS,    /* 3.9: pairs of steps in bytes and lines */
    VR_PYTHON_RANGES,   /* 3.10: the same, with ranges without a line */
    VR_PYTHON_LOCATIONS /* from 3.11 on: entries of several lengths */
};

enum { VR_PYTHON_STRUCT = 256 };

/* Offsets in bytes. */
struct vr_python_layout {
    uint16_t thread_interpreter, thread_frame;
    bool frame_between; /* thread_frame leads to what has the frame at `between` */
    uint16_t between;
    bool frame_object; /* a frame is an object, and its instruction a number */
    uint16_t frame_previous, frame_code, frame_instruction;
    uint16_t frame_owner; /* 0: none */
    uint16_t code_file, code_name, code_lines, code_first;
    uint16_t code_instructions; /* 0: the instruction is a number */
    uint16_t instruction_bytes; /* of each number */
    uint16_t text_ascii, text_wide;
    uint16_t frame_bytes, code_bytes; /* of what is read: VR_PYTHON_STRUCT at most */
    enum vr_python_lines lines;
};

struct vr_python {
    struct vr_python_layout layout;
    uintptr_t code_type, text_type, bytes_type, frame_type;
    /* Functions that read a word, and may be called without the lock. */
    void *(*thread_state)(void);       /* the calling thread's; NULL: none */
    void *(*interpreter_first)(void);  /* NULL: not initialized */
    void *(*interpreter_latest)(void); /* another one: there are several */
    int (*is_locked)(void);            /* the calling thread holds the lock */
    int (*is_finalizing)(void);
    struct vr_module module; /* the interpreter's */
    bool alone;              /* the module is the interpreter, and nothing else */
};

/* The interpreter; NULL: none was found yet, or it is one that is not known. One load, once
   vr_python_look has found it. */
const struct vr_python *vr_python_get(void);
/* Looks for it; takes the loader's lock. For a new stack: an interpreter may be loaded later. */
const struct vr_python *vr_python_look(void);
/* Its structures were not where they should be: from now on there is none. */
void vr_python_reject(void);

/* The offsets of a version as Py_GetVersion says it, `table` being those of an interpreter that has
   them. False: the version is not known. For tests too. */
bool vr_python_layout_of(const char *version, const void *table, struct vr_python_layout *layout);

#endif
