// What of a graph is printed: bodies of operators above a level, and the symbols that occur in them.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace fk {

// Without the bodies of operators up to `level`: calls of them are not opened.
Graph open_bodies(const Graph& graph, int level);

std::vector<SizeSymbol> used_symbols(const Graph& graph);

}  // namespace fk
