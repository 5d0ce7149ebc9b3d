/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dl_entry.c: see dl_entry.h.
 *
 * The C library's dlsym looks at its return address: RTLD_NEXT and RTLD_DEFAULT mean the caller's
 * libraries. So ours must not stand between them: it is a few instructions that ask dlsym_answer
 * and, if that has no answer, jump to the C library's with everything as the caller left it.
 */
#include "dl_entry.h"

#include "run_record.h"

#include <dlfcn.h>
#include <string.h>

typedef void *dlsym_fn(void *handle, const char *name);

__attribute__((visibility("hidden"), used)) _Atomic(dlsym_fn *) run_dlsym_next;

/* The first one that exists: glibc moved it from libdl to libc. */
static dlsym_fn *dlsym_find(void) {
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
    dlsym_fn *found = atomic_load_explicit(&run_dlsym_next, memory_order_acquire);
    for (unsigned i = 0; !found && i < sizeof versions / sizeof versions[0]; i++) {
        found = (dlsym_fn *)(uintptr_t)dlvsym(RTLD_NEXT, "dlsym", versions[i]);
    }
    atomic_store_explicit(&run_dlsym_next, found, memory_order_release);
    return found;
}

void *run_dlsym_real(void *handle, const char *name) {
    return dlsym_find()(handle, name);
}

/* --------------------------------------------------------------------- modules */

const char *run_module_of(const void *address) {
    Dl_info info;
    if (!dladdr(address, &info) || !info.dli_fname) {
        return NULL;
    }
    const char *file = strrchr(info.dli_fname, '/');
    return file ? file + 1 : info.dli_fname;
}

bool run_module_is_own(const void *address) {
    static const char here;
    Dl_info info, own;
    return dladdr(address, &info) && dladdr(&here, &own) && info.dli_fbase == own.dli_fbase;
}

/* --------------------------------------------------------------------- drivers */

static struct run_driver *const drivers[] = {&run_cuda_driver, &run_hip_driver, &run_nvml_driver};

/* A sanitizer's runtime looks symbols up before it has any functions of its own: so what every
   lookup passes through calls none, and this file is compiled without sanitizers. */
static struct run_driver *driver_of(const char *symbol) {
    for (unsigned i = 0; i < sizeof drivers / sizeof drivers[0]; i++) {
        const char *prefix = drivers[i]->prefix, *at = symbol;
        while (*prefix && *prefix == *at) {
            prefix++;
            at++;
        }
        if (!*prefix) {
            return drivers[i];
        }
    }
    return NULL;
}

struct run_entry *run_entry_find(const struct run_driver *driver, const char *symbol) {
    for (size_t i = 0; i < driver->count; i++) {
        if (strcmp(driver->entries[i].symbol, symbol) == 0) {
            return &driver->entries[i];
        }
    }
    return NULL;
}

void *run_entry_real(const struct run_driver *driver, struct run_entry *entry) {
    void *real = __atomic_load_n(&entry->real, __ATOMIC_ACQUIRE);
    if (real) {
        return real;
    }
    real = run_dlsym_real(RTLD_NEXT, entry->symbol);
    if (!real || run_module_is_own(real)) {
        void *library = dlopen(driver->soname, RTLD_LAZY | RTLD_NOLOAD); /* kept: drivers stay */
        real = library ? run_dlsym_real(library, entry->symbol) : NULL;
    }
    if (real) {
        __atomic_store_n(&entry->real, real, __ATOMIC_RELEASE);
    }
    return real;
}

/* ----------------------------------------------------------------------- dlsym */

static bool is_of_driver(const struct run_driver *driver, const void *address) {
    const char *module = run_module_of(address);
    return module && strncmp(module, driver->module, strlen(driver->module)) == 0;
}

/* The answer to a lookup of an entry; NULL: there is none in those libraries. */
static void *entry_answer(const struct run_driver *driver, struct run_entry *entry, void *handle) {
    void *found = run_dlsym_real(handle, entry->symbol);
    if (!found) {
        return NULL;
    }
    if (run_module_is_own(
            found)) { /* a search of everything finds ours, with or without a driver */
        return run_entry_real(driver, entry) ? entry->own : NULL;
    }
    if (!is_of_driver(driver, found)) {
        return found; /* somebody else's, which asks the driver by itself */
    }
    void *unknown = NULL;
    (void)__atomic_compare_exchange_n(&entry->real, &unknown, found, false, __ATOMIC_ACQ_REL,
                                      __ATOMIC_ACQUIRE);
    return entry->own;
}

/* The answer to RTLD_NEXT, which means the libraries after the caller's. The C library alone knows
   them, but what it would find follows: if this library is the first with that symbol, and the
   driver the next, a caller in front of this library would find ours, and one behind it the driver,
   past us. If other libraries have the symbol too, they stand in front of the driver as we do, and
   find it only if they are left alone: false. */
static bool next_answer(const struct run_driver *driver, struct run_entry *entry, void **answer) {
    void *first = run_dlsym_real(RTLD_DEFAULT, entry->symbol);
    void *real = run_entry_real(driver, entry);
    if (!first || !run_module_is_own(first) || (real && !is_of_driver(driver, real))) {
        return false;
    }
    *answer = real ? entry->own : NULL;
    return true;
}

/* Whether this library answers for the C library's dlsym. A driver that looks up its own functions,
   or those of a second library behind it, means these. */
__attribute__((visibility("hidden"), used)) bool
run_dlsym_answer(void *handle, const char *name, void **answer, const void *caller);
bool run_dlsym_answer(void *handle, const char *name, void **answer, const void *caller) {
    (void)dlsym_find();
    struct run_driver *driver = name ? driver_of(name) : NULL;
    if (!driver || !run_active() || is_of_driver(driver, caller)) {
        return false;
    }
    struct run_entry *entry = run_entry_find(driver, name);
    if (entry && handle == RTLD_NEXT) {
        return !run_module_is_own(caller) && next_answer(driver, entry, answer);
    }
    if (entry) {
        *answer = entry_answer(driver, entry, handle);
        return true;
    }
    if (handle != RTLD_NEXT && driver->is_memory && driver->is_memory(name)) {
        void *found = run_dlsym_real(handle, name);
        if (found && is_of_driver(driver, found)) {
            run_unknown(name);
        }
    }
    return false;
}

#if defined(__x86_64__)
__asm__(".text\n"
        ".globl dlsym\n"
        ".type dlsym, @function\n"
        "dlsym:\n"
        "    .cfi_startproc\n"
        "    endbr64\n"
        "    pushq %rdi\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    pushq %rsi\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    pushq $0\n" /* the answer; the stack is aligned again */
        "    .cfi_adjust_cfa_offset 8\n"
        "    movq %rsp, %rdx\n"
        "    movq 24(%rsp), %rcx\n" /* the caller */
        "    call run_dlsym_answer\n"
        "    popq %rdx\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    popq %rsi\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    popq %rdi\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    testb %al, %al\n"
        "    je 1f\n"
        "    movq %rdx, %rax\n"
        "    ret\n"
        "1:  jmpq *run_dlsym_next(%rip)\n"
        "    .cfi_endproc\n"
        ".size dlsym, .-dlsym\n");
#elif defined(__aarch64__)
__asm__(".text\n"
        ".globl dlsym\n"
        ".type dlsym, %function\n"
        "dlsym:\n"
        "    .cfi_startproc\n"
        "    hint #34\n" /* bti c */
        "    stp x29, x30, [sp, #-48]!\n"
        "    .cfi_def_cfa_offset 48\n"
        "    .cfi_offset 29, -48\n"
        "    .cfi_offset 30, -40\n"
        "    mov x29, sp\n"
        "    stp x0, x1, [sp, #16]\n"
        "    str xzr, [sp, #32]\n" /* the answer */
        "    add x2, sp, #32\n"
        "    mov x3, x30\n" /* the caller */
        "    bl run_dlsym_answer\n"
        "    mov w9, w0\n"
        "    ldr x10, [sp, #32]\n"
        "    ldp x0, x1, [sp, #16]\n"
        "    ldp x29, x30, [sp], #48\n"
        "    .cfi_restore 29\n"
        "    .cfi_restore 30\n"
        "    .cfi_def_cfa_offset 0\n"
        "    tbz w9, #0, 1f\n"
        "    mov x0, x10\n"
        "    ret\n"
        "1:  adrp x16, run_dlsym_next\n"
        "    ldr x16, [x16, #:lo12:run_dlsym_next]\n"
        "    br x16\n"
        "    .cfi_endproc\n"
        ".size dlsym, .-dlsym\n");
#endif
