// SPDX-License-Identifier: Apache-2.0
//! vectors.rs: managed buffers, pressure, batches and errors of a vector search: the code of document S4.
//!
//! cargo run --example vectors --features compute
#![forbid(unsafe_code)]

use vram::compute::{self, DistanceOptions, Metric, Place, Scheduler};
use vram::{BatchItem, Context, Device, Error, Limits, Pool, Precision, Queue};

/// What a match on the document's GpuError does.
fn kind_of<T>(result: vram::Result<T>) -> &'static str {
    match result {
        Ok(_) => "ok",
        Err(Error::Invalid(_)) => "invalid input",
        Err(error) if error.is_exhausted() => "memory allocation failed",
        Err(_) => "other GPU error",
    }
}

/// Check memory health: warn above 0.7, clean up above 0.9.
fn check_memory_health(pool: &Pool) -> vram::Result<&'static str> {
    match pool.pressure()?.value {
        Some(pressure) if pressure > 0.9 => {
            let released = pool.trim()?;
            println!("Critical memory pressure, {released} bytes were given back");
            Ok("critical")
        }
        Some(pressure) if pressure > 0.7 => Ok("high"),
        _ => Ok("good"),
    }
}

/// Use 70 % of the device's memory, and here at most 64 MiB.
fn configure(device: &Device) -> vram::Result<Pool> {
    let pool = device.pool()?;
    pool.set_limits(&Limits::new().fraction(0.7).hard_bytes(64 << 20).cpu_fallback(false))?;
    Ok(pool)
}

/// Allocate; when memory runs out, clean up and try once more.
fn robust_upload(pool: &Pool, queue: &Queue, data: &[f32]) -> vram::Result<Vec<f32>> {
    let upload = || {
        let mut buffer = pool.buffer_of(queue, data.len() as u64, Precision::Fp32)?;
        buffer.upload(data)?;
        buffer.download()
    };
    match upload() {
        Err(error) if error.is_exhausted() => {
            pool.device().trim()?;
            upload()
        }
        other => other,
    }
}

/// l2_distance_gpu: one call with the number of the device, in each precision. There it computes the first 256 vectors at
/// most.
fn l2_distance(context: &Context) -> vram::Result<()> {
    let next = |x: &u32| Some(x.wrapping_mul(1664525).wrapping_add(1013904223));
    let numbers =
        std::iter::successors(Some(7u32), next).map(|x| (x >> 8) as f32 / (1 << 24) as f32);
    let all: Vec<f32> = numbers.take(2003 * 6).collect();
    let (queries, corpus) = all.split_at(3 * 6);
    for (precision, most) in
        [(Precision::Fp32, 1e-4), (Precision::Fp16, 2e-2), (Precision::Int8, 2e-1)]
    {
        let options = DistanceOptions { precision, ..Metric::L2Squared.into() };
        let distances = compute::distances(context, 0, queries, corpus, 6, options)?;
        for (at, distance) in distances.iter().enumerate() {
            let (query, vector) = (&queries[at / 2000 * 6..][..6], &corpus[at % 2000 * 6..][..6]);
            let exact: f32 = query.iter().zip(vector).map(|(q, c)| (q - c) * (q - c)).sum();
            assert!((exact - distance).abs() < most, "{precision:?}: {exact} and {distance}");
        }
    }
    // Nothing has to be cleaned up after a failure.
    let none = compute::distances(context, 1000, queries, corpus, 6, Metric::L2);
    assert!(matches!(none, Err(Error::NoDevice(_))));
    Ok(())
}

fn main() -> vram::Result<()> {
    let context = Context::new()?;
    let device = context.best_device()?;
    let queue = device.queue()?;
    let pool = configure(&device)?;

    // A managed buffer returns to the pool when it is dropped.
    {
        let buffer = pool.buffer_of(&queue, 1024, Precision::Fp32)?;
        assert_eq!(buffer.info()?.elements, 1024);
    } // here
    assert_eq!(pool.stats()?.live_blocks, 0);
    drop(pool.buffer_of(&queue, 1024, Precision::Fp32)?); // reused
    assert_eq!(pool.stats()?.hits, 1);

    // Batch operations: all cleaned up when the batch is dropped.
    let mut batch = pool.batch(&queue)?;
    batch.add(&[
        BatchItem::new(64, Precision::Fp32).contents(&[0u8; 256]),
        BatchItem::new(64, Precision::Fp16).contents(&[0u8; 128]),
    ])?;
    assert_eq!(batch.get(1)?.download::<u16>()?, [0u16; 64]);
    drop(batch);
    assert_eq!(pool.stats()?.live_blocks, 0);

    // Memory usage, and pressure.
    assert_eq!(check_memory_health(&pool)?, "good");
    let most = pool.buffer(&queue, 60 << 20)?;
    println!("Pressure: {:.1}%", pool.pressure()?.value.unwrap_or(0.0) * 100.0);
    assert_eq!(check_memory_health(&pool)?, "critical");
    let stats = pool.stats()?;
    assert!(stats.requested_bytes == 60 << 20 && stats.peak_requested_bytes >= 60 << 20);
    let (one, all) = (device.stats()?, context.stats()?); // memory_usage, total_memory_usage
    println!("{} bytes of {} on this device", one.requested_bytes, all.requested_bytes);

    // Errors by kind, with what the library says about them.
    match pool.buffer(&queue, 8 << 20) {
        Err(Error::Limit(detail)) => println!("Memory allocation failed: {}", detail.text),
        Err(error) => println!("Other error: {error}"),
        Ok(_) => unreachable!("68 MiB of at most 64"),
    }
    assert_eq!(kind_of(pool.buffer(&queue, 8 << 20)), "memory allocation failed");
    assert_eq!(kind_of(queue.wait().and(vram::parse_size("?"))), "invalid input");
    assert_eq!(kind_of(context.device(1000)), "other GPU error"); // None there
    context.trim()?; // emergency_cleanup_all
    let report = pool.out_of_memory_report(vram::ReportFormat::Text)?;
    println!("{}", report.lines().next().unwrap_or(""));
    drop(most);
    assert_eq!(robust_upload(&pool, &queue, &[1.5; 1 << 20])?.len(), 1 << 20);

    // Distances. All memory is returned, also when it fails.
    l2_distance(&context)?;
    let scheduler = Scheduler::on(&pool, Place::Device)?;
    let corpus: Vec<f32> = (0..64).flat_map(|row| [row as f32, 1.0, 2.0, 3.0]).collect();
    let queries = [3.0, 1.0, 2.0, 3.0, 60.2, 1.0, 2.0, 3.0];
    match scheduler.nearest(&queries, &corpus, 4, Metric::L2, 2) {
        Ok((distances, at)) => {
            println!("Nearest: {at:?}");
            assert!(at[0] == 3 && at[2] == 60 && distances[0] == 0.0);
        }
        Err(error) => println!("GPU operation failed: {error}"),
    }
    assert!(scheduler.distances(&queries[..7], &corpus, 4, Metric::L2).is_err()); // not rows of 4
    assert_eq!(scheduler.distances(&queries, &corpus, 4, Metric::L2)?.len(), 2 * 64);
    drop(scheduler);
    queue.wait()?;
    assert_eq!(pool.stats()?.live_blocks, 0);
    println!("Nothing is left behind");
    Ok(())
}
