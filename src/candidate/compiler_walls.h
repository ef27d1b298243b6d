// What a compiler may read while it compiles a candidate: the system, its own folders, the candidate's, and what the
// user named. A candidate's text is foreign, and `#include` or `.incbin` would make any file part of its library.
#pragma once

#include <string>
#include <vector>

namespace fk {

// Files and folders beyond the system's own. `compiler`: its program and words; `flags`: the user's, which may name
// folders; `source`: the candidate's file; `secret`: a folder that nothing given away may contain, the home folder
// aside.
std::vector<std::string> readable_by_compiler(const std::vector<std::string>& compiler,
                                              const std::vector<std::string>& flags, const std::string& source,
                                              const std::string& secret);

// The program among the words of a command that cannot work behind walls, for it needs the network or files of its own;
// empty where there is none.
std::string needs_more_than_walls_allow(const std::vector<std::string>& compiler);

}  // namespace fk
