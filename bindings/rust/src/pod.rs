// SPDX-License-Identifier: Apache-2.0
//! What may be copied to a device and back.

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

/// Zeros; vectors of them come from the system without being written.
pub(crate) fn zeros<T: Pod>(count: usize) -> crate::Result<Vec<T>> {
    let mut data: Vec<T> = Vec::new();
    if data.try_reserve_exact(count).is_err() {
        return Err(crate::error::host_memory(count.saturating_mul(std::mem::size_of::<T>())));
    }
    // SAFETY: there is room for them, and zeros are values of a Pod.
    unsafe {
        data.as_mut_ptr().write_bytes(0, count);
        data.set_len(count);
    }
    Ok(data)
}
