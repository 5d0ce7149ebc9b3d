// SPDX-License-Identifier: Apache-2.0
//! Contexts, backends, and what is known of devices before they are opened.

use std::os::raw::c_void;
use std::ptr;
use std::sync::{Arc, Mutex};

use crate::buffer::numbered;
use crate::device::Device;
use crate::error::{
    array_text, c_option, check, contained, known, locked, made, pointer_of, sized, text_of, Error,
};
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
    handlers: Mutex<Vec<*mut ErrorCall>>, // all that were set: a thread may be inside a former one
}

// SAFETY: a handle is a checked number; any call may be made from any thread (vram/base.h).
unsafe impl Send for ContextInner {}
unsafe impl Sync for ContextInner {}

impl Drop for ContextInner {
    fn drop(&mut self) {
        // SAFETY: the handle is ours. Its status is in the log; a destructor has nobody to tell.
        unsafe { ffi::vram_context_destroy(self.raw) };
        for handler in locked(&self.handlers).drain(..) {
            // SAFETY: made by Box::into_raw. Every object holds the context, so nobody is inside a handler now.
            drop(unsafe { Box::from_raw(handler) });
        }
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
        Ok(Context(Arc::new(ContextInner { raw, handlers: Mutex::default() })))
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

    /// Calls `handler` for every error of an allocation in this context, after all that a pool does by itself, and does
    /// what it answers. It replaces the handler before, and is kept as long as the context.
    ///
    /// ```compile_fail,E0277
    /// fn demo(context: &vram::Context) -> vram::Result<()> {
    ///     let not_sent = std::rc::Rc::new(1);
    ///     context.on_error(move |_| {
    ///         let _ = &not_sent;
    ///         vram::ErrorAnswer::Fail
    ///     })
    /// }
    /// ```
    ///
    /// It is called on the thread that allocates, with no lock held, and may use the library; it is not called for
    /// errors of its own calls. A panic in it is [`ErrorAnswer::Fail`] and goes no further. A handler that holds the
    /// context, or anything made from it, keeps it for ever.
    pub fn on_error<F>(&self, handler: F) -> Result<()>
    where
        F: Fn(&ErrorEvent) -> ErrorAnswer + Send + Sync + 'static,
    {
        let call: ErrorCall = Box::new(handler);
        let user = Box::into_raw(Box::new(call));
        locked(&self.0.handlers).push(user);
        // SAFETY: a valid handle; the closure stays where it is until the context has ended.
        check(unsafe { ffi::vram_error_handler_set(self.raw(), Some(call_handler), user.cast()) })
    }

    /// Sets no handler.
    pub fn clear_error_handler(&self) -> Result<()> {
        // SAFETY: a valid handle.
        check(unsafe { ffi::vram_error_handler_set(self.raw(), None, ptr::null_mut()) })
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

numbered! {
    /// What is to be done about an error.
    ErrorAnswer: vram_error_answer {
        /// The call fails with it.
        #[default]
        Fail = VRAM_ERROR_FAIL,
        /// Once more, from the start; of a request at most three times. Only after exhaustion.
        Retry = VRAM_ERROR_RETRY,
        /// Other memory than the device's, for this request. Only after exhaustion.
        FallBack = VRAM_ERROR_FALL_BACK,
    }
}

/// What a handler of [`Context::on_error`] is called for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ErrorEvent {
    /// With its text.
    pub error: Error,
    /// What was asked for.
    pub bytes: u64,
    /// Retries of this request so far.
    pub retries: u32,
    /// Errors of this status that the handler was called for.
    pub total: u64,
    /// The same, but an error counts half as much after each `error_half_life`.
    pub recent: f64,
}

type ErrorCall = Box<dyn Fn(&ErrorEvent) -> ErrorAnswer + Send + Sync>;

unsafe extern "C" fn call_handler(
    user: *mut c_void,
    event: *const ffi::vram_error_event,
) -> ffi::vram_error_answer {
    let (call, raw) = (&*user.cast::<ErrorCall>(), &*event);
    let answer = contained(|| {
        call(&ErrorEvent {
            error: Error::of_record(&*raw.error),
            bytes: raw.bytes,
            retries: raw.retries,
            total: raw.total,
            recent: raw.recent,
        })
    });
    answer.unwrap_or_default().raw()
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

numbered! {
    /// What a device can do.
    Cap: vram_cap {
        /// Maps physical memory: growth in place, and pools that move memory.
        #[default]
        Vmm = VRAM_CAP_VMM,
        /// Page-locked host memory that it reads at full speed.
        Pinned = VRAM_CAP_PINNED,
        /// Memory that migrates between host and device.
        Managed = VRAM_CAP_MANAGED,
        /// Reads and writes the memory of another device.
        Peers = VRAM_CAP_PEERS,
        /// Launches kernels.
        Kernels = VRAM_CAP_KERNELS,
        /// An address is the device's own.
        TrueAddress = VRAM_CAP_TRUE_ADDRESS,
        /// The host may dereference its memory.
        HostAccess = VRAM_CAP_HOST_ACCESS,
        /// The driver says how much memory is free.
        MemoryInfo = VRAM_CAP_MEMORY_INFO,
        /// Takes queues that the program made itself.
        Adopt = VRAM_CAP_ADOPT,
        /// No hardware behind it.
        Simulated = VRAM_CAP_SIMULATED,
        /// Maps one handle of memory at several addresses.
        Alias = VRAM_CAP_ALIAS,
        /// Memory lies behind the driver's own objects.
        Handles = VRAM_CAP_HANDLES,
        /// A GPU that shares its memory with the host.
        Integrated = VRAM_CAP_INTEGRATED,
        /// Network cards may register its memory.
        Rdma = VRAM_CAP_RDMA,
    }
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
    /// Capabilities as bits: [`DeviceInfo::has`].
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

    /// Whether it has a capability.
    pub fn has(&self, cap: Cap) -> bool {
        self.caps & cap.raw() as u32 != 0
    }
}
