// SPDX-License-Identifier: Apache-2.0
//! What safe code may try: panics whose payload panics again, pools that end before their buffers, absurd shapes.

mod world;

use std::panic::panic_any;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use vram::*;
use world::{everywhere, world};

/// The payload of a panic that panics when it is dropped, so many times.
struct Payload(u32);

impl Drop for Payload {
    fn drop(&mut self) {
        if self.0 > 0 {
            panic_any(Payload(self.0 - 1));
        }
    }
}

#[test]
fn payloads_that_panic_go_no_further() {
    let calls = Arc::new(AtomicU32::new(0));
    fn panics(calls: &AtomicU32) -> u64 {
        calls.fetch_add(1, Ordering::Relaxed);
        panic_any(Payload(3))
    }
    everywhere(|w| {
        calls.store(0, Ordering::Relaxed);
        let mut buffer = w.pool.buffer(&w.queue, 4096).expect("a buffer");
        let result = buffer.upload_async(vec![1u8; 4096]).expect("a copy");
        let counted = calls.clone();
        result.on_ready(move |_| assert_eq!(panics(&counted), 0)).expect("registered");
        result.wait().expect("the copy ends");
        drop(buffer);
        assert_eq!(calls.load(Ordering::Relaxed), 1);

        let before = Kernel::panics();
        let kernel = Kernel::of_host(&w.device, "panics", |_| panic_any(Payload(3)));
        let kernel = kernel.expect("a kernel");
        // SAFETY: it has no arguments and touches no memory.
        unsafe { w.queue.launch(&kernel, &Launch::new([3, 1, 1], [1, 1, 1])).expect("launched") };
        w.queue.wait().expect("the kernel ends");
        assert_eq!(Kernel::panics() - before, 3);

        w.device.set_limits(&Limits::new().hard_bytes(8 << 20)).expect("a limit");
        let counted = calls.clone();
        let guard = w.device.on_out_of_memory(move |_| panics(&counted)).expect("a callback");
        let most = w.pool.buffer(&w.queue, 6 << 20).expect("fits");
        assert!(w.pool.buffer(&w.queue, 6 << 20).is_err());
        drop((most, guard));
        assert_eq!(calls.load(Ordering::Relaxed), 2);
    });
}

/// A buffer that was given to a batch of another pool keeps its pool: under a mapping, and afterwards.
#[test]
fn a_batch_keeps_the_pools_of_what_it_was_given() {
    everywhere(|w| {
        for kind in [BufferKind::Device, BufferKind::Pinned] {
            let other = w.device.pool().expect("another pool");
            let options = BufferOptions { kind, ..BufferOptions::default() };
            let buffer = other.buffer_with(&w.queue, 1 << 20, &options).expect("a buffer");
            let mut batch = w.pool.batch(&w.queue).expect("a batch");
            let index = batch.give(buffer).expect("given");
            let mut mapping = batch.map::<u8>(index).expect("mapped");
            drop(other); // the last name of the pool
            mapping.fill(7);
            mapping.unmap().expect("unmapped");
            let back: Vec<u8> = batch.get(index).expect("there").download().expect("its contents");
            assert!(back.iter().all(|&byte| byte == 7));
        }
    });
}

/// Results of shapes that the library refuses are not touched: this machine need not have their memory.
#[cfg(all(feature = "compute", target_os = "linux"))]
#[test]
fn refused_shapes_take_no_memory() {
    let resident = || {
        let text = std::fs::read_to_string("/proc/self/status").expect("the state of the process");
        let line = text.lines().find(|line| line.starts_with("VmHWM:")).expect("its most memory");
        let number = line.split_whitespace().nth(1).expect("a number");
        number.parse::<u64>().expect("KiB")
    };
    let w = world("host", "");
    let scheduler = compute::Scheduler::on(&w.pool, compute::Place::Cpu).expect("a scheduler");
    let before = resident();
    let shape = compute::Shape { m: 1 << 27, k: 1 << 27, n: 1 }; // a result of 512 MiB
    assert!(matches!(scheduler.matmul(&[], &[], shape), Err(Error::Invalid(_))));
    assert!(scheduler.matmul_async(vec![], vec![], shape).is_err());
    let nearest = scheduler.nearest(&[1.0], &[1.0], 1, compute::Metric::L2, 1 << 26);
    assert!(matches!(nearest, Err(Error::Invalid(_))));
    assert!(resident() - before < 256 << 10, "{before} and then {} KiB", resident());
}

/// While the process ends, nothing is removed, and another thread may still be inside: the closure stays. In a process
/// of its own, which this test starts.
#[test]
fn a_callback_is_kept_while_the_process_ends() {
    const CHILD: &str = "RUST_TEST_ENDS";
    static GUARD: Mutex<Option<OutOfMemoryCallback>> = Mutex::new(None);
    struct Captured;
    impl Drop for Captured {
        fn drop(&mut self) {
            eprintln!("the closure is gone");
        }
    }
    extern "C" fn at_exit() {
        drop(GUARD.lock().expect("no panic").take().expect("a guard"));
        eprintln!("the guard is gone");
    }
    extern "C" {
        fn atexit(call: extern "C" fn()) -> i32;
    }
    if std::env::var_os(CHILD).is_some() {
        // SAFETY: a function of the C library; registered before the library's own, it is called after them.
        assert_eq!(unsafe { atexit(at_exit) }, 0);
        let w = world("host", "");
        let captured = Captured;
        let guard = w.device.on_out_of_memory(move |_| {
            let _ = &captured;
            0
        });
        *GUARD.lock().expect("no panic") = Some(guard.expect("a callback"));
        return;
    }
    let program = std::env::current_exe().expect("this program");
    let mut child = std::process::Command::new(program);
    child.args(["--exact", "a_callback_is_kept_while_the_process_ends", "--nocapture"]);
    let output = child.env(CHILD, "1").output().expect("a child");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("the guard is gone"), "{said}");
    assert!(!said.contains("the closure is gone"), "{said}");
}
