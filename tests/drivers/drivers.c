/* SPDX-License-Identifier: Apache-2.0 */
/*
 * drivers.c: what a backend does about its driver, through the public calls, by one table a driver.
 *
 *     drivers NAME [--engine E] [--only TEXT] [--shim PATH] [--jobs N] [--verbose]
 *
 * One program (driver_program.c) uses all of a device. The engines run it over and over:
 *   codes    each entry point fails with every documented code and three others: "entry x code"
 *   calls    the first, second, third ... call of any entry point fails, once and for ever
 *   lies     a call succeeds and has made nothing
 *   missing  the driver lacks one symbol after the other
 *   memory   host memory runs out at every place in its turn: an allocation, pages of records, a
 *            call of the system
 *   answers  drivers that are not the usual one: absent with a reason, or what the device can do
 *
 * Whatever fails, the program is told by a status that the table says, and by a record that names
 * the call and its code; outputs are untouched; what was given back once more is gone; nothing is
 * left, neither in the library nor in the driver; the driver's rules are kept; and afterwards the
 * program succeeds in the same process.
 *
 * --shim is a shim in front of a real driver, which answers in its place, so that nothing on the
 * machine is harmed (bench/h200.sh faults). Each row runs in a process of its own, JOBS at a time.
 *
 * Exit code 0 when all went well, 1 when something did not, 2 for misuse.
 */
#include "drivers.h"

#include "base/handle.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "base/stable.h"
#include "unit/record_fault.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    ROW_SECONDS = 240, /* a process that takes longer waits for ever */
    LATE_MS = 2000,    /* a driver's own threads may hold what they let go of soon */
    ATTEMPTS = 5,      /* whether a real device has to wait for a queue is a matter of time */
    NOT_HERE = 3,      /* a process's exit code: this machine cannot come by the row */
    JOBS_MAX = 64,
    FAR = 1 << 20 /* no program makes so many calls */
};

static const int bogus[] = {-999, 12345, INT_MIN}; /* codes that no driver documents */

static const struct driver *driver;
static bool shim, verbose;
static const char *only;

#if defined(__SANITIZE_THREAD__)
enum { STRIDE = 11 };
#elif defined(__SANITIZE_ADDRESS__)
enum { STRIDE = 7 };
#else
enum { STRIDE = 1 };
#endif

/* ---------------------------------------------------------------- judgement */

/* What a run is about, for its messages. */
struct fault {
    const char *call; /* or "any" */
    uint64_t nth;
    int code, lie;
    bool for_ever;
    unsigned manner;
    bool when_open;     /* not before */
    const char *hidden; /* a symbol that the driver lacks; NULL: none */
    bool anywhere;      /* somewhere in the program, and not in the first call of an entry */
};

struct run {
    struct fault fault;
    struct program program;
    uint64_t struck;
    const char *last; /* call that was struck */
    bool at_open;     /* struck before the device was open */
    bool forgiven;    /* struck in a call that has nobody to tell */
};

static bool same(const char *a, const char *b) {
    return strcmp(a, b) == 0;
}

static bool starts(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

static bool complain(const struct run *run, const char *what) {
    const struct fault *fault = &run->fault;
    printf("%s, %s: call %llu of %s%s%s answers %d%s: %s: %s\n", driver->name,
           driver->manners[fault->manner], (unsigned long long)fault->nth, fault->call,
           run->last && !same(run->last, fault->call) ? ", which is " : "",
           run->last && !same(run->last, fault->call) ? run->last : "", fault->code,
           fault->for_ever ? " for ever" : "", run->program.step ? run->program.step : "no step",
           what);
    if (run->program.step) {
        printf("    %s by %s (%lld): %s\n", vram_status_name(run->program.status),
               run->program.error.operation ? run->program.error.operation : "nobody",
               (long long)run->program.error.native_code, run->program.error.text);
    }
    fflush(stdout); /* what comes next may crash */
    return false;
}

static const struct driver_entry *entry_find(const char *name) {
    static const struct driver_entry none = {"", "", "", NULL, NULL, 0, NULL};
    for (unsigned i = 0; i < driver->entry_count; i++) {
        if (same(driver->entries[i].name, name)) {
            return &driver->entries[i];
        }
    }
    return &none;
}

static bool fits(const char *name, const char *pattern) {
    const char *star = strchr(pattern, '*');
    return star ? strncmp(name, pattern, (size_t)(star - pattern)) == 0 : same(name, pattern);
}

static vram_status status_of(int code) {
    const struct code_row *row = driver->statuses;
    while (code < row->first || code > row->last) {
        row++;
    }
    return row->status;
}

/* By the name of the CUDA entry that it stands in for, too. */
static const struct excuse *excuse_find(const char *entry, int code) {
    const char *twin = entry_find(entry)->twin;
    for (unsigned i = 0; i < driver->excuse_count; i++) {
        const struct excuse *excuse = &driver->excuses[i];
        if ((fits(entry, excuse->entry) || (twin && fits(twin, excuse->entry))) &&
            (excuse->code == ANY_CODE || excuse->code == code ||
             (excuse->code == ANY_UNSUPPORTED && status_of(code) == VRAM_ERR_UNSUPPORTED))) {
            return excuse;
        }
    }
    return NULL;
}

/* Without a status: an answer, another way, a trial, or a call that has nobody to tell. */
static bool may_pass(const struct run *run) {
    const struct excuse *excuse = excuse_find(run->last, run->fault.code);
    return (excuse && (excuse->status == VRAM_OK || excuse->how & OR_PASS)) || run->forgiven ||
           (driver->tries && run->at_open);
}

/* Deep in the program a call may be another's that can do without it, and where all calls fail the
   first is not the one that is told. What is told is right by its own record. */
static bool judge_record(const struct run *run) {
    const struct program *program = &run->program;
    const vram_error *error = &program->error;
    vram_status told = status_of(run->fault.code);
    if (!program->step || program->status == told || same(program->step, "absent")) {
        return !program->step || error->text[0] || same(program->step, "lost") ||
               complain(run, "no word of it");
    }
    const char *calls[] = {run->last, NULL};
    for (unsigned i = 0; i < driver->entry_count && !calls[1]; i++) {
        bool named = same(driver->entries[i].name, error->operation) ||
                     same(driver->entries[i].symbol, error->operation);
        calls[1] = named ? driver->entries[i].name : NULL;
    }
    for (int i = 0; i < 2; i++) {
        const struct excuse *excuse = calls[i] ? excuse_find(calls[i], run->fault.code) : NULL;
        bool another = excuse && excuse->how & OR_PASS && error->native_code == 0;
        if (error->text[0] && (another || (excuse && excuse->status == program->status))) {
            return true;
        }
    }
    for (unsigned i = 0; i < driver->excuse_count; i++) {
        if (run->fault.for_ever && error->native_code == 0 && error->text[0] &&
            driver->excuses[i].status == program->status) {
            return true; /* the driver gives nothing, and no code */
        }
    }
    return (driver->tries && run->at_open) || complain(run, "the status is of no such failure");
}

static bool judge_status(const struct run *run) {
    const struct program *program = &run->program;
    const vram_error *error = &program->error;
    const struct excuse *excuse = excuse_find(run->last, run->fault.code);
    vram_status told = status_of(run->fault.code);
    char text[96];
    if (program->step && same(program->step, "broken")) {
        return complain(run, "no failure excuses that");
    }
    if (run->fault.anywhere) {
        return judge_record(run);
    }
    if (!program->step) {
        return may_pass(run) || complain(run, "nobody was told");
    }
    if (same(program->step, "lost")) {
        return told == VRAM_ERR_DEVICE_LOST || complain(run, "it must not be lost");
    }
    if (!error->text[0]) {
        return complain(run, "no word of it");
    }
    if (same(program->step, "absent")) {
        return strstr(error->text, run->last) || excuse || complain(run, "the reason is another");
    }
    if (driver->tries && run->at_open && same(error->operation, "device_open")) {
        return true; /* what was tried is not there, and then nothing else is */
    }
    if (may_pass(run) && program->status == told) {
        return true; /* not by that call, but by the next one */
    }
    vram_status expected = excuse && excuse->status != VRAM_OK ? excuse->status : told;
    bool usual = excuse && excuse->how & OR_USUAL && program->status == told;
    if (program->status != expected && !usual) {
        snprintf(text, sizeof text, "it must be %s", vram_status_name(expected));
        return complain(run, text);
    }
    bool named = (starts(run->last, error->operation) ||
                  same(entry_find(run->last)->symbol, error->operation)) &&
                 error->native_code == run->fault.code;
    return (same(error->backend, driver->name) && (named || (excuse && excuse->how & UNNAMED))) ||
           complain(run, "the record is another's");
}

/* Waits for what a driver's own threads still hold. */
static bool nothing_left(const struct run *run, uint64_t blocks, uint64_t live) {
    char text[96];
    const char *last = run->last ? run->last : "";
    bool lost = run->program.status == VRAM_ERR_DEVICE_LOST ||
                run->program.status == VRAM_ERR_SHUTDOWN ||
                (run->struck && (status_of(run->fault.code) == VRAM_ERR_DEVICE_LOST ||
                                 status_of(run->fault.code) == VRAM_ERR_SHUTDOWN));
    const struct excuse *excuse = run->struck ? excuse_find(last, run->fault.code) : NULL;
    bool ended = excuse && (strstr(last, "Destroy") || strstr(last, "Release") ||
                            strstr(last, "Free") || strstr(last, "Unmap"));
    bool kept = lost || ended || run->forgiven || run->fault.lie ||
                (driver->tries && run->at_open) || (run->struck && run->fault.for_ever);
    for (int i = 0; i < LATE_MS; i++) {
        if (vr_mem_live_blocks() <= blocks && (kept || driver->live() <= live)) {
            return true;
        }
        usleep(1000);
    }
    snprintf(text, sizeof text, "%lld blocks and %lld objects of the driver are left%s%s",
             (long long)(vr_mem_live_blocks() - blocks), (long long)(driver->live() - live),
             *last ? " by " : "", last);
    return complain(run, text);
}

static bool judge(const struct run *run, uint64_t blocks, uint64_t live) {
    const char *wrong = driver->wrong(run->last ? run->last : "", run->fault.for_ever);
    return (!run->struck || shim || judge_status(run)) && nothing_left(run, blocks, live) &&
           (!wrong || complain(run, wrong));
}

/* --------------------------------------------------------------------- runs */

static void plan(const struct fault *fault) {
    driver->plan(fault->call, fault->nth, fault->code, fault->lie, fault->for_ever);
}

/* The program, while the fault is planned; its plan ends with the first call that was struck, but
   for one that strikes for ever. */
static struct run run_with(const struct fault *fault) {
    struct run run = {.fault = *fault};
    driver->reset(fault->manner);
    if (fault->hidden) {
        driver->hide(fault->hidden);
    }
    if (!fault->when_open) {
        plan(fault);
    }
    bool open = program_open(&run.program, driver);
    run.at_open = driver->struck() > 0;
    if (open && fault->when_open) {
        plan(fault);
    }
    if (open) {
        program_work(&run.program);
    }
    uint64_t struck = driver->struck();
    program_end(&run.program);
    run.struck = driver->struck();
    run.forgiven = run.struck > struck;
    run.last = run.struck ? driver->last_call() : NULL;
    driver->plan(NULL, 0, 0, 0, false);
    return run;
}

/* Runs it and looks whether all is well; -1: it is not, 0: nothing was struck, 1: well. */
static int try_fault(const struct fault *fault) {
    uint64_t blocks = vr_mem_live_blocks(), live = driver->live();
    struct run run = run_with(fault);
    if (verbose && run.struck) {
        complain(&run, "as it was");
    }
    bool good = judge(&run, blocks, live);
    driver->reset(0);
    return !good ? -1 : run.struck > 0;
}

/* After all that, everything works. */
static bool works(const char *after) {
    struct run run = run_with(&(struct fault){.call = "any", .nth = FAR});
    if (run.program.step) {
        printf("after %s: ", after);
        return complain(&run, "it worked before");
    }
    return true;
}

/* ------------------------------------------------------------------ engines */

/* An engine has numbered rows with names. What runs one returns an exit code, and counts what it
   tried. */

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

/* ------------------------------------------------------------------- parent */

static const struct engine {
    const char *name, *sum;
    unsigned (*rows)(void);
    const char *(*row)(unsigned row);
    int (*run)(unsigned row, unsigned *tried);
} engines[] = {{"codes", "entry x code", codes_rows, codes_row, codes_run},
               {"calls", "calls that fail", calls_rows, calls_row, calls_run},
               {"lies", "lies", lies_rows, lies_row, lies_run},
               {"missing", "symbols missing", symbol_rows, entry_name, missing_run},
               {"memory", "places where memory runs out", memory_rows, memory_row, memory_run},
               {"answers", "other drivers", answers_rows, answers_row, answers_run}};

static struct { unsigned matched, tried, failed, unreachable; } sum;

/* A row in a process of its own, which writes how much it tried. */
struct child {
    pid_t pid;
    int pipe;
    unsigned row;
};

/* A real driver takes half a second to make a device's context: one is kept meanwhile, and at the
   end there is none. */
static int run_kept(const struct engine *engine, unsigned row, unsigned *tried) {
    struct program kept;
    if (!program_open(&kept, driver)) {
        printf("before %s: %s\n", engine->row(row), kept.error.text);
        return 1;
    }
    int code = engine->run(row, tried);
    program_end(&kept);
    return code == 0 && !works(engine->row(row)) ? 1 : code;
}

static struct child start(const struct engine *engine, unsigned row) {
    int ends[2] = {-1, -1};
    struct child child = {.pid = -1, .row = row};
    fflush(NULL);
    if (pipe(ends) != 0 || (child.pid = fork()) != 0) {
        child.pipe = ends[0];
        close(ends[1]);
        return child;
    }
    unsigned tried = 0;
    alarm(ROW_SECONDS);
    const char *path = shim ? getenv("DRIVERS_SHIM") : driver->library;
    bool loaded = driver->load(path) && vram_option_set(driver->option, path) == VRAM_OK;
    int code = !loaded ? 2 : shim ? run_kept(engine, row, &tried) : engine->run(row, &tried);
    if (write(ends[1], &tried, sizeof tried) != sizeof tried) {
        code = 1;
    }
    fflush(NULL);
    _exit(code);
}

static void collect(const struct engine *engine, struct child *child) {
    unsigned tried = 0;
    int status = 0;
    bool told = read(child->pipe, &tried, sizeof tried) == sizeof tried;
    bool ended = waitpid(child->pid, &status, 0) == child->pid && WIFEXITED(status);
    int code = ended && told ? WEXITSTATUS(status) : 1;
    close(child->pipe);
    if (!ended) {
        printf("%s: ended by signal %d\n", engine->row(child->row), WTERMSIG(status));
    }
    sum.tried += code ? 0 : tried;
    sum.unreachable += code == NOT_HERE;
    sum.failed += code && code != NOT_HERE;
    if (code || shim) { /* who stops a run that takes too long sees how far it came */
        printf("%s %s: %s, %u so far\n", engine->name, engine->row(child->row),
               code == NOT_HERE ? "needs a second device"
               : code           ? "FAILED"
                                : "done",
               sum.tried);
        fflush(stdout);
    }
}

static void run_engine(const struct engine *engine, unsigned jobs) {
    struct child children[JOBS_MAX];
    unsigned running = 0, first = 0, before = sum.tried;
    for (unsigned row = 0; row < engine->rows(); row++) {
        if (only && !strstr(engine->row(row), only)) {
            continue;
        }
        if (running == jobs) {
            collect(engine, &children[first++ % jobs]);
            running--;
        }
        children[(first + running++) % jobs] = start(engine, row);
        sum.matched++;
    }
    for (; running; running--) {
        collect(engine, &children[first++ % jobs]);
    }
    printf("%s, %s: %u\n", driver->name, engine->sum, sum.tried - before);
}

static int usage(const char *why) {
    fprintf(stderr,
            "drivers: %s\nusage: drivers cuda|hip|opencl|vulkan|metal [--engine "
            "codes|calls|lies|missing|memory|answers] [--only TEXT]\n"
            "               [--shim PATH] [--jobs N] [--verbose]\n",
            why);
    return 2;
}

int main(int count, char **words) {
    static const struct driver *const drivers[] = {&driver_cuda, &driver_hip, &driver_opencl,
                                                   &driver_vulkan, &driver_metal};
    const char *engine = NULL;
    int jobs = 2;
    for (size_t i = 0; count > 1 && i < COUNT_OF(drivers); i++) {
        driver = same(drivers[i]->name, words[1]) ? drivers[i] : driver;
    }
    if (!driver) {
        return usage("which driver?");
    }
    for (int i = 2; i < count; i++) {
        const char *value = i + 1 < count ? words[i + 1] : NULL;
        bool takes = true;
        if (same(words[i], "--verbose")) {
            verbose = true;
            takes = false;
        } else if (same(words[i], "--engine")) {
            engine = value;
        } else if (same(words[i], "--only")) {
            only = value;
        } else if (same(words[i], "--shim") && value) {
            shim = setenv("DRIVERS_SHIM", value, 1) == 0;
        } else if (same(words[i], "--jobs")) {
            jobs = value ? atoi(value) : 0;
        } else {
            return usage(words[i]);
        }
        if (takes && !value) {
            return usage("a word is missing");
        }
        i += takes;
    }
    if (jobs < 1 || jobs > JOBS_MAX) {
        return usage("--jobs takes 1 to 64");
    }
    bool known = false;
    for (size_t i = 0; i < COUNT_OF(engines); i++) {
        if (engine ? same(engine, engines[i].name) : !shim || i == 0) {
            known = true;
            run_engine(&engines[i], (unsigned)jobs);
        }
    }
    if (!known || !sum.matched) {
        return usage(known ? "nothing matches" : "there is no such engine");
    }
    if (sum.unreachable) {
        printf("%u rows need a second device\n", sum.unreachable);
    }
    return sum.failed ? 1 : 0;
}
