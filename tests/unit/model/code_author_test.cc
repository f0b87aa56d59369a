// SPDX-License-Identifier: Apache-2.0
#include "daemon/model/code_author.h"

#include <gtest/gtest.h>

namespace memprofd {
namespace {

TEST(CodeAuthor, FollowsFromNamesAndPaths) {
  const auto author = [](const char* function, const char* file) {
    return author_of({.function = function, .file = file});
  };
  EXPECT_EQ(author("Server.handle", "bin/server.ml"), CodeAuthor::kApplication);
  EXPECT_EQ(author("Server.handle", "/home/me/lib/server.ml"), CodeAuthor::kApplication);
  EXPECT_EQ(author("Server.handle", ""), CodeAuthor::kApplication);
  EXPECT_EQ(author("Lwt.bind", "/home/me/.opam/4.14.1/.opam-switch/build/lwt.5.7.0/src/lwt.ml"),
            CodeAuthor::kPackage);
  EXPECT_EQ(author("Lwt.bind", "/build/reproducible-path/lwt-5.7.0/src/lwt.ml"),
            CodeAuthor::kPackage);
  EXPECT_EQ(author("Lwt.bind", "/usr/lib/ocaml/lwt/lwt.ml"), CodeAuthor::kPackage);
  EXPECT_EQ(author("Unix.read", "unix.ml"), CodeAuthor::kPackage);
  EXPECT_EQ(author("Event.emit", "src/event.ml"), CodeAuthor::kApplication);
  EXPECT_EQ(author("Stdlib__Hashtbl.add", "hashtbl.ml"), CodeAuthor::kLibrary);
  EXPECT_EQ(author("CamlinternalFormat.make_printf", ""), CodeAuthor::kLibrary);
}

}  // namespace
}  // namespace memprofd
