// SPDX-License-Identifier: Apache-2.0
//! Live blocks of tracked pools, and leaks.

use std::os::raw::c_void;
use std::ptr;
use std::time::Duration;

use crate::buffer::MemoryKind;
use crate::device::Device;
use crate::error::{array_text, check, contained, made, sized, text_of, written};
use crate::ffi;
use crate::pool::{LiveStats, Pool, ReportFormat};
use crate::queue::Queue;
use crate::Result;

/// What counts as old by default: 60 seconds.
pub const OLD: Duration = Duration::from_nanos(ffi::VRAM_LIVE_OLD_NS);

/// A live block of a tracked pool.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LiveBlock {
    /// Unique in the process, rising within a pool.
    pub id: u64,
    /// Its address.
    pub addr: u64,
    /// As asked for.
    pub bytes: u64,
    /// What it takes, after rounding.
    pub held_bytes: u64,
    /// As its options said; 0: nothing.
    pub elements: u64,
    /// How old it is.
    pub age: Duration,
    /// When it was allocated, on the library's monotonic clock.
    pub created_ns: u64,
    /// The thread that asked for it: the last 21 bits of the library's number for it.
    pub thread: u64,
    /// Who asked for it, for [`LiveBlock::stack_text`]; 0: no stack was taken.
    pub stack: u32,
    /// Who it is for; empty if nobody was named.
    pub tag: String,
    /// A label; empty if there is none.
    pub name: String,
    /// Where it lies.
    pub kind: MemoryKind,
    /// A record of [`crate::Device::track`], not a block.
    pub foreign: bool,
    pool: usize, // handles, to be compared
    queue: usize,
    device: usize,
}

impl LiveBlock {
    /// Whether it is a block of this pool.
    pub fn is_of(&self, pool: &Pool) -> bool {
        self.pool == pool.raw() as usize
    }

    /// Whether it was allocated on this queue.
    pub fn is_on(&self, queue: &Queue) -> bool {
        self.queue == queue.raw() as usize
    }

    /// Whether its pool, or its record, was made through this value of the device.
    pub fn is_at(&self, device: &Device) -> bool {
        self.device == device.raw() as usize
    }

    /// Its stack, a line for each frame; empty if none was taken.
    pub fn stack_text(&self) -> String {
        let mut text = vec![0u8; 4096];
        loop {
            // SAFETY: so many bytes may be written there.
            let bytes =
                unsafe { ffi::vram_stack_text(self.stack, text.as_mut_ptr().cast(), text.len()) };
            if bytes < text.len() {
                text.truncate(bytes);
                return String::from_utf8_lossy(&text).into_owned();
            }
            text.resize(bytes + 1, 0);
        }
    }
}

impl Pool {
    /// Live blocks that are at least that old, the oldest first. Empty for a pool that is not tracked
    /// ([`crate::PoolOptions::tracked`]).
    pub fn live(&self, older_than: Duration) -> Result<Vec<LiveBlock>> {
        visit(&self.query(older_than))
    }

    /// The sums of its live blocks.
    pub fn live_stats(&self) -> Result<LiveStats> {
        let query = self.query(Duration::ZERO);
        // SAFETY: the query outlives the call; an out-parameter of the right size.
        made(sized(), |stats| unsafe { ffi::vram_live_stats_get(&query, stats) }).map(LiveStats)
    }

    /// A report of live blocks as leaks, by tag and stack. Called at the end of a program, it names what was not freed.
    pub fn leaks(&self, format: ReportFormat) -> Result<String> {
        let query = self.query(Duration::ZERO);
        // SAFETY: the query outlives the call; no summary is wanted.
        written(|write, user| unsafe {
            ffi::vram_leaks_write(&query, format.raw(), write, user, ptr::null_mut())
        })
    }

    fn query(&self, older_than: Duration) -> ffi::vram_live_query {
        let mut query: ffi::vram_live_query = sized();
        query.pool = self.raw();
        query.older_ns = crate::error::nanoseconds(older_than);
        query.order = ffi::VRAM_LIVE_OLDEST;
        query
    }
}

impl Device {
    /// Live blocks of all its tracked pools, and records of foreign memory, that are at least that old.
    pub fn live(&self, older_than: Duration) -> Result<Vec<LiveBlock>> {
        let mut query: ffi::vram_live_query = sized();
        query.device = self.raw();
        query.older_ns = crate::error::nanoseconds(older_than);
        query.order = ffi::VRAM_LIVE_OLDEST;
        visit(&query)
    }
}

fn visit(query: &ffi::vram_live_query) -> Result<Vec<LiveBlock>> {
    let mut found: Vec<LiveBlock> = Vec::new();
    // SAFETY: `found` outlives the call, which calls back on this thread.
    check(unsafe {
        let user = (&mut found as *mut Vec<LiveBlock>).cast();
        ffi::vram_live_visit(query, Some(visit_block), user)
    })?;
    Ok(found)
}

unsafe extern "C" fn visit_block(user: *mut c_void, block: *const ffi::vram_live_block) -> bool {
    let block = &*block;
    let found = &mut *user.cast::<Vec<LiveBlock>>();
    contained(|| {
        found.push(LiveBlock {
            id: block.id,
            addr: block.addr,
            bytes: block.requested_bytes,
            held_bytes: block.held_bytes,
            elements: block.elements,
            age: Duration::from_nanos(block.age_ns),
            created_ns: block.created_ns,
            thread: block.thread,
            stack: block.stack,
            tag: text_of(block.tag),
            name: array_text(&block.name),
            kind: MemoryKind::of(block.kind),
            foreign: block.foreign,
            pool: block.pool as usize,
            queue: block.queue as usize,
            device: block.device as usize,
        });
    })
    .is_some()
}
