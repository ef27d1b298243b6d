// How many multiprocessors the device has.
#pragma once

namespace fk::cuda {

int multiprocessors();

}  // namespace fk::cuda
