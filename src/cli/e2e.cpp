// e2e: what a served model gains: throughput and latency of the engine, and of a running server.
#include "cli/e2e_serve.h"
#include "cli/verb.h"
#include "core/error.h"

namespace fk {
namespace {

class E2e final : public Verb {
 public:
  E2e()
      : Verb("e2e", "Measure a served model: throughput, latency, and a server under load",
             {"fastkernels e2e serve --port 8000 --num-prompts 200 --request-rate 10 --goodput ttft:200 tpot:50",
              "fastkernels e2e serve --base-url http://host:8000 --max-concurrency 1 4 16 64   # a curve of loads"}) {}

  bool computes() const override { return action_ != "serve"; }

  void add_flags(FlagSet& flags) override {
    serve_.add_flags(flags.action("serve", "Load a running OpenAI-compatible server: what its clients see", action_));
  }

  void run(const CommonOptions& common) override {
    if (action_ == "serve") return serve_.run(common);
    throw UsageError("Say what to measure: `fastkernels e2e serve`.");
  }

 private:
  std::string action_;
  E2eServe serve_;
};

E2e e2e;

}  // namespace
}  // namespace fk
