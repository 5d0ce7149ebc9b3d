/* SPDX-License-Identifier: Apache-2.0 */
/*
 * numa.c: which memory is near a device, on Linux. /sys has the node that a device is attached to,
 * and a thread's policy selects the node of its new pages: preferred, not bound, so that a full
 * node is not a failure. The system calls are made without libnuma; if the system refuses them,
 * pages are placed by its default.
 */
#include "base/error.h"
#include "base/os/platform.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define POLICY_PREFERRED 1 /* MPOL_PREFERRED */
#define ASK_NODE         1 /* MPOL_F_NODE */
#define ASK_ADDRESS      2 /* MPOL_F_ADDR */

enum { NODE_BITS = 8 * sizeof(((struct vr_numa *)0)->nodes) };

/* Accepts a name like "0000:3b:00.0", and no path to elsewhere in /sys. */
static bool is_pci(const char *text) {
    size_t length = strspn(text, "0123456789abcdefABCDEF:.");
    return length > 0 && length < 16 && !text[length] && !strstr(text, "..");
}

vram_value vr_os_numa_of_device(const char *root, const char *pci) {
    VR_UNCANCELLED;
    vram_value unknown = {0, false};
    char path[256], text[16] = "", *end;
    if (!is_pci(pci)) {
        return unknown;
    }
    int length = snprintf(path, sizeof path, "%s/sys/bus/pci/devices/%s/numa_node", root, pci);
    int fd = length < (int)sizeof path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) {
        return unknown;
    }
    ssize_t bytes = read(fd, text, sizeof text - 1);
    close(fd);
    long node = bytes > 0 ? strtol(text, &end, 10) : -1;
    bool whole = bytes > 0 && end != text && (*end == '\n' || !*end);
    return whole && node >= 0 && node < NODE_BITS ? (vram_value){(uint64_t)node, true} : unknown;
}

vram_value vr_os_numa_of_page(const void *address) {
    int node = -1;
    long answer = syscall(SYS_get_mempolicy, &node, NULL, 0, address, ASK_NODE | ASK_ADDRESS);
    return answer == 0 && node >= 0 ? (vram_value){(uint64_t)node, true} : (vram_value){0, false};
}

bool vr_os_numa_begin(uint64_t node, struct vr_numa *before) {
    unsigned long wanted[sizeof before->nodes / sizeof before->nodes[0]] = {0};
    unsigned bits = 8 * sizeof wanted[0];
    if (node >= NODE_BITS ||
        syscall(SYS_get_mempolicy, &before->policy, before->nodes, NODE_BITS, NULL, 0) != 0) {
        return false;
    }
    wanted[node / bits] = 1ul << node % bits;
    return syscall(SYS_set_mempolicy, POLICY_PREFERRED, wanted, NODE_BITS) == 0;
}

void vr_os_numa_end(const struct vr_numa *before) {
    (void)syscall(SYS_set_mempolicy, before->policy, before->nodes, NODE_BITS);
}

/* Reads a list like "0-7,16,18-19"; false if it is malformed. */
static bool read_processors(const char *text, cpu_set_t *set) {
    CPU_ZERO(set);
    while (*text && *text != '\n') {
        char *end;
        unsigned long first = strtoul(text, &end, 10), last = first;
        if (end == text || first >= CPU_SETSIZE) {
            return false;
        }
        if (*end == '-') {
            text = end + 1;
            last = strtoul(text, &end, 10);
            if (end == text || last < first || last >= CPU_SETSIZE) {
                return false;
            }
        }
        for (unsigned long i = first; i <= last; i++) {
            CPU_SET(i, set);
        }
        text = *end == ',' ? end + 1 : end;
        if (*end && *end != ',' && *end != '\n') {
            return false;
        }
    }
    return true;
}

bool vr_os_numa_run(const char *root, uint64_t node) {
    char path[256], text[1024];
    size_t bytes;
    cpu_set_t wanted, allowed;
    int length = snprintf(path, sizeof path, "%s/sys/devices/system/node/node%llu/cpulist", root,
                          (unsigned long long)node);
    struct vram_error error;
    vr_error_save(&error);
    bool found = length < (int)sizeof path &&
                 vr_os_text_read(path, text, sizeof text - 1, &bytes) == VRAM_OK;
    vr_error_restore(&error); /* an unknown node is not a failure */
    if (!found) {
        return false;
    }
    text[bytes] = 0;
    if (!read_processors(text, &wanted) || sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
        return false;
    }
    CPU_AND(&wanted, &wanted, &allowed);
    return CPU_COUNT(&wanted) > 0 && sched_setaffinity(0, sizeof wanted, &wanted) == 0;
}

uint32_t vr_os_processors(void) {
    cpu_set_t allowed;
    int count = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 0;
    long all = count > 0 ? count : sysconf(_SC_NPROCESSORS_ONLN);
    return all > 0 ? (uint32_t)all : 1;
}
