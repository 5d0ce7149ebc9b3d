/* SPDX-License-Identifier: Apache-2.0 */
/*
 * numa.c: which memory is near a device, on Linux. /sys tells the node that a device is attached to, and the
 * policy of a thread says where its new pages come from: preferred, not bound, so that a full node is no
 * failure. The calls are made without libnuma; where the system refuses them, pages lie where they come to
 * lie.
 */
#include "base/os/platform.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define POLICY_PREFERRED 1 /* MPOL_PREFERRED */
#define ASK_NODE         1 /* MPOL_F_NODE */
#define ASK_ADDRESS      2 /* MPOL_F_ADDR */

enum { NODE_BITS = 8 * sizeof(((struct vr_numa *)0)->nodes) };

/* A name like "0000:3b:00.0" and nothing that would lead elsewhere in /sys. */
static bool is_pci(const char *text) {
    size_t length = strspn(text, "0123456789abcdefABCDEF:.");
    return length > 0 && length < 16 && !text[length] && !strstr(text, "..");
}

vram_value vr_os_numa_of_device(const char *root, const char *pci) {
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
