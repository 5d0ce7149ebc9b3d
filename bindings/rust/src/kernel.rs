// SPDX-License-Identifier: Apache-2.0
//! Kernels and launches.

use std::ffi::CString;
use std::mem::{size_of, ManuallyDrop};
use std::os::raw::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::device::Device;
use crate::error::{c_text, contained, made, sized, Error};
use crate::ffi;
use crate::pod::Pod;
use crate::Result;

/// Code for a device.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum KernelCode<'a> {
    /// PTX text or a cubin.
    Ptx(&'a [u8]),
    /// OpenCL C, compiled by the device's driver.
    OpenClC(&'a str),
    /// A SPIR-V module.
    Spirv(&'a [u8]),
    /// An AMD code object.
    Hsaco(&'a [u8]),
    /// Metal shading language.
    Metal(&'a str),
}

/// Code that was loaded on a device.
pub struct Kernel {
    raw: *mut ffi::vram_kernel,
    _device: Device, // dropped after the kernel was unloaded
    _entry: CString,
}

// SAFETY: a handle is a checked number; any call may be made from any thread (vram/base.h).
unsafe impl Send for Kernel {}
unsafe impl Sync for Kernel {}

impl Drop for Kernel {
    fn drop(&mut self) {
        // SAFETY: the handle is ours; whoever launched it promised to keep it until then.
        unsafe { ffi::vram_kernel_destroy(self.raw) };
    }
}

static PANICS: AtomicU64 = AtomicU64::new(0);

impl Kernel {
    /// Loads code. `entry` is the name of the function in it.
    ///
    /// # Safety
    /// The driver trusts the code: it must be valid for the device.
    pub unsafe fn load(device: &Device, code: KernelCode<'_>, entry: &str) -> Result<Kernel> {
        let (format, code) = match code {
            KernelCode::Ptx(code) => (ffi::VRAM_KERNEL_PTX, code),
            KernelCode::OpenClC(code) => (ffi::VRAM_KERNEL_OPENCL_C, code.as_bytes()),
            KernelCode::Spirv(code) => (ffi::VRAM_KERNEL_SPIRV, code),
            KernelCode::Hsaco(code) => (ffi::VRAM_KERNEL_HSACO, code),
            KernelCode::Metal(code) => (ffi::VRAM_KERNEL_METAL, code.as_bytes()),
        };
        Kernel::create(device, format, code.as_ptr().cast(), code.len(), entry)
    }

    /// A kernel in Rust, for the host and for simulated devices with `real=on`. `body` is called once for each group,
    /// in any order and from any thread. It must capture nothing, because a launch has arguments only:
    ///
    /// ```compile_fail,E0277
    /// # fn demo(device: &vram::Device) -> vram::Result<()> {
    /// let not_sync = std::cell::Cell::new(1);
    /// vram::Kernel::of_host(device, "count", move |_| not_sync.set(2))?;
    /// # Ok(()) }
    /// ```
    ///
    /// A panic in it ends that group and goes no further; [`Kernel::panics`] counts them.
    pub fn of_host<F>(device: &Device, entry: &str, body: F) -> Result<Kernel>
    where
        F: Fn(&KernelCall<'_>) + Send + Sync + 'static,
    {
        if size_of::<F>() != 0 {
            return Err(Error::invalid(format!(
                "the kernel {entry} captures variables: pass arguments instead"
            )));
        }
        let _body = ManuallyDrop::new(body); // nothing in it; it is called for ever
        let code = run_group::<F> as unsafe extern "C" fn(*const ffi::vram_kernel_call);
        // SAFETY: the function lasts as long as the program.
        unsafe { Kernel::create(device, ffi::VRAM_KERNEL_C, code as *const c_void, 0, entry) }
    }

    /// How many groups of kernels in Rust have panicked in this process.
    pub fn panics() -> u64 {
        PANICS.load(Ordering::Relaxed)
    }

    pub(crate) fn raw(&self) -> *mut ffi::vram_kernel {
        self.raw
    }

    unsafe fn create(
        device: &Device,
        format: ffi::vram_kernel_format,
        code: *const c_void,
        code_bytes: usize,
        entry: &str,
    ) -> Result<Kernel> {
        let entry = c_text(entry)?;
        let mut source: ffi::vram_kernel_source = sized();
        source.format = format;
        source.code = code;
        source.code_bytes = code_bytes;
        source.entry = entry.as_ptr();
        let raw = made(ptr::null_mut(), |out| ffi::vram_kernel_create(device.raw(), &source, out))?;
        Ok(Kernel { raw, _device: device.clone(), _entry: entry })
    }
}

unsafe extern "C" fn run_group<F: Fn(&KernelCall<'_>) + Send + Sync + 'static>(
    call: *const ffi::vram_kernel_call,
) {
    // SAFETY: F has no size, so any aligned address holds its value; `of_host` was given one and keeps it.
    let body = &*ptr::NonNull::<F>::dangling().as_ptr();
    let call = KernelCall(&*call);
    if contained(|| body(&call)).is_none() {
        count_panic();
    }
}

pub(crate) fn count_panic() {
    PANICS.fetch_add(1, Ordering::Relaxed);
}

/// One group of a launch, as a kernel in Rust gets it.
pub struct KernelCall<'a>(&'a ffi::vram_kernel_call);

impl KernelCall<'_> {
    /// Which group this is.
    pub fn group(&self) -> [u32; 3] {
        self.0.group
    }

    /// How many groups there are.
    pub fn groups(&self) -> [u32; 3] {
        self.0.groups
    }

    /// Items in a group; the kernel loops over them itself.
    pub fn group_size(&self) -> [u32; 3] {
        self.0.group_size
    }

    /// The value of argument number `index`.
    ///
    /// # Safety
    /// The launch has an argument of that number and type.
    pub unsafe fn argument<T: Pod>(&self, index: usize) -> T {
        (*self.0.arguments.add(index)).cast::<T>().read_unaligned()
    }
}

/// How a kernel is launched: groups and arguments.
#[derive(Clone, Debug)]
pub struct Launch {
    groups: [u32; 3],
    group_size: [u32; 3],
    bytes: Vec<u8>, // of all values
    sizes: Vec<usize>,
    address_mask: u32,
}

impl Launch {
    /// `groups` groups of `group_size` items in each direction.
    pub fn new(groups: [u32; 3], group_size: [u32; 3]) -> Launch {
        Launch { groups, group_size, bytes: Vec::new(), sizes: Vec::new(), address_mask: 0 }
    }

    /// Adds an argument.
    pub fn value<T: Pod>(mut self, value: T) -> Launch {
        // SAFETY: a Pod is its bytes.
        let bytes = unsafe {
            std::slice::from_raw_parts((&value as *const T).cast::<u8>(), size_of::<T>())
        };
        self.bytes.extend_from_slice(bytes);
        self.sizes.push(bytes.len());
        self
    }

    /// Adds an argument that is an address of the queue's device, which the library checks.
    pub fn address(mut self, address: u64) -> Launch {
        self.address_mask |= 1u32.checked_shl(self.sizes.len() as u32).unwrap_or(0);
        self.value(address)
    }

    pub(crate) unsafe fn submit(
        &self,
        queue: *mut ffi::vram_queue,
        kernel: &Kernel,
    ) -> ffi::vram_status {
        let mut at = 0;
        let mut values: Vec<*const c_void> = Vec::with_capacity(self.sizes.len());
        for bytes in &self.sizes {
            values.push(self.bytes[at..].as_ptr().cast());
            at += bytes;
        }
        let mut launch: ffi::vram_launch = sized();
        launch.groups = self.groups;
        launch.group_size = self.group_size;
        launch.argument_count = self.sizes.len() as u32;
        launch.arguments = values.as_ptr();
        launch.argument_bytes = self.sizes.as_ptr();
        launch.address_mask = self.address_mask;
        ffi::vram_queue_launch(queue, kernel.raw, &launch)
    }
}
