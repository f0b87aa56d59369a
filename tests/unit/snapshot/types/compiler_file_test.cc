// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/types/compiler_file.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/kit/marshal_bytes.h"

namespace memprofd {
namespace {

using marshal::block;
using marshal::integer;
using marshal::list;
using marshal::text;

// Cmt_format.cmt_infos of an implementation.
std::string implementation_file(const std::string& load_path) {
  const std::string structure = block(0, {list({}), list({}), integer(0)});
  return "Caml1999T035" +
         marshalled(block(0, {text("Cache"), block(1, {structure}), integer(0), integer(0),
                              integer(0), integer(0), text("/src"), load_path}));
}

TEST(CompilerFile, AnInterfaceHasASignature) {
  const auto file = CompilerFile::parse(interface_file("Cache", list({text("item")})));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(35, file->format);
  EXPECT_EQ("item", file->signature().field(0).text());
  EXPECT_FALSE(file->structure().is_block());
}

TEST(CompilerFile, AnImplementationMayHaveItsInterfaceInFrontOfIt) {
  const std::string both =
      interface_file("Cache", list({text("item")})) + implementation_file(list({text("/lib")}));
  const auto file = CompilerFile::parse(both);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ("item", file->signature().field(0).text());
  EXPECT_EQ(3u, file->structure().size());
  EXPECT_EQ("/src", file->build_folder());
  EXPECT_EQ(std::vector<std::string>{"/lib"}, file->load_path());
}

TEST(CompilerFile, ALoadPathMayHaveAHiddenPart) {
  const auto file = CompilerFile::parse(
      implementation_file(block(0, {list({text("a"), text("b")}), list({text("hidden")})})));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((std::vector<std::string>{"a", "b", "hidden"}), file->load_path());
}

TEST(CompilerFile, RefusesOtherFilesAndOtherCompilers) {
  EXPECT_TRUE(absl::IsInvalidArgument(CompilerFile::parse("").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(CompilerFile::parse("\x7f"
                                                          "ELF")
                                          .status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(CompilerFile::parse("Caml1999T017").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(CompilerFile::parse("Caml1999I035").status()));
}

TEST(CompilerFile, EachReleaseHasItsFormat) {
  EXPECT_EQ(28, compiler_format_of("4.11.1"));
  EXPECT_EQ(31, compiler_format_of("4.14.2"));
  EXPECT_EQ(35, compiler_format_of("5.3.0"));
  EXPECT_EQ(36, compiler_format_of("5.4"));
  EXPECT_EQ(0, compiler_format_of("5.40.0"));
  EXPECT_EQ(0, compiler_format_of("4.1.0"));
  EXPECT_EQ(0, compiler_format_of(""));
}

}  // namespace
}  // namespace memprofd
