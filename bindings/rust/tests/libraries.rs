// SPDX-License-Identifier: Apache-2.0
//! What stands on libvram: products and distances, and the memory of models.
#![cfg(all(feature = "compute", feature = "model"))]

mod world;

use std::cell::Cell;
use std::panic::{catch_unwind, AssertUnwindSafe};

use vram::compute::{
    self, DistanceOptions, Factor, Labels, Metric, Nonfinite, Place, Scheduler, Shape,
};
use vram::model::{select, InferenceShape, Model};
use vram::*;
use world::everywhere;

#[test]
fn products_and_their_mistakes() {
    everywhere(|w| {
        let scheduler = Scheduler::on(&w.pool, Place::Device).expect("a scheduler");
        let shape = Shape { m: 2, k: 3, n: 2 };
        let (a, b) = ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [1.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
        let c = [4.0, 5.0, 10.0, 11.0];
        assert_eq!(scheduler.matmul(&a, &b, shape).expect("a product"), c);
        let started = scheduler.matmul_async(a.to_vec(), b.to_vec(), shape).expect("a product");
        drop(scheduler.matmul_async(a.to_vec(), b.to_vec(), shape).expect("dropped at once"));
        assert_eq!(started.into_inner().expect("a product"), c);
        let both = scheduler.matmul_batch(&[(&a, &b, shape), (&a, &b, shape)]);
        assert_eq!(both.expect("two products"), [c, c]);
        for bad in [
            scheduler.matmul(&a[1..], &b, shape),
            scheduler.matmul(&[], &b, shape),
            scheduler.matmul(&a, &b, Shape { m: 0, ..shape }),
            scheduler.matmul(&a, &b, Shape { m: usize::MAX, ..shape }),
        ] {
            assert!(matches!(bad, Err(Error::Invalid(_))), "{bad:?}");
        }
        assert!(scheduler.matmul_async(vec![], vec![], shape).is_err());
        let stats = scheduler.stats().expect("counters");
        assert!(stats.device_products >= 4 && !stats.reason.is_empty());
        w.queue.wait().expect("idle");
    });
}

#[test]
fn weights_serve_many_products() {
    everywhere(|w| {
        let scheduler = Scheduler::on(&w.pool, Place::Device).expect("a scheduler");
        let shape = Shape { m: 2, k: 3, n: 2 };
        let (a, b) = ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [1.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
        let c = [4.0, 5.0, 10.0, 11.0];
        let weights = scheduler.weights(&b, 3, 2).expect("weights");
        assert_eq!(scheduler.matmul(&a, &weights, shape).expect("a product"), c);
        let mixed = [(&a[..], Factor::from(&weights), shape), (&a[..], Factor::from(&b), shape)];
        assert_eq!(scheduler.matmul_batch(&mixed).expect("two products"), [c, c]);
        assert!(matches!(scheduler.weights(&b, 3, 3), Err(Error::Invalid(_))));
        let square = Shape { m: 2, k: 3, n: 3 };
        assert!(matches!(scheduler.matmul(&a, &weights, square), Err(Error::Invalid(_))));
        let other = Scheduler::on(&w.pool, Place::Device).expect("a scheduler");
        assert!(matches!(other.matmul(&a, &weights, shape), Err(Error::Invalid(_))));
        // Results keep weights, and weights their scheduler; dropped at once, they end in the background.
        let started = scheduler.matmul_async(a.to_vec(), weights.clone(), shape);
        drop(scheduler.matmul_async(a.to_vec(), weights.clone(), shape).expect("dropped at once"));
        drop((scheduler, weights));
        assert_eq!(started.expect("a product").into_inner().expect("a product"), c);
        w.queue.wait().expect("idle");
    });
}

/// Without a pool of the program's: the scheduler and what it was asked last for end in any order.
#[test]
fn one_call_makes_a_scheduler() {
    let shape = Shape { m: 64, k: 64, n: 64 };
    let (a, b) = (vec![1.0; 4096], vec![0.5; 4096]);
    for kept in [true, false] {
        let scheduler = Scheduler::new().expect("a scheduler");
        let weights = scheduler.weights(&b, 64, 64).expect("weights");
        let results: Vec<_> = (0..8)
            .map(|_| scheduler.matmul_async(a.clone(), weights.clone(), shape).expect("started"))
            .collect();
        drop((scheduler, weights));
        if kept {
            for result in results {
                assert_eq!(result.into_inner().expect("a product"), vec![32.0; 4096]);
            }
        }
    }
}

#[test]
fn labels_are_computed_once() {
    let cache = Labels::new(2, 0).expect("a cache");
    let double = |labels: &[i32], mapping: &mut [i32]| {
        labels.iter().zip(mapping).for_each(|(label, place)| *place = 2 * label);
        Ok(labels.len())
    };
    for _ in 0..2 {
        assert_eq!(cache.get(&[3, 17], 2, double).expect("a mapping"), [6, 34]);
        assert_eq!(cache.get(&[], 0, double).expect("a mapping"), []);
    }
    let info = cache.info().expect("counters");
    assert_eq!((info.hits, info.misses, info.entries), (2, 2, 2));
    assert!(matches!(cache.get(&[3, 17], 1, double), Err(Error::Limit(_)))); // it has two
                                                                             // What fails is not stored; a panic is the caller's, and the cache goes on.
    let refused = cache.get(&[1], 1, |_, _| Err(parse_size("none").expect_err("no size")));
    assert!(matches!(refused, Err(Error::Invalid(detail)) if detail.text.contains("none")));
    let panic = catch_unwind(AssertUnwindSafe(|| cache.get(&[1], 1, |_, _| panic!("of mine"))));
    let panic = panic.expect_err("it goes on").downcast::<&str>().expect("the payload");
    assert_eq!(*panic, "of mine");
    assert!(matches!(cache.get(&[1], 1, |_, _| Ok(2)), Err(Error::Corrupt(_))));
    let nested = cache.get(&[2], 1, |labels, mapping| {
        mapping[0] = cache.get(&[9], 1, double)?[0] + labels[0];
        Ok(1)
    });
    assert_eq!(nested.expect("a mapping"), [20]);
    assert!(cache.clear().expect("cleared") > 0);
    assert_eq!(cache.info().expect("counters").entries, 0);
}

#[test]
fn distances_have_a_precision() {
    everywhere(|w| {
        let (query, corpus) = ([0.3f32, -0.7], [0.3, -0.7, 0.5, 0.5, -0.25, 0.75]);
        let exact = [0.0, 1.48, 2.405];
        for (precision, most) in
            [(Precision::Fp32, 1e-6), (Precision::Fp16, 2e-3), (Precision::Int8, 3e-2)]
        {
            let options = DistanceOptions { precision, ..Metric::L2Squared.into() };
            let scheduler = Scheduler::on(&w.pool, Place::Device).expect("a scheduler");
            let one = scheduler.distances(&query, &corpus, 2, options.clone()).expect("distances");
            let all = compute::distances(&w.context, 0, &query, &corpus, 2, options.clone());
            for found in [one, all.expect("distances")] {
                let near = found.iter().zip(exact).all(|(at, exact)| (at - exact).abs() < most);
                assert!(near, "{precision:?}: {found:?}");
            }
            let near = compute::nearest(&w.context, 0, &query, &corpus, 2, options.clone(), 2);
            assert_eq!(near.expect("two").1, [0, 1]);
            let both = [&scheduler, &scheduler];
            let near = compute::nearest_split(&both, &query, &corpus, 2, options, 2);
            assert_eq!(near.expect("two").1, [0, 1]);
        }
        // Of INT8, what is beyond the scale is refused, or clamped and counted.
        let far = [0.3, -0.7, 5.0, 0.5];
        let int8 = DistanceOptions { precision: Precision::Int8, ..Metric::L2.into() };
        let refused = compute::distances(&w.context, 0, &query, &far, 2, int8.clone());
        assert!(matches!(refused, Err(Error::Invalid(_))));
        let count = Cell::new(9);
        let clamped = DistanceOptions { saturated: Some(&count), ..int8.clone() };
        compute::distances(&w.context, 0, &query, &far, 2, clamped).expect("clamped");
        assert_eq!(count.get(), 1);
        let scaled = DistanceOptions { scale: 25.0, ..int8 };
        compute::distances(&w.context, 0, &query, &far, 2, scaled).expect("within the scale");
        // NaN is refused, or 0.
        let odd = [f32::NAN, 0.0];
        let options = DistanceOptions::from(Metric::L2);
        assert!(compute::distances(&w.context, 0, &odd, &corpus, 2, options.clone()).is_err());
        let zero = DistanceOptions { nonfinite: Nonfinite::Zero, ..options };
        compute::distances(&w.context, 0, &odd, &corpus, 2, zero).expect("as zero");
        let none = compute::nearest(&w.context, 99, &query, &corpus, 2, Metric::L2, 1);
        assert!(matches!(none, Err(Error::NoDevice(_))));
    });
}

#[test]
fn distances_and_their_mistakes() {
    everywhere(|w| {
        let scheduler = Scheduler::on(&w.pool, Place::Cpu).expect("a scheduler");
        let corpus = [0.0, 0.0, 3.0, 4.0, 1.0, 1.0];
        let all = scheduler.distances(&[0.0, 0.0], &corpus, 2, Metric::L2).expect("distances");
        assert_eq!(all[..2], [0.0, 5.0]);
        let (near, at) =
            scheduler.nearest(&[3.0, 4.0], &corpus, 2, Metric::L2Squared, 2).expect("two");
        assert_eq!((near[0], &at[..]), (0.0, &[1, 2][..]));
        for (query, dim, k) in
            [(&[0.0f32, 0.0][..], 0, 1), (&[0.0], 2, 1), (&[0.0, 0.0], 2, 4), (&[], 2, 1)]
        {
            let bad = scheduler.nearest(query, &corpus, dim, Metric::Cosine, k);
            assert!(matches!(bad, Err(Error::Invalid(_))), "{bad:?}");
        }
    });
}

#[test]
fn models_and_devices_for_them() {
    let shape = InferenceShape {
        hidden: 4096,
        intermediate: 14336,
        layers: 32,
        vocabulary: 32000,
        heads: 32,
        kv_heads: 8,
        tokens: 4096,
        element_bytes: 2,
    };
    let memory = shape.estimate().expect("an estimate");
    assert_eq!(memory.total_bytes, 15_020_466_176);
    assert!(InferenceShape { hidden: 0, ..shape }.estimate().is_err());
    assert!(matches!(Model::read("/no/such/model.gguf"), Err(Error::Io(_))));
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/model_configs/llama3_8b.json");
    if std::path::Path::new(folder).exists() {
        let model = Model::read(folder).expect("a model");
        assert!(model.parameters() > 8_000_000_000 && model.weight_bytes() > 16_000_000_000);
        assert!(!model.fits(8 << 30, 8192).expect("an estimate").0);
        assert!(model.fits(40 << 30, 8192).expect("an estimate").0);
    }
    everywhere(|w| {
        let place = select(&w.context, 1 << 20, None).expect("a device");
        assert_eq!((&place.backend[..], place.backend_index), (w.backend, 0));
        assert!(select(&w.context, 1 << 60, Some("host,sim"))
            .expect_err("too much")
            .is_exhausted());
    });
}
