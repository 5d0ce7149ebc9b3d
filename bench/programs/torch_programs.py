# SPDX-License-Identifier: Apache-2.0
"""The programs behind traces/, to be run with any PyTorch allocator.

usage: torch_programs.py NAME default|expandable|async|plugin:LIB.so:ALLOC:FREE [repeats]
Prints one JSON line: seconds of each repeat, peak requested and reserved as PyTorch sees them (a plug-in reports its own).
A program may be called with a batch, a number of steps, a context (serve) and `tick`, which is called with the tokens or
images of each step. Without them it does what it did when its trace was recorded.
Needs PyTorch; transformers, torchvision, torch_geometric for the programs that use them. Weights are random.
"""
import gc, json, os, random, sys, time

def _quiet(units): pass

def gpt2_train_varlen(torch, R, batch=12, steps=30, tick=_quiet):
    from transformers import GPT2Config, GPT2LMHeadModel
    m = GPT2LMHeadModel(GPT2Config()).cuda().bfloat16(); o = torch.optim.AdamW(m.parameters())
    for _ in range(steps):
        x = torch.randint(0, 50000, (batch, R.randrange(64, 1025)), device='cuda')
        m(input_ids=x, labels=x).loss.backward(); o.step(); o.zero_grad(set_to_none=True)
        tick(x.numel())

def _llama(torch, layers=12, hidden=2048):
    from transformers import LlamaConfig, LlamaForCausalLM
    torch.set_default_dtype(torch.bfloat16)
    with torch.device('cuda'):
        m = LlamaForCausalLM(LlamaConfig(hidden_size=hidden, intermediate_size=5504, num_hidden_layers=layers, num_attention_heads=16, num_key_value_heads=8, vocab_size=32000, max_position_embeddings=8192))
    torch.set_default_dtype(torch.float32); return m

def llama1b_train_ckpt(torch, R, batch=4, steps=12, tick=_quiet):
    m = _llama(torch); m.gradient_checkpointing_enable(); m.train(); o = torch.optim.AdamW(m.parameters())
    for _ in range(steps):
        x = torch.randint(0, 32000, (batch, R.randrange(256, 4096)), device='cuda')
        m(input_ids=x, labels=x, use_cache=False).loss.backward(); o.step(); o.zero_grad(set_to_none=True)
        tick(x.numel())

def resnet50_multires(torch, R, batch=32, steps=25, tick=_quiet):
    import torchvision
    m = torchvision.models.resnet50().cuda(); o = torch.optim.SGD(m.parameters(), lr=.1, momentum=.9); m.train()
    for _ in range(steps):
        r = R.randrange(128, 384, 32); x = torch.randn(batch, 3, r, r, device='cuda')
        m(x).sum().backward(); o.step(); o.zero_grad(set_to_none=True)
        tick(batch)

def bert_dynpad(torch, R, steps=40, tick=_quiet):
    from transformers import BertConfig, BertForSequenceClassification
    m = BertForSequenceClassification(BertConfig()).cuda(); o = torch.optim.AdamW(m.parameters()); m.train()
    for _ in range(steps):
        x = torch.randint(0, 30000, (R.choice([8, 16, 32]), R.randrange(16, 513)), device='cuda')
        m(input_ids=x, labels=torch.zeros(x.shape[0], dtype=torch.long, device='cuda')).loss.backward(); o.step(); o.zero_grad(set_to_none=True)
        tick(x.numel())

def sage_subgraphs(torch, R, steps=120, tick=_quiet):
    from torch_geometric.nn import SAGEConv
    class N(torch.nn.Module):
        def __init__(s): super().__init__(); s.c = torch.nn.ModuleList([SAGEConv(256, 512), SAGEConv(512, 512), SAGEConv(512, 64)])
        def forward(s, x, e):
            for c in s.c: x = c(x, e).relu()
            return x
    m = N().cuda(); o = torch.optim.Adam(m.parameters())
    for _ in range(steps):
        n = R.randrange(5000, 120000); e = torch.randint(0, n, (2, n * R.randrange(4, 16)), device='cuda')
        m(torch.randn(n, 256, device='cuda'), e).sum().backward(); o.step(); o.zero_grad(set_to_none=True)
        tick(n)

def serve_kv_cache(torch, R, context=16384, steps=6000, tick=_quiet):
    live = []
    for step in range(steps):
        units = 0
        if len(live) < 160 and R.random() < .5:
            n = units = int(min(context, max(16, R.lognormvariate(6.5, 1.1) * (context / 16384))))
            live.append([torch.empty(2, 8, n, 128, dtype=torch.bfloat16, device='cuda') for _ in range(16)])
        elif live:
            i = R.randrange(len(live))
            if R.random() < .4:    # the request grows: cat onto a longer cache, as a dynamic cache does
                units = -live[i][0].shape[2]
                live[i] = [torch.cat([k, k[:, :, :max(1, k.shape[2] // 8)]], dim=2) if k.shape[2] < context else k for k in live[i]]
                units += live[i][0].shape[2]
            else: live.pop(i)
        tick(units)


def main():
    name, mode = sys.argv[1], sys.argv[2]
    repeats = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    os.environ['PYTORCH_CUDA_ALLOC_CONF'] = os.environ['PYTORCH_ALLOC_CONF'] = {
        'expandable': 'expandable_segments:True', 'async': 'backend:cudaMallocAsync'}.get(mode, '')
    import torch
    if mode.startswith('plugin:'):
        _, lib, alloc, free = mode.split(':')
        torch.cuda.memory.change_current_allocator(torch.cuda.memory.CUDAPluggableAllocator(lib, alloc, free))
    seconds = []
    for _ in range(repeats):
        torch.manual_seed(1)
        rng = random.Random(7)
        torch.cuda.synchronize()
        start = time.time()
        globals()[name](torch, rng)
        torch.cuda.synchronize()
        seconds.append(round(time.time() - start, 3))
        gc.collect()
    result = dict(name=name, mode=mode, seconds=seconds)
    if not mode.startswith('plugin:'):
        result.update(peak_allocated=torch.cuda.max_memory_allocated(), peak_reserved=torch.cuda.max_memory_reserved())
    print(json.dumps(result), flush=True)


if __name__ == '__main__':
    main()
