// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/render/render_values.h"

#include <gtest/gtest.h>

#include "daemon/export/api/values_service.h"
#include "tests/kit/fake_service.h"

namespace memprofd {
namespace {

namespace pb = ::memprof::v1;

Value integer(std::int64_t n) { return {.kind = ValueKind::kInteger, .integer = n}; }

std::string text(const Value& value) { return ctl::value_text(to_proto(value)); }

TEST(ValueText, IsInTheMannerOfOCaml) {
  EXPECT_EQ(text(integer(-3)), "-3");
  EXPECT_EQ(text({.kind = ValueKind::kFloat, .number = 2}), "2.00000000000");
  EXPECT_EQ(text({.kind = ValueKind::kReference, .size = 1, .fields = {integer(5)}}), "ref 5");
  EXPECT_EQ(text({.kind = ValueKind::kBlock, .size = 9, .is_cut = true, .fields = {integer(1)}}),
            "{1; ..}, 9 fields");
  EXPECT_EQ(text({.kind = ValueKind::kBlock, .size = 1, .tag = 2, .fields = {integer(1)}}),
            "tag 2 {1}");
  EXPECT_EQ(text({.kind = ValueKind::kString, .size = 12}), "string of 12 bytes");
  EXPECT_EQ(text({.kind = ValueKind::kString, .size = 3, .text = "a\x1b\n"}), "\"a\\033\\n\"");
  EXPECT_EQ(text({.kind = ValueKind::kList, .size = 2, .fields = {integer(1), integer(2)}}),
            "list of 2 [1; 2]");
  EXPECT_EQ(text({.kind = ValueKind::kTable,
                  .size = 5,
                  .buckets = 8,
                  .empty_buckets = 6,
                  .longest_chain = 3,
                  .chains_counted = true}),
            "Hashtbl of 5 in 8 buckets, 6 empty, longest chain 3");
  EXPECT_EQ(text({.kind = ValueKind::kCustom, .integer = 7, .text = "_j"}), "7L");
  EXPECT_EQ(text({.kind = ValueKind::kUnread, .why = WhyUnread::kMoving}),
            "not read: the collector was faster at each try");
  EXPECT_EQ(text({.kind = ValueKind::kUnread, .why = WhyUnread::kDeep}), "..");
}

TEST(ValueText, EveryKindHasWords) {
  for (int kind = 0; kind <= static_cast<int>(ValueKind::kUnread); ++kind) {
    Value value{.kind = static_cast<ValueKind>(kind)};
    EXPECT_EQ(ctl::value_text(to_proto(value)).find("does not know"), std::string::npos) << kind;
  }
}

TEST(ValuesService, AsksAndAnswers) {
  testing::FakeService service;
  service.values = {.values = {{.module = "Cache", .field = 3, .value = integer(4)},
                               {.module = "", .field = 0, .value = integer(5)}},
                    .fields = 20,
                    .left_out = 2,
                    .repeated = 3,
                    .not_reached = 4};
  ValuesService values(service);
  pb::ListValuesRequest request;
  EXPECT_FALSE(values.list_values(request, [] { return true; }).ok()) << "no pid";
  request.set_pid(42);
  request.set_pattern("Cache");
  request.set_with_contents(true);
  const auto answer = values.list_values(request, [] { return true; });
  ASSERT_TRUE(answer.ok());
  ASSERT_EQ(answer->values_size(), 2);
  EXPECT_EQ(answer->values(0).name(), "Cache[3]");
  EXPECT_EQ(answer->values(1).name(), "(unknown)[0]");
  EXPECT_EQ(answer->values(1).value().integer(), 5);
  const std::string text = ctl::render_values(*answer, {});
  EXPECT_EQ(text,
            "NAME          VALUE\nCache[3]      4\n(unknown)[0]  5\n2 more; --limit shows them\n"
            "4 names were not reached: the collector works so often that there was no time; ask "
            "for fewer by a pattern\n");
  request.set_limit(1'000'000);
  EXPECT_FALSE(values.list_values(request, [] { return true; }).ok());
}

}  // namespace
}  // namespace memprofd
