// SPDX-License-Identifier: Apache-2.0
//! Work that does not end in time. A program of its own: the option that makes it so concerns all contexts.
#![cfg(feature = "compute")]

mod world;

use std::time::{Duration, Instant};

use vram::*;
use world::world;

/// Work that has failed with a timeout is an error, not something to wait for again and again.
#[test]
fn work_that_timed_out_has_failed() {
    set_option("wait_timeout", Some("1ns")).expect("an option");
    let w = world("sim", "memory=256M,real=on,lag=10000");
    set_option("wait_timeout", None).expect("an option");
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
