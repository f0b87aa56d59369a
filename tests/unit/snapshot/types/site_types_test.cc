// SPDX-License-Identifier: Apache-2.0
// Types of sampled blocks, found at the allocation sites in files of a real compiler.
#include "daemon/snapshot/types/site_types.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/snapshot/block_header.h"
#include "tests/kit/image_builder.h"
#include "tests/unit/snapshot/types/compiled_source.h"

namespace memprofd {
namespace {

constexpr std::string_view kSource =
    R"(type order = { id : int; text : string; next : order option }
type shape = Dot | Circle of float | Box of { name : string; inside : shape }
external pairs : unit -> (string * int) list = "none"
external all : 'a -> 'a list = "none"
external file : unit -> in_channel = "none"
let last : (int * int) option ref = ref None
let order id text next = { id; text; next }
let box name inside = Box { name; inside }
let circle x = Circle (x +. 1.)
let some (o : order) = Some (o, 1)
let list (o : order) = o :: []
let any x = [| x; x |]
let cell (o : order option) = ref o
let call o = fun n -> o.id + n
let many n (o : order) = Array.make n o
let empty n = Bytes.create n
let late o = lazy (o.id + 1)
let both () = pairs ()
let every (o : order) = all o
let opened () = file ()
let twice ?(x = ref 0) () = x
let passed () = twice ~x:(ref 1) ()
module Keyed (Key : sig type t val first : t end) = struct
  type node = Leaf | Node of Key.t * node
  module Inner = struct
    type pair = { left : node; right : node }
    let pair left right = { left; right }
  end
  let node left = Node (Key.first, left)
end
module Ints = Keyed (struct type t = int let first = 1 end)
module Deeper = struct type deep = Deep of string * int let deep s = Deep (s, 2) end
let unlike (o : order) = match o with { id = 1; _ } -> [] | _ -> [ o; o ]
)";

class SiteTypesOf : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    source_ = std::unique_ptr<const CompiledSource>(
        new CompiledSource("shop", {{"shop.ml", std::string(kSource)}}, "-w -a"));
  }
  static void TearDownTestSuite() { source_.reset(); }

  // Its position, after the other text.
  static Location place(std::string_view what, std::string_view behind = "") {
    const std::size_t at = kSource.find(what, behind.empty() ? 0 : kSource.find(behind));
    EXPECT_NE(std::string_view::npos, at) << what;
    const std::size_t begin = kSource.rfind('\n', at) + 1;
    const auto lines = std::count(kSource.begin(), kSource.begin() + static_cast<long>(at), '\n');
    return {.function = "Shop.f",
            .file = "shop.ml",
            .line = static_cast<std::uint32_t>(1 + lines),
            .start_column = static_cast<std::uint32_t>(at - begin),
            .end_column = static_cast<std::uint32_t>(at - begin + what.size()),
            .library = "shop"};
  }
  std::uint32_t sampled(std::uint32_t block, const Location& place) {
    builder_.sample(block, 1, builder_.site({place}));
    return block;
  }
  std::uint32_t sampled(std::uint32_t block, std::string_view what, std::string_view behind = "") {
    return sampled(block, place(what, behind));
  }

  const HeapImage& typed() {
    image_ = builder_.build();
    source_->give_types_to(image_);
    return image_;
  }
  std::string type_of(std::uint32_t block) const { return image_.types[image_.type(block)].name; }
  const TypingResult& found() const { return image_.types_found; }

  static std::unique_ptr<const CompiledSource> source_;
  ImageBuilder builder_;
  HeapImage image_;
};
std::unique_ptr<const CompiledSource> SiteTypesOf::source_;

TEST_F(SiteTypesOf, WhatNoModuleLeadsToHasTheTypeOfItsExpressionAndLeadsOn) {
  const auto order = sampled(builder_.block(3), "{ id; text; next }");
  const auto text = builder_.string(2), some = builder_.block(1), next = builder_.block(3);
  builder_.point(order, 1, text);
  builder_.point(order, 2, some);
  builder_.point(some, 0, next);
  typed();
  EXPECT_EQ("Shop.order", type_of(order));
  EXPECT_EQ("string", type_of(text));
  EXPECT_EQ("Shop.order option", type_of(some));
  EXPECT_EQ("Shop.order", type_of(next));
  EXPECT_EQ(1u, found().by_site);
  EXPECT_EQ(0u, found().sites_unfit + found().sites_disagreed + found().disagreed);
}

TEST_F(SiteTypesOf, EachWayToMakeABlock) {
  const auto box = sampled(builder_.block(2, 1), "{ name; inside }");
  const auto circle = sampled(builder_.block(1, 0), "Circle (x +. 1.)");
  const auto number = sampled(builder_.boxed_float(), "(x +. 1.)");
  const auto pair = sampled(builder_.block(2), "(o, 1)");
  const auto list = sampled(builder_.block(2), "o :: []");
  const auto array = sampled(builder_.block(2), "[| x; x |]");
  const auto cell = sampled(builder_.block(1), "ref o", "let cell");
  const auto closure = sampled(builder_.block(4, kClosureTag, "Shop.call"), "fun n -> o.id + n");
  const auto many = sampled(builder_.block(9), "Array.make n o");
  const auto empty = sampled(builder_.string(9), "Bytes.create n");
  const auto late = sampled(builder_.block(1, kLazyTag), "lazy (o.id + 1)");
  const auto deep = sampled(builder_.block(2), "Deep (s, 2)");
  typed();
  EXPECT_EQ("Shop.shape.Box", type_of(box));
  EXPECT_EQ("Shop.shape.Circle", type_of(circle));
  EXPECT_EQ("float", type_of(number));
  EXPECT_EQ("Shop.order * int", type_of(pair));
  EXPECT_EQ("Shop.order list", type_of(list));
  EXPECT_EQ("_ array", type_of(array));
  EXPECT_EQ("Shop.order option ref", type_of(cell));
  EXPECT_EQ("int -> int", type_of(closure));
  EXPECT_EQ("Shop.order array", type_of(many));
  EXPECT_EQ("bytes", type_of(empty));
  EXPECT_EQ("int lazy", type_of(late));
  EXPECT_EQ("Shop.Deeper.deep.Deep", type_of(deep));
  EXPECT_EQ(12u, found().by_site);
  EXPECT_EQ(0u, found().sites_unfit);
}

TEST_F(SiteTypesOf, TheBodyOfAFunctorKnowsItsOwnTypesWhateverItIsAppliedTo) {
  const auto node = sampled(builder_.block(2), "Node (Key.first, left)");
  const auto key = builder_.string(1), left = builder_.block(2);
  builder_.point(node, 0, key);
  builder_.point(node, 1, left);
  const auto pair = sampled(builder_.block(2), "{ left; right }");
  typed();
  EXPECT_EQ("Shop.Keyed(_).node.Node", type_of(node));
  EXPECT_EQ("Shop.Keyed(_).node.Node", type_of(left));
  EXPECT_EQ("", type_of(key));
  EXPECT_EQ("Shop.Keyed(_).Inner.pair", type_of(pair));
}

TEST_F(SiteTypesOf, ATypeThatDoesNotFitIsRefusedAndCounted) {
  const auto large = sampled(builder_.block(4), "{ id; text; next }");
  const auto string = sampled(builder_.string(3), "{ id; text; next }");
  const auto closure = sampled(builder_.block(4, kClosureTag, "Shop.f"), "o :: []");
  typed();
  EXPECT_EQ("", type_of(large));
  EXPECT_EQ("", type_of(string));
  EXPECT_EQ("", type_of(closure));
  EXPECT_EQ(3u, found().sites_unfit);
  EXPECT_EQ(0u, found().by_site);
}

// C code makes the pairs of a list, too; ~x:(ref 1) is ref 1 and Some of that, at one place.
TEST_F(SiteTypesOf, AmbiguousBlocksAreNotGuessed) {
  const auto pair = sampled(builder_.block(2), "pairs ()");
  const auto channel = sampled(builder_.block(2, kCustomTag, "_chan"), "file ()");
  const auto given = sampled(builder_.block(1), "(ref 1)");
  const auto cell = sampled(builder_.block(2), "all o", "let every");  // an order has three fields
  typed();
  for (const auto block : {pair, channel, given}) EXPECT_EQ("", type_of(block)) << block;
  EXPECT_EQ("Shop.order list", type_of(cell));
  EXPECT_EQ(3u, found().sites_unfit);
}

TEST_F(SiteTypesOf, OnlyTheExpressionAtTheSiteCounts) {
  Location wider = place("{ id; text; next }"), elsewhere = wider, unknown = wider, other = wider;
  wider.end_column += 1;
  elsewhere.file = "lib/shop.ml";
  unknown.line = 0;
  other.function = "caml_alloc";
  std::vector<std::uint32_t> blocks;
  for (const Location& place : {wider, elsewhere, unknown, other}) {
    blocks.push_back(sampled(builder_.block(3), place));
  }
  blocks.push_back(sampled(builder_.block(2), "match o with { id = 1; _ } -> [] | _ -> [ o; o ]"));
  typed();
  for (const auto block : blocks) EXPECT_EQ("", type_of(block)) << block;
  EXPECT_EQ(0u, found().by_site + found().sites_unfit);
}

TEST_F(SiteTypesOf, AModulesTypeStaysAndWhatDisagreesCounts) {
  const auto last = sampled(builder_.block(1), "ref o", "let cell");
  builder_.global("Shop", 0, last);
  const auto same = builder_.block(2), some = sampled(builder_.block(1), "Some (o, 1)");
  builder_.point(last, 0, some);
  builder_.point(some, 0, sampled(same, "[| x; x |]"));  // of what is not known
  typed();
  EXPECT_EQ("(int * int) option ref", type_of(last));
  EXPECT_EQ("(int * int) option", type_of(some));
  EXPECT_EQ("int * int", type_of(same));
  EXPECT_EQ(2u, found().sites_disagreed);
  EXPECT_EQ(0u, found().by_site);
}

TEST_F(SiteTypesOf, BytesThatAreUsedAsAStringAreOne) {
  const auto text = sampled(builder_.string(4), "Bytes.create n");
  builder_.point(sampled(builder_.block(3), "{ id; text; next }"), 1, text);
  typed();
  EXPECT_EQ("string", type_of(text));
  EXPECT_EQ(1u, found().by_site);
  EXPECT_EQ(0u, found().disagreed + found().sites_disagreed);
}

TEST_F(SiteTypesOf, DeadBlocksHavePlacesAndNothingElse) {
  builder_.block(1);
  builder_.sample(HeapImage::kNoBlock, 1, builder_.site({place("{ id; text; next }")}));
  builder_.sample(0, 1, builder_.site({}));
  EXPECT_FALSE(typed().has_types());
}

}  // namespace
}  // namespace memprofd
