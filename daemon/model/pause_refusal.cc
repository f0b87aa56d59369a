// SPDX-License-Identifier: Apache-2.0
#include "daemon/model/pause_refusal.h"

#include <cstring>
#include <string>

#include "absl/strings/cord.h"

namespace memprofd {
namespace {

constexpr char kType[] = "memprofd/PauseRefusal";

}  // namespace

absl::Status with_refusal(absl::Status status, const PauseRefusal& refusal) {
  std::string bytes(sizeof refusal, '\0');
  std::memcpy(bytes.data(), &refusal, sizeof refusal);
  status.SetPayload(kType, absl::Cord(bytes));
  return status;
}

std::optional<PauseRefusal> pause_refusal_of(const absl::Status& status) {
  const auto payload = status.GetPayload(kType);
  if (!payload || payload->size() != sizeof(PauseRefusal)) return std::nullopt;
  PauseRefusal refusal;
  const std::string bytes(*payload);
  std::memcpy(&refusal, bytes.data(), sizeof refusal);
  return refusal;
}

absl::Status with_code(const absl::Status& status, absl::StatusCode code) {
  absl::Status out(code, status.message());
  const auto refusal = pause_refusal_of(status);
  return refusal ? with_refusal(out, *refusal) : out;
}

}  // namespace memprofd
