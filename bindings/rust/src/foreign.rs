// SPDX-License-Identifier: Apache-2.0
//! Records of device memory that was not allocated through the library.

use crate::buffer::MemoryKind;
use crate::device::Device;
use crate::error::{c_option, made, pointer_of, sized};
use crate::ffi;
use crate::pool::ForeignTotals;
use crate::Result;

/// What a record of foreign memory says. Empty: only how much it is.
#[derive(Clone, Debug, Default)]
pub struct ForeignOptions<'a> {
    /// In budgets and quotas as if the program had taken it through the library; [`crate::Error::Limit`] beyond one.
    pub counts: bool,
    /// Who it is for, "cublas/workspace".
    pub tag: Option<&'a str>,
    /// A label for reports.
    pub name: Option<&'a str>,
    /// Where it lies. What lies in host memory cannot count.
    pub kind: MemoryKind,
    /// How many things it holds; 0: unknown.
    pub elements: u64,
}

/// A record of memory that a library or framework took by itself. Dropping it removes the record.
pub struct Foreign {
    id: u64,
    bytes: u64,
    device: Device,
}

impl Device {
    /// Records `bytes` of memory that was taken elsewhere: [`Device::live`] and reports of leaks show it.
    pub fn track(&self, bytes: u64, options: &ForeignOptions<'_>) -> Result<Foreign> {
        let (tag, name) = (c_option(options.tag)?, c_option(options.name)?);
        let mut raw: ffi::vram_foreign_options = sized();
        raw.flags = if options.counts { ffi::VRAM_FOREIGN_COUNTS as u32 } else { 0 };
        raw.tag = pointer_of(&tag);
        raw.name = pointer_of(&name);
        raw.kind = options.kind.raw();
        raw.elements = options.elements;
        // SAFETY: a valid handle and an out-parameter; the texts outlive the call.
        let id = made(0, |id| unsafe { ffi::vram_foreign_track(self.raw(), bytes, &raw, id) })?;
        Ok(Foreign { id, bytes, device: self.clone() })
    }

    /// The sums of all records of foreign memory.
    pub fn foreign(&self) -> Result<ForeignTotals> {
        // SAFETY: a valid handle, and an out-parameter of the right size.
        made(sized(), |totals| unsafe { ffi::vram_foreign_totals_get(self.raw(), totals) })
            .map(ForeignTotals)
    }
}

impl Foreign {
    /// Its number: unique in the process, rising from 1.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// As recorded.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        // SAFETY: a valid handle; the number is ours.
        unsafe { ffi::vram_foreign_untrack(self.device.raw(), self.id) };
    }
}
