// Parses a split pattern into a tree, or names the construct that is not supported.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "core/error.h"
#include "models/split_pattern_fold.h"
#include "models/split_pattern_tree.h"

namespace fk {
namespace {

constexpr int kMaxNesting = 64;
constexpr uint32_t kMaxCount = 100'000;  // of {m,n}; the limit of Oniguruma

void sort_and_join(std::vector<CharSet::Range>& ranges) {
  std::ranges::sort(ranges, {}, &CharSet::Range::first);
  size_t kept = 0;
  for (auto range : ranges) {
    if (kept > 0 && range.first <= ranges[kept - 1].last + 1)
      ranges[kept - 1].last = std::max(ranges[kept - 1].last, range.last);
    else
      ranges[kept++] = range;
  }
  ranges.resize(kept);
}

class Parser {
 public:
  Parser(std::string_view pattern, std::vector<CharSet>& sets) : pattern_(pattern), sets_(sets) {}

  PatternNode parse() {
    PatternNode node = alternation();
    if (!at_end()) unsupported("the unmatched parenthesis ')'");
    make_sets_of_literals(node);
    return node;
  }

 private:
  [[noreturn]] void unsupported(std::string_view construct) const {
    throw Error("The split pattern uses {} at byte {}, which this tokenizer does not handle.",
                unicode::repair_utf8(construct), at_);
  }
  bool at_end() const { return at_ >= pattern_.size(); }
  bool next_is(std::string_view text) const {
    return pattern_.substr(std::min(at_, pattern_.size())).starts_with(text);
  }
  bool take(std::string_view text) {
    if (!next_is(text)) return false;
    at_ += text.size();
    return true;
  }
  char32_t take_char() {
    auto d = unicode::decode_at(pattern_, at_);
    at_ += d.size;
    return d.c;
  }

  PatternNode alternation() {
    if (++nesting_ > kMaxNesting) unsupported(fmt::format("more than {} nested groups", kMaxNesting));
    PatternNode node{.kind = PatternNode::kAlternate};
    do node.children.push_back(concatenation());
    while (take("|"));
    --nesting_;
    if (node.children.size() > 1) return node;
    return PatternNode(std::move(node.children[0]));
  }

  PatternNode concatenation() {
    PatternNode node{.kind = PatternNode::kConcat};
    while (!at_end() && !next_is("|") && !next_is(")")) {
      PatternNode next = quantified();
      // Only adjacent characters can match one character that folds to all of them.
      bool joins = next.kind == PatternNode::kLiteral && !node.children.empty() &&
                   node.children.back().kind == PatternNode::kLiteral;
      if (joins)
        node.children.back().text += next.text;
      else
        node.children.push_back(std::move(next));
    }
    if (node.children.size() != 1) return node;
    return PatternNode(std::move(node.children[0]));
  }

  PatternNode quantified() {
    PatternNode body = atom();
    auto count = quantifier();
    if (!count) return body;
    if (body.kind == PatternNode::kLook) unsupported("a repeated lookahead");
    if (body.kind == PatternNode::kWordEnd) unsupported("a repeated word boundary");
    PatternNode node{.kind = PatternNode::kRepeat, .min = count->first, .max = count->second};
    bool counted = pattern_[at_ - 1] == '}';
    node.children.push_back(std::move(body));
    if (next_is("+")) {
      ++at_;
      if (counted) {  // a{2}+ is (?:a{2})+
        PatternNode again{.kind = PatternNode::kRepeat, .min = 1, .max = kNoLimit};
        again.children.push_back(std::move(node));
        node = std::move(again);
      } else {
        node.possessive = true;
      }
    } else if (next_is("?")) {
      if (counted && node.min == node.max) unsupported("the quantifier {n}?");
      ++at_;
      node.lazy = true;
    }
    if (next_is("*") || next_is("+") || next_is("?")) unsupported("a quantifier of a quantifier");
    return node;
  }

  std::optional<std::pair<uint32_t, uint32_t>> quantifier() {
    if (take("*")) return std::pair(0u, kNoLimit);
    if (take("+")) return std::pair(1u, kNoLimit);
    if (take("?")) return std::pair(0u, 1u);
    if (!next_is("{")) return std::nullopt;
    size_t start = at_++;
    auto low = number();
    auto high = take(",") ? number() : low;
    if (!take("}") || (!low && !high)) {
      at_ = start;
      unsupported("a '{' that starts no count");
    }
    std::pair range(low.value_or(0), high.value_or(kNoLimit));
    if (range.first > range.second || range.first > kMaxCount || (high && *high > kMaxCount)) {
      at_ = start;
      unsupported(fmt::format("a count out of order or above {}", kMaxCount));
    }
    return range;
  }

  std::optional<uint32_t> number() {
    uint32_t value = 0;
    size_t start = at_;
    for (; !at_end() && pattern_[at_] >= '0' && pattern_[at_] <= '9'; ++at_)
      value = std::min(value * 10 + static_cast<uint32_t>(pattern_[at_] - '0'), kMaxCount + 1);
    if (at_ == start) return std::nullopt;
    return value;
  }

  PatternNode atom() {
    if (next_is("(")) return group();
    if (next_is("[")) return class_node(char_class());
    if (take("\\b")) return PatternNode{.kind = PatternNode::kWordEnd};
    if (take("\\B")) return PatternNode{.kind = PatternNode::kWordEnd, .negated = true};
    CharSet set;
    for (std::string_view c : {"*", "+", "?", "{"})
      if (next_is(c)) unsupported(fmt::format("the quantifier '{}' with nothing to repeat", c));
    for (std::string_view c : {"^", "$"})
      if (next_is(c)) unsupported(fmt::format("the anchor '{}'", c));
    if (take(".")) {
      set.ranges.push_back({'\n', '\n'});
      set.negated = true;
    } else if (next_is("\\")) {
      // Oniguruma folds the case of characters and of classes in brackets, but not of \p{Lu} on its own.
      if (auto c = escape(set, false)) return literal(*c);
    } else {
      return literal(take_char());
    }
    return set_node(std::move(set));
  }

  PatternNode literal(char32_t c) {
    if (ignore_case_) return PatternNode{.kind = PatternNode::kLiteral, .text = std::u32string(1, c)};
    CharSet set;
    set.ranges.push_back({c, c});
    return set_node(std::move(set));
  }

  PatternNode sequence(const std::u32string& text) {
    PatternNode node{.kind = PatternNode::kConcat};
    for (char32_t c : text) {
      CharSet set;
      set.ranges.push_back({c, c});
      fold_case(set);
      node.children.push_back(set_node(std::move(set)));
    }
    return node;
  }

  PatternNode class_node(CharSet set) {
    if (!ignore_case_) return set_node(std::move(set));
    sort_and_join(set.ranges);
    fold_case(set);
    std::vector<std::u32string> several;
    if (!set.negated) several = long_folds(set);
    PatternNode node{.kind = PatternNode::kAlternate};
    node.children.push_back(set_node(std::move(set)));
    for (const std::u32string& text : several) node.children.push_back(sequence(text));
    if (several.empty()) return PatternNode(std::move(node.children[0]));
    return node;
  }

  void make_sets_of_literals(PatternNode& node) {
    for (PatternNode& child : node.children) make_sets_of_literals(child);
    if (node.kind != PatternNode::kLiteral) return;
    PatternNode sets{.kind = PatternNode::kConcat};
    for (FoldedPiece& piece : fold_literal(node.text)) {
      PatternNode one = set_node(std::move(piece.one));
      if (piece.several.empty()) {
        sets.children.push_back(std::move(one));
        continue;
      }
      PatternNode either{.kind = PatternNode::kAlternate};
      either.children.push_back(std::move(one));
      either.children.push_back(sequence(piece.several));
      sets.children.push_back(std::move(either));
    }
    node = sets.children.size() == 1 ? PatternNode(std::move(sets.children[0])) : std::move(sets);
  }

  PatternNode set_node(CharSet set) {
    sort_and_join(set.ranges);
    for (char32_t c = 0; c < 128; ++c)
      if (set.evaluate(c)) set.ascii[c >> 6] |= uint64_t{1} << (c & 63);
    sets_.push_back(std::move(set));
    return PatternNode{.kind = PatternNode::kSet, .set = static_cast<uint32_t>(sets_.size() - 1)};
  }

  PatternNode group() {
    size_t start = at_;
    bool outer_case = ignore_case_;
    std::optional<PatternNode> around;
    bool plain = false;
    if (take("(?=") || take("(?!")) {
      around = PatternNode{.kind = PatternNode::kLook, .negated = pattern_[at_ - 1] == '!'};
    } else if (take("(?>")) {
      around = PatternNode{.kind = PatternNode::kAtomic};
    } else if (take("(?i:")) {
      ignore_case_ = true;
    } else if (take("(?-i:")) {
      ignore_case_ = false;
    } else if (take("(?:")) {
      plain = true;
    } else {
      if (next_is("(?")) unsupported(fmt::format("the group '{}'", pattern_.substr(at_, 4)));
      if (next_is("(*")) unsupported("the group '(*'");
      ++at_;
    }
    PatternNode body = alternation();
    if (!take(")")) {
      at_ = start;
      unsupported("the unmatched parenthesis '('");
    }
    ignore_case_ = outer_case;
    // The characters of a group that captures or sets options do not join those beside it.
    if (!around && !plain && body.kind == PatternNode::kLiteral) around = PatternNode{.kind = PatternNode::kConcat};
    if (!around) return body;
    around->children.push_back(std::move(body));
    return std::move(*around);
  }

  CharSet char_class() {
    size_t start = at_++;
    CharSet set;
    set.negated = take("^");
    if (next_is("]")) unsupported("an empty class");
    while (!take("]")) {
      if (at_end()) {
        at_ = start;
        unsupported("the unmatched bracket '['");
      }
      if (next_is("[")) unsupported("a class inside a class");
      if (next_is("&&")) unsupported("the intersection '&&'");
      auto first = class_member(set);
      bool range = next_is("-") && !next_is("-]");
      if (!range) {
        if (first) set.ranges.push_back({*first, *first});
        continue;
      }
      ++at_;
      if (at_end() || next_is("[") || !first) unsupported("a range without two ends");
      auto last = class_member(set);
      if (!last || *last < *first) unsupported("a range without two ends in order");
      set.ranges.push_back({*first, *last});
    }
    return set;
  }

  std::optional<char32_t> class_member(CharSet& set) { return next_is("\\") ? escape(set, true) : take_char(); }

  // A character, or nothing if the escape is a set, which is then added to `set`.
  std::optional<char32_t> escape(CharSet& set, bool in_class) {
    size_t start = at_++;
    if (at_end()) unsupported("a '\\' at its end");
    char32_t c = take_char();
    switch (c) {
      case 'r':
        return U'\r';
      case 'n':
        return U'\n';
      case 't':
        return U'\t';
      case 'f':
        return U'\f';
      case 'v':
        return U'\v';
      case 's':
        set.space = true;
        return std::nullopt;
      case 'S':
        set.not_space = true;
        return std::nullopt;
      case 'd':
        set.categories |= unicode::category_mask("Nd");
        return std::nullopt;
      case 'D':
        set.categories |= unicode::kAllCategories & ~unicode::category_mask("Nd");
        return std::nullopt;
      case 'w':
      case 'W':
        word(set, c == 'W', in_class);
        return std::nullopt;
      case 'b':
        if (in_class) return U'\b';
        break;
      case 'p':
      case 'P':
        property(set, c == 'P', start);
        return std::nullopt;
      case 'x':
      case 'u':
        return code_point(c == 'x', start);
      default:
        break;
    }
    bool letter_or_digit = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    if (letter_or_digit) {
      at_ = start;
      unsupported(fmt::format("the escape '\\{}'", static_cast<char>(c)));
    }
    return c;
  }

  static void word(CharSet& set, bool negated, bool in_class) {
    (in_class && negated ? set.not_word : set.word) = true;
    if (in_class) return;
    set.negated = negated;
    for (char32_t c : unicode::kMoreWordAlone) set.ranges.push_back({c, c});
  }

  void property(CharSet& set, bool negated, size_t start) {
    size_t end = pattern_.find('}', at_);
    uint32_t mask = 0;
    if (take("{") && end != std::string_view::npos) {
      if (take("^")) negated = !negated;
      mask = unicode::category_mask(pattern_.substr(at_, end - at_));
    }
    if (!mask) {
      at_ = start;
      unsupported(fmt::format("the property '{}'", pattern_.substr(start, std::min(end - start + 1, size_t{32}))));
    }
    at_ = end + 1;
    set.categories |= negated ? unicode::kAllCategories & ~mask : mask;
  }

  // \x{H..}, or \uHHHH.
  char32_t code_point(bool braces, size_t start) {
    char32_t value = 0;
    size_t digits = 0;
    bool open = !braces || take("{");
    for (; open && !at_end() && digits < (braces ? 6u : 4u); ++digits, ++at_) {
      char h = pattern_[at_];
      int digit = h >= '0' && h <= '9' ? h - '0' : (h | 32) >= 'a' && (h | 32) <= 'f' ? (h | 32) - 'a' + 10 : -1;
      if (digit < 0) break;
      value = value * 16 + static_cast<char32_t>(digit);
    }
    bool complete = braces ? digits > 0 && take("}") : digits == 4;
    if (!open || !complete || value > 0x10FFFF) {
      at_ = start;
      unsupported(fmt::format("the escape '{}'", pattern_.substr(start, 2)));
    }
    return value;
  }

  std::string_view pattern_;
  std::vector<CharSet>& sets_;
  size_t at_ = 0;
  int nesting_ = 0;
  bool ignore_case_ = false;
};

}  // namespace

PatternNode parse_split_pattern(std::string_view pattern, std::vector<CharSet>& sets) {
  return Parser(pattern, sets).parse();
}

}  // namespace fk
