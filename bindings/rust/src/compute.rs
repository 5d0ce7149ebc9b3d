// SPDX-License-Identifier: Apache-2.0
//! Matrix products and distances, on the device or on the CPU (feature `compute`, libvram-compute).

use std::any::Any;
use std::ptr;

use crate::async_result::AsyncResult;
use crate::buffer::numbered;
use crate::error::{check, made, sized, text_of, Error};
use crate::ffi;
use crate::pod::zeros;
use crate::pool::Pool;
use crate::queue::Queue;
use crate::Result;

numbered! {
    /// Where a product runs.
    Place: vram_place {
        /// By the rule of vram/compute.h.
        #[default]
        Auto = VRAM_PLACE_AUTO,
        /// On the CPU.
        Cpu = VRAM_PLACE_CPU,
        /// On the pool's device, whatever kind of device it is.
        Device = VRAM_PLACE_DEVICE,
    }
}

numbered! {
    /// How far two vectors are apart.
    Metric: vram_metric {
        /// The square of the Euclidean distance.
        #[default]
        L2Squared = VRAM_METRIC_L2_SQUARED,
        /// The Euclidean distance.
        L2 = VRAM_METRIC_L2,
        /// The inner product.
        InnerProduct = VRAM_METRIC_INNER_PRODUCT,
        /// One minus the cosine.
        Cosine = VRAM_METRIC_COSINE,
    }
}

/// Computes products with memory from a pool. One scheduler serves many products.
pub struct Scheduler {
    raw: *mut ffi::vram_scheduler,
    queue: Queue,
    _pool: Pool,
}

// SAFETY: a handle is a checked number; all calls may be made from any thread (vram/compute.h).
unsafe impl Send for Scheduler {}
unsafe impl Sync for Scheduler {}

impl Drop for Scheduler {
    fn drop(&mut self) {
        // SAFETY: the handle is ours. Products that were started finish or fail.
        unsafe { ffi::vram_scheduler_destroy(self.raw) };
    }
}

/// Rows and columns of a product: A has m x k elements, B k x n, and the product m x n, all row by row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Rows of A.
    pub m: usize,
    /// Columns of A, and rows of B.
    pub k: usize,
    /// Columns of B.
    pub n: usize,
}

impl Shape {
    fn elements(&self) -> Result<usize> {
        let product = self.m.checked_mul(self.n);
        product
            .ok_or_else(|| Error::invalid(format!("{} x {} elements are too many", self.m, self.n)))
    }

    /// A product of host memory, whose lengths the library checks against the shape.
    fn product(&self, a: &[f32], b: &[f32], c: &mut [f32]) -> ffi::vram_matmul {
        let mut raw: ffi::vram_matmul = sized();
        raw.m = self.m as u64;
        raw.k = self.k as u64;
        raw.n = self.n as u64;
        raw.a = a.as_ptr().cast();
        raw.b = b.as_ptr().cast();
        raw.c = c.as_mut_ptr();
        raw.a_elements = length(a);
        raw.b_elements = length(b);
        raw.c_elements = length(c);
        raw
    }
}

/// The library takes 0 for a length that is not checked.
fn length(data: &[f32]) -> u64 {
    if data.is_empty() {
        u64::MAX
    } else {
        data.len() as u64
    }
}

impl Scheduler {
    /// A scheduler for the pool's device.
    pub fn new(pool: &Pool, place: Place) -> Result<Scheduler> {
        let mut options: ffi::vram_scheduler_options = sized();
        options.place = place.raw();
        let queue = pool.device().queue()?;
        // SAFETY: a valid handle; the options outlive the call.
        let raw = made(ptr::null_mut(), |out| unsafe {
            ffi::vram_scheduler_create(pool.raw(), &options, out)
        })?;
        Ok(Scheduler { raw, queue, _pool: pool.clone() })
    }

    /// The product of A and B. Waits for it.
    ///
    /// If the device does not finish within the option `wait_timeout`, the process is aborted, because the device may
    /// still read A and B. [`Scheduler::matmul_async`] owns them instead.
    pub fn matmul(&self, a: &[f32], b: &[f32], shape: Shape) -> Result<Vec<f32>> {
        let mut c = zeros(shape.elements()?)?;
        let product = shape.product(a, b, &mut c);
        // SAFETY: all three are borrowed or ours until the product is over.
        over(unsafe { ffi::vram_matmul_run(self.raw, &product) })?;
        Ok(c)
    }

    /// Starts a product on a thread of the scheduler. The result owns A and B until it is complete, and gives C.
    pub fn matmul_async(
        &self,
        a: Vec<f32>,
        b: Vec<f32>,
        shape: Shape,
    ) -> Result<AsyncResult<Vec<f32>>> {
        let mut c: Vec<f32> = zeros(shape.elements()?)?;
        let product = shape.product(&a, &b, &mut c);
        let used: Box<dyn Any + Send + Sync> = Box::new((a, b));
        AsyncResult::start(&self.queue, c, Some(used), |_, raw| {
            // SAFETY: the result owns all three, and moving a vector does not move its elements.
            unsafe { ffi::vram_matmul_start(self.raw, &product, raw) }
        })
    }

    /// Many products at once, with transfers and work overlapped. The results are those of [`Scheduler::matmul`] bit
    /// for bit. Waits, as that does.
    pub fn matmul_batch(&self, operands: &[(&[f32], &[f32], Shape)]) -> Result<Vec<Vec<f32>>> {
        let mut results: Vec<Vec<f32>> =
            operands.iter().map(|(_, _, shape)| zeros(shape.elements()?)).collect::<Result<_>>()?;
        let products: Vec<ffi::vram_matmul> = operands
            .iter()
            .zip(&mut results)
            .map(|((a, b, shape), c)| shape.product(a, b, c))
            .collect();
        // SAFETY: as for a single product.
        over(unsafe { ffi::vram_matmul_batch(self.raw, products.as_ptr(), products.len()) })?;
        Ok(results)
    }

    /// The `k` vectors of `corpus` that are nearest to each query, and their distances: `queries * k` of each, the
    /// nearest first. Vectors are rows of `dim` numbers. Waits, as [`Scheduler::matmul`] does.
    pub fn nearest(
        &self,
        query: &[f32],
        corpus: &[f32],
        dim: usize,
        metric: Metric,
        k: usize,
    ) -> Result<(Vec<f32>, Vec<u64>)> {
        let mut raw = distance(query, corpus, dim, metric)?;
        let count = (raw.queries as usize).checked_mul(k);
        let count = count.ok_or_else(|| Error::invalid(format!("k is {k}")))?;
        let (mut best, mut best_at): (Vec<f32>, Vec<u64>) = (zeros(count)?, zeros(count)?);
        raw.k = k as u64;
        raw.best = best.as_mut_ptr();
        raw.best_at = best_at.as_mut_ptr();
        // SAFETY: borrowed or ours until the search is over; the lengths follow from the shape.
        over(unsafe { ffi::vram_distance_run(self.raw, &raw) })?;
        Ok((best, best_at))
    }

    /// The distances of all queries to all vectors, row by row. Waits, as [`Scheduler::matmul`] does.
    pub fn distances(
        &self,
        query: &[f32],
        corpus: &[f32],
        dim: usize,
        metric: Metric,
    ) -> Result<Vec<f32>> {
        let mut raw = distance(query, corpus, dim, metric)?;
        let count = (raw.queries as usize).checked_mul(raw.vectors as usize);
        let count = count.ok_or_else(|| Error::invalid("too many distances"))?;
        let mut distances: Vec<f32> = zeros(count)?;
        raw.distances = distances.as_mut_ptr();
        raw.distance_elements = count as u64;
        // SAFETY: as above.
        over(unsafe { ffi::vram_distance_run(self.raw, &raw) })?;
        Ok(distances)
    }

    /// What it has done.
    pub fn stats(&self) -> Result<SchedulerStats> {
        // SAFETY: a valid handle, and an out-parameter of the right size.
        let raw: ffi::vram_scheduler_stats =
            made(sized(), |stats| unsafe { ffi::vram_scheduler_stats_get(self.raw, stats) })?;
        Ok(SchedulerStats {
            products: raw.products,
            device_products: raw.device_products,
            cpu_fallbacks: raw.cpu_fallbacks,
            hits: raw.hits,
            misses: raw.misses,
            hit_rate: raw.hit_rate,
            shared_operands: raw.shared_operands,
            reason: unsafe { text_of(ffi::vram_reason_text(raw.last_reason)) }, // SAFETY: static
        })
    }
}

/// What a scheduler has done.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SchedulerStats {
    /// Products that were computed.
    pub products: u64,
    /// Of these, on the device.
    pub device_products: u64,
    /// Of those on the CPU, because device memory ran out.
    pub cpu_fallbacks: u64,
    /// Blocks for operands and results in memory that the pool held already.
    pub hits: u64,
    /// Blocks for which it had to ask the driver.
    pub misses: u64,
    /// hits / (hits + misses), 0 to 1; 0 before the first.
    pub hit_rate: f64,
    /// Times that a batch did not upload B again.
    pub shared_operands: u64,
    /// Why the last product ran where it did.
    pub reason: String,
}

fn distance(
    query: &[f32],
    corpus: &[f32],
    dim: usize,
    metric: Metric,
) -> Result<ffi::vram_distance> {
    if dim == 0 || query.len() % dim != 0 || corpus.len() % dim != 0 {
        let (queries, vectors) = (query.len(), corpus.len());
        return Err(Error::invalid(format!(
            "{queries} and {vectors} numbers are not rows of {dim}"
        )));
    }
    let mut raw: ffi::vram_distance = sized();
    raw.queries = (query.len() / dim) as u64;
    raw.vectors = (corpus.len() / dim) as u64;
    raw.dim = dim as u64;
    raw.query = query.as_ptr();
    raw.corpus = corpus.as_ptr();
    raw.query_elements = length(query);
    raw.corpus_elements = length(corpus);
    raw.metric = metric.raw();
    Ok(raw)
}

/// The end of a call that lent borrowed memory: only after a timeout may the device still use it (vram/compute.h).
fn over(status: ffi::vram_status) -> Result<()> {
    let result = check(status);
    if let Err(error @ Error::Timeout(_)) = &result {
        eprintln!(
            "vram: a product did not end, and the device may still use its operands: {error}"
        );
        std::process::abort();
    }
    result
}
