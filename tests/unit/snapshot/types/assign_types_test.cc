// SPDX-License-Identifier: Apache-2.0
// Types from files of a real compiler, given to heap images that the test builds.
#include "daemon/snapshot/types/assign_types.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "daemon/snapshot/answers/root_tree.h"
#include "daemon/snapshot/block_header.h"
#include "daemon/snapshot/types/source_files.h"
#include "tests/kit/image_builder.h"
#include "tests/unit/snapshot/types/compiled_source.h"

namespace memprofd {
namespace {

// Its interface makes some types abstract, hides a value and reorders the last one to the front.
constexpr const char* kInterface = R"(
type order
val last : order list ref
module Table : sig type t val all : t end
val table : (string, order) Hashtbl.t
val shapes : order Map.Make(String).t ref
module Again : sig type t val all : t end
)";
constexpr const char* kSource = R"(
type shape = Dot | Circle of float | Box of { name : string; inside : shape option } | Line of int * string
type order = { id : int; text : string; shapes : shape array; floats : float array; point : point }
and point = { x : float; y : float }
type only = Only of string [@@unboxed]
type _ gadt = Text : string * 'b -> string gadt
module Strings = Map.Make (String)
let table : (string, order) Hashtbl.t = Hashtbl.create 8
let hidden : (only, string) result list ref = ref []
let last : order list ref = ref []
module Table = struct
  type t = (int * string) option
  let all : t = None
  let inner : bytes lazy_t = lazy (Bytes.create 3)
end
let shapes : order Strings.t ref = ref Strings.empty
let gadt : string gadt option ref = ref None
let tag : [ `A of order | `B ] option ref = ref None
let call : (int -> order -> unit) ref = ref (fun _ _ -> ())
let queue : int64 Queue.t = Queue.create ()
let any : 'a. 'a list = []
let opaque : Obj.t ref = ref (Obj.repr 0)
module Again = Table
)";
// Fields of the module's block: first the exported last, Table, table, shapes, Again; then Strings,
// hidden, gadt, tag, call, queue, any, opaque; at the end Table's all and inner.
enum Fields : std::uint32_t {
  kLast,
  kTable,
  kHashtbl,
  kShapes,
  kAgain,
  kStrings,
  kHidden,
  kGadt,
  kTag,
  kCall,
  kQueue,
  kAny,
  kOpaque,
  kAll,
  kInner
};

class GiveTypes : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    source_ = std::unique_ptr<const CompiledSource>(
        new CompiledSource("shop", {{"shop.mli", kInterface}, {"shop.ml", kSource}}));
  }
  static void TearDownTestSuite() { source_.reset(); }

  HeapImage& typed() {
    image_ = builder_.build();
    source_->give_types_to(image_);
    return image_;
  }
  std::string type_of(std::uint32_t block) const { return image_.types[image_.type(block)].name; }

  // A root that is a ref.
  std::uint32_t ref(std::uint32_t field, std::uint32_t to) {
    const std::uint32_t cell = builder_.block(1);
    builder_.point(cell, 0, to);
    builder_.global("Shop", field, cell);
    return cell;
  }
  std::uint32_t order(std::uint32_t text, std::uint32_t shapes) {
    const std::uint32_t order = builder_.block(5);
    builder_.point(order, 1, text);
    builder_.point(order, 2, shapes);
    return order;
  }

  static std::unique_ptr<const CompiledSource> source_;
  ImageBuilder builder_;
  HeapImage image_;
};
std::unique_ptr<const CompiledSource> GiveTypes::source_;

TEST_F(GiveTypes, RecordsVariantsListsAndArraysBehindAbstractTypes) {
  const auto text = builder_.string(2), name = builder_.string(1), number = builder_.boxed_float();
  const auto circle = builder_.block(1, 0), box = builder_.block(2, 1), line = builder_.block(2, 2);
  const auto some = builder_.block(1), shapes = builder_.block(3);
  builder_.point(circle, 0, number);
  builder_.point(box, 0, name);
  builder_.point(box, 1, some);
  builder_.point(some, 0, circle);
  builder_.point(line, 1, name);
  builder_.point(shapes, 0, box);
  builder_.point(shapes, 2, line);
  const auto one = order(text, shapes), floats = builder_.block(4, kFloatArrayTag),
             point = builder_.block(2, kFloatArrayTag);
  builder_.point(one, 3, floats);
  builder_.point(one, 4, point);
  const auto list = builder_.cell(one), cell = ref(kLast, list);
  const HeapImage& image = typed();
  EXPECT_EQ("Shop.order list ref", type_of(cell));
  EXPECT_EQ("Shop.order list", type_of(list));
  EXPECT_EQ("Shop.order", type_of(one));
  EXPECT_EQ("Shop.shape array", type_of(shapes));
  EXPECT_TRUE(image.types[image.type(shapes)].is_array);
  EXPECT_EQ("Shop.shape.Circle", type_of(circle));
  EXPECT_EQ("Shop.shape.Box", type_of(box));
  EXPECT_EQ("Shop.shape.Line", type_of(line));
  EXPECT_EQ("Shop.shape option", type_of(some));
  EXPECT_EQ("string", type_of(name));
  EXPECT_EQ("float", type_of(number));
  EXPECT_EQ("float array", type_of(floats));
  EXPECT_EQ("Shop.point", type_of(point));
  EXPECT_EQ(0u, image.types_found.disagreed);
  EXPECT_EQ(1u, image.types_found.modules);
}

TEST_F(GiveTypes, HashTablesAndMapsOfTheStandardLibrary) {
  const auto key = builder_.string(1), one = order(key, builder_.block(1));
  const auto bucket = builder_.block(3), buckets = builder_.block(8), table = builder_.block(4);
  builder_.point(bucket, 0, key);
  builder_.point(bucket, 1, one);
  builder_.point(buckets, 5, bucket);
  builder_.point(table, 1, buckets);
  builder_.global("Shop", kHashtbl, table);
  const auto node = builder_.block(5), left = builder_.block(5);
  builder_.point(node, 0, left);
  builder_.point(node, 1, key);
  builder_.point(left, 2, one);
  const auto map = ref(kShapes, node);
  const HeapImage& image = typed();
  EXPECT_EQ("(string, Shop.order) Hashtbl.t", type_of(table));
  EXPECT_EQ("(string, Shop.order) Hashtbl.bucketlist array", type_of(buckets));
  EXPECT_EQ("(string, Shop.order) Hashtbl.bucketlist.Cons", type_of(bucket));
  EXPECT_EQ("Shop.order", type_of(one));
  EXPECT_EQ("Shop.order Map.Make(String).t ref", type_of(map));
  EXPECT_EQ("Shop.order Map.Make(String).t.Node", type_of(node));
  EXPECT_EQ("Shop.order Map.Make(String).t.Node", type_of(left));
  EXPECT_EQ(0u, image.types_found.disagreed);
}

TEST_F(GiveTypes, WhatAnInterfaceHidesAndWhatIsInAStructure) {
  const auto text = builder_.string(1), error = builder_.string(2);
  const auto ok = builder_.block(1, 0), failed = builder_.block(1, 1);
  builder_.point(ok, 0, text);  // Only text is the text itself
  builder_.point(failed, 0, error);
  const auto hidden = ref(kHidden, builder_.cell(ok, builder_.cell(failed)));
  const auto pair = builder_.block(2), option = builder_.block(1), table = builder_.block(1);
  builder_.point(option, 0, pair);
  builder_.point(table, 0, option);
  builder_.global("Shop", kTable, table);
  const auto made = builder_.string(3), number = builder_.block(2, kCustomTag, "_j");
  builder_.global("Shop", kInner, made);
  const auto cell = builder_.block(2), queue = builder_.block(3);
  builder_.point(cell, 0, number);
  builder_.point(queue, 1, cell);
  builder_.global("Shop", kQueue, queue);
  const auto call = ref(kCall, builder_.block(4, kClosureTag, "Shop.call"));
  const HeapImage& image = typed();
  EXPECT_EQ("(string, string) result list ref", type_of(hidden));
  EXPECT_EQ("(string, string) result.Ok", type_of(ok));
  EXPECT_EQ("(string, string) result.Error", type_of(failed));
  EXPECT_EQ("module Shop.Table", type_of(table));
  EXPECT_EQ("(int * string) option", type_of(option));
  EXPECT_EQ("int * string", type_of(pair));
  EXPECT_EQ("bytes", type_of(made));  // a lazy value that is computed
  EXPECT_EQ("int64 Queue.t", type_of(queue));
  EXPECT_EQ("int64 Queue.cell.Cons", type_of(cell));
  EXPECT_EQ("int64", type_of(number));
  EXPECT_EQ("(int -> Shop.order -> unit) ref", type_of(call));
  EXPECT_EQ("int -> Shop.order -> unit", type_of(image.edges.of(call)[0]));
  EXPECT_EQ(0u, image.types_found.disagreed);
}

TEST_F(GiveTypes, UnknownTypesAreNotGuessed) {
  const auto text = builder_.string(1), other = builder_.string(2), constructor = builder_.block(2);
  builder_.point(constructor, 0, text);
  builder_.point(constructor, 1, other);  // existential
  const auto some = builder_.block(1);
  builder_.point(some, 0, constructor);
  ref(kGadt, some);
  const auto free = builder_.string(4), polymorphic = builder_.cell(free);
  builder_.global("Shop", kAny, polymorphic);
  const auto magic = builder_.string(5);
  ref(kOpaque, magic);
  const auto elsewhere = builder_.string(6);
  builder_.global("Other", 0, elsewhere);
  const HeapImage& image = typed();
  EXPECT_EQ("string Shop.gadt.Text", type_of(constructor));
  EXPECT_EQ("string", type_of(text));
  EXPECT_EQ("", type_of(other));
  EXPECT_EQ("_ list", type_of(polymorphic));
  EXPECT_EQ("", type_of(free));
  EXPECT_EQ("", type_of(magic));
  EXPECT_EQ("", type_of(elsewhere));
  EXPECT_EQ(1u, image.types_found.modules_without_files);
}

TEST_F(GiveTypes, APolymorphicVariantHasWhatAllItsTagsHave) {
  const auto one = order(builder_.string(1), builder_.block(1));
  const auto tagged = builder_.block(2), some = builder_.block(1);
  builder_.point(tagged, 1, one);
  builder_.point(some, 0, tagged);
  ref(kTag, some);
  typed();
  EXPECT_EQ("[ `A of Shop.order | `B ]", type_of(tagged));
  EXPECT_EQ("Shop.order", type_of(one));
}

TEST_F(GiveTypes, ABlockThatContradictsItsTypeKeepsItsShapeAndIsCounted) {
  const auto wrong = builder_.block(3), list = builder_.cell(wrong);  // an order has five fields
  ref(kLast, list);
  HeapImage image = typed();
  EXPECT_EQ("Shop.order list", type_of(list));
  EXPECT_EQ("", type_of(wrong));
  EXPECT_EQ(1u, image.types_found.disagreed);
}

TEST_F(GiveTypes, ABlockWithTwoTypesKeepsTheFirst) {
  const auto cell = ref(kLast, builder_.cell(order(builder_.string(1), builder_.block(1))));
  builder_.global("Shop", kShapes, cell);
  HeapImage image = typed();
  EXPECT_EQ("Shop.order list ref", type_of(cell));
  EXPECT_LE(1u, image.types_found.disagreed);
}

TEST_F(GiveTypes, AModuleMayHaveTwoNames) {
  const auto table = builder_.block(1);
  builder_.global("Shop", kTable, table);
  builder_.global("Shop", kAgain, table);
  const HeapImage& image = typed();
  EXPECT_EQ("module Shop.Table", type_of(table));
  EXPECT_EQ(0u, image.types_found.disagreed);
}

TEST_F(GiveTypes, FieldsHaveTheNamesOfTheSource) {
  const auto box = builder_.block(2, 1), shapes = builder_.block(1);
  const auto one = order(builder_.string(1), shapes);
  builder_.point(shapes, 0, box);
  ref(kLast, builder_.cell(one));
  builder_.global("Shop", kInner, builder_.string(3));
  builder_.global("Shop", kAll, builder_.boxed_float());  // no option: it stands elsewhere
  builder_.global("Other", 0, builder_.string(6));
  const HeapImage& image = typed();
  using testing::ElementsAre;
  EXPECT_THAT(image.types[image.type(one)].labels,
              ElementsAre("id", "text", "shapes", "floats", "point"));
  EXPECT_THAT(image.types[image.type(box)].labels, ElementsAre("name", "inside"));
  std::vector<std::string> labels;
  for (const RootName& name : image.root_names) labels.push_back(name.label);
  EXPECT_THAT(labels, ElementsAre("last", "Table.inner", "", ""));
  EXPECT_EQ("global Shop.Table.inner", root_text(image.root_names[1]));
  EXPECT_EQ("global Shop, field 13", root_text(image.root_names[2]));
}

TEST_F(GiveTypes, AFieldThatIsNotKnownIsCalledAsInTheModuleThatHasItsValueToo) {
  const auto table = builder_.block(1), option = builder_.block(1);
  builder_.point(table, 0, option);
  builder_.global("Shop", kTable, table);
  builder_.global("Shop", 90, option);
  builder_.global("Shop", 91, option);  // a name is of one field
  const HeapImage& image = typed();
  EXPECT_EQ("Table", image.root_names[0].label);
  EXPECT_EQ("Table.all", image.root_names[1].label);
  EXPECT_EQ("", image.root_names[2].label);
}

TEST_F(GiveTypes, WithoutFilesOfTheProgramsReleaseNothingHasAType) {
  ref(kLast, builder_.cell(builder_.block(5)));
  HeapImage image = builder_.build();
  SourceFiles files(source_->program(), "4.11.0");
  assign_types(image, [&](const std::string& unit) { return files.find(unit); });
  EXPECT_FALSE(image.has_types());
  EXPECT_EQ(0u, image.types_found.modules);
  EXPECT_EQ(1u, image.types_found.modules_without_files);
}

}  // namespace
}  // namespace memprofd
