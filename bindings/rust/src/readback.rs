// SPDX-License-Identifier: Apache-2.0
//! Readbacks: downloads of changing data, frame by frame, in parallel to other work.
//!
//! (1) A start names buffers by handle and span; the library notes the use in each, so that none is moved or freed
//!     before it was read.
//! (2) The slot of a frame that is borrowed is not written, and exists until the readback ends, which the frame holds.

use std::mem::align_of;
use std::ops::Deref;
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use crate::async_result::AsyncResult;
use crate::block::count_of;
use crate::buffer::{numbered, Buffer};
use crate::device::Device;
use crate::error::{check, made, nanoseconds, sized, Error};
use crate::ffi;
use crate::pod::Pod;
use crate::pool::ReadbackStats;
use crate::Result;

numbered! {
    /// How the source is kept unchanged while a frame is downloaded. (STEADY of the C API is not here: nothing in the
    /// types could keep a program from writing.)
    ReadbackMode: vram_readback_mode {
        /// It is copied on the device first, and the work that changes it goes on after that copy.
        #[default]
        Snapshot = VRAM_READBACK_SNAPSHOT,
        /// Later work of its queue waits, on the device, for the download.
        Hold = VRAM_READBACK_HOLD,
    }
}

numbered! {
    /// What happens to frames that nobody reads.
    ReadbackPolicy: vram_readback_policy {
        /// They may be dropped: for displays, monitors, checkpoints.
        #[default]
        Newest = VRAM_READBACK_NEWEST,
        /// None is dropped: a start without a free slot is [`Error::Busy`].
        Every = VRAM_READBACK_EVERY,
    }
}

/// What a readback is. Empty: two slots, snapshots, the newest frame.
#[derive(Clone, Debug, Default)]
pub struct ReadbackOptions {
    /// 2 to 16; 0: 2.
    pub slots: u32,
    /// How the source is kept unchanged.
    pub mode: ReadbackMode,
    /// What happens to frames that nobody reads.
    pub policy: ReadbackPolicy,
    /// Of the queue that downloads.
    pub priority: i32,
    /// Size of a frame, to allocate now; 0: the first starts allocate.
    pub bytes: u64,
}

/// Downloads buffers frame by frame into page-locked slots, while their queue goes on. A frame shows the buffers as
/// they were between two pieces of work, never a mixture. Any thread may call.
///
/// ```
/// # fn main() -> vram::Result<()> {
/// # let context = vram::Context::with(&vram::ContextOptions { backends: Some("host"), ..Default::default() })?;
/// # let device = context.best_device()?;
/// # let (pool, queue) = (device.pool()?, device.queue()?);
/// let readback = device.readback(&vram::ReadbackOptions::default())?;
/// let mut positions = pool.buffer(&queue, 4096)?;
/// for step in 0..10u8 {
///     positions.fill(step)?;                          // simulate
///     match readback.start(&[&positions]) {           // as it is after that step; nothing waits
///         Err(vram::Error::Busy(_)) => {}             // every slot is on its way
///         number => drop(number?),
///     }
///     if let Some(frame) = readback.latest()? {       // the newest that has arrived
///         assert!(frame.iter().all(|byte| *byte == frame[0]));
///     }
/// }
/// # Ok(()) }
/// ```
///
/// Clones are the same readback. It ends when the last clone and the last frame are gone.
#[derive(Clone)]
pub struct Readback(Arc<ReadbackInner>);

struct ReadbackInner {
    raw: *mut ffi::vram_readback,
    device: Device, // dropped after the readback was destroyed
}

// SAFETY: a handle is a checked number; any call may be made from any thread (vram/readback.h).
unsafe impl Send for ReadbackInner {}
unsafe impl Sync for ReadbackInner {}

impl Drop for ReadbackInner {
    fn drop(&mut self) {
        // SAFETY: the handle is ours, and no frame is borrowed.
        unsafe { ffi::vram_readback_destroy(self.raw) };
    }
}

impl Device {
    /// Creates a readback.
    pub fn readback(&self, options: &ReadbackOptions) -> Result<Readback> {
        let mut raw: ffi::vram_readback_options = sized();
        raw.slots = options.slots;
        raw.mode = options.mode.raw();
        raw.policy = options.policy.raw();
        raw.priority = options.priority;
        raw.bytes = options.bytes;
        // SAFETY: a valid handle; the options outlive the call.
        let raw = made(ptr::null_mut(), |out| unsafe {
            ffi::vram_readback_create(self.raw(), &raw, out)
        })?;
        Ok(Readback(Arc::new(ReadbackInner { raw, device: self.clone() })))
    }
}

impl Readback {
    /// The handle, for calls of [`ffi`] that the crate does not wrap.
    pub fn raw(&self) -> *mut ffi::vram_readback {
        self.0.raw
    }

    /// Its device.
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// Starts a frame of all bytes in use of these buffers, one after the other, as they are after all work that their
    /// home queue has so far; they must have one home. The number of the frame, from 1. [`Error::Busy`] if every slot
    /// is being downloaded or read.
    pub fn start(&self, sources: &[&Buffer]) -> Result<u64> {
        let producer = match sources.first() {
            Some(first) => first.queue().raw(),
            None => return Err(Error::invalid("a frame without sources")),
        };
        if sources.iter().any(|source| source.queue().raw() != producer) {
            return Err(Error::invalid("the sources of a frame have different home queues"));
        }
        let spans: Vec<ffi::vram_span> =
            sources.iter().map(|source| source.span(source.bytes()?)).collect::<Result<_>>()?;
        let count = u32::try_from(spans.len()).unwrap_or(u32::MAX);
        // SAFETY: valid handles and an out-parameter. Keeps (1); the sources are borrowed, so nothing writes them
        // during the call.
        made(0, |number| unsafe {
            ffi::vram_readback_start_spans(self.raw(), producer, spans.as_ptr(), count, number)
        })
    }

    /// Whether frame `number` (0: the last one started) has arrived. [`Error::Stale`] if a later one has replaced it.
    pub fn has_arrived(&self, number: u64) -> Result<bool> {
        // SAFETY: a valid handle.
        crate::queue::finished(unsafe { ffi::vram_readback_poll(self.raw(), number) })
    }

    /// Waits until it has arrived, at most for `time`.
    pub fn wait_for(&self, number: u64, time: Duration) -> Result<()> {
        // SAFETY: a valid handle.
        check(unsafe { ffi::vram_readback_wait(self.raw(), number, nanoseconds(time)) })
    }

    /// The arrival of frame `number` as a result, which can be awaited.
    pub fn arrival(&self, number: u64) -> Result<AsyncResult<()>> {
        let mut raw = ffi::vram_async { word: [0; 4] };
        // SAFETY: a valid handle and an out-parameter.
        check(unsafe { ffi::vram_readback_async(self.raw(), number, &mut raw) })?;
        Ok(AsyncResult::of_raw(raw, (), None, self.0.clone()))
    }

    /// The newest frame that has arrived; None: there is none. Never waits.
    pub fn latest(&self) -> Result<Option<Frame>> {
        // SAFETY: a valid handle and an out-parameter.
        self.borrowed(|frame| unsafe { ffi::vram_readback_latest(self.raw(), frame) })
    }

    /// The oldest frame that this call has not returned yet; waits for it up to `time`. None: no further one was
    /// started. Each frame is returned once, in order, whichever threads call.
    pub fn next(&self, time: Duration) -> Result<Option<Frame>> {
        // SAFETY: a valid handle and an out-parameter.
        self.borrowed(|frame| unsafe {
            ffi::vram_readback_next(self.raw(), nanoseconds(time), frame)
        })
    }

    fn borrowed(
        &self,
        call: impl FnOnce(*mut ffi::vram_frame) -> ffi::vram_status,
    ) -> Result<Option<Frame>> {
        let mut raw = ffi::vram_frame {
            data: ptr::null(),
            bytes: 0,
            number: 0,
            slot: 0,
            mode: 0,
            pinned: false,
        };
        match call(&mut raw) {
            ffi::VRAM_OK => Ok(Some(Frame { raw, readback: self.0.clone() })),
            ffi::VRAM_ERR_NOT_READY => Ok(None),
            failed => Err(Error::from_status(failed)),
        }
    }

    /// What it has done.
    pub fn stats(&self) -> Result<ReadbackStats> {
        // SAFETY: a valid handle, and an out-parameter of the right size.
        made(sized(), |stats| unsafe { ffi::vram_readback_stats_get(self.raw(), stats) })
            .map(ReadbackStats)
    }
}

/// A frame that has arrived: its bytes. Its slot is not written before it is dropped.
///
/// ```compile_fail,E0505
/// fn demo(frame: vram::Frame) -> vram::Result<f32> {
///     let numbers = frame.as_slice::<f32>()?;
///     drop(frame); // the slot may be written now
///     Ok(numbers[0])
/// }
/// ```
pub struct Frame {
    raw: ffi::vram_frame,
    readback: Arc<ReadbackInner>,
}

// SAFETY: bytes that nobody writes, and a readback that any thread may use.
unsafe impl Send for Frame {}
unsafe impl Sync for Frame {}

impl Frame {
    /// Its number, from 1.
    pub fn number(&self) -> u64 {
        self.raw.number
    }

    /// The slot that it lies in, from 0.
    pub fn slot(&self) -> u32 {
        self.raw.slot
    }

    /// Page-locked; false: the download was slower.
    pub fn is_pinned(&self) -> bool {
        self.raw.pinned
    }

    /// Its contents as elements of T.
    pub fn as_slice<T: Pod>(&self) -> Result<&[T]> {
        let count = count_of::<T>(self.raw.bytes)?;
        if (self.raw.data as usize) % align_of::<T>() != 0 {
            return Err(Error::invalid("the frame is not aligned for elements of this type"));
        }
        if count == 0 {
            return Ok(&[]);
        }
        // SAFETY: `bytes` at `data`, aligned and not written; any bytes are values of a Pod. Keeps (2).
        Ok(unsafe { std::slice::from_raw_parts(self.raw.data.cast(), count) })
    }
}

impl Deref for Frame {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.as_slice().unwrap_or(&[]) // bytes are always whole and aligned
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        // SAFETY: a valid handle; borrowed once by this value.
        unsafe { ffi::vram_readback_release(self.readback.raw, self.raw.number) };
    }
}
