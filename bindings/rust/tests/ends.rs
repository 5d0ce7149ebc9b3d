// SPDX-License-Identifier: Apache-2.0
//! Work that goes on by itself: results that are awaited, and kernels at the other end of a ring.

mod world;

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use vram::*;
use world::{everywhere, world};

const LONG: Duration = Duration::from_secs(60);

/// The least executor: the thread sleeps until it is woken.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future: Pin<Box<F>> = Box::pin(future);
    loop {
        match future.as_mut().poll(&mut TaskContext::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

#[test]
fn results_are_futures() {
    everywhere(|w| {
        let mut buffer = w.pool.buffer(&w.queue, 1 << 20).expect("a buffer");
        let streams = w.device.streams().expect("streams");
        let readback = w.device.readback(&ReadbackOptions::default()).expect("a readback");
        block_on(async {
            for round in 0..10u8 {
                let sent = buffer.upload_async(vec![round; 1 << 20])?;
                let back = buffer.download_async::<u8>()?;
                assert_eq!(back.await?, sent.await?);
                streams.sync()?.await?;
                let frame = readback.start(&[&buffer])?;
                readback.arrival(frame)?.await?;
                assert_eq!(readback.latest()?.expect("it has arrived")[0], round);
            }
            Result::Ok(())
        })
        .expect("every copy arrives");
    });
}

/// The result of work that ends when the flag is set.
fn held(w: &world::World) -> (Arc<AtomicBool>, AsyncResult<()>) {
    static GO: AtomicBool = AtomicBool::new(false);
    let go = Arc::new(AtomicBool::new(false));
    let (opened, queue) = (go.clone(), w.device.queue().expect("a queue"));
    GO.store(false, Ordering::SeqCst);
    thread::spawn(move || {
        while !opened.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        GO.store(true, Ordering::SeqCst);
    });
    let wait = |_: &KernelCall<'_>| {
        while !GO.load(Ordering::SeqCst) {
            thread::yield_now();
        }
    };
    let kernel = Kernel::of_host(&w.device, "wait", wait).expect("a kernel");
    // SAFETY: it has no arguments and touches no memory; the callback keeps it until it has ended.
    unsafe { queue.launch(&kernel, &Launch::new([1; 3], [1; 3])).expect("launched") };
    let result = AsyncResult::of_point(&queue, queue.mark().expect("a point")).expect("a result");
    result.on_ready(move |_| drop(kernel)).expect("a callback");
    (go, result)
}

#[test]
fn whoever_asked_last_is_woken_once() {
    struct Count(AtomicU64);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let w = world("host", ""); // kernels run on a thread of their queue
    let (go, mut result) = held(&w);
    let counts: Vec<_> = (0..2).map(|_| Arc::new(Count(AtomicU64::new(0)))).collect();
    for count in &counts {
        let waker = Waker::from(count.clone());
        let polled = Pin::new(&mut result).poll(&mut TaskContext::from_waker(&waker));
        assert!(polled.is_pending());
    }
    go.store(true, Ordering::SeqCst);
    while counts[1].0.load(Ordering::SeqCst) == 0 {
        thread::yield_now(); // nobody polls: a thread of the library does
    }
    assert!(result.is_ready());
    block_on(&mut result).expect("complete");
    let again = block_on(&mut result);
    assert!(matches!(again, Err(Error::Invalid(_))), "{again:?}");
    assert!(matches!(result.try_get(), Err(Error::Invalid(_))));
    assert!(matches!(result.into_inner(), Err(Error::Invalid(_))));
    assert_eq!(counts[0].0.load(Ordering::SeqCst), 0);
    assert_eq!(counts[1].0.load(Ordering::SeqCst), 1);
}

/// A future that is dropped while a thread of the library waits for it: nothing of it is used afterwards.
#[test]
fn futures_may_be_dropped() {
    for _ in 0..20 {
        let w = world("sim", "memory=64M,real=on,lag=200");
        let mut buffer = w.pool.buffer(&w.queue, 1 << 20).expect("a buffer");
        let mut upload = buffer.upload_async(vec![1u8; 1 << 20]).expect("an upload");
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let _ = Pin::new(&mut upload).poll(&mut TaskContext::from_waker(&waker));
        drop((upload, buffer, w));
    }
}

fn double(peer: &mut RingPeer<'_>) -> Result<()> {
    while peer.room() > 0 {
        match peer.receive::<u64>()? {
            Some((number, kind)) => assert!(peer.send(&(2 * number), kind + 1)?),
            None => break,
        };
    }
    Ok(())
}

fn small(strategy: RingStrategy, crc: bool) -> RingOptions<'static> {
    RingOptions {
        strategy,
        crc,
        input_capacity: 4,
        output_capacity: 4,
        message_bytes: 16,
        ..RingOptions::default()
    }
}

#[test]
fn a_kernel_answers_over_and_over() {
    everywhere(|w| {
        let kernel = RingKernel::new(&w.device, "double", double).expect("a kernel");
        for (strategy, crc) in [
            (RingStrategy::Sync, false),
            (RingStrategy::Sync, true),
            (RingStrategy::Async, true),
            (RingStrategy::DmaPolling, false),
            (RingStrategy::Auto, true),
        ] {
            let ring = w.pool.ring(&small(strategy, crc)).expect("a ring");
            for round in 0..10u64 {
                for at in 0..3 {
                    ring.send(&(round * 10 + at), 5, LONG).expect("sent");
                }
                ring.flush().expect("flushed");
                ring.launch(&kernel).expect("launched").wait_for(LONG).expect("ended");
                for at in 0..3 {
                    let answer = ring.receive::<u64>(LONG).expect("an answer");
                    assert_eq!(answer, Some((2 * (round * 10 + at), 6)), "{strategy:?}");
                }
            }
            ring.join(LONG).expect("the kernel has ended");
            let stats = ring.stats().expect("counters");
            assert_eq!((stats.received, stats.crc_errors, stats.kernel_errors), (30, 0, 0));
            assert_eq!(ring.telemetry().expect("told").messages_processed, 30);
        }
    });
}

#[test]
fn mistakes_of_kernels_are_counted() {
    everywhere(|w| {
        let ring = w.pool.ring(&small(RingStrategy::Sync, false)).expect("a ring");
        let errors = |expected| {
            ring.fetch().expect("asked");
            assert_eq!(ring.stats().expect("counters").kernel_errors, expected);
        };
        // A message of another size is gone, and an error of that launch.
        ring.send(&1u32, 0, LONG).expect("sent");
        ring.send(&2u64, 0, LONG).expect("sent");
        ring.flush().expect("flushed");
        let kernel = RingKernel::new(&w.device, "double", double).expect("a kernel");
        ring.launch(&kernel).expect("launched").wait_for(LONG).expect("ended");
        errors(1);
        ring.launch(&kernel).expect("launched").wait_for(LONG).expect("ended");
        assert_eq!(ring.receive::<u64>(LONG).expect("an answer"), Some((4, 1)));
        // So are messages that are too large, and panics.
        let large = RingKernel::new(&w.device, "large", |peer: &mut RingPeer<'_>| {
            peer.send(&[0u8; 17], 0).map(drop)
        });
        let large = large.expect("a kernel");
        ring.launch(&large).expect("launched").wait_for(LONG).expect("ended");
        errors(2);
        let before = Kernel::panics();
        let panics = |_: &mut RingPeer<'_>| -> Result<()> { panic!("of a kernel") };
        let panics = RingKernel::new(&w.device, "panics", panics).expect("a kernel");
        ring.launch(&panics).expect("launched").wait_for(LONG).expect("ended");
        assert!(Kernel::panics() > before);
        errors(3);
        // A full ring says so.
        let fills = RingKernel::new(&w.device, "fills", |peer: &mut RingPeer<'_>| {
            while peer.send(&7u64, 0)? {}
            assert_eq!(peer.room(), 0);
            Ok(())
        });
        let fills = fills.expect("a kernel");
        ring.launch(&fills).expect("launched").wait_for(LONG).expect("ended");
        for _ in 0..4 {
            assert_eq!(ring.receive::<u64>(LONG).expect("a message"), Some((7, 0)));
        }
        assert_eq!(ring.receive::<u64>(Duration::ZERO).expect("none"), None);
        errors(3);
        let captured = 3u64;
        let captures = RingKernel::new(&w.device, "captures", move |peer: &mut RingPeer<'_>| {
            peer.send(&captured, 0).map(drop)
        });
        assert!(matches!(captures, Err(Error::Invalid(_))));
    });
}

/// Where the ring is live, a kernel runs beside the program until the ring is dropped.
#[test]
fn a_kernel_lives_beside_the_program() {
    static ENDED: AtomicU64 = AtomicU64::new(0);
    fn serve(peer: &mut RingPeer<'_>) -> Result<()> {
        while !peer.is_stopping() {
            double(peer)?;
            thread::yield_now();
        }
        ENDED.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
    let w = world("host", "");
    for (round, strategy) in [(0, RingStrategy::Direct), (1, RingStrategy::DmaPolling)] {
        let kernel = RingKernel::new(&w.device, "serve", serve).expect("a kernel");
        let mut ring = w.pool.ring(&small(strategy, true)).expect("a ring");
        assert!(ring.info().expect("info").live);
        let point = ring.launch(&kernel).expect("launched");
        drop(kernel); // the ring keeps it
        let (sender, receiver) = ring.split();
        thread::scope(|scope| {
            scope.spawn(move || {
                for number in 0..1000u64 {
                    sender.send(&number, 0, LONG).expect("sent");
                }
            });
            for number in 0..1000u64 {
                let answer = receiver.receive::<u64>(LONG).expect("an answer");
                assert_eq!(answer, Some((2 * number, 1)));
            }
        });
        assert!(!point.has_passed().expect("asked") && ENDED.load(Ordering::SeqCst) == round);
        drop(ring); // tells the kernel to end, and waits for it
        assert_eq!(ENDED.load(Ordering::SeqCst), round + 1, "{strategy:?}");
    }
}
