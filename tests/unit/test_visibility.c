/* SPDX-License-Identifier: Apache-2.0 */
/* test_visibility.c: item 15 and its table: what host and device see of each other, by platform and
   device. */
#include "ring/visibility_table.h"

#include "unit/device_world.h"
#include "vram/visibility.h"

static vram_visibility of_text(const char *text) {
    vram_visibility visibility = VRAM_VISIBILITY_AUTO;
    assert_ok(vram_visibility_of_platform(VRAM_PLATFORM_LINUX, text, &visibility));
    return visibility;
}

/* Item 15: texts as /proc/version has them. */
TEST(acceptance_15_wsl_is_known_by_its_kernel) {
    assert_int_equal(of_text("Linux version 5.15.153.1-microsoft-standard-WSL2 (root@941d701f84f1) "
                             "(gcc (GCC) 11.2.0) #1 SMP Fri Mar 29 23:14:13 UTC 2024"),
                     VRAM_VISIBILITY_DEVICE);
    assert_int_equal(of_text("Linux version 4.4.0-19041-Microsoft (Microsoft@Microsoft.com) (gcc "
                             "version 5.4.0 (GCC) ) #1237-Microsoft Sat Sep 11 14:32:00 PST 2021"),
                     VRAM_VISIBILITY_DEVICE);
    assert_int_equal(of_text("Linux version 6.6.36-custom-WSL2+ (me@here) #1 SMP"),
                     VRAM_VISIBILITY_DEVICE);
    assert_int_equal(of_text("Linux version 6.1.0-21-amd64 (debian-kernel@lists.debian.org) "
                             "(gcc-12 (Debian 12.2.0-14) 12.2.0) #1 SMP PREEMPT_DYNAMIC"),
                     VRAM_VISIBILITY_SYSTEM);
    assert_int_equal(of_text(NULL), VRAM_VISIBILITY_SYSTEM); /* unreadable */
    assert_int_equal(of_text(""), VRAM_VISIBILITY_SYSTEM);
    assert_int_equal(of_text("microsof"), VRAM_VISIBILITY_SYSTEM);
    assert_int_equal(of_text("awsl"), VRAM_VISIBILITY_SYSTEM); /* part of a word in small letters */
}

TEST(platforms_differ) {
    static const struct {
        vram_platform platform;
        vram_visibility visibility;
    } rows[] = {{VRAM_PLATFORM_LINUX, VRAM_VISIBILITY_SYSTEM},
                {VRAM_PLATFORM_WINDOWS, VRAM_VISIBILITY_SYSTEM},
                {VRAM_PLATFORM_MACOS, VRAM_VISIBILITY_DEVICE},
                {VRAM_PLATFORM_UNKNOWN, VRAM_VISIBILITY_DMA}};
    vram_visibility visibility = VRAM_VISIBILITY_AUTO;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_ok(vram_visibility_of_platform(rows[i].platform, NULL, &visibility));
        assert_int_equal(visibility, rows[i].visibility);
    }
    assert_int_equal(vram_visibility_of_platform((vram_platform)9, NULL, &visibility),
                     VRAM_ERR_INVALID);
    assert_int_equal(vram_visibility_of_platform(VRAM_PLATFORM_LINUX, "x", NULL), VRAM_ERR_INVALID);
#if defined(__linux__)
    assert_int_equal(vram_platform_here(), VRAM_PLATFORM_LINUX);
#endif
    assert_string_equal(vram_visibility_name(VRAM_VISIBILITY_DMA), "dma");
    assert_string_equal(vram_visibility_name(VRAM_VISIBILITY_SYSTEM), "system");
    assert_string_equal(vram_visibility_name((vram_visibility)7), "unknown");
}

static vram_visibility of_device(const char *backend, vram_device_kind kind, uint32_t caps,
                                 vram_visibility most) {
    vram_device_info info = {.size = sizeof info, .backend = backend, .kind = kind, .caps = caps};
    char reason[VRAM_VISIBILITY_REASON_MAX] = "unwritten";
    vram_visibility visibility = vr_visibility_of_device(&info, most, reason);
    assert_string_not_equal(reason, "unwritten");
    assert_int_equal(reason[0] == 0, visibility == VRAM_VISIBILITY_SYSTEM);
    return visibility;
}

TEST(devices_differ) {
    const vram_visibility system = VRAM_VISIBILITY_SYSTEM, device = VRAM_VISIBILITY_DEVICE,
                          dma = VRAM_VISIBILITY_DMA;
    const uint32_t cuda = VRAM_CAP_PINNED | VRAM_CAP_TRUE_ADDRESS | VRAM_CAP_KERNELS;
    const uint32_t svm = VRAM_CAP_MANAGED | VRAM_CAP_TRUE_ADDRESS | VRAM_CAP_KERNELS;
    assert_int_equal(of_device("host", VRAM_DEVICE_CPU, 0, dma), system);
    for (int i = 0; i < 2; i++) {
        const char *name = i ? "hip" : "cuda";
        assert_int_equal(of_device(name, VRAM_DEVICE_GPU, cuda, system), system);
        assert_int_equal(of_device(name, VRAM_DEVICE_GPU, cuda, device), device); /* WSL */
        assert_int_equal(of_device(name, VRAM_DEVICE_GPU, cuda, dma), dma);
        assert_int_equal(of_device(name, VRAM_DEVICE_GPU, VRAM_CAP_PINNED, system), dma);
    }
    assert_int_equal(of_device("opencl", VRAM_DEVICE_CPU, svm, device), system);
    assert_int_equal(of_device("opencl", VRAM_DEVICE_GPU, svm, system), device);
    assert_int_equal(of_device("opencl", VRAM_DEVICE_GPU, VRAM_CAP_KERNELS, system), dma);
    assert_int_equal(of_device("vulkan", VRAM_DEVICE_GPU, cuda, system), dma);
    assert_int_equal(of_device("metal", VRAM_DEVICE_GPU, cuda, system), dma);
    assert_int_equal(of_device("sim", VRAM_DEVICE_SIMULATED, 0, system), dma);
    assert_int_equal(of_device("new", VRAM_DEVICE_GPU, cuda, system), dma);
}

TEST_IN(start, nothing_left, a_device_is_asked) {
    struct rig host = rig_make("host", NULL), sim = rig_make("sim", "real=on");
    vram_visibility visibility = VRAM_VISIBILITY_AUTO;
    char reason[VRAM_VISIBILITY_REASON_MAX];
    assert_ok(vram_visibility_detect(host.device, NULL, &visibility, reason));
    assert_int_equal(visibility, VRAM_VISIBILITY_SYSTEM);
    assert_string_equal(reason, "");
    assert_ok(vram_visibility_detect(sim.device, "Linux", &visibility, NULL));
    assert_int_equal(visibility, VRAM_VISIBILITY_DEVICE);
    assert_int_equal(vram_visibility_detect(sim.device, NULL, NULL, reason), VRAM_ERR_INVALID);
    assert_int_equal(vram_visibility_detect(NULL, NULL, &visibility, reason), VRAM_ERR_INVALID);
    vram_context_destroy(host.context);
    vram_context_destroy(sim.context);
}
