// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/answers/chrome_snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "daemon/snapshot/answers/shortest_paths.h"
#include "tests/kit/random_image.h"

namespace memprofd {
namespace {

using Json = nlohmann::json;
using testing::ElementsAre;

// The file as DevTools reads it: nodes with their edges.
struct Edge {
  std::string type, name;
  std::size_t to = 0;
  friend bool operator==(const Edge&, const Edge&) = default;
};
struct Node {
  std::string type, name;
  std::uint64_t bytes = 0;
  std::vector<Edge> edges;
};

class Read {
 public:
  explicit Read(const HeapImage& image) {
    const auto written = write_chrome_snapshot(image, [&](std::string_view bytes) {
      text_ += bytes;
      return absl::OkStatus();
    });
    EXPECT_TRUE(written.ok()) << written.status();
    size = *written;
    const Json json = Json::parse(text_);
    const Json& meta = json["snapshot"]["meta"];
    std::size_t edge = 0;
    for (std::size_t at = 0; at < json["nodes"].size(); at += 7) {
      const auto value = [&](int i) { return json["nodes"][at + i].get<std::uint64_t>(); };
      Node node{meta["node_types"][0][value(0)], json["strings"][value(1)], value(3), {}};
      for (std::uint64_t i = 0; i < value(4); ++i, edge += 3) {
        node.edges.push_back(edge_of(json, edge));
      }
      nodes.push_back(std::move(node));
      EXPECT_EQ(at / 7 * 2 + 1, value(2));
    }
    EXPECT_EQ(json["edges"].size(), edge);
    EXPECT_EQ(json["snapshot"]["node_count"], nodes.size());
    EXPECT_EQ(json["snapshot"]["edge_count"], edge / 3);
  }

  // "globals/Cache/field 2/0/1"
  const Node& at(const std::string& path) const {
    const Node* node = &nodes[0];
    std::istringstream names(path);
    for (std::string name; std::getline(names, name, '/');) {
      const Node* next = nullptr;
      for (const Edge& edge : node->edges) {
        if (edge.name == name) next = &nodes[edge.to];
      }
      if (next == nullptr) throw std::runtime_error("no " + name);
      node = next;
    }
    return *node;
  }

  std::vector<Node> nodes;
  ChromeSnapshotSize size;

 private:
  static Edge edge_of(const Json& json, std::size_t at) {
    const Json& edges = json["edges"];
    const Json& types = json["snapshot"]["meta"]["edge_types"][0];
    Edge edge{types[edges[at].get<std::size_t>()], "", edges[at + 2].get<std::size_t>() / 7};
    EXPECT_EQ(0u, edges[at + 2].get<std::size_t>() % 7);
    edge.name = edge.type == "element"
                    ? std::to_string(edges[at + 1].get<std::size_t>())
                    : json["strings"][edges[at + 1].get<std::size_t>()].get<std::string>();
    return edge;
  }

  std::string text_;
};

TEST(ChromeSnapshot, HasRootsByNameAndBlocksBelow) {
  ImageBuilder builder;
  const std::uint32_t garbage = builder.block(2), table = builder.block(300),
                      text = builder.string(4),
                      handler = builder.block(3, 247, "Server.\"handle\"\n");
  builder.point(garbage, 0, text);
  builder.point(table, 1, text);
  builder.point(table, 299, handler);
  builder.global("Cache", 2, table);
  builder.root({.kind = RootKind::kStack, .owner = "thread 7", .place = {.function = "Server.run"}},
               handler);
  builder.root({.kind = RootKind::kStack, .owner = "thread 7", .place = {.function = "Server.run"}},
               text);
  const Read read(builder.build());
  EXPECT_EQ(3u, read.size.blocks);
  EXPECT_EQ(1u, read.size.left_out);
  EXPECT_EQ("synthetic", read.at("globals/Cache/field 2").type);
  const Node& array = read.at("globals/Cache/field 2/0");
  EXPECT_EQ("object", array.type);
  EXPECT_EQ("array", array.name);
  EXPECT_EQ(301u * 8, array.bytes);
  EXPECT_EQ("string", read.at("globals/Cache/field 2/0/1").name);
  EXPECT_EQ("closure Server.\"handle\"\n",
            read.at("globals/Cache/field 2/0/a field from 255 on").name);
  EXPECT_EQ("string", read.at("stacks/thread 7/Server.run/1").name);
}

TEST(ChromeSnapshot, IsWholeWithoutAnyRoot) {
  ImageBuilder builder;
  builder.block(2);
  const Read read(builder.build());
  EXPECT_EQ(1u, read.nodes.size());
  EXPECT_EQ(1u, read.size.left_out);
}

TEST(ChromeSnapshot, HasEveryReachableBlockAndPointerOfRandomHeaps) {
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    const HeapImage image = random_image(random);
    const ShortestPaths paths(image);
    std::uint64_t blocks = 0, words = 0, pointers = 0;
    for (std::uint32_t block = 0; block < image.blocks(); ++block) {
      if (!paths.is_reachable(block)) continue;
      ++blocks;
      words += image.shape(block).words;
      pointers += image.edges.of(block).size();
    }
    const Read read(image);
    std::uint64_t found = 0, bytes = 0, edges = 0;
    for (const Node& node : read.nodes) {
      if (node.type != "object") continue;
      ++found;
      bytes += node.bytes;
      edges += node.edges.size();
    }
    EXPECT_EQ(blocks, found);
    EXPECT_EQ(words * 8, bytes);
    EXPECT_EQ(pointers, edges);
    EXPECT_EQ(blocks, read.size.blocks);
  }
}

TEST(ChromeSnapshot, AnErrorOfTheWriterEndsIt) {
  ImageBuilder builder;
  builder.global("Cache", 0, builder.string(4));
  int calls = 0;
  const auto written = write_chrome_snapshot(builder.build(), [&](std::string_view) {
    ++calls;
    return absl::ResourceExhaustedError("full");
  });
  EXPECT_EQ("full", written.status().message());
  EXPECT_EQ(1, calls);
}

TEST(ChromeSnapshot, ABlockThatIsTooLargeForItsNumbersIsRefused) {
  ImageBuilder builder;
  builder.global("Cache", 0, builder.string(std::uint64_t{1} << 30));
  const auto written =
      write_chrome_snapshot(builder.build(), [](std::string_view) { return absl::OkStatus(); });
  EXPECT_EQ(absl::StatusCode::kResourceExhausted, written.status().code());
}

}  // namespace
}  // namespace memprofd
