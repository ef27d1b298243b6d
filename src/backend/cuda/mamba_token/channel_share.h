// Which channels belong to which block: whole units of eight, 16 bytes of a row of x_proj. No device code, so that a
// test on the CPU can check it.
#pragma once

#include "backend/cuda/decode_megakernel/pair_share.h"

namespace fk::cuda {

inline constexpr int kUnitChannels = 8, kUnitPairs = kUnitChannels / 2;

// Of a product that has a row for each channel. `each` and `left` count units, the rounds pairs of rows.
constexpr PairDivision divide_channels(int channels, int length, int blocks) {
  const int units = channels / kUnitChannels, each = units / blocks;
  return {each, units % blocks, {rounds_of(kUnitPairs * each, length), rounds_of(kUnitPairs * (each + 1), length)}};
}

// The pairs of rows of a block; units that are left over begin at `first_block`.
constexpr PairRange channel_pairs_of_block(const PairDivision& d, int block, int blocks, int first_block) {
  const PairRange units = pairs_of_block(d, block, blocks, first_block);
  return {kUnitPairs * units.begin, kUnitPairs * units.end};
}

constexpr const PairRounds& rounds_of_channels(const PairDivision& d, PairRange own) {
  return d.rounds[own.count() > kUnitPairs * d.each ? 1 : 0];
}

// The most channels that a block has.
constexpr int most_channels_of_block(int channels, int blocks) {
  const int units = channels / kUnitChannels;
  return (units + blocks - 1) / blocks * kUnitChannels;
}

}  // namespace fk::cuda
