#include "core/element_rows.h"

#include <type_traits>

#include "core/element_access.h"

namespace fk {
namespace {

template <class T>
void load_row(const void* first, int64_t stride, int64_t n, double* values) {
  const auto* at = static_cast<const T*>(first);
  if (stride == 1)  // a loop of its own, which the compiler vectorises
    for (int64_t i = 0; i < n; ++i) values[i] = load_as<T>(at + i);
  else
    for (int64_t i = 0; i < n; ++i) values[i] = load_as<T>(at + i * stride);
}

template <class T>
void store_row(void* first, int64_t stride, int64_t n, const double* values) {
  auto* at = static_cast<T*>(first);
  if (stride == 1)
    for (int64_t i = 0; i < n; ++i) store_as<T>(at + i, values[i]);
  else
    for (int64_t i = 0; i < n; ++i) store_as<T>(at + i * stride, values[i]);
}

}  // namespace

void load_elements(const void* first, DType t, int64_t stride, int64_t n, double* values) {
  with_element_type(t, [&]<class T>(std::type_identity<T>) { load_row<T>(first, stride, n, values); });
}

void store_elements(void* first, DType t, int64_t stride, int64_t n, const double* values) {
  with_element_type(t, [&]<class T>(std::type_identity<T>) { store_row<T>(first, stride, n, values); });
}

}  // namespace fk
