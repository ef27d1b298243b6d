// Operators whose fusions step back although they have no candidate: for a baseline that runs the same parts as a model
// with candidates, which never uses a fusion around one of them.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>

namespace fk {

// For trees that are built from now on.
void leave_unfused(std::set<std::string, std::less<>> operators);
bool is_left_unfused(std::string_view op);

}  // namespace fk
