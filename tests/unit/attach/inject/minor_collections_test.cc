// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/inject/minor_collections.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <vector>

namespace memprofd {
namespace {

std::vector<std::byte> bytes(std::initializer_list<int> values) {
  std::vector<std::byte> out;
  for (const int value : values) out.push_back(static_cast<std::byte>(value));
  return out;
}

// As Debian's compilers have made it.
TEST(DecodeRequestMinorGc, OfKnownReleases) {
  EXPECT_EQ(decode_request_minor_gc(bytes({0x48, 0x8b, 0x05, 0,    0, 0, 0,              //
                                           0xc7, 0x05, 0,    0,    0, 0, 1, 0, 0, 0,     //
                                           0x48, 0xc7, 0x80, 0x18, 1, 0, 0, 1, 0, 0, 0,  //
                                           0x48, 0x8b, 0x50, 0x38})),
            0x118u)
      << "4.13";
  EXPECT_EQ(decode_request_minor_gc(bytes({0xf3, 0x0f, 0x1e, 0xfa,                       //
                                           0x48, 0x8b, 0x05, 0,    0, 0, 0,              //
                                           0x64, 0x48, 0x8b, 0,                          //
                                           0x48, 0xc7, 0x80, 0xf8, 0, 0, 0, 1, 0, 0, 0,  //
                                           0xe9})),
            0xf8u)
      << "5.3";
}

TEST(DecodeRequestMinorGc, OtherCodeIsNotUnderstood) {
  EXPECT_EQ(decode_request_minor_gc({}), std::nullopt);
  EXPECT_EQ(decode_request_minor_gc(bytes({0x48, 0xc7, 0x80, 0x18, 1, 0, 0, 1, 0, 0})),
            std::nullopt)
      << "cut";
  EXPECT_EQ(decode_request_minor_gc(bytes({0x48, 0xc7, 0x80, 0x18, 1, 0, 0, 2, 0, 0, 0})),
            std::nullopt)
      << "another value";
  EXPECT_EQ(decode_request_minor_gc(bytes({0x48, 0xc7, 0x84, 0x18, 1, 0, 0, 1, 0, 0, 0})),
            std::nullopt)
      << "with an index";
}

}  // namespace
}  // namespace memprofd
