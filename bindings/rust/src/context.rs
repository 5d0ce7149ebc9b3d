// SPDX-License-Identifier: Apache-2.0
//! Contexts, backends, and what is known of devices before they are opened.

use std::ptr;
use std::sync::Arc;

use crate::device::Device;
use crate::error::{array_text, c_option, check, known, made, pointer_of, sized, text_of};
use crate::ffi;
use crate::pool::PoolStats;
use crate::Result;

/// Which backends and simulated devices a context has. Empty: as the options of the process say.
#[derive(Clone, Debug, Default)]
pub struct ContextOptions<'a> {
    /// Only these, "cuda,host".
    pub backends: Option<&'a str>,
    /// Simulated devices, "memory=8G,profile=h200" (vram/sim.h).
    pub sim: Option<&'a str>,
}

/// All backends and devices that a program uses; the root of all other objects.
///
/// Clones are the same context. It ends when the last clone and everything made from it are gone.
#[derive(Clone)]
pub struct Context(Arc<ContextInner>);

struct ContextInner {
    raw: *mut ffi::vram_context,
}

// SAFETY: a handle is a checked number; any call may be made from any thread (vram/base.h).
unsafe impl Send for ContextInner {}
unsafe impl Sync for ContextInner {}

impl Drop for ContextInner {
    fn drop(&mut self) {
        // SAFETY: the handle is ours. Its status is in the log; a destructor has nobody to tell.
        unsafe { ffi::vram_context_destroy(self.raw) };
    }
}

impl Context {
    /// Finds every driver and device. A missing driver is not a failure: [`Context::backends`] has the reason.
    pub fn new() -> Result<Context> {
        Context::with(&ContextOptions::default())
    }

    /// The same with options.
    pub fn with(options: &ContextOptions<'_>) -> Result<Context> {
        let (backends, sim) = (c_option(options.backends)?, c_option(options.sim)?);
        let mut raw: ffi::vram_context_options = sized();
        raw.backends = pointer_of(&backends);
        raw.sim = pointer_of(&sim);
        // SAFETY: the texts outlive the call.
        let raw = made(ptr::null_mut(), |out| unsafe { ffi::vram_context_create(&raw, out) })?;
        Ok(Context(Arc::new(ContextInner { raw })))
    }

    /// The handle, for calls of [`ffi`] that the crate does not wrap.
    pub fn raw(&self) -> *mut ffi::vram_context {
        self.0.raw
    }

    /// Every backend of the library, present or not.
    pub fn backends(&self) -> Result<Vec<BackendInfo>> {
        // SAFETY: a valid handle, and an out-parameter of the right size.
        let count = unsafe { ffi::vram_backend_count(self.raw()) };
        (0..count)
            .map(|index| {
                let info = made(sized(), |info| unsafe {
                    ffi::vram_backend_info_get(self.raw(), index, info)
                })?;
                Ok(BackendInfo::of(&info))
            })
            .collect()
    }

    /// Every device, the best first. None is opened.
    pub fn devices(&self) -> Result<Vec<DeviceInfo>> {
        // SAFETY: a valid handle, and an out-parameter of the right size.
        let count = unsafe { ffi::vram_device_count(self.raw()) };
        (0..count)
            .map(|index| {
                let info = made(sized(), |info| unsafe {
                    ffi::vram_device_info_get(self.raw(), index, info)
                })?;
                Ok(DeviceInfo::of(&info))
            })
            .collect()
    }

    /// Opens device number `index` of [`Context::devices`].
    pub fn device(&self, index: u32) -> Result<Device> {
        Device::open(self, index)
    }

    /// Opens the device to use if the user did not choose: the first real GPU, else the host.
    pub fn best_device(&self) -> Result<Device> {
        // SAFETY: a valid handle and an out-parameter.
        let index = made(0, |index| unsafe { ffi::vram_device_best(self.raw(), index) })?;
        self.device(index)
    }

    /// The first device with `bytes` of free memory, in the given order of backends ("cuda:1,host"; None: the usual).
    pub fn device_with(&self, bytes: u64, order: Option<&str>) -> Result<Device> {
        let order = c_option(order)?;
        let mut options: ffi::vram_select_options = sized();
        options.bytes = bytes;
        options.order = pointer_of(&order);
        // SAFETY: the text outlives the call.
        let index =
            made(0, |index| unsafe { ffi::vram_device_select(self.raw(), &options, index) })?;
        self.device(index)
    }

    /// Counters, summed over all pools.
    pub fn stats(&self) -> Result<PoolStats> {
        // SAFETY: a valid handle, and an out-parameter of the right size.
        made(sized(), |stats| unsafe { ffi::vram_context_stats_get(self.raw(), stats) })
            .map(PoolStats)
    }

    /// Gives everything to the driver that no live block uses; how many bytes that was.
    pub fn trim(&self) -> Result<u64> {
        // SAFETY: a valid handle; NULL options are all defaults.
        made(0, |bytes| unsafe { ffi::vram_context_trim(self.raw(), ptr::null(), bytes) })
    }

    /// Plans a fault of the simulated driver: the `nth` call from now fails as if memory had run out. For tests.
    pub fn sim_fault(&self, nth: u64, for_ever: bool) -> Result<()> {
        let mut fault: ffi::vram_sim_fault = sized();
        fault.call = ffi::VRAM_SIM_ANY;
        fault.nth = nth;
        fault.for_ever = for_ever;
        fault.code = ffi::VRAM_SIM_OUT_OF_MEMORY;
        // SAFETY: the struct outlives the call; NULL plans none.
        check(unsafe {
            ffi::vram_sim_fault_set(self.raw(), if nth == 0 { ptr::null() } else { &fault })
        })
    }
}

/// A backend, present or not.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BackendInfo {
    /// "cuda".
    pub name: String,
    /// Its driver was loaded and started.
    pub present: bool,
    /// Its devices.
    pub devices: u32,
    /// Of the driver; empty if unknown.
    pub version: String,
    /// If absent: why, and what to do.
    pub reason: String,
}

impl BackendInfo {
    fn of(raw: &ffi::vram_backend_info) -> BackendInfo {
        BackendInfo {
            name: unsafe { text_of(raw.name) }, // SAFETY: static storage
            present: raw.present,
            devices: raw.device_count,
            version: array_text(&raw.version),
            reason: array_text(&raw.reason),
        }
    }
}

/// What a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeviceKind {
    /// Hardware, discrete or integrated.
    Gpu,
    /// Plain host memory, or a driver that runs on the CPU.
    Cpu,
    /// A simulated device.
    Simulated,
}

/// What is known of a device. What is not known is None.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// "cuda".
    pub backend: String,
    /// Its number in the backend.
    pub backend_index: u32,
    /// What it is.
    pub kind: DeviceKind,
    /// From the driver.
    pub name: String,
    /// "sm_90"; empty if unknown.
    pub architecture: String,
    /// Capabilities: bits `VRAM_CAP_...` of [`ffi`].
    pub caps: u32,
    /// All memory of the device.
    pub memory_bytes: Option<u64>,
}

impl DeviceInfo {
    pub(crate) fn of(raw: &ffi::vram_device_info) -> DeviceInfo {
        DeviceInfo {
            backend: unsafe { text_of(raw.backend) }, // SAFETY: static storage
            backend_index: raw.backend_index,
            kind: match raw.kind {
                ffi::VRAM_DEVICE_GPU => DeviceKind::Gpu,
                ffi::VRAM_DEVICE_CPU => DeviceKind::Cpu,
                _ => DeviceKind::Simulated,
            },
            name: array_text(&raw.name),
            architecture: array_text(&raw.architecture),
            caps: raw.caps,
            memory_bytes: known(raw.memory_bytes),
        }
    }

    /// Whether it has a capability, `vram::ffi::VRAM_CAP_PINNED` for example.
    pub fn has(&self, cap: ffi::vram_cap) -> bool {
        self.caps & cap as u32 != 0
    }
}
