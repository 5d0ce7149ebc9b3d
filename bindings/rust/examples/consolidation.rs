// SPDX-License-Identifier: Apache-2.0
//! consolidation.rs: tracking, growth, and transfers that overlap other work, in one manager: the code of document S3.
//! Its blocks are lists of types; here each shows what such a type is for.
//!
//! cargo run --example consolidation --features compute
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use vram::compute::Labels;
use vram::{
    BufferOptions, Context, Device, Error, ErrorAnswer, Growth, GrowthPolicy, Limits, Named,
    NamedConfig, NamedOptions, Pool, PoolOptions, Precision, Queue, Readback, ReadbackOptions,
    ReadbackPolicy, ReportFormat, StreamSet, COMPUTE, MEMORY,
};

const MIB: u64 = 1 << 20;
const WAIT: Duration = Duration::from_secs(60);

fn tracked(device: &Device) -> vram::Result<Pool> {
    device.pool_with(&PoolOptions { tracked: true, ..PoolOptions::default() })
}

/// Dense labels for those with gaps: 3, 17, 3, 40 become 0, 1, 0, 2.
fn compact(labels: &[i32], mapping: &mut [i32]) -> vram::Result<usize> {
    let mut seen: Vec<i32> = Vec::new();
    for (label, place) in labels.iter().zip(mapping) {
        let at = seen.iter().position(|known| known == label).unwrap_or_else(|| {
            seen.push(*label);
            seen.len() - 1
        });
        *place = at as i32;
    }
    Ok(labels.len())
}

fn memory_tracking(device: &Device, queue: &Queue) -> vram::Result<()> {
    // ManagedDeviceBuffer<T>: a wrapper with tracking. GPUMemoryTracker: what was never freed.
    let pool = tracked(device)?;
    drop(pool.buffer(queue, 4096)?);
    let named = BufferOptions { name: Some("node_positions"), ..BufferOptions::default() };
    let forgotten = pool.buffer_with(queue, MIB, &named)?;
    assert!(pool.leaks(ReportFormat::Text)?.contains("node_positions"));
    assert_eq!(pool.live_stats()?.live_blocks, 1);
    drop(forgotten);
    assert_eq!(pool.live_stats()?.live_blocks, 0);

    // MultiStreamManager: three non-blocking streams, in turn.
    let streams = device.streams()?;
    let turn: Vec<_> = (0..4).map(|_| streams.next().map(|queue| queue.raw())).collect();
    let turn = turn.into_iter().collect::<vram::Result<Vec<_>>>()?;
    assert!(turn[0] != turn[1] && turn[1] != turn[2] && turn[2] != turn[0] && turn[3] == turn[0]);
    streams.wait_for(WAIT)?;

    // LabelMappingCache: computed once.
    let cache = Labels::new(0, 0)?;
    for _ in 0..2 {
        assert_eq!(cache.get(&[3, 17, 3, 40], 4, compact)?, [0, 1, 0, 2]);
    }
    let info = cache.info()?;
    assert_eq!((info.hits, info.misses, info.hit_rate), (1, 1, 0.5));
    Ok(())
}

/// BufferConfig: a growth strategy for each type of buffer. Elements are three floats.
fn positions() -> NamedConfig {
    NamedConfig {
        precision: Precision::Fp32,
        growth: Some(Growth {
            min_bytes: 4096,
            max_bytes: 512 * MIB,
            element_bytes: 12,
            ..Growth::new(GrowthPolicy::FactorPpm(1_300_000))
        }),
        ..NamedConfig::default()
    }
}

fn dynamic_allocation(pool: &Pool, queue: &Queue) -> vram::Result<()> {
    // DynamicBufferManager, with the limit of the document; DynamicGpuBuffer: contents stay.
    let limit = NamedOptions { limit_bytes: 6 << 30, ..NamedOptions::default() };
    let manager = pool.named(queue, &limit)?;
    let before: Vec<f32> = (0..300).map(|i| i as f32 / 7.0).collect();
    manager.add("positions", 100, Some(&positions()))?.upload(&before)?;
    manager.ensure("positions", 100_000)?; // old and new may coexist
    let after = manager.get("positions")?.download::<f32>()?;
    assert_eq!(after[..300], before[..]);

    // BufferStats: utilisation.
    let info = manager.info("positions")?;
    assert!(info.used_bytes == 1_200_000 && info.utilisation > 0.7 && info.utilisation <= 1.0);
    assert_eq!(info.resizes, 1);
    Ok(())
}

/// transfer_stream, transfer_events, host_pos_buffer_a and _b, current_pos_buffer: a readback has them all, and its
/// slots are page-locked, so that the copies are asynchronous as in the document.
fn async_transfers(device: &Device, pool: &Pool, queue: &Queue) -> vram::Result<()> {
    const FRAMES: u8 = 8;
    let every = ReadbackOptions { policy: ReadbackPolicy::Every, ..ReadbackOptions::default() };
    let readback = device.readback(&every)?;
    let mut positions = pool.buffer(queue, 4096)?;
    let mut slots = 0;
    for step in 1..=FRAMES + 1 {
        if step <= FRAMES {
            positions.fill(step)?; // simulate
            readback.start(&[&positions])?; // into one host buffer,
        }
        if step > 1 {
            // while the host reads the other
            let frame = readback.next(WAIT)?.expect("one was started");
            assert_eq!(frame.number(), u64::from(step) - 1);
            assert!(frame.iter().all(|byte| *byte == step - 1));
            slots |= 1 << frame.slot();
        }
    }
    let stats = readback.stats()?;
    assert_eq!((stats.arrived, stats.dropped, slots), (u64::from(FRAMES), 0, 3)); // a and b in turn
    Ok(())
}

/// The document's GpuMemoryManager.
struct GpuMemoryManager {
    buffers: Named,         // buffers, configs: by name
    pool: Pool,             // allocations, total_allocated, peak_allocated, max_total_memory
    streams: StreamSet,     // transfer_stream, transfer_events
    readback: Readback,     // the host buffers of its GpuBuffers
    errors: Arc<AtomicU64>, // of the error_handler
}

impl GpuMemoryManager {
    fn new(device: &Device, queue: &Queue) -> vram::Result<GpuMemoryManager> {
        let pool = tracked(device)?;
        let errors = Arc::new(AtomicU64::new(0));
        let counted = errors.clone();
        device.context().on_error(move |event| {
            println!("error handler: {} for {} bytes", event.error.name(), event.bytes);
            counted.fetch_add(1, Ordering::Relaxed);
            ErrorAnswer::Fail
        })?;
        Ok(GpuMemoryManager {
            buffers: pool.named(queue, &NamedOptions::default())?,
            streams: device.streams()?,
            readback: device.readback(&ReadbackOptions::default())?,
            pool,
            errors,
        })
    }
}

fn proposed_structure(device: &Device, queue: &Queue) -> vram::Result<()> {
    let manager = GpuMemoryManager::new(device, queue)?;
    let edges = Growth {
        min_bytes: 8192,
        max_bytes: 2 << 30,
        element_bytes: 32,
        ..Growth::new(GrowthPolicy::FactorPpm(2_000_000))
    };
    let config = NamedConfig { growth: Some(edges), ..NamedConfig::default() };
    manager.buffers.set_config("edges", &config)?;
    let mut edges = manager.buffers.add("edges", 1000, None)?;

    // allocations, total_allocated, peak_allocated.
    let live = manager.pool.live(Duration::ZERO)?;
    assert!(live.len() == 1 && live[0].name == "edges" && live[0].bytes >= 32_000);
    let stats = manager.pool.stats()?;
    assert!(stats.requested_bytes == live[0].bytes && stats.peak_requested_bytes >= live[0].bytes);

    // transfer_stream, transfer_events.
    let transfer = manager.streams.transfer()?;
    edges.fill(7)?;
    transfer.after(queue.mark()?)?;
    let events = [transfer.mark()?, transfer.mark()?];
    queue.after(events[1])?;
    events[1].wait_for(WAIT)?;
    assert!(events[0].has_passed()?);
    manager.streams.order(COMPUTE, MEMORY)?;

    // error_handler, max_total_memory, performance_metrics.
    manager.pool.set_limits(&Limits::new().hard_bytes(8 * MIB))?;
    let refused = manager.pool.alloc(queue, 16 * MIB).map(drop);
    assert!(matches!(refused, Err(Error::Limit(_))));
    assert_eq!(manager.errors.load(Ordering::Relaxed), 1);
    device.context().clear_error_handler()?;
    println!("{} transfers so far", device.transfer_stats()?.operations);

    // GpuBuffer: ptr, capacity_bytes, used_bytes, name; allocation_time, last_access.
    let info = edges.info()?;
    assert!(edges.addr()? != 0 && info.capacity_bytes >= info.used_bytes);
    assert_eq!((info.used_bytes, &info.name[..]), (32_000, "edges"));
    assert!(info.accessed_ns >= info.created_ns);

    // host_buffer_a, host_buffer_b, current_buffer, transfer_pending.
    let number = manager.readback.start(&[&edges])?;
    while !manager.readback.has_arrived(number)? {
        thread::yield_now(); // transfer_pending
    }
    let frame = manager.readback.latest()?.expect("it has arrived");
    assert_eq!((frame.len(), frame[31_999]), (32_000, 7));
    Ok(())
}

/// The rows of the comparison, on one manager.
fn comparison(device: &Device, queue: &Queue) -> vram::Result<()> {
    let pool = tracked(device)?;
    let limit = NamedOptions { limit_bytes: 4 * MIB, ..NamedOptions::default() };
    let manager = pool.named(queue, &limit)?;
    let sent: Vec<f32> = (0..256).map(|i| i as f32).collect();
    manager.add("nodes", 4096, None)?.upload(&sent)?;

    // Dynamic resizing, thread safety.
    thread::scope(|scope| {
        let grow = || (1..=100).try_for_each(|i| manager.ensure("nodes", i * 100));
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(grow)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;

    // Async transfers.
    let nodes = manager.get("nodes")?;
    let download = nodes.download_async::<u8>()?;
    let first = f32::to_ne_bytes(sent[255]);
    assert_eq!(download.wait()?[1020..1024], first);

    // Memory limits, error handling: it names the limit.
    drop(nodes);
    let refused = manager.ensure("nodes", 5 * MIB).expect_err("more than 4 MiB");
    assert!(matches!(&refused, Error::Limit(detail) if detail.text.contains("limit_bytes")));

    // Utilisation, metrics.
    let stats = manager.stats()?;
    assert!(stats.used_bytes == 10_000 && stats.used_bytes <= stats.total_bytes);
    assert!(stats.resizes > 0 && stats.refusals == 1 && stats.peak_bytes <= 4 * MIB);

    // Leak detection.
    assert!(pool.leaks(ReportFormat::Text)?.contains("nodes"));
    drop(manager);
    assert_eq!(pool.live_stats()?.live_blocks, 0);
    Ok(())
}

/// The three strengths at once: a buffer that is tracked, grows, and is copied to the host meanwhile.
fn best_of_breed(device: &Device, queue: &Queue) -> vram::Result<()> {
    let pool = tracked(device)?;
    let growth = Some(Growth::new(GrowthPolicy::FactorPpm(1_500_000)));
    let options = BufferOptions { name: Some("state"), growth, ..BufferOptions::default() };
    let mut state = pool.buffer_with(queue, 4096, &options)?;
    let readback = device.readback(&ReadbackOptions::default())?;
    for step in 1..=8 {
        let bytes = 4096 << step;
        state.resize(bytes)?;
        state.fill(step)?;
        let number = readback.start(&[&state])?;
        readback.wait_for(number, WAIT)?;
        let frame = readback.latest()?.expect("it has arrived");
        assert!(frame.len() as u64 == bytes && frame.iter().all(|byte| *byte == step));
        let live = pool.live_stats()?;
        assert!(live.live_blocks == 1 && live.live_bytes >= bytes); // the truth at every step
    }
    drop(state);
    assert_eq!(pool.live_stats()?.live_blocks, 0);
    Ok(())
}

fn main() -> vram::Result<()> {
    let context = Context::new()?;
    let device = context.best_device()?;
    let (queue, pool) = (device.queue()?, device.pool()?);
    memory_tracking(&device, &queue)?;
    dynamic_allocation(&pool, &queue)?;
    async_transfers(&device, &pool, &queue)?;
    proposed_structure(&device, &queue)?;
    comparison(&device, &queue)?;
    best_of_breed(&device, &queue)?;
    assert_eq!(context.stats()?.live_blocks, 0); // single source of truth: every pool is in it
    println!("Nothing is left behind");
    Ok(())
}
