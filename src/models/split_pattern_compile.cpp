// Turns the tree of a split pattern into instructions for the matcher.
#include <algorithm>

#include "core/check.h"
#include "core/error.h"
#include "models/split_pattern_tree.h"

namespace fk {
namespace {

constexpr size_t kMaxInstructions = 100'000;  // counted groups are unrolled, and counts multiply when nested

bool may_be_empty(const PatternNode& node) {
  switch (node.kind) {
    case PatternNode::kSet:
      return false;
    case PatternNode::kConcat:
      return std::ranges::all_of(node.children, may_be_empty);
    case PatternNode::kAlternate:
      return std::ranges::any_of(node.children, may_be_empty);
    case PatternNode::kRepeat:
      return node.min == 0 || may_be_empty(node.children[0]);
    case PatternNode::kAtomic:
      return may_be_empty(node.children[0]);
    case PatternNode::kLiteral:
    case PatternNode::kLook:
    case PatternNode::kWordEnd:
      return true;
  }
  return true;
}

class Compiler {
 public:
  explicit Compiler(PatternProgram& program) : program_(program) {}

  void compile(const PatternNode& node) {
    switch (node.kind) {
      case PatternNode::kSet:
        emit({.op = PatternOp::kSet, .x = node.set});
        break;
      case PatternNode::kConcat:
        for (const PatternNode& child : node.children) compile(child);
        break;
      case PatternNode::kAlternate:
        alternate(node);
        break;
      case PatternNode::kRepeat:
        repeat(node);
        break;
      case PatternNode::kLook:
        program_of_its_own({.op = PatternOp::kLook, .negated = node.negated}, node.children[0]);
        break;
      case PatternNode::kAtomic:
        program_of_its_own({.op = PatternOp::kAtomic}, node.children[0]);
        break;
      case PatternNode::kWordEnd:
        emit({.op = PatternOp::kWordEnd, .negated = node.negated});
        break;
      case PatternNode::kLiteral:
        FK_CHECK(false, "the parser has made sets of literals");
    }
  }

  uint32_t emit(PatternInstruction instruction) {
    if (code().size() >= kMaxInstructions)
      throw Error("The split pattern unrolls into more than {} steps; lower its counts.", kMaxInstructions);
    code().push_back(instruction);
    return here() - 1;
  }

 private:
  std::vector<PatternInstruction>& code() { return program_.code; }
  uint32_t here() { return static_cast<uint32_t>(program_.code.size()); }

  // An instruction that runs the program at x and goes on at y.
  void program_of_its_own(const PatternInstruction& instruction, const PatternNode& body) {
    uint32_t at = emit(instruction);
    code()[at].x = here();
    compile(body);
    emit({.op = PatternOp::kAccept});
    code()[at].y = here();
  }

  void alternate(const PatternNode& node) {
    std::vector<uint32_t> jumps;
    for (size_t i = 0; i + 1 < node.children.size(); ++i) {
      uint32_t split = emit({.op = PatternOp::kSplit});
      code()[split].x = here();
      compile(node.children[i]);
      jumps.push_back(emit({.op = PatternOp::kJump}));
      code()[split].y = here();
    }
    compile(node.children.back());
    for (uint32_t jump : jumps) code()[jump].x = here();
  }

  void repeat(const PatternNode& node) {
    const PatternNode& body = node.children[0];
    if (body.kind == PatternNode::kSet && !node.lazy) {
      emit({.op = PatternOp::kRepeat, .atomic = node.possessive, .x = body.set, .min = node.min, .max = node.max});
      return;
    }
    if (node.possessive) {
      PatternNode plain = node;
      plain.possessive = false;
      program_of_its_own({.op = PatternOp::kAtomic}, plain);
      return;
    }
    for (uint32_t i = 0; i < node.min; ++i) {
      uint32_t before = here();
      compile(body);
      if (here() == before) return;  // repeating an empty body matches nothing more
    }
    if (node.max == kNoLimit) {
      unbounded(body, node.lazy);
      return;
    }
    std::vector<uint32_t> splits;
    for (uint32_t i = node.min; i < node.max; ++i) {
      splits.push_back(emit({.op = PatternOp::kSplit}));
      body_after(splits.back(), node.lazy);
      compile(body);
    }
    for (uint32_t split : splits) exit_to(split, node.lazy, here());
  }

  void unbounded(const PatternNode& body, bool lazy) {
    uint32_t split = emit({.op = PatternOp::kSplit});
    body_after(split, lazy);
    if (may_be_empty(body)) {
      uint32_t slot = program_.slots++;
      emit({.op = PatternOp::kMark, .x = slot});
      compile(body);
      emit({.op = PatternOp::kLoop, .x = slot, .y = split});
    } else {
      compile(body);
      emit({.op = PatternOp::kJump, .x = split});
    }
    exit_to(split, lazy, here());
  }

  // A greedy loop tries its body first, a lazy one its exit.
  void body_after(uint32_t split, bool lazy) { (lazy ? code()[split].y : code()[split].x) = here(); }
  void exit_to(uint32_t split, bool lazy, uint32_t target) { (lazy ? code()[split].x : code()[split].y) = target; }

  PatternProgram& program_;
};

}  // namespace

bool CharSet::evaluate(char32_t c) const {
  bool in = categories & unicode::category_bit(c);
  if (space || not_space) in = in || (unicode::is_space(c) ? space : not_space);
  if (word || not_word) in = in || (unicode::is_regex_word(c) ? word : not_word);
  if (!in && !ranges.empty()) {
    auto it = std::ranges::lower_bound(ranges, c, {}, &Range::last);
    in = it != ranges.end() && it->first <= c;
  }
  return in != negated;
}

PatternProgram compile_split_pattern(std::string_view pattern) {
  PatternProgram program;
  PatternNode tree = parse_split_pattern(unicode::repair_utf8(pattern), program.sets);
  Compiler compiler(program);
  compiler.compile(tree);
  compiler.emit({.op = PatternOp::kAccept});
  return program;
}

}  // namespace fk
