/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/remote.h: memory of other processes, on this machine or another, through UCX. Part of
 * libvram-ucx (link with -lvram-ucx).
 *
 * One process opens a region over some of its blocks and passes two pieces of plain data to
 * another by any way it likes: the address of its vram_remote, and the token of the region. The
 * other connects and copies to and from the region, with the same async handles as all transfers.
 *
 *   vram_remote_open(device, NULL, &remote);                       in one process
 *   vram_remote_region_open(remote, blocks, count, NULL, &region);
 *   vram_remote_address_get(remote, address, &bytes);
 *   vram_remote_token_get(region, &token);
 *
 *   vram_remote_peer_open(remote, address, bytes, 0, &peer);       in another
 *   vram_remote_copy copy = {.part = 7, .addr = page, .bytes = page_bytes};
 *   vram_remote_get(peer, &token, &copy, 1, NULL, &async);
 *
 * Paths. UCX moves the bytes; which way depends on the memory:
 *
 *   shared   memory of vram_remote_provider_get on the same machine: UCX maps it in both
 *            processes and copies without the other process
 *   served   everything else: the owner reads and writes for the peer. Memory that the host does
 *            not reach, such as device memory without GPU support in UCX, goes through page-locked
 *            slots, and is copied to and from the device while the network moves the next piece
 *   direct   with VRAM_REMOTE_IN_PLACE, large puts to memory that the host reaches
 *
 * A UCX with CUDA support would reach device memory directly; that path has not run on hardware
 * and is off unless VRAM_REMOTE_DEVICE_DIRECT asks for it.
 *
 * Failures. Every transfer has a deadline. Its handle is ready or in error by then, whatever the
 * network and the other process do. A peer whose data is under way when a deadline passes is
 * broken: its other transfers fail with VRAM_ERR_IO, and the program opens it again. A put that
 * failed may have written a part: each byte there is old or new. No transfer is repeated by the
 * library. Nothing is written to local memory after a handle is in error.
 *
 * Trust. Messages are checked: version, lengths, keys, bounds. A process that does not know the key
 * in an address or token gets a status. But UCX itself trusts its network: it does not encrypt, and
 * whoever speaks its protocols by hand can do more. Use UCX on networks where every machine is
 * trusted. With VRAM_REMOTE_IN_PLACE, and in shared memory, a process that was given a token is
 * trusted with the memory, unless the region has VRAM_REMOTE_CHECKED.
 *
 * UCX (libucp.so.0, 1.13 or newer) is loaded when the first vram_remote is opened, and stays.
 * VRAM_ERR_NO_DRIVER says why it could not be. What UCX writes to its log on threads of this
 * library is discarded, and its signal handlers are removed.
 */
#ifndef VRAM_REMOTE_H
#define VRAM_REMOTE_H

#include <vram/async.h>
#include <vram/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vram_remote vram_remote;               /* this process, as others reach it */
typedef struct vram_remote_region vram_remote_region; /* blocks that others may access */
typedef struct vram_remote_peer vram_remote_peer;     /* a connection to another process */

enum {
    VRAM_REMOTE_TOKEN_BYTES = 64,
    VRAM_REMOTE_ADDRESS_MAX = 8192,   /* bytes of an address, at most */
    VRAM_REMOTE_PARTS_MAX = 1 << 20,  /* blocks of a region */
    VRAM_REMOTE_COPIES_MAX = 1 << 20, /* copies of one transfer */
    VRAM_REMOTE_CHUNK_DEFAULT = 1 << 20
};

/** Names a region. Plain bytes without padding, to be copied, stored and sent as they are. */
typedef struct vram_remote_token {
    uint8_t bytes[VRAM_REMOTE_TOKEN_BYTES];
} vram_remote_token;

/* ----------------------------------------------------------- opening, closing */

typedef enum vram_remote_flag {
    VRAM_REMOTE_STAGED = 1 << 0, /* all local memory goes through slots; for tests */
    /* UCX may read and write device memory itself if it was built for it. Not run on hardware. */
    VRAM_REMOTE_DEVICE_DIRECT = 1 << 1,
    /* Puts of 64 KiB and more are written in place by UCX (RMA), if both sides ask for it. For
       networks that have RMA, on which it has not run. Over TCP UCX 1.13 makes do with messages of
       its own, and ends the process that gets one on a connection that has just failed. */
    VRAM_REMOTE_IN_PLACE = 1 << 2
} vram_remote_flag;

typedef struct vram_remote_options {
    size_t size;    /* sizeof(vram_remote_options) */
    uint32_t flags; /* of vram_remote_flag */
    /* Transports by UCX's names ("tcp", "tcp,sm", "rc,sm"); NULL: UCX decides. Without "sm" no
       shared memory is used. Copied */
    const char *transports;
    const char *interfaces; /* network interfaces ("eth0"); NULL: UCX decides. Copied */
    uint64_t timeout_ns;    /* of transfers and connections without their own; 0: 10 seconds */
    uint64_t chunk_bytes;   /* of one piece on the network, and of a slot; 0: 1 MiB */
    uint32_t slots;         /* for staging; 0: 8. They are made at the first use */
} vram_remote_options;

/**
 * Opens the network for a device. A thread of the library serves it until vram_remote_close or the
 * end of the device. VRAM_ERR_NO_DRIVER without UCX, VRAM_ERR_UNSUPPORTED if none of the transports
 * can be used here; the error record says why.
 */
VRAM_API vram_status vram_remote_open(vram_device *device, const vram_remote_options *options,
                                      vram_remote **remote);

/**
 * Closes it, with its regions and peers. NULL is allowed. Transfers that are under way fail with
 * VRAM_ERR_SHUTDOWN. Waits up to the remote's timeout for other processes to release its regions.
 */
VRAM_API vram_status vram_remote_close(vram_remote *remote);

/**
 * Writes the address to `address`. *bytes is in: its capacity; out: the bytes it has, also after
 * VRAM_ERR_LIMIT for too few. VRAM_REMOTE_ADDRESS_MAX bytes are always enough.
 */
VRAM_API vram_status vram_remote_address_get(vram_remote *remote, void *address, size_t *bytes);

/**
 * A provider of memory for pools (vram_pool_options.provider) that processes on this machine reach
 * by shared memory, without a copy in between. `size` is set by the caller. Only on devices whose
 * memory the host can access; otherwise, and without "sm", VRAM_ERR_UNSUPPORTED. The memory stays
 * valid after the remote was closed, until the pool has freed it.
 */
VRAM_API vram_status vram_remote_provider_get(vram_remote *remote, vram_provider *provider);

/* ------------------------------------------------------------------- regions */

typedef enum vram_remote_region_flag {
    VRAM_REMOTE_READ_ONLY = 1 << 0, /* puts are refused */
    /* Peers get no direct access. This process checks and makes every access itself. */
    VRAM_REMOTE_CHECKED = 1 << 1
} vram_remote_region_flag;

typedef struct vram_remote_region_options {
    size_t size;    /* sizeof(vram_remote_region_options) */
    uint32_t flags; /* of vram_remote_region_flag */
} vram_remote_region_options;

/**
 * Opens a region over `count` live blocks of pools of the remote's device, its parts in this order.
 * Blocks are given by their first address. They stay the program's, and are pinned until the
 * region is closed. Memory is registered with UCX once per physical handle, whatever the number of
 * blocks and regions in it. VRAM_ERR_INVALID if an address is not the start of a live block.
 */
VRAM_API vram_status vram_remote_region_open(vram_remote *remote, const vram_addr *blocks,
                                             uint32_t count,
                                             const vram_remote_region_options *options,
                                             vram_remote_region **region);

/**
 * Closes a region. NULL is allowed. Peers that have it are told, finish what they have begun, and
 * let go; their later transfers get VRAM_ERR_STALE. A peer that does not let go within the remote's
 * timeout is disconnected. VRAM_ERR_TIMEOUT if such a peer may still write by shared memory: then
 * the blocks stay pinned until the remote is closed.
 */
VRAM_API vram_status vram_remote_region_close(vram_remote_region *region);

/** The token of a region. The same each time. */
VRAM_API vram_status vram_remote_token_get(vram_remote_region *region, vram_remote_token *token);

/**
 * Raises the mark of a region to `value` once the work submitted to `queue` so far (NULL: none) is
 * complete. A mark is a number that only rises, 0 at first. Gets can wait for it (`after`), puts
 * raise it (`mark`). Does not wait.
 */
VRAM_API vram_status vram_remote_mark(vram_remote_region *region, vram_queue *queue,
                                      uint64_t value);

/** Waits until the mark is at least `value`. VRAM_ERR_TIMEOUT after `timeout` ns (vram/queue.h). */
VRAM_API vram_status vram_remote_mark_wait(vram_remote_region *region, uint64_t value,
                                           uint64_t timeout);

/* --------------------------------------------------------------------- peers */

/**
 * Connects to the process that an address names, within `timeout` ns; 0: the remote's.
 * VRAM_ERR_INVALID if the address is damaged; VRAM_ERR_UNSUPPORTED if the other side speaks another
 * version, or no transport reaches it; VRAM_ERR_BUSY if it refuses, since the key in the address is
 * not its own; VRAM_ERR_TIMEOUT or VRAM_ERR_IO if it does not answer.
 */
VRAM_API vram_status vram_remote_peer_open(vram_remote *remote, const void *address, size_t bytes,
                                           uint64_t timeout, vram_remote_peer **peer);

/** Disconnects. NULL is allowed. Its transfers fail with VRAM_ERR_SHUTDOWN. */
VRAM_API vram_status vram_remote_peer_close(vram_remote_peer *peer);

/* ----------------------------------------------------------------- transfers */

/** One copy between local memory and a part of a region. */
typedef struct vram_remote_copy {
    uint32_t part;   /* of the region */
    uint64_t offset; /* in the part */
    vram_addr addr;  /* local: memory of the device, or page-locked memory */
    uint64_t bytes;
} vram_remote_copy;

typedef struct vram_remote_transfer {
    size_t size;       /* sizeof(vram_remote_transfer) */
    vram_queue *queue; /* the transfer begins after the work submitted to it so far; may be NULL */
    uint64_t timeout_ns; /* from now on; 0: the remote's */
    uint64_t after;      /* get: begins when the region's mark is at least this */
    uint64_t mark;       /* put: raises the mark to this when all bytes are there; 0: does not */
} vram_remote_transfer;

/**
 * Copies local memory into parts of a region. Ready when all bytes are in the memory of the other
 * process, which confirms it unless the memory is shared; the result is their number. Local memory
 * must not change before. Copies of one list may run in any order. Bounds are checked before
 * anything is sent; the handle says what is wrong. `async` may not be NULL.
 */
VRAM_API vram_status vram_remote_put(vram_remote_peer *peer, const vram_remote_token *token,
                                     const vram_remote_copy *copies, size_t count,
                                     const vram_remote_transfer *options, vram_async *async);

/** Copies parts of a region into local memory. Ready when all bytes are there. */
VRAM_API vram_status vram_remote_get(vram_remote_peer *peer, const vram_remote_token *token,
                                     const vram_remote_copy *copies, size_t count,
                                     const vram_remote_transfer *options, vram_async *async);

/* --------------------------------------------------------------- information */

typedef struct vram_remote_info {
    size_t size;            /* in: sizeof(vram_remote_info) of the caller */
    char version[32];       /* of UCX, "1.13.1" */
    bool shared_memory;     /* the shared path can be used */
    bool device_direct;     /* UCX reaches the device's memory itself */
    uint32_t peers;         /* connections, those of other processes to this one included */
    uint32_t regions;       /* open now */
    uint32_t handles;       /* registered with UCX now */
    uint64_t registrations; /* with UCX so far */
    uint64_t put_bytes;     /* sent by puts of this process that succeeded */
    uint64_t get_bytes;     /* received by gets of this process that succeeded */
    uint64_t shared_bytes;  /* of both, by shared memory, */
    uint64_t direct_bytes;  /* in place over the network, */
    uint64_t served_bytes;  /* by the other process */
    uint64_t staged_bytes;  /* through slots on this side, also for other processes */
    uint64_t failures;      /* transfers in error */
    uint64_t refused;       /* messages of other processes that made no sense */
} vram_remote_info;

VRAM_API vram_status vram_remote_info_get(vram_remote *remote, vram_remote_info *info);

#ifdef __cplusplus
}
#endif

#endif
