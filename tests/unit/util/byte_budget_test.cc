// SPDX-License-Identifier: Apache-2.0
#include "daemon/util/byte_budget.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace memprofd {
namespace {

TEST(ByteBudget, GivesWhatItHasAndNoMore) {
  const auto budget = std::make_shared<ByteBudget>(100);
  ByteCharge first(budget);
  EXPECT_TRUE(first.grow(60));
  EXPECT_FALSE(first.grow(41));
  EXPECT_FALSE(first.grow(~0ull));
  EXPECT_FALSE(first.grow(30, 11)) << "some is to be left over";
  EXPECT_FALSE(first.grow(30, ~0ull));
  EXPECT_TRUE(first.grow(30, 10));
  EXPECT_EQ(first.bytes(), 90u);
  EXPECT_EQ(budget->used(), 90u);
}

TEST(ByteBudget, ComesBackWithTheObject) {
  const auto budget = std::make_shared<ByteBudget>(100);
  {
    ByteCharge one(budget);
    ASSERT_TRUE(one.grow(70));
    ByteCharge moved(std::move(one));
    EXPECT_EQ(budget->used(), 70u);
    ByteCharge other(budget);
    ASSERT_TRUE(other.grow(20));
    other = std::move(moved);
    EXPECT_EQ(budget->used(), 70u);
    other.shrink_to(80);
    EXPECT_EQ(budget->used(), 70u);
    other.shrink_to(5);
    EXPECT_EQ(budget->used(), 5u);
  }
  EXPECT_EQ(budget->used(), 0u);
  EXPECT_EQ(budget->peak(), 90u);
}

TEST(ByteBudget, AChargeWithoutABudgetAlwaysFits) {
  ByteCharge charge;
  EXPECT_TRUE(charge.grow(1ull << 62));
}

TEST(ByteBudget, AllTogetherHaveALimitToo) {
  const auto all = std::make_shared<ByteBudget>(100);
  auto first = std::make_shared<ByteBudget>(80, all);
  const auto second = std::make_shared<ByteBudget>(80, all);
  EXPECT_TRUE(first->take(80));
  EXPECT_FALSE(second->take(21));
  EXPECT_EQ(second->used(), 0u);
  EXPECT_TRUE(second->take(20));
  first.reset();
  EXPECT_EQ(all->used(), 20u);
  EXPECT_TRUE(second->take(60));
}

TEST(ByteBudget, OthersDoNotTakeWhatIsAssured) {
  const auto all = std::make_shared<ByteBudget>(100);
  const auto first = std::make_shared<ByteBudget>(100, all, 10);
  auto second = std::make_shared<ByteBudget>(100, all, 10);
  EXPECT_TRUE(first->take(100));
  EXPECT_TRUE(second->take(8));
  EXPECT_FALSE(second->take(3));
  EXPECT_TRUE(second->take(2));
  EXPECT_FALSE(all->take(0, 1));
  EXPECT_EQ(all->used(), 110u);
  second.reset();
  EXPECT_EQ(all->used(), 100u);
}

TEST(ByteBudget, AChainOfBudgetsIsChargedToItsEnd) {
  const auto process = std::make_shared<ByteBudget>(100);
  const auto programs = std::make_shared<ByteBudget>(80, process);
  const auto program = std::make_shared<ByteBudget>(80, programs, 10);
  EXPECT_TRUE(process->take(95));
  EXPECT_TRUE(program->take(10)) << "is assured, whoever has used up all";
  EXPECT_EQ(process->used(), 105u);
  EXPECT_FALSE(program->take(1));
  EXPECT_EQ(programs->used(), 10u);
  program->take_anyway(7);
  EXPECT_EQ(process->used(), 112u);
  program->give_back(17);
  EXPECT_EQ(process->used(), 95u);
  process->set_limit(200);
  EXPECT_TRUE(program->take(70));
}

TEST(ByteBudget, HoldsBetweenThreads) {
  const auto all = std::make_shared<ByteBudget>(1000);
  const auto budget = std::make_shared<ByteBudget>(900, all);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 20'000; ++round) {
        ByteCharge charge(budget);
        if (charge.grow(400)) charge.grow(150);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(budget->used(), 0u);
  EXPECT_EQ(all->used(), 0u);
  EXPECT_LE(budget->peak(), 900u);
  EXPECT_GE(budget->peak(), 400u);
}

TEST(ByteBudget, SaysWhatDidNotFit) {
  EXPECT_EQ(over_budget("the names of /bin/x", 1ull << 30),
            "the names of /bin/x need 1.00 GiB, more than is left of the 256 MiB that "
            "one target may use");
}

}  // namespace
}  // namespace memprofd
