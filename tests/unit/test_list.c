/* SPDX-License-Identifier: Apache-2.0 */
/* test_list.c: the intrusive list. */
#include "base/list.h"
#include "rig/rig.h"

struct item {
    int value;
    struct vr_link link;
};

static struct item *item_of(struct vr_link *link) {
    return link ? VR_CONTAINER(link, struct item, link) : NULL;
}

static int sum_in_order(const struct vr_list *list) {
    int sum = 0;
    for (struct vr_link *link = vr_list_first(list); link; link = vr_list_next(list, link)) {
        sum = sum * 10 + item_of(link)->value;
    }
    return sum;
}

TEST(any_item_can_go) {
    static const int left[4] = {234, 134, 124, 123};
    for (int gone = 0; gone < 4; gone++) {
        struct vr_list list;
        struct item items[4] = {{.value = 1}, {.value = 2}, {.value = 3}, {.value = 4}};
        vr_list_init(&list);
        for (int i = 0; i < 4; i++) {
            assert_false(vr_link_linked(&items[i].link));
            vr_list_append(&list, &items[i].link);
        }
        assert_int_equal(sum_in_order(&list), 1234);
        vr_link_remove(&items[gone].link);
        vr_link_remove(&items[gone].link); /* twice is once */
        assert_false(vr_link_linked(&items[gone].link));
        assert_int_equal(sum_in_order(&list), left[gone]);
        vr_list_append(&list, &items[gone].link); /* and comes back at the end */
        assert_int_equal(sum_in_order(&list), left[gone] * 10 + items[gone].value);
        for (int i = 0; i < 4; i++) {
            vr_link_remove(&items[i].link);
        }
        assert_true(vr_list_empty(&list));
    }
}
