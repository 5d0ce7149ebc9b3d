// SPDX-License-Identifier: Apache-2.0
//! What a manager of memory is made of: named buffers, streams, readbacks, handlers of errors, providers, records.

mod world;

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::Duration;

use vram::*;
use world::{everywhere, world};

const LONG: Duration = Duration::from_secs(60);
const MIB: u64 = 1 << 20;

#[test]
fn threads_may_have_every_object() {
    fn shared<T: Send + Sync>() {}
    shared::<(Named, StreamSet, Readback, Frame, Memory, Foreign, RingKernel)>();
    shared::<Arc<dyn Provider>>();
}

#[test]
fn a_name_is_in_one_hand() {
    everywhere(|w| {
        let manager = w.pool.named(&w.queue, &NamedOptions::default()).expect("a manager");
        let config = NamedConfig { precision: Precision::Fp32, ..NamedConfig::default() };
        let mut buffer = manager.add("nodes", 1000, Some(&config)).expect("a buffer");
        buffer.upload(&[2.5f32; 1000]).expect("upload");
        for ended in [
            manager.get("nodes").map(drop),
            manager.get_or_create("nodes", 1, None).map(drop),
            manager.ensure("nodes", 2000),
            manager.remove("nodes"),
            manager.set_config("nodes", &config),
        ] {
            assert!(matches!(ended, Err(Error::Busy(_))), "{ended:?}");
        }
        // Nobody else takes it: it stays with its manager.
        let scope = w.pool.scope().expect("a scope");
        assert!(matches!(scope.give(buffer), Err(Error::Invalid(_))));
        let mut batch = w.pool.batch(&w.queue).expect("a batch");
        let buffer = manager.get("nodes").expect("given back");
        assert!(matches!(batch.give(buffer), Err(Error::Invalid(_))));

        manager.ensure("nodes", 200_000).expect("grown");
        assert!(matches!(manager.add("nodes", 1, None), Err(Error::Invalid(_))));
        assert!(matches!(manager.get("edges"), Err(Error::Invalid(_))));
        let mut buffer = manager.get_or_create("nodes", 1, None).expect("the same");
        assert_eq!(buffer.download::<f32>().expect("contents")[..1000], [2.5; 1000]);
        let info = manager.info("nodes").expect("info");
        assert_eq!((info.used_bytes, info.resizes, info.precision), (800_000, 1, Precision::Fp32));
        assert!(manager.report(ReportFormat::Json).expect("a report").contains("vram.named/1"));

        // Of what is empty, what nobody has in hand goes.
        drop(manager.add("empty", 0, None).expect("a buffer"));
        buffer.resize(0).expect("less");
        assert_eq!(manager.cleanup(LONG).expect("nothing is so old"), 0);
        manager.cleanup(Duration::ZERO).expect("cleaned");
        let names: Vec<_> = manager.infos().expect("all").into_iter().map(|at| at.name).collect();
        assert_eq!(names, ["nodes"]);
        let capacity = manager.info("nodes").expect("info").capacity_bytes;
        drop(buffer);
        assert_eq!(manager.cleanup(Duration::ZERO).expect("cleaned"), capacity);
        assert_eq!(manager.stats().expect("totals").buffers, 0);

        // A buffer in hand keeps its manager, and a mapping of it its memory.
        let mut last = manager.add("last", 64, None).expect("a buffer");
        let mut mapping = last.map::<u8>().expect("mapped");
        assert!(matches!(manager.remove("last"), Err(Error::Busy(_))));
        drop(manager);
        mapping.fill(9);
        mapping.unmap().expect("unmapped");
        assert_eq!(last.download::<u8>().expect("contents"), [9; 64]);
    });
}

#[test]
fn threads_grow_one_buffer_by_turns() {
    everywhere(|w| {
        let limit = NamedOptions { limit_bytes: 4 * MIB, ..NamedOptions::default() };
        let manager = w.pool.named(&w.queue, &limit).expect("a manager");
        let pattern: Vec<u8> = (0..100).collect();
        manager.add("nodes", 100, None).expect("a buffer").upload(&pattern).expect("upload");
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for i in 1..=100 {
                        manager.ensure("nodes", i * 100).expect("grown");
                    }
                });
            }
        });
        assert_eq!(manager.info("nodes").expect("info").used_bytes, 10_000);
        let back: Vec<u8> = manager.get("nodes").expect("it").download().expect("contents");
        assert_eq!(back[..100], pattern[..]);
        assert!(matches!(manager.ensure("nodes", 5 * MIB), Err(Error::Limit(_))));
    });
}

/// A callback of the program may use the manager whose call it serves; of the name in work it is told so.
#[test]
fn a_callback_may_use_its_manager() {
    everywhere(|w| {
        w.pool.set_limits(&Limits::new().hard_bytes(8 * MIB)).expect("a limit");
        let manager = w.pool.named(&w.queue, &NamedOptions::default()).expect("a manager");
        drop(manager.add("cache", 6 * MIB, None).expect("fits"));
        let seen = Arc::new(Mutex::new(None));
        let (evicting, told) = (manager.clone(), seen.clone());
        let guard = w.device.on_out_of_memory(move |_| {
            let busy = evicting.remove("nodes");
            *told.lock().expect("a lock") = Some(busy);
            evicting.remove("cache").map_or(0, |()| 6 * MIB)
        });
        let guard = guard.expect("a callback");
        manager.add("nodes", 6 * MIB, None).map(drop).expect("the cache makes room");
        drop(guard);
        let seen = seen.lock().expect("a lock").take().expect("it was called");
        assert!(matches!(seen, Err(Error::Busy(_))), "{seen:?}");
        assert!(manager.get("cache").is_err());
    });
}

#[test]
fn frames_show_one_moment_and_stay() {
    everywhere(|w| {
        for mode in [ReadbackMode::Snapshot, ReadbackMode::Hold] {
            let every = ReadbackOptions {
                mode,
                policy: ReadbackPolicy::Every,
                bytes: 8192,
                ..ReadbackOptions::default()
            };
            let readback = w.device.readback(&every).expect("a readback");
            assert!(readback.next(LONG).expect("none was started").is_none());
            assert!(readback.latest().expect("none has arrived").is_none());
            let mut one = w.pool.buffer(&w.queue, 4096).expect("a buffer");
            let pinned = BufferOptions { kind: BufferKind::Pinned, ..BufferOptions::default() };
            let mut other = w.pool.buffer_with(&w.queue, 4096, &pinned).expect("a buffer");
            let mut numbers = Vec::new();
            for step in 1..3u8 {
                one.fill(step).expect("fill");
                other.fill(step + 100).expect("fill");
                numbers.push(readback.start(&[&one, &other]).expect("a frame"));
            }
            assert_eq!(numbers, [1, 2]);
            one.fill(99).expect("fill");
            assert!(matches!(readback.start(&[&one]), Err(Error::Busy(_)))); // both slots
            drop((one, other));
            readback.wait_for(2, LONG).expect("arrived");
            assert!(readback.has_arrived(2).expect("arrived"));
            readback.arrival(2).expect("a result").wait().expect("arrived");
            let first = readback.next(LONG).expect("arrived").expect("a frame");
            let second = readback.next(LONG).expect("arrived").expect("a frame");
            assert_eq!((first.number(), second.number()), (1, 2));
            assert_ne!(first.slot(), second.slot());
            assert_eq!(readback.stats().expect("counters").arrived, 2);
            drop(readback); // frames keep it
            for (frame, step) in [(first, 1u8), (second, 2)] {
                assert!(frame[..4096].iter().all(|byte| *byte == step));
                assert!(frame[4096..].iter().all(|byte| *byte == step + 100));
                let words = frame.as_slice::<u32>().expect("whole and aligned");
                assert_eq!((words.len(), words[0]), (2048, u32::from_ne_bytes([step; 4])));
                assert!(frame.as_slice::<[u8; 4097]>().is_err());
            }
        }
    });
    let w = world("host", "");
    let readback = w.device.readback(&ReadbackOptions::default()).expect("a readback");
    let other = w.device.queue().expect("a queue");
    let (here, there) = (w.pool.buffer(&w.queue, 64), w.pool.buffer(&other, 64));
    let (here, there) = (here.expect("a buffer"), there.expect("a buffer"));
    assert!(matches!(readback.start(&[&here, &there]), Err(Error::Invalid(_))));
    assert!(matches!(readback.start(&[]), Err(Error::Invalid(_))));
    assert!(matches!(readback.has_arrived(1), Err(Error::Invalid(_))));
    let slots = ReadbackOptions { slots: 99, ..ReadbackOptions::default() };
    assert!(matches!(w.device.readback(&slots), Err(Error::Invalid(_))));
}

/// What a program forgets keeps what it has: nobody else gets it.
#[test]
fn what_is_forgotten_stays() {
    let w = world("host", "");
    let manager = w.pool.named(&w.queue, &NamedOptions::default()).expect("a manager");
    let mut buffer = manager.add("nodes", 64, None).expect("a buffer");
    buffer.fill(5).expect("fill");
    std::mem::forget(buffer.map::<u8>().expect("mapped"));
    assert!(matches!(buffer.map::<u8>(), Err(Error::Busy(_) | Error::Invalid(_))));
    drop(buffer);
    std::mem::forget(manager.get("nodes").expect("given back"));
    assert!(matches!(manager.remove("nodes"), Err(Error::Busy(_))));

    let mut source = w.pool.buffer(&w.queue, 4096).expect("a buffer");
    let readback = w.device.readback(&ReadbackOptions::default()).expect("a readback");
    let mut frames = Vec::new();
    for step in 1..3u8 {
        source.fill(step).expect("fill");
        let number = readback.start(&[&source]).expect("a frame");
        readback.wait_for(number, LONG).expect("arrived");
        frames.push(readback.latest().expect("arrived").expect("a frame"));
    }
    let kept: &'static [Frame] = Box::leak(frames.into_boxed_slice());
    source.fill(9).expect("fill");
    assert!(matches!(readback.start(&[&source]), Err(Error::Busy(_))));
    drop((readback, source, manager, w));
    assert!(kept[0].iter().all(|byte| *byte == 1) && kept[1].iter().all(|byte| *byte == 2));
}

#[test]
fn streams_are_queues_of_one_set() {
    everywhere(|w| {
        let streams = w.device.streams().expect("three");
        let names: Vec<_> =
            streams.infos().expect("three").into_iter().map(|info| info.name).collect();
        assert_eq!(names, ["compute", "memory", "analysis"]);
        let turn: Vec<_> = (0..6).map(|_| streams.next().expect("in turn").raw()).collect();
        assert_eq!(turn[..3], turn[3..]);
        assert_eq!(turn[..3].iter().collect::<HashSet<_>>().len(), 3);
        assert_eq!(streams.find("memory").expect("by name").raw(), turn[1]);
        assert!(streams.get(3).is_err() && streams.find("no such").is_err());

        // What is read on one stream comes after what another has written.
        let (compute, analysis) = (streams.get(COMPUTE), streams.get(ANALYSIS));
        let (compute, analysis) = (compute.expect("a stream"), analysis.expect("a stream"));
        let mut forces = w.pool.buffer(&compute, MIB).expect("a buffer");
        let mut copy = w.pool.buffer(&analysis, MIB).expect("a buffer");
        for step in 0..10u8 {
            forces.fill(step).expect("fill");
            streams.order(COMPUTE, ANALYSIS).expect("ordered");
            copy.copy_from(&forces).expect("copied");
            streams.barrier().expect("ordered");
            assert!(copy.download::<u8>().expect("contents").iter().all(|byte| *byte == step));
        }
        let transfer = streams.transfer().expect("one more");
        transfer.after(streams.mark().expect("a point")).expect("ordered");
        streams.after(transfer.mark().expect("a point")).expect("ordered");
        streams.sync().expect("a result").wait().expect("complete");
        streams.wait_for(LONG).expect("complete");
        assert!(streams.is_idle().expect("idle"));
        drop((streams, compute, analysis, transfer)); // the buffers' homes keep the set
        copy.fill(77).expect("fill");
        assert_eq!(copy.download::<u8>().expect("contents")[MIB as usize - 1], 77);
        let two = w.device.streams_with(&[("high", 1), ("low", -1)]).expect("two");
        assert_eq!(two.infos().expect("two")[0].priority, 1);
        assert!(w.device.streams_with(&[]).is_err());
        assert!(w.device.streams_with(&[("same", 0), ("same", 0)]).is_err());
    });
}

#[test]
fn a_handler_answers_errors() {
    everywhere(|w| {
        w.pool.set_limits(&Limits::new().hard_bytes(8 * MIB)).expect("a limit");
        let refused = || w.pool.alloc(&w.queue, 16 * MIB).map(drop);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let events = seen.clone();
        let handler = move |event: &ErrorEvent| {
            events.lock().expect("a lock").push(event.clone());
            ErrorAnswer::Fail
        };
        w.context.on_error(handler).expect("a handler");
        assert!(matches!(refused(), Err(Error::Limit(_))));
        {
            let seen = seen.lock().expect("a lock");
            assert_eq!((seen.len(), seen[0].bytes, seen[0].retries), (1, 16 * MIB, 0));
            assert!(matches!(&seen[0].error, Error::Limit(detail) if !detail.text.is_empty()));
        }

        // Retry, after what holds the memory was let go: here in the handler.
        let held = Mutex::new(Some(w.pool.buffer(&w.queue, 6 * MIB).expect("fits")));
        let held = Arc::new(held);
        let holder = held.clone();
        let retry = move |event: &ErrorEvent| {
            drop(holder.lock().expect("a lock").take());
            if event.retries == 0 {
                ErrorAnswer::Retry
            } else {
                ErrorAnswer::Fail
            }
        };
        w.context.on_error(retry).expect("a handler");
        w.pool.alloc(&w.queue, 6 * MIB).map(drop).expect("the second time");
        assert!(held.lock().expect("a lock").is_none());

        w.context.on_error(|_| ErrorAnswer::FallBack).expect("a handler");
        drop(w.pool.alloc(&w.queue, 16 * MIB).expect("in other memory"));
        assert_eq!(w.pool.stats().expect("counters").fallbacks, 1);

        w.context.on_error(|_| panic!("of a handler")).expect("a handler");
        assert!(matches!(refused(), Err(Error::Limit(_)))); // as if it had said Fail
        w.context.clear_error_handler().expect("none");
        assert!(refused().is_err());
        assert_eq!(seen.lock().expect("a lock").len(), 1);
    });
}

/// Counts what it gives, and misbehaves when told.
struct Own {
    device: Option<Device>, // None: host memory
    given: AtomicU64,
    mistake: AtomicU64,
    kept: Mutex<Vec<Memory>>,
}

impl Own {
    fn new(device: Option<&Device>) -> Arc<Own> {
        Arc::new(Own {
            device: device.cloned(),
            given: AtomicU64::new(0),
            mistake: AtomicU64::new(0),
            kept: Mutex::default(),
        })
    }
}

impl Provider for Own {
    fn allocate(&self, bytes: u64) -> Result<Memory> {
        let memory = match (self.mistake.load(Ordering::Relaxed), &self.device) {
            (1, _) => Memory::of_host(bytes / 2, self.granule()),
            (2, _) => {
                let mut low = Memory::of_host(4096, 4096)?;
                while low.addr() % self.granule() == 0 {
                    low = Memory::of_host(4096, 4096)?;
                }
                Ok(low)
            }
            (3, _) => panic!("of a provider"),
            (4, _) => parse_size("none").and(Memory::of_host(bytes, self.granule())),
            (_, Some(device)) => Memory::of_device(device, bytes, MemoryKind::Device),
            (_, None) => Memory::of_host(bytes, self.granule()),
        }?;
        self.given.fetch_add(memory.bytes(), Ordering::Relaxed);
        Ok(memory)
    }

    fn free(&self, memory: Memory) {
        self.given.fetch_sub(memory.bytes(), Ordering::Relaxed);
        self.kept.lock().expect("a lock").push(memory);
    }
}

#[test]
fn a_pool_stands_on_a_provider() {
    everywhere(|w| {
        for on_device in [true, false] {
            if !on_device && w.backend == "sim" {
                continue; // it has no other memory than its own
            }
            let own = Own::new(on_device.then_some(&w.device));
            let provider = Some(own.clone() as Arc<dyn Provider>);
            let options = PoolOptions { provider, ..PoolOptions::default() };
            let pool = w.device.pool_with(&options).expect("a pool");
            let mut buffer = pool.buffer(&w.queue, 3 * MIB).expect("a buffer");
            assert!(own.given.load(Ordering::Relaxed) >= 3 * MIB);
            buffer.upload(&vec![7u8; 3 << 20]).expect("upload");
            buffer.resize(5 * MIB).expect("grown");
            assert_eq!(buffer.download::<u8>().expect("contents")[..3 << 20], vec![7; 3 << 20]);
            for mistake in 1..5 {
                own.mistake.store(mistake, Ordering::Relaxed);
                assert!(pool.buffer(&w.queue, 64 * MIB).is_err(), "mistake {mistake}");
            }
            own.mistake.store(0, Ordering::Relaxed);
            pool.buffer(&w.queue, 64 * MIB).map(drop).expect("in order again");
            drop(pool);
            assert!(own.given.load(Ordering::Relaxed) >= 5 * MIB); // the buffer has the pool
            drop(buffer);
            assert_eq!(own.given.load(Ordering::Relaxed), 0);
            assert!(!own.kept.lock().expect("a lock").is_empty());
        }
        // Memory of another value of the device is refused: it may be closed before the pool.
        let again = w.context.device(0).expect("once more");
        let provider = Some(Own::new(Some(&again)) as Arc<dyn Provider>);
        let options = PoolOptions { provider, ..PoolOptions::default() };
        let pool = w.device.pool_with(&options).expect("a pool");
        assert!(matches!(pool.buffer(&w.queue, 4096), Err(Error::Invalid(_))));
    });
}

/// Page-locked memory of the driver, and what it says that it is.
struct Locked(Device, MemoryKind, AtomicU64);

impl Provider for Locked {
    fn allocate(&self, bytes: u64) -> Result<Memory> {
        self.2.fetch_add(bytes, Ordering::Relaxed);
        Memory::of_device(&self.0, bytes, MemoryKind::Pinned)
    }

    fn free(&self, memory: Memory) {
        self.2.fetch_sub(memory.bytes(), Ordering::Relaxed);
    }

    fn kind(&self) -> MemoryKind {
        self.1
    }

    fn granule(&self) -> u64 {
        4096
    }
}

#[test]
fn a_provider_says_what_it_serves() {
    everywhere(|w| {
        let own = |kind| Arc::new(Locked(w.device.clone(), kind, AtomicU64::new(0)));
        let locked = own(MemoryKind::Pinned);
        let provider = Some(locked.clone() as Arc<dyn Provider>);
        let serves = PoolOptions { provider: provider.clone(), ..PoolOptions::default() };
        let pool = w.device.pool_with(&serves).expect("a pool of page-locked memory");
        let mapped = BufferOptions { kind: BufferKind::Pinned, ..BufferOptions::default() };
        let mut buffer = pool.buffer_with(&w.queue, 1000, &mapped).expect("a buffer");
        buffer.map::<u8>().expect("the host's").fill(7);
        assert!(pool.buffer(&w.queue, 1000).is_err()); // no device memory
        drop((buffer, pool));
        assert_eq!(locked.2.load(Ordering::Relaxed), 0);
        // One buffer of a pool of device memory, which a scope may have too.
        let options = BufferOptions { provider: provider.clone(), ..BufferOptions::default() };
        let mut buffer = w.pool.buffer_with(&w.queue, 1000, &options).expect("a buffer");
        assert_eq!(buffer.info().expect("known").location, MemoryKind::Pinned);
        buffer.map::<u8>().expect("the host's").fill(7);
        assert_eq!(locked.2.load(Ordering::Relaxed), 4096);
        buffer.resize(100_000).expect("grown");
        assert_eq!(buffer.map::<u8>().expect("kept")[..1000], [7; 1000]);
        let scope = w.pool.scope().expect("a scope");
        scope.buffer(&w.queue, 1000, &options).map(drop).expect("a buffer");
        drop((scope, buffer));
        w.queue.wait().expect("idle");
        w.pool.trim().expect("trimmed");
        assert_eq!(locked.2.load(Ordering::Relaxed), 0);
        drop((serves, options, provider));
        assert_eq!(Arc::strong_count(&locked), 2); // here, and with the pool, once for all buffers
                                                   // What it gives is not what it says.
        for kind in [MemoryKind::Device, MemoryKind::Managed, MemoryKind::Host] {
            let provider = Some(own(kind) as Arc<dyn Provider>);
            let options = BufferOptions { provider, ..BufferOptions::default() };
            assert!(w.pool.buffer_with(&w.queue, 1000, &options).is_err(), "{kind:?}");
        }
    });
}

/// Ends its pool while another thread is inside `free`.
struct Slow {
    pool: Mutex<Option<Pool>>,
    given: AtomicU64,
    kept_alive: AtomicBool,
    own: Mutex<Weak<Slow>>,
}

impl Provider for Slow {
    fn allocate(&self, bytes: u64) -> Result<Memory> {
        self.given.fetch_add(1, Ordering::Relaxed);
        Memory::of_host(bytes, self.granule())
    }

    fn free(&self, _memory: Memory) {
        let pool = self.pool.lock().expect("a lock").take();
        if let Some(pool) = pool {
            let ended = std::thread::spawn(move || drop(pool)).join();
            assert!(ended.is_ok());
            // This memory, and the other segment's, are still with the pool, for the trim is inside it.
            let users = self.own.lock().expect("a lock").strong_count();
            self.kept_alive.store(users > 1, Ordering::Relaxed);
        }
        self.given.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn a_provider_lasts_as_long_as_what_it_gave() {
    let w = world("host", "");
    let slow = Arc::new(Slow {
        pool: Mutex::default(),
        given: AtomicU64::new(0),
        kept_alive: AtomicBool::new(false),
        own: Mutex::default(),
    });
    *slow.own.lock().expect("a lock") = Arc::downgrade(&slow);
    let options = PoolOptions { provider: Some(slow.clone()), ..PoolOptions::default() };
    let pool = w.device.pool_with(&options).expect("a pool");
    let buffers = [32, 48].map(|size| pool.buffer(&w.queue, size * MIB).expect("a segment"));
    drop(buffers);
    w.queue.wait().expect("idle"); // a trim leaves what work still has
    *slow.pool.lock().expect("a lock") = Some(pool);
    w.context.trim().expect("trimmed");
    assert!(slow.kept_alive.load(Ordering::Relaxed));
    assert_eq!(slow.given.load(Ordering::Relaxed), 0);
    drop(options);
    assert_eq!(Arc::strong_count(&slow), 1);
}

#[test]
fn memory_has_an_owner() {
    everywhere(|w| {
        let mut pinned = Memory::of_device(&w.device, 8192, MemoryKind::Pinned).expect("locked");
        pinned.as_mut_slice().expect("the host's").fill(3);
        assert_eq!(pinned.as_slice().expect("the host's"), [3; 8192]);
        assert_eq!((pinned.bytes(), pinned.kind()), (8192, MemoryKind::Pinned));
        let device = Memory::of_device(&w.device, 4096, MemoryKind::Device).expect("memory");
        assert!(device.as_slice().is_none() && device.addr() != 0);
        let host = Memory::of_host(4096, 4096).expect("memory");
        assert_eq!((host.as_slice().expect("zeros")[4095], host.addr() % 4096), (0, 0));
        for (bytes, alignment) in [(0, 4096), (4096, 0), (4096, 3), (u64::MAX, 4096)] {
            assert!(matches!(Memory::of_host(bytes, alignment), Err(Error::Invalid(_))));
        }
        assert!(Memory::of_device(&w.device, 0, MemoryKind::Device).is_err());
    });
}

#[test]
fn foreign_memory_has_records() {
    everywhere(|w| {
        let workspace = ForeignOptions {
            counts: true,
            tag: Some("cublas"),
            name: Some("ws"),
            elements: 12,
            ..ForeignOptions::default()
        };
        let record = w.device.track(3 * MIB, &workspace).expect("a record");
        let locked = ForeignOptions { kind: MemoryKind::Pinned, ..ForeignOptions::default() };
        let other = w.device.track(MIB, &locked).expect("a record");
        assert!(record.id() < other.id() && record.bytes() == 3 * MIB);
        let totals = w.device.foreign().expect("totals");
        assert_eq!((totals.count, totals.bytes, totals.counted_bytes), (2, 4 * MIB, 3 * MIB));
        let live = w.device.live(Duration::ZERO).expect("all");
        let mine: Vec<_> = live.iter().filter(|block| block.foreign).collect();
        assert!(mine.len() == 2 && mine[0].tag == "cublas" && mine[0].name == "ws");
        assert_eq!((mine[0].kind, mine[0].elements), (MemoryKind::Device, 12));
        assert_eq!((mine[1].kind, mine[1].elements), (MemoryKind::Pinned, 0));
        assert!(
            mine[0].is_at(&w.device) && !mine[0].is_of(&w.pool) && mine[0].stack_text().is_empty()
        );
        let counted = ForeignOptions { counts: true, ..locked };
        assert!(matches!(w.device.track(MIB, &counted), Err(Error::Invalid(_))));
        drop(record);
        assert_eq!(w.device.foreign().expect("totals").count, 1);
        assert!(matches!(w.device.track(0, &workspace), Err(Error::Invalid(_))));
    });
}

#[test]
fn blocks_have_options() {
    everywhere(|w| {
        let tracked = PoolOptions { tracked: true, ..PoolOptions::default() };
        let pool = w.device.pool_with(&tracked).expect("a pool");
        let options = AllocOptions {
            alignment: 4096,
            tag: Some("model/layer"),
            name: Some("scores"),
            elements: 250,
            ..AllocOptions::default()
        };
        let block = pool.alloc_with(&w.queue, 1000, &options).expect("a block");
        assert!(block.addr() % 4096 == 0 && block.held_bytes().expect("known") >= 1000);
        let live = pool.live(Duration::ZERO).expect("it");
        assert_eq!((&live[0].tag[..], &live[0].name[..]), ("model/layer", "scores"));
        assert_eq!((live[0].elements, live[0].kind), (250, MemoryKind::Device));
        assert_eq!(live[0].held_bytes, block.held_bytes().expect("known"));
        assert!(live[0].is_of(&pool) && live[0].is_on(&w.queue) && live[0].is_at(&w.device));
        assert!(!live[0].is_of(&w.pool) && live[0].thread != 0 && live[0].created_ns != 0);
        assert_eq!(live[0].stack != 0, live[0].stack_text().contains("blocks_have_options"));
        assert_eq!(pool.live_stats().expect("sums").live_bytes, 1000);
        let cached = AllocOptions { cached_only: true, ..AllocOptions::default() };
        let most = pool.alloc_with(&w.queue, 256 * MIB, &cached).map(drop);
        assert!(most.expect_err("nothing is there").is_exhausted());
    });
}
