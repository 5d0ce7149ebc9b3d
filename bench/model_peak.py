#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""model_peak.py --vram BINARY [--json FILE] [--models A,B] [--prompt N] [--new N] [--dry-run]

Holds `vram estimate` against inference: three models with random weights are made by transformers on the
GPU, read a prompt of N tokens (2048) and write some more (64); the peak of what PyTorch has allocated is
compared with the estimate for the model's own config.json, with the overhead of the runtime left aside on
both sides. The goal is 5 %.

The estimate is asked for what transformers does: activations in the weights' type (--activation-bytes 2), logits of one
token (--outputs 1), the whole prompt at once (-ub N). --dry-run writes the configs and prints the estimates,
and needs neither PyTorch nor a GPU.

Exit code 0 when every model is within the goal, 1 when one is not, 2 for misuse or what is missing.
"""
import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile

GOAL = 0.05

# Real architectures, with fewer layers where they would not come up quickly. Each has 3 to 14 GB of weights: what an engine
# takes besides is then small, as it is in use.
MODELS = {
    "llama": {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4096,
        "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 128256,
        "max_position_embeddings": 8192, "tie_word_embeddings": False,
    },
    "qwen2": {
        "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "hidden_size": 2048,
        "intermediate_size": 11008, "num_hidden_layers": 36, "num_attention_heads": 16,
        "num_key_value_heads": 2, "vocab_size": 151936, "max_position_embeddings": 32768,
        "use_sliding_window": False, "tie_word_embeddings": True,
    },
    "mixtral": {
        "model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "hidden_size": 2048,
        "intermediate_size": 7168, "num_hidden_layers": 16, "num_attention_heads": 16,
        "num_key_value_heads": 4, "head_dim": 128, "num_local_experts": 8, "num_experts_per_tok": 2,
        "vocab_size": 32000, "max_position_embeddings": 8192, "sliding_window": None,
        "tie_word_embeddings": False,
    },
}


def estimate(binary, folder, config, prompt, new):
    """What `vram estimate` says of a config, its runtime left aside."""
    path = os.path.join(folder, "config.json")
    with open(path, "w", encoding="utf-8") as stream:
        json.dump({**config, "torch_dtype": "bfloat16"}, stream)
    command = [binary, "estimate", path, "-c", str(prompt + new), "-b", str(prompt), "-ub", str(prompt),
               "-ctk", "bf16", "-ctv", "bf16", "--activation-bytes", "2", "--outputs", "1",
               "--overhead", "0", "--memory", "1T", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def measure(config, prompt, new):
    """Peak of allocated bytes over one run of inference, and the bytes of the weights."""
    import torch
    import transformers

    shape = transformers.AutoConfig.for_model(**config)
    torch.manual_seed(1)
    with torch.device("cuda"):
        torch.set_default_dtype(torch.bfloat16)
        model = transformers.AutoModelForCausalLM.from_config(shape, attn_implementation="sdpa")
        torch.set_default_dtype(torch.float32)
    model = model.to(torch.bfloat16).eval()
    parameters = {id(p): p for p in model.parameters()}.values()  # tied ones once
    weights = sum(p.numel() * p.element_size() for p in parameters)
    tokens = torch.randint(0, config["vocab_size"], (1, prompt), device="cuda")

    def run(count):
        with torch.inference_mode():
            model.generate(tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=count,
                           min_new_tokens=count, do_sample=False, pad_token_id=0)
        torch.cuda.synchronize()

    run(2)  # libraries take their workspaces
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    run(new)
    peak = torch.cuda.max_memory_allocated()
    reserved = torch.cuda.max_memory_reserved()
    count = sum(p.numel() for p in parameters)
    del model, tokens, parameters
    gc.collect()
    torch.cuda.empty_cache()
    return {"peak_bytes": peak, "reserved_bytes": reserved, "weight_bytes": weights, "parameters": count}


def compare(name, said, seen):
    total, peak = said["total"]["total_bytes"], seen["peak_bytes"]
    off = total / peak - 1
    good = abs(off) <= GOAL and said["model"]["weight_bytes"] == seen["weight_bytes"]
    print(f"{name:10} weights {said['model']['weight_bytes']:>14,} (measured {seen['weight_bytes']:>14,})  "
          f"estimate {total:>14,}  peak {peak:>14,}  {off:+7.2%}{'' if good else '  MISSED'}", flush=True)
    return {"name": name, "good": good, "off": off, "estimate": said["total"], "measured": seen}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--vram", required=True)
    parser.add_argument("--json")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--prompt", type=int, default=2048)
    parser.add_argument("--new", type=int, default=64)
    parser.add_argument("--dry-run", action="store_true")
    given = parser.parse_args()
    unknown = set(given.models.split(",")) - set(MODELS)
    if unknown:
        parser.error(f"no such model: {', '.join(sorted(unknown))}")
    return given


def main():
    given = arguments()
    rows = []
    if not given.dry_run:
        try:
            import torch
            import transformers  # noqa: F401
        except ImportError as problem:
            print(f"model_peak: {problem}")
            return 2
        if not torch.cuda.is_available():
            print("model_peak: PyTorch finds no GPU")
            return 2
        print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, "
              f"transformers {transformers.__version__}")
    for name in given.models.split(","):
        with tempfile.TemporaryDirectory() as folder:
            said = estimate(given.vram, folder, MODELS[name], given.prompt, given.new)
        if given.dry_run:
            print(f"{name:10} {said['model']['parameters']:>14,} parameters  {said['total']['total_bytes']:>14,} bytes")
            continue
        rows.append(compare(name, said, measure(MODELS[name], given.prompt, given.new)))
    if given.json:
        with open(given.json, "w", encoding="utf-8") as stream:
            json.dump({"goal": GOAL, "prompt": given.prompt, "new": given.new, "models": rows}, stream, indent=1)
    missed = [row["name"] for row in rows if not row["good"]]
    if not given.dry_run:
        print(f"{len(rows) - len(missed)} of {len(rows)} models within {GOAL:.0%}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
