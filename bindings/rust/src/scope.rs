// SPDX-License-Identifier: Apache-2.0
//! Scopes: memory that is freed when a part of the program ends.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr;

use crate::batch::Lent;
use crate::block::{self, Block};
use crate::buffer::{make_with, Buffer, BufferOptions, Owner};
use crate::error::{check, made, sized, Error};
use crate::ffi;
use crate::pod::Pod;
use crate::pool::Pool;
use crate::queue::Queue;
use crate::Result;

/// Owns blocks, buffers and further scopes, and frees them all when it is dropped: newest first, in the order of the
/// queue that each was allocated on. Nothing waits.
///
/// ```
/// # fn main() -> vram::Result<()> {
/// # let context = vram::Context::with(&vram::ContextOptions { backends: Some("host"), ..Default::default() })?;
/// # let device = context.best_device()?;
/// # let (pool, queue) = (device.pool()?, device.queue()?);
/// let scope = pool.scope()?;
/// let scratch = scope.alloc(&queue, 1 << 20)?;
/// let result = scope.alloc(&queue, 4096)?;
/// let kept = result.take(&pool)?; // outlives the scope
/// drop(scope);               // frees the scratch memory
/// assert_eq!(kept.bytes(), 4096);
/// # Ok(()) }
/// ```
///
/// What a scope lends ends with it:
///
/// ```compile_fail,E0505
/// fn demo(pool: &vram::Pool, queue: &vram::Queue) -> vram::Result<u64> {
///     let scope = pool.scope()?;
///     let block = scope.alloc(queue, 4096)?;
///     drop(scope);
///     Ok(block.addr()) // the scope has freed it
/// }
/// ```
pub struct Scope<'p> {
    raw: *mut ffi::vram_scope,
    pool: Pool,
    parent: PhantomData<&'p ()>,
}

// SAFETY: a handle is a checked number; several threads may use a scope at once (vram/scope.h).
unsafe impl Send for Scope<'_> {}
unsafe impl Sync for Scope<'_> {}

impl Drop for Scope<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle is ours; what it owns was lent for no longer than `self`.
        unsafe { ffi::vram_scope_end(self.raw) };
    }
}

/// A block that a scope owns.
pub struct ScopeBlock<'s, 'q> {
    scope: *mut ffi::vram_scope,
    pool: *mut ffi::vram_pool,
    addr: u64,
    bytes: u64,
    queue: &'q Queue,
    lent: PhantomData<&'s ()>,
}

// SAFETY: a number, and a scope that several threads may use.
unsafe impl Send for ScopeBlock<'_, '_> {}
unsafe impl Sync for ScopeBlock<'_, '_> {}

impl<'p> Scope<'p> {
    pub(crate) fn begin(pool: &Pool) -> Result<Scope<'static>> {
        // SAFETY: valid handles and an out-parameter.
        let raw = made(ptr::null_mut(), |out| unsafe {
            ffi::vram_scope_begin(pool.raw(), ptr::null_mut(), out)
        })?;
        Ok(Scope { raw, pool: pool.clone(), parent: PhantomData })
    }

    /// Begins a scope in this one, which ends it at the latest.
    pub fn scope(&self) -> Result<Scope<'_>> {
        // SAFETY: valid handles and an out-parameter.
        let raw = made(ptr::null_mut(), |out| unsafe {
            ffi::vram_scope_begin(self.pool.raw(), self.raw, out)
        })?;
        Ok(Scope { raw, pool: self.pool.clone(), parent: PhantomData })
    }

    /// Allocates a block that is freed at the end of the scope.
    pub fn alloc<'q>(&self, queue: &'q Queue, bytes: u64) -> Result<ScopeBlock<'_, 'q>> {
        // SAFETY: valid handles and an out-parameter.
        let addr =
            made(0, |addr| unsafe { ffi::vram_scope_alloc(self.raw, bytes, queue.raw(), addr) })?;
        let pool = self.pool.raw();
        Ok(ScopeBlock { scope: self.raw, pool, addr, bytes, queue, lent: PhantomData })
    }

    /// Creates a buffer that is destroyed at the end of the scope.
    pub fn buffer(
        &self,
        queue: &Queue,
        bytes: u64,
        options: &BufferOptions<'_>,
    ) -> Result<Lent<'_>> {
        // SAFETY: valid handles; what the options point to outlives the call, and what a provider serves the pool.
        let (raw, kind) = make_with(&self.pool, options, |raw, out| unsafe {
            ffi::vram_scope_buffer_create(self.raw, bytes, queue.raw(), raw, out)
        })?;
        Ok(Lent::of(Buffer::of_raw(raw, kind, Owner::Lender, &self.pool, queue)))
    }

    /// Moves a buffer out of the scope.
    pub fn take(&self, lent: Lent<'_>) -> Result<Buffer> {
        // SAFETY: valid handles; a buffer of somebody else is refused.
        check(unsafe { ffi::vram_scope_buffer_take(self.raw, lent.raw()) })?;
        let mut buffer = lent.into_buffer();
        buffer.set_owner(Owner::Value);
        Ok(buffer)
    }

    /// Moves a buffer into the scope, which ends it. After a failure it is dropped.
    pub fn give(&self, buffer: Buffer) -> Result<Lent<'_>> {
        buffer.can_be_given()?;
        // SAFETY: valid handles.
        check(unsafe { ffi::vram_scope_buffer_give(self.raw, buffer.raw()) })?;
        let mut buffer = buffer;
        buffer.set_owner(Owner::Lender);
        Ok(Lent::of(buffer))
    }

    /// Ends the scope now, with a status.
    pub fn end(self) -> Result<()> {
        let scope = ManuallyDrop::new(self);
        // SAFETY: the handle is ours and ends here; then its pool is dropped once, and the rest has nothing to drop.
        unsafe {
            let ended = check(ffi::vram_scope_end(scope.raw));
            drop(ptr::read(&scope.pool));
            ended
        }
    }

    /// Blocks, bytes and buffers that it owns now.
    pub fn owned(&self) -> Result<(u64, u64, u64)> {
        // SAFETY: a valid handle, and an out-parameter of the right size.
        let info: ffi::vram_scope_info =
            made(sized(), |info| unsafe { ffi::vram_scope_info_get(self.raw, info) })?;
        Ok((info.blocks, info.bytes, info.buffers))
    }
}

impl<'q> ScopeBlock<'_, 'q> {
    /// Its first byte.
    pub fn addr(&self) -> u64 {
        self.addr
    }

    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Copies `data` to its start and waits until that is done, as [`Block::upload`] does.
    pub fn upload<T: Pod>(&mut self, data: &[T]) -> Result<()> {
        block::upload(self.queue, self.addr, self.bytes, data)
    }

    /// Copies all of it to the host, after the work that was submitted to its queue before.
    pub fn download<T: Pod>(&self) -> Result<Vec<T>> {
        let count = block::count_of::<T>(self.bytes)?;
        block::download_async(self.queue, self.addr, count)?.into_inner()
    }

    /// Moves it out of the scope: a block of `pool`, the scope's own, that is freed when it is dropped.
    pub fn take<'b>(self, pool: &'b Pool) -> Result<Block<'b>>
    where
        'q: 'b,
    {
        if pool.raw() != self.pool {
            return Err(Error::invalid("the scope has another pool"));
        }
        // SAFETY: the scope is alive, and owns it.
        check(unsafe { ffi::vram_scope_take(self.scope, self.addr) })?;
        Ok(Block::of_parts(self.addr, self.bytes, self.queue))
    }
}
