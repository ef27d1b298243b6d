// Reports a mapped file that was truncated while it is read: a missing page raises SIGBUS, which would end the program
// without a message.
#pragma once

#include <cstddef>
#include <string>

namespace fk {

// From now on, reading a missing page of a watched file prints a sentence that names the file and ends the program with
// exit code 1. For whole programs; a candidate's process handles its own signals.
void explain_lost_pages();

// Files while they are mapped. The first 4096 are watched.
void watch_pages(const std::byte* begin, size_t size_bytes, const std::string& path);
void forget_pages(const std::byte* begin);

}  // namespace fk
