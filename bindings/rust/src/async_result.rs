// SPDX-License-Identifier: Apache-2.0
//! Work in the background, with the host memory that it uses.
//!
//! (1) A result owns the host memory of its work from the submission on. So no borrow has to outlast the work, and
//!     a result that is forgotten only leaks.
//! (2) The memory is handed out or freed when the library has said that the work is complete or has failed. A result
//!     that is dropped before gives the memory to a callback; if that cannot be registered, it leaks. So does the
//!     memory of work that ended with a timeout or with the process: the device may still use it.
//! (3) A callback holds no reference to a queue, directly or not: the end of the queue would wait for it.

use std::any::Any;
use std::future::Future;
use std::mem;
use std::os::raw::c_void;
use std::os::unix::io::{FromRawFd, OwnedFd};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{self, Poll, Waker};
use std::time::Duration;

use crate::error::{check, contained, locked, made, nanoseconds, Error};
use crate::ffi;
use crate::pod::Pod;
use crate::queue::{Point, Queue};
use crate::Result;

/// Whether work is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsyncState {
    /// Not complete yet, or its state could not be read.
    Pending,
    /// Complete.
    Ready,
    /// It has failed.
    Failed,
}

/// Host memory that a result can own while a device reads it: vectors, boxed and shared slices, statics.
///
/// Borrowed memory is refused, because nothing could keep the borrow alive until the copy is complete:
///
/// ```compile_fail,E0597
/// # fn demo(buffer: &mut vram::Buffer) -> vram::Result<()> {
/// let local = [1.0f32; 16];
/// let copy = buffer.upload_async(&local[..])?;
/// # drop(copy); Ok(()) }
/// ```
///
/// # Safety
/// The slice stays at its address when the value moves, and nothing writes it through a shared reference.
pub unsafe trait HostMemory: Send + 'static {
    /// What it holds.
    type Item: Pod;
    /// All of it.
    fn as_slice(&self) -> &[Self::Item];
}

macro_rules! host_memory {
    ($($kind:ty),*) => { $(
        unsafe impl<T: Pod> HostMemory for $kind {
            type Item = T;
            fn as_slice(&self) -> &[T] {
                self
            }
        }
    )* };
}
host_memory! { Vec<T>, Box<[T]>, Arc<[T]>, &'static [T] }

/// Work that runs in the background, and what it will give: the memory that was uploaded, numbers that were
/// downloaded, a matrix product.
///
/// Dropping it does not wait: the work continues, and its memory is freed when it is complete.
///
/// ```
/// # fn main() -> vram::Result<()> {
/// # let context = vram::Context::with(&vram::ContextOptions { backends: Some("host"), ..Default::default() })?;
/// # let device = context.best_device()?;
/// let (pool, queue) = (device.pool()?, device.queue()?);
/// let mut buffer = pool.buffer(&queue, 4096)?;
/// let upload = buffer.upload_async(vec![7u8; 4096])?; // owns the vector until the device has read it
/// let download = buffer.download_async::<u8>()?;      // after it, on the same queue
/// assert_eq!(download.wait()?, upload.wait()?);       // borrowed: both may be asked again
/// let bytes: Vec<u8> = download.into_inner()?;        // handed out
/// # assert_eq!(bytes.len(), 4096);
/// # Ok(()) }
/// ```
///
/// It is a future as well, of any executor. No thread polls devices for a program, so a result that is awaited before
/// it is ready has a thread of the library wait for it: `vram_async_fd_open` of the C API.
///
/// What is borrowed cannot outlast the result:
///
/// ```compile_fail,E0505
/// fn demo(result: vram::AsyncResult<Vec<u8>>) -> vram::Result<usize> {
///     let bytes = result.wait()?;
///     let owned = result.into_inner()?;
///     Ok(bytes.len() + owned.len())
/// }
/// ```
///
/// Results can go to another thread only if what they hold can:
///
/// ```compile_fail,E0277
/// fn send<T: Send>(_: T) {}
/// fn demo(result: vram::AsyncResult<std::rc::Rc<u8>>) { send(result) }
/// ```
#[must_use = "dropping a result does not wait for it"]
pub struct AsyncResult<T: Send + 'static> {
    raw: ffi::vram_async,
    value: Option<T>,                         // None once it was handed out
    used: Option<Box<dyn Any + Send + Sync>>, // other memory of the work
    woken: Option<Arc<Mutex<Option<Waker>>>>, // whom the end of the work wakes; None: nobody yet
    watched: bool,                            // a thread of the library waits for the work
    _alive: Alive,
}

/// An object that the handle of a result needs, so that the context lasts as long as it.
pub(crate) type Alive = Arc<dyn Any + Send + Sync>;

// Nothing points into a result, and what it gives is moved when it is complete.
impl<T: Send + 'static> Unpin for AsyncResult<T> {}

impl<T: Send + 'static> AsyncResult<T> {
    /// Owns `value`, and `used`, from before the work is submitted by `start`. Keeps (1): if `start` fails the work may
    /// be running all the same, in the rare case that the library names; then `settle` decides.
    pub(crate) fn start(
        queue: &Queue,
        value: T,
        used: Option<Box<dyn Any + Send + Sync>>,
        start: impl FnOnce(&T, *mut ffi::vram_async) -> ffi::vram_status,
    ) -> Result<AsyncResult<T>> {
        let mut raw = ffi::vram_async { word: [0; 4] };
        let status = start(&value, &mut raw);
        if status == ffi::VRAM_OK {
            return Ok(AsyncResult::of_raw(raw, value, used, queue.alive()));
        }
        let error = Error::from_status(status);
        if !is_over(queue, status) {
            mem::forget((value, used));
        }
        Err(error)
    }

    /// Of a handle whose work has been submitted, and which `alive` outlasts.
    pub(crate) fn of_raw(
        raw: ffi::vram_async,
        value: T,
        used: Option<Box<dyn Any + Send + Sync>>,
        alive: Alive,
    ) -> AsyncResult<T> {
        AsyncResult { raw, value: Some(value), used, woken: None, watched: false, _alive: alive }
    }

    /// The same for mutable memory.
    pub(crate) fn start_mut(
        queue: &Queue,
        mut value: T,
        start: impl FnOnce(&mut T, *mut ffi::vram_async) -> ffi::vram_status,
    ) -> Result<AsyncResult<T>> {
        let mut raw = ffi::vram_async { word: [0; 4] };
        let status = start(&mut value, &mut raw);
        if status == ffi::VRAM_OK {
            return Ok(AsyncResult::of_raw(raw, value, None, queue.alive()));
        }
        let error = Error::from_status(status);
        if !is_over(queue, status) {
            mem::forget(value);
        }
        Err(error)
    }

    /// Whether the work is complete, or has failed. Never waits.
    pub fn is_ready(&self) -> bool {
        // SAFETY: a handle of the library, or zeros.
        unsafe { ffi::vram_async_is_ready(&self.raw) }
    }

    /// Pending, ready or failed.
    pub fn state(&self) -> Result<AsyncState> {
        // SAFETY: a handle of the library, or zeros.
        let state = made(0, |state| unsafe { ffi::vram_async_state_get(&self.raw, state) })?;
        Ok(match state {
            ffi::VRAM_ASYNC_READY => AsyncState::Ready,
            ffi::VRAM_ASYNC_ERROR => AsyncState::Failed,
            _ => AsyncState::Pending,
        })
    }

    /// Waits until the work is complete, for as long as that takes; what it gives. May be called again.
    pub fn wait(&self) -> Result<&T> {
        // SAFETY: a handle of the library, or zeros. Keeps (2): complete work writes the value no more.
        check(unsafe { ffi::vram_async_wait(&self.raw, ffi::VRAM_TIMEOUT_INFINITE) })?;
        self.value.as_ref().ok_or_else(handed_out)
    }

    /// Waits as [`AsyncResult::wait`] does, and hands out what the work gives.
    pub fn into_inner(mut self) -> Result<T> {
        self.wait()?;
        self.value.take().ok_or_else(handed_out)
    }

    /// Waits for at most `time`; whether the work is complete now.
    pub fn wait_for(&self, time: Duration) -> Result<bool> {
        // SAFETY: a handle of the library, or zeros.
        match unsafe { ffi::vram_async_wait(&self.raw, nanoseconds(time)) } {
            ffi::VRAM_OK => Ok(true),
            // The wait has ended without a result, or the work itself has failed with a timeout.
            ffi::VRAM_ERR_TIMEOUT => Ok(self.try_get()?.is_some()),
            failed => Err(Error::from_status(failed)),
        }
    }

    /// What the work gives, if it is complete. Never waits, and may be called again.
    pub fn try_get(&self) -> Result<Option<&T>> {
        // SAFETY: a handle of the library, or zeros. Keeps (2): complete work writes the value no more.
        match unsafe { ffi::vram_async_poll(&self.raw) } {
            ffi::VRAM_OK => self.value.as_ref().map(Some).ok_or_else(handed_out),
            ffi::VRAM_ERR_NOT_READY => Ok(None),
            failed => Err(Error::from_status(failed)),
        }
    }

    /// The number that the work has as its result, once it is complete: bytes that a copy moved, messages of a flush.
    pub fn count(&self) -> Result<Option<u64>> {
        let mut count = 0;
        // SAFETY: a handle of the library, or zeros.
        match unsafe { ffi::vram_async_result_get(&self.raw, &mut count) } {
            ffi::VRAM_OK => Ok(Some(count)),
            ffi::VRAM_ERR_NOT_READY => Ok(None),
            failed => Err(Error::from_status(failed)),
        }
    }

    /// Calls `call` once when the work is complete or has failed: on the thread that finds out, which is one that polls
    /// or waits ([`crate::Device::poll`] polls all), or ends the queue. A panic in it goes no further.
    ///
    /// It is called on another thread, so it can only own what can be sent there:
    ///
    /// ```compile_fail,E0277
    /// fn demo(result: &vram::AsyncResult<Vec<u8>>) -> vram::Result<()> {
    ///     let local = std::rc::Rc::new(1);
    ///     result.on_ready(move |_| drop(local))
    /// }
    /// ```
    pub fn on_ready<F>(&self, call: F) -> Result<()>
    where
        F: FnOnce(Result<()>) + Send + 'static,
    {
        then(&self.raw, Box::new(call)).map_err(|(error, _)| error)
    }
}

impl<T: Send + 'static> Future for AsyncResult<T> {
    type Output = Result<T>;

    /// After it was ready, [`Error::Invalid`]: what the work gives was handed out.
    fn poll(self: Pin<&mut Self>, context: &mut task::Context<'_>) -> Poll<Result<T>> {
        let this = self.get_mut();
        if let Ok(None) = this.try_get() {
            if this.wake_at_end(context.waker().clone()).is_err() {
                context.waker().wake_by_ref(); // there is no thread to spare: the executor asks again
            }
        }
        match this.try_get().map(|value| value.is_some()) {
            Ok(false) => Poll::Pending,
            Ok(true) => Poll::Ready(this.value.take().ok_or_else(handed_out)),
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

impl<T: Send + 'static> AsyncResult<T> {
    /// Has a thread of the library wait for the work, and wake `waker`, or its successor, at the end.
    fn wake_at_end(&mut self, waker: Waker) -> Result<()> {
        let registered = self.woken.is_some();
        let woken = self.woken.get_or_insert_with(Arc::default).clone();
        let _former = locked(&woken).replace(waker); // before the work is asked again: it may end at any moment
        if !registered {
            let wake = move |_| {
                let waker = locked(&woken).take();
                if let Some(waker) = waker {
                    waker.wake();
                }
            };
            if let Err(error) = self.on_ready(wake) {
                self.woken = None;
                return Err(error);
            }
        }
        if !self.watched {
            let mut file = -1;
            // SAFETY: one handle, and an out-parameter. The descriptor is ours to close; the thread waits all the same.
            unsafe {
                check(ffi::vram_async_fd_open(&self.raw, 1, &mut file))?;
                drop(OwnedFd::from_raw_fd(file));
            }
            self.watched = true;
        }
        Ok(())
    }
}

impl AsyncResult<()> {
    /// A result for a point, so that a program can wait for its own kernels in the same way.
    pub fn of_point(queue: &Queue, point: Point) -> Result<AsyncResult<()>> {
        AsyncResult::start(queue, (), None, |_, raw| {
            // SAFETY: a point is plain data, and NULL names the work.
            unsafe { ffi::vram_async_of_point(point.raw(), std::ptr::null(), raw) }
        })
    }
}

impl<T: Send + 'static> Drop for AsyncResult<T> {
    fn drop(&mut self) {
        let memory = (self.value.take(), self.used.take());
        if memory.0.is_some() || memory.1.is_some() {
            // SAFETY: a handle of the library, or zeros. Keeps (2).
            match unsafe { ffi::vram_async_poll(&self.raw) } {
                ffi::VRAM_OK => drop(memory),
                ffi::VRAM_ERR_TIMEOUT | ffi::VRAM_ERR_SHUTDOWN => mem::forget(memory),
                // Not after NOT_READY: work that has ended since then may have ended with a timeout.
                failed if failed != ffi::VRAM_ERR_NOT_READY && self.is_ready() => drop(memory),
                _ => {
                    let release = move |ended: Result<()>| match ended {
                        Err(Error::Timeout(_) | Error::Shutdown(_)) => mem::forget(memory),
                        _ => drop(memory),
                    };
                    if let Err((_, call)) = then(&self.raw, Box::new(release)) {
                        mem::forget(call);
                    }
                }
            }
        }
        // SAFETY: the handle is ours; the work and its callbacks go on.
        unsafe { ffi::vram_async_end(&mut self.raw) };
    }
}

fn handed_out() -> Error {
    Error::invalid("what the work gives was handed out before")
}

type Call = Box<dyn FnOnce(Result<()>) + Send>;

/// Registers a callback; returns it if that fails.
fn then(raw: &ffi::vram_async, call: Call) -> std::result::Result<(), (Error, Box<Call>)> {
    let user = Box::into_raw(Box::new(call));
    // SAFETY: the library calls exactly once, or returns a failure and never calls.
    match unsafe { ffi::vram_async_then(raw, Some(run_call), user.cast()) } {
        ffi::VRAM_OK => Ok(()),
        failed => Err((Error::from_status(failed), unsafe { Box::from_raw(user) })),
    }
}

unsafe extern "C" fn run_call(user: *mut c_void, status: ffi::vram_status) {
    let call = *Box::from_raw(user.cast::<Call>());
    contained(move || call(check(status)));
}

/// After a failed submission: whether no work of it runs, or will run. Waits for the queue where the status does not
/// say so.
pub(crate) fn is_over(queue: &Queue, status: ffi::vram_status) -> bool {
    // SAFETY: a valid handle.
    unsafe { is_over_on(queue.raw(), status) }
}

/// # Safety
/// The handle is valid.
pub(crate) unsafe fn is_over_on(queue: *mut ffi::vram_queue, status: ffi::vram_status) -> bool {
    let ended = |status| {
        matches!(
            status,
            ffi::VRAM_OK
                | ffi::VRAM_ERR_INVALID
                | ffi::VRAM_ERR_OVERFLOW
                | ffi::VRAM_ERR_STALE
                | ffi::VRAM_ERR_UNSUPPORTED
                | ffi::VRAM_ERR_DEVICE_LOST
                | ffi::VRAM_ERR_CAPTURE
                | ffi::VRAM_ERR_FORKED
                | ffi::VRAM_ERR_SHUTDOWN
        )
    };
    ended(status) || ended(ffi::vram_queue_wait(queue, ffi::VRAM_TIMEOUT_INFINITE))
}

/// The end of a call that lent borrowed memory to the device: it returns only when the device no longer uses it.
pub(crate) fn settle(queue: &Queue, status: ffi::vram_status) -> Result<()> {
    if status == ffi::VRAM_OK {
        return Ok(());
    }
    let error = Error::from_status(status);
    if !is_over(queue, status) {
        eprintln!("vram: the driver neither completes a copy nor reports its end: {error}");
        std::process::abort(); // to return would let the device write memory that is somebody else's by then
    }
    Err(error)
}
