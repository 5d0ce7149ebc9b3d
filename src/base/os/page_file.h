/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page_file.h: the file of a live page (vram/live_page.h), its folder and its name.
 *
 *  (1) The folder belongs to this user and nobody else may write there; so does its parent, unless
 *      that is root's or sticky. The file is created anew, never taken over.
 *  (2) Between two calls no descriptor is open: a program that closes all descriptors, or forks,
 *      does not meet one. The file is found again by its name, and refused if it is another one.
 *  (3) The file's memory is allocated when it is created, so a full file system is noticed then.
 */
#ifndef VR_PAGE_FILE_H
#define VR_PAGE_FILE_H

#include "vram/base.h"

enum {
    VR_PAGE_FOLDER_MAX = 128, /* bytes of its path, the final 0 included */
    VR_PAGE_PATH_MAX = 224    /* of a file in it */
};

/* Which process this is, for others. */
struct vr_process_identity {
    uint64_t pid;
    uint64_t start_ticks; /* field 22 of /proc/self/stat; 0: unknown */
    uint64_t pid_space;   /* inode of /proc/self/ns/pid; 0: unknown */
    uint64_t user;        /* effective user id */
};

struct vr_page_file {
    struct vr_process_identity process;
    char folder[VR_PAGE_FOLDER_MAX];
    char path[VR_PAGE_PATH_MAX];   /* of the page */
    char socket[VR_PAGE_PATH_MAX]; /* beside it */
    uint64_t device, inode, bytes; /* of the file that was created; 0: none */
};

void vr_os_process_identity(struct vr_process_identity *identity);
/* Whether the process has ended: certainly, as far as it can be seen from here. */
bool vr_os_process_ended(const struct vr_process_identity *identity);
/* The command line, arguments separated by spaces, as much as fits; "" if it is unknown. */
void vr_os_command_line(char *text, size_t bytes);
/* Time that the calling thread has used a processor; ns; 0: unknown. */
uint64_t vr_os_thread_cpu(void);

/* Finds or makes the folder, and names the files: $XDG_RUNTIME_DIR/vram, else /dev/shm/vram-UID. */
vram_status vr_page_file_place(struct vr_page_file *file);
/* Creates the page of `bytes`, all zero. VRAM_ERR_BUSY if there is one: of another copy of the
   library in this process, of `vram run`, or of the program that this one has replaced by exec. */
vram_status vr_page_file_create(struct vr_page_file *file, uint64_t bytes);
/* Reads `bytes` of the page that is there, whoever made it; false: it cannot. */
bool vr_page_file_peek(const struct vr_page_file *file, uint64_t offset, void *to, uint64_t bytes);
/* Opens it for vr_os_file_read, _write and _close. VRAM_ERR_STALE if it is not there any more or
   was cut; VRAM_ERR_BUSY if another one is in its place. */
vram_status vr_page_file_open(const struct vr_page_file *file, int *fd);
/* Removes page and socket. */
void vr_page_file_remove(struct vr_page_file *file);
/* Removes files of processes that have ended, at most `most`; returns how many. */
uint32_t vr_page_folder_sweep(const char *folder, uint32_t most);

#endif
