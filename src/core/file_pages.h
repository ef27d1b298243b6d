// Which memory is a file mapped for reading. Its pages may be given back to the system once something else holds what
// they had: they are read again if they are needed after all.
#pragma once

#include <cstddef>
#include <span>

namespace fk {

// Mappings that are never written to. Called by the class that maps files.
void add_file_pages(std::span<const std::byte> mapping);
void remove_file_pages(std::span<const std::byte> mapping);

// Gives back the pages that lie completely inside `part`, if it is part of such a mapping; else does nothing and
// returns false.
bool release_file_pages(std::span<const std::byte> part);

}  // namespace fk
