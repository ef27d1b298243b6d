// Whether sums must be added in the same order however many rows a call has, so that what is computed for a token does
// not depend on the other tokens of the step, to the last bit. Kernels of the CPU that choose another order by the
// number of rows ask it. Set before a model is loaded.
#pragma once

namespace fk {

void set_batch_invariant(bool on);
bool batch_invariant();

}  // namespace fk
