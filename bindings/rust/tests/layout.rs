// SPDX-License-Identifier: Apache-2.0
//! Every struct of `vram::ffi` has the size and the offsets that the C compiler gives it.

use std::mem::{align_of, size_of, MaybeUninit};
use std::ptr::addr_of;

use vram::ffi::*;

/// Adds a struct's rows: its size, and the offset of each field.
macro_rules! layout {
    ($rows:ident, $kind:ident, $($field:ident),* $(,)?) => {
        let value = MaybeUninit::<$kind>::uninit();
        let start = value.as_ptr();
        $rows.push((stringify!($kind), size_of::<$kind>()));
        $(
            // SAFETY: the address of a field is taken, nothing is read.
            let at = unsafe { addr_of!((*start).$field) } as usize - start as usize;
            $rows.push((concat!(stringify!($kind), ".", stringify!($field)), at));
        )*
    };
}

#[rustfmt::skip]
mod generated {
    use super::*;
    include!("generated/layout.rs");
}

#[test]
fn rust_and_c_agree_on_every_struct() {
    let here = generated::here();
    assert_eq!(here.len(), generated::IN_C.len());
    for ((name, at), (name_in_c, at_in_c)) in here.iter().zip(generated::IN_C) {
        assert_eq!((name.replace("r#", ""), *at), (name_in_c.to_string(), at_in_c));
    }
    assert!(here.len() > 700, "{} rows", here.len());
    assert_eq!(align_of::<vram_ring_control>(), 128);
}
