/* SPDX-License-Identifier: Apache-2.0 */
/* explore_site.c: the places in the source with an atomic operation, and which one is weakened. */
#include "explore_checker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SITES_MAX = 2048 };

extern const struct explore_site __start_explore_sites[], __stop_explore_sites[];

static CHECKER_STATE struct {
    unsigned count, weakened;
    enum vr_order order;
    uint16_t index_of[SITES_MAX]; /* by place in the section */
    const struct explore_site *sorted[SITES_MAX];
    bool reached[SITES_MAX];
} sites = {.weakened = SITE_NONE};

const char *site_file(const struct explore_site *site) {
    const char *at = strstr(site->file, "/src/"), *cli = strstr(site->file, "/cli/");
    at = at ? at : cli;
    return at ? at + 1 : site->file;
}

static int site_compare(const void *a, const void *b) {
    const struct explore_site *one = *(const struct explore_site *const *)a;
    const struct explore_site *two = *(const struct explore_site *const *)b;
    int by_file = strcmp(site_file(one), site_file(two));
    if (by_file || one->line != two->line) {
        return by_file ? by_file : one->line < two->line ? -1 : 1;
    }
    int by_object = strcmp(one->object, two->object);
    return by_object ? by_object : strcmp(one->operation, two->operation);
}

static void sites_list(void) {
    if (sites.count) {
        return;
    }
    size_t all = (size_t)(__stop_explore_sites - __start_explore_sites);
    if (all > SITES_MAX) {
        checker_fail("too many sites");
    }
    for (size_t i = 0; i < all; i++) {
        sites.sorted[i] = &__start_explore_sites[i];
    }
    qsort(sites.sorted, all, sizeof sites.sorted[0], site_compare);
    for (size_t i = 0; i < all; i++) {
        const struct explore_site *site = sites.sorted[i];
        if (i == 0 || site_compare(&sites.sorted[sites.count - 1], &site) != 0) {
            sites.sorted[sites.count++] = site;
        }
        sites.index_of[site - __start_explore_sites] = (uint16_t)(sites.count - 1);
    }
}

unsigned site_count(void) {
    sites_list();
    return sites.count;
}

const struct explore_site *site_at(unsigned index) {
    return sites.sorted[index];
}

static unsigned site_index(const struct explore_site *site) {
    sites_list();
    return sites.index_of[site - __start_explore_sites];
}

/* The number among equal sites of a function, from 1 on; 0: it is the only one. */
static unsigned site_number(unsigned index) {
    const struct explore_site *site = site_at(index);
    unsigned before = 0, all = 0;
    for (unsigned i = 0; i < sites.count; i++) {
        const struct explore_site *other = site_at(i);
        if (strcmp(site_file(site), site_file(other)) == 0 &&
            strcmp(site->function, other->function) == 0 &&
            strcmp(site->operation, other->operation) == 0 &&
            strcmp(site->object, other->object) == 0) {
            all++;
            before += i <= index;
        }
    }
    return all > 1 ? before : 0;
}

void site_text(unsigned index, char *text, size_t capacity) {
    const struct explore_site *site = site_at(index);
    const char *object = site->object[0] == '&' ? site->object + 1 : site->object;
    unsigned number = site_number(index);
    int used = snprintf(text, capacity, "`%s`: %s `%s`", site->function, site->operation, object);
    if (number && used > 0 && (size_t)used < capacity) {
        snprintf(text + used, capacity - (size_t)used, " (%u)", number);
    }
}

void site_weaken(unsigned index, enum vr_order order) {
    sites.weakened = index;
    sites.order = order;
}

enum vr_order site_order(const struct explore_site *site) {
    unsigned index = site_index(site);
    sites.reached[index] = true;
    return index == sites.weakened ? sites.order : (enum vr_order)site->order;
}

bool site_was_reached(unsigned index) {
    return sites.reached[index];
}

void sites_forget(void) {
    memset(sites.reached, 0, sizeof sites.reached);
}

const char *site_order_name(enum vr_order order) {
    switch (order) {
    case VR_RELAXED:
        return "relaxed";
    case VR_ACQUIRE:
        return "acquire";
    case VR_RELEASE:
        return "release";
    case VR_ACQ_REL:
        return "acq_rel";
    default:
        return "seq_cst";
    }
}
