// Result<T>: a value, or the sentence that says why there is none. For outcomes that are recorded instead of ending the
// program.
#pragma once

#include <string>
#include <utility>
#include <variant>

#include "core/check.h"
#include "core/error.h"

namespace fk {

struct Failed {
  std::string sentence;
};

template <class... Args>
Failed failure(fmt::format_string<Args...> format, Args&&... args) {
  return Failed{fmt::format(format, std::forward<Args>(args)...)};
}

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}         // NOLINT: a value is a result
  Result(Failed failed) : state_(std::move(failed)) {}  // NOLINT: so is a failure

  bool ok() const { return std::holds_alternative<T>(state_); }
  explicit operator bool() const { return ok(); }

  const T& value() const& { return checked(); }
  T value() && {
    FK_CHECK(ok());
    return std::get<T>(std::move(state_));
  }
  const T& operator*() const& { return value(); }
  const T* operator->() const { return &value(); }

  const std::string& error() const {
    FK_CHECK(!ok());
    return std::get<Failed>(state_).sentence;
  }

  // Turns an outcome into an exception where the caller cannot go on without the value. Returns by value: a reference
  // to a temporary would dangle in `for (auto& x : load().or_throw())`.
  T or_throw() && {
    if (!ok()) throw Error(error());
    return std::move(*this).value();
  }

 private:
  const T& checked() const {
    FK_CHECK(ok());
    return std::get<T>(state_);
  }

  std::variant<T, Failed> state_;
};

}  // namespace fk
