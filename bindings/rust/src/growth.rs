// SPDX-License-Identifier: Apache-2.0
//! How buffers grow.

use crate::error::{made, sized};
use crate::ffi;
use crate::Result;

/// How a buffer grows: exactly, by a factor, or in steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GrowthPolicy {
    /// To what is needed.
    Exact,
    /// To so many millionths of its capacity, or to what is needed if that is more: 1,500,000 is 1.5 times.
    FactorPpm(u32),
    /// By whole steps of so many bytes; 0: it does not grow.
    Steps(u64),
}

/// A policy and its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    /// How it grows.
    pub policy: GrowthPolicy,
    /// The least capacity after its first growth.
    pub min_bytes: u64,
    /// The most capacity; 0: no limit.
    pub max_bytes: u64,
    /// Of an element of a named buffer; 0: those of the precision.
    pub element_bytes: u32,
}

impl Growth {
    /// A policy without bounds.
    pub fn new(policy: GrowthPolicy) -> Growth {
        Growth { policy, min_bytes: 0, max_bytes: 0, element_bytes: 0 }
    }

    /// The capacity that a buffer of `capacity` bytes grows to if `needed` bytes are to fit.
    pub fn next(&self, capacity: u64, needed: u64) -> Result<u64> {
        // SAFETY: plain data and an out-parameter.
        made(0, |bytes| unsafe { ffi::vram_growth_next(&self.raw(), capacity, needed, bytes) })
    }

    pub(crate) fn raw(&self) -> ffi::vram_growth {
        let mut raw: ffi::vram_growth = sized();
        match self.policy {
            GrowthPolicy::Exact => raw.policy = ffi::VRAM_GROWTH_EXACT,
            GrowthPolicy::FactorPpm(factor) => {
                raw.policy = ffi::VRAM_GROWTH_FACTOR;
                raw.factor_ppm = factor;
            }
            GrowthPolicy::Steps(bytes) => {
                raw.policy = ffi::VRAM_GROWTH_FIXED;
                raw.step_bytes = bytes;
            }
        }
        raw.min_bytes = self.min_bytes;
        raw.max_bytes = self.max_bytes;
        raw.element_bytes = self.element_bytes;
        raw
    }
}
