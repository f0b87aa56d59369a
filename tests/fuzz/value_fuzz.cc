// SPDX-License-Identifier: Apache-2.0
// Values in a program's memory: lists, tables, queues, trees, strings, or anything. Input: the
// first word, then the memory.
#include <bit>

#include "daemon/values/page_cache.h"
#include "daemon/values/tag_reader.h"
#include "daemon/values/value_graph.h"
#include "daemon/values/value_reader.h"
#include "tests/fuzz/fuzz_memory.h"
#include "tests/kit/fake_memory.h"

namespace memprofd::fuzz {
namespace {

void check(const Value& value, int depth) {
  require(depth <= ValueReader::kMaxDepth + 1, "too deep");
  require(value.fields.size() <= ValueReader::kMaxFields, "too many fields");
  require(value.text.size() <= ValueReader::kMaxText, "a text that is too long");
  for (const Value& field : value.fields) check(field, depth + 1);
}

bool read(std::string_view bytes) {
  Input input(bytes);
  const auto word = input.take<std::uint64_t>();
  const FuzzMemory memory(input);
  const FunctionNames names = [](std::uint64_t code) {
    return code % 2 == 0 ? std::string("caml_curry2") : std::string("M.f");
  };
  ValueReader reader(memory, names, true);
  const Value value = reader.read(word);
  check(value, 0);
  PageCache pages(memory);
  pages.set_mappings(memory.mappings(), {});
  const Value paged = ValueReader(pages, names, true).read(word);
  check(paged, 0);
  const ValueGraph graph = read_graph(reader, word, 100);
  require(graph.nodes.size() <= 100, "too many nodes");
  for (const GraphNode& node : graph.nodes) {
    require(node.fields.size() <= kMaxGraphFields, "too many fields of a node");
    for (const GraphField& field : node.fields) {
      require(field.node <= graph.nodes.size(), "a node that is none");
    }
  }
  const Value tag = read_tag(memory, {0x10, 0x20}, word, 0x18);
  require(tag.size <= kMaxMarkPlaces, "too many marks");
  return value.kind != ValueKind::kUnread && value.kind != ValueKind::kInteger;
}

// ------------------------------------------------------------ seeds

class Builder {
 public:
  std::uint64_t block(unsigned tag, const std::vector<std::uint64_t>& fields) {
    return memory.put_block(tag, fields);
  }
  std::uint64_t list(std::uint64_t cells) {
    std::uint64_t at = 1;
    for (std::uint64_t i = 0; i < cells; ++i) at = block(0, {2 * i + 1, at});
    return at;
  }
  std::uint64_t table(std::uint64_t bindings) {
    std::vector<std::uint64_t> chains(8, 1);
    for (std::uint64_t i = 0; i < bindings; ++i) {
      chains[i % 3] = block(0, {15, block(252, {0x0061626364656667}), chains[i % 3]});
    }
    const std::uint64_t buckets = block(0, chains);
    return block(0, {2 * bindings + 1, buckets, 1, 33});
  }
  std::uint64_t tree(std::uint64_t height) {
    if (height == 0) return 1;
    const std::uint64_t left = tree(height - 1), right = tree(height - 1);
    return block(0, {left, 2 * height + 1, 5, right, 2 * height + 1});
  }
  std::uint64_t queue() {
    const std::uint64_t last = block(0, {7, 1});
    const std::uint64_t first = block(0, {3, block(0, {5, last})});
    return block(0, {7, first, last});
  }

  std::uint64_t tag() {
    const std::uint64_t weak = block(251, {1, 0x18, list(2), 0x18, queue()});
    const std::uint64_t store = block(0, {block(0, {weak}), 7});
    return block(0, {block(0, {block(0, {store, 1})}), 7});
  }

  FakeMemory memory{0x10000};
};

std::string seed(std::uint64_t (*build)(Builder& builder)) {
  Builder builder;
  std::string bytes;
  put(bytes, build(builder));
  put_region(bytes, builder.memory);
  return bytes;
}

std::vector<std::string> seeds() {
  return {seed([](Builder& of) { return of.list(12); }),
          seed([](Builder& of) { return of.table(7); }),
          seed([](Builder& of) { return of.tree(4); }),
          seed([](Builder& of) { return of.queue(); }),
          seed([](Builder& of) { return of.tag(); }),
          seed([](Builder& of) {
            return of.block(247, {0x20, 5, 0x21});
          }),
          seed([](Builder& of) {
            return of.block(255, {of.block(252, {0x10000}), 7});
          }),
          seed([](Builder& of) {
            return of.block(0, {of.table(3), of.block(253, {std::bit_cast<std::uint64_t>(2.5)}),
                                of.block(254, {1, 2}), of.block(250, {of.list(3)})});
          })};
}

const Add added("value", {&read, &seeds});

}  // namespace
}  // namespace memprofd::fuzz
