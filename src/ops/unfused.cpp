#include "ops/unfused.h"

namespace fk {
namespace {

std::set<std::string, std::less<>>& left_unfused() {
  static std::set<std::string, std::less<>> operators;
  return operators;
}

}  // namespace

void leave_unfused(std::set<std::string, std::less<>> operators) { left_unfused() = std::move(operators); }
bool is_left_unfused(std::string_view op) { return left_unfused().contains(op); }

}  // namespace fk
