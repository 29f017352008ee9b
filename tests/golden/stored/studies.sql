BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('v3.2.0.a');
CREATE TABLE studies (
	study_id INTEGER NOT NULL, 
	study_name VARCHAR(512) NOT NULL, 
	PRIMARY KEY (study_id)
);
INSERT INTO "studies" VALUES(1,'target-8f7363ae');
INSERT INTO "studies" VALUES(2,'every-kind');
INSERT INTO "studies" VALUES(3,'advice-model');
INSERT INTO "studies" VALUES(4,'advice-off');
INSERT INTO "studies" VALUES(5,'advice-ngram-simple');
INSERT INTO "studies" VALUES(6,'advice-ngram-map-k');
INSERT INTO "studies" VALUES(7,'advice-ngram-map-k4v');
INSERT INTO "studies" VALUES(8,'advice-ngram-mod');
INSERT INTO "studies" VALUES(9,'advice-ngram-cache');
INSERT INTO "studies" VALUES(10,'advice-mtp');
INSERT INTO "studies" VALUES(11,'advice-chain');
INSERT INTO "studies" VALUES(12,'advice-chain-mtp');
INSERT INTO "studies" VALUES(13,'advice-reader');
INSERT INTO "studies" VALUES(14,'advice-of-an-older-version');
CREATE TABLE study_directions (
	study_direction_id INTEGER NOT NULL, 
	direction VARCHAR(8) NOT NULL, 
	study_id INTEGER NOT NULL, 
	objective INTEGER NOT NULL, 
	PRIMARY KEY (study_direction_id), 
	UNIQUE (study_id, objective), 
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
);
INSERT INTO "study_directions" VALUES(1,'MAXIMIZE',1,0);
INSERT INTO "study_directions" VALUES(2,'MAXIMIZE',2,0);
INSERT INTO "study_directions" VALUES(3,'MAXIMIZE',3,0);
INSERT INTO "study_directions" VALUES(4,'MAXIMIZE',4,0);
INSERT INTO "study_directions" VALUES(5,'MAXIMIZE',5,0);
INSERT INTO "study_directions" VALUES(6,'MAXIMIZE',6,0);
INSERT INTO "study_directions" VALUES(7,'MAXIMIZE',7,0);
INSERT INTO "study_directions" VALUES(8,'MAXIMIZE',8,0);
INSERT INTO "study_directions" VALUES(9,'MAXIMIZE',9,0);
INSERT INTO "study_directions" VALUES(10,'MAXIMIZE',10,0);
INSERT INTO "study_directions" VALUES(11,'MAXIMIZE',11,0);
INSERT INTO "study_directions" VALUES(12,'MAXIMIZE',12,0);
INSERT INTO "study_directions" VALUES(13,'MAXIMIZE',13,0);
INSERT INTO "study_directions" VALUES(14,'MAXIMIZE',14,0);
CREATE TABLE study_system_attributes (
	study_system_attribute_id INTEGER NOT NULL, 
	study_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (study_system_attribute_id), 
	UNIQUE (study_id, "key"), 
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
);
CREATE TABLE study_user_attributes (
	study_user_attribute_id INTEGER NOT NULL, 
	study_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (study_user_attribute_id), 
	UNIQUE (study_id, "key"), 
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
);
INSERT INTO "study_user_attributes" VALUES(1,1,'spec','{"machine": "fc9612e50a47", "llama.cpp": ["0.0.0", "b0000", "CPU"], "target": {"file": "target.gguf", "n_params": 96704, "size_bytes": 386816, "placement": {"n_gpu_layers": -1, "override_tensor": [], "cpu_moe": false, "n_cpu_moe": 0, "override_kv": [], "mmap": true, "cache_type_k": "f16", "cache_type_v": "f16"}}, "drafts": {"draft": {"file": "draft.gguf", "n_params": 96704, "size_bytes": 386816, "placement": {"n_gpu_layers": -1, "override_tensor": [], "cpu_moe": false, "n_cpu_moe": 0, "override_kv": [], "mmap": true, "cache_type_k": "f16", "cache_type_v": "f16"}}}, "context": {"ctx_size": 256, "batch_size": 2048, "ubatch_size": 512, "flash_attn": "auto", "threads": 1, "threads_batch": 0, "swa_full": false}, "schedule": "server", "prompts": "c38eae14ce30aee909fa869336b93ce89fb1f96371162c54500ea7c8990bd28b", "n_predict": 12, "sampling": {"temp": 0.0, "top_k": 40, "top_p": 0.95, "min_p": 0.05, "seed": 0, "ignore_eos": false}}');
INSERT INTO "study_user_attributes" VALUES(2,1,'outcome','{"ended": "2026-11-23T01:46:02.955415Z", "verdict": {"use_speculation": false, "reason": "Not decided, so leave it off: a gain of at least 2 % was not shown (draft: max 6, min 0, p_min 0.00: +5 %, 95 % interval \u221245 % to +362 %, 7 prompts); more prompts may decide it."}, "target": {"path": "/models/target.gguf", "n_gpu_layers": -1, "override_tensor": [], "cpu_moe": false, "n_cpu_moe": 0, "override_kv": [], "mmap": true, "cache_type_k": "f16", "cache_type_v": "f16"}, "draft": null, "context": {"ctx_size": 256, "batch_size": 2048, "ubatch_size": 512, "flash_attn": "auto", "threads": 1, "threads_batch": 0, "swa_full": false}, "speculation": null, "schedule": "server", "gain": {"speedup": 1.049851032239792, "low": 0.553495647211224, "high": 4.618759888296675, "n_prompts": 7}, "extra": [], "given": null, "dialect": "llama.cpp", "start": {"environment": [], "program": ["llama-server"]}}');
INSERT INTO "study_user_attributes" VALUES(3,1,'promise','{"case": {"baseline": {"path": "/models/target.gguf", "n_gpu_layers": -1, "override_tensor": [], "cpu_moe": false, "n_cpu_moe": 0, "override_kv": [], "mmap": true, "cache_type_k": "f16", "cache_type_v": "f16"}, "target": {"path": "/models/target.gguf", "n_gpu_layers": -1, "override_tensor": [], "cpu_moe": false, "n_cpu_moe": 0, "override_kv": [], "mmap": true, "cache_type_k": "f16", "cache_type_v": "f16"}, "draft": {"path": "/models/draft.gguf", "n_gpu_layers": -1, "override_tensor": [], "cpu_moe": false, "n_cpu_moe": 0, "override_kv": [], "mmap": true, "cache_type_k": "f16", "cache_type_v": "f16"}, "context": {"ctx_size": 256, "batch_size": 2048, "ubatch_size": 512, "flash_attn": "auto", "threads": 1, "threads_batch": 0, "swa_full": false}, "speculation": {"draft_max": 6, "draft_min": 0, "draft_p_min": 0.0, "ngram": null, "mtp": false, "reader": null, "ahead": []}, "sampling": {"temp": 0.0, "top_k": 40, "top_p": 0.95, "min_p": 0.05, "seed": 0, "ignore_eos": false}, "n_predict": 12, "extra": []}, "schedule": "server", "prompts": "/models/prompts.jsonl", "observed": [{"measurement": {"prompt_id": "a", "category": "x", "baseline_s": 0.003474381999922116, "baseline_tokens": 11, "speculative_s": 0.0017006959999434912, "speculative_tokens": 11, "n_accepted": 9}, "n_drafted": 9, "n_accepted": 9, "digest": "0bcdd8d511a4aaed"}, {"measurement": {"prompt_id": "b", "category": "x", "baseline_s": 0.001408701000173096, "baseline_tokens": 11, "speculative_s": 0.001174831999833259, "speculative_tokens": 11, "n_accepted": 9}, "n_drafted": 9, "n_accepted": 9, "digest": "cdebdb807b2a137c"}, {"measurement": {"prompt_id": "c", "category": "y", "baseline_s": 0.0017353880000428035, "baseline_tokens": 11, "speculative_s": 0.0027962309998201818, "speculative_tokens": 11, "n_accepted": 7}, "n_drafted": 16, "n_accepted": 7, "digest": "e92a0b470825f6c3"}, {"measurement": {"prompt_id": "d", "category": "y", "baseline_s": 0.002671022999948036, "baseline_tokens": 11, "speculative_s": 0.0011434360001203459, "speculative_tokens": 11, "n_accepted": 9}, "n_drafted": 9, "n_accepted": 9, "digest": "a6c154a8a5424ad7"}, {"measurement": {"prompt_id": "e", "category": "y", "baseline_s": 0.0007553870000265306, "baseline_tokens": 11, "speculative_s": 0.0014742389998900762, "speculative_tokens": 11, "n_accepted": 8}, "n_drafted": 12, "n_accepted": 8, "digest": "c35af9c3ed70337c"}, {"measurement": {"prompt_id": "f", "category": "x", "baseline_s": 0.0006837199998699361, "baseline_tokens": 11, "speculative_s": 0.001325307000115572, "speculative_tokens": 11, "n_accepted": 8}, "n_drafted": 10, "n_accepted": 8, "digest": "37c0230bb4989628"}, {"measurement": {"prompt_id": "g", "category": "z", "baseline_s": 0.0008011150000584166, "baseline_tokens": 11, "speculative_s": 0.0013674990000254184, "speculative_tokens": 11, "n_accepted": 8}, "n_drafted": 14, "n_accepted": 8, "digest": "c16f5f3c4f6fd971"}], "speedup": {"estimate": 1.049851032239792, "low": 0.553495647211224, "high": 4.618759888296675, "level": 0.95, "n_pairs": 7, "n_prompts": 7, "n_looks": 1, "interval_reason": null, "ceiling": 4.408237068}, "min_gain": 0.02, "llama_cpp": "b0000", "llama_cpp_commit": "0000000", "is_chat": false, "screen_threads": null}');
INSERT INTO "study_user_attributes" VALUES(4,2,'spec','{"machine": "0123456789ab", "target": {"file": "target.gguf"}}');
INSERT INTO "study_user_attributes" VALUES(5,2,'outcome','{"ended": "2026-05-01T12:00:00Z", "verdict": {"use_speculation": true, "reason": "It gains 20 % or nothing."}, "target": {"path": "/models/target.gguf", "n_gpu_layers": 40, "override_tensor": [{"pattern": "exps", "buffer": "CPU"}], "cpu_moe": false, "n_cpu_moe": 0, "override_kv": [], "mmap": true, "cache_type_k": "q8_0", "cache_type_v": "f16"}, "draft": {"path": "/models/draft.gguf", "n_gpu_layers": -1, "override_tensor": [], "cpu_moe": false, "n_cpu_moe": 0, "override_kv": [], "mmap": true, "cache_type_k": "f16", "cache_type_v": "f16"}, "context": {"ctx_size": 8192, "batch_size": 2048, "ubatch_size": 512, "flash_attn": "auto", "threads": 6, "threads_batch": 0, "swa_full": false}, "speculation": {"draft_max": 8, "draft_min": 1, "draft_p_min": 0.75, "ngram": null, "mtp": false, "reader": null, "ahead": []}, "schedule": "server", "gain": {"speedup": 1.2, "low": 1.1, "high": null, "n_prompts": 12}, "extra": ["--jinja", "--alias", "it''s"], "given": null, "dialect": "llama.cpp", "start": {"environment": [], "program": ["llama-server"]}}');
INSERT INTO "study_user_attributes" VALUES(6,2,'promise','{"case": {"baseline": {"path": "/models/target.gguf", "n_gpu_layers": 40, "override_tensor": [{"pattern": "exps", "buffer": "CPU"}], "cpu_moe": false, "n_cpu_moe": 0, "override_kv": [], "mmap": true, "cache_type_k": "q8_0", "cache_type_v": "f16"}, "target": {"path": "/models/target.gguf", "n_gpu_layers": 38, "override_tensor": [{"pattern": "exps", "buffer": "CPU"}], "cpu_moe": false, "n_cpu_moe": 0, "override_kv": [], "mmap": true, "cache_type_k": "q8_0", "cache_type_v": "f16"}, "draft": {"path": "/models/draft.gguf", "n_gpu_layers": -1, "override_tensor": [], "cpu_moe": false, "n_cpu_moe": 0, "override_kv": [], "mmap": true, "cache_type_k": "f16", "cache_type_v": "f16"}, "context": {"ctx_size": 8192, "batch_size": 2048, "ubatch_size": 512, "flash_attn": "auto", "threads": 6, "threads_batch": 0, "swa_full": false}, "speculation": {"draft_max": 8, "draft_min": 1, "draft_p_min": 0.75, "ngram": null, "mtp": false, "reader": null, "ahead": [{"draft_max": 12, "draft_min": 0, "draft_p_min": 0.0, "ngram": {"kind": "ngram-simple", "size_n": 4, "min_hits": 1, "n_match": 24, "n_min": 48}, "mtp": false, "reader": null, "ahead": []}]}, "sampling": {"temp": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05, "seed": 3, "ignore_eos": false}, "n_predict": 64, "extra": ["--jinja"]}, "schedule": "server", "prompts": "/models/prompts.jsonl", "observed": [{"measurement": {"prompt_id": "p0", "category": "c0", "baseline_s": 6.3, "baseline_tokens": 63, "speculative_s": 5.25, "speculative_tokens": 63, "n_accepted": 25}, "n_drafted": 40, "n_accepted": 25, "digest": "a615eeaee21de517"}], "speedup": {"estimate": 1.2, "low": 1.1, "high": 1.3, "level": 0.95, "n_pairs": 1, "n_prompts": 1, "n_looks": 1, "interval_reason": null, "ceiling": null}, "min_gain": 0.02, "llama_cpp": "b0000", "llama_cpp_commit": "0000000", "is_chat": true, "screen_threads": 5}');
INSERT INTO "study_user_attributes" VALUES(7,3,'spec','{"machine": "0123456789ab", "target": {"file": "target.gguf"}}');
INSERT INTO "study_user_attributes" VALUES(8,3,'outcome','{"ended": "2026-05-01T12:00:00Z", "verdict": {"use_speculation": true, "reason": "It gains 20 % or nothing."}, "target": {"path": "/models/target.gguf", "n_gpu_layers": 40, "override_tensor": [{"pattern": "exps", "buffer": "CPU"}], "cpu_moe": false, "n_cpu_moe": 0, "override_kv": [], "mmap": true, "cache_type_k": "q8_0", "cache_type_v": "f16"}, "draft": {"path": "/models/draft.gguf", "n_gpu_layers": -1, "override_tensor": [], "cpu_moe": false, "n_cpu_moe": 0, "override_kv": [], "mmap": true, "cache_type_k": "f16", "cache_type_v": "f16"}, "context": {"ctx_size": 8192, "batch_size": 2048, "ubatch_size": 512, "flash_attn": "auto", "threads": 6, "threads_batch": 0, "swa_full": false}, "speculation": {"draft_max": 8, "draft_min": 1, "draft_p_min": 0.75, "ngram": null, "mtp": false, "reader": null, "ahead": []}, "schedule": "server", "gain": {"speedup": 1.2, "low": 1.1, "high": null, "n_prompts": 12}, "extra": ["--jinja", "--alias", "it''s"], "given": null, "dialect": "llama.cpp", "start": {"environment": [], "program": ["llama-server"]}}');
INSERT INTO "study_user_attributes" VALUES(9,4,'spec','{"machine": "0123456789ab", "target": {"file": "target.gguf"}}');
INSERT INTO "study_user_attributes" VALUES(10,4,'outcome','{"ended": "2026-05-01T12:00:00Z", "verdict": {"use_speculation": false, "reason": "It gains 20 % or nothing."}, "target": {"path": "/models/target.gguf", "n_gpu_layers": 40, "override_tensor": [{"pattern": "exps", "buffer": "CPU"}], "cpu_moe": false, "n_cpu_moe": 0, "override_kv": [], "mmap": true, "cache_type_k": "q8_0", "cache_type_v": "f16"}, "draft": null, "context": {"ctx_size": 8192, "batch_size": 2048, "ubatch_size": 512, "flash_attn": "auto", "threads": 6, "threads_batch": 0, "swa_full": false}, "speculation": null, "schedule": "server", "gain": null, "extra": ["--jinja", "--alias", "it''s"], "given": null, "dialect": "llama.cpp", "start": {"environment": [], "program": ["llama-server"]}}');
INSERT INTO "study_user_attributes" VALUES(11,5,'spec','{"machine": "0123456789ab", "target": {"file": "target.gguf"}}');
INSERT INTO "study_user_attributes" VALUES(12,5,'outcome','{"ended": "2026-05-01T12:00:00Z", "verdict": {"use_speculation": true, "reason": "It gains 20 % or nothing."}, "target": {"path": "/models/target.gguf", "n_gpu_layers": 40, "override_tensor": [{"pattern": "exps", "buffer": "CPU"}], "cpu_moe": false, "n_cpu_moe": 0, "override_kv": [], "mmap": true, "cache_type_k": "q8_0", "cache_type_v": "f16"}, "draft": null, "context": {"ctx_size": 8192, "batch_size": 2048, "ubatch_size": 512, "flash_attn": "auto", "threads": 6, "threads_batch": 0, "swa_full": false}, "speculation": {"draft_max": 12, "draft_min": 0, "draft_p_min": 0.0, "ngram": {"kind": "ngram-simple", "size_n": 4, "min_hits": 1, "n_match": 24, "n_min": 48}, "mtp": false, "reader": null, "ahead": []}, "schedule": "server", "gain": {"speedup": 1.2, "low": 1.1, "high": null, "n_prompts": 12}, "extra": ["--jinja", "--alias", "it''s"], "given": ["model", "ctx-size"], "dialect": "llama.cpp", "start": {"environment": [], "program": ["llama-server"]}}');
INSERT INTO "study_user_attributes" VALUES(13,6,'spec','{"machine": "0123456789ab", "target": {"file": "target.gguf"}}');
INSERT INTO "study_user_attributes" VALUES(14,6,'outcome','{"ended": "2026-05-01T12:00:00Z", "verdict": {"use_speculation": true, "reason": "It gains 20 % or nothing."}, "target": {"path": "/models/target.gguf", "n_gpu_layers": 40, "override_tensor": [{"pattern": "exps", "buffer": "CPU"}], "cpu_moe": false, "n_cpu_moe": 0, "override_kv": [], "mmap": true, "cache_type_k": "q8_0", "cache_type_v": "f16"}, "draft": null, "context": {"ctx_size": 8192, "batch_size": 2048, "ubatch_size": 512, "flash_attn": "auto", "threads": 6, "threads_batch": 0, "swa_full": false}, "speculation": {"draft_max": 24, "draft_min": 0, "draft_p_min": 0.0, "ngram": {"kind": "ngram-map-k", "size_n": 8, "min_hits": 1, "n_match": 24, "n_min": 48}, "mtp": false, "reader": null, "ahead": []}, "schedule": "server", "gain": {"speedup": 1.2, "low": 1.1, "high": null, "n_prompts": 12}, "extra": ["--jinja", "--alias", "it''s"], "given": null, "dialect": "llama.cpp", "start": {"environment": [], "program": ["llama-server"]}}');
INSERT INTO "study_user_attributes" VALUES(15,7,'spec','{"machine": "0123456789ab", "target": {"file": "target.gguf"}}');
INSERT INTO "study_user_attributes" VALUES(16,7,'outcome','{"ended": "2026-05-01T12:00:00Z", "verdict": {"use_speculation": true, "reason": "It gains 20 % or nothing."}, "target": {"path": "/models/target.gguf", "n_gpu_layers": 40, "override_tensor": [{"pattern": "exps", "buffer": "CPU"}], "cpu_moe": false, "n_cpu_moe": 0, "override_kv": [], "mmap": true, "cache_type_k": "q8_0", "cache_type_v": "f16"}, "draft": null, "context": {"ctx_size": 8192, "batch_size": 2048, "ubatch_size": 512, "flash_attn": "auto", "threads": 6, "threads_batch": 0, "swa_full": false}, "speculation": {"draft_max": 32, "draft_min": 0, "draft_p_min": 0.0, "ngram": {"kind": "ngram-map-k4v", "size_n": 6, "min_hits": 2, "n_match": 24, "n_min": 48}, "mtp": false, "reader": null, "ahead": []}, "schedule": "server", "gain": {"speedup": 1.2, "low": 1.1, "high": null, "n_prompts": 12}, "extra": ["--jinja", "--alias", "it''s"], "given": null, "dialect": "llama.cpp", "start": {"environment": [], "program": ["llama-server"]}}');
INSERT INTO "study_user_attributes" VALUES(17,8,'spec','{"machine": "0123456789ab", "target": {"file": "target.gguf"}}');
INSERT INTO "study_user_attributes" VALUES(18,8,'outcome','{"ended": "2026-05-01T12:00:00Z", "verdict": {"use_speculation": true, "reason": "It gains 20 % or nothing."}, "target": {"path": "/models/target.gguf", "n_gpu_layers": 40, "override_tensor": [{"pattern": "exps", "buffer": "CPU"}], "cpu_moe": false, "n_cpu_moe": 0, "override_kv": [], "mmap": true, "cache_type_k": "q8_0", "cache_type_v": "f16"}, "draft": null, "context": {"ctx_size": 8192, "batch_size": 2048, "ubatch_size": 512, "flash_attn": "auto", "threads": 6, "threads_batch": 0, "swa_full": false}, "speculation": {"draft_max": 40, "draft_min": 0, "draft_p_min": 0.0, "ngram": {"kind": "ngram-mod", "size_n": 12, "min_hits": 1, "n_match": 20, "n_min": 4}, "mtp": false, "reader": null, "ahead": []}, "schedule": "server", "gain": {"speedup": 1.2, "low": 1.1, "high": null, "n_prompts": 12}, "extra": ["--jinja", "--alias", "it''s"], "given": null, "dialect": "ik", "start": {"environment": [], "program": ["llama-server"]}}');
INSERT INTO "study_user_attributes" VALUES(19,9,'spec','{"machine": "0123456789ab", "target": {"file": "target.gguf"}}');
INSERT INTO "study_user_attributes" VALUES(20,9,'outcome','{"ended": "2026-05-01T12:00:00Z", "verdict": {"use_speculation": true, "reason": "It gains 20 % or nothing."}, "target": {"path": "/models/target.gguf", "n_gpu_layers": 40, "override_tensor": [{"pattern": "exps", "buffer": "CPU"}], "cpu_moe": false, "n_cpu_moe": 0, "override_kv": [], "mmap": true, "cache_type_k": "q8_0", "cache_type_v": "f16"}, "draft": null, "context": {"ctx_size": 8192, "batch_size": 2048, "ubatch_size": 512, "flash_attn": "auto", "threads": 6, "threads_batch": 0, "swa_full": false}, "speculation": {"draft_max": 8, "draft_min": 0, "draft_p_min": 0.0, "ngram": {"kind": "ngram-cache", "size_n": 12, "min_hits": 1, "n_match": 24, "n_min": 48}, "mtp": false, "reader": null, "ahead": []}, "schedule": "server", "gain": {"speedup": 1.2, "low": 1.1, "high": null, "n_prompts": 12}, "extra": ["--jinja", "--alias", "it''s"], "given": null, "dialect": "llama.cpp", "start": {"environment": [], "program": ["llama-server"]}}');
INSERT INTO "study_user_attributes" VALUES(21,10,'spec','{"machine": "0123456789ab", "target": {"file": "target.gguf"}}');
INSERT INTO "study_user_attributes" VALUES(22,10,'outcome','{"ended": "2026-05-01T12:00:00Z", "verdict": {"use_speculation": true, "reason": "It gains 20 % or nothing."}, "target": {"path": "/models/target.gguf", "n_gpu_layers": 40, "override_tensor": [{"pattern": "exps", "buffer": "CPU"}], "cpu_moe": false, "n_cpu_moe": 0, "override_kv": [], "mmap": true, "cache_type_k": "q8_0", "cache_type_v": "f16"}, "draft": null, "context": {"ctx_size": 8192, "batch_size": 2048, "ubatch_size": 512, "flash_attn": "auto", "threads": 6, "threads_batch": 0, "swa_full": false}, "speculation": {"draft_max": 2, "draft_min": 0, "draft_p_min": 0.5, "ngram": null, "mtp": true, "reader": null, "ahead": []}, "schedule": "fast", "gain": {"speedup": 1.2, "low": 1.1, "high": null, "n_prompts": 12}, "extra": ["--jinja", "--alias", "it''s"], "given": null, "dialect": "llama.cpp", "start": {"environment": [], "program": ["llama-server"]}}');
INSERT INTO "study_user_attributes" VALUES(23,11,'spec','{"machine": "0123456789ab", "target": {"file": "target.gguf"}}');
INSERT INTO "study_user_attributes" VALUES(24,11,'outcome','{"ended": "2026-05-01T12:00:00Z", "verdict": {"use_speculation": true, "reason": "It gains 20 % or nothing."}, "target": {"path": "/models/target.gguf", "n_gpu_layers": 40, "override_tensor": [{"pattern": "exps", "buffer": "CPU"}], "cpu_moe": false, "n_cpu_moe": 0, "override_kv": [], "mmap": true, "cache_type_k": "q8_0", "cache_type_v": "f16"}, "draft": {"path": "/models/draft.gguf", "n_gpu_layers": -1, "override_tensor": [], "cpu_moe": false, "n_cpu_moe": 0, "override_kv": [], "mmap": true, "cache_type_k": "f16", "cache_type_v": "f16"}, "context": {"ctx_size": 8192, "batch_size": 2048, "ubatch_size": 512, "flash_attn": "auto", "threads": 6, "threads_batch": 0, "swa_full": false}, "speculation": {"draft_max": 8, "draft_min": 1, "draft_p_min": 0.75, "ngram": null, "mtp": false, "reader": null, "ahead": [{"draft_max": 12, "draft_min": 0, "draft_p_min": 0.0, "ngram": {"kind": "ngram-simple", "size_n": 4, "min_hits": 1, "n_match": 24, "n_min": 48}, "mtp": false, "reader": null, "ahead": []}, {"draft_max": 40, "draft_min": 0, "draft_p_min": 0.0, "ngram": {"kind": "ngram-mod", "size_n": 12, "min_hits": 1, "n_match": 20, "n_min": 4}, "mtp": false, "reader": null, "ahead": []}]}, "schedule": "server", "gain": {"speedup": 1.2, "low": 1.1, "high": null, "n_prompts": 12}, "extra": ["--jinja", "--alias", "it''s"], "given": null, "dialect": "llama.cpp", "start": {"environment": [], "program": ["llama-server"]}}');
INSERT INTO "study_user_attributes" VALUES(25,12,'spec','{"machine": "0123456789ab", "target": {"file": "target.gguf"}}');
INSERT INTO "study_user_attributes" VALUES(26,12,'outcome','{"ended": "2026-05-01T12:00:00Z", "verdict": {"use_speculation": true, "reason": "It gains 20 % or nothing."}, "target": {"path": "/models/target.gguf", "n_gpu_layers": 40, "override_tensor": [{"pattern": "exps", "buffer": "CPU"}], "cpu_moe": false, "n_cpu_moe": 0, "override_kv": [], "mmap": true, "cache_type_k": "q8_0", "cache_type_v": "f16"}, "draft": null, "context": {"ctx_size": 8192, "batch_size": 2048, "ubatch_size": 512, "flash_attn": "auto", "threads": 6, "threads_batch": 0, "swa_full": false}, "speculation": {"draft_max": 2, "draft_min": 0, "draft_p_min": 0.5, "ngram": null, "mtp": true, "reader": null, "ahead": [{"draft_max": 40, "draft_min": 0, "draft_p_min": 0.0, "ngram": {"kind": "ngram-mod", "size_n": 12, "min_hits": 1, "n_match": 20, "n_min": 4}, "mtp": false, "reader": null, "ahead": []}]}, "schedule": "server", "gain": {"speedup": 1.2, "low": 1.1, "high": null, "n_prompts": 12}, "extra": ["--jinja", "--alias", "it''s"], "given": null, "dialect": "llama.cpp", "start": {"environment": [], "program": ["llama-server"]}}');
INSERT INTO "study_user_attributes" VALUES(27,13,'spec','{"machine": "0123456789ab", "target": {"file": "target.gguf"}}');
INSERT INTO "study_user_attributes" VALUES(28,13,'outcome','{"ended": "2026-05-01T12:00:00Z", "verdict": {"use_speculation": true, "reason": "It gains 20 % or nothing."}, "target": {"path": "/models/target.gguf", "n_gpu_layers": 40, "override_tensor": [{"pattern": "exps", "buffer": "CPU"}], "cpu_moe": false, "n_cpu_moe": 0, "override_kv": [], "mmap": true, "cache_type_k": "q8_0", "cache_type_v": "f16"}, "draft": {"path": "/models/draft.gguf", "n_gpu_layers": -1, "override_tensor": [], "cpu_moe": false, "n_cpu_moe": 0, "override_kv": [], "mmap": true, "cache_type_k": "f16", "cache_type_v": "f16"}, "context": {"ctx_size": 8192, "batch_size": 2048, "ubatch_size": 512, "flash_attn": "auto", "threads": 6, "threads_batch": 0, "swa_full": false}, "speculation": {"draft_max": 8, "draft_min": 1, "draft_p_min": 0.75, "ngram": null, "mtp": false, "reader": "draft-eagle3", "ahead": []}, "schedule": "server", "gain": {"speedup": 1.2, "low": 1.1, "high": null, "n_prompts": 12}, "extra": ["--jinja", "--alias", "it''s"], "given": null, "dialect": "llama.cpp", "start": {"environment": [], "program": ["llama-server"]}}');
INSERT INTO "study_user_attributes" VALUES(29,14,'spec','{"machine": "0123456789ab", "target": {"file": "target.gguf"}}');
INSERT INTO "study_user_attributes" VALUES(30,14,'outcome','{"ended": "2026-05-01T12:00:00Z", "verdict": {"use_speculation": true, "reason": "It gains 20 % or nothing."}, "target": {"path": "/models/target.gguf", "n_gpu_layers": 40, "override_tensor": [{"pattern": "exps", "buffer": "CPU"}], "cpu_moe": false, "n_cpu_moe": 0, "override_kv": [], "mmap": true, "cache_type_k": "q8_0", "cache_type_v": "f16"}, "draft": {"path": "/models/draft.gguf", "n_gpu_layers": -1, "override_tensor": [], "cpu_moe": false, "n_cpu_moe": 0, "override_kv": [], "mmap": true, "cache_type_k": "f16", "cache_type_v": "f16"}, "context": {"ctx_size": 8192, "batch_size": 2048, "ubatch_size": 512, "flash_attn": "auto", "threads": 6, "threads_batch": 0, "swa_full": false}, "speculation": {"draft_max": 8, "draft_min": 1, "draft_p_min": 0.75, "ngram": null, "mtp": false, "reader": null, "ahead": []}, "schedule": "server", "gain": {"speedup": 1.2, "low": 1.1, "high": null, "n_prompts": 12}}');
CREATE TABLE trial_heartbeats (
	trial_heartbeat_id INTEGER NOT NULL, 
	trial_id INTEGER NOT NULL, 
	heartbeat DATETIME NOT NULL, 
	PRIMARY KEY (trial_heartbeat_id), 
	UNIQUE (trial_id), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
CREATE TABLE trial_intermediate_values (
	trial_intermediate_value_id INTEGER NOT NULL, 
	trial_id INTEGER NOT NULL, 
	step INTEGER NOT NULL, 
	intermediate_value FLOAT, 
	intermediate_value_type VARCHAR(7) NOT NULL, 
	PRIMARY KEY (trial_intermediate_value_id), 
	UNIQUE (trial_id, step), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
CREATE TABLE trial_params (
	param_id INTEGER NOT NULL, 
	trial_id INTEGER, 
	param_name VARCHAR(512), 
	param_value FLOAT, 
	distribution_json TEXT, 
	PRIMARY KEY (param_id), 
	UNIQUE (trial_id, param_name), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO "trial_params" VALUES(1,1,'kind',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["model", "ngram"]}}');
INSERT INTO "trial_params" VALUES(2,1,'draft_max',0.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 0, "high": 16}}');
INSERT INTO "trial_params" VALUES(3,1,'draft_min',0.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 0, "high": 4}}');
INSERT INTO "trial_params" VALUES(4,1,'draft_p_min',0.0,'{"name": "FloatDistribution", "attributes": {"step": 0.05, "low": 0.0, "high": 0.95, "log": false}}');
INSERT INTO "trial_params" VALUES(5,2,'kind',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["model", "ngram"]}}');
INSERT INTO "trial_params" VALUES(6,2,'draft_max',5.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 0, "high": 16}}');
INSERT INTO "trial_params" VALUES(7,2,'draft_min',0.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 0, "high": 4}}');
INSERT INTO "trial_params" VALUES(8,2,'draft_p_min',0.0,'{"name": "FloatDistribution", "attributes": {"step": 0.05, "low": 0.0, "high": 0.95, "log": false}}');
INSERT INTO "trial_params" VALUES(9,3,'kind',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["model", "ngram"]}}');
INSERT INTO "trial_params" VALUES(10,3,'draft_max',3.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 0, "high": 16}}');
INSERT INTO "trial_params" VALUES(11,3,'draft_min',0.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 0, "high": 4}}');
INSERT INTO "trial_params" VALUES(12,3,'draft_p_min',0.0,'{"name": "FloatDistribution", "attributes": {"step": 0.05, "low": 0.0, "high": 0.95, "log": false}}');
INSERT INTO "trial_params" VALUES(13,4,'kind',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["model", "ngram"]}}');
INSERT INTO "trial_params" VALUES(14,4,'draft_max',6.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 0, "high": 16}}');
INSERT INTO "trial_params" VALUES(15,4,'draft_min',0.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 0, "high": 4}}');
INSERT INTO "trial_params" VALUES(16,4,'draft_p_min',0.0,'{"name": "FloatDistribution", "attributes": {"step": 0.05, "low": 0.0, "high": 0.95, "log": false}}');
INSERT INTO "trial_params" VALUES(17,5,'kind',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["model", "ngram"]}}');
INSERT INTO "trial_params" VALUES(18,5,'draft_max',7.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 0, "high": 16}}');
INSERT INTO "trial_params" VALUES(19,5,'draft_min',0.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 0, "high": 4}}');
INSERT INTO "trial_params" VALUES(20,5,'draft_p_min',0.0,'{"name": "FloatDistribution", "attributes": {"step": 0.05, "low": 0.0, "high": 0.95, "log": false}}');
INSERT INTO "trial_params" VALUES(21,10,'kind',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["model", "ngram"]}}');
INSERT INTO "trial_params" VALUES(22,10,'draft',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["draft", "draft-mtp", "eagle"]}}');
INSERT INTO "trial_params" VALUES(23,10,'draft_max',0.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 0, "high": 16}}');
INSERT INTO "trial_params" VALUES(24,10,'draft_min',0.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 0, "high": 4}}');
INSERT INTO "trial_params" VALUES(25,10,'draft_p_min',0.0,'{"name": "FloatDistribution", "attributes": {"step": 0.05, "low": 0.0, "high": 0.95, "log": false}}');
INSERT INTO "trial_params" VALUES(26,11,'kind',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["model", "ngram"]}}');
INSERT INTO "trial_params" VALUES(27,11,'draft',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["draft", "draft-mtp", "eagle"]}}');
INSERT INTO "trial_params" VALUES(28,11,'draft_max',8.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 0, "high": 16}}');
INSERT INTO "trial_params" VALUES(29,11,'draft_min',1.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 0, "high": 4}}');
INSERT INTO "trial_params" VALUES(30,11,'draft_p_min',0.75,'{"name": "FloatDistribution", "attributes": {"step": 0.05, "low": 0.0, "high": 0.95, "log": false}}');
INSERT INTO "trial_params" VALUES(31,11,'ahead',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["none", "ngram-simple", "ngram-map-k", "ngram-mod"]}}');
INSERT INTO "trial_params" VALUES(32,12,'kind',1.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["model", "ngram"]}}');
INSERT INTO "trial_params" VALUES(33,12,'ngram_kind',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache"]}}');
INSERT INTO "trial_params" VALUES(34,12,'ngram_size_m',12.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 1, "high": 16}}');
INSERT INTO "trial_params" VALUES(35,12,'ngram_size_n',4.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 2, "high": 12}}');
INSERT INTO "trial_params" VALUES(36,16,'kind',1.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["model", "ngram"]}}');
INSERT INTO "trial_params" VALUES(37,16,'ngram_kind',4.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache"]}}');
INSERT INTO "trial_params" VALUES(38,17,'kind',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["model", "ngram"]}}');
INSERT INTO "trial_params" VALUES(39,17,'draft',1.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["draft", "draft-mtp", "eagle"]}}');
INSERT INTO "trial_params" VALUES(40,17,'draft_max',2.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 0, "high": 16}}');
INSERT INTO "trial_params" VALUES(41,17,'draft_min',0.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 0, "high": 4}}');
INSERT INTO "trial_params" VALUES(42,17,'draft_p_min',0.5,'{"name": "FloatDistribution", "attributes": {"step": 0.05, "low": 0.0, "high": 0.95, "log": false}}');
INSERT INTO "trial_params" VALUES(43,17,'ahead',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["none", "ngram-simple", "ngram-map-k", "ngram-mod"]}}');
INSERT INTO "trial_params" VALUES(44,22,'kind',1.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["model", "ngram"]}}');
INSERT INTO "trial_params" VALUES(45,22,'ngram_kind',3.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache"]}}');
INSERT INTO "trial_params" VALUES(46,22,'ngram_mod_n_max',12.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 2, "high": 16}}');
INSERT INTO "trial_params" VALUES(47,22,'ngram_mod_n_match',18.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 2, "high": 24}}');
INSERT INTO "trial_params" VALUES(48,22,'ngram_mod_n_min',1.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 0, "high": 4}}');
CREATE TABLE trial_system_attributes (
	trial_system_attribute_id INTEGER NOT NULL, 
	trial_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (trial_system_attribute_id), 
	UNIQUE (trial_id, "key"), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO "trial_system_attributes" VALUES(1,1,'fixed_params','{"kind": "model", "draft_max": 0, "draft_min": 0, "draft_p_min": 0.0, "ahead": "none"}');
INSERT INTO "trial_system_attributes" VALUES(2,2,'fixed_params','{"kind": "model", "draft_max": 5, "draft_min": 0, "draft_p_min": 0.0}');
INSERT INTO "trial_system_attributes" VALUES(3,3,'fixed_params','{"kind": "model", "draft_max": 3, "draft_min": 0, "draft_p_min": 0.0}');
INSERT INTO "trial_system_attributes" VALUES(4,4,'fixed_params','{"kind": "model", "draft_max": 6, "draft_min": 0, "draft_p_min": 0.0}');
INSERT INTO "trial_system_attributes" VALUES(5,5,'fixed_params','{"kind": "model", "draft_max": 7, "draft_min": 0, "draft_p_min": 0.0}');
INSERT INTO "trial_system_attributes" VALUES(6,6,'fixed_params','{"kind": "model", "draft_max": 10, "draft_min": 0, "draft_p_min": 0.0}');
INSERT INTO "trial_system_attributes" VALUES(7,7,'fixed_params','{"kind": "model", "draft_max": 11, "draft_min": 0, "draft_p_min": 0.0}');
INSERT INTO "trial_system_attributes" VALUES(8,8,'fixed_params','{"kind": "model", "draft_max": 16, "draft_min": 0, "draft_p_min": 0.75}');
INSERT INTO "trial_system_attributes" VALUES(9,9,'fixed_params','{"kind": "ngram", "ngram_kind": "ngram-simple", "ngram_size_m": 8, "ngram_size_n": 4}');
INSERT INTO "trial_system_attributes" VALUES(10,10,'fixed_params','{"kind": "model", "draft": "draft", "draft_max": 0, "draft_min": 0, "draft_p_min": 0.0, "ahead": "none"}');
INSERT INTO "trial_system_attributes" VALUES(11,11,'fixed_params','{"kind": "model", "draft": "draft", "draft_max": 8, "draft_min": 1, "draft_p_min": 0.75, "ahead": "none"}');
INSERT INTO "trial_system_attributes" VALUES(12,12,'fixed_params','{"kind": "ngram", "ngram_kind": "ngram-simple", "ngram_size_m": 12, "ngram_size_n": 4}');
INSERT INTO "trial_system_attributes" VALUES(13,13,'fixed_params','{}');
INSERT INTO "trial_system_attributes" VALUES(14,14,'fixed_params','{}');
INSERT INTO "trial_system_attributes" VALUES(15,15,'fixed_params','{}');
INSERT INTO "trial_system_attributes" VALUES(16,16,'fixed_params','{"kind": "ngram", "ngram_kind": "ngram-cache"}');
INSERT INTO "trial_system_attributes" VALUES(17,17,'fixed_params','{"kind": "model", "draft": "draft-mtp", "draft_max": 2, "draft_min": 0, "draft_p_min": 0.5, "ahead": "none"}');
INSERT INTO "trial_system_attributes" VALUES(18,18,'fixed_params','{}');
INSERT INTO "trial_system_attributes" VALUES(19,19,'fixed_params','{}');
INSERT INTO "trial_system_attributes" VALUES(20,20,'fixed_params','{}');
INSERT INTO "trial_system_attributes" VALUES(21,21,'fixed_params','{}');
CREATE TABLE trial_user_attributes (
	trial_user_attribute_id INTEGER NOT NULL, 
	trial_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (trial_user_attribute_id), 
	UNIQUE (trial_id, "key"), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO "trial_user_attributes" VALUES(1,1,'off','true');
INSERT INTO "trial_user_attributes" VALUES(2,1,'owner','{"host": "host", "pid": 999999999}');
INSERT INTO "trial_user_attributes" VALUES(3,1,'record','{"number": 0, "state": "complete", "arm": {"draft": null, "speculation": null, "n_cpu_moe": null}, "prompts": [{"prompt_id": "a", "category": "x", "n_tokens": 11, "decode_s": 0.0006835300000602729, "n_drafted": 0, "n_accepted": 0, "n_rounds": 11}, {"prompt_id": "b", "category": "x", "n_tokens": 11, "decode_s": 0.0006696289999581495, "n_drafted": 0, "n_accepted": 0, "n_rounds": 11}, {"prompt_id": "c", "category": "y", "n_tokens": 11, "decode_s": 0.005981090999966909, "n_drafted": 0, "n_accepted": 0, "n_rounds": 11}, {"prompt_id": "d", "category": "y", "n_tokens": 11, "decode_s": 0.0006515420000141603, "n_drafted": 0, "n_accepted": 0, "n_rounds": 11}, {"prompt_id": "e", "category": "y", "n_tokens": 11, "decode_s": 0.0006331649999538058, "n_drafted": 0, "n_accepted": 0, "n_rounds": 11}, {"prompt_id": "f", "category": "x", "n_tokens": 11, "decode_s": 0.0006478569998762396, "n_drafted": 0, "n_accepted": 0, "n_rounds": 11}, {"prompt_id": "g", "category": "z", "n_tokens": 11, "decode_s": 0.0007423570000355539, "n_drafted": 0, "n_accepted": 0, "n_rounds": 11}], "anchor_tokens_per_s": 10841.616043194146, "noisy": true, "error": null}');
INSERT INTO "trial_user_attributes" VALUES(4,2,'off','false');
INSERT INTO "trial_user_attributes" VALUES(5,3,'off','false');
INSERT INTO "trial_user_attributes" VALUES(6,4,'off','false');
INSERT INTO "trial_user_attributes" VALUES(7,5,'off','false');
INSERT INTO "trial_user_attributes" VALUES(8,6,'off','false');
INSERT INTO "trial_user_attributes" VALUES(9,7,'off','false');
INSERT INTO "trial_user_attributes" VALUES(10,8,'off','false');
INSERT INTO "trial_user_attributes" VALUES(11,9,'off','false');
INSERT INTO "trial_user_attributes" VALUES(12,2,'owner','{"host": "host", "pid": 999999999}');
INSERT INTO "trial_user_attributes" VALUES(13,2,'record','{"number": 1, "state": "complete", "arm": {"draft": "draft", "speculation": {"draft_max": 5, "draft_min": 0, "draft_p_min": 0.0, "ngram": null, "mtp": false, "reader": null, "ahead": []}, "n_cpu_moe": null}, "prompts": [{"prompt_id": "a", "category": "x", "n_tokens": 11, "decode_s": 0.0016643819999444531, "n_drafted": 9, "n_accepted": 9, "n_rounds": 2}, {"prompt_id": "b", "category": "x", "n_tokens": 11, "decode_s": 0.0016072169999006292, "n_drafted": 9, "n_accepted": 9, "n_rounds": 2}, {"prompt_id": "c", "category": "y", "n_tokens": 11, "decode_s": 0.00572301600004721, "n_drafted": 14, "n_accepted": 7, "n_rounds": 4}, {"prompt_id": "d", "category": "y", "n_tokens": 11, "decode_s": 0.004813608999938879, "n_drafted": 9, "n_accepted": 9, "n_rounds": 2}, {"prompt_id": "e", "category": "y", "n_tokens": 11, "decode_s": 0.007505224000169619, "n_drafted": 11, "n_accepted": 8, "n_rounds": 3}, {"prompt_id": "f", "category": "x", "n_tokens": 11, "decode_s": 0.0017668650000359776, "n_drafted": 9, "n_accepted": 8, "n_rounds": 3}, {"prompt_id": "g", "category": "z", "n_tokens": 11, "decode_s": 0.006086518000074648, "n_drafted": 12, "n_accepted": 8, "n_rounds": 3}], "anchor_tokens_per_s": 6383.579351770719, "noisy": false, "error": null}');
INSERT INTO "trial_user_attributes" VALUES(14,3,'owner','{"host": "host", "pid": 999999999}');
INSERT INTO "trial_user_attributes" VALUES(15,3,'record','{"number": 2, "state": "complete", "arm": {"draft": "draft", "speculation": {"draft_max": 3, "draft_min": 0, "draft_p_min": 0.0, "ngram": null, "mtp": false, "reader": null, "ahead": []}, "n_cpu_moe": null}, "prompts": [{"prompt_id": "a", "category": "x", "n_tokens": 11, "decode_s": 0.003754369000034785, "n_drafted": 8, "n_accepted": 8, "n_rounds": 3}, {"prompt_id": "b", "category": "x", "n_tokens": 11, "decode_s": 0.0018688769998789212, "n_drafted": 8, "n_accepted": 8, "n_rounds": 3}, {"prompt_id": "c", "category": "y", "n_tokens": 11, "decode_s": 0.002021204999891779, "n_drafted": 13, "n_accepted": 6, "n_rounds": 5}, {"prompt_id": "d", "category": "y", "n_tokens": 11, "decode_s": 0.0011428049999722134, "n_drafted": 8, "n_accepted": 8, "n_rounds": 3}, {"prompt_id": "e", "category": "y", "n_tokens": 11, "decode_s": 0.0016724439999507013, "n_drafted": 11, "n_accepted": 7, "n_rounds": 4}, {"prompt_id": "f", "category": "x", "n_tokens": 11, "decode_s": 0.005349097999896912, "n_drafted": 9, "n_accepted": 7, "n_rounds": 4}, {"prompt_id": "g", "category": "z", "n_tokens": 11, "decode_s": 0.0011407419999613921, "n_drafted": 8, "n_accepted": 8, "n_rounds": 3}], "anchor_tokens_per_s": 4230.989555060055, "noisy": true, "error": null}');
INSERT INTO "trial_user_attributes" VALUES(16,4,'owner','{"host": "host", "pid": 999999999}');
INSERT INTO "trial_user_attributes" VALUES(17,4,'record','{"number": 3, "state": "complete", "arm": {"draft": "draft", "speculation": {"draft_max": 6, "draft_min": 0, "draft_p_min": 0.0, "ngram": null, "mtp": false, "reader": null, "ahead": []}, "n_cpu_moe": null}, "prompts": [{"prompt_id": "a", "category": "x", "n_tokens": 11, "decode_s": 0.00415602799989756, "n_drafted": 9, "n_accepted": 9, "n_rounds": 2}, {"prompt_id": "b", "category": "x", "n_tokens": 11, "decode_s": 0.0015245239999330806, "n_drafted": 9, "n_accepted": 9, "n_rounds": 2}, {"prompt_id": "c", "category": "y", "n_tokens": 11, "decode_s": 0.007370372999957908, "n_drafted": 16, "n_accepted": 7, "n_rounds": 4}, {"prompt_id": "d", "category": "y", "n_tokens": 11, "decode_s": 0.0015680189999329741, "n_drafted": 9, "n_accepted": 9, "n_rounds": 2}, {"prompt_id": "e", "category": "y", "n_tokens": 11, "decode_s": 0.0018005260001245915, "n_drafted": 12, "n_accepted": 8, "n_rounds": 3}, {"prompt_id": "f", "category": "x", "n_tokens": 11, "decode_s": 0.0015047150000100373, "n_drafted": 10, "n_accepted": 8, "n_rounds": 3}, {"prompt_id": "g", "category": "z", "n_tokens": 11, "decode_s": 0.00502035799991063, "n_drafted": 14, "n_accepted": 8, "n_rounds": 3}], "anchor_tokens_per_s": 4526.894246857613, "noisy": true, "error": null}');
INSERT INTO "trial_user_attributes" VALUES(18,5,'owner','{"host": "host", "pid": 999999999}');
INSERT INTO "trial_user_attributes" VALUES(19,5,'record','{"number": 4, "state": "complete", "arm": {"draft": "draft", "speculation": {"draft_max": 7, "draft_min": 0, "draft_p_min": 0.0, "ngram": null, "mtp": false, "reader": null, "ahead": []}, "n_cpu_moe": null}, "prompts": [{"prompt_id": "a", "category": "x", "n_tokens": 11, "decode_s": 0.0011118679999526648, "n_drafted": 9, "n_accepted": 9, "n_rounds": 2}, {"prompt_id": "b", "category": "x", "n_tokens": 11, "decode_s": 0.0015628609999112086, "n_drafted": 9, "n_accepted": 9, "n_rounds": 2}, {"prompt_id": "c", "category": "y", "n_tokens": 11, "decode_s": 0.007285876999958418, "n_drafted": 18, "n_accepted": 7, "n_rounds": 4}, {"prompt_id": "d", "category": "y", "n_tokens": 11, "decode_s": 0.0011790189998919232, "n_drafted": 9, "n_accepted": 9, "n_rounds": 2}, {"prompt_id": "e", "category": "y", "n_tokens": 11, "decode_s": 0.0014790660000016942, "n_drafted": 13, "n_accepted": 8, "n_rounds": 3}, {"prompt_id": "f", "category": "x", "n_tokens": 11, "decode_s": 0.0037121969999134308, "n_drafted": 11, "n_accepted": 8, "n_rounds": 3}, {"prompt_id": "g", "category": "z", "n_tokens": 11, "decode_s": 0.003634530999988783, "n_drafted": 15, "n_accepted": 8, "n_rounds": 3}], "anchor_tokens_per_s": 12134.581239551784, "noisy": true, "error": null}');
INSERT INTO "trial_user_attributes" VALUES(20,10,'off','true');
INSERT INTO "trial_user_attributes" VALUES(21,11,'off','false');
INSERT INTO "trial_user_attributes" VALUES(22,12,'off','false');
INSERT INTO "trial_user_attributes" VALUES(23,13,'off','false');
INSERT INTO "trial_user_attributes" VALUES(24,13,'arm','{"draft": null, "speculation": {"draft_max": 24, "draft_min": 0, "draft_p_min": 0.0, "ngram": {"kind": "ngram-map-k", "size_n": 8, "min_hits": 1, "n_match": 24, "n_min": 48}, "mtp": false, "reader": null, "ahead": []}, "n_cpu_moe": null}');
INSERT INTO "trial_user_attributes" VALUES(25,14,'off','false');
INSERT INTO "trial_user_attributes" VALUES(26,14,'arm','{"draft": null, "speculation": {"draft_max": 32, "draft_min": 0, "draft_p_min": 0.0, "ngram": {"kind": "ngram-map-k4v", "size_n": 6, "min_hits": 2, "n_match": 24, "n_min": 48}, "mtp": false, "reader": null, "ahead": []}, "n_cpu_moe": null}');
INSERT INTO "trial_user_attributes" VALUES(27,15,'off','false');
INSERT INTO "trial_user_attributes" VALUES(28,15,'arm','{"draft": null, "speculation": {"draft_max": 40, "draft_min": 0, "draft_p_min": 0.0, "ngram": {"kind": "ngram-mod", "size_n": 12, "min_hits": 1, "n_match": 20, "n_min": 4}, "mtp": false, "reader": null, "ahead": []}, "n_cpu_moe": null}');
INSERT INTO "trial_user_attributes" VALUES(29,16,'off','false');
INSERT INTO "trial_user_attributes" VALUES(30,17,'off','false');
INSERT INTO "trial_user_attributes" VALUES(31,18,'off','false');
INSERT INTO "trial_user_attributes" VALUES(32,18,'arm','{"draft": "draft", "speculation": {"draft_max": 8, "draft_min": 1, "draft_p_min": 0.75, "ngram": null, "mtp": false, "reader": null, "ahead": [{"draft_max": 12, "draft_min": 0, "draft_p_min": 0.0, "ngram": {"kind": "ngram-simple", "size_n": 4, "min_hits": 1, "n_match": 24, "n_min": 48}, "mtp": false, "reader": null, "ahead": []}, {"draft_max": 40, "draft_min": 0, "draft_p_min": 0.0, "ngram": {"kind": "ngram-mod", "size_n": 12, "min_hits": 1, "n_match": 20, "n_min": 4}, "mtp": false, "reader": null, "ahead": []}]}, "n_cpu_moe": null}');
INSERT INTO "trial_user_attributes" VALUES(33,19,'off','false');
INSERT INTO "trial_user_attributes" VALUES(34,19,'arm','{"draft": "draft-mtp", "speculation": {"draft_max": 2, "draft_min": 0, "draft_p_min": 0.5, "ngram": null, "mtp": true, "reader": null, "ahead": [{"draft_max": 40, "draft_min": 0, "draft_p_min": 0.0, "ngram": {"kind": "ngram-mod", "size_n": 12, "min_hits": 1, "n_match": 20, "n_min": 4}, "mtp": false, "reader": null, "ahead": []}]}, "n_cpu_moe": null}');
INSERT INTO "trial_user_attributes" VALUES(35,20,'off','false');
INSERT INTO "trial_user_attributes" VALUES(36,20,'arm','{"draft": "eagle", "speculation": {"draft_max": 8, "draft_min": 1, "draft_p_min": 0.75, "ngram": null, "mtp": false, "reader": "draft-eagle3", "ahead": []}, "n_cpu_moe": null}');
INSERT INTO "trial_user_attributes" VALUES(37,21,'off','false');
INSERT INTO "trial_user_attributes" VALUES(38,21,'arm','{"draft": "draft", "speculation": {"draft_max": 8, "draft_min": 1, "draft_p_min": 0.75, "ngram": null, "mtp": false, "reader": null, "ahead": []}, "n_cpu_moe": 12}');
INSERT INTO "trial_user_attributes" VALUES(39,10,'owner','{"host": "host", "pid": 999999999}');
INSERT INTO "trial_user_attributes" VALUES(40,10,'record','{"number": 0, "state": "complete", "arm": {"draft": null, "speculation": null, "n_cpu_moe": null}, "prompts": [{"prompt_id": "p0", "category": "c0", "n_tokens": 63, "decode_s": 6.3, "n_drafted": 0, "n_accepted": 0, "n_rounds": 38}, {"prompt_id": "p1", "category": "c1", "n_tokens": 63, "decode_s": 6.222222222222222, "n_drafted": 0, "n_accepted": 0, "n_rounds": 37}, {"prompt_id": "p2", "category": "c0", "n_tokens": 63, "decode_s": 6.146341463414634, "n_drafted": 0, "n_accepted": 0, "n_rounds": null}], "anchor_tokens_per_s": 10.125, "noisy": false, "error": null}');
INSERT INTO "trial_user_attributes" VALUES(41,11,'owner','{"host": "host", "pid": 999999999}');
INSERT INTO "trial_user_attributes" VALUES(42,11,'record','{"number": 1, "state": "complete", "arm": {"draft": "draft", "speculation": {"draft_max": 8, "draft_min": 1, "draft_p_min": 0.75, "ngram": null, "mtp": false, "reader": null, "ahead": []}, "n_cpu_moe": null}, "prompts": [{"prompt_id": "p0", "category": "c0", "n_tokens": 63, "decode_s": 6.0, "n_drafted": 40, "n_accepted": 25, "n_rounds": 38}, {"prompt_id": "p1", "category": "c1", "n_tokens": 63, "decode_s": 5.929411764705883, "n_drafted": 40, "n_accepted": 26, "n_rounds": 37}, {"prompt_id": "p2", "category": "c0", "n_tokens": 63, "decode_s": 5.8604651162790695, "n_drafted": 40, "n_accepted": 27, "n_rounds": null}], "anchor_tokens_per_s": 10.125, "noisy": true, "error": null}');
INSERT INTO "trial_user_attributes" VALUES(43,12,'owner','{"host": "host", "pid": 999999999}');
INSERT INTO "trial_user_attributes" VALUES(44,12,'record','{"number": 2, "state": "complete", "arm": {"draft": null, "speculation": {"draft_max": 12, "draft_min": 0, "draft_p_min": 0.0, "ngram": {"kind": "ngram-simple", "size_n": 4, "min_hits": 1, "n_match": 24, "n_min": 48}, "mtp": false, "reader": null, "ahead": []}, "n_cpu_moe": null}, "prompts": [{"prompt_id": "p0", "category": "c0", "n_tokens": 63, "decode_s": 5.7272727272727275, "n_drafted": 40, "n_accepted": 25, "n_rounds": 38}, {"prompt_id": "p1", "category": "c1", "n_tokens": 63, "decode_s": 5.662921348314606, "n_drafted": 40, "n_accepted": 26, "n_rounds": 37}, {"prompt_id": "p2", "category": "c0", "n_tokens": 63, "decode_s": 5.6, "n_drafted": 40, "n_accepted": 27, "n_rounds": null}], "anchor_tokens_per_s": 10.125, "noisy": false, "error": null}');
INSERT INTO "trial_user_attributes" VALUES(45,13,'owner','{"host": "host", "pid": 999999999}');
INSERT INTO "trial_user_attributes" VALUES(46,13,'record','{"number": 3, "state": "fail", "arm": {"draft": null, "speculation": {"draft_max": 24, "draft_min": 0, "draft_p_min": 0.0, "ngram": {"kind": "ngram-map-k", "size_n": 8, "min_hits": 1, "n_match": 24, "n_min": 48}, "mtp": false, "reader": null, "ahead": []}, "n_cpu_moe": null}, "prompts": [], "anchor_tokens_per_s": null, "noisy": false, "error": "it does not fit; choose a smaller context"}');
INSERT INTO "trial_user_attributes" VALUES(47,14,'owner','{"host": "host", "pid": 999999999}');
INSERT INTO "trial_user_attributes" VALUES(48,14,'record','{"number": 4, "state": "interrupted", "arm": {"draft": null, "speculation": {"draft_max": 32, "draft_min": 0, "draft_p_min": 0.0, "ngram": {"kind": "ngram-map-k4v", "size_n": 6, "min_hits": 2, "n_match": 24, "n_min": 48}, "mtp": false, "reader": null, "ahead": []}, "n_cpu_moe": null}, "prompts": [], "anchor_tokens_per_s": null, "noisy": false, "error": "interrupted"}');
INSERT INTO "trial_user_attributes" VALUES(49,15,'owner','{"host": "host", "pid": 999999999}');
INSERT INTO "trial_user_attributes" VALUES(50,15,'record','{"number": 5, "state": "complete", "arm": {"draft": null, "speculation": {"draft_max": 40, "draft_min": 0, "draft_p_min": 0.0, "ngram": {"kind": "ngram-mod", "size_n": 12, "min_hits": 1, "n_match": 20, "n_min": 4}, "mtp": false, "reader": null, "ahead": []}, "n_cpu_moe": null}, "prompts": [{"prompt_id": "p0", "category": "c0", "n_tokens": 63, "decode_s": 5.04, "n_drafted": 40, "n_accepted": 25, "n_rounds": 38}, {"prompt_id": "p1", "category": "c1", "n_tokens": 63, "decode_s": 4.99009900990099, "n_drafted": 40, "n_accepted": 26, "n_rounds": 37}, {"prompt_id": "p2", "category": "c0", "n_tokens": 63, "decode_s": 4.9411764705882355, "n_drafted": 40, "n_accepted": 27, "n_rounds": null}], "anchor_tokens_per_s": 10.125, "noisy": true, "error": null}');
INSERT INTO "trial_user_attributes" VALUES(51,16,'owner','{"host": "host", "pid": 999999999}');
INSERT INTO "trial_user_attributes" VALUES(52,16,'record','{"number": 6, "state": "complete", "arm": {"draft": null, "speculation": {"draft_max": 8, "draft_min": 0, "draft_p_min": 0.0, "ngram": {"kind": "ngram-cache", "size_n": 12, "min_hits": 1, "n_match": 24, "n_min": 48}, "mtp": false, "reader": null, "ahead": []}, "n_cpu_moe": null}, "prompts": [{"prompt_id": "p0", "category": "c0", "n_tokens": 63, "decode_s": 4.846153846153846, "n_drafted": 40, "n_accepted": 25, "n_rounds": 38}, {"prompt_id": "p1", "category": "c1", "n_tokens": 63, "decode_s": 4.8, "n_drafted": 40, "n_accepted": 26, "n_rounds": 37}, {"prompt_id": "p2", "category": "c0", "n_tokens": 63, "decode_s": 4.754716981132075, "n_drafted": 40, "n_accepted": 27, "n_rounds": null}], "anchor_tokens_per_s": 10.125, "noisy": false, "error": null}');
INSERT INTO "trial_user_attributes" VALUES(53,17,'owner','{"host": "host", "pid": 999999999}');
INSERT INTO "trial_user_attributes" VALUES(54,17,'record','{"number": 7, "state": "complete", "arm": {"draft": "draft-mtp", "speculation": {"draft_max": 2, "draft_min": 0, "draft_p_min": 0.5, "ngram": null, "mtp": true, "reader": null, "ahead": []}, "n_cpu_moe": null}, "prompts": [{"prompt_id": "p0", "category": "c0", "n_tokens": 63, "decode_s": 4.666666666666667, "n_drafted": 40, "n_accepted": 25, "n_rounds": 38}, {"prompt_id": "p1", "category": "c1", "n_tokens": 63, "decode_s": 4.623853211009174, "n_drafted": 40, "n_accepted": 26, "n_rounds": 37}, {"prompt_id": "p2", "category": "c0", "n_tokens": 63, "decode_s": 4.581818181818182, "n_drafted": 40, "n_accepted": 27, "n_rounds": null}], "anchor_tokens_per_s": 10.125, "noisy": true, "error": null}');
INSERT INTO "trial_user_attributes" VALUES(55,18,'owner','{"host": "host", "pid": 999999999}');
INSERT INTO "trial_user_attributes" VALUES(56,18,'record','{"number": 8, "state": "complete", "arm": {"draft": "draft", "speculation": {"draft_max": 8, "draft_min": 1, "draft_p_min": 0.75, "ngram": null, "mtp": false, "reader": null, "ahead": [{"draft_max": 12, "draft_min": 0, "draft_p_min": 0.0, "ngram": {"kind": "ngram-simple", "size_n": 4, "min_hits": 1, "n_match": 24, "n_min": 48}, "mtp": false, "reader": null, "ahead": []}, {"draft_max": 40, "draft_min": 0, "draft_p_min": 0.0, "ngram": {"kind": "ngram-mod", "size_n": 12, "min_hits": 1, "n_match": 20, "n_min": 4}, "mtp": false, "reader": null, "ahead": []}]}, "n_cpu_moe": null}, "prompts": [{"prompt_id": "p0", "category": "c0", "n_tokens": 63, "decode_s": 4.5, "n_drafted": 40, "n_accepted": 25, "n_rounds": 38}, {"prompt_id": "p1", "category": "c1", "n_tokens": 63, "decode_s": 4.460176991150442, "n_drafted": 40, "n_accepted": 26, "n_rounds": 37}, {"prompt_id": "p2", "category": "c0", "n_tokens": 63, "decode_s": 4.421052631578948, "n_drafted": 40, "n_accepted": 27, "n_rounds": null}], "anchor_tokens_per_s": 10.125, "noisy": false, "error": null}');
INSERT INTO "trial_user_attributes" VALUES(57,19,'owner','{"host": "host", "pid": 999999999}');
INSERT INTO "trial_user_attributes" VALUES(58,19,'record','{"number": 9, "state": "complete", "arm": {"draft": "draft-mtp", "speculation": {"draft_max": 2, "draft_min": 0, "draft_p_min": 0.5, "ngram": null, "mtp": true, "reader": null, "ahead": [{"draft_max": 40, "draft_min": 0, "draft_p_min": 0.0, "ngram": {"kind": "ngram-mod", "size_n": 12, "min_hits": 1, "n_match": 20, "n_min": 4}, "mtp": false, "reader": null, "ahead": []}]}, "n_cpu_moe": null}, "prompts": [{"prompt_id": "p0", "category": "c0", "n_tokens": 63, "decode_s": 4.344827586206897, "n_drafted": 40, "n_accepted": 25, "n_rounds": 38}, {"prompt_id": "p1", "category": "c1", "n_tokens": 63, "decode_s": 4.3076923076923075, "n_drafted": 40, "n_accepted": 26, "n_rounds": 37}, {"prompt_id": "p2", "category": "c0", "n_tokens": 63, "decode_s": 4.271186440677966, "n_drafted": 40, "n_accepted": 27, "n_rounds": null}], "anchor_tokens_per_s": 10.125, "noisy": true, "error": null}');
INSERT INTO "trial_user_attributes" VALUES(59,20,'owner','{"host": "host", "pid": 999999999}');
INSERT INTO "trial_user_attributes" VALUES(60,20,'record','{"number": 10, "state": "complete", "arm": {"draft": "eagle", "speculation": {"draft_max": 8, "draft_min": 1, "draft_p_min": 0.75, "ngram": null, "mtp": false, "reader": "draft-eagle3", "ahead": []}, "n_cpu_moe": null}, "prompts": [{"prompt_id": "p0", "category": "c0", "n_tokens": 63, "decode_s": 4.2, "n_drafted": 40, "n_accepted": 25, "n_rounds": 38}, {"prompt_id": "p1", "category": "c1", "n_tokens": 63, "decode_s": 4.1652892561983474, "n_drafted": 40, "n_accepted": 26, "n_rounds": 37}, {"prompt_id": "p2", "category": "c0", "n_tokens": 63, "decode_s": 4.131147540983607, "n_drafted": 40, "n_accepted": 27, "n_rounds": null}], "anchor_tokens_per_s": 10.125, "noisy": false, "error": null}');
INSERT INTO "trial_user_attributes" VALUES(61,21,'owner','{"host": "host", "pid": 999999999}');
INSERT INTO "trial_user_attributes" VALUES(62,21,'record','{"number": 11, "state": "complete", "arm": {"draft": "draft", "speculation": {"draft_max": 8, "draft_min": 1, "draft_p_min": 0.75, "ngram": null, "mtp": false, "reader": null, "ahead": []}, "n_cpu_moe": 12}, "prompts": [{"prompt_id": "p0", "category": "c0", "n_tokens": 63, "decode_s": 4.064516129032258, "n_drafted": 40, "n_accepted": 25, "n_rounds": 38}, {"prompt_id": "p1", "category": "c1", "n_tokens": 63, "decode_s": 4.032, "n_drafted": 40, "n_accepted": 26, "n_rounds": 37}, {"prompt_id": "p2", "category": "c0", "n_tokens": 63, "decode_s": 4.0, "n_drafted": 40, "n_accepted": 27, "n_rounds": null}], "anchor_tokens_per_s": 10.125, "noisy": true, "error": null}');
INSERT INTO "trial_user_attributes" VALUES(63,22,'owner','{"host": "host", "pid": 999999999}');
INSERT INTO "trial_user_attributes" VALUES(64,22,'record','{"number": 12, "state": "running", "arm": {"draft": null, "speculation": {"draft_max": 12, "draft_min": 0, "draft_p_min": 0.0, "ngram": {"kind": "ngram-mod", "size_n": 12, "min_hits": 1, "n_match": 18, "n_min": 1}, "mtp": false, "reader": null, "ahead": []}, "n_cpu_moe": null}, "prompts": [], "anchor_tokens_per_s": null, "noisy": false, "error": null}');
CREATE TABLE trial_values (
	trial_value_id INTEGER NOT NULL, 
	trial_id INTEGER NOT NULL, 
	objective INTEGER NOT NULL, 
	value FLOAT, 
	value_type VARCHAR(7) NOT NULL, 
	PRIMARY KEY (trial_value_id), 
	UNIQUE (trial_id, objective), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO "trial_values" VALUES(1,1,0,1.0,'FINITE');
INSERT INTO "trial_values" VALUES(2,2,0,5.82825607515588761664e-01,'FINITE');
INSERT INTO "trial_values" VALUES(3,3,0,1.51318581751427205794e+00,'FINITE');
INSERT INTO "trial_values" VALUES(4,4,0,1.04474997768413291332e+00,'FINITE');
INSERT INTO "trial_values" VALUES(5,5,0,4.47908092615400099667e-01,'FINITE');
INSERT INTO "trial_values" VALUES(6,10,0,1.0,'FINITE');
INSERT INTO "trial_values" VALUES(7,11,0,1.04939251747105144474e+00,'FINITE');
INSERT INTO "trial_values" VALUES(8,12,0,1.09878460496582053274e+00,'FINITE');
INSERT INTO "trial_values" VALUES(9,15,0,1.24695879853162705508e+00,'FINITE');
INSERT INTO "trial_values" VALUES(10,16,0,1.29634963812499170998e+00,'FINITE');
INSERT INTO "trial_values" VALUES(11,17,0,1.34574024981033146808e+00,'FINITE');
INSERT INTO "trial_values" VALUES(12,18,0,1.39513065779294209711e+00,'FINITE');
INSERT INTO "trial_values" VALUES(13,19,0,1.44452088296755953855e+00,'FINITE');
INSERT INTO "trial_values" VALUES(14,20,0,1.493910943465641461e+00,'FINITE');
INSERT INTO "trial_values" VALUES(15,21,0,1.54330085509755532413e+00,'FINITE');
CREATE TABLE trials (
	trial_id INTEGER NOT NULL, 
	number INTEGER, 
	study_id INTEGER, 
	state VARCHAR(8) NOT NULL, 
	datetime_start DATETIME, 
	datetime_complete DATETIME, 
	PRIMARY KEY (trial_id), 
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
);
INSERT INTO "trials" VALUES(1,0,1,'COMPLETE','2026-11-23 01:45:59.722008','2026-11-23 01:46:00.056608');
INSERT INTO "trials" VALUES(2,1,1,'COMPLETE','2026-11-23 01:46:00.965815','2026-11-23 01:46:01.213671');
INSERT INTO "trials" VALUES(3,2,1,'COMPLETE','2026-11-23 01:46:01.269108','2026-11-23 01:46:01.718376');
INSERT INTO "trials" VALUES(4,3,1,'COMPLETE','2026-11-23 01:46:01.777079','2026-11-23 01:46:02.142823');
INSERT INTO "trials" VALUES(5,4,1,'COMPLETE','2026-11-23 01:46:02.207230','2026-11-23 01:46:02.527813');
INSERT INTO "trials" VALUES(6,5,1,'WAITING',NULL,NULL);
INSERT INTO "trials" VALUES(7,6,1,'WAITING',NULL,NULL);
INSERT INTO "trials" VALUES(8,7,1,'WAITING',NULL,NULL);
INSERT INTO "trials" VALUES(9,8,1,'WAITING',NULL,NULL);
INSERT INTO "trials" VALUES(10,0,2,'COMPLETE','2026-11-23 01:46:05.743194','2026-11-23 01:46:06.025918');
INSERT INTO "trials" VALUES(11,1,2,'COMPLETE','2026-11-23 01:46:06.096077','2026-11-23 01:46:06.241150');
INSERT INTO "trials" VALUES(12,2,2,'COMPLETE','2026-11-23 01:46:06.260654','2026-11-23 01:46:06.453487');
INSERT INTO "trials" VALUES(13,3,2,'FAIL','2026-11-23 01:46:06.506239','2026-11-23 01:46:06.617690');
INSERT INTO "trials" VALUES(14,4,2,'FAIL','2026-11-23 01:46:06.659479','2026-11-23 01:46:06.770338');
INSERT INTO "trials" VALUES(15,5,2,'COMPLETE','2026-11-23 01:46:06.800504','2026-11-23 01:46:06.953420');
INSERT INTO "trials" VALUES(16,6,2,'COMPLETE','2026-11-23 01:46:07.008493','2026-11-23 01:46:07.174675');
INSERT INTO "trials" VALUES(17,7,2,'COMPLETE','2026-11-23 01:46:07.216203','2026-11-23 01:46:07.573285');
INSERT INTO "trials" VALUES(18,8,2,'COMPLETE','2026-11-23 01:46:07.629404','2026-11-23 01:46:07.835192');
INSERT INTO "trials" VALUES(19,9,2,'COMPLETE','2026-11-23 01:46:07.876793','2026-11-23 01:46:08.001593');
INSERT INTO "trials" VALUES(20,10,2,'COMPLETE','2026-11-23 01:46:08.045685','2026-11-23 01:46:08.211395');
INSERT INTO "trials" VALUES(21,11,2,'COMPLETE','2026-11-23 01:46:08.260380','2026-11-23 01:46:08.421278');
INSERT INTO "trials" VALUES(22,12,2,'RUNNING','2026-11-23 01:46:08.545649',NULL);
CREATE TABLE version_info (
	version_info_id INTEGER NOT NULL, 
	schema_version INTEGER, 
	library_version VARCHAR(256), 
	PRIMARY KEY (version_info_id), 
	CHECK (version_info_id=1)
);
INSERT INTO "version_info" VALUES(1,12,'5.0.0');
CREATE UNIQUE INDEX ix_studies_study_name ON studies (study_name);
CREATE INDEX ix_trials_study_id ON trials (study_id);
COMMIT;
