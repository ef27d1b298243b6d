#include "candidate/field_list.h"

namespace fk {

std::optional<DType> field_dtype(const FieldValue& value) {
  const auto* text = std::get_if<std::string>(&value);
  if (text == nullptr) return std::nullopt;
  std::optional<DType> dtype = dtype_from_name(*text);
  return dtype && dtype_name(*dtype) == *text ? dtype : std::nullopt;
}

FieldList::FieldList(Fields fields) : fields_(std::move(fields)), list_(convert(fields_)) {}

const std::vector<fk_field>* FieldList::convert(const Fields& fields) {
  std::vector<fk_field> list;
  for (const Field& field : fields) {
    fk_field f{};
    f.name = field.name.c_str();
    if (const auto* boolean = std::get_if<bool>(&field.value)) {
      f.kind = FK_BOOL;
      f.integer = *boolean ? 1 : 0;
    } else if (const auto* integer = std::get_if<int64_t>(&field.value)) {
      f.kind = FK_INTEGER;
      f.integer = *integer;
    } else if (const auto* real = std::get_if<double>(&field.value)) {
      f.kind = FK_REAL;
      f.real = *real;
    } else if (const auto* text = std::get_if<std::string>(&field.value)) {
      f.kind = FK_TEXT;
      f.text = text->c_str();
      std::optional<DType> dtype = field_dtype(field.value);
      f.integer = dtype ? static_cast<int64_t>(*dtype) : -1;
    } else if (const auto* integers = std::get_if<std::vector<int64_t>>(&field.value)) {
      f.kind = FK_INTEGERS;
      f.integers = integers->data();
      f.integer = static_cast<int64_t>(integers->size());
    } else {
      const std::vector<fk_field>* inner = convert(std::get<Fields>(field.value));
      f.kind = FK_FIELDS;
      f.fields = inner->data();
      f.integer = static_cast<int64_t>(inner->size());
    }
    list.push_back(f);
  }
  return &lists_.emplace_back(std::move(list));
}

}  // namespace fk
