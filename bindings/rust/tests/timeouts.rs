// SPDX-License-Identifier: Apache-2.0
//! Work that does not end in time. A program of its own: the option that makes it so concerns all contexts.
#![cfg(feature = "compute")]

mod world;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use vram::*;
use world::world;

/// A context whose waits end after that time.
fn impatient(time: &str, backend: &'static str, sim: &str) -> world::World {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().expect("no panic");
    set_option("wait_timeout", Some(time)).expect("an option");
    let w = world(backend, sim);
    set_option("wait_timeout", None).expect("an option");
    w
}

/// A kernel that does not end keeps the ring's memory, whoever has dropped the ring.
#[test]
fn a_kernel_that_stays_keeps_its_ring() {
    static DROPPED: AtomicBool = AtomicBool::new(false);
    static SENT: AtomicU64 = AtomicU64::new(0);
    fn stays(peer: &mut RingPeer<'_>) -> Result<()> {
        while !DROPPED.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        while peer.send(&[7u64; 8], 0)? {
            SENT.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    }
    let w = impatient("1ms", "host", "");
    let kernel = RingKernel::new(&w.device, "stays", stays).expect("a kernel");
    let ring = w.pool.ring(&RingOptions::default()).expect("a ring");
    ring.launch(&kernel).expect("launched");
    let bytes = ring.info().expect("info").bytes;
    drop((ring, kernel));
    let queue = w.device.queue().expect("a queue");
    let mut others: Vec<_> =
        (0..4).map(|_| w.pool.alloc(&queue, bytes).expect("a block")).collect();
    others.iter_mut().for_each(|block| block.fill(0x11).expect("fill"));
    queue.wait_for(Duration::from_secs(60)).expect("filled");
    DROPPED.store(true, Ordering::SeqCst);
    let start = Instant::now();
    while SENT.load(Ordering::SeqCst) < 4096 {
        assert!(start.elapsed() < Duration::from_secs(60), "it does not go on");
        std::thread::yield_now();
    }
    for block in others {
        assert!(block.download::<u8>().expect("contents").iter().all(|byte| *byte == 0x11));
    }
}

/// Work that has failed with a timeout is an error, not something to wait for again and again.
#[test]
fn work_that_timed_out_has_failed() {
    let w = impatient("1ns", "sim", "memory=256M,real=on,lag=10000");
    let scheduler = compute::Scheduler::on(&w.pool, compute::Place::Device).expect("a scheduler");
    let shape = compute::Shape { m: 64, k: 64, n: 64 };
    let product = scheduler.matmul_async(vec![1.0; 4096], vec![1.0; 4096], shape);
    let product = product.expect("a product");
    let start = Instant::now();
    let ended = loop {
        match product.wait_for(Duration::from_millis(1)) {
            Ok(false) => assert!(start.elapsed() < Duration::from_secs(10), "it never ends"),
            ended => break ended,
        }
    };
    assert!(matches!(ended, Err(Error::Timeout(_))), "{ended:?}");
}
