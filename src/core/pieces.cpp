#include "core/pieces.h"

namespace fk {
void put_together(void* to, const void* set, const Pieces& pieces) {
  with_element_of(pieces.element_bytes, [&]<class U>(U) {
    const Pieces how = pieces;
    auto* __restrict out = static_cast<U*>(to);
    const auto* __restrict in = static_cast<const U*>(set);
    for (int64_t number = 0; number < how.count(); ++number) {
      const Pieces::Piece p = how.piece(number);
      for (int64_t i = p.begin; i < p.end; ++i) out[i] = how.chosen(in[i + p.from], in[i + p.other], p, i);
      if (!how.scales(p)) continue;
      for (int64_t i = p.begin; i < p.end; ++i) out[i] = how.scaled(out[i], p);
    }
  });
}

}  // namespace fk
