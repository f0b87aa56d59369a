// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <vector>

#include "daemon/export/api/values_service.h"
#include "tests/kit/fake_service.h"

namespace memprofd {
namespace {

using testing::FakeService;

absl::Status opened(double period, std::uint32_t graph_nodes = 0) {
  FakeService service(std::vector<ProfileSnapshotPtr>{});
  ::memprof::v1::WatchValuesRequest request;
  request.mutable_values()->set_pid(4242);
  request.mutable_values()->set_graph_nodes(graph_nodes);
  request.set_period_seconds(period);
  return ValuesStream::open(service, request, 4242).status();
}

// Lines go to the owner of the target that answers, not of its present pid.
TEST(ValuesService, SendsLinesToTheOwner) {
  constexpr ProcessUser kUser{1000, 1000};
  auto ended = testing::fixed_target(4242);
  ended->info.state = TargetState::kExited;
  FakeService service({ended});
  ValuesService values(service);
  ::memprof::v1::GetValueHistoryRequest request;
  request.set_pid(4242);
  EXPECT_TRUE(values.history(request, kUser).ok()) << "numbers are everybody's";
  request.set_with_lines(true);
  EXPECT_TRUE(values.history(request).ok());
  EXPECT_TRUE(absl::IsPermissionDenied(values.history(request, kUser).status()));
  auto owned = std::make_shared<ProfileSnapshot>(*ended);
  owned->info.owner = kUser;
  service.set({owned});
  EXPECT_TRUE(values.history(request, kUser).ok());
  EXPECT_TRUE(absl::IsPermissionDenied(values.history(request, ProcessUser{1000, 1001}).status()));
}

TEST(ValuesStream, RefusesWhatMakesNoSense) {
  EXPECT_TRUE(opened(0).ok());
  EXPECT_TRUE(opened(0.01).ok());
  EXPECT_TRUE(opened(3600).ok());
  for (const double period : {-1.0, 0.001, 3601.0, std::nan("")}) {
    EXPECT_TRUE(absl::IsInvalidArgument(opened(period))) << period;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(opened(1, 10))) << "graphs";
}

TEST(ValuesStream, HasTheAnswersOfTheService) {
  FakeService service(std::vector<ProfileSnapshotPtr>{});
  service.values = testing::fixed_report();
  ::memprof::v1::WatchValuesRequest request;
  request.mutable_values()->set_pid(4242);
  auto stream = ValuesStream::open(service, request, 4242);
  ASSERT_TRUE(stream.ok());
  EXPECT_EQ(stream->period(), std::chrono::seconds(1));
  const auto message = stream->next([] { return true; });
  ASSERT_TRUE(message.ok());
  EXPECT_EQ(message->changed().reported_size(), static_cast<int>(service.values.report.all.size()));
  EXPECT_GT(message->unix_ns(), 0);
}

}  // namespace
}  // namespace memprofd
