/* SPDX-License-Identifier: Apache-2.0 */
/* driver_engines.c: what each engine of drivers.c tries. */
#include "driver_runs.h"

#include "base/memory.h"
#include "base/os/os.h"
#include "unit/record_fault.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { ATTEMPTS = 5 }; /* whether a real device has to wait for a queue is a matter of time */

static const int bogus[] = {-999, 12345, INT_MIN}; /* codes that no driver documents */

#if defined(__SANITIZE_THREAD__)
enum { STRIDE = 11 };
#elif defined(__SANITIZE_ADDRESS__)
enum { STRIDE = 7 };
#else
enum { STRIDE = 1 };
#endif

/* -------------------------------------------------------------------- codes */

static const char *entry_name(unsigned row) {
    return driver->entries[row].name;
}

/* One code in every manner, from the start and once the device is open, until it strikes. */
static int try_code(const char *entry, int code, unsigned first) {
    for (unsigned i = 0; i < driver->manner_count; i++) {
        unsigned manner = (first + i) % driver->manner_count;
        int sum = 0;
        for (int when_open = 0; when_open < 2; when_open++) {
            int tried = try_fault(&(struct fault){
                .call = entry, .nth = 1, .code = code, .manner = manner, .when_open = when_open});
            if (tried < 0) {
                return -1;
            }
            sum += tried;
            if (sum && shim) {
                return 1; /* a real driver takes its time */
            }
        }
        if (sum) {
            return 1;
        }
    }
    return 0;
}

/* One row more than there are entries: every code that has a status of its own, at one of them. */
static unsigned codes_rows(void) {
    return driver->entry_count + 1;
}

static const char *codes_row(unsigned row) {
    return row < driver->entry_count ? entry_name(row) : "every status";
}

static int statuses_run(unsigned *tried) {
    for (const struct code_row *row = driver->statuses; row->first != INT_MIN; row++) {
        for (int code = row->first; code <= row->last; code++) {
            if (try_code(driver->sample, code, 0) <= 0) {
                return 1;
            }
            (*tried)++;
        }
    }
    return 0;
}

static int codes_run(unsigned row, unsigned *tried) {
    if (row == driver->entry_count) {
        return statuses_run(tried);
    }
    const struct driver_entry *entry = &driver->entries[row];
    bool gives_nothing = entry->code_count == 1 && entry->codes[0] == 0; /* and has no code */
    unsigned codes = entry->code_count + (gives_nothing ? 0 : (unsigned)COUNT_OF(bogus));
    if (!entry->twin) {
        return 0; /* it has no result */
    }
    unsigned stride = driver->slow && !driver->tries ? STRIDE : 1;
    for (unsigned i = row % stride; i < codes; i += stride) {
        int code = i < entry->code_count ? entry->codes[i] : bogus[i - entry->code_count];
        int struck = 0;
        for (int attempt = 0; !struck && attempt < (shim ? ATTEMPTS : 1); attempt++) {
            struck = try_code(entry->name, code, driver->alike ? i : 0);
        }
        if (struck < 0) {
            return 1;
        }
        if (!struck) {
            bool peers = shim && entry->without && same(entry->without, "peers");
            printf("%s is never called\n", entry->name);
            return peers ? NOT_HERE : 1;
        }
        if (shim && !works(entry->name)) {
            return 1;
        }
        (*tried)++;
    }
    return works(entry->name) ? 0 : 1;
}

static unsigned each_count(void) {
    unsigned count = 0;
    while (driver->each[count]) {
        count++;
    }
    return count;
}

/* Each code, once and for ever, in each manner. */
static unsigned calls_rows(void) {
    return each_count() * 2 * driver->usual_manners;
}

static struct fault calls_fault(unsigned row) {
    unsigned each = each_count();
    return (struct fault){.call = "any",
                          .anywhere = true,
                          .code = driver->each[row % each],
                          .for_ever = row / each % 2,
                          .manner = row / each / 2};
}

static const char *calls_row(unsigned row) {
    static char text[120];
    struct fault fault = calls_fault(row);
    snprintf(text, sizeof text, "%s, %d %s", driver->manners[fault.manner], fault.code,
             fault.for_ever ? "for ever" : "once");
    return text;
}

/* Where not every call fails with every code, each row begins at another call: together they leave
   out few. */
static int calls_run(unsigned row, unsigned *tried) {
    const unsigned stride = (driver->slow ? 3 : 1) * (STRIDE == 1 ? 1 : 3 * STRIDE);
    struct fault fault = calls_fault(row);
    for (fault.nth = 1 + row * 5 % stride;; fault.nth += stride) {
        int struck = try_fault(&fault);
        if (struck <= 0) {
            return struck < 0 || !works("calls that failed") || *tried == 0;
        }
        (*tried)++;
    }
}

static unsigned symbol_rows(void) {
    return driver->symbol_count ? driver->symbol_count : driver->entry_count;
}

static unsigned lies_rows(void) {
    return driver->lie_count;
}

static const char *lies_row(unsigned row) {
    return driver->lies[row].call;
}

static int lies_run(unsigned row, unsigned *tried) {
    const char *call = driver->lies[row].call;
    const int lie = driver->lies[row].kind;
    const bool for_ever = driver->lies[row].for_ever;
    for (unsigned manner = 0; manner < driver->usual_manners; manner++) {
        uint64_t blocks = vr_mem_live_blocks();
        struct run run = run_with(&(struct fault){.call = call,
                                                  .nth = 1,
                                                  .lie = lie,
                                                  .for_ever = for_ever,
                                                  .manner = manner,
                                                  .when_open = true});
        if (!run.struck) {
            run = run_with(&(struct fault){
                .call = call, .nth = 1, .lie = lie, .for_ever = for_ever, .manner = manner});
        }
        const struct excuse *excuse = excuse_find(call, 0);
        *tried += run.struck > 0;
        bool found = run.program.step ? strstr(run.program.error.text, "cannot be") ||
                                            run.program.status == VRAM_ERR_CORRUPT
                                      : run.at_open && driver->tries;
        if (run.struck && !found && !excuse) {
            return !complain(&run, "a lie was believed");
        }
        if (!nothing_left(&run, blocks, UINT64_MAX)) {
            return 1;
        }
        driver->reset(0);
    }
    if (*tried == 0) {
        printf("%s is never called\n", call);
    }
    return *tried == 0 || !works(call);
}

/* A copy of the driver at `path` that lacks a symbol: it is misspelt in the table of symbols, so
   that whoever looks it up by its hash finds another name there. */
static bool make_variant(const char *symbol, const char *older, const char *path) {
    FILE *from = fopen(driver->library, "rb"), *to = fopen(path, "wb");
    char *image = NULL, needle[96] = "";
    size_t found = 0, bytes = 0;
    if (from && to && fseek(from, 0, SEEK_END) == 0) {
        bytes = (size_t)ftell(from);
        rewind(from);
        image = malloc(bytes);
    }
    bool good = image && fread(image, 1, bytes, from) == bytes;
    for (const char *name = symbol; good && name; name = name == symbol ? older : NULL) {
        size_t length = strlen(name) + 2; /* with the ends of this name and of the one before */
        memcpy(needle + 1, name, length - 1);
        for (size_t at = 0; at + length <= bytes; at++) {
            if (memcmp(image + at, needle, length) == 0) {
                image[at + 1] = '#';
                found++;
            }
        }
    }
    good = good && found > 0 && fwrite(image, 1, bytes, to) == bytes;
    free(image);
    good = (!from || fclose(from) == 0) && good;
    return (!to || fclose(to) == 0) && good;
}

static bool load_variant(const char *symbol, const char *older) {
    const char *folder = getenv("TMPDIR");
    char path[256];
    snprintf(path, sizeof path, "%s/driver_XXXXXX", folder && *folder ? folder : "/tmp");
    int file = mkstemp(path);
    bool good = file >= 0 && close(file) == 0 && make_variant(symbol, older, path) &&
                driver->load(path) && vram_option_set(driver->option, path) == VRAM_OK;
    return unlink(path) == 0 && good ? good : !printf("no driver without %s\n", symbol);
}

/* What a device can do and tell without a symbol, by what the table says is missing then. */
static bool judge_caps(const struct run *run, const struct driver_entry *entry, uint32_t full) {
    static const struct {
        const char *word;
        uint32_t caps;
    } rows[] = {{"vmm", VRAM_CAP_VMM},
                {"managed", VRAM_CAP_MANAGED},
                {"kernels", VRAM_CAP_KERNELS},
                {"peers", VRAM_CAP_PEERS},
                {"svm", VRAM_CAP_MANAGED | VRAM_CAP_TRUE_ADDRESS}};
    const vram_device_info *info = &run->program.info;
    uint32_t asked = 0, must = 0;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        asked |= rows[i].caps;
        must |= same(entry->without, rows[i].word) ? rows[i].caps : 0;
    }
    bool identified = info->uuid_known && info->pci_known;
    return ((full & ~info->caps & asked) == (full & must) &&
            !(driver->identified && same(entry->without, "identity") == identified)) ||
           complain(run, entry->without);
}

/* Without a symbol the backend is absent and says which, or the device can do less and the rest
   works. An older symbol in its place is as good. */
static int missing_run(unsigned row, unsigned *tried) {
    const struct driver_entry *entry = &driver->entries[row];
    uint32_t full = run_with(&(struct fault){.call = "any", .nth = FAR}).program.info.caps;
    for (int both = entry->older == NULL; both < 2; both++) {
        const char *older = both ? entry->older : NULL;
        uint64_t blocks = vr_mem_live_blocks();
        struct fault fault = {.call = entry->symbol, .nth = FAR};
        if (driver->hide) {
            fault.hidden = entry->symbol;
        } else if (!load_variant(entry->symbol, older)) {
            return 1;
        }
        struct run run = run_with(&fault);
        bool required = both && !entry->without, told = run.program.step != NULL;
        if (told != required || (told && !strstr(run.program.error.text, entry->symbol))) {
            return !complain(&run, required ? "its absence is not told" : "it is not needed");
        }
        if (both && !required && !judge_caps(&run, entry, full)) {
            return 1;
        }
        for (unsigned i = 1; !required && i < driver->usual_manners; i++) { /* another way */
            fault.manner = i;
            run = run_with(&fault);
            if (run.program.step) {
                return !complain(&run, "it is not needed");
            }
        }
        run.forgiven = true; /* what a driver cannot end stays in it */
        if (!nothing_left(&run, blocks, 0)) {
            return 1;
        }
        (*tried)++;
    }
    return 0;
}

/* ------------------------------------------------------------------- memory */

static void fail_allocation(uint64_t nth) {
    vr_mem_fail_at(nth, false);
}

static void fail_record(uint64_t nth) {
    record_fail_at((unsigned)nth);
}

static uint64_t failed_records(void) {
    return record_failed();
}

static void fail_system(uint64_t nth) {
    vr_os_fail_at(nth, false, ENOMEM);
}

static const struct {
    const char *name;
    void (*fail_at)(uint64_t nth);
    uint64_t (*failed)(void);
    bool told; /* by VRAM_ERR_HOST_MEMORY */
} faults[] = {{"allocations", fail_allocation, vr_mem_failed, true},
              {"pages of records", fail_record, failed_records, true},
              {"calls of the system", fail_system, vr_os_failed, false}};

static unsigned memory_rows(void) {
    return (unsigned)COUNT_OF(faults) * driver->usual_manners;
}

static const char *memory_row(unsigned row) {
    static char text[120];
    snprintf(text, sizeof text, "%s, %s", faults[row % COUNT_OF(faults)].name,
             driver->manners[row / COUNT_OF(faults)]);
    return text;
}

static int memory_run(unsigned row, unsigned *tried) {
    const size_t at = row % COUNT_OF(faults);
    const struct fault none = {
        .call = faults[at].name, .nth = FAR, .manner = row / (unsigned)COUNT_OF(faults)};
    for (uint64_t nth = 1;; nth += STRIDE) {
        uint64_t blocks = vr_mem_live_blocks(), live = driver->live();
        faults[at].fail_at(nth);
        struct run run = run_with(&none);
        bool failed = faults[at].failed() > 0;
        faults[at].fail_at(0);
        run.fault.nth = nth;
        if (run.program.step &&
            (!failed || (faults[at].told && run.program.status != VRAM_ERR_HOST_MEMORY &&
                         !same(run.program.step, "absent")))) {
            return !complain(&run, "it must be HOST_MEMORY");
        }
        if (!judge(&run, blocks, live)) {
            return 1;
        }
        if (!failed) {
            return !works(faults[at].name) || *tried == 0;
        }
        (*tried)++;
    }
}

/* ------------------------------------------------------------------ answers */

static unsigned answers_rows(void) {
    return driver->answer_count;
}

static const char *answers_row(unsigned row) {
    return driver->answers[row].what;
}

static unsigned unknown_of(const vram_device_info *info) {
    return (info->memory_bytes.known ? 0 : MEMORY_UNKNOWN) |
           (info->alloc_max.known ? 0 : MAX_UNKNOWN) | (info->vmm_granule.known ? 0 : VMM_UNKNOWN) |
           (info->architecture[0] ? 0 : ARCHITECTURE_UNKNOWN) |
           (info->uuid_known ? 0 : UUID_UNKNOWN) | (info->pci_known ? 0 : PCI_UNKNOWN);
}

static int answers_run(unsigned row, unsigned *tried) {
    const struct answer *answer = &driver->answers[row];
    uint64_t blocks = vr_mem_live_blocks();
    struct run run = {.fault = {.call = answer->plan.call ? answer->plan.call : answer->what,
                                .nth = answer->plan.nth,
                                .code = answer->plan.code,
                                .lie = answer->plan.lie}};
    const struct program *program = &run.program;
    driver->reset(answer->manner);
    if (program_open(&run.program, driver)) { /* the usual device */
        program_end(&run.program);
    }
    vram_device_info usual = program->info;
    driver->reset(answer->manner);
    driver->set(answer->key, answer->value, answer->world);
    (void)vram_option_set(driver->option, answer->library ? answer->library : driver->library);
    if (answer->plan.call) {
        driver->plan(answer->plan.call, answer->plan.nth ? answer->plan.nth : 1, answer->plan.code,
                     answer->plan.lie, answer->plan.for_ever);
    }
    bool open = program_open(&run.program, driver);
    run.struck = driver->struck();
    driver->plan(NULL, 0, 0, 0, false);
    const char *words = answer->reason ? answer->reason : answer->words;
    bool good = true;
    if (answer->plan.call && !run.struck) {
        good = complain(&run, "it is not called");
    } else if (open == (answer->reason || answer->status)) {
        good = complain(&run, open ? "it opens" : "it does not open");
    } else if (!open && (!strstr(program->error.text, words) ||
                         same(program->step, "absent") == !answer->reason ||
                         (!answer->reason && program->status != answer->status))) {
        good = complain(&run, words);
    } else if (open && (program->info.caps != ((usual.caps | answer->has) & ~answer->lacks) ||
                        unknown_of(&program->info) != (unknown_of(&usual) ^ answer->unknown))) {
        printf("%s: capabilities %#x for %#x, unknown %#x for %#x\n", answer->what,
               program->info.caps, usual.caps, unknown_of(&program->info), unknown_of(&usual));
        good = false;
    } else if (open && answer->more && !answer->more(program)) {
        good = complain(&run, "what else must be so is not");
    }
    if (open && !answer->idle) {
        program_work(&run.program);
        good = (!program->step || complain(&run, "it does not work")) && good;
    }
    program_end(&run.program);
    run.forgiven = driver->tries;
    good = nothing_left(&run, blocks, 0) && good;
    driver->reset(0);
    (void)vram_option_set(driver->option, driver->library);
    (*tried)++;
    return !good || !works(answer->what);
}

const struct engine engines[ENGINES] = {
    {"codes", "entry x code", codes_rows, codes_row, codes_run},
    {"calls", "calls that fail", calls_rows, calls_row, calls_run},
    {"lies", "lies", lies_rows, lies_row, lies_run},
    {"missing", "symbols missing", symbol_rows, entry_name, missing_run},
    {"memory", "places where memory runs out", memory_rows, memory_row, memory_run},
    {"answers", "other drivers", answers_rows, answers_row, answers_run}};
