/* SPDX-License-Identifier: Apache-2.0 */
/*
 * framed.c: a module with one function, whose frame has FRAME bytes; see test_callers.c. The code
 * is as long for every size, so that two such modules have the same return addresses.
 */
#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)

#if defined(__x86_64__)
__asm__(
    ".text\n"
    ".globl framed_call\n"
    ".type framed_call, @function\n"
    "framed_call:\n"
    "    .cfi_startproc\n"
    "    endbr64\n"
    "    subq $" TEXT(FRAME) " + 8, %rsp\n"
                             "    .cfi_adjust_cfa_offset " TEXT(
                                 FRAME) " + 8\n"
                                        "    call *%rdi\n"
                                        "    addq $" TEXT(
                                            FRAME) " + 8, %rsp\n"
                                                   "    .cfi_adjust_cfa_offset -" TEXT(
                                                       FRAME) " - 8\n"
                                                              "    ret\n"
                                                              "    .cfi_endproc\n"
                                                              ".size framed_call, .-framed_call\n");
#elif defined(__aarch64__)
__asm__(
    ".text\n"
    ".globl framed_call\n"
    ".type framed_call, %function\n"
    "framed_call:\n"
    "    .cfi_startproc\n"
    "    hint #34\n" /* bti c */
    "    sub sp, sp, #" TEXT(
        FRAME) "\n"
               "    .cfi_adjust_cfa_offset " TEXT(
                   FRAME) "\n"
                          "    str x30, [sp]\n"
                          "    .cfi_offset 30, -" TEXT(
                              FRAME) "\n"
                                     "    blr x0\n"
                                     "    ldr x30, [sp]\n"
                                     "    .cfi_restore 30\n"
                                     "    add sp, sp, #" TEXT(
                                         FRAME) "\n"
                                                "    .cfi_adjust_cfa_offset -" TEXT(
                                                    FRAME) "\n"
                                                           "    ret\n"
                                                           "    .cfi_endproc\n"
                                                           ".size framed_call, .-framed_call\n");
#else
__attribute__((visibility("default"))) void framed_call(void (*back)(void));
void framed_call(void (*back)(void)) {
    volatile char block[FRAME];
    block[0] = 0;
    back();
    block[0] = 1;
}
#endif
