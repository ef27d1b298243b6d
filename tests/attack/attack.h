// Attack: compiles, judges and times frauds like any candidate, against the honest kernel.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/kernels/kernel_bench.h"
#include "candidate/compile.h"
#include "core/thread_pool.h"
#include "tests/attack/search.h"

namespace fk::attack {

struct AttackOptions {
  int pairs = 60;
  int launches = 6;
  double sample_on_s = 1;
  int steps = 4;  // of the search
  std::function<void(std::string_view)> progress = [](std::string_view) {};
};

class Attack {
 public:
  explicit Attack(Device device, AttackOptions options = {});

  // Searches one kind of fraud on one target.
  Finding find(const Kind& kind, const Target& target);
  // One fraud of one strength. The honest kernel is the baseline of the timing, so that the speed-up is the gain of the
  // fraud.
  Attempt attempt(const Kind& kind, const Target& target, double strength);
  // The honest kernel against itself: it must not be ranked faster.
  Attempt attempt_honest(const Kind& kind, const Target& target);
  // Compiles the frauds that searches may need, on several cores: the strongest of each, or all that a search of one
  // step tries. Throws where something does not compile.
  void compile_ahead(const std::vector<std::pair<const Kind*, const Target*>>& wanted, bool strongest_only = false);

 private:
  CompileResult compile(const Target& target, const std::string& source) const;
  Attempt judge(const Kind& kind, const Target& target, const std::string& source, double strength);

  Device device_;
  AttackOptions options_;
  ThreadPool pool_;
  KernelBench bench_;
};

}  // namespace fk::attack
