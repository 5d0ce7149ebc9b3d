// SPDX-License-Identifier: Apache-2.0
//! Matrix products and distances, on the device or on the CPU (feature `compute`, libvram-compute).

use std::any::Any;
use std::cell::Cell;
use std::ops::Deref;
use std::os::raw::c_void;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::ptr;
use std::sync::Arc;

use crate::async_result::{Alive, AsyncResult};
use crate::buffer::{numbered, Precision};
use crate::context::Context;
use crate::error::{check, made, sized, text_of, Error};
use crate::ffi;
use crate::pod::zeros;
use crate::pool::Pool;
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
///
/// It ends when its value, its weights and all results from it are gone.
pub struct Scheduler(Arc<SchedulerInner>);

struct SchedulerInner {
    raw: *mut ffi::vram_scheduler,
    _pool: Option<Pool>, // None: it has one of its own
}

// SAFETY: a handle is a checked number; all calls may be made from any thread (vram/compute.h).
unsafe impl Send for SchedulerInner {}
unsafe impl Sync for SchedulerInner {}

impl Drop for SchedulerInner {
    fn drop(&mut self) {
        // SAFETY: the handle is ours. Products that were started finish or fail.
        unsafe { ffi::vram_scheduler_destroy(self.raw) };
    }
}

/// A matrix B that stays where products need it: on the device, unless products are computed on the CPU alone.
///
/// Clones are the same weights. Made by [`Scheduler::weights`].
#[derive(Clone)]
pub struct Weights(Arc<WeightsInner>);

struct WeightsInner {
    raw: *mut ffi::vram_weights,
    _scheduler: Arc<SchedulerInner>, // dropped after the weights were destroyed
}

// SAFETY: as above.
unsafe impl Send for WeightsInner {}
unsafe impl Sync for WeightsInner {}

impl Drop for WeightsInner {
    fn drop(&mut self) {
        // SAFETY: the handle is ours; the library waits for products that use them.
        unsafe { ffi::vram_weights_destroy(self.raw) };
    }
}

/// The matrix B of a product: numbers in host memory, or weights.
#[derive(Clone, Copy)]
pub enum Factor<'a> {
    /// k * n numbers, row by row.
    Host(&'a [f32]),
    /// Of the same scheduler.
    Weights(&'a Weights),
}

impl<'a> From<&'a [f32]> for Factor<'a> {
    fn from(numbers: &'a [f32]) -> Factor<'a> {
        Factor::Host(numbers)
    }
}

impl<'a, const N: usize> From<&'a [f32; N]> for Factor<'a> {
    fn from(numbers: &'a [f32; N]) -> Factor<'a> {
        Factor::Host(numbers)
    }
}

impl<'a> From<&'a Vec<f32>> for Factor<'a> {
    fn from(numbers: &'a Vec<f32>) -> Factor<'a> {
        Factor::Host(numbers)
    }
}

impl<'a> From<&'a Weights> for Factor<'a> {
    fn from(weights: &'a Weights) -> Factor<'a> {
        Factor::Weights(weights)
    }
}

/// The matrix B of a product in the background, which the result owns.
#[derive(Clone)]
pub enum OwnedFactor {
    /// k * n numbers, row by row.
    Host(Vec<f32>),
    /// Of the same scheduler.
    Weights(Weights),
}

impl From<Vec<f32>> for OwnedFactor {
    fn from(numbers: Vec<f32>) -> OwnedFactor {
        OwnedFactor::Host(numbers)
    }
}

impl From<Weights> for OwnedFactor {
    fn from(weights: Weights) -> OwnedFactor {
        OwnedFactor::Weights(weights)
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
    fn product(&self, a: &[f32], b: Factor<'_>, c: &mut [f32]) -> ffi::vram_matmul {
        let mut raw: ffi::vram_matmul = sized();
        raw.m = self.m as u64;
        raw.k = self.k as u64;
        raw.n = self.n as u64;
        raw.a = a.as_ptr().cast();
        raw.c = c.as_mut_ptr();
        raw.a_elements = length(a);
        raw.c_elements = length(c);
        match b {
            Factor::Host(b) => {
                raw.b = b.as_ptr().cast();
                raw.b_elements = length(b);
            }
            Factor::Weights(weights) => raw.weights = weights.0.raw,
        }
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
    /// A scheduler on the best device, with a context, a pool and queues of its own: for programs that use nothing else
    /// of the library.
    ///
    /// ```
    /// # fn main() -> vram::Result<()> {
    /// use vram::compute::{Scheduler, Shape};
    /// let scheduler = Scheduler::new()?;
    /// let shape = Shape { m: 1, k: 2, n: 1 };
    /// assert_eq!(scheduler.matmul(&[1.0, 2.0], &[3.0, 4.0], shape)?, [11.0]);
    /// # Ok(()) }
    /// ```
    pub fn new() -> Result<Scheduler> {
        Scheduler::create(None, Place::Auto)
    }

    /// A scheduler for the pool's device, with memory from the pool.
    pub fn on(pool: &Pool, place: Place) -> Result<Scheduler> {
        Scheduler::create(Some(pool), place)
    }

    fn create(pool: Option<&Pool>, place: Place) -> Result<Scheduler> {
        let mut options: ffi::vram_scheduler_options = sized();
        options.place = place.raw();
        // SAFETY: a valid handle, or none; the options outlive the call.
        let raw = made(ptr::null_mut(), |out| unsafe {
            ffi::vram_scheduler_create(pool.map_or(ptr::null_mut(), Pool::raw), &options, out)
        })?;
        Ok(Scheduler(Arc::new(SchedulerInner { raw, _pool: pool.cloned() })))
    }

    fn raw(&self) -> *mut ffi::vram_scheduler {
        self.0.raw
    }

    /// Copies a matrix B of k * n numbers to where products need it, for as long as the weights live. Waits, as
    /// [`Scheduler::matmul`] does.
    pub fn weights(&self, b: &[f32], k: usize, n: usize) -> Result<Weights> {
        let mut options: ffi::vram_weights_options = sized();
        options.k = k as u64;
        options.n = n as u64;
        options.b = b.as_ptr().cast();
        options.b_elements = length(b);
        let mut raw = ptr::null_mut();
        // SAFETY: a valid handle and an out-parameter; the numbers are borrowed until the copy is over.
        over(unsafe { ffi::vram_weights_create(self.raw(), &options, &mut raw) })?;
        Ok(Weights(Arc::new(WeightsInner { raw, _scheduler: self.0.clone() })))
    }

    /// The product of A and B. Waits for it.
    ///
    /// If the device does not finish within the option `wait_timeout`, the process is aborted, because the device may
    /// still read A and B. [`Scheduler::matmul_async`] owns them instead.
    pub fn matmul<'a>(
        &self,
        a: &[f32],
        b: impl Into<Factor<'a>>,
        shape: Shape,
    ) -> Result<Vec<f32>> {
        let mut c = zeros(shape.elements()?)?;
        let product = shape.product(a, b.into(), &mut c);
        // SAFETY: all three are borrowed or ours until the product is over.
        over(unsafe { ffi::vram_matmul_run(self.raw(), &product) })?;
        Ok(c)
    }

    /// Starts a product on a thread of the scheduler. The result owns A and B until it is complete, and gives C.
    pub fn matmul_async(
        &self,
        a: Vec<f32>,
        b: impl Into<OwnedFactor>,
        shape: Shape,
    ) -> Result<AsyncResult<Vec<f32>>> {
        let mut c: Vec<f32> = zeros(shape.elements()?)?;
        let mut raw = ffi::vram_async { word: [0; 4] };
        let b = b.into();
        let product = match &b {
            OwnedFactor::Host(b) => shape.product(&a, b.into(), &mut c),
            OwnedFactor::Weights(weights) => shape.product(&a, weights.into(), &mut c),
        };
        // SAFETY: the result owns all three, and moving a vector does not move its elements. What fails here has not
        // been started.
        check(unsafe { ffi::vram_matmul_start(self.raw(), &product, &mut raw) })?;
        // Weights end the scheduler, perhaps, which a thread of the scheduler must not: so the result keeps them, not
        // the memory that a callback may free.
        let (used, alive): (Box<dyn Any + Send + Sync>, Alive) = match b {
            OwnedFactor::Host(b) => (Box::new((a, b)), self.0.clone()),
            OwnedFactor::Weights(weights) => (Box::new(a), weights.0),
        };
        Ok(AsyncResult::of_raw(raw, c, Some(used), alive))
    }

    /// Many products at once, with transfers and work overlapped. The results are those of [`Scheduler::matmul`] bit
    /// for bit. Waits, as that does.
    pub fn matmul_batch<'a, B: Into<Factor<'a>> + Copy>(
        &self,
        operands: &[(&[f32], B, Shape)],
    ) -> Result<Vec<Vec<f32>>> {
        let mut results: Vec<Vec<f32>> =
            operands.iter().map(|(_, _, shape)| zeros(shape.elements()?)).collect::<Result<_>>()?;
        let products: Vec<ffi::vram_matmul> = operands
            .iter()
            .zip(&mut results)
            .map(|((a, b, shape), c)| shape.product(a, (*b).into(), c))
            .collect();
        // SAFETY: as for a single product.
        over(unsafe { ffi::vram_matmul_batch(self.raw(), products.as_ptr(), products.len()) })?;
        Ok(results)
    }

    /// The `k` vectors of `corpus` that are nearest to each query, and their distances: `queries * k` of each, the
    /// nearest first. Vectors are rows of `dim` numbers. Waits, as [`Scheduler::matmul`] does.
    pub fn nearest<'a>(
        &self,
        query: &[f32],
        corpus: &[f32],
        dim: usize,
        options: impl Into<DistanceOptions<'a>>,
        k: usize,
    ) -> Result<(Vec<f32>, Vec<u64>)> {
        // SAFETY: a valid handle.
        nearest_by(query, corpus, dim, options.into(), k, |raw| unsafe {
            ffi::vram_distance_run(self.raw(), raw)
        })
    }

    /// The distances of all queries to all vectors, row by row. Waits, as [`Scheduler::matmul`] does.
    pub fn distances<'a>(
        &self,
        query: &[f32],
        corpus: &[f32],
        dim: usize,
        options: impl Into<DistanceOptions<'a>>,
    ) -> Result<Vec<f32>> {
        // SAFETY: a valid handle.
        distances_by(query, corpus, dim, options.into(), |raw| unsafe {
            ffi::vram_distance_run(self.raw(), raw)
        })
    }

    /// What it has done.
    pub fn stats(&self) -> Result<SchedulerStats> {
        // SAFETY: a valid handle, and an out-parameter of the right size.
        let raw: ffi::vram_scheduler_stats =
            made(sized(), |stats| unsafe { ffi::vram_scheduler_stats_get(self.raw(), stats) })?;
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

numbered! {
    /// What infinities and NaNs are, in the precision of the computation.
    Nonfinite: vram_nonfinite {
        /// A mistake: [`Error::Invalid`] has the position of the first.
        #[default]
        Reject = VRAM_NONFINITE_REJECT,
        /// Zeros.
        Zero = VRAM_NONFINITE_ZERO,
    }
}

/// How distances are computed. Made from a [`Metric`], they are of single precision:
///
/// ```
/// use vram::compute::{DistanceOptions, Metric};
/// use vram::Precision;
/// let halves = DistanceOptions { precision: Precision::Fp16, ..Metric::L2.into() };
/// ```
#[derive(Clone, Debug, Default)]
pub struct DistanceOptions<'a> {
    /// How far two vectors are apart.
    pub metric: Metric,
    /// What the numbers are converted to first: [`Precision::Fp32`], which is also that of the default, Fp16 or Int8.
    pub precision: Precision,
    /// What infinities and NaNs are.
    pub nonfinite: Nonfinite,
    /// Where it runs; [`Place::Auto`]: as the scheduler says.
    pub place: Place,
    /// Of Int8: x is x * scale, rounded; 0: 127, for numbers within -1 and 1.
    pub scale: f32,
    /// Of Int8: set to how many values were clamped to -128 and 127. None: such a value is [`Error::Invalid`].
    pub saturated: Option<&'a Cell<u64>>,
}

impl From<Metric> for DistanceOptions<'_> {
    fn from(metric: Metric) -> Self {
        DistanceOptions { metric, ..DistanceOptions::default() }
    }
}

/// [`Scheduler::nearest`] on device number `device` of a context, for programs that do it once.
pub fn nearest<'a>(
    context: &Context,
    device: u32,
    query: &[f32],
    corpus: &[f32],
    dim: usize,
    options: impl Into<DistanceOptions<'a>>,
    k: usize,
) -> Result<(Vec<f32>, Vec<u64>)> {
    // SAFETY: a valid handle.
    nearest_by(query, corpus, dim, options.into(), k, |raw| unsafe {
        ffi::vram_distance_on(context.raw(), device, raw)
    })
}

/// [`Scheduler::distances`] on device number `device` of a context, for programs that do it once.
pub fn distances<'a>(
    context: &Context,
    device: u32,
    query: &[f32],
    corpus: &[f32],
    dim: usize,
    options: impl Into<DistanceOptions<'a>>,
) -> Result<Vec<f32>> {
    // SAFETY: a valid handle.
    distances_by(query, corpus, dim, options.into(), |raw| unsafe {
        ffi::vram_distance_on(context.raw(), device, raw)
    })
}

/// [`Scheduler::nearest`] on several devices in parallel, each with a part of the corpus. One may be named twice.
pub fn nearest_split<'a>(
    schedulers: &[&Scheduler],
    query: &[f32],
    corpus: &[f32],
    dim: usize,
    options: impl Into<DistanceOptions<'a>>,
    k: usize,
) -> Result<(Vec<f32>, Vec<u64>)> {
    let raws: Vec<_> = schedulers.iter().map(|scheduler| scheduler.raw()).collect();
    // SAFETY: valid handles.
    nearest_by(query, corpus, dim, options.into(), k, |raw| unsafe {
        ffi::vram_distance_split(raws.as_ptr(), raws.len(), raw)
    })
}

fn nearest_by(
    query: &[f32],
    corpus: &[f32],
    dim: usize,
    options: DistanceOptions<'_>,
    k: usize,
    run: impl FnOnce(&ffi::vram_distance) -> ffi::vram_status,
) -> Result<(Vec<f32>, Vec<u64>)> {
    let mut raw = distance(query, corpus, dim, &options)?;
    let count = (raw.queries as usize).checked_mul(k);
    let count = count.ok_or_else(|| Error::invalid(format!("k is {k}")))?;
    let (mut best, mut best_at): (Vec<f32>, Vec<u64>) = (zeros(count)?, zeros(count)?);
    raw.k = k as u64;
    raw.best = best.as_mut_ptr();
    raw.best_at = best_at.as_mut_ptr();
    computed(raw, &options, run)?;
    Ok((best, best_at))
}

fn distances_by(
    query: &[f32],
    corpus: &[f32],
    dim: usize,
    options: DistanceOptions<'_>,
    run: impl FnOnce(&ffi::vram_distance) -> ffi::vram_status,
) -> Result<Vec<f32>> {
    let mut raw = distance(query, corpus, dim, &options)?;
    let count = (raw.queries as usize).checked_mul(raw.vectors as usize);
    let count = count.ok_or_else(|| Error::invalid("too many distances"))?;
    let mut distances: Vec<f32> = zeros(count)?;
    raw.distances = distances.as_mut_ptr();
    raw.distance_elements = count as u64;
    computed(raw, &options, run)?;
    Ok(distances)
}

/// Runs a computation whose vectors are borrowed and whose results are the caller's until it is over; the lengths follow
/// from the shape.
fn computed(
    mut raw: ffi::vram_distance,
    options: &DistanceOptions<'_>,
    run: impl FnOnce(&ffi::vram_distance) -> ffi::vram_status,
) -> Result<()> {
    let mut saturated = 0;
    if options.saturated.is_some() {
        raw.saturated = &mut saturated;
    }
    over(run(&raw))?;
    if let Some(cell) = options.saturated {
        cell.set(saturated);
    }
    Ok(())
}

fn distance(
    query: &[f32],
    corpus: &[f32],
    dim: usize,
    options: &DistanceOptions<'_>,
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
    raw.metric = options.metric.raw();
    raw.precision = options.precision.raw();
    raw.nonfinite = options.nonfinite.raw();
    raw.place = options.place.raw();
    raw.scale = options.scale;
    Ok(raw)
}

/// A cache of label mappings, found by the contents of the labels: those with gaps (3, 17, 40) become dense ones once.
///
/// ```
/// # fn main() -> vram::Result<()> {
/// use vram::compute::Labels;
/// let cache = Labels::new(0, 0)?; // 1000 mappings, 64 MiB
/// let dense = |labels: &[i32], mapping: &mut [i32]| {
///     let mut seen = Vec::new();
///     for (label, place) in labels.iter().zip(mapping) {
///         let known = seen.iter().position(|known| known == label);
///         *place = known.unwrap_or(seen.len()) as i32;
///         if known.is_none() {
///             seen.push(*label);
///         }
///     }
///     Ok(labels.len())
/// };
/// assert_eq!(cache.get(&[3, 17, 3, 40], 4, dense)?, [0, 1, 0, 2]);
/// # Ok(()) }
/// ```
pub struct Labels(*mut ffi::vram_labels);

// SAFETY: a handle is a checked number; all calls may be made from any thread (vram/labels.h).
unsafe impl Send for Labels {}
unsafe impl Sync for Labels {}

impl Drop for Labels {
    fn drop(&mut self) {
        // SAFETY: the handle is ours.
        unsafe { ffi::vram_labels_destroy(self.0) };
    }
}

impl Labels {
    /// An empty cache of at most so many mappings (0: 1000) and bytes of host memory (0: 64 MiB).
    pub fn new(entries: u64, max_bytes: u64) -> Result<Labels> {
        let mut options: ffi::vram_labels_options = sized();
        options.entries = entries;
        options.max_bytes = max_bytes;
        // SAFETY: the options outlive the call.
        made(ptr::null_mut(), |out| unsafe { ffi::vram_labels_create(&options, out) }).map(Labels)
    }

    /// The mapping of `labels`: from the cache, or else from `compute`, which writes at most `room` numbers and says how
    /// many. It may use the library. If it fails nothing is stored, and its error is returned; a panic in it goes on in
    /// the caller.
    pub fn get<F>(&self, labels: &[i32], room: usize, compute: F) -> Result<Vec<i32>>
    where
        F: FnOnce(&[i32], &mut [i32]) -> Result<usize>,
    {
        let mut mapping: Vec<i32> = zeros(room)?;
        let mut call = Compute { compute: Some(compute), ended: None };
        let mut mapped = 0;
        // SAFETY: the labels are borrowed, and the call and the mapping outlive the library's.
        let status = unsafe {
            ffi::vram_labels_get(
                self.0,
                labels.as_ptr(),
                labels.len(),
                Some(compute_labels::<F>),
                (&mut call as *mut Compute<F>).cast(),
                mapping.as_mut_ptr(),
                room,
                &mut mapped,
            )
        };
        match call.ended {
            Some(Err(panic)) => resume_unwind(panic),
            Some(Ok(Err(error))) => return Err(error),
            _ => check(status)?,
        }
        mapping.truncate(mapped);
        Ok(mapping)
    }

    /// Removes all mappings; how many bytes they had.
    pub fn clear(&self) -> Result<u64> {
        // SAFETY: a valid handle and an out-parameter.
        made(0, |bytes| unsafe { ffi::vram_labels_clear(self.0, bytes) })
    }

    /// What it holds and has done.
    pub fn info(&self) -> Result<LabelsInfo> {
        // SAFETY: a valid handle, and an out-parameter of the right size.
        made(sized(), |info| unsafe { ffi::vram_labels_info_get(self.0, info) }).map(LabelsInfo)
    }
}

crate::pool::counted! {
    /// What a cache of labels holds and has done: the fields of `vram_labels_info` (vram/labels.h).
    LabelsInfo: vram_labels_info;
}

struct Compute<F> {
    compute: Option<F>,
    ended: Option<std::thread::Result<Result<()>>>,
}

unsafe extern "C" fn compute_labels<F>(
    user: *mut c_void,
    labels: *const i32,
    count: usize,
    mapping: *mut i32,
    room: usize,
    mapped: *mut usize,
) -> ffi::vram_status
where
    F: FnOnce(&[i32], &mut [i32]) -> Result<usize>,
{
    let call = &mut *user.cast::<Compute<F>>();
    let labels = if count == 0 { &[] } else { std::slice::from_raw_parts(labels, count) };
    let numbers = if room == 0 { &mut [] } else { std::slice::from_raw_parts_mut(mapping, room) };
    let compute = call.compute.take();
    let ended = catch_unwind(AssertUnwindSafe(|| match compute {
        Some(compute) => compute(labels, numbers),
        None => Err(Error::invalid("the mapping was computed before")),
    }));
    let (status, ended) = match ended {
        Ok(Ok(count)) => {
            *mapped = count;
            (ffi::VRAM_OK, Ok(Ok(())))
        }
        Ok(Err(error)) => (error.status(), Ok(Err(error))),
        Err(panic) => (ffi::VRAM_ERR_CORRUPT, Err(panic)),
    };
    call.ended = Some(ended);
    status
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
