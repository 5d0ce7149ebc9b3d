// SPDX-License-Identifier: Apache-2.0
//! GPU memory management over libvram: one API for CUDA, HIP, OpenCL, Vulkan, Metal, simulated devices and the host.
//!
//! ```
//! # fn main() -> vram::Result<()> {
//! # let context = vram::Context::with(&vram::ContextOptions { backends: Some("host"), ..Default::default() })?;
//! # /*
//! let context = vram::Context::new()?;          // finds every driver and device
//! # */
//! let device = context.best_device()?;
//! let queue = device.queue()?;                  // work on it runs in order
//! let pool = device.pool()?;                    // memory comes from it
//! let mut buffer = pool.buffer(&queue, 4000)?;
//! buffer.upload(&[1.5f32; 1000])?;
//! assert_eq!(buffer.download::<f32>()?, [1.5f32; 1000]);
//! # Ok(()) }
//! ```
//!
//! # Who keeps what alive
//!
//! [`Context`], [`Device`], [`Queue`] and [`Pool`] are counted references: clones are the same object, and each holds
//! its parent. A [`Buffer`], [`Batch`], [`Scope`] or [`Ring`] holds its pool. So values may be stored, sent to threads
//! and dropped in any order; an object ends when nothing needs it any more. Counting costs tens of nanoseconds, a buffer
//! without it hundreds.
//!
//! A [`Block`], which takes tens of nanoseconds, borrows its pool and queue instead: a counter that all threads write
//! would be slower than the allocation. What a batch or a scope lends borrows it too.
//!
//! # What safe code cannot do
//!
//! - Use memory after it was freed. Handles are checked numbers; pointers to contents exist only in a [`Mapping`],
//!   which borrows its buffer.
//! - Let a device use host memory after it was freed. Asynchronous copies own their memory ([`AsyncResult`]); copies of
//!   borrowed memory wait for their end.
//! - Have two hands on one named buffer ([`Named`]), or write the slot of a frame that is read ([`Frame`]).
//! - Give a pool memory that is somebody else's: a [`Provider`] hands out [`Memory`], which owns what it names.
//! - Panic across the library: every callback catches panics.
//!
//! Launching a kernel is `unsafe`: the device does what its code says. The exception is a [`RingKernel`], which has
//! nothing but its ring.
//!
//! # Threads
//!
//! Any call may be made from any thread, so all types are `Send`. All are `Sync` as well except [`Ring`] and its ends,
//! of which a thread has each, and an [`AsyncResult`] of something that is not.
//!
//! # Calls that are not here
//!
//! [`ffi`] has the whole C API; `raw()` of each object gives its handle.

#![deny(missing_docs)]

/// The C API, made from the public headers, which describe it: vram/vram.h, compute.h and model.h.
#[allow(missing_docs, non_camel_case_types, dead_code)]
#[rustfmt::skip]
#[path = "generated/ffi.rs"]
pub mod ffi;

mod async_result;
mod batch;
mod block;
mod buffer;
#[cfg(feature = "compute")]
pub mod compute;
mod context;
mod device;
mod error;
mod foreign;
mod growth;
mod kernel;
mod limits;
mod live;
mod mapping;
#[cfg(feature = "model")]
pub mod model;
mod named;
mod pod;
mod pool;
mod process;
mod provider;
mod queue;
mod readback;
mod ring;
mod ring_peer;
mod scope;
mod stream;

pub use async_result::{AsyncResult, AsyncState, HostMemory};
pub use batch::{Batch, BatchItem, Lent};
pub use block::{AllocOptions, Block};
pub use buffer::{Buffer, BufferInfo, BufferKind, BufferOptions, MemoryKind, Precision, Target};
pub use context::{
    BackendInfo, Cap, Context, ContextOptions, DeviceInfo, DeviceKind, ErrorAnswer, ErrorEvent,
};
pub use device::{Device, MemoryInfo, OutOfMemoryCallback};
pub use error::{Detail, Error, Result};
pub use foreign::{Foreign, ForeignOptions};
pub use growth::{Growth, GrowthPolicy};
pub use kernel::{Kernel, KernelCall, KernelCode, Launch};
pub use limits::{Limits, Preset};
pub use live::{LiveBlock, OLD};
pub use mapping::Mapping;
pub use named::{Named, NamedConfig, NamedInfo, NamedOptions};
pub use pod::Pod;
pub use pool::{
    ForeignTotals, LiveStats, NamedStats, Pool, PoolOptions, PoolStats, Pressure, PressureLevel,
    ReadbackStats, ReportFormat, RingStats, TransferStats,
};
pub use process::{host_bytes, on_log, parse_size, set_option, version, LogLevel};
pub use provider::{Memory, Provider};
pub use queue::{Point, Queue};
pub use readback::{Frame, Readback, ReadbackMode, ReadbackOptions, ReadbackPolicy};
pub use ring::{Receiver, Ring, RingInfo, RingOptions, RingStrategy, Sender, Visibility};
pub use ring::{RingControl, RingTelemetry};
pub use ring_peer::{RingKernel, RingPeer};
pub use scope::{Scope, ScopeBlock};
pub use stream::{StreamInfo, StreamSet, ANALYSIS, COMPUTE, MEMORY};
