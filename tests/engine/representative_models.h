// The tiny models that sweeps over all of them take in the fast set. The others follow in the slow one.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fk {

// One for each kind of attention, cache and state that the engine treats in a way of its own: plain, windows, windows
// beside whole layers, latent keys, a list of keys per token, sinks, chunks, experts, shared caches; recurrent and
// mixed states, which refuse guesses.
inline constexpr std::string_view kRepresentativeModels[] = {
    "tiny-llama",  "tiny-mistral-window", "tiny-gemma3", "tiny-deepseek-v3", "tiny-deepseek-v32", "tiny-gpt-oss",
    "tiny-llama4", "tiny-qwen3-moe",      "tiny-gemma4", "tiny-mamba2",      "tiny-jamba"};

inline bool is_representative(std::string_view name) {
  return std::find(std::begin(kRepresentativeModels), std::end(kRepresentativeModels), name) !=
         std::end(kRepresentativeModels);
}

// Those of a sweep that are in the fast set, or the others. `name_of` gives the model of an element.
template <class T, class NameOf>
std::vector<T> part_of_sweep(std::vector<T> all, bool fast, NameOf&& name_of) {
  std::erase_if(all, [&](const T& element) { return is_representative(name_of(element)) != fast; });
  return all;
}
inline std::vector<std::string> part_of_sweep(std::vector<std::string> all, bool fast) {
  return part_of_sweep(std::move(all), fast, [](const std::string& name) { return name; });
}

// The name of a test of such a model: without "tiny-".
inline std::string name_of_model(const testing::TestParamInfo<std::string>& test) {
  std::string name = test.param.substr(5);
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
}

}  // namespace fk
