-- Version 2: which runs an MLflow server has, by its address, and the few runs that are not over.
CREATE TABLE mirrors (
  target TEXT NOT NULL,
  run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
  remote_id TEXT NOT NULL,
  complete INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (target, run)
) STRICT, WITHOUT ROWID;
CREATE INDEX mirrors_by_run ON mirrors (run);

CREATE INDEX runs_running ON runs (started_us, run) WHERE status = 'running';
