// ScheduledSequence: what the scheduler knows about one request, and StepInFlight, a step that is planned and not over.
#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "engine/block_pool.h"
#include "engine/ngram_index.h"
#include "engine/request.h"

namespace fk {

struct ScheduledSequence {
  RequestId id = 0;
  uint64_t arrival = 0;
  std::vector<int64_t> tokens;  // prompt and drawn tokens that the host knows
  int64_t prompt_tokens = 0;
  int64_t max_tokens = 0;
  int64_t undrawn = 0;  // tokens that steps in flight draw at least
  int64_t drafted = 0;  // guesses that a step in flight computes
  bool speculates = false;
  bool prompt_logits = false;  // how likely the tokens of its prompt are is asked for
  NgramIndex ngrams = {};

  // Since the last admission.
  uint64_t admission = 0;          // counts them
  int64_t planned = 0;             // tokens that are in the states or that steps in flight compute
  std::vector<int32_t> blocks;     // of `planned` tokens, by page; -1: freed, outside every window
  int64_t first_held = 0;          // page: those before it are freed
  int64_t cached_pages = 0;        // pages from the start on that were looked up or kept in the prefix cache
  PrefixId prefix = kEmptyPrefix;  // of these pages
  int32_t slot = -1;
  bool has_run = false;

  int64_t cached_tokens = -1;  // at the first admission; negative: was never admitted
  uint64_t last_step = 0;      // the newest step that has a row of it; 0: none
  std::list<ScheduledSequence*>::iterator place;
  bool running = false;
  bool ended = false;

  int64_t known() const { return std::ssize(tokens); }
  int64_t limit() const { return prompt_tokens + max_tokens; }
  // Where no token is asked for, the one that the prompt's last logits give is drawn all the same.
  bool all_drawn() const { return known() + undrawn >= prompt_tokens + std::max<int64_t>(max_tokens, 1); }
  // It computes its prompt, all of it. When a token is drawn, the logits before it have been seen.
  bool wants_prompt_logits() const { return prompt_logits && known() == prompt_tokens; }
  // How many of its next `count` tokens are followed by a token of the prompt.
  int64_t prompt_logits_of(int64_t count) const {
    if (!wants_prompt_logits()) return 0;
    return std::max<int64_t>(0, std::min(planned + count, prompt_tokens - 1) - planned);
  }
  // Of the next step, if it had no limits. After the last known token comes the one that the previous step draws.
  int64_t to_compute() const {
    if (all_drawn() || (speculates && undrawn > 0)) return 0;
    return planned < known() ? known() - planned : undrawn;
  }
  int64_t held_pages() const { return std::ssize(blocks) - first_held; }
};

// A page in the prefix cache that the present step completes: requests of that step may share it. It stays if one that
// has it goes on after the step.
struct EarlyPage {
  ScheduledSequence* sequence = nullptr;
  uint64_t admission = 0;
  int32_t block = -1;
};

struct StepInFlight {
  struct Row {
    ScheduledSequence* sequence = nullptr;
    uint64_t admission = 0;
    int64_t end = 0;  // position after its last token
    bool draws = false;
    std::vector<int64_t> drafts = {};
  };
  uint64_t number = 0;
  std::vector<Row> rows;
  std::vector<EarlyPage> early;
  // Handed out again when it is over.
  std::vector<int32_t> blocks, slots;
  std::vector<std::unique_ptr<ScheduledSequence>> ended;
};

}  // namespace fk
