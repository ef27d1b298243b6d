// Fields: an operator's constructor arguments as (name, value) pairs, for scenarios, records and stubs.
//
// An Init struct lists its fields once, in `visit`; both directions of the conversion walk that list.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "core/dtype.h"
#include "core/error.h"

namespace fk {

struct Field;
using Fields = std::vector<Field>;
using FieldValue = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>, Fields>;

struct Field {
  std::string name;
  FieldValue value;
};
bool operator==(const Field& a, const Field& b);

std::string fields_text(const Fields& fields);                              // "hidden_size=64, eps=1e-05"
const FieldValue* find_field(const Fields& fields, std::string_view name);  // nullptr where there is none
// Gives a field that is there another value; false where there is none of that name.
bool set_field(Fields& fields, std::string_view name, FieldValue value);

namespace detail {
// Not a lambda: nvcc treats a concept that contains a lambda as not satisfied.
struct VisitsAnything {
  template <class Member>
  void operator()(std::string_view, Member&) const {}
};
}  // namespace detail

template <class T>
concept Visitable = requires(T& x) {
  x.visit(detail::VisitsAnything{});
};

template <Visitable T>
Fields to_fields(T init) {
  Fields fields;
  init.visit([&](std::string_view name, auto& member) {
    using M = std::remove_cvref_t<decltype(member)>;
    FieldValue value;
    if constexpr (std::is_same_v<M, DType>)
      value = std::string(dtype_name(member));
    else if constexpr (std::is_same_v<M, std::vector<uint8_t>>)
      value = std::vector<int64_t>(member.begin(), member.end());
    else if constexpr (Visitable<M>)
      value = to_fields(member);
    else
      value = member;
    fields.push_back({std::string(name), std::move(value)});
  });
  return fields;
}

namespace detail {
[[noreturn]] void throw_field_type(std::string_view name);
[[noreturn]] void throw_unknown_field(std::string_view name, const Fields& known);
DType dtype_field(std::string_view name, const FieldValue& value);
}  // namespace detail

// Fields not named keep their defaults; a name the struct does not have is an error that lists those it has.
template <Visitable T>
T from_fields(const Fields& fields) {
  T init;
  size_t used = 0;
  init.visit([&](std::string_view name, auto& member) {
    using M = std::remove_cvref_t<decltype(member)>;
    for (const Field& f : fields) {
      if (f.name != name) continue;
      ++used;
      if constexpr (std::is_same_v<M, DType>) {
        member = detail::dtype_field(name, f.value);
      } else if constexpr (Visitable<M>) {
        if (!std::holds_alternative<Fields>(f.value)) detail::throw_field_type(name);
        member = from_fields<M>(std::get<Fields>(f.value));
      } else if constexpr (std::is_same_v<M, std::vector<uint8_t>>) {
        if (!std::holds_alternative<std::vector<int64_t>>(f.value)) detail::throw_field_type(name);
        const auto& list = std::get<std::vector<int64_t>>(f.value);
        member.assign(list.begin(), list.end());
      } else if constexpr (std::is_same_v<M, double>) {
        if (const auto* integer = std::get_if<int64_t>(&f.value))
          member = static_cast<double>(*integer);
        else if (const auto* real = std::get_if<double>(&f.value))
          member = *real;
        else
          detail::throw_field_type(name);
      } else {
        if (!std::holds_alternative<M>(f.value)) detail::throw_field_type(name);
        member = std::get<M>(f.value);
      }
    }
  });
  if (used != fields.size()) {
    Fields known = to_fields(T{});
    for (const Field& f : fields) {
      bool found = false;
      for (const Field& k : known) found = found || k.name == f.name;
      if (!found) detail::throw_unknown_field(f.name, known);
    }
  }
  return init;
}

}  // namespace fk
