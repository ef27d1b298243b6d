// Width and colours of the terminal that a text is printed to.
#pragma once

#include <cstddef>

namespace fk {

struct TextStyle {
  size_t columns = 0;  // 0: as many as a line needs, as in files and pipes
  bool colour = false;
};

// Of the terminal behind a file descriptor. $COLUMNS, if it is a number, sets the width, in a pipe too; $NO_COLOR and
// TERM=dumb switch colours off.
TextStyle style_of(int file);

}  // namespace fk
