// SPDX-License-Identifier: Apache-2.0
//! Queues and points in their order.

use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use crate::async_result::Alive;
use crate::device::Device;
use crate::error::{check, made, nanoseconds, Error};
use crate::ffi;
use crate::kernel::{Kernel, Launch};
use crate::stream::SetInner;
use crate::Result;

/// Work on one queue runs in the order it was submitted; different queues run in parallel.
///
/// Clones are the same queue. It ends when the last clone and the buffers that have it as their home are gone, and
/// waits for its work then.
#[derive(Clone)]
pub struct Queue(Arc<QueueInner>);

struct QueueInner {
    raw: *mut ffi::vram_queue,
    set: Option<Arc<SetInner>>, // which ends the queue; None: nobody else does
    device: Device,             // dropped after the queue was destroyed
}

// SAFETY: a handle is a checked number; any call may be made from any thread (vram/base.h).
unsafe impl Send for QueueInner {}
unsafe impl Sync for QueueInner {}

impl Drop for QueueInner {
    fn drop(&mut self) {
        if self.set.is_none() {
            // SAFETY: the handle is ours.
            unsafe { ffi::vram_queue_destroy(self.raw) };
        }
    }
}

/// A position in the order of a queue. It owns nothing; points of a queue that has ended count as passed.
#[derive(Clone, Copy)]
pub struct Point(ffi::vram_point);

/// Of no queue.
pub(crate) const PASSED: ffi::vram_point = ffi::vram_point { queue: ptr::null_mut(), value: 0 };

// SAFETY: two numbers.
unsafe impl Send for Point {}
unsafe impl Sync for Point {}

impl Queue {
    pub(crate) fn create(device: &Device) -> Result<Queue> {
        // SAFETY: a valid handle; NULL options are all defaults.
        let raw = made(ptr::null_mut(), |out| unsafe {
            ffi::vram_queue_create(device.raw(), ptr::null(), out)
        })?;
        Ok(Queue(Arc::new(QueueInner { raw, set: None, device: device.clone() })))
    }

    /// A queue that belongs to a set of streams.
    pub(crate) fn of_set(raw: *mut ffi::vram_queue, set: &Arc<SetInner>) -> Queue {
        let device = set.device.clone();
        Queue(Arc::new(QueueInner { raw, set: Some(set.clone()), device }))
    }

    pub(crate) fn alive(&self) -> Alive {
        self.0.clone()
    }

    /// The handle, for calls of [`ffi`] that the crate does not wrap.
    pub fn raw(&self) -> *mut ffi::vram_queue {
        self.0.raw
    }

    /// Its device.
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// Waits until all work submitted so far is complete, as long as the option `wait_timeout` allows.
    pub fn wait(&self) -> Result<()> {
        // SAFETY: a valid handle.
        check(unsafe { ffi::vram_queue_wait(self.raw(), ffi::VRAM_TIMEOUT_DEFAULT) })
    }

    /// The same for at most `time`; [`Error::Timeout`] if that was not enough.
    pub fn wait_for(&self, time: Duration) -> Result<()> {
        // SAFETY: a valid handle.
        check(unsafe { ffi::vram_queue_wait(self.raw(), nanoseconds(time)) })
    }

    /// Whether all submitted work is complete. Asks the driver.
    pub fn is_idle(&self) -> Result<bool> {
        // SAFETY: a valid handle.
        finished(unsafe { ffi::vram_queue_poll(self.raw()) })
    }

    /// A point after all work submitted so far.
    pub fn mark(&self) -> Result<Point> {
        // SAFETY: a valid handle and an out-parameter.
        made(PASSED, |point| unsafe { ffi::vram_queue_mark(self.raw(), point) }).map(Point)
    }

    /// Makes work submitted from now on start after `point` of another queue. The device waits, the host does not.
    pub fn after(&self, point: Point) -> Result<()> {
        // SAFETY: a valid handle; a point is plain data.
        check(unsafe { ffi::vram_queue_after(self.raw(), point.0) })
    }

    /// Submits a launch. Argument values are copied before the call returns.
    ///
    /// # Safety
    /// The kernel does what its code says: it must stay inside the memory that its arguments name, which must live
    /// until the launch is complete, as must the kernel. Memory of a [`crate::Buffer`] or [`crate::Block`] whose own
    /// queue is another one must be announced with `used_on` before it is dropped, and not be mapped meanwhile.
    pub unsafe fn launch(&self, kernel: &Kernel, launch: &Launch) -> Result<()> {
        check(launch.submit(self.raw(), kernel))
    }
}

impl Point {
    /// Whether it has passed.
    pub fn has_passed(self) -> Result<bool> {
        // SAFETY: plain data, checked by the library.
        finished(unsafe { ffi::vram_point_poll(self.0) })
    }

    /// Waits until it has passed, at most for `time`.
    pub fn wait_for(self, time: Duration) -> Result<()> {
        // SAFETY: plain data, checked by the library.
        check(unsafe { ffi::vram_point_wait(self.0, nanoseconds(time)) })
    }

    pub(crate) fn of(raw: ffi::vram_point) -> Point {
        Point(raw)
    }

    pub(crate) fn raw(self) -> ffi::vram_point {
        self.0
    }
}

pub(crate) fn finished(status: ffi::vram_status) -> Result<bool> {
    match status {
        ffi::VRAM_OK => Ok(true),
        ffi::VRAM_ERR_NOT_READY => Ok(false),
        failed => Err(Error::from_status(failed)),
    }
}
