// SPDX-License-Identifier: Apache-2.0
// Types that contain themselves, as ocamlopt -rectypes allows; Coq's terms have such types.
#include <gtest/gtest.h>

#include <string>

#include "daemon/snapshot/types/assign_types.h"
#include "tests/kit/image_builder.h"
#include "tests/unit/snapshot/types/compiled_source.h"

namespace memprofd {
namespace {

constexpr const char* kSource = R"(
type ('a, 'b, 'c) node = Leaf of string | Apply of 'a * 'b * 'c
type term = (term, kind, kind) node and kind = term
type flags = { strict : string; name : string }
type body = { term : term; again : kind; flags : flags }
let all : body list ref = ref []
)";

TEST(RecursiveTypes, AreKnownHoweverDeep) {
  const CompiledSource source("terms", {{"terms.ml", kSource}}, "-rectypes");
  ImageBuilder builder;
  const std::uint32_t cell = builder.block(1);
  builder.global("Terms", 0, cell);
  const std::uint32_t list = builder.block(2), body = builder.block(3), flags = builder.block(2);
  const std::uint32_t name = builder.string(3), text = builder.string(5), leaf = builder.block(1);
  builder.point(cell, 0, list);
  builder.point(list, 0, body);
  builder.point(body, 2, flags);
  builder.point(flags, 1, name);
  builder.point(leaf, 0, text);
  std::uint32_t term = leaf;
  for (int i = 0; i < 100; ++i) {
    const std::uint32_t above = builder.block(3, 1);
    builder.point(above, static_cast<std::uint32_t>(i % 3), term);
    term = above;
  }
  builder.point(body, 0, term);
  HeapImage image = builder.build();
  source.give_types_to(image);
  const auto type_of = [&](std::uint32_t block) { return image.types[image.type(block)].name; };
  EXPECT_EQ("Terms.body", type_of(body));
  EXPECT_EQ("Terms.flags", type_of(flags));
  EXPECT_EQ("string", type_of(name));
  EXPECT_EQ("(Terms.term, Terms.term, Terms.term) Terms.node.Apply", type_of(term));
  EXPECT_EQ(type_of(term), type_of(leaf + 1)) << "the deepest of them";
  EXPECT_EQ("(Terms.term, Terms.term, Terms.term) Terms.node.Leaf", type_of(leaf));
  EXPECT_EQ("string", type_of(text));
  EXPECT_EQ(0u, image.types_found.disagreed);
}

}  // namespace
}  // namespace memprofd
