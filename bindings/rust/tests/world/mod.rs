// SPDX-License-Identifier: Apache-2.0
//! What the tests share: a device of each backend that needs no hardware.
#![allow(dead_code)]

use vram::{Context, ContextOptions, Device, Pool, Queue};

pub struct World {
    pub backend: &'static str,
    pub context: Context,
    pub device: Device,
    pub queue: Queue,
    pub pool: Pool,
}

pub fn world(backend: &'static str, sim: &str) -> World {
    let options = ContextOptions { backends: Some(backend), sim: Some(sim) };
    let context = Context::with(&options).expect("a context");
    let device = context.device(0).expect("a device");
    let (queue, pool) = (device.queue().expect("a queue"), device.pool().expect("a pool"));
    World { backend, context, device, queue, pool }
}

/// Runs a test on the host and on a simulated device whose work completes late, and looks that nothing is left behind.
pub fn everywhere(test: impl Fn(&World)) {
    for (backend, sim) in
        [("host", ""), ("sim", "memory=1G,real=on"), ("sim", "memory=1G,real=on,lag=20,seed=3")]
    {
        let world = world(backend, sim);
        test(&world);
        world.queue.wait().expect("the queue ends");
        assert_eq!(
            world.pool.stats().expect("counters").live_blocks,
            0,
            "left behind on {backend}"
        );
    }
}
