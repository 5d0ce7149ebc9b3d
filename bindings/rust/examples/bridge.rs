// SPDX-License-Identifier: Apache-2.0
//! bridge.rs: buffers of every kind, and a ring between the host and a kernel: the code of document S2.
//!
//! cargo run --example bridge

#![forbid(unsafe_code)]

use std::mem::{align_of, size_of};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use vram::{
    BufferKind, BufferOptions, Cap, Context, Device, Error, Memory, MemoryKind, PoolOptions,
    Precision, Provider, RingControl, RingKernel, RingOptions, RingPeer, RingStrategy,
    RingTelemetry, Target, Visibility,
};

// Cache-line alignment: the control block takes two lines, telemetry one.
const _: () = assert!(size_of::<RingControl>() == 128 && align_of::<RingControl>() == 128);
const _: () = assert!(size_of::<RingTelemetry>() == 64 && align_of::<RingTelemetry>() == 64);

/// A value on cache lines of its own.
#[repr(C, align(128))]
struct CacheLineAligned<T>(T);
const _: () = assert!(size_of::<CacheLineAligned<f32>>() == 128);

const WAIT: Duration = Duration::from_secs(60);

/// The document's GpuAllocator: the program's own, in front of the driver.
struct GpuAllocator {
    device: Device,
    allocations: AtomicU64,
    frees: AtomicU64,
}

impl Provider for GpuAllocator {
    fn allocate(&self, bytes: u64) -> vram::Result<Memory> {
        self.allocations.fetch_add(1, Ordering::Relaxed);
        Memory::of_device(&self.device, bytes, MemoryKind::Device)
    }

    fn free(&self, memory: Memory) {
        self.frees.fetch_add(1, Ordering::Relaxed);
        drop(memory);
    }
}

/// The device's end of the ring: answers each number with its double, until no message is left.
fn double(peer: &mut RingPeer<'_>) -> vram::Result<()> {
    while peer.room() > 0 {
        match peer.receive::<u64>()? {
            Some((number, kind)) => peer.send(&(2 * number), kind)?,
            None => break,
        };
    }
    Ok(())
}

fn main() -> vram::Result<()> {
    let context = Context::new()?;
    let device = context.best_device()?;
    let (pool, queue) = (device.pool()?, device.queue()?);

    // GpuBuffer<T>: owned device memory from an allocator, freed when it is dropped.
    let counts = (AtomicU64::new(0), AtomicU64::new(0));
    let allocator = GpuAllocator { device: device.clone(), allocations: counts.0, frees: counts.1 };
    let allocator = Arc::new(allocator);
    let provided = PoolOptions { provider: Some(allocator.clone()), ..PoolOptions::default() };
    {
        let own = device.pool_with(&provided)?;
        let buffer = own.buffer_of(&queue, 1000, Precision::Fp32)?;
        let info = buffer.info()?;
        assert_eq!((info.elements, info.used_bytes), (1000, 4000)); // len, size_bytes
        assert!(buffer.addr()? != 0 && allocator.allocations.load(Ordering::Relaxed) == 1);
        let too_large = own.buffer_of(&queue, u64::MAX / 2, Precision::Fp32);
        assert!(matches!(too_large, Err(Error::Overflow(_))));
    } // dropped: first the buffer, then the pool with what it holds
    assert_eq!(allocator.frees.load(Ordering::Relaxed), 1);
    let mut gpu = pool.buffer(&queue, 4 * 1000)?;
    gpu.upload(&[1.0f32; 1000])?;

    // HostAllocator: page-locked memory by itself.
    if device.info()?.has(Cap::Pinned) {
        let mut locked = Memory::of_device(&device, 4096, MemoryKind::Pinned)?;
        locked.as_mut_slice().expect("the host's")[0] = 1; // as_mut_slice
        assert_eq!(locked.as_slice().expect("the host's")[0], 1);
    }

    // PinnedBuffer: page-locked memory, which the host sees as a slice.
    let pinned = BufferOptions { kind: BufferKind::Pinned, ..BufferOptions::default() };
    let mut pinned = pool.buffer_with(&queue, 4 * 1000, &pinned)?;
    pinned.map::<f32>()?.fill(2.0);
    gpu.copy_from(&pinned)?; // at full speed
    assert_eq!(gpu.download::<f32>()?, [2.0f32; 1000]);

    // Memory pool: a block returns to it when it is dropped, and the next one reuses it. Its bucket is a power of two.
    let buckets = device.pool_with(&PoolOptions { power_of_two: true, ..Default::default() })?;
    let first = buckets.alloc(&queue, 33_000)?.addr();
    let pooled = buckets.alloc(&queue, 50_000)?;
    assert_eq!((pooled.addr(), pooled.held_bytes()?), (first, 65_536));
    drop(pooled);
    let stats = buckets.stats()?;
    assert_eq!((stats.hits, stats.misses), (1, 1));

    // It is thread-safe.
    let acquired = CacheLineAligned(AtomicU64::new(0));
    let before = pool.stats()?.allocs;
    thread::scope(|scope| {
        let acquire_and_release = || {
            for i in 0..200 {
                let (one, other) = (pool.alloc(&queue, 500 + i)?, pool.alloc(&queue, 3000)?);
                assert_ne!(one.addr(), other.addr());
                acquired.0.fetch_add(2, Ordering::Relaxed);
            }
            Ok(())
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(acquire_and_release)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    let stats = pool.stats()?;
    assert_eq!(stats.allocs - before, acquired.0.load(Ordering::Relaxed));
    assert!(stats.hits > stats.misses && stats.returns > 0);

    // UnifiedBuffer: memory that migrates, where the device has it.
    if device.info()?.has(Cap::Managed) {
        let managed = BufferOptions { kind: BufferKind::Managed, ..BufferOptions::default() };
        let mut managed = pool.buffer_with(&queue, 4 * 1000, &managed)?;
        managed.map::<f32>()?[7] = 3.0;
        managed.prefetch(Target::Own)?; // prefetch_to_device
        assert_eq!(managed.map::<f32>()?[7], 3.0);
    }

    // Memory visibility: Linux has fences that reach the host, WSL2 has not.
    let (visibility, why) = Visibility::detect(&device, None)?;
    println!("Visibility: {visibility:?} {why}");
    assert_eq!(Visibility::of_platform("Linux version 6.1")?, Visibility::System);
    assert_eq!(Visibility::of_platform("Linux version 5.15 microsoft-WSL2")?, Visibility::Device);

    // RingBufferBridge with each strategy: messages to the device, and their answers.
    let kernel = match RingKernel::new(&device, "double", double) {
        Err(Error::Unsupported(_)) => {
            println!("This device runs no kernels in Rust: messages would not be answered.");
            return Ok(());
        }
        other => other?,
    };
    for strategy in
        [RingStrategy::Sync, RingStrategy::Async, RingStrategy::Direct, RingStrategy::DmaPolling]
    {
        let options = RingOptions {
            strategy,
            input_capacity: 16,
            output_capacity: 16,
            message_bytes: 8,
            queue: Some(&queue),
            ..RingOptions::default()
        };
        let ring = match pool.ring(&options) {
            Err(Error::Unsupported(why)) if strategy == RingStrategy::Direct => {
                println!("Direct: {}", why.text); // the device does not see the host's writes
                continue;
            }
            other => other?,
        };
        assert_eq!(ring.info()?.control % 128, 0);
        for number in 0..10u64 {
            ring.send(&number, 7, WAIT)?;
        }
        ring.flush_async()?.wait()?; // flush_to_device; `.await` in an async function
        ring.launch(&kernel)?;
        for number in 0..10u64 {
            assert_eq!(ring.receive::<u64>(WAIT)?, Some((2 * number, 7)));
        }
        let stats = ring.stats()?;
        let (there, back) = (stats.host_to_device_count, stats.device_to_host_count);
        println!("{strategy:?}: {there} messages to the device, {back} back");
        assert_eq!((there, back), (10, 10));
    }
    Ok(())
}
