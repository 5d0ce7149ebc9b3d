/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wrap.h: functions that a test replaces by the linker's --wrap, in a program that has several
 * such tests and others. A call goes where `wrap_<name>` points: to the function itself, until the
 * runner begins a file that replaces it.
 */
#ifndef TEST_WRAP_H
#define TEST_WRAP_H

#if defined(__x86_64__)
#define WRAP_JUMP(name) "    endbr64\n    jmp *wrap_" name "(%rip)\n"
#elif defined(__aarch64__)
#define WRAP_JUMP(name)                                                                            \
    "    hint #34\n    adrp x16, wrap_" name "\n    ldr x16, [x16, :lo12:wrap_" name               \
    "]\n    br x16\n"
#else
#error "how does this processor jump to where a variable says?"
#endif

/* The arguments stay where they are, whatever they are. */
#define WRAP(name)                                                                                 \
    void __real_##name(void);                                                                      \
    __attribute__((visibility("hidden"))) void (*wrap_##name)(void) = __real_##name;               \
    __asm__(".pushsection .text\n.p2align 4\n.globl __wrap_" #name "\n.type __wrap_" #name         \
            ", %function\n__wrap_" #name                                                           \
            ":\n" WRAP_JUMP(#name) ".size __wrap_" #name ", .-__wrap_" #name "\n.popsection\n");

#endif
