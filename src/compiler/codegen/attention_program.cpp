#include "compiler/codegen/attention_program.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/codegen/attention_pattern.h"
#include "compiler/codegen/element_text.h"

namespace fk {
namespace {

using algebra::Expr;
using algebra::Function;
using algebra::Primitive;

constexpr int64_t kLargestHead = 1024;  // elements

class AttentionLowering {
 public:
  AttentionLowering(const AttentionPattern& pattern, const algebra::NamedExpr& result)
      : pattern_(pattern), result_(result), values_({result.expr}) {}

  AttentionProgram run() {
    program_.kv_heads = pattern_.kv_heads();
    program_.group = pattern_.group();
    program_.query_size = pattern_.query_size();
    program_.value_size = pattern_.value_size();
    if (program_.query_size > kLargestHead || program_.value_size > kLargestHead)
      throw NoLoops(fmt::format("a head has more than {} elements", kLargestHead));
    if (program_.query_size == 1 || program_.value_size == 1) throw NoLoops("a head is one element");
    write_rows();
    write_bounds(pattern_.visible, at(true));
    program_.first.push_back("int64_t(0)");
    program_.keys = values_.extent_of(pattern_.dot.size(3));
    program_.last.push_back(program_.keys.text());
    write_score();
    if (pattern_.sink) write_sink(*pattern_.sink);
    if (result_.expr.size(0) != pattern_.dot.size(0)) throw NoLoops("results have other rows than queries");
    program_.out = result_.name;
    program_.lines = values_.lines();
    check_scopes();
    program_.arrays = values_.arrays();
    program_.fixed = values_.extents();
    program_.arrays[result_.name] = {result_.expr.dtype(), result_.expr.shape().size(), true};
    program_.packed.insert(result_.name);
    for (const auto& [name, use] : program_.arrays) {
      const bool row = program_.packed.count(name) > 0;
      if (row && use.dtype != program_.dtype) throw NoLoops("queries, keys, values and results differ in dtype");
    }
    return std::move(program_);
  }

 private:
  // The index of an element: row, key head, head of its group, key, element.
  std::vector<RowValue> at(bool of_key, int64_t elements = 1) const {
    return {index_value("l0"), index_value("head", program_.kv_heads), index_value("g", program_.group),
            of_key ? key_value() : number_value(0), index_value("d", elements)};
  }

  // A row of elements: where its first is. They are neighbours, since the last index is "d".
  std::string row_text(const Expr& x, const std::vector<RowValue>& index, std::string& source) {
    RowAddress address = values_.address(x, index, source);
    RowValue& last = address.index.back();
    const std::string elements = last.code.text;
    if (elements != "d") {
      // Heads that are not a dimension of their own: "(head * 64 + d)".
      if (last.factor == 0 || last.low != "d") throw NoLoops("elements of a head are no neighbours");
      last = index_value(fmt::format("{} * {}", last.high, last.factor));
    } else {
      last = number_value(0);
    }
    for (const RowValue& i : address.index)
      if (has_word(i.code.text, "d")) throw NoLoops("elements of a head are no neighbours");
    program_.packed.insert(address.array);
    program_.dtype = values_.arrays().at(address.array).dtype;
    return fmt::format("{}_p + {}", address.array, values_.offset(address));
  }

  void write_rows() {
    std::string none, of_k, of_v;
    program_.q = row_text(pattern_.q, at(true, program_.query_size), none);
    if (!none.empty()) throw NoLoops("queries are gathered");
    program_.k = row_text(pattern_.k, at(true, program_.query_size), of_k);
    program_.v = row_text(pattern_.v, at(true, program_.value_size), of_v);
    const bool by_row = has_word(program_.k, "l0");
    if (by_row != has_word(program_.v, "l0") || of_k != of_v || (by_row && !of_k.empty()))
      throw NoLoops("keys and values come from different places");
    program_.source = by_row ? "l0" : of_k;
    auto renamed = [](std::string_view word) { return std::string(word == "l0" ? "source" : ""); };
    program_.k = with_words(program_.k, renamed);
    program_.v = with_words(program_.v, renamed);
    for (const std::string* text : {&program_.k, &program_.v})
      if (has_word(*text, "g")) throw NoLoops("each query has keys of its own");
    if (has_word(program_.q, "key")) throw NoLoops("each key has queries of its own");
    if (program_.dtype != DType::kBF16 && program_.dtype != DType::kF16 && program_.dtype != DType::kF32)
      throw NoLoops(fmt::format("there is no such kernel for {}", dtype_name(program_.dtype)));
  }

  // Every part of the mask bounds the key from one side.
  void write_bounds(const Expr& e, const std::vector<RowValue>& index) {
    if (e.head().is(Primitive::kView)) {
      std::vector<RowValue> inner;
      for (size_t d = 0; d < static_cast<size_t>(e.inputs()[0].rank()); ++d) {
        RowValue place = number_value(0);
        for (size_t o = 0; o < index.size(); ++o)
          if (e.head().map.factors[d][o] != 0) {
            if (e.head().map.factors[d][o] != 1 || o != d) throw NoLoops("a mask is moved");
            place = index[o];
          }
        if (e.head().map.start[d] != 0) throw NoLoops("a mask is moved");
        inner.push_back(place);
      }
      return write_bounds(e.inputs()[0], inner);
    }
    if (e.head().is(Function::kAnd)) {
      for (const Expr& x : e.inputs()) write_bounds(x, index);
      return;
    }
    const bool negated = e.head().is(Function::kNot);
    Expr compared = negated ? e.inputs()[0] : e;
    if (!compared.head().is(Function::kLess)) throw NoLoops("a mask is no comparison of keys");
    const RowValue a = values_.element(compared.inputs()[0], index), b = values_.element(compared.inputs()[1], index);
    const int64_t keys = a.keys - b.keys;
    if (!a.linear || !b.linear || (keys != 1 && keys != -1)) throw NoLoops("a mask does not bound the key");
    // key + a < b, or a < key + b; negated: not less, so that the bound itself is on the other side.
    if (keys == 1) {
      (negated ? program_.first : program_.last).push_back(fmt::format("({} - {})", b.rest, a.rest));
    } else {
      (negated ? program_.last : program_.first).push_back(fmt::format("({} - {} + 1)", a.rest, b.rest));
    }
  }

  void write_sink(const Expr& sink) {
    std::vector<RowValue> index = at(false);
    for (size_t d = 0; d < index.size(); ++d)
      if (sink.shape()[d] == 1) index[d] = number_value(0);
    program_.sink = values_.element(sink, index).code.text;
  }

  // Each text has some of the indices only: bounds are those of a row for all heads, a sink is that of a head for all
  // rows, and variables of a row are known where its bounds are.
  void check_scopes() const {
    auto has_any = [](const std::string& text, const std::vector<std::string>& words) {
      return std::any_of(words.begin(), words.end(), [&](const std::string& w) { return has_word(text, w); });
    };
    for (const auto* texts : {&program_.lines, &program_.first, &program_.last})
      for (const std::string& text : *texts)
        if (has_any(text, {"head", "g"})) throw NoLoops("heads have masks of their own");
    if (has_any(program_.source, {"head", "g"})) throw NoLoops("heads have keys of different sequences");
    std::vector<std::string> of_row = values_.variables();
    for (const std::string* text : {&program_.q, &program_.k, &program_.v})
      if (has_any(*text, of_row)) throw NoLoops("the place of a row is a sum");
    of_row.push_back("l0");
    if (has_any(program_.sink, of_row)) throw NoLoops("rows have sinks of their own");
  }

  void write_score() {
    values_.give_name(pattern_.dot, {"dot", DType::kF32});
    program_.score = unwrapped(values_.element(pattern_.scores, at(true)).code.text);
  }

  const AttentionPattern& pattern_;
  const algebra::NamedExpr& result_;
  RowValues values_;
  AttentionProgram program_;
};

std::string nested(const std::vector<std::string>& texts, std::string_view function) {
  std::string all = texts[0];
  for (size_t i = 1; i < texts.size(); ++i) all = fmt::format("{}({}, {})", function, all, texts[i]);
  return all;
}

}  // namespace

std::string AttentionProgram::first_seen() const { return nested(first, "larger"); }
std::string AttentionProgram::last_seen() const { return nested(last, "smaller"); }

AttentionProgram lower_attention(const std::vector<algebra::NamedExpr>& results) {
  AttentionProgram none;
  none.refusal = "it is no attention";
  if (results.size() != 1) return none;
  const std::optional<AttentionPattern> pattern = match_attention(results[0].expr);
  if (!pattern) return none;
  try {
    return AttentionLowering(*pattern, results[0]).run();
  } catch (const NoLoops& why) {
    none.refusal = why.what();
    return none;
  }
}

}  // namespace fk
