// serve: an OpenAI-compatible server over a model.
#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <optional>

#include "cli/candidate_options.h"
#include "cli/compiled_path.h"
#include "cli/engine_options.h"
#include "cli/model_options.h"
#include "cli/output.h"
#include "cli/ranks.h"
#include "cli/verb.h"
#include "core/error.h"
#include "core/printable.h"
#include "engine/batching_engine.h"
#include "engine/encoder.h"
#include "engine/finite_logits.h"
#include "models/generation_defaults.h"
#include "models/gguf_model.h"
#include "models/gguf_tokenizer.h"
#include "models/sentence_pooling.h"
#include "serve/server.h"

namespace fk {
namespace {

constexpr double kMostSeconds = 1e6;  // 11 days; more would overflow a clock sooner or later

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1e3));
}

// A stream is an open file, and the usual limit of 1024 of them would be the limit of streams.
void raise_file_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

class Serve final : public Verb {
 public:
  Serve()
      : Verb("serve", "Serve a model over HTTP with OpenAI's API",
             {"fastkernels serve --model ./my-checkpoint", "fastkernels serve --model tiny-llama --load-format dummy",
              "fastkernels serve --model ./my-checkpoint --port 9000 --api-key something-long --served-model-name mine",
              "fastkernels serve --model ./my-checkpoint --speculative-config '{\"method\": \"ngram\"}'   # guesses "
              "that repeat what the text has",
              "fastkernels serve --model ./my-checkpoint --speculative-config '{\"model\": \"./a-small-one\", "
              "\"num_speculative_tokens\": 4}'   # guesses by a smaller model",
              "fastkernels serve --model ./my-checkpoint --compiled   # steps by plans with generated kernels",
              "fastkernels serve --model ./my-checkpoint --tp 2   # on two ranks",
              "fastkernels serve --model ./bge-m3   # an encoder: /v1/embeddings",
              "curl http://127.0.0.1:8000/v1/completions -H 'Content-Type: application/json' -d '{\"prompt\": "
              "\"Hello\"}'"}) {}

  void add_flags(FlagSet& flags) override {
    add_model_options(flags, model_);
    add_candidate_options(flags, candidates_);
    add_rank_options(flags, tp_);
    flags.option("--host", options_.http.host, "Address to listen on; 0.0.0.0: other machines may connect as well")
        .type_name("HOST")
        .show_default();
    flags.option("--port", options_.http.port, "Port; 0: a free one").range(0, 65535).type_name("N").show_default();
    key_flag_ =
        &flags
             .option("--api-key", options_.api_key,
                     "Key that clients must send; also read from FASTKERNELS_API_KEY, which other users cannot see")
             .type_name("TEXT");
    flags.option("--served-model-name", names_, "Names of the model for clients; the first is in answers [--model]")
        .type_name("NAME");
    flags.option("--chat-template", chat_template_, "Jinja template to use in place of the model's own")
        .type_name("FILE");
    flags
        .option("--tool-call-parser", tool_call_parser_,
                "How the model writes calls of tools; auto: as its chat template says; none: calls are text")
        .one_of({"auto", "none", "hermes", "llama3_json"})
        .show_default();
    flags
        .option("--generation-config", generation_config_,
                "Sampling where a request does not say: auto: as generation_config.json says; none: temperature 1")
        .one_of({"auto", "none"})
        .show_default();
    flags.option("--max-model-len", batching_.max_model_len, "Tokens of prompt and output together [the model's]")
        .range(1, int64_t{1} << 31);
    flags.option("--max-num-seqs", batching_.max_num_seqs, "Requests that run at the same time")
        .range(1, 1 << 16)
        .show_default();
    flags.option("--max-num-batched-tokens", batching_.max_num_batched_tokens, "Tokens of one step")
        .range(1, 1 << 20)
        .show_default();
    flags.option("--gpu-memory-utilization", batching_.gpu_memory_utilization, "Share of the memory to use")
        .show_default();
    flags.option("--block-size", batching_.block_size, "Tokens of a block of the KV cache")
        .range(1, 4096)
        .show_default();
    flags.flag("!--no-enable-prefix-caching", batching_.enable_prefix_caching, "Compute equal beginnings again");
    flags.flag("--enforce-eager", batching_.enforce_eager, "Launch operator by operator, without recorded steps");
    flags.flag("--no-async-scheduling", batching_.no_run_ahead,
               "Wait for the tokens of a step before planning the next");
    speculative_.add(flags);
    add_batch_invariant_flag(flags, batching_.batch_invariant);
    flags.flag("--compiled", compiled_, "Run steps by plans with generated kernels, instead of the model's tree");
    search_.add(flags, "--compiled");
    flags
        .option("--max-waiting", batching_.max_waiting,
                "Requests that may wait, of an encoder inputs; more are answered with 429")
        .range(0, 1 << 30)
        .show_default();
    flags.option("--max-body-bytes", max_body_bytes_, "Largest body of a request; larger ones are answered with 413")
        .range(1, int64_t{1} << 40)
        .show_default();
    flags.option("--request-timeout", request_timeout_, "Seconds after which a request ends with 504; 0: never")
        .show_default();
    flags
        .option("--drain-timeout", drain_timeout_,
                "Seconds that running requests have left after SIGTERM or Ctrl-C; a second signal ends at once")
        .show_default();
    flags.option("--access-log", options_.access_log, "File that gets a JSON line for every request; -: standard error")
        .type_name("FILE")
        .show_default();
    flags.flag("--no-access-log", no_access_log_, "Log no requests");
    flags.option("--pooling", pooling_, "Of an encoder: how one vector is made of those of the tokens [as encode's]")
        .one_of({"auto", "cls", "mean", "last", "pooler"})
        .show_default();
  }

  void run(const CommonOptions& given) override {
    CommonOptions common = given;
    check_flags(common);
    batching_.speculative = speculative_.read();
    ModelSource source = resolve_model(model_.model);
    bool encoder = source.config.facts.task == Task::kTextEncoder;
    if (const TaskInfo& task = task_info(source.config.facts.task);
        !encoder && source.config.facts.task != Task::kCausalLM)
      throw Error(
          "{} is {}, and serve needs a model that writes token by token, or a text encoder; run it with fastkernels "
          "{}.",
          source.name, task.words, task.verb);
    if (encoder && batching_.batch_invariant)
      throw UsageError("--batch-invariant is for models that generate text, and {} is an encoder.", source.name);
    if (encoder && speculative_.given())
      throw UsageError("{} is an encoder and draws no tokens; leave --speculative-config out.", source.name);
    check_batching_options(batching_);
    if (compiled_)
      refuse_with_plans(batching_);
    else
      search_.refuse_without_plans();
    if (encoder && tp_ > 1) throw UsageError("{} is an encoder, which cannot be divided; leave --tp out.", source.name);
    check_loadable(source, load_options(model_, source, common));
    check_divisible(source, tp_);
    if (!encoder) check_model_allows(source, batching_, common.device);
    speculative_.find_draft(source, model_, batching_, tp_, common);
    ServedModel served = describe(source, encoder);
    Ranks ranks(tp_, common);
    // The first rank drains and then ends the others, which must not end before it.
    if (!ranks.first())
      for (int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, SIG_IGN);
    else
      Server::check_options(options_);  // loading may take minutes
    ThreadPool pool(common.threads);
    std::vector<CandidateRecord> judged = activate_candidates(candidates_, common);
    speculative_.load_draft(model_, common, pool);
    TimedModel loaded = load_timed(model_, source, common, pool, ranks.communicator());
    if (std::string line = describe_uses(candidate_uses(*loaded.model.root)); !common.quiet && !line.empty())
      std::fputs(("[" + line + "]\n").c_str(), stderr);
    std::unique_ptr<CompiledPath> compiled;
    if (compiled_) {
      Progress progress(common);
      compiled = compiled_engine(loaded.model, search_.options(judged, candidates_, common, progress), pool, batching_,
                                 progress);
    }
    if (compiled && !common.quiet && ranks.first())
      std::fputs(fmt::format("[compiled: {}]\n", compiled->planned_text()).c_str(), stderr);
    raise_file_limit();
    std::signal(SIGPIPE, SIG_IGN);  // whoever read the access log may leave
    if (encoder)
      serve_encoder(std::move(served), source, loaded.model, pool, common);
    else
      serve_language_model(std::move(served), loaded.model, pool, ranks, common);
  }

 private:
  void check_flags(const CommonOptions& common) {
    // An empty key is a variable or a file that was not read: without one the server would be open to everyone.
    if (key_flag_->given() && options_.api_key.empty())
      throw UsageError("--api-key is empty; give a key, or leave it out for a server without one.");
    if (const char* key = std::getenv("FASTKERNELS_API_KEY"); key != nullptr && !key_flag_->given()) {
      if (*key == '\0')
        throw UsageError("FASTKERNELS_API_KEY is set and empty; give it a key, or unset it for a server without one.");
      options_.api_key = key;
    }
    for (auto [flag, seconds] : {std::pair{"--request-timeout", request_timeout_}, {"--drain-timeout", drain_timeout_}})
      if (!(seconds >= 0 && seconds <= kMostSeconds))
        throw UsageError("{} takes seconds from 0 to {}.", flag, kMostSeconds);
    for (const std::string& name : names_)
      if (name.empty()) throw UsageError("--served-model-name must not be empty.");
    if (request_timeout_ > 0) options_.request_timeout = milliseconds(request_timeout_);
    options_.drain_timeout = milliseconds(drain_timeout_);
    options_.http.max_body_bytes = static_cast<uint64_t>(max_body_bytes_);
    if (no_access_log_ || (common.quiet && options_.access_log == "-")) options_.access_log.clear();
    options_.version = FK_VERSION;
  }

  ServedModel describe(const ModelSource& source, bool encoder) const {
    ServedModel served;
    served.names = names_.empty() ? std::vector<std::string>{source.name} : names_;
    served.root = source.name;
    served.created = std::time(nullptr);
    served.vocab_size = source.config.facts.vocab_size;
    served.max_model_len = source.config.facts.max_position_embeddings;
    std::optional<ChatTemplate> own;
    if (!source.gguf.empty()) {
      GgufFile file = GgufFile::open(source.gguf);
      served.tokenizer = or_ids_only([&] { return gguf_tokenizer(file); });
      use(gguf_generation_defaults(file), served);
      own = ChatTemplate::of_gguf(file);
    } else if (!source.directory.empty()) {
      if (!source.tokenizer.empty())
        served.tokenizer = or_ids_only([&] { return Tokenizer::from_file(source.tokenizer); });
      use(read_generation_defaults(source.directory), served);
      if (!encoder) own = ChatTemplate::of_folder(source.directory);
    }
    served.chat_template = chat_template_.empty() ? own : ChatTemplate::of_file(chat_template_, own);
    if (!chat_template_.empty()) served.chat_template->check();
    served.tool_calls = tool_call_form(tool_call_parser_, served.chat_template);
    served.bytes_are_tokens = !served.tokenizer && model_.load_format == "dummy";
    if (served.tokenizer && served.tokenizer->vocab_size() > served.vocab_size)
      std::fputs(fmt::format("[the tokenizer has {} ids, but the model only {}: texts with the others are refused]\n",
                             served.tokenizer->vocab_size(), served.vocab_size)
                     .c_str(),
                 stderr);
    return served;
  }

  // Without a tokenizer that can be used, prompts are token ids: the server says so and starts.
  template <class Load>
  static std::optional<Tokenizer> or_ids_only(Load&& load) {
    try {
      return load();
    } catch (const Error& e) {
      std::fputs(printable_lines(fmt::format("[no text, only ids: {}]\n", e.what())).c_str(), stderr);
      return std::nullopt;
    }
  }

  // Where a request does not say how tokens are sampled, the checkpoint does.
  void use(const GenerationDefaults& defaults, ServedModel& served) const {
    served.end_tokens = defaults.eos;
    if (generation_config_ == "none") return;
    SamplingParams& sampling = served.defaults;
    sampling.temperature = defaults.sampling.temperature.value_or(sampling.temperature);
    sampling.top_k = defaults.sampling.top_k.value_or(sampling.top_k);
    sampling.top_p = defaults.sampling.top_p.value_or(sampling.top_p);
    sampling.min_p = defaults.sampling.min_p.value_or(sampling.min_p);
    sampling.repetition_penalty = defaults.sampling.repetition_penalty.value_or(sampling.repetition_penalty);
  }

  void serve_language_model(ServedModel served, const Model& model, ThreadPool& pool, Ranks& ranks,
                            const CommonOptions& common) {
    BatchingEngine engine(model, pool, served.tokenizer, batching_, speculative_.draft(model));
    if (tp_ > 1) engine.share_requests(ranks.host());
    if (!ranks.first()) {
      engine.follow();
      return ranks.finish();
    }
    served.max_model_len = engine.limits().max_model_len;
    Server server(options_, std::move(served), &engine, nullptr);
    engine.start([&] { server.drain(); });  // what is left is to tell the clients
    server.take_signals();
    announce(server, common);
    server.run();
    engine.stop();  // while the server is there for what it still sends
    if (compiled_ && !common.quiet)
      std::fputs(fmt::format("[{}]\n", compiled_share_text(engine.stats())).c_str(), stderr);
    if (!engine.failure().empty()) throw Error("{}", engine.failure());
    ranks.finish();
  }

  void serve_encoder(ServedModel served, const ModelSource& source, const Model& model, ThreadPool& pool,
                     const CommonOptions& common) {
    if (batching_.max_model_len > served.max_model_len)
      throw UsageError("--max-model-len {} is more than the {} tokens of {}.", batching_.max_model_len,
                       served.max_model_len, source.name);
    if (batching_.max_model_len > 0) served.max_model_len = batching_.max_model_len;
    std::unique_ptr<Encoder> encoder = make_encoder(model, pool);
    std::string pooling = pooling_;
    if (pooling == "auto") pooling = read_sentence_pooling(source.directory).value_or("cls");
    EmbeddingQueue queue(
        [&](const std::vector<std::vector<int64_t>>& texts) {
          EncoderInput input{.texts = texts, .images = {}};
          View vectors = encoder->embed(encoder->forward(input), {.pooling = pooling, .normalize = true});
          require_finite(model, vectors, "vectors");
          auto width = static_cast<size_t>(vectors.size(1));
          std::vector<Embedding> all;
          for (size_t i = 0; i < texts.size(); ++i)
            all.emplace_back(vectors.ptr<float>() + i * width, vectors.ptr<float>() + (i + 1) * width);
          return all;
        },
        batching_.max_num_batched_tokens, static_cast<size_t>(batching_.max_waiting));
    Server server(options_, std::move(served), nullptr, &queue);
    server.take_signals();
    announce(server, common);
    server.run();
  }

  void announce(const Server& server, const CommonOptions& common) const {
    std::string name = names_.empty() ? model_.model : names_.front();
    if (common.json)
      print_out(dump_json({{"url", server.url()}, {"model", name}}) + "\n");
    else if (common.quiet || common.csv)
      print_out(server.url() + "\n");
    else
      print_out(
          printable_lines(fmt::format("{0} serves {1}: base_url of OpenAI's clients is {0}/v1, and {0}/ shows the "
                                      "load. Ctrl-C ends it.\n",
                                      server.url(), name)));
  }

  ModelOptions model_;
  CandidateOptions candidates_;
  ServerOptions options_ = with_log();
  BatchingOptions batching_ = with_queue();
  std::vector<std::string> names_;
  std::string chat_template_, pooling_ = "auto", generation_config_ = "auto", tool_call_parser_ = "auto";
  SpeculativeFlag speculative_;
  int64_t tp_ = 1;
  int64_t max_body_bytes_ = int64_t{32} << 20;
  double request_timeout_ = 0, drain_timeout_ = 30;
  bool no_access_log_ = false, compiled_ = false;
  const Flag* key_flag_ = nullptr;
  SearchFlags search_;

  static ServerOptions with_log() {
    ServerOptions options;
    options.access_log = "-";
    return options;
  }
  static BatchingOptions with_queue() {
    BatchingOptions options;
    options.max_waiting = 1024;
    return options;
  }
};

Serve serve_verb;

}  // namespace
}  // namespace fk
