#include "graph/unify.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/check.h"
#include "core/error.h"

namespace fk {
namespace {

// Calls f(size, place) for each size of a body, in a fixed order.
template <class Body, class Function>
void for_each_size(Body& body, const Function& f) {
  for (auto& value : body.values)
    for (auto& size : value.shape) f(size, &value - body.values.data(), nullptr);
  for (auto& node : body.nodes)
    for (auto& size : node.starts) f(size, -1, &node);
}

// The sizes of a traced body, which are zero afterwards, so that bodies of one structure are equal.
std::vector<int64_t> take_numbers(GraphBody& body) {
  std::vector<int64_t> numbers;
  for_each_size(body, [&](SymbolicSize& size, std::ptrdiff_t, GraphNode*) {
    numbers.push_back(size.constant);
    size = 0;
  });
  return numbers;
}

// Where a value of a body comes from, for errors.
std::string origin(const GraphBody& body, std::ptrdiff_t value, const GraphNode* slice) {
  for (const GraphNode& node : body.nodes)
    for (const GraphOperand& o : node.outputs)
      if (&node == slice || o.value == value)
        return fmt::format("'{}' of {}{}", o.name, node.name(),
                           node.path.empty() ? "" : fmt::format(" at '{}'", node.path));
  return fmt::format("'{}'", body.values[static_cast<size_t>(value)].name);
}

// From the values that one size has in all samples. The first and one more for each symbol give the factors; the last
// checks them.
std::optional<SymbolicSize> solve(const std::vector<int64_t>& seen, const std::vector<BatchSizes>& sizes) {
  SymbolicSize found = seen[0];
  for (size_t i = 0; i < kNumSizeSymbols; ++i) {
    int64_t step = sizes[i + 1].of[i] - sizes[0].of[i], change = seen[i + 1] - seen[0];
    if (step == 0) continue;  // this phase has no such symbol
    if (change % step != 0) return std::nullopt;
    found.factors[i] = change / step;
    found.constant -= found.factors[i] * sizes[0].of[i];
  }
  if (found.at(sizes.back()) != seen.back()) return std::nullopt;
  return found;
}

// Of graphs without their sizes.
void check_same_structure(const Graph& a, const Graph& b) {
  for (size_t i = 0; i < std::min(a.bodies.size(), b.bodies.size()); ++i)
    if (a.bodies[i] != b.bodies[i])
      throw Error("{} makes other calls for a batch of another size; its calls may depend on the phase only.",
                  a.bodies[i].op);
  if (a.bodies.size() != b.bodies.size())
    throw Error("{} makes another number of calls for a batch of another size.", a.root().op);
}

}  // namespace

std::vector<BatchSizes> sample_sizes(GraphPhase phase) {
  // T, S, Sd, P, B, page, slots, L: primes, so that a product or a quotient of sizes does not look like a sum.
  const BatchSizes base{{23, 5, 2, 7, 41, 16, 13, 3}}, others{{37, 11, 3, 11, 53, 32, 19, 17}};
  std::vector<BatchSizes> samples(kNumSizeSymbols + 2, base);
  for (size_t i = 0; i < kNumSizeSymbols; ++i) {
    auto symbol = static_cast<SizeSymbol>(i);
    // Without states there are no blocks; in a phase of one kind of sequences their number is not a symbol of its own.
    bool varies = phase == GraphPhase::kMixed || symbol != SizeSymbol::kDecoding;
    if (phase == GraphPhase::kEncode)
      varies = symbol == SizeSymbol::kTokens || symbol == SizeSymbol::kSequences || symbol == SizeSymbol::kLogits;
    if (phase == GraphPhase::kDecode && symbol == SizeSymbol::kTokens) varies = false;
    if (!varies) continue;
    samples[i + 1].of[i] = samples.back().of[i] = others.of[i];
  }
  return samples;
}

Graph unify_graphs(std::vector<Graph> traces, const std::vector<BatchSizes>& sizes) {
  FK_CHECK(traces.size() == sizes.size() && sizes.size() == kNumSizeSymbols + 2);
  std::vector<std::vector<std::vector<int64_t>>> seen(traces.size());  // by trace, body and place
  for (size_t t = 0; t < traces.size(); ++t)
    for (GraphBody& body : traces[t].bodies) seen[t].push_back(take_numbers(body));
  for (const Graph& other : traces) check_same_structure(traces[0], other);
  Graph graph = std::move(traces[0]);
  for (size_t b = 0; b < graph.bodies.size(); ++b) {
    size_t next = 0;
    for_each_size(graph.bodies[b], [&](SymbolicSize& size, std::ptrdiff_t value, const GraphNode* slice) {
      std::vector<int64_t> of_one;
      for (const auto& bodies : seen) of_one.push_back(bodies[b][next]);
      ++next;
      std::optional<SymbolicSize> found = solve(of_one, sizes);
      if (!found)
        throw Error(
            "In {}, a size of {} is {} for one batch and {} for another, which is not a sum of multiples of the "
            "batch's sizes.",
            graph.bodies[b].op, origin(graph.bodies[b], value, slice), of_one.front(), of_one.back());
      size = *found;
    });
  }
  return graph;
}

}  // namespace fk
