// Made-up routing of tokens to experts, with the loads of real routers, for the inputs and costs of operators that get
// their experts as arguments.
#pragma once

#include <cstdint>
#include <vector>

namespace fk {

// How many of E experts a batch of T tokens reaches, each token k different ones. A balanced router reaches
// E (1 - (1 - k / E)^T) of them; here one in eight of those gets no token, as some experts do in trained models.
// Costs count this many, and made-up routing has exactly this many.
int64_t experts_touched(int64_t experts, int64_t top_k, int64_t tokens);

struct Routing {
  std::vector<int32_t> topk_ids;    // [T, k], different within a row
  std::vector<int32_t> sorted_ids;  // [T * k]: indices into topk_ids, by expert; those of one expert ascend
  std::vector<int32_t> offsets;     // [E + 1]: where each expert's part of sorted_ids starts
};

// The r-th busiest expert gets a share of the tokens that falls with r^-skew: 0 is balanced, with 1 the first is chosen
// by most tokens, from 4 on by all. Which expert that is, and which tokens choose it, is drawn from the seed.
inline constexpr double kSkewed = 1;
Routing make_routing(int64_t experts, int64_t top_k, int64_t tokens, double skew, uint64_t seed);

// sorted_ids and offsets of any ids [T, k] in 0 .. E-1.
void sort_by_expert(const std::vector<int32_t>& topk_ids, int64_t experts, std::vector<int32_t>& sorted_ids,
                    std::vector<int32_t>& offsets);

}  // namespace fk
