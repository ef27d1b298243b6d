// e2e: what a served model gains: throughput and latency of the engine, and of a running server.
#include "cli/e2e_engine.h"
#include "cli/e2e_serve.h"
#include "cli/verb.h"
#include "core/error.h"

namespace fk {
namespace {

class E2e final : public Verb {
 public:
  E2e()
      : Verb("e2e", "Measure a served model: throughput, latency, and a server under load",
             {"fastkernels e2e throughput --model tiny-llama --load-format dummy --input-len 128 --num-prompts 50   # "
              "do "
              "your candidates make it faster?",
              "fastkernels e2e latency --model llama-3.2-1b --load-format dummy --batch-size 8 --num-iters 5",
              "fastkernels e2e throughput --model tiny-llama --load-format dummy --input-len 128 --num-prompts 50 "
              "--no-candidate-kernels --attribute",
              "fastkernels e2e throughput --model tiny-llama --load-format dummy --input-len 128 --num-prompts 50 "
              "--compiled "
              "  # plans against the tree",
              "fastkernels e2e serve --port 8000 --num-prompts 200 --request-rate 10 --goodput ttft:200 tpot:50",
              "fastkernels e2e serve --compiled --model tiny-llama --serve-flags '--load-format dummy' --input-len 128 "
              "--num-prompts 50   # own servers, by turns",
              "fastkernels e2e serve --base-url http://host:8000 --max-concurrency 1 4 16 64   # a curve of loads"}) {}

  bool computes() const override { return action_ != "serve"; }

  void add_flags(FlagSet& flags) override {
    throughput_.add_flags(flags.action(
        "throughput",
        "Tokens per second of many requests at once; with candidates against without, or plans against the tree",
        action_));
    latency_.add_flags(flags.action(
        "latency", "Seconds of one batch of requests; with candidates against without, or plans against the tree",
        action_));
    serve_.add_flags(flags.action("serve", "Load a running OpenAI-compatible server: what its clients see", action_));
  }

  void run(const CommonOptions& common) override {
    if (action_ == "serve") return serve_.run(common);
    if (action_ == "throughput") return throughput_.run(common);
    if (action_ == "latency") return latency_.run(common);
    throw UsageError("Say what to measure: `e2e throughput`, `e2e latency` or `e2e serve`.");
  }

 private:
  std::string action_;
  E2eEngine throughput_{E2eEngine::Kind::kThroughput};
  E2eEngine latency_{E2eEngine::Kind::kLatency};
  E2eServe serve_;
};

E2e e2e;

}  // namespace
}  // namespace fk
