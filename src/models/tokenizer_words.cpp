#include "models/tokenizer_words.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "models/tokenizer_bytes.h"
#include "models/tokenizer_normalizer.h"
#include "models/unicode.h"

namespace fk {
namespace {

// What ByteLevel splits by when it does so itself: GPT-2's pattern.
constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

struct CutPart {
  size_t begin, end;
  bool match;
};

// `text` as matches and the parts between them.
template <class Matches>
std::vector<CutPart> cut(std::string_view text, const Matches& for_each_match) {
  std::vector<CutPart> parts;
  size_t from = 0;
  for_each_match([&](size_t begin, size_t end) {
    if (begin > from) parts.push_back({from, begin, false});
    parts.push_back({begin, end, true});
    from = end;
  });
  if (from < text.size()) parts.push_back({from, text.size(), false});
  return parts;
}

}  // namespace

std::string read_character(const JsonNode& node) {
  std::string text = node.string();
  if (text.empty() || unicode::decode_at(text, 0).size != text.size()) node.fail("one character");
  return text;
}

WordSplitter::WordSplitter(const JsonNode& node) {
  for (const JsonNode& part : node.parts("pretokenizers")) {
    std::string type = part.type();
    if (type == "Split") {
      steps_.emplace_back(read_split(part));
    } else if (type == "ByteLevel") {
      ByteLevel step{part.boolean_or("add_prefix_space", true), std::nullopt};
      if (part.boolean_or("use_regex", true)) step.regex.emplace(kGpt2Pattern);
      steps_.emplace_back(std::move(step));
    } else if (type == "Metaspace") {
      steps_.emplace_back(read_metaspace(part));
    } else if (type == "Digits") {
      bool each = part.boolean_or("individual_digits", false);
      steps_.emplace_back(Split{
          .regex = SplitPattern(R"(\p{N})"), .literal = {}, .behavior = each ? Split::kIsolated : Split::kContiguous});
    } else {
      part.unsupported("pre-tokenizer", "Split, ByteLevel, Metaspace, Digits and Sequence");
    }
  }
}

WordSplitter::Split WordSplitter::read_split(const JsonNode& node) {
  Split step;
  JsonNode pattern = node.at("pattern");
  if (auto regex = pattern.find("Regex")) {
    try {
      step.regex.emplace(regex->string());
    } catch (const Error& e) {
      throw Error("{}: {}", regex->path(), e.what());
    }
  } else {
    step.literal = pattern.at("String").string();
    if (step.literal.empty()) pattern.at("String").fail("a string that is not empty");
  }
  static constexpr std::pair<std::string_view, Split::Behavior> kBehaviors[] = {
      {"Removed", Split::kRemoved},
      {"Isolated", Split::kIsolated},
      {"MergedWithPrevious", Split::kMergedWithPrevious},
      {"MergedWithNext", Split::kMergedWithNext},
      {"Contiguous", Split::kContiguous},
  };
  std::string behavior = node.at("behavior").string();
  auto it = std::ranges::find(kBehaviors, behavior, &std::pair<std::string_view, Split::Behavior>::first);
  if (it == std::end(kBehaviors))
    node.at("behavior").fail("Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
  step.behavior = it->second;
  step.invert = node.boolean_or("invert", false);
  return step;
}

WordSplitter::Metaspace WordSplitter::read_metaspace(const JsonNode& node) {
  Metaspace step;
  step.replacement = read_character(node.at("replacement"));
  step.split = node.boolean_or("split", true);
  step.prepend = node.boolean_or("add_prefix_space", true) ? Metaspace::kAlways : Metaspace::kNever;
  if (auto scheme = node.find("prepend_scheme")) {
    std::string name = scheme->string();
    if (name != "always" && name != "first" && name != "never") scheme->fail("always, first or never");
    step.prepend = name == "always" ? Metaspace::kAlways : name == "first" ? Metaspace::kFirst : Metaspace::kNever;
  }
  return step;
}

Words WordSplitter::split(std::string text, bool first) const {
  Words words{std::move(text), {}};
  if (!words.text.empty()) words.ranges.push_back({0, static_cast<uint32_t>(words.text.size()), first});
  for (const auto& step : steps_) {
    require_text_fits(words.text.size());
    std::visit([&](const auto& s) { apply(s, words); }, step);
  }
  return words;
}

void WordSplitter::split_range(const Split& step, const Words& words, Words::Range range,
                               std::vector<Words::Range>& out) {
  std::string_view text = words[range];
  auto matches = [&](const std::function<void(size_t, size_t)>& match) {
    if (step.regex) return step.regex->for_each_match(text, match);
    for (size_t at = 0; (at = text.find(step.literal, at)) != std::string_view::npos; at += step.literal.size())
      match(at, at + step.literal.size());
  };
  std::vector<CutPart> parts = cut(text, matches);
  if (step.invert)
    for (CutPart& part : parts) part.match = !part.match;

  // Parts of one kind, or a delimiter and its neighbour, are joined by joining adjacent parts: `starts` marks where
  // words start.
  std::vector<bool> starts(parts.size(), true);
  for (size_t i = 1; i < parts.size(); ++i) {
    bool match = parts[i].match, before = parts[i - 1].match;
    if (step.behavior == Split::kMergedWithPrevious) starts[i] = !match || before;
    if (step.behavior == Split::kMergedWithNext) starts[i] = match || !before;
    if (step.behavior == Split::kContiguous) starts[i] = match != before;
  }
  for (size_t i = 0; i < parts.size();) {
    size_t next = i + 1;
    while (next < parts.size() && !starts[next]) ++next;
    size_t begin = parts[i].begin, end = parts[next - 1].end;
    bool removed = step.behavior == Split::kRemoved && parts[i].match;
    if (!removed && end > begin)
      out.push_back({range.begin + static_cast<uint32_t>(begin), range.begin + static_cast<uint32_t>(end),
                     range.first && begin == 0});
    i = next;
  }
}

void WordSplitter::apply(const Split& step, Words& words) {
  std::vector<Words::Range> out;
  for (const auto& range : words.ranges) split_range(step, words, range, out);
  words.ranges = std::move(out);
}

void WordSplitter::apply(const ByteLevel& step, Words& words) {
  if (step.add_prefix_space) {
    Words spaced;
    for (auto range : words.ranges) {
      auto begin = static_cast<uint32_t>(spaced.text.size());
      if (!words[range].starts_with(' ')) spaced.text += ' ';
      spaced.text += words[range];
      spaced.ranges.push_back({begin, static_cast<uint32_t>(spaced.text.size()), range.first});
    }
    words = std::move(spaced);
  }
  if (step.regex) apply(Split{.regex = step.regex, .literal = {}}, words);
  Words out;
  out.text.reserve(words.text.size() * 3 / 2);
  out.ranges.reserve(words.ranges.size());
  for (auto range : words.ranges) {
    auto begin = static_cast<uint32_t>(out.text.size());
    append_byte_characters(words[range], out.text);
    out.ranges.push_back({begin, static_cast<uint32_t>(out.text.size()), range.first});
  }
  words = std::move(out);
}

void WordSplitter::apply(const Metaspace& step, Words& words) {
  Words out;
  ReplaceStep spaces{" ", step.replacement};
  for (auto range : words.ranges) {
    std::string text = spaces.apply(words[range]);
    bool prepend = step.prepend == Metaspace::kAlways || (step.prepend == Metaspace::kFirst && range.first);
    auto begin = static_cast<uint32_t>(out.text.size());
    if (prepend && !text.starts_with(step.replacement)) out.text += step.replacement;
    out.text += text;
    out.ranges.push_back({begin, static_cast<uint32_t>(out.text.size()), range.first});
  }
  words = std::move(out);
  if (step.split) {
    Split before_each{.regex = {}, .literal = step.replacement, .behavior = Split::kMergedWithNext};
    apply(before_each, words);
  }
}

}  // namespace fk
