// The folder that results, journals and profiles are written to unless a command names a file.
#pragma once

#include <string>

namespace fk {

// $FASTKERNELS_HOME/bench; else bench/ of the project, which is the nearest folder from here upwards that has a
// tasks/candidate and can be written to; else $XDG_DATA_HOME/fastkernels/bench or ~/.local/share/fastkernels/bench.
// A relative path if it is in the current folder. The caller creates it.
std::string bench_folder();

}  // namespace fk
