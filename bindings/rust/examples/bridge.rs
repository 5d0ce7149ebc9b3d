// SPDX-License-Identifier: Apache-2.0
//! bridge.rs: buffers of every kind, and a ring between the host and a kernel: the code of document S2.
//!
//! cargo run --example bridge

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::Duration;

use vram::ffi::{vram_ring_control, vram_ring_slot, vram_ring_telemetry};
use vram::{
    BufferKind, BufferOptions, Context, Error, Kernel, KernelCall, Launch, RingOptions,
    RingStrategy, Visibility,
};

// The control block takes two cache lines, telemetry one.
const _: () = assert!(std::mem::size_of::<vram_ring_control>() == 128);
const _: () = assert!(std::mem::align_of::<vram_ring_control>() == 128);
const _: () = assert!(std::mem::size_of::<vram_ring_telemetry>() == 64);

/// The device's end of the ring, as vram/ring_layout.h describes it: answers each number with its double, until no
/// message is left. `control` is the argument of the launch.
fn double(call: &KernelCall<'_>) {
    // SAFETY: the launch passes the control block of a ring, which lives until the kernel has ended; the device's words
    // are this kernel's alone.
    unsafe {
        let at: u64 = call.argument(0);
        let control = &*(at as *const vram_ring_control);
        // With the flag VRAM_RING_FLAG_OFFSETS the pointers are offsets from the control block.
        let offsets = control.reserved[2] & vram::ffi::VRAM_RING_FLAG_OFFSETS as u64 != 0;
        let place = |pointer: u64| if offsets { at + pointer } else { pointer };
        let word = |pointer: u64| &*(place(pointer) as *const AtomicU64);
        let (input_head, input_tail) =
            (word(control.input_queue_head_ptr), word(control.input_queue_tail_ptr));
        let (output_head, output_tail) =
            (word(control.output_queue_head_ptr), word(control.output_queue_tail_ptr));
        let slot = |slots: u64, number: u64, capacity: i32, bytes: i32| {
            let stride = (bytes as u64 + 32 + 63) / 64 * 64;
            (place(slots) + (number & (capacity as u64 - 1)) * stride) as *mut vram_ring_slot
        };
        let mut taken = input_tail.load(Ordering::Acquire);
        let mut published = output_head.load(Ordering::Acquire);
        while taken < input_head.load(Ordering::Acquire)
            && published - output_tail.load(Ordering::Acquire)
                < control.output_queue_capacity as u64
        {
            let (capacity, bytes) =
                (control.input_queue_capacity, control.input_queue_message_size);
            let from = slot(control.input_queue_buffer_ptr, taken, capacity, bytes);
            let (capacity, bytes) =
                (control.output_queue_capacity, control.output_queue_message_size);
            let to = slot(control.output_queue_buffer_ptr, published, capacity, bytes);
            to.add(1).cast::<u64>().write(2 * from.add(1).cast::<u64>().read());
            (*to).stamp_ns = 0;
            (*to).bytes = 8;
            (*to).kind = (*from).kind;
            published += 1;
            (*to).sequence = published;
            output_head.store(published, Ordering::Release);
            taken += 1;
            input_tail.store(taken, Ordering::Release);
        }
        let ended = &*(std::ptr::addr_of!(control.has_terminated).cast::<AtomicI32>());
        ended.store(vram::ffi::VRAM_RING_RELAUNCHABLE, Ordering::Release);
    }
}

fn main() -> vram::Result<()> {
    let context = Context::new()?;
    let device = context.best_device()?;
    let (pool, queue) = (device.pool()?, device.queue()?);

    // GpuBuffer: owned device memory, freed when it is dropped.
    let mut gpu = pool.buffer(&queue, 4 * 1000)?;
    gpu.upload(&[1.0f32; 1000])?;
    println!("{} bytes at an address of the device", gpu.bytes()?);

    // PinnedBuffer: page-locked memory, which the host sees as a slice.
    let pinned = BufferOptions { kind: BufferKind::Pinned, ..BufferOptions::default() };
    let mut pinned = pool.buffer_with(&queue, 4 * 1000, &pinned)?;
    pinned.map::<f32>()?.fill(2.0);
    gpu.copy_from(&pinned)?; // at full speed
    assert_eq!(gpu.download::<f32>()?, [2.0f32; 1000]);

    // Memory pool: a block returns to it when it is dropped, and the next one reuses it.
    let first = pool.alloc(&queue, 50_000)?.addr();
    assert_eq!(pool.alloc(&queue, 50_000)?.addr(), first);

    // UnifiedBuffer: memory that migrates, where the device has it.
    if device.info()?.has(vram::ffi::VRAM_CAP_MANAGED) {
        let managed = BufferOptions { kind: BufferKind::Managed, ..BufferOptions::default() };
        let mut managed = pool.buffer_with(&queue, 4 * 1000, &managed)?;
        managed.map::<f32>()?[7] = 3.0;
        managed.prefetch(false)?; // to the device
        assert_eq!(managed.map::<f32>()?[7], 3.0);
    }

    // Memory visibility: Linux has fences that reach the host, WSL2 has not.
    let (visibility, why) = Visibility::detect(&device, None)?;
    println!("Visibility: {visibility:?} {why}");
    assert_eq!(Visibility::of_platform("Linux version 6.1")?, Visibility::System);
    assert_eq!(Visibility::of_platform("Linux version 5.15 microsoft-WSL2")?, Visibility::Device);

    // RingBufferBridge: messages to the device, and their answers.
    let ring = pool.ring(&RingOptions {
        strategy: RingStrategy::Sync,
        input_capacity: 16,
        output_capacity: 16,
        message_bytes: 8,
        queue: Some(&queue),
        ..RingOptions::default()
    })?;
    for number in 0..10u64 {
        ring.send(&number, 7, Duration::from_secs(1))?;
    }
    println!("{} messages flushed to the device", ring.flush()?);
    let kernel = match Kernel::of_host(&device, "double", double) {
        Err(Error::Unsupported(_)) => {
            println!("This device runs no kernels in Rust: the messages are not answered.");
            return Ok(());
        }
        other => other?,
    };
    let launch = Launch::new([1, 1, 1], [1, 1, 1]).address(ring.info()?.control);
    // SAFETY: the kernel uses the ring alone, which lives until it has ended.
    unsafe { queue.launch(&kernel, &launch)? };
    queue.wait()?;
    for number in 0..10u64 {
        assert_eq!(ring.receive::<u64>(Duration::from_secs(1))?, Some((2 * number, 7)));
    }
    let stats = ring.stats()?;
    println!("to the device {}, back {}", stats.host_to_device_count, stats.device_to_host_count);
    Ok(())
}
