-- Version 5: what is known of a time beyond its numbers, as JSON: phases of a search, its seeds, what the outputs were
-- compared with, the state of the machine before it; of a failure its signal, stage, last words and peak memory.
ALTER TABLE ttft_results ADD COLUMN details TEXT NOT NULL DEFAULT '{}';
