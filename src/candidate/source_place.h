// Finds the source line of an address in a candidate's code, from the line table.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace fk {

// The address at which a process has mapped a shared object; 0 if it has not.
uint64_t library_base(pid_t process, const std::string& library);

// "tasks/candidate/L1/rms_norm.cpp:12", for an address counted from the library's base. Of code that was inlined from
// the project's or the system's headers, the line that called it. Empty if unknown: no addr2line on this machine, no
// line table, an address outside its functions. The library is untrusted, so it is read in the compiler's sandbox,
// which may write to `work_folder` only.
std::string source_place(const std::string& library, uint64_t address, const std::string& work_folder);

// The first line that addr2line names outside headers; for tests.
std::string place_in_frames(const std::string& frames);

}  // namespace fk
