/* SPDX-License-Identifier: Apache-2.0 */
/*
 * auto_transfer.c: what the cleanup attribute calls for transfers, streams, readbacks and feeds.
 */
#include "base/quiet.h"
#include "vram/auto.h"

VR_QUIET_HANDLE(vram_stream_set, vram_stream_set_destroy(*object))
VR_QUIET_HANDLE(vram_readback, vram_readback_destroy(*object))
VR_QUIET_HANDLE(vram_feed, vram_feed_destroy(*object))

VR_QUIET_STRUCT(vram_async, true, vram_async_end(object))
VR_QUIET_STRUCT(vram_auto_frame, object->frame.number,
                (void)vram_readback_release(object->readback, object->frame.number))
VR_QUIET_STRUCT(vram_auto_feed_block, object->block.number,
                (void)vram_feed_release(object->feed, object->block.number))
VR_QUIET_STRUCT(vram_auto_pinned, object->memory,
                (void)vram_pinned_end(object->device, object->memory, object->bytes))
