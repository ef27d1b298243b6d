#include "ops/registry.h"

#include <algorithm>

#include "core/closest.h"
#include "core/error.h"

namespace fk {

Registry& Registry::instance() {
  static Registry registry;
  return registry;
}

std::vector<const OperatorInfo*> Registry::operators() const {
  std::vector<const OperatorInfo*> list;
  for (const auto& op : operators_) list.push_back(op.get());
  std::sort(list.begin(), list.end(), [](const OperatorInfo* a, const OperatorInfo* b) {
    return std::pair(a->level, a->name) < std::pair(b->level, b->name);
  });
  return list;
}

const OperatorInfo* Registry::find(std::string_view name) const {
  for (const auto& op : operators_)
    if (op->name == name) return op.get();
  return nullptr;
}

const OperatorInfo& Registry::at(std::string_view name) const {
  if (const OperatorInfo* op = find(name)) return *op;
  std::vector<std::string> names;
  for (const auto& op : operators_) names.emplace_back(op->name);
  throw Error("There is no operator '{}'{} `fastkernels list` shows them all.", name, did_you_mean(name, names));
}

OperatorInfo& Registry::declare(std::string_view name) {
  for (const auto& op : operators_)
    if (op->name == name) return *op;
  operators_.push_back(std::make_unique<OperatorInfo>());
  operators_.back()->name = name;
  return *operators_.back();
}

void Registry::add(std::string_view op, const ImplementationInfo& implementation) {
  auto& list = declare(op).implementations;
  auto worse = [](const ImplementationInfo& a, const ImplementationInfo& b) {
    return std::pair(-a.rank, a.name) < std::pair(-b.rank, b.name);
  };
  list.insert(std::upper_bound(list.begin(), list.end(), implementation, worse), implementation);
}

void Registry::add_foreign(std::string_view op, std::string_view name, DeviceKind device,
                           std::shared_ptr<const ForeignKernel> kernel) {
  constexpr int kBeforeEverything = 1 << 20;
  at(op);  // an error that names the closest operator, rather than a new one
  auto& list = declare(op).implementations;
  std::erase_if(list, [&](const ImplementationInfo& i) { return i.name == name && i.foreign != nullptr; });
  add(op, {.name = name, .device = device, .rank = kBeforeEverything, .foreign = std::move(kernel)});
}

}  // namespace fk
