/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chrome_trace.c: see chrome_trace.h.
 */
#include "chrome_trace.h"

#include "base/decimal.h"
#include "line_reader.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define CHROME_MEMORY_MAX (UINT64_C(900) << 20)

static bool refuse(struct chrome_trace *trace, const char *problem) {
    snprintf(trace->problem, sizeof trace->problem, "%s", problem);
    return false;
}

bool chrome_trace_begins(struct trace_source *source) {
    static const char *const heads[] = {
        "{", "[", " {", "\n{", "\r\n{", JSON_SCAN_MARK "{", JSON_SCAN_MARK "["};
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        if (trace_source_begins(source, heads[i], strlen(heads[i]))) {
            return true;
        }
    }
    return false;
}

/* -------------------------------------------------------------------- reading */

enum field {
    FIELD_NAME,
    FIELD_TIME,
    FIELD_THREAD,
    FIELD_ADDR,
    FIELD_BYTES,
    FIELD_REQUESTED,
    FIELD_HELD,
    FIELD_RESERVED,
    FIELD_DEVICE_TYPE,
    FIELD_DEVICE,
    FIELD_ALLOCATOR,
    FIELD_OP,
    FIELD_COUNT
};

/* The keys of an event, and of its args. */
static const struct {
    const char *key;
    bool in_args;
    enum field field;
} known_keys[] = {
    {"name", false, FIELD_NAME},
    {"ts", false, FIELD_TIME},
    {"tid", false, FIELD_THREAD},
    {"Addr", true, FIELD_ADDR},
    {"addr", true, FIELD_ADDR},
    {"address", true, FIELD_ADDR},
    {"Bytes", true, FIELD_BYTES},
    {"requested_bytes", true, FIELD_REQUESTED},
    {"allocation_bytes", true, FIELD_HELD},
    {"Total Reserved", true, FIELD_RESERVED},
    {"bytes_reserved", true, FIELD_RESERVED},
    {"Device Type", true, FIELD_DEVICE_TYPE},
    {"Device Id", true, FIELD_DEVICE},
    {"allocator_name", true, FIELD_ALLOCATOR},
    {"tf_op", true, FIELD_OP},
};

struct fields {
    char of[FIELD_COUNT][96];
    bool given[FIELD_COUNT];
};

static void keep_field(struct fields *fields, enum field field, const char *text) {
    snprintf(fields->of[field], sizeof fields->of[field], "%.95s", text);
    fields->given[field] = true;
}

/* The fields of one object; its args go into the same. */
static bool read_object(struct json_scan *scan, struct fields *fields, bool in_args) {
    char key[JSON_SCAN_TEXT_MAX + 1];
    for (;;) {
        if (!json_scan_next(scan)) {
            return false;
        }
        if (scan->kind == JSON_OBJECT_END) {
            return true;
        }
        memcpy(key, scan->text, sizeof key);
        if (!json_scan_next(scan)) {
            return false;
        }
        if (scan->kind == JSON_OBJECT_BEGIN && !in_args && strcmp(key, "args") == 0) {
            if (!read_object(scan, fields, true)) {
                return false;
            }
            continue;
        }
        if (scan->kind == JSON_OBJECT_BEGIN || scan->kind == JSON_ARRAY_BEGIN) {
            if (!json_scan_skip(scan)) {
                return false;
            }
            continue;
        }
        for (size_t i = 0; i < sizeof known_keys / sizeof known_keys[0]; i++) {
            bool null = scan->kind == JSON_WORD && scan->text[0] == 'n';
            if (!null && known_keys[i].in_args == in_args && strcmp(key, known_keys[i].key) == 0) {
                keep_field(fields, known_keys[i].field, scan->text);
            }
        }
    }
}

/* Says what a field of an event is. Always false. */
static bool refuse_field(struct chrome_trace *trace, const struct fields *fields, enum field field,
                         const char *wanted) {
    size_t row = 0;
    while (known_keys[row].field != field) {
        row++;
    }
    snprintf(trace->problem, sizeof trace->problem, "%s of a memory event is \"%.40s\", not %s",
             known_keys[row].key, fields->of[field], wanted);
    return false;
}

/* A number, times 10^shift; XLA writes numbers as texts, and addresses with 0x in front. 0 if it is
   not given. */
static bool read_number(const struct fields *fields, enum field field, int shift,
                        struct vr_decimal *number) {
    const char *text = fields->of[field];
    *number = (struct vr_decimal){.exact = true};
    if (strncmp(text, "0x", 2) == 0) {
        return line_reader_number(text, &number->value);
    }
    return !fields->given[field] || vr_decimal_read(text, strlen(text), shift, number);
}

static bool take_bytes(struct chrome_trace *trace, const struct fields *fields, enum field field,
                       uint64_t *to) {
    struct vr_decimal number;
    bool good = read_number(fields, field, 0, &number) && number.exact && !number.negative &&
                number.value <= RECORDED_BYTES_MAX;
    *to = number.value;
    return good || refuse_field(trace, fields, field, "a number of bytes");
}

/* The pool of an event: its allocator, or its device. */
static uint8_t pool_of(struct chrome_trace *trace, const struct fields *fields, bool host) {
    char name[96];
    if (fields->given[FIELD_ALLOCATOR]) {
        snprintf(name, sizeof name, "%.60s", fields->of[FIELD_ALLOCATOR]);
    } else if (host) {
        snprintf(name, sizeof name, "CPU");
    } else {
        struct vr_decimal device;
        read_number(fields, FIELD_DEVICE, 0, &device);
        snprintf(name, sizeof name, "GPU %" PRIu64, device.value & 0xFFFF);
    }
    uint32_t number = interner_number(&trace->pools, name, strlen(name));
    return number == 0 || number > CHROME_POOLS_MAX ? CHROME_POOLS_MAX : (uint8_t)number;
}

static bool grow(struct chrome_trace *trace) {
    size_t size = sizeof *trace->events, old = trace->capacity;
    size_t capacity = old == 0 ? 256 : old < 1 << 20 ? old * 2 : old + old / 4;
    struct chrome_event *events =
        budget_grow(&trace->budget, trace->events, old * size, capacity * size);
    if (events == NULL || capacity >= UINT32_MAX) {
        return refuse(trace, "the trace has more memory events than fit in 1 GB of memory");
    }
    trace->events = events;
    trace->capacity = capacity;
    return true;
}

/* What the event has changed: PyTorch writes one number, negative for a free. */
static bool take_change(struct chrome_trace *trace, const struct fields *fields,
                        struct chrome_event *event) {
    struct vr_decimal change;
    const char *type = fields->of[FIELD_DEVICE_TYPE];
    if (!fields->given[FIELD_BYTES] || !read_number(fields, FIELD_BYTES, 0, &change) ||
        !change.exact || change.value > RECORDED_BYTES_MAX) {
        return refuse_field(trace, fields, FIELD_BYTES, "a number of bytes");
    }
    event->frees = change.negative;
    event->bytes = event->held = change.value;
    event->host = strcmp(type, "0") == 0 || strcmp(type, "CPU") == 0;
    return true;
}

/* The numbers of an event. */
static bool take_numbers(struct chrome_trace *trace, const struct fields *fields,
                         struct chrome_event *event) {
    struct vr_decimal time, thread;
    if (!read_number(fields, FIELD_TIME, 3, &time) || time.negative) {
        return refuse_field(trace, fields, FIELD_TIME, "a time in microseconds");
    }
    if (!take_bytes(trace, fields, FIELD_REQUESTED, &event->bytes) ||
        !take_bytes(trace, fields, FIELD_HELD, &event->held) ||
        !take_bytes(trace, fields, FIELD_RESERVED, &event->reserved)) {
        return false;
    }
    struct vr_decimal addr;
    if (!read_number(fields, FIELD_ADDR, 0, &addr) || addr.negative || !addr.exact) {
        return refuse_field(trace, fields, FIELD_ADDR, "an address");
    }
    read_number(fields, FIELD_THREAD, 0, &thread); /* a name counts as thread 0 */
    event->time_ns = time.value;
    event->addr = addr.value;
    event->thread = thread.value;
    event->reserved_known = fields->given[FIELD_RESERVED];
    return true;
}

static bool add_event(struct chrome_trace *trace, const struct fields *fields) {
    bool torch = strcmp(fields->of[FIELD_NAME], "[memory]") == 0;
    bool frees = strcmp(fields->of[FIELD_NAME], "MemoryDeallocation") == 0;
    if (!fields->given[FIELD_ADDR] ||
        (!torch && !frees && strcmp(fields->of[FIELD_NAME], "MemoryAllocation") != 0)) {
        return true;
    }
    if (trace->count == trace->capacity && !grow(trace)) {
        return false;
    }
    struct chrome_event event = {.order = (uint32_t)trace->count, .frees = frees};
    if (!take_numbers(trace, fields, &event) || (torch && !take_change(trace, fields, &event))) {
        return false;
    }
    event.held = event.held > event.bytes ? event.held : event.bytes;
    event.pool = pool_of(trace, fields, event.host);
    if (fields->of[FIELD_OP][0] != 0 && strcmp(fields->of[FIELD_OP], "(null)") != 0) {
        event.tag =
            interner_number(&trace->texts, fields->of[FIELD_OP], strlen(fields->of[FIELD_OP]));
    }
    trace->events[trace->count++] = event;
    return true;
}

/* The objects of an array. */
static bool read_events(struct chrome_trace *trace, struct json_scan *scan) {
    for (;;) {
        if (!json_scan_next(scan)) {
            return false;
        }
        if (scan->kind == JSON_ARRAY_END) {
            return true;
        }
        if (scan->kind == JSON_ARRAY_BEGIN && !json_scan_skip(scan)) {
            return false;
        }
        if (scan->kind == JSON_OBJECT_BEGIN) {
            struct fields fields;
            memset(&fields, 0, sizeof fields);
            if (!read_object(scan, &fields, false) || !add_event(trace, &fields)) {
                return false;
            }
        }
    }
}

static bool read_file(struct chrome_trace *trace, struct json_scan *scan) {
    if (!json_scan_next(scan)) {
        return false;
    }
    if (scan->kind == JSON_ARRAY_BEGIN) {
        return read_events(trace, scan);
    }
    while (scan->kind != JSON_END) {
        bool events = scan->kind == JSON_KEY && strcmp(scan->text, "traceEvents") == 0;
        if (!json_scan_next(scan)) {
            return false;
        }
        if (events && scan->kind == JSON_ARRAY_BEGIN) {
            if (!read_events(trace, scan)) {
                return false;
            }
        } else if (scan->depth > 1 &&
                   (scan->kind == JSON_OBJECT_BEGIN || scan->kind == JSON_ARRAY_BEGIN) &&
                   !json_scan_skip(scan)) {
            return false;
        }
    }
    return true;
}

/* ----------------------------------------------------------- open and close */

static int by_time(const void *one, const void *other) {
    const struct chrome_event *a = one, *b = other;
    if (a->time_ns != b->time_ns) {
        return a->time_ns < b->time_ns ? -1 : 1;
    }
    return (a->order > b->order) - (a->order < b->order);
}

static void drop_host(struct chrome_trace *trace) {
    size_t kept = 0, host = 0;
    for (size_t i = 0; i < trace->count; i++) {
        host += trace->events[i].host;
    }
    if (host == trace->count) {
        return;
    }
    for (size_t i = 0; i < trace->count; i++) {
        if (!trace->events[i].host) {
            trace->events[kept++] = trace->events[i];
        }
    }
    trace->count = kept;
    trace->host_events = host;
}

bool chrome_trace_open(struct chrome_trace *trace, struct trace_source *source) {
    memset(trace, 0, sizeof *trace);
    trace->budget = CHROME_MEMORY_MAX;
    bool texts = interner_begin(&trace->texts, &trace->budget);
    struct json_scan *scan = malloc(sizeof *scan);
    if (!interner_begin(&trace->pools, &trace->budget) || !texts || scan == NULL) {
        free(scan);
        return refuse(trace, "out of host memory");
    }
    json_scan_begin(scan, source);
    bool good = read_file(trace, scan);
    trace->problem_at = scan->offset;
    if (!good && trace->problem[0] == 0) {
        refuse(trace, scan->problem != NULL ? scan->problem : "the JSON cannot be read");
    }
    free(scan);
    if (good && trace->count == 0) {
        good = refuse(trace, "the JSON has no memory events; PyTorch's profiler writes them with "
                             "profile_memory=True");
    }
    if (good) {
        qsort(trace->events, trace->count, sizeof *trace->events, by_time);
        drop_host(trace);
        trace->first_ns = trace->events[0].time_ns;
    }
    return good;
}

void chrome_trace_close(struct chrome_trace *trace) {
    for (size_t i = 0; i <= CHROME_POOLS_MAX; i++) {
        live_addresses_free(&trace->live[i]);
    }
    interner_free(&trace->texts);
    interner_free(&trace->pools);
    free(trace->events);
    memset(trace, 0, sizeof *trace);
}

/* --------------------------------------------------------------------- events */

static void fill(const struct chrome_trace *trace, const struct chrome_event *from,
                 enum recorded_kind kind, struct recorded *event) {
    *event = (struct recorded){.kind = kind,
                               .time_ns = from->time_ns - trace->first_ns,
                               .thread = from->thread,
                               .pool = from->pool,
                               .pool_number = from->pool,
                               .device = from->pool,
                               .addr = from->addr,
                               .bytes = from->bytes,
                               .held = from->held,
                               .tag = "",
                               .name = "",
                               .pool_name = interner_text(&trace->pools, from->pool)};
}

/* Frees the block at the event's address; false: there is none. */
static bool free_block(struct chrome_trace *trace, const struct chrome_event *from,
                       struct recorded *event) {
    struct live_addresses *live = &trace->live[from->pool];
    const struct live_address *block = live_addresses_find(live, from->addr);
    fill(trace, from, RECORDED_FREE, event);
    if (block == NULL) {
        event->id = ++trace->last_id;
        return false;
    }
    event->id = block->id;
    event->bytes = block->bytes;
    live_addresses_remove(live, from->addr);
    return true;
}

bool chrome_trace_next(struct chrome_trace *trace, struct recorded *event, bool *there) {
    *there = trace->next < trace->count;
    if (!*there) {
        return true;
    }
    const struct chrome_event *from = &trace->events[trace->next];
    struct live_addresses *live = &trace->live[from->pool];
    if (live->slots == NULL && !live_addresses_begin(live)) {
        return refuse(trace, "out of host memory");
    }
    if (from->reserved_known && from->reserved != trace->reserved[from->pool]) {
        trace->reserved[from->pool] = from->reserved;
        fill(trace, from, RECORDED_SAMPLE, event);
        event->sample = (struct recorded_sample){.reserved = from->reserved, .rough = true};
        return true;
    }
    if (from->frees) {
        trace->next++;
        free_block(trace, from, event);
        return true;
    }
    if (free_block(trace, from, event)) { /* one was live there: its free is not in the file */
        return true;
    }
    trace->next++;
    fill(trace, from, RECORDED_ALLOC, event);
    const struct live_address block = {trace->last_id, from->bytes, from->pool};
    event->id = trace->last_id;
    event->tag = interner_text(&trace->texts, from->tag);
    event->tag_number = from->tag;
    return live_addresses_add(live, from->addr, &block) || refuse(trace, "out of host memory");
}
