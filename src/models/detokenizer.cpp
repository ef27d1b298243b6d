#include "models/detokenizer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "models/tokenizer_bytes.h"
#include "models/tokenizer_words.h"
#include "models/unicode.h"

namespace fk {

// A token reaches a stage in one or more pieces of whole characters; the last piece is marked. A stage that joins
// tokens emits one token that ends with finish(), so the next stage still gets its start at once.
class Detokenizer::Stage {
 public:
  virtual ~Stage() = default;
  virtual void piece(std::string_view text, bool end) = 0;
  virtual void finish() { next->finish(); }

  Stage* next = nullptr;
};

namespace {

using Stage = Detokenizer::Stage;

class OutputStage : public Stage {
 public:
  explicit OutputStage(std::string& out) : out_(out) {}
  void piece(std::string_view text, bool) override { out_ += text; }
  void finish() override {}

 private:
  std::string& out_;
};

// For stages that need the whole token.
class WholeTokenStage : public Stage {
 public:
  void piece(std::string_view text, bool end) final {
    if (end && pending_.empty()) return token(text);
    pending_ += text;
    if (end) token(std::exchange(pending_, {}));
  }

 protected:
  virtual void token(std::string_view text) = 0;

 private:
  std::string pending_;
};

class ReplaceStage : public WholeTokenStage {
 public:
  explicit ReplaceStage(ReplaceStep step) : step_(std::move(step)) {}

 private:
  void token(std::string_view text) override { next->piece(step_.apply(text), true); }
  ReplaceStep step_;
};

// The value of "<0xXX>".
std::optional<char> byte_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  int value = 0;
  for (char c : token.substr(3, 2)) {
    int digit = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
    if (digit < 0) return std::nullopt;
    value = value * 16 + digit;
  }
  return static_cast<char>(static_cast<unsigned char>(value));
}

// A run of byte tokens is uncertain until it ends: one wrong byte makes U+FFFD of every byte in it.
class ByteFallbackStage : public WholeTokenStage {
 public:
  void finish() override {
    end_run();
    Stage::finish();
  }

 private:
  void token(std::string_view text) override {
    if (auto byte = byte_token(text)) {
      run_ += *byte;
      return;
    }
    end_run();
    next->piece(text, true);
  }

  void end_run() {
    if (run_.empty()) return;
    bool valid = unicode::repair_utf8(run_) == run_;
    if (valid) next->piece(run_, true);
    for (size_t i = 0; !valid && i < run_.size(); ++i) next->piece(unicode::kReplacement, true);
    run_.clear();
  }

  std::string run_;
};

class ByteLevelStage : public WholeTokenStage {
 public:
  void finish() override {
    std::string text;
    repair_.finish(text);
    next->piece(text, true);
    Stage::finish();
  }

 private:
  void token(std::string_view text) override {
    std::string bytes;
    for (size_t at = 0; at < text.size();) {
      auto d = unicode::decode_at(text, at);
      auto byte = byte_of_character(d.c);
      if (!byte) {  // an added token, which is written unchanged
        bytes = text;
        break;
      }
      bytes += static_cast<char>(*byte);
      at += d.size;
    }
    std::string certain;
    repair_.push(bytes, certain);
    if (!certain.empty()) next->piece(certain, false);
  }

  unicode::Utf8Repair repair_;
};

class FuseStage : public Stage {
 public:
  void piece(std::string_view text, bool) override {
    if (!text.empty()) next->piece(text, false);
  }
  void finish() override {
    next->piece("", true);
    Stage::finish();
  }
};

class StripStage : public Stage {
 public:
  explicit StripStage(StripDecoder step) : step_(std::move(step)) {}

  void piece(std::string_view text, bool end) override {
    while (stripped_ < step_.start && text.starts_with(step_.content)) {
      text.remove_prefix(step_.content.size());
      ++stripped_;
    }
    if (!text.empty()) stripped_ = step_.start;
    held_ += text;
    // Up to `stop` copies at the end are held back: they may be the last ones of the token.
    size_t keep = held_.size();
    for (size_t i = 0; i < step_.stop && std::string_view(held_).substr(0, keep).ends_with(step_.content); ++i)
      keep -= step_.content.size();
    next->piece(std::string_view(held_).substr(0, keep), end);
    held_.erase(0, keep);
    if (end) {
      held_.clear();
      stripped_ = 0;
    }
  }

 private:
  StripDecoder step_;
  size_t stripped_ = 0;
  std::string held_;
};

class MetaspaceStage : public Stage {
 public:
  explicit MetaspaceStage(MetaspaceDecoder step) : step_(std::move(step)) {}

  void piece(std::string_view text, bool end) override {
    ReplaceStep replace{step_.replacement, first_ && step_.prepended ? "" : " "};
    next->piece(replace.apply(text), end);
    if (end) first_ = false;
  }

 private:
  MetaspaceDecoder step_;
  bool first_ = true;
};

class JoinStage : public Stage {
 public:
  void piece(std::string_view text, bool end) override {
    if (std::exchange(between_, end)) next->piece(" ", true);
    next->piece(text, end);
  }

 private:
  bool between_ = false;
};

std::unique_ptr<Stage> make_stage(const ReplaceStep& step) { return std::make_unique<ReplaceStage>(step); }
std::unique_ptr<Stage> make_stage(const ByteFallbackDecoder&) { return std::make_unique<ByteFallbackStage>(); }
std::unique_ptr<Stage> make_stage(const ByteLevelDecoder&) { return std::make_unique<ByteLevelStage>(); }
std::unique_ptr<Stage> make_stage(const FuseDecoder&) { return std::make_unique<FuseStage>(); }
std::unique_ptr<Stage> make_stage(const StripDecoder& step) { return std::make_unique<StripStage>(step); }
std::unique_ptr<Stage> make_stage(const MetaspaceDecoder& step) { return std::make_unique<MetaspaceStage>(step); }
std::unique_ptr<Stage> make_stage(const JoinDecoder&) { return std::make_unique<JoinStage>(); }

DecoderStep read_step(const JsonNode& node) {
  std::string type = node.type();
  if (type == "Replace") return read_replace(node);
  if (type == "ByteFallback") return ByteFallbackDecoder{};
  if (type == "ByteLevel") return ByteLevelDecoder{};
  if (type == "Fuse") return FuseDecoder{};
  if (type == "Strip") {
    int64_t start = node.at("start").integer(), stop = node.at("stop").integer();
    if (start < 0) node.at("start").fail("0 or more");
    if (stop < 0) node.at("stop").fail("0 or more");
    return StripDecoder{read_character(node.at("content")), static_cast<size_t>(start), static_cast<size_t>(stop)};
  }
  if (type == "Metaspace") {
    auto scheme = node.find("prepend_scheme");
    bool prepended = scheme ? scheme->string() != "never" : node.boolean_or("add_prefix_space", true);
    return MetaspaceDecoder{read_character(node.at("replacement")), prepended};
  }
  node.unsupported("decoder", "Replace, ByteFallback, ByteLevel, Fuse, Strip, Metaspace and Sequence");
}

}  // namespace

std::vector<DecoderStep> read_decoder(const JsonNode& root) {
  auto decoder = root.find("decoder");
  if (!decoder) return {JoinDecoder{}};
  std::vector<DecoderStep> steps;
  for (const JsonNode& part : decoder->parts("decoders")) steps.push_back(read_step(part));
  return steps;
}

Detokenizer::Detokenizer(const std::vector<DecoderStep>& steps) : text_(std::make_unique<std::string>()) {
  for (const DecoderStep& step : steps)
    stages_.push_back(std::visit([](const auto& s) { return make_stage(s); }, step));
  stages_.push_back(std::make_unique<OutputStage>(*text_));
  for (size_t i = 0; i + 1 < stages_.size(); ++i) stages_[i]->next = stages_[i + 1].get();
}

Detokenizer::~Detokenizer() = default;
Detokenizer::Detokenizer(Detokenizer&&) noexcept = default;
Detokenizer& Detokenizer::operator=(Detokenizer&&) noexcept = default;

void Detokenizer::push(std::string_view token) { stages_.front()->piece(token, true); }
void Detokenizer::finish() { stages_.front()->finish(); }
std::string Detokenizer::take() { return std::exchange(*text_, {}); }

}  // namespace fk
