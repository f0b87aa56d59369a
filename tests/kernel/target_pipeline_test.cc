// SPDX-License-Identifier: Apache-2.0
// A target pipeline on a real ring: how much it takes in of a target that never pauses. Needs root.
#include "daemon/pipeline/target_pipeline.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "daemon/attach/native_heap_by_agent.h"
#include "daemon/symbolize/symbolizer.h"
#include "tests/kernel/kernel_side_fixture.h"
#include "tests/kit/ring_events.h"

namespace memprofd {
namespace {

class NoNames : public Symbolizer {
  std::vector<Location> look_up(std::uint64_t, std::int32_t) override { return {}; }
};

// A kernel side and nothing behind it.
class BareTarget final : public AttachedTarget {
 public:
  explicit BareTarget(std::unique_ptr<KernelSide> kernel) : kernel_(std::move(kernel)) {}

  std::uint32_t next_generation() const override { return 1; }
  absl::Status begin(double, memprof_capture_by) override { return absl::OkStatus(); }
  absl::StatusOr<Progress> advance() override { return Progress::kSampling; }
  std::string why_no_agent() const override { return ""; }
  std::string keep_alive(bool) const override { return ""; }
  std::string waiting_for() const override { return ""; }
  void request_stop() override {}
  bool stopped() const override { return true; }
  void begin_detach() override {}
  bool detached() override { return true; }
  void detach() override {}
  absl::StatusOr<std::shared_ptr<const CopyLease>> copy_lease() override {
    return absl::FailedPreconditionError("nothing can be copied");
  }
  const Target& target() const override { return target_; }
  Target release_target() override { return std::move(target_); }
  KernelSide& kernel() override { return *kernel_; }
  const AgentControl* agent() const override { return nullptr; }
  NativeHeapFollower& native_heap() override { return native_heap_; }
  bool injecting() const override { return false; }
  double paused_seconds() const override { return 0; }
  memprof_capture_by capture() const override { return MEMPROF_CAPTURE_BY_KERNEL; }
  bool observes() const override { return false; }

 private:
  Target target_;
  std::unique_ptr<KernelSide> kernel_;
  NativeHeapByAgent native_heap_{target_, 0};
};

// Does something for each sample that is taken in.
class ForEachSample : public SampleObserver {
 public:
  explicit ForEachSample(std::function<void()> fn) : fn_(std::move(fn)) {}
  void on_event(const SampleEvent&, double) override { fn_(); }
  void on_native_event(const SampleEvent&) override {}
  void on_batch_end() override {}

 private:
  std::function<void()> fn_;
};

class TargetPipelineTest : public KernelSideTest {
 protected:
  static constexpr std::uint32_t kRingBytes = 4u << 20;

  void SetUp() override {
    KernelSideTest::SetUp();
    if (IsSkipped()) return;
    auto settings = config();
    settings.ring_bytes = kRingBytes;
    auto side = KernelSide::load(settings, KernelFrameTable{10, program_.slots(10)});
    ASSERT_TRUE(side.ok()) << side.status();
    attach_all(**side);
    target_pipeline_ = std::make_unique<TargetPipeline>(
        std::make_shared<BareTarget>(*std::move(side)), std::make_shared<NoNames>(), TargetInfo());
    target_pipeline_->pipeline().begin_session(1, 0.01);
  }

  void send(std::uint32_t records) {
    for (std::uint32_t i = 0; i < records; ++i) {
      target_->shared().records[i] = sample_record(1000 + sent_, sent_ + 1, MEMPROF_ALLOC_MINOR, 1);
      ++sent_;
    }
    target_->batch(reinterpret_cast<std::uint64_t>(target_->shared().records), records,
                   sent_ - records, 1);
  }

  std::uint64_t sent_ = 0;
  std::unique_ptr<TargetPipeline> target_pipeline_;
};

TEST_F(TargetPipelineTest, CatchingUpEndsWithATargetThatGoesOn) {
  constexpr std::uint64_t kAtFirst = 3, kMax = 5'000;
  for (std::uint64_t i = 0; i < kAtFirst; ++i) send(1);
  ForEachSample one_more([&] {
    if (sent_ < kMax) send(1);
  });
  target_pipeline_->pipeline().set_observer(&one_more);
  target_pipeline_->catch_up();
  EXPECT_EQ(target_pipeline_->pipeline().alloc_events(), kAtFirst);
  EXPECT_EQ(sent_, 2 * kAtFirst);
  target_pipeline_->catch_up();
  EXPECT_EQ(target_pipeline_->pipeline().alloc_events(), 2 * kAtFirst);
}

TEST_F(TargetPipelineTest, CatchingUpTakesMoreThanATurn) {
  while (sent_ * sizeof(memprof_record) < 2 * EventRing::kConsumeBytes) send(512);
  target_pipeline_->catch_up();
  EXPECT_EQ(target_pipeline_->pipeline().alloc_events(), sent_);
}

TEST_F(TargetPipelineTest, ATurnIsBoundedInSamples) {
  while (sent_ * sizeof(memprof_record) < 2 * EventRing::kConsumeBytes) send(512);
  constexpr std::uint64_t kTurn = EventRing::kConsumeBytes / sizeof(memprof_record);
  EXPECT_GT(target_pipeline_->consume(), 0);
  EXPECT_GT(target_pipeline_->pipeline().alloc_events(), kTurn / 2);
  EXPECT_LE(target_pipeline_->pipeline().alloc_events(), kTurn + MEMPROF_BATCH_RECORDS);
  while (target_pipeline_->consume() > 0) {
  }
  EXPECT_EQ(target_pipeline_->pipeline().alloc_events(), sent_);
}

}  // namespace
}  // namespace memprofd
