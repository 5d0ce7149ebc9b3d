// SPDX-License-Identifier: Apache-2.0
//! Mappings: contents of a buffer as a slice of the host.

use std::marker::PhantomData;
use std::mem::{align_of, ManuallyDrop};
use std::ops::{Deref, DerefMut};
use std::os::raw::c_void;
use std::ptr::{self, NonNull};

use crate::error::{check, made, Error};
use crate::ffi;
use crate::pod::Pod;
use crate::Result;

/// Contents of a buffer for the host, a slice of T. Dropping it ends the mapping; [`Mapping::unmap`] does so with a
/// status.
pub struct Mapping<'a, T: Pod> {
    pointer: NonNull<T>,
    count: usize,
    buffer: *mut ffi::vram_buffer,
    borrowed: PhantomData<&'a mut T>,
}

// SAFETY: it is a `&mut [T]`, and ends on any thread.
unsafe impl<T: Pod> Send for Mapping<'_, T> {}
unsafe impl<T: Pod> Sync for Mapping<'_, T> {}

impl<T: Pod> Mapping<'_, T> {
    /// Maps all `bytes` of a buffer, which are `count` elements and at least one.
    ///
    /// # Safety
    /// The handles are valid, and nothing else uses the buffer as long as the mapping lives.
    pub(crate) unsafe fn begin<'b>(
        buffer: *mut ffi::vram_buffer,
        queue: *mut ffi::vram_queue,
        bytes: u64,
        count: usize,
    ) -> Result<Mapping<'b, T>> {
        let flags = (ffi::VRAM_MAP_READ | ffi::VRAM_MAP_WRITE) as u32;
        let pointer: *mut c_void = made(ptr::null_mut(), |pointer| {
            ffi::vram_buffer_map(buffer, 0, bytes, flags, queue, pointer)
        })?;
        // The mapping first: it unmaps whatever comes next.
        let start = NonNull::new(pointer.cast()).unwrap_or_else(NonNull::dangling);
        let mapping = Mapping { pointer: start, count, buffer, borrowed: PhantomData };
        if pointer.is_null() || (pointer as usize) % align_of::<T>() != 0 {
            return Err(Error::invalid("the memory is not aligned for elements of this type"));
        }
        Ok(mapping)
    }

    /// The mapping of a buffer that lives for `'b`, whatever the value that named it did.
    pub(crate) unsafe fn widen<'b>(self) -> Mapping<'b, T> {
        let mapping = ManuallyDrop::new(self);
        let (pointer, count, buffer) = (mapping.pointer, mapping.count, mapping.buffer);
        Mapping { pointer, count, buffer, borrowed: PhantomData }
    }

    /// Ends the mapping; an error if what was written could not be sent to the device. It then ends all the same, when
    /// the buffer does.
    pub fn unmap(self) -> Result<()> {
        let buffer = self.buffer;
        std::mem::forget(self);
        // SAFETY: the mapping is gone, whatever the status.
        check(unsafe { ffi::vram_buffer_unmap(buffer) })
    }
}

impl<T: Pod> Deref for Mapping<'_, T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: mapped, aligned and borrowed; any bytes are values of a Pod.
        unsafe { std::slice::from_raw_parts(self.pointer.as_ptr(), self.count) }
    }
}

impl<T: Pod> DerefMut for Mapping<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(self.pointer.as_ptr(), self.count) }
    }
}

impl<T: Pod> Drop for Mapping<'_, T> {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`.
        unsafe { ffi::vram_buffer_unmap(self.buffer) };
    }
}
