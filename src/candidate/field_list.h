// Constructor arguments for the C interface: an array of fk_field and the memory it points into.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include <fastkernels/kernel_abi.h>
#include "ops/fields.h"

namespace fk {

// Dtypes are passed as text ("bf16") together with their number; the generated header reads the number. Whether a text
// is a dtype is decided here, for the host and the header alike.
std::optional<DType> field_dtype(const FieldValue& value);

class FieldList {
 public:
  explicit FieldList(Fields fields);
  FieldList(const FieldList&) = delete;
  FieldList& operator=(const FieldList&) = delete;

  const fk_field* data() const { return list_->data(); }
  size_t size() const { return list_->size(); }

 private:
  const std::vector<fk_field>* convert(const Fields& fields);

  const Fields fields_;  // candidates keep pointers to its texts
  std::deque<std::vector<fk_field>> lists_;
  const std::vector<fk_field>* list_;
};

}  // namespace fk
