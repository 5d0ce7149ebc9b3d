/* SPDX-License-Identifier: Apache-2.0 */
/*
 * share_object.h: the object behind a vram_share, on both sides.
 *
 *   share_export.c    blocks of a pool become a share: pins, handles, token
 *   share_server.c    the thread that serves the shares of one directory
 *   share_reader.c    one connection of that thread: a request, its answer, then a reader
 *   share_kept.c      descriptors that are made before somebody asks for them
 *   share_open.c      the other side: connect, ask, receive
 *   share_import.c    descriptors become mapped memory
 *   share_fabric.c    blocks for other machines
 *   share_info.c      closing and queries of both sides
 *   share_object.c    what both sides have in common
 *   share_time.c      points that other processes wait for
 *   share_name.c      names with versions
 *   share_folder.c    the directory and the files in it
 *   share_wire.c      messages and tokens as bytes
 *
 *  (1) An export is a child of its pool. It pins its blocks until it was closed and its last reader
 *      has gone. When the pool ends first, the export ends with it: its handles are the pool's.
 *      What other processes have opened they keep; the driver counts references.
 *  (2) The driver's handles of an export are used only between vr_export_begin and vr_export_end,
 *      which the end of the pool waits for.
 *  (3) An opened share is a watcher of its device and owns what it maps: descriptors are closed
 *      once they are imported, and nothing of the other process is needed for it to stay valid.
 *      Where the device maps memory all handles follow each other in one range, and the first has
 *      the record of all. Elsewhere each handle is an address of its own, with a record.
 *  (4) The connection between the two stands for the reader: it ends with the share, or with the
 *      process, however that ends. No process ids are remembered, so none can be mistaken.
 */
#ifndef VR_SHARE_OBJECT_H
#define VR_SHARE_OBJECT_H

#include "base/runtime_folder.h"
#include "core/object/pool_object.h"
#include "core/pool/pool_calls.h"
#include "share/share_wire.h"

#define VR_SHARE_TIMEOUT_NS UINT64_C(5000000000) /* for the other process, if nothing is said */

/* One physical handle. */
struct vr_share_handle {
    uint64_t native; /* the driver's; 0: none */
    uint64_t bytes;
    vram_addr base;           /* where it is mapped in this process */
    uint64_t offset;          /* in all handles of the share, one after the other */
    struct vr_record *record; /* opened: in the address map; NULL: none */
};

/* Shared by all processes, in a file of its own, which only the exporter can write. Readers take
   every number in it as hostile: it is compared, never used as a size or place. */
struct vr_share_timeline {
    vr_atomic_u64 reached; /* the last value whose work is complete */
    vr_atomic_u64 marked;  /* the last value that was marked */
    vr_atomic_u64 failed;  /* -status of work that failed; 0: none */
};

/* A mark that has not been reached yet. */
struct vr_share_mark {
    struct vr_share_mark *next;
    vram_point point;
    uint64_t value;
};

struct vr_share;
struct vr_share_server;

/* What only an export has. Guarded by vr_share_lock, unless it is fixed at creation. */
struct vr_share_export {
    struct vr_pool_child child;
    struct vr_pool *pool; /* borrowed: it ends the export before it goes */
    uint64_t pool_handle; /* its number */
    struct vr_share_server *server;
    struct vr_share_ticket ticket;
    uint32_t user;          /* that may open it, beside its own */
    bool user_allowed;      /* whether there is one */
    bool closed;            /* no new readers */
    bool pool_ended;        /* (1) */
    bool finished;          /* pins and server were let go */
    uint32_t using_handles; /* (2) */
    uint32_t readers;
    uint32_t prepared; /* handles whose descriptors were made ahead, or need not be */
    bool ready;        /* its pool has it: descriptors may be made ahead */
    /* A reader has gone: finishes a closed export with its last one. No lock held. */
    void (*reader_gone)(struct vr_share *share);
    int timeline_file;
    struct vr_share_mark *marks, **marks_end; /* oldest first */
    uint64_t last_mark;
    char name[VRAM_SHARE_NAME_MAX]; /* published as; "": not */
};

/* What only an opened share has. */
struct vr_share_opened {
    struct vr_watcher watcher;
    struct vr_device_object *device; /* pinned */
    vram_addr base;
    uint32_t mapped;      /* handles that are mapped */
    bool reserved;        /* addresses are */
    bool unfinished;      /* work may still use it: nothing is released */
    int socket;           /* (4); -1: none */
    vr_atomic_bool owned; /* the owner still has its reference */
};

struct vr_share {
    struct vr_object object;
    bool exported;
    bool read_only;
    uint64_t bytes;   /* of all handles */
    uint64_t version; /* of its name; 0: none; vr_share_lock */
    uint32_t part_count, handle_count;
    struct vram_share_part *parts;
    uint64_t *offsets; /* of the parts, in all handles; exported */
    struct vr_share_handle *handles;
    _Atomic(struct vr_share_timeline *) timeline; /* NULL: not made yet */
    struct vr_share_export export_state;
    struct vr_share_opened opened;
};

extern struct vr_mutex vr_share_lock;

/* ------------------------------------------------------------- share_object.c */

/* A new object without lists; NULL with the error set. */
struct vr_share *vr_share_make(void);
/* Memory for the lists; 0 handles: the caller brings that list. */
vram_status vr_share_lists_make(struct vr_share *share, uint32_t parts, uint32_t handles);
/* The handle in which the byte at `offset`, counted in all handles, lies. */
const struct vr_share_handle *vr_share_handle_at(const struct vr_share *share, uint64_t offset);
/* Handles have whole granules of this. */
uint64_t vr_share_granule(const struct vr_device *device);
/* Frees lists, timeline and the object itself. */
void vr_share_free(struct vr_share *share);
/* Whether the exporter still has it open, or readers of it. */
bool vr_share_is_served(const struct vr_share *share);
vram_status vr_share_options_read(const vram_share_options *given, vram_share_options *options);
/* Around uses of the driver's handles of an export; false: they are gone. */
bool vr_export_begin(struct vr_share *share);
void vr_export_end(struct vr_share *share);

/* -------------------------------------------------------------- share_folder.c */

/* Finds the directory to use, and checks it. */
vram_status vr_share_dir(const vram_share_options *options, bool create,
                         char dir[VR_RUNTIME_DIR_MAX]);
void vr_share_socket_path(const char *dir, const uint64_t server[2], char path[VR_SOCKET_PATH_MAX]);
/* Removes sockets of processes of this user that were killed. With the lock: a socket that is being
   made looks like one of them. */
void vr_share_dir_sweep(const char *dir);

/* -------------------------------------------------------------- share_server.c */

/* Registers a complete export with the server of that directory, which is started if there is none,
   and sets its ticket. */
vram_status vr_share_serve(struct vr_share *share, const char *dir);
/* Removes an export that has no readers. Waits until the server has ended, if this was its last
   export and another thread calls. */
void vr_share_unserve(struct vr_share *share);
/* Before an export is freed: nothing points to its server any more. */
void vr_share_forget(struct vr_share *share);
/* Waits until the servers of this process have seen what happened before: readers that have gone,
   and their own last exports. No lock held. */
void vr_share_settle(void);
/* Lets the server make descriptors of a new export ahead. With a reference to it. */
void vr_share_prepare(struct vr_share *share);
/* The process ids of up to `most` readers of an export. Under vr_share_lock. */
uint32_t vr_share_readers(const struct vr_share *share, uint64_t *readers, uint32_t most);

/* ---------------------------------------------------------------- share_kept.c */

/* Closes the kept descriptors of an export that is closed, and whose handles nobody uses. */
void vr_kept_drop(const struct vr_share *share);
/* Closes all kept descriptors of the process; returns whether there were some. No lock held. */
bool vr_kept_close_all(void);

/* -------------------------------------------------------------- share_export.c */

vram_status vr_export_close(struct vr_share *share);

/* ---------------------------------------------------------------- share_time.c */

/* Makes the timeline of an export, if it has none yet. No lock held. */
vram_status vr_timeline_make(struct vr_share *share);
/* Maps the timeline of another process for reading. */
vram_status vr_timeline_import(struct vr_share *share, int descriptor);
void vr_timeline_end(struct vr_share *share);
/* Raises the timeline to what is complete; returns whether marks are left. No lock held. */
bool vr_timeline_advance(struct vr_share *share);

/* -------------------------------------------------------------- share_import.c */

/* Imports the next handle of an opened share. The descriptor stays the caller's. */
vram_status vr_import_handle(struct vr_share *share, uint32_t index, int descriptor);
/* Reserves addresses for all handles. */
vram_status vr_import_reserve(struct vr_share *share);
/* Maps all handles there and enters the memory in the address map. */
vram_status vr_import_map(struct vr_share *share);
/* Undoes both, as far as they were done. */
void vr_import_end(struct vr_share *share);
/* Ends a share that has no handle yet. */
void vr_opened_discard(struct vr_share *share);
vram_status vr_opened_close(struct vr_share *share);
/* Gives a complete share its handle. */
vram_status vr_opened_publish(struct vr_share *share, vram_share **out);

/* ---------------------------------------------------------------- share_name.c */

/* Removes the name of an export, if it still leads to it. */
vram_status vr_name_withdraw(struct vr_share *share);

/* ---------------------------------------------------------------- share_open.c */

vram_status vr_share_open_token(vram_device *handle, const vram_share_token *token,
                                const vram_share_options *options, uint64_t version,
                                vram_share **out);

#endif
