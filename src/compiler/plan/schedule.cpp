#include "compiler/plan/schedule.h"

#include <algorithm>
#include <queue>
#include <set>

#include "core/error.h"

namespace fk {
namespace {

class Scheduling {
 public:
  Scheduling(const GraphBody& body, const std::vector<const Region*>& regions) : body_(body), regions_(regions) {}

  std::vector<ScheduleUnit> run() {
    if (regions_.empty()) {
      for (size_t i = 0; i < body_.nodes.size(); ++i) units_.push_back({false, i});
      return std::move(units_);
    }
    make_units();
    add_edges();
    check_outputs();
    return sorted();
  }

 private:
  void make_units() {
    unit_of_.assign(body_.nodes.size(), -1);
    for (size_t r = 0; r < regions_.size(); ++r) {
      if (regions_[r]->nodes.empty()) throw Error("Region {} of the plan has no calls.", r);
      for (size_t node : regions_[r]->nodes) {
        if (node >= body_.nodes.size() || unit_of_[node] >= 0)
          throw Error("Region {} of the plan has a call that the graph does not have, or that another region has.", r);
        unit_of_[node] = static_cast<int>(units_.size());
      }
      units_.push_back({true, r});
      last_node_.push_back(*std::max_element(regions_[r]->nodes.begin(), regions_[r]->nodes.end()));
    }
    for (size_t i = 0; i < body_.nodes.size(); ++i) {
      if (unit_of_[i] >= 0) continue;
      unit_of_[i] = static_cast<int>(units_.size());
      units_.push_back({false, i});
      last_node_.push_back(i);
    }
  }

  void add_edge(int from, int to) {
    if (from != to && from >= 0 && after_[static_cast<size_t>(from)].insert(to).second)
      ++before_[static_cast<size_t>(to)];
  }

  void add_edges() {
    after_.resize(units_.size());
    before_.assign(units_.size(), 0);
    std::vector<int> maker(body_.values.size(), -1);  // unit
    for (size_t i = 0; i < body_.nodes.size(); ++i) {
      for (const GraphOperand& o : body_.nodes[i].inputs) add_edge(maker[static_cast<size_t>(o.value)], unit_of_[i]);
      for (const GraphOperand& o : body_.nodes[i].outputs) maker[static_cast<size_t>(o.value)] = unit_of_[i];
    }
    // States are updated in place: everything that reads the old value comes before that.
    std::vector<int> state(body_.values.size(), -1);  // the input that a value is, or was updated or taken from
    std::vector<std::vector<size_t>> readers(body_.values.size());
    for (ValueId id : body_.inputs)
      if (body_.values[static_cast<size_t>(id)].kind == ValueKind::kState) state[static_cast<size_t>(id)] = id;
    for (size_t i = 0; i < body_.nodes.size(); ++i) {
      const GraphNode& node = body_.nodes[i];
      for (const GraphOperand& o : node.inputs) {
        const int of = state[static_cast<size_t>(o.value)];
        if (of < 0) continue;
        const GraphOperand* updated = node.output(node.is_call() ? o.name : "out");
        if (updated != nullptr) state[static_cast<size_t>(updated->value)] = of;
        std::vector<size_t>& before = readers[static_cast<size_t>(of)];
        if (node.is_call() && updated != nullptr) {
          for (size_t reader : before) add_edge(unit_of_[reader], unit_of_[i]);
          before.clear();
        }
        before.push_back(i);
      }
    }
  }

  // What a region does not return does not exist outside of it.
  void check_outputs() const {
    std::vector<int> maker(body_.values.size(), -1);
    std::vector<bool> returned(body_.values.size(), false);
    for (size_t i = 0; i < body_.nodes.size(); ++i)
      for (const GraphOperand& o : body_.nodes[i].outputs) maker[static_cast<size_t>(o.value)] = unit_of_[i];
    for (const Region* region : regions_)
      for (const Region::Output& o : region->outputs) returned[static_cast<size_t>(o.value)] = true;
    auto check = [&](ValueId value, int reader) {
      const int unit = maker[static_cast<size_t>(value)];
      if (unit >= 0 && unit != reader && units_[static_cast<size_t>(unit)].is_region &&
          !returned[static_cast<size_t>(value)])
        throw Error(
            "Value %{} is made inside a region of the plan and read outside, but the region does not return it.",
            value);
    };
    for (size_t i = 0; i < body_.nodes.size(); ++i)
      for (const GraphOperand& o : body_.nodes[i].inputs) check(o.value, unit_of_[i]);
    for (const GraphOperand& o : body_.outputs) check(o.value, -1);
  }

  // Of the units that can run, always the one whose last node is first.
  std::vector<ScheduleUnit> sorted() {
    using Entry = std::pair<size_t, int>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
    for (size_t u = 0; u < units_.size(); ++u)
      if (before_[u] == 0) ready.emplace(last_node_[u], static_cast<int>(u));
    std::vector<ScheduleUnit> list;
    while (!ready.empty()) {
      const auto unit = static_cast<size_t>(ready.top().second);
      ready.pop();
      list.push_back(units_[unit]);
      for (int next : after_[unit])
        if (--before_[static_cast<size_t>(next)] == 0) ready.emplace(last_node_[static_cast<size_t>(next)], next);
    }
    if (list.size() != units_.size())
      throw Error(
          "A region of the plan needs a value that follows from its own results; its calls cannot be one step.");
    return list;
  }

  const GraphBody& body_;
  const std::vector<const Region*>& regions_;
  std::vector<ScheduleUnit> units_;
  std::vector<size_t> last_node_;  // of each unit
  std::vector<int> unit_of_;       // of each node
  std::vector<std::set<int>> after_;
  std::vector<int> before_;
};

}  // namespace

std::vector<ScheduleUnit> schedule_units(const GraphBody& body, const std::vector<const Region*>& regions) {
  return Scheduling(body, regions).run();
}

}  // namespace fk
