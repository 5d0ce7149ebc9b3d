// SPDX-License-Identifier: Apache-2.0
//! How much memory a language model needs (feature `model`, libvram-model).

use std::path::Path;

use crate::context::Context;
use crate::error::{c_option, c_text, made, pointer_of, sized, text_of, Error};
use crate::ffi;
use crate::Result;

/// The dimensions of a decoder with gated feed-forward blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InferenceShape {
    /// Width of the residual stream.
    pub hidden: u64,
    /// Width of the feed-forward block.
    pub intermediate: u64,
    /// Layers.
    pub layers: u64,
    /// Different tokens.
    pub vocabulary: u64,
    /// Heads of queries.
    pub heads: u64,
    /// Heads of keys and of values.
    pub kv_heads: u64,
    /// In the key-value cache.
    pub tokens: u64,
    /// Of a weight, a cached value and an activation: 4 for fp32.
    pub element_bytes: u64,
}

/// What a model needs, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InferenceMemory {
    /// All parameters.
    pub parameters: u64,
    /// The weights.
    pub model_bytes: u64,
    /// The key-value cache.
    pub kv_bytes: u64,
    /// Activations of one token.
    pub activation_bytes: u64,
    /// The sum of the three.
    pub total_bytes: u64,
}

impl InferenceShape {
    /// Estimates memory from the dimensions alone, by the formulas of vram/model.h.
    pub fn estimate(&self) -> Result<InferenceMemory> {
        let mut shape: ffi::vram_inference_shape = sized();
        shape.hidden = self.hidden;
        shape.intermediate = self.intermediate;
        shape.layers = self.layers;
        shape.vocabulary = self.vocabulary;
        shape.heads = self.heads;
        shape.kv_heads = self.kv_heads;
        shape.tokens = self.tokens;
        shape.element_bytes = self.element_bytes;
        // SAFETY: plain data, and an out-parameter of the right size.
        let memory: ffi::vram_inference_memory =
            made(sized(), |memory| unsafe { ffi::vram_inference_estimate(&shape, memory) })?;
        Ok(InferenceMemory {
            parameters: memory.parameters,
            model_bytes: memory.model_bytes,
            kv_bytes: memory.kv_bytes,
            activation_bytes: memory.activation_bytes,
            total_bytes: memory.total_bytes,
        })
    }
}

impl InferenceMemory {
    /// All of it in GiB, as the documents count a GB.
    pub fn total_gb(&self) -> f64 {
        self.total_bytes as f64 / (1u64 << 30) as f64
    }

    /// The weights in MiB.
    pub fn model_mb(&self) -> f64 {
        self.model_bytes as f64 / (1u64 << 20) as f64
    }

    /// The key-value cache in MiB.
    pub fn kv_mb(&self) -> f64 {
        self.kv_bytes as f64 / (1u64 << 20) as f64
    }

    /// Activations of one token in MiB.
    pub fn activation_mb(&self) -> f64 {
        self.activation_bytes as f64 / (1u64 << 20) as f64
    }
}

/// A device with enough free memory.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelPlace {
    /// "cuda".
    pub backend: String,
    /// Its number in the backend.
    pub backend_index: u32,
    /// For [`Context::device`].
    pub device: u32,
}

/// The first backend and device with `bytes` of free memory, in the given order of backends (None: the usual).
pub fn select(context: &Context, bytes: u64, order: Option<&str>) -> Result<ModelPlace> {
    let order = c_option(order)?;
    let mut options: ffi::vram_model_select_options = sized();
    options.bytes = bytes;
    options.order = pointer_of(&order);
    // SAFETY: a valid handle, and an out-parameter of the right size; the text outlives the call.
    let place: ffi::vram_model_place =
        made(sized(), |place| unsafe { ffi::vram_model_select(context.raw(), &options, place) })?;
    Ok(ModelPlace {
        backend: unsafe { text_of(place.backend) }, // SAFETY: static storage
        backend_index: place.backend_index,
        device: place.device,
    })
}

/// A model, as its files describe it.
pub struct Model(Box<ffi::vram_model>);

// SAFETY: plain data without pointers.
unsafe impl Send for Model {}
unsafe impl Sync for Model {}

impl Model {
    /// Reads a .gguf or .safetensors file, an index, a config.json, or a folder with one of the last three.
    pub fn read(path: impl AsRef<Path>) -> Result<Model> {
        let path = path.as_ref();
        let text = path.to_str().ok_or_else(|| Error::invalid(format!("{path:?} is not UTF-8")))?;
        let text = c_text(text)?;
        let mut model: Box<ffi::vram_model> = Box::new(sized());
        // SAFETY: the path outlives the call; NULL options are all defaults.
        crate::error::check(unsafe {
            ffi::vram_model_read(text.as_ptr(), std::ptr::null(), &mut *model)
        })?;
        Ok(Model(model))
    }

    /// All parameters.
    pub fn parameters(&self) -> u64 {
        self.0.parameters
    }

    /// Bytes of all weights.
    pub fn weight_bytes(&self) -> u64 {
        self.0.weight_bytes
    }

    /// Whether it fits on one device with `free_bytes`, with a cache of `tokens` (0: 4096, or fewer if it was trained
    /// for fewer), and what it needs there in all.
    pub fn fits(&self, free_bytes: u64, tokens: u64) -> Result<(bool, u64)> {
        // SAFETY: zeros are a device without a known overhead.
        let mut device: ffi::vram_estimate_device = unsafe { std::mem::zeroed() };
        device.free_bytes = free_bytes;
        let mut options: ffi::vram_estimate_options = sized();
        options.context = tokens;
        options.devices = &device;
        options.device_count = 1;
        // SAFETY: plain data, and an out-parameter of the right size.
        let estimate: ffi::vram_estimate =
            made(sized(), |out| unsafe { ffi::vram_estimate_get(&*self.0, &options, out) })?;
        Ok((estimate.fits, estimate.total_bytes))
    }
}
