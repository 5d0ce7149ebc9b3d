/* SPDX-License-Identifier: Apache-2.0 */
/* test_http_answer.c: what every server of the command answers, and the names of hosts it takes. */
#include "http/http_answer.h"
#include "rig/rig.h"

#include <stdlib.h>
#include <string.h>

TEST(bodies_grow) {
    struct http_body body = {0};
    struct http_answer answer = {0};
    assert_true(http_body_add(&body, "", 0)); /* there is no memory yet */
    assert_true(http_body_add(&body, "abc", 3));
    assert_true(http_body_add(&body, "d", 1));                 /* into twice the room, */
    assert_true(http_body_add(&body, "e", 1));                 /* which has room for this, */
    assert_true(http_body_add(&body, "fghijklmnopqrstu", 16)); /* and into more than that */
    http_answer_body(&answer, "text/plain", &body);
    assert_int_equal(answer.code, 200);
    assert_int_equal(answer.body_bytes, 21);
    assert_memory_equal(answer.body, "abcdefghijklmnopqrstu", 21);
    http_answer_free(&answer);
    assert_null(answer.body);
}

TEST(bodies_that_fail) {
    struct http_body body = {0};
    struct http_answer answer = {0};
    assert_true(http_body_add(&body, "abc", 3));
    assert_false(http_body_add(&body, "abc", SIZE_MAX / 2)); /* more than a body may have */
    assert_false(http_body_add(&body, "d", 1));              /* and nothing behind it */
    http_answer_body(&answer, "text/plain", &body);
    assert_int_equal(answer.code, 500);
    assert_memory_equal(answer.body, "out of host memory\n", answer.body_bytes);
    http_answer_free(&answer);
}

TEST(methods) {
    static const char *const wrong[] = {NULL, "", "POST", "get"};
    struct http_answer answer = {0};
    assert_false(http_answer_method(&(struct http_request){.method = "GET"}, &answer));
    assert_false(http_answer_method(&(struct http_request){.method = "HEAD"}, &answer));
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_true(http_answer_method(&(struct http_request){.method = wrong[i]}, &answer));
        assert_int_equal(answer.code, 405);
        assert_string_equal(answer.allow, "GET, HEAD");
        http_answer_free(&answer);
    }
}

TEST(hosts) {
    static const struct {
        const char *host, *name;
    } rows[] = {
        {"localhost", "localhost"},
        {"localhost:", "localhost"},
        {"127.0.0.1:9400", "127.0.0.1"},
        {"[::1]", "::1"},
        {"[::1]:80", "::1"},
        {"", NULL},
        {":80", NULL},
        {"[]", NULL},
        {"[::1", NULL},
        {"[::1]x", NULL},
        {"a:80x", NULL},
        {"a:80:80", NULL},
    };
    char name[HTTP_HOST_MAX], lengthy[HTTP_HOST_MAX + 1];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(http_host_name(rows[i].host, name), rows[i].name != NULL);
        if (rows[i].name != NULL) {
            assert_string_equal(name, rows[i].name);
        }
    }
    memset(lengthy, 'a', sizeof lengthy);
    lengthy[HTTP_HOST_MAX] = '\0';
    assert_false(http_host_name(lengthy, name));
    lengthy[HTTP_HOST_MAX - 1] = '\0';
    assert_true(http_host_name(lengthy, name));
}
