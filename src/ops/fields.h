// Fields: an operator's constructor arguments as (name, value) pairs, for scenarios, records and stubs.
//
// An Init struct lists its fields once, in `visit`; both directions of the conversion walk that list.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/dtype.h"

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
T from_fields(const Fields& fields);

// The two visitors. What an operator's own code adds is one call for each field.
class FieldWriter {
 public:
  explicit FieldWriter(Fields& to) : to_(to) {}

  void operator()(std::string_view name, bool member);
  void operator()(std::string_view name, int64_t member);
  void operator()(std::string_view name, double member);
  void operator()(std::string_view name, const std::string& member);
  void operator()(std::string_view name, const std::vector<int64_t>& member);
  void operator()(std::string_view name, const std::vector<uint8_t>& member);
  void operator()(std::string_view name, DType member);
  template <Visitable M>
  void operator()(std::string_view name, M& member) {
    Fields inner;
    member.visit(FieldWriter(inner));
    add(name, std::move(inner));
  }

 private:
  void add(std::string_view name, FieldValue value);
  Fields& to_;
};

class FieldReader {
 public:
  explicit FieldReader(const Fields& from) : from_(from) {}

  void operator()(std::string_view name, bool& member);
  void operator()(std::string_view name, int64_t& member);
  void operator()(std::string_view name, double& member);
  void operator()(std::string_view name, std::string& member);
  void operator()(std::string_view name, std::vector<int64_t>& member);
  void operator()(std::string_view name, std::vector<uint8_t>& member);
  void operator()(std::string_view name, DType& member);
  template <Visitable M>
  void operator()(std::string_view name, M& member) {
    if (const Fields* inner = nested(name)) member = from_fields<M>(*inner);
  }

  // Every field belonged to a member.
  bool all_used() const { return used_ == from_.size(); }

 private:
  const FieldValue* take(std::string_view name);
  template <class M>
  void assign(std::string_view name, M& member);
  const Fields* nested(std::string_view name);

  const Fields& from_;
  size_t used_ = 0;
};

template <Visitable T>
Fields to_fields(T init) {
  Fields fields;
  init.visit(FieldWriter(fields));
  return fields;
}

namespace detail {
[[noreturn]] void throw_unknown_field(const Fields& fields, const Fields& known);
}  // namespace detail

// Fields not named keep their defaults; a name the struct does not have is an error that lists those it has.
template <Visitable T>
T from_fields(const Fields& fields) {
  T init;
  FieldReader reader(fields);
  init.visit(reader);
  if (!reader.all_used()) detail::throw_unknown_field(fields, to_fields(T{}));
  return init;
}

}  // namespace fk
