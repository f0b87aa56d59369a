// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/types/linked_units.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include "daemon/snapshot/types/compiler_file.h"
#include "tests/kit/marshal_bytes.h"
#include "tests/kit/temp_dir.h"

namespace memprofd {
namespace {

using namespace marshal;

const std::string kDigest(kDigestBytes, 'd');

TEST(LinkedUnits, ThoseWithADigestAreRead) {
  const std::string units = list(
      {linked_unit("Shop", kDigest), linked_unit("Alias", ""), linked_unit("Stdlib", kDigest)});
  EXPECT_EQ((InterfaceDigests{{"Shop", kDigest}, {"Stdlib", kDigest}}),
            read_linked_units(marshalled(units) + "what is behind it"));
}

TEST(LinkedUnits, OtherDataYieldsNothing) {
  EXPECT_TRUE(read_linked_units("").empty());
  EXPECT_TRUE(read_linked_units(marshalled(list({text("Shop")}))).empty());
  EXPECT_TRUE(read_linked_units(marshalled(list({linked_unit("Shop", "short")}))).empty());
  EXPECT_TRUE(read_linked_units(marshalled(list({linked_unit("", kDigest)}))).empty());
  EXPECT_TRUE(
      read_linked_units(marshalled(list({linked_unit("Shop", kDigest), integer(1)}))).empty());
  const std::string whole = marshalled(list({linked_unit("Shop", kDigest)}));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_TRUE(read_linked_units(whole.substr(0, size)).empty()) << size;
  }
}

TEST(LinkedUnits, AnyDamageIsTaken) {
  const std::string whole =
      marshalled(list({linked_unit("Shop", kDigest), linked_unit("Stdlib", kDigest)}));
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    std::string damaged = whole;
    for (unsigned n = random() % 4; n < 4; ++n) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    for (const auto& [unit, digest] : read_linked_units(damaged)) {
      ASSERT_FALSE(unit.empty());
      ASSERT_EQ(kDigestBytes, digest.size());
    }
  }
}

// A program of two modules, by the compiler at hand.
class Program : public ::testing::Test {
 protected:
  Program() {
    dir_.write("shop.ml", "let orders = ref [ 1 ]");
    dir_.write("main.ml", "let () = Shop.orders := []");
  }
  void link(const std::string& options) {
    const std::string command = "cd '" + dir_.path() + "' && ocamlfind ocamlopt -bin-annot " +
                                options + " shop.ml main.ml -o main 2>&1";
    ASSERT_EQ(0, std::system(command.c_str()));
  }
  InterfaceDigests units() const {
    const auto program = ElfFile::open(dir_.path("main"), "main");
    EXPECT_TRUE(program.ok()) << program.status();
    return interfaces_of(**program);
  }
  CompilerFile file(const std::string& name) const {
    std::ifstream in(dir_.path(name), std::ios::binary);
    auto file = CompilerFile::parse(std::string((std::istreambuf_iterator<char>(in)), {}));
    EXPECT_TRUE(file.ok()) << file.status();
    return *std::move(file);
  }

  TempDir dir_;
};

TEST_F(Program, HasTheDigestsOfItsOwnFiles) {
  link("");
  const InterfaceDigests units = this->units();
  EXPECT_TRUE(units.contains("Stdlib"));
  EXPECT_TRUE(file("shop.cmi").is_of("Shop", units));
  EXPECT_TRUE(file("shop.cmt").is_of("Shop", units));
  EXPECT_FALSE(file("shop.cmi").is_of("Main", units));
  dir_.write("shop.ml", "let orders = ref [ 1. ]");
  dir_.write("main.ml", "let () = Shop.orders := []");
  link("");
  EXPECT_FALSE(file("shop.cmi").is_of("Shop", units)) << "of another build";
  EXPECT_FALSE(file("shop.cmt").is_of("Shop", units));
}

// Without the symbol the list has its shape.
TEST_F(Program, HasThemWhenItIsStripped) {
  link("");
  const InterfaceDigests units = this->units();
  link("-ccopt -static -ccopt -s");
  const auto program = ElfFile::open(dir_.path("main"), "main");
  ASSERT_TRUE(program.ok());
  ASSERT_FALSE((*program)->find_symbol("caml_globals_map").has_value());
  EXPECT_EQ(units, this->units());
}

}  // namespace
}  // namespace memprofd
