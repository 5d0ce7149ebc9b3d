// SPDX-License-Identifier: Apache-2.0
//! cost.rs: what a block and a buffer cost through the crate, beside the same calls of the C API; and what counted
//! references would add to a block, which therefore borrows.
//!
//! cargo run --release --example cost

use std::time::Instant;

use vram::{ffi, Context};

const PAIRS: u32 = 20_000;

/// The least of many rounds, in nanoseconds a pair, in turns: what else the machine does only adds.
fn least<const N: usize>(rounds: &mut [Box<dyn FnMut() + '_>; N]) -> [f64; N] {
    let mut best = [f64::INFINITY; N];
    for _ in 0..50 {
        for (at, round) in rounds.iter_mut().enumerate() {
            let start = Instant::now();
            round();
            best[at] = best[at].min(start.elapsed().as_nanos() as f64 / f64::from(PAIRS));
        }
    }
    best
}

fn main() -> vram::Result<()> {
    let context = Context::new()?;
    let device = context.best_device()?;
    let (queue, pool) = (device.queue()?, device.pool()?);
    let (raw_pool, raw_queue) = (pool.raw(), queue.raw());
    let mut rounds: [Box<dyn FnMut() + '_>; 4] = [
        Box::new(|| {
            for _ in 0..PAIRS {
                let mut addr = 0;
                // SAFETY: valid handles.
                unsafe {
                    assert_eq!(ffi::vram_alloc(raw_pool, 4096, raw_queue, &mut addr), 0);
                    ffi::vram_free(addr, raw_queue);
                }
            }
        }),
        Box::new(|| (0..PAIRS).for_each(|_| drop(pool.alloc(&queue, 4096).expect("a block")))),
        Box::new(|| {
            for _ in 0..PAIRS {
                let mut buffer = std::ptr::null_mut();
                let none = std::ptr::null();
                // SAFETY: valid handles.
                unsafe {
                    assert_eq!(
                        ffi::vram_buffer_create(raw_pool, 4096, raw_queue, none, &mut buffer),
                        0
                    );
                    ffi::vram_buffer_destroy(buffer);
                }
            }
        }),
        Box::new(|| (0..PAIRS).for_each(|_| drop(pool.buffer(&queue, 4096).expect("a buffer")))),
    ];
    let [block_c, block, buffer_c, buffer] = least(&mut rounds);
    let counted = |threads: u32| {
        let mut rounds: [Box<dyn FnMut() + '_>; 1] = [Box::new(|| {
            std::thread::scope(|scope| {
                for _ in 0..threads {
                    scope.spawn(|| (0..PAIRS).for_each(|_| drop((pool.clone(), queue.clone()))));
                }
            });
        })];
        least(&mut rounds)[0]
    };
    println!(
        "counted references to pool and queue: {:.1} ns, on two threads {:.1}",
        counted(1),
        counted(2)
    );
    println!("a block:  {block:.1} ns a pair, in C {block_c:.1}");
    println!("a buffer: {buffer:.1} ns a pair, in C {buffer_c:.1}");
    Ok(())
}
