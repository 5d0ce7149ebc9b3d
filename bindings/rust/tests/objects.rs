// SPDX-License-Identifier: Apache-2.0
//! Objects, their memory and their ends, on the host and on simulated devices.

mod world;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use vram::*;
use world::{everywhere, world};

const LONG: Duration = Duration::from_secs(60);

/// What may be shared by threads, and what may only move to another; the documentation shows what may not.
#[test]
fn threads_may_have_every_object() {
    fn shared<T: Send + Sync>() {}
    fn sent<T: Send>() {}
    shared::<(Context, Device, Queue, Point, Pool, Kernel)>();
    shared::<(Buffer, Batch, Scope<'_>, ScopeBlock<'_, '_>, Block<'_>, Mapping<'_, f32>)>();
    shared::<(AsyncResult<Vec<u8>>, OutOfMemoryCallback, Error, Limits)>();
    sent::<(Ring, Sender<'_>, Receiver<'_>)>();
    assert!(std::mem::size_of::<Result<()>>() <= 16, "an error is a pointer");
}

#[test]
fn a_buffer_keeps_what_it_was_given() {
    everywhere(|w| {
        for kind in [
            BufferKind::Device,
            BufferKind::Pinned,
            BufferKind::Managed,
            BufferKind::Mapped,
            BufferKind::Fallback,
        ] {
            let options = BufferOptions {
                kind,
                precision: Precision::Fp32,
                name: Some("numbers"),
                tag: Some("tests/buffer"),
                ..BufferOptions::default()
            };
            let mut buffer = w.pool.buffer_with(&w.queue, 4000, &options).expect("a buffer");
            let data: Vec<f32> = (0..1000).map(|i| i as f32).collect();
            buffer.upload(&data).expect("upload");
            assert_eq!(buffer.download::<f32>().expect("download"), data, "{kind:?}");
            buffer.upload(&[-1.0f32; 10]).expect("a part");
            let mut part = [0f32; 20];
            buffer.download_into(&mut part).expect("a part");
            assert_eq!((part[9], part[10]), (-1.0, 10.0));

            let upload = buffer.upload_async(data.clone()).expect("async upload");
            let download = buffer.download_async::<f32>().expect("async download");
            assert_eq!(download.wait().expect("wait"), upload.wait().expect("wait"));

            {
                let mut mapped = buffer.map::<f32>().expect("map");
                assert_eq!(mapped[999], 999.0);
                mapped[999] = 7.5;
                mapped.unmap().expect("unmap");
            }
            assert_eq!(buffer.download::<f32>().expect("download")[999], 7.5);
            buffer.resize(8000).expect("grow");
            assert_eq!(buffer.download::<f32>().expect("download")[999], 7.5);
            let info = buffer.info().expect("info");
            assert_eq!((info.elements, info.kind, &info.name[..]), (2000, kind, "numbers"));
            assert_eq!(info.tag, "tests/buffer");
            buffer.fill(1).expect("fill");
            assert_eq!(buffer.map::<u8>().expect("map")[7999], 1);
        }
    });
}

#[test]
fn mistakes_are_errors() {
    everywhere(|w| {
        let mut buffer = w.pool.buffer(&w.queue, 10).expect("a buffer");
        assert!(matches!(buffer.upload(&[0u8; 11]), Err(Error::Invalid(_))));
        assert!(matches!(buffer.download::<u32>(), Err(Error::Invalid(_)))); // 10 bytes
        assert!(matches!(buffer.map::<[u8; 0]>(), Err(Error::Invalid(_))));
        assert!(matches!(buffer.upload_async(vec![0u8; 11]), Err(Error::Invalid(_))));
        assert!(matches!(
            w.pool.buffer(&w.queue, u64::MAX),
            Err(Error::Overflow(_) | Error::DeviceMemory(_) | Error::Limit(_))
        ));
        assert!(w.pool.alloc(&w.queue, 1 << 62).map(drop).expect_err("too much").is_exhausted());
        assert!(matches!(w.context.device(99), Err(Error::NoDevice(_))));
        let named = PoolOptions { name: Some("a\0b"), ..PoolOptions::default() };
        assert!(matches!(w.device.pool_with(&named), Err(Error::Invalid(_))));
        let fallback = BufferOptions { kind: BufferKind::Fallback, ..BufferOptions::default() };
        let fallback = w.pool.buffer_with(&w.queue, 10, &fallback).expect("a buffer");
        assert!(matches!(buffer.copy_from(&fallback), Err(Error::Invalid(_))));
        let captured = 3u8;
        let kernel = Kernel::of_host(&w.device, "captures", move |_| assert_eq!(captured, 3));
        assert!(matches!(kernel, Err(Error::Invalid(_))));
        let report = w.pool.out_of_memory_report(ReportFormat::Json).expect("a report");
        assert!(report.contains("vram.oom/1"));
    });
    assert!(Context::with(&ContextOptions { backends: Some("abacus"), sim: None }).is_err());
    assert!(matches!(parse_size("-1"), Err(Error::Invalid(_))));
    assert_eq!(parse_size("1.5GiB").expect("a size"), 3 << 29);
    assert!(set_option("no_such_option", Some("1")).is_err());
    assert_eq!(version(), env!("CARGO_PKG_VERSION").replace("-rc.", "rc"));
}

#[test]
fn objects_may_be_dropped_in_any_order() {
    for last in 0..4 {
        let w = world("host", "");
        let mut buffer = w.pool.buffer(&w.queue, 1 << 16).expect("a buffer");
        let upload = buffer.upload_async(vec![1u8; 1 << 16]).expect("an upload");
        let mut kept: Vec<Option<Box<dyn std::any::Any>>> = vec![
            Some(Box::new((w.context, w.device))),
            Some(Box::new((w.pool, w.queue))),
            Some(Box::new(buffer)),
            Some(Box::new(upload)),
        ];
        for at in (0..4).filter(|&at| at != last) {
            kept[at] = None;
        }
    }
}

#[test]
fn blocks_are_reused_and_resized() {
    everywhere(|w| {
        let mut block = w.pool.alloc(&w.queue, 1 << 20).expect("a block");
        let addr = block.addr();
        block.upload(&vec![3u8; 1 << 20]).expect("upload");
        assert!(block.upload_async(vec![4u16; 8]).expect("upload").wait().is_ok());
        assert_eq!(block.download::<u8>().expect("download")[15..17], [0, 3]);
        block.fill(9).expect("fill");
        assert_eq!(block.download::<u8>().expect("download")[12345], 9);
        block.resize(1000).expect("shrinking always succeeds");
        assert_eq!(block.bytes(), 1000);
        let other = w.device.queue().expect("a queue");
        block.used_on(&other).expect("used");
        drop(block);
        let again = w.pool.alloc(&w.queue, 1000).expect("a block");
        assert_ne!((again.addr(), addr), (0, 0));
        // SAFETY: the block is ours, and nothing uses it.
        assert_eq!(unsafe { ffi::vram_free(again.into_addr(), w.queue.raw()) }, ffi::VRAM_OK);
    });
}

/// Work that another queue gets after `used_on` and before the end counts, too. Contents decide.
#[test]
fn late_work_of_another_queue_is_waited_for() {
    let w = world("sim", "memory=64M,real=on,lag=1000");
    let other = w.device.queue().expect("a queue");
    for round in 0..2 {
        let block = w.pool.alloc(&w.queue, 1 << 20).expect("a block");
        let buffer = w.pool.buffer(&w.queue, 1 << 20).expect("a buffer");
        let addr = if round == 0 { block.addr() } else { buffer.addr().expect("an address") };
        block.used_on(&other).expect("used");
        buffer.used_on(&other).expect("used");
        w.queue.wait().expect("wait");
        other.wait().expect("wait");
        // SAFETY: the memory is live, and freed in the order of this queue as well.
        let late = unsafe { ffi::vram_queue_fill(other.raw(), addr, 0xDD, 1, 1 << 20) };
        assert_eq!(late, ffi::VRAM_OK);
        drop((block, buffer));
        let mut next: Vec<_> =
            (0..2).map(|_| w.pool.alloc(&w.queue, 1 << 20).expect("a block")).collect();
        next.iter_mut().for_each(|block| block.fill(0x11).expect("fill"));
        w.queue.wait().expect("wait");
        other.wait().expect("wait");
        for block in &next {
            assert!(block.download::<u8>().expect("download").iter().all(|byte| *byte == 0x11));
        }
    }
}

#[test]
fn a_batch_is_made_whole_or_not_at_all() {
    everywhere(|w| {
        let mut batch = w.pool.batch(&w.queue).expect("a batch");
        let first = [1.5f32; 64];
        let items = [
            BatchItem::new(64, Precision::Fp32).contents(&first).name("first"),
            BatchItem::new(32, Precision::Int8).kind(BufferKind::Pinned),
        ];
        assert_eq!(batch.add(&items).expect("both"), 0);
        let too_many =
            [BatchItem::new(8, Precision::Fp32), BatchItem::new(1 << 61, Precision::Int8)];
        assert!(batch.add(&too_many).is_err());
        assert!(batch.add(&[BatchItem::new(4, Precision::Fp32).contents(&[0u8; 3])]).is_err());
        assert_eq!((batch.len(), batch.is_empty()), (2, false));
        assert_eq!(batch.get(0).expect("lent").download::<f32>().expect("contents"), first);
        batch.upload(1, &[5u8; 32]).expect("upload");
        batch.map::<u8>(1).expect("map")[31] = 6;
        assert_eq!(batch.get(1).expect("lent").download::<u8>().expect("contents")[30..], [5, 6]);
        let given = w.pool.buffer(&w.queue, 100).expect("a buffer");
        assert_eq!(batch.give(given).expect("given"), 2);
        assert!(batch.get(3).is_err() && batch.shared_blocks().is_ok());
        let other = w.device.queue().expect("a queue");
        let foreign = w.pool.buffer(&other, 100).expect("a buffer");
        assert!(batch.give(foreign).is_err());
    });
}

#[test]
fn a_scope_frees_what_was_not_taken() {
    everywhere(|w| {
        let scope = w.pool.scope().expect("a scope");
        let kept;
        {
            let inner = scope.scope().expect("a scope in it");
            inner.alloc(&w.queue, 100).expect("a block");
            let taken = inner.alloc(&w.queue, 200).expect("a block");
            assert!(taken.addr() != 0 && taken.bytes() == 200);
            kept = taken.take(&w.pool).expect("taken");
            inner.end().expect("ended");
        }
        assert_eq!(scope.owned().expect("counts"), (0, 0, 0));
        let other = w.device.pool().expect("a pool");
        let mut block = scope.alloc(&w.queue, 10).expect("a block");
        block.upload(&[7u8; 10]).expect("upload");
        assert_eq!(block.download::<u8>().expect("download"), [7u8; 10]);
        assert!(block.take(&other).is_err());
        let lent = scope.buffer(&w.queue, 64, &BufferOptions::default()).expect("a buffer");
        assert_eq!(lent.bytes().expect("bytes"), 64);
        let mut buffer = scope.take(lent).expect("taken");
        buffer.upload(&[1u8; 64]).expect("upload");
        let lent = scope.give(buffer).expect("given");
        assert_eq!(lent.download::<u8>().expect("download"), [1u8; 64]);
        assert_eq!(scope.owned().expect("counts"), (1, 10, 1));
        drop(scope);
        assert_eq!(w.pool.stats().expect("counters").live_blocks, 1);
        assert_eq!(kept.bytes(), 200);
    });
}

#[test]
fn copies_wait_for_the_other_queue() {
    everywhere(|w| {
        let other = w.device.queue().expect("a queue");
        let mut from = w.pool.buffer(&other, 1 << 16).expect("a buffer");
        let mut to = w.pool.buffer(&w.queue, 1 << 16).expect("a buffer");
        for byte in 0..20u8 {
            from.fill(byte).expect("fill");
            to.copy_from(&from).expect("copy");
            assert_eq!(to.download::<u8>().expect("download"), vec![byte; 1 << 16]);
        }
        drop(from);
        let small = w.pool.buffer(&w.queue, 10).expect("a buffer");
        to.copy_from(&small).expect("a shorter one");
        assert!(w.pool.buffer(&w.queue, 1).expect("a buffer").copy_from(&small).is_err());
        let point = w.queue.mark().expect("a point");
        other.after(point).expect("after");
        point.wait_for(LONG).expect("passed");
        assert!(point.has_passed().expect("passed"));
        w.queue.wait_for(LONG).expect("idle");
        assert!(w.queue.is_idle().expect("idle"));
    });
}

#[test]
fn results_say_when_they_are_ready() {
    everywhere(|w| {
        let mut buffer = w.pool.buffer(&w.queue, 1 << 20).expect("a buffer");
        let called = Arc::new(AtomicU64::new(0));
        let result = buffer.upload_async(vec![1u8; 1 << 20]).expect("an upload");
        let (first, second) = (called.clone(), called.clone());
        result
            .on_ready(move |ended| {
                first.fetch_add(u64::from(ended.is_ok()), Ordering::SeqCst);
            })
            .expect("a callback");
        result
            .on_ready(move |_| {
                second.fetch_add(1, Ordering::SeqCst);
                panic!("of a callback")
            })
            .expect("another");
        assert!(result.wait_for(LONG).expect("ready") && result.is_ready());
        assert_eq!(result.state().expect("state"), AsyncState::Ready);
        assert_eq!(result.try_get().expect("ready").map(Vec::len), Some(1 << 20));
        assert_eq!(result.count().expect("ready"), Some(1 << 20));
        w.device.poll().expect("poll");
        assert_eq!(called.load(Ordering::SeqCst), 2);
        // Dropped while it may be pending: the memory is freed later, and the copy arrives.
        drop(buffer.upload_async(vec![2u8; 1 << 20]).expect("an upload"));
        drop(buffer.upload_async(Arc::<[u8]>::from(vec![3u8; 64])).expect("an upload"));
        drop(buffer.upload_async(vec![4u8; 32].into_boxed_slice()).expect("an upload"));
        drop(buffer.upload_async(&b"static"[..]).expect("an upload"));
        drop(buffer.download_async::<u8>().expect("a download"));
        let back = buffer.download::<u8>().expect("a download");
        assert_eq!((&back[..6], back[6], back[40], back[64]), (&b"static"[..], 4, 3, 2));
        let point = AsyncResult::of_point(&w.queue, w.queue.mark().expect("a point"));
        point.expect("a result").wait().expect("passed");
    });
}

fn add_one(call: &KernelCall<'_>) {
    // SAFETY: the launch has an address and a count.
    unsafe {
        let (at, count): (u64, u64) = (call.argument(0), call.argument(1));
        let group = u64::from(call.group()[0]);
        assert!(group < u64::from(call.groups()[0]) && call.group_size()[0] == 1);
        if group >= count {
            panic!("of a kernel");
        }
        *(at as *mut u32).add(group as usize) += 1;
    }
}

#[test]
fn kernels_in_rust_run_and_may_panic() {
    everywhere(|w| {
        let mut buffer = w.pool.buffer(&w.queue, 400).expect("a buffer");
        buffer.upload(&(0..100u32).collect::<Vec<_>>()).expect("upload");
        let kernel = Kernel::of_host(&w.device, "add_one", add_one).expect("a kernel");
        let launch = Launch::new([101, 1, 1], [1, 1, 1]);
        let launch = launch.address(buffer.addr().expect("address")).value(100u64);
        let before = Kernel::panics();
        // SAFETY: it stays inside the buffer, which lives until the wait.
        unsafe { w.queue.launch(&kernel, &launch).expect("a launch") };
        w.queue.wait().expect("done");
        assert_eq!(buffer.download::<u32>().expect("download"), (1..101).collect::<Vec<_>>());
        assert_eq!(Kernel::panics() - before, 1);
        // SAFETY: refused, because the address is nobody's.
        assert!(
            unsafe { w.queue.launch(&kernel, &Launch::new([1; 3], [1; 3]).address(8)) }.is_err()
        );
    });
}

#[test]
fn a_callback_frees_memory_when_it_runs_out() {
    everywhere(|w| {
        let limited = Limits::new().hard_bytes(64 << 20).cpu_fallback(false);
        w.pool.set_limits(&limited).expect("limits");
        assert_eq!(w.pool.limits().expect("limits").hard_bytes, Some(64 << 20));
        let cache =
            Arc::new(Mutex::new(Some(w.pool.buffer(&w.queue, 48 << 20).expect("a buffer"))));
        let held = cache.clone();
        let guard = w.device.on_out_of_memory(move |bytes| {
            assert!(bytes >= 40 << 20);
            held.lock().expect("a lock").take().map_or(0, |_| 48 << 20)
        });
        let guard = guard.expect("a guard");
        drop(w.pool.buffer(&w.queue, 40 << 20).expect("after the callback"));
        assert!(cache.lock().expect("a lock").is_none());
        drop(guard);
        let bad = w.device.on_out_of_memory(|_| panic!("of a callback")).expect("a guard");
        assert!(w.pool.buffer(&w.queue, 65 << 20).map(drop).expect_err("too much").is_exhausted());
        drop(bad);
        w.device.set_limits(&Limits::new().fraction(0.5).min_free_bytes(1)).expect("limits");
        assert!(w.pool.pressure().expect("pressure").level <= PressureLevel::Critical);
        assert!(w.device.pressure().is_ok() && w.device.trim().is_ok() && w.context.trim().is_ok());
    });
}

#[test]
fn threads_share_a_pool() {
    everywhere(|w| {
        thread::scope(|threads| {
            for number in 0..4u8 {
                threads.spawn(move || {
                    let queue = w.device.queue().expect("a queue");
                    for round in 0..50u64 {
                        let mut block = w.pool.alloc(&queue, 512 << (round % 6)).expect("a block");
                        block.fill(number).expect("fill");
                        assert!(block
                            .download::<u8>()
                            .expect("download")
                            .iter()
                            .all(|&b| b == number));
                    }
                });
            }
        });
        let stats = w.pool.stats().expect("counters");
        assert_eq!((stats.allocs, stats.frees), (200, 200));
        assert!(w.device.stats().expect("counters").allocs == 200 && w.context.stats().is_ok());
        assert!(w
            .pool
            .stats_report(ReportFormat::Json)
            .expect("a report")
            .contains("vram.stats/1"));
    });
}

#[test]
fn a_ring_has_two_ends() {
    everywhere(|w| {
        let strategy = if w.backend == "host" { RingStrategy::Direct } else { RingStrategy::Sync };
        let options = RingOptions {
            strategy,
            message_bytes: 16,
            input_capacity: 4,
            crc: true,
            ..RingOptions::default()
        };
        let mut ring = w.pool.ring(&options).expect("a ring");
        let (sender, receiver) = ring.split();
        thread::scope(|threads| {
            threads.spawn(move || {
                for number in 0..4u64 {
                    sender.send(&[number, 1], 0, LONG).expect("sent");
                }
                assert!(matches!(
                    sender.send(&[0u64; 2], 0, Duration::from_millis(1)),
                    Err(Error::Timeout(_))
                ));
                assert!(matches!(sender.send(&[0u64; 3], 0, LONG), Err(Error::Invalid(_))));
                // too long
            });
            threads.spawn(move || {
                assert_eq!(receiver.receive::<u64>(Duration::from_millis(1)).expect("empty"), None);
            });
        });
        assert_eq!(ring.stats().expect("counters").sent, 4);
        ring.flush().expect("flush");
        assert_eq!(ring.fetch().expect("fetch"), 0);
        let info = ring.info().expect("info");
        assert!(info.strategy == strategy && info.control != 0 && info.bytes > 768);
        assert!(ring.flush_async().is_err()); // no queue of the program's
        ring.stop().expect("stop");
        assert!(matches!(ring.send(&1u8, 0, LONG), Err(Error::Shutdown(_))));
        assert!(matches!(ring.join(Duration::from_millis(1)), Err(Error::Timeout(_))));
        drop(ring);
        let options = RingOptions {
            strategy: RingStrategy::Async,
            queue: Some(&w.queue),
            ..RingOptions::default()
        };
        let ring = w.pool.ring(&options).expect("a ring");
        ring.send(&7u64, 0, LONG).expect("sent");
        let flushed = ring.flush_async().expect("flush");
        assert!(flushed.wait_for(LONG).expect("arrived"));
        assert_eq!(flushed.count().expect("arrived"), Some(1));
        assert!(w.pool.ring(&RingOptions { input_capacity: 3, ..RingOptions::default() }).is_err());
    });
}

#[test]
fn tracked_pools_name_what_is_live() {
    everywhere(|w| {
        let tracked =
            PoolOptions { tracked: true, name: Some("tracked"), ..PoolOptions::default() };
        let pool = w.device.pool_with(&tracked).expect("a pool");
        let options = BufferOptions { tag: Some("layer/1"), ..BufferOptions::default() };
        let buffer = pool.buffer_with(&w.queue, 777, &options).expect("a buffer");
        let live = pool.live(Duration::ZERO).expect("live");
        assert_eq!((live.len(), live[0].bytes, &live[0].tag[..]), (1, 777, "layer/1"));
        assert!(pool.live(OLD).expect("old").is_empty());
        assert!(pool.leaks(ReportFormat::Text).expect("a report").contains("layer/1"));
        drop(buffer);
        assert!(pool.live(Duration::ZERO).expect("live").is_empty());
        pool.warm(&w.queue, 4096, 8).expect("warm");
        let kinds = [MemoryKind::Pinned, MemoryKind::Managed];
        for kind in kinds {
            let options = PoolOptions { kind, ..PoolOptions::default() };
            let pool = w.device.pool_with(&options).expect("a pool");
            let block = pool.alloc(&w.queue, 4096).expect("a block");
            assert_ne!(block.addr(), 0);
            let kind = match kind {
                MemoryKind::Pinned => BufferKind::Pinned,
                _ => BufferKind::Managed,
            };
            let options = BufferOptions { kind, ..BufferOptions::default() };
            let mut buffer = pool.buffer_with(&w.queue, 4096, &options).expect("a buffer");
            buffer.map::<u8>().expect("map").fill(3);
            assert_eq!(buffer.download::<u8>().expect("download"), [3u8; 4096]);
        }
    });
}

#[test]
fn growth_and_presets() {
    let growth = Growth { min_bytes: 4096, ..Growth::new(GrowthPolicy::FactorPpm(1_500_000)) };
    assert_eq!(growth.next(8192, 8193).expect("a size"), 12288);
    assert_eq!(Growth::new(GrowthPolicy::Exact).next(10, 11).expect("a size"), 11);
    assert!(Growth::new(GrowthPolicy::Steps(0)).next(10, 11).is_err());
    let inference = Limits::preset(Preset::Inference).expect("a preset");
    assert_eq!((inference.fraction, inference.tracking), (Some(0.95), Some(false)));
    everywhere(|w| {
        let mut buffer = w.pool.buffer(&w.queue, 100).expect("a buffer");
        buffer.set_growth(&growth).expect("a policy");
        buffer.reserve(5000).expect("more");
        buffer.fit().expect("less");
        assert!(buffer.info().expect("info").capacity_bytes >= 100);
        let kind = BufferOptions { kind: BufferKind::Fallback, ..BufferOptions::default() };
        let mut moving = w.pool.buffer_with(&w.queue, 64, &kind).expect("a buffer");
        moving.upload(&[5u8; 64]).expect("upload");
        moving.demote().expect("to the host");
        assert_ne!(moving.info().expect("info").location, MemoryKind::Device);
        moving.promote().expect("to the device");
        assert_eq!(moving.download::<u8>().expect("download"), [5u8; 64]);
    });
}

#[test]
fn the_log_reaches_a_closure() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let lines = seen.clone();
    on_log(LogLevel::Warn, move |level, text| {
        lines.lock().expect("a lock").push((level, text.to_string()));
        panic!("of a log");
    });
    let w = world("host", "");
    let leaked = w.pool.alloc(&w.queue, 100).expect("a block").into_addr(); // a leak is a warning
    assert_ne!(leaked, 0);
    drop(w);
    let seen = seen.lock().expect("a lock");
    assert!(
        seen.iter()
            .any(|(level, text)| *level == LogLevel::Warn && text.contains("was never freed")),
        "{seen:?}"
    );
}
