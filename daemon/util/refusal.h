// SPDX-License-Identifier: Apache-2.0
// A machine-readable reason why a program cannot be profiled. A status carries it along with the
// message for people.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/cord.h"

namespace memprofd {

enum class Refusal {
  kOther,      // the message explains it
  kNotOcaml,   // no OCaml runtime in its file
  kBytecode,   // OCaml, not compiled by ocamlopt
  kVersion,    // unsupported version of OCaml
  kNoSymbols,  // symbols were stripped
  kTooYoung,   // its runtime has not started yet
  kSeccomp,    // a filter forbids the injection
};

inline constexpr std::string_view kRefusalPayload = "memprofd/refusal";

// Creates a kFailedPrecondition status with that reason.
inline absl::Status refused(Refusal reason, std::string message) {
  absl::Status status = absl::FailedPreconditionError(std::move(message));
  status.SetPayload({kRefusalPayload.data(), kRefusalPayload.size()},
                    absl::Cord(std::string(1, static_cast<char>(reason))));
  return status;
}

inline Refusal refusal_of(const absl::Status& status) {
  const auto payload = status.GetPayload({kRefusalPayload.data(), kRefusalPayload.size()});
  return payload && !payload->empty() ? static_cast<Refusal>((*payload)[0]) : Refusal::kOther;
}

// Replaces the message of an error and keeps its code and payloads.
inline absl::Status reworded(const absl::Status& status, std::string message) {
  absl::Status out(status.code(), std::move(message));
  status.ForEachPayload(
      [&](absl::string_view url, const absl::Cord& payload) { out.SetPayload(url, payload); });
  return out;
}

}  // namespace memprofd
