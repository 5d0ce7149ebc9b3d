// SPDX-License-Identifier: Apache-2.0
//! What can go wrong.

use std::ffi::{CStr, CString};
use std::fmt;
use std::mem::{forget, size_of, zeroed};
use std::os::raw::c_char;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::ffi;

/// The result of every call that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// What the library says of a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detail {
    /// One line: what failed and what to do.
    pub text: String,
    /// The call that failed, of the driver or of libvram.
    pub operation: String,
    /// "cuda", "host", ...; empty if no backend was involved.
    pub backend: String,
    /// The code of the driver or the system; 0 if there is none.
    pub native_code: i64,
}

macro_rules! errors {
    ($($(#[$doc:meta])* $name:ident = $status:ident,)*) => {
        /// Why a call failed: one variant per status of the C API, each with its [`Detail`].
        ///
        /// The first four after `Stale` are exhaustion of some kind: [`Error::is_exhausted`] is the test for programs
        /// that reduce their batch and try again.
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Error {
            $($(#[$doc])* $name(Box<Detail>),)*
            /// A status that this version of the crate does not know.
            Unknown(i32, Box<Detail>),
        }

        impl Error {
            fn of(status: ffi::vram_status, detail: Detail) -> Error {
                let detail = Box::new(detail);
                match status {
                    $(ffi::$status => Error::$name(detail),)*
                    _ => Error::Unknown(status, detail),
                }
            }

            /// The status of the C API, `VRAM_ERR_LIMIT` for example.
            pub fn status(&self) -> i32 {
                match self {
                    $(Error::$name(_) => ffi::$status,)*
                    Error::Unknown(status, _) => *status,
                }
            }

            /// What the library said.
            pub fn detail(&self) -> &Detail {
                match self {
                    $(Error::$name(detail) => detail,)*
                    Error::Unknown(_, detail) => detail,
                }
            }
        }
    };
}

errors! {
    /// An argument is not valid.
    Invalid = VRAM_ERR_INVALID,
    /// A size or address does not fit in 64 bits.
    Overflow = VRAM_ERR_OVERFLOW,
    /// The object was destroyed.
    Stale = VRAM_ERR_STALE,
    /// Out of host memory.
    HostMemory = VRAM_ERR_HOST_MEMORY,
    /// Out of device memory.
    DeviceMemory = VRAM_ERR_DEVICE_MEMORY,
    /// A limit set by the user or the system was reached.
    Limit = VRAM_ERR_LIMIT,
    /// Memory is free, but no run of addresses is long enough.
    Fragmented = VRAM_ERR_FRAGMENTED,
    /// The device or backend cannot do this.
    Unsupported = VRAM_ERR_UNSUPPORTED,
    /// The driver is missing or unusable.
    NoDriver = VRAM_ERR_NO_DRIVER,
    /// No such device.
    NoDevice = VRAM_ERR_NO_DEVICE,
    /// The device was lost; its memory and queues are gone.
    DeviceLost = VRAM_ERR_DEVICE_LOST,
    /// The object is in use.
    Busy = VRAM_ERR_BUSY,
    /// The queue is being captured into a graph.
    Capture = VRAM_ERR_CAPTURE,
    /// Not finished yet.
    NotReady = VRAM_ERR_NOT_READY,
    /// The deadline passed.
    Timeout = VRAM_ERR_TIMEOUT,
    /// The process forked; the child must create its own context.
    Forked = VRAM_ERR_FORKED,
    /// The process is exiting or the object is being destroyed.
    Shutdown = VRAM_ERR_SHUTDOWN,
    /// Data or a driver's answer makes no sense.
    Corrupt = VRAM_ERR_CORRUPT,
    /// An operating system call failed.
    Io = VRAM_ERR_IO,
    /// The driver reported an error.
    Backend = VRAM_ERR_BACKEND,
}

impl Error {
    /// Whether something ran out: host memory, device memory, a limit, or contiguous memory.
    pub fn is_exhausted(&self) -> bool {
        // SAFETY: takes any number.
        unsafe { ffi::vram_status_is_exhausted(self.status()) }
    }

    /// The name of the status, "VRAM_ERR_LIMIT".
    pub fn name(&self) -> &'static str {
        // SAFETY: the text has static storage and is ASCII.
        unsafe { CStr::from_ptr(ffi::vram_status_name(self.status())) }
            .to_str()
            .unwrap_or("VRAM_ERR_UNKNOWN")
    }

    /// The error of a status that a call on this thread has just returned.
    pub(crate) fn from_status(status: ffi::vram_status) -> Error {
        // SAFETY: the record is the thread's own and never NULL; its texts have static storage.
        let record = unsafe { &*ffi::vram_error_get() };
        if record.status == status {
            return Error::of_record(record);
        }
        // SAFETY: static storage.
        Error::of(status, Detail::plain(unsafe { text_of(ffi::vram_status_text(status)) }))
    }

    /// The error of a record of the library, whose texts have static storage.
    pub(crate) fn of_record(record: &ffi::vram_error) -> Error {
        let detail = Detail {
            text: array_text(&record.text),
            operation: unsafe { text_of(record.operation) }, // SAFETY: static storage
            backend: unsafe { text_of(record.backend) },     // SAFETY: static storage
            native_code: record.native_code,
        };
        Error::of(record.status, detail)
    }

    /// What somebody else uses, as the crate itself found.
    pub(crate) fn busy(text: impl Into<String>) -> Error {
        Error::Busy(Box::new(Detail::plain(text.into())))
    }

    /// Data that makes no sense, as the crate itself found.
    pub(crate) fn corrupt(text: impl Into<String>) -> Error {
        Error::Corrupt(Box::new(Detail::plain(text.into())))
    }

    /// A mistake of the caller that the crate itself found.
    pub(crate) fn invalid(text: impl Into<String>) -> Error {
        Error::Invalid(Box::new(Detail::plain(text.into())))
    }
}

impl Detail {
    fn plain(text: String) -> Detail {
        Detail { text, operation: String::new(), backend: String::new(), native_code: 0 }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail().text)
    }
}

impl std::error::Error for Error {}

// ------------------------------------------------------------------- helpers of all modules

/// Of memory that the crate itself asks the system for.
pub(crate) fn host_memory(bytes: usize) -> Error {
    Error::HostMemory(Box::new(Detail::plain(format!("no host memory for {bytes} bytes"))))
}

pub(crate) fn check(status: ffi::vram_status) -> Result<()> {
    match status {
        ffi::VRAM_OK => Ok(()),
        failed => Err(Error::from_status(failed)),
    }
}

/// Calls a function with an out-parameter, which is written on success.
pub(crate) fn made<T>(start: T, call: impl FnOnce(*mut T) -> ffi::vram_status) -> Result<T> {
    let mut value = start;
    check(call(&mut value))?;
    Ok(value)
}

/// A struct with its size set and all else 0.
pub(crate) fn sized<T: ffi::Record>() -> T {
    // SAFETY: Record promises both.
    unsafe {
        let mut record: T = zeroed();
        *(&mut record as *mut T).cast::<usize>() = size_of::<T>();
        record
    }
}

/// # Safety
/// `text` is NULL or a string that lives until the call returns.
pub(crate) unsafe fn text_of(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    CStr::from_ptr(text).to_string_lossy().into_owned()
}

pub(crate) fn array_text(text: &[c_char]) -> String {
    let bytes: Vec<u8> = text.iter().take_while(|&&c| c != 0).map(|&c| c as u8).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A text for C; one with a 0 in it is the caller's mistake.
pub(crate) fn c_text(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::invalid(format!("a 0 in the text {text:?}")))
}

/// The same for one that may be missing.
pub(crate) fn c_option(text: Option<&str>) -> Result<Option<CString>> {
    text.map(c_text).transpose()
}

pub(crate) fn pointer_of(text: &Option<CString>) -> *const c_char {
    text.as_ref().map_or(std::ptr::null(), |text| text.as_ptr())
}

/// A timeout for C: the special values of vram/queue.h lie at the end of the range.
pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).min(ffi::VRAM_TIMEOUT_DEFAULT - 1)
}

pub(crate) fn known(value: ffi::vram_value) -> Option<u64> {
    if value.known {
        Some(value.value)
    } else {
        None
    }
}

/// Calls a closure of the program on behalf of the library; None: it panicked. The panic ends here, and so does one of
/// the destructor of its payload: what that throws in turn is leaked, because its destructor may do the same.
pub(crate) fn contained<R>(call: impl FnOnce() -> R) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(value) => Some(value),
        Err(payload) => {
            if let Err(thrown) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
                forget(thrown);
            }
            None
        }
    }
}

/// The contents of a lock, whatever panicked under it: no code of the program runs there.
pub(crate) fn locked<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes the pieces of a report.
pub(crate) unsafe extern "C" fn collect(
    user: *mut std::os::raw::c_void,
    text: *const c_char,
    bytes: usize,
) -> bool {
    // SAFETY: `user` is the vector that `written` has on its stack; the library calls on its thread.
    let all = &mut *user.cast::<Vec<u8>>();
    if all.try_reserve(bytes).is_err() {
        return false;
    }
    all.extend_from_slice(std::slice::from_raw_parts(text.cast::<u8>(), bytes));
    true
}

/// The text of a report: `call` is vram_X_write with its last two arguments left open.
pub(crate) fn written(
    call: impl FnOnce(Option<ffi::vram_write_fn>, *mut std::os::raw::c_void) -> ffi::vram_status,
) -> Result<String> {
    let mut all: Vec<u8> = Vec::new();
    check(call(Some(collect), (&mut all as *mut Vec<u8>).cast()))?;
    Ok(String::from_utf8_lossy(&all).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_of_the_library_has_a_variant() {
        let mut found = 0;
        for status in -400..0 {
            let name = unsafe { text_of(ffi::vram_status_name(status)) };
            let error = Error::of(status, Detail::plain(String::new()));
            assert_eq!(matches!(error, Error::Unknown(..)), name == "VRAM_ERR_UNKNOWN", "{status}");
            assert_eq!(error.status(), status);
            found += usize::from(!matches!(error, Error::Unknown(..)));
        }
        assert_eq!(found, 20);
    }

    #[test]
    fn the_record_of_another_failure_is_not_used() {
        let failed = unsafe { ffi::vram_size_parse(b"-1\0".as_ptr().cast(), &mut 0) };
        assert!(Error::from_status(failed).detail().operation.contains("vram_size_parse"));
        let other = Error::from_status(ffi::VRAM_ERR_NOT_READY);
        assert_eq!(other.to_string(), "not finished yet");
        assert_eq!(other.name(), "VRAM_ERR_NOT_READY");
        assert!(other.detail().operation.is_empty() && !other.is_exhausted());
    }

    #[test]
    fn times_do_not_reach_the_special_values() {
        assert_eq!(nanoseconds(Duration::MAX), u64::MAX - 2);
        assert_eq!(nanoseconds(Duration::from_micros(3)), 3000);
    }
}
