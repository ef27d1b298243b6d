// A temporary folder for one test, and candidates written into it.
#pragma once

#include <string>

#include "candidate/compile.h"

namespace fk {

class WorkFolder {
 public:
  WorkFolder();
  ~WorkFolder();
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  const std::string& path() const { return path_; }
  // Writes `text` to `name` below the folder and returns the file's path.
  std::string write(const std::string& name, const std::string& text) const;
  std::string read(const std::string& name) const;

  // A candidate for `op` with this text, and options whose cache lies in this folder.
  CandidateFile candidate(const std::string& op, const std::string& text) const;
  CompileOptions options() const;

 private:
  std::string path_;
};

// A whole candidate for rms_norm whose forward has this body.
std::string rms_norm_with(const std::string& body);

}  // namespace fk
