# SPDX-License-Identifier: Apache-2.0
"""The programs behind traces/, to be run with any PyTorch allocator.

usage: torch_programs.py NAME default|expandable|async|plugin:LIB.so:ALLOC:FREE [repeats]
Prints one JSON line: seconds of each repeat, peak requested and reserved as PyTorch sees them (a plug-in reports its own).
Needs PyTorch; transformers, torchvision, torch_geometric for the programs that use them. Weights are random.
"""
import gc, json, os, random, sys, time

def gpt2_train_varlen(torch, R):
    from transformers import GPT2Config, GPT2LMHeadModel
    m = GPT2LMHeadModel(GPT2Config()).cuda().bfloat16(); o = torch.optim.AdamW(m.parameters())
    for _ in range(30):
        x = torch.randint(0, 50000, (12, R.randrange(64, 1025)), device='cuda')
        m(input_ids=x, labels=x).loss.backward(); o.step(); o.zero_grad(set_to_none=True)

def _llama(torch, layers=12, hidden=2048):
    from transformers import LlamaConfig, LlamaForCausalLM
    torch.set_default_dtype(torch.bfloat16)
    with torch.device('cuda'):
        m = LlamaForCausalLM(LlamaConfig(hidden_size=hidden, intermediate_size=5504, num_hidden_layers=layers, num_attention_heads=16, num_key_value_heads=8, vocab_size=32000, max_position_embeddings=8192))
    torch.set_default_dtype(torch.float32); return m

def llama1b_train_ckpt(torch, R):
    m = _llama(torch); m.gradient_checkpointing_enable(); m.train(); o = torch.optim.AdamW(m.parameters())
    for _ in range(12):
        x = torch.randint(0, 32000, (4, R.randrange(256, 4096)), device='cuda')
        m(input_ids=x, labels=x, use_cache=False).loss.backward(); o.step(); o.zero_grad(set_to_none=True)

def resnet50_multires(torch, R):
    import torchvision
    m = torchvision.models.resnet50().cuda(); o = torch.optim.SGD(m.parameters(), lr=.1, momentum=.9); m.train()
    for _ in range(25):
        r = R.randrange(128, 384, 32); x = torch.randn(32, 3, r, r, device='cuda')
        m(x).sum().backward(); o.step(); o.zero_grad(set_to_none=True)

def bert_dynpad(torch, R):
    from transformers import BertConfig, BertForSequenceClassification
    m = BertForSequenceClassification(BertConfig()).cuda(); o = torch.optim.AdamW(m.parameters()); m.train()
    for _ in range(40):
        x = torch.randint(0, 30000, (R.choice([8, 16, 32]), R.randrange(16, 513)), device='cuda')
        m(input_ids=x, labels=torch.zeros(x.shape[0], dtype=torch.long, device='cuda')).loss.backward(); o.step(); o.zero_grad(set_to_none=True)

def sage_subgraphs(torch, R):
    from torch_geometric.nn import SAGEConv
    class N(torch.nn.Module):
        def __init__(s): super().__init__(); s.c = torch.nn.ModuleList([SAGEConv(256, 512), SAGEConv(512, 512), SAGEConv(512, 64)])
        def forward(s, x, e):
            for c in s.c: x = c(x, e).relu()
            return x
    m = N().cuda(); o = torch.optim.Adam(m.parameters())
    for _ in range(120):
        n = R.randrange(5000, 120000); e = torch.randint(0, n, (2, n * R.randrange(4, 16)), device='cuda')
        m(torch.randn(n, 256, device='cuda'), e).sum().backward(); o.step(); o.zero_grad(set_to_none=True)

def serve_kv_cache(torch, R):
    live = []
    for step in range(6000):
        if len(live) < 160 and R.random() < .5:
            n = int(min(16384, max(16, R.lognormvariate(6.5, 1.1))))
            live.append([torch.empty(2, 8, n, 128, dtype=torch.bfloat16, device='cuda') for _ in range(16)])
        elif live:
            i = R.randrange(len(live))
            if R.random() < .4:    # the request grows: cat onto a longer cache, as a dynamic cache does
                live[i] = [torch.cat([k, k[:, :, :max(1, k.shape[2] // 8)]], dim=2) if k.shape[2] < 16384 else k for k in live[i]]
            else: live.pop(i)


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
