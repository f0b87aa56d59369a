// SPDX-License-Identifier: Apache-2.0
// Values of a running program of the same user, read by this process: no memprofd, no privileges,
// and the program is not stopped.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "daemon/values/value_program.h"
#include "memprof/v1/values.pb.h"

namespace memprofd {

// Owned by one thread.
class OwnValues {
 public:
  // Errors of discover_own_process().
  static absl::StatusOr<OwnValues> open(int pid);

  // As memprofd answers it; wanted: returns true while the answer is awaited. Errors of
  // ValuesService::list_values(); kNotFound: the program has ended, or runs another one.
  absl::StatusOr<::memprof::v1::ListValuesResponse> list(
      const ::memprof::v1::ListValuesRequest& request, const std::function<bool()>& wanted);

 private:
  explicit OwnValues(std::unique_ptr<ValueProgram> program) : program_(std::move(program)) {}

  std::unique_ptr<ValueProgram> program_;
};

}  // namespace memprofd
