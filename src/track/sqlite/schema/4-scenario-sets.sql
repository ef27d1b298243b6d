-- Version 4: which scenarios a summary is over, as short hashes of the scenarios judged and of those whose times count,
-- and how many those are. A time that ranks nothing is no longer part of a mean.
ALTER TABLE operators ADD COLUMN scenario_set TEXT NOT NULL DEFAULT '';
ALTER TABLE operators ADD COLUMN timed_set TEXT NOT NULL DEFAULT '';
ALTER TABLE operators ADD COLUMN timed INTEGER NOT NULL DEFAULT 0;
UPDATE operators SET
  scenario_set = fk_scenario_set((SELECT group_concat(line, '') FROM (
    SELECT scenario || char(9) || dtype || char(10) AS line FROM kernel_results k
    WHERE k.run = operators.run AND k.op = operators.op ORDER BY scenario))),
  timed_set = fk_scenario_set((SELECT group_concat(line, '') FROM (
    SELECT scenario || char(9) || dtype || char(10) AS line FROM kernel_results k
    WHERE k.run = operators.run AND k.op = operators.op AND verdict = 'PASSED' AND invalid = '' AND speedup > 0
    ORDER BY scenario))),
  timed = (SELECT count(*) FROM kernel_results k
    WHERE k.run = operators.run AND k.op = operators.op AND verdict = 'PASSED' AND invalid = '' AND speedup > 0);
UPDATE operators SET speedup = NULL, low = NULL, high = NULL, worst = NULL, worst_scenario = '' WHERE timed = 0;
DROP INDEX operators_by_speed;
