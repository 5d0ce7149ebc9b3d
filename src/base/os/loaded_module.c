/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loaded_module.c: modules that the loader has mapped, and memory of the process that may not be
 * there, on Linux.
 */
#include "base/os/os.h"
#include "base/size.h"
#include "base/text.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

struct search {
    uintptr_t address;
    struct vr_module *module;
    char path[4096];
};

static const char *file_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The loader keeps the module loaded while this runs. */
static int module_look(struct dl_phdr_info *info, size_t bytes, void *user) {
    struct search *search = user;
    uintptr_t low = UINTPTR_MAX, high = 0;
    bool inside = false;
    (void)bytes;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t at = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_LOAD) {
            low = at < low ? at : low;
            high = at + segment->p_memsz > high ? at + segment->p_memsz : high;
            inside = inside || vr_inside(search->address, 1, at, segment->p_memsz);
        }
    }
    if (!inside) {
        return 0;
    }
    search->module->low = low;
    search->module->high = high;
    return vr_text_copy(search->path, sizeof search->path, info->dlpi_name) ? 1 : -1;
}

bool vr_os_module_keep(const void *address, struct vr_module *module) {
    VR_UNCANCELLED;
    struct vr_module found;
    struct search search = {.address = (uintptr_t)address, .module = &found};
    if (dl_iterate_phdr(module_look, &search) != 1) {
        return false;
    }
    /* The program itself has no path there, and stays. */
    if (*search.path && !dlopen(search.path, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE)) {
        return false;
    }
    if (!*search.path) { /* what it was started as may be anything, and programs change it */
        ssize_t length = readlink("/proc/self/exe", search.path, sizeof search.path - 1);
        search.path[length > 0 ? length : 0] = 0;
    }
    (void)vr_text_copy(found.name, sizeof found.name, file_name(search.path));
    *module = found;
    return true;
}

bool vr_os_memory_copy(const struct vr_memory_part *parts, unsigned count) {
    struct iovec here[VR_MEMORY_PARTS], there[VR_MEMORY_PARTS];
    size_t bytes = 0;
    for (unsigned i = 0; i < count; i++) {
        here[i] = (struct iovec){parts[i].to, parts[i].bytes};
        there[i] = (struct iovec){(void *)parts[i].from, parts[i].bytes};
        bytes += parts[i].bytes;
    }
    return syscall(SYS_process_vm_readv, getpid(), here, (unsigned long)count, there,
                   (unsigned long)count, 0UL) == (long)bytes;
}

bool vr_os_thread_is_first(void) {
    static _Thread_local struct {
        uint64_t process; /* generation, plus 1; 0: not asked yet */
        bool first;
    } known __attribute__((tls_model("initial-exec")));
    uint64_t process = vr_os_process_generation() + 1;
    if (known.process != process) {
        known.first = syscall(SYS_gettid) == getpid();
        known.process = process;
    }
    return known.first;
}
