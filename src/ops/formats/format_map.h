// Which weight format each matrix of a model has, as one text that constructor arguments hold.
//
// "q4_k": all matrices. "q4_k;v_proj=q6_k@0-3,8;lm_head=q6_k": all but the value projections of layers 0 to 3 and 8 and
// the head. "none", or no text, means elements of the model's dtype. Checkpoints that mix formats per tensor need this;
// modules have the names of checkpoints: q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj, embed_tokens,
// lm_head.
//
// Matrices that are stacked into one product have the formats of its parts, joined by "+": "q4_k+q4_k+q6_k".
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace fk {

// The text for one layer: without the exceptions of other layers, and without layer numbers.
std::string formats_of_layer(std::string_view formats, int64_t layer);
// Of one module that is in no layer, or in the layer the text is for; empty: elements of the model's dtype.
std::string format_of_module(std::string_view formats, std::string_view module);
// Of modules stacked into one product; empty: all of them are of the model's dtype. Throws Error where only some are.
std::string format_of_modules(std::string_view formats, std::initializer_list<std::string_view> modules);

// The formats of `parts` stacked matrices: one name stands for all.
std::vector<std::string> formats_of_parts(std::string_view joined, size_t parts);

struct MatrixFormat {
  std::string module;
  int64_t layer = -1;  // negative: it belongs to no layer
  std::string format;  // empty: elements of a dtype
};
// The text that gives every matrix of the list its format: the one most of them have, and exceptions.
std::string format_map(const std::vector<MatrixFormat>& matrices);

}  // namespace fk
