/* SPDX-License-Identifier: Apache-2.0 */
/* list.h: an intrusive doubly linked list. A zeroed link is "in no list". */
#ifndef VR_LIST_H
#define VR_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct vr_link {
    struct vr_link *next, *prev;
};

struct vr_list {
    struct vr_link head; /* the list is circular through its head */
};

#define VR_CONTAINER(link, type, member) ((type *)((char *)(link)-offsetof(type, member)))

static inline void vr_list_init(struct vr_list *list) {
    list->head.next = list->head.prev = &list->head;
}

static inline bool vr_list_empty(const struct vr_list *list) {
    return list->head.next == &list->head;
}

static inline bool vr_link_linked(const struct vr_link *link) {
    return link->next != NULL;
}

static inline void vr_list_append(struct vr_list *list, struct vr_link *link) {
    link->prev = list->head.prev;
    link->next = &list->head;
    link->prev->next = link;
    list->head.prev = link;
}

static inline void vr_link_remove(struct vr_link *link) {
    if (link->next) {
        link->next->prev = link->prev;
        link->prev->next = link->next;
        link->next = link->prev = NULL;
    }
}

/* First link, or NULL. */
static inline struct vr_link *vr_list_first(const struct vr_list *list) {
    return list->head.next == &list->head ? NULL : list->head.next;
}

/* The link after `link`, or NULL at the end. */
static inline struct vr_link *vr_list_next(const struct vr_list *list, const struct vr_link *link) {
    return link->next == &list->head ? NULL : link->next;
}

#endif
