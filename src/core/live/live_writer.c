/* SPDX-License-Identifier: Apache-2.0 */
/*
 * live_writer.c: the thread that writes the live page. See live_writer.h.
 *
 * `live.lock` guards the list of contexts and the run, and is held while the page is collected and
 * written. So a context that ends is either in the page or out of the list, and a run that was told
 * to stop writes nothing more. The page lies in memory: writing it takes microseconds. A request is
 * answered without the lock, in slices: in between the thread sees that it is to stop.
 */
#include "core/live/live_writer.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/option.h"
#include "base/os/os.h"
#include "base/os/unix_socket.h"
#include "core/live/live_answer.h"
#include "core/live/page_image.h"

#include <stddef.h>
#include <string.h>

#define LONGEST_NS UINT64_C(10000000000) /* between two updates, however costly they are */

uint64_t vr_live_interval_ns = UINT64_C(100000000);

#define REQUEST_NS UINT64_C(1000000000)  /* for a connection after a request */
#define ANSWER_NS  UINT64_C(10000000000) /* for a peer to take the answer */
#define NAMES_NS   UINT64_C(5000000000)  /* for looking up names of code */
#define SLICE_NS   UINT64_C(20000000)    /* between two looks whether to stop */

enum { SWEEP_MAX = 1000 }; /* stale files that a new writer removes */

/* One thread, from its start to its end. */
struct live_run {
    struct vr_thread thread;
    struct vr_cond changed;
    bool stop;              /* under the lock, as the rest */
    bool ended;             /* the thread uses it no more, */
    bool orphan;            /* or frees it at its end, because nobody joins it */
    uint64_t thread_number; /* 0: not running yet */
    uint64_t cpu_ns;        /* that the thread had used before the last wait */
    struct vr_page_file file;
    struct vr_page_rows rows;
    struct vr_page_image packed; /* the page as it is written */
};

/* A context that has, or had, a pool. */
struct live_context {
    struct vr_watcher watcher;
    struct vr_link link;
    struct vr_context *context;
};

static struct {
    struct vr_mutex lock;
    uint64_t process; /* whose list and run these are; 0: not set up */
    struct vr_list contexts;
    struct live_run *run; /* NULL: none, or it gave up */
    bool gave_up;         /* the page cannot be written: not tried again */
    bool at_exit;         /* the handler is registered, in this process or a parent */
} live = {.lock = VR_MUTEX_INIT(VR_RANK_LIVE)};

/* --------------------------------------------------------------------- turns */

static vram_status page_update(struct live_run *run, uint32_t *request) {
    vr_page_rows_begin(&run->rows, vr_os_now());
    for (struct vr_link *link = vr_list_first(&live.contexts); link;
         link = vr_list_next(&live.contexts, link)) {
        vr_page_rows_add(&run->rows, VR_CONTAINER(link, struct live_context, link)->context);
    }
    vr_page_rows_end(&run->rows);
    vram_status status = vr_page_image_write(&run->rows.image, &run->packed, &run->file, request);
    if (status == VRAM_ERR_BUSY) { /* another one is in its place, which stays */
        run->file.inode = 0;
    }
    if (status == VRAM_ERR_STALE) { /* someone removed it, or cut it */
        vr_page_file_remove(&run->file);
        status = vr_page_image_create(&run->rows.image, &run->file, vr_live_interval_ns);
    }
    return status;
}

static bool must_stop(const struct live_run *run) {
    return run->stop || vr_os_exiting();
}

/* Waits that long, or until it is to stop. */
static void interval_wait(struct live_run *run, uint64_t ns) {
    uint64_t until = vr_os_now() + ns;
    for (uint64_t now = vr_os_now(); !must_stop(run) && now < until; now = vr_os_now()) {
        (void)vr_cond_wait(&run->changed, &live.lock, until - now);
    }
}

/* Keeps (3): waits as much longer as the turn took more, with the wait before it. What a request
   took does not count. */
static void turn_wait(struct live_run *run) {
    uint64_t before = run->cpu_ns;
    run->cpu_ns = vr_os_thread_cpu();
    uint64_t ns = (run->cpu_ns - before) * VR_LIVE_CPU_SHARE;
    ns = ns < vr_live_interval_ns ? vr_live_interval_ns : ns > LONGEST_NS ? LONGEST_NS : ns;
    interval_wait(run, ns);
}

/* ------------------------------------------------------------------ requests */

/* A connection that is answered. */
struct live_peer {
    struct live_run *run;
    int fd;
    uint64_t deadline; /* vr_os_now */
};

static bool run_is_over(const struct live_run *run) {
    vr_mutex_lock(&live.lock);
    bool over = must_stop(run);
    vr_mutex_unlock(&live.lock);
    return over;
}

/* Waits for a slice of time; false: the deadline has passed, or the thread is to stop. */
static bool slice_wait(const struct live_run *run, struct vr_os_poll *polled, uint64_t deadline) {
    if (vr_os_now() >= deadline || run_is_over(run)) {
        return false;
    }
    vr_os_poll(polled, 1, SLICE_NS);
    return true;
}

/* A vram_write_fn. */
static bool peer_send(void *user, const char *text, size_t bytes) {
    struct live_peer *peer = user;
    while (bytes > 0) {
        size_t sent = 0;
        vram_status status = vr_os_socket_send(peer->fd, text, bytes, NULL, 0, &sent);
        struct vr_os_poll writable = {.fd = peer->fd, .write = true};
        if (status == VRAM_ERR_NOT_READY && slice_wait(peer->run, &writable, peer->deadline)) {
            continue;
        }
        if (status != VRAM_OK) {
            return false;
        }
        text += sent;
        bytes -= sent;
    }
    return true;
}

static void peer_answer(struct live_run *run, int fd) {
    struct live_peer peer = {.run = run, .fd = fd, .deadline = vr_os_now() + ANSWER_NS};
    struct vr_writer writer = {.write = peer_send, .user = &peer};
    vr_writer_line(&writer, VR_LIVE_ANSWER_FIRST);
    struct vr_live_answer *answer = writer.refused ? NULL : vr_live_answer_make();
    if (!answer) {
        return;
    }
    vr_mutex_lock(&live.lock);
    for (struct vr_link *link = vr_list_first(&live.contexts); link && !must_stop(run);
         link = vr_list_next(&live.contexts, link)) {
        vr_live_answer_add(answer, VR_CONTAINER(link, struct live_context, link)->context);
    }
    vr_mutex_unlock(&live.lock);
    (void)vr_live_answer_write(answer, &writer, vr_os_now() + NAMES_NS);
    vr_live_answer_free(answer);
}

/* Accepts one connection of the same user and answers it. */
static void listener_serve(struct live_run *run, int listener) {
    uint64_t deadline = vr_os_now() + REQUEST_NS;
    struct vr_os_poll readable = {.fd = listener, .read = true};
    vram_status status = VRAM_ERR_NOT_READY;
    int fd = -1;
    while (status == VRAM_ERR_NOT_READY && slice_wait(run, &readable, deadline)) {
        status = vr_os_socket_accept(listener, &fd);
    }
    struct vr_os_peer who;
    if (status == VRAM_OK) {
        if (vr_os_socket_peer(fd, &who) == VRAM_OK && who.user == vr_os_user()) {
            peer_answer(run, fd);
        }
        vr_os_file_close(fd);
    }
}

/* Called with the lock, which it releases meanwhile. A request that cannot be answered is not:
   the asking process says so. */
static void request_serve(struct live_run *run) {
    struct vram_error error;
    char path[VR_PAGE_PATH_MAX];
    int listener;
    memcpy(path, run->file.socket, sizeof path);
    vr_mutex_unlock(&live.lock);
    vr_error_save(&error);
    vr_os_folder_remove(path);
    if (vr_os_socket_listen(path, &listener) == VRAM_OK) {
        listener_serve(run, listener);
        vr_os_file_close(listener);
        vr_os_folder_remove(path);
    }
    vr_error_restore(&error);
    vr_mutex_lock(&live.lock);
}

/* ---------------------------------------------------------------- the thread */

static vram_status turns_take(struct live_run *run) {
    vram_status status = VRAM_OK;
    while (status == VRAM_OK && !must_stop(run)) {
        uint32_t request = 0;
        status = page_update(run, &request);
        if (status == VRAM_OK && request) {
            request_serve(run);
            run->cpu_ns = vr_os_thread_cpu();
        }
        if (status == VRAM_OK) {
            turn_wait(run);
        }
    }
    return status;
}

static void run_free(struct live_run *run) {
    vr_cond_destroy(&run->changed);
    vr_mem_free(run);
}

/* The page cannot be written: keeps (2). Called with the lock, which it releases meanwhile. */
static void run_give_up(struct live_run *run, vram_status status) {
    if (live.run == run) { /* nobody ends it */
        live.run = NULL;
        live.gave_up = run->orphan = true;
        vr_os_thread_detach(&run->thread);
    }
    vr_mutex_unlock(&live.lock);
    if (status == VRAM_ERR_BUSY) {
        vr_log(VRAM_LOG_INFO, "another copy of the library in this process writes the live page");
    } else {
        vr_log(VRAM_LOG_WARN, "no live page is written: %s; set VRAM_LIVE=off if it is not wanted",
               vr_error_get()->text);
    }
    vr_mutex_lock(&live.lock);
}

static vram_status page_create(struct live_run *run) {
    return vr_page_image_create(&run->rows.image, &run->file, vr_live_interval_ns);
}

/* Whether nobody else in this process writes the page that is there: `vram run` does, which stops
   then, or the program did that this one has replaced by exec. */
static bool page_is_abandoned(struct live_run *run) {
    uint64_t before = 0, after = 0;
    uint32_t origin = VRAM_LIVE_PAGE_LIBRARY;
    const uint64_t at = offsetof(vram_live_page, sequence);
    if (!vr_page_file_peek(&run->file, offsetof(vram_live_page, origin), &origin, sizeof origin) ||
        origin == VRAM_LIVE_PAGE_RUN ||
        !vr_page_file_peek(&run->file, at, &before, sizeof before)) {
        return true;
    }
    interval_wait(run, 4 * vr_live_interval_ns);
    return !vr_page_file_peek(&run->file, at, &after, sizeof after) || before == after;
}

static vram_status page_begin(struct live_run *run) {
    vram_status status = page_create(run);
    if (status == VRAM_ERR_BUSY && page_is_abandoned(run) && !must_stop(run)) {
        vr_os_folder_remove(run->file.path);
        status = page_create(run);
    }
    return status;
}

static void run_main(void *argument) {
    VR_OPERATION("vram_pool_create");
    struct live_run *run = argument;
    struct vr_page_file file; /* run->file is under the lock: whoever stops the run reads it */
    vram_status status = vr_page_file_place(&file);
    if (status == VRAM_OK) {
        (void)vr_page_folder_sweep(file.folder, SWEEP_MAX);
    }
    vr_mutex_lock(&live.lock);
    run->file = file;
    run->thread_number = vr_os_thread_number();
    if (status == VRAM_OK && !must_stop(run)) {
        status = page_begin(run);
    }
    if (status == VRAM_OK) {
        run->cpu_ns = vr_os_thread_cpu(); /* the start is not counted */
        status = turns_take(run);
    }
    vr_page_file_remove(&run->file);
    if (status != VRAM_OK && !vr_os_exiting()) {
        run_give_up(run, status);
    }
    run->ended = true;
    bool orphan = run->orphan;
    vr_mutex_unlock(&live.lock);
    if (orphan) {
        run_free(run);
    }
}

/* ------------------------------------------------------- starting and ending */

/* Takes the run out of `live`, removes its page and tells it to stop. With `wait` the caller joins
   and frees it, by run_end; else it frees itself. Under the lock. */
static struct live_run *run_stop(bool wait) {
    struct live_run *run = live.run;
    live.run = NULL;
    run->stop = true;
    vr_page_file_remove(&run->file);
    vr_cond_broadcast(&run->changed);
    /* Its own log callback may end the context, or the process. */
    if (!run->ended && (!wait || run->thread_number == vr_os_thread_number())) {
        run->orphan = true;
        vr_os_thread_detach(&run->thread);
        return NULL;
    }
    return run;
}

/* With no lock held. */
static void run_end(struct live_run *run) {
    if (run) {
        vr_os_thread_join(&run->thread);
        run_free(run);
    }
}

/* At exit the page goes, and nobody waits. In a forked child the run is the parent's. */
static void exit_begins(void) {
    struct live_run *run = NULL;
    vr_mutex_lock(&live.lock);
    if (live.run && live.process == vr_os_process_generation()) {
        run = run_stop(false);
    }
    vr_mutex_unlock(&live.lock);
    run_end(run);
}

static vram_status run_start(void) {
    struct live_run *run = vr_mem_alloc(1, sizeof *run, vr_operation());
    if (!run) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vram_status status = vr_cond_init(&run->changed);
    if (status != VRAM_OK) {
        vr_mem_free(run);
        return status;
    }
    if (!live.at_exit) { /* without it a page stays behind, and the next reader removes it */
        live.at_exit = vr_os_at_exit(exit_begins) == VRAM_OK;
    }
    status = vr_os_thread_start(&run->thread, "vram-live", run_main, run);
    if (status != VRAM_OK) {
        run_free(run);
        return status;
    }
    live.run = run;
    return VRAM_OK;
}

static void context_closing(struct vr_watcher *watcher, bool finished) {
    struct live_context *entry = VR_CONTAINER(watcher, struct live_context, watcher);
    struct live_run *run = NULL;
    (void)finished;
    vr_mutex_lock(&live.lock);
    vr_link_remove(&entry->link);
    vr_mutex_lock(&entry->context->lock);
    vr_link_remove(&watcher->link);
    vr_mutex_unlock(&entry->context->lock);
    if (vr_list_empty(&live.contexts) && live.run) {
        run = run_stop(true);
    }
    vr_mutex_unlock(&live.lock);
    vr_mem_free(entry);
    run_end(run);
}

/* Lists the context; under the lock. */
static vram_status context_add(struct vr_context *context) {
    struct live_context *entry = vr_mem_alloc(1, sizeof *entry, vr_operation());
    if (!entry) {
        return VRAM_ERR_HOST_MEMORY;
    }
    entry->context = context;
    entry->watcher.closing = context_closing;
    entry->watcher.handle = context->object.handle;
    vr_mutex_lock(&context->lock);
    bool closing = context->closing;
    if (!closing) {
        vr_list_append(&context->watchers, &entry->watcher.link);
        vr_list_append(&live.contexts, &entry->link);
    }
    vr_mutex_unlock(&context->lock);
    if (closing) {
        vr_mem_free(entry);
    }
    return VRAM_OK;
}

static bool context_is_listed(const struct vr_context *context) {
    for (struct vr_link *link = vr_list_first(&live.contexts); link;
         link = vr_list_next(&live.contexts, link)) {
        if (VR_CONTAINER(link, struct live_context, link)->context == context) {
            return true;
        }
    }
    return false;
}

void vr_live_note(struct vr_context *context) {
    struct vram_error error;
    vram_status status = VRAM_OK;
    if (!vr_option_number(VR_OPTION_LIVE)) {
        return;
    }
    vr_error_save(&error);
    vr_mutex_lock(&live.lock);
    if (live.process != vr_os_process_generation()) { /* the first pool of the process; (1) */
        live.process = vr_os_process_generation();
        vr_list_init(&live.contexts);
        live.run = NULL;
        live.gave_up = false;
    }
    if (!live.gave_up) {
        status = context_is_listed(context) ? VRAM_OK : context_add(context);
        if (status == VRAM_OK && !live.run && !vr_list_empty(&live.contexts)) {
            status = run_start();
        }
    }
    live.gave_up = live.gave_up || status != VRAM_OK;
    vr_mutex_unlock(&live.lock);
    if (status != VRAM_OK) {
        vr_log(VRAM_LOG_WARN, "no live page is written: %s", vr_error_get()->text);
    }
    vr_error_restore(&error);
}
