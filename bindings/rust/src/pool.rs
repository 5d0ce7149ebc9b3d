// SPDX-License-Identifier: Apache-2.0
//! Pools, and what they count.

use std::ops::Deref;
use std::ptr;
use std::sync::{Arc, Mutex};

use crate::batch::Batch;
use crate::block::{AllocOptions, Block};
use crate::buffer::{Buffer, BufferOptions, MemoryKind, Precision};
use crate::device::Device;
use crate::error::{c_option, check, known, locked, made, pointer_of, sized, written};
use crate::ffi;
use crate::limits::Limits;
use crate::named::{Named, NamedOptions};
use crate::provider::{Provider, Served};
use crate::queue::Queue;
use crate::ring::{Ring, RingOptions};
use crate::scope::Scope;
use crate::Result;

/// What a pool is. Empty: device memory, with the limits and settings of the process's options.
#[derive(Clone, Debug, Default)]
pub struct PoolOptions<'a> {
    /// For reports.
    pub name: Option<&'a str>,
    /// Its own limits.
    pub limits: Option<Limits>,
    /// The memory that its blocks are of: the device's, page-locked, or managed. With a provider, `Device` is what
    /// [`Provider::kind`] says.
    pub kind: MemoryKind,
    /// Memory of the program's own instead.
    pub provider: Option<Arc<dyn Provider>>,
    /// Addresses depend on the order of calls alone.
    pub deterministic: bool,
    /// Requests are rounded up to powers of two, as pools of buckets do.
    pub power_of_two: bool,
    /// A record of every live block, for [`Pool::live`] and leak reports.
    pub tracked: bool,
    /// New blocks are filled with zeros.
    pub zero_alloc: bool,
}

/// Allocation in nanoseconds, from memory that stays close to what the program uses.
///
/// Clones are the same pool. It ends when the last clone and all buffers, batches, scopes and rings from it are gone.
#[derive(Clone)]
pub struct Pool(Arc<PoolInner>);

struct PoolInner {
    raw: *mut ffi::vram_pool,
    served: Mutex<Vec<Arc<Served>>>, // by its provider and its buffers'; dropped after the pool was destroyed,
    device: Device,                  // as is this
}

// SAFETY: a handle is a checked number; any call may be made from any thread (vram/base.h).
unsafe impl Send for PoolInner {}
unsafe impl Sync for PoolInner {}

impl Drop for PoolInner {
    fn drop(&mut self) {
        // SAFETY: the handle is ours.
        unsafe { ffi::vram_pool_destroy(self.raw) };
    }
}

/// What was asked for; by default, what the provider serves.
pub(crate) fn served_kind(asked: MemoryKind, served: &Option<Arc<Served>>) -> MemoryKind {
    match (asked, served) {
        (MemoryKind::Device, Some(served)) => served.kind,
        _ => asked,
    }
}

impl Pool {
    pub(crate) fn create(device: &Device, options: &PoolOptions<'_>) -> Result<Pool> {
        let name = c_option(options.name)?;
        let limits = options.limits.as_ref().map(Limits::raw);
        let mut raw: ffi::vram_pool_options = sized();
        for (on, flag) in [
            (options.deterministic, ffi::VRAM_POOL_DETERMINISTIC),
            (options.power_of_two, ffi::VRAM_POOL_POWER_OF_TWO),
            (options.tracked, ffi::VRAM_POOL_TRACKED),
            (options.zero_alloc, ffi::VRAM_POOL_ZERO_ALLOC),
        ] {
            raw.flags |= if on { flag as u32 } else { 0 };
        }
        raw.name = pointer_of(&name);
        raw.limits = limits.as_ref().map_or(ptr::null(), |limits| limits);
        let served = options.provider.clone().map(|provider| Served::new(provider, device));
        raw.kind = served_kind(options.kind, &served).raw();
        let provider = served.as_ref().map(|served| served.raw());
        raw.provider = provider.as_ref().map_or(ptr::null(), |provider| provider);
        // SAFETY: what the options point to outlives the call, and `served` the pool.
        let raw =
            made(ptr::null_mut(), |out| unsafe { ffi::vram_pool_create(device.raw(), &raw, out) })?;
        let served = Mutex::new(served.into_iter().collect());
        Ok(Pool(Arc::new(PoolInner { raw, served, device: device.clone() })))
    }

    /// What this provider serves here. It lasts as long as the pool.
    pub(crate) fn served(&self, provider: &Arc<dyn Provider>) -> Arc<Served> {
        let known = |all: &[Arc<Served>]| all.iter().find(|one| one.is_of(provider)).cloned();
        if let Some(served) = known(&locked(&self.0.served)) {
            return served;
        }
        let served = Served::new(provider.clone(), self.device()); // calls the program: no lock
        let mut all = locked(&self.0.served);
        known(&all).unwrap_or_else(|| {
            all.push(served.clone());
            served
        })
    }

    /// The handle, for calls of [`ffi`] that the crate does not wrap. To put a pool to sleep under a
    /// [`crate::Mapping`] is such a call, and one that must not be made.
    pub fn raw(&self) -> *mut ffi::vram_pool {
        self.0.raw
    }

    /// Its device.
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    // ------------------------------------------------------------------------ allocation

    /// Allocates `bytes`, ready for work submitted to `queue` from now on. Contents are undefined.
    ///
    /// This is the call for hot loops: tens of nanoseconds. The block borrows pool and queue instead of counting
    /// references, because all threads would share such a counter. It cannot outlive them:
    ///
    /// ```compile_fail,E0597
    /// fn demo(device: &vram::Device, queue: &vram::Queue) -> vram::Result<()> {
    ///     let block = {
    ///         let pool = device.pool()?;
    ///         pool.alloc(queue, 4096)?
    ///     };
    ///     drop(block);
    ///     Ok(())
    /// }
    /// ```
    #[inline]
    pub fn alloc<'a>(&'a self, queue: &'a Queue, bytes: u64) -> Result<Block<'a>> {
        Block::alloc(self, queue, bytes)
    }

    /// The same with options.
    pub fn alloc_with<'a>(
        &'a self,
        queue: &'a Queue,
        bytes: u64,
        options: &AllocOptions<'_>,
    ) -> Result<Block<'a>> {
        Block::alloc_with(self, queue, bytes, options)
    }

    /// Creates a buffer of `bytes` in device memory whose home is `queue`.
    pub fn buffer(&self, queue: &Queue, bytes: u64) -> Result<Buffer> {
        self.buffer_with(queue, bytes, &BufferOptions::default())
    }

    /// Creates a buffer of `count` elements.
    pub fn buffer_of(&self, queue: &Queue, count: u64, precision: Precision) -> Result<Buffer> {
        // SAFETY: an out-parameter.
        let bytes =
            made(0, |bytes| unsafe { ffi::vram_precision_size(precision.raw(), count, bytes) })?;
        self.buffer_with(queue, bytes, &BufferOptions { precision, ..BufferOptions::default() })
    }

    /// Creates a buffer.
    pub fn buffer_with(
        &self,
        queue: &Queue,
        bytes: u64,
        options: &BufferOptions<'_>,
    ) -> Result<Buffer> {
        Buffer::create(self, queue, bytes, options)
    }

    /// Begins a batch: buffers that are made all or none, lie together and end together.
    pub fn batch(&self, queue: &Queue) -> Result<Batch> {
        Batch::create(self, queue)
    }

    /// Begins a scope: what is allocated in it is freed at its end, however it ends.
    pub fn scope(&self) -> Result<Scope<'static>> {
        Scope::begin(self)
    }

    /// Creates a manager of buffers that are found by their names. `queue` is their home.
    pub fn named(&self, queue: &Queue, options: &NamedOptions<'_>) -> Result<Named> {
        Named::create(self, queue, options)
    }

    /// Creates a ring of messages between the host and a kernel.
    pub fn ring(&self, options: &RingOptions<'_>) -> Result<Ring> {
        Ring::create(self, options)
    }

    /// Prepares memory so that `count` blocks of `bytes` can be live at once without a driver call.
    pub fn warm(&self, queue: &Queue, bytes: u64, count: u32) -> Result<()> {
        // SAFETY: valid handles.
        check(unsafe { ffi::vram_pool_warm(self.raw(), bytes, count, queue.raw()) })
    }

    /// Gives everything to the driver that no live block uses; how many bytes that was.
    pub fn trim(&self) -> Result<u64> {
        // SAFETY: a valid handle; NULL options are all defaults.
        made(0, |bytes| unsafe { ffi::vram_pool_trim(self.raw(), ptr::null(), bytes) })
    }

    /// Puts every cached block back into the pool, where it can serve any request; how many bytes that was.
    pub fn clear(&self) -> Result<u64> {
        let mut options: ffi::vram_trim_options = sized();
        options.flags = ffi::VRAM_TRIM_CACHES as u32;
        // SAFETY: a valid handle; the options outlive the call.
        made(0, |bytes| unsafe { ffi::vram_pool_trim(self.raw(), &options, bytes) })
    }

    // -------------------------------------------------------------------- what it counts

    /// Its counters.
    pub fn stats(&self) -> Result<PoolStats> {
        // SAFETY: a valid handle, and an out-parameter of the right size.
        made(sized(), |stats| unsafe { ffi::vram_pool_stats_get(self.raw(), stats) }).map(PoolStats)
    }

    /// How close its memory is to running out.
    pub fn pressure(&self) -> Result<Pressure> {
        // SAFETY: a valid handle, and an out-parameter of the right size.
        let raw = made(sized(), |out| unsafe { ffi::vram_pool_pressure_get(self.raw(), out) })?;
        Ok(Pressure::of(&raw))
    }

    /// Sets its limits; what is None is no longer set.
    pub fn set_limits(&self, limits: &Limits) -> Result<()> {
        // SAFETY: the struct is copied by the call.
        check(unsafe { ffi::vram_pool_limits_set(self.raw(), &limits.raw()) })
    }

    /// The limits that are in force.
    pub fn limits(&self) -> Result<Limits> {
        // SAFETY: a valid handle, and an out-parameter of the right size.
        made(sized(), |limits| unsafe { ffi::vram_pool_limits_get(self.raw(), limits) })
            .map(|limits| Limits::of(&limits))
    }

    /// The report of the last request that ran out of memory: the cause first, what would help last. An error if there
    /// was none.
    pub fn out_of_memory_report(&self, format: ReportFormat) -> Result<String> {
        let mut report: ffi::vram_oom_report = sized();
        // SAFETY: a valid handle, and an out-parameter of the right size.
        check(unsafe { ffi::vram_oom_report_get(self.raw(), &mut report) })?;
        written(|write, user| unsafe {
            ffi::vram_oom_report_write(&report, format.raw(), write, user)
        })
    }

    /// All counters as a report.
    pub fn stats_report(&self, format: ReportFormat) -> Result<String> {
        // SAFETY: a valid handle; `write` and `user` belong together.
        written(|write, user| unsafe {
            ffi::vram_pool_stats_write(self.raw(), format.raw(), write, user)
        })
    }
}

/// How a report is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportFormat {
    /// Lines for people.
    Text,
    /// One JSON document, in bytes and nanoseconds; docs/schema has their schemas.
    Json,
}

impl ReportFormat {
    pub(crate) fn raw(self) -> ffi::vram_report_format {
        match self {
            ReportFormat::Text => ffi::VRAM_REPORT_TEXT,
            ReportFormat::Json => ffi::VRAM_REPORT_JSON,
        }
    }
}

/// What is counted, with the fields that C has.
macro_rules! counted {
    ($($(#[$doc:meta])* $name:ident: $raw:ident;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub struct $name(pub(crate) ffi::$raw);

        impl Deref for $name {
            type Target = ffi::$raw;
            fn deref(&self) -> &ffi::$raw {
                &self.0
            }
        }
    )* };
}
#[cfg(feature = "compute")]
pub(crate) use counted;
counted! {
    /// Everything that is counted: the fields of `vram_pool_stats` (vram/pool.h).
    ///
    /// ```
    /// # fn demo(pool: &vram::Pool) -> vram::Result<()> {
    /// let stats = pool.stats()?;
    /// println!("{} hits of {}, {} bytes live", stats.hits, stats.allocs, stats.requested_bytes);
    /// # Ok(()) }
    /// ```
    PoolStats: vram_pool_stats;
    /// What live blocks are in sum: the fields of `vram_live_stats` (vram/stats.h).
    LiveStats: vram_live_stats;
    /// Records of foreign memory in sum: the fields of `vram_foreign_totals` (vram/foreign.h).
    ForeignTotals: vram_foreign_totals;
    /// The totals of a manager of named buffers: the fields of `vram_named_stats` (vram/named.h).
    NamedStats: vram_named_stats;
    /// What a readback has done: the fields of `vram_readback_stats` (vram/readback.h).
    ReadbackStats: vram_readback_stats;
    /// What transfers moved, and how fast: the fields of `vram_transfer_stats` (vram/transfer.h).
    TransferStats: vram_transfer_stats;
    /// What the host knows of a ring's messages: the fields of `vram_ring_stats` (vram/ring.h).
    RingStats: vram_ring_stats;
}

/// Levels of pressure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PressureLevel {
    /// Neither a limit nor the device's free memory is known.
    Unknown,
    /// Below 0.60.
    Low,
    /// From 0.60, below 0.80.
    Medium,
    /// From 0.80 to 0.95.
    High,
    /// Above 0.95.
    Critical,
}

impl PressureLevel {
    /// The level of a pressure from 0 to 1.
    pub fn of(value: f64) -> PressureLevel {
        // SAFETY: takes any number.
        PressureLevel::of_raw(unsafe { ffi::vram_pressure_level_of(value) })
    }

    fn of_raw(raw: ffi::vram_pressure_level) -> PressureLevel {
        match raw {
            ffi::VRAM_PRESSURE_LOW => PressureLevel::Low,
            ffi::VRAM_PRESSURE_MEDIUM => PressureLevel::Medium,
            ffi::VRAM_PRESSURE_HIGH => PressureLevel::High,
            ffi::VRAM_PRESSURE_CRITICAL => PressureLevel::Critical,
            _ => PressureLevel::Unknown,
        }
    }
}

/// How close memory is to running out: 0 is empty, 1 is full.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Pressure {
    /// None: unknown.
    pub value: Option<f64>,
    /// Its level.
    pub level: PressureLevel,
    /// Taken from the driver.
    pub reserved_bytes: u64,
    /// Free on the device, when last asked.
    pub free_bytes: Option<u64>,
    /// Of the device.
    pub total_bytes: Option<u64>,
}

impl Pressure {
    pub(crate) fn of(raw: &ffi::vram_pressure) -> Pressure {
        Pressure {
            value: if raw.known { Some(raw.value) } else { None },
            level: PressureLevel::of_raw(raw.level),
            reserved_bytes: raw.reserved_bytes,
            free_bytes: known(raw.free_bytes),
            total_bytes: known(raw.total_bytes),
        }
    }
}
