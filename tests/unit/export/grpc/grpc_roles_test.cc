// SPDX-License-Identifier: Apache-2.0
// Every served method either is listed here as a question or requires the right to control. A new
// method is refused to clients with the right to ask only, until it is listed.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <re2/re2.h>

#include <chrono>
#include <memory>
#include <set>

#include "absl/strings/str_cat.h"
#include "daemon/export/grpc/grpc_server.h"
#include "tests/kit/fake_service.h"
#include "tests/kit/temp_dir.h"

namespace memprofd {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::MessageFactory;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// These methods change nothing and reveal no contents of a program.
const std::set<std::string> kQuestions = {
    "memprof.v1.Heaps.ListCensuses",     "memprof.v1.Values.GetValueHistory",
    "memprof.v1.Heaps.ListHeaps",        "memprof.v1.Profiler.DiffSites",
    "memprof.v1.Profiler.GetHistory",    "memprof.v1.Profiler.GetProfile",
    "memprof.v1.Profiler.GetServerInfo", "memprof.v1.Profiler.ListCallers",
    "memprof.v1.Profiler.ListLeaks",     "memprof.v1.Profiler.ListSites",
    "memprof.v1.Profiler.ListTargets",   "memprof.v1.Profiler.StreamEvents",
    "memprof.v1.Profiler.StreamProfile", "memprof.v1.Profiler.WatchSites",
    "memprof.v1.Trace.ListTraces",       "memprof.v1.Trace.Record",
    "memprof.v1.Trace.EndRecording",
};

struct Answer {
  grpc::StatusCode code = grpc::StatusCode::OK;  // when there is a message
  std::string message = {};                      // the first
};

// Calls a method of any kind. A stream need not end for it.
Answer ask(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
           const std::string& request) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  grpc::CompletionQueue queue;
  const auto done = [&] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  const auto call = stub.PrepareCall(&context, method, &queue);
  const grpc::Slice slice(request);
  call->StartCall(nullptr);
  (void)done();
  call->Write(grpc::ByteBuffer(&slice, 1), nullptr);
  (void)done();
  grpc::ByteBuffer got;
  call->Read(&got, nullptr);
  Answer answer;
  grpc::Slice bytes;
  const bool read = done() && got.DumpToSingleSlice(&bytes).ok();
  if (read) answer.message.assign(reinterpret_cast<const char*>(bytes.begin()), bytes.size());
  if (read) context.TryCancel();
  grpc::Status status;
  call->Finish(&status, nullptr);
  (void)done();
  if (!read) answer.code = status.error_code();
  return answer;
}

// A request that names this program, if the type has a field for one.
std::unique_ptr<Message> request_about(const Descriptor& type, int pid) {
  std::unique_ptr<Message> request(MessageFactory::generated_factory()->GetPrototype(&type)->New());
  if (const FieldDescriptor* field = type.FindFieldByName("pid")) {
    request->GetReflection()->SetInt32(request.get(), field, pid);
  }
  for (const char* name : {"options", "snapshot"}) {
    const FieldDescriptor* part = type.FindFieldByName(name);
    if (part == nullptr) continue;
    const auto inner = request_about(*part->message_type(), pid);
    request->GetReflection()->MutableMessage(request.get(), part)->CopyFrom(*inner);
  }
  return request;
}

class GrpcRoles : public ::testing::Test {
 protected:
  static constexpr int kPid = 4242;

  GrpcRoles() {
    auto server = GrpcServer::start({socket_, "127.0.0.1:0"}, service_, traces_);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  static std::shared_ptr<grpc::Channel> channel(const std::string& address) {
    return grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
  }
  // Users that may only ask, and those that may control.
  std::shared_ptr<grpc::Channel> over_tcp() const {
    return channel(absl::StrCat("127.0.0.1:", server_->port()));
  }
  std::shared_ptr<grpc::Channel> over_the_socket() const { return channel("unix:" + socket_); }

  // Each method of memprofd's services that reflection reports.
  std::vector<const google::protobuf::MethodDescriptor*> methods() const {
    std::set<std::string> names;
    const std::string told =
        ask(over_tcp(), "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
            std::string("\x3a\x00", 2))
            .message;
    re2::StringPiece rest(told);
    for (std::string name; RE2::FindAndConsume(&rest, "(memprof\\.v1\\.\\w+)", &name);) {
      names.insert(name);
    }
    EXPECT_THAT(names, SizeIs(6));
    std::vector<const google::protobuf::MethodDescriptor*> out;
    for (const std::string& name : names) {
      const auto* service = DescriptorPool::generated_pool()->FindServiceByName(name);
      EXPECT_NE(service, nullptr) << name;
      for (int i = 0; service != nullptr && i < service->method_count(); ++i) {
        out.push_back(service->method(i));
      }
    }
    return out;
  }
  static Answer call(const std::shared_ptr<grpc::Channel>& channel,
                     const google::protobuf::MethodDescriptor& method) {
    return ask(channel, absl::StrCat("/", method.service()->full_name(), "/", method.name()),
               request_about(*method.input_type(), kPid)->SerializeAsString());
  }

  const TempDir dir_;
  const std::string socket_ = dir_.path("memprofd.sock");
  testing::FakeService service_{{testing::fixed_target(kPid)}};
  TraceService traces_{service_, {}};
  std::unique_ptr<GrpcServer> server_;
};

TEST_F(GrpcRoles, AClientThatMayOnlyAskIsRefusedEverythingElse) {
  const auto channel = over_tcp();
  std::set<std::string> answered;
  for (const auto* method : methods()) {
    if (call(channel, *method).code != grpc::StatusCode::PERMISSION_DENIED) {
      answered.insert(method->full_name());
    }
    EXPECT_THAT(service_.calls(), IsEmpty()) << method->full_name();
  }
  EXPECT_EQ(answered, kQuestions);
}

TEST_F(GrpcRoles, AClientThatMayControlIsRefusedNothing) {
  const auto channel = over_the_socket();
  for (const auto* method : methods()) {
    EXPECT_NE(call(channel, *method).code, grpc::StatusCode::PERMISSION_DENIED)
        << method->full_name();
  }
  EXPECT_THAT(service_.calls(), ::testing::Not(IsEmpty()));
}

}  // namespace
}  // namespace memprofd
