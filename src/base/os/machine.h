/* SPDX-License-Identifier: Apache-2.0 */
/* machine.h: names of the processor, the architecture and the system. Follows the rules of os.h. */
#ifndef VR_MACHINE_H
#define VR_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vr_machine {
    char cpu[128];         /* the maker's name; "x86_64 processor" if the system has none */
    char architecture[32]; /* "x86_64", "aarch64"; "" when unknown */
    char system[64];       /* kernel and version, "Linux 6.1.0"; "" when unknown */
};

/* Fills all fields. Cannot fail: an unknown field has the value named above. */
void vr_os_machine(struct vr_machine *machine);

/* Finds the processor's name in `text` (`bytes` long, not terminated), which is /proc/cpuinfo or
   its beginning. Truncates it to fit. False, and `name` unchanged, if there is none. */
bool vr_machine_cpu_find(const char *text, size_t bytes, char *name, size_t name_bytes);

/* Instructions that the processor has and the system allows, beyond those that every processor of
   its kind has. A virtual machine may have either without the other. */
enum vr_machine_vector {
    VR_MACHINE_ASKED = 1,
    VR_MACHINE_AVX2 = 2, /* with FMA */
    VR_MACHINE_AVX512 = 4
};
uint32_t vr_machine_vectors(void);

#endif
