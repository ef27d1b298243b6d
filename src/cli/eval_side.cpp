#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>

#include "bench/eval/side.h"
#include "candidate/swap.h"
#include "cli/candidate_options.h"
#include "cli/eval_pair.h"
#include "cli/model_options.h"
#include "cli/ranks.h"
#include "core/error.h"
#include "core/output_file.h"

namespace fk {

void run_eval_side(const std::string& task_file, CommonOptions common) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // nothing of an evaluation outlives it
  const SideTask task = side_task_of(parse_json_file(task_file));
  const PairTask& pair = task.pair;
  common.device = parse_device(pair.device);
  common.threads = pair.threads;
  common.quiet = true;
  ModelOptions options{pair.model, pair.load_format, pair.dtype, pair.weight_seed, pair.quantization};
  ModelSource source = resolve_model(options.model);
  check_divisible(source, pair.tp);
  Ranks ranks(pair.tp, common);
  ThreadPool pool(common.threads);
  CandidateOptions candidates{.disabled = !task.candidate || pair.candidate_folder.empty(),
                              .cxxflags = pair.cxxflags,
                              .allow_libraries = pair.allow_libraries,
                              .allow_incorrect = true};  // the parent has asked the history
  if (!candidates.disabled) setenv("FASTKERNELS_CANDIDATE_DIR", pair.candidate_folder.c_str(), 1);
  std::vector<CandidateRecord> judged = activate_candidates(candidates, common);
  TimedModel loaded = load_timed(options, source, common, pool, ranks.communicator());
  std::vector<CandidateUse> uses = candidate_uses(*loaded.model.root);
  Json result = {{"round", task.round}, {"dtype", dtype_name(loaded.model.config.facts.dtype)}};
  result.update(run_side(loaded.model, pool, task, ranks.first()));
  result["candidates"] = to_json(uses, judged);
  result.update(gathered_dispatches(ranks, collect_dispatches(*loaded.model.root)));
  ranks.finish();
  if (ranks.first()) write_file(task.output, dump_json(result, -1) + "\n", true);
}

}  // namespace fk
