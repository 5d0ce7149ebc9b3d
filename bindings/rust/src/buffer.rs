// SPDX-License-Identifier: Apache-2.0
//! Buffers: memory with a kind, a home queue and a name.
//!
//! What is safe here, and why:
//!
//! (1) Writing takes `&mut Buffer`, reading `&Buffer`, and every copy runs on the home queue: safe code cannot have two
//!     copies of one buffer race.
//! (2) The host touches contents only through a [`Mapping`], which borrows the buffer. It begins when all work that
//!     uses the buffer is complete.
//! (3) Only device memory is copied by its address, because it never moves by itself. Other kinds are copied as spans,
//!     for which the library finds the place.

use std::ptr;
use std::sync::Arc;

use crate::async_result::{settle, AsyncResult, HostMemory};
use crate::block;
use crate::error::{array_text, c_option, check, made, pointer_of, sized, text_of, Error};
use crate::ffi;
use crate::growth::Growth;
use crate::mapping::Mapping;
use crate::named::Held;
use crate::pod::{bytes_of, zeros, Pod};
use crate::pool::Pool;
use crate::provider::{Provider, Served};
use crate::queue::Queue;
use crate::Result;

macro_rules! numbered {
    ($(#[$doc:meta])* $name:ident: $raw:ident { $($(#[$of:meta])* $variant:ident = $number:ident,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub enum $name { $($(#[$of])* $variant,)* }

        impl $name {
            #[allow(dead_code)]
            pub(crate) fn raw(self) -> ffi::$raw {
                match self { $($name::$variant => ffi::$number,)* }
            }

            #[allow(dead_code)]
            pub(crate) fn of(raw: ffi::$raw) -> $name {
                match raw { $(ffi::$number => $name::$variant,)* _ => $name::default() }
            }
        }
    };
}
pub(crate) use numbered;

numbered! {
    /// Where contents lie.
    MemoryKind: vram_memory_kind {
        /// The device's own memory.
        #[default]
        Device = VRAM_MEMORY_DEVICE,
        /// Page-locked host memory.
        Pinned = VRAM_MEMORY_PINNED,
        /// Memory that migrates between host and device.
        Managed = VRAM_MEMORY_MANAGED,
        /// Ordinary host memory.
        Host = VRAM_MEMORY_HOST,
    }
}

numbered! {
    /// What memory a buffer is made of.
    BufferKind: vram_buffer_kind {
        /// The device's memory, from the pool.
        #[default]
        Device = VRAM_BUFFER_DEVICE,
        /// Page-locked host memory, for copies that overlap other work.
        Pinned = VRAM_BUFFER_PINNED,
        /// Memory that migrates between host and device, at one address.
        Managed = VRAM_BUFFER_MANAGED,
        /// Memory that host and device both reach at one address, and that does not migrate.
        Mapped = VRAM_BUFFER_MAPPED,
        /// The device's memory, or host memory if that is exhausted.
        Fallback = VRAM_BUFFER_FALLBACK,
    }
}

numbered! {
    /// What one element is. It is used to count elements; contents are never converted.
    Precision: vram_precision {
        /// No element type: one byte.
        #[default]
        Bytes = VRAM_PRECISION_BYTES,
        /// 4 bytes.
        Fp32 = VRAM_PRECISION_FP32,
        /// 2 bytes.
        Fp16 = VRAM_PRECISION_FP16,
        /// 2 bytes.
        Bf16 = VRAM_PRECISION_BF16,
        /// One byte.
        Int8 = VRAM_PRECISION_INT8,
    }
}

/// Where a managed buffer is used next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// On its own device.
    Own,
    /// On the host.
    Host,
    /// On the device of that number in [`crate::Context::devices`].
    Device(u32),
}

/// What a buffer is. Empty: device memory, counted in bytes.
#[derive(Clone, Debug, Default)]
pub struct BufferOptions<'a> {
    /// What memory it is made of.
    pub kind: BufferKind,
    /// What an element is.
    pub precision: Precision,
    /// A label for reports.
    pub name: Option<&'a str>,
    /// Who it is for, "tenant/model/layer": for statistics and quotas.
    pub tag: Option<&'a str>,
    /// How it grows; None: exactly to what is needed.
    pub growth: Option<Growth>,
    /// Memory of the program's own for this buffer alone, in whole granules. It lasts as long as the pool. A `kind` of
    /// `Device` is what [`Provider::kind`] says. Not for a batch.
    pub provider: Option<Arc<dyn Provider>>,
}

impl BufferOptions<'_> {
    /// With a provider, `Device` is what that serves.
    fn kind_of(&self, served: &Option<Arc<Served>>) -> Result<BufferKind> {
        match (self.kind, served.as_ref().map(|served| served.kind)) {
            (BufferKind::Device, Some(MemoryKind::Pinned)) => Ok(BufferKind::Pinned),
            (BufferKind::Device, Some(MemoryKind::Managed)) => Ok(BufferKind::Managed),
            (BufferKind::Device, Some(MemoryKind::Host)) => {
                Err(Error::invalid("a provider of ordinary host memory serves no kind of buffer"))
            }
            (kind, _) => Ok(kind),
        }
    }
}

/// A buffer of a pool. Dropping it returns the memory in the order of its home queue: nothing waits.
///
/// It keeps its pool and its queue alive, so buffers, pools and queues may be dropped in any order.
pub struct Buffer {
    raw: *mut ffi::vram_buffer,
    kind: BufferKind,
    owner: Owner,
    queue: Queue,
    pool: Pool,
}

/// Who ends a buffer.
pub(crate) enum Owner {
    /// Its value does.
    Value,
    /// A batch or a scope, for no longer than which the value is lent.
    Lender,
    /// A manager, to which the value gives it back.
    Name(#[allow(dead_code)] Held), // its end gives the name back
}

// SAFETY: a handle is a checked number; any call may be made from any thread. Contents: see (1) and (2).
unsafe impl Send for Buffer {}
unsafe impl Sync for Buffer {}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Owner::Value = self.owner {
            // SAFETY: the handle is ours.
            unsafe { ffi::vram_buffer_destroy(self.raw) };
        }
    }
}

/// The options as C has them, and the texts that they point to.
/// Makes a buffer with `call`; its handle, and its kind.
pub(crate) fn make_with(
    pool: &Pool,
    options: &BufferOptions<'_>,
    call: impl FnOnce(&ffi::vram_buffer_options, *mut *mut ffi::vram_buffer) -> ffi::vram_status,
) -> Result<(*mut ffi::vram_buffer, BufferKind)> {
    let (name, tag) = (c_option(options.name)?, c_option(options.tag)?);
    let growth = options.growth.as_ref().map(Growth::raw);
    let served = options.provider.as_ref().map(|provider| pool.served(provider));
    let provider = served.as_ref().map(|served| served.raw());
    let kind = options.kind_of(&served)?;
    let mut raw: ffi::vram_buffer_options = sized();
    raw.kind = kind.raw();
    raw.precision = options.precision.raw();
    raw.name = pointer_of(&name);
    raw.tag = pointer_of(&tag);
    raw.growth = growth.as_ref().map_or(ptr::null(), |growth| growth);
    raw.provider = provider.as_ref().map_or(ptr::null(), |provider| provider);
    Ok((made(ptr::null_mut(), |out| call(&raw, out))?, kind))
}

impl Buffer {
    pub(crate) fn create(
        pool: &Pool,
        queue: &Queue,
        bytes: u64,
        options: &BufferOptions<'_>,
    ) -> Result<Buffer> {
        // SAFETY: valid handles; what the options point to outlives the call, and what a provider serves the pool.
        let (raw, kind) = make_with(pool, options, |raw, out| unsafe {
            ffi::vram_buffer_create(pool.raw(), bytes, queue.raw(), raw, out)
        })?;
        Ok(Buffer::of_raw(raw, kind, Owner::Value, pool, queue))
    }

    pub(crate) fn of_raw(
        raw: *mut ffi::vram_buffer,
        kind: BufferKind,
        owner: Owner,
        pool: &Pool,
        queue: &Queue,
    ) -> Buffer {
        Buffer { raw, kind, owner, queue: queue.clone(), pool: pool.clone() }
    }

    pub(crate) fn set_owner(&mut self, owner: Owner) {
        self.owner = owner;
    }

    /// Whether it may be given to another owner: one that a manager has the name of may not.
    pub(crate) fn can_be_given(&self) -> Result<()> {
        match self.owner {
            Owner::Name(_) => Err(Error::invalid("the buffer belongs to its manager")),
            _ => Ok(()),
        }
    }

    /// The handle, for calls of [`ffi`] that the crate does not wrap.
    pub fn raw(&self) -> *mut ffi::vram_buffer {
        self.raw
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Its home queue, on which all its copies run.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Everything that is known of it.
    pub fn info(&self) -> Result<BufferInfo> {
        let raw = self.raw_info()?;
        Ok(BufferInfo {
            id: raw.id,
            name: array_text(&raw.name),
            tag: unsafe { text_of(raw.tag) }, // SAFETY: valid until the context ends
            kind: BufferKind::of(raw.kind),
            location: MemoryKind::of(raw.location),
            precision: Precision::of(raw.precision),
            capacity_bytes: raw.capacity_bytes,
            used_bytes: raw.used_bytes,
            elements: raw.elements,
            resizes: raw.resizes,
            pinned: raw.pinned,
            created_ns: raw.created_ns,
            accessed_ns: raw.accessed_ns,
        })
    }

    fn raw_info(&self) -> Result<ffi::vram_buffer_info> {
        // SAFETY: a valid handle, and an out-parameter of the right size.
        made(sized(), |info| unsafe { ffi::vram_buffer_info_get(self.raw, info) })
    }

    /// Bytes in use.
    pub fn bytes(&self) -> Result<u64> {
        Ok(self.raw_info()?.used_bytes)
    }

    /// Its address now, for kernels. It changes when the buffer moves or grows. To ask does not move it.
    pub fn addr(&self) -> Result<u64> {
        Ok(self.raw_info()?.addr)
    }

    /// Says that another queue uses the buffer too: it is not reused, moved or mapped before all work that was
    /// submitted there until then is done.
    pub fn used_on(&self, queue: &Queue) -> Result<()> {
        // SAFETY: valid handles.
        check(unsafe { ffi::vram_buffer_use(self.raw, queue.raw()) })
    }

    // ------------------------------------------------------------------------------ copies

    /// Copies `data` to its start and waits until that is done, however long it takes. A deadline needs
    /// [`Buffer::upload_async`], whose result owns the data.
    ///
    /// If the driver can neither complete the copy nor say that it has ended, the process is aborted: `data` is
    /// borrowed, and the device may still read it.
    pub fn upload<T: Pod>(&mut self, data: &[T]) -> Result<()> {
        if self.kind == BufferKind::Device {
            return block::upload(&self.queue, self.addr()?, self.bytes()?, data);
        }
        let span = self.span(bytes_of(data))?;
        // SAFETY: the memory is borrowed until the copy is over.
        self.complete(unsafe {
            ffi::vram_span_upload(self.queue.raw(), span, data.as_ptr().cast())
        })
    }

    /// Copies its start into `data`, and waits as [`Buffer::upload`] does.
    pub fn download_into<T: Pod>(&self, data: &mut [T]) -> Result<()> {
        if self.kind == BufferKind::Device {
            return block::download(&self.queue, self.addr()?, self.bytes()?, data);
        }
        let span = self.span(bytes_of(data))?;
        // SAFETY: the memory is borrowed until the copy is over.
        self.complete(unsafe {
            ffi::vram_span_download(self.queue.raw(), data.as_mut_ptr().cast(), span)
        })
    }

    /// Copies all bytes in use to the host, after the work that was submitted to its queue before, and waits.
    pub fn download<T: Pod>(&self) -> Result<Vec<T>> {
        self.download_async()?.into_inner()
    }

    /// Copies `data` to its start in the background. The result owns the data until the device has read it.
    pub fn upload_async<H: HostMemory>(&mut self, data: H) -> Result<AsyncResult<H>> {
        if self.kind == BufferKind::Device {
            return block::upload_async(&self.queue, self.addr()?, self.bytes()?, data);
        }
        let span = self.span(bytes_of(data.as_slice()))?;
        AsyncResult::start(&self.queue, data, None, |data, raw| unsafe {
            // SAFETY: the result owns the memory.
            let from = data.as_slice().as_ptr().cast();
            self.marked(ffi::vram_span_upload(self.queue.raw(), span, from), raw)
        })
    }

    /// Copies all bytes in use to the host in the background.
    pub fn download_async<T: Pod>(&self) -> Result<AsyncResult<Vec<T>>> {
        let bytes = self.bytes()?;
        let count = block::count_of::<T>(bytes)?;
        if self.kind == BufferKind::Device {
            return block::download_async(&self.queue, self.addr()?, count);
        }
        let span = self.span(bytes)?;
        AsyncResult::start_mut(&self.queue, zeros(count)?, |data: &mut Vec<T>, raw| unsafe {
            // SAFETY: the result owns the memory.
            let to = data.as_mut_ptr().cast();
            self.marked(ffi::vram_span_download(self.queue.raw(), to, span), raw)
        })
    }

    /// Fills all bytes in use with one byte, in the order of its queue. In host memory, which no queue fills, it waits
    /// for all work that uses the buffer.
    pub fn fill(&mut self, byte: u8) -> Result<()> {
        let info = self.raw_info()?;
        if info.used_bytes == 0 {
            return Ok(());
        }
        if matches!(MemoryKind::of(info.location), MemoryKind::Pinned | MemoryKind::Host) {
            let mut mapping = self.map::<u8>()?;
            mapping.fill(byte);
            return mapping.unmap();
        }
        // SAFETY: valid handles; the library checks the range. Nothing moves it meanwhile: `self` is borrowed.
        check(unsafe {
            ffi::vram_queue_fill(self.queue.raw(), info.addr, u32::from(byte), 1, info.used_bytes)
        })
    }

    /// Copies another buffer of the device to its start, after the work on that buffer's queue so far. The devices
    /// wait, the host does not. Not from a fallback buffer, which another reader may move meanwhile: see (3).
    pub fn copy_from(&mut self, from: &Buffer) -> Result<()> {
        if from.kind == BufferKind::Fallback {
            return Err(Error::invalid(
                "a fallback buffer cannot be copied from: download and upload it",
            ));
        }
        let bytes = from.bytes()?;
        if bytes > self.bytes()? {
            return Err(Error::invalid(format!("{bytes} bytes do not fit into {}", self.bytes()?)));
        }
        let elsewhere = from.queue.raw() != self.queue.raw();
        if elsewhere {
            self.queue.after(from.queue.mark()?)?;
        }
        let (to, start) = (self.addr()?, from.addr()?);
        // SAFETY: valid handles; the library checks both ranges.
        check(unsafe {
            let none = ptr::null_mut();
            ffi::vram_transfer_copy(self.queue.raw(), to, start, bytes, ptr::null(), none)
        })?;
        if elsewhere {
            if let Err(error) = from.used_on(&self.queue) {
                self.queue.wait()?; // the other way to know that nothing reads it any more
                return Err(error);
            }
        }
        Ok(())
    }

    pub(crate) fn span(&self, bytes: u64) -> Result<ffi::vram_span> {
        let start = ffi::vram_span { buffer: ptr::null_mut(), offset: 0, bytes: 0 };
        // SAFETY: a valid handle and an out-parameter.
        made(start, |span| unsafe { ffi::vram_buffer_span(self.raw, 0, bytes, span) })
    }

    /// The end of a copy of a span with borrowed memory.
    fn complete(&self, status: ffi::vram_status) -> Result<()> {
        settle(&self.queue, status)?;
        // SAFETY: a valid handle.
        settle(&self.queue, unsafe {
            ffi::vram_queue_wait(self.queue.raw(), ffi::VRAM_TIMEOUT_INFINITE)
        })
    }

    /// The handle of a copy of a span: a point after it.
    unsafe fn marked(
        &self,
        status: ffi::vram_status,
        raw: *mut ffi::vram_async,
    ) -> ffi::vram_status {
        let mut point = ffi::vram_point { queue: ptr::null_mut(), value: 0 };
        if status != ffi::VRAM_OK {
            return status;
        }
        match ffi::vram_queue_mark(self.queue.raw(), &mut point) {
            ffi::VRAM_OK => ffi::vram_async_of_point(point, ptr::null(), raw),
            failed => failed,
        }
    }

    // ------------------------------------------------------------------------------- sizes

    /// Sets the bytes in use, and grows by its policy if they do not fit. Contents stay.
    pub fn resize(&mut self, bytes: u64) -> Result<()> {
        // SAFETY: valid handles.
        check(unsafe { ffi::vram_buffer_resize(self.raw, bytes, self.queue.raw()) })
    }

    /// Makes room for `bytes` in all.
    pub fn reserve(&mut self, bytes: u64) -> Result<()> {
        // SAFETY: valid handles.
        check(unsafe { ffi::vram_buffer_reserve(self.raw, bytes, self.queue.raw()) })
    }

    /// Releases what is not in use.
    pub fn fit(&mut self) -> Result<()> {
        // SAFETY: valid handles.
        check(unsafe { ffi::vram_buffer_fit(self.raw, self.queue.raw()) })
    }

    /// Sets how it grows.
    pub fn set_growth(&mut self, growth: &Growth) -> Result<()> {
        // SAFETY: the struct is copied by the call.
        check(unsafe { ffi::vram_buffer_growth_set(self.raw, &growth.raw()) })
    }

    // ------------------------------------------------------------------------------ moving

    /// Moves a fallback buffer to the device, with its contents.
    pub fn promote(&mut self) -> Result<()> {
        // SAFETY: valid handles.
        check(unsafe { ffi::vram_buffer_promote(self.raw, self.queue.raw()) })
    }

    /// Moves a fallback buffer to host memory, with its contents.
    pub fn demote(&mut self) -> Result<()> {
        // SAFETY: valid handles.
        check(unsafe { ffi::vram_buffer_demote(self.raw, self.queue.raw()) })
    }

    /// Moves a managed buffer to where it will be used. A hint.
    pub fn prefetch(&mut self, to: Target) -> Result<()> {
        let target = match to {
            Target::Own => ffi::VRAM_TARGET_OWN,
            Target::Host => ffi::VRAM_TARGET_HOST,
            Target::Device(index) => i32::try_from(index).unwrap_or(i32::MAX),
        };
        let bytes = self.bytes()?;
        // SAFETY: valid handles.
        check(unsafe { ffi::vram_buffer_prefetch(self.raw, 0, bytes, target, self.queue.raw()) })
    }

    // ----------------------------------------------------------------------------- mapping

    /// Gives the host all bytes in use, as elements of T. Waits for all work that uses the buffer, up to the option
    /// `wait_timeout`. Memory that the host cannot access is copied, and written back when the mapping ends.
    ///
    /// The mapping borrows the buffer, so nothing else can use it meanwhile:
    ///
    /// ```compile_fail,E0499
    /// fn demo(buffer: &mut vram::Buffer) -> vram::Result<()> {
    ///     let mut numbers = buffer.map::<f32>()?;
    ///     buffer.fill(0)?; // the buffer is borrowed
    ///     numbers[0] = 1.0;
    ///     Ok(())
    /// }
    /// ```
    pub fn map<T: Pod>(&mut self) -> Result<Mapping<'_, T>> {
        let bytes = self.bytes()?;
        let count = block::count_of::<T>(bytes)?;
        if count == 0 {
            return Err(Error::invalid("the buffer is empty: there is nothing to map"));
        }
        // SAFETY: valid handles; the mapping borrows `self`, and `bytes` are `count` elements.
        unsafe { Mapping::begin(self.raw, self.queue.raw(), bytes, count) }
    }
}

/// What is known of a buffer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BufferInfo {
    /// Unique in the process, never used again.
    pub id: u64,
    /// As given.
    pub name: String,
    /// As given; empty if there is none.
    pub tag: String,
    /// What memory it is made of.
    pub kind: BufferKind,
    /// Where its contents lie now.
    pub location: MemoryKind,
    /// What an element is.
    pub precision: Precision,
    /// Bytes that fit without growing.
    pub capacity_bytes: u64,
    /// Bytes in use.
    pub used_bytes: u64,
    /// The same in elements.
    pub elements: u64,
    /// Times that its capacity changed.
    pub resizes: u64,
    /// Page-locked.
    pub pinned: bool,
    /// On the library's monotonic clock.
    pub created_ns: u64,
    /// When a call last used it.
    pub accessed_ns: u64,
}
