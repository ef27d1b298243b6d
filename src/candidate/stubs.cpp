#include "candidate/stubs.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <span>

#include "candidate/compile_cache.h"
#include "candidate/folder.h"
#include "candidate/operators_header.h"
#include "core/check.h"
#include "core/error.h"
#include "core/replace_all.h"
#include "ops/node.h"

namespace fk {

extern const std::span<const std::pair<std::string_view, std::string_view>> kStubBodies;

namespace {

namespace fs = std::filesystem;

constexpr size_t kShownWeights = 12;  // a model has hundreds, and they repeat

std::optional<std::string_view> body_named(std::string_view name) {
  for (const auto& [file, text] : kStubBodies)
    if (file == fmt::format("{}.in", name)) return text;
  return std::nullopt;
}

// "%include rope.part%" becomes that text, so that bodies can share parts.
std::string with_parts(std::string text) {
  constexpr std::string_view kInclude = "%include ";
  for (size_t at = text.find(kInclude); at != std::string::npos; at = text.find(kInclude)) {
    size_t end = text.find('%', at + 1);
    FK_CHECK(end != std::string::npos, "an include in the body of a stub is not closed");
    std::optional<std::string_view> part =
        body_named(std::string_view(text).substr(at + kInclude.size(), end - at - kInclude.size()));
    FK_CHECK(part.has_value(), "a stub includes a part that does not exist");
    text.replace(at, end + 2 - at, *part);  // with the newline: the part has its own
  }
  return text;
}

// The signature in lines of at most 120 columns, indented for a class.
std::string wrapped_signature(const OperatorInfo& op) {
  constexpr size_t kColumns = 120 - sizeof("   override {");
  const std::string indent(15, ' ');
  std::string text = forward_signature(op), lines, line;
  for (size_t begin = 0; begin < text.size();) {
    size_t comma = text.find(", ", begin), end = comma == std::string::npos ? text.size() : comma + 1;
    std::string word = text.substr(begin, end - begin);
    if (!line.empty() && line.size() + word.size() + 1 > kColumns) {
      lines += line + "\n";
      line = indent + word;
    } else {
      line += (line.empty() ? "" : " ") + word;
    }
    begin = comma == std::string::npos ? text.size() : comma + 2;
  }
  return lines + line;
}

// The most informative case: with optional arguments, then with the most tokens.
OperatorInfo::ErasedCase sample_case(const OperatorInfo& op) {
  std::vector<OperatorInfo::ErasedCase> cases = op.cases();
  FK_CHECK(!cases.empty(), "an operator lists no cases");
  auto less = [](const OperatorInfo::ErasedCase& a, const OperatorInfo::ErasedCase& b) {
    return std::pair(a.workload.optional_inputs, a.workload.num_tokens()) <
           std::pair(b.workload.optional_inputs, b.workload.num_tokens());
  };
  return *std::max_element(cases.begin(), cases.end(), less);
}

std::string role_text(const ArgSpec& arg) {
  std::string role = arg.role == Role::kInput ? "input" : arg.role == Role::kState ? "read and written" : "output";
  return arg.optional ? role + ", optional" : role;
}

// Comment lines of at most 120 columns, broken at blanks.
std::string commented(std::string_view text) {
  std::string lines, line = "//";
  while (!text.empty()) {
    size_t end = std::min(text.find(' '), text.size());
    if (line.size() + end + 1 > 120) lines += std::exchange(line, "//  ") + "\n";
    line += fmt::format(" {}", text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines + line + "\n";
}

std::string comment(const OperatorInfo& op, DeviceKind device) {
  OperatorInfo::ErasedCase example = sample_case(op);
  BuildOptions oracle;
  oracle.oracle = true;
  std::unique_ptr<Node> node = op.build(example.init, oracle);
  std::vector<std::optional<TensorSpec>> specs;
  std::vector<OptView> given;
  for (const std::optional<InputSpec>& input : op.inputs(example.init, example.workload)) {
    specs.push_back(input ? std::optional(input->spec) : std::nullopt);
    given.push_back(input ? OptView(View(nullptr, input->spec)) : std::nullopt);
  }
  OutputSpecs outputs = node->outputs(given);
  for (size_t i = 0; specs.size() < op.args.size(); ++i) specs.push_back(outputs.specs[i]);

  std::string text = fmt::format(
      "// {} (L{}), naive: correct and slow. Make it fast, then run\n"
      "//   fastkernels kernels{} --target {}\n//\n",
      op.name, op.level, device == DeviceKind::kCpu ? "" : " --device cuda", op.name);
  std::string init = fields_text(example.init);
  text += commented(fmt::format("The arguments of one call{}{}:", init.empty() ? "" : ", constructed with ", init));
  auto shape = [](const std::optional<TensorSpec>& s) { return s ? View(nullptr, *s).str() : "absent"; };
  size_t names = 0, shapes = 0;
  for (size_t i = 0; i < specs.size(); ++i) {
    names = std::max(names, op.args[i].name.size());
    shapes = std::max(shapes, shape(specs[i]).size());
  }
  for (size_t i = 0; i < specs.size(); ++i)
    text += fmt::format("//   {:<{}}  {:<{}}  {}\n", op.args[i].name, names, shape(specs[i]), shapes,
                        role_text(op.args[i]));
  std::vector<ParamSpec> params = collect_params(*node);
  if (!params.empty()) text += "// Its weights, by the names weight() takes:\n";
  for (size_t i = 0; i < std::min(params.size(), kShownWeights); ++i)
    text += fmt::format("//   {}  {}\n", params[i].name, shape(params[i].spec));
  if (params.size() > kShownWeights) text += fmt::format("//   and {} more\n", params.size() - kShownWeights);
  std::vector<StateSpec> states = collect_states(*node);
  if (!states.empty()) text += "// What it keeps between calls, by the names ctx.state() takes:\n";
  for (size_t i = 0; i < std::min(states.size(), kShownWeights); ++i)
    text += fmt::format("//   {}  {}\n", states[i].name,
                        shape(state_tensor(states[i], state_room(example.workload), example.workload.dtype)));
  if (states.size() > kShownWeights) text += fmt::format("//   and {} more\n", states.size() - kShownWeights);
  return text;
}

// The body for an operator without a template: it calls the reference, and shows the arguments that a kernel reads.
std::string generated_body(const OperatorInfo& op) {
  std::string hints;
  for (const Field& field : op.default_init()) hints += fmt::format("    //   init_.{}\n", field.name);
  BuildOptions oracle;
  oracle.oracle = true;
  std::unique_ptr<Node> node = op.build(sample_case(op).init, oracle);
  std::vector<ParamSpec> params = collect_params(*node);
  for (size_t i = 0; i < std::min(params.size(), kShownWeights); ++i)
    hints += fmt::format("    //   weight(\"{}\")\n", params[i].name);
  std::vector<StateSpec> states = collect_states(*node);
  for (size_t i = 0; i < std::min(states.size(), kShownWeights); ++i)
    hints += fmt::format("    //   ctx.state(\"{}\"), which it may write too\n", states[i].name);
  for (const ArgSpec& arg : op.args)
    if (arg.optional) hints += fmt::format("    //   {}, where `if ({})`, as *{}\n", arg.name, arg.name, arg.name);
  if (!hints.empty()) hints = "    // Besides the arguments it may read:\n" + hints;
  std::string body(*body_named("generated.cpp.part"));
  replace_all(body, "%hints%", hints);
  return body;
}

std::string moved_aside(const fs::path& path, const fs::path& folder, std::string_view time) {
  for (int attempt = 0; attempt < 1000; ++attempt) {
    fs::path aside = folder / "replaced" / (attempt == 0 ? std::string(time) : fmt::format("{}-{}", time, attempt)) /
                     path.parent_path().filename();
    fs::create_directories(aside);
    fs::path target = aside / path.filename();
    // link() refuses an existing name, where rename() would overwrite it.
    if (link(path.c_str(), target.c_str()) == 0 && unlink(path.c_str()) == 0) return target.string();
    if (errno != EEXIST) break;
  }
  throw Error("{} is where a stub has to be written and cannot be moved: {}.", path.string(), std::strerror(errno));
}

void write_new(const fs::path& path, std::string_view text) {
  int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  bool written = file >= 0 && write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  int why = errno;
  if (file >= 0) close(file);
  if (!written) throw Error("{} cannot be written: {}.", path.string(), std::strerror(why));
}

}  // namespace

std::optional<std::string> stub_text(const OperatorInfo& op, DeviceKind device) {
  std::optional<std::string_view> body = body_named(fmt::format("{}{}", op.name, candidate_suffix(device)));
  if (!body && device != DeviceKind::kCpu) return std::nullopt;
  std::string text = comment(op, device) + (body ? with_parts(std::string(*body)) : generated_body(op));
  replace_all(text, "%signature%", wrapped_signature(op));
  replace_all(text, "%class%", op.class_name);
  return text;
}

std::vector<WrittenStub> write_stubs(const std::vector<const OperatorInfo*>& ops, const std::string& folder,
                                     DeviceKind device) {
  std::vector<WrittenStub> written;
  std::string time = fmt::format("{:%Y-%m-%d_%H%M%S}", fmt::localtime(std::time(nullptr)));
  try {
    for (const OperatorInfo* op : ops) {
      std::optional<std::string> text = stub_text(*op, device);
      if (!text) continue;
      fs::path path =
          fs::path(folder) / fmt::format("L{}", op->level) / fmt::format("{}{}", op->name, candidate_suffix(device));
      WrittenStub stub{.op = op, .path = path.string()};
      fs::create_directories(path.parent_path());
      stub.unchanged = file_text(path.string()) == text;
      if (!stub.unchanged) {
        if (fs::exists(fs::symlink_status(path))) stub.moved_to = moved_aside(path, folder, time);
        write_new(path, *text);
      }
      written.push_back(std::move(stub));
    }
  } catch (const fs::filesystem_error& error) {
    throw Error("Stubs cannot be written to {} ({}); name another folder with --out.", folder, error.code().message());
  }
  return written;
}

}  // namespace fk
