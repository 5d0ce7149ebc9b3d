/* SPDX-License-Identifier: Apache-2.0 */
/* A stranger's program on libvram-ucx: a process that reaches itself; or a reason, without UCX. */
#include <vram/remote.h>
#include <vram/vram.h>

#include <stdio.h>
#include <string.h>

static int failed(const char *what) {
    printf("%s: %s\n", what, vram_error_get()->text);
    return 1;
}

int main(void) {
    vram_context_options options = {.size = sizeof options, .backends = "host"};
    vram_remote_options network = {.size = sizeof network, .transports = "tcp", .interfaces = "lo"};
    vram_context *context;
    vram_device *device;
    vram_remote *remote;
    if (vram_context_create(&options, &context) || vram_device_open(context, 0, &device)) {
        return failed("a device");
    }
    vram_status status = vram_remote_open(device, &network, &remote);
    if (status == VRAM_ERR_NO_DRIVER && vram_error_get()->text[0]) { /* built without UCX here */
        printf("libvram %s, devices: 1\n", vram_version_text());
        return vram_context_destroy(context) == VRAM_OK ? 0 : 1;
    }
    unsigned char address[VRAM_REMOTE_ADDRESS_MAX];
    size_t bytes = sizeof address;
    vram_remote_peer *peer;
    if (status || vram_remote_address_get(remote, address, &bytes) ||
        vram_remote_peer_open(remote, address, bytes, 0, &peer)) {
        return failed("a connection");
    }
    if (vram_remote_peer_close(peer) || vram_remote_close(remote) ||
        vram_context_destroy(context)) {
        return failed("the end");
    }
    printf("libvram %s, devices: 1\n", vram_version_text());
    return 0;
}
