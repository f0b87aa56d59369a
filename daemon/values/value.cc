// SPDX-License-Identifier: Apache-2.0
#include "daemon/values/value.h"

#include <algorithm>
#include <bit>
#include <tuple>

namespace memprofd {

bool Value::same_as(const Value& other) const {
  const auto parts = [](const Value& v) {
    return std::tie(v.kind, v.why, v.integer, v.size, v.is_longer, v.tag, v.text, v.is_cut,
                    v.buckets, v.empty_buckets, v.longest_chain, v.chains_counted, v.chains,
                    v.bytes, v.is_more_memory);
  };
  return parts(*this) == parts(other) &&
         std::bit_cast<std::uint64_t>(number) == std::bit_cast<std::uint64_t>(other.number) &&
         std::equal(fields.begin(), fields.end(), other.fields.begin(), other.fields.end(),
                    [](const Value& a, const Value& b) { return a.same_as(b); }) &&
         (graph == nullptr) == (other.graph == nullptr) &&
         (graph == nullptr || graph->same_as(*other.graph));
}

bool ValueGraph::same_as(const ValueGraph& other) const {
  const auto same_field = [](const GraphField& a, const GraphField& b) {
    return a.node == b.node && a.value.same_as(b.value);
  };
  return is_cut == other.is_cut &&
         std::equal(nodes.begin(), nodes.end(), other.nodes.begin(), other.nodes.end(),
                    [&](const GraphNode& a, const GraphNode& b) {
                      return a.value.same_as(b.value) &&
                             std::equal(a.fields.begin(), a.fields.end(), b.fields.begin(),
                                        b.fields.end(), same_field);
                    });
}

}  // namespace memprofd
