/* SPDX-License-Identifier: Apache-2.0 */
/* test_machine.c: names of the computer, and the reading of /proc/cpuinfo. */
#include "base/os/machine.h"
#include "rig/rig.h"

#include <string.h>

TEST(this_machine_has_names) {
    struct vr_machine machine;
    memset(&machine, 'x', sizeof machine);
    vr_os_machine(&machine);
    assert_true(machine.cpu[0] != 0);
    assert_non_null(memchr(machine.cpu, 0, sizeof machine.cpu));
    assert_true(machine.architecture[0] != 0);
    assert_non_null(memchr(machine.architecture, 0, sizeof machine.architecture));
    assert_non_null(strchr(machine.system, ' '));
}

TEST(the_model_is_found) {
    static const struct {
        const char *text, *name;
    } cases[] = {
        {"processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nflags\t: fpu\n", "Some CPU @ 2 GHz"},
        {"model name:no spaces", "no spaces"},
        {"model name\t:  \tx", "x"},
        {"model name\t: first\nmodel name\t: second\n", "first"},
        {"model name\t:\nmodel name\t: behind an empty one\n", "behind an empty one"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char name[64] = "untouched";
        assert_true(vr_machine_cpu_find(cases[i].text, strlen(cases[i].text), name, sizeof name));
        assert_string_equal(name, cases[i].name);
    }
}

TEST(other_text_names_nothing) {
    static const char *const cases[] = {
        "",
        "\n\n\n",
        "model name",
        "model name\t",
        "model name\t:",
        "model name\t: ",
        "model nam",
        "model names\t: x",
        " model name\t: x",
        "CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n",
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char name[64] = "untouched";
        assert_false(vr_machine_cpu_find(cases[i], strlen(cases[i]), name, sizeof name));
        assert_string_equal(name, "untouched");
    }
}

/* Every beginning of a text is read within its bounds, and a long name is cut. */
TEST(nothing_is_read_past_the_end) {
    static const char text[] = "vendor\t: v\nmodel name\t: 0123456789\n";
    for (size_t bytes = 0; bytes < sizeof text; bytes++) {
        char exact[sizeof text], name[6] = "";
        memset(exact, '#', sizeof exact); /* no terminator behind `bytes` */
        memcpy(exact, text, bytes);
        bool found = vr_machine_cpu_find(exact, bytes, name, sizeof name);
        size_t expected = bytes > 24 ? bytes - 24 : 0;
        assert_int_equal(found, expected > 0);
        assert_int_equal(strlen(name), expected < 5 ? expected : 5);
    }
}
