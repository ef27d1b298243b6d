// Which files a compiler may read while it compiles a candidate: the system's, its own, the candidate's, and those that
// the user named. A candidate is untrusted, and `#include` or `.incbin` could read any file.
#pragma once

#include <string>
#include <vector>

namespace fk {

// Files and folders beyond the system's own. `compiler`: its program and words; `flags`: the user's, which may name
// folders; `source`: the candidate's file; `secret`: a folder that no allowed folder may contain, like the home
// folder.
std::vector<std::string> readable_by_compiler(const std::vector<std::string>& compiler,
                                              const std::vector<std::string>& flags, const std::string& source,
                                              const std::string& secret);

// The program in a command that cannot work in a sandbox, because it needs the network or its own files; empty if there
// is none.
std::string needs_more_than_walls_allow(const std::vector<std::string>& compiler);

}  // namespace fk
