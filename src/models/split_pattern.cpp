#include "models/split_pattern.h"

#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "models/split_pattern_program.h"

namespace fk {
namespace {

constexpr size_t kNoMatch = static_cast<size_t>(-1);
// The split patterns of known tokenizers need fewer than 30 steps per character.
constexpr size_t kStepsPerByte = 1000;
constexpr size_t kMinSteps = 100'000;
constexpr size_t kMaxPending = size_t{1} << 22;  // alternatives not yet tried; 128 MiB of them

class Matcher {
 public:
  Matcher(const PatternProgram& program, std::string_view text)
      : program_(program), text_(text), steps_left_(kMinSteps + kStepsPerByte * text.size()), slots_(program.slots) {}

  // The end of the match that starts at `at`, or kNoMatch.
  size_t match(uint32_t pc, size_t at) {
    size_t base = pending_.size();
    for (;;) {
      size_t end = advance(pc, at);
      if (end != kNoMatch) {
        undo_marks(base);
        return end;
      }
      if (!next_alternative(base, pc, at)) return kNoMatch;
    }
  }

 private:
  // What to do when the current path fails.
  struct Pending {
    enum Kind { kResume, kGiveBack, kUndoMark } kind;
    uint32_t pc;     // kUndoMark: the slot
    size_t at;       // kUndoMark: its value before
    size_t floor{};  // kGiveBack: where the repeat may not go below
  };

  void step(size_t count = 1) {
    if (steps_left_ < count)
      throw Error("The split pattern needs more than {} steps per byte of this text; simplify it.", kStepsPerByte);
    steps_left_ -= count;
  }

  void push(Pending pending) {
    if (pending_.size() >= kMaxPending)
      throw Error("The split pattern leaves more than {} alternatives open on this text; simplify it.", kMaxPending);
    pending_.push_back(pending);
  }

  // Runs until the pattern accepts or the path fails.
  size_t advance(uint32_t pc, size_t at) {
    for (;;) {
      step();
      const PatternInstruction& in = program_.code[pc];
      switch (in.op) {
        case PatternOp::kSet: {
          if (at == text_.size()) return kNoMatch;
          auto d = unicode::decode_at(text_, at);
          if (!program_.sets[in.x].contains(d.c)) return kNoMatch;
          at += d.size;
          ++pc;
          break;
        }
        case PatternOp::kRepeat:
          if (!repeat(in, pc + 1, at)) return kNoMatch;
          ++pc;
          break;
        case PatternOp::kSplit:
          push({Pending::kResume, in.y, at});
          pc = in.x;
          break;
        case PatternOp::kJump:
          pc = in.x;
          break;
        case PatternOp::kLook:
          // Nested as deep as lookaheads and atomic groups are in the pattern, which the parser bounds.
          if ((match(in.x, at) != kNoMatch) == in.negated) return kNoMatch;
          pc = in.y;
          break;
        case PatternOp::kAtomic:
          at = match(in.x, at);
          if (at == kNoMatch) return kNoMatch;
          pc = in.y;
          break;
        case PatternOp::kWordEnd:
          if ((word_before(at) != word_at(at)) == in.negated) return kNoMatch;
          ++pc;
          break;
        case PatternOp::kMark:
          push({Pending::kUndoMark, in.x, slots_[in.x]});
          slots_[in.x] = at;
          ++pc;
          break;
        case PatternOp::kLoop:
          pc = slots_[in.x] == at ? pc + 1 : in.y;
          break;
        case PatternOp::kAccept:
          return at;
      }
    }
  }

  bool repeat(const PatternInstruction& in, uint32_t next, size_t& at) {
    const CharSet& set = program_.sets[in.x];
    uint32_t count = 0;
    size_t floor = at;
    while (count < in.max && at < text_.size()) {
      auto d = unicode::decode_at(text_, at);
      if (!set.contains(d.c)) break;
      at += d.size;
      if (++count == in.min) floor = at;
    }
    step(count);
    if (count < in.min) return false;
    if (at > floor && !in.atomic) push({Pending::kGiveBack, next, at, floor});
    return true;
  }

  bool next_alternative(size_t base, uint32_t& pc, size_t& at) {
    while (pending_.size() > base) {
      Pending& top = pending_.back();
      if (top.kind == Pending::kUndoMark) {
        slots_[top.pc] = top.at;
        pending_.pop_back();
        continue;
      }
      pc = top.pc;
      if (top.kind == Pending::kGiveBack) {
        top.at = unicode::previous(text_, top.at);
        at = top.at;
        if (at == top.floor) pending_.pop_back();
      } else {
        at = top.at;
        pending_.pop_back();
      }
      return true;
    }
    return false;
  }

  bool word_at(size_t at) const {
    return at < text_.size() && unicode::is_regex_word_alone(unicode::decode_at(text_, at).c);
  }
  bool word_before(size_t at) const { return at > 0 && word_at(unicode::previous(text_, at)); }

  // After a lookahead or atomic group has matched, its alternatives and marks are removed.
  void undo_marks(size_t base) {
    for (; pending_.size() > base; pending_.pop_back())
      if (pending_.back().kind == Pending::kUndoMark) slots_[pending_.back().pc] = pending_.back().at;
  }

  const PatternProgram& program_;
  std::string_view text_;
  size_t steps_left_;
  std::vector<size_t> slots_;
  std::vector<Pending> pending_;
};

}  // namespace

SplitPattern::SplitPattern(std::string_view pattern)
    : program_(std::make_shared<PatternProgram>(compile_split_pattern(pattern))) {}

void SplitPattern::for_each_match(std::string_view text, const std::function<void(size_t, size_t)>& match) const {
  Matcher matcher(*program_, text);
  size_t last_end = kNoMatch;
  for (size_t at = 0; at <= text.size();) {
    size_t end = matcher.match(0, at);
    // An empty match right after the last match would repeat forever.
    bool accepted = end != kNoMatch && !(end == at && at == last_end);
    if (accepted) {
      match(at, end);
      last_end = end;
    }
    if (accepted && end > at)
      at = end;
    else
      at += at < text.size() ? unicode::decode_at(text, at).size : 1;
  }
}

}  // namespace fk
