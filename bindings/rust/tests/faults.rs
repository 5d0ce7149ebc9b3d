// SPDX-License-Identifier: Apache-2.0
//! The n-th call of the driver fails, for every n until none is left: an error each time, and nothing is lost.

mod world;

use std::time::Duration;

use vram::*;
use world::world;

/// A little of everything. Results own their memory, so that no fault can leave borrowed memory to a device.
fn program(context: &Context) -> Result<()> {
    let device = context.device(0)?;
    let (queue, pool) = (device.queue()?, device.pool()?);
    let mut buffer = pool.buffer(&queue, 1 << 20)?;
    let upload = buffer.upload_async(vec![5u8; 1 << 20])?;
    drop(buffer.upload_async(vec![6u8; 1 << 10])?);
    let back = buffer.download_async::<u8>()?;
    let mut batch = pool.batch(&queue)?;
    batch.add(&[BatchItem::new(4096, Precision::Fp32), BatchItem::new(7, Precision::Int8)])?;
    let scope = pool.scope()?;
    scope.alloc(&queue, 1 << 16)?;
    let pinned = BufferOptions { kind: BufferKind::Pinned, ..BufferOptions::default() };
    let mut pinned = pool.buffer_with(&queue, 4096, &pinned)?;
    pinned.map::<u32>()?[0] = 1;
    buffer.map::<u8>()?[7] = 1;
    buffer.copy_from(&pinned)?;
    buffer.resize(3 << 20)?;
    let ring =
        pool.ring(&RingOptions { strategy: RingStrategy::Sync, ..RingOptions::default() })?;
    ring.send(&1u64, 0, Duration::from_secs(1))?;
    ring.flush()?;
    upload.wait()?;
    assert_eq!(back.wait()?[..1025], [&[6u8; 1024][..], &[5]].concat()[..]);
    pool.trim().map(drop)
}

/// What a manager is made of.
fn manager(context: &Context) -> Result<()> {
    let device = context.device(0)?;
    let pool = device.pool()?;
    let streams = device.streams()?;
    let manager = pool.named(&streams.get(COMPUTE)?, &NamedOptions::default())?;
    manager.add("nodes", 4096, None)?.fill(3)?;
    manager.ensure("nodes", 1 << 20)?;
    let nodes = manager.get("nodes")?;
    let readback = device.readback(&ReadbackOptions::default())?;
    let number = readback.start(&[&nodes])?;
    readback.arrival(number)?.wait()?;
    assert_eq!(readback.latest()?.expect("it has arrived")[4095], 3);
    drop(Memory::of_device(&device, 4096, MemoryKind::Pinned)?);
    streams.wait()
}

/// One after the other: what is left behind is counted in the whole process.
#[test]
fn every_call_of_the_driver_may_fail() {
    every_call_may_fail(program);
    every_call_may_fail(manager);
}

fn every_call_may_fail(program: fn(&Context) -> Result<()>) {
    let mut before = None; // host memory of the library without a context
    for for_ever in [false, true] {
        let mut failures = 0;
        for nth in 1.. {
            let w = world("sim", "memory=256M,lag=5");
            w.context.sim_fault(nth, for_ever).expect("a fault");
            let ended = program(&w.context);
            failures += u32::from(ended.is_err());
            w.context.sim_fault(0, false).expect("no fault");
            // Everything that was made is gone, and what is left works.
            let device = w.context.device(0).expect("a device");
            let stats = device.stats().expect("counters");
            assert_eq!(stats.live_blocks, 0, "call {nth}");
            drop(device);
            w.pool.buffer(&w.queue, 4096).expect("a buffer").upload(&[1u8; 4096]).expect("upload");
            let mut state: ffi::vram_sim_state = unsafe { std::mem::zeroed() };
            state.size = std::mem::size_of_val(&state);
            // SAFETY: a valid handle, and an out-parameter of the right size.
            let status = unsafe { ffi::vram_sim_state_get(w.context.raw(), &mut state) };
            assert_eq!((status, state.violations), (ffi::VRAM_OK, 0), "call {nth}");
            drop(w);
            let left = host_bytes();
            assert!(left <= *before.get_or_insert(left), "call {nth}: {left} bytes are left");
            if state.faults == 0 {
                assert!(ended.is_ok(), "call {nth}: {ended:?}");
                break;
            }
        }
        assert!(failures > 10, "{failures} failures");
    }
}

/// Borrowed memory is never left to a device: where the driver neither completes the copy nor reports its end, the
/// process ends. In a process of its own, which this test starts.
#[test]
fn a_driver_that_never_answers_ends_the_process() {
    const CHILD: &str = "RUST_TEST_NEVER_ANSWERS";
    if std::env::var_os(CHILD).is_some() {
        for nth in 1..40 {
            let w = world("sim", "memory=256M,lag=50");
            let mut buffer = w.pool.buffer(&w.queue, 4096).expect("a buffer");
            buffer.fill(1).expect("fill");
            w.context.sim_fault(nth, true).expect("a fault");
            let _ = buffer.upload(&[2u8; 4096]);
            w.context.sim_fault(0, false).expect("no fault");
        }
        return;
    }
    let program = std::env::current_exe().expect("this program");
    let mut child = std::process::Command::new(program);
    child.args(["--exact", "a_driver_that_never_answers_ends_the_process", "--nocapture"]);
    let output = child.env(CHILD, "1").output().expect("a child");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("neither completes a copy"), "{said}");
}
