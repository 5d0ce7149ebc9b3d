/* SPDX-License-Identifier: Apache-2.0 */
/* machine.h: what this computer is called. Part of the folder of os.h, with its rules. */
#ifndef VR_MACHINE_H
#define VR_MACHINE_H

#include <stdbool.h>
#include <stddef.h>

struct vr_machine {
    char cpu[128];         /* as its maker says it; "x86_64 processor" when the system does not */
    char architecture[32]; /* "x86_64", "aarch64"; "" when unknown */
    char system[64];       /* kernel and version, "Linux 6.1.0"; "" when unknown */
};

/* Fills all of it. Cannot fail: what the system does not tell stays as said above. */
void vr_os_machine(struct vr_machine *machine);

/* The processor's name in `text` (`bytes` long, not terminated), which is /proc/cpuinfo or its
   beginning. Cut to fit; false, `name` untouched, when there is none. */
bool vr_machine_cpu_find(const char *text, size_t bytes, char *name, size_t name_bytes);

#endif
