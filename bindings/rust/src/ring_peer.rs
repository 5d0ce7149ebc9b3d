// SPDX-License-Identifier: Apache-2.0
//! The device's end of a ring, for kernels in Rust: what vram/ring_device.h is for other kernels. The numbers refer to
//! the convention in vram/ring_layout.h.
//!
//! Why this is safe: [`Ring::launch`] passes the control block of a live ring and orders launches, so one kernel at a
//! time is this end; the ring ends after its last launch. Heads and tails are atomic, and a slot is touched only by the
//! side that they give it to.

use std::marker::PhantomData;
use std::mem::size_of;
use std::ptr::{addr_of, addr_of_mut};
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::device::Device;
use crate::error::{contained, Error};
use crate::ffi;
use crate::kernel::{count_panic, Kernel, KernelCall};
use crate::pod::Pod;
use crate::Result;

/// A kernel in Rust that is the device's end of a ring, for the host and for simulated devices with `real=on`.
///
/// ```
/// # fn main() -> vram::Result<()> {
/// # let context = vram::Context::with(&vram::ContextOptions { backends: Some("host"), ..Default::default() })?;
/// # let device = context.best_device()?;
/// # let pool = device.pool()?;
/// use std::time::Duration;
/// use vram::{RingKernel, RingOptions, RingPeer};
/// fn double(peer: &mut RingPeer<'_>) -> vram::Result<()> {
///     while peer.room() > 0 {
///         match peer.receive::<u64>()? {
///             Some((number, kind)) => peer.send(&(2 * number), kind)?,
///             None => break,
///         };
///     }
///     Ok(())
/// }
/// let kernel = RingKernel::new(&device, "double", double)?;
/// let ring = pool.ring(&RingOptions::default())?;
/// ring.send(&21u64, 7, Duration::from_secs(1))?;
/// ring.flush()?;
/// ring.launch(&kernel)?; // no `unsafe`: the kernel has nothing but the ring
/// assert_eq!(ring.receive::<u64>(Duration::from_secs(10))?, Some((42, 7)));
/// # Ok(()) }
/// ```
///
/// It captures nothing, as [`Kernel::of_host`] says, and what it is given cannot leave it:
///
/// ```compile_fail,E0277
/// fn keep(device: &vram::Device) -> vram::Result<vram::RingKernel> {
///     vram::RingKernel::new(device, "keep", |peer: &mut vram::RingPeer<'_>| {
///         std::thread::spawn(move || peer.room()); // the launch may have ended
///         Ok(())
///     })
/// }
/// ```
///
/// Clones are the same kernel. An error that it returns ends the launch, and the host finds it in
/// [`crate::RingStats`]'s `kernel_errors`; so does a panic, which [`Kernel::panics`] counts.
#[derive(Clone)]
pub struct RingKernel(Arc<Kernel>);

impl RingKernel {
    /// Loads a kernel. `body` is called once for each launch.
    pub fn new<F>(device: &Device, entry: &str, body: F) -> Result<RingKernel>
    where
        F: Fn(&mut RingPeer<'_>) -> Result<()> + Send + Sync + 'static,
    {
        let group = move |call: &KernelCall<'_>| {
            // SAFETY: only `Ring::launch` launches it, with the control block of a ring as its one argument.
            let peer = unsafe {
                let control: u64 = call.argument(0);
                RingPeer::open(control as usize as *mut ffi::vram_ring_control)
            };
            if let Some(mut peer) = peer {
                let ended = contained(|| body(&mut peer));
                if ended.is_none() {
                    count_panic();
                }
                peer.end(matches!(ended, Some(Ok(()))));
            }
        };
        Ok(RingKernel(Arc::new(Kernel::of_host(device, entry, group)?)))
    }

    pub(crate) fn kernel(&self) -> &Kernel {
        &self.0
    }
}

/// The device's end of a ring, during one launch.
pub struct RingPeer<'a> {
    control: *mut ffi::vram_ring_control,
    flags: u64,
    input: Way,
    output: Way,
    processed: u64,
    errors: i32,
    ring: PhantomData<&'a mut ()>,
}

/// One direction.
struct Way {
    head: *const AtomicU64,
    tail: *const AtomicU64,
    slots: *mut u8,
    capacity: u64, // 0: there is no such direction
    message_bytes: u64,
    mine: u64, // this end's counter
}

impl Way {
    /// Where message `number` lies: (2).
    unsafe fn slot(&self, number: u64) -> *mut ffi::vram_ring_slot {
        let stride = (self.message_bytes + size_of::<ffi::vram_ring_slot>() as u64 + 63) / 64 * 64;
        self.slots.add(((number & (self.capacity - 1)) * stride) as usize).cast()
    }
}

impl RingPeer<'_> {
    /// None: there is no control block.
    unsafe fn open<'a>(control: *mut ffi::vram_ring_control) -> Option<RingPeer<'a>> {
        // Field by field: the host may be writing its own words.
        let [magic, _, flags, _] = addr_of!((*control).reserved).read();
        if magic != ffi::VRAM_RING_MAGIC {
            return None;
        }
        let offsets = flags & ffi::VRAM_RING_FLAG_OFFSETS as u64 != 0;
        let place = |pointer: u64| match offsets {
            true => control.cast::<u8>().add(pointer as usize),
            false => pointer as usize as *mut u8,
        };
        macro_rules! way {
            ($head:ident, $tail:ident, $slots:ident, $capacity:ident, $message:ident) => {
                Way {
                    head: place(addr_of!((*control).$head).read()).cast(),
                    tail: place(addr_of!((*control).$tail).read()).cast(),
                    slots: place(addr_of!((*control).$slots).read()),
                    capacity: addr_of!((*control).$capacity).read() as u32 as u64,
                    message_bytes: addr_of!((*control).$message).read() as u32 as u64,
                    mine: 0,
                }
            };
        }
        let mut input = way!(
            input_queue_head_ptr,
            input_queue_tail_ptr,
            input_queue_buffer_ptr,
            input_queue_capacity,
            input_queue_message_size
        );
        let mut output = way!(
            output_queue_head_ptr,
            output_queue_tail_ptr,
            output_queue_buffer_ptr,
            output_queue_capacity,
            output_queue_message_size
        );
        if input.capacity != 0 {
            input.mine = (*input.tail).load(Ordering::Acquire);
        }
        if output.capacity != 0 {
            output.mine = (*output.head).load(Ordering::Acquire);
        }
        let processed = addr_of!((*control).messages_processed).read() as u64;
        let errors = addr_of!((*control).errors_encountered).read();
        let peer = RingPeer { control, flags, input, output, processed, errors, ring: PhantomData };
        peer.terminated(ffi::VRAM_RING_RUNNING);
        Some(peer)
    }

    /// Takes the oldest message, with its kind. None: there is none now. A message that has another size than T, or is
    /// damaged, is an error, and is gone.
    pub fn receive<T: Pod>(&mut self) -> Result<Option<(T, u32)>> {
        let way = &mut self.input;
        // SAFETY: the words and slots of a live ring. (3), (4): a message that head has passed is whole and ours.
        let (header, message) = unsafe {
            if way.capacity == 0 || (*way.head).load(Ordering::Acquire) == way.mine {
                return Ok(None);
            }
            let slot = way.slot(way.mine);
            let header = slot.read();
            let fits = header.bytes as usize == size_of::<T>();
            let fits = fits && u64::from(header.bytes) <= way.message_bytes;
            (header, fits.then(|| slot.add(1).cast::<T>().read_unaligned()))
        };
        let sequence = way.mine + 1;
        way.mine = sequence;
        let damaged = header.sequence != sequence
            || self.flags & ffi::VRAM_RING_FLAG_CRC as u64 != 0
                && message.map_or(false, |message| crc(&message) != header.crc);
        // SAFETY: this end's word; the slot is the host's from here on.
        unsafe { (*way.tail).store(sequence, Ordering::Release) };
        match message {
            _ if damaged => Err(Error::corrupt(format!("message {sequence} is damaged"))),
            Some(message) => {
                self.processed += 1;
                Ok(Some((message, header.kind)))
            }
            None => {
                let (has, wanted) = (header.bytes, size_of::<T>());
                Err(Error::invalid(format!("a message of {has} bytes, not {wanted}")))
            }
        }
    }

    /// Publishes a message; false: there is no room now.
    pub fn send<T: Pod>(&mut self, message: &T, kind: u32) -> Result<bool> {
        let bytes = size_of::<T>();
        if bytes as u64 > self.output.message_bytes {
            let most = self.output.message_bytes;
            return Err(Error::invalid(format!("a message of {bytes} bytes, more than {most}")));
        }
        if self.room() == 0 {
            return Ok(false);
        }
        let checked = self.flags & ffi::VRAM_RING_FLAG_CRC as u64 != 0;
        let way = &mut self.output;
        // SAFETY: the words and slots of a live ring; with room, the slot is ours until head has passed it. (4): payload
        // and header, then head.
        unsafe {
            let slot = way.slot(way.mine);
            slot.add(1).cast::<T>().write_unaligned(*message);
            slot.write(ffi::vram_ring_slot {
                sequence: way.mine + 1,
                stamp_ns: 0,
                bytes: bytes as u32,
                crc: if checked { crc(message) } else { 0 },
                kind,
                padding_: 0,
            });
            way.mine += 1;
            (*way.head).store(way.mine, Ordering::Release);
        }
        Ok(true)
    }

    /// Messages that can be sent now.
    pub fn room(&self) -> u64 {
        let way = &self.output;
        if way.capacity == 0 {
            return 0;
        }
        // SAFETY: a word of a live ring.
        let taken = unsafe { (*way.tail).load(Ordering::Acquire) };
        way.capacity.saturating_sub(way.mine.wrapping_sub(taken))
    }

    /// Whether the host has asked for the end ([`crate::Ring::stop`]) and no message is left. A kernel that waits for
    /// messages looks here, or the ring cannot end.
    pub fn is_stopping(&self) -> bool {
        // SAFETY: words of a live ring.
        unsafe {
            let asked = addr_of_mut!((*self.control).should_terminate).cast::<AtomicI32>();
            (*asked).load(Ordering::Acquire) != 0
                && (self.input.capacity == 0
                    || (*self.input.head).load(Ordering::Acquire) == self.input.mine)
        }
    }

    fn terminated(&self, how: i32) {
        // SAFETY: a word of a live ring that the device writes.
        unsafe {
            let word = addr_of_mut!((*self.control).has_terminated).cast::<AtomicI32>();
            (*word).store(how, Ordering::Release);
        }
    }

    /// The last that this end does: counts for the host, and that it has ended.
    fn end(&mut self, well: bool) {
        self.errors += i32::from(!well);
        // SAFETY: words of a live ring that the device writes.
        unsafe {
            let control = self.control;
            let processed = addr_of_mut!((*control).messages_processed).cast::<AtomicI64>();
            (*processed).store(self.processed as i64, Ordering::Relaxed);
            if self.flags & ffi::VRAM_RING_FLAG_TELEMETRY as u64 != 0 {
                let at = control.cast::<u8>().add(ffi::VRAM_RING_AT_TELEMETRY as usize);
                let told: *mut ffi::vram_ring_telemetry = at.cast();
                let now =
                    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos());
                let word = addr_of_mut!((*told).messages_processed).cast::<AtomicU64>();
                (*word).store(self.processed, Ordering::Relaxed);
                let word = addr_of_mut!((*told).last_processed_timestamp).cast::<AtomicI64>();
                (*word).store(now as i64, Ordering::Relaxed);
            }
            let errors = addr_of_mut!((*control).errors_encountered).cast::<AtomicI32>();
            (*errors).store(self.errors, Ordering::Release);
        }
        let stopping = self.is_stopping();
        self.terminated(if stopping { ffi::VRAM_RING_DONE } else { ffi::VRAM_RING_RELAUNCHABLE });
    }
}

/// CRC-32 as in gzip.
fn crc<T: Pod>(message: &T) -> u32 {
    // SAFETY: a Pod is its bytes.
    let bytes =
        unsafe { std::slice::from_raw_parts((message as *const T).cast::<u8>(), size_of::<T>()) };
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc: u32, _| {
            crc >> 1 ^ if crc & 1 != 0 { 0xEDB8_8320 } else { 0 }
        })
    })
}
