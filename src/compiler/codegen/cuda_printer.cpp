#include "compiler/codegen/cuda_printer.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/codegen/c_text.h"
#include "compiler/codegen/cuda_kernel.h"
#include "compiler/codegen/statement_text.h"

namespace fk {
namespace {

using Kind = LoopStatement::Kind;

std::string indented_cuda(size_t depth) { return std::string(2 * depth, ' '); }

// "x0" of "x0_p".
std::string plain_name(const std::string& array) {
  return array.ends_with("_p") ? array.substr(0, array.size() - 2) : array;
}

bool is_variable(std::string_view word) {
  return word.size() > 1 && word[0] == 'v' &&
         std::all_of(word.begin() + 1, word.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::set<std::string> variables_in(const std::string& text) {
  std::set<std::string> found;
  with_words(text, [&](std::string_view word) {
    if (is_variable(word)) found.emplace(word);
    return std::string();
  });
  return found;
}

// Every line behind `indent`.
std::string lines_behind(const std::string& indent, const std::string& lines) {
  std::string text;
  for (size_t at = 0; at < lines.size();) {
    size_t end = lines.find('\n', at) + 1;
    text += indent + lines.substr(at, end - at);
    at = end;
  }
  return text;
}

std::string in_parentheses(const std::string& index) {
  return index.find(' ') == index.npos ? index : "(" + index + ")";
}

}  // namespace

CudaPrinter::CudaPrinter(const LoopProgram& loops, const std::set<std::string>& constants,
                         const std::map<std::string, std::string>& updated)
    : loops_(loops), constants_(constants), layout_(make_thread_layout(loops, true)) {
  collect_work();
  // Whether a row may be divided over blocks: nothing is shared between threads.
  bool alone = true;
  for (size_t w = 0; w < works_.size(); ++w)
    alone = alone && works_[w].kind != Kind::kFold && works_[w].kind != Kind::kFill && read_from_others(w).empty();
  if (!alone) {
    layout_ = make_thread_layout(loops, false);
    collect_work();
  }
  check_updates(updated);
  find_shared();
  if (shared_bytes_ > kMostSharedBytes)
    throw NoLoops(fmt::format("a row needs {} KiB of shared memory, and a block has {}", shared_bytes_ / 1024,
                              kMostSharedBytes / 1024));
}

CudaPrinter::CudaPrinter(const LoopProgram& loops, const std::set<std::string>& constants, const SharedRow& row)
    : loops_(loops), constants_(constants), row_(&row), layout_(make_thread_layout(loops, false, row.threads)) {
  collect_work();
  find_shared();
}

// A state that is read and updated has one memory with two names. A thread must read what it will overwrite itself, and
// nothing else: another thread may be ahead.
void CudaPrinter::check_updates(const std::map<std::string, std::string>& updated) const {
  std::map<std::string, std::string> values;  // of variables
  for (const LoopNest& nest : loops_.nests)
    for (const LoopStatement& s : nest.statements)
      if (s.kind == Kind::kScalar) values[s.name] = s.value;
  // "v0 * 64 + i" and "v1 * x6_s0 + i" are one place if the variables are.
  auto row_of = [&](const std::string& index) {
    size_t product = index.find(" * ");
    const bool whole_row = product != index.npos && index.ends_with(" + i") && index.find(" + ") == index.size() - 4 &&
                           values.count(index.substr(0, product)) > 0;
    return whole_row ? values.at(index.substr(0, product)) : std::string();
  };
  for (const auto& [after, before] : updated) {
    const std::string array = before + "_p";
    auto stored = stored_.find(after + "_p");
    if (stored == stored_.end()) continue;
    auto check = [&](const std::string& value, int loop, size_t work) {
      for (const ElementText& e : elements_in(value, [&](std::string_view word) { return word == array; }))
        if (loop != stored->second.loop || work > stored->second.work || row_of(e.index).empty() ||
            row_of(e.index) != row_of(stored->second.index))
          throw NoLoops("a state is read by other threads than those that update it");
    };
    for (size_t w = 0; w < works_.size(); ++w) {
      for (const LoopStatement* s : works_[w].scalars) check(s->value, -1, w);
      for (const LoopStatement* s : works_[w].statements) {
        check(s->value, works_[w].loop, w);
        check(s->guard, -1, w);
        if (s->kind == Kind::kStore) check(s->index, -1, w);
      }
    }
  }
}

bool CudaPrinter::is_array(std::string_view word) const {
  return word.ends_with("_p") || stored_.count(std::string(word)) > 0;
}

void CudaPrinter::collect_work() {
  works_.clear();
  stored_.clear();
  for (const LoopNest& nest : loops_.nests) {
    std::vector<const LoopStatement*> ordered, own_scalars;
    for (const LoopStatement& s : nest.statements)
      if (s.of_row) ordered.push_back(&s);
    for (const LoopStatement& s : nest.statements)
      if (!s.of_row) ordered.push_back(&s);
    bool open = false;  // the last work is a group of stores
    for (const LoopStatement* s : ordered) {
      Work work{.nest = &nest, .kind = s->kind, .statements = {s}, .of_row = s->of_row};
      const bool items = nest.leads.size() > 1 && !s->of_row;
      if (s->kind == Kind::kScalar) {
        // A thread without an item computes it for each of its elements.
        bool dealt =
            items && std::none_of(layout_.loops.begin(), layout_.loops.end(), [&](const ThreadLoop& l) {
              return l.team > 0 && std::equal(l.leads.begin(), l.leads.end(), nest.leads.begin() + 1, nest.leads.end());
            });
        bool one = std::all_of(nest.leads.begin() + 1, nest.leads.end(), [](int64_t e) { return e == 1; });
        if (dealt && !one) {
          own_scalars.push_back(s);
          continue;
        }
        // Stores before it that it does not read may share a loop with those behind it.
        bool reads_group = false;
        if (open)
          for (const LoopStatement* t : works_.back().statements)
            reads_group = reads_group || has_word(s->value, array_of(*t, loops_));
        if (open && !reads_group) {
          works_.insert(works_.end() - 1, work);
          continue;
        }
        open = false;
        works_.push_back(work);
        continue;
      }
      work.loop = layout_.loop_of(nest, *s);
      work.scalars = own_scalars;
      const std::string array = array_of(*s, loops_);
      if (s->kind == Kind::kStore && open && works_.back().loop == work.loop &&
          works_.back().scalars.size() == own_scalars.size()) {
        Work& group = works_.back();
        bool fits = true;
        for (const LoopStatement* t : group.statements) {
          const std::string other = array_of(*t, loops_);
          for (const ElementText& e : elements_in(s->value, [&](std::string_view word) { return word == other; }))
            fits = fits && e.index == t->index;
        }
        if (fits) {
          group.statements.push_back(s);
          continue;
        }
      }
      open = s->kind == Kind::kStore;
      works_.push_back(work);
    }
  }
  std::map<std::string, int> parts;  // of an array that several statements store to
  for (size_t w = 0; w < works_.size(); ++w)
    for (const LoopStatement* s : works_[w].statements) {
      if (s->kind != Kind::kStore && s->kind != Kind::kFill) continue;
      const int part = parts[s->name]++;
      own_[s] = part == 0 ? s->name + "_own" : fmt::format("{}_own{}", s->name, part);
      stored_[array_of(*s, loops_)] = {works_[w].loop, s->kind == Kind::kFill ? "i" : s->index, w, s->dtype, false};
    }
}

bool CudaPrinter::is_own(const ElementText& e, int loop, size_t work) const {
  auto at = stored_.find(e.array);
  return at != stored_.end() && loop >= 0 && at->second.loop == loop && at->second.index == e.index &&
         (layout_.once || at->second.work == work);
}

std::set<std::string> CudaPrinter::read_from_others(size_t work) const {
  std::set<std::string> others;
  const Work& w = works_[work];
  auto see = [&](const std::string& value, int loop) {
    for (const ElementText& e : elements_in(value, [&](std::string_view word) { return is_array(word); })) {
      if (is_written(e.array) && !is_own(e, loop, work)) others.insert(e.array);
      // Elements that say where others are.
      for (const ElementText& inner : elements_in(e.index, [&](std::string_view word) { return is_array(word); }))
        if (is_written(inner.array) && !is_own(inner, loop, work)) others.insert(inner.array);
    }
  };
  for (const LoopStatement* s : w.scalars) see(s->value, -1);
  for (const LoopStatement* s : w.statements) {
    see(s->value, w.loop);
    see(s->guard, -1);
    if (s->kind == Kind::kStore) see(s->index, -1);
  }
  return others;
}

void CudaPrinter::find_shared() {
  for (size_t w = 0; w < works_.size(); ++w)
    for (const std::string& array : read_from_others(w)) stored_.at(array).shared = true;
  if (row_ != nullptr)
    for (const std::string& array : row_->kept) stored_.at(array).shared = true;
  shared_bytes_ = 0;
  for (const auto& [name, local] : loops_.locals)
    if (auto at = stored_.find(name); at != stored_.end() && at->second.shared)
      shared_bytes_ += local.elements * static_cast<int64_t>(dtype_size(local.dtype));
  constexpr int64_t kOfWarps = 32;  // what each warp has found, of a fold over a block
  for (const Work& w : works_)
    if (w.kind == Kind::kFold && layout_.loops[static_cast<size_t>(w.loop)].team == 0)
      shared_bytes_ += kOfWarps * static_cast<int64_t>(dtype_size(w.statements[0]->dtype));
  for (const Work& w : works_)
    if (w.kind == Kind::kFill && stored_.at(w.statements[0]->name).shared) {
      if (layout_.loops[static_cast<size_t>(w.loop)].team > 0)
        throw NoLoops("a table of an item is read by other threads than those that computed it");
      shared_bytes_ += w.statements[0]->count * static_cast<int64_t>(dtype_size(w.statements[0]->dtype));
    }
}

// Threads of a team keep their item in all loops; others have one in each loop.
std::string CudaPrinter::suffix_of_leads(int loop) const {
  const ThreadLoop& of = layout_.loops[static_cast<size_t>(loop)];
  if (of.team == 0) return fmt::to_string(loop);
  for (size_t i = 0; i < layout_.loops.size(); ++i)
    if (layout_.loops[i].team > 0 && layout_.loops[i].leads == of.leads) return fmt::format("{}", i);
  return fmt::to_string(loop);
}

std::string CudaPrinter::in_loop(const std::string& text, int loop) const {
  if (loop < 0) return text;
  const std::string suffix = suffix_of_leads(loop);
  const std::vector<int64_t>& leads = layout_.loops[static_cast<size_t>(loop)].leads;
  return with_words(text, [&](std::string_view word) {
    for (size_t d = 0; d < leads.size(); ++d)
      if (word == fmt::format("l{}", d + 1)) return leads[d] == 1 ? "0" : fmt::format("{}_{}", word, suffix);
    return std::string();
  });
}

// The text that an element is read by: a register that was loaded before.
std::string CudaPrinter::loaded(const ElementText& e, int loop, std::string& loads) {
  const ThreadLoop& of = layout_.loops[static_cast<size_t>(loop)];
  IndexOfI index = index_of_i(e.index);
  if (e.index.find('[') != e.index.npos || index.kind == IndexOfI::Kind::kOther) return {};
  const bool written = is_written(e.array);
  const std::string element = fmt::format("{}[{}]", e.array, e.index);
  std::string guard;
  if (auto at = loops_.guards.find(element); at != loops_.guards.end()) guard = at->second;
  if (has_word(guard, "i") || guard.find('[') != guard.npos) return {};
  const int width = index.kind == IndexOfI::Kind::kFixed ? 1 : of.width;
  const std::string key = fmt::format("{} of {}", element, loop);
  if (auto here = local_loads_.find(key); here != local_loads_.end())
    return here->second + (index.kind == IndexOfI::Kind::kFixed ? ".at[0]" : ".at[k]");
  auto [at, is_new] = loads_.try_emplace(key);
  Load& load = at->second;
  const std::string use = index.kind == IndexOfI::Kind::kFixed ? ".at[0]" : ".at[k]";
  if (!is_new) return load.name + use;
  const std::string name = plain_name(e.array);
  auto array = loops_.arrays.find(name);
  auto local = loops_.locals.find(e.array);
  const DType dtype = array != loops_.arrays.end()   ? array->second.dtype
                      : local != loops_.locals.end() ? local->second.dtype
                                                     : stored_.at(e.array).dtype;
  load.name = fmt::format("{}_{}", name, names_++);
  load.declaration = fmt::format("Pack<{}, {}> {}", element_name(dtype), width, load.name);
  const std::string first = fmt::format("first_{}", loop);
  std::string base =
      in_loop(with_words(e.index, [&](std::string_view word) { return word == "i" ? first : std::string(); }), loop);
  const bool in_shared = written && array == loops_.arrays.end();
  const std::string_view aligned = index.multiple < width ? "false" : in_shared ? "true" : "kAligned";
  if (aligned == "kAligned" && width > 1) packed_.insert(name);
  load.text = fmt::format("load<{}>({}, {} + {});", aligned, load.name, e.array, base);
  if (!guard.empty()) load.text = fmt::format("if ({}) {}", in_loop(guard, loop), load.text);
  load.needs = variables_in(e.index + " " + guard);
  load.constant = constants_.count(name) > 0 && load.needs.empty();
  const bool early =
      layout_.once && !written && std::all_of(load.needs.begin(), load.needs.end(), [&](const std::string& v) {
        return std::none_of(works_.begin(), works_.end(), [&](const Work& w) {
          return std::any_of(w.scalars.begin(), w.scalars.end(), [&](const LoopStatement* s) { return s->name == v; });
        });
      });
  if (early) {
    if (!guard.empty()) load.declaration += " = {}";
    load.text = fmt::format("if (on_{}) {}", loop, guard.empty() ? load.text : "{ " + load.text + " }");
    load_order_.push_back(key);
  } else {
    loads += fmt::format("{}{};\n{}\n", load.declaration, guard.empty() ? "" : " = {}", load.text);
    std::string name_here = load.name;
    local_loads_[key] = name_here;
    loads_.erase(at);
    return name_here + use;
  }
  return load.name + use;
}

std::string CudaPrinter::value_text(const std::string& value, int loop, size_t work, std::string& loads) {
  if (loop < 0) return value;
  std::string text;
  size_t at = 0;
  for (const ElementText& e : elements_in(value, [&](std::string_view word) { return is_array(word); })) {
    text += value.substr(at, e.begin - at);
    at = e.end;
    std::string use = is_own(e, loop, work) ? plain_name(e.array) + "_own.at[k]" : loaded(e, loop, loads);
    // The place may itself be an element.
    text += use.empty() ? fmt::format("{}[{}]", e.array, value_text(e.index, loop, work, loads)) : use;
  }
  return in_loop(text + value.substr(at), loop);
}

// Loads whose places are known by now.
std::string CudaPrinter::ready_loads(bool constants_only) {
  std::string text;
  for (const std::string& key : load_order_) {
    Load& load = loads_.at(key);
    if (load.done || (constants_only && !load.constant) ||
        !std::includes(defined_.begin(), defined_.end(), load.needs.begin(), load.needs.end()))
      continue;
    load.done = true;
    text += fmt::format("  {};\n  {}\n", load.declaration, load.text);
  }
  return text;
}

std::string CudaPrinter::item_variables(int loop, const std::string& item) const {
  const ThreadLoop& of = layout_.loops[static_cast<size_t>(loop)];
  const std::string suffix = suffix_of_leads(loop);
  std::string text;
  int64_t behind = of.items;
  for (size_t d = 0; d < of.leads.size(); ++d) {
    behind /= of.leads[d];
    std::string index = behind == 1 ? item : fmt::format("{} / {}", item, behind);
    if (of.leads[d] == 1) continue;
    if (d > 0) index = fmt::format("{} % {}", index, of.leads[d]);
    text += fmt::format("[[maybe_unused]] const int64_t l{}_{} = {};\n", d + 1, suffix, index);
  }
  return text;
}

// Of a kernel whose threads have at most one pack of each loop.
std::string CudaPrinter::loop_variables(int loop) const {
  const ThreadLoop& of = layout_.loops[static_cast<size_t>(loop)];
  std::string text;
  if (of.team > 0) {
    if (suffix_of_leads(loop) == fmt::to_string(loop)) {
      const bool all = of.items * of.team == layout_.threads;
      text += item_variables(
          loop, all ? fmt::format("(thread / {})", of.team)
                    : fmt::format("(thread / {0} < {1} ? thread / {0} : {2})", of.team, of.items, of.items - 1));
    }
    text += fmt::format("const bool on_{0} = thread / {1} < {2} && thread % {1} < {3};\n", loop, of.team, of.items,
                        of.packs());
    return text + fmt::format("const int first_{} = thread % {} * {};\n", loop, of.team, of.width);
  }
  const std::string pack = layout_.pieces > 1 ? "pack" : "thread";
  text +=
      fmt::format("const bool on_{} = {};\n", loop,
                  of.all_packs() == layout_.threads * layout_.pieces ? std::string("true")
                                                                     : fmt::format("{} < {}", pack, of.all_packs()));
  if (of.items == 1) {
    text += item_variables(loop, "0");
    return text + fmt::format("const int first_{} = {} * {};\n", loop, pack, of.width);
  }
  text += item_variables(loop, of.packs() == 1 ? pack : fmt::format("({} / {})", pack, of.packs()));
  return text + fmt::format("const int first_{} = {} % {} * {};\n", loop, pack, of.packs(), of.width);
}

// `inside` for every pack of the thread.
std::string CudaPrinter::over_packs(int loop, const std::string& inside, size_t depth) const {
  const ThreadLoop& of = layout_.loops[static_cast<size_t>(loop)];
  const std::string indent = indented_cuda(depth);
  if (layout_.once) return fmt::format("{0}if (on_{1}) {{\n{2}{0}}}\n", indent, loop, inside);
  std::string head, more = indented_cuda(depth + 1);
  if (of.team > 0) {
    head = fmt::format(
        "{0}for (int pack = thread % {1}; pack < {2}; pack += {1}) {{\n{3}const int first_{4} = pack * {5};\n", indent,
        of.team, of.packs(), more, loop, of.width);
  } else {
    head = fmt::format("{0}for (int pack = thread; pack < {1}; pack += {2}) {{\n", indent, of.all_packs(),
                       layout_.threads);
    std::string lines = item_variables(loop, of.packs() == 1 ? "pack" : fmt::format("(pack / {})", of.packs()));
    lines += fmt::format("const int first_{} = {} * {};\n", loop,
                         of.items == 1 ? std::string("pack") : fmt::format("pack % {}", of.packs()), of.width);
    head += lines_behind(more, lines);
  }
  return head + inside + indent + "}\n";
}

// Lines for every element of a pack.
std::string CudaPrinter::element_loop(int loop, const std::string& loads, const std::vector<std::string>& lines,
                                      size_t depth) const {
  const ThreadLoop& of = layout_.loops[static_cast<size_t>(loop)];
  const std::string indent = indented_cuda(depth), more = indented_cuda(depth + 1);
  std::string text = lines_behind(indent, loads);
  bool uses_i = std::any_of(lines.begin(), lines.end(), [](const std::string& line) { return has_word(line, "i"); });
  text += fmt::format("#pragma unroll\n{}for (int k = 0; k < {}; ++k) {{\n", indent, of.width);
  if (uses_i) text += fmt::format("{}const int64_t i = first_{} + k;\n", more, loop);
  for (const std::string& line : lines) text += more + line + "\n";
  return text + indent + "}\n";
}

std::string CudaPrinter::fold_text(const LoopStatement& s, int loop, size_t work) {
  const ThreadLoop& of = layout_.loops[static_cast<size_t>(loop)];
  const std::string indent = indented_cuda(depth_), type(element_name(s.dtype)), start = fold_start(s);
  std::string loads, value = value_text(s.value, loop, work, loads);
  std::string text = fmt::format("{}{} {} = {};\n", indent, type, s.name, start);
  text += over_packs(
      loop, element_loop(loop, loads, {fmt::format("{} = {};", s.name, folded(s.fold, s.name, value))}, depth_ + 1),
      depth_);
  std::string both = fmt::format("[]({0} a, {0} b) {{ return {0}({1}); }}", type, folded(s.fold, "a", "b"));
  return text + (of.team > 0 ? fmt::format("{}{} = over_team<{}>({}, {});\n", indent, s.name, of.team, s.name, both)
                             : fmt::format("{}{} = over_block<{}, {}>({}, {}({}), {});\n", indent, s.name, folds_++,
                                           layout_.threads, s.name, type, start, both));
}

std::string CudaPrinter::fill_text(const LoopStatement& s, int loop, size_t work) {
  const ThreadLoop& of = layout_.loops[static_cast<size_t>(loop)];
  std::string loads, value = value_text(s.value, loop, work, loads);
  std::string declare = fmt::format("Pack<{}, {}> {}_own;\n", element_name(s.dtype), of.width, s.name);
  std::string inside = element_loop(loop, loads, {fmt::format("{}_own.at[k] = {};", s.name, value)}, depth_ + 1);
  if (stored_.at(s.name).shared)
    inside += fmt::format("{}store<true>({} + first_{}, {}_own);\n", indented_cuda(depth_ + 1), s.name, loop, s.name);
  if (layout_.once) return indented_cuda(depth_) + declare + over_packs(loop, inside, depth_);
  return over_packs(loop, indented_cuda(depth_ + 1) + declare + inside, depth_);
}

// The store of a thread's pack.
std::string CudaPrinter::store_of(const LoopStatement& s, int loop) const {
  const ThreadLoop& of = layout_.loops[static_cast<size_t>(loop)];
  const std::string array = array_of(s, loops_), indent = indented_cuda(depth_ + 1);
  IndexOfI index = index_of_i(s.index);
  std::string text = s.guard.empty() ? indent : fmt::format("{}if ({}) ", indent, in_loop(s.guard, loop));
  if (index.kind == IndexOfI::Kind::kOther || (index.kind == IndexOfI::Kind::kFixed && of.width > 1))
    return text + fmt::format("for (int64_t k = 0, i = first_{}; k < {}; ++k, ++i) {}[{}] = {}.at[k];\n", loop,
                              of.width, array, in_loop(s.index, loop), own_.at(&s));
  const std::string first = fmt::format("first_{}", loop);
  std::string base =
      in_loop(with_words(s.index, [&](std::string_view word) { return word == "i" ? first : std::string(); }), loop);
  const bool local = loops_.locals.count(s.name) > 0;
  const std::string_view aligned = index.multiple < of.width ? "false" : local ? "true" : "kAligned";
  return text + fmt::format("store<{}>({} + {}, {});\n", aligned, array, in_parentheses(base), own_.at(&s));
}

std::string CudaPrinter::group_text(const Work& w, size_t work) {
  const ThreadLoop& of = layout_.loops[static_cast<size_t>(w.loop)];
  std::string declare, loads, before, stores;
  std::vector<std::string> lines;
  for (const LoopStatement* s : w.scalars)
    before += fmt::format("const {} {} = {};\n", element_name(s->dtype), s->name, in_loop(s->value, w.loop));
  const std::string indent = indented_cuda(layout_.once ? depth_ : depth_ + 1);
  for (const LoopStatement* s : w.statements) {
    declare += fmt::format("{}Pack<{}, {}> {};\n", indent, element_name(s->dtype), of.width, own_.at(s));
    LoopStatement element = *s;
    element.value = value_text(s->value, w.loop, work, loads);
    element.index = "k";
    lines.push_back(store_text(element, own_.at(s) + ".at"));
    const bool local = loops_.locals.count(s->name) > 0;
    if (!local || stored_.at(s->name).shared) stores += store_of(*s, w.loop);
  }
  std::string inside = element_loop(w.loop, before + loads, lines, depth_ + 1) + stores;
  if (layout_.once) return declare + over_packs(w.loop, inside, depth_);
  return over_packs(w.loop, declare + inside, depth_);
}

std::string CudaPrinter::work_text(size_t work) {
  const Work& w = works_[work];
  const LoopStatement& s = *w.statements[0];
  switch (w.kind) {
    case Kind::kScalar: {
      // Of the items of a team, where its nest has them.
      int loop = -1;
      for (size_t i = 0; i < layout_.loops.size() && !w.of_row; ++i)
        if (std::equal(layout_.loops[i].leads.begin(), layout_.loops[i].leads.end(), w.nest->leads.begin() + 1,
                       w.nest->leads.end()) &&
            (loop < 0 || layout_.loops[i].team > 0))
          loop = static_cast<int>(i);
      return fmt::format("{}const {} {} = {};\n", indented_cuda(depth_), element_name(s.dtype), s.name,
                         in_loop(s.value, w.nest->leads.size() > 1 ? loop : -1));
    }
    case Kind::kFold:
      return fold_text(s, w.loop, work);
    case Kind::kFill:
      return fill_text(s, w.loop, work);
    case Kind::kStore:
      return group_text(w, work);
  }
  return {};
}

std::string CudaPrinter::works_text() {
  std::vector<std::string> texts(works_.size());
  std::set<std::string> changed;  // by threads that this one does not wait for yet
  for (size_t w = 0; w < works_.size();) {
    // A loop over the items of a team has all statements of its nest inside.
    size_t last = w + 1;
    const ThreadLoop* items = nullptr;
    auto team_of = [&](const Work& work) -> const ThreadLoop* {
      if (layout_.once || work.of_row) return nullptr;
      for (const ThreadLoop& l : layout_.loops)
        if (l.team > 0 &&
            std::equal(l.leads.begin(), l.leads.end(), work.nest->leads.begin() + 1, work.nest->leads.end()))
          return &l;
      return nullptr;
    };
    if ((items = team_of(works_[w])) != nullptr)
      while (last < works_.size() && works_[last].nest == works_[w].nest && !works_[last].of_row) ++last;
    bool wait = false;
    for (size_t in = w; in < last; ++in)
      for (const std::string& array : read_from_others(in)) {
        wait = wait || changed.count(array) > 0;
        if (items != nullptr && stored_.at(array).work >= w)
          throw NoLoops("elements of an item are read by other threads than those that computed them");
      }
    if (wait) {
      texts[w] = row_ != nullptr && row_->threads == 32 ? "  __syncwarp();\n" : "  __syncthreads();\n";
      changed.clear();
    }
    if (items != nullptr) {
      const int loop = static_cast<int>(items - layout_.loops.data());
      texts[w] += fmt::format("  for (int item = thread / {0}; item < {1}; item += {2}) {{\n", items->team,
                              items->items, layout_.threads / items->team);
      texts[w] += lines_behind("    ", item_variables(loop, "item"));
      depth_ = 2;
    }
    for (size_t in = w; in < last; ++in) {
      local_loads_.clear();
      texts[in] += work_text(in);
      for (const LoopStatement* s : works_[in].statements)
        if (const std::string array = array_of(*s, loops_); stored_.count(array) > 0) changed.insert(array);
    }
    if (items != nullptr) {
      texts[last - 1] += "  }\n";
      depth_ = 1;
    }
    w = last;
  }
  // Loads as early as the variables they need are known.
  std::string text = ready_loads(true);
  if (row_ == nullptr) text += "  wait_for_previous();\n";
  text += ready_loads(false);
  for (size_t w = 0; w < works_.size(); ++w) {
    text += texts[w];
    if (works_[w].kind == Kind::kScalar || works_[w].kind == Kind::kFold) {
      defined_.insert(works_[w].statements[0]->name);
      text += ready_loads(false);
    }
  }
  return text;
}

std::string CudaPrinter::body() {
  std::string text = "  [[maybe_unused]] const int thread = static_cast<int>(threadIdx.x);\n  let_next_start();\n";
  if (layout_.pieces > 1)
    text += fmt::format(
        "  const int64_t l0 = blockIdx.x / {0};\n  const int pack = static_cast<int>(blockIdx.x % {0}) * {1} + "
        "thread;\n",
        layout_.pieces, layout_.threads);
  else
    text += "  const int64_t l0 = blockIdx.x;\n";
  for (const SharedArray& array : shared_arrays())
    text += fmt::format("  alignas(16) __shared__ {} {}[{}];\n", element_name(array.dtype), array.name, array.elements);
  return text + row_lines() + works_text();
}

std::vector<CudaPrinter::SharedArray> CudaPrinter::shared_arrays() const {
  std::vector<SharedArray> arrays;
  for (const auto& [name, local] : loops_.locals)
    if (auto at = stored_.find(name); at != stored_.end() && at->second.shared)
      arrays.push_back({name, local.dtype, local.elements});
  for (const Work& w : works_)
    if (const LoopStatement& s = *w.statements[0]; w.kind == Kind::kFill && stored_.at(s.name).shared)
      arrays.push_back({s.name, s.dtype, s.count});
  return arrays;
}

std::string CudaPrinter::row_lines() const {
  std::string text;
  if (!layout_.once) return text;
  for (size_t i = 0; i < layout_.loops.size(); ++i) text += lines_behind("  ", loop_variables(static_cast<int>(i)));
  return text;
}

}  // namespace fk
