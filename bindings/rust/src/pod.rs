// SPDX-License-Identifier: Apache-2.0
//! What may be copied to a device and back.

use std::alloc::{alloc_zeroed, Layout};
use std::mem::size_of_val;

/// A type whose values are plain bytes: every pattern of bits is a value, and there is no padding.
///
/// Devices see bytes, and what comes back from one is whatever was written there.
///
/// ```compile_fail,E0277
/// # fn demo(buffer: &mut vram::Buffer) -> vram::Result<()> {
/// buffer.upload(&[true, false]) // a byte of 2 would not be a bool
/// # }
/// ```
///
/// # Safety
/// All of the above must hold for the type: `#[repr(C)]`, no padding, no pointers or references, no enum, no `bool`.
pub unsafe trait Pod: Copy + Send + Sync + 'static {}

macro_rules! pods {
    ($($kind:ty)*) => { $(unsafe impl Pod for $kind {})* };
}
pods! { u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64 }
unsafe impl<T: Pod, const N: usize> Pod for [T; N] {}

pub(crate) fn bytes_of<T: Pod>(data: &[T]) -> u64 {
    size_of_val(data) as u64
}

/// Zeros. Large ones come from the system as they are: no memory is touched, so a size that the library is about to
/// refuse costs nothing.
pub(crate) fn zeros<T: Pod>(count: usize) -> crate::Result<Vec<T>> {
    let refused = || crate::error::host_memory(count.saturating_mul(std::mem::size_of::<T>()));
    let layout = Layout::array::<T>(count).map_err(|_| refused())?;
    if layout.size() == 0 {
        return Ok(Vec::new());
    }
    // SAFETY: the layout is that of `count` elements and not empty, and zeros are values of a Pod.
    unsafe {
        let data = alloc_zeroed(layout).cast::<T>();
        if data.is_null() {
            return Err(refused());
        }
        Ok(Vec::from_raw_parts(data, count, count))
    }
}
