#include "tests/candidate/work_folder.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "candidate/operators_header.h"
#include "core/error.h"

namespace fk {

namespace fs = std::filesystem;

WorkFolder::WorkFolder() {
  std::string pattern = (fs::temp_directory_path() / "fastkernels-test-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw Error("no folder for a test can be made");
  path_ = pattern;
}

WorkFolder::~WorkFolder() {
  std::error_code error;
  fs::remove_all(path_, error);
}

std::string WorkFolder::write(const std::string& name, const std::string& text) const {
  fs::path file = fs::path(path_) / name;
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text;
  return file.string();
}

std::string WorkFolder::read(const std::string& name) const {
  std::ifstream file(fs::path(path_) / name);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

CandidateFile WorkFolder::candidate(const std::string& op, const std::string& text) const {
  const OperatorInfo& info = Registry::instance().at(op);
  return {&info, write(fmt::format("L{}/{}.cpp", info.level, op), text)};
}

CompileOptions WorkFolder::options() const { return {.cache_folder = path_ + "/cache"}; }

std::string rms_norm_with(const std::string& body) {
  return fmt::format(
      "#include <fastkernels/candidate.h>\n"
      "class RMSNorm : public fk::RMSNorm {{\n"
      " public:\n"
      "  using fk::RMSNorm::RMSNorm;\n"
      "  {} override {{ {} }}\n"
      "}};\n"
      "FK_CANDIDATE(RMSNorm)\n",
      forward_signature(Registry::instance().at("rms_norm")), body);
}

}  // namespace fk
