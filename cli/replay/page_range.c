/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page_range.c: see page_range.h.
 */
#include "page_range.h"

#include <stdlib.h>

vram_status page_range_create(struct place *place, struct policy_counts *counts,
                              uint64_t page_bytes, uint32_t page_count, struct page_range **range) {
    struct page_range *made = calloc(1, sizeof *made);
    vram_physical **pages = calloc(page_count, sizeof *pages);
    vram_addr base = 0;
    vram_status status = VRAM_ERR_HOST_MEMORY;
    if (made == NULL || pages == NULL) {
        goto fail;
    }
    status = vram_range_create(place->device, page_bytes * page_count, &base);
    if (status != VRAM_OK) {
        goto fail;
    }
    *made = (struct page_range){.place = place,
                                .counts = counts,
                                .base = base,
                                .page_bytes = page_bytes,
                                .page_count = page_count,
                                .pages = pages};
    *range = made;
    return VRAM_OK;
fail:
    free(pages);
    free(made);
    return status;
}

static vram_physical **page_at(const struct page_range *range, vram_addr addr) {
    return &range->pages[(addr - range->base) / range->page_bytes];
}

void page_range_release(struct page_range *range, vram_physical *page) {
    vram_status status = vram_physical_destroy(page);
    range->counts->calls[POLICY_CALL_RELEASE]++;
    range->counts->reserved_bytes -= status == VRAM_OK ? range->page_bytes : 0;
}

uint32_t page_range_unmap(struct page_range *range, vram_addr addr, uint32_t count,
                          vram_physical **pages) {
    uint32_t done = 0;
    for (; done < count; done++, addr += range->page_bytes) {
        vram_physical **page = page_at(range, addr);
        range->counts->calls[POLICY_CALL_UNMAP]++;
        if (vram_range_unmap(range->place->device, addr, range->page_bytes) != VRAM_OK) {
            break;
        }
        if (pages != NULL) {
            pages[done] = *page;
        } else {
            page_range_release(range, *page);
        }
        *page = NULL;
    }
    return done;
}

static vram_status page_create(struct page_range *range, vram_physical **page) {
    struct policy_counts *counts = range->counts;
    counts->calls[POLICY_CALL_CREATE]++;
    vram_status status = vram_physical_create(range->place->device, range->page_bytes, page);
    if (status == VRAM_OK) {
        counts->reserved_bytes += range->page_bytes;
        if (counts->reserved_bytes > counts->peak_reserved_bytes) {
            counts->peak_reserved_bytes = counts->reserved_bytes;
        }
    }
    return status;
}

vram_status page_range_map(struct page_range *range, vram_addr addr, uint32_t count,
                           vram_physical *const *spare, uint32_t spare_count) {
    vram_physical **pages = page_at(range, addr);
    vram_status status = VRAM_OK;
    uint32_t have = 0;
    for (; have < spare_count; have++) {
        pages[have] = spare[have];
    }
    while (have < count && status == VRAM_OK) {
        status = page_create(range, &pages[have]);
        have += status == VRAM_OK;
    }
    if (status == VRAM_OK) {
        range->counts->calls[POLICY_CALL_MAP] += count;
        range->counts->calls[POLICY_CALL_ACCESS]++;
        status = vram_range_map(range->place->device, addr, pages, count);
    }
    if (status == VRAM_OK) {
        return VRAM_OK;
    }
    while (have > 0) {
        have--;
        if (have >= spare_count) {
            page_range_release(range, pages[have]);
        }
        pages[have] = NULL;
    }
    return status;
}

uint32_t page_range_whole(const struct page_range *range, const struct chunk *chunk,
                          vram_addr *first) {
    uint64_t page = range->page_bytes, start = chunk->node.addr - range->base;
    uint64_t from = (start + page - 1) / page, to = (start + chunk->node.bytes) / page;
    *first = range->base + from * page;
    return from < to ? (uint32_t)(to - from) : 0;
}

void page_range_destroy(struct page_range *range) {
    for (uint32_t i = 0; i < range->page_count; i++) {
        if (range->pages[i] != NULL) {
            page_range_unmap(range, range->base + i * range->page_bytes, 1, NULL);
        }
    }
    for (struct chunk *chunk = range->first, *behind; chunk != NULL; chunk = behind) {
        behind = chunk->behind;
        free(chunk);
    }
    vram_range_destroy(range->place->device, range->base);
    free(range->pages);
    free(range);
}
