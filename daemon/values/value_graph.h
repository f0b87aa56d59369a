// SPDX-License-Identifier: Apache-2.0
// A value as the graph that it is: its blocks, each once, and which holds which. So what is shared
// is seen as shared, and what goes round ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "daemon/values/value.h"
#include "daemon/values/value_reader.h"

namespace memprofd {

// Nodes of one graph, and fields told of one node.
inline constexpr std::size_t kMaxGraphNodes = 10'000;
inline constexpr std::size_t kMaxGraphFields = 64;
// Fields told of all nodes.
inline constexpr std::size_t kMaxFieldsOfGraph = 100'000;

// At most so many blocks, the nearest to the word first. Empty when the word is no block.
ValueGraph read_graph(ValueReader& reader, std::uint64_t word, std::size_t nodes);

}  // namespace memprofd
