// SPDX-License-Identifier: Apache-2.0
//! Buffers that are found by their names.
//!
//! (1) A name is in one hand at a time: while a [`Buffer`] of it is out, or a call works on it, nothing else of this
//!     module touches its buffer. So writing takes `&mut Buffer` here too, and no mapping outlives its memory.
//! (2) No lock is held while the library is called: it may call back, and the program's callbacks may use the manager.

use std::collections::HashMap;
use std::ptr;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use crate::buffer::{Buffer, BufferKind, Owner, Precision};
use crate::error::{
    array_text, c_option, c_text, check, locked, made, pointer_of, sized, written, Error,
};
use crate::ffi;
use crate::growth::Growth;
use crate::pool::{NamedStats, Pool, ReportFormat};
use crate::queue::Queue;
use crate::Result;

/// What a manager is. Empty: as much as its pool may hold, without a tag.
#[derive(Clone, Debug, Default)]
pub struct NamedOptions<'a> {
    /// The most that its buffers may have together; 0: the pool's limits alone.
    pub limit_bytes: u64,
    /// Who its memory is for.
    pub tag: Option<&'a str>,
}

/// What the buffer of some name is, and how it grows. Empty: bytes on the device, grown exactly to what is needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NamedConfig {
    /// What memory it is made of.
    pub kind: BufferKind,
    /// What an element is, unless the growth says how many bytes.
    pub precision: Precision,
    /// How it grows.
    pub growth: Option<Growth>,
}

impl NamedConfig {
    fn raw(&self) -> ffi::vram_named_config {
        let mut raw: ffi::vram_named_config = sized();
        raw.kind = self.kind.raw();
        raw.precision = self.precision.raw();
        if let Some(growth) = &self.growth {
            raw.growth = growth.raw();
        }
        raw
    }
}

/// Buffers by their names: at most one of each. Any thread may call.
///
/// A buffer is taken in hand by its name, and given back when the value is dropped: it stays in the manager.
///
/// ```
/// # fn main() -> vram::Result<()> {
/// # let context = vram::Context::with(&vram::ContextOptions { backends: Some("host"), ..Default::default() })?;
/// # let device = context.best_device()?;
/// # let (pool, queue) = (device.pool()?, device.queue()?);
/// use vram::{NamedConfig, NamedOptions, Precision};
/// let manager = pool.named(&queue, &NamedOptions::default())?;
/// let config = NamedConfig { precision: Precision::Fp32, ..NamedConfig::default() };
/// manager.add("positions", 1000, Some(&config))?.upload(&[1.5f32; 1000])?;
/// manager.ensure("positions", 2000)?; // grows if it has to; contents stay
/// let positions = manager.get("positions")?;
/// assert_eq!(positions.download::<f32>()?[..1000], [1.5; 1000]);
/// assert!(manager.remove("positions").is_err()); // it is in hand
/// drop(positions);
/// manager.remove("positions")?;
/// # Ok(()) }
/// ```
///
/// What is mapped stays in hand:
///
/// ```compile_fail,E0505
/// fn demo(manager: &vram::Named) -> vram::Result<()> {
///     let mut positions = manager.get("positions")?;
///     let mut mapped = positions.map::<f32>()?;
///     drop(positions); // anybody could end the buffer now
///     mapped[0] = 1.0;
///     Ok(())
/// }
/// ```
///
/// Clones are the same manager. It ends with all its buffers when the last clone is gone and none is in hand.
#[derive(Clone)]
pub struct Named(Arc<NamedInner>);

struct NamedInner {
    raw: *mut ffi::vram_named,
    hands: Mutex<HashMap<String, Hand>>,
    freed: Condvar, // a call has let go of a name
    queue: Queue,
    pool: Pool, // dropped after the manager was destroyed
}

/// In whose hand a name is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hand {
    /// A value is out.
    Value,
    /// This thread works on it, and will let go.
    Call(ThreadId),
    /// In nobody's, since then.
    Free(Instant),
}

// SAFETY: a handle is a checked number; any call may be made from any thread (vram/named.h).
unsafe impl Send for NamedInner {}
unsafe impl Sync for NamedInner {}

impl Drop for NamedInner {
    fn drop(&mut self) {
        // SAFETY: the handle is ours, and no buffer is in hand.
        unsafe { ffi::vram_named_destroy(self.raw) };
    }
}

/// A name in one hand, until this is dropped.
pub(crate) struct Held {
    manager: Arc<NamedInner>,
    name: String,
    forgotten: bool, // at the end: no buffer has the name, as far as this module knows
}

impl Held {
    /// Takes a name in hand, after calls of other threads that work on it.
    fn take(manager: &Arc<NamedInner>, name: &str) -> Result<Held> {
        let me = thread::current().id();
        let mut hands = locked(&manager.hands);
        loop {
            match hands.get(name) {
                None | Some(Hand::Free(_)) => break,
                Some(Hand::Call(other)) if *other != me => {
                    let waited = manager.freed.wait(hands);
                    hands = waited.unwrap_or_else(PoisonError::into_inner);
                }
                Some(_) => return Err(Error::busy(format!("the buffer {name:?} is in use"))),
            }
        }
        let forgotten = hands.insert(name.to_string(), Hand::Call(me)).is_none();
        Ok(Held { manager: manager.clone(), name: name.to_string(), forgotten })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut hands = locked(&self.manager.hands);
        let name = std::mem::take(&mut self.name);
        if self.forgotten {
            hands.remove(&name);
        } else {
            hands.insert(name, Hand::Free(Instant::now()));
        }
        self.manager.freed.notify_all();
    }
}

impl Named {
    pub(crate) fn create(pool: &Pool, queue: &Queue, options: &NamedOptions<'_>) -> Result<Named> {
        let tag = c_option(options.tag)?;
        let mut raw: ffi::vram_named_options = sized();
        raw.limit_bytes = options.limit_bytes;
        raw.tag = pointer_of(&tag);
        // SAFETY: valid handles; the options outlive the call.
        let raw = made(ptr::null_mut(), |out| unsafe {
            ffi::vram_named_create(pool.raw(), queue.raw(), &raw, out)
        })?;
        Ok(Named(Arc::new(NamedInner {
            raw,
            hands: Mutex::default(),
            freed: Condvar::new(),
            queue: queue.clone(),
            pool: pool.clone(),
        })))
    }

    /// The handle, for calls of [`ffi`] that the crate does not wrap. They must not touch a buffer that is in hand.
    pub fn raw(&self) -> *mut ffi::vram_named {
        self.0.raw
    }

    /// Sets what the buffer of a name is, before it is created; one that exists takes the growth.
    pub fn set_config(&self, name: &str, config: &NamedConfig) -> Result<()> {
        let (_held, text) = (Held::take(&self.0, name)?, c_text(name)?);
        // SAFETY: a valid handle; the arguments outlive the call.
        check(unsafe { ffi::vram_named_config_set(self.raw(), text.as_ptr(), &config.raw()) })
    }

    /// Creates the buffer of that name, with `elements` in use. Without a config, that of [`Named::set_config`].
    /// [`Error::Invalid`] if the name is taken.
    pub fn add(&self, name: &str, elements: u64, config: Option<&NamedConfig>) -> Result<Buffer> {
        self.in_hand(name, config, |name, config, out| unsafe {
            // SAFETY: a valid handle and an out-parameter; the arguments outlive the call.
            ffi::vram_named_add(self.raw(), name, elements, config, out)
        })
    }

    /// The buffer of that name. [`Error::Invalid`] if there is none, [`Error::Busy`] if it is in hand already.
    pub fn get(&self, name: &str) -> Result<Buffer> {
        self.in_hand(name, None, |name, config, out| unsafe {
            // SAFETY: as above.
            ffi::vram_named_get(self.raw(), name, config, out)
        })
    }

    /// The buffer of that name, whatever its size, or a new one.
    pub fn get_or_create(
        &self,
        name: &str,
        elements: u64,
        config: Option<&NamedConfig>,
    ) -> Result<Buffer> {
        self.in_hand(name, config, |name, config, out| unsafe {
            // SAFETY: as above.
            ffi::vram_named_get_or_create(self.raw(), name, elements, config, out)
        })
    }

    fn in_hand(
        &self,
        name: &str,
        config: Option<&NamedConfig>,
        call: impl FnOnce(
            *const std::os::raw::c_char,
            *const ffi::vram_named_config,
            *mut *mut ffi::vram_buffer,
        ) -> ffi::vram_status,
    ) -> Result<Buffer> {
        let (mut held, text) = (Held::take(&self.0, name)?, c_text(name)?);
        let config = config.map(NamedConfig::raw);
        let config = config.as_ref().map_or(ptr::null(), |config| config as *const _);
        let raw = made(ptr::null_mut(), |out| call(text.as_ptr(), config, out))?;
        held.forgotten = false;
        let mut info: ffi::vram_buffer_info = sized();
        // SAFETY: the buffer is the manager's, and in hand; an out-parameter of the right size.
        check(unsafe { ffi::vram_buffer_info_get(raw, &mut info) })?;
        if let Some(hand) = locked(&self.0.hands).get_mut(name) {
            *hand = Hand::Value;
        }
        self.0.freed.notify_all(); // those that wait learn that it takes longer
        let kind = BufferKind::of(info.kind);
        Ok(Buffer::of_raw(raw, kind, Owner::Name(held), &self.0.pool, &self.0.queue))
    }

    /// Makes room for `elements`, and has at least that many in use; contents stay. After a failure it is unchanged.
    /// Threads may grow the same buffer by turns; [`Error::Busy`] if it is in hand: [`Buffer::resize`] is for that.
    pub fn ensure(&self, name: &str, elements: u64) -> Result<()> {
        let (_held, text) = (Held::take(&self.0, name)?, c_text(name)?);
        // SAFETY: a valid handle; the text outlives the call; the buffer is not asked for.
        check(unsafe {
            ffi::vram_named_ensure(self.raw(), text.as_ptr(), elements, ptr::null_mut())
        })
    }

    /// Ends the buffer of that name; its config stays. [`Error::Busy`] if it is in hand.
    pub fn remove(&self, name: &str) -> Result<()> {
        self.end(Held::take(&self.0, name)?)
    }

    fn end(&self, mut held: Held) -> Result<()> {
        let text = c_text(&held.name)?;
        held.forgotten = true;
        // SAFETY: a valid handle; the text outlives the call.
        check(unsafe { ffi::vram_named_remove(self.raw(), text.as_ptr()) })
    }

    /// Ends every buffer of which nothing is in use (a resize to 0) and that no call has used for `idle`; how many
    /// bytes they had. Those in hand stay.
    pub fn cleanup(&self, idle: Duration) -> Result<u64> {
        let mut bytes = 0;
        for NamedInfo { name, used_bytes, .. } in self.infos()? {
            let idle_now = match locked(&self.0.hands).get(&name) {
                Some(Hand::Free(since)) => since.elapsed() >= idle,
                _ => false,
            };
            if used_bytes == 0 && idle_now {
                // From here on nobody uses it: it is looked at once more.
                if let (Ok(held), Ok(info)) = (Held::take(&self.0, &name), self.info(&name)) {
                    if info.used_bytes == 0 {
                        self.end(held)?;
                        bytes += info.capacity_bytes;
                    }
                }
            }
        }
        Ok(bytes)
    }

    /// What the buffer of that name is.
    pub fn info(&self, name: &str) -> Result<NamedInfo> {
        let text = c_text(name)?;
        // SAFETY: a valid handle, and an out-parameter of the right size; the text outlives the call.
        let raw = made(sized(), |info| unsafe {
            ffi::vram_named_info_get(self.raw(), text.as_ptr(), info)
        })?;
        Ok(NamedInfo::of(&raw))
    }

    /// What all its buffers are, in the order of their names.
    pub fn infos(&self) -> Result<Vec<NamedInfo>> {
        let mut infos = Vec::new();
        let mut raw: ffi::vram_named_info = sized();
        // SAFETY: a valid handle, and an out-parameter of the right size. Past the last one it is a mistake.
        while unsafe { ffi::vram_named_info_at(self.raw(), infos.len() as u32, &mut raw) }
            == ffi::VRAM_OK
        {
            infos.push(NamedInfo::of(&raw));
        }
        Ok(infos)
    }

    /// Its totals.
    pub fn stats(&self) -> Result<NamedStats> {
        // SAFETY: a valid handle, and an out-parameter of the right size.
        made(sized(), |stats| unsafe { ffi::vram_named_stats_get(self.raw(), stats) })
            .map(NamedStats)
    }

    /// Limit, totals and each buffer as a report.
    pub fn report(&self, format: ReportFormat) -> Result<String> {
        // SAFETY: a valid handle; `write` and `user` belong together.
        written(|write, user| unsafe {
            ffi::vram_named_write(self.raw(), format.raw(), write, user)
        })
    }
}

/// What is known of a named buffer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NamedInfo {
    /// Its name.
    pub name: String,
    /// What memory it is made of.
    pub kind: BufferKind,
    /// What an element is.
    pub precision: Precision,
    /// Bytes that fit without growing.
    pub capacity_bytes: u64,
    /// Bytes in use.
    pub used_bytes: u64,
    /// Share of the capacity that is in use, 0 to 1.
    pub utilisation: f64,
    /// Times that [`Named::ensure`] changed its capacity.
    pub resizes: u64,
    /// On the library's monotonic clock.
    pub created_ns: u64,
    /// When a call last used it.
    pub accessed_ns: u64,
}

impl NamedInfo {
    fn of(raw: &ffi::vram_named_info) -> NamedInfo {
        NamedInfo {
            name: array_text(&raw.name),
            kind: BufferKind::of(raw.kind),
            precision: Precision::of(raw.precision),
            capacity_bytes: raw.capacity_bytes,
            used_bytes: raw.used_bytes,
            utilisation: raw.utilisation,
            resizes: raw.resizes,
            created_ns: raw.created_ns,
            accessed_ns: raw.accessed_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Context, ContextOptions};

    #[test]
    fn names_without_a_buffer_are_not_kept() {
        let options = ContextOptions { backends: Some("host"), ..ContextOptions::default() };
        let device = Context::with(&options).expect("a context").device(0).expect("a device");
        let (pool, queue) = (device.pool().expect("a pool"), device.queue().expect("a queue"));
        let manager = pool.named(&queue, &NamedOptions::default()).expect("a manager");
        assert!(manager.get("none").is_err() && manager.ensure("none", 1).is_err());
        assert!(manager.remove("none").is_err());
        manager.set_config("later", &NamedConfig::default()).expect("a config");
        assert!(locked(&manager.0.hands).is_empty());
        drop(manager.add("one", 10, None).expect("a buffer"));
        drop(manager.get("one").expect("it"));
        assert_eq!(locked(&manager.0.hands).len(), 1);
        manager.remove("one").expect("gone");
        assert!(locked(&manager.0.hands).is_empty());
    }
}
