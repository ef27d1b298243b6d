// encode: the vectors of texts, or of images, by an encoder.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <optional>

#include "cli/candidate_options.h"
#include "cli/model_options.h"
#include "cli/output.h"
#include "cli/prompt.h"
#include "cli/table.h"
#include "cli/verb.h"
#include "core/error.h"
#include "engine/encoder.h"
#include "engine/finite_logits.h"
#include "measure/timer.h"
#include "models/image_preprocessor.h"
#include "models/sentence_pooling.h"
#include "models/tokenizer.h"

namespace fk {
namespace {

class Encode final : public Verb {
 public:
  Encode()
      : Verb("encode", "Turn texts or images into vectors",
             {"fastkernels encode --model ./bge-m3 --prompt-token-ids 0,581,2 --prompt-token-ids 0,1401,83,2",
              "fastkernels encode --model tiny-xlm-roberta --load-format dummy --prompt 'A text' --prompt 'Another' "
              "--json",
              "fastkernels encode --model ./my-checkpoint --prompt 'Hello' --pooling mean --csv",
              "fastkernels encode --model ./siglip2-base --image cat.ppm --image dog.ppm"}) {}

  void add_flags(FlagSet& flags) override {
    add_model_options(flags, model_);
    add_candidate_options(flags, candidates_);
    Flag& text = flags.option("--prompt", prompts_, "Text to encode; several run together as one batch");
    flags.option("--prompt-token-ids", prompt_ids_, "Instead: token ids, separated by commas; several likewise")
        .type_name("ID,ID,...")
        .excludes(text);
    flags
        .option("--image", images_,
                "Image to encode: PPM, PGM, or .npy with uint8 pixels (height, width, channels) or float32 "
                "pixel_values (channels, height, width); several likewise")
        .type_name("FILE")
        .excludes(text);
    flags
        .option("--pooling", pooling_,
                "How one vector is made of those of the tokens or patches: the first, their mean, the last, or the "
                "model's own head; auto: as the checkpoint says, else the first of a text and the head of an image")
        .one_of({"auto", "cls", "mean", "last", "pooler"})
        .show_default();
    flags.flag("!--no-normalize", normalize_, "Leave the vectors as long as they are");
  }

  void run(const CommonOptions& common) override {
    if (prompts_.empty() && prompt_ids_.empty() && images_.empty())
      throw UsageError("Give a --prompt, --prompt-token-ids or an --image.");
    for (const std::string& prompt : prompts_)
      if (prompt.empty()) throw UsageError("A prompt is empty; give it at least one character.");
    ModelSource source = resolve_model(model_.model);
    if (!is_encoder(source.config.facts.task)) source.config.require_task(Task::kTextEncoder, source.name, "encode");
    bool takes_images = source.config.facts.task == Task::kImageEncoder;
    if (takes_images == images_.empty())
      throw UsageError("{} is {}; give it {}.", source.name, task_info(source.config.facts.task).words,
                       takes_images ? "an --image" : "a --prompt or --prompt-token-ids");
    check_loadable(source, load_options(model_, source, common));
    EncoderInput input = read_input(source);
    judged_ = activate_candidates(candidates_, common);
    ThreadPool pool(common.threads);
    TimedModel loaded = load_timed(model_, source, common, pool);
    uses_ = candidate_uses(*loaded.model.root);
    if (std::string line = describe_uses(uses_); common.text() && !common.quiet && !line.empty())
      std::fputs(("[" + line + "]\n").c_str(), stderr);
    std::unique_ptr<Encoder> encoder = make_encoder(loaded.model, pool);
    Stopwatch watch;
    Encoded encoded = encoder->forward(input);
    std::string pooling = pooling_;
    if (pooling == "auto" && takes_images) pooling = encoded.pooler_output ? "pooler" : "mean";
    if (pooling == "auto") pooling = read_sentence_pooling(source.directory).value_or("cls");
    View embeddings = encoder->embed(encoded, {.pooling = pooling, .normalize = normalize_});
    Report report{loaded, encoder->sequences(input), encoder->noun(), embeddings, pooling, watch.elapsed_s()};
    require_finite(loaded.model, embeddings, "vectors");
    if (common.json)
      print_json(report);
    else if (common.csv)
      print_csv(csv(report));
    else
      print_summary(report, common);
  }

 private:
  struct Report {
    const TimedModel& loaded;
    std::vector<Sequence> sequences;
    std::string_view noun;
    View embeddings;
    std::string pooling;
    double elapsed_s;

    size_t count() const { return sequences.size(); }
    std::span<const float> vector(size_t i) const {
      auto width = static_cast<size_t>(embeddings.size(1));
      return {embeddings.ptr<float>() + i * width, width};
    }
  };

  EncoderInput read_input(const ModelSource& source) const {
    EncoderInput input;
    std::optional<Tokenizer> tokenizer;
    if (!source.tokenizer.empty() && !prompts_.empty()) tokenizer = read_tokenizer(source.tokenizer);
    for (const std::string& prompt : prompts_) input.texts.push_back(encode_prompt(prompt, tokenizer, source, model_));
    for (const std::string& ids : prompt_ids_) input.texts.push_back(parse_token_ids(ids));
    ImagePreprocessor preprocessor;
    if (!images_.empty()) preprocessor = read_image_preprocessor(source.directory);
    for (const std::string& path : images_)
      input.images.push_back(preprocess(preprocessor, read_image(path), source.config.facts, path));
    return input;
  }

  // Many encoders have tokenizers of kinds that are not supported; ids need none.
  static Tokenizer read_tokenizer(const std::string& path) {
    try {
      return Tokenizer::from_file(path);
    } catch (const Error& e) {
      std::string_view sentence = e.what();
      if (sentence.ends_with('.')) sentence.remove_suffix(1);
      throw Error("{}; give --prompt-token-ids instead of a text.", sentence);
    }
  }

  static double length(std::span<const float> v) {
    double squares = 0;
    for (float x : v) squares += static_cast<double>(x) * static_cast<double>(x);
    return std::sqrt(squares);
  }

  static double cosine(std::span<const float> a, std::span<const float> b) {
    double product = 0;
    for (size_t i = 0; i < a.size(); ++i) product += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    return product / std::max(length(a) * length(b), 1e-300);
  }

  void print_summary(const Report& r, const CommonOptions& common) const {
    const Model& model = r.loaded.model;
    Table table({{"input", "INPUT"}, {"tokens", "TOKENS"}, {"length", "LENGTH"}, {"first", "FIRST NUMBERS"}});
    for (size_t i = 0; i < r.count(); ++i) {
      std::string first;
      for (size_t k = 0; k < std::min<size_t>(4, r.vector(i).size()); ++k)
        first += fmt::format("{}{:.5f}", k == 0 ? "" : "  ", r.vector(i)[k]);
      table.add_row({i, r.sequences[i].query_len, Cell(length(r.vector(i)), 4), first});
    }
    fk::print_text(fmt::format("{}, {}, {}: {} {}{}, vectors of {} numbers, pooling {}{}\n\n", model.name,
                               model.config.architecture(), dtype_name(model.config.facts.dtype), r.count(), r.noun,
                               r.count() == 1 ? "" : "s", r.embeddings.size(1), r.pooling,
                               normalize_ ? ", normalised" : ""));
    print_out(table.to_text());
    constexpr size_t kMostInMatrix = 8;
    if (r.count() > 1 && r.count() <= kMostInMatrix) print_out("\ncosine similarity\n" + similarities(r).to_text());
    if (!common.quiet)
      std::fputs(fmt::format("[{:.1f} ms for the batch; loaded in {:.1f} s; --json and --csv print whole vectors]\n",
                             r.elapsed_s * 1e3, r.loaded.load_ms * 1e-3)
                     .c_str(),
                 stderr);
  }

  static Table similarities(const Report& r) {
    std::vector<Table::Column> columns = {{"input", "INPUT"}};
    for (size_t i = 0; i < r.count(); ++i) columns.push_back({fmt::format("{}", i), fmt::format("{}", i)});
    Table table(columns);
    for (size_t i = 0; i < r.count(); ++i) {
      std::vector<Cell> cells = {i};
      for (size_t k = 0; k < r.count(); ++k) cells.emplace_back(cosine(r.vector(i), r.vector(k)), 3);
      table.add_row(std::move(cells));
    }
    return table;
  }

  // One line for each input: its number, its tokens, and all numbers of its vector.
  static std::string csv(const Report& r) {
    std::vector<Json> header = {"input", "tokens"};
    for (int64_t k = 0; k < r.embeddings.size(1); ++k) header.emplace_back(fmt::format("v{}", k));
    std::string text = csv_record(header);
    for (size_t i = 0; i < r.count(); ++i) {
      std::vector<Json> fields = {i, r.sequences[i].query_len};
      for (float x : r.vector(i)) fields.emplace_back(x);
      text += csv_record(fields);
    }
    return text;
  }

  void print_json(const Report& r) const {
    const Model& model = r.loaded.model;
    Json json = {
        {"model", model.name},        {"dtype", dtype_name(model.config.facts.dtype)}, {"pooling", r.pooling},
        {"normalized", normalize_},   {"hidden_size", r.embeddings.size(1)},           {"encode_ms", r.elapsed_s * 1e3},
        {"load_ms", r.loaded.load_ms}};
    json["embeddings"] = Json::array();
    json["tokens"] = Json::array();
    for (size_t i = 0; i < r.count(); ++i) {
      json["tokens"].push_back(r.sequences[i].query_len);
      json["embeddings"].push_back(std::vector<float>(r.vector(i).begin(), r.vector(i).end()));
    }
    json["candidates"] = to_json(uses_, judged_);
    json["cxxflags"] = candidates_.cxxflags;
    json["dispatches"] = to_json(collect_dispatches(*model.root));
    print_out(dump_json(json) + "\n");
  }

  ModelOptions model_;
  CandidateOptions candidates_;
  std::vector<CandidateUse> uses_;
  std::vector<CandidateRecord> judged_;
  std::vector<std::string> prompts_, prompt_ids_, images_;
  std::string pooling_ = "auto";
  bool normalize_ = true;
};

Encode encode_verb;

}  // namespace
}  // namespace fk
