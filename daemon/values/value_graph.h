// SPDX-License-Identifier: Apache-2.0
// A value as a graph: each of its blocks once, and the pointers among them. So shared parts show as
// shared, and cycles end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "daemon/values/value.h"
#include "daemon/values/value_reader.h"

namespace memprofd {

// Maximum number of nodes of one graph, and of fields of one node.
inline constexpr std::size_t kMaxGraphNodes = 10'000;
inline constexpr std::size_t kMaxGraphFields = 64;
// Maximum number of fields of all nodes.
inline constexpr std::size_t kMaxFieldsOfGraph = 100'000;

// Contains at most this number of blocks, the nearest to the word first. Empty if the word is no
// block.
ValueGraph read_graph(ValueReader& reader, std::uint64_t word, std::size_t nodes);

}  // namespace memprofd
