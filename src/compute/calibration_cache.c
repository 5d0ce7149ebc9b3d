/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calibration_cache.c: rates that were measured once on this machine, in a file for the next
 * program.
 *
 *     vram calibration 2
 *     version 0.1.0                      everything that rates depend on: the key. A machine
 *     cpu AMD EPYC 9654, 16 processors   that differs in any of it has another file
 *     ...
 *     cpu_rate 1234567                   multiplications, or bytes, a second
 *     ...
 *     check 0123456789abcdef             of all before it
 *
 *  (1) A file is valid when it is byte for byte what this code would write for this key and some
 *      numbers. Any other file, truncated, changed, or written by another program, is replaced by a
 *      new measurement.
 *  (2) It is replaced as a whole, by a rename. Numbers in it decide where products run, never what
 *      memory is used.
 *  (3) Without the cache everything still works: failures here are ignored.
 */
#include "compute/calibration_cache.h"

#include "base/error.h"
#include "base/os/machine.h"
#include "base/os/os.h"
#include "base/size.h"
#include "compute/setting.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { FIELDS = 5, FILE_MOST = 4096 };

#define NUMBER_MOST UINT64_C(1000000000000000000) /* 10^18: no machine reaches it */
#define PICO        1e12
#define HEADING     "vram calibration 2\n"

static const char *const names[FIELDS] = {"cpu_rate", "device_rate", "upload_rate", "download_rate",
                                          "device_picoseconds"};

/* Appends to a text, as printf. Whatever does not fit makes its length the capacity. */
__attribute__((format(printf, 4, 5))) static void
text_add(char *text, size_t capacity, size_t *length, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int wrote = vsnprintf(text + *length, capacity - *length, format, arguments);
    va_end(arguments);
    *length = (size_t)vr_smaller(*length + (size_t)wrote, capacity);
}

/* FNV-1a: any change of one byte changes it. */
static uint64_t check_of(const char *text, size_t bytes) {
    uint64_t check = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < bytes; i++) {
        check = (check ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    }
    return check;
}

/* ------------------------------------------------------------------------ text */

static uint64_t whole_number(double value) {
    return value < 1 ? 1 : value > (double)NUMBER_MOST ? NUMBER_MOST : (uint64_t)(value + 0.5);
}

static void numbers_of(const struct vram_calibration *rates, uint64_t numbers[FIELDS]) {
    numbers[0] = whole_number(rates->cpu_rate);
    numbers[1] = whole_number(rates->device_rate);
    numbers[2] = whole_number(rates->upload_rate);
    numbers[3] = whole_number(rates->download_rate);
    numbers[4] = whole_number(rates->device_seconds * PICO);
}

static struct vram_calibration rates_of(const uint64_t numbers[FIELDS]) {
    return (struct vram_calibration){.size = sizeof(struct vram_calibration),
                                     .cpu_rate = (double)numbers[0],
                                     .device_rate = (double)numbers[1],
                                     .upload_rate = (double)numbers[2],
                                     .download_rate = (double)numbers[3],
                                     .device_seconds = (double)numbers[4] / PICO};
}

void vr_calibration_round(struct vram_calibration *rates) {
    uint64_t numbers[FIELDS];
    numbers_of(rates, numbers);
    *rates = rates_of(numbers);
}

/* Writes the file for these numbers. Returns its length; the capacity if `text` is too small. */
static size_t write_all(const char *key, const uint64_t numbers[FIELDS], char *text,
                        size_t capacity) {
    size_t length = 0;
    text_add(text, capacity, &length, "%s%s", HEADING, key);
    for (int i = 0; i < FIELDS; i++) {
        text_add(text, capacity, &length, "%s %llu\n", names[i], (unsigned long long)numbers[i]);
    }
    text_add(text, capacity, &length, "check %016llx\n",
             (unsigned long long)check_of(text, length));
    return length;
}

/* Reads the number of the line "NAME NUMBER" at *at, and moves *at behind it. */
static bool read_number(const char **at, const char *end, const char *name, uint64_t *number) {
    size_t length = strlen(name);
    const char *digit = *at + length + 1;
    if ((size_t)(end - *at) < length + 2 || memcmp(*at, name, length) != 0 ||
        (*at)[length] != ' ') {
        return false;
    }
    for (*number = 0; digit < end && *digit >= '0' && *digit <= '9'; digit++) {
        *number = *number * 10 + (uint64_t)(*digit - '0');
        if (*number > NUMBER_MOST) {
            return false;
        }
    }
    *at = digit + 1;
    return digit < end && *digit == '\n' && *number > 0;
}

/* Keeps (1): writes again what was read, and compares. */
bool vr_calibration_parse(const char *key, const char *text, size_t bytes,
                          struct vram_calibration *rates) {
    char again[FILE_MOST];
    _Static_assert(sizeof again > sizeof((struct vr_calibration_place *)0)->key + 512,
                   "every key fits, with its numbers");
    uint64_t numbers[FIELDS];
    size_t head = strlen(HEADING) + strlen(key);
    const char *at = text + (head < bytes ? head : bytes), *end = text + bytes;
    for (int i = 0; i < FIELDS; i++) {
        if (!read_number(&at, end, names[i], &numbers[i])) {
            return false;
        }
    }
    size_t length = write_all(key, numbers, again, sizeof again);
    if (length != bytes || memcmp(again, text, bytes) != 0) {
        return false;
    }
    *rates = rates_of(numbers);
    return true;
}

/* ------------------------------------------------------------------------- key */

/* False: it does not fit. */
static bool write_key(const struct vr_scheduler *scheduler, const struct vr_arithmetic *arithmetic,
                      char *key, size_t capacity) {
    static const uint8_t unknown[sizeof scheduler->info.uuid];
    const struct vram_device_info *info = &scheduler->info;
    const uint8_t *uuid = info->uuid_known ? info->uuid : unknown;
    struct vr_machine machine;
    size_t length = 0;
    vr_os_machine(&machine);
    text_add(key, capacity, &length, "version %s\ncpu %s, %u processors\n", vram_version_text(),
             machine.cpu, vr_os_processors());
    text_add(key, capacity, &length, "cpu arithmetic %s, %u threads\n",
             scheduler->blas.sgemm ? scheduler->blas.name : scheduler->cpu_name,
             scheduler->cpu_threads);
    text_add(key, capacity, &length, "device %s %u, %s\nuuid ", info->backend, info->backend_index,
             info->name);
    for (int i = 0; i < 16; i++) {
        text_add(key, capacity, &length, "%02x", uuid[i]);
    }
    text_add(key, capacity, &length, "\ndevice arithmetic %s, %u queues\n", arithmetic->name,
             scheduler->queue_count);
    text_add(key, capacity, &length, "copies through %llu x %llu bytes, %llu threads\n",
             (unsigned long long)vr_setting_number("staging_slots"),
             (unsigned long long)vr_setting_number("staging_slot"),
             (unsigned long long)vr_setting_number("staging_threads"));
    return length < capacity;
}

/* The folder, by the option or the environment; false: there is none. */
static bool find_folder(char *path, size_t capacity) {
    char chosen[VR_SETTING_MAX];
    const char *cache = vr_os_environment("XDG_CACHE_HOME"), *home = vr_os_environment("HOME");
    vr_setting_text("calibration_cache", chosen);
    size_t length = 0;
    if (strcmp(chosen, "off") == 0) {
        return false;
    }
    if (*chosen) {
        text_add(path, capacity, &length, "%s", chosen);
    } else if (cache && *cache == '/') { /* its specification forbids relative paths */
        text_add(path, capacity, &length, "%s/vram", cache);
    } else if (home && *home == '/') {
        text_add(path, capacity, &length, "%s/.cache/vram", home);
    }
    return length > 0;
}

bool vr_calibration_place(const struct vr_scheduler *scheduler,
                          const struct vr_arithmetic *arithmetic,
                          struct vr_calibration_place *place) {
    if (!find_folder(place->path, sizeof place->path) ||
        !write_key(scheduler, arithmetic, place->key, sizeof place->key)) {
        return false;
    }
    size_t length = strlen(place->path);
    text_add(place->path, sizeof place->path, &length, "/calibration-%016llx",
             (unsigned long long)check_of(place->key, strlen(place->key)));
    return length < sizeof place->path;
}

/* ------------------------------------------------------------------------ files */

bool vr_calibration_read(const struct vr_calibration_place *place, struct vram_calibration *rates) {
    char text[FILE_MOST];
    struct vram_error error;
    uint64_t bytes = 0;
    bool good = false;
    int fd;
    vr_error_save(&error);
    if (vr_os_disk_read_open(place->path, &fd, &bytes) == VRAM_OK) { /* never waits */
        good = bytes <= sizeof text && vr_os_file_read(fd, 0, text, bytes) == VRAM_OK &&
               vr_calibration_parse(place->key, text, (size_t)bytes, rates);
        vr_os_file_close(fd);
    }
    vr_error_restore(&error);
    return good;
}

void vr_calibration_keep(const struct vr_calibration_place *place,
                         const struct vram_calibration *rates) {
    char text[FILE_MOST];
    uint64_t numbers[FIELDS];
    struct vram_error error;
    numbers_of(rates, numbers);
    size_t length = write_all(place->key, numbers, text, sizeof text);
    vr_error_save(&error);
    (void)vr_os_text_replace(place->path, text, length, NULL); /* keeps (3) */
    vr_error_restore(&error);
}
