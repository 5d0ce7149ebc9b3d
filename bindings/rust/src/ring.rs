// SPDX-License-Identifier: Apache-2.0
//! Rings: messages between the host and a kernel, in both directions.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::mem::{forget, size_of, take, MaybeUninit};
use std::os::raw::c_char;
use std::ptr;
use std::time::Duration;

use crate::async_result::{is_over_on, AsyncResult};
use crate::buffer::numbered;
use crate::device::Device;
use crate::error::{
    array_text, c_option, c_text, check, made, nanoseconds, pointer_of, sized, Error,
};
use crate::ffi;
use crate::kernel::Launch;
use crate::pod::Pod;
use crate::pool::{Pool, RingStats};
use crate::queue::{Point, Queue, PASSED};
use crate::ring_peer::RingKernel;
use crate::Result;

pub use crate::ffi::vram_ring_control as RingControl;
pub use crate::ffi::vram_ring_telemetry as RingTelemetry;

numbered! {
    /// How messages travel.
    RingStrategy: vram_ring_strategy {
        /// Direct if it is available, else by a thread that polls.
        #[default]
        Auto = VRAM_RING_AUTO,
        /// [`Ring::flush`] copies what was sent, and waits.
        Sync = VRAM_RING_SYNC,
        /// [`Ring::flush_async`] copies what was sent.
        Async = VRAM_RING_ASYNC,
        /// The ring lies in memory that both reach.
        Direct = VRAM_RING_DIRECT,
        /// A thread of the ring copies, at an interval.
        DmaPolling = VRAM_RING_DMA_POLLING,
    }
}

numbered! {
    /// When a running kernel and the host see each other's writes, from least to most.
    Visibility: vram_visibility {
        /// In options: what the platform and the device allow.
        #[default]
        Auto = VRAM_VISIBILITY_AUTO,
        /// Explicit copies only.
        Dma = VRAM_VISIBILITY_DMA,
        /// When a kernel starts and when it ends.
        Device = VRAM_VISIBILITY_DEVICE,
        /// At once.
        System = VRAM_VISIBILITY_SYSTEM,
    }
}

impl Visibility {
    /// The most that this platform allows. `kernel_text` replaces the content of /proc/version.
    pub fn of_platform(kernel_text: &str) -> Result<Visibility> {
        let text = c_text(kernel_text)?;
        // SAFETY: a text that outlives the call, and an out-parameter.
        let found = made(0, |found| unsafe {
            ffi::vram_visibility_of_platform(ffi::vram_platform_here(), text.as_ptr(), found)
        })?;
        Ok(Visibility::of(found))
    }

    /// What this machine and `device` offer together, and why it is not more. `kernel_text` replaces the content of
    /// /proc/version, which tells WSL from Linux.
    pub fn detect(device: &Device, kernel_text: Option<&str>) -> Result<(Visibility, String)> {
        let text = c_option(kernel_text)?;
        let mut reason: [c_char; ffi::VRAM_VISIBILITY_REASON_MAX as usize] =
            [0; ffi::VRAM_VISIBILITY_REASON_MAX as usize];
        // SAFETY: a valid handle, a text that outlives the call, and room for the reason.
        let found = made(0, |found| unsafe {
            let text = pointer_of(&text);
            ffi::vram_visibility_detect(device.raw(), text, found, reason.as_mut_ptr())
        })?;
        Ok((Visibility::of(found), array_text(&reason)))
    }
}

/// What a ring is. Empty: both directions, 4096 messages of up to 96 bytes.
#[derive(Clone, Default)]
pub struct RingOptions<'a> {
    /// How messages travel.
    pub strategy: RingStrategy,
    /// Messages to the device, a power of two; 0: 4096.
    pub input_capacity: u32,
    /// Messages from the device, a power of two; 0: 4096.
    pub output_capacity: u32,
    /// Of the largest message; 0: 96.
    pub message_bytes: u32,
    /// Each message has a CRC-32, which is checked.
    pub crc: bool,
    /// [`RingStrategy::DmaPolling`]: between looks; zero: 100 us.
    pub poll: Duration,
    /// The queue for copies; None: one of the ring's own.
    pub queue: Option<&'a Queue>,
}

/// Messages between the host and a kernel. A full ring makes its senders wait: nothing is lost or overwritten.
///
/// One thread sends and one receives. The ring may move to another thread, but two threads cannot share it;
/// [`Ring::split`] gives each end to a thread:
///
/// ```compile_fail,E0277
/// fn shared<T: Sync>(_: &T) {}
/// fn demo(ring: vram::Ring) { shared(&ring) }
/// ```
///
/// Dropping it tells the kernel to end, and waits for one of [`Ring::launch`]. Whoever launched another (which is unsafe)
/// waits for it before: [`Ring::join`].
pub struct Ring {
    raw: *mut ffi::vram_ring,
    queue: Option<Queue>,
    launched: RefCell<Launched>,
    pool: Pool,
}

/// What [`Ring::launch`] has submitted. Dropped after the ring, or never.
#[derive(Default)]
struct Launched {
    kernels: Vec<RingKernel>,
    queue: Option<Queue>, // for kernels that run beside the ring's copies
    last: Option<ffi::vram_point>, // after the last launch
    unknown: bool,        // a launch failed, and may run all the same
}

// SAFETY: a handle is a checked number. Sync would be wrong: of two threads that send at once, one fails.
unsafe impl Send for Ring {}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the handle is ours. It is destroyed when no kernel of `launch` runs any more; else all that one may
        // use stays.
        unsafe {
            ffi::vram_ring_stop(self.raw);
            let launched = self.launched.get_mut();
            let ended = launched.last.map_or(ffi::VRAM_OK, |point| {
                ffi::vram_point_wait(point, ffi::VRAM_TIMEOUT_DEFAULT)
            });
            if ended == ffi::VRAM_OK && !launched.unknown {
                ffi::vram_ring_destroy(self.raw);
            } else {
                forget((take(launched), self.queue.take(), self.pool.clone()));
            }
        }
    }
}

impl Ring {
    pub(crate) fn create(pool: &Pool, options: &RingOptions<'_>) -> Result<Ring> {
        let mut raw: ffi::vram_ring_options = sized();
        raw.strategy = options.strategy.raw();
        raw.flags = if options.crc { ffi::VRAM_RING_CRC as u32 } else { 0 };
        raw.input_capacity = options.input_capacity;
        raw.output_capacity = options.output_capacity;
        raw.message_bytes = options.message_bytes;
        raw.poll_ns = nanoseconds(options.poll);
        raw.queue = options.queue.map_or(ptr::null_mut(), Queue::raw);
        // SAFETY: valid handles; the options outlive the call.
        let raw =
            made(ptr::null_mut(), |out| unsafe { ffi::vram_ring_create(pool.raw(), &raw, out) })?;
        let queue = options.queue.cloned();
        Ok(Ring { raw, queue, launched: RefCell::default(), pool: pool.clone() })
    }

    /// The handle, for calls of [`ffi`] that the crate does not wrap.
    pub fn raw(&self) -> *mut ffi::vram_ring {
        self.raw
    }

    /// The two ends, each for a thread.
    pub fn split(&mut self) -> (Sender<'_>, Receiver<'_>) {
        let ring = self.raw;
        (Sender { ring, lent: PhantomData }, Receiver { ring, lent: PhantomData })
    }

    /// Sends a message; waits up to `time` while the input is full.
    pub fn send<T: Pod>(&self, message: &T, kind: u32, time: Duration) -> Result<()> {
        send(self.raw, message, kind, time)
    }

    /// Takes the oldest message off the output, with its kind; waits up to `time` for one. None: there was none.
    pub fn receive<T: Pod>(&self, time: Duration) -> Result<Option<(T, u32)>> {
        receive(self.raw, time)
    }

    /// Makes all sent messages visible to the device, and waits for that; how many this call copied.
    pub fn flush(&self) -> Result<u64> {
        // SAFETY: a valid handle; no async handle is wanted.
        let copied =
            made(0, |count| unsafe { ffi::vram_ring_flush(self.raw, count, ptr::null_mut()) })?;
        if let Some(queue) = &self.queue {
            queue.wait()?;
        }
        Ok(copied)
    }

    /// The same in the background, for a ring with a queue of the program's; the result's count is how many messages
    /// have arrived.
    pub fn flush_async(&self) -> Result<AsyncResult<()>> {
        let queue = self.queue.as_ref();
        let queue =
            queue.ok_or_else(|| Error::invalid("the ring has no queue of the program's"))?;
        AsyncResult::start(queue, (), None, |_, raw| {
            // SAFETY: a valid handle; the ring's own memory is copied.
            unsafe { ffi::vram_ring_flush(self.raw, ptr::null_mut(), raw) }
        })
    }

    /// Brings the messages that the device has published; how many have arrived.
    pub fn fetch(&self) -> Result<u64> {
        // SAFETY: a valid handle; no async handle is wanted.
        made(0, |count| unsafe { ffi::vram_ring_fetch(self.raw, count, ptr::null_mut()) })
    }

    /// Launches a kernel as the device's end, after the launches before and all that the ring has copied so far; a point
    /// after it. Where the ring is live ([`RingInfo::live`]) the kernel runs beside all queues of the program and may
    /// wait for messages; else it runs on the queue of the ring's copies, and must end when none is left.
    ///
    /// ```compile_fail,E0502
    /// fn demo(ring: &mut vram::Ring, kernel: &vram::RingKernel) -> vram::Result<()> {
    ///     let (sender, receiver) = ring.split();
    ///     ring.launch(kernel)?; // the ring is lent to its ends
    ///     drop((sender, receiver));
    ///     Ok(())
    /// }
    /// ```
    ///
    /// Nothing here is `unsafe`: the kernel has nothing but the ring. Dropping the ring waits for its kernels, as long as
    /// the option `wait_timeout` allows; one that still runs then keeps the ring's memory.
    pub fn launch(&self, kernel: &RingKernel) -> Result<Point> {
        // SAFETY: a valid handle, and an out-parameter of the right size.
        let info: ffi::vram_ring_info =
            made(sized(), |info| unsafe { ffi::vram_ring_info_get(self.raw, info) })?;
        let mut launched = self.launched.borrow_mut();
        let queue = if info.live || info.queue.is_null() {
            if launched.queue.is_none() {
                launched.queue = Some(self.pool.device().queue()?);
            }
            launched.queue.as_ref().map_or(info.queue, Queue::raw)
        } else {
            info.queue
        };
        if !launched.kernels.iter().any(|known| known.kernel().raw() == kernel.kernel().raw()) {
            launched.kernels.push(kernel.clone());
        }
        let arguments = Launch::new([1; 3], [1; 3]).address(info.control);
        // SAFETY: valid handles. The kernel gets what it expects, and the ring, which keeps it, outlasts the launch.
        unsafe {
            if !info.queue.is_null() && info.queue != queue {
                let copied = made(PASSED, |point| ffi::vram_queue_mark(info.queue, point))?;
                check(ffi::vram_queue_after(queue, copied))?;
            }
            let status = arguments.submit(queue, kernel.kernel());
            if status != ffi::VRAM_OK {
                let error = Error::from_status(status);
                launched.unknown |= !is_over_on(queue, status);
                return Err(error);
            }
            let point = made(PASSED, |point| ffi::vram_queue_mark(queue, point));
            match &point {
                Ok(point) => launched.last = Some(*point),
                Err(_) => {
                    let ended = ffi::vram_queue_wait(queue, ffi::VRAM_TIMEOUT_DEFAULT);
                    launched.unknown |= ended != ffi::VRAM_OK;
                }
            }
            point.map(Point::of)
        }
    }

    /// What the kernel has reported.
    pub fn telemetry(&self) -> Result<RingTelemetry> {
        // SAFETY: zeros are a value of it; a valid handle and an out-parameter.
        let start = unsafe { MaybeUninit::zeroed().assume_init() };
        made(start, |told| unsafe { ffi::vram_ring_telemetry_get(self.raw, told) })
    }

    /// Ends sending: the kernel is told to end after all messages that were sent.
    pub fn stop(&self) -> Result<()> {
        // SAFETY: a valid handle.
        check(unsafe { ffi::vram_ring_stop(self.raw) })
    }

    /// Waits until the kernel has ended its part.
    pub fn join(&self, time: Duration) -> Result<()> {
        // SAFETY: a valid handle.
        check(unsafe { ffi::vram_ring_join(self.raw, nanoseconds(time)) })
    }

    /// What it is.
    pub fn info(&self) -> Result<RingInfo> {
        // SAFETY: a valid handle, and an out-parameter of the right size.
        let raw: ffi::vram_ring_info =
            made(sized(), |info| unsafe { ffi::vram_ring_info_get(self.raw, info) })?;
        Ok(RingInfo {
            control: raw.control,
            bytes: raw.bytes,
            strategy: RingStrategy::of(raw.strategy),
            visibility: Visibility::of(raw.visibility),
            live: raw.live,
            reason: array_text(&raw.reason),
        })
    }

    /// What the host knows of the messages.
    pub fn stats(&self) -> Result<RingStats> {
        // SAFETY: a valid handle, and an out-parameter of the right size.
        made(sized(), |stats| unsafe { ffi::vram_ring_stats_get(self.raw, stats) }).map(RingStats)
    }
}

/// What a ring is.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RingInfo {
    /// Address of the control block: the kernel's argument.
    pub control: u64,
    /// Of the ring, from there on.
    pub bytes: u64,
    /// In use, never [`RingStrategy::Auto`].
    pub strategy: RingStrategy,
    /// That its fences obey.
    pub visibility: Visibility,
    /// A kernel on another queue can be the other end while it runs.
    pub live: bool,
    /// Why visibility is not higher.
    pub reason: String,
}

/// The end of a ring that sends. One thread has it.
///
/// ```compile_fail,E0277
/// fn shared<T: Sync>(_: &T) {}
/// fn demo(end: vram::Sender<'_>) { shared(&end) }
/// ```
pub struct Sender<'a> {
    ring: *mut ffi::vram_ring,
    lent: PhantomData<(&'a (), Cell<()>)>,
}

/// The end of a ring that receives. One thread has it.
pub struct Receiver<'a> {
    ring: *mut ffi::vram_ring,
    lent: PhantomData<(&'a (), Cell<()>)>,
}

// SAFETY: one thread sends and one receives; neither is Sync.
unsafe impl Send for Sender<'_> {}
unsafe impl Send for Receiver<'_> {}

impl Sender<'_> {
    /// As [`Ring::send`].
    pub fn send<T: Pod>(&self, message: &T, kind: u32, time: Duration) -> Result<()> {
        send(self.ring, message, kind, time)
    }
}

impl Receiver<'_> {
    /// As [`Ring::receive`].
    pub fn receive<T: Pod>(&self, time: Duration) -> Result<Option<(T, u32)>> {
        receive(self.ring, time)
    }
}

fn send<T: Pod>(ring: *mut ffi::vram_ring, message: &T, kind: u32, time: Duration) -> Result<()> {
    let bytes = u32::try_from(size_of::<T>()).unwrap_or(u32::MAX);
    // SAFETY: a valid handle; the message is copied by the call.
    check(unsafe {
        ffi::vram_ring_send(ring, (message as *const T).cast(), bytes, kind, nanoseconds(time))
    })
}

fn receive<T: Pod>(ring: *mut ffi::vram_ring, time: Duration) -> Result<Option<(T, u32)>> {
    let bytes = u32::try_from(size_of::<T>()).unwrap_or(u32::MAX);
    let mut message = MaybeUninit::<T>::zeroed();
    // SAFETY: zeros are a header; a valid handle, and room for `bytes`.
    let (status, header) = unsafe {
        let mut header: ffi::vram_ring_slot = MaybeUninit::zeroed().assume_init();
        let data = message.as_mut_ptr().cast();
        let status = ffi::vram_ring_receive(ring, data, bytes, nanoseconds(time), &mut header);
        (status, header)
    };
    match status {
        // SAFETY: zeros, and over them what came: any bytes are a value of a Pod.
        ffi::VRAM_OK if header.bytes == bytes => {
            Ok(Some((unsafe { message.assume_init() }, header.kind)))
        }
        ffi::VRAM_OK => {
            Err(Error::invalid(format!("a message of {} bytes, not {bytes}", header.bytes)))
        }
        ffi::VRAM_ERR_NOT_READY | ffi::VRAM_ERR_TIMEOUT => Ok(None),
        failed => Err(Error::from_status(failed)),
    }
}
