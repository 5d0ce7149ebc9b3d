/* SPDX-License-Identifier: Apache-2.0 */
/* call_structs.h: structs that begin with their size; tests/lint/calls.py . --update writes it. */
#ifndef TEST_CALL_STRUCTS_H
#define TEST_CALL_STRUCTS_H

/* clang-format off */
#include <vram/batch.h>
#include <vram/buffer.h>
#include <vram/compute.h>
#include <vram/device.h>
#include <vram/distance.h>
#include <vram/feed.h>
#include <vram/foreign.h>
#include <vram/growth.h>
#include <vram/labels.h>
#include <vram/lease.h>
#include <vram/limits.h>
#include <vram/metal.h>
#include <vram/metrics.h>
#include <vram/model.h>
#include <vram/named.h>
#include <vram/oom.h>
#include <vram/opencl.h>
#include <vram/pinned.h>
#include <vram/pool.h>
#include <vram/pressure.h>
#include <vram/queue.h>
#include <vram/readback.h>
#include <vram/remote.h>
#include <vram/ring.h>
#include <vram/scope.h>
#include <vram/share.h>
#include <vram/sim.h>
#include <vram/stats.h>
#include <vram/stream.h>
#include <vram/trace.h>
#include <vram/transfer.h>
#include <vram/vulkan.h>

/* X(type, whether calls read it) */
#define CALL_STRUCTS(X) \
    X(vram_alloc_options, true) \
    X(vram_backend_info, false) \
    X(vram_batch_info, false) \
    X(vram_batch_item, true) \
    X(vram_batch_options, true) \
    X(vram_block_info, false) \
    X(vram_broker_options, true) \
    X(vram_buffer_event, false) \
    X(vram_buffer_info, false) \
    X(vram_buffer_options, true) \
    X(vram_calibration, false) \
    X(vram_context_options, true) \
    X(vram_device_info, true) \
    X(vram_distance, true) \
    X(vram_error_event, false) \
    X(vram_estimate, false) \
    X(vram_estimate_options, true) \
    X(vram_feed_options, true) \
    X(vram_feed_stats, false) \
    X(vram_fit, false) \
    X(vram_foreign_info, false) \
    X(vram_foreign_options, true) \
    X(vram_foreign_totals, false) \
    X(vram_fragmentation, false) \
    X(vram_growth, true) \
    X(vram_growth_info, false) \
    X(vram_health_info, false) \
    X(vram_health_options, true) \
    X(vram_inference_memory, false) \
    X(vram_inference_shape, true) \
    X(vram_kernel_source, true) \
    X(vram_labels_info, false) \
    X(vram_labels_options, true) \
    X(vram_ladder_options, true) \
    X(vram_launch, true) \
    X(vram_leak_summary, false) \
    X(vram_lease_event, false) \
    X(vram_lease_info, false) \
    X(vram_lease_options, true) \
    X(vram_limits, true) \
    X(vram_live_block, false) \
    X(vram_live_group, false) \
    X(vram_live_query, true) \
    X(vram_live_stats, false) \
    X(vram_matmul, true) \
    X(vram_matmul_plan, false) \
    X(vram_memory_info, false) \
    X(vram_metal_adoption, false) \
    X(vram_metrics_source, true) \
    X(vram_model, true) \
    X(vram_model_place, false) \
    X(vram_model_read_options, true) \
    X(vram_model_select_options, true) \
    X(vram_monitor_options, true) \
    X(vram_named_config, true) \
    X(vram_named_info, false) \
    X(vram_named_options, true) \
    X(vram_named_stats, false) \
    X(vram_native_info, false) \
    X(vram_oom_event, false) \
    X(vram_oom_report, true) \
    X(vram_opencl_adoption, false) \
    X(vram_peaks, false) \
    X(vram_pinned_info, false) \
    X(vram_pool_options, true) \
    X(vram_pool_stats, false) \
    X(vram_pressure, false) \
    X(vram_pressure_event, false) \
    X(vram_provider, false) \
    X(vram_queue_options, true) \
    X(vram_readback_options, true) \
    X(vram_readback_stats, false) \
    X(vram_rebuild_options, true) \
    X(vram_rebuild_result, false) \
    X(vram_remote_info, false) \
    X(vram_remote_options, true) \
    X(vram_remote_region_options, true) \
    X(vram_remote_transfer, true) \
    X(vram_response_options, true) \
    X(vram_ring_info, false) \
    X(vram_ring_options, true) \
    X(vram_ring_stats, false) \
    X(vram_scheduler_options, true) \
    X(vram_scheduler_stats, false) \
    X(vram_scope_info, false) \
    X(vram_select_options, true) \
    X(vram_share_info, false) \
    X(vram_share_options, true) \
    X(vram_sim_fault, true) \
    X(vram_sim_state, false) \
    X(vram_sleep_options, true) \
    X(vram_stream_info, false) \
    X(vram_stream_set_options, true) \
    X(vram_tag_event, false) \
    X(vram_tag_info, false) \
    X(vram_trace_info, false) \
    X(vram_trace_options, true) \
    X(vram_transfer_options, true) \
    X(vram_transfer_stats, true) \
    X(vram_trim_options, true) \
    X(vram_vulkan_adoption, false) \
    X(vram_watch_options, true) \
    X(vram_weights_options, true) \
    X(vram_wrap, true)
#define CALL_FIELDS_vram_alloc_options(F) F(vram_alloc_options, alignment) F(vram_alloc_options, flags) F(vram_alloc_options, tag) F(vram_alloc_options, reserve_bytes) F(vram_alloc_options, name) F(vram_alloc_options, elements)
#define CALL_FIELDS_vram_backend_info(F) F(vram_backend_info, name) F(vram_backend_info, present) F(vram_backend_info, device_count) F(vram_backend_info, version) F(vram_backend_info, reason)
#define CALL_FIELDS_vram_batch_info(F) F(vram_batch_info, pool) F(vram_batch_info, queue) F(vram_batch_info, count) F(vram_batch_info, blocks) F(vram_batch_info, shared_bytes)
#define CALL_FIELDS_vram_batch_item(F) F(vram_batch_item, elements) F(vram_batch_item, precision) F(vram_batch_item, kind) F(vram_batch_item, name) F(vram_batch_item, host) F(vram_batch_item, host_bytes) F(vram_batch_item, flags)
#define CALL_FIELDS_vram_batch_options(F) F(vram_batch_options, tag)
#define CALL_FIELDS_vram_block_info(F) F(vram_block_info, pool) F(vram_block_info, addr) F(vram_block_info, requested_bytes) F(vram_block_info, held_bytes) F(vram_block_info, tag) F(vram_block_info, kind)
#define CALL_FIELDS_vram_broker_options(F) F(vram_broker_options, dir) F(vram_broker_options, idle_ns) F(vram_broker_options, stop) F(vram_broker_options, user) F(vram_broker_options, started)
#define CALL_FIELDS_vram_buffer_event(F) F(vram_buffer_event, buffer) F(vram_buffer_event, id) F(vram_buffer_event, cause) F(vram_buffer_event, from) F(vram_buffer_event, to) F(vram_buffer_event, bytes)
#define CALL_FIELDS_vram_buffer_info(F) F(vram_buffer_info, id) F(vram_buffer_info, name) F(vram_buffer_info, tag) F(vram_buffer_info, kind) F(vram_buffer_info, precision) F(vram_buffer_info, location) F(vram_buffer_info, addr) F(vram_buffer_info, capacity_bytes) F(vram_buffer_info, used_bytes) F(vram_buffer_info, elements) F(vram_buffer_info, queue) F(vram_buffer_info, pool) F(vram_buffer_info, created_ns) F(vram_buffer_info, accessed_ns) F(vram_buffer_info, resizes) F(vram_buffer_info, host) F(vram_buffer_info, pinned) F(vram_buffer_info, wrapped) F(vram_buffer_info, mapped) F(vram_buffer_info, numa_node) F(vram_buffer_info, promotions) F(vram_buffer_info, demotions)
#define CALL_FIELDS_vram_buffer_options(F) F(vram_buffer_options, kind) F(vram_buffer_options, precision) F(vram_buffer_options, flags) F(vram_buffer_options, name) F(vram_buffer_options, tag) F(vram_buffer_options, moved) F(vram_buffer_options, user) F(vram_buffer_options, growth) F(vram_buffer_options, provider)
#define CALL_FIELDS_vram_calibration(F) F(vram_calibration, cpu_rate) F(vram_calibration, device_rate) F(vram_calibration, upload_rate) F(vram_calibration, download_rate) F(vram_calibration, device_seconds)
#define CALL_FIELDS_vram_context_options(F) F(vram_context_options, backends) F(vram_context_options, sim) F(vram_context_options, vulkan) F(vram_context_options, opencl) F(vram_context_options, metal)
#define CALL_FIELDS_vram_device_info(F) F(vram_device_info, backend) F(vram_device_info, backend_index) F(vram_device_info, kind) F(vram_device_info, name) F(vram_device_info, architecture) F(vram_device_info, uuid_known) F(vram_device_info, pci_known) F(vram_device_info, uuid) F(vram_device_info, pci) F(vram_device_info, caps) F(vram_device_info, caps_known) F(vram_device_info, memory_bytes) F(vram_device_info, alloc_granule) F(vram_device_info, alloc_max) F(vram_device_info, vmm_granule)
#define CALL_FIELDS_vram_distance(F) F(vram_distance, queries) F(vram_distance, vectors) F(vram_distance, dim) F(vram_distance, query) F(vram_distance, corpus) F(vram_distance, query_elements) F(vram_distance, corpus_elements) F(vram_distance, metric) F(vram_distance, precision) F(vram_distance, nonfinite) F(vram_distance, place) F(vram_distance, distances) F(vram_distance, distance_elements) F(vram_distance, k) F(vram_distance, best) F(vram_distance, best_at) F(vram_distance, scale) F(vram_distance, saturated)
#define CALL_FIELDS_vram_error_event(F) F(vram_error_event, error) F(vram_error_event, context) F(vram_error_event, device) F(vram_error_event, pool) F(vram_error_event, bytes) F(vram_error_event, retries) F(vram_error_event, total) F(vram_error_event, recent)
#define CALL_FIELDS_vram_estimate(F) F(vram_estimate, fits) F(vram_estimate, context) F(vram_estimate, sequences) F(vram_estimate, micro_batch) F(vram_estimate, token_bytes) F(vram_estimate, weight_bytes) F(vram_estimate, kv_bytes) F(vram_estimate, compute_bytes) F(vram_estimate, overhead_bytes) F(vram_estimate, total_bytes) F(vram_estimate, layers_on_devices) F(vram_estimate, device_count) F(vram_estimate, devices) F(vram_estimate, host)
#define CALL_FIELDS_vram_estimate_options(F) F(vram_estimate_options, context) F(vram_estimate_options, sequences) F(vram_estimate_options, micro_batch) F(vram_estimate_options, layers) F(vram_estimate_options, k_type) F(vram_estimate_options, v_type) F(vram_estimate_options, no_flash_attention) F(vram_estimate_options, swa_full) F(vram_estimate_options, host_expert_layers) F(vram_estimate_options, activation_bytes) F(vram_estimate_options, outputs) F(vram_estimate_options, input) F(vram_estimate_options, devices) F(vram_estimate_options, device_count) F(vram_estimate_options, host_free_bytes)
#define CALL_FIELDS_vram_feed_options(F) F(vram_feed_options, slots) F(vram_feed_options, mode) F(vram_feed_options, priority) F(vram_feed_options, bytes)
#define CALL_FIELDS_vram_feed_stats(F) F(vram_feed_stats, submitted) F(vram_feed_stats, bytes) F(vram_feed_stats, stalls) F(vram_feed_stats, direct) F(vram_feed_stats, host_bytes) F(vram_feed_stats, pinned_bytes) F(vram_feed_stats, device_bytes)
#define CALL_FIELDS_vram_fit(F) F(vram_fit, context) F(vram_fit, layers)
#define CALL_FIELDS_vram_foreign_info(F) F(vram_foreign_info, id) F(vram_foreign_info, bytes) F(vram_foreign_info, counts) F(vram_foreign_info, tag) F(vram_foreign_info, since_ns) F(vram_foreign_info, name) F(vram_foreign_info, kind) F(vram_foreign_info, elements)
#define CALL_FIELDS_vram_foreign_options(F) F(vram_foreign_options, flags) F(vram_foreign_options, tag) F(vram_foreign_options, name) F(vram_foreign_options, kind) F(vram_foreign_options, elements)
#define CALL_FIELDS_vram_foreign_totals(F) F(vram_foreign_totals, count) F(vram_foreign_totals, bytes) F(vram_foreign_totals, counted_bytes) F(vram_foreign_totals, peak_bytes)
#define CALL_FIELDS_vram_fragmentation(F) F(vram_fragmentation, level) F(vram_fragmentation, scattered) F(vram_fragmentation, rare) F(vram_fragmentation, free_bytes) F(vram_fragmentation, largest_free_bytes) F(vram_fragmentation, cached_bytes) F(vram_fragmentation, rare_bytes) F(vram_fragmentation, types) F(vram_fragmentation, rare_types)
#define CALL_FIELDS_vram_growth(F) F(vram_growth, policy) F(vram_growth, factor_ppm) F(vram_growth, step_bytes) F(vram_growth, min_bytes) F(vram_growth, max_bytes) F(vram_growth, element_bytes)
#define CALL_FIELDS_vram_growth_info(F) F(vram_growth_info, growth) F(vram_growth_info, capacity_bytes) F(vram_growth_info, used_bytes) F(vram_growth_info, utilisation) F(vram_growth_info, in_place) F(vram_growth_info, copies) F(vram_growth_info, copied_bytes) F(vram_growth_info, refusals)
#define CALL_FIELDS_vram_health_info(F) F(vram_health_info, verdict) F(vram_health_info, pressure) F(vram_health_info, after) F(vram_health_info, cleaned) F(vram_health_info, released_bytes) F(vram_health_info, pools) F(vram_health_info, live_bytes) F(vram_health_info, cached_bytes) F(vram_health_info, reserved_bytes) F(vram_health_info, hit_rate) F(vram_health_info, fragmentation) F(vram_health_info, text)
#define CALL_FIELDS_vram_health_options(F) F(vram_health_options, warn) F(vram_health_options, emergency) F(vram_health_options, look_only)
#define CALL_FIELDS_vram_inference_memory(F) F(vram_inference_memory, parameters) F(vram_inference_memory, active_parameters) F(vram_inference_memory, model_bytes) F(vram_inference_memory, kv_bytes) F(vram_inference_memory, activation_bytes) F(vram_inference_memory, total_bytes) F(vram_inference_memory, total_gb) F(vram_inference_memory, model_mb) F(vram_inference_memory, kv_mb) F(vram_inference_memory, activation_mb)
#define CALL_FIELDS_vram_inference_shape(F) F(vram_inference_shape, hidden) F(vram_inference_shape, intermediate) F(vram_inference_shape, layers) F(vram_inference_shape, vocabulary) F(vram_inference_shape, heads) F(vram_inference_shape, kv_heads) F(vram_inference_shape, tokens) F(vram_inference_shape, element_bytes) F(vram_inference_shape, experts) F(vram_inference_shape, shared_experts) F(vram_inference_shape, experts_used) F(vram_inference_shape, expert_intermediate) F(vram_inference_shape, first_expert_layer)
#define CALL_FIELDS_vram_kernel_source(F) F(vram_kernel_source, format) F(vram_kernel_source, code) F(vram_kernel_source, code_bytes) F(vram_kernel_source, entry)
#define CALL_FIELDS_vram_labels_info(F) F(vram_labels_info, hits) F(vram_labels_info, misses) F(vram_labels_info, hit_rate) F(vram_labels_info, entries) F(vram_labels_info, bytes) F(vram_labels_info, evictions) F(vram_labels_info, unkept) F(vram_labels_info, entries_max) F(vram_labels_info, bytes_max)
#define CALL_FIELDS_vram_labels_options(F) F(vram_labels_options, entries) F(vram_labels_options, max_bytes)
#define CALL_FIELDS_vram_ladder_options(F) F(vram_ladder_options, steps) F(vram_ladder_options, fallback) F(vram_ladder_options, wait_ns)
#define CALL_FIELDS_vram_launch(F) F(vram_launch, groups) F(vram_launch, group_size) F(vram_launch, argument_count) F(vram_launch, arguments) F(vram_launch, argument_bytes) F(vram_launch, address_mask)
#define CALL_FIELDS_vram_leak_summary(F) F(vram_leak_summary, blocks) F(vram_leak_summary, bytes) F(vram_leak_summary, groups) F(vram_leak_summary, suppressed_blocks) F(vram_leak_summary, suppressed_bytes) F(vram_leak_summary, lost_records) F(vram_leak_summary, foreign_blocks) F(vram_leak_summary, foreign_bytes)
#define CALL_FIELDS_vram_lease_event(F) F(vram_lease_event, lease) F(vram_lease_event, device) F(vram_lease_event, bytes) F(vram_lease_event, left_ns) F(vram_lease_event, process) F(vram_lease_event, name) F(vram_lease_event, priority) F(vram_lease_event, at_point)
#define CALL_FIELDS_vram_lease_info(F) F(vram_lease_info, granted_bytes) F(vram_lease_info, held_bytes) F(vram_lease_info, min_bytes) F(vram_lease_info, want_bytes) F(vram_lease_info, priority) F(vram_lease_info, connected) F(vram_lease_info, broker) F(vram_lease_info, brokers) F(vram_lease_info, asked_bytes) F(vram_lease_info, requests) F(vram_lease_info, refusals) F(vram_lease_info, revocations) F(vram_lease_info, given_bytes) F(vram_lease_info, got_bytes) F(vram_lease_info, waited_ns)
#define CALL_FIELDS_vram_lease_options(F) F(vram_lease_options, min_bytes) F(vram_lease_options, want_bytes) F(vram_lease_options, priority) F(vram_lease_options, flags) F(vram_lease_options, revoke) F(vram_lease_options, user) F(vram_lease_options, timeout_ns) F(vram_lease_options, capacity_bytes) F(vram_lease_options, name) F(vram_lease_options, dir)
#define CALL_FIELDS_vram_limits(F) F(vram_limits, fraction) F(vram_limits, min_free_bytes) F(vram_limits, hard_bytes) F(vram_limits, cached_bytes) F(vram_limits, cached_blocks) F(vram_limits, tracking) F(vram_limits, cpu_fallback)
#define CALL_FIELDS_vram_live_block(F) F(vram_live_block, id) F(vram_live_block, pool) F(vram_live_block, device) F(vram_live_block, queue) F(vram_live_block, addr) F(vram_live_block, requested_bytes) F(vram_live_block, held_bytes) F(vram_live_block, elements) F(vram_live_block, kind) F(vram_live_block, stack) F(vram_live_block, thread) F(vram_live_block, created_ns) F(vram_live_block, age_ns) F(vram_live_block, tag) F(vram_live_block, name) F(vram_live_block, foreign)
#define CALL_FIELDS_vram_live_group(F) F(vram_live_group, tag) F(vram_live_group, stack) F(vram_live_group, queue) F(vram_live_group, live_blocks) F(vram_live_group, live_bytes) F(vram_live_group, peak_blocks) F(vram_live_group, peak_bytes) F(vram_live_group, foreign_blocks) F(vram_live_group, foreign_bytes)
#define CALL_FIELDS_vram_live_query(F) F(vram_live_query, pool) F(vram_live_query, device) F(vram_live_query, context) F(vram_live_query, tag) F(vram_live_query, older_ns) F(vram_live_query, stack) F(vram_live_query, most) F(vram_live_query, order)
#define CALL_FIELDS_vram_live_stats(F) F(vram_live_stats, pools) F(vram_live_stats, live_blocks) F(vram_live_stats, live_bytes) F(vram_live_stats, held_bytes) F(vram_live_stats, peak_bytes) F(vram_live_stats, peak_blocks) F(vram_live_stats, peak_ns) F(vram_live_stats, allocs) F(vram_live_stats, frees) F(vram_live_stats, resizes) F(vram_live_stats, lost_records) F(vram_live_stats, record_bytes) F(vram_live_stats, metadata_bytes) F(vram_live_stats, foreign_blocks) F(vram_live_stats, foreign_bytes)
#define CALL_FIELDS_vram_matmul(F) F(vram_matmul, m) F(vram_matmul, k) F(vram_matmul, n) F(vram_matmul, a) F(vram_matmul, b) F(vram_matmul, c) F(vram_matmul, a_elements) F(vram_matmul, b_elements) F(vram_matmul, c_elements) F(vram_matmul, a_addr) F(vram_matmul, b_addr) F(vram_matmul, c_addr) F(vram_matmul, weights) F(vram_matmul, precision) F(vram_matmul, flags) F(vram_matmul, place) F(vram_matmul, queue)
#define CALL_FIELDS_vram_matmul_plan(F) F(vram_matmul_plan, place) F(vram_matmul_plan, reason) F(vram_matmul_plan, tile_m) F(vram_matmul_plan, tile_n) F(vram_matmul_plan, tiles) F(vram_matmul_plan, device_bytes)
#define CALL_FIELDS_vram_memory_info(F) F(vram_memory_info, total_bytes) F(vram_memory_info, free_bytes) F(vram_memory_info, held_bytes) F(vram_memory_info, held_peak_bytes) F(vram_memory_info, held_count) F(vram_memory_info, driver_calls) F(vram_memory_info, lost)
#define CALL_FIELDS_vram_metal_adoption(F) F(vram_metal_adoption, device)
#define CALL_FIELDS_vram_metrics_source(F) F(vram_metrics_source, page) F(vram_metrics_source, devices) F(vram_metrics_source, pools) F(vram_metrics_source, tags)
#define CALL_FIELDS_vram_model(F) F(vram_model, format) F(vram_model, architecture) F(vram_model, name) F(vram_model, weight_type) F(vram_model, quantization) F(vram_model, family_known) F(vram_model, tied) F(vram_model, kv_known) F(vram_model, kv_guessed) F(vram_model, files) F(vram_model, layer_count) F(vram_model, missing_files) F(vram_model, tensors) F(vram_model, context_most) F(vram_model, hidden) F(vram_model, vocabulary) F(vram_model, heads) F(vram_model, kv_heads) F(vram_model, head_elements) F(vram_model, intermediate) F(vram_model, experts) F(vram_model, experts_used) F(vram_model, parameters) F(vram_model, active_parameters) F(vram_model, tower_parameters) F(vram_model, weight_bytes) F(vram_model, input_bytes) F(vram_model, output_bytes) F(vram_model, other_bytes) F(vram_model, projector_bytes) F(vram_model, layers) F(vram_model, defaults)
#define CALL_FIELDS_vram_model_place(F) F(vram_model_place, backend) F(vram_model_place, backend_index) F(vram_model_place, device) F(vram_model_place, bytes)
#define CALL_FIELDS_vram_model_read_options(F) F(vram_model_read_options, weight_type) F(vram_model_read_options, projector)
#define CALL_FIELDS_vram_model_select_options(F) F(vram_model_select_options, shape) F(vram_model_select_options, bytes) F(vram_model_select_options, order)
#define CALL_FIELDS_vram_monitor_options(F) F(vram_monitor_options, interval_ns) F(vram_monitor_options, maintain_ns)
#define CALL_FIELDS_vram_named_config(F) F(vram_named_config, kind) F(vram_named_config, precision) F(vram_named_config, growth)
#define CALL_FIELDS_vram_named_info(F) F(vram_named_info, name) F(vram_named_info, buffer) F(vram_named_info, kind) F(vram_named_info, precision) F(vram_named_info, capacity_bytes) F(vram_named_info, used_bytes) F(vram_named_info, utilisation) F(vram_named_info, resizes) F(vram_named_info, created_ns) F(vram_named_info, accessed_ns)
#define CALL_FIELDS_vram_named_options(F) F(vram_named_options, limit_bytes) F(vram_named_options, tag)
#define CALL_FIELDS_vram_named_stats(F) F(vram_named_stats, buffers) F(vram_named_stats, total_bytes) F(vram_named_stats, used_bytes) F(vram_named_stats, peak_bytes) F(vram_named_stats, limit_bytes) F(vram_named_stats, created) F(vram_named_stats, removed) F(vram_named_stats, resizes) F(vram_named_stats, refusals)
#define CALL_FIELDS_vram_native_info(F) F(vram_native_info, device) F(vram_native_info, kind) F(vram_native_info, base) F(vram_native_info, bytes) F(vram_native_info, offset) F(vram_native_info, handle) F(vram_native_info, device_address) F(vram_native_info, host_pointer)
#define CALL_FIELDS_vram_oom_event(F) F(vram_oom_event, device) F(vram_oom_event, pool) F(vram_oom_event, bytes) F(vram_oom_event, status) F(vram_oom_event, nesting)
#define CALL_FIELDS_vram_oom_report(F) F(vram_oom_report, number) F(vram_oom_report, status) F(vram_oom_report, cause) F(vram_oom_report, summary) F(vram_oom_report, advice) F(vram_oom_report, error) F(vram_oom_report, pool) F(vram_oom_report, pool_name) F(vram_oom_report, device_name) F(vram_oom_report, tag) F(vram_oom_report, queue) F(vram_oom_report, asked_bytes) F(vram_oom_report, needed_bytes) F(vram_oom_report, alignment) F(vram_oom_report, total_bytes) F(vram_oom_report, free_bytes) F(vram_oom_report, process_bytes) F(vram_oom_report, others_bytes) F(vram_oom_report, processes_bytes) F(vram_oom_report, limit_bytes) F(vram_oom_report, limit_name) F(vram_oom_report, quota_tag) F(vram_oom_report, quota_bytes) F(vram_oom_report, quota_used_bytes) F(vram_oom_report, reserved_bytes) F(vram_oom_report, live_bytes) F(vram_oom_report, asleep_bytes) F(vram_oom_report, rounding_bytes) F(vram_oom_report, cached_bytes) F(vram_oom_report, unused_bytes) F(vram_oom_report, largest_bytes) F(vram_oom_report, elsewhere_bytes) F(vram_oom_report, spare_bytes) F(vram_oom_report, lost_bytes) F(vram_oom_report, pending_bytes) F(vram_oom_report, pinned_bytes) F(vram_oom_report, fallback_bytes) F(vram_oom_report, stranded_bytes) F(vram_oom_report, queue_count) F(vram_oom_report, pool_count) F(vram_oom_report, holder_count) F(vram_oom_report, step_count) F(vram_oom_report, queues) F(vram_oom_report, pools) F(vram_oom_report, holders) F(vram_oom_report, steps) F(vram_oom_report, address_bytes) F(vram_oom_report, longest_bytes) F(vram_oom_report, integrated) F(vram_oom_report, lease_bytes) F(vram_oom_report, lease_reason) F(vram_oom_report, lender_count) F(vram_oom_report, lenders) F(vram_oom_report, reader_count) F(vram_oom_report, shared_bytes) F(vram_oom_report, readers)
#define CALL_FIELDS_vram_opencl_adoption(F) F(vram_opencl_adoption, context) F(vram_opencl_adoption, device)
#define CALL_FIELDS_vram_peaks(F) F(vram_peaks, requested_bytes) F(vram_peaks, allocated_bytes) F(vram_peaks, reserved_bytes)
#define CALL_FIELDS_vram_pinned_info(F) F(vram_pinned_info, slot_bytes) F(vram_pinned_info, slots) F(vram_pinned_info, slots_busy) F(vram_pinned_info, slots_most) F(vram_pinned_info, workers) F(vram_pinned_info, workers_most) F(vram_pinned_info, uploads) F(vram_pinned_info, upload_bytes) F(vram_pinned_info, downloads) F(vram_pinned_info, download_bytes) F(vram_pinned_info, chunks) F(vram_pinned_info, plain) F(vram_pinned_info, plain_bytes) F(vram_pinned_info, refusals) F(vram_pinned_info, waits) F(vram_pinned_info, entries) F(vram_pinned_info, entries_used) F(vram_pinned_info, entry_bytes) F(vram_pinned_info, hits) F(vram_pinned_info, misses) F(vram_pinned_info, evictions)
#define CALL_FIELDS_vram_pool_options(F) F(vram_pool_options, flags) F(vram_pool_options, provider) F(vram_pool_options, range_bytes) F(vram_pool_options, slack_bytes) F(vram_pool_options, name) F(vram_pool_options, limits) F(vram_pool_options, response) F(vram_pool_options, quarantine_bytes) F(vram_pool_options, kind)
#define CALL_FIELDS_vram_pool_stats(F) F(vram_pool_stats, requested_bytes) F(vram_pool_stats, allocated_bytes) F(vram_pool_stats, cached_bytes) F(vram_pool_stats, reserved_bytes) F(vram_pool_stats, peak_requested_bytes) F(vram_pool_stats, peak_allocated_bytes) F(vram_pool_stats, peak_reserved_bytes) F(vram_pool_stats, live_blocks) F(vram_pool_stats, allocs) F(vram_pool_stats, frees) F(vram_pool_stats, hits) F(vram_pool_stats, misses) F(vram_pool_stats, cache_hits) F(vram_pool_stats, returns) F(vram_pool_stats, cache_returns) F(vram_pool_stats, moved_handles) F(vram_pool_stats, moved_bytes) F(vram_pool_stats, move_ns) F(vram_pool_stats, spare_handles) F(vram_pool_stats, driver_creates) F(vram_pool_stats, driver_releases) F(vram_pool_stats, driver_maps) F(vram_pool_stats, driver_unmaps) F(vram_pool_stats, driver_accesses) F(vram_pool_stats, driver_allocs) F(vram_pool_stats, driver_frees) F(vram_pool_stats, driver_markers) F(vram_pool_stats, metadata_bytes) F(vram_pool_stats, thread_cache_bytes) F(vram_pool_stats, hit_rate) F(vram_pool_stats, rounding_bytes) F(vram_pool_stats, active_buffers) F(vram_pool_stats, peak_scopes) F(vram_pool_stats, budget_bytes) F(vram_pool_stats, refusals) F(vram_pool_stats, limit_refusals) F(vram_pool_stats, quota_refusals) F(vram_pool_stats, quota_crossings) F(vram_pool_stats, fallbacks) F(vram_pool_stats, fallback_bytes) F(vram_pool_stats, ladder_runs) F(vram_pool_stats, ladder_steps) F(vram_pool_stats, ladder_bytes) F(vram_pool_stats, ladder_rescues) F(vram_pool_stats, response_steps) F(vram_pool_stats, response_bytes) F(vram_pool_stats, rises) F(vram_pool_stats, falls) F(vram_pool_stats, cleanups) F(vram_pool_stats, cleaned_bytes) F(vram_pool_stats, last_cleanup_ns) F(vram_pool_stats, sleeps) F(vram_pool_stats, wakes) F(vram_pool_stats, asleep_bytes) F(vram_pool_stats, asleep_host_bytes) F(vram_pool_stats, quarantine_bytes) F(vram_pool_stats, damaged_blocks) F(vram_pool_stats, other_bytes) F(vram_pool_stats, promotions) F(vram_pool_stats, promoted_bytes) F(vram_pool_stats, demotions) F(vram_pool_stats, demoted_bytes) F(vram_pool_stats, unchecked_blocks) F(vram_pool_stats, sealed_bytes) F(vram_pool_stats, shared_bytes)
#define CALL_FIELDS_vram_pressure(F) F(vram_pressure, level) F(vram_pressure, known) F(vram_pressure, value) F(vram_pressure, own_known) F(vram_pressure, own) F(vram_pressure, device_known) F(vram_pressure, device) F(vram_pressure, reserved_bytes) F(vram_pressure, limit_bytes) F(vram_pressure, free_bytes) F(vram_pressure, total_bytes)
#define CALL_FIELDS_vram_pressure_event(F) F(vram_pressure_event, edge) F(vram_pressure_event, up) F(vram_pressure_event, level) F(vram_pressure_event, last) F(vram_pressure_event, value) F(vram_pressure_event, threshold) F(vram_pressure_event, device) F(vram_pressure_event, pool)
#define CALL_FIELDS_vram_provider(F) F(vram_provider, user) F(vram_provider, alloc) F(vram_provider, free) F(vram_provider, granule)
#define CALL_FIELDS_vram_queue_options(F) F(vram_queue_options, priority)
#define CALL_FIELDS_vram_readback_options(F) F(vram_readback_options, slots) F(vram_readback_options, mode) F(vram_readback_options, policy) F(vram_readback_options, priority) F(vram_readback_options, bytes)
#define CALL_FIELDS_vram_readback_stats(F) F(vram_readback_stats, started) F(vram_readback_stats, arrived) F(vram_readback_stats, failed) F(vram_readback_stats, dropped) F(vram_readback_stats, refused) F(vram_readback_stats, held) F(vram_readback_stats, bytes) F(vram_readback_stats, host_bytes) F(vram_readback_stats, pinned_bytes) F(vram_readback_stats, device_bytes)
#define CALL_FIELDS_vram_rebuild_options(F) F(vram_rebuild_options, bytes)
#define CALL_FIELDS_vram_rebuild_result(F) F(vram_rebuild_result, won_bytes) F(vram_rebuild_result, copied_bytes) F(vram_rebuild_result, handles)
#define CALL_FIELDS_vram_remote_info(F) F(vram_remote_info, version) F(vram_remote_info, shared_memory) F(vram_remote_info, device_direct) F(vram_remote_info, peers) F(vram_remote_info, regions) F(vram_remote_info, handles) F(vram_remote_info, registrations) F(vram_remote_info, put_bytes) F(vram_remote_info, get_bytes) F(vram_remote_info, shared_bytes) F(vram_remote_info, direct_bytes) F(vram_remote_info, served_bytes) F(vram_remote_info, staged_bytes) F(vram_remote_info, failures) F(vram_remote_info, refused)
#define CALL_FIELDS_vram_remote_options(F) F(vram_remote_options, flags) F(vram_remote_options, transports) F(vram_remote_options, interfaces) F(vram_remote_options, timeout_ns) F(vram_remote_options, chunk_bytes) F(vram_remote_options, slots)
#define CALL_FIELDS_vram_remote_region_options(F) F(vram_remote_region_options, flags)
#define CALL_FIELDS_vram_remote_transfer(F) F(vram_remote_transfer, queue) F(vram_remote_transfer, timeout_ns) F(vram_remote_transfer, after) F(vram_remote_transfer, mark)
#define CALL_FIELDS_vram_response_options(F) F(vram_response_options, off) F(vram_response_options, emergency) F(vram_response_options, hysteresis) F(vram_response_options, interval_ns) F(vram_response_options, decay_ns)
#define CALL_FIELDS_vram_ring_info(F) F(vram_ring_info, control) F(vram_ring_info, bytes) F(vram_ring_info, strategy) F(vram_ring_info, visibility) F(vram_ring_info, live) F(vram_ring_info, flags) F(vram_ring_info, input_capacity) F(vram_ring_info, output_capacity) F(vram_ring_info, message_bytes) F(vram_ring_info, poll_ns) F(vram_ring_info, queue) F(vram_ring_info, reason)
#define CALL_FIELDS_vram_ring_options(F) F(vram_ring_options, strategy) F(vram_ring_options, flags) F(vram_ring_options, input_capacity) F(vram_ring_options, output_capacity) F(vram_ring_options, message_bytes) F(vram_ring_options, visibility) F(vram_ring_options, poll_ns) F(vram_ring_options, queue) F(vram_ring_options, kernel_text)
#define CALL_FIELDS_vram_ring_stats(F) F(vram_ring_stats, host_to_device_count) F(vram_ring_stats, device_to_host_count) F(vram_ring_stats, sent) F(vram_ring_stats, received) F(vram_ring_stats, taken) F(vram_ring_stats, copies) F(vram_ring_stats, copied_bytes) F(vram_ring_stats, words) F(vram_ring_stats, full_waits) F(vram_ring_stats, empty_waits) F(vram_ring_stats, crc_errors) F(vram_ring_stats, kernel_errors) F(vram_ring_stats, stopped) F(vram_ring_stats, corrupt) F(vram_ring_stats, has_terminated)
#define CALL_FIELDS_vram_scheduler_options(F) F(vram_scheduler_options, place) F(vram_scheduler_options, flags) F(vram_scheduler_options, threshold) F(vram_scheduler_options, queues) F(vram_scheduler_options, cpu_threads) F(vram_scheduler_options, device_bytes) F(vram_scheduler_options, calibration)
#define CALL_FIELDS_vram_scheduler_stats(F) F(vram_scheduler_stats, products) F(vram_scheduler_stats, cpu_products) F(vram_scheduler_stats, device_products) F(vram_scheduler_stats, cpu_fallbacks) F(vram_scheduler_stats, failures) F(vram_scheduler_stats, tiles) F(vram_scheduler_stats, uploads) F(vram_scheduler_stats, uploaded_bytes) F(vram_scheduler_stats, downloads) F(vram_scheduler_stats, downloaded_bytes) F(vram_scheduler_stats, hits) F(vram_scheduler_stats, misses) F(vram_scheduler_stats, hit_rate) F(vram_scheduler_stats, shared_operands) F(vram_scheduler_stats, shrinks) F(vram_scheduler_stats, pending) F(vram_scheduler_stats, threshold) F(vram_scheduler_stats, calibrated) F(vram_scheduler_stats, last_place) F(vram_scheduler_stats, last_reason) F(vram_scheduler_stats, weights) F(vram_scheduler_stats, weight_bytes) F(vram_scheduler_stats, cpu_arithmetic) F(vram_scheduler_stats, device_arithmetic) F(vram_scheduler_stats, pool_hits) F(vram_scheduler_stats, pool_misses) F(vram_scheduler_stats, pool_reserved_bytes) F(vram_scheduler_stats, pool_driver_allocs)
#define CALL_FIELDS_vram_scope_info(F) F(vram_scope_info, pool) F(vram_scope_info, parent) F(vram_scope_info, blocks) F(vram_scope_info, bytes) F(vram_scope_info, buffers) F(vram_scope_info, scopes)
#define CALL_FIELDS_vram_select_options(F) F(vram_select_options, bytes) F(vram_select_options, order)
#define CALL_FIELDS_vram_share_info(F) F(vram_share_info, exported) F(vram_share_info, read_only) F(vram_share_info, alive) F(vram_share_info, parts) F(vram_share_info, handles) F(vram_share_info, bytes) F(vram_share_info, version) F(vram_share_info, reader_count) F(vram_share_info, readers)
#define CALL_FIELDS_vram_share_options(F) F(vram_share_options, flags) F(vram_share_options, user) F(vram_share_options, dir) F(vram_share_options, timeout_ns)
#define CALL_FIELDS_vram_sim_fault(F) F(vram_sim_fault, call) F(vram_sim_fault, nth) F(vram_sim_fault, for_ever) F(vram_sim_fault, code) F(vram_sim_fault, lie)
#define CALL_FIELDS_vram_sim_state(F) F(vram_sim_state, calls) F(vram_sim_state, faults) F(vram_sim_state, violations) F(vram_sim_state, live_bytes) F(vram_sim_state, live_handles) F(vram_sim_state, clock_ns)
#define CALL_FIELDS_vram_sleep_options(F) F(vram_sleep_options, contents) F(vram_sleep_options, tag)
#define CALL_FIELDS_vram_stream_info(F) F(vram_stream_info, index) F(vram_stream_info, priority) F(vram_stream_info, queue) F(vram_stream_info, turns) F(vram_stream_info, name)
#define CALL_FIELDS_vram_stream_set_options(F) F(vram_stream_set_options, count) F(vram_stream_set_options, streams)
#define CALL_FIELDS_vram_tag_event(F) F(vram_tag_event, device) F(vram_tag_event, tag) F(vram_tag_event, used_bytes) F(vram_tag_event, soft_bytes) F(vram_tag_event, hard_bytes)
#define CALL_FIELDS_vram_tag_info(F) F(vram_tag_info, name) F(vram_tag_info, used_bytes) F(vram_tag_info, own_bytes) F(vram_tag_info, requested_bytes) F(vram_tag_info, peak_bytes) F(vram_tag_info, live_blocks) F(vram_tag_info, allocs) F(vram_tag_info, soft_bytes) F(vram_tag_info, hard_bytes) F(vram_tag_info, crossings) F(vram_tag_info, refusals)
#define CALL_FIELDS_vram_trace_info(F) F(vram_trace_info, events) F(vram_trace_info, lost_events) F(vram_trace_info, file_bytes) F(vram_trace_info, stopped) F(vram_trace_info, path)
#define CALL_FIELDS_vram_trace_options(F) F(vram_trace_options, path) F(vram_trace_options, ring_bytes) F(vram_trace_options, sample_ns)
#define CALL_FIELDS_vram_transfer_options(F) F(vram_transfer_options, strategy) F(vram_transfer_options, poll_ns) F(vram_transfer_options, timeout_ns)
#define CALL_FIELDS_vram_transfer_stats(F) F(vram_transfer_stats, started) F(vram_transfer_stats, operations) F(vram_transfer_stats, failures) F(vram_transfer_stats, bytes) F(vram_transfer_stats, busy_ns) F(vram_transfer_stats, waited_ns) F(vram_transfer_stats, stalls) F(vram_transfer_stats, stall_ns) F(vram_transfer_stats, latency_ns) F(vram_transfer_stats, min_latency_ns) F(vram_transfer_stats, max_latency_ns) F(vram_transfer_stats, bytes_per_second) F(vram_transfer_stats, overlap) F(vram_transfer_stats, histogram)
#define CALL_FIELDS_vram_trim_options(F) F(vram_trim_options, flags) F(vram_trim_options, keep_bytes) F(vram_trim_options, idle_ns) F(vram_trim_options, interval_ns)
#define CALL_FIELDS_vram_vulkan_adoption(F) F(vram_vulkan_adoption, get_proc) F(vram_vulkan_adoption, instance) F(vram_vulkan_adoption, physical_device) F(vram_vulkan_adoption, device) F(vram_vulkan_adoption, addresses) F(vram_vulkan_adoption, queues) F(vram_vulkan_adoption, queue_count)
#define CALL_FIELDS_vram_watch_options(F) F(vram_watch_options, call) F(vram_watch_options, user) F(vram_watch_options, edges) F(vram_watch_options, warn) F(vram_watch_options, emergency) F(vram_watch_options, hysteresis)
#define CALL_FIELDS_vram_weights_options(F) F(vram_weights_options, k) F(vram_weights_options, n) F(vram_weights_options, b) F(vram_weights_options, b_elements) F(vram_weights_options, precision) F(vram_weights_options, flags)
#define CALL_FIELDS_vram_wrap(F) F(vram_wrap, kind) F(vram_wrap, pointer) F(vram_wrap, address) F(vram_wrap, bytes) F(vram_wrap, offset)

#endif
