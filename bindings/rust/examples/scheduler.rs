// SPDX-License-Identifier: Apache-2.0
//! scheduler.rs: products with buffers from a pool, and results that arrive later: the code of document S0.
//!
//! cargo run --example scheduler --features compute
#![forbid(unsafe_code)]

use vram::compute::{Place, Scheduler, Shape};
use vram::{AsyncState, Context, Limits, Precision};

const SHAPE: Shape = Shape { m: 24, k: 32, n: 40 };

fn numbers(count: usize, seed: u32) -> Vec<f32> {
    let next = |x: u32| x.wrapping_mul(1664525).wrapping_add(1013904223);
    let all = std::iter::successors(Some(next(seed)), |&x| Some(next(x)));
    all.take(count).map(|x| (x >> 16) as f32 / 65536.0 - 0.5).collect()
}

fn is_product(a: &[f32], b: &[f32], c: &[f32]) -> bool {
    (0..SHAPE.m * SHAPE.n).all(|at| {
        let (row, column) = (at / SHAPE.n, at % SHAPE.n);
        let sum: f64 = (0..SHAPE.k)
            .map(|i| f64::from(a[row * SHAPE.k + i]) * f64::from(b[i * SHAPE.n + column]))
            .sum();
        (sum - f64::from(c[at])).abs() < 1e-4
    })
}

fn main() -> vram::Result<()> {
    // HybridScheduler::new: one call, with all it needs.
    let (a, b) = (numbers(SHAPE.m * SHAPE.k, 1), numbers(SHAPE.k * SHAPE.n, 2));
    assert!(is_product(&a, &b, &Scheduler::new()?.matmul(&a, &b, SHAPE)?));

    // The same with a pool of the program's own, whose limits can be set.
    let context = Context::new()?;
    let device = context.best_device()?;
    let pool = device.pool()?;
    // These products are too small for the scheduler's own rule to send them to a device.
    let scheduler = Scheduler::on(&pool, Place::Device)?;
    let (a2, b2) = (numbers(a.len(), 3), numbers(b.len(), 4));

    // Buffer pooling. First call: takes memory. Second call: reuses it.
    let result1 = scheduler.matmul(&a, &b, SHAPE)?;
    let first = scheduler.stats()?;
    let result2 = scheduler.matmul(&a2, &b2, SHAPE)?;
    let second = scheduler.stats()?;
    assert!(is_product(&a, &b, &result1) && is_product(&a2, &b2, &result2));
    assert_eq!((second.hits, second.misses), (first.hits + 3, first.misses));

    // Pool statistics.
    println!("Buffer pool statistics:");
    println!("  Hits: {}", second.hits); // reused buffers
    println!("  Misses: {}", second.misses); // new allocations
    println!("  Hit rate: {:.1}%", second.hit_rate * 100.0);

    // get_or_create(size): a buffer that was returned is found again. return_buffer: it is dropped.
    let queue = device.queue()?;
    let own = device.pool()?;
    let addr = own.buffer_of(&queue, a.len() as u64, Precision::Fp32)?.addr()?;
    assert_eq!(own.buffer_of(&queue, a.len() as u64, Precision::Fp32)?.addr()?, addr);
    assert_eq!((own.stats()?.hits, own.stats()?.misses), (1, 1));

    // Asynchronous operations. Start without blocking, do other work, wait when it is needed.
    let async_result = scheduler.matmul_async(a.clone(), b.clone(), SHAPE)?;
    let cpu_work: u64 = (0..1000).sum();
    let gpu_result = async_result.wait()?;
    println!("CPU work {cpu_work}, first element {:.4}", gpu_result[0]);
    if async_result.is_ready() {
        let result = async_result.try_get()?; // after the wait, without blocking, as often as one likes
        assert_eq!(result, Some(&result1));
    }
    assert_eq!(async_result.state()?, AsyncState::Ready);

    // Reuse buffers for repeated operations: one scheduler for the loop.
    let misses = scheduler.stats()?.misses;
    let batches: Vec<Vec<f32>> = (0..4).map(|seed| numbers(a.len(), 10 + seed)).collect();
    let mut single = Vec::new();
    for batch in &batches {
        single.push(scheduler.matmul(batch, &b, SHAPE)?);
    }
    assert_eq!(scheduler.stats()?.misses, misses);

    // Batch operations: the same results bit for bit, and the weights are sent once.
    let ops: Vec<_> = batches.iter().map(|input| (&input[..], &b[..], SHAPE)).collect();
    assert_eq!(scheduler.matmul_batch(&ops)?, single);
    println!("Weights sent once for {} products", scheduler.stats()?.shared_operands + 1);
    let weights = scheduler.weights(&b, SHAPE.k, SHAPE.n)?; // or once for the life of a model
    assert!(is_product(&a, &b, &scheduler.matmul(&a, &weights, SHAPE)?));

    // Pipeline parallelism: the device computes one batch while the CPU works on the one before.
    let mut previous = async_result.into_inner()?;
    let mut sums = Vec::new();
    for batch in batches {
        let gpu_future = scheduler.matmul_async(batch, weights.clone(), SHAPE)?;
        sums.push(previous.iter().sum::<f32>());
        previous = gpu_future.into_inner()?;
    }
    assert!(previous.iter().zip(&single[3]).all(|(one, other)| (one - other).abs() < 1e-4));
    println!("{} batches in a pipeline", sums.len());

    // A failure is a state of the result, with its text: here of a pool that may hold nothing.
    let small = device.pool()?;
    small.set_limits(&Limits::new().hard_bytes(1))?;
    let strict = Scheduler::on(&small, Place::Device)?;
    let failed = strict.matmul_async(a, b, SHAPE)?;
    while !failed.is_ready() {
        std::thread::yield_now();
    }
    assert_eq!(failed.state()?, AsyncState::Failed);
    println!("Without memory: {}", failed.wait().expect_err("it has failed").name());
    Ok(())
}
