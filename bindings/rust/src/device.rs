// SPDX-License-Identifier: Apache-2.0
//! Opened devices.

use std::os::raw::c_void;
use std::ptr;
use std::sync::Arc;

use crate::context::{Context, DeviceInfo};
use crate::error::{check, contained, known, made, sized, Error};
use crate::ffi;
use crate::limits::Limits;
use crate::pool::{Pool, PoolOptions, PoolStats, Pressure, TransferStats};
use crate::queue::Queue;
use crate::stream::StreamSet;
use crate::Result;

/// An opened device. Clones are the same device; it is closed when the last clone and all that was made from it are
/// gone.
#[derive(Clone)]
pub struct Device(Arc<DeviceInner>);

struct DeviceInner {
    raw: *mut ffi::vram_device,
    context: Context, // dropped after the device was closed
}

// SAFETY: a handle is a checked number; any call may be made from any thread (vram/base.h).
unsafe impl Send for DeviceInner {}
unsafe impl Sync for DeviceInner {}

impl Drop for DeviceInner {
    fn drop(&mut self) {
        // SAFETY: the handle is ours.
        unsafe { ffi::vram_device_close(self.raw) };
    }
}

impl Device {
    pub(crate) fn open(context: &Context, index: u32) -> Result<Device> {
        // SAFETY: a valid handle and an out-parameter.
        let raw = made(ptr::null_mut(), |out| unsafe {
            ffi::vram_device_open(context.raw(), index, out)
        })?;
        Ok(Device(Arc::new(DeviceInner { raw, context: context.clone() })))
    }

    /// The handle, for calls of [`ffi`] that the crate does not wrap.
    pub fn raw(&self) -> *mut ffi::vram_device {
        self.0.raw
    }

    /// Its context.
    pub fn context(&self) -> &Context {
        &self.0.context
    }

    /// What it is.
    pub fn info(&self) -> Result<DeviceInfo> {
        // SAFETY: a valid handle, and an out-parameter of the right size.
        let info = made(sized(), |info| unsafe { ffi::vram_device_describe(self.raw(), info) })?;
        Ok(DeviceInfo::of(&info))
    }

    /// Creates a queue, on which work runs in order.
    pub fn queue(&self) -> Result<Queue> {
        Queue::create(self)
    }

    /// Creates three queues that are waited for together: [`crate::COMPUTE`], [`crate::MEMORY`], [`crate::ANALYSIS`].
    pub fn streams(&self) -> Result<StreamSet> {
        StreamSet::create(self, &[])
    }

    /// Creates queues that are waited for together, each with its name and priority; higher runs first.
    pub fn streams_with(&self, streams: &[(&str, i32)]) -> Result<StreamSet> {
        if streams.is_empty() {
            return Err(Error::invalid("a set without streams"));
        }
        StreamSet::create(self, streams)
    }

    /// Creates a pool with all defaults.
    pub fn pool(&self) -> Result<Pool> {
        self.pool_with(&PoolOptions::default())
    }

    /// Creates a pool.
    pub fn pool_with(&self, options: &PoolOptions<'_>) -> Result<Pool> {
        Pool::create(self, options)
    }

    /// Its memory at this moment; asks the driver.
    pub fn memory(&self) -> Result<MemoryInfo> {
        // SAFETY: a valid handle, and an out-parameter of the right size.
        let raw: ffi::vram_memory_info =
            made(sized(), |info| unsafe { ffi::vram_memory_info_get(self.raw(), info) })?;
        Ok(MemoryInfo {
            total_bytes: known(raw.total_bytes),
            free_bytes: known(raw.free_bytes),
            held_bytes: raw.held_bytes,
            held_peak_bytes: raw.held_peak_bytes,
            lost: raw.lost,
        })
    }

    /// Counters, summed over its pools.
    pub fn stats(&self) -> Result<PoolStats> {
        // SAFETY: a valid handle, and an out-parameter of the right size.
        made(sized(), |stats| unsafe { ffi::vram_device_stats_get(self.raw(), stats) })
            .map(PoolStats)
    }

    /// What all its copies moved since it was opened, and how fast.
    pub fn transfer_stats(&self) -> Result<TransferStats> {
        let (any, route) = (ffi::VRAM_TRANSFER_ANY, ffi::VRAM_ROUTE_ANY);
        // SAFETY: a valid handle, and an out-parameter of the right size.
        made(sized(), |stats| unsafe {
            ffi::vram_transfer_stats_get(self.raw(), any, route, stats)
        })
        .map(TransferStats)
    }

    /// How close its memory is to running out.
    pub fn pressure(&self) -> Result<Pressure> {
        // SAFETY: a valid handle, and an out-parameter of the right size.
        let raw = made(sized(), |out| unsafe { ffi::vram_device_pressure_get(self.raw(), out) })?;
        Ok(Pressure::of(&raw))
    }

    /// Gives everything to the driver that no live block of its pools uses; how many bytes that was.
    pub fn trim(&self) -> Result<u64> {
        // SAFETY: a valid handle; NULL options are all defaults.
        made(0, |bytes| unsafe { ffi::vram_device_trim(self.raw(), ptr::null(), bytes) })
    }

    /// Sets the limits of all memory that the program takes from the device.
    pub fn set_limits(&self, limits: &Limits) -> Result<()> {
        // SAFETY: the struct is copied by the call.
        check(unsafe { ffi::vram_device_limits_set(self.raw(), &limits.raw()) })
    }

    /// Polls all pending [`crate::AsyncResult`]s, so that their callbacks run; how many are still pending.
    pub fn poll(&self) -> Result<u64> {
        // SAFETY: a valid handle and an out-parameter.
        made(0, |pending| unsafe { ffi::vram_async_poll_all(self.raw(), pending) })
    }

    /// Calls `free_some` when a pool of the device runs out of memory, with the bytes that are needed. It frees what
    /// the program can do without and returns how many bytes that was; after any other value than 0 the allocation is
    /// tried again.
    ///
    /// It is called on the thread that allocates, with no lock held, and may use the library. A panic in it counts as
    /// 0 and goes no further. It is called until the returned guard is dropped.
    pub fn on_out_of_memory<F>(&self, free_some: F) -> Result<OutOfMemoryCallback>
    where
        F: Fn(u64) -> u64 + Send + Sync + 'static,
    {
        let call: Box<Callback> = Box::new(Arc::new(free_some));
        let user = Box::into_raw(call);
        // SAFETY: `user` lives until the guard has removed the callback.
        let added = made(0, |id| unsafe {
            ffi::vram_oom_callback_add(self.raw(), Some(call_free_some), user.cast(), id)
        });
        match added {
            Ok(id) => Ok(OutOfMemoryCallback { device: self.clone(), id, user }),
            Err(error) => {
                // SAFETY: the library does not know it.
                drop(unsafe { Box::from_raw(user) });
                Err(error)
            }
        }
    }
}

/// The memory of a device at one moment.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct MemoryInfo {
    /// Of the device.
    pub total_bytes: Option<u64>,
    /// As the driver reports it.
    pub free_bytes: Option<u64>,
    /// Taken from the driver through this handle now.
    pub held_bytes: u64,
    /// The most of that.
    pub held_peak_bytes: u64,
    /// The device was lost and cannot be used again.
    pub lost: bool,
}

type Callback = Arc<dyn Fn(u64) -> u64 + Send + Sync>;

/// Keeps a callback of [`Device::on_out_of_memory`]; dropping it removes the callback.
pub struct OutOfMemoryCallback {
    device: Device,
    id: u64,
    user: *mut Callback,
}

// SAFETY: the callback itself is Send and Sync; the rest are handles.
unsafe impl Send for OutOfMemoryCallback {}
unsafe impl Sync for OutOfMemoryCallback {}

impl Drop for OutOfMemoryCallback {
    fn drop(&mut self) {
        // SAFETY: after the removal no other thread is inside. This thread may be, if the callback drops its own
        // guard: it then holds a reference of its own to the closure. After a timeout one still runs, and nothing is
        // removed while the process ends: then the closure stays.
        unsafe {
            let status = ffi::vram_oom_callback_remove(self.device.raw(), self.id);
            if !matches!(status, ffi::VRAM_ERR_TIMEOUT | ffi::VRAM_ERR_SHUTDOWN) {
                drop(Box::from_raw(self.user));
            }
        }
    }
}

unsafe extern "C" fn call_free_some(user: *mut c_void, event: *const ffi::vram_oom_event) -> u64 {
    let call = (*user.cast::<Callback>()).clone();
    let bytes = (*event).bytes;
    contained(move || call(bytes)).unwrap_or(0)
}
