"""Values that the options of llama-server take. Facts only, beside ``option_tables``.

A line holds what an option takes and, after ``|``, long flags of options that take it:

- ``text``: anything, or what only the machine or the server's own parser can tell.
- ``whole``, ``unsigned``, ``decimal``, ``finite``, ``exact``: a number. The server reads as far as
  it looks like one and forgets the rest, but the whole of an ``exact`` one. ``low..high`` are the
  values that it does not stop at, both inclusive, and either may be missing; ``!0`` is one that it
  stops at.
- ``unsigneds``, ``decimals``, ``exacts``: several with commas between them; ``x15`` for 15 at most.
- ``one``: one of the words that follow. Behind a number, words that stand for one.
- ``form NAME``: what ``option_values`` has a pattern for, under that name.

The readers are those of ``common/arg.cpp`` for the server (``std::stoi``, ``std::stoul``,
``std::stof``). Other programs read numbers alike, and have other words and forms.
"""

VALUES = """
text | --lookup-cache-static --lookup-cache-dynamic --reverse-prompt --samplers --sampler-seq
text | --dry-sequence-breaker --grammar --grammar-file --json-schema-file --mmproj --mmproj-url
text | --mmproj-device --video-ffmpeg-dir --rpc --device --override-tensor --lora --control-vector
text | --alias --tags --model --model-url --docker-repo --hf-repo --hf-file --hf-token --path
text | --cors-origins --cors-methods --cors-headers --api-prefix --ui-config --ui-config-file
text | --tools --tools-runtime --mcp-servers-config --mcp-servers-json --api-key --api-key-file
text | --ssl-key-file --ssl-cert-file --slot-save-path --media-path --models-dir --models-preset
text | --reasoning-effort --reasoning-budget-message --chat-template --chat-template-file --log-file
text | --log-prompts-dir --spec-draft-hf --spec-draft-override-tensor --spec-draft-device
text | --spec-draft-model --spec-type --defrag-thold
whole | --threads --threads-batch --ctx-size --kv-unified-per-slot --predict --batch-size
whole | --ubatch-size --keep --ctx-checkpoints --cache-ram --top-k --dry-allowed-length --mirostat
whole | --yarn-orig-ctx --image-min-tokens --image-max-tokens --mtmd-batch-max-tokens
whole | --video-timestamp-interval --main-gpu --fit-ctx --embd-normalize --port --timeout
whole | --sse-ping-interval --threads-http --cache-reuse --models-max --verbosity --cpu-strict-batch
whole | --poll-batch --spec-draft-threads --spec-draft-threads-batch --spec-draft-cpu-strict
whole | --spec-draft-poll --spec-draft-cpu-strict-batch --spec-draft-poll-batch --spec-draft-n-min
whole | --control-vector-layer-range
whole | --draft-max --draft-min --ctx-size-draft --grp-attn-n --grp-attn-w
whole !0 | --parallel
whole -1.. | --reasoning-budget
whole -1.. !0 | --sleep-idle-seconds
whole 0.. | --checkpoint-min-step --repeat-last-n --dry-penalty-last-n --n-cpu-moe --n-cpu-ffn
whole 0.. | --spec-draft-n-cpu-moe --spec-draft-n-max
whole -1..3 | --prio
whole 0..3 | --prio-batch --spec-draft-prio --spec-draft-prio-batch
whole 0..1024 | --spec-ngram-mod-n-min --spec-ngram-mod-n-max
whole 1..1024 | --spec-ngram-mod-n-match --spec-ngram-simple-size-n --spec-ngram-simple-size-m
whole 1..1024 | --spec-ngram-map-k-size-n --spec-ngram-map-k-size-m
whole 1..1024 | --spec-ngram-map-k4v-size-n --spec-ngram-map-k4v-size-m
whole 1.. | --spec-ngram-simple-min-hits --spec-ngram-map-k-min-hits --spec-ngram-map-k4v-min-hits
whole auto all | --gpu-layers --spec-draft-ngl
unsigned | --cpu-strict --poll --seed
unsigneds | --fit-target
decimal | --temp --top-p --min-p --top-nsigma --xtc-probability --xtc-threshold --typical
decimal | --dry-multiplier --dry-base --adaptive-target --adaptive-decay --dynatemp-range
decimal | --dynatemp-exp --mirostat-lr --mirostat-ent --rope-scale --rope-freq-base
decimal | --rope-freq-scale --yarn-ext-factor --yarn-attn-factor --yarn-beta-slow --yarn-beta-fast
decimal | --video-fps --slot-prompt-similarity --spec-draft-p-split --spec-draft-p-min
finite | --presence-penalty --frequency-penalty
finite 0.. !0 | --repeat-penalty
decimals x15 | --tensor-split
exact !-1 | --spec-synth-len
exacts | --spec-synth-rates
one on off auto enabled disabled true false 1 0 -1 | --flash-attn --reasoning --log-colors
one on off enabled disabled true false 1 0 | --fit
one none mean cls last rank | --pooling
one none linear yarn | --rope-scaling
one none layer row tensor | --split-mode
one auto none mmap mlock mmap+mlock dio | --load-mode
one on auto off | --lazy-mode
one distribute isolate numactl | --numa
one none auto deepseek deepseek-legacy | --reasoning-format
one f32 f16 bf16 q8_0 q4_0 q4_1 iq4_nl q5_0 q5_1 | --cache-type-k --cache-type-v
one f32 f16 bf16 q8_0 q4_0 q4_1 iq4_nl q5_0 q5_1 | --spec-draft-type-k --spec-draft-type-v
form addresses | --host
form mask | --cpu-mask --cpu-mask-batch --spec-draft-cpu-mask --spec-draft-cpu-mask-batch
form range | --cpu-range --cpu-range-batch --spec-draft-cpu-range
form bias | --logit-bias
form scaled | --lora-scaled --control-vector-scaled
form metadata | --override-kv
form json | --chat-template-kwargs
form schema | --json-schema
"""
