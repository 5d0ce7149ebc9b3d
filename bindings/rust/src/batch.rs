// SPDX-License-Identifier: Apache-2.0
//! Batches: buffers that are made together, lie together and end together.

use std::ffi::CString;
use std::ops::Deref;
use std::os::raw::c_void;
use std::ptr;

use crate::async_result::settle;
use crate::buffer::{Buffer, BufferKind, Owner, Precision};
use crate::error::{c_option, check, made, pointer_of, sized, Error};
use crate::ffi;
use crate::mapping::Mapping;
use crate::pod::{bytes_of, Pod};
use crate::pool::Pool;
use crate::queue::Queue;
use crate::Result;

/// A buffer to make: its elements, and perhaps its first contents.
#[derive(Clone, Debug, Default)]
pub struct BatchItem<'a> {
    elements: u64,
    precision: Precision,
    kind: BufferKind,
    name: Option<&'a str>,
    contents: Option<&'a [u8]>,
}

impl<'a> BatchItem<'a> {
    /// A buffer of `elements`, whose contents are undefined.
    pub fn new(elements: u64, precision: Precision) -> BatchItem<'a> {
        BatchItem { elements, precision, ..BatchItem::default() }
    }

    /// Its first contents, exactly those of the elements.
    pub fn contents<T: Pod>(mut self, data: &'a [T]) -> BatchItem<'a> {
        // SAFETY: a Pod is its bytes.
        let bytes = unsafe {
            std::slice::from_raw_parts(data.as_ptr().cast::<u8>(), bytes_of(data) as usize)
        };
        self.contents = Some(bytes);
        self
    }

    /// What memory it is made of.
    pub fn kind(mut self, kind: BufferKind) -> BatchItem<'a> {
        self.kind = kind;
        self
    }

    /// A label for reports.
    pub fn name(mut self, name: &'a str) -> BatchItem<'a> {
        self.name = Some(name);
        self
    }
}

/// Buffers that are made all or none, and end together when the batch is dropped.
///
/// ```
/// # fn main() -> vram::Result<()> {
/// # let context = vram::Context::with(&vram::ContextOptions { backends: Some("host"), ..Default::default() })?;
/// # let device = context.best_device()?;
/// # let (pool, queue) = (device.pool()?, device.queue()?);
/// use vram::{BatchItem, Precision};
/// let mut batch = pool.batch(&queue)?;
/// let weights = [1.0f32; 64];
/// batch.add(&[
///     BatchItem::new(64, Precision::Fp32).contents(&weights),
///     BatchItem::new(512, Precision::Int8),
/// ])?;
/// assert_eq!(batch.get(0)?.download::<f32>()?, weights);
/// # Ok(()) }
/// ```
pub struct Batch {
    raw: *mut ffi::vram_batch,
    pool: Pool,
    queue: Queue,
    kinds: Vec<BufferKind>, // of its buffers
    given: Vec<Pool>,       // those of buffers that were given: each lasts as long as its buffer
}

// SAFETY: a handle is a checked number; any call may be made from any thread (vram/base.h).
unsafe impl Send for Batch {}
unsafe impl Sync for Batch {}

impl Drop for Batch {
    fn drop(&mut self) {
        // SAFETY: the handle is ours; its buffers were lent for no longer than `self`.
        unsafe { ffi::vram_batch_destroy(self.raw) };
    }
}

/// A buffer that a batch or a scope owns. It can be read, and has the calls of a [`Buffer`] that read.
///
/// ```compile_fail,E0505
/// fn demo(batch: vram::Batch) -> vram::Result<Vec<u8>> {
///     let lent = batch.get(0)?;
///     drop(batch); // its buffer is still lent
///     lent.download()
/// }
/// ```
pub struct Lent<'a> {
    buffer: Buffer,
    owner: std::marker::PhantomData<&'a ()>,
}

impl<'a> Lent<'a> {
    pub(crate) fn of(buffer: Buffer) -> Lent<'a> {
        Lent { buffer, owner: std::marker::PhantomData }
    }

    pub(crate) fn into_buffer(self) -> Buffer {
        self.buffer
    }
}

impl Deref for Lent<'_> {
    type Target = Buffer;
    fn deref(&self) -> &Buffer {
        &self.buffer
    }
}

impl Batch {
    pub(crate) fn create(pool: &Pool, queue: &Queue) -> Result<Batch> {
        // SAFETY: valid handles; NULL options are all defaults.
        let raw = made(ptr::null_mut(), |out| unsafe {
            ffi::vram_batch_create(pool.raw(), queue.raw(), ptr::null(), out)
        })?;
        Ok(Batch {
            raw,
            pool: pool.clone(),
            queue: queue.clone(),
            kinds: Vec::new(),
            given: Vec::new(),
        })
    }

    /// Adds buffers, all or none, uploads their contents and waits for that. The number of the first of them.
    pub fn add(&mut self, items: &[BatchItem<'_>]) -> Result<usize> {
        let count =
            u32::try_from(items.len()).map_err(|_| Error::invalid("more than 2^32 items"))?;
        let names: Vec<Option<CString>> =
            items.iter().map(|item| c_option(item.name)).collect::<Result<_>>()?;
        let raw: Vec<ffi::vram_batch_item> = items
            .iter()
            .zip(&names)
            .map(|(item, name)| {
                let mut raw: ffi::vram_batch_item = sized();
                raw.elements = item.elements;
                raw.precision = item.precision.raw();
                raw.kind = item.kind.raw();
                raw.name = pointer_of(name);
                if let Some(contents) = item.contents.filter(|contents| !contents.is_empty()) {
                    raw.host = contents.as_ptr().cast::<c_void>();
                    raw.host_bytes = contents.len() as u64;
                }
                raw
            })
            .collect();
        let mut first = 0;
        // SAFETY: the contents are borrowed until the uploads are over, which settle sees to.
        let status = unsafe { ffi::vram_batch_add(self.raw, raw.as_ptr(), count, &mut first) };
        if items.iter().all(|item| item.contents.is_none()) {
            check(status)?;
            self.kinds.extend(items.iter().map(|item| item.kind));
            return Ok(first as usize);
        }
        settle(&self.queue, status)?;
        self.kinds.extend(items.iter().map(|item| item.kind));
        // SAFETY: a valid handle.
        settle(&self.queue, unsafe {
            ffi::vram_queue_wait(self.queue.raw(), ffi::VRAM_TIMEOUT_INFINITE)
        })?;
        Ok(first as usize)
    }

    /// Moves a buffer with the same home queue into the batch; its number. After a failure it is dropped.
    pub fn give(&mut self, buffer: Buffer) -> Result<usize> {
        if buffer.queue().raw() != self.queue.raw() {
            return Err(Error::invalid("the home of the buffer is another queue than the batch's"));
        }
        buffer.can_be_given()?;
        let mut buffer = buffer;
        let kind = buffer.info()?.kind;
        // SAFETY: valid handles.
        let index =
            made(0, |index| unsafe { ffi::vram_batch_give(self.raw, buffer.raw(), index) })?;
        buffer.set_owner(Owner::Lender);
        if !self.given.iter().chain([&self.pool]).any(|pool| pool.raw() == buffer.pool().raw()) {
            self.given.push(buffer.pool().clone());
        }
        self.kinds.push(kind);
        Ok(index as usize)
    }

    /// How many buffers it has.
    pub fn len(&self) -> usize {
        self.kinds.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// Buffer number `index`, for reading.
    pub fn get(&self, index: usize) -> Result<Lent<'_>> {
        Ok(Lent::of(self.buffer(index)?))
    }

    /// Copies `data` to the start of buffer number `index`, as [`Buffer::upload`] does.
    pub fn upload<T: Pod>(&mut self, index: usize, data: &[T]) -> Result<()> {
        self.buffer(index)?.upload(data)
    }

    /// Gives the host all of buffer number `index`, as [`Buffer::map`] does. The mapping borrows the batch.
    pub fn map<T: Pod>(&mut self, index: usize) -> Result<Mapping<'_, T>> {
        // SAFETY: the buffer lives as long as the batch, which is borrowed.
        Ok(unsafe { self.buffer(index)?.map()?.widen() })
    }

    /// Blocks that several of its buffers share.
    pub fn shared_blocks(&self) -> Result<u32> {
        let mut info: ffi::vram_batch_info = sized();
        // SAFETY: a valid handle, and an out-parameter of the right size.
        check(unsafe { ffi::vram_batch_info_get(self.raw, &mut info) })?;
        Ok(info.blocks)
    }

    fn buffer(&self, index: usize) -> Result<Buffer> {
        let number = u32::try_from(index).unwrap_or(u32::MAX);
        // SAFETY: a valid handle and an out-parameter.
        let raw =
            made(ptr::null_mut(), |out| unsafe { ffi::vram_batch_get(self.raw, number, out) })?;
        Ok(Buffer::of_raw(raw, self.kinds[index], Owner::Lender, &self.pool, &self.queue))
    }
}
