#include "compiler/plan/region_maker.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/json.h"
#include "sandbox/message.h"

namespace fk {

RegionMaker::RegionMaker(const GraphBody& flat)
    : flat_(flat),
      maker_(flat.values.size(), kNoNode),
      readers_(flat.values.size()),
      in_state_(flat.values.size(), false) {
  for (ValueId id : flat.inputs) in_state_[at(id)] = value(id).kind == ValueKind::kState;
  for (size_t n = 0; n < flat.nodes.size(); ++n) {
    const GraphNode& node = flat.nodes[n];
    for (const GraphOperand& o : node.outputs) {
      maker_[at(o.value)] = n;
      const GraphOperand* updated = node.input(o.name);
      in_state_[at(o.value)] = updated != nullptr && in_state_[at(updated->value)];
    }
    for (const GraphOperand& o : node.inputs) readers_[at(o.value)].push_back(n);
  }
  for (const GraphOperand& o : flat.outputs) readers_[at(o.value)].push_back(kNoNode);
}

ValueId RegionMaker::base(ValueId id) const {
  for (size_t m = maker_[at(id)]; is_move(m) && flat_.nodes[m].kind != GraphNode::Kind::kConcat; m = maker_[at(id)])
    id = flat_.nodes[m].inputs[0].value;
  return id;
}

std::vector<size_t> RegionMaker::calls_of(const Region& region) const {
  std::vector<size_t> calls;
  for (size_t n : region.nodes)
    if (flat_.nodes[n].is_call()) calls.push_back(n);
  return calls;
}

std::vector<size_t> RegionMaker::calls_that_read(ValueId id) const {
  std::vector<size_t> calls;
  for (size_t r : readers_[at(id)]) {
    if (!is_move(r)) {
      calls.push_back(r);
      continue;
    }
    std::vector<size_t> more = calls_that_read(flat_.nodes[r].outputs[0].value);
    calls.insert(calls.end(), more.begin(), more.end());
  }
  return calls;
}

std::optional<Region> RegionMaker::region_of(const std::vector<size_t>& calls) const {
  Region region;
  std::set<size_t> inside(calls.begin(), calls.end());
  auto is_inside = [&](ValueId id) { return maker_[at(id)] != kNoNode && inside.count(maker_[at(id)]) > 0; };
  std::set<size_t> nodes = inside;
  for (size_t c : calls) {
    for (const GraphOperand& o : flat_.nodes[c].inputs) {
      if (!is_inside(base(o.value))) {
        size_t maker = maker_[at(base(o.value))];
        // A concatenation of what the region itself computes.
        if (is_move(maker) && std::any_of(flat_.nodes[maker].inputs.begin(), flat_.nodes[maker].inputs.end(),
                                          [&](const GraphOperand& part) { return is_inside(base(part.value)); }))
          return {};
        if (std::find(region.inputs.begin(), region.inputs.end(), o.value) == region.inputs.end())
          region.inputs.push_back(o.value);
        continue;
      }
      for (ValueId v = o.value; !is_inside(v); v = flat_.nodes[maker_[at(v)]].inputs[0].value)
        nodes.insert(maker_[at(v)]);
    }
    for (const GraphOperand& o : flat_.nodes[c].outputs) {
      std::vector<size_t> readers = calls_that_read(o.value);
      bool leaves = std::any_of(readers.begin(), readers.end(), [&](size_t r) { return inside.count(r) == 0; });
      if (!leaves && !in_state_[at(o.value)]) continue;
      Region::Output output{o.value};
      if (in_state_[at(o.value)]) {
        ValueId before = flat_.nodes[c].input(o.name)->value;
        auto input = std::find(region.inputs.begin(), region.inputs.end(), before);
        if (input == region.inputs.end()) return {};
        output.updates = static_cast<int>(input - region.inputs.begin());
      }
      region.outputs.push_back(output);
    }
  }
  region.nodes.assign(nodes.begin(), nodes.end());
  return region;
}

std::string RegionMaker::structure_of(const Region& region) {
  std::string text;
  std::map<ValueId, size_t> numbers;
  auto add = [&](ValueId id) {
    auto [at, is_new] = numbers.try_emplace(id, numbers.size());
    text += fmt::format("{},", at->second);
    if (!is_new) return;
    const GraphValue& v = value(id);
    text += fmt::format("{}/{}/", static_cast<int>(v.dtype), v.kind == ValueKind::kParameter ? 1 : 0);
    for (const SymbolicSize& s : v.shape) add_size(text, s);
  };
  for (size_t n : region.nodes) {
    const GraphNode& node = flat_.nodes[n];
    text += fmt::format("{}:", call_number(node));
    for (const SymbolicSize& s : node.starts) add_size(text, s);
    for (const GraphOperand& o : node.inputs) {
      text += o.name + "=";
      add(o.value);
    }
    text += ">";
    for (const GraphOperand& o : node.outputs) {
      text += o.name + "=";
      add(o.value);
    }
  }
  text += "|";
  for (ValueId id : region.inputs) add(id);
  text += "|";
  for (const Region::Output& o : region.outputs) {
    add(o.value);
    text += fmt::format("{};", o.updates);
  }
  return text;
}

void RegionMaker::add_size(std::string& text, const SymbolicSize& size) {
  text += fmt::format("{}", size.constant);
  for (int64_t f : size.factors) text += f == 0 ? "_" : fmt::format("*{}", f);
  text += ",";
}

// The same number for the same operator with the same constructor arguments.
int RegionMaker::call_number(const GraphNode& node) {
  std::string call = fmt::format("{} {}", static_cast<int>(node.kind), node.op);
  if (!node.init.empty()) call += dump_json(fields_to_json(node.init), -1);
  return calls_.try_emplace(std::move(call), static_cast<int>(calls_.size())).first->second;
}

}  // namespace fk
