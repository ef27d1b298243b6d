// The CUDA text of a kernel for products of a few rows.
//
// Every block computes the rows for itself, into shared memory, while its first weights are on their way. Its warps
// split the length of a row of the weights, sixteen of which are multiplied at once, and two rounds of loads are always
// ahead. One source has the kernel in several cuts.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "compiler/codegen/product_program.h"
#include "compiler/codegen/region_source.h"

namespace fk {

// Of a block of the kernel.
struct ProductCut {
  int warps = 8;
  int unroll = 2;        // loads of 16 bytes that a thread has of each row at once
  int blocks = 2;        // on a multiprocessor at once, which limits registers
  bool spread = true;    // as many blocks as run at once; else one for every sixteen rows of the weights
  bool several = false;  // for several rows; else for one

  std::string text() const;  // "8 warps x 2 loads, blocks for all tiles"
};
std::span<const ProductCut> product_cuts();

// Adds the limits of its kernel. Why there is none; empty: there is.
std::string write_limits(ProductProgram& program);

// What texts_of() in cuda_kernel.cpp puts together. The launcher's `aligned` is the number of the cut.
struct ProductTexts {
  std::string tables, kernel, launcher;
};
ProductTexts product_texts(const RegionText& region, const std::string& name);

}  // namespace fk
