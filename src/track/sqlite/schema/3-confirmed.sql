-- Version 3: whether a new best held when it was measured again on fresh seeds: 'yes', 'no', or '' where it was none.
ALTER TABLE kernel_results ADD COLUMN confirmed TEXT NOT NULL DEFAULT '';
ALTER TABLE operators ADD COLUMN confirmed TEXT NOT NULL DEFAULT '';
CREATE INDEX kernel_results_confirmed ON kernel_results (op, scenario, speedup DESC) WHERE confirmed = 'yes';
CREATE INDEX operators_confirmed ON operators (op, speedup DESC)
  WHERE failed = 0 AND passed > 0 AND candidate <> 'baseline' AND confirmed = 'yes';
