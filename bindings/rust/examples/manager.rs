// SPDX-License-Identifier: Apache-2.0
//! manager.rs: configuration, pressure, estimates, tracking and fallback of an engine: the code of document S1.
//!
//! cargo run --example manager --features model

use std::time::Duration;

use vram::model::{select, InferenceShape};
use vram::{
    BufferKind, BufferOptions, Context, Limits, MemoryKind, PoolOptions, Preset, PressureLevel,
};

const MIB: u64 = 1 << 20;

fn main() -> vram::Result<()> {
    let context = Context::new()?;
    let device = context.best_device()?;
    let queue = device.queue()?;

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
    let pool = device.pool_with(&PoolOptions {
        name: Some("engine"),
        limits: Some(config),
        tracked: true,
        ..PoolOptions::default()
    })?;

    // The pool's interface: statistics, memory, pressure, clear and shrink.
    let held = pool.buffer(&queue, 40 * MIB)?;
    let pressure = pool.pressure()?;
    println!("backend {}, pressure {:?}", device.info()?.backend, pressure.level);
    assert!(pressure.level >= PressureLevel::Medium, "40 of 64 MiB are more than 0.6");
    let memory = device.memory()?;
    assert!(memory.held_bytes >= 40 * MIB && memory.total_bytes >= memory.free_bytes);
    drop(held);
    queue.wait()?; // memory goes back to the driver when the queue is done with it
    assert!(pool.trim()? >= 40 * MIB, "what nobody uses goes to the driver");

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
    println!("FP32: {:.2} GB, FP16: {:.2} GB", fp32.total_gib(), fp16.total_gib());
    println!("  Model: {:.2} GB", fp32.model_bytes as f64 / (1u64 << 30) as f64);
    println!("  KV Cache: {:.2} GB", fp32.kv_bytes as f64 / (1u64 << 30) as f64);
    assert_eq!(fp16.total_bytes, 15_020_466_176);

    // A backend with enough memory, or the reason why there is none.
    let place = select(&context, MIB, None)?;
    println!("Use {} on device {}", place.backend, place.backend_index);
    match select(&context, 1 << 60, None) {
        Ok(_) => unreachable!("no device has an exbibyte"),
        Err(error) => println!("{}", error.name()),
    }

    // Buffer tracking: what is old may be a leak.
    let tagged = BufferOptions { tag: Some("attention_scores"), ..BufferOptions::default() };
    let scores = pool.buffer_with(&queue, MIB, &tagged)?;
    for block in pool.live(Duration::ZERO)? {
        println!("Live: {} bytes ({})", block.bytes, block.tag);
    }
    assert!(pool.live(vram::OLD)?.is_empty(), "nothing here is a minute old");
    drop(scores);

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
