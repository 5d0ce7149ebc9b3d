// SPDX-License-Identifier: Apache-2.0
//! manager.rs: configuration, pressure, estimates, tracking and fallback of an engine: the code of document S1.
//!
//! cargo run --example manager --features model
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::time::Duration;

use vram::model::{select, InferenceShape};
use vram::{
    AllocOptions, BufferKind, BufferOptions, Context, Device, ForeignOptions, Limits, Memory,
    MemoryKind, Pool, PoolOptions, PoolStats, Preset, PressureLevel, Provider, Queue,
};

const MIB: u64 = 1 << 20;

/// The document's trait, which a pool fulfils for every backend: CudaPool, RocmPool, MetalPool, OpenCL.
trait GpuMemoryPool: Send + Sync {
    fn backend_name(&self) -> vram::Result<String>;
    fn stats(&self) -> vram::Result<PoolStats>;
    fn total_memory(&self) -> vram::Result<Option<u64>>;
    fn free_memory(&self) -> vram::Result<Option<u64>>;
    fn pressure(&self) -> vram::Result<PressureLevel>;
    fn clear_pool(&mut self) -> vram::Result<u64>;
    fn shrink(&mut self) -> vram::Result<u64>;
}

impl GpuMemoryPool for Pool {
    fn backend_name(&self) -> vram::Result<String> {
        Ok(self.device().info()?.backend)
    }

    fn stats(&self) -> vram::Result<PoolStats> {
        Pool::stats(self)
    }

    fn total_memory(&self) -> vram::Result<Option<u64>> {
        Ok(self.device().memory()?.total_bytes)
    }

    fn free_memory(&self) -> vram::Result<Option<u64>> {
        Ok(self.device().memory()?.free_bytes)
    }

    fn pressure(&self) -> vram::Result<PressureLevel> {
        Ok(Pool::pressure(self)?.level)
    }

    fn clear_pool(&mut self) -> vram::Result<u64> {
        self.clear() // out of the caches
    }

    fn shrink(&mut self) -> vram::Result<u64> {
        self.trim() // and back to the driver: how many bytes
    }
}

/// Memory for GenericMemoryPool<Vec<u8>>: the program's own, on the host.
struct HostMemory;

impl Provider for HostMemory {
    fn allocate(&self, bytes: u64) -> vram::Result<Memory> {
        Memory::of_host(bytes, self.granule())
    }

    fn granule(&self) -> u64 {
        64 << 10
    }
}

/// "A pool for any backend". What the document records without having it cannot be reused, so the first attempt finds
/// nothing.
fn memory_pool_integration(device: &Device, queue: &Queue) -> vram::Result<()> {
    let options = PoolOptions {
        provider: Some(Arc::new(HostMemory)),
        limits: Some(Limits::preset(Preset::Inference)?),
        ..PoolOptions::default()
    };
    let pool = device.pool_with(&options)?;
    let try_get = AllocOptions { cached_only: true, ..AllocOptions::default() };

    // Try to get from the pool; else allocate.
    let found = pool.alloc_with(queue, MIB, &try_get).map(drop);
    assert!(found.expect_err("nothing is there").is_exhausted());
    drop(pool.alloc(queue, MIB)?); // return to the pool
    drop(pool.alloc_with(queue, MIB / 2, &try_get)?); // a larger one serves it
    drop(pool.alloc(queue, MIB / 2)?);
    let stats = pool.stats()?;
    assert_eq!((stats.allocs, stats.hits), (3, 2));
    println!("Hit rate: {:.1}%", stats.hit_rate * 100.0);
    Ok(())
}

fn main() -> vram::Result<()> {
    let context = Context::new()?;
    let device = context.best_device()?;
    let queue = device.queue()?;

    // The picture: a pool for each backend; one that is absent says why.
    let backends = context.backends()?;
    for name in ["cuda", "hip", "metal", "opencl"] {
        let backend = backends.iter().find(|backend| backend.name == name).expect("known");
        assert!(backend.present || !backend.reason.is_empty());
    }

    // Memory configuration: presets, and one of the program's own.
    for preset in [Preset::Default, Preset::Inference, Preset::Training, Preset::Constrained] {
        let limits = Limits::preset(preset)?;
        println!("{preset:?}: {:.0} % of the memory", limits.fraction.unwrap_or(1.0) * 100.0);
    }
    let config = Limits::new()
        .fraction(0.8) // use 80 % of the memory
        .cpu_fallback(true)
        .min_free_bytes(MIB)
        .hard_bytes(64 * MIB)
        .tracking(true);
    let mut pool = device.pool_with(&PoolOptions {
        name: Some("engine"),
        limits: Some(config),
        tracked: true,
        ..PoolOptions::default()
    })?;

    // The pool's interface: statistics, memory, pressure, clear and shrink.
    let held = pool.buffer(&queue, 40 * MIB)?;
    let shared: &mut dyn GpuMemoryPool = &mut pool;
    let level = shared.pressure()?;
    println!("backend {}, pressure {level:?}", shared.backend_name()?);
    assert!(level >= PressureLevel::Medium, "40 of 64 MiB are more than 0.6");
    assert!(shared.total_memory()? >= shared.free_memory()?);
    let stats = shared.stats()?;
    assert!(stats.reserved_bytes >= stats.allocated_bytes + stats.cached_bytes); // total_allocated
    assert!(stats.requested_bytes == 40 * MIB && stats.active_buffers == 1); // in_use
    assert!(stats.peak_reserved_bytes >= stats.reserved_bytes); // peak
    assert_eq!((stats.hits + stats.misses, stats.fallbacks), (1, 0)); // cpu_fallbacks
                                                                      // Below 60 % of the memory, to 80 %, to 95 %, and above.
    for (value, level) in [(0.59, PressureLevel::Low), (0.6, PressureLevel::Medium)] {
        assert_eq!(PressureLevel::of(value), level);
    }
    for (value, level) in [(0.95, PressureLevel::High), (0.96, PressureLevel::Critical)] {
        assert_eq!(PressureLevel::of(value), level);
    }
    drop(held);
    queue.wait()?; // memory goes back to the driver when the queue is done with it
    let shared: &mut dyn GpuMemoryPool = &mut pool;
    shared.clear_pool()?;
    assert_eq!(shared.stats()?.cached_bytes, 0);
    assert!(shared.shrink()? >= 40 * MIB, "what nobody uses goes to the driver");

    // Buckets of powers of two, for programs that were built on them.
    let buckets = PoolOptions { power_of_two: true, ..PoolOptions::default() };
    let buckets = device.pool_with(&buckets)?;
    drop(buckets.alloc(&queue, 1000 * 1000)?);
    drop(buckets.alloc(&queue, 600 * 1000)?); // the same bucket: reused
    let stats = buckets.stats()?;
    println!("Hit rate: {:.1}%", stats.hit_rate * 100.0);
    assert_eq!((stats.hits, stats.misses), (1, 1));

    // Memory estimation: Mistral 7B in FP32 and in FP16.
    let mut mistral = InferenceShape {
        hidden: 4096,
        intermediate: 14336,
        layers: 32,
        vocabulary: 32000,
        heads: 32,
        kv_heads: 8,
        tokens: 4096,
        element_bytes: 4,
    };
    let fp32 = mistral.estimate()?;
    mistral.element_bytes = 2;
    let fp16 = mistral.estimate()?;
    println!("FP32: {:.2} GB, FP16: {:.2} GB", fp32.total_gb(), fp16.total_gb());
    println!("  Model: {:.2} GB", fp32.model_mb() / 1024.0);
    println!("  KV Cache: {:.2} GB", fp32.kv_mb() / 1024.0);
    println!("  Activations: {:.2} MB", fp32.activation_mb());
    assert_eq!((fp32.total_bytes, fp16.total_bytes), (30_040_932_352, 15_020_466_176));

    // A backend with enough memory, or the reason why there is none.
    let place = select(&context, MIB, None)?;
    println!("Use {} on device {}", place.backend, place.backend_index);
    match select(&context, 1 << 60, None) {
        Ok(_) => unreachable!("no device has an exbibyte"),
        Err(error) => println!("{error}"), // No backend has enough memory
    }

    // Buffer tracking: what is old may be a leak.
    let meta = AllocOptions {
        tag: Some("attention_scores"),
        elements: 256 << 10, // 256K elements
        ..AllocOptions::default()
    };
    let scores = pool.alloc_with(&queue, MIB, &meta)?;
    let live = pool.live(Duration::ZERO)?;
    for block in &live {
        println!("Live: {} bytes ({})", block.bytes, block.tag);
    }
    assert!(live.len() == 1 && live[0].kind == MemoryKind::Device && live[0].id != 0);
    assert_eq!((live[0].elements, &live[0].tag[..]), (256 << 10, "attention_scores"));
    assert!(pool.live(vram::OLD)?.is_empty(), "nothing here is a minute old");
    let tracked = pool.live_stats()?;
    println!("Tracked: {} buffers, {} bytes", tracked.live_blocks, tracked.live_bytes);
    drop(scores);

    // tracker.track: what somebody else has allocated, until the record is dropped.
    let workspace = ForeignOptions { tag: Some("cublas"), counts: true, ..Default::default() };
    let record = device.track(32 * MIB, &workspace)?;
    let foreign: Vec<_> =
        device.live(Duration::ZERO)?.into_iter().filter(|block| block.foreign).collect();
    assert!(foreign.len() == 1 && foreign[0].bytes == 32 * MIB && foreign[0].tag == "cublas");
    assert_eq!(device.foreign()?.counted_bytes, 32 * MIB);
    drop(record);
    assert_eq!(device.foreign()?.count, 0);

    memory_pool_integration(&device, &queue)?;

    // A fallback buffer lies in host memory when the device is full.
    let kind = BufferOptions { kind: BufferKind::Fallback, ..BufferOptions::default() };
    let mut numbers = pool.buffer_with(&queue, 128 * MIB, &kind)?; // twice what the pool may hold
    let location = numbers.info()?.location;
    println!("128 MiB of at most 64 lie in {location:?} memory");
    assert_ne!(location, MemoryKind::Device);
    numbers.upload(&[2.5f32; 1024])?;
    let mut back = [0f32; 1024];
    numbers.download_into(&mut back)?;
    assert_eq!(back, [2.5f32; 1024]);
    assert_eq!(pool.stats()?.fallbacks, 1);
    Ok(())
}
