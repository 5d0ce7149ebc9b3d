/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_run_report.c: what `vram run` says of a page and of traces: other programs may have written
 * anything there.
 */
#include "printed_text.h"
#include "run/run_report.h"
#include "unit/trace_world.h"

static struct run_page page;
static const struct terminal plain = {.width = 100};
static const char *const words[] = {"./train", "--fast", NULL};

static struct run_report report_of(const struct run_suppressions *suppressions) {
    return (struct run_report){
        .page = &page, .terminal = &plain, .suppressions = suppressions, .words = words};
}

static struct run_report nothing_suppressed(void) {
    static const struct run_suppressions none;
    return report_of(&none);
}

static const char *print(struct run_report *report, bool quiet) {
    printed_begin();
    run_report_print(report, quiet);
    return printed_end();
}

static const char *write_json(struct run_report *report) {
    printed_begin();
    assert_true(run_report_write(report));
    return printed_end();
}

/* ------------------------------------------------------------------------- traces */

/* One to three frames. */
static uint32_t frames_of(uint32_t stack, uint64_t *frames, uint32_t capacity) {
    uint32_t count = stack % 3 + 1;
    assert_true(count <= capacity);
    for (uint32_t i = 0; i < count; i++) {
        frames[i] = 100 * stack + i;
    }
    return count;
}

static void frame_describe(uint64_t frame, char *text, size_t bytes) {
    snprintf(text, bytes, "function_%llu", (unsigned long long)frame);
}

static const struct vr_trace_stacks stacks = {frames_of, frame_describe};
static struct vr_trace_writer *writer;

static void write_begin(void) {
    assert_ok(vr_trace_writer_open(trace_path, 0, &stacks, &writer));
}

/* Memory of one kind, of device 0. */
static void write_alloc(enum run_kind kind, uint64_t id, uint64_t bytes, const char *library,
                        uint32_t stack) {
    struct vr_event event = event_of(VR_EVENT_ALLOC, id, bytes);
    event.pool = (uint64_t)kind + 1;
    event.tag = library;
    event.stack = stack;
    vr_trace_write_event(writer, &event);
}

static void write_free(enum run_kind kind, uint64_t id, uint64_t bytes) {
    struct vr_event event = event_of(VR_EVENT_FREE, id, bytes);
    event.pool = (uint64_t)kind + 1;
    vr_trace_write_event(writer, &event);
}

static struct run_slot *slot_use(unsigned at, int64_t pid) {
    struct run_slot *slot = &page.slots[at];
    atomic_store(&slot->pid, pid);
    atomic_store(&slot->state, RUN_ENDED);
    atomic_store(&slot->recorded, 1);
    snprintf(slot->trace, sizeof slot->trace, "%s", trace_path);
    snprintf(slot->command, sizeof slot->command, "./train");
    return slot;
}

static int page_clear(void) {
    memset(&page, 0, sizeof page);
    page.settings.root = 100;
    atomic_store(&page.processes, 1);
    return trace_world_begin();
}

/* ---------------------------------------------------------------------- sections */

TEST(who_had_what_at_the_peak) {
    write_begin();
    for (uint64_t i = 0; i < 10; i++) { /* more libraries than are listed, in no order */
        static const uint64_t mib[10] = {2, 1, 4, 4, 5, 6, 8, 7, 9, 10};
        char library[16];
        snprintf(library, sizeof library, "lib%u.so", (unsigned)i);
        write_alloc(RUN_DEVICE, 1 + i, mib[i] << 20, library, 1);
    }
    write_alloc(RUN_DEVICE, 30, 1 << 20, "lib9.so", 2); /* of a library that is there already */
    write_alloc(RUN_DEVICE, 31, 64 << 20, NULL, 0);     /* of none */
    vr_trace_writer_close(writer);
    slot_use(0, 100);
    struct run_report report = nothing_suppressed();
    print(&report, false);
    printed_has("vram run: ./train, exit code 0 after");
    printed_has("Who had it at the peak");
    printed_has("  unknown                          64.00 MiB");
    printed_has("  lib9.so                          11.00 MiB");
    assert_true(strstr(printed, "lib9.so") < strstr(printed, "lib8.so"));
    assert_true(strstr(printed, "lib6.so") < strstr(printed, "lib7.so"));
    assert_true(strstr(printed, "lib2.so") > strstr(printed, "lib4.so"));
    printed_lacks("\n  lib1.so");
    printed_has("never freed   121.00 MiB in 12 blocks\n");
    assert_int_equal(report.leaked_blocks, 12);
    printed_has("next: vram report /tmp/");
    printed_lacks("--leaks");
    write_json(&report);
    printed_has("\"library\": null");
}

/* The kinds of memory are told apart, and only some of them leak. */
TEST(kinds_are_told_apart) {
    write_begin();
    write_alloc(RUN_DEVICE, 8, 4096, "early", 1);
    write_free(RUN_DEVICE, 8, 4096);
    write_alloc(RUN_DEVICE, 1, 1 << 20, "app", 1);
    write_alloc(RUN_CODE, 2, 2 << 20, "app", 1);
    write_alloc(RUN_PINNED, 3, 3 << 20, "app", 1);
    write_alloc(RUN_SERVED, 4, 4 << 20, "app", 1);
    write_alloc(RUN_IMPORTED, 5, 5 << 20, "app", 1);
    write_alloc(RUN_PHYSICAL, 6, 6 << 20, RUN_POOL_OWNER, 1);
    write_alloc(RUN_DEVICE, 7, 7 << 20, "gone", 1);
    write_free(RUN_DEVICE, 7, 7 << 20);
    vr_trace_write_mark(writer, "of no pool");
    vr_trace_writer_close(writer);
    atomic_store(&slot_use(0, 100)->limit_refusals, 2);
    struct run_report report = nothing_suppressed();
    report.leaks = true;
    report.signal = 11;
    report.exit_code = 139;
    print(&report, false);
    printed_has(", killed by signal 11 after");
    printed_has("never freed   1.00 MiB in 1 block\n");
    printed_has("2 by the limit of 0 B, 0 by the driver");
    printed_lacks("\n  early ");
    printed_has("host memory   3.00 MiB page-locked at the peak, 3.00 MiB never freed");
    printed_has("Who had it of libvram's pool, at its peak");
    printed_has("\nNever freed\n");
    printed_has("Host memory never freed");
    printed_has("Served memory never freed");
    printed_has("    function_100\n    function_101\n");
    printed_has(" --leaks\n");
    assert_int_equal(report.leaked_blocks, 3);
    assert_int_equal(report.leaked_bytes, 8 << 20);
    print(&report, true);
    assert_string_equal(printed, "");
    assert_int_equal(report.leaked_blocks, 6); /* added up */
    report.leaked_blocks = 0;
    write_json(&report);
    assert_int_equal(report.leaked_blocks, 3);
    printed_has("\"other_memory\": {\n        \"peak_bytes\": 5242880");
    printed_has("\"driver_memory\": {\n        \"peak_bytes\": 2097152");
    printed_has("\"signal\": 11");
}

/* ---------------------------------------------------------------- suppressions */

static struct run_suppressions suppress(const char *text, bool good) {
    struct run_suppressions made = {NULL, 0};
    char path[80];
    snprintf(path, sizeof path, "%s.txt", trace_path);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    printed_begin();
    assert_int_equal(run_suppressions_read(&made, path), good);
    printed_end();
    unlink(path);
    return made;
}

TEST(patterns_match) {
    static const struct {
        const char *lines, *text;
        bool matches;
    } cases[] = {
        {"leak:abc\n", "xabcx", true},
        {"leak:abc\n", "abx", false},
        {"leak:^abc\n", "abcx", true},
        {"leak:^abc\n", "xabc", false},
        {"leak:abc$\n", "xabc", true},
        {"leak:abc$\n", "abcx", false},
        {"leak:^abc$\n", "abc", true},
        {"leak:^abc$\n", "abcabc", false},
        {"leak:a*c\n", "xabbbcx", true},
        {"leak:a*c\n", "cba", false},
        {"leak:a*b*c$\n", "aXbXc", true},
        {"leak:a*b*c$\n", "aXbXcX", false},
        {"leak:a$b\n", "xa$b", true},
        {"leak:a$b\n", "ab", false},
        {"leak:*\n", "", true},
        {"leak:^$\n", "", true},
        {"leak:^$\n", "x", false},
        {"leak:$\n", "x", true},
        {"leak:ab\n", "aab", true},
        {"leak:a*ab\n", "aaab", true},
        {"\n \t\nleak:x\n", "x", true},
        {"# leak:x\n", "x", false},
        {"race:x\nleak:y \r\n", "y", true},
        {"leak:\n", "x", false},
        {"leak:**b\n", "ab", true},
        {"", "x", false},
    };
    struct report_input input = {.format = FORMAT_CSV}; /* no frames */
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct run_suppressions made = suppress(cases[i].lines, true);
        const struct history_group group = {.tag = cases[i].text};
        if (run_suppressed(&made, &input, &group) != cases[i].matches) {
            fail_msg("%s against \"%s\"", cases[i].lines, cases[i].text);
        }
        run_suppressions_free(&made);
    }
    const struct history_group group = {.tag = "x"};
    assert_false(run_suppressed(&(struct run_suppressions){NULL, 0}, &input, &group));
}

TEST(bad_files_are_refused) {
    static char large[(1 << 20) + 2];
    struct run_suppressions made = {NULL, 0};
    memset(large, '#', sizeof large - 1);
    (void)suppress(large, false);
    printed_has("cannot be read, or longer than 1 MiB");
    printed_begin();
    assert_false(run_suppressions_read(&made, "/tmp"));
    printed_end();
    printed_has("cannot be read, or longer than 1 MiB");
    assert_null(made.text);
}

/* ------------------------------------------------------------------- strange pages */

TEST(a_page_that_lies) {
    write_begin();
    vr_trace_writer_close(writer);
    struct run_slot *slot = slot_use(0, 100);
    memset(slot->command, 'x', sizeof slot->command); /* without an end */
    atomic_store(&slot->unknown, UINT64_C(20));
    memset(slot->unknown_names, 'u', sizeof slot->unknown_names);
    atomic_store(&slot->refusals, 3);
    struct run_device *device = &slot->devices[0];
    atomic_store(&device->api, 77); /* none that is known */
    device = &slot->devices[1];
    atomic_store(&device->api, RUN_CUDA);
    atomic_store(&device->total, 100);
    atomic_store(&device->first.time_ns, 1);
    atomic_store(&device->least.time_ns, 1);
    atomic_store(&device->first.free, 1000); /* more than there is */
    atomic_store(&device->first.counted, 50);
    atomic_store(&device->least.counted, 40);
    atomic_store(&device->peak[RUN_DEVICE], 7);
    device = &slot->devices[2];
    atomic_store(&device->api, RUN_VULKAN);
    snprintf(device->name, sizeof device->name, "a name");
    device = &slot->devices[3];
    atomic_store(&device->api, RUN_HIP);
    atomic_store(&device->first.time_ns, 1);
    atomic_store(&device->least.time_ns, 1); /* but how much there is, is not known */
    device = &slot->devices[4];
    atomic_store(&device->api, RUN_OPENCL);
    atomic_store(&device->least.time_ns, 1);
    device = &slot->devices[5];
    atomic_store(&device->api, RUN_CUDA);
    atomic_store(&device->total, 1 << 20);
    atomic_store(&device->before, 1 + 100);
    atomic_store(&device->first.time_ns, 1);
    atomic_store(&device->first.free, 1 << 19);
    atomic_store(&device->least.time_ns, 1);
    atomic_store(&device->least.free, 1 << 18);
    device = &slot->devices[6];
    atomic_store(&device->api, RUN_CUDA);
    atomic_store(&device->total, 1 << 20);
    atomic_store(&device->first.time_ns, 1);
    atomic_store(&device->first.free, (1 << 20) - 256);
    atomic_store(&device->least.time_ns, 1);
    atomic_store(&device->least.free, (1 << 20) - 256);
    atomic_store(&device->least.counted, 512);
    struct run_report report = nothing_suppressed();
    print(&report, false);
    printed_has("0 by the limit of 0 B, 3 by the driver");
    printed_has("and 12 more\n");
    printed_has("cuda:0 \n");
    printed_has("vulkan:0 a name\n");
    printed_has("was never asked how much memory is free");
    printed_has("by the driver's context and by other processes");
    printed_has("by the driver itself for the context");
    printed_has("60 B unexplained");
    printed_has("-512 B unexplained");
    write_json(&report);
    printed_has("\"api\": \"vulkan\"");
    printed_has("\"name\": null");
    printed_has("\"driver\": null");
    assert_string_equal(run_kind_name(RUN_KINDS), "unknown");
}

TEST(traces_that_cannot_be_read) {
    struct run_report report = nothing_suppressed();
    char none[80];
    snprintf(none, sizeof none, "%s.none", trace_path);
    struct run_slot *slot = slot_use(0, 100);
    snprintf(slot->trace, sizeof slot->trace, "%s", none); /* there is none */
    print(&report, false);
    printed_has("no trace      ");
    printed_has("No such file");
    write_json(&report);
    printed_lacks("device_memory");

    FILE *file = fopen(trace_path, "w");
    assert_non_null(file);
    fputs("# vram-trace v1\nalloc,1,100,0,0\n", file);
    fclose(file);
    slot_use(0, 100);
    print(&report, false);
    printed_has("no trace      ");

    file = fopen(trace_path, "w"); /* of another program */
    assert_non_null(file);
    fputs("op,id,bytes,stream,t_us\na,1,100,0,0\n", file);
    fclose(file);
    print(&report, false);
    printed_has("not a trace of ours");

    write_begin(); /* damaged behind its beginning: one block twice */
    write_alloc(RUN_DEVICE, 1, UINT64_MAX, "app", 1);
    write_alloc(RUN_DEVICE, 2, UINT64_MAX, "app", 1);
    vr_trace_writer_close(writer);
    print(&report, false);
    printed_has("no trace      ");

    atomic_store(&slot->recorded, 2);
    print(&report, false);
    printed_has("no trace      ");
    snprintf(slot->problem, sizeof slot->problem, "the disk is full");
    print(&report, false);
    printed_has(": the disk is full\n");
    atomic_store(&slot->recorded, 0);
    print(&report, false);
    printed_has("used a device and was not recorded");
    write_json(&report);
    printed_has("\"trace\": null");
}

TEST(processes_and_layers) {
    struct run_report report = nothing_suppressed();
    atomic_store(&page.processes, 0);
    print(&report, false);
    printed_has("the library was not loaded");
    atomic_store(&page.processes, 1);
    print(&report, false);
    printed_has("no device was used");
    printed_lacks("it started");
    atomic_store(&page.processes, 2);
    print(&report, false);
    printed_has("it started 1 other program: --follow-children");
    atomic_store(&page.processes, 3);
    atomic_store(&page.unlayered[RUN_OPENCL - 1], 1);
    atomic_store(&page.unlayered[RUN_VULKAN - 1], 1);
    print(&report, false);
    printed_has("it started 2 other programs");
    printed_has("libOpenCL.so was loaded without the layer");
    printed_has("libvulkan.so was loaded without the layer");
    page.settings.follow = 1;
    report.running = true;
    print(&report, false);
    printed_lacks("it started");
    printed_has(", running for");
    write_begin();
    vr_trace_writer_close(writer);
    slot_use(0, 101); /* a child */
    slot_use(63, -5); /* nobody */
    atomic_store(&page.slotless, 9);
    print(&report, false);
    printed_has("child 101: ./train");
    printed_has("9 more processes used a device: only 64 are recorded");
    printed_has("nothing       was allocated from a device yet");
}

EACH_TEST(page_clear, trace_world_end)
