// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/grpc/grpc_status.h"

#include <google/protobuf/any.pb.h>
#include <google/protobuf/unknown_field_set.h>
#include <gtest/gtest.h>

#include "daemon/export/api/refusal_details.h"
#include "daemon/model/pause_refusal.h"
#include "memprof/v1/profiler.pb.h"

namespace memprofd {
namespace {

TEST(GrpcStatusTest, KeepsCodeAndText) {
  EXPECT_TRUE(to_grpc(absl::OkStatus()).ok());
  const grpc::Status status = to_grpc(absl::NotFoundError("no pid 42"));
  EXPECT_EQ(grpc::StatusCode::NOT_FOUND, status.error_code());
  EXPECT_EQ("no pid 42", status.error_message());
  EXPECT_EQ("", status.error_details());
}

// A google.rpc.Status: 1 code, 2 message, 3 details.
TEST(GrpcStatusTest, APauseThatIsTooLongHasItsNumbersAsDetails) {
  const absl::Status refused = with_refusal(absl::FailedPreconditionError("too long"),
                                            {.predicted_seconds = 0.08, .allowed_seconds = 0.05});
  const grpc::Status status = to_grpc(refused);
  EXPECT_EQ("too long", status.error_message());
  google::protobuf::UnknownFieldSet fields;
  ASSERT_TRUE(fields.ParseFromString(status.error_details()));
  ASSERT_EQ(3, fields.field_count());
  EXPECT_EQ(static_cast<std::uint64_t>(grpc::StatusCode::FAILED_PRECONDITION),
            fields.field(0).varint());
  EXPECT_EQ("too long", fields.field(1).length_delimited());
  google::protobuf::Any any;
  ASSERT_TRUE(any.ParseFromString(fields.field(2).length_delimited()));
  ::memprof::v1::PauseRefused told;
  ASSERT_TRUE(any.UnpackTo(&told));
  EXPECT_EQ(0.08, told.predicted_seconds());
  EXPECT_EQ(0.05, told.allowed_seconds());
  EXPECT_EQ(0.16, told.enough_seconds());
}

TEST(GrpcStatusTest, ClientsReadTheRefusalOfTheDetails) {
  const PauseRefusal sent{.predicted_seconds = 0.08, .allowed_seconds = 0.05};
  const auto read =
      refusal_in(to_grpc(with_refusal(absl::OutOfRangeError("too long"), sent)).error_details());
  ASSERT_TRUE(read);
  EXPECT_EQ(sent.predicted_seconds, read->predicted_seconds);
  EXPECT_EQ(sent.allowed_seconds, read->allowed_seconds);
  EXPECT_FALSE(refusal_in(to_grpc(absl::NotFoundError("no pid 42")).error_details()));
  for (const char* details : {"x", "\x1a\x01x", "\x18\x01", "\x1a\x03\x0a\x01x"}) {
    EXPECT_FALSE(refusal_in(details)) << details;
  }
}

}  // namespace
}  // namespace memprofd
