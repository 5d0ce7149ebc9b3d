/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_config.c: reads "devices=2,profile=h200". Nothing is ignored: for an unknown key,
 * a repeated key and a value out of range the error says what is accepted.
 */
#include "backend/sim/sim_config.h"

#include "base/conf.h"
#include "base/error.h"
#include "base/os/os.h"
#include "base/size.h"
#include "base/size_text.h"

#include <string.h>

enum { VALUE_MAX = 96 }; /* bytes of the longest value, with the 0; a fault is the longest */

/* -------------------------------------------------------------------- values */

static bool text_equals(const char *text, size_t bytes, const char *word) {
    return strlen(word) == bytes && memcmp(text, word, bytes) == 0;
}

/* Digits only: no sign, no blank, no other base, nothing after them. */
static bool read_number(const char *text, size_t bytes, uint64_t low, uint64_t high,
                        uint64_t *number) {
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] < '0' || text[i] > '9' || !vr_mul(value, 10, &value) ||
            !vr_add(value, (uint64_t)(text[i] - '0'), &value)) {
            return false;
        }
    }
    if (bytes == 0 || value < low || value > high) {
        return false;
    }
    *number = value;
    return true;
}

static bool read_number32(const char *text, uint64_t high, uint32_t *number) {
    uint64_t value;
    if (!read_number(text, strlen(text), 0, high, &value)) {
        return false;
    }
    *number = (uint32_t)value;
    return true;
}

static bool read_size(const char *text, uint64_t low, uint64_t high, uint64_t *bytes) {
    uint64_t value;
    if (vr_size_read(text, &value) != VRAM_OK || value < low || value > high) {
        return false;
    }
    *bytes = value;
    return true;
}

/* The words that VRAM_CONF accepts for switches. */
static bool read_switch(const char *text, bool *on) {
    static const char *const words[2][4] = {{"off", "false", "no", "0"},
                                            {"on", "true", "yes", "1"}};
    for (unsigned i = 0; i < 8; i++) {
        if (strcmp(text, words[i / 4][i % 4]) == 0) {
            *on = i / 4 == 1;
            return true;
        }
    }
    return false;
}

/* --------------------------------------------------------------------- faults */

/* The next part of "a:b:c"; false if there is none left. */
static bool fault_next_part(const char **rest, const char **part, size_t *bytes) {
    if (!*rest) {
        return false;
    }
    *part = *rest;
    *bytes = strcspn(*rest, ":");
    *rest = (*rest)[*bytes] == ':' ? *rest + *bytes + 1 : NULL;
    return true;
}

/* A code by name or number, or a lie by name. */
static bool read_code(const char *text, size_t bytes, struct vram_sim_fault *fault) {
    static const struct {
        const char *name;
        int32_t code;
        vram_sim_lie lie;
    } words[] = {
#define WORD(NAME, name, status) {name, VRAM_SIM_##NAME, VRAM_SIM_LIE_NONE},
        VR_SIM_CODE_MAP(WORD)
#undef WORD
            {"null", 0, VRAM_SIM_LIE_NULL},
        {"misaligned", 0, VRAM_SIM_LIE_MISALIGNED},
        {"overlap", 0, VRAM_SIM_LIE_OVERLAP},
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (text_equals(text, bytes, words[i].name)) {
            fault->code = words[i].code;
            fault->lie = words[i].lie;
            return true;
        }
    }
    bool negative = bytes > 0 && text[0] == '-';
    uint64_t number;
    if (!read_number(text + negative, bytes - negative, 1, INT32_MAX + (uint64_t)negative,
                     &number)) {
        return false;
    }
    fault->code = (int32_t)(negative ? -(int64_t)number : (int64_t)number);
    return true;
}

/* "CALL:N", "CALL:N:CODE" or "CALL:N:CODE:forever". The default code is "out of memory", the most
   common case. */
static bool read_fault(const char *text, struct vr_sim_config *config) {
    struct vram_sim_fault fault = {.size = sizeof fault, .code = VRAM_SIM_OUT_OF_MEMORY};
    const char *part;
    size_t bytes;
    if (!fault_next_part(&text, &part, &bytes)) {
        return false;
    }
    fault.call = vr_sim_call_find(part, bytes);
    if (fault.call == VRAM_SIM_CALL_COUNT || !fault_next_part(&text, &part, &bytes) ||
        !read_number(part, bytes, 1, UINT64_MAX, &fault.nth)) {
        return false;
    }
    if (fault_next_part(&text, &part, &bytes) && !read_code(part, bytes, &fault)) {
        return false;
    }
    if (fault_next_part(&text, &part, &bytes)) {
        fault.for_ever = text_equals(part, bytes, "forever");
        if (!fault.for_ever || text) {
            return false;
        }
    }
    config->fault = fault;
    return vr_sim_fault_check(&fault) == VRAM_OK;
}

vram_status vr_sim_fault_check(const struct vram_sim_fault *fault) {
    static const char operation[] = "vram_sim_fault_set";
    if ((unsigned)fault->call >= VRAM_SIM_CALL_COUNT) {
        return vr_fail_in(VRAM_ERR_INVALID, operation, "there is no entry point %d",
                          (int)fault->call);
    }
    if (fault->nth == 0) {
        return vr_fail_in(VRAM_ERR_INVALID, operation, "calls are counted from 1, not from 0");
    }
    if ((unsigned)fault->lie > VRAM_SIM_LIE_OVERLAP) {
        return vr_fail_in(VRAM_ERR_INVALID, operation, "there is no lie %d", (int)fault->lie);
    }
    if ((fault->code == VRAM_SIM_SUCCESS) == (fault->lie == VRAM_SIM_LIE_NONE)) {
        return vr_fail_in(VRAM_ERR_INVALID, operation, "a fault has either a code or a lie");
    }
    if (fault->lie && fault->call != VRAM_SIM_ANY && !vr_sim_call_can_lie(fault->call)) {
        return vr_fail_in(VRAM_ERR_INVALID, operation, "%s answers no address, so it cannot lie",
                          vr_sim_call_name(fault->call));
    }
    if (fault->lie == VRAM_SIM_LIE_MISALIGNED && fault->call == VRAM_SIM_CREATE) {
        return vr_fail_in(VRAM_ERR_INVALID, operation, "a handle has no alignment to lie about");
    }
    return VRAM_OK;
}

/* ----------------------------------------------------------------------- keys */

static bool read_devices(const char *text, struct vr_sim_config *config) {
    return read_number32(text, VR_SIM_DEVICES_MAX, &config->devices);
}

/* Rounded down to whole pages: a rest could never be allocated. */
static bool read_memory(const char *text, struct vr_sim_config *config) {
    if (!read_size(text, 64 * VR_KIB, VR_SIM_MEMORY_MAX, &config->memory_bytes)) {
        return false;
    }
    config->memory_bytes -= config->memory_bytes % vr_os_page_bytes();
    return true;
}

/* Checked against the memory when everything is read: keys may come in any order. */
static bool read_others(const char *text, struct vr_sim_config *config) {
    return read_size(text, 0, VR_SIM_MEMORY_MAX, &config->others_bytes);
}

static bool read_granule(const char *text, struct vr_sim_config *config) {
    return read_size(text, vr_os_page_bytes(), VR_SIM_GRANULE_MAX, &config->granule) &&
           vr_is_power_of_two(config->granule);
}

static bool read_profile(const char *text, struct vr_sim_config *config) {
    config->profile = vr_sim_profile_find(text, strlen(text));
    return config->profile != NULL;
}

static bool read_alias(const char *text, struct vr_sim_config *config) {
    return read_switch(text, &config->alias);
}

static bool read_vmm(const char *text, struct vr_sim_config *config) {
    return read_switch(text, &config->vmm);
}

static bool read_real(const char *text, struct vr_sim_config *config) {
    return read_switch(text, &config->real);
}

static bool read_info(const char *text, struct vr_sim_config *config) {
    return read_switch(text, &config->info);
}

static bool read_seed(const char *text, struct vr_sim_config *config) {
    return read_number(text, strlen(text), 0, UINT64_MAX, &config->seed);
}

static bool read_lag(const char *text, struct vr_sim_config *config) {
    return read_number32(text, VR_SIM_LAG_MAX, &config->lag);
}

/* "CALL" for every device, "CALL:DEVICE" for one, so that the others can be seen to continue. */
static bool read_lose(const char *text, struct vr_sim_config *config) {
    const char *part;
    size_t bytes;
    uint64_t device = VR_SIM_DEVICES_MAX;
    if (!fault_next_part(&text, &part, &bytes) ||
        !read_number(part, bytes, 1, UINT64_MAX, &config->lose)) {
        return false;
    }
    if (fault_next_part(&text, &part, &bytes) &&
        (text || !read_number(part, bytes, 0, VR_SIM_DEVICES_MAX - 1, &device))) {
        return false;
    }
    config->lose_device = (uint32_t)device;
    return true;
}

static bool read_journal(const char *text, struct vr_sim_config *config) {
    return read_number32(text, VR_SIM_JOURNAL_MAX, &config->journal);
}

/* One row per key. The error text shows `accepted`. */
static const struct {
    const char *name;
    const char *accepted;
    bool (*read)(const char *text, struct vr_sim_config *config);
} keys[] = {
    {"devices", "0 to 64", read_devices},
    {"memory", "a size from 64K to 1024T", read_memory},
    {"others", "a size from 0 to the memory", read_others},
    {"granule", "a power of two from the page to 1G", read_granule},
    {"profile", "none or h200", read_profile},
    {"vmm", "on or off", read_vmm},
    {"alias", "on or off", read_alias},
    {"real", "on or off", read_real},
    {"seed", "a whole number", read_seed},
    {"lag", "0 to 10000", read_lag},
    {"lose", "CALL or CALL:DEVICE, counted from 1 and from 0", read_lose},
    {"info", "on or off", read_info},
    {"journal", "0 to 1048576", read_journal},
    {"fault", "CALL:N, CALL:N:CODE or CALL:N:CODE:forever; see vram/sim.h", read_fault},
};

enum { KEY_COUNT = sizeof keys / sizeof keys[0] };

#define bad_text(...) vr_error_set(VRAM_ERR_INVALID, "sim", "VRAM_SIM", 0, __VA_ARGS__)

/* Shows at most 32 characters of the user's text, so that what follows is not cut off. */
#define SHOWN(entry, part)                                                                         \
    (int)((entry)->part##_bytes < 32 ? (entry)->part##_bytes : 32), (entry)->part

/* Reads one entry. `given` has a bit for each key that was seen: otherwise the second of two values
   would silently win. A value too long for the buffer is read as "", which no key accepts. */
static vram_status read_entry(const struct vr_conf_entry *entry, uint32_t *given,
                              struct vr_sim_config *config) {
    char value[VALUE_MAX];
    unsigned i = 0;
    while (i < KEY_COUNT && !text_equals(entry->key, entry->key_bytes, keys[i].name)) {
        i++;
    }
    if (i == KEY_COUNT) {
        return bad_text(
            "simulation: no key \"%.*s\"; accepted are devices, memory, others, "
            "granule, profile, vmm, alias, real, seed, lag, lose, info, journal and fault",
            SHOWN(entry, key));
    }
    if (entry->problem) {
        return bad_text("simulation: %s %s", keys[i].name, entry->problem);
    }
    if (*given & 1u << i) {
        return bad_text("simulation: %s is given twice", keys[i].name);
    }
    *given |= 1u << i;
    size_t bytes = entry->value_bytes < VALUE_MAX ? entry->value_bytes : 0;
    memcpy(value, entry->value, bytes);
    value[bytes] = 0;
    if (bytes == 0 || !keys[i].read(value, config)) {
        return bad_text("simulation: %s=%.*s; accepted is %s", keys[i].name, SHOWN(entry, value),
                        keys[i].accepted);
    }
    return VRAM_OK;
}

vram_status vr_sim_config_read(const char *text, struct vr_sim_config *config) {
    struct vr_sim_config read = {.devices = 1,
                                 .granule = 2 * VR_MIB,
                                 .profile = vr_sim_profile_find("none", 4),
                                 .vmm = true,
                                 .alias = true,
                                 .info = true,
                                 .seed = 1,
                                 .lose_device = VR_SIM_DEVICES_MAX,
                                 .journal = 1024};
    struct vr_conf_entry entry;
    uint32_t given = 0;
    while (vr_conf_next(&text, &entry)) {
        vram_status status = read_entry(&entry, &given, &read);
        if (status != VRAM_OK) {
            return status;
        }
    }
    read.memory_bytes = read.memory_bytes ? read.memory_bytes : read.profile->memory_bytes;
    if (read.others_bytes > read.memory_bytes) {
        return bad_text(
            "simulation: others is more than the memory; accepted is a size from 0 to it");
    }
    *config = read;
    return VRAM_OK;
}
