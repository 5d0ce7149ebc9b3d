// SPDX-License-Identifier: Apache-2.0
//! What stands on libvram: products and distances, and the memory of models.
#![cfg(all(feature = "compute", feature = "model"))]

mod world;

use vram::compute::{Metric, Place, Scheduler, Shape};
use vram::model::{select, InferenceShape, Model};
use vram::*;
use world::everywhere;

#[test]
fn products_and_their_mistakes() {
    everywhere(|w| {
        let scheduler = Scheduler::new(&w.pool, Place::Device).expect("a scheduler");
        let shape = Shape { m: 2, k: 3, n: 2 };
        let (a, b) = ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [1.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
        let c = [4.0, 5.0, 10.0, 11.0];
        assert_eq!(scheduler.matmul(&a, &b, shape).expect("a product"), c);
        let started = scheduler.matmul_async(a.to_vec(), b.to_vec(), shape).expect("a product");
        drop(scheduler.matmul_async(a.to_vec(), b.to_vec(), shape).expect("dropped at once"));
        assert_eq!(started.wait().expect("a product"), c);
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
fn distances_and_their_mistakes() {
    everywhere(|w| {
        let scheduler = Scheduler::new(&w.pool, Place::Cpu).expect("a scheduler");
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
