// SPDX-License-Identifier: Apache-2.0
#include "daemon/state/info_records.h"

#include <cstdint>
#include <optional>

#include "daemon/util/utf8.h"

namespace memprofd {
namespace {

// A value of an enumeration that begins at 0; the first one if the number is invalid.
template <typename Enum>
Enum one_of(int number, Enum last) {
  return number < 0 || number > static_cast<int>(last) ? Enum{} : static_cast<Enum>(number);
}

void put_user(const std::optional<ProcessUser>& user,
              google::protobuf::RepeatedField<std::uint32_t>& out) {
  if (!user) return;
  out.Add(user->uid);
  out.Add(user->gid);
}

std::optional<ProcessUser> get_user(const google::protobuf::RepeatedField<std::uint32_t>& ids) {
  if (ids.size() != 2) return std::nullopt;
  return ProcessUser{ids[0], ids[1]};
}

void put_asked(const TargetInfo& info, state::Info& out) {
  out.set_is_asked(info.is_asked);
  out.set_asked_rate(info.asked.sampling_rate);
  out.set_asked_mode(static_cast<int>(info.asked.mode));
  out.set_asked_no_inject(info.asked.no_inject);
  out.set_asked_follow_forks(info.asked.follow_forks);
  out.set_asked_max_overhead(info.asked.max_overhead.value_or(0));
  out.set_asked_c_heap_interval(info.asked.native_heap_interval.value_or(0));
  put_user(info.asked.user, *out.mutable_asked_user());
}

void get_asked(const state::Info& message, TargetInfo& out) {
  out.is_asked = message.is_asked();
  out.asked = {.pid = message.pid(),
               .sampling_rate = message.asked_rate(),
               .no_inject = message.asked_no_inject(),
               .mode = one_of(message.asked_mode(), AttachMode::kObserve),
               .follow_forks = message.asked_follow_forks(),
               .max_overhead = message.asked_max_overhead(),
               .user = get_user(message.asked_user()),
               .native_heap_interval = message.asked_c_heap_interval()};
}

}  // namespace

void put_info(const TargetInfo& info, state::Info& out) {
  out.set_pid(info.pid);
  out.set_container_pid(info.container_pid);
  out.set_forked_from(info.forked_from);
  out.set_comm(valid_utf8(info.comm));
  out.set_exe(valid_utf8(info.exe));
  out.set_unit(valid_utf8(info.unit));
  out.set_container(valid_utf8(info.container));
  out.set_runtime_version(valid_utf8(info.runtime_version));
  out.set_ocamlrunparam(valid_utf8(info.ocamlrunparam));
  out.set_mode(static_cast<int>(info.mode));
  out.set_capture(info.capture);
  out.set_state(static_cast<int>(info.state));
  out.set_message(valid_utf8(info.message));
  out.set_sampling_rate(info.sampling_rate);
  out.set_budget(info.overhead.budget);
  out.set_overhead(info.overhead.measured);
  out.set_requested_rate(info.overhead.requested_rate);
  out.set_lowered(info.overhead.lowered);
  out.set_raised(info.overhead.raised);
  out.set_attach_seconds(info.attach_seconds);
  out.set_paused_seconds(info.paused_seconds);
  out.set_start_time_ticks(info.program.start_time_ticks);
  out.set_load_bias(info.program.load_bias);
  out.set_device(info.program.file.device);
  out.set_inode(info.program.file.inode);
  out.set_end_cause(static_cast<int>(info.end.cause));
  out.set_end_code(info.end.code);
  put_user(info.owner, *out.mutable_owner());
  put_asked(info, out);
}

TargetInfo get_info(const state::Info& message) {
  TargetInfo info{.pid = message.pid(),
                  .container_pid = message.container_pid(),
                  .forked_from = message.forked_from(),
                  .comm = message.comm(),
                  .exe = message.exe(),
                  .unit = message.unit(),
                  .container = message.container(),
                  .runtime_version = message.runtime_version(),
                  .ocamlrunparam = message.ocamlrunparam(),
                  .mode = one_of(message.mode(), TargetMode::kTrace),
                  .capture = message.capture(),
                  .state = one_of(message.state(), TargetState::kFailed),
                  .message = message.message(),
                  .sampling_rate = message.sampling_rate(),
                  .overhead = {.budget = message.budget(),
                               .measured = message.overhead(),
                               .requested_rate = message.requested_rate(),
                               .lowered = message.lowered(),
                               .raised = message.raised()},
                  .attach_seconds = message.attach_seconds(),
                  .paused_seconds = message.paused_seconds()};
  info.program = {.start_time_ticks = message.start_time_ticks(),
                  .file = {.device = message.device(), .inode = message.inode()},
                  .load_bias = message.load_bias()};
  info.end = {.cause = one_of(message.end_cause(), EndCause::kExec), .code = message.end_code()};
  info.owner = get_user(message.owner());
  get_asked(message, info);
  return info;
}

}  // namespace memprofd
