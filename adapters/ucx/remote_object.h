/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remote_object.h: the objects of vram/remote.h, and the files.
 *
 *   ucx_library.c      UCX at run time
 *   remote_wire.c      messages, addresses, tokens
 *   remote.c           opening and closing a remote; its thread
 *   remote_memory.c    registrations, the provider, what memory is where
 *   remote_region.c    regions and their tables
 *   remote_mark.c      marks of regions
 *   remote_peer.c      connections: hello, welcome, failure, end
 *   remote_socket.c    the end of TCP connections that UCX holds on to
 *   remote_mail.c      messages that arrive, and messages that are sent
 *   remote_grant.c     regions of others, as this process may use them
 *   remote_transfer.c  the calls put and get, and the life of a transfer
 *   remote_chunk.c     pieces of transfers: slots, copies, the network
 *   remote_serve.c     accesses that this process makes for others
 *
 *  (1) A remote has one thread. It alone calls UCX's worker and endpoints and reads or writes
 *      peers, grants, transfers and chunks. Other threads put commands into the inbox.
 *  (2) `lock` guards the inbox, marks and the lists of memory. It is held across no call of UCX and
 *      no public call.
 *  (3) A transfer holds a reference to its peer, a peer and a region to their remote. Memory of
 *      the provider holds a reference, too: UCX's contexts outlive it.
 *  (4) UCX may use memory of the program only between the start of a request and its callback. A
 *      transfer is finished only when none of its chunks has a request or a copy under way. So
 *      after a handle is in error, nothing is written. Where a request does not end in time, the
 *      endpoint is closed by force, which ends all of its requests.
 *  (5) Callbacks of UCX only set flags and append to lists; the thread's loop does the work.
 */
#ifndef VR_REMOTE_OBJECT_H
#define VR_REMOTE_OBJECT_H

#include "adapters/ucx/remote_wire.h"
#include "adapters/ucx/ucx_library.h"
#include "base/atomic.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/object.h"
#include "vram/device.h"
#include "vram/extension.h"
#include "vram/transfer.h"

enum {
    VR_SOCKET_BYTES = 19,       /* of a socket's address: family, address, port */
    VR_REMOTE_WINDOW = 16,      /* chunks of a peer on the network at once */
    VR_REMOTE_SERVED_MAX = 256, /* requests of a peer that are open here */
    VR_REMOTE_SESSIONS_MAX = 65536,
    VR_REMOTE_DIRECT_BYTES = 64 << 10, /* least that is put in place over the network */
    VR_REMOTE_MESSAGE_ID = 0x56,       /* of UCX active messages */
    VR_REMOTE_POLL_NS = 50000          /* between looks at a queue or a copy */
};

struct vr_remote;
struct vr_peer;
struct vr_region;
struct vr_transfer;

/* Work that another thread hands to the remote's. */
struct vr_command {
    struct vr_link link;
    void (*run)(struct vr_remote *remote, struct vr_command *command);
    bool waits; /* a thread waits in vr_remote_call */
    bool done;  /* under `lock` */
    vram_status status;
    vram_error error;
};

/* One context of UCX with its worker. */
struct vr_ucx_worker {
    ucp_context_h context; /* NULL: not open */
    ucp_worker_h worker;
    ucp_address_t *address;
    size_t address_bytes;
};

/* Memory registered with UCX: one physical handle, or a piece of provider memory. */
struct vr_registration {
    struct vr_link link; /* in remote->registrations */
    vram_addr base;
    uint64_t bytes;
    uint32_t users;           /* regions */
    ucp_mem_h net, near;      /* near NULL: not reachable by shared memory */
    void *net_key, *near_key; /* packed */
    size_t net_key_bytes, near_key_bytes;
};

/* Memory of the provider. */
struct vr_segment {
    struct vr_link link; /* in remote->segments; under `lock` */
    vram_addr base;
    uint64_t bytes;
    ucp_mem_h memory;
};

/* Page-locked memory that copies go through. */
struct vr_remote_slot {
    struct vr_remote_slot *next; /* free ones */
    vram_addr addr;
    void *memory;
};

struct vr_remote {
    struct vr_object object;
    vram_attachment *attachment; /* to `pool`, which ends with the device */
    vram_device *device;
    vram_pool *pool;   /* of page-locked memory; made by the remote */
    vram_queue *queue; /* that copies to and from slots run on; NULL: not needed yet */
    struct vram_device_info info;
    uint32_t flags;
    uint64_t timeout_ns, chunk_bytes;
    uint32_t slot_count;
    bool device_direct;
    uint64_t secret[2]; /* that HELLO must contain */
    struct vr_ucx_worker net, near;
    int event_fd;
    ucp_listener_h listener;         /* NULL: not yet */
    uint8_t socket[VR_SOCKET_BYTES]; /* where it listens */
    uint8_t *address;
    size_t address_bytes;
    struct vr_thread thread;
    vr_atomic_u64 thread_number; /* of the thread; commands that wait are refused on it */

    struct vr_mutex lock;
    struct vr_cond changed; /* commands done, marks raised */
    struct vr_list inbox, segments;
    bool stopping;

    /* The thread's own. */
    struct vr_list peers, regions, registrations, mail, marks, abandoned, arrivals;
    struct vr_peer **sessions; /* by the low 16 bits of a session */
    uint32_t session_count;
    struct vr_remote_slot *slots, *free_slots;
    uint32_t copies; /* between slots and the device under way */
    uint64_t next_op, next_region;
    bool ending;       /* connections are rejected */
    bool busy;         /* something happened in this turn of the loop: another follows at once */
    uint64_t sleep_ns; /* how long the loop may sleep after this turn */

    vr_atomic_u64 peer_count, region_count, handle_count, registration_count;
    vr_atomic_u64 put_bytes, get_bytes, shared_bytes, direct_bytes, served_bytes, staged_bytes;
    vr_atomic_u64 failures, refused;
};

/* ------------------------------------------------------------------- regions */

struct vr_region_part {
    vram_addr addr;
    uint64_t bytes;
    uint8_t *host; /* NULL: only through slots */
};

struct vr_region {
    struct vr_object object;
    struct vr_link link; /* in remote->regions */
    struct vr_remote *remote;
    struct vr_remote_key key;
    uint32_t flags;
    bool served; /* accesses are made by this process */
    struct vr_region_part *parts;
    uint32_t part_count, pinned;
    struct vr_registration **registrations;
    uint32_t registration_count;
    uint32_t serving;           /* chunks under way in it */
    uint32_t holders;           /* peers that have it */
    bool listed;                /* in remote->regions: can be found */
    struct vr_command *closing; /* that waits for serving and holders to become 0 */
    uint64_t close_deadline;
    bool near_lost; /* a peer with shared memory did not let go */
    uint64_t mark;  /* under the remote's lock */
};

/* That a peer has a region of this process. */
struct vr_holder {
    struct vr_link link; /* in peer->holders */
    struct vr_region *region;
};

/* --------------------------------------------------------------------- peers */

/* A connection that this process has broken, and that the other one may still read from: bytes of
   a put that were on their way. The next HELLO to it lists them. */
struct vr_abandoned {
    struct vr_link link; /* in remote->abandoned */
    uint64_t secret;     /* of the other process */
    uint64_t session;    /* its number for the connection */
};

enum vr_peer_state { VR_PEER_OPENING, VR_PEER_READY, VR_PEER_BROKEN };

struct vr_peer {
    struct vr_object object; /* handle 0: the other process connected to this one */
    struct vr_link link;     /* in remote->peers */
    struct vr_remote *remote;
    enum vr_peer_state state;
    bool failed;    /* set by UCX; (5) */
    bool forgotten; /* the program has closed it, or it is incoming */
    ucp_ep_h ep;
    void *closing;     /* request; NULL: none */
    bool closed;       /* the endpoint is gone */
    uint32_t requests; /* of UCX that have not called back */
    uint64_t session, other_session;
    vram_error why; /* why it is broken */
    struct vr_command *opening;
    uint64_t *old; /* sessions that HELLO listed: the welcome waits for their end */
    uint32_t old_count;
    vram_status welcome;      /* what it will say */
    uint64_t deadline;        /* of opening */
    ucp_worker_h near_worker; /* NULL: no shared memory with this peer */
    ucp_ep_h near_ep;
    struct vr_list transfers, chunks, grants, holders, serves;
    uint32_t moving;      /* chunks of transfers on the network */
    uint32_t serve_count; /* of `serves` and of chunks that serve */
    uint64_t chunk_bytes; /* the smaller of both sides' */
    uint8_t *address;     /* of the other process */
    size_t address_bytes;
};

/* A region of another process. */
struct vr_grant_piece {
    uint64_t addr, bytes;
    uint32_t key; /* index of rkeys */
};

struct vr_grant_part {
    uint64_t bytes;
    uint32_t first, count; /* pieces */
};

struct vr_grant {
    struct vr_link link; /* in peer->grants */
    struct vr_remote_key key;
    uint64_t op; /* of OPEN */
    bool ready, revoked, served, read_only;
    uint32_t users; /* transfers */
    uint32_t part_count, piece_count, key_count;
    struct vr_grant_part *parts;
    struct vr_grant_piece *pieces;
    ucp_rkey_h *net_keys, *near_keys;
};

/* ----------------------------------------------------------------- transfers */

enum vr_transfer_stage {
    VR_TRANSFER_POINT,  /* waits for the queue */
    VR_TRANSFER_GRANT,  /* waits for OPENED */
    VR_TRANSFER_AWAIT,  /* waits for REACHED */
    VR_TRANSFER_MOVE,   /* has chunks */
    VR_TRANSFER_FLUSH,  /* waits for UCX to have written everything there */
    VR_TRANSFER_COMMIT, /* waits for DONE */
    VR_TRANSFER_OVER    /* waits for its chunks */
};

struct vr_local {
    struct vram_remote_copy copy;
    uint8_t *host; /* NULL: through slots */
    bool pinned;
};

struct vr_transfer {
    struct vr_command command;
    struct vr_link link; /* in peer->transfers */
    struct vr_peer *peer;
    bool put;
    enum vr_transfer_stage stage;
    struct vr_remote_key key;
    struct vr_grant *grant;
    uint64_t op, deadline, after, mark, bytes;
    vram_point point;
    vram_async_work *work;
    size_t count, at; /* copies, and the one whose chunks are made */
    uint64_t offset;  /* in that copy */
    uint32_t chunks;  /* under way */
    uint32_t flushing;
    uint64_t shared, direct, served; /* bytes by path */
    vram_error error;                /* status VRAM_OK: none so far */
    struct vr_local copies[];
};

enum vr_chunk_stage {
    VR_CHUNK_SLOT,     /* waits for a free slot */
    VR_CHUNK_COPY_IN,  /* from the device into the slot */
    VR_CHUNK_NET,      /* on the network */
    VR_CHUNK_COPY_OUT, /* from the slot to the device */
    VR_CHUNK_END
};

/* A piece of at most chunk_bytes; of a transfer, or of a request of a peer. */
struct vr_chunk {
    struct vr_link link; /* in peer->chunks */
    struct vr_peer *peer;
    struct vr_transfer *transfer; /* NULL: it serves */
    struct vr_region *region;     /* that it serves */
    enum vr_chunk_stage stage;
    bool to_network; /* otherwise from it */
    vram_addr addr;  /* local memory */
    uint8_t *host;   /* the same for the host; NULL: through the slot */
    uint64_t bytes;
    uint64_t part, offset;              /* of the region */
    const struct vr_grant_piece *piece; /* NULL: served by the other process */
    uint64_t piece_offset;
    uint64_t op; /* number of a READ, and of DATA that answers */
    struct vr_remote_slot *slot;
    vram_async copy;
    void *desc;        /* UCX's: contents that have not been received yet */
    bool desc_is_data; /* they are in memory at `desc` */
    bool answered;     /* DATA has arrived, or was sent */
    bool net_done;
    ucs_status_t net_status;
    vram_status status; /* of the chunk */
    uint8_t header[VR_REMOTE_MESSAGE_BYTES];
};

/* Progress of a put into a served region. */
struct vr_serve {
    struct vr_link link;      /* in peer->serves */
    struct vr_region *region; /* of the COMMIT; NULL: none yet */
    uint64_t op, landed, expected, mark;
    uint64_t after; /* AWAIT: the mark that it waits for */
    bool awaits, committed;
    struct vr_remote_key key;
    vram_status status;
};

/* A process that wants to connect. */
struct vr_arrival {
    struct vr_link link; /* in remote->arrivals */
    ucp_conn_request_h request;
};

/* A message that has arrived. */
struct vr_mail {
    struct vr_link link; /* in remote->mail */
    struct vr_message message;
    ucp_ep_h from;     /* of HELLO: the endpoint that it came by */
    void *desc;        /* UCX's: the contents; NULL: none, or taken over */
    bool desc_is_data; /* they are in memory at `desc`; otherwise they are received from it */
    size_t bytes;      /* of contents */
};

/* ------------------------------------------------------------------ remote.c */

/* Hands a command to the thread. VRAM_ERR_SHUTDOWN if it has ended. */
vram_status vr_remote_post(struct vr_remote *remote, struct vr_command *command);
/* The same, and waits until it is done; its status and error. */
vram_status vr_remote_call(struct vr_remote *remote, struct vr_command *command);
/* The thread looks again within `ns`. */
static inline void vr_remote_wake_in(struct vr_remote *remote, uint64_t ns) {
    remote->sleep_ns = ns < remote->sleep_ns ? ns : remote->sleep_ns;
}
/* Ends a command with this status and the thread's error record. */
void vr_command_end(struct vr_remote *remote, struct vr_command *command, vram_status status);

/* ----------------------------------------------------------- remote_memory.c */

/* Where the host finds memory of [addr, addr + bytes); *host NULL: only through slots. Any
   thread. VRAM_ERR_INVALID if it is not memory of the device. */
vram_status vr_memory_find(struct vr_remote *remote, vram_addr addr, uint64_t bytes,
                           uint8_t **host);
/* The registration of the handle at `addr`, made if needed; counts a user. */
vram_status vr_registration_get(struct vr_remote *remote, vram_addr addr,
                                struct vr_registration **registration);
void vr_registration_put(struct vr_remote *remote, struct vr_registration *registration);
/* The segment of the provider that contains `addr`; false: none. */
bool vr_segment_find(struct vr_remote *remote, vram_addr addr, struct vr_segment *found);
/* A free slot, or NULL; *status is why there will never be one. */
struct vr_remote_slot *vr_remote_slot_take(struct vr_remote *remote, vram_status *status);
void vr_remote_slot_give(struct vr_remote *remote, struct vr_remote_slot *slot);
void vr_remote_slots_free(struct vr_remote *remote);

/* ----------------------------------------------------------- remote_region.c */

/* The open region that a key names; VRAM_ERR_STALE, or VRAM_ERR_INVALID for a wrong secret. */
vram_status vr_region_find(struct vr_remote *remote, const struct vr_remote_key *key,
                           struct vr_region **region);
/* The answer to OPEN: a table, to be freed. */
vram_status vr_region_table(struct vr_region *region, bool near, uint8_t **table, size_t *bytes);
/* remote_mark.c */
uint64_t vr_region_mark(struct vr_region *region);
void vr_region_mark_raise(struct vr_region *region, uint64_t value);
/* Raises marks whose queues have come there. */
void vr_marks_step(struct vr_remote *remote);
void vr_marks_end(struct vr_remote *remote);
/* Ends regions that are being closed and are not in use any more. */
void vr_regions_step(struct vr_remote *remote);
/* The end of the remote: closes all regions. */
void vr_regions_end(struct vr_remote *remote);
void vr_holder_end(struct vr_holder *holder);

/* ------------------------------------------------------------- remote_peer.c */

void vr_peers_step(struct vr_remote *remote);
/* UCX's callback: a process connects; `remote` is the argument. */
void vr_peer_arrives(ucp_conn_request_h request, void *remote);
void vr_peer_hello(struct vr_remote *remote, struct vr_mail *mail);
void vr_peer_welcome(struct vr_peer *peer, const struct vr_message *message);
/* Ends a connection; the thread's error record says why. Not from UCX's callbacks. */
void vr_peer_break(struct vr_peer *peer);
struct vr_peer *vr_peer_find(struct vr_remote *remote, uint64_t session);
/* Closes all; VRAM_ERR_SHUTDOWN is recorded. */
void vr_peers_end(struct vr_remote *remote);

/* ----------------------------------------------------------- remote_socket.c */

void vr_socket_write(const struct sockaddr_storage *from, uint8_t to[VR_SOCKET_BYTES]);
/* False if it is not an address. */
bool vr_socket_read(const uint8_t *from, size_t bytes, struct sockaddr_storage *to);
/* An address of this machine on one of the interfaces, with port 0; NULL: of any. */
vram_status vr_socket_choose(const char *interfaces, struct sockaddr_storage *to);
/* Resets TCP connections of a worker to the machine with this address. */
void vr_sockets_reset(int event_fd, const uint8_t target[VR_SOCKET_BYTES]);

/* ------------------------------------------------------------- remote_mail.c */

vram_status vr_mail_open(struct vr_remote *remote);
void vr_mail_step(struct vr_remote *remote);
/* Sends a message; a failure breaks the peer later, by UCX. */
void vr_mail_send(struct vr_peer *peer, struct vr_message message);
/* The same with data, which is freed when it was sent. */
void vr_mail_send_data(struct vr_peer *peer, struct vr_message message, void *data, size_t bytes);
void vr_mail_free(struct vr_remote *remote, struct vr_mail *mail);
/* Counts a message that makes no sense; the peer that sent it is broken soon. */
void vr_mail_refuse(struct vr_peer *peer, const char *what);

/* ------------------------------------------------------------ remote_grant.c */

/* The grant of a region, asked for if there is none. */
vram_status vr_grant_get(struct vr_peer *peer, const struct vr_remote_key *key,
                         struct vr_grant **grant);
void vr_grant_put(struct vr_peer *peer, struct vr_grant *grant);
void vr_grant_opened(struct vr_peer *peer, struct vr_mail *mail);
void vr_grant_revoked(struct vr_peer *peer, uint64_t region);
void vr_grants_end(struct vr_peer *peer);

/* --------------------------------------------------------- remote_transfer.c */

void vr_transfers_step(struct vr_peer *peer);
/* An answer to a transfer: REACHED or DONE. */
void vr_transfer_answer(struct vr_peer *peer, const struct vr_message *message);
/* Fails a transfer with the thread's error record; it ends when its chunks have. */
void vr_transfer_fail(struct vr_transfer *transfer, vram_status status);
/* Fails all, with the peer's reason. */
void vr_transfers_fail(struct vr_peer *peer);

/* ------------------------------------------------------------ remote_chunk.c */

/* Makes the next chunk of a transfer, if there is one and the window allows it. */
bool vr_chunk_next(struct vr_transfer *transfer);
void vr_chunk_start(struct vr_chunk *chunk);
void vr_chunks_step(struct vr_peer *peer);
/* DATA for a chunk of a get. */
void vr_chunk_data(struct vr_peer *peer, struct vr_mail *mail);
/* The chunk's request was answered by UCX; callbacks. */
void vr_chunk_sent(void *request, ucs_status_t status, void *chunk);
void vr_chunk_received(void *request, ucs_status_t status, size_t bytes, void *chunk);
/* Notes the result of a call that begins a request. */
void vr_chunk_request(struct vr_chunk *chunk, ucs_status_ptr_t request);

/* ------------------------------------------------------------ remote_serve.c */

void vr_serve_mail(struct vr_peer *peer, struct vr_mail *mail);
/* A chunk that serves has ended. */
void vr_serve_landed(struct vr_chunk *chunk);
/* Answers requests whose mark or contents have arrived. */
void vr_serves_step(struct vr_peer *peer);
void vr_serves_end(struct vr_peer *peer);

#endif
