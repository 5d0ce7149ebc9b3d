/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/share.h: the same device memory in several processes.
 *
 * One process exports blocks of a shareable pool and passes a token, 64 bytes of plain data, to
 * another by any way it likes. The other opens the token: it maps the same physical memory, copies
 * nothing, and gets addresses of its own.
 *
 *   vram_pool_options options = {.size = sizeof options, .flags = VRAM_POOL_SHAREABLE};
 *   vram_pool_create(device, &options, &pool);
 *   vram_alloc(pool, 1 << 30, queue, &addr);
 *   vram_share_export(&addr, 1, NULL, &share);          in one process
 *   vram_share_token_get(share, &token);
 *   vram_share_open(device, &token, NULL, &share);      in another
 *   vram_share_parts_get(share, 0, 1, &part);           part.addr, part.bytes
 *
 * What is shared. A physical handle is shared whole. In a pool with VRAM_POOL_SHAREABLE every block
 * has handles of its own, in whole granules of the device (often 2 MiB), and they serve no other
 * block later: whoever opens a block sees that block and nothing else. Small blocks are packed in a
 * pool with VRAM_POOL_SHARE_GROUP. Such a pool is one group, named by the pool's name: whoever
 * opens one of its blocks may see all memory that shares a handle with it, so the program puts only
 * what belongs together there. A group moves free memory like any pool.
 *
 * Programs that cannot know beforehand what they will export set the option `exportable`
 * (VRAM_EXPORTABLE): every pool of mapped memory that is created after that is a group, the
 * process's own (vram/shared.h) too. It grows by small handles as it did, so that an export of many
 * blocks has more of them.
 *
 * What else the pool can do. Both sleep, wake and rebuild. Handles under exported blocks stay as
 * they are: they are neither moved, released nor put to sleep, and keep their contents whatever
 * vram_pool_sleep says, so that readers notice nothing. Everything else in the pool sleeps. Sealed
 * blocks are exported with VRAM_SHARE_READ_ONLY only, and exported blocks cannot be sealed
 * (VRAM_ERR_BUSY). docs/composition.md has the whole table.
 *
 * How it travels. The exporting process serves a Unix socket in a directory that both processes
 * see: the option `share_dir` (VRAM_SHARE_DIR), else XDG_RUNTIME_DIR, else /tmp/vram-UID. A thread
 * of the library serves it from the first export to the last close. Descriptors go over that socket
 * (SCM_RIGHTS), so no shared pid namespace and no right to trace is needed. A token contains an
 * unguessable key of 128 bits. Only processes of the same user may open it, or of one more user
 * that the export names.
 *
 * How it ends. Either side closes first, or ends in any way. Exported blocks are pinned until the
 * export is closed and every process that opened it has closed it or has ended. A block that is
 * freed meanwhile is not reused before that. The memory goes back to the device when the last of
 * them has released it.
 *
 * Backends: cuda and hip (handles that are exported as POSIX descriptors), host and sim (sealed
 * files in memory), vulkan (VK_KHR_external_memory_fd, on devices that the library opens itself).
 * On other devices vram_pool_create returns VRAM_ERR_UNSUPPORTED for the two flags, and the error
 * record says why. Vulkan maps no memory: there a handle is an allocation, its granule is
 * vram_device_info.alloc_granule, and pools do not sleep. hip has not run on hardware.
 */
#ifndef VRAM_SHARE_H
#define VRAM_SHARE_H

#include <vram/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vram_share vram_share; /* blocks that were exported, or opened */

enum {
    VRAM_SHARE_TOKEN_BYTES = 64,
    VRAM_SHARE_NAME_MAX = 128, /* bytes of a name, the final 0 included */
    VRAM_SHARE_READERS = 16,   /* readers that vram_share_info lists */
    VRAM_SHARE_FABRIC_BYTES = 128
};

/** Names an export. Plain bytes without padding, to be copied, stored and sent as they are. */
typedef struct vram_share_token {
    uint8_t bytes[VRAM_SHARE_TOKEN_BYTES];
} vram_share_token;

typedef enum vram_share_flag {
    /* Nobody writes what is opened: copies, fills and, where the driver can (CUDA, host), kernels
       are refused. On export it holds for every open, on open for that one. On the host the system
       enforces it even against a process that does not use this library. */
    VRAM_SHARE_READ_ONLY = 1 << 0,
    /* On export: processes of the user `user` may open it too. On open: the export may belong to
       that user. The directory must then be one that both users may use. */
    VRAM_SHARE_USER = 1 << 1
} vram_share_flag;

typedef struct vram_share_options {
    size_t size;         /* sizeof(vram_share_options) */
    uint32_t flags;      /* of vram_share_flag */
    uint32_t user;       /* with VRAM_SHARE_USER: a user id of the system */
    const char *dir;     /* the directory; NULL: as above; copied */
    uint64_t timeout_ns; /* open: how long the other process may take; 0: 5 seconds */
} vram_share_options;

/* ------------------------------------------------------- exporting, opening */

/**
 * Exports `count` live blocks of one shareable pool as one share, whose parts are the blocks in
 * this order. Blocks are given by their first address, those of buffers included. They stay the
 * program's: it uses, frees or exports them again as before. VRAM_ERR_INVALID if an address is not
 * the start of a live block, belongs to another pool, or is not memory that can be exported, which
 * the error record says. VRAM_ERR_IO if the directory cannot be used, VRAM_ERR_LIMIT if its name is
 * too long for a socket (71 bytes).
 */
VRAM_API vram_status vram_share_export(const vram_addr *blocks, uint32_t count,
                                       const vram_share_options *options, vram_share **share);

/** The token of an export. The same each time. VRAM_ERR_INVALID for a share that was opened. */
VRAM_API vram_status vram_share_token_get(vram_share *share, vram_share_token *token);

/**
 * Opens what a token names, on the same device. All parts are mapped in one call, whatever their
 * number. VRAM_ERR_INVALID if the token is damaged or names nothing; VRAM_ERR_STALE if its process
 * has ended, has closed the export, or ran before the last boot; VRAM_ERR_UNSUPPORTED if the other
 * side speaks another protocol version, or the memory is another device's; VRAM_ERR_BUSY if this
 * user may not open it; VRAM_ERR_TIMEOUT if the other process does not answer; VRAM_ERR_CORRUPT if
 * its answer makes no sense; VRAM_ERR_IO if the directory cannot be used. Nothing is kept after a
 * failure.
 *
 * Opening does not order work: what other processes submit is complete when vram_share_wait says
 * so, or when the program knows by other means.
 */
VRAM_API vram_status vram_share_open(vram_device *device, const vram_share_token *token,
                                     const vram_share_options *options, vram_share **share);

/**
 * Closes a share. NULL is allowed. An opened one waits for the work of its device's queues, up to
 * the option `wait_timeout`, and unmaps the memory. If work is unfinished then (VRAM_ERR_TIMEOUT),
 * or a captured region is open (_CAPTURE), the memory stays mapped until the device is closed. An
 * exported one can no longer be opened; who has opened it keeps it. VRAM_ERR_IO if its name could
 * not be removed: it is closed all the same, and opening the name is VRAM_ERR_STALE.
 */
VRAM_API vram_status vram_share_close(vram_share *share);

/** One block of a share, in this process. */
typedef struct vram_share_part {
    vram_addr addr;
    uint64_t bytes; /* as requested when it was allocated */
} vram_share_part;

/** Writes parts `first` to `first + count - 1` to `parts`. VRAM_ERR_INVALID if there are fewer. */
VRAM_API vram_status vram_share_parts_get(vram_share *share, uint32_t first, uint32_t count,
                                          vram_share_part *parts);

typedef struct vram_share_info {
    size_t size;           /* in: sizeof(vram_share_info) of the caller */
    bool exported;         /* by this process; otherwise opened */
    bool read_only;        /* what is opened cannot be written */
    bool alive;            /* opened: the exporting process still answers; false for a fabric */
    uint32_t parts;        /* blocks */
    uint32_t handles;      /* physical handles under them */
    uint64_t bytes;        /* of these handles: what is mapped in every process */
    uint64_t version;      /* of its name; 0: it was not published, or not opened by a name */
    uint32_t reader_count; /* exported: processes that have it open; a process counts per open */
    uint64_t readers[VRAM_SHARE_READERS]; /* process ids of the first; 0: not visible from here */
} vram_share_info;

VRAM_API vram_status vram_share_info_get(vram_share *share, vram_share_info *info);

/* ------------------------------------------------------------ between machines */

/** A block in a fabric of machines (NVLink). Plain bytes, to be kept secret as a password is. */
typedef struct vram_share_fabric {
    uint8_t bytes[VRAM_SHARE_FABRIC_BYTES];
} vram_share_fabric;

/**
 * The name of an exported block for processes that share neither a machine nor a directory with
 * this one. The share has one block of a pool made with VRAM_POOL_SHAREABLE and
 * VRAM_POOL_SHARE_FABRIC; else VRAM_ERR_INVALID, or _UNSUPPORTED on devices without such handles.
 *
 * These bytes are all that access needs, beside the system's own permission to use the fabric:
 * there is no key, no user and no process to be compared. They are not withdrawn when the share is
 * closed: whoever has opened them keeps the memory, nobody is told, and it does not count as a
 * reader. The driver refuses them once the memory has gone from every process. The block's memory
 * serves no other block later, so a reader never sees contents that were not meant for it. Not run
 * on hardware.
 */
VRAM_API vram_status vram_share_fabric_get(vram_share *share, vram_share_fabric *fabric);

/**
 * Opens such a block on a device of the same fabric, as vram_share_open does; `options` may ask for
 * VRAM_SHARE_READ_ONLY. VRAM_ERR_INVALID for damaged bytes, VRAM_ERR_UNSUPPORTED for a device
 * without fabric handles; otherwise what the driver says. Such a share has no timeline:
 * vram_share_wait returns VRAM_ERR_UNSUPPORTED.
 */
VRAM_API vram_status vram_share_fabric_open(vram_device *device, const vram_share_fabric *fabric,
                                            const vram_share_options *options, vram_share **share);

/* ---------------------------------------------------------------------- time */

/**
 * Marks a point of an exported share: *value, which rises by 1 with each mark, is reached when the
 * work submitted to `queue` so far is complete. Does not wait.
 */
VRAM_API vram_status vram_share_mark(vram_share *share, vram_queue *queue, uint64_t *value);

/**
 * Waits, on either side, until the share has reached `value`; 0: until the last mark so far.
 * VRAM_ERR_TIMEOUT after `timeout_ns`; 0 does not wait. VRAM_ERR_STALE if the exporting process
 * ended before, VRAM_ERR_DEVICE_LOST if its work failed. Calls no driver.
 */
VRAM_API vram_status vram_share_wait(vram_share *share, uint64_t value, uint64_t timeout_ns);

/* --------------------------------------------------------------------- names */

/**
 * Publishes an export under a name ("weights/layer0") in its directory: *version, one more than the
 * name had before, also if another process had published it. Opens by that name get this share from
 * now on; who has an older version keeps it and opens the name again when it likes. The older
 * version is closed by its owner, and its memory is free when its last reader has closed it. The
 * name goes when this share is closed, unless a newer version has replaced it. After an owner was
 * killed, its next process publishes the name again.
 *
 * A name has 1 to 127 bytes of printable ASCII, no spaces, and does not begin with a dot. A share
 * has one name: another one is VRAM_ERR_BUSY, and needs an export of its own. `version` may be
 * NULL.
 */
VRAM_API vram_status vram_share_publish(vram_share *share, const char *name, uint64_t *version);

/** Opens the newest version of a name. VRAM_ERR_INVALID if there is no such name; the rest as
    vram_share_open. */
VRAM_API vram_status vram_share_open_name(vram_device *device, const char *name,
                                          const vram_share_options *options, vram_share **share);

/** A published name. */
typedef struct vram_share_name {
    char name[VRAM_SHARE_NAME_MAX];
    uint64_t version;
    vram_share_token token;
} vram_share_name;

/**
 * Lists the names in the directory of `options` (NULL: the default one), in no particular order.
 * *count is in: how many fit into `names`; out: how many there are. Names whose owner was killed
 * are listed until somebody publishes them anew; opening them returns VRAM_ERR_STALE.
 */
VRAM_API vram_status vram_share_list(const vram_share_options *options, vram_share_name *names,
                                     uint32_t *count);

#ifdef __cplusplus
}
#endif

#endif
