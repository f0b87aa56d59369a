// SPDX-License-Identifier: Apache-2.0
#include "daemon/values/value_watch.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/discover/target.h"
#include "daemon/discover/target_memory.h"

namespace memprofd {
namespace {

std::vector<std::string> names_of(const Publication& report) {
  std::vector<std::string> names;
  for (const PublishedValue& one : report.all) names.push_back(one.name);
  return names;
}

class ValueWatchTest : public ::testing::Test {
 protected:
  std::vector<std::string> changed() {
    Publication report = report_;
    watch_.leave_changed(report);
    lines_ = report.lines.size();
    return names_of(report);
  }

  PublishedValue one(const char* name, std::uint32_t slot) { return {.name = name, .slot = slot}; }

  ValueWatch watch_;
  Publication report_{.all = {one("a", 1), one("b", 2)}};
  std::size_t lines_ = 0;
};

std::shared_ptr<ValueProgram> program_of(std::shared_ptr<TargetMemory> memory) {
  Target target;
  target.pid = ::getpid();
  target.memory = std::move(memory);
  return std::make_shared<ValueProgram>(target, nullptr);
}

// Even if another process gets the pid later.
TEST_F(ValueWatchTest, IsOfOneProgram) {
  const std::shared_ptr<TargetMemory> memory = TargetMemory::open(::getpid()).value();
  const auto program = program_of(memory);
  EXPECT_EQ(watch_.program(), nullptr);
  ASSERT_TRUE(watch_.set_program(program).ok());
  EXPECT_EQ(watch_.program(), program);
  EXPECT_TRUE(watch_.set_program(program_of(memory)).ok()) << "it is observed instead";
  const auto other = program_of(TargetMemory::open(::getpid()).value());
  EXPECT_TRUE(absl::IsNotFound(watch_.set_program(other)));
  watch_.begin(std::make_shared<const ValueProgram::Layout>(
      ValueProgram::Layout{.clock = absl::UnknownError(""), .modules = {}, .image = {}}));
  EXPECT_TRUE(absl::IsNotFound(watch_.set_program(other)));
}

TEST_F(ValueWatchTest, ReportsChanges) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(changed(), (Names{"a", "b"}));
  EXPECT_EQ(changed(), Names{});
  report_.all[1].hits = 1;
  EXPECT_EQ(changed(), Names{"b"});
  report_.all[0].value = {.kind = ValueKind::kFloat, .number = 1.5};
  EXPECT_EQ(changed(), Names{"a"});
  report_.all[0].changed_ns = 7;
  EXPECT_EQ(changed(), Names{"a"}) << "it is younger";
  report_.all[0].control = MEMPROF_CONTROL_OFF;
  EXPECT_EQ(changed(), Names{"a"});
  EXPECT_EQ(changed(), Names{});
  report_.all.push_back(one("c", 3));
  EXPECT_EQ(changed(), Names{"c"});
}

// A running timer changes by itself.
TEST_F(ValueWatchTest, ReportsATimerWhileItRuns) {
  report_.all.resize(1);
  report_.all[0] = {.kind = PublishedValue::Kind::kTimer, .name = "t", .starts = 1};
  EXPECT_EQ(changed().size(), 1u);
  EXPECT_EQ(changed().size(), 1u);
  report_.all[0].stops = 1;
  EXPECT_EQ(changed().size(), 1u);
  report_.all[0].seconds = 0.1 + 0.2;  // the same ticks, counted with another second's clock
  EXPECT_EQ(changed().size(), 0u);
}

TEST_F(ValueWatchTest, ReportsEachLineOnce) {
  report_.lines = {{.number = 3}, {.number = 4}};
  changed();
  EXPECT_EQ(lines_, 2u);
  changed();
  EXPECT_EQ(lines_, 0u);
  report_.lines = {{.number = 4}, {.number = 5}};
  changed();
  EXPECT_EQ(lines_, 1u);
}

TEST_F(ValueWatchTest, HasALimitedNumberOfPlaces) {
  EXPECT_TRUE(watch_.may_report({.address = 8}, 2));
  EXPECT_TRUE(watch_.may_report({.address = 16}, 2));
  EXPECT_FALSE(watch_.may_report({.address = 24}, 2));
  EXPECT_TRUE(watch_.may_report({.address = 8}, 2)) << "it was told before";
  EXPECT_EQ(watch_.left_out(), 1u);
  watch_.set_slots({{.address = 8}, {.address = 16}, {.address = 24}});
  EXPECT_EQ(watch_.slots().size(), 2u);
}

TEST_F(ValueWatchTest, ForgetsAnotherProgram) {
  const auto found = [] {
    return std::make_shared<const ValueProgram::Layout>(
        ValueProgram::Layout{.clock = absl::UnknownError("none")});
  };
  const auto one = found();
  watch_.begin(one);
  changed();
  watch_.set_slots({{.address = 8}});
  watch_.begin(one);
  EXPECT_TRUE(watch_.has_slots());
  EXPECT_EQ(changed().size(), 0u);
  watch_.begin(found());
  EXPECT_FALSE(watch_.has_slots());
  EXPECT_EQ(changed().size(), 2u);
}

}  // namespace
}  // namespace memprofd
