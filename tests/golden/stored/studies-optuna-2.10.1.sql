BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('v2.6.0.a');
CREATE TABLE studies (
	study_id INTEGER NOT NULL, 
	study_name VARCHAR(512) NOT NULL, 
	PRIMARY KEY (study_id)
);
INSERT INTO "studies" VALUES(1,'target-8f7363ae');
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
	intermediate_value FLOAT NOT NULL, 
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
INSERT INTO "trial_params" VALUES(2,1,'draft_max',0.0,'{"name": "IntUniformDistribution", "attributes": {"low": 0, "high": 16, "step": 1}}');
INSERT INTO "trial_params" VALUES(3,1,'draft_min',0.0,'{"name": "IntUniformDistribution", "attributes": {"low": 0, "high": 4, "step": 1}}');
INSERT INTO "trial_params" VALUES(4,1,'draft_p_min',0.0,'{"name": "DiscreteUniformDistribution", "attributes": {"low": 0.0, "high": 0.95, "q": 0.05}}');
INSERT INTO "trial_params" VALUES(5,2,'kind',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["model", "ngram"]}}');
INSERT INTO "trial_params" VALUES(6,2,'draft_max',5.0,'{"name": "IntUniformDistribution", "attributes": {"low": 0, "high": 16, "step": 1}}');
INSERT INTO "trial_params" VALUES(7,2,'draft_min',0.0,'{"name": "IntUniformDistribution", "attributes": {"low": 0, "high": 4, "step": 1}}');
INSERT INTO "trial_params" VALUES(8,2,'draft_p_min',0.0,'{"name": "DiscreteUniformDistribution", "attributes": {"low": 0.0, "high": 0.95, "q": 0.05}}');
INSERT INTO "trial_params" VALUES(9,3,'kind',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["model", "ngram"]}}');
INSERT INTO "trial_params" VALUES(10,3,'draft_max',3.0,'{"name": "IntUniformDistribution", "attributes": {"low": 0, "high": 16, "step": 1}}');
INSERT INTO "trial_params" VALUES(11,3,'draft_min',0.0,'{"name": "IntUniformDistribution", "attributes": {"low": 0, "high": 4, "step": 1}}');
INSERT INTO "trial_params" VALUES(12,3,'draft_p_min',0.0,'{"name": "DiscreteUniformDistribution", "attributes": {"low": 0.0, "high": 0.95, "q": 0.05}}');
INSERT INTO "trial_params" VALUES(13,4,'kind',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["model", "ngram"]}}');
INSERT INTO "trial_params" VALUES(14,4,'draft_max',6.0,'{"name": "IntUniformDistribution", "attributes": {"low": 0, "high": 16, "step": 1}}');
INSERT INTO "trial_params" VALUES(15,4,'draft_min',0.0,'{"name": "IntUniformDistribution", "attributes": {"low": 0, "high": 4, "step": 1}}');
INSERT INTO "trial_params" VALUES(16,4,'draft_p_min',0.0,'{"name": "DiscreteUniformDistribution", "attributes": {"low": 0.0, "high": 0.95, "q": 0.05}}');
INSERT INTO "trial_params" VALUES(17,5,'kind',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["model", "ngram"]}}');
INSERT INTO "trial_params" VALUES(18,5,'draft_max',7.0,'{"name": "IntUniformDistribution", "attributes": {"low": 0, "high": 16, "step": 1}}');
INSERT INTO "trial_params" VALUES(19,5,'draft_min',0.0,'{"name": "IntUniformDistribution", "attributes": {"low": 0, "high": 4, "step": 1}}');
INSERT INTO "trial_params" VALUES(20,5,'draft_p_min',0.0,'{"name": "DiscreteUniformDistribution", "attributes": {"low": 0.0, "high": 0.95, "q": 0.05}}');
CREATE TABLE trial_system_attributes (
	trial_system_attribute_id INTEGER NOT NULL, 
	trial_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (trial_system_attribute_id), 
	UNIQUE (trial_id, "key"), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO "trial_system_attributes" VALUES(1,11,'fixed_params','{"kind": "model", "draft_max": 0, "draft_min": 0, "draft_p_min": 0.0}');
CREATE TABLE trial_user_attributes (
	trial_user_attribute_id INTEGER NOT NULL, 
	trial_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (trial_user_attribute_id), 
	UNIQUE (trial_id, "key"), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO "trial_user_attributes" VALUES(1,1,'record','{"number": 0, "state": "complete", "arm": {"draft": null, "speculation": null, "n_cpu_moe": null}, "prompts": [{"prompt_id": "a", "category": "x", "n_tokens": 11, "decode_s": 0.0006835300000602729, "n_drafted": 0, "n_accepted": 0, "n_rounds": 11}, {"prompt_id": "b", "category": "x", "n_tokens": 11, "decode_s": 0.0006696289999581495, "n_drafted": 0, "n_accepted": 0, "n_rounds": 11}, {"prompt_id": "c", "category": "y", "n_tokens": 11, "decode_s": 0.005981090999966909, "n_drafted": 0, "n_accepted": 0, "n_rounds": 11}, {"prompt_id": "d", "category": "y", "n_tokens": 11, "decode_s": 0.0006515420000141603, "n_drafted": 0, "n_accepted": 0, "n_rounds": 11}, {"prompt_id": "e", "category": "y", "n_tokens": 11, "decode_s": 0.0006331649999538058, "n_drafted": 0, "n_accepted": 0, "n_rounds": 11}, {"prompt_id": "f", "category": "x", "n_tokens": 11, "decode_s": 0.0006478569998762396, "n_drafted": 0, "n_accepted": 0, "n_rounds": 11}, {"prompt_id": "g", "category": "z", "n_tokens": 11, "decode_s": 0.0007423570000355539, "n_drafted": 0, "n_accepted": 0, "n_rounds": 11}], "anchor_tokens_per_s": 10841.616043194146, "noisy": true, "error": null}');
INSERT INTO "trial_user_attributes" VALUES(2,1,'owner','{"host": "host", "pid": 999999999}');
INSERT INTO "trial_user_attributes" VALUES(3,1,'off','true');
INSERT INTO "trial_user_attributes" VALUES(4,2,'record','{"number": 1, "state": "complete", "arm": {"draft": "draft", "speculation": {"draft_max": 5, "draft_min": 0, "draft_p_min": 0.0, "ngram": null, "mtp": false, "reader": null, "ahead": []}, "n_cpu_moe": null}, "prompts": [{"prompt_id": "a", "category": "x", "n_tokens": 11, "decode_s": 0.0016643819999444531, "n_drafted": 9, "n_accepted": 9, "n_rounds": 2}, {"prompt_id": "b", "category": "x", "n_tokens": 11, "decode_s": 0.0016072169999006292, "n_drafted": 9, "n_accepted": 9, "n_rounds": 2}, {"prompt_id": "c", "category": "y", "n_tokens": 11, "decode_s": 0.00572301600004721, "n_drafted": 14, "n_accepted": 7, "n_rounds": 4}, {"prompt_id": "d", "category": "y", "n_tokens": 11, "decode_s": 0.004813608999938879, "n_drafted": 9, "n_accepted": 9, "n_rounds": 2}, {"prompt_id": "e", "category": "y", "n_tokens": 11, "decode_s": 0.007505224000169619, "n_drafted": 11, "n_accepted": 8, "n_rounds": 3}, {"prompt_id": "f", "category": "x", "n_tokens": 11, "decode_s": 0.0017668650000359776, "n_drafted": 9, "n_accepted": 8, "n_rounds": 3}, {"prompt_id": "g", "category": "z", "n_tokens": 11, "decode_s": 0.006086518000074648, "n_drafted": 12, "n_accepted": 8, "n_rounds": 3}], "anchor_tokens_per_s": 6383.579351770719, "noisy": false, "error": null}');
INSERT INTO "trial_user_attributes" VALUES(5,2,'owner','{"host": "host", "pid": 999999999}');
INSERT INTO "trial_user_attributes" VALUES(6,2,'off','false');
INSERT INTO "trial_user_attributes" VALUES(7,3,'record','{"number": 2, "state": "complete", "arm": {"draft": "draft", "speculation": {"draft_max": 3, "draft_min": 0, "draft_p_min": 0.0, "ngram": null, "mtp": false, "reader": null, "ahead": []}, "n_cpu_moe": null}, "prompts": [{"prompt_id": "a", "category": "x", "n_tokens": 11, "decode_s": 0.003754369000034785, "n_drafted": 8, "n_accepted": 8, "n_rounds": 3}, {"prompt_id": "b", "category": "x", "n_tokens": 11, "decode_s": 0.0018688769998789212, "n_drafted": 8, "n_accepted": 8, "n_rounds": 3}, {"prompt_id": "c", "category": "y", "n_tokens": 11, "decode_s": 0.002021204999891779, "n_drafted": 13, "n_accepted": 6, "n_rounds": 5}, {"prompt_id": "d", "category": "y", "n_tokens": 11, "decode_s": 0.0011428049999722134, "n_drafted": 8, "n_accepted": 8, "n_rounds": 3}, {"prompt_id": "e", "category": "y", "n_tokens": 11, "decode_s": 0.0016724439999507013, "n_drafted": 11, "n_accepted": 7, "n_rounds": 4}, {"prompt_id": "f", "category": "x", "n_tokens": 11, "decode_s": 0.005349097999896912, "n_drafted": 9, "n_accepted": 7, "n_rounds": 4}, {"prompt_id": "g", "category": "z", "n_tokens": 11, "decode_s": 0.0011407419999613921, "n_drafted": 8, "n_accepted": 8, "n_rounds": 3}], "anchor_tokens_per_s": 4230.989555060055, "noisy": true, "error": null}');
INSERT INTO "trial_user_attributes" VALUES(8,3,'owner','{"host": "host", "pid": 999999999}');
INSERT INTO "trial_user_attributes" VALUES(9,3,'off','false');
INSERT INTO "trial_user_attributes" VALUES(10,4,'record','{"number": 3, "state": "complete", "arm": {"draft": "draft", "speculation": {"draft_max": 6, "draft_min": 0, "draft_p_min": 0.0, "ngram": null, "mtp": false, "reader": null, "ahead": []}, "n_cpu_moe": null}, "prompts": [{"prompt_id": "a", "category": "x", "n_tokens": 11, "decode_s": 0.00415602799989756, "n_drafted": 9, "n_accepted": 9, "n_rounds": 2}, {"prompt_id": "b", "category": "x", "n_tokens": 11, "decode_s": 0.0015245239999330806, "n_drafted": 9, "n_accepted": 9, "n_rounds": 2}, {"prompt_id": "c", "category": "y", "n_tokens": 11, "decode_s": 0.007370372999957908, "n_drafted": 16, "n_accepted": 7, "n_rounds": 4}, {"prompt_id": "d", "category": "y", "n_tokens": 11, "decode_s": 0.0015680189999329741, "n_drafted": 9, "n_accepted": 9, "n_rounds": 2}, {"prompt_id": "e", "category": "y", "n_tokens": 11, "decode_s": 0.0018005260001245915, "n_drafted": 12, "n_accepted": 8, "n_rounds": 3}, {"prompt_id": "f", "category": "x", "n_tokens": 11, "decode_s": 0.0015047150000100373, "n_drafted": 10, "n_accepted": 8, "n_rounds": 3}, {"prompt_id": "g", "category": "z", "n_tokens": 11, "decode_s": 0.00502035799991063, "n_drafted": 14, "n_accepted": 8, "n_rounds": 3}], "anchor_tokens_per_s": 4526.894246857613, "noisy": true, "error": null}');
INSERT INTO "trial_user_attributes" VALUES(11,4,'owner','{"host": "host", "pid": 999999999}');
INSERT INTO "trial_user_attributes" VALUES(12,4,'off','false');
INSERT INTO "trial_user_attributes" VALUES(13,5,'record','{"number": 4, "state": "complete", "arm": {"draft": "draft", "speculation": {"draft_max": 7, "draft_min": 0, "draft_p_min": 0.0, "ngram": null, "mtp": false, "reader": null, "ahead": []}, "n_cpu_moe": null}, "prompts": [{"prompt_id": "a", "category": "x", "n_tokens": 11, "decode_s": 0.0011118679999526648, "n_drafted": 9, "n_accepted": 9, "n_rounds": 2}, {"prompt_id": "b", "category": "x", "n_tokens": 11, "decode_s": 0.0015628609999112086, "n_drafted": 9, "n_accepted": 9, "n_rounds": 2}, {"prompt_id": "c", "category": "y", "n_tokens": 11, "decode_s": 0.007285876999958418, "n_drafted": 18, "n_accepted": 7, "n_rounds": 4}, {"prompt_id": "d", "category": "y", "n_tokens": 11, "decode_s": 0.0011790189998919232, "n_drafted": 9, "n_accepted": 9, "n_rounds": 2}, {"prompt_id": "e", "category": "y", "n_tokens": 11, "decode_s": 0.0014790660000016942, "n_drafted": 13, "n_accepted": 8, "n_rounds": 3}, {"prompt_id": "f", "category": "x", "n_tokens": 11, "decode_s": 0.0037121969999134308, "n_drafted": 11, "n_accepted": 8, "n_rounds": 3}, {"prompt_id": "g", "category": "z", "n_tokens": 11, "decode_s": 0.003634530999988783, "n_drafted": 15, "n_accepted": 8, "n_rounds": 3}], "anchor_tokens_per_s": 12134.581239551784, "noisy": true, "error": null}');
INSERT INTO "trial_user_attributes" VALUES(14,5,'owner','{"host": "host", "pid": 999999999}');
INSERT INTO "trial_user_attributes" VALUES(15,5,'off','false');
INSERT INTO "trial_user_attributes" VALUES(16,6,'off','false');
INSERT INTO "trial_user_attributes" VALUES(17,7,'off','false');
INSERT INTO "trial_user_attributes" VALUES(18,8,'off','false');
INSERT INTO "trial_user_attributes" VALUES(19,9,'off','false');
INSERT INTO "trial_user_attributes" VALUES(20,10,'owner','{"host": "host", "pid": 999999999}');
CREATE TABLE trial_values (
	trial_value_id INTEGER NOT NULL, 
	trial_id INTEGER NOT NULL, 
	objective INTEGER NOT NULL, 
	value FLOAT NOT NULL, 
	PRIMARY KEY (trial_value_id), 
	UNIQUE (trial_id, objective), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO "trial_values" VALUES(1,1,0,1.0);
INSERT INTO "trial_values" VALUES(2,2,0,5.82825607515588761664e-01);
INSERT INTO "trial_values" VALUES(3,3,0,1.51318581751427205794e+00);
INSERT INTO "trial_values" VALUES(4,4,0,1.04474997768413291332e+00);
INSERT INTO "trial_values" VALUES(5,5,0,4.47908092615400099667e-01);
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
INSERT INTO "trials" VALUES(1,0,1,'COMPLETE','2026-11-25 23:05:13.006213','2026-11-25 23:05:13.006213');
INSERT INTO "trials" VALUES(2,1,1,'COMPLETE','2026-11-25 23:05:13.931531','2026-11-25 23:05:13.931531');
INSERT INTO "trials" VALUES(3,2,1,'COMPLETE','2026-11-25 23:05:14.495941','2026-11-25 23:05:14.495941');
INSERT INTO "trials" VALUES(4,3,1,'COMPLETE','2026-11-25 23:05:15.036539','2026-11-25 23:05:15.036539');
INSERT INTO "trials" VALUES(5,4,1,'COMPLETE','2026-11-25 23:05:15.477581','2026-11-25 23:05:15.477581');
INSERT INTO "trials" VALUES(6,5,1,'FAIL','2026-11-25 23:05:16.091653','2026-11-25 23:05:16.091653');
INSERT INTO "trials" VALUES(7,6,1,'FAIL','2026-11-25 23:05:16.240035','2026-11-25 23:05:16.240035');
INSERT INTO "trials" VALUES(8,7,1,'FAIL','2026-11-25 23:05:16.412203','2026-11-25 23:05:16.412203');
INSERT INTO "trials" VALUES(9,8,1,'FAIL','2026-11-25 23:05:16.553929','2026-11-25 23:05:16.553929');
INSERT INTO "trials" VALUES(10,9,1,'RUNNING','2026-11-25 23:05:16.779393',NULL);
INSERT INTO "trials" VALUES(11,10,1,'WAITING',NULL,NULL);
CREATE TABLE version_info (
	version_info_id INTEGER NOT NULL, 
	schema_version INTEGER, 
	library_version VARCHAR(256), 
	PRIMARY KEY (version_info_id), 
	CHECK (version_info_id=1)
);
INSERT INTO "version_info" VALUES(1,12,'2.10.1');
CREATE UNIQUE INDEX ix_studies_study_name ON studies (study_name);
COMMIT;
