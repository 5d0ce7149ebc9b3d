// SPDX-License-Identifier: Apache-2.0
//! Blocks: an address and its size.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr;

use crate::async_result::{settle, AsyncResult, HostMemory};
use crate::error::{c_option, check, made, pointer_of, sized, Error};
use crate::ffi;
use crate::pod::{bytes_of, zeros, Pod};
use crate::pool::Pool;
use crate::queue::Queue;
use crate::Result;

/// Memory of a pool, freed in the order of its queue when it is dropped: work that was submitted before may still use
/// it, and nothing waits.
///
/// A block of a pool of page-locked memory is host memory, and the library refuses to copy other host memory there: a
/// [`crate::Buffer`] of such a pool can be mapped instead.
pub struct Block<'a> {
    addr: u64,
    bytes: u64,
    queue: &'a Queue,
    pool: PhantomData<&'a Pool>,
}

/// What a block is.
#[derive(Clone, Debug, Default)]
pub struct AllocOptions<'a> {
    /// A power of two from 256 on; 0: 512.
    pub alignment: u64,
    /// From memory that the pool holds already, or not at all.
    pub cached_only: bool,
    /// Who it is for, "tenant/model/layer".
    pub tag: Option<&'a str>,
    /// A label for reports.
    pub name: Option<&'a str>,
    /// How many things it holds, for reports; 0: unknown.
    pub elements: u64,
}

impl<'a> Block<'a> {
    #[inline]
    pub(crate) fn alloc(pool: &'a Pool, queue: &'a Queue, bytes: u64) -> Result<Block<'a>> {
        let mut addr = 0;
        // SAFETY: valid handles and an out-parameter.
        match unsafe { ffi::vram_alloc(pool.raw(), bytes, queue.raw(), &mut addr) } {
            ffi::VRAM_OK => Ok(Block { addr, bytes, queue, pool: PhantomData }),
            failed => Err(Error::from_status(failed)),
        }
    }

    pub(crate) fn alloc_with(
        pool: &'a Pool,
        queue: &'a Queue,
        bytes: u64,
        options: &AllocOptions<'_>,
    ) -> Result<Block<'a>> {
        let (name, tag) = (c_option(options.name)?, c_option(options.tag)?);
        let mut raw: ffi::vram_alloc_options = sized();
        raw.alignment = options.alignment;
        raw.flags = if options.cached_only { ffi::VRAM_ALLOC_CACHED_ONLY as u32 } else { 0 };
        raw.name = pointer_of(&name);
        raw.tag = pointer_of(&tag);
        raw.elements = options.elements;
        // SAFETY: valid handles and an out-parameter; what the options point to outlives the call.
        let addr = made(0, |addr| unsafe {
            ffi::vram_alloc_with(pool.raw(), bytes, queue.raw(), &raw, addr)
        })?;
        Ok(Block { addr, bytes, queue, pool: PhantomData })
    }

    pub(crate) fn of_parts(addr: u64, bytes: u64, queue: &'a Queue) -> Block<'a> {
        Block { addr, bytes, queue, pool: PhantomData }
    }

    /// Its first byte, for kernels and other APIs.
    #[inline]
    pub fn addr(&self) -> u64 {
        self.addr
    }

    /// Its size.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What it takes of its pool, after rounding.
    pub fn held_bytes(&self) -> Result<u64> {
        // SAFETY: the block is live; an out-parameter of the right size.
        let info: ffi::vram_block_info =
            made(sized(), |info| unsafe { ffi::vram_block_info_get(self.addr, info) })?;
        Ok(info.held_bytes)
    }

    /// Copies `data` to its start and waits until that is done.
    pub fn upload<T: Pod>(&mut self, data: &[T]) -> Result<()> {
        upload(self.queue, self.addr, self.bytes, data)
    }

    /// The same in the background; the result owns the data.
    pub fn upload_async<H: HostMemory>(&mut self, data: H) -> Result<AsyncResult<H>> {
        upload_async(self.queue, self.addr, self.bytes, data)
    }

    /// Copies all of it to the host, after the work that was submitted to its queue before.
    pub fn download<T: Pod>(&self) -> Result<Vec<T>> {
        self.download_async()?.into_inner()
    }

    /// The same in the background.
    pub fn download_async<T: Pod>(&self) -> Result<AsyncResult<Vec<T>>> {
        download_async(self.queue, self.addr, count_of::<T>(self.bytes)?)
    }

    /// Fills all of it with one byte, in the order of its queue.
    pub fn fill(&mut self, byte: u8) -> Result<()> {
        let (queue, bytes) = (self.queue.raw(), self.bytes);
        // SAFETY: valid handles; the range is the block.
        check(unsafe { ffi::vram_queue_fill(queue, self.addr, u32::from(byte), 1, bytes) })
    }

    /// Grows or shrinks it in place. After a failure it is unchanged; [`Error::Busy`] if something lies after it.
    pub fn resize(&mut self, bytes: u64) -> Result<()> {
        // SAFETY: valid handles.
        check(unsafe { ffi::vram_resize(self.addr, bytes, self.queue.raw()) })?;
        self.bytes = bytes;
        Ok(())
    }

    /// Says that another queue uses the block too: when it is freed, it is not reused before all work that was
    /// submitted there until then is done.
    pub fn used_on(&self, queue: &Queue) -> Result<()> {
        // SAFETY: valid handles.
        check(unsafe { ffi::vram_use(self.addr, queue.raw()) })
    }

    /// Gives up the ownership: the address, which [`ffi::vram_free`] takes.
    pub fn into_addr(self) -> u64 {
        ManuallyDrop::new(self).addr
    }
}

impl Drop for Block<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the block is ours, and pool and queue are alive.
        unsafe { ffi::vram_free(self.addr, self.queue.raw()) };
    }
}

// --------------------------------------------------------- copies of blocks and buffers

/// How many T fill `bytes`; they must do so without a rest.
pub(crate) fn count_of<T: Pod>(bytes: u64) -> Result<usize> {
    let size = std::mem::size_of::<T>() as u64;
    if size == 0 || bytes % size != 0 {
        return Err(Error::invalid(format!(
            "{bytes} bytes are not a whole number of elements of {size}"
        )));
    }
    usize::try_from(bytes / size).map_err(|_| Error::invalid("more elements than addresses"))
}

fn fits(bytes: u64, room: u64) -> Result<()> {
    if bytes > room {
        return Err(Error::invalid(format!("{bytes} bytes do not fit into {room}")));
    }
    Ok(())
}

/// Returns when the copy is complete, however long that takes: `data` is borrowed.
pub(crate) fn upload<T: Pod>(queue: &Queue, to: u64, room: u64, data: &[T]) -> Result<()> {
    fits(bytes_of(data), room)?;
    let options = complete_on_return();
    // SAFETY: the memory is borrowed until the copy is over, which settle sees to.
    settle(queue, unsafe {
        let from = data.as_ptr().cast();
        ffi::vram_transfer_upload(queue.raw(), to, from, bytes_of(data), &options, ptr::null_mut())
    })
}

/// The same in the other direction.
pub(crate) fn download<T: Pod>(queue: &Queue, from: u64, room: u64, data: &mut [T]) -> Result<()> {
    fits(bytes_of(data), room)?;
    let options = complete_on_return();
    // SAFETY: as above; what arrives are values of a Pod.
    settle(queue, unsafe {
        let to = data.as_mut_ptr().cast();
        ffi::vram_transfer_download(
            queue.raw(),
            to,
            from,
            bytes_of(data),
            &options,
            ptr::null_mut(),
        )
    })
}

fn complete_on_return() -> ffi::vram_transfer_options {
    let mut options: ffi::vram_transfer_options = sized();
    options.strategy = ffi::VRAM_TRANSFER_SYNC;
    options.timeout_ns = ffi::VRAM_TIMEOUT_INFINITE;
    options
}

pub(crate) fn upload_async<H: HostMemory>(
    queue: &Queue,
    to: u64,
    room: u64,
    data: H,
) -> Result<AsyncResult<H>> {
    fits(bytes_of(data.as_slice()), room)?;
    AsyncResult::start(queue, data, None, |data, raw| {
        let data = data.as_slice();
        // SAFETY: the result owns the memory, which stays at its address.
        unsafe {
            let from = data.as_ptr().cast();
            ffi::vram_transfer_upload(queue.raw(), to, from, bytes_of(data), ptr::null(), raw)
        }
    })
}

pub(crate) fn download_async<T: Pod>(
    queue: &Queue,
    from: u64,
    count: usize,
) -> Result<AsyncResult<Vec<T>>> {
    AsyncResult::start_mut(queue, zeros(count)?, |data: &mut Vec<T>, raw| {
        // SAFETY: the result owns the memory, which stays at its address.
        unsafe {
            let (to, bytes) = (data.as_mut_ptr().cast(), bytes_of(data));
            ffi::vram_transfer_download(queue.raw(), to, from, bytes, ptr::null(), raw)
        }
    })
}
