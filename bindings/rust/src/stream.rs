// SPDX-License-Identifier: Apache-2.0
//! Sets of queues that are created, waited for and ended together.

use std::ffi::CString;
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use crate::async_result::AsyncResult;
use crate::device::Device;
use crate::error::{array_text, c_text, check, made, nanoseconds, sized};
use crate::ffi;
use crate::queue::{finished, Point, Queue, PASSED};
use crate::Result;

/// Number of the stream for kernels in a set of three.
pub const COMPUTE: u32 = ffi::VRAM_STREAM_COMPUTE as u32;
/// Number of the stream for copies and fills in a set of three.
pub const MEMORY: u32 = ffi::VRAM_STREAM_MEMORY as u32;
/// Number of the stream that reads results in a set of three.
pub const ANALYSIS: u32 = ffi::VRAM_STREAM_ANALYSIS as u32;

/// Queues of one device that run in parallel, and are waited for together.
///
/// Its queues are [`Queue`]s like any other, and keep the set alive.
///
/// ```
/// # fn main() -> vram::Result<()> {
/// # let context = vram::Context::with(&vram::ContextOptions { backends: Some("host"), ..Default::default() })?;
/// # let device = context.best_device()?;
/// use vram::{ANALYSIS, COMPUTE};
/// let streams = device.streams()?; // three: compute, memory and analysis
/// let pool = device.pool()?;
/// let compute = streams.get(COMPUTE)?;
/// let mut forces = pool.buffer(&compute, 4096)?;
/// forces.fill(1)?;
/// streams.order(COMPUTE, ANALYSIS)?; // what is analysed from now on comes after the fill
/// streams.wait()?;
/// # Ok(()) }
/// ```
pub struct StreamSet(Arc<SetInner>);

pub(crate) struct SetInner {
    raw: *mut ffi::vram_stream_set,
    pub(crate) device: Device, // dropped after the set was destroyed
}

// SAFETY: a handle is a checked number; any call may be made from any thread (vram/stream.h).
unsafe impl Send for SetInner {}
unsafe impl Sync for SetInner {}

impl Drop for SetInner {
    fn drop(&mut self) {
        // SAFETY: the handle is ours, and no queue of the set is left.
        unsafe { ffi::vram_stream_set_destroy(self.raw) };
    }
}

impl StreamSet {
    pub(crate) fn create(device: &Device, streams: &[(&str, i32)]) -> Result<StreamSet> {
        let names: Vec<CString> =
            streams.iter().map(|(name, _)| c_text(name)).collect::<Result<_>>()?;
        let plans: Vec<ffi::vram_stream_plan> = streams
            .iter()
            .zip(&names)
            .map(|((_, priority), name)| ffi::vram_stream_plan {
                name: name.as_ptr(),
                priority: *priority,
            })
            .collect();
        let mut options: ffi::vram_stream_set_options = sized();
        options.count = u32::try_from(plans.len()).unwrap_or(u32::MAX);
        options.streams = if plans.is_empty() { ptr::null() } else { plans.as_ptr() };
        // SAFETY: a valid handle; what the options point to outlives the call.
        let raw = made(ptr::null_mut(), |out| unsafe {
            ffi::vram_stream_set_create(device.raw(), &options, out)
        })?;
        Ok(StreamSet(Arc::new(SetInner { raw, device: device.clone() })))
    }

    /// The handle, for calls of [`ffi`] that the crate does not wrap.
    pub fn raw(&self) -> *mut ffi::vram_stream_set {
        self.0.raw
    }

    /// Stream number `index`.
    pub fn get(&self, index: u32) -> Result<Queue> {
        // SAFETY: a valid handle and an out-parameter.
        self.queue(|out| unsafe { ffi::vram_stream_set_get(self.raw(), index, out) })
    }

    /// The stream of that name.
    pub fn find(&self, name: &str) -> Result<Queue> {
        let name = c_text(name)?;
        // SAFETY: a valid handle and an out-parameter; the text outlives the call.
        self.queue(|out| unsafe { ffi::vram_stream_set_find(self.raw(), name.as_ptr(), out) })
    }

    /// The next stream in turn: 0, 1, 2, ... and 0 again, whichever threads call.
    pub fn next(&self) -> Result<Queue> {
        // SAFETY: a valid handle and an out-parameter.
        self.queue(|out| unsafe { ffi::vram_stream_set_next(self.raw(), out) })
    }

    /// One more queue, for copies in parallel to all streams. From the first call on, waits and marks include it.
    pub fn transfer(&self) -> Result<Queue> {
        // SAFETY: a valid handle and an out-parameter.
        self.queue(|out| unsafe { ffi::vram_stream_set_transfer(self.raw(), out) })
    }

    fn queue(
        &self,
        call: impl FnOnce(*mut *mut ffi::vram_queue) -> ffi::vram_status,
    ) -> Result<Queue> {
        made(ptr::null_mut(), call).map(|raw| Queue::of_set(raw, &self.0))
    }

    /// What its streams are, in their order.
    pub fn infos(&self) -> Result<Vec<StreamInfo>> {
        let mut infos = Vec::new();
        let mut info: ffi::vram_stream_info = sized();
        // SAFETY: a valid handle, and an out-parameter of the right size. Past the last one it is a mistake.
        while unsafe { ffi::vram_stream_info_get(self.raw(), infos.len() as u32, &mut info) }
            == ffi::VRAM_OK
        {
            infos.push(StreamInfo {
                name: array_text(&info.name),
                priority: info.priority,
                turns: info.turns,
            });
        }
        Ok(infos)
    }

    /// Whether all work of all streams is complete. If one fails, its error, which names it.
    pub fn is_idle(&self) -> Result<bool> {
        // SAFETY: a valid handle.
        finished(unsafe { ffi::vram_stream_set_poll(self.raw()) })
    }

    /// Waits until all work submitted so far is complete, as long as the option `wait_timeout` allows.
    pub fn wait(&self) -> Result<()> {
        // SAFETY: a valid handle.
        check(unsafe { ffi::vram_stream_set_wait(self.raw(), ffi::VRAM_TIMEOUT_DEFAULT) })
    }

    /// The same for at most `time`, all streams together.
    pub fn wait_for(&self, time: Duration) -> Result<()> {
        // SAFETY: a valid handle.
        check(unsafe { ffi::vram_stream_set_wait(self.raw(), nanoseconds(time)) })
    }

    /// A point after all work of all streams so far.
    pub fn mark(&self) -> Result<Point> {
        // SAFETY: a valid handle and an out-parameter.
        made(PASSED, |point| unsafe { ffi::vram_stream_set_mark(self.raw(), point) }).map(Point::of)
    }

    /// The same as a result, which can be awaited.
    pub fn sync(&self) -> Result<AsyncResult<()>> {
        let mut raw = ffi::vram_async { word: [0; 4] };
        // SAFETY: a valid handle and an out-parameter.
        check(unsafe { ffi::vram_stream_set_sync(self.raw(), &mut raw) })?;
        Ok(AsyncResult::of_raw(raw, (), None, self.0.clone()))
    }

    /// Makes later work of stream `later` start after all work that stream `earlier` has so far.
    pub fn order(&self, earlier: u32, later: u32) -> Result<()> {
        // SAFETY: a valid handle.
        check(unsafe { ffi::vram_stream_set_order(self.raw(), earlier, later) })
    }

    /// Makes later work of every stream start after `point`.
    pub fn after(&self, point: Point) -> Result<()> {
        // SAFETY: a valid handle; a point is plain data.
        check(unsafe { ffi::vram_stream_set_after(self.raw(), point.raw()) })
    }

    /// Makes later work of every stream start after all work that all streams have so far. The host does not wait.
    pub fn barrier(&self) -> Result<()> {
        // SAFETY: a valid handle.
        check(unsafe { ffi::vram_stream_set_barrier(self.raw()) })
    }
}

/// What a stream of a set is.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StreamInfo {
    /// As given; "compute", "memory" and "analysis" in a set of three.
    pub name: String,
    /// As given; the driver may use another.
    pub priority: i32,
    /// Times that [`StreamSet::next`] returned it.
    pub turns: u64,
}
