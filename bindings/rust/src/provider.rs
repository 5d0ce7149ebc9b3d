// SPDX-License-Identifier: Apache-2.0
//! Memory of the program's own for pools.
//!
//! A provider gives and takes [`Memory`], of which each owns what it names. So whatever a provider does, two pieces
//! never overlap, and a piece is gone only when the pool has given it back.

use std::alloc::{alloc_zeroed, dealloc, Layout};
use std::collections::HashMap;
use std::fmt;
use std::os::raw::c_void;
use std::sync::{Arc, Mutex};

use crate::buffer::MemoryKind;
use crate::device::Device;
use crate::error::{contained, host_memory, locked, made, sized, Error};
use crate::ffi;
use crate::Result;

/// Memory in whole pages, from the driver or from the system. Dropping it gives it back.
pub struct Memory {
    addr: u64,
    bytes: u64,
    source: Source,
}

enum Source {
    Device(Device, MemoryKind),
    System(Layout),
}

// SAFETY: it owns what it names; the host reads it by `&`, and writes it by `&mut`.
unsafe impl Send for Memory {}
unsafe impl Sync for Memory {}

impl Memory {
    /// `bytes` of a kind of the device's memory, straight from the driver: device memory, page-locked, managed.
    pub fn of_device(device: &Device, bytes: u64, kind: MemoryKind) -> Result<Memory> {
        // SAFETY: a valid handle and an out-parameter.
        let addr = made(0, |addr| unsafe {
            ffi::vram_device_alloc(device.raw(), bytes, kind.raw(), addr)
        })?;
        Ok(Memory { addr, bytes, source: Source::Device(device.clone(), kind) })
    }

    /// `bytes` of ordinary host memory, zeros, aligned to `alignment`.
    pub fn of_host(bytes: u64, alignment: u64) -> Result<Memory> {
        let size = usize::try_from(bytes).map_err(|_| host_memory(usize::MAX))?;
        let layout = usize::try_from(alignment).ok().and_then(|alignment| {
            Layout::from_size_align(size, alignment).ok().filter(|layout| layout.size() != 0)
        });
        let layout = layout.ok_or_else(|| {
            Error::invalid(format!("no memory has {bytes} bytes, aligned to {alignment}"))
        })?;
        // SAFETY: the layout is not empty.
        let pointer = unsafe { alloc_zeroed(layout) };
        if pointer.is_null() {
            return Err(host_memory(size));
        }
        Ok(Memory { addr: pointer as usize as u64, bytes, source: Source::System(layout) })
    }

    /// Its first byte.
    pub fn addr(&self) -> u64 {
        self.addr
    }

    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What it is.
    pub fn kind(&self) -> MemoryKind {
        match self.source {
            Source::Device(_, kind) => kind,
            Source::System(_) => MemoryKind::Host,
        }
    }

    /// Its contents, if it is page-locked or ordinary host memory; else None.
    pub fn as_slice(&self) -> Option<&[u8]> {
        // SAFETY: host memory that this owns; no device uses it while the program has it.
        self.host().map(|data| unsafe { std::slice::from_raw_parts(data, self.bytes as usize) })
    }

    /// The same for writing.
    pub fn as_mut_slice(&mut self) -> Option<&mut [u8]> {
        // SAFETY: as above, and borrowed alone.
        self.host().map(|data| unsafe { std::slice::from_raw_parts_mut(data, self.bytes as usize) })
    }

    fn host(&self) -> Option<*mut u8> {
        matches!(self.kind(), MemoryKind::Pinned | MemoryKind::Host)
            .then(|| self.addr as usize as *mut u8)
    }

    fn is_elsewhere(&self, device: &Device) -> bool {
        matches!(&self.source, Source::Device(owner, _) if owner.raw() != device.raw())
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        match &self.source {
            // SAFETY: the memory is ours, and nothing uses it.
            Source::Device(device, _) => unsafe {
                ffi::vram_device_free(device.raw(), self.addr);
            },
            // SAFETY: allocated with this layout.
            Source::System(layout) => unsafe {
                dealloc(self.addr as usize as *mut u8, *layout);
            },
        }
    }
}

/// An allocator of the program's own, for [`crate::PoolOptions::provider`] and [`crate::BufferOptions::provider`]: one
/// that counts, keeps large pages, or takes host memory.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use std::sync::Arc;
/// use vram::{Device, Memory, MemoryKind, PoolOptions, Provider};
///
/// struct Counting(Device, AtomicU64);
/// impl Provider for Counting {
///     fn allocate(&self, bytes: u64) -> vram::Result<Memory> {
///         self.1.fetch_add(1, Ordering::Relaxed);
///         Memory::of_device(&self.0, bytes, MemoryKind::Device)
///     }
/// }
/// # fn main() -> vram::Result<()> {
/// # let context = vram::Context::with(&vram::ContextOptions { backends: Some("host"), ..Default::default() })?;
/// # let device = context.best_device()?;
/// let counting = Arc::new(Counting(device.clone(), AtomicU64::new(0)));
/// let pool = device.pool_with(&PoolOptions { provider: Some(counting.clone()), ..Default::default() })?;
/// let queue = device.queue()?;
/// drop(pool.alloc(&queue, 4096)?);
/// assert_eq!(counting.1.load(Ordering::Relaxed), 1);
/// # Ok(()) }
/// ```
///
/// ```compile_fail,E0277
/// struct NotShared(std::cell::Cell<u64>);
/// impl vram::Provider for NotShared {
///     fn allocate(&self, bytes: u64) -> vram::Result<vram::Memory> {
///         vram::Memory::of_host(bytes, self.0.get())
///     }
/// }
/// ```
///
/// Its functions are called from any thread, with no lock held; a panic in them goes no further, and the memory is
/// refused or lost. A provider that holds its own pool keeps it for ever.
pub trait Provider: Send + Sync + 'static {
    /// Gives at least `bytes`, which are a multiple of the granule, at an address that is one too. Memory of the
    /// device must be of the pool's own [`Device`] value.
    fn allocate(&self, bytes: u64) -> Result<Memory>;

    /// Takes back what `allocate` gave.
    fn free(&self, memory: Memory) {
        drop(memory);
    }

    /// What it serves: device memory, page-locked or managed, so that a pool on it has buffers of that kind. A driver
    /// that can tell refuses memory of another kind.
    fn kind(&self) -> MemoryKind {
        MemoryKind::Device
    }

    /// A power of two, at least 4096.
    fn granule(&self) -> u64 {
        2 << 20
    }
}

impl fmt::Debug for dyn Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Provider {{ kind: {:?}, granule: {} }}", self.kind(), self.granule())
    }
}

/// What a provider has given to a pool or its buffers. The pool has its address, and every piece of memory that was
/// given counts as a reference: a pool that was destroyed gives memory back later, while another thread is inside it.
pub(crate) struct Served {
    provider: Arc<dyn Provider>,
    device: Device,
    pub(crate) kind: MemoryKind,
    granule: u64,
    given: Mutex<HashMap<u64, Memory>>,
}

impl Served {
    pub(crate) fn new(provider: Arc<dyn Provider>, device: &Device) -> Arc<Served> {
        let granule = provider.granule().max(1); // what is no power of two the library refuses
        let kind = provider.kind();
        let device = device.clone();
        Arc::new(Served { provider, device, kind, granule, given: Mutex::default() })
    }

    pub(crate) fn is_of(&self, provider: &Arc<dyn Provider>) -> bool {
        Arc::as_ptr(&self.provider).cast::<()>() == Arc::as_ptr(provider).cast::<()>()
    }

    pub(crate) fn raw(self: &Arc<Served>) -> ffi::vram_provider {
        let mut raw: ffi::vram_provider = sized();
        raw.user = Arc::as_ptr(self) as *mut c_void;
        raw.alloc = Some(call_allocate);
        raw.free = Some(call_free);
        raw.granule = self.granule;
        raw
    }

    fn allocate(&self, bytes: u64) -> Result<u64> {
        let memory = self.provider.allocate(bytes)?;
        let addr = memory.addr;
        if memory.bytes < bytes || addr % self.granule != 0 || memory.is_elsewhere(&self.device) {
            let (has, granule) = (memory.bytes, self.granule);
            self.provider.free(memory);
            return Err(Error::invalid(format!(
                "the provider gave {has} bytes at 0x{addr:x}: not {bytes} of this device, aligned to {granule}"
            )));
        }
        locked(&self.given).insert(addr, memory);
        // SAFETY: made by Arc::new, and alive. The reference is that of `call_free`.
        unsafe { Arc::increment_strong_count(self) };
        Ok(addr)
    }
}

unsafe extern "C" fn call_allocate(
    user: *mut c_void,
    bytes: u64,
    addr: *mut u64,
) -> ffi::vram_status {
    let served = &*user.cast::<Served>();
    match contained(|| served.allocate(bytes)) {
        Some(Ok(given)) => {
            *addr = given;
            ffi::VRAM_OK
        }
        Some(Err(error)) => error.status(),
        None => ffi::VRAM_ERR_BACKEND,
    }
}

unsafe extern "C" fn call_free(user: *mut c_void, addr: u64, _bytes: u64) -> ffi::vram_status {
    let served = Arc::from_raw(user.cast::<Served>()); // the reference of this memory
    let memory = locked(&served.given).remove(&addr);
    contained(|| memory.map_or((), |memory| served.provider.free(memory)));
    contained(|| drop(served));
    ffi::VRAM_OK
}
