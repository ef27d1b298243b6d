// How the kernel for a whole token (decode_megakernel) takes quantised matrices: packed row by row.
//
// A step is 512 bytes of a row: 16 bytes for each lane of a warp, whose eight groups of four lanes have one segment
// each. Segments are to a row what the rows of an octet are to a matrix (stored_codes.cuh): columns are divided within
// them in the same way, and each has the same record. Behind the codes of all rows come the records, [rows, steps, 8],
// or, in formats with one scale for a row, these as f32.
#pragma once

#include <cstdint>
#include <string_view>

namespace fk::cuda {

// kNone: elements of the model's dtype.
enum class TokenCodes : uint8_t { kNone, kFp8, kInt4 };

inline constexpr int kTokenStepBytes = 512, kTokenSegments = 8;

struct TokenLayout {
  int step_columns = 0;
  int record_bytes = 0;  // of a segment; 0: there is one scale for a row
};
constexpr TokenLayout token_layout(TokenCodes codes) {
  return codes == TokenCodes::kInt4  ? TokenLayout{1024, 4}
         : codes == TokenCodes::kFp8 ? TokenLayout{512, 0}
                                     : TokenLayout{};
}

// Sizes of a packed matrix.
struct TokenMatrixSize {
  int64_t steps = 0;  // of a row
  int64_t code_bytes = 0, scale_bytes = 0;
};
constexpr TokenMatrixSize token_matrix_size(TokenCodes codes, int64_t rows, int64_t columns) {
  const TokenLayout layout = token_layout(codes);
  const int64_t steps = (columns + layout.step_columns - 1) / layout.step_columns;
  return {steps, rows * steps * kTokenStepBytes,
          layout.record_bytes == 0 ? rows * 4 : rows * steps * kTokenSegments * layout.record_bytes};
}

// In every other segment columns change places with those so many columns on, so that lanes that read x at the same
// time find it in different banks of shared memory. `run`: adjacent columns of a lane.
constexpr int token_swap(int run) { return run == 16 ? 8 : 32; }

// The packed form of a weight format; kNone: there is none.
TokenCodes token_codes_of(std::string_view format, int64_t columns);

}  // namespace fk::cuda
