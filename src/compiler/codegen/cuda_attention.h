// The CUDA text of a kernel for attention.
//
// A warp multiplies sixteen rows, heads of a group of one token or of several, with sixteen keys at once and keeps an
// online softmax. Where there are few tiles of rows, the warps of a block share the keys of one tile, and blocks do:
// then a second kernel joins what they have found.
#pragma once

#include <cstdint>
#include <string>

#include "compiler/codegen/attention_program.h"
#include "compiler/codegen/region_source.h"

namespace fk {

// How the work is divided. The launcher gets it as the sizes of an array behind the region's own, whose memory is a
// workspace of floats.
struct AttentionCut {
  int64_t splits = 1;     // blocks that share a tile's keys
  int64_t share = 1;      // warps that do
  int64_t workspace = 0;  // floats
};
// `keys`: how many a row may see at most. `processors`: multiprocessors of the device.
AttentionCut attention_cut(const AttentionProgram& program, int64_t rows, int64_t keys, int processors);

// As in cuda_product.h.
struct AttentionTexts {
  std::string kernel, launcher;
};
AttentionTexts attention_texts(const RegionText& region, const std::string& name);

}  // namespace fk
