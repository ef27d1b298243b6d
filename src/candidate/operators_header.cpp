#include "candidate/operators_header.h"

#include <fmt/format.h>

#include <cctype>

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
      "}};\n",
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

bool needs_own_class_only(const OperatorInfo& op, std::string_view source) {
  // What a file of its own, a name without fk:: or a pasted one brings is not known here.
  for (std::string_view part : {"namespace fk", "##"})
    if (source.find(part) != std::string_view::npos) return false;
  constexpr std::string_view kInclude = "include";
  for (size_t at = source.find(kInclude); at != std::string_view::npos; at = source.find(kInclude, at + 1)) {
    size_t next = source.find_first_not_of(" \t", at + kInclude.size());
    if (next == std::string_view::npos || source[next] != '<') return false;
  }
  for (const OperatorInfo* other : Registry::instance().operators()) {
    if (other == &op) continue;
    const std::string name = fmt::format("fk::{}", other->class_name);
    for (size_t at = source.find(name); at != std::string_view::npos; at = source.find(name, at + 1)) {
      const char after = at + name.size() < source.size() ? source[at + name.size()] : ' ';
      if (std::isalnum(static_cast<unsigned char>(after)) == 0 && after != '_') return false;
    }
  }
  return true;
}

std::string operators_header() {
  std::string numbers, classes;
  int number = 0;
  for (const OperatorInfo* op : Registry::instance().operators()) {
    numbers += fmt::format("#define FK_DETAIL_OPERATOR_{} {}\n", op->name, ++number);
    classes += fmt::format("#if FK_DETAIL_ONLY == 0 || FK_DETAIL_ONLY == {}\n{}#endif\n\n", number, class_text(*op));
  }
  return "// fastkernels/operators.h: written by fastkernels from its contracts; included by fastkernels/candidate.h.\n"
         "#pragma once\n\n"
         "// Where fastkernels sees that a candidate needs no class but that of its own operator, it defines\n"
         "// FK_OWN_OPERATOR_ONLY: the others would take a third of the time of compiling it.\n" +
         numbers +
         "#define FK_DETAIL_PASTE(a, b) a##b\n"
         "#define FK_DETAIL_NUMBER_OF(name) FK_DETAIL_PASTE(FK_DETAIL_OPERATOR_, name)\n"
         "#if defined(FK_CANDIDATE_OF) && defined(FK_OWN_OPERATOR_ONLY)\n"
         "#define FK_DETAIL_ONLY FK_DETAIL_NUMBER_OF(FK_CANDIDATE_OF)\n"
         "#else\n"
         "#define FK_DETAIL_ONLY 0\n"
         "#endif\n\n"
         "namespace fk {\n\n" +
         classes + "}  // namespace fk\n";
}

}  // namespace fk
