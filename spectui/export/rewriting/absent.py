"""Options of llama.cpp's llama-server that other llama-servers lack. Facts only."""

_IK = """
-cl --cache-list --completion-bash -C --cpu-mask -Cr --cpu-range --cpu-strict --prio --poll -Cb
--cpu-mask-batch -Crb --cpu-range-batch --cpu-strict-batch --prio-batch --poll-batch
--kv-unified-per-slot --swa-full -ctxcp --swa-checkpoints -cms --checkpoint-min-step -kvu
--kv-unified -no-kvu --no-kv-unified --cache-idle-slots --no-cache-idle-slots --perf --no-perf
--warmup --sampler-seq --temperature --top-nsigma --typical-p -jf --json-schema-file -bs
--backend-sampling -kvo --kv-offload --repack -nr --no-repack --no-host -mm -mmu --mmproj-auto
--no-mmproj --no-mmproj-auto --mmproj-offload -mmdev --mmproj-device --mtmd-batch-max-tokens
--video-fps --video-timestamp-interval --video-ffmpeg-dir -lm --load-mode -lzm --lazy-mode
--list-devices -ncffn --n-cpu-ffn -fit -fitt --fit-target -fitc --fit-ctx --op-offload
--no-op-offload --tags --docker-repo -hf --reuse-port --cors-origins --cors-methods
--cors-headers --cors-credentials --no-cors-credentials --api-prefix --ui-config --webui-config
--ui-config-file --webui-config-file --no-ui-mcp-proxy --no-webui-mcp-proxy --tools
--tools-runtime --mcp-servers-config --mcp-servers-json -ag --agent -no-ag --no-agent --ui
--no-ui --no-webui --rerank --reranking --sse-ping-interval --cache-prompt --no-cache-prompt
--cache-reuse --props --slots --media-path --models-dir --models-preset --models-max
--models-autoload --no-models-autoload --no-jinja --reasoning-effort --reasoning-preserve
--no-reasoning-preserve --no-skip-chat-parsing --prefill-assistant --sleep-idle-seconds
--no-log-jsonl --offline --no-log-prefix --no-log-timestamps --spec-draft-hf -hfd -hfrd
--hf-repo-draft --spec-draft-threads --spec-draft-threads-batch --spec-draft-cpu-mask -Cd
--cpu-mask-draft --spec-draft-cpu-range -Crd --cpu-range-draft --spec-draft-cpu-strict
--cpu-strict-draft --spec-draft-prio --prio-draft --spec-draft-poll --poll-draft
--spec-draft-cpu-mask-batch -Cbd --cpu-mask-batch-draft --spec-draft-cpu-strict-batch
--cpu-strict-batch-draft --spec-draft-prio-batch --prio-batch-draft --spec-draft-poll-batch
--poll-batch-draft --spec-draft-type-k --spec-draft-type-v --spec-draft-override-tensor -otd
--override-tensor-draft --spec-draft-cpu-moe -cmoed --cpu-moe-draft --spec-draft-n-cpu-moe
--spec-draft-ncmoe -ncmoed --n-cpu-moe-draft --spec-draft-n-max --spec-draft-n-min
--spec-synth-len --spec-synth-rates --spec-draft-p-split --draft-p-split --spec-draft-p-min
--spec-draft-backend-sampling --no-spec-draft-backend-sampling --spec-draft-device
--spec-draft-ngl --spec-draft-model --spec-ngram-mod-n-min --spec-ngram-mod-n-max
--spec-ngram-mod-n-match --spec-ngram-simple-size-n --spec-ngram-simple-size-m
--spec-ngram-simple-min-hits --spec-ngram-map-k-size-n --spec-ngram-map-k-size-m
--spec-ngram-map-k-min-hits --spec-ngram-map-k4v-size-n --spec-ngram-map-k4v-size-m
--spec-ngram-map-k4v-min-hits --embd-gemma-default --fim-qwen-1.5b-default --fim-qwen-3b-default
--fim-qwen-7b-default --fim-qwen-7b-spec --fim-qwen-14b-spec --fim-qwen-30b-default
--gpt-oss-20b-default --gpt-oss-120b-default --vision-gemma-4b-default
--vision-gemma-12b-default --spec-default --mmap -dio --direct-io -ndio --no-direct-io
--spec-draft-ctx-size --spec-draft-replace --spec-ngram-check-rate -nopo --rpc-cache -no-cnv
--no-conversation -sys --system-prompt --embd-bge-small-en-default --embd-e5-small-en-default
--embd-gte-small-default
"""

ABSENT_IN_IK = frozenset(_IK.split())
"""Flags of llama.cpp, old and current, that ``common/common.cpp`` of ik_llama.cpp does not read."""
