/* SPDX-License-Identifier: Apache-2.0 */
/* test_sim_config.c: the text of a simulation, the names of its calls, and what they cost. */
#include "sim_world.h"

static struct vr_sim_config read_text(const char *text) {
    struct vr_sim_config config;
    vram_error_clear();
    if (vr_sim_config_read(text, &config) != VRAM_OK) {
        fail_msg("%s: %s", text, vram_error_get()->text);
    }
    return config;
}

TEST(defaults) {
    static const char *const empty[] = {"", " ", ",", " , ,"};
    for (size_t i = 0; i < sizeof empty / sizeof empty[0]; i++) {
        struct vr_sim_config config = read_text(empty[i]);
        assert_int_equal(config.devices, 1);
        assert_int_equal(config.memory_bytes, 8 * VR_GIB);
        assert_int_equal(config.granule, 2 * VR_MIB);
        assert_string_equal(config.profile->name, "none");
        assert_true(config.vmm && config.info && !config.real);
        assert_int_equal(config.seed, 1);
        assert_int_equal(config.lag, 0);
        assert_int_equal(config.lose, 0);
        assert_int_equal(config.journal, 1024);
        assert_int_equal(config.fault.nth, 0);
        assert_int_equal(config.others_bytes, 0);
    }
}

TEST(every_key) {
    struct vr_sim_config config =
        read_text("devices=64, memory=80G,granule=64K,profile=h200,vmm=off,real=yes,info=0,"
                  "seed=18446744073709551615,lag=10000,lose=7:63,journal=0,fault=map:3:-5:forever");
    assert_int_equal(config.devices, 64);
    assert_int_equal(config.memory_bytes, 80 * VR_GIB);
    assert_int_equal(config.granule, 64 * VR_KIB);
    assert_string_equal(config.profile->name, "h200");
    assert_true(!config.vmm && !config.info && config.real);
    assert_true(config.seed == UINT64_MAX);
    assert_int_equal(config.lag, 10000);
    assert_int_equal(config.lose, 7);
    assert_int_equal(config.lose_device, 63);
    assert_int_equal(config.journal, 0);
    assert_int_equal(config.fault.call, VRAM_SIM_MAP);
    assert_int_equal(config.fault.nth, 3);
    assert_int_equal(config.fault.code, -5);
    assert_true(config.fault.for_ever);
    assert_int_equal(read_text("others=6G").others_bytes, 6 * VR_GIB);
    assert_int_equal(read_text("others=1G,memory=1G").others_bytes, VR_GIB);
    assert_int_equal(read_text("lose=9").lose_device, VR_SIM_DEVICES_MAX);
    assert_int_equal(read_text("memory=100001").memory_bytes % vr_os_page_bytes(), 0);
}

TEST(faults_by_text) {
    static const struct {
        const char *text;
        vram_sim_call call;
        int32_t code;
        vram_sim_lie lie;
        bool for_ever;
    } rows[] = {
        {"fault=any:1", VRAM_SIM_ANY, VRAM_SIM_OUT_OF_MEMORY, VRAM_SIM_LIE_NONE, false},
        {"fault=create:1:2", VRAM_SIM_CREATE, 2, VRAM_SIM_LIE_NONE, false},
        {"fault=poll:1:device_lost", VRAM_SIM_POLL, 6, VRAM_SIM_LIE_NONE, false},
        {"fault=any:1:-2147483648:forever", VRAM_SIM_ANY, INT32_MIN, VRAM_SIM_LIE_NONE, true},
        {"fault=any:1:2147483647", VRAM_SIM_ANY, INT32_MAX, VRAM_SIM_LIE_NONE, false},
        {"fault=alloc:1:null", VRAM_SIM_ALLOC, 0, VRAM_SIM_LIE_NULL, false},
        {"fault=reserve:1:misaligned", VRAM_SIM_RESERVE, 0, VRAM_SIM_LIE_MISALIGNED, false},
        {"fault=any:1:overlap:forever", VRAM_SIM_ANY, 0, VRAM_SIM_LIE_OVERLAP, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct vram_sim_fault fault = read_text(rows[i].text).fault;
        assert_int_equal(fault.call, rows[i].call);
        assert_int_equal(fault.code, rows[i].code);
        assert_int_equal(fault.lie, rows[i].lie);
        assert_int_equal(fault.for_ever, rows[i].for_ever);
    }
}

/* Refused with a text that names what is wrong; the configuration is untouched. */
static void refuse_text(const char *text, const char *named) {
    struct vr_sim_config config, before;
    memset(&config, 0x5a, sizeof config);
    before = config;
    vram_error_clear();
    if (vr_sim_config_read(text, &config) != VRAM_ERR_INVALID) {
        fail_msg("%s was not refused", text);
    }
    assert_memory_equal(&config, &before, sizeof config);
    assert_string_equal(vram_error_get()->backend, "sim");
    if (!strstr(vram_error_get()->text, named)) {
        fail_msg("%s: \"%s\" does not name %s", text, vram_error_get()->text, named);
    }
}

TEST(refusals) {
    static const char *const rows[][2] = {
        {"devices=65", "0 to 64"},
        {"devices=-1", "0 to 64"},
        {"devices=0x2", "0 to 64"},
        {"devices=", "0 to 64"},
        {"devices", "devices has no value"},
        {"devices=1,devices=1", "given twice"},
        {"memory=1025T", "64K to 1024T"},
        {"memory=65535", "64K to 1024T"},
        {"memory=99999999999999999999", "64K to 1024T"},
        {"memory=lots", "memory=lots"},
        {"others=-1", "others=-1; accepted is a size from 0 to the memory"},
        {"others=2G,memory=1G", "others is more than the memory"},
        {"others=9G", "others is more than the memory"},
        {"granule=3M", "power of two"},
        {"granule=1K", "power of two"},
        {"granule=2G", "power of two"},
        {"profile=h100", "none or h200"},
        {"vmm=maybe", "on or off"},
        {"real=", "on or off"},
        {"info=2", "on or off"},
        {"seed=18446744073709551616", "a whole number"},
        {"seed=1 2", "a whole number"},
        {"lag=10001", "0 to 10000"},
        {"lose=0", "CALL"},
        {"lose=1:64", "CALL"},
        {"lose=1:2:3", "CALL"},
        {"lose=:2", "CALL"},
        {"journal=1048577", "1048576"},
        {"fault=map", "CALL:N"},
        {"fault=nap:1", "CALL:N"},
        {"fault=map:0", "CALL:N"},
        {"fault=map:1:0", "CALL:N"},
        {"fault=map:1:-", "CALL:N"},
        {"fault=map:1:2147483648", "CALL:N"},
        {"fault=map:1:2:ever", "CALL:N"},
        {"fault=map:1:2:forever:", "CALL:N"},
        {"fault=map:1:null", "CALL:N"},
        {"fault=create:1:misaligned", "CALL:N"},
        {"memry=1G", "no key \"memry\"; accepted are devices"},
        {"=1", "no key \"\""},
        {"memory=\"1G", "never closed"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        refuse_text(rows[i][0], rows[i][1]);
    }
    char long_text[300] = "seed=";
    memset(long_text + 5, '1', sizeof long_text - 6);
    refuse_text(long_text, "a whole number");
}

TEST(faults_that_cannot_be) {
    static const struct vram_sim_fault rows[] = {
        {.call = VRAM_SIM_CALL_COUNT, .nth = 1, .code = 1},
        {.call = (vram_sim_call)-1, .nth = 1, .code = 1},
        {.call = VRAM_SIM_MAP, .nth = 0, .code = 1},
        {.call = VRAM_SIM_MAP, .nth = 1},
        {.call = VRAM_SIM_ALLOC, .nth = 1, .code = 1, .lie = VRAM_SIM_LIE_NULL},
        {.call = VRAM_SIM_ALLOC, .nth = 1, .lie = (vram_sim_lie)4},
        {.call = VRAM_SIM_MAP, .nth = 1, .lie = VRAM_SIM_LIE_NULL},
        {.call = VRAM_SIM_CREATE, .nth = 1, .lie = VRAM_SIM_LIE_MISALIGNED},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(vr_sim_fault_check(&rows[i]), VRAM_ERR_INVALID);
    }
}

/* ----------------------------------------------------------------- random text */

static uint64_t next_random(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

/* Text made of pieces that mean something and of bytes that do not. */
static void random_text(uint64_t *random, char *text, size_t bytes) {
    static const char *const pieces[] = {
        "devices", "memory",  "granule", "profile", "fault",    "lose", "journal",
        "seed",    "lag",     "vmm",     "real",    "info",     "=",    "=",
        "=",       ",",       ",",       ":",       "on",       "off",  "map",
        "any",     "forever", "1",       "0",       "64K",      "2M",   "8G",
        "h200",    "none",    "-",       "overlap", "\"",       " ",    "99999999999",
        "\t",      "1.5",     "TiB",     "%s%n",    "\xff\xfe", "\x01", "18446744073709551615"};
    size_t at = 0;
    text[0] = 0;
    for (uint64_t count = next_random(random) % 24; count; count--) {
        const char *piece = pieces[next_random(random) % (sizeof pieces / sizeof pieces[0])];
        char any[2] = {(char)(1 + next_random(random) % 255), 0};
        piece = next_random(random) % 8 ? piece : any;
        if (at + strlen(piece) + 1 < bytes) {
            memcpy(text + at, piece, strlen(piece) + 1);
            at += strlen(piece);
        }
    }
}

TEST(any_text) {
    uint64_t random = 20261115, read = 0;
    for (unsigned i = 0; i < 100000; i++) {
        char text[256];
        struct vr_sim_config config;
        random_text(&random, text, sizeof text);
        vram_error_clear();
        vram_status status = vr_sim_config_read(text, &config);
        if (status == VRAM_OK) {
            read++;
            assert_in_range(config.devices, 0, VR_SIM_DEVICES_MAX);
            assert_in_range(config.memory_bytes, 4096, VR_SIM_MEMORY_MAX);
            assert_true(vr_is_power_of_two(config.granule) && config.granule >= PAGE);
            assert_in_range(config.lag, 0, VR_SIM_LAG_MAX);
            assert_in_range(config.journal, 0, VR_SIM_JOURNAL_MAX);
            assert_non_null(config.profile);
            assert_true(!config.fault.nth || vr_sim_fault_check(&config.fault) == VRAM_OK);
        } else {
            assert_int_equal(status, VRAM_ERR_INVALID);
            assert_true(vram_error_get()->text[0] != 0);
        }
    }
    assert_true(read > 100); /* else the pieces are chosen badly */
}

/* -------------------------------------------------------------- names and prices */

TEST(names) {
    for (unsigned call = 0; call < VRAM_SIM_CALL_COUNT; call++) {
        const char *name = vram_sim_call_name((vram_sim_call)call);
        assert_int_equal(vr_sim_call_find(name, strlen(name)), call);
    }
    assert_string_equal(vram_sim_call_name(VRAM_SIM_PINNED_ALLOC), "pinned_alloc");
    assert_string_equal(vram_sim_call_name(VRAM_SIM_CALL_COUNT), "unknown");
    assert_string_equal(vram_sim_call_name((vram_sim_call)-1), "unknown");
    assert_int_equal(vr_sim_call_find("maps", 4), VRAM_SIM_CALL_COUNT);
    assert_null(vr_sim_profile_find("h20", 3));
}

TEST(prices) {
    const struct vr_sim_profile *none = vr_sim_profile_find("none", 4);
    const struct vr_sim_profile *h200 = vr_sim_profile_find("h200", 4);
    for (unsigned call = 0; call < VRAM_SIM_CALL_COUNT; call++) {
        assert_int_equal(vr_sim_call_ns(none, (vram_sim_call)call, VR_GIB), 0);
        assert_int_equal(vr_sim_work_ns(none, (vram_sim_call)call, VR_GIB), 0);
    }
    assert_int_equal(vr_sim_call_ns(h200, VRAM_SIM_CREATE, 2 * VR_MIB), 15000);
    assert_in_range(vr_sim_call_ns(h200, VRAM_SIM_CREATE, VR_GIB), 60000, 66000);
    assert_in_range(vr_sim_call_ns(h200, VRAM_SIM_RELEASE, VR_GIB), 460000, 480000);
    assert_int_equal(vr_sim_call_ns(h200, VRAM_SIM_MAP, VR_GIB), 1000);
    assert_int_equal(vr_sim_call_ns(h200, VRAM_SIM_ACCESS, 2 * VR_MIB), 60000);
    assert_int_equal(vr_sim_call_ns(h200, VRAM_SIM_UNMAP, 2 * VR_MIB), 40000);
    assert_int_equal(vr_sim_call_ns(h200, VRAM_SIM_MEMORY_INFO, 0), 4200);
    /* 1 GiB over the link takes about 19.5 ms, within the device about 0.54 ms. */
    assert_in_range(vr_sim_work_ns(h200, VRAM_SIM_UPLOAD, VR_GIB), 19400000, 19500000);
    assert_in_range(vr_sim_work_ns(h200, VRAM_SIM_COPY, VR_GIB), 530000, 540000);
    assert_int_equal(vr_sim_work_ns(h200, VRAM_SIM_SIGNAL, 0), 0);
    assert_int_equal(vr_sim_work_ns(h200, VRAM_SIM_LAUNCH, 0), 5000);
    assert_true(vr_sim_work_ns(h200, VRAM_SIM_FILL, UINT64_MAX) > 1000000000);
}
