#include "candidate/operators_header.h"

#include <fmt/format.h>

#include "candidate/field_list.h"

namespace fk {
namespace {

// "rope_scaling" -> "RopeScaling": the nested struct of a field that has fields of its own.
std::string struct_name(std::string_view field) {
  std::string name;
  bool upper = true;
  for (char c : field) {
    if (c == '_') {
      upper = true;
      continue;
    }
    name += upper ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    upper = false;
  }
  return name;
}

struct MemberText {
  std::string type;
  std::string read;  // from a fk::Fields named `f`
};

MemberText member_text(const Field& field) {
  const std::string& name = field.name;
  auto call = [&](const char* reader) { return fmt::format("f.{}(\"{}\")", reader, name); };
  if (field_dtype(field.value)) return {"DType", fmt::format("static_cast<DType>({})", call("integer"))};
  if (std::holds_alternative<bool>(field.value)) return {"bool", call("boolean")};
  if (std::holds_alternative<int64_t>(field.value)) return {"int64_t", call("integer")};
  if (std::holds_alternative<double>(field.value)) return {"double", call("real")};
  if (std::holds_alternative<std::string>(field.value)) return {"const char*", call("text")};
  if (std::holds_alternative<std::vector<int64_t>>(field.value)) return {"Integers", call("integers")};
  return {struct_name(name), call("fields")};
}

std::string struct_text(std::string_view name, const Fields& fields, const std::string& indent) {
  std::string nested, members, readers;
  for (const Field& field : fields) {
    if (const auto* inner = std::get_if<Fields>(&field.value))
      nested += struct_text(struct_name(field.name), *inner, indent + "  ");
    MemberText member = member_text(field);
    members += fmt::format("{}  {} {};\n", indent, member.type, field.name);
    readers += fmt::format("{}{}({})", readers.empty() ? " : " : ", ", field.name, member.read);
  }
  return fmt::format("{0}struct {1} {{\n{2}{3}{0}  explicit {1}(const Fields&{4}){5} {{}}\n{0}}};\n", indent, name,
                     nested, members, fields.empty() ? "" : " f", readers);
}

std::string parameters(const OperatorInfo& op, std::string_view prefix) {
  std::string text = fmt::format("{}Context& ctx", prefix);
  for (const ArgSpec& arg : op.args)
    text += fmt::format(", {}{} {}", prefix, arg.optional ? "OptView" : "View", arg.name);
  return text;
}

std::string class_text(const OperatorInfo& op) {
  std::string unpacked;
  for (size_t i = 0; i < op.args.size(); ++i)
    unpacked += fmt::format(", {}(a[{}])", op.args[i].optional ? "OptView" : "View", i);
  return fmt::format(
      "class {0} : public Operator {{\n"
      " public:\n"
      "  static constexpr const char* kName = \"{1}\";\n"
      "  static constexpr const char* kClass = \"{0}\";\n"
      "  static constexpr const char* kSignature = \"{2}\";\n"
      "  using Contract = {0};\n"
      "{3}"
      "  explicit {0}(const Init& init) : init_(init) {{}}\n"
      "  virtual void forward({4}) = 0;\n"
      "  static void call({0}& op, Context& ctx, const fk_view* a) {{ op.forward(ctx{5}); }}\n"
      " protected:\n"
      "  const Init init_;\n"
      "}};\n\n",
      op.class_name, op.name, forward_signature(op), struct_text("Init", op.default_init(), "  "), parameters(op, ""),
      unpacked);
}

}  // namespace

std::string forward_signature(const OperatorInfo& op) {
  return fmt::format("void forward({})", parameters(op, "fk::"));
}

std::string expected_class(const OperatorInfo& op) {
  return fmt::format(
      "class {0} : public fk::{0} {{\n public:\n  using fk::{0}::{0};\n  {1} override;\n}};\nFK_CANDIDATE({0})",
      op.class_name, forward_signature(op));
}

std::string operators_header() {
  std::string text =
      "// fastkernels/operators.h: written by fastkernels from its contracts; included by fastkernels/candidate.h.\n"
      "#pragma once\n\nnamespace fk {\n\n";
  for (const OperatorInfo* op : Registry::instance().operators()) text += class_text(*op);
  return text + "}  // namespace fk\n";
}

}  // namespace fk
