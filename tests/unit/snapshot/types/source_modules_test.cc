// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/types/source_modules.h"

#include <gtest/gtest.h>

namespace memprofd {
namespace {

TEST(SourceModules, AUnitIsNamedAsTheSourceNamesIt) {
  EXPECT_EQ("", SourceModules::unit_text("Stdlib"));
  EXPECT_EQ("Hashtbl", SourceModules::unit_text("Stdlib__Hashtbl"));
  EXPECT_EQ("Hashtbl", SourceModules::unit_text("Stdlib__hashtbl"));  // OCaml 4.11
  EXPECT_EQ("Main", SourceModules::unit_text("Dune__exe__Main"));
  EXPECT_EQ("Shop.Cache", SourceModules::unit_text("Shop__Cache"));
  EXPECT_EQ("Demo_server", SourceModules::unit_text("Demo_server"));
}

TEST(SourceModules, WithoutFilesNothingIsKnown) {
  SourceModules modules([](const std::string&) { return SourceUnit{}; });
  EXPECT_EQ(SourceModules::kNoModule, modules.unit("Shop"));
  EXPECT_EQ(SourceModules::kNoModule, modules.interface_of("Shop"));
  EXPECT_EQ(nullptr, modules.type_named(modules.unit("Shop"), "order"));
}

}  // namespace
}  // namespace memprofd
