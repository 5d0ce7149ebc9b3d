// SPDX-License-Identifier: Apache-2.0
//! What concerns the whole process: version, options, log.

use std::ffi::CStr;
use std::os::raw::{c_char, c_void};

use crate::error::{c_option, c_text, check, contained, made, pointer_of, text_of};
use crate::ffi;
use crate::Result;

/// The version of the library that is loaded: "0.1.0", "0.1.0rc1".
pub fn version() -> &'static str {
    // SAFETY: static storage.
    unsafe { CStr::from_ptr(ffi::vram_version_text()) }.to_str().unwrap_or("")
}

/// Reads a size as the options do: "64K", "1.5GiB", "2 MB".
pub fn parse_size(text: &str) -> Result<u64> {
    let text = c_text(text)?;
    // SAFETY: the text outlives the call.
    made(0, |bytes| unsafe { ffi::vram_size_parse(text.as_ptr(), bytes) })
}

/// Sets an option of the process, as `VRAM_<NAME>` in the environment does; None restores what that says. Contexts read
/// options when they are created.
pub fn set_option(name: &str, value: Option<&str>) -> Result<()> {
    let (name, value) = (c_text(name)?, c_option(value)?);
    // SAFETY: the texts outlive the call.
    check(unsafe { ffi::vram_option_set(name.as_ptr(), pointer_of(&value)) })
}

/// Host memory that the library's bookkeeping takes now, in bytes.
pub fn host_bytes() -> u64 {
    // SAFETY: no arguments.
    unsafe { ffi::vram_host_bytes() }
}

/// How much is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Failures that no caller sees.
    Error,
    /// And what is suspicious.
    Warn,
    /// And what happens rarely.
    Info,
    /// And every allocation of tracked pools.
    Debug,
}

type LogCall = Box<dyn Fn(LogLevel, &str) + Send + Sync>;

/// Sends messages up to `level` to `log`, on the thread that logs. A panic in it goes no further.
///
/// The closure is kept for the rest of the process: another thread may still be calling a former one.
pub fn on_log<F>(level: LogLevel, log: F)
where
    F: Fn(LogLevel, &str) + Send + Sync + 'static,
{
    let call: LogCall = Box::new(log);
    let user = Box::into_raw(Box::new(call));
    let level = match level {
        LogLevel::Error => ffi::VRAM_LOG_ERROR,
        LogLevel::Warn => ffi::VRAM_LOG_WARN,
        LogLevel::Info => ffi::VRAM_LOG_INFO,
        LogLevel::Debug => ffi::VRAM_LOG_DEBUG,
    };
    // SAFETY: the closure lives for ever.
    unsafe { ffi::vram_log_set(Some(call_log), user.cast(), level) };
}

unsafe extern "C" fn call_log(user: *mut c_void, level: ffi::vram_log_level, text: *const c_char) {
    let level = match level {
        ffi::VRAM_LOG_ERROR => LogLevel::Error,
        ffi::VRAM_LOG_WARN => LogLevel::Warn,
        ffi::VRAM_LOG_INFO => LogLevel::Info,
        _ => LogLevel::Debug,
    };
    contained(|| {
        let call = &*user.cast::<LogCall>();
        call(level, &text_of(text));
    });
}
