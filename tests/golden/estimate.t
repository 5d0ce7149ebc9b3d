$ base64 -d <<'END' | gunzip >tiny.gguf
> H4sIAAAAAAACA+2RS07DMBBAnfIRIBb8hASIK0RUXIAVvQCsWFiOM02sOGMwkxY4HUcjbhw1gUqwYDlPihzZbzwfz2aP91tCiG3RsR/Xs7gWgO
> CVTZXXpSHQ1HjYa/d34rm1qlaH32RU9UrqL3sw+H71dDutj4dRaWadrqR2DVJIPxmk7QTtkOCNpAUsqFyV2F57PnKgziDPDRZDKxHiYmTNAXI5
> d36pfD4U25yXI1ERAZJxmJag8nVx4bv+1ZTVou/kaCQvnFaZfDUfEM7DwPtRkKsAZdtFni7BFCVNYgMiioF+wIHTuGa2Sm9CFShfNoT2Dxre4T
> P5GTr9W6jY7f5P4p5r6Lkhic7XGyKTQZ13B4JhGIZhGIZhGIZh/okv4kJFR8AQAAA=
> END

$ vram estimate tiny.gguf -m 1G
  model    Tiny?[31m
           llama, 2 layers, 3072 parameters, 3.55 KiB, mostly q8_0
  run      context 2048, 1 sequence, micro-batch 512, keys f16, values f16, flash
           attention on

  device     layers
    weights     KV cache    compute     overhead    total       free
  memory:0   0-1, output
    3.55 KiB    2.00 MiB    5.00 MiB    512.00 MiB  519.00 MiB  1.00 GiB
  host       input
    432 B       0 B         0 B         0 B         432 B       unknown

  fits: 519.00 MiB of 1.00 GiB free on 1 device

  Assumptions
    weights: the bytes of 4 tensors in 1 file
    KV cache: 1.00 KiB a token, the whole context taken at once
    compute: 512 tokens at once in numbers of 4 bytes, attention scores never
    complete in memory (flash attention), logits in f32 of 512 at once
    overhead: 512.00 MiB of each device for the runtime's context and kernels
    (--overhead)
    token embeddings lie on the host, and a second time with the output
    free: all of each --memory

# The name of a folder says how the weights are stored.
$ mkdir Small-8B-NVFP4
> cat >Small-8B-NVFP4/config.json <<'END'
> {"model_type": "llama", "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8,
>  "vocab_size": 128256, "max_position_embeddings": 8192}
> END
> vram estimate Small-8B-NVFP4 -m 24G
> cd Small-8B-NVFP4
> vram estimate config.json -m 24G --json | grep -A1 warnings
> vram estimate config.json -m 24G --json --weights NVFP4 | grep -E -A1 '"weight_type"|warnings'
  model    Small-8B-NVFP4
           llama, 32 layers, 8.03 billion parameters, 14.96 GiB, mostly bf16
  run      context 4096, 1 sequence, micro-batch 512, keys f16, values f16, flash
  <...>
  memory:0   input, 0-31, output
    14.96 GiB   512.00 MiB  258.50 MiB  512.00 MiB  16.21 GiB   24.00 GiB

  warning: the name says nvfp4, but config.json names no quantization: counted as bf16; put hf_quant_config.json beside it, or use --weights nvfp4
  fits: 16.21 GiB of 24.00 GiB free on 1 device

  Assumptions
    weights: counted from config.json, stored as bf16, because config.json names
    no type
    filled in by default, as config.json leaves it out: hidden_size 4096,
    num_hidden_layers 32, torch_dtype bf16
    KV cache: 128.00 KiB a token, the whole context taken at once
  <...>
    token embeddings lie on the first device where they fit
    free: all of each --memory
    "warnings": [
      "the name says nvfp4, but config.json names no quantization: counted as bf16; put hf_quant_config.json beside it, or use --weights nvfp4"
      "weight_type": "nvfp4",
      "quantization": "none",
  --
    "warnings": [],
    "assumptions": [

$ vram estimate --params hidden=4096,intermediate=14336,layers=32,vocab=32000,heads=32,kv_heads=8,tokens=4096,bytes=4 -m 24G -m 80G
  7241732096 parameters

  weights     26.98 GiB   28966928384 bytes
  KV cache    1.00 GiB    1073741824 bytes
  activations 256.00 KiB  262144 bytes
  total       27.98 GiB   30040932352 bytes

  memory:0    24.00 GiB free
  memory:1    80.00 GiB free

  fits: 27.98 GiB of 80.00 GiB free on memory:1

  Assumptions
    from dimensions alone: gated feed-forward blocks, a separate output layer,
    heads of hidden / heads; activations of one token
    the model lies on one device; nothing is added for the runtime

$ vram estimate --params hidden=4096,intermediate=14336,layers=32,vocab=32000,heads=32,kv_heads=8,tokens=4096 -m 8G
  7241732096 parameters

  weights     13.49 GiB   14483464192 bytes
  KV cache    512.00 MiB  536870912 bytes
  activations 128.00 KiB  131072 bytes
  total       13.99 GiB   15020466176 bytes

  memory:0    8.00 GiB free

  does not fit: no device has 13.99 GiB
  <...>
[1]

$ cat >config.json <<'END'
> {"model_type": "llama", "num_hidden_layers": 16, "hidden_size": 2048, "intermediate_size": 8192,
>  "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 128256,
>  "max_position_embeddings": 131072, "tie_word_embeddings": true, "torch_dtype": "bfloat16"}
> END

$ vram estimate config.json -m 8G --color=always
  <esc>[2mmodel<esc>[0m    <esc>[1mconfig.json<esc>[0m
           llama, 16 layers, 1.24 billion parameters, 2.30 GiB, mostly bf16
  <esc>[2mrun<esc>[0m      context 4096, 1 sequence, micro-batch 512, keys f16, values f16, flash
           attention on

  <esc>[1mdevice<esc>[0m     <esc>[1mlayers<esc>[0m
    <esc>[1mweights<esc>[0m     <esc>[1mKV cache<esc>[0m    <esc>[1mcompute<esc>[0m     <esc>[1moverhead<esc>[0m    <esc>[1mtotal<esc>[0m       <esc>[1mfree<esc>[0m
  <esc>[36mmemory:0<esc>[0m   input, 0-15, output
    2.30 GiB    128.00 MiB  254.50 MiB  512.00 MiB  <esc>[1m3.18 GiB<esc>[0m    <esc>[32m8.00 GiB<esc>[0m

  <esc>[32mfits: 3.18 GiB of 8.00 GiB free on 1 device<esc>[0m

  <esc>[1mAssumptions<esc>[0m
    <esc>[2mweights: counted from config.json, stored as bf16, as config.json says, which<esc>[0m
    <esc>[2mnames no quantization<esc>[0m
    <esc>[2mKV cache: 32.00 KiB a token, the whole context taken at once<esc>[0m
    <esc>[2mcompute: 512 tokens at once in numbers of 4 bytes, attention scores never<esc>[0m
    <esc>[2mcomplete in memory (flash attention), logits in f32 of 512 at once<esc>[0m
    <esc>[2moverhead: 512.00 MiB of each device for the runtime's context and kernels<esc>[0m
    <esc>[2m(--overhead)<esc>[0m
    <esc>[2mtoken embeddings lie on the first device where they fit<esc>[0m
    <esc>[2mfree: all of each --memory<esc>[0m

$ vram estimate config.json -c 8192 -m 8G
  model    config.json
           llama, 16 layers, 1.24 billion parameters, 2.30 GiB, mostly bf16
  run      context 8192, 1 sequence, micro-batch 512, keys f16, values f16, flash
  <...>
  memory:0   input, 0-15, output
    2.30 GiB    256.00 MiB  254.50 MiB  512.00 MiB  3.30 GiB    8.00 GiB

  fits: 3.30 GiB of 8.00 GiB free on 1 device

  Assumptions
    weights: counted from config.json, stored as bf16, as config.json says, which
    names no quantization
    KV cache: 32.00 KiB a token, the whole context taken at once
  <...>

$ vram estimate config.json -m 24G -c 256k -ctv q8_0 -fa off -cmoe
  model    config.json
           llama, 16 layers, 1.24 billion parameters, 2.30 GiB, mostly bf16
  run      context 262144, 1 sequence, micro-batch 512, keys f16, values q8_0,
           flash attention off
  <...>
    2.30 GiB    6.13 GiB    16.51 GiB   512.00 MiB  25.44 GiB   24.00 GiB

  warning: a sequence of 262144 tokens is longer than the 131072 that the model was trained for; use -c 131072
  warning: llama.cpp stores values as q8_0 only with flash attention; use -fa on
  warning: --cpu-moe has no effect, because the model has no experts
  does not fit: memory:0 needs 25.44 GiB and has 24.00 GiB free; a context of 131072 fits (-c 131072); 14 of 17 layers fit (-ngl 14)
  <...>
    KV cache: 24.50 KiB a token, the whole context taken at once
    compute: 512 tokens at once in numbers of 4 bytes, attention scores complete
    in memory, logits in f32 of 512 at once
  <...>
[1]

$ vram estimate . -c 131072 -m 5G --fit -ctk q8_0 -ctv q8_0
  model    .
           llama, 16 layers, 1.24 billion parameters, 2.30 GiB, mostly bf16
  run      context 131072, 1 sequence, micro-batch 512, keys q8_0, values q8_0,
           flash attention on
  <...>
    2.30 GiB    2.13 GiB    254.50 MiB  512.00 MiB  5.18 GiB    5.00 GiB

  largest context  120064  (-c 120064)
  most layers      16 of 17  (-ngl 16)

  does not fit: memory:0 needs 5.18 GiB and has 5.00 GiB free; a context of 120064 fits (-c 120064); 16 of 17 layers fit (-ngl 16)
  <...>
    KV cache: 17.00 KiB a token, the whole context taken at once
  <...>

$ vram estimate config.json -m 100M --fit
  model    config.json
           llama, 16 layers, 1.24 billion parameters, 2.30 GiB, mostly bf16
  <...>
  memory:0   input, 0-15, output
    2.30 GiB    128.00 MiB  254.50 MiB  512.00 MiB  3.18 GiB    100.00 MiB

  largest context  none
  most layers      0 of 17  (-ngl 0)

  does not fit: memory:0 needs 3.18 GiB and has 100.00 MiB free; it does not fit with a shorter context or fewer layers either
  <...>
[1]

$ vram estimate config.json -m 8G -ngl 8 --json
  <...>
    "verdict": "fits: 2.09 GiB of 8.00 GiB free on 1 device",
    "model": {
      "path": "config.json",
      "format": "config",
      "name": "",
      "architecture": "llama",
      "weight_type": "bf16",
      "quantization": "none",
      "family_known": true,
      "kv_guessed": false,
      "tied": true,
      "files": 1,
      "missing_files": 0,
      "tensors": 0,
      "layers": 16,
      "parameters": 1235814400,
      "active_parameters": 1235814400,
      "tower_parameters": 0,
      "weight_bytes": 2471628800,
      "input_bytes": 525336576,
      "output_bytes": 4096,
      "other_bytes": 0,
      "projector_bytes": 0,
      "context_most": 131072
    },
    "run": {
      "context": 4096,
      "sequences": 1,
      "batch": 2048,
      "micro_batch": 512,
      "k_type": "f16",
      "v_type": "f16",
      "flash_attention": true,
      "swa_full": false,
      "layers_on_devices": 7,
      "expert_layers_on_host": 0,
      "tensor_split": []
    },
    "devices": [
      {
        "device": "memory:0",
        "name": "",
        "first_layer": 9,
        "layers": 7,
        "expert_layers": 0,
        "input": true,
        "output": true,
        "weight_bytes": 1376841728,
        "kv_bytes": 58720256,
        "compute_bytes": 266862592,
        "overhead_bytes": 536870912,
        "total_bytes": 2239295488,
        "free_bytes": 8589934592,
        "fits": true
      }
    ],
    "host": {
      "device": "host",
      "name": "",
      "first_layer": 0,
      "layers": 9,
      "expert_layers": 0,
      "input": false,
      "output": false,
      "weight_bytes": 1094787072,
      "kv_bytes": 75497472,
      "compute_bytes": 46137344,
      "overhead_bytes": 0,
      "total_bytes": 1216421888,
      "free_bytes": null,
      "fits": true
    },
    "total": {
      "weight_bytes": 2471628800,
      "kv_bytes": 134217728,
      "compute_bytes": 312999936,
      "overhead_bytes": 536870912,
      "total_bytes": 3455717376,
      "token_bytes": 32768
    },
    "fit": null,
    "warnings": [],
    "assumptions": [
      "weights: counted from config.json, stored as bf16, as config.json says, which names no quantization",
      "KV cache: 32.00 KiB a token, the whole context taken at once",
      "compute: 512 tokens at once in numbers of 4 bytes, attention scores never complete in memory (flash attention), logits in f32 of 512 at once",
      "overhead: 512.00 MiB of each device for the runtime's context and kernels (--overhead)",
      "token embeddings lie on the first device where they fit",
      "free: all of each --memory"
    ]
  }

$ vram estimate config.json -m 1G --json | grep -e fits -e verdict; vram estimate config.json -m 1G --json >/dev/null
    "fits": false,
    "verdict": "does not fit: memory:0 needs 3.18 GiB and has 1.00 GiB free; it does not fit with a shorter context or fewer layers either",
        "fits": false
      "fits": true
[1]
$ vram estimate config.json -m 8G --n-gpu-layers=2 | grep output; vram estimate config.json -m 8G -ngl -1 | grep output
  memory:0   input, 15, output
  memory:0   input, 0-15, output

$ vram estimate config.json -m 2G --weights Q4_K_M
  model    config.json
           llama, 16 layers, 1.24 billion parameters, 762.59 MiB, mostly Q4_K_M
  <...>
    762.59 MiB  128.00 MiB  254.50 MiB  512.00 MiB  1.62 GiB    2.00 GiB

  fits: 1.62 GiB of 2.00 GiB free on 1 device

  Assumptions
    weights: counted from config.json, stored as Q4_K_M, as --weights says
  <...>

$ vram estimate config.json -c 0 -m 4G -fa off
  model    config.json
           llama, 16 layers, 1.24 billion parameters, 2.30 GiB, mostly bf16
  run      context 131072, 1 sequence, micro-batch 512, keys f16, values f16,
  <...>
    2.30 GiB    4.00 GiB    8.26 GiB    512.00 MiB  15.07 GiB   4.00 GiB

  does not fit: memory:0 needs 15.07 GiB and has 4.00 GiB free; a context of 12544 fits (-c 12544); 1 of 17 layers fit (-ngl 1)
  <...>
[1]

$ vram estimate config.json -m 8G -ngl 1
  <...>
  memory:0   input, output
    501.00 MiB  0 B         254.50 MiB  512.00 MiB  1.24 GiB    8.00 GiB
  host       0-15
    1.81 GiB    128.00 MiB  44.00 MiB   0 B         1.98 GiB    unknown

  fits: 1.24 GiB of 8.00 GiB free on 1 device
  <...>

$ base64 -d >mmproj.gguf <<'END'
> R0dVRgMAAAABAAAAAAAAAAIAAAAAAAAAFAAAAAAAAABnZW5lcmFsLmFyY2hpdGVjdHVyZQgAAAAEAAAAAAAAAGNsaXAXAAAAAAAA
> AGNsaXAudmlzaW9uLmJsb2NrX2NvdW50BAAAAAEAAAATAAAAAAAAAHYucGF0Y2hfZW1iZC53ZWlnaHQCAAAABAAAAAAAAAAEAAAA
> AAAAAAEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=
> END

$ vram estimate config.json --mmproj mmproj.gguf -m 8G -ngl 0
  <...>
  memory:0   projector
    32 B        0 B         0 B         512.00 MiB  512.00 MiB  8.00 GiB
  host       input, 0-15, output
    2.30 GiB    128.00 MiB  254.50 MiB  0 B         2.68 GiB    unknown

  fits: 512.00 MiB of 8.00 GiB free on 1 device
  <...>
    token embeddings lie on the host
    the projector's weights lie on the first device; memory for encoding an image
    is not counted
    free: all of each --memory

$ VRAM_SIM=devices=2,memory=2G vram estimate config.json --backend sim
  <...>
  sim:0      input, 0-6
    1.28 GiB    56.00 MiB   44.00 MiB   512.00 MiB  1.88 GiB    2.00 GiB
  sim:1      7-15, output
    1.51 GiB    72.00 MiB   254.50 MiB  512.00 MiB  2.33 GiB    2.00 GiB

  does not fit: sim:1 needs 2.33 GiB and has 2.00 GiB free; 14 of 17 layers fit (-ngl 14)
  <...>
    token embeddings lie on the first device where they fit, and a second time
    with the output
    layers are split over the devices in order: each is filled before the next
    free: as the simulated devices report it
[1]

$ VRAM_SIM=memory=8G,info=off vram estimate config.json --backend sim -d 0
  <...>
  sim:0      input, 0-15, output
    2.30 GiB    128.00 MiB  254.50 MiB  512.00 MiB  3.18 GiB    6.40 GiB

  fits: 3.18 GiB of 6.40 GiB free on 1 device
  <...>
    free: four fifths of the memory if the driver does not report it

$ vram estimate config.json -m 8G -m 8G -ts 3,1 -c 8k
  <...>
  memory:0   input, 0-12
    1.96 GiB    208.00 MiB  48.00 MiB   512.00 MiB  2.71 GiB    8.00 GiB
  memory:1   13-15, output
    849.03 MiB  48.00 MiB   254.50 MiB  512.00 MiB  1.62 GiB    8.00 GiB

  fits: 4.34 GiB of 16.00 GiB free on 2 devices
  <...>
    layers are split over the devices by --tensor-split
    free: all of each --memory

$ vram estimate config.json -m 2G -m 3G -np 4 -ub 256 -b 256 --overhead 100M
  model    config.json
           llama, 16 layers, 1.24 billion parameters, 2.30 GiB, mostly bf16
  run      context 4096, 4 sequences, micro-batch 256, keys f16, values f16, flash
  <...>
  memory:0   input, 0-10
    1.74 GiB    88.00 MiB   20.50 MiB   100.00 MiB  1.94 GiB    2.00 GiB
  memory:1   11-15, output
    1.06 GiB    40.00 MiB   127.25 MiB  100.00 MiB  1.32 GiB    3.00 GiB

  fits: 3.26 GiB of 5.00 GiB free on 2 devices
  <...>
    compute: 256 tokens at once in numbers of 4 bytes, attention scores never
    complete in memory (flash attention), logits in f32 of 256 at once
    overhead: 100.00 MiB of each device for the runtime's context and kernels
  <...>
    free: all of each --memory

$ vram estimate config.json --weights q4_K -m 2G --outputs 1 --activation-bytes 2
  <...>
    762.59 MiB  128.00 MiB  24.00 MiB   512.00 MiB  1.39 GiB    2.00 GiB

  fits: 1.39 GiB of 2.00 GiB free on 1 device
  <...>
    compute: 512 tokens at once in numbers of 2 bytes, attention scores never
    complete in memory (flash attention), logits in f32 of 1 at once
  <...>

$ COLUMNS=120 vram estimate config.json -m 2G -m 3G -np 4 -ub 256 -b 256 --overhead 100M
  model    config.json
           llama, 16 layers, 1.24 billion parameters, 2.30 GiB, mostly bf16
  run      context 4096, 4 sequences, micro-batch 256, keys f16, values f16, flash attention on

  device     layers                weights     KV cache    compute     overhead    total       free
  memory:0   input, 0-10           1.74 GiB    88.00 MiB   20.50 MiB   100.00 MiB  1.94 GiB    2.00 GiB
  memory:1   11-15, output         1.06 GiB    40.00 MiB   127.25 MiB  100.00 MiB  1.32 GiB    3.00 GiB

  fits: 3.26 GiB of 5.00 GiB free on 2 devices

  Assumptions
    weights: counted from config.json, stored as bf16, as config.json says, which names no quantization
    KV cache: 32.00 KiB a token, the whole context taken at once
    compute: 256 tokens at once in numbers of 4 bytes, attention scores never complete in memory (flash attention), logits
    in f32 of 256 at once
    overhead: 100.00 MiB of each device for the runtime's context and kernels (--overhead)
    token embeddings lie on the first device where they fit, and a second time with the output
    layers are split over the devices in order: each is filled before the next
    free: all of each --memory

$ cat >config.json <<'END'
> {"model_type": "qwen3_moe", "num_hidden_layers": 12, "hidden_size": 2048, "intermediate_size": 6144,
>  "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 151936,
>  "max_position_embeddings": 40960, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
>  "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768, "norm_topk_prob": true}
> END

$ vram estimate config.json -m 16G -ncmoe 9 -np 2
  model    config.json
           qwen3_moe, 12 layers, 8.10 billion parameters (1.31 at once), 15.09 GiB, mostly bf16
  run      context 4096, 2 sequences, micro-batch 512, keys f16, values f16, flash
  <...>
  memory:0   input, 0-11, output
    4.96 GiB    96.00 MiB   300.75 MiB  512.00 MiB  5.85 GiB    16.00 GiB
  host       experts of 9
    10.13 GiB   0 B         0 B         0 B         10.13 GiB   unknown

  fits: 5.85 GiB of 16.00 GiB free on 1 device
  <...>
    KV cache: 24.00 KiB a token, the whole context taken at once
  <...>

$ vram estimate config.json -m 16G -cmoe | grep host
  host       experts of 12

$ cat >config.json <<'END'
> {"model_type": "nobody", "num_hidden_layers": 16, "hidden_size": 2048, "intermediate_size": 8192,
>  "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 128256,
>  "max_position_embeddings": 131072, "tie_word_embeddings": true, "torch_dtype": "bfloat16"}
> END

$ vram estimate config.json -m 8G --guess
  model    config.json
           nobody, 16 layers, 1.24 billion parameters, 2.30 GiB, mostly bf16
  <...>
    2.30 GiB    128.00 MiB  254.50 MiB  512.00 MiB  3.18 GiB    8.00 GiB

  guess: fits: 3.18 GiB of 8.00 GiB free on 1 device; the family "nobody" is unknown; its weights and KV cache are taken as those of a Llama with these dimensions

  Assumptions
    weights: counted from config.json (a guess), stored as bf16, as config.json
    says, which names no quantization
    KV cache (a guess): 32.00 KiB a token, the whole context taken at once
  <...>

$ vram estimate config.json -m 1G --guess | grep guess:
  guess: does not fit: memory:0 needs 3.18 GiB and has 1.00 GiB free; it does not fit with a shorter context or fewer layers either; the family "nobody" is unknown; its weights and KV cache are taken as those of a Llama with these dimensions

$ vram estimate config.json -m 8G
  <...>
  cannot tell whether it fits: the family "nobody" is unknown; its weights and KV cache are taken as those of a Llama with these dimensions, 3.18 GiB in all; --guess accepts that
  <...>
! vram: cannot tell whether it fits: the family "nobody" is unknown; its weights and KV cache are taken as those of a Llama with these dimensions, 3.18 GiB in all; --guess accepts that
[2]

$ vram estimate config.json -m 8G --json >now
! vram: cannot tell whether it fits: the family "nobody" is unknown; its weights and KV cache are taken as those of a Llama with these dimensions, 3.18 GiB in all; --guess accepts that
[2]
$ grep -e fits -e guess -e verdict -e family -e total_bytes now
    "fits": null,
    "guess": true,
    "verdict": "cannot tell whether it fits: the family \"nobody\" is unknown; its weights and KV cache are taken as those of a Llama with these dimensions, 3.18 GiB in all; --guess accepts that",
      "family_known": false,
      "kv_guessed": true,
        "total_bytes": 3409580032,
        "fits": true
      "total_bytes": 0,
      "fits": true
      "total_bytes": 3409580032,
      "weights: counted from config.json (a guess), stored as bf16, as config.json says, which names no quantization",
      "KV cache (a guess): 32.00 KiB a token, the whole context taken at once",

$ cat >config.json <<'END'
> {"model_type": "llama", "num_hidden_layers": 16, "hidden_size": 2048, "intermediate_size": 8192,
>  "num_attention_heads": 32, "num_key_value_heads": 8, "time_step_limit": [0.0, Infinity], "low": -Infinity, "scale": NaN, "head_dim": 64, "vocab_size": 128256,
>  "max_position_embeddings": 131072, "tie_word_embeddings": true, "torch_dtype": "bfloat16"}
> END

# JSON as Python writes it.
$ vram estimate config.json -m 8G | grep fits
  fits: 3.18 GiB of 8.00 GiB free on 1 device

$ cat >config.json <<'END'
> {"model_type": "qwen3_moe", "num_hidden_layers": 2, "hidden_size": 4096, "intermediate_size": 12288,
>  "moe_intermediate_size": 1536, "num_experts": 128, "num_experts_per_tok": 8, "num_attention_heads": 64,
>  "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 151936, "max_position_embeddings": 40960,
>  "tie_word_embeddings": false, "torch_dtype": "bfloat16"}
> END

$ cat >hf_quant_config.json <<'END'
> {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4", "group_size": 16,
>  "exclude_modules": ["lm_head", "model.layers.0.mlp.gate", "model.layers.1.*"]}}
> END

$ vram estimate config.json -m 24G
  model    config.json
           qwen3_moe, 2 layers, 6.22 billion parameters (1.69 at once), 8.26 GiB, mostly bf16
  <...>
  memory:0   input, 0-1, output
    8.26 GiB    16.00 MiB   304.75 MiB  512.00 MiB  9.07 GiB    24.00 GiB

  warning: the quantization is nvfp4, but by the modules that it names or leaves out most bytes stay bf16; if the files are smaller, name the type with --weights
  fits: 9.07 GiB of 24.00 GiB free on 1 device

  Assumptions
    weights: counted from config.json, stored as bf16, as config.json says
    KV cache: 4.00 KiB a token, the whole context taken at once
  <...>

$ cat >config.json <<'END'
> {"model_type": "llama", "num_hidden_layers": 16, "hidden_size": 2048, "intermediate_size": 8192,
>  "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 128256,
>  "max_position_embeddings": 131072, "tie_word_embeddings": true, "torch_dtype": "bfloat16"}
> END

$ echo '{"metadata": {"total_size": 2471645608}, "weight_map": {"lm_head.weight": "model-00001-of-00002.safetensors",
>  "model.norm.weight": "model-00002-of-00002.safetensors"}}' >model.safetensors.index.json
> vram estimate . -m 8G; c=$?; rm model.safetensors.index.json; exit $c
  model    .
  <...>
    2.30 GiB    128.00 MiB  254.50 MiB  512.00 MiB  3.18 GiB    8.00 GiB

  fits: 3.18 GiB of 8.00 GiB free on 1 device

  Assumptions
    weights: the total_size of an index of 2 tensors; 2 of its 2 files were not
    read
  <...>

$ cat >config.json <<'END'
> {"model_type": "nobody", "num_hidden_layers": 16, "hidden_size": 2048, "intermediate_size": 8192,
>  "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 128256,
>  "max_position_embeddings": 131072, "tie_word_embeddings": true, "torch_dtype": "bfloat16"}
> END

$ echo '{"metadata": {"total_size": 2471645608}, "weight_map": {"lm_head.weight": "model-00001-of-00002.safetensors",
>  "model.norm.weight": "model-00002-of-00002.safetensors"}}' >model.safetensors.index.json
> vram estimate . -m 8G; c=$?; rm model.safetensors.index.json; exit $c
  model    .
           nobody, 16 layers, parameters not counted, 2.30 GiB, mostly bf16
  <...>
  cannot tell whether it fits: the family "nobody" is unknown; its keys and values are taken as those of a Llama with these dimensions, 3.18 GiB in all; --guess accepts that
  <...>
! vram: cannot tell whether it fits: the family "nobody" is unknown; its keys and values are taken as those of a Llama with these dimensions, 3.18 GiB in all; --guess accepts that
[2]
$ mkdir empty; vram estimate empty -m 8G
! vram: cannot read the model: empty: the folder holds no model: no model.safetensors, no index of it and no config.json; name a .gguf file itself (VRAM_ERR_INVALID)
[2]
$ head -c 700 tiny.gguf >cut.gguf; vram estimate cut.gguf -m 1G
! vram: cannot read the model: cut.gguf: the file is truncated: tensor blk.0.attn_q.weight ends behind the end of the file (VRAM_ERR_CORRUPT)
[2]

# A name on a hub, and a file that is not there.
$ vram estimate nvidia/Gemma-4-26B-A4B-NVFP4 -m 24G
> vram estimate models/Gemma.gguf -m 24G
! vram: nvidia/Gemma-4-26B-A4B-NVFP4: there is no such file. If it is a model's name, fetch its description first: `hf download nvidia/Gemma-4-26B-A4B-NVFP4 config.json --local-dir Gemma-4-26B-A4B-NVFP4`, then `vram estimate Gemma-4-26B-A4B-NVFP4`
! vram: cannot read the model: models/Gemma.gguf: there is no such file (VRAM_ERR_IO)
[2]
$ echo hello >x; vram estimate x -m 8G
! vram: cannot read the model: x: this is not a model: neither GGUF, nor safetensors, nor config.json (VRAM_ERR_INVALID)
[2]
$ vram estimate mmproj.gguf -m 8G
! vram: cannot read the model: mmproj.gguf: the file contains a projector for images or sound, not a language model; name the model, and this file as its projector (--mmproj) (VRAM_ERR_INVALID)
[2]
$ echo '{"weight_map": {"a": "model-00001-of-00002.safetensors"}}' >i.json; vram estimate i.json -m 8G
! vram: cannot read the model: model-00001-of-00002.safetensors: there is no such file; 1 of the 1 files of the index are missing, and it has no total_size (VRAM_ERR_IO)
[2]

$ base64 -d >vocab.gguf <<'END'
> R0dVRgMAAAAAAAAAAAAAAAUAAAAAAAAAFAAAAAAAAABnZW5lcmFsLmFyY2hpdGVjdHVyZQgAAAAFAAAAAAAAAGxsYW1hEQAAAAAA
> AABsbGFtYS5ibG9ja19jb3VudAQAAAACAAAAFgAAAAAAAABsbGFtYS5lbWJlZGRpbmdfbGVuZ3RoBAAAAAABAAAaAAAAAAAAAGxs
> YW1hLmF0dGVudGlvbi5oZWFkX2NvdW50BAAAAAQAAAAQAAAAAAAAAGxsYW1hLnZvY2FiX3NpemUEAAAAAwAAAA==
> END
$ vram estimate vocab.gguf -m 8G
! vram: cannot read the model: vocab.gguf contains no weights: it has 0 tensors, only the vocabulary and metadata of a model; name the file with the weights (VRAM_ERR_INVALID)
[2]

$ cat >config.json <<'END'
> {"model_type": "llama", "hidden_size": -1, "num_hidden_layers": 32}
> END
$ vram estimate config.json -m 24G
! vram: cannot read the model: config.json: hidden_size is -1, not a number from 0 to 4294967295 (VRAM_ERR_CORRUPT)
[2]

$ cat >config.json <<'END'
> {"_class_name": "UNet2DConditionModel", "_diffusers_version": "0.19.0", "sample_size": 128, "in_channels": 4}
> END
$ vram estimate config.json -m 24G
! vram: cannot read the model: "UNet2DConditionModel" is not a language model: it is a part of a diffusion model, and has neither tokens nor a key-value cache (VRAM_ERR_UNSUPPORTED)
[2]

$ cat >config.json <<'END'
> {"model_type": "llama", "num_hidden_layers": 16, "hidden_size": 2048, "intermediate_size": 8192,
>  "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": infinity, "vocab_size": 128256,
>  "max_position_embeddings": 131072, "tie_word_embeddings": true, "torch_dtype": "bfloat16"}
> END
$ vram estimate config.json -m 8G
! vram: cannot read the model: config.json: invalid JSON at byte 163: expected a value (VRAM_ERR_CORRUPT)
[2]
