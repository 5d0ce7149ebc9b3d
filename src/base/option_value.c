/* SPDX-License-Identifier: Apache-2.0 */
#include "base/option_value.h"

#include "base/option.h"
#include "base/size.h"
#include "base/size_text.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The result of reading a value of one type. */
enum read_result {
    READ_OK,
    UNREADABLE,
    READ_TOO_LARGE /* a number of more than 64 bits: reported as out of range */
};

static bool same_word(const char *text, const char *word) {
    while (*word && vr_text_lower(*text) == *word) {
        text++, word++;
    }
    return *text == *word;
}

static enum read_result read_bool(const char *text, uint64_t *number) {
    static const char *const words[] = {"off", "on", "false", "true", "no", "yes", "0", "1"};
    for (unsigned i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (same_word(text, words[i])) {
            *number = i % 2;
            return READ_OK;
        }
    }
    return UNREADABLE;
}

static enum read_result read_integer(const char *text, uint64_t *number) {
    uint64_t value = 0;
    bool fits = true;
    if (*text == '\0' || text[strspn(text, "0123456789")] != '\0') {
        return UNREADABLE;
    }
    for (; *text; text++) {
        uint64_t tens = 0;
        fits = fits && vr_mul(value, 10, &tens) && vr_add(tens, (uint64_t)(*text - '0'), &value);
    }
    *number = value;
    return fits ? READ_OK : READ_TOO_LARGE;
}

/* Digits with a decimal point and an optional per cent sign, in millionths; finer digits are
   dropped. */
static enum read_result read_fraction(const char *text, uint64_t *number) {
    size_t whole = strspn(text, "0123456789"), fine = 0;
    const char *behind = text + whole;
    if (*behind == '.') {
        fine = strspn(behind + 1, "0123456789");
        behind += 1 + fine;
    }
    bool percent = *behind == '%';
    if (whole + fine == 0 || behind[percent] != '\0') {
        return UNREADABLE;
    }
    uint64_t value = 0, unit = percent ? 10000 : 1000000;
    for (size_t i = 0; i < whole; i++) {
        if (value > 1000) {
            return READ_TOO_LARGE;
        }
        value = value * 10 + (uint64_t)(text[i] - '0');
    }
    value *= unit;
    for (size_t i = 0; i < fine && unit >= 10; i++) {
        unit /= 10;
        value += unit * (uint64_t)(text[whole + 1 + i] - '0');
    }
    *number = value;
    return READ_OK;
}

static enum read_result verdict_of(vram_status status) {
    return status == VRAM_OK ? READ_OK : status == VRAM_ERR_OVERFLOW ? READ_TOO_LARGE : UNREADABLE;
}

/* ------------------------------------------------------------------- messages */

static const char *write_number(vram_option_type type, uint64_t value,
                                char text[VR_NUMBER_TEXT_MAX]) {
    if (type == VRAM_OPTION_SIZE) {
        return vr_size_write(value, text);
    }
    if (type == VRAM_OPTION_DURATION) {
        return vr_duration_write(value, text);
    }
    if (type == VRAM_OPTION_FRACTION) {
        snprintf(text, VR_NUMBER_TEXT_MAX, "%g", (double)value / 1e6);
        return text;
    }
    snprintf(text, VR_NUMBER_TEXT_MAX, "%" PRIu64, value);
    return text;
}

static void explain_range(const vram_option_info *row, const char *text, char *why, size_t bytes) {
    char low[VR_NUMBER_TEXT_MAX], high[VR_NUMBER_TEXT_MAX];
    vr_text_format(why, bytes, "\"%.48s\" is out of range; accepted: %s to %s", text,
                   write_number(row->type, row->minimum, low),
                   write_number(row->type, row->maximum, high));
}

/* What is wrong with an unreadable value; follows the value in the message. */
static const char *value_complaint(vram_option_type type, const char *text) {
    switch (type) {
    case VRAM_OPTION_BOOL:
        return "is neither on nor off (or true, false, yes, no, 1, 0)";
    case VRAM_OPTION_INTEGER:
        return "is not a whole number";
    case VRAM_OPTION_FRACTION:
        return "is not a fraction; write 0.85 or 85%";
    case VRAM_OPTION_SIZE:
        return "is not a size; write bytes, or a unit as in 64K, 1.5GiB, 2 MB";
    default:
        break; /* a duration: texts are handled elsewhere */
    }
    /* The most common mistake: the unit of a bare number is unknown. */
    bool bare = *text && text[strspn(text, "0123456789.")] == '\0';
    return bare ? "needs a unit: ns, us, ms, s or min, as in 500ms"
                : "is not a duration; write a number with ns, us, ms, s or min, as in 500ms";
}

/* ----------------------------------------------------------------------- text */

/* Finds `text` in "one, two, three"; the number is its index. */
static bool find_choice(const char *choices, const char *text, uint64_t *place) {
    size_t bytes = strlen(text);
    for (uint64_t i = 0;; i++) {
        size_t length = strcspn(choices, ",");
        if (length == bytes && memcmp(choices, text, bytes) == 0) {
            *place = i;
            return true;
        }
        if (choices[length] == '\0') {
            return false;
        }
        choices += length + 2; /* ", " */
    }
}

static bool read_text(const char *choices, const char *text, uint64_t *number, char *why,
                      size_t why_bytes) {
    /* A path need not be UTF-8, but one with a line break is a mistake. */
    for (size_t i = 0; text[i]; i++) {
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7F) {
            vr_text_format(why, why_bytes, "\"%.48s\" has a control character at byte %zu", text,
                           i);
            return false;
        }
    }
    *number = 0;
    if (*choices && *text && !find_choice(choices, text, number)) {
        vr_text_format(why, why_bytes, "\"%.48s\" is none of: %s", text, choices);
        return false;
    }
    return true;
}

/* Words of `choices`, joined by commas, each at most once; "none", the first, stands alone. */
static bool read_list(const char *choices, const char *text, char *why, size_t why_bytes) {
    uint64_t place, seen = 0;
    if (strcmp(text, "none") == 0) {
        return true;
    }
    while (*text) {
        char word[VR_OPTION_TEXT_MAX];
        size_t bytes = strcspn(text, ",");
        memcpy(word, text, bytes);
        word[bytes] = '\0';
        if (!read_text(choices, bytes ? word : " ", &place, why, why_bytes)) {
            return false;
        }
        if (place == 0) {
            vr_text_format(why, why_bytes, "\"none\" stands beside other words");
            return false;
        }
        if (seen & UINT64_C(1) << place) {
            vr_text_format(why, why_bytes, "\"%.48s\" is listed twice", word);
            return false;
        }
        seen |= UINT64_C(1) << place;
        text += bytes + (text[bytes] == ',');
    }
    return true;
}

bool vr_option_value_read(const vram_option_info *row, const char *choices, const char *text,
                          uint64_t *number, char *why, size_t why_bytes) {
    size_t bytes = strlen(text);
    if (bytes >= VR_OPTION_TEXT_MAX) { /* numbers too: the table stores the text */
        vr_text_format(why, why_bytes, "the value has %zu bytes; at most %d are accepted", bytes,
                       VR_OPTION_TEXT_MAX - 1);
        return false;
    }
    uint64_t value = 0;
    enum read_result read_result = UNREADABLE;
    switch (row->type) {
    case VRAM_OPTION_BOOL:
        if (*choices && find_choice(choices, text, &value)) {
            value += VR_OPTION_CHOICE;
            read_result = READ_OK;
        } else {
            read_result = read_bool(text, &value);
        }
        break;
    case VRAM_OPTION_INTEGER:
        read_result = read_integer(text, &value);
        break;
    case VRAM_OPTION_SIZE:
        read_result = verdict_of(vr_size_read(text, &value));
        break;
    case VRAM_OPTION_FRACTION:
        read_result = read_fraction(text, &value);
        break;
    case VRAM_OPTION_DURATION:
        read_result = verdict_of(vr_duration_read(text, &value));
        break;
    case VRAM_OPTION_TEXT:
        return read_text(choices, text, number, why, why_bytes);
    case VRAM_OPTION_LIST:
        *number = 0;
        return read_list(choices, text, why, why_bytes);
    }
    if (read_result == UNREADABLE) {
        vr_text_format(why, why_bytes, "\"%.48s\" %s%s%s", text, value_complaint(row->type, text),
                       *choices ? ", and is none of: " : "", choices);
        return false;
    }
    bool unset = value == 0 && strcmp(row->default_text, "0") == 0; /* 0 stands for no value */
    bool ranged = row->type != VRAM_OPTION_BOOL && !unset;
    if (read_result == READ_TOO_LARGE ||
        (ranged && (value < row->minimum || value > row->maximum))) {
        explain_range(row, text, why, why_bytes);
        return false;
    }
    *number = value;
    return true;
}
