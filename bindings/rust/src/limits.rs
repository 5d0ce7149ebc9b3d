// SPDX-License-Identifier: Apache-2.0
//! How much memory pools and devices may take.

use crate::error::{made, sized};
use crate::ffi;
use crate::Result;

/// Limits for a kind of program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Preset {
    /// 0.9 of the memory, 512 MiB left free, host memory if the device is full.
    Default,
    /// 0.95 of the memory, 256 MiB left free, no tracking.
    Inference,
    /// 0.8 of the memory, 1 GiB left free, no host memory.
    Training,
    /// 0.7 of the memory, 128 MiB left free, small caches.
    Constrained,
}

/// Limits of a pool or a device. What is None is not set: a pool takes it from its device, the device from the options.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    /// Share of the device's memory, 0.1 to 1.
    pub fraction: Option<f64>,
    /// Bytes to leave free on the device.
    pub min_free_bytes: Option<u64>,
    /// The most that may be held in all.
    pub hard_bytes: Option<u64>,
    /// The most idle memory that a pool keeps.
    pub cached_bytes: Option<u64>,
    /// The most blocks of one size in all caches of the pool.
    pub cached_blocks: Option<u32>,
    /// Whether every live block has a record.
    pub tracking: Option<bool>,
    /// Whether host memory may replace the device's when that is exhausted.
    pub cpu_fallback: Option<bool>,
}

impl Limits {
    /// Nothing is set.
    pub fn new() -> Limits {
        Limits::default()
    }

    /// The values of a preset, which may then be changed.
    pub fn preset(preset: Preset) -> Result<Limits> {
        let number = match preset {
            Preset::Default => ffi::VRAM_PRESET_DEFAULT,
            Preset::Inference => ffi::VRAM_PRESET_INFERENCE,
            Preset::Training => ffi::VRAM_PRESET_TRAINING,
            Preset::Constrained => ffi::VRAM_PRESET_CONSTRAINED,
        };
        // SAFETY: an out-parameter of the right size.
        made(sized(), |limits| unsafe { ffi::vram_preset_get(number, limits) })
            .map(|limits| Limits::of(&limits))
    }

    /// Sets [`Limits::fraction`].
    pub fn fraction(mut self, fraction: f64) -> Limits {
        self.fraction = Some(fraction);
        self
    }

    /// Sets [`Limits::min_free_bytes`].
    pub fn min_free_bytes(mut self, bytes: u64) -> Limits {
        self.min_free_bytes = Some(bytes);
        self
    }

    /// Sets [`Limits::hard_bytes`].
    pub fn hard_bytes(mut self, bytes: u64) -> Limits {
        self.hard_bytes = Some(bytes);
        self
    }

    /// Sets [`Limits::tracking`].
    pub fn tracking(mut self, on: bool) -> Limits {
        self.tracking = Some(on);
        self
    }

    /// Sets [`Limits::cpu_fallback`].
    pub fn cpu_fallback(mut self, on: bool) -> Limits {
        self.cpu_fallback = Some(on);
        self
    }

    pub(crate) fn raw(&self) -> ffi::vram_limits {
        let mut raw: ffi::vram_limits = sized();
        raw.fraction = self.fraction.unwrap_or(0.0);
        raw.min_free_bytes = self.min_free_bytes.unwrap_or(0);
        raw.hard_bytes = self.hard_bytes.unwrap_or(0);
        raw.cached_bytes = self.cached_bytes.unwrap_or(0);
        raw.cached_blocks = self.cached_blocks.unwrap_or(0);
        raw.tracking = switch(self.tracking);
        raw.cpu_fallback = switch(self.cpu_fallback);
        raw
    }

    pub(crate) fn of(raw: &ffi::vram_limits) -> Limits {
        let number = |value: u64| Some(value).filter(|&value| value != 0);
        Limits {
            fraction: Some(raw.fraction).filter(|&fraction| fraction != 0.0),
            min_free_bytes: number(raw.min_free_bytes),
            hard_bytes: number(raw.hard_bytes),
            cached_bytes: number(raw.cached_bytes),
            cached_blocks: Some(raw.cached_blocks).filter(|&blocks| blocks != 0),
            tracking: choice(raw.tracking),
            cpu_fallback: choice(raw.cpu_fallback),
        }
    }
}

fn switch(choice: Option<bool>) -> ffi::vram_switch {
    match choice {
        None => ffi::VRAM_SWITCH_DEFAULT,
        Some(true) => ffi::VRAM_SWITCH_ON,
        Some(false) => ffi::VRAM_SWITCH_OFF,
    }
}

fn choice(switch: ffi::vram_switch) -> Option<bool> {
    match switch {
        ffi::VRAM_SWITCH_ON => Some(true),
        ffi::VRAM_SWITCH_OFF => Some(false),
        _ => None,
    }
}
