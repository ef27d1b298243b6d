-- Version 1: runs and all that belongs to them. A file of this folder never changes once it was released: a store of
-- that version is out there. The next change is the next file.
CREATE TABLE store (stamp INTEGER NOT NULL) STRICT;  -- one row; every transaction that writes adds one
INSERT INTO store VALUES (0);

CREATE TABLE runs (
  run INTEGER PRIMARY KEY,
  run_id TEXT NOT NULL UNIQUE,
  name TEXT NOT NULL,
  experiment TEXT NOT NULL,
  tier TEXT NOT NULL,
  mode TEXT NOT NULL DEFAULT '',
  status TEXT NOT NULL CHECK (status IN ('running', 'finished', 'failed', 'interrupted')),
  error TEXT NOT NULL DEFAULT '',
  started_us INTEGER NOT NULL,
  ended_us INTEGER,
  git_commit TEXT NOT NULL DEFAULT '',
  git_branch TEXT NOT NULL DEFAULT '',
  git_dirty INTEGER NOT NULL DEFAULT 0,
  host TEXT NOT NULL DEFAULT '',
  device TEXT NOT NULL DEFAULT '',
  cpu_name TEXT NOT NULL DEFAULT '',
  gpu_name TEXT NOT NULL DEFAULT '',
  gpu_driver TEXT NOT NULL DEFAULT '',
  gpu_vram_mb INTEGER NOT NULL DEFAULT 0,
  cuda_version TEXT NOT NULL DEFAULT '',
  environment TEXT NOT NULL DEFAULT '{}'
) STRICT;
CREATE INDEX runs_by_time ON runs (started_us, run);

CREATE TABLE params (
  run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
  key TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (run, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE tags (
  run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
  key TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (run, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE metrics (
  run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
  key TEXT NOT NULL,
  step INTEGER NOT NULL DEFAULT 0,
  value REAL NOT NULL,
  time_us INTEGER NOT NULL,
  PRIMARY KEY (run, key, step)
) STRICT, WITHOUT ROWID;

-- One operator of one run: its scenarios summed up, so that lists over many runs read one row each.
CREATE TABLE operators (
  op TEXT NOT NULL,
  run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
  level INTEGER NOT NULL DEFAULT 0,
  candidate TEXT NOT NULL DEFAULT '',
  source_sha256 TEXT NOT NULL DEFAULT '',
  passed INTEGER NOT NULL DEFAULT 0,
  failed INTEGER NOT NULL DEFAULT 0,
  skipped INTEGER NOT NULL DEFAULT 0,
  speedup REAL,
  low REAL,
  high REAL,
  worst REAL,
  worst_scenario TEXT NOT NULL DEFAULT '',
  err_ratio REAL,
  PRIMARY KEY (op, run)
) STRICT, WITHOUT ROWID;
CREATE INDEX operators_by_run ON operators (run);
CREATE INDEX operators_by_speed ON operators (op, speedup DESC)
  WHERE failed = 0 AND passed > 0 AND candidate <> 'baseline';

CREATE TABLE kernel_results (
  result INTEGER PRIMARY KEY,
  run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
  op TEXT NOT NULL,
  scenario TEXT NOT NULL,
  level INTEGER NOT NULL DEFAULT 0,
  models TEXT NOT NULL DEFAULT '[]',
  tp INTEGER NOT NULL DEFAULT 1,
  tokens INTEGER NOT NULL DEFAULT 0,
  dtype TEXT NOT NULL DEFAULT '',
  candidate TEXT NOT NULL DEFAULT '',
  verdict TEXT NOT NULL,
  sentence TEXT NOT NULL DEFAULT '',
  err_ratio REAL,
  baseline_ns REAL,
  candidate_ns REAL,
  speedup REAL,
  low REAL,
  high REAL,
  speed_verdict TEXT NOT NULL DEFAULT '',
  invalid TEXT NOT NULL DEFAULT '',
  delta REAL,
  control_error REAL,
  floor_ns REAL,
  of_floor REAL,
  bytes REAL NOT NULL DEFAULT 0,
  matrix_flops REAL NOT NULL DEFAULT 0,
  vector_flops REAL NOT NULL DEFAULT 0,
  seconds REAL NOT NULL DEFAULT 0,
  UNIQUE (run, op, scenario)
) STRICT;

-- What is large and rarely read stands apart, so that tables of results stay small.
CREATE TABLE kernel_details (
  result INTEGER PRIMARY KEY REFERENCES kernel_results ON DELETE CASCADE,
  detail TEXT NOT NULL,
  samples TEXT NOT NULL,
  control_samples TEXT NOT NULL
) STRICT;

CREATE TABLE ttft_results (
  result INTEGER PRIMARY KEY,
  run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
  path TEXT NOT NULL,
  model TEXT NOT NULL,
  model_key TEXT NOT NULL DEFAULT '',
  config TEXT NOT NULL DEFAULT '',
  device TEXT NOT NULL DEFAULT '',
  dtype TEXT NOT NULL DEFAULT '',
  threads INTEGER NOT NULL DEFAULT 0,
  prompt_tokens INTEGER NOT NULL DEFAULT 0,
  iters INTEGER NOT NULL DEFAULT 0,
  decode_tokens INTEGER NOT NULL DEFAULT 0,
  search_iters INTEGER,
  ttft_ms REAL,
  ttft_ms_mean REAL,
  ttft_sequential_ms REAL,
  tpot_ms REAL,
  throughput_tps REAL,
  compile_ms REAL,
  prefill_floor_share REAL,
  decode_floor_share REAL,
  load_ms REAL,
  weights_bytes INTEGER,
  peak_memory_bytes INTEGER,
  note TEXT NOT NULL DEFAULT '',
  error TEXT NOT NULL DEFAULT '',
  samples TEXT NOT NULL DEFAULT '{}'
) STRICT;
CREATE UNIQUE INDEX ttft_once ON ttft_results
  (run, path, model, config, dtype, prompt_tokens, decode_tokens, coalesce(search_iters, -1));
CREATE INDEX ttft_by_model ON ttft_results (model, run);

-- The models a run has results of, for --model.
CREATE TABLE run_models (
  model TEXT NOT NULL,
  run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
  PRIMARY KEY (model, run)
) STRICT, WITHOUT ROWID;
CREATE INDEX run_models_by_run ON run_models (run);

-- The bytes lie in a folder beside the store, named by their SHA-256.
CREATE TABLE artifacts (
  run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
  path TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  size_bytes INTEGER NOT NULL,
  PRIMARY KEY (run, path)
) STRICT, WITHOUT ROWID;
CREATE INDEX artifacts_by_content ON artifacts (sha256);
