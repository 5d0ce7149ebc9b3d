/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page_folder.h: finds the live pages of running processes, and removes those of processes that
 * have ended. The folders are $XDG_RUNTIME_DIR/vram and /dev/shm/vram-UID of this user; for root
 * those of all users. Only folders that belong to their user, and that nobody else may write,
 * are looked at, and there only pages of the user's own processes; root may write any.
 */
#ifndef PAGE_FOLDER_H
#define PAGE_FOLDER_H

#include "live/page_view.h"

enum { PAGE_NAME_MAX = 96, PAGE_FOLDER_MAX = 128 };

/* What pages_visit met. */
struct pages_met {
    uint64_t read;    /* given to the visitor */
    uint64_t removed; /* of processes that have ended */
    uint64_t busy;    /* not complete, or written all the time */
    uint64_t wrong;   /* damaged, of another version, or not readable */
    char problem[PAGE_FOLDER_MAX + PAGE_NAME_MAX + 80]; /* the first of these; "": none */
};

/* One page that can be read. The view is the visitor's to keep; it ends with page_view_free. False:
   stop. `folder` is where the page lies, borrowed. */
typedef bool page_fn(void *user, const char *folder, struct page_view *view);

/* Calls `each` for every page of a process that runs. */
void pages_visit(page_fn *each, void *user, struct pages_met *met);

/* The same for one folder alone, which may belong to anyone: a user has named it. */
void pages_visit_in(const char *path, page_fn *each, void *user, struct pages_met *met);

/* What the name of a file in such a folder says: PID-START-SPACE.page or .sock. */
struct page_name {
    uint64_t pid, start_ticks, pid_space;
    bool socket;
};
bool page_name_read(const char *name, struct page_name *parts);
/* Writes it, with that ending. */
void page_name_write(const struct page_name *parts, const char *ending, char name[PAGE_NAME_MAX]);

/* The name of the file that this page belongs in. */
struct page_name page_name_of(const struct page_view *view);
/* Whether the page is that of the process in its file's name: one that claims another is a lie. */
bool page_view_matches(const struct page_view *view, const struct page_name *parts);

/* Whether the process's id means the same to this process: it is not in another container. */
bool page_is_of_here(const struct page_view *view);

/* What the name of a page of this running process is; false: it cannot be known. */
bool page_owner_describe(uint64_t pid, struct page_name *parts);

/* Whether the process that the name means has ended. False if it cannot be known from here. */
bool page_owner_ended(const struct page_name *parts);

/* Opens the folder for new pages of this user, and makes it if there is none; -1: it cannot. */
int page_folder_make(void);

#endif
