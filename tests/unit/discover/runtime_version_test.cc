// SPDX-License-Identifier: Apache-2.0
#include "daemon/discover/runtime_version.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/kit/ocaml_program.h"

namespace memprofd {
namespace {

std::vector<std::byte> ocaml_string(const std::string& text) {
  const std::size_t words = text.size() / 8 + 1;
  std::vector<std::byte> block(8 * (words + 1));
  const std::uint64_t header = words << 10 | 0x300 | 252;
  std::memcpy(block.data(), &header, 8);
  std::memcpy(block.data() + 8, text.data(), text.size());
  block.back() = static_cast<std::byte>(8 * words - 1 - text.size());
  return block;
}

TEST(RuntimeVersion, FindsTheVersionAmongOtherStrings) {
  std::vector<std::byte> data(24);
  for (const char* text : {"Stdlib.Sys.Break", "Unix", "4", "4.13", "", "5.3.0"}) {
    const auto block = ocaml_string(text);
    data.insert(data.end(), block.begin(), block.end());
  }
  EXPECT_EQ(find_version_string(data), "5.3.0");
  data.pop_back();
  EXPECT_EQ(find_version_string(data), std::nullopt);
  EXPECT_EQ(find_version_string({}), std::nullopt);
  EXPECT_EQ(find_version_string(ocaml_string("4.14.1+options-a")), "4.14.1+options-a");
  EXPECT_EQ(find_version_string(ocaml_string("4.14.1 and words")), std::nullopt);
  auto bad_padding = ocaml_string("4.13.1");
  bad_padding.back() = std::byte{200};
  EXPECT_EQ(find_version_string(bad_padding), std::nullopt);
}

std::string system_ocaml_version() {
  Child ocamlopt({"ocamlopt", "-version"});
  return ocamlopt.read_line();
}

TEST(RuntimeVersion, DetectsTheVersionOfPrograms) {
  TempDir dir;
  const std::string full = system_ocaml_version();
  ASSERT_FALSE(full.empty());
  const std::string with_sys = compile_ocaml(dir, "sys", "let () = print_string Sys.ocaml_version");
  const std::string without = compile_ocaml(dir, "nosys", "let () = print_string \"x\"");
  ASSERT_FALSE(with_sys.empty() || without.empty());
  EXPECT_EQ(detect_runtime_version(**ElfFile::open(with_sys, "sys")), full);
  const auto small = ElfFile::open(without, "nosys");
  ASSERT_FALSE((*small)->find_symbol("camlStdlib__Sys")) << "the fallback is not reached";
  EXPECT_EQ(detect_runtime_version(**small), full.substr(0, full.rfind('.')));
}

}  // namespace
}  // namespace memprofd
