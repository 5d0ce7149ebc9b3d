/* SPDX-License-Identifier: Apache-2.0 */
/*
 * own_fd.h: descriptors that stand for this process: a forked child closes them, and has not closed
 * them by mistake when it ends the objects that it inherited.
 */
#ifndef VR_OWN_FD_H
#define VR_OWN_FD_H

void vr_own_fd_note(int fd);
/* Shuts and closes what was noted; nothing in a child that did so when it was forked. */
void vr_own_fd_close(int fd);

#endif
